package engine

import (
	"context"
	"fmt"
	"math"

	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
)

// Alternation minimises an objective over learned factors, model.Factors, side by side. Given the factors of the
// targets, those of every source are a small problem of their own, which a Newton step almost solves; then the same is
// true of the targets. A few rounds do what hundreds of gradients would.
type Alternation interface {
	// Round moves the factors and effects of the sources, of the targets, and then the propensities of pairs of fields
	// together with the common intercept. It returns the objective where the round began.
	Round(ctx context.Context, params []float32) (Parts, error)
	// Complete reports whether rounds move all parameters; otherwise those of exposure that are left stay where they
	// are, for another method to move.
	Complete() bool
}

// Side is one side of factors.
type Side int

// The sides, in the order in which a round moves them.
const (
	Sources Side = iota
	Targets
)

// RowMoves does what a round asks of the pairs; all else is a few numbers for every row. CPU.RowMoves does it for the
// pairs of an objective, which may be all or those of some rows. A cluster does it by having every worker do the
// latter.
type RowMoves interface {
	// Move takes the Newton step of every row of a side: of its factors, its effect, and its effect of exposure where
	// there is one. Of the sources it returns what the objective summed to before.
	Move(ctx context.Context, side Side, at *FactorState) (Parts, error)
	// Sums returns the slope and the curvature of the objective in b, and then, for the logit of every pair of fields,
	// the slope, the curvature, and that of the logit and b together.
	Sums(ctx context.Context, at *FactorState) ([]float64, error)
}

// FactorState is where a round is. The factors are laid out for the kernels, and those among the parameters are old
// until its end.
type FactorState struct {
	Params []float32 // of the objective; a move changes the effects of its side
	// Centre is the mean of the prior of the rows that are moved: A·h of every target, as many numbers as it has
	// factors. nil means 0.
	Centre []float32

	rows    [2]*kern.Matrix
	numbers [2][]float32 // that rows are views of
	order   int          // from one row of these to the next
}

// Row is u of a source, or t = v + A·h of a target. A move changes the rows of its side.
func (s *FactorState) Row(side Side, row int) []float32 { return s.rows[side].Row(row) }

// Len returns how many rows a side has.
func (s *FactorState) Len(side Side) int { return s.rows[side].Rows() }

