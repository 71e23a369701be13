package fit

import (
	"context"
	"errors"
	"math"
	"slices"

	"unseen/encode"
	"unseen/engine"
	"unseen/graph"
	"unseen/model"
)

// alternating is the optimiser of factors that moves one side at a time. L-BFGS follows where that leaves parameters
// where they are, or went astray, or the engine cannot do it.
const alternating = "alternating"

// mostRounds is how many rounds there are at most; ten are usual. Where rounds leave parameters where they are, there
// are few: given slopes of 0, the best exposure of all may be 1, where nothing is hidden and no slope leads back.
const (
	mostRounds = 60
	fewRounds  = 3
)

// refreshRounds is how many rounds a refresh has at most, of which one that hardly changes anything is the last.
const refreshRounds = 6

// Each round starts a little beyond where the last ended, in the direction in which that moved: momentum grows by this
// much a round up to its limit, and begins anew where the objective rises. Without it twice as many rounds are needed.
const (
	momentumStep  = .15
	momentumLimit = .9
)

// turn lets factors begin where the links point, as far as these have directions: from random ones it takes rounds to
// find those, and not always the best.
func (t *training) turn(o *engine.Objective, params []float32) error {
	link, ok := o.Link.(*model.Factors)
	if !ok {
		return nil
	}
	source, target, _ := link.Sides(params)
	return turned(t.ctx, link, params, linksOf(o.Pairs, source, target), t.using)
}

// turned sets factors to where links point, by the rank of the model and a seed.
func turned(ctx context.Context, link *model.Factors, params []float32, links encode.Incidence, s Settings) error {
	source, target, _ := link.Sides(params)
	directions, err := links.Factor(ctx, encode.Settings{Dim: link.Rank(), PowerIterations: 2, Seed: s.Seed,
		Threads: s.Threads})
	if errors.Is(err, encode.ErrTexts) { // there are no links, or they have no direction
		return nil
	}
	if err != nil {
		return err
	}
	for _, side := range []struct{ to, from []float32 }{{source.Factors, directions.Rows},
		{target.Factors, directions.Columns}} {
		for row := 0; row*directions.Dim < len(side.from); row++ {
			copy(side.to[row*link.Rank():], side.from[row*directions.Dim:][:directions.Dim])
		}
	}
	return nil
}

// linksOf returns the links among pairs by source, with its places and those of targets in factors.
func linksOf(p *graph.Pairs, source, target model.FactorSide) encode.Incidence {
	rows := len(source.Effects)
	m := encode.Incidence{Starts: make([]int, rows+1), Width: len(target.Effects)}
	for k, linked := range p.Linked {
		if linked {
			m.Starts[source.Row(p.Source[k])+1]++
		}
	}
	for i := range rows {
		m.Starts[i+1] += m.Starts[i]
	}
	m.Columns = make([]int32, m.Starts[rows])
	next := slices.Clone(m.Starts)
	for k, linked := range p.Linked {
		if linked {
			i := source.Row(p.Source[k])
			m.Columns[next[i]] = target.Row(p.Target[k])
			next[i]++
		}
	}
	return m
}

// rounds trains factors side by side.
type rounds struct {
	engine    engine.Engine
	objective *engine.Objective
	params    []float32     // where it starts, and where it ends
	settings  LBFGSSettings // it stops when two rounds in a row lower the objective by less than the tolerance's share
	report    func(round int, p engine.Parts)
	recorder  *recorder
	calm      int // so many rounds in a row that hardly lower the objective are the end

	// The state of training that a checkpoint keeps.
	round    int
	last     float64   // the objective where the last round began
	before   []float32 // where the last round began, but for its momentum
	momentum float64
	still    int
	done     bool
	parts    engine.Parts // where the last round began
}

// train moves the parameters, and reports whether they have reached the minimum, or where they were to stop.
func (r *rounds) train(ctx context.Context) (reached bool, err error) {
	a, err := r.engine.Alternate(r.objective)
	if errors.Is(err, engine.ErrUnsupported) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r.last, r.before = math.Inf(1), slices.Clone(r.params)
	if err := r.recorder.begin(r); err != nil {
		return false, err
	}
	most := mostRounds
	if !a.Complete() {
		most = fewRounds
	}
	for r.round < min(most, r.settings.Iterations) && !r.done {
		if err := r.recorder.tick(); err != nil {
			return false, err
		}
		if r.parts, err = r.next(ctx, a); err != nil {
			return false, err
		}
		r.report(r.round, r.parts)
	}
	return r.round == r.settings.Iterations || a.Complete() && r.still >= r.calm, nil
}

// next goes one round. The state changes at its end only: one that is interrupted is done again.
func (r *rounds) next(ctx context.Context, a engine.Alternation) (engine.Parts, error) {
	start := slices.Clone(r.params)
	for i, x := range r.params {
		r.params[i] += float32(r.momentum) * (x - r.before[i])
	}
	parts, err := a.Round(ctx, r.params)
	if err != nil {
		copy(r.params, start)
		return parts, err
	}
	r.round++
	copy(r.before, start)
	if total := parts.Total(); total <= r.last {
		if r.last-total < r.settings.Tolerance*math.Abs(total) {
			r.still++
		} else {
			r.still = 0
		}
		r.last, r.done = total, r.still >= r.calm
		r.momentum = min(r.momentum+momentumStep, momentumLimit)
		return parts, nil
	}
	copy(r.params, start)
	r.done = r.momentum == 0 // a round that had none went astray
	r.momentum = 0
	return parts, nil
}

func (r *rounds) keep(c *checkpoint) {
	put(c, "rounds.params", r.params)
	put(c, "rounds.before", r.before)
	put(c, "rounds.last", []float64{r.last, r.momentum})
	c.putNumber("rounds.round", r.round)
	c.putNumber("rounds.still", r.still)
	c.putTruth("rounds.done", r.done)
	put(c, "rounds.parts", []float64{r.parts.Likelihood, r.parts.Risk, r.parts.Prior})
}

func (r *rounds) restore(c *checkpoint) {
	copy(r.params, numbers[float32](c, "rounds.params", len(r.params)))
	copy(r.before, numbers[float32](c, "rounds.before", len(r.params)))
	scalars := numbers[float64](c, "rounds.last", 2)
	r.last, r.momentum = scalars[0], scalars[1]
	r.round, r.still = c.number("rounds.round", mostRounds), c.number("rounds.still", 2)
	r.done = c.truth("rounds.done")
	parts := numbers[float64](c, "rounds.parts", 3)
	r.parts = engine.Parts{Likelihood: parts[0], Risk: parts[1], Prior: parts[2]}
}
