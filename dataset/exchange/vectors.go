package exchange

import (
	"archive/zip"
	"bufio"
	"compress/flate"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"unseen/dataset"
	"unseen/internal/kern"
)

// importVectors hands the rows of an .npy or .npz file to the sink: row k is the vector of node rows[k], and
// −1 there skips it. The rows of a sparse matrix are divided by their length, since counts of words say more by
// their proportions; dense rows stay as they are.
func importVectors(ctx context.Context, path string, o Options, s Sink, rows []int32) error {
	m, err := openMatrix(ctx, path, o.Limits)
	if err != nil {
		return err
	}
	defer m.close()
	if m.dim > mostColumns {
		return Wrong(Place{File: path}, fmt.Errorf("%w: %d columns; at most %d can be stored", ErrFormat, m.dim,
			mostColumns), "reduce them first, with a truncated SVD for instance")
	}
	if m.rows != len(rows) {
		return Wrong(Place{File: path}, fmt.Errorf("%w: %d rows for %d nodes", ErrFormat, m.rows, len(rows)),
			"save one row per node, in the order of the nodes")
	}
	vector := make([]float32, m.dim)
	for k, node := range rows {
		if k%256 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			if o.Progress != nil {
				o.Progress(Step{File: path, Done: float64(k) / float64(len(rows))})
			}
		}
		if err := m.next(vector); err != nil {
			return Wrong(Place{File: path, Line: k + 1}, err, mendMatrix)
		}
		if m.sparse {
			normalise(vector)
		}
		if node < 0 {
			continue
		}
		if err := s.Vector(node, vector, Place{File: path, Line: k + 1}); err != nil {
			return err
		}
	}
	return m.end()
}

const mendMatrix = `save it again: numpy.save("vectors.npy", x) or scipy.sparse.save_npz("features.npz", x.tocsr())`

// normalise divides a vector by its length; zeros stay.
func normalise(v []float32) {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 || math.IsInf(sum, 0) || math.IsNaN(sum) {
		return
	}
	scale := 1 / math.Sqrt(sum)
	for k, x := range v {
		v[k] = float32(float64(x) * scale)
	}
}

// matrix is a matrix in a file, read row after row.
type matrix struct {
	path      string
	rows, dim int
	sparse    bool
	next      func(row []float32) error
	cells     func(each func(column int, value float32) error) error // of the next row, if it is sparse
	end       func() error                                           // at the end: whether it is one
	closers   []io.Closer
}

func (m *matrix) close() {
	for _, c := range m.closers {
		c.Close()
	}
}

// Limits of a matrix: what a dataset can hold, and what a row can be without eating memory.
const (
	mostColumns = 1 << 20
	mostNumbers = 1 << 40
)

func openMatrix(ctx context.Context, path string, limits Limits) (*matrix, error) {
	source, err := OpenSource(ctx, path, Options{Limits: limits})
	if err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(source, 1<<18)
	if head, _ := r.Peek(4); string(head) == "PK\x03\x04" {
		source.Close()
		file, err := os.Open(path)
		if err != nil {
			return nil, Wrong(Place{File: path}, bare(err), "")
		}
		info, err := file.Stat()
		if err != nil {
			file.Close()
			return nil, Wrong(Place{File: path}, bare(err), "")
		}
		m, err := matrixOfNpz(path, file, info.Size(), limits)
		if err != nil {
			file.Close()
			return nil, err
		}
		m.closers = append(m.closers, file)
		return m, nil
	}
	m, err := denseMatrix(path, r)
	if err != nil {
		source.Close()
		return nil, err
	}
	m.closers = append(m.closers, source)
	return m, nil
}

