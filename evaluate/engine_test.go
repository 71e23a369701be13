package evaluate

import (
	"context"
	"testing"

	"unseen/engine"
	"unseen/fit"
	"unseen/graph"
	"unseen/internal/enginetest"
	"unseen/model"
	"unseen/world"
)

// What is heavy goes through the engine, whatever it is; where that fails there is an error, and not half a result.
func TestEveryEvaluationRunsOnAnyEngine(t *testing.T) {
	g, drawn, models := linkedWorld(t)
	propensity := must(model.NewFieldMatrix(model.NodesOf(g)))(t)
	for k := range models {
		models[k].Propensity, models[k].PropensityParams = propensity, make([]float32, propensity.Size())
	}
	slow := models[0]
	slow.Link = must(model.NewLink("mlp", model.NodesOf(g), model.LinkOptions{}))(t)
	slow.LinkParams = make([]float32, slow.Link.Size())
	held := must(NewCandidates(drawn, graph.Test))(t)
	log := []LoggedList{{Source: 3, Items: []LoggedItem{{Target: 1, Probability: .5, Wanted: true}}},
		{Source: 5, Items: []LoggedItem{{Target: 2, Probability: .25}}}}
	rank := func(m model.Model) func(ctx context.Context, e engine.Engine) (any, error) {
		return func(ctx context.Context, e engine.Engine) (any, error) {
			judge := must(fit.JudgeOf(m))(t)
			judge.Engine = e
			return held.Rank(ctx, judge, RankSettings{By: []By{ByRelevance, BySeen}, Threads: 2})
		}
	}
	for name, c := range map[string]struct {
		calls []string
		work  func(ctx context.Context, e engine.Engine) (any, error)
	}{
		"ranks":                 {[]string{"Scan", "TopK"}, rank(models[0])},
		"ranks by a deep model": {[]string{"Scan"}, rank(slow)},
		"fairness": {[]string{"Scan"}, func(ctx context.Context, e engine.Engine) (any, error) {
			return FairnessOf(ctx, g, models, FairnessSettings{Held: held, Draws: 100, Threads: 2, Engine: e})
		}},
		"log": {[]string{"Scan"}, func(ctx context.Context, e engine.Engine) (any, error) {
			return FromLog(ctx, g, models[0], log, LogSettings{Threads: 2, Engine: e})
		}},
		"evaluation": {[]string{"AllPairs", "Scan", "TopK"}, func(ctx context.Context, e engine.Engine) (any, error) {
			return NewEvaluation(ctx, g, models[0], drawn.Test, EvaluationSettings{
				Panel: PanelSettings{Graph: g, Threads: 2}, Others: models[1:], Names: []string{"other"},
				Candidates: held, Fairness: FairnessSettings{Held: held, Draws: 100}, Engine: e})
		}},
		"certificate": {[]string{"Gradient", "Minibatch", "Scan"}, func(ctx context.Context, e engine.Engine) (any,
			error) {
			return Certify(ctx, g, CertificateSettings{Repeats: 1, Plan: world.Saturated(), Fit: fit.Settings{
				Method: "mle", Engine: e, Starts: []float64{.5}, Adam: fit.AdamSettings{Epochs: 1}}})
		}},
	} {
		t.Run(name, func(t *testing.T) { enginetest.Check(t, c.calls, c.work) })
	}
}
