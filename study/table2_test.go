package study

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"unseen/progress"
)

// tiny is a lab for what takes many trainings.
func tiny(threads int, seeds ...uint64) *lab {
	l := small(threads, seeds...)
	l.trainings.size = size{nodes: 200, dim: 6, fields: 2, spectrum: .25, pairs: 800, validation: 200, test: 3000}
	return l
}

// Where exposure decides much, the naive estimate is far off and those that know y and π are close; what bayes
// learned judges every model, also those that have no π̂. What has been trained is only judged.
func TestTable2(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	l := tiny(2, 11)
	trained(t, l, cross([]FieldKind{Random, Tied}, l.Seeds, table2Methods))
	var done []string
	l.Progress = func(e progress.Event) { done = append(done, e.Message) }
	l.begin(table2.Name)
	r, err := table2.run(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	if len(done) != 2 || !strings.HasPrefix(done[0], "done: judging") || !strings.HasPrefix(done[1], "done: judging") {
		t.Errorf("it did %q", done)
	}
	whole(t, r)
	all := r.Rows.([]*Table2Row)
	if len(all) != 2*len(table2Methods) || len(r.Tables) != 6 || len(r.Figures) != 2 {
		t.Errorf("%d rows, %d tables, %d figures", len(all), len(r.Tables), len(r.Figures))
	}
	for _, fields := range []FieldKind{Random, Tied} {
		rows := filter(all, func(e *Table2Row) bool { return e.Fields == fields })
		e := rmseOf(byMethod(rows, oracle), ownEstimates)
		if e[0] < .1 || e[1] > e[0]/5 || e[3] > e[0]/5 || e[2] > e[0] { // R_PU is unbiased too, and noisy
			t.Errorf("%s fields, by the truth: RMSE %v", fields, e)
		}
		for _, x := range byMethod(rows, bayes) {
			for i := range estimators {
				if a, b := x.Own.list()[i], x.Bayes.list()[i]; math.Abs(float64(a-b)) > 1e-6 {
					t.Errorf("bayes estimates %v of itself by %s and is judged to have %v", a, estimators[i], b)
				}
			}
		}
		for _, x := range byMethod(rows, naive) {
			if !math.IsNaN(float64(x.Own.W)) || !math.IsNaN(float64(x.Own.PU)) || !math.IsNaN(float64(x.Own.AP)) ||
				math.IsNaN(float64(x.Own.Naive)) {
				t.Errorf("naive has estimates of its own: %+v", x)
			}
		}
		for _, x := range rows {
			for i := range estimators {
				low, at, high := x.Lower.list()[i], x.Bayes.list()[i], x.Upper.list()[i]
				if !(low < at && at < high) {
					t.Errorf("%s, %s fields: %s is %v in %v to %v", x.Method.Name, fields, estimators[i], at, low, high)
				}
			}
			if d := x.Bayes.AP - x.Risk; math.Abs(float64(d)) > math.Abs(float64(x.Bayes.Naive-x.Risk)) {
				t.Errorf("%s, %s fields: R_AP by bayes is off by %v, R_naive by %v", x.Method.Name, fields, d,
					x.Bayes.Naive-x.Risk)
			}
		}
	}
	raw, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	var again []*Table2Row
	if err := json.Unmarshal(raw, &again); err != nil {
		t.Fatal(err)
	}
	if twice, err := json.Marshal(again); err != nil || string(twice) != string(raw) ||
		!math.IsNaN(float64(again[0].Own.AP)) || again[0].Method != naive {
		t.Errorf("read again it is %s: %v", twice, err)
	}
}

// whole checks what every result has.
func whole(t *testing.T, r *Result) {
	t.Helper()
	if err := r.check(); err != nil {
		t.Error(err)
	}
	if len(r.Tables) == 0 || len(r.Figures) == 0 || len(r.Claims) == 0 || len(r.Setting) == 0 || len(r.Warnings) > 0 {
		t.Errorf("%+v", r)
	}
	for _, f := range r.Claims {
		if f.Statement == "" || f.Verdict == "" || strings.Contains(f.Evidence, "NaN") ||
			!strings.HasSuffix(f.Evidence, ".") && !strings.HasSuffix(f.Evidence, ".)") {
			t.Errorf("%+v", f)
		}
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}

// byHand is models whose errors are easy to know: R = 1, R_naive = 1 + a, R_w = 1 + b, R_PU = 1 + c, R_AP = 1 + d.
func byHand(m Method, own, lent RiskEstimates) *Table2Row {
	above := func(e RiskEstimates) RiskEstimates { return RiskEstimates{1 + e.Naive, 1 + e.W, 1 + e.PU, 1 + e.AP} }
	low, high := above(lent), above(lent)
	low.AP, high.AP = low.AP-.5, high.AP+.5
	return &Table2Row{Method: m, Risk: 1, Own: above(own), Bayes: above(lent), Lower: low, Upper: high}
}

func TestErrorsAndCoverage(t *testing.T) {
	t.Parallel()
	rows := []*Table2Row{
		byHand(mle, RiskEstimates{1, -2, 3, 0}, RiskEstimates{AP: .4}),
		byHand(mle, RiskEstimates{-1, 2, 4, 0}, RiskEstimates{AP: .6}),
	}
	if e, want := rmseOf(rows, ownEstimates), ([4]float64{1, 2, math.Sqrt(12.5), 0}); e != want {
		t.Errorf("RMSE %v, want %v", e, want)
	}
	if share := coverage(rows, 3); share != .5 {
		t.Errorf("covered %v", share)
	}
	rows[0].Lower.AP = missing
	if share := coverage(rows, 3); !math.IsNaN(share) {
		t.Errorf("covered %v where there is no interval", share)
	}
}

func TestTable2Claims(t *testing.T) {
	t.Parallel()
	good, bad := RiskEstimates{1, .1, .1, .1}, RiskEstimates{1, 2, 2, .2}
	set := func(mleOwn, others RiskEstimates, lent RiskEstimates) (rows []*Table2Row) {
		for _, m := range table2Methods {
			o := others
			if m == mle {
				o = mleOwn
			}
			rows = append(rows, byHand(m, o, lent), byHand(m, o, lent)) // two seeds
		}
		return rows
	}
	for _, test := range []struct {
		name string
		rows []*Table2Row
		want []Verdict // naive worst, mle worst, steadied, lent, covered
	}{
		// R_naive does not depend on π̂: here it is the same for all, so that only three of four are lower
		{"as found by a prototype", set(bad, good, good), []Verdict{Partly, Partly, Reproduced, Reproduced,
			Reproduced}},
		{"nothing explodes", set(good, good, good), []Verdict{Reproduced, NotReproduced, Partly, Reproduced,
			Reproduced}},
		{"as the paper has it", set(RiskEstimates{2, .3, .3, .3}, good, good), []Verdict{Reproduced, Reproduced, Partly,
			Reproduced, Reproduced}},
		{"bayes is wrong", set(good, good, RiskEstimates{1, 3, 3, 3}), []Verdict{Reproduced, NotReproduced,
			NotReproduced, NotReproduced, NotReproduced}},
	} {
		for i, f := range table2Claims(test.rows, Random) {
			if f.Verdict != test.want[i] {
				t.Errorf("%s: %s, want %s: %+v", test.name, f.Verdict, test.want[i], f)
			}
		}
	}
}
