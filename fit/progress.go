package fit

import (
	"time"

	"unseen/engine"
)

// Progress is how training tells what it is doing. Nil functions are not called; the others are
// called from the goroutine that trains.
type Progress struct {
	// Step is called about every tenth of a second, and at the end of every epoch or round.
	Step func(Step)
}

// Step is a moment of training.
type Step struct {
	Phase      string  // what is being done, in a few words: "start 2 of 3, round 4"
	Done       float64 // share of this phase, 0 to 1
	Epoch      int     // the epoch, round or iteration, from 1
	Epochs     int     // how many there can be
	Loss       engine.Parts
	Validation float64       // the validation pairs' likelihood; 0 before the first
	Speed      float64       // pairs per second
	Remaining  time.Duration // an estimate; 0 if there is none
}

// meter turns counts into Steps, not too often.
type meter struct {
	progress Progress
	began    time.Time
	last     time.Time
	pairs    int64
	skipped  int64 // of them, before this meter began
	total    int64
}

func newMeter(p Progress, total int64) *meter {
	now := time.Now()
	return &meter{progress: p, began: now, last: now, total: total}
}

// skip counts pairs that an interrupted training had done.
func (m *meter) skip(pairs int64) { m.pairs, m.skipped = m.pairs+pairs, m.skipped+pairs }

// add counts pairs and reports when it is time to.
func (m *meter) add(pairs int, force bool, step func() Step) {
	m.pairs += int64(pairs)
	if m.progress.Step == nil {
		return
	}
	now := time.Now()
	if !force && now.Sub(m.last) < 100*time.Millisecond {
		return
	}
	m.last = now
	s := step()
	elapsed := now.Sub(m.began)
	if elapsed > 0 {
		s.Speed = float64(m.pairs-m.skipped) / elapsed.Seconds()
	}
	if m.total > 0 {
		s.Done = min(float64(m.pairs)/float64(m.total), 1)
		if done := m.pairs - m.skipped; done > 0 {
			s.Remaining = max(time.Duration(float64(elapsed)*float64(m.total-m.pairs)/float64(done)), 0)
		}
	}
	m.progress.Step(s)
}
