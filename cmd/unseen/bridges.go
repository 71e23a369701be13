package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"unseen/fit"
	"unseen/internal/atomicfile"
	"unseen/internal/safetext"
	"unseen/recommend"
	"unseen/report"
)

// bridgesFlags is the command line of unseen bridges.
type bridgesFlags struct {
	recommendFlags
	sources, list, limit int
	within               bool
	out                  string
}

func newBridges() *cobra.Command {
	var f bridgesFlags
	cmd := &cobra.Command{
		Use:   "bridges MODEL DATASET --naive MODEL",
		Short: "Find fields between which exposure hides links, with reading lists",
		Long: `Estimate for every ordered pair of fields how many links would be made if
everything were shown: by the model, and by a naive model that ignores exposure.
Where the model expects many more, exposure hides links: a bridge. The interval
reflects which nodes were sampled and how well exposure is known there.

Every bridge has a reading list: pairs of a node and a target that are likely
links but are not linked yet. -o writes the lists as bridges.html to read, and
as bridges.csv, bridges.jsonl, bridges.bib and bridges.ris for other programs.`,
		Example: `  unseen bridges model.safetensors papers --naive naive.safetensors
  unseen bridges model.safetensors papers --naive naive.safetensors -o bridges`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] == "" || args[1] == "" {
				return usagef("name a model and its dataset; for instance unseen bridges model.safetensors " +
					"papers --naive naive.safetensors")
			}
			f.model, f.data = args[0], args[1]
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case f.naive == "":
				return usagef("--naive is missing: bridges are gaps between two models; make one with unseen "+
					"fit %s --method naive -o naive.safetensors", f.data)
			case f.sources < 1:
				return usagef("--sources is %d; give at least 1", f.sources)
			case f.list < 1 || f.list > 1000:
				return usagef("--list is %d; give from 1 to 1,000", f.list)
			case f.limit < 1:
				return usagef("--limit is %d; give at least 1", f.limit)
			}
			if f.out != "" {
				if err := os.MkdirAll(f.out, 0o755); err != nil {
					return usagef("-o: cannot create the folder: %v; give another", err)
				}
				if err := atomicfile.Writable(filepath.Join(f.out, "bridges.html")); err != nil {
					return &usageError{err}
				}
			}
			found, err := runBridges(cmd.Context(), f, newDisplay(cmd.ErrOrStderr(), f.quiet))
			if err != nil {
				return err
			}
			return present(cmd, f.asJSON, found, func(w io.Writer) error { return printBridges(w, found, f) })
		},
		ValidArgsFunction: modelThenFolder,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.naive, "naive", "", "a naive `model` to compare with")
	flags.IntVar(&f.sources, "sources", 200, "nodes to sample from each field")
	flags.IntVar(&f.list, "list", 10, "pairs in each reading list")
	flags.IntVar(&f.limit, "limit", 10, "bridges to print")
	flags.BoolVar(&f.within, "within", false, "also compare each field with itself")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the sample")
	flags.StringVarP(&f.out, "output", "o", "", "`folder` for reading lists")
	threadsFlag(cmd, &f.threads)
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
	jsonFlag(cmd, &f.asJSON)
	oldFlag(cmd, "top", "limit")
	completeFlags(cmd, nil, "sources", "list", "limit", "seed", "threads")
	return cmd
}

// foundBridges is what unseen bridges has to say.
type foundBridges struct {
	Model    string             `json:"model"`
	Naive    string             `json:"naive"`
	Dataset  string             `json:"dataset"`
	Seed     uint64             `json:"seed"`
	Bridges  []recommend.Bridge `json:"bridges"`
	Warnings []string           `json:"warnings,omitempty"`
	Files    []string           `json:"files,omitempty"`
}

func runBridges(ctx context.Context, f bridgesFlags, t *display) (*foundBridges, error) {
	defer t.clear()
	r, err := f.openRecommender(ctx, t)
	if err != nil {
		return nil, err
	}
	defer r.close()
	found := &foundBridges{Model: filepath.Base(f.model), Naive: filepath.Base(f.naive),
		Dataset: filepath.Base(filepath.Clean(f.data)), Seed: f.seed, Warnings: r.notes}
	found.Bridges, err = r.Bridges(ctx, recommend.BridgeSettings{
		Sources: f.sources, List: f.list, Within: f.within, Seed: f.seed,
		Progress: t.report,
	})
	if err != nil {
		return nil, causedByFlags(err)
	}
	if class := r.Class(); class != fit.Identified {
		found.Warnings = append(found.Warnings, "the scale of π̂ is "+class.Label()+
			": do not read gaps as numbers of links")
	}
	if f.out != "" {
		return found, found.write(f.out)
	}
	return found, nil
}

