package risk

import (
	"errors"
	"math"
	"testing"
)

// By hand, 0–1 loss Δ = 1, π̂ = .5 everywhere:
//
//	pair  o  ŷ   w   PU: P, N     r_PU  W: r          AP: r
//	0     1  .8  1   2, −1        −1    0             0
//	1     0  .8  3   0, 1          1    ψ = 1/3       1/3
//	2     1  .2  1   2, −1         2    2             1
//	3     0  .2  5   0, 1          0    0             τ = 1/9
func fourPairs(t *testing.T) []Pair {
	high, low := probabilities(t, .8, .5), probabilities(t, .2, .5)
	return []Pair{
		{Observation{Linked: true}, high, 1, 7},
		{Observation{Linked: false}, high, 3, 7},
		{Observation{Linked: true}, low, 1, 9},
		{Observation{Linked: false}, low, 5, 9},
	}
}

func TestEstimateByHand(t *testing.T) {
	t.Parallel()
	pairs := fourPairs(t)
	for _, c := range []struct {
		scheme Scheme
		total  float64 // Σ w·r
		share  float64 // of negative mass in Σ w·|N|
	}{
		{Naive{}, 3 + 1, 0},
		{W{}, 1 + 2, 0},
		{PU{}, -1 + 3 + 2, 2. / 10},
		{AP{}, 1 + 1 + 5./9, 0},
	} {
		for _, universe := range []float64{0, 40} {
			divisor := 10.
			if universe > 0 {
				divisor = universe
			}
			e := Estimator{Scheme: c.scheme, Loss: ZeroOne{}, Universe: universe}
			got, err := e.Estimate(pairs)
			if err != nil {
				t.Fatal(err)
			}
			wantNear(t, "value", got.Value, c.total/divisor, 1e-15)
			wantNear(t, "negative mass", got.NegativeMass, c.share, 1e-15)
			if got.Pairs != 4 || got.Weight != 10 || got.Clipped != 0 || len(got.Warnings) != 0 {
				t.Errorf("%T: %+v", c.scheme, got)
			}
			s, err := e.Sample(pairs)
			if err != nil {
				t.Fatal(err)
			}
			mean, err := s.Mean()
			if err != nil || mean != got.Value {
				t.Errorf("%T: sample's mean %v, %v, estimate %v", c.scheme, mean, err, got.Value)
			}
		}
	}
}

func TestEstimateZeroEstimatorIsAPLog(t *testing.T) {
	t.Parallel()
	zero, err := Estimator{}.Estimate(fourPairs(t))
	if err != nil {
		t.Fatal(err)
	}
	named, _ := Estimator{Scheme: AP{}, Loss: LogLoss{}}.Estimate(fourPairs(t))
	if zero.Value != named.Value {
		t.Errorf("zero estimator %v, AP under log-loss %v", zero.Value, named.Value)
	}
}

func TestEstimateErrors(t *testing.T) {
	t.Parallel()
	good := fourPairs(t)
	with := func(change func(p *Pair)) []Pair {
		pairs := fourPairs(t)
		change(&pairs[2])
		return pairs
	}
	for name, c := range map[string]struct {
		e     Estimator
		pairs []Pair
		want  error
	}{
		"empty":             {Estimator{}, nil, ErrEmpty},
		"zero belief":       {Estimator{}, with(func(p *Pair) { p.Belief = Belief{} }), ErrBelief},
		"zero weight":       {Estimator{}, with(func(p *Pair) { p.Weight = 0 }), ErrWeight},
		"negative weight":   {Estimator{}, with(func(p *Pair) { p.Weight = -1 }), ErrWeight},
		"NaN weight":        {Estimator{}, with(func(p *Pair) { p.Weight = math.NaN() }), ErrWeight},
		"infinite weight":   {Estimator{}, with(func(p *Pair) { p.Weight = math.Inf(1) }), ErrWeight},
		"huge weight":       {Estimator{}, with(func(p *Pair) { p.Weight = 1e200 }), ErrWeight},
		"no relevance":      {Estimator{Scheme: True{}}, good, ErrMass},
		"nil MassFunc":      {Estimator{Scheme: MassFunc(nil)}, good, ErrMass},
		"zero cap":          {Estimator{Loss: CappedLogLoss{}}, good, ErrLoss},
		"negative cost":     {Estimator{Loss: ZeroOne{Cost: -1}}, good, ErrLoss},
		"NaN cost":          {Estimator{Loss: ZeroOne{Cost: math.NaN()}}, good, ErrLoss},
		"NaN loss":          {Estimator{Loss: undefined{}}, good, ErrLoss},
		"NaN floor":         {Estimator{Floor: math.NaN()}, good, ErrSetting},
		"floor above 1":     {Estimator{Floor: 2}, good, ErrSetting},
		"negative universe": {Estimator{Universe: -1}, good, ErrSetting},
		"infinite universe": {Estimator{Universe: math.Inf(1)}, good, ErrSetting},
		"both infinities": {Estimator{Scheme: PU{}},
			[]Pair{{Observation{Linked: true}, logits(t, math.Inf(1), 0), 1, 0},
				{Observation{}, logits(t, math.Inf(1), 0), 1, 0}}, ErrValue},
		"overflow of finite": {Estimator{Scheme: W{}},
			[]Pair{{Observation{Linked: true}, logits(t, -700, -700), 1e3, 0}}, ErrValue},
	} {
		if _, err := c.e.Estimate(c.pairs); !errors.Is(err, c.want) {
			t.Errorf("%s: Estimate error %v, want %v", name, err, c.want)
		}
	}
	if _, err := (Estimator{}).Sample(nil); !errors.Is(err, ErrEmpty) {
		t.Errorf("Sample of nothing: %v", err)
	}
}

