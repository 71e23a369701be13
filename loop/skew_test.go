package loop

import (
	"context"
	"errors"
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// exactSkew is P(κ′_v/κ′_w > κ_v/κ_w) for two categories, q_0 > q_1, summed over all outcomes.
func exactSkew(counts [2]int, q [2]float64) float64 {
	n := counts[0] + counts[1]
	var total float64
	for a := range counts[0] + 1 {
		pa := distuv.Binomial{N: float64(counts[0]), P: q[0]}.Prob(float64(a))
		if pa < 1e-13 {
			continue
		}
		for b := range counts[1] + 1 {
			pb := distuv.Binomial{N: float64(counts[1]), P: q[1]}.Prob(float64(b))
			if pb < 1e-13 || a == 0 {
				continue
			}
			e := float64(a) / float64(a+b)
			above := 1. // with b = 0 all n are of the first
			if b > 0 {
				above = 1 - distuv.Binomial{N: float64(n), P: e}.CDF(float64(counts[0]))
			}
			total += pa * pb * above
		}
	}
	return total
}

// Simulation agrees with the sum over all outcomes, and the bound is below both.
func TestSkewBoundHolds(t *testing.T) {
	t.Parallel()
	rng := newStream(5, "test", 0)
	useful := 0
	for range 25 {
		n := 20 + rng.IntN(100)
		first := 1 + rng.IntN(n-1)
		low := .05 + .5*rng.Float64()
		q := [2]float64{low + (.98-low)*rng.Float64(), low}
		counts := [2]int{first, n - first}
		exact := exactSkew(counts, q)
		bound, err := BoundSkew(counts[:], q[:])
		if err != nil {
			t.Fatal(err)
		}
		if bound.Probability > exact+1e-9 {
			t.Errorf("%v %v: bound %v, exact %v", counts, q, bound.Probability, exact)
		}
		const draws = 4000
		simulated, err := SkewProbability(context.Background(), counts[:], q[:], draws, 7, 2)
		if err != nil {
			t.Fatal(err)
		}
		if sd := math.Sqrt(exact*(1-exact)/draws) + 1e-3; math.Abs(simulated-exact) > 5*sd {
			t.Errorf("%v %v: simulated %v, exact %v", counts, q, simulated, exact)
		}
	}
	// Where the bound says something: more categories and more recommendations.
	for range 40 {
		C := 2 + rng.IntN(4)
		counts, q := make([]int, C), make([]float64, C)
		n := 0
		for v := range q {
			counts[v] = 2000 + rng.IntN(4000)
			n += counts[v]
			q[v] = (float64(v) + .5 + .3*rng.Float64()) / float64(C)
		}
		bound, err := BoundSkew(counts, q)
		if err != nil {
			t.Fatal(err)
		}
		const draws = 300
		simulated, err := SkewProbability(context.Background(), counts, q, draws, 7, 2)
		if err != nil {
			t.Fatal(err)
		}
		if bound.Probability > .5 {
			useful++
		}
		p := min(max(bound.Probability, 0), 1)
		if simulated < p-5*math.Sqrt(p*(1-p)/draws)-1e-9 {
			t.Errorf("%v %v: bound %v, simulated %v", counts, q, bound.Probability, simulated)
		}
		// The one-term form follows from the two-term one wherever it says something.
		one := 1 - 2*float64(C)*math.Exp(-2*float64(n)*bound.Exponent)
		if one > 0 && one > bound.Probability+1e-12 {
			t.Errorf("%v %v: one term gives %v, two give %v", counts, q, one, bound.Probability)
		}
	}
	if useful < 10 {
		t.Errorf("the bound was above one half in only %d cases", useful)
	}
}

// The corrected first lemma is sharp: within ε the skew stays above ρ, just beyond it does not.
func TestPairEpsilonIsSharp(t *testing.T) {
	t.Parallel()
	rng := newStream(6, "test", 0)
	for range 2000 {
		a, b := .01+rng.Float64(), .01+rng.Float64()
		low := .02 + .6*rng.Float64()
		high := low + (.97-low)*(.05+.95*rng.Float64())
		most := a * b * (high - low) / (high*a*a + (high+low)*a*b + low*b*b)
		rho := most * rng.Float64()
		epsilon := PairEpsilon(a, b, high, low, rho)
		skew := func(e float64) float64 {
			return a*(high-e)/(a*(high-e)+b*(low+e)) - a/(a+b)
		}
		if skew(epsilon*.999) <= rho || skew(epsilon*1.001) >= rho {
			t.Fatalf("a=%v b=%v q=%v, %v ρ=%v: ε=%v gives %v and %v", a, b, high, low, rho, epsilon,
				skew(epsilon*.999), skew(epsilon*1.001))
		}
		if PairEpsilon(a, b, high, low, most*1.01) != 0 {
			t.Fatalf("ε is positive beyond the largest ρ")
		}
		// As the appendix prints it, it is no positive number where ρ is in its range.
		asPrinted := (rho*high*a*a - a*b*(low-high) + low*rho*a*(a-b)) / (rho*(a*a-b*b) - 2*a*b)
		if asPrinted > 0 {
			t.Fatalf("the printed ε is %v at a=%v b=%v q=%v, %v ρ=%v", asPrinted, a, b, high, low, rho)
		}
	}
}

// The case of the package's documentation: the theorem as printed promises more than is true.
func TestPrintedBoundFails(t *testing.T) {
	t.Parallel()
	counts, q := [2]int{10, 990}, [2]float64{.9, .5}
	bound, err := BoundSkew(counts[:], q[:])
	if err != nil {
		t.Fatal(err)
	}
	exact := exactSkew(counts, q)
	t.Logf("exact %.4f, bound %.4f, printed 1 − %.1g", exact, bound.Probability, 1-bound.Printed)
	if !(exact > .94 && exact < .98 && bound.Probability < exact && bound.Printed > .999999) {
		t.Errorf("exact %v, bound %v, printed %v", exact, bound.Probability, bound.Printed)
	}
}

// The corollary: with n = 10·C³ the probability falls as C grows; n has to outgrow C³·log C.
func TestCorollaryFails(t *testing.T) {
	t.Parallel()
	last := 1.
	for _, C := range []int{4, 10, 30, 60} {
		counts, q := make([]int, C), make([]float64, C)
		for v := range q {
			counts[v] = 10 * C * C
			q[v] = .3 + .6*float64(v)/float64(C-1)
		}
		p, err := SkewProbability(context.Background(), counts, q, 300, 1, 2)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("C = %d: %.3f", C, p)
		if p >= last {
			t.Errorf("C = %d: %v, not below %v", C, p, last)
		}
		last = p
	}
	if last > .3 {
		t.Errorf("still %v", last)
	}
}

func TestSkewProbabilityThreadsAndCancel(t *testing.T) {
	t.Parallel()
	counts, q := []int{30, 40, 50}, []float64{.2, .4, .6}
	one, _ := SkewProbability(context.Background(), counts, q, 1000, 3, 1)
	four, _ := SkewProbability(context.Background(), counts, q, 1000, 3, 4)
	if one != four || one == 0 || one == 1 {
		t.Errorf("%v with one thread, %v with four", one, four)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := SkewProbability(ctx, counts, q, 1000, 3, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
