package study

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"unseen/evaluate"
	"unseen/figure"
)

var table3 = Study{
	Name:  "table3",
	Title: "Table 3: each method on observed links of real networks",
	real:  true,
	run:   runTable3,
}

// paperTable3 is the paper's Table 3, by dataset, in percent.
var paperTable3 = [2]map[string]struct{ precision, recall, f1, auc, thresholdedAP float64 }{
	{"naive": {29.45, 78.30, 42.81, 84.44, 24.10}, "mle": {30.24, 77.84, 43.56, 84.41, 24.60},
		"rw": {31.46, 78.02, 44.84, 84.74, 25.60}, "pu": {30.98, 78.94, 44.49, 85.24, 25.11},
		"ap": {36.07, 76.08, 48.94, 84.67, 28.58}},
	{"naive": {44.86, 70.85, 54.94, 83.22, 33.19}, "mle": {44.43, 74.66, 55.71, 84.97, 34.39},
		"rw": {48.70, 71.62, 57.98, 83.90, 36.25}, "pu": {42.17, 76.15, 54.28, 85.43, 33.26},
		"ap": {47.22, 71.84, 56.98, 83.89, 35.27}},
}

// Table3Row is how well one model separates linked from unlinked pairs among held-out pairs of a network.
type Table3Row struct {
	Network string `json:"network"`
	Seed    uint64 `json:"seed"`
	Method  Method `json:"method"`

	AUC        figure.Value `json:"auc"` // of ŷ
	SeenAUC    figure.Value `json:"seenAUC"`
	AP         figure.Value `json:"averagePrecision"` // of ŷ, among the sampled pairs
	SeenAP     figure.Value `json:"seenAveragePrecision"`
	UniverseAP figure.Value `json:"universeAveragePrecision"` // of ŷ, weighted to all pairs

	Precision     figure.Value `json:"precision"` // at P(linked | sampled) ≥ ½, as are the next four
	Recall        figure.Value `json:"recall"`
	F1            figure.Value `json:"f1"`
	Accuracy      figure.Value `json:"accuracy"`
	ThresholdedAP figure.Value `json:"thresholdedAP"`

	Calibration figure.Value `json:"calibration"` // mean π̂ŷ of all pairs ÷ the share of them that is linked
	Seconds     float64      `json:"seconds"`     // of training, on one thread
}

func runTable3(ctx context.Context, l *lab) (*Result, error) {
	if err := l.fitAll(ctx); err != nil {
		return nil, err
	}
	var rows []*Table3Row
	var tasks []task
	for _, n := range l.Networks {
		for _, seed := range l.Seeds {
			for _, m := range n.methods() {
				row := newTable3Row(n, seed, m)
				rows = append(rows, row)
				key := fitKey{drawKey{n.Name, seed}, m}
				f, d := l.fits[key], l.prepared[key.drawKey]
				if f.failed == "" {
					tasks = append(tasks, task{name: fmt.Sprintf("%s, %s, seed %d, judging", m.Name, n.Name, seed),
						cost: .2, do: func(ctx context.Context) error { return row.judge(ctx, f, d) }})
				}
			}
		}
	}
	if err := l.each(ctx, tasks); err != nil {
		return nil, err
	}
	r := &Result{Rows: rows, Warnings: l.networkFailures(), Setting: append(l.networkSetting(),
		"Judged by all held-out links and four unlinked pairs for each. These are observed links: a model that learns "+
			"exposure does well here.",
		"AUC, AP, precision, recall, F1, accuracy and MAP are those of the sampled pairs, as in the paper, one "+
			"link to four others; AUC would be the same over all pairs. AP_U weights the pairs to all that the "+
			"sample represents, and so does seen ×, the mean of π̂ŷ over the share of links.",
		"A link is predicted where P(linked | sampled) ≥ ½, that is where logit(π̂ŷ) ≥ log r for unlinked pairs "+
			"that were kept at the rate r. ŷ itself is for all pairs, of which few are links, and hardly "+
			"ever reaches ½. cosine has no probabilities.",
	)}
	for _, n := range l.Networks {
		own := filter(rows, func(c *Table3Row) bool { return c.Network == n.Name })
		r.Tables = append(r.Tables, table3Table(own, n, len(l.Seeds)), l.exposureTable(n), table3SeedsTable(own, n))
		r.Claims = append(r.Claims, l.table3Claims(own, n)...)
	}
	r.Tables = append(r.Tables, paperTables3()...)
	return r, nil
}

// newTable3Row is a row without numbers.
func newTable3Row(n RealNetwork, seed uint64, m Method) *Table3Row {
	return &Table3Row{Network: n.Name, Seed: seed, Method: m, AUC: missing, SeenAUC: missing, AP: missing,
		SeenAP: missing, UniverseAP: missing, Precision: missing, Recall: missing, F1: missing, Accuracy: missing,
		ThresholdedAP: missing, Calibration: missing}
}

