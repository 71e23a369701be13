package study

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"unseen/figure"
	"unseen/world"
)

var table1 = Study{
	Name:    "table1",
	Title:   "Table 1: each method on links whose truth is known",
	planted: true,
	run:     runTable1,
}

// The methods of the table, in the order of its rows.
var (
	naive      = Method{Name: "naive", Method: "naive"}
	naiveField = Method{Name: "naive-field", Method: "naive-field"}
	cosine     = Method{Name: "cosine", Method: "cosine"}
	mle        = Method{Name: "mle", Method: "mle"}
	rw         = Method{Name: "rw", Method: "rw"}
	pu         = Method{Name: "pu", Method: "pu"}
	ap         = Method{Name: "ap", Method: "ap"}
	bayes      = Method{Name: "bayes", Method: "bayes"}
	knownMLE   = Method{Name: "mle, π known", Method: "mle", Known: true}
	knownBayes = Method{Name: "bayes, π known", Method: "bayes", Known: true}
	oracle     = Method{Name: "the truth"}

	table1Methods = []Method{cosine, naive, naiveField, mle, rw, pu, ap, bayes, knownMLE, knownBayes, oracle}
)

// paperRow is a row of the paper's Table 1, in percent.
type paperRow struct{ precision, recall, auc, thresholdedAP float64 }

var paperTable1 = map[string]paperRow{
	"naive": {67.24, 54.81, 84.45, 41.87},
	"mle":   {81.04, 60.19, 93.12, 56.77},
	"rw":    {83.28, 63.73, 96.42, 56.96},
	"pu":    {82.16, 63.07, 94.28, 58.01},
	"ap":    {83.01, 65.54, 95.38, 59.90},
}

// runTable1 trains every method in both kinds of worlds.
func runTable1(ctx context.Context, l *lab) (*Result, error) {
	methods := slices.Concat(table1Methods[:len(table1Methods)-1], l.Methods, []Method{oracle})
	outcomes, err := l.train(ctx, cross(l.kinds(), l.Seeds, methods))
	if err != nil {
		return nil, err
	}
	r := &Result{Rows: outcomes, Setting: l.setting(), Warnings: failureWarnings(outcomes)}
	for _, kind := range l.kinds() {
		ofKind := filter(outcomes, func(o *Outcome) bool { return o.Fields == kind })
		r.Tables = append(r.Tables, table1Table(ofKind, kind, methods), seedTable(ofKind, kind, methods))
		if len(l.Methods) > 0 {
			r.Tables = append(r.Tables, differencesTable(ofKind, kind, l.Methods))
		}
		r.Claims = append(r.Claims, table1Claims(ofKind, kind)...)
	}
	return r, nil
}

// setting says what was trained on.
func (l *lab) setting() []string {
	z := l.trainings.size
	large := "equally large too"
	if z.fields == len(world.FieldsOfStudy()) {
		large = "as large as in the paper's first dataset"
	}
	if len(l.Networks) > 0 {
		return []string{
			fmt.Sprintf("Truths planted on %s: %d nodes, %d fields and vectors of %d dimensions of its own; the "+
				"direction of w from a model of its links; links drawn with a base rate of .16 and an oracle "+
				"AUC of .97; π from U(.7, 1) within a field and U(.1, .3) between two.",
				l.Networks[0].Name, z.nodes, z.fields, z.dim),
			fmt.Sprintf("Training on %d pairs, early stopping on %d others, evaluation against the truth on %d "+
				"more; preset "+
				"%s; %s, each with a truth of its own.",
				z.pairs, z.validation, z.test, l.Preset, seedList(l.Seeds)),
		}
	}
	return []string{
		fmt.Sprintf("Worlds with known truth: %d nodes, %d fields, vectors of %d dimensions whose products vary "+
			"in about %.0f; links drawn with a base rate of .16 and an oracle AUC of .97; π from U(.7, 1) "+
			"within a field and U(.1, .3) between two.",
			z.nodes, z.fields, z.dim, z.effective()),
		"Random fields are equally large and have nothing to do with the texts; tied fields are those of the texts, " +
			large + ".",
		fmt.Sprintf("Training on %d pairs, early stopping on %d others, evaluation against the truth on %d "+
			"more; preset %s; "+
			"%s, each with a world of its own.",
			z.pairs, z.validation, z.test, l.Preset, seedList(l.Seeds)),
	}
}

