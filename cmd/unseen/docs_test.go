package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
)

var updateDocs = flag.Bool("update-docs", false, "write what commands print into the pages of docs")

// Every command that the README or a page of docs shows is run. A page marks what is to be run by the words after the
// fence:
//
//	```sh run      the commands must succeed
//	```sh fails    the last of them must fail
//	```python run  so must this; without a Python that has pandas, pyarrow, NumPy and safetensors the rest of the
//	               page is not run
//
// A page that speaks of docs/shop/ or docs/elife finds the tables there.
//
// All blocks of a page run in one folder, in order, with unseen on the path. A block ```text that follows, with
// nothing but empty lines between, is what they print: of run the output, of fails the error. There a line with only
// … stands for any number of lines; times are not compared, and numbers may differ in their last digit or by 2%,
// since other processors round in another way. To write what is printed into a page:
//
//	go test ./cmd/unseen -run TestDocs -update-docs
func TestDocs(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	if runtime.GOOS == "windows" {
		t.Skip("there is no shell on Windows; ./check runs it on Linux")
	}
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	ran, demo := 0, sharedDemo(t)
	for _, file := range append(files, "../../README.md") {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		page := docPage{file, string(raw), blocksOf(string(raw))}
		if len(page.blocks) == 0 {
			continue
		}
		ran++
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			page.run(t, demo)
		})
	}
	if ran == 0 {
		t.Error("no page has a block to run")
	}
}

// docPage is a page of docs.
type docPage struct {
	file, text string
	blocks     []docBlock
}

