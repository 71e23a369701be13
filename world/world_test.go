package world_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"unseen/evaluate"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/internal/racetest"
	"unseen/world"
)

// On pairs other than those of the calibration, the base rate is met within 3% of itself and the
// AUC of relevance as drawn within .01: calibration error, and that of the sample. A world of 200
// nodes is calibrated on all its pairs, one of 1,500 on an eighth of them.
func TestPlanIsMetOnFreshPairs(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	tests := []struct {
		name      string
		nodes     int
		plan      world.Scenario
		saturated [2]float64 // bounds on the share of pairs with y > .9
	}{
		{"saturated", 1500, world.Saturated(), [2]float64{.04, .1}},
		{"saturated and rare", 1500, world.SaturatedRare(), [2]float64{.0003, .003}},
		{"flat and rare", 1500, world.FlatRare(), [2]float64{0, 0}},
		{"common", 200, world.Scenario{BaseRate: .7, OracleAUC: .9, Seed: 3}, [2]float64{.2, .7}},
		{"nearly constant", 200, world.Scenario{BaseRate: .3, OracleAUC: .52, Seed: 4}, [2]float64{0, 0}},
		{"nearly certain", 200, world.Scenario{BaseRate: .3, OracleAUC: .999, Seed: 5}, [2]float64{.2, .31}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			settings := small(test.plan)
			settings.Nodes = test.nodes
			w := generate(t, settings)
			n := min(100_000, test.nodes*(test.nodes-1)/3)
			s := draw(t, w, n, world.Draw{Part: 1})
			var rate, saturated, highest float64
			scores := make([]float64, n)
			for k, truth := range s.Truth {
				scores[k] = truth.Link
				rate += truth.Link / float64(n)
				saturated += boolean(truth.Link > .9) / float64(n)
				highest = max(highest, truth.Link)
			}
			auc, err := evaluate.Scored{Scores: scores, Linked: s.Relevant}.AUC()
			if err != nil {
				t.Fatal(err)
			}
			p, profile := test.plan, w.Profile()
			near(t, "base rate", rate, p.BaseRate, .03*p.BaseRate)
			near(t, "AUC", auc, p.OracleAUC, .01)
			near(t, "profile's base rate", profile.BaseRate, p.BaseRate, 1e-5*p.BaseRate)
			near(t, "profile's AUC", profile.OracleAUC, p.OracleAUC, 1e-5)
			near(t, "profile's saturated share", profile.Saturated, saturated, .1*saturated+1e-4)
			if saturated < test.saturated[0] || saturated > test.saturated[1] {
				t.Errorf("share of pairs with y > .9 is %v, want from %v to %v", saturated, test.saturated[0],
					test.saturated[1])
			}
			t.Logf("mean y %.5f, AUC %.4f, y > .9 %.5f, highest %.4f", rate, auc, saturated, highest)
		})
	}
}

func TestTruthFollowsTheFormula(t *testing.T) {
	t.Parallel()
	w := generate(t, small(world.Scenario{Ceiling: .8}))
	g, weights := w.Graph(), w.Weights()
	s := draw(t, w, 500, world.Draw{})
	hi, hj := make([]float32, len(weights)), make([]float32, len(weights))
	for k, i := range s.Pairs.Source {
		j := s.Pairs.Target[k]
		g.Vectors().Load(hi, i)
		g.Vectors().Load(hj, j)
		z := w.Bias()
		for d := range weights {
			z += float64(weights[d]) * float64(hi[d]) * float64(hj[d])
		}
		near(t, "z", s.Logits[k], z, 1e-4)
		near(t, "y", s.Truth[k].Link, .8/(1+math.Exp(-s.Logits[k])), 1e-12)
		if s.Truth[k].Propensity != w.Propensity(g.Field(i), g.Field(j)) {
			t.Fatalf("pair (%d, %d) has propensity %v, its fields %v", i, j, s.Truth[k].Propensity,
				w.Propensity(g.Field(i), g.Field(j)))
		}
		if s.Truth[k] != w.Truth(i, j) {
			t.Fatalf("pair (%d, %d) is %v in a sample and %v alone", i, j, s.Truth[k], w.Truth(i, j))
		}
	}
}

