package study

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"unseen/figure"
	"unseen/loop"
)

// Trainings that diverged leave no numbers. No claim is made of them, none is called reproduced or met, and no text
// shows NaN.
func TestDivergedTrainings(t *testing.T) {
	t.Parallel()
	n := RealNetwork{Name: "papers"}
	l := small(1, 11, 12)
	l.Networks = []RealNetwork{n}
	var outcomes []*Outcome
	for _, w := range cross([]FieldKind{Random}, l.Seeds, slices.Concat(table1Methods,
		[]Method{ridgeMLE, paperRW, paperPU, paperAP})) {
		outcomes = append(outcomes, newOutcome(w))
	}
	var table2Rows []*Table2Row
	var figure1Rows []*Figure1Row
	for _, o := range outcomes {
		o.Failed = "diverged"
		table2Rows = append(table2Rows, newTable2Row(o))
		figure1Rows = append(figure1Rows, figure1Row(o, l.trainings.size))
	}
	var table3Rows []*Table3Row
	var clicksRows []*ClicksRow
	for _, seed := range l.Seeds {
		for _, m := range networkMethods {
			table3Rows = append(table3Rows, newTable3Row(n, seed, m))
			l.fits[fitKey{drawKey{n.Name, seed}, m}] = &fitted{failed: "diverged"}
		}
		for _, m := range clicksMethods {
			clicksRows = append(clicksRows, newClicksRow(n, seed, m))
		}
	}
	noNumbers := figure.Values{math.NaN(), math.NaN()}
	var figure2Rows []*Figure2Row
	for _, p := range panels {
		for _, m := range figure2Methods {
			figure2Rows = append(figure2Rows, &Figure2Row{SeesField: p.seesField, UnshownNegative: p.unshownNegative,
				Method: m, Bands: make([]loop.SeedBand, 3), Truth: noNumbers,
				First: noNumbers, Last: noNumbers,
				Change: noNumbers})
		}
	}
	results := map[string]*Result{
		"table1": {Claims: table1Claims(outcomes, Random), Tables: []figure.Table{table1Table(outcomes, Random,
			table1Methods),
			seedTable(outcomes, Random, table1Methods), differencesTable(outcomes, Random, []Method{ap})}},
		"quality": {Claims: append(thresholdClaims(check(outcomes, Random)), printedClaim(outcomes, Random)),
			Tables: []figure.Table{thresholdTable(check(outcomes, Random), Random),
				valueTable(check(outcomes, Random), Random, l.Seeds), rmseTable(outcomes, Random)}},
		"table2": {Claims: table2Claims(table2Rows, Random), Tables: []figure.Table{ownEstimatesTable(table2Rows,
			Random), bayesEstimatesTable(table2Rows, Random), table2SeedsTable(table2Rows, Random)}},
		"table3": {Claims: l.table3Claims(table3Rows, n), Tables: []figure.Table{table3Table(table3Rows, n, 2),
			table3SeedsTable(table3Rows, n), l.exposureTable(n)}},
		"table4":  {Claims: l.table4Claims(nil, n), Tables: []figure.Table{l.table4Table(nil, n)}},
		"figure1": {Claims: figure1Claims(figure1Rows, Random)},
		"figure2": {Claims: figure2Claims(figure2Rows)},
		"clicks": {Claims: clicksClaims(clicksRows, n), Tables: []figure.Table{clicksTable(clicksRows, n, 2),
			clicksRiskTable(clicksRows, n), clicksSeedsTable(clicksRows, n)}},
	}
	for name, r := range results {
		checkWithoutNumbers(t, name, r)
	}
}

func checkWithoutNumbers(t *testing.T, name string, r *Result) {
	t.Helper()
	if len(r.Claims) < 3 {
		t.Errorf("%s makes %d claims", name, len(r.Claims))
	}
	for _, c := range r.Claims {
		// That nothing was called identified is true of no trainings too.
		if (c.Verdict == Reproduced || c.Verdict == Met) && !strings.Contains(c.Statement, "does not call") {
			t.Errorf("%s: %q is %s", name, c.Statement, c.Verdict)
		}
	}
	text := fmt.Sprint(r.Claims)
	for _, table := range r.Tables {
		if err := table.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, row := range table.Rows {
			for i, c := range row.Cells {
				text += " " + c.Format(table.Columns[i].Digits)
			}
		}
		text += string(table.CSV())
	}
	for _, wrong := range []string{"NaN", "Inf", "+n/a", "−n/a"} {
		if at := strings.Index(text, wrong); at >= 0 {
			t.Errorf("%s shows %s: …%s", name, wrong, text[max(at-60, 0):min(at+60, len(text))])
		}
	}
}
