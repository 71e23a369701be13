package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"unseen/serve/store"
)

// The log is read on while the state is saved: the lock is held for a copy of it, and not until the copy is encoded and
// written. Other programs on this machine may take the processor for a while, so that one of five tries has to show it.
func TestSaveHoldsNoLock(t *testing.T) {
	t.Parallel()
	var longest, took time.Duration
	for range 5 {
		w := &monitor{path: filepath.Join(t.TempDir(), "watch.json"), dirty: true}
		w.Models = map[string]*tally{"model": {}}
		for k := range 300_000 {
			w.Models["model"].add(store.Shown, fmt.Sprint("source-", k))
		}
		saved := make(chan error, 1)
		began := time.Now()
		go func() { saved <- w.save() }()
		longest = 0
		for done := false; !done; {
			select {
			case err := <-saved:
				if err != nil {
					t.Fatal(err)
				}
				done = true
			default:
				asked := time.Now()
				w.mu.Lock()
				longest = max(longest, time.Since(asked))
				w.mu.Unlock()
			}
		}
		if took = time.Since(began); longest < took/2 {
			break
		}
	}
	if longest >= took/2 {
		t.Errorf("somebody waited for the lock for %v of the %v that saving took", longest, took)
	}
}

// What is saved is the state of one moment, and is what a restart reads.
func TestSavedStateIsRead(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i := range 20 {
		if _, err := s.Recommend(t.Context(), RecommendRequest{Node: fmt.Sprint("p", i), Log: true}); err != nil {
			t.Fatal(err)
		}
	}
	before := settle(t, s)
	if err := s.monitor.save(); err != nil {
		t.Fatal(err)
	}
	s.monitor.mu.Lock()
	dirty, lists := s.monitor.dirty, s.monitor.drift.Lists()
	s.monitor.mu.Unlock()
	if dirty {
		t.Error("the state is saved and counts as changed")
	}
	read, err := openMonitor(s.monitor.path, s)
	if err != nil {
		t.Fatal(err)
	}
	if read.Seq != before.Seq || read.Shown != before.Shown || len(read.Models) != 1 ||
		len(read.Recent) != before.Items || read.drift == nil || read.drift.Lists() != lists {
		t.Errorf("read %d of %d events, %d shown items of %d", read.Seq, before.Seq, read.Shown, before.Shown)
	}
	read.Models["another"] = &tally{}
	read.path, read.dirty = filepath.Join(t.TempDir(), "none", "watch.json"), true
	if err := read.save(); err == nil || !read.dirty {
		t.Errorf("a state that could not be saved counts as saved (%v)", err)
	}
}

// A state whose keys are written as earlier versions did is read.
func TestOldStateIsRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "watch.json")
	old := `{"seq": 3, "shown": 2, "models": {
		"m": {"Shown": 2, "Clicked": 1, "Linked": 0, "Sources": {"p1": [2, 1, 0]}}}}`
	if err := os.WriteFile(path, []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := openMonitor(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m := w.Models["m"]; w.Seq != 3 || m == nil || m.Shown != 2 || m.Clicked != 1 ||
		*m.Sources["p1"] != [3]int32{2, 1} {
		t.Errorf("read %+v, model %+v", w.monitorState, m)
	}
}
