package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"unseen/figure"
	"unseen/study"
)

// studied writes a small study's files and returns their folder.
func studied(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	r := &study.Result{
		Study: "table1", Title: "Table 1", Options: study.Options{Seeds: study.Seeds(11, 5)},
		Claims: []study.Claim{{Statement: "a claim", Verdict: study.NotReproduced}},
		Figures: []figure.Figure{{Name: "f", Title: "F", Bars: &figure.BarChart{Groups: []string{"g"},
			Series: []figure.BarSeries{{Name: "s", Values: figure.Values{3}}}}}},
	}
	if _, err := study.Write(folder, []*study.Result{r}); err != nil {
		t.Fatal(err)
	}
	return folder
}

func TestReport(t *testing.T) {
	t.Parallel()
	folder := studied(t)
	page := filepath.Join(t.TempDir(), "page.html")
	figures := filepath.Join(t.TempDir(), "new", "figures")
	code, stdout, stderr := invoke("report", folder, "-o", page, "--figures", figures, "--title", "Mine & yours")
	if code != exitOK || stderr != "" || !strings.Contains(stdout, page+": 2 sections, ") ||
		!strings.Contains(stdout, "1 figures, each as SVG and PNG") {
		t.Fatalf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	first, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"<title>Mine &amp; yours</title>", "✗</span> not reproduced", "a claim", "table1.json",
		"SHA-256"} {
		if !strings.Contains(string(first), s) {
			t.Errorf("the page does not say %q", s)
		}
	}
	left, err := os.ReadDir(figures)
	if err != nil || len(left) != 2 || left[0].Name() != "table1-f.png" || left[1].Name() != "table1-f.svg" {
		t.Errorf("figures: %v, %v", left, err)
	}

	code, stdout, stderr = invoke("report", filepath.Join(folder, "table1.json"), "-o", page, "--title",
		"Mine & yours", "--json")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	var r reportMade
	decodeOne(t, stdout, &r)
	again, err := os.ReadFile(page)
	if err != nil || string(again) != string(first) || r.Bytes != int64(len(again)) || r.Page != page {
		t.Errorf("%+v: the page of the same file differs, or %v", r, err)
	}
}

func TestReportRefuses(t *testing.T) {
	t.Parallel()
	folder := studied(t)
	broken := filepath.Join(folder, "broken.json")
	if err := os.WriteFile(broken, []byte(`{"study": `), 0o644); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(t.TempDir(), "page.html")
	for line, want := range map[string]struct {
		code int
		says string
	}{
		"":                                {exitUsage, "name a run: results of unseen study --out, or a model"},
		broken + " -o " + page:            {exitFailure, broken + " is not JSON, or damaged"},
		folder + " -o " + page:            {exitFailure, broken + " is not JSON, or damaged"},
		folder + "/x -o " + page:          {exitFailure, folder + "/x: file does not exist; give results (.json)"},
		folder + "/table1.json --output=": {exitUsage, "--output is empty; give a file"},
		folder + "/table1.json -o " + folder +
			"/none/page.html": {exitFailure, "none/page.html: no such file or directory; make its folder first"},
		folder + " --figure x": {exitUsage, "unknown flag --figure; did you mean --figures?"},
	} {
		code, stdout, stderr := invoke(append([]string{"report"}, strings.Fields(line)...)...)
		if code != want.code || stdout != "" || !strings.HasPrefix(stderr, "unseen: ") ||
			!strings.Contains(stderr, want.says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q, want %d and one line that says %q", line, code, stdout,
				stderr, want.code, want.says)
		}
	}
	if _, err := os.Stat(page); err == nil {
		t.Error("a page was written all the same")
	}
	if code, stdout, _ := invoke("help", "report"); code != exitOK || !strings.Contains(stdout, "--figures") {
		t.Errorf("help: exit code %d", code)
	} else {
		fits80(t, stdout)
	}
}
