package report

import (
	"fmt"
	"slices"

	"unseen/evaluate"
	"unseen/figure"
	"unseen/fit"
	"unseen/risk"
)

// OfEvaluation makes sections of what a model is worth on a dataset.
func EvaluationSections(e *evaluate.Evaluation) []Section {
	panel := RiskChart{
		Name: "panel", Title: "The risk of " + e.Model, What: "risk (log-loss)",
		Text: []string{
			fmt.Sprintf("%s pairs of %s that were held out, %s of them linked; split %s.", number(float64(e.Pairs), 0),
				e.Dataset, number(float64(e.Links), 0), e.Held),
			"The naive risk takes every missing link for a sign of irrelevance. R_w, R_PU and R_AP weigh pairs " +
				"by exposure; R_AP is the one to read first, since its masses are probabilities.",
		},
	}
	group := func(name, method string) string {
		if name == method || method == "" {
			return name
		}
		return name + " (" + method + ")"
	}
	add := func(name, method string, p *evaluate.Panel) {
		for _, row := range p.Risks {
			panel.Rows = append(panel.Rows, RiskRow{
				Name: row.Label(), Group: group(name, method),
				Estimate: row.Risk.Interval.Estimate, Lower: row.Risk.Lower, Upper: row.Risk.Upper,
			})
		}
	}
	add(e.Model, e.Method, e.Panel)
	for _, o := range e.Others {
		add(o.Model, o.Method, o.Panel)
	}
	first := panel.Section()
	first.Warnings = slices.Clone(e.Warnings)
	for k, o := range e.Others {
		first.Tables = append(first.Tables, differenceTable(fmt.Sprintf("difference-%d", k+1), e.Model, o))
	}
	first.Tables = append(first.Tables, estimatorTable(e.Panel))
	region := Section{
		Name: "region", Title: "If π̂ is wrong",
		Text: []string{"Suppose that every π̂ is off by a factor, while what links show, π·y, is right. How " +
			"much of the data still has π/(2−π) < π̂ < 1, where R_w and R_PU are less biased than the naive " +
			"risk, or the like for R_AP; and the bias that the lemmas give each estimator of the share of " +
			"wrong decisions (0–1 loss)."},
		Tables: []figure.Table{regionTable(e.Panel)},
	}
	roc := []figure.Series{{Name: e.Model, X: e.Observed.ROC.X, Y: e.Observed.ROC.Y}}
	calibration := []figure.Series{{Name: e.Model, X: e.Observed.Calibration.X, Y: e.Observed.Calibration.Y}}
	marks := figure.Table{Name: "observed", Title: "Against links that happened", Head: "model",
		Columns: []figure.Column{
			{Name: "AUC of ŷ", Digits: 4, Better: "higher"}, {Name: "AUC of π̂ŷ", Digits: 4, Better: "higher"},
			{Name: "AP of ŷ", Digits: 4, Better: "higher"}, {Name: "AP of π̂ŷ", Digits: 4, Better: "higher"},
		}}
	row := func(name string, o evaluate.Observed) {
		r := figure.TableRow{Name: name}
		for _, x := range []*float64{o.AUC, o.AUCSeen, o.AP, o.APSeen} {
			cell := figure.Text("–")
			if x != nil {
				cell = figure.Number(*x)
			}
			r.Cells = append(r.Cells, cell)
		}
		marks.Rows = append(marks.Rows, r)
	}
	row(group(e.Model, e.Method), e.Observed)
	for _, o := range e.Others {
		row(group(o.Model, o.Method), o.Observed)
		roc = append(roc, figure.Series{Name: o.Model, X: o.Observed.ROC.X, Y: o.Observed.ROC.Y})
		calibration = append(calibration, figure.Series{Name: o.Model, X: o.Observed.Calibration.X,
			Y: o.Observed.Calibration.Y})
	}
	observed := Curves{
		Name: "observed", Title: "Against links that happened",
		Text: []string{"Here what was never shown counts as irrelevant: a model that repeats past exposure is " +
			"rewarded for it. ŷ is what a link would be if shown, π̂ŷ what is expected to be seen; the " +
			"calibration is of π̂ŷ."},
		Curves: []Curve{{Kind: ROC, Lines: roc}, {Kind: Calibration, Lines: calibration}},
	}.Section()
	observed.Tables = append([]figure.Table{marks}, observed.Tables...)
	sections := []Section{first, region, observed}
	if len(e.Ranks) > 0 {
		sections = append(sections, ranksSection(e, group))
	}
	if e.Fairness != nil {
		sections = append(sections, fairnessOf(e))
	}
	if e.Certificate != nil {
		sections = append(sections, certificateOf(e.Certificate))
	}
	return sections
}

