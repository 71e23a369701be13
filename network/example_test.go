package network_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"unseen/dataset"
	"unseen/fit"
	"unseen/model"
	"unseen/network"
	"unseen/recommend"
	"unseen/sample"
	"unseen/world"
)

// check stands for the error handling of a real program.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// library writes a dataset, as unseen import and unseen encode do, into a new folder.
func library(seed uint64) (parent, folder string) {
	ctx := context.Background()
	parent, err := os.MkdirTemp("", "unseen-")
	check(err)
	w, err := world.New(ctx, world.Settings{Nodes: 150, Dim: 8, Fields: world.EvenFields(3),
		Scenario: world.Scenario{BaseRate: .1, OracleAUC: .95, Seed: seed}})
	check(err)
	w, err = w.Linked(ctx)
	check(err)
	folder = filepath.Join(parent, "papers")
	_, err = dataset.Write(ctx, folder, dataset.Content{Graph: w.Graph()}, dataset.WriteOptions{})
	check(err)
	return parent, folder
}

// learn fits a model to a dataset and saves it.
func learn(ctx context.Context, folder, path string) {
	n, err := network.Open(ctx, folder, dataset.OpenOptions{})
	check(err)
	defer n.Close()
	plan, _ := sample.PlanFor(n.Graph()) // by age, or at random where the links follow no order
	prepared, err := n.Prepare(ctx, sample.Origin{Plan: plan}, 0)
	check(err)
	result, err := fit.Fit(ctx, prepared.Problem, fit.Settings{Method: "mle", Seed: 1})
	check(err)
	m, err := result.Model()
	check(err)
	check(model.Save(path, m))
}

// Fit a model to a folder. The newest papers are held out, and the model records which pairs it was fitted to.
func ExampleOpen() {
	parent, folder := library(1)
	defer os.RemoveAll(parent)
	learn(context.Background(), folder, filepath.Join(parent, "model.safetensors"))

	n, err := network.Open(context.Background(), folder, dataset.OpenOptions{})
	check(err)
	defer n.Close()
	fitted, err := n.Model(context.Background(), filepath.Join(parent, "model.safetensors"))
	check(err)
	prepared, m, err := fitted.HeldOut(context.Background(), 0) // the same split again
	check(err)
	fmt.Println(m.Method, "knows its", len(fitted.Origin.Files), "files, and of", n.Graph().Len(), "papers",
		len(prepared.Split.Nodes(2)), "were held out")
	// Output: mle knows its 3 files, and of 150 papers 30 were held out
}

// Open a model and recommend. A model of another dataset is refused.
func ExampleNetwork_Model() {
	ctx := context.Background()
	parent, folder := library(1)
	defer os.RemoveAll(parent)
	path := filepath.Join(parent, "model.safetensors")
	learn(ctx, folder, path)

	n, err := network.Open(ctx, folder, dataset.OpenOptions{})
	check(err)
	defer n.Close()
	fitted, err := n.Model(ctx, path)
	check(err)
	r, err := fitted.Recommender(ctx, nil, recommend.Options{})
	check(err)
	node, _ := n.Graph().Index("p140")
	list, err := r.Top(ctx, recommend.Query{Source: r.Node(node), K: 3})
	check(err)
	for _, item := range list.Items {
		fmt.Println(item.Rank, item.ID != "", item.Link > 0 && item.Link < 1)
	}

	other, elsewhere := library(2)
	defer os.RemoveAll(other)
	wrong, err := network.Open(ctx, elsewhere, dataset.OpenOptions{})
	check(err)
	defer wrong.Close()
	_, err = wrong.Model(ctx, path)
	fmt.Println(errors.Is(err, network.ErrModel))
	// Output:
	// 1 true true
	// 2 true true
	// 3 true true
	// true
}
