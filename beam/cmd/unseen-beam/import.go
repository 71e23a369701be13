package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"unseen/beam/job"
	"unseen/beam/shards"
	"unseen/dataset/exchange"
	"unseen/graph"
	"unseen/internal/amount"
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
	lenient, everyShown bool
	dates               [2]string          // where validation and test begin
	tables              map[string]*string // settings of interactions, by name
}

func newImport() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import [PATH…] -o SHARDS",
		Short: "Make shards of a dataset, of OpenAlex's works, or of people and items",
		Long: `Make shards: blocks of nodes with their vectors, and shards of links and pairs
between blocks.

--from dataset cuts a dataset of unseen on this machine. Its pairs are those
that unseen fit draws, so that the models are the same.

--from openalex reads works as jobs of the runner: files of JSON lines, plain or
.gz, folders, or patterns such as s3://openalex/data/works/*/*.gz. Vectors are
made of titles and abstracts by --encoder, the encoder.safetensors that unseen
encode leaves in a dataset: make one from a sample of the works first.

--from interactions reads tables of people and items as jobs: --clicks,
--impressions, --items and --users, each a file or a folder of files, in the
order of their names, or an address of these or a pattern, such as
s3://bucket/clicks. A worker copies a table at an address to its folder for
temporary files (TMPDIR) first. The shards are those of unseen import
interactions and unseen-beam import, byte for byte. Titles and texts become
vectors by --encoder. Without it, shards have no vectors: factors of people and
items are learned of the ids alone by unseen-beam fit.

A bad row stops the import; the error names the file and line. --lenient leaves
such rows out, counts them and names the first ten.`,
		Example: `  unseen-beam import papers -o shards
  unseen-beam import --from openalex works -o shards --encoder sample/encoder.safetensors --blocks 128
  unseen-beam import --from interactions --clicks clicks --items items.csv -o shards \
    --encoder sample/encoder.safetensors
  unseen-beam import --from interactions --clicks clicks --impressions shown --log complete -o shards`,
		RunE: func(cmd *cobra.Command, args []string) error {
			m, bad, err := f.run(cmd, args)
			switch {
			case err != nil:
				return err
			case bad == nil:
				return printShards(cmd, f.output, m, f.asJSON)
			case f.asJSON:
				return printJSON(cmd.OutOrStdout(), lenientImport{m, *bad})
			}
			return errors.Join(printShards(cmd, f.output, m, false), printBad(cmd.OutOrStdout(), *bad))
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.output, "output", "o", "", "`place` for the shards, which must not be there yet")
	flags.StringVar(&f.from, "from", "dataset", "dataset, openalex or interactions")
	flags.StringVar(&f.works.Encoder, "encoder", "", "what makes vectors of works, or of people and items")
	flags.IntVar(&f.works.Blocks, "blocks", 16, "of works: how many blocks; of interactions: parts of the ids")
	flags.Float64Var(&f.works.Test, "test", .2, "of works: share of the nodes that are held out")
	flags.StringVar(&f.split, "split", "", "order, random or whole, of people and items last-links, link-date,\n"+
		"random-links or whole (default: as suits)")
	flags.BoolVar(&f.everyShown, "every-shown", true, "of people and items whose dataset logs all that was shown:\n"+
		"take every shown pair, as factors learn from them; false for\nbayes, which weighs those that are drawn "+
		"like others")
	flags.BoolVar(&f.lenient, "lenient", false, "of interactions: leave bad rows out; name the first ten")
	flags.StringVar(&f.dates[0], "validation-from", "", "of link-date: `DATE` of the first links that are set aside")
	flags.StringVar(&f.dates[1], "test-from", "", "of link-date: `DATE` of the first links that are held out")
	flags.IntVar(&f.negatives, "negatives", graph.DefaultPerLink, "unlinked pairs per link")
	flags.Uint64Var(&f.seed, "seed", 1, "of the unlinked pairs")
	flags.IntVar(&f.cut.Nodes, "block", 1<<16, "of a dataset or interactions: nodes in a block")
	flags.IntVar(&f.cut.Pairs, "shard", 1<<20, "pairs in a shard, at most")
	f.tables = map[string]*string{}
	format, _ := exchange.Lookup("interactions")
	for _, flag := range format.Flags {
		value := new(string)
		f.tables[flag.Name] = value
		flags.StringVar(value, flag.Name, flag.Default, "of interactions: "+flag.Usage)
		if flag.Switch {
			flags.Lookup(flag.Name).NoOptDefVal = "true"
		}
	}
	f.add(cmd)
	return cmd
}

// lenientImport is what a lenient import prints as JSON.
type lenientImport struct {
	*shards.Manifest
	Bad job.BadRows `json:"badRows"` // that were left out
}

// printBad names rows that were left out.
func printBad(w io.Writer, bad job.BadRows) error {
	if bad.Count == 0 {
		return nil
	}
	text := amount.OneOrMore(int(bad.Count), "bad row was", "bad rows were") + " left out:\n"
	for _, row := range bad.First {
		at := exchange.Place{File: row.File, Line: row.Line, Column: row.Column}
		text += fmt.Sprintf("  %s: %s\n", at, row.Reason)
	}
	if more := int(bad.Count) - len(bad.First); more > 0 {
		text += fmt.Sprintf("  and %s more\n", amount.Text(more))
	}
	_, err := io.WriteString(w, text)
	return err
}

