package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"unseen/internal/amount"
)

// print draws the page for a terminal of 80 columns.
func (d *demo) print(w io.Writer) error {
	var b strings.Builder
	naive, bayes := d.Recommenders[0], d.Recommenders[1]
	b.WriteString(plain(fmt.Sprintf("A world of %s papers in %d fields. Of all pairs %.1f%% are relevant; "+
		"authors were shown %.0f%% of older papers in their own field and %.0f%% of others, and so %s citations "+
		"are all that can be seen.",
		amount.Text(d.Papers), d.Fields, 100*d.Relevant, 100*d.Same, 100*d.Cross, amount.Text(d.Citations))))
	fmt.Fprintf(&b, "\nLearned from the citations alone:         naive    bayes    truth\n")
	fmt.Fprintf(&b, "  pairs that are relevant              %7.2f%% %7.2f%% %7.2f%%\n", 100*naive.MeanLink,
		100*bayes.MeanLink, 100*d.Relevant)
	fmt.Fprintf(&b, "  relevant pairs that are found (ŷ ≥ ½) %6.0f%% %7.0f%%\n", 100*naive.Recall, 100*bayes.Recall)
	fmt.Fprintf(&b, "  AUC for relevance                     %7.4f  %7.4f\n", naive.AUC, bayes.AUC)
	fmt.Fprintf(&b, "\nHow good is each? Risk × 100 (log-loss; lower is better), 95%% intervals:\n")
	fmt.Fprintf(&b, "  judged by   naive                    bayes                    prefers\n")
	better := func(a, b float64) string {
		if a < b {
			return naive.Method
		}
		return bayes.Method
	}
	truth := better(naive.Risk, bayes.Risk)
	for k, j := range naive.Judged {
		other := bayes.Judged[k]
		prefers := better(j.Estimate, other.Estimate)
		mark := ""
		if prefers != truth {
			mark = " ✗"
		}
		if !j.Clear {
			mark += ", perhaps"
		}
		fmt.Fprintf(&b, "  %-10s  %-23s  %-23s  %s%s\n", j.Name, j, other, prefers, mark)
	}
	fmt.Fprintf(&b, "  %-10s  %-23.3f  %-23.3f  %s\n", "truth", 100*naive.Risk, 100*bayes.Risk, truth)
	fmt.Fprintf(&b, "\nThe doctor: %s\n", d.Findings.Class)
	for k, sentence := range d.Findings.Verdict {
		if k < 2 {
			b.WriteString(wrap(sentence))
		}
	}
	b.WriteString(wrap(fmt.Sprintf("Truth: propensities are off by %.0f%% on average over the %d pairs of fields.",
		100*d.Propensity, d.Fields*d.Fields)))
	if len(d.Hidden) > 0 {
		from := short(d.Source.Title, 49-utf8.RuneCountInString(d.Source.Field))
		fmt.Fprintf(&b, "\nHidden by exposure from “%s” (%s):\n", from, d.Source.Field)
		fmt.Fprintf(&b, "  rank as seen, by relevance                             shown  relevant, truly\n")
		for _, h := range d.Hidden {
			fmt.Fprintf(&b, "  %4d → %-2d  %-43s %4.0f%%  %4.0f%%  %4.0f%%\n", h.Seen, h.Corrected,
				short(h.Title, 43), 100*h.Propensity, 100*h.Link, 100*h.Truth)
		}
	} else {
		b.WriteString("\nNo paper of another field gained a place among the first ten by the correction.\n")
	}
	last := d.Loop[len(d.Loop)-1]
	b.WriteString("\n" + plain(fmt.Sprintf("Trained on what it shows, round after round, naive would keep %.0f "+
		"of 100 recommendations in the reader's field now and %.0f in round %d; corrected it is %.0f and %.0f, "+
		"since relevance feeds the loop as well. Shown by relevance alone it is %.0f.",
		100*d.Loop[0].Naive, 100*last.Naive, last.Round, 100*d.Loop[0].Corrected, 100*last.Corrected, 100*d.LoopTruth)))
	for _, warning := range d.warnings {
		b.WriteString(wrap("warning: " + warning))
	}
	folder := filepath.Dir(d.Files[0])
	var names []string
	for _, path := range d.Files {
		names = append(names, filepath.Base(path))
	}
	fmt.Fprintf(&b, "\nIn %s: %s\n", folder, strings.Join(names, ", "))
	fmt.Fprintf(&b, "Open the report in a browser. Next: unseen serve %s\n", folder)
	_, err := io.WriteString(w, b.String())
	return err
}

// String is the risk and its interval, times 100.
func (j demoJudged) String() string {
	return fmt.Sprintf("%.3f (%.3f to %.3f)", 100*j.Estimate, 100*j.Lower, 100*j.Upper)
}

// short cuts a text to so many columns.
func short(text string, columns int) string {
	if utf8.RuneCountInString(text) <= columns {
		return text
	}
	return string([]rune(text)[:columns-1]) + "…"
}

// plain breaks text into lines of at most 80 columns, without an indent.
func plain(text string) string { return fill(text, "", "") }

// wrap breaks text into indented lines of at most 80 columns, where its words allow.
func wrap(text string) string { return fill(text, "  ", "    ") }

// fill breaks text into lines with an indent of their own, the first and the others.
func fill(text, first, others string) string {
	var b strings.Builder
	column := 0
	begin := func(indent string) {
		b.WriteString(indent)
		column = len(indent)
	}
	for k, word := range strings.Fields(text) {
		width := utf8.RuneCountInString(word)
		switch {
		case k == 0:
			begin(first)
		case column+1+width > 80:
			b.WriteString("\n")
			begin(others)
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += width
	}
	return b.String() + "\n"
}
