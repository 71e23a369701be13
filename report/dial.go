package report

import (
	"fmt"
	"math"

	"unseen/recommend"
	"unseen/study"
)

// OfDial makes a section of what diversity and exploration cost in recall.
func OfDial(d *recommend.Dial) []Section {
	recall := fmt.Sprintf("Recall@%d", d.K)
	lines := &study.Lines{XTitle: "entropy of the fields of a list, nats", YTitle: recall}
	table := study.Table{Name: "dial", Title: "Every setting", Head: "setting", Columns: []study.Column{
		{Name: recall, Means: "share of a node's links in its list", Digits: 4, Better: "higher"},
		{Name: "95% interval"},
		{Name: "entropy", Means: "of the fields of a list, nats", Digits: 3, Better: "higher"},
		{Name: "interval", Means: "95%"},
		{Name: "lost", Means: "recall less than the model as it is", Digits: 4}, {Name: "of it", Means: "95% interval"},
		{Name: "found", Means: "entropy of the fields of the links in a list, over lists with any", Digits: 3},
	}}
	cost := &study.Intervals{XTitle: "points of " + recall + " given up", Legend: "95% interval", Digits: 1}
	for _, c := range d.Curves {
		line := study.Line{Name: c.Name}
		if c.LambdaR == nil && c.Name == "diversity" {
			line.Name = "diversity x"
		}
		for _, p := range c.Points {
			line.X, line.Y = append(line.X, p.Entropy.Value), append(line.Y, p.Recall.Value)
			if len(d.Curves) <= 2 { // more would hide one another
				line.Low, line.High = append(line.Low, p.Recall.Lower), append(line.High, p.Recall.Upper)
			}
			name := fmt.Sprintf("x = %.4g", p.Diversity)
			if p.Explore > 0 {
				name = fmt.Sprintf("explore %.4g", p.Explore)
			}
			group := ""
			if len(d.Curves) > 1 {
				group = c.Name
			}
			if c.LambdaR == nil {
				cost.Rows = append(cost.Rows, study.Interval{Name: name, Group: group,
					Estimate: study.Mark(100 * p.Loss.Value), Low: study.Mark(100 * p.Loss.Lower),
					High: study.Mark(100 * p.Loss.Upper)})
			}
			if c.LambdaR != nil {
				name = c.Name + ", " + name
			}
			found := math.NaN()
			if p.Found != nil {
				found = p.Found.Value
			}
			cell := study.Word("–")
			if !math.IsNaN(found) {
				cell = study.Number(found)
			}
			table.Rows = append(table.Rows, study.Row{Name: name, Cells: []study.Cell{
				study.Number(p.Recall.Value), study.Word(fmt.Sprintf("%.3g to %.3g", p.Recall.Lower, p.Recall.Upper)),
				study.Number(p.Entropy.Value),
				study.Word(fmt.Sprintf("%.3g to %.3g", p.Entropy.Lower, p.Entropy.Upper)),
				study.Number(p.Loss.Value), study.Word(fmt.Sprintf("%.3g to %.3g", p.Loss.Lower, p.Loss.Upper)), cell,
			}})
		}
		lines.Series = append(lines.Series, line)
	}
	return []Section{{
		Name: "dial", Title: "What the dial of " + d.Model + " costs",
		Text: append([]string{fmt.Sprintf("Lists of %d for %s nodes of %s that were held out (%s), with %s "+
			"links. A list has only targets that were there before its node.", d.K, number(float64(d.Sources), 0),
			d.Dataset, d.Held, number(float64(d.Links), 0))}, d.Words()...),
		Warnings: d.Warnings,
		Figures: []study.Figure{
			{Name: "dial", Title: recall + " against entropy",
				Caption: "Each mark is a setting, x rising from left to right where entropy rises with it; a " +
					"band is the 95% interval of recall over which nodes were looked at.", Lines: lines},
			{Name: "cost", Title: "What each setting gives up",
				Caption: "Compared with the model as it is, node by node, so that these intervals are narrower " +
					"than the band above.", Intervals: cost},
		},
		Tables: []study.Table{table},
		Notes: []string{"Recall is of links that happened, and what was never shown could not be linked to: " +
			"recall favours what repeats past exposure. Intervals are bootstrapped over nodes."},
		Facts: []Fact{{"seed", fmt.Sprint(d.Seed)}, {"nodes", fmt.Sprintf("%d of %d", d.Sources, d.Of)}},
	}}
}
