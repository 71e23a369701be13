package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"unseen/figure"
	"unseen/fit"
	"unseen/internal/racetest"
	"unseen/risk"
	"unseen/study"
)

var update = flag.Bool("update", false, "rewrite testdata")

// wellFormed reads XML to its end and returns its text.
func wellFormed(t *testing.T, text string) string {
	t.Helper()
	var said strings.Builder
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return said.String()
		}
		if err != nil {
			t.Fatalf("not XML: %v in %s", err, text)
		}
		if chars, ok := token.(xml.CharData); ok {
			said.Write(chars)
		}
	}
}

func TestGoldenFigure(t *testing.T) {
	t.Parallel()
	f := figure.Figure{Name: "tiny", Title: "Tiny <figure>", Lines: &figure.LineChart{XTitle: "round", YTitle: "share",
		Series: []figure.Series{
			{Name: "naive", X: figure.Values{0, 1, 2}, Y: figure.Values{.2, .4, .8}, Low: figure.Values{.1, .3, .7},
				High: figure.Values{.3, .5, .9}},
			{Name: "truth", X: figure.Values{0, 2}, Y: figure.Values{.25, .25}, Reference: true},
		}}}
	got := drawFigure(f, narrowWidth, true).svg(false)
	wellFormed(t, got)
	path := filepath.Join("testdata", "tiny.svg")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != strings.ReplaceAll(string(want), "\r\n", "\n") {
		t.Errorf("the figure has changed; look at it and run go test ./report -run Golden -update:\n%s", got)
	}
}

// hostile is what no page may run.
const hostile = `<script>alert("1")</script>&'</svg>` + "\x00\x0b\xff"

func hostileDocument() *Page {
	figures := []figure.Figure{
		{Name: hostile, Title: hostile, Caption: hostile, Heat: &figure.HeatMap{Title: hostile, RowTitle: hostile,
			ColumnTitle: hostile, Rows: []string{hostile}, Columns: []string{hostile}, Values: []figure.Values{{1}}}},
		{Name: hostile, Title: hostile, Lines: &figure.LineChart{XTitle: hostile, YTitle: hostile,
			Series: []figure.Series{{Name: hostile, X: figure.Values{1, 2}, Y: figure.Values{1, 2}}, {Name: hostile}}}},
		{Name: "../../" + hostile, Title: hostile, Bars: &figure.BarChart{YTitle: hostile, Groups: []string{hostile},
			Series: []figure.BarSeries{{Name: hostile, Values: figure.Values{1}}}}},
		{Name: hostile, Title: hostile, Intervals: &figure.IntervalChart{XTitle: hostile, Legend: hostile,
			Rows: []figure.IntervalRow{{Name: hostile, Group: hostile, Estimate: 1, Low: 0, High: 2}}}},
	}
	return &Page{Title: hostile, Summary: []string{hostile}, Sections: []Section{{
		Name: hostile, Title: hostile, Text: []string{hostile}, Warnings: []string{hostile},
		Claims: []study.Claim{{Statement: hostile, Verdict: study.Verdict(hostile), Evidence: hostile}},
		Advice: []string{hostile}, Figures: figures, Notes: []string{hostile}, Facts: []Fact{{hostile, hostile}},
		FactsTitle: hostile,
		Tables: []figure.Table{{Name: hostile, Title: hostile, Head: hostile,
			Columns: []figure.Column{{Name: hostile, Means: hostile}},
			Rows:    []figure.TableRow{{Name: hostile, Cells: []figure.Cell{figure.Text(hostile)}}}}},
	}}}
}

