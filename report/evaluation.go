package report

import (
	"fmt"
	"math"
	"slices"

	"unseen/evaluate"
	"unseen/figure"
	"unseen/fit"
	"unseen/risk"
	"unseen/study"
)

// EvaluationSections are the sections about how good a model is on a dataset.
func EvaluationSections(e *evaluate.Evaluation) []Section {
	sections := []Section{risksSection(e), regionSection(e.Panel), observedSection(e)}
	if len(e.Ranks) > 0 {
		sections = append(sections, ranksSection(e))
	}
	if e.Fairness != nil {
		sections = append(sections, fairnessSection(e))
	}
	if e.Certificate != nil {
		sections = append(sections, certificateSection(e.Certificate))
	}
	return sections
}

// modelName names a model with its method.
func modelName(name, method string) string {
	if name == method || method == "" {
		return name
	}
	return name + " (" + method + ")"
}

// numberOrDash is a cell with a number, or a dash where it is nil.
func numberOrDash(x *float64) figure.Cell {
	if x == nil {
		return figure.Text("–")
	}
	return figure.Number(*x)
}

// risksSection compares the risks of all models.
func risksSection(e *evaluate.Evaluation) Section {
	chart := RiskChart{
		Name: "panel", Title: "The risk of " + e.Model, What: "risk (log-loss)",
		Text: []string{
			fmt.Sprintf("%s held-out pairs of %s, %s of them linked; split %s.", number(float64(e.Pairs), 0),
				e.Dataset, number(float64(e.Links), 0), e.Held),
			"The naive risk treats every missing link as irrelevant. R_w, R_PU and R_AP weight pairs by exposure. " +
				"Read R_AP first, because its masses are probabilities.",
		},
	}
	add := func(name, method string, p *evaluate.Panel) {
		for _, row := range p.Risks {
			chart.Rows = append(chart.Rows, RiskRow{
				Name: row.Label(), Group: modelName(name, method),
				Estimate: row.Risk.Interval.Estimate, Lower: row.Risk.Lower, Upper: row.Risk.Upper,
			})
		}
	}
	add(e.Model, e.Method, e.Panel)
	for _, o := range e.Others {
		add(o.Model, o.Method, o.Panel)
	}
	s := chart.Section()
	s.Text = append(s.Text, e.Allowed())
	s.Warnings = slices.Clone(e.Warnings)
	for k, o := range e.Others {
		d := e.Decided(k)
		s.Claims = append(s.Claims, study.Claim{
			Statement: fmt.Sprintf("%s compared with %s, by R_AP", e.Model, o.Model),
			Verdict:   study.Verdict(d.Preference), Evidence: d.Summary})
		s.Tables = append(s.Tables, differenceTable(fmt.Sprintf("difference-%d", k+1), e.Model, o))
	}
	s.Tables = append(s.Tables, estimatorTable(e.Panel))
	return s
}

func regionSection(p *evaluate.Panel) Section {
	return Section{
		Name: "region", Title: "If π̂ is wrong",
		Text: []string{"Suppose that every π̂ is off by a factor, while what links show, π·y, is right. The table " +
			"shows how much of the data still has π/(2−π) < π̂ < 1, where R_w and R_PU are less biased than the " +
			"naive risk, or the corresponding condition of R_AP; and the bias that the lemmas give each estimator of " +
			"the share of wrong decisions (0–1 loss)."},
		Tables: []figure.Table{regionTable(p)},
	}
}

