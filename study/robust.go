package study

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"unseen/engine"
	"unseen/figure"
	"unseen/fit"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

var robust = Study{
	Name:  "robust",
	Title: "Robust: whether R_DR is near the truth where little of a log was shown",
	run:   runRobust,
}

// robustCase is what is believed of a world: ŷ and π̂ as they are, or off.
type robustCase struct {
	name     string
	shift    float64 // of the logits of ŷ, which are also halved and made noisy; 0 means that ŷ is right
	power    float64 // π̂ = .8·π^power; 0 means that π̂ is right
	learned  bool    // by bayes, from half of the sources, and judged on the others
	promised bool    // R_DR should hold the truth
}

var robustCases = []robustCase{
	{name: "both right", promised: true},
	{name: "ŷ too low", shift: -1.5, promised: true},
	{name: "ŷ too high", shift: 1, promised: true},
	{name: "π̂ wrong", power: .7, promised: true},
	{name: "both learned", learned: true, promised: true},
	{name: "both wrong", shift: -1.5, power: .7},
}

// The π of pairs of fields, evenly spaced by their logarithms.
const leastShown, mostShown = .001, .7

// coverageGoal is the share of logs in which intervals of 95% should hold the truth.
const coverageGoal = .93

// RobustRow is the risk of one model by one log, beside the truth.
type RobustRow struct {
	Case  string `json:"case"`
	Seed  uint64 `json:"seed"`
	Log   int    `json:"log"`
	Shown int    `json:"shown"`
	Links int    `json:"links"`

	Truth  float64       `json:"truth"`
	Robust risk.Interval `json:"robust"` // R_DR
	Usual  risk.Interval `json:"usual"`  // by the masses ŷ + a(o−ŷ)/π̂ as they are, π̂ and ŷ taken for known
	// the least and the largest that the risk of any y would be
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
}

func (r *RobustRow) holds(i risk.Interval) bool { return i.Lower <= r.Truth && r.Truth <= i.Upper }

func runRobust(ctx context.Context, l *lab) (*Result, error) {
	logs, nodes := 20, 240
	if l.Quick {
		logs, nodes = 2, 80
	}
	var rows []*RobustRow
	var tasks []task
	for _, seed := range l.Seeds {
		for log := range logs {
			at := len(rows)
			var filled []any
			for _, c := range robustCases {
				rows = append(rows, &RobustRow{Case: c.name, Seed: seed, Log: log})
				filled = append(filled, rows[len(rows)-1])
			}
			tasks = append(tasks, task{name: fmt.Sprintf("robust, seed %d, log %d", seed, log), cost: 1,
				do:   func(ctx context.Context) error { return robustLog(ctx, rows[at:at+len(robustCases)], nodes) },
				rows: filled})
		}
	}
	if err := l.each(ctx, tasks); err != nil {
		return nil, err
	}
	return &Result{Rows: rows, Setting: []string{
		fmt.Sprintf("%d worlds of %d nodes in 5 fields, vectors of 16 dimensions, base rate .16, oracle AUC .9. The "+
			"π of the 25 pairs of fields are spaced evenly from %g to %g by their logarithms, in random order. Of "+
			"every pair the log says whether it was shown and, if so, whether it was linked; %s, %d logs each.",
			len(l.Seeds)*logs, nodes, leastShown, mostShown, seedList(l.Seeds), logs),
		"R_DR is of ŷ under the log-loss. A wrong ŷ has half the true logits, each weight of which is off by a " +
			"random 60%, and a shift of −1.5 or 1. A wrong π̂ is .8·π^.7, six times π where that is .001. Learned: " +
			"by bayes, from the log of half of the sources, and judged on the others.",
		"Usual: Σ w·(P·δ(1) + N·δ(0))/Σ w with P = ŷ + a(o−ŷ)/π̂ and N = 1 − P, which R_DR replaces.",
	}, Tables: []figure.Table{robustTable(rows)}, Claims: robustClaims(rows)}, nil
}

// robustLog draws a world and its log, and fills a row for every case.
func robustLog(ctx context.Context, rows []*RobustRow, nodes int) error {
	rng := rand.New(rand.NewPCG(rows[0].Seed, 0x106+uint64(rows[0].Log)))
	plan := world.Scenario{BaseRate: .16, OracleAUC: .9, Seed: rng.Uint64(), Threads: 1}
	w, err := world.New(ctx, world.Settings{Nodes: nodes, Dim: 16, Fields: world.EvenFields(5), Scenario: plan})
	if err != nil {
		return err
	}
	defer w.Graph().Vectors().Close()
	log, err := newPlantedLog(w, rng)
	if err != nil {
		return err
	}
	for i, c := range robustCases {
		if err := log.judge(ctx, c, rows[i], rng); err != nil {
			return err
		}
	}
	return nil
}

