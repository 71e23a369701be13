package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"unseen/internal/amount"
	"unseen/report"
)

// print draws the page for a terminal of 80 columns.
func (d *shopDemo) print(w io.Writer) error {
	var b strings.Builder
	naive, corrected := d.Recommenders[0], d.Recommenders[1]
	b.WriteString(plain(d.past()))
	fmt.Fprintf(&b, "\nLearned from the clicks:               naive  corrected    truth\n")
	fmt.Fprintf(&b, "  pairs that are wanted              %6.1f%%     %5.1f%%   %5.1f%%\n", 100*naive.MeanLink,
		100*corrected.MeanLink, 100*d.Relevant)
	fmt.Fprintf(&b, "  AUC for what is wanted              %6.3f     %6.3f\n", naive.AUC, corrected.AUC)
	fmt.Fprintf(&b, "  wanted of ten that are recommended  %6.2f     %6.2f   %6.2f\n", 10*naive.List,
		10*corrected.List, 10*d.Best)
	fmt.Fprintf(&b, "  of these never shown before        %6.0f%%     %5.0f%%\n", 100*naive.New, 100*corrected.New)
	b.WriteString("\nnaive knows the clicks alone; corrected knows the log of what was shown as well.\n")
	fmt.Fprintf(&b, "\nThe doctor: %s\n", d.Findings.Class.Label())
	for k, sentence := range d.Findings.Verdict {
		if k < 2 {
			b.WriteString(wrap(sentence))
		}
	}
	if len(d.Hidden) > 0 {
		fmt.Fprintf(&b, "\nHidden from %s (%s), who was never shown any of these:\n", d.Person.ID, d.Person.Segment)
		fmt.Fprintf(&b, "  rank as shown, by relevance                            shown   wanted, truly\n")
		for _, h := range d.Hidden {
			fmt.Fprintf(&b, "  %4d → %-2d  %-43s %4.0f%%  %4.0f%%  %4.0f%%\n", h.Seen, h.Corrected,
				short(h.Title+", "+h.Category, 43), 100*h.Propensity, 100*h.Link, 100*h.Truth)
		}
	} else {
		b.WriteString("\nNothing that was never shown came among the first ten by the correction.\n")
	}
	b.WriteString("\nThe same by hand, with tables of your own:\n")
	for _, command := range d.Commands {
		b.WriteString(forShell(command))
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

// forShell breaks a command into lines that can be copied into a shell.
func forShell(command string) string {
	const room = "  " // for what ends a line
	lines := strings.Split(strings.TrimSuffix(fill(command, room+"  ", room+"    "), "\n"), "\n")
	for k, line := range lines {
		lines[k] = strings.TrimPrefix(line, room)
	}
	return strings.Join(lines, " \\\n") + "\n"
}

// past says what the shop did.
func (d *shopDemo) past() string {
	return fmt.Sprintf("A shop of %s people and %s items. Of all pairs %.1f%% are wanted, but only %.1f%% were ever "+
		"shown: %s impressions, more of what a segment is thought to like and of what is popular. %s clicks are all "+
		"that can be seen.", amount.Text(d.People), amount.Text(d.Items), 100*d.Relevant, 100*d.Shown,
		amount.Text(d.Impressions), amount.Text(d.Clicks))
}

// document is the report of the demonstration.
func (d *shopDemo) document() *report.Page {
	naive, corrected := d.Recommenders[0], d.Recommenders[1]
	doc := &report.Page{
		Title: "What a shop hides",
		Summary: []string{
			d.past(),
			fmt.Sprintf("Taken at face value (naive), the clicks say that %.1f%% of pairs are wanted; learned "+
				"together with what was shown (corrected), %.1f%%. The truth is %.1f%%.", 100*naive.MeanLink,
				100*corrected.MeanLink, 100*d.Relevant),
			fmt.Sprintf("Of ten items that naive recommends a person wants %.2f, of ten by the corrected model %.2f; "+
				"the most would be %.2f.", 10*naive.List, 10*corrected.List, 10*d.Best),
		},
	}
	doc.Add(report.DoctorVerdict{Findings: d.Findings})
	if len(d.Hidden) > 0 {
		hidden := report.HiddenTable{Title: "Hidden by the shop", Head: "item", Text: []string{
			fmt.Sprintf("What %s (%s) was never shown, and the corrected model recommends. Of all people with at "+
				"least %d clicks, this one has the most to gain.", d.Person.ID, d.Person.Segment, shopKnown)}}
		for _, h := range d.Hidden {
			hidden.Papers = append(hidden.Papers, report.HiddenPaper{Title: h.Title, Field: h.Category,
				SeenRank: h.Seen, NaiveRank: h.Naive, CorrectedRank: h.Corrected, Link: h.Link,
				Propensity: h.Propensity, Reason: fmt.Sprintf("shown with probability %.2g; truly wanted with "+
					"probability %.2f", h.Propensity, h.Truth)})
		}
		doc.Add(hidden)
	}
	doc.Add(report.Curves{
		Title: "Against what is wanted",
		Text:  []string{"Evaluated on all pairs, whether they were shown or not."},
		Curves: []report.Curve{
			{Kind: report.ROC, Lines: d.roc}, {Kind: report.Calibration, Lines: d.calibration},
		},
	}, report.Section{
		Name: "settings", Title: "How it was done",
		Text: append([]string{"The shop and the training follow from the seed. The same by hand:"}, d.Commands...),
		Facts: []report.Fact{{Name: "people", Value: amount.Text(d.People)},
			{Name: "items", Value: amount.Text(d.Items)}, {Name: "impressions", Value: amount.Text(d.Impressions)},
			{Name: "clicks", Value: amount.Text(d.Clicks)}, {Name: "seed", Value: fmt.Sprint(d.Seed)}},
	})
	return doc
}
