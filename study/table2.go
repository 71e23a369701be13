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
	"naive": {1.50, missing, missing, missing},
	"mle":   {.67, .23, .24, .32},
	"rw":    {.43, .04, .10, .11},
	"pu":    {.38, .05, .11, .04},
	"ap":    {.41, .06, .08, .03},
}

// Table2Row is one model, judged with its own ŷ and π̂ and with those of bayes.
type Table2Row struct {
	Fields FieldKind    `json:"fields"`
	Seed   uint64       `json:"seed"`
	Method Method       `json:"method"` // that trained the model
	Risk   figure.Value `json:"risk"`   // true risk on the pairs of the estimates

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
	rows, err := l.table2Rows(ctx, outcomes)
	if err != nil {
		return nil, err
	}
	r := &Result{Rows: rows, Warnings: failureWarnings(outcomes), Setting: append(l.setting(),
		"An estimate is computed from the links seen among the test pairs and compared with the true risk of the same "+
			"pairs, under the log-loss; no π̂ is clipped. naive and naive-field have no π̂ of their own.",
		"Intervals are those of fit.Judge at .95 from the posterior of bayes, without its refits to simulated "+
			"histories, which take ten times as long as the rest.",
	)}
	for _, kind := range kinds {
		ofKind := filter(rows, func(r *Table2Row) bool { return r.Fields == kind })
		r.Tables = append(r.Tables, ownEstimatesTable(ofKind, kind), bayesEstimatesTable(ofKind, kind),
			table2SeedsTable(ofKind, kind))
		r.Figures = append(r.Figures, table2Figure(ofKind, kind))
		r.Claims = append(r.Claims, table2Claims(ofKind, kind)...)
	}
	return r, nil
}

// newTable2Row is a row without the estimates by bayes.
func newTable2Row(o *Outcome) *Table2Row {
	r := &Table2Row{Fields: o.Fields, Seed: o.Seed, Method: o.Method, Risk: o.Risk, Own: o.Estimates,
		Bayes: missingEstimates, Lower: missingEstimates, Upper: missingEstimates}
	if o.Method == naive || o.Method == naiveField {
		r.Own = RiskEstimates{o.Estimates.Naive, missing, missing, missing}
	}
	return r
}

// table2Rows judges models. The worlds of their trainings are closed and are generated again.
func (l *lab) table2Rows(ctx context.Context, outcomes []*Outcome) ([]*Table2Row, error) {
	rows := make([]*Table2Row, len(outcomes))
	groups := make(map[subjectKey][]int)
	var keys []subjectKey
	for i, o := range outcomes {
		k := subjectKey{o.Fields, o.Seed}
		if groups[k] == nil {
			keys = append(keys, k)
		}
		groups[k] = append(groups[k], i)
		rows[i] = newTable2Row(o)
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
				judge, err := s.bayesJudge(own)
				if judge == nil || err != nil {
					return err
				}
				for _, i := range groups[k] {
					if err := s.judgeByBayes(ctx, judge, outcomes[i], rows[i]); err != nil {
						return err
					}
				}
				return nil
			}})
	}
	return rows, l.each(ctx, tasks)
}

// bayesJudge returns a judge with the ŷ and π̂ of bayes; nil if its training diverged.
func (s *subject) bayesJudge(outcomes []*Outcome) (*fit.Judge, error) {
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

// judgeByBayes estimates the risk of one model on the test pairs.
func (s *subject) judgeByBayes(ctx context.Context, judge *fit.Judge, o *Outcome, r *Table2Row) error {
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
		"naive": {&r.Bayes.Naive, &r.Lower.Naive, &r.Upper.Naive}, "w": {&r.Bayes.W, &r.Lower.W, &r.Upper.W},
		"pu": {&r.Bayes.PU, &r.Lower.PU, &r.Upper.PU}, "ap": {&r.Bayes.AP, &r.Lower.AP, &r.Upper.AP},
	} {
		*to[0], *to[1], *to[2] = figure.Value(panel.Risks[name].Interval.Estimate),
			figure.Value(panel.Risks[name].Lower), figure.Value(panel.Risks[name].Upper)
	}
	return nil
}

// predictions returns a model's logits of the test pairs.
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

// estimated is a risk and its estimates.
type estimated struct {
	RiskEstimates
	risk figure.Value
}

// rmse returns the root mean square errors of the four estimators.
func rmse(all []estimated) (e [4]float64) {
	for _, x := range all {
		for i, estimate := range x.list() {
			d := float64(estimate - x.risk)
			e[i] += d * d / float64(len(all))
		}
	}
	for i := range e {
		e[i] = math.Sqrt(e[i])
	}
	return e
}

// rmseOf returns the root mean square errors of one kind of estimates over seeds.
func rmseOf(rows []*Table2Row, get func(*Table2Row) RiskEstimates) [4]float64 {
	var all []estimated
	for _, r := range rows {
		all = append(all, estimated{get(r), r.Risk})
	}
	return rmse(all)
}

func ownEstimates(r *Table2Row) RiskEstimates   { return r.Own }
func bayesEstimates(r *Table2Row) RiskEstimates { return r.Bayes }

