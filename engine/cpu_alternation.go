package engine

import (
	"context"
	"math"
	"slices"

	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
)

// Alternate implements Engine.
func (c CPU) Alternate(o *Objective) (Alternation, error) {
	pairs := int64(o.Pairs.Len())
	moves, err := c.RowMoves(o, pairs)
	if err != nil {
		return nil, err
	}
	return NewAlternation(o, pairs, moves)
}

// RowMoves returns the moves over the pairs of an objective, which is a mean over so many: over all of them, or, for
// the worker of a cluster, over those of some rows. Then rows of the moved side need all of their pairs, the link model
// has no A, and MeanWeight is that of all pairs.
func (c CPU) RowMoves(o *Objective, pairs int64) (RowMoves, error) {
	f, err := newFactorObjective(o, pairs)
	if err != nil {
		return nil, err
	}
	return &cpuMoves{factorObjective: f, order: kern.GramOrder(f.rank), threads: kern.Threads(c.Threads),
		inverseMean: 1 / o.meanWeight()}, nil
}

// cpuMoves is RowMoves on the processor. Every row is moved by one worker, in the order of its pairs, so that the
// number of threads does not matter.
type cpuMoves struct {
	*factorObjective
	order       int
	threads     int
	inverseMean float64
	lists       [2]*rowList // nil until they are needed
}

// rows returns the pairs of a side by rows.
func (a *cpuMoves) rows(side Side) *rowList {
	if a.lists[side] == nil {
		source, target, _ := a.link.Sides(make([]float32, a.link.Size()))
		p := a.o.Pairs
		if side == Sources {
			a.lists[side] = a.list(source, p.Source, target, p.Target)
		} else {
			a.lists[side] = a.list(target, p.Target, source, p.Source)
		}
	}
	return a.lists[side]
}

// rowList is the pairs of every row of one side. Pairs that lie in that order are read where they are.
type rowList struct {
	start []int   // of every row
	node  []int32 // of every row
	other []int32 // row of the other side, by pair

	// A copy of the others in this order: reading them out of order would take longer than all the arithmetic.
	otherNode    []int32
	linked       []bool
	weight, rate []float32
	exposure     []risk.Exposure
}

func (a *cpuMoves) list(own model.FactorSide, ownNodes []int32, other model.FactorSide,
	otherNodes []int32) *rowList {
	rows := len(own.Effects)
	l := &rowList{start: make([]int, rows+1), node: slices.Repeat([]int32{-1}, rows)}
	ordered, last := true, int32(0)
	for _, node := range ownNodes {
		row := own.Row(node)
		l.start[row+1]++
		l.node[row] = node
		ordered, last = ordered && row >= last, row
	}
	for row := range rows {
		l.start[row+1] += l.start[row]
	}
	l.other = make([]int32, len(ownNodes))
	if ordered {
		for k, node := range otherNodes {
			l.other[k] = other.Row(node)
		}
		return l
	}
	next := slices.Clone(l.start[:rows])
	p, n := a.o.Pairs, len(ownNodes)
	l.otherNode, l.linked, l.weight, l.rate = make([]int32, n), make([]bool, n), make([]float32, n), make([]float32, n)
	if a.o.Exposure != nil {
		l.exposure = make([]risk.Exposure, n)
	}
	for k, node := range ownNodes {
		row := own.Row(node)
		to := next[row]
		next[row]++
		l.other[to], l.otherNode[to] = other.Row(otherNodes[k]), otherNodes[k]
		l.linked[to], l.weight[to], l.rate[to] = p.Linked[k], float32(p.Weight[k]*a.inverseMean), float32(p.Rate[k])
		if l.exposure != nil {
			l.exposure[to] = a.o.Exposure[k]
		}
	}
	return l
}

// gather fills the workspace with pairs from ≤ k < to of a row.
func (s *rowSystem) gather(side Side, row, from, to int) model.Batch {
	l, w, n := s.lists[side], s.w, to-from
	own, other := w.sources[:n], w.targets[:n]
	if side == Targets {
		own, other = other, own
	}
	if l.otherNode == nil {
		for i := range n {
			s.o.at(w, i, from+i, s.inverseMean)
		}
		return model.Batch{Sources: w.sources[:n], Targets: w.targets[:n]}
	}
	for i := range own {
		own[i] = l.node[row]
	}
	copy(other, l.otherNode[from:to])
	copy(w.linked, l.linked[from:to])
	copy(w.weight, l.weight[from:to])
	copy(w.rate, l.rate[from:to])
	if l.exposure != nil {
		copy(w.exposure, l.exposure[from:to])
	}
	return model.Batch{Sources: w.sources[:n], Targets: w.targets[:n]}
}

