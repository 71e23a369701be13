package main

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"unseen/recommend"
)

// hostileTitles are what a file may call its nodes.
var hostileTitles = []string{"\x1b[2J\x1b]0;owned\x07", "a\u202egnp.exe", "\u009b31mred", "=cmd|'/c calc'!A0",
	"@SUM(1)",
	"}, year = {1}}\n@misc{evil, title = {x", "x\nER  - \nTY  - JOUR\nTI  - evil", "back\rspace\x08", "\u2066iso\u2069"}

// hostileNetwork is a dataset and a model of it, whose titles and ids mean no good.
func hostileNetwork(t *testing.T) (dir, model string) {
	t.Helper()
	from, _, _ := fitted(t)
	files := filepath.Join(t.TempDir(), "files")
	well(t, "export", from, "--to", "jsonl", "-o", files, "--quiet")
	raw, err := os.ReadFile(filepath.Join(files, "nodes.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	n := 0
	for line := range strings.Lines(string(raw)) {
		var node map[string]any
		if err := json.Unmarshal([]byte(line), &node); err != nil {
			t.Fatal(err)
		}
		node["title"] = hostileTitles[n%len(hostileTitles)]
		changed, err := json.Marshal(node)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(changed, '\n'))
		n++
	}
	if err := os.WriteFile(filepath.Join(files, "nodes.jsonl"), []byte(out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, model = filepath.Join(t.TempDir(), "hostile\x1b[1m"), filepath.Join(t.TempDir(), "model.safetensors")
	well(t, "import", "jsonl", files, "-o", dir, "--quiet")
	well(t, "fit", dir, "-o", model, "--method", "naive", "--quiet")
	return dir, model
}

// controls reports what would control a terminal.
func controls(text string) string {
	for _, r := range strings.ReplaceAll(text, "\r\n", "\n") {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e ||
			r >= 0x2066 && r <= 0x2069 || r == utf8.RuneError {
			return string(r)
		}
	}
	return ""
}

// No title reaches a terminal raw, no cell of CSV is a formula, and JSON says what the file says.
func TestAttackOutputs(t *testing.T) {
	t.Parallel()
	dir, model := hostileNetwork(t)
	for _, args := range [][]string{
		{"recommend", model, dir, "p7", "-k", "50"}, {"recommend", model, dir, "p7", "-k", "50", "--explain"},
		{"check", dir}, {"check", dir, "--json"}, {"recommend", model, dir, "p7", "-k", "50", "--format", "csv"},
		{"recommend", model, dir, "p7", "-k", "50", "--format", "ris"}, {"recommend", model, dir, "p7", "--json"},
		{"recommend", model, dir, "p7", "-k", "50", "--format", "bibtex"}, {"recommend", model, dir, "\x1b[31mnobody"},
		{"evaluate", model, dir}, {"check", dir + "\u202e"}, {"fit", dir, "-o", model + "\x9b", "--method", "\x1b"},
	} {
		_, stdout, stderr := invoke(args...)
		for name, text := range map[string]string{"stdout": stdout, "stderr": stderr} {
			if found := controls(text); found != "" {
				t.Errorf("%q: %s has %q", args, name, found)
			}
		}
	}
	rows, err := csv.NewReader(strings.NewReader(well(t, "recommend", model, dir, "p7", "-k", "50", "--format", "csv",
		"--quiet"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		for _, cell := range row {
			if cell != "" && strings.ContainsRune("=@+", rune(cell[0])) {
				t.Errorf("%q is a formula", cell)
			}
		}
	}
	var lists []*recommend.List
	decodeOne(t, well(t, "recommend", model, dir, "p7", "--json", "--quiet", "-k", "50"), &lists)
	whole := false
	for _, item := range lists[0].Items {
		whole = whole || item.Title == hostileTitles[0]
	}
	if !whole {
		t.Error("JSON does not say what the file says")
	}
}

// What is exported is what was imported, byte for byte.
func TestAttackExportIsLossless(t *testing.T) {
	t.Parallel()
	dir, _ := hostileNetwork(t)
	for _, format := range []string{"csv", "jsonl", "parquet"} {
		files, again := filepath.Join(t.TempDir(), "files"), filepath.Join(t.TempDir(), "again")
		well(t, "export", dir, "--to", format, "-o", files, "--quiet")
		well(t, "import", format, files, "-o", again, "--quiet")
		for _, name := range []string{"nodes.parquet", "links.parquet"} {
			was, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if is, err := os.ReadFile(filepath.Join(again, name)); err != nil || string(is) != string(was) {
				t.Errorf("%s, %s: %v, it is not the same", format, name, err)
			}
		}
	}
}
