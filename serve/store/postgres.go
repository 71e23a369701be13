package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// postgresMigrations bring a database from one version to the next; the first creates it. A released migration
// is never changed: a later one is appended. Statements of an earlier version still work after it, so that no copy is
// needed to go back. Where the events with the highest numbers were compacted or erased, a row without an id keeps the
// place of the last, as in SQLite.
var postgresMigrations = []string{`
CREATE TABLE unseen_events (
	seq         bigint PRIMARY KEY,
	id          text COLLATE "C" NOT NULL UNIQUE,
	kind        text NOT NULL,
	source      text NOT NULL,
	target      text NOT NULL,
	probability double precision NOT NULL,
	model       text NOT NULL,
	list        text NOT NULL,
	position    integer NOT NULL,
	at          timestamptz NOT NULL
);
CREATE TABLE unseen_totals (
	kind   text PRIMARY KEY,
	events bigint NOT NULL,
	first  timestamptz NOT NULL,
	last   timestamptz NOT NULL
);`, `
CREATE TABLE unseen_names (
	number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name   text COLLATE "C" NOT NULL UNIQUE
);
CREATE TABLE unseen_compacted ( -- texts are numbers of names
	seq         bigint PRIMARY KEY,
	kind        text NOT NULL,
	source      bigint NOT NULL,
	target      bigint NOT NULL,
	probability double precision NOT NULL,
	model       bigint NOT NULL,
	list        bigint NOT NULL,
	position    integer NOT NULL,
	at          timestamptz -- null where something was shown and an earlier version has compacted it
);
CREATE TABLE unseen_clock (
	one  integer PRIMARY KEY CHECK (one = 1),
	wall timestamptz NOT NULL,
	age  bigint NOT NULL -- of the log, in microseconds
);
CREATE TABLE unseen_arrivals ( -- events up to seq had been stored at an age
	seq bigint PRIMARY KEY,
	age bigint NOT NULL
);`, `
ALTER TABLE unseen_events
	ADD COLUMN IF NOT EXISTS surface    text NOT NULL DEFAULT '',
	ADD COLUMN IF NOT EXISTS placed     double precision NOT NULL DEFAULT 0,
	ADD COLUMN IF NOT EXISTS candidates text NOT NULL DEFAULT '';
-- 0, which is the number of no name, where the event was compacted before there was this column
ALTER TABLE unseen_compacted
	ADD COLUMN IF NOT EXISTS surface    bigint NOT NULL DEFAULT 0,
	ADD COLUMN IF NOT EXISTS placed     double precision NOT NULL DEFAULT 0,
	ADD COLUMN IF NOT EXISTS candidates bigint NOT NULL DEFAULT 0;`}

// postgresLock is the number of the advisory lock under which all writers take turns. So Seq has no gaps, and
// events become visible in its order even where many services share a database.
const postgresLock = 0x756e7365656e // "unseen"

// The snapshot of this statement is taken after the lock is held, so it sees whatever the last writer stored.
const postgresInsert = `
WITH incoming AS (
	SELECT DISTINCT ON (id) * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::float8[],
			$6::text[], $7::text[], $8::int[], $9::timestamptz[], $10::text[], $11::float8[], $12::text[])
		WITH ORDINALITY AS given (id, kind, source, target, probability, model, list, position, at, surface, placed,
			candidates, place)
	ORDER BY id, place
), fresh AS (
	SELECT * FROM incoming WHERE NOT EXISTS (SELECT FROM unseen_events stored WHERE stored.id = incoming.id COLLATE "C")
), added AS (
	INSERT INTO unseen_events (seq, id, kind, source, target, probability, model, list, position, at, surface, placed,
		candidates)
	SELECT (SELECT coalesce(max(seq), 0) FROM unseen_events) + row_number() OVER (ORDER BY place),
		id, kind, source, target, probability, model, list, position, at, surface, placed, candidates
	FROM fresh ON CONFLICT (id) DO NOTHING
	RETURNING id, kind, at
), summed AS (
	INSERT INTO unseen_totals SELECT kind, count(*), min(at), max(at) FROM added GROUP BY kind
	ON CONFLICT (kind) DO UPDATE SET events = unseen_totals.events + excluded.events,
		first = least(unseen_totals.first, excluded.first), last = greatest(unseen_totals.last, excluded.last)
)
SELECT id FROM added`

