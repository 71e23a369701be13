package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"unseen/figure"
	"unseen/fit"
	"unseen/graph"
	"unseen/hint"
	"unseen/internal/racetest"
	"unseen/model"
	"unseen/report"
	"unseen/study"
)

func htmlOf(t *testing.T, d *report.Page) string {
	t.Helper()
	page, err := d.HTML()
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

func TestPageHasEverything(t *testing.T) {
	t.Parallel()
	page := htmlOf(t, sample())
	for _, s := range []string{
		"<!doctype html>", "Summary", "Judged by the links that happen to exist", // summary
		"?</span> too small to tell", "By these numbers: reproduced.", "~</span> weak", // verdicts
		"training diverged", "quick version", // warnings
		// captions
		"6 of 8 intervals contain it", "Both maps have one scale", "The further to the upper left",
		"On the dotted diagonal", "A rising line",
		"log exposures on a small random share", "Settings and seeds", "2001, 2002", "area under the ROC curve",
		"96.42 <span class=\"spread\">± 0.31</span>",
		"&lt;script&gt;alert(1)&lt;/script&gt;", "Environmental Science → Computer Science: 0.", "no value",
		`scope="col"`, `scope="row"`, `role="img"`, `aria-label="True and learned. Heat map of 19 by 19 numbers`,
		"prefers-color-scheme:dark", "@media print",
	} {
		if !strings.Contains(page, s) {
			t.Errorf("the page does not have %q", s)
		}
	}
	for _, s := range []string{"<script", "http://", "https://", "url(", "@import", "NaN", "ZgotmplZ"} {
		if strings.Contains(page, s) {
			t.Errorf("the page has %q", s)
		}
	}
	if len(page) > 3_000_000 {
		t.Errorf("the page has %d bytes", len(page))
	}
}

func TestDeterminism(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "it starts no goroutine")
	page, again := htmlOf(t, sample()), htmlOf(t, sample())
	if page != again {
		t.Error("two pages of one document differ")
	}
	var first map[string][]byte
	for range 2 {
		folder := t.TempDir()
		d := sample()
		d.Sections = d.Sections[5:6]
		d.Sections[0].Figures = d.Sections[0].Figures[:2] // pictures are slow under the race detector
		paths, err := d.WriteFigures(folder)
		if err != nil {
			t.Fatal(err)
		}
		files := map[string][]byte{}
		for _, p := range paths {
			raw, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			files[filepath.Base(p)] = raw
		}
		if first == nil {
			first = files
			continue
		}
		if len(files) != len(first) || len(files) != 4 {
			t.Errorf("%d files, then %d", len(first), len(files))
		}
		for name, raw := range files {
			if !bytes.Equal(raw, first[name]) {
				t.Errorf("%s differs", name)
			}
		}
	}
}

func TestDocumentRoundTrip(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	d := sample()
	path := filepath.Join(folder, "demo.json")
	if err := d.WriteJSON(path); err != nil {
		t.Fatal(err)
	}
	again, err := report.Open("", folder)
	if err != nil {
		t.Fatal(err)
	}
	if again.Title != d.Title || len(again.Sections) != len(d.Sections)+1 {
		t.Fatalf("title %q and %d sections", again.Title, len(again.Sections))
	}
	files := again.Sections[len(d.Sections)]
	if len(files.Facts) != 1 || files.Facts[0].Name != "demo.json" || len(files.Facts[0].Value) != len("SHA-256 ")+64 {
		t.Errorf("files are %+v", files)
	}
	again.Sections = again.Sections[:len(d.Sections)]
	if htmlOf(t, again) != htmlOf(t, d) {
		t.Error("the document read again gives another page")
	}
}

// result is a study's, as unseen study --out writes it.
func result() *study.Result {
	return &study.Result{
		Study: "table1", Title: "Table 1", Options: study.Options{Seeds: study.Seeds(7, 5), Preset: "safe"},
		Claims: []study.Claim{{Statement: "a", Verdict: study.Met}},
		Tables: []figure.Table{{Name: "t", Title: "T", Head: "m",
			Columns: []figure.Column{{Name: "AUC", Better: "higher", Digits: 1}},
			Rows:    []figure.TableRow{{Name: "x", Cells: []figure.Cell{figure.Spread(96, .5)}}}}},
	}
}

