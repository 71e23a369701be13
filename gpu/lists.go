package gpu

import (
	"cmp"
	"context"
	_ "embed"
	"math"
	"slices"
	"unsafe"

	"unseen/engine"
	"unseen/internal/kern"
)

// search is what a launch looks for. Its layout is that of Search in kernels/lists.cuh.
type search struct {
	scales, offsets, slopes, fields, values, among uint64
	least, scores, counts, found, kept             uint64
	from, to                                       uint64
	m, n, dim, fieldCount, room, keep, rank, known uint32
}

var (
	//go:embed kernels/lists.ptx.gz
	listsImage []byte
	//go:embed kernels/hopper_lists.cubin.gz
	hopperListsImage []byte
)

// How much a search on the card keeps.
const (
	spareKept    = 64      // targets of a query beyond those that are asked for and those that may have to be skipped
	mostKept     = 2048    // more are for the processor
	mostSkipped  = 512     // so is a query that skips more
	sampled      = 1 << 15 // targets that tell what the best score at least
	leastRank    = 16      // in the sample, so that chance matters little
	mostTogether = 1 << 14 // queries
	fewPairs     = 1 << 26 // of queries and targets: fewer are for the processor
)

// foundRoom is for how many targets of a query there is room before the best of them are kept.
func foundRoom(keep int) int { return 8*keep + 2048 }

// Together implements engine.Batching.
func (e *OnCard) Together() int { return 4 * mostTogether }

// TopK implements engine.Engine. Searches of many queries are done by the card: a sample of the targets tells what
// their best score at least, by products of rows in 16 bits everything above that is found, and scores are computed
// again in float32. What rounding may have hidden is looked for once more in float32, and what is open even then by the
// processor. So hits are those of the processor but for the last bits of scores, and the same on every run.
//
// The rows of targets stay on the card until the engine is closed or others are searched: they must not change.
func (e *OnCard) TopK(ctx context.Context, s engine.TargetSearch) ([][]engine.Hit, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	least := cmp.Or(e.fewPairs, fewPairs)
	if s.Scores != nil || s.K == 0 || len(s.Queries)*s.Targets.Len() < least || !sameAmong(s.Queries) {
		return e.CPU.TopK(ctx, s)
	}
	lists := make([][]engine.Hit, len(s.Queries))
	var open, left []int
	for k, q := range s.Queries {
		if s.K+len(q.Skip)+spareKept > mostKept || len(q.Skip) > mostSkipped {
			left = append(left, k)
		} else {
			open = append(open, k)
		}
	}
	formats := []RowFormat{Float32}
	if e.device.Capability == hopper {
		formats = []RowFormat{Float16, Float32}
	}
	e.mu.Lock()
	for _, format := range formats {
		if len(open) == 0 {
			break
		}
		var err error
		if open, err = e.topOf(ctx, s, format, open, lists); err != nil {
			e.mu.Unlock()
			return nil, err
		}
	}
	e.mu.Unlock()
	if left = append(left, open...); len(left) == 0 {
		return lists, nil
	}
	rest := s
	rest.Queries = nil
	for _, k := range left {
		rest.Queries = append(rest.Queries, s.Queries[k])
	}
	found, err := e.CPU.TopK(ctx, rest)
	if err != nil {
		return nil, err
	}
	for at, k := range left {
		lists[k] = found[at]
	}
	return lists, nil
}

// sameAmong reports whether all queries are about the same targets.
func sameAmong(queries []engine.SearchQuery) bool {
	first := queries[0].Among
	return !slices.ContainsFunc(queries, func(q engine.SearchQuery) bool {
		return (q.Among == nil) != (first == nil) || len(q.Among) != len(first) ||
			len(first) > 0 && &q.Among[0] != &first[0]
	})
}

