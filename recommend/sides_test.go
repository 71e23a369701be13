package recommend

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"unseen/evaluate"
	"unseen/graph"
	"unseen/model"
	"unseen/sample"
)

// shop is the graph and the models of small, with people, items, and nodes that are both.
func shop(t testing.TB, n int, kind string) (*graph.Graph, model.Model, model.Model) {
	t.Helper()
	plain, m, naive := small(t, n, kind)
	var b graph.Builder
	for i := range int32(n) {
		when, _ := plain.Time(i)
		role := []graph.Role{graph.SourceOnly, graph.TargetOnly, graph.SourceOnly, graph.TargetOnly,
			graph.SourceAndTarget}[i%5]
		must(b.AddNode(graph.Node{ID: plain.ID(i), Title: plain.Title(i), Field: plain.FieldName(plain.Field(i)),
			Time: when, Role: role}))(t)
	}
	for i, j := range plain.Links() {
		_ = b.AddLinkIndex(i, j) // an error where the roles do not allow it
	}
	g, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return must(g.WithVectors(plain.Vectors()))(t), m, naive
}

// People are never recommended, alone, in a batch, sketched or with filters, and nothing is recommended to items.
func TestOnlyTargetsAreRecommended(t *testing.T) {
	for _, kind := range []string{"diagonal", "diagonal-field", "low-rank", "mlp", "factors"} {
		g, m, naive := shop(t, 90, kind)
		r := must(New(g, m, Options{Naive: &naive, Threads: 2}))(t)
		fast := must(New(g, m, Options{Sketched: true}))(t)
		rows := must(r.Batch(t.Context(), g.Sources(), Query{K: 7}))(t)
		for k, source := range g.Sources() {
			for _, q := range []Query{{K: 7}, {K: 200}, {K: 7, Linked: true}, {K: 10, Fields: []uint16{2}},
				{K: 6, Exclude: []int32{1, 2, 3, 40, 41}}, {K: 9, Seen: true}} {
				q.Source = r.Node(source)
				list := must(r.Top(t.Context(), q))(t)
				want := everyCandidate(g, m, naive, q)
				if list.Candidates != len(want) || len(list.Items) != min(q.K, len(want)) {
					t.Fatalf("%s: %d items of %d candidates, want %d", kind, len(list.Items), list.Candidates,
						len(want))
				}
				checkItems(t, g, q, list.Items, want)
			}
			list := must(r.Top(t.Context(), Query{Source: r.Node(source), K: 7}))(t)
			quick := must(fast.Top(t.Context(), Query{Source: fast.Node(source), K: 7}))(t)
			for p, item := range list.Items {
				if rows[k].Targets[p] != item.Node || quick.Items[p].Node != item.Node {
					t.Fatalf("%s: place %d is %s alone, %s in a batch, %s fast", kind, p+1, item.ID,
						g.ID(rows[k].Targets[p]),
						quick.Items[p].ID)
				}
			}
			explored := must(r.Top(t.Context(), Query{Source: r.Node(source), K: 5, Explore: .5, Seed: 1}))(t)
			diverse := must(r.Top(t.Context(), Query{Source: r.Node(source), K: 5, Diversity: .5}))(t)
			for _, item := range slices.Concat(explored.Items, diverse.Items) {
				if !g.IsTarget(item.Node) {
					t.Fatalf("%s: %s is recommended, a %v", kind, item.ID, g.Role(item.Node))
				}
			}
		}
		item := slices.IndexFunc(g.Targets(), func(j int32) bool { return !g.IsSource(j) })
		_, err := r.Top(t.Context(), Query{Source: r.Node(g.Targets()[item]), K: 3})
		if !errors.Is(err, ErrQuery) || !strings.Contains(err.Error(), "target only") {
			t.Errorf("a list for an item: %v", err)
		}
	}
}

// A vector stands for a source: its field is that of sources like it.
func TestNewSourcesAreLikeSources(t *testing.T) {
	t.Parallel()
	g, m, _ := shop(t, 90, "diagonal")
	r := must(New(g, m, Options{}))(t)
	vector := make([]float32, 8)
	for _, j := range g.Targets() {
		g.Vectors().Load(vector, j)
		s := must(r.Vector(t.Context(), vector, g.Field(j)))(t)
		if s.like >= 0 && !g.IsSource(s.like) {
			t.Fatalf("a new source is like %s, a %v", g.ID(s.like), g.Role(s.like))
		}
	}
}

// Bridges go from fields of sources to fields of targets, and read targets.
func TestBridgesOfTwoSides(t *testing.T) {
	t.Parallel()
	plain, m, naive := small(t, 90, "diagonal")
	var b graph.Builder
	for f := 1; f < plain.FieldCount(); f++ {
		must(b.AddField(plain.FieldName(uint16(f))))(t)
	}
	for i := range int32(90) { // biology is of people, the others of items
		role := graph.TargetOnly
		if plain.FieldName(plain.Field(i)) == "biology" {
			role = graph.SourceOnly
		}
		must(b.AddNode(graph.Node{ID: plain.ID(i), Field: plain.FieldName(plain.Field(i)), Role: role}))(t)
	}
	g, _, err := b.Build()
	g = must(must(g, err)(t).WithVectors(plain.Vectors()))(t)
	r := must(New(g, m, Options{Naive: &naive}))(t)
	bridges := must(r.Bridges(t.Context(), BridgeSettings{Least: .01, Within: true}))(t)
	if len(bridges) != 2 {
		t.Errorf("%d bridges, not from biology to chemistry and physics", len(bridges))
	}
	for _, bridge := range bridges {
		if bridge.Source != "biology" || bridge.Target == "biology" || len(bridge.Reading) == 0 {
			t.Errorf("a bridge from %s to %s with %d to read", bridge.Source, bridge.Target, len(bridge.Reading))
		}
	}
}

// Lists of held-out links leave out what was linked before.
func TestSweepOfSplitLinks(t *testing.T) {
	t.Parallel()
	g, m, _ := shop(t, 90, "diagonal")
	prepared := must(sample.Prepare(t.Context(), g, sample.Options{Origin: sample.Origin{
		Plan: sample.Plan{Split: sample.RandomLinks, Seed: 2}}}))(t)
	held := must(evaluate.NewCandidates(prepared, graph.Test))(t)
	r := must(New(g, m, Options{}))(t)
	sweep := must(r.Sweep(t.Context(), SweepSettings{Held: held, K: 90}))(t)
	for at, recall := range sweep.recall[0] {
		if recall != 1 {
			t.Errorf("a list of all candidates has %v of the links of %s", recall, g.ID(held.Sources()[at]))
		}
	}
}
