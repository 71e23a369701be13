package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"unseen/serve/store"
)

// keepingReference is a log whose old events are compacted and whose nodes are erased, as simply as it can be said.
type keepingReference struct {
	events  []store.LogEvent
	ids     map[string]bool
	seq     int64
	arrived map[int64]time.Duration // the age of the log when an event was stored
	age     time.Duration
}

func (m *keepingReference) append(events []store.LogEvent) {
	for _, e := range events {
		if m.ids[e.ID] {
			continue
		}
		m.ids[e.ID] = true
		m.seq++
		e.Seq, e.At = m.seq, e.At.Truncate(time.Microsecond).UTC()
		m.events, m.arrived[m.seq] = append(m.events, e), m.age
	}
}

// compact reduces the events of an age. The log's own marks are coarser, so tests step the clock by more than these.
func (m *keepingReference) compact(keep time.Duration) {
	for k := range m.events {
		e := &m.events[k]
		if m.arrived[e.Seq] > m.age-keep || e.ID == "" {
			continue
		}
		delete(m.ids, e.ID)
		e.ID = ""
	}
}

func (m *keepingReference) erase(node string) {
	m.events = slices.DeleteFunc(m.events, func(e store.LogEvent) bool {
		gone := e.Source == node || e.Target == node
		if gone {
			delete(m.ids, e.ID)
		}
		return gone
	})
}

// compactAll compacts until nothing is left to do.
func compactAll(t testing.TB, log store.Store, r store.Retention) (events int) {
	t.Helper()
	for {
		done, err := log.Compact(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if events += done.Events; !done.More {
			return events
		}
	}
}

// Whatever is appended, compacted, erased and opened again, in whatever order, a log says what the reference says.
func TestKeepingAgreesWithReference(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p place) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 2))
		m := &keepingReference{ids: map[string]bool{}, arrived: map[int64]time.Duration{}}
		log := p.open(t, store.Options{})
		now, keep := time.Unix(1e9, 0), 100*time.Hour
		if compactAll(t, log, store.Retention{Keep: keep, Now: now}) != 0 { // starts the clock
			t.Fatal("an empty log was compacted")
		}
		for step := range 120 {
			switch r.IntN(8) {
			case 0, 1, 2, 3:
				events := make([]store.LogEvent, r.IntN(30))
				for k := range events {
					events[k] = randomEvent(r, 2000)
				}
				if _, err := log.Append(t.Context(), events); err != nil {
					t.Fatal(err)
				}
				m.append(events)
			case 4, 5:
				passed := time.Duration(2+r.IntN(23)) * time.Hour
				// before the clock moves, so that what was stored until now has its mark
				compactAll(t, log, store.Retention{Keep: keep, Now: now})
				now, m.age = now.Add(passed), m.age+passed
				compactAll(t, log, store.Retention{Keep: keep, Now: now, Limit: 1 + r.IntN(20)})
				m.compact(keep)
			case 6:
				node := fmt.Sprint("node-", r.IntN(50))
				before := len(m.events)
				m.erase(node)
				erased, err := log.Erase(t.Context(), func(name string) bool { return name == node })
				if err != nil || int(erased) != before-len(m.events) {
					t.Fatalf("step %d: erased %d, %v; want %d", step, erased, err, before-len(m.events))
				}
			case 7:
				closeAll(t, log)
				log = p.open(t, store.Options{})
			}
			compareKept(t, log, m, step)
		}
	})
}

func compareKept(t *testing.T, log store.Store, m *keepingReference, step int) {
	t.Helper()
	var got []store.LogEvent
	for e, err := range store.All(t.Context(), log, 0) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if len(got) != len(m.events) {
		t.Fatalf("step %d: %d events, want %d", step, len(got), len(m.events))
	}
	for k := range got {
		if !reflect.DeepEqual(got[k], m.events[k]) {
			t.Fatalf("step %d: event %d\n got %+v\nwant %+v", step, k, got[k], m.events[k])
		}
	}
	totals, err := log.Totals(t.Context())
	if err != nil || totals.Events != int64(len(m.events)) || totals.Seq != m.seq {
		t.Fatalf("step %d: %+v, %v; want %d events, the last %d", step, totals, err, len(m.events), m.seq)
	}
}