// judge compares a model's predictions for the test pairs with the links.
func (r *Table3Row) judge(ctx context.Context, f *fitted, d *drawn) error {
	r.Seconds = f.seconds
	p := d.Test.Pairs
	n := p.Len()
	z, s, err := f.judge.Logits(ctx, p)
	if err != nil {
		return err
	}
	link := evaluate.Scored{Scores: make([]float64, n), Linked: p.Linked}
	seen := evaluate.Scored{Scores: make([]float64, n), Linked: p.Linked}
	sampled := evaluate.Scored{Scores: make([]float64, n), Linked: p.Linked}
	var mean, links, all float64
	for k := range n {
		link.Scores[k] = float64(z[k])
		q := -lossOf(float64(z[k])) - lossOf(float64(s[k])) // log π̂ŷ
		seen.Scores[k] = q
		logit := q - math.Log(-math.Expm1(q))
		sampled.Scores[k] = 1 / (1 + math.Exp(-logit+math.Log(p.Rate[k])))
		mean += p.Weight[k] * math.Exp(q)
		all += p.Weight[k]
		if p.Linked[k] {
			links += p.Weight[k]
		}
	}
	weighted := link
	weighted.Weights = p.Weight
	for _, m := range []struct {
		to  *figure.Value
		get func() (float64, error)
	}{{&r.AUC, link.AUC}, {&r.AP, link.AveragePrecision}, {&r.UniverseAP, weighted.AveragePrecision}} {
		x, err := m.get()
		if err != nil {
			return err
		}
		*m.to = figure.Value(x)
	}
	if r.Method == cosine {
		return nil
	}
	if r.Method.models() {
		r.SeenAUC, r.SeenAP = valueOrMissing(seen.AUC()), valueOrMissing(seen.AveragePrecision())
	}
	confusion, err := sampled.ConfusionAt(.5)
	if err != nil {
		return err
	}
	r.Precision, r.Recall, r.F1, r.Accuracy = valueOrMissing(confusion.Precision()), valueOrMissing(confusion.Recall()),
		valueOrMissing(confusion.F1()), valueOrMissing(confusion.Accuracy())
	r.ThresholdedAP = valueOrMissing(sampled.ThresholdedAP(.5))
	r.Calibration = figure.Value(mean / all / (links / all))
	return nil
}

// lossOf is −log σ(z).
func lossOf(z float64) float64 { return max(-z, 0) + math.Log1p(math.Exp(-math.Abs(z))) }

var table3Columns = []column[*Table3Row]{
	percent("AUC", "area under the ROC curve of ŷ, %", 2, func(c *Table3Row) figure.Value { return c.AUC }),
	percent("AUC π̂ŷ", "the same of π̂ŷ", 2, func(c *Table3Row) figure.Value { return c.SeenAUC }),
	percent("AP", "average precision of ŷ among the sampled pairs, %", 1,
		func(c *Table3Row) figure.Value { return c.AP }),
	percent("AP π̂ŷ", "the same of π̂ŷ", 1, func(c *Table3Row) figure.Value { return c.SeenAP }),
	percent("AP_U", "average precision of ŷ, weighted to all pairs, %", 2,
		func(c *Table3Row) figure.Value { return c.UniverseAP }),
	percent("prec.", "precision at P(linked | sampled) ≥ ½, %", 1,
		func(c *Table3Row) figure.Value { return c.Precision }),
	percent("recall", "recall there, %", 1, func(c *Table3Row) figure.Value { return c.Recall }),
	percent("F1", "F1 there, %", 1, func(c *Table3Row) figure.Value { return c.F1 }),
	percent("acc.", "accuracy there, %", 1, func(c *Table3Row) figure.Value { return c.Accuracy }),
	percent("MAP", "average precision of the predictions cut at ½, what the paper calls MAP, %", 1,
		func(c *Table3Row) figure.Value { return c.ThresholdedAP }),
	{figure.Column{Name: "seen ×", Means: "mean π̂ŷ over the share of links, of all pairs; 1 is right", Digits: 2}, 1,
		func(c *Table3Row) figure.Value { return c.Calibration }},
}

func table3Table(rows []*Table3Row, n RealNetwork, seeds int) figure.Table {
	t := figure.Table{Name: n.Name, Title: fmt.Sprintf("%s, %s", n.Name, seedsTitle(seeds)), Head: "method",
		Columns: headings(table3Columns)}
	for _, m := range n.methods() {
		t.Add(m.Name, cells(table3Columns, byMethod(rows, m))...)
	}
	return t
}

