package report

import (
	"cmp"
	"fmt"

	"unseen/figure"
	"unseen/recommend"
)

// BridgeSections are the sections about field pairs between which exposure hides links.
func BridgeSections(bridges []recommend.Bridge, notes []string) []Section {
	chart := &figure.IntervalChart{XTitle: "links per node that exposure hides", Legend: "95% interval", Digits: 2}
	table := figure.Table{Name: "bridges", Title: "All field pairs", Head: "from → to", Detail: true,
		Columns: []figure.Column{
			{Name: "gap", Means: "expected links per node, corrected minus naive", Digits: 3},
			{Name: "lower", Digits: 3}, {Name: "upper", Digits: 3},
			{Name: "corrected", Digits: 3}, {Name: "naive", Digits: 3}, {Name: "π̂", Means: "chance of being shown",
				Digits: 3},
			{Name: "links", Means: "that π̂ was learned from"},
		}}
	const most = 20
	for k, b := range bridges {
		name := b.Source + " → " + b.Target
		if k < most {
			chart.Rows = append(chart.Rows, figure.IntervalRow{Name: name, Estimate: figure.Value(b.Gap),
				Low: figure.Value(b.Lower), High: figure.Value(b.Upper)})
		}
		table.Add(name,
			figure.Number(b.Gap), figure.Number(b.Lower), figure.Number(b.Upper), figure.Number(b.Corrected),
			figure.Number(b.Naive), figure.Number(b.Propensity), figure.Number(b.Links))
	}
	sections := []Section{{
		Name: "bridges", Title: "Fields between which exposure hides links",
		Text: []string{"How many more links a node of one field would make to targets of another if everything were " +
			"shown, compared with a naive model. Where the interval is above 0, exposure hides links; where π̂ was " +
			"learned from few links, the gap is a guess."},
		Warnings: notes, Tables: []figure.Table{table},
		Figures: []figure.Figure{{Name: "bridges", Title: "The largest gaps",
			Caption: "Each dot is a field pair; the line is its 95% interval.", Intervals: chart}},
	}}
	for _, b := range bridges {
		if len(b.Reading) == 0 || len(sections) > most {
			continue
		}
		t := figure.Table{Name: fmt.Sprintf("reading-%d", len(sections)), Title: "What to read", Head: "target",
			Columns: []figure.Column{{Name: "for"}, {Name: "ŷ", Means: "chance of a link if shown", Digits: 2},
				{Name: "time"}}}
		for _, r := range b.Reading {
			t.Add(cmp.Or(r.Title, r.ID), figure.Text(cmp.Or(r.For.Title, r.For.ID)), figure.Number(r.Link),
				figure.Text(cmp.Or(r.Time, "–")))
		}
		sections = append(sections, Section{
			Name: fmt.Sprintf("bridge-%d", len(sections)), Title: b.Source + " → " + b.Target,
			Text: []string{fmt.Sprintf("%.0f%% of %s is shown to %s. Likely links that do not exist yet:",
				100*b.Propensity, b.Target, b.Source)},
			Tables: []figure.Table{t},
		})
	}
	return sections
}
