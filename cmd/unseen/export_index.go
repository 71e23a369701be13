package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"unseen/dataset"
	"unseen/internal/amount"
	"unseen/recommend"
)

// exportIndexFlags is the command line of unseen export index.
type exportIndexFlags struct {
	model, data, out     string
	force, quiet, asJSON bool
}

func newExportIndex() *cobra.Command {
	var f exportIndexFlags
	cmd := &cobra.Command{
		Use:   "index MODEL DATASET -o OUT",
		Short: "Write what FAISS, pgvector and others need to make recommendations",
		Long: `Write what an inner-product search (FAISS, pgvector, Qdrant, Elasticsearch) needs
to give the same recommendations.

  vectors.npy  the vectors to index: the dataset's, as float32; of people and
               items, the learned factors of the items
  ids.txt      the id of each row
  query.npz    turns a source's vector into its query; of people and items, the
               queries of all people
  README.txt   how to use them
  index.json   the same for programs

After a new fit only query.npz changes, and the index over the vectors stays
valid; learned factors change too.
Where the file system allows it, vectors.npy is a hard link to the dataset's
file and takes no space.`,
		Example: `  unseen export index model.safetensors papers -o papers-index`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] == "" || args[1] == "" {
				return usagef("name a model and its dataset; for instance unseen export index model.safetensors " +
					"papers -o papers-index")
			}
			if f.model, f.data = args[0], args[1]; f.out == "" {
				return usagef("name the folder to write: -o OUT")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			x, err := runExportIndex(cmd.Context(), f, newDisplay(cmd.ErrOrStderr(), f.quiet))
			switch {
			case errors.Is(err, recommend.ErrQuery):
				return usagef("%w", err)
			case err != nil:
				return err
			case f.asJSON:
				return printJSON(cmd.OutOrStdout(), exportIndexSummary{f.out, x})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(),
				"%s vectors of %d dimensions (%s) and the query of\n%s are in %s; README.txt there says how to "+
					"use them.\n",
				amount.Text(x.Nodes), x.Dim, x.Vectors, f.model, f.out)
			return err
		},
		ValidArgsFunction: modelThenFolder,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.out, "output", "o", "", "folder to write")
	flags.BoolVar(&f.force, "force", false, "replace an existing index")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	jsonFlag(cmd, &f.asJSON)
	return cmd
}

// exportIndexSummary is what unseen export index --json prints.
type exportIndexSummary struct {
	Output string `json:"output"`
	*recommend.Index
}

func runExportIndex(ctx context.Context, f exportIndexFlags, t *display) (*recommend.Index, error) {
	defer t.clear()
	of := recommendFlags{model: f.model, data: f.data, threads: runtime.GOMAXPROCS(0)}
	r, err := of.openRecommender(ctx, t)
	if err != nil {
		return nil, err
	}
	defer r.close()
	return r.WriteIndex(ctx, f.out, filepath.Join(f.data, dataset.VectorsFile), f.force)
}