// NewFactorState makes room for the rows of a model's factors.
func NewFactorState(link *model.Factors, params []float32) (*FactorState, error) {
	s := &FactorState{Params: params, order: kern.GramOrder(link.Rank())}
	source, target, _ := link.Sides(params)
	for side, parameters := range []model.FactorSide{source, target} {
		rows := len(parameters.Effects)
		s.numbers[side] = make([]float32, rows*s.order)
		var err error
		if s.rows[side], err = kern.View(s.numbers[side], rows, link.Rank(), s.order); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// factorObjective is an objective over factors with what is known of it beforehand.
type factorObjective struct {
	o     *Objective
	link  *model.Factors
	rank  int
	pairs float64            // that the objective is a mean over
	cells *model.FieldMatrix // nil where exposure is not a matter of fields
	at    places
}

func newFactorObjective(o *Objective, pairs int64) (*factorObjective, error) {
	link, ok := o.Link.(*model.Factors)
	if !ok {
		return nil, fmt.Errorf("%w: training side by side of the link model %s; use the optimiser lbfgs",
			ErrUnsupported, o.Link.Kind())
	}
	if _, place := model.LinkSlope(o.Propensity, make([]float32, o.Propensity.Size())); place >= 0 {
		return nil, fmt.Errorf("%w: training side by side with an exposure that depends on the text; use the "+
			"optimiser lbfgs", ErrUnsupported)
	}
	f := &factorObjective{o: o, link: link, rank: link.Rank(), pairs: float64(pairs)}
	f.place()
	return f, nil
}

// alternation is an Alternation whose pairs are where its moves are.
type alternation struct {
	*factorObjective
	moves      RowMoves
	state      *FactorState
	describing *model.Describing
}

// NewAlternation returns the rounds of an objective over so many pairs, which are where the moves are. The objective's
// own are not looked at.
func NewAlternation(o *Objective, pairs int64, moves RowMoves) (Alternation, error) {
	f, err := newFactorObjective(o, pairs)
	if err != nil {
		return nil, err
	}
	a := &alternation{factorObjective: f, moves: moves}
	if a.state, err = NewFactorState(f.link, make([]float32, f.link.Size())); err != nil {
		return nil, err
	}
	ratio := 1.
	if precision := a.precision(a.at.v); precision > 0 {
		ratio = a.precision(a.at.a) / precision
	}
	a.describing, err = f.link.Describing(ratio)
	return a, err
}

// places are where parts of the parameters begin; −1 for parts that there are not.
type places struct {
	effects   [2]int // b_i, b_j
	v, a, b   int
	cells     int    // logits of pairs of fields
	exposures [2]int // effects of exposure, of sources and of targets
	remaining int    // parameters that are in none of these
}

func (a *factorObjective) place() {
	at := 0
	a.at = places{a: -1, cells: -1, exposures: [2]int{-1, -1}}
	for _, part := range a.link.Parts() {
		switch part.Name {
		case "v":
			a.at.v = at
		case "A":
			a.at.a = at
		case "b_source":
			a.at.effects[Sources] = at
		case "b_target":
			a.at.effects[Targets] = at
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
			a.at.exposures[Sources] = at
		case part.Name == string(model.Item):
			a.at.exposures[Targets] = at
		default:
			at += part.Size()
			continue
		}
		a.at.remaining -= part.Size()
		at += part.Size()
	}
}

// Complete implements Alternation.
func (a *alternation) Complete() bool { return a.at.remaining == 0 }

// precision is that of a parameter's prior, where the likelihood is a sum over pairs; 0 where there is none.
func (a *factorObjective) precision(i int) float64 {
	if a.o.Precision == nil || i < 0 {
		return 0
	}
	return a.o.Precision[i] * a.pairs
}

// Round implements Alternation.
func (a *alternation) Round(ctx context.Context, params []float32) (Parts, error) {
	if len(params) < a.o.Size() {
		return Parts{}, fmt.Errorf("%w: %d parameters for models with %d", ErrShape, len(params), a.o.Size())
	}
	prior := a.o.prior(params, nil)
	a.state.Params, a.state.Centre = params, nil
	a.load(params)
	sum, err := a.moves.Move(ctx, Sources, a.state)
	if err != nil {
		return Parts{}, err
	}
	a.recentre(Sources, params)
	a.state.Centre = a.centre(params)
	if _, err := a.moves.Move(ctx, Targets, a.state); err != nil {
		return Parts{}, err
	}
	a.recentre(Targets, params)
	a.store(params)
	if err := a.common(ctx, params); err != nil {
		return Parts{}, err
	}
	return Parts{Likelihood: sum.Likelihood / a.pairs, Risk: sum.Risk / a.pairs, Prior: prior}, nil
}

// load lays out the factors for the kernels.
func (a *alternation) load(params []float32) {
	if a.describing != nil {
		a.describing.Explained(a.state.numbers[Targets], params, a.state.order)
	} else {
		for row := range a.state.Len(Targets) {
			clear(a.state.Row(Targets, row))
		}
	}
	source, target, _ := a.link.Sides(params)
	for row := range a.state.Len(Sources) {
		copy(a.state.Row(Sources, row), source.Factors[row*a.rank:][:a.rank])
	}
	for row := range a.state.Len(Targets) {
		to := a.state.Row(Targets, row)
		for k, v := range target.Factors[row*a.rank:][:a.rank] {
			to[k] += v
		}
	}
}

// store is the way back; A is what the vectors explain of t.
func (a *alternation) store(params []float32) {
	source, target, _ := a.link.Sides(params)
	for side, to := range [][]float32{source.Factors, target.Factors} {
		for row := range a.state.Len(Side(side)) {
			copy(to[row*a.rank:][:a.rank], a.state.Row(Side(side), row))
		}
	}
	if a.describing != nil {
		a.describing.Explain(params, a.state.numbers[Targets], a.state.order)
	}
}

// recentre moves the mean of a side's effects into b, which changes no logit and lowers the prior.
func (a *alternation) recentre(side Side, params []float32) {
	at, rows := a.at.effects[side], a.state.Len(side)
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

// centre is the prior's mean of t: A·h; nil means 0.
func (a *alternation) centre(params []float32) []float32 {
	if a.describing == nil {
		return nil
	}
	rows := a.state.Len(Targets)
	centre := make([]float32, rows*a.rank)
	a.describing.Explained(centre, params, a.rank)
	return centre
}

// common moves b and the logits of all pairs of fields by a Newton step. Given b, each of those is on its own, so that
// the system is solved from b's row on.
func (a *alternation) common(ctx context.Context, params []float32) error {
	if a.cells == nil {
		return nil // the means of the effects are b's
	}
	sums, err := a.moves.Sums(ctx, a.state)
	if err != nil {
		return err
	}
	total, err := cellSumsOf(sums, a.cells.Size())
	if err != nil {
		return err
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

// cellSumsOf are those that moves return.
func cellSumsOf(sums []float64, cells int) (cellSums, error) {
	if len(sums) != 2+3*cells {
		return cellSums{}, fmt.Errorf("%w: %d sums for %d pairs of fields", ErrShape, len(sums), cells)
	}
	t := newCellSums(cells)
	t.b, t.bb = sums[0], sums[1]
	for c := range t.cells {
		s := sums[2+3*c:]
		t.cells[c].s, t.cells[c].ss, t.cells[c].bs = s[0], s[1], s[2]
	}
	return t, nil
}

// flat is the way back.
func (t *cellSums) flat() []float64 {
	out := append(make([]float64, 0, 2+3*len(t.cells)), t.b, t.bb)
	for _, c := range t.cells {
		out = append(out, c.s, c.ss, c.bs)
	}
	return out
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
