package engine

import (
	"math"
	"math/rand/v2"
	"testing"

	"unseen/graph"
	"unseen/model"
	"unseen/risk"
)

// Slopes with curvatures are the slopes without, whatever is known of the pairs and however they were sampled, and the
// curvatures are those of the exact slopes where these are linear in what was seen.
func TestCurves(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 4))
	for _, likelihood := range []Likelihood{CaseControl, Unweighted, Weighted} {
		for _, exposures := range [][]risk.Exposure{nil, {risk.Unlogged, risk.Exposed, risk.Unexposed},
			{risk.Unlogged, risk.Offered, risk.OfferedSeen(.3), risk.Exposed, risk.Unexposed}} {
			o := &Objective{LambdaL: 20, Likelihood: likelihood}
			if exposures != nil {
				o.Exposure = make([]risk.Exposure, stretch)
			}
			a, b := newWorkspace().curved(), newWorkspace().curved()
			const n = stretch - 5
			for k := range n {
				linked := rng.IntN(2) == 0
				for _, w := range []*workspace{a, b} {
					w.linked[k] = linked
				}
				a.z[k], a.s[k] = float32(3*rng.NormFloat64()), float32(3*rng.NormFloat64())
				a.weight[k], a.rate[k] = .1+rng.Float32(), .01+.9*rng.Float32()
				if exposures != nil {
					if a.exposure[k] = exposures[rng.IntN(len(exposures))]; linked && a.exposure[k] == risk.Unexposed {
						a.exposure[k] = risk.Exposed
					}
				}
			}
			for to, from := range map[*[]float32][]float32{&b.z: a.z, &b.s: a.s, &b.weight: a.weight, &b.rate: a.rate} {
				copy(*to, from)
			}
			copy(b.exposure, a.exposure)
			got, want := o.curves(a, n, true), o.slopes(b, n, 1, true)
			near := func(what string, k int, x, y float32) {
				if !(math.Abs(float64(x-y)) <= 2e-5*math.Abs(float64(y))+1e-6) {
					t.Errorf("%v, %v, %s of pair %d: %v, want %v", likelihood, exposures, what, k, x, y)
				}
			}
			near("value", -1, float32(got.Likelihood), float32(want.Likelihood))
			for k := range n {
				near("∂z", k, a.dz[k], b.dz[k])
				near("∂s", k, a.ds[k], b.ds[k])
				near("zz", k, a.zz[k], b.zz[k])
				near("zs", k, a.zs[k], b.zs[k])
				near("ss", k, a.ss[k], b.ss[k])
				if !(a.zz[k] >= 0 && a.ss[k] >= 0 && a.zz[k]*a.ss[k] >= .999*a.zs[k]*a.zs[k]) {
					t.Errorf("%v: the curvature of pair %d is %v %v %v", likelihood, k, a.zz[k], a.zs[k], a.ss[k])
				}
			}
		}
	}
}

// A round lowers the objective, its value is the gradient's, people without pairs stay at the prior, and the number of
// threads does not matter.
func TestRounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 4))
	const people, items = 90, 40
	nodes := model.Nodes{Fields: make([]uint16, people+items), FieldCount: 2}
	pairs := &graph.Pairs{}
	for i := range int32(people) {
		nodes.Sources = append(nodes.Sources, i)
		for j := range int32(items) {
			if i == 7 || rng.IntN(2) == 0 {
				continue
			}
			pairs.Source, pairs.Target = append(pairs.Source, i), append(pairs.Target, people+j)
			pairs.Linked = append(pairs.Linked, (i+j)%5 == 0 || rng.IntN(9) == 0)
			pairs.Weight, pairs.Rate = append(pairs.Weight, 1), append(pairs.Rate, .5)
		}
	}
	for j := range int32(items) {
		nodes.Targets = append(nodes.Targets, people+j)
		nodes.Fields[people+j] = 1
	}
	link, err1 := model.NewFactors(nodes, 3)
	propensity, err2 := model.NewFieldMatrix(nodes)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	o := &Objective{Link: link, Propensity: propensity, LambdaL: 1, Pairs: pairs}
	o.Precision = make([]float64, o.Size())
	for i := range link.Size() - 1 {
		o.Precision[i] = 1 / float64(pairs.Len())
	}
	var first []float32
	for _, threads := range []int{1, 3} {
		params := make([]float32, o.Size())
		at, exposure := o.Split(params)
		link.Start(at, rand.NewPCG(1, 1))
		propensity.StartAt(exposure, .1, nil)
		a, err := CPU{Threads: threads}.Alternate(o)
		if err != nil || !a.Complete() {
			t.Fatal(err)
		}
		last := math.Inf(1)
		for round := range 12 {
			exact, err := CPU{Threads: threads}.Gradient(t.Context(), o, params, nil)
			if err != nil {
				t.Fatal(err)
			}
			parts, err := a.Round(t.Context(), params)
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(parts.Total()/exact.Total()-1) > 1e-5 || parts.Total() > last {
				t.Errorf("round %d begins at %v, the gradient's value is %v and the round before began at %v", round,
					parts.Total(), exact.Total(), last)
			}
			last = parts.Total()
		}
		source, _, _ := link.Sides(at)
		for _, x := range source.Factors[7*3 : 8*3] {
			if math.Abs(float64(x)) > 1e-6 {
				t.Errorf("a person without pairs has the factors %v", source.Factors[7*3:8*3])
			}
		}
		if first == nil {
			first = params
			continue
		}
		for i := range params {
			if params[i] != first[i] {
				t.Fatalf("parameter %d is %v with %d threads and %v with one", i, params[i], threads, first[i])
			}
		}
	}
	if _, err := (CPU{}).Alternate(&Objective{Link: link, Propensity: propensity, Pairs: pairs}); err != nil {
		t.Error(err)
	}
}
