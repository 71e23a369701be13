package study

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"unseen/figure"
	"unseen/progress"
)

// The studies in small: every table is whole, trainings are shared, and the words say what the numbers do.
func TestStudies(t *testing.T) {
	t.Parallel()
	l := small(2, 11)
	var done []string
	l.Progress = func(e progress.Event) { done = append(done, e.Message) }
	var results []*Result
	for _, s := range []Study{table1, quality} {
		l.begin(s.Name)
		r, err := s.run(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		r.Study = s.Name
		if err := r.check(); err != nil {
			t.Error(err)
		}
		if len(r.Tables) == 0 || len(r.Claims) == 0 || len(r.Setting) == 0 {
			t.Errorf("%s says nothing: %+v", s.Name, r)
		}
		for _, f := range r.Claims {
			if f.Statement == "" || f.Verdict == "" || f.Evidence == "" || strings.Contains(f.Evidence, "NaN") {
				t.Errorf("%s: %+v", s.Name, f)
			}
		}
		results = append(results, r)
	}
	if distinct := slices.Compact(slices.Sorted(slices.Values(done))); len(distinct) != len(done) {
		t.Errorf("trained twice: %q", done)
	}
	if want := 2 * (len(table1Methods) + 4); len(done) != want {
		t.Errorf("%d trainings, want %d", len(done), want)
	}
	checkOutcomes(t, l)
	thresholds := results[1].Rows.([]Threshold)
	for _, x := range thresholds {
		if len(x.Values) != 1 || math.IsNaN(float64(x.Worst)) {
			t.Errorf("%+v", x)
		}
	}
	folder := t.TempDir()
	paths, err := Write(folder, results)
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, r := range results {
		want += 1 + len(r.Tables) + len(r.Figures)
	}
	if len(paths) != want {
		t.Errorf("%d files, want %d", len(paths), want)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != len(paths) {
		t.Errorf("%d files lie there: %v", len(left), err)
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for _, test := range []struct {
		values  figure.Values
		least   bool
		kept    int
		worst   float64
		verdict Verdict
	}{
		{figure.Values{3, 3.5}, true, 2, 3, Met},
		{figure.Values{3, 2.9}, true, 1, 2.9, Missed},
		{figure.Values{3, 2.9}, false, 2, 3, Met},
		{figure.Values{3, 3.1}, false, 1, 3.1, Missed},
		{figure.Values{nan, 4}, true, 1, 4, Missed},
		{figure.Values{math.Inf(1)}, false, 0, math.Inf(1), Missed},
	} {
		x := Threshold{Bound: 3, Least: test.least, Values: test.values}
		x.settle()
		if x.Kept != test.kept || float64(x.Worst) != test.worst || x.verdict() != test.verdict {
			t.Errorf("%v: kept %d, worst %v, %s; want %+v", test.values, x.Kept, x.Worst, x.verdict(), test)
		}
	}
}

func TestThresholdClaimsGatherMethods(t *testing.T) {
	t.Parallel()
	all := []Threshold{
		{Fields: Tied, Method: "a", What: "x", Bound: 1, Least: true, Source: FromPlan, Values: figure.Values{2, 4}},
		{Fields: Tied, Method: "b", What: "x", Bound: 1, Least: true, Source: FromPlan, Values: figure.Values{2, .5}},
		{Fields: Tied, Method: "a", What: "y", Bound: 1, Source: ForTheseWorlds, Whole: true,
			Values: figure.Values{.25}},
	}
	for i := range all {
		all[i].settle()
	}
	want := []Claim{
		{"a, b, tied fields: x ≥ 1.00", Missed,
			"On average a 3.00, at worst 2.00, kept in 2 of 2 seeds; b 1.25, at worst 0.50, kept in 1 of 2 seeds."},
		{"a, tied fields: y ≤ 1.00, stated for these worlds", Met, "Over all seeds a 0.25."},
	}
	if got := thresholdClaims(all); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestRMSE(t *testing.T) {
	t.Parallel()
	e := outcomeRMSE([]*Outcome{
		{Risk: 1, Estimates: RiskEstimates{Naive: 1, W: 4, PU: 0, AP: 2}},
		{Risk: 2, Estimates: RiskEstimates{Naive: 2, W: 6, PU: 3, AP: 1}},
	})
	if want := [4]float64{0, math.Sqrt(12.5), 1, 1}; e != want {
		t.Errorf("got %v, want %v", e, want)
	}
}

func TestCompareGains(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for _, test := range []struct {
		base, above []float64
		want        Verdict
	}{
		{[]float64{1, 1, 1}, []float64{2, 2, 2}, Reproduced},
		{[]float64{1, 1, 1, 1, 1}, []float64{2, 2, 2, 2, .9}, Partly},
		{[]float64{1, 1, 1}, []float64{1.1, .9, 1}, NotReproduced},
		{[]float64{1, 1, 1}, []float64{.5, .6, .7}, NotReproduced},
		{[]float64{1, 1, 1}, []float64{2, nan, 2}, NotReproduced},
	} {
		var outcomes []*Outcome
		for i := range test.base {
			outcomes = append(outcomes, &Outcome{Method: naive, AUC: figure.Value(test.base[i])},
				&Outcome{Method: mle, AUC: figure.Value(test.above[i])})
		}
		c := compareGains(outcomes, "claim", gain{naive, []Method{mle}, aucPoints, "points", 1})
		if c.Verdict != test.want || !strings.HasPrefix(c.Evidence, "Against naive, in points: mle ") {
			t.Errorf("%v over %v: %+v, want %s", test.above, test.base, c, test.want)
		}
	}
}

// example is a result with everything in it.
func example() *Result {
	truth := figure.Value(2.5)
	return &Result{
		Study: "example", Title: "An example", Options: Options{Seeds: []uint64{1}, Preset: "safe"},
		Setting: []string{"None."},
		Tables: []figure.Table{{Name: "t", Title: "T", Head: "method",
			Columns: []figure.Column{{Name: "AUC", Digits: 1}, {Name: "kept"}},
			Rows: []figure.TableRow{{Name: "a", Cells: []figure.Cell{figure.Spread(1.5, .5), figure.Ratio(9, 10)}},
				{Name: "b", Cells: []figure.Cell{figure.Number(2), {}}}}}},
		Figures: []figure.Figure{
			{Name: "heat", Heat: &figure.HeatMap{RowTitle: "from", ColumnTitle: "to", Rows: []string{"r"},
				Columns: []string{"c", "d"}, Values: []figure.Values{{1, 2}}}},
			{Name: "lines", Lines: &figure.LineChart{XTitle: "t", YTitle: "share",
				Series: []figure.Series{{Name: "s", X: figure.Values{0, 1}, Y: figure.Values{.5, .6},
					Low: figure.Values{.4, .5}, High: figure.Values{.6, .7}}}}},
			{Name: "bars", Bars: &figure.BarChart{YTitle: "risk", Groups: []string{"g"},
				Series: []figure.BarSeries{{Name: "s", Values: figure.Values{3}}}}},
			{Name: "pair", Caption: "Alike.", Heat: &figure.HeatMap{Title: "true", RowTitle: "from", ColumnTitle: "to",
				Rows: []string{"r"}, Columns: []string{"c"}, Values: []figure.Values{{1}},
				Beside: &figure.HeatMap{Title: "learned", Values: []figure.Values{{.5}}}}},
			{Name: "intervals", Intervals: &figure.IntervalChart{XTitle: "risk",
				Rows: []figure.IntervalRow{{Name: "a", Group: "g", Estimate: 2, Low: 1, High: 3, Truth: &truth},
					{Name: "b", Estimate: 2, Low: 2, High: 2}}}},
		},
		Claims: []Claim{{"a claim", Partly, "Somewhat."}},
		Rows:   []any{},
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "new", "results")
	if err := Prepare(folder); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second replaces the first
		paths, err := Write(folder, []*Result{example()})
		if err != nil || len(paths) != 7 {
			t.Fatal(paths, err)
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 7 {
		t.Errorf("%v: %v", left, err)
	}
	for name, want := range map[string]string{
		"example-t.csv":         "method,auc,auc_sd,kept,kept_of\na,1.5,0.5,9,10\nb,2,,,\n",
		"example-pair.csv":      "from,to,true,learned\nr,c,1,0.5\n",
		"example-intervals.csv": "group,name,risk,low,high,truth\ng,a,2,1,3,2.5\n,b,2,2,2,\n",
	} {
		raw, err := os.ReadFile(filepath.Join(folder, name))
		if string(raw) != want || err != nil {
			t.Errorf("%s is %q, want %q: %v", name, raw, want, err)
		}
		if _, err := csv.NewReader(strings.NewReader(string(raw))).ReadAll(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	raw, err := os.ReadFile(filepath.Join(folder, "example.json"))
	if err != nil {
		t.Fatal(err)
	}
	var again Result
	raw = bytes.Replace(raw, []byte(`"evidence":`), []byte(`"words":`), 1) // the first as in the last version
	if err := json.Unmarshal(raw, &again); err != nil || !reflect.DeepEqual(&again, example()) {
		t.Errorf("read again it is %+v: %v", again, err)
	}
}

func TestWriteRefuses(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Prepare(filepath.Join(file, "sub")); err == nil || !strings.Contains(err.Error(), "choose another") {
		t.Errorf("a folder in a file: %v", err)
	}
	if _, err := Write(filepath.Join(folder, "missing"), []*Result{example()}); err == nil ||
		!strings.Contains(err.Error(), "cannot write "+filepath.Join(folder, "missing", "example.json")) {
		t.Errorf("no folder: %v", err)
	}
	for name, spoil := range map[string]func(*Result){
		"cells for":  func(r *Result) { r.Tables[0].Rows[0].Cells = nil },
		"are named":  func(r *Result) { r.Figures[0].Name = "t" },
		"of 0 kinds": func(r *Result) { r.Figures[0].Heat = nil },
		"of 2 kinds": func(r *Result) { r.Figures[0].Intervals = &figure.IntervalChart{} },
		"heat map":   func(r *Result) { r.Figures[3].Heat.Beside.Values = nil },
	} {
		r := example()
		spoil(r)
		if _, err := Write(folder, []*Result{r}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("%v are left: %v", left, err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	o, err := Options{}.WithDefaults()
	if err != nil || len(o.Seeds) != 10 || o.Seeds[0] != 2001 || o.Threads < 1 || o.Preset != "safe" {
		t.Errorf("%+v: %v", o, err)
	}
	for says, o := range map[string]Options{
		"no seeds":    {Seeds: []uint64{}},
		"is repeated": {Seeds: []uint64{1, 2, 1}},
		"threads":     {Threads: -1},
		"no preset":   {Preset: "nope"},
	} {
		if _, err := Run(t.Context(), []string{"table1"}, o); !errors.Is(err, ErrOption) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := Run(t.Context(), []string{"table9"}, Options{}); !errors.Is(err, ErrOption) ||
		!strings.Contains(err.Error(), `no study "table9"; there is table1, `) {
		t.Errorf("no such study: %v", err)
	}
	if all, err := Lookup("quality", "all", "table1"); err != nil || len(all) != len(All()) || all[0].Name != "table1" {
		t.Errorf("%v: %v", all, err)
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, []string{"all"}, Options{Quick: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Too few repetitions give no verdict; the numbers stay.
func TestSmallResults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		study string
		seeds int
		quick bool
		want  string
	}{
		{"table1", 2, true, "quick, 2 seeds"}, {"table1", 10, true, "quick, 10 seeds"},
		{"table1", 1, false, "one seed"},
		{"table1", 4, false, "4 seeds"}, {"table1", 5, false, ""}, {"figure1", 10, false, "one seed"},
		{"table4", 3, false, ""}, {"table4", 2, false, "2 seeds"}, {"table4", 3, true, "quick, 3 seeds"},
	} {
		r := example()
		r.Study, r.Options.Seeds, r.Options.Quick = c.study, Seeds(1, c.seeds), c.quick
		if got := r.WhyTooSmall(); got != c.want {
			t.Errorf("%s with %d seeds, quick %t: %q, want %q", c.study, c.seeds, c.quick, got, c.want)
		}
		verdict, words := Partly, "Somewhat."
		if c.want != "" {
			verdict, words = TooSmall, "By these numbers: partly. Somewhat."
		}
		if f := r.Conclusions()[0]; f.Verdict != verdict || f.Evidence != words || f.Statement != "a claim" ||
			r.Claims[0].Verdict != Partly {
			t.Errorf("%+v", f)
		}
	}
}
