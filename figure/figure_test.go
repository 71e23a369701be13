package figure

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestCells(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for _, test := range []struct {
		cell         Cell
		text, inJSON string
	}{
		{Cell{}, "", "null"},
		{Number(nan), "", "null"},
		{Number(84.449), "84.45", `{"value":84.449}`},
		{Number(-.001), "0.00", `{"value":-0.001}`},
		{Number(-1.5), "-1.50", `{"value":-1.5}`},
		{Number(12345678), "1.2e+07", `{"value":12345678}`},
		{Number(math.Inf(1)), "∞", `{"text":"∞"}`},
		{Number(math.Inf(-1)), "−∞", `{"text":"−∞"}`},
		{Spread(1, .25), "1.00 ± 0.25", `{"value":1,"spread":0.25}`},
		{Spread(1, nan), "1.00", `{"value":1}`},
		{Spread(nan, 1), "", "null"},
		{Text("met"), "met", `{"text":"met"}`},
		{Text("≥ 3", CellPart{"at least", 3}), "≥ 3", `{"text":"≥ 3","parts":[{"name":"at least","value":3}]}`},
		{Ratio(9, 10), "9/10", `{"text":"9/10","parts":[{"name":"value","value":9},{"name":"of","value":10}]}`},
	} {
		raw, err := json.Marshal(test.cell)
		if got := test.cell.Format(2); got != test.text || err != nil || string(raw) != test.inJSON {
			t.Errorf("%+v is %q and %s, want %q and %s: %v", test.cell, got, raw, test.text, test.inJSON, err)
		}
		var again Cell
		if err := json.Unmarshal(raw, &again); err != nil || again.Format(2) != test.text {
			t.Errorf("%s is read as %q: %v", raw, again.Format(2), err)
		}
	}
	if got := Decimal(nan, 2); got != "n/a" {
		t.Errorf("a missing number is written as %q", got)
	}
}

func TestMissingValuesAreNull(t *testing.T) {
	t.Parallel()
	type both struct {
		Many Values
		One  Value
	}
	raw, err := json.Marshal(both{Values{1, math.NaN(), math.Inf(1)}, Value(math.NaN())})
	if want := `{"Many":[1,null,null],"One":null}`; string(raw) != want || err != nil {
		t.Fatalf("%s, want %s: %v", raw, want, err)
	}
	var again both
	if err := json.Unmarshal(raw, &again); err != nil || again.Many[0] != 1 || !math.IsNaN(again.Many[2]) ||
		!math.IsNaN(float64(again.One)) {
		t.Errorf("%+v: %v", again, err)
	}
}

