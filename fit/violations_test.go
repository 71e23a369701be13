package fit

import (
	"math"
	"slices"
	"testing"

	"unseen/graph"
	"unseen/world"
)

// Where exposure is not a matter of fields alone, a test refutes the model, nothing is called identified, and what is
// claimed holds. TestExposureIsLearned has the worlds whose exposure follows text or popularity.
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
		"dependence": {world.Violations{Dependence: .7}, []Suspicion{Dependent, WithinFields, BySimilarity}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, problem, _ := violated(t, test.violations, 20_000)
			r := mustFit(t, problem, Settings{Doctor: FullDoctor, Starts: []float64{.3}})
			checkClaims(t, r.Findings, must(w.Means(t.Context(), graph.Universe{}))(t), test.refuted)
			members := r.Findings.Set.Members
			at := slices.IndexFunc(members, func(m Member) bool { return m.Dependence })
			if got := members[at].Correlation; math.Abs(got-test.violations.Dependence) > .2 {
				t.Errorf("a correlation of %v is found as %v", test.violations.Dependence, got)
			}
		})
	}
}

// checkClaims holds what the doctor says against the truth, and that one of the suspicions is refuted; none where there
// are none.
func checkClaims(t *testing.T, f *Findings, truth world.TrueMeans, refuted []Suspicion) {
	t.Helper()
	found := slices.ContainsFunc(f.Tests, func(r Refutation) bool {
		return r.Refuted && (refuted == nil || slices.Contains(refuted, r.Of))
	})
	if found != (refuted != nil) || (f.Class == Identified) != (refuted == nil) {
		t.Errorf("%s, %+v", f.Class, f.Tests)
	}
	checkTruth(t, f.Set, truth)
}

// checkTruth holds what a set claims against the truth.
func checkTruth(t *testing.T, set *ClaimSet, truth world.TrueMeans) {
	t.Helper()
	if truth.Propensity < set.Propensity.Low || truth.Link > set.MeanLink.High {
		t.Errorf("mean π %v and y %v, claimed from %+v and up to %+v", truth.Propensity, truth.Link, set.Propensity,
			set.MeanLink)
	}
}

// A third of the pairs, those that surprise, say of every assumption about what all of them do, and nearly as surely.
func TestSurprisingPairsSayMost(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	_, p := obeyingProblem(t, 400, 33)
	settings := Settings{Doctor: FullDoctor, Starts: []float64{.3}, compared: p.Train.Len()}
	all := mustFit(t, p, settings).Findings
	settings.compared = p.Train.Len() / 3
	part := mustFit(t, p, settings).Findings
	if n := part.Set.Pairs; n < p.Train.Len()/4 || n > p.Train.Len()/2 {
		t.Errorf("%d of %d pairs", n, p.Train.Len())
	}
	for _, f := range []*Findings{all, part} {
		if slices.ContainsFunc(f.Tests, func(r Refutation) bool { return r.Refuted }) {
			t.Errorf("%+v", f.Tests)
		}
	}
	for i, m := range part.Set.Members[:4] { // of the logistic response
		whole := all.Set.Members[i]
		for name, x := range map[string][2]MemberValue{"π": {m.Propensity, whole.Propensity},
			"y": {m.MeanLink, whole.MeanLink}, "ratio": {*m.Ratio, *whole.Ratio}} {
			apart := math.Log(x[0].Value / x[1].Value)
			if math.Abs(apart) > 1.5*x[0].Error || x[0].Error > 1.5*x[1].Error {
				t.Errorf("%s: %s is %v ± %v by a third of the pairs, by all %v ± %v", m.Alternative, name, x[0].Value,
					x[0].Error, x[1].Value, x[1].Error)
			}
		}
	}
}

// The slopes by which the assumptions are tested are those of all pairs also where a part is compared by: what the
// method itself makes of links that obey is taken out of both, and is as large in a part.
func TestScoresOfPart(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	plan := world.SaturatedRare()
	plan.Seed = 34
	_, p := linkedProblem(t, world.Settings{Nodes: 1200, Dim: 64, Fields: world.EvenFields(8), Scenario: plan}, 20)
	settings := Settings{Doctor: FullDoctor, Starts: []float64{.3}, Replicates: 3, compared: p.Train.Len()}
	all := mustFit(t, p, settings).Findings.Tests
	settings.compared = p.Train.Len() * 3 / 4
	for i, r := range mustFit(t, p, settings).Findings.Tests {
		if se := r.Estimate / r.Z; !(math.Abs(r.Estimate-all[i].Estimate) < .1*se) {
			t.Errorf("%s: %v ± %v by three quarters of the pairs, by all %v", r.Of, r.Estimate, se, all[i].Estimate)
		}
	}
}
