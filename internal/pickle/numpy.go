package pickle

import (
	"encoding/binary"
	"math"
	"math/big"

	"unseen/internal/kern"
)

// DType is the type of an array's elements.
type DType struct {
	Code string // as NumPy writes it without the order: "f4", "i8", "b1", "O"
	Big  bool   // the highest byte comes first
	Odd  string // why the elements cannot be read: fields, a shape, a subclass; empty when they can
}

// Array is a NumPy array. Its zero value is one that was announced and never filled.
type Array struct {
	DType   *DType
	Shape   []int
	Fortran bool   // the first index runs fastest
	Data    []byte // the elements as they lie in the pickle
	Objects []any  // the elements of an array of objects (dtype "O"), in C order
}

func newDType(args *Tuple) (*DType, error) {
	if len(args.Items) == 0 {
		return nil, wrongf("a dtype without a code")
	}
	code, is := args.Items[0].(string)
	if b, raw := args.Items[0].([]byte); raw {
		code, is = string(b), true
	}
	if !is || code == "" {
		return nil, wrongf("a dtype of %s", Describe(args.Items[0]))
	}
	d := &DType{Code: code}
	switch code[0] {
	case '>':
		d.Big = true
		fallthrough
	case '<', '|', '=':
		d.Code = code[1:]
	}
	return d, nil
}

// build takes (version, order, subdtype, names, fields, size, alignment, flags).
func (d *DType) build(state any) error {
	t, is := state.(*Tuple)
	if !is || len(t.Items) < 5 {
		return wrongf("a dtype is told to be %s", Describe(state))
	}
	switch order := t.Items[1].(type) {
	case string:
		d.Big = order == ">"
	case []byte:
		d.Big = string(order) == ">"
	}
	switch {
	case t.Items[2] != nil:
		d.Odd = "its elements are arrays themselves"
	case t.Items[3] != nil:
		d.Odd = "its elements have named fields"
	}
	return nil
}

// size returns the bytes of an element, or 0 where they cannot be read.
func (d *DType) size() int {
	if d.Odd != "" || len(d.Code) != 2 {
		return 0
	}
	switch d.Code {
	case "f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1":
		return int(d.Code[1] - '0')
	}
	return 0
}

func (d *DType) check() error {
	switch {
	case d.Odd != "":
		return wrongf("an array of dtype %.20q: %s; write plain numbers", d.Code, d.Odd)
	case d.size() == 0:
		return wrongf("an array of dtype %.20q; write float16, 32 or 64, an int or bool", d.Code)
	}
	return nil
}

