package fit

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"unseen/engine"
	"unseen/graph"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

// smallProblem is a random problem that every model can look at.
func smallProblem(tb testing.TB, nodes, dim, pairs int, seed uint64) sample.Problem {
	tb.Helper()
	rng := rand.New(rand.NewPCG(seed, 5))
	v, err := graph.NewVectors(nodes, dim)
	if err != nil {
		tb.Fatal(err)
	}
	n := model.Nodes{Vectors: v, FieldCount: 4}
	row := make([]float32, dim)
	for i := range nodes {
		for d := range row {
			row[d] = float32(rng.NormFloat64())
		}
		if err := v.Set(int32(i), row); err != nil {
			tb.Fatal(err)
		}
		n.Fields = append(n.Fields, uint16(1+rng.IntN(3)))
		n.Popularity = append(n.Popularity, rng.Float32()*3)
		n.Age = append(n.Age, rng.Float32()*20)
	}
	p := &graph.Pairs{Universe: int64(nodes) * int64(nodes-1)}
	for range pairs {
		i := rng.IntN(nodes)
		j := (i + 1 + rng.IntN(nodes-1)) % nodes
		p.Source, p.Target = append(p.Source, int32(i)), append(p.Target, int32(j))
		p.Linked = append(p.Linked, rng.IntN(4) == 0)
		p.Weight, p.Rate = append(p.Weight, 1+rng.Float64()*3), append(p.Rate, .1+.9*rng.Float64())
	}
	return sample.Problem{Nodes: n, Train: p}
}

func init() {
	// half of what AP believes of a missing link: a scheme without slopes of its own
	err := risk.Register("test-halfway", risk.MassFunc(func(o risk.Observation, b risk.Belief) risk.Mass {
		if o.Linked {
			return risk.Mass{Positive: 1}
		}
		return risk.Mass{Positive: b.Hidden() / 2, Negative: 1 - b.Hidden()/2}
	}))
	if err != nil {
		panic(err)
	}
}

func TestThreadsDoNotMatter(t *testing.T) {
	o := benchObjective(t, 500, 33, 5000, false)
	params := make([]float32, o.Size())
	rng := rand.New(rand.NewPCG(6, 6))
	for i := range params {
		params[i] = float32(rng.NormFloat64())
	}
	for _, bySource := range []bool{false, true} {
		var first []float32
		for _, threads := range []int{1, 2, 3, 7} {
			s := AdamSettings{Batch: 600, Epochs: 2, BySource: bySource, Seed: 3}.withDefaults()
			state := newAdamState(o, slices.Clone(params), s.Rate)
			trainer := &trainer{engine: engine.CPU{Threads: threads}, objective: o, settings: s, state: state}
			if err := trainer.train(context.Background()); err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = state.params
			} else if !slices.Equal(first, state.params) {
				t.Errorf("%d threads change what Adam learns, by source: %v", threads, bySource)
			}
		}
	}
}

// TestAllPairsIsTheSampleOfEverything holds it against the judge's estimate from every pair.
func TestAllPairsIsTheSampleOfEverything(t *testing.T) {
	ctx := context.Background()
	w := must(world.New(ctx, world.Settings{Nodes: 120, Dim: 8, Fields: world.EvenFields(2),
		Scenario: world.Scenario{Seed: 3}}))(t)
	g := must(w.Linked(ctx))(t).Graph()
	nodes := model.NodesOf(g)
	j := &Judge{Predictor: engine.Predictor{Link: must(model.NewLink("mlp", nodes, model.LinkOptions{}))(t),
		Propensity: must(model.NewFieldMatrix(nodes))(t)}}
	j.LinkParams, j.PropensityParams = make([]float32, j.Link.Size()), make([]float32, j.Propensity.Size())
	j.Link.Start(j.LinkParams, rand.NewPCG(1, 2))
	j.Propensity.StartAt(j.PropensityParams, model.StartPropensity, nil)
	got := must(engine.CPU{}.AllPairs(ctx, g, j.Predictor, graph.Universe{}, 0))(t)
	pairs := must(graph.AllPairs(g, graph.Universe{}, 1<<20))(t)
	panel := must(j.Panel(ctx, sample.Evidence{Pairs: pairs}, 0, nil))(t).Risks
	for name, value := range map[string]float64{"naive": got.Naive, "w": got.W, "pu": got.PU, "ap": got.AP} {
		if want := panel[name].Plain; math.Abs(value-want) > 1e-6*math.Abs(want) {
			t.Errorf("%s is %v over all pairs, %v in the panel of all pairs", name, value, want)
		}
	}
}
