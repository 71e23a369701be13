package serve

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"unseen/evaluate"
	"unseen/fit"
	"unseen/graph"
	"unseen/internal/atomicfile"
	"unseen/loop"
	"unseen/progress"
	"unseen/recommend"
)

// A simulation follows its dials, says in words what it shows, and refuses what cannot be.
func TestSimulation(t *testing.T) {
	t.Parallel()
	s := open(t)
	c := client{t: t, h: s.Handler()}
	play := func(query string) Simulation {
		t.Helper()
		return want[Simulation](c, 200, "GET", "/api/v1/loop/simulation?"+query, nil)
	}
	naive := play("rounds=8")
	if len(naive.All) != 8 || len(naive.Fields) != 3 || len(naive.Fields[0].Shares) != 8 || len(naive.Summary) < 2 {
		t.Fatalf("8 rounds of 3 fields: %d and %d", len(naive.All), len(naive.Fields))
	}
	for k, share := range naive.All {
		if share.Round != k+1 || share != naive.Baseline[k] ||
			!(share.Low <= share.Share && share.Share <= share.High) {
			t.Errorf("round %d: %+v beside %+v", k+1, share, naive.Baseline[k])
		}
	}
	shown := play("rounds=8&method=shown")
	if first, last := shown.All[0].Share, shown.All[7].Share; math.Abs(first-last) > 1e-9 {
		t.Errorf("from what was shown alone, nothing compounds: %v, then %v", first, last)
	}
	if corrected := play("rounds=8&method=corrected"); corrected.All[0].Share >= naive.All[0].Share {
		t.Errorf("corrected %v, naive %v", corrected.All[0], naive.All[0])
	}
	if explored := play("rounds=8&explore=0.5"); explored.All[7].Share >= naive.All[7].Share ||
		explored.Baseline[7] != naive.Baseline[7] {
		t.Errorf("half explored %v, not explored %v", explored.All[7], naive.All[7])
	}
	if again := play("rounds=8"); fmt.Sprint(again) != fmt.Sprint(naive) {
		t.Error("the same seed draws otherwise")
	}
	for query, part := range map[string]string{"rounds=0": "query.rounds", "rounds=51": "query.rounds",
		"explore=1.5": "query.explore", "method=best": "query.method", "explore=NaN": "explore"} {
		t.Run(query, func(t *testing.T) {
			if w := c.do("GET", "/api/v1/loop/simulation?"+query, nil); w.Code != 422 || faults(w) != part {
				t.Errorf("%d, %s", w.Code, w.Body)
			}
		})
	}
	for _, bad := range []error{
		second(s.Simulate(t.Context(), "best", 5, 0, 1)), second(s.Simulate(t.Context(), SimulateNaive, 99, 0, 1)),
		second(s.Simulate(t.Context(), SimulateNaive, 5, math.NaN(), 1)),
	} {
		if _, ok := errors.AsType[*RequestError](bad); !ok {
			t.Errorf("not refused: %v", bad)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Simulate(gone, SimulateNaive, 50, 0, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits, and yet: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// The live share of the last items is cut into stretches, and the band is that of who was there.
func TestTrend(t *testing.T) {
	t.Parallel()
	s := open(t)
	c := client{t: t, h: s.Handler()}
	for i := range 25 {
		c.list(fmt.Sprintf("node=p%d&k=10&log=true", 9*i))
	}
	l := settle(t, s)
	if len(l.Trend) != 2 || l.Trend[0].Items != 100 || l.Trend[1].Items != 200 {
		t.Fatalf("of 250 items: %+v", l.Trend)
	}
	for _, one := range l.Trend {
		if !(one.Low < one.Share && one.Share <= one.High) {
			t.Errorf("%+v", one)
		}
	}
	var low, high, shown float64
	for _, f := range l.Fields {
		low, high, shown = low+*f.Low*float64(f.Shown), high+*f.High*float64(f.Shown), shown+float64(f.Shown)
	}
	if math.Abs(l.Band.Low-low/shown) > 1e-12 || math.Abs(l.Band.High-high/shown) > 1e-12 {
		t.Errorf("band %+v, of the fields %v to %v", l.Band, low/shown, high/shown)
	}
	if body := c.do("GET", "/loop", nil).Body.String(); !strings.Contains(body, "Of the last 250 shown items") ||
		!strings.Contains(body, `id="past-data"`) {
		t.Error("the page does not show it")
	}
}

// While an alarm is on, every page says so.
func TestAlarmBanner(t *testing.T) {
	t.Parallel()
	s := open(t)
	c := client{t: t, h: s.Handler()}
	poll(t, "what to expect", func() bool {
		l := s.Loop()
		return len(l.Fields) > 0 && l.Fields[0].Low != nil
	})
	pages := []string{"/", "/data", "/data/node?id=p7", "/explore", "/node/p7", "/exposure", "/loop", "/bridges",
		"/runs", "/docs", "/alarm"}
	const says = "Readers of A see more of their own"
	for _, path := range pages {
		if strings.Contains(c.do("GET", path, nil).Body.String(), says) {
			t.Errorf("%s has an alarm that nobody raised", path)
		}
	}
	s.monitor.mu.Lock()
	s.monitor.drift, _ = loop.NewDrift(loop.DriftSettings{Expected: s.models.snapshot().Expected})
	s.monitor.Alarms = append(s.monitor.Alarms, AlarmEntry{Message: says, Field: "A"})
	s.monitor.mu.Unlock()
	for _, path := range pages {
		if body := c.do("GET", path, nil).Body.String(); strings.Count(body, says) < 1 {
			t.Errorf("%s does not have the alarm", path)
		}
	}
}

// Forms change things for admins, are in the audit log, and cannot be sent by other sites. Long because it is one
// sequence: each form acts on what the one before it did.
func TestForms(t *testing.T) {
	t.Parallel()
	withAll, tokens := withTokens(t)
	s := open(t, withAll)
	h := s.Handler()
	send := func(path, scope, from string, form url.Values) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", from)
		if scope != "" {
			r.Header.Set("Cookie", tokenCookie+"="+tokens[Scope(scope)])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	trainOnly := url.Values{"kind": {"retrain"}, "trainOnly": {"yes"}, "method": {"naive"}}
	for _, refused := range []struct {
		scope, from string
		status      int
	}{{"", "same-origin", 303}, {"read", "same-origin", 403}, {"write", "same-origin", 403},
		{"admin", "cross-site", 403}, {"admin", "same-site", 403}} {
		w := send("/runs/jobs", refused.scope, refused.from, trainOnly)
		if w.Code != refused.status || w.Code == 303 && w.Header().Get("Location") != "/login" {
			t.Errorf("scope %q from %s: %d to %q", refused.scope, refused.from, w.Code, w.Header().Get("Location"))
		}
	}
	if jobs := s.jobs.list(); len(jobs) != 0 {
		t.Fatalf("jobs of those who may not: %v", jobs)
	}
	if w := send("/runs/jobs", "admin", "same-origin", trainOnly); w.Code != 303 ||
		!strings.HasPrefix(w.Header().Get("Location"), "/runs?did=queued&job=1") {
		t.Fatalf("%d to %q: %s", w.Code, w.Header().Get("Location"), w.Body)
	}
	job, err := s.WaitJob(t.Context(), "1")
	if err != nil || job.State != JobDone || job.Deployed || job.Latest == nil {
		t.Fatalf("%v: %+v", err, job)
	}
	curve := client{t: t, h: h, token: tokens[ScopeRead]}
	got := want[JobCurve](curve, 200, "GET", "/api/v1/jobs/1/curve", nil)
	if n := len(got.Points); n == 0 || got.Points[n-1].Step != job.Latest.Step || !(got.Points[n-1].Loss > 0) {
		t.Errorf("curve %+v, latest %+v", got, job.Latest)
	}
	for path, form := range map[string]url.Values{
		"/runs/jobs": {"kind": {"dance"}}, "/runs/deploy": {},
		"/runs/ab-test":  {"model": {job.Model}, "share": {"much"}},
		"/runs/rollback": {}, "/runs/jobs/77/cancel": {},
	} {
		t.Run(path, func(t *testing.T) {
			if w := send(path, "admin", "same-origin", form); w.Code != 422 && w.Code != 404 && w.Code != 409 ||
				!strings.Contains(w.Header().Get("Content-Type"), "html") {
				t.Errorf("%s %v: %d", path, form, w.Code)
			}
		})
	}
	for _, step := range []struct {
		path, did string
		form      url.Values
	}{
		{"/runs/ab-test", "tested", url.Values{"model": {job.Model}, "share": {"0.5"}}},
		{"/runs/ab-test/end", "ended", nil},
		{"/runs/deploy", "serves", url.Values{"model": {job.Model}}}, {"/runs/rollback", "back", nil},
	} {
		if w := send(step.path, "admin", "same-origin", step.form); w.Code != 303 ||
			w.Header().Get("Location") != "/runs?did="+step.did {
			t.Errorf("%s: %d to %q: %s", step.path, w.Code, w.Header().Get("Location"), w.Body)
		}
	}
	// a job that waits for another, which cannot end before this lets it, is told to stop
	s.jobs.swap.Lock()
	long := send("/runs/jobs", "admin", "same-origin", url.Values{"kind": {"retrain"}, "trainOnly": {"yes"}})
	queued := send("/runs/jobs", "admin", "same-origin", url.Values{"kind": {"retrain"}, "trainOnly": {"yes"}})
	if long.Code != 303 || queued.Code != 303 {
		t.Fatalf("%d, %d", long.Code, queued.Code)
	}
	if w := send("/runs/jobs/3/cancel", "admin", "same-origin", nil); w.Code != 303 {
		t.Errorf("cancel: %d", w.Code)
	}
	s.jobs.swap.Unlock()
	if job, err := s.WaitJob(t.Context(), "3"); err != nil || job.State != JobCancelled {
		t.Errorf("%v: %+v", err, job)
	}
	raw, err := os.ReadFile(filepath.Join(s.o.State, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`"token":"read","remote":"192.0.2.1:1234","method":"POST","path":"/runs/jobs","status":403`,
		`"token":"admin","remote":"192.0.2.1:1234","method":"POST","path":"/runs/rollback","status":303`,
	} {
		if !bytes.Contains(raw, []byte(line)) {
			t.Errorf("the audit lacks %s", line)
		}
	}
	if w := (client{t: t, h: h, token: tokens[ScopeRead]}).do("GET", "/runs", nil); !strings.Contains(w.Body.String(),
		"Your token is read-only") || strings.Contains(w.Body.String(), `action="/runs/rollback"`) {
		t.Error("who may not is offered forms")
	}
}

// A curve stays short, however long a job takes, and keeps its ends.
func TestCurveIsBounded(t *testing.T) {
	t.Parallel()
	var j Job
	for k := range 5000 {
		before := j.curve
		j.report(progress.Event{Phase: "start", Values: map[string]float64{"round": float64(k + 1),
			"loss": 1 / float64(k+1)}})
		if len(before) > 0 && before[0].Step != 1 {
			t.Fatal("a reader's copy changes")
		}
	}
	if n := len(j.curve); n > maxCurvePoints || n < maxCurvePoints/3 || j.curve[0].Step != 1 ||
		j.curve[n-1].Step != 5000 || j.Latest.Step != 5000 {
		t.Errorf("%d points from %d to %d", n, j.curve[0].Step, j.curve[n-1].Step)
	}
	j = Job{}
	j.report(progress.Event{Phase: "before the first loss", Done: 1, Of: 4})
	if j.Latest != nil || j.Done != .25 {
		t.Errorf("%+v", j)
	}
}

// Reading lists are files that programs for tables and bibliographies take as they are.
func TestReading(t *testing.T) {
	t.Parallel()
	s := open(t)
	c := client{t: t, h: s.Handler()}
	found := want[BridgeList](c, 200, "GET", "/api/v1/bridges?list=5", nil)
	var b recommend.Bridge
	for _, one := range found.Bridges {
		if len(one.Reading) > 0 {
			b = one
			break
		}
	}
	q := url.Values{"source": {b.Source}, "target": {strings.ToLower(b.Target)}}
	w := c.do("GET", "/api/v1/bridges/reading?"+q.Encode(), nil)
	if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Disposition"), `attachment; filename="`) ||
		!strings.HasPrefix(w.Header().Get("Content-Type"), "text/csv") {
		t.Fatalf("%d %v: %s", w.Code, w.Header(), w.Body)
	}
	rows, err := csv.NewReader(w.Body).ReadAll()
	if err != nil || len(rows) < 2 || rows[1][3] != b.Reading[0].ID || rows[1][0] != b.Reading[0].For.ID {
		t.Errorf("%v: %v; the first is %s for %s", err, rows[:min(len(rows), 2)], b.Reading[0].ID, b.Reading[0].For.ID)
	}
	q.Set("format", "bibtex")
	if w := c.do("GET", "/api/v1/bridges/reading?"+q.Encode(), nil); w.Code != 200 ||
		!strings.HasPrefix(w.Body.String(), "@misc{") ||
		strings.Count(w.Body.String(), "{") != strings.Count(w.Body.String(), "}") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	for query, status := range map[string]int{"source=A&target=nobody": 404, "source=A": 422,
		"source=A&target=B&format=word": 422} {
		t.Run(query, func(t *testing.T) {
			if w := c.do("GET", "/api/v1/bridges/reading?"+query, nil); w.Code != status {
				t.Errorf("%d", w.Code)
			}
		})
	}
	nasty := []recommend.Reading{{For: recommend.Item{ID: "=1+1"},
		Item: recommend.Item{ID: "x_1", Title: "50% {of} \\it & #2\n", Time: "2020-01-02"}}}
	if raw, err := readingCSV(nasty); err != nil || !strings.Contains(string(raw), "'=1+1") {
		t.Errorf("%v: a formula: %s", err, raw)
	}
	if raw := string(readingBibTeX(append(nasty, nasty...))); strings.Count(raw, "@misc") != 1 ||
		!strings.Contains(raw, `50\% \textbraceleft{}of\textbraceright{} \textbackslash{}it \& \#2`) ||
		!strings.Contains(raw, "year = {2020}") {
		t.Errorf("bibtex: %s", raw)
	}
	if got := slug("Materials Science / Ümlaut"); got != "materials-science-mlaut" {
		t.Errorf("slug %q", got)
	}
	lone := open(t, func(o *Options) {
		if err := os.Remove(filepath.Join(o.Folder, "naive.safetensors")); err != nil {
			t.Fatal(err)
		}
	})
	alone := client{t: t, h: lone.Handler()}
	if w := alone.do("GET", "/bridges", nil); w.Code != 200 ||
		!strings.Contains(w.Body.String(), "this service has none") {
		t.Errorf("bridges without a naive model: %d", w.Code)
	}
	if w := alone.do("GET", "/api/v1/bridges", nil); w.Code != 404 ||
		!strings.Contains(w.Body.String(), "fit one and set naive") {
		t.Errorf("the API's bridges without a naive model: %d %s", w.Code, w.Body)
	}
	if w := alone.do("GET", "/node/p7", nil); w.Code != 200 || strings.Contains(w.Body.String(), "naive-title") {
		t.Errorf("a list without a naive model: %d", w.Code)
	}
}

// An evaluation that lies beside a model is shown if it is of that model.
func TestEvaluationBeside(t *testing.T) {
	t.Parallel()
	folder := copyOf(t)
	path := filepath.Join(folder, "model.safetensors")
	digest, err := atomicfile.Sum(path)
	if err != nil {
		t.Fatal(err)
	}
	risk := fit.Judgement{}
	risk.Interval.Estimate, risk.Lower, risk.Upper = .25, .125, .5
	e := evaluate.Evaluation{Kind: evaluate.EvaluationKind, Method: "bayes", Pairs: 4321,
		Panel: &evaluate.Panel{Risks: []evaluate.PanelRow{{Scheme: "ap", Risk: risk}}}}
	for model, shown := range map[string]bool{"another": false, digest: true} {
		t.Run(model, func(t *testing.T) {
			e.Model = model
			raw, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path+".evaluation.json", raw, 0o644); err != nil {
				t.Fatal(err)
			}
			s := open(t, func(o *Options) { o.Folder, o.State = folder, t.TempDir() })
			body := (client{t: t, h: s.Handler()}).do("GET", "/exposure", nil).Body.String()
			if strings.Contains(body, "4,321 held-out pairs") != shown ||
				strings.Contains(body, ">Evaluate</button>") == shown {
				t.Errorf("an evaluation of %.8s is shown: %v", model, !shown)
			}
		})
	}
}

// Scripts and styles can be kept by a browser, and come packed to who unpacks.
func TestAssets(t *testing.T) {
	t.Parallel()
	h := open(t).Handler()
	get := func(path string, header ...string) *httptest.ResponseRecorder {
		r := fromHere(httptest.NewRequest("GET", path, nil))
		for k := 0; k+1 < len(header); k += 2 {
			r.Header.Set(header[k], header[k+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	const vendored = "/assets/vendor/echarts-6.1.0.min.js"
	plain := get(vendored)
	if plain.Code != 200 || plain.Header().Get("Content-Type") != "text/javascript; charset=utf-8" ||
		!strings.Contains(plain.Header().Get("Cache-Control"), "immutable") {
		t.Fatalf("%d %v", plain.Code, plain.Header())
	}
	packed := get(vendored, "Accept-Encoding", "gzip")
	unpack, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(unpack)
	if err != nil || !bytes.Equal(raw, plain.Body.Bytes()) {
		t.Errorf("packed it is another file: %v", err)
	}
	own := get("/assets/app.js")
	if tag := own.Header().Get("ETag"); tag == "" || own.Header().Get("Cache-Control") != "no-cache" ||
		get("/assets/app.js", "If-None-Match", tag).Code != 304 {
		t.Errorf("%v", own.Header())
	}
	for _, none := range []string{"/assets/", "/assets/../pages.go", "/assets/vendor/",
		"/assets/vendor/htmx-4.0.0.LICENSE"} {
		if w := get(none); w.Code == 200 {
			t.Errorf("%s is served", none)
		}
	}
}

// Of very many fields the map has the largest, in their own order.
func TestLargestFields(t *testing.T) {
	t.Parallel()
	g := open(t).Graph()
	names := []string{g.FieldName(1), "nobody's", g.FieldName(2), g.FieldName(3)}
	if got := largest(g, g.Sources(), names, 3); fmt.Sprint(got) != "[0 2 3]" {
		t.Errorf("of %q: %v", names, got)
	}
	if got := largest(g, g.Sources(), names, 9); len(got) != 4 {
		t.Errorf("all: %v", got)
	}
}

// The newest nodes are those of the latest times, in whatever order the dataset has them; those
// without a time come last.
func TestTheNewest(t *testing.T) {
	t.Parallel()
	var b graph.Builder
	for _, n := range []struct {
		id   string
		year int
	}{{"a", 2024}, {"b", 0}, {"c", 2026}, {"d", 2020}, {"e", 2025}, {"f", 0}} {
		node := graph.Node{ID: n.id}
		if n.year > 0 {
			node.Time = time.Date(n.year, 1, 1, 0, 0, 0, 0, time.UTC)
		}
		if _, err := b.AddNode(node); err != nil {
			t.Fatal(err)
		}
	}
	g, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int]string{3: "cea", 6: "ceadfb", 9: "ceadfb"} {
		got := ""
		for _, n := range newest(g, most, func(int32) bool { return false }).Nodes {
			got += n.ID
		}
		if got != want {
			t.Errorf("the newest %d are %s, want %s", most, got, want)
		}
	}
}

// A map has few columns, the colours of its values, and its names in order.
func TestHeatMapFits(t *testing.T) {
	t.Parallel()
	m := heatMap{Rows: []string{"s"}, Columns: []string{"a", "b"},
		Cells: []heatCell{{Value: .02}, {Column: 1, Value: .04}}}
	if m.fit(); !m.Turned || len(m.Columns) != 1 || m.Cells[1].Row != 1 || m.Cells[1].Column != 0 || m.Most != .05 {
		t.Errorf("%+v", m)
	}
	m = heatMap{Rows: []string{"a", "b"}, Columns: []string{"a", "b"}, Cells: []heatCell{{Value: .9}}}
	if m.fit(); m.Turned || m.Most != 1 {
		t.Errorf("%+v", m)
	}
	names := []string{"segment 10", "books", "segment 9", "books 2"}
	slices.SortFunc(names, compareNames)
	if got := strings.Join(names, ","); got != "books,books 2,segment 9,segment 10" {
		t.Error(got)
	}
}

// Shares are never in exponents.
func TestShareText(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]string{1: "100%", .996: "100%", .223: "22%", .0547: "5.5%", .000123: "0.012%",
		0: "0%"} {
		if got := share(x); got != want {
			t.Errorf("%v is %s, want %s", x, got, want)
		}
	}
}
