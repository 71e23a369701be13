package main

import (
	"context"
	"math"
	"os"
	"strings"
	"testing"
)

// The expected risks follow from the probabilities alone: with ŷ₁ = πy at face value and ŷ₂ = y
// corrected, log-loss, and E[o] = πy.
func TestDemoAgreesWithTheory(t *testing.T) {
	d, err := runDemo(context.Background(), 20_000, 1)
	if err != nil {
		t.Fatal(err)
	}
	loss := func(p, n, y float64) float64 { return -p*math.Log(y) - n*math.Log(1-y) }
	expected := map[string]func(pi, y, believed float64) float64{
		"naive": func(pi, y, b float64) float64 { return loss(pi*y, 1-pi*y, b) },
		"R_w":   func(pi, y, b float64) float64 { return loss(y, (1-pi*y)*(1-b)/(1-pi*b), b) },
		"R_PU":  func(pi, y, b float64) float64 { return loss(y, 1-y, b) },
		"R_AP": func(pi, y, b float64) float64 {
			missing := 1 - pi*y
			return loss(pi*y+missing*b*(1-pi)/(1-pi*b), missing*(1-b)/(1-pi*b), b)
		},
		"truth": func(_, y, b float64) float64 { return loss(y, 1-y, b) },
	}
	const tolerance = .02 // the draws' own spread; standard errors are at most .005
	close := func(what string, got, want float64) {
		t.Helper()
		if !(math.Abs(got-want) < tolerance) {
			t.Errorf("%s is %v, want about %v", what, got, want)
		}
	}
	for _, f := range d.Fields {
		close(f.Name+" shown", f.Shown, f.Exposure)
		close(f.Name+" relevant", f.Relevant, f.Relevance)
		close(f.Name+" linked", f.Linked, f.Exposure*f.Relevance)
	}
	for i, f := range d.Fields {
		close("ŷ at face value", d.Recommenders[0].Link[i], f.Exposure*f.Relevance)
		close("ŷ corrected", d.Recommenders[1].Link[i], f.Relevance)
	}
	if len(d.Judges) != len(expected) {
		t.Fatalf("%d judges, want %d", len(d.Judges), len(expected))
	}
	for _, j := range d.Judges {
		var faceValue, corrected float64
		for _, f := range d.Fields {
			faceValue += expected[j.Name](f.Exposure, f.Relevance, f.Exposure*f.Relevance) / float64(len(d.Fields))
			corrected += expected[j.Name](f.Exposure, f.Relevance, f.Relevance) / float64(len(d.Fields))
		}
		close(j.Name+" of face value", j.Verdicts[0].Risk, faceValue)
		close(j.Name+" of corrected", j.Verdicts[1].Risk, corrected)
		for _, v := range j.Verdicts {
			if !(v.Lower <= v.Risk && v.Risk <= v.Upper && v.Upper-v.Lower < tolerance) {
				t.Errorf("%s: %v is not within a narrow [%v, %v]", j.Name, v.Risk, v.Lower, v.Upper)
			}
		}
		want := "corrected"
		if j.Name == "naive" {
			want = "face value"
		}
		if j.Prefers != want {
			t.Errorf("%s prefers %s, want %s", j.Name, j.Prefers, want)
		}
	}
}

// The intervals are honest: over seeds, those of R_PU at face value, which is unbiased for any ŷ
// held fixed, cover the truth about as often as they say.
func TestDemoIntervalsCover(t *testing.T) {
	const seeds = 120
	covered := 0
	for seed := range uint64(seeds) {
		d, err := runDemo(context.Background(), 100, seed)
		if err != nil {
			t.Fatal(err)
		}
		pu, truth := d.Judges[2].Verdicts[0], d.Judges[4].Verdicts[0]
		if pu.Lower <= truth.Risk && truth.Risk <= pu.Upper {
			covered++
		}
	}
	if share := float64(covered) / seeds; share < .88 || share > .995 {
		t.Errorf("95%% intervals cover the truth in %.1f%% of %d draws", 100*share, seeds)
	}
}

