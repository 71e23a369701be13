package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"unseen/internal/postgrestest"
	"unseen/serve/store"
)

// reference is the log as simply as it can be said: a list and the set of ids.
type reference struct {
	events []store.LogEvent
	ids    map[string]bool
}

func (m *reference) append(events []store.LogEvent) (result store.Result) {
	for _, event := range events {
		if m.ids[event.ID] {
			result.Duplicate++
			continue
		}
		m.ids[event.ID] = true
		event.Seq = int64(len(m.events) + 1)
		event.At = event.At.Truncate(time.Microsecond).UTC()
		m.events = append(m.events, event)
		result.Stored++
	}
	return result
}

func (m *reference) page(after int64, limit int) []store.LogEvent {
	if limit <= 0 || limit > store.MaxPage {
		limit = store.MaxPage
	}
	from := min(max(after, 0), int64(len(m.events)))
	return m.events[from:min(from+int64(limit), int64(len(m.events)))]
}

func (m *reference) totals() store.EventTotals {
	totals := store.EventTotals{Seq: int64(len(m.events)), Events: int64(len(m.events)), Kinds: map[store.Kind]int64{}}
	for _, event := range m.events {
		totals.Kinds[event.Kind]++
		if totals.First.IsZero() || event.At.Before(totals.First) {
			totals.First = event.At
		}
		if event.At.After(totals.Last) {
			totals.Last = event.At
		}
	}
	return totals
}

// place opens and reopens one log of a kind of store.
type place struct {
	name string
	url  string
}

func (p place) open(t testing.TB, options store.Options) store.Store {
	t.Helper()
	log, err := store.Open(t.Context(), p.url, options)
	if err != nil {
		t.Fatalf("opening %s: %v", p.name, err)
	}
	t.Cleanup(func() { log.Close() })
	return log
}

// everywhere runs a test over an empty log of every kind that this machine offers.
func everywhere(t *testing.T, test func(*testing.T, place)) {
	t.Run("sqlite", func(t *testing.T) {
		test(t, place{"SQLite", filepath.Join(t.TempDir(), "events.db")})
	})
	t.Run("postgres", func(t *testing.T) {
		test(t, place{"PostgreSQL", postgrestest.Database(t)})
	})
}

// poll returns when a condition holds.
func poll(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited 30 seconds in vain")
		}
	}
}

// awkward are texts that have broken databases before.
var awkward = []string{
	"'; DROP TABLE events; --", `"quoted"`, `back\slash`, "$1", "?", "%s", "tab\tline\nreturn\r", "NULL", "\\N", "\\.",
	"{a,b}", "0x00",
	"naïve", "naïve", "日本語", "🦄", "\u202eright to left", "\ufeff", "\u00a0", " leading", "trailing ", "1", "1.0",
	"1e3", "\x01\x7f",
	"\U0010ffff", "\ufffd", strings.Repeat("é", 128), "A", "a",
}

func randomEvent(r *rand.Rand, ids int) store.LogEvent {
	text := func() string {
		if r.IntN(3) == 0 {
			return awkward[r.IntN(len(awkward))]
		}
		return fmt.Sprint("node-", r.IntN(50))
	}
	short := func(most int) string { // of some bytes at most, whole characters
		text, cut := text(), 0
		for at, char := range text {
			if cut = at + len(string(char)); cut > most {
				return text[:at]
			}
		}
		return text
	}
	id := fmt.Sprint("event-", r.IntN(ids))
	if r.IntN(10) == 0 {
		id = awkward[r.IntN(len(awkward))]
	}
	return store.LogEvent{
		ID: id, Kind: store.Kinds[r.IntN(len(store.Kinds))], Source: text(), Target: text(),
		Probability: []float64{0, 1, r.Float64(), 1e-300, 5e-324}[r.IntN(5)],
		Model:       []string{"", text()}[r.IntN(2)], List: []string{"", text()}[r.IntN(2)], Position: r.IntN(100),
		Surface:    []string{"", "home", short(store.MaxSurface)}[r.IntN(3)],
		Placed:     []float64{0, 1, r.Float64()}[r.IntN(3)],
		Candidates: []string{"", "all/12/0123456789ab", short(store.MaxCandidates)}[r.IntN(3)],
		At: time.Unix(r.Int64N(4_000_000_000), r.Int64N(1e9)).In(
			time.FixedZone("somewhere", r.IntN(24*3600)-12*3600)),
		Seq: r.Int64(), // must be ignored
	}
}

