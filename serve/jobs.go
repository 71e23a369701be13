package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"unseen/evaluate"
	"unseen/hint"
	"unseen/internal/atomicfile"
)

// JobState is the state of a job.
type JobState string

// The states of a job.
const (
	JobQueued    JobState = "queued"
	JobRunning   JobState = "running"
	JobDone      JobState = "done"
	JobFailed    JobState = "failed"
	JobCancelled JobState = "cancelled"
)

// Job is background work. One runs at a time, on one thread of low priority.
type Job struct {
	ID       string      `json:"id"`
	Kind     string      `json:"kind" enum:"retrain,evaluate,value" doc:"kind of job"`
	Request  JobRequest  `json:"request" doc:"the request that started it"`
	Order    *JobRequest `json:"order,omitempty" deprecated:"true" doc:"old name of request"`
	State    JobState    `json:"state" enum:"queued,running,done,failed,cancelled"`
	Phase    string      `json:"phase,omitempty" doc:"current phase"`
	Done     float64     `json:"done" doc:"share of the phase that is done"`
	Queued   time.Time   `json:"queued"`
	Planned  bool        `json:"planned,omitempty" doc:"started by the schedule"`
	Begun    int         `json:"begun,omitempty" doc:"number of starts; more than 1 after a crash of the service"`
	Started  *time.Time  `json:"started,omitempty"`
	Ended    *time.Time  `json:"ended,omitempty"`
	Error    string      `json:"error,omitempty"`
	Model    string      `json:"model,omitempty" doc:"digest of the new or the evaluated model"`
	Deployed bool        `json:"deployed,omitempty" doc:"the new model went live"`
	Serves   bool        `json:"serves,omitempty" deprecated:"true" doc:"old name of deployed"`
	Checks   []Check     `json:"checks,omitempty"`

	Training *ModelTraining `json:"training,omitempty" doc:"of a job that retrains: in full, or refreshed"`

	Value   *evaluate.PolicyValue `json:"value,omitempty" doc:"of a job of this kind: worth by the log, or why not"`
	Message string                `json:"message,omitempty" doc:"the value in words"`

	Latest *CurvePoint `json:"latest,omitempty" doc:"last point of its curve"`

	curve []CurvePoint
}

// JobRequest describes a job.
type JobRequest struct {
	// Kind is retrain, to learn from the dataset and the log, evaluate, to measure a model on held-out pairs, or value,
	// to say by the log what a model would be worth if it were live.
	Kind      string `json:"kind" enum:"retrain,evaluate,value" doc:"retrain, evaluate, or value by the log"`
	Method    string `json:"method,omitempty" maxLength:"64" doc:"retrain: method; default: that of the live model"`
	TrainOnly bool   `json:"trainOnly,omitempty" doc:"retrain: train without deploying"`
	// Full is true to train in full where a refresh of the live model would do.
	Full  bool   `json:"full,omitempty" doc:"retrain: train in full; default: refresh while little has changed"`
	Model string `json:"model,omitempty" maxLength:"64" doc:"evaluate, value: digest; default: the live model"`
	Rule  string `json:"rule,omitempty" enum:"model,popular,uniform" doc:"value: rule of lists; default: the model"`
	// Keep is the old name of TrainOnly.
	Keep bool `json:"keep,omitempty" deprecated:"true" doc:"old name of trainOnly"`
}

var (
	// ErrNoJob: there is no job with that id, or it was forgotten.
	ErrNoJob = errors.New("no such job")
	// ErrJobEnded: a job was done or failed before it could be cancelled.
	ErrJobEnded = errors.New("the job has ended")
)

// errQueue: the queue is full.
var errQueue = errors.New("too many jobs in the queue")

const (
	maxQueued = 8
	keptJobs  = 50
	maxDigest = 64 // characters of a model's name
	maxBegun  = 2  // a job is not started again after so many crashes of the service
)

// jobs runs background work. Queued jobs, and a job in progress when the service stopped, are run after a restart.
type jobs struct {
	path string // where they are saved; "": nowhere
	now  func() time.Time
	log  *slog.Logger
	swap sync.Mutex // held while models are swapped

	mu    sync.Mutex
	all   []*queuedJob // the oldest first
	next  int
	added chan struct{} // holds a token when a job was queued
}

// queuedJob is a job and a channel for those who wait for its changes.
type queuedJob struct {
	Job
	cancel  context.CancelFunc // nil while it is queued
	stopped bool               // it was cancelled
	changed chan struct{}      // closed at the next change
}

// jobsState is jobs.json.
type jobsState struct {
	Version int   `json:"version"`
	Jobs    []Job `json:"jobs"`
}

// openJobs reads the jobs of the last run of the service, if there was one.
func openJobs(path string, now func() time.Time, log *slog.Logger) (*jobs, error) {
	j := &jobs{path: path, now: now, log: log, added: make(chan struct{}, 1)}
	raw, version, err := readState(path)
	if err != nil {
		return nil, err
	}
	if raw == nil {
		return j, nil
	}
	var kept jobsState
	if version == 1 { // only the jobs
		err = json.Unmarshal(raw, &kept.Jobs)
	} else {
		err = json.Unmarshal(raw, &kept)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; remove it to forget the jobs; models stay", path, err)
	}
	for _, job := range kept.Jobs {
		if job.Order != nil && job.Request.Kind == "" { // a file of the last version
			job.Request = *job.Order
		}
		job.Deployed = job.Deployed || job.Serves
		if n, err := strconv.Atoi(job.ID); err == nil {
			j.next = max(j.next, n)
		}
		w := &queuedJob{Job: job, changed: make(chan struct{})}
		j.all = append(j.all, w)
		if w.Ended != nil {
			continue
		}
		if w.Begun >= maxBegun {
			j.finish(w, fmt.Errorf("the service crashed %d times during this job, so it was given up", w.Begun))
			continue
		}
		if w.Begun > 0 {
			log.Info("job restarted: the service stopped during it", "job", w.ID, "kind", w.Kind)
		}
		w.State, w.Phase, w.Done, w.Started = JobQueued, "", 0, nil
	}
	return j, nil
}

