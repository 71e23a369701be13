package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"unseen/click"
	"unseen/internal/racetest"
	"unseen/serve/store"
)

// testClock is a clock that a test sets.
type testClock struct{ at atomic.Int64 }

func newTestClock(at time.Time) *testClock {
	c := new(testClock)
	c.at.Store(at.UnixNano())
	return c
}

func (c *testClock) now() time.Time         { return time.Unix(0, c.at.Load()) }
func (c *testClock) add(step time.Duration) { c.at.Add(int64(step)) }

// pass lets days pass, on which the service compacts.
func (c *testClock) pass(t testing.TB, s *Service, days int) {
	t.Helper()
	for range days {
		c.add(24 * time.Hour)
		if err := s.compactEvents(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// logLists logs lists of many nodes, and a click on some of them.
func logLists(t testing.TB, s *Service, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		a, err := s.Recommend(t.Context(), RecommendRequest{Node: fmt.Sprint("p", n), Log: true})
		if err != nil {
			t.Fatal(err)
		}
		if n%3 > 0 {
			continue
		}
		kind := []store.Kind{store.Clicked, store.Linked}[n%2]
		click := about(*a, n%5, kind, fmt.Sprint("click", n))
		if _, err := s.AppendEvents(t.Context(), []store.LogEvent{click}); err != nil {
			t.Fatal(err)
		}
	}
}

// Compaction changes nothing that training, evaluation or the counts of the monitor see.
func TestCompactionLosesNothingNeeded(t *testing.T) {
	t.Parallel()
	clock := newTestClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s := open(t, func(o *Options) { o.KeepEvents, o.Now = 90*24*time.Hour, clock.now })
	logLists(t, s, 100, 160)
	loop := settle(t, s)
	models := s.Compare()
	type seen struct {
		pairs, naive string
		log          any
	}
	look := func() seen {
		t.Helper()
		e := s.live.Load().current
		totals, err := s.events.Totals(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		data, err := s.trainingData(t.Context(), e.origin, e.Model().Method,
			s.readingFor(s.datasets.newest(), totals.Seq-200))
		if err != nil {
			t.Fatal(err)
		}
		naive, err := s.trainingData(t.Context(), e.origin, "naive", s.readingFor(s.datasets.newest(), totals.Seq))
		if err != nil {
			t.Fatal(err)
		}
		log, err := s.logRisk(t.Context(), e, ModelEntry{Seq: 100})
		if err != nil {
			t.Fatal(err)
		}
		return seen{data.Problem.Checksum(), naive.Problem.Checksum(), log}
	}
	before := look()
	if loop.Shown != 600 || models.Arms[0].Clicked == 0 || models.Arms[0].Linked == 0 {
		t.Fatalf("too little was logged: %+v, %+v", loop.Shown, models)
	}
	clock.pass(t, s, 95)
	events, err := s.Events(t.Context(), 0, 1000)
	if err != nil || len(events.Events) != 620 || events.Total != 620 {
		t.Fatalf("%d events, %v", len(events.Events), err)
	}
	for _, e := range events.Events {
		if e.ID != "" || e.At.IsZero() || e.Source == "" || e.Target == "" {
			t.Fatalf("an event is not compacted, or too much: %+v", e)
		}
	}
	if after := look(); !reflect.DeepEqual(before, after) {
		t.Errorf("training or evaluation changed:\n%+v\n%+v", before, after)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(s.o.State, "watch.json")); err != nil { // so that the log is counted again
		t.Fatal(err)
	}
	s = reopen(t, s)
	again := settle(t, s)
	if again.Shown != loop.Shown || again.Share != loop.Share || !reflect.DeepEqual(again.Fields, loop.Fields) {
		t.Errorf("counts changed:\n%+v\n%+v", loop, again)
	}
	was, is := models.Arms[0], s.Compare().Arms[0]
	if is.Shown != was.Shown || is.Clicked != was.Clicked || is.Linked != was.Linked || is.Sources != was.Sources {
		t.Errorf("rates changed:\n%+v\n%+v", was, is)
	}
	logLists(t, s, 160, 161) // and the log goes on where it was
	if events, err = s.Events(t.Context(), 620, 1000); err != nil || events.Events[0].Seq != 621 {
		t.Errorf("%v: the next event is %+v", err, events.Events)
	}
}

// Compaction changes nothing of which outcomes came too late for their showing, and which showings may still have one,
// also where events are compacted before that is settled.
func TestCompactionKeepsWindows(t *testing.T) {
	t.Parallel()
	clock := newTestClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s := open(t, func(o *Options) {
		o.KeepEvents, o.Now = 24*time.Hour, clock.now
		o.Clicks = Clicks{Window: 30 * time.Minute, LinkWindow: 30 * 24 * time.Hour}
	})
	var events []store.LogEvent
	for k := range 120 {
		e := store.LogEvent{ID: fmt.Sprint(k), Kind: store.Shown, Source: fmt.Sprint("p", 100+k), Target: "p1",
			Position: 1, Surface: []string{"home", "mail"}[k%2], At: clock.now().Add(-3 * time.Hour)}
		events = append(events, e)
		e.ID, e.Kind, e.At = e.ID+"!", store.Clicked, e.At.Add(time.Duration(k)*time.Minute)
		if k%2 == 0 { // of a surface with links the window of links counts
			e.Kind = store.Linked
		}
		events = append(events, e)
	}
	if _, err := s.AppendEvents(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	look := func() click.Counts {
		t.Helper()
		r := s.readingFor(s.datasets.newest(), int64(len(events)))
		if err := s.read(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		return r.log.Counts
	}
	before := look()
	if before.Young == 0 || before.Late == 0 {
		t.Fatalf("nothing is young, or late: %+v", before)
	}
	clock.pass(t, s, 5)
	if page, err := s.Events(t.Context(), 0, 1000); err != nil || page.Events[0].ID != "" {
		t.Fatalf("%v: nothing was compacted", err)
	}
	if after := look(); after != before {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

// A clock that jumps locks nobody out, and lets nobody send more than the rate of a moment.
func TestAttackRateClock(t *testing.T) {
	t.Parallel()
	tokens := &Tokens{limits: map[string]*rate.Limiter{}}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, jump := range []time.Duration{0, -365 * 24 * time.Hour, 3653 * 24 * time.Hour, -3653 * 24 * time.Hour} {
		now = now.Add(jump)
		sent := 0
		for range 100 { // tenths of a second
			now = now.Add(100 * time.Millisecond)
			for range 5 {
				if _, ok := tokens.allow("a", 10, now); ok {
					sent++
				}
			}
		}
		if sent < 95 || sent > 125 {
			t.Errorf("after a jump of %v, %d requests were let through in 10 s at 10 a second", jump, sent)
		}
	}
}

// Whatever the clock does between two events or across a restart, nothing is compacted that is new, a retraining is
// due within its time and once, and an A/B test counts on.
func TestAttackClock(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestCompactionLosesNothingNeeded compacts and TestForget retrains")
	for name, jump := range map[string]time.Duration{"back a year": -365 * 24 * time.Hour,
		"ahead a decade": 3653 * 24 * time.Hour} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprint(name, restart), func(t *testing.T) {
				t.Parallel()
				clock := newTestClock(time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC))
				options := func(o *Options) {
					o.KeepEvents, o.Now, o.RetrainEvery = 30*24*time.Hour, clock.now, 24*time.Hour
				}
				s := open(t, options)
				retrain := func() Job {
					t.Helper()
					job, err := s.StartJob(JobRequest{Kind: "retrain", Method: "naive", TrainOnly: true})
					if err == nil {
						job, err = s.WaitJob(t.Context(), job.ID)
					}
					if err != nil || job.State != JobDone {
						t.Fatal(job, err)
					}
					return job
				}
				if _, err := s.StartABTest(t.Context(), ABTestRequest{Model: retrain().Model, Share: .5}); err != nil {
					t.Fatal(err)
				}
				logLists(t, s, 100, 110)
				clock.add(jump)
				if restart {
					s = reopen(t, s, options)
				}
				logLists(t, s, 110, 120)
				retrain()
				clock.pass(t, s, 2)
				clock.add(-jump) // somebody mends the clock
				logLists(t, s, 120, 130)
				clock.pass(t, s, 2)
				settle(t, s)
				events, err := s.Events(t.Context(), 0, 1000)
				if err != nil || len(events.Events) != 310 {
					t.Fatalf("%d events, %v", len(events.Events), err)
				}
				for _, e := range events.Events {
					if e.ID == "" {
						t.Fatalf("a new event was compacted: %+v", e)
					}
				}
				if shown := s.Compare().Arms; shown[0].Shown+shown[1].Shown != 300 {
					t.Errorf("the A/B test counts %+v", shown)
				}
				if err := s.EndABTest(); err != nil {
					t.Fatal(err)
				}
				for range 3 { // days, on each of which one retraining is due
					clock.add(25 * time.Hour)
					due, _ := s.NextRetrain()
					if due.After(clock.now()) || clock.now().Sub(due) > 60*24*time.Hour && !due.IsZero() {
						t.Fatalf("at %v the next retraining is due at %v", clock.now(), due)
					}
					retrain()
					if due, _ = s.NextRetrain(); !due.Equal(clock.now().UTC().Add(24 * time.Hour)) {
						t.Errorf("after a retraining at %v the next is due at %v", clock.now(), due)
					}
				}
			})
		}
	}
}
