package job

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"unseen/beam/shards"
	"unseen/evaluate"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/sample"
)

// newAged is a setup whose nodes have times, but for some.
func newAged(t testing.TB) setup {
	t.Helper()
	plain := newSetup(t, 300, 6).Graph
	var b graph.Builder
	for i := range int32(plain.Len()) {
		n := graph.Node{ID: plain.ID(i), Field: plain.FieldName(plain.Field(i))}
		if i%7 != 0 {
			n.Time = time.Date(1990, 1, int(i*37), 0, 0, 0, 0, time.UTC)
		}
		must(b.AddNode(n))(t)
	}
	for i, j := range plain.Links() {
		if err := b.AddLinkIndex(i, j); err != nil {
			t.Fatal(err)
		}
	}
	g, _, err := b.Build()
	g = must(must(g, err)(t).WithVectors(plain.Vectors()))(t)
	return setup{must(sample.Prepare(t.Context(), g, sample.Options{Origin: sample.Origin{Plan: sample.Plan{
		Split: sample.AtRandom, Later: true, Seed: 1, PerLink: 2}}, Threads: 1}))(t)}
}

// A certificate has the bits of one machine's, whatever the cut and the runner; of drawn nodes those of a graph of
// them.
func TestCertificateIsThatOfOneMachine(t *testing.T) {
	const seed = 5
	aged, sided := newAged(t), newSides(t)
	quick := fit.Settings{Method: "bayes", Link: "diagonal", Doctor: fit.QuickDoctor, Replicates: -1, Seed: 1}
	factors := fit.Settings{Method: "mle", Link: "factors", Ridge: .5, Seed: 1, Exposure: "fields+person+item",
		LBFGS: fit.LBFGSSettings{Iterations: 8}}
	market := newMarket(t, 130, 90, true)
	byAge := quick
	byAge.Exposure = "fields+age"
	for name, c := range map[string]struct {
		setup
		fit  fit.Settings
		most int
	}{
		"all nodes, by age":  {aged, byAge, 0},
		"some nodes, by age": {aged, byAge, 120},
		"people and items":   {sided, quick, 0},
		"some of each":       {sided, quick, 150},
		"factors":            {market, factors, 0},
		"factors of some":    {market, factors, 200},
	} {
		s := evaluate.CertificateSettings{Fit: c.fit, Pairs: 2000, Tests: 1000, Repeats: 1, Seed: seed,
			Weights: []float32{1, 2, 3, 4, 5, 6, 7, 8}[:c.Graph.Vectors().Dim()]}
		g, one := c.Graph, s
		if c.most > 0 {
			nodes := drawnNodes(g, c.most, seed)
			if ages := model.Ages(g); ages != nil {
				one.Ages = sample.Column(ages, nodes)
			}
			g = must(g.Induced(nodes))(t)
		}
		want := must(evaluate.Certify(t.Context(), g, one))(t)
		for _, cut := range []shards.CutSettings{{}, {Nodes: 70, Pairs: 500}, {Nodes: 23}} {
			cluster, _ := c.cut(t, cut)
			for runner, r := range runners() {
				cluster.Runner = r
				if got := must(cluster.Certify(t.Context(), s, c.most))(t); !reflect.DeepEqual(got, want) {
					t.Errorf("%s in blocks of %d on %s: %+v, one machine %+v", name, cut.Nodes, runner, got, want)
				}
			}
		}
	}
	cluster, _ := aged.cut(t, shards.CutSettings{})
	for _, most := range []int{-1, 1, MostPlanted + 1} {
		_, err := cluster.Certify(t.Context(), evaluate.CertificateSettings{}, most)
		if !errors.Is(err, fit.ErrSetting) {
			t.Errorf("a certificate by %d nodes: %v", most, err)
		}
	}
}

// drawnNodes draws as many nodes of every role that the graph has.
func drawnNodes(g *graph.Graph, most int, seed uint64) (drawn []int32) {
	byRole := map[graph.Role][]int32{}
	for i := range int32(g.Len()) {
		byRole[g.Role(i)] = append(byRole[g.Role(i)], i)
	}
	for _, nodes := range byRole {
		slices.SortFunc(nodes, func(a, b int32) int {
			return cmp.Compare(evaluate.DrawnBy(seed, a), evaluate.DrawnBy(seed, b))
		})
		drawn = append(drawn, nodes[:min(len(nodes), most/len(byRole))]...)
	}
	slices.Sort(drawn)
	return drawn
}
