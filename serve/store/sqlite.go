package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"unseen/internal/atomicfile"
)

// sqliteApplication marks a file as an event log in SQLite's header; it reads "unsn".
const sqliteApplication = 0x756e736e

// sqliteMigrations bring a file from one version to the next; the first creates it. A released migration is never
// changed: a later one is appended.
//
// SQLite assigns the highest seq plus one, and an ignored row takes no number, so seq has no gaps. Where the events
// with the highest numbers were compacted or erased, a row without an id keeps the place of the last. The totals are
// updated in the transaction that inserts the events.
var sqliteMigrations = []string{`
CREATE TABLE events (
	seq         INTEGER PRIMARY KEY,
	id          TEXT NOT NULL UNIQUE,
	kind        TEXT NOT NULL,
	source      TEXT NOT NULL,
	target      TEXT NOT NULL,
	probability REAL NOT NULL,
	model       TEXT NOT NULL,
	list        TEXT NOT NULL,
	position    INTEGER NOT NULL,
	at          INTEGER NOT NULL -- microseconds since 1970, UTC
) STRICT;
CREATE TABLE totals (
	kind   TEXT PRIMARY KEY,
	events INTEGER NOT NULL,
	first  INTEGER NOT NULL,
	last   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`, `
CREATE TABLE names (
	number INTEGER PRIMARY KEY,
	name   TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE compacted ( -- texts are numbers of names
	seq         INTEGER PRIMARY KEY,
	kind        TEXT NOT NULL,
	source      INTEGER NOT NULL,
	target      INTEGER NOT NULL,
	probability REAL NOT NULL,
	model       INTEGER NOT NULL,
	list        INTEGER NOT NULL,
	position    INTEGER NOT NULL,
	at          INTEGER NOT NULL -- 0 where something was shown and an earlier version has compacted it
) STRICT;
CREATE TABLE clock (
	one  INTEGER PRIMARY KEY CHECK (one = 1),
	wall INTEGER NOT NULL, -- microseconds since 1970
	age  INTEGER NOT NULL  -- of the log, in microseconds
) STRICT;
CREATE TABLE arrivals ( -- events up to seq had been stored at an age
	seq INTEGER PRIMARY KEY,
	age INTEGER NOT NULL
) STRICT;
`, `
ALTER TABLE events ADD COLUMN surface TEXT NOT NULL DEFAULT '';
ALTER TABLE events ADD COLUMN placed REAL NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN candidates TEXT NOT NULL DEFAULT '';
-- 0, which is the number of no name, where the event was compacted before there was this column
ALTER TABLE compacted ADD COLUMN surface INTEGER NOT NULL DEFAULT 0;
ALTER TABLE compacted ADD COLUMN placed REAL NOT NULL DEFAULT 0;
ALTER TABLE compacted ADD COLUMN candidates INTEGER NOT NULL DEFAULT 0;
`}

// sqliteVersion is the version of the files that this program writes.
var sqliteVersion = len(sqliteMigrations)

const sqliteAddTotals = `
INSERT INTO totals VALUES (?, ?, ?, ?)
ON CONFLICT (kind) DO UPDATE SET events = events + excluded.events,
	first = min(first, excluded.first), last = max(last, excluded.last)`

// sqliteStore is a log in one file. Readers have connections of their own and see what is committed.
type sqliteStore struct {
	*queue
	recent
	path    string
	log     *slog.Logger
	writer  *sql.DB // one connection
	readers *sql.DB
	insert  [len(sqliteRows)]*sql.Stmt
	totals  *sql.Stmt
}

// sqliteRows are the numbers of rows of the prepared inserts: many rows in one statement cost less each. Lists have
// ten items.
var sqliteRows = [...]int{160, 40, 10, 1}

var (
	_ Store        = (*sqliteStore)(nil)
	_ RecentReader = (*sqliteStore)(nil)
)

