package job

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"unseen/beam/shards"
	"unseen/engine"
	"unseen/fit"
	"unseen/model"
)

func init() {
	register.DoFn3x1[context.Context, []byte, func(int, []byte), error](&gradientFn{})
	register.Emitter2[int, []byte]()
	register.DoFn3x1[int, func(*[]byte) bool, func(int, []byte), error](&sumFn{})
	register.DoFn3x1[context.Context, int, func(*[]byte) bool, error](&keepFn{})
	register.Iter1[[]byte]()
}

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
	sum, err := e.sum(ctx, "gradient", p, tasksOf(e.Manifest.Train), &gradientFn{})
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

// sum runs a job whose workers emit one sum per task, and returns the sum of them all.
func (e *Cluster) sum(ctx context.Context, name string, p *plan, tasks []task, fn carrier) (numbered, error) {
	if len(tasks) == 0 {
		return numbered{}, fmt.Errorf("%w: %s has nothing to sum over", ErrJob, name)
	}
	pipeline, s := beam.NewPipelineWithRoot()
	dealt, err := deal(s, tasks)
	if err == nil {
		err = fn.carry(p)
	}
	keep := &keepFn{}
	if err == nil { // where to
		err = keep.carry(&plan{Result: p.Result, Name: p.Name})
	}
	if err != nil {
		return numbered{}, err
	}
	groups := beam.ParDo(s.Scope(name), fn, dealt)
	for left := len(tasks); ; {
		groups = beam.ParDo(s.Scope("groups"), &sumFn{Fan: p.fan()}, beam.GroupByKey(s, groups))
		if left = (left + p.fan() - 1) / p.fan(); left <= p.fan() {
			break
		}
	}
	beam.ParDo0(s.Scope("keep"), keep, beam.GroupByKey(s, groups))
	if err := e.Runner.run(ctx, name, pipeline, outcome{e.Work, p.wanted(), []string{p.Name}}); err != nil {
		e.Work.Remove(context.WithoutCancel(ctx), p.Name)
		return numbered{}, err
	}
	return result(ctx, e.Work, p.Name)
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

// gradientFn sums a shard.
type gradientFn struct{ planned }

// ProcessElement emits one sum, never one per pair.
func (f *gradientFn) ProcessElement(ctx context.Context, element []byte, emit func(int, []byte)) error {
	p, t, err := f.open(ctx, element)
	if err != nil {
		return mark(err)
	}
	sum, err := p.gradient(ctx, t)
	if err != nil {
		return mark(err)
	}
	emit(t.Number/p.fan(), sum.encode())
	return nil
}

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

// sumFn adds the sums of some tasks in their order.
type sumFn struct {
	Fan int // how many of these sums are added next
}

// ProcessElement emits the sum under the key of those that it is added to.
func (f *sumFn) ProcessElement(key int, sums func(*[]byte) bool, emit func(int, []byte)) error {
	total, err := add(sums)
	if err != nil {
		return mark(err)
	}
	total.Number = key
	emit(key/f.Fan, total.encode())
	return nil
}

func add(sums func(*[]byte) bool) (numbered, error) {
	var all []numbered
	var b []byte
	for sums(&b) {
		n, err := decodeNumbered(b)
		if err != nil {
			return numbered{}, err
		}
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b numbered) int { return a.Number - b.Number })
	total := all[0]
	for k, n := range all[1:] {
		if n.Number == all[k].Number || len(n.Values) != len(total.Values) {
			return numbered{}, fmt.Errorf("the sums of tasks %d and %d do not belong together", all[k].Number, n.Number)
		}
		total.Pairs += n.Pairs
		for i, v := range n.Values {
			total.Values[i] += v
		}
	}
	return total, nil
}

// keepFn adds the last sums and writes them where the driver looks.
type keepFn struct{ planned }

// ProcessElement writes the result; a second attempt writes the same.
func (f *keepFn) ProcessElement(ctx context.Context, _ int, sums func(*[]byte) bool) error {
	p, err := f.plan(ctx)
	if err != nil {
		return mark(err)
	}
	total, err := add(sums)
	if err != nil {
		return mark(err)
	}
	_, err = shards.Location{Root: p.Result}.WriteBytes(ctx, p.Name, total.encode())
	return mark(err)
}
