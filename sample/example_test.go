package sample_test

import (
	"context"
	"fmt"
	"log"

	"unseen/graph"
	"unseen/sample"
	"unseen/world"
)

// The newest tenth chooses, the fifth after it judges; candidates of a node are those before it.
func ExamplePrepare() {
	w, err := world.New(context.Background(), world.Settings{Nodes: 300, Dim: 8, Fields: world.EvenFields(3),
		Scenario: world.Scenario{BaseRate: .1, OracleAUC: .97, Seed: 2}})
	check(err)
	w, err = w.Linked(context.Background())
	check(err)
	prepared, err := sample.Prepare(context.Background(), w.Graph(), sample.Options{Origin: sample.Origin{
		Fields: sample.FieldsBy{Kind: "vectors", Count: 4, Seed: 1}, Plan: sample.Plan{Seed: 1},
	}})
	check(err)
	fmt.Println(prepared.Graph.FieldCount()-1, "fields were found")
	for subset := graph.Train; subset <= graph.Test; subset++ {
		fmt.Println(subset, len(prepared.Split.Nodes(subset)), "nodes")
	}
	fmt.Println(prepared.Problem.Train.Len() == 5*prepared.Links.Train, prepared.Test.Pairs.Len() > 0)
	// Output:
	// 4 fields were found
	// train 210 nodes
	// validation 30 nodes
	// test 60 nodes
	// true true
}

// check stands for the error handling of a real program.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