// rowsAtOnce is how many rows a worker takes.
const rowsAtOnce = 64

// Move implements RowMoves.
func (a *cpuMoves) Move(ctx context.Context, side Side, at *FactorState) (Parts, error) {
	rows := at.Len(side)
	a.rows(side)
	parts := make([]Parts, (rows+rowsAtOnce-1)/rowsAtOnce)
	workers := make([]*rowSystem, a.threads)
	err := kern.ChunksErr(ctx, rows, rowsAtOnce, a.threads, func(worker, chunk, from, to int) error {
		if workers[worker] == nil {
			workers[worker] = newRowSystem(a, at)
		}
		s := workers[worker]
		for row := from; row < to; row++ {
			sum := s.add(side, row)
			parts[chunk].Likelihood += sum.Likelihood
			parts[chunk].Risk += sum.Risk
			s.move(side, row)
		}
		return nil
	})
	var total Parts
	for _, p := range parts {
		total.Likelihood += p.Likelihood
		total.Risk += p.Risk
	}
	return total, err
}

// rowSystem is the Newton step of one row: of its factors, its effect, and its effect of exposure where there is one.
type rowSystem struct {
	*cpuMoves
	state   *FactorState
	w       *workspace
	gram    []float32 // Σ zz·x·xᵀ
	sums    [3][]float32
	scalars struct{ b, bb, s, bs, ss float64 }
	h, b, x []float64
	factor  []float64
}

// The sums over x, the other side's rows.
const (
	slopeX = iota // Σ dz·x
	crossX        // Σ zz·x: with the effect
	shownX        // Σ zs·x: with the effect of exposure
)

func newRowSystem(a *cpuMoves, at *FactorState) *rowSystem {
	size := a.rank + 2
	s := &rowSystem{cpuMoves: a, state: at, w: newWorkspace().curved(), gram: make([]float32, a.order*a.order),
		h: make([]float64, size*size), factor: make([]float64, size*size), b: make([]float64, size),
		x: make([]float64, size)}
	for i := range s.sums {
		s.sums[i] = make([]float32, a.rank)
	}
	return s
}

// foldedPairs is how many pairs are added up in float32.
const foldedPairs = 1 << 12

// each evaluates the pairs of a row, a stretch at a time, and hands on their rows of the other side. The workspace has
// their slopes and curvatures.
func (s *rowSystem) each(side Side, row int, values bool, visit func(rows []int32, b model.Batch)) (
	total Parts) {
	l, w, params := s.lists[side], s.w, s.state.Params
	own, others := s.state.Row(side, row)[:s.rank], s.state.rows[1-side]
	effects := params[s.at.effects[1-side]:]
	offset := params[s.at.effects[side]+row] + params[s.at.b]
	_, propensity := s.o.Split(params)
	for from := l.start[row]; from < l.start[row+1]; from += stretch {
		n := min(stretch, l.start[row+1]-from)
		rows, batch := l.other[from:from+n], s.gather(side, row, from, from+n)
		kern.Dots(w.z[:n], own, others, rows)
		for i, j := range rows {
			w.z[i] += offset + effects[j]
		}
		s.o.Propensity.Logits(w.s[:n], propensity, batch)
		parts := s.o.curves(w, n, values)
		total.Likelihood += parts.Likelihood
		total.Risk += parts.Risk
		visit(rows, batch)
	}
	return total
}

// add makes the system of a row.
func (s *rowSystem) add(side Side, row int) Parts {
	size, w, others := s.size(side), s.w, s.state.rows[1-side]
	clear(s.h)
	clear(s.b)
	pending := 0
	total := s.each(side, row, side == Sources, func(rows []int32, _ model.Batch) {
		kern.AddGram(s.gram, others, rows, w.zz)
		kern.AddRows(s.sums[slopeX], others, rows, w.dz)
		kern.AddRows(s.sums[crossX], others, rows, w.zz)
		if size > s.rank+1 {
			kern.AddRows(s.sums[shownX], others, rows, w.zs)
		}
		for i := range rows {
			s.scalars.b += float64(w.dz[i])
			s.scalars.bb += float64(w.zz[i])
			s.scalars.s += float64(w.ds[i])
			s.scalars.bs += float64(w.zs[i])
			s.scalars.ss += float64(w.ss[i])
		}
		if pending += len(rows); pending >= foldedPairs {
			s.fold(size)
			pending = 0
		}
	})
	s.fold(size)
	return total
}

// size is the number of unknowns of a row.
func (s *rowSystem) size(side Side) int {
	if s.at.exposures[side] < 0 {
		return s.rank + 1
	}
	return s.rank + 2
}