// run runs the blocks of a page, and compares what they print or writes it into the page.
func (p docPage) run(t *testing.T, demo func() (string, error)) {
	folder := filepath.Join(t.TempDir(), "work")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(p.text, "docs/shop/") || strings.Contains(p.text, "docs/elife") { // beside the pages
		docs, err := filepath.Abs("../../docs")
		if err == nil {
			err = os.Symlink(docs, filepath.Join(folder, "docs"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	path := withProgram(t)
	printed := make([]string, len(p.blocks))
	for k, b := range p.blocks {
		var problem string
		if b.python {
			withPython(t)
		}
		if strings.Contains(b.commands, demoOfPages) {
			shared, err := demo()
			if err != nil {
				t.Fatal(err)
			}
			b.commands = strings.Replace(b.commands, demoOfPages, "cp -r '"+shared+"'/. .", 1)
		}
		if printed[k], problem = b.run(folder, path); problem != "" {
			t.Fatalf("%s, line %d: %s", p.file, b.line, problem)
		}
		if b.shows && !*updateDocs {
			if problem := compareShown(b.output, printed[k]); problem != "" {
				t.Errorf("%s, line %d: %s\n$ %s\nprints\n%s", p.file, b.line, problem, b.commands, printed[k])
			}
		}
	}
	if !*updateDocs {
		return
	}
	text := p.text
	for k := len(p.blocks) - 1; k >= 0; k-- {
		if b := p.blocks[k]; b.shows && compareShown(b.output, printed[k]) != "" {
			text = text[:b.from] + strings.TrimRight(printed[k], "\n") + "\n" + text[b.to:]
		}
	}
	if err := os.WriteFile(p.file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The network in docs/elife is what its script makes of the whole one, where that is at hand.
func TestSmallNetworkIsMade(t *testing.T) {
	t.Parallel()
	whole := cmp.Or(os.Getenv("UNSEEN_DATA"), "../../../shared/data")
	if _, err := os.Stat(filepath.Join(whole, "elife", "nodes.csv.gz")); err != nil {
		t.Skipf("no networks at %s: docs/elife was not made again; set UNSEEN_DATA to where they are", whole)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3: docs/elife was not made again; ./check needs it, and says so")
	}
	const here = "../../docs/elife"
	folder := t.TempDir()
	script, err := os.ReadFile(filepath.Join(here, "subset.py"))
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "subset.py"), script, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(python, filepath.Join(folder, "subset.py"), filepath.Join(whole, "elife")).
		CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	unpacked := func(path string) string {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		var text []byte
		packed, err := gzip.NewReader(file)
		if err == nil {
			text, err = io.ReadAll(packed)
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return string(text)
	}
	for _, name := range []string{"nodes.csv.gz", "edges.csv.gz"} {
		if unpacked(filepath.Join(folder, name)) != unpacked(filepath.Join(here, name)) {
			t.Errorf("%s is not what subset.py makes", name)
		}
	}
}

// demoOfPages makes the data of many pages. It is run once for all of them: TestDemoCommand shows that the same command
// writes the same bytes.
const demoOfPages = "unseen demo --papers 600 --out demo --quiet > demo.txt"

// sharedDemo returns a function that runs demoOfPages once and returns the folder it was run in.
func sharedDemo(t *testing.T) func() (string, error) {
	t.Helper()
	folder, path := t.TempDir(), withProgram(t)
	return sync.OnceValues(func() (string, error) {
		if _, problem := (docBlock{commands: demoOfPages}).run(folder, path); problem != "" {
			return "", errors.New(problem)
		}
		return folder, nil
	})
}

// withProgram returns a path on which unseen is this program.
func withProgram(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", asProgram, self)
	if err := os.WriteFile(filepath.Join(bin, "unseen"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return bin + string(os.PathListSeparator) + os.Getenv("PATH")
}

// withPython finds an interpreter that can read our files.
func withPython(t *testing.T) string {
	t.Helper()
	name := cmp.Or(os.Getenv("UNSEEN_PYTHON"), "python3")
	if err := exec.Command(name, "-c", "import numpy, pandas, pyarrow, safetensors").Run(); err != nil {
		t.Skipf("%s lacks pandas, pyarrow, NumPy or safetensors; set UNSEEN_PYTHON to one that has them", name)
	}
	return name
}

// docBlock is commands of a page, and what it says that they print.
type docBlock struct {
	line     int
	commands string
	fails    bool
	python   bool

	shows    bool
	output   string
	from, to int // of the output, in the page
}

// blocksOf finds what is to be run.
func blocksOf(page string) (blocks []docBlock) {
	var fence string // what the open block begins with, "" outside
	var body int
	last := -1 // a block whose output may follow
	at := 0
	for number, line := range strings.SplitAfter(page, "\n") {
		text := strings.TrimSpace(line)
		switch {
		case fence == "" && strings.HasPrefix(text, "```"):
			fence, body = text, at+len(line)
			if fence != "```text" {
				last = -1
			}
			if info := strings.Fields(strings.TrimPrefix(text, "```")); len(info) == 2 &&
				(info[0] == "sh" && (info[1] == "run" || info[1] == "fails") || info[0] == "python" &&
					info[1] == "run") {
				blocks = append(blocks, docBlock{line: number + 1, fails: info[1] == "fails",
					python: info[0] == "python"})
				last = len(blocks) - 1
			}
		case fence != "" && text == "```":
			switch {
			case last >= 0 && fence == "```text":
				b := &blocks[last]
				b.shows, b.output, b.from, b.to = true, page[body:at], body, at
				last = -1
			case last >= 0:
				blocks[last].commands = page[body:at]
			}
			fence = ""
		case fence == "" && text != "":
			last = -1
		}
		at += len(line)
	}
	return blocks
}

// run runs the commands in a folder and returns what they print, or what is wrong.
func (b docBlock) run(folder, path string) (printed, problem string) {
	shell := exec.Command("sh", "-e", "-c", b.commands)
	if b.python {
		shell = exec.Command(cmp.Or(os.Getenv("UNSEEN_PYTHON"), "python3"), "-c", b.commands)
	}
	shell.Dir, shell.Env = folder, append(os.Environ(), "PATH="+path)
	var out, problems bytes.Buffer
	shell.Stdout, shell.Stderr = &out, &problems
	err := shell.Run()
	_, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case err != nil && !failed:
		return "", err.Error()
	case failed != b.fails:
		return "", fmt.Sprintf("%v\n$ %s\n%s", err, b.commands, &problems)
	case b.fails:
		return problems.String(), ""
	}
	return out.String(), ""
}

var (
	spaces  = regexp.MustCompile(`[ \t]+`)
	seconds = regexp.MustCompile(`\b(under )?[0-9.]+ (ms|s|min( [0-9]+ s)?|h [0-9]+ min)\b`)
	numbers = regexp.MustCompile(`[0-9][0-9,]*(\.[0-9]+)?|\.[0-9]+`)
)

// compareShown says how what is printed differs from what a page shows, "" if it does not.
func compareShown(shown, printed string) string {
	lines := func(text string) (out []string) {
		for _, line := range strings.Split(strings.TrimRight(text, "\n \t"), "\n") {
			line = strings.TrimSpace(spaces.ReplaceAllString(line, " "))
			out = append(out, seconds.ReplaceAllString(line, "TIME"))
		}
		return out
	}
	want, got := lines(shown), lines(printed)
	var match func(w, g int) bool
	far := 0 // the farthest line of the page that was matched
	match = func(w, g int) bool {
		far = max(far, w)
		if w == len(want) {
			return g == len(got)
		}
		if want[w] == "…" {
			for skip := g; skip <= len(got); skip++ {
				if match(w+1, skip) {
					return true
				}
			}
			return false
		}
		return g < len(got) && sameLine(want[w], got[g]) && match(w+1, g+1)
	}
	if match(0, 0) {
		return ""
	}
	if far == len(want) {
		return "more is printed than the page shows"
	}
	return fmt.Sprintf("the page shows %q", want[far])
}

// sameLine compares words exactly and numbers nearly. Lines drawn by chart marks have to be alike too.
func sameLine(a, b string) bool {
	if numbers.ReplaceAllString(a, "#") != numbers.ReplaceAllString(b, "#") {
		return false
	}
	x, y := numbers.FindAllString(a, -1), numbers.FindAllString(b, -1)
	for k := range x {
		p, err1 := strconv.ParseFloat(strings.ReplaceAll(x[k], ",", ""), 64)
		q, err2 := strconv.ParseFloat(strings.ReplaceAll(y[k], ",", ""), 64)
		_, decimals, _ := strings.Cut(x[k], ".")
		unit := math.Pow(10, -float64(len(decimals)))
		if decimals == "" && p < 100 {
			unit = 0 // small whole numbers are counts and ranks
		}
		if err1 != nil || err2 != nil || math.Abs(p-q) > max(1.01*unit, .02*math.Abs(p)) {
			return false
		}
	}
	return true
}

// The runner sees what is wrong: it is itself tested, since a page that nobody runs would pass.
func TestDocsRunner(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there is no shell on Windows; ./check runs it on Linux")
	}
	page := "# A page\n\n```sh run\necho one; echo 2.00\n```\n\n```text\none\n2.01\n```\n\n```sh\nnot " +
		"run\n```\n\n```sh fails\necho gone >&2\nfalse\n```\n\nprose\n\n```text\nnot the output\n```\n"
	blocks := blocksOf(page)
	if len(blocks) != 2 || blocks[0].line != 3 || !blocks[0].shows || blocks[0].output != "one\n2.01\n" ||
		page[blocks[0].from:blocks[0].to] != blocks[0].output || !blocks[1].fails || blocks[1].shows {
		t.Fatalf("%+v", blocks)
	}
	folder := t.TempDir()
	for k, want := range []string{"one\n2.00\n", "gone\n"} {
		if printed, problem := blocks[k].run(folder, os.Getenv("PATH")); printed != want || problem != "" {
			t.Errorf("%q, %s", printed, problem)
		}
	}
	for _, b := range []docBlock{{commands: "false"}, {commands: "true", fails: true}, {commands: "false\ntrue"}} {
		if _, problem := b.run(folder, os.Getenv("PATH")); problem == "" {
			t.Errorf("%+v passes", b)
		}
	}
	for _, c := range []struct {
		shown, printed string
		same           bool
	}{
		{"a 1.00 b", "a  1.01 b", true},
		{"a 1.00 b", "a 1.03 b", false},
		{"a 3 b", "a 4 b", false},
		{"in 0.5 s", "in 12 s", true},
		{"1,000 pairs", "1,010 pairs", true},
		{"1,000 pairs", "1,030 pairs", false},
		{"a\n…\nz", "a\nb\nc\nz\n", true},
		{"a\n…\nz", "a\nz", true},
		{"a\n…\nz", "a\nb", false},
		{"a", "a\nb", false},
		{"a\nb", "a", false},
		{"a b", "a c", false},
	} {
		if problem := compareShown(c.shown, c.printed); (problem == "") != c.same {
			t.Errorf("%q and %q: %q", c.shown, c.printed, problem)
		}
	}
	if out, err := exec.Command("sh", "-c", "PATH='"+withProgram(t)+"'; unseen version --json").Output(); err != nil ||
		!strings.Contains(string(out), `"version"`) {
		t.Errorf("unseen is not on the path: %v, %s", err, out)
	}
}
