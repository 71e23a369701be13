package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"unseen/dataset"
	"unseen/internal/amount"
)

// checkFlags is the command line of unseen check.
type checkFlags struct {
	dir              string
	rowNumbers, seal bool
	quiet, asJSON    bool
}

func newCheck() *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check DIR",
		Short: "Report what is wrong or weak in a dataset",
		Long: `Read a whole dataset and report what is wrong or weak in it, the worst first,
with an example and a fix.

DIR holds
  nodes.parquet      id, and optionally field, title, text, time and role (source
                     or target, for people and items)
  links.parquet      source, target: ids as text, or row numbers of the nodes;
                     optionally time
  exposures.parquet  optional: source, target, linked, and optionally exposed
                     and shown, the probability of being shown
  vectors.npy        optional: float32 or float16, one row per node
  encoder.safetensors  optional: the encoder that made the vectors
  dataset.json       optional: checksums, which are verified

--seal writes dataset.json for a folder that another program wrote, if nothing
in it is wrong. From then on every command knows whether links are row numbers,
and opens the folder faster. No other file is changed.

If anything is wrong, the exit code is 1: fix it before you fit a model. What is
weak does not stop a fit, but makes the model worse.`,
		Example: `  unseen check papers
  unseen check papers --json
  unseen check papers --row-numbers --seal`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usagef("name one folder of a dataset; for instance unseen check papers")
			}
			f.dir = args[0]
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, sealed, err := runCheck(cmd.Context(), f, newDisplay(cmd.ErrOrStderr(), f.quiet))
			if err != nil {
				return err
			}
			err = present(cmd, f.asJSON, r, func(w io.Writer) error { return printCheck(w, f.dir, r, sealed) })
			if n := r.Wrong(); err == nil && n > 0 {
				err = fmt.Errorf("%s has faults (%d); fix what is listed as wrong", f.dir, n)
			}
			return err
		},
		ValidArgsFunction: oneFolder,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.rowNumbers, "row-numbers", false, "whole numbers in links are row numbers, not ids")
	flags.BoolVar(&f.seal, "seal", false, "write dataset.json if nothing is wrong")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	jsonFlag(cmd, &f.asJSON)
	return cmd
}

func runCheck(ctx context.Context, f checkFlags, show *display) (r *dataset.CheckReport, sealed bool, err error) {
	defer show.clear()
	d, err := dataset.Open(ctx, f.dir, dataset.OpenOptions{
		Tolerant: true, RowNumbers: f.rowNumbers,
		Progress: show.report,
	})
	if err != nil {
		return nil, false, err
	}
	defer d.Close()
	found, err := dataset.Check(ctx, d)
	if err != nil {
		return nil, false, err
	}
	for k := range found.Findings {
		found.Findings[k] = withCommand(found.Findings[k], f.dir)
	}
	open := slices.IndexFunc(found.Findings, func(f dataset.Finding) bool { return f.Kind == "no-manifest" })
	if f.seal && open >= 0 && found.Wrong() == 0 {
		if _, err := d.Seal(ctx, dataset.Provenance{MadeBy: "unseen " + readBuild().Version,
			Command: os.Args}); err != nil {
			return nil, false, err
		}
		found.Findings = slices.Delete(found.Findings, open, open+1)
		sealed = true
	}
	return &found, sealed, nil
}

func printCheck(w io.Writer, dir string, r *dataset.CheckReport, sealed bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s nodes, %s links, %s fields", dir, amount.Text(r.Nodes), amount.Text(r.Links),
		amount.Text(r.Fields))
	if r.Dimension > 0 {
		fmt.Fprintf(&b, ", %d dimensions", r.Dimension)
	}
	if r.Exposures > 0 {
		fmt.Fprintf(&b, ", %s exposures", amount.Text(r.Exposures))
	}
	b.WriteString("\n")
	if len(r.Findings) == 0 {
		b.WriteString("\nNothing is wrong or weak.\n")
	}
	var last dataset.Severity
	for _, f := range r.Findings {
		if f.Severity != last {
			title := map[dataset.Severity]string{dataset.Wrong: "Wrong", dataset.Weak: "Weak",
				dataset.Note: "Good to know"}[f.Severity]
			fmt.Fprintf(&b, "\n%s\n", title)
			last = f.Severity
		}
		text := "- " + f.Message
		if f.Example != "" {
			text += " For instance: " + f.Example
		}
		b.WriteString(wrap(text))
		if f.Fix != "" {
			b.WriteString(wrap("→ " + f.Fix))
		}
	}
	if sealed {
		fmt.Fprintf(&b, "\nSealed: %s now has the checksums of all files.\n", dataset.ManifestFile)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
