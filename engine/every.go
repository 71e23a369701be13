package engine

import (
	"context"
	"errors"
	"fmt"

	"unseen/internal/kern"
)

// MostPairsLearned is over how many pairs the processor takes the gradient of an objective over all pairs of a
// universe: it looks at each of them, at every step of training.
const MostPairsLearned = 1_000_000_000

// LikelihoodSummer sums the likelihood over all pairs of a rectangle as if none of them were linked.
type LikelihoodSummer interface {
	// SumLikelihood returns Σ −log(1 − π̂ŷ) over the pairs of a rectangle and how many these are. Unless grad
	// is nil it sets grad to its gradient in the parameters of both models of an objective.
	SumLikelihood(ctx context.Context, o *Objective, params []float32, r Rectangle, grad []float64) (sum float64,
		pairs int64, err error)
}

// Learnable returns an error for more pairs than MostPairsLearned where a processor would look at them.
func Learnable(e Engine, pairs int64) error {
	if _, processor := e.(CPU); processor && pairs > MostPairsLearned {
		return fmt.Errorf("%w: %d pairs are too many for the processor to learn from all of them; %d are the most, so "+
			"learn from a sample or use a graphics card", ErrUnsupported, pairs, int64(MostPairsLearned))
	}
	return nil
}

// overEvery is Gradient of an objective over all pairs of a universe.
func (c CPU) overEvery(ctx context.Context, o *Objective, params []float32, grad []float64) (Parts, error) {
	pairs, err := o.everyPair(params, grad)
	if err != nil {
		return Parts{}, err
	}
	if err := Learnable(c, pairs); err != nil {
		return Parts{}, err
	}
	r := rectangleOf(o.Graph, o.Universe, 0)
	total, err := c.overSources(ctx, o, params, grad, func(e *everyPairs, i int32) {
		linked := e.links(o, i)
		for _, j := range r.Targets {
			if r.has(i, j) && !(o.Universe.Except != nil && o.Universe.Except.HasLink(i, j)) {
				e.take(i, j, linked[j], 1)
			}
		}
		e.forget(o, i)
	})
	if err != nil {
		return Parts{}, err
	}
	return o.Join(total, pairs, params, grad), nil
}

// GradientBy is Gradient of an objective over all pairs of a universe where another sums the likelihood of pairs,
// however many they are. Meanwhile the processor finds what puts links right.
func (c CPU) GradientBy(ctx context.Context, by LikelihoodSummer, o *Objective, params []float32,
	grad []float64) (Parts, error) {
	counted, err := o.everyPair(params, grad)
	if err != nil {
		return Parts{}, err
	}
	if o.Risk != NoRisk {
		return Parts{}, fmt.Errorf("%w: the likelihood alone is summed over all pairs elsewhere than on the "+
			"processor, and the objective has a risk; learn by the likelihood (mle), or use the processor",
			ErrUnsupported)
	}
	r := rectangleOf(o.Graph, o.Universe, 0)
	var unlinked []float64
	if grad != nil {
		unlinked = make([]float64, o.Size())
	}
	var sum float64
	var summed int64
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		var err error
		if sum, summed, err = by.SumLikelihood(ctx, o, params, r, unlinked); err != nil {
			stop()
		}
		done <- err
	}()
	total, err := c.overLinks(ctx, o, params, grad)
	if err != nil {
		stop()
	}
	switch elsewhere := <-done; {
	case elsewhere != nil && (err == nil || !errors.Is(elsewhere, context.Canceled)):
		return Parts{}, elsewhere
	case err != nil:
		return Parts{}, err
	case o.Universe.Except == nil && summed != counted:
		return Parts{}, fmt.Errorf("%w: %d pairs were summed, and there are %d", ErrShape, summed, counted)
	}
	total.Likelihood += o.LambdaL * sum
	for k, x := range unlinked {
		grad[k] += o.LambdaL * x
	}
	return o.Join(total, counted, params, grad), nil
}

// overLinks sums what linked pairs of a universe add beyond what they would add if they were not linked; pairs that the
// universe leaves out add the opposite of that.
func (c CPU) overLinks(ctx context.Context, o *Objective, params []float32, grad []float64) (Parts, error) {
	r := rectangleOf(o.Graph, o.Universe, 0)
	isTarget := make([]bool, o.Graph.Len())
	for _, j := range r.Targets {
		isTarget[j] = true
	}
	except := o.Universe.Except
	return c.overSources(ctx, o, params, grad, func(e *everyPairs, i int32) {
		for _, j := range o.Graph.Out(i) {
			if isTarget[j] && r.has(i, j) && !(except != nil && except.HasLink(i, j)) {
				e.take(i, j, true, 1)
				e.take(i, j, false, -1)
			}
		}
		if except == nil {
			return
		}
		for _, j := range except.Out(i) {
			if isTarget[j] && r.has(i, j) {
				e.take(i, j, false, -1)
			}
		}
	})
}

