package world

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"

	"unseen/graph"
	"unseen/internal/kern"
	"unseen/risk"
)

// Draw says which pairs of a world to draw. The zero value draws training pairs from all nodes.
type Draw struct {
	// Part is which of Parts to draw from. The ordered pairs are put into one random order, of which
	// part p has the places p, p + Parts, p + 2·Parts and so on. So no two parts share a pair, each
	// is a uniform sample of all pairs, and a longer draw contains the shorter ones.
	// This holds between draws of the same world, Nodes, Older and Parts.
	Part  int
	Parts int // 0 means 3: train, validation and test, numbered as in package graph

	// Nodes limits both ends of the pairs; nil means all. Drawing from the nodes of one subset of a
	// graph.Split tests on nodes that were never trained on.
	Nodes []int32
	// Older keeps only pairs whose target is older than their source, as links are: the pairs among
	// which Linked draws.
	Older bool

	// Logged is the share of pairs whose exposure is logged, independently of everything else. A
	// pair that is logged at one share is logged at every larger one.
	Logged float64
}

// TruePairs is pairs of a world with the truth about them, column by column. Reordering Pairs
// does not reorder the other columns.
type TruePairs struct {
	// Pairs is what a learner may see. They are a uniform sample without replacement, ascending
	// by source and then by target. Weight is |U|/n, the inverse of the chance n/|U| of every pair.
	//
	// Rate is 1: pairs are drawn whether they are linked or not, so that P(linked |
	// sampled) is World.LinkRate and the case-control likelihood has nothing to add to the logit. (Rate is
	// the chance of an unlinked pair relative to that of a linked one.)
	Pairs *graph.Pairs

	Relevant []bool // o′
	Exposed  []bool // a; Pairs.Linked is o = o′·a
	Logged   []bool // whether a learner may see Exposed

	Logits []float64    // z, with y = κ·F(z)
	Truth  []risk.Truth // π and y
}

// Observation returns what is observed of pair k, with y for the true risk.
func (s *TruePairs) Observation(k int) risk.Observation {
	o := risk.Observation{Linked: s.Pairs.Linked[k]}
	switch {
	case s.Logged[k] && s.Exposed[k]:
		o.Exposure = risk.Exposed
	case s.Logged[k]:
		o.Exposure = risk.Unexposed
	}
	return o.WithRelevance(s.Truth[k].Link)
}

// Pairs draws n different pairs, uniformly, with their relevance and exposure.
func (w *World) Pairs(ctx context.Context, n int, d Draw) (*TruePairs, error) {
	d.Parts = cmp.Or(d.Parts, 3)
	switch {
	case d.Parts < 1:
		return nil, bad("Parts is %d; give 1 or more, or 0 for 3", d.Parts)
	case d.Part < 0 || d.Part >= d.Parts:
		return nil, bad("Part is %d of %d Parts; give from 0 to %d", d.Part, d.Parts, d.Parts-1)
	case n < 1:
		return nil, bad("%d pairs; draw at least one", n)
	}
	u, err := w.universe(d)
	if err != nil {
		return nil, err
	}
	if most := min(u.partSize(d.Part, d.Parts), graph.MaxPairs); uint64(n) > most {
		return nil, fmt.Errorf("%w: %d, when part %d of %d has %d; draw fewer, from fewer Parts or more nodes",
			ErrTooManyPairs, n, d.Part, d.Parts, most)
	}
	p := &graph.Pairs{
		Source: make([]int32, n), Target: make([]int32, n), Linked: make([]bool, n),
		Weight: make([]float64, n), Rate: make([]float64, n), Universe: int64(u.size),
	}
	u.draw(p.Source, p.Target, newPermutation(w.seed, pairStream, u.size), d.Part, d.Parts, w.threads)
	for k := range n {
		p.Weight[k] = float64(u.size) / float64(n)
		p.Rate[k] = 1
	}
	s, err := w.reveal(ctx, p, d.Logged)
	if err != nil {
		return nil, err
	}
	for k := range n {
		p.Linked[k] = s.Relevant[k] && s.Exposed[k]
	}
	return s, nil
}

