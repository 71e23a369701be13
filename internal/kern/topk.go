package kern

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
)

// MaxK is the largest number of hits that TopK looks for.
const MaxK = 1000

// RowScore is a row and its inner product with a query.
type RowScore struct {
	Row   int32
	Score float32
}

// before orders hits: higher scores first, equal ones by lower index.
func (h RowScore) before(other RowScore) bool {
	return h.Score > other.Score || h.Score == other.Score && h.Row < other.Row
}

const (
	scanRows   = 2048 // rows scored at a time by the scan for one query
	blockRows  = 96   // rows scored at a time against many queries: a multiple of every tile's height
	queryGroup = 256  // queries packed at a time
	chunkRows  = 1 << 14
)

// TopK finds, for each row of queries, the k rows of m with the largest inner product, best
// first; equal scores are ordered by lower index and NaN never wins, so there are fewer than k
// hits only where fewer rows have a score. The result does not depend on the number of threads.
func TopK(ctx context.Context, m, queries *Matrix, k, threads int) ([][]RowScore, error) {
	if queries.dim != m.dim {
		panic(fmt.Sprintf("kern: TopK of queries with %d elements over rows with %d", queries.dim, m.dim))
	}
	if k < 0 || k > MaxK {
		panic(fmt.Sprintf("kern: TopK of %d hits; want 0 to %d", k, MaxK))
	}
	results := make([][]RowScore, queries.rows)
	if k == 0 || m.rows == 0 {
		return results, nil
	}
	threads = max(threads, 1)
	for from := 0; from < queries.rows; from += queryGroup {
		count := min(queryGroup, queries.rows-from)
		search := newSearch(m, queries, from, count, k, threads)
		if err := search.run(ctx, threads); err != nil {
			return nil, err
		}
		for q := range count {
			results[from+q] = search.merge(q)
		}
	}
	runtime.KeepAlive(m)
	runtime.KeepAlive(queries)
	return results, nil
}

// search is one pass of a group of queries over the rows.
type search struct {
	m       *Matrix
	k       int
	query   []float32   // a single query, as it is
	panels  []float32   // several queries, packed
	columns int         // how many queries, padded to the tile's width
	workers []candidate // one per thread
}

// candidate is what one thread has found so far.
type candidate struct {
	heaps      []Heap
	thresholds []float32 // per query: the score to exceed, once its heap is full
	filling    int       // queries whose heap is not yet full
	scores     *Matrix
	line       []float32
}

func newSearch(m, queries *Matrix, from, count, k, threads int) *search {
	s := &search{m: m, k: k}
	if count == 1 {
		s.query = make([]float32, m.dim)
		queries.Load(s.query, from)
		s.columns = 1
	} else {
		_, columns := tileShape()
		s.columns = roundUp(count, columns)
		s.panels = make([]float32, s.columns*m.dim)
		packRows(s.panels, queries, from, count)
	}
	s.hire(count, threads)
	return s
}

// hire makes room for what the threads find.
func (s *search) hire(count, threads int) {
	s.workers = make([]candidate, threads)
	for w := range s.workers {
		c := &s.workers[w]
		c.heaps = make([]Heap, count)
		c.filling = count
		// padding columns never exceed their threshold
		c.thresholds = make([]float32, s.columns)
		for q := range c.thresholds {
			c.thresholds[q] = float32(math.Inf(1))
		}
		c.line = make([]float32, scanRows)
	}
}

// run looks at all rows.
func (s *search) run(ctx context.Context, threads int) error {
	return ChunksErr(ctx, s.m.rows, chunkRows, threads, func(worker, _, from, to int) error {
		if s.panels == nil {
			s.scan(&s.workers[worker], from, to)
		} else {
			s.block(&s.workers[worker], from, to)
		}
		return nil
	})
}

// scan scores rows for one query and looks only at those above its threshold.
func (s *search) scan(c *candidate, from, to int) {
	for ; from < to; from += scanRows {
		scores := c.line[:min(scanRows, to-from)]
		dotScan(scores, s.query, s.m, from)
		at := 0
		for c.filling > 0 && at < len(scores) {
			c.offer(0, RowScore{int32(from + at), scores[at]}, s.k)
			at++
		}
		for at < len(scores) {
			whole := (len(scores) - at) / lanes() * lanes()
			skip := above(scores[at:at+whole], c.thresholds[0])
			at += skip
			for range min(len(scores)-at, maxLanes) {
				if scores[at] > c.thresholds[0] {
					c.offer(0, RowScore{int32(from + at), scores[at]}, s.k)
				}
				at++
			}
		}
	}
}

// block scores rows for many queries and looks only at rows where some query's threshold is met.
func (s *search) block(c *candidate, from, to int) {
	if c.scores == nil {
		room := make([]float32, blockRows*s.columns)
		c.scores = &Matrix{rows: blockRows, dim: s.columns, stride: s.columns, f32: room}
	}
	for ; from < to; from += blockRows {
		count := min(blockRows, to-from)
		part, err := s.m.Slice(from, from+count)
		if err != nil {
			panic(err) // the rows are s.m's own
		}
		mulPanels(c.scores, 0, part, s.panels, s.columns)
		z := c.scores.f32
		for row := 0; row < count; row++ {
			if c.filling == 0 {
				row = columnsAbove(z, s.columns, row, count, c.thresholds)
				if row == count {
					break
				}
			}
			for q, score := range z[row*s.columns:][:len(c.heaps)] {
				if score > c.thresholds[q] || len(c.heaps[q]) < s.k {
					c.offer(q, RowScore{int32(from + row), score}, s.k)
				}
			}
		}
	}
}