// topOf sets the lists of some queries and returns which of them are open still. While the card searches for some, the
// processor makes the next ready and looks through what was found of those before.
func (e *OnCard) topOf(ctx context.Context, s engine.TargetSearch, format RowFormat, of []int,
	lists [][]engine.Hit) (open []int, err error) {
	p := newListPlan(e, s, format, of)
	parts := slices.Collect(slices.Chunk(of, p.together))
	settled := make([]chan struct{}, len(parts))
	for first := 0; first < s.Targets.Len(); first += p.block {
		var rows *cardRows
		if err := e.device.do(func() (err error) {
			rows, err = e.hold(s.Targets, first, min(p.block, s.Targets.Len()-first), format)
			return err
		}); err != nil {
			return nil, err
		}
		next := p.packing(&e.rooms[0], rows, parts[0])
		for number := range parts {
			room := <-next
			if number+1 < len(parts) {
				if number > 0 {
					<-settled[number-1]
				}
				next = p.packing(&e.rooms[(number+1)%2], rows, parts[number+1])
			}
			err := e.device.do(func() error { return p.find(ctx, rows, room) })
			settled[number] = make(chan struct{})
			go func() {
				defer close(settled[number])
				if err == nil {
					p.settle(rows, room, lists)
				}
			}()
			if err != nil { // what goes on in the rooms ends first: the next search takes them
				if number+1 < len(parts) {
					<-next
				}
				for _, done := range settled[max(number-1, 0) : number+1] {
					<-done
				}
				return nil, err
			}
		}
		for _, done := range settled[max(len(settled)-2, 0):] {
			<-done
		}
	}
	for _, k := range of {
		if p.doubtful[k] {
			lists[k] = nil
			open = append(open, k)
		}
	}
	return open, nil
}

// best puts hits in order and returns the first: as numbers, which are sorted faster.
func best(hits []engine.Hit, k int) []engine.Hit {
	order := make([]uint64, len(hits))
	for i, h := range hits {
		order[i] = ^kern.HitKey(kern.RowScore{Row: h.Target, Score: h.Score + 0}) // no −0
	}
	slices.Sort(order)
	hits = hits[:min(k, len(hits))]
	for i := range hits {
		h := kern.HitOf(^order[i])
		hits[i] = engine.Hit{Target: h.Row, Score: h.Score}
	}
	return hits
}

// listPlan is how the queries of a search are looked for.
type listPlan struct {
	engine.TargetSearch
	on              *OnCard
	format          RowFormat
	kernel          *kernel
	keep, block     int // targets that are kept of a query; that are searched at a time
	together, width int // queries that are searched at a time; numbers of a row
	fields          int // of which there are offsets; 0 means none
	slopes          bool
	doubtful        []bool // by query: the card cannot tell
}

// newListPlan chooses how much is done at a time, so that it fits into the card's memory.
func newListPlan(e *OnCard, s engine.TargetSearch, format RowFormat, of []int) *listPlan {
	p := &listPlan{TargetSearch: s, on: e, format: format, kernel: e.findKernel(format),
		doubtful: make([]bool, len(s.Queries))}
	spare := 0
	for _, k := range of {
		q := s.Queries[k]
		spare = max(spare, len(q.Skip))
		p.slopes = p.slopes || q.Slope != 0
		if !q.Even() {
			p.fields = len(q.Offsets)
		}
	}
	p.keep = s.K + spare + spareKept
	p.width = p.kernel.padded(s.Targets.Dim())
	room := cmp.Or(e.memory, e.device.Memory)
	row := p.width * (4 + 2)
	p.block = min(max(int(room/2)/row, 1), s.Targets.Len())
	query := 4*min(sampled, s.Targets.Len()) + 8*foundRoom(p.keep) + 8*p.keep + row + 4*(p.fields+4)
	p.together = min(max(int(room/8)/query, 1), mostTogether)
	return p
}

// findKernel is the one that finds what scores best.
func (e *OnCard) findKernel(format RowFormat) *kernel {
	if format == Float16 {
		return &kernel{kernelName: kernelName{"hopper lists", "findPairs_float16"}, tiling: tiling{2048, 128, 256},
			depth: 64, blocks: e.device.processors, threads: 384, shared: 4*(128+256)*64*2 + 1024,
			perLaunch: 1 << 31, mapped: true}
	}
	return &kernel{kernelName: kernelName{"lists", "findPairs_float32"}, tiling: tiling{512, 64, 64}, depth: 64,
		blocks: 4 * e.device.processors, threads: 256, perLaunch: 1 << 30}
}

// loadLists loads the kernels of a search.
func (e *OnCard) loadLists() error {
	if err := e.device.load("lists", listsImage, "findPairs_float32", "setLeast", "keepBest", "rescore",
		"gatherRows"); err != nil || e.device.Capability != hopper {
		return err
	}
	return e.device.load("hopper lists", hopperListsImage, "findPairs_float16")
}

// findRoom is the memory of one search on the card.
type findRoom struct {
	memory
	search
	sample search // of the same queries, among the sample
	rows   *cardRows
	// queries in both formats; targets of the sample
	wide, narrow, picked *array
}

// queryBound is what is needed to say how far a score by products of 16 bits may be off.
type queryBound struct{ length, rest float64 }

