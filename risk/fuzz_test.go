package risk

import (
	"context"
	"encoding/binary"
	"math"
	"testing"
)

// bitSeeds are float64 patterns at which arithmetic goes wrong.
var bitSeeds = []float64{0, math.Copysign(0, -1), 5e-324, 1e-308, .5, 1, -1, 37, -700, 700, 745, 1e308, math.Inf(1),
	math.Inf(-1), math.NaN()}

// FuzzPair: for any two bit patterns, read as logits and as probabilities, either the constructor
// refuses or masses, losses, risks, gradients and the likelihood are all numbers.
func FuzzPair(f *testing.F) {
	for _, a := range bitSeeds {
		for _, b := range bitSeeds {
			f.Add(math.Float64bits(a), math.Float64bits(b), math.Float64bits(.05), true)
		}
	}
	f.Fuzz(func(t *testing.T, first, second, third uint64, linked bool) {
		x, y, floor := math.Float64frombits(first), math.Float64frombits(second), math.Float64frombits(third)
		fromLogits, err := FromLogits(x, y)
		if (err != nil) != (math.IsNaN(x) || math.IsNaN(y)) {
			t.Fatalf("FromLogits(%v, %v): %v", x, y, err)
		}
		fromProbabilities, err := FromProbabilities(x, y)
		if (err != nil) == (isProbability(x) && isProbability(y)) {
			t.Fatalf("FromProbabilities(%v, %v): %v", x, y, err)
		}
		for _, made := range []Belief{fromLogits, fromProbabilities} {
			if !made.made() {
				continue
			}
			for _, b := range []Belief{made, made.Floored(floor)} {
				pairMustBeNumbers(t, b, linked)
			}
		}
		// Nonsense must not panic either.
		LowerBiasW(x, y)
		LowerBiasAP(Truth{x, y}, fromLogits)
		HighestLink(Truth{x, y}, floor)
		Estimator{Floor: floor}.Gradient(Observation{}, Belief{})
		if m, err := (Bound{x, y, floor, x}).Empirical(y, x, floor); err == nil && math.IsNaN(m) {
			t.Fatalf("bound is NaN")
		}
	})
}

func pairMustBeNumbers(t *testing.T, b Belief, linked bool) {
	t.Helper()
	calm := math.Abs(b.LinkLogit()) <= 700 && math.Abs(b.PropensityLogit()) <= 700
	check := func(what string, values ...float64) {
		for _, v := range values {
			if math.IsNaN(v) || calm && math.IsInf(v, 0) {
				t.Fatalf("%s: %v at %+v, linked %v", what, values, b, linked)
			}
		}
	}
	value, g := NLL(linked, b)
	check("likelihood", value, g.Link, g.Propensity)
	for name, scheme := range builtins {
		m, slope := scheme.Mass(observation(linked), b), scheme.Slope(observation(linked), b)
		check(name+" masses", m.Positive, m.Negative)
		check(name+" slopes", slope.Link.Positive, slope.Link.Negative, slope.Propensity.Positive,
			slope.Propensity.Negative)
		for _, loss := range []Loss{LogLoss{}, CappedLogLoss{Cap: 5}, ZeroOne{}} {
			e := Estimator{Scheme: scheme, Loss: loss}
			value, g := e.Gradient(observation(linked), b)
			check(name+" gradient", value, g.Link, g.Propensity)
			value, g = Estimator{Scheme: MassFunc(scheme.Mass), Loss: loss}.HeldGradient(observation(linked), b)
			check(name+" held gradient", value, g.Link, g.Propensity)
		}
	}
}

// words cuts bytes into float64 patterns.
func words(data []byte) []float64 {
	var all []float64
	for ; len(data) >= 8; data = data[8:] {
		all = append(all, math.Float64frombits(binary.LittleEndian.Uint64(data)))
	}
	return all
}

func pack(values ...float64) []byte {
	var data []byte
	for _, v := range values {
		data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
	}
	return data
}

