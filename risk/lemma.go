package risk

import (
	"fmt"
	"math"
)

// Truth is the true probabilities of one pair, known in simulated and planted worlds.
type Truth struct {
	Propensity float64 // π
	Link       float64 // y
}

// Moments are an estimator's exact bias and variance over the draws of o′ ~ Ber(y) and a ~ Ber(π), for
// given beliefs.
type Moments struct {
	Bias     float64 // E[R̂] − R, signed
	Variance float64
}

// AbsoluteBias returns |E[R̂] − R|, the bias as the paper states it.
func (m Moments) AbsoluteBias() float64 { return math.Abs(m.Bias) }

// Lemma is a scheme whose bias and variance under the 0–1 loss are known in closed form. With Δ = 1,
// one pair adds BiasTerm to R − E[R̂] and yπ(1−yπ)·VarianceFactor to the variance, both before division
// by |U| and |U|².
type Lemma interface {
	BiasTerm(t Truth, b Belief) float64
	VarianceFactor(b Belief) float64
}

var (
	_ Lemma = Naive{}
	_ Lemma = W{}
	_ Lemma = PU{}
	_ Lemma = AP{}
)

// BiasTerm returns y(1−π)(1−2ô).
func (Naive) BiasTerm(t Truth, b Belief) float64 { return signed(t.Link*(1-t.Propensity), b) }

// VarianceFactor returns 1.
func (Naive) VarianceFactor(Belief) float64 { return 1 }

// BiasTerm returns (1−ô)·y(1−π/π̂) + ô·(1−y−(1−yπ)ψ).
func (W) BiasTerm(t Truth, b Belief) float64 {
	if b.Predicted() {
		return AP{}.BiasTerm(t, b)
	}
	return PU{}.BiasTerm(t, b)
}

// VarianceFactor returns (1−ô)/π̂² + ô·ψ².
func (W) VarianceFactor(b Belief) float64 {
	if b.Predicted() {
		return AP{}.VarianceFactor(b)
	}
	return PU{}.VarianceFactor(b)
}

// BiasTerm returns y(1−π/π̂)(1−2ô).
func (PU) BiasTerm(t Truth, b Belief) float64 {
	return signed(times(t.Link, 1-times(t.Propensity, b.InversePropensity())), b)
}

// VarianceFactor returns 1/π̂².
func (PU) VarianceFactor(b Belief) float64 { return b.InversePropensity() * b.InversePropensity() }

// BiasTerm returns ((1−π)y − (1−πy)τ)(1−2ô). The paper prints the ô = 1 half as 1−y−(1−yπ)ψ, which is
// the same since ψ = 1 − τ.
func (AP) BiasTerm(t Truth, b Belief) float64 {
	return signed((1-t.Propensity)*t.Link-(1-t.Propensity*t.Link)*b.Hidden(), b)
}

// VarianceFactor returns ψ².
func (AP) VarianceFactor(b Belief) float64 { return b.Irrelevant() * b.Irrelevant() }

// signed returns x·(1−2ô).
func signed(x float64, b Belief) float64 {
	if b.Predicted() {
		return -x
	}
	return x
}

// ClosedForm returns the bias and variance that the paper's lemmas give under the 0–1 loss of cost Δ
// over the pairs of a whole universe:
//
//	bias = −(Δ/|U|)·Σ BiasTerm,   variance = (Δ²/|U|²)·Σ yπ(1−yπ)·VarianceFactor.
//
// A propensity π̂ of 0 makes either infinite.
//
// Under this loss Var(AP) < Var(naive) and Var(AP) ≤ Var(W) ≤ Var(PU) for every π̂ and ŷ in (0, 1), with equality
// on the left where every ô = 1 and on the right where every ô = 0. Under others, W's variance may exceed
// PU's: under the log-loss it does where every ŷ < ½.
func ClosedForm(l Lemma, cost float64, truths []Truth, beliefs []Belief) (Moments, error) {
	if l == nil {
		return Moments{}, fmt.Errorf("%w: nil lemma; give Naive, W, PU or AP", ErrMass)
	}
	if !(cost > 0) || math.IsInf(cost, 1) {
		return Moments{}, fmt.Errorf("%w: cost Δ = %v; give a positive one, such as 1", ErrSetting, cost)
	}
	var bias, variance Sum
	err := walkTruths(truths, beliefs, func(t Truth, b Belief) {
		bias.Add(-l.BiasTerm(t, b))
		seen := t.Link * t.Propensity
		variance.Add(times(seen*(1-seen), l.VarianceFactor(b)))
	})
	if err != nil {
		return Moments{}, err
	}
	n := float64(len(truths))
	return moments(cost*bias.Value()/n, (cost/n)*(cost/n)*variance.Value())
}

// Moments returns the bias and variance of any scheme under any loss over the pairs of a whole
// universe, by enumerating the outcomes of each pair: not shown, shown and not linked, shown
// and linked. Exposure counts as logged, for the schemes that use it.
func (e Estimator) Moments(truths []Truth, beliefs []Belief) (Moments, error) {
	if err := e.check(); err != nil {
		return Moments{}, err
	}
	var bias, variance Sum
	err := walkTruths(truths, beliefs, func(t Truth, b Belief) {
		chance := [3]float64{1 - t.Propensity, t.Propensity * (1 - t.Link), t.Propensity * t.Link}
		seen := [3]Observation{{Exposure: Unexposed}, {Exposure: Exposed}, {Linked: true, Exposure: Exposed}}
		var risks [3]float64
		var mean float64
		for k := range chance {
			risks[k] = e.Risk(seen[k].WithRelevance(t.Link), b)
			mean += times(chance[k], risks[k])
		}
		for k := range chance {
			if chance[k] > 0 && risks[k] != mean {
				variance.Add(chance[k] * (risks[k] - mean) * (risks[k] - mean))
			}
		}
		linked, unlinked := e.loss().Losses(b)
		bias.Add(mean)
		bias.Add(-times(t.Link, linked))
		bias.Add(-times(1-t.Link, unlinked))
	})
	if err != nil {
		return Moments{}, err
	}
	n := float64(len(truths))
	return moments(bias.Value()/n, variance.Value()/n/n)
}

func moments(bias, variance float64) (Moments, error) {
	if math.IsNaN(bias) || math.IsNaN(variance) {
		return Moments{}, fmt.Errorf("%w: bias %v, variance %v; infinite risks of both signs meet or a mass is "+
			"NaN, so set a Floor, use CappedLogLoss or correct the scheme", ErrValue, bias, variance)
	}
	return Moments{bias, variance}, nil
}

func walkTruths(truths []Truth, beliefs []Belief, visit func(Truth, Belief)) error {
	if err := checkLengths("truths", len(truths), "beliefs", len(beliefs)); err != nil {
		return err
	}
	for i, t := range truths {
		if !isProbability(t.Propensity) || !isProbability(t.Link) {
			return fmt.Errorf("%w: pair %d has π = %v, y = %v; give probabilities", ErrProbability, i, t.Propensity,
				t.Link)
		}
		if !beliefs[i].made() {
			return fmt.Errorf("%w: pair %d; use one of them", ErrBelief, i)
		}
		visit(t, beliefs[i])
	}
	return nil
}
