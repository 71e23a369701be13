package study

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"unseen/figure"
	"unseen/loop"
)

// alone is a quick lab for studies that train nothing in common with others.
func alone(t *testing.T, threads int, seeds ...uint64) *lab {
	t.Helper()
	l := small(threads, seeds...)
	t.Cleanup(l.close)
	return l
}

func TestTheory(t *testing.T) {
	t.Parallel()
	r, err := runTheory(t.Context(), alone(t, 2, 3))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
	parts := map[string]int{}
	for _, row := range r.Rows.([]TheoryRow) {
		parts[row.Part]++
		// Small as it is, everything that is true holds.
		if !row.Holds && !(row.Part == "limit" && strings.HasPrefix(row.Case, "n = 1000,")) {
			t.Errorf("%+v", row)
		}
	}
	if want := map[string]int{"lemmas": 8, "limit": 2, "correction": 5, "bound": 9,
		"corollary": 4}; !reflect.DeepEqual(parts, want) {
		t.Errorf("rows are %v, want %v", parts, want)
	}
	verdicts := map[string]Verdict{}
	for _, f := range r.Claims {
		verdicts[f.Statement] = f.Verdict
	}
	for claim, want := range map[string]Verdict{
		"κ_vw⁽ᵗ⁾ → 1 − 1/(1+cᵗ) as n grows":                                  Reproduced,
		"accounting for exposure ends the feedback loop":                     Partly,
		"P(every ratio skews further) ≥ 1 − 2C·exp(−2n[ε² + η²/C²])":         NotReproduced,
		"P → 1 if C³ = o(n)":                                                 NotReproduced,
		"the lemmas give the bias and variance of naive, R_w, R_PU and R_AP": Reproduced,
	} {
		if verdicts[claim] != want {
			t.Errorf("%q is %q, want %q", claim, verdicts[claim], want)
		}
	}
}

func TestFigure2(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	r, err := runFigure2(t.Context(), alone(t, 1, 5, 6))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
	rows := r.Rows.([]*Figure2Row)
	if len(rows) != 12 || len(r.Figures) != 4 || len(r.Tables[0].Rows) != 12 {
		t.Fatalf("%d rows, %d figures", len(rows), len(r.Figures))
	}
	for _, row := range rows {
		if len(row.Bands) != 4 || len(row.Change) != 2 || !(row.First[0] > 0 && row.First[0] < 1) {
			t.Errorf("%+v", row)
		}
	}
	// The first round is trained on the same links in a panel of either kind.
	for m := range figure2Methods {
		if a, b := rows[m], rows[m+len(figure2Methods)]; !reflect.DeepEqual(a.First, b.First) {
			t.Errorf("%s begins at %v and at %v", a.Method, a.First, b.First)
		}
	}
	again, err := runFigure2(t.Context(), alone(t, 4, 5, 6))
	if err != nil || !reflect.DeepEqual(again.Rows, r.Rows) || !reflect.DeepEqual(again.Claims, r.Claims) {
		t.Errorf("four threads change the study: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := runFigure2(ctx, alone(t, 1, 5)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Verdicts follow the numbers.
func TestFigure2Verdicts(t *testing.T) {
	t.Parallel()
	rows := func(change map[string]float64) (rows []*Figure2Row) {
		for _, p := range panels {
			for _, m := range figure2Methods {
				row := &Figure2Row{SeesField: p.seesField, UnshownNegative: p.unshownNegative, Method: m,
					Bands: []loop.SeedBand{{Round: 1}}}
				for range 10 {
					c := change[p.name()+" "+m]
					row.Truth, row.First = append(row.Truth, .5), append(row.First, .5)
					row.Last, row.Change = append(row.Last, .5+c), append(row.Change, c)
				}
				rows = append(rows, row)
			}
		}
		return rows
	}
	verdicts := func(rows []*Figure2Row) (all []Verdict) {
		for _, f := range figure2Claims(rows) {
			all = append(all, f.Verdict)
		}
		return all
	}
	asExpected := rows(map[string]float64{"sees-all naive": .2, "blind-all naive": .1, "blind-all rw": .1})
	if got, want := verdicts(asExpected), []Verdict{Reproduced, Reproduced, Reproduced, Reproduced, Reproduced,
		Reproduced, Reproduced}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	otherwise := rows(map[string]float64{"sees-all rw": -.2, "sees-all bayes": .2, "sees-shown naive": .1,
		"blind-all naive": .1, "blind-shown naive": .1, "blind-shown rw": -.1})
	if got, want := verdicts(otherwise), []Verdict{NotReproduced, NotReproduced, NotReproduced, Partly, Partly,
		NotReproduced, NotReproduced}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	// A mean that one seed makes is no drift.
	lone := &Figure2Row{Change: figure.Values{1, -.01, -.01, -.01, -.01}}
	if lone.drift() != "no" {
		t.Error("one seed of five makes a drift")
	}
}
