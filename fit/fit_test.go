package fit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/internal/racetest"
	"unseen/model"
	"unseen/progress"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

// trial is a small world with its pairs.
type trial struct {
	nodes                   model.Nodes
	train, validation, test *world.TruePairs
}

func newTrial(tb testing.TB, s world.Settings, pairs int, logged float64) *trial {
	tb.Helper()
	ctx := context.Background()
	w, err := world.New(ctx, s)
	if err != nil {
		tb.Fatal(err)
	}
	t := &trial{nodes: model.NodesOf(w.Graph())}
	for _, draw := range []struct {
		to   **world.TruePairs
		n    int
		part int
	}{{&t.train, pairs, 0}, {&t.validation, pairs / 5, 1}, {&t.test, 20_000, 2}} {
		if *draw.to, err = w.Pairs(ctx, draw.n, world.Draw{Part: draw.part, Logged: logged}); err != nil {
			tb.Fatal(err)
		}
	}
	return t
}

func (t *trial) problem() sample.Problem {
	p := sample.Problem{Nodes: t.nodes, Train: t.train.Pairs, Validation: t.validation.Pairs}
	if slices.Contains(t.train.Logged, true) {
		for k, logged := range t.train.Logged {
			a := risk.Unlogged
			if logged {
				a = risk.Unexposed
				if t.train.Exposed[k] {
					a = risk.Exposed
				}
			}
			p.Exposure = append(p.Exposure, a)
		}
	}
	return p
}

// marks is how well a model knows the truth.
type marks struct{ auc, recall, risk, mean, propensityError float64 }

func (t *trial) judge(tb testing.TB, r *Result) marks {
	tb.Helper()
	b := model.Batch{Sources: t.test.Pairs.Source, Targets: t.test.Pairs.Target}
	n := b.Len()
	z, s := make([]float32, n), make([]float32, n)
	r.Link.Logits(z, r.LinkParams, b)
	r.Propensity.Logits(s, r.PropensityParams, b)
	scores := make([]float64, n)
	var m marks
	var relevant, found float64
	for k := range z {
		scores[k] = float64(z[k])
		y, _ := kern.Sigmoid64(float64(z[k]))
		pi, _ := kern.Sigmoid64(float64(s[k]))
		truth := t.test.Truth[k]
		m.mean += y / float64(n)
		m.propensityError += math.Abs(pi/truth.Propensity-1) / float64(n)
		m.risk += (truth.Link*kern.Softplus64(-float64(z[k])) +
			(1-truth.Link)*kern.Softplus64(float64(z[k]))) / float64(n)
		if t.test.Relevant[k] {
			relevant++
			if z[k] >= 0 {
				found++
			}
		}
	}
	m.auc, m.recall = areaUnderCurve(scores, t.test.Relevant), found/relevant
	return m
}

// areaUnderCurve is the chance that a relevant pair scores above another; scores are all different.
func areaUnderCurve(scores []float64, relevant []bool) float64 {
	order := make([]int, len(scores))
	for k := range order {
		order[k] = k
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(scores[a], scores[b]) })
	var below, above, pairs float64
	for _, k := range order {
		if relevant[k] {
			above++
			pairs += below
		} else {
			below++
		}
	}
	return pairs / (below * above)
}

