package risk

import (
	"errors"
	"math"
	"testing"

	"unseen/internal/racetest"
)

var lemmas = map[string]Lemma{"naive": Naive{}, "w": W{}, "pu": PU{}, "ap": AP{}}

// By hand: π = .6, y = .8, π̂ = .5, ŷ = .4 (ô = 0; q = .8, ψ = .75, τ = .25) or ŷ = .8 (ô = 1; q = .6,
// ψ = 1/3, τ = 2/3). πy = .48.
func TestLemmasByHand(t *testing.T) {
	t.Parallel()
	truth := Truth{.6, .8}
	low, high := probabilities(t, .4, .5), probabilities(t, .8, .5)
	for _, c := range []struct {
		name         string
		b            Belief
		term, factor float64
	}{
		{"naive", low, .8 * .4, 1},
		{"naive", high, -.8 * .4, 1},
		{"w", low, .8 * (1 - 1.2), 4},
		{"w", high, 1 - .8 - .52/3, 1. / 9},
		{"pu", low, .8 * (1 - 1.2), 4},
		{"pu", high, -.8 * (1 - 1.2), 4},
		{"ap", low, .32 - .52*.25, .75 * .75},
		{"ap", high, 1 - .8 - .52/3, 1. / 9},
	} {
		wantNear(t, c.name+" term", lemmas[c.name].BiasTerm(truth, c.b), c.term, 1e-14)
		wantNear(t, c.name+" factor", lemmas[c.name].VarianceFactor(c.b), c.factor, 1e-14)
		m, err := ClosedForm(lemmas[c.name], 2, []Truth{truth}, []Belief{c.b})
		if err != nil {
			t.Fatal(err)
		}
		wantNear(t, c.name+" bias", m.Bias, -2*c.term, 1e-14)
		wantNear(t, c.name+" variance", m.Variance, 4*.48*.52*c.factor, 1e-14)
		if m.AbsoluteBias() != math.Abs(m.Bias) {
			t.Error("absolute bias")
		}
	}
}

// The lemmas and the enumeration of outcomes are two ways to the same numbers.
func TestClosedFormIsMoments(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		rng := newRand(t, seed)
		truths, beliefs := world(t, rng, 300)
		for name, scheme := range corrected {
			closed, err := ClosedForm(lemmas[name], 1.7, truths, beliefs)
			if err != nil {
				t.Fatal(err)
			}
			direct, err := Estimator{Scheme: scheme, Loss: ZeroOne{Cost: 1.7}}.Moments(truths, beliefs)
			if err != nil {
				t.Fatal(err)
			}
			wantNear(t, name+" bias", direct.Bias, closed.Bias, 1e-13)
			wantNear(t, name+" variance", direct.Variance/closed.Variance, 1, 1e-12)
		}
	}
}

// Simulated means and variances agree with the closed forms within five standard errors.
func TestLemmasBySimulation(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "it starts no goroutine")
	const pairs, draws = 40, 8000
	for seed := range uint64(3) {
		rng := newRand(t, 100+seed)
		truths, beliefs := world(t, rng, pairs)
		values := map[string][]float64{}
		sample := make([]Pair, pairs)
		for range draws {
			for i, truth := range truths {
				sample[i] = Pair{observe(rng, truth), beliefs[i], 1, i}
			}
			for name, scheme := range corrected {
				e := Estimator{Scheme: scheme, Loss: ZeroOne{Cost: 1.5}}
				var total float64
				for i := range sample {
					total += e.Risk(sample[i].Observation, sample[i].Belief)
				}
				values[name] = append(values[name], total/pairs)
			}
		}
		truth, err := Estimator{Scheme: True{}, Loss: ZeroOne{Cost: 1.5}}.Estimate(sample)
		if err != nil {
			t.Fatal(err)
		}
		for name := range corrected {
			want, err := ClosedForm(lemmas[name], 1.5, truths, beliefs)
			if err != nil {
				t.Fatal(err)
			}
			mean, variance := meanVariance(values[name])
			if se := math.Sqrt(want.Variance / draws); math.Abs(mean-truth.Value-want.Bias) > 5*se {
				t.Errorf("seed %d, %s: simulated bias %v ± %v, lemma %v", seed, name, mean-truth.Value, se, want.Bias)
			}
			var fourth Sum
			for _, v := range values[name] {
				fourth.Add(math.Pow(v-mean, 4))
			}
			if se := math.Sqrt((fourth.Value()/draws - variance*variance) / draws); math.Abs(
				variance-want.Variance) > 5*se {
				t.Errorf("seed %d, %s: simulated variance %v ± %v, lemma %v", seed, name, variance, se, want.Variance)
			}
		}
	}
}

