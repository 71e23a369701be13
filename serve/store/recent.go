package store

import "sync"

// RecentReader is a Store that has the events in memory that it stored last, so that who follows the log need not read
// them from the database.
type RecentReader interface {
	// Recent returns events with Seq > after, without a gap and as Events would, and none where it does not have the
	// first of them: then Events does, or there is none. It gives events once.
	Recent(after int64) []LogEvent
}

// recent keeps the events that were stored last, up to a page of them, in order and without a gap.
type recent struct {
	mu   sync.Mutex
	page page
}

// add takes events that are stored, the last of them with a Seq. Other programs may write to the log too: what comes
// before a gap is dropped, and all of it where it is more than a page.
func (r *recent) add(events []LogEvent, last int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := last - int64(len(events)) + 1
	if n := len(r.page.events); n > 0 && r.page.events[n-1].Seq+1 != first || n+len(events) > MaxPage {
		r.page = page{}
	}
	for k, e := range events {
		e.Seq = first + int64(k)
		if len(events) > MaxPage || !r.page.add(e) {
			r.page = page{}
			return
		}
	}
}

// clear drops all events, such as those of somebody who is forgotten.
func (r *recent) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.page = page{}
}

// Recent implements RecentReader.
func (r *recent) Recent(after int64) []LogEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	have := r.page.events
	if len(have) == 0 || after+1 < have[0].Seq || after >= have[len(have)-1].Seq {
		return nil
	}
	r.page = page{}
	return have[after+1-have[0].Seq:]
}
