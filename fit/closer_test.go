package fit

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"unseen/engine"
	"unseen/graph"
	"unseen/model"
	"unseen/sample"
	"unseen/world"
)

// obeyingProblem is the links of a world that obeys the model, and a few other pairs for each.
func obeyingProblem(t *testing.T, nodes int, seed uint64) (*world.World, sample.Problem) {
	t.Helper()
	plan := world.Saturated()
	plan.Seed = seed
	return linkedProblem(t, world.Settings{Nodes: nodes, Dim: 8, Fields: world.EvenFields(4), Scenario: plan}, 0)
}

// linkedProblem is the links of a world, and some other pairs for each; 0 is as many as usual.
func linkedProblem(t *testing.T, s world.Settings, perLink int) (*world.World, sample.Problem) {
	t.Helper()
	w := must(world.New(t.Context(), s))(t)
	g := must(w.Linked(t.Context()))(t).Graph()
	train, _, err := graph.Sample(g, graph.Universe{Before: g.Order()},
		graph.SampleOptions{Src: rand.NewPCG(1, 2), PerLink: perLink})
	if err != nil {
		t.Fatal(err)
	}
	return w, sample.Problem{Nodes: model.NodesOf(g), Train: train}
}

// Where few pairs leave the set of claims wide, more of them are looked at, be they in hand or only a part of all: what
// was looked at is surer than before, and what is claimed holds.
func TestMoreIsLookedAt(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	w, p := obeyingProblem(t, 700, 35)
	few := p.Train.Len() / 40
	for name, change := range map[string]func(s *Settings){
		"in hand":   func(*Settings) {},
		"of a part": func(s *Settings) { s.mostBytes = 4 * 9 * p.Train.Len() / 2 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Settings{Doctor: FullDoctor, Starts: []float64{.3}, compared: few}
			change(&s)
			r := mustFit(t, p, s)
			reference := r.alternatives[r.reference()]
			if reference.closer == nil {
				t.Fatalf("%s: nothing was looked at closer; the set is %+v", r.Findings.Class, r.Findings.Set)
			}
			if n := r.Findings.Set.Pairs; n < 3*few || n > 5*few {
				t.Errorf("compared by %d pairs, about %d were to be", n, 4*few)
			}
			looked := 0
			for k, f := range r.alternatives {
				if f.closer == nil || f.closer.failed {
					continue
				}
				looked++
				before, after := f.measures[ofExposure], f.closer.measures[ofExposure]
				if after.err > .8*before.err || math.Abs(math.Log(after.value/before.value)) > 4*before.err {
					t.Errorf("%s: π̂ of %v, and of four times as many pairs %v", f.Alternative, before, after)
				}
				if got, _, _ := f.against(reference); got != r.Findings.Set.Members[k].Difference ||
					f != reference && got == (&alternativeFit{folds: f.folds}).over(reference) {
					t.Errorf("%s: %v is not by the pairs that were looked at", f.Alternative, got)
				}
			}
			if looked < 2 {
				t.Errorf("%d assumptions were looked at", looked)
			}
			checkTruth(t, r.Findings.Set, must(w.Means(t.Context(), graph.Universe{Before: w.Graph().Order()}))(t))
		})
	}
}

// Where a test refutes the model, the reference alone is looked at closer: nothing would be called identified.
func TestReferenceIsLookedAt(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	_, p, _ := violated(t, world.Violations{Popularity: 1}, 20_000)
	r := mustFit(t, p, Settings{Doctor: FullDoctor, Starts: []float64{.3}, compared: p.Train.Len() / 8})
	if !refutes(r.refuted, ByPopularity) {
		t.Fatalf("%+v", r.refuted)
	}
	for k, f := range r.alternatives {
		if (f.closer != nil) != (k == r.reference()) {
			t.Errorf("%s: looked at %v", f.Alternative, f.closer != nil)
		}
	}
	want := r.alternatives[r.reference()].closer.measures[ofExposure].value
	if got := r.Findings.Set.Members[r.reference()].Propensity.Value; got != want {
		t.Errorf("π̂ is reported as %v, and by more pairs %v", got, want)
	}
}