// Reveal returns what is true of pairs that came from elsewhere, such as the samplers of package
// graph on the graph of a world with drawn links. It is an error if a pair's link is not this world's.
// The sample keeps p.
func (w *World) Reveal(ctx context.Context, p *graph.Pairs, logged float64) (*TruePairs, error) {
	n := uint32(w.graph.Len())
	if len(p.Target) != p.Len() || len(p.Linked) != p.Len() {
		return nil, fmt.Errorf("pairs with columns of %d, %d and %d rows: %w; give each pair all its values",
			p.Len(), len(p.Target), len(p.Linked), graph.ErrShape)
	}
	for k, i := range p.Source {
		if j := p.Target[k]; uint32(i) >= n || uint32(j) >= n || i == j {
			return nil, fmt.Errorf("pair %d is (%d, %d) of a world with %d nodes: %w; sample from this "+
				"world's graph", k, i, j, n, graph.ErrPair)
		}
	}
	s, err := w.reveal(ctx, p, logged)
	if err != nil {
		return nil, err
	}
	for k, linked := range p.Linked {
		if linked != (s.Relevant[k] && s.Exposed[k]) {
			return nil, fmt.Errorf("pair %d (%d, %d) says linked %t, this world %t: %w; sample from the "+
				"graph that Linked returns, older targets only",
				k, p.Source[k], p.Target[k], linked, !linked, ErrGraph)
		}
	}
	return s, nil
}

// reveal tosses the coins of the pairs.
func (w *World) reveal(ctx context.Context, p *graph.Pairs, logged float64) (*TruePairs, error) {
	if !(logged >= 0 && logged <= 1) {
		return nil, bad("the share of pairs with Logged exposure is %v; give from 0 to 1", logged)
	}
	if w.graph.Vectors().Len() == 0 {
		return nil, fmt.Errorf("%w: its vectors were closed; close them after the last draw", ErrGraph)
	}
	n := p.Len()
	s := &TruePairs{
		Pairs: p, Relevant: make([]bool, n), Exposed: make([]bool, n), Logged: make([]bool, n),
		Logits: make([]float64, n), Truth: make([]risk.Truth, n),
	}
	scores, queries := make([]float32, w.threads*chunkSize), w.queries()
	err := kern.ChunksErr(ctx, n, chunkSize, w.threads, func(worker, _, from, to int) error {
		scores := scores[worker*chunkSize:][:to-from]
		w.score(scores, queries[worker], p.Source[from:to], p.Target[from:to])
		for k := from; k < to; k++ {
			i, j := p.Source[k], p.Target[k]
			z := w.logit(scores[k-from])
			s.Logits[k] = z + w.qualityOf(j)
			s.Truth[k] = w.truth(i, j, z)
			s.Exposed[k], s.Relevant[k] = w.toss(i, j, s.Truth[k])
			s.Logged[k] = w.log.toss(i, j) < logged
		}
		return nil
	})
	return s, err
}

// universe numbers the ordered pairs of some nodes.
type universe struct {
	size  uint64
	nodes []int32 // by number; nil means that the number is the node
	older bool    // only pairs whose target has the smaller number
	count uint64  // of nodes
	sides *sides  // where not all nodes are source and target; else nil
}

// sides numbers the ordered pairs of sources and targets, source by source.
type sides struct {
	sources, targets []int32
	start            []uint64 // of each source, the number of its first pair; one more than sources
	self             []int    // the place of each source among the targets, −1 where it is none
}

// newSides numbers the pairs of some nodes; with an order, those whose target is older.
func newSides(g *graph.Graph, nodes []int32, order *graph.Order) *sides {
	s := &sides{start: []uint64{0}}
	for _, i := range nodes {
		if g.IsSource(i) {
			s.sources = append(s.sources, i)
		}
		if g.IsTarget(i) {
			s.targets = append(s.targets, i)
		}
	}
	if order != nil {
		slices.SortFunc(s.targets, func(a, b int32) int { return int(order.Rank[a]) - int(order.Rank[b]) })
	}
	for _, i := range s.sources {
		met, self := len(s.targets), -1
		if order != nil {
			met = sort.Search(met, func(k int) bool { return order.Rank[s.targets[k]] >= order.Rank[i] })
		} else if at, is := slices.BinarySearch(s.targets, i); is {
			met, self = met-1, at
		}
		s.start, s.self = append(s.start, s.start[len(s.start)-1]+uint64(met)), append(s.self, self)
	}
	return s
}

