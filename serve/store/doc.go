// Package store is the log of what a service showed and what came of it: who was shown which target, with
// which probability, who clicked, who linked. From it a propensity is known instead of guessed.
//
//	Append ─┐                    ┌─► events.db (SQLite)
//	Append ─┼─► queue ─► writer ─┤   or
//	Append ─┘  bounded           └─► PostgreSQL ◄────────────────┐
//	   ▲                         └─► spool file, while it is away ┘ replayed in order
//	   └── nil: survives kill -9 and power loss
//
// Appends that wait at the same time share a transaction, so that the cost of one fsync is divided among
// them. The queue is bounded: beyond it Append refuses with [ErrBusy] and says how long to wait, instead of
// promising what it cannot keep.
//
//	log, err := store.Open(ctx, "events.db", store.Options{})
//	result, err := log.Append(ctx, []store.Event{{
//		ID: "b7c1", Kind: store.Shown, Source: "paper-7", Target: "paper-9", Probability: 0.25,
//	}})
//	for event, err := range store.All(ctx, log, 0) { … }
//
// # What holds
//
//   - An event that was acknowledged is never lost, and never there twice: its ID, which the client gives, is
//     the key. Whoever got no answer sends the same events again.
//   - Seq is 1, 2, 3, … in the order in which events were stored, without gaps. Events become visible in that
//     order, so a reader who goes on after the last Seq it saw misses nothing.
//   - Nothing is deleted and nothing is changed. Of two events with the same ID the first stays.
//   - Times are kept to the microsecond, in UTC.
//
// # A file or a database
//
// SQLite is for one machine: one file, with a write-ahead log beside it while it is open. Several programs may
// share it, on a local disk. PostgreSQL is for many services that write to one log; they take turns.
//
// A service in front of PostgreSQL should have a spool of its own. While the database is away, Append answers as
// soon as the events are durable there ([Result.Spooled]); reads fail with [ErrAway]. When it is back, they are
// carried over in order, and only then can Events see them. The spool is text, one event a line.
//
// The store knows nothing of fields, models or graphs.
package store
