package fit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/enginetest"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/progress"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

// exactProblem is a small world with links, and a sample of its pairs.
func exactProblem(t testing.TB, nodes int, seed uint64) sample.Problem {
	t.Helper()
	w := must(world.New(t.Context(), world.Settings{Nodes: nodes, Dim: 6, Fields: world.EvenFields(2),
		Scenario: world.Scenario{Seed: seed}}))(t)
	g := must(w.Linked(t.Context()))(t).Graph()
	u := graph.Universe{Before: g.Order()}
	pairs, _, err := graph.Sample(g, u, graph.SampleOptions{PerLink: 2, Src: rand.NewPCG(seed, 1)})
	if err != nil {
		t.Fatal(err)
	}
	return sample.Problem{Nodes: model.NodesOf(g), Train: pairs, Graph: g, Universe: u}
}

// A link model that is not linear, in which the curvature of a sample's last steps leads astray, is learned all the
// same; and starts are compared by the sample, by which all of them were learned.
func TestExactFitOfLowRank(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	p := exactProblem(t, 100, 3)
	s := Settings{Method: "mle", Link: "low-rank", Exact: true, Ridge: 1, Starts: []float64{.3, .1}, Seed: 1}
	got := must(Fit(t.Context(), p, s))(t)
	if a := got.Searched; a.Ended.Gradient > a.Began.Gradient/10 {
		t.Errorf("the gradient went from %g to %g", a.Began.Gradient, a.Ended.Gradient)
	}
	s.Exact, s.Optimiser = false, "lbfgs"
	sampled := must(Fit(t.Context(), p, s))(t)
	for i, a := range got.Starts {
		if b := sampled.Starts[i]; math.Abs(a.Objective-b.Objective) > 1e-4*b.Objective {
			t.Errorf("start %+v, by the sample %+v", a, b)
		}
	}
}

// Too many pairs for a processor are refused before anything is learned.
func TestExactFitOfTooMany(t *testing.T) {
	t.Parallel()
	n := 50_000
	p := smallProblem(t, 60, 4, 400, 2)
	var b graph.Builder
	for i := range n {
		must(b.AddNode(graph.Node{ID: fmt.Sprint(i)}))(t)
	}
	g, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	p.Graph, p.Universe = g, graph.Universe{}
	began := false
	_, err = Fit(t.Context(), p, Settings{Method: "mle", Exact: true, Progress: func(progress.Event) { began = true }})
	if !errors.Is(err, engine.ErrUnsupported) || began {
		t.Errorf("%v; training began: %t", err, began)
	}
}

// Learning from all pairs ends where learning from a sample does that has all of them.
func TestExactFit(t *testing.T) {
	t.Parallel()
	p := exactProblem(t, 140, 3)
	s := Settings{Method: "mle", Optimiser: "lbfgs", Ridge: -1, Starts: []float64{.3}, Seed: 1,
		LBFGS: LBFGSSettings{Iterations: 1000, Tolerance: 1e-10}}
	all := p
	all.Train = must(graph.AllPairs(p.Graph, p.Universe, 1<<20))(t)
	want := must(Fit(t.Context(), all, s))(t)
	s.Exact, s.Optimiser = true, ""
	got := must(Fit(t.Context(), p, s))(t)
	if got.Settings.Optimiser != "lbfgs" {
		t.Error(got.Settings.Optimiser)
	}
	if a := got.Searched; a == nil || a.Evaluations > 15 || a.Began.Errors < 10*a.Ended.Errors ||
		a.Ended.Errors > .01 || a.Ended.Errors == 0 || a.Began.Gradient < 10*a.Ended.Gradient || want.Searched != nil {
		t.Errorf("the search over all pairs was %+v", a)
	}
	if math.Abs(got.Objective.Total()-want.Objective.Total()) > 1e-6*want.Objective.Total() {
		t.Errorf("the objective is %v, from a sample of all pairs %v", got.Objective, want.Objective)
	}
	seen := func(r *Result, b model.Batch) (out []float64) {
		z, logits := make([]float32, b.Len()), make([]float32, b.Len())
		engine.Predictor{Link: r.Link, LinkParams: r.LinkParams, Propensity: r.Propensity,
			PropensityParams: r.PropensityParams}.Logits(z, logits, b)
		for k := range z {
			y, _ := kern.Sigmoid64(float64(z[k]))
			pi, _ := kern.Sigmoid64(float64(logits[k]))
			out = append(out, y*pi)
		}
		return out
	}
	b := model.Batch{Sources: all.Train.Source, Targets: all.Train.Target}
	a, e := seen(want, b), seen(got, b)
	for k := range a {
		if math.Abs(a[k]-e[k]) > 2e-3 {
			t.Fatalf("pair %d is linked with probability %v, from a sample of all pairs %v", k, e[k], a[k])
		}
	}
	s.Exact, s.Optimiser = false, "lbfgs"
	sampled := must(Fit(t.Context(), p, s))(t)
	off := func(r *Result) float64 { return math.Abs(float64(r.LinkParams[0] - want.LinkParams[0])) }
	if off(sampled) < 10*off(got) {
		t.Errorf("the sample alone is as near: %v, %v and %v", sampled.LinkParams, got.LinkParams, want.LinkParams)
	}
}