// denseMatrix reads an .npy file.
func denseMatrix(path string, r io.Reader) (*matrix, error) {
	a, err := openArray(r)
	if err != nil {
		return nil, Wrong(Place{File: path}, err, mendMatrix)
	}
	if len(a.shape) != 2 || a.shape[0] > math.MaxInt32 || a.shape[1] < 1 || a.shape[1] > mostColumns {
		return nil, Wrong(Place{File: path},
			fmt.Errorf("%w: its shape is %v; it should be rows and columns, of columns at most %d", ErrFormat, a.shape,
				mostColumns), mendMatrix)
	}
	return &matrix{path: path, rows: int(a.shape[0]), dim: int(a.shape[1]), next: a.floats, end: a.end}, nil
}

// matrixOfNpz reads a sparse matrix as scipy saves it (data, indices, indptr, shape), or a dense one.
func matrixOfNpz(path string, file io.ReaderAt, size int64, limits Limits) (*matrix, error) {
	bad := func(format string, a ...any) error {
		return Wrong(Place{File: path}, fmt.Errorf("%w: "+format, append([]any{ErrFormat}, a...)...), mendMatrix)
	}
	archive, err := zip.NewReader(file, size)
	if err != nil {
		return nil, bad("%v", err)
	}
	parts := map[string]*zip.File{}
	for _, f := range archive.File {
		name := strings.TrimSuffix(f.Name, ".npy")
		if parts[name] != nil {
			return nil, bad("it holds %.40q twice", f.Name)
		}
		parts[name] = f
	}
	m := &matrix{path: path}
	fail := func(err error) (*matrix, error) {
		m.close()
		return nil, err
	}
	open := func(name string) (*array, error) {
		f := parts[name]
		if f == nil {
			return nil, bad("it has no %s", name)
		}
		r, err := f.Open()
		if err != nil {
			return nil, bad("%s: %v", name, err)
		}
		m.closers = append(m.closers, r)
		bounded := &boundedPart{r: r, packed: int64(f.CompressedSize64), limits: limits.withDefaults()}
		if name == "data" {
			bounded.limits.Expansion = math.Inf(1) // all ones are usual, and indices bound them
		}
		a, err := openArray(bufio.NewReaderSize(bounded, 1<<16))
		if err != nil {
			return nil, Wrong(Place{File: path}, fmt.Errorf("%s: %w", name, err), mendMatrix)
		}
		if need := float64(a.count()) * float64(a.size); need > float64(f.UncompressedSize64) {
			return nil, bad("%s claims %v numbers and has %d bytes", name, a.shape, f.UncompressedSize64)
		}
		return a, nil
	}
	if parts["indptr"] == nil {
		names := make([]string, 0, len(parts))
		for _, f := range archive.File {
			names = append(names, strings.TrimSuffix(f.Name, ".npy"))
		}
		name := names
		for _, known := range []string{"vectors", "features", "embeddings", "x", "arr_0"} {
			if slices.Contains(names, known) {
				name = []string{known}
				break
			}
		}
		if len(name) != 1 {
			return nil, bad("it holds %s, and it is not clear which are the vectors", list(names))
		}
		a, err := open(name[0])
		if err != nil {
			return fail(err)
		}
		if len(a.shape) != 2 || a.shape[0] > math.MaxInt32 || a.shape[1] < 1 || a.shape[1] > mostColumns {
			return fail(bad("the shape of %s is %v; it should be rows and columns, of columns at most %d", name[0],
				a.shape, mostColumns))
		}
		m.rows, m.dim, m.next, m.end = int(a.shape[0]), int(a.shape[1]), a.floats, a.end
		return m, nil
	}
	shape, err := open("shape")
	if err != nil {
		return fail(err)
	}
	sizes := [2]int64{}
	if shape.count() != 2 {
		return fail(bad("its shape has %d numbers", shape.count()))
	}
	for k := range sizes {
		if sizes[k], err = shape.integer(); err != nil {
			return fail(bad("shape: %v", err))
		}
	}
	if sizes[0] < 0 || sizes[0] > math.MaxInt32 || sizes[1] < 1 || sizes[1] > math.MaxInt32 {
		return fail(bad("its shape is %d×%d; there can be %d of each", sizes[0], sizes[1], math.MaxInt32))
	}
	if f := parts["format"]; f != nil {
		kind, err := formatOf(f)
		if err != nil || kind != "csr" {
			return fail(bad("it is a sparse matrix of kind %.20q and not csr", kind))
		}
	}
	pointers, err := open("indptr")
	if err != nil {
		return fail(err)
	}
	indices, err := open("indices")
	if err != nil {
		return fail(err)
	}
	values, err := open("data")
	if err != nil {
		return fail(err)
	}
	if pointers.count() != sizes[0]+1 {
		return fail(bad("indptr has %d numbers for %d rows", pointers.count(), sizes[0]))
	}
	if indices.count() != values.count() {
		return fail(bad("%d indices and %d values", indices.count(), values.count()))
	}
	at, err := pointers.integer()
	if err != nil || at != 0 {
		return fail(bad("indptr begins with %d, %v", at, err))
	}
	m.rows, m.dim, m.sparse = int(sizes[0]), int(sizes[1]), true
	one := make([]float32, 1)
	m.cells = func(each func(column int, value float32) error) error {
		end, err := pointers.integer()
		if err != nil {
			return err
		}
		if end < at || end > indices.count() {
			return fmt.Errorf("%w: its indptr goes from %d to %d of %d", ErrFormat, at, end, indices.count())
		}
		for ; at < end; at++ {
			c, err := indices.integer()
			if err != nil {
				return err
			}
			if c < 0 || c >= sizes[1] {
				return fmt.Errorf("%w: column %d of %d", ErrFormat, c, sizes[1])
			}
			if err := values.floats(one); err != nil {
				return err
			}
			if err := each(int(c), one[0]); err != nil {
				return err
			}
		}
		return nil
	}
	m.next = func(row []float32) error {
		clear(row)
		return m.cells(func(column int, value float32) error {
			row[column] += value // scipy adds up what is there twice
			return nil
		})
	}
	m.end = func() error {
		if at != indices.count() {
			return Wrong(Place{File: path}, fmt.Errorf("%w: %d values belong to no row", ErrFormat,
				indices.count()-at), mendMatrix)
		}
		return errors.Join(indices.end(), values.end())
	}
	return m, nil
}

