package study

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"unseen/figure"
	"unseen/internal/racetest"
	"unseen/progress"
)

// small is a lab whose trainings take a fraction of a second.
func small(threads int, seeds ...uint64) *lab {
	o, err := Options{Seeds: seeds, Threads: threads, Quick: true}.WithDefaults()
	if err != nil {
		panic(err)
	}
	l := newLab(o)
	l.trainings.size = size{nodes: 160, dim: 8, fields: 3, spectrum: .25, pairs: 2000, validation: 300, test: 3000}
	return l
}

func trained(t *testing.T, l *lab, wanted []training) []*Outcome {
	t.Helper()
	outcomes, err := l.train(t.Context(), wanted)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range outcomes {
		if o.Failed != "" || o.Fields != wanted[i].fields || o.Seed != wanted[i].seed || o.Method != wanted[i].method {
			t.Fatalf("training %d, %s: %+v", i, wanted[i], o)
		}
	}
	return outcomes
}

// checkOutcomes looks at the trainings of table 1.
func checkOutcomes(t *testing.T, l *lab) {
	t.Helper()
	outcomes := trained(t, l, cross([]FieldKind{Random, Tied}, l.Seeds, table1Methods))
	for _, fields := range []FieldKind{Random, Tied} {
		ofKind := filter(outcomes, func(o *Outcome) bool { return o.Fields == fields })
		truth, without := byMethod(ofKind, oracle)[0], byMethod(ofKind, naive)[0]
		for _, o := range ofKind {
			t.Logf("%s %s: AUC %.3f recall %.3f risk %.4f mean ŷ %.3f π̂ %.2f", fields, o.Method.Name, o.AUC, o.Recall,
				o.Risk, o.MeanLink, o.PropensityError)
			if o.Risk < truth.Risk {
				t.Errorf("%s has a lower true risk than the truth: %v, %v", o.Method.Name, o.Risk, truth.Risk)
			}
			// What is defined by the same counts agrees: MAP = P·R + prevalence·(1−R), 1/F1 = (1/P + 1/R)/2.
			if !math.IsNaN(float64(o.Recall)) && !math.IsNaN(float64(o.Precision)) {
				prevalence := float64(byMethod(ofKind, cosine)[0].prevalence(t, o))
				if want := float64(o.Precision*o.Recall) +
					prevalence*float64(1-o.Recall); math.Abs(float64(o.ThresholdedAP)-want) > 1e-9 {
					t.Errorf("%s: thresholded AP %v, want %v", o.Method.Name, o.ThresholdedAP, want)
				}
			}
			switch o.Method {
			case mle, rw, pu, ap, bayes, knownMLE, knownBayes:
				if o.AUC < without.AUC-.002 || o.Recall < without.Recall+.25 || o.Risk > without.Risk/1.25 {
					t.Errorf("%s %s is no better than naive: %+v, %+v", fields, o.Method.Name, o, without)
				}
			case cosine:
				if !math.IsNaN(float64(o.Risk)) || !math.IsNaN(float64(o.Recall)) {
					t.Errorf("the cosine has probabilities: %+v", o)
				}
			}
			learned := slices.Contains([]Method{mle, rw, pu, ap, bayes}, o.Method)
			if learned != (len(o.Propensities) == 9) || learned != !math.IsNaN(float64(o.PropensityError)) {
				t.Errorf("%s has %d propensities and the error %v", o.Method.Name, len(o.Propensities),
					o.PropensityError)
			}
		}
		// With the true ŷ and π̂ every corrected estimator is right in the mean, and the naive one is not. The
		// tolerances are four standard errors: over ten worlds with 100,000 test pairs they were off by .003, .010 and
		// .001, and here there are 3,000.
		for _, e := range []struct {
			name            string
			mark, tolerance figure.Value
		}{{"w", truth.Estimates.W, .08}, {"pu", truth.Estimates.PU, .23}, {"ap", truth.Estimates.AP, .02}} {
			if !(math.Abs(float64(e.mark-truth.Risk)) < float64(e.tolerance)) {
				t.Errorf("%s estimates %v of %v", e.name, e.mark, truth.Risk)
			}
		}
		if truth.Estimates.Naive < truth.Risk+.1 {
			t.Errorf("naive estimates %v of %v", truth.Estimates.Naive, truth.Risk)
		}
	}
}

// prevalence follows from accuracy, precision and recall: with N pairs, TP = R·L and FP = TP·(1−P)/P, so that
// 1 − accuracy = (L − R·L + R·L·(1−P)/P)/N.
func (*Outcome) prevalence(t *testing.T, o *Outcome) figure.Value {
	t.Helper()
	return (1 - o.Accuracy) / (1 - o.Recall + o.Recall*(1-o.Precision)/o.Precision)
}

