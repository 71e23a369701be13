package serve

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"unseen/serve/store"
)

// logOf stores events that a function makes, in requests of the store.
func logOf(t testing.TB, s *Service, n int, event func(k int) store.LogEvent) {
	t.Helper()
	for k := 0; k < n; {
		var batch []store.LogEvent
		for ; k < n && len(batch) < 2000; k++ {
			batch = append(batch, event(k))
		}
		if _, err := s.events.Append(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
}

// The events of a node, at either end, are found from the latest on, page by page and each once, with what was erased
// in between; those of others are not, nor those with somebody who is forgotten.
func TestNodeEvents(t *testing.T) {
	t.Parallel()
	s := open(t)
	c := client{t: t, h: s.Handler()}
	at := func(before int64, limit int) NodeEvents {
		t.Helper()
		return want[NodeEvents](c, http.StatusOK, "GET", fmt.Sprintf("/api/v1/nodes/p7/events?before=%d&limit=%d",
			before, limit), nil)
	}
	if none := at(0, 5); len(none.Events) != 0 || none.Searched != 0 || none.Next != 0 {
		t.Errorf("an empty log has %+v", none)
	}
	const all = 25_000
	noon := time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
	logOf(t, s, all, func(k int) store.LogEvent {
		e := store.LogEvent{ID: fmt.Sprint(k), Kind: store.Shown, Source: "p1", Target: "p2", Position: 3,
			Probability: .25, At: noon.Add(time.Duration(k) * time.Second)}
		switch {
		case k%1000 == 500:
			e.Source = "p7"
		case k%1000 == 501:
			e.Kind, e.Target = store.Clicked, "p7"
		case k%1000 == 502:
			e.Target = "p70" // another
		case k == all-3:
			e.Source, e.Target = "p7", "p8"
		case k%5000 == 7:
			e.Source = "p9"
		}
		return e
	})
	if _, err := s.events.Erase(t.Context(), func(id string) bool { return id == "p9" }); err != nil {
		t.Fatal(err)
	}
	if err := s.forgotten.add("p8"); err != nil {
		t.Fatal(err)
	}
	first := at(0, 3)
	if len(first.Events) != 3 || first.Events[0].Kind != store.Clicked || first.Events[0].Seq <= first.Events[1].Seq ||
		first.Counts[store.Shown] != 10 || first.Counts[store.Clicked] != 10 || first.Searched > maxSearchedEvents ||
		first.Searched < maxSearchedEvents-10 || first.Next != first.Events[2].Seq ||
		!first.Since.Equal(noon.Add((all-maxSearchedEvents)*time.Second)) {
		t.Errorf("%+v", first)
	}
	for _, limit := range []int{7, 1000} {
		seen := map[int64]bool{}
		for page := (NodeEvents{}); ; {
			if page = at(page.Next, limit); len(page.Events) > limit {
				t.Fatalf("%d events of %d", len(page.Events), limit)
			}
			for _, e := range page.Events {
				if seen[e.Seq] || e.Source != "p7" && e.Target != "p7" || e.Target == "p8" {
					t.Errorf("%+v, for the second time: %t", e, seen[e.Seq])
				}
				seen[e.Seq] = true
			}
			if page.Next == 0 {
				break
			}
		}
		if len(seen) != 2*all/1000 {
			t.Errorf("pages of %d have %d events together, want %d", limit, len(seen), 2*all/1000)
		}
	}
	for path, status := range map[string]int{"/api/v1/nodes/nobody/events": 404, "/api/v1/nodes/p8/events": 404,
		"/api/v1/nodes/p7/events?limit=1001": 422, "/api/v1/nodes/p7/events?before=-1": 422} {
		if w := c.do("GET", path, nil); w.Code != status {
			t.Errorf("%s: status %d, want %d", path, w.Code, status)
		}
	}
}

// The page of a node has its latest events and their numbers, as text whatever they hold, and the way to earlier ones;
// it takes the scope read. Without the log the page is still there.
func TestDataPageHasEvents(t *testing.T) {
	t.Parallel()
	tokens, of := withTokens(t)
	s := open(t, tokens)
	c := client{t: t, h: s.Handler(), token: of[ScopeRead]}
	const hostile = `<img src=x onerror="owned()">`
	logOf(t, s, 31, func(k int) store.LogEvent {
		e := store.LogEvent{ID: fmt.Sprint(k), Kind: store.Shown, Source: "p7", Target: fmt.Sprint("p", 10+k),
			Position: 2, Probability: .25, Surface: hostile}
		if k >= 29 {
			e.Kind = store.Clicked
		}
		return e
	})
	page := c.do("GET", "/data/node?id=p7", nil).Body.String()
	for _, says := range []string{"Latest events", "31 events of the log", "29 shown, 2 clicked, 0 linked, 0 dismissed",
		`href="/data/node?id=p40"`, "place 2 of " + html.EscapeString(hostile)[:4], "with probability 0.25",
		`id=p7&amp;before=22#events`} {
		if !strings.Contains(page, says) {
			t.Errorf("the page lacks %q", says)
		}
	}
	if strings.Contains(page, "<img") || strings.Contains(page, `href="/data/node?id=p30"`) {
		t.Error("the page has markup of an event, or more events than ten")
	}
	page = c.do("GET", "/data/node?id=p7&before=22", nil).Body.String()
	if !strings.Contains(page, "Earlier events") || !strings.Contains(page, `href="/data/node?id=p30"`) ||
		strings.Contains(page, `href="/data/node?id=p31"`) {
		t.Error("the page has no earlier events, or others")
	}
	c.token = ""
	for _, path := range []string{"/data/node?id=p7", "/api/v1/nodes/p7/events"} {
		if w := c.do("GET", path, nil); w.Code != 401 && w.Code != 303 || strings.Contains(w.Body.String(), "p40") {
			t.Errorf("%s without a token: %d", path, w.Code)
		}
	}
	c.token, s.events = of[ScopeRead], unavailableStore{s.events}
	if w := c.do("GET", "/data/node?id=p7", nil); w.Code != 200 ||
		!strings.Contains(w.Body.String(), "The event log cannot be read now") {
		t.Errorf("without the log: %d", w.Code)
	}
	if w := c.do("GET", "/api/v1/nodes/p7/events", nil); w.Code != 503 {
		t.Errorf("without the log, the API: %d", w.Code)
	}
}

// unavailableStore is a log whose database is down.
type unavailableStore struct{ store.Store }

func (unavailableStore) Totals(context.Context) (store.EventTotals, error) {
	return store.EventTotals{}, store.ErrUnavailable
}

// Who searches a long log of long names for a node gets an answer of bounded size, in bounded time and memory, also
// many at once.
func TestAttackNodeEvents(t *testing.T) {
	t.Parallel()
	s := open(t)
	c := client{t: t, h: s.Handler()}
	long := strings.Repeat("s", store.MaxNode)
	logOf(t, s, maxSearchedEvents+2000, func(k int) store.LogEvent {
		e := store.LogEvent{ID: fmt.Sprintf("%0*d", store.MaxID, k), Kind: store.Shown, Source: "p7", Target: long,
			List: strings.Repeat("l", store.MaxID), Model: strings.Repeat("m", store.MaxID)}
		if k%2 == 0 {
			e.Source = long
		}
		return e
	})
	// One search alone is answered, and says how long one takes on this machine now.
	search := func() (status int, took time.Duration) {
		start := time.Now()
		w := c.do("GET", "/api/v1/nodes/p7/events?limit=1000", nil)
		took = time.Since(start)
		switch {
		case w.Body.Len() > store.MaxPageBytes:
			t.Errorf("status %d, %d bytes", w.Code, w.Body.Len())
		case w.Code == 503 && w.Header().Get("Retry-After") != "": // it had no time, or others were before it
		case w.Code != 200 || !strings.Contains(w.Body.String(), fmt.Sprintf(`"searched":%d`, maxSearchedEvents)):
			t.Errorf("status %d; it searched more, or less", w.Code)
		}
		return w.Code, took
	}
	var calm time.Duration
	poll(t, "a search", func() bool {
		var status int
		status, calm = search()
		return status != 503
	})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if status, took := search(); took > answerTime+20*calm {
				t.Errorf("status %d after %v", status, took)
			}
		})
	}
	all.Wait()
	w := c.do("GET", "/data/node?id=p7", nil)
	if w.Code != 200 || w.Body.Len() > 256<<10 {
		t.Errorf("the page: status %d, %d bytes", w.Code, w.Body.Len())
	}
}