// A log behaves as the reference does, whatever is appended, however often, and across closing and opening.
func TestLogAgreesWithReference(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p place) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		model := &reference{ids: map[string]bool{}}
		log := p.open(t, store.Options{})
		compare := func() {
			t.Helper()
			after, limit := r.Int64N(int64(len(model.events)+10))-3, []int{0, 1, 7, 100, 1 << 30}[r.IntN(5)]
			got, err := log.Events(t.Context(), after, limit)
			if err != nil {
				t.Fatal(err)
			}
			if want := model.page(after, limit); len(got) != len(want) ||
				(len(got) > 0 && !reflect.DeepEqual(got, want)) {
				t.Fatalf("Events(%d, %d) differ:\n got %v\nwant %v", after, limit, got, want)
			}
			totals, err := log.Totals(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if want := model.totals(); !reflect.DeepEqual(totals, want) {
				t.Fatalf("totals %+v, want %+v", totals, want)
			}
		}
		compare()
		for step := range 60 {
			if step%20 == 19 {
				if err := log.Close(); err != nil {
					t.Fatal(err)
				}
				log = p.open(t, store.Options{Group: 1 + r.IntN(50)})
			}
			events := make([]store.LogEvent, []int{0, 1, 2, 9, 65, 200}[r.IntN(6)])
			for i := range events {
				events[i] = randomEvent(r, 2000)
			}
			sent := slices.Clone(events)
			got, err := log.Append(t.Context(), events)
			if err != nil {
				t.Fatal(err)
			}
			if want := model.append(events); got != want {
				t.Fatalf("step %d: %+v, want %+v", step, got, want)
			}
			if !slices.Equal(events, sent) {
				t.Fatal("Append changed its caller's events")
			}
			compare()
		}
		var all []store.LogEvent
		for event, err := range store.All(t.Context(), log, 0) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, event)
		}
		if !reflect.DeepEqual(all, model.events) {
			t.Fatal("All differs from the reference")
		}
	})
}

// Many clients at once, some sending what others send too: every event is there once, results add up, and a
// reader who follows by Seq sees each once and in order.
func TestManyClients(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p place) {
		log := p.open(t, store.Options{Group: 300})
		const clients, batches, batch = 8, 12, 25
		var sum store.Result
		var mu sync.Mutex
		var writers, follower sync.WaitGroup
		stop := make(chan struct{})
		followed := []store.LogEvent{}
		follower.Go(func() {
			for last, ended := int64(0), false; ; {
				select {
				case <-stop:
					ended = true
				default:
				}
				page, err := log.Events(context.Background(), last, 10)
				if err != nil {
					t.Error(err)
					return
				}
				for _, event := range page {
					if event.Seq != last+1 {
						t.Errorf("Seq %d follows %d", event.Seq, last)
					}
					last = event.Seq
				}
				followed = append(followed, page...)
				if ended && len(page) == 0 {
					return
				}
			}
		})
		for client := range clients {
			writers.Go(func() {
				for n := range batches {
					// by twos the same
					result, err := log.Append(context.Background(), typicalEvents((client/2*batches+n)*batch, batch))
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					sum.Stored += result.Stored
					sum.Duplicate += result.Duplicate
					mu.Unlock()
				}
			})
		}
		writers.Wait()
		close(stop)
		follower.Wait()
		half := clients / 2 * batches * batch
		if want := (store.Result{Stored: half, Duplicate: half}); sum != want {
			t.Errorf("results add up to %+v, want %+v", sum, want)
		}
		ids := map[string]bool{}
		for _, event := range followed {
			ids[event.ID] = true
		}
		if len(ids) != half || len(followed) != half {
			t.Errorf("followed %d events with %d ids, want %d", len(followed), len(ids), half)
		}
	})
}

