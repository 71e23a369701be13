package study

import (
	"context"
	"fmt"
	"math"
	"strings"

	"unseen/evaluate"
	"unseen/figure"
)

var table3 = Study{
	Name:  "table3",
	Title: "Table 3: what each method makes of observed links of real networks",
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

// Table3Row is how one model tells linked pairs from unlinked ones among held-out pairs of a network.
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
				c := &Table3Row{Network: n.Name, Seed: seed, Method: m, AUC: none, SeenAUC: none, AP: none,
					SeenAP: none, UniverseAP: none,
					Precision: none, Recall: none, F1: none, Accuracy: none, ThresholdedAP: none, Calibration: none}
				rows = append(rows, c)
				key := fitKey{drawKey{n.Name, seed}, m}
				f, d := l.fits[key], l.prepared[key.drawKey]
				if f.failed == "" {
					tasks = append(tasks, task{name: fmt.Sprintf("%s, %s, seed %d, judging", m.Name, n.Name, seed),
						cost: .2, do: func(ctx context.Context) error { return c.judge(ctx, f, d) }})
				}
			}
		}
	}
	if err := l.each(ctx, tasks); err != nil {
		return nil, err
	}
	r := &Result{Rows: rows, Warnings: l.networkFailures(), Setting: append(l.networkSetting(),
		"Judged by held-out links, all of them, and four unlinked pairs for each. These are observed links: who "+
			"learns exposure does well here.",
		"AUC, AP, precision, recall, F1, accuracy and MAP are those of the sampled pairs, as in the paper, one "+
			"link to four others; AUC would be the same of all pairs. AP_U weighs the pairs to all that the "+
			"sample stands for, and so does seen ×, the mean of π̂ŷ over the share of links.",
		"A link is predicted where P(linked | sampled) ≥ ½, that is where logit(π̂ŷ) ≥ log r for unlinked pairs "+
			"that were kept at the rate r. ŷ itself stands for all pairs, of which few are links, and hardly "+
			"ever reaches ½. cosine has no probabilities.",
	)}
	for _, n := range l.Networks {
		own := where(rows, func(c *Table3Row) bool { return c.Network == n.Name })
		r.Tables = append(r.Tables, classifiedTable(own, n, len(l.Seeds)), l.exposureTable(n), classifiedSeeds(own, n))
		r.Claims = append(r.Claims, l.table3Claims(own, n)...)
	}
	r.Tables = append(r.Tables, paperTables3()...)
	return r, nil
}

// judge compares a model's beliefs about the test pairs with the links.
func (c *Table3Row) judge(ctx context.Context, f *fitted, d *drawn) error {
	c.Seconds = f.seconds
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
	}{{&c.AUC, link.AUC}, {&c.AP, link.AveragePrecision}, {&c.UniverseAP, weighted.AveragePrecision}} {
		var x float64
		if x, err = m.get(); err != nil {
			return err
		}
		*m.to = figure.Value(x)
	}
	if c.Method == cosine {
		return nil
	}
	if c.Method.models() {
		c.SeenAUC, c.SeenAP = mark(seen.AUC()), mark(seen.AveragePrecision())
	}
	confusion, err := sampled.ConfusionAt(.5)
	if err != nil {
		return err
	}
	c.Precision, c.Recall, c.F1, c.Accuracy = mark(confusion.Precision()), mark(confusion.Recall()),
		mark(confusion.F1()), mark(confusion.Accuracy())
	c.ThresholdedAP = mark(sampled.ThresholdedAP(.5))
	c.Calibration = figure.Value(mean / all / (links / all))
	return nil
}

// lossOf is −log σ(z).
func lossOf(z float64) float64 { return max(-z, 0) + math.Log1p(math.Exp(-math.Abs(z))) }

var table3Columns = []column[*Table3Row]{
	{figure.Column{Name: "AUC", Means: "area under the ROC curve of ŷ, %", Digits: 2, Better: "higher"}, 100,
		func(c *Table3Row) figure.Value { return c.AUC }},
	{figure.Column{Name: "AUC π̂ŷ", Means: "the same of π̂ŷ", Digits: 2, Better: "higher"}, 100,
		func(c *Table3Row) figure.Value { return c.SeenAUC }},
	{figure.Column{Name: "AP", Means: "average precision of ŷ among the sampled pairs, %", Digits: 1, Better: "higher"},
		100, func(c *Table3Row) figure.Value { return c.AP }},
	{figure.Column{Name: "AP π̂ŷ", Means: "the same of π̂ŷ", Digits: 1, Better: "higher"}, 100,
		func(c *Table3Row) figure.Value { return c.SeenAP }},
	{figure.Column{Name: "AP_U", Means: "average precision of ŷ, weighted to all pairs, %", Digits: 2,
		Better: "higher"}, 100, func(c *Table3Row) figure.Value { return c.UniverseAP }},
	{figure.Column{Name: "prec.", Means: "precision at P(linked | sampled) ≥ ½, %", Digits: 1, Better: "higher"}, 100,
		func(c *Table3Row) figure.Value { return c.Precision }},
	{figure.Column{Name: "recall", Means: "recall there, %", Digits: 1, Better: "higher"}, 100,
		func(c *Table3Row) figure.Value { return c.Recall }},
	{figure.Column{Name: "F1", Means: "F1 there, %", Digits: 1, Better: "higher"}, 100,
		func(c *Table3Row) figure.Value { return c.F1 }},
	{figure.Column{Name: "acc.", Means: "accuracy there, %", Digits: 1, Better: "higher"}, 100,
		func(c *Table3Row) figure.Value { return c.Accuracy }},
	{figure.Column{Name: "MAP", Means: "average precision of the predictions cut at ½, what the paper calls MAP, %",
		Digits: 1, Better: "higher"}, 100, func(c *Table3Row) figure.Value { return c.ThresholdedAP }},
	{figure.Column{Name: "seen ×", Means: "mean π̂ŷ over the share of links, of all pairs; 1 is right", Digits: 2}, 1,
		func(c *Table3Row) figure.Value { return c.Calibration }},
}

