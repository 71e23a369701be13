package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"unseen/beam/job"
	"unseen/beam/shards"
)

func newRecommend() *cobra.Command {
	var f clusterFlags
	var s job.ListSettings
	var output string
	cmd := &cobra.Command{
		Use:   "recommend MODEL SHARDS -o LISTS",
		Short: "Write the best targets of every node",
		Long: `Write the K best targets of every node, without those it links to, as lines of
JSON in parts: the lists that unseen recommend --all makes, node for node.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "" {
				return fmt.Errorf("give the lists a place with -o")
			}
			cluster, done, err := f.open(cmd.Context(), cmd, args[1])
			if err != nil {
				return err
			}
			defer done()
			m, err := openModel(args[0], cluster.Manifest)
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
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Lists of %d nodes in %s, %d parts\n", lists.Nodes, output,
				len(lists.Parts))
			return err
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&output, "output", "o", "", "`place` for the lists, which must not be there yet")
	flags.IntVarP(&s.K, "k", "k", 10, "how many for each")
	flags.BoolVar(&s.Linked, "linked", false, "also what a node links to already")
	flags.IntVar(&s.Part, "part", 4096, "nodes in a file")
	f.add(cmd)
	return cmd
}
