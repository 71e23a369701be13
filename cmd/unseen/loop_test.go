package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// tiny is a loop of a moment.
const tiny = "loop --papers 60 --dim 6 --shown 6 --rounds 3 --seeds 2 --quiet"

func TestLoop(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	code, page, stderr := invoke(strings.Fields(tiny)...)
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	fits80(t, page)
	for _, says := range []string{
		"Of 100 recommendations to a paper in Art", "Corrected for exposure",
		"60 papers, 6 recommendations to each, 3 rounds, 2 worlds",
		"n naive   b bayes   · relevance alone", "the model sees the fields; what was not shown counts as not linked",
		"in round 3",
	} {
		if !strings.Contains(page, says) {
			t.Errorf("the page does not say %q:\n%s", says, page)
		}
	}
	var one, four loopReport
	for threads, r := range map[string]*loopReport{"1": &one, "4": &four} {
		code, text, stderr := invoke(append(strings.Fields(tiny), "--json", "--threads", threads)...)
		if code != exitOK {
			t.Fatalf("exit code %d, stderr %q", code, stderr)
		}
		decodeOne(t, text, r)
		r.Seconds = 0
	}
	if len(one.Methods) != 2 || len(one.Methods[0].Bands) != 3 || len(one.Forecast.Fields) != 2 ||
		len(one.Seeds) != 2 || !(one.Truth.Mean > 0) {
		t.Errorf("%+v", one)
	}
	var a, b bytes.Buffer
	if err := printJSON(&a, one); err != nil {
		t.Fatal(err)
	}
	if err := printJSON(&b, four); err != nil || a.String() != b.String() {
		t.Errorf("threads change the report: %v", err)
	}
}

func TestLoopRefuses(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		"--method magic":       "no method",
		"--method naive,naive": "naive twice",
		"--method naive,":      "names with commas",
		"--papers 3":           "give from 10",
		"--papers 0":           "--papers is 0",
		"--fields 1":           "give from 2",
		"--shown 500":          "give from 1 to 409",
		"--rounds 0":           "--rounds is 0",
		"--seeds 99999":        "--seeds is 99999",
		"--threads -1":         "--threads is -1",
		"--dim 9999":           "dimension 9999",
		"--rounds many":        "give a whole number",
		"now":                  "takes no arguments",
	} {
		code, stdout, stderr := invoke(append([]string{"loop"}, strings.Fields(line)...)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q, want %d and one line that says %q", line, code, stdout,
				stderr, exitUsage, says)
		}
	}
}

func TestLoopStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stdout, stderr bytes.Buffer
	if code := run(ctx, strings.Fields(tiny), &stdout, &stderr); code != exitFailure ||
		stderr.String() != "unseen: stopped before it was done\n" {
		t.Errorf("exit code %d, stderr %q", code, stderr.String())
	}
}

// The highest share is on the highest row, and every method is drawn.
func TestLoopChart(t *testing.T) {
	t.Parallel()
	code, page, _ := invoke(append(strings.Fields(tiny), "--method", "naive,naive-field", "--rounds", "1")...)
	if code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	if !strings.Contains(page, "n naive   a naive-field") || !strings.Contains(page, "100% │") {
		t.Errorf("the chart is wrong:\n%s", page)
	}
	fits80(t, page)
}
