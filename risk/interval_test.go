package risk

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"unseen/internal/racetest"
)

// Efron and Tibshirani's mouse data (An Introduction to the Bootstrap, table 2.1): mean 86.86, standard
// error 25.24, bootstrap standard error 23.36. The BCa ends are from 400,000 resamples of another
// implementation.
func TestMouseData(t *testing.T) {
	t.Parallel()
	s := Sample{Values: []float64{94, 197, 16, 38, 99, 141, 23}}
	normal, err := s.Normal(.95, Nuisance{})
	if err != nil {
		t.Fatal(err)
	}
	wantNear(t, "mean", normal.Estimate, 86.857142857142861, 1e-15)
	wantNear(t, "standard error", normal.StandardError, 25.235489533052238, 1e-14)
	wantNear(t, "upper", normal.Upper, normal.Estimate+2.446911851144969*normal.StandardError, 1e-12) // t₆ at .975
	for _, c := range []struct {
		method       BootstrapMethod
		lower, upper float64
	}{
		{Percentile, 43.43, 134.43},
		{BCa, 46.29, 138.29},
	} {
		got, err := s.Bootstrap(context.Background(), .95, Bootstrap{Method: c.method, Resamples: 40000, Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		wantNear(t, "bootstrap standard error", got.StandardError, 23.36, .01)
		wantNear(t, "lower", got.Lower, c.lower, .012)
		wantNear(t, "upper", got.Upper, c.upper, .012)
	}
	u, _ := s.units()
	wantNear(t, "acceleration", u.acceleration(), .029120581262803976, 1e-13)
}

func TestIntervalsByHand(t *testing.T) {
	t.Parallel()
	values := []float64{1, 2, 3, 4}
	twos := []float64{2, 2, 2, 2}
	const t3, t1 = 3.1824463052837078, 12.706204736174706 // Student's .975 quantiles
	for _, c := range []struct {
		name     string
		s        Sample
		mean, se float64
		quantile float64
	}{
		{"pairs", Sample{Values: values}, 2.5, math.Sqrt(5. / 12), t3},
		{"constant weights", Sample{Values: values, Weights: twos}, 2.5, math.Sqrt(5. / 12), t3},
		{"Horvitz–Thompson", Sample{Values: values, Weights: twos, Universe: 8}, 2.5, math.Sqrt(5. / 12), t3},
		{"Horvitz–Thompson, half", Sample{Values: values, Weights: twos, Universe: 16}, 1.25, math.Sqrt(5./12) / 2, t3},
		// Clusters {1, 2} and {3, 4}: D = ∓½, √(2·½) = 1.
		{"clusters", Sample{Values: values, Sources: []int{5, 5, -1, -1}}, 2.5, 1, t1},
		// Weights 1, 1, 1, 3: R̂ = 18/6 = 3; D = −2/6, −1/6, 0, 3/6; √(4/3·14/36).
		{"uneven weights", Sample{Values: values, Weights: []float64{1, 1, 1, 3}}, 3, math.Sqrt(4. / 3 * 14 / 36), t3},
		{"no spread", Sample{Values: []float64{2, 2, 2, 2}}, 2, 0, t3},
	} {
		got, err := c.s.Normal(.95, Nuisance{})
		if err != nil {
			t.Fatal(err)
		}
		wantNear(t, c.name+": mean", got.Estimate, c.mean, 1e-14)
		wantNear(t, c.name+": standard error", got.StandardError, c.se, 1e-14)
		wantNear(t, c.name+": lower", got.Lower, c.mean-c.quantile*c.se, 1e-12)
		wantNear(t, c.name+": upper", got.Upper, c.mean+c.quantile*c.se, 1e-12)
	}
}

func TestNuisanceWidensAndCentres(t *testing.T) {
	t.Parallel()
	s := Sample{Values: []float64{1, 2, 3, 4}, Sources: []int{0, 0, 1, 1}}
	got, err := s.Normal(.9, Nuisance{Variance: 3, Bias: .5})
	if err != nil {
		t.Fatal(err)
	}
	wantNear(t, "estimate", got.Estimate, 2, 1e-15)
	wantNear(t, "standard error", got.StandardError, 2, 1e-15) // √(1 + 3)
	wantNear(t, "half-width", (got.Upper-got.Lower)/2, 2*6.313751514675043, 1e-12)
}

func TestStudentQuantile(t *testing.T) {
	t.Parallel()
	// Tables of Student's t at .975; the normal's 1.959964 beyond 10⁶ degrees, and no step on the way.
	for degrees, want := range map[int]float64{1: 12.7062047, 5: 2.5705818, 30: 2.0422725, 1000: 1.9623391,
		1_000_000: 1.9599664, 1_000_001: 1.9599640} {
		wantNear(t, "t", studentQuantile(.95, degrees), want, 1e-6)
	}
}

func TestBernsteinByHand(t *testing.T) {
	t.Parallel()
	logs := math.Log(80)
	for _, c := range []struct {
		name       string
		s          Sample
		low, high  float64
		mean, half float64
	}{
		{"pairs", Sample{Values: []float64{0, 1, 0, 1}}, 0, 1, .5, 4.26284095612422},
		// Two clusters of two, unit means 0 and 1: V = ½, ρ = 1, G = 2.
		{"clusters", Sample{Values: []float64{0, 0, 1, 1}, Sources: []int{1, 1, 2, 2}}, 0, 1, .5, math.Sqrt(.5*logs) +
			7*logs/3},
		// Weights 1 and 3 of 4: unit values 0 and 2·3·1/4 = 1.5; V = 1.125; the heavier unit's range is 1.5.
		{"weights", Sample{Values: []float64{0, 1}, Weights: []float64{1, 3}}, 0, 1, .75, math.Sqrt(1.125*logs) +
			7*1.5*logs/3},
		// Horvitz–Thompson over 8: unit values 0 and 2·3/8 = .75.
		{"universe", Sample{Values: []float64{0, 1}, Weights: []float64{1, 3}, Universe: 8}, 0, 1, .375,
			math.Sqrt(.28125*logs) + 7*.75*logs/3},
		// A range that goes below 0, as PU's: ρ from the heavier unit on both ends.
		{"negative", Sample{Values: []float64{-1, 1}, Weights: []float64{1, 3}}, -1, 1, .5, math.Sqrt(2*logs) +
			7*3*logs/3},
	} {
		got, err := c.s.Bernstein(.95, c.low, c.high)
		if err != nil {
			t.Fatal(err)
		}
		wantNear(t, c.name+": mean", got.Estimate, c.mean, 1e-15)
		wantNear(t, c.name+": half-width", (got.Upper-got.Lower)/2, c.half, 1e-13)
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	got, err := Sample{Values: make([]float64, 4), Weights: []float64{1, 1, 1, 3}, Sources: []int{4, 4, 9, 4}}.Size()
	if err != nil || got != (Size{Pairs: 4, Clusters: 2, Effective: 3}) { // 6²/12
		t.Errorf("size %+v, %v", got, err)
	}
	got, _ = Sample{Values: make([]float64, 4)}.Size()
	if got != (Size{4, 4, 4}) {
		t.Errorf("size %+v", got)
	}
}

func TestSampleErrors(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	nan, inf := math.NaN(), math.Inf(1)
	two := []float64{1, 2}
	for name, c := range map[string]struct {
		s    Sample
		want error
	}{
		"empty":          {Sample{}, ErrEmpty},
		"weights":        {Sample{Values: two, Weights: []float64{1}}, ErrLength},
		"sources":        {Sample{Values: two, Sources: []int{1}}, ErrLength},
		"NaN":            {Sample{Values: []float64{1, nan}}, ErrValue},
		"infinite":       {Sample{Values: []float64{1, inf}}, ErrValue},
		"zero weight":    {Sample{Values: two, Weights: []float64{1, 0}}, ErrWeight},
		"NaN weight":     {Sample{Values: two, Weights: []float64{1, nan}}, ErrWeight},
		"tiny weights":   {Sample{Values: two, Weights: []float64{1e-200, 1e-200}}, ErrWeight},
		"huge weights":   {Sample{Values: two, Weights: []float64{1e200, 1}}, ErrWeight},
		"universe":       {Sample{Values: two, Universe: nan}, ErrSetting},
		"overflow":       {Sample{Values: []float64{1e308, 1e308}}, ErrValue},
		"one unit":       {Sample{Values: []float64{1}}, ErrClusters},
		"single cluster": {Sample{Values: two, Sources: []int{3, 3}}, ErrClusters},
	} {
		_, normal := c.s.Normal(.9, Nuisance{})
		_, bernstein := c.s.Bernstein(.9, -10, 10)
		_, bootstrap := c.s.Bootstrap(ctx, .9, Bootstrap{Resamples: 100})
		for _, err := range []error{normal, bernstein, bootstrap} {
			if !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
		if _, err := c.s.Mean(); (err == nil) != (c.want == ErrClusters) {
			t.Errorf("%s: Mean error %v", name, err)
		}
		if _, err := c.s.Size(); (err == nil) != (c.want == ErrClusters) {
			t.Errorf("%s: Size error %v", name, err)
		}
	}
	good := Sample{Values: two}
	for _, level := range []float64{0, 1, -1, 95, nan} {
		_, normal := good.Normal(level, Nuisance{})
		_, bernstein := good.Bernstein(level, 0, 3)
		_, bootstrap := good.Bootstrap(ctx, level, Bootstrap{})
		for _, err := range []error{normal, bernstein, bootstrap} {
			if !errors.Is(err, ErrSetting) {
				t.Errorf("level %v: %v", level, err)
			}
		}
	}
	for _, n := range []Nuisance{{Variance: -1}, {Variance: nan}, {Variance: inf}, {Bias: inf}} {
		if _, err := good.Normal(.9, n); !errors.Is(err, ErrSetting) {
			t.Errorf("%+v: %v", n, err)
		}
	}
	for _, b := range []Bootstrap{{Resamples: 99}, {Resamples: -1}, {Threads: -1}, {Method: 9}} {
		if _, err := good.Bootstrap(ctx, .9, b); !errors.Is(err, ErrSetting) {
			t.Errorf("%+v: %v", b, err)
		}
	}
	for _, r := range [][2]float64{{3, 0}, {nan, 1}, {0, inf}} {
		if _, err := good.Bernstein(.9, r[0], r[1]); !errors.Is(err, ErrSetting) {
			t.Errorf("range %v: %v", r, err)
		}
	}
	if _, err := good.Bernstein(.9, 0, 1.5); !errors.Is(err, ErrValue) {
		t.Errorf("value outside the range: %v", err)
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := good.Bootstrap(stopped, .9, Bootstrap{}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

// The interval depends on the seed and on nothing else.
func TestBootstrapIsDeterministic(t *testing.T) {
	t.Parallel()
	rng := newRand(t, 1)
	s := clustered(rng, 40)
	var first Interval
	for k, threads := range []int{1, 2, 3, 8, 0} {
		got, err := s.Bootstrap(context.Background(), .9, Bootstrap{Resamples: 501, Seed: 7, Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		if k == 0 {
			first = got
		} else if got != first {
			t.Errorf("%d threads: %+v, one thread %+v", threads, got, first)
		}
	}
	if other, _ := s.Bootstrap(context.Background(), .9, Bootstrap{Resamples: 501, Seed: 8}); other == first {
		t.Error("another seed gave the same interval")
	}
}

func TestConstantSampleHasPointInterval(t *testing.T) {
	t.Parallel()
	s := Sample{Values: []float64{.1, .1, .1, .1, .1}}
	for _, method := range []BootstrapMethod{BCa, Percentile} {
		got, err := s.Bootstrap(context.Background(), .95, Bootstrap{Method: method, Resamples: 100})
		if err != nil || got.Lower != got.Upper || !near(got.Lower, .1, 1e-15) {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// clustered draws a sample whose sources differ in their level: given its source, a value is 0 or 1
// with the source's own probability, uniform on (0, .8). Cluster sizes and weights vary. The mean is .4.
func clustered(rng *rand.Rand, sources int) Sample {
	var s Sample
	for source := range sources {
		level := .8 * rng.Float64()
		for range 5 + rng.IntN(15) {
			value := 0.
			if rng.Float64() < level {
				value = 1
			}
			s.Values = append(s.Values, value)
			s.Weights = append(s.Weights, 1+rng.Float64())
			s.Sources = append(s.Sources, source)
		}
	}
	return s
}

// On clustered data the intervals that know the sources cover near their nominal level and the one
// that takes the pairs for independent does not.
func TestCoverage(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestBootstrapIsDeterministic has the same goroutines")
	const repetitions, sources, truth, level = 200, 40, .4, .95
	ctx := context.Background()
	rng := newRand(t, 2024)
	covered := map[string]int{}
	for r := range repetitions {
		s := clustered(rng, sources)
		independent := s
		independent.Sources = nil
		total := s
		total.Universe = sources * 12 * 1.5 // expected pairs of a source, expected weight
		for name, interval := range map[string]func() (Interval, error){
			"normal": func() (Interval, error) { return s.Normal(level, Nuisance{}) },
			"BCa": func() (Interval, error) {
				return s.Bootstrap(ctx, level,
					Bootstrap{Resamples: 300, Seed: uint64(r)})
			},
			"percentile": func() (Interval, error) {
				return s.Bootstrap(ctx, level, Bootstrap{Method: Percentile, Resamples: 300, Seed: uint64(r)})
			},
			"Horvitz–Thompson": func() (Interval, error) {
				return total.Bootstrap(ctx, level, Bootstrap{Resamples: 300, Seed: uint64(r)})
			},
			"Bernstein":     func() (Interval, error) { return s.Bernstein(level, 0, 1) },
			"normal, pairs": func() (Interval, error) { return independent.Normal(level, Nuisance{}) },
		} {
			got, err := interval()
			if err != nil {
				t.Fatal(err)
			}
			if got.Lower > got.Estimate || got.Estimate > got.Upper {
				t.Fatalf("%s: %+v does not hold its own estimate", name, got)
			}
			if got.Lower <= truth && truth <= got.Upper {
				covered[name]++
			}
		}
	}
	for name, limits := range map[string][2]float64{
		"normal": {.92, .98}, "BCa": {.91, .98}, "percentile": {.91, .98}, "Horvitz–Thompson": {.91, .98},
		"Bernstein":     {.99, 1},
		"normal, pairs": {.5, .85},
	} {
		if share := float64(covered[name]) / repetitions; share < limits[0] || share > limits[1] {
			t.Errorf("%s covers %.3f, want within %v", name, share, limits)
		}
	}
	t.Logf("covered of %d: %v", repetitions, covered)
}

// At moderate samples of independent values Bernstein's interval covers at least its level, also for the
// rare values where the normal interval fails.
func TestBernsteinCoversRareValues(t *testing.T) {
	t.Parallel()
	const repetitions, n, rate = 2000, 60, .02
	rng := newRand(t, 5)
	normal, bernstein := 0, 0
	for range repetitions {
		s := Sample{Values: make([]float64, n)}
		for i := range s.Values {
			if rng.Float64() < rate {
				s.Values[i] = 1
			}
		}
		a, errA := s.Normal(.95, Nuisance{})
		b, errB := s.Bernstein(.95, 0, 1)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if a.Lower <= rate && rate <= a.Upper {
			normal++
		}
		if b.Lower <= rate && rate <= b.Upper {
			bernstein++
		}
	}
	if normal > .8*repetitions || bernstein < .95*repetitions {
		t.Errorf("of %d, normal covers %d and Bernstein %d", repetitions, normal, bernstein)
	}
}

// BCa's level rises with the nominal one also past the pole of z/(1−az), where it stays at 0 or 1.
func TestBCaLevelPastThePole(t *testing.T) {
	t.Parallel()
	for _, acceleration := range []float64{-.6, -.03, 0, .03, .6} {
		last := 0.
		for _, level := range []float64{1e-15, 1e-6, .025, .5, .975, 1 - 1e-6, 1 - 1e-15} {
			got := bcaLevel(level, .1, acceleration)
			if !(got >= last && got <= 1) {
				t.Errorf("acceleration %v: level %v gives %v after %v", acceleration, level, got, last)
			}
			last = got
		}
	}
	wantNear(t, "plain", bcaLevel(.025, 0, 0), .025, 1e-12)
}

// Resampled means that tie with the estimate count half, and a share of 0 or 1 is kept finite.
func TestBiasCorrection(t *testing.T) {
	t.Parallel()
	u := units{mean: .5}
	wantNear(t, "ties", u.biasCorrection([]float64{0, .5, .5, 1}), 0, 1e-12)
	wantNear(t, "a quarter below", u.biasCorrection([]float64{0, 1, 1, 1}), -.6744897501960817, 1e-12)
	wantNear(t, "none below", u.biasCorrection([]float64{1, 1, 1, 1}), -1.1503493803760079, 1e-12) // Φ⁻¹(⅛)
}

// Of n draws the k-th is the quantile at k/(n+1), which a further draw from the same distribution falls below with
// exactly that probability.
func TestQuantile(t *testing.T) {
	t.Parallel()
	nine := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}
	for _, c := range []struct {
		values  []float64
		p, want float64
	}{
		{nine, .1, 1}, {nine, .5, 5}, {nine, .9, 9}, {nine, .25, 2.5}, {nine, .05, 1}, {nine, .99, 9}, {nine, 0, 1},
		{nine, 1, 9}, {[]float64{7}, .3, 7}, {[]float64{1, 2}, .5, 1.5}, {nil, .5, math.NaN()},
		{[]float64{-math.MaxFloat64, math.MaxFloat64}, .5, 0},
	} {
		if got := Quantile(c.values, c.p); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("the %v-quantile of %v is %v, want %v", c.p, c.values, got, c.want)
		}
	}
	const draws, repetitions = 4, 200_000
	rng := rand.New(rand.NewPCG(11, 12))
	below, values := 0, make([]float64, draws)
	for range repetitions {
		for k := range values {
			values[k] = rng.ExpFloat64()
		}
		slices.Sort(values)
		if rng.ExpFloat64() < Quantile(values, .2) {
			below++
		}
	}
	wantNear(t, "a further draw below the .2-quantile", float64(below)/repetitions, .2, .005)
}
