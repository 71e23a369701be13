package risk

import (
	"math"
	"math/rand/v2"
	"testing"
)

// near reports whether got is within tol of want, relative to the larger of 1 and |want|.
func near(got, want, tol float64) bool {
	return got == want || math.Abs(got-want) <= tol*math.Max(1, math.Abs(want))
}

func wantNear(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !near(got, want, tol) {
		t.Errorf("%s = %v, want %v within %v", what, got, want, tol)
	}
}

func logits(t testing.TB, z, s float64) Belief {
	t.Helper()
	b, err := FromLogits(z, s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func probabilities(t testing.TB, link, propensity float64) Belief {
	t.Helper()
	b, err := FromProbabilities(link, propensity)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// newRand returns a source whose seed is printed when the test fails.
func newRand(t testing.TB, seed uint64) *rand.Rand {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// extremes are logits over the whole closed range.
var extremes = []float64{
	math.Inf(-1), -1e308, -1000, -745, -710, -700, -40, -37, -1, -1e-20, 0, 1e-20, 1e-5, 1, 37, 40, 700, 710, 745,
	1000, 1e308, math.Inf(1),
}

// edges are probabilities over the whole closed range.
var edges = []float64{
	0, math.Copysign(0, -1), 5e-324, 1e-308, 1e-160, 1e-20, .1, .5, math.Nextafter(.5, 0), .9, 1 - 1e-10,
	math.Nextafter(1, 0), 1,
}

// beliefsEverywhere runs through both constructors over their closed ranges.
func beliefsEverywhere(t testing.TB) []Belief {
	var all []Belief
	for _, z := range extremes {
		for _, s := range extremes {
			all = append(all, logits(t, z, s))
		}
	}
	for _, y := range edges {
		for _, p := range edges {
			all = append(all, probabilities(t, y, p))
		}
	}
	return all
}

// builtins are the schemes of the table, with an observation that gives each what it needs.
var builtins = map[string]Differentiable{"true": True{}, "naive": Naive{}, "w": W{}, "pu": PU{}, "ap": AP{}}

var corrected = map[string]Differentiable{"naive": Naive{}, "w": W{}, "pu": PU{}, "ap": AP{}}

func observation(linked bool) Observation { return Observation{Linked: linked}.WithRelevance(.3) }

// world draws the truth and the beliefs of n pairs.
func world(t testing.TB, rng *rand.Rand, n int) ([]Truth, []Belief) {
	truths, beliefs := make([]Truth, n), make([]Belief, n)
	for i := range truths {
		truths[i] = Truth{Propensity: .05 + .95*rng.Float64(), Link: rng.Float64()}
		beliefs[i] = probabilities(t, rng.Float64(), .05+.95*rng.Float64())
	}
	return truths, beliefs
}

// observe draws o = o′·a, with o′ and a independent.
func observe(rng *rand.Rand, truth Truth) Observation {
	relevant := rng.Float64() < truth.Link
	exposed := rng.Float64() < truth.Propensity
	o := Observation{Linked: relevant && exposed, Exposure: Unexposed}
	if exposed {
		o.Exposure = Exposed
	}
	return o.WithRelevance(truth.Link)
}
