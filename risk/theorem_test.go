package risk

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// terms are one pair's terms with ô = 0, the ones the paper's approximation keeps.
func terms(t testing.TB, truth Truth, link, estimate float64) (naive, w, ap float64) {
	b := probabilities(t, link, estimate)
	naive = truth.Link * (1 - truth.Propensity)
	w = truth.Link * (1 - truth.Propensity/estimate)
	return naive, w, naive - (1-truth.Propensity*truth.Link)*b.Hidden()
}

func TestLowestPropensity(t *testing.T) {
	t.Parallel()
	for p, want := range map[float64]float64{0: 0, .5: 1. / 3, .9: .9 / 1.1, 1: 1} {
		wantNear(t, "π/(2−π)", LowestPropensity(p), want, 1e-15)
	}
	for _, p := range []float64{-.1, 1.1, math.NaN(), math.Inf(1)} {
		if !math.IsNaN(LowestPropensity(p)) {
			t.Errorf("LowestPropensity(%v) = %v", p, LowestPropensity(p))
		}
	}
	// The appendix's 2/(2−π) is never below 1, so no estimate could meet it.
	for p := 0.; p <= 1; p += .05 {
		if slip := 2 / (2 - p); slip < 1 {
			t.Errorf("2/(2−%v) = %v", p, slip)
		}
	}
}

// Per pair the conditions are necessary and sufficient, so each must agree with the terms themselves.
func TestConditionsAreExact(t *testing.T) {
	t.Parallel()
	rng := newRand(t, 1)
	held := map[string]int{}
	for range 100000 {
		truth := Truth{rng.Float64(), rng.Float64()}
		link, estimate := rng.Float64(), rng.Float64()
		naive, w, ap := terms(t, truth, link, estimate)
		if math.Abs(math.Abs(w)-naive) > 1e-9 {
			if got := LowerBiasW(truth.Propensity, estimate); got != (math.Abs(w) < naive) {
				t.Fatalf("W: condition %v but |%v| against %v at %+v, π̂ = %v", got, w, naive, truth, estimate)
			} else if got {
				held["w"]++
			}
		}
		if math.Abs(math.Abs(ap)-naive) > 1e-9 {
			b := probabilities(t, link, estimate)
			if got := LowerBiasAP(truth, b); got != (math.Abs(ap) < naive) {
				t.Fatalf("AP: condition %v but |%v| against %v at %+v, ŷ = %v, π̂ = %v", got, ap, naive, truth, link,
					estimate)
			} else if got {
				held["ap"]++
			}
		}
		// The bound as the paper prints it.
		pi, y := truth.Propensity, truth.Link
		c := 2 * (1 - pi) / (1 - estimate - pi*y + (2-pi)*estimate*y)
		wantNear(t, "c·y", HighestLink(truth, estimate), c*y, 1e-10)
		if estimate >= LowestPropensity(pi) && c < 1-1e-9 {
			t.Fatalf("c = %v < 1 at %+v, π̂ = %v above π/(2−π)", c, truth, estimate)
		}
	}
	if held["w"] < 1000 || held["ap"] < 1000 {
		t.Errorf("the conditions held too rarely to test them: %v", held)
	}
}

// Theorem 3.2: where every pair meets its condition the summed bias is lower than naive, positives
// neglected, also when some π̂ are above π and others below.
func TestConditionsImplyLowerBias(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rng := newRand(t, seed)
		n := 1 + rng.IntN(30)
		truths, forW, forAP := make([]Truth, n), make([]Belief, n), make([]Belief, n)
		for i := range truths {
			truths[i] = Truth{.01 + .98*rng.Float64(), .01 + .98*rng.Float64()}
			forW[i] = draw(t, rng, func(b Belief) bool { return LowerBiasW(truths[i].Propensity, b.Propensity()) })
			forAP[i] = draw(t, rng, func(b Belief) bool { return LowerBiasAP(truths[i], b) })
		}
		bias := func(l Lemma, beliefs []Belief) float64 {
			m, err := ClosedForm(l, 1, truths, beliefs)
			if err != nil {
				t.Fatal(err)
			}
			return m.AbsoluteBias()
		}
		if w, pu, naive := bias(W{}, forW), bias(PU{}, forW), bias(Naive{}, forW); !(w < naive) || w != pu {
			t.Fatalf("seed %d: bias W %v, PU %v, naive %v", seed, w, pu, naive)
		}
		if ap, naive := bias(AP{}, forAP), bias(Naive{}, forAP); !(ap < naive) {
			t.Fatalf("seed %d: bias AP %v, naive %v", seed, ap, naive)
		}
		for beliefs, want := range map[*[]Belief]func(Conditions) int{
			&forW: func(c Conditions) int { return c.W }, &forAP: func(c Conditions) int { return c.AP },
		} {
			c, err := CheckConditions(truths, *beliefs)
			if err != nil || c.Pairs != n || want(c) != n {
				t.Fatalf("seed %d: %+v, %v", seed, c, err)
			}
		}
	}
}

