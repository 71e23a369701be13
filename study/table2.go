package study

import (
	"context"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"unseen/engine"
	"unseen/figure"
	"unseen/fit"
	"unseen/model"
	"unseen/sample"
)

var table2 = Study{
	Name:    "table2",
	Title:   "Table 2: how far estimated risks are from the true one",
	planted: true,
	run:     runTable2,
}

var table2Methods = []Method{naive, naiveField, mle, rw, pu, ap, bayes, knownBayes, oracle}

// paperTable2 is the paper's Table 2: RMSE by the method that trained the model.
var paperTable2 = map[string]RiskEstimates{
	"naive": {1.50, none, none, none},
	"mle":   {.67, .23, .24, .32},
	"rw":    {.43, .04, .10, .11},
	"pu":    {.38, .05, .11, .04},
	"ap":    {.41, .06, .08, .03},
}

var none = figure.Value(math.NaN())

// Table2Row is one model, judged with its own ŷ and π̂ and with those of bayes.
type Table2Row struct {
	Fields FieldKind    `json:"fields"`
	Seed   uint64       `json:"seed"`
	Method Method       `json:"method"` // that trained the model
	Risk   figure.Value `json:"risk"`   // true risk on the pairs that the estimates are made of

	Own   RiskEstimates `json:"own"`   // with the model's own ŷ and π̂; none but naive where it has no π̂
	Bayes RiskEstimates `json:"bayes"` // with those of bayes in the same world
	Lower RiskEstimates `json:"lower"` // ends of the intervals of fit.Judge around the latter
	Upper RiskEstimates `json:"upper"`
}

// runTable2 judges what table1 trains.
func runTable2(ctx context.Context, l *lab) (*Result, error) {
	kinds := l.kinds()
	outcomes, err := l.train(ctx, cross(kinds, l.Seeds, table2Methods))
	if err != nil {
		return nil, err
	}
	evaluations, err := l.evaluate(ctx, outcomes)
	if err != nil {
		return nil, err
	}
	r := &Result{Rows: evaluations, Warnings: failures(outcomes), Setting: append(l.setting(),
		"An estimate is made of the links seen among the pairs of the test and compared with the true risk of "+
			"the same pairs, under the log-loss; no π̂ is clipped. naive and naive-field have no π̂ of their own.",
		"Intervals are those of fit.Judge at .95 from the posterior of bayes, without its refits to simulated "+
			"histories: those take ten times as long as the rest.",
	)}
	for _, fields := range kinds {
		some := where(evaluations, func(e *Table2Row) bool { return e.Fields == fields })
		r.Tables = append(r.Tables, ownTable(some, fields), bayesTable(some, fields), evaluationTable(some, fields))
		r.Figures = append(r.Figures, table2Figure(some, fields))
		r.Claims = append(r.Claims, table2Claims(some, fields)...)
	}
	return r, nil
}

// evaluate judges models. The worlds of their trainings are gone and are made again.
func (l *lab) evaluate(ctx context.Context, outcomes []*Outcome) ([]*Table2Row, error) {
	evaluations := make([]*Table2Row, len(outcomes))
	groups := make(map[subjectKey][]int)
	var keys []subjectKey
	for i, o := range outcomes {
		k := subjectKey{o.Fields, o.Seed}
		if groups[k] == nil {
			keys = append(keys, k)
		}
		groups[k] = append(groups[k], i)
		evaluations[i] = &Table2Row{Fields: o.Fields, Seed: o.Seed, Method: o.Method, Risk: o.Risk, Own: o.Estimates,
			Bayes: RiskEstimates{none, none, none, none}, Lower: RiskEstimates{none, none, none, none},
			Upper: RiskEstimates{none, none, none, none}}
		if o.Method == naive || o.Method == naiveField {
			evaluations[i].Own = RiskEstimates{o.Estimates.Naive, none, none, none}
		}
	}
	var tasks []task
	for _, k := range keys {
		tasks = append(tasks, task{name: fmt.Sprintf("judging, %s fields, seed %d", k.fields, k.seed), cost: 5,
			do: func(ctx context.Context) error {
				s := &subject{key: k}
				if err := s.prepare(ctx, l.trainings, 1); err != nil {
					return err
				}
				defer s.close()
				var own []*Outcome
				for _, i := range groups[k] {
					own = append(own, outcomes[i])
				}
				judge, err := s.judgeOf(own)
				if judge == nil || err != nil {
					return err
				}
				for _, i := range groups[k] {
					if err := s.evaluate(ctx, judge, outcomes[i], evaluations[i]); err != nil {
						return err
					}
				}
				return nil
			}})
	}
	return evaluations, l.each(ctx, tasks)
}

