package world

import (
	"context"
	"fmt"
	"slices"

	"unseen/graph"
	"unseen/internal/kern"
)

// TrueMeans is what is true of all pairs of a universe together. A mean over no pairs is 0.
type TrueMeans struct {
	Pairs       int64
	Link        float64   // y
	Propensity  float64   // π
	Same, Cross float64   // π of pairs of one field and of two; the unknown field is never one field
	LinkRate    float64   // probability of being linked: πy where exposure and relevance are independent
	Fields      []float64 // π by field pair of the graph, row by row of the source's
}

// Means computes y and π of every pair of a universe, of which the zero value has all ordered pairs. The time grows
// with the square of the nodes; Profile measures a sample.
func (w *World) Means(ctx context.Context, u graph.Universe) (TrueMeans, error) {
	if _, _, err := u.Count(w.graph); err != nil {
		return TrueMeans{}, err
	}
	if w.graph.Vectors().Len() == 0 {
		return TrueMeans{}, fmt.Errorf("%w: its vectors were closed; close them after the last draw", ErrGraph)
	}
	only := func(nodes []int32, has func(i int32) bool) []int32 {
		return slices.DeleteFunc(slices.Clone(orAll(nodes, w.graph.Len())), func(i int32) bool { return !has(i) })
	}
	u.Sources, u.Targets = only(u.Sources, w.graph.IsSource), only(u.Targets, w.graph.IsTarget)
	blocks := w.blocksByField(u.Sources)
	sums := make([]pairSums, len(blocks))
	workers := make([]finder, w.threads)
	err := kern.ChunksErr(ctx, len(blocks), 1, w.threads, func(worker, at, _, _ int) error {
		f := &workers[worker]
		f.world = w
		sums[at].propensity, sums[at].pairs = make([]float64, w.graph.FieldCount()), make([]int64, w.graph.FieldCount())
		for _, i := range blocks[at] {
			f.sum(&sums[at], i, u)
		}
		return nil
	})
	if err != nil {
		return TrueMeans{}, err
	}
	return w.mean(blocks, sums), nil
}

// pairSums is what the pairs of sources of one field add up to, with propensities and counts by the target's field.
type pairSums struct {
	propensity     []float64
	pairs          []int64
	link, linkRate float64
}

// sum adds the pairs of a source.
func (f *finder) sum(s *pairSums, source int32, u graph.Universe) {
	w := f.world
	f.targets = f.targets[:0]
	for _, j := range u.Targets {
		if j != source && (u.Before == nil || u.Before.Rank[j] < u.Before.Rank[source]) &&
			(u.Except == nil || !u.Except.HasLink(source, j)) {
			f.targets = append(f.targets, j)
		}
	}
	for k, score := range f.compare(source, f.targets) {
		j := f.targets[k]
		t, field := w.truth(source, j, w.logit(score)), w.graph.Field(j)
		s.propensity[field] += t.Propensity
		s.pairs[field]++
		s.link += t.Link
		s.linkRate += w.LinkRate(t)
	}
}

// mean adds up the blocks, in their order.
func (w *World) mean(blocks [][]int32, sums []pairSums) TrueMeans {
	n := w.graph.FieldCount()
	m := TrueMeans{Fields: make([]float64, n*n)}
	pairs := make([]int64, n*n)
	for k, s := range sums {
		source := int(w.graph.Field(blocks[k][0]))
		for target, p := range s.propensity {
			m.Fields[source*n+target] += p
			pairs[source*n+target] += s.pairs[target]
		}
		m.Link += s.link
		m.LinkRate += s.linkRate
	}
	var same int64
	for c, p := range m.Fields {
		m.Pairs += pairs[c]
		if source, target := c/n, c%n; source == target && source != int(graph.UnknownField) {
			m.Same += p
			same += pairs[c]
		} else {
			m.Cross += p
		}
		m.Fields[c] = p / float64(max(pairs[c], 1))
	}
	m.Propensity = (m.Same + m.Cross) / float64(max(m.Pairs, 1))
	m.Same, m.Cross = m.Same/float64(max(same, 1)), m.Cross/float64(max(m.Pairs-same, 1))
	m.Link, m.LinkRate = m.Link/float64(max(m.Pairs, 1)), m.LinkRate/float64(max(m.Pairs, 1))
	return m
}

// blocksByField cuts nodes into blocks of few nodes, each of one field.
func (w *World) blocksByField(nodes []int32) [][]int32 {
	const size = 16
	nodes = slices.Clone(nodes)
	slices.SortStableFunc(nodes, func(a, b int32) int { return int(w.graph.Field(a)) - int(w.graph.Field(b)) })
	var blocks [][]int32
	for from := 0; from < len(nodes); {
		to := from + 1
		for to < len(nodes) && to-from < size && w.graph.Field(nodes[to]) == w.graph.Field(nodes[from]) {
			to++
		}
		blocks = append(blocks, nodes[from:to])
		from = to
	}
	return blocks
}

// orAll returns the nodes, or all where nil means them.
func orAll(nodes []int32, n int) []int32 {
	if nodes != nil {
		return nodes
	}
	nodes = make([]int32, n)
	for i := range nodes {
		nodes[i] = int32(i)
	}
	return nodes
}
