package fit

import (
	"context"
	"math"
	"slices"
	"testing"

	"unseen/internal/racetest"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

// Where the products of all pairs would not fit and there is no way to learn from them piece by piece, as where V is
// known by draws, bayes learns from a part and says so.
func TestBayesOfTooManyPairs(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of bayes by draws")
	ctx := context.Background()
	w := must(world.New(ctx, world.Settings{Nodes: 500, Dim: 8, Fields: world.EvenFields(3),
		Scenario: world.Scenario{Seed: 2}}))(t)
	train := must(w.Pairs(ctx, 30_000, world.Draw{}))(t)
	p := sample.Problem{Nodes: model.NodesOf(w.Graph()), Train: train.Pairs}
	s := Settings{Replicates: -1, Starts: []float64{.3}, mostBytes: 4 * 9 * 10_000, mostExact: 4}
	part := mustFit(t, p, s)
	if !slices.ContainsFunc(part.Warnings, func(w risk.Warning) bool { return w.Kind == "sample" }) {
		t.Errorf("nothing is said of it: %v", part.Warnings)
	}
	s.mostBytes = 0
	whole := mustFit(t, p, s)
	if slices.ContainsFunc(whole.Warnings, func(w risk.Warning) bool { return w.Kind == "sample" }) {
		t.Errorf("a part was taken where all would fit: %v", whole.Warnings)
	}
	a, b := part.Findings.MeanLink, whole.Findings.MeanLink
	if off := math.Log(a.Value / b.Value); math.Abs(off) > 3*math.Hypot(a.Error, b.Error) || a.Error < 1.2*b.Error {
		t.Errorf("mean ŷ %v ± %v from a third of the pairs, %v ± %v from all", a.Value, a.Error, b.Value, b.Error)
	}
}
