package serve

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"unseen/internal/racetest"
	"unseen/serve/store"
)

// versionedFiles are the files of the state that have a version.
var versionedFiles = []string{"models/registry.json", "jobs.json", "watch.json", "events.db"}

// logAsBefore turns the event log of a state folder into what an earlier version would have written: the second has no
// surface, place probability and candidates, the first no table of what was compacted either.
func logAsBefore(t testing.TB, folder string, version int) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(folder, "events.db"))
	if err != nil {
		t.Fatal(err)
	}
	undo := ""
	if version == 1 {
		undo = `DROP TABLE names; DROP TABLE compacted; DROP TABLE clock; DROP TABLE arrivals;`
	}
	for _, table := range []string{"events", "compacted"}[:version] {
		for _, column := range []string{"surface", "placed", "candidates"} {
			undo += fmt.Sprintf(`ALTER TABLE %s DROP COLUMN %s;`, table, column)
		}
	}
	if _, err := db.Exec(undo + fmt.Sprintf(`PRAGMA user_version = %d; VACUUM; PRAGMA wal_checkpoint(TRUNCATE)`,
		version)); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// asBefore turns a state folder into what the first version would have written: no file but the event log has a
// version, and jobs are a list. It returns the files.
func asBefore(t testing.TB, folder string) map[string][]byte {
	t.Helper()
	for _, name := range versionedFiles[:3] {
		path := filepath.Join(folder, name)
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var content map[string]any
		if err := json.Unmarshal(raw, &content); err != nil {
			t.Fatal(err)
		}
		var before any = content
		if delete(content, "version"); name == "jobs.json" {
			before = content["jobs"]
		}
		if raw, err = json.Marshal(before); err == nil {
			err = os.WriteFile(path, raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	logAsBefore(t, folder, 1)
	files := map[string][]byte{}
	for _, name := range versionedFiles {
		var err error
		if files[name], err = os.ReadFile(filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// usedFolder is the state of a service that has logged, trained and tested.
func usedFolder(t testing.TB) string {
	t.Helper()
	s := open(t)
	logLists(t, s, 100, 130)
	job, err := s.StartJob(JobRequest{Kind: "retrain", Method: "naive", TrainOnly: true})
	if err == nil {
		job, err = s.WaitJob(t.Context(), job.ID)
	}
	if err == nil {
		_, err = s.StartABTest(t.Context(), ABTestRequest{Model: job.Model, Share: .5})
	}
	if err != nil {
		t.Fatal(err)
	}
	logLists(t, s, 130, 140)
	settle(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return s.o.State
}

// The log of the version before is opened with all that is in it, and what it did not know is empty. A copy of it
// stays, with which that version goes on.
func TestLogOfTheVersionBefore(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestJobsSurviveARestart opens and closes the like")
	folder := usedFolder(t)
	logAsBefore(t, folder, 2)
	for range 2 {
		s, err := Open(t.Context(), Options{Folder: folder})
		if err != nil {
			t.Fatal(err)
		}
		events, err := s.Events(t.Context(), 0, 10_000)
		if err != nil || len(events.Events) != 413 {
			t.Errorf("%d events, %v", len(events.Events), err)
		}
		for _, e := range events.Events {
			if e.Surface != "" || e.Placed != 0 || e.Candidates != "" || e.Source == "" || e.Model == "" {
				t.Fatalf("got %+v", e)
			}
		}
		a, err := s.Recommend(t.Context(), RecommendRequest{Node: "p140", K: 1, Log: true, Surface: "home"})
		if err != nil {
			t.Fatal(err)
		}
		last, err := s.Events(t.Context(), 413, 10)
		if err != nil || len(last.Events) != 1 || last.Events[0].Surface != "home" ||
			last.Events[0].Candidates != a.CandidateSet {
			t.Errorf("%v, %+v", err, last)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		// As docs/service.md says.
		if err := os.Rename(filepath.Join(folder, "events.db.v2"), filepath.Join(folder, "events.db")); err != nil {
			t.Fatal(err)
		}
	}
}

// The state of the first version is opened with all that is in it, and copies of its files stay. With these copies in
// their places that version goes on, and this one can follow again.
func TestStateOfTheVersionBefore(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestJobsSurviveARestart opens and closes the like")
	folder := usedFolder(t)
	before := asBefore(t, folder)
	look := func() string {
		t.Helper()
		s, err := Open(t.Context(), Options{Folder: folder})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		loop, models, test := settle(t, s), s.Models(), s.Compare()
		events, err := s.Events(t.Context(), 0, 10_000)
		if err != nil || len(events.Events) != 413 || test.ABTest == nil || len(models.Models) < 2 {
			t.Fatalf("%d events, %v, %+v, %+v", len(events.Events), err, test, models)
		}
		jobs := s.Jobs().Jobs
		logLists(t, s, 140, 141)
		known, err := json.Marshal(models)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(loop.Shown, loop.Share, string(known), jobs[0].ID, jobs[0].State, jobs[0].Model,
			test.Arms[0].Shown, test.Arms[1].Shown)
	}
	first := look()
	for _, name := range versionedFiles {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join(folder, name+".v1"))
			if err != nil || name != "events.db" && !bytes.Equal(raw, before[name]) {
				t.Errorf("%v: the copy of %s has %d bytes, the file had %d", err, name, len(raw), len(before[name]))
			}
			if info, err := os.Stat(filepath.Join(folder, name+".v1")); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the copy is readable by others: %v, %v", info, err)
			}
		})
	}
	// As docs/service.md says.
	for _, name := range versionedFiles {
		if err := os.Rename(filepath.Join(folder, name+".v1"), filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	var jobs []Job // what the version before read
	raw, err := os.ReadFile(filepath.Join(folder, "jobs.json"))
	if err == nil {
		err = json.Unmarshal(raw, &jobs)
	}
	if err != nil || len(jobs) != 1 {
		t.Errorf("jobs after going back: %v, %+v", err, jobs)
	}
	if again := look(); again != first {
		t.Errorf("after going back and forth:\n%s\n%s", first, again)
	}
}

// Each file of a later version is refused by its name, with what to do, and nothing is changed.
func TestAttackNewerState(t *testing.T) {
	t.Parallel()
	folder := usedFolder(t)
	for _, name := range append([]string{"forgotten.json"}, versionedFiles...) {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			if err := os.CopyFS(state, os.DirFS(folder)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(state, name)
			if name == "events.db" {
				db, err := sql.Open("sqlite", path)
				if err == nil {
					_, err = db.Exec(`PRAGMA user_version = 99; PRAGMA wal_checkpoint(TRUNCATE)`)
					db.Close()
				}
				if err != nil {
					t.Fatal(err)
				}
			} else if err := os.WriteFile(path, []byte(`{"version": 99, "jobs": "otherwise"}`), 0o600); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), Options{Folder: state})
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, store.ErrNewer) || !strings.Contains(err.Error(), path) ||
				!strings.Contains(err.Error(), "version is 99") || !strings.Contains(err.Error(), "upgrade") {
				t.Errorf("got %v", err)
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
				t.Errorf("the file was changed, %v", err)
			}
		})
	}
}

// Counts of more events than the log has are of another log, and are counted again.
func TestAttackReplacedLog(t *testing.T) {
	t.Parallel()
	folder := usedFolder(t)
	if err := os.Remove(filepath.Join(folder, "events.db")); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	logLists(t, s, 100, 101)
	poll(t, "the ten items of the new log", func() bool { loop := s.Loop(); return loop.Shown == 10 && loop.Seq == 10 })
}
