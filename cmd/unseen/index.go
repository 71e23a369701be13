package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"unseen/dataset"
	"unseen/engine"
	"unseen/graph"
	"unseen/index"
	"unseen/internal/amount"
	"unseen/internal/atomicfile"
	"unseen/network"
	"unseen/progress"
	"unseen/recommend"
)

// indexCommand is the command line of unseen index.
type indexCommand struct {
	data          string
	models        []string
	recall        float64
	degree, width int
	force         bool
	seed          uint64
	threads       int
	quiet, asJSON bool
}

func newIndex() *cobra.Command {
	var f indexCommand
	cmd := &cobra.Command{
		Use:   "index DATASET",
		Short: "Make lists fast in large datasets, and measure what that misses",
		Long: `Make an index of the vectors of a dataset, in DATASET/index.bin: links between
vectors that are near each other, by which a search finds nearly all of the best
without looking at all nodes, and clusters of like vectors, of which lists of
many nodes at once look at a few. unseen serve uses the links, and unseen
recommend --all the clusters.

An index is made of the vectors alone, so that it serves every model. After the
vectors have changed, run the command again: what is known of the others is
kept. Lists of less than 100,000 nodes are about as fast without.

--model measures how many of the best 100 it finds with a model, on 200 nodes,
and how long that takes. Whoever uses the index measures this first, says it in
every list, and makes lists exactly if it finds less than --recall.`,
		Example: `  unseen index papers
  unseen index papers --model model.safetensors
  unseen index papers --model model.safetensors --recall .995`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usagef("name a dataset; for instance unseen index papers")
			}
			f.data = args[0]
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			made, err := runIndex(cmd.Context(), f, newDisplay(cmd.ErrOrStderr(), f.quiet))
			if err != nil {
				return err
			}
			return present(cmd, f.asJSON, made, made.print)
		},
		ValidArgsFunction: oneFolder,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringArrayVar(&f.models, "model", nil, "measure with this `model`; repeatable")
	flags.Float64Var(&f.recall, "recall", recommend.StandardRecall, "share of the best that lists are to have")
	flags.IntVar(&f.degree, "links", index.StandardDegree, "links of each vector, at most")
	flags.IntVar(&f.width, "width", index.StandardWidth, "vectors that are looked at again to link a new one")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the order in which vectors are linked")
	flags.BoolVar(&f.force, "force", false, "make it anew, whatever is there")
	threadsFlag(cmd, &f.threads)
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	jsonFlag(cmd, &f.asJSON)
	completeFlags(cmd, nil, "recall", "links", "width", "seed", "threads")
	return cmd
}

// indexFlags are those of commands that use an index.
func indexFlags(cmd *cobra.Command, recall *float64, exact *bool) {
	cmd.Flags().BoolVar(exact, "exact", false, "make lists exactly, though there is an index")
	cmd.Flags().Float64Var(recall, "recall", recommend.StandardRecall,
		"share of the best that lists by an index are to have")
	completeFlags(cmd, nil, "recall")
}

// checkRecall refuses a share that cannot be.
func checkRecall(recall float64) error {
	if !(recall > 0 && recall <= 1) {
		return usagef("--recall is %v; give a share above 0, up to 1", recall)
	}
	return nil
}

// check says which flag is wrong.
func (f *indexCommand) check() error {
	const mostLinks, mostWide = 255, index.MostWidth
	switch {
	case f.degree < 2 || f.degree > mostLinks:
		return usagef("--links is %d; give from 2 to %d", f.degree, mostLinks)
	case f.width < 2 || f.width > mostWide:
		return usagef("--width is %d; give from 2 to %d", f.width, mostWide)
	}
	return checkRecall(f.recall)
}

// indexed is what unseen index has to say.
type indexed struct {
	Path    string          `json:"path"`
	Vectors int             `json:"vectors"`
	Bytes   int             `json:"bytes"`
	Made    string          `json:"made"` // "new", "updated" or "kept"
	Seconds float64         `json:"seconds"`
	Models  []measuredModel `json:"models,omitempty"`
}

// measuredModel is how well an index serves a model.
type measuredModel struct {
	Model        string           `json:"model"`
	Recall       recommend.Recall `json:"recall"`
	Used         bool             `json:"used"`         // lists are made by the index
	Milliseconds float64          `json:"milliseconds"` // a list of ten, by the index if that is used
	Exact        float64          `json:"exactMilliseconds"`
	// lists of many nodes at once, of a hundred
	Many     recommend.Recall `json:"many"`
	ManyUsed bool             `json:"manyUsed"`
}

