package job

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"unseen/beam/shards"
	"unseen/engine"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// countLog counts the training pairs by source, and keeps what the log says of all of them: also with what
// probabilities the method shown sees pairs, where that is asked.
func (e *Cluster) countLog(ctx context.Context, shown bool) (*fit.LogCounts, error) {
	c, x := fit.NewLogCounts(e.Manifest.Nodes), e.Manifest.Extent
	err := e.eachShard(ctx, fit.LogView{}, func(p *graph.Pairs, exposure []risk.Exposure) {
		c.Add(sample.Evidence{Pairs: p, Exposure: exposure})
	})
	if err == nil && shown {
		x.Shown, err = c.ShownRates()
	}
	if err != nil {
		return nil, err
	}
	x.LoggedPairs = c.LoggedCount()
	e.counted = &x
	return c, nil
}

// clusterLog is fit.LoggedPairs of the training shards.
type clusterLog struct {
	*Cluster
	counts *fit.LogCounts
}

// Count implements fit.LoggedPairs.
func (l *clusterLog) Count(context.Context) (*fit.LogCounts, error) { return l.counts, nil }

// MeanSquare implements fit.LoggedPairs.
func (l *clusterLog) MeanSquare(ctx context.Context, link model.LinkModel, v fit.LogView) (float64, error) {
	if !v.Logged {
		return l.extent().MeanSquare, nil
	}
	return l.vectorSquare(ctx, link, v, l.extent().LoggedPairs)
}

// Over implements fit.LoggedPairs.
func (l *clusterLog) Over(o *engine.Objective, v fit.LogView, pairs int64) (engine.Engine, *engine.Objective, error) {
	s, x := l.Settings, l.extent()
	if o.ShownOnly { // of a log alone, with a link model of its own
		s.Method = fit.ShownOnly
		s.LinkOptions.Rank = o.Link.(*model.Factors).Rank()
	}
	if x.Pairs = pairs; o.MeanWeight != 0 {
		x.MeanWeight = o.MeanWeight
	}
	return &viewed{l.Cluster, s, x, v}, o, nil
}

// viewed is the engine of the pairs that a view looks at.
type viewed struct {
	*Cluster
	settings fit.Settings
	extent   fit.Extent
	view     fit.LogView
}

// Alternate implements engine.Engine.
func (e *viewed) Alternate(o *engine.Objective) (engine.Alternation, error) {
	return e.alternate(o, e.settings, e.extent, e.view)
}

// viewPlan is a view of the training pairs for workers. The parts of people are in files, a byte for every node of a
// block.
type viewPlan struct {
	Logged bool             `json:"logged,omitempty"`
	Part   uint8            `json:"part,omitempty"`
	Root   string           `json:"root,omitempty"`
	Parts  []shards.FileSum `json:"parts,omitempty"` // by block
}

// writeView writes what workers need to know of a view.
func (e *Cluster) writeView(ctx context.Context, work shards.Location, v fit.LogView) (*viewPlan, error) {
	p := &viewPlan{Logged: v.Logged, Part: v.Part, Root: work.Absolute().Root}
	if v.Part == 0 {
		if !v.Logged {
			return nil, nil
		}
		return p, nil
	}
	for number, b := range e.Manifest.Blocks {
		file, err := work.WriteBytes(ctx, fmt.Sprintf("parts-%05d", number), v.Parts[b.First:b.First+b.Nodes])
		if err != nil {
			return nil, err
		}
		p.Parts = append(p.Parts, file)
	}
	return p, nil
}

