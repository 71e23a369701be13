package fit

import (
	"fmt"
	"time"

	"unseen/progress"
)

// round is an epoch, a round or an iteration of training under way.
type round struct {
	phase      string
	number, of int     // from 1
	loss       float64 // 0 before the first
	validation float64 // the validation pairs' likelihood; 0 before the first
}

// meter counts pairs and reports rounds, not too often.
type meter struct {
	report  progress.Func
	began   time.Time
	last    time.Time
	pairs   int64
	skipped int64 // of them, before this meter began
	total   int64 // pairs in all; 0 where only rounds can be counted
}

func newMeter(report progress.Func, total int64) *meter {
	now := time.Now()
	return &meter{report: report, began: now, last: now, total: total}
}

// skip counts pairs that an interrupted training had done.
func (m *meter) skip(pairs int64) { m.pairs, m.skipped = m.pairs+pairs, m.skipped+pairs }

// add counts pairs and reports about every tenth of a second, or if it is forced to.
func (m *meter) add(pairs int, force bool, at func() round) {
	m.pairs += int64(pairs)
	now := time.Now()
	if m.report == nil || !force && now.Sub(m.last) < 100*time.Millisecond {
		return
	}
	m.last = now
	r := at()
	e := progress.Event{Phase: r.phase, Values: map[string]float64{"round": float64(r.number)}}
	if r.of > 1 {
		e.Done, e.Of, e.Message = int64(r.number-1), int64(r.of), fmt.Sprintf("%d/%d", r.number, r.of)
	}
	for name, value := range map[string]float64{"loss": r.loss, "validation": r.validation} {
		if value != 0 {
			e.Values[name] = value
		}
	}
	elapsed, done := now.Sub(m.began), m.pairs-m.skipped
	if elapsed > 0 {
		e.Values["speed"] = float64(done) / elapsed.Seconds() // pairs per second
	}
	if m.total > 0 {
		e.Done, e.Of = min(m.pairs, m.total), m.total
		if done > 0 {
			e.Remaining = max(time.Duration(float64(elapsed)*float64(m.total-m.pairs)/float64(done)), 0)
		}
	}
	m.report(e)
}
