package examples

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every example is short, runs, and prints what its first comment says.
func TestExamples(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs programs, and this is -short; ./check runs it once without")
	}
	programs, err := filepath.Glob("*/main.go")
	if err != nil || len(programs) < 4 {
		t.Fatalf("%d examples, want at least 4: %v", len(programs), err)
	}
	for _, path := range programs {
		t.Run(filepath.Dir(path), func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(source), "\n"); n >= 80 {
				t.Errorf("%s has %d lines; an example has fewer than 80", path, n)
			}
			want := promised(string(source))
			if want == "" {
				t.Fatalf("the first comment of %s has no line that begins with Prints and a block below it", path)
			}
			run := exec.Command("go", "run", "./"+filepath.Dir(path))
			var problems strings.Builder
			run.Stderr = &problems
			got, err := run.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, problems.String())
			}
			if !alike(string(got), want) {
				t.Errorf("%s prints\n%s\nbut promises\n%s", path, got, want)
			}
		})
	}
}

var decimals = regexp.MustCompile(`\d+\.\d+`)

// alike compares words exactly, and numbers to .05: processors that round in another way draw other links in the end.
func alike(a, b string) bool {
	if decimals.ReplaceAllString(a, "#") != decimals.ReplaceAllString(b, "#") {
		return false
	}
	x, y := decimals.FindAllString(a, -1), decimals.FindAllString(b, -1)
	for k := range x {
		p, err1 := strconv.ParseFloat(x[k], 64)
		q, err2 := strconv.ParseFloat(y[k], 64)
		if err1 != nil || err2 != nil || math.Abs(p-q) > .05 {
			return false
		}
	}
	return true
}

func TestAlike(t *testing.T) {
	t.Parallel()
	if !alike("a 0.40 1", "a 0.44 1") || alike("a 0.40 1", "a 0.46 1") || alike("a 0.40 1", "a 0.40 2") ||
		alike("a", "b") {
		t.Error("lines are not compared as they should be")
	}
}

// promised returns the indented lines that follow the line with "Prints" of a file's first comment.
func promised(source string) string {
	_, rest, _ := strings.Cut(source, "// Prints")
	var lines strings.Builder
	for line := range strings.Lines(rest) {
		text, comment := strings.CutPrefix(line, "//\t")
		switch {
		case comment:
			lines.WriteString(text)
		case strings.HasPrefix(line, "package "):
			return lines.String()
		}
	}
	return ""
}

// The cookbook shows lines of the example, and what the example prints.
func TestCookbook(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/cookbook.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("scheme/main.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]bool{}
	for line := range strings.Lines(string(source)) {
		lines[strings.TrimSpace(line)] = true
	}
	snippets := strings.Split(string(page), "```go\n")[1:]
	if len(snippets) != 2 {
		t.Fatalf("the cookbook has %d Go snippets", len(snippets))
	}
	for _, snippet := range snippets {
		snippet, _, _ = strings.Cut(snippet, "```\n")
		for line := range strings.Lines(snippet) {
			if !lines[strings.TrimSpace(line)] {
				t.Errorf("the cookbook shows a line that is not in scheme/main.go:\n%s", line)
			}
		}
	}
	rest := snippets[1]
	_, rest, _ = strings.Cut(rest, "```text\n")
	if shown, _, _ := strings.Cut(rest, "```\n"); shown != promised(string(source)) {
		t.Errorf("the cookbook shows\n%s\nbut the example promises\n%s", shown, promised(string(source)))
	}
}

func TestPromised(t *testing.T) {
	t.Parallel()
	source := "// What it is.\n//\n// Prints, as ever:\n//\n//\tone\n//\t  two\n//\npackage main\n\n//\tthree\n"
	if got := promised(source); got != "one\n  two\n" {
		t.Errorf("got %q", got)
	}
	if got := promised("// Silent.\npackage main\n"); got != "" {
		t.Errorf("got %q", got)
	}
}
