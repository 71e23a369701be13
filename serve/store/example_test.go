package store_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"unseen/serve/store"
)

// A list is shown, an item of it is followed and cited. Sent twice, it is stored once.
func Example() {
	folder, err := os.MkdirTemp("", "events")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	ctx := context.Background()
	events, err := store.Open(ctx, filepath.Join(folder, "events.db"), store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()

	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	happened := []store.LogEvent{
		{ID: "e1", Kind: store.Shown, Source: "paper-7", Target: "paper-9", Probability: 0.25, List: "l1", Position: 1,
			At: noon},
		{ID: "e2", Kind: store.Shown, Source: "paper-7", Target: "paper-3", Probability: 0.5, List: "l1", Position: 2,
			At: noon},
		{ID: "e3", Kind: store.Linked, Source: "paper-7", Target: "paper-9", List: "l1", At: noon.Add(time.Hour)},
	}
	for range 2 {
		result, err := events.Append(ctx, happened)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("stored %d, known before %d\n", result.Stored, result.Duplicate)
	}
	totals, err := events.Totals(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d shown, %d linked, from %s to %s\n", totals.Kinds[store.Shown], totals.Kinds[store.Linked],
		totals.First.Format(time.TimeOnly), totals.Last.Format(time.TimeOnly))
	// Output:
	// stored 3, known before 0
	// stored 0, known before 3
	// 2 shown, 1 linked, from 12:00:00 to 13:00:00
}

// All walks through a log of any size in little memory, here from the second event on.
func ExampleAll() {
	folder, err := os.MkdirTemp("", "events")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	ctx := context.Background()
	events, err := store.Open(ctx, "sqlite:"+filepath.Join(folder, "events.db"), store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()
	for _, id := range []string{"a", "b", "c"} {
		if _, err := events.Append(ctx, []store.LogEvent{{ID: id, Kind: store.Clicked, Source: "s",
			Target: "t"}}); err != nil {
			log.Fatal(err)
		}
	}
	for event, err := range store.All(ctx, events, 1) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Seq, event.ID)
	}
	// Output:
	// 2 b
	// 3 c
}

// What cannot be stored is refused with its place and the reason.
func ExampleInvalidError() {
	folder, err := os.MkdirTemp("", "events")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	ctx := context.Background()
	events, err := store.Open(ctx, filepath.Join(folder, "events.db"), store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()
	_, err = events.Append(ctx, []store.LogEvent{{ID: "a", Kind: "liked", Source: "s", Target: "t"}})
	fmt.Println(errors.Is(err, store.ErrInvalid), err)
	// Output:
	// true invalid event 0: Kind is "liked", want one of [shown clicked linked dismissed]
}