// Files that were written before this package existed have these keys; they are read, and written again as they were.
func TestFilesStayReadable(t *testing.T) {
	t.Parallel()
	const table = `{"name":"t","title":"T","head":"method","detail":true,"columns":[` +
		`{"name":"AUC","means":"area","digits":1,"better":"higher"}],"rows":[{"name":"a",` +
		`"cells":[{"value":1.5,"spread":0.5}]}]}`
	figures := []string{
		`{"name":"h","title":"H","heat":{"title":"true","rowTitle":"from","columnTitle":"to","rows":["r"],` +
			`"columns":["c"],"values":[[1]],"low":0,"high":1,"beside":{"title":"learned","rowTitle":"",` +
			`"columnTitle":"","rows":null,"columns":null,"values":[[null]],"low":0,"high":1}},"caption":"Alike."}`,
		`{"name":"l","title":"L","lines":{"xTitle":"x","yTitle":"y","series":[{"name":"s","x":[0],"y":[1],"low":[0],` +
			`"high":[2],"reference":true}],"logX":true,"logY":true,"shares":true,"diagonal":true}}`,
		`{"name":"b","title":"B","bars":{"yTitle":"risk","groups":["g"],"series":[{"name":"s","values":[3],` +
			`"errors":[1]}]}}`,
		`{"name":"i","title":"I","intervals":{"xTitle":"risk","legend":"95%","digits":2,"rows":[{"name":"a",` +
			`"group":"g","estimate":2,"low":1,"high":null,"truth":2.5}]}}`,
	}
	same := func(raw string, into any) {
		t.Helper()
		d := json.NewDecoder(strings.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(into); err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(into); err != nil || string(got) != raw {
			t.Errorf("written again it is\n%s, was\n%s: %v", got, raw, err)
		}
	}
	same(table, new(Table))
	for _, f := range figures {
		same(f, new(Figure))
	}
}

func TestColumnNames(t *testing.T) {
	t.Parallel()
	for heading, want := range map[string]string{"AUC": "auc", "R_AP − R": "r_ap_minus_r", "π̂ err": "propensity_err",
		"ŷ": "link", "B̂": "b_hat", "n = 10·C³·log C": "n_10_c3_log_c", "16000 s": "n_16000_s", "": "n",
		"source's field":               "sources_field",
		"mean relative error of π̂, %": "mean_relative_error_of_propensity_percent"} {
		if got := columnName(heading); got != want {
			t.Errorf("%q is %q, want %q", heading, got, want)
		}
	}
	if got, want := string(encodeCSV([][]string{{"a b", "a, b", "A-B"}})), "a_b,a_b_2,a_b_3\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestCSV(t *testing.T) {
	t.Parallel()
	nan, truth := Value(math.NaN()), Value(2.5)
	for _, test := range []struct {
		name string
		of   interface{ CSV() []byte }
		want string
	}{
		{"spread", Table{Head: "method", Columns: []Column{{Name: "AUC"}, {Name: "text, long"}}, Rows: []TableRow{
			{"a", []Cell{Spread(1.5, .5), Text(`x, "y"`)}}, {"b", []Cell{Number(2), {}}},
		}}, "method,auc,auc_sd,text_long\na,1.5,0.5,\"x, \"\"y\"\"\"\nb,2,,\n"},
		{"parts", Table{Head: "method", Columns: []Column{{Name: "less"}, {Name: "kept"}, {Name: "none"},
			{Name: "mixed"}}, Rows: []TableRow{
			{"a", []Cell{Text("−1.52 (−3.23, +0.08)", CellPart{"value", -1.52}, CellPart{"lower", -3.23},
				CellPart{"upper", .08}), Ratio(9, 10), {}, Number(1)}},
			{"b", []Cell{{}, Ratio(3, 10), {}, Text("2–", CellPart{"lower", 2}, CellPart{"upper", nan})}},
		}}, "method,less,less_lower,less_upper,kept,kept_of,none,mixed,mixed_lower,mixed_upper\n" +
			"a,-1.52,-3.23,0.08,9,10,,1,,\nb,,,,3,10,,,2,\n"},
		{"heat map", Figure{Heat: &HeatMap{RowTitle: "from", ColumnTitle: "to", Rows: []string{"r"},
			Columns: []string{"c", "d"}, Values: []Values{{1, math.NaN()}}}}, "from,to,value\nr,c,1\nr,d,\n"},
		{"two heat maps", Figure{Heat: &HeatMap{Title: "true", RowTitle: "from", ColumnTitle: "to", Rows: []string{"r"},
			Columns: []string{"c"}, Values: []Values{{1}}, Beside: &HeatMap{Title: "learned", Values: []Values{{.5}}}}},
			"from,to,true,learned\nr,c,1,0.5\n"},
		{"lines", Figure{Lines: &LineChart{XTitle: "t", YTitle: "share", Series: []Series{{Name: "s", X: Values{0, 1},
			Y: Values{.5, .6}, Low: Values{.4, .5}, High: Values{.6}}}}},
			"series,t,share,low,high\ns,0,0.5,0.4,0.6\ns,1,0.6,0.5,\n"},
		{"bars", Figure{Bars: &BarChart{YTitle: "risk", Groups: []string{"g"},
			Series: []BarSeries{{Name: "s", Values: Values{3}}}}}, "series,group,risk,error\ns,g,3,\n"},
		{"intervals", Figure{Intervals: &IntervalChart{XTitle: "risk", Rows: []IntervalRow{
			{Name: "a", Group: "g", Estimate: 2, Low: 1, High: 3, Truth: &truth},
			{Name: "b", Estimate: 2, Low: nan, High: 2}}}},
			"group,name,risk,low,high,truth\ng,a,2,1,3,2.5\n,b,2,,2,\n"},
	} {
		if got := string(test.of.CSV()); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		of   interface{ Check() error }
		want string
	}{
		{Table{Columns: []Column{{}}, Rows: []TableRow{{"a", []Cell{{}}}}}, ""},
		{Table{Columns: []Column{{}}, Rows: []TableRow{{"a", nil}}}, `row "a" has 0 cells for 1 columns`},
		{Figure{Bars: &BarChart{}}, ""},
		{Figure{}, "of 0 kinds"},
		{Figure{Bars: &BarChart{}, Heat: &HeatMap{}}, "of 2 kinds"},
		{Figure{Heat: &HeatMap{Rows: []string{"a"}}}, "0 rows of numbers for 1 names"},
		{Figure{Heat: &HeatMap{Rows: []string{"a"}, Values: []Values{{1}}, Beside: &HeatMap{Title: "b"}}},
			`heat map "b"`},
	} {
		err := test.of.Check()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.of, err, test.want)
		}
	}
}

