package report

import (
	"fmt"
	"math"

	"unseen/figure"
	"unseen/recommend"
)

// DialSections are the sections about what diversity and exploration cost in recall.
func DialSections(d *recommend.Dial) []Section {
	recall := fmt.Sprintf("Recall@%d", d.K)
	lines := &figure.LineChart{XTitle: "entropy of the fields of a list, nats", YTitle: recall}
	table := figure.Table{Name: "dial", Title: "Every setting", Head: "setting", Columns: []figure.Column{
		{Name: recall, Means: "share of a node's links in its list", Digits: 4, Better: "higher"},
		{Name: "95% interval"},
		{Name: "entropy", Means: "of the fields of a list, nats", Digits: 3, Better: "higher"},
		{Name: "interval", Means: "95%"},
		{Name: "lost", Means: "recall less than the unchanged model", Digits: 4},
		{Name: "of it", Means: "95% interval"},
		{Name: "found", Means: "entropy of the fields of the links in a list, over lists with any", Digits: 3},
	}}
	cost := &figure.IntervalChart{XTitle: "points of " + recall + " given up", Legend: "95% interval", Digits: 1}
	for _, c := range d.Curves {
		line := figure.Series{Name: c.Name}
		if c.LambdaR == nil && c.Name == "diversity" {
			line.Name = "diversity x"
		}
		for _, p := range c.Points {
			line.X, line.Y = append(line.X, p.Entropy.Value), append(line.Y, p.Recall.Value)
			if len(d.Curves) <= 2 { // more bands would overlap
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
				cost.Rows = append(cost.Rows, figure.IntervalRow{Name: name, Group: group,
					Estimate: figure.Value(100 * p.Loss.Value), Low: figure.Value(100 * p.Loss.Lower),
					High: figure.Value(100 * p.Loss.Upper)})
			}
			if c.LambdaR != nil {
				name = c.Name + ", " + name
			}
			found := figure.Text("–")
			if p.Found != nil && !math.IsNaN(p.Found.Value) {
				found = figure.Number(p.Found.Value)
			}
			table.Add(name,
				figure.Number(p.Recall.Value), figure.Text(fmt.Sprintf("%.3g to %.3g", p.Recall.Lower, p.Recall.Upper)),
				figure.Number(p.Entropy.Value),
				figure.Text(fmt.Sprintf("%.3g to %.3g", p.Entropy.Lower, p.Entropy.Upper)),
				figure.Number(p.Loss.Value), figure.Text(fmt.Sprintf("%.3g to %.3g", p.Loss.Lower, p.Loss.Upper)),
				found)
		}
		lines.Series = append(lines.Series, line)
	}
	return []Section{{
		Name: "dial", Title: "What the dial of " + d.Model + " costs",
		Text: append([]string{fmt.Sprintf("Lists of %d for %s held-out nodes of %s (%s), with %s links. A list has "+
			"only targets that are older than its node.", d.K, number(float64(d.Sources), 0),
			d.Dataset, d.Held, number(float64(d.Links), 0))}, d.Words()...),
		Warnings: d.Warnings,
		Figures: []figure.Figure{
			{Name: "dial", Title: recall + " against entropy",
				Caption: "Each mark is a setting. x rises from left to right where entropy rises with it; a band is " +
					"the 95% interval of recall over nodes.", Lines: lines},
			{Name: "cost", Title: "What each setting gives up",
				Caption: "Compared with the unchanged model, node by node, so these intervals are narrower than " +
					"the band above.", Intervals: cost},
		},
		Tables: []figure.Table{table},
		Notes: []string{"Recall is of observed links, and what was never shown could not be linked to: recall " +
			"favours what repeats past exposure. Intervals are bootstrapped over nodes."},
		Facts: []Fact{{"seed", fmt.Sprint(d.Seed)}, {"nodes", fmt.Sprintf("%d of %d", d.Sources, d.Of)}},
	}}
}
