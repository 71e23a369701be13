package main

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"unseen/evaluate"
	"unseen/graph"
	"unseen/internal/amount"
)

// noGroup is the group of nodes that a file of groups does not name.
const noGroup = "(none)"

// readGroups reads a CSV file of ids and groups: a header with the columns id and another, or id and group among more.
// It returns how many nodes the file does not name.
func readGroups(path string, g *graph.Graph) (evaluate.Groups, int, error) {
	file, err := os.Open(path)
	if err != nil {
		return evaluate.Groups{}, 0, usagef("%v; give a CSV file with the columns id and group", err)
	}
	defer file.Close()
	r := &groupReader{path: path, graph: g, rows: csv.NewReader(file), number: map[string]int32{}}
	r.rows.FieldsPerRecord, r.rows.TrimLeadingSpace = -1, true
	if err := r.head(); err != nil {
		return evaluate.Groups{}, 0, err
	}
	r.groups.Of = slices.Repeat([]int32{-1}, g.Len())
	for {
		row, err := r.rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = r.add(row)
		} else {
			err = r.fail(": %v", err)
		}
		if err != nil {
			return evaluate.Groups{}, 0, err
		}
	}
	switch {
	case r.named == 0 && r.stranger != "":
		return evaluate.Groups{}, 0, r.fail(" names no node of the dataset: %s", r.stranger)
	case r.named == 0:
		return evaluate.Groups{}, 0, r.fail(" has no row")
	}
	for i, of := range r.groups.Of {
		if of < 0 {
			r.groups.Of[i] = r.group(noGroup)
		}
	}
	if n := len(r.groups.Names); n > evaluate.MostGroups {
		return evaluate.Groups{}, 0, r.fail(" has %s groups; make at most %s of them, such as the largest and the rest",
			amount.Text(n), amount.Text(evaluate.MostGroups))
	}
	return r.groups, g.Len() - r.named, nil
}

// groupReader reads a file of groups.
type groupReader struct {
	path     string
	graph    *graph.Graph
	rows     *csv.Reader
	id, of   int // columns
	width    int // columns of the head
	groups   evaluate.Groups
	number   map[string]int32 // of the groups, by name
	named    int              // nodes that the file names
	stranger string           // the first id that is no node's
}

func (r *groupReader) fail(format string, a ...any) error {
	return usagef(r.path+format+"; give a CSV file with the columns id and group", a...)
}

// head finds the columns.
func (r *groupReader) head() error {
	head, err := r.rows.Read()
	if errors.Is(err, io.EOF) {
		return r.fail(" is empty")
	}
	if err != nil {
		return r.fail(": %v", err)
	}
	head[0] = strings.TrimPrefix(head[0], "\ufeff")
	for k := range head {
		head[k] = strings.ToLower(strings.TrimSpace(head[k]))
	}
	r.id, r.of, r.width = slices.Index(head, "id"), slices.Index(head, "group"), len(head)
	if r.of < 0 && len(head) == 2 && r.id >= 0 {
		r.of = 1 - r.id // as in id,institution
	}
	if r.id < 0 || r.of < 0 {
		return r.fail(", line 1: the columns are %s", strings.Join(head, ", "))
	}
	r.groups.By = head[r.of]
	return nil
}

// add reads a row.
func (r *groupReader) add(row []string) error {
	line, _ := r.rows.FieldPos(0)
	if len(row) != r.width {
		return r.fail(", line %d: %d columns where the head has %d", line, len(row), r.width)
	}
	i, ok := r.graph.Index(row[r.id])
	if !ok {
		if r.stranger == "" {
			r.stranger = fmt.Sprintf("line %d names %q", line, row[r.id])
		}
		return nil // a list of all authors may have more than the dataset
	}
	of := r.group(cmp.Or(strings.TrimSpace(row[r.of]), noGroup))
	switch was := r.groups.Of[i]; {
	case was < 0:
		r.named++
	case was != of:
		return r.fail(", line %d: %s is in %q and in %q; a node has one group", line, row[r.id], r.groups.Names[was],
			r.groups.Names[of])
	}
	r.groups.Of[i] = of
	return nil
}

// group is the number of a group.
func (r *groupReader) group(name string) int32 {
	of, known := r.number[name]
	if !known {
		of = int32(len(r.groups.Names))
		r.number[name] = of
		r.groups.Names = append(r.groups.Names, name)
	}
	return of
}

// printFairness draws what groups are given and what they deserve.
func printFairness(b *strings.Builder, e *evaluate.Evaluation) {
	f := e.Fairness
	fmt.Fprintf(b, "\nFairness: places 1 to %d of %s held-out nodes' lists, by %s\n", f.K, amount.Text(f.Sources), f.By)
	line := func(text, more string) {
		b.WriteString(strings.TrimRight(fmt.Sprintf("%-61s %s", text, more), " ") + "\n")
	}
	other := func(name string) *evaluate.Band {
		for _, o := range e.Others {
			if o.Fairness == nil {
				continue
			}
			for _, g := range o.Fairness.Groups {
				if g.Name == name {
					return g.Ratio
				}
			}
			break
		}
		return nil
	}
	head := ""
	if len(e.Others) > 0 {
		head = short(e.Others[0].Model, 15)
	}
	line(fmt.Sprintf("  %-24s %6s %7s   %-20s", "", "merit", "shown", "shown / merit"), head)
	few := false
	const most = 12
	for k, g := range f.Groups {
		if k == most {
			fmt.Fprintf(b, "  … and %d more; --json has all\n", len(f.Groups)-k)
			break
		}
		ratio := "–"
		if g.Ratio != nil {
			ratio = fmt.Sprintf("%.2f (%.2f to %.2f)", g.Ratio.Value, g.Ratio.Lower, g.Ratio.Upper)
		}
		text := fmt.Sprintf("  %-*s %5.1f%% %6.1f%%   %-20s", 24+wide(short(g.Name, 24)), short(g.Name, 24),
			100*g.Merit.Value, 100*g.Exposure.Value, ratio)
		beside := ""
		if band := other(g.Name); band != nil {
			beside = fmt.Sprintf("%.2f", band.Value)
		}
		if g.Few {
			beside = fmt.Sprintf("%-4s ?", beside)
			few = true
		}
		line(text, beside)
	}
	if few {
		b.WriteString("  ?: fewer than five positions by merit; too few to tell\n")
	}
	fmt.Fprintf(b, "\n  %-24s %-20s %-20s %s\n", "", "least / most", "Gini of ratios", "misplaced")
	row := func(name string, f *evaluate.Fairness) {
		band := func(x evaluate.Band) string { return fmt.Sprintf("%.2f (%.2f to %.2f)", x.Value, x.Lower, x.Upper) }
		fmt.Fprintf(b, "  %-24s %-20s %-20s %.0f%%\n", short(name, 24), band(f.Least), band(f.Gini),
			100*f.Distance.Value)
	}
	row(e.Model, f)
	for _, o := range e.Others {
		if o.Fairness != nil {
			row(o.Model, o.Fairness)
		}
	}
	fmt.Fprintf(b, "  %-24s %-20s %-20s %s\n", "proportional", "1", "0", "0%")
	b.WriteString("  merit is the share of ŷ by " + short(e.Model, 40) + ", for every model\n")
	for _, sentence := range f.Words(e.Model) {
		b.WriteString(wrap("- " + sentence))
	}
}
