package job

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"unseen/beam/shards"
	"unseen/engine"
	"unseen/fit"
	"unseen/graph"
	"unseen/recommend"
	"unseen/sample"
)

// newSides is a setup whose nodes are people, items, and some of both, with links held out at random.
func newSides(t testing.TB) setup {
	t.Helper()
	plain := newSetup(t, 300, 8).Graph
	var b graph.Builder
	for i := range int32(plain.Len()) {
		role := graph.SourceAndTarget
		if i < 180 {
			role = []graph.Role{graph.SourceOnly, graph.TargetOnly}[i%2]
		}
		must(b.AddNode(graph.Node{ID: plain.ID(i), Field: plain.FieldName(plain.Field(i)), Role: role}))(t)
	}
	for i, j := range plain.Links() {
		_ = b.AddLinkIndex(i, j) // an error where the roles do not allow it
	}
	g, _, err := b.Build()
	g = must(must(g, err)(t).WithVectors(plain.Vectors()))(t)
	return setup{must(sample.Prepare(t.Context(), g, sample.Options{Origin: sample.Origin{Plan: sample.Plan{
		Split: sample.RandomLinks, PerLink: 2}}}))(t)}
}

// People and items on shards: sums are over their pairs, and people are given items, as on one machine.
func TestTwoSidesAreThoseOfOneMachine(t *testing.T) {
	ctx := context.Background()
	s := newSides(t)
	g := s.Graph
	settings := settingsFor("mle")
	others := must(fit.Fit(ctx, newMarket(t, 40, 20, false).Problem, factorSettings("mle")))(t).Judge()
	settings.Link = "diagonal"
	r := must(fit.Fit(ctx, s.Problem, settings))(t)
	m, judge := must(r.Model())(t), r.Judge()
	want := must(engine.CPU{}.AllPairs(ctx, g, judge.Predictor, graph.Universe{}, .05))(t)
	rows := must(must(recommend.New(g, m, recommend.Options{}))(t).Batch(ctx, g.Sources(), recommend.Query{K: 7}))(t)
	for _, cut := range []shards.CutSettings{{}, {Nodes: 77}} {
		cluster, manifest := s.cut(t, cut)
		if manifest.PairCount() != g.PairCount() {
			t.Errorf("%d pairs of %d", manifest.PairCount(), g.PairCount())
		}
		cluster.Runner = runners()["prism"]
		if _, err := cluster.AllPairs(ctx, nil, others.Predictor, graph.Universe{}, .05); !errors.Is(err,
			engine.ErrUnsupported) {
			t.Errorf("factors of other nodes on a cluster: %v", err)
		}
		got := must(cluster.AllPairs(ctx, nil, judge.Predictor, graph.Universe{}, .05))(t)
		if got.Pairs != want.Pairs || math.Abs(got.AP-want.AP) > 1e-6*want.AP ||
			math.Abs(got.MeanLink-want.MeanLink) > 1e-6*want.MeanLink {
			t.Errorf("blocks of %d: %+v, one machine %+v", cut.Nodes, got, want)
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
				t.Fatalf("blocks of %d: %s is given %v, by one machine %v", cut.Nodes, g.ID(row.Source),
					lists[g.ID(row.Source)], names)
			}
		}
	}
}
