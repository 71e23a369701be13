package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"unseen/beam/shards"
	"unseen/graph"
	"unseen/progress"
)

func newGenerate() *cobra.Command {
	s := shards.GenerateSettings{PerLink: graph.DefaultPerLink}
	var output string
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use:   "generate -o SHARDS --nodes N --pairs N",
		Short: "Make shards of a random graph of any size, to measure a cluster with",
		Long: `Make shards of a random graph: normal vectors, and pairs whose ends have nothing
to do with them. There is nothing to learn from it. It is for measuring how long
jobs take and how much memory they need, before the real data is there.

Files are written one by one: memory is that of one block of vectors and one
shard per thread. The same seed gives the same bytes.`,
		Example: `  unseen-beam generate -o random --nodes 10000000 --pairs 500000000 --dimension 64`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output == "" {
				return errors.New("give the shards a place with -o")
			}
			if !quiet {
				s.Progress = every(5*time.Second, cmd.ErrOrStderr())
			}
			m, err := shards.Generate(cmd.Context(), shards.Location{Root: output}, s)
			if err != nil {
				return err
			}
			return printShards(cmd, output, m, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&output, "output", "o", "", "`place` for the shards, which must not be there yet")
	flags.IntVar(&s.Nodes, "nodes", 200_000, "of the graph")
	flags.Int64Var(&s.Pairs, "pairs", 10_000_000, "to learn from")
	flags.IntVar(&s.PerLink, "negatives", s.PerLink, "unlinked pairs per link")
	flags.IntVar(&s.Dimension, "dimension", 64, "of the vectors")
	flags.IntVar(&s.Fields, "fields", 19, "of the nodes")
	flags.IntVar(&s.Blocks, "blocks", 0, "of nodes (default: as many as fill shards)")
	flags.IntVar(&s.ShardSize, "shard", 1<<20, "pairs in a shard, at most")
	flags.Uint64Var(&s.Seed, "seed", 1, "of all random numbers")
	flags.IntVar(&s.Threads, "threads", 0, "files at a time (default: one per core)")
	flags.BoolVar(&quiet, "quiet", false, "no progress on stderr")
	flags.BoolVar(&asJSON, "json", false, "one JSON document on stdout")
	return cmd
}

// every prints how far work has come, a line after every so long, and says nothing of what ends before.
func every(pause time.Duration, w io.Writer) progress.Func {
	last := time.Now()
	return func(e progress.Event) {
		if now := time.Now(); now.Sub(last) >= pause {
			last = now
			fmt.Fprintln(w, e)
		}
	}
}

// printShards says what shards there are.
func printShards(cmd *cobra.Command, place string, m *shards.Manifest, asJSON bool) error {
	if asJSON {
		return printJSON(cmd.OutOrStdout(), m)
	}
	vectors := ""
	if m.Dim == 0 {
		vectors = " without vectors"
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(),
		"%s: %d nodes%s in %d blocks, %d links in %d shards, %d training pairs in %d shards, held-out pairs in %d\n",
		place, m.Nodes, vectors, len(m.Blocks), m.Links, len(m.LinkShards), m.Extent.Pairs, len(m.Train), len(m.Test))
	return err
}
