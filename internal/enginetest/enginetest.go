// Package enginetest has an engine that counts what is asked of it, and that fails where a test wants it to.
package enginetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
)

// Watched is the processor with somebody who is asked before every call, and who counts what is open.
type Watched struct {
	engine.Engine
	Before func(call string, number int) error // its error is the call's; nil lets all calls through

	mu     sync.Mutex
	counts map[string]int
	total  int
	open   int // designs, likelihoods and curvatures that nobody has closed
}

// New watches two threads.
func New() *Watched { return &Watched{Engine: engine.CPU{Threads: 2}, counts: map[string]int{}} }

// Calls returns the names of what was called, in alphabetical order.
func (e *Watched) Calls() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Keys(e.counts))
}

// Total returns how many calls there were.
func (e *Watched) Total() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.total
}

// Open returns how many designs, likelihoods and curvatures nobody has closed.
func (e *Watched) Open() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.open
}

func (e *Watched) call(name string) error {
	e.mu.Lock()
	e.counts[name]++
	e.total++
	number := e.total
	e.mu.Unlock()
	if e.Before == nil {
		return nil
	}
	return e.Before(name, number)
}

func (e *Watched) opened(by int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open += by
}

// Gradient implements engine.Engine.
func (e *Watched) Gradient(ctx context.Context, o *engine.Objective, params []float32,
	grad []float64) (engine.Parts, error) {
	if err := e.call("Gradient"); err != nil {
		return engine.Parts{}, err
	}
	return e.Engine.Gradient(ctx, o, params, grad)
}

// Minibatch implements engine.Engine.
func (e *Watched) Minibatch(ctx context.Context, o *engine.Objective, places []int,
	params, grad []float32) error {
	if err := e.call("Minibatch"); err != nil {
		return err
	}
	return e.Engine.Minibatch(ctx, o, places, params, grad)
}

// Alternate implements engine.Engine.
func (e *Watched) Alternate(o *engine.Objective) (engine.Alternation, error) {
	if err := e.call("Alternate"); err != nil {
		return nil, err
	}
	return e.Engine.Alternate(o)
}

// Scan implements engine.Engine.
func (e *Watched) Scan(ctx context.Context, s engine.Scan) ([][]float64, error) {
	if err := e.call("Scan"); err != nil {
		return nil, err
	}
	return e.Engine.Scan(ctx, s)
}

// TopK implements engine.Engine.
func (e *Watched) TopK(ctx context.Context, s engine.TargetSearch) ([][]engine.Hit, error) {
	if err := e.call("TopK"); err != nil {
		return nil, err
	}
	return e.Engine.TopK(ctx, s)
}

// AllPairs implements engine.Engine.
func (e *Watched) AllPairs(ctx context.Context, g *graph.Graph, p engine.Predictor, u graph.Universe,
	floor float64) (engine.Means, error) {
	if err := e.call("AllPairs"); err != nil {
		return engine.Means{}, err
	}
	return e.Engine.AllPairs(ctx, g, p, u, floor)
}

// Design implements engine.Engine.
func (e *Watched) Design(ctx context.Context, p engine.DesignPairs) (engine.Design, error) {
	if err := e.call("Design"); err != nil {
		return nil, err
	}
	d, err := e.Engine.Design(ctx, p)
	if err == nil {
		e.opened(1)
	}
	return &watchedDesign{d, e}, err
}

type watchedDesign struct {
	engine.Design
	e *Watched
}

func (d *watchedDesign) Close() error {
	d.e.opened(-1)
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
		d.e.opened(1)
	}
	return &watchedLikelihood{l, d.e}, err
}

func (d *watchedDesign) Assume(ctx context.Context, o engine.Outcomes,
	a engine.Assumptions) (engine.AssumedLikelihood, error) {
	if err := d.e.call("Assume"); err != nil {
		return nil, err
	}
	l, err := d.Design.Assume(ctx, o, a)
	if err == nil {
		d.e.opened(1)
	}
	return &watchedAssumed{watchedLikelihood{l, d.e}, l}, err
}

