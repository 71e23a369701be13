package serve

import (
	"testing"
	"time"
)

// A model of the future, made while a clock was wrong, does not stop retraining, and a clock that goes back does not
// either.
func TestAttackFutureModel(t *testing.T) {
	t.Parallel()
	folder := copyOf(t)
	future := time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
	s, err := Open(t.Context(), Options{Folder: folder, Now: func() time.Time { return future }})
	if err != nil {
		t.Fatal(err)
	}
	job, err := s.StartJob(JobRequest{Kind: "retrain", Method: "naive", TrainOnly: true})
	if err == nil {
		_, err = s.WaitJob(t.Context(), job.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = Open(t.Context(), Options{Folder: folder, RetrainEvery: time.Hour, RetrainAfter: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if due, planned := s.NextRetrain(); !planned || due.After(time.Now()) {
		t.Fatalf("the next retraining is due at %v", due)
	}
	if _, err := s.Recommend(t.Context(), RecommendRequest{Node: "p1", Log: true}); err != nil {
		t.Fatal(err)
	}
	if err := s.retrainIfDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, pending := s.jobs.last("retrain"); !pending && len(s.jobs.list()) < 2 {
		t.Error("nothing is retrained")
	}
}
