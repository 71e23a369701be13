package risk

import (
	"math"
	"testing"
)

// The table of masses, by hand at ŷ = .8, π̂ = .6: q = .52, ψ = .2/.52, τ = .32/.52.
func TestMassTable(t *testing.T) {
	t.Parallel()
	b := probabilities(t, .8, .6)
	for _, c := range []struct {
		scheme             Scheme
		linked             bool
		positive, negative float64
	}{
		{True{}, true, .3, .7}, {True{}, false, .3, .7},
		{Naive{}, true, 1, 0}, {Naive{}, false, 0, 1},
		{W{}, true, 1 / .6, 0}, {W{}, false, 0, .2 / .52},
		{PU{}, true, 1 / .6, 1 - 1/.6}, {PU{}, false, 0, 1},
		{AP{}, true, 1, 0}, {AP{}, false, .32 / .52, .2 / .52},
	} {
		m := c.scheme.Mass(observation(c.linked), b)
		if !near(m.Positive, c.positive, 1e-15) || !near(m.Negative, c.negative, 1e-15) {
			t.Errorf("%T linked %v: %+v, want %v, %v", c.scheme, c.linked, m, c.positive, c.negative)
		}
	}
}

func TestTotalMass(t *testing.T) {
	t.Parallel()
	for _, b := range beliefsEverywhere(t) {
		for name, scheme := range builtins {
			for _, linked := range []bool{false, true} {
				m := scheme.Mass(observation(linked), b)
				if math.IsNaN(m.Positive) || math.IsNaN(m.Negative) || m.Positive < 0 {
					t.Fatalf("%s: %+v at %+v", name, m, b)
				}
				if name != "pu" && m.Negative < 0 {
					t.Fatalf("%s: N = %v at %+v", name, m.Negative, b)
				}
				if name != "w" && m.Positive < 1e10 {
					wantNear(t, name+": P + N", m.Positive+m.Negative, 1, 1e-5)
				}
			}
		}
	}
}

// P = ŷ + λ(o − π̂ŷ), with λ = ψ for AP and 1/π̂ for PU and W. The naive mass is of that form only where
// π̂ = 1 (there λ = 1): else a λ that does not depend on o would have to be both ψ and 1/π̂.
func TestResidualForm(t *testing.T) {
	t.Parallel()
	rng := newRand(t, 1)
	for range 2000 {
		b := probabilities(t, rng.Float64(), 1e-3+(1-1e-3)*rng.Float64())
		sure := probabilities(t, b.Link(), 1)
		for _, linked := range []bool{false, true} {
			o := 0.
			if linked {
				o = 1
			}
			form := func(lambda float64, b Belief) float64 { return b.Link() + lambda*(o-b.Observed()) }
			wantNear(t, "AP", AP{}.Mass(observation(linked), b).Positive, form(b.Irrelevant(), b), 1e-12)
			wantNear(t, "PU", PU{}.Mass(observation(linked), b).Positive, form(b.InversePropensity(), b), 1e-12)
			wantNear(t, "W", W{}.Mass(observation(linked), b).Positive, form(b.InversePropensity(), b), 1e-12)
			wantNear(t, "Naive", Naive{}.Mass(observation(linked), sure).Positive, form(1, sure), 1e-12)
		}
	}
}

func TestSlopesAgainstDifferences(t *testing.T) {
	t.Parallel()
	rng := newRand(t, 2)
	for range 3000 {
		b := logits(t, 16*rng.Float64()-8, 16*rng.Float64()-8)
		for name, scheme := range builtins {
			for _, linked := range []bool{false, true} {
				o := observation(linked)
				got := scheme.Slope(o, b)
				want := slopeOf(MassFunc(scheme.Mass), o, b) // hides the slopes, so that differences are taken
				scale := math.Max(1, b.InversePropensity())
				for what, pair := range map[string][2]float64{
					"∂P/∂z": {got.Link.Positive, want.Link.Positive}, "∂N/∂z": {got.Link.Negative, want.Link.Negative},
					"∂P/∂s": {got.Propensity.Positive, want.Propensity.Positive},
					"∂N/∂s": {got.Propensity.Negative, want.Propensity.Negative},
				} {
					if math.Abs(pair[0]-pair[1]) > 2e-9*scale {
						t.Fatalf("%s %s = %v, differences say %v, at z = %v, s = %v", name, what, pair[0], pair[1],
							b.LinkLogit(), b.PropensityLogit())
					}
				}
			}
		}
	}
}

