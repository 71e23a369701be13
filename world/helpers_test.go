package world_test

import (
	"context"
	"math"
	"testing"

	"unseen/graph"
	"unseen/world"
)

var ctx = context.Background()

// small is quick to make, and its 39,800 pairs are enough for the law of large numbers.
func small(p world.Scenario) world.Settings {
	return world.Settings{Nodes: 200, Dim: 48, Fields: world.EvenFields(5), Scenario: p}
}

func between(low, high float64) world.PropensityRange {
	return world.PropensityRange{Low: low, High: high}
}

func generate(t testing.TB, s world.Settings) *world.World {
	t.Helper()
	w, err := world.New(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func draw(t testing.TB, w *world.World, n int, d world.Draw) *world.TruePairs {
	t.Helper()
	s, err := w.Pairs(ctx, n, d)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s is %.5g, want %.5g ± %.2g", what, got, want, tolerance)
	}
}

// standardised is a sum of independent terms of mean 0 that counts their variances.
type standardised struct{ sum, variance float64 }

func (s *standardised) add(x, variance float64) {
	s.sum += x
	s.variance += variance
}

// isZero fails where the sum is further from 0 than chance takes it once in 16,000 tries; the seeds
// are fixed, so a test that passes goes on passing.
func (s standardised) isZero(t *testing.T, what string) {
	t.Helper()
	if z := s.sum / math.Sqrt(s.variance); !(math.Abs(z) < 4) {
		t.Errorf("%s: %.2f standard errors from 0", what, z)
	}
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// fromBuilder builds a graph of nodes with the given fields, with random-looking vectors.
func fromBuilder(t testing.TB, fields []string, dim int) *graph.Graph {
	t.Helper()
	source := generate(t, world.Settings{Nodes: len(fields), Dim: dim, Fields: world.EvenFields(1)})
	var b graph.Builder
	for i, f := range fields {
		if _, err := b.AddNode(graph.Node{ID: source.Graph().ID(int32(i)), Field: f}); err != nil {
			t.Fatal(err)
		}
	}
	g, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	g, err = g.WithVectors(source.Graph().Vectors())
	if err != nil {
		t.Fatal(err)
	}
	return g
}
