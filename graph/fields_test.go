package graph

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// adjustedRand returns the adjusted Rand index of two ways to group nodes (Hubert and Arabie, 1985):
// 1 when they are the same up to names, about 0 when they have nothing to do with each other.
func adjustedRand(a, b []int) float64 {
	pairs := func(n int) float64 { return float64(n) * float64(n-1) / 2 }
	both, inA, inB := map[[2]int]int{}, map[int]int{}, map[int]int{}
	for i := range a {
		both[[2]int{a[i], b[i]}]++
		inA[a[i]]++
		inB[b[i]]++
	}
	together, sameA, sameB := 0., 0., 0.
	for _, n := range both {
		together += pairs(n)
	}
	for _, n := range inA {
		sameA += pairs(n)
	}
	for _, n := range inB {
		sameB += pairs(n)
	}
	chance := sameA * sameB / pairs(len(a))
	if most := (sameA + sameB) / 2; most != chance {
		return (together - chance) / (most - chance)
	}
	return 1
}

func TestAdjustedRand(t *testing.T) {
	t.Parallel()
	// sklearn.metrics.adjusted_rand_score of the same
	for _, c := range []struct {
		a, b []int
		want float64
	}{
		{[]int{0, 0, 1, 1}, []int{5, 5, 2, 2}, 1},
		{[]int{0, 0, 1, 2}, []int{0, 0, 1, 1}, .5714285714285714},
		{[]int{0, 0, 0, 0}, []int{0, 1, 2, 3}, 0},
		{[]int{0, 0, 1, 1}, []int{0, 1, 0, 1}, -.5},
	} {
		if got := adjustedRand(c.a, c.b); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v and %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// fieldsOf returns the field of every node as a group for adjustedRand.
func fieldsOf(g *Graph) []int {
	groups := make([]int, g.Len())
	for i, f := range g.Fields() {
		groups[i] = int(f)
	}
	return groups
}

// unlinkedNodes is n nodes without fields or links.
func unlinkedNodes(tb testing.TB, n int) *Graph {
	tb.Helper()
	var b Builder
	for i := range n {
		_, err := b.AddNode(Node{ID: fmt.Sprint(i)})
		must(tb, err)
	}
	g, _, err := b.Build()
	must(tb, err)
	return g
}

// checkFound checks what every way to find fields promises.
func checkFound(g, found *Graph, r FieldReport, word string) error {
	if found.Len() != g.Len() || !found.sharesLinks(g) || found.Vectors() != g.Vectors() || g.Len() > 0 &&
		found.ID(0) != g.ID(0) {
		return fmt.Errorf("more than the fields has changed")
	}
	sizes := make([]int, found.FieldCount())
	for _, f := range found.Fields() {
		sizes[f]++
	}
	if !slices.Equal(sizes, r.Sizes) {
		return fmt.Errorf("sizes are %v, the report says %v", sizes, r.Sizes)
	}
	for f := 1; f < len(sizes); f++ {
		if sizes[f] == 0 || f > 1 && sizes[f] > sizes[f-1] {
			return fmt.Errorf("sizes are %v", sizes)
		}
		if name := found.FieldName(uint16(f)); name != fmt.Sprintf("%s %d", word, f) {
			return fmt.Errorf("field %d is called %q", f, name)
		}
	}
	if found.FieldName(UnknownField) != "unknown" || r.Found == "" || r.Rounds < 1 {
		return fmt.Errorf("report is %+v", r)
	}
	return nil
}

func TestFoundFieldsAreOrderedBySize(t *testing.T) {
	t.Parallel()
	g := sketch(t, "a:old b:old c d e f")
	found, sizes, err := g.withFields("kind", []int32{2, 0, 0, fieldless, 1, 1}, 3)
	must(t, err)
	if !slices.Equal(found.Fields(), []uint16{3, 1, 1, 0, 2, 2}) || !slices.Equal(sizes, []int{1, 2, 2, 1}) ||
		found.FieldName(3) != "kind 3" {
		t.Errorf("fields are %v, sizes %v", found.Fields(), sizes)
	}
	if g.FieldName(g.Field(0)) != "old" || g.FieldCount() != 2 {
		t.Error("the graph they were found in has changed")
	}
	_, _, err = g.withFields("kind", nil, 1<<16)
	wantError(t, err, ErrTooLarge, "65536", "MinSize")
}