// ∂τ/∂ŷ = (1−π̂)/q² and ∂τ/∂π̂ = −ŷ(1−ŷ)/q², chained into the logits.
func TestChainSlope(t *testing.T) {
	t.Parallel()
	rng := newRand(t, 3)
	for range 500 {
		b := probabilities(t, rng.Float64(), rng.Float64())
		q := b.Unobserved()
		y, p := b.NotPropensity()/(q*q), -b.Link()*b.NotLink()/(q*q)
		got := ChainSlope(b, Mass{y, -y}, Mass{p, -p})
		want := AP{}.Slope(Observation{}, b)
		wantNear(t, "∂P/∂z", got.Link.Positive, want.Link.Positive, 1e-10)
		wantNear(t, "∂N/∂z", got.Link.Negative, want.Link.Negative, 1e-10)
		wantNear(t, "∂P/∂s", got.Propensity.Positive, want.Propensity.Positive, 1e-10)
		wantNear(t, "∂N/∂s", got.Propensity.Negative, want.Propensity.Negative, 1e-10)
	}
	if got := ChainSlope(probabilities(t, 1, 0), Mass{math.Inf(1), 0}, Mass{0, math.Inf(-1)}); got != (Slope{}) {
		t.Errorf("0·∞ in the chain gave %+v", got)
	}
}

func TestDifferencesWhereThereAreNone(t *testing.T) {
	t.Parallel()
	for _, b := range beliefsEverywhere(t) {
		for _, hidden := range []Scheme{MassFunc(AP{}.Mass), MassFunc(PU{}.Mass)} {
			for _, linked := range []bool{false, true} {
				slope := slopeOf(hidden, Observation{Linked: linked}, b)
				for _, x := range []float64{slope.Link.Positive, slope.Link.Negative, slope.Propensity.Positive,
					slope.Propensity.Negative} {
					if math.IsNaN(x) || math.IsInf(x, 0) {
						t.Fatalf("differences give %+v at %+v", slope, b)
					}
				}
			}
		}
	}
}

func TestMissingEvidenceIsNaN(t *testing.T) {
	t.Parallel()
	b := probabilities(t, .5, .5)
	for _, o := range []Observation{{}, {Linked: true}, Observation{}.WithRelevance(1.5),
		Observation{}.WithRelevance(math.NaN())} {
		if m := (True{}).Mass(o, b); !math.IsNaN(m.Positive) || !math.IsNaN(m.Negative) {
			t.Errorf("true masses %+v of %+v", m, o)
		}
	}
	if m := MassFunc(nil).Mass(Observation{}, b); !math.IsNaN(m.Positive) {
		t.Errorf("nil MassFunc gave %+v", m)
	}
}

// The moments come out: unbiased if either ŷ or π̂ is right.
func TestDoublyRobust(t *testing.T) {
	t.Parallel()
	rng := newRand(t, 4)
	truths, beliefs := world(t, rng, 200)
	rightLink, rightPropensity := make([]Belief, 200), make([]Belief, 200)
	for i, truth := range truths {
		rightLink[i] = probabilities(t, truth.Link, beliefs[i].Propensity())
		rightPropensity[i] = probabilities(t, beliefs[i].Link(), truth.Propensity)
	}
	e := Estimator{Scheme: DR{}, Loss: CappedLogLoss{Cap: 4}}
	for name, c := range map[string]struct {
		beliefs  []Belief
		unbiased bool
	}{"right ŷ": {rightLink, true}, "right π̂": {rightPropensity, true}, "both wrong": {beliefs, false}} {
		m, err := e.Moments(truths, c.beliefs)
		if err != nil {
			t.Fatal(err)
		}
		if unbiased := m.AbsoluteBias() < 1e-12; unbiased != c.unbiased {
			t.Errorf("%s: bias %v", name, m.Bias)
		}
	}
}

// A chance to be seen survives its encoding within 1.2%, from certain down to the least.
func TestOfferedSeen(t *testing.T) {
	for q := 1.; q > .0038; q *= .993 {
		e := OfferedSeen(q)
		if !e.IsOffered() || math.Abs(e.Seen()/q-1) > .012 {
			t.Fatalf("%v is %d, which is %v", q, e, e.Seen())
		}
	}
	for q, want := range map[float64]float64{1: 1, 2: 1, math.NaN(): 1, 0: seenOf[255], -1: seenOf[255]} {
		if got := OfferedSeen(q).Seen(); got != want {
			t.Errorf("%v is read as %v, want %v", q, got, want)
		}
	}
	for _, e := range []Exposure{Unlogged, Exposed, Unexposed} {
		if e.IsOffered() || e.Seen() != 1 {
			t.Errorf("exposure %d: offered %v, seen with %v", e, e.IsOffered(), e.Seen())
		}
	}
}
