package dataset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"unseen/graph"
	"unseen/internal/atomicfile"
	"unseen/internal/kern"
)

// MapVectors maps the vectors of an .npy file that NumPy or Write wrote: float32 or float16, one row per
// vector, C order. Nothing is read but the header; Vectors.Check reads the rest. The file must not be
// changed or shortened while the vectors are in use.
func MapVectors(path string) (*graph.Vectors, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fileError(path, atomicfile.WithoutPath(err), "name an .npy file that can be read")
	}
	defer file.Close()
	v, _, err := mapVectors(file, path)
	return v, err
}

func mapVectors(file *os.File, path string) (*graph.Vectors, npyHeader, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, npyHeader{}, fileError(path, atomicfile.WithoutPath(err), "")
	}
	h, err := readNpyHeader(io.NewSectionReader(file, 0, info.Size()), info.Size())
	if err != nil {
		return nil, npyHeader{}, npyError(path, err)
	}
	v, err := graph.MapVectors(file, h.offset, h.rows, h.dim, h.half)
	if err != nil {
		return nil, npyHeader{}, fileError(path, err, "free memory, or copy the file to a disk of this machine")
	}
	return v, h, nil
}

// npyHeader says what lies behind the header of an .npy file:
//
//	"\x93NUMPY" │ version │ length │ {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }  \n │ rows
//	     6           2       2 or 4                           length bytes                             offset
type npyHeader struct {
	half      bool
	rows, dim int
	offset    int64
}

const npyMagic = "\x93NUMPY"

// longestNpyHeader is a hundred times what NumPy itself accepts.
const longestNpyHeader = 1 << 20

// npyFault is what is wrong with an .npy file, and what fixes it.
type npyFault struct{ what, fix string }

func (f *npyFault) Error() string { return f.what }

func (f *npyFault) Unwrap() error { return ErrFormat }

func npyError(path string, err error) error {
	if f, ok := errors.AsType[*npyFault](err); ok {
		return fileError(path, fmt.Errorf("%w: %s", ErrFormat, f.what), f.fix)
	}
	return fileError(path, atomicfile.WithoutPath(err), "")
}

// Fixes that faults share, as lines of Python.
const (
	fixSave    = `save it again: np.save("vectors.npy", vectors)`
	fixFloat32 = `save float32: np.save("vectors.npy", vectors.astype(np.float32))`
	fixCOrder  = `save it in C order: np.save("vectors.npy", np.ascontiguousarray(vectors))`
	fixRows    = `save one row per node: np.save("vectors.npy", vectors.reshape(nodes, -1))`
)

// NpyHeader is what the header of an .npy file says of its numbers.
type NpyHeader struct {
	Kind    string // as NumPy writes it: "<f4" is float32, little-endian
	Fortran bool   // column after column
	Shape   []int64
	Bytes   int64 // length of the header; numbers begin behind it
}

// ReadNpyHeader reads the header of an .npy file with numbers of any kind and shape, and no further.
func ReadNpyHeader(r io.Reader) (NpyHeader, error) {
	var none NpyHeader
	short := &npyFault{"it ends within its header", fixSave}
	var start [8]byte
	if _, err := io.ReadFull(r, start[:]); err != nil {
		return none, endOr(err, short)
	}
	if string(start[:6]) != npyMagic {
		return none, &npyFault{fmt.Sprintf("it begins with %q, so it is not an .npy file", start[:6]), fixSave}
	}
	lengthBytes := 2
	switch start[6] {
	case 1:
	case 2, 3:
		lengthBytes = 4
	default:
		return none, &npyFault{fmt.Sprintf("it is .npy of version %d.%d, and 1 to 3 are known", start[6], start[7]),
			fixSave}
	}
	var raw [4]byte
	if _, err := io.ReadFull(r, raw[:lengthBytes]); err != nil {
		return none, endOr(err, short)
	}
	length := int64(binary.LittleEndian.Uint32(raw[:]))
	if length > longestNpyHeader {
		return none, &npyFault{fmt.Sprintf("its header claims to be %d bytes long", length), fixSave}
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return none, endOr(err, short)
	}
	kind, fortran, shape, err := parseNpyDict(string(text))
	if err != nil {
		return none, &npyFault{"its header cannot be read: " + err.Error(), fixSave}
	}
	return NpyHeader{kind, fortran, shape, int64(8+lengthBytes) + length}, nil
}

