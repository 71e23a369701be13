package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"unseen/dataset"
	"unseen/evaluate"
	"unseen/graph"
	"unseen/internal/amount"
	"unseen/internal/racetest"
	"unseen/model"
	"unseen/sample"
	"unseen/world"
)

// papers writes a small dataset in which exposure is planted and returns its folder.
func papers(t *testing.T, seed uint64) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "papers")
	if err := writePapers(t.Context(), dir, seed); err != nil {
		t.Fatal(err)
	}
	return dir
}

func writePapers(ctx context.Context, dir string, seed uint64) error {
	w, err := world.New(ctx, world.Settings{Nodes: 400, Dim: 8, Fields: world.EvenFields(3),
		Scenario: world.Scenario{BaseRate: .05, OracleAUC: .97, Seed: seed}})
	if err != nil {
		return err
	}
	if w, err = w.Linked(ctx); err != nil {
		return err
	}
	when := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	_, err = dataset.Write(ctx, dir, dataset.Content{Graph: w.Graph()},
		dataset.WriteOptions{Provenance: dataset.Provenance{Made: when}})
	return err
}

// well runs a command that must succeed and returns what it printed.
func well(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := invoke(args...)
	if code != exitOK {
		t.Fatalf("%s: exit code %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// fit says how it split the nodes, how many links it learns from and how many it set aside. Where many links run
// against time, nodes are held out at random.
func TestFitSaysHowItSplits(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestFit has the goroutines of a command that trains")
	w, err := world.New(t.Context(), world.Settings{Nodes: 300, Dim: 4, Fields: world.EvenFields(3),
		Scenario: world.Scenario{BaseRate: .05, OracleAUC: .97, Seed: 5}})
	if err != nil {
		t.Fatal(err)
	}
	if w, err = w.Linked(t.Context()); err != nil {
		t.Fatal(err)
	}
	for percent, says := range map[int]string{
		0:  "split by age, the newest are held out\n",
		15: "split by age, the newest are held out\n",
		41: "split at random, since 41% of the links run against time\n",
	} {
		g := againstTime(t, w.Graph(), percent)
		dir := filepath.Join(t.TempDir(), "papers")
		if _, err := dataset.Write(t.Context(), dir, dataset.Content{Graph: g}, dataset.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		page := well(t, "fit", dir, "--method", "cosine", "--quiet")
		var fitted fitReport
		decodeOne(t, well(t, "fit", dir, "--method", "cosine", "--quiet", "--json"), &fitted)
		l := fitted.Dataset.SplitLinks
		if l.Train != fitted.Links || l.Validation == 0 || l.Test != fitted.Held.Links ||
			l.Train+l.Validation+l.Test+l.Unused != g.LinkCount() || (l.Unused == 0) != (percent == 0) {
			t.Errorf("%d%% against time: %+v of %d links, %d learned from", percent, l, g.LinkCount(), fitted.Links)
		}
		says += fmt.Sprintf("%s to learn from, %d for validation, %d for test", amount.Of(l.Train, "link"),
			l.Validation, l.Test)
		if l.Unused > 0 {
			says += fmt.Sprintf(", %d unused", l.Unused)
		}
		if !strings.Contains(page, says+"\n") {
			t.Errorf("%d%% against time: the page does not say %q:\n%s", percent, says, page)
		}
	}
}

// againstTime returns a graph with a node a day and so many percent of its links from the older node to the newer one.
func againstTime(t *testing.T, g *graph.Graph, percent int) *graph.Graph {
	t.Helper()
	var b graph.Builder
	for i := range int32(g.Len()) {
		when := time.Date(2000, 1, 1+int(i), 0, 0, 0, 0, time.UTC)
		if _, err := b.AddNode(graph.Node{ID: g.ID(i), Field: g.FieldName(g.Field(i)), Time: when}); err != nil {
			t.Fatal(err)
		}
	}
	k := 0
	for i, j := range g.Links() {
		if k++; k*percent%100 < percent {
			i, j = j, i
		}
		if err := b.AddLinkIndex(i, j); err != nil {
			t.Fatal(err)
		}
	}
	made, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if made, err = made.WithVectors(g.Vectors()); err != nil {
		t.Fatal(err)
	}
	return made
}

// hasFields checks that what the pairs of two fields come to is of all pairs.
func hasFields(t *testing.T, p *evaluate.Panel) {
	t.Helper()
	pairs := int64(0)
	for _, f := range p.Fields {
		pairs += f.Means.Pairs
		if !(f.Means.MeanPropensity > 0 && f.Means.MeanPropensity < 1 && f.Means.MeanLink > 0) {
			t.Errorf("%s to %s: %+v", f.Source, f.Target, f.Means)
		}
	}
	if pairs != p.Exact.Pairs {
		t.Errorf("%d pairs by fields, %d in all", pairs, p.Exact.Pairs)
	}
}

// A dataset is fitted, judged and reported; what is held out is held out from both models.
func TestFitAndEvaluateADataset(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	dir, out := papers(t, 1), t.TempDir()
	bayes, naive, result := filepath.Join(out, "bayes.safetensors"), filepath.Join(out, "naive.safetensors"),
		filepath.Join(out, "evaluation.json")
	fits80(t, strings.ReplaceAll(well(t, "fit", dir, "-o", bayes, "--quiet"), dir, "papers"))
	var fitted fitReport
	decodeOne(t, well(t, "fit", dir, "--method", "naive", "-o", naive, "--quiet", "--json"), &fitted)
	if fitted.World != nil || fitted.Dataset.Nodes != 400 || fitted.Held == nil || fitted.Held.AUC == nil ||
		*fitted.Held.AUC < .8 || fitted.Dataset.Plan.PerLink != graph.DefaultPerLink {
		t.Errorf("fit says %+v of %+v", fitted.Held, fitted.Dataset)
	}
	page := well(t, "evaluate", bayes, dir, "--against", naive, "--exact", "--by-fields", "--certify", "1", "-o",
		result, "--quiet")
	fits80(t, strings.ReplaceAll(page, result, "evaluation.json"))
	for _, says := range []string{"R_AP", "all pairs", "mean π̂", " → ",
		"by the exposure that bayes.safetensors has learned", "If π̂ were wrong", "The certificate",
		"To make a page of it"} {
		if !strings.Contains(page, says) {
			t.Errorf("the page does not say %q:\n%s", says, page)
		}
	}
	raw, err := os.ReadFile(result)
	if err != nil {
		t.Fatal(err)
	}
	var e evaluate.Evaluation
	if err := json.Unmarshal(raw, &e); err != nil {
		t.Fatal(err)
	}
	// judged by links seen, naive looks better; corrected, it is worse
	of := func(p *evaluate.Panel, scheme string) float64 {
		for _, row := range p.Risks {
			if row.Scheme == scheme {
				return row.Risk.Plain
			}
		}
		t.Fatalf("no %s", scheme)
		return 0
	}
	if of(e.Panel, "naive") <= of(e.Others[0].Panel, "naive") || of(e.Panel, "ap") >= of(e.Others[0].Panel, "ap") {
		t.Errorf("bayes has naive risk %.4f and R_AP %.4f, naive has %.4f and %.4f", of(e.Panel, "naive"),
			of(e.Panel, "ap"), of(e.Others[0].Panel, "naive"), of(e.Others[0].Panel, "ap"))
	}
	// what is summed over all pairs is what the sample beside it estimates: held-out sources with their older targets
	for _, row := range e.Panel.Risks {
		if off := (*row.Exact - row.Risk.Estimate) / row.Risk.Sampling; math.Abs(off) > 3 {
			t.Errorf("%s: %v over all pairs, %v from a sample, %.1f standard errors apart", row.Scheme, *row.Exact,
				row.Risk.Estimate, off)
		}
	}
	if n := int64(fitted.Dataset.Nodes); e.Panel.Exact.Pairs > n*(n-1)/4 {
		t.Errorf("%d pairs are summed for a tenth of %d sources", e.Panel.Exact.Pairs, n)
	}
	hasFields(t, e.Panel)
	saysAsFarAsLinksAllow(t, &e, page, dir, naive)
	if len(e.Warnings) > 0 && strings.Contains(strings.Join(e.Warnings, " "), "held out when it was fitted") {
		t.Errorf("both were fitted alike: %v", e.Warnings)
	}
	if again := well(t, "evaluate", bayes, dir, "--against", naive, "--exact", "--by-fields", "--certify", "1",
		"--quiet", "--json", "--threads", "1", "--device", "cpu"); again != string(raw) {
		t.Error("with one thread the evaluation is another")
	}
	html := filepath.Join(out, "report.html")
	well(t, "report", result, bayes, "-o", html)
	if page, err := os.ReadFile(html); err != nil || !strings.Contains(string(page), "If π̂ is wrong") {
		t.Errorf("no page: %v", err)
	}
	// a model that has seen them is told apart
	seen := filepath.Join(out, "seen.safetensors")
	well(t, "fit", dir, "--method", "naive", "--split", "whole", "-o", seen, "--quiet")
	if page := well(t, "evaluate", bayes, dir, "--against", seen,
		"--quiet"); !strings.Contains(strings.Join(strings.Fields(page), " "), "it looks better than it is") {
		t.Errorf("nobody is told that seen.safetensors has seen the pairs:\n%s", page)
	}
}

// saysAsFarAsLinksAllow checks that a page says who is better as far as the links allow, and that nothing is said of a
// model whose assumptions were not compared.
func saysAsFarAsLinksAllow(t *testing.T, e *evaluate.Evaluation, page, dir, naive string) {
	t.Helper()
	flat := func(page string) string { return strings.Join(strings.Fields(page), " ") }
	if d := e.Others[0].Decision; e.Set == nil || d.Preference == evaluate.Unchecked ||
		!strings.Contains(flat(page), d.Summary) || !strings.Contains(flat(page), e.Allowed()) {
		t.Errorf("%+v is not on the page:\n%s", d, page)
	}
	quick := filepath.Join(t.TempDir(), "quick.safetensors")
	well(t, "fit", dir, "--doctor", "quick", "-o", quick, "--quiet")
	if page := flat(well(t, "evaluate", quick, dir, "--against", naive, "--quiet")); !strings.Contains(page,
		"not checked against other assumptions") || strings.Contains(page, "is better than") {
		t.Errorf("nothing was compared, and the page says\n%s", page)
	}
}

// The fields may be found, and the cut chosen; the model remembers.
func TestFitFindsFieldsAndCuts(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestFit has the goroutines of a command that trains")
	dir, path := papers(t, 2), filepath.Join(t.TempDir(), "m.safetensors")
	for _, line := range []string{"--fields-by vectors:4", "--split random --shares .6,.1,.3",
		"--negative-scheme field --negatives 2", "--fields-by links:20"} {
		well(t, append([]string{"fit", dir, "--method", "naive", "-o", path, "--quiet"}, strings.Fields(line)...)...)
		f, err := model.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var d sample.Origin
		if err := json.Unmarshal([]byte(f.Metadata[model.KeyData]), &d); err != nil || len(d.Files) == 0 {
			t.Fatalf("%s: %v in %q", line, err, f.Metadata[model.KeyData])
		}
		well(t, "evaluate", path, dir, "--quiet")
	}
}

func TestEvaluateRefuses(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestFit has the goroutines of a command that trains")
	dir, other, out := papers(t, 1), papers(t, 3), t.TempDir()
	path, whole, made := filepath.Join(out, "m.safetensors"), filepath.Join(out, "whole.safetensors"),
		filepath.Join(out, "made.safetensors")
	well(t, "fit", dir, "--method", "naive", "-o", path, "--quiet")
	well(t, "fit", dir, "--method", "naive", "--split", "whole", "-o", whole, "--quiet")
	well(t, append(append([]string{}, small...), "--method", "naive", "-o", made, "--quiet")...)
	bare := filepath.Join(out, "bare")
	var b graph.Builder
	for _, id := range []string{"a", "b", "c"} {
		if _, err := b.AddNode(graph.Node{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	g, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dataset.Write(context.Background(), bare, dataset.Content{Graph: g},
		dataset.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ line, says string }{
		{"evaluate " + path, "name a model and its dataset"},
		{"evaluate " + path + " " + other, "was fitted to another"},
		{"evaluate " + whole + " " + dir, "nothing is left to judge it by"},
		{"evaluate " + made + " " + dir, "does not say which pairs"},
		{"evaluate " + path + " " + bare, "unseen encode"},
		{"evaluate " + filepath.Join(dir, "dataset.json") + " " + dir, "unusable model file"},
		{"evaluate " + path + " " + dir + " --floor 2", "--floor is 2"},
		{"evaluate " + path + " " + dir + " --against " + made, "does not say which pairs"},
		{"evaluate " + path + " " + dir + " -o " + dir, dir},
		{"fit " + bare, "unseen encode"},
		{"fit " + dir + " --pairs 100", "--pairs is for generated worlds"},
		{"fit --negatives 3", "--negatives needs a dataset"},
		{"fit " + dir + " --shares 1,2", "--shares has 2 numbers"},
		{"fit " + dir + " --shares .5,.5,.5", "add up to 1"},
		{"fit " + dir + " --split sideways", "sideways"},
		{"fit " + dir + " --test-from 2020-13-45", "give both as 2021-01-31"},
		{"fit " + dir + " --fields-by stars", "--fields-by is"},
		{"fit " + dir + " --negative-scheme lucky", "--negative-scheme is"},
		{"fit " + dir + " --negatives 0", "--negatives is 0"},
		{"fit " + dir + " " + dir, "name one folder"},
	} {
		code, stdout, stderr := invoke(strings.Fields(c.line)...)
		if code == exitOK || stdout != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q, want %q", c.line, code, stdout, stderr, c.says)
		}
	}
}
