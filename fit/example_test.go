//go:build !race

// Not for the race detector, which is slow here: tests have the same goroutines.

package fit_test

import (
	"context"
	"fmt"
	"log"

	"unseen/fit"
	"unseen/graph"
	"unseen/sample"
	"unseen/world"
)

// check stands for the error handling of a real program.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// network makes a small graph with vectors, fields and links.
func network() *graph.Graph {
	w, err := world.New(context.Background(), world.Settings{Nodes: 300, Dim: 8, Fields: world.EvenFields(3),
		Scenario: world.Scenario{BaseRate: .1, OracleAUC: .97, Seed: 2}})
	check(err)
	w, err = w.Linked(context.Background())
	check(err)
	return w.Graph()
}

// Links alone go in; how probable a link is once it is shown, and how probable that is, come out.
func ExampleFit() {
	ctx := context.Background()
	origin := sample.Origin{Plan: sample.Plan{Split: sample.Whole, PerLink: 4, Seed: 1}}
	prepared, err := sample.Prepare(ctx, network(), sample.Options{Origin: origin})
	check(err)
	result, err := fit.Fit(ctx, prepared.Problem, fit.Settings{Seed: 1, Replicates: -1})
	check(err)
	start := result.Starts[0]
	fmt.Println(result.Settings.Method, "sees exposure within fields as the larger:", start.MeanSame > start.MeanCross)
	m, err := result.Model() // model.Save(path, m) keeps it
	check(err)
	fmt.Println(m.Link.Kind(), m.Propensity.Kind(), len(m.Data) > 0)
	// Output:
	// bayes sees exposure within fields as the larger: true
	// diagonal field-matrix true
}