// postgresStore is a log in a PostgreSQL database, with a spool for when the database is down.
// While events wait in the spool, new events are appended to it, so that they keep their order.
type postgresStore struct {
	*queue
	pool    *pgxpool.Pool
	spool   *spool // nil: none
	timeout time.Duration
	log     *slog.Logger

	preparing sync.Mutex
	prepared  bool

	replaying sync.Mutex  // held while events go from the spool to the database
	answers   atomic.Bool // whether the database took the last of them

	wake     chan struct{} // signals the replayer that events wait
	stop     context.CancelFunc
	replayed sync.WaitGroup
}

var (
	_ Store   = (*postgresStore)(nil)
	_ Spooler = (*postgresStore)(nil)
)

func openPostgres(ctx context.Context, url string, options Options) (Store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("address of the event database: %w", err)
	}
	config.ConnConfig.ConnectTimeout = options.Timeout
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("event database: %w", err)
	}
	s := &postgresStore{pool: pool, timeout: options.Timeout, log: options.Log, wake: make(chan struct{}, 1)}
	if err := s.begin(ctx, options); err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

// begin connects to the database and opens the spool.
func (s *postgresStore) begin(ctx context.Context, options Options) error {
	err := s.prepare(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !unreachable(err):
		return fmt.Errorf("event database: %w", err)
	case err != nil && (options.Spool == "" || !spoolExists(options.Spool)):
		return fmt.Errorf("%w: %v; check its address, and start it", ErrUnavailable, err)
	case err != nil:
		s.log.Warn("event database is down; events go to the spool", "spool", options.Spool, "error", err)
	}
	background, stop := context.WithCancel(context.Background())
	s.stop = stop
	if options.Spool != "" {
		if s.spool, err = openSpool(options.Spool, options.SpoolBytes); err != nil {
			stop()
			return err
		}
		s.signalReplay() // a former run may have left something
		s.replayed.Go(func() { s.replay(background) })
	}
	s.queue = newQueue(options, s.commit)
	return nil
}

// prepare creates the tables if they are missing, once.
func (s *postgresStore) prepare(ctx context.Context) error {
	s.preparing.Lock()
	defer s.preparing.Unlock()
	if s.prepared {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout) // others wait for this
	defer cancel()
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var encoding string
		if err := tx.QueryRow(ctx, `SHOW server_encoding`).Scan(&encoding); err != nil {
			return err
		}
		if encoding != "UTF8" {
			return fmt.Errorf("encoding is %s, which cannot hold every text; create a database with ENCODING 'UTF8'",
				encoding)
		}
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(postgresLock)); err != nil {
			return err
		}
		version, err := postgresVersion(ctx, tx)
		if err != nil || version == len(postgresMigrations) {
			return err
		}
		for ; version < len(postgresMigrations); version++ {
			if _, err := tx.Exec(ctx, postgresMigrations[version]); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `INSERT INTO unseen_migrations (version) VALUES ($1)`, version+1); err != nil {
				return err
			}
		}
		return nil
	})
	s.prepared = err == nil
	return err
}

