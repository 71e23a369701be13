package kern

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"unsafe"
)

// pad is the number of elements to which the rows of an allocated matrix are padded with zeros,
// so that every row starts on a cache line whatever the element's size.
const pad = 32

// ErrSize says that a shape is negative or larger than memory can be addressed.
var ErrSize = errors.New("impossible matrix size")

// Matrix is rows of float32 or float16 numbers that live off the Go heap: in anonymous memory on
// huge pages, or in a mapped file. The collector neither scans nor counts them.
//
// A row slice stays valid only while its Matrix is reachable and open: whoever keeps a row keeps
// the Matrix. Memory is given back by Close, or after the last reference is gone.
// Reads may run at the same time; Close must not run beside them.
type Matrix struct {
	rows, dim, stride int
	f32               []float32
	f16               []uint16
	half              bool
	readOnly          bool

	parent  *Matrix // whose memory this is a part of
	closing sync.Once
	memory  *mapping
	cleanup runtime.Cleanup
}

// mapping is memory that the operating system gave us.
type mapping struct {
	bytes []byte
	once  sync.Once
	err   error
}

func (m *mapping) release() error {
	m.once.Do(func() { m.err = unmap(m.bytes); m.bytes = nil })
	return m.err
}

// NewMatrix allocates rows×dim float32 zeros, each row padded with zeros to a multiple of 32.
func NewMatrix(rows, dim int) (*Matrix, error) { return allocate(rows, dim, false) }

// NewHalf is NewMatrix with float16 elements.
func NewHalf(rows, dim int) (*Matrix, error) { return allocate(rows, dim, true) }

func allocate(rows, dim int, half bool) (*Matrix, error) {
	if rows < 0 || dim < 0 || dim > math.MaxInt32 {
		return nil, fmt.Errorf("%w: %d×%d", ErrSize, rows, dim)
	}
	stride := (dim + pad - 1) / pad * pad
	size, err := byteSize(rows, stride, elementSize(half))
	if err != nil {
		return nil, fmt.Errorf("%w: %d×%d", err, rows, dim)
	}
	m := &Matrix{rows: rows, dim: dim, stride: stride, half: half}
	if size == 0 {
		return m, nil
	}
	bytes, err := mapAnonymous(size)
	if err != nil {
		return nil, fmt.Errorf("cannot allocate %d bytes for a %d×%d matrix: %w", size, rows, dim, err)
	}
	m.adopt(&mapping{bytes: bytes}, bytes)
	return m, nil
}

