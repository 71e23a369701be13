package fit

import (
	"context"
	"fmt"
	"math"

	"unseen/engine"
)

// LBFGSSettings are those of training on all pairs at once. A zero means the default.
type LBFGSSettings struct {
	Iterations int     // at most; 200
	Memory     int     // steps that the curvature is remembered from; 12
	Tolerance  float64 // stop when three steps in a row lower the objective by less than this share; 1e-6
}

func (s LBFGSSettings) withDefaults() LBFGSSettings {
	if s.Iterations == 0 {
		s.Iterations = 200
	}
	if s.Memory == 0 {
		s.Memory = 12
	}
	if s.Tolerance == 0 {
		s.Tolerance = 1e-6
	}
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

// descent is everything that the rest of a training by L-BFGS depends on.
type descent struct {
	x         []float64 // the parameters in units of their scale
	begun     bool      // the rest has values
	grad      []float64
	parts     engine.Parts
	memory    []curvature
	iteration int
	still     int // steps in a row that hardly lowered the objective
	ended     bool
}

// trainLBFGS minimises the objective from params by the limited-memory method of Broyden,
// Fletcher, Goldfarb and Shanno, and returns the parts at the end. The objective comes from
// float32 kernels, so the line search allows for their rounding: that is why it is our own, and
// why all its state is a few vectors.
func trainLBFGS(ctx context.Context, e engine.Engine, o *engine.Objective, params []float32, s LBFGSSettings,
	report func(iteration int, p engine.Parts), r *recorder) (engine.Parts, int, error) {
	n := o.Size()
	state := &descent{x: make([]float64, n), grad: make([]float64, n)}
	next, nextGrad, direction := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range state.x {
		state.x[i] = float64(params[i]) / sizeOf(o, i)
	}
	if err := r.begin(state); err != nil {
		return engine.Parts{}, 0, err
	}
	place := func(at []float64) {
		for i, v := range at {
			params[i] = float32(v * sizeOf(o, i))
		}
	}
	evaluate := func(at, gradient []float64) (engine.Parts, error) {
		place(at)
		parts, err := e.Gradient(ctx, o, params, gradient)
		for i := range gradient {
			gradient[i] *= sizeOf(o, i)
		}
		return parts, err
	}
	if !state.begun {
		parts, err := evaluate(state.x, state.grad)
		if err != nil {
			return parts, 0, err
		}
		state.parts, state.begun = parts, true
	}
	for state.iteration < s.Iterations && state.still < 3 && !state.ended {
		if err := r.tick(); err != nil {
			return state.parts, state.iteration, err
		}
		// The state changes at the end of an iteration only: one that is interrupted is done again.
		x, grad, parts, memory := state.x, state.grad, state.parts, state.memory
		if report != nil {
			report(state.iteration+1, parts)
		}
		descend(direction, grad, memory, nil)
		slope := dot(direction, grad)
		if slope >= 0 { // the memory is of no use here
			memory = nil
			descend(direction, grad, nil, nil)
			slope = dot(direction, grad)
		}
		found := false
		var reached engine.Parts
		if -slope >= 1e-14 {
			step := 1.0
			if memory == nil {
				step = math.Min(1, 1/math.Sqrt(-slope))
			}
			rounding := 1e-7 * math.Abs(parts.Total())
			for range 30 {
				for i := range next {
					next[i] = x[i] + step*direction[i]
				}
				var err error
				if reached, err = evaluate(next, nextGrad); err != nil {
					return parts, state.iteration, err
				}
				if reached.Total() <= parts.Total()+1e-4*step*slope+rounding {
					found = true
					break
				}
				step /= 2
			}
		}
		state.iteration++
		if !found {
			state.ended = true // nothing below within rounding
			break
		}
		state.memory = remember(memory, s.Memory, x, next, grad, nextGrad)
		if parts.Total()-reached.Total() < s.Tolerance*math.Abs(parts.Total()) {
			state.still++
		} else {
			state.still = 0
		}
		copy(x, next)
		copy(grad, nextGrad)
		state.parts = reached
	}
	place(state.x)
	if total := state.parts.Total(); math.IsNaN(total) || math.IsInf(total, 0) {
		return state.parts, state.iteration,
			fmt.Errorf("%w after %d iterations: the objective is %v; keep the guards on (preset safe)", ErrDiverged,
				state.iteration, total)
	}
	return state.parts, state.iteration, nil
}

func (d *descent) keep(c *checkpoint) {
	c.putTruth("lbfgs.begun", d.begun)
	put(c, "lbfgs.x", d.x)
	if !d.begun {
		return
	}
	put(c, "lbfgs.grad", d.grad)
	put(c, "lbfgs.parts", []float64{d.parts.Likelihood, d.parts.Risk, d.parts.Prior})
	c.putCurvatures("lbfgs.memory", d.memory)
	c.whole["lbfgs.iteration"], c.whole["lbfgs.still"] = d.iteration, d.still
	c.putTruth("lbfgs.ended", d.ended)
}

func (d *descent) restore(c *checkpoint) {
	d.begun = c.truth("lbfgs.begun")
	copy(d.x, numbers[float64](c, "lbfgs.x", len(d.x)))
	if !d.begun {
		return
	}
	copy(d.grad, numbers[float64](c, "lbfgs.grad", len(d.x)))
	parts := numbers[float64](c, "lbfgs.parts", 3)
	d.parts = engine.Parts{Likelihood: parts[0], Risk: parts[1], Prior: parts[2]}
	d.memory = c.curvatures("lbfgs.memory", len(d.x))
	d.iteration, d.still = c.number("lbfgs.iteration", 0, math.MaxInt32), c.number("lbfgs.still", 0, 3)
	d.ended = c.truth("lbfgs.ended")
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
