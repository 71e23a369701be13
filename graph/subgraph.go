package graph

import "fmt"

// Direction says which way a walk follows links.
type Direction uint8

// The directions of a walk.
const (
	BothWays Direction = iota // from source to target and back
	Forward                   // from source to target: what the root builds on
	Backward                  // from target to source: what builds on the root
)

// Subgraph walks breadth first from a root until it has found size nodes, and returns them with all
// links among them as a graph of their own, together with the index that each had in g. It is
// smaller when no more nodes can be reached. Nodes keep their order, fields their indices, and
// vectors are copied; closing the copy is up to the caller.
//
// Neighbours are visited in the order targets then sources, each ascending, so the same root and
// size always give the same subgraph.
func (g *Graph) Subgraph(root int32, size int, d Direction) (*Graph, []int32, error) {
	switch {
	case uint32(root) >= uint32(g.Len()):
		return nil, nil, fmt.Errorf("root %d of a graph with %d nodes: %w; use Index to find a node by its id",
			root, g.Len(), ErrUnknownNode)
	case size < 1:
		return nil, nil, fmt.Errorf("subgraph of %d nodes: %w; ask for at least one", size, ErrSettings)
	case d > Backward:
		return nil, nil, fmt.Errorf("direction %d: %w; use BothWays, Forward or Backward", d, ErrSettings)
	}
	found := make([]bool, g.Len())
	found[root] = true
	queue := append(make([]int32, 0, min(size, g.Len())), root)
	visit := func(neighbours []int32) {
		for _, j := range neighbours {
			if len(queue) == size {
				return
			}
			if !found[j] {
				found[j] = true
				queue = append(queue, j)
			}
		}
	}
	for head := 0; head < len(queue) && len(queue) < size; head++ {
		if d != Backward {
			visit(g.Out(queue[head]))
		}
		if d != Forward {
			visit(g.In(queue[head]))
		}
	}
	nodes := queue[:0]
	for i, f := range found {
		if f {
			nodes = append(nodes, int32(i))
		}
	}
	sub, err := g.Induced(nodes)
	return sub, nodes, err
}

// Induced returns the given nodes and all links among them as a graph of their own, in which node k
// is nodes[k]. Fields keep their indices; vectors are copied, and closing the copy is up to the
// caller.
func (g *Graph) Induced(nodes []int32) (*Graph, error) {
	place := make([]int32, g.Len()) // index in the subgraph + 1; 0 is left out
	for k, i := range nodes {
		if uint32(i) >= uint32(g.Len()) {
			return nil, fmt.Errorf("node %d of the list is %d, of a graph with %d nodes: %w; use indices "+
				"below that", k, i, g.Len(), ErrUnknownNode)
		}
		if place[i] != 0 {
			return nil, fmt.Errorf("node %q is in the list at %d and at %d: %w; list each once", g.ID(i),
				place[i]-1, k, ErrDuplicateNode)
		}
		place[i] = int32(k) + 1
	}
	sub := &Graph{fieldNames: g.fieldNames, fields: make([]uint16, len(nodes))}
	if g.times != nil {
		sub.times = make([]int64, len(nodes))
	}
	var ids, titles textWriter
	var links []Link
	var times []int64
	var roles []Role
	for k, i := range nodes {
		table := ids.table()
		sub.index.add(g.ID(i), int32(k), &table)
		ids.add(g.ID(i))
		sub.fields[k] = g.fields[i]
		if len(g.titles.end) > 0 {
			titles.add(g.titles.at(i))
		}
		if g.times != nil {
			sub.times[k] = g.times[i]
		}
		roles = append(roles, g.Role(i))
		when := g.OutTimes(i)
		for p, j := range g.Out(i) {
			if place[j] == 0 {
				continue
			}
			links = append(links, Link{int32(k), place[j] - 1})
			if when != nil {
				times = append(times, when[p])
			}
		}
	}
	sub.ids, sub.titles, sub.sides = ids.table(), titles.table(), sidesOf(len(nodes), roles)
	var linkTimes [][]int64
	if g.HasLinkTimes() {
		linkTimes = [][]int64{times}
	}
	sub.out, sub.in, _ = sortLinks(len(nodes), [][]Link{links}, linkTimes)
	if g.vectors == nil {
		return sub, nil
	}
	vectors, err := g.vectors.subset(nodes)
	if err != nil {
		return nil, err
	}
	sub.vectors = vectors
	return sub, nil
}
