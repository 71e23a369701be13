package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"unseen/serve/store"
)

// everyCall is every call that can be refused.
func everyCall(s *Service) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Recommend": func(ctx context.Context) error {
			return second(s.Recommend(ctx,
				RecommendRequest{Node: "p167", Compare: true}))
		},
		"Append": func(ctx context.Context) error {
			shown := store.LogEvent{ID: "a", Kind: store.Shown, Source: "p1", Target: "p2"}
			return second(s.AppendEvents(ctx, []store.LogEvent{shown}))
		},
		"Search":      func(ctx context.Context) error { return second(s.Search(ctx, "p1", "", 0, 10)) },
		"Node":        func(ctx context.Context) error { return second(s.Node(ctx, "p9")) },
		"Events":      func(ctx context.Context) error { return second(s.Events(ctx, 0, 10)) },
		"ModelDetail": func(context.Context) error { return second(s.ModelDetail()) },
		"Bridges":     func(ctx context.Context) error { return second(s.Bridges(ctx)) },
		"Simulate":    func(ctx context.Context) error { return second(s.Simulate(ctx, SimulateCorrected, 50, .1, 1)) },
		"Deploy": func(ctx context.Context) error {
			_, digest := s.Current()
			return second(s.Deploy(ctx, digest))
		},
		"EndABTest": func(context.Context) error { return s.EndABTest() },
	}
}

// Close waits for the calls in progress before it frees anything, and rejects later ones.
func TestCloseUnderCalls(t *testing.T) {
	t.Parallel()
	paths := []string{"/api/v1/recommendations?node=p167", "/node/p150", "/api/v1/bridges", "/api/v1/model",
		"/exposure"}
	for round := range 3 {
		s, err := Open(t.Context(), Options{Folder: copyOf(t), Concurrent: 64})
		if err != nil {
			t.Fatal(err)
		}
		h := s.Handler()
		var answered, refused atomic.Int64
		var all sync.WaitGroup
		until := make(chan struct{})
		ask := func(name string, one func() error) {
			all.Go(func() {
				for {
					select {
					case <-until:
						return
					default:
					}
					switch err := one(); {
					case err == nil:
						answered.Add(1)
					case errors.Is(err, ErrClosed):
						refused.Add(1)
						return
					default:
						t.Errorf("%s: %v", name, err)
						return
					}
				}
			})
		}
		for name, call := range everyCall(s) {
			ask(name, func() error { return call(t.Context()) })
		}
		for range 2 {
			for _, path := range paths {
				ask(path, func() error {
					w := httptest.NewRecorder()
					h.ServeHTTP(w, fromHere(httptest.NewRequest("GET", path, nil)))
					if w.Code == http.StatusServiceUnavailable {
						return ErrClosed
					}
					if w.Code != http.StatusOK {
						return fmt.Errorf("status %d: %s", w.Code, w.Body)
					}
					return nil
				})
			}
		}
		poll(t, "answers", func() bool { return answered.Load() > int64(20*round) })
		var closing sync.WaitGroup
		for range 3 {
			closing.Go(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		closing.Wait()
		all.Wait()
		close(until)
		if answered.Load() == 0 || refused.Load() == 0 {
			t.Errorf("%d answers, %d refusals", answered.Load(), refused.Load())
		}
	}
}

// A closed service says so, in Go and over HTTP.
func TestClosed(t *testing.T) {
	t.Parallel()
	s := open(t)
	h := s.Handler()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for name, call := range everyCall(s) {
			if err := call(t.Context()); !errors.Is(err, ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, err := range map[string]error{
			"Start": second(s.StartJob(JobRequest{Kind: "retrain"})), "Wait": second(s.WaitJob(t.Context(), "1")),
			"Cancel":      second(s.CancelJob("1")),
			"StartABTest": second(s.StartABTest(t.Context(), ABTestRequest{Model: "abcdef123456", Share: .5})),
			"Run":         s.Run(stopped, ServerOptions{Address: "127.0.0.1:0"}),
		} {
			t.Run(name, func(t *testing.T) {
				if !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			})
		}
		for _, path := range []string{"/api/v1/recommendations?node=p1", "/api/v1/events", "/api/v1/ab-test", "/",
			"/explore", "/node/p1", "/readyz", "/metrics"} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, fromHere(httptest.NewRequest("GET", path, nil)))
			var p struct{ Detail, Instance string }
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != 503 ||
				p.Detail != "service is closed" || p.Instance == "" ||
				w.Header().Get("Content-Type") != "application/problem+json" || w.Header().Get("Retry-After") == "" {
				t.Errorf("%s: %d %v %s", path, w.Code, w.Header(), w.Body)
			}
		}
		s.Loop()
		s.Jobs()
		s.Models()
		s.Compare()
		s.NextRetrain()
		if s.Graph().Len() == 0 {
			t.Error("the names of nodes are gone")
		}
	}
}

// Close stops a training and ends the wait for it; the next service continues with it.
func TestCloseDuringTraining(t *testing.T) {
	t.Parallel()
	folder := copyOf(t)
	s, err := Open(t.Context(), Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	job, err := s.StartJob(JobRequest{Kind: "retrain", Method: "bayes", Keep: true, Full: true})
	if err != nil {
		t.Fatal(err)
	}
	id := job.ID
	waits, streams := make(chan error, 1), make(chan int, 1)
	go func() { waits <- second(s.WaitJob(t.Context(), id)) }()
	go func() {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, fromHere(httptest.NewRequest("GET", "/api/v1/jobs/"+id+"/progress", nil)))
		streams <- w.Code
	}()
	poll(t, "the first loss", func() bool {
		if job, err = s.Job(id); err != nil {
			t.Fatal(err)
		}
		return job.Latest != nil || job.Ended != nil
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if job, _, _ = s.jobs.find(id); job.State != JobQueued {
		t.Errorf("a job under way is %s afterwards", job.State)
	}
	if err := <-waits; !errors.Is(err, ErrClosed) {
		t.Errorf("who waited: %v", err)
	}
	<-streams
	s, err = Open(t.Context(), Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if job, err = s.WaitJob(t.Context(), id); err != nil || job.State != JobDone || job.Begun != 1 {
		t.Errorf("%v: %+v", err, job)
	}
}

// Requests that outlast the drain are waited for by Close.
func TestCloseAfterDrain(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx, stop := context.WithCancel(t.Context())
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- s.Run(ctx, ServerOptions{Address: "127.0.0.1:0", Drain: time.Millisecond,
			Started: func(url string) { address <- url }})
	}()
	at := <-address
	s.jobs.swap.Lock() // the end of an A/B test waits for it, whatever its context says
	go func() {
		r, err := http.NewRequest("DELETE", at+"/api/v1/ab-test", nil)
		if err != nil {
			t.Error(err)
			return
		}
		if answer, err := http.DefaultClient.Do(r); err == nil {
			answer.Body.Close()
		}
	}()
	inside := func() int {
		s.calls.mu.Lock()
		defer s.calls.mu.Unlock()
		return s.calls.inside
	}
	poll(t, "the request, and the call that it makes", func() bool { return inside() >= 2 })
	stop()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "aborted requests") {
		t.Errorf("the drain: %v", err)
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		t.Errorf("closed under a request: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	s.jobs.swap.Unlock()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if inside() != 0 {
		t.Errorf("%d are inside a closed service", inside())
	}
}

// Close ends Run.
func TestCloseEndsRun(t *testing.T) {
	t.Parallel()
	s := open(t)
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- s.Run(t.Context(), ServerOptions{Address: "127.0.0.1:0", Started: func(url string) { address <- url }})
	}()
	<-address
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