func TestPropensities(t *testing.T) {
	t.Parallel()
	s := small(world.Scenario{Same: between(.5, .6), Cross: between(.01, .02)})
	w := generate(t, s)
	n := w.Graph().FieldCount()
	if n != len(s.Fields)+1 {
		t.Fatalf("%d field indices for %d fields", n, len(s.Fields))
	}
	distinct := make(map[float64]bool)
	for c, p := range w.Propensities() {
		distinct[p] = true
		r := s.Cross
		if source, target := c/n, c%n; source == target && source > 0 {
			r = s.Same
		}
		if p < r.Low || p > r.High {
			t.Errorf("π[%d, %d] is %v, want from %v to %v", c/n, c%n, p, r.Low, r.High)
		}
	}
	if len(distinct) != n*n {
		t.Errorf("%d distinct propensities of %d", len(distinct), n*n)
	}
	constant := between(.25, .25)
	for _, p := range generate(t, small(world.Scenario{Same: constant, Cross: constant})).Propensities() {
		if p != .25 {
			t.Fatalf("a range of one number gave %v", p)
		}
	}
}

func TestFieldsAreNumberedInTheirOrder(t *testing.T) {
	t.Parallel()
	g := generate(t, world.Settings{Nodes: 100, Dim: 4}).Graph()
	for k, f := range world.FieldsOfStudy() {
		if g.FieldName(uint16(k+1)) != f.Name {
			t.Errorf("field %d is %q, want %q", k+1, g.FieldName(uint16(k+1)), f.Name)
		}
	}
}

// Where fields are those of the texts, vectors of one field have a cosine of FieldShare plus what
// shared topics add; where they are random, the field says nothing of the text.
func TestFieldsAndTexts(t *testing.T) {
	t.Parallel()
	likeness := func(random bool) (same, other, length float64) {
		s := small(world.Scenario{})
		s.Dim, s.RandomFields, s.FieldShare, s.TopicShare, s.Topics = 512, random, .4, .2, 4
		g := generate(t, s).Graph()
		rows := kern.MatrixOf(g.Vectors())
		var sames, others int
		dots := make([]float32, g.Len())
		for i := range 100 {
			kern.DotRange(dots, rows.Row(i), rows, 0)
			for j := range dots {
				switch {
				case i == j:
					length += float64(dots[j]) / 100
				case g.Field(int32(i)) == g.Field(int32(j)):
					same += float64(dots[j])
					sames++
				default:
					other += float64(dots[j])
					others++
				}
			}
		}
		return same / float64(sames), other / float64(others), length
	}
	same, other, length := likeness(false)
	near(t, "squared length", length, 1, .05)
	near(t, "likeness within a field", same, .4+.2/4, .05)
	near(t, "likeness between fields", other, 0, .05)
	same, other, _ = likeness(true)
	near(t, "likeness within a random field, less that between", same-other, 0, .01)
}

func TestHomophilyRaisesLogitsWithinAreas(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestViolationsAreTheSameWhateverTheThreads has the same goroutines")
	gap := func(homophily float64) float64 {
		s := small(world.Scenario{OracleAUC: .8})
		s.Nodes, s.Dim, s.Homophily, s.Fields = 300, 256, homophily, world.EvenFields(20)
		w := generate(t, s)
		sample := draw(t, w, 25_000, world.Draw{})
		var sum, square, sames, others, n float64
		for k, z := range sample.Logits {
			if w.Graph().Field(sample.Pairs.Source[k]) == w.Graph().Field(sample.Pairs.Target[k]) {
				sum += z
				sames++
			} else {
				others += z
				square += z * z
				n++
			}
		}
		return (sum/sames - others/n) / math.Sqrt(square/n-others/n*others/n)
	}
	none := gap(0) // 0 only in the mean over w, of which there is one
	near(t, "difference without homophily", none, 0, .9)
	near(t, "what homophily 2 adds", gap(2)-none, 2, .3)
}

