package kern

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"unsafe"
)

const (
	codePad   = 64 // bytes of a coded row are padded to this, a cache line
	codeRows  = 16 // and rows to this, so that the kernels meet no tail
	codeZero  = 128
	codeMost  = 127
	maxCodes  = 1 << 15 // elements of a row: the sums of more might not fit
	restSteps = 128     // of the low part of a query in one step of the high part
	codedRows = 1024    // are turned at a time
)

// A query of two bytes per element is off by no more than this share of its length, unless it is a strange one.
const queryRest = 0x1p-13

// Codes is a copy of a matrix in a byte per element, with which every inner product is known within a bound that is a
// hundredth of what it can be: enough to tell which few rows may be among the best. Rows are turned by a fixed
// rotation, which changes no inner product and leaves no element much larger than the others; turned row i is
// scale_i·(code − 128), where scale_i is its largest magnitude over 127, and a rest of a known length. Like those of a
// Matrix, its bytes live off the Go heap.
type Codes struct {
	rows, dim, stride int
	turn              rotation
	bytes             []uint8
	scales            []float32 // of the padding 0
	// rests are how long at most the rest of a row is; with what rounding adds, and what the rest of a query does. They
	// are infinite for rows that are not finite or too large, of which nothing is known.
	rests []float32
	norms []float32 // how long at most a coded row is, with its rest
	mosts []float32 // the largest rest of every scanRows rows

	closing sync.Once
	memory  *mapping
	cleanup runtime.Cleanup
}

// Quantise makes the codes of a matrix.
func Quantise(m *Matrix, threads int) (*Codes, error) {
	if m.dim > maxCodes {
		return nil, fmt.Errorf("%w: rows of %d elements; codes have at most %d", ErrSize, m.dim, maxCodes)
	}
	c := &Codes{rows: m.rows, dim: m.dim, stride: max(roundUp(m.dim, codePad), codePad), turn: newRotation(m.dim)}
	padded := roundUp(m.rows, codeRows)
	c.scales, c.rests, c.norms = make([]float32, padded), make([]float32, padded), make([]float32, padded)
	if padded == 0 {
		return c, nil
	}
	size, err := byteSize(padded, c.stride, 1)
	if err != nil {
		return nil, fmt.Errorf("%w: %d×%d codes", err, m.rows, m.dim)
	}
	bytes, err := mapAnonymous(size)
	if err != nil {
		return nil, fmt.Errorf("cannot allocate %d bytes for the codes of a %d×%d matrix: %w", size, m.rows,
			m.dim, err)
	}
	c.memory = &mapping{bytes: bytes}
	c.bytes = unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(bytes))), size)
	c.cleanup = runtime.AddCleanup(c, func(memory *mapping) { memory.release() }, c.memory)
	Chunks(m.rows, codedRows, threads, func(_, _, from, to int) {
		room := Borrow((to - from) * m.dim)
		defer GiveBack(room)
		rows, err1 := m.Slice(from, to)
		turned, err2 := View(room.Data, to-from, m.dim, m.dim)
		if err1 != nil || err2 != nil {
			panic(fmt.Sprint(err1, err2)) // the rows are m's own
		}
		MulT(turned, rows, c.turn.matrix)
		for i := from; i < to; i++ {
			c.set(i, turned.Row(i-from))
		}
	})
	c.findMosts()
	runtime.KeepAlive(m)
	return c, nil
}

// CodeParts is what codes are kept in. Rows are padded to 16, and their bytes to 64.
type CodeParts struct {
	Rows, Dim            int
	Bytes                []uint8
	Scales, Rests, Norms []float32
}

// CodeSizes returns how many bytes and how many numbers of each kind the codes of so many rows have.
func CodeSizes(rows, dim int) (bytes, numbers int, err error) {
	if rows < 0 || dim < 0 || dim > maxCodes {
		return 0, 0, fmt.Errorf("%w: codes of %d×%d", ErrSize, rows, dim)
	}
	numbers = roundUp(rows, codeRows)
	bytes, err = byteSize(numbers, max(roundUp(dim, codePad), codePad), 1)
	return bytes, numbers, err
}

// Parts returns what the codes are kept in, to be stored. It is the codes' own.
func (c *Codes) Parts() CodeParts {
	return CodeParts{c.rows, c.dim, c.bytes, c.scales, c.rests, c.norms}
}

// CodesFrom returns the codes that were stored, in the memory of the parts.
func CodesFrom(p CodeParts) (*Codes, error) {
	bytes, numbers, err := CodeSizes(p.Rows, p.Dim)
	if err != nil {
		return nil, err
	}
	if len(p.Bytes) != bytes || len(p.Scales) != numbers || len(p.Rests) != numbers || len(p.Norms) != numbers {
		return nil, fmt.Errorf("%w: codes of %d×%d in %d bytes and %d numbers", ErrSize, p.Rows, p.Dim, len(p.Bytes),
			len(p.Scales))
	}
	c := &Codes{rows: p.Rows, dim: p.Dim, stride: max(roundUp(p.Dim, codePad), codePad), turn: newRotation(p.Dim),
		bytes: p.Bytes, scales: p.Scales, rests: p.Rests, norms: p.Norms}
	c.findMosts()
	return c, nil
}