// write writes the reading lists, each file whole or not at all.
func (b *foundBridges) write(dir string) error {
	var lists []*recommend.List
	for _, bridge := range b.Bridges {
		for _, reading := range bridge.Reading {
			lists = append(lists, &recommend.List{Source: reading.For, Items: []recommend.Item{reading.Item}})
		}
	}
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{"bridges.csv", b.writeCSV},
		{"bridges.jsonl", func(w io.Writer) error { return writeListsJSONL(w, lists) }},
		{"bridges.bib", func(w io.Writer) error { return writeReferences(w, "bibtex", lists) }},
		{"bridges.ris", func(w io.Writer) error { return writeReferences(w, "ris", lists) }},
	} {
		path := filepath.Join(dir, file.name)
		if err := atomicfile.Write(path, file.write); err != nil {
			return err
		}
		b.Files = append(b.Files, path)
	}
	page := &report.Page{Title: "Bridges of " + b.Dataset, Sections: report.BridgeSections(b.Bridges, b.Warnings)}
	path := filepath.Join(dir, "bridges.html")
	b.Files = append([]string{path}, b.Files...)
	return page.WriteHTML(path)
}

func (b *foundBridges) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	if err := out.Write([]string{"source_field", "target_field", "gap", "lower", "upper", "corrected", "naive",
		"propensity", "source", "source_title", "target", "target_title", "target_time", "link"}); err != nil {
		return err
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }
	for _, bridge := range b.Bridges {
		for _, r := range bridge.Reading {
			if err := out.Write(safetext.Cells([]string{bridge.Source, bridge.Target, number(bridge.Gap),
				number(bridge.Lower), number(bridge.Upper), number(bridge.Corrected), number(bridge.Naive),
				number(bridge.Propensity), r.For.ID, r.For.Title, r.ID, r.Title, r.Time, number(r.Link)})); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

func printBridges(w io.Writer, found *foundBridges, f bridgesFlags) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Links per node that exposure hides, by field of the node and of the target\n\n")
	fmt.Fprintf(&b, "  %-20s → %-20s %6s %19s %5s\n", "from", "to", "gap", "95% interval", "π̂")
	for _, bridge := range found.Bridges[:min(f.limit, len(found.Bridges))] {
		weak := ""
		if bridge.Weak {
			weak = " ?"
		}
		fmt.Fprintf(&b, "  %-20s → %-20s %6.3g %19s %5s%s\n", short(bridge.Source, 20), short(bridge.Target, 20),
			bridge.Gap,
			fmt.Sprintf("%.2g to %.2g", bridge.Lower, bridge.Upper), share(bridge.Propensity), weak)
	}
	if len(found.Bridges) > f.limit {
		fmt.Fprintf(&b, "  and %d more\n", len(found.Bridges)-f.limit)
	}
	b.WriteString("  ?: estimated from fewer than five links or nodes\n")
	if len(found.Bridges) > 0 && len(found.Bridges[0].Reading) > 0 {
		first := found.Bridges[0]
		fmt.Fprintf(&b, "\nReading list, %s → %s\n", first.Source, first.Target)
		for _, r := range first.Reading[:min(5, len(first.Reading))] {
			name := func(i recommend.Item) string {
				if i.Title != "" {
					return i.Title
				}
				return i.ID
			}
			fmt.Fprintf(&b, "  %4s  %s\n        for %s\n", share(r.Link), short(name(r.Item), 70),
				short(name(r.For), 66))
		}
	}
	for _, note := range found.Warnings {
		b.WriteString("\n" + wrap("note: "+note))
	}
	if len(found.Files) > 0 {
		fmt.Fprintf(&b, "\nReading lists of all bridges are in %s\n", filepath.Dir(found.Files[0]))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
