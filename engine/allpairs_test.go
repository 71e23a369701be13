package engine

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"unseen/graph"
	"unseen/model"
	"unseen/world"
)

// TestAllPairs holds the blocks against one pair at a time, for every model that has them.
func TestAllPairs(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	ctx := context.Background()
	w := must(world.New(ctx, world.Settings{Nodes: 333, Dim: 24, Fields: world.EvenFields(4),
		Scenario: world.Scenario{Seed: 3}}))(t)
	w = must(must(w.Thinned(.1))(t).Linked(ctx))(t)
	g := w.Graph()
	nodes := model.NodesOf(g)
	rng := rand.New(rand.NewPCG(1, 1))
	for _, link := range []string{"diagonal", "diagonal-field", "low-rank"} {
		for _, propensity := range []string{"field-matrix", "low-rank-fields", "constant"} {
			j := &Predictor{Link: must(model.NewLink(link, nodes, model.LinkOptions{}))(t),
				Propensity: must(model.NewPropensity(propensity, nodes, model.PropensityOptions{Propensity: .4}))(t)}
			j.LinkParams, j.PropensityParams = make([]float32, j.Link.Size()), make([]float32, j.Propensity.Size())
			for i := range j.LinkParams {
				j.LinkParams[i] = float32(rng.NormFloat64() * 3)
			}
			for i := range j.PropensityParams {
				j.PropensityParams[i] = float32(rng.NormFloat64())
			}
			got := must(CPU{Threads: 3}.AllPairs(ctx, g, *j))(t)
			if again := must(CPU{}.AllPairs(ctx, g, *j))(t); again != got {
				t.Errorf("%s, %s: %v with one thread, %v with three", link, propensity, again, got)
			}
			slow := must(sumPairByPair(ctx, g, *j, 1))(t)
			slow.Add(must(sumLinked(ctx, g, *j))(t))
			for name, pair := range map[string][2]float64{
				"mean ŷ": {got.MeanLink, slow.Link}, "likelihood": {got.Likelihood, slow.Likelihood},
				"naive": {got.Naive, slow.Naive}, "w": {got.W, slow.W}, "pu": {got.PU, slow.PU},
				"ap": {got.AP, slow.AP},
			} {
				if want := pair[1] / float64(got.Pairs); math.Abs(pair[0]-want) > 1e-5*math.Abs(want) {
					t.Errorf("%s, %s: %s %v by blocks, %v pair by pair", link, propensity, name, pair[0], want)
				}
			}
		}
	}
}

func must[T any](x T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
}

func TestAllPairsRefuses(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	w := must(world.New(ctx, world.Settings{Nodes: 60, Dim: 8, Fields: world.EvenFields(2)}))(t)
	nodes := model.NodesOf(w.Graph())
	j := &Predictor{Link: must(model.NewDiagonal(nodes, false))(t), Propensity: must(model.NewFieldMatrix(nodes))(t)}
	j.LinkParams, j.PropensityParams = make([]float32, j.Link.Size()), make([]float32, j.Propensity.Size())
	var b graph.Builder
	if _, err := b.AddNode(graph.Node{ID: "alone"}); err != nil {
		t.Fatal(err)
	}
	alone, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (CPU{}).AllPairs(ctx, alone, *j); !errors.Is(err, ErrUnsupported) {
		t.Errorf("one node: %v", err)
	}
	cancel()
	if _, err := (CPU{}).AllPairs(ctx, w.Graph(), *j); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