// findMosts finds the largest rest of every scanRows rows.
func (c *Codes) findMosts() {
	for from := 0; from < c.rows; from += scanRows {
		c.mosts = append(c.mosts, slices.Max(c.rests[from:min(from+scanRows, c.rows)]))
	}
}

// rounding bounds by how much, in parts of the product of their lengths, an inner product of so many float32 numbers
// that was computed from rows and queries, or from turned and coded ones, is off for rounding alone: each of those adds
// up as many products as there are elements, and each addition rounds.
func rounding(dim int) float64 { return 4 * float64(dim+64) * 0x1p-24 }

// rotation is an orthogonal map: signs and sums and differences of pairs, pairs of pairs, and so on, over the first and
// then the last 2^k elements, twice. It is the same for every matrix of so many columns.
type rotation struct {
	signs  [4][]float64
	matrix *Matrix // the same, by its rows
}

func newRotation(dim int) rotation {
	random := rand.New(rand.NewPCG(uint64(dim), 0xc0de5))
	var r rotation
	for k := range r.signs {
		r.signs[k] = make([]float64, dim)
		for d := range r.signs[k] {
			r.signs[k][d] = float64(int(random.Uint64()&1)*2 - 1)
		}
	}
	var err error
	if r.matrix, err = NewMatrix(dim, dim); err != nil {
		panic(err) // of maxCodes² at most
	}
	x := make([]float64, dim)
	for column := range dim {
		clear(x)
		x[column] = 1
		r.turn(x)
		for row, v := range x {
			r.matrix.Row(row)[column] = float32(v)
		}
	}
	return r
}

// turn rotates a vector.
func (r rotation) turn(x []float64) {
	power := 1 << max(bits.Len(uint(len(x)))-1, 0)
	for k, s := range r.signs {
		for d := range x {
			x[d] *= s[d]
		}
		from := k % 2 * (len(x) - power)
		mix(x[from:min(from+power, len(x))])
	}
}

// mix is the Walsh–Hadamard transform of 2^k numbers, which keeps lengths.
func mix(x []float64) {
	half := 1
	for ; 4*half <= len(x); half *= 4 { // pairs, and pairs of those, at once
		for from := 0; from < len(x); from += 4 * half {
			part := x[from:][:4*half]
			a, b, c, d := part[:half], part[half:][:half], part[2*half:][:half], part[3*half:][:half]
			for k := range a {
				p, q, r, s := a[k]+b[k], a[k]-b[k], c[k]+d[k], c[k]-d[k]
				a[k], b[k], c[k], d[k] = p+r, q+s, p-r, q-s
			}
		}
	}
	if half < len(x) {
		a, b := x[:half], x[half:][:half]
		for k := range a {
			a[k], b[k] = a[k]+b[k], a[k]-b[k]
		}
	}
	scale := 1 / math.Sqrt(float64(len(x)))
	for k := range x {
		x[k] *= scale
	}
}

// set codes a turned row.
func (c *Codes) set(i int, row []float32) {
	most := largest(row)
	out := c.bytes[i*c.stride:][:c.stride]
	if !(most <= mostCoded) {
		for d := range out {
			out[d] = codeZero
		}
		infinite := float32(math.Inf(1))
		c.scales[i], c.rests[i], c.norms[i] = 0, infinite, infinite
		return
	}
	scale := float32(most / codeMost)
	factor := 0.0
	if scale > 0 {
		factor = 1 / float64(scale)
	}
	c.scales[i] = scale
	scale64 := float64(scale)
	var rest, norm float64
	for d, x := range row {
		// the conversions keep other processors from fusing two operations: codes are the same everywhere
		code := int32(float64(float64(x)*factor) + (codeZero + .5)) // from 1 to 255
		out[d] = uint8(code)
		e := float64(x) - float64(scale64*float64(code-codeZero))
		rest += float64(e * e)
		norm += float64(float64(x) * float64(x))
	}
	for d := len(row); d < len(out); d++ {
		out[d] = codeZero
	}
	rest, norm = math.Sqrt(rest), math.Sqrt(norm)
	whole := (norm + 2*rest) * (1 + 0x1p-20)
	c.norms[i] = above32(whole)
	c.rests[i] = above32((rest + (rounding(c.dim)+queryRest)*whole) * (1 + 0x1p-20))
}

// above32 is the least float32 number that is not below x.
func above32(x float64) float32 {
	y := float32(x)
	if float64(y) < x {
		return math.Nextafter32(y, float32(math.Inf(1)))
	}
	return y
}

// Rows returns the number of rows; 0 after Close.
func (c *Codes) Rows() int { return c.rows }

