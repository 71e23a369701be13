// Embed the service in a program of your own: under a path of your mux, for callers with a token, and called from Go.
//
// Prints:
//
//	from Go: 3 items, 3 logged
//	the same over HTTP: true
//	closed: true
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
	prepare(ctx, folder) // or: unseen demo --out FOLDER, unseen serve token
	file := filepath.Join(folder, "tokens.json")
	secret := check(serve.AddToken(file, "website", serve.ScopeWrite, time.Now()))
	tokens := check(serve.OpenTokens(file)) // without tokens only this machine may ask
	service := check(serve.Open(ctx, serve.Options{Folder: folder, Prefix: "/recs", Tokens: tokens}))
	// A list whose items are logged as shown, each with its probability.
	list := check(service.Recommend(ctx, serve.RecommendRequest{Node: "p150", K: 3, Seed: new(uint64(1)), Log: true}))
	fmt.Printf("from Go: %d items, %d logged\n", len(list.Items), list.Logged)
	mux := http.NewServeMux() // with what your program already serves
	mux.Handle("/recs/", service.Handler())
	server := httptest.NewServer(mux) // in production an http.Server with timeouts
	url := server.URL + "/recs/api/v1/recommendations?node=p150&k=3&seed=1"
	request := check(http.NewRequestWithContext(ctx, "GET", url, nil))
	request.Header.Set("Authorization", "Bearer "+secret)
	answer := check(http.DefaultClient.Do(request))
	defer answer.Body.Close()
	var again serve.RecommendResponse
	check(0, json.NewDecoder(answer.Body).Decode(&again))
	fmt.Println("the same over HTTP:", again.Items[0].ID == list.Items[0].ID && again.Model == list.Model)
	stop()                                                 // as Ctrl-C does; a real program waits for <-ctx.Done()
	check(0, server.Config.Shutdown(context.Background())) // lets open requests finish
	check(0, service.Close())                              // then closes the data that they read
	_, err := service.Recommend(context.Background(), serve.RecommendRequest{Node: "p150"})
	fmt.Println("closed:", errors.Is(err, serve.ErrClosed))
}

// prepare writes what a service needs: a dataset and a model of it.
func prepare(ctx context.Context, folder string) {
	made := check(check(world.New(ctx, world.Settings{Nodes: 200, Dim: 8, Fields: world.EvenFields(3),
		Scenario: world.Scenario{BaseRate: .1, OracleAUC: .95, Seed: 5}})).Linked(ctx))
	path, content := filepath.Join(folder, "dataset"), dataset.Content{Graph: made.Graph()}
	manifest := check(dataset.Write(ctx, path, content, dataset.WriteOptions{}))
	data := sample.Origin{Files: manifest.Checksums(), Plan: sample.Plan{Split: sample.Whole, PerLink: 4}}
	drawn := check(sample.Prepare(ctx, made.Graph(), sample.Options{Origin: data, Threads: 1}))
	// the model records its dataset and its pairs, so that the service can retrain it
	m := check(check(fit.Fit(ctx, drawn.Problem, fit.Settings{})).Model())
	check(0, model.Save(filepath.Join(folder, "model.safetensors"), m))
}

func check[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
