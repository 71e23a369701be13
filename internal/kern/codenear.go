package kern

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"unsafe"
)

// RowLists are lists of rows. A row may be in two of them.
type RowLists struct {
	Starts []int // where each list begins in Rows, and where the last one ends
	Rows   []int32
	Home   []int32 // by row, the list that counts where a query looks at both; nil where no row is in two
}

// NearSearch asks for the K rows with the largest scores by their codes. With lists, each query looks at the rows of
// those Visits lists alone whose centres have the largest scores for it.
type NearSearch struct {
	CodeSearch
	Lists        RowLists
	Centres      *Codes // of the lists; nil: every query looks at all rows
	CentreFields []uint16
	CentreValues []float32
	Visits       int
}

// nearQueries is how many queries a thread looks for at a time: so many that tiles of them are full, and so few that
// what is known of them stays in the cache.
const nearQueries = 8192

// earlyVisits is how many of its lists a query looks at first, so that few rows of the others are better than what it
// has.
const earlyVisits = 4

// nearRoom is how many times as many rows as are wanted are kept before the best of them are chosen.
const nearRoom = 3

// Near returns for each query the rows with the largest scores by their codes, which is nearly the order of the
// scores, in no order; scores are those by codes. A query that cannot be coded has none. The result depends neither on
// the number of threads, nor on which other queries there are, nor on the processor.
func (c *Codes) Near(ctx context.Context, s NearSearch, threads int) ([][]RowScore, error) {
	if s.Queries.dim != c.dim || s.K < 0 || s.Centres != nil && (s.Centres.dim != c.dim || s.Visits < 1 ||
		len(s.Lists.Starts) != s.Centres.rows+1) {
		panic(fmt.Sprintf("kern: Near of %d hits of %d queries with %d elements in %d of %d lists, over rows with %d",
			s.K, s.Queries.rows, s.Queries.dim, s.Visits, len(s.Lists.Starts)-1, c.dim))
	}
	results := make([][]RowScore, s.Queries.rows)
	if s.K == 0 || c.rows == 0 {
		return results, nil
	}
	probes := make([]nearProbe, len(results))
	order := make([]int32, len(results))
	err := nearChunks(ctx, len(probes), threads, func(from, to int) error {
		q := make([]float32, c.dim)
		for k := from; k < to; k++ {
			s.Queries.Load(q, k)
			probes[k].ask(c, &s, k, q)
			order[k] = int32(k)
		}
		if s.Centres == nil {
			return nil
		}
		return s.findVisits(ctx, probes, order[from:to])
	})
	if err != nil {
		return nil, err
	}
	whole := oneList(c.rows)
	if s.Centres != nil { // those that look at the same lists come together
		whole = s.Lists
		slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(probes[a].home(), probes[b].home()) })
	}
	err = nearChunks(ctx, len(order), threads, func(from, to int) error {
		n := newNear(c, probes, order[from:to], s.K, s.CodeSearch, whole)
		if s.Centres == nil {
			if err := n.run(ctx, func(*nearProbe) []int32 { return []int32{0} }); err != nil {
				return err
			}
			n.end(results)
			return nil
		}
		for _, some := range []func(p *nearProbe) []int32{
			func(p *nearProbe) []int32 { return p.visits[:min(earlyVisits, len(p.visits))] },
			func(p *nearProbe) []int32 { return p.visits[min(earlyVisits, len(p.visits)):] },
		} {
			if err := n.run(ctx, some); err != nil {
				return err
			}
		}
		n.end(results)
		return nil
	})
	runtime.KeepAlive(c)
	runtime.KeepAlive(s.Centres)
	runtime.KeepAlive(s.Queries)
	return results, err
}

// nearChunks shares queries out among threads.
func nearChunks(ctx context.Context, n, threads int, work func(from, to int) error) error {
	threads = max(threads, 1)
	size := min(nearQueries, max((n+threads-1)/threads, 1))
	return ChunksErr(ctx, n, size, threads, func(_, _, from, to int) error { return work(from, to) })
}

// findVisits finds the lists of some queries, the best few first.
func (s *NearSearch) findVisits(ctx context.Context, probes []nearProbe, queries []int32) error {
	search := CodeSearch{Fields: s.CentreFields, Values: s.CentreValues, Offsets: s.Offsets, Slopes: s.Slopes}
	n := newNear(s.Centres, probes, queries, s.Visits, search, oneList(s.Centres.rows))
	if err := n.run(ctx, func(*nearProbe) []int32 { return []int32{0} }); err != nil {
		return err
	}
	for k, q := range queries {
		near := n.found[k].keys
		largestFirst(near, earlyVisits)
		largestFirst(near[:min(earlyVisits, len(near))], 1)
		probes[q].visits = make([]int32, len(near))
		for at, key := range near {
			probes[q].visits[at] = HitOf(key).Row
		}
	}
	return nil
}

