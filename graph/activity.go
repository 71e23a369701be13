package graph

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// FieldsByActivity returns the same graph in which nodes without a field get one: sources by how many links they have,
// targets by how many link to them, each side in so many groups of about the same size. Nodes with as many links are
// in one group, so that there may be fewer. Other fields stay. Give it the training links (Split.Graph), or fields tell
// what is held out. A node that is source and target is grouped as a source.
func (g *Graph) FieldsByActivity(trained *Graph, groups int) (*Graph, error) {
	switch {
	case trained.Len() != g.Len():
		return nil, fmt.Errorf("fields by activity: links of a graph of %d nodes, for one of %d: %w; use one of "+
			"the same nodes", trained.Len(), g.Len(), ErrShape)
	case groups < 1 || groups > math.MaxUint16/2:
		return nil, fmt.Errorf("fields by activity: %w: %d groups; give from 1 to %d", ErrSettings, groups,
			math.MaxUint16/2)
	case g.FieldCount()+2*groups > math.MaxUint16:
		return nil, fmt.Errorf("fields by activity: %w: %d more fields; merge the rare ones", ErrTooLarge, 2*groups)
	}
	found := *g
	found.fields, found.fieldNames = slices.Clone(g.fields), slices.Clone(g.fieldNames)
	for _, side := range []struct {
		name  string
		nodes func(i int32) bool
		links func(i int32) int
	}{
		{"sources", g.IsSource, func(i int32) int { return len(trained.Out(i)) }},
		{"targets", func(i int32) bool { return !g.IsSource(i) }, func(i int32) int { return len(trained.In(i)) }},
	} {
		var nodes []int32
		for i := range int32(g.Len()) {
			if g.fields[i] == UnknownField && side.nodes(i) {
				nodes = append(nodes, i)
			}
		}
		slices.SortStableFunc(nodes, func(a, b int32) int { return cmp.Compare(side.links(a), side.links(b)) })
		for from, group := 0, 1; from < len(nodes); group++ {
			to := group * len(nodes) / groups
			if to <= from {
				continue // taken by the group before
			}
			for to < len(nodes) && side.links(nodes[to]) == side.links(nodes[to-1]) {
				to++
			}
			low, high := side.links(nodes[from]), side.links(nodes[to-1])
			name := fmt.Sprintf("%s with %d to %d links", side.name, low, high)
			if low == high {
				name = fmt.Sprintf("%s with %d links", side.name, low)
			}
			for _, i := range nodes[from:to] {
				found.fields[i] = uint16(len(found.fieldNames))
			}
			found.fieldNames = append(found.fieldNames, name)
			from = to
		}
	}
	return &found, nil
}
