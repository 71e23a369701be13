//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"unseen/internal/postgrestest"
	"unseen/serve/store"
)

// load appends from four clients until it is stopped, and remembers what was acknowledged.
type load struct {
	clients sync.WaitGroup
	end     chan struct{}

	mu           sync.Mutex
	acknowledged map[string]bool
	sum          store.Result
	busy         int
}

func startLoad(t *testing.T, log store.Store, name string) *load {
	l := &load{end: make(chan struct{}), acknowledged: map[string]bool{}}
	for client := range 4 {
		l.clients.Go(func() {
			for batch := 0; ; batch++ {
				select {
				case <-l.end:
					return
				default:
				}
				events := childEvents(name, client, batch, 20)
				result, err := log.Append(context.Background(), events)
				var busy *store.BusyError
				if errors.As(err, &busy) {
					l.mu.Lock()
					l.busy++
					l.mu.Unlock()
					time.Sleep(10 * time.Millisecond) // less than asked for, to press
					batch--
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if got := result.Stored + result.Duplicate + result.Spooled; got != len(events) {
					t.Errorf("%+v for %d events", result, len(events))
				}
				l.mu.Lock()
				l.sum.Stored += result.Stored
				l.sum.Spooled += result.Spooled
				for _, event := range events {
					l.acknowledged[event.ID] = true
				}
				l.mu.Unlock()
				time.Sleep(time.Millisecond)
			}
		})
	}
	return l
}

func (l *load) stop() { close(l.end); l.clients.Wait() }

// wait returns when so many more events were acknowledged.
func (l *load) wait(t *testing.T, more int) {
	t.Helper()
	acknowledged := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.acknowledged)
	}
	want := acknowledged() + more
	poll(t, func() bool { return acknowledged() >= want })
}

// drained waits until the spool is empty.
func drained(t *testing.T, log store.Store) {
	t.Helper()
	poll(t, func() bool { return log.(store.Spooler).Spooled() == 0 })
}

// The database is stopped, killed and started again under load: clients notice nothing, nothing is lost,
// nothing is there twice.
func TestDatabaseRestarts(t *testing.T) {
	p := place{"PostgreSQL", postgrestest.Database(t)}
	s := postgrestest.Shared(t)
	log := p.open(t, store.Options{Spool: filepath.Join(t.TempDir(), "spool"), Group: 100})
	l := startLoad(t, log, "load")
	for round := range kills(t, 2) {
		l.wait(t, 20+rand.IntN(1000))
		if round%2 == 0 {
			s.Crash()
		} else {
			s.Stop(t)
		}
		l.wait(t, 20+rand.IntN(1000))
		s.Start(t)
		if round%3 != 2 { // at times it goes again before the spool is empty
			drained(t, log)
		}
	}
	l.wait(t, 100)
	l.stop()
	drained(t, log)
	events := checkAcknowledged(t, log, l.acknowledged)
	if events != len(l.acknowledged) {
		t.Errorf("%d events stored, %d acknowledged", events, len(l.acknowledged))
	}
	if totals, err := log.Totals(t.Context()); err != nil || totals.Events != int64(events) {
		t.Errorf("totals %+v, %v; there are %d events", totals, err, events)
	}
	if l.sum.Stored == 0 || l.sum.Spooled == 0 {
		t.Errorf("%+v: both ways must have been taken for this to test anything", l.sum)
	}
	t.Logf("%d events: %d straight into the database, %d through the spool, refused as busy %d times", events,
		l.sum.Stored, l.sum.Spooled, l.busy)
}

// The spool takes events faster than the database. Once the database is back the spool becomes empty all the
// same, although clients send as fast as they are answered.
func TestSpoolEmptiesUnderLoad(t *testing.T) {
	p := place{"PostgreSQL", postgrestest.Database(t)}
	s := postgrestest.Shared(t)
	log := p.open(t, store.Options{Spool: filepath.Join(t.TempDir(), "spool")})
	s.Crash()
	var clients sync.WaitGroup
	end := make(chan struct{})
	sent := make([]int, 8)
	for client := range sent {
		clients.Go(func() {
			for n := client; ; n += len(sent) {
				select {
				case <-end:
					return
				default:
				}
				if _, err := log.Append(context.Background(), typicalEvents(n*100, 100)); err != nil {
					t.Error(err)
					return
				}
				sent[client] += 100
			}
		})
	}
	poll(t, func() bool { return log.(store.Spooler).Spooled() > 2000 })
	s.Start(t)
	drained(t, log)
	close(end)
	clients.Wait()
	drained(t, log)
	want := int64(0)
	for _, n := range sent {
		want += int64(n)
	}
	if totals, err := log.Totals(t.Context()); err != nil || totals.Events != want || want == 0 {
		t.Errorf("%+v, %v; %d were acknowledged", totals, err, want)
	}
}