func TestEscaping(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "it starts no goroutine")
	d := hostileDocument()
	page, err := d.HTML()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(page, []byte("<script")) || bytes.Contains(page, []byte("alert(\"")) {
		t.Error("the page has a script in it")
	}
	if opened, closed := bytes.Count(page, []byte("<svg")), bytes.Count(page, []byte("</svg>")); opened != closed ||
		opened != 2*len(d.Sections[0].Figures) {
		t.Errorf("%d drawings are opened and %d closed", opened, closed)
	}
	folder := t.TempDir()
	f := d.Sections[0].Figures
	d.Sections[0].Figures = []figure.Figure{f[0], f[2], f[3]} // the others are large, and the race detector is slow
	paths, err := d.WriteFigures(folder)
	if err != nil || len(paths) != 6 {
		t.Fatalf("%v: %v", paths, err)
	}
	for i, path := range paths {
		if filepath.Dir(path) != folder || slices.Index(paths, path) != i {
			t.Errorf("%s is elsewhere or there twice", path)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, ".svg") {
			if text := wellFormed(t, string(raw)); !strings.Contains(text, `<script>`) {
				t.Errorf("%s does not show the title as it is", path)
			}
		} else if _, err := png.Decode(bytes.NewReader(raw)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Figures of numbers that are missing, infinite, equal, huge, tiny or not there at all are drawings all the same.
func TestOddNumbers(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	truth := func(x float64) *figure.Value { m := figure.Value(x); return &m }
	numbers := []figure.Values{nil, {}, {nan}, {nan, nan, nan}, {inf, -inf, 1}, {1}, {0, 0, 0}, {5, 5, 5},
		{-1, nan, 1}, {1e300, -1e300, 0}, {math.MaxFloat64, -math.MaxFloat64}, {1e-300, 2e-300, 0},
		{1e9, 1e9 + 1, 1e9 + 2}, {-5, -4}}
	var figures []figure.Figure
	for _, n := range numbers {
		for _, log := range []bool{false, true} {
			figures = append(figures, figure.Figure{Lines: &figure.LineChart{LogX: log, LogY: log, Diagonal: true,
				Series: []figure.Series{{X: figure.Values{1, 2, 3}, Y: n, Low: n, High: n}, {X: n, Y: n},
					{Reference: true, X: n}}}})
		}
		figures = append(figures,
			figure.Figure{Lines: &figure.LineChart{Shares: true, Series: []figure.Series{{X: n, Y: n}}}},
			figure.Figure{Bars: &figure.BarChart{Groups: []string{"a", "b", "c"},
				Series: []figure.BarSeries{{Values: n, Errors: n}, {Values: figure.Values{1, 2, 3}, Errors: n}}}},
			figure.Figure{Heat: &figure.HeatMap{Rows: []string{"a"}, Columns: []string{"b", "c"},
				Values: []figure.Values{n, n}, Beside: &figure.HeatMap{Values: []figure.Values{n}}}},
			figure.Figure{Heat: &figure.HeatMap{Low: nan, High: inf, Values: []figure.Values{n}}})
		v := &figure.IntervalChart{}
		for i := range n {
			v.Rows = append(v.Rows, figure.IntervalRow{Name: "a", Estimate: figure.Value(n[i]),
				Low: figure.Value(n[len(n)-1-i]), High: figure.Value(n[i]), Truth: truth(n[0])})
		}
		figures = append(figures, figure.Figure{Intervals: v})
	}
	many := make(figure.Values, 500)
	figures = append(figures,
		figure.Figure{Heat: &figure.HeatMap{Rows: make([]string, 500), Columns: make([]string, 500),
			Values: []figure.Values{many}}},
		figure.Figure{Bars: &figure.BarChart{Groups: make([]string, 500), Series: []figure.BarSeries{{Values: many}}}},
		figure.Figure{Intervals: &figure.IntervalChart{Rows: make([]figure.IntervalRow, 500)}},
		figure.Figure{Lines: &figure.LineChart{Series: make([]figure.Series, 500)}})
	figures = append(figures, figure.Figure{}, figure.Figure{Heat: &figure.HeatMap{}},
		figure.Figure{Lines: &figure.LineChart{}}, figure.Figure{Bars: &figure.BarChart{}},
		figure.Figure{Intervals: &figure.IntervalChart{}})
	for i, f := range figures {
		for _, width := range []float64{wideWidth, narrowWidth} {
			d := drawFigure(f, width, true)
			text := d.svg(false)
			wellFormed(t, text)
			if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
				t.Errorf("figure %d, %+v: not all coordinates are numbers:\n%s", i, f, text)
			}
			if !(d.height > 20 && d.height < 2000) {
				t.Errorf("figure %d is %v high", i, d.height)
			}
		}
		if i%30 == 0 { // they take a while
			if _, err := drawFigure(f, narrowWidth, true).png(); err != nil {
				t.Errorf("figure %d: %v", i, err)
			}
		}
	}
}

// A picture of known shapes has their colours where they are.
func TestPNG(t *testing.T) {
	t.Parallel()
	d := &drawing{width: 100, height: 60}
	d.add(box{10, 10, 20, 20, figure.SeriesInk(0), ""}, stroke{points: []point{{40, 20}, {60, 20}, {60, 40}},
		ink: figure.SeriesInk(1), width: 6},
		mark{80, 20, disc, figure.SeriesInk(2), ""}, mark{80, 40, ring, figure.SeriesInk(3), ""},
		area{[]point{{5, 45}, {35, 45}, {35, 58}, {5, 58}}, figure.SeriesInk(0), .5},
		words{x: 40, y: 55, text: "MMM", size: 12, ink: figure.InkText})
	raw, err := d.png()
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(raw))
	if err != nil || img.Bounds().Dx() != 200 || img.Bounds().Dy() != 120 {
		t.Fatalf("%v: %v", img.Bounds(), err)
	}
	at := func(x, y float64) string {
		r, g, b, _ := img.At(int(x*pngScale), int(y*pngScale)).RGBA()
		return fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8)
	}
	light := func(i figure.Ink) string { return i.Hex() }
	for _, c := range []struct {
		what, got, want string
	}{
		{"inside the box", at(20, 20), light(figure.SeriesInk(0))}, {"outside", at(5, 5), light(figure.InkPaper)},
		{"on the line", at(50, 20), light(figure.SeriesInk(1))}, {"at its corner", at(60, 20),
			light(figure.SeriesInk(1))},
		{"beside it", at(50, 26), light(figure.InkPaper)},
		{"in the disc", at(80, 20), light(figure.SeriesInk(2))}, {"in the ring's hole", at(80, 40),
			light(figure.InkPaper)},
		{"on the ring", at(80-markRadius, 40), light(figure.SeriesInk(3))},
	} {
		if c.got != c.want {
			t.Errorf("%s it is %s, want %s", c.what, c.got, c.want)
		}
	}
	// half of blue over white
	if got := img.At(40, 100); got == nil || at(20, 50) == light(figure.InkPaper) ||
		at(20, 50) == light(figure.SeriesInk(0)) {
		t.Errorf("the area is %s", at(20, 50))
	}
	dark := 0
	for x := 40; x < 75; x++ {
		if at(float64(x), 51) == light(figure.InkText) {
			dark++
		}
	}
	if dark < 4 {
		t.Errorf("the letters cover %d of 35 points", dark)
	}
}

