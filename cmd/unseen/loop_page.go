package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"unseen/internal/amount"
)

// print draws the page for a terminal of 80 columns.
func (r *loopReport) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Forecast from the mean estimates of a fitted model, field by field:\n\n")
	for k, field := range r.Forecast.Fields {
		if k == maxShownFields {
			fmt.Fprintf(&b, "  … and %d more fields; --json has all\n", len(r.Forecast.Fields)-k)
			break
		}
		b.WriteString(wrap(strings.Join(field.Sentences("paper"), " ")))
	}
	for _, warning := range r.Forecast.Warnings {
		b.WriteString(wrap("warning: " + warning))
	}
	s := r.Settings
	fmt.Fprintf(&b, "\nThe loop itself: %s papers, %d recommendations to each, %s, %s\n",
		amount.Text(s.Papers), s.Shown, amount.Of(s.Rounds, "round"), amount.Of(len(r.Seeds), "world"))
	switches := map[bool]string{true: "the model sees the fields",
		false: "the model does not see the fields"}[s.SeesField] + "; " +
		map[bool]string{true: "what was not shown counts as not linked",
			false: "only what was shown is trained on"}[s.UnshownNegative]
	fmt.Fprintf(&b, "(%s)\n\n", switches)
	b.WriteString(r.chart())
	b.WriteString("\n")
	for _, m := range r.Methods {
		first, last := m.Bands[0], m.Bands[len(m.Bands)-1]
		fmt.Fprintf(&b, "  %-12s %3.0f%% of recommendations stay in the field, %3.0f%% in round %d\n", m.Method,
			100*first.Mean, 100*last.Mean, last.Round)
		if m.Kept > 0 {
			b.WriteString(wrap(fmt.Sprintf("warning: %s had nothing to learn from, so %s was not retrained",
				amount.Of(m.Kept, "round"), m.Method)))
		}
	}
	fmt.Fprintf(&b, "  %-12s %3.0f%% by relevance alone\n", "truth", 100*r.Truth.Mean)
	b.WriteString("\nThe forecast treats all papers of a field alike. The loop does not: lists run\n" +
		"out of good papers, and a model knows of fields only what the vectors show.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

const maxShownFields = 6

// chart draws the same-field share by round: a letter per method, a line where relevance alone is.
func (r *loopReport) chart() string {
	const height, width = 11, 66 // rows of a tenth each
	rounds := len(r.Methods[0].Bands)
	columns := min(rounds, width)
	wide := max(1, min(3, width/columns))
	cells := make([][]rune, height)
	for y := range cells {
		cells[y] = []rune(strings.Repeat(" ", columns*wide))
	}
	row := func(share float64) int { return height - 1 - int(math.Round(share*(height-1))) }
	for x := range columns * wide {
		cells[row(r.Truth.Mean)][x] = '·'
	}
	letters := letters(r.Methods)
	for k := len(r.Methods) - 1; k >= 0; k-- { // the first is on top
		for c := range columns {
			round := c
			if columns > 1 {
				round = c * (rounds - 1) / (columns - 1)
			}
			cells[row(r.Methods[k].Bands[round].Mean)][c*wide] = letters[k]
		}
	}
	var b strings.Builder
	for y, line := range cells {
		label := "    "
		if share := 100 - 10*y; share%50 == 0 {
			label = fmt.Sprintf("%3d%%", share)
		}
		fmt.Fprintf(&b, "  %s │%s\n", label, strings.TrimRight(string(line), " "))
	}
	fmt.Fprintf(&b, "       └%s\n", strings.Repeat("─", columns*wide))
	fmt.Fprintf(&b, "        round 1%*s\n", columns*wide-7, fmt.Sprint(rounds))
	b.WriteString("        ")
	for k, m := range r.Methods {
		fmt.Fprintf(&b, "%c %s   ", letters[k], m.Method)
	}
	b.WriteString("· relevance alone\n")
	return b.String()
}

// letters gives each method the first letter of its name that is free, or a digit.
func letters(methods []loopMethod) []rune {
	taken := map[rune]bool{}
	var out []rune
	for k, m := range methods {
		letter := rune('1' + k%9)
		for _, c := range m.Method {
			if !taken[c] && c != '-' {
				letter = c
				break
			}
		}
		taken[letter] = true
		out = append(out, letter)
	}
	return out
}
