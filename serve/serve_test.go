package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"unseen/evaluate"
	"unseen/hint"
	"unseen/internal/atomicfile"
	"unseen/model"
	"unseen/serve/store"
)

func TestRecommendations(t *testing.T) {
	t.Parallel()
	s := open(t)
	c := client{t: t, h: s.Handler()}
	a := c.list("node=p100&k=5&seed=42&compare=true&explain=true")
	if len(a.Items) != 5 || len(a.Naive) != 5 || a.Explore != .1 || a.Seed != 42 || a.Items[0].Why == nil {
		t.Fatalf("got %+v", a)
	}
	if !strings.Contains(a.List, "-000000000000002a-") || modelOfList(a.List) != a.Model[:12] {
		t.Errorf("list %q does not say its seed and model %q", a.List, a.Model)
	}
	if of := modelOfList("0c398d55d00ab626-9f2c1a44d0be-5f3a9c01b2d7"); of != "9f2c1a44d0be" {
		t.Errorf("a list of an earlier version is of model %q", of)
	}
	if next := c.list("node=p100&k=5&seed=1"); next.List <= a.List {
		t.Errorf("list %q does not come after %q, which was made before", next.List, a.List)
	}
	drawn := false
	for _, item := range a.Items {
		if !(item.Shown > 0 && item.Shown <= 1) {
			t.Errorf("%s is shown with probability %v", item.ID, item.Shown)
		}
		drawn = drawn || item.Shown < 1
	}
	if !drawn {
		t.Error("nothing explored, and a tenth was asked for")
	}
	b := want[RecommendResponse](c, 200, "POST", "/api/v1/recommendations",
		RecommendRequest{Node: "p100", K: 5, Seed: &a.Seed})
	for k := range a.Items {
		if a.Items[k].ID != b.Items[k].ID || a.Items[k].Shown != b.Items[k].Shown {
			t.Errorf("place %d: %v and %v by the same seed", k, a.Items[k], b.Items[k])
		}
	}
	if a.List == b.List {
		t.Error("two lists have one id")
	}
	field := a.Items[0].Field
	only := want[RecommendResponse](c, 200, "GET", "/api/v1/recommendations?node=p100&k=5&explore=0&fields="+
		strings.ReplaceAll(field, " ", "%20"), nil)
	for _, item := range only.Items {
		if item.Field != field || item.Shown != 1 {
			t.Errorf("asked for %s undrawn, got %+v", field, item)
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	c := client{t: t, h: open(t).Handler()}
	for _, test := range []struct {
		method, path string
		body         any
		status       int
		location     string
	}{
		{"GET", "/api/v1/recommendations", nil, 422, "node"},
		{"GET", "/api/v1/recommendations?node=nobody", nil, 404, "node"},
		{"GET", "/api/v1/recommendations?node=p1&text=x", nil, 422, "node"},
		{"GET", "/api/v1/recommendations?node=p1&k=0", nil, 422, "query.k"},
		{"GET", "/api/v1/recommendations?node=p1&k=9999999999999999999", nil, 422, "query.k"},
		{"GET", "/api/v1/recommendations?node=p1&explore=2", nil, 422, "explore"},
		{"GET", "/api/v1/recommendations?node=p1&explore=NaN", nil, 422, "explore"},
		{"GET", "/api/v1/recommendations?node=p1&explore=.5&diversity=.5", nil, 422, "explore"},
		{"GET", "/api/v1/recommendations?node=p1&fields=Alchemy", nil, 422, "fields"},
		{"GET", "/api/v1/recommendations?node=p1&from=yesterday", nil, 422, "from"},
		{"GET", "/api/v1/recommendations?node=p1&from=2020&until=2010", nil, 422, "until"},
		{"GET", "/api/v1/recommendations?text=anything", nil, 422, "text"},
		{"GET", "/api/v1/recommendations?node=p1&colour=red", nil, 422, "query.colour"},
		{"POST", "/api/v1/recommendations", map[string]any{"node": "p1", "k": -4}, 422, "k"},
		{"POST", "/api/v1/recommendations", map[string]any{"node": 7}, 422, "body.node"},
		{"GET", "/api/v1/nodes/nobody", nil, 404, "id"},
		{"GET", "/api/v1/nodes?limit=100000", nil, 422, "query.limit"},
		{"POST", "/api/v1/events", eventBatch{}, 422, "body.events"},
		{"POST", "/api/v1/events",
			eventBatch{[]store.LogEvent{{ID: "a", Kind: "seen", Source: "p1", Target: "p2"}}}, 422,
			"body.events[0].kind"},
		{"POST", "/api/v1/events", eventBatch{[]store.LogEvent{{ID: "a", Kind: "shown", Source: "p1", Target: "p2",
			Probability: 2}}}, 422, "body.events[0].probability"},
		{"POST", "/api/v1/events", eventBatch{[]store.LogEvent{{ID: "a", Kind: "shown", Source: "p1", Target: "p2",
			Placed: 2}}}, 422, "body.events[0].placed"},
		{"POST", "/api/v1/events", eventBatch{[]store.LogEvent{{ID: "a", Kind: "shown", Source: "p1", Target: "p2",
			Surface: strings.Repeat("x", 65)}}}, 422, "body.events[0].surface"},
		{"POST", "/api/v1/events", eventBatch{[]store.LogEvent{{ID: "a", Kind: "shown", Source: "p1", Target: "p2",
			Candidates: strings.Repeat("é", 65)}}}, 422, "body.events[0].candidates"},
		{"POST", "/api/v1/recommendations", RecommendRequest{Node: "p1", Surface: strings.Repeat("x", 65)}, 422,
			"surface"},
		{"POST", "/api/v1/recommendations", RecommendRequest{Node: "p1", Surface: "home\x00"}, 422, "surface"},
		{"POST", "/api/v1/events",
			eventBatch{[]store.LogEvent{{ID: "a\x00", Kind: "shown", Source: "p1", Target: "p2"}}}, 422,
			"body.events[0].id"},
		{"POST", "/api/v1/jobs", JobRequest{Kind: "dance"}, 422, "body.kind"},
		{"POST", "/api/v1/jobs", JobRequest{Kind: "retrain", Method: "alchemy"}, 422, "method"},
		{"GET", "/api/v1/jobs/77", nil, 404, ""},
		{"POST", "/api/v1/models/rollback", nil, 409, ""},
		{"POST", "/api/v1/models/abcdef123456/deploy", nil, 404, ""},
		{"PUT", "/api/v1/ab-test", ABTestRequest{Model: "abcdef123456", Share: .5}, 404, ""},
		{"GET", "/api/v2/nodes", nil, 404, ""},
		{"DELETE", "/api/v1/nodes", nil, 422, "query.id"},
		{"DELETE", "/api/v1/model", nil, 405, ""},
	} {
		t.Run(test.method+" "+test.path, func(t *testing.T) {
			w := c.do(test.method, test.path, test.body)
			if w.Code != test.status || faults(w) != test.location {
				t.Errorf("status %d at %q, want %d at %q\n%s", w.Code, faults(w), test.status, test.location, w.Body)
			}
			if kind := w.Header().Get("Content-Type"); kind != "application/problem+json" {
				t.Errorf("content type %q", kind)
			}
			if p := problemOf(t, w); p.Hint == "" || p.Title == "" || p.Status != test.status {
				t.Errorf("%s has no hint", w.Body)
			}
			if id := w.Header().Get("X-Request-Id"); id == "" || !strings.Contains(w.Body.String(), id) {
				t.Errorf("the response does not name its request %q", id)
			}
		})
	}
}

func problemOf(t *testing.T, w *httptest.ResponseRecorder) (p problem) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return p
}

// An error says what to do as data: a hint, and the settings that it names, which the OpenAPI document describes.
func TestHintsAreData(t *testing.T) {
	t.Parallel()
	c := client{t: t, h: open(t).Handler()}
	alone := client{t: t, h: open(t, func(o *Options) {
		if err := os.Remove(filepath.Join(o.Folder, "naive.safetensors")); err != nil {
			t.Fatal(err)
		}
	}).Handler()}
	for _, test := range []struct {
		c          client
		path, hint string
		settings   []hint.Setting
	}{
		{c, "recommendations?node=p1&explore=2", "give from 0 to 1", nil},
		{c, "recommendations?node=p1&field=x", "use fields to select targets", []hint.Setting{"fields"}},
		{c, "recommendations?node=p1&explore=.5&seen=true", "set explore to 0, or leave out diversity and seen",
			[]hint.Setting{"explore", "diversity", "seen"}},
		{c, "recommendations?node=nobody", "see /api/v1/nodes", nil},
		{c, "jobs/77", "see /api/v1/jobs", nil},
		{c, "nothing", "see /docs", nil},
		{alone, "bridges", "fit one and set naive of the service", []hint.Setting{"naive"}},
		{alone, "recommendations?node=p1&compare=true", "leave compare out, or fit one and set naive of the service",
			[]hint.Setting{"compare", "naive"}},
	} {
		w := test.c.do("GET", "/api/v1/"+test.path, nil)
		if p := problemOf(t, w); p.Hint != test.hint || !slices.Equal(p.Settings, test.settings) ||
			!strings.HasSuffix(p.Detail, "; "+test.hint) {
			t.Errorf("%s: %s", test.path, w.Body)
		}
	}
	var api struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal(c.do("GET", "/openapi.json", nil).Body.Bytes(), &api); err != nil {
		t.Fatal(err)
	}
	properties := api.Components.Schemas["Problem"].Properties
	for _, key := range []string{"detail", "hint", "settings"} {
		if properties[key] == nil {
			t.Errorf("the schema of a problem has no %s: %v", key, properties)
		}
	}
}

// What can be asked over HTTP can be asked in Go, with the same answer.
func TestGoLikeHTTP(t *testing.T) {
	t.Parallel()
	s := open(t)
	c := client{t: t, h: s.Handler()}
	if _, err := s.Recommend(t.Context(), RecommendRequest{Node: "p9", K: 3, Log: true}); err != nil {
		t.Fatal(err)
	}
	job, err := s.StartJob(JobRequest{Kind: "evaluate"})
	if err != nil {
		t.Fatal(err)
	}
	if job, err = s.WaitJob(t.Context(), job.ID); err != nil || job.State != JobDone {
		t.Fatalf("%v: %+v", err, job)
	}
	settle(t, s)
	of := func(v any, err error) any {
		if err != nil {
			t.Error(err)
		}
		return v
	}
	for path, got := range map[string]any{
		"/api/v1/nodes/p9":               of(s.Node(t.Context(), "p9")),
		"/api/v1/nodes?q=p9&limit=3":     of(s.Search(t.Context(), "p9", "", 0, 3)),
		"/api/v1/events?after=1&limit=1": of(s.Events(t.Context(), 1, 1)), "/api/v1/models": s.Models(),
		"/api/v1/model": of(s.ModelDetail()),
		"/api/v1/jobs":  s.Jobs(), "/api/v1/jobs/1": of(s.Job("1")), "/api/v1/jobs/1/curve": of(s.JobCurve("1")),
		"/api/v1/ab-test": s.Compare(),
	} {
		t.Run(path, func(t *testing.T) {
			raw, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			var ours, theirs any
			if err := errors.Join(json.Unmarshal(raw, &ours), json.Unmarshal(c.do("GET", path, nil).Body.Bytes(),
				&theirs)); err != nil || !reflect.DeepEqual(ours, theirs) {
				t.Errorf("%v\n%v\n%v", err, ours, theirs)
			}
		})
	}
	for name, err := range map[string]error{"Job": second(s.Job("77")), "Cancel": second(s.CancelJob("77")),
		"Curve": second(s.JobCurve("77"))} {
		t.Run(name, func(t *testing.T) {
			if !errors.Is(err, ErrNoJob) {
				t.Error(err)
			}
		})
	}
	for part, err := range map[string]error{"id": second(s.Node(t.Context(), "nobody")),
		"kind":   second(s.StartJob(JobRequest{Kind: "dance"})),
		"method": second(s.StartJob(JobRequest{Kind: "retrain", Method: "alchemy"}))} {
		t.Run(part, func(t *testing.T) {
			if f, ok := errors.AsType[*RequestError](err); !ok || f.Field != part {
				t.Error(err)
			}
		})
	}
}

func TestNodes(t *testing.T) {
	t.Parallel()
	s := open(t)
	c := client{t: t, h: s.Handler()}
	all := want[NodePage](c, 200, "GET", "/api/v1/nodes?limit=1000", nil)
	if all.Total != 240 || len(all.Nodes) != 240 || all.Next != 0 {
		t.Fatalf("%d nodes of %d, next %d", len(all.Nodes), all.Total, all.Next)
	}
	var paged []NodeSummary
	for offset := 0; ; {
		p := want[NodePage](c, 200, "GET", fmt.Sprintf("/api/v1/nodes?q=P1&limit=7&offset=%d", offset), nil)
		paged = append(paged, p.Nodes...)
		if p.Next == 0 {
			break
		}
		offset = p.Next
	}
	count := 0
	for _, n := range all.Nodes {
		if strings.Contains(strings.ToLower(n.ID+"\n"+n.Title), "p1") {
			if paged[count].ID != n.ID {
				t.Fatalf("node %d of the pages is %s, want %s", count, paged[count].ID, n.ID)
			}
			count++
		}
	}
	if count != len(paged) || count == 0 {
		t.Errorf("%d nodes on the pages, want %d", len(paged), count)
	}
	d := want[NodeDetail](c, 200, "GET", "/api/v1/nodes/p200", nil)
	if d.ID != "p200" || len(d.LinksTo) != d.Out {
		t.Errorf("got %+v", d)
	}
}

// A list that the service logs has its surface and what it was chosen from, and so has one that a client logs. What was
// dismissed is stored, and counts neither as shown nor as wanted.
func TestSurfacesAndDismissals(t *testing.T) {
	t.Parallel()
	s := open(t)
	c := client{t: t, h: s.Handler()}
	logged := want[RecommendResponse](c, 200, "POST", "/api/v1/recommendations",
		RecommendRequest{Node: "p100", K: 3, Log: true, Surface: "mail"})
	sent := c.list("node=p101&k=2")
	batch := shownEvents(&sent)
	for k := range batch.Events {
		e := &batch.Events[k]
		e.Surface, e.Placed, e.Candidates = "home", .5, sent.CandidateSet
	}
	batch.Events = append(batch.Events, about(sent, 0, store.Dismissed, "no"))
	want[store.Result](c, 200, "POST", "/api/v1/events", batch)
	page := want[EventPage](c, 200, "GET", "/api/v1/events", nil)
	if len(page.Events) != 6 || page.Events[5].Kind != store.Dismissed {
		t.Fatalf("got %+v", page.Events)
	}
	for k, e := range page.Events[:5] {
		surface, placed, candidates := "home", .5, sent.CandidateSet
		if k <= 2 {
			surface, placed, candidates = "mail", logged.Items[k].Placed, logged.CandidateSet
		}
		if e.Surface != surface || e.Placed != placed || e.Candidates != candidates {
			t.Errorf("event %d: %+v", k, e)
		}
	}
	lists, err := ReadLists(t.Context(), s.events, s.Graph(), ListReading{Find: s.Graph().Index})
	if err != nil || len(lists.Lists) != 2 || len(lists.Lists[1].Items) != 2 || lists.Lists[1].Items[0].Wanted {
		t.Errorf("%v: read the lists %+v", err, lists)
	}
	settle(t, s)
	s.monitor.mu.Lock()
	defer s.monitor.mu.Unlock()
	if counted := s.monitor.Models[sent.Model]; counted.Shown != 5 || counted.Clicked+counted.Linked != 0 ||
		*counted.Sources["p101"] != [3]int32{2} {
		t.Errorf("counted %+v", counted)
	}
}

// The name of the candidates is the same as long as they are, for every source, and another whenever something decides
// otherwise which they are.
func TestCandidateSet(t *testing.T) {
	t.Parallel()
	s := open(t)
	form := regexp.MustCompile(`^all/(\d+)/([0-9a-f]{12})$`)
	hash := func(r RecommendRequest) string {
		t.Helper()
		a, err := s.Recommend(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		parts := form.FindStringSubmatch(a.CandidateSet)
		if parts == nil || parts[1] != strconv.Itoa(a.Candidates) {
			t.Fatalf("%q of %d candidates", a.CandidateSet, a.Candidates)
		}
		return parts[2]
	}
	all := hash(RecommendRequest{Node: "p100"})
	one := uint64(1)
	for _, r := range []RecommendRequest{{Node: "p101"}, {Node: "p100", K: 3, Diversity: .5},
		{Node: "p100", Seed: &one}, {Node: "p100", Exclude: []string{"nobody"}},
		{Node: "p100", Surface: "home", Log: true}} {
		if got := hash(r); got != all {
			t.Errorf("%+v: %s, not %s", r, got, all)
		}
	}
	filters := map[string]string{all: "nothing"}
	first, second := s.Graph().FieldName(1), s.Graph().FieldName(2)
	for name, r := range map[string]RecommendRequest{
		"field": {Fields: []string{first}}, "other field": {Fields: []string{second}},
		"fields": {Fields: []string{first, second}}, "from": {From: "1900"}, "until": {Until: "2100"},
		"linked": {Linked: true}, "exclude": {Exclude: []string{"p3"}}, "more": {Exclude: []string{"p3", "p7"}},
		"others": {Exclude: []string{"p37"}},
	} {
		r.Node = "p100"
		got := hash(r)
		if other, found := filters[got]; found {
			t.Errorf("%s and %s are both %s", name, other, got)
		}
		filters[got] = name
		slices.Reverse(r.Exclude)
		slices.Reverse(r.Fields)
		r.Exclude, r.Fields = append(r.Exclude, r.Exclude...), append(r.Fields, r.Fields...)
		if again := hash(r); again != got {
			t.Errorf("%s: %s in another order, which was %s", name, again, got)
		}
	}
	c := client{t: t, h: s.Handler()}
	vector := make([]float32, s.Graph().Vectors().Dim())
	vector[0] = 1
	for _, change := range []func(){
		func() { want[CatalogueResult](c, 200, "PUT", "/api/v1/nodes/new", NodeInput{Vector: &vector}) },
		func() {
			if _, err := s.Forget(t.Context(), "p3"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		change()
		got := hash(RecommendRequest{Node: "p100"})
		if other, found := filters[got]; found {
			t.Errorf("after a change the same as with %s", other)
		}
		filters[got] = "a change"
	}
}

// Events are stored once by their id, with the probability of the list and its model, and end in the loop.
func TestEvents(t *testing.T) {
	t.Parallel()
	s := open(t)
	c := client{t: t, h: s.Handler()}
	a := c.list("node=p100&k=10")
	batch := shownEvents(&a)
	if r := want[store.Result](c, 200, "POST", "/api/v1/events", batch); r.Stored != 10 {
		t.Fatalf("got %+v", r)
	}
	batch.Events = append(batch.Events, about(a, 0, store.Clicked, "click"))
	if r := want[store.Result](c, 200, "POST", "/api/v1/events", batch); r.Stored != 1 || r.Duplicate != 10 {
		t.Fatalf("got %+v", r)
	}
	logged := c.list("node=p7&k=4&log=true")
	if logged.Logged != 4 {
		t.Errorf("%d items logged, want 4", logged.Logged)
	}
	page := want[EventPage](c, 200, "GET", "/api/v1/events?limit=100", nil)
	if page.Total != 15 || len(page.Events) != 15 {
		t.Fatalf("%d events of %d", len(page.Events), page.Total)
	}
	for k, e := range page.Events[:10] {
		if e.Probability != a.Items[k].Shown || e.Model != a.Model || e.Target != a.Items[k].ID {
			t.Errorf("event %d is %+v, item %+v", k, e, a.Items[k])
		}
	}
	settle(t, s)
	l := want[LoopStatus](c, 200, "GET", "/api/v1/loop", nil)
	same := 0
	for _, list := range []RecommendResponse{a, logged} {
		for _, item := range list.Items {
			if item.Field == list.Field {
				same++
			}
		}
	}
	if l.Shown != 14 || math.Abs(l.Share-float64(same)/14) > 1e-12 || l.Recent != l.Share || l.Items != 14 {
		t.Errorf("%d of 14 shown items are of the source's field, the loop has %+v", same, l)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens.json")
	secrets := map[Scope]string{}
	for _, scope := range Scopes {
		secret, err := AddToken(file, "my "+string(scope), scope, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		secrets[scope] = secret
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets {
		if len(secret) < 40 || strings.Contains(string(raw), secret) {
			t.Errorf("token %q is short, or stands in the file", secret)
		}
	}
	if _, err := AddToken(file, "my read", ScopeRead, time.Now()); err == nil {
		t.Error("two tokens of one name")
	}
	tokens, err := OpenTokens(file)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, func(o *Options) { o.Tokens = tokens })
	h := s.Handler()
	click := eventBatch{[]store.LogEvent{{ID: "1", Kind: "clicked", Source: "p1", Target: "p2"}}}
	for _, test := range []struct {
		method, path string
		body         any
		need         Scope
	}{
		{"GET", "/api/v1/nodes", nil, ScopeRead},
		{"GET", "/api/v1/recommendations?node=p5", nil, ScopeRead},
		{"POST", "/api/v1/recommendations", RecommendRequest{Node: "p5", Log: true}, ScopeWrite},
		{"GET", "/metrics", nil, ScopeRead},
		{"POST", "/api/v1/events", click, ScopeWrite},
		{"POST", "/api/v1/jobs", JobRequest{Kind: "evaluate"}, ScopeAdmin},
		{"DELETE", "/api/v1/ab-test", nil, ScopeAdmin},
	} {
		t.Run(test.method+" "+test.path, func(t *testing.T) {
			for _, scope := range append([]Scope{""}, Scopes...) {
				w := client{t, h, secrets[scope]}.do(test.method, test.path, test.body)
				switch {
				case scope == "" && w.Code != 401:
					t.Errorf("without a token: %d", w.Code)
				case scope != "" && !scope.covers(test.need) && w.Code != 403:
					t.Errorf("with %s: %d, want 403", scope, w.Code)
				case scope.covers(test.need) && w.Code >= 300:
					t.Errorf("with %s: %d\n%s", scope, w.Code, w.Body)
				}
			}
			if w := (client{t, h, "unseen_wrong"}).do(test.method, test.path, test.body); w.Code != 401 {
				t.Errorf("with a wrong token: %d", w.Code)
			}
		})
	}
	for _, path := range []string{"/healthz", "/readyz", "/login"} {
		if w := (client{t, h, ""}).do("GET", path, nil); w.Code != 200 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w := (client{t, h, ""}).do("GET", "/", nil); w.Code != 303 || w.Header().Get("Location") != "/login" {
		t.Errorf("the start page without a token: %d", w.Code)
	}
	t.Run("audit", func(t *testing.T) { checkAudit(t, s, 2, 8) })
}

// checkAudit counts the admin calls in the audit log.
func checkAudit(t *testing.T, s *Service, wantAllowed, wantRefused int) {
	t.Helper()
	audit, err := os.ReadFile(filepath.Join(s.o.State, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	var allowed, refused int
	for line := range strings.Lines(string(audit)) {
		var a auditEntry
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatal(err)
		}
		if a.Status < 300 && a.Token == "my admin" {
			allowed++
		} else if a.Status == 401 || a.Status == 403 {
			refused++
		}
	}
	if allowed != wantAllowed || refused != wantRefused {
		t.Errorf("%d admin calls were allowed and %d refused, want %d and %d\n%s", allowed, refused, wantAllowed,
			wantRefused, audit)
	}
}

func TestRate(t *testing.T) {
	t.Parallel()
	tokens := &Tokens{limits: map[string]*rate.Limiter{}}
	now := time.Unix(1000, 0)
	passed := 0
	for range 100 {
		if _, ok := tokens.allow("a", 10, now); ok {
			passed++
		}
	}
	if passed != 20 {
		t.Errorf("%d of 100 at once, want twice the rate of 10", passed)
	}
	wait, ok := tokens.allow("a", 10, now)
	if ok || wait <= 0 || wait > 100*time.Millisecond {
		t.Errorf("wait %v", wait)
	}
	if _, ok := tokens.allow("a", 10, now.Add(wait)); !ok {
		t.Error("refused after the wait that was asked for")
	}
	if _, ok := tokens.allow("b", 10, now); !ok {
		t.Error("one token pays for another")
	}
	if _, ok := tokens.allow("slow", .25, now); !ok {
		t.Error("the first request of a token with less than one a second is refused")
	}
	if wait, ok := tokens.allow("slow", .25, now); ok || wait != 4*time.Second {
		t.Errorf("the second request of a quarter a second waits %v, want 4s", wait)
	}
}

// Beyond what may be under way and wait, requests are refused at once with a time to come again.
func TestShedding(t *testing.T) {
	t.Parallel()
	s := open(t, func(o *Options) { o.Concurrent, o.Waiting = 1, 1 })
	c := client{t: t, h: s.Handler()}
	leave, err := s.gate.enter(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if w := c.do("GET", "/api/v1/recommendations?node=p1", nil); w.Code != 200 {
			t.Errorf("who waited got %d", w.Code)
		}
	})
	poll(t, "a request that waits", func() bool { return len(s.gate.waiting) > 0 })
	began := time.Now()
	w := c.do("GET", "/api/v1/recommendations?node=p1", nil)
	if w.Code != 503 || w.Header().Get("Retry-After") != "1" || time.Since(began) > answerTime/2 {
		t.Errorf("status %d, Retry-After %q, after %v", w.Code, w.Header().Get("Retry-After"), time.Since(began))
	}
	leave()
	waiting.Wait()
}

// slowStore stores when it is let.
type slowStore struct {
	store.Store
	let chan struct{}
}

func (s slowStore) Append(ctx context.Context, events []store.LogEvent) (store.Result, error) {
	<-s.let
	return s.Store.Append(ctx, events)
}

// While a list waits for the event log others are computed, up to as many as may wait; those beyond keep their places.
func TestListsWhileOthersAreStored(t *testing.T) {
	t.Parallel()
	log, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "events.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	slow := slowStore{log, make(chan struct{})}
	release := sync.OnceFunc(func() { close(slow.let) })
	defer release() // whatever fails
	s := open(t, func(o *Options) { o.events, o.Concurrent, o.Waiting = slow, 1, 1 })
	var logged sync.WaitGroup
	list := func() {
		if a, err := s.Recommend(t.Context(), RecommendRequest{Node: "p1", Log: true}); err != nil || a.Logged == 0 {
			t.Errorf("a list with %d items logged: %v", a.Logged, err)
		}
	}
	logged.Go(list)
	poll(t, "a list that is stored", func() bool { return len(s.gate.storing) == 1 && len(s.gate.inside) == 0 })
	if _, err := s.Recommend(t.Context(), RecommendRequest{Node: "p2"}); err != nil {
		t.Errorf("while another list is stored: %v", err)
	}
	logged.Go(list)
	poll(t, "a list that keeps its place", func() bool { return len(s.gate.inside) == 1 })
	if _, err := s.Recommend(t.Context(), RecommendRequest{Node: "p2"}); !errors.Is(err, errTooMany) {
		t.Errorf("while too many lists are stored: %v", err)
	}
	release()
	logged.Wait()
	if len(s.gate.storing)+len(s.gate.inside)+len(s.gate.waiting) != 0 {
		t.Error("places are left")
	}
	if totals, err := log.Totals(t.Context()); err != nil || totals.Events != 20 {
		t.Errorf("%d events are logged: %v", totals.Events, err)
	}
}

func TestPanic(t *testing.T) {
	t.Parallel()
	s := open(t)
	h := s.instrument(nil, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") }))
	w := client{t: t, h: h}.do("GET", "/", nil)
	if w.Code != 500 || strings.Contains(w.Body.String(), "boom") ||
		!strings.Contains(w.Body.String(), w.Header().Get("X-Request-Id")) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, address := range []string{":0", "0.0.0.0:0", "192.0.2.1:80", "[::]:0", "example.org:80"} {
		if err := s.Run(context.Background(), ServerOptions{Address: address}); !errors.Is(err, ErrUnprotected) {
			t.Errorf("%s without protection: %v", address, err)
		}
	}
	gone, stop := context.WithCancel(t.Context())
	stop()
	if err := open(t, func(o *Options) { o.Open = true }).Run(gone, ServerOptions{Address: ":0"}); err != nil {
		t.Errorf("open to everybody: %v", err)
	}
	for address, is := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true, ":1": false,
		"127.0.0.1.example.org:1": false} {
		t.Run(address, func(t *testing.T) {
			if listensLocally(address) != is {
				t.Errorf("loopback(%s) is %v", address, !is)
			}
		})
	}
}

// A handler in somebody else's server answers this machine alone, unless it has tokens or is said to be open.
func TestHandlerIsLocal(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens.json")
	secret, err := AddToken(file, "me", ScopeRead, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := OpenTokens(file)
	if err != nil {
		t.Fatal(err)
	}
	closed, opened, guarded := open(t).Handler(), open(t, func(o *Options) { o.Open = true }).Handler(),
		open(t, func(o *Options) { o.Tokens = tokens }).Handler()
	for _, test := range []struct {
		host, from, forwarded string
		status                int
	}{
		{"127.0.0.1:8080", "127.0.0.1:1", "", 200}, {"localhost", "[::1]:1", "", 200},
		{"[::1]:80", "127.3.2.1:1", "127.0.0.1", 200},
		{"evil.example", "127.0.0.1:1", "", 421}, {"127.0.0.1.evil.example:80", "127.0.0.1:1", "", 421},
		{"", "127.0.0.1:1", "", 421},
		{"localhost", "192.0.2.1:1234", "", 403}, {"localhost", "[2001:db8::1]:1", "", 403},
		{"localhost", "10.0.0.2:1", "", 403}, {"localhost", "", "", 403}, {"localhost", "@", "", 403},
		{"localhost", "127.0.0.1:1", "203.0.113.7", 403}, {"localhost", "127.0.0.1:1", "127.0.0.1, 203.0.113.7", 403},
	} {
		for _, path := range []string{"/healthz", "/metrics", "/runs", "/api/v1/model"} {
			ask := func(h http.Handler, token string) *httptest.ResponseRecorder {
				r := httptest.NewRequest("GET", path, nil)
				r.Host, r.RemoteAddr = test.host, test.from
				if test.forwarded != "" {
					r.Header.Set("X-Forwarded-For", test.forwarded)
				}
				if token != "" {
					r.Header.Set("Authorization", "Bearer "+token)
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return w
			}
			if w := ask(closed, ""); w.Code != test.status || w.Code != 200 &&
				(w.Header().Get("Content-Type") != "application/problem+json" ||
					!strings.Contains(w.Body.String(), "urn:request:")) {
				t.Errorf("%s of %+v: %d %s", path, test, w.Code, w.Body)
			}
			if w := ask(opened, ""); w.Code != 200 {
				t.Errorf("open, %s of %+v: %d", path, test, w.Code)
			}
			if w := ask(guarded, secret); w.Code != 200 {
				t.Errorf("with a token, %s of %+v: %d", path, test, w.Code)
			}
			if w := ask(guarded, ""); w.Code == 200 && path != "/healthz" {
				t.Errorf("without a token, %s of %+v: %d", path, test, w.Code)
			}
		}
	}
	r := httptest.NewRequest("POST", "/api/v1/jobs", strings.NewReader(`{"kind": "retrain"}`)) // from elsewhere
	w := httptest.NewRecorder()
	closed.ServeHTTP(w, r)
	if w.Code != 403 {
		t.Errorf("anybody may train: %d", w.Code)
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	s := open(t)
	h := s.Handler()
	c := client{t: t, h: h}
	for path, has := range map[string]string{
		"/": "lists per second", "/explore": "nodes in 3 fields", "/explore?q=p17": "p17",
		"/node/p100":              "as if everything had been shown",
		"/docs":                   "/api/v1/recommendations",
		"/explore?q=%3Cscript%3E": "&lt;script&gt;",
		"/assets/style.css":       "var(--text)", "/assets/palette.css": "--text:",
		"/exposure": "Chance of being shown, by field", "/loop": "Nothing was logged yet",
		"/bridges": "Largest gaps", "/runs": "A/B test",
		"/node/p100?diversity=0.5&k=5&from=1990": "diversity 0.50",
		"/node/p100?from=2020&until=2010":        "must be after from",
	} {
		t.Run(path, func(t *testing.T) {
			w := c.do("GET", path, nil)
			if !strings.Contains(w.Body.String(), has) {
				t.Errorf("%d, without %q", w.Code, has)
			}
			// from a file of its own, or numbers for one
			for _, script := range strings.Split(w.Body.String(), "<script")[1:] {
				opening, _, _ := strings.Cut(script, ">")
				if !strings.Contains(opening, ` src="/assets/`) &&
					!strings.HasPrefix(opening, ` type="application/json"`) {
					t.Errorf("inline script: %s", opening)
				}
			}
			if body := w.Body.String(); strings.Contains(body, "style=") || strings.Contains(body, " on") &&
				strings.Contains(body, "onclick") || strings.Contains(body, "http://") ||
				strings.Contains(body, "https://") {
				t.Error("inline style, handler or foreign address")
			}
			if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") ||
				strings.Contains(csp, "unsafe") {
				t.Errorf("policy %q", csp)
			}
		})
	}
	if w := c.do("GET", "/node/nobody", nil); w.Code != 404 || !strings.Contains(w.Header().Get("Content-Type"),
		"html") {
		t.Errorf("a page of nobody: %d", w.Code)
	}
	r := fromHere(httptest.NewRequest("POST", "/api/v1/models/rollback", nil))
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != 403 {
		t.Errorf("a page of another site may roll back: %d", w.Code)
	}
	var spec struct {
		OpenAPI string
		Paths   map[string]any
	}
	if err := json.Unmarshal(c.do("GET", "/openapi.json", nil).Body.Bytes(), &spec); err != nil ||
		spec.OpenAPI != "3.1.0" || len(spec.Paths) < 14 {
		t.Errorf("openapi %q with %d paths: %v", spec.OpenAPI, len(spec.Paths), err)
	}
}

// The API has one case style: every parameter and every key is in camelCase.
func TestNamesAreCamelCase(t *testing.T) {
	t.Parallel()
	s := open(t)
	var api struct {
		Paths      map[string]map[string]struct{ Parameters []struct{ Name string } }
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	raw := client{t: t, h: s.Handler()}.do("GET", "/openapi.json", nil).Body.Bytes()
	if err := json.Unmarshal(raw, &api); err != nil || len(api.Components.Schemas) < 20 {
		t.Fatalf("%d schemas, %v", len(api.Components.Schemas), err)
	}
	camel := regexp.MustCompile(`^[a-z][A-Za-z0-9]*$`)
	for path, operations := range api.Paths {
		for _, op := range operations {
			for _, p := range op.Parameters {
				if !camel.MatchString(p.Name) {
					t.Errorf("%s has the parameter %s", path, p.Name)
				}
			}
		}
	}
	for name, schema := range api.Components.Schemas {
		for key := range schema.Properties {
			if !camel.MatchString(key) {
				t.Errorf("%s has the key %s", name, key)
			}
		}
	}
}

// The names of schemas are words of the API, not of Go packages; each that is chosen by hand is used, and every key has
// a meaning.
func TestSchemaNames(t *testing.T) {
	t.Parallel()
	var api struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ Description string }
			}
		}
	}
	raw := client{t: t, h: open(t).Handler()}.do("GET", "/openapi.json", nil).Body.Bytes()
	if err := json.Unmarshal(raw, &api); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for name, schema := range api.Components.Schemas {
		for key, property := range schema.Properties {
			if used[key], used[name+"."+key] = true, true; property.Description == "" {
				t.Errorf("the API does not say what %s of %s means", key, name)
			}
		}
	}
	for _, key := range slices.Concat(slices.Collect(maps.Keys(keys)), slices.Collect(maps.Keys(keysOf))) {
		if !used[key] {
			t.Errorf("no schema has %s", key)
		}
	}
	for of, name := range schemaNames {
		if _, is := api.Components.Schemas[name]; !is {
			t.Errorf("no schema is called %s, as %s should be", name, of)
		}
	}
	for name := range api.Components.Schemas {
		for _, prefix := range []string{"Engine", "Evaluate", "Fit", "Huma", "Risk", "Store"} {
			if rest, is := strings.CutPrefix(name, prefix); is &&
				!slices.Contains(slices.Collect(maps.Values(schemaNames)),
					name) && rest != "" && rest[0] <= 'Z' {
				t.Errorf("%s begins with the name of a package", name)
			}
		}
	}
}

// A model is trained without being deployed.
func TestTrainOnly(t *testing.T) {
	t.Parallel()
	s := open(t)
	c := client{t: t, h: s.Handler()}
	_, live := s.Current()
	job := want[Job](c, 202, "POST", "/api/v1/jobs", map[string]any{"kind": "retrain", "method": "naive",
		"trainOnly": true})
	job, err := s.WaitJob(t.Context(), job.ID)
	if _, now := s.Current(); err != nil || job.State != JobDone || job.Deployed || now != live {
		t.Errorf("%v, %+v", err, job)
	}
}

// A job retrains on the log, the model passes its checks and goes live, requests are answered meanwhile, and a rollback
// is one call. All of it survives a restart.
func TestRetrainAndRollback(t *testing.T) {
	t.Parallel()
	s := open(t)
	h := s.Handler()
	c := client{t: t, h: h}
	_, first := s.Current()
	for i := range 60 {
		a := c.list(fmt.Sprintf("node=p%d&k=10&log=true", 4*i))
		want[store.Result](c, 200, "POST", "/api/v1/events",
			eventBatch{[]store.LogEvent{about(a, i%10, store.Linked, fmt.Sprint("l", i))}})
	}
	stop := make(chan struct{})
	var busy sync.WaitGroup
	var answered, broken atomic.Int64
	busy.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if w := c.do("GET", fmt.Sprintf("/api/v1/recommendations?node=p%d", i%240), nil); w.Code == 200 {
				answered.Add(1)
			} else {
				broken.Add(1)
			}
			time.Sleep(time.Millisecond)
		}
	})
	job := want[Job](c, 202, "POST", "/api/v1/jobs", JobRequest{Kind: "retrain"})
	job, err := s.WaitJob(t.Context(), job.ID)
	close(stop)
	busy.Wait()
	if err != nil || job.State != JobDone || !job.Deployed || len(job.Checks) != 3 {
		t.Fatalf("%v, job %+v", err, job)
	}
	if answered.Load() == 0 || broken.Load() != 0 {
		t.Errorf("%d requests answered and %d not while the model was exchanged", answered.Load(), broken.Load())
	}
	_, second := s.Current()
	if second == first || second != job.Model {
		t.Fatalf("serves %s after %s, the job made %s", second, first, job.Model)
	}
	for n := range 40 { // shown since it has learned: what it is judged by
		want[RecommendResponse](c, 200, "POST", "/api/v1/recommendations",
			RecommendRequest{Node: fmt.Sprint("p", 100+n), Log: true})
	}
	judged := want[Job](c, 202, "POST", "/api/v1/jobs", JobRequest{Kind: "evaluate"})
	if judged, err = s.WaitJob(t.Context(), judged.ID); err != nil || judged.State != JobDone {
		t.Fatalf("%v, job %+v", err, judged)
	}
	m := want[ModelDetail](c, 200, "GET", "/api/v1/model", nil)
	if m.Parent != first || m.Logged == 0 || m.Evaluation == nil || m.Evaluation.Panel == nil || m.Findings == nil ||
		len(m.Propensities) != 3 {
		t.Errorf("got %+v", m)
	}
	if l := m.Evaluation.Log; l == nil || l.Lists != 40 || l.Items != 400 || !(l.Risk.Lower < l.Risk.Upper) {
		t.Errorf("by the log: %+v", l)
	}
	back := want[ModelEntry](c, 200, "POST", "/api/v1/models/rollback", nil)
	if _, now := s.Current(); now != first || back.Digest != first {
		t.Errorf("after the step back %s serves, want %s", now, first)
	}
	want[ModelEntry](c, 200, "POST", "/api/v1/models/"+second[:12]+"/deploy", nil)

	again := reopen(t, s)
	if _, now := again.Current(); now != second {
		t.Errorf("after a restart %s serves, want %s", now, second)
	}
	if r := again.models.snapshot(); len(r.Models) != 2 || len(r.Expected) != 3 {
		t.Errorf("after a restart: %+v", r)
	}
	if totals, err := again.events.Totals(t.Context()); err != nil || totals.Kinds[store.Linked] != 60 ||
		totals.Kinds[store.Shown] != 1000 {
		t.Errorf("%+v %v", totals, err)
	}
}

// reopen closes a service and opens another on what it left.
func reopen(t *testing.T, s *Service, change ...func(*Options)) *Service {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o := Options{Folder: s.o.Folder}
	for _, c := range change {
		c(&o)
	}
	again, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.Close() })
	return again
}

func TestCancel(t *testing.T) {
	t.Parallel()
	s := open(t)
	c := client{t: t, h: s.Handler()}
	one := want[Job](c, 202, "POST", "/api/v1/jobs", JobRequest{Kind: "retrain"})
	two := want[Job](c, 202, "POST", "/api/v1/jobs", JobRequest{Kind: "retrain"})
	for _, id := range []string{two.ID, one.ID} {
		want[Job](c, 200, "DELETE", "/api/v1/jobs/"+id, nil)
		if job, err := s.WaitJob(t.Context(), id); err != nil || job.State != JobCancelled {
			t.Errorf("%v, job %+v", err, job)
		}
	}
	if list := want[JobList](c, 200, "GET", "/api/v1/jobs", nil); len(list.Jobs) != 2 || list.Jobs[0].ID != two.ID {
		t.Errorf("got %+v", list)
	}
}

// Progress comes as server-sent events over a real connection and ends with the job.
func TestProgress(t *testing.T) {
	t.Parallel()
	s := open(t)
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	job, err := s.StartJob(JobRequest{Kind: "evaluate"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.Get(server.URL + "/api/v1/jobs/" + job.ID + "/progress")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var last Job
	lines := bufio.NewScanner(r.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if raw, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if err := json.Unmarshal([]byte(raw), &last); err != nil {
				t.Fatal(err)
			}
		}
	}
	if last.ID != job.ID || last.State != JobDone || r.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%s, the last event is %+v", r.Header.Get("Content-Type"), last)
	}
}

// A source keeps its arm, the share is what was asked for, and the comparison counts by model.
func TestABTest(t *testing.T) {
	t.Parallel()
	s := open(t)
	c := client{t: t, h: s.Handler()}
	job, err := s.StartJob(JobRequest{Kind: "retrain", Method: "naive", Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	if job, err = s.WaitJob(t.Context(), job.ID); err != nil || job.State != JobDone || job.Deployed {
		t.Fatalf("%v, job %+v", err, job)
	}
	_, current := s.Current()
	for i := range 60 { // what was shown before says nothing of the test
		c.list(fmt.Sprintf("k=5&log=true&node=p%d", i))
	}
	test := want[ABTest](c, 200, "PUT", "/api/v1/ab-test", ABTestRequest{Model: job.Model[:10], Share: .3})
	if test.A != current || test.B != job.Model {
		t.Fatalf("got %+v", test)
	}
	s.monitor.mu.Lock()
	for i := range 60 { // nor if it is only read now
		source := fmt.Sprintf("p%d", i)
		s.monitor.countABTest(store.LogEvent{Seq: test.Seq, Kind: store.Shown, Source: source, Model: test.A}, source)
	}
	s.monitor.mu.Unlock()
	arms := map[string]int{}
	clicks := map[string]int{"a": 1, "b": 3}
	for i := range 240 {
		node := fmt.Sprintf("p%d", i)
		a, b := c.list("k=5&log=true&node="+node), c.list("k=5&node="+node)
		if a.Arm != b.Arm || a.Model != b.Model || a.Model != map[string]string{"a": test.A, "b": test.B}[a.Arm] {
			t.Fatalf("%s had arm %q and %q", node, a.Arm, b.Arm)
		}
		arms[a.Arm]++
		var batch eventBatch
		for k := range clicks[a.Arm] + i%2 {
			batch.Events = append(batch.Events, about(a, k, store.Clicked, fmt.Sprint(node, "-", k)))
		}
		want[store.Result](c, 200, "POST", "/api/v1/events", batch)
	}
	if arms["b"] < 48 || arms["b"] > 96 { // 72 ± 3.4 standard deviations
		t.Errorf("%d of 240 sources got b, a share of .3 was asked for", arms["b"])
	}
	settle(t, s)
	cmp := want[Comparison](c, 200, "GET", "/api/v1/ab-test", nil)
	if len(cmp.Arms) != 2 || math.Abs(*cmp.Arms[0].Clicks.Value-.3) > .02 ||
		math.Abs(*cmp.Arms[1].Clicks.Value-.7) > .02 || cmp.Difference == nil ||
		math.Abs(*cmp.Difference.Value-.4) > .04 || cmp.Difference.Low == nil || !(*cmp.Difference.Low > 0) {
		t.Errorf("got %+v", cmp)
	}
	ended := want[Comparison](c, 200, "DELETE", "/api/v1/ab-test", nil)
	if ended.ABTest != nil || ended.Last == nil || ended.Last.Reason != EndedByPerson ||
		!reflect.DeepEqual(ended.Last.Arms, cmp.Arms) {
		t.Errorf("the ended test is remembered as %+v", ended.Last)
	}
	if a := c.list("node=p1"); a.Arm != "" || a.Model != current {
		t.Errorf("after the test: %+v", a)
	}
}

// Lists that all stay in one field raise the alarm; those of the model do not.
func TestAlarm(t *testing.T) {
	t.Parallel()
	s := open(t)
	settle(t, s)
	g := s.Graph()
	byField := map[uint16][]string{}
	for i := range int32(g.Len()) {
		byField[g.Field(i)] = append(byField[g.Field(i)], g.ID(i))
	}
	feed := func(from, lists int, target func(field uint16, k int) string) LoopStatus {
		var events []store.LogEvent
		for n := range lists {
			i := int32((from + n) * 7 % g.Len())
			for k := range 5 {
				if to := target(g.Field(i), k+n); to != g.ID(i) {
					events = append(events, store.LogEvent{ID: fmt.Sprint(from+n, ".", k), Kind: store.Shown,
						Source: g.ID(i), Target: to, List: fmt.Sprint(from + n)})
				}
			}
		}
		if _, err := s.AppendEvents(t.Context(), events); err != nil {
			t.Fatal(err)
		}
		return settle(t, s)
	}
	bands := map[uint16]float64{}
	for _, b := range s.models.snapshot().Expected {
		bands[b.Field] = (b.Low + b.High) / 2
	}
	other := func(field uint16) uint16 { return field%3 + 1 }
	step := 0.
	calm := feed(0, 500, func(field uint16, k int) string {
		if step += .618033988749895; step-math.Floor(step) < bands[field] {
			return byField[field][k%len(byField[field])]
		}
		return byField[other(field)][k%len(byField[other(field)])]
	})
	if calm.Alarm {
		t.Errorf("an alarm although every share is in its band: %+v", calm.Alarms)
	}
	stuck := feed(500, 500, func(field uint16, k int) string { return byField[field][k%len(byField[field])] })
	if !stuck.Alarm || len(stuck.Alarms) == 0 || stuck.Alarms[0].Message == "" {
		t.Errorf("no alarm although everything stays in its field: %+v", stuck)
	}
	if w := (client{t: t, h: s.Handler()}).do("GET", "/metrics", nil); !strings.Contains(w.Body.String(),
		"unseen_drift_alarm 1") {
		t.Error("the gauge does not tell")
	}
	if again := reopen(t, s).Loop(); !again.Alarm || again.Seq != stuck.Seq || again.Shown != stuck.Shown {
		t.Errorf("after a restart: alarm %v, seq %d and not %d", again.Alarm, again.Seq, stuck.Seq)
	}
}

// Requests under way end before the service does, and new ones are refused.
func TestDrain(t *testing.T) {
	t.Parallel()
	s := open(t, func(o *Options) { o.Concurrent, o.Waiting = 1, 4 })
	ctx, stop := context.WithCancel(t.Context())
	address := make(chan string, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- s.Run(ctx, ServerOptions{Address: "127.0.0.1:0", Started: func(url string) { address <- url }})
	}()
	url := <-address
	leave, err := s.gate.enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan int, 1)
	go func() {
		r, err := http.Get(url + "/api/v1/recommendations?node=p1")
		if err != nil {
			answered <- -1
			return
		}
		r.Body.Close()
		answered <- r.StatusCode
	}()
	poll(t, "a request that waits", func() bool { return len(s.gate.waiting) > 0 })
	stop()
	poll(t, "the drain", s.draining.Load)
	leave()
	if status := <-answered; status != 200 {
		t.Errorf("the request under way got %d", status)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(url, "http://")); err == nil {
		t.Error("still listening")
	}
}

// A model that is clearly worse than the one that serves, pair by pair, does not come to serve; one
// that is as good does.
func TestClearlyWorseModels(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx := t.Context()
	serves := s.live.Load().current
	l, err := s.trainingData(ctx, serves.origin, "bayes", s.readingFor(s.datasets.newest(), 0))
	if err != nil {
		t.Fatal(err)
	}
	m := serves.Model()
	m.LinkParams = slices.Clone(m.LinkParams)
	for k := range m.LinkParams {
		m.LinkParams[k] *= -1
	}
	if err := model.Save(s.models.path("worse"), m); err != nil {
		t.Fatal(err)
	}
	worse, err := s.load(ctx, "worse", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		next, parent *loadedModel
		passes       bool
	}{{serves, serves, true}, {worse, serves, false}, {serves, worse, true}} {
		checks, err := s.validate(ctx, c.next, c.parent, l, nil)
		if err != nil {
			t.Fatal(err)
		}
		if last := checks[len(checks)-1]; last.Name != "panel" || last.Passed != c.passes {
			t.Errorf("%s after %s: %+v", c.next.digest, c.parent.digest, last)
		}
	}
	// Who knows no exposure does not judge by it: the risk of the model that serves is the one that it has by its own.
	naive, err := s.load(ctx, s.models.snapshot().Naive, "")
	if err != nil {
		t.Fatal(err)
	}
	checks, err := s.validate(ctx, naive, serves, l, nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := evaluate.NewEvaluation(ctx, l.Graph, serves.Model(), l.Test,
		evaluate.EvaluationSettings{Panel: evaluate.PanelSettings{Floor: .01}})
	if err != nil {
		t.Fatal(err)
	}
	own := fmt.Sprintf("live model %.4g", reportedRow(e.Panel).Risk.Interval.Estimate)
	if last := checks[len(checks)-1]; !strings.Contains(last.Detail, own) {
		t.Errorf("%+v does not say %q", last, own)
	}
}

// A file that cannot serve is named in the error, and no copy of it stays; a file that was named
// before does not take the place of what serves since, and the log says so.
func TestNamedModels(t *testing.T) {
	t.Parallel()
	folder := copyOf(t)
	whole, err := os.ReadFile(filepath.Join(folder, "naive.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(folder, "cut.safetensors")
	if err := os.WriteFile(cut, whole[:len(whole)/2], 0o666); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	start := func(model string) error {
		said.Reset()
		s, err := Open(t.Context(), Options{Folder: folder, Model: model,
			Log: slog.New(slog.NewTextHandler(&said, nil))})
		if err == nil {
			err = s.Close()
		}
		return err
	}
	if err := start(cut); err == nil || !strings.Contains(err.Error(), cut) {
		t.Errorf("half a model: %v", err)
	}
	digest, err := atomicfile.Sum(cut)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := exists(folder, "models", digest+".safetensors"); left || err != nil {
		t.Errorf("a copy of it is left: %v (%v)", left, err)
	}
	for k, name := range []string{"model.safetensors", "naive.safetensors", "model.safetensors"} {
		if err := start(filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
		if warned := strings.Contains(said.String(), "the live model is newer"); warned != (k == 2) {
			t.Errorf("start %d with %s: %s", k+1, name, &said)
		}
	}
}
