package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"unseen/evaluate"
	"unseen/graph"
)

// noGroup is the group of nodes that a file of groups does not name.
const noGroup = "(none)"

// readGroups reads a CSV file of ids and groups: a header with the columns id and another, or id and group among more.
// It returns how many nodes the file does not name.
func readGroups(path string, g *graph.Graph) (evaluate.Groups, int, error) {
	var groups evaluate.Groups
	fail := func(format string, a ...any) (evaluate.Groups, int, error) {
		return groups, 0, usagef(path+format+"; give a CSV file with the columns id and group", a...)
	}
	file, err := os.Open(path)
	if err != nil {
		return groups, 0, usagef("%v; give a CSV file with the columns id and group", err)
	}
	defer file.Close()
	rows := csv.NewReader(file)
	rows.FieldsPerRecord, rows.TrimLeadingSpace = -1, true
	head, err := rows.Read()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return fail(" is empty")
		}
		return fail(": %v", err)
	}
	head[0] = strings.TrimPrefix(head[0], "\ufeff")
	for k := range head {
		head[k] = strings.ToLower(strings.TrimSpace(head[k]))
	}
	id, group := slices.Index(head, "id"), slices.Index(head, "group")
	if group < 0 && len(head) == 2 && id >= 0 {
		group = 1 - id // as in id,institution
	}
	if id < 0 || group < 0 {
		return fail(", line 1: the columns are %s", strings.Join(head, ", "))
	}
	groups.By = head[group]
	groups.Of = make([]int32, g.Len())
	for i := range groups.Of {
		groups.Of[i] = -1
	}
	number := map[string]int32{}
	named, strangers, stranger := 0, 0, ""
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fail(": %v", err)
		}
		line, _ := rows.FieldPos(0)
		if len(row) != len(head) {
			return fail(", line %d: %d columns where the head has %d", line, len(row), len(head))
		}
		i, ok := g.Index(row[id])
		if !ok {
			if strangers++; stranger == "" {
				stranger = fmt.Sprintf("line %d names %q", line, row[id])
			}
			continue // a list of all authors may have more than the dataset
		}
		name := strings.TrimSpace(row[group])
		if name == "" {
			name = noGroup
		}
		of, known := number[name]
		if !known {
			of = int32(len(groups.Names))
			number[name] = of
			groups.Names = append(groups.Names, name)
		}
		if was := groups.Of[i]; was >= 0 && was != of {
			return fail(", line %d: %s is in %q and in %q; a node has one group", line, row[id], groups.Names[was],
				name)
		}
		if groups.Of[i] < 0 {
			named++
		}
		groups.Of[i] = of
	}
	if named == 0 {
		if strangers > 0 {
			return fail(" names no node of the dataset: %s", stranger)
		}
		return fail(" has no row")
	}
	missing := g.Len() - named
	if missing > 0 {
		none, known := number[noGroup]
		if !known {
			none = int32(len(groups.Names))
			groups.Names = append(groups.Names, noGroup)
		}
		for i, of := range groups.Of {
			if of < 0 {
				groups.Of[i] = none
			}
		}
	}
	if len(groups.Names) > evaluate.MostGroups {
		return fail(" has %s groups; make at most %s of them, such as the largest and the rest",
			thousands(len(groups.Names)), thousands(evaluate.MostGroups))
	}
	return groups, missing, nil
}

// printFairness draws what groups are given and what they deserve.
func printFairness(b *strings.Builder, e *evaluate.Evaluation) {
	f := e.Fairness
	fmt.Fprintf(b, "\nFairness: places 1 to %d of %s held-out nodes' lists, by %s\n", f.K, thousands(f.Sources), f.By)
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
		b.WriteString("  ?: fewer than five places are due to it; too few to tell\n")
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
	fmt.Fprintf(b, "  %-24s %-20s %-20s %s\n", "if it were proportional", "1", "0", "0%")
	b.WriteString("  merit is the share of ŷ by " + short(e.Model, 40) + ", for every model\n")
	for _, sentence := range f.Words(e.Model) {
		b.WriteString(wrap("- " + sentence))
	}
}