// boundedPart is a part of an archive that may not expand beyond measure.
type boundedPart struct {
	r      io.Reader
	packed int64
	out    int64
	limits Limits
}

func (b *boundedPart) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.out += int64(n); b.out > b.limits.Free && float64(b.out) > b.limits.Expansion*float64(b.packed) {
		return 0, fmt.Errorf("%w: %d bytes out of %d", ErrExpands, b.out, b.packed)
	}
	if _, corrupt := errors.AsType[flate.CorruptInputError](err); corrupt || errors.Is(err, zip.ErrChecksum) ||
		errors.Is(err, zip.ErrFormat) {
		err = fmt.Errorf("%w: %v", ErrFormat, err)
	}
	return n, err
}

// formatOf reads the name of a sparse format: scipy saves it as bytes ('|S3') or text ('<U3').
func formatOf(f *zip.File) (string, error) {
	r, err := f.Open()
	if err != nil {
		return "", err
	}
	defer r.Close()
	h, err := readNpyHeader(r)
	if err != nil {
		return "", err
	}
	raw, err := io.ReadAll(io.LimitReader(r, 64))
	if strings.HasPrefix(h.kind, "<U") {
		for k := 0; k < len(raw); k += 4 {
			raw[k/4] = raw[k]
		}
		raw = raw[:len(raw)/4]
	}
	return strings.TrimRight(string(raw), "\x00"), err
}

// array is an .npy file whose numbers are read one after the other.
type array struct {
	npyHead
	r      io.Reader
	size   int // bytes of a number
	read   int64
	buffer []byte
}

type npyHead struct {
	kind  string
	shape []int64
}

