package study

import (
	"math"
	"strings"
	"testing"

	"unseen/fit"
)

// Every kind of worlds is tried, with the truth beside what the doctor said.
func TestDoctorStudy(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	l := small(1, 7)
	l.Quick = true
	l.begin(doctor.Name)
	r, err := doctor.run(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	r.Study = doctor.Name
	if err := r.check(); err != nil {
		t.Error(err)
	}
	rows := r.Rows.([]*DoctorRow)
	if len(rows) != len(doctorKinds) || len(r.Tables[0].Rows) != len(doctorKinds) {
		t.Fatalf("%d rows of %d kinds", len(rows), len(doctorKinds))
	}
	for i, row := range rows {
		for _, m := range []doctorMark{row.Exposure, row.Link, row.Ratio, row.Risk} {
			if !(m.Truth > 0 && m.Set.Low >= 0 && m.Set.High > m.Set.Low) {
				t.Errorf("%s: %+v", row.Kind, m)
			}
		}
		if row.Kind != doctorKinds[i].name || row.Links == 0 || row.Class == "" || !(row.Width >= 1) ||
			!(row.AUC > .5) || math.IsNaN(row.NaiveAUC) {
			t.Errorf("%+v", row)
		}
	}
	for _, c := range r.Claims {
		if c.Verdict != Met && c.Verdict != Missed || strings.Contains(c.Evidence, "NaN") {
			t.Errorf("%+v", c)
		}
	}
}

func TestDoctorVerdicts(t *testing.T) {
	t.Parallel()
	var rows []*DoctorRow
	for i := range 20 {
		row := &DoctorRow{Kind: "obeying", Same: .7, Class: fit.Identified, Width: 1.2}
		for _, m := range []*doctorMark{&row.Exposure, &row.Link, &row.Ratio, &row.Risk} {
			m.Holds = true
		}
		if i == 0 {
			row.Link.Holds = false // identified, and wrong
		}
		rows = append(rows, row)
	}
	verdicts := func() (all []Verdict) {
		for _, c := range doctorClaims(rows)[:5] {
			all = append(all, c.Verdict)
		}
		return all
	}
	for i, v := range verdicts() {
		if v != Met {
			t.Errorf("goal %d is %s with one of 20 wrong", i, v)
		}
	}
	rows[1].Ratio.Holds, rows[2].Refuted, rows[3].Refuted = false, []string{"text"}, []string{"text"}
	rows[4].Class, rows[5].Class, rows[6].Class = fit.Weak, fit.Weak, fit.Weak
	for i, want := range []Verdict{Missed, Met, Missed, Missed, Missed} {
		if got := verdicts()[i]; got != want {
			t.Errorf("goal %d is %s, want %s", i, got, want)
		}
	}
}

// The AUC for probabilities is that of outcomes which are drawn by them.
func TestSoftAUC(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		scores []float32
		wanted []float64
		auc    float64
	}{
		{[]float32{1, 2, 3, 4}, []float64{0, 0, 1, 1}, 1},
		{[]float32{4, 3, 2, 1}, []float64{0, 0, 1, 1}, 0},
		{[]float32{1, 2}, []float64{.5, .5}, .5},
	} {
		if got := softAUC(test.scores, test.wanted); math.Abs(got-test.auc) > 1e-12 {
			t.Errorf("%v, want %v", got, test.auc)
		}
	}
}
