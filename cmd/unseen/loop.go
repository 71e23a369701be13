package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"unseen/fit"
	"unseen/loop"
	"unseen/model"
	"unseen/progress"
	"unseen/sample"
	"unseen/world"
)

// loopFlags is the command line of unseen loop.
type loopFlags struct {
	methods                            []string
	papers, fields, dim, shown, rounds int
	blind, shownOnly                   bool
	seeds                              int
	seed                               uint64
	threads                            int
	quiet, asJSON                      bool
}

func newLoop() *cobra.Command {
	var f loopFlags
	cmd := &cobra.Command{
		Use:   "loop",
		Short: "Simulate a recommender that is trained on its own recommendations",
		Long: `A recommender shows papers, readers cite some of them, the recommender is
trained on these citations and recommends again. If it mistakes exposure for
relevance, every round shows less of what was rarely shown before: a feedback
loop.

The forecast comes first: the share of recommendations that stay in a paper's
field, computed from the mean estimates of a fitted model. Then the loop is
simulated in a world of papers whose truth is known: each method is trained,
recommends in proportion to its estimates, and is trained on the outcome, round
after round.`,
		Example: `  unseen loop
  unseen loop --rounds 20 --method naive,rw,bayes --seeds 10
  unseen loop --papers 200 --shown-only --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := runLoop(cmd.Context(), f, newDisplay(cmd.ErrOrStderr(), f.quiet))
			if err != nil {
				return err
			}
			return present(cmd, f.asJSON, r, r.print)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&f.methods, "method", []string{"naive", "bayes"}, "`methods` to compare")
	flags.Lookup("method").DefValue = "naive,bayes" // it would have brackets
	flags.IntVar(&f.papers, "papers", 410, "papers in the world")
	flags.IntVar(&f.fields, "fields", 2, "fields of equal size")
	flags.IntVar(&f.dim, "dim", 16, "dimension of the vectors")
	flags.IntVar(&f.shown, "shown", 20, "recommendations per paper and round")
	flags.IntVar(&f.rounds, "rounds", 20, "rounds of recommendations")
	flags.BoolVar(&f.blind, "field-blind", false, "the link model does not see the fields")
	flags.BoolVar(&f.shownOnly, "shown-only", false,
		"train on recommended pairs only (default: the\nothers count as not linked)")
	flags.IntVar(&f.seeds, "seeds", 3, "worlds to simulate")
	flags.Uint64Var(&f.seed, "seed", 1, "the first seed; the others follow it")
	threadsFlag(cmd, &f.threads)
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	jsonFlag(cmd, &f.asJSON)
	completeFlags(cmd, map[string][]string{"method": slices.Sorted(maps.Keys(fit.Methods()))},
		"papers", "fields", "dim", "shown", "rounds", "seeds", "seed", "threads")
	return cmd
}

// loopReport is what unseen loop has to say.
type loopReport struct {
	Settings loop.Settings  `json:"settings"` // of all methods and seeds; both switches as they were
	Seeds    []uint64       `json:"seeds"`
	Seconds  float64        `json:"seconds"`
	Forecast *loop.Forecast `json:"forecast"` // in the first seed's world
	Truth    loop.SeedBand  `json:"truth"`    // same-field share by relevance alone, over the seeds
	Methods  []loopMethod   `json:"methods"`
}

// loopMethod is what became of one method's recommendations.
type loopMethod struct {
	Method string          `json:"method"`
	Bands  []loop.SeedBand `json:"bands"` // same-field share by round, over the seeds
	Kept   int             `json:"kept"`  // rounds from which nothing could be learned
}

// settings turns the flags into those of the loop, or says which flag is wrong.
func (f *loopFlags) settings() (loop.Settings, error) {
	s := loop.Settings{
		Papers: f.papers, Fields: f.fields, Dim: f.dim, Shown: f.shown, Rounds: f.rounds,
		SeesField: !f.blind, UnshownNegative: !f.shownOnly, Seed: f.seed, Threads: f.threads,
	}
	for _, flag := range []struct {
		name  string
		value int
	}{{"papers", f.papers}, {"fields", f.fields}, {"dim", f.dim}, {"shown", f.shown}, {"rounds", f.rounds},
		{"seeds", f.seeds}} {
		if flag.value < 1 {
			return s, usagef("--%s is %d; give at least 1", flag.name, flag.value)
		}
	}
	switch {
	case f.seeds > 10_000:
		return s, usagef("--seeds is %d; give from 1 to 10000", f.seeds)
	case len(f.methods) == 0:
		return s, usagef("--method is empty; name one, such as naive")
	}
	for k, method := range f.methods {
		if slices.Contains(f.methods[:k], method) {
			return s, usagef("--method has %s twice; give each once", method)
		}
		one := s
		one.Method = method
		if method == "" {
			return s, usagef("--method is %q; write names with commas between them, such as naive,bayes",
				strings.Join(f.methods, ","))
		}
		if err := one.Validate(); err != nil {
			return s, &usageError{err}
		}
	}
	return s, nil
}

func runLoop(ctx context.Context, f loopFlags, t *display) (*loopReport, error) {
	s, err := f.settings()
	if err != nil {
		return nil, err
	}
	defer t.clear()
	began := time.Now()
	r := &loopReport{Settings: s.WithDefaults()}
	r.Settings.Method = strings.Join(f.methods, ",")
	for k := range f.seeds {
		r.Seeds = append(r.Seeds, f.seed+uint64(k))
	}
	t.say("fitting the model that forecasts")
	if r.Forecast, err = foretell(ctx, s); err != nil {
		return nil, err
	}
	for _, method := range f.methods {
		s.Method = method
		s.Progress = progress.Func(t.report).Under("simulating")
		histories, err := loop.Repeat(ctx, s, r.Seeds)
		if err != nil {
			if errors.Is(err, fit.ErrSetting) || errors.Is(err, fit.ErrData) {
				return nil, &usageError{err}
			}
			return nil, err
		}
		one := loopMethod{Method: method, Bands: loop.Bands(histories)}
		for _, h := range histories {
			for _, round := range h.Rounds {
				one.Kept += count(round.Kept)
			}
		}
		r.Methods = append(r.Methods, one)
		r.Truth = loop.TruthBand(histories)
	}
	r.Seconds = time.Since(began).Seconds()
	return r, nil
}

// foretell fits bayes to links of the loop's world and forecasts from it.
func foretell(ctx context.Context, s loop.Settings) (*loop.Forecast, error) {
	w, err := s.World(ctx)
	if err != nil {
		return nil, causedByFlags(err)
	}
	defer w.Graph().Vectors().Close()
	pairs, err := w.Pairs(ctx, min(20_000, s.Papers*(s.Papers-1)/3), world.Draw{})
	if err != nil {
		return nil, causedByFlags(err)
	}
	problem := sample.Problem{Nodes: model.NodesOf(w.Graph()), Train: pairs.Pairs}
	result, err := fit.Fit(ctx, problem, fit.Settings{Seed: s.Seed, Threads: s.Threads, Replicates: -1,
		Doctor: fit.QuickDoctor})
	if err != nil {
		return nil, causedByFlags(err)
	}
	m, err := result.Model()
	if err != nil {
		return nil, err
	}
	return loop.NewForecast(ctx, m, w.Graph(), loop.ForecastSettings{
		Rounds: s.Rounds, Shown: s.Shown, Truth: w.Truth, Seed: s.Seed, Threads: s.Threads,
	})
}
