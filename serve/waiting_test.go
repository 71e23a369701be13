package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"unseen/serve/store"
)

// Events about unknown ids are answered as such, survive a restart, and are in the log when their nodes have come;
// those of nodes that are known are not held up.
func TestWaitingEvents(t *testing.T) {
	t.Parallel()
	folder := copyOf(t)
	s, err := Open(t.Context(), Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	event := func(id, source, target string) store.LogEvent {
		return store.LogEvent{ID: id, Kind: store.Clicked, Source: source, Target: target}
	}
	c := client{t: t, h: s.Handler()}
	batch := eventBatch{[]store.LogEvent{event("a", "p1", "p2"), event("b", "p1", "new"), event("c", "newer", "new"),
		event("d", "p3", "p4"), event("e", "text:0123456789abcdef", "p4")}}
	r := want[EventResult](c, 200, "POST", "/api/v1/events", batch)
	if r.Stored != 3 || r.Waiting != 2 || !slices.Equal(r.Unknown, []string{"new", "newer"}) {
		t.Fatalf("%+v", r)
	}
	if r := want[EventResult](c, 200, "POST", "/api/v1/events", batch); r.Duplicate != 5 || r.Waiting != 0 {
		t.Errorf("sent again: %+v", r)
	}
	batch.Events[4].Kind = "bought"
	if w := c.do("POST", "/api/v1/events", batch); w.Code != 422 || faults(w) != "body.events[4].kind" {
		t.Error(w.Code, faults(w))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(t.Context(), Options{Folder: folder}); err != nil {
		t.Fatal(err)
	}
	c = client{t: t, h: s.Handler()}
	vector := make([]float32, 8)
	vector[3] = 1
	put := func(id string) CatalogueResult {
		t.Helper()
		return want[CatalogueResult](c, 200, "PUT", "/api/v1/nodes/"+id, NodeInput{Vector: &vector})
	}
	if n := put("new").Adopted; n != 1 {
		t.Errorf("%d events were adopted", n)
	}
	if n := put("other").Adopted; n != 0 {
		t.Errorf("%d events of another node were adopted", n)
	}
	if n := put("newer").Adopted; n != 1 || s.waiting.count() != 0 {
		t.Errorf("%d events were adopted, %d wait", n, s.waiting.count())
	}
	page := want[EventPage](c, 200, "GET", "/api/v1/events", nil)
	if page.Total != 5 || page.Events[3].ID != "b" || page.Events[4].Source != "newer" {
		t.Errorf("%+v", page)
	}
	want[CatalogueResult](c, 200, "DELETE", "/api/v1/nodes?id=p2", nil)
	if r := want[EventResult](c, 200, "POST", "/api/v1/events", eventBatch{[]store.LogEvent{event("f", "p1",
		"p2")}}); r.Stored != 1 {
		t.Errorf("an event of a removed node: %+v", r)
	}
	want[EventResult](c, 200, "POST", "/api/v1/events", eventBatch{[]store.LogEvent{event("g", "p1", "zaphod")}})
	want[Forgotten](c, 200, "DELETE", "/api/v1/nodes/zaphod", nil)
	if found := filesWith(t, folder, "zaphod"); found != nil || s.waiting.count() != 0 {
		t.Errorf("the forgotten one is in %v, and %d events wait", found, s.waiting.count())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(t.Context(), Options{Folder: folder}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n := s.waiting.count(); n != 0 {
		t.Errorf("%d events wait again after a restart", n)
	}
}

// However many events have invented ids, those that wait are bounded, in memory and on disk.
func TestAttackWaitingEvents(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "waiting.log")
	w, err := openWaiting(path)
	if err != nil {
		t.Fatal(err)
	}
	long := string(slices.Repeat([]byte("x"), 900))
	for b := range 30 {
		call := &waitingCall{}
		for k := range 5000 {
			call.events = append(call.events, store.LogEvent{ID: fmt.Sprint(b, "-", k), Kind: store.Shown,
				Source: fmt.Sprint(long, b, k), Target: "x"})
		}
		w.group.Add(call)
		if call.err != nil {
			t.Fatal(call.err)
		}
	}
	check := func(w *waitingEvents) {
		t.Helper()
		if w.bytes > maxWaitingBytes || len(w.events) > maxWaitingEvents || len(w.ids) != len(w.events) ||
			len(w.about) != len(w.events)+1 || w.events[len(w.events)-1].ID != "29-4999" {
			t.Errorf("%d events of %d bytes, %d ids", len(w.events), w.bytes, len(w.about))
		}
	}
	check(w)
	if info, err := os.Stat(path); err != nil || info.Size() > 2*maxWaitingBytes {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
	if err := w.file.Close(); err != nil {
		t.Fatal(err)
	}
	if w, err = openWaiting(path); err != nil {
		t.Fatal(err)
	}
	check(w)
	w.file.Close()
}
