package serve

import (
	"context"
	"fmt"
	"log"
	"os"

	"unseen/serve/store"
)

// A service answers programs in Go without HTTP, too.
func Example() {
	folder, err := small() // what unseen demo writes: dataset, model.safetensors, naive.safetensors
	if err != nil {
		log.Fatal(err)
	}
	state, err := os.MkdirTemp("", "unseen-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(state)
	ctx := context.Background()
	s, err := Open(ctx, Options{Folder: folder, State: state})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	seed := uint64(1)
	list, err := s.Recommend(ctx, RecommendRequest{Node: "p100", K: 3, Seed: &seed})
	if err != nil {
		log.Fatal(err)
	}
	var events []store.LogEvent
	for k, item := range list.Items {
		events = append(events, store.LogEvent{
			ID: fmt.Sprintf("%s-%d", list.List, k), Kind: store.Shown, Source: "p100", Target: item.ID,
			Probability: item.Shown, List: list.List, Position: k + 1,
		})
	}
	result, err := s.AppendEvents(ctx, events)
	fmt.Println(len(list.Items), "recommended,", result.Stored, "logged", err)
	// Output: 3 recommended, 3 logged <nil>
}
