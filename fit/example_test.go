package fit_test

import (
	"context"
	"fmt"
	"log"

	"unseen/fit"
	"unseen/graph"
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
		Plan: world.Plan{BaseRate: .1, OracleAUC: .97, Seed: 2}})
	check(err)
	w, err = w.Linked(context.Background())
	check(err)
	return w.Graph()
}

// Links alone go in; how probable a link is once it is shown, and how probable that is, come out.
func ExampleFit() {
	ctx := context.Background()
	data := fit.Data{Drawing: fit.Drawing{Split: fit.Whole, PerLink: 4, Seed: 1}}
	_, drawn, err := data.Prepare(ctx, network(), nil, 0)
	check(err)
	result, err := fit.Fit(ctx, drawn.Problem, fit.Settings{Seed: 1, Replicates: -1}, fit.Progress{})
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

// The newest tenth chooses, the fifth after it judges; candidates of a node are those before it.
func ExampleData_Prepare() {
	data := fit.Data{Fields: fit.FieldsBy{Kind: "vectors", Count: 4, Seed: 1}, Drawing: fit.Drawing{Seed: 1}}
	g, drawn, err := data.Prepare(context.Background(), network(), nil, 0)
	check(err)
	fmt.Println(g.FieldCount()-1, "fields were found")
	for part := graph.Train; part <= graph.Test; part++ {
		fmt.Println(part, len(drawn.Split.Nodes(part)), "nodes")
	}
	fmt.Println(drawn.Problem.Train.Len() == 5*drawn.Links, drawn.Test.Pairs.Len() > 0)
	// Output:
	// 4 fields were found
	// train 210 nodes
	// validation 30 nodes
	// test 60 nodes
	// true true
}
