package model

import (
	"fmt"
	"math"
	"time"

	"unseen/graph"
	"unseen/internal/kern"
)

// Nodes is what models may depend on of every node.
type Nodes struct {
	Vectors    *graph.Vectors // nil where no model asks; see NeedsVectors
	Fields     []uint16
	FieldCount int         // field indices run below this; 0 is the unknown field
	Popularity []float32   // log(1 + in-degree among the training links); nil if no model asks
	Age        []float32   // years before the newest node; nil if no model asks
	Activity   *Activities // of sources and targets; nil if no model asks
	FieldNames []string    // by index, to compare with those of a file; nil: not compared
	Sources    []int32     // who can link, ascending; nil means all
	Targets    []int32     // who can be linked to, ascending; nil means all
	Numbers    []int32     // of each node in the network that these are a part of; nil: these are all
}

// Number returns which node of the network a node is: chance goes by that, so that a part of a network has the same
// luck as the whole.
func (n *Nodes) Number(i int32) int32 {
	if n.Numbers == nil {
		return i
	}
	return n.Numbers[i]
}

// NodesOf returns a graph's nodes, without popularity and age.
func NodesOf(g *graph.Graph) Nodes {
	n := Nodes{Vectors: g.Vectors(), Fields: g.Fields(), FieldCount: g.FieldCount()}
	for f := range n.FieldCount {
		n.FieldNames = append(n.FieldNames, g.FieldName(uint16(f)))
	}
	if g.TwoSided() {
		n.Sources, n.Targets = g.Sources(), g.Targets()
	}
	return n
}

// FieldMembers returns the sources and the targets of every field, ascending.
func (n Nodes) FieldMembers() (sources, targets [][]int32) {
	all := make([][]int32, n.FieldCount)
	for i, f := range n.Fields {
		all[f] = append(all[f], int32(i))
	}
	some := func(nodes []int32) [][]int32 {
		if nodes == nil {
			return all
		}
		members := make([][]int32, n.FieldCount)
		for _, i := range nodes {
			members[n.Fields[i]] = append(members[n.Fields[i]], i)
		}
		return members
	}
	return some(n.Sources), some(n.Targets)
}

// Len returns the number of nodes.
func (n Nodes) Len() int { return len(n.Fields) }

// Dim returns the dimension of the vectors, 0 without.
func (n Nodes) Dim() int {
	if n.Vectors == nil {
		return 0
	}
	return n.Vectors.Dim()
}

// MadeFor returns how many nodes a model of this package was made for; 0 where it looks at none.
func MadeFor(m PairModel) int {
	if own, ok := m.(savedModel); ok {
		return own.madeFor().Len()
	}
	return 0
}

// NumbersFor returns the Numbers of the nodes that a model of this package was made for.
func NumbersFor(m PairModel) []int32 {
	if own, ok := m.(savedModel); ok {
		return own.madeFor().Numbers
	}
	return nil
}

// LogInDegree returns the popularity of every node: log(1 + how often it is among the targets). Give
// it the targets of the training links alone, or the model sees what it is to predict.
func LogInDegree(nodes int, targets []int32) []float32 {
	count := make([]float32, nodes)
	for _, j := range targets {
		count[j]++
	}
	for j, c := range count {
		count[j] = float32(math.Log1p(float64(c)))
	}
	return count
}

// Ages returns the years by which every node is older than the newest. A node of unknown time has
// the mean age; nil means that no node has a time.
func Ages(g *graph.Graph) []float32 {
	var newest time.Time
	known := 0
	for i := range int32(g.Len()) {
		if t, ok := g.Time(i); ok {
			if known == 0 || t.After(newest) {
				newest = t
			}
			known++
		}
	}
	if known == 0 {
		return nil
	}
	const secondsPerYear = 365.25 * 24 * 60 * 60
	years := func(t time.Time) float64 { return float64(newest.Unix()-t.Unix()) / secondsPerYear }
	mean := 0.0
	for i := range int32(g.Len()) {
		if t, ok := g.Time(i); ok {
			mean += years(t) / float64(known)
		}
	}
	ages := make([]float32, g.Len())
	for i := range ages {
		ages[i] = float32(mean)
		if t, ok := g.Time(int32(i)); ok {
			ages[i] = float32(years(t))
		}
	}
	return ages
}

// SameField reports whether two nodes have one field. The unknown field is never one field.
func (n *Nodes) SameField(i, j int32) bool {
	return n.Fields[i] != graph.UnknownField && n.Fields[i] == n.Fields[j]
}

// cell is the place of a pair's fields in a table over field pairs.
func (n *Nodes) cell(source, target int32) int {
	return int(n.Fields[source])*n.FieldCount + int(n.Fields[target])
}

func checkNodes(n Nodes) error {
	if n.Vectors == nil {
		return fmt.Errorf("%w: the nodes have no vectors; encode their texts first", ErrShape)
	}
	if n.Vectors.Len() != len(n.Fields) {
		return fmt.Errorf("%w: %d vectors and %d fields; they must be of the same nodes", ErrShape, n.Vectors.Len(),
			len(n.Fields))
	}
	return checkFields(n)
}

func checkFields(n Nodes) error {
	if n.FieldNames != nil && len(n.FieldNames) != n.FieldCount {
		return fmt.Errorf("%w: %d names for %d fields; give one per field", ErrShape, len(n.FieldNames), n.FieldCount)
	}
	for i, f := range n.Fields {
		if int(f) >= n.FieldCount {
			return fmt.Errorf("%w: node %d has field %d of %d; count the unknown field and the named ones", ErrShape,
				i, f, n.FieldCount)
		}
	}
	return nil
}

// checkFieldPairs refuses nodes with more pairs of fields than a table over them can number; instead is what else one
// can do.
func checkFieldPairs(n Nodes, instead string) error {
	if int64(n.FieldCount)*int64(n.FieldCount) > math.MaxInt32 {
		return fmt.Errorf("%w: %d fields have too many pairs for a matrix over them; merge small fields, or %s",
			ErrShape, n.FieldCount, instead)
	}
	return checkFields(n)
}

// vectorIn returns row i: in place, or in scratch where the rows are float16. The matrix must be
// kept alive for as long as the row is used.
func vectorIn(scratch []float32, rows *kern.Matrix, i int32) []float32 {
	if !rows.Half() {
		return rows.Row(int(i))
	}
	rows.Load(scratch, int(i))
	return scratch[:rows.Dim()]
}

// meanSquare returns the mean of ‖h‖² over some nodes, 1 where that is 0: the scale to which random
// starts are fitted.
func meanSquare(rows *kern.Matrix) float64 {
	const sampled = 256
	step := max(rows.Rows()/sampled, 1)
	row := make([]float32, rows.Dim())
	total, count := 0.0, 0
	for i := 0; i < rows.Rows(); i += step {
		rows.Load(row, i)
		for _, h := range row {
			total += float64(h) * float64(h)
		}
		count++
	}
	if !(total > 0) {
		return 1
	}
	return total / float64(count)
}
