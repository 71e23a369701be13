package gpu

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"unsafe"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
)

var (
	//go:embed kernels/slopes.ptx.gz
	slopesImage []byte
	//go:embed kernels/hopper_slopes.cubin.gz
	hopperSlopesImage []byte
)

// slopeJob is what a launch is about. Its layout is that of SlopeJob in kernels/slopes.cuh.
type slopeJob struct {
	table, nodes, tiles, sums, cells, weights, slopes uint64
	from, to                                          uint64
	m, n, dim, fields, triangle, ordered              uint32
	top, bottom                                       uint32
	offset                                            float32
}

// How pairs are cut for a gradient.
const (
	slopeSums     = 3       // of a thread: −log q, slopes in z, and pairs
	slopeTile     = 128     // nodes, on a Hopper card
	slopeBytes    = 1 << 15 // of a tile's slopes
	slopeSegment  = 128     // columns of tiles that are multiplied together
	slopeNumbers  = 256     // of rows
	mostSlopeRows = 64      // rows of tiles in a stripe
	mostCellBytes = 1 << 30 // of sums by field pairs
)

// Gradient implements engine.Engine: over all pairs of a universe the card sums what is not linked, and the processor
// puts links right. Over a sample it is the processor's.
func (e *OnCard) Gradient(ctx context.Context, o *engine.Objective, params []float32,
	grad []float64) (engine.Parts, error) {
	if o.Graph == nil {
		return e.CPU.Gradient(ctx, o, params, grad)
	}
	return e.CPU.GradientBy(ctx, e, o, params, grad)
}

// SumLikelihood implements engine.LikelihoodSummer for a diagonal link model whose exposure is a matter of field pairs.
// Rows stay on the card for the next call. In bfloat16 slopes are rounded to 9 bits before they are added up, on cards
// with kernels of their own. The sums are the same on every run.
func (e *OnCard) SumLikelihood(ctx context.Context, o *engine.Objective, params []float32, r engine.Rectangle,
	grad []float64) (sum float64, pairs int64, err error) {
	link, propensity := o.Split(params)
	if o.Link.Kind() != "diagonal" {
		return 0, 0, fmt.Errorf("%w: the gradient over all pairs of the link model %s on a card; use diagonal, or the "+
			"processor", engine.ErrUnsupported, o.Link.Kind())
	}
	terms, known := model.TermsOf(o.Propensity, propensity)
	fields, byFields := o.Propensity.(*model.FieldMatrix)
	if !known || !terms.ByFields() || !byFields && o.Propensity.Size() > 0 {
		return 0, 0, fmt.Errorf("%w: the gradient over all pairs of the propensity model %s on a card; let exposure "+
			"depend on fields alone, or use the processor", engine.ErrUnsupported, o.Propensity.Kind())
	}
	dim := len(link) - 1
	var all slopeTotals
	if err := e.turn(func() error {
		if !e.learns.has(o, r) {
			e.release()
			fresh, err := e.prepareSlopes(o, r)
			if err != nil {
				return err
			}
			e.learns = fresh
		}
		var err error
		all, err = e.learns.run(ctx, link, terms, grad != nil)
		return err
	}); err != nil {
		return 0, 0, err
	}
	if grad != nil {
		clear(grad)
		copy(grad[:dim], all.weights)
		grad[dim] = all.sums[1]
		if byFields {
			copy(grad[dim+1:][:fields.Size()], all.cells)
		}
	}
	return all.sums[0], int64(all.sums[2]), nil
}

// slopeRows are the nodes of a rectangle on the card, ready for a gradient.
type slopeRows struct {
	memory
	slopeJob
	on         *OnCard
	graph      *graph.Graph
	vectors    *graph.Vectors
	rectangle  engine.Rectangle
	fast       bool // the kernels of Hopper
	tile       int
	rows       *array
	queries    *array
	w          *array
	turned     *array // rows by numbers, in blocks of 64 nodes, where that is fast
	room       *array // for the slopes of a stripe
	results    [3]*array
	tableRoom  *array
	fieldCount int
	stripe     uint32 // rows of tiles
}

// slopeTotals are the sums over all pairs.
type slopeTotals struct {
	sums           [slopeSums]float64
	weights, cells []float64
}