// MapFile maps rows×dim elements of a file, C order and unpadded, that begin at a byte offset.
// The matrix is read-only and its pages are read when they are touched. The file may be closed
// afterwards.
func MapFile(file *os.File, offset int64, rows, dim int, half bool) (*Matrix, error) {
	path := file.Name()
	if rows < 0 || dim < 0 || dim > math.MaxInt32 || offset < 0 {
		return nil, fmt.Errorf("%w: %d×%d at byte %d of %s", ErrSize, rows, dim, offset, path)
	}
	if offset%int64(elementSize(half)) != 0 {
		return nil, fmt.Errorf("%s: elements at byte %d are not aligned; copy the file with an aligned header",
			path, offset)
	}
	size, err := byteSize(rows, dim, elementSize(half))
	if err != nil {
		return nil, fmt.Errorf("%w: %d×%d of %s", err, rows, dim, path)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size()-offset < int64(size) {
		return nil, fmt.Errorf("%s holds %d bytes, %d×%d elements from byte %d need %d: the file is "+
			"truncated or its header is wrong",
			path, info.Size(), rows, dim, offset, offset+int64(size))
	}
	m := &Matrix{rows: rows, dim: dim, stride: dim, half: half, readOnly: true}
	if size == 0 {
		return m, nil
	}
	bytes, err := mapFile(file, int(offset)+size)
	if err != nil {
		return nil, fmt.Errorf("cannot map %s: %w", path, err)
	}
	m.adopt(&mapping{bytes: bytes}, bytes[offset:])
	return m, nil
}

// View looks at a slice of the Go heap as a matrix: element k of row i is data[i*stride+k].
func View(data []float32, rows, dim, stride int) (*Matrix, error) {
	if rows < 0 || dim < 0 || stride < dim || dim > math.MaxInt32 {
		return nil, fmt.Errorf("%w: %d×%d with stride %d", ErrSize, rows, dim, stride)
	}
	if rows > 0 {
		if last := (rows-1)*stride + dim; (rows-1) > (math.MaxInt-dim)/max(stride, 1) || last > len(data) {
			return nil, fmt.Errorf("%w: %d numbers cannot hold %d×%d with stride %d", ErrSize, len(data), rows, dim,
				stride)
		}
	}
	return &Matrix{rows: rows, dim: dim, stride: stride, f32: data}, nil
}

func elementSize(half bool) int {
	if half {
		return 2
	}
	return 4
}

func byteSize(rows, stride, element int) (int, error) {
	if stride > 0 && rows > math.MaxInt/stride/element {
		return 0, ErrSize
	}
	return rows * stride * element, nil
}

// adopt makes the mapping's elements the matrix's own and has them released with it.
func (m *Matrix) adopt(memory *mapping, elements []byte) {
	first := unsafe.Pointer(unsafe.SliceData(elements))
	if m.half {
		m.f16 = unsafe.Slice((*uint16)(first), m.rows*m.stride)
	} else {
		m.f32 = unsafe.Slice((*float32)(first), m.rows*m.stride)
	}
	m.memory = memory
	m.cleanup = runtime.AddCleanup(m, func(memory *mapping) { memory.release() }, memory)
}

// Rows returns the number of rows; 0 after Close.
func (m *Matrix) Rows() int { return m.rows }

// Dim returns the number of elements of a row, padding not counted.
func (m *Matrix) Dim() int { return m.dim }

// Stride returns the number of elements from one row's start to the next's.
func (m *Matrix) Stride() int { return m.stride }

// Half reports whether the elements are float16.
func (m *Matrix) Half() bool { return m.half }

// ReadOnly reports whether the rows are a mapped file's, which cannot be written.
func (m *Matrix) ReadOnly() bool { return m.readOnly }

// Row returns row i of a float32 matrix in place.
func (m *Matrix) Row(i int) []float32 {
	if m.half {
		panic("kern: Row of a float16 matrix; use HalfRow or Load")
	}
	m.check(i)
	return m.f32[i*m.stride : i*m.stride+m.dim : i*m.stride+m.dim]
}

// HalfRow returns row i of a float16 matrix in place, as its bits.
func (m *Matrix) HalfRow(i int) []uint16 {
	if !m.half {
		panic("kern: HalfRow of a float32 matrix; use Row or Load")
	}
	m.check(i)
	return m.f16[i*m.stride : i*m.stride+m.dim : i*m.stride+m.dim]
}

// Load copies row i, of either kind, into dst as float32. dst has at least Dim elements.
func (m *Matrix) Load(dst []float32, i int) {
	dst = dst[:m.dim]
	if m.half {
		FromHalf(dst, m.HalfRow(i))
	} else {
		copy(dst, m.Row(i))
	}
	runtime.KeepAlive(m)
}

// Store writes src, of Dim elements, into row i of either kind. Float16 elements are rounded to
// the nearest, ties to even.
func (m *Matrix) Store(i int, src []float32) {
	if m.readOnly {
		panic("kern: Store into a mapped file")
	}
	src = src[:m.dim]
	if m.half {
		ToHalf(m.HalfRow(i), src)
	} else {
		copy(m.Row(i), src)
	}
	runtime.KeepAlive(m)
}

// Slice returns rows from ≤ i < to as a matrix over the same memory. It keeps m reachable, and is
// of no use after m is closed.
func (m *Matrix) Slice(from, to int) (*Matrix, error) {
	if from < 0 || to < from || to > m.rows {
		return nil, fmt.Errorf("%w: rows %d to %d of %d", ErrSize, from, to, m.rows)
	}
	part := &Matrix{rows: to - from, dim: m.dim, stride: m.stride, half: m.half, readOnly: m.readOnly, parent: m}
	if from < to {
		if m.half {
			part.f16 = m.f16[from*m.stride:]
		} else {
			part.f32 = m.f32[from*m.stride:]
		}
	}
	return part, nil
}

// First returns the first columns of every row as a matrix over the same memory, with the same
// caution as Slice.
func (m *Matrix) First(columns int) (*Matrix, error) {
	if columns < 0 || columns > m.dim {
		return nil, fmt.Errorf("%w: %d columns of %d", ErrSize, columns, m.dim)
	}
	return &Matrix{rows: m.rows, dim: columns, stride: m.stride, f32: m.f32, f16: m.f16, half: m.half,
		readOnly: m.readOnly, parent: m}, nil
}

// Transpose sets dst[j][i] = src[i][j], of float32 matrices.
func Transpose(dst, src *Matrix) {
	if dst.rows != src.dim || dst.dim != src.rows || dst.half || src.half || dst.readOnly {
		panic(fmt.Sprintf("kern: Transpose of %d×%d into %d×%d", src.rows, src.dim, dst.rows, dst.dim))
	}
	const block = 32 // two blocks of this size stay in the first-level cache
	for i := 0; i < src.rows; i += block {
		for j := 0; j < src.dim; j += block {
			height, width := min(block, src.rows-i), min(block, src.dim-j)
			for c := range width {
				out := dst.f32[(j+c)*dst.stride+i:][:height]
				at := i*src.stride + j + c
				for r := range out {
					out[r] = src.f32[at]
					at += src.stride
				}
			}
		}
	}
	runtime.KeepAlive(src)
	runtime.KeepAlive(dst)
}

func (m *Matrix) check(i int) {
	if uint(i) >= uint(m.rows) {
		panic(fmt.Sprintf("kern: row %d of a matrix with %d rows", i, m.rows))
	}
}

// checkIndices is the door to the gathering kernels: the assembly behind it trusts every index.
func (m *Matrix) checkIndices(idx []int32) {
	var worst uint32
	for _, i := range idx {
		worst = max(worst, uint32(i))
	}
	if len(idx) > 0 && uint64(worst) >= uint64(m.rows) {
		for k, i := range idx {
			if uint32(i) == worst {
				panic(fmt.Sprintf("kern: index %d is row %d of a matrix with %d rows", k, i, m.rows))
			}
		}
	}
}

// Close gives the memory back. Later use of the matrix finds no rows; closing again does nothing.
func (m *Matrix) Close() error {
	var err error
	m.closing.Do(func() {
		m.rows, m.f32, m.f16 = 0, nil, nil
		if m.memory != nil {
			m.cleanup.Stop()
			err = m.memory.release()
		}
	})
	return err
}