// draw returns a random belief with ô = 0 that is accepted.
func draw(t testing.TB, rng *rand.Rand, accept func(Belief) bool) Belief {
	for {
		if b := probabilities(t, rng.Float64()/2, rng.Float64()); !b.Predicted() && accept(b) {
			return b
		}
	}
}

// Where the paper's argument for AP goes wrong, and where its conclusion stands all the same.
func TestPaperArgumentForAP(t *testing.T) {
	t.Parallel()
	half := Truth{Propensity: .5, Link: .5}

	// "π/(2−π) < π̂ < 1, therefore (1−π)y − (1−πy)τ ≥ 0" fails inside the theorem's own conditions:
	// π̂ = .5 > ⅓ and ŷ = .7 < c·y = .8, but the term is .25 − .75·.35/.65 = −.1538.
	naive, _, ap := terms(t, half, .7, .5)
	wantNear(t, "term", ap, .25-.75*.35/.65, 1e-15)
	wantNear(t, "c·y", HighestLink(half, .5), .8, 1e-15)
	if !(ap < 0) || !(math.Abs(ap) < naive) || !LowerBiasAP(half, probabilities(t, .7, .5)) {
		t.Errorf("term %v, naive %v: want it negative and smaller", ap, naive)
	}

	// The lower limit on π̂ is not needed: π̂ = .1 < ⅓, ŷ = .4.
	if LowerBiasW(.5, .1) || !LowerBiasAP(half, probabilities(t, .4, .1)) {
		t.Error("π̂ = .1, ŷ = .4 must do for AP and not for W")
	}

	// It is needed for c ≥ 1: at π = .9, y = .5, π̂ = .1 even ŷ = y is too high.
	high := Truth{Propensity: .9, Link: .5}
	if c := HighestLink(high, .1) / high.Link; !(c < .4) || LowerBiasAP(high, probabilities(t, .5, .1)) {
		t.Errorf("c = %v at π = .9, y = .5, π̂ = .1", c)
	}

	// And a large ŷ does worse than naive although π̂ is right.
	if LowerBiasAP(half, probabilities(t, .9, .5)) {
		t.Error("ŷ = .9 ≥ c·y = .8 must fail")
	}
}

func TestConditionEdges(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	if LowerBiasW(0, .5) {
		t.Error("π = 0: the terms are equal")
	}
	if LowerBiasW(1, 1) || LowerBiasW(.5, 1) || LowerBiasW(.5, nan) || LowerBiasW(nan, .5) {
		t.Error("W at the edges")
	}
	for _, truth := range []Truth{{1, .5}, {.5, 0}, {1, 1}, {nan, .5}, {.5, 2}} {
		if LowerBiasAP(truth, probabilities(t, .1, .5)) {
			t.Errorf("AP at %+v", truth)
		}
	}
	for _, b := range []Belief{{}, probabilities(t, 0, .5), probabilities(t, .1, 1)} {
		if LowerBiasAP(Truth{.5, .5}, b) {
			t.Errorf("AP at %+v", b)
		}
	}
	if HighestLink(Truth{1, 1}, 1) != 0 || HighestLink(Truth{.5, 0}, 1) != 0 ||
		!math.IsNaN(HighestLink(Truth{.5, .5}, 2)) {
		t.Error("HighestLink at the edges")
	}
	if _, err := CheckConditions([]Truth{{.5, .5}}, nil); !errors.Is(err, ErrLength) {
		t.Errorf("lengths: %v", err)
	}
	c, err := CheckConditions([]Truth{{.5, .5}, {.5, .5}}, []Belief{probabilities(t, .9, .5), probabilities(t, .4, .2)})
	if err != nil || c != (Conditions{Pairs: 1, W: 0, AP: 1}) {
		t.Errorf("conditions %+v, %v", c, err)
	}
}
