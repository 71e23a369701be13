package job

import (
	"context"
	"fmt"

	"unseen/beam/shards"
	"unseen/engine"
	"unseen/fit"
	"unseen/model"
)

// Cluster is engine.Engine on a cluster: of everything that goes over all pairs of the shards. What is about pairs or
// targets in the driver's memory is computed there.
type Cluster struct {
	Shards   shards.Location
	Manifest *shards.Manifest
	Settings fit.Settings // by which workers make the objective again
	Runner   Runner
	Work     shards.Location // where jobs leave their results; where all workers can write

	evaluations int
	fields      []uint16          // of all nodes, in training of factors
	models      []shards.Location // rows of factors that workers read
	counted     *fit.Extent       // with what the log says; nil where that is not asked
	mostPairs   int               // of a task of a round; 0 means mostTaskPairs, tests lower it
}

var _ engine.Engine = (*Cluster)(nil)

// Evaluations returns how many gradients were computed, or jobs of rounds.
func (e *Cluster) Evaluations() int { return e.evaluations }

// Gradient implements engine.Engine: one job over the training pairs of the shards. An objective with pairs of its own,
// a part of those or validation pairs, is computed by the driver.
func (e *Cluster) Gradient(ctx context.Context, o *engine.Objective, params []float32, grad []float64) (engine.Parts,
	error) {
	if len(params) != o.Size() || grad != nil && len(grad) != o.Size() {
		return engine.Parts{}, fmt.Errorf("%w: %d parameters for models with %d", engine.ErrShape, len(params),
			o.Size())
	}
	if o.Graph != nil {
		return engine.Parts{}, fmt.Errorf("%w: to learn from all pairs over shards; learn from a sample",
			engine.ErrUnsupported)
	}
	if o.Pairs != nil && int64(o.Pairs.Len()) != e.Manifest.Extent.Pairs {
		return engine.CPU{Threads: e.Runner.Threads}.Gradient(ctx, o, params, grad)
	}
	if err := e.agrees(o, e.Settings, e.extent()); err != nil {
		return engine.Parts{}, err
	}
	e.evaluations++
	p := e.plan("gradient")
	p.Settings, p.Extent, p.Params, p.Gradient = e.Settings, e.extent(), packed(params), grad != nil
	sum, err := e.sum(ctx, p, tasksOf(e.Manifest.Train), "gradient")
	if err != nil {
		return engine.Parts{}, err
	}
	if want := 2 + len(grad); len(sum.Values) != want || sum.Pairs != e.Manifest.Extent.Pairs {
		return engine.Parts{}, fmt.Errorf("%w: %d sums over %d pairs came back, where %d over %d were asked for",
			ErrJob,
			len(sum.Values), sum.Pairs, want, e.Manifest.Extent.Pairs)
	}
	copy(grad, sum.Values[2:])
	return o.Join(engine.Parts{Likelihood: sum.Values[0], Risk: sum.Values[1]}, sum.Pairs, params, grad), nil
}

// agrees refuses an objective that workers would not make of settings, which are the cluster's or those of a view. The
// prior may differ: it is added by the driver. Of factors the shape says nothing of their number.
func (e *Cluster) agrees(o *engine.Objective, s fit.Settings, x fit.Extent) error {
	shape, err := e.Manifest.Shape()
	if err != nil {
		return err
	}
	made, err := s.Objective(shape, x)
	if err != nil {
		return err
	}
	type formula struct {
		link, propensity  string
		lambdaL, lambdaR  float64
		likelihood        engine.Likelihood
		risk              engine.RiskTerm
		held, even, shown bool
		floor             float64
		size              int
	}
	of := func(o *engine.Objective) formula {
		size := o.Size()
		if _, factors := o.Link.(*model.Factors); factors {
			size = 0
		}
		return formula{o.Link.Kind(), o.Propensity.Kind(), o.LambdaL, o.LambdaR, o.Likelihood, o.Risk, o.Held,
			o.EvenRisk, o.ShownOnly, o.Floor, size}
	}
	if of(o) != of(made) {
		return fmt.Errorf("%w on a cluster: an objective of other settings than the cluster's; set Cluster.Settings "+
			"to those that made it", engine.ErrUnsupported)
	}
	return nil
}

func (e *Cluster) plan(name string) *plan {
	return &plan{Root: e.Shards.Absolute().Root, Layout: e.Manifest.Layout(), Result: e.Work.Absolute().Root,
		Name: unique(name), Threads: e.Runner.threads()}
}

// mostFan is how many sums are added at a time: a tree, at every level in the order of the tasks.
const mostFan = 64

// fanFor returns how many sums of so many numbers are: what is added at a time must fit into a worker's memory.
func fanFor(values int) int { return max(4, min(mostFan, (32<<20)/(8*values))) }

// fan returns how many sums of a plan are added at a time.
func (p *plan) fan() int {
	if p.Fan > 0 {
		return p.Fan
	}
	return mostFan
}

// gradient sums a shard.
func (p *plan) gradient(ctx context.Context, t *task) (numbered, error) {
	part, err := p.shards().Load(ctx, p.Layout, *t.Shard, nil, p.Threads)
	if err != nil {
		return numbered{}, err
	}
	defer part.Close()
	o, err := p.Settings.Objective(part.Nodes, p.Extent)
	if err != nil {
		return numbered{}, err
	}
	o.Pairs, o.Exposure = p.Extent.Shown.Of(part.Pairs, part.Exposure), part.Exposure
	var grad []float64
	if p.Gradient {
		grad = make([]float64, o.Size())
	}
	parts, err := engine.CPU{Threads: p.Threads}.Sum(ctx, o, unpacked[float32](p.Params), grad)
	if err != nil {
		return numbered{}, fmt.Errorf("%s: %w", p.shards().Path(t.Shard.File.Name), err)
	}
	return numbered{t.Number, int64(part.Pairs.Len()), append([]float64{parts.Likelihood, parts.Risk}, grad...)}, nil
}
