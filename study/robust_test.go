package study

import (
	"strings"
	"testing"
)

// A few logs of every case: R_DR is bounded, and its interval holds the truth in nearly all of those that it promises,
// where an interval of the usual estimate misses it. `unseen study robust` does it with 200.
func TestRobustStudy(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	l := small(2, 21, 22, 23)
	l.begin(robust.Name)
	r, err := robust.run(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	r.Study = robust.Name
	if err := r.check(); err != nil {
		t.Error(err)
	}
	rows := r.Rows.([]*RobustRow)
	if len(rows) != 6*len(robustCases) {
		t.Fatalf("%d rows", len(rows))
	}
	promised, holding, usual := 0, 0, 0
	for i, row := range rows {
		low, high := row.Robust.Lower+1e-9, row.Robust.Upper-1e-9 // sums differ in their last digits
		if !(row.Least <= low && low < high && high <= row.Most) || !(row.Least < row.Truth && row.Truth < row.Most) ||
			row.Links == 0 || row.Links >= row.Shown {
			t.Errorf("%+v", row)
		}
		if robustCases[i%len(robustCases)].promised {
			promised++
			if row.holds(row.Robust) {
				holding++
			}
			if row.holds(row.Usual) {
				usual++
			}
		}
	}
	if holding < promised-1 || usual >= holding {
		t.Errorf("%d of %d intervals hold the truth, and %d of the usual ones", holding, promised, usual)
	}
	for _, c := range r.Claims {
		if c.Verdict != Met && c.Verdict != Missed || strings.Contains(c.Evidence, "NaN") {
			t.Errorf("%+v", c)
		}
	}
}
