package safetext

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// hostile are titles that somebody may write into a file.
var hostile = []string{
	"plain", "Émile Zola — ŷ ≥ π̂", "a\x1b[2J\x1b]0;owned\x07", "\u009b31m", "a\u202egnp.exe", "\u2066x\u2069", "a\rb",
	"a\r\nb",
	"\x00\x08\x7f", "line\u2028two", "\xff\x9b\xc3", "=cmd|'/c calc'!A0", "+1+1", "-2+3", "@SUM(1)", "\t=1", " =1",
	"＝1",
	"}, year = {1}}\n@misc{evil, title = {x", `\}\}`, "{", "}}}}", "@comment{", `"`, "%", "a\n@misc{b,\n}",
	"100% of $5 & #1_2^3~4\\",
	"x\nER  - \nTY  - JOUR\nTI  - evil", "x\x1eER  - ", "x\u0085ER  - ", "ER  - ", "TY  - JOUR", "\u00a0",
	strings.Repeat("long ", 5000),
	"key with spaces", "KEY with spaces", "key_with_spaces", "",
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	for _, title := range hostile {
		for _, size := range []int{1, 2, 3, 1 << 20} { // whatever pieces it comes in
			var b bytes.Buffer
			w := NewWriter(&b)
			whole := title + " end\n"
			for at := 0; at < len(whole); at += size {
				if _, err := w.Write([]byte(whole[at:min(at+size, len(whole))])); err != nil {
					t.Fatal(err)
				}
			}
			out := b.String()
			if !utf8.ValidString(out) || strings.ContainsFunc(strings.ReplaceAll(out, "\r\n", ""), unsafe) {
				t.Errorf("%q in pieces of %d: %q", title, size, out)
			}
			if !strings.HasSuffix(out, " end\n") {
				t.Errorf("%q in pieces of %d loses its end: %q", title, size, out)
			}
		}
		if line := Line(title); strings.ContainsFunc(line, unsafe) || strings.ContainsAny(line, "\n\t\r") {
			t.Errorf("%q: %q", title, line)
		}
	}
	if Line("Émile — ŷ") != "Émile — ŷ" {
		t.Error("honest text is changed")
	}
}

// A JSON document means the same after the writer.
func TestJSONStays(t *testing.T) {
	t.Parallel()
	for _, title := range hostile {
		var b bytes.Buffer
		if err := json.NewEncoder(NewWriter(&b)).Encode(title); err != nil {
			t.Fatal(err)
		}
		var back string
		if err := json.Unmarshal(b.Bytes(), &back); err != nil || back != strings.ToValidUTF8(title, "\ufffd") &&
			!strings.Contains(title, "\xff") {
			t.Errorf("%q became %q, %v", title, back, err)
		}
	}
}

func TestCells(t *testing.T) {
	t.Parallel()
	for _, title := range hostile {
		cell := strings.TrimLeft(Cell(title), " \"")
		if cell != "" && strings.ContainsRune("=+-@\t\r\n", rune(cell[0])) {
			t.Errorf("%q stays a formula: %q", title, cell)
		}
	}
	for _, honest := range []string{"-1.5", "+3", "1e-5", "a-b", "a=b", "", "Émile", "−1"} {
		if Cell(honest) != honest {
			t.Errorf("%q became %q", honest, Cell(honest))
		}
	}
}

// Real BibTeX reads exactly the entries that were written.
func TestRealBibTeX(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("bibtex")
	if err != nil {
		t.Skip("there is no bibtex; ./check installs it (texlive-binaries)")
	}
	var file strings.Builder
	var keys Keys
	for _, title := range hostile {
		file.WriteString("@misc{" + keys.Of(title) + ",\n  title = {" + BibTeX(title) + "},\n  year = {2001},\n}\n\n")
	}
	folder := t.TempDir()
	for name, content := range map[string]string{
		"list.bib": file.String(), "list.aux": "\\citation{*}\n\\bibstyle{all}\n\\bibdata{list}\n",
		"all.bst": "ENTRY {title year}{}{}\nFUNCTION {misc}{cite$ write$ newline$ year write$ newline$}\n" +
			"FUNCTION {default.type}{misc}\nREAD\nITERATE {call.type$}\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, "list")
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "BSTINPUTS=.:", "BIBINPUTS=.:")
	said, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(said), "Warning") || strings.Contains(string(said), "error") {
		t.Fatalf("%v\n%s", err, said)
	}
	out, err := os.ReadFile(filepath.Join(folder, "list.bbl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(out))
	var again Keys
	for k, title := range hostile {
		if len(lines) <= 2*k+1 || lines[2*k] != again.Of(title) || lines[2*k+1] != "2001" {
			t.Fatalf("entry %d (%.40q): BibTeX read\n%s", k, title, out)
		}
	}
	if len(lines) != 2*len(hostile) {
		t.Errorf("%d entries were written, and BibTeX read\n%s", len(hostile), out)
	}
}

// A parser of RIS reads exactly the entries that were written.
func TestRealRIS(t *testing.T) {
	t.Parallel()
	python := os.Getenv("UNSEEN_PYTHON")
	if python == "" {
		python = "python3"
	}
	if exec.Command(python, "-c", "import rispy").Run() != nil {
		t.Skip("there is no rispy; ./check installs it")
	}
	var file strings.Builder
	for _, title := range hostile {
		file.WriteString("TY  - GEN\r\nTI  - " + Value(title) + "\r\nPY  - 2001\r\nER  - \r\n\r\n")
	}
	cmd := exec.Command(python, "-c", "import rispy, sys, json; "+
		"json.dump(rispy.loads(sys.stdin.buffer.read().decode()), sys.stdout)")
	cmd.Stdin = strings.NewReader(file.String())
	raw, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []map[string]any
	if err := json.Unmarshal(raw, &found); err != nil || len(found) != len(hostile) {
		t.Fatalf("%v: %d entries were written, %d read", err, len(hostile), len(found))
	}
	for k, title := range hostile {
		if got, _ := found[k]["title"].(string); got != Value(title) || found[k]["type_of_reference"] != "GEN" {
			t.Errorf("%q became %v", title, found[k])
		}
	}
}