// Bytes returns how much memory the codes take.
func (c *Codes) Bytes() int { return len(c.bytes) + 12*len(c.scales) + 4*len(c.turn.matrix.f32) }

// Close gives the memory back. Later use finds no rows; closing again does nothing.
func (c *Codes) Close() error {
	var err error
	c.closing.Do(func() {
		c.rows, c.bytes, c.scales, c.rests, c.norms = 0, nil, nil, nil, nil
		if c.memory != nil {
			c.cleanup.Stop()
			err = c.memory.release()
		}
	})
	return err
}

// coded is a query as two bytes per element, turned q ≈ step·(128·high + low): with one byte the bound would be twice
// as wide. What the rows' zero of 128 adds to the sums is known beforehand.
type coded struct {
	high, low         []int8
	highZero, lowZero int32
	step              float32
	reach             float32 // inner products are known within this times a row's rest; see Codes.rests
}

// Numbers beyond these magnitudes are not coded: products might be too large or too small for float32. What is lost to
// the smallest of them is less than leastSlack.
const (
	mostCoded  = 0x1p50
	leastQuery = 0x1p-50
	leastSlack = 0x1p-100
)

// largest returns the largest magnitude; infinite or no number if one of the numbers is.
func largest(row []float32) float64 {
	var bits uint32 // those of numbers without a sign are in their order
	for _, x := range row {
		bits = max(bits, math.Float32bits(x)&^(1<<31))
	}
	return float64(math.Float32frombits(bits))
}

// codable reports whether a query can be coded.
func codable(q []float32) bool {
	most := largest(q)
	return most >= leastQuery && most <= mostCoded
}

// turned returns a query as the codes see it.
func (c *Codes) turned(q []float32) []float32 {
	x := make([]float64, c.dim)
	for d, v := range q {
		x[d] = float64(v)
	}
	c.turn.turn(x)
	out := make([]float32, c.dim)
	for d, v := range x {
		out[d] = float32(v)
	}
	return out
}

// split codes a turned query in whole steps of which the largest element has so many, and returns them with the length
// of the query and of the rest.
func split(q []float32, most float64) (steps []int32, step float32, norm, rest float64) {
	step = float32(largest(q) / most)
	steps = make([]int32, len(q))
	size, inverse, bound := float64(step), 1/float64(step), int32(most)
	for d, x32 := range q {
		x := float64(x32)
		z := float64(x * inverse)
		s := min(max(int32(z+math.Copysign(.5, z)), -bound), bound)
		e := x - float64(size*float64(s))
		rest += float64(e * e)
		norm += float64(x * x)
		steps[d] = s
	}
	return steps, step, math.Sqrt(norm) * (1 + 0x1p-20), math.Sqrt(rest) * (1 + 0x1p-20)
}

// codeQuery codes a query that is codable.
func (c *Codes) codeQuery(q []float32) coded {
	out := coded{high: make([]int8, c.stride), low: make([]int8, c.stride)}
	steps, step, norm, rest := split(c.turned(q), codeMost*restSteps)
	for d, whole := range steps {
		high := (whole + restSteps/2) >> 7
		out.high[d], out.low[d] = int8(high), int8(whole-restSteps*high)
		out.highZero += codeZero * high
		out.lowZero += codeZero * (whole - restSteps*high)
	}
	out.step = step
	out.reach = above32(max(norm, rest/queryRest) * (1 + 0x1p-18))
	return out
}

// codeRoom is what the scan of codes needs per thread.
type codeRoom struct {
	high, low []int32
	scores    []float32
}

func newCodeRoom() codeRoom {
	return codeRoom{make([]int32, scanRows), make([]int32, scanRows), make([]float32, scanRows)}
}

// scores sets dst to the approximate scores of the rows from `from` on, which is a multiple of codeRows. dst is padded
// to such a multiple too.
func (c *Codes) scores(dst []float32, room *codeRoom, q coded, from int) {
	n := len(dst)
	dotCodes(room.high[:n], room.low[:n], q.high, q.low, c.bytes[from*c.stride:][:n*c.stride], c.stride)
	scaleCodes(dst, room.high[:n], room.low[:n], c.scales[from:][:n], &q)
}

func dotCodesGo(high, low []int32, q, rest []int8, base []uint8, stride int) {
	for k := range high {
		row := base[k*stride:][:stride]
		q, rest := q[:len(row)], rest[:len(row)]
		var a, b int32
		for d, x := range row {
			a += int32(q[d]) * int32(x)
			b += int32(rest[d]) * int32(x)
		}
		high[k], low[k] = a, b
	}
}

func scaleCodesGo(dst []float32, high, low []int32, scales []float32, q *coded) {
	for k := range dst {
		// the product by 128 is exact, fused or not
		dst[k] = float32(scales[k]*q.step) * (restSteps*float32(high[k]-q.highZero) + float32(low[k]-q.lowZero))
	}
}
