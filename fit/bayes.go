package fit

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas64"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// learnRounds is how often at most the posterior and its prior are found in turn.
const learnRounds = 12

// mostBytes is what the products of the pairs may take; of more pairs a random part is learned from.
const mostBytes = 1 << 30

// How near to the mode is enough, as a decrement: θ is then within √near standard errors of it.
const (
	near   = .01
	nearby = 1.0
)

// learn finds the parameters and the prior's own parameters together. What is believed of w is a
// normal distribution, not a point: each pair's likelihood is averaged over its logit's variance
// (the leverage xᵀVx). At a point estimate, which is shrunk, hardly any ŷ would come near 1, and
// the propensities would be taken for larger than they are.
//
//	α ← (d − α·tr V_ww)/‖w‖²    τ² ← (Σ E[(s−μ)²] + .25)/(n+1)    (one pseudo-observation at .25)
//
// until neither moves. No validation pairs are needed.
func (l *laplace) learn(ctx context.Context, theta []float64, report func(round int, value float64),
	r *recorder) (*information, int, error) {
	s := &learning{theta: theta, d: l.d}
	if err := r.begin(s); err != nil {
		return nil, 0, err
	}
	for !s.ended {
		round := s.round + 1
		enough := near
		if round == 1 {
			enough = nearby // the next round begins with other likelihoods
		}
		if _, err := l.mode(ctx, theta, s.info, enough, func(value float64) {
			if report != nil {
				report(round, value)
			}
		}, r); err != nil {
			return nil, round, err
		}
		info, err := l.covariance(ctx, theta)
		if err != nil {
			return nil, round, err
		}
		trace, err := l.setLeverage(info)
		if err != nil {
			return nil, round, err
		}
		if round > 1 { // in the first, w was taken as certain; what that says of the prior is wrong
			moved := l.updateAlpha(theta, trace, &s.last[0])
			if !l.fixed {
				moved = math.Max(moved, l.updateTau(theta, info, s.last[1:]))
			}
			if s.calm++; moved > .05 {
				s.calm = 0
			}
		}
		s.round, s.info = round, info
		s.ended = s.calm == 2 || round == learnRounds
		r.settle(s)
		if err := r.tick(); err != nil {
			return nil, round, err
		}
	}
	return s.info, s.round, nil
}

// traceOf returns the trace of the first n columns of UᵀU.
func traceOf(u blas64.Triangular, n int) float64 {
	var sum float64
	for i := range u.N {
		for _, x := range u.Data[i*u.Stride : i*u.Stride+min(i+1, n)] {
			sum += x * x
		}
	}
	return sum
}

// learning is what the rest of learn depends on, besides the prior and the leverage.
type learning struct {
	theta []float64
	info  *information
	last  [3]float64 // the last moves of log α and log τ²
	round int        // the last that is done
	calm  int        // rounds in a row in which nothing moved by more than 5%
	ended bool
	d     int
}

func (s *learning) keep(c *checkpoint) {
	put(c, "learning.theta", s.theta)
	c.putInformation("learning.factor", s.info)
	put(c, "learning.last", s.last[:])
	c.whole["learning.round"], c.whole["learning.calm"] = s.round, s.calm
	c.putTruth("learning.ended", s.ended)
}

func (s *learning) restore(c *checkpoint) {
	copy(s.theta, numbers[float64](c, "learning.theta", len(s.theta)))
	s.info = c.information("learning.factor", len(s.theta), s.d)
	copy(s.last[:], numbers[float64](c, "learning.last", len(s.last)))
	s.round, s.ended = c.number("learning.round", 0, learnRounds), c.truth("learning.ended")
	if s.info == nil && s.round > 0 {
		c.fail("the information of round %d is missing", s.round)
	}
	s.calm = c.number("learning.calm", 0, 2)
}

