package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"unseen/beam/job"
	"unseen/engine"
	"unseen/fit"
	"unseen/graph"
)

// evaluation is what unseen-beam evaluate has to say.
type evaluation struct {
	Model  string         `json:"model"`
	Method string         `json:"method"`
	Held   *job.HeldMeans `json:"held,omitempty"`     // by the held-out pairs
	All    *engine.Means  `json:"allPairs,omitempty"` // over all ordered pairs
}

func newEvaluate() *cobra.Command {
	var f clusterFlags
	var exact bool
	cmd := &cobra.Command{
		Use:   "evaluate MODEL SHARDS",
		Short: "Judge a model by held-out pairs, or by all pairs of the graph",
		Long: `Judge a model by the pairs that were held out when the shards were made: its
likelihood and its risk, as the links seen have it (naive) and as three
estimators correct it. With --exact the same over all ordered pairs of the
graph, block by block: nodes² products.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, done, err := f.open(cmd.Context(), cmd, args[1])
			if err != nil {
				return err
			}
			defer done()
			m, err := openModel(args[0], cluster.Manifest)
			if err != nil {
				return err
			}
			judge, err := fit.JudgeOf(m)
			if err != nil {
				return err
			}
			out := evaluation{Model: args[0], Method: m.Method}
			if len(cluster.Manifest.Test) > 0 {
				held, err := cluster.Judge(cmd.Context(), judge.Predictor)
				if err != nil {
					return err
				}
				out.Held = &held
			}
			if exact {
				all, err := cluster.AllPairs(cmd.Context(), nil, judge.Predictor, graph.Universe{}, 0)
				if err != nil {
					return err
				}
				out.All = &all
			}
			if out.Held == nil && out.All == nil {
				return fmt.Errorf("%w: %s holds no pairs to judge by; give --exact for all pairs, or import "+
					"with a split", fit.ErrData, args[1])
			}
			if f.asJSON {
				return printJSON(cmd.OutOrStdout(), out)
			}
			line := func(name string, t engine.Means) {
				fmt.Fprintf(cmd.OutOrStdout(),
					"%-15s %12d pairs  likelihood %.6g  mean ŷ %.6g  naive %.6g  w %.6g  pu %.6g  ap %.6g\n", name,
					t.Pairs, t.Likelihood, t.MeanLink, t.Naive, t.W, t.PU, t.AP)
			}
			if out.Held != nil {
				line("held-out pairs", out.Held.Means)
			}
			if out.All != nil {
				line("all pairs", *out.All)
			}
			return nil
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&exact, "exact", false, "over all ordered pairs too")
	f.add(cmd)
	return cmd
}
