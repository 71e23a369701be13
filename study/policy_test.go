package study

import (
	"math"
	"testing"

	"unseen/evaluate"
)

// The study in small: intervals have the truth most of the time, and a log without support is never answered.
func TestPolicySmall(t *testing.T) {
	t.Parallel()
	l := small(2, 11)
	l.Quick = true
	r, err := policy.run(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	r.Study = policy.Name
	if err := r.check(); err != nil {
		t.Error(err)
	}
	rows := r.Rows.([]*PolicyRow)
	if want := 10 * len(policyKinds) * len(l.Seeds); len(rows) != want {
		t.Errorf("%d rows, want %d", len(rows), want)
	}
	answered := filter(rows, (*PolicyRow).answered)
	if len(answered) < len(rows)/2 {
		t.Errorf("%d of %d logs are answered", len(answered), len(rows))
	}
	for _, name := range policyEstimates {
		if share := policyCoverage(answered, name); share < .88 {
			t.Errorf("the interval of %q has the truth in %v of the logs", name, share)
		}
	}
	for _, row := range rows {
		if row.Kind == "no support" && row.answered() {
			t.Errorf("answered without support: %+v", row.Value)
		}
		if e := row.Value; row.answered() != (e.Reason == "" && e.Effective >= evaluate.FewestEffective) {
			t.Errorf("%+v", e)
		}
	}
	if last := r.Claims[len(r.Claims)-1]; len(r.Claims) != 5 || last.Verdict != Met {
		t.Errorf("%d claims, the last is %+v", len(r.Claims), last)
	}
}

// The value of a rule is what lists by that rule have on average.
func TestPolicyWorldValue(t *testing.T) {
	t.Parallel()
	for _, kind := range policyKinds {
		row := PolicyRow{Kind: kind.name, Seed: 5}
		if err := row.plant(kind); err != nil {
			t.Fatal(err)
		}
		v := row.Value
		if off := math.Abs(v.Logged.Estimate - row.Logged); off > 5*v.Logged.StandardError {
			t.Errorf("%s: lists have %v on average, the truth is %v", kind.name, v.Logged.Estimate, row.Logged)
		}
	}
}
