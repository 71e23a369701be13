package gpu

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"unsafe"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
)

//go:embed kernels/sampled.ptx.gz
var sampledImage []byte

// drawn is the pairs of a sample. Its layout is that of Drawn in kernels/sampled.cu.
type drawn struct {
	rows, sources, targets uint64
	count, dim             uint32
}

// How pairs of a sample are cut.
const (
	fewSampled   = 1 << 18 // pairs: fewer are for the processor
	segmentPairs = 8192    // that one block adds up
	squareTile   = 64      // rows and columns
)

// Design implements engine.Engine: a streamed design of many pairs makes its sums on the card, in float32 over a few
// pairs and in float64 over more. Sums are the same on every run.
func (e *OnCard) Design(ctx context.Context, p engine.DesignPairs) (engine.Design, error) {
	if !p.Streamed || p.CellOf == nil || p.Pairs.Len() < cmp.Or(e.fewPairs, fewSampled) {
		return e.CPU.Design(ctx, p)
	}
	cell := make([]int32, p.Pairs.Len())
	kern.Chunks(len(cell), 4096, kern.Threads(e.Threads), func(_, _, from, to int) {
		for k := from; k < to; k++ {
			cell[k] = p.CellOf(p.Pairs.Source[k], p.Pairs.Target[k])
		}
	})
	s := &sampleSums{on: e, vectors: p.Vectors, memory: memory{device: e.device}, cells: p.Cells}
	if err := s.put(p.Pairs, cell); err != nil {
		return nil, err
	}
	design, err := e.CPU.DesignBy(p, cell, s)
	if err != nil {
		return nil, cmp.Or(err, s.Close())
	}
	return design, nil
}

// sampleSums makes sums over pairs of a sample.
type sampleSums struct {
	memory
	drawn
	on           *OnCard
	vectors      *graph.Vectors
	cells        int
	all, byCell  segments
	room         *array // for a number of every pair
	count, width int
}

// segments are pairs in an order, cut into parts that are added up one by one.
type segments struct {
	order, starts uint64
	group         []int // of every segment: where its sum belongs
}

// put copies the pairs to the card.
func (s *sampleSums) put(pairs *graph.Pairs, cell []int32) error {
	s.count, s.drawn.count = pairs.Len(), uint32(pairs.Len())
	s.width = s.on.findKernel(Float32).padded(s.vectors.Dim())
	s.dim = uint32(s.width)
	return s.on.turn(func() error {
		if err := s.on.device.load("sampled", sampledImage, "dotPairs", "addPairs", "addSquares",
			"addLengths"); err != nil {
			return err
		}
		one := make([]int32, s.count)
		room, err := s.take(uint64(s.count) * 4)
		if err == nil {
			s.room = room
			err = cmp.Or(upload(&s.memory, &s.sources, pairs.Source), upload(&s.memory, &s.targets, pairs.Target),
				s.cut(&s.all, one, 1), s.cut(&s.byCell, cell, s.cells))
		}
		if err != nil {
			s.free()
		}
		return err
	})
}

// turn does something on the card when no search is under way.
func (e *OnCard) turn(calls func() error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.device.do(calls)
}

// cut puts pairs in the order of their groups.
func (s *sampleSums) cut(to *segments, group []int32, groups int) error {
	begins := make([]uint32, groups+1)
	for _, g := range group {
		begins[g+1]++
	}
	for g := range groups {
		begins[g+1] += begins[g]
	}
	var starts []uint32
	for g := range groups {
		for at := begins[g]; at < begins[g+1]; at += segmentPairs {
			starts, to.group = append(starts, at), append(to.group, g)
		}
	}
	starts = append(starts, uint32(len(group)))
	order := make([]uint32, len(group))
	for k, g := range group {
		order[begins[g]] = uint32(k)
		begins[g]++
	}
	return cmp.Or(upload(&s.memory, &to.order, order), upload(&s.memory, &to.starts, starts))
}

// Close gives back the card's memory.
func (s *sampleSums) Close() error {
	return s.on.turn(func() error {
		s.free()
		return nil
	})
}

// launch runs a kernel over the pairs; the rows are on the card by then.
func (s *sampleSums) launch(ctx context.Context, name string, blocks int, arguments ...unsafe.Pointer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	rows, err := s.on.hold(s.vectors, 0, s.vectors.Len(), Float32)
	if err != nil {
		return fmt.Errorf("%w: %d vectors of %d numbers do not fit; use the processor", err, s.vectors.Len(),
			s.vectors.Dim())
	}
	s.rows = rows.wide.address
	return s.on.device.launch(&kernel{kernelName: kernelName{"sampled", name}, blocks: max(blocks, 1), threads: 256},
		append([]unsafe.Pointer{unsafe.Pointer(&s.drawn)}, arguments...))
}

