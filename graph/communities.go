package graph

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
)

// Communities says how FieldsByLinks finds fields. Its zero value finds them in all links.
type Communities struct {
	// Split limits the search to its training links, so that fields do not leak the links to
	// be predicted. Nil means all links.
	Split *Split
	// Resolution is γ: above 1 communities are smaller, below 1 larger. Zero means 1.
	Resolution float64
	// MinSize is the fewest nodes that make a field. Zero keeps every community.
	MinSize int
	// JoinSmall merges a community of fewer than MinSize nodes into the field that it has most links with,
	// the larger of equals. Otherwise, and where it has no links, its nodes are in UnknownField.
	JoinSmall bool
	Seed      uint64 // the same seed finds the same fields
}

// FieldsByLinks returns the same graph with fields found in its links, in place of those it has:
// communities with many links inside and few between, by the method of Louvain (Blondel, Guillaume,
// Lambiotte and Lefebvre, 2008), which makes the modularity
//
//	Q = Σ_c [ inside_c/m − γ·(degrees_c/2m)² ]
//
// large over the communities c: of the m links, inside_c have both ends in c; degrees_c is the number of
// ends in c. Directions are ignored; two nodes that link to each other have two links.
//
// Fields are named "community 1", "community 2" and so on by size. A node without any of the links has
// the field UnknownField. With a Split these are all nodes of validation and test, by design: use
// FieldsByVectors for a model that must know their fields.
func (g *Graph) FieldsByLinks(ctx context.Context, s Communities) (*Graph, FieldReport, error) {
	var none FieldReport
	if s.Resolution == 0 {
		s.Resolution = 1
	}
	switch {
	case !(s.Resolution > 0 && s.Resolution <= math.MaxFloat64):
		return nil, none, fmt.Errorf("fields by links: %w: resolution %v; give a positive number, 1 as a rule",
			ErrSettings, s.Resolution)
	case s.MinSize < 0:
		return nil, none, fmt.Errorf("fields by links: %w: at least %d nodes; give 0 to keep all communities",
			ErrSettings, s.MinSize)
	case s.Split != nil && !s.Split.whole().sharesLinks(g):
		return nil, none, fmt.Errorf("fields by links: the split is of another graph: %w; split the order of "+
			"this one", ErrShape)
	}
	r := FieldReport{Converged: true}
	links, which := g.Links(), "all"
	if s.Split != nil {
		links, which = s.Split.trainLinks(), "training"
	}
	w := newNetwork(g.Len(), links)
	if w.ends == 0 {
		return nil, none, fmt.Errorf("fields by links: %w (%s links); give the graph links, give training a "+
			"larger share, or use FieldsByVectors", ErrNoLinks, which)
	}
	r.Found = fmt.Sprintf("Louvain on %s links, %d of them: resolution %v, seed %d", which, int64(w.ends)/2,
		s.Resolution, s.Seed)
	if s.MinSize > 1 {
		r.Found += fmt.Sprintf(", communities below %d nodes join %s", s.MinSize,
			map[bool]string{false: "unknown", true: "a neighbour"}[s.JoinSmall])
	}
	of, top, err := w.communities(ctx, rand.New(rand.NewPCG(s.Seed, 0)), s.Resolution, &r)
	if err != nil {
		return nil, none, err
	}
	fields, err := top.settle(of, s, &r)
	if err != nil {
		return nil, none, err
	}
	found, sizes, err := g.withFields("community", of, fields)
	if err != nil {
		return nil, none, err
	}
	r.Sizes = sizes
	return found, r, nil
}

// trainLinks yields what Links(Train) does, by source as Graph.Links does: which nodes come after does
// not change how the search goes.
func (s *Split) trainLinks() iter.Seq2[int32, int32] {
	if s.links != nil {
		return s.Links(Train)
	}
	return func(yield func(source, target int32) bool) {
		for i, j := range s.order.graph.Links() {
			if s.Subset(i) == Train && s.Subset(j) == Train && !yield(i, j) {
				return
			}
		}
	}
}