// mustFit fits, with a quick doctor unless one is given.
func mustFit(tb testing.TB, p sample.Problem, s Settings) *Result {
	tb.Helper()
	s.Doctor = cmp.Or(s.Doctor, QuickDoctor)
	r, err := Fit(context.Background(), p, s)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// What must hold of the methods on a small world whose truth is known; the full-size figures are
// a command's.
func TestMethodsOnAKnownWorld(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	trial := newTrial(t, world.Settings{Nodes: 3000, Dim: 32, Fields: world.EvenFields(5),
		Scenario: world.Scenario{Seed: 11}},
		6000, 0)
	naive := trial.judge(t, mustFit(t, trial.problem(), Settings{Method: "naive", Starts: []float64{.3}}))
	var oracle float64
	for k, truth := range trial.test.Truth {
		z := trial.test.Logits[k]
		oracle += (truth.Link*kern.Softplus64(-z) + (1-truth.Link)*kern.Softplus64(z)) / float64(len(trial.test.Truth))
	}
	for _, method := range []string{"mle", "rw", "pu", "ap", "bayes"} {
		m := trial.judge(t, mustFit(t, trial.problem(), Settings{Method: method, Starts: []float64{.3}, Threads: 2}))
		t.Logf("%-6s %+v (naive %+v, oracle risk %.4f)", method, m, naive, oracle)
		if m.auc < naive.auc+.01 || m.recall < naive.recall+.25 || m.risk > naive.risk/1.25 || m.risk < oracle {
			t.Errorf("%s does not beat naive by what exposure hides: %+v against %+v", method, m, naive)
		}
		if method == "bayes" && (m.propensityError > .35 || math.Abs(m.mean/.16-1) > .15) {
			t.Errorf("bayes misses the scale: %+v", m)
		}
	}
}

// The posterior does not depend on where it is looked for, nor on the threads.
func TestBayesStartsAgree(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	trial := newTrial(t, world.Settings{Nodes: 2000, Dim: 32, Fields: world.EvenFields(4),
		Scenario: world.Scenario{Seed: 5}},
		6000, 0)
	r := mustFit(t, trial.problem(), Settings{Seed: 1, Threads: 1})
	if len(r.Starts) != 3 {
		t.Fatalf("%d starts", len(r.Starts))
	}
	for _, s := range r.Starts[1:] {
		if math.Abs(s.MeanLink/r.Starts[0].MeanLink-1) > .02 || math.Abs(s.Objective-r.Starts[0].Objective) > 1e-4 {
			t.Errorf("start %v came to %+v, the first to %+v", s.Propensity, s, r.Starts[0])
		}
	}
	again := mustFit(t, trial.problem(), Settings{Seed: 1, Threads: 3})
	if !slices.Equal(r.LinkParams, again.LinkParams) || !slices.Equal(r.PropensityParams, again.PropensityParams) {
		t.Error("three threads learn another model than one")
	}
}

// The prior's variance of z is learned: small where the texts hardly decide links, large where they
// do. It starts at 16 in both.
func TestBayesLearnsItsPrior(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	for _, c := range []struct {
		plan      world.Scenario
		low, high float64 // around the true variance of the logits
	}{
		{world.Scenario{BaseRate: .3, OracleAUC: .7, Seed: 4}, .1, 5},
		{world.Scenario{BaseRate: .3, OracleAUC: .99, Seed: 4}, 25, 400},
	} {
		settings := world.Settings{Nodes: 2000, Dim: 16, Fields: world.EvenFields(3), Scenario: c.plan}
		r := mustFit(t, newTrial(t, settings, 8000, 0).problem(), Settings{Starts: []float64{.3}, Replicates: -1})
		t.Logf("oracle AUC %v: variance %.3g, τ %v", c.plan.OracleAUC, r.Ridge, r.Posterior.Tau)
		if r.Ridge < c.low || r.Ridge > c.high {
			t.Errorf("oracle AUC %v: the prior variance of z is %v, not within %v and %v", c.plan.OracleAUC, r.Ridge,
				c.low, c.high)
		}
		if r.Posterior.Tau == newPrior(0, nil).Tau {
			t.Errorf("τ stayed at %v", r.Posterior.Tau)
		}
	}
}

// With 5% of exposures logged the scale is known even where links are rare and flat.
// Given the true propensities, bayes learns the links alone, and no worse than without.
func TestKnownPropensities(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	w := newTrial(t, world.Settings{Nodes: 2000, Dim: 12, Fields: world.EvenFields(3),
		Scenario: world.Scenario{Seed: 5}},
		6000, 0)
	var exposures []model.KnownExposure
	for _, sample := range []*world.TruePairs{w.train, w.validation, w.test} {
		for k, i := range sample.Pairs.Source {
			exposures = append(exposures, model.KnownExposure{Source: i, Target: sample.Pairs.Target[k],
				Propensity: sample.Truth[k].Propensity})
		}
	}
	given := Settings{Propensity: "known", PropensityOptions: model.PropensityOptions{Exposures: exposures, Rest: .5}}
	r := mustFit(t, w.problem(), given)
	if len(r.Starts) != 1 || len(r.PropensityParams) != 0 || r.Posterior != nil {
		t.Errorf("%d starts, %d parameters, posterior %v", len(r.Starts), len(r.PropensityParams), r.Posterior)
	}
	knows, learns := w.judge(t, r), w.judge(t, mustFit(t, w.problem(), Settings{Replicates: -1}))
	t.Logf("given π %+v, learned %+v", knows, learns)
	if !(knows.risk < learns.risk+.002) || !(math.Abs(knows.auc-learns.auc) < .01) {
		t.Errorf("given π %+v, learned %+v", knows, learns)
	}
	given.Anchors = []Anchor{{"same", .8, .1}}
	if _, err := Fit(context.Background(), w.problem(), given); !errors.Is(err, ErrSetting) {
		t.Errorf("anchored what is known: %v", err)
	}
	given.Anchors = nil
	for k := range exposures {
		exposures[k].Propensity = float64(k%5000+1) / 5002
	}
	if _, err := Fit(context.Background(), w.problem(), given); !errors.Is(err, ErrSetting) {
		t.Errorf("5000 different propensities: %v", err)
	}
}

func TestLoggedExposureFindsTheScale(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	plan := world.FlatRare()
	plan.Seed = 3
	trial := newTrial(t, world.Settings{Nodes: 3000, Dim: 8, Fields: world.EvenFields(3), Scenario: plan}, 40_000, .05)
	var truth float64
	for _, x := range trial.test.Truth {
		truth += x.Link / float64(len(trial.test.Truth))
	}
	m := trial.judge(t, mustFit(t, trial.problem(), Settings{Starts: []float64{.3}, Threads: 2}))
	if math.Abs(m.mean/truth-1) > .15 {
		t.Errorf("mean ŷ is %v, the truth %v", m.mean, truth)
	}
	if _, err := Fit(context.Background(), trial.problem(), Settings{Method: "dr", Starts: []float64{.3}}); err != nil {
		t.Errorf("dr with logged exposures: %v", err)
	}
}

// An anchor moves the propensities to where it says.
func TestAnchor(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	plan := world.FlatRare()
	trial := newTrial(t, world.Settings{Nodes: 2000, Dim: 8, Fields: world.EvenFields(3), Scenario: plan}, 12_000, 0)
	var same []float64
	for _, propensity := range []float64{.2, .8} {
		r := mustFit(t, trial.problem(), Settings{Starts: []float64{.3}, Anchors: []Anchor{{"same", propensity, .02}}})
		same = append(same, r.Starts[0].MeanSame)
	}
	if math.Abs(same[0]-.2) > .1 || math.Abs(same[1]-.8) > .1 {
		t.Errorf("anchored at .2 and .8, the propensities are %v", same)
	}
}

func TestEveryMethodAndPresetRuns(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	p := smallProblem(t, 60, 6, 400, 2)
	p.Exposure = make([]risk.Exposure, p.Train.Len())
	for k := range p.Exposure {
		p.Exposure[k] = risk.Exposure(k % 3)
		if p.Exposure[k] == risk.Unexposed {
			p.Train.Linked[k] = false
		}
	}
	for method := range Methods() {
		for _, preset := range Presets() {
			for _, optimiser := range []string{"adam", "lbfgs"} {
				s := Settings{Method: method, Preset: preset, Optimiser: optimiser, Adam: AdamSettings{Epochs: 2},
					LBFGS: LBFGSSettings{Iterations: 20}}
				r, err := Fit(context.Background(), p, s)
				if err != nil {
					t.Errorf("%s, %s, %s: %v", method, preset, optimiser, err)
					continue
				}
				if slices.ContainsFunc(slices.Concat(r.LinkParams, r.PropensityParams),
					func(x float32) bool { return x != x }) {
					t.Errorf("%s, %s, %s: NaN among the parameters", method, preset, optimiser)
				}
				m, err := r.Model()
				if err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(t.TempDir(), "model.safetensors")
				if err := model.Save(path, m); err != nil {
					t.Errorf("%s: %v", method, err)
				}
			}
		}
	}
}

// The paper's setting, run as written: with gradients through its masses R_PU has no lower bound.
func TestPaperPresetOfPUGoesWrongAndSaysSo(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	trial := newTrial(t, world.Settings{Nodes: 3000, Dim: 32, Fields: world.EvenFields(4),
		Scenario: world.Scenario{Seed: 2}},
		8000, 0)
	for _, rate := range []float64{2e-3, 1e-2} {
		settings := Settings{Method: "pu", Preset: "paper", Adam: AdamSettings{Rate: rate, Epochs: 60, Patience: 60}}
		r, err := Fit(context.Background(), trial.problem(), settings)
		if errors.Is(err, ErrDiverged) && strings.Contains(err.Error(), "safe") {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("rate %v: objective %+v, starts %+v, warnings %v", rate, r.Objective, r.Starts, r.Warnings)
		if !slices.ContainsFunc(r.Warnings, func(w risk.Warning) bool {
			return w.Kind == "negative-risk" ||
				w.Kind == "collapsed"
		}) {
			t.Errorf("rate %v: no warning; objective %+v, starts %+v, warnings %v", rate, r.Objective, r.Starts,
				r.Warnings)
		}
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	good := func() sample.Problem { return smallProblem(t, 30, 4, 100, 3) }
	cases := map[string]struct {
		change   func(p *sample.Problem, s *Settings)
		wants    error
		mentions string
	}{
		"no pairs":   {func(p *sample.Problem, _ *Settings) { p.Train = &graph.Pairs{} }, ErrData, "sample"},
		"nil pairs":  {func(p *sample.Problem, _ *Settings) { p.Train = nil }, ErrData, "sample"},
		"no vectors": {func(p *sample.Problem, _ *Settings) { p.Nodes.Vectors = nil }, ErrData, "encode"},
		"no positives": {func(p *sample.Problem, _ *Settings) { clear(p.Train.Linked) }, ErrData,
			"none of the 100"},
		"all positives":     {func(p *sample.Problem, _ *Settings) { fillTrue(p.Train.Linked) }, ErrData, "all 100"},
		"node out of range": {func(p *sample.Problem, _ *Settings) { p.Train.Target[7] = 30 }, ErrShape, "pair 7"},
		"negative node":     {func(p *sample.Problem, _ *Settings) { p.Train.Source[3] = -1 }, ErrShape, "pair 3"},
		"pair with itself": {func(p *sample.Problem, _ *Settings) { p.Train.Source[3] = p.Train.Target[3] }, ErrShape,
			"pair 3"},
		"NaN weight":   {func(p *sample.Problem, _ *Settings) { p.Train.Weight[5] = math.NaN() }, ErrShape, "pair 5"},
		"rate 0":       {func(p *sample.Problem, _ *Settings) { p.Train.Rate[5] = 0 }, ErrShape, "pair 5"},
		"short column": {func(p *sample.Problem, _ *Settings) { p.Train.Rate = p.Train.Rate[:3] }, ErrShape, "columns"},
		"short exposures": {func(p *sample.Problem, _ *Settings) { p.Exposure = make([]risk.Exposure, 2) }, ErrShape,
			"exposures"},
		"NaN vector": {func(p *sample.Problem, _ *Settings) {
			kern.MatrixOf(p.Nodes.Vectors).Row(int(p.Train.Source[0]))[0] = float32(math.NaN())
		}, ErrData, "not finite"},
		"field out of range": {func(p *sample.Problem, _ *Settings) { p.Nodes.Fields[p.Train.Source[0]] = 99 },
			ErrShape,
			"field 99"},
		"unknown method":    {func(_ *sample.Problem, s *Settings) { s.Method = "magic" }, ErrSetting, "bayes"},
		"unknown preset":    {func(_ *sample.Problem, s *Settings) { s.Preset = "magic" }, ErrSetting, "safe"},
		"unknown link":      {func(_ *sample.Problem, s *Settings) { s.Link = "magic" }, model.ErrKind, "diagonal"},
		"unknown optimiser": {func(_ *sample.Problem, s *Settings) { s.Optimiser = "magic" }, ErrSetting, "lbfgs"},
		"negative λ_L":      {func(_ *sample.Problem, s *Settings) { s.LambdaL = -1 }, ErrSetting, "trivial"},
		"NaN λ_R":           {func(_ *sample.Problem, s *Settings) { s.LambdaR = math.NaN() }, ErrSetting, "λ_R"},
		"floor 1":           {func(_ *sample.Problem, s *Settings) { s.Floor = 1 }, ErrSetting, "floor"},
		"start 0":           {func(_ *sample.Problem, s *Settings) { s.Starts = []float64{0} }, ErrSetting, "between"},
		"infinite ridge":    {func(_ *sample.Problem, s *Settings) { s.Ridge = math.Inf(1) }, ErrSetting, "ridge"},
		"bad anchor": {func(_ *sample.Problem, s *Settings) { s.Anchors = []Anchor{{"same", 2, .1}} }, ErrSetting,
			"same=0.8±0.1"},
		"two anchors": {func(_ *sample.Problem, s *Settings) {
			s.Anchors = []Anchor{{"same", .5, .1}, {"same", .6, .1}}
		}, ErrSetting, "two anchors of same"},
		"anchor of mle": {func(_ *sample.Problem, s *Settings) {
			s.Method, s.Anchors = "mle", []Anchor{{"same", .5, .1}}
		}, ErrSetting, "use bayes"},
		"anchor below the links": {func(_ *sample.Problem, s *Settings) { s.Anchors = []Anchor{{"same", .001, .001}} },
			ErrSetting, "at least as many were shown"},
		"anchor of no pairs": {func(p *sample.Problem, s *Settings) {
			p.Nodes.Fields = make([]uint16, len(p.Nodes.Fields))
			for i := range p.Nodes.Fields {
				p.Nodes.Fields[i] = 1
			}
			s.Anchors = []Anchor{{"cross", .5, .1}}
		}, ErrSetting, "no pairs of two fields"},
		"negative rate":       {func(_ *sample.Problem, s *Settings) { s.Adam.Rate = -1 }, ErrSetting, "learning rate"},
		"negative batch":      {func(_ *sample.Problem, s *Settings) { s.Adam.Batch = -1 }, ErrSetting, "batch"},
		"bayes of an mlp":     {func(_ *sample.Problem, s *Settings) { s.Link = "mlp" }, ErrSetting, "mle"},
		"bayes of mlp fields": {func(_ *sample.Problem, s *Settings) { s.Propensity = "mlp" }, ErrSetting, "mle"},
		"dr without a log":    {func(_ *sample.Problem, s *Settings) { s.Method = "dr" }, ErrData, "logged"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, s := good(), Settings{}
			c.change(&p, &s)
			_, err := Fit(context.Background(), p, s)
			if !errors.Is(err, c.wants) || !strings.Contains(err.Error(), c.mentions) {
				t.Errorf("got %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

func fillTrue(b []bool) {
	for i := range b {
		b[i] = true
	}
}

// A fit by bayes is not advised to use bayes.
func TestWarningOfRareExposure(t *testing.T) {
	t.Parallel()
	p := smallProblem(t, 30, 4, 100, 3)
	matrix, err := model.NewFieldMatrix(p.Nodes)
	if err != nil {
		t.Fatal(err)
	}
	for method, says := range map[string]string{"mle": "use bayes or the preset safe",
		"bayes": "log exposure on a random share"} {
		r := &Result{Settings: Settings{Method: method}, Propensity: matrix,
			Starts: []Start{{MeanLink: .1, MeanSame: .2, MeanCross: .002}}, Findings: &Findings{}}
		r.warn()
		if len(r.Warnings) != 1 || r.Warnings[0].Kind != "collapsed" || !strings.Contains(r.Warnings[0].Message, says) {
			t.Errorf("%s: %+v", method, r.Warnings)
		}
	}
}

func TestWarningsOfWeakData(t *testing.T) {
	t.Parallel()
	p := smallProblem(t, 30, 4, 200, 4)
	clear(kern.MatrixOf(p.Nodes.Vectors).Row(int(p.Train.Source[0])))
	p.Nodes.Fields[p.Train.Target[1]] = 0
	r := mustFit(t, p, Settings{Method: "mle", Adam: AdamSettings{Epochs: 1}})
	for _, kind := range []risk.WarningKind{"zero-vectors", "tiny-field"} {
		if !slices.ContainsFunc(r.Warnings, func(w risk.Warning) bool { return w.Kind == kind }) {
			t.Errorf("no warning of %s: %v", kind, r.Warnings)
		}
	}
	// many fields of one node are one warning
	p.Nodes.FieldCount, p.Nodes.Fields[p.Train.Source[0]] = 5, 4
	warnings, err := p.Validate(1)
	if err != nil {
		t.Fatal(err)
	}
	tiny := slices.DeleteFunc(warnings, func(w risk.Warning) bool { return w.Kind != "tiny-field" })
	if len(tiny) != 1 || !strings.Contains(tiny[0].Message, `2 fields have a single node each, such as "0"`) {
		t.Errorf("%v", tiny)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, s := range []Settings{{Method: "mle"}, {Method: "mle", Optimiser: "lbfgs"}, {}} {
		if _, err := Fit(ctx, smallProblem(t, 30, 4, 100, 5), s); !errors.Is(err, context.Canceled) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	for _, s := range []Settings{{Method: "mle", Adam: AdamSettings{Epochs: 3}}, {}} {
		events := 0
		s.Progress = func(e progress.Event) {
			events++
			if e.Phase == "" || e.Values["round"] < 1 || e.Done > e.Of {
				t.Errorf("an event without a phase or a round: %+v", e)
			}
		}
		if _, err := Fit(context.Background(), smallProblem(t, 30, 4, 100, 6), s); err != nil {
			t.Fatal(err)
		}
		if events == 0 {
			t.Errorf("%q reported nothing", s.Method)
		}
	}
}

func TestChecksum(t *testing.T) {
	t.Parallel()
	sum := smallProblem(t, 20, 4, 50, 7).Checksum()
	for name, change := range map[string]func(p *sample.Problem){
		"a link": func(p *sample.Problem) { p.Train.Linked[0] = !p.Train.Linked[0] },
		"a target": func(p *sample.Problem) {
			p.Train.Target[0], p.Train.Target[1] = p.Train.Target[1], p.Train.Target[0]
		},
		"a weight": func(p *sample.Problem) { p.Train.Weight[9]++ },
		"a field":  func(p *sample.Problem) { p.Nodes.Fields[p.Train.Source[0]] ^= 1 },
		"a vector": func(p *sample.Problem) { kern.MatrixOf(p.Nodes.Vectors).Row(int(p.Train.Source[0]))[1]++ },
		"exposure": func(p *sample.Problem) { p.Exposure = make([]risk.Exposure, p.Train.Len()) },
	} {
		p := smallProblem(t, 20, 4, 50, 7)
		if p.Checksum() != sum {
			t.Fatal("the same data have two checksums")
		}
		change(&p)
		if p.Checksum() == sum {
			t.Errorf("%s changed, the checksum did not", name)
		}
	}
}

// A scheme of package risk and the method that learns by it are one thing, whichever name is used.
func TestMethodsAndSchemesHaveOneName(t *testing.T) {
	t.Parallel()
	for _, name := range risk.Names() {
		s, err := Settings{Method: name}.WithDefaults()
		if name == "true" {
			if err == nil {
				t.Error("the truth is no method")
			}
			continue
		}
		if _, known := Methods()[s.Method]; err != nil || !known {
			t.Errorf("%s: method %q, %v", name, s.Method, err)
		}
		if m, _ := s.method(); m.risk == engine.OtherRisk && slices.Contains([]string{"naive", "w", "pu", "ap", "dr"},
			name) {
			t.Errorf("%s is treated as an unknown scheme", name)
		}
	}
	if _, twice := Methods()["w"]; twice {
		t.Error("rw is listed twice")
	}
	if s, err := (Settings{Method: "w"}).WithDefaults(); err != nil || s.Method != "rw" {
		t.Errorf("w becomes %q, %v", s.Method, err)
	}
	if _, err := risk.Lookup("rw"); err != nil {
		t.Error(err)
	}
}

// What a preset has can be switched off, and stays so when the settings of a model are read again.
func TestNothingInPlaceOfThePreset(t *testing.T) {
	t.Parallel()
	s := must(Settings{Method: "ap", Preset: "paper", LambdaR: -3, Floor: -1, Through: Off,
		EvenRisk: Off}.WithDefaults())(t)
	var again Settings
	if err := json.Unmarshal(must(json.Marshal(s))(t), &again); err != nil {
		t.Fatal(err)
	}
	again = must(again.WithDefaults())(t)
	for name, s := range map[string]Settings{"filled": s, "read again": again} {
		if s.LambdaR != -1 || s.Floor != -1 || s.Through != Off || s.EvenRisk != Off {
			t.Errorf("%s: %+v", name, s)
		}
	}
	paper := must(Settings{Preset: "paper"}.WithDefaults())(t)
	if paper.Through != On || paper.EvenRisk != On || paper.LambdaR != 10 {
		t.Errorf("the preset lost its own: %+v", paper)
	}
	// files written before there were switches have plain truth values
	if err := json.Unmarshal([]byte(`{"through":true,"evenRisk":false}`), &again); err != nil || again.Through != On ||
		again.EvenRisk != Off {
		t.Errorf("%v, %+v", err, again)
	}
	// without its risk a method is maximum likelihood, to the bit
	p := checkpointProblem(t, 1)
	settings := Settings{Seed: 1, Starts: []float64{.3}, Adam: AdamSettings{Epochs: 2}}
	settings.Method = "mle"
	likelihood := must(Fit(t.Context(), p, settings))(t)
	settings.Method, settings.LambdaR = "pu", -1
	without := must(Fit(t.Context(), p, settings))(t)
	settings.LambdaR = 0
	with := must(Fit(t.Context(), p, settings))(t)
	if !slices.Equal(likelihood.LinkParams, without.LinkParams) ||
		slices.Equal(likelihood.LinkParams, with.LinkParams) {
		t.Error("pu without a risk is not mle, or with one it is")
	}
	// and a search that ends at 0 says so in a way that is understood later
	settings.Search.Axes = []Axis{{"floor", []float64{0}}}
	if r := must(Fit(t.Context(), p, settings))(t); r.Settings.Floor != -1 {
		t.Errorf("a search for a floor of 0 chose %v", r.Settings.Floor)
	}
}

func TestDocumentedDefaults(t *testing.T) {
	t.Parallel()
	for preset, want := range map[string]AdamSettings{
		"safe": {Rate: 1e-3, Batch: 32, Epochs: 100, Patience: 8}, "paper": {Rate: 1e-4, Batch: 32, Epochs: 50,
			Patience: 5}, "notebook": {Rate: 1e-3, Batch: 32, Epochs: 50, Patience: 5},
	} {
		got := must(Settings{Preset: preset}.WithDefaults())(t).Adam
		if got != want {
			t.Errorf("%s: %+v, documented %+v", preset, got, want)
		}
	}
}

// A zero asks for all processors, as everywhere in these packages.
func TestThreadsOfZero(t *testing.T) {
	t.Parallel()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	if s := must(Settings{}.WithDefaults())(t); s.Threads != 3 {
		t.Errorf("%d threads of 3", s.Threads)
	}
}
