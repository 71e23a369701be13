package report

import (
	"cmp"
	"fmt"
	"math"

	"unseen/figure"
)

// RiskChart is estimates of risks, or of other numbers, with their intervals and the truth where it is known.
type RiskChart struct {
	Name  string // "" means panel
	Title string
	Text  []string
	What  string // what is estimated, for the axis: "risk (log-loss)"
	Rows  []RiskRow

	Caption string // "" explains how to read it
}

// RiskRow is an estimate. Lower and Upper are its interval; if they are equal or NaN, there is none.
type RiskRow struct {
	Name     string
	Group    string // rows of one group stand together below its name: one recommender's risks
	Estimate float64
	Lower    float64
	Upper    float64
	Truth    *float64 // nil where it is not known
}

// Section draws the estimates and has their numbers as a table.
func (p RiskChart) Section() Section {
	f := figure.Figure{Name: "panel", Title: "Estimates and their intervals", Caption: p.Caption,
		Intervals: &figure.IntervalChart{XTitle: p.What}}
	t := figure.Table{Name: "panel", Title: "The numbers", Head: "judged by", Detail: true, Columns: []figure.Column{
		{Name: "estimate", Digits: 4}, {Name: "from", Digits: 4}, {Name: "to", Digits: 4}, {Name: "truth", Digits: 4},
		{Name: "truth inside"},
	}}
	known, inside := 0, 0
	for _, r := range p.Rows {
		row := figure.IntervalRow{Name: r.Name, Group: r.Group, Estimate: figure.Value(r.Estimate),
			Low: figure.Value(r.Lower), High: figure.Value(r.Upper)}
		truth, covers := figure.Cell{}, figure.Cell{}
		if r.Truth != nil {
			m := figure.Value(*r.Truth)
			row.Truth, truth = &m, figure.Number(*r.Truth)
			if r.Lower < r.Upper {
				known++
				covers = figure.Text("no")
				if r.Lower <= *r.Truth && *r.Truth <= r.Upper {
					inside++
					covers = figure.Text("yes")
				}
			}
		}
		f.Intervals.Rows = append(f.Intervals.Rows, row)
		name := r.Name
		if r.Group != "" {
			name = r.Group + ": " + name
		}
		t.Add(name, figure.Number(r.Estimate),
			figure.Number(r.Lower), figure.Number(r.Upper), truth, covers)
	}
	if f.Caption == "" {
		f.Caption = "Each dot is an estimate; its whiskers are the interval of its uncertainty."
		if known > 0 {
			f.Caption += fmt.Sprintf(" Diamonds are the truth: %d of %d intervals contain it.", inside, known)
		}
	}
	return Section{Name: cmp.Or(p.Name, "panel"), Title: p.Title, Text: p.Text, Figures: []figure.Figure{f},
		Tables: []figure.Table{t}}
}

// HeatPair is a true matrix beside the learned one, such as the propensities of ordered pairs of fields.
type HeatPair struct {
	Name          string // "" means heat
	Title         string
	Text          []string
	Labels        []string // of rows and columns
	RowTitle      string   // "" means field of the source
	ColumnTitle   string   // "" means field of the target
	True, Learned [][]float64
	Low, High     float64 // ends of the scale; both 0 means 0 to 1

	Caption string // "" explains how to read it
}

// Section draws both maps on one scale.
func (h HeatPair) Section() Section {
	if h.Low == 0 && h.High == 0 {
		h.High = 1
	}
	matrix := func(title string, values [][]float64) *figure.HeatMap {
		m := &figure.HeatMap{Title: title, RowTitle: cmp.Or(h.RowTitle, "field of the source"),
			ColumnTitle: cmp.Or(h.ColumnTitle, "field of the target"), Rows: h.Labels, Columns: h.Labels, Low: h.Low,
			High: h.High}
		for _, row := range values {
			m.Values = append(m.Values, row)
		}
		return m
	}
	heat := matrix("true", h.True)
	heat.Beside = matrix("learned", h.Learned)
	caption := h.Caption
	if caption == "" {
		caption = "Darker cells, or brighter ones on a dark screen, are larger. Both maps have one scale: where " +
			"they look alike, what was learned is right."
		if e, n := meanError(h.True, h.Learned); n > 0 {
			caption += fmt.Sprintf(" Over %d cells the mean absolute difference is %s.", n, brief(e))
		}
	}
	return Section{Name: cmp.Or(h.Name, "heat"), Title: h.Title, Text: h.Text,
		Figures: []figure.Figure{{Name: "pair", Title: "True and learned", Caption: caption, Heat: heat}}}
}

// meanError is the mean absolute difference of two matrices over the cells that both have.
func meanError(a, b [][]float64) (mean float64, n int) {
	for i := range min(len(a), len(b)) {
		for j := range min(len(a[i]), len(b[i])) {
			if d := math.Abs(a[i][j] - b[i][j]); finite(d) {
				mean += d
				n++
			}
		}
	}
	return mean / float64(max(n, 1)), n
}

// CurveKind is what a curve plots.
type CurveKind uint8