// plantedLog is a complete log of a world.
type plantedLog struct {
	world      *world.World
	evidence   sample.Evidence
	link       model.LinkModel
	propensity *model.FieldMatrix
	logits     []float32 // of π, by pair of fields
}

func newPlantedLog(w *world.World, rng *rand.Rand) (*plantedLog, error) {
	nodes := model.NodesOf(w.Graph())
	l := &plantedLog{world: w}
	var err error
	if l.link, err = model.NewLink("diagonal", nodes, model.LinkOptions{}); err != nil {
		return nil, err
	}
	if l.propensity, err = model.NewFieldMatrix(nodes); err != nil {
		return nil, err
	}
	l.logits = make([]float32, l.propensity.Size())
	last := float64(len(l.logits) - 1)
	for k, cell := range rng.Perm(len(l.logits)) {
		pi := leastShown * math.Pow(mostShown/leastShown, float64(k)/last)
		l.logits[cell] = float32(math.Log(pi / (1 - pi)))
	}
	if l.evidence.Pairs, err = graph.AllPairs(w.Graph(), graph.Universe{}, math.MaxInt32); err != nil {
		return nil, err
	}
	pairs := l.evidence.Pairs
	for k, source := range pairs.Source {
		pi, _ := kern.Sigmoid64(float64(l.logits[l.propensity.Cell(source, pairs.Target[k])]))
		exposure := risk.Unexposed
		pairs.Linked[k] = false
		if rng.Float64() < pi {
			exposure = risk.Exposed
			pairs.Linked[k] = rng.Float64() < w.Truth(source, pairs.Target[k]).Link
		}
		l.evidence.Exposure = append(l.evidence.Exposure, exposure)
	}
	return l, nil
}

// judge estimates the risk of what is believed in a case.
func (l *plantedLog) judge(ctx context.Context, c robustCase, row *RobustRow, rng *rand.Rand) error {
	judge, evidence, err := l.believe(ctx, c, rng)
	if err != nil {
		return err
	}
	found, err := judge.Risk(ctx, evidence, risk.Estimator{Scheme: risk.DR{}}, nil)
	if err != nil {
		return err
	}
	row.Robust = found.Interval
	z, s, err := judge.Logits(ctx, evidence.Pairs)
	if err != nil {
		return err
	}
	usual := risk.Sample{Values: make([]float64, len(z))}
	n := float64(len(z))
	for k := range z {
		b, err := risk.FromLogits(float64(z[k]), float64(s[k]))
		if err != nil {
			return err
		}
		source, target := evidence.Pairs.Source[k], evidence.Pairs.Target[k]
		linked, unlinked := risk.LogLoss{}.Losses(b)
		y := l.world.Truth(source, target).Link
		row.Truth += (y*linked + (1-y)*unlinked) / n
		row.Least += min(linked, unlinked) / n
		row.Most += max(linked, unlinked) / n
		seen := risk.Observation{Linked: evidence.Pairs.Linked[k], Exposure: evidence.Exposure[k]}
		if seen.Exposure == risk.Exposed {
			row.Shown++
		}
		if seen.Linked {
			row.Links++
		}
		usual.Values[k] = risk.Estimator{Scheme: risk.DR{}}.Risk(seen, b)
		usual.Sources = append(usual.Sources, int(source))
	}
	row.Usual, err = usual.Normal(.95, risk.Nuisance{})
	return err
}

