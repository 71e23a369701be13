// Package progress says how far long work has come. Everything in this module that takes more than
// a second reports by it: importing, encoding, training, evaluation, batches of lists, studies,
// jobs of the service and of a cluster.
//
//	report := func(e progress.Event) { fmt.Println(e) }
//	result, err := fit.Fit(ctx, problem, fit.Settings{Progress: report})
package progress

import (
	"fmt"
	"strings"
	"time"
)

// Event is how far work has come.
type Event struct {
	// Phase is what is being done, in a few words: "start 2 of 3".
	Phase string `json:"phase"`
	// Done of Of units of the phase are done: pairs, rows, rounds. Of is 0 where the end is unknown.
	Done int64 `json:"done"`
	Of   int64 `json:"of,omitempty"`
	// Remaining estimates the time until the phase ends; 0 where there is no estimate.
	Remaining time.Duration `json:"remaining,omitempty"`
	// Message is what a person should know beyond that, or "".
	Message string `json:"message,omitempty"`
	// Values are what the phase measures of itself, by name: loss, validation, round, speed.
	Values map[string]float64 `json:"values,omitempty"`
}

// Share returns how much of the phase is done, from 0 to 1; 0 where the end is unknown.
func (e Event) Share() float64 {
	if e.Of <= 0 {
		return 0
	}
	return min(max(float64(e.Done)/float64(e.Of), 0), 1)
}

// String describes the event in one line.
func (e Event) String() string {
	var b strings.Builder
	b.WriteString(e.Phase)
	if e.Of > 0 {
		fmt.Fprintf(&b, " %.0f%%", 100*e.Share())
	}
	if e.Remaining >= time.Second {
		b.WriteString(", " + Duration(e.Remaining.Round(time.Second)) + " left")
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	return b.String()
}

// Duration writes a duration for people: 0.25 s, 4.3 s, 42 s, 2 min 5 s, 1 h 3 min.
func Duration(d time.Duration) string {
	switch whole := d.Round(time.Second); {
	case d < time.Millisecond:
		return "under 1 ms"
	case d < 10*time.Second:
		return fmt.Sprintf("%.2g s", d.Seconds())
	case whole < time.Minute:
		return fmt.Sprintf("%d s", whole/time.Second)
	case whole < time.Hour:
		return fmt.Sprintf("%d min %d s", whole/time.Minute, whole%time.Minute/time.Second)
	default:
		whole = d.Round(time.Minute)
		return fmt.Sprintf("%d h %d min", whole/time.Hour, whole%time.Hour/time.Minute)
	}
}

// Seconds writes a number of seconds as Duration does.
func Seconds(s float64) string { return Duration(time.Duration(s * float64(time.Second))) }

// Func receives events, from the goroutine that does the work or one at a time from its workers; it
// should return soon. A nil Func is allowed wherever one is asked for.
type Func func(Event)

// Report calls f unless it is nil.
func (f Func) Report(e Event) {
	if f != nil {
		f(e)
	}
}

// Under returns a Func that puts an outer phase before each event's own: "evaluate: " + phase.
func (f Func) Under(phase string) Func {
	if f == nil {
		return nil
	}
	return func(e Event) {
		if e.Phase == "" {
			e.Phase = phase
		} else {
			e.Phase = phase + ": " + e.Phase
		}
		f(e)
	}
}

// interval is the least time between two events of a Meter.
const interval = 100 * time.Millisecond

// Meter turns counts into events, at most ten a second, and estimates the time that remains. It is
// for one goroutine.
type Meter struct {
	report      Func
	event       Event
	began, last time.Time
	skipped     int64
}

// NewMeter begins a phase of this many units; 0 where their number is unknown.
func NewMeter(report Func, phase string, of int64) *Meter {
	now := time.Now()
	return &Meter{report: report, event: Event{Phase: phase, Of: of}, began: now, last: now}
}

// Skip counts units that were done before, in an interrupted run, and so tell nothing of speed.
func (m *Meter) Skip(units int64) {
	m.event.Done += units
	m.skipped += units
}

// Speed returns the units per second since the phase began.
func (m *Meter) Speed() float64 {
	seconds := time.Since(m.began).Seconds()
	if seconds <= 0 {
		return 0
	}
	return float64(m.event.Done-m.skipped) / seconds
}

// Add counts units and reports when it is time to. fill may set what else the event says; it is
// called only where an event is due, and may be nil.
func (m *Meter) Add(units int64, fill func(*Event)) { m.add(units, false, fill) }

// Flush counts units and reports at once: at the end of a round, or of the phase.
func (m *Meter) Flush(units int64, fill func(*Event)) { m.add(units, true, fill) }

func (m *Meter) add(units int64, now bool, fill func(*Event)) {
	m.event.Done += units
	if m.report == nil {
		return
	}
	at := time.Now()
	if !now && at.Sub(m.last) < interval {
		return
	}
	m.last = at
	e := m.event
	if e.Of > 0 {
		e.Done = min(e.Done, e.Of)
	}
	if done := e.Done - m.skipped; e.Of > e.Done && done > 0 {
		e.Remaining = time.Duration(float64(at.Sub(m.began)) * float64(e.Of-e.Done) / float64(done))
	}
	if fill != nil {
		fill(&e)
	}
	m.report(e)
}
