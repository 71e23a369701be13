package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"unseen/internal/postgrestest"
	"unseen/internal/racetest"
	"unseen/recommend"
)

// example takes the n-th block of a language out of docs/index.md: what is run here is what people read.
func example(t *testing.T, language string, n int) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/index.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```"+language+"\n")
	if len(blocks) < n+2 {
		t.Fatalf("docs/index.md has no block %d in %s", n, language)
	}
	block, _, _ := strings.Cut(blocks[n+1], "```")
	return block
}

// pythonWith finds a python3 that has modules, or skips.
func pythonWith(t *testing.T, modules string) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import "+modules).Run() == nil {
			return python
		}
	}
	t.Skipf("not checked: there is no python3 with %s; ./check makes one", modules)
	return ""
}

func runPython(t *testing.T, python, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(python, append([]string{"-c", program}, args...)...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, problems.String())
	}
	return out.String()
}

// recommendedIDs are those of unseen recommend.
func recommendedIDs(t *testing.T, args ...string) (ids []string, links []float64) {
	t.Helper()
	var lists []*recommend.List
	decodeOne(t, well(t, append([]string{"recommend"}, append(args, "--linked", "--json", "--quiet")...)...), &lists)
	for _, item := range lists[0].Items {
		ids, links = append(ids, item.ID), append(links, item.Link)
	}
	return ids, links
}

func TestExportIndex(t *testing.T) {
	t.Parallel()
	dir, bayes, _ := fitted(t)
	out := filepath.Join(t.TempDir(), "index")
	fits80(t, strings.NewReplacer(out, "index", bayes, "bayes.safetensors").Replace(well(t, "export", "index", bayes,
		dir, "-o", out, "--quiet")))
	ids, err := os.ReadFile(filepath.Join(out, "ids.txt"))
	if err != nil || strings.Count(string(ids), "\n") != 400 || !strings.HasPrefix(string(ids), "p0\np1\n") {
		t.Errorf("%v: ids %.40q", err, ids)
	}
	ours, err1 := os.Stat(filepath.Join(out, "vectors.npy"))
	theirs, err2 := os.Stat(filepath.Join(dir, "vectors.npy"))
	if err1 != nil || err2 != nil || !os.SameFile(ours, theirs) {
		t.Errorf("the vectors are not the dataset's: %v %v", err1, err2)
	}
	readme, err := os.ReadFile(filepath.Join(out, "README.txt"))
	if err != nil || !strings.Contains(string(readme), "q = w * h") || strings.Contains(string(readme), "{{") {
		t.Errorf("%v: %s", err, readme)
	}
	fits80(t, string(readme))
	if code, _, stderr := invoke("export", "index", bayes, dir, "-o", out); code != exitUsage ||
		!strings.Contains(stderr, "--force") {
		t.Errorf("over an old index: %d %s", code, stderr)
	}
	var summary exportIndexSummary
	decodeOne(t, well(t, "export", "index", bayes, dir, "-o", out, "--force", "--json", "--quiet"), &summary)
	if x := summary.Index; x.Kind != "unseen-index" || x.Format != recommend.IndexFormat || x.Dim != 8 ||
		len(x.Fields) != 4 || x.Offsets {
		t.Errorf("%+v", x)
	}
	if summary.Nodes != 400 || summary.Vectors != "linked" || summary.Link != "diagonal" || summary.Output != out {
		t.Errorf("%+v", summary)
	}
	if code, _, stderr := invoke("export", "index", bayes, dir, "-o", dir, "--force"); code != exitUsage ||
		!strings.Contains(stderr, "no index to replace") {
		t.Errorf("over a dataset: %d %s", code, stderr)
	}
	if code, _, _ := invoke("export", "index", bayes, dir); code != exitUsage {
		t.Errorf("without -o: %d", code)
	}
	if code, _, _ := invoke("export", "index", bayes, "-o", out); code != exitUsage {
		t.Errorf("without a dataset: %d", code)
	}
	mlp := filepath.Join(t.TempDir(), "mlp.safetensors")
	well(t, "fit", dir, "--method", "naive", "--link", "mlp", "-o", mlp, "--quiet")
	if code, _, stderr := invoke("export", "index", mlp, dir, "-o",
		filepath.Join(t.TempDir(), "x")); code != exitFailure || !strings.Contains(stderr, "inner product") {
		t.Errorf("an mlp: %d %s", code, stderr)
	}
}

// FAISS finds the same ids by the documentation's own program, of both kinds of models.
func TestExportIndexFAISS(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestFit has the goroutines of a command that trains")
	python := pythonWith(t, "faiss, numpy")
	dir := papers(t, 2)
	for _, link := range []string{"diagonal", "low-rank"} {
		file, out := filepath.Join(t.TempDir(), "model.safetensors"), filepath.Join(t.TempDir(), "index")
		well(t, "fit", dir, "--method", "naive", "--link", link, "-o", file, "--quiet")
		well(t, "export", "index", file, dir, "-o", out, "--quiet")
		node := "p123"
		want, links := recommendedIDs(t, file, dir, node, "-k", "10")
		lines := strings.Split(strings.TrimSpace(runPython(t, python, example(t, "python", 0), out, node, "10")), "\n")
		if len(lines) != 10 {
			t.Fatalf("%s: FAISS has %q", link, lines)
		}
		for k, line := range lines {
			id, probability, _ := strings.Cut(line, "\t")
			got, err := strconv.ParseFloat(probability, 64)
			if k >= len(want) || id != want[k] || err != nil || got < .999*links[k] || got > 1.001*links[k] {
				t.Fatalf("%s, place %d: FAISS has %s, unseen %v %v", link, k+1, line, want, links)
			}
		}
	}
}