func TestTitlesAndTimes(t *testing.T) {
	t.Parallel()
	s := small(world.Scenario{})
	s.Fields = append(world.EvenFields(19), world.Field{Name: "Celtic Studies"})
	s.Topics = 11
	g := generate(t, s).Graph()
	titles := make(map[string]bool)
	for i := range int32(g.Len()) {
		title := g.Title(i)
		titles[title] = true
		if first := title[:1]; first != strings.ToUpper(first) || len(strings.Fields(title)) < 3 {
			t.Fatalf("title %q", title)
		}
		if g.FieldName(g.Field(i)) == "Celtic Studies" && !strings.Contains(strings.ToLower(title), "celtic studies") {
			t.Fatalf("title %q of Celtic Studies", title)
		}
		when, known := g.Time(i)
		if !known || when.Year() < 1990 || when.Year() > 2019 {
			t.Fatalf("node %d is of %v", i, when)
		}
		if i > 0 {
			if before, _ := g.Time(i - 1); when.Before(before) {
				t.Fatalf("node %d is older than the one before", i)
			}
		}
	}
	if len(titles) < g.Len()/2 {
		t.Errorf("%d different titles of %d", len(titles), g.Len())
	}
}

func TestSameSeedSameBytesWhateverTheThreads(t *testing.T) {
	t.Parallel()
	type all struct {
		weights    []float32
		bias       float64
		propensity []float64
		profile    world.Profile
		vectors    []float32
		sample     *world.TruePairs
		links      []graph.Link
	}
	everything := func(threads int, seed uint64) all {
		s := small(world.Scenario{Threads: threads, Seed: seed})
		w := generate(t, s)
		linked, err := w.Linked(ctx)
		if err != nil {
			t.Fatal(err)
		}
		a := all{weights: w.Weights(), bias: w.Bias(), propensity: w.Propensities(), profile: w.Profile(),
			sample: draw(t, w, 13_000, world.Draw{Part: 1, Logged: .1})}
		for i := range w.Graph().Len() {
			a.vectors = append(a.vectors, kern.MatrixOf(w.Graph().Vectors()).Row(i)...)
		}
		for i, j := range linked.Graph().Links() {
			a.links = append(a.links, graph.Link{Source: i, Target: j})
		}
		return a
	}
	one := everything(1, 7)
	for _, threads := range []int{2, 7} {
		if !reflect.DeepEqual(everything(threads, 7), one) {
			t.Errorf("%d threads make another world than one", threads)
		}
	}
	other := everything(1, 8)
	if slices.Equal(other.weights, one.weights) || slices.Equal(other.propensity, one.propensity) ||
		slices.Equal(other.vectors, one.vectors) || slices.Equal(other.sample.Pairs.Source, one.sample.Pairs.Source) {
		t.Error("another seed repeats part of a world")
	}
}

// A ceiling leaves w and b alone, and π·y is that of the world without one, thinned.
func TestBlindSpot(t *testing.T) {
	t.Parallel()
	low, full := generate(t, small(world.Scenario{Ceiling: .6})), generate(t, small(world.Scenario{}))
	if low.Bias() != full.Bias() || !slices.Equal(low.Weights(), full.Weights()) {
		t.Fatal("the ceiling changed w or b")
	}
	thin, err := full.Thinned(.6)
	if err != nil {
		t.Fatal(err)
	}
	a, b := draw(t, low, 1000, world.Draw{}), draw(t, thin, 1000, world.Draw{})
	for k := range a.Truth {
		if a.Truth[k].Link > .6 {
			t.Fatalf("y is %v above the ceiling", a.Truth[k].Link)
		}
		near(t, "πy", a.Truth[k].Link*a.Truth[k].Propensity, b.Truth[k].Link*b.Truth[k].Propensity, 1e-12)
	}
	near(t, "profile's link rate", low.Profile().LinkRate, thin.Profile().LinkRate, 1e-12)
	near(t, "profile's base rate", low.Profile().BaseRate, .6*.16, 1e-6)
	if low.Profile().OracleAUC >= full.Profile().OracleAUC {
		t.Error("a ceiling leaves y as telling as before")
	}
}

