package kern

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"slices"
)

// CodeSearch asks for the rows with the largest scores,
//
//	⟨q, row_i⟩ + Offsets[q][Fields[i]] + Slopes[q]·Values[i],
//
// of each row q of Queries.
type CodeSearch struct {
	Queries *Matrix
	K       int
	Fields  []uint16    // of every row; nil: all are of the first
	Offsets [][]float32 // by query and field; nil: none
	Values  []float32   // of every row; nil where there are no slopes
	Slopes  []float32   // by query; nil: none
	// Keep, unless nil, says whether a row may be a hit of a query. It is asked by several goroutines.
	Keep func(query int, row int32) bool
}

// The least number of queries for which block products are worth while: a tile has room for 48.
const fewCoded = 3

// A tile of the block product of codes, and how many of its rows and columns are computed at a time.
const (
	codeTileRows    = 8
	codeTileColumns = 48
	codeBlockRows   = 64
	codeGroup       = 5 * codeTileColumns
)

// TopKCodes finds for each query the k rows with the largest scores, best first, of equal ones the lowest: those that a
// scan of m finds, with the same scores to the bit. It reads the codes of all rows, and of m only what the codes leave
// open. The result does not depend on the number of threads.
func TopKCodes(ctx context.Context, c *Codes, m *Matrix, s CodeSearch, threads int) ([][]RowScore, error) {
	if c.rows != m.rows || c.dim != m.dim {
		panic(fmt.Sprintf("kern: TopKCodes of a %d×%d matrix with codes of %d×%d", m.rows, m.dim, c.rows, c.dim))
	}
	if s.Queries.dim != m.dim {
		panic(fmt.Sprintf("kern: TopKCodes of queries with %d elements over rows with %d", s.Queries.dim, m.dim))
	}
	if s.K < 0 {
		panic(fmt.Sprintf("kern: TopKCodes of %d hits", s.K))
	}
	results := make([][]RowScore, s.Queries.rows)
	if s.K == 0 || m.rows == 0 {
		return results, nil
	}
	threads = max(threads, 1)
	groups := (len(results) + codeGroup - 1) / codeGroup
	alone := make([][]int, groups) // queries of a group that are not looked for in blocks
	apart, within := 1, threads
	if groups >= threads { // a thread that has a group for itself finds its best sooner
		apart, within = threads, 1
	}
	if err := ChunksErr(ctx, len(results), codeGroup, apart, func(_, group, from, to int) (err error) {
		alone[group], err = c.group(ctx, m, &s, results[from:to], from, within)
		return err
	}); err != nil {
		return nil, err
	}
	for _, q := range slices.Concat(alone...) {
		likely, err := c.likely(ctx, &s, q, threads)
		if err != nil {
			return nil, err
		}
		results[q] = s.exactly(likely, m, q)
	}
	runtime.KeepAlive(c)
	runtime.KeepAlive(m)
	runtime.KeepAlive(s.Queries)
	return results, nil
}