// undefined is a loss that is nowhere a number.
type undefined struct{ LogLoss }

func (undefined) Losses(Belief) (linked, unlinked float64) { return math.NaN(), math.NaN() }

func TestWarnings(t *testing.T) {
	t.Parallel()
	rare := probabilities(t, .9, .01)
	for _, c := range []struct {
		name  string
		e     Estimator
		pairs []Pair
		want  []WarningKind
	}{
		{"PU below 0", Estimator{Scheme: PU{}}, []Pair{{Observation{Linked: true}, rare, 1, 0}},
			[]WarningKind{WarnNegative}},
		{"infinite", Estimator{Scheme: Naive{}}, []Pair{{Observation{Linked: true}, probabilities(t, 0, .5), 1, 0}},
			[]WarningKind{WarnInfinite}},
		{"infinite below", Estimator{Scheme: PU{}}, []Pair{{Observation{Linked: true}, probabilities(t, .9, 0), 1, 0}},
			[]WarningKind{WarnNegative, WarnInfinite}},
		{"clipped", Estimator{Floor: .05}, []Pair{{Observation{}, rare, 1, 0}}, []WarningKind{WarnClipped}},
		{"weights", Estimator{}, heavy(t), []WarningKind{WarnWeights}},
	} {
		got, err := c.e.Estimate(c.pairs)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		kinds := []WarningKind{}
		for _, w := range got.Warnings {
			kinds = append(kinds, w.Kind)
			if w.String() != string(w.Kind)+": "+w.Message || w.Message == "" {
				t.Errorf("%s: warning %q", c.name, w)
			}
		}
		if len(kinds) != len(c.want) {
			t.Errorf("%s: warnings %v, want %v", c.name, kinds, c.want)
			continue
		}
		for k := range kinds {
			if kinds[k] != c.want[k] {
				t.Errorf("%s: warnings %v, want %v", c.name, kinds, c.want)
			}
		}
	}
}

// heavy is thirty pairs of which one carries nearly all the weight.
func heavy(t *testing.T) []Pair {
	pairs := make([]Pair, 30)
	for i := range pairs {
		pairs[i] = Pair{Belief: probabilities(t, .5, .5), Weight: 1, Source: i}
	}
	pairs[3].Weight = 1e4
	return pairs
}

func TestClippedShareIsWeighted(t *testing.T) {
	t.Parallel()
	pairs := []Pair{
		{Observation{}, probabilities(t, .5, .01), 3, 0},
		{Observation{}, probabilities(t, .5, .5), 7, 1},
		{Observation{}, probabilities(t, .5, .001).Floored(.02), 10, 1}, // clipped before it came here
	}
	got, err := Estimator{Floor: .02}.Estimate(pairs)
	if err != nil {
		t.Fatal(err)
	}
	wantNear(t, "clipped share", got.Clipped, 13./20, 1e-15)
	if pairs[0].Belief.Clipped() {
		t.Error("Estimate changed the caller's pairs")
	}
}

// Sampling with inclusion probabilities: Horvitz–Thompson's mean is unbiased for the full mean, Hájek's
// nearly, and both are the plain mean when every pair is taken.
func TestInclusionWeights(t *testing.T) {
	t.Parallel()
	rng := newRand(t, 6)
	const universe, draws = 300, 1000
	full := make([]Pair, universe)
	inclusion := make([]float64, universe)
	for i := range full {
		full[i] = Pair{observe(rng, Truth{.5, .5}), probabilities(t, rng.Float64(), .3+.7*rng.Float64()), 1, i}
		inclusion[i] = .1 + .8*rng.Float64()
	}
	plain, err := Estimator{}.Estimate(full)
	if err != nil {
		t.Fatal(err)
	}
	whole, _ := Estimator{Universe: universe}.Estimate(full)
	if plain.Value != whole.Value {
		t.Errorf("Hájek %v and Horvitz–Thompson %v differ on the whole universe", plain.Value, whole.Value)
	}
	ht, hajek := make([]float64, draws), make([]float64, draws)
	for d := range draws {
		var part []Pair
		for i, p := range full {
			if rng.Float64() < inclusion[i] {
				p.Weight = 1 / inclusion[i]
				part = append(part, p)
			}
		}
		a, errA := Estimator{Universe: universe}.Estimate(part)
		b, errB := Estimator{}.Estimate(part)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		ht[d], hajek[d] = a.Value, b.Value
	}
	mean, variance := meanVariance(ht)
	if se := math.Sqrt(variance / draws); math.Abs(mean-plain.Value) > 4.5*se {
		t.Errorf("Horvitz–Thompson's mean %v ± %v, full %v", mean, se, plain.Value)
	}
	mean, spread := meanVariance(hajek)
	wantNear(t, "Hájek's mean", mean, plain.Value, .01)
	if spread >= variance {
		t.Errorf("Hájek's variance %v is not below Horvitz–Thompson's %v", spread, variance)
	}
}
