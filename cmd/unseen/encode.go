package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"unseen/dataset"
	"unseen/encode"
	"unseen/encode/onnx"
	"unseen/graph"
	"unseen/internal/amount"
	"unseen/internal/atomicfile"
	"unseen/progress"
)

// encodeFlags is the command line of unseen encode.
type encodeFlags struct {
	dir                  string
	encoder, pooling     string
	dim                  int
	titleWeight          float64
	bigrams, half, force bool
	seed                 uint64
	threads              int

	rowNumbers, resume, quiet, asJSON bool
}

func newEncode() *cobra.Command {
	var f encodeFlags
	cmd := &cobra.Command{
		Use:   "encode DIR",
		Short: "Compute vectors from the titles and texts of a dataset",
		Long: `Compute a vector for every node from its title and text, so that nodes about the
same subject have similar vectors. The vectors are stored in the dataset
together with the encoder, which later encodes new texts.

Encoders:
  builtin      TF-IDF and a singular value decomposition with --dim components;
               needs no download
  features     the dataset's own vectors, weighted by rarity and reduced to
               --dim components: for bags of words and other wide features
  onnx:FOLDER  a neural encoder of the BERT family: model.onnx, tokenizer.json

A node without any known word gets a vector of zeros, and a warning says how
many there are. The mean of the field is not filled in: it would put the field,
and with it exposure, into the vector.

A folder written with pandas, without dataset.json, works too. Nodes, links,
exposures and columns of your own stay as they are; vectors, encoder and
dataset.json are added at the end. A neural encoder is slow: its progress is
kept in DIR.encoding, and --resume continues from there.`,
		Example: `  unseen encode papers
  unseen encode papers --dim 384 --float16 --force
  unseen encode pages --encoder features --dim 128
  unseen encode papers --encoder onnx:models/minilm --pooling mean`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usagef("name one folder of a dataset; for instance unseen encode papers")
			}
			f.dir = args[0]
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd.Flags().Changed); err != nil {
				return err
			}
			r, err := runEncode(cmd.Context(), f, newDisplay(cmd.ErrOrStderr(), f.quiet))
			if err != nil {
				return err
			}
			return present(cmd, f.asJSON, r, r.print)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.encoder, "encoder", encode.Kind, "builtin, features, onnx:FOLDER")
	flags.IntVar(&f.dim, "dim", 0, "components (default: 256, or all if fewer)")
	flags.Float64Var(&f.titleWeight, "title-weight", 2, "weight of a word in the title")
	flags.BoolVar(&f.bigrams, "bigrams", false, "count pairs of neighbouring words too")
	flags.StringVar(&f.pooling, "pooling", "mean", "for a neural encoder: mean or cls")
	flags.BoolVar(&f.half, "float16", false, "store vectors as float16: half the size, 3 digits")
	flags.BoolVar(&f.force, "force", false, "replace existing vectors")
	flags.BoolVar(&f.rowNumbers, "row-numbers", false, "whole numbers in links are row numbers, not ids")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the search for components")
	threadsFlag(cmd, &f.threads)
	flags.BoolVar(&f.resume, "resume", false, "continue a neural encoder that was interrupted")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	jsonFlag(cmd, &f.asJSON)
	completeFlags(cmd, map[string][]string{"encoder": {encode.Kind, features, "onnx:"}, "pooling": {"mean", "cls"}},
		"dim", "title-weight", "seed", "threads")
	return cmd
}

// check says which flag is wrong, or means nothing beside the others.
func (f *encodeFlags) check(given func(string) bool) error {
	folder, neural := strings.CutPrefix(f.encoder, "onnx:")
	switch {
	case !neural && f.encoder != encode.Kind && f.encoder != features:
		return usagef("no encoder %q; there is %s, %s, and onnx:FOLDER", f.encoder, encode.Kind, features)
	case f.encoder == features && (given("title-weight") || given("bigrams")):
		return usagef("--title-weight and --bigrams are about texts; leave them out with %s", features)
	case neural && folder == "":
		return usagef("--encoder onnx: lacks its folder; for instance onnx:models/minilm")
	case f.pooling != "mean" && f.pooling != "cls":
		return usagef("--pooling is %q; give mean or cls", f.pooling)
	case f.dim < 0 || given("dim") && f.dim == 0:
		return usagef("--dim is %d; give at least 1, or leave it out", f.dim)
	case !(f.titleWeight >= 0 && f.titleWeight <= 1000):
		return usagef("--title-weight is %v; give from 0 to 1000", f.titleWeight)
	}
	other := []string{"pooling", "resume"}
	if neural {
		other = []string{"dim", "title-weight", "bigrams", "seed"}
	}
	for _, name := range other {
		if given(name) && neural {
			return usagef("--%s is for the built-in encoder; leave it out with %s", name, f.encoder)
		}
		if given(name) {
			return usagef("--%s is for neural encoders; leave it out, or give --encoder onnx:FOLDER", name)
		}
	}
	return nil
}