// has reports whether the rows are those of an objective and a rectangle.
func (s *slopeRows) has(o *engine.Objective, r engine.Rectangle) bool {
	return s != nil && s.graph == o.Graph && s.vectors == o.Graph.Vectors() &&
		slices.Equal(s.rectangle.Sources, r.Sources) && slices.Equal(s.rectangle.Targets, r.Targets) &&
		slices.Equal(s.rectangle.Rank, r.Rank)
}

// slopeNodes are the nodes of a rectangle in the order of fields and ranks, each field filled up to whole tiles.
type slopeNodes struct {
	nodes []int32    // −1 fills up
	ids   [][2]int32 // rank; and 1 for a source, 2 for a target
	tiles [][2]int32 // field, and 1 where all are both
}

// slopeNodesOf puts the nodes of a rectangle in order.
func slopeNodesOf(n model.Nodes, r engine.Rectangle, tile int) (out slopeNodes) {
	kind := make([]int32, n.Len())
	for _, i := range r.Sources {
		kind[i] |= 1
	}
	for _, j := range r.Targets {
		kind[j] |= 2
	}
	rank := func(i int32) int32 {
		if r.Rank == nil {
			return 0
		}
		return r.Rank[i]
	}
	members := make([][]int32, n.FieldCount)
	for i, k := range kind {
		if k != 0 {
			members[n.Fields[i]] = append(members[n.Fields[i]], int32(i))
		}
	}
	for f, own := range members {
		slices.SortStableFunc(own, func(a, b int32) int { return cmp.Compare(rank(a), rank(b)) })
		for some := range slices.Chunk(own, tile) {
			both := int32(1)
			for k := range tile {
				if k >= len(some) {
					out.nodes, out.ids, both = append(out.nodes, -1), append(out.ids, [2]int32{}), 0
					continue
				}
				i := some[k]
				out.nodes, out.ids = append(out.nodes, i), append(out.ids, [2]int32{rank(i), kind[i]})
				if kind[i] != 3 {
					both = 0
				}
			}
			out.tiles = append(out.tiles, [2]int32{int32(f), both})
		}
	}
	return out
}

// prepareSlopes puts nodes onto the card.
func (e *OnCard) prepareSlopes(o *engine.Objective, r engine.Rectangle) (_ *slopeRows, err error) {
	n := model.NodesOf(o.Graph)
	s := &slopeRows{memory: memory{device: e.device}, on: e, graph: o.Graph, vectors: n.Vectors, rectangle: r, tile: 64,
		fieldCount: n.FieldCount, fast: e.device.Capability == hopper && e.format == BFloat16}
	s.rectangle.Sources, s.rectangle.Targets = slices.Clone(r.Sources), slices.Clone(r.Targets)
	depth := 16
	if s.fast {
		s.tile, depth = slopeTile, 64
	}
	width := (n.Vectors.Dim() + depth - 1) / depth * depth
	of := slopeNodesOf(n, r, s.tile)
	count := len(of.nodes)
	s.m, s.n, s.dim, s.fields, s.triangle = uint32(count), uint32(count), uint32(width), uint32(n.FieldCount), 1
	if r.Rank != nil {
		s.ordered = 1
	}
	defer func() {
		if err != nil {
			s.free()
		}
	}()
	if err := s.load(); err != nil {
		return nil, err
	}
	if err := s.takeRoom(); err != nil {
		return nil, fmt.Errorf("%w: %d nodes of %d numbers do not fit; keep rows in bfloat16, or use the processor",
			err, count, width)
	}
	matrix, dim := kern.MatrixOf(n.Vectors), n.Vectors.Dim()
	if err := cmp.Or(upload(&s.memory, &s.nodes, of.ids), upload(&s.memory, &s.tiles, of.tiles),
		e.uploadRows(s.rows, width, of.nodes, func() func([]float32, int32) {
			return func(row []float32, i int32) { matrix.Load(row[:dim], int(i)) }
		})); err != nil || !s.fast || count == 0 {
		return s, err
	}
	return s, e.device.launch(&kernel{kernelName: kernelName{"slopes", "turnRows"}, blocks: 16 * e.device.processors,
		threads: 256}, []unsafe.Pointer{unsafe.Pointer(&s.rows.address), unsafe.Pointer(&s.turned.address),
		unsafe.Pointer(&s.n), unsafe.Pointer(&s.dim)})
}