func (x *indexed) print(w io.Writer) error {
	text := fmt.Sprintf("%s: %s, %s", x.Path, amount.Of(x.Vectors, "vector"), megabytes(x.Bytes))
	switch x.Made {
	case "kept":
		text += "; it is of these vectors already"
	default:
		text += fmt.Sprintf(", %s in %s", x.Made, progress.Seconds(x.Seconds))
	}
	text += "\n"
	for _, m := range x.Models {
		text += fmt.Sprintf("\n%s\n", m.Model)
		r := m.Recall
		switch {
		case r.Queries == 0:
			text += wrap("  Lists are exact: the model's score is no inner product with the vectors.")
			continue
		case !r.Used:
			text += wrap(fmt.Sprintf("  Lists are exact: by the rule of lists, by π̂ŷ or by the naive model the index "+
				"finds too few of the best %d, %.1f%% by the rule.", r.K, 100*r.Share))
		default:
			text += fmt.Sprintf("  finds %.1f%% of the best %d, measured on %d nodes\n", 100*r.Share, r.K, r.Queries)
			if !m.Used {
				text += "  Lists are exact: of so few nodes that is as fast.\n"
			}
		}
		text += fmt.Sprintf("  a list of ten takes %.2g ms, and %.2g ms exactly, on one processor\n",
			m.Milliseconds, m.Exact)
		if many := m.Many; m.ManyUsed {
			text += fmt.Sprintf("  lists of all nodes look at %s and find %.1f%% of the best %d\n",
				amount.Of(many.Clusters, "cluster"), 100*many.Share, many.K)
		}
	}
	if len(x.Models) == 0 {
		text += "\nNext:  unseen index " + quoted(filepath.Dir(x.Path)) + " --model MODEL\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// megabytes says how large something is.
func megabytes(bytes int) string { return fmt.Sprintf("%.3g MB", float64(bytes)/1e6) }

// runIndex makes the index and measures it.
func runIndex(ctx context.Context, f indexCommand, t *display) (*indexed, error) {
	defer t.clear()
	n, err := network.Open(ctx, f.data, dataset.OpenOptions{Progress: t.report})
	if err != nil {
		return nil, err
	}
	defer n.Close()
	v := n.Graph().Vectors()
	switch {
	case v == nil:
		return nil, fmt.Errorf("%s has no vectors, and learned factors change with every training; an index is of "+
			"vectors: encode texts with unseen encode", f.data)
	case v.Len() == 0:
		return nil, fmt.Errorf("%s has no nodes; there is nothing to index", f.data)
	}
	out := &indexed{Path: filepath.Join(f.data, dataset.IndexFile), Vectors: v.Len()}
	if err := atomicfile.Writable(out.Path); err != nil {
		return nil, err
	}
	began := time.Now()
	web, err := f.make(ctx, n, v, out, t)
	if err != nil {
		return nil, err
	}
	out.Seconds, out.Bytes = time.Since(began).Seconds(), web.Bytes()
	for _, path := range f.models {
		m, err := f.measure(ctx, n, web, path, t)
		if err != nil {
			return nil, err
		}
		out.Models = append(out.Models, *m)
	}
	return out, nil
}

// make makes the index, or as much of it as is not there yet.
func (f *indexCommand) make(ctx context.Context, n *network.Network, v *graph.Vectors, out *indexed,
	t *display) (web *index.Web, err error) {
	o := index.Options{Degree: f.degree, Width: f.width, Seed: f.seed, Threads: f.threads, Progress: t.report}
	if !f.force {
		web, err = n.Index(ctx, f.threads)
		if web != nil {
			out.Made = "kept"
			return web, nil
		}
	}
	var old *index.Web
	if errors.Is(err, index.ErrOther) {
		if old, err = index.Open(ctx, out.Path, "", f.threads); err == nil {
			defer old.Close()
		}
	}
	if err != nil && !errors.Is(err, index.ErrFile) && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if out.Made = "new"; old != nil && old.Degree() == f.degree {
		out.Made = "updated"
		web, err = index.Update(ctx, old, v, o)
	} else {
		web, err = index.Build(ctx, v, o)
	}
	if err != nil {
		return nil, err
	}
	t.report(progress.Event{Phase: "writing the index"})
	return web, n.SaveIndex(web)
}

// measure measures the index with a model.
func (f *indexCommand) measure(ctx context.Context, n *network.Network, web *index.Web, path string,
	t *display) (*measuredModel, error) {
	t.report(progress.Event{Phase: "measuring " + filepath.Base(path)})
	m, err := n.Model(ctx, path)
	if err != nil {
		return nil, err
	}
	r, err := m.Recommender(ctx, nil, recommend.Options{Threads: f.threads, Engine: engine.CPU{Threads: 1},
		Sketched: true, Index: web, LeastRecall: f.recall})
	if err != nil {
		return nil, err
	}
	out := &measuredModel{Model: path}
	if out.Recall, err = r.Measure(ctx); err != nil {
		return nil, err
	}
	if out.Many, err = r.MeasureMany(ctx, out.Recall.K); err != nil {
		return nil, err
	}
	out.Used, out.ManyUsed = r.ByIndex(10), r.ManyByIndex(out.Recall.K)
	sources := r.Graph().Sources()
	for _, exact := range []bool{false, true} {
		const lists = 50
		began, q := time.Now(), recommend.Query{K: 10, Exact: exact}
		for k := range lists {
			q.Source = r.Node(sources[k*len(sources)/lists])
			if _, err := r.Top(ctx, q); err != nil && !errors.Is(err, recommend.ErrNothing) {
				return nil, err
			}
		}
		took := 1e3 * time.Since(began).Seconds() / lists
		if exact {
			out.Exact = took
		} else {
			out.Milliseconds = took
		}
	}
	return out, nil
}

// recallNote says how many lists at once are made.
func recallNote(r *recommend.Recommender, least float64) string {
	of := r.ManyRecall()
	switch {
	case !of.Used:
		return fmt.Sprintf("lists are exact: with this model the index is no faster, or finds less than %.4g%% of the "+
			"best, by the rule of lists or by the naive model", 100*least)
	case !r.ManyByIndex(of.K):
		return fmt.Sprintf("lists are exact: of %s, that is as fast as by the index",
			amount.Of(r.Graph().Len(), "node"))
	}
	return fmt.Sprintf("the index made the lists: it finds %.1f%% of the best %d, measured on %d nodes; --exact finds "+
		"all, and takes longer", 100*of.Share, of.K, of.Queries)
}
