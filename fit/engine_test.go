package fit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"unseen/engine"
	"unseen/internal/kern"
)

// watchedEngine is the processor with somebody who is asked before every call, and who counts what is open.
type watchedEngine struct {
	engine.Engine
	before func(call string) error

	mu    sync.Mutex
	calls map[string]int
	open  atomic.Int64 // designs, likelihoods and curvatures that nobody has closed
}

func newWatchedEngine() *watchedEngine {
	return &watchedEngine{Engine: engine.CPU{Threads: 2}, calls: map[string]int{}}
}

func (e *watchedEngine) call(name string) error {
	e.mu.Lock()
	e.calls[name]++
	e.mu.Unlock()
	if e.before == nil {
		return nil
	}
	return e.before(name)
}

// total returns how many calls there were.
func (e *watchedEngine) total() (n int) {
	for _, count := range e.calls {
		n += count
	}
	return n
}

func (e *watchedEngine) Gradient(ctx context.Context, o *engine.Objective, params []float32,
	grad []float64) (engine.Parts, error) {
	if err := e.call("Gradient"); err != nil {
		return engine.Parts{}, err
	}
	return e.Engine.Gradient(ctx, o, params, grad)
}

func (e *watchedEngine) Minibatch(ctx context.Context, o *engine.Objective, places []int,
	params, grad []float32) error {
	if err := e.call("Minibatch"); err != nil {
		return err
	}
	return e.Engine.Minibatch(ctx, o, places, params, grad)
}

func (e *watchedEngine) Scan(ctx context.Context, s engine.Scan) ([][]float64, error) {
	if err := e.call("Scan"); err != nil {
		return nil, err
	}
	return e.Engine.Scan(ctx, s)
}

func (e *watchedEngine) Design(ctx context.Context, p engine.DesignPairs) (engine.Design, error) {
	if err := e.call("Design"); err != nil {
		return nil, err
	}
	d, err := e.Engine.Design(ctx, p)
	if err == nil {
		e.open.Add(1)
	}
	return &watchedDesign{d, e}, err
}

type watchedDesign struct {
	engine.Design
	e *watchedEngine
}

func (d *watchedDesign) Close() error {
	d.e.open.Add(-1)
	return d.Design.Close()
}

func (d *watchedDesign) Logits(ctx context.Context, theta []float64) ([]float32, error) {
	if err := d.e.call("Logits"); err != nil {
		return nil, err
	}
	return d.Design.Logits(ctx, theta)
}

func (d *watchedDesign) Leverage(ctx context.Context, root engine.Root) ([]float32, error) {
	if err := d.e.call("Leverage"); err != nil {
		return nil, err
	}
	return d.Design.Leverage(ctx, root)
}

func (d *watchedDesign) Observe(ctx context.Context, o engine.Outcomes) (engine.LogLikelihood, error) {
	if err := d.e.call("Observe"); err != nil {
		return nil, err
	}
	l, err := d.Design.Observe(ctx, o)
	if err == nil {
		d.e.open.Add(1)
	}
	return &watchedLikelihood{l, d.e}, err
}

type watchedLikelihood struct {
	engine.LogLikelihood
	e *watchedEngine
}

func (l *watchedLikelihood) Close() error {
	l.e.open.Add(-1)
	return l.LogLikelihood.Close()
}

func (l *watchedLikelihood) Value(ctx context.Context, theta, grad []float64) (float64, error) {
	if err := l.e.call("Value"); err != nil {
		return 0, err
	}
	return l.LogLikelihood.Value(ctx, theta, grad)
}

func (l *watchedLikelihood) Information(ctx context.Context, theta []float64) ([]float64, error) {
	if err := l.e.call("Information"); err != nil {
		return nil, err
	}
	return l.LogLikelihood.Information(ctx, theta)
}

func (l *watchedLikelihood) Calibrate(ctx context.Context, theta []float64) (scale, shift float64, err error) {
	if err := l.e.call("Calibrate"); err != nil {
		return 0, 0, err
	}
	return l.LogLikelihood.Calibrate(ctx, theta)
}

func (l *watchedLikelihood) Curvature(ctx context.Context, theta []float64) (engine.Curvature, error) {
	if err := l.e.call("Curvature"); err != nil {
		return nil, err
	}
	c, err := l.LogLikelihood.Curvature(ctx, theta)
	if err == nil {
		l.e.open.Add(1)
	}
	return &watchedCurvature{c, l.e}, err
}

type watchedCurvature struct {
	engine.Curvature
	e *watchedEngine
}

func (c *watchedCurvature) Close() error {
	c.e.open.Add(-1)
	return c.Curvature.Close()
}

func (c *watchedCurvature) Times(ctx context.Context, v [][]float64) ([][]float64, error) {
	if err := c.e.call("Times"); err != nil {
		return nil, err
	}
	return c.Curvature.Times(ctx, v)
}

