package evaluate

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"unseen/engine"
	"unseen/fit"
	"unseen/internal/kern"
	"unseen/internal/racetest"
	"unseen/model"
	"unseen/sample"
	"unseen/world"
)

// claiming returns findings whose set has the evaluating model's own claims and those of one more assumption.
func claiming(t *testing.T, oneSided bool, own, other [3]float64) json.RawMessage {
	t.Helper()
	member := func(a fit.Alternative, x [3]float64) fit.Member {
		about := func(v float64) fit.MemberValue { return fit.MemberValue{Value: v, Lower: .99 * v, Upper: 1.01 * v} }
		return fit.Member{Alternative: a, Stays: true, MeanLink: about(x[0]), Propensity: about(x[1]),
			Risk: about(x[2])}
	}
	set := &fit.ClaimSet{OneSided: oneSided, Members: []fit.Member{member(fit.Alternative{}, own),
		member(fit.Alternative{Text: true}, other)}}
	return must(json.Marshal(fit.Findings{Class: fit.Weak, Set: set}))(t)
}

// A model is called better only if it is under every assumption of the set, and never if the set is missing.
func TestDecision(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEvaluation has the same goroutines")
	w, j, test := planted(t)
	v := sample.Evidence{Pairs: test.Pairs}
	truth := model.Model{Link: j.Link, LinkParams: j.LinkParams, Propensity: j.Propensity,
		PropensityParams: j.PropensityParams, Method: "bayes"}
	moved := func(by float64, times float32) model.Model {
		m := truth
		m.Method, m.LinkParams = "other", slices.Clone(truth.LinkParams)
		for k := range m.LinkParams {
			m.LinkParams[k] *= times
		}
		m.LinkParams[len(m.LinkParams)-1] += float32(by)
		return m
	}
	// own claims: what the model says of these pairs
	points := must(judgePoints(t.Context(), j, v, &fit.ClaimSet{Members: []fit.Member{{}}}, nil, PanelSettings{}))(t)
	own := [3]float64{.16, .3, points[0].risks["ap"][0]}
	rarer := [3]float64{.08, .6, .7 * own[2]} // half as much is relevant, and twice as much was shown
	lower, wrong := moved(-1.2, 1), moved(0, -1)
	agree, turn := claiming(t, false, own, own), claiming(t, false, own, rarer)
	for name, c := range map[string]struct {
		findings json.RawMessage
		other    model.Model
		want     Preference
		summary  string
	}{
		"the set agrees": {agree, lower, PreferOwn, "under every assumption the links allow"},
		"the sign turns inside the set": {turn, lower, Depends,
			"if exposure were as high as 59.4% on average (exposure by fields + text), the sign turns"},
		"a clear difference":             {turn, wrong, PreferOwn, "under every assumption the links allow"},
		"a clear difference, links only": {claiming(t, true, own, rarer), wrong, PreferOwn, "the links allow"},
		"the sign depends on a ceiling":  {claiming(t, true, own, own), lower, PreferOwnIf, "links cannot tell"},
		"the same model":                 {agree, moved(1e-9, 1), Chance, "may be chance"},
		"no set": {json.RawMessage(`{"class":"weak"}`), wrong, Unchecked,
			"not checked against other assumptions"},
		"no findings": {nil, wrong, Unchecked, "not checked against other assumptions"},
		"no exposure": {json.RawMessage(`{"class":"no exposure"}`), wrong, Unchecked, "ignores exposure"},
		"vectors made from the links": {with(t, agree, func(f *fit.Findings) { f.Echo = .99 }), wrong, Depends,
			"follow from the links"},
		"the log contradicts": {with(t, agree, func(f *fit.Findings) {
			f.Logged = []fit.LoggedTest{{Group: "all", Pairs: 100, Z: 9}}
		}), wrong, Depends, "what was logged contradicts"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := truth
			m.Findings = c.findings
			e := must(NewEvaluation(t.Context(), w.Graph(), m, v, EvaluationSettings{Others: []model.Model{c.other},
				Names: []string{"other"}}))(t)
			d := e.Others[0].Decision
			if d.Preference != c.want || !strings.Contains(d.Summary, c.summary) {
				t.Errorf("%q, want %q with %q: %s", d.Preference, c.want, c.summary, d.Summary)
			}
			if called := d.Preference == PreferOwn || d.Preference == PreferOther; called ==
				strings.Contains(d.Summary, "not called better") && d.Preference != PreferOwnIf {
				t.Errorf("%q and %q", d.Preference, d.Summary)
			}
			if (d.Turns != nil) != (name == "the sign turns inside the set") ||
				(d.Ceiling != nil) != (c.want == PreferOwnIf) {
				t.Errorf("%+v", d)
			}
			row := apRow(e.Others[0].Panel)
			if (row.AgainstSet == nil) != (e.Set == nil) || (apRow(e.Panel).Set == nil) != (e.Set == nil) ||
				e.Panel.Risks[0].Set != nil {
				t.Errorf("ranges over the set: %+v", e.Panel.Risks)
			}
			if s := row.AgainstSet; s != nil && (s.Low > row.Against.Lower || s.High < row.Against.Upper) {
				t.Errorf("the set, %+v, has not the model's own interval %+v", s, row.Against.Interval)
			}
		})
	}
}