// network is the links without their direction, each in the rows of both its ends, between nodes or
// between communities of them. Two nodes that link to each other are twice in each other's row.
type network struct {
	rows
	weight []float64 // of each link, beside rows.node
	inside []float64 // of each node, the ends of links within it: two per link
	degree []float64 // of each node, the ends of links at it
	ends   float64   // of all links: 2m
}

func newNetwork(n int, links iter.Seq2[int32, int32]) *network {
	w := &network{rows: rows{start: make([]int64, n+1)}, inside: make([]float64, n), degree: make([]float64, n)}
	for i, j := range links {
		w.degree[i]++
		w.degree[j]++
		w.ends += 2
	}
	for i, d := range w.degree {
		w.start[i] = int64(d)
	}
	startRows(w.start)
	w.node = make([]int32, int(w.ends))
	for i, j := range links {
		w.node[w.start[i]] = j
		w.start[i]++
		w.node[w.start[j]] = i
		w.start[j]++
	}
	endRows(w.start)
	w.weight = slices.Repeat([]float64{1}, len(w.node))
	return w
}

// communities returns the community of every node, and the network of communities. A round lets nodes
// move, then the communities that they make as if they were nodes, then those, until none moves; the
// next one lets nodes move from where it ended, which undoes much of what was merged too soon. A round
// that gains little is the last.
func (w *network) communities(ctx context.Context, random *rand.Rand, resolution float64, r *FieldReport) (of []int32,
	top *network, err error) {
	of = numbers(len(w.degree))
	r.Modularity = math.Inf(-1)
	for {
		if err := w.move(ctx, of, random, resolution); err != nil {
			return nil, nil, err
		}
		count := renumber(of)
		top = w.merge(of, count)
		for {
			joined := numbers(count)
			if err := top.move(ctx, joined, random, resolution); err != nil {
				return nil, nil, err
			}
			if count = renumber(joined); count == len(joined) {
				break
			}
			apply(of, joined)
			top = top.merge(joined, count)
		}
		r.Rounds++
		before := r.Modularity
		// An enormous resolution makes it infinite, and then nothing can be gained.
		if r.Modularity = top.modularity(resolution); !(r.Modularity-before >= enoughModularity) {
			return of, top, nil
		}
	}
}

// enoughModularity is the gain of a round below which the search ends.
const enoughModularity = 1e-4

// move moves nodes from the communities they are in to those of neighbours, each to where the modularity
// gains most, until it gains no more. Nodes come first in a random order, then when a neighbour has moved.
//
// Node i, taken out of its community, adds to community c
//
//	(links to c) − γ·degree_i·degrees_c/2m        in units of 1/m
func (w *network) move(ctx context.Context, of []int32, random *rand.Rand, resolution float64) error {
	n := len(w.degree)
	degrees := make([]float64, n) // of each community
	for i, c := range of {
		degrees[c] += w.degree[i]
	}
	queue := numbers(n)
	random.Shuffle(n, func(a, b int) { queue[a], queue[b] = queue[b], queue[a] })
	waits := slices.Repeat([]bool{true}, n)
	links := make([]float64, n) // from node i to each community
	var met []int32             // communities that it has links to
	for head, waiting, turn := 0, n, 0; waiting > 0; turn++ {
		if turn%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		i := queue[head]
		head, waiting = (head+1)%n, waiting-1
		waits[i] = false
		met = met[:0]
		for k := w.start[i]; k < w.start[i+1]; k++ {
			c := of[w.node[k]]
			if links[c] == 0 {
				met = append(met, c)
			}
			links[c] += w.weight[k]
		}
		home, cost := of[i], resolution*w.degree[i]/w.ends
		degrees[home] -= w.degree[i]
		// A move must gain more than rounding could feign, or two nodes might chase each other for ever.
		best, most := home, links[home]-cost*degrees[home]+1e-9*w.degree[i]
		for _, c := range met {
			if gain := links[c] - cost*degrees[c]; gain > most {
				best, most = c, gain
			}
			links[c] = 0
		}
		degrees[best] += w.degree[i]
		if best == home {
			continue
		}
		of[i] = best
		for _, j := range w.row(i) {
			if !waits[j] && of[j] != best {
				waits[j] = true
				queue[(head+waiting)%n] = j
				waiting++
			}
		}
	}
	return nil
}