func seedList(seeds []uint64) string {
	first, last := seeds[0], seeds[len(seeds)-1]
	switch {
	case len(seeds) == 1:
		return fmt.Sprintf("seed %d", first)
	case len(seeds) > 2 && slices.Equal(seeds, Seeds(first, len(seeds))):
		return fmt.Sprintf("seeds %d to %d", first, last)
	}
	var words []string
	for _, s := range seeds {
		words = append(words, fmt.Sprint(s))
	}
	return "seeds " + strings.Join(words, ", ")
}

func failureWarnings(outcomes []*Outcome) (warnings []string) {
	for _, o := range outcomes {
		if o.Failed != "" {
			warnings = append(warnings, fmt.Sprintf("%s: %s", training{o.Fields, o.Seed, o.Method}, o.Failed))
		}
	}
	return warnings
}

var metrics = []column[*Outcome]{
	percent("AUC", "area under the ROC curve, %", 2, func(o *Outcome) figure.Value { return o.AUC }),
	percent("AP", "average precision, %", 1, func(o *Outcome) figure.Value { return o.AP }),
	percent("recall", "recall at ŷ ≥ ½, %", 1, func(o *Outcome) figure.Value { return o.Recall }),
	percent("prec.", "precision at ŷ ≥ ½, %", 1, func(o *Outcome) figure.Value { return o.Precision }),
	percent("F1", "F1 at ŷ ≥ ½, %", 1, func(o *Outcome) figure.Value { return o.F1 }),
	percent("acc.", "accuracy at ŷ ≥ ½, %", 1, func(o *Outcome) figure.Value { return o.Accuracy }),
	percent("MAP", "average precision of thresholded predictions, what the paper calls MAP, %", 1,
		func(o *Outcome) figure.Value { return o.ThresholdedAP }),
	{figure.Column{Name: "risk", Means: "true risk: log-loss against y", Digits: 4, Better: "lower"}, 1,
		func(o *Outcome) figure.Value { return o.Risk }},
	{figure.Column{Name: "ŷ", Means: "mean ŷ; the truth's is in its own row", Digits: 3}, 1,
		func(o *Outcome) figure.Value { return o.MeanLink }},
	{figure.Column{Name: "π̂ err", Means: "mean relative error of π̂ over ordered pairs of fields, %", Digits: 0,
		Better: "lower"}, 100, func(o *Outcome) figure.Value { return o.PropensityError }},
}

// table1Table is mean ± sd over seeds, followed by the paper's rows.
func table1Table(outcomes []*Outcome, kind FieldKind, methods []Method) figure.Table {
	t := figure.Table{Name: string(kind), Title: fmt.Sprintf("%s fields, %s", kind,
		seedsTitle(len(byMethod(outcomes, oracle)))), Head: "method", Columns: headings(metrics)}
	for _, m := range methods {
		t.Add(m.Name, cells(metrics, byMethod(outcomes, m))...)
	}
	for _, m := range table1Methods {
		p, ok := paperTable1[m.Name]
		if !ok {
			continue
		}
		printed := map[string]figure.Cell{
			"AUC": figure.Number(p.auc), "prec.": figure.Number(p.precision), "recall": figure.Number(p.recall),
			"MAP": figure.Number(p.thresholdedAP),
		}
		var row []figure.Cell
		for _, c := range t.Columns {
			row = append(row, printed[c.Name])
		}
		t.Add("paper's "+m.Name, row...)
	}
	return t
}

// seedTable has a row per training.
func seedTable(outcomes []*Outcome, kind FieldKind, methods []Method) figure.Table {
	t := figure.Table{Name: string(kind) + "-seeds", Title: fmt.Sprintf("%s fields, every training", kind),
		Head: "method", Detail: true, Columns: slices.Concat([]figure.Column{{Name: "seed"}}, headings(metrics),
			[]figure.Column{{Name: "s", Means: "seconds on one thread", Digits: 1}})}
	for _, m := range methods {
		for _, o := range byMethod(outcomes, m) {
			t.Add(m.Name, slices.Concat([]figure.Cell{figure.Number(o.Seed)}, cells(metrics, []*Outcome{o}),
				[]figure.Cell{figure.Number(o.Seconds)})...)
		}
	}
	return t
}

