package kern

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"unsafe"
)

// ErrNotFinite says that a row holds a number that is infinite or none.
var ErrNotFinite = errors.New("a row is not finite")

const (
	codePad   = 64 // bytes of a coded row are padded to this, a cache line
	codeRows  = 16 // and rows to this, so that the kernels meet no tail
	codeZero  = 128
	codeMost  = 127
	maxCodes  = 1 << 15 // elements of a row: the sums of more might not fit
	restSteps = 128     // of the low part of a query in one step of the high part
)

// Codes is a copy of a matrix in a byte per element, to find likely hits in a quarter of the
// memory: row i is about scale_i·(code − 128), where scale_i is its largest magnitude over 127. Like
// those of a Matrix, its bytes live off the Go heap.
type Codes struct {
	rows, dim, stride int
	bytes             []uint8
	scales            []float32 // of the padding 0

	closing sync.Once
	memory  *mapping
	cleanup runtime.Cleanup
}

// Quantise makes the codes of a matrix, which must be finite.
func Quantise(m *Matrix, threads int) (*Codes, error) {
	if m.dim > maxCodes {
		return nil, fmt.Errorf("%w: rows of %d elements; codes have at most %d", ErrSize, m.dim, maxCodes)
	}
	c := &Codes{rows: m.rows, dim: m.dim, stride: max(roundUp(m.dim, codePad), codePad)}
	padded := roundUp(m.rows, codeRows)
	c.scales = make([]float32, padded)
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
	var bad sync.Map // the first row that is not finite, by chunk
	Chunks(m.rows, chunkRows, threads, func(_, chunk, from, to int) {
		row := make([]float32, m.dim)
		for i := from; i < to; i++ {
			m.Load(row, i)
			if !c.set(i, row) {
				bad.Store(chunk, i)
				return
			}
		}
	})
	first := math.MaxInt
	bad.Range(func(_, row any) bool { first = min(first, row.(int)); return true })
	runtime.KeepAlive(m)
	if first < math.MaxInt {
		c.Close()
		return nil, fmt.Errorf("%w: row %d", ErrNotFinite, first)
	}
	return c, nil
}

// set codes a row, and reports whether it is finite.
func (c *Codes) set(i int, row []float32) bool {
	var bits uint32 // of the largest magnitude: those of numbers without a sign are in their order
	for _, x := range row {
		bits = max(bits, math.Float32bits(x)&^(1<<31))
	}
	most := math.Float32frombits(bits)
	if !(most-most == 0) {
		return false
	}
	out := c.bytes[i*c.stride:][:c.stride]
	c.scales[i] = float32(float64(most) / codeMost)
	factor := 0.0
	if most > 0 {
		factor = codeMost / float64(most)
	}
	for d, x := range row {
		// the conversions keep other processors from fusing the two operations: codes are the same everywhere
		out[d] = uint8(float64(float64(x)*factor) + (codeZero + .5))
	}
	for d := len(row); d < len(out); d++ {
		out[d] = codeZero
	}
	return true
}

// Rows returns the number of rows; 0 after Close.
func (c *Codes) Rows() int { return c.rows }

// Bytes returns how much memory the codes take.
func (c *Codes) Bytes() int { return len(c.bytes) + 4*len(c.scales) }

// Close gives the memory back. Later use finds no rows; closing again does nothing.
func (c *Codes) Close() error {
	var err error
	c.closing.Do(func() {
		c.rows, c.bytes, c.scales = 0, nil, nil
		if c.memory != nil {
			c.cleanup.Stop()
			err = c.memory.release()
		}
	})
	return err
}

// coded is a query as two bytes per element, q ≈ step·(128·high + low): a query has far larger numbers
// than its typical one where a model weighs few elements highly, and one byte would round the others
// away. What the rows' zero of 128 adds to the sums is known beforehand.
type coded struct {
	high, low         []int8
	highZero, lowZero int32
}

// codeQuery codes a finite query over padded rows of codes. Its step is left out, as it changes no order.
func codeQuery(q []float32, stride int) coded {
	out := coded{high: make([]int8, stride), low: make([]int8, stride)}
	var most float64
	for _, x := range q {
		most = max(most, math.Abs(float64(x)))
	}
	if most == 0 {
		return out
	}
	const steps = codeMost * restSteps
	for d, x := range q {
		whole := int(math.Round(float64(x) / most * steps))
		high := int(math.Round(float64(whole) / restSteps))
		out.high[d], out.low[d] = int8(high), int8(whole-restSteps*high)
		out.highZero += int32(codeZero * high)
		out.lowZero += int32(codeZero * (whole - restSteps*high))
	}
	return out
}