// A training that is stopped over all pairs goes on there, to the same bits.
func TestExactFitResumes(t *testing.T) {
	t.Parallel()
	exactResumes(t, exactProblem(t, 60, 5), "", 5, 30, 60)
	exactResumes(t, exactProblem(t, 100, 3), "low-rank", 5, 60, 100) // which begins again
}

func exactResumes(t *testing.T, p sample.Problem, link string, stops ...int) {
	t.Helper()
	s := Settings{Method: "mle", Link: link, Exact: true, Ridge: 4, Starts: []float64{.3, .1}, Seed: 1}
	want := must(Fit(t.Context(), p, s))(t)
	for _, at := range stops {
		stopped := s
		stopped.Checkpoint = Checkpoint{Path: filepath.Join(t.TempDir(), "c"), Every: 1}
		ctx, cancel := context.WithCancel(t.Context())
		watched := enginetest.New()
		watched.Before = func(_ string, number int) error {
			if number == at {
				cancel()
			}
			return ctx.Err()
		}
		stopped.Engine = watched
		_, err := Fit(ctx, p, stopped)
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("stopped at call %d: %v", at, err)
		}
		stopped.Engine, stopped.Checkpoint.Resume = nil, true
		got := must(Fit(t.Context(), p, stopped))(t)
		if !slices.Equal(got.LinkParams, want.LinkParams) || got.Objective != want.Objective ||
			got.Searched.Ended != want.Searched.Ended || got.Searched.Began != want.Searched.Began {
			t.Errorf("stopped at call %d: %v, in one go %v", at, got.Objective, want.Objective)
		}
	}
}

// A start from which a sample's own steps creep over a plateau ends where a good one does: curvature leads on.
func TestExactFitFromAfar(t *testing.T) {
	t.Parallel()
	p := exactProblem(t, 250, 9)
	var ends []float64
	for _, start := range []float64{.02, .9} {
		r := must(Fit(t.Context(), p, Settings{Method: "mle", Exact: true, Ridge: 4, Starts: []float64{start},
			Seed: 1}))(t)
		ends = append(ends, r.Objective.Total())
		if r.Searched.Evaluations > 12 || r.Searched.Ended.Errors > .05 || r.Iterations > 25 {
			t.Errorf("from π̂ = %v: %d steps, %+v", start, r.Iterations, *r.Searched)
		}
	}
	if math.Abs(ends[0]-ends[1]) > 1e-6*ends[0] {
		t.Errorf("it ends at %v", ends)
	}
}

// Models whose curvature is not known are learned from all pairs by the steps alone.
func TestExactFitWithoutCurvature(t *testing.T) {
	t.Parallel()
	p := exactProblem(t, 80, 6)
	s := Settings{Method: "mle", Exact: true, Ridge: 4, Starts: []float64{.3}, Seed: 1, Link: "diagonal-field"}
	r := must(Fit(t.Context(), p, s))(t)
	if a := r.Searched; a == nil || a.Evaluations < 2 || a.Began.Errors != 0 || a.Ended.Errors != 0 ||
		a.Ended.Gradient >= a.Began.Gradient {
		t.Errorf("the search over all pairs was %+v", a)
	}
}

