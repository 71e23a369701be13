package fit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"unseen/engine"
)

// LBFGSSettings say how to train on all pairs at once, also side by side. A zero means the default.
type LBFGSSettings struct {
	Iterations int // at most; 200
	// Memory is how many steps the curvature is remembered from; 12, and 50 to learn from all pairs, where every step
	// is dear.
	Memory int
	// Tolerance: stop when three steps in a row lower the objective by less than this share; 1e-6. To learn from all
	// pairs it is 1e-8, and to stop it is enough that by the gradient and the curvature no more is left to gain.
	Tolerance float64
}

func (s LBFGSSettings) withDefaults() LBFGSSettings {
	s.Iterations = cmp.Or(s.Iterations, 200)
	s.Memory = cmp.Or(s.Memory, 12)
	s.Tolerance = cmp.Or(s.Tolerance, 1e-6)
	return s
}

func (s LBFGSSettings) validate() error {
	if s.Iterations < 0 || s.Memory < 0 || !(s.Tolerance >= 0) {
		return fmt.Errorf("%w: L-BFGS with %d iterations, memory %d, tolerance %v; none may be negative", ErrSetting,
			s.Iterations, s.Memory, s.Tolerance)
	}
	return nil
}

// curvature is one remembered step: how far the parameters moved and the gradient with them.
type curvature struct {
	moved, turned []float64
	inverse       float64 // 1/⟨moved, turned⟩
}

// lbfgs minimises an objective by the limited-memory method of Broyden, Fletcher, Goldfarb and Shanno. The objective
// comes from float32 kernels, so the line search allows for their rounding: that is why it is our own, and
// why all its state is a few vectors.
type lbfgs struct {
	engine    engine.Engine
	objective *engine.Objective
	params    []float32 // where it starts, and where it ends
	settings  LBFGSSettings
	report    func(iteration int, p engine.Parts)
	recorder  *recorder
	noise     float64 // share of the objective that it may be off by; 0 means 1e-7
	tries     int     // step lengths, each half the one before; 0 means 30
	// initial applies what is known of the inverse Hessian beforehand; nil where nothing is. The search then ends where
	// it says that no more than the tolerance is left.
	initial func(v []float64)

	// The state of training that a checkpoint keeps.
	x         []float64 // the parameters in units of their scale
	begun     bool      // the rest has values
	grad      []float64
	parts     engine.Parts
	memory    []curvature
	iteration int
	still     int // steps in a row that hardly lowered the objective
	ended     bool
	stuck     bool // at the last step it found nothing below
	// how often the objective was evaluated; the length of the gradient, and twice what is left to gain by initial,
	// where the search began and where it is
	evaluations  int
	began, steep [2]float64
}

// train moves the parameters to the minimum; parts and iteration then say where that is and how many steps it took.
func (d *lbfgs) train(ctx context.Context) error {
	n, s := d.objective.Size(), d.settings
	d.x = make([]float64, n)
	if d.grad == nil {
		d.grad = make([]float64, n)
	}
	for i := range d.x {
		d.x[i] = float64(d.params[i]) / sizeOf(d.objective, i)
	}
	if err := d.recorder.begin(d); err != nil {
		return err
	}
	if !d.begun {
		parts, err := d.evaluate(ctx, d.x, d.grad)
		if err != nil {
			return err
		}
		d.parts, d.begun = parts, true
	}
	if d.iteration == 0 {
		d.incline()
		d.began = d.steep
	}
	for d.iteration < s.Iterations && d.still < 3 && !d.ended {
		if err := d.recorder.tick(); err != nil {
			return err
		}
		d.report(d.iteration+1, d.parts)
		if err := d.iterate(ctx); err != nil {
			return err
		}
	}
	d.place(d.x)
	if total := d.parts.Total(); math.IsNaN(total) || math.IsInf(total, 0) {
		return fmt.Errorf("%w after %d iterations: the objective is %v; keep the guards on (preset safe)", ErrDiverged,
			d.iteration, total)
	}
	return nil
}

// incline finds out how steep it is.
func (d *lbfgs) incline() {
	d.steep = [2]float64{math.Sqrt(dot(d.grad, d.grad)), 0}
	if d.initial != nil {
		d.steep[1] = product(d.initial, d.grad)
		d.ended = d.steep[1]/2 <= d.settings.Tolerance*math.Abs(d.parts.Total())
	}
}

// product returns ⟨v, Hv⟩, of a symmetric H.
func product(times func([]float64), v []float64) float64 {
	image := slices.Clone(v)
	times(image)
	return dot(v, image)
}

// scaled returns initial times the number by which it fits the last step, within bounds.
func (d *lbfgs) scaled(memory []curvature) func(v []float64) {
	if d.initial == nil || len(memory) == 0 {
		return d.initial
	}
	last := memory[len(memory)-1]
	scale := max(.05, min(20, 1/(last.inverse*product(d.initial, last.turned))))
	return func(v []float64) {
		d.initial(v)
		for i := range v {
			v[i] *= scale
		}
	}
}

