package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"unseen/fit"
	"unseen/internal/amount"
	"unseen/progress"
)

// print draws the page for a terminal of 80 columns.
func (r *fitReport) print(w io.Writer) error {
	var b strings.Builder
	method := r.Settings.Method
	if r.Findings.Factors {
		method += ", with factors of every node,"
	}
	fmt.Fprintf(&b, "%s on %s pairs, %s of them linked, in %s\n", method, amount.Text(r.Pairs),
		amount.Text(r.Links), progress.Seconds(r.Seconds))
	if r.World != nil {
		fmt.Fprintf(&b, "from a %s world of %s nodes, %s, %d dimensions", r.World.Plan, amount.Text(r.World.Nodes),
			amount.Of(r.World.Fields, "field"), r.World.Dim)
		if r.World.Logged > 0 {
			fmt.Fprintf(&b, ", %.3g%% logged", 100*r.World.Logged)
		}
		if len(r.World.Violations) > 0 {
			b.WriteString("\n" + strings.TrimSpace(plain("in which the model's assumptions do not hold: "+
				strings.Join(r.World.Violations, ", "))))
		}
		b.WriteString("\n\n")
		r.printMarks(&b)
	} else {
		d := r.Dataset
		dimensions := "no vectors"
		if d.Dim > 0 {
			dimensions = fmt.Sprintf("%d dimensions", d.Dim)
		}
		fmt.Fprintf(&b, "from %s: %s nodes, %s links, %s, %s", d.Dir, amount.Text(d.Nodes),
			amount.Text(d.Links), amount.Of(d.Fields, "field"), dimensions)
		if d.Logged > 0 {
			fmt.Fprintf(&b, ", %s pairs logged", amount.Text(d.Logged))
		}
		b.WriteString("\n")
		if d.FieldsBy != "as given" {
			fmt.Fprintf(&b, "fields found by %s\n", d.FieldsBy)
		}
		l := d.SplitLinks
		fmt.Fprintf(&b, "split %s\n%s to learn from, %s for validation, %s for test", d.Split,
			amount.Of(l.Train, "link"), amount.Text(l.Validation), amount.Text(l.Test))
		if l.Unused > 0 {
			fmt.Fprintf(&b, ", %s unused", amount.Text(l.Unused))
		}
		b.WriteString("\n")
		if r.Held != nil {
			r.printHeld(&b)
		}
	}
	fmt.Fprintf(&b, "\n  objective %.4f", r.Objective)
	if r.Validation != 0 {
		fmt.Fprintf(&b, ", validation %.4f", r.Validation)
	}
	switch {
	case r.Epochs > 0:
		b.WriteString(", " + amount.Of(r.Epochs, "epoch"))
	case r.Iterations > 0 && r.Settings.Method == "bayes":
		b.WriteString(", " + amount.Of(r.Iterations, "round"))
	case r.Iterations > 0:
		b.WriteString(", " + amount.Of(r.Iterations, "iteration"))
	}
	r.printSearched(&b)
	r.printTrials(&b)
	r.printStarts(&b)
	r.printFindings(&b)
	for _, warning := range r.Warnings {
		if r.Findings != nil && slices.Contains(r.Findings.Verdict, warning.Message) {
			continue // said already
		}
		b.WriteString("\n" + wrap("warning: "+warning.Message))
	}
	if r.Certificate != nil {
		fmt.Fprintf(&b, "\nThe certificate\n")
		for _, sentence := range r.Certificate.Words() {
			b.WriteString(wrap("- " + sentence))
		}
	}
	if r.Model != "" {
		fmt.Fprintf(&b, "\nThe model is in %s\n", r.Model)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printMarks sets the model beside the truth.
func (r *fitReport) printMarks(b *strings.Builder) {
	t := r.Test
	fmt.Fprintf(b, "  %-34s %9s %9s\n", "on "+amount.Text(t.Pairs)+" other pairs", "model", "truth")
	for _, row := range []struct {
		name  string
		value beside
		means string
	}{
		{"mean ŷ of these, P(link | shown)", t.Link, ""},
		{"mean π̂ of these, one field", t.Same, ""},
		{"mean π̂ of these, two fields", t.Cross, ""},
		{"AUC for relevance", t.AUC, "higher is better"},
		{"recall of the relevant at ŷ ≥ ½", t.Recall, "higher is better"},
		{"risk, log-loss", t.Risk, "lower is better"},
		{"naive risk", t.Naive, "judged by links seen"},
	} {
		// π̂ is one column wide and two runes
		pad := 34 + strings.Count(row.name, "\u0302")
		fmt.Fprintf(b, "%s\n", strings.TrimRight(fmt.Sprintf("  %-*s %9s %9s   %s", pad, row.name,
			fourDigits(row.value.Model), fourDigits(row.value.Truth), row.means), " "))
	}
}

// printHeld judges the model by held-out links. Where the scale of π̂ is not known, only ratios are shown.
func (r *fitReport) printHeld(b *strings.Builder) {
	h := r.Held
	fmt.Fprintf(b, "\n  on %s held-out pairs, %s of them linked\n", amount.Text(h.Pairs), amount.Text(h.Links))
	type row struct {
		name, value, means string
	}
	rows := []row{
		{"AUC of ŷ on observed links", fourDigits(h.AUC), "not shown counts as irrelevant"},
		{"AUC of π̂ŷ on observed links", fourDigits(h.Seen), ""},
	}
	scale := r.Findings != nil && r.Findings.Class == fit.Identified
	switch {
	case h.Same == nil || h.Cross == nil || r.Findings == nil || r.Findings.Class == fit.NoExposure:
	case scale:
		rows = append(rows, row{"mean ŷ of these, P(link | shown)", significant(h.Link), ""},
			row{"mean π̂ of these, one field", significant(h.Same), ""},
			row{"mean π̂ of these, two fields", significant(h.Cross), ""})
	case r.Findings.Ratio != nil:
		// The doctor's, over all pairs that the training pairs stand for. Among held-out pairs, of
		// which linked ones are drawn more often, the means have another ratio, and two numbers for
		// one thing would confuse.
		means := "scale " + r.Findings.Class.Label()
		if set := r.Findings.Set; set != nil && set.Ratio != nil {
			means = fmt.Sprintf("%.2g to %.2g by all assumptions", set.Ratio.Low, set.Ratio.High)
		}
		rows = append(rows, row{"π̂ of one field / π̂ of two", fmt.Sprintf("%.2g", r.Findings.Ratio.Value), means})
	}
	for _, row := range rows {
		pad := 34 + strings.Count(row.name, "\u0302")
		fmt.Fprintf(b, "%s\n", strings.TrimRight(fmt.Sprintf("  %-*s %9s   %s", pad, row.name, row.value, row.means),
			" "))
	}
}

// significant writes a number that may be far below 1 in three digits, or a dash for none.
func significant(x *float64) string {
	if x == nil {
		return "–"
	}
	return fmt.Sprintf("%.3g", *x)
}

// printFindings gives the doctor's verdict and what to do.
func (r *fitReport) printFindings(b *strings.Builder) {
	if r.Findings == nil || len(r.Findings.Verdict) == 0 {
		return
	}
	fmt.Fprintf(b, "\nThe doctor: %s\n", r.Findings.Class.Label())
	for _, sentence := range r.Findings.Verdict {
		b.WriteString(wrap("- " + sentence))
	}
	for _, advice := range r.Findings.Advice {
		b.WriteString(wrap("→ " + advice.Render(flagName)))
	}
	printSet(b, r.Findings.Set)
}

// printSet shows what each assumption claims that explains the links.
func printSet(b *strings.Builder, set *fit.ClaimSet) {
	if set == nil {
		return
	}
	fmt.Fprintf(b, "\n  %-16s %-16s of all pairs, by what explains the links\n", "mean ŷ, in %",
		"mean π̂, in %")
	line := func(link, propensity fit.SetRange, name string) {
		fmt.Fprintf(b, "  %-15s %-15s %s\n", claimed(link), claimed(propensity), name)
	}
	ruledOut := 0
	for _, m := range set.Members {
		if !m.Stays {
			ruledOut++
			continue
		}
		line(fit.SetRange{Low: m.MeanLink.Lower, High: m.MeanLink.Upper},
			fit.SetRange{Low: m.Propensity.Lower, High: m.Propensity.Upper}, m.Alternative.String())
	}
	all := "all of these"
	if set.Drawn != nil {
		fmt.Fprintf(b, "  %-15s %-15s %s\n", claimed(set.Drawn.Surely()), "", "what was drawn at random, at 99%")
		all = "what is claimed"
	}
	if set.Logged != nil {
		fmt.Fprintf(b, "  %-15s %-15s %s\n", "", claimed(set.Logged.Surely()), "the log, at 99%")
		all = "what is claimed"
	}
	line(set.MeanLink, set.Propensity, all)
	if ruledOut > 0 {
		fmt.Fprintf(b, "  %s not explain the links\n", amount.OneOrMore(ruledOut, "other assumption does",
			"other assumptions do"))
	}
}

// claimed writes a range of shares in percent.
func claimed(r fit.SetRange) string { return fmt.Sprintf("%.3g to %.3g", 100*r.Low, 100*r.High) }

// printSearched ends the line, and says how learning from all pairs went.
func (r *fitReport) printSearched(b *strings.Builder) {
	b.WriteString("\n")
	all := r.Searched
	if all == nil {
		return
	}
	fmt.Fprintf(b, "  all pairs were summed %s; the gradient went from %.2g to %.2g",
		amount.Of(all.Evaluations, "time"), all.Began.Gradient, all.Ended.Gradient)
	if all.Ended.Errors > 0 {
		fmt.Fprintf(b, ",\n  the distance from the optimum from %.2g to %.2g standard errors", all.Began.Errors,
			all.Ended.Errors)
	}
	b.WriteString("\n")
}

// printTrials shows what the search tried.
func (r *fitReport) printTrials(b *strings.Builder) {
	if len(r.Trials) == 0 {
		return
	}
	steps := "epochs"
	if r.Settings.Optimiser != "adam" {
		steps = "iterations"
	}
	fmt.Fprintf(b, "\n  validation %10s   tried, lower is better\n", steps)
	for _, t := range r.Trials {
		row := fmt.Sprintf("  %10.5f %10d   %v", t.Validation, t.Steps, t)
		if t.Diverged {
			row = fmt.Sprintf("  %10s %10s   %v", "diverged", "", t)
		}
		if t.Chosen {
			row += "  ← chosen"
		}
		fmt.Fprintln(b, row)
	}
}

// printStarts shows whether the starts agree.
func (r *fitReport) printStarts(b *strings.Builder) {
	if len(r.Starts) < 2 {
		return
	}
	b.WriteString("\n  started at π̂ =  objective    mean ŷ   mean π̂, one field   two fields\n")
	if r.Searched != nil {
		defer b.WriteString("  (by the sample, from which learning from all pairs begins)\n")
	}
	low, high := r.Starts[0].MeanLink, r.Starts[0].MeanLink
	for _, s := range r.Starts {
		fmt.Fprintf(b, "  %14.3g %10.4f %9s %18s %12s\n", s.Propensity, s.Objective, positive(s.MeanLink),
			positive(s.MeanSame), positive(s.MeanCross))
		low, high = min(low, s.MeanLink), max(high, s.MeanLink)
	}
	if low > 0 {
		percent := fmt.Sprintf("%.2g", 100*(high/low-1))
		if high > 1.1*low {
			percent = fmt.Sprintf("%.0f", 100*(high/low-1))
		}
		fmt.Fprintf(b, "  mean ŷ differs by %s%% between them\n", percent)
	}
}

// figure writes a number in four digits, or a dash for none.
func fourDigits(x *float64) string {
	if x == nil {
		return "–"
	}
	return fmt.Sprintf("%.4f", *x)
}

// positive writes the mean of positive numbers; 0 stands for no numbers.
func positive(mean float64) string {
	if mean == 0 {
		return fourDigits(nil)
	}
	return fourDigits(&mean)
}