// load makes the kernels known.
func (s *slopeRows) load() error {
	names := []string{"turnRows"}
	for _, format := range []RowFormat{Float32, Float16, BFloat16} {
		names = append(names, "sumSlopes_"+string(format), "scaleRows_"+string(format))
	}
	if err := s.device.load("slopes", slopesImage, names...); err != nil || !s.fast {
		return err
	}
	return s.device.load("hopper_slopes", hopperSlopesImage, "slopePairs", "addSlopes")
}

// groups are how many threads have sums, and how many groups of threads have sums by cells and by weights.
func (s *slopeRows) groups() (sums, cells, weights int) {
	n := s.device.processors
	if s.fast {
		return n * 256, n * 8, n * 8
	}
	return 4 * n * 256, 4 * n, 4 * n
}

// takeRoom takes the memory that a gradient needs.
func (s *slopeRows) takeRoom() error {
	sums, cells, weights := s.groups()
	size := uint64(s.n) * uint64(s.dim) * uint64(s.on.format.bytes())
	byCell := uint64(cells) * uint64(s.fieldCount) * uint64(s.fieldCount) * 8
	if byCell > mostCellBytes {
		return fmt.Errorf("%w: %d fields; a card adds up fewer", engine.ErrUnsupported, s.fieldCount)
	}
	for _, want := range []struct {
		to    **array
		bytes uint64
	}{{&s.rows, size}, {&s.queries, size}, {&s.w, uint64(s.dim) * 4}, {&s.results[0], uint64(sums*slopeSums) * 8},
		{&s.results[1], uint64(weights) * uint64(s.dim) * 8},
		{&s.results[2], byCell},
		{&s.tableRoom, uint64(s.fieldCount) * uint64(s.fieldCount) * 16}} {
		a, err := s.take(want.bytes)
		if err != nil {
			return err
		}
		*want.to = a
	}
	s.sums, s.weights, s.cells, s.table = s.results[0].address, s.results[1].address, s.results[2].address,
		s.tableRoom.address
	if !s.fast {
		return nil
	}
	tiles := uint64(s.n) / slopeTile
	s.stripe = uint32(min(max(s.device.Memory/3/max(tiles*slopeBytes, 1), 1), mostSlopeRows, max(tiles, 1)))
	turned, err1 := s.take(size)
	room, err2 := s.take(uint64(s.stripe) * tiles * slopeBytes)
	if err := cmp.Or(err1, err2); err != nil {
		return err
	}
	s.turned, s.room, s.slopes = turned, room, room.address
	return nil
}

// run sums the pairs under parameters.
func (s *slopeRows) run(ctx context.Context, link []float32, terms model.ExposureTerms, wanted bool) (slopeTotals,
	error) {
	w := make([]float32, s.dim)
	copy(w, link[:len(link)-1])
	s.offset = link[len(link)-1]
	if err := cmp.Or(put(s.w, 0, w), put(s.tableRoom, 0, slopeTable(terms, s.fieldCount)), s.results[0].fill(0),
		s.results[1].fill(0), s.results[2].fill(0)); err != nil || s.n == 0 {
		return slopeTotals{weights: make([]float64, len(link)-1),
			cells: make([]float64, s.fieldCount*s.fieldCount)}, err
	}
	numbers := uint64(s.n) * uint64(s.dim)
	if err := s.device.launch(&kernel{kernelName: kernelName{"slopes", "scaleRows_" + string(s.on.format)},
		blocks: 16 * s.device.processors, threads: 256}, []unsafe.Pointer{unsafe.Pointer(&s.rows.address),
		unsafe.Pointer(&s.w.address), unsafe.Pointer(&s.queries.address), unsafe.Pointer(&numbers),
		unsafe.Pointer(&s.dim)}); err != nil {
		return slopeTotals{}, err
	}
	var err error
	if s.fast {
		err = s.runStripes(ctx, wanted)
	} else {
		err = s.runPlain(ctx)
	}
	if err != nil {
		return slopeTotals{}, err
	}
	return s.collect(len(link) - 1)
}

