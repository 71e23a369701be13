package serve

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// The states of a job.
const (
	Queued    = "queued"
	Running   = "running"
	Done      = "done"
	Failed    = "failed"
	Cancelled = "cancelled"
)

// Job is work in the background. One runs at a time, on one thread of low priority.
type Job struct {
	ID      string     `json:"id"`
	Kind    string     `json:"kind" enum:"retrain,evaluate"`
	Order   Order      `json:"order" doc:"what was asked for"`
	State   string     `json:"state" enum:"queued,running,done,failed,cancelled"`
	Phase   string     `json:"phase,omitempty" doc:"what is being done"`
	Done    float64    `json:"done" doc:"share of the phase"`
	Queued  time.Time  `json:"queued"`
	Started *time.Time `json:"started,omitempty"`
	Ended   *time.Time `json:"ended,omitempty"`
	Error   string     `json:"error,omitempty"`
	Model   string     `json:"model,omitempty" doc:"digest of the model that came of it, or that was judged"`
	Serves  bool       `json:"serves,omitempty" doc:"the model serves now"`
	Checks  []Check    `json:"checks,omitempty"`
	Latest  *Moment    `json:"latest,omitempty" doc:"of its curve"`

	curve []Moment
}

// Order says what a job is to do.
type Order struct {
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
)

// jobs is who works in the background.
type jobs struct {
	now  func() time.Time
	swap sync.Mutex // held while models are exchanged

	mu    sync.Mutex
	all   []*work // the oldest first
	next  int
	queue chan *work
}

// work is a job and who waits for news of it.
type work struct {
	Job
	cancel  context.CancelFunc // nil while it is queued
	changed chan struct{}      // closed at the next change
}

func newJobs(now func() time.Time) *jobs {
	return &jobs{now: now, queue: make(chan *work, maxQueued)}
}

// add queues a job.
func (j *jobs) add(o Order) (Job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.next++
	w := &work{Job: Job{ID: fmt.Sprintf("%d", j.next), Kind: o.Kind, Order: o, State: Queued, Queued: j.now().UTC()}, changed: make(chan struct{})}
	select {
	case j.queue <- w:
	default:
		return Job{}, errQueue
	}
	j.all = append(j.all, w)
	if spare := len(j.all) - keptJobs; spare > 0 {
		j.all = slices.DeleteFunc(j.all, func(w *work) bool {
			old := spare > 0 && w.Ended != nil
			if old {
				spare--
			}
			return old
		})
	}
	return w.Job, nil
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
		case w.State == Queued:
			j.end(w, context.Canceled)
		case w.cancel != nil:
			w.cancel()
		}
		return w.Job, nil
	}
	return Job{}, fmt.Errorf("%w: %q", ErrNoJob, id)
}

// update changes a job and tells who waits.
func (j *jobs) update(w *work, change func(*Job)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(&w.Job)
	close(w.changed)
	w.changed = make(chan struct{})
}

// end ends a job. j is locked.
func (j *jobs) end(w *work, err error) {
	ended := j.now().UTC()
	w.Ended, w.cancel = &ended, nil
	switch {
	case err == nil:
		w.State, w.Done = Done, 1
	case errors.Is(err, context.Canceled):
		w.State = Cancelled
	default:
		w.State, w.Error = Failed, err.Error()
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// run does one job after the other until the context ends.
func (j *jobs) run(ctx context.Context, perform func(ctx context.Context, o Order, tell func(func(*Job))) error) {
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-j.queue:
			j.mu.Lock()
			if w.State != Queued {
				j.mu.Unlock()
				continue
			}
			within, cancel := context.WithCancel(ctx)
			started := j.now().UTC()
			w.State, w.Started, w.cancel = Running, &started, cancel
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
			j.end(w, err)
			j.mu.Unlock()
		}
	}
}