func TestContrast(t *testing.T) {
	t.Parallel()
	if c := contrast(rgb(0), rgb(0xffffff)); math.Abs(c-21) > 1e-9 {
		t.Fatalf("black on white is %v", c)
	}
	atLeast := func(front, back Ink, least float64) {
		t.Helper()
		for screen, c := range map[string]float64{"light": contrast(palette[front].light, palette[back].light),
			"dark": contrast(palette[front].dark, palette[back].dark)} {
			if c < least {
				t.Errorf("%s on %s has a contrast of %.2f on %s screens, want %v", front, back, c, screen, least)
			}
		}
	}
	for _, back := range []Ink{InkPage, InkPaper} {
		for _, front := range []Ink{InkText, InkMuted, InkLink} {
			atLeast(front, back, 4.5)
		}
	}
	for _, tone := range tones {
		atLeast(Ink(tone), Ink(tone+"-back"), 4.5)
		atLeast(InkText, Ink(tone+"-back"), 4.5)
	}
	for i := range seriesInks {
		atLeast(SeriesInk(i), InkPaper, 3)
	}
	atLeast(InkTruth, InkPaper, 3)
	for level := range HeatLevels {
		fill, text := heatInks(level)
		atLeast(text, fill, 4.5)
	}
}

func TestInks(t *testing.T) {
	t.Parallel()
	for position, want := range map[float64]Ink{-1: "h0", 0: "h0", .5: "h15", 1: "h31", 7: "h31"} {
		if got, _ := HeatInk(position); got != want {
			t.Errorf("%v is %s, want %s", position, got, want)
		}
	}
	if got := []string{InkPage.Hex(), SeriesInk(0).Hex(), SeriesInk(8).Hex(), Ink("h0").Hex(),
		Ink("h31").Hex()}; !reflect.DeepEqual(got, []string{"#f4f5f7", "#1f5fc4", "#1f5fc4", "#eef3f9", "#0a2a57"}) {
		t.Errorf("the colours are %s", got)
	}
	css := StyleSheet()
	for _, want := range []string{":root{--page:#f4f5f7;", "--good-back:#d9f2e4;", "--h31:", "--t31:",
		"prefers-color-scheme:dark){:root{--page:#0d1117;"} {
		if !strings.Contains(css, want) {
			t.Errorf("the style sheet lacks %s", want)
		}
	}
}
