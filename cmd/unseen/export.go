package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"unseen/dataset/exchange"
)

// exportFlags is the command line of unseen export.
type exportFlags struct {
	exchange.ExportOptions
	dir, to, out  string
	quiet, asJSON bool
}

func newExport() *cobra.Command {
	var f exportFlags
	choices := strings.Join(exchange.Exports(), ", ")
	cmd := &cobra.Command{
		Use:   "export DIR --to FORMAT -o OUT",
		Short: "Write a dataset in another format",
		// it has a command and does something by itself
		Annotations: map[string]string{"also": "unseen export DIR --to FORMAT -o OUT [flags]"},
		Long: `Write a dataset in another format. unseen import makes the same dataset from the
folder again.

  csv      nodes.csv, links.csv by id, exposures.csv, fields.csv
  jsonl    nodes.jsonl, links.jsonl, exposures.jsonl, fields.jsonl
  parquet  the same as Parquet tables, links by id
  npz      links.npz, a sparse matrix for scipy.sparse.load_npz, and nodes.csv

All write the vectors as vectors.npy. Texts are written as they are, also those
that a terminal or a spreadsheet would obey: export is for programs. Python
needs none: pandas.read_parquet and numpy.load read the files of a dataset.

unseen export index writes what other programs need to make recommendations.`,
		Example: `  unseen export papers --to csv -o papers-csv
  unseen import csv papers-csv -o again`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usagef("name one folder of a dataset; for instance unseen export papers --to csv -o out")
			}
			if f.dir = args[0]; f.to == "" {
				return usagef("name a format: --to %s", choices)
			}
			if f.out == "" {
				return usagef("name the folder to write: -o OUT")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			show := newDisplay(cmd.ErrOrStderr(), f.quiet)
			f.Progress = show.report
			err := exchange.Export(cmd.Context(), f.dir, f.to, f.out, f.ExportOptions)
			show.clear()
			switch {
			case errors.Is(err, exchange.ErrUsage):
				return usagef("%w", err)
			case err != nil:
				return err
			case f.asJSON:
				return printJSON(cmd.OutOrStdout(), exportSummary{f.dir, f.to, f.out})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is in %s as %s.\n", f.dir, f.out, f.to)
			return err
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	cmd.AddCommand(newExportIndex())
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.to, "to", "", "format: "+choices)
	flags.StringVarP(&f.out, "output", "o", "", "folder to write")
	flags.BoolVar(&f.Force, "force", false, "replace what an export wrote there before")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	jsonFlag(cmd, &f.asJSON)
	return cmd
}

// exportSummary is what unseen export --json prints.
type exportSummary struct {
	Dataset string `json:"dataset"`
	Format  string `json:"format"`
	Output  string `json:"output"`
}