// oneList has all rows.
func oneList(rows int) RowLists {
	all := make([]int32, rows)
	for i := range all {
		all[i] = int32(i)
	}
	return RowLists{Starts: []int{0, rows}, Rows: all}
}

// nearProbe is a query as codes.
type nearProbe struct {
	codes   []int8
	zero    int32
	step    float32
	rest    float32 // what fusing may add to a score, per length of a row
	slope   float32
	offsets []float32
	visits  []int32 // the lists that it looks at
	known   bool
}

// ask makes the probe of a query.
func (p *nearProbe) ask(c *Codes, s *NearSearch, query int, q []float32) {
	var probe Probe
	if p.known = c.Ask(&probe, q); !p.known {
		return
	}
	p.codes, p.zero, p.step = probe.codes, probe.zero, probe.step
	var square float64
	for _, x := range q {
		square += float64(x) * float64(x)
	}
	p.rest = above32(math.Sqrt(square) * 0x1p-18)
	if s.Offsets != nil {
		p.offsets = s.Offsets[query]
	}
	if s.Slopes != nil {
		p.slope = s.Slopes[query]
	}
}

// home is one of the best lists; −1 if there is none.
func (p *nearProbe) home() int32 {
	if len(p.visits) == 0 {
		return -1
	}
	return p.visits[0]
}

// nearFound is the best rows of a query so far, among more, as keys. Their lowest bit says that the row was met in its
// second list.
type nearFound struct {
	keys  []uint64
	sure  int     // of them are known to be hits
	least float32 // the score of the worst of the best, once there are enough
}

// HitKey is a row and its score as one number: that of the better hit is larger. The lowest bit is 0. A score of −0
// is below one of 0.
func HitKey(h RowScore) uint64 {
	bits := math.Float32bits(h.Score)
	if bits>>31 != 0 {
		bits = ^bits
	} else {
		bits |= 1 << 31
	}
	return uint64(bits)<<32 | uint64(^uint32(h.Row)<<1)
}

// HitOf is the row and the score of a key, whatever its lowest bit.
func HitOf(key uint64) RowScore {
	bits := uint32(key >> 32)
	if bits>>31 != 0 {
		bits &^= 1 << 31
	} else {
		bits = ^bits
	}
	return RowScore{int32(^uint32(key) >> 1), math.Float32frombits(bits)}
}