// parts reads those of a block's nodes; none where the view has no part.
func (v *viewPlan) parts(ctx context.Context, block int, l *shards.NodeLayout) ([]uint8, error) {
	if v == nil || v.Part == 0 {
		return nil, nil
	}
	where, file := shards.Location{Root: v.Root}, v.Parts[block]
	content, err := where.ReadAll(ctx, file.Name)
	if err != nil {
		return nil, fmt.Errorf("parts of the people that the driver wrote: %w; start it again, which goes on from a "+
			"checkpoint", err)
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != file.SHA256 ||
		len(content) != l.Blocks[block].Nodes {
		return nil, fmt.Errorf("%w: the parts of people in %s are not those that the driver wrote (%d bytes of %d); "+
			"start it again, which goes on from a checkpoint", shards.ErrDamaged, where.Path(file.Name), len(content),
			l.Blocks[block].Nodes)
	}
	return content, nil
}

// see is fit.LogView.See of a pair whose source has a place in its block.
func (v *viewPlan) see(parts []uint8, source int32, e risk.Exposure) (risk.Exposure, bool) {
	if v == nil {
		return e, true
	}
	part := uint8(0)
	if parts != nil {
		part = parts[source]
	}
	return fit.LogView{Logged: v.Logged, Part: v.Part}.See(part, e)
}

// Sums implements fit.LoggedPairs: a job at every shift. The rows of the models are written once.
func (l *clusterLog) Sums(ctx context.Context, kind fit.SumKind, by engine.Predictor, v fit.LogView) (
	func(shift float64) ([][2]float64, error), error) {
	content, err := l.pack(ctx, model.Model{Link: by.Link, LinkParams: by.LinkParams, Propensity: by.Propensity,
		PropensityParams: by.PropensityParams, Method: "sums"})
	if err != nil {
		return nil, err
	}
	work := l.models[len(l.models)-1] // where the rows are
	view, err := l.writeView(ctx, work, v)
	if err != nil {
		return nil, err
	}
	most := (&factorPlan{Most: l.mostPairs}).most()
	tasks := slices.DeleteFunc(l.rowTasks(kind.Side(), most), func(t task) bool { return len(t.Shards) == 0 })
	return func(shift float64) ([][2]float64, error) {
		p := l.plan("sums")
		p.Extent, p.Model, p.View = l.extent(), content, view
		p.Piece = &piecePlan{Kind: "sums", Sums: kind, Shift: shift}
		out := make([][2]float64, l.Manifest.Nodes)
		l.evaluations++
		return out, l.pieces(ctx, p, tasks, func(content []byte) error {
			var part nodeSums
			if err := unpack(content, &part); err != nil {
				return err
			}
			for k, i := range part.Numbers {
				out[i] = [2]float64{part.Sums[2*k], part.Sums[2*k+1]}
			}
			return nil
		})
	}, nil
}

// nodeSums are two sums of every node that has any.
type nodeSums struct {
	Numbers []int32
	Sums    []float64
}

// nodeSums sums what all pairs of a task's nodes give.
func (p *plan) nodeSums(ctx context.Context, t *task) (any, error) {
	kind := p.Piece.Sums
	w := &factorRows{plan: p, side: kind.Side(), pairs: &graph.Pairs{}}
	if _, err := w.read(ctx, t); err != nil {
		return nil, err
	}
	if w.pairs.Len() == 0 {
		return nodeSums{}, nil
	}
	numbers := slices.Concat(w.pairs.Source, w.pairs.Target)
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	nodes, err := p.nodesFor(ctx, numbers, kind == fit.LinkSums)
	if err != nil {
		return nil, err
	}
	if nodes.Vectors != nil {
		defer nodes.Vectors.Close()
	}
	by, err := p.predictor(ctx, nodes)
	if err != nil {
		return nil, err
	}
	own := [][]int32{w.pairs.Source, w.pairs.Target}[w.side]
	w.renumber(numbers)
	z, s, err := engine.Logits(ctx, engine.CPU{Threads: p.Threads}, kind.Of(by), w.pairs)
	if err != nil {
		return nil, err
	}
	sums := make([][2]float64, len(numbers))
	kind.Add(sums, sample.Evidence{Pairs: w.pairs, Exposure: w.exposure}, z, s, p.Piece.Shift)
	out, has := nodeSums{}, make([]bool, len(numbers))
	for _, k := range own {
		has[k] = true
	}
	for k, i := range numbers {
		if has[k] {
			out.Numbers = append(out.Numbers, i)
			out.Sums = append(out.Sums, sums[k][0], sums[k][1])
		}
	}
	return out, nil
}

// nodesFor reads the fields of nodes, ascending, and their vectors where they are asked for.
func (p *plan) nodesFor(ctx context.Context, numbers []int32, vectors bool) (model.Nodes, error) {
	if vectors {
		return p.shards().Gather(ctx, p.Layout, numbers, p.Threads)
	}
	n := model.Nodes{FieldCount: len(p.Layout.Fields), FieldNames: p.Layout.Fields, Numbers: numbers}
	for _, b := range p.Layout.Blocks {
		some := within(numbers, b)
		if len(some) == 0 {
			continue
		}
		table, err := p.shards().Table(ctx, p.Layout, b)
		if err != nil {
			return n, err
		}
		for _, i := range some {
			n.Fields = append(n.Fields, table.Fields[int(i)-b.First])
		}
	}
	return n, nil
}
