package job

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"unseen/beam/shards"
	"unseen/engine"
	"unseen/evaluate"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/recommend"
)

// Over shards without vectors factors are learned, judged, ranked and recommended by as on one machine.
//
// Long because it follows one model through all that is done with it.
func TestShardsWithoutVectors(t *testing.T) {
	ctx := t.Context()
	s := newMarketOf(t, 240, 90, 0, false, nil)
	g := s.Graph
	cluster, m := s.cut(t, shards.CutSettings{Nodes: 77, Pairs: 900})
	defer cluster.Close(ctx)
	if files := must(filepath.Glob(cluster.Shards.Path("vectors-*")))(t); m.Dim != 0 || len(files) > 0 {
		t.Fatalf("dimension %d, files of vectors %v", m.Dim, files)
	}
	settings := factorSettings("mle")
	settings.Propensity, settings.LBFGS.Iterations = "field-matrix+person+item", 3
	one := must(fit.Fit(ctx, s.Problem, settings))(t)
	cluster.Runner.Threads = 2
	d := must(cluster.Descent(ctx, settings))(t)
	found := must(d.Run(ctx))(t)
	if want := slices.Concat(one.LinkParams, one.PropensityParams); !slices.Equal(found.Params, want) {
		t.Fatalf("parameters are off by %.2g", relative(found.Params, want))
	}
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := model.Save(path, must(one.Model())(t)); err != nil {
		t.Fatal(err)
	}
	fitted := must(cluster.OpenModel(ctx, path))(t)
	judge := one.Judge()
	want := must(engine.CPU{}.AllPairs(ctx, g, judge.Predictor, graph.Universe{}, .05))(t)
	got := must(cluster.AllPairs(ctx, nil, must(fit.JudgeOf(fitted))(t).Predictor, graph.Universe{}, .05))(t)
	if got.Pairs != want.Pairs || math.Abs(got.AP/want.AP-1) > 1e-6 {
		t.Errorf("%+v over all pairs, one machine %+v", got, want)
	}
	panel := must(judge.Panel(ctx, s.Test, 0, nil))(t).Risks
	held := must(cluster.HeldRisks(ctx, []engine.Predictor{judge.Predictor}, HeldSettings{Draws: 2}))(t)[0]
	if first := held.Risks[0]; math.Abs(first.Risk.Value/panel[first.Scheme].Plain-1) > 1e-9 {
		t.Errorf("%+v over held-out pairs, one machine %+v", first, panel)
	}
	some := must(cluster.Held(ctx, 100))(t)
	part := must(cluster.Part(ctx, fitted, some.Nodes))(t)
	e := must(evaluate.NewEvaluation(ctx, nil, part, some.Training(), evaluate.EvaluationSettings{}))(t)
	if auc := e.Observed.AUC; auc == nil || math.IsNaN(*auc) || *auc <= .5 {
		t.Errorf("AUC of drawn pairs: %v", auc)
	}
	standings := must(cluster.Standings(ctx, []model.Model{fitted}, StandingSettings{First: 5, Sources: 20}))(t)
	if len(standings.Models) == 0 {
		t.Error("nothing is ranked")
	}
	recommender := must(recommend.New(g, fitted, recommend.Options{}))(t)
	to := shards.Location{Root: filepath.Join(t.TempDir(), "lists")}
	lists := readLists(t, to, must(cluster.Recommend(ctx, fitted, to, ListSettings{K: 7, Part: 50}))(t))
	for _, row := range must(recommender.Batch(ctx, g.Sources(), recommend.Query{K: 7}))(t) {
		var names []string
		for _, j := range row.Targets {
			names = append(names, g.ID(j))
		}
		if len(names) == 0 || !slices.Equal(lists[g.ID(row.Source)], names) {
			t.Fatalf("%s is given %v, by one machine %v", g.ID(row.Source), lists[g.ID(row.Source)], names)
		}
	}
}

// What compares vectors says that there are none, and what to do.
func TestWhatNeedsVectorsSaysSo(t *testing.T) {
	ctx := t.Context()
	cluster, m := newMarketOf(t, 120, 50, 0, false, nil).cut(t, shards.CutSettings{Nodes: 60})
	with := newMarket(t, 120, 50, true)
	settings := factorSettings("naive")
	settings.Link = "diagonal"
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := model.Save(path, must(must(fit.Fit(ctx, with.Problem, settings))(t).Model())(t)); err != nil {
		t.Fatal(err)
	}
	errs := map[string]error{}
	_, errs["bayes"] = fit.FitPopulation(ctx, cluster.Population(0), fit.Settings{Method: "bayes", Seed: 1})
	_, errs["diagonal"] = cluster.Descent(ctx, settings)
	_, errs["a model"] = cluster.OpenModel(ctx, path)
	for name, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "no vectors, as the link model diagonal needs; learn factors") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := cluster.MakeIndexes(ctx, IndexSettings{Fewest: 1}); err == nil ||
		!strings.Contains(err.Error(), "no vectors, of which indexes are made") {
		t.Errorf("indexes: %v", err)
	}
	shape := must(m.Shape())(t)
	exposure := must(model.NewPropensity("constant", shape, model.PropensityOptions{}))(t)
	if _, err := cluster.scanPlan(engine.Scan{Versions: []engine.Predictor{{Propensity: exposure,
		PropensityParams: []float32{0}}}}); err == nil || !strings.Contains(err.Error(), "without vectors") {
		t.Errorf("exposure alone: %v", err)
	}
	described, _ := with.cut(t, shards.CutSettings{Nodes: 60})
	for root, change := range map[string][2]string{
		cluster.Shards.Root:   {`"dim": 0`, `"dim": 6`},
		described.Shards.Root: {`"dim": 6`, `"dim": 0`},
	} {
		file := filepath.Join(root, shards.ManifestFile)
		text := strings.Replace(string(must(os.ReadFile(file))(t)), change[0], change[1], 1)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := (shards.Location{Root: root}).Manifest(ctx); err == nil ||
			!strings.Contains(err.Error(), "make the shards again") {
			t.Errorf("%s for %s gives %v", change[1], change[0], err)
		}
	}
}