// judgeOf returns a judge with what bayes learned; nil if it learned nothing.
func (s *subject) judgeOf(outcomes []*Outcome) (*fit.Judge, error) {
	for _, o := range outcomes {
		if o.Method != bayes || o.Failed != "" {
			continue
		}
		link, err := model.NewLink(o.learned.link, s.problem.Nodes, o.learned.options)
		if err != nil {
			return nil, err
		}
		matrix, err := model.NewFieldMatrix(s.problem.Nodes)
		if err != nil {
			return nil, err
		}
		return &fit.Judge{Predictor: engine.Predictor{Link: link, LinkParams: o.learned.params, Propensity: matrix,
			PropensityParams: o.learned.propensity}, Posterior: o.learned.posterior, Threads: 1}, nil
	}
	return nil, nil
}

// evaluate judges one model's predictions for the pairs of the test.
func (s *subject) evaluate(ctx context.Context, judge *fit.Judge, o *Outcome, e *Table2Row) error {
	if o.Failed != "" {
		return nil
	}
	predictions, err := s.predictions(o)
	if err != nil {
		return err
	}
	panel, err := judge.Panel(ctx, sample.Evidence{Pairs: s.test.Pairs}, 0, predictions)
	if err != nil {
		return err
	}
	for name, to := range map[string][3]*figure.Value{
		"naive": {&e.Bayes.Naive, &e.Lower.Naive, &e.Upper.Naive}, "w": {&e.Bayes.W, &e.Lower.W, &e.Upper.W},
		"pu": {&e.Bayes.PU, &e.Lower.PU, &e.Upper.PU}, "ap": {&e.Bayes.AP, &e.Lower.AP, &e.Upper.AP},
	} {
		*to[0], *to[1], *to[2] = figure.Value(panel.Risks[name].Interval.Estimate),
			figure.Value(panel.Risks[name].Lower), figure.Value(panel.Risks[name].Upper)
	}
	return nil
}

// predictions returns a model's logits of the pairs of the test.
func (s *subject) predictions(o *Outcome) ([]float32, error) {
	z := make([]float32, s.test.Pairs.Len())
	if o.learned == nil {
		for k, logit := range s.test.Logits {
			z[k] = float32(logit)
		}
		return z, nil
	}
	link, err := model.NewLink(o.learned.link, s.problem.Nodes, o.learned.options)
	if err != nil {
		return nil, err
	}
	link.Logits(z, o.learned.params, model.Batch{Sources: s.test.Pairs.Source, Targets: s.test.Pairs.Target})
	return z, nil
}

func (e RiskEstimates) list() [4]figure.Value { return [4]figure.Value{e.Naive, e.W, e.PU, e.AP} }

var estimators = [4]string{"R_naive", "R_w", "R_PU", "R_AP"}

// errorsOf returns the root mean square errors of the four estimators over seeds.
func errorsOf(some []*Table2Row, get func(*Table2Row) RiskEstimates) (e [4]float64) {
	for i := range e {
		for _, x := range some {
			d := float64(get(x).list()[i] - x.Risk)
			e[i] += d * d / float64(len(some))
		}
		e[i] = math.Sqrt(e[i])
	}
	return e
}

func own(e *Table2Row) RiskEstimates  { return e.Own }
func lent(e *Table2Row) RiskEstimates { return e.Bayes }

// coverage is the share of seeds in which the interval of estimator i has the true risk in it.
func coverage(some []*Table2Row, i int) float64 {
	var inside float64
	for _, e := range some {
		low, high := e.Lower.list()[i], e.Upper.list()[i]
		if math.IsNaN(float64(low)) {
			return math.NaN()
		}
		if low <= e.Risk && e.Risk <= high {
			inside++
		}
	}
	return inside / float64(len(some))
}

// ownTable is the paper's table with its own numbers below.
func ownTable(some []*Table2Row, fields FieldKind) figure.Table {
	t := figure.Table{Name: string(fields),
		Title: fmt.Sprintf("RMSE of estimates with the model's own ŷ and π̂, %s fields", fields), Head: "trained by"}
	for _, name := range estimators {
		t.Columns = append(t.Columns, figure.Column{Name: name, Digits: 4, Better: "lower"})
	}
	t.Columns = append(t.Columns, figure.Column{Name: "true risk", Means: "mean over seeds", Digits: 4})
	for _, m := range table2Methods {
		mine := of(some, m)
		row := figure.TableRow{Name: m.Name}
		var risks []float64
		for _, x := range errorsOf(mine, own) {
			row.Cells = append(row.Cells, figure.Number(x))
		}
		for _, e := range mine {
			risks = append(risks, float64(e.Risk))
		}
		mean, _ := meanAndSpread(risks)
		row.Cells = append(row.Cells, figure.Number(mean))
		t.Rows = append(t.Rows, row)
	}
	for _, m := range table2Methods {
		if p, ok := paperTable2[m.Name]; ok {
			row := figure.TableRow{Name: "paper's " + m.Name}
			for _, x := range p.list() {
				row.Cells = append(row.Cells, figure.Number(x))
			}
			t.Add(row.Name, append(row.Cells, figure.Cell{})...)
		}
	}
	return t
}