// readNpyHeader reads the header of a file, and checks that the file has the size that it says.
func readNpyHeader(r io.Reader, size int64) (npyHeader, error) {
	var none npyHeader
	read, err := ReadNpyHeader(r)
	if err != nil {
		return none, err
	}
	kind, fortran, shape := read.Kind, read.Fortran, read.Shape
	h := npyHeader{offset: read.Bytes}
	element := int64(4)
	switch kind {
	case "<f4":
	case "<f2":
		h.half, element = true, 2
	default:
		return none, &npyFault{fmt.Sprintf("its numbers are %.40q and not '<f4' (float32) or '<f2' (float16), "+
			"little-endian", kind), fixFloat32}
	}
	switch {
	case fortran:
		return none, &npyFault{"it is in Fortran order, column after column", fixCOrder}
	case len(shape) != 2:
		return none, &npyFault{fmt.Sprintf("it has %d dimensions and not two, nodes and numbers", len(shape)), fixRows}
	case shape[0] > math.MaxInt32 || shape[1] < 1 || shape[1] > math.MaxInt32:
		return none, &npyFault{fmt.Sprintf("its shape is %d×%d, and there can be %d vectors of dimension 1 or more",
			shape[0], shape[1], math.MaxInt32), fixRows}
	}
	// In floats first, where a product of 2⁶⁴ does not wrap around to a small one.
	if need := float64(shape[0]) * float64(shape[1]) * float64(element); need > 1<<62 {
		return none, &npyFault{fmt.Sprintf("%d×%d numbers are more than memory can address", shape[0], shape[1]),
			fixRows}
	}
	need := h.offset + shape[0]*shape[1]*element
	switch {
	case size < need:
		return none, &npyFault{fmt.Sprintf("it is cut short: %d bytes, and %d×%d numbers need %d", size, shape[0],
			shape[1], need), "copy or save it again"}
	case size > need:
		return none, &npyFault{fmt.Sprintf("it is %d bytes and its %d×%d numbers end at %d", size, shape[0], shape[1],
			need), "save one array per file"}
	}
	if h.offset%element != 0 {
		return none, &npyFault{fmt.Sprintf("its numbers begin at byte %d, off their alignment", h.offset), fixSave}
	}
	h.rows, h.dim = int(shape[0]), int(shape[1])
	return h, nil
}

// endOr is the fault when the file ended, else the system's error.
func endOr(err error, fault *npyFault) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fault
	}
	return err
}

// parseNpyDict reads the header's dictionary, a literal of Python.
func parseNpyDict(text string) (kind string, fortran bool, shape []int64, err error) {
	p := npyParser{rest: strings.TrimRight(text, " \n\x00")}
	if !p.take("{") {
		return "", false, nil, p.expected("{")
	}
	seen := map[string]bool{}
	for !p.take("}") {
		key, ok := p.quoted()
		if !ok {
			return "", false, nil, p.expected("a quoted key")
		}
		if seen[key] {
			return "", false, nil, fmt.Errorf("%.20q is there twice", key)
		}
		seen[key] = true
		if !p.take(":") {
			return "", false, nil, p.expected(":")
		}
		switch key {
		case "descr":
			if p.next("[") { // a type with fields; the caller refuses it
				return "a record " + p.rest, false, nil, p.expected("one type")
			}
			if kind, ok = p.quoted(); !ok {
				return "", false, nil, p.expected("a quoted type")
			}
		case "fortran_order":
			switch {
			case p.take("True"):
				fortran = true
			case p.take("False"):
			default:
				return "", false, nil, p.expected("True or False")
			}
		case "shape":
			if shape, err = p.tuple(); err != nil {
				return "", false, nil, err
			}
		default:
			return "", false, nil, fmt.Errorf("unknown key %.20q", key)
		}
		if !p.take(",") && !p.next("}") {
			return "", false, nil, p.expected(", or }")
		}
	}
	if p.space(); p.rest != "" {
		return "", false, nil, p.expected("the end")
	}
	if len(seen) != 3 {
		return "", false, nil, errors.New("it lacks one of descr, fortran_order and shape")
	}
	return kind, fortran, shape, nil
}

