// Embed the service in a program of your own: its API and pages under your own mux, and the same calls from Go.
//
// Prints:
//
//	from Go: 3 items, 3 logged
//	over HTTP the same: true
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"unseen/dataset"
	"unseen/fit"
	"unseen/model"
	"unseen/serve"
	"unseen/world"
)

func main() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "unseen-embed-")
	check(err)
	defer os.RemoveAll(folder)
	prepare(ctx, folder) // or: unseen demo --out FOLDER

	service, err := serve.Open(ctx, serve.Options{Folder: folder})
	check(err)
	defer service.Close()

	// From Go: a list whose items are logged as shown, each with its probability.
	list, err := service.Recommend(ctx, serve.Ask{Node: "p150", K: 3, Seed: new(uint64(1)), Log: true})
	check(err)
	fmt.Printf("from Go: %d items, %d logged\n", len(list.Items), list.Logged)

	mux := http.NewServeMux() // with what your program serves already
	mux.Handle("/", service.Handler())
	server := httptest.NewServer(mux) // http.ListenAndServe(":8080", mux) in earnest, with serve.Options.Tokens
	defer server.Close()
	answer, err := http.Get(server.URL + "/api/v1/recommendations?node=p150&k=3&seed=1")
	check(err)
	defer answer.Body.Close()
	var again serve.Answer
	check(json.NewDecoder(answer.Body).Decode(&again))
	fmt.Println("over HTTP the same:", again.Items[0].ID == list.Items[0].ID && again.Model == list.Model)
}

// prepare writes what a service needs: a dataset and a model of it.
func prepare(ctx context.Context, folder string) {
	plan := world.Plan{BaseRate: .1, OracleAUC: .95, Seed: 5}
	made, err := world.New(ctx, world.Settings{Nodes: 200, Dim: 8, Fields: world.EvenFields(3), Plan: plan})
	check(err)
	made, err = made.Linked(ctx)
	check(err)
	manifest, err := dataset.Write(ctx, filepath.Join(folder, "dataset"), dataset.Content{Graph: made.Graph()}, dataset.WriteOptions{})
	check(err)
	data := fit.Data{Files: manifest.Checksums(), Drawing: fit.Drawing{Split: fit.Whole, PerLink: 4}}
	_, drawn, err := data.Prepare(ctx, made.Graph(), nil, 1)
	check(err)
	result, err := fit.Fit(ctx, drawn.Problem, fit.Settings{}, fit.Progress{})
	check(err)
	m, err := result.Model() // which knows the dataset and its pairs; the service trains on them again
	check(err)
	check(model.Save(filepath.Join(folder, "model.safetensors"), m))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
