package serve

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"unseen/internal/enginetest"
)

// Lists come from the service's engine; where that fails a request does, and the next is answered.
func TestServiceRunsOnAnyEngine(t *testing.T) {
	t.Parallel()
	e := enginetest.New()
	var broken atomic.Bool
	e.Before = func(string, int) error {
		if broken.Load() {
			return errors.New("out of memory")
		}
		return nil
	}
	c := client{t: t, h: open(t, func(o *Options) { o.Engine = e }).Handler()}
	const path = "/api/v1/recommendations?node=p100&k=5&seed=3"
	want[RecommendResponse](c, 200, "GET", path, nil)
	if calls := e.Calls(); !slices.Contains(calls, "TopK") {
		t.Errorf("the engine was asked for %v", calls)
	}
	broken.Store(true)
	if w := c.do("GET", path, nil); w.Code != 500 {
		t.Errorf("status %d of a broken engine: %s", w.Code, w.Body)
	}
	broken.Store(false)
	want[RecommendResponse](c, 200, "GET", path, nil)
}

// Jobs train by an engine of their own, which lists know nothing of; where it fails the job does, and says why.
func TestJobsRunOnAnEngineOfTheirOwn(t *testing.T) {
	t.Parallel()
	lists, jobs := enginetest.New(), enginetest.New()
	var broken atomic.Bool
	jobs.Before = func(string, int) error {
		if broken.Load() {
			return errors.New("the card fell off")
		}
		return nil
	}
	s := open(t, func(o *Options) { o.Engine, o.JobEngine = lists, jobs })
	c := client{t: t, h: s.Handler()}
	train := func() Job {
		job := want[Job](c, 202, "POST", "/api/v1/jobs", JobRequest{Kind: "retrain", Method: "naive", TrainOnly: true})
		poll(t, "the job to end", func() bool { _, pending := s.jobs.last("retrain"); return !pending })
		return want[Job](c, 200, "GET", "/api/v1/jobs/"+job.ID, nil)
	}
	want[RecommendResponse](c, 200, "GET", "/api/v1/recommendations?node=p100&k=5&seed=3", nil)
	if calls := jobs.Calls(); len(calls) > 0 {
		t.Errorf("before any job the engine of jobs was asked for %v", calls)
	}
	if job := train(); job.State != "done" || !slices.Contains(jobs.Calls(), "Gradient") ||
		slices.Contains(lists.Calls(), "Gradient") {
		t.Errorf("%+v; jobs asked for %v, lists for %v", job, jobs.Calls(), lists.Calls())
	}
	broken.Store(true)
	if job := train(); job.State != "failed" || !strings.Contains(job.Error, "the card fell off") {
		t.Errorf("%+v", job)
	}
}
