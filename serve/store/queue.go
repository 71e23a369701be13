package store

import (
	"context"
	"sync"
	"time"
)

// request is one Append on its way to the database.
type request struct {
	ctx    context.Context
	events []LogEvent
	result Result
	done   chan error // one answer, never blocking the writer
}

// queue collects the Appends of many goroutines into groups and gives each group to one writer, which makes it
// durable as a whole or not at all. While one group is being synced to disk the next one collects.
type queue struct {
	commit func(group []*request) error // sets the results; an error means that nothing of the group is stored
	group  int
	gather time.Duration
	limit  int
	now    func() time.Time

	mu      sync.Mutex
	waiting []*request
	events  int           // in waiting and in the group being written
	pace    time.Duration // smoothed time per event, to estimate how long to wait
	closed  bool
	wake    chan struct{} // holds a token when waiting or closed has changed
	ended   chan struct{}
}

func newQueue(options Options, commit func([]*request) error) *queue {
	q := &queue{
		commit: commit, group: options.Group, gather: options.Gather, limit: options.Queue, now: options.Now,
		wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	go q.write()
	return q
}

// Append waits until the events are durable.
func (q *queue) Append(ctx context.Context, events []LogEvent) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	events, err := prepare(events, q.now)
	if err != nil {
		return Result{}, err
	}
	r := &request{ctx: ctx, events: events, done: make(chan error, 1)}
	if err := q.admit(r); err != nil || len(events) == 0 {
		return Result{}, err
	}
	select {
	case err := <-r.done:
		if err != nil {
			return Result{}, err
		}
		return r.result, nil
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
}

func (q *queue) admit(r *request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return ErrClosed
	case len(r.events) == 0:
		return nil
	case q.events > 0 && q.events+len(r.events) > q.limit: // an empty queue takes an Append of any size
		wait := time.Duration(q.events) * q.pace
		return &BusyError{Wait: min(max(wait, 50*time.Millisecond), 30*time.Second)}
	}
	q.events += len(r.events)
	q.waiting = append(q.waiting, r)
	q.signal()
	return nil
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// write is the only writer.
func (q *queue) write() {
	defer close(q.ended)
	shared := 0 // Appends in the last group
	for {
		group, events, ok := q.take(shared)
		if !ok {
			return
		}
		shared = len(group)
		began := time.Now()
		err := q.commit(group)
		took := time.Since(began)

		q.mu.Lock()
		q.events -= events
		q.pace = (3*q.pace + took/time.Duration(events)) / 4
		q.mu.Unlock()
		for _, r := range group {
			r.done <- err
		}
	}
}

// take waits for the next group. If the last group had many Appends, the same clients are likely to send more:
// a short wait for as many lets them share one sync instead of two. A single client never waits.
func (q *queue) take(shared int) (group []*request, events int, ok bool) {
	var deadline <-chan time.Time
	for {
		q.mu.Lock()
		ready := len(q.waiting) >= max(shared, 1) || q.closed || q.gather <= 0 || q.events >= q.group
		if len(q.waiting) > 0 && (ready || shared <= 1) {
			group, events = q.cut()
			if len(group) > 0 {
				q.mu.Unlock()
				return group, events, true
			}
		}
		if q.closed && len(q.waiting) == 0 {
			q.mu.Unlock()
			return nil, 0, false
		}
		if deadline == nil && len(q.waiting) > 0 {
			timer := time.NewTimer(q.gather)
			defer timer.Stop()
			deadline = timer.C
		}
		q.mu.Unlock()
		select {
		case <-q.wake:
		case <-deadline:
			shared = 0 // wait no longer
		}
	}
}

// cut takes Appends off the queue, in order, until the group is full. It skips those whose context has ended.
func (q *queue) cut() (group []*request, events int) {
	taken := 0
	for _, r := range q.waiting {
		if events > 0 && events+len(r.events) > q.group {
			break
		}
		taken++
		if err := r.ctx.Err(); err != nil {
			q.events -= len(r.events)
			r.done <- err
			continue
		}
		group = append(group, r)
		events += len(r.events)
	}
	rest := copy(q.waiting, q.waiting[taken:])
	clear(q.waiting[rest:]) // releases the events
	q.waiting = q.waiting[:rest]
	return group, events
}

// close rejects further Appends and returns when those in progress are answered. It reports whether it was the
// first call.
func (q *queue) close() bool {
	q.mu.Lock()
	first := !q.closed
	q.closed = true
	q.mu.Unlock()
	q.signal()
	<-q.ended
	return first
}

func (q *queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}