// tablesOnly refuses flags of interactions with other sources.
func (f *importFlags) tablesOnly(cmd *cobra.Command) error {
	for _, name := range append(slices.Sorted(maps.Keys(f.tables)), "lenient") {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s is of interactions; give --from interactions, or leave it out", name)
		}
	}
	return nil
}

// interactions makes shards of tables. Bad rows are nil where the first one ends the import.
func (f *importFlags) interactions(cmd *cobra.Command, to shards.Location) (*shards.Manifest, *job.BadRows, error) {
	if err := f.ready(cmd); err != nil {
		return nil, nil, err
	}
	s := job.InteractionSettings{Flags: map[string]string{}, Encoder: f.works.Encoder, Buckets: f.works.Blocks,
		Nodes: f.cut.Nodes, Pairs: f.cut.Pairs, Lenient: f.lenient}
	paths := map[string]*[]string{"clicks": &s.Clicks, "impressions": &s.Impressions, "items": &s.Items,
		"users": &s.Users}
	for name, value := range f.tables {
		switch into, is := paths[name]; {
		case is && *value != "":
			*into = []string{*value}
		case !is && cmd.Flags().Changed(name):
			s.Flags[name] = *value
		}
	}
	if len(s.Clicks) > 0 {
		f.beside(cmd, &s)
	}
	s.Plan = sample.Plan{Split: sample.SplitKind(f.split), Seed: f.seed, PerLink: f.negatives,
		EveryShown: f.everyShown}
	var err error
	if s.Plan.Dates, err = f.days(); err != nil {
		return nil, nil, err
	}
	m, bad, err := job.ImportInteractions(cmd.Context(), f.runner, to, s)
	if err != nil || !f.lenient {
		return m, nil, err
	}
	return m, &bad, nil
}

// beside takes the files that usually lie beside the clicks, as one machine does.
func (f *importFlags) beside(cmd *cobra.Command, s *job.InteractionSettings) {
	items, users := exchange.Beside(s.Clicks[0])
	for _, t := range []struct {
		into        *[]string
		found, what string
	}{{&s.Items, items, "items"}, {&s.Users, users, "users"}} {
		if len(*t.into) > 0 || t.found == "" {
			continue
		}
		*t.into = []string{t.found}
		if !f.quiet {
			fmt.Fprintln(cmd.ErrOrStderr(), exchange.UsedBeside(t.found, t.what, s.Clicks[0]))
		}
	}
}

// days are the dates of a split; nil without.
func (f *importFlags) days() (*[2]sample.Day, error) {
	if f.dates == ([2]string{}) {
		return nil, nil
	}
	days := &[2]sample.Day{}
	for k, flag := range []string{"validation-from", "test-from"} {
		day, err := time.Parse(time.DateOnly, f.dates[k])
		if err != nil {
			return nil, fmt.Errorf("--%s is %q; give both dates, such as 2021-01-31", flag, f.dates[k])
		}
		days[k] = sample.Day{Time: day}
	}
	return days, nil
}

// run makes the shards.
func (f *importFlags) run(cmd *cobra.Command, args []string) (*shards.Manifest, *job.BadRows, error) {
	to := shards.Location{Root: f.output}
	switch {
	case f.output == "":
		return nil, nil, errors.New("give the shards a place with -o")
	case f.from == "interactions":
		if len(args) > 0 {
			return nil, nil, fmt.Errorf("the path %s; name tables by --clicks, --impressions, --items and --users",
				args[0])
		}
		return f.interactions(cmd, to)
	}
	if err := f.tablesOnly(cmd); err != nil {
		return nil, nil, err
	}
	m, err := f.others(cmd, to, args)
	return m, nil, err
}

// others makes shards of a dataset or of works.
func (f *importFlags) others(cmd *cobra.Command, to shards.Location, args []string) (*shards.Manifest, error) {
	switch {
	case f.from == "openalex":
		if err := f.ready(cmd); err != nil {
			return nil, err
		}
		f.works.Paths, f.works.Pairs, f.works.Negatives, f.works.Seed = args, f.cut.Pairs, f.negatives, f.seed
		return job.Import(cmd.Context(), f.runner, to, f.works)
	case f.from != "dataset":
		return nil, fmt.Errorf("--from is %q; give dataset, openalex or interactions", f.from)
	case len(args) != 1:
		return nil, fmt.Errorf("name one folder of a dataset; got %q", args)
	}
	dates, err := f.days()
	if err != nil {
		return nil, err
	}
	d, prepared, err := shards.Dataset(cmd.Context(), args[0], func(g *graph.Graph) sample.Plan {
		plan, _ := sample.PlanFor(g)
		if f.split != "" {
			plan = sample.Plan{Split: sample.SplitKind(f.split), Later: plan.Later, Dates: dates}
		}
		plan.Seed, plan.PerLink, plan.EveryShown = f.seed, f.negatives, f.everyShown
		return plan
	}, runtime.GOMAXPROCS(0))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return shards.Cut(cmd.Context(), to, prepared, f.cut)
}
