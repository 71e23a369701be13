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

// Design implements engine.Engine on the driver, which has the pairs in its memory. Population has those of the shards.
func (e *Cluster) Design(ctx context.Context, p engine.DesignPairs) (engine.Design, error) {
	return engine.CPU{Threads: e.Runner.Threads}.Design(ctx, p)
}
