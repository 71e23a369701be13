package risk

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"unseen/internal/racetest"
)

func TestMargin(t *testing.T) {
	t.Parallel()
	// √(4·4/(.01·10⁶)·log 40) by hand: √(.0016·3.688879454) = .0768257.
	b := Bound{Loss: 2, Floor: .1, Universe: 1e6, Failure: .05}
	m, err := b.Margin()
	if err != nil {
		t.Fatal(err)
	}
	wantNear(t, "M", m, math.Sqrt(.0016*3.6888794541139363), 1e-15)
	population, _ := b.Population(.3, -.02, .01)
	wantNear(t, "population", population, .3+.02+.02+m, 1e-15)
	empirical, _ := b.Empirical(.3, .02, .01)
	wantNear(t, "empirical", empirical, .3+.02+.02+3*m, 1e-15)
}

func TestBoundErrors(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	for _, b := range []Bound{
		{},
		{nan, .1, 10, .05}, {inf, .1, 10, .05}, {-1, .1, 10, .05},
		{1, 0, 10, .05}, {1, 1.1, 10, .05}, {1, nan, 10, .05},
		{1, .1, 0, .05}, {1, .1, inf, .05}, {1, .1, nan, .05},
		{1, .1, 10, 0}, {1, .1, 10, 1}, {1, .1, 10, nan},
	} {
		if _, err := b.Margin(); !errors.Is(err, ErrSetting) {
			t.Errorf("%+v: %v", b, err)
		}
		if _, err := b.Empirical(0, 0, 0); !errors.Is(err, ErrSetting) {
			t.Errorf("%+v: %v", b, err)
		}
	}
	good := Bound{1, .1, 10, .05}
	for _, in := range [][3]float64{{nan, 0, 0}, {0, inf, 0}, {0, 0, nan}} {
		if _, err := good.Population(in[0], in[1], in[2]); !errors.Is(err, ErrValue) {
			t.Errorf("%v: %v", in, err)
		}
	}
}

// class is a finite model class: the risks of every member on every pair, for o = 0 and o = 1.
type class struct {
	risks [][][2]float64 // member, pair, o
	theta []float64      // P(o = 1) of every pair
}

func newClass(t testing.TB, rng *rand.Rand, e Estimator, members, pairs int) class {
	c := class{theta: make([]float64, pairs)}
	for i := range c.theta {
		c.theta[i] = rng.Float64()
	}
	for range members {
		risks := make([][2]float64, pairs)
		for i := range risks {
			b := probabilities(t, rng.Float64(), rng.Float64())
			risks[i] = [2]float64{e.Risk(Observation{}, b), e.Risk(Observation{Linked: true}, b)}
		}
		c.risks = append(c.risks, risks)
	}
	return c
}

func (c class) draw(rng *rand.Rand) []int {
	o := make([]int, len(c.theta))
	for i := range o {
		if rng.Float64() < c.theta[i] {
			o[i] = 1
		}
	}
	return o
}

// supremum is the exact maximiser: it tries every member.
func (c class) supremum(o []int) Maximiser {
	return func(_ context.Context, signs []int8) (float64, error) {
		best := math.Inf(-1)
		for _, risks := range c.risks {
			total := 0.
			for i, sign := range signs {
				total += float64(sign) * risks[i][o[i]]
			}
			best = math.Max(best, total/float64(len(signs)))
		}
		return best, nil
	}
}

// phi is Φ(o) = sup of E[R̂] − R̂ over the class.
func (c class) phi(o []int) float64 {
	best := math.Inf(-1)
	for _, risks := range c.risks {
		total := 0.
		for i, r := range risks {
			total += c.theta[i]*r[1] + (1-c.theta[i])*r[0] - r[o[i]]
		}
		best = math.Max(best, total/float64(len(o)))
	}
	return best
}

// The drawn complexity agrees with the exact one, from all 2ⁿ signs.
func TestComplexityAgainstEnumeration(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for seed := range uint64(3) {
		rng := newRand(t, seed)
		const pairs = 9
		c := newClass(t, rng, Estimator{Scheme: W{}, Loss: CappedLogLoss{Cap: 2}, Floor: .1}, 6, pairs)
		maximise := c.supremum(c.draw(rng))
		exact := 0.
		signs := make([]int8, pairs)
		for bits := range 1 << pairs {
			for i := range signs {
				signs[i] = int8(bits>>i&1)*2 - 1
			}
			s, _ := maximise(ctx, signs)
			exact += s / (1 << pairs)
		}
		got, err := EstimateComplexity(ctx, pairs, 4000, seed, maximise)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got.Value-exact) > 4.5*got.StandardError || got.StandardError > .05*exact {
			t.Errorf("seed %d: complexity %+v, exact %v", seed, got, exact)
		}
		again, _ := EstimateComplexity(ctx, pairs, 4000, seed, maximise)
		if again != got {
			t.Error("the same seed gave another complexity")
		}
	}
}

