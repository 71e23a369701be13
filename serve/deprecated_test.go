package serve

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Deprecated names of the API work as the new ones do, and the log says once that they are deprecated. The OpenAPI
// document marks each.
func TestDeprecatedNames(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	s := open(t, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	c := client{t: t, h: s.Handler()}
	_, live := s.Current()
	var other string
	for range 2 {
		job := want[Job](c, 202, "POST", "/api/v1/jobs", map[string]any{"kind": "retrain", "method": "naive",
			"keep": true})
		if job.Order == nil || *job.Order != job.Request || !job.Request.TrainOnly {
			t.Errorf("order %+v, request %+v", job.Order, job.Request)
		}
		job, err := s.WaitJob(t.Context(), job.ID)
		if _, now := s.Current(); err != nil || job.State != JobDone || job.Deployed || now != live {
			t.Errorf("keep: %v, %+v", err, job)
		}
		other = job.Model
	}
	for range 2 {
		want[ABTest](c, 200, "PUT", "/api/v1/trial", ABTestRequest{Model: other, Share: .5})
		got := want[Comparison](c, 200, "GET", "/api/v1/trial", nil)
		if now := want[Comparison](c, 200, "GET", "/api/v1/ab-test", nil); got.Trial == nil || now.Trial == nil ||
			*got.Trial != *now.ABTest || got.ABTest.B != other {
			t.Errorf("trial %+v, abTest %+v", got.Trial, now.ABTest)
		}
		if got := want[Comparison](c, 200, "DELETE", "/api/v1/trial", nil); got.Trial != nil || got.ABTest != nil {
			t.Errorf("after its end: %+v", got)
		}
		want[ModelEntry](c, 200, "POST", "/api/v1/models/"+other+"/serve", nil)
		if _, now := s.Current(); now != other {
			t.Errorf("%s is live, not %s", now, other)
		}
		want[ModelEntry](c, 200, "POST", "/api/v1/models/rollback", nil)
	}
	for old, name := range map[string]string{"keep": "trainOnly", "/api/v1/trial": "/api/v1/ab-test",
		"/api/v1/models/{digest}/serve": "/api/v1/models/{digest}/deploy"} {
		if n := strings.Count(log.String(), " name="+old+" use="+name); n != 1 {
			t.Errorf("the log says %d times that %s is deprecated:\n%s", n, old, &log)
		}
	}
	var api struct {
		Paths      map[string]map[string]struct{ Deprecated bool }
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ Deprecated bool }
			}
		}
	}
	if err := json.Unmarshal(c.do("GET", "/openapi.json", nil).Body.Bytes(), &api); err != nil {
		t.Fatal(err)
	}
	for path, methods := range api.Paths {
		old := strings.HasSuffix(path, "/trial") || strings.HasSuffix(path, "/serve")
		for method, op := range methods {
			if op.Deprecated != old {
				t.Errorf("%s %s is deprecated: %t", method, path, op.Deprecated)
			}
		}
	}
	for _, key := range [][2]string{{"JobRequest", "keep"}, {"Job", "order"}, {"Job", "serves"},
		{"Comparison", "trial"}, {"AlarmEntry", "sentence"}, {"LoopStatus", "trail"}, {"Simulation", "beside"},
		{"Simulation", "words"}} {
		if !api.Components.Schemas[key[0]].Properties[key[1]].Deprecated {
			t.Errorf("%s of %s is not marked as deprecated", key[1], key[0])
		}
	}
}

// What the last version wrote of an alarm and of a deployed model is read.
func TestOldKeysOfAlarmsAndJobs(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	watch, jobs := filepath.Join(folder, "watch.json"), filepath.Join(folder, "jobs.json")
	if err := errors.Join(os.WriteFile(watch, []byte(`{"alarms": [{"sentence": "The share left."}]}`), 0o600),
		os.WriteFile(jobs, []byte(`[{"id": "1", "state": "done", "ended": "2026-01-02T03:04:05Z", "serves": true}]`),
			0o600)); err != nil {
		t.Fatal(err)
	}
	w, err := openMonitor(watch, nil)
	if err != nil || len(w.Alarms) != 1 || w.Alarms[0].Message != "The share left." {
		t.Errorf("%v, %+v", err, w)
	}
	j, err := openJobs(jobs, time.Now, slog.New(slog.DiscardHandler))
	if err != nil || len(j.all) != 1 || !j.all[0].Deployed {
		t.Errorf("%v, %+v", err, j)
	}
}

// Files of the last version open: their old keys are read, and what they say goes on.
func TestFilesOfTheLastVersion(t *testing.T) {
	t.Parallel()
	folder := copyOf(t)
	s, err := Open(t.Context(), Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	c := client{t: t, h: s.Handler()}
	job := want[Job](c, 202, "POST", "/api/v1/jobs", JobRequest{Kind: "retrain", Method: "naive", TrainOnly: true})
	if job, err = s.WaitJob(t.Context(), job.ID); err != nil {
		t.Fatal(err)
	}
	test := want[ABTest](c, 200, "PUT", "/api/v1/ab-test", ABTestRequest{Model: job.Model, Share: .5})
	for range 8 {
		c.list("node=p7&log=true")
	}
	settle(t, s)
	before := s.Compare()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	renamed := 0
	for file, names := range map[string]map[string]string{"jobs.json": {"request": "order"},
		"models/registry.json": {"abTest": "trial"}, "watch.json": {"abTest": "trial"}} {
		path := filepath.Join(folder, file)
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		for name, old := range names {
			if file == "jobs.json" { // the old key is written as well for one version
				text = strings.ReplaceAll(text, `"`+old+`"`, `"ignored"`)
			}
			renamed += strings.Count(text, `"`+name+`"`)
			text = strings.ReplaceAll(text, `"`+name+`"`, `"`+old+`"`)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if renamed != 3 {
		t.Fatalf("%d keys were given their old names, want 3", renamed)
	}
	if s, err = Open(t.Context(), Options{Folder: folder}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	settle(t, s)
	if got, err := s.Job(job.ID); err != nil || got.Request != job.Request {
		t.Errorf("%v, request %+v, want %+v", err, got.Request, job.Request)
	}
	after := s.Compare()
	if after.ABTest == nil || after.ABTest.B != test.B || !after.ABTest.Since.Truncate(time.Microsecond).Equal(
		test.Since.Truncate(time.Microsecond)) {
		t.Fatalf("%+v, want %+v", after.ABTest, test)
	}
	if len(before.Arms) != 2 || before.Arms[0].Shown+before.Arms[1].Shown == 0 ||
		!reflect.DeepEqual(before.Arms, after.Arms) {
		t.Errorf("%+v, before %+v", after.Arms, before.Arms)
	}
}
