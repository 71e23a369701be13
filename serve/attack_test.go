package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"unseen/hint"
	"unseen/internal/racetest"
	"unseen/serve/store"
)

// victim is a service in a process of its own, so that its memory can be measured and it can be killed.
type victim struct {
	t      *testing.T
	url    string
	folder string
	cmd    *exec.Cmd
}

// runVictim is the process of a victim.
func runVictim(folder string) {
	s, err := Open(context.Background(), Options{Folder: folder})
	if err == nil {
		err = s.Run(context.Background(), ServerOptions{Address: "127.0.0.1:0",
			Started: func(url string) { fmt.Println(url) }})
	}
	if err != nil {
		text, _ := hint.Of(err)
		fmt.Println("failed:", err, text)
	}
}

func newVictim(t *testing.T, folder string) *victim {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("/proc, which says what a process needed, is Linux's")
	}
	racetest.Skip(t, "TestHostile sends the like to a handler")
	v := &victim{t: t, folder: folder, cmd: exec.Command(os.Args[0])}
	v.cmd.Env = append(os.Environ(), "UNSEEN_TEST_VICTIM="+folder)
	v.cmd.Stderr = os.Stderr
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.kill)
	line, _ := bufio.NewReader(out).ReadString('\n')
	if v.url = strings.TrimSpace(line); !strings.HasPrefix(v.url, "http") {
		t.Fatalf("the service says %q", line)
	}
	return v
}

func (v *victim) kill() {
	v.cmd.Process.Kill()
	v.cmd.Wait()
}

// peak is the most memory that the process ever had, in MB.
func (v *victim) peak() int {
	v.t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.cmd.Process.Pid))
	if err != nil {
		v.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "VmHWM:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		v.t.Fatal(err)
	}
	return kb >> 10
}

// send posts bytes and returns the status and how long the answer took; 0 if there was none.
func (v *victim) send(method, path string, body []byte) (int, time.Duration) {
	began := time.Now()
	r, err := http.NewRequest(method, v.url+path, bytes.NewReader(body))
	if err != nil {
		v.t.Error(err)
		return 0, 0
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		v.t.Errorf("%s %s: %v", method, path, err)
		return 0, time.Since(began)
	}
	defer answer.Body.Close()
	if n, _ := io.Copy(io.Discard, answer.Body); n > 100_000 {
		v.t.Errorf("%s %s: an answer of %d bytes", method, path, n)
	}
	return answer.StatusCode, time.Since(began)
}

// fill repeats a part up to the limit of a body.
func fill(start, part, end string) []byte {
	n := (maxBody - len(start) - len(end)) / len(part)
	return []byte(start + strings.TrimSuffix(strings.Repeat(part, n), ",") + end)
}