// A clock that jumps makes events a day older at most, and one that goes back makes none younger, whatever happens
// between two events or across a restart.
func TestAttackJumpingClock(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p place) {
		log := p.open(t, store.Options{})
		now := time.Unix(1.7e9, 0)
		keep := 90 * 24 * time.Hour
		compact := func() int {
			t.Helper()
			return compactAll(t, log, store.Retention{Keep: keep, Now: now})
		}
		compact()
		day := 0
		append1 := func() {
			t.Helper()
			day++
			if _, err := log.Append(t.Context(), []store.LogEvent{{ID: fmt.Sprint("e", day), Kind: store.Shown,
				Source: "a", Target: "b", At: time.Unix(1, 0)}}); err != nil { // an old event is new to the log
				t.Fatal(err)
			}
		}
		append1()
		for _, jump := range []time.Duration{10 * 365 * 24 * time.Hour, -11 * 365 * 24 * time.Hour,
			365 * 24 * time.Hour, -365 * 24 * time.Hour} {
			now = now.Add(jump)
			if n := compact(); n != 0 {
				t.Fatalf("a clock that jumped by %v had %d events compacted", jump, n)
			}
			append1()
			closeAll(t, log)
			log = p.open(t, store.Options{})
		}
		compacted := 0
		for range 200 { // true days
			now = now.Add(24 * time.Hour)
			compacted += compact()
		}
		if compacted != day {
			t.Errorf("after 200 days %d of %d events are compacted", compacted, day)
		}
	})
}

// Clocks of services that share a log differ a little, and events do not age faster for it.
func TestSharedClock(t *testing.T) {
	t.Parallel()
	log := place{"SQLite", filepath.Join(t.TempDir(), "events.db")}.open(t, store.Options{})
	now := time.Unix(1.7e9, 0)
	var age time.Duration
	for k := range 100 {
		now = now.Add(time.Minute)
		done, err := log.Compact(t.Context(), store.Retention{Keep: time.Hour,
			Now: now.Add(time.Duration(k%2) * 20 * time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
		age = done.Age
	}
	if age > 125*time.Minute {
		t.Errorf("in 100 minutes the log became %v older", age)
	}
}

// A reader that starts anew again and again while events are appended and compacted sees each once and in order.
func TestReadWhileCompacting(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p place) {
		log := p.open(t, store.Options{})
		now := time.Unix(1.7e9, 0)
		compactAll(t, log, store.Retention{Keep: time.Hour, Now: now})
		stop, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			for k := 0; ; k++ {
				select {
				case <-stop:
					ended <- nil
					return
				default:
				}
				now = now.Add(time.Hour)
				_, err := log.Append(context.Background(), typicalEvents(k*50, 50))
				if err == nil {
					_, err = log.Compact(context.Background(), store.Retention{Keep: time.Hour, Now: now, Limit: 37})
				}
				if err != nil {
					ended <- err
					return
				}
			}
		}()
		compacted := 0
		for began := time.Now(); time.Since(began) < 2*time.Second; {
			want := int64(0)
			for e, err := range store.All(t.Context(), log, 0) {
				if want++; err != nil || e.Seq != want {
					t.Fatalf("event %d has Seq %d, %v", want, e.Seq, err)
				}
				if e.ID == "" {
					compacted++
				}
			}
		}
		close(stop)
		if err := <-ended; err != nil || compacted == 0 {
			t.Errorf("%v; %d compacted events were read", err, compacted)
		}
	})
}