func table3SeedsTable(rows []*Table3Row, n RealNetwork) figure.Table {
	t := figure.Table{Name: n.Name + "-seeds", Title: n.Name + ", every training", Head: "method", Detail: true,
		Columns: slices.Concat([]figure.Column{{Name: "seed"}}, headings(table3Columns),
			[]figure.Column{{Name: "s", Means: "seconds of training on one thread", Digits: 1}})}
	for _, r := range rows {
		t.Add(r.Method.Name, slices.Concat([]figure.Cell{figure.Number(r.Seed)}, cells(table3Columns, []*Table3Row{r}),
			[]figure.Cell{figure.Number(r.Seconds)})...)
	}
	return t
}

// paperTables3 are the numbers of the paper, which are for other data.
func paperTables3() (tables []figure.Table) {
	for k, printed := range paperTable3 {
		t := figure.Table{Name: fmt.Sprintf("paper-%d", k+1), Title: paperTitle(k), Head: "method"}
		for _, c := range table3Columns {
			switch c.Name {
			case "AUC", "prec.", "recall", "F1", "MAP":
				t.Columns = append(t.Columns, c.Column)
			}
		}
		for _, m := range networkMethods {
			if p, ok := printed[m.Name]; ok {
				t.Add(m.Name, figure.Number(p.auc), figure.Number(p.precision), figure.Number(p.recall),
					figure.Number(p.f1), figure.Number(p.thresholdedAP))
			}
		}
		tables = append(tables, t)
	}
	return tables
}

func paperTitle(k int) string {
	return fmt.Sprintf("The paper's dataset %d: other data, to compare the order of methods", k+1)
}

// table3Claims compares what the paper says of its table with a network.
func (l *lab) table3Claims(rows []*Table3Row, n RealNetwork) []Claim {
	return []Claim{asGoodClaim(rows, n), weightedClaim(rows, n), fieldsHelpClaim(rows, n), l.scaleClaim(n)}
}

// aucGains are the AUC points of a method over a base, by seed.
func aucGains(rows []*Table3Row, m, base Method) []float64 {
	gains, below := values(byMethod(rows, m), percentAUC), values(byMethod(rows, base), percentAUC)
	for k := range gains {
		gains[k] -= below[k]
	}
	return gains
}

func percentAUC(r *Table3Row) figure.Value { return 100 * r.AUC }

func asGoodClaim(rows []*Table3Row, n RealNetwork) Claim {
	var asGood tally
	var evidence []string
	for _, m := range corrected {
		mean, sd := meanAndSpread(aucGains(rows, m, naive))
		asGood.add(mean > -1)
		evidence = append(evidence, plusMinus(m.Name, mean, sd))
	}
	return Claim{n.Name + ": corrected methods classify observed links as well as naive does, within a point of AUC",
		asGood.verdict(), "AUC of ŷ against naive, in points: " + strings.Join(evidence, ", ") + "."}
}

func weightedClaim(rows []*Table3Row, n RealNetwork) Claim {
	var better tally
	var evidence []string
	for _, m := range []Method{rw, pu, ap} {
		gains := aucGains(rows, m, mle)
		mean, sd := meanAndSpread(gains)
		better.add(beyondChance(mean, sd, len(gains)) && mean >= .1)
		evidence = append(evidence, plusMinus(m.Name, mean, sd))
	}
	return Claim{n.Name + ": R_w, R_PU and R_AP classify observed links better than MLE, by a tenth of a point of AUC",
		better.verdict(), "AUC of ŷ against mle, in points: " + strings.Join(evidence, ", ") + "."}
}

func fieldsHelpClaim(rows []*Table3Row, n RealNetwork) Claim {
	fieldGains := aucGains(rows, naiveField, naive)
	productGains := values(byMethod(rows, bayes), func(r *Table3Row) figure.Value { return 100 * (r.SeenAUC - r.AUC) })
	var helps tally
	var evidence []string
	for _, x := range []struct {
		name  string
		gains []float64
	}{{"naive-field against naive", fieldGains}, {"bayes by π̂ŷ against bayes by ŷ", productGains}} {
		mean, sd := meanAndSpread(x.gains)
		helps.add(mean > 0 && beyondChance(mean, sd, len(x.gains)))
		evidence = append(evidence, plusMinus(x.name, mean, sd))
	}
	return Claim{n.Name + ": knowing the fields helps with observed links", helps.metVerdict(),
		"AUC points: " + strings.Join(evidence, "; ") + "."}
}

// plusMinus writes a gain with its standard deviation over seeds: "rw +0.12 ± 0.03".
func plusMinus(name string, mean, sd float64) string {
	return fmt.Sprintf("%s %s ± %s", name, signed(mean, 2), figure.Decimal(sd, 2))
}
