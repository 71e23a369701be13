package job

import (
	"context"
	"fmt"
	"slices"

	"unseen/beam/shards"
	"unseen/encode"
	"unseen/engine"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// Descent returns the training by a method that minimises a sum over the pairs of the shards, ready to run: that of
// Factors, or by L-BFGS, for which the driver holds no more than parameters.
func (e *Cluster) Descent(ctx context.Context, s fit.Settings) (fit.Descent, error) {
	if e.Manifest.Data.Plan.EveryShown && e.Manifest.Extent.Logged {
		s.Sampling = engine.Weighted.String() // as package fit has it
	}
	filled, err := s.WithDefaults()
	if err != nil {
		return fit.Descent{}, err
	}
	if !model.NeedsVectors(filled.Link) {
		return e.Factors(ctx, s)
	}
	if err := e.haveVectorsFor(filled.Link); err != nil {
		return fit.Descent{}, err
	}
	if s = filled; s.Method == fit.ShownOnly && e.Manifest.Extent.Logged {
		if _, err := e.countLog(ctx, true); err != nil {
			return fit.Descent{}, err
		}
	}
	shape, err := e.Manifest.Shape()
	if err != nil {
		return fit.Descent{}, err
	}
	o, err := s.Objective(shape, e.extent())
	if err != nil {
		return fit.Descent{}, err
	}
	e.Settings, s.Engine = s, e
	return fit.Descent{Objective: o, Settings: s, Data: e.Manifest.Checksum(), Extent: e.extent()}, nil
}

// haveVectorsFor refuses a link model that compares vectors where the shards have none.
func (e *Cluster) haveVectorsFor(link string) error {
	if e.Manifest.Dim > 0 || !model.NeedsVectors(link) {
		return nil
	}
	return fmt.Errorf("%w: the shards in %s have no vectors, as the link model %s needs; learn factors, by mle or "+
		"another method than bayes, or encode texts and import again", fit.ErrData, e.Shards.Root, link)
}

// Factors returns the training of factors of people and items by the pairs of the shards, ready to run. The rounds are
// those of one machine, whose arithmetic workers do for some rows each; see Alternate. The driver holds what the nodes
// have: their vectors and fields, a few times their factors, and at the start the links of the training pairs.
func (e *Cluster) Factors(ctx context.Context, s fit.Settings) (fit.Descent, error) {
	if e.Manifest.Data.Plan.EveryShown && e.Manifest.Extent.Logged {
		s.Sampling = engine.Weighted.String()
	}
	shape, err := e.Manifest.Shape()
	if err != nil {
		return fit.Descent{}, err
	}
	if _, err := s.Objective(shape, e.Manifest.Extent); err != nil { // before anything is read
		return fit.Descent{}, err
	}
	var log fit.LoggedPairs
	if e.Manifest.Extent.Logged {
		counts, err := e.countLog(ctx, s.Method == fit.ShownOnly)
		if err != nil {
			return fit.Descent{}, err
		}
		s, log = s.ForLog(counts.LoggedCount() > 0), &clusterLog{e, counts}
	}
	if s, err = s.WithDefaults(); err != nil {
		return fit.Descent{}, err
	}
	nodes, err := e.allNodes(ctx)
	if err != nil {
		return fit.Descent{}, err
	}
	link, err := model.NewLink(s.Link, nodes, s.LinkOptions)
	if err != nil {
		return fit.Descent{}, err
	}
	x := e.extent()
	if x.MeanSquare, err = e.vectorSquare(ctx, link, fit.LogView{}, x.Pairs); err != nil {
		return fit.Descent{}, err
	}
	o, err := s.Objective(nodes, x)
	if err != nil {
		return fit.Descent{}, err
	}
	e.counted, e.Settings, e.fields, s.Engine = &x, s, nodes.Fields, e
	return fit.Descent{Objective: o, Settings: s, Data: e.Manifest.Checksum(), Extent: x, Nodes: nodes, Log: log,
		Links: func(ctx context.Context) (encode.Incidence, error) { return e.trainingLinks(ctx, o) }}, nil
}

// Examine says of factors what package fit says of them: findings and warnings, with the same words and, where all
// pairs are drawn, from the same numbers; see fit.Descent.Examine.
func (e *Cluster) Examine(ctx context.Context, d fit.Descent, found fit.Descended) (*fit.Result, error) {
	survey := fit.PairSurvey{Kinds: [3]int64{e.Manifest.Extent.Pairs}, Dim: e.Manifest.Dim}
	return d.Examine(ctx, found, &population{Cluster: e, shards: e.Manifest.Train}, survey, e.Part)
}

// extent is what is known of the training pairs.
func (e *Cluster) extent() fit.Extent {
	if e.counted != nil {
		return *e.counted
	}
	return e.Manifest.Extent
}

// allNodes reads what models ask of all nodes.
func (e *Cluster) allNodes(ctx context.Context) (model.Nodes, error) {
	numbers := make([]int32, e.Manifest.Nodes)
	for i := range numbers {
		numbers[i] = int32(i)
	}
	l := e.Manifest.Layout()
	nodes, err := e.Shards.Gather(ctx, l, numbers, e.Runner.threads())
	nodes.Numbers = nil
	if l.Roles != nil {
		nodes.Sources, nodes.Targets = endsOf(l, engine.Sources, numbers), endsOf(l, engine.Targets, numbers)
	}
	return nodes, err
}

// endsOf returns those of some nodes that are on a side.
func endsOf(l *shards.NodeLayout, side engine.Side, nodes []int32) []int32 {
	not, kept := graph.TargetOnly, make([]int32, 0, len(nodes))
	if side == engine.Targets {
		not = graph.SourceOnly
	}
	for _, i := range nodes {
		if l.Role(i) != not {
			kept = append(kept, i)
		}
	}
	return kept
}

// nodesOn returns the nodes of a block that are on a side.
func nodesOn(l *shards.NodeLayout, side engine.Side, block int) []int32 {
	b := l.Blocks[block]
	all := make([]int32, b.Nodes)
	for k := range all {
		all[k] = int32(b.First + k)
	}
	return endsOf(l, side, all)
}

// sampledVectors is how many pairs the mean square of vectors is found from, as package fit has it.
const sampledVectors = 64

// vectorSquare is fit.MeanSquare of the training pairs that a view looks at, of which there are so many: the size of
// what A multiplies. Pairs are counted by source, as they are sorted on one machine, since the shards are in another
// order.
func (e *Cluster) vectorSquare(ctx context.Context, link model.LinkModel, v fit.LogView, all int64) (float64, error) {
	if layout, ok := link.(model.Layout); !ok || !slices.ContainsFunc(layout.Parts(),
		func(part model.ParameterBlock) bool { return part.Name == "A" }) {
		return fit.MeanSquare(link, &graph.Pairs{}), nil
	}
	counts := make([]int32, e.Manifest.Nodes)
	if err := e.eachShard(ctx, v, func(p *graph.Pairs, _ []risk.Exposure) {
		for _, i := range p.Source {
			counts[i]++
		}
	}); err != nil {
		return 0, err
	}
	sampled := min(all, sampledVectors)
	places := make([]int64, sampled) // among all, and then among those of their source
	for i := range places {
		places[i] = int64(i) * all / sampled
	}
	p := &graph.Pairs{Source: make([]int32, sampled), Target: make([]int32, sampled)}
	targets, before, source := map[int32][]int32{}, int64(0), 0
	for i, k := range places {
		for ; before+int64(counts[source]) <= k; source++ {
			before += int64(counts[source])
		}
		places[i], p.Source[i] = k-before, int32(source)
		targets[int32(source)] = nil
	}
	if err := e.eachShard(ctx, v, func(p *graph.Pairs, _ []risk.Exposure) {
		for k, i := range p.Source {
			if _, wanted := targets[i]; wanted {
				targets[i] = append(targets[i], p.Target[k])
			}
		}
	}); err != nil {
		return 0, err
	}
	for i, source := range p.Source {
		p.Target[i] = targets[source][places[i]]
	}
	return fit.MeanSquare(link, p), nil
}

// eachShard hands the training pairs that a view of all people looks at to a visitor, shard by shard, so that those of
// one source come in their order.
func (e *Cluster) eachShard(ctx context.Context, v fit.LogView, visit func(*graph.Pairs, []risk.Exposure)) error {
	l := e.Manifest.Layout()
	for _, shard := range e.Manifest.Train {
		p, exposure, err := e.Shards.BlockPairs(ctx, l, shard, e.Runner.threads())
		if err != nil {
			return err
		}
		if v.Logged {
			some := sample.Evidence{Pairs: p, Exposure: exposure}.At(sample.Indices(p.Len(), func(k int) bool {
				return exposure != nil && v.Looks(exposure[k])
			}))
			p, exposure = some.Pairs, some.Exposure
		}
		visit(p, exposure)
	}
	return nil
}

// trainingLinks reads the links of the training pairs, by the sources and the targets of factors. A row has them by
// the blocks of their targets, as they are sorted on one machine.
func (e *Cluster) trainingLinks(ctx context.Context, o *engine.Objective) (encode.Incidence, error) {
	source, target, _ := o.Link.(*model.Factors).Sides(make([]float32, o.Link.Size()))
	l := e.Manifest.Layout()
	all := encode.Incidence{Starts: []int{0}, Width: len(target.Effects)}
	for b := range l.Blocks {
		columns := make([][]int32, len(nodesOn(l, engine.Sources, b)))
		first := len(all.Starts) - 1
		for _, shard := range e.Manifest.Train {
			if shard.Source != b {
				continue
			}
			p, _, err := e.Shards.BlockPairs(ctx, l, shard, e.Runner.threads())
			if err != nil {
				return encode.Incidence{}, err
			}
			for k, linked := range p.Linked {
				row, column := int(source.Row(p.Source[k])), target.Row(p.Target[k])
				if row < 0 || column < 0 {
					return encode.Incidence{}, wrongRole(e.Shards.Path(shard.File.Name), p.Source[k], p.Target[k])
				}
				if linked {
					columns[row-first] = append(columns[row-first], column)
				}
			}
		}
		for _, row := range columns {
			all.Columns = append(all.Columns, row...)
			all.Starts = append(all.Starts, len(all.Columns))
		}
	}
	return all, nil
}

func wrongRole(path string, source, target int32) error {
	return fmt.Errorf("%w: %s leads from node %d to %d, of which one has another role; make the shards again",
		shards.ErrDamaged, path, source, target)
}
