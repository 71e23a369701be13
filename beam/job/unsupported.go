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

// Design is refused: the posterior needs its pairs in one memory as yet.
func (e *Cluster) Design(context.Context, engine.DesignPairs) (engine.Design, error) {
	return nil, fmt.Errorf("%w on a cluster: the method bayes; use mle, rw, pu or ap", engine.ErrUnsupported)
}

// Scan is refused: workers cannot call back. Cluster.Judge has the risks of held-out pairs.
func (e *Cluster) Scan(context.Context, engine.Scan) ([][]float64, error) {
	return nil, fmt.Errorf("%w on a cluster: intervals and findings; judge by the held-out pairs without them",
		engine.ErrUnsupported)
}
