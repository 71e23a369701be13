package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"unseen/internal/atomicfile"
)

// JobState is how far a job has come.
type JobState string

// The states of a job.
const (
	JobQueued    JobState = "queued"
	JobRunning   JobState = "running"
	JobDone      JobState = "done"
	JobFailed    JobState = "failed"
	JobCancelled JobState = "cancelled"
)

// Job is work in the background. One runs at a time, on one thread of low priority.
type Job struct {
	ID      string      `json:"id"`
	Kind    string      `json:"kind" enum:"retrain,evaluate"`
	Order   JobRequest  `json:"order" doc:"what was asked for"`
	State   JobState    `json:"state" enum:"queued,running,done,failed,cancelled"`
	Phase   string      `json:"phase,omitempty" doc:"what is being done"`
	Done    float64     `json:"done" doc:"share of the phase"`
	Queued  time.Time   `json:"queued"`
	Planned bool        `json:"planned,omitempty" doc:"nobody asked for it: it was due"`
	Begun   int         `json:"begun,omitempty" doc:"how often it was begun; more than once if the service died meanwhile"`
	Started *time.Time  `json:"started,omitempty"`
	Ended   *time.Time  `json:"ended,omitempty"`
	Error   string      `json:"error,omitempty"`
	Model   string      `json:"model,omitempty" doc:"digest of the model that came of it, or that was judged"`
	Serves  bool        `json:"serves,omitempty" doc:"the model serves now"`
	Checks  []Check     `json:"checks,omitempty"`
	Latest  *CurvePoint `json:"latest,omitempty" doc:"of its curve"`

	curve []CurvePoint
}

// Order says what a job is to do.
type JobRequest struct {
	Kind   string `json:"kind" enum:"retrain,evaluate" doc:"retrain: learn anew from the dataset and the log; evaluate: judge a model by held-out pairs"`
	Method string `json:"method,omitempty" doc:"retrain: of package fit; that of the current model if it is left out"`
	Keep   bool   `json:"keep,omitempty" doc:"retrain: register the model and let the current one serve on"`
	Model  string `json:"model,omitempty" doc:"evaluate: its digest; the current one if it is left out"`
}

// ErrNoJob: there is no job of that id, or none any more.
var ErrNoJob = errors.New("serve: no such job")

// errQueue: enough waits already.
var errQueue = errors.New("serve: too many jobs wait")

const (
	maxQueued = 8
	keptJobs  = 50
	maxBegun  = 2 // a job during which the service died so often is not begun again
)

// jobs is who works in the background. What is queued, and what was under way when the service ended, is done after
// it has started again.
type jobs struct {
	path string // where they are kept; "": nowhere
	now  func() time.Time
	log  *slog.Logger
	swap sync.Mutex // held while models are exchanged

	mu    sync.Mutex
	all   []*queuedJob // the oldest first
	next  int
	queue chan *queuedJob
}

// work is a job and who waits for news of it.
type queuedJob struct {
	Job
	cancel  context.CancelFunc // nil while it is queued
	stopped bool               // somebody asked for its end
	changed chan struct{}      // closed at the next change
}

// openJobs reads what is left to do, if a service was here before.
func openJobs(path string, now func() time.Time, log *slog.Logger) (*jobs, error) {
	j := &jobs{path: path, now: now, log: log, queue: make(chan *queuedJob, maxQueued)}
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return j, nil
	}
	if err != nil {
		return nil, err
	}
	var kept []Job
	if err := json.Unmarshal(raw, &kept); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; remove it, and jobs are forgotten, models are not", path, err)
	}
	for _, job := range kept {
		if n, err := strconv.Atoi(job.ID); err == nil {
			j.next = max(j.next, n)
		}
		w := &queuedJob{Job: job, changed: make(chan struct{})}
		j.all = append(j.all, w)
		if w.Ended != nil {
			continue
		}
		if w.Begun >= maxBegun {
			j.finish(w, fmt.Errorf("the service died %d times while it was under way, so it is not begun again",
				w.Begun))
			continue
		}
		if w.Begun > 0 {
			log.Info("a job is begun again: the service ended while it was under way", "job", w.ID, "kind", w.Kind)
		}
		select {
		case j.queue <- w:
			w.State, w.Phase, w.Done, w.Started = JobQueued, "", 0, nil
		default:
			j.finish(w, errQueue)
		}
	}
	return j, nil
}

// save keeps all jobs. j is locked.
func (j *jobs) save() error {
	if j.path == "" {
		return nil
	}
	kept := make([]Job, len(j.all))
	for k, w := range j.all {
		kept[k] = w.Job
	}
	return atomicfile.Write(j.path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(kept)
	})
}

