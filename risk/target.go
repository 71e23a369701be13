package risk

import (
	"fmt"
	"math"
)

// Target is an estimate of the doubly robust risk R_DR of pairs whose exposure a is logged. ŷ is
// first moved, "targeted", to
//
//	logit ŷ* = z + ε₀ + ε₁·d,   d = δ(1) − δ(0),
//
// with the ε at which the residuals of what was shown vanish,
//
//	Σ w·a/π̂·(o − ŷ*)·(1, d) = 0,
//
// and the risk is the mean of ŷ*·δ(1) + (1−ŷ*)·δ(0). The usual estimate adds the mean of a/π̂·(o − ŷ)·d to the mean of
// ŷ·δ(1) + (1−ŷ)·δ(0), and one link that was shown at a π̂ of .001 takes it out of all bounds; with ŷ* nothing is left
// to add, and the risk stays within the losses' range whatever π̂ is. If π̂ is right, the equation holds for
// Σ w·(y − ŷ*)·d too, so that ŷ* has the true risk; if ŷ is right, ε goes to 0. See van der Laan and Rubin (2006), and
// arXiv 2203.10258 for recommenders.
//
// Let v* = ŷ*(1−ŷ*) and x = (1, d). In an interval each pair has the value
//
//	ŷ*·δ(1) + (1−ŷ*)·δ(0) + cᵀx·a/π̂·(o − ŷ*),   c = (Σ w·a/π̂·v*·x·xᵀ)⁻¹ · Σ w·v*·d·x,
//
// which is how it moves the mean, by way of ε too. Where π̂ is right cᵀx is about d; where Σ a/π̂ is far from the
// number of pairs, c makes up for it. Derivatives of these values with ε and c held fixed add up to those of the
// mean, since its derivative in ε is then 0.
type Target struct {
	Mean      float64 // the risk: Σ w·r*/Σ w
	Low, High float64 // the least and the largest that any risk of these losses can be

	pairs  []TargetPair
	tilt   Tilt
	weight float64
	gain   [2]float64 // c, for the scaled d
	offset float64    // the mean of the last term, 0 but for the prior of ε
}

// TargetPair is what a [Target] needs of a pair.
type TargetPair struct {
	Logit            float64 // z of ŷ
	Inverse          float64 // a/π̂: 0 where the target was not shown
	Outcome          bool    // o
	Clipped          bool    // a floor raised π̂, which is flat there
	Linked, Unlinked float64 // δ(1), δ(0)
	Weight           float64 // w
}

// NewTarget moves ŷ to the outcomes of the pairs that were shown.
func NewTarget(pairs []TargetPair) (*Target, error) {
	tilt, err := NewTilt(pairs)
	if err != nil {
		return nil, err
	}
	t := &Target{pairs: pairs, tilt: tilt}
	var weight, mean, low, high, rest Sum
	var slopes [2]Sum
	for i := range pairs {
		p := &pairs[i]
		link, notLink := tilt.link(p)
		weight.Add(p.Weight)
		mean.Add(p.Weight * (link*p.Linked + notLink*p.Unlinked))
		low.Add(p.Weight * math.Min(p.Linked, p.Unlinked))
		high.Add(p.Weight * math.Max(p.Linked, p.Unlinked))
		slope := p.Weight * link * notLink * (p.Linked - p.Unlinked)
		slopes[0].Add(slope)
		slopes[1].Add(slope * tilt.scaled(p))
	}
	t.weight = weight.Value()
	t.Mean, t.Low, t.High = mean.Value()/t.weight, low.Value()/t.weight, high.Value()/t.weight
	t.gain = tilt.information.solve([2]float64{slopes[0].Value(), slopes[1].Value()})
	for i := range pairs {
		counts, residual, _ := t.residual(&pairs[i])
		rest.Add(pairs[i].Weight * counts * residual)
	}
	t.offset = rest.Value() / t.weight
	return t, nil
}

