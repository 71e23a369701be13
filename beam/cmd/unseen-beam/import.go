package main

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"unseen/beam/job"
	"unseen/beam/shards"
	"unseen/graph"
	"unseen/sample"
)

// importFlags are the flags of import.
type importFlags struct {
	clusterFlags
	output, split, from string
	negatives           int
	seed                uint64
	cut                 shards.CutSettings
	works               job.ImportSettings
}

func newImport() *cobra.Command {
	var f importFlags
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
			m, err := f.run(cmd, args)
			if err != nil {
				return err
			}
			return printShards(cmd, f.output, m, f.asJSON)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.output, "output", "o", "", "`place` for the shards, which must not be there yet")
	flags.StringVar(&f.from, "from", "dataset", "dataset or openalex")
	flags.StringVar(&f.works.Encoder, "encoder", "", "what makes vectors of works")
	flags.IntVar(&f.works.Blocks, "blocks", 16, "of works: how many blocks")
	flags.Float64Var(&f.works.Test, "test", .2, "of works: share of the nodes that are held out")
	flags.StringVar(&f.split, "split", "", "order, random or whole (default: as suits)")
	flags.IntVar(&f.negatives, "negatives", graph.DefaultPerLink, "unlinked pairs per link")
	flags.Uint64Var(&f.seed, "seed", 1, "of the unlinked pairs")
	flags.IntVar(&f.cut.Nodes, "block", 1<<16, "of a dataset: nodes in a block")
	flags.IntVar(&f.cut.Pairs, "shard", 1<<20, "pairs in a shard, at most")
	f.add(cmd)
	return cmd
}

// run makes the shards.
func (f *importFlags) run(cmd *cobra.Command, args []string) (*shards.Manifest, error) {
	to := shards.Location{Root: f.output}
	switch {
	case f.output == "":
		return nil, errors.New("give the shards a place with -o")
	case f.from == "openalex":
		if err := f.ready(cmd); err != nil {
			return nil, err
		}
		f.works.Paths, f.works.Pairs, f.works.Negatives, f.works.Seed = args, f.cut.Pairs, f.negatives, f.seed
		return job.Import(cmd.Context(), f.runner, to, f.works)
	case f.from != "dataset":
		return nil, fmt.Errorf("--from is %q; give dataset or openalex", f.from)
	case len(args) != 1:
		return nil, fmt.Errorf("name one folder of a dataset; got %q", args)
	}
	d, prepared, err := shards.Dataset(cmd.Context(), args[0], func(g *graph.Graph) sample.Plan {
		plan, _ := sample.PlanFor(g)
		if f.split != "" {
			plan = sample.Plan{Split: sample.SplitKind(f.split), Later: plan.Later}
		}
		plan.Seed, plan.PerLink = f.seed, f.negatives
		return plan
	}, runtime.GOMAXPROCS(0))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return shards.Cut(cmd.Context(), to, prepared, f.cut)
}