type watchedAssumed struct {
	watchedLikelihood
	assumed engine.AssumedLikelihood
}

func (l *watchedAssumed) Means(ctx context.Context, theta []float64, of []engine.PairMean) ([]float64, [][]float64,
	error) {
	if err := l.e.call("Means"); err != nil {
		return nil, nil, err
	}
	return l.assumed.Means(ctx, theta, of)
}

func (l *watchedAssumed) GroupGradients(ctx context.Context, theta []float64, g engine.PairGroups) ([][]float64,
	error) {
	if err := l.e.call("GroupGradients"); err != nil {
		return nil, err
	}
	return l.assumed.GroupGradients(ctx, theta, g)
}

func (l *watchedAssumed) GroupValues(ctx context.Context, theta [][]float64, g engine.PairGroups) ([]float64, error) {
	if err := l.e.call("GroupValues"); err != nil {
		return nil, err
	}
	return l.assumed.GroupValues(ctx, theta, g)
}

type watchedLikelihood struct {
	engine.LogLikelihood
	e *Watched
}

func (l *watchedLikelihood) Close() error {
	l.e.opened(-1)
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
		l.e.opened(1)
	}
	return &watchedCurvature{c, l.e}, err
}

type watchedCurvature struct {
	engine.Curvature
	e *Watched
}

func (c *watchedCurvature) Close() error {
	c.e.opened(-1)
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

var errBroken = errors.New("the engine broke")

// Fault is a way in which an engine fails in the middle of a call.
type Fault struct {
	Fail func(cancel context.CancelFunc) error
	Is   func(err error) bool // whether an error comes of it
}

// Faults are all of them, by name.
var Faults = map[string]Fault{
	"context": {
		func(cancel context.CancelFunc) error {
			cancel()
			return nil // the call itself sees it
		},
		func(err error) bool { return errors.Is(err, context.Canceled) },
	},
	"error": {
		func(context.CancelFunc) error { return errBroken },
		func(err error) bool { return errors.Is(err, errBroken) },
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

// Check runs work on an engine that counts, on one without operations and on one that fails, early or late, in every
// way. Results are those of no engine, which is the processor; what fails has none, and leaves nothing open or running.
func Check(t *testing.T, calls []string, work func(ctx context.Context, e engine.Engine) (any, error)) {
	t.Helper()
	want, err := work(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	whole := New()
	got, err := work(t.Context(), whole)
	// the second comparison is for results with NaN
	if err != nil || !reflect.DeepEqual(got, want) && fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
	if asked := whole.Calls(); !slices.Equal(asked, calls) {
		t.Errorf("calls of %v, want %v", asked, calls)
	}
	none := New()
	none.Before = func(call string, _ int) error { return fmt.Errorf("%w: %s", engine.ErrUnsupported, call) }
	if got, err := work(t.Context(), none); !errors.Is(err, engine.ErrUnsupported) || exists(got) {
		t.Errorf("without operations: result %t, %v", exists(got), err)
	}
	for name, fault := range Faults {
		for _, at := range []int{1, 1 + whole.Total()/2, whole.Total()} {
			before := runtime.NumGoroutine()
			ctx, cancel := context.WithCancel(t.Context())
			e := New()
			e.Before = func(_ string, number int) error {
				if number != at {
					return nil
				}
				return fault.Fail(cancel)
			}
			if got, err := work(ctx, e); !fault.Is(err) || exists(got) || e.Open() > 0 {
				t.Errorf("%s in call %d of %d: result %t, %d left open, %v", name, at, whole.Total(), exists(got),
					e.Open(), err)
			}
			WaitForGoroutines(t, before)
			cancel()
		}
	}
}

// exists reports whether there is a result, or anything of it.
func exists(result any) bool { return result != nil && !reflect.ValueOf(result).IsNil() }

// WaitForGoroutines waits until no more run than before.
func WaitForGoroutines(t *testing.T, most int) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > most; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines run on, %d did before", runtime.NumGoroutine(), most)
		}
	}
}