// Values returns every pair's value, of which the weighted mean is the risk, less its value by another target of the
// same pairs, unless that is nil. Unseen is by how much the variance of that mean is larger than the values show: the
// outcome of a pair varies by ŷ*(1−ŷ*), and where a few shown pairs weigh most, the link that would show this has often
// not come.
func (t *Target) Values(less *Target) (values []float64, unseen float64) {
	values = make([]float64, len(t.pairs))
	var excess Sum
	for i := range t.pairs {
		p := &t.pairs[i]
		counts, residual, spread := t.residual(p)
		rest := counts * residual
		values[i] = t.tilt.Risk(p) + rest - t.offset
		if less != nil {
			other := &less.pairs[i]
			otherCounts, otherResidual, otherSpread := less.residual(other)
			values[i] -= less.tilt.Risk(other) + otherCounts*otherResidual - less.offset
			rest -= otherCounts * otherResidual
			counts, spread = counts-otherCounts, (spread+otherSpread)/2
		}
		excess.Add(p.Weight * p.Weight * (counts*counts*spread - rest*rest))
	}
	return values, math.Max(0, excess.Value()/t.weight/t.weight)
}

// Slopes returns the derivatives of pair i's value in z and in s, the losses held fixed.
func (t *Target) Slopes(i int) (link, propensity float64) {
	p := &t.pairs[i]
	counts, residual, _ := t.residual(p)
	y, notLink := t.tilt.link(p)
	if p.Inverse > 0 && !p.Clipped {
		propensity = counts * residual * (1/p.Inverse - 1) // ∂(1/π̂)/∂s = (π̂ − 1)/π̂
	}
	return y * notLink * (p.Linked - p.Unlinked - counts), propensity
}

// residual returns by how much the outcome of a shown pair counts in its value, cᵀx·a/π̂, how far it is from what ŷ*
// expects, o − ŷ*, and its variance by ŷ*.
func (t *Target) residual(p *TargetPair) (counts, residual, spread float64) {
	if p.Inverse == 0 {
		return 0, 0, 0
	}
	link, notLink := t.tilt.link(p)
	residual = -link
	if p.Outcome {
		residual = notLink
	}
	return (t.gain[0] + t.gain[1]*t.tilt.scaled(p)) * p.Inverse, residual, link * notLink
}

// Tilt is the ε of a [Target].
type Tilt struct {
	epsilon     [2]float64
	scale       float64 // of d: its root mean square over what was shown
	information matrix2
}

// NewTilt finds ε from the pairs that were shown; others are not looked at. It is the mode of a weighted logistic
// regression with a normal prior of standard deviation 10 on ε₀ and the scaled ε₁, which says next to nothing and keeps
// ε finite where only links were shown, or none. Weights count as so many shown pairs as they are worth, (Σw)²/Σw².
func NewTilt(pairs []TargetPair) (Tilt, error) {
	var shown []*TargetPair
	var weight, squares, gaps Sum
	for i := range pairs {
		p := &pairs[i]
		d := p.Linked - p.Unlinked
		switch {
		case !isFinite(d) || !isFinite(p.Logit):
			return Tilt{}, fmt.Errorf("%w: pair %d has the losses %v and %v at z = %v, and R_DR needs finite ones; "+
				"use CappedLogLoss", ErrLoss, i, p.Linked, p.Unlinked, p.Logit)
		case !isFinite(p.Inverse):
			return Tilt{}, fmt.Errorf("%w: pair %d was shown, and has a π̂ of 0; set a Floor", ErrValue, i)
		case p.Inverse == 0:
			continue
		}
		w := p.Weight * p.Inverse
		shown = append(shown, p)
		weight.Add(w)
		squares.Add(w * w)
		gaps.Add(w * d * d)
	}
	t := Tilt{scale: 1}
	if len(shown) == 0 {
		t.information = matrix2{1, 0, 1}
		return t, nil
	}
	if rms := math.Sqrt(gaps.Value() / weight.Value()); rms > 0 {
		t.scale = rms
	}
	const precision = .01
	ridge := precision * squares.Value() / weight.Value()
	value := t.climb(shown, ridge)
	for range 100 {
		gradient := t.slope(shown, ridge)
		step := t.information.solve(gradient)
		promised := step[0]*gradient[0] + step[1]*gradient[1]
		if !(promised > 1e-14*weight.Value()) {
			break
		}
		from, before := t.epsilon, value
		for length := 1.; length > 1e-9; length /= 2 {
			t.epsilon = [2]float64{from[0] + length*step[0], from[1] + length*step[1]}
			if value = t.climb(shown, ridge); value >= before {
				break
			}
		}
		if !(value > before) {
			t.epsilon = from
			break
		}
	}
	t.slope(shown, ridge)
	return t, nil
}

