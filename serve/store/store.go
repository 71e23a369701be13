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
	"unseen/progress"
)

// Kind is what happened.
type Kind string

// The kinds of events.
const (
	Shown     Kind = "shown"     // the source was shown the target in a list
	Clicked   Kind = "clicked"   // the source opened it
	Linked    Kind = "linked"    // the source linked to it: cited, befriended, depended on
	Dismissed Kind = "dismissed" // the source said that it does not want the target
)

// Kinds lists every kind: what is shown, and then what the source may do with it.
var Kinds = []Kind{Shown, Clicked, Linked, Dismissed}

// LogEvent is one thing that happened to one pair of nodes. It is the same in Go, in the API's JSON and in
// the spool; the tags other than json are for the API's reference and its validation.
type LogEvent struct {
	// ID is empty in events that were compacted.
	ID     string `json:"id" maxLength:"256" doc:"the client's, not empty; stored once; empty after compaction"`
	Kind   Kind   `json:"kind" enum:"shown,clicked,linked,dismissed" doc:"what happened"`
	Source string `json:"source" minLength:"1" maxLength:"1024" doc:"id of the node that the list was for"`
	Target string `json:"target" minLength:"1" maxLength:"1024" doc:"id of the item"`
	// Probability is 0 where it is unknown.
	Probability float64 `json:"probability,omitempty" minimum:"0" maximum:"1" doc:"of being shown, from the list"`
	Model       string  `json:"model,omitempty" maxLength:"256" doc:"digest of the model; default: the list's"`
	List        string  `json:"list,omitempty" maxLength:"256" doc:"id of the list"`
	Position    int     `json:"position,omitempty" minimum:"0" maximum:"100000" doc:"in the list, from 1"`
	Surface     string  `json:"surface,omitempty" maxLength:"64" doc:"where the list stood, such as home or mail"`
	// Placed is 0 where it is unknown.
	Placed float64 `json:"placed,omitempty" minimum:"0" maximum:"1" doc:"probability of its position, given the items"`
	// Candidates is the same in all lists of a source that were chosen from the same targets by the same model.
	Candidates string    `json:"candidates,omitempty" maxLength:"128" doc:"the list's candidates, as rule/size/hash"`
	At         time.Time `json:"at,omitzero" doc:"time of the event; default: now"`
	Seq        int64     `json:"seq,omitempty" readOnly:"true" doc:"position in the log, set by the store"`
}

// Result counts the events of one Append: Stored + Duplicate + Spooled + Forgotten is their number.
type Result struct {
	Stored    int `json:"stored" doc:"new events in the database"`
	Duplicate int `json:"duplicate" doc:"events whose id was already stored"`
	// Spooled events are durable while the database is down; duplicates are dropped when it is back.
	Spooled int `json:"spooled" doc:"events that are durable but not in the database yet"`
	// Forgotten is for services that leave such events out; a Store has none.
	Forgotten int `json:"forgotten,omitempty" doc:"events of forgotten nodes, which are not stored"`
}

// EventTotals sums up the log.
type EventTotals struct {
	Seq    int64          // the highest Seq that was ever given
	Events int64          // all of them, also those that were compacted; without those that were erased
	Kinds  map[Kind]int64 // how many of each kind; kinds that never happened are absent
	First  time.Time      // the earliest At; zero when there are no events
	Last   time.Time      // the latest At
}

// Store is an event log. All methods may be called at the same time from many goroutines.
type Store interface {
	// Append stores events. When it returns nil, every one of them survives kill -9 and power loss. On an
	// error any number of them may have been stored, and sending them again is safe. It fails with
	// [*InvalidError] when an event cannot be stored as it is (nothing is stored then), with [*BusyError]
	// when too many events wait, with [ErrUnavailable] when the database is down and there is no spool.
	// The caller may reuse the slice afterwards.
	Append(ctx context.Context, events []LogEvent) (Result, error)

	// Events returns events with Seq > after in order of Seq, at most limit of them; a limit of 0, or above
	// [MaxPage], means MaxPage. A page ends early when its texts exceed [MaxPageBytes]. None are left when the
	// slice is empty.
	Events(ctx context.Context, after int64, limit int) ([]LogEvent, error)

	// Totals returns the sums without reading the whole log.
	Totals(ctx context.Context) (EventTotals, error)

	// Compact makes the next events that are old enough smaller, and ages the log; see [Retention]. What a
	// crash interrupts has not happened. Reads and Appends go on.
	Compact(ctx context.Context, r Retention) (Compaction, error)

	// Erase removes every event of the nodes that the function names, and the bytes that they had in the
	// log's files as far as the database allows, and returns their number. It can be repeated, and should be
	// after an error. It reads the whole log; SQLite also writes all of it anew, and Appends wait meanwhile.
	// While events wait in a spool it fails with [ErrUnavailable].
	Erase(ctx context.Context, names func(node string) bool) (int64, error)

	// Ping reports whether the database answers. A store whose Ping fails may still accept events, into
	// its spool.
	Ping(ctx context.Context) error

	// Close waits for the Appends under way, then closes. Later calls fail with [ErrClosed].
	Close() error
}