// Service and database are killed in turn; each next service goes on with the spool of the last.
func TestKillServiceAndDatabase(t *testing.T) {
	p := place{"PostgreSQL", postgrestest.Database(t)}
	s := postgrestest.Shared(t)
	spool := filepath.Join(t.TempDir(), "spool")
	closeAll(t, p.open(t, store.Options{Spool: spool})) // so that the spool has seen the database
	acknowledged := map[string]bool{}
	// a moment that no test chooses: what it interrupts is the point
	pause := func() { time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond) }
	n := kills(t, 3)
	for i := range n {
		if i%3 == 1 {
			s.Crash() // the service starts without its database
		}
		c := start(t, p.url, spool, fmt.Sprint("run", i))
		pause()
		if i%3 == 0 {
			s.Crash()
			pause()
		}
		if i%3 == 1 {
			s.Start(t) // and is killed while it replays
		}
		for _, id := range c.kill(t) {
			acknowledged[id] = true
		}
		if i%3 == 0 {
			s.Start(t)
		}
	}
	log := p.open(t, store.Options{Spool: spool})
	waiting := log.(store.Spooler).Spooled()
	drained(t, log)
	events := checkAcknowledged(t, log, acknowledged)
	if len(acknowledged) == 0 {
		t.Fatal("nothing was acknowledged, so nothing was tested")
	}
	t.Logf("%d kills, %d events acknowledged, %d stored, the last %d from the spool", n, len(acknowledged), events,
		waiting)
}

// Two services write into one database at once; a reader who follows by Seq misses nothing.
func TestTwoServices(t *testing.T) {
	t.Parallel()
	p := place{"PostgreSQL", postgrestest.Database(t)}
	reader := p.open(t, store.Options{})
	one := startLoad(t, p.open(t, store.Options{}), "one")
	two := startLoad(t, p.open(t, store.Options{}), "two")
	last := int64(0)
	for last < 1000 {
		page, err := reader.Events(t.Context(), last, 50)
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range page {
			if event.Seq != last+1 {
				t.Fatalf("Seq %d follows %d", event.Seq, last)
			}
			last = event.Seq
		}
	}
	one.stop()
	two.stop()
	for id := range two.acknowledged {
		one.acknowledged[id] = true
	}
	if events := checkAcknowledged(t, reader, one.acknowledged); events != len(one.acknowledged) {
		t.Errorf("%d stored, %d acknowledged", events, len(one.acknowledged))
	}
}

func TestDatabaseUnavailable(t *testing.T) {
	p := place{"PostgreSQL", postgrestest.Database(t)}
	s := postgrestest.Shared(t)
	spool := filepath.Join(t.TempDir(), "spool")
	without, with := p.open(t, store.Options{}), p.open(t, store.Options{Spool: spool, SpoolBytes: 20_000})
	s.Stop(t)
	defer func() {
		if !s.Running() {
			s.Start(t)
		}
	}()

	if _, err := without.Append(t.Context(), typicalEvents(0, 1)); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("without a spool: %v", err)
	}
	accepted := 0
	var err error
	for ; accepted < 1000 && err == nil; accepted++ {
		_, err = with.Append(t.Context(), typicalEvents(accepted, 1))
	}
	accepted-- // the last was refused
	if !errors.Is(err, store.ErrBusy) || accepted == 0 {
		t.Errorf("a full spool after %d events: %v", accepted, err)
	}
	if _, err := with.Events(t.Context(), 0, 0); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Events: %v", err)
	}
	if _, err := with.Totals(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Totals: %v", err)
	}
	if err := with.Ping(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Ping: %v", err)
	}
	closeAll(t, with)

	for name, options := range map[string]store.Options{"no spool": {}, "a new spool": {Spool: spool + "2"}} {
		t.Run(name, func(t *testing.T) {
			if _, err := store.Open(t.Context(), p.url, options); !errors.Is(err, store.ErrUnavailable) {
				t.Error(err)
			}
		})
	}
	with = p.open(t, store.Options{Spool: spool})
	if result, err := with.Append(t.Context(), typicalEvents(accepted, 5)); err != nil || result.Spooled != 5 {
		t.Errorf("a used spool: %+v, %v", result, err)
	}
	s.Start(t)
	drained(t, with)
	events, err := with.Events(t.Context(), 0, 0)
	if err != nil || len(events) != accepted+5 {
		t.Fatalf("%d events, want %d; %v", len(events), accepted+5, err)
	}
	for i, event := range events {
		if want := typicalEvents(i, 1)[0].ID; event.ID != want {
			t.Fatalf("event %d is %s, want %s: the order is lost", i, event.ID, want)
		}
	}
	if result, err := with.Append(t.Context(), typicalEvents(0, accepted+6)); err != nil || result.Stored != 1 {
		t.Errorf("back to normal: %+v, %v", result, err)
	}
}