// codeRoom is what the scan of codes needs per thread.
type codeRoom struct{ high, low []int32 }

// scores sets dst to the approximate scores, in steps of the query, of the rows from `from` on, which
// is a multiple of codeRows. dst is padded to such a multiple too.
func (c *Codes) scores(dst []float32, room *codeRoom, q coded, from int) {
	n := len(dst)
	dotCodes(room.high[:n], room.low[:n], q.high, q.low, c.bytes[from*c.stride:][:n*c.stride], c.stride)
	scaleCodes(dst, room.high[:n], room.low[:n], c.scales[from:][:n], q.highZero, q.lowZero)
}

// poolOf is how many likely hits are scored again for k of them: four times as many, and some more
// where k is small. Of the 100 best among 300,000 normal rows of 768 none was missed in 64 queries. In
// clusters of 1,250 rows that differ from one another by a hundredth of their length, 3% were: there
// rounding is as large as what tells rows apart.
func poolOf(k int) int { return 4*k + 64 }

// TopKCodes finds, for each row of queries, k rows of m with the largest inner product, among those
// that its codes find likely. The scores are exact, those of TopK for a single query to the bit, and
// so is the order; what may happen is that a row is missed whose score is close to the last ones. The
// result does not depend on the number of threads. A query that is not finite is answered by TopK.
func TopKCodes(ctx context.Context, c *Codes, m, queries *Matrix, k, threads int) ([][]RowScore, error) {
	if c.rows != m.rows || c.dim != m.dim {
		panic(fmt.Sprintf("kern: TopKCodes of a %d×%d matrix with codes of %d×%d", m.rows, m.dim, c.rows, c.dim))
	}
	if queries.dim != m.dim {
		panic(fmt.Sprintf("kern: TopKCodes of queries with %d elements over rows with %d", queries.dim, m.dim))
	}
	if k < 0 || k > MaxK {
		panic(fmt.Sprintf("kern: TopKCodes of %d hits; want 0 to %d", k, MaxK))
	}
	results := make([][]RowScore, queries.rows)
	if k == 0 || m.rows == 0 {
		return results, nil
	}
	threads = max(threads, 1)
	q := make([]float32, m.dim)
	for at := range results {
		queries.Load(q, at)
		search := newSearch(m, queries, at, 1, k, threads)
		if poolOf(k) < m.rows && !slices.ContainsFunc(q, func(x float32) bool { return !(x-x == 0) }) {
			search = c.search(m, q, k, threads)
		}
		if err := search.run(ctx, threads); err != nil {
			return nil, err
		}
		if results[at] = search.merge(0); search.codes != nil {
			results[at] = exactly(results[at], m, q, k)
		}
	}
	runtime.KeepAlive(c)
	runtime.KeepAlive(m)
	runtime.KeepAlive(queries)
	return results, nil
}

// search looks for what is likely among the k best of a finite query.
func (c *Codes) search(m *Matrix, q []float32, k, threads int) *search {
	s := &search{m: m, k: poolOf(k), codes: c, coded: codeQuery(q, c.stride), columns: 1}
	s.hire(1, threads)
	return s
}

// exactly scores likely rows and keeps the k best.
func exactly(likely []RowScore, m *Matrix, q []float32, k int) []RowScore {
	rows := make([]int32, len(likely))
	for p, hit := range likely {
		rows[p] = hit.Row
	}
	slices.Sort(rows)
	scores := make([]float32, len(rows))
	Dots(scores, q, m, rows)
	exact := Heap(likely[:0])
	for p, score := range scores {
		if score == score {
			exact = append(exact, RowScore{rows[p], score})
		}
	}
	exact.Sort()
	return exact[:min(len(exact), k):min(len(exact), k)]
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

func scaleCodesGo(dst []float32, high, low []int32, scales []float32, highZero, lowZero int32) {
	for k := range dst {
		// the product by 128 is exact, fused or not
		dst[k] = scales[k] * (restSteps*float32(high[k]-highZero) + float32(low[k]-lowZero))
	}
}