// Spooler is a Store that counts the events that wait in its spool for the database.
type Spooler interface {
	Spooled() int64
}

// Limits of what is stored. Texts are valid UTF-8 without NUL bytes.
const (
	MaxID         = 256    // bytes of an event's ID, its Model and its List
	MaxNode       = 1024   // bytes of Source and Target
	MaxSurface    = 64     // bytes of Surface
	MaxCandidates = 128    // bytes of Candidates
	MaxAppend     = 10_000 // events of one Append
	MaxPage       = 10_000 // events of one call to Events

	MaxPageBytes = 4 << 20 // bytes of the texts of one call to Events
)

// The errors to tell apart with [errors.Is].
var (
	ErrBusy        = errors.New("event log is busy")               // wait, then send again; see [BusyError]
	ErrInvalid     = errors.New("invalid event")                   // correct it; see [InvalidError]
	ErrUnavailable = errors.New("event database is unavailable")   // reads, and Appends without a spool
	ErrClosed      = errors.New("event log is closed")             //
	ErrForeign     = errors.New("not an event log of unseen")      // Open: the file or database is something else
	ErrNewer       = errors.New("written by a newer unseen")       // Open: upgrade to read it
	ErrDamaged     = errors.New("file is damaged")                 // Open: restore it from a copy
	ErrFull        = errors.New("no space left for the event log") // free space; acknowledged events are safe
)

// BusyError: more events wait than Options allow.
type BusyError struct {
	Wait time.Duration // before the next attempt
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("%v; try again in %s", ErrBusy, progress.Duration(e.Wait))
}

// Is makes errors.Is(err, ErrBusy) hold.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// InvalidError is an event that was rejected.
type InvalidError struct {
	Index  int    // of the event in the Append, from 0
	Name   string // of the field, such as "Source"; empty when the Append as a whole is invalid
	Reason string // what is wrong and what would be right
}

func (e *InvalidError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("%v: %s", ErrInvalid, e.Reason)
	}
	return fmt.Sprintf("invalid event %d: %s %s", e.Index, e.Name, e.Reason)
}

// Is makes errors.Is(err, ErrInvalid) hold.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// Options of a store. The zero value is usable.
type Options struct {
	Queue  int           // events that may wait to be written; beyond, [ErrBusy]. Default 50,000
	Group  int           // largest number of events in a transaction. Default 5,000
	Gather time.Duration // how long a transaction waits for more events. Default 1 ms; negative: not at all

	// For PostgreSQL only.
	Spool      string        // file that takes events while the database is down; empty: none
	SpoolBytes int64         // its limit; beyond, [ErrBusy]. Default 256 MB
	Timeout    time.Duration // after which a database that does not answer counts as down. Default 5 s

	Log *slog.Logger     // logs when the database goes down and comes back; nil: nothing is logged
	Now func() time.Time // the clock for events without a time; nil: time.Now
}

// Open opens the log at the given place and creates it if it does not exist: "sqlite:PATH" or a path is a file,
// "postgres://…" a PostgreSQL database.
//
// With a spool, Open succeeds while the database is down, unless this spool was never used before: so a mistake
// in the address is found at once, and a service that restarts while its database is down still accepts events.
func Open(ctx context.Context, url string, options Options) (Store, error) {
	options = options.withDefaults()
	scheme, rest, found := strings.Cut(url, ":")
	switch {
	case found && scheme == "sqlite":
		return openSQLite(ctx, rest, options)
	case found && (scheme == "postgres" || scheme == "postgresql"):
		return openPostgres(ctx, url, options)
	case strings.Contains(url, "://"):
		return nil, fmt.Errorf("unknown event log %s://; give a path, sqlite:PATH or postgres://…", scheme)
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
func (t *EventTotals) add(kind Kind, events int64, first, last time.Time) {
	if events == 0 { // all were erased
		return
	}
	t.Events += events
	t.Kinds[kind] += events
	if t.First.IsZero() || first.Before(t.First) {
		t.First = first
	}
	if last.After(t.Last) {
		t.Last = last
	}
}

// page collects events up to a number of bytes.
type page struct {
	events []LogEvent
	bytes  int
}

// add reports whether the page takes more events.
func (p *page) add(e LogEvent) bool {
	if p.bytes > MaxPageBytes {
		return false
	}
	p.events = append(p.events, e)
	p.bytes += len(e.ID) + len(e.Source) + len(e.Target) + len(e.Model) + len(e.List) + len(e.Surface) +
		len(e.Candidates)
	return true
}

// All returns every event with Seq > after in order of Seq, a page at a time, so that memory does not grow with
// the log. It ends after the events that existed when the last page was read, or with an error.
func All(ctx context.Context, s Store, after int64) iter.Seq2[LogEvent, error] {
	return func(yield func(LogEvent, error) bool) {
		for {
			page, err := s.Events(ctx, after, MaxPage)
			if err != nil {
				yield(LogEvent{}, err)
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
