package fit_test

import (
	"context"
	"fmt"
	"log"

	"unseen/fit"
	"unseen/model"
	"unseen/sample"
	"unseen/world"
)

// The learning rate is chosen by how likely the links of validation pairs are.
func ExampleSearch() {
	ctx := context.Background()
	w, err := world.New(ctx, world.Settings{Nodes: 80, Dim: 8, Fields: world.EvenFields(3)})
	if err != nil {
		log.Fatal(err)
	}
	drawn, err := w.Pairs(ctx, 900, world.Draw{})
	if err != nil {
		log.Fatal(err)
	}
	result, err := fit.Fit(ctx, sample.Problem{Nodes: model.NodesOf(w.Graph()), Train: drawn.Pairs}, fit.Settings{
		Method: "mle",
		Adam:   fit.AdamSettings{Epochs: 3},
		Search: fit.Search{Axes: []fit.Axis{{Name: "lr", Values: []float64{1e-6, 1e-2}}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, trial := range result.Trials {
		fmt.Println(trial, trial.Chosen)
	}
	fmt.Println(result.Settings.Adam.Rate)
	// Output:
	// lr=1e-06 false
	// lr=0.01 true
	// 0.01
}
