package store_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"unseen/serve/store"
)

// BenchmarkAppend is the load of a busy service: 8 clients at once, each sending batches of 100 events and
// waiting until they are durable.
func BenchmarkAppend(b *testing.B) {
	for _, clients := range []int{1, 8} {
		for _, batch := range []int{1, 100} {
			b.Run(fmt.Sprintf("clients=%d/batch=%d", clients, batch), func(b *testing.B) {
				log, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "events.db"), store.Options{})
				if err != nil {
					b.Fatal(err)
				}
				defer log.Close()
				appendFrom(b, log, clients, batch)
			})
		}
	}
}

func appendFrom(b *testing.B, log store.Store, clients, batch int) {
	b.Helper()
	var group sync.WaitGroup
	b.ResetTimer()
	for client := range clients {
		group.Go(func() {
			for n := client; n < b.N; n += clients {
				if _, err := log.Append(context.Background(), typicalEvents(n*batch, batch)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "events/s")
}

// typicalEvents have random-looking ids of the length of a UUID, as clients make them.
func typicalEvents(from, n int) []store.LogEvent {
	events := make([]store.LogEvent, n)
	for i := range events {
		number := uint64(from+i+1) * 0x9e3779b97f4a7c15
		events[i] = store.LogEvent{
			ID:   fmt.Sprintf("%016x-%019d", number, from+i),
			Kind: store.Kinds[i%3], Source: fmt.Sprintf("W%d", 2_000_000_000+from/10),
			Target:      fmt.Sprintf("W%d", 2_100_000_000+from+i),
			Probability: 0.125, Model: "sha256:5f1d7a9b1c0e", List: fmt.Sprintf("%016x", number>>3), Position: i%10 + 1,
			At: time.Unix(1_700_000_000+int64(from+i), 0),
		}
	}
	return events
}
