package job

import (
	"context"
	"fmt"

	"unseen/engine"
)

// Minibatch is refused: a job takes far longer than a minibatch.
func (e *Cluster) Minibatch(context.Context, *engine.Objective, []int, []float32, []float32) error {
	return fmt.Errorf("%w on a cluster: training by minibatches; use the optimiser lbfgs", engine.ErrUnsupported)
}

// Alternate is refused: the factors of a side go to all workers with every gradient as it is.
func (e *Cluster) Alternate(*engine.Objective) (engine.Alternation, error) {
	return nil, fmt.Errorf("%w on a cluster: training side by side; use the optimiser lbfgs", engine.ErrUnsupported)
}

// Design is refused: the posterior needs its pairs in one memory as yet.
func (e *Cluster) Design(context.Context, engine.DesignPairs) (engine.Design, error) {
	return nil, fmt.Errorf("%w on a cluster: the method bayes; use mle, rw, pu or ap, or fit a sample on one machine",
		engine.ErrUnsupported)
}