func TestOpenStudies(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if _, err := study.Write(folder, []*study.Result{result()}); err != nil {
		t.Fatal(err)
	}
	printed, err := json.Marshal(map[string]any{"studies": []*study.Result{result(), result()}})
	if err != nil {
		t.Fatal(err)
	}
	stdout := filepath.Join(t.TempDir(), "stdout.json")
	if err := os.WriteFile(stdout, append([]byte("\xef\xbb\xbf"), printed...), 0o644); err != nil {
		t.Fatal(err)
	}
	for run, sections := range map[string]int{folder: 2, filepath.Join(folder, "table1.json"): 2, stdout: 3} {
		d, err := report.Open("", run)
		if err != nil {
			t.Errorf("%s: %v", run, err)
			continue
		}
		page := htmlOf(t, d)
		if len(d.Sections) != sections || !strings.Contains(page, "Of 1 claims: 1 met.") ||
			!strings.Contains(page, "mean ± one standard deviation") {
			t.Errorf("%s: %d sections, summary %q", run, len(d.Sections), d.Summary)
		}
	}
	d, err := report.Open("My title", folder, stdout)
	if err != nil || d.Title != "My title" || len(d.Sections) != 4 {
		t.Errorf("%+v: %v", d, err)
	}
	if _, err := d.HTML(); err != nil {
		t.Error(err)
	}
}

