// Package store keeps the event log of a service: who was shown which target, with which probability, who
// clicked, who linked, who dismissed it. With it a propensity is known instead of estimated.
//
//	Append ─┐                    ┌─► events.db (SQLite)
//	Append ─┼─► queue ─► writer ─┤   or
//	Append ─┘  bounded           └─► PostgreSQL ◄────────────────┐
//	   ▲                         └─► spool file, while it is down ┘ replayed in order
//	   └── nil: survives kill -9 and power loss
//
// Appends that wait at the same time share a transaction, and so the cost of one fsync. The queue is bounded:
// when it is full, Append fails with [ErrBusy] and says how long to wait.
//
//	log, err := store.Open(ctx, "events.db", store.Options{})
//	result, err := log.Append(ctx, []store.LogEvent{{
//		ID: "b7c1", Kind: store.Shown, Source: "paper-7", Target: "paper-9", Probability: 0.25,
//	}})
//	for event, err := range store.All(ctx, log, 0) { … }
//
// # What holds
//
//   - An acknowledged event is never lost and never stored twice: its ID, chosen by the client, is the key. A
//     client that got no answer sends the same events again.
//   - Seq is 1, 2, 3, … in the order in which events were stored, without gaps but those of erased events. Events
//     become visible in that order, so a reader that continues after the last Seq it saw misses nothing.
//   - Of two events with the same ID the first stays. Nothing is changed but by Compact, which reduces old events
//     to what training and evaluation need, and nothing is deleted but by Erase.
//   - Times are kept to the microsecond, in UTC.
//
// # Versions
//
// A file or database of an older version is migrated when it is opened. Of a file a copy stays beside it, with the
// old version in its name: events.db.v2. PostgreSQL gets new tables and columns beside the old ones. One of a later
// version is refused with [ErrNewer]. So are spools.
//
// # A file or a database
//
// SQLite is for one machine: one file, with a write-ahead log beside it while it is open. Programs can share it
// on a local disk. PostgreSQL is for many services that write to one log; they take turns.
//
// A service in front of PostgreSQL should have a spool of its own. While the database is down, Append returns as
// soon as the events are durable in the spool ([Result.Spooled]); reads fail with [ErrUnavailable]. When it is
// back, the spool is replayed in order, and only then does Events return its events. The spool is text, one
// event per line.
//
// The store does not know fields, models or graphs.
package store
