package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"unseen/dataset"
	"unseen/fit"
	"unseen/gpu"
	"unseen/internal/amount"
	"unseen/sample"
	"unseen/study"
)

// studyFlags is the command line of unseen study.
type studyFlags struct {
	names         []string
	seeds         int
	seed          uint64
	threads       int
	preset        string
	out           string
	data          []string
	dates         string
	test          string
	threshold     float64
	people        int
	quick         bool
	quiet, asJSON bool
	nodes, dim    int
	deviceFlags
}

// newStudy is the command.
//
// Long because of what it says.
func newStudy() *cobra.Command {
	var f studyFlags
	var names []string
	var list strings.Builder
	for _, s := range study.All() {
		names = append(names, s.Name)
		list.WriteString(hanging(s.Name, s.Title))
	}
	list.WriteString(hanging("all", "all of these; trainings that they share run once"))
	cmd := &cobra.Command{
		Use:   "study NAME…",
		Short: "Repeat the paper's tables and figures, and report what reproduces",
		Long: `Repeat tables and figures of the paper in worlds whose truth is known, show its
numbers beside ours, and report what reproduced and what did not.

Studies:
` + list.String() + `
Every seed is a world of its own. Repetitions run in parallel, one thread each;
results do not depend on the number of threads. At the paper's size the studies
take minutes. --quick takes seconds and shows that everything works, in worlds
too small to say anything about the paper.

--data runs studies on networks of your own, which need vectors and fields;
nothing leaves this machine. table3 and table4 train on the older links of each
and test on the newer ones (--dates splits at two dates instead of by share; a
network whose links have no direction in time is split at random). clicks needs
exposures.parquet. refresh leaves 1% of the links out, and refreshes the model
with all of them. certificate, table1 and table2 plant known truths on the
vectors and fields, the last two on one network at a time.

exposed is about people and items of which it is known what was shown: --data
are folders with statements.csv.gz and votes.csv.gz, as Polis publishes them, or
with ratings.csv.gz, or files of ratings. These are tables with a person, an
item and a rating a row (person, item, rating; user_id, video_id, watch_ratio;
or three columns without names), or matrices with a row for every person. A
fifth of what was shown is held out as if it had never been, and judged by;
--test FILE judges by ratings of pairs that were shown at random instead, as
Coat, Yahoo R3 and KuaiRec have them. Of ratings below and above 0 those above
are likes, of others those from 3 on, or from --threshold on.

exact compares samples of unlinked pairs with all pairs, in worlds of --nodes
with --dim numbers each; with --device gpu a card sums and learns from all.

--out writes NAME.json and a CSV file per table and figure for every study.
doctor, prescribe and robust, which take hours, keep every world there when it
is done, in NAME.tasks: the same command goes on after Ctrl-C, one with more
--seeds makes only the worlds that are missing, and files of several machines
can be put into one folder. Another build of the program needs another folder.`,
		Example: `  unseen study table1 --quick
  unseen study quality --seeds 3
  unseen study all --out results
  unseen study table1 --data unseen-demo/dataset --seeds 3
  unseen study exact --nodes 5000 --seeds 3
  unseen study exposed --data polis/taxes --data jester
  unseen study exposed --data coat/train.ascii --test coat/test.ascii
  unseen study table4 --data elife --data cora --dates 2020-07-01,2021-01-01`,
		ValidArgs: append(names, "all"),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("name a study: %s or all; for instance unseen study table1 --quick",
					strings.Join(names, ", "))
			}
			f.names = args
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := runStudy(cmd.Context(), f, newDisplay(cmd.ErrOrStderr(), f.quiet))
			if err != nil {
				return err
			}
			return present(cmd, f.asJSON, report, report.print)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&f.seeds, "seeds", 0, "repetitions (default 10; 3 or 5 with --data; 2 if quick)")
	flags.Uint64Var(&f.seed, "seed", 2001, "the first seed; the others follow it")
	threadsFlag(cmd, &f.threads)
	flags.StringVar(&f.preset, "preset", "safe", "settings: "+strings.Join(fit.Presets(), ", "))
	flags.BoolVar(&f.quick, "quick", false, "small worlds, to check that everything works")
	flags.StringArrayVar(&f.data, "data", nil, "the dataset in this `folder`; repeatable")
	flags.StringVar(&f.dates, "dates", "", "split networks that have times at these two `days`")
	flags.Float64Var(&f.threshold, "threshold", 0, "exposed: ratings from `x` on are likes")
	flags.IntVar(&f.people, "people", 0, "exposed: draw so many people, of more")
	flags.StringVar(&f.test, "test", "", "exposed: judge by pairs shown at random in `file`")
	flags.IntVar(&f.nodes, "nodes", 0, "exact: nodes of a world (default 2000; 300 if quick)")
	flags.IntVar(&f.dim, "dim", 0, "exact: dimension of the vectors (default 32; 8 if quick)")
	f.deviceFlags.register(cmd, "sums for exact")
	flags.StringVar(&f.out, "out", "", "write JSON and CSV files into this `folder`")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	jsonFlag(cmd, &f.asJSON)
	completeFlags(cmd, map[string][]string{"preset": fit.Presets()}, "seeds", "seed", "threads", "nodes", "dim")
	return cmd
}

// studyReport is what unseen study has to say.
type studyReport struct {
	Studies []*study.Result `json:"studies"`
	Files   []string        `json:"files,omitempty"`
}