// hostileBodies are as large as a body may be.
func hostileBodies() map[string][]byte {
	var names, valid, wordy strings.Builder
	for k := 0; names.Len() < maxBody-100; k++ {
		fmt.Fprintf(&names, `"a%d":0,`, k)
	}
	for k := range 10_000 {
		fmt.Fprintf(&valid, `{"id":"v%d","kind":"shown","source":"p1","target":"p2","probability":0.5,"model":"m",`+
			`"list":"l","position":1,"at":"2026-01-01T00:00:00Z","seq":1},`, k)
	}
	for k := 0; wordy.Len() < maxBody-1000; k++ {
		fmt.Fprintf(&wordy, `{"id":"w%d","kind":"clicked","source":"%s","target":"p%d"},`, k,
			strings.Repeat(`\u0041`, 100), k)
	}
	events := func(part string) []byte { return fill(`{"events":[`, part, `]}`) }
	return map[string][]byte{
		"empty objects":    events(`{},`),
		"numbers":          events(`0,`),
		"texts":            events(`"",`),
		"arrays":           events(`[],`),
		"nested arrays":    events(`[[[[]]]],`),
		"unknown keys":     events(`{"a":0},`),
		"wrong types":      events(`{"id":0,"kind":0,"source":0,"target":0},`),
		"nulls":            events(`null,`),
		"one large object": []byte(`{` + strings.TrimSuffix(names.String(), ",") + `}`),
		"inner object":     []byte(`{"events":[{` + strings.TrimSuffix(names.String(), ",") + `}]}`),
		"equal keys":       fill(`{`, `"events":[],`, `"a":0}`),
		"many arrays":      fill(`{`, `"exclude":["a"],`, `"k":1}`),
		"deep":             fill(`{"events":`, `[`, ``),
		"deep objects":     fill(``, `{"events":`, ``),
		"deep unknown":     fill(`{"a":`, `{"a":`, ``),
		"one text":         fill(`{"events":[{"id":"`, `\u0000`, `"}]}`),
		"one number":       fill(`{"k":`, `9`, `}`),
		"one key":          fill(`{"`, `k`, `":0}`),
		"spaces":           fill(`{"events":[`, "\n", `]}`),
		"excluded":         fill(`{"node":"p1","exclude":[`, `"",`, `]}`),
		"history":          fill(`{"history":[`, `"p1",`, `]}`),
		"field names":      fill(`{"node":"p1","fields":[`, `"x",`, `]}`),
		"long text":        fill(`{"text":"`, `word `, `"}`),
		"model":            fill(`{"kind":"evaluate","model":"`, `a`, `"}`),
		"many events":      []byte(`{"events":[` + strings.TrimSuffix(valid.String(), ",") + `]}`),
		"wordy events":     []byte(`{"events":[` + strings.TrimSuffix(wordy.String(), ",") + `]}`),
		"no JSON":          bytes.Repeat([]byte{0xff}, maxBody),
		"objects as texts": events(`{"id":{"a":{"a":{}}}},`),
		"keys twice":       events(`{"id":"a","id":"a"},`),
		"empty keys":       events(`{"":0},`),
		"exponents":        fill(`{"k":[`, `1e999999,`, `]}`),
		"one fraction":     fill(`{"node":"p1","diversity":0.`, `3`, `}`),
		"one exponent":     fill(`{"node":"p1","k":1e`, `9`, `}`),
		"half letters":     fill(`{"text":"`, `\ud83d`, `"}`),
		"one escaped key":  fill(`{"`, `\u0041`, `":0}`),
		"all excluded":     fill(`{"node":"p1","exclude":[`, `"p100",`, `"p1"]}`)[:maxBody],
		"shown":            fill(`{"history":["p1"],"shown":[`, `"p2",`, `]}`),
		"after the value":  fill(`{"node":"p1"}`, ` {}`, ``),
	}
}

// calm is how long an honest request takes at most while nobody attacks. Limits of time count from there, so that they
// hold on a busy machine.
func (v *victim) calm() (worst time.Duration) {
	v.t.Helper()
	for range 20 {
		status, took := v.send("POST", "/api/v1/recommendations", []byte(`{"node":"p1"}`))
		if status != 200 {
			v.t.Fatalf("an honest client got %d", status)
		}
		worst = max(worst, took)
	}
	return worst
}

// Whatever a body holds, it is answered soon and costs little; many at once too, and others are served meanwhile.
func TestAttackBodies(t *testing.T) {
	v := newVictim(t, copyOf(t))
	paths := [][2]string{{"POST", "/api/v1/events"}, {"POST", "/api/v1/recommendations"}, {"POST", "/api/v1/jobs"},
		{"PUT", "/api/v1/ab-test"}, {"POST", "/login"}}
	bodies := hostileBodies()
	busy := 20 * v.calm()
	for name, body := range bodies {
		for k, to := range paths {
			if k > 1 && name != "model" && name != "one large object" {
				continue
			}
			if status, took := v.send(to[0], to[1], body); status >= 500 || took > 2*time.Second+busy {
				t.Errorf("%s %s with %s: %d after %v", to[0], to[1], name, status, took)
			}
		}
	}
	if peak := v.peak(); peak > 300 {
		t.Errorf("one after the other they took %d MB", peak)
	}
	busy = 20 * v.calm()
	stop, honest := make(chan struct{}), sync.WaitGroup{}
	worst := [2]time.Duration{}
	for k, request := range []func(n int) (int, time.Duration){
		func(n int) (int, time.Duration) {
			return v.send("POST", "/api/v1/recommendations", []byte(`{"node":"p1"}`))
		},
		func(n int) (int, time.Duration) {
			return v.send("POST", "/api/v1/events", fmt.Appendf(nil,
				`{"events":[{"id":"honest%d","kind":"shown","source":"p1","target":"p2"}]}`, n))
		},
	} {
		honest.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				status, took := request(n)
				if status != 200 {
					t.Errorf("an honest client got %d", status)
				}
				worst[k] = max(worst[k], took)
			}
		})
	}
	work := make(chan string)
	var attackers sync.WaitGroup
	for range 16 {
		attackers.Go(func() {
			for name := range work {
				if status, took := v.send("POST", "/api/v1/events", bodies[name]); status == 0 ||
					took > 5*time.Second+busy {
					t.Errorf("%s: %d after %v", name, status, took)
				}
			}
		})
	}
	for range 3 {
		for name := range bodies {
			work <- name
		}
	}
	close(work)
	attackers.Wait()
	close(stop)
	honest.Wait()
	if limit := time.Second + busy; worst[0] > limit || worst[1] > limit {
		t.Errorf("honest clients waited up to %v", worst)
	}
	if peak := v.peak(); peak > 600 {
		t.Errorf("sixteen at a time took %d MB", peak)
	}
	t.Logf("peak %d MB, honest clients waited up to %v", v.peak(), worst)
}

