package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"unseen/fit"
	"unseen/internal/atomicfile"
	"unseen/model"
	"unseen/progress"
)

// fitFlags is the command line of unseen-beam fit.
type fitFlags struct {
	clusterFlags
	method, link, propensity string
	ridge, start             float64
	iterations               int
	tolerance                float64
	seed                     uint64
	output, checkpoint       string
	resume                   bool
}

// fitReport is what was fitted.
type fitReport struct {
	Method      string  `json:"method"`
	Pairs       int64   `json:"pairs"`
	Shards      int     `json:"shards"`
	Iterations  int     `json:"iterations"`
	Evaluations int     `json:"evaluations"` // jobs of this run
	Objective   float64 `json:"objective"`
	Likelihood  float64 `json:"likelihood"`
	Risk        float64 `json:"risk"`
	Prior       float64 `json:"prior"`
	Seconds     float64 `json:"seconds"`
	Model       string  `json:"model"`
}

func newFit() *cobra.Command {
	var f fitFlags
	cmd := &cobra.Command{
		Use:   "fit SHARDS -o MODEL",
		Short: "Learn links and exposure together from shards",
		Long: `Learn both halves of a recommender from the pairs of shards, by L-BFGS: every
evaluation of the objective is one job. The methods are those whose objective is
a sum over pairs: naive, mle, rw, pu, ap and dr. The model is the one that
unseen fit --optimiser lbfgs makes of the same pairs, ridge and start.

A checkpoint lies beside the model and is written after every iteration. Run the
same command with --resume to go on after a failure.`,
		Example: `  unseen-beam fit shards -o model.safetensors
  unseen-beam fit shards -o model.safetensors --runner flink --endpoint localhost:8099 --program /opt/unseen-beam`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.output == "" {
				return fmt.Errorf("give the model a path with -o")
			}
			r, err := f.run(cmd.Context(), cmd, args[0])
			if err != nil {
				return err
			}
			if f.asJSON {
				return printJSON(cmd.OutOrStdout(), r)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(),
				"%s: %s of %d pairs in %d shards, %d iterations (%d jobs) in %s, objective %.8g\n",
				r.Model, r.Method, r.Pairs, r.Shards, r.Iterations, r.Evaluations, progress.Seconds(r.Seconds),
				r.Objective)
			return err
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.method, "method", "ap", "naive, mle, rw, pu, ap or dr")
	flags.StringVar(&f.link, "link", "", "link model (default: the method's)")
	flags.StringVar(&f.propensity, "propensity", "", "propensity model of the fields (default: the method's)")
	flags.Float64Var(&f.ridge, "ridge", 4, "prior variance of z; below 0 none")
	flags.Float64Var(&f.start, "start", .3, "propensity to start from")
	flags.IntVar(&f.iterations, "iterations", 200, "at most")
	flags.Float64Var(&f.tolerance, "tolerance", 1e-6,
		"stop when three steps lower the objective by less than this share")
	flags.Uint64Var(&f.seed, "seed", 1, "of the parameters at the start")
	flags.StringVarP(&f.output, "output", "o", "", "save the model here")
	flags.StringVar(&f.checkpoint, "checkpoint", "", "checkpoint (default: beside the output)")
	flags.BoolVar(&f.resume, "resume", false, "go on from the checkpoint")
	f.add(cmd)
	return cmd
}

func (f *fitFlags) run(ctx context.Context, cmd *cobra.Command, root string) (*fitReport, error) {
	if err := atomicfile.Writable(f.output); err != nil {
		return nil, err
	}
	cluster, done, err := f.open(ctx, cmd, root)
	if err != nil {
		return nil, err
	}
	defer done()
	if f.checkpoint == "" {
		f.checkpoint = f.output + ".checkpoint"
	}
	s := fit.Settings{
		Method: f.method, Link: f.link, Propensity: f.propensity, Optimiser: "lbfgs", Ridge: f.ridge,
		Starts: []float64{f.start}, Seed: f.seed,
		LBFGS:      fit.LBFGSSettings{Iterations: f.iterations, Tolerance: f.tolerance},
		Checkpoint: fit.Checkpoint{Path: f.checkpoint, Resume: f.resume, Keep: true},
	}
	if s, err = s.WithDefaults(); err != nil {
		return nil, err
	}
	if s.Ridge == 0 {
		return nil, fmt.Errorf("--ridge is 0; give a positive variance of z, or a negative number for none")
	}
	m := cluster.Manifest
	shape, err := m.Shape()
	if err != nil {
		return nil, err
	}
	o, err := s.Objective(shape, m.Extent)
	if err != nil {
		return nil, err
	}
	cluster.Settings = s
	began := time.Now()
	s.Engine = cluster
	s.Progress = func(e progress.Event) {
		if !f.quiet {
			fmt.Fprintf(cmd.ErrOrStderr(), "iteration %.0f: objective %.8g, %d jobs, %s\n", e.Values["round"],
				e.Values["loss"], cluster.Evaluations(), time.Since(began).Round(100*time.Millisecond))
		}
	}
	params, parts, iterations, err := fit.Descent{Objective: o, Settings: s, Data: m.Checksum()}.Run(ctx)
	if err != nil {
		if _, there := os.Stat(f.checkpoint); there == nil && !errors.Is(err, fit.ErrCheckpoint) {
			return nil, fmt.Errorf("%w; the iterations until then are in %s: go on with --resume", err, f.checkpoint)
		}
		return nil, err
	}
	link, propensity := o.Split(params)
	fitted := model.Model{Link: o.Link, LinkParams: link, Propensity: o.Propensity, PropensityParams: propensity,
		Method: s.Method, Seed: s.Seed, DataChecksum: m.Checksum()}
	if fitted.Hyperparameters, err = json.Marshal(s); err != nil {
		return nil, err
	}
	if fitted.Data, err = json.Marshal(m.Data); err != nil {
		return nil, err
	}
	if err := model.Save(f.output, fitted); err != nil {
		return nil, err
	}
	if err := s.Checkpoint.Remove(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &fitReport{
		Method: s.Method, Pairs: m.Extent.Pairs, Shards: len(m.Train), Iterations: iterations,
		Evaluations: cluster.Evaluations(),
		Objective:   parts.Total(), Likelihood: parts.Likelihood, Risk: parts.Risk, Prior: parts.Prior,
		Seconds: time.Since(began).Seconds(), Model: f.output,
	}, nil
}