func TestAxis(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		numbers []float64
		log     bool
		want    string
	}{
		{[]float64{0, 1}, false, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{[]float64{-30, 250_000}, false, "−50,000 0 50,000 100,000 150,000 200,000 250,000"},
		{[]float64{96.2, 96.9}, false, "96.2 96.4 96.6 96.8 97.0"},
		{nil, false, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{[]float64{7}, false, "6.0 6.5 7.0 7.5 8.0"},
		{[]float64{1e-4, 1}, true, "0.0001 0.001 0.01 0.1 1"},
		{[]float64{.65, 1.4}, true, "0.8 1.0 1.2 1.4"},
		{[]float64{0, -3, 20, 90}, true, "20 40 60 80"},
	} {
		var got []string
		a := newAxis(c.numbers, c.log, 5)
		for _, tick := range a.ticks {
			got = append(got, tick.text)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v: ticks %q, want %q", c.numbers, got, c.want)
		}
		for _, x := range c.numbers {
			if x > 0 && math.IsNaN(a.at(x)) {
				t.Errorf("%v is at %v, outside of the axis", x, a.at(x))
			}
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		x      float64
		digits int
		want   string
	}{{0, 0, "0"}, {-.001, 2, "0.00"}, {-1234.5, 1, "−1,234.5"}, {1e6, 0, "1,000,000"}, {math.NaN(), 2, "no value"},
		{math.Inf(-1), 2, "−∞"}, {999, 0, "999"}} {
		if got := number(c.x, c.digits); got != c.want {
			t.Errorf("number(%v, %d) is %q, want %q", c.x, c.digits, got, c.want)
		}
	}
	for x, want := range map[float64]string{.0457123: "0.0457", 12.345: "12.3", 54321: "54,321", 0: "0"} {
		if got := brief(x); got != want {
			t.Errorf("brief(%v) is %q, want %q", x, got, want)
		}
	}
}

func TestThin(t *testing.T) {
	t.Parallel()
	var curve []point
	for k := range 20_001 {
		x := float64(k) / 50
		curve = append(curve, point{x, 100 * math.Sin(x/40)})
	}
	kept := thin(curve)
	if len(kept) > 200 || kept[0] != curve[0] || kept[len(kept)-1] != curve[len(curve)-1] {
		t.Errorf("%d points of %d are left", len(kept), len(curve))
	}
	for _, p := range curve {
		least := math.Inf(1)
		for i := 1; i < len(kept); i++ {
			least = math.Min(least, distance(p, kept[i-1], kept[i]))
		}
		if least > .1+1e-9 {
			t.Fatalf("%v is %v from the line", p, least)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	if w, hat := measure("π", 12, false), measure("π̂", 12, false); w != hat || w <= 0 {
		t.Errorf("π is %v wide, π̂ %v", w, hat)
	}
	if raised, plain := measure("10⁻⁴", 12, false), measure("10−4", 12, false); raised >= plain {
		t.Errorf("raised figures are %v wide, plain ones %v", raised, plain)
	}
	long := "Environmental Science and Ecology of π̂̂"
	for width := 10.; width < 300; width += 7 {
		short := clip(long, 12, width)
		if measure(short, 12, false) > width && short != "…" {
			t.Errorf("%q does not fit into %v", short, width)
		}
		for _, line := range wrapped(long, 12, width, 2) {
			if measure(line, 12, false) > width && line != "…" {
				t.Errorf("line %q does not fit into %v", line, width)
			}
		}
	}
	if got := wrapped("a b", 12, 500, 2); !slices.Equal(got, []string{"a b"}) {
		t.Errorf("got %q", got)
	}
}

func TestDashes(t *testing.T) {
	t.Parallel()
	pieces := dashes([]point{{0, 0}, {10, 0}, {10, 10}}, []float64{3, 2})
	length := 0.
	for _, p := range pieces {
		for i := 1; i < len(p); i++ {
			length += math.Hypot(p[i].x-p[i-1].x, p[i].y-p[i-1].y)
		}
	}
	if len(pieces) != 4 || math.Abs(length-12) > 1e-9 {
		t.Errorf("%d dashes of %v in all, want 4 of 12", len(pieces), length)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	d := Page{Sections: []Section{{Title: "Who is shown to whom?"}, {Name: "who-is-shown-to-whom"}, {Title: "π̂"},
		{Title: "Summary"}}}
	if got, want := d.names(), []string{"who-is-shown-to-whom", "who-is-shown-to-whom-2", "part",
		"summary-2"}; !slices.Equal(got, want) {
		t.Errorf("names are %q, want %q", got, want)
	}
}

func TestBadDocuments(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]*Page{
		"nothing": {Title: "x"},
		"cells": {Sections: []Section{{Tables: []figure.Table{{Columns: []figure.Column{{}},
			Rows: []figure.TableRow{{Name: "a"}}}}}}},
	} {
		path := filepath.Join(t.TempDir(), "x")
		_, figures := d.WriteFigures(path)
		for _, err := range []error{d.WriteHTML(path), d.WriteJSON(path), figures} {
			if !errors.Is(err, ErrPage) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: something was written", name)
		}
	}
}

// Off the scale is only who would make one dot of all others.
func TestNearby(t *testing.T) {
	t.Parallel()
	some := []float64{96, 96.1, 96.2, 96.3, 96.4, 96.5, 96.6, 96.7, 96.8, 96.9, 97, 97.1}
	if got := nearby(append(slices.Clone(some), 19.8)); !slices.Equal(got, some) {
		t.Errorf("left are %v", got)
	}
	if got := nearby(append(slices.Clone(some), 95)); len(got) != len(some)+1 {
		t.Errorf("left are %v", got)
	}
}

// A model that was not checked is never green.
func TestNotCheckedIsNotGreen(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]*fit.Findings{
		"no findings": nil, "no class": {}, "a quick doctor": {Class: fit.NotChecked},
		"another method": {Class: fit.Unmeasured}, "weak": {Class: fit.Weak},
		"not identified": {Class: fit.NotIdentified},
	} {
		page := Page{Title: "A model"}
		page.Add(DoctorVerdict{Findings: f})
		raw, err := page.HTML()
		if err != nil {
			t.Fatal(err)
		}
		html := string(raw)
		says := "not checked"
		if f != nil {
			says = f.Class.Label()
		}
		if strings.Contains(html, `class="badge good"`) || !strings.Contains(html, says) {
			t.Errorf("%s: not %q", name, says)
		}
	}
	page := Page{Title: "A model"}
	page.Add(DoctorVerdict{Findings: &fit.Findings{Class: fit.Identified}})
	if html, err := page.HTML(); err != nil || !strings.Contains(string(html), "✓") {
		t.Error("identified is not green", err)
	}
}

// What a risk's interval has beyond sampling is from π̂ and ŷ, in whatever way it was found.
func TestErrorsAddUpToTheInterval(t *testing.T) {
	for _, r := range []fit.Judgement{
		{Interval: risk.Interval{StandardError: 5}, Sampling: 3, Nuisance: 0, BiasError: 1},
		{Interval: risk.Interval{StandardError: 2}, Sampling: 2},
	} {
		if got := math.Hypot(fromNuisances(r), r.Sampling); math.Abs(got-r.StandardError) > 1e-12 {
			t.Errorf("the parts of %+v add up to %v", r, got)
		}
	}
}
