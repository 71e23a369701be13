// Embed the service in a program of your own: below a path of your mux, for who has a token, and called from Go.
//
// Prints:
//
//	from Go: 3 items, 3 logged
//	over HTTP the same: true
//	closed in order: true
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"unseen/dataset"
	"unseen/fit"
	"unseen/model"
	"unseen/sample"
	"unseen/serve"
	"unseen/world"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	folder := check(os.MkdirTemp("", "unseen-embed-"))
	defer os.RemoveAll(folder)
	prepare(ctx, folder) // or: unseen demo --out FOLDER
	file := filepath.Join(folder, "tokens.json")
	secret := check(serve.AddToken(file, "website", serve.ScopeWrite, time.Now())) // or: unseen serve token
	// Without tokens only this machine may ask; Options.Open lets everybody in.
	service := check(serve.Open(ctx, serve.Options{Folder: folder, Prefix: "/recs",
		Tokens: check(serve.OpenTokens(file))}))
	// A list whose items are logged as shown, each with its probability.
	list := check(service.Recommend(ctx, serve.RecommendRequest{Node: "p150", K: 3, Seed: new(uint64(1)), Log: true}))
	fmt.Printf("from Go: %d items, %d logged\n", len(list.Items), list.Logged)

	mux := http.NewServeMux() // with what your program serves already
	mux.Handle("/recs/", service.Handler())
	server := httptest.NewServer(mux) // in earnest an http.Server with time limits
	request := check(http.NewRequestWithContext(ctx, "GET", server.URL+
		"/recs/api/v1/recommendations?node=p150&k=3&seed=1", nil))
	request.Header.Set("Authorization", "Bearer "+secret)
	answer := check(http.DefaultClient.Do(request))
	defer answer.Body.Close()
	var again serve.RecommendResponse
	check(0, json.NewDecoder(answer.Body).Decode(&again))
	fmt.Println("over HTTP the same:", again.Items[0].ID == list.Items[0].ID && again.Model == list.Model)
	stop() // as Ctrl-C does
	<-ctx.Done()
	check(0, server.Config.Shutdown(context.Background())) // requests under way end,
	check(0, service.Close())                              // and then what they read from is given back
	_, err := service.Recommend(context.Background(), serve.RecommendRequest{Node: "p150"})
	fmt.Println("closed in order:", errors.Is(err, serve.ErrClosed))
}

// prepare writes what a service needs: a dataset and a model of it.
func prepare(ctx context.Context, folder string) {
	settings := world.Settings{Nodes: 200, Dim: 8, Fields: world.EvenFields(3),
		Scenario: world.Scenario{BaseRate: .1, OracleAUC: .95, Seed: 5}}
	made := check(check(world.New(ctx, settings)).Linked(ctx))
	manifest := check(dataset.Write(ctx, filepath.Join(folder, "dataset"), dataset.Content{Graph: made.Graph()},
		dataset.WriteOptions{}))
	data := sample.Origin{Files: manifest.Checksums(), Plan: sample.Plan{Split: sample.Whole, PerLink: 4}}
	drawn, err := sample.Prepare(ctx, made.Graph(), sample.Options{Origin: data, Threads: 1})
	check(0, err)
	// it knows its dataset and pairs; the service trains on them again
	m := check(check(fit.Fit(ctx, drawn.Problem, fit.Settings{}, fit.Progress{})).Model())
	check(0, model.Save(filepath.Join(folder, "model.safetensors"), m))
}

func check[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