// encodeResult is what unseen encode prints.
type encodeResult struct {
	Dir         string          `json:"dir"`
	Encoder     string          `json:"encoder"`
	Nodes       int             `json:"nodes"`
	WithoutText int             `json:"withoutText"` // nodes with a vector of zeros
	Dimension   int             `json:"dimension"`
	Kind        string          `json:"kind"` // of the numbers
	Seconds     float64         `json:"seconds"`
	Fit         *encode.Summary `json:"fit,omitempty"` // of the built-in encoder
	Warnings    []string        `json:"warnings"`

	next string // what to do next
}

func runEncode(ctx context.Context, f encodeFlags, show *display) (*encodeResult, error) {
	defer show.clear()
	began := time.Now()
	d, err := dataset.Open(ctx, f.dir, dataset.OpenOptions{RowNumbers: f.rowNumbers, Progress: show.report})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := d.Sealable(); err != nil {
		return nil, err
	}
	if v := d.Graph().Vectors(); v == nil && f.encoder == features {
		return nil, usagef("%s has no vectors to reduce; import some with --vectors, or make them of texts with "+
			"--encoder %s", f.dir, encode.Kind)
	} else if v != nil && !f.force && f.encoder != features {
		return nil, fmt.Errorf("%s has vectors of dimension %d already; give --force to replace them", f.dir, v.Dim())
	}
	r := &encodeResult{Dir: f.dir, Encoder: f.encoder, Nodes: d.Graph().Len(), Warnings: []string{},
		next: "unseen fit " + quoted(f.dir)}
	if g := d.Graph(); g.FieldCount() < 2 && !g.TwoSided() { // fit would ask for fields
		r.next = fixFor("no-fields", f.dir)
	}
	if _, err := d.Exposures(ctx); err != nil { // a fault of theirs is better known before the work
		return nil, err
	}
	vectors, encoder, err := f.vectors(ctx, d, r, show)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.dir, err)
	}
	defer vectors.Close()
	if r.WithoutText > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s of %s nodes have no word that the encoder knows: their "+
			"vectors are zeros, so their texts say nothing of their links; give them titles or texts",
			amount.Text(r.WithoutText), amount.Text(r.Nodes)))
	}
	m, err := d.WriteVectors(ctx, vectors, encoder, dataset.WriteOptions{
		Provenance: d.Manifest().Provenance, Half: f.half, Progress: show.report,
	})
	if err != nil {
		return nil, err
	}
	os.Remove(f.checkpoint()) // one that cannot be removed is refused, aloud, by the next run
	r.Dimension, r.Kind, r.Seconds = m.Vectors.Dimension, m.Vectors.Kind, time.Since(began).Seconds()
	return r, nil
}

// nodeTexts are the titles and texts of a dataset.
type nodeTexts struct{ d *dataset.Dataset }

func (t nodeTexts) Len() int { return t.d.Graph().Len() }

func (t nodeTexts) Text(i int) (encode.Text, error) {
	text, err := t.d.Text(int32(i))
	return encode.Text{Title: t.d.Graph().Title(int32(i)), Body: text}, err
}

// vectors makes the vectors of all nodes, and what makes those of new texts.
func (f *encodeFlags) vectors(ctx context.Context, d *dataset.Dataset, r *encodeResult,
	show *display) (*graph.Vectors, *dataset.StoredEncoder, error) {
	if folder, neural := strings.CutPrefix(f.encoder, "onnx:"); neural {
		return f.neural(ctx, folder, d, r, show)
	}
	if f.encoder == features {
		return f.reduce(ctx, d, r, show)
	}
	return f.builtin(ctx, d, r, show)
}

// features is the encoder that reduces the vectors that are there. It makes none of new texts.
const features = "features"