// PU is unbiased when π̂ = π; W and AP when ŷ = y too, and in general not without.
func TestUnbiasedness(t *testing.T) {
	t.Parallel()
	rng := newRand(t, 7)
	truths, beliefs := world(t, rng, 200)
	right, onlyPropensity := make([]Belief, 200), make([]Belief, 200)
	for i, truth := range truths {
		right[i] = probabilities(t, truth.Link, truth.Propensity)
		onlyPropensity[i] = probabilities(t, beliefs[i].Link(), truth.Propensity)
	}
	for _, c := range []struct {
		name     string
		beliefs  []Belief
		unbiased bool
	}{
		{"pu", right, true}, {"pu", onlyPropensity, true}, {"pu", beliefs, false},
		{"w", right, true}, {"w", onlyPropensity, false},
		{"ap", right, true}, {"ap", onlyPropensity, false},
		{"naive", right, false},
	} {
		for _, loss := range []Loss{ZeroOne{}, CappedLogLoss{Cap: 5}} {
			m, err := Estimator{Scheme: builtins[c.name], Loss: loss}.Moments(truths, c.beliefs)
			if err != nil {
				t.Fatal(err)
			}
			if unbiased := m.AbsoluteBias() < 1e-14; unbiased != c.unbiased {
				t.Errorf("%s under %T: bias %v, want unbiased %v", c.name, loss, m.Bias, c.unbiased)
			}
		}
	}
	m, err := Estimator{Scheme: True{}, Loss: LogLoss{}}.Moments(truths, right)
	if err != nil || m.AbsoluteBias() > 1e-15 || m.Variance > 1e-30 {
		t.Errorf("the true risk has moments %+v, %v", m, err)
	}
}

// Theorem 3.1: Var(AP) < Var(naive) and Var(AP) ≤ Var(W) ≤ Var(PU), with equality on the left where
// every ô = 1 and on the right where every ô = 0.
func TestVarianceOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rng := newRand(t, seed)
		truths, beliefs := world(t, rng, 1+rng.IntN(12))
		variance := map[string]float64{}
		for name, lemma := range lemmas {
			m, err := ClosedForm(lemma, 1, truths, beliefs)
			if err != nil {
				t.Fatal(err)
			}
			variance[name] = m.Variance
		}
		predicted := 0
		for _, b := range beliefs {
			if b.Predicted() {
				predicted++
			}
		}
		if !(variance["ap"] < variance["naive"]) {
			t.Fatalf("seed %d: Var(AP) = %v, Var(naive) = %v", seed, variance["ap"], variance["naive"])
		}
		if equal := predicted == len(beliefs); equal && variance["ap"] != variance["w"] || !equal &&
			!(variance["ap"] < variance["w"]) {
			t.Fatalf("seed %d: %d of %d ô = 1: Var(AP) = %v, Var(W) = %v", seed, predicted, len(beliefs),
				variance["ap"], variance["w"])
		}
		if equal := predicted == 0; equal && variance["w"] != variance["pu"] || !equal &&
			!(variance["w"] < variance["pu"]) {
			t.Fatalf("seed %d: %d of %d ô = 1: Var(W) = %v, Var(PU) = %v", seed, predicted, len(beliefs),
				variance["w"], variance["pu"])
		}
	}
}