// predictive returns how to scale and shift the logits so that the point model σ(scale·z + shift)
// comes closest, over the training pairs, to the posterior's own probability E[σ(z)]: a point
// estimate of w alone would be too sure of itself. It is a logistic regression on soft targets.
func (l *laplace) predictive(theta []float64) (scale, shift float64) {
	w := l.weights32(theta)
	n := l.x.Rows()
	z, target := make([]float32, n), make([]float64, n)
	kern.Chunks(n, 4096, l.threads, func(_, _, from, to int) {
		l.logits(z[from:to], w, from)
		for k := from; k < to; k++ {
			e := math.Exp(-math.Max(-300, math.Min(300, float64(z[k]))))
			target[k] = hermiteCentre / (1 + e)
			for i, factor := range l.spread[k] {
				target[k] += hermiteWeight[i] * (1/(1+e*factor) + 1/(1+e/factor))
			}
		}
	})
	scale = 1
	for range 20 {
		var g0, g1, h00, h01, h11 float64
		for k, x := range z {
			z := float64(x)
			y, u := kern.Sigmoid64(scale*z + shift)
			e, v := y-target[k], y*u
			g0 += e
			g1 += e * z
			h00 += v
			h01 += v * z
			h11 += v * z * z
		}
		det := h00*h11 - h01*h01
		if !(det > 0) {
			return 1, 0
		}
		d0, d1 := (h11*g0-h01*g1)/det, (h00*g1-h01*g0)/det
		shift, scale = shift-d0, scale-d1
		if math.Abs(d0)+math.Abs(d1) < 1e-9 {
			break
		}
	}
	return scale, shift
}

// extrapolate lengthens a move: the moves of a slow iteration shrink by a steady factor, so that
// where they end can be seen from two of them.
func extrapolate(move float64, last *float64) float64 {
	if ratio := move / *last; *last != 0 && ratio > 0 && ratio < .95 {
		*last = 0
		return move / (1 - math.Min(ratio, .8))
	}
	*last = move
	return move
}

// updateAlpha re-estimates the precision of w and returns by how much its logarithm moved.
func (l *laplace) updateAlpha(theta []float64, trace float64, last *float64) float64 {
	var norm float64
	for _, w := range theta[:l.d] {
		norm += w * w
	}
	if norm == 0 {
		return 0
	}
	alpha := math.Max((float64(l.d)-l.prior.Alpha*trace)/norm, 1e-6)
	move := extrapolate(math.Log(alpha/l.prior.Alpha), last)
	l.prior.Alpha *= math.Exp(move)
	return math.Abs(move)
}

// updateTau re-estimates the spread of the propensity logits within each group.
func (l *laplace) updateTau(theta []float64, info *information, last []float64) (moved float64) {
	v, cells := info.cellCovariance()
	s := theta[l.d+1:]
	for g := range l.prior.Tau {
		var members []int
		for c, h := range l.group {
			if int(h) == g {
				members = append(members, c)
			}
		}
		if len(members) == 0 {
			continue
		}
		n := float64(len(members))
		var sum, all float64
		row := make([]float64, len(members))
		for i, c := range members {
			sum += s[c] - l.prior.Centre[g]
			for _, e := range members {
				row[i] += v[c*cells+e]
			}
			all += row[i]
		}
		spread := l.prior.Spread[g] * l.prior.Spread[g]
		before := l.prior.Tau[g] * l.prior.Tau[g]
		tau := before
		for range 6 {
			precision := n/tau + 1/spread
			a := 1 / tau / precision
			mean := a * sum
			var total float64
			for i, c := range members {
				d := s[c] - l.prior.Centre[g] - mean
				total += d*d + v[c*cells+c] - 2*a*row[i] + a*a*all + 1/precision
			}
			tau = (total + .25) / (n + 1)
		}
		move := extrapolate(math.Log(tau/before), &last[g])
		l.prior.Tau[g] = math.Sqrt(before * math.Exp(move))
		moved = math.Max(moved, math.Abs(move)/2)
	}
	return moved
}

