package job

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"unseen/beam/shards"
	"unseen/engine"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/recommend"
	"unseen/sample"
)

// newMarket is people and items with vectors, who link to items of their own kind; some nodes are both. Without texts
// all vectors are 0.
func newMarket(t testing.TB, people, items int, texts bool) setup {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, uint64(people)))
	var b graph.Builder
	const dim = 6
	nodes := people + items
	vectors := must(graph.NewVectors(nodes, dim))(t)
	for i := range nodes {
		role := graph.SourceOnly
		switch {
		case i%17 == 5:
			role = graph.SourceAndTarget
		case i >= people:
			role = graph.TargetOnly
		}
		must(b.AddNode(graph.Node{ID: "n" + strings.Repeat("x", i%3) + string(rune('a'+i%26)) + itoa(i),
			Field: []string{"north", "south", "east"}[i%3], Role: role}))(t)
		row := make([]float32, dim)
		if texts {
			for k := range row {
				row[k] = float32(.2 * rng.NormFloat64())
			}
			row[i%4] += 1
		}
		if err := vectors.Set(int32(i), row); err != nil {
			t.Fatal(err)
		}
	}
	for i := range people {
		for range 12 {
			if j := people + rng.IntN(items); rng.IntN(5) == 0 || i%4 == j%4 {
				_ = b.AddLinkIndex(int32(i), int32(j)) // an error where it is there already
			}
		}
	}
	g, _, err := b.Build()
	g = must(must(g, err)(t).WithVectors(vectors))(t)
	return setup{must(sample.Prepare(t.Context(), g, sample.Options{Origin: sample.Origin{Plan: sample.Plan{
		Split: sample.RandomLinks, PerLink: 2, Seed: 4}}}))(t)}
}

func itoa(i int) string {
	return string([]byte{byte('0' + i/1000%10), byte('0' + i/100%10), byte('0' + i/10%10), byte('0' + i%10)})
}

func factorSettings(method string) fit.Settings {
	return fit.Settings{Method: method, Link: "factors", Ridge: .5, Seed: 2}
}

// Factors over shards are those of one machine, bit for bit, however the nodes are cut, by one thread or several, and
// where a task has some of a block's rows only.
func TestFactorsAreThoseOfOneMachine(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name, method, propensity string
		texts                    bool
	}{{"ids alone", "mle", "", false}, {"texts", "mle", "", true}, {"naive", "naive", "", true},
		{"effects of exposure", "mle", "field-matrix+person+item", true}, {"with a risk", "ap", "", false}} {
		s := newMarket(t, 240, 90, c.texts)
		settings := factorSettings(c.method)
		settings.Propensity = c.propensity
		whole := must(fit.Fit(ctx, s.Problem, settings))(t)
		want := slices.Concat(whole.LinkParams, whole.PropensityParams)
		for _, cut := range []struct {
			shards.CutSettings
			threads, most int
		}{{shards.CutSettings{}, 1, 0}, {shards.CutSettings{Nodes: 100, Pairs: 700}, 3, 0},
			{shards.CutSettings{Nodes: 37}, 1, 90}} {
			cluster, _ := s.cut(t, cut.CutSettings)
			for name, runner := range runners() {
				runner.Threads = cut.threads
				cluster.Runner, cluster.mostPairs = runner, cut.most
				got := must(must(cluster.Factors(ctx, settings))(t).Run(ctx))(t)
				if got.Iterations != whole.Iterations || !slices.Equal(got.Params, want) {
					t.Errorf("%s, %s, blocks of %d: %d rounds, parameters off by %.2g; one machine %d rounds", c.name, name,
						cut.Nodes, got.Iterations, relative(got.Params, want), whole.Iterations)
				}
				if len(got.Warnings) > 0 {
					t.Errorf("%s: %v", c.name, got.Warnings)
				}
			}
		}
	}
}

// Models of factors are evaluated and recommend over shards as on one machine, where workers have the rows of some
// nodes only.
func TestModelsOfFactorsAreThoseOfOneMachine(t *testing.T) {
	ctx := context.Background()
	for _, propensity := range []string{"", "field-matrix+person+item"} {
		s := newMarket(t, 240, 90, true)
		g := s.Graph
		settings := factorSettings("mle")
		settings.Propensity, settings.LBFGS.Iterations = propensity, 4
		r := must(fit.Fit(ctx, s.Problem, settings))(t)
		m, judge := must(r.Model())(t), r.Judge()
		want := must(engine.CPU{}.AllPairs(ctx, g, judge.Predictor, graph.Universe{}, .05))(t)
		panel := must(judge.Panel(ctx, s.Test, 0, nil))(t).Risks
		rows := must(must(recommend.New(g, m, recommend.Options{}))(t).Batch(ctx, g.Sources(), recommend.Query{K: 7}))(t)
		cluster, _ := s.cut(t, shards.CutSettings{Nodes: 77})
		defer cluster.Close(ctx)
		got := must(cluster.AllPairs(ctx, nil, judge.Predictor, graph.Universe{}, .05))(t)
		if got.Pairs != want.Pairs || math.Abs(got.AP/want.AP-1) > 1e-6 || math.Abs(got.MeanLink/want.MeanLink-1) > 1e-6 ||
			math.Abs(got.MeanPropensity/want.MeanPropensity-1) > 1e-6 {
			t.Errorf("%q: %+v over all pairs, one machine %+v", propensity, got, want)
		}
		held := must(cluster.Judge(ctx, judge.Predictor))(t)
		if math.Abs(held.AP/panel["ap"].Plain-1) > 1e-9 || math.Abs(held.Naive/panel["naive"].Plain-1) > 1e-9 {
			t.Errorf("%q: %+v over held-out pairs, one machine %+v", propensity, held, panel)
		}
		some := must(cluster.Held(ctx, 100))(t)
		part := must(cluster.Part(ctx, m, some.Nodes))(t)
		for k, i := range some.Train.Source {
			j := some.Train.Target[k]
			var here, there [2]float32
			batch := model.Batch{Sources: []int32{i}, Targets: []int32{j}}
			engine.Predictor{Link: part.Link, LinkParams: part.LinkParams, Propensity: part.Propensity,
				PropensityParams: part.PropensityParams}.Logits(here[:1], here[1:], batch)
			batch = model.Batch{Sources: []int32{some.Nodes.Numbers[i]}, Targets: []int32{some.Nodes.Numbers[j]}}
			judge.Predictor.Logits(there[:1], there[1:], batch)
			if here != there {
				t.Fatalf("%q: pair %d has the logits %v, on one machine %v", propensity, k, here, there)
			}
		}
		to := shards.Location{Root: filepath.Join(t.TempDir(), "lists")}
		lists := readLists(t, to, must(cluster.Recommend(ctx, m, to, ListSettings{K: 7, Part: 50}))(t))
		if len(lists) != len(g.Sources()) {
			t.Errorf("%d lists for %d sources", len(lists), len(g.Sources()))
		}
		for _, row := range rows {
			var names []string
			for _, j := range row.Targets {
				names = append(names, g.ID(j))
			}
			if !slices.Equal(lists[g.ID(row.Source)], names) {
				t.Fatalf("%q: %s is given %v, by one machine %v", propensity, g.ID(row.Source), lists[g.ID(row.Source)],
					names)
			}
		}
	}
}
