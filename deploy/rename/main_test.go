package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"unseen/internal/racetest"
)

// What is renamed, and what only looks like it.
func TestIn(t *testing.T) {
	t.Parallel()
	r := renaming{"old", "example.org/new", mentions("old", []string{"cmd/old/main.go", "fit/fit.go", "docs/fit.md",
		"main.go"})}
	for before, want := range map[string]string{
		`import "old/fit"`:                 `import "example.org/new/fit"`,
		"go vet old/fit/... old/cmd/old":   "go vet example.org/new/fit/... example.org/new/cmd/old",
		"-X old/fit.Version=1":             "-X example.org/new/fit.Version=1",
		"old/fitness, old/docs, old/x":     "old/fitness, old/docs, old/x",
		"a/old/fit, -old/fit, ~old/fit":    "a/old/fit, -old/fit, ~old/fit",
		"cmd/old/main.go and old fit DATA": "cmd/old/main.go and old fit DATA",
		"\x00old/fit":                      "\x00old/fit",
	} {
		if got, err := r.in("page.md", []byte(before)); err != nil || string(got) != want {
			t.Errorf("%q becomes %q, %v", before, got, err)
		}
	}
	got, err := r.in("a.go", []byte("package a\n\nimport (\n\t\"fmt\"\n\n\t\"go.org/x\"\n\t\"old/fit\"\n)\n"))
	if want := "package a\n\nimport (\n\t\"fmt\"\n\n\t\"example.org/new/fit\"\n\t\"go.org/x\"\n)\n"; err != nil ||
		string(got) != want {
		t.Errorf("imports become %s, %v", got, err)
	}
	got, err = r.in("go.mod", []byte("module old/beam\n\ngo 1.26.0\n\nrequire old v0.0.0\n\nreplace old => ../\n"))
	if want := "module example.org/new/beam\n\ngo 1.26.0\n\nrequire example.org/new v0.0.0\n\nreplace " +
		"example.org/new => ../\n"; err != nil || string(got) != want {
		t.Errorf("go.mod becomes %s, %v", got, err)
	}
}

// A copy of this repository with another path still compiles, finds what its tests import too, passes the tests that
// read its sources, and imports the old path nowhere.
func TestRename(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles everything once more; ./check runs it without -short")
	}
	racetest.Skip(t, "it reads sources, and runs nothing")
	root := copied(t)
	const path = "example.org/a-team-with-a-long-name/recommendation/unseen"
	if n, err := rename(root, path); err != nil || n < 100 {
		t.Fatalf("%d files, %v", n, err)
	}
	if unformatted := command(t, root, "gofmt", "-l", "."); unformatted != "" {
		t.Errorf("gofmt would change %s", unformatted)
	}
	command(t, root, "go", "list", "-test", "-deps", "./...")
	command(t, root, "go", "build", "./...")
	command(t, root, "go", "test", "-short", "-vet=off", "./cmd/unseen", "-run",
		"Style|Archi|Glossary|ExportedTypes|TypesHaveOneName|Help|Reference|PagesName")
	command(t, filepath.Join(root, "beam"), "go", "list", path+"/beam/...", path+"/fit")
	before := `"unseen/fit"`
	for name, text := range sources(t, root) {
		if !strings.HasPrefix(name, "deploy/rename/") && strings.Contains(text, before) {
			t.Errorf("%s imports the old path", name)
		}
	}
	if _, err := rename(root, path); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("renamed to what it is: %v", err)
	}
	after := sources(t, root)
	for _, next := range []string{"example.com/another", path} { // there and back
		if _, err := rename(root, next); err != nil {
			t.Fatal(err)
		}
	}
	if !maps.Equal(after, sources(t, root)) {
		t.Error("renamed twice, back to what it was, it differs")
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"a.org/b", "c"}, {"unseen"}, {"https://example.org/unseen"},
		{"example.org/ x"}} {
		if err := run(args); err == nil || !strings.Contains(err.Error(), "example.org/team/unseen") {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// copied is the repository as git knows it, with a history of its own, in another folder.
func copied(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range sources(t, "../..") {
		to := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	command(t, root, "git", "init", "-q")
	return root
}

// sources are all files that git knows, or would.
func sources(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	list := command(t, root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	for name := range strings.SplitSeq(strings.TrimRight(list, "\x00"), "\x00") {
		raw, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // removed, but not committed
		}
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(raw)
	}
	return files
}

func command(t *testing.T, folder, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = folder
	c.Env = append(os.Environ(), "GOFLAGS=-trimpath") // so that what was compiled in another folder is found
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", c, err, out)
	}
	return string(out)
}
