package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"unseen/dataset"
	"unseen/fit"
	"unseen/graph"
	"unseen/internal/postgrestest"
	"unseen/internal/temptest"
	"unseen/model"
	"unseen/sample"
	"unseen/serve/store"
	"unseen/world"
)

// small is a world of three fields with models fitted to its links, made once and copied for every test.
var small = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "unseen-serve-test-")
	if err != nil {
		return "", err
	}
	_, err = plant(context.Background(), folder, smallWorld(), sample.Plan{Split: sample.AtRandom, Later: true,
		PerLink: 4, Seed: 1}, "bayes", "naive")
	return folder, err
})

func smallWorld() world.Settings {
	return world.Settings{
		Nodes: 240, Dim: 8, Fields: world.EvenFields(3), Homophily: 1,
		Scenario: world.Scenario{BaseRate: .1, OracleAUC: .95, Seed: 5, Threads: 1},
	}
}

// plant writes a world and models of its links as unseen demo does.
func plant(ctx context.Context, folder string, s world.Settings, d sample.Plan, methods ...string) (*world.World,
	error) {
	w, err := world.New(ctx, s)
	if err != nil {
		return nil, err
	}
	if w, err = w.Linked(ctx); err != nil {
		return nil, err
	}
	return w, learn(ctx, folder, w.Graph(), d, methods...)
}

// learn writes a graph, and a model of it by each method. What the whole doctor says is shown by TestInBrowser.
func learn(ctx context.Context, folder string, g *graph.Graph, d sample.Plan, methods ...string) error {
	return learnFrom(ctx, folder, dataset.Content{Graph: g}, d, fit.Settings{Replicates: 2, Doctor: fit.QuickDoctor},
		methods...)
}

func learnFrom(ctx context.Context, folder string, content dataset.Content, d sample.Plan, s fit.Settings,
	methods ...string) error {
	g := content.Graph
	manifest, err := dataset.Write(ctx, filepath.Join(folder, "dataset"), content, dataset.WriteOptions{})
	if err != nil {
		return err
	}
	data := sample.Origin{Files: manifest.Checksums(), Plan: d}
	drawn, err := sample.Prepare(ctx, g, sample.Options{Origin: data, Threads: 1})
	if err != nil {
		return err
	}
	for k, method := range methods {
		s.Method, s.Seed, s.Threads = method, 1, 1
		r, err := fit.Fit(ctx, drawn.Problem, s)
		if err != nil {
			return err
		}
		m, err := r.Model()
		if err != nil {
			return err
		}
		name := []string{"model.safetensors", "naive.safetensors"}[k]
		if err := model.Save(filepath.Join(folder, name), m); err != nil {
			return err
		}
	}
	return nil
}

