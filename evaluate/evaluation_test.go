package evaluate

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"unseen/fit"
	"unseen/graph"
	"unseen/internal/racetest"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// An evaluation is the panel and the marks of the same pairs; another model is judged by the first one's exposure.
func TestEvaluation(t *testing.T) {
	w, j, test := planted(t)
	m := model.Model{Link: j.Link, LinkParams: j.LinkParams, Propensity: j.Propensity,
		PropensityParams: j.PropensityParams, Method: "truth", Findings: []byte(`{"class":"not identified"}`)}
	worse := m
	worse.Method, worse.LinkParams = "worse", slices.Clone(m.LinkParams)
	worse.LinkParams[0] += 3
	v := sample.Evidence{Pairs: test.Pairs}
	e := must(NewEvaluation(t.Context(), w.Graph(), m, v, EvaluationSettings{Others: []model.Model{worse},
		Names: []string{"worse"}}))(t)
	panel := must(NewPanel(t.Context(), j, v, PanelSettings{}))(t)
	for k, row := range e.Panel.Risks {
		if row.Risk != panel.Risks[k].Risk {
			t.Errorf("%s: %+v, by the panel %+v", row.Scheme, row.Risk, panel.Risks[k].Risk)
		}
		// the truth's R_AP is lower than any other model's, judged by the truth
		if other := e.Others[0].Panel.Risks[k]; row.Scheme == "ap" && other.Risk.Plain <= row.Risk.Plain {
			t.Errorf("R_AP of the truth is %v, of another model %v", row.Risk.Plain, other.Risk.Plain)
		} else if row.Against != nil || other.Against == nil ||
			math.Abs(other.Against.Plain-(other.Risk.Plain-row.Risk.Plain)) > 1e-9 {
			t.Errorf("%s: they differ by %+v, not by %v", row.Scheme, other.Against, other.Risk.Plain-row.Risk.Plain)
		}
	}
	s := Scored{Linked: test.Pairs.Linked, Weights: test.Pairs.Weight}
	for k := range test.Truth {
		s.Scores = append(s.Scores, test.Logits[k])
	}
	if want := must(s.AUC())(t); e.Observed.AUC == nil || math.Abs(*e.Observed.AUC-want) > 1e-5 {
		t.Errorf("AUC is %v, want %v", e.Observed.AUC, want)
	}
	if *e.Observed.AUCSeen <= *e.Observed.AUC {
		t.Errorf("what is seen is predicted by π̂ŷ: AUC %v, by ŷ %v", *e.Observed.AUCSeen, *e.Observed.AUC)
	}
	// π·y is the probability of what is seen
	for i, x := range e.Observed.Calibration.X {
		if y := e.Observed.Calibration.Y[i]; math.Abs(x-y) > .1 {
			t.Errorf("of pairs seen with probability %.3f, %.3f are", x, y)
		}
	}
	if e.Class != fit.NotIdentified || len(e.Warnings) == 0 || e.Kind != EvaluationKind || e.Links == 0 {
		t.Errorf("got %+v", e)
	}
	if n := len(e.Observed.ROC.X); n < 10 || n > 250 {
		t.Errorf("the curve has %d points", n)
	}
}

// Numbers that look surer or rounder than they are come with a warning.
func TestEvaluationWarns(t *testing.T) {
	racetest.Skip(t, "TestEvaluation has the same goroutines")
	w, j, test := planted(t)
	m := model.Model{Link: j.Link, LinkParams: j.LinkParams, Propensity: j.Propensity,
		PropensityParams: j.PropensityParams, Method: "mle", Findings: []byte(`{"class":"identified"}`)}
	v := sample.Evidence{Pairs: test.Pairs}
	says := func(m model.Model, s EvaluationSettings, what string) bool {
		e := must(NewEvaluation(t.Context(), w.Graph(), m, v, s))(t)
		return slices.ContainsFunc(e.Warnings, func(warning string) bool { return strings.Contains(warning, what) })
	}
	if !says(m, EvaluationSettings{}, "method mle does not estimate how certain") {
		t.Error("a model without a posterior has intervals, and nothing is said")
	}
	if says(m, EvaluationSettings{}, "intervals do not overlap") ||
		says(m, EvaluationSettings{Panel: PanelSettings{Floor: .01}}, "have a π̂ below") {
		t.Error("the truth is warned of")
	}
	wrong := m
	wrong.PropensityParams = slices.Clone(m.PropensityParams)
	for k := range wrong.PropensityParams {
		wrong.PropensityParams[k] -= 3
	}
	if !says(wrong, EvaluationSettings{}, "R_AP and R_w, R_PU estimate the same risk") {
		t.Error("π̂ is far too small, and nothing is said")
	}
	flipped := m // sure and wrong
	flipped.LinkParams = slices.Clone(m.LinkParams)
	for k := range flipped.LinkParams {
		flipped.LinkParams[k] *= -1
	}
	if !says(flipped, EvaluationSettings{Others: []model.Model{m}, Names: []string{"the truth"}},
		"R_AP and R_PU clearly disagree on which of mle and the truth") {
		t.Error("a model that is wrong and sure prefers itself, and nothing is said")
	}
	if says(m, EvaluationSettings{Others: []model.Model{flipped}, Names: []string{"flipped"}},
		"clearly disagree") {
		t.Error("all prefer the truth, and yet there is a warning")
	}
	if !says(wrong, EvaluationSettings{Panel: PanelSettings{Floor: .4}},
		"of the held-out pairs have a π̂ below the floor 0.4") {
		t.Error("π̂ is below the floor, and nothing is said")
	}
	means := m
	means.Findings = []byte(`{"class":"not identified","meanLink":{"value":0.995}}`)
	if !says(means, EvaluationSettings{}, "The model collapsed: ") || says(m, EvaluationSettings{}, "collapsed") {
		t.Error("a model that collapsed is not told from others")
	}
}

