package job

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"unseen/beam/shards"
	"unseen/evaluate"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/recommend"
	"unseen/sample"
)

// Links have the ranks that one machine finds, and lists are the same, whatever the split, the cut and the runner.
func TestRanksAreThoseOfOneMachine(t *testing.T) {
	whole := newSetup(t, 300, 6)
	for name, plan := range map[string]sample.Plan{
		"nodes at random": {Split: sample.AtRandom, Later: true, Seed: 1},
		"by order":        {Split: sample.ByOrder},
		"links":           {Split: sample.RandomLinks, Later: true, Seed: 2},
	} {
		prepared := must(sample.Prepare(t.Context(), whole.Graph, sample.Options{
			Origin: sample.Origin{Plan: plan}, Threads: 1}))(t)
		compareRanks(t, name, setup{prepared}, []shards.CutSettings{{}, {Nodes: 70, Pairs: 500}})
	}
	sided := newSides(t)
	compareRanks(t, "people and items", sided, []shards.CutSettings{{Nodes: 50, Pairs: 300}})
}

func compareRanks(t *testing.T, name string, s setup, cuts []shards.CutSettings) {
	t.Helper()
	const first, sources, seed = 7, 20, 3
	ctx, nodes := t.Context(), s.Problem.Nodes
	kinds := [][2]string{{"diagonal", "field-matrix"}, {"diagonal", "field-matrix+text+popularity"}}
	var want [][]evaluate.Standing
	held := must(evaluate.NewCandidates(s.Prepared, graph.Test))(t)
	some := must(held.Some(sources, seed))(t)
	if len(some.Sources()) == held.Of() {
		t.Fatalf("%s: all %d sources are drawn", name, held.Of())
	}
	evaluation := &evaluate.Evaluation{Others: make([]evaluate.Other, len(kinds)-1)}
	for k, kind := range kinds {
		judge := &fit.Judge{Predictor: predictorOf(randomModel(t, nodes, kind[0], kind[1], uint64(k+1)))}
		want = append(want, must(some.Rank(ctx, judge, evaluate.RankSettings{By: evaluate.RankedBy(),
			First: first}))(t))
	}
	own := []uint16{}
	for _, i := range some.Sources() {
		own = append(own, s.Graph.Field(i))
	}
	if err := evaluation.SetRanks(want, s.Graph.Fields(), own, first); err != nil {
		t.Fatal(err)
	}
	for _, cut := range cuts {
		cluster, m := s.cut(t, cut)
		var models []model.Model
		for k, kind := range kinds {
			models = append(models, randomModel(t, must(m.Shape())(t), kind[0], kind[1], uint64(k+1)))
		}
		for runner, r := range runners() {
			cluster.Runner = r
			got := must(cluster.Standings(ctx, models, StandingSettings{First: first, Sources: sources, Seed: seed}))(t)
			if !slices.Equal(got.Sources, some.Sources()) {
				t.Fatalf("%s on %s: sources %v, one machine %v", name, runner, got.Sources, some.Sources())
			}
			for k := range want {
				for by := range want[k] {
					compareStanding(t, name, got.Models[k][by], want[k][by])
				}
			}
			sums := &evaluate.Evaluation{Others: make([]evaluate.Other, len(kinds)-1)}
			if err := sums.SetRanks(got.Models, got.Fields, got.Own, first); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(sums, evaluation) {
				t.Errorf("%s on %s: %+v, one machine %+v", name, runner, sums.Ranks, evaluation.Ranks)
			}
		}
	}
}

func compareStanding(t *testing.T, name string, got, want evaluate.Standing) {
	t.Helper()
	for place := range want.Ranking {
		if a, b := got.Ranking[place].Ranks(), want.Ranking[place].Ranks(); !slices.Equal(a, b) {
			t.Errorf("%s by %s: source %d has the ranks %v, one machine %v", name, want.By, place, a, b)
		}
		if a, b := len(got.Lists[place]), len(want.Lists[place]); a != b {
			t.Errorf("%s by %s: the list of source %d has %d, one machine %d", name, want.By, place, a, b)
		}
	}
}

// What cannot be ranked is refused by name.
func TestStandingsRefuse(t *testing.T) {
	prepared := must(sample.Prepare(t.Context(), newSetup(t, 100, 4).Graph, sample.Options{
		Origin: sample.Origin{Plan: sample.Plan{Split: sample.ByOrder}}, Threads: 1}))(t)
	cluster, m := setup{prepared}.cut(t, shards.CutSettings{})
	shape := must(m.Shape())(t)
	own := randomModel(t, shape, "diagonal", "constant", 1)
	refuse := func(what string, by model.Model, s StandingSettings, want error) {
		t.Helper()
		if _, err := cluster.Standings(t.Context(), []model.Model{by}, s); !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refuse("a cosine", randomModel(t, shape, "cosine", "constant", 1), StandingSettings{}, recommend.ErrModel)
	refuse("too many sources", own, StandingSettings{Sources: MostRanked + 1}, fit.ErrSetting)
	refuse("too long lists", own, StandingSettings{First: recommend.MaxK + 1}, fit.ErrSetting)
	cluster.Manifest.Columns = []string{shards.PopularityColumn}
	refuse("no order", own, StandingSettings{}, shards.ErrContent)
	cluster.Manifest.Test = nil
	refuse("nothing held out", own, StandingSettings{}, fit.ErrData)
}
