package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"unseen/beam/job"
)

func newIndex() *cobra.Command {
	var f clusterFlags
	var s job.IndexSettings
	cmd := &cobra.Command{
		Use:   "index SHARDS",
		Short: "Make lists of large blocks fast",
		Long: `Make an index of the vectors of every large block, beside them in SHARDS, one
job for all: unseen-beam recommend then looks at a few clusters of like vectors
of a block for each list. An index is made of the vectors alone, so that it
serves every model. One that is there is kept, unless it is of other vectors or
damaged.`,
		Example: `  unseen-beam index shards`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.Fewest < 1 {
				return fmt.Errorf("--fewest is %d; give a number of nodes above 0", s.Fewest)
			}
			cluster, done, err := f.open(cmd.Context(), cmd, args[0])
			if err != nil {
				return err
			}
			defer done()
			made, err := cluster.MakeIndexes(cmd.Context(), s)
			if err != nil {
				return err
			}
			if f.asJSON {
				return printJSON(cmd.OutOrStdout(), made)
			}
			fresh, bytes := 0, 0.
			for _, one := range made {
				if bytes += float64(one.Bytes); one.Made == "new" {
					fresh++
				}
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Indexes of %d blocks of %d, %d of them new, %s\n", len(made),
				len(cluster.Manifest.Blocks), fresh, bytesText(bytes))
			return err
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&s.Fewest, "fewest", job.FewestIndexed, "nodes of a block that gets an index, at least")
	flags.Uint64Var(&s.Seed, "seed", 1, "of the order in which vectors are linked")
	f.add(cmd)
	return cmd
}
