package job

import (
	"context"
	"fmt"
	"io"
	"slices"

	"unseen/beam/shards"
	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
)

// Scan implements engine.Engine.
//
// Models that hold the vectors of their nodes, as those of a graph in the driver's memory do, are evaluated by the
// driver: π̂ of a list is found there before a job would have begun. Models of shards.Manifest.Shape hold none. They
// are evaluated by workers, from the vectors of the shards, in one job: a task is up to 65,536 pairs, and its worker
// holds the vectors that these name and their logits. The visitor runs on the driver, over the logits that come back.
// Gradients are refused there: their slopes would have to go out again.
func (e *Cluster) Scan(ctx context.Context, s engine.Scan) ([][]float64, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if !e.byShards(s.Versions) {
		return engine.CPU{Threads: e.Runner.Threads}.Scan(ctx, s)
	}
	if s.Totals != nil {
		return nil, fmt.Errorf("%w on a cluster: gradients of risks by models without vectors; judge without the "+
			"posterior, or open the dataset and judge with its own models", engine.ErrUnsupported)
	}
	for k, i := range s.Pairs.Source {
		if j := s.Pairs.Target[k]; min(i, j) < 0 || int(max(i, j)) >= e.Manifest.Nodes {
			return nil, fmt.Errorf("%w: pair %d is of nodes %d and %d, and the shards have %d nodes", engine.ErrShape,
				k, i, j, e.Manifest.Nodes)
		}
	}
	if s.Pairs.Len() == 0 {
		return [][]float64{}, nil
	}
	work := shards.Location{Root: e.Work.Path(unique("scan"))}
	defer work.Discard(context.WithoutCancel(ctx))
	tasks, err := e.evaluate(ctx, work, s)
	if err != nil {
		return nil, err
	}
	err = kern.ChunksErr(ctx, tasks, 1, kern.Threads(e.Runner.Threads), func(_, number, _, _ int) error {
		return visitLogits(ctx, work, s, number)
	})
	if err != nil {
		return nil, err
	}
	return [][]float64{}, nil
}

// byShards reports whether a model holds no vectors: Manifest.Shape is one node, which stands for all.
func (e *Cluster) byShards(versions []engine.Predictor) bool {
	return e.Manifest.Nodes > 1 && slices.ContainsFunc(versions, func(v engine.Predictor) bool {
		return model.MadeFor(v.Link) == 1 || model.MadeFor(v.Propensity) == 1
	})
}

// scanTask is how many pairs a task of a scan has: whole chunks, so that workers cut the same portions as one machine.
const scanTask = 16 * engine.ScanChunk

// scanPlan is what the workers of a scan share.
type scanPlan struct {
	Versions []scanVersion `json:"versions"`
	Portion  int           `json:"portion"`
}

// scanVersion is the parameters of one predictor, as float32 bytes; null where it has no such model.
type scanVersion struct {
	Link       []byte `json:"link"`
	Propensity []byte `json:"propensity"`
}

// evaluate runs the job, which writes the logits of every task to a file, and returns the number of tasks. Pairs go to
// workers as files, since the elements of a pipeline travel in one message.
func (e *Cluster) evaluate(ctx context.Context, work shards.Location, s engine.Scan) (int, error) {
	p, err := e.scanPlan(s)
	if err != nil {
		return 0, err
	}
	p.Result = work.Absolute().Root
	var tasks []task
	for from := 0; from < s.Pairs.Len(); from += scanTask {
		to := min(from+scanTask, s.Pairs.Len())
		content := packed(slices.Concat(s.Pairs.Source[from:to], s.Pairs.Target[from:to]))
		file, err := work.WriteBytes(ctx, fmt.Sprintf("pairs-%05d", len(tasks)), content)
		if err != nil {
			return 0, err
		}
		tasks = append(tasks, task{Pairs: &file})
	}
	return len(tasks), e.Runner.leave(ctx, p, tasks, "scan", logitsName)
}

