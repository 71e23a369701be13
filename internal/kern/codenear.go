package kern

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"
)

// RowLists are lists of rows. A row may be in two of them.
type RowLists struct {
	Starts []int // where each list begins in Rows, and where the last one ends
	Rows   []int32
	Home   []int32 // by row, the list that counts where a query looks at both; nil where no row is in two
	// Panels keep the rows of lists as products need them, for the next queries; nil: they are made for each search.
	Panels *ListPanels
}

// ListPanels has room for the rows of lists as columns of block products, of one matrix of codes and its lists. Many
// goroutines may use it.
type ListPanels struct {
	lists []atomic.Pointer[[]panel]
	room  atomic.Int64 // in bytes
}

// NewListPanels makes room for the panels of some lists: of the first that are asked for, so many bytes.
func NewListPanels(lists, bytes int) *ListPanels {
	p := &ListPanels{lists: make([]atomic.Pointer[[]panel], lists)}
	p.room.Store(int64(bytes))
	return p
}

// panel is some rows of a list as columns of block products.
type panel struct {
	rows    []int32
	columns int       // as many, padded to the width of tiles
	codes   []int8    // without their zero of 128
	terms   []float32 // see reachCodes
	low     []uint64  // of their keys
}

// newPanel has room for so many rows.
func newPanel(rows, stride int) panel {
	columns := roundUp(rows, codeTileColumns)
	return panel{codes: make([]int8, columns*stride), terms: make([]float32, termCount*columns),
		low: make([]uint64, columns)}
}

// term returns one of the arrays of terms.
func (p *panel) term(of int) []float32 { return p.terms[of*p.columns:][:p.columns] }

// fill makes rows of a list the columns.
func (p *panel) fill(c *Codes, home []int32, list int32, rows []int32) {
	p.rows, p.columns = rows, roundUp(len(rows), codeTileColumns)
	p.terms = p.terms[:termCount*p.columns]
	steps, zeros, norms := p.term(termStep), p.term(termZero), p.term(termRest)
	reaches, leasts := p.term(termReach), p.term(termLeast)
	for k, i := range rows {
		p.low[k] = lowKey(home, list, i)
		steps[k], zeros[k], norms[k] = c.scales[i], math.Float32frombits(uint32(p.pack(k, c.CodesOf(i)))), c.norms[i]
		reaches[k], leasts[k] = 1, 0
	}
	for k := len(rows); k < p.columns; k++ { // columns that queries reach only as long as they reach all
		steps[k], zeros[k], norms[k], reaches[k], leasts[k] = 0, 0, 0, 0, float32(math.Inf(1))
	}
	clear(p.term(termSlope))
}

// pack makes the codes of a row a column, without their zero of 128, and returns what the zero of the queries' codes
// adds to its products.
func (p *panel) pack(column int, codes []uint8) (zero int32) {
	stride := len(codes)
	tile := p.codes[column/codeTileColumns*codeTileColumns*stride:][:codeTileColumns*stride]
	to := unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(tile))), stride/4*codeTileColumns)
	from := unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(codes))), stride/4)
	const pairs = 0x00ff00ff
	var sum uint32
	for d, at := 0, column%codeTileColumns; d < len(from); d, at = d+1, at+codeTileColumns {
		x := from[d]
		sum += x&pairs + x>>8&pairs
		to[at] = x ^ 0x80808080
		if d%128 == 127 { // a pair has room for 128 sums
			zero += int32(sum>>16 + sum&0xffff)
			sum = 0
		}
	}
	zero += int32(sum>>16 + sum&0xffff)
	return codeZero * (zero - codeZero*int32(stride))
}