// largestFirst puts the k largest keys before the others, by Hoare's selection.
func largestFirst(keys []uint64, k int) {
	for lo, hi := 0, len(keys)-1; lo < hi && k <= hi; {
		a, b, c := keys[lo], keys[hi], keys[(lo+hi)/2]
		pivot := max(min(a, b), min(max(a, b), c)) // the median
		i, j := lo, hi
		for i <= j {
			for keys[i] > pivot {
				i++
			}
			for keys[j] < pivot {
				j--
			}
			if i <= j {
				keys[i], keys[j] = keys[j], keys[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			hi = j
		case k > i:
			lo = i
		default:
			return
		}
	}
}

// near is a search for some queries by one thread, among lists of rows.
type near struct {
	c      *Codes
	s      CodeSearch // of which the queries, the offsets and the slopes are in probes
	k      int
	lists  RowLists
	probes []nearProbe // of all queries
	own    []int32     // the queries of this search
	found  []nearFound // of each of those

	block  *codeBlock // of queries that look at a list; nil where there are no block products
	worker codeWorker
	rows   *Codes // those of a list, gathered
	fields []uint16
	values []float32
	most   float64 // the largest of all values
	scores []float32
	wanted []int32 // places of own queries, by the list that they look at
	starts []int   // where those of each list begin
}

func newNear(c *Codes, probes []nearProbe, own []int32, k int, s CodeSearch, lists RowLists) *near {
	if s.Offsets == nil { // which there is room for by field
		s.Fields = nil
	}
	if s.Slopes == nil {
		s.Values = nil
	}
	n := &near{c: c, s: s, k: k, lists: lists, probes: probes, own: own, found: make([]nearFound, len(own)),
		most: largest(s.Values)}
	most := nearRoom * k
	room := make([]uint64, most*len(own))
	for q := range n.found {
		n.found[q] = nearFound{keys: room[most*q:][:0:most], least: float32(math.Inf(-1))}
	}
	longest := 0
	for l := range len(lists.Starts) - 1 {
		longest = max(longest, lists.Starts[l+1]-lists.Starts[l])
	}
	n.fields, n.values = make([]uint16, longest), make([]float32, longest)
	if !codeBlocks() {
		n.scores = make([]float32, longest)
		return n
	}
	fields := 1
	if s.Fields != nil {
		fields += int(slices.Max(s.Fields))
	}
	longest = roundUp(longest, codeBlockRows)
	n.rows = &Codes{stride: c.stride, bytes: make([]uint8, longest*c.stride), scales: make([]float32, longest),
		rests: make([]float32, longest), norms: make([]float32, longest)}
	n.block = &codeBlock{c: n.rows, panels: make([]int8, codeGroup*c.stride),
		terms: make([]float32, termCount*codeGroup), offsets: make([]float32, fields*codeGroup)}
	n.worker = codeWorker{sums: make([]int32, codeBlockRows*codeGroup),
		masks: make([]uint16, codeBlockRows*codeGroup/16)}
	return n
}

// run has every query look at some lists.
func (n *near) run(ctx context.Context, lists func(p *nearProbe) []int32) error {
	n.sort(lists)
	for l := range len(n.lists.Starts) - 1 {
		wanted := n.wanted[n.starts[l]:n.starts[l+1]]
		if len(wanted) == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		rows := n.lists.Rows[n.lists.Starts[l]:n.lists.Starts[l+1]]
		n.gather(rows)
		for len(wanted) > 0 {
			some := wanted[:min(len(wanted), codeGroup)]
			if n.block != nil {
				n.multiply(int32(l), rows, some)
			} else {
				n.oneByOne(int32(l), rows, some)
			}
			wanted = wanted[len(some):]
		}
	}
	for q := range n.found {
		n.keep(int32(q))
	}
	return nil
}

// end sets the results.
func (n *near) end(results [][]RowScore) {
	for k, q := range n.own {
		results[q] = make([]RowScore, len(n.found[k].keys))
		for at, key := range n.found[k].keys {
			results[q][at] = HitOf(key)
		}
	}
}

// sort finds the queries that look at each list.
func (n *near) sort(lists func(p *nearProbe) []int32) {
	count := len(n.lists.Starts) - 1
	n.starts = make([]int, count+1)
	for _, q := range n.own {
		if p := &n.probes[q]; p.known {
			for _, l := range lists(p) {
				n.starts[l+1]++
			}
		}
	}
	for l := range count {
		n.starts[l+1] += n.starts[l]
	}
	n.wanted = slices.Grow(n.wanted[:0], n.starts[count])[:n.starts[count]]
	next := slices.Clone(n.starts)
	for k, q := range n.own {
		if p := &n.probes[q]; p.known {
			for _, l := range lists(p) {
				n.wanted[next[l]] = int32(k)
				next[l]++
			}
		}
	}
}

// gather copies what is known of the rows of a list.
func (n *near) gather(rows []int32) {
	stride := n.c.stride
	for k, i := range rows {
		if n.s.Fields != nil {
			n.fields[k] = n.s.Fields[i]
		}
		if n.s.Values != nil {
			n.values[k] = n.s.Values[i]
		}
		if n.block != nil {
			copy(n.rows.bytes[k*stride:][:stride], n.c.bytes[int(i)*stride:][:stride])
			n.rows.scales[k], n.rows.norms[k] = n.c.scales[i], n.c.norms[i]
		}
	}
}

// multiply scores the rows of a list for some queries by block products.
func (n *near) multiply(list int32, rows, queries []int32) {
	b, w := n.block, &n.worker
	b.columns = roundUp(len(queries), codeTileColumns)
	b.terms = b.terms[:termCount*b.columns]
	for at := range b.columns {
		n.pack(at, queries)
	}
	words, least := b.columns/16, b.term(termLeast)
	for from := 0; from < len(rows); from += codeBlockRows {
		count := min(codeBlockRows, len(rows)-from)
		b.multiply(w.sums, from, count)
		reachCodes(w.masks, &codeReach{n.rows, from, count, w.sums, n.values[from : from+count],
			n.fields[from : from+count], b.terms, b.offsets})
		for r := range count {
			for at, mask := range w.masks[r*words:][:words] {
				for ; mask != 0; mask &= mask - 1 {
					column := 16*at + bits.TrailingZeros16(mask)
					if column >= len(queries) { // none reaches it but rows of which nothing is known
						break
					}
					zero := int32(math.Float32bits(b.term(termZero)[column]))
					z := float32(float32(n.rows.scales[from+r]*b.term(termStep)[column]) *
						float32(w.sums[r*b.columns+column]-zero)) // rounded: some processors would fuse it
					if z = n.whole(z, queries[column], from+r); z >= least[column] {
						n.offer(queries[column], list, rows[from+r], z)
						least[column] = n.found[queries[column]].least
					}
				}
			}
		}
	}
}

// pack makes a query a column of the block, or makes a column that no row reaches. Block products fuse what the score
// rounds, so that they are given a little more, and what reaches is scored again.
func (n *near) pack(at int, queries []int32) {
	b := n.block
	if at >= len(queries) {
		b.term(termLeast)[at] = float32(math.Inf(1))
		return
	}
	p := &n.probes[n.own[queries[at]]]
	fours := len(p.codes) / 4
	from := unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(p.codes))), fours)
	panel := b.panels[at/codeTileColumns*codeTileColumns*n.c.stride:][:codeTileColumns*n.c.stride]
	to := unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(panel))), fours*codeTileColumns)[at%codeTileColumns:]
	for d, x := range from {
		to[d*codeTileColumns] = x
	}
	terms := b.terms[at:]
	terms[termStep*b.columns], terms[termZero*b.columns] = p.step, math.Float32frombits(uint32(p.zero))
	terms[termReach*b.columns], terms[termRest*b.columns] = 0, p.rest
	terms[termSlope*b.columns], terms[termLeast*b.columns] = p.slope, n.found[queries[at]].least
	margin := float32(leastSlack)
	if n.terms() {
		margin = above32((largest(p.offsets)+math.Abs(float64(p.slope))*n.most)*0x1p-18 + leastSlack)
	}
	for f := range len(b.offsets) / codeGroup {
		x := margin
		if f < len(p.offsets) {
			x += p.offsets[f]
		}
		b.offsets[f*b.columns+at] = x
	}
}

