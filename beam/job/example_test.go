package job_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"unseen/beam/job"
	"unseen/beam/shards"
	"unseen/fit"
	"unseen/sample"
	"unseen/world"
)

// A graph is cut into shards, and a model fitted to them by jobs on Prism.
func ExampleCluster() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	w, err := world.New(ctx, world.Settings{Nodes: 100, Dim: 4, Fields: world.EvenFields(2),
		Scenario: world.Saturated()})
	if err != nil {
		panic(err)
	}
	if w, err = w.Linked(ctx); err != nil {
		panic(err)
	}
	data := sample.Origin{Plan: sample.Plan{Split: sample.AtRandom, Later: true, Seed: 1}}
	prepared, err := sample.Prepare(ctx, w.Graph(), sample.Options{Origin: data, Threads: 1})
	if err != nil {
		panic(err)
	}
	location := shards.Location{Root: filepath.Join(folder, "shards")}
	m, err := shards.Cut(ctx, location, prepared, shards.CutSettings{Nodes: 50})
	if err != nil {
		panic(err)
	}
	settings := fit.Settings{Method: "ap", Optimiser: "lbfgs", Ridge: 4, Starts: []float64{.3},
		LBFGS: fit.LBFGSSettings{Iterations: 2}}
	shape, err := m.Shape()
	if err != nil {
		panic(err)
	}
	objective, err := settings.Objective(shape, m.Extent)
	if err != nil {
		panic(err)
	}
	cluster := &job.Cluster{Shards: location, Manifest: m, Settings: settings, Work: shards.Location{Root: folder}}
	settings.Engine = cluster
	found, err := fit.Descent{Objective: objective, Settings: settings,
		Data: m.Checksum()}.Run(ctx)
	fmt.Println(len(m.Blocks), "blocks,", len(m.Train), "shards,", found.Iterations, "iterations,", err)
	// Output: 2 blocks, 4 shards, 2 iterations, <nil>
}
