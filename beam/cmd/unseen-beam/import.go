package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"unseen/beam/job"
	"unseen/beam/shards"
	"unseen/graph"
	"unseen/sample"
)

func newImport() *cobra.Command {
	var f clusterFlags
	var output, split string
	var cut shards.CutSettings
	var negatives int
	var seed uint64
	var from string
	var s job.ImportSettings
	cmd := &cobra.Command{
		Use:   "import PATH… -o SHARDS",
		Short: "Make shards of a dataset, or of OpenAlex's works",
		Long: `Make shards: blocks of nodes with their vectors, and shards of links and pairs
between blocks.

--from dataset cuts a dataset of unseen on this machine. Its pairs are those
that unseen fit draws, so that the models are the same.

--from openalex reads works as jobs of the runner: files of JSON lines, plain or
.gz, folders, or patterns such as s3://openalex/data/works/*/*.gz. Vectors are
made of titles and abstracts by --encoder, the encoder.safetensors that unseen
encode leaves in a dataset: make one from a sample of the works first.`,
		Example: `  unseen-beam import papers -o shards
  unseen-beam import --from openalex works -o shards --encoder sample/encoder.safetensors --blocks 128`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "" {
				return fmt.Errorf("give the shards a place with -o")
			}
			report := func(m *shards.Manifest) error {
				if f.asJSON {
					return printJSON(cmd.OutOrStdout(), m)
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(),
					"%s: %d nodes in %d blocks, %d links in %d shards, %d training pairs in %d shards, held-out "+
						"pairs in %d\n",
					output, m.Nodes, len(m.Blocks), m.Links, len(m.LinkShards), m.Extent.Pairs, len(m.Train),
					len(m.Test))
				return err
			}
			switch from {
			case "openalex":
				if err := f.ready(cmd); err != nil {
					return err
				}
				s.Paths, s.Pairs, s.Negatives, s.Seed = args, cut.Pairs, negatives, seed
				m, err := job.Import(cmd.Context(), f.runner, shards.Store{Root: output}, s)
				if err != nil {
					return err
				}
				return report(m)
			case "dataset":
			default:
				return fmt.Errorf("--from is %q; give dataset or openalex", from)
			}
			if len(args) != 1 {
				return fmt.Errorf("name one folder of a dataset; got %q", args)
			}
			d, prepared, err := shards.Dataset(cmd.Context(), args[0], func(g *graph.Graph) sample.Plan {
				plan, _ := sample.PlanFor(g)
				if split != "" {
					plan = sample.Plan{Split: sample.SplitKind(split), Later: plan.Later}
				}
				plan.Seed, plan.PerLink = seed, negatives
				return plan
			}, runtime.GOMAXPROCS(0))
			if err != nil {
				return err
			}
			defer d.Close()
			m, err := shards.Cut(cmd.Context(), shards.Store{Root: output}, prepared, cut)
			if err != nil {
				return err
			}
			return report(m)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&output, "output", "o", "", "`place` for the shards, which must not be there yet")
	flags.StringVar(&from, "from", "dataset", "dataset or openalex")
	flags.StringVar(&s.Encoder, "encoder", "", "what makes vectors of works")
	flags.IntVar(&s.Blocks, "blocks", 16, "of works: how many blocks")
	flags.Float64Var(&s.Test, "test", .2, "of works: share of the nodes that are held out")
	flags.StringVar(&split, "split", "", "order, random or whole (default: as suits)")
	flags.IntVar(&negatives, "negatives", graph.DefaultPerLink, "unlinked pairs per link")
	flags.Uint64Var(&seed, "seed", 1, "of the unlinked pairs")
	flags.IntVar(&cut.Nodes, "block", 1<<16, "of a dataset: nodes in a block")
	flags.IntVar(&cut.Pairs, "shard", 1<<20, "pairs in a shard, at most")
	f.add(cmd)
	return cmd
}
