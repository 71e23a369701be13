package serve

import (
	"fmt"
	"strings"
	"testing"

	"unseen/serve/store"
)

// The first training on the log is full, since everything in it is new; one after a few more events refreshes the live
// model; one on request, or after many events, is full again. The job and the model say which it was, and why.
func TestRetrainRefreshes(t *testing.T) {
	t.Parallel()
	s := open(t)
	c := client{t: t, h: s.Handler()}
	shown := 0
	show := func(lists int) {
		for range lists {
			a := c.list(fmt.Sprintf("node=p%d&k=20&log=true", shown%240))
			// of clicks it is learned how readers click, given what was believed before
			act := []store.Kind{store.Linked, store.Clicked, store.Clicked}[shown%3]
			want[store.Result](c, 200, "POST", "/api/v1/events",
				eventBatch{[]store.LogEvent{about(a, shown%10, act, fmt.Sprint("l", shown))}})
			shown++
		}
	}
	retrain := func(r JobRequest) (Job, ModelEntry) {
		t.Helper()
		r.Kind = "retrain"
		job := want[Job](c, 202, "POST", "/api/v1/jobs", r)
		job, err := s.WaitJob(t.Context(), job.ID)
		if err != nil || job.State != JobDone || !job.Deployed || job.Training == nil {
			t.Fatalf("%v, job %+v", err, job)
		}
		entry, err := s.models.find(job.Model)
		if err != nil || entry.Training == nil || *entry.Training != *job.Training && entry.Training.Refresh == nil {
			t.Fatalf("%v: the job was %+v, the model %+v", err, job.Training, entry.Training)
		}
		return job, entry
	}
	full := func(job Job, because string) {
		t.Helper()
		if of := job.Training; of.Kind != "full" || of.Refresh != nil || !strings.Contains(of.Reason, because) {
			t.Errorf("training %+v; want a full one: %s", of, because)
		}
	}
	show(120)
	first, _ := retrain(JobRequest{})
	full(first, "since the last one")
	_, entry := retrain(JobRequest{})
	if entry.Digest != first.Model {
		t.Errorf("done again, the full training makes %s, not %s", entry.Digest, first.Model)
	}
	show(2)
	second, refreshed := retrain(JobRequest{})
	of := second.Training
	if of.Kind != "refresh" || of.Refresh == nil || of.Refresh.Number != 1 || of.Refresh.Due ||
		!of.Refresh.Full.Equal(entry.Made) || refreshed.Parent != first.Model ||
		!strings.Contains(refreshed.Note, "refresh 1 of the full training") {
		t.Fatalf("training %+v, %+v of the model %+v", of, of.Refresh, refreshed)
	}
	if detail := want[ModelDetail](c, 200, "GET", "/api/v1/model", nil); detail.Findings.Refresh == nil ||
		!strings.Contains(strings.Join(detail.Findings.Verdict, " "), entry.Made.Format("2006-01-02")) {
		t.Errorf("the findings do not say that they are of an earlier day: %+v", detail.Findings)
	}
	for range 2 {
		again, _ := retrain(JobRequest{})
		if again.Model != second.Model || again.Training.Kind != "refresh" {
			t.Errorf("done again, the job makes %s, not %s: %+v, not %+v", again.Model, second.Model,
				again.Training.Refresh, of.Refresh)
		}
	}
	if page := c.do("GET", "/runs", nil).Body.String(); !strings.Contains(page, "Refreshed from the model that") {
		t.Error("the page does not say that the model was refreshed")
	}
	if _, err := s.Forget(t.Context(), "p230"); err != nil {
		t.Fatal(err)
	}
	gone, _ := retrain(JobRequest{})
	full(gone, "somebody was forgotten")
	show(1)
	if next, _ := retrain(JobRequest{}); next.Training.Kind != "refresh" || next.Training.Forgotten != 1 {
		t.Errorf("after a full training without them: %+v", next.Training)
	}
	asked, _ := retrain(JobRequest{Full: true})
	full(asked, "as requested")
	show(60)
	last, _ := retrain(JobRequest{})
	full(last, "since the last one")
}
