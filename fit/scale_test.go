package fit

import (
	"context"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/racetest"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

// Training that leaves sources out in place is training on a copy without them, bit for bit.
func TestTrainingLeavesHeldSourcesOut(t *testing.T) {
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	tr := newTrial(t, world.Settings{Nodes: 500, Dim: 8, Fields: world.EvenFields(3)}, 4000, .1)
	p := tr.problem()
	p.Validation = nil
	if err := p.Train.GroupBySource(); err != nil {
		t.Fatal(err)
	}
	copied := p
	validation, held := p.SplitValidation()
	copied.Validation = validation.Pairs
	rest := p.TrainingWithout(held)
	copied.Train, copied.Exposure = rest.Pairs, rest.Exposure
	for _, s := range []Settings{
		{Method: "rw", Adam: AdamSettings{Epochs: 2}},
		{Method: "ap", Adam: AdamSettings{Epochs: 2, Batch: 300, BySource: true}},
	} {
		train := func(p sample.Problem) []float32 {
			link, propensity := mustModels(t, p.Nodes)
			o := &engine.Objective{Link: link, Propensity: propensity, LambdaL: 1, LambdaR: 1, Risk: engine.RiskW,
				Held: true, Pairs: p.Train, Exposure: p.Exposure}
			state := newAdamState(o, make([]float32, o.Size()), 1e-3)
			_, held := p.SplitValidation()
			trainer := &trainer{engine: engine.CPU{}, objective: o, held: held, settings: s.Adam.withDefaults(),
				state: state}
			if err := trainer.train(context.Background()); err != nil {
				t.Fatal(err)
			}
			return append(state.params, float32(state.history[1].Objective))
		}
		if a, b := train(p), train(copied); !slices.Equal(a, b) {
			t.Errorf("%+v: in place %v…, copied %v…", s.Adam, a[:4], b[:4])
		}
	}
}

func mustModels(t *testing.T, n model.Nodes) (model.LinkModel, model.PropensityModel) {
	t.Helper()
	link, err := model.NewDiagonal(n, false)
	if err != nil {
		t.Fatal(err)
	}
	propensity, err := model.NewFieldMatrix(n)
	if err != nil {
		t.Fatal(err)
	}
	return link, propensity
}

// Where only some pairs are looked at, the doctor finds what he finds in all, says how many there
// were, and finds it again, whatever the threads.
func TestDiagnoseSome(t *testing.T) {
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	s := must(saturated())(t)
	p, r := s.problem, s.result
	ctx := context.Background()
	all, err := diagnose(ctx, p, r, p.Train.Len())
	if err != nil {
		t.Fatal(err)
	}
	var found [2]*Findings
	for i, threads := range []int{1, 3} {
		other := *r
		other.Settings.Threads = threads
		if found[i], err = diagnose(ctx, p, &other, p.Train.Len()/3); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(found[0], found[1]) {
		t.Error("the findings depend on the threads")
	}
	f := found[0]
	if n := f.Support.Examined; n < p.Train.Len()/6 || n > p.Train.Len()/2 || all.Support.Examined != p.Train.Len() {
		t.Errorf("%d and %d of %d pairs examined", n, all.Support.Examined, p.Train.Len())
	}
	if !strings.Contains(strings.Join(f.Verdict, " "), "Mean ŷ was computed from") ||
		strings.Contains(strings.Join(all.Verdict, " "), "computed from") {
		t.Errorf("%q and %q", f.Verdict, all.Verdict)
	}
	if f.Class != all.Class || !reflect.DeepEqual(f.Advice, all.Advice) || !reflect.DeepEqual(f.Cells, all.Cells) ||
		!reflect.DeepEqual(f.Ridge, all.Ridge) || !reflect.DeepEqual(f.Ratio, all.Ratio) {
		t.Errorf("%s by some pairs, %s by all", f.Class, all.Class)
	}
	// what differs is mean ŷ, within the error of having looked at some
	if off := math.Log(f.MeanLink.Value / all.MeanLink.Value); math.Abs(off) > 4*f.MeanLink.Sampling || off == 0 {
		t.Errorf("mean ŷ is %v by some pairs, %v by all", f.MeanLink, all.MeanLink)
	}
	if f.MeanLink.Sampling <= all.MeanLink.Sampling {
		t.Errorf("fewer pairs, and yet the sampling error is %v, not above %v", f.MeanLink.Sampling,
			all.MeanLink.Sampling)
	}
	f.Support.Examined = all.Support.Examined
	if f.Support != all.Support {
		t.Errorf("support %+v, not %+v", f.Support, all.Support)
	}
}

// One source with all pairs cannot be taken whole.
func TestExaminedOfOneSource(t *testing.T) {
	const n = 1000
	p := &graph.Pairs{Source: make([]int32, n), Target: make([]int32, n), Linked: make([]bool, n),
		Weight: make([]float64, n), Rate: make([]float64, n), Universe: n}
	d := &diagnosis{problem: sample.Problem{Train: p, Exposure: make([]risk.Exposure, n)}, most: 100}
	if e := d.examined(); e.Pairs.Len() != 100 || len(e.Exposure) != 100 {
		t.Errorf("%d pairs, %d exposures", e.Pairs.Len(), len(e.Exposure))
	}
}
