package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"unseen/recommend"
)

// Bridges are found once, in the background: whoever asks waits for them and is never refused, also while every place
// for requests is taken and many ask at once.
func TestBridgesWaitForNobodysTurn(t *testing.T) {
	t.Parallel()
	s := open(t, func(o *Options) { o.Concurrent, o.Waiting = 1, 1 })
	leave, err := s.enterGate(t.Context()) // the only place
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			found, err := s.Bridges(t.Context())
			if err != nil || len(found.Bridges) == 0 {
				t.Errorf("%d bridges: %v", len(found.Bridges), err)
			}
		})
	}
	group.Wait()
	c := client{t: t, h: s.Handler()} // so do those who ask by the API, and have what a search of their own finds
	for query, length := range map[string]int{"": 3, "?list=0": -1, "?list=20&limit=2": 20} {
		fresh, err := s.live.Load().current.Bridges(t.Context(), recommend.BridgeSettings{Sources: 40, List: length,
			Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		got := want[BridgeList](c, 200, "GET", "/api/v1/bridges"+query, nil)
		fresh = fresh[:min(len(fresh), 20)]
		if strings.Contains(query, "limit") {
			fresh = fresh[:2]
		}
		a, failed := json.Marshal(got.Bridges)
		b, err := json.Marshal(fresh)
		if failed != nil || err != nil || !bytes.Equal(a, b) {
			t.Errorf("%q: %s\nby a search %s", query, a, b)
		}
	}
	if w := c.do("GET", "/api/v1/bridges?sources=41", nil); w.Code != 503 {
		t.Errorf("a search of its own, while the only place is taken: %d", w.Code)
	}
	s.bridgeCache.keep("another model", nil, nil)
	if found, err := s.Bridges(t.Context()); err != nil || len(found.Bridges) == 0 {
		t.Errorf("after another model's: %d bridges, %v", len(found.Bridges), err)
	}
	broken := errors.New("broken")
	s.bridgeCache.keep(s.live.Load().current.digest, nil, broken)
	if _, err := s.Bridges(t.Context()); !errors.Is(err, broken) {
		t.Errorf("a failed search: %v", err)
	}
	poll(t, "the search to be tried again", func() bool {
		_, err := s.Bridges(t.Context())
		return err == nil
	})
	ended, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	<-ended.Done()
	s.bridgeCache.keep("another model", nil, nil)
	if _, err := s.Bridges(ended); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ended: %v", err)
	}
}
