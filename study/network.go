package study

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"unseen/evaluate"
	"unseen/figure"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/sample"
)

// RealNetwork is a network of the caller, as opposed to a generated world: what was linked, and perhaps what was
// shown.
type RealNetwork struct {
	Name  string              `json:"name"`
	Graph *graph.Graph        `json:"-"` // with vectors and fields
	Log   *sample.ExposureLog `json:"-"` // nil means that no exposure is known

	// Plan says how the nodes are split and the pairs sampled; its seed is replaced by each seed of the study. nil
	// means that of sample.PlanFor, which fit takes too.
	Plan *sample.Plan `json:"drawing,omitempty"`

	more []Method // those of the options
}

// plan is how nodes are split and pairs sampled with a seed, and why so where the network does not say it.
func (n RealNetwork) plan(seed uint64) (p sample.Plan, why string) {
	if n.Plan != nil {
		p = *n.Plan
	} else {
		p, why = sample.PlanFor(n.Graph)
	}
	p.Seed = seed
	return p, why
}

// bonus is naive with .5 added to the logit between two fields.
var (
	bonus = Method{Name: "cross bonus", Method: "naive+bonus"}
	dr    = Method{Name: "dr", Method: "dr"}

	networkMethods = []Method{cosine, naive, naiveField, bonus, mle, rw, pu, ap, bayes}
)

// sample is the log, if it can be a sample of pairs chosen independently of whether they were shown. A log in which
// everything was shown is not: it lists what was shown, and would teach that everything is shown.
func (n RealNetwork) sample() *sample.ExposureLog {
	if n.Log == nil || !slices.Contains(n.Log.Exposed, false) {
		return nil
	}
	return n.Log
}

// methods are those that can be trained on a network.
func (n RealNetwork) methods() []Method {
	methods := slices.Clone(networkMethods)
	if n.sample() != nil {
		methods = append(methods, dr)
	}
	return append(methods, n.more...)
}

// models reports whether a method has propensities of its own.
func (m Method) models() bool {
	return !slices.Contains([]Method{cosine, naive, naiveField, bonus}, m)
}

type drawKey struct {
	network string
	seed    uint64
}

type fitKey struct {
	drawKey
	method Method
}

// drawn is a network, split and sampled with a seed.
type drawn struct {
	network RealNetwork
	*sample.Prepared
	candidates *evaluate.Candidates
}

// fitted is the result of a training.
type fitted struct {
	judge    *fit.Judge
	class    fit.Class
	ratio    *fit.Ratio
	same     float64 // mean π̂ of training pairs of one field
	cross    float64
	logged   []fit.LoggedTest
	seconds  float64
	warnings []string
	failed   string // why all else is empty: training diverged
}

// prepare splits and samples every network with every seed.
func (l *lab) prepare(ctx context.Context) error {
	var tasks []task
	for _, n := range l.Networks {
		for _, seed := range l.Seeds {
			key := drawKey{n.Name, seed}
			if l.prepared[key] != nil {
				continue
			}
			d := &drawn{network: n}
			l.prepared[key] = d
			tasks = append(tasks, task{name: fmt.Sprintf("%s, seed %d, drawing pairs", n.Name, seed), cost: .1,
				do: func(ctx context.Context) (err error) {
					plan, _ := n.plan(seed)
					o := sample.Options{Origin: sample.Origin{Plan: plan}, Log: n.sample()}
					if d.Prepared, err = sample.Prepare(ctx, n.Graph, o); err != nil {
						return err
					}
					d.candidates, err = evaluate.NewCandidates(d.Prepared, graph.Test)
					return err
				}})
		}
	}
	return l.each(ctx, tasks)
}

// fitAll trains every method on every network with every seed, unless that was done before.
func (l *lab) fitAll(ctx context.Context) error {
	if err := l.prepare(ctx); err != nil {
		return err
	}
	var tasks []task
	for _, n := range l.Networks {
		for _, seed := range l.Seeds {
			for _, m := range n.methods() {
				key := fitKey{drawKey{n.Name, seed}, m}
				if m == bonus || l.fits[key] != nil {
					continue
				}
				f := &fitted{}
				l.fits[key] = f
				d := l.prepared[key.drawKey]
				tasks = append(tasks, task{name: fmt.Sprintf("%s, %s, seed %d", m.Name, n.Name, seed),
					cost: (training{method: m}).cost(), do: func(ctx context.Context) error {
						return f.train(ctx, d.Problem, m, l.Preset, seed)
					}})
			}
		}
	}
	if err := l.each(ctx, tasks); err != nil {
		clear(l.fits)
		return err
	}
	for _, n := range l.Networks {
		for _, seed := range l.Seeds {
			key := fitKey{drawKey{n.Name, seed}, naive}
			f := *l.fits[key]
			if f.failed == "" {
				link, err := model.NewCrossBonus(f.judge.Link, .5)
				if err != nil {
					return err
				}
				judge := *f.judge
				judge.Link = link
				f.judge = &judge
			}
			key.method = bonus
			l.fits[key] = &f
		}
	}
	return nil
}

