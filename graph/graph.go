package graph

import (
	"iter"
	"math"
	"slices"
	"time"
)

// UnknownField is the index of the field of nodes whose field is not known.
const UnknownField uint16 = 0

// unknownFieldName is the name of UnknownField; a node may also have it as its field.
const unknownFieldName = "unknown"

// NoTime stands for an unknown time, as in NodeColumns.AddTimes; it sorts before every time.
const NoTime = math.MinInt64

// Graph is nodes and directed links between them. It never changes once built and may be read by
// many goroutines. Node and field indices out of range panic, as they do in a slice.
type Graph struct {
	ids        textTable
	index      idIndex
	titles     textTable // empty when no node has a title
	fields     []uint16
	fieldNames []string
	times      []int64 // nil when no node has a time
	out, in    rows
	sides      sides
	vectors    *Vectors
}

// Link is a directed link between two nodes, or a pair that could be one.
type Link struct{ Source, Target int32 }

// Len returns the number of nodes.
func (g *Graph) Len() int { return len(g.fields) }

// LinkCount returns the number of distinct links.
func (g *Graph) LinkCount() int { return len(g.out.node) }

// Out returns the targets of node i's links, ascending. The slice must not be changed.
func (g *Graph) Out(i int32) []int32 { return g.out.row(i) }

// In returns the sources of the links to node i, ascending. The slice must not be changed.
func (g *Graph) In(i int32) []int32 { return g.in.row(i) }

// HasLink reports whether node i links to node j, by binary search among i's targets.
func (g *Graph) HasLink(i, j int32) bool { return contains(g.out.row(i), j) }

// Links yields every link as (source, target), by source and then by target.
func (g *Graph) Links() iter.Seq2[int32, int32] {
	return func(yield func(source, target int32) bool) {
		for i := range int32(g.Len()) {
			for _, j := range g.out.row(i) {
				if !yield(i, j) {
					return
				}
			}
		}
	}
}

// ID returns node i's id.
func (g *Graph) ID(i int32) string { return g.ids.at(i) }

// Index returns the node with the given id, if there is one.
func (g *Graph) Index(id string) (int32, bool) { return g.index.find(id, &g.ids) }

// Title returns node i's title, empty when it has none.
func (g *Graph) Title(i int32) string {
	if len(g.titles.end) == 0 {
		_ = g.fields[i]
		return ""
	}
	return g.titles.at(i)
}

// Time returns node i's time, to the second and in UTC, and whether it is known.
func (g *Graph) Time(i int32) (t time.Time, known bool) {
	if g.times == nil {
		_ = g.fields[i]
		return time.Time{}, false
	}
	if g.times[i] == NoTime {
		return time.Time{}, false
	}
	return time.Unix(g.times[i], 0).UTC(), true
}

// HasTimes reports whether the time of any node is known.
func (g *Graph) HasTimes() bool {
	return slices.ContainsFunc(g.times, func(t int64) bool { return t != NoTime })
}

// TimesDiffer reports whether any two nodes have different times.
func (g *Graph) TimesDiffer() bool {
	first := int64(NoTime)
	for _, t := range g.times {
		if first == NoTime {
			first = t
		}
		if t != NoTime && t != first {
			return true
		}
	}
	return false
}

// LinkTimesDiffer reports whether any source has two links of different times.
func (g *Graph) LinkTimesDiffer() bool {
	return g.HasLinkTimes() && slices.ContainsFunc(g.Sources(), func(i int32) bool {
		times := g.OutTimes(i)
		return len(times) > 1 && slices.Min(times) != slices.Max(times)
	})
}

// Field returns the index of node i's field.
func (g *Graph) Field(i int32) uint16 { return g.fields[i] }

// Fields returns the field index of every node. The slice must not be changed.
func (g *Graph) Fields() []uint16 { return g.fields }

// FieldCount returns the number of field indices: the named fields and UnknownField.
func (g *Graph) FieldCount() int { return len(g.fieldNames) }

// FieldName returns the name of a field index; that of UnknownField is "unknown".
func (g *Graph) FieldName(f uint16) string { return g.fieldNames[f] }

// rows is a sparse matrix in compressed sparse rows: row i is node[start[i]:start[i+1]].
type rows struct {
	start []int64
	node  []int32
	time  []int64 // of every link, beside its node; nil when none is known, and in the table of sources
}

func (r *rows) row(i int32) []int32 {
	lo, hi := r.start[i], r.start[i+1]
	return r.node[lo:hi:hi]
}