// coverage is the share of seeds whose interval of estimator i contains the true risk; NaN where one is missing.
func coverage(rows []*Table2Row, i int) float64 {
	var inside float64
	for _, r := range rows {
		low, high := r.Lower.list()[i], r.Upper.list()[i]
		if math.IsNaN(float64(low)) {
			return math.NaN()
		}
		if low <= r.Risk && r.Risk <= high {
			inside++
		}
	}
	return inside / float64(len(rows))
}

// ownEstimatesTable is the paper's table, followed by the paper's numbers.
func ownEstimatesTable(rows []*Table2Row, kind FieldKind) figure.Table {
	t := figure.Table{Name: string(kind),
		Title: fmt.Sprintf("RMSE of estimates with the model's own ŷ and π̂, %s fields", kind), Head: "trained by"}
	for _, name := range estimators {
		t.Columns = append(t.Columns, figure.Column{Name: name, Digits: 4, Better: "lower"})
	}
	t.Columns = append(t.Columns, figure.Column{Name: "true risk", Means: "mean over seeds", Digits: 4})
	for _, m := range table2Methods {
		ofMethod := byMethod(rows, m)
		errors := rmseOf(ofMethod, ownEstimates)
		t.Add(m.Name, append(numberCells(errors[:]),
			figure.Number(meanOf(ofMethod, func(r *Table2Row) figure.Value { return r.Risk })))...)
	}
	for _, m := range table2Methods {
		if p, ok := paperTable2[m.Name]; ok {
			printed := p.list()
			t.Add("paper's "+m.Name, append(numberCells(printed[:]), figure.Cell{})...)
		}
	}
	return t
}

// bayesEstimatesTable judges every model with the ŷ and π̂ of bayes.
func bayesEstimatesTable(rows []*Table2Row, kind FieldKind) figure.Table {
	t := figure.Table{Name: string(kind) + "-bayes",
		Title: fmt.Sprintf("RMSE of estimates with the ŷ and π̂ of bayes, %s fields", kind), Head: "trained by"}
	for _, name := range estimators {
		t.Columns = append(t.Columns, figure.Column{Name: name, Digits: 4, Better: "lower"})
	}
	for _, name := range estimators[1:] {
		t.Columns = append(t.Columns, figure.Column{Name: "in " + name,
			Means: "share of seeds whose interval contains the true risk; .95 is nominal", Digits: 2})
	}
	t.Columns = append(t.Columns, figure.Column{Name: "R_AP − R", Means: "mean of the estimate less the true risk",
		Digits: 4}, figure.Column{Name: "±", Means: "mean half-width of the interval of R_AP", Digits: 4})
	for _, m := range table2Methods {
		ofMethod := byMethod(rows, m)
		errors := rmseOf(ofMethod, bayesEstimates)
		row := numberCells(errors[:])
		for i := 1; i < len(estimators); i++ {
			row = append(row, figure.Number(coverage(ofMethod, i)))
		}
		off := meanOf(ofMethod, func(r *Table2Row) figure.Value { return r.Bayes.AP - r.Risk })
		halfWidth := meanOf(ofMethod, func(r *Table2Row) figure.Value { return (r.Upper.AP - r.Lower.AP) / 2 })
		t.Add(m.Name, append(row, figure.Number(off), figure.Number(halfWidth))...)
	}
	return t
}

// table2SeedsTable has a row per model.
func table2SeedsTable(rows []*Table2Row, kind FieldKind) figure.Table {
	t := figure.Table{
		Name: string(kind) + "-seeds", Title: fmt.Sprintf("Every estimate, %s fields", kind), Head: "trained by",
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
		for _, r := range byMethod(rows, m) {
			own, judged, low, high := r.Own.list(), r.Bayes.list(), r.Lower.list(), r.Upper.list()
			row := append([]figure.Cell{figure.Number(r.Seed), figure.Number(r.Risk)}, numberCells(own[:])...)
			for i := 1; i < len(estimators); i++ {
				row = append(row, figure.Number(judged[i]), figure.Number(low[i]), figure.Number(high[i]))
			}
			t.Add(m.Name, row...)
		}
	}
	return t
}

// table2Figure sets the naive estimate beside R_AP with either pair of ŷ and π̂.
func table2Figure(rows []*Table2Row, kind FieldKind) figure.Figure {
	b := &figure.BarChart{YTitle: "RMSE", Series: []figure.BarSeries{{Name: "R_naive"},
		{Name: "R_AP, the model's own ŷ and π̂"}, {Name: "R_AP, those of bayes"}}}
	for _, m := range table2Methods {
		ofMethod := byMethod(rows, m)
		own, judged := rmseOf(ofMethod, ownEstimates), rmseOf(ofMethod, bayesEstimates)
		b.Groups = append(b.Groups, m.Name)
		for i, x := range []float64{own[0], own[3], judged[3]} {
			b.Series[i].Values = append(b.Series[i].Values, x)
		}
	}
	return figure.Figure{Name: string(kind) + "-rmse",
		Title: fmt.Sprintf("RMSE of the estimated risk by the method that trained the model, %s fields", kind),
		Bars:  b}
}