func TestPlantOnGraph(t *testing.T) {
	t.Parallel()
	fields := make([]string, 200)
	for i := range fields {
		fields[i] = [...]string{"physics", "", "biology"}[i%3]
	}
	g := fromBuilder(t, fields, 24)
	direction := make([]float32, 24)
	for d := range direction {
		direction[d] = float32(d%5) - 1.5
	}
	plan := world.Scenario{BaseRate: .1, OracleAUC: .9, Seed: 2}
	w, err := world.Plant(ctx, g, direction, plan)
	if err != nil {
		t.Fatal(err)
	}
	if w.Graph() != g {
		t.Error("the world is of another graph")
	}
	near(t, "base rate", w.Profile().BaseRate, .1, 1e-6)
	near(t, "AUC", w.Profile().OracleAUC, .9, 1e-6)
	if w.Profile().Pairs != 200*199 {
		t.Errorf("calibrated on %d pairs, not on all", w.Profile().Pairs)
	}
	weights := w.Weights()
	for d := range weights {
		near(t, "direction of w", float64(weights[d]/weights[0]), float64(direction[d]/direction[0]), 1e-5)
	}
	if weights[0]*direction[0] <= 0 {
		t.Error("the weights changed their sign")
	}
	// The scale in which the weights come does not matter.
	scaled := slices.Clone(direction)
	for d := range scaled {
		scaled[d] *= 0x1p100
	}
	again, err := world.Plant(ctx, g, scaled, plan)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(again.Weights(), weights) || again.Bias() != w.Bias() {
		t.Error("scaled weights make another world")
	}
	// Two nodes whose field is unknown are not of one field.
	if p := w.Propensity(graph.UnknownField, graph.UnknownField); p < .1 || p > .3 {
		t.Errorf("π between unknown fields is %v", p)
	}
	drawn, err := world.Plant(ctx, g, nil, plan)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "base rate of drawn weights", drawn.Profile().BaseRate, .1, 1e-6)
}

func TestPlantOnHalfPrecision(t *testing.T) {
	t.Parallel()
	w := generate(t, small(world.Scenario{}))
	half, err := graph.NewHalfVectors(w.Graph().Len(), 48)
	if err != nil {
		t.Fatal(err)
	}
	for i := range w.Graph().Len() {
		if err := half.Set(int32(i), kern.MatrixOf(w.Graph().Vectors()).Row(i)[:48]); err != nil {
			t.Fatal(err)
		}
	}
	g, err := w.Graph().WithVectors(half)
	if err != nil {
		t.Fatal(err)
	}
	planted, err := world.Plant(ctx, g, w.Weights(), world.Scenario{})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "bias", planted.Bias(), w.Bias(), .02)
	draw(t, planted, 100, world.Draw{})
}

// numbered returns n names.
func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	return names
}

