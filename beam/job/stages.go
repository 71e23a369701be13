package job

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"unseen/beam/shards"
)

// taskStage is what workers do with a task, and groupStage what they do with what was emitted by a key.
type (
	taskStage  = func(p *plan, ctx context.Context, t *task, emit func(int, []byte)) error
	groupStage = func(p *plan, ctx context.Context, key int, batches func(*[]byte) bool, emit func(int, []byte)) error
)

// taskStages and groupStages are all stages, by names that jobs and errors have too. A job begins with a stage on every
// task. Tasks leave files (leave), or emit sums, which are added in a tree (sum), or emit something by key for another
// stage, the last of which sends documents to the driver (collect).
var (
	taskStages  map[string]taskStage
	groupStages map[string]groupStage
)

func init() {
	taskStages = map[string]taskStage{
		"gradient": sums((*plan).gradient), "likelihood": sums((*plan).likelihood), "row-sums": sums((*plan).rowSums),
		"all-pairs": sums((*plan).allPairs), "held-out": sums((*plan).held), "held-out-risks": sums((*plan).heldRisks),

		"pieces": leaves((*plan).leavePiece), "scan": leaves((*plan).scan), "move": leaves((*plan).move),
		"lists": leaves((*plan).lists),

		"index": (*plan).makeIndex, "best": (*plan).best, "found": (*plan).found,
		"works": (*plan).read, "refer": (*plan).refer, "pairs": (*plan).pairs, // of an import of works
		// Of an import of interactions.
		"tables": (*plan).readTable, "numbers": (*plan).positions, "join": (*plan).persons,
		"links": (*plan).split, "count": (*plan).countDrawn, "draw": (*plan).draw, "reach": (*plan).reach,
	}
	groupStages = map[string]groupStage{
		"block": (*plan).block, "link": (*plan).link,
		"gather": (*plan).gatherIDs, "ranks": (*plan).ranks, "ids": (*plan).numbers, "items": (*plan).items,
		"blocks": (*plan).joinBlock, "nodes": (*plan).nodeTable,
	}
	register.DoFn3x1[context.Context, []byte, func(int, []byte), error](&taskFn{})
	register.DoFn4x1[context.Context, int, func(*[]byte) bool, func(int, []byte), error](&groupFn{})
	register.DoFn3x1[int, func(*[]byte) bool, func(int, []byte), error](&sumFn{})
	register.DoFn3x1[context.Context, int, func(*[]byte) bool, error](&keepFn{})
	register.DoFn3x1[context.Context, int, func(*[]byte) bool, error](&collectFn{})
	register.Emitter2[int, []byte]()
	register.Iter1[[]byte]()
}

// sums makes a stage of a sum over a task, which emits it, never one per pair.
func sums(of func(*plan, context.Context, *task) (numbered, error)) taskStage {
	return func(p *plan, ctx context.Context, t *task, emit func(int, []byte)) error {
		sum, err := of(p, ctx, t)
		if err == nil {
			emit(t.Number/p.fan(), sum.encode())
		}
		return err
	}
}

// leaves makes a stage of what leaves a file per task.
func leaves(of func(*plan, context.Context, *task) error) taskStage {
	return func(p *plan, ctx context.Context, t *task, _ func(int, []byte)) error { return of(p, ctx, t) }
}

// taskFn does a stage on tasks.
type taskFn struct {
	planned
	Stage string
}

// ProcessElement does it on one. A second attempt does the same.
func (f *taskFn) ProcessElement(ctx context.Context, element []byte, emit func(int, []byte)) error {
	p, t, err := f.open(ctx, element)
	if err == nil {
		err = taskStages[f.Stage](p, ctx, t, emit)
	}
	return mark(err)
}

// groupFn does a stage on what was emitted by key.
type groupFn struct {
	planned
	Stage string
}

// ProcessElement does it on one key.
func (f *groupFn) ProcessElement(ctx context.Context, key int, batches func(*[]byte) bool,
	emit func(int, []byte)) error {
	p, err := f.plan(ctx)
	if err == nil {
		err = groupStages[f.Stage](p, ctx, key, batches, emit)
	}
	return mark(err)
}

// building is a job that is put together.
type building struct {
	*plan
	stage    string // the first
	pipeline *beam.Pipeline
	scope    beam.Scope
	carried  planned
	emitted  beam.PCollection
}

// build begins a job with a stage on tasks.
func (p *plan) build(stage string, tasks []task) (b *building, err error) {
	b = &building{plan: p, stage: stage}
	if b.carried, err = p.carried(); err != nil {
		return nil, err
	}
	b.pipeline, b.scope = beam.NewPipelineWithRoot()
	dealt, err := deal(b.scope, tasks)
	if err != nil {
		return nil, err
	}
	b.emitted = beam.ParDo(b.scope.Scope(stage), &taskFn{b.carried, stage}, dealt)
	return b, nil
}

// end returns a plan that says where results go, for the last step of a job.
func (p *plan) end() (planned, error) { return (&plan{Result: p.Result, Name: p.Name}).carried() }