func readNpyHeader(r io.Reader) (npyHead, error) {
	h, err := dataset.ReadNpyHeader(r)
	switch {
	case err != nil:
		return npyHead{}, fmt.Errorf("%w: %w", ErrFormat, err)
	case h.Fortran && len(h.Shape) > 1:
		return npyHead{}, fmt.Errorf("%w: it is in Fortran order, column after column", ErrFormat)
	}
	return npyHead{h.Kind, h.Shape}, nil
}

var npySizes = map[string]int{"<f4": 4, "<f2": 2, "<f8": 8, "<i4": 4, "<i8": 8, "<u4": 4, "<u8": 8, "<i2": 2, "<u2": 2,
	"|i1": 1, "|u1": 1, "|b1": 1}

func openArray(r io.Reader) (*array, error) {
	h, err := readNpyHeader(r)
	if err != nil {
		return nil, err
	}
	size, known := npySizes[h.kind]
	if !known {
		return nil, fmt.Errorf("%w: its numbers are %.40q; float32 would do", ErrFormat, h.kind)
	}
	a := &array{npyHead: h, r: r, size: size}
	product := 1.
	for _, n := range h.shape {
		product *= float64(n)
	}
	if product > mostNumbers {
		return nil, fmt.Errorf("%w: its shape %v is more than can be stored", ErrFormat, h.shape)
	}
	return a, nil
}

// count is how many numbers there are.
func (a *array) count() int64 {
	n := int64(1)
	for _, s := range a.shape {
		n *= s
	}
	return n
}

// take reads the bytes of so many numbers.
func (a *array) take(n int) ([]byte, error) {
	if need := n * a.size; cap(a.buffer) < need {
		a.buffer = make([]byte, need)
	}
	raw := a.buffer[:n*a.size]
	_, err := io.ReadFull(a.r, raw)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: it ends after %d of %d numbers", ErrTruncated, a.read, a.count())
	}
	a.read += int64(n)
	return raw, err
}

// floats fills a row.
func (a *array) floats(row []float32) error {
	raw, err := a.take(len(row))
	if err != nil {
		return err
	}
	little := binary.LittleEndian
	for k := range row {
		at := raw[k*a.size:]
		switch a.kind {
		case "<f4":
			row[k] = math.Float32frombits(little.Uint32(at))
		case "<f8":
			row[k] = float32(math.Float64frombits(little.Uint64(at)))
		case "<f2":
			bits := [1]uint16{little.Uint16(at)}
			kern.FromHalf(row[k:k+1], bits[:])
		default:
			row[k] = float32(a.whole(at))
		}
	}
	return nil
}

// integer reads one whole number.
func (a *array) integer() (int64, error) {
	if a.kind[1] == 'f' {
		return 0, fmt.Errorf("%w: numbers of kind %s where whole ones belong", ErrFormat, a.kind)
	}
	raw, err := a.take(1)
	if err != nil {
		return 0, err
	}
	return a.whole(raw), nil
}

func (a *array) whole(raw []byte) int64 {
	little := binary.LittleEndian
	switch a.kind {
	case "<i4":
		return int64(int32(little.Uint32(raw)))
	case "<u4":
		return int64(little.Uint32(raw))
	case "<i2":
		return int64(int16(little.Uint16(raw)))
	case "<u2":
		return int64(little.Uint16(raw))
	case "|i1":
		return int64(int8(raw[0]))
	case "|u1", "|b1":
		return int64(raw[0])
	}
	return int64(little.Uint64(raw)) // beyond int64 it is negative, which no count is
}

// end is nil when nothing follows the last number.
func (a *array) end() error {
	var one [1]byte
	switch _, err := io.ReadFull(a.r, one[:]); {
	case err == io.EOF:
		return nil
	case err != nil:
		return fmt.Errorf("%w: %v", ErrFormat, err)
	}
	return fmt.Errorf("%w: it goes on behind its last number", ErrFormat)
}
