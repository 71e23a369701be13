package graph

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Builder collects nodes, then links between them, and builds a Graph. Its zero value is ready; the
// options are set before the first link. A call that returns an error has added nothing, except as
// AddLinks says.
type Builder struct {
	// DropSelfLinks drops and counts links from a node to itself instead of refusing them.
	DropSelfLinks bool
	// DropUnknown drops and counts links to or from ids that are not nodes instead of refusing them.
	DropUnknown bool

	ids        textWriter
	index      idIndex
	titles     textWriter
	fields     []uint16
	fieldNames []string
	fieldIndex map[string]uint16
	times      []int64
	roles      []Role

	chunks    [][]Link  // full but the last, so that growing copies nothing
	linkTimes [][]int64 // as the chunks; nil when no link has a time
	given     int       // links given so far, to name the one at fault
	report    BuildReport
	built     bool
}

// Node describes a node to a Builder. Only the id is needed.
type Node struct {
	ID    string
	Field string    // a name; empty or "unknown" is UnknownField
	Title string    // optional
	Time  time.Time // the zero Time means unknown; kept to the second
	Role  Role      // the zero Role is source and target
}

// BuildReport counts what was built and what was left out.
type BuildReport struct {
	Nodes, Links, Fields int // Fields counts the named ones

	Repeated     int // links given more than once, beyond the first
	SelfLinks    int // dropped: from a node to itself
	UnknownLinks int // dropped: to or from an id that is not a node

	Isolated  int // nodes without any link
	Untimed   int // nodes without a time
	Fieldless int // nodes in UnknownField
}

// linksPerChunk makes chunks of half a megabyte.
const linksPerChunk = 1 << 16

// AddNode adds a node and returns its index. Nodes are numbered from 0 in the order of the calls.
func (b *Builder) AddNode(n Node) (int32, error) {
	i := int32(len(b.fields))
	switch {
	case b.built:
		return 0, fmt.Errorf("node %q: %w; make a new Builder", n.ID, ErrBuilt)
	case n.ID == "":
		return 0, fmt.Errorf("node number %d: %w; give every node an id", i+1, ErrEmptyID)
	case i == math.MaxInt32:
		return 0, fmt.Errorf("node %q: %w: a graph has at most %d nodes; take a subgraph", n.ID, ErrTooLarge,
			math.MaxInt32)
	case n.Role >= roles:
		return 0, fmt.Errorf("node %q: %w: %v; use one of the constants", n.ID, ErrRole, n.Role)
	}
	field, err := b.fieldOf(n.Field)
	if err == nil {
		err = b.ids.fits(n.ID)
	}
	if err == nil {
		err = b.titles.fits(n.Title)
	}
	if err != nil {
		return 0, fmt.Errorf("node %q: %w", n.ID, err)
	}
	ids := b.ids.table()
	if !b.index.add(n.ID, i, &ids) {
		return 0, fmt.Errorf("node %q: %w; merge its rows or give it another id", n.ID, ErrDuplicateNode)
	}
	b.ids.add(n.ID)
	b.addField(n.Field, field)
	b.fields = append(b.fields, field)
	b.addTitle(n.Title)
	b.addTime(n.Time)
	b.addRole(n.Role)
	return i, nil
}

// Grow makes room for more nodes at once, which saves a large graph much copying. The number may be wrong: that costs
// only memory or time.
func (b *Builder) Grow(nodes int) {
	if nodes = min(nodes, math.MaxInt32-len(b.fields)); nodes <= 0 || b.built {
		return
	}
	b.fields = slices.Grow(b.fields, nodes)
	b.ids.end = slices.Grow(b.ids.end, nodes)
	b.index.reserve(len(b.fields) + nodes)
}