// bayesTable judges every model with the ŷ and π̂ of bayes.
func bayesTable(some []*Table2Row, fields FieldKind) figure.Table {
	t := figure.Table{Name: string(fields) + "-bayes",
		Title: fmt.Sprintf("RMSE of estimates with the ŷ and π̂ of bayes, %s fields", fields), Head: "trained by"}
	for _, name := range estimators {
		t.Columns = append(t.Columns, figure.Column{Name: name, Digits: 4, Better: "lower"})
	}
	for _, name := range estimators[1:] {
		t.Columns = append(t.Columns, figure.Column{Name: "in " + name,
			Means: "share of seeds whose interval has the true risk in it; .95 is nominal", Digits: 2})
	}
	t.Columns = append(t.Columns, figure.Column{Name: "R_AP − R", Means: "mean of the estimate less the true risk",
		Digits: 4}, figure.Column{Name: "±", Means: "mean half-width of the interval of R_AP", Digits: 4})
	for _, m := range table2Methods {
		mine := of(some, m)
		row := figure.TableRow{Name: m.Name}
		for _, x := range errorsOf(mine, lent) {
			row.Cells = append(row.Cells, figure.Number(x))
		}
		for i := 1; i < len(estimators); i++ {
			row.Cells = append(row.Cells, figure.Number(coverage(mine, i)))
		}
		var off, width []float64
		for _, e := range mine {
			off = append(off, float64(e.Bayes.AP-e.Risk))
			width = append(width, float64(e.Upper.AP-e.Lower.AP)/2)
		}
		meanOff, _ := meanAndSpread(off)
		meanWidth, _ := meanAndSpread(width)
		t.Add(row.Name, append(row.Cells, figure.Number(meanOff), figure.Number(meanWidth))...)
	}
	return t
}

