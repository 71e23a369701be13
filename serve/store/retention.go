package store

import "time"

// Retention says how long events are kept whole.
//
// An old event is compacted: all of it stays that training and evaluation need. Only its ID is dropped, and texts are
// stored once for all events. Its time stays: whether an outcome came too late for a showing, and whether one can still
// come, depends on both times. Its Seq stays, so a reader sees the same events in the same order.
// As the ID is gone, an event that is sent again after such a time is stored again.
//
// The age of an event counts from when it was stored, whatever time it bears. It is the sum of the steps of the clock
// from one call of Compact to the next, each a day at most, and none where the clock went back. So a clock that jumps a
// decade ahead makes events a day older and no more; and days on which nobody calls Compact hardly count.
type Retention struct {
	Keep  time.Duration // age from which events are compacted
	Now   time.Time     // the clock
	Limit int           // events of one call; 0 means 2,000
}

// Compaction is what one call of Compact did.
type Compaction struct {
	Events int           // that were compacted
	More   bool          // others are old enough
	Age    time.Duration // of the log, by the steps of its clock
}

const (
	longestStep  = 24 * time.Hour // that the clock is believed to have made
	clockSkew    = time.Hour      // by which the clocks of services that share a log may differ
	arrivalsKept = 100            // marks of when events were stored, over the time that events are kept
)

// logClock is the clock by which events age.
type logClock struct {
	wall time.Time     // of the last step; zero before the first
	age  time.Duration // sum of the steps
}

// step moves the clock to the time of a wall clock, as far as it is believed.
func (c logClock) step(now time.Time) logClock {
	passed := now.Sub(c.wall)
	switch {
	case c.wall.IsZero() || passed < -clockSkew:
		return logClock{now, c.age}
	case passed < 0: // the clock of another service
		return c
	}
	return logClock{now, c.age + min(passed, longestStep)}
}

// marks reports whether it is time for a new mark of how many events there are; the last was made at an age, in
// microseconds, or is negative.
func (r Retention) marks(last int64, age time.Duration) bool {
	return last < 0 || age-time.Duration(last)*time.Microsecond >= r.Keep/arrivalsKept
}

func (r Retention) limit() int {
	if r.Limit <= 0 {
		return 2000
	}
	return r.Limit
}
