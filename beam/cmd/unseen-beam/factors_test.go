package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"unseen/dataset"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/sample"
)

// writeShop writes people and items, with a log of all that a third of the people were shown, and returns the folder
// and the log.
func writeShop(t *testing.T) (folder string, log *sample.ExposureLog) {
	t.Helper()
	rng := rand.New(rand.NewPCG(6, 1))
	var b graph.Builder
	const people, items = 60, 40
	vectors, err := graph.NewVectors(people+items, 3)
	log = &sample.ExposureLog{}
	for i := range people + items {
		role := graph.SourceOnly
		if i >= people {
			role = graph.TargetOnly
		}
		if err == nil {
			_, err = b.AddNode(graph.Node{ID: fmt.Sprintf("n%03d", i), Field: []string{"north", "south"}[i%2],
				Role: role})
		}
		if err == nil {
			err = vectors.Set(int32(i), []float32{float32(1 + i%3), float32(i % 4), rng.Float32()})
		}
	}
	for i := range int32(people) {
		for j := range int32(items) {
			shown := rng.IntN(3) == 0
			linked := shown && (i%4 == j%4 || rng.IntN(5) == 0)
			if linked && err == nil {
				err = b.AddLinkIndex(i, people+j)
			}
			if shown && i%3 == 0 {
				log.Source, log.Target = append(log.Source, i), append(log.Target, people+j)
				log.Exposed, log.Linked = append(log.Exposed, true), append(log.Linked, linked)
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	g, _, err := b.Build()
	if err == nil {
		g, err = g.WithVectors(vectors)
	}
	folder = filepath.Join(t.TempDir(), "shop")
	if err == nil {
		_, err = dataset.Write(t.Context(), folder, dataset.Content{Graph: g, Log: string(sample.Complete),
			Exposures: &dataset.Exposures{Source: log.Source, Target: log.Target, Exposed: log.Exposed,
				Linked: log.Linked}}, dataset.WriteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return folder, log
}

// oneMachine fits what shards of a shop hold, as unseen fit does.
func oneMachine(t *testing.T, folder string, log *sample.ExposureLog, s fit.Settings) *fit.Result {
	t.Helper()
	d, err := dataset.Open(t.Context(), folder, dataset.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	p, err := sample.Prepare(t.Context(), d.Graph(), sample.Options{Log: log, Origin: sample.Origin{Plan: sample.Plan{
		Split: sample.RandomLinks, Later: true, PerLink: 4, Log: sample.Complete, EveryShown: true, Seed: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := fit.Fit(t.Context(), p.Problem, s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Factors of a shop with a log have the parameters of one machine and its findings, in what is printed and in the model
// file; they are evaluated and certified, and what a log does not allow is refused.
func TestFactorsOfALog(t *testing.T) {
	folder, log := writeShop(t)
	work := t.TempDir()
	at := func(name string) string { return filepath.Join(work, name) }
	if out, err := run(t, "import", folder, "-o", at("shards"), "--split", "random-links", "--block",
		"40"); err != nil ||
		!strings.Contains(out, "100 nodes in 3 blocks") {
		t.Fatalf("import: %q, %v", out, err)
	}
	for _, method := range []string{"mle", fit.ShownOnly} {
		want := oneMachine(t, folder, log, fit.Settings{Method: method, Link: "factors", Ridge: .25, Seed: 1,
			LBFGS: fit.LBFGSSettings{Iterations: 3}})
		path := at(method + ".safetensors")
		out, err := run(t, "fit", at("shards"), "-o", path, "--method", method, "--iterations", "3", "--quiet")
		if err != nil || !strings.Contains(out, want.Findings.Verdict[0]) ||
			!strings.Contains(out, "scale: not checked") || !strings.Contains(out, "pairs whose exposure is logged") {
			t.Errorf("fit by %s: %q, %v; one machine finds %q", method, out, err, want.Findings.Verdict)
		}
		file, err := model.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		one, err := want.Model()
		if err != nil {
			t.Fatal(err)
		}
		same, err := one.File()
		if err != nil || len(file.Tensors) != len(same.Tensors) ||
			file.Metadata[model.KeyFindings] != same.Metadata[model.KeyFindings] {
			t.Errorf("%v: the model of %s has the findings %s, one machine's %s", err, method,
				file.Metadata[model.KeyFindings], same.Metadata[model.KeyFindings])
		}
		for _, tensor := range same.Tensors {
			if own, _ := file.Tensor(tensor.Name); !reflect.DeepEqual(own.Data, tensor.Data) {
				t.Errorf("%s of the model of %s is not one machine's", tensor.Name, method)
			}
		}
	}
	out, err := run(t, "evaluate", at("mle.safetensors"), at("shards"), "--against", at("shown.safetensors"),
		"--certify", "1", "--pairs", "700", "--rank", "5", "--quiet", "--json")
	var judged evaluation
	if err == nil {
		err = json.Unmarshal([]byte(out), &judged)
	}
	if c := judged.Certificate; err != nil || c == nil || c.Method != "mle" || c.Nodes != 100 || c.Pairs != 700 ||
		len(judged.HeldRisks) != 2 {
		t.Errorf("evaluate: %s, %v", out, err)
	}
	for words, args := range map[string][]string{
		"planted truths have none": {"evaluate", at("shown.safetensors"), at("shards"), "--certify", "1"},
		"which bayes cannot weigh": {"fit", at("shards"), "-o", at("never"), "--method", "bayes"},
		"is learned with factors on one machine": {"fit", at("shards"), "-o", at("never"), "--method", "mle",
			"--exposure", "fields+popularity"},
		"no method": {"fit", at("shards"), "-o", at("never"), "--method", "absurd"},
	} {
		if _, err := run(t, append(args, "--quiet")...); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// A log of all that was shown is learned from by bayes too, where shown pairs are drawn like others.
func TestBayesOfALog(t *testing.T) {
	folder, _ := writeShop(t)
	work := t.TempDir()
	at := func(name string) string { return filepath.Join(work, name) }
	for _, args := range [][]string{
		{"import", folder, "-o", at("shards"), "--split", "random-links", "--every-shown=false"},
		{"fit", at("shards"), "-o", at("model.safetensors"), "--method", "bayes", "--doctor", "quick", "--replicates",
			"0", "--exposure", "fields", "--quiet"},
	} {
		if out, err := run(t, args...); err != nil || out == "" {
			t.Fatalf("%v: %q, %v", args, out, err)
		}
	}
}