// FuzzEstimate: for any pairs Estimate gives an error or a number with shares in [0, 1].
func FuzzEstimate(f *testing.F) {
	f.Add(pack(.5, -1, 1, 2, 3, 1), .05, 0., true)
	f.Add(pack(math.Inf(1), 0, 1, math.Inf(-1), math.Inf(-1), 1), 0., 10., false)
	f.Add(pack(700, -700, 1e300, -700, 700, 1e-300), 0., 0., true)
	f.Fuzz(func(t *testing.T, data []byte, floor, universe float64, linked bool) {
		var pairs []Pair
		var truths []Truth
		var beliefs []Belief
		for w := words(data); len(w) >= 3; w = w[3:] {
			b, _ := FromLogits(w[0], w[1]) // the zero Belief where NaN
			pairs = append(pairs, Pair{observation(linked != (len(w)%2 == 0)), b, w[2], len(w) % 5})
			truths, beliefs = append(truths, Truth{w[2], w[0]}), append(beliefs, b)
		}
		for _, scheme := range []Scheme{True{}, Naive{}, W{}, PU{}, AP{}, nil} {
			for _, loss := range []Loss{nil, CappedLogLoss{Cap: math.Abs(floor)}, ZeroOne{}} {
				e := Estimator{Scheme: scheme, Loss: loss, Floor: floor, Universe: universe}
				got, err := e.Estimate(pairs)
				if err == nil && (math.IsNaN(got.Value) || !isProbability(got.Clipped) ||
					!isProbability(got.NegativeMass)) {
					t.Fatalf("%T %T: %+v", scheme, loss, got)
				}
				if m, err := e.Moments(truths, beliefs); err == nil && (math.IsNaN(m.Bias) || !(m.Variance >= 0)) {
					t.Fatalf("%T %T: %+v", scheme, loss, m)
				}
			}
		}
		for _, lemma := range []Lemma{Naive{}, W{}, PU{}, AP{}} {
			if m, err := ClosedForm(lemma, 1, truths, beliefs); err == nil &&
				(math.IsNaN(m.Bias) || !(m.Variance >= 0)) {
				t.Fatalf("%T: %+v", lemma, m)
			}
		}
	})
}

// FuzzIntervals: for any sample the intervals are errors or ordered numbers.
func FuzzIntervals(f *testing.F) {
	f.Add(pack(0, 1, 0, 1), pack(1, 2, 3, 4), .95, 0.)
	f.Add(pack(1e308, -1e308, 1e308), []byte(nil), .5, 3.)
	f.Add(pack(5e-324, 0, 5e-324), pack(1e-150, 1, 1e150), 1-1e-16, 1e-300)
	f.Fuzz(func(t *testing.T, valueBytes, weightBytes []byte, level, universe float64) {
		s := Sample{Values: words(valueBytes), Weights: words(weightBytes), Universe: universe}
		for _, clusters := range []int{0, 1, 3} {
			if clusters > 0 {
				s.Sources = make([]int, len(s.Values))
				for i := range s.Sources {
					s.Sources[i] = i % clusters
				}
			}
			low, high := 0., 1.
			for _, v := range s.Values {
				low, high = math.Min(low, v), math.Max(high, v)
			}
			normal, errNormal := s.Normal(level, Nuisance{Variance: math.Abs(level)})
			bernstein, errBernstein := s.Bernstein(level, low, high)
			bca, errBCa := s.Bootstrap(context.Background(), level, Bootstrap{Resamples: 100, Threads: 1})
			percentile, errPercentile := s.Bootstrap(context.Background(), level,
				Bootstrap{Resamples: 100, Threads: 1, Method: Percentile})
			for k, got := range []Interval{normal, bernstein, bca, percentile} {
				if err := []error{errNormal, errBernstein, errBCa, errPercentile}[k]; err != nil {
					continue
				}
				if !isFinite(got.Estimate) || !(got.Lower <= got.Upper) || !(got.StandardError >= 0) {
					t.Fatalf("interval %d of %+v: %+v", k, s, got)
				}
			}
			if size, err := s.Size(); err == nil && !(size.Effective > 0) {
				t.Fatalf("size %+v of %+v", size, s)
			}
		}
	})
}
