package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"unseen/dataset"
	"unseen/dataset/exchange"
	"unseen/internal/amount"
)

func newImport() *cobra.Command {
	var names []string
	for _, f := range exchange.Formats() {
		names = append(names, f.Name)
	}
	choices := strings.Join(names, ", ")
	cmd := &cobra.Command{
		Use:   "import FORMAT PATH… -o DIR",
		Short: "Make a dataset from files in another format",
		Long: `Make a dataset from files in another format: nodes, links, texts, times, vectors.

A bad record stops the import; the error names the file and line. --lenient
skips such records and lists them in DIR.rejects.csv. DIR appears only when the
import is complete.`,
		Example: `  unseen import csv raw/ -o papers
  unseen import edges links.txt.gz -o friends --undirected
  unseen help import csv`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("name a format: %s; for instance unseen import csv raw/ -o papers", choices)
			}
			if len(cmd.SuggestionsFor(args[0])) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return usagef("unknown format %q; name one of %s", args[0], choices)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	for _, f := range exchange.Formats() {
		cmd.AddCommand(newImportOf(f))
	}
	return cmd
}

// importFlags is the command line of unseen import FORMAT.
type importFlags struct {
	exchange.Options
	out, fieldTree string
	quiet, asJSON  bool
}

func newImportOf(format exchange.Format) *cobra.Command {
	var f importFlags
	args := format.Args
	if args == "" {
		args = "PATH…"
	}
	example := fmt.Sprintf("unseen import %s raw -o papers", format.Name)
	if len(format.Files) > 0 {
		args = fmt.Sprintf("--%s FILE", format.Files[0])
		example = fmt.Sprintf("unseen import %s --%s raw/%[2]s.csv -o shop", format.Name, format.Files[0])
	}
	texts, switches := map[string]*string{}, map[string]*bool{}
	cmd := &cobra.Command{
		Use:     format.Name + " " + args,
		Short:   format.Summary,
		Long:    strings.TrimSpace(format.Summary + ".\n\n" + format.Help),
		Example: "  " + example,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && len(format.Files) > 0:
				return usagef("%s is no flag; for instance %s", args[0], example)
			case len(args) == 0 && len(format.Files) == 0:
				return usagef("name the files to import; for instance %s", example)
			}
			if f.Paths = args; f.out == "" {
				return usagef("name the folder of the new dataset: -o DIR")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.Flags = map[string]string{}
			for name, value := range texts {
				if cmd.Flags().Changed(name) {
					f.Flags[name] = *value
				}
			}
			for name, value := range switches {
				if *value {
					f.Flags[name] = "true"
				}
			}
			return runImport(cmd, format.Name, f)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.out, "output", "o", "", "write the dataset to `DIR`")
	for _, x := range format.Flags {
		if x.Switch {
			switches[x.Name] = flags.Bool(x.Name, false, x.Usage)
		} else {
			texts[x.Name] = flags.String(x.Name, x.Default, x.Usage)
		}
	}
	flags.BoolVar(&f.Lenient, "lenient", false, "skip bad records; list them in DIR.rejects.csv")
	flags.BoolVar(&f.NodesFromLinks, "nodes-from-links", false, "make a node for each link end without a record")
	flags.BoolVar(&f.Undirected, "undirected", false, "add every link in both directions")
	flags.StringVar(&f.FieldSeparator, "field-separator", "", "`TEXT` between fields of a node; first is used")
	flags.StringVar(&f.fieldTree, "field-tree", "", "CSV `FILE` child,parent: use each field's root")
	flags.BoolVar(&f.Force, "force", false, "replace an existing dataset")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	jsonFlag(cmd, &f.asJSON)
	return cmd
}

// importSummary is what unseen import --json prints.
type importSummary struct {
	Dataset     string            `json:"dataset"`
	Nodes       int               `json:"nodes"`
	Links       int               `json:"links"`
	Fields      int               `json:"fields"`
	Exposures   int               `json:"exposures"`
	Dimension   int               `json:"dimension"`
	Repeated    int               `json:"repeated"`
	SelfLinks   int               `json:"selfLinks"`
	Isolated    int               `json:"isolated"`
	Untimed     int               `json:"untimed"`
	Fieldless   int               `json:"fieldless"`
	Rejected    int               `json:"rejected"`
	RejectsFile string            `json:"rejectsFile,omitempty"`
	Notes       []string          `json:"notes"`
	Manifest    *dataset.Manifest `json:"manifest"`
}

