package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"unseen/dataset"
	"unseen/graph"
)

// correspondence writes a dataset of n nodes that each link to the one before, with texts or without.
func correspondence(t *testing.T, n int, texts bool) string {
	t.Helper()
	var b graph.Builder
	for i := range n {
		if _, err := b.AddNode(graph.Node{ID: fmt.Sprint("letter ", i), Field: fmt.Sprint("field ", i%2)}); err != nil {
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
	content := dataset.Content{Graph: g}
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
	var r dataset.Report
	decodeOne(t, text, &r)
	if r.Nodes != 50 || len(r.Findings) != 1 || r.Findings[0].Kind != "no-time" {
		t.Errorf("%+v", r)
	}
}

// TestCheckFails wants faults on the page and an exit code that a script sees.
func TestCheckFails(t *testing.T) {
	dir := correspondence(t, 30, false)
	for _, flags := range [][]string{nil, {"--json"}} {
		code, page, stderr := invoke(append([]string{"check", dir}, flags...)...)
		if code != exitFailure || !strings.Contains(stderr, "mend what is listed") || strings.Count(stderr, "\n") != 1 {
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