func (c *watchedCurvature) Noise(ctx context.Context, seed uint64, joint, given int) ([][]float64, error) {
	if err := c.e.call("Noise"); err != nil {
		return nil, err
	}
	return c.Curvature.Noise(ctx, seed, joint, given)
}

// everyMethod are small settings of every method, by either optimiser, and of both ways to V.
func everyMethod() map[string]Settings {
	out := map[string]Settings{}
	for method := range Methods() {
		s := Settings{Method: method, Seed: 3, Threads: 2, Starts: []float64{.3, .8}, Replicates: 1,
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
			e := newWatchedEngine()
			s.Engine = e
			got := mustFit(t, p, s)
			got.Settings.Engine = nil
			sameResult(t, want, got)
			calls := slices.Sorted(maps.Keys(e.calls))
			expected := []string{"Gradient", "Minibatch", "Scan"}
			switch {
			case name == "cosine":
				expected = []string{"Scan"}
			case name == "bayes":
				expected = strings.Fields("Calibrate Design Information Leverage Logits Observe Scan Value")
			case name == "bayes by draws":
				expected = strings.Fields("Calibrate Curvature Design Leverage Logits Noise Observe Scan Times Value")
			case strings.HasSuffix(name, "lbfgs"):
				expected = []string{"Gradient", "Scan"}
			}
			if !slices.Equal(calls, expected) {
				t.Errorf("calls of %v, want %v", e.calls, expected)
			}
			if open := e.open.Load(); open != 0 {
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
		e := newWatchedEngine()
		e.before = func(call string) error { return fmt.Errorf("%w: %s", engine.ErrUnsupported, call) }
		s.Engine = e
		if _, err := Fit(t.Context(), p, s); !errors.Is(err, engine.ErrUnsupported) || e.total() != 1 {
			t.Errorf("%s: %v after %d calls", name, err, e.total())
		}
	}
}

var errEngine = errors.New("the engine broke")

// faults are the ways in which an engine fails in the middle of a call.
var faults = map[string]struct {
	fail func(cancel context.CancelFunc) error
	is   func(err error) bool
}{
	"context": {
		func(cancel context.CancelFunc) error {
			cancel()
			return nil // the call itself sees it
		},
		func(err error) bool { return errors.Is(err, context.Canceled) },
	},
	"error": {
		func(context.CancelFunc) error { return errEngine },
		func(err error) bool { return errors.Is(err, errEngine) },
	},
	"panic": {
		func(context.CancelFunc) error {
			return kern.ChunksErr(context.Background(), 8, 1, 2, func(_, chunk, _, _ int) error {
				if chunk == 5 {
					panic("a worker broke")
				}
				return nil
			})
		},
		func(err error) bool {
			var panicked *kern.PanicError
			return errors.As(err, &panicked) && panicked.Value == "a worker broke"
		},
	},
}

// Wherever an engine fails, Fit returns the error, leaves nothing open or running, and its checkpoint goes on to the
// same result on an engine that works.
func TestEveryMethodSurvivesAFailingEngine(t *testing.T) {
	p := checkpointProblem(t, 1)
	for name, s := range everyMethod() {
		whole := newWatchedEngine()
		s.Engine = whole
		want := mustFit(t, p, s)
		want.Settings.Engine = nil
		total := whole.total()
		for fault, f := range faults {
			for _, at := range []int{1, 1 + total/4, 1 + total/2, total} {
				t.Run(fmt.Sprintf("%s/%s/%d", name, fault, at), func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					before := runtime.NumGoroutine()
					e := newWatchedEngine()
					e.before = func(string) error {
						if e.total() != at {
							return nil
						}
						return f.fail(cancel)
					}
					s.Engine = e
					s.Checkpoint = Checkpoint{Path: filepath.Join(t.TempDir(), "checkpoint"), Every: time.Nanosecond}
					if _, err := Fit(ctx, p, s); !f.is(err) {
						t.Fatalf("call %d of %d: %v", at, total, err)
					}
					if open := e.open.Load(); open != 0 {
						t.Errorf("%d of what was opened are not closed", open)
					}
					waitForGoroutines(t, before)
					s.Engine, s.Checkpoint.Resume = nil, exists(t, s.Checkpoint.Path)
					sameResult(t, want, mustFit(t, p, s))
				})
			}
		}
	}
}

// exists tells whether there is a checkpoint to go on from; there is none where nothing had begun.
func exists(t *testing.T, path string) bool {
	t.Helper()
	found, err := filepath.Glob(path)
	if err != nil {
		t.Fatal(err)
	}
	return len(found) > 0
}

func waitForGoroutines(t *testing.T, most int) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > most; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines run on, %d did before", runtime.NumGoroutine(), most)
		}
	}
}