// Neither the number of threads nor what was trained before changes an outcome.
func TestOutcomesDependOnNothingElse(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestStudies has the same goroutines")
	wanted := cross([]FieldKind{Random}, []uint64{11, 12}, []Method{naive, ap, bayes, oracle})
	tiny := func(threads int) *lab {
		l := small(threads, 11, 12)
		l.trainings.size = size{nodes: 100, dim: 4, fields: 2, pairs: 400, validation: 100, test: 500}
		return l
	}
	first, l := trained(t, tiny(1), wanted), tiny(3)
	second := trained(t, l, append(cross([]FieldKind{Tied}, []uint64{11}, []Method{mle}), wanted[4:]...))
	third := trained(t, l, wanted)
	for i := range wanted {
		a, b := *first[i], *third[i]
		a.Seconds, b.Seconds = 0, 0
		if x, y := plain(a), plain(b); !reflect.DeepEqual(x, y) {
			t.Errorf("%s: %+v and %+v", wanted[i], x, y)
		}
	}
	if third[4] != second[1] {
		t.Error("what was remembered was trained again")
	}
	if reflect.DeepEqual(plain(*first[0]), plain(*first[4])) {
		t.Error("two seeds have one outcome")
	}
	if len(l.trainings.ready) != 0 {
		t.Errorf("%d worlds are kept", len(l.trainings.ready))
	}
}

// plain replaces NaN, which equals nothing.
func plain(o Outcome) Outcome {
	v := reflect.ValueOf(&o).Elem()
	clear := func(m reflect.Value) {
		if m.Kind() == reflect.Float64 && math.IsNaN(m.Float()) {
			m.SetFloat(-1)
		}
	}
	for i := range v.NumField() {
		clear(v.Field(i))
	}
	e := v.FieldByName("Estimates")
	for i := range e.NumField() {
		clear(e.Field(i))
	}
	return o
}

func TestSamplesShareNoPair(t *testing.T) {
	t.Parallel()
	l := small(1, 11)
	s := &subject{key: subjectKey{Tied, 11}}
	if err := s.prepare(t.Context(), l.trainings, 1); err != nil {
		t.Fatal(err)
	}
	defer s.close()
	seen := make(map[[2]int32]bool)
	for _, e := range s.known {
		pair := [2]int32{e.Source, e.Target}
		if seen[pair] {
			t.Fatalf("pair %v is there twice", pair)
		}
		seen[pair] = true
	}
	if want := 2000 + 300 + 3000; len(seen) != want {
		t.Errorf("%d pairs, want %d", len(seen), want)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	z := newTrainings(Options{}).size
	random, tied := z.settings(subjectKey{Random, 1}, 1), z.settings(subjectKey{Tied, 1}, 1)
	if !random.RandomFields || tied.RandomFields || len(random.Fields) != 19 || len(tied.Fields) != 19 ||
		random.Fields[0].Share != 0 || tied.Fields[0].Share == 0 {
		t.Errorf("random %+v, tied %+v", random, tied)
	}
	if e := z.effective(); math.Abs(e-31.7) > .1 { // (ln 768 + γ + …)²/(π²/6)
		t.Errorf("%v effective dimensions", e)
	}
}

func TestEach(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, threads := range []int{1, 4} {
		l := small(threads, 11)
		l.begin("test")
		var events []progress.Event
		l.Progress = func(e progress.Event) { events = append(events, e) }
		tasks := make([]task, 20)
		for i := range tasks {
			tasks[i] = task{name: "task", cost: 1, do: func(ctx context.Context) error { return nil }}
		}
		if err := l.each(t.Context(), tasks); err != nil || len(events) != 20 || events[19].Share() != 1 ||
			events[19].Phase != "test" || events[9].Share() != .5 {
			t.Errorf("%v, %+v", err, events)
		}
		tasks[3].do = func(context.Context) error { return broken }
		tasks[3].name = "the third"
		tasks[18].do = func(ctx context.Context) error { return ctx.Err() }
		if err := l.each(t.Context(), tasks); !errors.Is(err, broken) || !strings.Contains(err.Error(), "the third") {
			t.Errorf("%d threads: %v", threads, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		tasks[3].do = tasks[4].do
		tasks[2].do = func(context.Context) error { cancel(); return nil }
		if err := l.each(ctx, tasks); !errors.Is(err, context.Canceled) {
			t.Errorf("%d threads, cancelled: %v", threads, err)
		}
	}
}