// run runs the job until its files are there, by default the one of its name.
func (b *building) run(ctx context.Context, r Runner, names ...string) error {
	if names == nil {
		names = []string{b.Name}
	}
	return r.run(ctx, b.stage, b.pipeline, outcome{shards.Location{Root: b.Result}, b.wanted(), names})
}

// deal makes tasks elements of a pipeline. They are dealt out anew, or a runner would keep all of them where they were
// made.
func deal(s beam.Scope, tasks []task) (dealt beam.PCollection, err error) {
	elements := make([][]byte, len(tasks))
	for k, t := range tasks {
		t.Number = k
		if elements[k], err = json.Marshal(t); err != nil {
			return dealt, err
		}
	}
	return beam.Reshuffle(s.Scope("deal"), beam.CreateList(s.Scope("tasks"), elements)), nil
}

// leave runs a job whose tasks leave a file each.
func (r Runner) leave(ctx context.Context, p *plan, tasks []task, stage string, named func(task int) string) error {
	b, err := p.build(stage, tasks)
	if err != nil {
		return err
	}
	// Nothing comes out. But Prism asks a function without output again and again whether its output is there.
	beam.GroupByKey(b.scope.Scope("nothing"), b.emitted)
	names := make([]string, len(tasks))
	for k := range names {
		names[k] = named(k)
	}
	return b.run(ctx, r, names...)
}

// sum runs a job whose workers emit one sum per task, and returns the sum of them all.
func (e *Cluster) sum(ctx context.Context, p *plan, tasks []task, stage string) (numbered, error) {
	if len(tasks) == 0 {
		return numbered{}, fmt.Errorf("%w: %s has nothing to sum over", ErrJob, stage)
	}
	b, err := p.build(stage, tasks)
	if err != nil {
		return numbered{}, err
	}
	end, err := p.end()
	if err != nil {
		return numbered{}, err
	}
	groups := b.emitted
	for left := len(tasks); ; {
		groups = beam.ParDo(b.scope.Scope("groups"), &sumFn{Fan: p.fan()}, beam.GroupByKey(b.scope, groups))
		if left = (left + p.fan() - 1) / p.fan(); left <= p.fan() {
			break
		}
	}
	beam.ParDo0(b.scope.Scope("keep"), &keepFn{end}, beam.GroupByKey(b.scope, groups))
	if err := b.run(ctx, e.Runner); err != nil {
		e.Work.Remove(context.WithoutCancel(ctx), p.Name)
		return numbered{}, err
	}
	return result(ctx, e.Work, p.Name)
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

// keepFn adds the last sums and writes them.
type keepFn struct{ planned }

// ProcessElement writes the result.
func (f *keepFn) ProcessElement(ctx context.Context, _ int, sums func(*[]byte) bool) error {
	total, err := add(sums)
	if err != nil {
		return mark(err)
	}
	return f.write(ctx, total.encode())
}

// write writes the result of a job where the driver looks; a second attempt writes the same.
func (c *planned) write(ctx context.Context, result []byte) error {
	p, err := c.plan(ctx)
	if err == nil {
		_, err = shards.Location{Root: p.Result}.WriteBytes(ctx, p.Name, result)
	}
	return mark(err)
}

// collect runs a job whose workers send documents to the driver: those of the last stage. The first is of tasks, and
// each of the others is given what the one before it emits by key.
func collect[T any](ctx context.Context, runner Runner, p *plan, tasks []task, stages ...string) (out []T, err error) {
	p.Name = unique(stages[0])
	b, err := p.build(stages[0], tasks)
	if err != nil {
		return nil, err
	}
	end, err := p.end()
	if err != nil {
		return nil, err
	}
	emitted := b.emitted
	for _, stage := range stages[1:] {
		emitted = beam.ParDo(b.scope.Scope(stage), &groupFn{b.carried, stage}, beam.GroupByKey(b.scope, emitted))
	}
	beam.ParDo0(b.scope.Scope("collect"), &collectFn{end}, beam.GroupByKey(b.scope, emitted))
	if err := b.run(ctx, runner); err != nil {
		return nil, err
	}
	location := shards.Location{Root: p.Result}
	text, err := location.ReadAll(ctx, p.Name)
	if err != nil {
		return nil, err
	}
	location.Remove(ctx, p.Name)
	err = json.Unmarshal(text, &out)
	return out, err
}

// collectFn writes all documents of the workers as one list.
type collectFn struct{ planned }

// ProcessElement writes the list.
func (f *collectFn) ProcessElement(ctx context.Context, _ int, documents func(*[]byte) bool) error {
	var all []json.RawMessage
	var d []byte
	for documents(&d) {
		all = append(all, slices.Clone(d))
	}
	text, err := json.Marshal(all)
	if err != nil {
		return mark(err)
	}
	return f.write(ctx, text)
}

// emitDocument sends a document to the driver, as the last stage of a job.
func emitDocument(emit func(int, []byte), document any) error {
	text, err := json.Marshal(document)
	if err == nil {
		emit(0, text)
	}
	return err
}

// emitPacked sends something to the next stage.
func emitPacked(emit func(int, []byte), key int, v any) error {
	batch, err := pack(v)
	if err == nil {
		emit(key, batch)
	}
	return err
}