// over is the difference from another by the fewer pairs.
func (f *alternativeFit) over(other *alternativeFit) float64 {
	difference, _, _ := f.against(&alternativeFit{folds: other.folds})
	return difference
}

// Pairs that surprise are chosen one by one, so that it is no matter how all are cut; there are about as many as were
// to be, and with the weights that make up for their chances they add up to what all do.
func TestSurprisingPairs(t *testing.T) {
	t.Parallel()
	_, p := obeyingProblem(t, 300, 36)
	r := mustFit(t, p, Settings{Doctor: QuickDoctor, Starts: []float64{.3}})
	d := p.Nodes.Dim()
	design := PairDesign{Unit: 1, CaseControl: true}
	for at := range r.Propensity.Size() {
		design.Cells = append(design.Cells, int32(at))
	}
	by := Surprise{Seed: 9, Design: design, Root: engine.Root{Rows: [][]float32{make([]float32, d+1)}, Divisor: 1}}
	for i := range by.Root.Rows[0] {
		by.Root.Rows[0][i] = .05
	}
	for _, x := range slices.Concat(r.LinkParams, r.PropensityParams) {
		by.Theta = append(by.Theta, float64(x))
	}
	chance, leverage, err := by.chances(t.Context(), engine.CPU{}, p)
	if err != nil {
		t.Fatal(err)
	}
	if len(leverage) != p.Train.Len() || slices.Max(leverage) <= 0 {
		t.Fatalf("the leverage of %d pairs is up to %v", len(leverage), slices.Max(leverage))
	}
	most := p.Train.Len() / 3
	chance.settle(p, [3]float64{1, 1, 1}, most)
	expected := 0.
	for k, link := range p.Train.Linked {
		expected += chance.of(k, link, false)
	}
	if math.Abs(expected-float64(most)) > 1e-6*float64(most) {
		t.Errorf("the chances add up to %v, not %d", expected, most)
	}
	by.Factor, by.Logged = chance.factor, chance.logged
	places := must(by.Places(t.Context(), engine.CPU{}, p))(t)
	if n := len(places); math.Abs(float64(n-most)) > 5*math.Sqrt(float64(most)) {
		t.Errorf("%d pairs are chosen, %d were to be", n, most)
	}
	chosen := p.Training().At(places)
	chance.at(places).makeUp(chosen)
	var all, part [2]float64
	add := func(to *[2]float64, of *graph.Pairs) {
		for k, linked := range of.Linked {
			if linked {
				to[1] += of.Weight[k]
			} else {
				to[0] += of.Weight[k]
			}
		}
	}
	add(&all, p.Train)
	add(&part, chosen.Pairs)
	for kind := range all {
		if math.Abs(part[kind]/all[kind]-1) > .08 {
			t.Errorf("kind %d: the weights of the chosen pairs add up to %v, of all to %v", kind, part[kind], all[kind])
		}
	}
	whole := map[[2]int32]bool{}
	for k, source := range chosen.Pairs.Source {
		whole[[2]int32{source, chosen.Pairs.Target[k]}] = true
	}
	for i := range p.Nodes.Len() {
		p.Nodes.Numbers = append(p.Nodes.Numbers, int32(i))
	}
	p.Nodes.Age, p.Nodes.Popularity = make([]float32, p.Nodes.Len()), make([]float32, p.Nodes.Len())
	cut := must(cutProblem(t, p, 5).DrawSurprising(t.Context(), by))(t)
	for k, source := range cut.Train.Source {
		pair := [2]int32{cut.Nodes.Number(source), cut.Nodes.Number(cut.Train.Target[k])}
		if !whole[pair] {
			t.Errorf("pair %v is chosen of pieces and not of all", pair)
		}
	}
	if cut.Train.Len() != len(whole) {
		t.Errorf("%d pairs are chosen of pieces, %d of all", cut.Train.Len(), len(whole))
	}
}