// Dots implements engine.PairSums.
func (s *sampleSums) Dots(ctx context.Context, w []float32) ([]float32, error) {
	out := make([]float32, s.count)
	padded := make([]float32, s.width)
	copy(padded, w)
	return out, s.on.turn(func() error {
		held := memory{device: s.on.device}
		defer held.free()
		var weights uint64
		if err := upload(&held, &weights, padded); err != nil {
			return err // and launches nothing: without its arguments a kernel would ruin the whole context
		}
		return cmp.Or(s.launch(ctx, "dotPairs", 16*s.on.device.processors,
			unsafe.Pointer(&weights), unsafe.Pointer(&s.room.address)), get(s.room, out))
	})
}

// Add implements engine.PairSums.
func (s *sampleSums) Add(ctx context.Context, weights []float32) ([]float64, error) {
	return s.add(ctx, weights, &s.all, 1)
}

// AddByCell implements engine.PairSums.
func (s *sampleSums) AddByCell(ctx context.Context, weights []float32) ([]float64, error) {
	return s.add(ctx, weights, &s.byCell, s.cells)
}

func (s *sampleSums) add(ctx context.Context, weights []float32, by *segments, groups int) ([]float64, error) {
	d := s.vectors.Dim()
	out, parts := make([]float64, groups*d), make([]float64, len(by.group)*s.width)
	if err := s.on.turn(func() error {
		held := memory{device: s.on.device}
		defer held.spare()
		room, err := held.take(uint64(len(parts)) * 8)
		if err != nil {
			return err
		}
		count := uint32(len(by.group))
		return cmp.Or(put(s.room, 0, weights), s.launch(ctx, "addPairs", len(by.group), unsafe.Pointer(&s.room.address),
			unsafe.Pointer(&by.order), unsafe.Pointer(&by.starts), unsafe.Pointer(&count),
			unsafe.Pointer(&room.address)), get(room, parts))
	}); err != nil {
		return nil, err
	}
	for number, g := range by.group {
		sum := out[g*d : (g+1)*d]
		for i := range sum {
			sum[i] += parts[number*s.width+i]
		}
	}
	return out, nil
}

// Squares implements engine.PairSums.
func (s *sampleSums) Squares(ctx context.Context, weights []float32) ([]float64, error) {
	d, rows := s.vectors.Dim(), s.width/squareTile
	tiles := rows * (rows + 1) / 2
	parts := (4*s.on.device.processors + tiles - 1) / tiles
	const each = squareTile * squareTile
	sums := make([]float64, parts*tiles*each)
	if err := s.on.turn(func() error {
		held := memory{device: s.on.device}
		defer held.spare()
		room, err := held.take(uint64(len(sums)) * 8)
		if err != nil {
			return err
		}
		count, of := uint32(parts), uint32(tiles)
		return cmp.Or(put(s.room, 0, weights), s.launch(ctx, "addSquares", parts*tiles,
			unsafe.Pointer(&s.room.address), unsafe.Pointer(&count), unsafe.Pointer(&of),
			unsafe.Pointer(&room.address)), get(room, sums))
	}); err != nil {
		return nil, err
	}
	out := make([]float64, d*d)
	for number := range parts * tiles {
		tile, row := number%tiles, 0
		for (row+1)*(row+2)/2 <= tile {
			row++
		}
		first, left := row*squareTile, (tile-row*(row+1)/2)*squareTile
		for i := first; i < min(first+squareTile, d); i++ {
			for j := left; j < min(left+squareTile, i+1); j++ {
				out[i*d+j] += sums[number*each+(i-first)*squareTile+j-left]
			}
		}
	}
	return out, nil
}

// Lengths implements engine.PairSums.
func (s *sampleSums) Lengths(ctx context.Context, rows [][]float32) ([]float32, error) {
	d, count := s.vectors.Dim(), (len(rows)+squareTile-1)/squareTile*squareTile
	all, offsets := make([]float32, count*s.width), make([]float32, count)
	for r, row := range rows {
		copy(all[r*s.width:][:d], row)
		offsets[r] = row[d]
	}
	out := make([]float32, s.count)
	return out, s.on.turn(func() error {
		held := memory{device: s.on.device}
		defer held.free()
		var of, plus uint64
		many := uint32(count)
		if err := cmp.Or(upload(&held, &of, all), upload(&held, &plus, offsets)); err != nil {
			return err
		}
		return cmp.Or(s.launch(ctx, "addLengths", 8*s.on.device.processors, unsafe.Pointer(&of), unsafe.Pointer(&plus),
			unsafe.Pointer(&many), unsafe.Pointer(&s.room.address)), get(s.room, out))
	})
}