// observedSection compares all models with the links that exist.
func observedSection(e *evaluate.Evaluation) Section {
	metrics := figure.Table{Name: "observed", Title: "Against observed links", Head: "model",
		Columns: []figure.Column{
			{Name: "AUC of ŷ", Digits: 4, Better: "higher"}, {Name: "AUC of π̂ŷ", Digits: 4, Better: "higher"},
			{Name: "AP of ŷ", Digits: 4, Better: "higher"}, {Name: "AP of π̂ŷ", Digits: 4, Better: "higher"},
		}}
	var roc, calibration []figure.Series
	add := func(name, method string, o evaluate.Observed) {
		metrics.Add(modelName(name, method), numberOrDash(o.AUC), numberOrDash(o.AUCSeen), numberOrDash(o.AP),
			numberOrDash(o.APSeen))
		roc = append(roc, figure.Series{Name: name, X: o.ROC.X, Y: o.ROC.Y})
		calibration = append(calibration, figure.Series{Name: name, X: o.Calibration.X, Y: o.Calibration.Y})
	}
	add(e.Model, e.Method, e.Observed)
	for _, o := range e.Others {
		add(o.Model, o.Method, o.Observed)
	}
	s := Curves{
		Name: "observed", Title: "Against observed links",
		Text: []string{"Here what was never shown counts as irrelevant, which rewards a model that repeats past " +
			"exposure. ŷ is the chance of a link if shown, π̂ŷ the chance of seeing one; the calibration is of π̂ŷ."},
		Curves: []Curve{{Kind: ROC, Lines: roc}, {Kind: Calibration, Lines: calibration}},
	}.Section()
	s.Tables = append(s.Tables, metrics)
	return s
}

// mostGroups is the number of groups that the fairness chart shows.
const mostGroups = 15

// fairnessSection compares what groups are shown with their merit, for all models.
func fairnessSection(e *evaluate.Evaluation) Section {
	f := e.Fairness
	models := []modelFairness{{e.Model, f}}
	for _, o := range e.Others {
		if o.Fairness != nil {
			models = append(models, modelFairness{o.Model, o.Fairness})
		}
	}
	groups, chart := groupTable(f, models)
	s := Section{
		Name: "fairness", Title: "Exposure and merit of groups",
		Text: append([]string{fmt.Sprintf("Lists of %d for %s held-out nodes. Exposure is a group's share of "+
			"attention, where rank r of a list earns 1/log₂(1+r); merit is its share of ŷ over all candidates, by "+
			"%s for every model. A ratio of 1 is in proportion.", f.K, number(float64(f.Sources), 0), e.Model)},
			f.Words(e.Model)...),
		Figures: []figure.Figure{{Name: "fairness", Title: "Exposure by merit",
			Caption: "Above 1 a group is shown more than it is relevant, below 1 less.", Intervals: chart}},
		Tables: []figure.Table{disparityTable(models), groups},
		Notes: []string{"The best K by ŷ are never in exact proportion, because small differences of ŷ decide whole " +
			"ranks: compare models with each other, not only with 1. Groups marked (?) are due fewer than five " +
			"places in all, which is too few to judge, and are not drawn. Intervals account for which nodes were " +
			"sampled, not for the uncertainty of ŷ. The measures are sums of absolute differences, which come out a " +
			"little high when few nodes are sampled."},
	}
	if len(f.Groups) > mostGroups {
		s.Figures[0].Caption += fmt.Sprintf(" The %d groups with the most merit of %d.", mostGroups, len(f.Groups))
	}
	return s
}

type modelFairness struct {
	name string
	*evaluate.Fairness
}

func disparityTable(models []modelFairness) figure.Table {
	t := figure.Table{Name: "disparity", Title: "How far exposure is from merit", Head: "lists of",
		Columns: []figure.Column{
			{Name: "least / most", Means: "the lowest ratio as a share of the highest; 1 if all are served alike",
				Digits: 3, Better: "higher"},
			{Name: "Gini", Means: "of the ratios, groups weighted by merit; 0 if all are served alike", Digits: 3,
				Better: "lower"},
			{Name: "misplaced", Means: "share of attention that would have to go to other groups", Digits: 3,
				Better: "lower"},
			{Name: "95% interval", Means: "of what is misplaced"},
		}}
	for _, m := range models {
		t.Add(m.name, figure.Number(m.Least.Value), figure.Number(m.Gini.Value), figure.Number(m.Distance.Value),
			figure.Text(fmt.Sprintf("%.3g to %.3g", m.Distance.Lower, m.Distance.Upper)))
	}
	return t
}