// iterate takes one step. The state changes at its end only: one that is interrupted is done again.
func (d *lbfgs) iterate(ctx context.Context) error {
	direction, memory := make([]float64, len(d.x)), d.memory
	descend(direction, d.grad, memory, d.scaled(memory))
	slope := dot(direction, d.grad)
	if slope >= 0 { // the memory is of no use here
		memory = nil
		descend(direction, d.grad, nil, d.initial)
		slope = dot(direction, d.grad)
	}
	next, nextGrad := make([]float64, len(d.x)), make([]float64, len(d.x))
	found := false
	var reached engine.Parts
	if -slope >= 1e-14 {
		step := 1.0
		if memory == nil && d.initial == nil {
			step = math.Min(1, 1/math.Sqrt(-slope))
		}
		rounding := cmp.Or(d.noise, 1e-7) * math.Abs(d.parts.Total())
		tries := cmp.Or(d.tries, 30)
		// the objective says nothing of such a step, but the gradient does
		blind := d.initial != nil && -slope <= rounding
		if blind {
			tries = 1
		}
		for range tries {
			for i := range next {
				next[i] = d.x[i] + step*direction[i]
			}
			var err error
			if reached, err = d.evaluate(ctx, next, nextGrad); err != nil {
				return err
			}
			if blind {
				found = product(d.initial, nextGrad) < d.steep[1]
			} else {
				found = reached.Total() <= d.parts.Total()+1e-4*step*slope+rounding
			}
			if found {
				break
			}
			step /= 2
		}
	}
	d.iteration++
	if !found {
		d.ended, d.stuck = true, true // nothing below within rounding
		return nil
	}
	d.memory = remember(memory, d.settings.Memory, d.x, next, d.grad, nextGrad)
	if d.parts.Total()-reached.Total() < d.settings.Tolerance*math.Abs(d.parts.Total()) {
		d.still++
	} else {
		d.still = 0
	}
	copy(d.x, next)
	copy(d.grad, nextGrad)
	d.parts = reached
	d.incline()
	return nil
}

func (d *lbfgs) evaluate(ctx context.Context, at, gradient []float64) (engine.Parts, error) {
	d.place(at)
	d.evaluations++
	parts, err := d.engine.Gradient(ctx, d.objective, d.params, gradient)
	for i := range gradient {
		gradient[i] *= sizeOf(d.objective, i)
	}
	return parts, err
}

func (d *lbfgs) place(at []float64) {
	for i, v := range at {
		d.params[i] = float32(v * sizeOf(d.objective, i))
	}
}

func (d *lbfgs) keep(c *checkpoint) {
	c.putTruth("lbfgs.begun", d.begun)
	put(c, "lbfgs.x", d.x)
	if !d.begun {
		return
	}
	put(c, "lbfgs.grad", d.grad)
	put(c, "lbfgs.parts", []float64{d.parts.Likelihood, d.parts.Risk, d.parts.Prior})
	c.putCurvatures("lbfgs.memory", d.memory)
	c.putNumber("lbfgs.iteration", d.iteration)
	c.putNumber("lbfgs.still", d.still)
	c.putTruth("lbfgs.ended", d.ended)
	c.putTruth("lbfgs.stuck", d.stuck)
	c.putNumber("lbfgs.evaluations", d.evaluations)
	put(c, "lbfgs.steep", slices.Concat(d.began[:], d.steep[:]))
}

func (d *lbfgs) restore(c *checkpoint) {
	d.begun = c.truth("lbfgs.begun")
	copy(d.x, numbers[float64](c, "lbfgs.x", len(d.x)))
	if !d.begun {
		return
	}
	copy(d.grad, numbers[float64](c, "lbfgs.grad", len(d.x)))
	parts := numbers[float64](c, "lbfgs.parts", 3)
	d.parts = engine.Parts{Likelihood: parts[0], Risk: parts[1], Prior: parts[2]}
	d.memory = c.curvatures("lbfgs.memory", len(d.x))
	d.iteration, d.still = c.number("lbfgs.iteration", math.MaxInt32), c.number("lbfgs.still", 3)
	d.ended, d.stuck = c.truth("lbfgs.ended"), c.truth("lbfgs.stuck")
	d.evaluations = c.number("lbfgs.evaluations", math.MaxInt32)
	steep := numbers[float64](c, "lbfgs.steep", 4)
	d.began, d.steep = [2]float64(steep[:2]), [2]float64(steep[2:])
}

// remember adds a step to the memory, unless the curvature along it is not positive.
func remember(memory []curvature, most int, x, next, grad, nextGrad []float64) []curvature {
	c := curvature{moved: make([]float64, len(x)), turned: make([]float64, len(x))}
	for i := range x {
		c.moved[i], c.turned[i] = next[i]-x[i], nextGrad[i]-grad[i]
	}
	product := dot(c.moved, c.turned)
	if product <= 1e-10*dot(c.turned, c.turned) {
		return memory
	}
	c.inverse = 1 / product
	if memory = append(memory, c); len(memory) > most {
		memory = memory[1:]
	}
	return memory
}

// descend sets direction to minus the inverse Hessian, as the memory sees it, times the gradient.
// initial applies what is known of the inverse Hessian beforehand; nil means a multiple of the
// identity that fits the last step.
func descend(direction, grad []float64, memory []curvature, initial func(v []float64)) {
	for i, g := range grad {
		direction[i] = -g
	}
	along := make([]float64, len(memory))
	for k := len(memory) - 1; k >= 0; k-- {
		c := memory[k]
		along[k] = c.inverse * dot(c.moved, direction)
		for i, t := range c.turned {
			direction[i] -= along[k] * t
		}
	}
	switch {
	case initial != nil:
		initial(direction)
	case len(memory) > 0:
		c := memory[len(memory)-1]
		scale := 1 / (c.inverse * dot(c.turned, c.turned))
		for i := range direction {
			direction[i] *= scale
		}
	}
	for k, c := range memory {
		back := along[k] - c.inverse*dot(c.turned, direction)
		for i, m := range c.moved {
			direction[i] += back * m
		}
	}
}