// table2Claims compares what the paper says of its table, and what a prototype found, with ours.
func table2Claims(rows []*Table2Row, kind FieldKind) []Claim {
	fields := fmt.Sprintf(" (%s fields)", kind)
	return []Claim{
		naiveWorstClaim(rows, "R_naive is further off than R_w, R_PU and R_AP, whichever method trained the model"+
			fields),
		mleWorstClaim(rows, "every estimator is further off with the ŷ and π̂ of mle than with those of rw, pu and ap"+
			fields),
		bayesImprovesClaim(rows, "R_w and R_PU, further off than R_naive with the ŷ and π̂ of mle, are closer with "+
			"those of bayes"+fields),
		bayesJudgesClaim(rows, "R_AP with the ŷ and π̂ of bayes is closer than R_naive for every model, also those "+
			"without π̂"+fields),
		coverageClaim(rows, "the intervals of R_AP contain the true risk of every model in 95 of 100 worlds"+
			fields),
	}
}

func naiveWorstClaim(rows []*Table2Row, statement string) Claim {
	var closer tally
	var evidence []string
	for _, m := range []Method{mle, rw, pu, ap} {
		e := rmseOf(byMethod(rows, m), ownEstimates)
		for _, x := range e[1:] {
			closer.add(x < e[0])
		}
		evidence = append(evidence, fmt.Sprintf("%s %s against %s, %s and %s", m.Name, figure.Decimal(e[0], 3),
			figure.Decimal(e[1], 3), figure.Decimal(e[2], 3), figure.Decimal(e[3], 3)))
	}
	return Claim{statement, closer.verdict(),
		fmt.Sprintf("True in %d of %d comparisons. RMSE of R_naive against R_w, R_PU and R_AP: %s.", closer.held,
			closer.all,
			strings.Join(evidence, "; "))}
}

func mleWorstClaim(rows []*Table2Row, statement string) Claim {
	base := rmseOf(byMethod(rows, mle), ownEstimates)
	var closer tally
	evidence := []string{"mle " + decimals(base)}
	for _, m := range []Method{rw, pu, ap} {
		e := rmseOf(byMethod(rows, m), ownEstimates)
		for i, x := range e {
			closer.add(x < base[i])
		}
		evidence = append(evidence, m.Name+" "+decimals(e))
	}
	return Claim{statement, closer.verdict(), fmt.Sprintf("True in %d of %d comparisons. RMSE of R_naive, R_w, "+
		"R_PU and R_AP: %s.",
		closer.held, closer.all, strings.Join(evidence, "; "))}
}

func decimals(e [4]float64) string {
	var words []string
	for _, x := range e {
		words = append(words, figure.Decimal(x, 3))
	}
	return strings.Join(words, ", ")
}

func bayesImprovesClaim(rows []*Table2Row, statement string) Claim {
	ofMLE := byMethod(rows, mle)
	before, after := rmseOf(ofMLE, ownEstimates), rmseOf(ofMLE, bayesEstimates)
	var held tally
	for i := 1; i <= 2; i++ {
		held.add(before[i] > before[0])
		held.add(after[i] < before[0])
	}
	return Claim{statement, held.verdict(),
		fmt.Sprintf("Of mle's models, RMSE: R_naive %s; with their own ŷ and π̂ R_w "+
			"%s and R_PU %s; with those of bayes R_w %s and R_PU %s.", figure.Decimal(before[0], 3),
			figure.Decimal(before[1], 3), figure.Decimal(before[2], 3), figure.Decimal(after[1], 3),
			figure.Decimal(after[2], 3))}
}

func bayesJudgesClaim(rows []*Table2Row, statement string) Claim {
	var closer tally
	var evidence []string
	for _, m := range table2Methods {
		if m == bayes { // it judges the others
			continue
		}
		e := rmseOf(byMethod(rows, m), bayesEstimates)
		closer.add(e[3] < e[0])
		evidence = append(evidence, fmt.Sprintf("%s %s instead of %s", m.Name, figure.Decimal(e[3], 3),
			figure.Decimal(e[0], 3)))
	}
	return Claim{statement, closer.verdict(),
		"RMSE of R_AP instead of R_naive: " + strings.Join(evidence, "; ") + "."}
}

// coverageClaim allows for chance, since seeds are few.
func coverageClaim(rows []*Table2Row, statement string) Claim {
	var plausible tally
	var evidence []string
	for _, m := range table2Methods {
		ofMethod := byMethod(rows, m)
		share := coverage(ofMethod, 3)
		if math.IsNaN(share) {
			plausible.add(false)
			evidence = append(evidence, m.Name+" n/a")
			continue
		}
		count := int(math.Round(share * float64(len(ofMethod))))
		plausible.add(distuv.Binomial{N: float64(len(ofMethod)), P: .95}.CDF(float64(count)) >= .05)
		evidence = append(evidence, fmt.Sprintf("%s %d of %d", m.Name, count, len(ofMethod)))
	}
	return Claim{statement, plausible.verdict(), "Seeds whose interval contains it: " + strings.Join(evidence, ", ") +
		". A count passes if chance gives as few or fewer in at least one of 20 repetitions."}
}