// train fits by a method.
func (f *fitted) train(ctx context.Context, p sample.Problem, m Method, preset string, seed uint64) error {
	settings := fit.Settings{Method: m.Method, Preset: preset, Seed: seed, Threads: 1, Replicates: -1}
	filled, err := settings.WithDefaults()
	if err != nil {
		return err
	}
	settings.Starts = filled.Starts[:1] // its model is the one that is kept
	settings.LambdaR = m.Share * filled.LambdaL
	began := time.Now()
	r, err := fit.Fit(ctx, p, settings)
	f.seconds = time.Since(began).Seconds()
	switch {
	case errors.Is(err, fit.ErrDiverged):
		f.failed = err.Error()
		return nil
	case err != nil:
		return err
	}
	f.judge = r.Judge()
	f.same, f.cross = math.NaN(), math.NaN()
	if m.models() && len(r.Starts) > 0 {
		f.same, f.cross = r.Starts[0].MeanSame, r.Starts[0].MeanCross
	}
	if r.Findings != nil {
		f.class, f.logged = r.Findings.Class, r.Findings.Logged
		if m.models() {
			f.ratio = r.Findings.Ratio
		}
	}
	for _, w := range r.Warnings {
		f.warnings = append(f.warnings, w.Message)
	}
	return nil
}

// networkSetting describes the networks and how they were split.
func (l *lab) networkSetting() []string {
	var words []string
	for _, n := range l.Networks {
		d := l.prepared[drawKey{n.Name, l.Seeds[0]}]
		plan, why := n.plan(l.Seeds[0])
		how := "by age (70, 10 and 20% of the nodes), targets older than their source"
		if !n.Graph.HasTimes() {
			how = "in the order of its links, since no node has a time (70, 10 and 20% of the nodes), targets " +
				"before their source"
		}
		switch {
		case plan.Split == sample.ByDate:
			how = fmt.Sprintf("at %s and %s, targets older than their source", plan.Dates[0].Format(time.DateOnly),
				plan.Dates[1].Format(time.DateOnly))
		case plan.Split == sample.LastLinks || plan.Split == sample.RandomLinks || plan.Split == sample.LinksByDate:
			how = plan.Describe(n.Graph)
		case plan.Split == sample.AtRandom:
			how = cmp.Or(why, "at random") + " (70, 10 and 20% of the nodes)"
		case plan.Later:
			how = "by age (70, 10 and 20% of the nodes)"
		}
		links, across := 0, 0
		for place, i := range d.candidates.Sources() {
			for _, j := range d.candidates.Links(place) {
				links++
				if n.Graph.Field(i) != n.Graph.Field(j) {
					across++
				}
			}
		}
		words = append(words, fmt.Sprintf("%s: %d nodes, %d links, %d fields, vectors of %d dimensions; cut %s; "+
			"%d training links; %d test sources with %d links, %.0f%% of them between two fields.",
			n.Name, n.Graph.Len(), n.Graph.LinkCount(), n.Graph.FieldCount()-1, n.Graph.Vectors().Dim(), how,
			d.Links.Train,
			len(d.candidates.Sources()), links, 100*float64(across)/float64(max(links, 1))))
	}
	return append(words, fmt.Sprintf("Preset %s, first start only; %s.", l.Preset, seedList(l.Seeds)))
}

// seedsTitle says what the numbers of a table are, given the number of seeds.
func seedsTitle(count int) string {
	if count == 1 {
		return "one seed"
	}
	return fmt.Sprintf("mean ± sd over %d seeds", count)
}

// identified is the number of seeds in which bayes finds that links determine the scale of π.
func (l *lab) identified(n RealNetwork) (times int) {
	for _, seed := range l.Seeds {
		if l.fits[fitKey{drawKey{n.Name, seed}, bayes}].class == fit.Identified {
			times++
		}
	}
	return times
}