// groupTable has a row per group, and a chart of the groups with the most merit.
func groupTable(f *evaluate.Fairness, models []modelFairness) (figure.Table, *figure.IntervalChart) {
	t := figure.Table{Name: "groups", Title: "Every " + f.By, Head: f.By, Columns: []figure.Column{
		{Name: "merit", Means: "share of ŷ by " + models[0].name, Digits: 4}, {Name: "nodes"},
	}}
	chart := &figure.IntervalChart{XTitle: "exposure / merit: 1 is in proportion", Legend: "95% interval", Digits: 2}
	shares := make([]map[string]evaluate.GroupShare, len(models))
	for k, m := range models {
		t.Columns = append(t.Columns, figure.Column{Name: "shown by " + m.name, Means: "share of attention", Digits: 4})
		shares[k] = map[string]evaluate.GroupShare{}
		for _, g := range m.Groups {
			shares[k][g.Name] = g
		}
	}
	for i, g := range f.Groups {
		row := []figure.Cell{figure.Number(g.Merit.Value), figure.Number(g.Nodes)}
		for k, m := range models {
			share := shares[k][g.Name]
			row = append(row, figure.Number(share.Exposure.Value))
			if i < mostGroups && share.Ratio != nil && !g.Few {
				chart.Rows = append(chart.Rows, figure.IntervalRow{Name: m.name, Group: g.Name,
					Estimate: figure.Value(share.Ratio.Value), Low: figure.Value(share.Ratio.Lower),
					High: figure.Value(share.Ratio.Upper)})
			}
		}
		name := g.Name
		if g.Few {
			name += " (?)"
		}
		t.Add(name, row...)
	}
	return t, chart
}

// ranksSection shows the ranks of held-out links.
func ranksSection(e *evaluate.Evaluation) Section {
	k := e.Ranks[0].K
	t := figure.Table{Name: "ranks", Title: "Ranks of held-out links", Head: "model, ranked by",
		Columns: []figure.Column{
			{Name: fmt.Sprintf("recall@%d", k), Means: "share of a source's links among its first", Digits: 4,
				Better: "higher"},
			{Name: "two fields", Means: "the same of links between two fields", Digits: 4, Better: "higher"},
			{Name: "MRR", Means: "mean reciprocal rank of the first link found", Digits: 4, Better: "higher"},
			{Name: "mean rank", Digits: 0, Better: "lower"},
			{Name: "entropy", Means: "of the fields of links found, in nats", Digits: 3},
			{Name: "other field", Means: "share of the first that are of another field", Digits: 3},
		}}
	chart := &figure.IntervalChart{XTitle: fmt.Sprintf("recall@%d less that of %s by ŷ", k, e.Model),
		Legend: "95% interval over sources", Digits: 4}
	add := func(name string, ranks []evaluate.Ranks) {
		for _, r := range ranks {
			name := name + " by " + string(r.By)
			t.Add(name, numberOrDash(r.Recall), numberOrDash(r.CrossRecall), numberOrDash(r.MRR),
				numberOrDash(r.MeanRank), numberOrDash(r.Entropy), numberOrDash(r.CrossShare))
			if d := r.Against; d != nil {
				chart.Rows = append(chart.Rows, figure.IntervalRow{Name: name, Estimate: figure.Value(d.Mean),
					Low: figure.Value(d.Lower), High: figure.Value(d.Upper)})
			}
		}
	}
	add(modelName(e.Model, e.Method), e.Ranks)
	for _, o := range e.Others {
		add(modelName(o.Model, o.Method), o.Ranks)
	}
	return Section{
		Name: "ranks", Title: "Ranked among all candidates",
		Text: []string{fmt.Sprintf("Each of %s held-out sources ranked every node that it could have linked to. The "+
			"links are observed ones: ranking by π̂ŷ repeats past exposure, so it finds more of them, and fewer "+
			"between two fields.", number(float64(e.Ranks[0].Sources), 0))},
		Tables: []figure.Table{t},
		Figures: []figure.Figure{{Name: "ranks", Title: "Against the first model",
			Caption:   "Each dot is a mean over sources; whiskers are its 95% interval over sources.",
			Intervals: chart}},
	}
}