func openSQLite(ctx context.Context, path string, options Options) (_ Store, err error) {
	if path == "" {
		return nil, errors.New("event log has no path; give one, such as events.db")
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	if err := makePrivate(path); err != nil {
		return nil, fmt.Errorf("opening the event log %s: %w", path, atomicfile.WithoutPath(err))
	}
	s := &sqliteStore{path: path, log: options.Log}
	// A file that another process is creating is busy for a moment, and SQLite does not wait for its first steps.
	for began := time.Now(); ; {
		err := s.connect(ctx)
		if err == nil {
			break
		}
		s.disconnect()
		err = s.explain("opening", err)
		if !errors.Is(err, ErrBusy) || time.Since(began) > 10*time.Second {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	s.queue = newQueue(options, s.commit)
	return s, nil
}

// makePrivate makes an empty file that only its owner may read, unless there is one. SQLite gives its companions the
// same permissions. A file that exists is not opened: closing it again would drop the locks of this process on it.
func makePrivate(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil // there is one, or SQLite will say why there cannot be
	}
	return file.Close()
}

// connect opens the file, checks that it is an event log before it changes a byte, and prepares the statements.
func (s *sqliteStore) connect(ctx context.Context) (err error) {
	// FULL syncs the write-ahead log at every commit, and fullfsync does so on macOS too. Ids are random, so every
	// event touches a page of its own in their index: 64 MB of pages stay in memory, and up to 32 MB wait in the
	// write-ahead log, which saves a large log many small writes.
	if s.writer, err = sql.Open("sqlite", sqliteURL(s.path, "synchronous(FULL)", "fullfsync(1)",
		"checkpoint_fullfsync(1)",
		"cache_size(-65536)", "wal_autocheckpoint(8000)")); err != nil {
		return err
	}
	s.writer.SetMaxOpenConns(1)
	if err := s.prepareFile(ctx); err != nil {
		return err
	}
	if s.readers, err = sql.Open("sqlite", sqliteURL(s.path, "query_only(1)")); err != nil {
		return err
	}
	s.readers.SetMaxOpenConns(8)
	s.readers.SetMaxIdleConns(8)
	for i, rows := range sqliteRows {
		text := `INSERT OR IGNORE INTO events (id, kind, source, target, probability, model, list, position, at,
			surface, placed, candidates) VALUES ` + strings.Repeat("(?,?,?,?,?,?,?,?,?,?,?,?),", rows)
		if s.insert[i], err = s.writer.PrepareContext(ctx, strings.TrimSuffix(text, ",")); err != nil {
			return err
		}
	}
	s.totals, err = s.writer.PrepareContext(ctx, sqliteAddTotals)
	return err
}

// sqliteURL escapes the path so that no character of it is read as a setting.
func sqliteURL(path string, pragmas ...string) string {
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // a Windows drive
	}
	settings := url.Values{"_pragma": append([]string{"busy_timeout(10000)"}, pragmas...), "_txlock": {"immediate"}}
	return (&url.URL{Scheme: "file", Path: slashed, RawQuery: settings.Encode()}).String()
}

// prepareFile creates the tables in a new file, and migrates an older one after making a copy of it. A foreign file,
// or one of a later version, stays unchanged.
func (s *sqliteStore) prepareFile(ctx context.Context) error {
	version, err := s.version(ctx, s.writer)
	if err != nil {
		return err
	}
	// Only in an event log or an empty file: the mode is written into the file.
	if _, err := s.writer.ExecContext(ctx, `PRAGMA journal_mode = WAL`); err != nil {
		return err
	}
	if version == sqliteVersion {
		return nil
	}
	if version > 0 {
		if err := s.keepCopy(ctx, version); err != nil {
			return fmt.Errorf("copying version %d before its migration to %d: %w", version, sqliteVersion, err)
		}
	}
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	version, err = s.version(ctx, tx) // another process may have been first
	if err != nil || version == sqliteVersion {
		return err
	}
	for _, migration := range sqliteMigrations[version:] {
		if _, err := tx.ExecContext(ctx, migration); err != nil {
			return err
		}
	}
	marks := fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = %d;`, sqliteApplication, sqliteVersion)
	if _, err := tx.ExecContext(ctx, marks); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if version > 0 {
		s.log.Info("event log migrated", "file", s.path, "from", version, "to", sqliteVersion,
			"copy", s.copyPath(version))
	}
	return nil
}

// copyPath is where a copy of the file stays as it was in a version.
func (s *sqliteStore) copyPath(version int) string { return fmt.Sprintf("%s.v%d", s.path, version) }

// keepCopy copies the file as it is in an older version, whole or not at all.
func (s *sqliteStore) keepCopy(ctx context.Context, version int) error {
	part := s.copyPath(version) + ".tmp"
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := makePrivate(part); err != nil {
		return err
	}
	_, err := s.writer.ExecContext(ctx, `VACUUM INTO ?`, part)
	if err == nil {
		err = syncFile(part)
	}
	if err == nil {
		err = os.Rename(part, s.copyPath(version))
	}
	if err != nil {
		os.Remove(part)
		return err
	}
	return syncFolder(filepath.Dir(s.path))
}

func syncFile(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// version returns the version of an event log; that of an empty file is 0.
func (s *sqliteStore) version(ctx context.Context, db interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) (int, error) {
	var application, version, tables int64
	// One statement sees one state of the file, even while another process creates the tables.
	row := db.QueryRowContext(ctx, `SELECT (SELECT application_id FROM pragma_application_id),
		(SELECT user_version FROM pragma_user_version), count(*) FROM sqlite_schema`)
	err := row.Scan(&application, &version, &tables)
	if err != nil {
		return 0, err
	}
	switch {
	case application == sqliteApplication && version > int64(sqliteVersion):
		return 0, fmt.Errorf("%w: its version is %d, this program reads %d; upgrade, or go back to a copy such as %s",
			ErrNewer, version, sqliteVersion, filepath.Base(s.copyPath(sqliteVersion)))
	case application == sqliteApplication && version > 0:
		return int(version), nil
	case application == 0 && version == 0 && tables == 0:
		return 0, nil
	}
	return 0, fmt.Errorf("%w, but another SQLite database; choose another path", ErrForeign)
}

// commit writes a group as one transaction, which is on disk when it returns nil.
func (s *sqliteStore) commit(group []*request) (err error) {
	ctx := context.Background() // no caller may cancel a transaction that others share
	defer func() {
		if err != nil {
			err = s.explain("writing to", err)
		}
	}()
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var events []LogEvent // of all, so that few statements store them
	for _, r := range group {
		events = append(events, r.events...)
	}
	stored, last, err := s.insertAll(ctx, tx, events)
	if err != nil {
		return err
	}
	all := stored == len(events)
	var fresh map[string]bool
	if !all {
		if fresh, err = sqliteLatest(ctx, tx, stored); err != nil {
			return err
		}
	}
	totals := map[Kind]*kindTotals{}
	for _, r := range group {
		stored := 0
		for k := range r.events {
			e := &r.events[k]
			if all || fresh[e.ID] {
				delete(fresh, e.ID) // a second one is a duplicate
				stored++
				countKind(totals, e)
			}
		}
		r.result = Result{Stored: stored, Duplicate: len(r.events) - stored}
	}
	add := tx.StmtContext(ctx, s.totals)
	for _, kind := range Kinds {
		if t := totals[kind]; t != nil {
			if _, err := add.ExecContext(ctx, string(kind), t.events, t.first, t.last); err != nil {
				return err
			}
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if all { // otherwise who follows the log reads it
		s.recent.add(events, last)
	}
	return nil
}

// insertAll inserts events, leaves out those whose id is there, and returns how many are new and the last Seq of them.
func (s *sqliteStore) insertAll(ctx context.Context, tx *sql.Tx, events []LogEvent) (stored int, last int64,
	err error) {
	values := make([]any, 0, 12*min(len(events), sqliteRows[0]))
	for size, rows := range sqliteRows {
		if len(events) < rows {
			continue
		}
		insert := tx.StmtContext(ctx, s.insert[size])
		for len(events) >= rows {
			values = values[:0]
			for k := range events[:rows] {
				e := &events[k]
				values = append(values, e.ID, string(e.Kind), e.Source, e.Target, e.Probability, e.Model, e.List,
					int64(e.Position), e.At.UnixMicro(), e.Surface, e.Placed, e.Candidates)
			}
			events = events[rows:]
			done, err := insert.ExecContext(ctx, values...)
			if err != nil {
				return 0, 0, err
			}
			added, err := done.RowsAffected()
			if err != nil {
				return 0, 0, err
			}
			stored += int(added)
			if last, err = done.LastInsertId(); err != nil {
				return 0, 0, err
			}
		}
	}
	return stored, last, nil
}

// sqliteLatest returns the ids of the latest events.
func sqliteLatest(ctx context.Context, tx *sql.Tx, count int) (map[string]bool, error) {
	rows, err := tx.QueryContext(ctx, `SELECT id FROM events ORDER BY seq DESC LIMIT ?`, count)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	ids := make(map[string]bool, count)
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids[id] = true
	}
	return ids, rows.Err()
}

// kindTotals counts events of a kind, between two times in microseconds.
type kindTotals struct{ events, first, last int64 }

// countKind counts an event.
func countKind(totals map[Kind]*kindTotals, e *LogEvent) {
	t, at := totals[e.Kind], e.At.UnixMicro()
	if t == nil {
		t = &kindTotals{first: at, last: at}
		totals[e.Kind] = t
	}
	t.events, t.first, t.last = t.events+1, min(t.first, at), max(t.last, at)
}

const (
	sqliteWhole = `SELECT seq, id, kind, source, target, probability, model, list, position, at, surface, placed,
			candidates FROM events
		WHERE seq > ? AND id <> '' ORDER BY seq LIMIT ?`
	sqliteReduced = `SELECT seq, '', kind, s.name, t.name, probability, m.name, l.name, position, at,
			coalesce(u.name, ''), placed, coalesce(a.name, '') FROM compacted c
			CROSS JOIN names s ON s.number = c.source CROSS JOIN names t ON t.number = c.target
			CROSS JOIN names m ON m.number = c.model CROSS JOIN names l ON l.number = c.list
			LEFT JOIN names u ON u.number = c.surface LEFT JOIN names a ON a.number = c.candidates
		WHERE seq > ? ORDER BY seq LIMIT ?`
)

// Events reads the compacted events, which come before all others, and then the others. If events were compacted while
// it read, it looks again: they were not among what it has read.
func (s *sqliteStore) Events(ctx context.Context, after int64, limit int) ([]LogEvent, error) {
	if limit <= 0 || limit > MaxPage {
		limit = MaxPage
	}
	reduced := func() (bool, error) {
		var last int64
		err := s.readers.QueryRowContext(ctx, `SELECT coalesce(max(seq), 0) FROM compacted`).Scan(&last)
		return last > max(after, 0), err
	}
	for range 100 {
		first, err := reduced()
		if err != nil {
			return nil, s.unread(ctx, err)
		}
		text := sqliteWhole
		if first {
			text = sqliteReduced
		}
		found, err := s.page(ctx, text, after, limit)
		if err != nil {
			return nil, err
		}
		if first && len(found) > 0 {
			return found, nil
		}
		again, err := reduced()
		if err != nil {
			return nil, s.unread(ctx, err)
		}
		if !first && !again {
			return found, nil
		}
	}
	return nil, fmt.Errorf("reading the event log %s: %w: compacted events have no names; restore it from a copy",
		s.path, ErrDamaged)
}

// page reads events with a statement.
func (s *sqliteStore) page(ctx context.Context, text string, after int64, limit int) ([]LogEvent, error) {
	rows, err := s.readers.QueryContext(ctx, text, after, limit)
	if err != nil {
		return nil, s.unread(ctx, err)
	}
	defer rows.Close()
	var found page
	var e LogEvent
	var kind string // plain types: database/sql copies them without reflection
	var position, at int64
	into := []any{&e.Seq, &e.ID, &kind, &e.Source, &e.Target, &e.Probability, &e.Model, &e.List, &position, &at,
		&e.Surface, &e.Placed, &e.Candidates}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, s.unread(ctx, err)
		}
		e.Kind, e.Position, e.At = Kind(kind), int(position), time.Time{}
		if at != 0 || e.ID != "" {
			e.At = time.UnixMicro(at).UTC()
		}
		if !found.add(e) {
			break
		}
	}
	if err := rows.Err(); err != nil {
		return nil, s.unread(ctx, err)
	}
	return found.events, nil
}

func (s *sqliteStore) Totals(ctx context.Context) (EventTotals, error) {
	rows, err := s.readers.QueryContext(ctx,
		`SELECT kind, events, first, last, (SELECT max(seq) FROM events) FROM totals`)
	if err != nil {
		return EventTotals{}, s.unread(ctx, err)
	}
	defer rows.Close()
	totals := EventTotals{Kinds: map[Kind]int64{}}
	for rows.Next() {
		var kind Kind
		var events, first, last int64
		if err := rows.Scan(&kind, &events, &first, &last, &totals.Seq); err != nil {
			return EventTotals{}, s.unread(ctx, err)
		}
		totals.add(kind, events, time.UnixMicro(first).UTC(), time.UnixMicro(last).UTC())
	}
	if err := rows.Err(); err != nil {
		return EventTotals{}, s.unread(ctx, err)
	}
	return totals, nil
}

func (s *sqliteStore) Ping(ctx context.Context) error {
	var one int
	if err := s.readers.QueryRowContext(ctx,
		`SELECT count(*) FROM (SELECT 1 FROM events LIMIT 1)`).Scan(&one); err != nil {
		return s.unread(ctx, err)
	}
	return nil
}

func (s *sqliteStore) Close() error {
	if !s.queue.close() {
		return nil
	}
	return s.disconnect()
}

// disconnect closes the readers first: the last connection to close merges the write-ahead log into the file.
func (s *sqliteStore) disconnect() error {
	var failed error
	for _, db := range []*sql.DB{s.readers, s.writer} {
		if db != nil {
			failed = errors.Join(failed, db.Close())
		}
	}
	return failed
}

// explain adds the file, the cause and what to do to an error.
func (s *sqliteStore) explain(doing string, err error) error {
	var trouble *sqlite.Error
	if !errors.As(err, &trouble) {
		return fmt.Errorf("%s the event log %s: %w", doing, s.path, err)
	}
	because := func(sentinel error, advice string) error {
		return fmt.Errorf("%s the event log %s: %w (%v); %s", doing, s.path, sentinel, err, advice)
	}
	switch trouble.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return because(ErrFull, "free space on its disk; no acknowledged event is lost")
	case sqlite3.SQLITE_NOTADB:
		return because(ErrForeign, "choose another path")
	case sqlite3.SQLITE_CORRUPT:
		return because(ErrDamaged, "restore it from a copy")
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN:
		// SQLite does not say why. Do not open the file itself to find out: closing it again would drop the
		// locks that this process holds on it.
		if cause := atomicfile.Writable(s.path); cause != nil {
			return fmt.Errorf("%s the event log: %w", doing, cause)
		}
		return because(fs.ErrPermission, "allow this user to write the file and its folder")
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fmt.Errorf("%s the event log %s, which another program has locked: %w", doing, s.path,
			&BusyError{Wait: time.Second})
	}
	return because(errors.New("SQLite failed"), "check its disk; no acknowledged event is lost")
}

// unread explains why a read failed.
func (s *sqliteStore) unread(ctx context.Context, err error) error {
	switch {
	case s.isClosed():
		return ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return s.explain("reading", err)
}
