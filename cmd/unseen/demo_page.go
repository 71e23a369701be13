package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// print draws the page for a terminal of 80 columns.
func (d *demo) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "A machine-learning author could cite %s papers in each of two fields:\n\n", thousands(d.Papers))
	fmt.Fprintf(&b, "           relevant   shown   observed links\n")
	for _, f := range d.Fields {
		fmt.Fprintf(&b, "  %-8s %7.1f%% %6.1f%%   %s %5.1f%%\n", f.Name, 100*f.Relevant, 100*f.Shown, bar(f.Linked, f.Relevant), 100*f.Linked)
	}
	fmt.Fprintf(&b, "                              █ linked   ░ relevant but never shown\n\n")

	fmt.Fprintf(&b, "Two recommenders learn a link's probability ŷ from these (add-one smoothed):\n\n")
	for _, r := range d.Recommenders {
		fmt.Fprintf(&b, "  %-12s", r.Name)
		for i, f := range d.Fields {
			fmt.Fprintf(&b, "ŷ(%s) = %.3f   ", f.Name, r.Link[i])
		}
		fmt.Fprintf(&b, "%s\n", map[string]string{"face value": "the share that is linked", "corrected": "that share ÷ exposure"}[r.Name])
	}

	fmt.Fprintf(&b, "\nWhich is better? The risk of each (log-loss, lower is better, ± %.0f%% interval):\n\n", 100*d.Level)
	fmt.Fprintf(&b, "  judged by   %-16s  %-16s  prefers\n", d.Recommenders[0].Name, d.Recommenders[1].Name)
	truth := d.Judges[len(d.Judges)-1]
	for _, j := range d.Judges {
		mark := ""
		if j.Prefers != truth.Prefers {
			mark = " ✗"
		}
		fmt.Fprintf(&b, "  %-10s  %-16s  %-16s  %s%s\n", j.Name, j.Verdicts[0], j.Verdicts[1], j.Prefers, mark)
	}
	for _, j := range d.Judges {
		for k, v := range j.Verdicts {
			for _, warning := range v.Warnings {
				b.WriteString(wrap(fmt.Sprintf("warning: %s of %s: %s", j.Name, d.Recommenders[k].Name, warning)))
			}
		}
	}
	fmt.Fprintf(&b, "\n%s", d.meaning())
	_, err := io.WriteString(w, b.String())
	return err
}

// meaning says in plain words what these draws show.
func (d *demo) meaning() string {
	naive, corrected, truth := d.Judges[0], d.Judges[1:len(d.Judges)-1], d.Judges[len(d.Judges)-1]
	agree := 0
	for _, j := range corrected {
		agree += count(j.Prefers == truth.Prefers)
	}
	var b strings.Builder
	if naive.Prefers == truth.Prefers {
		b.WriteString("With these draws the naive risk happens to prefer what the truth prefers.\n")
	} else {
		b.WriteString("Judged by the links that happen to exist, the better recommender loses:\n" +
			"relevant papers that were never shown count against it.\n")
	}
	fmt.Fprintf(&b, "Of the %d risks that weigh pairs by exposure, %d prefer what the truth prefers.\n", len(corrected), agree)
	b.WriteString("R_PU needs the exposure alone; R_w and R_AP also use the ŷ they judge, so\n" +
		"they are right where ŷ is right and off where it is wrong.\n")
	return b.String()
}

// String is the risk with half the width of its interval, where that is not zero.
func (v verdict) String() string {
	half := (v.Upper - v.Lower) / 2
	if half < 1e-9 {
		return fmt.Sprintf("%.4f", v.Risk)
	}
	return fmt.Sprintf("%.4f ± %.4f", v.Risk, half)
}

// bar draws 40 cells for 100%: what is linked, then what is relevant but hidden.
func bar(linked, relevant float64) string {
	const cells = 40
	full := int(linked*cells + .5)
	hidden := max(0, int(relevant*cells+.5)-full)
	return strings.Repeat("█", full) + strings.Repeat("░", hidden) + strings.Repeat(" ", cells-full-hidden)
}

// wrap breaks text into indented lines of at most 80 columns, where its words allow.
func wrap(text string) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		width := utf8.RuneCountInString(word)
		switch {
		case column == 0:
			b.WriteString("  ")
			column = 2
		case column+1+width > 80:
			b.WriteString("\n    ")
			column = 4
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += width
	}
	return b.String() + "\n"
}

// thousands writes n with commas.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
