package job

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"unseen/beam/shards"
	"unseen/fit"
	"unseen/graph"
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