// Risk returns ŷ*·δ(1) + (1−ŷ*)·δ(0).
func (t *Tilt) Risk(p *TargetPair) float64 {
	link, notLink := t.link(p)
	return link*p.Linked + notLink*p.Unlinked
}

// link returns ŷ* and 1 − ŷ*.
func (t *Tilt) link(p *TargetPair) (link, notLink float64) { return sigmoids(t.logit(p)) }

func (t *Tilt) logit(p *TargetPair) float64 { return p.Logit + t.epsilon[0] + t.epsilon[1]*t.scaled(p) }

// scaled returns d in units of its size among the shown.
func (t *Tilt) scaled(p *TargetPair) float64 { return (p.Linked - p.Unlinked) / t.scale }

// climb returns the logarithm of the posterior density at ε.
func (t *Tilt) climb(shown []*TargetPair, ridge float64) float64 {
	var sum Sum
	for _, p := range shown {
		z := t.logit(p)
		if p.Outcome {
			z = -z
		}
		sum.Add(-p.Weight * p.Inverse * softplus(z))
	}
	return sum.Value() - ridge*(t.epsilon[0]*t.epsilon[0]+t.epsilon[1]*t.epsilon[1])/2
}

// slope returns its gradient, and keeps its information.
func (t *Tilt) slope(shown []*TargetPair, ridge float64) [2]float64 {
	var gradient [2]Sum
	var information [3]Sum
	for _, p := range shown {
		link, notLink := t.link(p)
		x, w := t.scaled(p), p.Weight*p.Inverse
		residual := -w * link
		if p.Outcome {
			residual = w * notLink
		}
		gradient[0].Add(residual)
		gradient[1].Add(residual * x)
		spread := w * link * notLink
		information[0].Add(spread)
		information[1].Add(spread * x)
		information[2].Add(spread * x * x)
	}
	t.information = matrix2{information[0].Value() + ridge, information[1].Value(), information[2].Value() + ridge}
	return [2]float64{gradient[0].Value() - ridge*t.epsilon[0], gradient[1].Value() - ridge*t.epsilon[1]}
}

// matrix2 is a symmetric matrix of two rows, by its upper triangle.
type matrix2 [3]float64

func (m matrix2) solve(b [2]float64) [2]float64 {
	det := m[0]*m[2] - m[1]*m[1]
	return [2]float64{(m[2]*b[0] - m[1]*b[1]) / det, (m[0]*b[1] - m[1]*b[0]) / det}
}

// walkTarget visits pairs that have been checked with the masses and risks of a Target.
func (e Estimator) walkTarget(pairs []Pair, visit func(i int, b Belief, m Mass, r float64)) (unseen float64,
	err error) {
	all := make([]TargetPair, len(pairs))
	for i := range pairs {
		p := &pairs[i]
		b := p.Belief.Floored(e.Floor)
		linked, unlinked := e.loss().Losses(b)
		all[i] = TargetPair{Logit: b.linkLogit, Outcome: p.Observation.Linked, Clipped: b.clipped, Linked: linked,
			Unlinked: unlinked, Weight: p.Weight}
		if p.Observation.Exposure == Exposed {
			all[i].Inverse = b.InversePropensity()
		}
	}
	t, err := NewTarget(all)
	if err != nil {
		return 0, err
	}
	values, unseen := t.Values(nil)
	for i, value := range values {
		link, notLink := t.tilt.link(&all[i])
		visit(i, pairs[i].Belief.Floored(e.Floor), Mass{link, notLink}, value)
	}
	return unseen, nil
}