// What all pairs cannot be learned with is refused.
func TestExactFitRefuses(t *testing.T) {
	t.Parallel()
	p := exactProblem(t, 60, 5)
	for name, s := range map[string]Settings{"bayes": {Method: "bayes"}, "adam": {Method: "mle", Optimiser: "adam"},
		"shown": {Method: ShownOnly}, "dr": {Method: "dr"}, "cosine": {Method: "cosine"}} {
		s.Exact = true
		if _, err := Fit(t.Context(), p, s); !errors.Is(err, ErrSetting) {
			t.Errorf("%s: %v", name, err)
		}
	}
	unknown, logged := p, p
	unknown.Graph = nil
	logged.Exposure = make([]risk.Exposure, p.Train.Len())
	logged.Exposure[1] = risk.Exposed
	for name, p := range map[string]sample.Problem{"no graph": unknown, "a log": logged} {
		if _, err := Fit(t.Context(), p, Settings{Method: "mle", Exact: true}); !errors.Is(err, ErrData) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A link of any probability p weighs (1−p)/4 in the curvature that is known by the links.
func TestQuarterRate(t *testing.T) {
	t.Parallel()
	for _, p := range []float64{1e-25, 1e-9, 1e-3, .1, .5, .9, .999} {
		chance := p / (p + quarterRate(p)*(1-p))
		if got, want := chance*(1-chance), (1-p)/4; math.Abs(got-want) > 1e-12 {
			t.Errorf("p = %v: a weight of %v, not of %v", p, got, want)
		}
	}
}

// The curvature over all pairs that is known by the links is that of the objective, as its gradient turns; and what is
// left to gain does not depend on how much the likelihood weighs.
func TestExactCurvature(t *testing.T) {
	t.Parallel()
	p := exactProblem(t, 400, 11)
	r := must(Fit(t.Context(), p, Settings{Method: "mle", Exact: true, Ridge: 4, Starts: []float64{.3}, Seed: 1}))(t)
	m := &training{ctx: t.Context(), problem: p, result: r, settings: r.Settings, method: methods["mle"]}
	if err := m.use(r.Settings); err != nil {
		t.Fatal(err)
	}
	pairs, links, err := p.Universe.Count(p.Graph)
	if err != nil {
		t.Fatal(err)
	}
	params := slices.Concat(r.LinkParams, r.PropensityParams)
	o := *m.objective
	v := must(m.informed(&o, params, float64(pairs), float64(links)))(t)
	o.Graph, o.Universe = p.Graph, p.Universe
	o.Precision = precisionFor(&o, MeanSquare(o.Link, o.Pairs), 4, r.Settings.LambdaL, pairs)
	rng := rand.New(rand.NewPCG(2, 2))
	for round := range 6 {
		ahead, behind := slices.Clone(params), slices.Clone(params)
		step := make([]float64, len(params))
		for i := range r.LinkParams {
			step[i] = .02 * rng.NormFloat64()
			ahead[i] += float32(step[i] * sizeOf(&o, i))
			behind[i] -= float32(step[i] * sizeOf(&o, i))
		}
		after, before := make([]float64, o.Size()), make([]float64, o.Size())
		must(engine.CPU{}.Gradient(t.Context(), &o, ahead, after))(t)
		must(engine.CPU{}.Gradient(t.Context(), &o, behind, before))(t)
		var turned, known float64
		for i := range step {
			turned += step[i] * sizeOf(&o, i) * (after[i] - before[i]) / 2
		}
		for i := range step { // ‖Lᵀ·step‖²
			along := 0.
			for k := i; k < len(step); k++ {
				along += v.factor.Data[k*v.factor.Stride+i] * step[k]
			}
			known += along * along
		}
		if ratio := known / turned; !(ratio > .8 && ratio < 1.25) {
			t.Errorf("round %d: a curvature of %v is %v by the gradient", round, known, turned)
		}
	}
	s := r.Settings
	s.LambdaL *= 7
	if again := must(Fit(t.Context(), p, s))(t); math.Abs(again.Searched.Began.Errors-r.Searched.Began.Errors) >
		.2*r.Searched.Began.Errors {
		t.Errorf("%v standard errors, and %v where the likelihood weighs more", r.Searched.Began.Errors,
			again.Searched.Began.Errors)
	}
}