// scaleDisagreement is the largest ratio between methods of the mean π̂ of pairs of one field, over the seeds. All of
// them maximise nearly the same likelihood: where they disagree about the scale, links do not determine it.
func (l *lab) scaleDisagreement(n RealNetwork) float64 {
	most := 1.0
	for _, seed := range l.Seeds {
		low, high := math.Inf(1), 0.0
		for _, m := range n.methods() {
			if f := l.fits[fitKey{drawKey{n.Name, seed}, m}]; m.models() && f.failed == "" && f.same > 0 {
				low, high = min(low, f.same), max(high, f.same)
			}
		}
		if high > 0 {
			most = max(most, high/low)
		}
	}
	return most
}

// mostDisagreement is the ratio up to which methods agree.
const mostDisagreement = 1.25

// exposureTable shows π̂: always its ratios, and absolute means only where bayes calls the scale identified in every
// seed and the methods agree about it.
func (l *lab) exposureTable(n RealNetwork) figure.Table {
	t := figure.Table{Name: n.Name + "-exposure", Title: n.Name + ": learned exposure", Head: "method",
		Columns: []figure.Column{
			{Name: "same/cross", Means: "mean π̂ within a field ÷ between two", Digits: 2},
			{Name: "interval", Means: "of 95%, of the first seed, where the method has one"},
			{Name: "scale", Means: "whether links determine the scale of π, by seed"},
		}}
	absolute := l.identified(n) == len(l.Seeds) && l.scaleDisagreement(n) <= mostDisagreement
	if absolute {
		t.Columns = append(t.Columns, figure.Column{Name: "π̂ same", Digits: 3},
			figure.Column{Name: "π̂ cross", Digits: 3})
	}
	for _, m := range n.methods() {
		if !m.models() {
			continue
		}
		var ratios, same, cross []float64
		var classes []string
		interval := figure.Cell{}
		for k, seed := range l.Seeds {
			f := l.fits[fitKey{drawKey{n.Name, seed}, m}]
			if f.failed != "" || f.ratio == nil {
				ratios = append(ratios, math.NaN())
				continue
			}
			ratios, same, cross = append(ratios, f.ratio.Value), append(same, f.same), append(cross, f.cross)
			if k == 0 && f.ratio.Upper > 0 {
				interval = figure.Text(figure.Decimal(f.ratio.Lower, 2)+"–"+figure.Decimal(f.ratio.Upper, 2),
					figure.Part("lower", f.ratio.Lower), figure.Part("upper", f.ratio.Upper))
			}
			if !slices.Contains(classes, string(f.class)) {
				classes = append(classes, string(f.class))
			}
		}
		row := []figure.Cell{spreadOf(ratios), interval, figure.Text(strings.Join(classes, " / "))}
		if absolute {
			row = append(row, spreadOf(same), spreadOf(cross))
		}
		t.Add(m.Name, row...)
	}
	return t
}

// scaleClaim says whether links determine the scale of π.
func (l *lab) scaleClaim(n RealNetwork) Claim {
	var evidence []string
	for _, seed := range l.Seeds {
		b := l.fits[fitKey{drawKey{n.Name, seed}, bayes}]
		text := string(b.class)
		if b.failed != "" {
			text = "no fit"
		}
		if b.ratio != nil {
			text += fmt.Sprintf(" (π̂ within a field %s times that between two)", figure.Decimal(b.ratio.Value, 2))
		}
		evidence = append(evidence, text)
	}
	disagreement := l.scaleDisagreement(n)
	c := Claim{n.Name + ": links alone determine the scale of π", Missed, fmt.Sprintf("By bayes, seed by seed: %s. "+
		"The methods' mean π̂ within a field differ by a factor of up to %s.", strings.Join(evidence, ", "),
		figure.Decimal(disagreement, 2))}
	switch times := l.identified(n); {
	case times == len(l.Seeds) && disagreement <= mostDisagreement:
		c.Verdict = Met
		return c
	case times > 0:
		c.Verdict = Partly
	}
	c.Evidence += " Only ratios of π̂ are shown."
	return c
}

// networkFailures lists the trainings that diverged.
func (l *lab) networkFailures() (warnings []string) {
	for _, n := range l.Networks {
		for _, seed := range l.Seeds {
			for _, m := range n.methods() {
				if f := l.fits[fitKey{drawKey{n.Name, seed}, m}]; f.failed != "" && m != bonus {
					warnings = append(warnings, fmt.Sprintf("%s, %s, seed %d: %s", m.Name, n.Name, seed, f.failed))
				}
			}
		}
	}
	return warnings
}
