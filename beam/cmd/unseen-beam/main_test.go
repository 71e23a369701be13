package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"unseen/dataset"
	"unseen/hint"
	"unseen/world"
)

func TestMain(m *testing.M) {
	flag.Parse()
	beam.Init()
	os.Exit(m.Run())
}

// spoken is an error as the program words it.
type spoken struct {
	text string
	error
}

func (e spoken) Error() string { return e.text }
func (e spoken) Unwrap() error { return e.error }

func TestSettingsAreNamedByFlags(t *testing.T) {
	err := hint.Wrap(errors.New("two of a kind"), "set %v or %v", hint.Setting("userPrefix"), hint.Setting("tokens"))
	if got := worded(newImport(), err); got != "two of a kind; set --user-prefix or tokens" {
		t.Errorf("%q", got)
	}
}

// run runs the command line and returns what it prints.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root := newRoot()
	var out, messages bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&messages)
	root.SetArgs(args)
	failed, err := root.ExecuteContextC(context.Background())
	if err != nil {
		err = spoken{worded(failed, err), err}
	}
	return out.String(), err
}

func writeDataset(t *testing.T, seed uint64) string {
	t.Helper()
	ctx := context.Background()
	w, err := world.New(ctx, world.Settings{Nodes: 200, Dim: 6, Fields: world.EvenFields(3),
		Scenario: world.Scenario{Seed: seed}})
	if err == nil {
		w, err = w.Linked(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "papers")
	if _, err := dataset.Write(ctx, folder, dataset.Content{Graph: w.Graph()}, dataset.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return folder
}

// check holds what is said of all held-out pairs against what the driver says of those that it drew, which are all.
func (judged *evaluation) check(t *testing.T) {
	t.Helper()
	if len(judged.HeldRisks) != 2 || judged.HeldRisks[1].Model != "ap.safetensors" {
		t.Fatalf("risks over all held-out pairs: %+v", judged.HeldRisks)
	}
	for i, r := range judged.HeldRisks[1].Risks {
		own := judged.Evaluation.Others[0].Panel.Risks[i]
		if d := r.Against; r.Scheme != own.Scheme || math.Abs(r.Risk.Value-own.Risk.Plain) > 1e-6 || d == nil ||
			math.Abs(d.Value-own.Against.Plain) > 1e-6 || !(d.Lower < d.Upper) {
			t.Errorf("%+v over all held-out pairs, by the driver %+v", r, own)
		}
	}
	other := judged.Evaluation.Others[0]
	if r := judged.Evaluation.Ranks; len(r) != 2 || len(other.Ranks) != 2 || r[0].Sources < 2 || r[0].MRR == nil ||
		!(*r[0].MRR > 0 && *r[0].MRR <= 1) || other.Ranks[0].Against == nil {
		t.Errorf("ranks %+v and %+v", r, other.Ranks)
	}
	for i, r := range judged.Evaluation.Panel.Risks {
		if d := other.Panel.Risks[i].Against; !(r.Risk.Lower < r.Risk.Upper) || d == nil || !(d.Lower < d.Upper) {
			t.Errorf("%s is %+v, the difference %+v", r.Scheme, r.Risk, d)
		}
	}
}

// checkCertificate plants truths on shards with and without held-out pairs.
func checkCertificate(t *testing.T, at func(string) string) {
	t.Helper()
	if out, err := run(t, "import", writeDataset(t, 1), "-o", at("whole"), "--split", "whole"); err != nil {
		t.Fatalf("import without a split: %q, %v", out, err)
	}
	if out, err := run(t, "evaluate", at("ap.safetensors"), at("shards"), "--pairs", "3000", "--rank", "0", "--certify",
		"1", "--quiet"); err != nil || !strings.Contains(out, "1 truth planted on these 200 nodes, ap reached") {
		t.Errorf("evaluate --certify: %q, %v", out, err)
	}
	out, err := run(t, "evaluate", at("ap.safetensors"), at("whole"), "--certify", "2", "--pairs", "2000", "--json")
	var judged evaluation
	if err == nil {
		err = json.Unmarshal([]byte(out), &judged)
	}
	if c := judged.Certificate; err != nil || c == nil || c.Nodes != 200 || c.Repeats != 2 || c.Pairs != 2000 ||
		judged.Evaluation != nil {
		t.Errorf("evaluate --certify without held-out pairs: %s, %v", out, err)
	}
	if _, err := run(t, "evaluate", at("ap.safetensors"), at("whole")); err == nil ||
		!strings.Contains(err.Error(), "or --certify") {
		t.Errorf("evaluate without held-out pairs: %v", err)
	}
}

// TestFromDatasetToLists goes all the way, and then gives a model of other data.
func TestFromDatasetToLists(t *testing.T) {
	work := t.TempDir()
	at := func(name string) string { return filepath.Join(work, name) }
	for name, seed := range map[string]uint64{"shards": 1, "others": 2} {
		if out, err := run(t, "import", writeDataset(t, seed), "-o", at(name), "--split", "random", "--block",
			"80"); err != nil || !strings.Contains(out, "200 nodes in 3 blocks") {
			t.Fatalf("import: %q, %v", out, err)
		}
	}
	out, err := run(t, "fit", at("shards"), "-o", at("ap.safetensors"), "--method", "ap", "--iterations", "4",
		"--quiet", "--json")
	var fitted fitReport
	if err == nil {
		err = json.Unmarshal([]byte(out), &fitted)
	}
	if err != nil || fitted.Iterations != 4 || fitted.Evaluations < 5 {
		t.Fatalf("fit by ap: %s, %v", out, err)
	}
	out, err = run(t, "fit", at("shards"), "-o", at("model.safetensors"), "--hold", "1500", "--replicates", "2",
		"--exposure", "fields+popularity", "--quiet", "--json")
	fitted = fitReport{}
	if err == nil {
		err = json.Unmarshal([]byte(out), &fitted)
	}
	if err != nil || fitted.Method != "bayes" || fitted.Findings == nil || fitted.Findings.Set == nil ||
		fitted.Findings.Exposure != "fields+popularity" || int64(fitted.Findings.Support.Pairs) != fitted.Pairs ||
		fitted.Evaluations < 8 {
		t.Fatalf("fit by bayes: %s, %v", out, err)
	}
	if _, err := os.Stat(at("model.safetensors.checkpoint")); err == nil {
		t.Error("a checkpoint is left of a finished fit")
	}
	out, err = run(t, "evaluate", at("model.safetensors"), at("shards"), "--exact", "--json", "--against",
		at("ap.safetensors"))
	var judged evaluation
	if err == nil {
		err = json.Unmarshal([]byte(out), &judged)
	}
	if err != nil || judged.Held == nil || judged.All == nil || judged.All.Pairs != 200*199 ||
		int64(judged.Evaluation.Pairs) != judged.Held.Pairs {
		t.Fatalf("evaluate: %s, %v", out, err)
	}
	judged.check(t)
	if out, err := run(t, "evaluate", at("model.safetensors"), at("shards"), "--pairs", "300", "--against",
		at("ap.safetensors"), "--rank", "5", "--sources", "9"); err != nil || !strings.Contains(out, "above by") ||
		!strings.Contains(out, "AUC") || !strings.Contains(out, "for 9 held-out nodes") ||
		!strings.Contains(out, "recall@5") {
		t.Errorf("evaluate: %q, %v", out, err)
	}
	checkCertificate(t, at)
	if out, err := run(t, "recommend", at("model.safetensors"), at("shards"), "-o", at("lists"), "-k",
		"3"); err != nil || !strings.Contains(out, "200 nodes") {
		t.Fatalf("recommend: %q, %v", out, err)
	}
	for _, args := range [][]string{
		{"evaluate", at("model.safetensors"), at("others")},
		{"recommend", at("model.safetensors"), at("others"), "-o", at("never")},
	} {
		if _, err := run(t, args...); err == nil || !strings.Contains(err.Error(), "model.safetensors") ||
			!strings.Contains(err.Error(), "other data") {
			t.Errorf("%s with a model of other data: %v", args[0], err)
		}
	}
	if _, err := os.Stat(at("never")); err == nil {
		t.Error("lists were made with a model of other data")
	}
	left, err := filepath.Glob(at("*.tmp-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestWrongCommandLines(t *testing.T) {
	for _, c := range []struct {
		args  []string
		words string
	}{
		{[]string{"fit", "nowhere", "-o", filepath.Join(t.TempDir(), "m")}, "shards.json"},
		{[]string{"fit", "nowhere"}, "-o"},
		{[]string{"fit", "nowhere", "-o", filepath.Join(t.TempDir(), "m"), "--runner", "flink"}, "--endpoint"},
		{[]string{"fit", "nowhere", "-o", filepath.Join(t.TempDir(), "m"), "--hold", "-1"}, "--hold"},
		{[]string{"evaluate", "nowhere", "nowhere", "--pairs", "0"}, "--pairs"},
		{[]string{"evaluate", "nowhere", "nowhere", "--draws", "1"}, "--draws"},
		{[]string{"evaluate", "nowhere", "nowhere", "--floor", "1"}, "--floor"},
		{[]string{"evaluate", "nowhere", "nowhere", "--rank", "-1"}, "--rank"},
		{[]string{"evaluate", "nowhere", "nowhere", "--certify", "101"}, "--certify"},
		{[]string{"import", "nowhere", "-o", "s", "--lenient"}, "--lenient is of interactions"},
		{[]string{"import", "nowhere", "-o", "s", "--clicks", "c.csv"}, "--clicks is of interactions"},
		{[]string{"import", "--absurd"}, "--absurd"},
		{[]string{"recommend", "nowhere", "nowhere", "-o", "lists", "--exact", "--recall", ".5"}, "--recall"},
		{[]string{"evaluate", "nowhere", "nowhere", "--sources", "0"}, "--sources"},
		{[]string{"import", "nowhere", "-o", filepath.Join(t.TempDir(), "s")}, "nowhere"},
		{[]string{"import", "--from", "paper", "x", "-o", "y"}, "dataset, openalex or interactions"},
		{[]string{"import", "--from", "openalex", "x", "-o", "y"}, "encoder.safetensors"},
	} {
		if _, err := run(t, c.args...); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%v: %v", c.args, err)
		}
	}
}
