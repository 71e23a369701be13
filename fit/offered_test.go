package fit

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/racetest"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

// The objective of minibatches has the gradient of its own value, offered pairs among the others.
func TestOfferedGradient(t *testing.T) {
	t.Parallel()
	w, err := world.New(t.Context(), world.Settings{Nodes: 40, Dim: 4, Fields: world.EvenFields(2),
		Scenario: world.Scenario{Seed: 2, Threads: 1}})
	if err != nil {
		t.Fatal(err)
	}
	drawn, err := w.Pairs(t.Context(), 300, world.Draw{Logged: .5})
	if err != nil {
		t.Fatal(err)
	}
	n := model.NodesOf(w.Graph())
	link, err := model.NewLink("diagonal", n, model.LinkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	propensity, err := model.NewPropensity("field-matrix", n, model.PropensityOptions{})
	if err != nil {
		t.Fatal(err)
	}
	exposure := make([]risk.Exposure, drawn.Pairs.Len())
	for k := range exposure {
		shown := risk.Unexposed
		if drawn.Exposed[k] {
			shown = risk.Exposed
		}
		exposure[k] = []risk.Exposure{risk.Unlogged, risk.Offered, shown}[k%3]
	}
	o := &engine.Objective{Link: link, Propensity: propensity, LambdaL: 1, LambdaR: 1, Risk: engine.RiskAP,
		Pairs: drawn.Pairs, Exposure: exposure}
	params := make([]float32, o.Size())
	rng := rand.New(rand.NewPCG(4, 0))
	for k := range params {
		params[k] = float32(.3 * rng.NormFloat64())
	}
	value := func() float64 {
		parts, err := engine.CPU{}.Gradient(context.Background(), o, params, nil)
		if err != nil {
			t.Fatal(err)
		}
		return parts.Total()
	}
	grad := make([]float64, len(params))
	if _, err := (engine.CPU{}).Gradient(t.Context(), o, params, grad); err != nil {
		t.Fatal(err)
	}
	for k := range params {
		const h = 1e-2
		old := params[k]
		params[k] = old + h
		up := value()
		params[k] = old - h
		down := value()
		params[k] = old
		if want := (up - down) / (2 * h); math.Abs(grad[k]-want) > 2e-3*(1+math.Abs(want)) {
			t.Errorf("parameter %d: slope %v, want %v", k, grad[k], want)
		}
	}
}

// A log of what was offered teaches relevance without touching what links say of exposure, although it shows what the
// recommender likes best and nothing that is linked already.
func TestOfferedLog(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	w, err := world.New(t.Context(), world.Settings{Nodes: 160, Dim: 6, Fields: world.EvenFields(2),
		Scenario: world.Scenario{BaseRate: .2, Seed: 8, Threads: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if w, err = w.Linked(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := w.Graph()
	rng := rand.New(rand.NewPCG(6, 0))
	log := &sample.ExposureLog{}
	drawn, err := w.Pairs(t.Context(), 160*159/2, world.Draw{Parts: 1, Older: true})
	if err != nil {
		t.Fatal(err)
	}
	for k := range drawn.Pairs.Len() {
		if !drawn.Pairs.Linked[k] && rng.Float64() < .1+.8*drawn.Truth[k].Link {
			log.Source, log.Target = append(log.Source, drawn.Pairs.Source[k]),
				append(log.Target, drawn.Pairs.Target[k])
			log.Exposed, log.Linked = append(log.Exposed, true), append(log.Linked, drawn.Relevant[k])
		}
	}
	propensity := func(p sample.Plan, log *sample.ExposureLog) (pi []float64, err float64) {
		prepared, e := sample.Prepare(t.Context(), g, sample.Options{Origin: sample.Origin{Plan: p}, Log: log})
		if e != nil {
			t.Fatal(e)
		}
		r, e := Fit(t.Context(), prepared.Problem, Settings{Seed: 1, Threads: 1, Replicates: -1, Doctor: QuickDoctor})
		if e != nil {
			t.Fatal(e)
		}
		for a := uint16(1); a <= 2; a++ {
			for b := uint16(1); b <= 2; b++ {
				i, j := nodeOfField(g, a), nodeOfField(g, b)
				var s [1]float32
				r.Propensity.Logits(s[:], r.PropensityParams, model.Batch{Sources: []int32{i}, Targets: []int32{j}})
				p := 1 / (1 + math.Exp(-float64(s[0])))
				pi = append(pi, p)
				err += math.Abs(p/w.Propensity(a, b)-1) / 4
			}
		}
		return pi, err
	}
	plan := sample.Plan{Split: sample.Whole, PerLink: 4, Seed: 1}
	without, before := propensity(plan, nil)
	plan.Log = sample.Offered
	with, after := propensity(plan, log)
	t.Logf("π̂ without %.2f, off by %.2f; with %.2f, off by %.2f; π %.2f", without, before, with, after,
		w.Propensities())
	if after > .15 {
		t.Errorf("with %d pairs offered π̂ is off by %.2f, without by %.2f", len(log.Source), after, before)
	}
	plan.Log = sample.Complete
	if _, wrong := propensity(plan, log); wrong < 2*after {
		t.Errorf("taken for complete the log gives a π̂ that is off by %.2f; then offered, %.2f, is no gain", wrong,
			after)
	}
}

func nodeOfField(g *graph.Graph, f uint16) int32 {
	for i := range int32(g.Len()) {
		if g.Field(i) == f {
			return i
		}
	}
	return -1
}

// A complete log identifies the propensities of a world.
func TestCompleteLogTellsPropensities(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	plan := world.FlatRare() // links alone cannot tell
	plan.Seed = 3
	w := must(world.New(t.Context(), world.Settings{Nodes: 400, Dim: 8, Fields: world.EvenFields(2),
		Scenario: plan}))(t)
	w = must(w.Linked(t.Context()))(t)
	d := must(sample.Prepare(t.Context(), w.Graph(), sample.Options{Log: completeLog(t, w), Origin: sample.Origin{
		Plan: sample.Plan{Split: sample.Whole, Log: sample.Complete, PerLink: 10, Seed: 1}}}))(t)
	r := mustFit(t, d.Problem, Settings{Seed: 1, Starts: []float64{.3}, Replicates: -1})
	var same, cross float64
	for f := uint16(1); f <= 2; f++ {
		same += w.Propensity(f, f) / 2
		cross += w.Propensity(f, 3-f) / 2
	}
	if s := r.Starts[0]; math.Abs(s.MeanSame/same-1) > .1 || math.Abs(s.MeanCross/cross-1) > .1 {
		t.Errorf("π̂ is %.3f and %.3f, in truth %.3f and %.3f", s.MeanSame, s.MeanCross, same, cross)
	}
}

// completeLog returns all that was shown in a world.
func completeLog(t *testing.T, w *world.World) *sample.ExposureLog {
	t.Helper()
	g := w.Graph()
	everything := must(graph.AllPairs(g, graph.Universe{Before: g.Order()}, 0))(t)
	all := must(w.Reveal(t.Context(), everything, 1))(t)
	log := &sample.ExposureLog{}
	for k := range all.Truth {
		if o := all.Observation(k); o.Exposure == risk.Exposed {
			log.Source, log.Target = append(log.Source, everything.Source[k]), append(log.Target, everything.Target[k])
			log.Exposed, log.Linked = append(log.Exposed, true), append(log.Linked, o.Linked)
		}
	}
	return log
}

// A complete log does not contradict a world that obeys, although most of what is linked there is
// in the sample and most of what is not is left out of it.
func TestCompleteLogAgrees(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 3; seed++ {
		plan := world.Saturated()
		plan.Seed, plan.BaseRate, plan.Threads = seed, .3, 1
		w := must(world.New(t.Context(), world.Settings{Nodes: 300, Dim: 8, Fields: world.EvenFields(2),
			Scenario: plan}))(t)
		w = must(w.Linked(t.Context()))(t)
		d := must(sample.Prepare(t.Context(), w.Graph(), sample.Options{Log: completeLog(t, w), Origin: sample.Origin{
			Plan: sample.Plan{Split: sample.Whole, Log: sample.Complete, PerLink: 1, Seed: seed}}}))(t)
		r := mustFit(t, d.Problem, Settings{Seed: seed, Threads: 1, Doctor: QuickDoctor, Replicates: -1,
			Starts: []float64{model.StartPropensity}})
		for _, test := range r.Findings.Logged {
			t.Logf("seed %d: %+v", seed, test)
			if math.Abs(test.z()) > surprising {
				t.Errorf("seed %d: the log contradicts a world that obeys: %+v", seed, test)
			}
		}
	}
}
