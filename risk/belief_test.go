package risk

import (
	"errors"
	"math"
	"math/big"
	"testing"
)

func TestBeliefRejects(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for _, in := range [][2]float64{{nan, 0}, {0, nan}} {
		if _, err := FromLogits(in[0], in[1]); !errors.Is(err, ErrLogit) {
			t.Errorf("FromLogits(%v) error = %v", in, err)
		}
	}
	for _, in := range [][2]float64{{nan, .5}, {.5, nan}, {-1e-300, .5}, {.5, 1.0000001}, {math.Inf(1), .5},
		{.5, math.Inf(-1)}} {
		if _, err := FromProbabilities(in[0], in[1]); !errors.Is(err, ErrProbability) {
			t.Errorf("FromProbabilities(%v) error = %v", in, err)
		}
	}
}

// The worked example: π .9 and .6, y .8 and .8 are observed as .72 and .48.
func TestWorkedExample(t *testing.T) {
	t.Parallel()
	near, far := probabilities(t, .8, .9), probabilities(t, .8, .6)
	wantNear(t, "observed, machine learning", near.Observed(), .72, 1e-15)
	wantNear(t, "observed, physics", far.Observed(), .48, 1e-15)
	wantNear(t, "hidden, machine learning", near.Hidden(), .08/.28, 1e-15)
	wantNear(t, "hidden, physics", far.Hidden(), .32/.52, 1e-15)
}

func TestBeliefIsConsistentEverywhere(t *testing.T) {
	t.Parallel()
	for _, b := range beliefsEverywhere(t) {
		for name, p := range map[string]float64{
			"ŷ": b.Link(), "1−ŷ": b.NotLink(), "π̂": b.Propensity(), "1−π̂": b.NotPropensity(),
			"π̂ŷ": b.Observed(), "q": b.Unobserved(), "ψ": b.Irrelevant(), "τ": b.Hidden(),
		} {
			if !isProbability(p) {
				t.Fatalf("%s = %v at %+v", name, p, b)
			}
		}
		wantNear(t, "ψ + τ", b.Irrelevant()+b.Hidden(), 1, 1e-15)
		wantNear(t, "ŷ + (1−ŷ)", b.Link()+b.NotLink(), 1, 1e-15)
		wantNear(t, "q + π̂ŷ", b.Unobserved()+b.Observed(), 1, 1e-15)
		if inverse := b.InversePropensity(); !(inverse >= 1) {
			t.Fatalf("1/π̂ = %v at %+v", inverse, b)
		}
		if b.Predicted() != (b.LinkLogit() >= 0) {
			t.Fatalf("ô at %+v", b)
		}
	}
}

// ψ and τ against long arithmetic on the same logits, where float64 alone would cancel or underflow.
func TestPosteriorAgainstBigFloat(t *testing.T) {
	t.Parallel()
	const bits = 4000
	exp := func(x float64) *big.Float { // eˣ = (e^(x/2^20))^(2^20), from the series
		r := new(big.Float).SetPrec(bits).SetFloat64(x)
		r.Quo(r, big.NewFloat(1<<20))
		sum, term := big.NewFloat(1).SetPrec(bits), big.NewFloat(1).SetPrec(bits)
		for k := 1; k < 60; k++ {
			term.Mul(term, r)
			term.Quo(term, big.NewFloat(float64(k)))
			sum.Add(sum, term)
		}
		for range 20 {
			sum.Mul(sum, sum)
		}
		return sum
	}
	one := big.NewFloat(1)
	for _, z := range []float64{-700, -50, -.3, 0, 2, 45, 700, 900} {
		for _, s := range []float64{-700, -50, -.3, 0, 2, 45, 700, 899, 901} {
			// τ/ψ = ŷ(1−π̂)/(1−ŷ) = eᶻ/(1 + eˢ)
			odds := exp(z)
			odds.Quo(odds, new(big.Float).SetPrec(bits).Add(one, exp(s)))
			both := new(big.Float).SetPrec(bits).Add(one, odds)
			psi, _ := new(big.Float).Quo(one, both).Float64()
			tau, _ := new(big.Float).Quo(odds, both).Float64()
			b := logits(t, z, s)
			if got := b.Irrelevant(); math.Abs(got-psi) > 5e-13*psi {
				t.Errorf("ψ(%v, %v) = %v, want %v", z, s, got, psi)
			}
			if got := b.Hidden(); math.Abs(got-tau) > 5e-13*tau {
				t.Errorf("τ(%v, %v) = %v, want %v", z, s, got, tau)
			}
		}
	}
}

func TestCorner(t *testing.T) {
	t.Parallel()
	for _, b := range []Belief{probabilities(t, 1, 1), logits(t, math.Inf(1), math.Inf(1))} {
		if b.Irrelevant() != 1 || b.Hidden() != 0 {
			t.Errorf("ψ, τ = %v, %v at ŷ = π̂ = 1, want the limit 1, 0 along π̂ = 1", b.Irrelevant(), b.Hidden())
		}
	}
	for _, y := range []float64{.5, .999999, math.Nextafter(1, 0)} {
		if b := probabilities(t, y, 1); b.Irrelevant() != 1 {
			t.Errorf("ψ = %v along π̂ = 1", b.Irrelevant())
		}
	}
	if b := probabilities(t, 1, .999999); b.Irrelevant() != 0 || b.Hidden() != 1 {
		t.Errorf("ψ, τ = %v, %v at ŷ = 1, π̂ < 1, want 0, 1", b.Irrelevant(), b.Hidden())
	}
}

func TestConstructorsAgree(t *testing.T) {
	t.Parallel()
	for _, y := range []float64{1e-9, .2, .5, .97} {
		for _, p := range []float64{1e-9, .2, .5, .97} {
			a := probabilities(t, y, p)
			b := logits(t, a.LinkLogit(), a.PropensityLogit())
			wantNear(t, "ŷ", b.Link()/y, 1, 1e-14)
			wantNear(t, "π̂", b.Propensity()/p, 1, 1e-14)
			wantNear(t, "ψ", b.Irrelevant(), a.Irrelevant(), 1e-14)
		}
	}
}

func TestFloor(t *testing.T) {
	t.Parallel()
	b := probabilities(t, .5, .01)
	f := b.Floored(.05)
	if f.Propensity() != .05 || f.NotPropensity() != .95 || !f.Clipped() {
		t.Errorf("floored belief %+v", f)
	}
	wantNear(t, "s", f.PropensityLogit(), math.Log(.05/.95), 1e-15)
	for _, floor := range []float64{0, -1, math.NaN(), math.Inf(-1), .01, .001} {
		if g := b.Floored(floor); g != b {
			t.Errorf("floor %v changed %+v to %+v", floor, b, g)
		}
	}
	if g := b.Floored(7); g.Propensity() != 1 || g.NotPropensity() != 0 {
		t.Errorf("floor above 1 gave %+v", g)
	}
	if !f.Floored(.01).Clipped() {
		t.Error("a second floor forgot the first")
	}
}