// kept returns the panels of a list, which are kept if there is room; nil where there is not.
func (p *ListPanels) kept(c *Codes, lists *RowLists, list int32) []panel {
	if p == nil {
		return nil
	}
	if panels := p.lists[list].Load(); panels != nil {
		return *panels
	}
	rows := lists.Rows[lists.Starts[list]:lists.Starts[list+1]]
	columns := int64(roundUp(len(rows), codeTileColumns))
	bytes := columns * int64(c.stride+4*termCount+8)
	if p.room.Add(-bytes) < 0 {
		p.room.Add(bytes)
		return nil
	}
	var panels []panel
	for some := range slices.Chunk(rows, nearColumns) {
		made := newPanel(len(some), c.stride)
		made.fill(c, lists.Home, list, some)
		panels = append(panels, made)
	}
	if !p.lists[list].CompareAndSwap(nil, &panels) {
		p.room.Add(bytes)
	}
	return *p.lists[list].Load()
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
const nearRoom = 2

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

// selectBuckets is by how many parts of their range the largest keys are told from the others.
const selectBuckets = 256

// largestOf returns the k largest keys, in no order and in the memory of all. It counts them by their scores, so that
// what is done does not depend on each of them, which processors would have to guess.
func largestOf(keys []uint64, k int) []uint64 {
	if len(keys) <= k {
		return keys
	}
	lo, hi := keys[0], keys[0]
	for _, key := range keys[1:] {
		lo, hi = min(lo, key), max(hi, key)
	}
	shift := max(bits.Len64(hi-lo)-bits.Len(selectBuckets-1), 0)
	var counts [selectBuckets]int32
	for _, key := range keys {
		counts[uint8((key-lo)>>shift)]++
	}
	bucket, above := selectBuckets-1, 0
	for above+int(counts[bucket]) < k {
		above += int(counts[bucket])
		bucket--
	}
	if counts[bucket] > selectBuckets {
		largestFirst(keys, k)
		return keys[:k]
	}
	var aside [selectBuckets + 1]uint64 // those of the bucket
	count, within, last := 0, 0, uint64(bucket)
	for _, key := range keys {
		of := (key - lo) >> shift
		keys[count], aside[within] = key, key
		count += int((last - of) >> 63) // if it is of a later bucket
		within += int(((last ^ of) - 1) >> 63)
	}
	largestFirst(aside[:within], k-above)
	copy(keys[above:k], aside[:within])
	return keys[:k]
}

// near is a search for some queries by one thread, among lists of rows.
type near struct {
	c      *Codes
	s      CodeSearch // of which the queries, the offsets and the slopes are in probes
	k      int
	lists  RowLists
	own    []int32     // the queries of this search
	probes []nearProbe // of each of those
	found  []nearFound
	most   float64  // the largest of all values
	seen   []uint64 // lists that a query looks at, in bits
	wanted []int32  // places of own queries, by the list that they look at
	starts []int    // where those of each list begin

	fields []uint16 // of some rows of a list
	values []float32
	scores []float32 // where there are no block products
	block  *nearBlock
}

// nearBlock is room for block products of queries with rows. The queries are what codes are of in other products, and
// the rows are the columns.
type nearBlock struct {
	own     panel   // where those of lists are not kept
	all     []uint8 // the codes of all queries of this search
	asked   *Codes  // some of them
	slopes  []float32
	offsets []float32 // by query and row where there are some, or of all queries
	places  []uint16  // of the queries in offsets
	sums    []int32
	masks   []uint16
}

// nearColumns is how many rows are multiplied with queries at a time, so that they stay in the cache.
const nearColumns = 10 * codeTileColumns

func newNear(c *Codes, probes []nearProbe, own []int32, k int, s CodeSearch, lists RowLists) *near {
	if s.Offsets == nil { // which there is room for by field
		s.Fields = nil
	}
	if s.Slopes == nil {
		s.Values = nil
	}
	n := &near{c: c, s: s, k: k, lists: lists, own: own, probes: make([]nearProbe, len(own)),
		found: make([]nearFound, len(own)), most: largest(s.Values), seen: make([]uint64, len(lists.Starts)/64+1),
		fields: make([]uint16, nearColumns), values: make([]float32, nearColumns)}
	most := nearRoom * k
	room := make([]uint64, most*len(own))
	for q := range n.found {
		n.found[q] = nearFound{keys: room[most*q:][:0:most], least: float32(math.Inf(-1))}
		n.probes[q] = probes[own[q]]
	}
	if !codeBlocks() {
		n.scores = make([]float32, nearColumns)
		return n
	}
	b := &nearBlock{own: newPanel(nearColumns, c.stride), all: make([]uint8, len(own)*c.stride),
		slopes: make([]float32, codeBlockRows), offsets: make([]float32, nearColumns),
		places: make([]uint16, codeBlockRows), sums: make([]int32, codeBlockRows*nearColumns),
		masks: make([]uint16, codeBlockRows*nearColumns/16)}
	b.asked = &Codes{stride: c.stride, bytes: make([]uint8, codeBlockRows*c.stride),
		scales: make([]float32, codeBlockRows), rests: make([]float32, codeBlockRows),
		norms: make([]float32, codeBlockRows)}
	if s.Offsets != nil {
		b.offsets = make([]float32, codeBlockRows*nearColumns)
		for q := range b.places {
			b.places[q] = uint16(q)
		}
	}
	for q := range n.probes {
		to := b.all[q*c.stride:][:c.stride]
		for d, x := range n.probes[q].codes {
			to[d] = uint8(x) ^ codeZero // x + 128
		}
	}
	n.block = b
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
		n.look(int32(l), wanted)
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
	for q := range n.probes {
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
	for q := range n.probes {
		if p := &n.probes[q]; p.known {
			for _, l := range lists(p) {
				n.wanted[next[l]] = int32(q)
				next[l]++
			}
		}
	}
}

// look has some queries look at a list.
func (n *near) look(list int32, queries []int32) {
	var kept []panel
	if n.block != nil {
		kept = n.lists.Panels.kept(n.c, &n.lists, list)
	}
	rows := n.lists.Rows[n.lists.Starts[list]:n.lists.Starts[list+1]]
	for at := 0; at*nearColumns < len(rows); at++ {
		some := rows[at*nearColumns : min((at+1)*nearColumns, len(rows))]
		for k, i := range some {
			if n.s.Fields != nil {
				n.fields[k] = n.s.Fields[i]
			}
			if n.s.Values != nil {
				n.values[k] = n.s.Values[i]
			}
		}
		if n.block == nil {
			n.oneByOne(list, some, queries)
			continue
		}
		p := &n.block.own
		if kept == nil {
			p.fill(n.c, n.lists.Home, list, some)
		} else {
			p = &kept[at]
		}
		if n.s.Values != nil {
			own := *p
			own.terms = slices.Clone(p.terms)
			copy(own.term(termSlope), n.values[:len(some)])
			p = &own
		}
		for queries := range slices.Chunk(queries, codeBlockRows) {
			n.multiply(p, queries)
		}
	}
}

// multiply offers the rows of a panel to some queries, by block products. These fuse what scores round, so that they
// are given a little more, and what reaches is scored again.
func (n *near) multiply(rows *panel, queries []int32) {
	b, stride, columns := n.block, n.c.stride, rows.columns
	for at, q := range queries {
		p := &n.probes[q]
		copy(b.asked.bytes[at*stride:][:stride], b.all[int(q)*stride:][:stride])
		least := float64(n.found[q].least)
		more := math.Abs(least)*0x1p-18 + leastSlack
		if n.terms() {
			more += (largest(p.offsets) + math.Abs(float64(p.slope))*n.most) * 0x1p-18
		}
		b.asked.scales[at], b.asked.norms[at], b.asked.rests[at] = p.step, p.rest, above32(more-least)
		b.slopes[at] = p.slope
		if n.s.Offsets != nil {
			n.addOffsets(b.offsets[at*columns:][:len(rows.rows)], p.offsets)
		}
	}
	for at := 0; at < columns; at += codeTileColumns {
		for r := 0; r < len(queries); r += codeTileRows {
			tileCodes(b.sums[r*columns+at:], columns, b.asked.bytes[r*stride:], stride, rows.codes[at*stride:])
		}
	}
	reachCodes(b.masks, &codeReach{b.asked, 0, len(queries), b.sums, b.slopes, b.places, rows.terms, b.offsets})
	words, scales, zeros := columns/16, rows.term(termStep), rows.term(termZero)
	for r, q := range queries {
		f, step, sums := &n.found[q], b.asked.scales[r], b.sums[r*columns:][:columns]
		for at, mask := range b.masks[r*words:][:words] {
			for ; mask != 0; mask &= mask - 1 {
				k := 16*at + bits.TrailingZeros16(mask)
				if k >= len(rows.rows) {
					break
				}
				zero := int32(math.Float32bits(zeros[k]))
				z := float32(float32(scales[k]*step) * float32(sums[k]-zero)) // rounded: some would fuse it
				if z = n.whole(z, q, k); z >= f.least {
					n.offer(q, rows.low[k], z)
				}
			}
		}
	}
}

// addOffsets sets what the fields of the gathered rows add to their scores.
func (n *near) addOffsets(to, offsets []float32) {
	switch {
	case len(offsets) == 0:
		clear(to)
	case n.s.Fields == nil:
		for k := range to {
			to[k] = offsets[0]
		}
	default:
		for k, field := range n.fields[:len(to)] {
			to[k] = offsets[field]
		}
	}
}

// terms reports whether scores are more than products.
func (n *near) terms() bool { return n.s.Offsets != nil || n.s.Slopes != nil }

// oneByOne is multiply where there are no block products.
func (n *near) oneByOne(list int32, rows, queries []int32) {
	for _, q := range queries {
		p := &n.probes[q]
		probe := Probe{codes: p.codes, zero: p.zero, step: p.step}
		n.c.DotsAt(n.scores, &probe, rows)
		for k, z := range n.scores[:len(rows)] {
			if z = n.whole(z, q, k); z >= n.found[q].least {
				n.offer(q, lowKey(n.lists.Home, list, rows[k]), z)
			}
		}
	}
}

// whole adds to the product of a query with one of the gathered rows what the row's field and value add.
func (n *near) whole(z float32, q int32, k int) float32 {
	if !n.terms() {
		return z
	}
	p := &n.probes[q]
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

// lowKey is the part of a key that a row and a list that it is in decide.
func lowKey(home []int32, list, row int32) uint64 {
	low := HitKey(RowScore{Row: row}) & math.MaxUint32
	if home != nil && home[row] != list {
		low |= 1
	}
	return low
}

// offer gives a row to a query.
func (n *near) offer(q int32, low uint64, z float32) {
	f := &n.found[q]
	if f.keys = append(f.keys, HitKey(RowScore{Score: z})&^math.MaxUint32|low); len(f.keys) == cap(f.keys) {
		n.keep(q)
	}
}

// keep forgets all but the best of a query: rows that may not be hits, and those met twice.
func (n *near) keep(q int32) {
	f, query, visits := &n.found[q], n.own[q], n.probes[q].visits
	if n.lists.Home != nil {
		for _, l := range visits {
			n.seen[l/64] |= 1 << (l % 64)
		}
	}
	sure := f.keys[:f.sure]
	for _, key := range f.keys[f.sure:] {
		row := HitOf(key).Row
		if key&1 != 0 {
			if l := n.lists.Home[row]; n.seen[l/64]>>(l%64)&1 != 0 {
				continue
			}
		}
		if n.s.keeps(int(query), row) {
			sure = append(sure, key&^1)
		}
	}
	if n.lists.Home != nil {
		for _, l := range visits {
			n.seen[l/64] = 0
		}
	}
	if len(sure) >= n.k {
		sure = largestOf(sure, n.k)
		f.least = HitOf(slices.Min(sure)).Score
	}
	f.keys, f.sure = sure, len(sure)
}
