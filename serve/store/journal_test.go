package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const journalName = "unseen test 1"

// readJournal opens a journal and returns its lines.
func readJournal(t testing.TB, path string) (*Journal, []string, error) {
	t.Helper()
	var lines []string
	j, err := OpenJournal(path, journalName, func(line []byte) error {
		lines = append(lines, string(line))
		return nil
	})
	if err == nil {
		t.Cleanup(func() { j.Close() })
	}
	return j, lines, err
}

// Wherever a crash cuts the file, the whole lines before are there and the next ones follow; damage in the middle is
// reported.
func TestJournalIsCutAnywhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	j, _, err := readJournal(t, path)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`{"a":1}`, "", strings.Repeat("long ", 20_000), "last"}
	for _, line := range want {
		if err := j.Append([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := len(whole); cut >= 0; cut -= 1 + cut/97 {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		j, lines, err := readJournal(t, path)
		if err != nil || !slices.Equal(lines, want[:len(lines)]) || j.Len() != len(lines) {
			t.Fatalf("cut at %d: %d lines, %v", cut, len(lines), err)
		}
		if err := j.Append([]byte("next")); err != nil {
			t.Fatal(err)
		}
		if _, again, err := readJournal(t, path); err != nil || !slices.Equal(again, append(lines, "next")) {
			t.Fatalf("cut at %d, after the next line: %d lines, %v", cut, len(again), err)
		}
	}
	for _, at := range []int{len(journalName) + 3, len(journalName) + 12, len(whole) / 2} {
		damaged := bytes.Clone(whole)
		damaged[at] ^= 1
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := readJournal(t, path); !errors.Is(err, ErrDamaged) {
			t.Errorf("damage at %d: %v", at, err)
		}
	}
	for text, kind := range map[string]error{"unseen test 2\n": ErrNewer, "something else\n": ErrForeign} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := readJournal(t, path); !errors.Is(err, kind) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestJournalRewritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	j, _, err := readJournal(t, path)
	if err != nil {
		t.Fatal(err)
	}
	for k := range 100 {
		if err := j.Append([]byte(fmt.Sprint("line ", k)), []byte("secret")); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Rewrite(slices.Values([][]byte{[]byte("kept")})); err != nil {
		t.Fatal(err)
	}
	if err := j.Append([]byte("more")); err != nil || j.Len() != 2 {
		t.Fatal(err, j.Len())
	}
	if err := j.Append([]byte("two\nlines")); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	_, lines, err := readJournal(t, path)
	raw, _ := os.ReadFile(path)
	if err != nil || !slices.Equal(lines, []string{"kept", "more"}) || int64(len(raw)) != j.Size() {
		t.Errorf("%q %v", lines, err)
	}
}

// Every item is in one group, and Add returns after it.
func TestGrouped(t *testing.T) {
	var groups int
	done := map[int]bool{}
	q := &Grouped[int]{Do: func(items []int) { // never twice at a time, or the race detector says so
		groups++
		for _, item := range items {
			if done[item] {
				t.Errorf("%d twice", item)
			}
			done[item] = true
		}
	}}
	var group sync.WaitGroup
	for k := range 500 {
		group.Go(func() {
			q.Add(k)
			q.Alone(func() {
				if !done[k] {
					t.Errorf("%d was not done", k)
				}
			})
		})
	}
	group.Wait()
	if len(done) != 500 || groups > 500 {
		t.Errorf("%d items in %d groups", len(done), groups)
	}
}

// FuzzJournal opens files of any content: they are read or refused, and what is read can be appended to.
func FuzzJournal(f *testing.F) {
	title := journalName + "\n"
	f.Add([]byte(title))
	f.Add([]byte(title[:4]))
	f.Add(append([]byte(title), appendJournalLine(nil, []byte("a"))...))
	f.Add(append([]byte(title), appendJournalLine([]byte("x\n"), []byte("a"))...))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "a.log")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		j, lines, err := readJournal(t, path)
		if err != nil {
			return
		}
		if err := j.Append([]byte("next")); err != nil {
			t.Fatal(err)
		}
		if _, again, err := readJournal(t, path); err != nil || !slices.Equal(again, append(lines, "next")) {
			t.Errorf("%q: %d lines, then %d, %v", content, len(lines), len(again), err)
		}
	})
}