// save writes all jobs. j is locked.
func (j *jobs) save() error {
	if j.path == "" {
		return nil
	}
	kept := jobsState{Version: stateVersion, Jobs: make([]Job, len(j.all))}
	for k, w := range j.all {
		kept.Jobs[k] = w.Job
	}
	return atomicfile.WritePrivate(j.path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(kept)
	})
}

// trySave saves and logs a failure.
func (j *jobs) trySave() {
	if err := j.save(); err != nil {
		j.log.Error("saving jobs failed; a restart goes back to their last saved state", "error", err)
	}
}

// add queues a job. When it returns, the job is saved.
func (j *jobs) add(r JobRequest, planned bool) (Job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	w := &queuedJob{Job: Job{ID: strconv.Itoa(j.next + 1), Kind: r.Kind, Request: r, Order: &r, State: JobQueued,
		Queued: j.now().UTC(), Planned: planned}, changed: make(chan struct{})}
	queued := 0
	for _, other := range j.all {
		if other.State == JobQueued {
			queued++
		}
	}
	if queued >= maxQueued {
		return Job{}, errQueue
	}
	j.all = append(j.all, w)
	if err := j.save(); err != nil {
		j.all = j.all[:len(j.all)-1]
		return Job{}, fmt.Errorf("saving the job: %w", err)
	}
	j.next++
	select {
	case j.added <- struct{}{}:
	default:
	}
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

// last returns when the last job of a kind ended, and whether one is queued or running. One that ended in the future is
// of a clock that was wrong.
func (j *jobs) last(kind string) (ended time.Time, pending bool) {
	now := j.now()
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, w := range j.all {
		switch {
		case w.Kind != kind:
		case w.Ended == nil:
			pending = true
		case w.Ended.After(ended) && !w.Ended.After(now):
			ended = *w.Ended
		}
	}
	return ended, pending
}

// list returns all remembered jobs, the latest first.
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
			j.trySave()
		case w.cancel != nil:
			w.stopped = true
			w.cancel()
		case w.State != JobCancelled:
			return Job{}, hint.Wrap(fmt.Errorf("%w: it is %s", ErrJobEnded, w.State), "nothing was undone")
		}
		return w.Job, nil
	}
	return Job{}, fmt.Errorf("%w: %q", ErrNoJob, id)
}

// update changes a job and notifies those who wait.
func (j *jobs) update(w *queuedJob, change func(*Job)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(&w.Job)
	close(w.changed)
	w.changed = make(chan struct{})
}

// finish records how a job ended. j is locked.
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

// run performs one job after the other until the context ends.
func (j *jobs) run(ctx context.Context, perform jobFunc) {
	for ctx.Err() == nil {
		if w := j.first(); w != nil {
			j.runOne(ctx, w, perform)
			continue
		}
		select {
		case <-ctx.Done():
		case <-j.added:
		}
	}
}

// first returns the job that has been queued the longest, or nil.
func (j *jobs) first() *queuedJob {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, w := range j.all {
		if w.State == JobQueued {
			return w
		}
	}
	return nil
}

// jobPriority is the priority of jobs. Tests, which wait for them, leave it as it is.
var jobPriority = lowerPriority

// jobFunc performs a job and reports changes of it by update.
type jobFunc func(ctx context.Context, r JobRequest, update func(func(*Job))) error

// runOne performs a job, unless it was cancelled while it was queued.
func (j *jobs) runOne(ctx context.Context, w *queuedJob, perform jobFunc) {
	j.mu.Lock()
	if w.State != JobQueued {
		j.mu.Unlock()
		return
	}
	jobContext, cancel := context.WithCancel(ctx)
	started := j.now().UTC()
	w.State, w.Started, w.cancel = JobRunning, &started, cancel
	w.Begun++
	j.trySave()
	j.mu.Unlock()
	ended := make(chan error, 1)
	go func() {
		// The priority of a thread cannot be raised again, so the thread ends with the goroutine.
		runtime.LockOSThread()
		jobPriority()
		debug.SetPanicOnFault(true) // a job that cannot read its vectors fails alone
		defer func() {
			if p := recover(); p != nil {
				ended <- fmt.Errorf("job panicked: %v", p)
			}
		}()
		ended <- perform(jobContext, w.Request, func(change func(*Job)) { j.update(w, change) })
	}()
	err := <-ended
	cancel()
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil && ctx.Err() != nil && !w.stopped { // the service stops; the job runs again after a restart
		w.State, w.Phase, w.Done, w.Started, w.cancel = JobQueued, "", 0, nil, nil
		w.Begun--
		close(w.changed)
		w.changed = make(chan struct{})
	} else {
		j.finish(w, err)
	}
	j.trySave()
}