// keep saves where nobody can be told of an error.
func (j *jobs) keep() {
	if err := j.save(); err != nil {
		j.log.Error("jobs cannot be kept: after a restart they are as they were before", "error", err)
	}
}

// add queues a job. When it returns, a restart does not forget it.
func (j *jobs) add(o JobRequest, planned bool) (Job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	w := &queuedJob{Job: Job{ID: strconv.Itoa(j.next + 1), Kind: o.Kind, Order: o, State: JobQueued, Queued: j.now().UTC(),
		Planned: planned}, changed: make(chan struct{})}
	if len(j.queue) == cap(j.queue) {
		return Job{}, errQueue
	}
	j.all = append(j.all, w)
	if err := j.save(); err != nil {
		j.all = j.all[:len(j.all)-1]
		return Job{}, fmt.Errorf("the job cannot be kept: %w", err)
	}
	j.next++
	j.queue <- w // there is room: who takes from it makes more
	if spare := len(j.all) - keptJobs; spare > 0 {
		j.all = slices.DeleteFunc(j.all, func(w *queuedJob) bool {
			old := spare > 0 && w.Ended != nil
			if old {
				spare--
			}
			return old
		})
	}
	return w.Job, nil
}

// last returns when the last job of a kind ended, and whether one is queued or runs.
func (j *jobs) last(kind string) (ended time.Time, pending bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, w := range j.all {
		switch {
		case w.Kind != kind:
		case w.Ended == nil:
			pending = true
		case w.Ended.After(ended):
			ended = *w.Ended
		}
	}
	return ended, pending
}

// list returns all jobs that are remembered, the latest first.
func (j *jobs) list() []Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := make([]Job, 0, len(j.all))
	for _, w := range slices.Backward(j.all) {
		out = append(out, w.Job)
	}
	return out
}

// find returns a job, and a channel that is closed when it changes.
func (j *jobs) find(id string) (Job, <-chan struct{}, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, w := range j.all {
		if w.ID == id {
			return w.Job, w.changed, nil
		}
	}
	return Job{}, nil, fmt.Errorf("%w: %q", ErrNoJob, id)
}

// stop cancels a job that has not ended.
func (j *jobs) stop(id string) (Job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, w := range j.all {
		if w.ID != id {
			continue
		}
		switch {
		case w.State == JobQueued:
			j.finish(w, context.Canceled)
			j.keep()
		case w.cancel != nil:
			w.stopped = true
			w.cancel()
		}
		return w.Job, nil
	}
	return Job{}, fmt.Errorf("%w: %q", ErrNoJob, id)
}

// update changes a job and tells who waits.
func (j *jobs) update(w *queuedJob, change func(*Job)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(&w.Job)
	close(w.changed)
	w.changed = make(chan struct{})
}

// finish says how a job ended. j is locked.
func (j *jobs) finish(w *queuedJob, err error) {
	ended := j.now().UTC()
	w.Ended, w.cancel = &ended, nil
	switch {
	case err == nil:
		w.State, w.Done = JobDone, 1
	case errors.Is(err, context.Canceled):
		w.State = JobCancelled
	default:
		w.State, w.Error = JobFailed, err.Error()
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// run does one job after the other until the context ends.
func (j *jobs) run(ctx context.Context, perform func(ctx context.Context, o JobRequest, tell func(func(*Job))) error) {
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-j.queue:
			j.mu.Lock()
			if w.State != JobQueued {
				j.mu.Unlock()
				continue
			}
			within, cancel := context.WithCancel(ctx)
			started := j.now().UTC()
			w.State, w.Started, w.cancel = JobRunning, &started, cancel
			w.Begun++
			j.keep()
			j.mu.Unlock()
			ended := make(chan error, 1)
			go func() {
				// The thread is of low priority for good, so it is not given back.
				runtime.LockOSThread()
				lowerPriority()
				defer func() {
					if p := recover(); p != nil {
						ended <- fmt.Errorf("serve: the job broke: %v", p)
					}
				}()
				ended <- perform(within, w.Order, func(change func(*Job)) { j.update(w, change) })
			}()
			err := <-ended
			cancel()
			j.mu.Lock()
			if err != nil && ctx.Err() != nil && !w.stopped { // the service ends; the job goes on with the next
				w.State, w.Phase, w.Done, w.Started, w.cancel = JobQueued, "", 0, nil, nil
				w.Begun--
				close(w.changed)
				w.changed = make(chan struct{})
			} else {
				j.finish(w, err)
			}
			j.keep()
			j.mu.Unlock()
		}
	}
}
