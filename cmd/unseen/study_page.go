package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode"

	"unseen/figure"
	"unseen/progress"
	"unseen/study"
)

// print draws the studies for a terminal of 80 columns.
func (r *studyReport) print(w io.Writer) error {
	var b strings.Builder
	for i, s := range r.Studies {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s\n\n", s.Title)
		for _, sentence := range s.Setting {
			b.WriteString(wrap(sentence))
		}
		for _, t := range s.Tables {
			if !t.Detail {
				b.WriteString("\n" + drawTable(t))
			}
		}
		b.WriteString("\n")
		counts := map[study.Verdict]int{}
		for _, f := range s.Claims {
			counts[f.Verdict]++
		}
		for _, f := range s.Conclusions() {
			b.WriteString(wrap(fmt.Sprintf("%s %s: %s. %s", mark80(f.Verdict), f.Verdict, f.Statement, f.Evidence)))
		}
		for _, warning := range s.Warnings {
			b.WriteString("\n" + wrap("warning: "+warning))
		}
		var words []string
		for _, v := range []study.Verdict{study.Reproduced, study.Partly, study.NotReproduced, study.Met,
			study.Missed} {
			if counts[v] > 0 {
				words = append(words, fmt.Sprintf("%d %s", counts[v], v))
			}
		}
		said := strings.Join(words, ", ")
		if why := s.WhyTooSmall(); why != "" && said != "" {
			said = fmt.Sprintf("too small to tell (%s); by these numbers %s", why, said)
		}
		if said == "" {
			said = "no claims"
		}
		b.WriteString("\n" + fill(fmt.Sprintf("%s: %s; %s.", s.Study, said, progress.Seconds(s.Seconds)), "", "  "))
	}
	if len(r.Files) > 0 {
		fmt.Fprintf(&b, "\n%d files are written to %s\n", len(r.Files), filepath.Dir(r.Files[0]))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// mark80 is a verdict at a glance.
func mark80(v study.Verdict) string {
	switch v {
	case study.Reproduced, study.Met:
		return "✓"
	case study.Partly:
		return "~"
	case study.TooSmall:
		return "?"
	}
	return "✗"
}

// drawTable draws a table in 80 columns: as many of its columns as there is room for, the others below
// with the rows' names again.
func drawTable(t figure.Table) string {
	const room, gap = 78, 2 // and two marks that some terminals give a column of their own
	names := columns(t.Head)
	for _, r := range t.Rows {
		names = max(names, columns(r.Name))
	}
	cells := make([][]string, len(t.Columns)) // by column: heading, rows
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		cells[i] = append(cells[i], c.Name)
		for _, r := range t.Rows {
			cells[i] = append(cells[i], strings.Replace(r.Cells[i].Format(c.Digits), " ± ", "±", 1))
		}
		for _, text := range cells[i] {
			widths[i] = max(widths[i], columns(text))
		}
	}
	var b strings.Builder
	b.WriteString(t.Title + "\n")
	for from := 0; from < len(t.Columns); {
		to, width := from, 2+names
		for to < len(t.Columns) && (to == from || width+gap+widths[to] <= room) {
			width += gap + widths[to]
			to++
		}
		if from > 0 {
			b.WriteString("\n")
		}
		for row := range len(t.Rows) + 1 {
			name, line := t.Head, ""
			if row > 0 {
				name = t.Rows[row-1].Name
			}
			for i := from; i < to; i++ {
				text := cells[i][row]
				line += strings.Repeat(" ", gap+widths[i]-columns(text)) + text
			}
			if row > 0 && strings.TrimSpace(line) == "" {
				continue // a row that has none of these columns
			}
			b.WriteString(strings.TrimRight("  "+name+strings.Repeat(" ", names-columns(name))+line, " ") + "\n")
		}
		from = to
	}
	return b.String()
}

// columns is how wide text is: marks that stand above a letter take no room.
func columns(text string) int {
	n := 0
	for _, r := range text {
		if !unicode.Is(unicode.Mn, r) {
			n++
		}
	}
	return n
}

// hanging is a name and what it means, in lines of 80 columns.
func hanging(name, means string) string {
	const indent = 14
	line := fmt.Sprintf("  %-*s", indent-2, name)
	var b strings.Builder
	width := indent
	b.WriteString(line)
	for i, word := range strings.Fields(means) {
		switch {
		case width+1+columns(word) > 80:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			width = indent
		case i > 0:
			b.WriteString(" ")
			width++
		}
		b.WriteString(word)
		width += columns(word)
	}
	return b.String() + "\n"
}