// sortLinks makes both tables from n nodes and unsorted links by counting, in O(nodes + links) time
// and memory, and returns how many repeated links it merged. It empties the chunks as it reads them.
// Times are nil or have an element per link.
//
// Reading rows in turn and scattering them into columns leaves the columns sorted. So links are
// scattered to their targets, from there to their sources (now sorted, and repeats are neighbours),
// and without the repeats back to their targets (sorted as well). Links that come by source and then by
// target, as a stored graph's do, are their own rows already and only scattered once.
func sortLinks(n int, chunks [][]Link, times [][]int64) (out, in rows, repeated int) {
	if ascending(chunks) {
		out, in = rowsOf(n, chunks, times), rows{start: make([]int64, n+1)}
		in.node = make([]int32, len(out.node))
		out.transpose(&in)
		return out, in, 0
	}
	in.start = make([]int64, n+1)
	total := 0
	for _, chunk := range chunks {
		for _, l := range chunk {
			in.start[l.Target]++
		}
		total += len(chunk)
	}
	in.node = make([]int32, total)
	if times != nil {
		in.time = make([]int64, total)
	}
	startRows(in.start)
	for c, chunk := range chunks {
		for k, l := range chunk {
			at := in.start[l.Target]
			if in.node[at] = l.Source; times != nil {
				in.time[at] = times[c][k]
			}
			in.start[l.Target]++
		}
		if chunks[c] = nil; times != nil {
			times[c] = nil
		}
	}
	endRows(in.start)

	out = rows{start: make([]int64, n+1), node: make([]int32, total)}
	if in.time != nil {
		out.time = make([]int64, total)
	}
	in.transpose(&out)
	in.time = nil
	repeated = out.mergeRepeats()
	in.node = in.node[:len(out.node)]
	if repeated > 0 {
		out.node, in.node = slices.Clone(out.node), make([]int32, len(out.node))
		out.time = slices.Clone(out.time)
	}
	out.transpose(&in)
	return out, in, repeated
}

// ascending reports whether every link comes after the one before it, by source and then by target.
func ascending(chunks [][]Link) bool {
	last := Link{-1, -1}
	for _, chunk := range chunks {
		for _, l := range chunk {
			if l.Source < last.Source || l.Source == last.Source && l.Target <= last.Target {
				return false
			}
			last = l
		}
	}
	return true
}

// rowsOf makes the table of ascending links. It empties the chunks as it reads them.
func rowsOf(n int, chunks [][]Link, times [][]int64) rows {
	total := 0
	for _, chunk := range chunks {
		total += len(chunk)
	}
	r := rows{start: make([]int64, n+1), node: make([]int32, 0, total)}
	if times != nil {
		r.time = make([]int64, 0, total)
	}
	for c, chunk := range chunks {
		for _, l := range chunk {
			r.start[l.Source]++
			r.node = append(r.node, l.Target)
		}
		if chunks[c] = nil; times != nil {
			r.time = append(r.time, times[c]...)
			times[c] = nil
		}
	}
	startRows(r.start)
	return r
}

// transpose scatters r into t, which has room for as many nodes and links, and for times if they are wanted.
func (r *rows) transpose(t *rows) {
	clear(t.start)
	for _, j := range r.node {
		t.start[j]++
	}
	startRows(t.start)
	for i := range int32(len(r.start) - 1) {
		first := r.start[i]
		for k, j := range r.row(i) {
			if t.node[t.start[j]] = i; t.time != nil {
				t.time[t.start[j]] = r.time[first+int64(k)]
			}
			t.start[j]++
		}
	}
	endRows(t.start)
}

// mergeRepeats removes repeated nodes from every row, of which the earliest time stays, and returns how many it
// removed.
func (r *rows) mergeRepeats() int {
	kept := int64(0)
	for i := range len(r.start) - 1 {
		lo, hi := r.start[i], r.start[i+1]
		r.start[i] = kept
		for k := lo; k < hi; k++ {
			if k > lo && r.node[k] == r.node[kept-1] {
				if r.time != nil {
					r.time[kept-1] = earliest(r.time[kept-1], r.time[k])
				}
				continue
			}
			if r.node[kept] = r.node[k]; r.time != nil {
				r.time[kept] = r.time[k]
			}
			kept++
		}
	}
	repeated := int64(len(r.node)) - kept
	r.start[len(r.start)-1] = kept
	if r.node = r.node[:kept]; r.time != nil {
		r.time = r.time[:kept]
	}
	return int(repeated)
}

// startRows turns the length of every row into its start; scattering then advances each start to
// its row's end, and endRows shifts them back by one.
func startRows(start []int64) {
	at := int64(0)
	for i, length := range start {
		start[i] = at
		at += length
	}
}

func endRows(start []int64) {
	copy(start[1:], start[:len(start)-1])
	start[0] = 0
}

// contains is slices.BinarySearch without the place, on a row of nodes.
func contains(row []int32, node int32) bool {
	_, found := slices.BinarySearch(row, node)
	return found
}
