package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"unseen/beam/job"
	"unseen/beam/shards"
	"unseen/recommend"
)

// printRecall says how many of the best indexes find.
func printRecall(w io.Writer, r *recommend.Recall) (err error) {
	switch {
	case r == nil: // lists are exact
	case r.Used:
		_, err = fmt.Fprintf(w, "by indexes: %.4f of the best %d, measured on %d nodes, in %d clusters of a block\n",
			r.Share, r.K, r.Queries, r.Clusters)
	default:
		_, err = fmt.Fprintf(w, "exactly: indexes find %.4f of the best %d, in %d clusters of a block\n", r.Share, r.K,
			r.Clusters)
	}
	return err
}

func newRecommend() *cobra.Command {
	var f clusterFlags
	var s job.ListSettings
	var output string
	cmd := &cobra.Command{
		Use:   "recommend MODEL SHARDS -o LISTS",
		Short: "Write the best targets of every node",
		Long: `Write the K best targets of every node, without those it links to, as lines of
JSON in parts: the lists that unseen recommend --all makes, node for node.

Where unseen-beam index has left indexes beside the shards, lists are looked for
in a few clusters of like vectors of every block. How many of the best that finds
is measured first, on 200 nodes, and printed; below --recall lists are exact.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "" {
				return fmt.Errorf("give the lists a place with -o")
			}
			if !(s.Recall > 0 && s.Recall <= 1) {
				return fmt.Errorf("--recall is %v; give a share above 0, up to 1", s.Recall)
			}
			if s.Exact && cmd.Flags().Changed("recall") {
				return fmt.Errorf("--recall is what lists by indexes are to find, and --exact makes lists without " +
					"them; give one of the two")
			}
			cluster, done, err := f.open(cmd.Context(), cmd, args[1])
			if err != nil {
				return err
			}
			defer done()
			m, err := openModel(cmd.Context(), args[0], cluster)
			if err != nil {
				return err
			}
			lists, err := cluster.Recommend(cmd.Context(), m, shards.Location{Root: output}, s)
			if err != nil {
				return err
			}
			if f.asJSON {
				return printJSON(cmd.OutOrStdout(), lists)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Lists of %d nodes in %s, %d parts\n", lists.Nodes, output,
				len(lists.Parts))
			return printRecall(cmd.OutOrStdout(), lists.Recall)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&output, "output", "o", "", "`place` for the lists, which must not be there yet")
	flags.IntVarP(&s.K, "k", "k", 10, "how many for each")
	flags.BoolVar(&s.Linked, "linked", false, "also what a node links to already")
	flags.IntVar(&s.Part, "part", 4096, "nodes in a file")
	flags.BoolVar(&s.Exact, "exact", false, "make lists exactly, though there are indexes")
	flags.Float64Var(&s.Recall, "recall", recommend.StandardRecall,
		"share of the best that lists by indexes are to have")
	f.add(cmd)
	return cmd
}