// everyPair checks an objective over all pairs of a universe, and returns how many these are.
func (o *Objective) everyPair(params []float32, grad []float64) (int64, error) {
	switch {
	case len(params) < o.Size() || grad != nil && len(grad) < o.Size():
		return 0, fmt.Errorf("%w: %d parameters for models with %d", ErrShape, len(params), o.Size())
	case o.ShownOnly || o.Exposure != nil || o.Risk == RiskDR:
		return 0, fmt.Errorf("%w: exposure that is logged, over all pairs; learn from a sample", ErrUnsupported)
	}
	pairs, _, err := o.Universe.Count(o.Graph)
	return pairs, err
}

// everyPairs adds up pairs as they come.
type everyPairs struct {
	objective *Objective
	params    []float32
	space     [2]*workspace // of pairs that are added, and of those that are taken away
	count     [2]int
	stretches int
	few       int       // stretches
	sum       []float32 // of a few of them
	portion   *portion
	isLinked  []bool // by target, of one source
}

// links marks the targets that a source is linked to.
func (e *everyPairs) links(o *Objective, i int32) []bool {
	for _, j := range o.Graph.Out(i) {
		e.isLinked[j] = true
	}
	return e.isLinked
}

func (e *everyPairs) forget(o *Objective, i int32) {
	for _, j := range o.Graph.Out(i) {
		e.isLinked[j] = false
	}
}

// take adds a pair, or takes it away.
func (e *everyPairs) take(i, j int32, linked bool, sign float32) {
	side := 0
	if sign < 0 {
		side = 1
	}
	w, at := e.space[side], e.count[side]
	w.sources[at], w.targets[at], w.linked[at], w.weight[at], w.rate[at] = i, j, linked, 1, 1
	if e.count[side]++; e.count[side] == stretch {
		e.flush(side)
	}
}

// flush adds the pairs of a side that have come.
func (e *everyPairs) flush(side int) {
	sign := float32(1 - 2*side)
	parts := e.objective.add(e.space[side], e.count[side], e.params, e.sum, sign, true)
	e.portion.parts.Likelihood += parts.Likelihood
	e.portion.parts.Risk += parts.Risk
	e.count[side] = 0
	if e.stretches++; e.stretches%e.few == 0 {
		e.fold()
	}
}

func (e *everyPairs) fold() {
	for i, g := range e.sum {
		e.portion.grad[i] += float64(g)
	}
	clear(e.sum)
}

// overSources adds up what a visit takes of every source of an objective's universe: the likelihood and the risk,
// without the prior and not divided by anything. The sums do not depend on the number of threads.
func (c CPU) overSources(ctx context.Context, o *Objective, params []float32, grad []float64,
	visit func(e *everyPairs, i int32)) (Parts, error) {
	sources := rectangleOf(o.Graph, o.Universe, 0).Sources
	threads := kern.Threads(c.Threads)
	chunks, few := chunking(len(sources)*len(sources), o.Size())
	size := max((len(sources)+chunks-1)/chunks, 1)
	partial := make([]portion, (len(sources)+size-1)/size)
	workers := make([]*everyPairs, threads)
	err := kern.ChunksErr(ctx, len(sources), size, threads, func(worker, chunk, from, to int) error {
		e := workers[worker]
		if e == nil {
			e = &everyPairs{objective: o, params: params, few: few, isLinked: make([]bool, o.Graph.Len()),
				space: [2]*workspace{newWorkspace(), newWorkspace()}}
			workers[worker] = e
		}
		e.portion, e.stretches, e.sum = &partial[chunk], 0, nil
		if grad != nil {
			e.portion.grad, e.sum = make([]float64, o.Size()), make([]float32, o.Size())
		}
		for _, i := range sources[from:to] {
			if err := ctx.Err(); err != nil {
				return err
			}
			visit(e, i)
		}
		for side := range e.space {
			if e.count[side] > 0 {
				e.flush(side)
			}
		}
		e.fold()
		return nil
	})
	return joinPortions(partial, grad), err
}
