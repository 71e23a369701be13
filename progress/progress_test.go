package progress_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"unseen/progress"
)

func TestMeterEstimatesWhatRemains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var events []progress.Event
		m := progress.NewMeter(func(e progress.Event) { events = append(events, e) }, "reading", 1000)
		m.Skip(500)
		for range 10 {
			time.Sleep(time.Second) // of the bubble: no time passes outside
			m.Add(10, nil)
		}
		m.Add(7, nil) // too soon after the last to be reported
		m.Flush(3, func(e *progress.Event) { e.Message = "round 1" })
		if len(events) != 11 {
			t.Fatalf("%d events, want 11", len(events))
		}
		if got := events[9]; got.Done != 600 || got.Share() != .6 || got.Remaining != 40*time.Second {
			t.Errorf("after ten seconds and 100 units: %+v, want 600 done and 40 s left", got)
		}
		if got := events[10]; got.Done != 610 || got.Message != "round 1" {
			t.Errorf("flushed: %+v", got)
		}
		if got := m.Speed(); got != 11 {
			t.Errorf("speed %v, want 11 units per second: what was skipped does not count", got)
		}
		if m.Flush(1000, nil); events[11].Done != 1000 || events[11].Remaining != 0 {
			t.Errorf("more than there is: %+v", events[11])
		}
	})
}

func TestNilFuncIsAllowed(t *testing.T) {
	t.Parallel()
	var none progress.Func
	none.Report(progress.Event{})
	if none.Under("x") != nil {
		t.Error("a nil Func under a phase is not nil")
	}
	m := progress.NewMeter(nil, "reading", 10)
	m.Add(3, func(*progress.Event) { t.Error("filled an event for nobody") })
}

func TestUnknownEnd(t *testing.T) {
	t.Parallel()
	if e := (progress.Event{Done: 7}); e.Share() != 0 {
		t.Errorf("share %v of an unknown whole, want 0", e.Share())
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"under 1 ms":  40 * time.Microsecond,
		"0.0012 s":    1200 * time.Microsecond,
		"0.56 s":      561 * time.Millisecond,
		"4.3 s":       4321 * time.Millisecond,
		"10 s":        9960 * time.Millisecond,
		"42 s":        42 * time.Second,
		"1 min 0 s":   59600 * time.Millisecond,
		"2 min 5 s":   125 * time.Second,
		"59 min 59 s": 3599 * time.Second,
		"1 h 0 min":   3599600 * time.Millisecond,
		"26 h 4 min":  26*time.Hour + 3*time.Minute + 50*time.Second,
	} {
		if got := progress.Duration(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func ExampleFunc_Under() {
	report := progress.Func(func(e progress.Event) { fmt.Println(e) })
	report.Under("evaluate").Report(progress.Event{Phase: "rank", Done: 1, Of: 4, Remaining: 3 * time.Second})
	// Output: evaluate: rank 25%, 3 s left
}
