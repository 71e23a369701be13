package engine

import (
	"context"
	"fmt"
	"math"
	"slices"

	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
)

// Alternate implements Engine.
func (c CPU) Alternate(o *Objective) (Alternation, error) {
	link, ok := o.Link.(*model.Factors)
	if !ok {
		return nil, fmt.Errorf("%w: training side by side of the link model %s; use the optimiser lbfgs",
			ErrUnsupported, o.Link.Kind())
	}
	if _, place := model.LinkSlope(o.Propensity, make([]float32, o.Propensity.Size())); place >= 0 {
		return nil, fmt.Errorf("%w: training side by side with an exposure that depends on the text; use the "+
			"optimiser lbfgs", ErrUnsupported)
	}
	a := &cpuAlternation{o: o, link: link, rank: link.Rank(), order: kern.GramOrder(link.Rank()),
		threads: kern.Threads(c.Threads), inverseMean: 1 / o.meanWeight()}
	source, target, _ := link.Sides(make([]float32, link.Size()))
	a.lists[bySource] = a.list(source, o.Pairs.Source, target, o.Pairs.Target)
	a.lists[byTarget] = a.list(target, o.Pairs.Target, source, o.Pairs.Source)
	a.place()
	for side, parameters := range []model.FactorSide{source, target} {
		rows := len(parameters.Effects)
		a.numbers[side] = make([]float32, rows*a.order)
		var err error
		if a.factors[side], err = kern.View(a.numbers[side], rows, a.rank, a.order); err != nil {
			return nil, err
		}
	}
	var err error
	ratio := 1.
	if precision := a.precision(a.at.v); precision > 0 {
		ratio = a.precision(a.at.a) / precision
	}
	a.describing, err = link.Describing(ratio)
	return a, err
}

const (
	bySource = iota
	byTarget
)

// cpuAlternation is an Alternation on the processor. Every row is moved by one worker, in the order of its pairs, so
// that the number of threads does not matter.
type cpuAlternation struct {
	o           *Objective
	link        *model.Factors
	rank, order int
	threads     int
	inverseMean float64
	lists       [2]rowList
	factors     [2]*kern.Matrix // u, and t = v + A·h
	numbers     [2][]float32    // that these are views of
	describing  *model.Describing
	cells       *model.FieldMatrix // nil where exposure is not a matter of fields
	at          places
}

// places are where parts of the parameters begin; −1 for parts that there are not.
type places struct {
	effects   [2]int // b_i, b_j
	v, a, b   int
	cells     int    // logits of pairs of fields
	exposures [2]int // effects of exposure, of sources and of targets
	remaining int    // parameters that are in none of these
}

func (a *cpuAlternation) place() {
	at := 0
	a.at = places{a: -1, cells: -1, exposures: [2]int{-1, -1}}
	for _, part := range a.link.Parts() {
		switch part.Name {
		case "v":
			a.at.v = at
		case "A":
			a.at.a = at
		case "b_source":
			a.at.effects[bySource] = at
		case "b_target":
			a.at.effects[byTarget] = at
		case "b":
			a.at.b = at
		}
		at += part.Size()
	}
	layout, _ := a.o.Propensity.(model.Layout)
	a.cells = a.o.fields()
	a.at.remaining = a.o.Propensity.Size()
	if layout == nil {
		return
	}
	for number, part := range layout.Parts() {
		switch {
		case number == 0 && a.cells != nil:
			a.at.cells = at
		case part.Name == string(model.Person):
			a.at.exposures[bySource] = at
		case part.Name == string(model.Item):
			a.at.exposures[byTarget] = at
		default:
			at += part.Size()
			continue
		}
		a.at.remaining -= part.Size()
		at += part.Size()
	}
}

// Complete implements Alternation.
func (a *cpuAlternation) Complete() bool { return a.at.remaining == 0 }