// believe returns a judge with the beliefs of a case, and what it judges by.
func (l *plantedLog) believe(ctx context.Context, c robustCase, rng *rand.Rand) (*fit.Judge, sample.Evidence, error) {
	if c.learned {
		half := func(odd int32) sample.Evidence {
			return l.evidence.At(sample.Indices(l.evidence.Pairs.Len(), func(k int) bool {
				return l.evidence.Pairs.Source[k]%2 == odd
			}))
		}
		train := half(0)
		learned, err := fit.Fit(ctx, sample.Problem{Nodes: model.NodesOf(l.world.Graph()), Train: train.Pairs,
			Exposure: train.Exposure}, fit.Settings{Threads: 1, Doctor: fit.QuickDoctor, Seed: rng.Uint64()})
		if err != nil {
			return nil, sample.Evidence{}, err
		}
		return learned.Judge(), half(1), nil
	}
	params := append(slices.Clone(l.world.Weights()), float32(l.world.Bias()))
	if c.shift != 0 {
		for i := range params {
			params[i] /= 2
			if i < len(params)-1 {
				params[i] *= float32(1 + .6*rng.NormFloat64())
			}
		}
		params[len(params)-1] += float32(c.shift)
	}
	logits := slices.Clone(l.logits)
	if c.power != 0 {
		for i, s := range logits {
			pi, _ := kern.Sigmoid64(float64(s))
			pi = .8 * math.Pow(pi, c.power)
			logits[i] = float32(math.Log(pi / (1 - pi)))
		}
	}
	return &fit.Judge{Predictor: engine.Predictor{Link: l.link, LinkParams: params, Propensity: l.propensity,
		PropensityParams: logits}, Threads: 1}, l.evidence, nil
}

// robustTable has a row per case.
func robustTable(rows []*RobustRow) figure.Table {
	t := figure.Table{Name: "coverage", Title: "How near R_DR is to the truth", Head: "beliefs",
		Columns: []figure.Column{{Name: "holds", Means: "logs whose interval of R_DR has the truth in it"},
			{Name: "RMSE", Means: "of R_DR", Digits: 4, Better: "lower"},
			{Name: "bias", Digits: 4}, {Name: "width", Means: "median, of the interval", Digits: 4},
			{Name: "outside", Means: "logs whose R_DR no risk of these losses can have"},
			{Name: "usual holds", Means: "the same by the usual estimate"},
			{Name: "usual RMSE", Digits: 4, Better: "lower"}, {Name: "usual width", Digits: 4},
			{Name: "usual outside"},
			{Name: "shown", Means: "median", Digits: 0}, {Name: "links", Means: "median", Digits: 0}}}
	for _, c := range robustCases {
		of := ofCase(rows, c.name)
		cells := make([]figure.Cell, 0, len(t.Columns))
		for i, get := range []func(*RobustRow) risk.Interval{
			func(r *RobustRow) risk.Interval { return r.Robust },
			func(r *RobustRow) risk.Interval { return r.Usual },
		} {
			var errors, squares risk.Sum
			var widths []float64
			for _, r := range of {
				off := get(r).Estimate - r.Truth
				errors.Add(off / float64(len(of)))
				squares.Add(off * off / float64(len(of)))
				widths = append(widths, get(r).Upper-get(r).Lower)
			}
			cells = append(cells, figure.Ratio(len(filter(of, func(r *RobustRow) bool { return r.holds(get(r)) })),
				len(of)),
				figure.Number(math.Sqrt(squares.Value())))
			if i == 0 {
				cells = append(cells, figure.Number(errors.Value()))
			}
			cells = append(cells, figure.Number(median(widths)), figure.Ratio(len(filter(of, func(r *RobustRow) bool {
				return get(r).Estimate < r.Least || get(r).Estimate > r.Most
			})), len(of)))
		}
		var shown, links []float64
		for _, r := range of {
			shown, links = append(shown, float64(r.Shown)), append(links, float64(r.Links))
		}
		t.Add(c.name, append(cells, figure.Number(median(shown)), figure.Number(median(links)))...)
	}
	return t
}

func ofCase(rows []*RobustRow, name string) []*RobustRow {
	return filter(rows, func(r *RobustRow) bool { return r.Case == name })
}

// robustClaims are the goals, which were stated before the run.
func robustClaims(rows []*RobustRow) []Claim {
	var counts []string
	met, outside := true, 0
	for _, c := range robustCases {
		of := ofCase(rows, c.name)
		outside += len(filter(of, func(r *RobustRow) bool {
			return !(r.Least <= r.Robust.Estimate && r.Robust.Estimate <= r.Most)
		}))
		if !c.promised {
			continue
		}
		holding := len(filter(of, func(r *RobustRow) bool { return r.holds(r.Robust) }))
		counts = append(counts, fmt.Sprintf("%s %d of %d", c.name, holding, len(of)))
		met = met && float64(holding) >= coverageGoal*float64(len(of))
	}
	return []Claim{
		{"Where ŷ, π̂ or both are right or learned, the interval of R_DR holds the truth in 93% of the logs",
			metIf(met), "It does in: " + strings.Join(counts, ", ") + "."},
		{"R_DR is never a number that no risk of the same losses can be", metIf(outside == 0),
			fmt.Sprintf("%d of %d are.", outside, len(rows))},
	}
}