// A class of one function has complexity 0, and one of f and −f has E|mean of σf|.
func TestComplexityOfSmallClasses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	mean := func(signs []int8) float64 {
		total := 0.
		for _, s := range signs {
			total += float64(s)
		}
		return total / float64(len(signs))
	}
	one, err := EstimateComplexity(ctx, 100, 5000, 1, func(_ context.Context, s []int8) (float64,
		error) {
		return mean(s), nil
	})
	if err != nil || math.Abs(one.Value) > 4.5*one.StandardError {
		t.Errorf("one function: %+v, %v", one, err)
	}
	wantNear(t, "its standard error", one.StandardError, .1/math.Sqrt(5000), .001)
	two, err := EstimateComplexity(ctx, 100, 5000, 2, func(_ context.Context, s []int8) (float64,
		error) {
		return math.Abs(mean(s)), nil
	})
	if want := binomialMiddle(100); err != nil || math.Abs(two.Value-want) > 4.5*two.StandardError {
		t.Errorf("f and −f: %+v, want %v, %v", two, want, err)
	}
}

// binomialMiddle returns C(n, n/2)/2ⁿ, which is E|Σσ|/n for even n.
func binomialMiddle(n int) float64 {
	p := 1.
	for k := 1; k <= n/2; k++ {
		p *= float64(n/2+k) / float64(k) / 4
	}
	return p
}

func TestComplexityErrors(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	zero := func(context.Context, []int8) (float64, error) { return 0, nil }
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		pairs, draws int
		maximise     Maximiser
		want         error
	}{
		"no pairs":  {0, 5, zero, ErrEmpty},
		"one draw":  {5, 1, zero, ErrSetting},
		"nil":       {5, 5, nil, ErrSetting},
		"failing":   {5, 5, func(context.Context, []int8) (float64, error) { return 0, boom }, boom},
		"unbounded": {5, 5, func(context.Context, []int8) (float64, error) { return math.Inf(1), nil }, ErrValue},
	} {
		if _, err := EstimateComplexity(ctx, c.pairs, c.draws, 0, c.maximise); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := EstimateComplexity(stopped, 5, 5, 0, zero); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

// Flipping one o moves a pair's risk by at most η/ε under W and PU, and by at most η under AP whatever ε
// is. Both are attained, so M/(2√2) is what McDiarmid's inequality gives.
func TestOneFlip(t *testing.T) {
	t.Parallel()
	const eta, floor = 2., .05
	rng := newRand(t, 8)
	largest := map[string]float64{}
	for range 40000 {
		b := logits(t, 12*rng.Float64()-6, 12*rng.Float64()-6)
		for name, scheme := range map[string]Scheme{"w": W{}, "pu": PU{}, "ap": AP{}} {
			e := Estimator{Scheme: scheme, Loss: CappedLogLoss{Cap: eta}, Floor: floor}
			flip := math.Abs(e.Risk(Observation{Linked: true}, b) - e.Risk(Observation{}, b))
			largest[name] = math.Max(largest[name], flip)
		}
	}
	for name, want := range map[string]float64{"w": eta / floor, "pu": eta / floor, "ap": eta} {
		if largest[name] > want*(1+1e-12) || largest[name] < .95*want {
			t.Errorf("%s: one flip moves a pair's risk by up to %v, want just under %v", name, largest[name], want)
		}
	}
}

// Φ(o) ≤ 2𝒢 + M/(2√2) except with probability δ₀, on a class small enough to compute everything, and a
// fortiori with M; likewise the empirical form with 3M/(2√2).
func TestBoundHolds(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "it starts no goroutine")
	const eta, floor, failure, pairs, draws = 1., .2, .1, 60, 1500
	ctx := context.Background()
	for name, scheme := range map[string]Scheme{"w": W{}, "pu": PU{}, "ap": AP{}} {
		rng := newRand(t, 9)
		c := newClass(t, rng, Estimator{Scheme: scheme, Loss: CappedLogLoss{Cap: eta}, Floor: floor}, 12, pairs)
		epsilon := floor
		if name == "ap" {
			epsilon = 1
		}
		margin, err := Bound{Loss: eta, Floor: epsilon, Universe: pairs, Failure: failure}.Margin()
		if err != nil {
			t.Fatal(err)
		}
		margin /= 2 * math.Sqrt2
		observed, phis, empirical := make([][]int, draws), make([]float64, draws), make([]float64, draws)
		signs := make([]int8, pairs)
		for d := range observed {
			observed[d] = c.draw(rng)
			phis[d] = c.phi(observed[d])
			drawSigns(signs, stream(9, uint64(d)))
			empirical[d], _ = c.supremum(observed[d])(ctx, signs) // one sign draw: its mean over o is 𝒢
		}
		complexity, _ := meanVariance(empirical)
		mean, _ := meanVariance(phis)
		if mean > 2*complexity {
			t.Errorf("%s: E[Φ] = %v above 2𝒢 = %v", name, mean, 2*complexity)
		}
		failed := 0
		for _, phi := range phis {
			if phi > 2*complexity+margin {
				failed++
			}
		}
		if float64(failed) > failure*draws {
			t.Errorf("%s: population form fails in %d of %d draws", name, failed, draws)
		}
		failed = 0
		for d := range 50 {
			g, err := EstimateComplexity(ctx, pairs, 100, uint64(d), c.supremum(observed[d]))
			if err != nil {
				t.Fatal(err)
			}
			if phis[d] > 2*g.Value+3*margin {
				failed++
			}
		}
		if failed > 10 {
			t.Errorf("%s: empirical form fails in %d of 50 draws", name, failed)
		}
	}
}
