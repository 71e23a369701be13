package serve

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"sync"
)

// ErrClosed: the service was closed.
var ErrClosed = errors.New("service is closed")

// calls counts the calls in progress: vectors are a mapped file, and reading them after Close has unmapped it would
// crash the program.
type calls struct {
	mu     sync.Mutex
	inside int
	closed bool
	empty  chan struct{} // closed when the last call has ended
}

func (c *calls) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.inside++
	}
	return !c.closed
}

func (c *calls) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inside--; c.closed && c.inside == 0 {
		close(c.empty)
	}
}

// close rejects new calls, stops those in progress, and waits for them.
func (c *calls) close(stop func()) {
	c.mu.Lock()
	c.closed, c.empty = true, make(chan struct{})
	stop() // before any call is rejected
	if c.inside == 0 {
		close(c.empty)
	}
	c.mu.Unlock()
	<-c.empty
}

// begin counts a call until end. Memory whose file is gone is then an error. Its context ends with
// the service; a call that this cancels returns ErrClosed.
//
//	ctx, end, err := s.begin(ctx)
//	if err != nil {
//		return nil, err
//	}
//	defer end(&err)
func (s *Service) begin(ctx context.Context) (_ context.Context, end func(*error), err error) {
	if !s.calls.enter() {
		return ctx, nil, ErrClosed
	}
	within, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(s.life, cancel)
	was := debug.SetPanicOnFault(true)
	return within, func(err *error) {
		defer s.calls.leave()
		defer s.survive(recover(), was, err)
		unhook()
		cancel()
		if errors.Is(*err, context.Canceled) && ctx.Err() == nil && s.life.Err() != nil {
			*err = ErrClosed
		}
	}, nil
}

// whileOpen rejects requests after Close.
func (s *Service) whileOpen(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, end, err := s.begin(r.Context())
		if err != nil {
			retryLater(http.StatusServiceUnavailable, err, 1).write(w, requestID(r.Context()))
			return
		}
		defer func() {
			if errors.Is(err, ErrVectors) && statusOf(w) == http.StatusOK { // outside of a call that answers
				retryLater(http.StatusServiceUnavailable, err, 30).write(w, requestID(r.Context()))
			}
		}()
		defer end(&err)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
