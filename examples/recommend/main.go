// Fit a model that corrects for exposure, and recommend.
//
// The network is a small world with titles, fields and vectors. Yours comes from network.Open(ctx,
// "papers", dataset.OpenOptions{}), whose Graph has the same methods. A naive model is fitted
// beside it, to show what exposure hides.
//
// Prints:
//
//	bayes: the scale of exposure is weak
//	For "Large-scale expression in bird migration" (Biology)
//	  1 (naive: 1)  Variation and mutation in protein folding (Biology)
//	  2 (naive: 2)  Long-term expression in bird migration (Biology)
//	* 3 (naive: 7)  The role of strategy in airline pricing (Business)
//	  4 (naive: 6)  The role of signalling in insect olfaction (Biology)
//	  5 (naive: 3)  Mutation and transport in protein folding (Biology)
package main

import (
	"context"
	"fmt"
	"log"

	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/recommend"
	"unseen/sample"
	"unseen/world"
)

func main() {
	ctx := context.Background()
	made, err := world.New(ctx, world.Settings{
		Nodes: 400, Dim: 12, Fields: world.EvenFields(3), Homophily: 1,
		Scenario: world.Scenario{BaseRate: .05, OracleAUC: .97, Seed: 4},
	})
	check(err)
	made, err = made.Linked(ctx) // the links that are seen
	check(err)
	g := made.Graph()

	corrected, naive := learn(ctx, g, "bayes"), learn(ctx, g, "naive")

	r, err := recommend.New(g, corrected, recommend.Options{Naive: &naive})
	check(err)
	node := int32(380) // one of the newest
	list, err := r.Top(ctx, recommend.Query{Source: r.Node(node), K: 5})
	check(err)
	fmt.Printf("For %q (%s)\n", g.Title(node), g.FieldName(g.Field(node)))
	for _, item := range list.Items {
		mark := " "
		if item.Hidden { // by π̂ŷ, as links are seen, it would not be among the five
			mark = "*"
		}
		fmt.Printf("%s %d (naive: %d)  %s (%s)\n", mark, item.Rank, item.NaiveRank, item.Title, item.Field)
	}
}

// learn fits a model to every link of the graph and four unlinked pairs for each.
func learn(ctx context.Context, g *graph.Graph, method string) model.Model {
	data := sample.Origin{Plan: sample.Plan{Split: sample.Whole, PerLink: 4, Seed: 1}}
	drawn, err := sample.Prepare(ctx, g, sample.Options{Origin: data, Threads: 1})
	check(err)
	result, err := fit.Fit(ctx, drawn.Problem, fit.Settings{Method: method, Seed: 1})
	check(err)
	if method == "bayes" {
		fmt.Printf("%s: the scale of exposure is %s\n", method, result.Findings.Class.Label())
	}
	m, err := result.Model() // model.Save(path, m) keeps it
	check(err)
	return m
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