// estimatorTable has the errors and biases of the estimators themselves.
func estimatorTable(p *evaluate.Panel) figure.Table {
	t := figure.Table{Name: "estimators", Title: "Errors and biases of the estimators", Head: "judged by",
		Columns: []figure.Column{
			{Name: "from sampling", Means: "standard error due to sampling pairs", Digits: 5},
			{Name: "from π̂ and ŷ", Means: "standard error due to estimating them, as refits to drawn links show too",
				Digits: 5},
			{Name: "plug-in bias", Means: "of the 0–1 risk, by the lemmas, if π̂ and ŷ were the truth", Digits: 5},
			{Name: "plug-in deviation", Means: "likewise, over random draws of the links", Digits: 5},
		}}
	if p.Exact != nil {
		t.Columns = append(t.Columns, figure.Column{Name: "all pairs",
			Means: fmt.Sprintf("computed over all %s pairs of which the others are estimated from a sample",
				number(float64(p.Exact.Pairs), 0)), Digits: 5})
	}
	for _, row := range p.Risks {
		cells := []figure.Cell{figure.Number(row.Risk.Sampling), figure.Number(fromNuisances(row.Risk)),
			figure.Number(row.Bias), figure.Number(row.Deviation)}
		if p.Exact != nil {
			cells = append(cells, numberOrDash(row.Exact))
		}
		t.Add(row.Label(), cells...)
	}
	return t
}

// fromNuisances is the standard error of a risk but for what is from sampling.
func fromNuisances(r fit.Judgement) float64 {
	return math.Sqrt(max(r.StandardError*r.StandardError-r.Sampling*r.Sampling, 0))
}

// differenceTable says by how much a model's risk is above that of the first, pair by pair.
func differenceTable(name, first string, o evaluate.Other) figure.Table {
	t := figure.Table{
		Name: name, Title: fmt.Sprintf("How much higher the risk of %s is than that of %s, on the same pairs", o.Model,
			first), Head: "judged by",
		Columns: []figure.Column{{Name: "difference", Digits: 5}, {Name: "from", Means: "lower end of the 95% interval",
			Digits: 5}, {Name: "to", Means: "its upper end", Digits: 5},
			{Name: "allowed from", Means: "least under the assumptions that explain the links", Digits: 5},
			{Name: "allowed to", Means: "most under them", Digits: 5}},
	}
	for _, row := range o.Panel.Risks {
		if d := row.Against; d != nil {
			low, high := figure.Text("–"), figure.Text("–")
			if row.AgainstSet != nil {
				low, high = figure.Number(row.AgainstSet.Low), figure.Number(row.AgainstSet.High)
			}
			t.Add(row.Label(), figure.Number(d.Interval.Estimate), figure.Number(d.Lower), figure.Number(d.Upper), low,
				high)
		}
	}
	return t
}

func regionTable(p *evaluate.Panel) figure.Table {
	t := figure.Table{Name: "region", Title: "If π̂ is wrong by a factor", Head: "π̂ = π ×", Columns: []figure.Column{
		{Name: "holds for w, pu", Means: "share of pairs", Digits: 3}, {Name: "holds for ap", Means: "share of pairs",
			Digits: 3},
	}}
	for _, scheme := range risk.Panel() {
		t.Columns = append(t.Columns, figure.Column{Name: "bias " + scheme, Digits: 5})
	}
	for _, r := range p.Region {
		cells := []figure.Cell{figure.Number(r.HoldsW), figure.Number(r.HoldsAP)}
		for _, scheme := range risk.Panel() {
			cell := figure.Cell{}
			if bias, ok := r.Bias[scheme]; ok {
				cell = figure.Number(bias)
			}
			cells = append(cells, cell)
		}
		t.Add(fmt.Sprintf("%.1f", r.Factor), cells...)
	}
	return t
}

// evaluationSummary is the summary of an evaluation.
func evaluationSummary(e *evaluate.Evaluation) string {
	text := fmt.Sprintf("Model %s (%s) on %s held-out pairs of %s.", e.Model, e.Method, number(float64(e.Pairs), 0),
		e.Dataset)
	for _, row := range e.Panel.Risks {
		if row.Scheme == "ap" {
			text += fmt.Sprintf(" Its risk corrected for exposure (R_AP) is %.4g, 95%% interval %.4g to %.4g.",
				row.Risk.Interval.Estimate, row.Risk.Lower, row.Risk.Upper)
		}
	}
	for k := range e.Others {
		text += " " + e.Decided(k).Summary
	}
	switch class := e.Class; {
	case e.Set == nil && class != fit.NotIdentified && class != fit.NoExposure:
		text += " How well the links determine π̂ was not checked."
	case class != fit.Identified:
		text += " The doctor calls the scale of π̂ " + class.Label() + "."
	}
	return text
}
