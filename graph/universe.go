package graph

import (
	"fmt"
	"iter"
)

// Universe says which ordered pairs of a graph count: from a node of Sources to another node of
// Targets. Its zero value is all pairs of the graph's sources and targets: n(n−1) where every node is both.
type Universe struct {
	Sources []int32 // of these the graph's sources; nil means all of them
	Targets []int32 // of these the graph's targets; nil means all of them
	// Before keeps only targets that come before the source in this order: what the source could
	// have linked to when it appeared. Broken links are then outside. Nil keeps all.
	Before *Order
	// Except leaves out the pairs that are linked in this graph of the same nodes: what was known before the links of
	// the sampled graph are judged. Nil leaves out none.
	Except *Graph
}

// Count returns how many ordered pairs the universe has in g, and how many of them are linked.
func (u Universe) Count(g *Graph) (pairs, linked int64, err error) {
	f, err := newFrame(g, u)
	if err != nil {
		return 0, 0, err
	}
	return f.pairs, f.linked, nil
}

// frame is a universe made ready for one graph.
type frame struct {
	g        *Graph
	except   *Graph  // whose links are outside; nil: none are
	order    *Order  // nil: targets need not precede
	sources  []int32 // ascending
	byRank   []int32 // sources by rank when order is set, else ascending
	targets  []int32 // by rank when order is set, else ascending
	isSource []bool
	isTarget []bool

	pairs, linked int64
}

func newFrame(g *Graph, u Universe) (*frame, error) {
	f := &frame{g: g, order: u.Before, except: u.Except}
	if f.except != nil && f.except.Len() != g.Len() {
		return nil, fmt.Errorf("the universe leaves out links of a graph of %d nodes, and this one has %d: %w; "+
			"use one "+
			"of the same nodes", f.except.Len(), g.Len(), ErrShape)
	}
	if f.order != nil && len(f.order.Rank) != g.Len() {
		return nil, fmt.Errorf("the universe's order has %d nodes, the graph %d: %w; use the order of "+
			"this graph", len(f.order.Rank), g.Len(), ErrShape)
	}
	var err error
	if f.isSource, err = g.mark(u.Sources, "sources", g.IsSource); err != nil {
		return nil, err
	}
	if f.isTarget, err = g.mark(u.Targets, "targets", g.IsTarget); err != nil {
		return nil, err
	}
	f.sources = marked(f.isSource, nil)
	f.byRank = marked(f.isSource, f.order)
	f.targets = marked(f.isTarget, f.order)
	count := f.candidates(f.targets)
	for _, i := range f.sources {
		f.pairs += int64(count[i])
		if f.meetsItself(i) {
			f.pairs--
		}
	}
	for range f.links() {
		f.linked++
	}
	for range f.outside() {
		f.pairs--
	}
	if f.pairs == 0 {
		return nil, fmt.Errorf("%w: %d sources and %d targets make none; take more of them, or let targets be newer",
			ErrEmptyUniverse, len(f.sources), len(f.targets))
	}
	return f, nil
}

// unlinked returns the number of pairs that are not links.
func (f *frame) unlinked() int64 { return f.pairs - f.linked }

// links yields the linked pairs of the universe, by source and then by target.
func (f *frame) links() iter.Seq2[int32, int32] {
	return func(yield func(source, target int32) bool) {
		for _, i := range f.sources {
			for _, j := range f.g.Out(i) {
				if f.admits(i, j) && !yield(i, j) {
					return
				}
			}
		}
	}
}

// outside yields the pairs that would be in the universe but for Except, by source and then by target.
func (f *frame) outside() iter.Seq2[int32, int32] {
	return func(yield func(source, target int32) bool) {
		if f.except == nil {
			return
		}
		for _, i := range f.sources {
			for _, j := range f.except.Out(i) {
				if f.reaches(i, j) && !yield(i, j) {
					return
				}
			}
		}
	}
}

// meetsItself reports whether source i is among its own candidates, as no pair may be.
func (f *frame) meetsItself(i int32) bool { return f.order == nil && f.isTarget[i] }

// admits reports whether the universe has the pair from source i to another node j.
func (f *frame) admits(i, j int32) bool {
	return f.reaches(i, j) && (f.except == nil || !f.except.HasLink(i, j))
}

// reaches is admits but for Except.
func (f *frame) reaches(i, j int32) bool {
	return f.isTarget[j] && (f.order == nil || f.order.Precedes(j, i))
}

// candidates returns, for every source, how many of the given targets it meets: with an order those
// that precede it, a prefix of the targets by rank; without one all of them, itself included.
// The count of node i is at i.
func (f *frame) candidates(targets []int32) []int32 {
	count := make([]int32, f.g.Len())
	met := 0
	for _, i := range f.byRank {
		if f.order == nil {
			met = len(targets)
		}
		for met < len(targets) && f.order.Precedes(targets[met], i) {
			met++
		}
		count[i] = int32(met)
	}
	return count
}

// mark returns a flag per node that has a role; nil nodes mean all of them.
func (g *Graph) mark(nodes []int32, what string, has func(i int32) bool) ([]bool, error) {
	flags := make([]bool, g.Len())
	if nodes == nil {
		for i := range flags {
			flags[i] = has(int32(i))
		}
		return flags, nil
	}
	for k, i := range nodes {
		if uint32(i) >= uint32(len(flags)) {
			return nil, fmt.Errorf("node %d of the universe's %s is %d, of a graph with %d nodes: %w; "+
				"use indices below that", k, what, i, len(flags), ErrUnknownNode)
		}
		if flags[i] {
			return nil, fmt.Errorf("the universe's %s hold node %q twice: %w; list each once", what, g.ID(i),
				ErrDuplicateNode)
		}
		flags[i] = true
	}
	for _, i := range nodes {
		flags[i] = has(i)
	}
	return flags, nil
}

// marked lists the flagged nodes, ascending or by rank.
func marked(flags []bool, order *Order) []int32 {
	var nodes []int32
	for k := range int32(len(flags)) {
		i := k
		if order != nil {
			i = order.Sequence[k]
		}
		if flags[i] {
			nodes = append(nodes, i)
		}
	}
	return nodes
}
