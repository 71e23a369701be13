package job

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"unseen/beam/shards"
)

func init() {
	register.DoFn3x1[context.Context, []byte, func(int, []byte), error](&taskFn{})
	register.DoFn4x1[context.Context, int, func(*[]byte) bool, func(int, []byte), error](&groupFn{})
	register.DoFn3x1[context.Context, int, func(*[]byte) bool, error](&collectFn{})
}

// taskStage is what workers do with a task, and groupStage what they do with what was emitted by a key.
type (
	taskStage  = func(p *plan, ctx context.Context, t *task, emit func(int, []byte)) error
	groupStage = func(p *plan, ctx context.Context, key int, batches func(*[]byte) bool, emit func(int, []byte)) error
)

// taskStages and groupStages are the stages of jobs whose workers send something to one another, or to the driver.
var (
	taskStages = map[string]taskStage{
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
)

// taskFn does a stage on tasks.
type taskFn struct {
	planned
	Stage string
}

// ProcessElement does it on one.
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

// collectFn writes all documents of the workers as one list.
type collectFn struct{ planned }

// ProcessElement writes the file.
func (f *collectFn) ProcessElement(ctx context.Context, _ int, documents func(*[]byte) bool) error {
	p, err := f.plan(ctx)
	if err != nil {
		return mark(err)
	}
	var all []json.RawMessage
	var d []byte
	for documents(&d) {
		all = append(all, slices.Clone(d))
	}
	text, err := json.Marshal(all)
	if err == nil {
		_, err = shards.Location{Root: p.Result}.WriteBytes(ctx, p.Name, text)
	}
	return mark(err)
}

// collect runs a job whose workers send documents to the driver: those of the last stage. The first is of tasks, and
// each of the others is given what the one before it emits by key.
func collect[T any](ctx context.Context, runner Runner, p *plan, tasks []task, stages ...string) (out []T, err error) {
	p.Name = unique(stages[0])
	pipeline, s := beam.NewPipelineWithRoot()
	emitted, err := deal(s, tasks)
	for k, stage := range stages {
		var do carrier = &taskFn{Stage: stage}
		if k > 0 {
			do, emitted = &groupFn{Stage: stage}, beam.GroupByKey(s, emitted)
		}
		if err == nil {
			err = do.carry(p)
		}
		if err != nil {
			return nil, err
		}
		emitted = beam.ParDo(s.Scope(stage), do, emitted)
	}
	do := &collectFn{}
	if err := do.carry(&plan{Result: p.Result, Name: p.Name}); err != nil {
		return nil, err
	}
	beam.ParDo0(s.Scope("collect"), do, beam.GroupByKey(s, emitted))
	location := shards.Location{Root: p.Result}
	if err := runner.run(ctx, stages[0], pipeline, outcome{location, p.wanted(), []string{p.Name}}); err != nil {
		return nil, err
	}
	text, err := location.ReadAll(ctx, p.Name)
	if err != nil {
		return nil, err
	}
	location.Remove(ctx, p.Name)
	err = json.Unmarshal(text, &out)
	return out, err
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
