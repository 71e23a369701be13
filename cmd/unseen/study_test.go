package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"unseen/figure"
	"unseen/study"
)

func TestStudy(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	folder := filepath.Join(t.TempDir(), "results")
	code, stdout, stderr := invoke("study", "table1", "--quick", "--seeds", "1", "--seed", "11", "--out", folder)
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	fits80(t, stdout)
	for _, s := range []string{"Table 1", "seed 11", "random fields", "tied fields", "paper's rw", "96.42",
		"the truth", "bayes, π known",
		"? too small to tell: every method that models exposure has a higher precision",
		"By these numbers: not reproduced.", "By these numbers: reproduced.",
		"\ntable1: too small to tell (quick, one seed); by these numbers ", "files are written"} {
		if !strings.Contains(stdout, s) {
			t.Errorf("stdout does not say %q:\n%s", s, stdout)
		}
	}
	if !strings.Contains(stderr, "unseen: table1 ") || !strings.Contains(stderr, "% ") &&
		!strings.Contains(stderr, "%,") {
		t.Errorf("stderr is %q", stderr)
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 5 {
		t.Errorf("%v lie there: %v", left, err)
	}
	raw, err := os.ReadFile(filepath.Join(folder, "table1.json"))
	if err != nil {
		t.Fatal(err)
	}
	var written study.Result
	if err := json.Unmarshal(raw, &written); err != nil || written.Study != "table1" || len(written.Tables) != 4 {
		t.Errorf("%+v: %v", written, err)
	}
}

func TestStudyJSON(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := invoke("study", "theory", "--quick", "--seeds", "1", "--seed", "11", "--threads", "1",
		"--quiet", "--json")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	var r studyReport
	decodeOne(t, stdout, &r)
	if len(r.Studies) != 1 || r.Studies[0].Options.Seeds[0] != 11 || !r.Studies[0].Options.Quick || len(r.Files) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestStudyWrongUsage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for line, says := range map[string]string{
		"":                            "name a study: table1, ",
		"table9":                      `no study "table9"; there is table1, `,
		"table1 table9":               `no study "table9"`,
		"table1 --seeds -1":           "--seeds is -1; give from 1 to 10000",
		"table1 --seeds many":         `--seeds is "many"; give a whole number`,
		"table1 --threads -1":         "--threads is -1; give at least 1",
		"table1 --preset nope":        `no preset "nope"; there is safe, paper, notebook`,
		"table1 --out " + file:        "--out: cannot create folder " + file + ": not a directory; choose another",
		"table1 --out " + file + "/x": "/x: not a directory; choose another",
		"table1 --quik":               "unknown flag --quik; did you mean --quick?",
	} {
		t.Run(line, func(t *testing.T) {
			code, stdout, stderr := invoke(append([]string{"study", "--quiet"}, strings.Fields(line)...)...)
			if code != exitUsage || stdout != "" {
				t.Errorf("exit code %d and stdout %q, want %d and nothing", code, stdout, exitUsage)
			}
			if !strings.HasPrefix(stderr, "unseen: ") || !strings.Contains(stderr, says) ||
				strings.Count(stderr, "\n") != 1 {
				t.Errorf("stderr is %q, want one line that says %q", stderr, says)
			}
		})
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("%v are left: %v", left, err)
	}
}

// Ctrl-C in the middle stops within moments, with one line and no half file.
func TestStudyStopped(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"study", "all", "--quiet", "--seeds", "1", "--seed", "11", "--out", folder}, &stdout,
		&stderr)
	if want := "unseen: stopped before it was done\n"; code != exitFailure || stdout.Len() > 0 ||
		stderr.String() != want {
		t.Errorf("exit code %d, stdout %q, stderr %q, want %d, nothing, %q", code, &stdout, &stderr, exitFailure, want)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("%v are left: %v", left, err)
	}
}

