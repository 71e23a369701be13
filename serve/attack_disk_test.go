package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"unseen/dataset"
)

// A file of vectors that is truncated under a service makes requests fail, with a reason and an
// alarm, and nothing else.
func TestAttackTruncatedVectors(t *testing.T) {
	folder := copyOf(t)
	v := newVictim(t, folder)
	if status, _ := v.send("POST", "/api/v1/recommendations", []byte(`{"node":"p1"}`)); status != 200 {
		t.Fatal(status)
	}
	vectors := filepath.Join(folder, "dataset", dataset.VectorsFile)
	if err := os.Truncate(vectors, 0); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/api/v1/recommendations?node=p1", "/api/v1/recommendations?node=p2&compare=true",
		"/api/v1/bridges", "/node/p3", "/bridges", "/readyz", "/api/v1/recommendations?node=p3&diversity=1"} {
		status, text := v.get(path)
		if status != 503 || !strings.Contains(text, "vectors") {
			t.Errorf("%s: %d %.300s", path, status, text)
		}
	}
	if status, _ := v.send("POST", "/api/v1/jobs", []byte(`{"kind":"retrain","method":"naive"}`)); status != 202 {
		t.Errorf("a job: %d", status)
	}
	poll(t, "the job to fail", func() bool {
		_, text := v.get("/api/v1/jobs/1")
		var job Job
		if err := json.Unmarshal([]byte(text), &job); err != nil {
			t.Fatal(err)
		}
		return job.State == JobFailed
	})
	for path, says := range map[string]string{"/healthz": "alive", "/alarm": "vectors", "/api/v1/nodes/p1": "p1",
		"/metrics": "unseen_vectors_lost 1"} {
		if status, text := v.get(path); status != 200 || !strings.Contains(text, says) {
			t.Errorf("%s: %d, without %q", path, status, says)
		}
	}
}

func (v *victim) get(path string) (int, string) {
	v.t.Helper()
	answer, err := http.Get(v.url + path)
	if err != nil {
		v.t.Fatalf("%s: %v", path, err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return answer.StatusCode, string(raw)
}

// A full disk: what was acknowledged stays, writes are refused with the reason, and lists are made,
// also after a restart.
func TestAttackFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, 24<<20)
	folder := filepath.Join(disk, "served")
	if err := os.CopyFS(folder, os.DirFS(copyOf(t))); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	c := client{t: t, h: s.Handler()}
	send := func(n int) int {
		return c.do("POST", "/api/v1/events", json.RawMessage(fmt.Sprintf(
			`{"events":[{"id":"e%d","kind":"shown","source":"p1","target":"p2"}]}`, n))).Code
	}
	if code := send(0); code != 200 {
		t.Fatal(code)
	}
	fillDisk(t, disk)
	acknowledged := 1
	for n := 1; ; n++ { // the log may have some room of its own
		if code := send(n); code == 507 {
			break
		} else if code != 200 || n > 20_000 {
			t.Fatalf("event %d: %d", n, code)
		}
		acknowledged++
	}
	began := time.Now()
	poll(t, "the service to be not ready", func() bool { return c.do("GET", "/readyz", nil).Code == 503 })
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	if w := c.do("POST", "/api/v1/jobs", JobRequest{Kind: "retrain"}); w.Code != 507 {
		t.Errorf("a job: %d %s", w.Code, w.Body)
	}
	c.list("node=p1")
	s.Close() // may say that it cannot save
	s, err = Open(t.Context(), Options{Folder: folder})
	if err != nil {
		t.Fatalf("the restart: %v", err)
	}
	defer s.Close()
	c = client{t: t, h: s.Handler()}
	c.list("node=p1")
	if code := c.do("GET", "/readyz", nil).Code; code != 503 {
		t.Errorf("ready on a full disk: %d", code)
	}
	if err := os.Remove(filepath.Join(disk, "fill")); err != nil {
		t.Fatal(err)
	}
	poll(t, "the service to be ready", func() bool { return c.do("GET", "/readyz", nil).Code == 200 })
	totals, err := s.events.Totals(t.Context())
	if err != nil || totals.Events < int64(acknowledged) {
		t.Errorf("%v: %d events, %d were acknowledged", err, totals.Events, acknowledged)
	}
	if code := send(1_000_000); code != 200 {
		t.Errorf("after there is space: %d", code)
	}
}

// fillDisk leaves no byte.
func fillDisk(t *testing.T, disk string) {
	t.Helper()
	file, err := os.Create(filepath.Join(disk, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for size := 1 << 20; size >= 1; {
		if _, err := file.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}