// AddField adds a field before any node has it, so that fields keep the indices that a model was trained
// with, and returns its index, also if the field exists already. Fields are numbered from 1 in the order in
// which AddField or AddNode first sees them; "" and "unknown" are UnknownField.
func (b *Builder) AddField(name string) (uint16, error) {
	if b.built {
		return 0, fmt.Errorf("field %q: %w; make a new Builder", name, ErrBuilt)
	}
	f, err := b.fieldOf(name)
	if err != nil {
		return 0, err
	}
	b.addField(name, f)
	return f, nil
}

// AddLink adds the link from one node to another, by id. Both nodes must have been added before.
func (b *Builder) AddLink(source, target string) error {
	ids := b.ids.table()
	i, known := b.index.find(source, &ids)
	if !known {
		return b.unknown("source", source)
	}
	j, known := b.index.find(target, &ids)
	if !known {
		return b.unknown("target", target)
	}
	return b.AddLinkIndex(i, j)
}

// AddLinks adds the links from sources[k] to targets[k], by id, several times faster than one by one.
// It stops at the first error; the links before it have been added.
func (b *Builder) AddLinks(sources, targets []string) error {
	if len(sources) != len(targets) {
		return fmt.Errorf("links with %d sources and %d targets: %w; give one target per source", len(sources),
			len(targets), ErrShape)
	}
	var from, to [1024]int32
	ids := b.ids.table()
	for len(sources) > 0 {
		n := min(len(from), len(sources))
		b.index.findAll(from[:n], sources[:n], &ids)
		b.index.findAll(to[:n], targets[:n], &ids)
		for k := range n {
			var err error
			switch {
			case from[k] < 0:
				err = b.unknown("source", sources[k])
			case to[k] < 0:
				err = b.unknown("target", targets[k])
			default:
				err = b.AddLinkIndex(from[k], to[k])
			}
			if err != nil {
				return err
			}
		}
		sources, targets = sources[n:], targets[n:]
	}
	return nil
}

// Find writes the indices of the nodes with these ids, −1 where there is none, several times faster than
// one by one.
func (b *Builder) Find(found []int32, ids []string) {
	table := b.ids.table()
	b.index.findAll(found[:len(ids)], ids, &table)
}

// AddLinkIndex adds the link from one node to another, by index.
func (b *Builder) AddLinkIndex(source, target int32) error { return b.addLink(source, target, NoTime) }

func (b *Builder) addLink(source, target int32, seconds int64) error {
	n := uint32(len(b.fields))
	switch {
	case uint32(source) >= n:
		return b.unknown("source", source)
	case uint32(target) >= n:
		return b.unknown("target", target)
	case b.built:
		return fmt.Errorf("link number %d: %w; make a new Builder", b.given+1, ErrBuilt)
	case source == target && !b.DropSelfLinks:
		ids := b.ids.table()
		return &LinkError{b.given + 1, fmt.Errorf("node %q has a %w", ids.at(source), ErrSelfLink),
			"remove it or set DropSelfLinks"}
	}
	if err := b.roleOfLink(source, target); err != nil {
		return err
	}
	b.given++
	if source == target {
		b.report.SelfLinks++
		return nil
	}
	if k := len(b.chunks); k == 0 || len(b.chunks[k-1]) == linksPerChunk {
		size := linksPerChunk
		if k == 0 {
			size = 0 // a small graph needs no whole chunk
		}
		b.chunks = append(b.chunks, make([]Link, 0, size))
		if b.linkTimes != nil {
			b.linkTimes = append(b.linkTimes, make([]int64, 0, size))
		}
	}
	last := &b.chunks[len(b.chunks)-1]
	*last = append(*last, Link{source, target})
	if b.linkTimes != nil {
		times := &b.linkTimes[len(b.chunks)-1]
		*times = append(*times, seconds)
	}
	return nil
}

