package report

import (
	"fmt"

	"unseen/recommend"
	"unseen/study"
)

// OfBridges makes sections of field pairs between which exposure hides links.
func OfBridges(bridges []recommend.Bridge, notes []string) []Section {
	figure := &study.Intervals{XTitle: "links per node that exposure hides", Legend: "95% interval", Digits: 2}
	table := study.Table{Name: "bridges", Title: "All field pairs", Head: "from → to", Detail: true,
		Columns: []study.Column{
			{Name: "gap", Means: "expected links per node, corrected less naive", Digits: 3},
			{Name: "lower", Digits: 3}, {Name: "upper", Digits: 3},
			{Name: "corrected", Digits: 3}, {Name: "naive", Digits: 3}, {Name: "π̂", Means: "chance of being shown",
				Digits: 3},
			{Name: "links", Means: "that π̂ was learned from"},
		}}
	const most = 20
	for k, b := range bridges {
		name := b.Source + " → " + b.Target
		if k < most {
			figure.Rows = append(figure.Rows, study.Interval{Name: name, Estimate: study.Mark(b.Gap),
				Low: study.Mark(b.Lower), High: study.Mark(b.Upper)})
		}
		table.Rows = append(table.Rows, study.Row{Name: name, Cells: []study.Cell{
			study.Number(b.Gap), study.Number(b.Lower), study.Number(b.Upper), study.Number(b.Corrected),
			study.Number(b.Naive), study.Number(b.Propensity), study.Number(float64(b.Links)),
		}})
	}
	sections := []Section{{
		Name: "bridges", Title: "Fields between which exposure hides links",
		Text: []string{"How many more links a node of one field would make to targets of another if " +
			"everything were shown, than a naive model expects. Where the interval lies above 0, exposure hides " +
			"links; where few links tell what was shown, it is a guess."},
		Warnings: notes, Tables: []study.Table{table},
		Figures: []study.Figure{{Name: "bridges", Title: "The largest gaps",
			Caption: "Each dot is a field pair; the line is its 95% interval.", Intervals: figure}},
	}}
	for _, b := range bridges {
		if len(b.Reading) == 0 || len(sections) > most {
			continue
		}
		t := study.Table{Name: fmt.Sprintf("reading-%d", len(sections)), Title: "What to read", Head: "target",
			Columns: []study.Column{{Name: "for"}, {Name: "ŷ", Means: "chance of a link if shown", Digits: 2},
				{Name: "time"}}}
		for _, r := range b.Reading {
			t.Rows = append(t.Rows, study.Row{Name: or(r.Title, r.ID),
				Cells: []study.Cell{study.Word(or(r.For.Title, r.For.ID)), study.Number(r.Link),
					study.Word(or(r.Time, "–"))}})
		}
		sections = append(sections, Section{
			Name: fmt.Sprintf("bridge-%d", len(sections)), Title: b.Source + " → " + b.Target,
			Text: []string{fmt.Sprintf("Of %s, %.0f%% is shown to %s. Pairs that are likely links and not made:",
				b.Target, 100*b.Propensity, b.Source)},
			Tables: []study.Table{t},
		})
	}
	return sections
}
