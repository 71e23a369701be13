package report_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"unseen/evaluate"
	"unseen/recommend"
	"unseen/report"
)

// A dial's file makes a page that says in words and figures what each setting costs.
func TestDialPage(t *testing.T) {
	t.Parallel()
	band := func(x float64) evaluate.Band { return evaluate.Band{Value: x, Lower: x - .01, Upper: x + .01} }
	ten := 10.
	d := recommend.Dial{
		Kind: recommend.DialKind, Model: "m.safetensors", Dataset: "papers", Held: "by age", K: 10, Sources: 300,
		Of: 400, Links: 900, Warnings: []string{"mind this"},
		Curves: []recommend.DialCurve{
			{Name: "diversity", Points: []recommend.DialPoint{
				{Recall: band(.3), Entropy: band(.5)},
				{DialSetting: recommend.DialSetting{Diversity: .3}, Recall: band(.279), Entropy: band(.9),
					Loss: band(.021), Gain: band(.4)},
			}},
			{Name: "exploration", Points: []recommend.DialPoint{{DialSetting: recommend.DialSetting{Explore: .2},
				Recall: band(.2), Entropy: band(.6), Loss: band(.1), Gain: band(.1)}}},
			{Name: "λ_R = 10", LambdaR: &ten,
				Points: []recommend.DialPoint{{Recall: band(.31), Entropy: band(.5), Loss: band(-.01)}}},
		},
	}
	raw, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "dial.json")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	doc, err := report.Open("", path)
	if err != nil {
		t.Fatal(err)
	}
	page := htmlOf(t, doc)
	for _, says := range []string{"What the dial of m.safetensors costs", "x = .3 gives up 2.1 points of Recall@10",
		"e = .2 gives up 10.0 points", "λ_R = 10, x = 0", "mind this", "300 of 400"} {
		if !strings.Contains(page, says) {
			t.Errorf("the page does not say %q", says)
		}
	}
	section := doc.Sections[0]
	if lines := section.Figures[0].Lines; len(lines.Series) != 3 || lines.Series[0].X[1] != .9 ||
		lines.Series[0].Y[1] != .279 {
		t.Errorf("%+v", section.Figures[0].Lines)
	}
	if rows := section.Figures[1].Intervals.Rows; len(rows) != 3 || rows[1].Estimate < 2.09 || rows[1].Estimate > 2.11 {
		t.Errorf("%+v", section.Figures[1].Intervals.Rows)
	}
	if len(section.Tables[0].Rows) != 4 {
		t.Errorf("%d rows", len(section.Tables[0].Rows))
	}
}

// Exposure stands beside merit for every model; groups too small to tell are named and not drawn.
func TestFairnessSection(t *testing.T) {
	t.Parallel()
	band := func(x float64) evaluate.Band { return evaluate.Band{Value: x, Lower: x / 2, Upper: 2 * x} }
	ratio := func(x float64) *evaluate.Band { b := band(x); return &b }
	fairness := func(x float64) *evaluate.Fairness {
		return &evaluate.Fairness{By: "press", K: 10, Sources: 50, Least: band(.5), Gini: band(.1), Distance: band(.2),
			Groups: []evaluate.GroupShare{
				{Name: "large", Nodes: 90, Exposure: band(.8 * x), Merit: band(.8), Ratio: ratio(x)},
				{Name: "tiny", Nodes: 1, Exposure: band(0), Merit: band(.001), Ratio: ratio(0), Few: true},
			}}
	}
	e := &evaluate.Evaluation{Kind: evaluate.EvaluationKind, Model: "m", Panel: &evaluate.Panel{},
		Fairness: fairness(1.2),
		Others:   []evaluate.Other{{Model: "n", Panel: &evaluate.Panel{}, Fairness: fairness(1.5)}}}
	var section *report.Section
	for _, s := range report.EvaluationSections(e) {
		if s.Name == "fairness" {
			section = &s
		}
	}
	if section == nil {
		t.Fatal("there is no section")
	}
	if rows := section.Figures[0].Intervals.Rows; len(rows) != 2 || rows[0].Name != "m" || rows[1].Name != "n" ||
		rows[1].Estimate != 1.5 || rows[0].Group != "large" {
		t.Errorf("%+v", section.Figures[0].Intervals.Rows)
	}
	if groups := section.Tables[1]; len(groups.Rows) != 2 || groups.Rows[1].Name != "tiny (?)" ||
		len(groups.Columns) != 4 {
		t.Errorf("%+v", groups)
	}
}
