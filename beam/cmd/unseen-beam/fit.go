package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"unseen/beam/job"
	"unseen/beam/shards"
	"unseen/fit"
	"unseen/hint"
	"unseen/internal/atomicfile"
	"unseen/model"
	"unseen/progress"
	"unseen/risk"
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
	exposure, doctor         string
	replicates, hold         int
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

	Findings *fit.Findings  `json:"findings,omitempty"` // of bayes and of factors
	Warnings []risk.Warning `json:"warnings,omitempty"`
}

func newFit() *cobra.Command {
	var f fitFlags
	cmd := &cobra.Command{
		Use:   "fit SHARDS -o MODEL",
		Short: "Learn links and exposure together from shards",
		Long: `Learn both halves of a recommender from the pairs of shards.

bayes, the default, is the one of unseen fit: the posterior with its intervals,
what exposure depends on, and the doctor's tests and claims. The driver learns
from a part of the pairs that it draws (--hold), and moves to the posterior of
all by a few sums over the shards, one job each.

The other methods are those whose objective is a sum over pairs: naive, mle,
shown, rw, pu, ap and dr. The model is the one that unseen fit makes of the same
pairs, ridge and start: of people and items it is factors, else diagonal (--link).

Factors are learned side by side, in rounds of three jobs: all sources given the
targets, all targets given the sources, then what they have in common. Where a
part of the exposure is logged, they are first learned from the log alone, and
last so many times again for the level of exposure, as by unseen fit. The driver
holds the factors of all nodes. The ridge is not searched for: take the one that
unseen fit chose for a sample. What links and a log allow to be said is printed,
and is in the model file. Other link models are learned by L-BFGS, as by unseen
fit --optimiser lbfgs; every evaluation is one job.

A checkpoint lies beside the model and is written while it learns. Run the same
command with --resume to go on after a failure.`,
		Example: `  unseen-beam fit shards -o model.safetensors
  unseen-beam fit shards -o model.safetensors --runner flink --endpoint localhost:8099 --program /opt/unseen-beam`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.output == "" {
				return fmt.Errorf("give the model a path with -o")
			}
			if f.hold < 0 {
				return fmt.Errorf("--hold is %d; give a number of pairs, or 0 for the default", f.hold)
			}
			r, err := f.run(cmd.Context(), cmd, args[0])
			if err != nil {
				return err
			}
			if f.asJSON {
				return printJSON(cmd.OutOrStdout(), r)
			}
			return r.print(cmd.OutOrStdout(), flagsOf(cmd))
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.method, "method", "", "bayes, naive, mle, shown, rw, pu, ap or dr (default: bayes; of factors "+
		"mle)")
	flags.StringVar(&f.exposure, "exposure", "", "what exposure depends on: of bayes fields, alone or with any of "+
		"+text, +popularity and +age behind it (default: what the doctor's tests speak for), of factors fields, alone "+
		"or with +person and +item (default: fields, and all three where exposure is logged)")
	flags.StringVar(&f.doctor, "doctor", fit.FullDoctor, "of bayes: full compares assumptions, quick does not")
	flags.IntVar(&f.replicates, "replicates", 10, "of bayes: simulated histories that are refitted")
	flags.IntVar(&f.hold, "hold", 0, "of bayes: `pairs` that the driver keeps in memory at most "+
		"(default: those whose products take 1 GB, at most 524,288)")
	flags.StringVar(&f.link, "link", "", "link model (default: the method's, or factors for people and items)")
	flags.StringVar(&f.propensity, "propensity", "", "propensity model of the fields (default: the method's)")
	flags.Float64Var(&f.ridge, "ridge", 4, "of other methods: prior variance of z; below 0 none (default 4, of "+
		"factors .25)")
	flags.Lookup("ridge").DefValue = ""
	flags.Float64Var(&f.start, "start", .3, "of other methods: propensity to start from (default .3, of factors .1)")
	flags.Lookup("start").DefValue = ""
	flags.IntVar(&f.iterations, "iterations", 200, "of other methods: at most; of factors rounds, at most 60")
	flags.Float64Var(&f.tolerance, "tolerance", 1e-6, "of other methods: stop when three steps lower the objective by "+
		"less than this share (default 1e-6), of factors two rounds (default 3e-4)")
	flags.Lookup("tolerance").DefValue = ""
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
	if f.method == "" {
		left, err := forSides(fit.Settings{Link: f.link}, cluster.Manifest).WithDefaults()
		if err != nil {
			return nil, err
		}
		f.method = left.Method
	}
	if f.method == "bayes" {
		return f.bayes(ctx, cmd, cluster)
	}
	s, err := f.settings(cmd, cluster.Manifest)
	if err != nil {
		return nil, err
	}
	m, began := cluster.Manifest, time.Now()
	s.Progress = func(e progress.Event) {
		if !f.quiet {
			what := "iteration"
			if e.Phase != "training" {
				what = e.Phase + ", iteration"
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s %.0f: objective %.8g, %d jobs, %s\n", what, e.Values["round"],
				e.Values["loss"], cluster.Evaluations(), time.Since(began).Round(100*time.Millisecond))
		}
	}
	d, err := cluster.Descent(ctx, s)
	if err != nil {
		return nil, err
	}
	found, err := d.Run(ctx)
	if err != nil {
		return nil, f.interrupted(err)
	}
	s, parts := d.Settings, found.Objective
	fitted, report, err := f.fitted(ctx, cluster, d, found)
	if err != nil {
		return nil, err
	}
	if err := f.save(fitted, s.Checkpoint); err != nil {
		return nil, err
	}
	report.Method, report.Pairs, report.Shards, report.Iterations = s.Method, m.Extent.Pairs, len(m.Train),
		found.Iterations
	report.Evaluations, report.Model, report.Seconds = cluster.Evaluations(), f.output, time.Since(began).Seconds()
	report.Objective, report.Likelihood, report.Risk, report.Prior = parts.Total(), parts.Likelihood, parts.Risk,
		parts.Prior
	return report, nil
}

