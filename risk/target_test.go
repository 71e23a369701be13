package risk

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"unseen/internal/racetest"
)

// logOf draws a complete log: π from .001 to .7 by its logarithm, ŷ and π̂ right or not.
func logOf(rng *rand.Rand, n int, rightLink, rightPropensity bool) (pairs []Pair, truth float64, err error) {
	for i := range n {
		z, pi := -1.5+1.5*rng.NormFloat64(), .001*math.Pow(700, rng.Float64())
		y, _ := sigmoids(z)
		o := Observation{Exposure: Unexposed}
		if rng.Float64() < pi {
			o = Observation{Exposure: Exposed, Linked: rng.Float64() < y}
		}
		if !rightLink {
			z = z/2 - 1.5
		}
		if !rightPropensity {
			pi = .8 * math.Pow(pi, .7)
		}
		b, err := FromLogits(z, logit(pi))
		if err != nil {
			return nil, 0, err
		}
		linked, unlinked := LogLoss{}.Losses(b)
		truth += (y*linked + (1-y)*unlinked) / float64(n)
		pairs = append(pairs, Pair{Observation: o, Belief: b, Weight: 1, Source: i / 50})
	}
	return pairs, truth, nil
}

// R_DR nears the truth where either half is right; the risk that ŷ expects of itself needs a right ŷ.
func TestTargetIsConsistent(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "it starts no goroutine")
	for name, right := range map[string]struct{ link, propensity bool }{
		"both right": {true, true}, "right ŷ": {true, false}, "right π̂": {false, true},
	} {
		pairs, truth, err := logOf(newRand(t, 8), 150_000, right.link, right.propensity)
		if err != nil {
			t.Fatal(err)
		}
		sample, err := Estimator{Scheme: DR{}}.Sample(pairs)
		if err != nil {
			t.Fatal(err)
		}
		interval, err := sample.Normal(.95, Nuisance{})
		if err != nil {
			t.Fatal(err)
		}
		if off := math.Abs(interval.Estimate - truth); off > 3*interval.StandardError || interval.StandardError > .04 {
			t.Errorf("%s: %v ± %v, true %v", name, interval.Estimate, interval.StandardError, truth)
		}
		var imputed float64
		for _, p := range pairs {
			linked, unlinked := LogLoss{}.Losses(p.Belief)
			imputed += (p.Belief.Link()*linked + p.Belief.NotLink()*unlinked) / float64(len(pairs))
		}
		if far := math.Abs(imputed-truth) > .05; far == right.link {
			t.Errorf("%s: the risk that ŷ expects is %v, true %v", name, imputed, truth)
		}
	}
}

// Whatever is shown, at whatever π̂, R_DR is one of the risks that the losses allow.
func TestTargetIsBounded(t *testing.T) {
	t.Parallel()
	rng := newRand(t, 9)
	outside := 0
	for range 500 {
		pairs := make([]Pair, 2+rng.IntN(40))
		var low, high, usual float64
		e := Estimator{Scheme: DR{}, Loss: CappedLogLoss{Cap: 4}}
		for i := range pairs {
			o := Observation{Exposure: Unexposed}
			if rng.IntN(3) == 0 {
				o = Observation{Exposure: Exposed, Linked: rng.IntN(2) == 0}
			}
			pairs[i] = Pair{Observation: o, Belief: logits(t, 4*rng.NormFloat64(), 20*rng.NormFloat64()-10),
				Weight: rng.ExpFloat64() + .01, Source: i}
			linked, unlinked := e.Loss.Losses(pairs[i].Belief)
			low += pairs[i].Weight * math.Min(linked, unlinked)
			high += pairs[i].Weight * math.Max(linked, unlinked)
			usual += pairs[i].Weight * e.Risk(o, pairs[i].Belief)
		}
		found, err := e.Estimate(pairs)
		if err != nil {
			t.Fatal(err)
		}
		low, high, usual = low/found.Weight, high/found.Weight, usual/found.Weight
		if !(found.Value >= low-1e-9 && found.Value <= high+1e-9) || found.NegativeMass != 0 {
			t.Fatalf("%+v, beyond %v to %v", found, low, high)
		}
		if usual < low || usual > high {
			outside++
		}
		sample, err := e.Sample(pairs)
		if err != nil {
			t.Fatal(err)
		}
		mean, err := sample.Mean()
		if err != nil {
			t.Fatal(err)
		}
		wantNear(t, "the mean of the values", mean, found.Value, 1e-6)
	}
	if outside < 100 {
		t.Errorf("only %d of 500 are difficult", outside)
	}
}