// slopeTable is π of both directions, by the fields of two nodes.
func slopeTable(terms model.ExposureTerms, fields int) [][4]float32 {
	at := func(f, g int) (pi, rest float32) {
		s := terms.Constant
		if terms.Fields != nil {
			s += terms.Fields[f*fields+g]
		}
		p, r := kern.Sigmoid64(float64(s))
		return float32(p), float32(r)
	}
	table := make([][4]float32, fields*fields)
	for c := range table {
		one := &table[c]
		one[0], one[1] = at(c/fields, c%fields)
		one[2], one[3] = at(c%fields, c/fields)
	}
	return table
}

// runPlain sums by the kernel of all cards.
func (s *slopeRows) runPlain(ctx context.Context) error {
	k := &kernel{kernelName: kernelName{"slopes", "sumSlopes_" + string(s.on.format)},
		blocks: 4 * s.device.processors, threads: 256}
	cut := tiling{512, 64, 64}
	all, step := cut.tiles(s.m, s.n, true), max(1<<29/uint64(s.dim), 1)
	for s.from = 0; s.from < all; s.from = s.to {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.to = min(s.from+step, all)
		if err := s.device.launch(k, []unsafe.Pointer{unsafe.Pointer(&s.slopeJob),
			unsafe.Pointer(&s.queries.address), unsafe.Pointer(&s.rows.address)}); err != nil {
			return err
		}
	}
	return nil
}

// runStripes sums by the kernels of Hopper, stripe by stripe of tiles.
func (s *slopeRows) runStripes(ctx context.Context, wanted bool) error {
	tiles, processors := s.n/slopeTile, s.device.processors
	queries, err1 := s.device.mapRows(BFloat16, s.queries, [4]uint32{s.n, s.dim, slopeTile, 64})
	rows, err2 := s.device.mapRows(BFloat16, s.rows, [4]uint32{s.n, s.dim, 2 * slopeTile, 64})
	turned, err3 := s.device.mapRows(BFloat16, s.turned, [4]uint32{s.n / 64 * s.dim, 64, slopeNumbers, 64})
	if err := cmp.Or(err1, err2, err3); err != nil {
		return err
	}
	first := &kernel{kernelName: kernelName{"hopper_slopes", "slopePairs"}, blocks: processors, threads: 384,
		shared: 4*3*slopeTile*64*2 + 256*32*4 + 1024}
	second := &kernel{kernelName: kernelName{"hopper_slopes", "addSlopes"}, blocks: processors, threads: 384,
		shared: 4*(slopeNumbers+slopeTile)*64*2 + 1024}
	job := unsafe.Pointer(&s.slopeJob)
	for s.top = 0; s.top < tiles; s.top = s.bottom {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.bottom = min(s.top+s.stripe, tiles)
		high := uint64(s.bottom - s.top)
		s.from, s.to = 0, (uint64(s.bottom)+7)/8*4*high
		if err := s.device.launch(first, []unsafe.Pointer{job, queries, rows}); err != nil {
			return err
		}
		if !wanted {
			continue
		}
		s.to = (uint64(s.bottom) + slopeSegment - 1) / slopeSegment * high *
			((uint64(s.dim) + slopeNumbers - 1) / slopeNumbers)
		if err := s.device.launch(second, []unsafe.Pointer{job, turned, unsafe.Pointer(&s.rows.address)}); err != nil {
			return err
		}
	}
	return nil
}

// collect adds up the sums of threads, of which w has so many weights.
func (s *slopeRows) collect(weights int) (out slopeTotals, err error) {
	sums, cells, weighing := s.groups()
	square := s.fieldCount * s.fieldCount
	byThread, byWeight, byCell := make([]float64, sums*slopeSums), make([]float64, weighing*int(s.dim)),
		make([]float64, cells*square)
	if err := cmp.Or(get(s.results[0], byThread), get(s.results[1], byWeight), get(s.results[2], byCell)); err != nil {
		return out, err
	}
	for k, x := range byThread {
		out.sums[k%slopeSums] += x
	}
	out.weights, out.cells = make([]float64, weights), make([]float64, square)
	for k, x := range byWeight {
		if at := k % int(s.dim); at < weights {
			out.weights[at] += x
		}
	}
	for k, x := range byCell {
		out.cells[k%square] += x
	}
	return out, nil
}
