package fit

import (
	"slices"
	"testing"

	"unseen/graph"
	"unseen/model"
	"unseen/sample"
	"unseen/world"
)

// Where exposure is not a matter of fields alone, a test refutes the model, nothing is called identified, and what is
// claimed holds.
func TestViolationsAreFound(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	for name, test := range map[string]struct {
		violations world.Violations
		refuted    []Suspicion // at least one of them
	}{
		"nothing":    {},
		"text":       {world.Violations{Text: .6}, []Suspicion{BySimilarity}},
		"popularity": {world.Violations{Popularity: 1.2}, []Suspicion{ByPopularity}},
		"dependence": {world.Violations{Dependence: .7}, []Suspicion{Dependent, WithinFields, BySimilarity}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := world.Saturated()
			plan.Seed, plan.Violations = 21, test.violations
			w := must(world.New(t.Context(), world.Settings{Nodes: 900, Dim: 8, Fields: world.EvenFields(4),
				Scenario: plan}))(t)
			train := must(w.Pairs(t.Context(), 40_000, world.Draw{}))(t)
			f := mustFit(t, sample.Problem{Nodes: model.NodesOf(w.Graph()), Train: train.Pairs},
				Settings{Doctor: FullDoctor, Starts: []float64{.3}}).Findings
			truth := must(w.Means(t.Context(), graph.Universe{}))(t)
			found := slices.ContainsFunc(f.Tests, func(r Refutation) bool {
				return r.Refuted && (test.refuted == nil || slices.Contains(test.refuted, r.Of))
			})
			if found != (test.refuted != nil) || (f.Class == Identified) != (test.refuted == nil) {
				t.Errorf("%s, %+v", f.Class, f.Tests)
			}
			if set := f.Set; truth.Propensity < set.Propensity.Low || truth.Link > set.MeanLink.High {
				t.Errorf("mean π %v and y %v, claimed from %+v and up to %+v", truth.Propensity, truth.Link,
					set.Propensity, set.MeanLink)
			}
		})
	}
}