// What was erased is in no file of the log, also if it was compacted, and also in the names that others have.
func TestErasedBytes(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	log := place{"SQLite", filepath.Join(folder, "events.db")}.open(t, store.Options{})
	now := time.Unix(1.7e9, 0)
	add := func(round int) {
		var events []store.LogEvent
		for k := range 3000 {
			e := store.LogEvent{ID: fmt.Sprintf("%x-%d", k*7919%65536, round), Kind: store.Shown,
				Source: fmt.Sprint("person-", k%50), Target: fmt.Sprint("item-", k%70), List: fmt.Sprint("list-", k/10)}
			if k%50 == 7 {
				e.Source = "somebody-secret"
				e.ID = "somebody-secret-" + e.ID
			}
			events = append(events, e)
		}
		if _, err := log.Append(t.Context(), events); err != nil {
			t.Fatal(err)
		}
	}
	compactAll(t, log, store.Retention{Keep: time.Hour, Now: now})
	add(1)
	compactAll(t, log, store.Retention{Keep: time.Hour, Now: now.Add(time.Hour)})
	if done, err := log.Compact(t.Context(), store.Retention{Keep: time.Hour, Now: now.Add(3 * time.Hour),
		Limit: 2500}); err != nil || done.Events != 2500 {
		t.Fatalf("compacted %+v, %v", done, err)
	}
	add(2)
	if !inFiles(t, folder, "somebody-secret") {
		t.Fatal("the log never had the name")
	}
	if n, err := log.Erase(t.Context(), func(name string) bool { return name == "somebody-secret" }); err != nil ||
		n != 120 {
		t.Fatalf("erased %d, %v", n, err)
	}
	if inFiles(t, folder, "somebody-secret") {
		t.Error("the name is still in a file of the log")
	}
	if !inFiles(t, folder, "person-8") {
		t.Error("others were erased too")
	}
	if again, err := log.Erase(t.Context(), func(string) bool { return false }); err != nil || again != 0 {
		t.Errorf("erased %d more, %v", again, err)
	}
}

