package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"unseen/figure"
	"unseen/fit"
	"unseen/study"
)

// DoctorVerdict is how far a fit can be trusted, why, and what would help.
type DoctorVerdict struct {
	Name     string // "" means doctor
	Title    string // "" means The doctor's verdict
	Findings *fit.Findings
	Fields   []string // names by number; a field without a name is called by its number
}

// Section has the verdict first, then the numbers behind it.
func (d DoctorVerdict) Section() Section {
	s := Section{Name: cmp.Or(d.Name, "doctor"), Title: cmp.Or(d.Title, "The doctor's verdict")}
	const statement = "How far links separate relevance from exposure"
	f := d.Findings
	if f == nil {
		s.Claims = []study.Claim{{Statement: statement, Verdict: study.Verdict(fit.NotChecked),
			Evidence: "The doctor has not examined this model. Fit it again with this version."}}
		return s
	}
	s.Claims = []study.Claim{{Statement: statement, Verdict: study.Verdict(f.Class.Label()),
		Evidence: strings.Join(f.Verdict, " ")}}
	for _, advice := range f.Advice {
		s.Advice = append(s.Advice, advice.String())
	}
	if f.Set != nil {
		s.Figures = append(s.Figures, claims(f.Set)...)
		s.Tables = append(s.Tables, claimTable(f.Set))
	} else if p := f.MeanLink; p.Upper > p.Lower {
		s.Figures = append(s.Figures, figure.Figure{
			Name: "mean-link", Title: "How common relevance is",
			Caption: "Mean ŷ over all pairs: the share of pairs that would be links if everything had been " +
				"shown, with its 95% interval.",
			Intervals: &figure.IntervalChart{XTitle: "mean ŷ",
				Rows: []figure.IntervalRow{{Name: "mean ŷ", Estimate: figure.Value(p.Value), Low: figure.Value(p.Lower),
					High: figure.Value(p.Upper)}}},
		})
	}
	if len(f.Cells) > 0 {
		s.Figures = append(s.Figures, d.propensities())
		s.Tables = append(s.Tables, d.cells())
	}
	if len(f.Ridge) > 1 {
		s.Figures = append(s.Figures, ridge(f.Ridge))
		s.Tables = append(s.Tables, ridgeTable(f.Ridge))
	}
	if len(f.Logged) > 0 {
		s.Tables = append(s.Tables, logged(f.Logged))
	}
	u := f.Support
	s.FactsTitle = "Data behind the verdict"
	s.Facts = []Fact{
		{"training pairs", number(float64(u.Pairs), 0)}, {"of them linked", number(float64(u.Links), 0)},
		{"sources", number(float64(u.Sources), 0)},
		{"equally weighted pairs with the same information", number(u.Effective, 0)},
		{"pairs of fields that occur", fmt.Sprintf("%d, of which %d have very few links", u.Cells, u.Thin)},
		{"pairs whose exposure is logged", number(float64(u.Logged), 0)},
	}
	return s
}

// claims are what each assumption says of relevance and exposure, one below the other: what moves and what stays.
func claims(set *fit.ClaimSet) []figure.Figure {
	link, exposure := &figure.IntervalChart{XTitle: "mean ŷ"}, &figure.IntervalChart{XTitle: "mean π̂"}
	add := func(chart *figure.IntervalChart, name string, v fit.MemberValue) {
		chart.Rows = append(chart.Rows, figure.IntervalRow{Name: name, Estimate: figure.Value(v.Value),
			Low: figure.Value(v.Lower), High: figure.Value(v.Upper)})
	}
	for _, m := range set.Members {
		if m.Stays {
			add(link, m.Alternative.String(), m.MeanLink)
			add(exposure, m.Alternative.String(), m.Propensity)
		}
	}
	if set.Drawn != nil {
		add(link, "what was drawn at random and shown", *set.Drawn)
	}
	if set.Logged != nil {
		add(exposure, "the log", *set.Logged)
	}
	side := ""
	if set.OneSided && set.Logged == nil {
		side = " Only the upper end of relevance and the lower end of exposure are known: nothing was logged, " +
			"and links " +
			"do not show whether the most relevant pairs are linked each time that they are shown."
	}
	return []figure.Figure{
		{Name: "claims-relevance", Title: "How common relevance is, by what may explain the links", Intervals: link,
			Caption: "Mean ŷ over all pairs: the share of pairs that would be links if everything had been shown. " +
				"Each row is an assumption that explains the links as well as the model does, with its 95% " +
				"interval, in which a tenth of how far it moves the mean counts as an error." + side},
		{Name: "claims-exposure", Title: "How often pairs are shown, by what may explain the links",
			Intervals: exposure,
			Caption: "Mean π̂ over all pairs, by the same assumptions. Where the rows agree, the links decide; " +
				"where they do " +
				"not, the assumption does."},
	}
}

