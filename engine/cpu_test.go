package engine

import (
	"context"
	"errors"
	"testing"

	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
)

// A scheme or a visitor of somebody's own that panics in a worker is an error of the call.
func TestPanicsOfWorkersAreErrors(t *testing.T) {
	t.Parallel()
	nodes, pairs := smallSample(t, 30, 4, 500, 1)
	p := Predictor{Link: must(model.NewDiagonal(nodes, false))(t), Propensity: must(model.NewFieldMatrix(nodes))(t)}
	p.LinkParams, p.PropensityParams = make([]float32, p.Link.Size()), make([]float32, p.Propensity.Size())
	broken := risk.MassFunc(func(risk.Observation, risk.Belief) risk.Mass { panic("broken") })
	o := &Objective{Link: p.Link, Propensity: p.Propensity, LambdaL: 1, LambdaR: 1, Risk: OtherRisk,
		Estimator: risk.Estimator{Scheme: broken}, Pairs: pairs}
	params, grad := make([]float32, o.Size()), make([]float32, o.Size())
	for name, call := range map[string]func(context.Context, Engine) error{
		"Gradient": func(ctx context.Context, e Engine) error {
			_, err := e.Gradient(ctx, o, params, nil)
			return err
		},
		"Minibatch": func(ctx context.Context, e Engine) error {
			return e.Minibatch(ctx, o, []int{1, 2, 3}, params, grad)
		},
		"Scan": func(ctx context.Context, e Engine) error {
			_, err := e.Scan(ctx, Scan{Pairs: pairs, Versions: []Predictor{p},
				Visit: func(Portion) error { panic("broken") }})
			return err
		},
	} {
		for _, threads := range []int{1, 3} {
			err := call(t.Context(), CPU{Threads: threads})
			var panicked *kern.PanicError
			if !errors.As(err, &panicked) || panicked.Value != "broken" {
				t.Errorf("%s with %d threads: %v", name, threads, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := call(ctx, CPU{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, cancelled: %v", name, err)
		}
	}
}
