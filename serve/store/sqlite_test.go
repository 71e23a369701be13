package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"unseen/serve/store"
)

// A file that is not an event log is refused with a word on what it is, and not a byte of it changes.
func TestForeignFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	with := func(name, statements string) string {
		path := filepath.Join(folder, name)
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(statements); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text := filepath.Join(folder, "notes.txt")
	if err := os.WriteFile(text, bytes.Repeat([]byte("not a database\n"), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(folder, "newer.db")
	closeAll(t, place{"SQLite", newer}.open(t, store.Options{}))
	with("newer.db", `PRAGMA user_version = 7`)

	cases := map[string]struct {
		path string
		want error
		word string
	}{
		"text": {text, store.ErrForeign, "choose another path"},
		"other database": {with("other.db", `CREATE TABLE songs (title TEXT)`), store.ErrForeign,
			"choose another path"},
		"other application": {with("app.db", `PRAGMA application_id = 5`), store.ErrForeign, "choose another path"},
		"newer":             {newer, store.ErrNewer, "its version is 7"},
		"folder":            {folder, nil, "it is a folder"},
		"no folder":         {filepath.Join(folder, "absent", "events.db"), fs.ErrNotExist, "make its folder first"},
		"no path":           {"sqlite:", nil, "give one"},
		"unknown scheme":    {"mysql://host/db", nil, "sqlite:PATH or postgres://"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before, _ := os.ReadFile(c.path)
			log, err := store.Open(t.Context(), c.path, store.Options{})
			if err == nil {
				log.Close()
				t.Fatal("opened")
			}
			if log != nil {
				t.Error("a log came with the error")
			}
			if c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.word) {
				t.Errorf("got %v, want %v and %q", err, c.want, c.word)
			}
			if after, _ := os.ReadFile(c.path); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestDamagedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.db")
	log := place{"SQLite", path}.open(t, store.Options{})
	if _, err := log.Append(t.Context(), typicalEvents(0, 2000)); err != nil {
		t.Fatal(err)
	}
	closeAll(t, log)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4096; i < len(content); i++ { // all but the first page, which names the tables
		content[i] ^= 0xff
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	log, err = store.Open(t.Context(), path, store.Options{})
	if err == nil {
		_, err = log.Events(t.Context(), 0, 0)
		log.Close()
	}
	if !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}

// A path means a file of that name, whatever characters are in it.
func TestOddPaths(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a b.db", "50%25.db", "what?mode=memory", "#1.db", "é&_pragma=x.db", "sqlite:twice"} {
		if runtime.GOOS == "windows" && strings.ContainsAny(name, "?:") {
			continue
		}
		path := filepath.Join(t.TempDir(), name)
		log, err := store.Open(t.Context(), "sqlite:"+path, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Append(t.Context(), typicalEvents(0, 3)); err != nil {
			t.Fatal(err)
		}
		closeAll(t, log)
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestReadOnlyFolder(t *testing.T) {
	t.Parallel()
	folder, used := t.TempDir(), t.TempDir()
	closeAll(t, place{"SQLite", filepath.Join(used, "events.db")}.open(t, store.Options{}))
	for _, path := range []string{folder, used} {
		if err := os.Chmod(path, 0o500); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(path, 0o700) // or it could not be removed
	}
	if probe, err := os.Create(filepath.Join(folder, "probe")); err == nil {
		probe.Close()
		t.Skip("this user may write everywhere, so no folder is read-only")
	}
	for name, path := range map[string]string{"a new log": filepath.Join(folder, "events.db"),
		"one of before": filepath.Join(used, "events.db")} {
		t.Run(name, func(t *testing.T) {
			_, err := store.Open(t.Context(), path, store.Options{})
			if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "allow this user") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// When the disk is full, Append says so; what was acknowledged stays, and when there is room again, it goes on.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.db")
	log := place{"SQLite", path}.open(t, store.Options{})
	acknowledged := 0
	store.LimitPages(log, 100)
	var err error
	for range 100 {
		if _, err = log.Append(t.Context(), typicalEvents(acknowledged, 100)); err != nil {
			break
		}
		acknowledged += 100
	}
	if !errors.Is(err, store.ErrFull) || !strings.Contains(err.Error(), "free space") {
		t.Fatalf("after %d events: %v", acknowledged, err)
	}
	if totals, err := log.Totals(t.Context()); err != nil || totals.Events != int64(acknowledged) {
		t.Fatalf("%d acknowledged, %+v, %v", acknowledged, totals, err)
	}
	store.LimitPages(log, 1<<30)
	if result, err := log.Append(t.Context(), typicalEvents(acknowledged-50, 100)); err != nil || result.Stored != 50 {
		t.Fatalf("with room again: %+v, %v", result, err)
	}
	closeAll(t, log)
	checkFile(t, path, acknowledged+50)
}

// Two programs may share a file.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	p := place{"SQLite", filepath.Join(t.TempDir(), "events.db")}
	one, two := p.open(t, store.Options{}), p.open(t, store.Options{})
	for n := range 20 {
		for _, log := range []store.Store{one, two} {
			if _, err := log.Append(t.Context(), typicalEvents(n*10, 15)); err != nil {
				t.Fatal(err)
			}
		}
	}
	closeAll(t, one, two)
	checkFile(t, p.url, 205)
}

func TestClosed(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p place) {
		log := p.open(t, store.Options{})
		closeAll(t, log, log)
		_, appendErr := log.Append(t.Context(), typicalEvents(0, 1))
		_, eventsErr := log.Events(t.Context(), 0, 0)
		_, totalsErr := log.Totals(t.Context())
		for name, err := range map[string]error{"Append": appendErr, "Events": eventsErr, "Totals": totalsErr,
			"Ping": log.Ping(t.Context())} {
			t.Run(name, func(t *testing.T) {
				if !errors.Is(err, store.ErrClosed) {
					t.Error(err)
				}
			})
		}
	})
}

func TestPing(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p place) {
		if err := p.open(t, store.Options{}).Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A full queue refuses at once and says how long to wait; what it took in is stored.
func TestBusy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.db")
	log := place{"SQLite", path}.open(t, store.Options{Queue: 1000})
	holder, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	holder.SetMaxOpenConns(1)
	if _, err := holder.Exec(`BEGIN IMMEDIATE`); err != nil { // the writer has to wait
		t.Fatal(err)
	}
	const clients = 30
	answers := make(chan error, clients)
	for n := range clients {
		go func() {
			_, err := log.Append(context.Background(), typicalEvents(n*100, 100))
			answers <- err
		}()
	}
	for range clients - 10 { // 10 fit, the others are refused while nothing is written
		err := <-answers
		var busy *store.BusyError
		if !errors.As(err, &busy) || !errors.Is(err, store.ErrBusy) || busy.Wait <= 0 || busy.Wait > time.Minute {
			t.Fatalf("got %v", err)
		}
	}
	if _, err := holder.Exec(`ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := <-answers; err != nil {
			t.Fatal(err)
		}
	}
	closeAll(t, log)
	checkFile(t, path, 1000)
}

// A caller who goes away does not hold up the others, and Close answers those who wait.
func TestCancelled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.db")
	log := place{"SQLite", path}.open(t, store.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := log.Append(ctx, typicalEvents(0, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := log.Events(ctx, 0, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	holder, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	holder.SetMaxOpenConns(1)
	if _, err := holder.Exec(`BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	answers, closed := make(chan error, 1), make(chan error, 1)
	go func() { // whichever is first is being written, the other waits
		_, err := log.Append(context.Background(), typicalEvents(0, 10))
		answers <- err
	}()
	if _, err := log.Append(ctx, typicalEvents(10, 10)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	go func() { closed <- log.Close() }()
	poll(t, func() bool { // an empty Append does nothing but say whether the log is closed
		_, err := log.Append(t.Context(), nil)
		return errors.Is(err, store.ErrClosed)
	})
	if _, err := holder.Exec(`ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-answers, <-closed); err != nil {
		t.Fatal(err)
	}
}

func closeAll(t testing.TB, logs ...store.Store) {
	t.Helper()
	for _, log := range logs {
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// checkFile lets SQLite examine the whole file, and counts.
func checkFile(t testing.TB, path string, events int) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRow(`PRAGMA integrity_check`).Scan(&verdict); err != nil || verdict != "ok" {
		t.Fatalf("integrity check: %s, %v", verdict, err)
	}
	var rows, ids, last, total int
	row := db.QueryRow(`SELECT count(*), count(DISTINCT id), coalesce(max(seq), 0),
		(SELECT coalesce(sum(events), 0) FROM totals) FROM events`) // none where the kill came before the first event
	if err := row.Scan(&rows, &ids, &last, &total); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(rows, ids, last, total), fmt.Sprint(events, events, events, events); got != want {
		t.Fatalf("rows, ids, last Seq, total: %s, want %s", got, want)
	}
}