// What was done when it was stopped is there for the next run, which says nothing of it but is sooner done.
func TestStudyGoesOn(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	folder := t.TempDir()
	args := []string{"study", "robust", "--quick", "--quiet", "--seeds", "8", "--out", folder}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for ctx.Err() == nil && study.Kept(folder) < 3 {
			time.Sleep(10 * time.Millisecond)
		}
		stop()
	}()
	var stdout, stderr bytes.Buffer
	code := run(ctx, args, &stdout, &stderr)
	kept := study.Kept(folder)
	if want := fmt.Sprintf("unseen: stopped; %d worlds that are done are kept in %s: run the same command to go on\n",
		kept, folder); code != exitFailure || kept < 3 || kept >= 16 || stderr.String() != want {
		t.Fatalf("exit code %d, stderr %q, want %d and %q", code, &stderr, exitFailure, want)
	}
	old := time.Now().Add(-time.Hour)
	files, err := filepath.Glob(filepath.Join(folder, study.TaskFolder("robust"), "*.json"))
	for _, file := range files {
		err = errors.Join(err, os.Chtimes(file, old, old))
	}
	if err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := invoke(args...); code != exitOK || stderr != "" || study.Kept(folder) != 16 {
		t.Errorf("exit code %d, stderr %q, %d are kept", code, stderr, study.Kept(folder))
	}
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || time.Since(info.ModTime()) < 30*time.Minute {
			t.Errorf("%s was made again, %v", file, err)
		}
	}
}

func TestStudyHelp(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := invoke("help", "study")
	if code != exitOK || stderr != "" {
		t.Errorf("exit code %d and stderr %q", code, stderr)
	}
	fits80(t, stdout)
	for _, s := range append(study.All(), study.Study{Name: "all"}) {
		if !strings.Contains(stdout, "\n  "+s.Name+" ") {
			t.Errorf("the help does not explain %s", s.Name)
		}
	}
}

func TestDrawTable(t *testing.T) {
	t.Parallel()
	wide := figure.Table{Title: "Wide", Head: "method", Rows: []figure.TableRow{{Name: "π̂"}, {Name: "none"}}}
	for range 9 {
		wide.Columns = append(wide.Columns, figure.Column{Name: "ŷ and more", Digits: 1})
		wide.Rows[0].Cells = append(wide.Rows[0].Cells, figure.Spread(1, .5))
		wide.Rows[1].Cells = append(wide.Rows[1].Cells, figure.Cell{})
	}
	wide.Rows[1].Cells[0] = figure.Text("x")
	got := drawTable(wide)
	fits80(t, got)
	want := `Wide
  method` + strings.Repeat("  ŷ and more", 5) + `
  π̂     ` + strings.Repeat("     1.0±0.5", 5) + `
  none             x

  method` + strings.Repeat("  ŷ and more", 4) + `
  π̂     ` + strings.Repeat("     1.0±0.5", 4) + `
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestStudyData(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	folder := filepath.Join(t.TempDir(), "demo")
	if code, _, stderr := invoke("demo", "--quiet", "--papers", "300", "--out", folder); code != exitOK {
		t.Fatal(stderr)
	}
	data := filepath.Join(folder, "dataset")
	code, page, stderr := invoke("study", "table1", "--quick", "--quiet", "--seeds", "1", "--data", data)
	if code != exitOK || stderr != "" || !strings.Contains(page, "planted fields") {
		t.Errorf("exit code %d, stderr %q, page:\n%s", code, stderr, page)
	}
	code, page, stderr = invoke("study", "table4", "--quiet", "--seeds", "1", "--data", data)
	if code != exitOK || stderr != "" || !strings.Contains(page, "dataset: differences from naive") ||
		!strings.Contains(page, "The paper's dataset 2: other data") {
		t.Errorf("exit code %d, stderr %q, page:\n%s", code, stderr, page)
	}
	fits80(t, page)
	for line, says := range map[string]string{
		"study exposed --quiet":                                   "exposed needs folders with votes or ratings",
		"study exposed --quiet --data " + data:                    "ratings.csv.gz",
		"study exposed table1 --quiet":                            "run it alone",
		"study table1 --quiet --test pairs.csv":                   "--test goes with",
		"study table3 --quiet":                                    "table3 needs a network",
		"study table3 --quiet --dates now --data " + data:         "--dates is",
		"study clicks --quiet --data " + data:                     "needs a network whose exposures are logged",
		"study theory --quick --quiet --data " + data:             "needs generated worlds",
		"study table1 --quick --quiet --data " + folder + "/nope": "nope",
	} {
		if code, stdout, stderr := invoke(strings.Fields(line)...); code != exitUsage || stdout != "" ||
			!strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", line, code, stdout, stderr)
		}
	}
}