// offer gives a hit to query q. Within a thread rows come in ascending order, but a thread may
// get chunks in any order, so equal scores are settled by index.
func (c *candidate) offer(q int, hit RowScore, k int) {
	if hit.Score != hit.Score {
		return
	}
	h := &c.heaps[q]
	if len(*h) < k {
		h.push(hit)
		if len(*h) < k {
			return
		}
		c.filling--
	} else if hit.before((*h)[0]) {
		h.replace(hit)
	}
	c.thresholds[q] = (*h)[0].Score
}

// merge returns the best k of all threads for query q.
func (s *search) merge(q int) []RowScore {
	var all Heap
	for w := range s.workers {
		all = append(all, s.workers[w].heaps[q]...)
	}
	all.Sort()
	return all[:min(len(all), s.k):min(len(all), s.k)]
}

// Heap keeps the best of the rows that it was offered, the worst of them on top.
type Heap []RowScore

// Offer gives a row to a heap that keeps k.
func (h *Heap) Offer(hit RowScore, k int) {
	if len(*h) < k {
		h.push(hit)
	} else if k > 0 && hit.before((*h)[0]) {
		h.replace(hit)
	}
}

// Sort ends a heap: its rows are put in order, the best first.
func (h Heap) Sort() {
	slices.SortFunc(h, func(a, b RowScore) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Row, b.Row))
	})
}

func (h *Heap) push(hit RowScore) {
	*h = append(*h, hit)
	a := *h
	i := len(a) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !a[parent].before(hit) {
			break
		}
		a[i] = a[parent]
		i = parent
	}
	a[i] = hit
}

// replace puts a better hit in the place of the worst.
func (h Heap) replace(hit RowScore) {
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child].before(h[child+1]) {
			child++
		}
		if !hit.before(h[child]) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = hit
}

// Best returns the k candidates with the highest scores, best first and of equal ones the lowest. Candidates ascend.
// Scores that are not numbers never win.
func Best(scores []float32, candidates []int32, k int) []int32 {
	heap := make(Heap, 0, max(k, 0))
	for k > 0 && len(candidates) > 0 {
		first, run := candidates[0], Run(candidates)
		candidates = candidates[run:]
		for at, z := 0, scores[first:][:run]; at < run; at++ {
			if len(heap) == k { // of equal ones those before are there already
				if at += Above(z[at:], heap[0].Score); at == run {
					break
				}
			}
			if z[at] == z[at] {
				heap.Offer(RowScore{first + int32(at), z[at]}, k)
			}
		}
	}
	heap.Sort()
	rows := make([]int32, len(heap))
	for p, hit := range heap {
		rows[p] = hit.Row
	}
	return rows
}

// Run returns how many of the first numbers follow one another without a gap, of numbers that ascend. What is true of
// numbers in a row is then computed without looking at each.
func Run(ascending []int32) int {
	n := len(ascending)
	if n == 0 {
		return 0
	}
	const few = 32
	gapless := func(count int) bool { return int(ascending[count-1])-int(ascending[0]) == count-1 }
	if gapless(n) {
		return n
	}
	if n <= few || !gapless(few) { // so short that looking at each is fastest
		some := 1
		for gapless(some + 1) {
			some++
		}
		return some
	}
	some, more := few, 2*few // some are gapless; more may not be
	for more < n && gapless(more) {
		some, more = more, 2*more
	}
	more = min(more, n) // not gapless
	for more-some > 1 {
		if middle := (some + more) / 2; gapless(middle) {
			some = middle
		} else {
			more = middle
		}
	}
	return some
}

// CountAbove counts the numbers above a threshold, which is finite.
func CountAbove(z []float32, threshold float32) int {
	whole := len(z) / lanes() * lanes() // of whole registers
	return countAbove(z[:whole], threshold) + countAboveGo(z[whole:], threshold)
}

// The sign of the difference is 1 where z > threshold, without a branch to guess.
func countAboveGo(z []float32, threshold float32) (count int) {
	for _, x := range z {
		count += int(math.Float32bits(threshold-x) >> 31)
	}
	return count
}

// Shift adds a number to all.
func Shift(z []float32, by float32) {
	whole := len(z) / lanes() * lanes()
	shift(z[:whole], by)
	shiftGo(z[whole:], by)
}

func shiftGo(z []float32, by float32) {
	for k := range z {
		z[k] += by
	}
}

// Above returns the place of the first number above a threshold; the length if there is none.
func Above(z []float32, threshold float32) int {
	at := above(z[:len(z)/lanes()*lanes()], threshold) // of whole registers
	for at < len(z) && !(z[at] > threshold) {
		at++
	}
	return at
}
