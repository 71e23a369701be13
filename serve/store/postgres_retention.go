package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgresCompaction moves events up to $1 into the smaller table.
var postgresCompaction = []string{
	`INSERT INTO unseen_names (name) SELECT DISTINCT name FROM unseen_events
		CROSS JOIN LATERAL (VALUES (source), (target), (model), (list), (surface), (candidates)) AS named (name)
		WHERE seq <= $1 AND id <> '' ON CONFLICT (name) DO NOTHING`,
	`INSERT INTO unseen_compacted (seq, kind, source, target, probability, model, list, position, at, surface, placed,
			candidates)
		SELECT seq, kind, s.number, t.number, probability, m.number, l.number, position,
			at, u.number, placed, a.number
		FROM unseen_events e JOIN unseen_names s ON s.name = e.source COLLATE "C"
			JOIN unseen_names t ON t.name = e.target COLLATE "C" JOIN unseen_names m ON m.name = e.model COLLATE "C"
			JOIN unseen_names l ON l.name = e.list COLLATE "C" JOIN unseen_names u ON u.name = e.surface COLLATE "C"
			JOIN unseen_names a ON a.name = e.candidates COLLATE "C"
		WHERE seq <= $1 AND id <> ''`,
	`DELETE FROM unseen_events WHERE seq <= $1`,
	`DELETE FROM unseen_arrivals WHERE seq <= $1`,
}

// Compact takes its turn among the writers, for one transaction of a limited size.
func (s *postgresStore) Compact(ctx context.Context, r Retention) (done Compaction, err error) {
	err = s.query(ctx, func() error {
		done = Compaction{}
		return s.inTurn(ctx, func(tx pgx.Tx) error {
			age, err := postgresAge(ctx, tx, r)
			if err != nil {
				return err
			}
			done.Age = age
			var old, to, last int64
			if err := tx.QueryRow(ctx, `WITH old AS (SELECT seq FROM unseen_events WHERE id <> '' AND seq <=
					(SELECT max(seq) FROM unseen_arrivals WHERE age <= $1) ORDER BY seq LIMIT $2)
				SELECT count(*), coalesce(max(seq), 0), (SELECT coalesce(max(seq), 0) FROM unseen_events) FROM old`,
				(age-r.Keep).Microseconds(), r.limit()).Scan(&old, &to, &last); err != nil || old == 0 {
				return err
			}
			done.Events, done.More = int(old), int(old) == r.limit()
			for _, text := range postgresCompaction {
				if _, err := tx.Exec(ctx, text, to); err != nil {
					return err
				}
			}
			return postgresKeepLast(ctx, tx, last)
		})
	})
	if err != nil {
		return Compaction{}, err
	}
	return done, nil
}

// inTurn runs a transaction while no other writer does.
func (s *postgresStore) inTurn(ctx context.Context, do func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite},
		func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(postgresLock)); err != nil {
				return err
			}
			return do(tx)
		})
}

// postgresAge moves the clock of the log, and marks how many events there are at this age.
func postgresAge(ctx context.Context, tx pgx.Tx, r Retention) (time.Duration, error) {
	var clock logClock
	var age int64
	switch err := tx.QueryRow(ctx, `SELECT wall, age FROM unseen_clock`).Scan(&clock.wall, &age); {
	case err == nil:
		clock.age = time.Duration(age) * time.Microsecond
	case !errors.Is(err, pgx.ErrNoRows):
		return 0, err
	}
	clock = clock.step(r.Now)
	if _, err := tx.Exec(ctx, `INSERT INTO unseen_clock VALUES (1, $1, $2)
		ON CONFLICT (one) DO UPDATE SET wall = excluded.wall, age = excluded.age`, clock.wall,
		clock.age.Microseconds()); err != nil {
		return 0, err
	}
	var last, marked int64
	if err := tx.QueryRow(ctx, `SELECT (SELECT coalesce(max(seq), 0) FROM unseen_events),
		(SELECT coalesce(max(age), -1) FROM unseen_arrivals)`).Scan(&last, &marked); err != nil {
		return 0, err
	}
	if last == 0 || !r.marks(marked, clock.age) {
		return clock.age, nil
	}
	_, err := tx.Exec(ctx, `INSERT INTO unseen_arrivals VALUES ($1, $2) ON CONFLICT (seq) DO NOTHING`, last,
		clock.age.Microseconds())
	return clock.age, err
}