// A database that accepts everything and answers nothing costs one wait, not one for each Append.
func TestDatabaseHangs(t *testing.T) {
	p := place{"PostgreSQL", postgrestest.Database(t)}
	s := postgrestest.Shared(t)
	log := p.open(t, store.Options{Spool: filepath.Join(t.TempDir(), "spool"), Timeout: time.Second})
	if _, err := log.Append(t.Context(), typicalEvents(0, 10)); err != nil {
		t.Fatal(err)
	}
	s.Signal(syscall.SIGSTOP)
	defer s.Signal(syscall.SIGCONT)
	began := time.Now()
	for n := 1; n <= 10; n++ {
		if result, err := log.Append(t.Context(), typicalEvents(n*10, 10)); err != nil || result.Spooled != 10 {
			t.Fatalf("%+v, %v", result, err)
		}
	}
	if took := time.Since(began); took > 5*time.Second { // ten waits would be ten
		t.Errorf("ten Appends took %v", took)
	}
	s.Signal(syscall.SIGCONT)
	drained(t, log)
	if totals, err := log.Totals(t.Context()); err != nil || totals.Events != 110 {
		t.Errorf("%+v, %v", totals, err)
	}
}

func TestForeignDatabases(t *testing.T) {
	t.Parallel()
	newer := place{"PostgreSQL", postgrestest.Database(t)}
	closeAll(t, newer.open(t, store.Options{}))
	execute(t, newer.url, `INSERT INTO unseen_migrations (version) VALUES (99)`)
	foreign := postgrestest.Database(t)
	execute(t, foreign, `CREATE TABLE unseen_events (title text)`)
	s := postgrestest.Shared(t)
	latin := fmt.Sprint("latin", time.Now().UnixNano())
	execute(t, s.URL("postgres"), `CREATE DATABASE `+latin+` ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0`)

	for name, c := range map[string]struct {
		url  string
		want error
		word string
	}{
		"newer":       {newer.url, store.ErrNewer, "its version is 99"},
		"foreign":     {foreign, store.ErrForeign, "choose another database"},
		"latin":       {s.URL(latin), nil, "ENCODING 'UTF8'"},
		"no database": {s.URL("absent"), nil, `database "absent" does not exist`},
		"no user": {strings.Replace(s.URL("postgres"), "unseen@", "stranger:secret@", 1), nil,
			`role "stranger" does not exist`},
		"no address": {"postgres://host:port/", nil, "address of the event database"},
	} {
		t.Run(name, func(t *testing.T) {
			log, err := store.Open(t.Context(), c.url, store.Options{Spool: filepath.Join(t.TempDir(), "spool")})
			if err == nil {
				log.Close()
				t.Error("opened")
				return
			}
			if log != nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.word) ||
				errors.Is(err, store.ErrUnavailable) {
				t.Error(err)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error tells the password: %v", err)
			}
		})
	}
}

// BenchmarkPostgres is BenchmarkAppend's busiest load, with PostgreSQL and with the spool instead of it.
func BenchmarkPostgres(b *testing.B) {
	for _, away := range []bool{false, true} {
		b.Run(fmt.Sprintf("away=%v/clients=8/batch=100", away), func(b *testing.B) {
			log := place{"PostgreSQL", postgrestest.Database(b)}.open(b,
				store.Options{Spool: filepath.Join(b.TempDir(), "spool"), SpoolBytes: 8 << 30})
			defer log.Close()
			if away {
				s := postgrestest.Shared(b)
				s.Crash()
				defer s.Start(b)
			}
			appendFrom(b, log, 8, 100)
		})
	}
}