// postgresVersion reads how many migrations the database has seen. In a new database it creates their table.
func postgresVersion(ctx context.Context, tx pgx.Tx) (version int, err error) {
	var known, events bool
	if err := tx.QueryRow(ctx, `SELECT to_regclass('unseen_migrations') IS NOT NULL,
		to_regclass('unseen_events') IS NOT NULL`).Scan(&known, &events); err != nil {
		return 0, err
	}
	switch {
	case !known && events:
		return 0, fmt.Errorf("table unseen_events is %w: there is no table unseen_migrations; choose "+
			"another database or schema", ErrForeign)
	case !known:
		_, err := tx.Exec(ctx, `CREATE TABLE unseen_migrations (
			version integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())`)
		return 0, err
	}
	if err := tx.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM unseen_migrations`).Scan(&version); err != nil {
		return 0, err
	}
	if version > len(postgresMigrations) {
		return 0, fmt.Errorf("%w: its version is %d, this program reads %d; upgrade, or restore a dump of that version",
			ErrNewer, version, len(postgresMigrations))
	}
	return version, nil
}

// commit makes a group durable: in the database, or in the spool while that is down.
func (s *postgresStore) commit(group []*request) error {
	var events []LogEvent
	for _, r := range group {
		events = append(events, r.events...)
	}
	if s.spool != nil && s.spool.pending() > 0 && s.answers.Load() {
		// The spool is faster than the database, so clients help to empty it: for each new event two are
		// replayed, or the spool would never be empty. If the database goes down again, the replayer waits
		// for it.
		s.replayBatch(context.Background(), max(2*len(events), 1000))
	}
	if s.spool == nil || s.spool.pending() == 0 {
		stored, err := s.store(context.Background(), events)
		if err == nil {
			at := 0
			for _, r := range group {
				r.result = Result{}
				for range r.events {
					if stored[at] {
						r.result.Stored++
					} else {
						r.result.Duplicate++
					}
					at++
				}
			}
			return nil
		}
		switch {
		case faultOfData(err): // a retry would fail too
			return fmt.Errorf("writing to the event database: %w", err)
		case s.spool == nil:
			return fmt.Errorf("%w: %v", ErrUnavailable, err)
		}
		s.answers.Store(false)
		s.log.Warn("event database is down; events go to the spool", "spool", s.spool.path, "error", err)
	}
	if err := s.spool.append(events); err != nil {
		return err
	}
	for _, r := range group {
		r.result = Result{Spooled: len(r.events)}
	}
	s.signalReplay()
	return nil
}

// store writes events as one transaction and reports for each whether it is new. A transaction whose answer
// was lost may still have been committed; storing the same events again is harmless.
func (s *postgresStore) store(ctx context.Context, events []LogEvent) (stored []bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	n := len(events)
	ids, kinds, sources, targets := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	models, lists, positions := make([]string, n), make([]string, n), make([]int32, n)
	probabilities, times := make([]float64, n), make([]time.Time, n)
	surfaces, placed, candidates := make([]string, n), make([]float64, n), make([]string, n)
	place := make(map[string]int, n) // of the first event with the id
	for i, e := range events {
		ids[i], kinds[i], sources[i], targets[i], probabilities[i] = e.ID, string(e.Kind), e.Source, e.Target,
			e.Probability
		models[i], lists[i], positions[i], times[i] = e.Model, e.List, int32(e.Position), e.At
		surfaces[i], placed[i], candidates[i] = e.Surface, e.Placed, e.Candidates
		if _, found := place[e.ID]; !found {
			place[e.ID] = i
		}
	}
	stored = make([]bool, n)
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite},
		func(tx pgx.Tx) error {
			batch := &pgx.Batch{}
			// These events are durable even where the server trades durability for speed.
			batch.Queue(`SELECT set_config('synchronous_commit', 'on', true)
				WHERE current_setting('synchronous_commit') = 'off'`)
			batch.Queue(`SELECT pg_advisory_xact_lock($1)`, int64(postgresLock))
			batch.Queue(postgresInsert, ids, kinds, sources, targets, probabilities, models, lists, positions,
				times, surfaces, placed, candidates).Query(func(rows pgx.Rows) error {
				var id string
				_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
					stored[place[id]] = true
					return nil
				})
				return err
			})
			return tx.SendBatch(ctx, batch).Close()
		})
	return stored, err
}

// replay moves events from the spool to the database, in order, whenever there are any.
func (s *postgresStore) replay(ctx context.Context) {
	const least, most = 50 * time.Millisecond, 2 * time.Second
	pause := least
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		for s.spool.pending() > 0 {
			if err := s.replayBatch(ctx, replayEvents); err != nil {
				if ctx.Err() != nil {
					return
				}
				s.log.Debug("event database is still down", "waiting", s.spool.pending(), "error", err)
				select {
				case <-ctx.Done():
					return
				case <-time.After(pause):
				}
				pause = min(2*pause, most)
				continue
			}
			pause = least
			if s.spool.pending() == 0 {
				s.log.Info("event database is back; the spool is replayed")
			}
		}
	}
}

// replayEvents is about how many events the replayer moves in one transaction.
const replayEvents = 5000

// replayBatch moves the first events of the spool to the database, about limit of them.
func (s *postgresStore) replayBatch(ctx context.Context, limit int) (err error) {
	s.replaying.Lock()
	defer s.replaying.Unlock()
	defer func() { s.answers.Store(err == nil) }()
	events, end, err := s.spool.next(limit)
	if err != nil || len(events) == 0 {
		return err
	}
	if _, err := s.store(ctx, events); err != nil {
		return err
	}
	return s.spool.drop(len(events), end)
}

func (s *postgresStore) signalReplay() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Spooled returns the number of acknowledged events that are not in the database yet.
func (s *postgresStore) Spooled() int64 {
	if s.spool == nil {
		return 0
	}
	return s.spool.pending()
}

// All compacted events come before the others. One statement sees one state of both.
const postgresEvents = `
SELECT c.seq, '' AS id, c.kind, s.name AS source, t.name AS target, c.probability, m.name AS model, l.name AS list,
		c.position, c.at, coalesce(u.name, '') AS surface, c.placed, coalesce(a.name, '') AS candidates
	FROM (SELECT * FROM unseen_compacted WHERE seq > $1 ORDER BY seq LIMIT $2) c
		JOIN unseen_names s ON s.number = c.source JOIN unseen_names t ON t.number = c.target
		JOIN unseen_names m ON m.number = c.model JOIN unseen_names l ON l.number = c.list
		LEFT JOIN unseen_names u ON u.number = c.surface LEFT JOIN unseen_names a ON a.number = c.candidates
UNION ALL
(SELECT seq, id, kind, source, target, probability, model, list, position, at, surface, placed, candidates
	FROM unseen_events WHERE seq > $1 AND id <> '' ORDER BY seq LIMIT $2)
ORDER BY seq LIMIT $2`

func (s *postgresStore) Events(ctx context.Context, after int64, limit int) ([]LogEvent, error) {
	if limit <= 0 || limit > MaxPage {
		limit = MaxPage
	}
	var found page
	var e LogEvent
	var at *time.Time
	err := s.query(ctx, func() error {
		found = page{}
		rows, err := s.pool.Query(ctx, postgresEvents, after, limit)
		if err != nil {
			return err
		}
		_, err = pgx.ForEachRow(rows, []any{&e.Seq, &e.ID, &e.Kind, &e.Source, &e.Target, &e.Probability, &e.Model,
			&e.List, &e.Position, &at, &e.Surface, &e.Placed, &e.Candidates}, func() error {
			e.At = time.Time{}
			if at != nil {
				e.At = at.UTC()
			}
			found.add(e)
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return found.events, nil
}

func (s *postgresStore) Totals(ctx context.Context) (EventTotals, error) {
	totals := EventTotals{Kinds: map[Kind]int64{}}
	var kind Kind
	var events int64
	var first, last time.Time
	err := s.query(ctx, func() error {
		rows, err := s.pool.Query(ctx, `SELECT kind, events, first, last, (SELECT max(seq) FROM unseen_events)
			FROM unseen_totals`)
		if err != nil {
			return err
		}
		_, err = pgx.ForEachRow(rows, []any{&kind, &events, &first, &last, &totals.Seq}, func() error {
			totals.add(kind, events, first.UTC(), last.UTC())
			return nil
		})
		return err
	})
	if err != nil {
		return EventTotals{}, err
	}
	return totals, nil
}

func (s *postgresStore) Ping(ctx context.Context) error {
	return s.query(ctx, func() error { return s.pool.Ping(ctx) })
}

// query runs a read after the tables are prepared.
func (s *postgresStore) query(ctx context.Context, read func() error) error {
	if s.isClosed() {
		return ErrClosed
	}
	err := s.prepare(ctx)
	if err == nil {
		err = read()
	}
	switch {
	case err == nil:
		return nil
	case s.isClosed():
		return ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	case unreachable(err):
		return fmt.Errorf("%w: %v", ErrUnavailable, err)
	}
	return fmt.Errorf("reading the event database: %w", err)
}

// Close leaves in the spool what is not in the database yet; the next Open continues with it.
func (s *postgresStore) Close() error {
	if !s.queue.close() {
		return nil
	}
	s.stop()
	s.replayed.Wait()
	s.pool.Close()
	if s.spool == nil {
		return nil
	}
	return s.spool.close()
}

// unreachable reports whether the database could not be reached, rather than that it rejected something.
func unreachable(err error) bool {
	if errors.Is(err, ErrForeign) || errors.Is(err, ErrNewer) {
		return false
	}
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		var network *pgconn.ConnectError
		return errors.As(err, &network) || pgconn.Timeout(err) || pgconn.SafeToRetry(err) || isNetwork(err)
	}
	switch answer.Code[:min(2, len(answer.Code))] {
	case "08", "53", "57", "58": // connection lost, no resources, shut down or starting, system error
		return true
	}
	return answer.Code == "25006" // read-only: a standby
}

// isNetwork reports whether a connection broke.
func isNetwork(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed)
}

// faultOfData reports whether the database rejects the events themselves, now and always. Everything else may
// pass: a password that is being changed, a missing permission, a full disk.
func faultOfData(err error) bool {
	var answer *pgconn.PgError
	return errors.As(err, &answer) && (strings.HasPrefix(answer.Code, "22") || strings.HasPrefix(answer.Code, "23"))
}