// fitBayes learns the posterior of a diagonal link model and a field matrix, or of the link model alone
// where the propensities are known.
func fitBayes(ctx context.Context, p sample.Problem, r *Result, progress Progress, recorder *recorder) error {
	s := r.Settings
	link, ok := r.Link.(*model.Diagonal)
	if !ok || link.Kind() != "diagonal" {
		return fmt.Errorf("%w: bayes needs the link model diagonal, not %s; use mle for others", ErrSetting,
			r.Link.Kind())
	}
	field, learned := r.Propensity.(*model.FieldMatrix)
	_, known := r.Propensity.(*model.Known)
	switch {
	case !learned && !known:
		return fmt.Errorf("%w: bayes needs the propensity model field-matrix or known, not %s; use mle for others",
			ErrSetting, r.Propensity.Kind())
	case known && len(s.Anchors) > 0:
		return fmt.Errorf("%w: an anchor, where all propensities are known; leave it out", ErrSetting)
	}
	sampling, err := s.likelihood()
	if err != nil {
		return err
	}
	if most := cmp.Or(s.mostBytes, mostBytes) / 4 / (p.Nodes.Vectors.Dim() + 1); p.Train.Len() > most {
		all := p.Train.Len()
		part := p.Training().At(sample.Thin(all, most, s.Seed))
		p.Train, p.Exposure = part.Pairs, part.Exposure
		r.Warnings = append(r.Warnings, risk.Warning{Kind: "sample",
			Message: fmt.Sprintf("bayes learned from %d of the %d pairs, drawn at random: a row of %d products is "+
				"kept for each, and more would take over %d MB",
				p.Train.Len(), all, p.Nodes.Vectors.Dim(), cmp.Or(s.mostBytes, mostBytes)>>20)})
	}
	var cell, cells []int32
	var group []uint8
	var logits []float64 // of the cells, where they are known
	if learned {
		cell, cells, group = occurring(p, field)
	} else if cell, logits, err = distinct(p, r.Propensity); err != nil {
		return err
	} else {
		cells, group = make([]int32, len(logits)), make([]uint8, len(logits))
	}
	l, err := newLaplace(kern.MatrixOf(p.Nodes.Vectors), p.Train, cell, len(cells), group, sampling, p.Exposure,
		s.Threads)
	if err != nil {
		return err
	}
	defer l.x.Close()
	l.fixed = known
	if l.seed = s.Seed; l.d > cmp.Or(s.mostExact, mostExact) {
		l.draws = cmp.Or(s.draws, usualDraws)
		r.Warnings = append(r.Warnings, risk.Warning{Kind: "approximate", Message: approximate(l.d, l.draws)})
	}
	for _, a := range s.Anchors {
		g := 0
		if a.Group == "cross" {
			g = 1
		}
		l.prior.Centre[g] = math.Log(a.Propensity / (1 - a.Propensity))
		l.prior.Spread[g] = a.Error / (a.Propensity * (1 - a.Propensity))
	}
	starts := s.Starts
	if len(starts) == 0 {
		starts = []float64{model.StartPropensity}
	}
	if known {
		starts = starts[:1] // they are starts of the propensities
	}
	b := &bayesian{laplace: l, result: r}
	if err := recorder.begin(b); err != nil {
		return err
	}
	m := newMeter(progress, 0)
	for i := len(r.Starts); i < len(starts); i++ {
		start := starts[i]
		theta := make([]float64, l.size())
		for c := range l.cells {
			theta[l.d+1+c] = math.Log(start / (1 - start))
		}
		copy(theta[l.d+1:], logits)
		phase := "finding the posterior"
		if i > 0 {
			phase = fmt.Sprintf("checking it from π̂ = %g", start)
		}
		each := func(value float64) engine.Parts { return engine.Parts{Likelihood: value / float64(p.Train.Len())} }
		if i == 0 {
			shown := 0
			info, rounds, err := l.learn(ctx, theta, func(round int, value float64) {
				m.add(p.Train.Len(), round != shown, func() Step {
					return Step{Phase: phase, Epoch: round, Epochs: learnRounds, Loss: each(value)}
				})
				shown = round
			}, recorder)
			if err != nil {
				return err
			}
			r.Iterations = rounds
			b.theta, b.info = theta, info
		} else {
			// under the prior that the first start learned, from far away
			report := func(value float64) {
				m.add(p.Train.Len(), false, func() Step {
					return Step{Phase: phase, Epoch: 1, Epochs: 1,
						Loss: each(value)}
				})
			}
			if _, err := l.mode(ctx, theta, b.info, near, report, recorder); err != nil {
				return err
			}
		}
		linkParams, propensityParams := l.published(theta), make([]float32, r.Propensity.Size())
		r.Propensity.StartAt(propensityParams, model.StartPropensity, nil)
		if learned {
			for c, at := range cells {
				propensityParams[at] = float32(theta[l.d+1+c])
			}
		}
		summary := describe(p, link, linkParams, r.Propensity, propensityParams)
		summary.Propensity = start
		value, err := l.value(ctx, theta, make([]float64, l.size()))
		if err != nil {
			return err
		}
		summary.Objective = value / float64(p.Train.Len())
		r.Starts = append(r.Starts, summary)
		if i == 0 {
			r.LinkParams, r.PropensityParams = linkParams, propensityParams
		}
		recorder.settle(b)
	}
	r.Objective = engine.Parts{Likelihood: r.Starts[0].Objective}
	r.Ridge = float64(l.d) / l.prior.Alpha
	if known {
		return nil // the posterior is of what is learned of both halves
	}
	r.Posterior, err = newPosterior(ctx, l, p, cells, s, b.theta, b.info, func(refit, of int) {
		m.add(p.Train.Len(), true, func() Step {
			return Step{Phase: "measuring its own errors", Epoch: refit,
				Epochs: of}
		})
	}, recorder)
	return err
}