// The first faults are named, with their places; no other program is told of more.
func TestAttackFaultsReported(t *testing.T) {
	t.Parallel()
	c := client{t: t, h: open(t).Handler()}
	for name, body := range hostileBodies() {
		status, text := throw(t, c.h, "POST", "/api/v1/events", "application/json", body)
		var p struct{ Errors []struct{ Location string } }
		if status >= 400 && (json.Unmarshal([]byte(text), &p) != nil || len(p.Errors) > maxFaults ||
			len(text) > 20_000) {
			t.Errorf("%s: %d errors in %d bytes", name, len(p.Errors), len(text))
		}
	}
}

// Events with invented sources and models are stored, and nothing else grows with them.
func TestAttackInventedNames(t *testing.T) {
	folder := copyOf(t)
	v := newVictim(t, folder)
	const batches, each = 18, 5000
	var senders sync.WaitGroup
	for b := range batches {
		senders.Go(func() {
			var body strings.Builder
			for k := range each {
				n := b*each + k
				fmt.Fprintf(&body, `,{"id":"%d","kind":"shown","source":"invented-%d-%s","target":"x%d","model":"m%d"}`,
					n, n, strings.Repeat("s", 500), n, n)
			}
			for part := range 2 { // each body stays below the limit
				half := strings.SplitAfter(body.String()[1:], "},")
				half = half[part*len(half)/2 : (part+1)*len(half)/2]
				text := strings.TrimSuffix(strings.Join(half, ""), ",")
				status := 503 // which says that it may be tried again
				for tries := 0; status == 503 && tries < 10; tries++ {
					status, _ = v.send("POST", "/api/v1/events", []byte(`{"events":[`+text+`]}`))
				}
				if status != 200 {
					t.Errorf("status %d", status)
				}
			}
		})
		if b%4 == 3 {
			senders.Wait()
		}
	}
	senders.Wait()
	if peak := v.peak(); peak > 300 {
		t.Errorf("%d invented sources took %d MB", batches*each, peak)
	}
	v.kill()
	began := time.Now()
	open(t) // one without events
	calm := time.Since(began)
	began = time.Now()
	s, err := Open(t.Context(), Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 3*time.Second+20*calm {
		t.Errorf("the restart took %v, one without events %v", took, calm)
	}
	settle(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, limit := range map[string]int64{"watch.json": 1 << 20, "events.db": 1 << 20,
		"waiting.log": 2 * maxWaitingBytes} {
		info, err := os.Stat(filepath.Join(folder, name))
		if err != nil && !os.IsNotExist(err) || err == nil && info.Size() > limit {
			t.Errorf("%s: %v, %v", name, err, info)
		}
	}
}

// Rejected calls do not fill the disk, and the audit log says how many there were.
func TestAttackAudit(t *testing.T) {
	t.Parallel()
	s := open(t, func(o *Options) { o.Tokens = tokensFor(t, "my admin", ScopeAdmin) })
	c := client{t: t, h: s.Handler()}
	for range 3000 {
		if w := c.do("POST", "/api/v1/jobs", JobRequest{Kind: "retrain"}); w.Code != 401 {
			t.Fatal(w.Code)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(s.o.State, "audit.log"))
	if err != nil || len(raw) > 64<<10 {
		t.Fatalf("%v, %d bytes", err, len(raw))
	}
	calls := 0
	for line := range strings.Lines(string(raw)) {
		var a auditEntry
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatal(err)
		}
		calls += 1 + a.More
	}
	if calls != 3000 {
		t.Errorf("the audit log counts %d of 3000 calls\n%s", calls, raw)
	}
}

// A full audit log is renamed, and the oldest one is removed.
func TestAttackAuditRotation(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	a, err := openAudit(path, open(t).o.Log)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for n := range 3 * (auditFiles + 2) {
		a.size = maxAudit - 500*int64(n%3) // as if it had been filled
		a.add(auditEntry{Request: fmt.Sprint(n), Status: 200})
	}
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) != auditFiles+1 {
		t.Errorf("%v: %v", err, files)
	}
}

// Every state that clients can fill has a bound.
func TestAttackGrowth(t *testing.T) {
	t.Parallel()
	s := open(t)
	h := s.Handler()
	c := client{t: t, h: h}
	t.Run("labels of metrics", func(t *testing.T) {
		for n := range 300 {
			throw(t, h, fmt.Sprint("M", n), fmt.Sprintf("/api/v1/%d", n), "application/json", nil)
			throw(t, h, "GET", fmt.Sprintf("/api/v1/nodes/n%d?x%d=1", n, n), "", nil)
		}
		families, err := s.metrics.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if len(f.Metric) > 50 {
				t.Errorf("%s has %d series", f.GetName(), len(f.Metric))
			}
		}
	})
	t.Run("names of models", func(t *testing.T) {
		body := JobRequest{Kind: "evaluate", Model: strings.Repeat("a", maxDigest+1)}
		if w := c.do("POST", "/api/v1/jobs", body); w.Code != 422 {
			t.Errorf("status %d", w.Code)
		}
		if _, err := s.StartJob(body); err == nil {
			t.Error("a long name was accepted")
		}
	})
	t.Run("pages of the log", func(t *testing.T) {
		for n := range 5 {
			var batch []store.LogEvent
			for k := range 2000 {
				long := strings.Repeat("s", 900)
				batch = append(batch, store.LogEvent{ID: fmt.Sprint("long", n, "-", k), Kind: store.Shown, Source: long,
					Target: long})
			}
			if _, err := s.events.Append(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
		}
		if w := c.do("GET", "/api/v1/events?limit=10000", nil); w.Code != 200 || w.Body.Len() > 8<<20 {
			t.Errorf("status %d, %d bytes", w.Code, w.Body.Len())
		}
		n := 0
		for _, err := range store.All(t.Context(), s.events, 0) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		if n != 10_000 {
			t.Errorf("the pages have %d events together", n)
		}
	})
	t.Run("streams", func(t *testing.T) {
		for range maxStreams {
			s.lanes.streams <- struct{}{}
		}
		if w := c.do("GET", "/api/v1/jobs/1/progress", nil); w.Code != 503 || w.Header().Get("Retry-After") == "" {
			t.Errorf("status %d", w.Code)
		}
	})
}

// A cancelled job leaves its place in the queue at once.
func TestAttackCancelledJobs(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.jobs.swap.Lock() // nothing that was begun ends
	defer s.jobs.swap.Unlock()
	c := client{t: t, h: s.Handler()}
	for round := range 3 {
		var queued []Job
		for {
			w := c.do("POST", "/api/v1/jobs", JobRequest{Kind: "retrain", Method: "naive"})
			if w.Code == 429 {
				break
			}
			var job Job
			if err := json.Unmarshal(w.Body.Bytes(), &job); err != nil || w.Code != 202 {
				t.Fatalf("%d %v", w.Code, err)
			}
			queued = append(queued, job)
			if len(queued) > maxQueued+1 {
				t.Fatal("the queue has no end")
			}
		}
		if len(queued) < maxQueued {
			t.Errorf("round %d: only %d jobs were accepted", round, len(queued))
		}
		for _, job := range queued {
			want[Job](c, 200, "DELETE", "/api/v1/jobs/"+job.ID, nil)
		}
		poll(t, "the jobs to end", func() bool { _, pending := s.jobs.last("retrain"); return !pending })
	}
}

// tokensFor makes a token file and returns its tokens.
func tokensFor(t testing.TB, name string, scope Scope) *Tokens {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.json")
	if _, err := AddToken(path, name, scope, time.Now()); err != nil {
		t.Fatal(err)
	}
	tokens, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}