func classifiedTable(rows []*Table3Row, n RealNetwork, seeds int) figure.Table {
	t := figure.Table{Name: n.Name, Title: fmt.Sprintf("%s, %s", n.Name, repeated(seeds)), Head: "method"}
	t.Columns = append(t.Columns, columns(table3Columns)...)
	for _, m := range n.methods() {
		t.Add(m.Name, cells(table3Columns, of(rows, m))...)
	}
	return t
}

func classifiedSeeds(rows []*Table3Row, n RealNetwork) figure.Table {
	t := figure.Table{Name: n.Name + "-seeds", Title: n.Name + ", every training", Head: "method", Detail: true,
		Columns: []figure.Column{{Name: "seed"}}}
	t.Columns = append(t.Columns, columns(table3Columns)...)
	t.Columns = append(t.Columns, figure.Column{Name: "s", Means: "seconds of training on one thread", Digits: 1})
	for _, c := range rows {
		row := append([]figure.Cell{figure.Number(c.Seed)}, cells(table3Columns, []*Table3Row{c})...)
		t.Add(c.Method.Name, append(row, figure.Number(c.Seconds))...)
	}
	return t
}

// paperTables3 are the paper's figures, which are of other data.
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

// table3Findings compares what the paper says of its table with a network.
func (l *lab) table3Claims(rows []*Table3Row, n RealNetwork) []Claim {
	below := of(rows, naive)
	gains := func(m Method, get func(*Table3Row) figure.Value) []float64 {
		var xs []float64
		for k, c := range of(rows, m) {
			xs = append(xs, 100*float64(get(c)-get(below[k])))
		}
		return xs
	}
	auc := func(c *Table3Row) figure.Value { return c.AUC }
	comparable := Claim{Statement: n.Name + ": corrected methods classify observed links as well as naive does, " +
		"to a point of AUC", Verdict: Reproduced}
	worse := 0
	var words []string
	for _, m := range corrected {
		mean, sd := meanAndSpread(gains(m, auc))
		words = append(words, fmt.Sprintf("%s %s ± %s", m.Name, signed(mean, 2), figure.Decimal(sd, 2)))
		if !(mean > -1) {
			worse++
		}
	}
	if worse == len(corrected) {
		comparable.Verdict = NotReproduced
	} else if worse > 0 {
		comparable.Verdict = Partly
	}
	comparable.Evidence = "AUC of ŷ against naive, in points: " + strings.Join(words, ", ") + "."

	weighted := Claim{Statement: n.Name + ": R_w, R_PU and R_AP classify observed links better than MLE, by a " +
		"tenth of a point of AUC"}
	better := 0
	words = nil
	for _, m := range []Method{rw, pu, ap} {
		xs := gains(m, auc)
		for k, x := range gains(mle, auc) {
			xs[k] -= x
		}
		mean, sd := meanAndSpread(xs)
		words = append(words, fmt.Sprintf("%s %s ± %s", m.Name, signed(mean, 2), figure.Decimal(sd, 2)))
		if mean > 2*sd/math.Sqrt(float64(len(xs))) && mean >= .1 {
			better++
		}
	}
	weighted.Verdict = [...]Verdict{NotReproduced, Partly, Partly, Reproduced}[better]
	weighted.Evidence = "AUC of ŷ against mle, in points: " + strings.Join(words, ", ") + "."

	trap := Claim{Statement: n.Name + ": to know the fields helps with observed links", Verdict: Missed}
	field, fieldSD := meanAndSpread(gains(naiveField, auc))
	var seen []float64
	for _, c := range of(rows, bayes) {
		seen = append(seen, 100*float64(c.SeenAUC-c.AUC))
	}
	product, productSD := meanAndSpread(seen)
	helps := 0
	for _, x := range [][2]float64{{field, fieldSD}, {product, productSD}} {
		if x[0] > 0 && x[0] > 2*x[1]/math.Sqrt(float64(len(l.Seeds))) {
			helps++
		}
	}
	trap.Verdict = [...]Verdict{Missed, Partly, Met}[helps]
	trap.Evidence = fmt.Sprintf("naive-field against naive %s ± %s AUC points; bayes by π̂ŷ against bayes by ŷ %s "+
		"± %s.",
		signed(field, 2), figure.Decimal(fieldSD, 2), signed(product, 2), figure.Decimal(productSD, 2))
	return []Claim{comparable, weighted, trap, l.scaleClaim(n)}
}
