package engine

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"unseen/graph"
	"unseen/model"
	"unseen/risk"
)

// Means by fields come to what one pair after another does in float64, whatever the number of threads: for models that
// are summed by blocks, of which one block serves both directions or not, and for others; with links, and with pairs
// that are left out. Together they are the means over all pairs.
func TestAllPairsByField(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	for round := range 40 {
		g := randomGraph(t, rng, 2+rng.IntN(250), 1+rng.IntN(20))
		u := randomUniverse(rng, g)
		if round%2 == 0 {
			g, u = randomGraph(t, rng, 2*blockSquare+rng.IntN(60), 1+rng.IntN(20)), graph.Universe{}
		}
		if round%5 == 0 {
			u.Except = randomGraph(t, rng, g.Len(), 1)
		}
		if _, _, err := u.Count(g); err != nil {
			continue // no pair
		}
		nodes, floor := model.NodesOf(g), []float64{0, .01, .3}[rng.IntN(3)]
		link := must(model.NewLink([]string{"diagonal", "diagonal-field", "low-rank", "diagonal"}[round%4], nodes,
			model.LinkOptions{}))(t)
		params := random(rng, link.Size(), .3)
		p := Predictor{Link: link, LinkParams: params, Propensity: &termed{must(model.NewConstant(.5))(t),
			randomTerms(rng, nodes), nodes, link, params}}
		if round%7 == 6 {
			propensity := must(model.NewPropensity("mlp", nodes, model.PropensityOptions{Propensity: .4}))(t)
			p.Propensity, p.PropensityParams = propensity, random(rng, propensity.Size(), 1)
		}
		got := must(CPU{Threads: 3}.AllPairsByField(t.Context(), g, p, u, floor))(t)
		again := must(CPU{Threads: 1}.AllPairsByField(t.Context(), g, p, u, floor))(t)
		if !reflect.DeepEqual(again, got) {
			t.Errorf("seed %d, round %d: other means with one thread than with three", seed, round)
		}
		want, naive := fieldsOneByOne(t, g, p, u, floor)
		for _, own := range got {
			cell := [2]uint16{own.Source, own.Target}
			agree(t, own.Means, want[cell], naive[cell])
			delete(want, cell)
		}
		for cell, sums := range want {
			t.Errorf("seed %d, round %d: %d pairs of fields %v are missing", seed, round, sums.Pairs, cell)
		}
		all, whole := Overall(got), must(CPU{}.AllPairs(t.Context(), g, p, u, floor))(t)
		if all.Pairs != whole.Pairs || math.Abs(all.AP-whole.AP) > 1e-4*(math.Abs(whole.AP)+whole.Naive) ||
			math.Abs(all.MeanPropensity-whole.MeanPropensity) > 1e-5*whole.MeanPropensity {
			t.Errorf("seed %d, round %d: together %+v, all pairs %+v", seed, round, all, whole)
		}
		if t.Failed() {
			t.Fatalf("seed %d, round %d, %s and %s", seed, round, link.Kind(), p.Propensity.Kind())
		}
	}
}

// fieldsOneByOne is the reference: the terms of every pair by itself, as package risk has them, by fields; and naive
// losses if no pair were linked.
func fieldsOneByOne(t *testing.T, g *graph.Graph, p Predictor, u graph.Universe,
	floor float64) (map[[2]uint16]Sums, map[[2]uint16]float64) {
	t.Helper()
	pairs := must(graph.AllPairs(g, u, 0))(t)
	sums, naive := map[[2]uint16]Sums{}, map[[2]uint16]float64{}
	if err := p.each(model.Batch{Sources: pairs.Source, Targets: pairs.Target}, func(k int, b risk.Belief) {
		cell := [2]uint16{g.Field(pairs.Source[k]), g.Field(pairs.Target[k])}
		own := sums[cell]
		own.Add(ownTerms(pairs.Linked[k], b, floor))
		sums[cell] = own
		naive[cell] += ownTerms(false, b, floor).Naive
	}); err != nil {
		t.Fatal(err)
	}
	return sums, naive
}

// agree compares means with sums, given the naive losses if no pair were linked. Terms of PU have either sign. A link's
// terms replace those of no link, whose rounding stays: where a model is sure of the few links there are, nearly all of
// the first sum is taken away again.
func agree(t *testing.T, got Means, want Sums, unlinked float64) {
	t.Helper()
	n := float64(want.Pairs)
	if got.Pairs != want.Pairs {
		t.Errorf("%d pairs, want %d", got.Pairs, want.Pairs)
	}
	for name, pair := range map[string][2]float64{
		"mean ŷ": {got.MeanLink, want.Link}, "mean π̂": {got.MeanPropensity, want.Propensity},
		"likelihood": {got.Likelihood, want.Likelihood}, "naive": {got.Naive, want.Naive}, "w": {got.W, want.W},
		"pu": {got.PU, want.PU}, "ap": {got.AP, want.AP},
	} {
		if !(math.Abs(pair[0]*n-pair[1]) <= 2e-5*(math.Abs(pair[1])+want.Naive)+4e-6*unlinked) {
			t.Errorf("%s %v by blocks, %v pair by pair", name, pair[0], pair[1]/n)
		}
	}
}
