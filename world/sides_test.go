package world

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"unseen/graph"
)

// A world of people and items has only pairs from people to items, each once in the parts of its draws, and its links
// and means are of these.
func TestWorldOfTwoSides(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(2, 2))
	var b graph.Builder
	const n = 60
	for i := range n {
		role := []graph.Role{graph.SourceOnly, graph.TargetOnly, graph.SourceOnly, graph.TargetOnly,
			graph.SourceAndTarget}[i%5]
		if _, err := b.AddNode(graph.Node{ID: fmt.Sprint(i), Field: fmt.Sprint("f", i%3), Role: role}); err != nil {
			t.Fatal(err)
		}
	}
	g, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	v, err := graph.NewVectors(n, 6)
	if err != nil {
		t.Fatal(err)
	}
	for i := range int32(n) {
		row := make([]float32, 6)
		for k := range row {
			row[k] = float32(r.NormFloat64())
		}
		if err := v.Set(i, row); err != nil {
			t.Fatal(err)
		}
	}
	if g, err = g.WithVectors(v); err != nil {
		t.Fatal(err)
	}
	w, err := Plant(t.Context(), g, nil, Scenario{BaseRate: .2, OracleAUC: .9, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, older := range []bool{false, true} {
		u := graph.Universe{}
		if older {
			u.Before = w.Graph().Order()
		}
		all, err := graph.AllPairs(g, u, 0)
		if err != nil {
			t.Fatal(err)
		}
		want, got := map[graph.Link]bool{}, map[graph.Link]bool{}
		for k, i := range all.Source {
			want[graph.Link{Source: i, Target: all.Target[k]}] = true
		}
		for part := range 3 {
			size := (all.Len() - 1 - part) / 3
			pairs, err := w.Pairs(t.Context(), size+1, Draw{Part: part, Older: older})
			if err != nil {
				t.Fatal(err)
			}
			for k, i := range pairs.Pairs.Source {
				at := graph.Link{Source: i, Target: pairs.Pairs.Target[k]}
				if !want[at] || got[at] {
					t.Fatalf("older %t: pair %v is outside, or there twice", older, at)
				}
				got[at] = true
			}
		}
		if len(got) != len(want) {
			t.Errorf("older %t: %d pairs of %d", older, len(got), len(want))
		}
	}
	means, err := w.Means(t.Context(), graph.Universe{})
	if err != nil || means.Pairs != g.PairCount() || math.Abs(means.Link-.2) > .02 {
		t.Errorf("%v, %d pairs of %d, mean y %v", err, means.Pairs, g.PairCount(), means.Link)
	}
	linked, err := w.Linked(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if l := linked.Graph(); l.LinkCount() == 0 || !l.TwoSided() || l.PairCount() != g.PairCount() {
		t.Errorf("%d links", l.LinkCount())
	}
}