func runImport(cmd *cobra.Command, format string, f importFlags) error {
	if f.fieldTree != "" {
		tree, err := readFieldTree(f.fieldTree)
		if err != nil {
			return err
		}
		f.FieldTree = tree
	}
	show := newDisplay(cmd.ErrOrStderr(), f.quiet)
	f.Progress = show.report
	f.Provenance = dataset.Provenance{MadeBy: "unseen " + readBuild().Version, Command: os.Args}
	r, err := exchange.Import(cmd.Context(), format, f.out, f.Options)
	show.clear()
	if errors.Is(err, exchange.ErrUsage) {
		return usagef("%w", err)
	}
	if err != nil {
		return err
	}
	notes := []string{}
	for _, note := range r.Notes {
		notes = append(notes, note.Render(flagName))
	}
	if dataset.Wide(r.Dimension) {
		notes = append(notes, fmt.Sprintf("%s dimensions make unseen fit slow; reduce them in seconds: %s",
			amount.Text(r.Dimension), fixFor("wide", f.out)))
	}
	if f.asJSON {
		return printJSON(cmd.OutOrStdout(), importSummary{
			f.out, r.Nodes, r.Links, r.Fields, r.Exposures, r.Dimension, r.Repeated, r.SelfLinks,
			r.Isolated, r.Untimed, r.Fieldless, r.Rejected, r.RejectsFile, notes, r.Manifest,
		})
	}
	return printImport(cmd.OutOrStdout(), f.out, r, notes)
}

func printImport(w io.Writer, dir string, r *exchange.Report, notes []string) error {
	var b strings.Builder
	nodes := amount.Of(r.Nodes, "node")
	if m := r.Manifest; m.Sources > 0 {
		nodes = amount.Of(m.Sources, "source") + ", " + amount.Of(m.Targets, "target")
		if r.Untimed == m.Sources {
			r.Untimed = 0 // people have no time of their own
		}
	}
	fmt.Fprintf(&b, "%s: %s, %s, %s", dir, nodes, amount.Of(r.Links, "link"), amount.Of(r.Fields, "field"))
	if r.Dimension > 0 {
		fmt.Fprintf(&b, ", %d dimensions", r.Dimension)
	}
	if r.Exposures > 0 {
		fmt.Fprintf(&b, ", %s exposures", amount.Text(r.Exposures))
	}
	b.WriteString("\n")
	for _, x := range []struct {
		n         int
		one, many string
	}{
		{r.Repeated, "repeated link was dropped", "repeated links were dropped"},
		{r.SelfLinks, "link from a node to itself was dropped", "links from a node to itself were dropped"},
		{r.Isolated, "node has no link", "nodes have no link"},
		{r.Fieldless, "node has no field", "nodes have no field"},
		{r.Untimed, "node has no time", "nodes have no time"},
		{r.Rejected, "bad record was skipped; " + r.RejectsFile + " says which and why", "bad records were skipped; " +
			r.RejectsFile + " says which and why"},
	} {
		switch {
		case x.n == 1:
			b.WriteString(wrap("- 1 " + x.one + "."))
		case x.n > 1:
			b.WriteString(wrap(fmt.Sprintf("- %s %s.", amount.Text(x.n), x.many)))
		}
	}
	for _, note := range notes {
		b.WriteString(wrap("- " + note))
	}
	fmt.Fprintf(&b, "\nNext:  unseen check %s\n", dir)
	_, err := io.WriteString(w, b.String())
	return err
}

// readFieldTree reads child,parent pairs.
func readFieldTree(path string) (map[string]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, usagef("--field-tree: %w; name a file of child,parent", err)
	}
	defer file.Close()
	r := csv.NewReader(file)
	r.FieldsPerRecord = 2
	records, err := r.ReadAll()
	if err != nil {
		return nil, usagef("--field-tree %s: %w; write child,parent in every line", path, err)
	}
	tree := map[string]string{}
	for k, x := range records {
		if k == 0 && strings.EqualFold(x[0], "child") && strings.EqualFold(x[1], "parent") {
			continue
		}
		if old, known := tree[x[0]]; known && old != x[1] {
			return nil, usagef("--field-tree %s: %q has the parents %q and %q; give it one", path, x[0], old, x[1])
		}
		tree[x[0]] = x[1]
	}
	return tree, nil
}