// The documentation's program finds the same items for a person, by learned factors.
func TestExportIndexOfFactors(t *testing.T) {
	t.Parallel()
	python := pythonWith(t, "numpy")
	folder := t.TempDir()
	raw, shop := filepath.Join(folder, "raw"), filepath.Join(folder, "shop")
	file, out := filepath.Join(folder, "model.safetensors"), filepath.Join(folder, "index")
	well(t, "generate", raw, "--people", "60", "--items", "30", "--quiet")
	well(t, "import", "interactions", "--clicks", filepath.Join(raw, "clicks.csv"), "--items",
		filepath.Join(raw, "items.csv"), "-o", shop, "--quiet")
	well(t, "fit", shop, "--method", "naive", "-o", file, "--quiet")
	var summary exportIndexSummary
	decodeOne(t, well(t, "export", "index", file, shop, "-o", out, "--json", "--quiet"), &summary)
	if summary.Vectors != "factors" || summary.Targets != 30 || summary.Offsets {
		t.Errorf("%+v", summary)
	}
	readme, err := os.ReadFile(filepath.Join(out, "README.txt"))
	if err != nil || strings.Contains(string(readme), "{{") {
		t.Errorf("%v: %s", err, readme)
	}
	fits80(t, string(readme))
	want, links := recommendedIDs(t, file, shop, "u00007", "-k", "5")
	lines := strings.Split(strings.TrimSpace(runPython(t, python, example(t, "python", 1), out, "u00007", "5")), "\n")
	for k, line := range lines {
		id, probability, _ := strings.Cut(line, "\t")
		got, err := strconv.ParseFloat(probability, 64)
		if len(want) != 5 || id != want[k] || err != nil || got < .999*links[k] || got > 1.001*links[k] {
			t.Fatalf("place %d is %s, by unseen %v %v", k+1, line, want, links)
		}
	}
}

// pgvector finds the same ids by the documentation's statements, on a server of the test's own.
func TestExportIndexPostgres(t *testing.T) {
	t.Parallel()
	python := pythonWith(t, "numpy")
	server := database{postgrestest.Program(t, "psql"), postgrestest.Database(t)}
	dir, bayes := papers(t, 1), filepath.Join(t.TempDir(), "bayes.safetensors")
	well(t, "fit", dir, "-o", bayes, "--doctor", "quick", "--quiet") // one assumption: the order is an inner product's
	out := filepath.Join(t.TempDir(), "index")
	well(t, "export", "index", bayes, dir, "-o", out, "--quiet")
	if text, err := server.psql(nil, "-c", "CREATE EXTENSION vector"); err != nil {
		if !strings.Contains(text, "is not available") {
			t.Fatal(err, text)
		}
		t.Skipf("not checked: this PostgreSQL has no pgvector, which ./check does not install as Debian 12 has "+
			"no package of it (Debian 13: postgresql-17-pgvector): %s", text)
	}
	statements := strings.Split(strings.TrimSpace(example(t, "sql", 0)), "\n")
	if len(statements) != 3 || !strings.HasPrefix(statements[2], "COPY") {
		t.Fatalf("the statements are %q", statements)
	}
	rows := runPython(t, python, example(t, "python", 2), out)
	if text, err := server.psql(nil, "-c", statements[1]); err != nil {
		t.Fatal(err, text)
	}
	if text, err := server.psql(strings.NewReader(rows), "-c", statements[2]); err != nil {
		t.Fatal(err, text)
	}
	makeQuery := `import sys, numpy as np
x = np.load(sys.argv[1] + "/query.npz"); ids = open(sys.argv[1] + "/ids.txt").read().split("\n")
vector = np.load(sys.argv[1] + "/vectors.npy")[ids.index(sys.argv[2])]
print("[" + ",".join(repr(float(v)) for v in x["w"] * vector) + "]")`
	for _, node := range []string{"p7", "p300"} {
		want, _ := recommendedIDs(t, bayes, dir, node, "-k", "10")
		q := strings.TrimSpace(runPython(t, python, makeQuery, out, node))
		text, err := server.psql(strings.NewReader(example(t, "sql", 1)), "-v", "q="+q, "-v", "node="+node, "-v",
			"k=10", "-At", "-F", " ")
		if err != nil {
			t.Fatal(err, text)
		}
		var got []string
		for line := range strings.Lines(text) {
			id, _, _ := strings.Cut(line, " ")
			got = append(got, id)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: pgvector has %v, unseen %v", node, got, want)
		}
	}
}

// database is an empty one of the tests' own PostgreSQL, and who speaks with it.
type database struct{ psqlProgram, url string }

func (d database) psql(in *strings.Reader, args ...string) (string, error) {
	cmd := exec.Command(d.psqlProgram, append([]string{"-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", d.url}, args...)...)
	if in != nil {
		cmd.Stdin = in
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
