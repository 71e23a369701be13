package gpu

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
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
	table, nodes, tiles, sums, cells, weights, slopes, terms, sides, ends uint64
	from, to                                                              uint64
	n, dim, fields, ordered                                               uint32
	top, bottom, across                                                   uint32
	offset, gamma                                                         float32
}

// How pairs are cut for a gradient.
const (
	slopeSums     = 4       // of a thread: −log q, slopes in z, pairs, and z times the slopes in s
	slopeTile     = 128     // nodes, on a Hopper card
	slopeBytes    = 1 << 15 // of a tile's slopes
	slopeSegment  = 128     // columns of tiles that are multiplied together
	slopeNumbers  = 256     // of rows
	slopeParts    = 8       // of what a tile's columns add up to
	mostSlopeRows = 64      // rows of tiles in a stripe, on a Hopper card
	plainRows     = 16      // and on others
	leastBlock    = 2       // tiles of a block of nodes, of which there are as many or a multiple
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

// SumLikelihood implements engine.LikelihoodSummer for a diagonal link model and exposure by any terms. Rows stay on
// the card for the next call. In bfloat16 slopes are rounded to 8 bits before they are added up, on cards with kernels
// of their own. The sums are the same on every run.
func (e *OnCard) SumLikelihood(ctx context.Context, o *engine.Objective, params []float32, r engine.Rectangle,
	grad []float64) (sum float64, pairs int64, err error) {
	link, propensity := o.Split(params)
	if o.Link.Kind() != "diagonal" {
		return 0, 0, fmt.Errorf("%w: the gradient over all pairs of the link model %s on a card; use diagonal, or the "+
			"processor", engine.ErrUnsupported, o.Link.Kind())
	}
	terms, known := model.TermsOf(o.Propensity, propensity)
	learned, learns := o.Propensity.(model.LearnedTerms)
	if !known || !learns {
		return 0, 0, fmt.Errorf("%w: the gradient over all pairs of the propensity model %s, which is no sum of "+
			"terms, on a card; use the processor", engine.ErrUnsupported, o.Propensity.Kind())
	}
	dim := len(link) - 1
	var all slopeTotals
	if err := e.turn(func() error {
		if !e.learns.has(o, r, !terms.ByFields()) {
			e.release()
			fresh, err := e.prepareSlopes(o, r, !terms.ByFields())
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
		learned.BackTerms(grad[dim+1:], propensity, all.TermSlopes)
	}
	return all.sums[0], int64(all.sums[2]), nil
}

// slopeRows are the nodes of a rectangle on the card, ready for a gradient: all of them, or where it has no room for
// all, two blocks at a time. A pair of blocks is what stands in rows of tiles, and before it what stands in columns.
type slopeRows struct {
	memory
	slopeJob
	on         *OnCard
	graph      *graph.Graph
	vectors    *graph.Vectors
	rectangle  engine.Rectangle
	of         slopeNodes
	block      uint32    // tiles of a block
	there      [2]uint32 // which blocks are on the card, counted from 1: before, and behind it
	fast       bool      // the kernels of Hopper
	dense      bool      // exposure has terms beyond those of fields
	tile       int
	rows       *array
	queries    *array
	w          *array
	turned     *array // rows by numbers, in blocks of 64 nodes, where that is fast
	room       *array // for the slopes of a stripe
	sideRoom   *array // for their sums by node
	results    [4]*array
	idsRoom    *array
	tilesRoom  *array
	tableRoom  *array
	termsRoom  *array
	fieldCount int
	stripe     uint32 // rows of tiles
}

// slopeTotals are the sums over all pairs.
type slopeTotals struct {
	sums    [slopeSums]float64
	weights []float64
	model.TermSlopes
}

// has reports whether the rows are those of an objective and a rectangle.
func (s *slopeRows) has(o *engine.Objective, r engine.Rectangle, dense bool) bool {
	return s != nil && s.dense == dense && s.graph == o.Graph && s.vectors == o.Graph.Vectors() &&
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

// prepareSlopes takes memory of the card for a gradient, for exposure by fields alone or with other terms. Where less
// is free than was reckoned with, blocks are halved.
func (e *OnCard) prepareSlopes(o *engine.Objective, r engine.Rectangle, dense bool) (*slopeRows, error) {
	n := model.NodesOf(o.Graph)
	s := &slopeRows{memory: memory{device: e.device}, on: e, graph: o.Graph, vectors: n.Vectors, rectangle: r, tile: 64,
		dense: dense, fieldCount: n.FieldCount, fast: e.device.Capability == hopper && e.format == BFloat16}
	s.rectangle.Sources, s.rectangle.Targets = slices.Clone(r.Sources), slices.Clone(r.Targets)
	depth := 16
	if s.fast {
		s.tile, depth = slopeTile, 64
	}
	s.of = slopeNodesOf(n, r, s.tile)
	s.dim, s.fields = uint32((n.Vectors.Dim()+depth-1)/depth*depth), uint32(n.FieldCount)
	if r.Rank != nil {
		s.ordered = 1
	}
	if err := s.load(); err != nil {
		return nil, err
	}
	for s.block = s.blockTiles(); ; s.block = max(s.block/2/leastBlock*leastBlock, leastBlock) {
		err := s.takeRoom()
		if err == nil {
			return s, nil
		}
		s.free()
		if !errors.Is(err, errFull) {
			return nil, err
		}
		if s.block <= leastBlock {
			return nil, fmt.Errorf("%w, even for a few rows of %d numbers; use the processor, or learn from a sample",
				err, s.dim)
		}
	}
}

// load makes the kernels known.
func (s *slopeRows) load() error {
	names := []string{"turnRows", "addEnds"}
	for _, format := range []RowFormat{Float32, Float16, BFloat16} {
		names = append(names, "sumSlopes_"+string(format), "sumDenseSlopes_"+string(format),
			"scaleRows_"+string(format))
	}
	if err := s.device.load("slopes", slopesImage, names...); err != nil || !s.fast {
		return err
	}
	return s.device.load("hopper_slopes", hopperSlopesImage, "slopePairs", "slopeDensePairs", "addSlopes")
}

// groups are how many threads have sums, and how many groups of threads have sums by cells and by weights.
func (s *slopeRows) groups() (sums, cells, weights int) {
	n := s.device.processors
	if s.fast {
		return n * 256, n * 8, n * 8
	}
	return 4 * n * 256, 4 * n, 4 * n
}

// perNode is how many bytes a node takes, and perTile a tile of a stripe.
func (s *slopeRows) perNode() uint64 {
	copies, beside := uint64(2), uint64(8)
	if s.fast {
		copies++
	}
	if s.dense {
		beside += 8 + 4*8
	}
	return copies*uint64(s.dim)*uint64(s.on.format.bytes()) + beside
}

func (s *slopeRows) perTile() (slopes, sides uint64) {
	if s.fast {
		slopes = slopeBytes
	}
	if s.dense {
		sides = (1 + slopeParts) * uint64(s.tile) * 2 * 4
	}
	return slopes, sides
}

// memoryFor is how many bytes of the card rows may take, and with them the slopes of a stripe.
func (s *slopeRows) memoryFor() (rows, slopes uint64) {
	const kept = 16 // one in so many bytes is the driver's
	room := cmp.Or(s.on.memory, s.device.Memory-s.device.Memory/kept)
	return room / 3 * 2, room / 3
}

// blockTiles is of how many tiles blocks are: of all, if the card has room for all, and otherwise so many that it has
// room for two blocks.
func (s *slopeRows) blockTiles() uint32 {
	all, each := uint64(len(s.of.tiles)), uint64(s.tile)*s.perNode()
	room, _ := s.memoryFor()
	if all*each <= room {
		return max(uint32(all), 1)
	}
	return max(uint32(room/each/2/leastBlock*leastBlock), leastBlock)
}

// takeRoom takes the memory that a gradient needs.
func (s *slopeRows) takeRoom() error {
	sums, cells, weights := s.groups()
	tiles := min(uint64(len(s.of.tiles)), 2*uint64(s.block))
	nodes := tiles * uint64(s.tile)
	size := nodes * uint64(s.dim) * uint64(s.on.format.bytes())
	byCell := uint64(cells) * uint64(s.fieldCount) * uint64(s.fieldCount) * 8
	if byCell > mostCellBytes {
		return fmt.Errorf("%w: %d fields; a card adds up fewer", engine.ErrUnsupported, s.fieldCount)
	}
	type want struct {
		to    **array
		bytes uint64
	}
	wanted := []want{{&s.rows, size}, {&s.queries, size}, {&s.w, uint64(s.dim) * 4},
		{&s.idsRoom, nodes * 8}, {&s.tilesRoom, tiles * 8},
		{&s.results[0], uint64(sums*slopeSums) * 8},
		{&s.results[1], uint64(weights) * uint64(s.dim) * 8},
		{&s.results[2], byCell},
		{&s.tableRoom, uint64(s.fieldCount) * uint64(s.fieldCount) * 16}}
	most := uint64(plainRows)
	if s.fast {
		most = mostSlopeRows
	}
	aside, sides := s.perTile()
	_, room := s.memoryFor()
	s.stripe = uint32(min(max(room/max(tiles*(aside+sides), 1), 1), most, max(tiles, 1)))
	if s.fast {
		wanted = append(wanted, want{&s.turned, size}, want{&s.room, uint64(s.stripe) * tiles * aside})
	}
	if s.dense {
		wanted = append(wanted, want{&s.termsRoom, nodes * 8}, want{&s.results[3], nodes * 4 * 8},
			want{&s.sideRoom, uint64(s.stripe) * tiles * sides})
	}
	s.there = [2]uint32{}
	for _, want := range wanted {
		a, err := s.take(want.bytes)
		if err != nil {
			return err
		}
		*want.to = a
	}
	s.sums, s.weights, s.cells, s.table = s.results[0].address, s.results[1].address, s.results[2].address,
		s.tableRoom.address
	s.nodes, s.tiles = s.idsRoom.address, s.tilesRoom.address
	if s.fast {
		s.slopes = s.room.address
	}
	if !s.dense {
		return nil
	}
	s.terms, s.ends, s.sides = s.termsRoom.address, s.results[3].address, s.sideRoom.address
	return s.sideRoom.fill(0xff) // what nobody writes is not a number
}

// run sums the pairs under parameters.
func (s *slopeRows) run(ctx context.Context, link []float32, terms model.ExposureTerms, wanted bool) (slopeTotals,
	error) {
	w := make([]float32, s.dim)
	copy(w, link[:len(link)-1])
	s.offset, s.gamma = link[len(link)-1], terms.Link
	out := slopeTotals{weights: make([]float64, len(link)-1)}
	if s.dense {
		out.Source, out.Target = make([]float64, s.graph.Len()), make([]float64, s.graph.Len())
	}
	if err := cmp.Or(put(s.w, 0, w), s.putTable(terms), s.results[0].fill(0), s.results[1].fill(0),
		s.results[2].fill(0)); err != nil || len(s.of.tiles) == 0 {
		return out, err
	}
	blocks := (uint32(len(s.of.tiles)) + s.block - 1) / s.block
	if err := s.runBlock(ctx, &out, terms, [2]uint32{0, 1}, wanted); err != nil {
		return out, err
	}
	for of := uint32(2); of <= blocks; of++ {
		before := s.there[0] // which is on the card
		if err := s.runBlock(ctx, &out, terms, [2]uint32{before, of}, wanted); err != nil {
			return out, err
		}
		for other := uint32(1); other < of; other++ {
			if other == before {
				continue
			}
			if err := s.runBlock(ctx, &out, terms, [2]uint32{other, of}, wanted); err != nil {
				return out, err
			}
		}
	}
	return out, s.collect(&out)
}

// runBlock sums the pairs of a block with another that stands before it, and where the block was not there yet its own
// pairs. Blocks are counted from 1; the first stands alone.
func (s *slopeRows) runBlock(ctx context.Context, out *slopeTotals, terms model.ExposureTerms, blocks [2]uint32,
	wanted bool) error {
	fresh, from := s.there[1] != blocks[1], s.block
	if blocks[0] == 0 {
		fresh, from, blocks = true, 0, [2]uint32{blocks[1], 0}
	}
	for place, block := range blocks {
		if err := s.place(uint32(place), block, terms); err != nil {
			return err
		}
	}
	end := s.stretchOf(max(blocks[0], blocks[1]))
	tiles := from + end.to - end.from
	if s.n, s.across = tiles*uint32(s.tile), tiles; !fresh {
		s.across = s.block
	}
	if s.dense {
		if err := s.results[3].fill(0); err != nil {
			return err
		}
	}
	if err := s.scale(stretch{from, tiles}); err != nil {
		return err
	}
	if err := s.runStripes(ctx, from, wanted); err != nil || !s.dense {
		return err
	}
	return s.collectEnds(out)
}

// stretchOf is of which tiles a block is.
func (s *slopeRows) stretchOf(block uint32) stretch {
	return stretch{(block - 1) * s.block, min(block*s.block, uint32(len(s.of.tiles)))}
}

// orderOf is which nodes a block has.
func (s *slopeRows) orderOf(block uint32) []int32 {
	if block == 0 {
		return nil
	}
	of := s.stretchOf(block)
	return s.of.nodes[of.from*uint32(s.tile) : of.to*uint32(s.tile)]
}

// part is memory from a tile to before another, of so many bytes a node.
func (s *slopeRows) part(a *array, of stretch, bytes int) *array {
	each := uint64(s.tile) * uint64(bytes)
	return &array{s.device, a.address + uint64(of.from)*each, uint64(of.to-of.from) * each}
}

// place puts a block before or behind the other, unless it is there, and what its nodes add to the logits of exposure.
func (s *slopeRows) place(place, block uint32, terms model.ExposureTerms) error {
	nodes := s.orderOf(block)
	fresh := s.there[place] != block
	if s.there[place] = 0; block == 0 { // should this fail, nothing is there
		return nil
	}
	from, of := place*s.block, s.stretchOf(block)
	at := stretch{from, from + of.to - of.from}
	if s.dense {
		if err := put(s.part(s.termsRoom, at, 8), 0, ownTerms(nodes, terms)); err != nil {
			return err
		}
	}
	if !fresh {
		s.there[place] = block
		return nil
	}
	row := int(s.dim) * s.on.format.bytes()
	rows, matrix, dim := s.part(s.rows, at, row), kern.MatrixOf(s.vectors), s.vectors.Dim()
	if err := cmp.Or(put(s.part(s.idsRoom, at, 8), 0, s.of.ids[of.from*uint32(s.tile):of.to*uint32(s.tile)]),
		put(s.tilesRoom, uint64(from)*8, s.of.tiles[of.from:of.to]),
		s.on.uploadRows(rows, int(s.dim), nodes, func() func([]float32, int32) {
			return func(row []float32, i int32) { matrix.Load(row[:dim], int(i)) }
		})); err != nil {
		return err
	}
	if s.fast {
		turned, count := s.part(s.turned, at, row), uint32(len(nodes))
		if err := s.device.launch(&kernel{kernelName: kernelName{"slopes", "turnRows"}, threads: 256,
			blocks: 16 * s.device.processors}, []unsafe.Pointer{unsafe.Pointer(&rows.address),
			unsafe.Pointer(&turned.address), unsafe.Pointer(&count), unsafe.Pointer(&s.dim)}); err != nil {
			return err
		}
	}
	s.there[place] = block
	return nil
}

// scale makes queries of the rows of some tiles.
func (s *slopeRows) scale(of stretch) error {
	row := int(s.dim) * s.on.format.bytes()
	rows, queries := s.part(s.rows, of, row), s.part(s.queries, of, row)
	numbers := uint64(of.to-of.from) * uint64(s.tile) * uint64(s.dim)
	return s.device.launch(&kernel{kernelName: kernelName{"slopes", "scaleRows_" + string(s.on.format)},
		blocks: 16 * s.device.processors, threads: 256}, []unsafe.Pointer{unsafe.Pointer(&rows.address),
		unsafe.Pointer(&s.w.address), unsafe.Pointer(&queries.address), unsafe.Pointer(&numbers),
		unsafe.Pointer(&s.dim)})
}

// putTable copies π of both directions by the fields of two nodes to the card; of exposure with other terms its
// logits, times −log₂e.
func (s *slopeRows) putTable(terms model.ExposureTerms) error {
	at := func(f, g int) (a, b float32) {
		logit := terms.Constant
		if terms.Fields != nil {
			logit += terms.Fields[f*s.fieldCount+g]
		}
		if s.dense {
			return float32(-math.Log2E * float64(logit)), 0
		}
		pi, rest := kern.Sigmoid64(float64(logit))
		return float32(pi), float32(rest)
	}
	table := make([][4]float32, s.fieldCount*s.fieldCount)
	for c := range table {
		one := &table[c]
		one[0], one[1] = at(c/s.fieldCount, c%s.fieldCount)
		one[2], one[3] = at(c%s.fieldCount, c/s.fieldCount)
	}
	return put(s.tableRoom, 0, table)
}

// ownTerms are what nodes add to the logits of exposure, as source and as target, times −log₂e.
func ownTerms(nodes []int32, terms model.ExposureTerms) [][2]float32 {
	own := make([][2]float32, len(nodes))
	for k, i := range nodes {
		for end, values := range [][]float32{terms.Source, terms.Target} {
			if i >= 0 && values != nil {
				own[k][end] = float32(-math.Log2E * float64(values[i]))
			}
		}
	}
	return own
}

// stripeKernels are those that a stripe of tiles takes one after the other.
type stripeKernels struct {
	pairs, products *kernel // products: nil where the first makes them, too
	arguments       [2][]unsafe.Pointer
}

// kernelsOf chooses them.
func (s *slopeRows) kernelsOf() (k stripeKernels, err error) {
	processors, dense, job := s.device.processors, "", unsafe.Pointer(&s.slopeJob)
	if s.dense {
		dense = "Dense"
	}
	if !s.fast {
		k.pairs = &kernel{kernelName: kernelName{"slopes", "sum" + dense + "Slopes_" + string(s.on.format)},
			blocks: 4 * processors, threads: 256}
		k.arguments[0] = []unsafe.Pointer{job, unsafe.Pointer(&s.queries.address), unsafe.Pointer(&s.rows.address)}
		return k, nil
	}
	queries, err1 := s.device.mapRows(BFloat16, s.queries, [4]uint32{s.n, s.dim, slopeTile, 64})
	rows, err2 := s.device.mapRows(BFloat16, s.rows, [4]uint32{s.n, s.dim, 2 * slopeTile, 64})
	turned, err3 := s.device.mapRows(BFloat16, s.turned, [4]uint32{s.n / 64 * s.dim, 64, slopeNumbers, 64})
	k.pairs = &kernel{kernelName: kernelName{"hopper_slopes", "slope" + dense + "Pairs"}, blocks: processors,
		threads: 384, shared: 4*3*slopeTile*64*2 + 256*32*4 + 1024}
	k.products = &kernel{kernelName: kernelName{"hopper_slopes", "addSlopes"}, blocks: processors, threads: 384,
		shared: 4*(slopeNumbers+slopeTile)*64*2 + 1024}
	k.arguments = [2][]unsafe.Pointer{{job, queries, rows}, {job, turned, unsafe.Pointer(&s.rows.address)}}
	return k, cmp.Or(err1, err2, err3)
}

// runStripes sums stripe by stripe of tiles, from a row of tiles on.
func (s *slopeRows) runStripes(ctx context.Context, from uint32, wanted bool) error {
	k, err := s.kernelsOf()
	if err != nil {
		return err
	}
	tiles, tile := s.n/uint32(s.tile), uint32(s.tile)
	ends := &kernel{kernelName: kernelName{"slopes", "addEnds"}, blocks: 16 * s.device.processors, threads: 256}
	for s.top = from; s.top < tiles; s.top = s.bottom {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.bottom = min(s.top+s.stripe, tiles)
		high, across := uint64(s.bottom-s.top), uint64(min(s.bottom, s.across))
		s.from, s.to = 0, across*high
		if s.fast { // eight columns of tiles at a time, two by two
			s.to = (across + 7) / 8 * 4 * high
		}
		if err := s.device.launch(k.pairs, k.arguments[0]); err != nil {
			return err
		}
		if !wanted {
			continue
		}
		if s.dense {
			if err := s.device.launch(ends, []unsafe.Pointer{k.arguments[0][0], unsafe.Pointer(&tile)}); err != nil {
				return err
			}
		}
		if k.products == nil {
			continue
		}
		s.to = (across + slopeSegment - 1) / slopeSegment * high *
			((uint64(s.dim) + slopeNumbers - 1) / slopeNumbers)
		if err := s.device.launch(k.products, k.arguments[1]); err != nil {
			return err
		}
	}
	return nil
}

// collect adds up the sums of threads.
func (s *slopeRows) collect(out *slopeTotals) error {
	sums, cells, weighing := s.groups()
	square := s.fieldCount * s.fieldCount
	byThread, byWeight, byCell := make([]float64, sums*slopeSums), make([]float64, weighing*int(s.dim)),
		make([]float64, cells*square)
	if err := cmp.Or(get(s.results[0], byThread), get(s.results[1], byWeight), get(s.results[2], byCell)); err != nil {
		return err
	}
	for k, x := range byThread {
		out.sums[k%slopeSums] += x
	}
	out.Fields, out.Link = make([]float64, square), out.sums[3]
	for k, x := range byWeight {
		if at := k % int(s.dim); at < len(out.weights) {
			out.weights[at] += x
		}
	}
	for k, x := range byCell {
		out.Fields[k%square] += x
	}
	return nil
}

// collectEnds adds the sums by node of the blocks that are on the card.
func (s *slopeRows) collectEnds(out *slopeTotals) error {
	ends := make([][2]float64, 2*s.n) // of rows of tiles, and of columns
	if err := get(s.results[3], ends); err != nil {
		return err
	}
	for place, block := range s.there {
		first := place * int(s.block) * s.tile
		for k, i := range s.orderOf(block) {
			if i >= 0 {
				row, column := ends[first+k], ends[int(s.n)+first+k]
				out.Source[i] += row[0] + column[0]
				out.Target[i] += row[1] + column[1]
			}
		}
	}
	return nil
}