func TestDemoIsDeterministic(t *testing.T) {
	_, first, _ := invoke("demo", "--papers", "500", "--seed", "9")
	_, again, _ := invoke("demo", "--papers", "500", "--seed", "9")
	_, other, _ := invoke("demo", "--papers", "500", "--seed", "10")
	if first != again || first == other {
		t.Error("want the same page for the same seed and another for another")
	}
}

func TestDemoPageFits(t *testing.T) {
	for _, line := range []string{"demo --papers 10 --seed 18446744073709551615", "demo --papers 11 --seed 2", "demo --papers 60 --seed 4", "demo --papers 2000"} {
		code, stdout, stderr := invoke(strings.Fields(line)...)
		if code != exitOK || stderr != "" {
			t.Errorf("%s: exit code %d, stderr %q", line, code, stderr)
		}
		fits80(t, stdout)
		if n := strings.Count(stdout, "\n"); n > 30 {
			t.Errorf("%s: %d lines are more than a page", line, n)
		}
		if strings.Contains(stdout, "NaN") || strings.Contains(stdout, "Inf") {
			t.Errorf("%s: not all figures are numbers:\n%s", line, stdout)
		}
	}
}

func TestDemoJSON(t *testing.T) {
	code, stdout, stderr := invoke("demo", "--json", "--papers", "1000", "--seed", "5")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	var got demo
	decodeOne(t, stdout, &got)
	want, err := runDemo(context.Background(), 1000, 5)
	if err != nil {
		t.Fatal(err)
	}
	if got.Papers != 1000 || got.Seed != 5 || len(got.Fields) != 2 || got.Judges[3].Verdicts[1].Risk != want.Judges[3].Verdicts[1].Risk {
		t.Errorf("got %+v, want the figures of %+v", got, want)
	}
}

// Small draws: sometimes the naive risk happens to be right, and the page must say so.
func TestDemoMeaningFollowsTheDraws(t *testing.T) {
	said := map[bool]bool{}
	for seed := range uint64(60) {
		d, err := runDemo(context.Background(), 3, seed)
		if err != nil {
			t.Fatal(err)
		}
		loses := d.Judges[0].Prefers != d.Judges[4].Prefers
		said[loses] = true
		if got := strings.Contains(d.meaning(), "the better recommender loses"); got != loses {
			t.Errorf("seed %d: the page says %v, the figures %v", seed, got, loses)
		}
	}
	if len(said) != 2 {
		t.Errorf("60 seeds show only %v", said)
	}
}

// The README shows this very output and a snippet that compiles.
func TestREADME(t *testing.T) {
	raw, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := strings.ReplaceAll(string(raw), "\r\n", "\n")
	if _, page, _ := invoke("demo"); !strings.Contains(readme, page) {
		t.Errorf("README.md does not show what unseen demo prints now; put this in:\n%s", page)
	}
	example, err := os.ReadFile("../../evaluate/readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, snippet, _ := strings.Cut(readme, "```go\n")
	snippet, _, _ = strings.Cut(snippet, "```")
	if snippet == "" || !strings.Contains(unindent(string(example)), unindent(snippet)) {
		t.Errorf("the Go snippet of README.md is not in evaluate/readme_test.go, which compiles it:\n%s", snippet)
	}
}

func unindent(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}

// Where both learn the same there is nothing to prefer; where a risk is negative the page warns.
func TestDemoOfTwoPapers(t *testing.T) {
	d, err := runDemo(context.Background(), 2, 2) // everything shown and linked
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	if err := d.print(&page); err != nil {
		t.Fatal(err)
	}
	fits80(t, page.String())
	if d.Judges[4].Prefers != "neither" || !strings.Contains(page.String(), "warning: R_PU of corrected: negative-risk") {
		t.Errorf("want neither preferred and a warning of R_PU:\n%s", &page)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("thousands(%d) is %q, want %q", n, got, want)
		}
	}
}