// merge makes the network of communities; node i is in community of[i].
func (w *network) merge(of []int32, communities int) *network {
	merged := &network{inside: make([]float64, communities), degree: make([]float64, communities), ends: w.ends}
	merged.start = make([]int64, 1, communities+1)
	members := groups(of, communities)
	links := make([]float64, communities)
	for c := range int32(communities) {
		first := len(merged.node)
		for _, i := range members.row(c) {
			merged.inside[c] += w.inside[i]
			merged.degree[c] += w.degree[i]
			for k := w.start[i]; k < w.start[i+1]; k++ {
				to := of[w.node[k]]
				if to == c {
					merged.inside[c] += w.weight[k]
					continue
				}
				if links[to] == 0 {
					merged.node = append(merged.node, to)
				}
				links[to] += w.weight[k]
			}
		}
		for _, to := range merged.node[first:] {
			merged.weight = append(merged.weight, links[to])
			links[to] = 0
		}
		merged.start = append(merged.start, int64(len(merged.node)))
	}
	return merged
}

// modularity returns that of every node of the network as a community.
func (w *network) modularity(resolution float64) float64 {
	q := 0.
	for c, degree := range w.degree {
		q += w.inside[c]/w.ends - resolution*(degree/w.ends)*(degree/w.ends)
	}
	return q
}

// settle turns the community of every node into its field: communities that are large enough are
// fields, smaller ones are merged, and nodes without links have none. It returns the number of fields.
func (w *network) settle(of []int32, s Communities, r *FieldReport) (fields int, err error) {
	size := make([]int, len(w.degree))
	for _, c := range of {
		if w.degree[c] > 0 {
			size[c]++
		}
	}
	least := max(s.MinSize, 1)
	field := slices.Repeat([]int32{fieldless}, len(size))
	for c, n := range size {
		if n >= least {
			field[c] = int32(fields)
			fields++
		}
	}
	if fields == 0 {
		return 0, fmt.Errorf("fields by links: %w: none has %d nodes, the largest has %d; lower MinSize to "+
			"that or less", ErrSettings, least, slices.Max(size))
	}
	for c, n := range size {
		if n == 0 || n >= least {
			continue
		}
		r.Merged++
		if s.JoinSmall {
			if to := w.neighbour(int32(c), size, least); to >= 0 {
				field[c] = field[to]
			}
		}
	}
	apply(of, field)
	return fields, nil
}

// neighbour returns the community of the least size or more that c has most links with, the larger and
// then the first of equals, or −1.
func (w *network) neighbour(c int32, size []int, least int) int32 {
	best, most := int32(-1), 0.
	for k := w.start[c]; k < w.start[c+1]; k++ {
		to := w.node[k]
		if size[to] < least || w.weight[k] < most {
			continue
		}
		if w.weight[k] > most || size[to] > size[best] || size[to] == size[best] && to < best {
			best, most = to, w.weight[k]
		}
	}
	return best
}

// groups lists the members of each group, ascending; i is in group of[i].
func groups(of []int32, count int) rows {
	members := rows{start: make([]int64, count+1), node: make([]int32, len(of))}
	for _, c := range of {
		members.start[c]++
	}
	startRows(members.start)
	for i, c := range of {
		members.node[members.start[c]] = int32(i)
		members.start[c]++
	}
	endRows(members.start)
	return members
}

// sharesLinks reports whether two graphs have the very same links, as they do when one came from the
// other by WithVectors or with other fields.
func (g *Graph) sharesLinks(other *Graph) bool {
	a, b := g.out.start, other.out.start
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// renumber numbers groups from 0 as they first occur, in place, and returns how many there are.
func renumber(of []int32) int {
	number := slices.Repeat([]int32{-1}, len(of))
	count := 0
	for i, c := range of {
		if number[c] < 0 {
			number[c] = int32(count)
			count++
		}
		of[i] = number[c]
	}
	return count
}

// apply replaces every group by what it has become.
func apply(of, became []int32) {
	for i, c := range of {
		of[i] = became[c]
	}
}

// numbers returns 0, 1, … n−1.
func numbers(n int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(i)
	}
	return list
}
