package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// sqliteCompaction moves events up to ?1 into the smaller table.
var sqliteCompaction = []string{
	`INSERT OR IGNORE INTO names (name) SELECT source FROM events WHERE seq <= ?1 AND id <> ''`,
	`INSERT OR IGNORE INTO names (name) SELECT target FROM events WHERE seq <= ?1 AND id <> ''`,
	`INSERT OR IGNORE INTO names (name) SELECT model FROM events WHERE seq <= ?1 AND id <> ''`,
	`INSERT OR IGNORE INTO names (name) SELECT list FROM events WHERE seq <= ?1 AND id <> ''`,
	`INSERT OR IGNORE INTO names (name) SELECT surface FROM events WHERE seq <= ?1 AND id <> ''`,
	`INSERT OR IGNORE INTO names (name) SELECT candidates FROM events WHERE seq <= ?1 AND id <> ''`,
	`INSERT INTO compacted (seq, kind, source, target, probability, model, list, position, at, surface, placed,
			candidates)
		SELECT seq, kind, s.number, t.number, probability, m.number, l.number, position,
			at, u.number, placed, a.number
		FROM events CROSS JOIN names s ON s.name = source CROSS JOIN names t ON t.name = target
			CROSS JOIN names m ON m.name = model CROSS JOIN names l ON l.name = list
			CROSS JOIN names u ON u.name = surface CROSS JOIN names a ON a.name = candidates
		WHERE seq <= ?1 AND id <> ''`,
	`DELETE FROM events WHERE seq <= ?1`,
	`DELETE FROM arrivals WHERE seq <= ?1`,
}

// Compact takes its turn among the writers, for one transaction of a limited size.
func (s *sqliteStore) Compact(ctx context.Context, r Retention) (done Compaction, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		age, err := sqliteAge(ctx, tx, r)
		if err != nil {
			return err
		}
		done.Age = age
		var old, to, last int64
		if err := tx.QueryRowContext(ctx, `WITH old AS (SELECT seq FROM events WHERE id <> '' AND seq <=
				(SELECT max(seq) FROM arrivals WHERE age <= ?) ORDER BY seq LIMIT ?)
			SELECT count(*), coalesce(max(seq), 0), (SELECT coalesce(max(seq), 0) FROM events) FROM old`,
			(age-r.Keep).Microseconds(), r.limit()).Scan(&old, &to, &last); err != nil || old == 0 {
			return err
		}
		done.Events, done.More = int(old), int(old) == r.limit()
		for _, text := range sqliteCompaction {
			if _, err := tx.ExecContext(ctx, text, to); err != nil {
				return err
			}
		}
		return sqliteKeepLast(ctx, tx, last)
	})
	if err != nil {
		return Compaction{}, err
	}
	return done, nil
}

// sqliteAge moves the clock of the log, and marks how many events there are at this age.
func sqliteAge(ctx context.Context, tx *sql.Tx, r Retention) (time.Duration, error) {
	var clock logClock
	var wall, age int64
	switch err := tx.QueryRowContext(ctx, `SELECT wall, age FROM clock`).Scan(&wall, &age); {
	case err == nil:
		clock = logClock{time.UnixMicro(wall), time.Duration(age) * time.Microsecond}
	case !errors.Is(err, sql.ErrNoRows):
		return 0, err
	}
	clock = clock.step(r.Now)
	if _, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO clock VALUES (1, ?, ?)`, clock.wall.UnixMicro(),
		clock.age.Microseconds()); err != nil {
		return 0, err
	}
	var last, marked int64 // each found by its index: a condition beside max would read all events
	if err := tx.QueryRowContext(ctx, `SELECT (SELECT coalesce(max(seq), 0) FROM events),
		(SELECT coalesce(max(age), -1) FROM arrivals)`).Scan(&last, &marked); err != nil {
		return 0, err
	}
	if last == 0 || !r.marks(marked, clock.age) {
		return clock.age, nil
	}
	_, err := tx.ExecContext(ctx, `INSERT OR IGNORE INTO arrivals VALUES (?, ?)`, last, clock.age.Microseconds())
	return clock.age, err
}

// sqliteKeepLast keeps the place of the last event, after which SQLite counts on.
func sqliteKeepLast(ctx context.Context, tx *sql.Tx, last int64) error {
	_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO events
			(seq, id, kind, source, target, probability, model, list, position, at)
		SELECT ?1, '', '', '', '', 0, '', '', 0, 0 WHERE (SELECT coalesce(max(seq), 0) FROM events) < ?1`, last)
	return err
}

