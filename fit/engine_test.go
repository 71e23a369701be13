package fit

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"unseen/engine"
	"unseen/internal/enginetest"
	"unseen/internal/racetest"
)

// everyMethod are small settings of every method, by either optimiser, and of both ways to V.
func everyMethod() map[string]Settings {
	out := map[string]Settings{}
	for method := range Methods() {
		s := Settings{Method: method, Doctor: FullDoctor, Seed: 3, Threads: 2, Starts: []float64{.3, .8}, Replicates: 1,
			Adam: AdamSettings{Epochs: 2, Batch: 200}, LBFGS: LBFGSSettings{Iterations: 3}}
		out[method] = s
		switch method {
		case "cosine":
		case "bayes":
			s.mostExact, s.draws = 4, 8
			out["bayes by draws"] = s
		default:
			s.Optimiser, s.Ridge = "lbfgs", 4
			out[method+" by lbfgs"] = s
		}
	}
	return out
}

// What is heavy in a method goes through the engine, whatever it is, and everything that was opened is closed.
func TestEveryMethodRunsOnAnyEngine(t *testing.T) {
	t.Parallel()
	p := checkpointProblem(t, 1)
	for name, s := range everyMethod() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := mustFit(t, p, s)
			e := enginetest.New()
			s.Engine = e
			got := mustFit(t, p, s)
			got.Settings.Engine = nil
			sameResult(t, want, got)
			calls := e.Calls()
			expected := []string{"Gradient", "Minibatch", "Scan"}
			switch {
			case name == "cosine":
				expected = []string{"Scan"}
			case name == "bayes":
				expected = strings.Fields("Assume Calibrate Design GroupGradients GroupValues Information Leverage " +
					"Logits Means Observe Scan TopK Value")
			case name == "bayes by draws":
				expected = strings.Fields("Calibrate Curvature Design Leverage Logits Noise Observe Scan Times Value")
			case strings.HasSuffix(name, "lbfgs"):
				expected = []string{"Gradient", "Scan"}
			}
			if !slices.Equal(calls, expected) {
				t.Errorf("calls of %v, want %v", calls, expected)
			}
			if open := e.Open(); open != 0 {
				t.Errorf("%d of what was opened are not closed", open)
			}
		})
	}
}

// An engine without any operation: nothing is fitted behind its back.
func TestNothingIsFittedWithoutTheEngine(t *testing.T) {
	t.Parallel()
	p := checkpointProblem(t, 1)
	for name, s := range everyMethod() {
		e := enginetest.New()
		e.Before = func(call string, _ int) error { return fmt.Errorf("%w: %s", engine.ErrUnsupported, call) }
		s.Engine = e
		if _, err := Fit(t.Context(), p, s); !errors.Is(err, engine.ErrUnsupported) || e.Total() != 1 {
			t.Errorf("%s: %v after %d calls", name, err, e.Total())
		}
	}
}

// Wherever an engine fails, Fit returns the error, leaves nothing open or running, and its checkpoint goes on to the
// same result on an engine that works.
func TestEveryMethodSurvivesAFailingEngine(t *testing.T) {
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	p := checkpointProblem(t, 1)
	for name, s := range everyMethod() {
		whole := enginetest.New()
		s.Engine = whole
		want := mustFit(t, p, s)
		want.Settings.Engine = nil
		total := whole.Total()
		calls := []int{1, 1 + total/4, 1 + total/2, total}
		if testing.Short() {
			calls = calls[2:3]
		}
		for fault, f := range enginetest.Faults {
			for _, at := range calls {
				t.Run(fmt.Sprintf("%s/%s/%d", name, fault, at), func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					before := runtime.NumGoroutine()
					e := enginetest.New()
					e.Before = func(_ string, number int) error {
						if number != at {
							return nil
						}
						return f.Fail(cancel)
					}
					s.Engine = e
					s.Checkpoint = Checkpoint{Path: filepath.Join(t.TempDir(), "checkpoint"), Every: time.Nanosecond}
					if _, err := Fit(ctx, p, s); !f.Is(err) {
						t.Fatalf("call %d of %d: %v", at, total, err)
					}
					if open := e.Open(); open != 0 {
						t.Errorf("%d of what was opened are not closed", open)
					}
					enginetest.WaitForGoroutines(t, before)
					s.Engine, s.Checkpoint.Resume = nil, exists(t, s.Checkpoint.Path)
					sameResult(t, want, mustFit(t, p, s))
				})
			}
		}
	}
}

// exists reports whether there is a checkpoint to resume from; there is none where nothing had begun.
func exists(t *testing.T, path string) bool {
	t.Helper()
	found, err := filepath.Glob(path)
	if err != nil {
		t.Fatal(err)
	}
	return len(found) > 0
}
