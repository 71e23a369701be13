package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"time"
)

// Kind is what happened.
type Kind string

// The kinds of events.
const (
	Shown   Kind = "shown"   // the target stood in a list before the source's eyes
	Clicked Kind = "clicked" // the source followed it
	Linked  Kind = "linked"  // the source linked to it: cited, befriended, depended on
)

// Kinds lists every kind, in the order in which they happen.
var Kinds = []Kind{Shown, Clicked, Linked}

// Event is one thing that happened to one pair of nodes.
type Event struct {
	ID          string    // given by the client; the same ID is stored once
	Kind        Kind      //
	Source      string    // id of the node for which the list was made
	Target      string    // id of the node in the list
	Probability float64   // with which it was shown; 0 when unknown
	Model       string    // digest or version of the model that made the list
	List        string    // id of the list it stood in
	Position    int       // its place in the list, from 1; 0 when unknown
	At          time.Time // when it happened; the zero time is replaced by the store's clock
	Seq         int64     // given by the store; ignored by Append
}

// Result tells what became of the events of one Append: Stored + Duplicate + Spooled is their number.
type Result struct {
	Stored    int // new, and in the database
	Duplicate int // their ID was there before, or earlier among the same events
	Spooled   int // durable in the spool: the database is away, duplicates are sorted out when it is back
}

// Totals sums up the log.
type Totals struct {
	Events int64          // all of them; also the highest Seq
	Kinds  map[Kind]int64 // how many of each kind; kinds that never happened are absent
	First  time.Time      // the earliest At; zero when there are no events
	Last   time.Time      // the latest At
}

// Store is an event log. All methods may be called at the same time from many goroutines.
type Store interface {
	// Append stores events. When it returns nil, every one of them survives kill -9 and power loss. On an
	// error none, some or all may have been stored, and sending them again is safe. It fails with
	// [*InvalidError] when an event cannot be stored as it is (nothing is stored then), with [*BusyError]
	// when too much is waiting, with [ErrAway] when the database is away and there is no spool.
	// The caller may reuse the slice afterwards.
	Append(ctx context.Context, events []Event) (Result, error)

	// Events returns events with Seq > after in order of Seq, at most limit of them; a limit of 0, or above
	// [MaxPage], means MaxPage. None are left when the slice is empty.
	Events(ctx context.Context, after int64, limit int) ([]Event, error)

	// Totals returns the sums without reading the whole log.
	Totals(ctx context.Context) (Totals, error)

	// Ping tells whether the database answers. A store whose Ping fails may still accept events, into its
	// spool.
	Ping(ctx context.Context) error

	// Close waits for the Appends under way, then closes. Later calls fail with [ErrClosed].
	Close() error
}

// Spooler is a Store that can tell how many events wait in its spool for the database.
type Spooler interface {
	Spooled() int64
}

// Limits of what is stored. Texts are valid UTF-8 without NUL bytes.
const (
	MaxID     = 256    // bytes of an event's ID, its Model and its List
	MaxNode   = 1024   // bytes of Source and Target
	MaxAppend = 10_000 // events of one Append
	MaxPage   = 10_000 // events of one call to Events
)

// The errors to tell apart with [errors.Is].
var (
	ErrBusy    = errors.New("the event log is busy")             // wait, then send again; see [BusyError]
	ErrInvalid = errors.New("the event cannot be stored")        // mend it; see [InvalidError]
	ErrAway    = errors.New("the event database is away")        // reads, and Appends without a spool
	ErrClosed  = errors.New("the event log is closed")           //
	ErrForeign = errors.New("not an event log of unseen")        // Open: the file or database is something else
	ErrNewer   = errors.New("written by a newer unseen")         // Open: upgrade to read it
	ErrDamaged = errors.New("the file is damaged")               // Open: restore it from a copy
	ErrFull    = errors.New("no room is left for the event log") // make room; what was acknowledged is safe
)

// BusyError is the answer when more events wait than Options allow.
type BusyError struct {
	Wait time.Duration // after which it is worth trying again
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("%v; try again in %v", ErrBusy, e.Wait.Round(time.Millisecond))
}

// Is makes errors.Is(err, ErrBusy) hold.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// InvalidError is an event that cannot be stored as it is.
type InvalidError struct {
	Index  int    // its place among the events of the Append, from 0
	Name   string // the name of the part, such as "Source"; empty when the Append as a whole is at fault
	Reason string // what is wrong and what would be right
}

func (e *InvalidError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("%v: %s", ErrInvalid, e.Reason)
	}
	return fmt.Sprintf("event %d cannot be stored: %s %s", e.Index, e.Name, e.Reason)
}

// Is makes errors.Is(err, ErrInvalid) hold.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// Options of a store. The zero value is good.
type Options struct {
	Queue  int           // events that may wait to be written; beyond, [ErrBusy]. Default 50,000
	Group  int           // events after which a transaction takes in no more. Default 5,000
	Gather time.Duration // how long a transaction waits for company. Default 1 ms; negative: not at all

	// For PostgreSQL alone.
	Spool      string        // path of the file that takes events while the database is away; empty: none
	SpoolBytes int64         // its limit; beyond, [ErrBusy]. Default 256 MB
	Timeout    time.Duration // after which a database that does not answer counts as away. Default 5 s

	Log *slog.Logger     // told when the database goes away and comes back; nil: nobody
	Now func() time.Time // the clock for events without a time; nil: time.Now
}

// Open opens the log at the given place and makes it when it is not there: "sqlite:PATH" or a path is a file,
// "postgres://…" a PostgreSQL database.
//
// With a spool, a database that is away is no obstacle, unless this spool has never seen one: so a mistake in
// the address is found at once, and a service that restarts while its database is down still takes events.
func Open(ctx context.Context, url string, options Options) (Store, error) {
	options = options.withDefaults()
	scheme, rest, found := strings.Cut(url, ":")
	switch {
	case found && scheme == "sqlite":
		return openSQLite(ctx, rest, options)
	case found && (scheme == "postgres" || scheme == "postgresql"):
		return openPostgres(ctx, url, options)
	case strings.Contains(url, "://"):
		return nil, fmt.Errorf("no event log is known by %s://; give a path, sqlite:PATH or postgres://…", scheme)
	}
	return openSQLite(ctx, url, options)
}

func (o Options) withDefaults() Options {
	o.Queue = cmp.Or(max(o.Queue, 0), 50_000)
	o.Group = cmp.Or(max(o.Group, 0), 5_000)
	o.Gather = cmp.Or(o.Gather, time.Millisecond)
	o.SpoolBytes = cmp.Or(max(o.SpoolBytes, 0), 256<<20)
	o.Timeout = cmp.Or(max(o.Timeout, 0), 5*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// add counts events of a kind between two times.
func (t *Totals) add(kind Kind, events int64, first, last time.Time) {
	t.Events += events
	t.Kinds[kind] += events
	if t.First.IsZero() || first.Before(t.First) {
		t.First = first
	}
	if last.After(t.Last) {
		t.Last = last
	}
}

// All returns every event with Seq > after in order of Seq, a page at a time: memory does not grow with the
// log. It ends after the events that were there when the last page was read, or with an error.
func All(ctx context.Context, s Store, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			page, err := s.Events(ctx, after, MaxPage)
			if err != nil {
				yield(Event{}, err)
				return
			}
			if len(page) == 0 {
				return
			}
			for _, event := range page {
				if !yield(event, nil) {
					return
				}
			}
			after = page[len(page)-1].Seq
		}
	}
}