// npyParser reads Python literals off the front of a string.
type npyParser struct{ rest string }

func (p *npyParser) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

func (p *npyParser) next(token string) bool {
	p.space()
	return strings.HasPrefix(p.rest, token)
}

func (p *npyParser) take(token string) bool {
	if !p.next(token) {
		return false
	}
	p.rest = p.rest[len(token):]
	return true
}

func (p *npyParser) quoted() (string, bool) {
	for _, quote := range []string{"'", `"`} {
		if p.take(quote) {
			word, rest, closed := strings.Cut(p.rest, quote)
			if !closed || strings.Contains(word, `\`) {
				return "", false
			}
			p.rest = rest
			return word, true
		}
	}
	return "", false
}

// tuple reads whole numbers in parentheses, at most eight. Python 2 wrote an L behind large ones.
func (p *npyParser) tuple() ([]int64, error) {
	if !p.take("(") {
		return nil, p.expected("(")
	}
	numbers := []int64{}
	for !p.take(")") {
		p.space()
		end := 0
		for end < len(p.rest) && p.rest[end] >= '0' && p.rest[end] <= '9' {
			end++
		}
		n, err := strconv.ParseInt(p.rest[:end], 10, 64)
		if err != nil || len(numbers) == 8 {
			return nil, p.expected("a whole number that can be a size")
		}
		numbers = append(numbers, n)
		p.rest = strings.TrimPrefix(p.rest[end:], "L")
		if !p.take(",") && !p.next(")") {
			return nil, p.expected(", or )")
		}
	}
	return numbers, nil
}

func (p *npyParser) expected(what string) error {
	return fmt.Errorf("expected %s at %.20q", what, p.rest)
}

// npyHeaderBytes is the header of a matrix.
func npyHeaderBytes(half bool, rows, dim int) []byte {
	kind := "<f4"
	if half {
		kind = "<f2"
	}
	return NpyHeader{Kind: kind, Shape: []int64{int64(rows), int64(dim)}}.Append(nil)
}

// Append appends the header that NumPy would write, version 1, padded so that rows start on a cache line. It
// ignores the length.
func (h NpyHeader) Append(to []byte) []byte {
	order, shape := "False", make([]string, len(h.Shape))
	if h.Fortran {
		order = "True"
	}
	for k, n := range h.Shape {
		shape[k] = strconv.FormatInt(n, 10)
	}
	sizes := strings.Join(shape, ", ")
	if len(shape) == 1 {
		sizes += ","
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }", h.Kind, order, sizes)
	padding := (64 - (10+len(text)+1)%64) % 64
	text += strings.Repeat(" ", padding) + "\n"
	return append(binary.LittleEndian.AppendUint16(append(to, npyMagic+"\x01\x00"...), uint16(len(text))), text...)
}

// writeNpy writes vectors, as float16 if half is set, and calls each with every row as it will be read.
func writeNpy(w io.Writer, v *graph.Vectors, half bool, each func(i int, row []float32) error) error {
	half = half || v.Half()
	if _, err := w.Write(npyHeaderBytes(half, v.Len(), v.Dim())); err != nil {
		return err
	}
	row := make([]float32, v.Dim())
	bits := make([]uint16, v.Dim())
	var out []byte
	for i := range v.Len() {
		v.Load(row, int32(i))
		out = out[:0]
		if half {
			kern.ToHalf(bits, row) // exact where the vectors are float16 already
			kern.FromHalf(row, bits)
			for _, b := range bits {
				out = binary.LittleEndian.AppendUint16(out, b)
			}
		} else {
			for _, x := range row {
				out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
			}
		}
		if err := each(i, row); err != nil {
			return err
		}
		if _, err := w.Write(out); err != nil {
			return err
		}
	}
	return nil
}
