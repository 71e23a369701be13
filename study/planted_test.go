package study

import (
	"context"
	"errors"
	"testing"

	"unseen/graph"
	"unseen/world"
)

// Truths are planted on the caller's own graph: its vectors stay open, and what is not planted cannot use it.
func TestPlanted(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	ctx := context.Background()
	w, err := world.New(ctx, world.Settings{Nodes: 400, Dim: 12, Fields: world.EvenFields(3),
		Scenario: world.Scenario{BaseRate: .05, Seed: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if w, err = w.Linked(ctx); err != nil {
		t.Fatal(err)
	}
	o := Options{Quick: true, Seeds: Seeds(5, 1), Networks: []RealNetwork{{Name: "mine", Graph: w.Graph()}}}
	results, err := Run(ctx, []string{"table1", "table2"}, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 2 || results[0].Study != "table1" || results[1].Study != "table2" ||
		results[0].Options.Networks[0].Name != "mine" {
		t.Fatalf("%d studies", len(results))
	}
	found := map[string]*Outcome{}
	for _, outcome := range results[0].Rows.([]*Outcome) {
		if outcome.Fields != Planted {
			t.Errorf("%s was trained on %s fields", outcome.Method.Name, outcome.Fields)
		}
		found[outcome.Method.Name] = outcome
	}
	if n, b := found["naive"], found["bayes"]; n == nil || b == nil || b.Risk >= n.Risk {
		t.Errorf("naive %+v, bayes %+v", n, b)
	}
	if w.Graph().Vectors().Len() != 400 {
		t.Error("the caller's vectors were closed")
	}
	if _, err := Run(ctx, []string{"theory"}, o); !errors.Is(err, ErrOption) {
		t.Errorf("theory on data: %v", err)
	}
	var b graph.Builder
	for _, id := range []string{"a", "b"} {
		if _, err := b.AddNode(graph.Node{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	o.Networks[0].Graph, _, err = b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(ctx, []string{"table1"}, o); !errors.Is(err, ErrOption) {
		t.Errorf("a graph without vectors: %v", err)
	}
}
