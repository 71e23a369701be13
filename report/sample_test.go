package report_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"unseen/figure"
	"unseen/fit"
	"unseen/hint"
	"unseen/report"
	"unseen/study"
	"unseen/world"
)

// sample is a page with every kind of element and figure, from invented numbers.
//
// Long because it is one literal.
func sample() *report.Page {
	src := rand.New(rand.NewPCG(1, 2))
	var fields []string
	for _, f := range world.FieldsOfStudy() {
		fields = append(fields, f.Name)
	}
	truth, learned := make([][]float64, len(fields)), make([][]float64, len(fields))
	for i := range fields {
		for j := range fields {
			p := .1 + .2*src.Float64()
			if i == j {
				p = .7 + .3*src.Float64()
			}
			truth[i] = append(truth[i], p)
			learned[i] = append(learned[i], math.Min(1, p*math.Exp(.25*src.NormFloat64())))
		}
	}
	learned[3][5] = math.NaN()

	curve := func(name string, power float64) figure.Series {
		l := figure.Series{Name: name}
		for k := range 1001 {
			x := float64(k) / 1000
			l.X, l.Y = append(l.X, x), append(l.Y, math.Pow(x, power))
		}
		return l
	}
	calibration := func(name string, slope float64) figure.Series {
		l := figure.Series{Name: name}
		for k := range 10 {
			x := (float64(k) + .5) / 10
			l.X, l.Y = append(l.X, x), append(l.Y, 1/(1+math.Exp(-math.Log(x/(1-x))-slope)))
		}
		return l
	}
	rounds := func(name string, towards float64) figure.Series {
		l := figure.Series{Name: name}
		share := .4
		for k := range 20 {
			l.X, l.Y = append(l.X, float64(k)), append(l.Y, share)
			l.Low, l.High = append(l.Low, share-.03-.001*float64(k)), append(l.High, share+.03+.001*float64(k))
			share += (towards - share) * .2
		}
		return l
	}
	reference := figure.Series{Name: "what relevance alone would give", X: figure.Values{0, 19},
		Y: figure.Values{.42, .42}, Reference: true}
	known := func(x float64) *float64 { return &x }

	d := &report.Page{Title: "A library that learns what it never showed", Summary: []string{
		"Judged by the links that happen to exist, the better recommender loses. Judged by all that is " +
			"relevant, it wins: its true risk is 0.16 instead of 0.41.",
		"Papers of small fields were hidden most: they are shown to other fields one time in five, and half of " +
			"them rise by more than 20 places.",
	}}
	d.Add(
		report.RiskChart{
			Title: "Which recommender is better?", What: "risk (log-loss, lower is better)",
			Text: []string{"Every risk is judged on 20,000 pairs that neither recommender has seen."},
			Rows: []report.RiskRow{
				{Group: "naive", Name: "R_naive", Estimate: .162, Lower: .155, Upper: .169, Truth: known(.412)},
				{Group: "naive", Name: "R_w", Estimate: .401, Lower: .372, Upper: .430, Truth: known(.412)},
				{Group: "naive", Name: "R_PU", Estimate: .396, Lower: .331, Upper: .461, Truth: known(.412)},
				{Group: "naive", Name: "R_AP", Estimate: .408, Lower: .391, Upper: .425, Truth: known(.412)},
				{Group: "corrected", Name: "R_naive", Estimate: .239, Lower: .230, Upper: .248, Truth: known(.164)},
				{Group: "corrected", Name: "R_w", Estimate: .161, Lower: .148, Upper: .174, Truth: known(.164)},
				{Group: "corrected", Name: "R_PU", Estimate: .171, Lower: .130, Upper: .212, Truth: known(.164)},
				{Group: "corrected", Name: "R_AP", Estimate: .163, Lower: .155, Upper: .171, Truth: known(.164)},
			},
		},
		report.HeatPair{Title: "Who is shown to whom", Labels: fields, True: truth, Learned: learned},
		report.Curves{Title: "How well relevance is predicted", Curves: []report.Curve{
			{Kind: report.ROC, Lines: []figure.Series{curve("naive", .35), curve("corrected", .12),
				curve("the truth itself", .1)}},
			{Kind: report.Calibration, Lines: []figure.Series{calibration("naive", 1.3), calibration("corrected", .1)}},
		}},
		report.LoopChart{Title: "What becomes of it", Lines: []figure.Series{rounds("naive", .95),
			rounds("corrected", .45), reference}},
		report.HiddenTable{Title: "What nobody was shown", Papers: []report.HiddenPaper{
			{"Sparse recovery of sediment cores <script>alert(1)</script>", "Geology", 212, 181, 4, .91, .12,
				"Relevant to Mathematics, which sees one Geology paper in eight."},
			{"Optimal transport for glaciers & ice", "Environmental Science", 120, 96, 11, .74, .18,
				"Its own field cites it; others never see it."},
		}},
		report.DoctorVerdict{Fields: append([]string{"unknown"}, fields[:6]...), Findings: findings()},
		report.StudySection(&study.Result{
			Study: "sizes", Title: "How the error falls with more data",
			Options: study.Options{Seeds: []uint64{2001, 2002}, Preset: "safe", Quick: true},
			Setting: []string{"Worlds with known truth."}, Warnings: []string{"pu, seed 2002: training diverged."},
			Seconds: 12.3,
			Claims: []study.Claim{
				{Statement: "the error of π̂ falls with the number of pairs", Verdict: study.Reproduced,
					Evidence: "From 55% at 32,000 pairs to 9% at 960,000."},
				{Statement: "R_w, R_PU and R_AP have a higher AUC than MLE", Verdict: study.NotReproduced,
					Evidence: "In the mean −0.02, +0.01 and +0.00 points."},
				{Statement: "precision rises", Verdict: study.Partly, Evidence: "In 3 of 5 worlds."},
				{Statement: "bayes: AUC points over naive ≥ 2.00", Verdict: study.Met, Evidence: "In the mean 3.10."},
				{Statement: "bayes: % error of π̂ ≤ 35.00", Verdict: study.Missed, Evidence: "In the mean 61."},
			},
			Figures: []figure.Figure{
				{Name: "error", Title: "Error of π̂",
					Caption: "Both axes are logarithmic: a straight line is a power law.",
					Lines: &figure.LineChart{XTitle: "pairs", YTitle: "relative error of π̂", LogX: true, LogY: true,
						Series: []figure.Series{
							{Name: "mle", X: figure.Values{32e3, 1e5, 320e3, 960e3},
								Y: figure.Values{.55, .3, .16, .09}},
							{Name: "bayes", X: figure.Values{32e3, 1e5, 320e3, 960e3},
								Y: figure.Values{.31, .2, math.NaN(), .08}},
						}}},
				{Name: "bars", Title: "What each field gains", Caption: "Small fields gain most.",
					Bars: &figure.BarChart{YTitle: "points of recall over naive",
						Groups: []string{"Computer Science", "Environmental Science and Ecology", "Art"},
						Series: []figure.BarSeries{
							{Name: "mle", Values: figure.Values{12.1, 31.5, -2}, Errors: figure.Values{1, 3, 1}},
							{Name: "bayes", Values: figure.Values{14, math.NaN(), 40.2}},
						}}},
				{Name: "empty", Title: "Nothing came out", Lines: &figure.LineChart{}},
			},
			Tables: []figure.Table{{Name: "t", Title: "Mean ± sd over 2 seeds", Head: "method",
				Columns: []figure.Column{
					{Name: "AUC", Digits: 2, Better: "higher", Means: "area under the ROC curve, %"},
					{Name: "risk", Digits: 4, Better: "lower", Means: "true risk"}, {Name: "verdict"}},
				Rows: []figure.TableRow{{Name: "mle", Cells: []figure.Cell{figure.Spread(96.42, .31),
					figure.Spread(.1637, .002), figure.Text("fine")}},
					{Name: "naive", Cells: []figure.Cell{figure.Number(84.45), {}, figure.Text("✗")}}}}},
		}),
		report.Section{Title: "Many columns", Tables: []figure.Table{wideTable(false), wideTable(true)}},
	)
	return d
}