// claimTable has every assumption, also those that the links rule out.
func claimTable(set *fit.ClaimSet) figure.Table {
	t := figure.Table{Name: "assumptions", Title: "Every assumption that was compared", Head: "assumption",
		Detail: true,
		Columns: []figure.Column{
			{Name: "explains the links"},
			{Name: "log-likelihood", Digits: 1, Means: "cross-fitted, less that of the reference: " +
				set.Reference.String()},
			{Name: "standard error", Digits: 1}, {Name: "mean ŷ", Digits: 4}, {Name: "mean π̂", Digits: 4},
			{Name: "ratio", Digits: 2, Means: "π̂ of pairs of one field, divided by that of pairs of two"},
			{Name: "R_AP", Digits: 4},
		}}
	for _, m := range set.Members {
		stays, ratio := "no", figure.Cell{}
		if m.Stays {
			stays = "yes"
		}
		if m.Ratio != nil {
			ratio = figure.Number(m.Ratio.Value)
		}
		t.Add(m.Alternative.String(), figure.Text(stays), figure.Number(m.Difference), figure.Number(m.Error),
			figure.Number(m.MeanLink.Value), figure.Number(m.Propensity.Value), ratio, figure.Number(m.Risk.Value))
	}
	return t
}

func (d DoctorVerdict) field(i uint16) string {
	if int(i) < len(d.Fields) && d.Fields[i] != "" {
		return d.Fields[i]
	}
	return fmt.Sprintf("field %d", i)
}

// propensities is π̂ of every ordered pair of fields that occurs.
func (d DoctorVerdict) propensities() figure.Figure {
	var rows, columns []uint16
	for _, c := range d.Findings.Cells {
		rows, columns = append(rows, c.Source), append(columns, c.Target)
	}
	slices.Sort(rows)
	slices.Sort(columns)
	rows, columns = slices.Compact(rows), slices.Compact(columns)
	values := make([]figure.Values, len(rows))
	for i := range values {
		values[i] = slices.Repeat(figure.Values{math.NaN()}, len(columns))
	}
	for _, c := range d.Findings.Cells {
		i, _ := slices.BinarySearch(rows, c.Source)
		j, _ := slices.BinarySearch(columns, c.Target)
		values[i][j] = c.Propensity
	}
	h := &figure.HeatMap{RowTitle: "field of the source", ColumnTitle: "field of the target", Values: values, Low: 0,
		High: 1}
	for _, i := range rows {
		h.Rows = append(h.Rows, d.field(i))
	}
	for _, j := range columns {
		h.Columns = append(h.Columns, d.field(j))
	}
	return figure.Figure{
		Name: "propensity", Title: "Who is shown to whom: π̂ by field", Heat: h,
		Caption: "Each cell is the estimated chance that a node of the row's field is shown one of the " +
			"column's field. A strong diagonal means that people mostly see their own field.",
	}
}

func (d DoctorVerdict) cells() figure.Table {
	t := figure.Table{Name: "propensities", Title: "Every pair of fields", Head: "source → target", Detail: true,
		Columns: []figure.Column{
			{Name: "pairs"}, {Name: "links"}, {Name: "π̂", Digits: 3}, {Name: "from", Digits: 3},
			{Name: "to", Digits: 3},
			{Name: "relative", Digits: 2, Means: "π̂ divided by the mean over all pairs, at equal vectors"},
		}}
	for _, c := range d.Findings.Cells {
		low, high := figure.Cell{}, figure.Cell{}
		if c.Upper > c.Lower {
			low, high = figure.Number(c.Lower), figure.Number(c.Upper)
		}
		t.Add(d.field(c.Source)+" → "+d.field(c.Target),
			figure.Number(c.Pairs), figure.Number(c.Links), figure.Number(c.Propensity), low, high,
			figure.Number(c.Relative.Value))
	}
	return t
}