// Services that start at the same moment make one log between them.
func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p place) {
		const services = 6
		var group sync.WaitGroup
		for n := range services {
			group.Go(func() {
				log, err := store.Open(context.Background(), p.url, store.Options{})
				if err != nil {
					t.Error(err)
					return
				}
				defer log.Close()
				if result, err := log.Append(context.Background(), typicalEvents(n, 2)); err != nil || result.Stored+
					result.Duplicate != 2 {
					t.Errorf("%+v, %v", result, err)
				}
			})
		}
		group.Wait()
		if totals, err := p.open(t, store.Options{}).Totals(t.Context()); err != nil || totals.Events != services+1 {
			t.Errorf("%+v, %v", totals, err)
		}
	})
}

func TestRefused(t *testing.T) {
	t.Parallel()
	good := store.LogEvent{ID: "a", Kind: store.Shown, Source: "s", Target: "t"}
	cases := map[string]struct {
		name   string
		change func(*store.LogEvent)
	}{
		"no id":           {"ID", func(e *store.LogEvent) { e.ID = "" }},
		"long id":         {"ID", func(e *store.LogEvent) { e.ID = strings.Repeat("x", 1<<20) }},
		"id a byte long":  {"ID", func(e *store.LogEvent) { e.ID = strings.Repeat("x", store.MaxID+1) }},
		"NUL":             {"Source", func(e *store.LogEvent) { e.Source = "a\x00b" }},
		"no UTF-8":        {"Target", func(e *store.LogEvent) { e.Target = "a\xffb" }},
		"surrogate":       {"Model", func(e *store.LogEvent) { e.Model = "\xed\xa0\x80" }},
		"long list":       {"List", func(e *store.LogEvent) { e.List = strings.Repeat("x", store.MaxID+1) }},
		"long node":       {"Source", func(e *store.LogEvent) { e.Source = strings.Repeat("x", store.MaxNode+1) }},
		"no target":       {"Target", func(e *store.LogEvent) { e.Target = "" }},
		"unknown kind":    {"Kind", func(e *store.LogEvent) { e.Kind = "seen" }},
		"huge kind":       {"Kind", func(e *store.LogEvent) { e.Kind = store.Kind(strings.Repeat("x", 1<<20)) }},
		"no kind":         {"Kind", func(e *store.LogEvent) { e.Kind = "" }},
		"probability":     {"Probability", func(e *store.LogEvent) { e.Probability = 1.0000001 }},
		"negative":        {"Probability", func(e *store.LogEvent) { e.Probability = -1e-9 }},
		"no number":       {"Probability", func(e *store.LogEvent) { e.Probability = nan() }},
		"placed":          {"Placed", func(e *store.LogEvent) { e.Placed = 1.0000001 }},
		"placed below 0":  {"Placed", func(e *store.LogEvent) { e.Placed = -1e-9 }},
		"placed nowhere":  {"Placed", func(e *store.LogEvent) { e.Placed = nan() }},
		"long surface":    {"Surface", func(e *store.LogEvent) { e.Surface = strings.Repeat("x", store.MaxSurface+1) }},
		"NUL surface":     {"Surface", func(e *store.LogEvent) { e.Surface = "home\x00" }},
		"candidates":      {"Candidates", func(e *store.LogEvent) { e.Candidates = "all/1/\xff" }},
		"many candidates": {"Candidates", func(e *store.LogEvent) { e.Candidates = strings.Repeat("x", 129) }},
		"negative place":  {"Position", func(e *store.LogEvent) { e.Position = -1 }},
		"far away place":  {"Position", func(e *store.LogEvent) { e.Position = 1 << 40 }},
		"year of a typo":  {"At", func(e *store.LogEvent) { e.At = time.Date(20250, 1, 1, 0, 0, 0, 0, time.UTC) }},
		"seconds as nano": {"At", func(e *store.LogEvent) { e.At = time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC) }},
	}
	log := place{"SQLite", filepath.Join(t.TempDir(), "events.db")}.open(t, store.Options{})
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bad := good
			c.change(&bad)
			_, err := log.Append(t.Context(), []store.LogEvent{good, bad})
			var invalid *store.InvalidError
			if !errors.As(err, &invalid) || !errors.Is(err, store.ErrInvalid) {
				t.Fatalf("got %v, want an InvalidError", err)
			}
			if invalid.Index != 1 || invalid.Name != c.name {
				t.Errorf("blames event %d, %s: %v", invalid.Index, invalid.Name, err)
			}
			if len(err.Error()) > 200 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
	if _, err := log.Append(t.Context(), make([]store.LogEvent, store.MaxAppend+1)); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("too many events: %v", err)
	}
	if totals, err := log.Totals(t.Context()); err != nil || totals.Events != 0 {
		t.Errorf("refused Appends left %+v, %v", totals, err)
	}
}