// group sets the results of a group of queries and returns those that are not looked for in blocks.
func (c *Codes) group(ctx context.Context, m *Matrix, s *CodeSearch, results [][]RowScore, from,
	threads int) (alone []int, err error) {
	if !codeBlocks() || len(results) < fewCoded || s.K > MaxK {
		for q := range results {
			alone = append(alone, from+q)
		}
		return alone, nil
	}
	b := newCodeBlock(c, s, from, len(results), threads)
	if err := b.run(ctx, threads); err != nil {
		return nil, err
	}
	if err := ChunksErr(ctx, len(results), 1, threads, func(_, q, _, _ int) error {
		if !b.hard(q) {
			results[q] = b.finish(q, m)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	for q := range results {
		if b.hard(q) {
			alone = append(alone, from+q)
		}
	}
	return alone, nil
}

// Estimate sets each of dst, of as many elements as there are rows, to estimates of the inner products of one of the
// queries, and returns their reach: an inner product in float32 is within reach·Rests()[i] of the estimate. Where
// nothing is known, because the query is not finite or too large or too small, the reach is below zero and dst is left
// alone. The codes are read once, and what is made of a query does not depend on the others.
func (c *Codes) Estimate(ctx context.Context, dst, queries [][]float32, threads int) (reach []float32, err error) {
	coded := make([]coded, len(queries))
	reach = make([]float32, len(queries))
	for k, q := range queries {
		if reach[k] = -1; codable(q) {
			coded[k] = c.codeQuery(q)
			reach[k] = coded[k].reach
		}
	}
	err = ChunksErr(ctx, c.rows, chunkRows, threads, func(_, _, from, to int) error {
		room := newCodeRoom()
		for ; from < to; from += scanRows {
			count := min(scanRows, to-from)
			whole := count / codeRows * codeRows
			for k, q := range coded {
				if reach[k] < 0 {
					continue
				}
				if whole > 0 {
					c.scores(dst[k][from:from+whole], &room, q, from)
				}
				if whole < count {
					c.scores(room.scores[:codeRows], &room, q, from+whole)
					copy(dst[k][from+whole:from+count], room.scores)
				}
			}
		}
		return nil
	})
	runtime.KeepAlive(c)
	return reach, err
}

// Rests are what a reach is multiplied with, by row; see Estimate.
func (c *Codes) Rests() []float32 { return c.rests[:c.rows] }

// LargestRest is the largest of the Rests.
func (c *Codes) LargestRest() float32 { return slices.Max(c.mosts) }

// found is what one thread knows of the best rows of a query: how large the scores of the k best are at least, and
// which rows may be among them.
type found struct {
	least  float32 // the score that k rows have at least
	lowers Heap
	likely []RowScore // with the score that they have at most
	hard   bool       // given up: there are too many
	limit  int        // of likely, before they are looked through
}

// offer gives a row whose score is estimated within a slack.
func (f *found) offer(row int32, estimate, slack float32, k int) {
	f.likely = append(f.likely, RowScore{row, estimate + slack})
	if lower := estimate - slack; lower == lower {
		if f.lowers.Offer(RowScore{row, lower}, k); len(f.lowers) == k {
			f.least = f.lowers[0].Score
		}
	}
	if len(f.likely) > f.limit {
		f.compact()
		f.limit = 2*len(f.likely) + 4*k
	}
}

// compact forgets the rows that cannot be among the best any more.
func (f *found) compact() {
	f.likely = slices.DeleteFunc(f.likely, func(h RowScore) bool { return h.Score < f.least })
}

// together joins what threads have found and returns the rows that may be among the k best, ascending.
func together(parts []*found, k int) []int32 {
	var lowers Heap
	for _, part := range parts {
		for _, lower := range part.lowers {
			lowers.Offer(lower, k)
		}
	}
	least := float32(math.Inf(-1))
	if len(lowers) == k {
		least = lowers[0].Score
	}
	var rows []int32
	for _, part := range parts {
		for _, hit := range part.likely {
			if !(hit.Score < least) {
				rows = append(rows, hit.Row)
			}
		}
	}
	slices.Sort(rows)
	return rows
}

// exactly scores rows and keeps the k best.
func (s *CodeSearch) exactly(rows []int32, m *Matrix, query int) []RowScore {
	q, scores := make([]float32, m.dim), make([]float32, len(rows))
	s.Queries.Load(q, query)
	Dots(scores, q, m, rows)
	s.add(scores, query, rows)
	best := make(Heap, 0, min(len(rows), s.K))
	for p, score := range scores {
		if score == score {
			best.Offer(RowScore{rows[p], score}, s.K)
		}
	}
	best.Sort()
	return best
}

// add adds offsets and slopes to the inner products of a query with some rows.
func (s *CodeSearch) add(scores []float32, query int, rows []int32) {
	if s.Offsets != nil {
		switch own := s.Offsets[query]; {
		case len(own) == 0:
		case s.Fields == nil:
			for k := range scores {
				scores[k] += own[0]
			}
		default:
			for k, i := range rows {
				scores[k] += own[s.Fields[i]]
			}
		}
	}
	if s.Slopes != nil && s.Slopes[query] != 0 {
		for k, i := range rows {
			scores[k] += s.Slopes[query] * s.Values[i]
		}
	}
}

// keeps reports whether a row may be a hit of a query.
func (s *CodeSearch) keeps(query int, row int32) bool { return s.Keep == nil || s.Keep(query, row) }

// Margin is what rounding may add to a score beyond that of its inner product.
func (s *CodeSearch) Margin(query int) float32 {
	var most float64
	if s.Offsets != nil {
		most = largest(s.Offsets[query])
	}
	if s.Slopes != nil && s.Slopes[query] != 0 {
		most += math.Abs(float64(s.Slopes[query])) * largest(s.Values)
	}
	return above32(most*0x1p-20 + leastSlack)
}

// likely returns the rows that may be among the best of one query, ascending.
func (c *Codes) likely(ctx context.Context, s *CodeSearch, query, threads int) ([]int32, error) {
	q := make([]float32, c.dim)
	s.Queries.Load(q, query)
	if !codable(q) || c.rows <= s.K {
		var all []int32
		for i := range int32(c.rows) {
			if s.keeps(query, i) {
				all = append(all, i)
			}
		}
		return all, nil
	}
	code, margin := c.codeQuery(q), s.Margin(query)
	var offsets []float32
	if s.Offsets != nil {
		offsets = s.Offsets[query]
	}
	slope := float32(0)
	if s.Slopes != nil {
		slope = s.Slopes[query]
	}
	parts := make([]*found, threads)
	rooms := make([]codeRoom, threads)
	err := ChunksErr(ctx, c.rows, chunkRows, threads, func(worker, _, from, to int) error {
		if parts[worker] == nil {
			parts[worker] = &found{least: float32(math.Inf(-1)), limit: 4 * s.K}
			rooms[worker] = newCodeRoom()
		}
		f, room := parts[worker], &rooms[worker]
		for ; from < to; from += scanRows {
			count := min(scanRows, to-from)
			c.scores(room.scores[:roundUp(count, codeRows)], room, code, from)
			scores := room.scores[:count]
			switch {
			case len(offsets) == 0:
			case s.Fields == nil:
				for k := range scores {
					scores[k] += offsets[0]
				}
			default:
				for k, f := range s.Fields[from : from+count] {
					scores[k] += offsets[f]
				}
			}
			if slope != 0 {
				for k, x := range s.Values[from : from+count] {
					scores[k] += slope * x
				}
			}
			most := code.reach*c.mosts[from/scanRows] + margin // the largest slack of these rows
			for at := 0; at < count; {
				if threshold := f.least - most; threshold-threshold == 0 {
					at += above(scores[at:at+(count-at)/lanes()*lanes()], below32(threshold))
				}
				for range min(count-at, maxLanes) {
					slack := code.reach*c.rests[from+at] + margin
					if z := scores[at]; !(z+slack < f.least) && s.keeps(query, int32(from+at)) {
						f.offer(int32(from+at), z, slack, s.K)
					}
					at++
				}
			}
		}
		return nil
	})
	return together(slices.DeleteFunc(parts, func(f *found) bool { return f == nil }), s.K), err
}

// below32 is the next float32 number below x.
func below32(x float32) float32 { return math.Nextafter32(x, float32(math.Inf(-1))) }

// codeBlock is one pass of a group of queries over the codes, by block products. A query has a byte per element here:
// the bounds are twice as wide, and the products half as many.
type codeBlock struct {
	c           *Codes
	s           *CodeSearch
	from, count int // of the queries
	columns     int // as many, padded to the tile's width
	panels      []int8
	offsets     []float32 // by field, then by query, with the margin
	margins     []float32
	terms       []float32 // see reachCodes
	workers     []codeWorker
}

// codeWorker is what one thread knows, and its room.
type codeWorker struct {
	found []found
	terms []float32
	sums  []int32
	masks []uint16
}

// The arrays that terms has one behind the other.
const (
	termStep = iota
	termZero
	termReach
	termRest
	termSlope
	termLeast
	termCount
)

func newCodeBlock(c *Codes, s *CodeSearch, from, count, threads int) *codeBlock {
	b := &codeBlock{c: c, s: s, from: from, count: count, columns: roundUp(count, codeTileColumns)}
	b.panels = make([]int8, b.columns*c.stride)
	b.terms = make([]float32, termCount*b.columns)
	b.margins = make([]float32, b.columns)
	fields := 1
	if s.Offsets != nil && s.Fields != nil {
		fields += int(slices.Max(s.Fields))
	}
	b.offsets = make([]float32, fields*b.columns)
	q := make([]float32, c.dim)
	for k := range b.columns {
		least := float32(math.Inf(1))
		if k < count {
			s.Queries.Load(q, from+k)
			b.margins[k] = s.Margin(from + k)
			for f := range fields {
				b.offsets[f*b.columns+k] = b.margins[k]
			}
			if s.Offsets != nil {
				for f, x := range s.Offsets[from+k][:min(len(s.Offsets[from+k]), fields)] {
					b.offsets[f*b.columns+k] += x
				}
			}
			if s.Slopes != nil {
				b.term(termSlope)[k] = s.Slopes[from+k]
			}
			if codable(q) {
				b.set(k, c.turned(q))
				least = float32(math.Inf(-1))
			}
		}
		b.term(termLeast)[k] = least
	}
	b.workers = make([]codeWorker, threads)
	return b
}

// term returns one of the arrays of terms.
func (b *codeBlock) term(of int) []float32 { return b.terms[of*b.columns:][:b.columns] }

// set codes a turned query in a byte per element.
func (b *codeBlock) set(k int, q []float32) {
	steps, step, norm, rest := split(q, codeMost)
	panel := b.panels[k/codeTileColumns*codeTileColumns*b.c.stride:]
	column := k % codeTileColumns
	zero := int32(0)
	for d, x := range steps {
		panel[d/4*4*codeTileColumns+4*column+d%4] = int8(x)
		zero += codeZero * x
	}
	b.term(termStep)[k], b.term(termZero)[k] = step, math.Float32frombits(uint32(zero))
	b.term(termReach)[k], b.term(termRest)[k] = above32(norm*(1+0x1p-18)), above32(rest*(1+0x1p-18))
}

// hard reports whether too many rows may be among the best of a query, or nothing is known of it.
func (b *codeBlock) hard(q int) bool {
	return math.IsInf(float64(b.term(termLeast)[q]), 1) || slices.ContainsFunc(b.workers, func(w codeWorker) bool {
		return w.found != nil && w.found[q].hard
	})
}

// finish returns the hits of a query.
func (b *codeBlock) finish(q int, m *Matrix) []RowScore {
	var parts []*found
	for w := range b.workers {
		if b.workers[w].found != nil {
			parts = append(parts, &b.workers[w].found[q])
		}
	}
	return b.s.exactly(together(parts, b.s.K), m, b.from+q)
}

// run looks at all rows.
func (b *codeBlock) run(ctx context.Context, threads int) error {
	zeros, nothing := make([]uint16, codeBlockRows), make([]float32, codeBlockRows)
	return ChunksErr(ctx, b.c.rows, chunkRows, threads, func(worker, _, from, to int) error {
		w := &b.workers[worker]
		if w.found == nil {
			b.hire(w)
		}
		for ; from < to; from += codeBlockRows {
			rows := min(codeBlockRows, to-from)
			b.multiply(w.sums, from, rows)
			fields, values := zeros, nothing
			if b.s.Fields != nil {
				fields = b.s.Fields[from : from+rows]
			}
			if b.s.Values != nil {
				values = b.s.Values[from : from+rows]
			}
			reachCodes(w.masks, &codeReach{b.c, from, rows, w.sums, values, fields, w.terms, b.offsets})
			words := b.columns / 16
			for r := range rows {
				for at, mask := range w.masks[r*words:][:words] {
					for ; mask != 0; mask &= mask - 1 {
						if q := 16*at + bits.TrailingZeros16(mask); q < b.count {
							b.offer(w, q, from+r, w.sums[r*b.columns+q], fields[r], values[r])
						}
					}
				}
			}
		}
		return nil
	})
}

// hire gives a thread its room.
func (b *codeBlock) hire(w *codeWorker) {
	w.found = make([]found, b.count)
	for q := range w.found {
		if s, fields := b.s, len(b.offsets)/b.columns; s.Offsets != nil && len(s.Offsets[b.from+q]) > 0 {
			_ = s.Offsets[b.from+q][fields-1] // every field of a row has one
		}
		w.found[q].least, w.found[q].limit = float32(math.Inf(-1)), 4*b.s.K
	}
	w.terms = slices.Clone(b.terms)
	w.sums = make([]int32, codeBlockRows*b.columns)
	w.masks = make([]uint16, codeBlockRows*b.columns/16)
}

// multiply sets the sums of some rows with all queries.
func (b *codeBlock) multiply(sums []int32, from, rows int) {
	stride := b.c.stride
	for at := 0; at < b.columns; at += codeTileColumns {
		for r := 0; r < rows; r += codeTileRows {
			tileCodes(sums[r*b.columns+at:], b.columns, b.c.bytes[(from+r)*stride:], stride, b.panels[at*stride:])
		}
	}
}

// offer gives a row that may be among the best of a query.
func (b *codeBlock) offer(w *codeWorker, q, row int, sum int32, field uint16, value float32) {
	f := &w.found[q]
	if f.hard || !b.s.keeps(b.from+q, int32(row)) {
		return
	}
	c, zero := b.c, int32(math.Float32bits(b.term(termZero)[q]))
	z := float32(c.scales[row]*b.term(termStep)[q]) * float32(sum-zero)
	z += float32(b.term(termSlope)[q]*value) + (b.offsets[int(field)*b.columns+q] - b.margins[q])
	slack := c.rests[row]*b.term(termReach)[q] + c.norms[row]*b.term(termRest)[q] + b.margins[q]
	f.offer(int32(row), z, slack, b.s.K)
	least := w.terms[termLeast*b.columns:][:b.columns]
	if least[q] = f.least; len(f.likely) > 16*b.s.K+c.rows/16 {
		if f.compact(); len(f.likely) > 8*b.s.K+c.rows/32 {
			f.hard, f.likely = true, nil
			least[q] = float32(math.Inf(1))
		}
	}
}

func tileCodesGo(c []int32, cStride int, a []uint8, aStride int, panel []int8) {
	for r := range codeTileRows {
		row := a[r*aStride:][:aStride]
		for q := range codeTileColumns {
			var sum int32
			for d, x := range row {
				sum += int32(x) * int32(panel[d/4*4*codeTileColumns+4*q+d%4])
			}
			c[r*cStride+q] = sum
		}
	}
}

// codeReach is some coded rows, their sums with the queries, and what of them decides which queries they may be among
// the best of.
type codeReach struct {
	codes          *Codes
	from, rows     int
	sums           []int32   // a row of as many columns as there are queries, per row
	values         []float32 // of the rows
	fields         []uint16  // of the rows
	terms, offsets []float32 // of the queries
}

// reachCodesGo sets bit q of the masks of a row where it is not certain that its score is below the query's least.
func reachCodesGo(masks []uint16, r *codeReach) {
	c, columns := r.codes, len(r.terms)/termCount
	term := func(of, q int) float32 { return r.terms[of*columns+q] }
	clear(masks[:r.rows*columns/16])
	for k := range r.rows {
		i := r.from + k
		for q := range columns {
			zero := int32(math.Float32bits(term(termZero, q)))
			z := c.scales[i] * term(termStep, q) * float32(r.sums[k*columns+q]-zero)
			z += c.rests[i]*term(termReach, q) + c.norms[i]*term(termRest, q) + term(termSlope, q)*r.values[k]
			if !(z+r.offsets[int(r.fields[k])*columns+q] < term(termLeast, q)) {
				masks[(k*columns+q)/16] |= 1 << (q % 16)
			}
		}
	}
}
