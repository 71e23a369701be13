package fit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"

	"unseen/fit"
	"unseen/model"
	"unseen/progress"
	"unseen/sample"
	"unseen/world"
)

// Training that was cancelled goes on from its checkpoint to the very same model.
func ExampleCheckpoint() {
	folder, err := os.MkdirTemp("", "unseen")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	w, err := world.New(context.Background(), world.Settings{Nodes: 80, Dim: 8, Fields: world.EvenFields(3)})
	if err != nil {
		log.Fatal(err)
	}
	drawn, err := w.Pairs(context.Background(), 900, world.Draw{})
	if err != nil {
		log.Fatal(err)
	}
	problem := sample.Problem{Nodes: model.NodesOf(w.Graph()), Train: drawn.Pairs}
	settings := fit.Settings{Method: "mle", Starts: []float64{.3}}
	whole, err := fit.Fit(context.Background(), problem, settings)
	if err != nil {
		log.Fatal(err)
	}

	settings.Checkpoint.Path = filepath.Join(folder, "checkpoint")
	ctx, cancel := context.WithCancel(context.Background())
	settings.Progress = func(e progress.Event) {
		if e.Values["round"] == 5 {
			cancel()
		}
	}
	_, err = fit.Fit(ctx, problem, settings)
	fmt.Println(errors.Is(err, context.Canceled))

	settings.Checkpoint.Resume = true
	resumed, err := fit.Fit(context.Background(), problem, settings)
	fmt.Println(err, slices.Equal(resumed.LinkParams, whole.LinkParams))
	// Output:
	// true
	// <nil> true
}