// scanPlan packs the models and the parameters of every version. A model file has both models, so that a scan of one
// is packed with another that is not evaluated.
func (e *Cluster) scanPlan(s engine.Scan) (*plan, error) {
	p := e.plan("scan")
	p.Scan = &scanPlan{Portion: s.PortionSize()}
	m := model.Model{Method: "scan"}
	for _, v := range s.Versions {
		var version scanVersion
		if v.Link != nil {
			params := v.LinkParams[:v.Link.Size()]
			m.Link, m.LinkParams, version.Link = v.Link, params, packed(params)
		}
		if v.Propensity != nil {
			params := v.PropensityParams[:v.Propensity.Size()]
			m.Propensity, m.PropensityParams, version.Propensity = v.Propensity, params, packed(params)
		}
		p.Scan.Versions = append(p.Scan.Versions, version)
	}
	if m.Link == nil && e.Manifest.Dim == 0 {
		return nil, fmt.Errorf("%w on a cluster: exposure alone, over shards without vectors; give a model that "+
			"Cluster.OpenModel returns", engine.ErrUnsupported)
	}
	shape, err := e.Manifest.Shape()
	if err == nil && m.Link == nil {
		if m.Link, err = model.NewLink("diagonal", shape, model.LinkOptions{}); err == nil {
			m.LinkParams = make([]float32, m.Link.Size())
		}
	}
	if err == nil && m.Propensity == nil {
		m.Propensity, err = model.NewPropensity("constant", shape, model.PropensityOptions{})
	}
	if err != nil {
		return nil, err
	}
	p.Model, err = packModel(m)
	return p, err
}

// visitLogits reads the logits of one task and hands them to the visitor, portion by portion.
func visitLogits(ctx context.Context, work shards.Location, s engine.Scan, number int) error {
	first := number * scanTask
	n := min(scanTask, s.Pairs.Len()-first)
	content, err := work.ReadAll(ctx, logitsName(number))
	if err != nil {
		return err
	}
	if want := 4 * n * 2 * len(s.Versions); len(content) != want {
		return fmt.Errorf("%w: %d bytes of logits came back, where %d were asked for", ErrJob, len(content), want)
	}
	rows := slices.Collect(slices.Chunk(unpacked[float32](content), n)) // z and s of every version
	for chunk := first / engine.ScanChunk; chunk*engine.ScanChunk < first+n; chunk++ {
		end := min((chunk+1)*engine.ScanChunk, first+n)
		for from := chunk * engine.ScanChunk; from < end; from += s.PortionSize() {
			if err := ctx.Err(); err != nil {
				return err
			}
			at := engine.Portion{Chunk: chunk, From: from, To: min(from+s.PortionSize(), end)}
			for k := range s.Versions {
				at.Link = append(at.Link, rows[2*k][at.From-first:at.To-first])
				at.Propensity = append(at.Propensity, rows[2*k+1][at.From-first:at.To-first])
			}
			if err := s.Visit(at); err != nil {
				return err
			}
		}
	}
	return nil
}

func logitsName(task int) string { return fmt.Sprintf("logits-%05d", task) }

// scan evaluates the models on some pairs.
func (p *plan) scan(ctx context.Context, t *task) error {
	work := shards.Location{Root: p.Result}
	content, err := work.Read(ctx, *t.Pairs)
	if err != nil {
		return err
	}
	places := unpacked[int32](content) // of the sources, then of the targets
	numbers := slices.Compact(slices.Sorted(slices.Values(places)))
	for k, i := range places {
		at, _ := slices.BinarySearch(numbers, i)
		places[k] = int32(at)
	}
	nodes, err := p.shards().Gather(ctx, p.Layout, numbers, p.Threads)
	if err != nil {
		return err
	}
	defer nodes.Vectors.Close()
	models, err := p.predictor(ctx, nodes)
	if err != nil {
		return err
	}
	n := len(places) / 2
	s := engine.Scan{Pairs: &graph.Pairs{Source: places[:n], Target: places[n:]}, Portion: p.Scan.Portion}
	for _, version := range p.Scan.Versions {
		var v engine.Predictor
		if version.Link != nil {
			v.Link, v.LinkParams = models.Link, unpacked[float32](version.Link)
		}
		if version.Propensity != nil {
			v.Propensity, v.PropensityParams = models.Propensity, unpacked[float32](version.Propensity)
		}
		s.Versions = append(s.Versions, v)
	}
	rows := make([][]float32, 2*len(s.Versions))
	for k := range rows {
		rows[k] = make([]float32, n)
	}
	s.Visit = func(at engine.Portion) error {
		for k := range s.Versions {
			copy(rows[2*k][at.From:at.To], at.Link[k])
			copy(rows[2*k+1][at.From:at.To], at.Propensity[k])
		}
		return nil
	}
	if _, err := (engine.CPU{Threads: p.Threads}).Scan(ctx, s); err != nil {
		return err
	}
	_, err = work.Write(ctx, logitsName(t.Number), func(w io.Writer) error {
		for _, row := range rows {
			if _, err := w.Write(packed(row)); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}
