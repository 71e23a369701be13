package graph

import (
	"fmt"
	"slices"
)

// Role says which end of a link a node can be. In a network of papers every node is source and target; in a shop
// people are sources only and items targets only, so that nobody is recommended to anybody.
type Role uint8

// The roles.
const (
	SourceAndTarget Role = iota
	SourceOnly
	TargetOnly
	roles
)

var roleNames = [roles]string{"both", "source", "target"}

// String returns the role's name, as ParseRole reads it.
func (r Role) String() string {
	if r < roles {
		return roleNames[r]
	}
	return fmt.Sprintf("Role(%d)", uint8(r))
}

// ParseRole returns the role of a name: source, target, or both, which may be empty.
func ParseRole(name string) (Role, error) {
	if name == "" {
		return SourceAndTarget, nil
	}
	if k := slices.Index(roleNames[:], name); k >= 0 {
		return Role(k), nil
	}
	return 0, fmt.Errorf("%w %.40q; use source, target or both", ErrRole, name)
}

// sides are the nodes of either end, ascending. Both lists are one where every node is source and target.
type sides struct {
	roles            []Role // nil when every node is source and target
	sources, targets []int32
}

func sidesOf(n int, given []Role) sides {
	if !slices.ContainsFunc(given, func(r Role) bool { return r != SourceAndTarget }) {
		all := numbers(n)
		return sides{nil, all, all}
	}
	s := sides{roles: given}
	for i, r := range given {
		if r != TargetOnly {
			s.sources = append(s.sources, int32(i))
		}
		if r != SourceOnly {
			s.targets = append(s.targets, int32(i))
		}
	}
	return s
}

// Sources returns the nodes that can link, ascending: all, unless some are targets only. The slice must not be changed.
func (g *Graph) Sources() []int32 { return g.sides.sources }

// Targets returns the nodes that can be linked to, ascending: all, unless some are sources only. The slice must not be
// changed.
func (g *Graph) Targets() []int32 { return g.sides.targets }

// Role returns which end of a link node i can be.
func (g *Graph) Role(i int32) Role {
	if g.sides.roles == nil {
		_ = g.fields[i]
		return SourceAndTarget
	}
	return g.sides.roles[i]
}

// IsSource reports whether node i can link.
func (g *Graph) IsSource(i int32) bool { return g.sides.roles == nil || g.sides.roles[i] != TargetOnly }

// PersonPrefix is what ids of people begin with where items have the same ids.
const PersonPrefix = "user:"

// SourceIndex is Index for a source: it also finds people by the id that they had before they got PersonPrefix.
func (g *Graph) SourceIndex(id string) (int32, bool) {
	i, known := g.Index(id)
	if known && g.IsSource(i) {
		return i, true
	}
	if person, is := g.Index(PersonPrefix + id); is && g.IsSource(person) {
		return person, true
	}
	return i, known
}

// IsTarget reports whether node j can be linked to.
func (g *Graph) IsTarget(j int32) bool { return g.sides.roles == nil || g.sides.roles[j] != SourceOnly }

// TwoSided reports whether a node is a source only or a target only, as people and items are.
func (g *Graph) TwoSided() bool { return g.sides.roles != nil }

// PairCount returns the number of ordered pairs of a source and another node that is a target.
func (g *Graph) PairCount() int64 {
	both := len(g.sides.sources) + len(g.sides.targets) - g.Len()
	return int64(len(g.sides.sources))*int64(len(g.sides.targets)) - int64(both)
}

// OutTimes returns the times of the links from node i, in seconds from 1970, each at the place that its target has in
// Out; NoTime where one is unknown. It is nil when no link has a time. The slice must not be changed.
func (g *Graph) OutTimes(i int32) []int64 {
	if g.out.time == nil {
		return nil
	}
	lo, hi := g.out.start[i], g.out.start[i+1]
	return g.out.time[lo:hi:hi]
}

// HasLinkTimes reports whether the time of any link is known.
func (g *Graph) HasLinkTimes() bool { return g.out.time != nil }

// WithLinks returns the same graph with only some of its links: those for which keep is true, given the source and the
// place of the target in Out.
func (g *Graph) WithLinks(keep func(source int32, place int) bool) *Graph {
	some := *g
	some.out = rows{start: make([]int64, g.Len()+1)}
	for i := range int32(g.Len()) {
		times := g.OutTimes(i)
		for place, j := range g.Out(i) {
			if !keep(i, place) {
				continue
			}
			some.out.node = append(some.out.node, j)
			if times != nil {
				some.out.time = append(some.out.time, times[place])
			}
		}
		some.out.start[i+1] = int64(len(some.out.node))
	}
	some.in = rows{start: make([]int64, g.Len()+1), node: make([]int32, len(some.out.node))}
	some.out.transpose(&some.in)
	return &some
}

// roleOfLink refuses a link from a node that is a target only, or to one that is a source only.
func (b *Builder) roleOfLink(source, target int32) error {
	if len(b.roles) == 0 {
		return nil
	}
	end, i := "from", source
	switch {
	case int(source) < len(b.roles) && b.roles[source] == TargetOnly:
	case int(target) < len(b.roles) && b.roles[target] == SourceOnly:
		end, i = "to", target
	default:
		return nil
	}
	ids := b.ids.table()
	return &LinkError{b.given + 1, fmt.Errorf("%w: a link %s node %q, which is a %v only", ErrRole, end, ids.at(i),
		b.roles[i]), "make the node source and target, or swap the ends"}
}

// addRole stores nothing until the first role that is not SourceAndTarget.
func (b *Builder) addRole(r Role) {
	if r == SourceAndTarget && len(b.roles) == 0 {
		return
	}
	for len(b.roles) < len(b.fields)-1 {
		b.roles = append(b.roles, SourceAndTarget)
	}
	b.roles = append(b.roles, r)
}

// AddLinkAt adds a link with its time, in seconds from 1970; NoTime where it is unknown. A link that is given more than
// once keeps its earliest time: that is when it was known.
func (b *Builder) AddLinkAt(source, target int32, seconds int64) error {
	if seconds != NoTime && b.linkTimes == nil {
		b.linkTimes = make([][]int64, len(b.chunks))
		for k, chunk := range b.chunks {
			b.linkTimes[k] = slices.Repeat([]int64{NoTime}, len(chunk))
		}
	}
	return b.addLink(source, target, seconds)
}

// earliest is the earlier of two times, of which either may be unknown.
func earliest(a, b int64) int64 {
	switch {
	case a == NoTime:
		return b
	case b == NoTime:
		return a
	}
	return min(a, b)
}