func (d *DType) order() binary.ByteOrder {
	if d.Big {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// maxAxes is NumPy's.
const maxAxes = 64

func shapeOf(v any) ([]int, int, error) {
	t, is := v.(*Tuple)
	if !is || len(t.Items) > maxAxes {
		return nil, 0, wrongf("the shape of an array is %s", Describe(v))
	}
	shape, n := make([]int, len(t.Items)), 1
	for k, item := range t.Items {
		size, is := whole(item)
		if !is || size < 0 || size > math.MaxInt32*1024 || size > 0 && n > math.MaxInt/8/int(size) {
			return nil, 0, wrongf("the shape of an array is %s", Describe(v))
		}
		shape[k], n = int(size), n*int(size)
	}
	return shape, n, nil
}

// build takes (version, shape, dtype, is Fortran, data); version 0 left the first away.
func (a *Array) build(state any) error {
	t, is := state.(*Tuple)
	if !is || len(t.Items) != 5 && len(t.Items) != 4 {
		return wrongf("an array is told to be %s", Describe(state))
	}
	part := t.Items[len(t.Items)-4:]
	fortran, _ := part[2].(bool)
	if n, number := part[2].(int64); number {
		fortran = n != 0
	}
	return a.set(part[0], part[1], fortran, part[3])
}

func (a *Array) set(shape, dtype any, fortran bool, data any) error {
	sizes, n, err := shapeOf(shape)
	if err != nil {
		return err
	}
	d, is := dtype.(*DType)
	if !is {
		return wrongf("the dtype of an array is %s", Describe(dtype))
	}
	next := Array{DType: d, Shape: sizes, Fortran: fortran && len(sizes) > 1}
	switch data := data.(type) {
	case []byte:
		next.Data = data
	case string: // Python 2's str
		next.Data = []byte(data)
	case *List:
		if d.Code != "O" && d.Code != "O8" && d.Code != "O4" || len(data.Items) != n {
			return wrongf("an array of shape %v and dtype %.20q holds a list of %d", sizes, d.Code, len(data.Items))
		}
		next.Objects = data.Items
		*a = next
		return nil
	default:
		return wrongf("an array holds %s", Describe(data))
	}
	if size := d.size(); size > 0 && n*size != len(next.Data) {
		return wrongf("an array of shape %v and dtype %q needs %d bytes and has %d", sizes, d.Code, n*size,
			len(next.Data))
	}
	*a = next
	return nil
}

// fromBuffer is NumPy's function of protocol 5: (bytes, dtype, shape, order).
func fromBuffer(args *Tuple) (any, error) {
	if len(args.Items) != 4 {
		return nil, wrongf("an array is made of %d parts instead of 4", len(args.Items))
	}
	order, is := args.Items[3].(string)
	if !is || order != "C" && order != "F" {
		return nil, wrongf("the order of an array is %s", Describe(args.Items[3]))
	}
	a := &Array{}
	return a, a.set(args.Items[2], args.Items[1], order == "F", args.Items[0])
}

// scalar is NumPy's function that makes one number: (dtype, bytes).
func scalar(args *Tuple) (any, error) {
	if len(args.Items) != 2 {
		return nil, wrongf("a number is made of %d parts instead of 2", len(args.Items))
	}
	d, is := args.Items[0].(*DType)
	if !is {
		return nil, wrongf("the dtype of a number is %s", Describe(args.Items[0]))
	}
	var data []byte
	switch b := args.Items[1].(type) {
	case []byte:
		data = b
	case string:
		data = []byte(b)
	default:
		return nil, wrongf("a number is made of %s", Describe(b))
	}
	if d.size() == 0 || len(data) != d.size() {
		// Texts, dates and the like: kept as they are, for whoever knows what to do with them.
		return &Object{Global: Global{Module: "numpy", Name: d.Code}, Args: args}, nil
	}
	one := Array{DType: d, Data: data}
	switch d.Code[0] {
	case 'f':
		return one.float(0), nil
	case 'b':
		return data[0] != 0, nil
	}
	return one.int(0), nil
}

// Len returns the number of elements.
func (a *Array) Len() int {
	if a.DType == nil {
		return 0
	}
	n := 1
	for _, size := range a.Shape {
		n *= size
	}
	return n
}

func (a *Array) readable() error {
	if a.DType == nil {
		return wrongf("an array that was never filled")
	}
	return a.DType.check()
}

// Float32s returns the elements in C order.
func (a *Array) Float32s() ([]float32, error) {
	if err := a.readable(); err != nil {
		return nil, err
	}
	out := make([]float32, a.Len())
	a.fill(out)
	return out, nil
}

// FillFloat32s writes the elements in C order to out, which must have their number.
func (a *Array) FillFloat32s(out []float32) error {
	if err := a.readable(); err != nil {
		return err
	}
	if len(out) != a.Len() {
		return wrongf("an array of shape %v where %d numbers must be", a.Shape, len(out))
	}
	a.fill(out)
	return nil
}

func (a *Array) fill(out []float32) {
	if a.Fortran {
		a.each(func(to, from int) { out[to] = float32(a.float(from)) })
		return
	}
	if a.DType.Code == "f4" && !a.DType.Big {
		for k := range out {
			out[k] = math.Float32frombits(binary.LittleEndian.Uint32(a.Data[4*k:]))
		}
		return
	}
	for k := range out {
		out[k] = float32(a.float(k))
	}
}

// Float64s returns the elements in C order.
func (a *Array) Float64s() ([]float64, error) {
	if err := a.readable(); err != nil {
		return nil, err
	}
	out := make([]float64, a.Len())
	a.each(func(to, from int) { out[to] = a.float(from) })
	return out, nil
}

// Int64s returns the elements in C order. Elements that are not whole numbers, or do not fit, are an error.
func (a *Array) Int64s() ([]int64, error) {
	if err := a.readable(); err != nil {
		return nil, err
	}
	out := make([]int64, a.Len())
	var wrong error
	a.each(func(to, from int) {
		if a.DType.Code[0] == 'f' {
			f := a.float(from)
			if out[to] = int64(f); float64(out[to]) != f || math.Abs(f) > 1<<53 {
				wrong = wrongf("element %d of an array is %v, where a whole number must be", to, f)
			}
			return
		}
		v := a.int(from)
		n, fits := v.(int64)
		if !fits {
			wrong = wrongf("element %d of an array is %v, which is too large", to, v)
		}
		out[to] = n
	})
	return out, wrong
}

// each calls f for every element: where it lies in C order, and where in Data.
func (a *Array) each(f func(to, from int)) {
	n := a.Len()
	if !a.Fortran {
		for k := range n {
			f(k, k)
		}
		return
	}
	index := make([]int, len(a.Shape))
	for to := range n {
		from, stride := 0, 1
		for k, i := range index {
			from += i * stride
			stride *= a.Shape[k]
		}
		f(to, from)
		for k := len(index) - 1; k >= 0; k-- {
			if index[k]++; index[k] < a.Shape[k] {
				break
			}
			index[k] = 0
		}
	}
}

// float returns an element as it lies in Data.
func (a *Array) float(at int) float64 {
	order := a.DType.order()
	switch a.DType.Code {
	case "f2":
		var out [1]float32
		kern.FromHalf(out[:], []uint16{order.Uint16(a.Data[2*at:])})
		return float64(out[0])
	case "f4":
		return float64(math.Float32frombits(order.Uint32(a.Data[4*at:])))
	case "f8":
		return math.Float64frombits(order.Uint64(a.Data[8*at:]))
	case "u8":
		return float64(order.Uint64(a.Data[8*at:]))
	}
	n, _ := a.int(at).(int64)
	return float64(n)
}

// int returns an element as it lies in Data: an int64, or a *big.Int that does not fit.
func (a *Array) int(at int) any {
	order := a.DType.order()
	switch a.DType.Code {
	case "i1":
		return int64(int8(a.Data[at]))
	case "u1":
		return int64(a.Data[at])
	case "b1":
		if a.Data[at] != 0 {
			return int64(1)
		}
		return int64(0)
	case "i2":
		return int64(int16(order.Uint16(a.Data[2*at:])))
	case "u2":
		return int64(order.Uint16(a.Data[2*at:]))
	case "i4":
		return int64(int32(order.Uint32(a.Data[4*at:])))
	case "u4":
		return int64(order.Uint32(a.Data[4*at:]))
	case "u8":
		if n := order.Uint64(a.Data[8*at:]); n > math.MaxInt64 {
			return new(big.Int).SetUint64(n)
		}
	}
	return int64(order.Uint64(a.Data[8*at:]))
}