// differencesTable compares each of the caller's methods with the others, seed by seed, so that differences between
// worlds cancel. The intervals are Student's, over seeds.
func differencesTable(outcomes []*Outcome, kind FieldKind, methods []Method) figure.Table {
	t := figure.Table{Name: string(kind) + "-against",
		Title: fmt.Sprintf("%s fields, differences in the same worlds", kind), Head: "methods",
		Columns: []figure.Column{
			{Name: "risk", Means: "true risk minus that of the other", Digits: 4, Better: "lower"},
			{Name: "risk from", Means: "95% interval over seeds", Digits: 4}, {Name: "risk to", Digits: 4},
			{Name: "AUC", Means: "area under the ROC curve minus that of the other, points", Digits: 2,
				Better: "higher"},
			{Name: "AUC from", Digits: 2}, {Name: "AUC to", Digits: 2},
		}}
	trueRisk := func(o *Outcome) figure.Value { return o.Risk }
	auc := func(o *Outcome) figure.Value { return 100 * o.AUC }
	for _, m := range methods {
		for _, other := range []Method{naive, mle, rw, pu, ap, bayes} {
			var row []figure.Cell
			for _, get := range []func(*Outcome) figure.Value{trueRisk, auc} {
				mine, theirs := values(byMethod(outcomes, m), get), values(byMethod(outcomes, other), get)
				for k := range mine {
					mine[k] -= theirs[k]
				}
				mean, sd := meanAndSpread(mine)
				half := math.NaN()
				if n := float64(len(mine)); n > 1 {
					half = sd / math.Sqrt(n) * distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(.975)
				}
				row = append(row, figure.Number(mean), figure.Number(mean-half), figure.Number(mean+half))
			}
			t.Add(m.Name+" minus "+other.Name, row...)
		}
	}
	return t
}

// table1Claims compares what the paper says of its table with ours.
func table1Claims(outcomes []*Outcome, kind FieldKind) []Claim {
	fields := fmt.Sprintf(" (%s fields)", kind)
	modelled, weighted := []Method{mle, rw, pu, ap}, []Method{rw, pu, ap}
	return []Claim{
		compareGains(outcomes, "every method that models exposure has a higher AUC than naive"+fields,
			gain{naive, modelled, aucPoints, "AUC points", 2}),
		compareGains(outcomes, "every method that models exposure has a higher recall at ½ than naive"+fields,
			gain{naive, modelled, func(o *Outcome) float64 { return 100 * float64(o.Recall) }, "points of recall", 1}),
		compareGains(outcomes, "every method that models exposure has a higher precision at ½ than naive"+fields,
			gain{naive, modelled, func(o *Outcome) float64 { return 100 * float64(o.Precision) },
				"points of precision", 1}),
		compareGains(outcomes, "R_w, R_PU and R_AP have a higher AUC than MLE"+fields,
			gain{mle, weighted, aucPoints, "AUC points", 2}),
	}
}

func aucPoints(o *Outcome) float64 { return 100 * float64(o.AUC) }

// gain is how much higher a number of methods is than that of a base.
type gain struct {
	base    Method
	methods []Method
	get     func(*Outcome) float64
	unit    string
	digits  int
}

// compareGains asks whether the gain is positive in every seed: reproduced if it is for all methods, not reproduced if
// for each it is negative on average or less than two standard errors, otherwise partly.
func compareGains(outcomes []*Outcome, statement string, g gain) Claim {
	below := byMethod(outcomes, g.base)
	everywhere, nowhere := true, true
	var evidence []string
	for _, m := range g.methods {
		var gains []float64
		var higher tally
		for i, o := range byMethod(outcomes, m) {
			x := g.get(o) - g.get(below[i])
			gains = append(gains, x)
			higher.add(x > 0)
		}
		mean, sd := meanAndSpread(gains)
		everywhere = everywhere && higher.held == higher.all
		nowhere = nowhere && !beyondChance(mean, sd, len(gains))
		evidence = append(evidence, fmt.Sprintf("%s %s (higher in %d of %d seeds)", m.Name, signed(mean, g.digits),
			higher.held, higher.all))
	}
	verdict := Partly
	switch {
	case everywhere:
		verdict = Reproduced
	case nowhere:
		verdict = NotReproduced
	}
	return Claim{statement, verdict, fmt.Sprintf("Against %s, in %s: %s.", g.base.Name, g.unit,
		strings.Join(evidence, ", "))}
}