func inFiles(t testing.TB, folder, text string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		found = found || bytes.Contains(content, []byte(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// sqliteBefore makes a log as an earlier version wrote it: with two events, of which version 2 has compacted the first.
func sqliteBefore(t testing.TB, path string, version int) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`PRAGMA journal_mode = WAL;
		CREATE TABLE events (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,
			source TEXT NOT NULL, target TEXT NOT NULL, probability REAL NOT NULL, model TEXT NOT NULL,
			list TEXT NOT NULL, position INTEGER NOT NULL, at INTEGER NOT NULL) STRICT;
		CREATE TABLE totals (kind TEXT PRIMARY KEY, events INTEGER NOT NULL, first INTEGER NOT NULL,
			last INTEGER NOT NULL) STRICT, WITHOUT ROWID;
		PRAGMA application_id = 0x756e736e; PRAGMA user_version = 1;
		INSERT INTO events (id, kind, source, target, probability, model, list, position, at)
			VALUES ('one', 'shown', 'a', 'b', .5, 'm', 'l', 1, 1000000),
				('two', 'clicked', 'a', 'b', 0, '', 'l', 0, 2000000);
		INSERT INTO totals VALUES ('shown', 1, 1000000, 1000000), ('clicked', 1, 2000000, 2000000)`); err != nil {
		t.Fatal(err)
	}
	if version == 1 {
		return
	}
	if _, err := db.Exec(`
		CREATE TABLE names (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
		CREATE TABLE compacted (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, source INTEGER NOT NULL,
			target INTEGER NOT NULL, probability REAL NOT NULL, model INTEGER NOT NULL, list INTEGER NOT NULL,
			position INTEGER NOT NULL, at INTEGER NOT NULL) STRICT;
		CREATE TABLE clock (one INTEGER PRIMARY KEY CHECK (one = 1), wall INTEGER NOT NULL,
			age INTEGER NOT NULL) STRICT;
		CREATE TABLE arrivals (seq INTEGER PRIMARY KEY, age INTEGER NOT NULL) STRICT;
		PRAGMA user_version = 2;
		INSERT INTO names VALUES (1, 'a'), (2, 'b'), (3, 'm'), (4, 'l');
		INSERT INTO compacted VALUES (1, 'shown', 1, 2, .5, 3, 4, 1, 0);
		DELETE FROM events WHERE seq = 1`); err != nil {
		t.Fatal(err)
	}
}

// A log of an earlier version is migrated with its events, and a copy of it stays with which that version can go on.
func TestMigration(t *testing.T) {
	t.Parallel()
	for version := 1; version < 3; version++ {
		t.Run(fmt.Sprint("from ", version), func(t *testing.T) { migrates(t, version) })
	}
}

func migrates(t *testing.T, version int) {
	path := filepath.Join(t.TempDir(), "events.db")
	sqliteBefore(t, path, version)
	log := place{"SQLite", path}.open(t, store.Options{})
	m := &keepingReference{ids: map[string]bool{}, arrived: map[int64]time.Duration{}}
	m.append([]store.LogEvent{{ID: "one", Kind: store.Shown, Source: "a", Target: "b", Probability: .5, Model: "m",
		List: "l", Position: 1, At: time.Unix(1, 0)},
		{ID: "two", Kind: store.Clicked, Source: "a", Target: "b", List: "l", At: time.Unix(2, 0)}})
	if version == 2 {
		m.events[0].ID, m.events[0].At = "", time.Time{}
	}
	compareKept(t, log, m, 0)
	added := []store.LogEvent{{ID: "two", Kind: store.Shown, Source: "a", Target: "b"},
		{ID: "three", Kind: store.Dismissed, Source: "c", Target: "b", Surface: "home", Placed: .25,
			Candidates: "all/1/2", At: time.Unix(3, 0)}}
	if _, err := log.Append(t.Context(), added); err != nil {
		t.Fatal(err)
	}
	m.append(added)
	compareKept(t, log, m, 1)
	closeAll(t, log)

	kept := 3 - version // events that were not compacted
	for path, want := range map[string]string{fmt.Sprint(path, ".v", version): fmt.Sprint(version, kept),
		path: fmt.Sprint(3, kept+1)} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			var version, rows int
			var application int64
			if err := db.QueryRow(`SELECT (SELECT user_version FROM pragma_user_version),
				(SELECT application_id FROM pragma_application_id), count(*) FROM events`).Scan(&version, &application,
				&rows); err != nil || fmt.Sprint(version, rows) != want || application != 0x756e736e {
				t.Errorf("version, events: %d %d (application %x), %v; want %s", version, rows, application, err, want)
			}
			info, err := os.Stat(path)
			if err != nil || strings.Contains(path, ".db.v") && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("others may read the copy: %v, %v", info, err)
			}
		})
	}

	// What an earlier version compacted and what this one does are read alike, also after something was erased.
	log = place{"SQLite", path}.open(t, store.Options{})
	for hour := range int64(3) {
		compactAll(t, log, store.Retention{Keep: time.Hour, Now: time.Unix(1e9+hour*3600, 0)})
	}
	m.age = 2 * time.Hour
	m.compact(time.Hour)
	compareKept(t, log, m, 2)
	m.erase("c")
	if n, err := log.Erase(t.Context(), func(name string) bool { return name == "c" }); err != nil || n != 1 {
		t.Errorf("erased %d, %v", n, err)
	}
	compareKept(t, log, m, 3)
	if inFiles(t, filepath.Dir(path), "all/1/2") {
		t.Error("the name of what nothing was chosen from is still in a file of the log")
	}
}

// A migration that cannot make its copy changes nothing.
func TestMigrationWithoutCopy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.db")
	sqliteBefore(t, path, 1)
	if err := os.MkdirAll(filepath.Join(path+".v1", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	log, err := store.Open(t.Context(), path, store.Options{})
	if err == nil {
		log.Close()
		t.Fatal("migrated without a copy")
	}
	if !strings.Contains(err.Error(), "copying version 1") {
		t.Errorf("got %v", err)
	}
	if err := os.RemoveAll(path + ".v1"); err != nil {
		t.Fatal(err)
	}
	closeAll(t, place{"SQLite", path}.open(t, store.Options{}))
}
