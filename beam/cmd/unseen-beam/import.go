package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"unseen/beam/shards"
	"unseen/fit"
	"unseen/graph"
)

func newImport() *cobra.Command {
	var f clusterFlags
	var output, split string
	var cut shards.CutSettings
	var negatives int
	var seed uint64
	cmd := &cobra.Command{
		Use:   "import DATASET -o SHARDS",
		Short: "Cut a dataset into shards",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "" {
				return fmt.Errorf("give the shards a place with -o")
			}
			d, g, data, drawn, err := shards.Dataset(cmd.Context(), args[0], func(g *graph.Graph) fit.Drawing {
				drawing, _ := fit.DrawingFor(g)
				if split != "" {
					drawing = fit.Drawing{Split: fit.Cut(split), Later: drawing.Later}
				}
				drawing.Seed, drawing.PerLink = seed, negatives
				return drawing
			}, runtime.GOMAXPROCS(0))
			if err != nil {
				return err
			}
			defer d.Close()
			m, err := shards.Cut(cmd.Context(), shards.Store{Root: output}, g, data, drawn, cut)
			if err != nil {
				return err
			}
			if f.asJSON {
				return printJSON(cmd.OutOrStdout(), m)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d nodes in %d blocks, %d links in %d shards, %d training pairs in %d shards, held-out pairs in %d\n",
				output, m.Nodes, len(m.Blocks), m.Links, len(m.LinkShards), m.Extent.Pairs, len(m.Train), len(m.Test))
			return err
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&output, "output", "o", "", "`place` for the shards, which must not be there yet")
	flags.StringVar(&split, "split", "", "order, random or whole (default: as suits)")
	flags.IntVar(&negatives, "negatives", graph.DefaultPerLink, "unlinked pairs per link")
	flags.Uint64Var(&seed, "seed", 1, "of the unlinked pairs")
	flags.IntVar(&cut.Nodes, "block", 1<<16, "nodes in a block")
	flags.IntVar(&cut.Pairs, "shard", 1<<20, "pairs in a shard, at most")
	f.add(cmd)
	return cmd
}
