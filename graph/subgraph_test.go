package graph

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSubgraph(t *testing.T) {
	t.Parallel()
	g := sketch(t, "a:x@2020 b:y c:x@2019 d e f:z a>c b>a c>d e>d d>b")
	for _, c := range []struct {
		root string
		size int
		way  Direction
		want string
	}{
		{"a", 1, BothWays, "a"},
		{"a", 2, BothWays, "a c"},
		{"a", 3, BothWays, "a b c"},
		{"a", 4, BothWays, "a b c d"},
		{"a", 99, BothWays, "a b c d e"},
		{"a", 99, Forward, "a b c d"},
		{"e", 3, Forward, "b d e"},
		{"a", 3, Backward, "a b d"},
		{"f", 3, BothWays, "f"},
	} {
		root, _ := g.Index(c.root)
		sub, old, err := g.Subgraph(root, c.size, c.way)
		must(t, err)
		if got := ids(g, old); got != c.want {
			t.Errorf("%d around %s, direction %d: %s, want %s", c.size, c.root, c.way, got, c.want)
		}
		checkInduced(t, g, sub, old)
	}

	_, _, err := g.Subgraph(6, 1, BothWays)
	wantError(t, err, ErrUnknownNode, "root 6")
	_, _, err = g.Subgraph(-1, 1, BothWays)
	wantError(t, err, ErrUnknownNode)
	_, _, err = g.Subgraph(0, 0, BothWays)
	wantError(t, err, ErrSettings, "at least one")
	_, _, err = g.Subgraph(0, 1, Direction(3))
	wantError(t, err, ErrSettings, "Forward")
}

func TestInduced(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 4))
		g := randomGraph(t, r, 30, 90, .5)
		nodes := make([]int32, 0, 30)
		for _, i := range r.Perm(30)[:r.IntN(31)] {
			nodes = append(nodes, int32(i))
		}
		sub, err := g.Induced(nodes)
		if must(t, err); !t.Run("", func(t *testing.T) { checkInduced(t, g, sub, nodes) }) {
			t.Fatalf("seed %d", seed)
		}
	}
	g := sketch(t, "a b")
	_, err := g.Induced([]int32{0, 1, 0})
	wantError(t, err, ErrDuplicateNode, `"a"`)
	_, err = g.Induced([]int32{2})
	wantError(t, err, ErrUnknownNode, "2")
}

// checkInduced verifies that sub is g on the given nodes.
func checkInduced(t *testing.T, g, sub *Graph, nodes []int32) {
	t.Helper()
	checkRows(t, sub)
	if sub.Len() != len(nodes) || sub.FieldCount() != g.FieldCount() {
		t.Fatalf("%d nodes and %d fields", sub.Len(), sub.FieldCount())
	}
	for k, i := range nodes {
		k := int32(k)
		at, known := sub.Index(g.ID(i))
		t1, k1 := g.Time(i)
		t2, k2 := sub.Time(k)
		if sub.ID(k) != g.ID(i) || !known || at != k || sub.Field(k) != g.Field(i) || sub.Title(k) != g.Title(i) ||
			k1 != k2 || !t1.Equal(t2) {
			t.Fatalf("node %q changed", g.ID(i))
		}
		links := 0
		for _, j := range g.Out(i) {
			if to := slices.Index(nodes, j); to >= 0 {
				links++
				if !sub.HasLink(k, int32(to)) {
					t.Fatalf("link %q>%q is gone", g.ID(i), g.ID(j))
				}
			}
		}
		if links != len(sub.Out(k)) {
			t.Fatalf("node %q has %d links, not %d", g.ID(i), len(sub.Out(k)), links)
		}
	}
}