// copyOf copies the small world's folder.
func copyOf(t testing.TB) string {
	t.Helper()
	from, err := small()
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestMain(m *testing.M) {
	if folder := os.Getenv("UNSEEN_TEST_SERVICE"); folder != "" {
		trainUntilKilled(folder)
		return
	}
	if folder := os.Getenv("UNSEEN_TEST_GROWTH"); folder != "" {
		serveUntilKilled(folder)
		return
	}
	if folder := os.Getenv("UNSEEN_TEST_FORGETS"); folder != "" {
		forgetUntilKilled(folder)
		return
	}
	if what, folder, ok := strings.Cut(os.Getenv("UNSEEN_TEST_SWAPS"), "\n"); ok {
		swapUntilKilled(what, folder)
		return
	}
	if folder := os.Getenv("UNSEEN_TEST_CATALOGUE"); folder != "" {
		changeUntilKilled(folder)
		return
	}
	if folder := os.Getenv("UNSEEN_TEST_VICTIM"); folder != "" {
		runVictim(folder)
		return
	}
	clickWindow, linkWindow = 0, 0 // tests train on what has just happened
	jobPriority = func() {}        // on a busy machine a test would wait long for what comes last
	os.Exit(temptest.Run(func() int {
		defer postgrestest.Close()
		code := m.Run()
		if folder, err := small(); err == nil {
			os.RemoveAll(folder)
		}
		return code
	}))
}

// open opens a service on a copy of the small world.
func open(t testing.TB, change ...func(*Options)) *Service {
	t.Helper()
	o := Options{Folder: copyOf(t)}
	for _, c := range change {
		c(&o)
	}
	s, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// fromHere makes a request one of this machine.
func fromHere(r *http.Request) *http.Request {
	r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1234"
	return r
}

// document is the description of the API, which is the same for every service.
var document = sync.OnceValue(func() *huma.OpenAPI {
	return (&Service{}).register(http.NewServeMux()).OpenAPI()
})

// withTokens makes a token of each scope.
func withTokens(t testing.TB) (func(*Options), map[Scope]string) {
	t.Helper()
	path, secrets := filepath.Join(t.TempDir(), "tokens.json"), map[Scope]string{}
	for _, scope := range Scopes {
		secret, err := AddToken(path, string(scope), scope, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		secrets[scope] = secret
	}
	tokens, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) { o.Tokens = tokens }, secrets
}

// client asks a handler without a network.
type client struct {
	t     testing.TB
	h     http.Handler
	token string
}

func (c client) do(method, path string, body any) *httptest.ResponseRecorder {
	c.t.Helper()
	var in io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			c.t.Fatal(err)
		}
		in = bytes.NewReader(raw)
	}
	r := fromHere(httptest.NewRequest(method, path, in))
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	w := httptest.NewRecorder()
	c.h.ServeHTTP(w, r)
	conforms(c.t, method, path, w)
	return w
}

// want asks and decodes an answer that must have a status.
func want[T any](c client, status int, method, path string, body any) (out T) {
	c.t.Helper()
	w := c.do(method, path, body)
	if w.Code != status {
		c.t.Fatalf("%s %s: status %d, want %d\n%s", method, path, w.Code, status, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		c.t.Fatalf("%s %s: %v\n%s", method, path, err, w.Body)
	}
	return out
}

// fields names what a problem is about.
func faults(w *httptest.ResponseRecorder) string {
	var p struct {
		Errors []struct{ Location string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		return err.Error()
	}
	var all []string
	for _, e := range p.Errors {
		all = append(all, e.Location)
	}
	return strings.Join(all, " ")
}

// shownEvents reports a list as shown, as a client does.
func shownEvents(a *RecommendResponse) eventBatch {
	var b eventBatch
	for k, item := range a.Items {
		e := about(*a, k, store.Shown, fmt.Sprintf("%s/%d", a.List, k))
		e.Probability, e.Position = item.Shown, k+1
		b.Events = append(b.Events, e)
	}
	return b
}

// poll returns when a condition holds.
func poll(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

// lockedBuffer is written by a service and read by a test.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// settle waits until the monitor has counted every event of the log and knows what to expect.
func settle(t testing.TB, s *Service) LoopStatus {
	t.Helper()
	poll(t, "the expected shares", func() bool { return s.models.snapshot().Expected != nil })
	totals, err := s.events.Totals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	poll(t, "the monitor", func() bool {
		w := s.monitor
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.Seq >= totals.Seq && len(w.list) == 0 // the last list is counted once nothing follows
	})
	return s.Loop()
}

// about is an event about an item of a list.
func about(a RecommendResponse, item int, kind store.Kind, id string) store.LogEvent {
	return store.LogEvent{ID: id, Kind: kind, Source: a.Source.ID, Target: a.Items[item].ID, List: a.List}
}

// list asks for recommendations, and with log=true by the method that may write.
func (c client) list(query string) RecommendResponse {
	c.t.Helper()
	const path = "/api/v1/recommendations"
	plain := strings.Replace(query, "&log=true", "", 1)
	if plain == query {
		return want[RecommendResponse](c, 200, "GET", path+"?"+query, nil)
	}
	values, err := url.ParseQuery(plain)
	if err != nil {
		c.t.Fatal(err)
	}
	k, err := strconv.Atoi(cmp.Or(values.Get("k"), "10"))
	if err != nil {
		c.t.Fatal(err)
	}
	return want[RecommendResponse](c, 200, "POST", path, RecommendRequest{Node: values.Get("node"), K: k, Log: true})
}
