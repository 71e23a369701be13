package serve

import (
	"context"
	"time"
)

// NextRetrain returns the time of the next scheduled retraining, or false without a schedule. It starts then, or as
// soon as the log has enough new events.
func (s *Service) NextRetrain() (time.Time, bool) {
	if s.o.RetrainEvery <= 0 {
		return time.Time{}, false
	}
	var last time.Time
	now := s.o.Now()
	ended, _ := s.jobs.last("retrain")
	entry, err := s.models.find(s.live.Load().current.digest)
	if err != nil {
		entry = ModelEntry{}
	}
	for _, at := range []time.Time{ended, entry.Made} {
		// one of the future is of a clock that was wrong, and would stop retraining
		if at.After(last) && !at.After(now) {
			last = at
		}
	}
	if last.IsZero() {
		return now, true
	}
	return last.Add(s.o.RetrainEvery), true
}

// runSchedule retrains by the schedule until the context ends.
func (s *Service) runSchedule(ctx context.Context) {
	tick := time.NewTicker(min(max(s.o.RetrainEvery/20, 10*time.Millisecond), 10*time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := s.retrainIfDue(ctx); err != nil && ctx.Err() == nil {
			s.o.Log.Warn("scheduled retraining failed to start", "error", err)
		}
	}
}

// retrainIfDue queues a retraining if one is due, none is in progress, and there are enough new events.
func (s *Service) retrainIfDue(ctx context.Context) error {
	due, _ := s.NextRetrain()
	if s.o.Now().Before(due) {
		return nil
	}
	if _, pending := s.jobs.last("retrain"); pending {
		return nil
	}
	totals, err := s.events.Totals(ctx)
	if err != nil {
		return err
	}
	var learned int64
	// a model that learned from more events than there are learned from another log
	if entry, err := s.models.find(s.live.Load().current.digest); err == nil && entry.Seq <= totals.Seq {
		learned = entry.Seq
	}
	if totals.Seq-learned < s.o.RetrainAfter {
		return nil
	}
	job, err := s.jobs.add(JobRequest{Kind: "retrain"}, true)
	if err == nil {
		s.o.Log.Info("scheduled retraining queued", "job", job.ID, "new events", totals.Seq-learned)
	}
	return err
}
