package serve

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
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