// precision is that of a parameter's prior, where the likelihood is a sum over pairs; 0 where there is none.
func (a *cpuAlternation) precision(i int) float64 {
	if a.o.Precision == nil || i < 0 {
		return 0
	}
	return a.o.Precision[i] * float64(a.o.Pairs.Len())
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

func (a *cpuAlternation) list(own model.FactorSide, ownNodes []int32, other model.FactorSide,
	otherNodes []int32) rowList {
	rows := len(own.Effects)
	l := rowList{start: make([]int, rows+1), node: slices.Repeat([]int32{-1}, rows)}
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
func (s *rowSystem) gather(side, row, from, to int) model.Batch {
	l, w, n := &s.lists[side], s.w, to-from
	own, other := w.sources[:n], w.targets[:n]
	if side == byTarget {
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

// Round implements Alternation.
func (a *cpuAlternation) Round(ctx context.Context, params []float32) (Parts, error) {
	if len(params) < a.o.Size() {
		return Parts{}, fmt.Errorf("%w: %d parameters for models with %d", ErrShape, len(params), a.o.Size())
	}
	prior := a.o.prior(params, nil)
	a.load(params)
	sum, err := a.sweep(ctx, bySource, params)
	if err != nil {
		return Parts{}, err
	}
	a.recentre(bySource, params)
	if _, err := a.sweep(ctx, byTarget, params); err != nil {
		return Parts{}, err
	}
	a.recentre(byTarget, params)
	a.store(params)
	if err := a.common(ctx, params); err != nil {
		return Parts{}, err
	}
	n := float64(a.o.Pairs.Len())
	return Parts{Likelihood: sum.Likelihood / n, Risk: sum.Risk / n, Prior: prior}, nil
}

// load lays out the factors for the kernels.
func (a *cpuAlternation) load(params []float32) {
	if a.describing != nil {
		a.describing.Explained(a.numbers[byTarget], params, a.order)
	} else {
		for row := range a.factors[byTarget].Rows() {
			clear(a.factors[byTarget].Row(row))
		}
	}
	source, target, _ := a.link.Sides(params)
	for row := range a.factors[bySource].Rows() {
		copy(a.factors[bySource].Row(row), source.Factors[row*a.rank:][:a.rank])
	}
	for row := range a.factors[byTarget].Rows() {
		to := a.factors[byTarget].Row(row)
		for k, v := range target.Factors[row*a.rank:][:a.rank] {
			to[k] += v
		}
	}
}

// store is the way back; A is what the vectors explain of t.
func (a *cpuAlternation) store(params []float32) {
	source, target, _ := a.link.Sides(params)
	for side, to := range [][]float32{source.Factors, target.Factors} {
		for row := range a.factors[side].Rows() {
			copy(to[row*a.rank:][:a.rank], a.factors[side].Row(row))
		}
	}
	if a.describing != nil {
		a.describing.Explain(params, a.numbers[byTarget], a.order)
	}
}

// recentre moves the mean of a side's effects into b, which changes no logit and lowers the prior.
func (a *cpuAlternation) recentre(side int, params []float32) {
	at, rows := a.at.effects[side], a.factors[side].Rows()
	if a.precision(at) == 0 || rows == 0 {
		return
	}
	effects := params[at:][:rows]
	var sum risk.Sum
	for _, x := range effects {
		sum.Add(float64(x))
	}
	mean := float32(sum.Value() / float64(rows))
	for i := range effects {
		effects[i] -= mean
	}
	params[a.at.b] += mean
}

// rowsAtOnce is how many rows a worker takes.
const rowsAtOnce = 64

// sweep moves every row of a side, and returns what the objective summed to before.
func (a *cpuAlternation) sweep(ctx context.Context, side int, params []float32) (Parts, error) {
	rows := a.factors[side].Rows()
	parts := make([]Parts, (rows+rowsAtOnce-1)/rowsAtOnce)
	workers := make([]*rowSystem, a.threads)
	centre := a.centre(side, params)
	err := kern.ChunksErr(ctx, rows, rowsAtOnce, a.threads, func(worker, chunk, from, to int) error {
		if workers[worker] == nil {
			workers[worker] = newRowSystem(a)
		}
		s := workers[worker]
		for row := from; row < to; row++ {
			sum := s.add(side, row, params)
			parts[chunk].Likelihood += sum.Likelihood
			parts[chunk].Risk += sum.Risk
			s.move(side, row, params, centre)
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

// centre is the prior's mean of t: A·h; nil means 0.
func (a *cpuAlternation) centre(side int, params []float32) []float32 {
	if side == bySource || a.describing == nil {
		return nil
	}
	rows := a.factors[side].Rows()
	centre := make([]float32, rows*a.rank)
	a.describing.Explained(centre, params, a.rank)
	return centre
}

// rowSystem is the Newton step of one row: of its factors, its effect, and its effect of exposure where there is one.
type rowSystem struct {
	*cpuAlternation
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

func newRowSystem(a *cpuAlternation) *rowSystem {
	size := a.rank + 2
	s := &rowSystem{cpuAlternation: a, w: newWorkspace().curved(), gram: make([]float32, a.order*a.order),
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
func (s *rowSystem) each(side, row int, params []float32, values bool, visit func(rows []int32, b model.Batch)) (
	total Parts) {
	l, w := &s.lists[side], s.w
	own, others := s.factors[side].Row(row)[:s.rank], s.factors[1-side]
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
func (s *rowSystem) add(side, row int, params []float32) Parts {
	size, w, others := s.size(side), s.w, s.factors[1-side]
	clear(s.h)
	clear(s.b)
	pending := 0
	total := s.each(side, row, params, side == bySource, func(rows []int32, _ model.Batch) {
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
func (s *rowSystem) size(side int) int {
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
func (s *rowSystem) move(side, row int, params, centre []float32) {
	size, r := s.size(side), s.rank
	places := [3]int{s.at.factorsOf(side) + row*r, s.at.effects[side] + row, s.at.exposures[side] + row}
	own := s.factors[side].Row(row)
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

func (p places) factorsOf(side int) int {
	if side == bySource {
		return 0
	}
	return p.v
}

// common moves b and the logits of all pairs of fields by a Newton step. Given b, each of those is on its own, so that
// the system is solved from b's row on.
func (a *cpuAlternation) common(ctx context.Context, params []float32) error {
	if a.cells == nil {
		return nil // the means of the effects are b's
	}
	const portions = 64 // that are added up apart, so that the number of threads does not matter
	rows := a.factors[bySource].Rows()
	size := max((rows+portions-1)/portions, 1)
	parts := make([]cellSums, (rows+size-1)/size)
	err := kern.ChunksErr(ctx, rows, size, a.threads, func(_, chunk, from, to int) error {
		sums, s := newCellSums(a.cells.Size()), newRowSystem(a)
		for row := from; row < to; row++ {
			s.each(bySource, row, params, false, func(_ []int32, b model.Batch) {
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
		return err
	}
	total := newCellSums(a.cells.Size())
	for _, p := range parts {
		total.add(p)
	}
	prior := func(c int) (off, precision float64) {
		return a.o.offCentre(params, a.at.cells+c), a.precision(a.at.cells + c)
	}
	logits := params[a.at.cells:][:a.cells.Size()]
	if a.o.Tied {
		step := total.tied(prior).solve(logits[:1], func(int) (float64, float64) { return 0, 0 })
		params[a.at.b] += float32(step)
		for c := range logits {
			logits[c] = logits[0]
		}
		return nil
	}
	params[a.at.b] += float32(total.solve(logits, prior))
	return nil
}

// cellSums are the slopes and the curvature of the objective in b and in the logits of the pairs of fields.
type cellSums struct {
	b, bb float64
	cells []struct{ s, ss, bs float64 }
}

func newCellSums(cells int) cellSums {
	return cellSums{cells: make([]struct{ s, ss, bs float64 }, cells)}
}

func (t *cellSums) add(p cellSums) {
	t.b += p.b
	t.bb += p.bb
	for c, x := range p.cells {
		t.cells[c].s += x.s
		t.cells[c].ss += x.ss
		t.cells[c].bs += x.bs
	}
}

// tied makes one of all logits, with their priors.
func (t *cellSums) tied(prior func(cell int) (off, precision float64)) *cellSums {
	out := newCellSums(1)
	out.b, out.bb = t.b, t.bb
	for c, p := range t.cells {
		off, q := prior(c)
		out.cells[0].s += p.s + q*off
		out.cells[0].ss += p.ss + q
		out.cells[0].bs += p.bs
	}
	return &out
}

// mostCommon is how far a step may move any logit of exposure.
const mostCommon = .5

// solve moves the logits to the minimum of the quadratic objective within so many, and returns the step of b. A logit
// that would move further, as one does that is on its way to infinity, stops there, and the others are solved again.
func (t *cellSums) solve(logits []float32, prior func(cell int) (off, precision float64)) (step float64) {
	moved, stopped := make([]float64, len(t.cells)), make([]bool, len(t.cells))
	for c := range t.cells {
		p := &t.cells[c]
		off, q := prior(c)
		p.s, p.ss = p.s+q*off, (p.ss+q)*(1+1e-6) // b and all of them may be the same unknown
	}
	for again := true; again; {
		slope, curvature := t.b, t.bb
		for c, p := range t.cells {
			switch {
			case stopped[c]:
				slope += p.bs * moved[c]
			case p.ss > 0:
				slope -= p.bs / p.ss * p.s
				curvature -= p.bs / p.ss * p.bs
			}
		}
		if step = 0; curvature > 0 {
			step = max(-mostCommon, min(mostCommon, -slope/curvature))
		}
		again = false
		for c, p := range t.cells {
			if stopped[c] || !(p.ss > 0) {
				continue
			}
			if moved[c] = -(p.s + p.bs*step) / p.ss; math.Abs(moved[c]) > mostCommon {
				moved[c] = math.Copysign(mostCommon, moved[c])
				stopped[c], again = true, true
			}
		}
	}
	for c, x := range moved {
		logits[c] += float32(x)
	}
	return step
}