// terms reports whether scores are more than products.
func (n *near) terms() bool { return n.s.Offsets != nil || n.s.Slopes != nil }

// oneByOne is multiply where there are no block products.
func (n *near) oneByOne(list int32, rows, queries []int32) {
	for _, q := range queries {
		p := &n.probes[n.own[q]]
		probe := Probe{codes: p.codes, zero: p.zero, step: p.step}
		n.c.DotsAt(n.scores, &probe, rows)
		for k, z := range n.scores[:len(rows)] {
			if z = n.whole(z, q, k); z >= n.found[q].least {
				n.offer(q, list, rows[k], z)
			}
		}
	}
}

// whole adds to the product of a query with one of the gathered rows what the row's field and value add.
func (n *near) whole(z float32, q int32, k int) float32 {
	if !n.terms() {
		return z
	}
	p := &n.probes[n.own[q]]
	switch {
	case len(p.offsets) == 0:
	case n.s.Fields == nil:
		z += p.offsets[0]
	default:
		z += p.offsets[n.fields[k]]
	}
	if p.slope != 0 {
		z += float32(p.slope * n.values[k])
	}
	return z
}

// offer gives a row of a list to a query.
func (n *near) offer(q, list, row int32, z float32) {
	f := &n.found[q]
	key := HitKey(RowScore{row, z})
	if n.lists.Home != nil && n.lists.Home[row] != list {
		key |= 1
	}
	if f.keys = append(f.keys, key); len(f.keys) == cap(f.keys) {
		n.keep(q)
	}
}

// keep forgets all but the best of a query: rows that may not be hits, and those met twice.
func (n *near) keep(q int32) {
	f, query := &n.found[q], n.own[q]
	sure := f.keys[:f.sure]
	for _, key := range f.keys[f.sure:] {
		row := HitOf(key).Row
		if n.s.keeps(int(query), row) &&
			(key&1 == 0 || !slices.Contains(n.probes[query].visits, n.lists.Home[row])) {
			sure = append(sure, key&^1)
		}
	}
	if len(sure) >= n.k {
		largestFirst(sure, n.k)
		sure = sure[:n.k]
		f.least = HitOf(slices.Min(sure)).Score
	}
	f.keys, f.sure = sure, len(sure)
}
