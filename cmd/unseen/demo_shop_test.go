package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"unseen/evaluate"
	"unseen/internal/atomicfile"
	"unseen/internal/racetest"
)

// What the page says is true of any shop: learned with the log, more of what is recommended is wanted, the level of
// what is wanted is nearly right, and what was hidden was never shown.
func TestDemoShopShowsWhatItSays(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "fit and evaluate let it see the goroutines of every part")
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	for _, seed := range []string{"1", "2", "3"} {
		folder := t.TempDir()
		code, page, stderr := invoke("demo", "shop", "--seed", seed, "--out", folder, "--quiet", "--json")
		if code != exitOK || stderr != "" {
			t.Fatalf("exit code %d, stderr %q", code, stderr)
		}
		var d shopDemo
		decodeOne(t, page, &d)
		naive, corrected := d.Recommenders[0], d.Recommenders[1]
		if corrected.List < naive.List+.03 || corrected.List > d.Best || corrected.AUC < naive.AUC+.02 ||
			naive.MeanLink > .3*d.Relevant || corrected.MeanLink < .8*d.Relevant ||
			corrected.MeanLink > 1.25*d.Relevant {
			t.Errorf("seed %s: %+v, of %v wanted and %v at best", seed, d.Recommenders, d.Relevant, d.Best)
		}
		if len(d.Hidden) == 0 || d.Shown > .2 || d.Impressions < 20_000 || d.Clicks < 1000 {
			t.Errorf("seed %s: %+v", seed, d)
		}
		truth := 0.
		for _, h := range d.Hidden {
			truth += h.Truth / float64(len(d.Hidden))
			if h.Corrected > shopList || h.Seen <= shopList || h.Link < shopSure {
				t.Errorf("seed %s: %+v is not hidden", seed, h)
			}
		}
		if truth < d.Relevant {
			t.Errorf("seed %s: of what was hidden %v is wanted, of all %v", seed, truth, d.Relevant)
		}
	}
}

// The same seed gives the same folder, whatever the threads, also where there is one already; another seed another.
func TestDemoShopCommand(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "fit and evaluate let it see the goroutines of every part")
	folders := []string{filepath.Join(t.TempDir(), "new", "folder"), t.TempDir(), t.TempDir()}
	var page string
	for i, line := range []string{"--seed 3 --threads 1", "--seed 9 --json", "--seed 4"} {
		lines := []string{line}
		if i == 1 { // over what another seed has left
			lines = append(lines, "--seed 3 --threads 3")
		}
		for _, line := range lines {
			code, out, stderr := invoke(append(strings.Fields("demo shop --people 150 --items 60 --quiet "+line),
				"--out", folders[i])...)
			if code != exitOK || stderr != "" {
				t.Fatalf("%s: exit code %d, stderr %q", line, code, stderr)
			}
			page = out
		}
	}
	for _, name := range []string{"report.html", "model.safetensors", "naive.safetensors",
		"model.safetensors.evaluation.json", "dataset/nodes.parquet", "dataset/links.parquet"} {
		var files [3][]byte
		for i := range files {
			var err error
			if files[i], err = os.ReadFile(filepath.Join(folders[i], name)); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(files[0], files[1]) || bytes.Equal(files[0], files[2]) {
			t.Errorf("%s: want the same for the same seed and another for another", name)
		}
	}
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "In ") && !strings.HasPrefix(line, "Open ") { // paths may be long
			fits80(t, line)
		}
	}
	if strings.Contains(page, "NaN") || strings.Contains(page, folders[2]+"/tables") ||
		!strings.Contains(page, "unseen import interactions --clicks tables/clicks.csv") {
		t.Error(page)
	}
	left, err := os.ReadDir(folders[0])
	if err != nil || len(left) != 5 {
		t.Errorf("%v are left: %v", left, err)
	}
	// unseen serve takes the evaluation for the model's
	path := filepath.Join(folders[0], "model.safetensors")
	sum, err := atomicfile.Sum(path)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path + ".evaluation.json")
	if err != nil {
		t.Fatal(err)
	}
	var e evaluate.Evaluation
	if err := json.Unmarshal(raw, &e); err != nil || e.Model != sum || e.Panel == nil {
		t.Errorf("%v: the evaluation is of %q", err, e.Model)
	}
}

func TestDemoShopRefuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ line, says string }{
		{"demo shop --people 10", "--people is 10; give from 50 to 3000"},
		{"demo shop --items 1000000", "--items is 1000000; give from 50 to 3000"},
		{"demo shop --out=", "--out is empty"},
		{"demo shop --out " + file, "give another"},
		{"demo shop extra", "extra"},
		{"demo shops", "shops"},
	} {
		code, stdout, stderr := invoke(strings.Fields(c.line)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q, want %q", c.line, code, stdout, stderr, c.says)
		}
	}
}

// Commands that are broken into lines are still the same to a shell.
func TestForShell(t *testing.T) {
	t.Parallel()
	command := "unseen import" + strings.Repeat(" --flag some/file.csv", 12)
	text := forShell(command)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for k, line := range lines {
		if len(line) > 80 || strings.HasSuffix(line, ` \`) != (k < len(lines)-1) {
			t.Errorf("line %d is %q", k, line)
		}
	}
	joined := strings.Fields(strings.ReplaceAll(text, "\\\n", ""))
	if len(lines) < 3 || !slices.Equal(joined, strings.Fields(command)) {
		t.Errorf("%q", joined)
	}
}