// fold adds the sums in float32 to the system in float64.
func (s *rowSystem) fold(size int) {
	r := s.rank
	for a := range r {
		row, from := s.h[a*size:], s.gram[a*s.order:]
		for b := range a + 1 {
			row[b] += float64(from[b])
		}
		s.b[a] += float64(s.sums[slopeX][a])
		s.h[r*size+a] += float64(s.sums[crossX][a])
		if size > r+1 {
			s.h[(r+1)*size+a] += float64(s.sums[shownX][a])
		}
	}
	clear(s.gram)
	for i := range s.sums {
		clear(s.sums[i])
	}
	s.b[r] += s.scalars.b
	s.h[r*size+r] += s.scalars.bb
	if size > r+1 {
		s.b[r+1] += s.scalars.s
		s.h[(r+1)*size+r] += s.scalars.bs
		s.h[(r+1)*size+r+1] += s.scalars.ss
	}
	s.scalars = struct{ b, bb, s, bs, ss float64 }{}
}

// most is how far a step may move the logits of a row's pairs, in the mean by their curvature: a Newton step is no
// guide beyond.
const most = 2

// move takes the Newton step of a row.
func (s *rowSystem) move(side Side, row int) {
	size, r, params, centre := s.size(side), s.rank, s.state.Params, s.state.Centre
	places := [3]int{s.at.factorsOf(side) + row*r, s.at.effects[side] + row, s.at.exposures[side] + row}
	own := s.state.Row(side, row)
	var curvature float64
	if curvature = s.h[r*size+r]; size > r+1 {
		curvature += s.h[(r+1)*size+r+1]
	}
	b := s.b[:size]
	for i := range size {
		at, x := places[0]+i, 0.
		switch {
		case i < r:
			if x = float64(own[i]); centre != nil {
				x -= float64(centre[row*r+i])
			}
		default:
			at = places[i-r+1]
			x = s.o.offCentre(params, at)
		}
		precision := s.precision(at)
		b[i] = -(b[i] + precision*x)
		s.h[i*size+i] += precision + 1e-9*(1+s.h[i*size+i])
	}
	gradient := s.x[:size]
	copy(gradient, b)
	copy(s.factor, s.h[:size*size])
	if !kern.SolveLower(s.factor[:size*size], b) {
		return
	}
	if size > r+1 && math.Abs(b[r+1]) > mostCommon { // it stops there, and the others are solved given that
		b[r+1] = math.Copysign(mostCommon, b[r+1])
		for i := range r + 1 {
			b[i] = gradient[i] - s.h[(r+1)*size+i]*b[r+1]
			copy(s.factor[i*(r+1):][:i+1], s.h[i*size:])
		}
		if !kern.SolveLower(s.factor[:(r+1)*(r+1)], b[:r+1]) {
			return
		}
	}
	// ‖step‖² in the metric of h is ⟨−gradient, step⟩
	var squared float64
	for i, x := range b {
		squared += x * gradient[i]
	}
	if math.IsNaN(squared) || math.IsInf(squared, 0) {
		return
	}
	scale := 1.
	if limit := most * most * curvature; squared > limit && limit > 0 {
		scale = math.Sqrt(limit / squared)
	}
	for i, x := range b {
		if i < r {
			own[i] += float32(scale * x)
		} else {
			params[places[i-r+1]] += float32(scale * x)
		}
	}
}

func (p places) factorsOf(side Side) int {
	if side == Sources {
		return 0
	}
	return p.v
}

// Sums implements RowMoves.
func (a *cpuMoves) Sums(ctx context.Context, at *FactorState) ([]float64, error) {
	if a.cells == nil {
		return nil, nil
	}
	a.rows(Sources)
	const portions = 64 // that are added up apart, so that the number of threads does not matter
	rows := at.Len(Sources)
	size := max((rows+portions-1)/portions, 1)
	parts := make([]cellSums, (rows+size-1)/size)
	err := kern.ChunksErr(ctx, rows, size, a.threads, func(_, chunk, from, to int) error {
		sums, s := newCellSums(a.cells.Size()), newRowSystem(a, at)
		for row := from; row < to; row++ {
			s.each(Sources, row, false, func(_ []int32, b model.Batch) {
				for i := range b.Sources {
					sums.b += float64(s.w.dz[i])
					sums.bb += float64(s.w.zz[i])
					c := &sums.cells[a.cells.Cell(b.Sources[i], b.Targets[i])]
					c.s += float64(s.w.ds[i])
					c.ss += float64(s.w.ss[i])
					c.bs += float64(s.w.zs[i])
				}
			})
		}
		parts[chunk] = sums
		return nil
	})
	if err != nil {
		return nil, err
	}
	total := newCellSums(a.cells.Size())
	for _, p := range parts {
		total.add(p)
	}
	return total.flat(), nil
}