// The other model can be the better one.
func TestDecisionForTheOther(t *testing.T) {
	t.Parallel()
	w, j, test := planted(t)
	truth := model.Model{Link: j.Link, LinkParams: j.LinkParams, Propensity: j.Propensity,
		PropensityParams: j.PropensityParams, Method: "bayes"}
	low := truth
	low.LinkParams = slices.Clone(truth.LinkParams)
	low.LinkParams[len(low.LinkParams)-1] -= 8
	own := [3]float64{.01, .3, .1}
	low.Findings = claiming(t, false, own, own)
	e := must(NewEvaluation(t.Context(), w.Graph(), low, sample.Evidence{Pairs: test.Pairs}, EvaluationSettings{
		Name: "low", Others: []model.Model{truth}, Names: []string{"the truth"}}))(t)
	if d := e.Others[0].Decision; d.Preference != PreferOther ||
		!strings.HasPrefix(d.Summary, "the truth is better than low") {
		t.Errorf("%+v", d)
	}
}

// with returns findings after a change.
func with(t *testing.T, findings json.RawMessage, change func(*fit.Findings)) json.RawMessage {
	t.Helper()
	var f fit.Findings
	if err := json.Unmarshal(findings, &f); err != nil {
		t.Fatal(err)
	}
	change(&f)
	return must(json.Marshal(f))(t)
}

// At a point the evaluating model has the mean ŷ and the R_AP that the assumption claims, and what links show stays.
func TestPoints(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestDecisionForTheOther has the same goroutines")
	_, j, test := planted(t)
	set := new(fit.ClaimSet)
	exactly := func(x float64) fit.MemberValue { return fit.MemberValue{Value: x, Lower: x, Upper: x} }
	for i, times := range [][2]float64{{1, 1}, {.8, .9}, {1.6, 1.5}, {1.2, 1.1}} {
		set.Members = append(set.Members, fit.Member{Alternative: fit.Alternative{Response: engine.Response(i)},
			Stays: true, MeanLink: exactly(.2 * times[0]), Propensity: exactly(.3), Risk: exactly(.1 * times[1])})
	}
	points := must(judgePoints(t.Context(), j, sample.Evidence{Pairs: test.Pairs}, set, nil, PanelSettings{}))(t)
	for i, p := range points[1:] {
		want := set.Members[i/3].Risk.Value / .1
		if got := p.risks["ap"][0] / points[0].risks["ap"][0]; math.Abs(got-want) > .02*want {
			t.Errorf("point %d: R_AP is %.3f times as high, want %.3f", i, got, want)
		}
	}
}

// What is said of two models is true of worlds whose truth is known, also of those that break the model's assumptions.
func TestDecisionsAreTrue(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	for name, change := range map[string]func(*world.Scenario){
		"nothing": func(*world.Scenario) {},
		"text":    func(s *world.Scenario) { s.Violations.Text = .6 },
		"ceiling": func(s *world.Scenario) { s.Ceiling = .4 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := world.Saturated()
			plan.Seed = 21
			change(&plan)
			w := must(world.New(t.Context(), world.Settings{Nodes: 900, Dim: 8, Fields: world.EvenFields(4),
				Scenario: plan}))(t)
			p := sample.Problem{Nodes: model.NodesOf(w.Graph()),
				Train: must(w.Pairs(t.Context(), 20_000, world.Draw{}))(t).Pairs}
			fitted := func(s fit.Settings) model.Model {
				return must(must(fit.Fit(t.Context(), p, s))(t).Model())(t)
			}
			own := fitted(fit.Settings{Doctor: fit.FullDoctor, Starts: []float64{.3}})
			naive := fitted(fit.Settings{Method: "naive", Optimiser: "lbfgs"})
			test := must(w.Pairs(t.Context(), 20_000, world.Draw{Part: 2}))(t)
			e := must(NewEvaluation(t.Context(), w.Graph(), own, sample.Evidence{Pairs: test.Pairs},
				EvaluationSettings{Others: []model.Model{naive}, Names: []string{"naive"}}))(t)
			var truth float64
			for sign, m := range map[float64]model.Model{1: naive, -1: own} {
				z, _, err := engine.Logits(t.Context(), engine.CPU{}, engine.Predictor{Link: m.Link,
					LinkParams: m.LinkParams}, test.Pairs)
				if err != nil {
					t.Fatal(err)
				}
				for k, x := range test.Truth {
					truth += sign * (x.Link*kern.Softplus64(-float64(z[k])) +
						(1-x.Link)*kern.Softplus64(float64(z[k]))) / float64(len(z))
				}
			}
			d, set := e.Others[0].Decision, apRow(e.Others[0].Panel).AgainstSet
			wrong := d.Preference == PreferOwn && truth < 0 || d.Preference == PreferOther && truth > 0 ||
				d.Preference == PreferOwnIf && truth < 0 && plan.Ceiling >= *d.Ceiling ||
				d.Preference == PreferOtherIf && truth > 0 && plan.Ceiling >= *d.Ceiling
			if inside := set.Low <= truth && truth <= set.High; wrong || !inside && name != "ceiling" {
				t.Errorf("the difference is %.5f, claimed %+v: %s", truth, *set, d.Summary)
			}
			if name == "nothing" && d.Preference != PreferOwnIf {
				t.Errorf("a clear difference: %s", d.Summary)
			}
		})
	}
}
