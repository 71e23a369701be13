package graph

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Order is every node of a graph, oldest first, so that a link's target comes before its source.
// Its slices must not be changed.
//
// Time rules where it is known. A node without a time is as old as its links allow: it takes the
// latest time that following links from it reaches without passing another node that has one, or
// comes before everything if it reaches none. Nodes of the same time keep the order in which they
// were added, except that a node's targets, and theirs in turn, are pulled in front of it.
//
// A link that goes against the order is broken: because it contradicts the times (its source is
// older than its target), or because it closes a cycle among nodes of one time. Of a cycle, the link
// is broken that leads back to the node from which the cycle was entered, the first that was added
// or the first that another node pulled in.
//
// Nodes that are targets only come first, in this order among themselves: they are there for every source, and it is
// the sources that a split divides.
type Order struct {
	Sequence []int32 // nodes, oldest first
	Rank     []int32 // place in Sequence of every node
	Broken   []Link  // links whose target comes after their source, by source and then by target

	AgainstTime int // broken links that contradict the times; the others lie on cycles

	graph *Graph
	when  []int64 // own or inferred time of every node; never falls along Sequence
}

// Order returns the graph's topological order. It takes O(links + nodes·log nodes), and the same
// graph always has the same order.
func (g *Graph) Order() *Order {
	o := &Order{graph: g, when: g.inferTimes()}
	o.Sequence = g.sequence(o.when)
	o.targetsFirst()
	o.Rank = make([]int32, g.Len())
	o.rank()
	return o
}

// Precedes reports whether node i comes before node j.
func (o *Order) Precedes(i, j int32) bool { return o.Rank[i] < o.Rank[j] }

// Moment is the time of a node that the order goes by, in seconds since 1970; NoTime where it has none. In that of
// [Graph.Availability] a source's is its last.
func (o *Order) Moment(i int32) int64 {
	if o.when[i] == math.MaxInt64 {
		return NoTime
	}
	return o.when[i]
}

// inferTimes returns the known times and, for other nodes, the latest one they reach. Times
// spread from target to source, the latest first, so the first that reaches a node is the one to keep.
func (g *Graph) inferTimes() []int64 {
	when := slices.Clone(g.times)
	if when == nil {
		when = slices.Repeat([]int64{NoTime}, g.Len())
	}
	var known []int32
	for i, t := range when {
		if t != NoTime {
			known = append(known, int32(i))
		}
	}
	if len(known) == 0 || len(known) == len(when) {
		return when
	}
	slices.SortFunc(known, func(i, j int32) int { return cmp.Compare(when[j], when[i]) })
	var reached []int32
	for _, first := range known {
		for reached = append(reached[:0], first); len(reached) > 0; {
			j := reached[len(reached)-1]
			reached = reached[:len(reached)-1]
			for _, i := range g.In(j) {
				if when[i] == NoTime {
					when[i] = when[first]
					reached = append(reached, i)
				}
			}
		}
	}
	return when
}

// sequence orders the nodes by time, and those of one time by a depth-first walk along the links
// among them, in which a node comes out after all that it leads to. Only a link back to a node that
// the walk is still coming from, which closes a cycle, ends up against the order. The walk keeps its
// own stack: chains can be as long as the graph.
func (g *Graph) sequence(when []int64) []int32 {
	var (
		sequence = make([]int32, 0, g.Len())
		reached  = make([]bool, g.Len())
		path     []step // from the root to where the walk is
	)
	for _, root := range byTime(when) {
		if reached[root] {
			continue
		}
		reached[root] = true
		for path = append(path, step{node: root}); len(path) > 0; {
			at := &path[len(path)-1]
			targets := g.Out(at.node)
			if int(at.next) == len(targets) {
				sequence = append(sequence, at.node)
				path = path[:len(path)-1]
				continue
			}
			j := targets[at.next]
			at.next++
			if !reached[j] && when[j] == when[at.node] {
				reached[j] = true
				path = append(path, step{node: j})
			}
		}
	}
	return sequence
}

// step is a node on the walk's path and which of its links comes next.
type step struct{ node, next int32 }

