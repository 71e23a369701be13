package risk

import (
	"fmt"
	"math"
)

// Pair is one ordered pair of a sample.
type Pair struct {
	Observation Observation
	Belief      Belief
	Weight      float64 // inclusion weight: 1 / P(the sampler picks this pair); 1 where all are taken
	Source      int     // the node the link would come from; pairs of one source are dependent
}

// Estimate is a weighted mean of a risk over pairs, with what a reader needs to judge it.
type Estimate struct {
	Value        float64   // the risk
	Pairs        int       // n
	Weight       float64   // Σ w
	Clipped      float64   // weighted share of pairs whose propensity the floor raised
	NegativeMass float64   // share of Σ w·|N| where N < 0 (PU's removed examples)
	Warnings     []Warning // what a person should know
}

// Warning is a doubt about a result; it travels beside the result.
type Warning struct {
	Kind    WarningKind `json:"kind"`
	Message string      `json:"message"`
}

// String returns the kind and the message.
func (w Warning) String() string { return string(w.Kind) + ": " + w.Message }

// WarningKind names a doubt.
type WarningKind string

const (
	WarnNegative WarningKind = "negative-risk"  // the estimate is below 0, which no risk is
	WarnInfinite WarningKind = "infinite-risk"  // a pair's risk is infinite
	WarnClipped  WarningKind = "clipped"        // over a twentieth of the weight has its propensity clipped
	WarnWeights  WarningKind = "uneven-weights" // the effective number of pairs is below a tenth of their number
)

// Estimate returns the mean risk of the pairs, Σ w·r over |U| or Σ w; that of DR is a [Target]'s. A zero belief, a
// weight that is not positive, or a mass or loss that is NaN is an error naming the pair. Infinite risks give an
// infinite value and a warning; +Inf and −Inf together are an error.
func (e Estimator) Estimate(pairs []Pair) (Estimate, error) {
	var total, weight, squares, clipped, mass, negative Sum
	infinite, first := 0, 0
	_, err := e.walk(pairs, func(i int, b Belief, m Mass, r float64) {
		w := pairs[i].Weight
		total.Add(times(w, r))
		weight.Add(w)
		squares.Add(w * w)
		if b.clipped {
			clipped.Add(w)
		}
		mass.Add(w * math.Abs(m.Negative))
		negative.Add(w * math.Max(0, -m.Negative))
		if math.IsInf(r, 0) {
			if infinite == 0 {
				first = i
			}
			infinite++
		}
	})
	if err != nil {
		return Estimate{}, err
	}
	est := Estimate{Pairs: len(pairs), Weight: weight.Value()}
	if err := checkSquares(squares.Value()); err != nil {
		return Estimate{}, err
	}
	est.Value = total.Value() / e.divisor(est.Weight)
	if math.IsNaN(est.Value) {
		return Estimate{}, fmt.Errorf("%w: pairs have risks +Inf and −Inf, the first at pair %d; set a Floor or "+
			"use CappedLogLoss", ErrValue, first)
	}
	if math.IsInf(est.Value, 0) && infinite == 0 {
		return Estimate{}, fmt.Errorf("%w: the sum of finite risks overflows; scale the weights down or set a Floor",
			ErrValue)
	}
	est.Clipped = clipped.Value() / est.Weight
	switch {
	case math.IsInf(negative.Value(), 1):
		est.NegativeMass = 1
	case negative.Value() > 0:
		est.NegativeMass = negative.Value() / mass.Value()
	}

	warn := func(kind WarningKind, format string, args ...any) {
		est.Warnings = append(est.Warnings, Warning{kind, fmt.Sprintf(format, args...)})
	}
	if est.Value < 0 {
		warn(WarnNegative, "risk %.4g is below 0; masses went negative on propensities too low for the links "+
			"seen: report AP, or raise the floor", est.Value)
	}
	if infinite > 0 {
		warn(WarnInfinite, "%d of %d pairs have an infinite risk, the first is pair %d; set a floor or cap the loss",
			infinite, est.Pairs, first)
	}
	if est.Clipped > .05 {
		warn(WarnClipped, "the floor %v raised the propensity of %.1f%% of the pairs; the risk leans towards "+
			"the naive one there", e.Floor, 100*est.Clipped)
	}
	if effective := kish(est.Weight, squares.Value()); effective < .1*float64(est.Pairs) {
		warn(WarnWeights, "%d pairs are worth %.0f evenly weighted ones; sample the heavy strata more", est.Pairs,
			effective)
	}
	return est, nil
}

// Sample returns the risk of every pair with its weight and source, ready for intervals.
func (e Estimator) Sample(pairs []Pair) (Sample, error) {
	s := Sample{
		Values:   make([]float64, len(pairs)),
		Weights:  make([]float64, len(pairs)),
		Sources:  make([]int, len(pairs)),
		Universe: e.Universe,
	}
	var err error
	s.Unseen, err = e.walk(pairs, func(i int, _ Belief, _ Mass, r float64) {
		s.Values[i], s.Weights[i], s.Sources[i] = r, pairs[i].Weight, pairs[i].Source
	})
	if err != nil {
		return Sample{}, err
	}
	return s, nil
}

// walk checks the estimator and every pair, and visits the pairs with floored belief, mass and risk. It returns the
// variance of the mean that the risks do not show.
func (e Estimator) walk(pairs []Pair, visit func(i int, b Belief, m Mass, r float64)) (unseen float64, err error) {
	if len(pairs) == 0 {
		return 0, fmt.Errorf("%w: no pairs; give at least one", ErrEmpty)
	}
	if err := e.check(); err != nil {
		return 0, err
	}
	scheme, loss := e.scheme(), e.loss()
	_, robust := scheme.(DR) // whose risks are of all pairs together
	for i := range pairs {
		p := &pairs[i]
		if !p.Belief.made() {
			return 0, fmt.Errorf("%w: pair %d; use one of them", ErrBelief, i)
		}
		if !(p.Weight > 0) || math.IsInf(p.Weight, 1) {
			return 0, fmt.Errorf("%w: pair %d has %v; give 1/P(sampled), or 1 where every pair is taken", ErrWeight, i,
				p.Weight)
		}
		b := p.Belief.Floored(e.Floor)
		m := scheme.Mass(p.Observation, b)
		if math.IsNaN(m.Positive) || math.IsNaN(m.Negative) {
			return 0, fmt.Errorf("%w: pair %d under %T, P = %v, N = %v; give the observation what the scheme "+
				"needs, such as WithRelevance for True", ErrMass, i, scheme, m.Positive, m.Negative)
		}
		if robust {
			continue
		}
		linked, unlinked := loss.Losses(b)
		r := weigh(m, linked, unlinked, 1)
		if math.IsNaN(r) {
			return 0, fmt.Errorf("%w: pair %d under %T, δ(1) = %v, δ(0) = %v at z = %v; correct the loss", ErrLoss, i,
				loss, linked, unlinked, b.linkLogit)
		}
		visit(i, b, m, r)
	}
	if robust {
		return e.walkTarget(pairs, visit)
	}
	return 0, nil
}

func (e Estimator) divisor(weight float64) float64 {
	if e.Universe > 0 {
		return e.Universe
	}
	return weight
}

// kish returns (Σw)²/Σw², the number of pairs of equal weight with the same variance.
func kish(weight, squares float64) float64 { return weight * (weight / squares) }

// checkSquares refuses weights whose squares leave the range of float64.
func checkSquares(squares float64) error {
	if !(squares > 0) || math.IsInf(squares, 1) {
		return fmt.Errorf("%w: the squared weights sum to %v; scale the weights", ErrWeight, squares)
	}
	return nil
}
