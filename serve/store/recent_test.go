package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"
)

// requestsOf makes requests of events with some ids; a kind and a time follow from the id.
func requestsOf(ids ...[]int) (out []*request) {
	for _, own := range ids {
		r := &request{ctx: context.Background()}
		for _, id := range own {
			r.events = append(r.events, LogEvent{ID: fmt.Sprint("e", id), Kind: Kinds[id%len(Kinds)], Source: "a",
				Target: "b", At: time.UnixMicro(int64(1000 - id)).UTC()})
		}
		out = append(out, r)
	}
	return out
}

func openTest(t *testing.T, path string) *sqliteStore {
	t.Helper()
	opened, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { opened.Close() })
	return opened.(*sqliteStore)
}

// Appends that share a transaction each learn what was new of theirs, the first of equal ids being it, and the totals
// are those of what is stored.
func TestGroupsWithDuplicates(t *testing.T) {
	t.Parallel()
	s := openTest(t, filepath.Join(t.TempDir(), "events.db"))
	random := rand.New(rand.NewPCG(1, 7))
	seen := map[string]bool{}
	want := EventTotals{Kinds: map[Kind]int64{}}
	var log []string
	for range 60 {
		var ids [][]int
		for range 1 + random.IntN(4) {
			own := make([]int, 1+random.IntN(60))
			for k := range own {
				own[k] = random.IntN(5000)
			}
			ids = append(ids, own)
		}
		requests := requestsOf(ids...)
		if err := s.commit(requests); err != nil {
			t.Fatal(err)
		}
		for n, r := range requests {
			stored := 0
			for _, e := range r.events {
				if !seen[e.ID] {
					seen[e.ID] = true
					stored++
					log = append(log, e.ID)
					want.add(e.Kind, 1, e.At, e.At)
				}
			}
			if r.result != (Result{Stored: stored, Duplicate: len(r.events) - stored}) {
				t.Fatalf("request %d of %v: %+v, not %d new", n, ids, r.result, stored)
			}
		}
	}
	want.Seq = int64(len(log))
	got, err := s.Totals(t.Context())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("totals %+v, not %+v: %v", got, want, err)
	}
	events, err := s.Events(t.Context(), 0, 0)
	if err != nil || len(events) != len(log) {
		t.Fatalf("%d events, not %d: %v", len(events), len(log), err)
	}
	for k, e := range events {
		if e.ID != log[k] {
			t.Fatalf("event %d is %s, not %s", k+1, e.ID, log[k])
		}
	}
}

// Whoever follows the log by recent events, and by pages where there are none, sees each event once and in order: also
// while another program writes, after duplicates, and after more events than a page has.
func TestRecentEvents(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.db")
	logs := [2]*sqliteStore{openTest(t, path), openTest(t, path)}
	random := rand.New(rand.NewPCG(2, 7))
	var followed []LogEvent
	next, after, quick := 0, int64(0), 0
	follow := func() {
		for {
			page := logs[0].Recent(after)
			if page != nil {
				quick++
			} else if page, _ = logs[0].Events(t.Context(), after, 0); len(page) == 0 {
				return
			}
			followed = append(followed, page...)
			after = page[len(page)-1].Seq
		}
	}
	for step := range 200 {
		var ids []int
		for range 1 + random.IntN(30) {
			ids = append(ids, next)
			next++
		}
		if random.IntN(6) == 0 {
			ids = append(ids, random.IntN(next)) // a duplicate
		}
		if random.IntN(2) == 0 {
			follow()
		}
		if step == 100 {
			for range MaxPage {
				ids = append(ids, next)
				next++
			}
		}
		by := 0
		if random.IntN(4) == 0 {
			by = 1
		}
		if err := logs[by].commit(requestsOf(ids)); err != nil {
			t.Fatal(err)
		}
		if err := logs[0].commit(requestsOf([]int{next, next + 1})); err != nil {
			t.Fatal(err)
		}
		next += 2
	}
	follow()
	if quick < 20 {
		t.Errorf("only %d times were events still in memory", quick)
	}
	var all []LogEvent
	for e, err := range All(t.Context(), logs[1], 0) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	if !slices.Equal(all, followed) {
		t.Errorf("%d events were followed, of %d", len(followed), len(all))
	}
	if err := logs[0].commit(requestsOf([]int{next})); err != nil {
		t.Fatal(err)
	}
	if _, err := logs[0].Erase(t.Context(), func(node string) bool { return node == "a" }); err != nil {
		t.Fatal(err)
	}
	if left := logs[0].Recent(after); left != nil {
		t.Errorf("%d events are in memory after they were erased", len(left))
	}
}
