package fit

import (
	"context"
	"fmt"
	"math"

	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
)

// learnRounds is how often at most the posterior and its prior are found in turn.
const learnRounds = 12

// learn finds the parameters and the prior's own parameters together. What is believed of w is a
// normal distribution, not a point: each pair's likelihood is averaged over its logit's variance
// (the leverage xᵀVx). At a point estimate, which is shrunk, hardly any ŷ would come near 1, and
// the propensities would be taken for larger than they are.
//
//	α ← (d − α·tr V_ww)/‖w‖²    τ² ← (Σ E[(s−μ)²] + .25)/(n+1)    (one pseudo-observation at .25)
//
// until neither moves. No validation pairs are needed.
func (l *laplace) learn(ctx context.Context, theta []float64, report func(round int)) (*information, int, error) {
	var info *information
	var last [3]float64 // the last moves of log α and log τ²
	for round := 1; ; round++ {
		if report != nil {
			report(round)
		}
		if _, err := l.mode(ctx, theta, info); err != nil {
			return nil, round, err
		}
		var err error
		if info, err = l.fisher(ctx, theta); err != nil {
			return nil, round, err
		}
		u := info.weightFactor()
		if err := l.setLeverage(u); err != nil {
			return nil, round, err
		}
		var trace float64
		for i := range u.N {
			for _, x := range u.Data[i*u.N : i*u.N+min(i+1, l.d)] {
				trace += x * x
			}
		}
		moved := l.updateAlpha(theta, trace, &last[0])
		if !l.fixed {
			moved = math.Max(moved, l.updateTau(theta, info, last[1:]))
		}
		if round > 2 && moved < .02 || round == learnRounds {
			return info, round, nil
		}
	}
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
			sd := math.Sqrt(float64(l.leverage[k]))
			for i, at := range hermiteAt {
				y, _ := sigmoidBoth(float64(z[k]) + sd*at)
				target[k] += hermiteWeight[i] * y
			}
		}
	})
	scale = 1
	for range 20 {
		var g0, g1, h00, h01, h11 float64
		for k, x := range z {
			z := float64(x)
			y, u := sigmoidBoth(scale*z + shift)
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

// Posterior is what bayes believes of the parameters: a normal distribution around them.
type Posterior struct {
	Alpha float64    // precision of w, in units in which products of vectors have squared length d
	Tau   [2]float64 // standard deviation of the propensity logits among pairs of one field, and of two
	Cells []int32    // the field pairs that occur: source field × number of fields + target field

	unit float64
	info *information
}

// fitBayes learns the posterior of a diagonal link model and a field matrix.
func fitBayes(ctx context.Context, p Problem, r *Result, progress Progress) error {
	s := r.Settings
	link, ok := r.Link.(*model.Diagonal)
	if !ok || link.Kind() != "diagonal" {
		return fmt.Errorf("%w: bayes needs the link model diagonal, not %s; use mle for others", ErrSetting, r.Link.Kind())
	}
	field, ok := r.Propensity.(*model.FieldMatrix)
	if !ok {
		return fmt.Errorf("%w: bayes needs the propensity model field-matrix, not %s; use mle for others", ErrSetting, r.Propensity.Kind())
	}
	const largest = 4096
	if d := p.Nodes.Vectors.Dim(); d > largest {
		return fmt.Errorf("%w: bayes inverts a matrix over the %d dimensions of the vectors, and %d is the most; reduce them, or use mle", ErrSetting, d, largest)
	}
	sampling, err := ParseSampling(s.Sampling)
	if err != nil {
		return err
	}
	cell, cells, group := occurring(p, field)
	l, err := newLaplace(p.Nodes.Vectors.Matrix(), p.Train, cell, len(cells), group, sampling, p.Exposure, s.Threads)
	if err != nil {
		return err
	}
	defer l.x.Close()
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
		starts = []float64{.3}
	}
	m := newMeter(progress, 0)
	for i, start := range starts {
		theta := make([]float64, l.size())
		for c := range l.cells {
			theta[l.d+1+c] = math.Log(start / (1 - start))
		}
		phase := "finding the posterior"
		if i > 0 {
			phase = fmt.Sprintf("checking it from π̂ = %g", start)
		}
		if i == 0 {
			info, rounds, err := l.learn(ctx, theta, func(round int) {
				m.add(p.Train.Len(), true, func() Step { return Step{Phase: phase, Epoch: round, Epochs: learnRounds} })
			})
			if err != nil {
				return err
			}
			r.Iterations = rounds
			r.Posterior = &Posterior{Alpha: l.prior.Alpha, Tau: l.prior.Tau, Cells: cells, unit: l.unit, info: info}
		} else {
			// under the prior that the first start learned, from far away
			m.add(p.Train.Len(), true, func() Step { return Step{Phase: phase, Epoch: 1, Epochs: 1} })
			if _, err := l.mode(ctx, theta, r.Posterior.info); err != nil {
				return err
			}
		}
		linkParams, propensityParams := l.weights(theta), make([]float32, field.Size())
		scale, shift := l.predictive(theta)
		for i := range linkParams {
			linkParams[i] *= float32(scale)
		}
		linkParams[l.d] += float32(shift)
		field.Start(propensityParams, nil)
		for c, at := range cells {
			propensityParams[at] = float32(theta[l.d+1+c])
		}
		summary := describe(p, link, linkParams, field, propensityParams)
		summary.Propensity = start
		if summary.Objective, err = l.value(ctx, theta, make([]float64, l.size())); err != nil {
			return err
		}
		r.Starts = append(r.Starts, summary)
		if i == 0 {
			r.LinkParams, r.PropensityParams = linkParams, propensityParams
		}
	}
	r.Objective = Parts{Likelihood: r.Starts[0].Objective / float64(p.Train.Len())}
	r.Ridge = float64(l.d) / l.prior.Alpha
	return nil
}

// occurring numbers the field pairs that the training pairs have, and groups them into those of
// one field and those of two. The unknown field is never one field.
func occurring(p Problem, field *model.FieldMatrix) (cell, cells []int32, group []uint8) {
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
			if f := p.Nodes.Fields[p.Train.Source[k]]; f != graph.UnknownField && f == p.Nodes.Fields[p.Train.Target[k]] {
				g = 0
			}
			group = append(group, g)
		}
		cell[k] = c
	}
	return cell, cells, group
}