// fairnessOf sets what groups are shown beside what they deserve, for all models.
func fairnessOf(e *evaluate.Evaluation) Section {
	f := e.Fairness
	measures := figure.Table{Name: "disparity", Title: "How far exposure is from merit", Head: "lists of",
		Columns: []figure.Column{
			{Name: "least / most", Means: "the lowest ratio as a share of the highest; 1 if all are served alike",
				Digits: 3, Better: "higher"},
			{Name: "Gini", Means: "of the ratios, groups counting by merit; 0 if all are served alike", Digits: 3,
				Better: "lower"},
			{Name: "misplaced", Means: "share of attention that would have to go to other groups", Digits: 3,
				Better: "lower"},
			{Name: "95% interval", Means: "of what is misplaced"},
		}}
	groups := figure.Table{Name: "groups", Title: "Every " + f.By, Head: f.By, Columns: []figure.Column{
		{Name: "merit", Means: "share of ŷ by " + e.Model, Digits: 4}, {Name: "nodes"},
	}}
	chart := &figure.IntervalChart{XTitle: "exposure / merit: 1 is in proportion", Legend: "95% interval", Digits: 2}
	type judged struct {
		name string
		*evaluate.Fairness
	}
	all := []judged{{e.Model, f}}
	for _, o := range e.Others {
		if o.Fairness != nil {
			all = append(all, judged{o.Model, o.Fairness})
		}
	}
	const most = 15
	by := make([]map[string]evaluate.GroupShare, len(all))
	for k, a := range all {
		measures.Add(a.name,
			figure.Number(a.Least.Value), figure.Number(a.Gini.Value), figure.Number(a.Distance.Value),
			figure.Text(fmt.Sprintf("%.3g to %.3g", a.Distance.Lower, a.Distance.Upper)))
		groups.Columns = append(groups.Columns, figure.Column{Name: "shown by " + a.name, Means: "share of attention",
			Digits: 4})
		by[k] = map[string]evaluate.GroupShare{}
		for _, g := range a.Groups {
			by[k][g.Name] = g
		}
	}
	for k, g := range f.Groups {
		row := figure.TableRow{Name: g.Name, Cells: []figure.Cell{figure.Number(g.Merit.Value), figure.Number(g.Nodes)}}
		for m, a := range all {
			share := by[m][g.Name]
			row.Cells = append(row.Cells, figure.Number(share.Exposure.Value))
			if k < most && share.Ratio != nil && !g.Few {
				chart.Rows = append(chart.Rows, figure.IntervalRow{Name: a.name, Group: g.Name,
					Estimate: figure.Value(share.Ratio.Value), Low: figure.Value(share.Ratio.Lower),
					High: figure.Value(share.Ratio.Upper)})
			}
		}
		if g.Few {
			row.Name += " (?)"
		}
		groups.Rows = append(groups.Rows, row)
	}
	s := Section{
		Name: "fairness", Title: "Who is shown, and who deserves it",
		Text: append([]string{fmt.Sprintf("Lists of %d for %s held-out nodes. Exposure is a group's share of "+
			"attention, place r of a list earning 1/log₂(1+r); merit is its share of ŷ over all candidates, by "+
			"%s for every model. A ratio of 1 is in proportion.", f.K, number(float64(f.Sources), 0), e.Model)},
			f.Words(e.Model)...),
		Figures: []figure.Figure{{Name: "fairness", Title: "Exposure by merit",
			Caption: "Above 1 a group is shown more than it is relevant, below 1 less.", Intervals: chart}},
		Tables: []figure.Table{measures, groups},
		Notes: []string{"The best K by ŷ are never in exact proportion, since small differences of ŷ decide " +
			"about whole places; compare models, not with 1 alone. Groups with (?) are due fewer than five " +
			"places in all, too few to tell; they are not drawn. Intervals count which nodes were looked " +
			"at, and not how well ŷ is known; being sums of absolute differences, the measures come out " +
			"a little high where few nodes are looked at."},
	}
	if len(f.Groups) > most {
		s.Figures[0].Caption += fmt.Sprintf(" The %d groups with the most merit of %d.", most, len(f.Groups))
	}
	return s
}