func TestPlantRefuses(t *testing.T) {
	t.Parallel()
	g := fromBuilder(t, []string{"a", "b", "a", "b"}, 3)
	var b graph.Builder
	b.AddNode(graph.Node{ID: "1"})
	b.AddNode(graph.Node{ID: "2"})
	bare, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	zeros, err := graph.NewVectors(2, 3)
	if err != nil {
		t.Fatal(err)
	}
	blank, err := bare.WithVectors(zeros)
	if err != nil {
		t.Fatal(err)
	}
	nan := float32(math.NaN())
	for _, test := range []struct {
		name    string
		graph   *graph.Graph
		weights []float32
		plan    world.Scenario
		kind    error
		says    string
	}{
		{"no graph", nil, nil, world.Scenario{}, world.ErrGraph, "vectors"},
		{"no vectors", bare, nil, world.Scenario{}, world.ErrGraph, "no vectors"},
		{"vectors of zeros", blank, nil, world.Scenario{}, world.ErrUnreachable, "pairs differ"},
		{"too many fields", fromBuilder(t, numbered(4096), 3), nil, world.Scenario{}, world.ErrGraph,
			"4096 or fewer"},
		{"too few weights", g, make([]float32, 2), world.Scenario{}, world.ErrSetting, "2 weights"},
		{"weights of zero", g, make([]float32, 3), world.Scenario{}, world.ErrSetting, "all weights are 0"},
		{"weights that are no numbers", g, []float32{1, nan, 1}, world.Scenario{}, world.ErrSetting, "weight 1"},
		{"bad plan", g, nil, world.Scenario{BaseRate: 1}, world.ErrSetting, "BaseRate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := world.Plant(ctx, test.graph, test.weights, test.plan)
			if !errors.Is(err, test.kind) || !strings.Contains(fmt.Sprint(err), test.says) {
				t.Errorf("%v; want %q about %q", err, test.kind, test.says)
			}
		})
	}
	if err := zeros.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := world.Plant(ctx, blank, nil, world.Scenario{}); !errors.Is(err, world.ErrGraph) {
		t.Errorf("closed vectors: %v", err)
	}
}

func TestRedrawnAndThinned(t *testing.T) {
	t.Parallel()
	w := generate(t, small(world.Scenario{}))
	again, other := w.Redrawn(0), w.Redrawn(1)
	a, b, c := draw(t, w, 5000, world.Draw{}), draw(t, again, 5000, world.Draw{}), draw(t, other, 5000, world.Draw{})
	if !reflect.DeepEqual(a, b) {
		t.Error("the world's own seed draws something else")
	}
	if slices.Equal(a.Pairs.Source, c.Pairs.Source) {
		t.Error("another seed draws the same pairs")
	}
	all, redrawn := draw(t, w, 5000, world.Draw{Parts: 1}), draw(t, other, 5000, world.Draw{Parts: 1})
	if slices.Equal(all.Relevant, redrawn.Relevant) || slices.Equal(all.Exposed, redrawn.Exposed) {
		t.Error("another seed draws the same outcomes")
	}
	if !slices.Equal(w.Weights(), other.Weights()) || !slices.Equal(w.Propensities(), other.Propensities()) {
		t.Error("redrawing changed the truth")
	}
	thin, err := w.Thinned(.5)
	if err != nil {
		t.Fatal(err)
	}
	half := draw(t, thin, 5000, world.Draw{})
	for k := range half.Exposed {
		if half.Truth[k].Propensity != a.Truth[k].Propensity/2 || half.Relevant[k] != a.Relevant[k] ||
			half.Exposed[k] && !a.Exposed[k] {
			t.Fatalf("pair %d: thinning changed more than exposure", k)
		}
	}
	for _, factor := range []float64{0, -1, 1.1, math.NaN(), 5e-324} {
		if _, err := w.Thinned(factor); !errors.Is(err, world.ErrSetting) {
			t.Errorf("thinned by %v: %v", factor, err)
		}
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	w := generate(t, small(world.Scenario{}))
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, generated := world.New(cancelled, small(world.Scenario{}))
	_, planted := world.Plant(cancelled, w.Graph(), nil, world.Scenario{})
	_, drawn := w.Pairs(cancelled, 100, world.Draw{})
	_, linked := w.Linked(cancelled)
	for _, err := range []error{generated, planted, drawn, linked} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled, but %v", err)
		}
	}
}