func nan() float64 { zero := 0.0; return zero / zero }

func TestClockFillsTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 123_456_789, time.UTC)
	log := place{"SQLite", filepath.Join(t.TempDir(), "events.db")}.open(t,
		store.Options{Now: func() time.Time { return now }})
	if _, err := log.Append(t.Context(), []store.LogEvent{{ID: "a", Kind: store.Linked, Source: "s",
		Target: "t"}}); err != nil {
		t.Fatal(err)
	}
	events, err := log.Events(t.Context(), 0, 0)
	if err != nil || len(events) != 1 || !events[0].At.Equal(now.Truncate(time.Microsecond)) {
		t.Errorf("got %v, %v", events, err)
	}
}

// A moment is one wherever it was noted, also where the year was another there.
func TestTimesOfAnyZone(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p place) {
		log := p.open(t, store.Options{})
		for id, at := range map[string]time.Time{
			"first": time.Unix(0, 0).In(time.FixedZone("west", -3600)),
			"last":  time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC).In(time.FixedZone("east", 3600)),
		} {
			t.Run(id, func(t *testing.T) {
				if _, err := log.Append(t.Context(),
					[]store.LogEvent{{ID: id, Kind: store.Shown, Source: "s", Target: "t", At: at}}); err != nil {
					t.Error(err)
				}
			})
		}
		totals, err := log.Totals(t.Context())
		if err != nil || !totals.First.Equal(time.Unix(0, 0)) || totals.Last.Year() != 9999 {
			t.Errorf("%+v, %v", totals, err)
		}
	})
}

// Whatever the text, an event is stored and comes back as it was, or is refused and leaves nothing.
func FuzzAppend(f *testing.F) {
	for _, text := range append(slices.Clone(awkward), "", "a\x00b", "a\xffb", strings.Repeat("x", 2000)) {
		f.Add(text, "source", text, "", 0.5, 3, int64(1e15), "home", 0.25, text)
		f.Add("id", text, "target", text, 0.0, 0, int64(0), text, 0.0, "all/12/0123456789ab")
	}
	log, err := store.Open(f.Context(), filepath.Join(f.TempDir(), "events.db"),
		store.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { log.Close() })
	var mu sync.Mutex
	f.Fuzz(func(t *testing.T, id, source, target, list string, probability float64, position int, micro int64,
		surface string, placed float64, candidates string) {
		mu.Lock()
		defer mu.Unlock()
		before, err := log.Totals(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		event := store.LogEvent{ID: id, Kind: store.Shown, Source: source, Target: target, List: list,
			Probability: probability, Position: position, At: time.UnixMicro(micro).UTC(), Surface: surface,
			Placed: placed, Candidates: candidates}
		result, err := log.Append(t.Context(), []store.LogEvent{event})
		if err != nil && !errors.Is(err, store.ErrInvalid) {
			t.Fatal(err)
		}
		got, readErr := log.Events(t.Context(), before.Events, 0)
		if readErr != nil {
			t.Fatal(readErr)
		}
		if len(got) != result.Stored {
			t.Fatalf("%+v, %v, but %d new events", result, err, len(got))
		}
		if len(got) == 1 {
			event.Seq = before.Events + 1
			if !reflect.DeepEqual(got[0], event) {
				t.Fatalf("got %+v, want %+v", got[0], event)
			}
		}
	})
}
