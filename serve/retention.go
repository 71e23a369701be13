package serve

import (
	"context"
	"fmt"
	"time"

	"unseen/hint"
	"unseen/serve/store"
)

const (
	minKeepEvents = time.Hour             // so that clients can send again what was not acknowledged
	compactEvery  = time.Minute           // also the step by which events age
	compactPause  = 20 * time.Millisecond // in which others write
)

func checkRetention(keep time.Duration) error {
	if keep == 0 || keep >= minKeepEvents {
		return nil
	}
	return hint.Wrap(fmt.Errorf("events would be kept for %v", keep), "set %v to %v or more",
		hint.Setting("keepEvents"), minKeepEvents)
}

// runRetention compacts old events until the context ends.
func (s *Service) runRetention(ctx context.Context) {
	tick := time.NewTicker(compactEvery)
	defer tick.Stop()
	for {
		if err := s.compactEvents(ctx); err != nil && ctx.Err() == nil {
			s.o.Log.Warn("compacting old events failed; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// compactEvents compacts what is old enough, a little at a time.
func (s *Service) compactEvents(ctx context.Context) error {
	for events := 0; ; {
		done, err := s.events.Compact(ctx, store.Retention{Keep: s.o.KeepEvents, Now: s.o.Now()})
		if err != nil {
			return err
		}
		if events += done.Events; !done.More {
			if events > 0 {
				s.o.Log.Info("compacted old events", "events", events)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(compactPause):
		}
	}
}