// find searches a block of the targets for the queries of a room, and puts there what it finds.
func (p *listPlan) find(ctx context.Context, rows *cardRows, room *hostRoom) error {
	places := p.sampleOf(rows)
	room.found(len(room.queries), p.keep)
	if len(places) == 0 { // none of the block may be a hit
		for k := range room.least {
			room.least[k] = float32(math.Inf(-1))
		}
		return nil
	}
	r := &findRoom{memory: memory{device: p.on.device}, rows: rows}
	defer r.spare()
	if err := p.fill(r, room, places); err != nil {
		return err
	}
	simple := func(name string) *kernel {
		return &kernel{kernelName: kernelName{"lists", name}, blocks: 8 * p.on.device.processors, threads: 256}
	}
	width := uint32(p.width)
	if err := p.multiply(ctx, &r.sample, r, r.picked, len(places)); err != nil {
		return err
	}
	if err := p.on.device.launch(simple("setLeast"), []unsafe.Pointer{unsafe.Pointer(&r.sample)}); err != nil {
		return err
	}
	if err := p.multiply(ctx, &r.search, r, rows.of(p.format), rows.count); err != nil {
		return err
	}
	if err := cmp.Or(p.on.device.launch(simple("keepBest"), []unsafe.Pointer{unsafe.Pointer(&r.search)}),
		p.on.device.launch(simple("rescore"), []unsafe.Pointer{unsafe.Pointer(&r.search),
			unsafe.Pointer(&r.wide.address), unsafe.Pointer(&rows.wide.address), unsafe.Pointer(&width)})); err != nil {
		return err
	}
	return cmp.Or(get(r.at(r.counts), room.counts), get(r.at(r.least), room.least), get(r.at(r.kept), room.kept))
}

// sampleOf are places of targets of a block that may be hits, spread evenly: all if they are few.
func (p *listPlan) sampleOf(rows *cardRows) []uint32 {
	among, count := p.Queries[0].Among, rows.count
	if among != nil {
		from, _ := slices.BinarySearch(among, int32(rows.first))
		to, _ := slices.BinarySearch(among, int32(rows.first+rows.count))
		among, count = among[from:to], to-from
	}
	out := make([]uint32, min(sampled, count))
	for k := range out {
		at := k * count / len(out)
		if among != nil {
			at = int(among[at]) - rows.first
		}
		out[k] = uint32(at)
	}
	return out
}

// fill puts what is asked onto the card.
func (p *listPlan) fill(r *findRoom, room *hostRoom, places []uint32) error {
	m, device := len(room.queries), p.on.device
	s := &r.search
	s.m, s.n, s.dim, s.fieldCount = uint32(m), uint32(r.rows.count), uint32(p.width), uint32(p.fields)
	s.room, s.keep = uint32(foundRoom(p.keep)), uint32(p.keep)
	if err := cmp.Or(p.putQueries(r, room), p.fillTerms(r, room.queries), upload(&r.memory, &s.scales, room.scales),
		r.reserve(&s.least, m*4), r.reserve(&s.counts, m*4), r.reserve(&s.found, m*foundRoom(p.keep)*8),
		r.reserve(&s.kept, m*p.keep*8)); err != nil {
		return err
	}
	r.sample = *s
	r.sample.n = uint32(len(places))
	share := float64(len(places)) / float64(r.rows.count)
	if among := p.Queries[0].Among; among != nil {
		share = float64(len(places)) / float64(max(len(among), 1))
	}
	r.sample.rank = uint32(max(leastRank, int(math.Ceil(4*float64(p.keep)*min(share, 1)))))
	if err := cmp.Or(r.reserve(&r.sample.scores, m*len(places)*4), p.fillSample(r, places)); err != nil {
		return err
	}
	var which uint64
	if err := upload(&r.memory, &which, places); err != nil {
		return err
	}
	picked, err := r.take(uint64(len(places)) * uint64(p.width*p.format.bytes()))
	if err != nil {
		return err
	}
	r.picked = picked
	count, words := uint32(len(places)), uint32(p.width*p.format.bytes()/4)
	return device.launch(&kernel{kernelName: kernelName{"lists", "gatherRows"}, blocks: 8 * device.processors,
		threads: 256}, []unsafe.Pointer{unsafe.Pointer(&r.rows.of(p.format).address), unsafe.Pointer(&which),
		unsafe.Pointer(&r.picked.address), unsafe.Pointer(&count), unsafe.Pointer(&words)})
}

