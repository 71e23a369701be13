package fit

import (
	"context"
	"math"
	"slices"
	"testing"

	"unseen/model"
	"unseen/world"
)

// A part of the pairs is as long as was asked for, in order, the same for the same seed, and follows no pattern of
// the sample.
func TestSomePairs(t *testing.T) {
	const pairs, most = 100_000, 20_000
	places := some(pairs, most, 1)
	if n := len(places); math.Abs(float64(n)-most) > 5*math.Sqrt(most) || !slices.IsSorted(places) ||
		!slices.Equal(places, some(pairs, most, 1)) || slices.Equal(places, some(pairs, most, 2)) {
		t.Errorf("%d places", n)
	}
	fifth := 0
	for _, k := range places { // as where every fifth pair is a link
		if k%5 == 0 {
			fifth++
		}
	}
	if share := float64(fifth) / float64(len(places)); math.Abs(share-.2) > .015 {
		t.Errorf("%v of them are every fifth", share)
	}
	if n := len(some(10, 20, 1)); n != 10 {
		t.Errorf("%d of 10", n)
	}
}

// Where the products of all pairs would not fit, bayes learns from a part and says so.
func TestBayesOfTooManyPairs(t *testing.T) {
	ctx := context.Background()
	w := must(world.New(ctx, world.Settings{Nodes: 500, Dim: 8, Fields: world.EvenFields(3),
		Plan: world.Plan{Seed: 2}}))(t)
	train := must(w.Pairs(ctx, 30_000, world.Draw{}))(t)
	p := Problem{Nodes: model.NodesOf(w.Graph()), Train: train.Pairs}
	s := Settings{Replicates: -1, Starts: []float64{.3}, mostBytes: 4 * 9 * 10_000}
	part := mustFit(t, p, s)
	if !slices.ContainsFunc(part.Warnings, func(w Warning) bool { return w.Kind == "sample" }) {
		t.Errorf("nothing is said of it: %v", part.Warnings)
	}
	s.mostBytes = 0
	whole := mustFit(t, p, s)
	if slices.ContainsFunc(whole.Warnings, func(w Warning) bool { return w.Kind == "sample" }) {
		t.Errorf("a part was taken where all would fit: %v", whole.Warnings)
	}
	a, b := part.Findings.MeanLink, whole.Findings.MeanLink
	if off := math.Log(a.Value / b.Value); math.Abs(off) > 3*math.Hypot(a.Error, b.Error) || a.Error < 1.2*b.Error {
		t.Errorf("mean ŷ %v ± %v from a third of the pairs, %v ± %v from all", a.Value, a.Error, b.Value, b.Error)
	}
}
