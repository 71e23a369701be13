package network_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"unseen/dataset"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/network"
	"unseen/recommend"
	"unseen/sample"
	"unseen/world"
)

// planted writes a small world as a dataset and returns its folder and its graph.
func planted(t testing.TB, seed uint64) (string, *graph.Graph) {
	t.Helper()
	w, err := world.New(t.Context(), world.Settings{Nodes: 150, Dim: 8, Fields: world.EvenFields(3),
		Scenario: world.Scenario{BaseRate: .1, OracleAUC: .95, Seed: seed, Threads: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if w, err = w.Linked(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := w.Graph()
	folder := filepath.Join(t.TempDir(), "dataset")
	if _, err := dataset.Write(t.Context(), folder, dataset.Content{Graph: g}, dataset.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return folder, g
}

// trained fits a model to a dataset, as unseen fit does.
func trained(t testing.TB, folder, method string, change func(*sample.Origin)) string {
	t.Helper()
	n, err := network.Open(t.Context(), folder, dataset.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	drawing, _ := sample.PlanFor(n.Graph())
	data := sample.Origin{Files: n.Files(), Plan: drawing}
	change(&data)
	drawn, err := sample.Prepare(t.Context(), n.Graph(), sample.Options{Origin: data, Log: n.Log(), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	result, err := fit.Fit(t.Context(), drawn.Problem, fit.Settings{Method: method, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	m, err := result.Model()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), method+".safetensors")
	if err := model.Save(path, m); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	folder, g := planted(t, 1)
	asItIs := func(*sample.Origin) {}
	path, naive := trained(t, folder, "mle", asItIs), trained(t, folder, "naive", asItIs)
	n, err := network.Open(t.Context(), folder, dataset.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	m, err := n.Model(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	prepared, loaded, err := m.HeldOut(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if prepared.Graph.LinkCount() != g.LinkCount() || prepared.Test.Pairs.Len() == 0 || loaded.Method != "mle" {
		t.Errorf("%d links, %d held-out pairs, method %q", prepared.Graph.LinkCount(), prepared.Test.Pairs.Len(),
			loaded.Method)
	}
	other, err := n.Model(t.Context(), naive)
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Recommender(t.Context(), other, recommend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := r.Top(t.Context(), recommend.Query{Source: r.Node(140), K: 5, Compare: true})
	if err != nil || len(list.Items) != 5 || len(list.Naive) != 5 {
		t.Errorf("%v, %+v", err, list)
	}
	if known, err := n.OpenTexts(); known || err != nil {
		t.Errorf("a dataset without texts has an encoder: %v, %v", known, err)
	}
	// fields are found once, and by the whole of how they were asked for
	clustered := sample.Origin{Files: n.Files(), Plan: m.Origin.Plan, Fields: sample.FieldsBy{Kind: "vectors", Count: 4,
		Seed: 1}}
	one, err := n.WithFields(t.Context(), clustered, 1)
	if err != nil || one.FieldCount() != 5 {
		t.Fatalf("%v, %d fields", err, one.FieldCount())
	}
	if again, err := n.WithFields(t.Context(), clustered, 2); err != nil || again != one {
		t.Errorf("%v: found twice", err)
	}
	clustered.Fields.Count = 5
	if more, err := n.WithFields(t.Context(), clustered, 1); err != nil || more.FieldCount() != 6 {
		t.Errorf("%v: five fields are not five", err)
	}
}

// A model of other data is refused in words, and so is one that leaves nothing to judge it by.
func TestRefused(t *testing.T) {
	t.Parallel()
	folder, g := planted(t, 1)
	elsewhere, _ := planted(t, 2)
	asItIs := func(*sample.Origin) {}
	mine := trained(t, folder, "naive", asItIs)
	whole := trained(t, folder, "naive", func(o *sample.Origin) {
		o.Plan = sample.Plan{Split: sample.Whole, Later: true}
	})
	unsaid := trained(t, folder, "naive", func(d *sample.Origin) { d.Files = nil })
	n, err := network.Open(t.Context(), folder, dataset.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	other, err := network.Open(t.Context(), elsewhere, dataset.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	held := func(n *network.Network, path string) error {
		m, err := n.Model(t.Context(), path)
		if err == nil {
			_, _, err = m.HeldOut(t.Context(), 1)
		}
		return err
	}
	bare := filepath.Join(t.TempDir(), "bare")
	b := new(graph.Builder)
	for i := range 4 {
		if _, err := b.AddNode(graph.Node{ID: fmt.Sprint(i), Field: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	without, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dataset.Write(t.Context(), bare, dataset.Content{Graph: without}, dataset.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, blind := network.Open(t.Context(), bare, dataset.OpenOptions{})
	silent := filepath.Join(t.TempDir(), "silent.safetensors")
	file, err := model.Open(mine)
	if err != nil {
		t.Fatal(err)
	}
	delete(file.Metadata, model.KeyData)
	if err := file.Save(silent); err != nil {
		t.Fatal(err)
	}
	_, absent := n.Model(t.Context(), filepath.Join(folder, "absent"))
	for name, c := range map[string]struct {
		err, kind error
		words     []string
	}{
		"whole":       {held(n, whole), network.ErrNothingHeld, []string{whole, "another split"}},
		"elsewhere":   {held(other, mine), network.ErrModel, []string{mine, elsewhere, "another"}},
		"other pairs": {held(other, unsaid), network.ErrModel, []string{unsaid, elsewhere, "checksum"}},
		"silent":      {held(n, silent), network.ErrModel, []string{silent, "fit a model to " + folder}},
		"no vectors":  {blind, network.ErrVectors, []string{bare, "encode its texts"}},
		"absent":      {absent, os.ErrNotExist, []string{"absent"}},
	} {
		if !errors.Is(c.err, c.kind) {
			t.Errorf("%s: %v", name, c.err)
			continue
		}
		for _, word := range c.words {
			if !strings.Contains(c.err.Error(), word) {
				t.Errorf("%s: %q does not name %q", name, c.err, word)
			}
		}
	}
	if err := held(n, mine); err != nil || g.Len() == 0 {
		t.Error(err)
	}
}

// A model that was fitted as the documentation says, to a graph in memory or to a network, is known again over its own
// dataset and refused over another.
func TestFittedInGo(t *testing.T) {
	t.Parallel()
	here, g := planted(t, 1)
	elsewhere, _ := planted(t, 2)
	byHand, _ := planted(t, 1) // as a script would write it
	if err := os.Remove(filepath.Join(byHand, dataset.ManifestFile)); err != nil {
		t.Fatal(err)
	}
	open := func(folder string) *network.Network {
		n, err := network.Open(t.Context(), folder, dataset.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		return n
	}
	n, other, bare := open(here), open(elsewhere), open(byHand)
	save := func(drawn *sample.Prepared, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		result, err := fit.Fit(t.Context(), drawn.Problem, fit.Settings{Method: "naive"})
		if err != nil {
			t.Fatal(err)
		}
		m, err := result.Model()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "model.safetensors")
		if err := model.Save(path, m); err != nil {
			t.Fatal(err)
		}
		return path
	}
	drawing := sample.Origin{Plan: sample.Plan{Split: sample.Whole, PerLink: 2}}
	memory, err1 := sample.Prepare(t.Context(), g, sample.Options{Origin: drawing})
	files, err2 := n.Prepare(t.Context(), drawing, 0)
	hashed, err3 := bare.Prepare(t.Context(), drawing, 0)
	for name, path := range map[string]string{"memory": save(memory, err1), "network": save(files, err2),
		"by hand": save(hashed, err3)} {
		for _, own := range []*network.Network{n, bare} { // the same bytes
			if _, err := own.Model(t.Context(), path); err != nil {
				t.Errorf("%s: over its own data: %v", name, err)
			}
		}
		if _, err := other.Model(t.Context(), path); !errors.Is(err, network.ErrModel) {
			t.Errorf("%s: over other data: %v", name, err)
		}
	}
	if n := len(hashed.Problem.Origin.Files); n != 3 {
		t.Errorf("of a dataset without a manifest %d files are known", n)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.Model(stopped, save(memory, err1)); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}