// packing makes queries ready in the background.
func (p *listPlan) packing(room *hostRoom, rows *cardRows, some []int) <-chan *hostRoom {
	out := make(chan *hostRoom, 1)
	go func() {
		p.pack(room, rows, some)
		out <- room
	}()
	return out
}

// pack puts queries into a room in float32 and, if the search is in 16 bits, in these, with what brings products back
// to scale.
func (p *listPlan) pack(room *hostRoom, rows *cardRows, some []int) {
	vectors, halves := room.rows(len(some) * p.width)
	room.queries, room.scales, room.bounds = some, make([]float32, len(some)), make([]queryBound, len(some))
	kern.Chunks(len(some), 64, kern.Threads(p.on.Threads), func(_, _, from, to int) {
		scratch := make([]float32, 2*p.width)
		for at := from; at < to; at++ {
			row := vectors[at*p.width:][:p.width]
			clear(row[copy(row, p.Queries[some[at]].Vector):])
			room.scales[at], room.bounds[at].length = 1, math.Sqrt(squares(row))
			if p.format == Float16 {
				up := powerFor(row)
				room.scales[at] = 1 / (up * rows.scale)
				room.bounds[at].rest = halve(halves[at*p.width:][:p.width], row, scratch, up)
			}
		}
	})
}

// putQueries uploads the queries of a room.
func (p *listPlan) putQueries(r *findRoom, room *hostRoom) (err error) {
	if r.wide, err = r.take(uint64(len(room.wide)) * 4); err != nil {
		return err
	}
	if r.narrow = r.wide; p.format == Float16 {
		if r.narrow, err = r.take(uint64(len(room.narrow)) * 2); err != nil {
			return err
		}
		if err := put(r.narrow, 0, room.narrow); err != nil {
			return err
		}
	}
	return put(r.wide, 0, room.wide)
}

// fillTerms uploads what is added to products.
func (p *listPlan) fillTerms(r *findRoom, some []int) error {
	s, first, count := &r.search, r.rows.first, r.rows.count
	var errs []error
	if p.fields > 0 {
		offsets, fields := make([]float32, len(some)*p.fields), make([]uint32, count)
		for at, k := range some {
			copy(offsets[at*p.fields:], p.Queries[k].Offsets)
		}
		for j := range fields {
			fields[j] = uint32(p.Fields[first+j])
		}
		errs = append(errs, upload(&r.memory, &s.offsets, offsets), upload(&r.memory, &s.fields, fields))
		s.known = 1
	}
	if p.slopes {
		slopes := make([]float32, len(some))
		for at, k := range some {
			slopes[at] = p.Queries[k].Slope
		}
		errs = append(errs, upload(&r.memory, &s.slopes, slopes),
			upload(&r.memory, &s.values, p.Values[first:first+count]))
		s.known = 1
	}
	if among := p.Queries[0].Among; among != nil {
		allowed := make([]uint8, count)
		from, _ := slices.BinarySearch(among, int32(first))
		for _, j := range among[from:] {
			if int(j) >= first+count {
				break
			}
			allowed[int(j)-first] = 1
		}
		errs = append(errs, upload(&r.memory, &s.among, allowed))
		s.known = 1
	}
	return cmp.Or(errs...)
}

// fillSample uploads what is added to products with targets of the sample, all of which may be hits.
func (p *listPlan) fillSample(r *findRoom, places []uint32) error {
	s := &r.sample
	s.among = 0
	var errs []error
	if p.fields > 0 {
		fields := make([]uint32, len(places))
		for k, j := range places {
			fields[k] = uint32(p.Fields[r.rows.first+int(j)])
		}
		errs = append(errs, upload(&r.memory, &s.fields, fields))
	}
	if p.slopes {
		values := make([]float32, len(places))
		for k, j := range places {
			values[k] = p.Values[r.rows.first+int(j)]
		}
		errs = append(errs, upload(&r.memory, &s.values, values))
	}
	return cmp.Or(errs...)
}