// bayesian is a fit by bayes between its starts.
type bayesian struct {
	laplace *laplace
	result  *Result
	theta   []float64    // where the first start ended; nil before
	info    *information // there
}

func (b *bayesian) keep(c *checkpoint) {
	b.result.keep(c)
	l := b.laplace
	put(c, "bayes.prior", []float64{l.prior.Alpha, l.prior.Tau[0], l.prior.Tau[1]})
	put(c, "bayes.leverage", l.leverage)
	put(c, "bayes.theta", b.theta)
	c.putInformation("bayes.factor", b.info)
}

func (b *bayesian) restore(c *checkpoint) {
	b.result.restore(c)
	l := b.laplace
	prior := numbers[float64](c, "bayes.prior", 3)
	l.prior.Alpha, l.prior.Tau = prior[0], [2]float64{prior[1], prior[2]}
	if leverage := numbers[float32](c, "bayes.leverage", -1); len(leverage) > 0 {
		l.setSpread(numbers[float32](c, "bayes.leverage", l.x.Rows()))
	}
	if len(b.result.Starts) > 0 {
		b.theta = numbers[float64](c, "bayes.theta", l.size())
	}
	if b.info = c.information("bayes.factor", l.size(), l.d); b.info == nil && b.theta != nil {
		c.fail("the information at the mode is missing")
	}
}

// occurring numbers the field pairs that the training pairs have, and groups them into those of
// one field and those of two. The unknown field is never one field.
func occurring(p sample.Problem, field *model.FieldMatrix) (cell, cells []int32, group []uint8) {
	number := make(map[int32]int32)
	cell = make([]int32, p.Train.Len())
	for k := range cell {
		at := int32(field.Cell(p.Train.Source[k], p.Train.Target[k]))
		c, ok := number[at]
		if !ok {
			c = int32(len(cells))
			number[at] = c
			cells = append(cells, at)
			g := uint8(1)
			if f := p.Nodes.Fields[p.Train.Source[k]]; f != graph.UnknownField &&
				f == p.Nodes.Fields[p.Train.Target[k]] {
				g = 0
			}
			group = append(group, g)
		}
		cell[k] = c
	}
	return cell, cells, group
}

// distinct numbers the known propensities that the training pairs have and returns their logits.
func distinct(p sample.Problem, known model.PropensityModel) (cell []int32, logits []float64, err error) {
	const most = 4096 // the information matrix has a row for each
	number := make(map[float32]int32)
	cell = make([]int32, p.Train.Len())
	s := make([]float32, p.Train.Len())
	known.Logits(s, nil, model.Batch{Sources: p.Train.Source, Targets: p.Train.Target})
	for k, logit := range s {
		c, ok := number[logit]
		if !ok {
			if len(logits) == most {
				return nil, nil, fmt.Errorf("%w: bayes takes at most %d different known propensities; round "+
					"them, or use mle", ErrSetting, most)
			}
			c = int32(len(logits))
			number[logit] = c
			logits = append(logits, float64(logit))
		}
		cell[k] = c
	}
	return cell, logits, nil
}