// evaluationTable has a row per model.
func evaluationTable(some []*Table2Row, fields FieldKind) figure.Table {
	t := figure.Table{
		Name: string(fields) + "-seeds", Title: fmt.Sprintf("Every estimate, %s fields", fields), Head: "trained by",
		Detail:  true,
		Columns: []figure.Column{{Name: "seed"}, {Name: "true risk", Digits: 4}},
	}
	for _, name := range estimators {
		t.Columns = append(t.Columns, figure.Column{Name: name, Means: "with the model's own ŷ and π̂", Digits: 4})
	}
	for _, name := range estimators[1:] {
		t.Columns = append(t.Columns, figure.Column{Name: name + ", bayes", Means: "with the ŷ and π̂ of bayes",
			Digits: 4}, figure.Column{Name: name + " low", Digits: 4}, figure.Column{Name: name + " high", Digits: 4})
	}
	for _, m := range table2Methods {
		for _, e := range of(some, m) {
			row := figure.TableRow{Name: m.Name, Cells: []figure.Cell{figure.Number(e.Seed), figure.Number(e.Risk)}}
			for _, x := range e.Own.list() {
				row.Cells = append(row.Cells, figure.Number(x))
			}
			for i := 1; i < len(estimators); i++ {
				for _, x := range []RiskEstimates{e.Bayes, e.Lower, e.Upper} {
					row.Cells = append(row.Cells, figure.Number(float64(x.list()[i])))
				}
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// table2Figure sets the naive estimate beside R_AP with either nuisances.
func table2Figure(some []*Table2Row, fields FieldKind) figure.Figure {
	b := &figure.BarChart{YTitle: "RMSE", Series: []figure.BarSeries{{Name: "R_naive"},
		{Name: "R_AP, the model's own ŷ and π̂"}, {Name: "R_AP, those of bayes"}}}
	for _, m := range table2Methods {
		mine := of(some, m)
		a, c := errorsOf(mine, own), errorsOf(mine, lent)
		b.Groups = append(b.Groups, m.Name)
		for i, x := range []float64{a[0], a[3], c[3]} {
			b.Series[i].Values = append(b.Series[i].Values, x)
		}
	}
	return figure.Figure{Name: string(fields) + "-rmse",
		Title: fmt.Sprintf("RMSE of the estimated risk by the method that trained the model, %s fields", fields),
		Bars:  b}
}

// table2Findings compares what the paper says of its table, and what a prototype found, with ours.
func table2Claims(some []*Table2Row, fields FieldKind) []Claim {
	kind := fmt.Sprintf(" (%s fields)", fields)
	learnedMethods := []Method{mle, rw, pu, ap}
	return []Claim{
		naiveWorst(some, "R_naive is further off than R_w, R_PU and R_AP, whichever method trained the model"+kind,
			learnedMethods),
		mleWorst(some, "every estimator is further off with the ŷ and π̂ of mle than with those of rw, pu and ap"+kind,
			[]Method{rw, pu, ap}),
		steadied(some, "R_w and R_PU, further off than R_naive with the ŷ and π̂ of mle, are closer with those "+
			"of bayes"+kind),
		lentToOthers(some, "R_AP with the ŷ and π̂ of bayes is closer than R_naive for every model, also those "+
			"without π̂"+kind),
		covered(some, "the intervals of R_AP have the true risk of every model in them, in 95 of 100 worlds"+kind),
	}
}

func naiveWorst(some []*Table2Row, claim string, methods []Method) Claim {
	so, all := 0, 0
	var words []string
	for _, m := range methods {
		e := errorsOf(of(some, m), own)
		for _, x := range e[1:] {
			all++
			if x < e[0] {
				so++
			}
		}
		words = append(words, fmt.Sprintf("%s %s against %s, %s and %s", m.Name, figure.Decimal(e[0], 3),
			figure.Decimal(e[1], 3), figure.Decimal(e[2], 3), figure.Decimal(e[3], 3)))
	}
	return Claim{claim, verdictOf(so, all),
		fmt.Sprintf("It is in %d of %d. RMSE of R_naive against R_w, R_PU and R_AP: %s.", so, all,
			strings.Join(words, "; "))}
}

func mleWorst(some []*Table2Row, claim string, methods []Method) Claim {
	base := errorsOf(of(some, mle), own)
	so, all := 0, 0
	words := []string{"mle " + joined(base)}
	for _, m := range methods {
		e := errorsOf(of(some, m), own)
		for i, x := range e {
			all++
			if x < base[i] {
				so++
			}
		}
		words = append(words, m.Name+" "+joined(e))
	}
	return Claim{claim, verdictOf(so, all),
		fmt.Sprintf("It is in %d of %d. RMSE of R_naive, R_w, R_PU and R_AP: %s.", so, all, strings.Join(words, "; "))}
}

func joined(e [4]float64) string {
	var words []string
	for _, x := range e {
		words = append(words, figure.Decimal(x, 3))
	}
	return strings.Join(words, ", ")
}

func steadied(some []*Table2Row, claim string) Claim {
	mine := of(some, mle)
	before, after := errorsOf(mine, own), errorsOf(mine, lent)
	so := 0
	for i := 1; i <= 2; i++ {
		if before[i] > before[0] {
			so++
		}
		if after[i] < before[0] {
			so++
		}
	}
	return Claim{claim, verdictOf(so, 4), fmt.Sprintf("Of mle's models, RMSE: R_naive %s; with their own ŷ "+
		"and π̂ R_w %s and R_PU %s; with those of bayes R_w %s and R_PU %s.",
		figure.Decimal(before[0], 3), figure.Decimal(before[1], 3), figure.Decimal(before[2], 3),
		figure.Decimal(after[1], 3),
		figure.Decimal(after[2], 3))}
}

func lentToOthers(some []*Table2Row, claim string) Claim {
	so, all := 0, 0
	var words []string
	for _, m := range table2Methods {
		if m == bayes { // the others' judge
			continue
		}
		e := errorsOf(of(some, m), lent)
		all++
		if e[3] < e[0] {
			so++
		}
		words = append(words, fmt.Sprintf("%s %s instead of %s", m.Name, figure.Decimal(e[3], 3),
			figure.Decimal(e[0], 3)))
	}
	return Claim{claim, verdictOf(so, all), "RMSE of R_AP instead of R_naive: " + strings.Join(words, "; ") + "."}
}

// covered allows what chance does, for seeds are few.
func covered(some []*Table2Row, claim string) Claim {
	so, all := 0, 0
	var words []string
	for _, m := range table2Methods {
		mine := of(some, m)
		share := coverage(mine, 3)
		if math.IsNaN(share) {
			continue
		}
		count := int(math.Round(share * float64(len(mine))))
		all++
		if (distuv.Binomial{N: float64(len(mine)), P: .95}).CDF(float64(count)) >= .05 {
			so++
		}
		words = append(words, fmt.Sprintf("%s %d of %d", m.Name, count, len(mine)))
	}
	return Claim{claim, verdictOf(so, all), "Seeds whose interval has it: " + strings.Join(words, ", ") +
		". A count is taken for fair where chance gives so few or fewer in at least one of 20 repetitions."}
}