// multiply compares all queries with some targets, in launches that are short enough to be stopped between them.
func (p *listPlan) multiply(ctx context.Context, s *search, r *findRoom, targets *array, count int) error {
	k := p.kernel
	arguments := []unsafe.Pointer{unsafe.Pointer(s), unsafe.Pointer(&r.narrow.address),
		unsafe.Pointer(&targets.address)}
	if k.mapped {
		left, err1 := p.on.device.mapRows(p.format, r.narrow, [4]uint32{s.m, s.dim, uint32(k.tiling.rows),
			uint32(k.depth)})
		right, err2 := p.on.device.mapRows(p.format, targets, [4]uint32{uint32(count), s.dim,
			uint32(k.tiling.columns), uint32(k.depth)})
		if err := cmp.Or(err1, err2); err != nil {
			return err
		}
		arguments[1], arguments[2] = left, right
	}
	all, step := k.tiling.tiles(s.m, s.n, false), max(k.perLaunch/uint64(s.dim), 1)
	for s.from = 0; s.from < all; s.from = s.to {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.to = min(s.from+step, all)
		if err := p.on.device.launch(k, arguments); err != nil {
			return err
		}
	}
	return nil
}

// noRoom is the count of a query of which more was found than there is room for.
const noRoom = math.MaxUint32

// settle makes hits of what was found. A query is open unless what is not kept scores less than its last hit even if
// its score is off by as much as rounding allows.
func (p *listPlan) settle(rows *cardRows, room *hostRoom, lists [][]engine.Hit) {
	kern.Chunks(len(room.queries), 64, kern.Threads(p.on.Threads), func(_, _, from, to int) {
		for at := from; at < to; at++ {
			k := room.queries[at]
			hits, sure := p.hits(rows, room, at)
			if p.doubtful[k] = p.doubtful[k] || !sure; !p.doubtful[k] {
				if lists[k] != nil { // of other blocks
					hits = best(append(lists[k], hits...), p.K)
				}
				lists[k] = hits
			}
		}
	})
}

// hits are those of one query, and whether they are the best for sure.
func (p *listPlan) hits(rows *cardRows, room *hostRoom, at int) ([]engine.Hit, bool) {
	if room.counts[at] == noRoom {
		return nil, false
	}
	q, least := p.Queries[room.queries[at]], float64(room.least[at])
	hits := make([]engine.Hit, 0, room.counts[at])
	for _, x := range room.kept[at*p.keep:][:room.counts[at]] {
		target := int32(rows.first + int(x[1]))
		if _, skip := slices.BinarySearch(q.Skip, target); !skip {
			hits = append(hits, engine.Hit{Target: target, Score: math.Float32frombits(x[0])})
		}
	}
	hits = best(hits, p.K)
	if !math.IsInf(least, -1) && (len(hits) < p.K ||
		!(float64(hits[p.K-1].Score) > least+p.slack(rows, room.bounds[at], least))) {
		return nil, false
	}
	if len(q.Offsets) > 0 && p.fields == 0 { // they are even
		for k := range hits {
			hits[k].Score += q.Offsets[0]
		}
	}
	return hits, true
}

// slack is by how much scores of a query may be off: by rounding of rows to 16 bits, and of sums to float32.
func (p *listPlan) slack(rows *cardRows, q queryBound, score float64) float64 {
	sums := float64(p.width) * 0x1p-23 * q.length * rows.length
	out := sums + 1e-6*math.Abs(score)
	if p.format == Float16 {
		out += q.rest*(rows.length+rows.rest) + q.length*rows.rest
	}
	return out
}

// squares is the sum of squares.
func squares(row []float32) (sum float64) {
	for _, x := range row {
		sum += float64(x) * float64(x)
	}
	return sum
}

// powerFor is a power of two that brings the largest number of a row to between 128 and 256, where float16 has room on
// both sides.
func powerFor(row []float32) float32 {
	return powerOf(largestOf(0, row))
}

// largestOf is the largest of a number and those of a row, whatever their signs.
func largestOf(most float32, row []float32) float32 {
	bits := math.Float32bits(most)
	for _, x := range row {
		bits = max(bits, math.Float32bits(x)&(1<<31-1))
	}
	return math.Float32frombits(bits)
}

func powerOf(most float32) float32 {
	if most == 0 || math.IsInf(float64(most), 0) {
		return 1
	}
	_, exponent := math.Frexp(float64(most))
	return float32(math.Ldexp(1, min(max(8-exponent, -100), 100)))
}

// halve sets to to a row times a power of two in float16, and returns the length of what that lost, brought back to
// scale. scratch is room for twice the row.
func halve(to []uint16, row, scratch []float32, up float32) float64 {
	scaled, back := scratch[:len(row)], scratch[len(row):]
	for d, x := range row {
		scaled[d] = x * up
	}
	kern.ToHalf(to, scaled)
	kern.FromHalf(back, to)
	for d, x := range back {
		back[d] = x - scaled[d]
	}
	return math.Sqrt(squares(back)) / float64(up)
}