// tiny saves a model of three nodes and returns its path.
func tiny(t *testing.T, findings any) string {
	t.Helper()
	vectors, err := graph.NewVectors(3, 2)
	if err != nil {
		t.Fatal(err)
	}
	nodes := model.Nodes{Vectors: vectors, Fields: []uint16{1, 1, 2}, FieldCount: 3,
		FieldNames: []string{"unknown", "Art & Craft", "Law"}}
	link, err := model.NewDiagonal(nodes, false)
	if err != nil {
		t.Fatal(err)
	}
	propensity, err := model.NewFieldMatrix(nodes)
	if err != nil {
		t.Fatal(err)
	}
	m := model.Model{
		Link: link, LinkParams: make([]float32, link.Size()), Propensity: propensity,
		PropensityParams: make([]float32, propensity.Size()),
		Method:           "bayes", Seed: 41, DataChecksum: "0123abcd",
		Hyperparameters: json.RawMessage(`{"method":"bayes","adam":{"rate":0.001},"starts":[0.3,0.9],"anchors":null}`),
	}
	if findings != nil {
		if m.Findings, err = json.Marshal(findings); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "tiny.safetensors")
	if err := model.Save(path, m); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpenModel(t *testing.T) {
	t.Parallel()
	f := &fit.Findings{Class: fit.NotIdentified, Verdict: []string{"The scale is not identified: nothing is.",
		"More."}, Advice: []hint.Note{hint.Notef("log exposures")},
		Cells: []fit.CellFinding{{Source: 1, Target: 2, Propensity: .25, Links: 3}}}
	d, err := report.Open("", tiny(t, f))
	if err != nil {
		t.Fatal(err)
	}
	page := htmlOf(t, d)
	for _, s := range []string{"Model tiny.safetensors",
		"Model tiny.safetensors. The scale is not identified: nothing is.", "✗</span> not identified", "0123abcd",
		"<dd>41</dd>", "field-matrix",
		"adam.rate", "0.001", "0.3, 0.9", "Art &amp; Craft → Law: 0.25", "log exposures", "model digest (SHA-256)"} {
		if !strings.Contains(page, s) {
			t.Errorf("the page does not have %q", s)
		}
	}
	d, err = report.Open("", tiny(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	if page := htmlOf(t, d); !strings.Contains(page, "The doctor has not examined this model") {
		t.Error("a model without findings is not said to be one")
	}
}

// Whatever is wrong with a run: one error that names it and what to do.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	cut, err := os.ReadFile(tiny(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	stranger := filepath.Join(folder, "stranger.safetensors")
	if err := (&model.File{Metadata: map[string]string{"format": "pt"},
		Tensors: []model.Tensor{{Name: "w", Shape: []int{1}, Data: []float32{1}}}}).Save(stranger); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, content, says string }{
		{"text.json", "hello", "is not JSON, or damaged"},
		{"cut.json", `{"study": "table1", "tables": [`, "is not JSON, or damaged"},
		{"other.json", `{"name": "x"}`, "not the results of a study, an evaluation, a dial or a report"},
		{"list.json", `[1]`, "is not JSON, or damaged"},
		{"evaluated.json", `{"kind": "unseen-evaluation"}`, "it has no panel"},
		{"otherwise.json", `{"kind": "unseen-evaluation", "panel": 3}`, "is damaged"},
		{"dial.json", `{"kind": "unseen-dial", "curves": [{"name": "diversity"}]}`, "it has no curve"},
		{"dialled.json", `{"kind": "unseen-dial", "curves": 3}`, "is damaged"},
		{"wrong.json", `{"study": "t", "tables": 1}`, "is damaged"},
		{"null.json", `{"studies": [null]}`, "a study without content"},
		{"doc.json", `{"sections": [{"tables": "x"}]}`, "is damaged"},
		{"none.json", `{"sections": []}`, "is damaged"},
		{"cells.json", `{"study":"t","tables":[{"columns":[{"name":"a"}],"rows":[{"name":"r","cells":[]}]}]}`,
			"0 cells for 1 columns"},
		{"cut.safetensors", string(cut[:len(cut)-5]), "cut.safetensors"},
		{"text.safetensors", "hello", "text.safetensors"},
		{"missing", "", "file does not exist"},
		{"empty", "", "has no results (.json) and no model (.safetensors)"},
		{"stranger.safetensors", "", "not a model of unseen"},
	} {
		path := filepath.Join(folder, c.name)
		if c.content != "" {
			if err := os.WriteFile(path, []byte(c.content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		d, err := report.Open("", path)
		if err == nil || d != nil || !errors.Is(err, report.ErrRun) || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(err.Error(), c.name) || !strings.Contains(err.Error(), "; ") {
			t.Errorf("%s: %v, want an error that names it and says %q", path, err, c.says)
		}
	}
	if _, err := report.Open("", filepath.Join(folder, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is missing: %v", err)
	}
	if _, err := report.Open(""); !errors.Is(err, report.ErrRun) {
		t.Errorf("no run: %v", err)
	}
}

// A page that cannot be written leaves the old one, and nothing beside it.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	target := filepath.Join(folder, "report.html")
	if err := os.Mkdir(target, 0o755); err != nil { // a folder is in the way
		t.Fatal(err)
	}
	d := &report.Page{Title: "x", Summary: []string{"y"}}
	for _, path := range []string{target, filepath.Join(folder, "missing", "x.html")} {
		if err := d.WriteHTML(path); err == nil || !strings.Contains(err.Error(), "cannot write "+path) ||
			!strings.Contains(err.Error(), "; ") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("%v are left: %v", left, err)
	}
	if _, err := d.WriteFigures(filepath.Join(target, "x")); err != nil {
		t.Errorf("a folder in a folder: %v", err)
	}
	file := filepath.Join(folder, "file")
	if err := d.WriteHTML(file); err != nil {
		t.Fatal(err)
	}
	if _, err := d.WriteFigures(filepath.Join(file, "x")); err == nil ||
		!strings.Contains(err.Error(), "choose another") {
		t.Errorf("a folder in a file: %v", err)
	}
}

// Long tables end where a page would no longer be read, and say so.
func TestLongTable(t *testing.T) {
	t.Parallel()
	table := figure.Table{Name: "long", Title: "Long", Columns: []figure.Column{{Name: "x"}}}
	for range 500 {
		table.Add("r", figure.Number(-1))
	}
	page := htmlOf(t, &report.Page{Title: "x",
		Sections: []report.Section{{Title: "y", Tables: []figure.Table{table}}}})
	if n := strings.Count(page, "<td>−1</td>"); n != 400 ||
		!strings.Contains(page, "100 more rows are in the files of the run") {
		t.Errorf("%d rows are shown", n)
	}
}

func FuzzOpen(f *testing.F) {
	raw, err := json.Marshal(result())
	if err != nil {
		f.Fatal(err)
	}
	document, err := json.Marshal(report.Page{Title: "x", Sections: []report.Section{
		report.RiskChart{Title: "p", Rows: []report.RiskRow{{Name: "a", Estimate: 1, Lower: 0, Upper: 2}}}.Section(),
		report.HeatPair{Title: "h", Labels: []string{"a"}, True: [][]float64{{1}},
			Learned: [][]float64{{.5}}}.Section(),
		report.LoopChart{Title: "l", Lines: []figure.Series{{Name: "n", X: figure.Values{0, 1},
			Y: figure.Values{.4, .6}}}}.Section(),
	}})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{raw, document, []byte(`{"studies":[{}]}`),
		[]byte(`{"study":"x","figures":[{"heat":{"rows":["a"],"values":[null]}}]}`)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), "x.json")
		if err := os.WriteFile(path, raw, 0o644); err != nil {
			t.Fatal(err)
		}
		d, err := report.Open("", path)
		if err != nil {
			if !errors.Is(err, report.ErrRun) {
				t.Fatal(err)
			}
			return
		}
		page, err := d.HTML()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(page, []byte("<script")) {
			t.Error("the page has a script")
		}
	})
}

// A study of enough seeds has its verdicts, each with a sign for those who see no colours.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	r := result()
	r.Claims = nil
	for _, v := range []study.Verdict{study.Reproduced, study.Partly, study.NotReproduced, study.Met, study.Missed} {
		r.Claims = append(r.Claims, study.Claim{Statement: "a", Verdict: v})
	}
	page := htmlOf(t, &report.Page{Title: "t", Sections: []report.Section{report.StudySection(r)}})
	for _, s := range []string{"✓</span> reproduced", "~</span> partly", "✗</span> not reproduced", "✓</span> met",
		"✗</span> missed"} {
		if !strings.Contains(page, s) {
			t.Errorf("the page does not have %q", s)
		}
	}
	r.Options.Seeds = r.Options.Seeds[:4]
	page = htmlOf(t, &report.Page{Title: "t", Sections: []report.Section{report.StudySection(r)}})
	if strings.Contains(page, "✓") || strings.Contains(page, "✗") ||
		!strings.Contains(page, "too small to tell (4 seeds)") {
		t.Error("four seeds give a verdict")
	}
}
