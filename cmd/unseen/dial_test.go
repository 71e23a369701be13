package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"unseen/evaluate"
	"unseen/recommend"
)

func TestDial(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	dir, bayes, _ := fitted(t)
	file := filepath.Join(t.TempDir(), "dial.json")
	page := well(t, "dial", bayes, dir, "--quiet", "-o", file)
	fits80(t, strings.ReplaceAll(page, file, "dial.json"))
	for _, says := range []string{"lists of 10 for 74 held-out nodes", "Recall@10", "x = 0.1",
		"each digit is ten times its x", "nats of entropy", "To make a page of them"} {
		if !strings.Contains(page, says) {
			t.Errorf("the page does not say %q:\n%s", says, page)
		}
	}
	var d, again recommend.Dial
	decodeOne(t, well(t, "dial", bayes, dir, "--quiet", "--json", "--threads", "1"), &d)
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &again); err != nil ||
		fmt.Sprint(again.Curves[0].Points[3].Recall) != fmt.Sprint(d.Curves[0].Points[3].Recall) {
		t.Errorf("%v: the file has other figures than --json", err)
	}
	if len(d.Curves) != 1 || len(d.Curves[0].Points) != 11 || d.Sources != 74 ||
		d.Curves[0].Points[0].Recall.Value <= 0 || d.Curves[0].Points[10].Gain.Lower <= 0 {
		t.Errorf("%+v", d)
	}
	html := filepath.Join(t.TempDir(), "dial.html")
	well(t, "report", file, "-o", html)
	if raw, err := os.ReadFile(html); err != nil || !strings.Contains(string(raw), "What each setting gives up") {
		t.Errorf("%v: the report has no figure of the dial", err)
	}
	// weights of the risk, the share explored, and the model as it is although 0 was not asked for
	lambda := "1,0"
	if testing.Short() {
		lambda = "0"
	}
	page = well(t, "dial", bayes, dir, "--quiet", "--diversity", ".5", "--explore", ".2", "--lambda-r", lambda,
		"--sources", "30", "-k", "5", "--json")
	d = recommend.Dial{}
	decodeOne(t, page, &d)
	if d.Curves[0].Points[0].Diversity != 0 || d.Curves[1].Points[0].Explore != .2 || d.Curves[2].Method != "mle" ||
		d.Sources != 30 || d.Of != 74 {
		t.Errorf("%+v", d.Curves)
	}
	if !testing.Short() && (len(d.Curves) != 4 || d.Curves[3].Method != "ap" || *d.Curves[3].LambdaR != 1) {
		t.Errorf("%+v", d.Curves)
	}
	var printed strings.Builder
	if err := printDial(&printed, &d, ""); err != nil ||
		!strings.Contains(printed.String(), "d diversity   e exploration   a λ_R = 0") {
		t.Errorf("%v: %s", err, printed.String())
	}
	fits80(t, printed.String())
	whole := filepath.Join(t.TempDir(), "whole.safetensors")
	well(t, "fit", dir, "--split", "whole", "--method", "naive", "-o", whole, "--quiet")
	for _, c := range []struct{ model, line, says string }{
		{bayes, "--diversity 2", "give numbers from 0 to 1"},
		{bayes, "--diversity much", "give numbers with commas between them"},
		{bayes, "--explore -1", "give numbers from 0 to 1"},
		{bayes, "--lambda-r NaN", "give numbers from 0"},
		{bayes, "--sources 0", "--sources is 0"},
		{bayes, "-k 0", "-k is 0"},
		{bayes, "--output=", "--output is empty"},
		{bayes, "-o " + dir, "is a folder"},
		{bayes + "x", "", "no such file"},
		{whole, "", "fitted to the whole of its data"},
	} {
		code, stdout, stderr := invoke(append([]string{"dial", c.model, dir, "--quiet"}, strings.Fields(c.line)...)...)
		if code == exitOK || stdout != "" || !strings.Contains(stderr, c.says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q, want %q", c.line, code, stdout, stderr, c.says)
		}
	}
}

func TestEvaluateFairness(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	dir, bayes, naive := fitted(t)
	out := t.TempDir()
	file := filepath.Join(out, "evaluation.json")
	page := well(t, "evaluate", bayes, dir, "--against", naive, "--fairness", "5", "-o", file, "--quiet")
	fits80(t, strings.ReplaceAll(page, file, "evaluation.json"))
	for _, says := range []string{"Fairness: places 1 to 5 of 74 held-out nodes' lists, by field", "shown / merit",
		"Gini of ratios", "would have to move to other groups"} {
		if !strings.Contains(page, says) {
			t.Errorf("the page does not say %q:\n%s", says, page)
		}
	}
	var e evaluate.Evaluation
	decodeOne(t, well(t, "evaluate", bayes, dir, "--fairness", "--against", naive, "--json", "--quiet", "--threads",
		"1"), &e)
	if e.Fairness.K != 10 || len(e.Fairness.Groups) != 3 ||
		e.Others[0].Fairness.Groups[0].Merit != e.Fairness.Groups[0].Merit {
		t.Errorf("%+v", e.Fairness)
	}
	html := filepath.Join(out, "page.html")
	well(t, "report", file, "-o", html)
	if raw, err := os.ReadFile(html); err != nil ||
		!strings.Contains(string(raw), "Exposure and merit of groups") {
		t.Errorf("%v: the report has no fairness", err)
	}
	csv := func(text string) string {
		path := filepath.Join(out, "groups.csv")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var rows strings.Builder
	rows.WriteString("\ufeffid, Institute\nsomebody else,X\n")
	for i := range 300 {
		fmt.Fprintf(&rows, "p%d,\"Institute, %d\"\n", i, i%4)
	}
	decodeOne(t, well(t, "evaluate", bayes, dir, "--fairness", "--groups", csv(rows.String()), "--json", "--quiet"), &e)
	if e.Fairness.By != "institute" || len(e.Fairness.Groups) != 5 || !strings.Contains(strings.Join(e.Warnings, " "),
		"100 of 400 nodes are in no group") {
		t.Errorf("%+v, %q", e.Fairness, e.Warnings)
	}
	for _, c := range []struct{ groups, says string }{
		{"", "is empty"},
		{"node,press\np1,x\n", "line 1: the columns are node, press"},
		{"id,group\n", "has no row"},
		{"id,group\nq1,x\n", `names no node of the dataset: line 2 names "q1"`},
		{"id,group\np1,x\np2\n", "line 3: 1 columns"},
		{"id,group\np1,x\np1,y\n", `line 3: p1 is in "x" and in "y"`},
		{"id,group\np1,\"x\n", "line 2"},
	} {
		code, stdout, stderr := invoke("evaluate", bayes, dir, "--fairness", "--groups", csv(c.groups), "--quiet")
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, c.says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: exit code %d, stderr %q, want %q", c.groups, code, stderr, c.says)
		}
	}
	for line, says := range map[string]string{
		"--fairness=0":                  "--fairness is 0",
		"--fairness -3":                 "unknown flag",
		"--fairness many":               "name a model and its dataset",
		"--groups x":                    "give --fairness too",
		"--fairness --groups=":          "--groups is empty",
		"--fairness --groups nothere.c": "no such file",
		"--fairness --sources 0":        "--sources is 0",
	} {
		code, _, stderr := invoke(append([]string{"evaluate", bayes, dir, "--quiet"}, strings.Fields(line)...)...)
		if code == exitOK || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d, stderr %q, want %q", line, code, stderr, says)
		}
	}
}
