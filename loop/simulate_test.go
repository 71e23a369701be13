package loop

import (
	"context"
	"errors"
	"math"
	"reflect"
	"testing"

	"unseen/fit"
	"unseen/internal/racetest"
	"unseen/progress"
)

// small is a loop of a fraction of a second.
func small(method string) Settings {
	return Settings{Papers: 60, Dim: 6, Shown: 6, Rounds: 3, Method: method, SeesField: true, UnshownNegative: true,
		Negatives: 1000, Seed: 5, Threads: 1}
}

// Both switches on, a naive recommender takes exposure for relevance, more so every round; one that
// corrects for exposure stays near the truth.
func TestNaiveLoopDriftsAndBayesDoesNot(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestSimulateDoesNotDependOnThreads has the same goroutines")
	s := Settings{Papers: 150, Dim: 10, SeesField: true, UnshownNegative: true, Seed: 3, Rounds: 3, Threads: 2,
		Negatives: 1000}
	run := func(method string) *History {
		s.Method = method
		h, err := Simulate(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	naive, bayes := run("naive"), run("bayes")
	truth := mean(naive.Truth)
	first, last := naive.Rounds[0].All, naive.Rounds[2].All
	t.Logf("truth %.3f; naive %.3f → %.3f; bayes %.3f → %.3f", truth, first, last, bayes.Rounds[0].All,
		bayes.Rounds[2].All)
	if !(first > truth+.1 && last > first+.1) {
		t.Errorf("naive goes from %v to %v, truth %v", first, last, truth)
	}
	for round, r := range bayes.Rounds {
		if math.Abs(r.All-truth) > .1 {
			t.Errorf("bayes is at %v in round %d, truth %v", r.All, round+1, truth)
		}
	}
	if got := mean(naive.Exposed); got < truth+.15 {
		t.Errorf("in proportion to π·y the share is %v, to y %v", got, truth)
	}
}

func TestSimulateDoesNotDependOnThreads(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"naive", "rw", "bayes"} {
		s := small(method)
		one, err := Simulate(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		s.Threads = 4
		four, err := Simulate(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(one.Rounds, four.Rounds) || !reflect.DeepEqual(one.Truth, four.Truth) {
			t.Errorf("%s: %v with one thread, %v with four", method, one.Rounds, four.Rounds)
		}
		for round, r := range one.Rounds {
			if r.Links == 0 || !(r.All > 0 && r.All < 1) || len(r.Same) != 2 {
				t.Errorf("%s round %d is %+v", method, round, r)
			}
		}
	}
}

func TestRepeat(t *testing.T) {
	t.Parallel()
	s := small("naive")
	s.Threads = 3
	var steps []int
	s.Progress = func(e progress.Event) {
		if e.Of != 9 {
			t.Errorf("%d rounds in all, want 9", e.Of)
		}
		steps = append(steps, int(e.Done))
	}
	histories, err := Repeat(context.Background(), s, []uint64{7, 5, 9})
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) != 9 || steps[8] != 9 {
		t.Errorf("progress was %v", steps)
	}
	alone, err := Simulate(context.Background(), small("naive"))
	if err != nil || !reflect.DeepEqual(alone.Rounds, histories[1].Rounds) {
		t.Errorf("seed 5 alone gives %+v, among others %+v (%v)", alone, histories[1], err)
	}
	bands := Bands(histories)
	for k, b := range bands {
		sum := 0.
		for _, h := range histories {
			sum += h.Rounds[k].All
		}
		if b.Round != k+1 || math.Abs(b.Mean-sum/3) > 1e-12 || !(b.Low <= b.Mean && b.Mean <= b.High) {
			t.Errorf("band %+v", b)
		}
	}
	if b := TruthBand(histories); !(b.Low > 0 && b.Low < b.High && b.High < 1) {
		t.Errorf("truth %+v", b)
	}

	ctx, cancel := context.WithCancel(context.Background())
	s.Progress = func(progress.Event) { cancel() }
	_, err = Repeat(ctx, s, []uint64{1, 2, 3, 4})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := Repeat(context.Background(), s, nil); !errors.Is(err, ErrSetting) {
		t.Errorf("no seeds: %v", err)
	}
}

// The first of the clocks is each in proportion to its rate, and so on among those left.
func TestRecommendIsInProportion(t *testing.T) {
	t.Parallel()
	l := &simulation{s: Settings{Papers: 1200, Shown: 2, Seed: 1, Threads: 2}}
	per := l.s.Papers - 1
	l.weights = make([]float64, l.s.Papers*per)
	rates := []float64{5, 3, 2} // of three candidates for every paper
	for i := range l.s.Papers {
		copy(l.weights[i*per:], rates)
	}
	shown, err := l.recommend(context.Background(), "test", 0)
	if err != nil {
		t.Fatal(err)
	}
	times := make([]float64, 3)
	for _, k := range shown {
		times[int(k)%per]++
	}
	for c, a := range rates {
		want := a / 10 // first, or second after one of the others
		for o, b := range rates {
			if o != c {
				want += b / 10 * a / (10 - b)
			}
		}
		n := float64(l.s.Papers)
		if got, sd := times[c]/n, math.Sqrt(want*(1-want)/n); math.Abs(got-want) > 4*sd {
			t.Errorf("candidate %d is in %v of the lists, want %v", c, got, want)
		}
	}
}

// Unlinked pairs are thinned at the rate that the pairs say, links never.
func TestSample(t *testing.T) {
	t.Parallel()
	l, err := newSimulation(context.Background(), small("naive").WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	all := l.pairs.Pairs
	p := l.sample(all.Linked, nil, 0)
	links := func(linked []bool) (n int) {
		for _, is := range linked {
			if is {
				n++
			}
		}
		return n
	}
	var weight float64
	for _, w := range p.Weight {
		weight += w
	}
	if links(p.Linked) != links(all.Linked) || math.Abs(weight/float64(all.Len())-1) > .1 ||
		p.Universe != int64(all.Len()) {
		t.Errorf("%d links of %d, weight %v of %d", links(p.Linked), links(all.Linked), weight, all.Len())
	}
	shown := []int32{3, 50, 700}
	l.s.UnshownNegative = false
	if got := l.sample(all.Linked, shown, 1); got.Len() != 3 || got.Source[2] != all.Source[700] {
		t.Errorf("of three recommended pairs %d are trained on", got.Len())
	}
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]Settings{
		"papers": {Papers: 3}, "too many": {Papers: 1e6}, "fields": {Fields: 1},
		"more fields than half": {Papers: 20, Fields: 11},
		"dim":                   {Dim: -1}, "shown": {Shown: 410}, "rounds": {Rounds: -1}, "negatives": {Negatives: 5},
		"threads": {Threads: -1},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Simulate(context.Background(), s); !errors.Is(err, ErrSetting) {
				t.Errorf("%v, want ErrSetting", err)
			}
		})
	}
	if err := (Settings{Method: "magic"}).Validate(); !errors.Is(err, ErrSetting) || !errors.Is(err, fit.ErrSetting) {
		t.Errorf("method: %v", err)
	}
}
