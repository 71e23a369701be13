package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"unseen/dataset"
	"unseen/graph"
)

// chain is nodes that each link to the one before.
func chain(t *testing.T, n int, node func(i int) graph.Node) *graph.Graph {
	t.Helper()
	var b graph.Builder
	for i := range n {
		if _, err := b.AddNode(node(i)); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			if err := b.AddLinkIndex(int32(i), int32(i-1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	g, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// correspondence writes a dataset of n nodes that each link to the one before, with texts or without.
func correspondence(t *testing.T, n int, texts bool) string {
	t.Helper()
	content := dataset.Content{Graph: chain(t, n, func(i int) graph.Node {
		return graph.Node{ID: fmt.Sprint("letter ", i), Field: fmt.Sprint("field ", i%2)}
	})}
	if texts {
		content.Text = func(i int32) (string, error) { return "Dear reader", nil }
	}
	dir := filepath.Join(t.TempDir(), "letters")
	if _, err := dataset.Write(context.Background(), dir, content, dataset.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCheck(t *testing.T) {
	t.Parallel()
	dir := correspondence(t, 50, true)
	code, page, stderr := invoke("check", dir)
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	for _, says := range []string{"50 nodes, 49 links, 2 fields", "Good to know\n  - No node has a time"} {
		if !strings.Contains(page, says) {
			t.Errorf("the page does not say %q:\n%s", says, page)
		}
	}
	code, text, stderr := invoke("check", dir, "--json", "--quiet")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	var r dataset.CheckReport
	decodeOne(t, text, &r)
	if r.Nodes != 50 || len(r.Findings) != 2 || r.Findings[0].Kind != "no-time" || r.Findings[1].Kind != "no-vectors" {
		t.Errorf("%+v", r)
	}
}

// TestCheckFails wants faults on the page and an exit code that a script sees.
func TestCheckFails(t *testing.T) {
	t.Parallel()
	dir := correspondence(t, 30, false)
	for _, flags := range [][]string{nil, {"--json"}} {
		code, page, stderr := invoke(append([]string{"check", dir}, flags...)...)
		if code != exitFailure || !strings.Contains(stderr, "fix what is listed") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("exit code %d, stderr %q", code, stderr)
		}
		if !strings.Contains(page, "nodes cannot be compared") || !strings.Contains(page, "fewer than 20") {
			t.Errorf("the page says\n%s", page)
		}
		if flags == nil {
			for _, line := range strings.Split(page, "\n")[1:] { // the first names the folder
				fits80(t, line)
			}
		}
	}
	file := filepath.Join(dir, dataset.LinksFile)
	if err := os.WriteFile(file, []byte("not parquet"), 0o666); err != nil {
		t.Fatal(err)
	}
	code, page, stderr := invoke("check", dir)
	if code != exitFailure || page != "" || !strings.Contains(stderr, file) {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, page, stderr)
	}
	code, _, stderr = invoke("check", filepath.Join(dir, "absent"))
	if code != exitFailure || !strings.Contains(stderr, "absent") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	for _, args := range [][]string{{"check"}, {"check", "a", "b"}, {"check", ""}} {
		if code, _, stderr := invoke(args...); code != exitUsage || !strings.Contains(stderr, "unseen check papers") {
			t.Errorf("%v: exit code %d, stderr %q", args, code, stderr)
		}
	}
}

// A folder that pandas wrote is sealed if it is sound, and then nothing is said of it.
func TestCheckSeals(t *testing.T) {
	t.Parallel()
	dir := correspondence(t, 50, true)
	manifest := filepath.Join(dir, dataset.ManifestFile)
	if err := os.Remove(manifest); err != nil {
		t.Fatal(err)
	}
	if page := well(t, "check", dir, "--quiet"); !strings.Contains(strings.Join(strings.Fields(page), " "), "--seal") {
		t.Errorf("the page says\n%s", page)
	}
	if page := well(t, "check", dir, "--quiet", "--seal"); !strings.Contains(page, "Sealed: dataset.json") ||
		strings.Contains(page, "There is no dataset.json") {
		t.Errorf("the page says\n%s", page)
	}
	if _, err := os.Stat(manifest); err != nil {
		t.Error(err)
	}
	if page := well(t, "check", dir, "--quiet"); strings.Contains(page, "dataset.json") {
		t.Errorf("the page says\n%s", page)
	}
}

// Names that are nearly right are guessed.
func TestNearlyRightNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, says string }{
		{"study tabel1", "did you mean table1?"},
		{"study quantum", "there is table1"},
		{"fit --method bays", "did you mean bayes?"},
		{"fit --method quantum", "there is"},
	} {
		code, _, stderr := invoke(strings.Fields(c.line)...)
		if code != exitUsage || !strings.Contains(stderr, c.says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, stderr %q", c.line, code, stderr)
		}
	}
	dir := papers(t, 4)
	code, _, stderr := invoke("fit", dir, "--split", "chance", "--quiet")
	if code != exitUsage || !strings.Contains(stderr, "set --split to order, date, random, last-links, link-date, "+
		"random-links or whole") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

// What makes a fit slow is said before it begins.
func TestWideVectorsAreNamed(t *testing.T) {
	t.Parallel()
	g := chain(t, 60, func(i int) graph.Node { return graph.Node{ID: fmt.Sprint("w", i), Field: fmt.Sprint(i % 2)} })
	v, err := graph.NewVectors(60, 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if g, err = g.WithVectors(v); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "wide")
	if _, err := dataset.Write(context.Background(), dir, dataset.Content{Graph: g},
		dataset.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, _, stderr := invoke("fit", dir, "--split", "nonsense") // it need not be fitted to be told
	if !strings.Contains(stderr, "1,000 dimensions make this slow") || !strings.Contains(stderr, "unseen encode "+dir+
		" --encoder features --dim 128 --force") {
		t.Errorf("stderr %q", stderr)
	}
}

// Data that are too little to learn from are no wrong command line; what would help is named as a flag.
func TestFitOfTooLittleIsNoWrongUsage(t *testing.T) {
	t.Parallel()
	var b graph.Builder
	for i := range 100 {
		n := graph.Node{ID: fmt.Sprint("n", i), Field: "f", Time: time.Unix(int64(i)*86_400, 0)}
		if _, err := b.AddNode(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.AddLinkIndex(5, 3); err != nil {
		t.Fatal(err)
	}
	g, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	v, err := graph.NewVectors(100, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for i := range int32(100) {
		if err := v.Set(i, []float32{1, float32(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if g, err = g.WithVectors(v); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "papers")
	if _, err := dataset.Write(t.Context(), dir, dataset.Content{Graph: g}, dataset.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := invoke("fit", dir, "--quiet")
	if code != exitFailure || !strings.Contains(stderr, "none is linked: 1 link is elsewhere; set --split to whole") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}
