package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"unseen/dataset"
	"unseen/internal/temptest"
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

// A file of vectors that is removed, replaced or written over fails requests too: what is mapped may be another's. What
// comes back is served again.
func TestAttackReplacedVectors(t *testing.T) {
	t.Parallel()
	change := map[string]func(path string) error{
		"removed": os.Remove,
		"replaced": func(path string) error {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := os.WriteFile(path+".new", raw, 0o600); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		},
		"written over": func(path string) error {
			file, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = file.WriteAt([]byte("other numbers"), 200)
			return errors.Join(err, file.Close())
		},
		"longer": func(path string) error { return os.Truncate(path, 1<<20) },
	}
	for name, do := range change {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			c := client{t: t, h: s.Handler()}
			c.list("node=p1")
			path := filepath.Join(s.net.Folder(), dataset.VectorsFile)
			kept := path + ".kept"
			if err := os.Link(path, kept); err != nil {
				t.Fatal(err)
			}
			if err := do(path); err != nil {
				t.Fatal(err)
			}
			s.vectors.at = time.Time{}
			for _, at := range []string{"/api/v1/recommendations?node=p1", "/api/v1/bridges", "/readyz"} {
				if w := c.do("GET", at, nil); w.Code != 503 || !strings.Contains(w.Body.String(), "vectors") {
					t.Errorf("%s: %d %.200s", at, w.Code, w.Body)
				}
			}
			for at, says := range map[string]string{"/alarm": "vectors", "/metrics": "unseen_vectors_lost 1",
				"/healthz": "alive"} {
				if w := c.do("GET", at, nil); w.Code != 200 || !strings.Contains(w.Body.String(), says) {
					t.Errorf("%s: %d, without %q", at, w.Code, says)
				}
			}
			body := json.RawMessage(`{"events":[{"id":"e","kind":"shown","source":"p1","target":"p2"}]}`)
			if w := c.do("POST", "/api/v1/events", body); w.Code != 200 {
				t.Errorf("an event: %d", w.Code)
			}
			if name != "removed" && name != "replaced" {
				return
			}
			if err := os.Rename(kept, path); err != nil {
				t.Fatal(err)
			}
			s.vectors.at = time.Time{}
			c.list("node=p1")
			if w := c.do("GET", "/metrics", nil); !strings.Contains(w.Body.String(), "unseen_vectors_lost 0") {
				t.Error("the alarm goes on")
			}
		})
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
	disk := temptest.SmallDisk(t, 24<<20)
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
	calm := time.Now()
	c.list("node=p1")
	busy := 20 * time.Since(calm)
	full := temptest.FillDisk(t, disk, 0)
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
	if took := time.Since(began); took > 2*time.Second+busy {
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
	if err := os.Remove(full); err != nil {
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
