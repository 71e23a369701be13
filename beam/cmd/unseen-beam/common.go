package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"unseen/beam/job"
	"unseen/beam/shards"
	"unseen/model"
)

// clusterFlags say where jobs run.
type clusterFlags struct {
	runner        job.Runner
	program       string
	work          string
	verbose       bool
	quiet, asJSON bool
}

func (f *clusterFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.runner.Name, "runner", "prism", "prism (in this process), flink, spark, dataflow or universal")
	flags.StringVar(&f.runner.Endpoint, "endpoint", "", "`host:port` of the job service")
	flags.StringVar(&f.program, "program", "",
		"`path` of unseen-beam on the workers' machines, which start it themselves")
	flags.StringVar(&f.runner.Environment, "environment", "",
		"PROCESS, DOCKER, EXTERNAL or LOOPBACK (default LOOPBACK)")
	flags.StringVar(&f.runner.Config, "environment-config", "", "of the environment: an image, or an address")
	flags.IntVar(&f.runner.Parallelism, "parallelism", 0, "tasks at a time (default: the cluster's)")
	flags.StringVar(&f.work, "work", "", "`place` for what jobs hand back, where all workers can write "+
		"(default: beside the output)")
	flags.BoolVar(&f.verbose, "verbose", false, "Beam's own messages on stderr")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	flags.BoolVar(&f.asJSON, "json", false, "one JSON document on stdout")
}

// ready fills the runner in.
func (f *clusterFlags) ready(cmd *cobra.Command) error {
	var beside io.Writer
	if f.verbose {
		beside = cmd.ErrOrStderr()
	}
	job.Verbose(beside)
	if f.program != "" {
		if f.runner.Environment != "" || f.runner.Config != "" {
			return fmt.Errorf("--program and --environment; give one of them")
		}
		started := job.Flink(f.runner.Endpoint, f.program, f.runner.Parallelism)
		started.Name = f.runner.Name
		f.runner = started
	}
	if f.runner.Name != "prism" && f.runner.Name != "dataflow" && f.runner.Endpoint == "" {
		return fmt.Errorf("--runner %s needs the address of its job service; give --endpoint localhost:8099 or "+
			"the like", f.runner.Name)
	}
	return nil
}

// open reads the manifest and makes a cluster.
func (f *clusterFlags) open(ctx context.Context, cmd *cobra.Command, root string) (e *job.Cluster, done func(),
	err error) {
	if err := f.ready(cmd); err != nil {
		return nil, nil, err
	}
	location := shards.Location{Root: root}
	m, err := location.Manifest(ctx)
	if err != nil {
		return nil, nil, err
	}
	e = &job.Cluster{Shards: location, Manifest: m, Runner: f.runner, Work: shards.Location{Root: f.work}}
	done = func() { e.Close(context.Background()) }
	if f.work == "" {
		e.Work = location.Temporary()
		done = func() { e.Work.Discard(context.Background()) }
	}
	if e.Work.Local() {
		if err := os.MkdirAll(e.Work.Root, 0o755); err != nil {
			return nil, nil, err
		}
	}
	return e, done, nil
}

// openModel opens a model that was fitted to these shards, or to the dataset that they were cut from, without nodes.
func openModel(ctx context.Context, path string, e *job.Cluster) (model.Model, error) {
	fitted, err := e.OpenModel(ctx, path)
	if err != nil {
		return model.Model{}, err
	}
	return fitted, sameData(path, fitted, e.Manifest)
}

// openFor opens such a model for some of the nodes.
func openFor(ctx context.Context, path string, e *job.Cluster, n model.Nodes) (model.Model, error) {
	file, err := model.Open(path)
	if err != nil {
		return model.Model{}, err
	}
	if !model.NeedsVectors(file.Metadata[model.KeyLink]) { // factors know every node
		fitted, err := openModel(ctx, path, e)
		if err != nil {
			return model.Model{}, err
		}
		return e.Part(ctx, fitted, n)
	}
	fitted, err := file.Model(n)
	if err != nil {
		return model.Model{}, fmt.Errorf("%s does not go with the shards: %w", path, err)
	}
	return fitted, sameData(path, fitted, e.Manifest)
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
