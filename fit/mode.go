package fit

import (
	"context"
	"fmt"
	"math"
	"slices"

	"unseen/engine"
)

// laplace is the posterior of the diagonal link model and the field matrix given a sample of
// pairs, as Laplace's method sees it: a mode, and a normal distribution around it.
//
// The parameters are θ = (w, b, s, t): d weights, the intercept, one propensity logit for every
// field pair that occurs, and the terms of other assumptions, if there are any. The sums over pairs are the engine's;
// see engine.LogLikelihood.
type laplace struct {
	design   engine.Design
	outcomes engine.Outcomes
	assumed  *engine.Assumptions // nil means the model's own
	d, cells int
	prior    prior
	method   covarianceMethod
	fixed    bool // the propensities are known: s stays where it is
	// the pairs are elsewhere: their engine finds the leverage, by what V is drawn as
	elsewhere bool

	seen engine.LogLikelihood // of the outcomes; nil until it is needed
	own  bool                 // this one closes it
	last *passed              // over the outcomes; nil before the first
}

// passed is what the last pass over the pairs found. A search that goes on there, under another prior, needs no other.
type passed struct {
	theta, grad []float64
	loss        float64
}

// size is the number of parameters.
func (l *laplace) size() int { return l.d + 1 + l.cells + len(l.prior.Terms) }

// observe makes these the outcomes from now on.
func (l *laplace) observe(o engine.Outcomes) error {
	err := l.close()
	l.outcomes = o
	return err
}

// likelihood returns the likelihood of the outcomes.
func (l *laplace) likelihood(ctx context.Context) (engine.LogLikelihood, error) {
	if l.seen != nil {
		return l.seen, nil
	}
	var seen engine.LogLikelihood
	var err error
	if l.assumed == nil {
		seen, err = l.design.Observe(ctx, l.outcomes)
	} else {
		seen, err = l.design.Assume(ctx, l.outcomes, *l.assumed)
	}
	if err != nil {
		return nil, err
	}
	l.seen, l.own = seen, true
	return seen, nil
}

// close frees the likelihood.
func (l *laplace) close() error {
	seen, own := l.seen, l.own
	l.seen, l.own, l.last = nil, false, nil
	if !own {
		return nil
	}
	return seen.Close()
}

// setLeverage averages every pair's likelihood from now on over the variance of its logit under V.
func (l *laplace) setLeverage(ctx context.Context, v covariance) error {
	o := l.outcomes
	if l.elsewhere {
		root := v.(*partCovariance).drawn()
		o.Root = &root
		return l.observe(o)
	}
	var err error
	if o.Leverage, err = v.leverage(ctx, l.design); err != nil {
		return err
	}
	return l.observe(o)
}

// value returns −log posterior (up to a constant) and its gradient.
func (l *laplace) value(ctx context.Context, theta, grad []float64) (float64, error) {
	if l.last == nil || !slices.Equal(l.last.theta, theta) {
		likelihood, err := l.likelihood(ctx)
		if err != nil {
			return 0, err
		}
		loss, err := likelihood.Value(ctx, theta, grad)
		if err != nil {
			return 0, err
		}
		l.last = &passed{slices.Clone(theta), slices.Clone(grad), loss}
	}
	copy(grad, l.last.grad)
	total := l.last.loss + l.prior.add(theta, grad)
	if l.fixed {
		clear(grad[l.d+1:])
	}
	return total, nil
}

// weights returns w and b for the vectors as they are.
func (l *laplace) weights(theta []float64) []float32 {
	w := make([]float32, l.d+1)
	for i := range w {
		w[i] = float32(theta[i])
	}
	for i := range l.d {
		w[i] = float32(theta[i] / l.design.Unit())
	}
	return w
}

// published returns the link model's parameters: w and b, brought by a calibration to the posterior's own
// probabilities. A point estimate of w alone would be too sure of itself.
func (l *laplace) published(theta []float64, scale, shift float64) []float32 {
	params := l.weights(theta)
	for i := range params {
		params[i] *= float32(scale)
	}
	params[l.d] += float32(shift)
	return params
}

func (l *laplace) calibrate(ctx context.Context, theta []float64) (scale, shift float64, err error) {
	likelihood, err := l.likelihood(ctx)
	if err != nil {
		return 0, 0, err
	}
	return likelihood.Calibrate(ctx, theta)
}

// modeSearch says how modes are found.
type modeSearch struct {
	iterations int // at most
	renew      int // iterations after which V is found again; 0 for never
}

// ascent is the state of a search for the mode.
type ascent struct {
	laplace   *laplace
	theta     []float64
	v         covariance // that preconditions; nil to find it
	begun     bool       // the rest has values
	value     float64
	grad      []float64
	memory    []curvature
	iteration int
	ended     bool
}

// climb says how to search for a mode: how near to it is enough, what reports the value of every iteration, and what
// writes checkpoints; either may be nil.
type climb struct {
	enough   float64
	report   func(value float64)
	recorder *recorder
}

