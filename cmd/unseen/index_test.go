package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"unseen/dataset"
)

// An index is made once, kept while the vectors are the same, mended when it is damaged, and updated when they change.
func TestIndexCommand(t *testing.T) {
	t.Parallel()
	from, model, naive := fitted(t)
	dir := filepath.Join(t.TempDir(), "papers")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	page := well(t, "index", dir, "--quiet")
	fits80(t, strings.ReplaceAll(page, dir, "papers"))
	if !strings.Contains(page, "new in") || !strings.Contains(page, "--model MODEL") {
		t.Errorf("the page says\n%s", page)
	}
	var made indexed
	read := func(want string, args ...string) {
		t.Helper()
		made = indexed{}
		decodeOne(t, well(t, append([]string{"index", dir, "--quiet", "--json"}, args...)...), &made)
		if made.Made != want || made.Vectors == 0 || made.Bytes == 0 {
			t.Errorf("%+v; want one that is %s", made, want)
		}
	}
	read("kept", "--model", model, "--model", naive)
	if len(made.Models) != 2 || made.Models[0].Recall.Queries == 0 || made.Models[0].Recall.Share < .9 ||
		made.Models[0].Exact <= 0 {
		t.Errorf("measured %+v", made.Models)
	}
	page = well(t, "index", dir, "--quiet", "--model", model)
	if fits80(t, strings.ReplaceAll(strings.ReplaceAll(page, dir, "papers"), model, "m")); !strings.Contains(page,
		"a list of ten takes") {
		t.Errorf("the page says\n%s", page)
	}
	read("new", "--force")
	lists := filepath.Join(t.TempDir(), "lists")
	if page := well(t, "recommend", naive, dir, "--all", "-o", lists, "--quiet"); !strings.Contains(page,
		"lists are exact: of 400 nodes, that is as fast") {
		t.Errorf("it does not say how lists were made:\n%s", page)
	}
	path := filepath.Join(dir, dataset.IndexFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)/2] ^= 4
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	lists = filepath.Join(t.TempDir(), "lists")
	if page := well(t, "recommend", model, dir, "--all", "-o", lists, "--quiet"); !strings.Contains(page,
		"unusable index") {
		t.Errorf("a damaged index is not named:\n%s", page)
	}
	read("new")
	well(t, "encode", dir, "--dim", "7", "--force", "--quiet")
	read("new") // all are others
	for _, c := range []struct{ says, args string }{
		{"name a dataset", "index"}, {"--links is 1", "index DIR --links 1"}, {"--width is 0", "index DIR --width 0"},
		{"--recall is 2", "index DIR --recall 2"}, {"--recall is 0", "serve DIR --recall 0"},
		{"other lists are exact", "recommend MODEL DIR p1 --exact"},
	} {
		args := strings.Fields(strings.NewReplacer("DIR", dir, "MODEL", model).Replace(c.args))
		if code, _, stderr := invoke(args...); code != exitUsage || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: exit code %d: %s", c.args, code, stderr)
		}
	}
}