// byTime returns the nodes by time and then by index.
func byTime(when []int64) []int32 {
	nodes := numbers(len(when))
	byTimeThenIndex := func(i, j int32) int { return cmp.Or(cmp.Compare(when[i], when[j]), cmp.Compare(i, j)) }
	if !slices.IsSortedFunc(nodes, byTimeThenIndex) {
		slices.SortFunc(nodes, byTimeThenIndex)
	}
	return nodes
}

// ShuffledOrder returns the nodes in a random order, for graphs without time, such as networks of friends.
// Its Broken links mean nothing.
func (g *Graph) ShuffledOrder(src rand.Source) *Order {
	o := &Order{graph: g, Sequence: numbers(g.Len()), Rank: make([]int32, g.Len()),
		when: slices.Repeat([]int64{NoTime}, g.Len())}
	rand.New(src).Shuffle(len(o.Sequence), func(a, b int) {
		o.Sequence[a], o.Sequence[b] = o.Sequence[b], o.Sequence[a]
	})
	o.targetsFirst()
	o.rank()
	return o
}

// targetsFirst puts the nodes that are targets only in front, before every time.
func (o *Order) targetsFirst() {
	if !o.graph.TwoSided() {
		return
	}
	var rest []int32
	front := o.Sequence[:0]
	for _, i := range o.Sequence {
		if o.graph.IsSource(i) {
			rest = append(rest, i)
			continue
		}
		front = append(front, i)
		o.when[i] = NoTime
	}
	o.Sequence = append(front, rest...)
}

// rank fills in what follows from the sequence.
func (o *Order) rank() {
	for rank, i := range o.Sequence {
		o.Rank[i] = int32(rank)
	}
	for i, j := range o.graph.Links() {
		if !o.Precedes(j, i) {
			o.Broken = append(o.Broken, Link{i, j})
			if o.when[i] < o.when[j] {
				o.AgainstTime++
			}
		}
	}
}

// Availability returns the order in which a target comes before a source if it was there when the source was last
// active: what came later cannot have been shown to it. As [Universe].Before it leaves those pairs out.
//
// A target is there from its own time on, or from its first link where that is earlier; a target without a time always
// was. A source is active until its last link, plus some slack; one without links, or with a link that has
// no time, always is. Give it the training links alone (Split.Graph): what is held out must not tell when somebody was
// active. It is an error if no link has a time, or if a node is source and target at once, whose two times differ.
func (g *Graph) Availability(slack time.Duration) (*Order, error) {
	if !g.HasLinkTimes() {
		return nil, fmt.Errorf("%w: no link has a time, so that nothing says when a target was there", ErrDates)
	}
	const always = math.MaxInt64
	when := make([]int64, g.Len())
	for i := range int32(g.Len()) {
		if g.IsSource(i) && g.IsTarget(i) {
			return nil, fmt.Errorf("%w: node %q is source and target; what is available is told for people and items",
				ErrRole, g.ID(i))
		}
		if !g.IsSource(i) {
			if when[i] = NoTime; g.times != nil {
				when[i] = g.times[i]
			}
			continue
		}
		if when[i] = NoTime; len(g.Out(i)) == 0 {
			when[i] = always
		}
		for _, t := range g.OutTimes(i) {
			if t == NoTime {
				when[i] = always
				break
			}
			when[i] = max(when[i], t+int64(slack/time.Second))
		}
	}
	// Who was linked to was there.
	for _, i := range g.Sources() {
		times := g.OutTimes(i)
		for place, j := range g.Out(i) {
			if t := times[place]; when[j] != NoTime && t != NoTime {
				when[j] = min(when[j], t)
			}
		}
	}
	// At one time, targets come first.
	o := &Order{graph: g, when: when, Sequence: numbers(g.Len()), Rank: make([]int32, g.Len())}
	slices.SortStableFunc(o.Sequence, func(a, b int32) int {
		if c := cmp.Compare(when[a], when[b]); c != 0 || g.IsSource(a) == g.IsSource(b) {
			return c
		}
		if g.IsSource(a) {
			return 1
		}
		return -1
	})
	o.rank()
	return o, nil
}
