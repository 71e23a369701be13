package loop

import (
	"context"
	"fmt"
	"math"

	"unseen/fit"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
)

// Recommender is what a loop trains and asks for recommendations. Every method of package fit is
// one; Settings.Recommender puts one of your own in its place.
type Learner interface {
	// Train learns anew from pairs of nodes, some linked: all links that are known, and a sample of
	// the pairs that are not, with weights. An error that wraps fit.ErrData says that nothing can
	// be learned from them; after the first round the loop then goes on with what was learned
	// before.
	Train(ctx context.Context, n model.Nodes, pairs *graph.Pairs) error
	// Weigh sets weights[k] to what pair k is recommended in proportion to: ŷ, or anything else that is finite and not
	// negative. It is called by many goroutines at once, and after a Train that succeeded.
	Weigh(weights []float64, pairs model.Batch) error
}

// byFit is the recommender of a method of package fit.
type fitLearner struct {
	settings fit.Settings
	result   *fit.Result
}

var _ Learner = (*fitLearner)(nil)

func (r *fitLearner) Train(ctx context.Context, n model.Nodes, pairs *graph.Pairs) error {
	result, err := fit.Fit(ctx, fit.Problem{Nodes: n, Train: pairs}, r.settings, fit.Progress{})
	if err == nil {
		r.result = result
	}
	return err
}

func (r *fitLearner) Weigh(weights []float64, pairs model.Batch) error {
	z := make([]float32, pairs.Len())
	r.result.Link.Logits(z, r.result.LinkParams, pairs)
	for k, x := range z {
		weights[k] = 1 / (1 + math.Exp(-float64(x)))
	}
	return nil
}

// weigh sets the weights of all pairs.
func (l *simulation) weigh(ctx context.Context) error {
	const chunk = 4096
	all := l.pairs.Pairs
	failed := make([]error, (all.Len()+chunk-1)/chunk)
	kern.Chunks(all.Len(), chunk, l.s.Threads, func(_, number, from, to int) {
		weights := l.weights[from:to]
		if failed[number] = l.learner.Weigh(weights, model.Batch{Sources: all.Source[from:to],
			Targets: all.Target[from:to]}); failed[number] != nil {
			return
		}
		for k, w := range weights {
			if !(w >= 0) || math.IsInf(w, 0) {
				failed[number] = fmt.Errorf("%w: the recommender weighs the pair of papers %d and %d by %v; "+
					"give a finite number from 0 on", ErrModel, all.Source[from+k], all.Target[from+k], w)
				return
			}
		}
	})
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}