func (s *sides) pair(number uint64) (source, target int32) {
	k := sort.Search(len(s.sources), func(k int) bool { return s.start[k+1] > number })
	j := int(number - s.start[k])
	if s.self[k] >= 0 && j >= s.self[k] {
		j++
	}
	return s.sources[k], s.targets[j]
}

func (w *World) universe(d Draw) (universe, error) {
	u := universe{nodes: d.Nodes, older: d.Older, count: uint64(w.graph.Len())}
	if d.Nodes != nil {
		u.count = uint64(len(d.Nodes))
		u.nodes = slices.Clone(d.Nodes)
		slices.Sort(u.nodes)
		for k, i := range u.nodes {
			switch {
			case uint32(i) >= uint32(w.graph.Len()):
				return u, bad("Nodes has node %d of a world with %d; give nodes of this world", i, w.graph.Len())
			case k > 0 && i == u.nodes[k-1]:
				return u, bad("Nodes has node %d twice; give each once", i)
			}
		}
	}
	if u.count < 2 {
		return u, bad("Nodes has %d nodes and so no pairs; give at least 2", u.count)
	}
	if w.graph.TwoSided() {
		var order *graph.Order
		if d.Older {
			order = w.order
		}
		u.nodes = orAll(u.nodes, w.graph.Len())
		u.sides = newSides(w.graph, u.nodes, order)
		if u.size = u.sides.start[len(u.sides.sources)]; u.size == 0 {
			return u, bad("there is no pair of a source and a target among %d nodes; give more of them", len(u.nodes))
		}
		return u, nil
	}
	u.size = u.count * (u.count - 1)
	if d.Older {
		u.size /= 2
		if u.nodes == nil {
			u.nodes = w.order.Sequence
		} else {
			slices.SortFunc(u.nodes, func(a, b int32) int { return int(w.order.Rank[a]) - int(w.order.Rank[b]) })
		}
	}
	return u, nil
}

// partSize is the number of pairs in a part.
func (u *universe) partSize(part, parts int) uint64 {
	if uint64(part) >= u.size {
		return 0
	}
	return (u.size-1-uint64(part))/uint64(parts) + 1
}

// draw fills sources and targets with the first pairs of a part of a random order of the universe,
// ascending by source and then by target.
func (u *universe) draw(sources, targets []int32, order permutation, part, parts, threads int) {
	pairs := make([]uint64, len(sources))
	kern.Chunks(len(pairs), chunkSize, threads, func(_, _, from, to int) {
		for k := from; k < to; k++ {
			source, target := u.pair(order.at(uint64(k)*uint64(parts) + uint64(part)))
			pairs[k] = uint64(source)<<32 | uint64(target)
		}
	})
	slices.Sort(pairs)
	for k, pair := range pairs {
		sources[k], targets[k] = int32(pair>>32), int32(uint32(pair))
	}
}

// pair returns the pair with a number below size.
func (u *universe) pair(number uint64) (source, target int32) {
	if u.sides != nil {
		return u.sides.pair(number)
	}
	var i, j uint64
	if u.older {
		// Pairs (1,0), (2,0), (2,1), (3,0), …: source i begins at i(i−1)/2.
		i = uint64((1 + math.Sqrt(1+8*float64(number))) / 2)
		for i*(i-1)/2 > number {
			i--
		}
		for i*(i+1)/2 <= number {
			i++
		}
		j = number - i*(i-1)/2
	} else {
		i, j = number/(u.count-1), number%(u.count-1)
		if j >= i {
			j++
		}
	}
	if u.nodes == nil {
		return int32(i), int32(j)
	}
	return u.nodes[i], u.nodes[j]
}