// Build makes the graph. The Builder cannot be used afterwards.
func (b *Builder) Build() (*Graph, BuildReport, error) {
	if b.built {
		return nil, BuildReport{}, fmt.Errorf("%w; make a new Builder", ErrBuilt)
	}
	b.addFieldName(unknownFieldName)
	g := &Graph{
		ids:        textTable{string(b.ids.text), slices.Clone(b.ids.end)},
		index:      b.index,
		titles:     textTable{string(b.titles.text), slices.Clone(b.titles.end)},
		fields:     slices.Clone(b.fields),
		fieldNames: b.fieldNames,
		times:      slices.Clone(b.times),
		sides:      sidesOf(len(b.fields), slices.Clone(b.roles)),
	}
	chunks, times, report := b.chunks, b.linkTimes, b.report
	*b = Builder{built: true}
	g.out, g.in, report.Repeated = sortLinks(g.Len(), chunks, times)
	g.count(&report)
	return g, report, nil
}

// count fills in what can be seen in the graph itself.
func (g *Graph) count(r *BuildReport) {
	r.Nodes, r.Links, r.Fields = g.Len(), g.LinkCount(), g.FieldCount()-1
	for i := range int32(g.Len()) {
		if len(g.Out(i)) == 0 && len(g.In(i)) == 0 {
			r.Isolated++
		}
		if g.times == nil || g.times[i] == NoTime {
			r.Untimed++
		}
		if g.fields[i] == UnknownField {
			r.Fieldless++
		}
	}
}

func (b *Builder) unknown(end string, node any) error {
	if b.built {
		return fmt.Errorf("link number %d: %w; make a new Builder", b.given+1, ErrBuilt)
	}
	if b.DropUnknown {
		b.given++
		b.report.UnknownLinks++
		return nil
	}
	return &LinkError{b.given + 1, fmt.Errorf("%s %#v is an %w", end, node, ErrUnknownNode),
		"add every node before its links, or set DropUnknown"}
}

// LinkError is a link that cannot be added. A reader of a file, which knows the row, reports Err alone.
type LinkError struct {
	Number int    // of the link among those given to the Builder, from 1
	Err    error  // wraps ErrUnknownNode, ErrSelfLink or ErrRole
	Hint   string // what to do
}

func (e *LinkError) Error() string {
	return fmt.Sprintf("link number %d: %v; %s", e.Number, e.Err, e.Hint)
}

func (e *LinkError) Unwrap() error { return e.Err }

// fieldOf returns the index that a field name has or will have.
func (b *Builder) fieldOf(name string) (uint16, error) {
	if name == "" || name == unknownFieldName {
		return UnknownField, nil
	}
	if f, known := b.fieldIndex[name]; known {
		return f, nil
	}
	next := max(1, len(b.fieldNames))
	if next > math.MaxUint16 {
		return 0, fmt.Errorf("field %q: %w: more than %d fields; merge the rare ones", name, ErrTooLarge,
			math.MaxUint16)
	}
	return uint16(next), nil
}

// addField adds the name of a field whose index is fieldOf's, unless it is known.
func (b *Builder) addField(name string, f uint16) {
	b.addFieldName(unknownFieldName)
	if int(f) == len(b.fieldNames) {
		b.addFieldName(strings.Clone(name))
	}
}

func (b *Builder) addFieldName(name string) {
	if b.fieldIndex == nil {
		b.fieldIndex = make(map[string]uint16)
	}
	if _, known := b.fieldIndex[name]; !known {
		b.fieldIndex[name] = uint16(len(b.fieldNames))
		b.fieldNames = append(b.fieldNames, name)
	}
}

// addTitle stores nothing until the first title that is not empty.
func (b *Builder) addTitle(title string) {
	if title == "" && len(b.titles.end) == 0 {
		return
	}
	for len(b.titles.end) < len(b.fields)-1 {
		b.titles.add("")
	}
	b.titles.add(title)
}

// addTime stores nothing until the first known time.
func (b *Builder) addTime(t time.Time) {
	if t.IsZero() && b.times == nil {
		return
	}
	for len(b.times) < len(b.fields)-1 {
		b.times = append(b.times, NoTime)
	}
	if t.IsZero() {
		b.times = append(b.times, NoTime)
	} else {
		b.times = append(b.times, t.Unix())
	}
}