const (
	ROC             CurveKind = iota // x: false positive rate, y: true positive rate
	PrecisionRecall                  // x: recall, y: precision
	Calibration                      // x: mean prediction of a bin, y: share of it that is relevant
)

// Curve is curves of one kind, one per model.
type Curve struct {
	Kind  CurveKind
	Title string // "" means the kind's
	Lines []figure.Series

	Caption string // "" explains how to read it
}

func (c Curve) figure() figure.Figure {
	f := figure.Figure{Title: c.Title, Caption: c.Caption, Lines: &figure.LineChart{Series: c.Lines, Shares: true}}
	var title, caption string
	switch c.Kind {
	case PrecisionRecall:
		f.Name, title = "precision-recall", "Precision and recall"
		f.Lines.XTitle, f.Lines.YTitle = "recall: share of the relevant that is found",
			"precision: share of what is found that is relevant"
		caption = "The further to the upper right, the better."
	case Calibration:
		f.Name, title = "calibration", "Calibration"
		f.Lines.XTitle, f.Lines.YTitle, f.Lines.Diagonal = "predicted probability", "share that is relevant", true
		caption = "On the dotted diagonal a prediction means what it says. Above it relevance is " +
			"underestimated, below it overestimated."
		highest := 0.
		for _, l := range c.Lines {
			for _, x := range l.X {
				highest = math.Max(highest, x)
			}
		}
		if highest > 0 && highest < .2 { // on linear axes rare links would all lie in a corner
			f.Lines.Shares, f.Lines.LogX, f.Lines.LogY = false, true, true
			caption += " Both axes are logarithmic, and bins without a link are left out."
		}
	default:
		f.Name, title = "roc", "ROC"
		f.Lines.XTitle, f.Lines.YTitle, f.Lines.Diagonal = "false positive rate", "true positive rate", true
		caption = "The further to the upper left, the better; the dotted diagonal is guessing."
	}
	f.Title, f.Caption = cmp.Or(c.Title, title), cmp.Or(c.Caption, caption)
	return f
}

// Curves is ROC, precision-recall and calibration curves, side by side.
type Curves struct {
	Name   string // "" means curves
	Title  string
	Text   []string
	Curves []Curve
}

// Section draws the curves.
func (c Curves) Section() Section {
	s := Section{Name: cmp.Or(c.Name, "curves"), Title: c.Title, Text: c.Text}
	for _, curve := range c.Curves {
		s.Figures = append(s.Figures, curve.figure())
	}
	return s
}

// LoopChart follows, round by round, recommenders that are trained on what they recommended.
type LoopChart struct {
	Name   string // "" means loop
	Title  string
	Text   []string
	YTitle string          // "" means share of recommendations within the own field
	Lines  []figure.Series // over rounds; that of the truth is a Reference

	Caption string // "" explains how to read it
}

// Section draws the loop.
func (l LoopChart) Section() Section {
	caption := l.Caption
	if caption == "" {
		caption = "A rising line is a recommender that narrows: what it showed before, it shows more often. " +
			"Bands hold four of five repetitions."
	}
	return Section{Name: cmp.Or(l.Name, "loop"), Title: l.Title, Text: l.Text, Figures: []figure.Figure{{
		Name: "rounds", Title: "Round by round", Caption: caption,
		Lines: &figure.LineChart{XTitle: "round of training on what was recommended",
			YTitle: cmp.Or(l.YTitle, "share of recommendations within the own field"), Series: l.Lines},
	}}}
}

// HiddenTable lists nodes that exposure hides: relevant, rarely shown, and low in a naive ranking.
type HiddenTable struct {
	Name   string // "" means hidden
	Title  string
	Head   string // what the rows are; "" means paper
	Text   []string
	Papers []HiddenPaper
}

// HiddenPaper is a row of a HiddenTable.
type HiddenPaper struct {
	Title         string
	Field         string
	SeenRank      int     // by π̂ŷ, from 1
	NaiveRank     int     // from 1
	CorrectedRank int     // from 1
	Link          float64 // ŷ
	Propensity    float64 // π̂
	Reason        string  // in plain words
}

// Section has a row per paper.
func (h HiddenTable) Section() Section {
	head := cmp.Or(h.Head, "paper")
	t := figure.Table{Name: "papers", Title: "Hidden by exposure", Head: head, Columns: []figure.Column{
		{Name: "field"},
		{Name: "rank as seen", Means: "rank by π̂ŷ, the chance that a link is seen"},
		{Name: "naive rank", Means: "rank by a model that takes observed links at face value"},
		{Name: "corrected rank", Means: "rank by relevance"},
		{Name: "ŷ", Means: "chance of a link if shown", Digits: 2},
		{Name: "π̂", Means: "chance of being shown", Digits: 2},
		{Name: "why"},
	}}
	for _, p := range h.Papers {
		t.Add(p.Title,
			figure.Text(p.Field), figure.Number(p.SeenRank), figure.Number(p.NaiveRank),
			figure.Number(p.CorrectedRank),
			figure.Number(p.Link), figure.Number(p.Propensity), figure.Text(p.Reason))
	}
	return Section{Name: cmp.Or(h.Name, "hidden"), Title: h.Title, Text: h.Text, Tables: []figure.Table{t}}
}