// The theorem is about the 0–1 loss. Under the log-loss Var(W) ≤ Var(PU) fails: at π = π̂ = .6 and y = ŷ = .3
// W's risk moves by δ(1)/π̂ − ψδ(0) and PU's by (δ(1) − δ(0))/π̂, which is less since ψ < 1/π̂.
func TestVarianceOrderNeedsTheZeroOneLoss(t *testing.T) {
	t.Parallel()
	truths, beliefs := []Truth{{.6, .3}}, []Belief{probabilities(t, .3, .6)}
	variance := map[string]float64{}
	for name, scheme := range corrected {
		m, err := Estimator{Scheme: scheme}.Moments(truths, beliefs)
		if err != nil {
			t.Fatal(err)
		}
		variance[name] = m.Variance
	}
	linked, unlinked := -math.Log(.3), -math.Log(.7)
	wantNear(t, "W", variance["w"], .18*.82*math.Pow(linked/.6-.7/.82*unlinked, 2), 1e-14)
	wantNear(t, "PU", variance["pu"], .18*.82*math.Pow((linked-unlinked)/.6, 2), 1e-14)
	if !(variance["w"] > variance["pu"]) {
		t.Errorf("Var(W) = %v, Var(PU) = %v", variance["w"], variance["pu"])
	}
}

// AP's masses sum to 1, so under any loss its risk moves by ψ(δ(1) − δ(0)): less than naive's and PU's.
func TestAPVarianceIsLowUnderAnyLoss(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		truths, beliefs := world(t, newRand(t, seed), 20)
		for _, loss := range []Loss{LogLoss{}, CappedLogLoss{Cap: 1}, ZeroOne{}} {
			variance := map[string]float64{}
			for name, scheme := range corrected {
				m, err := Estimator{Scheme: scheme, Loss: loss}.Moments(truths, beliefs)
				if err != nil {
					t.Fatal(err)
				}
				variance[name] = m.Variance
			}
			if !(variance["ap"] < variance["naive"] && variance["naive"] < variance["pu"]) {
				t.Errorf("seed %d, %T: %v", seed, loss, variance)
			}
		}
	}
}

func TestMomentsErrors(t *testing.T) {
	t.Parallel()
	truths, beliefs := []Truth{{.5, .5}}, []Belief{probabilities(t, .5, .5)}
	for name, c := range map[string]struct {
		lemma   Lemma
		cost    float64
		truths  []Truth
		beliefs []Belief
		want    error
	}{
		"nil":         {nil, 1, truths, beliefs, ErrMass},
		"zero cost":   {AP{}, 0, truths, beliefs, ErrSetting},
		"NaN cost":    {AP{}, math.NaN(), truths, beliefs, ErrSetting},
		"lengths":     {AP{}, 1, truths, nil, ErrLength},
		"empty":       {AP{}, 1, nil, nil, ErrEmpty},
		"NaN π":       {AP{}, 1, []Truth{{math.NaN(), .5}}, beliefs, ErrProbability},
		"y above 1":   {AP{}, 1, []Truth{{.5, 1.5}}, beliefs, ErrProbability},
		"zero belief": {AP{}, 1, truths, make([]Belief, 1), ErrBelief},
	} {
		if _, err := ClosedForm(c.lemma, c.cost, c.truths, c.beliefs); !errors.Is(err, c.want) {
			t.Errorf("%s: ClosedForm error %v, want %v", name, err, c.want)
		}
	}
	if _, err := (Estimator{Floor: -1}).Moments(truths, beliefs); !errors.Is(err, ErrSetting) {
		t.Errorf("bad floor: %v", err)
	}
	if _, err := (Estimator{Scheme: Naive{}}).Moments(truths, []Belief{probabilities(t, 0, .5)}); !errors.Is(err,
		ErrValue) {
		t.Errorf("∞ − ∞: %v", err)
	}
	m, err := ClosedForm(PU{}, 1, truths, []Belief{probabilities(t, .2, 0)})
	if err != nil || !math.IsInf(m.Bias, 1) || !math.IsInf(m.Variance, 1) {
		t.Errorf("PU at π̂ = 0: %+v, %v", m, err)
	}
	m, err = ClosedForm(PU{}, 1, []Truth{{0, .5}}, []Belief{probabilities(t, .2, 0)})
	if err != nil || m != (Moments{-.5, 0}) {
		t.Errorf("PU at π = π̂ = 0: %+v, %v", m, err)
	}
}