// The values' slopes, with ε and c held fixed, add up to the derivatives of the mean, in which ε moves.
func TestTargetSlopes(t *testing.T) {
	t.Parallel()
	rng := newRand(t, 10)
	n := 300
	pairs := make([]TargetPair, n)
	s, directionZ, directionS := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range pairs {
		s[i], directionZ[i], directionS[i] = rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()
		pairs[i] = TargetPair{Logit: rng.NormFloat64(), Linked: rng.ExpFloat64(), Unlinked: rng.ExpFloat64(),
			Weight: .5 + rng.Float64(), Outcome: rng.IntN(3) == 0}
		if i%2 == 0 {
			pairs[i].Inverse = 1 + math.Exp(-s[i])
		}
	}
	mean := func(z, propensity float64) float64 {
		moved := make([]TargetPair, n)
		for i, p := range pairs {
			p.Logit += z * directionZ[i]
			if p.Inverse > 0 {
				p.Inverse = 1 + math.Exp(-s[i]-propensity*directionS[i])
			}
			moved[i] = p
		}
		target, err := NewTarget(moved)
		if err != nil {
			t.Fatal(err)
		}
		return target.Mean
	}
	target, err := NewTarget(pairs)
	if err != nil {
		t.Fatal(err)
	}
	var byZ, byS, weight float64
	for i, p := range pairs {
		link, propensity := target.Slopes(i)
		byZ += p.Weight * link * directionZ[i]
		byS += p.Weight * propensity * directionS[i]
		weight += p.Weight
	}
	const h = 1e-4 // the prior of ε grows with the weights, which the slopes leave out
	wantNear(t, "the slope in z", byZ/weight, (mean(h, 0)-mean(-h, 0))/(2*h), 1e-5)
	wantNear(t, "the slope in s", byS/weight, (mean(0, h)-mean(0, -h))/(2*h), 1e-4)
}

// A log that shows nothing, no link or only links leaves everything finite, and an interval that
// says how little it knows.
func TestTargetOfLittle(t *testing.T) {
	t.Parallel()
	for name, linked := range map[string]func(int) Observation{
		"nothing shown": func(int) Observation { return Observation{Exposure: Unexposed} },
		"no link":       func(int) Observation { return Observation{Exposure: Exposed} },
		"only links":    func(int) Observation { return Observation{Exposure: Exposed, Linked: true} },
	} {
		var pairs []Pair
		for i := range 40 {
			pairs = append(pairs, Pair{Observation: linked(i), Belief: logits(t, -2, -3), Weight: 1, Source: i})
		}
		sample, err := Estimator{Scheme: DR{}}.Sample(pairs)
		if err != nil {
			t.Fatal(err)
		}
		found, err := sample.Normal(.95, Nuisance{})
		if err != nil || !isFinite(found.Estimate) || !isFinite(found.Upper) {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
		if shown := name != "nothing shown"; shown != (found.Upper > found.Lower) {
			t.Errorf("%s: %+v", name, found)
		}
	}
	for name, b := range map[string]Belief{"a loss": logits(t, math.Inf(1), 0), "π̂": logits(t, 0, math.Inf(-1))} {
		_, err := Estimator{Scheme: DR{}}.Estimate([]Pair{{Observation: Observation{Exposure: Exposed}, Belief: b,
			Weight: 1}})
		if !errors.Is(err, ErrLoss) && !errors.Is(err, ErrValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