func (f *encodeFlags) reduce(ctx context.Context, d *dataset.Dataset, r *encodeResult,
	show *display) (*graph.Vectors, *dataset.StoredEncoder, error) {
	var vectors *graph.Vectors
	report, err := encode.Reduce(ctx, d.Graph().Vectors(), func(dim int) (rows encode.Rows, err error) {
		vectors, err = graph.NewVectors(d.Graph().Len(), dim)
		return vectors, err
	}, encode.Settings{Dim: f.dim, Seed: f.seed, Threads: f.threads, Progress: show.report})
	if err != nil {
		if vectors != nil {
			vectors.Close()
		}
		return nil, nil, err
	}
	r.Fit, r.Warnings, r.WithoutText = report, append(r.Warnings, report.Warnings...), report.Empty
	return vectors, nil, nil
}

func (f *encodeFlags) builtin(ctx context.Context, d *dataset.Dataset, r *encodeResult,
	show *display) (*graph.Vectors, *dataset.StoredEncoder, error) {
	s := encode.Settings{Dim: f.dim, TitleWeight: f.titleWeight, Bigrams: f.bigrams, Seed: f.seed, Threads: f.threads,
		Progress: show.report}
	if s.TitleWeight == 0 {
		s.TitleWeight = -1 // to the settings 0 is the default
	}
	e, report, err := encode.Fit(ctx, nodeTexts{d}, s)
	if err != nil {
		return nil, nil, err
	}
	vectors, err := graph.NewVectors(d.Graph().Len(), e.Dim())
	if err != nil {
		return nil, nil, err
	}
	if r.WithoutText, err = e.EncodeAll(ctx, nodeTexts{d}, vectors, f.threads, show.report); err != nil {
		vectors.Close()
		return nil, nil, err
	}
	r.Fit, r.Warnings = report, append(r.Warnings, report.Warnings...)
	return vectors, &dataset.StoredEncoder{Kind: encode.Kind, Write: e.Write}, nil
}

// neural encodes with a model of the BERT kind. What is done lies beside the dataset until all is.
func (f *encodeFlags) neural(ctx context.Context, folder string, d *dataset.Dataset, r *encodeResult,
	show *display) (*graph.Vectors, *dataset.StoredEncoder, error) {
	if f.threads > 0 { // the encoder itself takes all that there are
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(f.threads))
	}
	texts, err := atomicfile.Sum(filepath.Join(f.dir, dataset.NodesFile))
	if err != nil {
		return nil, nil, err
	}
	e, err := onnx.Open(folder, onnx.Options{Pooling: f.pooling})
	if err != nil {
		return nil, nil, err
	}
	defer e.Close()
	vectors, err := graph.NewVectors(d.Graph().Len(), e.Dim())
	if err != nil {
		return nil, nil, err
	}
	r.WithoutText, err = e.EncodeAll(ctx, nodeTexts{d}, vectors, onnx.Run{Checkpoint: f.checkpoint(), Resume: f.resume,
		Texts: texts, Progress: show.report})
	if err == nil && r.WithoutText == d.Graph().Len() {
		err = fmt.Errorf("none of the %d nodes has a text; give them titles or texts", d.Graph().Len())
		os.Remove(f.checkpoint())
	}
	if err != nil {
		vectors.Close()
		return nil, nil, err
	}
	return vectors, &dataset.StoredEncoder{Kind: onnx.Kind, Write: e.Write}, nil
}

// checkpoint is the file for what a neural encoder has done.
func (f *encodeFlags) checkpoint() string { return filepath.Clean(f.dir) + ".encoding" }

func (r *encodeResult) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s nodes, %d dimensions (%s), encoded in %s\n", r.Dir, amount.Text(r.Nodes), r.Dimension,
		r.Kind, progress.Seconds(r.Seconds))
	if r.Fit != nil {
		b.WriteString(wrap(fmt.Sprintf("%s of %s terms are used; the components explain %.0f%% of their weight",
			amount.Text(r.Fit.Terms), amount.Text(r.Fit.Found), math.Round(100*r.Fit.Explained))))
	}
	for _, text := range r.Warnings {
		b.WriteString(wrap("Warning: " + text))
	}
	fmt.Fprintf(&b, "\nNext:  %s\n", r.next)
	_, err := io.WriteString(w, b.String())
	return err
}
