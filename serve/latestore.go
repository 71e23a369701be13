package serve

import (
	"context"
	"fmt"
	"sync"
	"time"

	"unseen/serve/store"
)

// lateStore is an event log that could not be opened because its disk is full. It is opened as soon as there is space;
// until then calls fail with store.ErrFull, and the service makes lists.
type lateStore struct {
	open func(context.Context) (store.Store, error)

	mu     sync.Mutex
	opened store.Store
	tried  time.Time
	closed bool
}

// get returns the log, or opens it, at most once a second.
func (l *lateStore) get(ctx context.Context) (store.Store, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, store.ErrClosed
	case l.opened != nil:
		return l.opened, nil
	case time.Since(l.tried) < time.Second:
		return nil, fmt.Errorf("%w: it is not open yet", store.ErrFull)
	}
	l.tried = time.Now()
	opened, err := l.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", store.ErrFull, err)
	}
	l.opened = opened
	return opened, nil
}

func (l *lateStore) Append(ctx context.Context, events []store.LogEvent) (store.Result, error) {
	s, err := l.get(ctx)
	if err != nil {
		return store.Result{}, err
	}
	return s.Append(ctx, events)
}

func (l *lateStore) Events(ctx context.Context, after int64, limit int) ([]store.LogEvent, error) {
	s, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	return s.Events(ctx, after, limit)
}

func (l *lateStore) Totals(ctx context.Context) (store.EventTotals, error) {
	s, err := l.get(ctx)
	if err != nil {
		return store.EventTotals{}, err
	}
	return s.Totals(ctx)
}

func (l *lateStore) Compact(ctx context.Context, r store.Retention) (store.Compaction, error) {
	s, err := l.get(ctx)
	if err != nil {
		return store.Compaction{}, err
	}
	return s.Compact(ctx, r)
}

func (l *lateStore) Erase(ctx context.Context, names func(string) bool) (int64, error) {
	s, err := l.get(ctx)
	if err != nil {
		return 0, err
	}
	return s.Erase(ctx, names)
}

func (l *lateStore) Ping(ctx context.Context) error {
	s, err := l.get(ctx)
	if err != nil {
		return err
	}
	return s.Ping(ctx)
}

func (l *lateStore) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.opened == nil {
		return nil
	}
	return l.opened.Close()
}
