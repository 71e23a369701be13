package network_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"unseen/dataset"
	"unseen/engine"
	"unseen/index"
	"unseen/internal/racetest"
	"unseen/model"
	"unseen/network"
	"unseen/sample"
	"unseen/world"
)

// An index is made of vectors alone, so that it serves models that nobody had in mind. Searched as narrowly as finds
// .985 of the hundred best of one trained model, it finds .975 of those of others: of another method, with the weights
// of the first in another order, and with weights drawn at random, a sixth of them below zero.
//
// UNSEEN_DATASET with its models UNSEEN_MODEL and UNSEEN_OTHER measures a dataset of yours instead, which has an index.
func TestIndexForModelsNeverSeen(t *testing.T) {
	racetest.Skip(t, "tests of index have the same goroutines")
	t.Parallel()
	folder, first, other := os.Getenv("UNSEEN_DATASET"), os.Getenv("UNSEEN_MODEL"), os.Getenv("UNSEEN_OTHER")
	if folder == "" || first == "" || other == "" {
		folder, first, other = likeTexts(t)
	}
	n, err := network.Open(t.Context(), folder, dataset.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	v := n.Graph().Vectors()
	web, err := n.Index(t.Context(), 0)
	if err == nil && web == nil {
		web, err = index.Build(t.Context(), v, index.Options{})
	}
	if err != nil {
		t.Fatal(err)
	}
	weights := weightsOf(t, first)
	random := rand.New(rand.NewPCG(1, 2))
	permuted, drawn := make([]float32, len(weights)), make([]float32, len(weights))
	for d, from := range random.Perm(len(weights)) {
		permuted[d], drawn[d] = weights[from], float32(1+random.NormFloat64())
	}
	const enough, least = .985, .975
	asked := newAsked(t, web, n, weights)
	width := index.StandardWidth
	share := asked.found(t, width)
	for ; share < enough && width < index.MostWidth; width += width / 12 {
		share = asked.found(t, width+width/12)
	}
	t.Logf("the trained model: %.4f of the hundred best, %d wide", share, width)
	for name, w := range map[string][]float32{"another method": weightsOf(t, other), "permuted": permuted,
		"drawn": drawn} {
		share := newAsked(t, web, n, w).found(t, width)
		if t.Logf("%s: %.4f", name, share); share < least {
			t.Errorf("%s: a search as wide as %d finds %.4f of the hundred best; want %v", name, width, share, least)
		}
	}
}

// likeTexts writes a dataset and two models of it.
func likeTexts(t *testing.T) (folder, first, other string) {
	t.Helper()
	w, err := world.New(t.Context(), world.Settings{Nodes: 3000, Dim: 32, Fields: world.EvenFields(5),
		Scenario: world.Scenario{BaseRate: .01, OracleAUC: .95, Seed: 1}})
	if err == nil {
		w, err = w.Linked(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	folder = filepath.Join(t.TempDir(), "dataset")
	if _, err := dataset.Write(t.Context(), folder, dataset.Content{Graph: w.Graph()},
		dataset.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	whole := func(*sample.Origin) {}
	return folder, trained(t, folder, "mle", whole), trained(t, folder, "naive", whole)
}

// weightsOf returns the w of a diagonal model.
func weightsOf(t *testing.T, path string) []float32 {
	t.Helper()
	file, err := model.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	w, _ := file.Tensor("link.w")
	weights, ok := w.Data.([]float32)
	if !ok {
		t.Fatalf("%s has no w", path)
	}
	return weights
}

// asked is queries with their hundred best.
type asked struct {
	web    *index.Web
	search engine.TargetSearch
	exact  [][]engine.Hit
}

// newAsked asks with the vectors of nodes, weighed.
func newAsked(t *testing.T, web *index.Web, n *network.Network, weights []float32) *asked {
	t.Helper()
	v := n.Graph().Vectors()
	a := &asked{web: web, search: engine.TargetSearch{Targets: v, K: 100}}
	for k := range 300 {
		q := make([]float32, v.Dim())
		v.Load(q, int32(k*7919%v.Len()))
		for d := range q {
			q[d] *= weights[d]
		}
		a.search.Queries = append(a.search.Queries, engine.SearchQuery{Vector: q})
	}
	exactly := a.search
	exactly.Sketch = web.Sketch()
	var err error
	if a.exact, err = (engine.CPU{}).TopK(t.Context(), exactly); err != nil {
		t.Fatal(err)
	}
	return a
}

// found is the share of the best that a walk finds.
func (a *asked) found(t *testing.T, width int) float64 {
	t.Helper()
	lists, err := a.web.TopK(t.Context(), a.search, width, 0)
	if err != nil {
		t.Fatal(err)
	}
	hit, all := 0, 0
	for q, hits := range a.exact {
		have := map[int32]bool{}
		for _, h := range lists[q] {
			have[h.Target] = true
		}
		for _, h := range hits {
			if all++; have[h.Target] {
				hit++
			}
		}
	}
	return float64(hit) / float64(all)
}