func TestEvaluationRefuses(t *testing.T) {
	w, j, test := planted(t)
	m := model.Model{Link: j.Link, LinkParams: j.LinkParams, Propensity: j.Propensity,
		PropensityParams: j.PropensityParams}
	if _, err := NewEvaluation(t.Context(), w.Graph(), m, sample.Evidence{}, EvaluationSettings{}); !errors.Is(err,
		ErrEmpty) {
		t.Errorf("no pairs: %v", err)
	}
	v := sample.Evidence{Pairs: test.Pairs}
	one := v.At(sample.Indices(v.Pairs.Len(), func(k int) bool { return v.Pairs.Source[k] == v.Pairs.Source[0] }))
	if _, err := NewEvaluation(t.Context(), w.Graph(), m, one, EvaluationSettings{}); !errors.Is(err,
		risk.ErrClusters) || !strings.Contains(err.Error(), "intervals need those of at least two") {
		t.Errorf("pairs of one source: %v", err)
	}
	if _, err := NewEvaluation(t.Context(), w.Graph(), m, v, EvaluationSettings{Others: []model.Model{m}}); err == nil {
		t.Error("a model without a name")
	}
	for _, damage := range []func(*model.Model){
		func(m *model.Model) { m.Findings = []byte("{") },
		func(m *model.Model) { m.Certificate = []byte("[]") },
		func(m *model.Model) { m.LinkParams = slices.Repeat([]float32{float32(math.NaN())}, len(m.LinkParams)) },
	} {
		bad := m
		damage(&bad)
		if _, err := NewEvaluation(t.Context(), w.Graph(), bad, v, EvaluationSettings{}); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// Ranks are those of the candidates, and the difference is against the first model by ŷ.
func TestEvaluationRanks(t *testing.T) {
	g, drawn, models := linkedWorld(t)
	for at := range models {
		field := must(model.NewFieldMatrix(model.NodesOf(g)))(t)
		models[at].Propensity, models[at].PropensityParams = field, make([]float32, field.Size())
		for k := range models[at].PropensityParams {
			models[at].PropensityParams[k] = float32(k%5) - 3
		}
	}
	c := must(NewCandidates(drawn, graph.Test))(t)
	e := must(NewEvaluation(t.Context(), g, models[0], drawn.Test,
		EvaluationSettings{Others: models[1:], Names: []string{"other"}, Candidates: c, First: 5}))(t)
	flat := models[0]
	flat.LinkParams = make([]float32, len(flat.LinkParams))
	for at, m := range []model.Model{models[0], flat} {
		e := must(NewEvaluation(t.Context(), g, m, drawn.Test, EvaluationSettings{Candidates: c}))(t)
		if said := slices.ContainsFunc(e.Warnings, func(warning string) bool {
			return strings.HasPrefix(warning, "ŷ is the same for all held-out pairs")
		}); said != (at == 1) {
			t.Errorf("model %d has AUC %v, and the warnings are %q", at, *e.Observed.AUC, e.Warnings)
		}
	}
	for at, all := range [][]Ranks{e.Ranks, e.Others[0].Ranks} {
		judge := must(fit.JudgeOf(models[at]))(t)
		standings := must(c.Rank(t.Context(), judge, RankSettings{By: []By{ByRelevance, BySeen}, First: 5}))(t)
		if len(all) != 2 {
			t.Fatalf("%d ranks", len(all))
		}
		for i, r := range all {
			for name, mark := range map[string]struct {
				got *float64
				of  func(Ranking, int) (float64, error)
			}{"NDCG": {r.NDCG, Ranking.NDCG}, "precision": {r.Precision, Ranking.Precision},
				"hit rate": {r.HitRate, Ranking.HitRate}} {
				if want := must(mark.of(standings[i].Ranking, 5))(t); math.Abs(*mark.got-want) > 1e-12 {
					t.Errorf("%s is %v, not %v", name, *mark.got, want)
				}
			}
			if want := must(standings[i].Ranking.Recall(5))(t); math.Abs(*r.Recall-want) > 1e-12 ||
				r.By != standings[i].By || r.K != 5 || r.Sources != len(c.Sources()) {
				t.Errorf("%+v, want recall %v", r, want)
			}
			if (r.Against == nil) != (at == 0 && i == 0) {
				t.Errorf("the difference of %v is %v", r.By, r.Against)
			} else if r.Against != nil && math.Abs(r.Against.Mean-(*r.Recall-*e.Ranks[0].Recall)) > 1e-12 {
				t.Errorf("it is %v less %v, not %v", *r.Recall, *e.Ranks[0].Recall, r.Against.Mean)
			}
		}
	}
}