// postgresKeepLast keeps the place of the last event, after which writers count on.
func postgresKeepLast(ctx context.Context, tx pgx.Tx, last int64) error {
	var highest int64
	err := tx.QueryRow(ctx, `SELECT coalesce(max(seq), 0) FROM unseen_events`).Scan(&highest)
	if err != nil || highest == last {
		return err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM unseen_events WHERE id = ''`); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO unseen_events VALUES ($1, '', '', '', '', 0, '', '', 0, to_timestamp(0))`, last)
	return err
}

// Erase deletes events in transactions of a limited size. PostgreSQL leaves what it deleted in its files, so the tables
// are written anew at the end. Its own write-ahead log and backups are beyond reach.
func (s *postgresStore) Erase(ctx context.Context, names func(string) bool) (erased int64, err error) {
	if waiting := s.Spooled(); waiting > 0 {
		return 0, fmt.Errorf("%w: %d events wait in the spool, which is erased after it is replayed", ErrUnavailable,
			waiting)
	}
	err = s.query(ctx, func() error {
		for after := int64(0); ; {
			seqs, next, err := s.seqsOf(ctx, after, names)
			if err != nil {
				return err
			}
			if next == after {
				break
			}
			after = next
			if len(seqs) == 0 {
				continue
			}
			if err := s.inTurn(ctx, func(tx pgx.Tx) error { return postgresDelete(ctx, tx, seqs) }); err != nil {
				return err
			}
			erased += int64(len(seqs))
		}
		compacted, err := s.eraseCompacted(ctx, names)
		if err != nil {
			return err
		}
		erased += compacted
		for _, table := range []string{"unseen_events", "unseen_compacted", "unseen_names"} {
			if _, err := s.pool.Exec(ctx, `VACUUM FULL `+table); err != nil {
				return err
			}
		}
		return nil
	})
	return erased, err
}

// seqsOf returns which of the next events are about a node, and the last that was looked at.
func (s *postgresStore) seqsOf(ctx context.Context, after int64, names func(string) bool) (seqs []int64, next int64,
	err error) {
	next = after
	rows, err := s.pool.Query(ctx, `SELECT seq, source, target FROM unseen_events WHERE seq > $1 AND id <> ''
		ORDER BY seq LIMIT $2`, after, MaxPage)
	if err != nil {
		return nil, 0, err
	}
	var source, target string
	_, err = pgx.ForEachRow(rows, []any{&next, &source, &target}, func() error {
		if names(source) || names(target) {
			seqs = append(seqs, next)
		}
		return nil
	})
	return seqs, next, err
}

// postgresDelete deletes events by their numbers, and counts them out.
func postgresDelete(ctx context.Context, tx pgx.Tx, seqs []int64) error {
	var last int64
	if err := tx.QueryRow(ctx, `SELECT coalesce(max(seq), 0) FROM unseen_events`).Scan(&last); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `WITH gone AS (DELETE FROM unseen_events WHERE seq = ANY ($1) RETURNING kind)
		UPDATE unseen_totals SET events = events - (SELECT count(*) FROM gone WHERE gone.kind = unseen_totals.kind)`,
		seqs); err != nil {
		return err
	}
	return postgresKeepLast(ctx, tx, last)
}

// eraseCompacted deletes the compacted events of nodes, and the names that nothing has any more.
func (s *postgresStore) eraseCompacted(ctx context.Context, names func(string) bool) (erased int64, err error) {
	rows, err := s.pool.Query(ctx, `SELECT number, name FROM unseen_names`)
	if err != nil {
		return 0, err
	}
	var numbers []int64
	var number int64
	var name string
	if _, err := pgx.ForEachRow(rows, []any{&number, &name}, func() error {
		if names(name) {
			numbers = append(numbers, number)
		}
		return nil
	}); err != nil || len(numbers) == 0 {
		return 0, err
	}
	err = s.inTurn(ctx, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, `WITH gone AS (DELETE FROM unseen_compacted
				WHERE source = ANY ($1) OR target = ANY ($1) RETURNING kind),
			counted AS (UPDATE unseen_totals
				SET events = events - (SELECT count(*) FROM gone WHERE gone.kind = unseen_totals.kind))
			SELECT count(*) FROM gone`, numbers).Scan(&erased); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DELETE FROM unseen_names WHERE number NOT IN (SELECT source FROM unseen_compacted
			UNION SELECT target FROM unseen_compacted UNION SELECT model FROM unseen_compacted
			UNION SELECT list FROM unseen_compacted UNION SELECT surface FROM unseen_compacted
			UNION SELECT candidates FROM unseen_compacted)`)
		return err
	})
	return erased, err
}
