package study

import (
	"testing"

	"unseen/internal/racetest"
)

// A refresh comes near a full training in a part of its time, in small too; every row is whole.
func TestRefreshStudy(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestStudies has the goroutines of studies")
	l := small(1, 11)
	l.Quick = true
	l.begin(refresh.Name)
	r, err := refresh.run(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	r.Study = refresh.Name
	if err := r.check(); err != nil {
		t.Error(err)
	}
	rows := r.Rows.([]*RefreshRow)
	if len(rows) != 5 || len(r.Claims) != 3 {
		t.Fatalf("%d rows, %d claims", len(rows), len(r.Claims))
	}
	for _, row := range rows {
		if !(row.Agree > .8) || !(row.Agree <= 1) || !(row.Stale > .5) || !(row.Other > .4) || row.Pairs == 0 {
			t.Errorf("%+v", row)
		}
		if row.Method == "bayes" && (row.Published < .98 || row.Refresh > row.Full/2 || row.Due) {
			t.Errorf("a posterior does not help: %+v", row)
		}
	}
}