// fitted returns the model of a descent, and what is said of it.
func (f *fitFlags) fitted(ctx context.Context, cluster *job.Cluster, d fit.Descent, found fit.Descended) (
	m model.Model, report *fitReport, err error) {
	s, o := d.Settings, d.Objective
	if !model.NeedsVectors(o.Link.Kind()) {
		r, err := cluster.Examine(ctx, d, found)
		if err != nil {
			return m, nil, f.interrupted(err)
		}
		m, err = r.Model()
		return m, &fitReport{Findings: r.Findings, Warnings: r.Warnings}, err
	}
	link, propensity := o.Split(found.Params)
	m = model.Model{Link: o.Link, LinkParams: link, Propensity: o.Propensity, PropensityParams: propensity,
		Method: s.Method, Seed: s.Seed, DataChecksum: cluster.Manifest.Checksum()}
	if m.Hyperparameters, err = json.Marshal(s); err == nil {
		m.Data, err = json.Marshal(cluster.Manifest.Data)
	}
	return m, &fitReport{Warnings: found.Warnings}, err
}

// forSides returns settings for what the shards are of: people and items get factors, unless another model is chosen.
func forSides(s fit.Settings, m *shards.Manifest) fit.Settings {
	if m.Roles == nil {
		return s
	}
	return s.For(model.Nodes{Sources: []int32{}})
}

// factorRidge is the prior variance of z of factors where none is given: of those that one machine tries for them, it
// is in the middle.
const factorRidge = .25

// settings are those of a method that minimises a sum over pairs.
func (f *fitFlags) settings(cmd *cobra.Command, m *shards.Manifest) (fit.Settings, error) {
	given := cmd.Flags().Changed
	if f.ridge == 0 {
		return fit.Settings{}, fmt.Errorf("--ridge is 0; give a positive variance of z, or a negative number for none")
	}
	s := fit.Settings{
		Method: f.method, Link: f.link, Propensity: f.propensity, Optimiser: "lbfgs", Ridge: f.ridge,
		Starts: []float64{f.start}, Seed: f.seed,
		LBFGS:      fit.LBFGSSettings{Iterations: f.iterations, Tolerance: f.tolerance},
		Checkpoint: fit.Checkpoint{Path: f.checkpoint, Resume: f.resume, Keep: true},
	}
	s = forSides(s, m)
	switch {
	case given("replicates"):
		return s, fmt.Errorf("--replicates is of bayes; intervals of another method need one machine: unseen fit " +
			"--replicates")
	case model.NeedsVectors(s.Link) && given("exposure"):
		return s, fmt.Errorf("--exposure is of bayes and of factors; give --propensity to the method %s", f.method)
	case model.NeedsVectors(s.Link):
		return s, nil
	}
	s.Optimiser, s.Exposure = "", f.exposure
	if !given("ridge") {
		s.Ridge = factorRidge
	}
	if !given("start") {
		s.Starts = nil
	}
	if !given("tolerance") {
		s.LBFGS.Tolerance = 0
	}
	return s, nil
}

