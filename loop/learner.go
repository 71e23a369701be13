package loop

import (
	"context"
	"fmt"
	"math"

	"unseen/fit"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/sample"
)

// Learner is what a simulation trains and asks for recommendations. Every method of package fit is
// one; Settings.NewLearner replaces it by one of your own.
type Learner interface {
	// Train learns from pairs of nodes: all known links, and a sample of the unlinked pairs with
	// weights. It forgets what it learned before. An error that wraps fit.ErrData says that nothing
	// can be learned from the pairs; after the first round the simulation then keeps the last state.
	Train(ctx context.Context, n model.Nodes, pairs *graph.Pairs) error
	// Weigh sets weights[k] to what pair k is recommended in proportion to: ŷ, or anything else that is finite and not
	// negative. It is called by many goroutines at once, and after a Train that succeeded.
	Weigh(weights []float64, pairs model.Batch) error
}

// fitLearner trains by a method of package fit.
type fitLearner struct {
	settings fit.Settings
	result   *fit.Result
}

var _ Learner = (*fitLearner)(nil)

func (r *fitLearner) Train(ctx context.Context, n model.Nodes, pairs *graph.Pairs) error {
	result, err := fit.Fit(ctx, sample.Problem{Nodes: n, Train: pairs}, r.settings)
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
	return kern.ChunksErr(ctx, all.Len(), chunk, l.s.Threads, func(_, _, from, to int) error {
		weights := l.weights[from:to]
		pairs := model.Batch{Sources: all.Source[from:to], Targets: all.Target[from:to]}
		if err := l.learner.Weigh(weights, pairs); err != nil {
			return err
		}
		for k, w := range weights {
			if !(w >= 0) || math.IsInf(w, 0) {
				return fmt.Errorf("%w: the learner weighs the pair of papers %d and %d by %v; "+
					"return a finite number, 0 or more", ErrModel, all.Source[from+k], all.Target[from+k], w)
			}
		}
		return nil
	})
}