// runStudy runs studies and writes their files. Those that were done when it was stopped have theirs.
func runStudy(ctx context.Context, f studyFlags, t *display) (*studyReport, error) {
	o := study.Options{Threads: f.threads, Preset: f.preset, Quick: f.quick, Progress: t.report}
	if f.seeds < 0 || f.seeds > 10_000 {
		return nil, usagef("--seeds is %d; give from 1 to 10000", f.seeds)
	}
	if err := knownStudies(f.names); err != nil {
		return nil, err
	}
	dates, err := cutDates(f.dates)
	if err != nil {
		return nil, err
	}
	shown := slices.Contains(f.names, "exposed")
	switch {
	case shown && len(f.names) > 1:
		return nil, usagef("exposed reads folders of its own kind; run it alone")
	case f.test != "" && !(shown && len(f.data) == 1):
		return nil, usagef("--test goes with unseen study exposed and one --data")
	case (f.threshold != 0 || f.people != 0) && !shown:
		return nil, usagef("--threshold and --people go with unseen study exposed")
	case f.people < 0:
		return nil, usagef("--people is %d; give 1 or more", f.people)
	case (f.nodes != 0 || f.dim != 0 || f.device != "cpu") && !slices.Equal(f.names, []string{"exact"}):
		return nil, usagef("--nodes, --dim and --device go with unseen study exact alone")
	}
	o.Nodes, o.Dim = f.nodes, f.dim
	done, err := f.openDevice(&o, t)
	if err != nil {
		return nil, err
	}
	defer done()
	for _, folder := range f.data {
		t.say("opening %s", folder)
		if shown {
			set, err := study.OpenShown(folder, study.ShownOptions{Test: f.test, Threshold: f.threshold,
				People: f.people})
			if err != nil {
				return nil, &usageError{err}
			}
			o.Shown = append(o.Shown, set)
			continue
		}
		data, err := dataset.Open(ctx, folder, dataset.OpenOptions{})
		if err != nil {
			return nil, &usageError{err}
		}
		defer data.Close()
		network := study.RealNetwork{Name: filepath.Base(filepath.Clean(folder)), Graph: data.Graph()}
		if e, err := data.Exposures(ctx); err != nil {
			return nil, &usageError{err}
		} else if e != nil {
			network.Log = &sample.ExposureLog{Source: e.Source, Target: e.Target, Exposed: e.Exposed, Linked: e.Linked}
		}
		if dates != nil && network.Graph.HasTimes() {
			network.Plan = &sample.Plan{Split: sample.ByDate, Dates: dates}
		}
		o.Networks = append(o.Networks, network)
	}
	o.Seeds = study.Seeds(f.seed, cmp.Or(f.seeds, o.Repetitions()))
	if _, err := o.WithDefaults(); err != nil {
		return nil, &usageError{err}
	}
	if err := f.prepare(&o); err != nil {
		return nil, err
	}
	defer t.clear()
	results, err := study.Run(ctx, f.names, o)
	r, err := f.write(ctx, results, err)
	if errors.Is(err, study.ErrOption) {
		return nil, &usageError{err}
	}
	return r, err
}

// prepare has a run keep in --out what is done.
func (f *studyFlags) prepare(o *study.Options) (err error) {
	if f.out == "" {
		return nil
	}
	if err := study.Prepare(f.out); err != nil {
		return usagef("--out: %w", err)
	}
	o.Keep = f.out
	o.Build, err = readBuild().identity()
	return err
}

// write writes what is done, given how the run ended.
func (f *studyFlags) write(ctx context.Context, results []*study.Result, err error) (*studyReport, error) {
	r := &studyReport{Studies: results}
	if f.out == "" {
		return r, err
	}
	var writing error
	r.Files, writing = study.Write(f.out, results)
	if n := study.Kept(f.out); n > 0 && writing == nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return r, fmt.Errorf("stopped; %s that are done are kept in %s: run the same command to go on",
			amount.Of(n, "world"), f.out)
	}
	return r, errors.Join(err, writing)
}

// openDevice opens the card that --device asks for.
func (f *studyFlags) openDevice(o *study.Options, t *display) (done func(), err error) {
	f.rows = string(gpu.BFloat16) // where a card is fast
	if err := f.deviceFlags.check(func(string) bool { return false }); err != nil {
		return nil, err
	}
	device, done, tried, err := f.deviceFlags.open(f.threads)
	for _, note := range tried {
		t.note("%s", note)
	}
	if f.device != "cpu" {
		o.Engine = device
	}
	return done, err
}

// knownStudies is nil when there are studies of these names.
func knownStudies(names []string) error {
	known := []string{"all"}
	for _, s := range study.All() {
		known = append(known, s.Name)
	}
	for _, name := range names {
		if near := nearest(name, known); !slices.Contains(known, name) && near != "" {
			return usagef("no study %q; did you mean %s?", name, near)
		}
	}
	if _, err := study.Lookup(names...); err != nil {
		return &usageError{err}
	}
	return nil
}

// cutDates reads --dates; nil means that it is not given.
func cutDates(text string) (*[2]sample.Day, error) {
	if text == "" {
		return nil, nil
	}
	first, second, _ := strings.Cut(text, ",")
	var dates [2]sample.Day
	for k, word := range []string{first, second} {
		day, err := time.Parse(time.DateOnly, strings.TrimSpace(word))
		if err != nil {
			return nil, usagef("--dates is %q; give where validation and test begin, such as 2020-07-01,2021-01-01",
				text)
		}
		dates[k] = sample.Day{Time: day}
	}
	return &dates, nil
}