// wideTable does not fit on any screen.
func wideTable(detail bool) figure.Table {
	t := figure.Table{Name: "wide", Title: "Seed by seed", Head: "method", Detail: detail,
		Rows: []figure.TableRow{{Name: "naive, with a name of some length"}, {Name: "bayes"}}}
	for seed := range 20 {
		t.Columns = append(t.Columns, figure.Column{Name: fmt.Sprint(2001 + seed), Digits: 2, Better: "higher"})
		for i := range t.Rows {
			t.Rows[i].Cells = append(t.Rows[i].Cells, figure.Spread(90+float64(seed), .25))
		}
	}
	return t
}

func findings() *fit.Findings {
	f := &fit.Findings{
		Class: fit.Weak,
		Verdict: []string{"The scale is weakly identified: 16.9% of all pairs are relevant, but that may be off " +
			"by 27%.", "Pairs of one field are shown 3.8 times as often as pairs of two (3.3 to 4.5)."},
		Advice: []hint.Note{hint.Notef("log exposures on a small random share of the pairs and fit again"),
			hint.Notef("or set %v to what is known from elsewhere, such as same=0.8±0.1", hint.Setting("anchors"))},
		Support:  fit.Support{Pairs: 12000, Links: 504, Sources: 1480, Effective: 9120, Cells: 36, Thin: 5},
		MeanLink: fit.Scale{Value: .169, Error: .1, Lower: .133, Upper: .215},
		Logged: []fit.LoggedTest{{Group: "all", Pairs: 600, Shown: .31, Expected: .29, Z: 1.1, Allowing: .8},
			{Group: "same", Pairs: 200, Shown: .8, Expected: .75, Z: 1.6}},
	}
	for i := range uint16(6) {
		for j := range uint16(6) {
			p := .2
			if i == j {
				p = .8
			}
			f.Cells = append(f.Cells, fit.CellFinding{Source: i + 1, Target: j + 1, Pairs: 300, Links: 20,
				Propensity: p + .01*float64(i+j), Lower: p - .05, Upper: p + .15, Relative: fit.Ratio{Value: p / .3}})
		}
	}
	for _, factor := range []float64{1, .5, .8, 1.25, 2} {
		f.Ridge = append(f.Ridge, fit.RidgePoint{Factor: factor, Propensity: .3 * math.Sqrt(factor),
			MeanLink: .169 / math.Sqrt(factor), Risk: .16 + .02*math.Log(factor),
			Likelihood: -3 * math.Abs(math.Log(factor))})
	}
	return f
}
