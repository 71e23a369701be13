package world

import (
	"context"
	"fmt"
	"slices"

	"unseen/graph"
	"unseen/internal/kern"
)

// Linked returns the world with every link that its draws say exists, from newer to older nodes:
// i links to j where j is older, relevant and exposed. It replaces the links that the graph had.
// Draw pairs with Older to have none that the graph cannot link.
//
// Every source is compared with all older nodes, and with the vectors of those that it was exposed to, so the time
// grows with the square of the nodes. Thin a world of more than a few thousand nodes first: that is faster, and the
// graph becomes as sparse as real ones. Where exposure depends on texts (Violations.Text), all vectors are compared
// and thinning saves no time.
func (w *World) Linked(ctx context.Context) (*World, error) {
	w = w.withoutLinks()
	if w.graph.Vectors().Len() == 0 {
		return nil, fmt.Errorf("%w: its vectors were closed; close them after the last draw", ErrGraph)
	}
	const sources = 16 // few at a time, since newer ones have more targets
	n := w.graph.Len()
	found := make([][]graph.Link, (n+sources-1)/sources)
	workers := make([]finder, w.threads)
	if err := kern.ChunksErr(ctx, n, sources, w.threads, func(worker, chunk, from, to int) error {
		f := &workers[worker]
		f.world = w
		for rank := from; rank < to; rank++ {
			found[chunk] = f.find(found[chunk], rank)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	return w.withLinks(found)
}

// finder is one thread's scratch memory.
type finder struct {
	world         *World
	query, scores []float32
	targets       []int32
}

// find appends the links of the node at a place in the order.
func (f *finder) find(links []graph.Link, rank int) []graph.Link {
	w := f.world
	i, targets := w.order.Sequence[rank], w.order.Sequence[:rank]
	if !w.graph.IsSource(i) {
		return links
	}
	if w.graph.TwoSided() {
		targets = slices.DeleteFunc(slices.Clone(targets), func(j int32) bool { return !w.graph.IsTarget(j) })
	}
	if w.violations.Text == 0 { // exposure can be drawn before texts are compared
		f.targets = f.targets[:0]
		for _, j := range targets {
			if w.exposure.toss(i, j) < w.propensityOf(i, j, 0) {
				f.targets = append(f.targets, j)
			}
		}
		targets = f.targets
	}
	for k, score := range f.compare(i, targets) {
		j := targets[k]
		if exposed, relevant := w.toss(i, j, w.truth(i, j, w.logit(score))); exposed && relevant {
			links = append(links, graph.Link{Source: i, Target: j})
		}
	}
	return links
}

// compare returns the scores of a source with targets, until the next call.
func (f *finder) compare(source int32, targets []int32) []float32 {
	if len(targets) == 0 {
		return nil
	}
	f.query = slices.Grow(f.query[:0], len(f.world.weights))[:len(f.world.weights)]
	f.scores = slices.Grow(f.scores[:0], len(targets))[:len(targets)]
	f.world.query(f.query, source)
	kern.Dots(f.scores, f.query, kern.MatrixOf(f.world.graph.Vectors()), targets)
	return f.scores
}

// withLinks builds the graph again. The fields may get other numbers, so the propensities are reordered.
func (w *World) withLinks(found [][]graph.Link) (*World, error) {
	old := w.graph
	var b graph.Builder
	for i := range int32(old.Len()) {
		node := graph.Node{ID: old.ID(i), Title: old.Title(i), Role: old.Role(i)}
		if f := old.Field(i); f != graph.UnknownField {
			node.Field = old.FieldName(f)
		}
		if t, known := old.Time(i); known {
			node.Time = t
		}
		if _, err := b.AddNode(node); err != nil {
			return nil, err
		}
	}
	for _, links := range found {
		for _, l := range links {
			if err := b.AddLinkIndex(l.Source, l.Target); err != nil {
				return nil, err
			}
		}
	}
	g, _, err := b.Build()
	if err == nil {
		g, err = g.WithVectors(old.Vectors())
	}
	if err != nil {
		return nil, err
	}
	linked := *w
	linked.graph, linked.unlinked = g, w
	before := make([]int, g.FieldCount())
	for i := range int32(g.Len()) {
		before[g.Field(i)] = int(old.Field(i))
	}
	renumbered := func(table []float64) []float64 {
		again := make([]float64, len(before)*len(before))
		for source, was := range before {
			for target, to := range before {
				again[source*len(before)+target] = table[was*old.FieldCount()+to]
			}
		}
		return again
	}
	if w.terms == nil {
		linked.propensity = renumbered(w.propensity)
	} else {
		terms := *w.terms
		terms.fields = renumbered(terms.fields)
		linked.terms = &terms
	}
	return &linked, nil
}