// interrupted adds to an error where the work until then is.
func (f *fitFlags) interrupted(err error) error {
	if _, there := os.Stat(f.checkpoint); there == nil && !errors.Is(err, fit.ErrCheckpoint) {
		if errors.Is(err, context.Canceled) {
			return fmt.Errorf("stopped; what was learned until then is in %s: go on with --resume", f.checkpoint)
		}
		return fmt.Errorf("%w; what was learned until then is in %s: go on with --resume", err, f.checkpoint)
	}
	return err
}

// save writes the model and removes the checkpoint.
func (f *fitFlags) save(m model.Model, c fit.Checkpoint) error {
	if err := model.Save(f.output, m); err != nil {
		return err
	}
	if err := c.Remove(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// bayes learns the posterior.
func (f *fitFlags) bayes(ctx context.Context, cmd *cobra.Command, cluster *job.Cluster) (*fitReport, error) {
	m, began := cluster.Manifest, time.Now()
	for _, name := range []string{"ridge", "start", "iterations", "tolerance"} {
		if cmd.Flags().Changed(name) {
			return nil, fmt.Errorf("--%s is of L-BFGS, and bayes learns without it; leave it out, or give another "+
				"--method", name)
		}
	}
	if m.Data.Plan.EveryShown {
		return nil, fmt.Errorf("%w: these shards have every pair that a complete log has as shown, which bayes cannot "+
			"weigh; give --method mle, or make them again with unseen-beam import --every-shown=false", fit.ErrSetting)
	}
	if known := slices.Contains(m.Columns, shards.PopularityColumn); !known && f.exposure == "" {
		return nil, fmt.Errorf("%w: these shards do not say how popular nodes are, on which exposure may depend; "+
			"give --exposure fields or fields+text, or make them again with unseen-beam import", fit.ErrData)
	}
	s := fit.Settings{Method: "bayes", Link: f.link, Propensity: f.propensity, Exposure: f.exposure, Doctor: f.doctor,
		Replicates: f.replicates, Seed: f.seed,
		Checkpoint: fit.Checkpoint{Path: f.checkpoint, Resume: f.resume, Keep: true}}
	if f.replicates == 0 {
		s.Replicates = -1
	}
	phase := ""
	s.Progress = func(e progress.Event) {
		if text := fmt.Sprintf("%s, %.0f", e.Phase, e.Values["round"]); !f.quiet && text != phase {
			phase = text
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d jobs, %s\n", text, cluster.Evaluations(),
				time.Since(began).Round(100*time.Millisecond))
		}
	}
	r, err := fit.FitPopulation(ctx, cluster.Population(f.hold), s)
	if err != nil {
		return nil, f.interrupted(err)
	}
	fitted, err := r.Model()
	if err == nil {
		err = f.save(fitted, s.Checkpoint)
	}
	if err != nil {
		return nil, err
	}
	return &fitReport{Method: s.Method, Pairs: m.Extent.Pairs, Shards: len(m.Train), Iterations: r.Iterations,
		Evaluations: cluster.Evaluations(), Objective: r.Objective.Total(), Likelihood: r.Objective.Likelihood,
		Seconds: time.Since(began).Seconds(), Model: f.output, Findings: r.Findings, Warnings: r.Warnings}, nil
}

// print says what was fitted, with settings by their names.
func (r *fitReport) print(w io.Writer, named func(hint.Setting) string) error {
	_, err := fmt.Fprintf(w, "%s: %s of %d pairs in %d shards, %d iterations (%d jobs) in %s, objective %.8g\n",
		r.Model, r.Method, r.Pairs, r.Shards, r.Iterations, r.Evaluations, progress.Seconds(r.Seconds), r.Objective)
	if r.Findings != nil {
		fmt.Fprintf(w, "scale: %s\n", r.Findings.Class.Label())
		for _, line := range r.Findings.Verdict {
			fmt.Fprintf(w, "  %s\n", line)
		}
		for _, advice := range r.Findings.Advice {
			fmt.Fprintf(w, "  advice: %s\n", advice.Render(named))
		}
	}
	for _, warning := range r.Warnings {
		if r.Findings == nil || !slices.Contains(r.Findings.Verdict, warning.Message) {
			fmt.Fprintf(w, "warning: %s\n", warning.Message)
		}
	}
	return err
}