// mode moves θ to the posterior's mode. V, found once, is where a limited-memory quasi-Newton method starts from:
// Fisher's information is an expectation and the likelihood's own curvature differs from it, so that
// scoring alone would creep. It stops where the decrement, twice what is still to be gained in units
// of log-likelihood, is enough.
func (l *laplace) mode(ctx context.Context, theta []float64, v covariance, c climb) error {
	a := &ascent{laplace: l, theta: theta, v: v, grad: make([]float64, l.size())}
	if err := c.recorder.begin(a); err != nil {
		return err
	}
	if !a.begun {
		value, err := l.value(ctx, theta, a.grad)
		if err != nil {
			return err
		}
		a.value, a.begun = value, true
	}
	for a.iteration < l.method.search().iterations && !a.ended {
		if c.report != nil {
			c.report(a.value)
		}
		if err := c.recorder.tick(); err != nil {
			return err
		}
		if err := a.iterate(ctx, c.enough); err != nil {
			return err
		}
	}
	return nil
}

// certain is an intercept above which every ŷ is 1, and rises for ever.
const certain = 100

// iterate takes one step. The state changes at its end only: one that is interrupted is done again.
func (a *ascent) iterate(ctx context.Context, enough float64) error {
	const spare = .5 // the decrement below which a search that finds no better place has ended
	if a.theta[a.laplace.d] > certain {
		a.iteration, a.ended = a.iteration+1, true
		return nil
	}
	l, renew := a.laplace, a.laplace.method.search().renew
	iteration, v, memory := a.iteration+1, a.v, a.memory
	fresh := v == nil || renew > 0 && iteration%renew == 0
	if fresh {
		var err error
		if v, err = l.method.near(ctx, l, a.theta); err != nil {
			return err
		}
		memory = nil
	}
	direction := make([]float64, len(a.theta))
	descend(direction, a.grad, memory, v.solve)
	decrement := -dot(direction, a.grad)
	if decrement < 0 {
		memory = nil
		descend(direction, a.grad, nil, v.solve)
		decrement = -dot(direction, a.grad)
	}
	if decrement < enough {
		a.iteration, a.ended = iteration, true
		return nil
	}
	// at most 4 in the intercept and the propensity logits
	largest := 0.0
	for _, x := range direction[l.d:] {
		largest = math.Max(largest, math.Abs(x))
	}
	if largest > 4 && !fresh && renew > 0 {
		// What is remembered of the curvature does not hold here (where V is never found again it is needed): a step
		// along it, cut short, still lowers the value, and can end in another valley.
		a.iteration, a.v, a.memory = iteration, nil, nil
		return nil
	}
	moved, memory, err := a.step(ctx, direction, decrement, math.Min(1, 4/largest), memory)
	switch {
	case err != nil:
		return err
	case !moved && !fresh:
		memory, v = nil, nil
	case !moved && decrement < spare:
		a.ended = true // as near as the kernels' float32 can resolve
	case !moved:
		return fmt.Errorf("%w: no step raises the posterior (round %d, decrement %.3g at %.6g)",
			ErrDiverged, iteration, decrement, a.value)
	}
	a.iteration, a.v, a.memory = iteration, v, memory
	return nil
}

// step moves θ along the direction, as far as the value falls, and remembers the curvature along it.
func (a *ascent) step(ctx context.Context, direction []float64, decrement, step float64,
	memory []curvature) (bool, []curvature, error) {
	const depth = 20
	next, nextGrad := make([]float64, len(a.theta)), make([]float64, len(a.theta))
	for range 30 {
		for i := range next {
			next[i] = a.theta[i] + step*direction[i]
		}
		value, err := a.laplace.value(ctx, next, nextGrad)
		if err != nil {
			return false, nil, err
		}
		if value <= a.value-1e-4*step*decrement+1e-9*math.Abs(a.value) {
			memory = remember(memory, depth, a.theta, next, a.grad, nextGrad)
			copy(a.theta, next)
			copy(a.grad, nextGrad)
			a.value = value
			return true, memory, nil
		}
		step /= 2
	}
	return false, memory, nil
}

func (a *ascent) keep(c *checkpoint) {
	put(c, "ascent.theta", a.theta)
	c.putCovariance("ascent.factor", a.v)
	c.putTruth("ascent.begun", a.begun)
	if !a.begun {
		return
	}
	put(c, "ascent.value", []float64{a.value})
	put(c, "ascent.grad", a.grad)
	c.putCurvatures("ascent.memory", a.memory)
	c.putNumber("ascent.iteration", a.iteration)
	c.putTruth("ascent.ended", a.ended)
}

func (a *ascent) restore(c *checkpoint) {
	n := len(a.theta)
	copy(a.theta, numbers[float64](c, "ascent.theta", n))
	a.v = c.covariance("ascent.factor", a.laplace)
	if a.begun = c.truth("ascent.begun"); !a.begun {
		return
	}
	a.value = numbers[float64](c, "ascent.value", 1)[0]
	copy(a.grad, numbers[float64](c, "ascent.grad", n))
	a.memory = c.curvatures("ascent.memory", n)
	a.iteration, a.ended = c.number("ascent.iteration", math.MaxInt32), c.truth("ascent.ended")
}