func sorted(points []fit.RidgePoint) []fit.RidgePoint {
	return slices.SortedFunc(slices.Values(points),
		func(a, b fit.RidgePoint) int { return cmp.Compare(a.Factor, b.Factor) })
}

// ridge shows what would change if all exposure were estimated too high or too low by a factor.
func ridge(points []fit.RidgePoint) figure.Figure {
	link, propensity, risk := figure.Series{Name: "mean ŷ"}, figure.Series{Name: "mean π̂"},
		figure.Series{Name: "risk R_AP"}
	fitted := fittedPoint(points)
	for _, p := range sorted(points) {
		for _, l := range []struct {
			line  *figure.Series
			share float64
		}{{&link, p.MeanLink / fitted.MeanLink}, {&propensity, p.Propensity / fitted.Propensity},
			{&risk, p.Risk / fitted.Risk}} {
			l.line.X, l.line.Y = append(l.line.X, p.Factor), append(l.line.Y, l.share)
		}
	}
	return figure.Figure{
		Name: "ridge", Title: "If all exposure were over- or underestimated",
		Lines: &figure.LineChart{XTitle: "odds of every π̂ multiplied by",
			YTitle: "value relative to the fit", LogX: true, LogY: true,
			Series: []figure.Series{link, propensity, risk}},
		Caption: "Mean ŷ and the risk if the odds of every exposure were larger or smaller by a factor, with ŷ " +
			"fitted again. Where the likelihood, in the table below, hardly falls, links do not determine which " +
			"factor is right.",
	}
}

// fittedPoint is the fit itself. The others are shown as shares of it, since they are of different size, and computed
// from a sample of the pairs.
func fittedPoint(points []fit.RidgePoint) (fitted fit.RidgePoint) {
	for _, p := range points {
		if p.Factor == 1 {
			fitted = p
		}
	}
	return fitted
}

func ridgeTable(points []fit.RidgePoint) figure.Table {
	t := figure.Table{Name: "ridge", Title: "Along the ridge of the likelihood", Head: "factor", Detail: true,
		Columns: []figure.Column{
			{Name: "mean π̂", Digits: 3, Means: "divided by that at factor 1, as the others"},
			{Name: "mean ŷ", Digits: 3}, {Name: "R_AP", Digits: 3},
			{Name: "log-likelihood", Digits: 1, Means: "of the training pairs, minus that at factor 1"},
		}}
	fitted := fittedPoint(points)
	for _, p := range sorted(points) {
		t.Add(brief(p.Factor), figure.Number(p.Propensity/fitted.Propensity), figure.Number(p.MeanLink/fitted.MeanLink),
			figure.Number(p.Risk/fitted.Risk), figure.Number(p.Likelihood))
	}
	return t
}

func logged(tests []fit.LoggedTest) figure.Table {
	t := figure.Table{Name: "logged", Title: "Logged exposures against the estimate from links", Head: "pairs",
		Columns: []figure.Column{
			{Name: "logged"}, {Name: "shown", Digits: 3, Means: "share of the logged pairs that were shown"},
			{Name: "expected", Digits: 3, Means: "mean π̂ of the same pairs"},
			{Name: "z", Digits: 1, Means: "the difference in standard errors; beyond 3 it is hardly chance"},
			{Name: "z, adjusted", Digits: 1, Means: "the same, allowing for the fit's own uncertainty"},
		}}
	for _, l := range tests {
		allowing := figure.Cell{}
		if l.Allowing != 0 {
			allowing = figure.Number(l.Allowing)
		}
		group := l.Group
		switch group {
		case "same":
			group = "of one field"
		case "cross":
			group = "of two fields"
		}
		t.Add(group,
			figure.Number(l.Pairs), figure.Number(l.Shown), figure.Number(l.Expected), figure.Number(l.Z), allowing)
	}
	return t
}
