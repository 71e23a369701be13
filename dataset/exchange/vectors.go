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
	"unseen/internal/atomicfile"
	"unseen/internal/kern"
)

// importVectors gives the rows of an .npy or .npz file to the sink: row k is the vector of node rows[k], and −1
// there skips it. Rows of a sparse matrix are divided by their length, since proportions of word counts say more than
// the counts; dense rows stay as they are.
func importVectors(ctx context.Context, path string, o Options, s Sink, rows []int32) error {
	m, err := openMatrix(ctx, path, o.Limits)
	if err != nil {
		return err
	}
	defer m.close()
	if m.dim > mostColumns {
		return failAt(Place{File: path}, fmt.Errorf("%w: %d columns, at most %d are possible", ErrFormat, m.dim,
			mostColumns), "reduce them first, for instance with a truncated SVD")
	}
	if m.rows != len(rows) {
		return failAt(Place{File: path}, fmt.Errorf("%w: %d rows for %d nodes", ErrFormat, m.rows, len(rows)),
			"save one row per node, in the order of the nodes")
	}
	if m.sparse && float64(m.rows)*float64(m.dim) > mostDense {
		return failAt(Place{File: path}, fmt.Errorf("%w: with its zeros it has %d×%d numbers, at most %d are possible",
			ErrExpands, m.rows, m.dim, mostDense), "reduce them first, for instance with a truncated SVD")
	}
	vector := make([]float32, m.dim)
	for k, node := range rows {
		if k%256 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			o.reading(path, int64(k), int64(len(rows)))
		}
		if err := m.next(vector); err != nil {
			return failAt(Place{File: path, Line: k + 1}, err, matrixHint)
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
	return m.finish(path)
}

const matrixHint = `save it again: numpy.save("vectors.npy", x) or scipy.sparse.save_npz("features.npz", x.tocsr())`

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

// matrix is a matrix in a file, read row by row.
type matrix struct {
	rows, dim int
	sparse    bool
	next      func(row []float32) error
	cells     func(each func(column int, value float32) error) error // of the next row, if it is sparse
	end       func() error                                           // after the last row: whether the file ends
	closers   []io.Closer
}

func (m *matrix) close() { closeAll(m.closers) }

// finish checks that the file ends after the last row.
func (m *matrix) finish(path string) error {
	err := m.end()
	if err == nil {
		return nil
	}
	return failAt(Place{File: path}, err, matrixHint)
}

func closeAll(closers []io.Closer) {
	for _, c := range closers {
		c.Close()
	}
}

// Limits of a matrix: what a dataset can hold, and how long a row can be without exhausting memory.
const (
	mostColumns = 1 << 20
	mostNumbers = 1 << 40
	mostDense   = 1 << 27 // numbers of a sparse matrix, with its zeros: half a GB on disk
)

func openMatrix(ctx context.Context, path string, limits Limits) (*matrix, error) {
	input, err := OpenInput(ctx, path, Options{Limits: limits})
	if err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(input, 1<<18)
	if head, _ := r.Peek(4); string(head) == "PK\x03\x04" {
		input.Close()
		file, err := os.Open(path)
		if err != nil {
			return nil, &Error{Place{File: path}, atomicfile.WithoutPath(err)}
		}
		info, err := file.Stat()
		if err != nil {
			file.Close()
			return nil, &Error{Place{File: path}, atomicfile.WithoutPath(err)}
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
		input.Close()
		return nil, err
	}
	m.closers = append(m.closers, input)
	return m, nil
}

// denseMatrix reads an .npy file.
func denseMatrix(path string, r io.Reader) (*matrix, error) {
	a, err := openArray(r)
	if err != nil {
		return nil, failAt(Place{File: path}, err, matrixHint)
	}
	if !a.isMatrix() {
		return nil, failAt(Place{File: path},
			fmt.Errorf("%w: its shape is %v; it must be rows and columns, with at most %d columns", ErrFormat, a.shape,
				mostColumns), matrixHint)
	}
	return a.matrix(), nil
}

// npzArchive is an archive of arrays.
type npzArchive struct {
	path    string
	size    int64
	limits  Limits
	names   []string // of the arrays, in their order
	parts   map[string]*zip.File
	closers []io.Closer
}

// matrixOfNpz reads a sparse matrix as scipy saves it (data, indices, indptr, shape), or a dense one.
func matrixOfNpz(path string, file io.ReaderAt, size int64, limits Limits) (m *matrix, err error) {
	z := &npzArchive{path: path, size: size, limits: limits.withDefaults(), parts: map[string]*zip.File{}}
	archive, err := zip.NewReader(file, size)
	if err != nil {
		return nil, z.bad("%v", err)
	}
	for _, f := range archive.File {
		name := strings.TrimSuffix(f.Name, ".npy")
		if z.parts[name] != nil {
			return nil, z.bad("it has %.40q twice", f.Name)
		}
		z.names, z.parts[name] = append(z.names, name), f
	}
	if z.parts["indptr"] == nil {
		m, err = z.dense()
	} else {
		m, err = z.sparse()
	}
	if err != nil {
		closeAll(z.closers)
		return nil, err
	}
	m.closers = z.closers
	return m, nil
}

func (z *npzArchive) bad(format string, a ...any) error {
	return failAt(Place{File: z.path}, fmt.Errorf("%w: "+format, append([]any{ErrFormat}, a...)...), matrixHint)
}

// open begins to read an array.
func (z *npzArchive) open(name string) (*array, error) {
	f := z.parts[name]
	if f == nil {
		return nil, z.bad("it has no %s", name)
	}
	r, err := f.Open()
	if err != nil {
		return nil, z.bad("%s: %v", name, err)
	}
	z.closers = append(z.closers, r)
	bounded := &boundedPart{r: r, packed: int64(f.CompressedSize64), limit: z.limits.bytes(z.size)}
	a, err := openArray(bufio.NewReaderSize(bounded, 1<<16))
	if err != nil {
		return nil, failAt(Place{File: z.path}, fmt.Errorf("%s: %w", name, err), matrixHint)
	}
	if need := float64(a.count()) * float64(a.size); need > float64(f.UncompressedSize64) {
		return nil, z.bad("%s claims %v numbers and has %d bytes", name, a.shape, f.UncompressedSize64)
	}
	if z.parts["indptr"] != nil && a.count() > z.limits.records(z.size) {
		return nil, failAt(Place{File: z.path}, fmt.Errorf("%w: %s has %d numbers, in a file of %d bytes", ErrExpands,
			name, a.count(), z.size), expandHint)
	}
	return a, nil
}

// dense reads the array that holds the vectors: by its name, or the only one.
func (z *npzArchive) dense() (*matrix, error) {
	candidates := z.names
	for _, known := range []string{"vectors", "features", "embeddings", "x", "arr_0"} {
		if slices.Contains(z.names, known) {
			candidates = []string{known}
			break
		}
	}
	if len(candidates) != 1 {
		return nil, z.bad("it has %s, and which one holds the vectors is unclear", list(z.names))
	}
	a, err := z.open(candidates[0])
	if err != nil {
		return nil, err
	}
	if !a.isMatrix() {
		return nil, z.bad("%s has the shape %v; it must be rows and columns, with at most %d columns", candidates[0],
			a.shape, mostColumns)
	}
	return a.matrix(), nil
}

// sparse reads a matrix in compressed rows.
func (z *npzArchive) sparse() (*matrix, error) {
	rows, columns, err := z.shape()
	if err != nil {
		return nil, err
	}
	if f := z.parts["format"]; f != nil {
		if kind, err := formatOf(f); err != nil || kind != "csr" {
			return nil, z.bad("it is a sparse matrix of format %.20q, not csr", kind)
		}
	}
	c := &csrMatrix{columns: columns}
	for _, part := range []struct {
		name string
		into **array
	}{{"indptr", &c.pointers}, {"indices", &c.indices}, {"data", &c.values}} {
		if *part.into, err = z.open(part.name); err != nil {
			return nil, err
		}
	}
	if c.pointers.count() != rows+1 {
		return nil, z.bad("indptr has %d numbers for %d rows", c.pointers.count(), rows)
	}
	if c.indices.count() != c.values.count() {
		return nil, z.bad("%d indices and %d values", c.indices.count(), c.values.count())
	}
	if first, err := c.pointers.integer(); err != nil || first != 0 {
		return nil, z.bad("indptr begins with %d, %v", first, err)
	}
	return &matrix{rows: int(rows), dim: int(columns), sparse: true, next: c.row, cells: c.cells, end: c.end}, nil
}

// shape reads the numbers of rows and columns.
func (z *npzArchive) shape() (rows, columns int64, err error) {
	shape, err := z.open("shape")
	if err != nil {
		return 0, 0, err
	}
	if shape.count() != 2 {
		return 0, 0, z.bad("its shape has %d numbers", shape.count())
	}
	for _, into := range []*int64{&rows, &columns} {
		if *into, err = shape.integer(); err != nil {
			return 0, 0, z.bad("shape: %v", err)
		}
	}
	if rows < 0 || rows > math.MaxInt32 || columns < 1 || columns > math.MaxInt32 {
		return 0, 0, z.bad("its shape is %d×%d; each may be at most %d", rows, columns, math.MaxInt32)
	}
	return rows, columns, nil
}

// csrMatrix is a sparse matrix in compressed rows.
type csrMatrix struct {
	columns                   int64
	pointers, indices, values *array
	at                        int64 // cells that were read
	value                     [1]float32
}

// cells reads the next row.
func (c *csrMatrix) cells(each func(column int, value float32) error) error {
	end, err := c.pointers.integer()
	if err != nil {
		return err
	}
	if end < c.at || end > c.indices.count() {
		return fmt.Errorf("%w: its indptr goes from %d to %d of %d", ErrFormat, c.at, end, c.indices.count())
	}
	for ; c.at < end; c.at++ {
		column, err := c.indices.integer()
		if err != nil {
			return err
		}
		if column < 0 || column >= c.columns {
			return fmt.Errorf("%w: column %d of %d", ErrFormat, column, c.columns)
		}
		if err := c.values.floats(c.value[:]); err != nil {
			return err
		}
		if err := each(int(column), c.value[0]); err != nil {
			return err
		}
	}
	return nil
}

// row reads the next row with its zeros.
func (c *csrMatrix) row(row []float32) error {
	clear(row)
	return c.cells(func(column int, value float32) error {
		row[column] += value // scipy adds up repeated cells
		return nil
	})
}

func (c *csrMatrix) end() error {
	if c.at != c.indices.count() {
		return fmt.Errorf("%w: %d values belong to no row", ErrFormat, c.indices.count()-c.at)
	}
	return errors.Join(c.indices.end(), c.values.end())
}

// boundedPart is a part of an archive with a limit on how much it may expand.
type boundedPart struct {
	r      io.Reader
	packed int64
	out    int64
	limit  int64
}

func (b *boundedPart) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.out += int64(n); b.out > b.limit {
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

// array is an .npy file whose numbers are read one by one.
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
		return npyHead{}, fmt.Errorf("%w: it is in Fortran order, by columns", ErrFormat)
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
		return nil, fmt.Errorf("%w: its numbers are %.40q; use float32", ErrFormat, h.kind)
	}
	a := &array{npyHead: h, r: r, size: size}
	product := 1.
	for _, n := range h.shape {
		product *= float64(n)
	}
	if product > mostNumbers {
		return nil, fmt.Errorf("%w: its shape %v is too large", ErrFormat, h.shape)
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

// isMatrix reports whether the array has rows and columns that can be stored.
func (a *array) isMatrix() bool {
	return len(a.shape) == 2 && a.shape[0] <= math.MaxInt32 && a.shape[1] >= 1 && a.shape[1] <= mostColumns
}

// matrix reads the array by rows.
func (a *array) matrix() *matrix {
	return &matrix{rows: int(a.shape[0]), dim: int(a.shape[1]), next: a.floats, end: a.end}
}

// take reads the bytes of n numbers.
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
		return 0, fmt.Errorf("%w: numbers of type %s, want whole numbers", ErrFormat, a.kind)
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
	return int64(little.Uint64(raw)) // beyond int64 it is negative, and thus invalid as a count
}

// end returns an error if anything follows the last number.
func (a *array) end() error {
	var one [1]byte
	switch _, err := io.ReadFull(a.r, one[:]); {
	case err == io.EOF:
		return nil
	case err != nil:
		return fmt.Errorf("%w: %v", ErrFormat, err)
	}
	return fmt.Errorf("%w: data after its last number", ErrFormat)
}