// write runs a transaction of the writer.
func (s *sqliteStore) write(ctx context.Context, do func(*sql.Tx) error) error {
	if s.isClosed() {
		return ErrClosed
	}
	err := func() error {
		tx, err := s.writer.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := do(tx); err != nil {
			return err
		}
		return tx.Commit()
	}()
	switch {
	case err == nil:
		return nil
	case s.isClosed():
		return ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return s.explain("writing to", err)
}

// Erase deletes events in transactions of a limited size. SQLite leaves what it deleted in its pages, and copies of
// rows where pages were split, so the whole file is written anew at the end.
func (s *sqliteStore) Erase(ctx context.Context, names func(string) bool) (erased int64, err error) {
	defer s.recent.clear()
	var after int64
	for {
		seqs, next, err := s.seqsOf(ctx, after, names)
		if err != nil {
			return erased, err
		}
		if next == after {
			break
		}
		after = next
		if len(seqs) == 0 {
			continue
		}
		if err := s.write(ctx, func(tx *sql.Tx) error { return sqliteDelete(ctx, tx, seqs) }); err != nil {
			return erased, err
		}
		erased += int64(len(seqs))
	}
	compacted, err := s.eraseCompacted(ctx, names)
	if err != nil {
		return erased, err
	}
	for version := 1; version < sqliteVersion; version++ { // copies of older versions have all events
		for _, path := range []string{s.copyPath(version), s.copyPath(version) + ".tmp"} {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return erased, err
			}
		}
	}
	return erased + compacted, s.rewrite(ctx)
}

// seqsOf returns which of the next events are about a node, and the last that was looked at.
func (s *sqliteStore) seqsOf(ctx context.Context, after int64, names func(string) bool) (seqs []any, next int64,
	err error) {
	next = after
	rows, err := s.readers.QueryContext(ctx, `SELECT seq, source, target FROM events WHERE seq > ? AND id <> ''
		ORDER BY seq LIMIT ?`, after, MaxPage)
	if err != nil {
		return nil, 0, s.unread(ctx, err)
	}
	defer rows.Close()
	var source, target string
	for rows.Next() {
		if err := rows.Scan(&next, &source, &target); err != nil {
			return nil, 0, s.unread(ctx, err)
		}
		if names(source) || names(target) {
			seqs = append(seqs, next)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, 0, s.unread(ctx, err)
	}
	return seqs, next, nil
}

// sqliteDelete deletes events by their numbers, and counts them out.
func sqliteDelete(ctx context.Context, tx *sql.Tx, seqs []any) error {
	var last int64
	if err := tx.QueryRowContext(ctx, `SELECT coalesce(max(seq), 0) FROM events`).Scan(&last); err != nil {
		return err
	}
	for _, seq := range seqs {
		if _, err := tx.ExecContext(ctx, `UPDATE totals SET events = events - 1
			WHERE kind = (SELECT kind FROM events WHERE seq = ?)`, seq); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM events WHERE seq = ?`, seq); err != nil {
			return err
		}
	}
	return sqliteKeepLast(ctx, tx, last)
}

// eraseCompacted deletes the compacted events of nodes, and the names that nothing has any more.
func (s *sqliteStore) eraseCompacted(ctx context.Context, names func(string) bool) (erased int64, err error) {
	numbers, err := s.numbersOf(ctx, names)
	if err != nil || len(numbers) == 0 {
		return 0, err
	}
	err = s.write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `CREATE TEMP TABLE gone (number INTEGER PRIMARY KEY)`); err != nil {
			return err
		}
		for _, number := range numbers {
			if _, err := tx.ExecContext(ctx, `INSERT INTO gone VALUES (?)`, number); err != nil {
				return err
			}
		}
		const of = ` source IN (SELECT number FROM gone) OR target IN (SELECT number FROM gone)`
		if _, err := tx.ExecContext(ctx, `UPDATE totals SET events = events - (SELECT count(*) FROM compacted c
			WHERE c.kind = totals.kind AND (`+of+`))`); err != nil {
			return err
		}
		done, err := tx.ExecContext(ctx, `DELETE FROM compacted WHERE`+of)
		if err != nil {
			return err
		}
		if erased, err = done.RowsAffected(); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM names WHERE number NOT IN (SELECT source FROM compacted
			UNION SELECT target FROM compacted UNION SELECT model FROM compacted UNION SELECT list FROM compacted
			UNION SELECT surface FROM compacted UNION SELECT candidates FROM compacted);
			DROP TABLE gone`)
		return err
	})
	return erased, err
}

func (s *sqliteStore) numbersOf(ctx context.Context, names func(string) bool) (numbers []int64, err error) {
	rows, err := s.readers.QueryContext(ctx, `SELECT number, name FROM names`)
	if err != nil {
		return nil, s.unread(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		var number int64
		var name string
		if err := rows.Scan(&number, &name); err != nil {
			return nil, s.unread(ctx, err)
		}
		if names(name) {
			numbers = append(numbers, number)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, s.unread(ctx, err)
	}
	return numbers, nil
}

// rewrite writes the file anew without what was deleted, and empties the write-ahead log.
func (s *sqliteStore) rewrite(ctx context.Context) error {
	if s.isClosed() {
		return ErrClosed
	}
	if _, err := s.writer.ExecContext(ctx, `VACUUM`); err != nil {
		return s.explain("rewriting", err)
	}
	for {
		var busy, pages, moved int64
		if err := s.writer.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &pages,
			&moved); err != nil {
			return s.explain("rewriting", err)
		}
		if busy == 0 {
			return nil
		}
		select { // a long read still needs the write-ahead log
		case <-ctx.Done():
			return fmt.Errorf("emptying the write-ahead log of %s: %w", s.path, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
