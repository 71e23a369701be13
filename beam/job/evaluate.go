package job

import (
	"context"
	"fmt"

	"unseen/engine"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
)

// AllPairs implements engine.Engine: block of sources by block of targets, one sum per two blocks. The graph is that of
// the shards, whose order is not known, so that the universe must be all pairs. It costs nodes² products; see
// docs/scale.md before asking for it.
func (e *Cluster) AllPairs(ctx context.Context, _ *graph.Graph, by engine.Predictor, u graph.Universe,
	floor float64) (engine.Means, error) {
	m := e.Manifest
	if u.Sources != nil || u.Targets != nil || u.Before != nil || u.Except != nil {
		return engine.Means{}, fmt.Errorf("%w on a cluster: sums over a part of all pairs; sum over all, or open the "+
			"dataset and use engine.CPU", engine.ErrUnsupported)
	}
	if m.Nodes < 2 {
		return engine.Means{}, fmt.Errorf("%w: a graph of %d nodes has no pairs", fit.ErrData, m.Nodes)
	}
	p, err := e.judged(ctx, by, "all-pairs")
	if err != nil {
		return engine.Means{}, err
	}
	p.Floor = floor
	sum, err := e.sum(ctx, p, rectangles(m), "all-pairs")
	if err != nil {
		return engine.Means{}, err
	}
	if want := m.PairCount(); sum.Pairs != want || len(sum.Values) != 7 {
		return engine.Means{}, fmt.Errorf("%w: sums over %d pairs came back, where %d were asked for", ErrJob,
			sum.Pairs,
			want)
	}
	return sumsOf(sum).Means(), nil
}

func (e *Cluster) judged(ctx context.Context, by engine.Predictor, name string) (*plan, error) {
	p := e.plan(name)
	var err error
	p.Model, err = e.pack(ctx, model.Model{Link: by.Link, LinkParams: by.LinkParams, Propensity: by.Propensity,
		PropensityParams: by.PropensityParams, Method: "judge"})
	return p, err
}

func valuesOf(s engine.Sums) []float64 {
	return []float64{s.Link, s.Propensity, s.Likelihood, s.Naive, s.W, s.PU, s.AP}
}

func sumsOf(n numbered) engine.Sums {
	v := n.Values
	return engine.Sums{Pairs: n.Pairs, Link: v[0], Propensity: v[1], Likelihood: v[2], Naive: v[3], W: v[4],
		PU: v[5], AP: v[6]}
}

// allPairs sums all pairs from one block to another.
func (p *plan) allPairs(ctx context.Context, t *task) (numbered, error) {
	from, to := p.Layout.Blocks[t.Source], p.Layout.Blocks[t.Target]
	var numbers []int32
	span := func(first, n int) (places []int32) {
		for k := range n {
			places = append(places, int32(len(numbers)))
			numbers = append(numbers, int32(first+k))
		}
		return places
	}
	sources := span(from.First, from.Nodes)
	targets := sources
	if t.Target != t.Source {
		targets = span(to.First, to.Nodes)
	}
	nodes, err := p.shards().Gather(ctx, p.Layout, numbers, p.Threads)
	if err != nil {
		return numbered{}, err
	}
	defer nodes.Vectors.Close()
	predictor, err := p.predictor(ctx, nodes)
	if err != nil {
		return numbered{}, err
	}
	total, err := engine.CPU{Threads: p.Threads}.SumRectangle(ctx, nodes, predictor,
		engine.Rectangle{Sources: p.only(sources, numbers, graph.TargetOnly),
			Targets: p.only(targets, numbers, graph.SourceOnly), Floor: p.Floor})
	if err != nil {
		return numbered{}, err
	}
	for _, shard := range t.Links {
		links, _, err := p.shards().Pairs(ctx, shard, p.Threads)
		if err != nil {
			return numbered{}, err
		}
		var batch model.Batch
		for k, i := range links.Source {
			if j := links.Target[k]; j != i {
				batch.Sources = append(batch.Sources, sources[int(i)-from.First])
				batch.Targets = append(batch.Targets, targets[int(j)-to.First])
			}
		}
		linked, err := predictor.SumLinks(batch, p.Floor)
		if err != nil {
			return numbered{}, err
		}
		total.Add(linked)
	}
	return numbered{t.Number, total.Pairs, valuesOf(total)}, nil
}

// only returns the places of nodes that are not of a role.
func (p *plan) only(places, numbers []int32, not graph.Role) (kept []int32) {
	if p.Layout.Roles == nil {
		return places
	}
	for _, k := range places {
		if p.Layout.Role(numbers[k]) != not {
			kept = append(kept, k)
		}
	}
	return kept
}

// HeldMeans is what held-out pairs say of a model: means over the pairs, each counted for as many as it stands for.
type HeldMeans struct {
	engine.Means
	Weight float64 `json:"weight"` // of all, together
}

// Judge computes the risks of a model's own predictions by the held-out pairs.
func (e *Cluster) Judge(ctx context.Context, by engine.Predictor) (HeldMeans, error) {
	m := e.Manifest
	if len(m.Test) == 0 {
		return HeldMeans{}, e.noneHeld()
	}
	p, err := e.judged(ctx, by, "held")
	if err != nil {
		return HeldMeans{}, err
	}
	sum, err := e.sum(ctx, p, tasksOf(m.Test), "held-out")
	if err != nil {
		return HeldMeans{}, err
	}
	if len(sum.Values) != 8 || !(sum.Values[7] > 0) {
		return HeldMeans{}, fmt.Errorf("%w: %d sums of held-out pairs came back, where 8 were asked for", ErrJob,
			len(sum.Values))
	}
	weight := sum.Values[7]
	means := sumsOf(sum)
	means.Pairs = 1
	t := means.Means() // sums, over one
	out := HeldMeans{Weight: weight, Means: engine.Means{
		Pairs: sum.Pairs, MeanLink: t.MeanLink / weight, MeanPropensity: t.MeanPropensity / weight,
		Likelihood: t.Likelihood / weight, Naive: t.Naive / weight, W: t.W / weight, PU: t.PU / weight,
		AP: t.AP / weight,
	}}
	return out, nil
}

// held sums a shard of held-out pairs.
func (p *plan) held(ctx context.Context, t *task) (numbered, error) {
	part, err := p.shards().Load(ctx, p.Layout, *t.Shard, nil, p.Threads)
	if err != nil {
		return numbered{}, err
	}
	defer part.Close()
	predictor, err := p.predictor(ctx, part.Nodes)
	if err != nil {
		return numbered{}, err
	}
	total, weight, err := predictor.SumSeen(model.Batch{Sources: part.Pairs.Source, Targets: part.Pairs.Target},
		part.Pairs.Linked, part.Pairs.Weight)
	if err != nil {
		return numbered{}, fmt.Errorf("%s: %w", p.shards().Path(t.Shard.File.Name), err)
	}
	return numbered{t.Number, total.Pairs, append(valuesOf(total), weight)}, nil
}