func execute(t testing.TB, url, statement string) {
	t.Helper()
	connection, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close(context.Background())
	if _, err := connection.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// While nothing was compacted, dropping what the second migration added takes a database back to the first version.
func TestPostgresGoesBack(t *testing.T) {
	t.Parallel()
	p := place{"PostgreSQL", postgrestest.Database(t)}
	log := p.open(t, store.Options{})
	if _, err := log.Append(t.Context(), typicalEvents(0, 10)); err != nil {
		t.Fatal(err)
	}
	closeAll(t, log)
	execute(t, p.url, `DROP TABLE unseen_names, unseen_compacted, unseen_clock, unseen_arrivals;
		DELETE FROM unseen_migrations WHERE version > 1`)
	log = p.open(t, store.Options{}) // and forth again
	if totals, err := log.Totals(t.Context()); err != nil || totals.Events != 10 {
		t.Fatalf("%+v, %v", totals, err)
	}
	closeAll(t, log)
	execute(t, p.url, `INSERT INTO unseen_migrations (version) VALUES (9)`)
	if _, err := store.Open(t.Context(), p.url, store.Options{}); !errors.Is(err, store.ErrNewer) ||
		!strings.Contains(err.Error(), "upgrade") {
		t.Errorf("got %v", err)
	}
}

// A database of the second version is migrated with its events. That version goes on with the migrated one, and what
// it does not know stays.
func TestPostgresOfTheVersionBefore(t *testing.T) {
	t.Parallel()
	p := place{"PostgreSQL", postgrestest.Database(t)}
	log := p.open(t, store.Options{})
	closeAll(t, log)
	execute(t, p.url, `ALTER TABLE unseen_events DROP COLUMN surface, DROP COLUMN placed, DROP COLUMN candidates;
		ALTER TABLE unseen_compacted DROP COLUMN surface, DROP COLUMN placed, DROP COLUMN candidates;
		DELETE FROM unseen_migrations WHERE version = 3;
		INSERT INTO unseen_names (name) VALUES ('a'), ('b'), ('m'), ('l');
		INSERT INTO unseen_compacted VALUES (1, 'shown', 1, 2, .5, 3, 4, 1, NULL);
		INSERT INTO unseen_events VALUES (2, 'two', 'clicked', 'a', 'b', 0, '', 'l', 0, to_timestamp(2));
		INSERT INTO unseen_totals VALUES ('shown', 1, to_timestamp(1), to_timestamp(1)),
			('clicked', 1, to_timestamp(2), to_timestamp(2))`)
	log = p.open(t, store.Options{})
	m := &keepingReference{ids: map[string]bool{}, arrived: map[int64]time.Duration{}}
	m.append([]store.LogEvent{{Kind: store.Shown, Source: "a", Target: "b", Probability: .5, Model: "m", List: "l",
		Position: 1}, {ID: "two", Kind: store.Clicked, Source: "a", Target: "b", List: "l", At: time.Unix(2, 0)}})
	compareKept(t, log, m, 0)
	added := []store.LogEvent{{ID: "three", Kind: store.Shown, Source: "c", Target: "b", Surface: "home", Placed: .25,
		Candidates: "all/1/2", At: time.Unix(3, 0)}}
	if _, err := log.Append(t.Context(), added); err != nil {
		t.Fatal(err)
	}
	m.append(added)
	compareKept(t, log, m, 1)
	closeAll(t, log)

	// As docs/service.md says, and then the statements of that version.
	execute(t, p.url, `DELETE FROM unseen_migrations WHERE version = 3;
		INSERT INTO unseen_events (seq, id, kind, source, target, probability, model, list, position, at)
			VALUES (4, 'four', 'linked', 'c', 'b', 0, '', 'l', 0, to_timestamp(4));
		UPDATE unseen_totals SET events = events + 1 WHERE kind = 'shown';
		INSERT INTO unseen_compacted SELECT seq, kind, 1, 2, probability, 3, 4, position, at FROM unseen_events
			WHERE seq = 2;
		DELETE FROM unseen_events WHERE seq = 2;
		INSERT INTO unseen_events VALUES (5, '', '', '', '', 0, '', '', 0, to_timestamp(0))`)
	log = p.open(t, store.Options{})
	m.append([]store.LogEvent{{ID: "four", Kind: store.Linked, Source: "c", Target: "b", List: "l",
		At: time.Unix(4, 0)}})
	m.events[1].ID, m.events[1].Model, m.seq = "", "m", 5
	compareKept(t, log, m, 2)
}

// Events that wait in the spool are erased when the database is back: until then Erase says that it cannot.
func TestEraseSpooled(t *testing.T) {
	p := place{"PostgreSQL", postgrestest.Database(t)}
	s := postgrestest.Shared(t)
	folder := t.TempDir()
	log := p.open(t, store.Options{Spool: filepath.Join(folder, "spool")})
	add := func(id string) {
		t.Helper()
		if _, err := log.Append(t.Context(), []store.LogEvent{
			{ID: id, Kind: store.Shown, Source: "somebody-secret", Target: "a"},
			{ID: id + "b", Kind: store.Shown, Source: "b", Target: "a"}}); err != nil {
			t.Fatal(err)
		}
	}
	names := func(name string) bool { return name == "somebody-secret" }
	add("1")
	s.Stop(t)
	add("2")
	if _, err := log.Erase(t.Context(), names); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("with a spool that waits: %v", err)
	}
	s.Start(t)
	drained(t, log)
	if n, err := log.Erase(t.Context(), names); err != nil || n != 2 {
		t.Errorf("erased %d, %v", n, err)
	}
	if inFiles(t, folder, "somebody-secret") {
		t.Error("the spool has it still")
	}
	if totals, err := log.Totals(t.Context()); err != nil || totals.Events != 2 || totals.Seq != 4 {
		t.Errorf("%+v, %v", totals, err)
	}
}