// ranksSection says where held-out links come out.
func ranksSection(e *evaluate.Evaluation, group func(name, method string) string) Section {
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
	v := &figure.IntervalChart{XTitle: fmt.Sprintf("recall@%d less that of %s by ŷ", k, e.Model),
		Legend: "95% interval over sources", Digits: 4}
	add := func(name string, ranks []evaluate.Ranks) {
		for _, r := range ranks {
			row := figure.TableRow{Name: name + " by " + string(r.By)}
			for _, x := range []*float64{r.Recall, r.CrossRecall, r.MRR, r.MeanRank, r.Entropy, r.CrossShare} {
				cell := figure.Text("–")
				if x != nil {
					cell = figure.Number(*x)
				}
				row.Cells = append(row.Cells, cell)
			}
			t.Rows = append(t.Rows, row)
			if d := r.Against; d != nil {
				v.Rows = append(v.Rows, figure.IntervalRow{Name: row.Name, Estimate: figure.Value(d.Mean),
					Low: figure.Value(d.Lower), High: figure.Value(d.Upper)})
			}
		}
	}
	add(group(e.Model, e.Method), e.Ranks)
	for _, o := range e.Others {
		add(group(o.Model, o.Method), o.Ranks)
	}
	return Section{
		Name: "ranks", Title: "Ranked among all candidates",
		Text: []string{fmt.Sprintf("Every node that each of %s held-out sources could have linked to was "+
			"ranked. The links are those that happened; who ranks by π̂ŷ repeats past exposure, and finds more "+
			"of them and fewer between two fields.", number(float64(e.Ranks[0].Sources), 0))},
		Tables: []figure.Table{t},
		Figures: []figure.Figure{{Name: "ranks", Title: "Against the first model",
			Caption: "Each dot is a mean over sources, its whiskers the interval that other sources could " +
				"have given.",
			Intervals: v}},
	}
}

// estimatorTable is what is known of the estimators themselves.
func estimatorTable(p *evaluate.Panel) figure.Table {
	t := figure.Table{Name: "estimators", Title: "What is known of the estimators", Head: "judged by",
		Columns: []figure.Column{
			{Name: "from sampling", Means: "standard error from having sampled pairs", Digits: 5},
			{Name: "from π̂ and ŷ", Means: "standard error from having estimated them", Digits: 5},
			{Name: "plug-in bias", Means: "of the 0–1 risk, by the lemmas, were π̂ and ŷ the truth", Digits: 5},
			{Name: "plug-in deviation", Means: "likewise, over the links that chance could have drawn", Digits: 5},
		}}
	if p.Exact != nil {
		t.Columns = append(t.Columns, figure.Column{Name: "all pairs",
			Means: fmt.Sprintf("computed over all %s pairs of which the others are estimated from a sample",
				number(float64(p.Exact.Pairs), 0)), Digits: 5})
	}
	for _, row := range p.Risks {
		cells := []figure.Cell{figure.Number(row.Risk.Sampling), figure.Number(row.Risk.Nuisance),
			figure.Number(row.Bias), figure.Number(row.Deviation)}
		if p.Exact != nil {
			cell := figure.Text("–")
			if row.Exact != nil {
				cell = figure.Number(*row.Exact)
			}
			cells = append(cells, cell)
		}
		t.Add(row.Label(), cells...)
	}
	return t
}

// differenceTable says by how much a model's risk is above that of the first, pair by pair.
func differenceTable(name, first string, o evaluate.Other) figure.Table {
	t := figure.Table{
		Name: name, Title: fmt.Sprintf("How much higher the risk of %s is than that of %s, on the same pairs", o.Model,
			first), Head: "judged by",
		Columns: []figure.Column{{Name: "difference", Digits: 5}, {Name: "from", Means: "lower end of the 95% interval",
			Digits: 5}, {Name: "to", Means: "its upper end", Digits: 5}},
	}
	for _, row := range o.Panel.Risks {
		if d := row.Against; d != nil {
			t.Add(row.Label(), figure.Number(d.Interval.Estimate),
				figure.Number(d.Lower), figure.Number(d.Upper))
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

// evaluationWords is the summary.
func evaluationWords(e *evaluate.Evaluation) string {
	text := fmt.Sprintf("Model %s (%s) on %s held-out pairs of %s.", e.Model, e.Method, number(float64(e.Pairs), 0),
		e.Dataset)
	for _, row := range e.Panel.Risks {
		if row.Scheme == "ap" {
			text += fmt.Sprintf(" Its risk corrected for exposure (R_AP) is %.4g, 95%% interval %.4g to %.4g.",
				row.Risk.Interval.Estimate, row.Risk.Lower, row.Risk.Upper)
		}
	}
	for _, o := range e.Others {
		for _, row := range o.Panel.Risks {
			d := row.Against
			switch {
			case row.Scheme != "ap" || d == nil:
			case d.Lower > 0:
				text += fmt.Sprintf(" That of %s is higher by %.3g (%.3g to %.3g).", o.Model, d.Interval.Estimate,
					d.Lower, d.Upper)
			case d.Upper < 0:
				text += fmt.Sprintf(" That of %s is lower by %.3g (%.3g to %.3g).", o.Model, -d.Interval.Estimate,
					-d.Upper, -d.Lower)
			default:
				text += fmt.Sprintf(" These pairs do not tell it from that of %s: the difference is %+.3g "+
					"(%+.3g to %+.3g).", o.Model, d.Interval.Estimate, d.Lower, d.Upper)
			}
		}
	}
	if e.Class != "" && e.Class != fit.Identified {
		text += " The doctor calls the scale of π̂ " + string(e.Class) + "."
	}
	return text
}
