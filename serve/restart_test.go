package serve

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"unseen/sample"
)

// trainUntilKilled serves a folder in a process of its own, asks for a training, and says when it has begun.
func trainUntilKilled(folder string) {
	s, err := Open(context.Background(), Options{Folder: folder})
	if err != nil {
		fmt.Println("failed:", err)
		return
	}
	s.jobs.swap.Lock() // so that the training cannot end before the kill comes
	if len(s.jobs.list()) == 0 {
		if _, err := s.StartJob(JobRequest{Kind: "retrain", Method: "naive", Keep: true}); err != nil {
			fmt.Println("failed:", err)
			return
		}
	}
	for {
		job, changed, err := s.jobs.find("1")
		if err != nil || job.Ended != nil {
			fmt.Println("ended", job.State, job.Error, err)
			return
		}
		if job.Phase != "" {
			fmt.Println("running")
			select {} // until it is killed
		}
		<-changed
	}
}

// A job under way when the service is killed is begun again by the next one; if that is killed too, it is given up, so
// that a job that kills its service does not do so for ever.
func TestKilledWhileTraining(t *testing.T) {
	t.Parallel()
	folder := copyOf(t)
	life := func() string {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "UNSEEN_TEST_SERVICE="+folder)
		output, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, _ := bufio.NewReader(output).ReadString('\n')
		cmd.Process.Kill()
		cmd.Wait()
		return strings.TrimSpace(line)
	}
	if said := life(); said != "running" {
		t.Fatalf("the first service says %q", said)
	}
	once := filepath.Join(t.TempDir(), "once")
	if err := os.CopyFS(once, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Options{Folder: once})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	job, err := s.WaitJob(t.Context(), "1")
	if err != nil || job.State != JobDone || job.Begun != 2 || job.Model == "" {
		t.Errorf("after one kill: %v, %+v", err, job)
	}
	if next, err := s.StartJob(JobRequest{Kind: "evaluate"}); err != nil || next.ID != "2" {
		t.Errorf("%v: the next job is %q", err, next.ID)
	}

	if said := life(); said != "running" {
		t.Fatalf("the second service says %q", said)
	}
	third, err := Open(t.Context(), Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	job, err = third.WaitJob(t.Context(), "1")
	if err != nil || job.State != JobFailed || !strings.Contains(job.Error, "crashed 2 times") {
		t.Errorf("after two kills: %v, %+v", err, job)
	}
}

// A service that is ended in order takes its jobs up again, the one under way too, and counts nothing against it.
func TestJobsSurviveARestart(t *testing.T) {
	t.Parallel()
	s := open(t)
	for range 3 {
		if _, err := s.StartJob(JobRequest{Kind: "evaluate"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.jobs.stop("3"); err != nil {
		t.Fatal(err)
	}
	for range 5 { // as often as one likes
		s = reopen(t, s)
	}
	for id, state := range map[string]JobState{"1": JobDone, "2": JobDone, "3": JobCancelled} {
		t.Run(id, func(t *testing.T) {
			if job, err := s.WaitJob(t.Context(), id); err != nil || job.State != state {
				t.Errorf("job %s: %v, %+v", id, err, job)
			}
		})
	}
	s.Close()
	path := filepath.Join(s.o.State, "jobs.json")
	if err := os.WriteFile(path, []byte("[{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Folder: s.o.Folder}); err == nil || !strings.Contains(err.Error(), path) ||
		!strings.Contains(err.Error(), "remove it") {
		t.Errorf("damaged jobs: %v", err)
	}
}

// By the schedule a model is trained when it is due and there is something new to learn, and not before.
func TestSchedule(t *testing.T) {
	t.Parallel()
	var looked atomic.Int64 // at the clock, as the schedule does at every tick
	s := open(t, func(o *Options) {
		o.RetrainEvery, o.RetrainAfter = 150*time.Millisecond, 5
		o.Now = func() time.Time { looked.Add(1); return time.Now() }
	})
	tick := func() { // the schedule looks at the log after a training is due
		t.Helper()
		poll(t, "the due time", func() bool { due, _ := s.NextRetrain(); return time.Now().After(due) })
		from := looked.Load()
		poll(t, "the schedule", func() bool { return looked.Load() > from+3 })
	}
	show := func(n int) {
		answer, err := s.Recommend(t.Context(), RecommendRequest{Node: "p200", K: n, Log: true})
		if err != nil || answer.Logged != n {
			t.Fatal(err)
		}
	}
	planned := func() (jobs []Job) {
		for _, job := range s.jobs.list() {
			if job.Planned {
				jobs = append(jobs, job)
			}
		}
		return jobs
	}
	show(4)
	tick()
	if jobs := planned(); len(jobs) != 0 {
		t.Fatalf("four new events, five are needed, and %+v", jobs)
	}
	show(3)
	poll(t, "the training that is due", func() bool { return len(planned()) > 0 })
	job, err := s.WaitJob(t.Context(), planned()[0].ID)
	if err != nil || job.Model == "" {
		t.Fatalf("%v, %+v", err, job)
	}
	if !job.Deployed { // it may have failed a check, but then it says so
		t.Logf("the model does not serve: %+v", job)
		return
	}
	tick()
	if jobs := planned(); len(jobs) != 1 {
		t.Errorf("nothing is new, and %d trainings were due", len(jobs))
	}
	if due, ok := s.NextRetrain(); !ok || !due.After(*job.Ended) {
		t.Errorf("the next is due at %v, %v; the last ended at %v", due, ok, job.Ended)
	}
}

// A token counts from soon after it is put into the file until soon after it is taken out; a file that is no file of
// tokens changes nothing.
func TestTokensAreReadAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.json")
	first, err := AddToken(path, "first", ScopeRead, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	var log lockedBuffer
	s := open(t, func(o *Options) { o.Tokens, o.Log = tokens, slog.New(slog.NewTextHandler(&log, nil)) })
	becomes := func(token string, status int) {
		t.Helper()
		c := client{t: t, h: s.Handler(), token: token}
		poll(t, fmt.Sprintf("status %d", status), func() bool {
			return c.do("GET", "/api/v1/nodes", nil).Code == status
		})
	}
	becomes(first, 200)
	second, err := AddToken(path, "second", ScopeRead, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	becomes(second, 200)
	if err := os.WriteFile(path, []byte("half an ed"), 0o600); err != nil {
		t.Fatal(err)
	}
	poll(t, "the damaged file to be read", func() bool {
		return strings.Contains(log.String(), "reading the token file failed")
	})
	becomes(first, 200)
	if err := os.WriteFile(path, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	becomes(first, 401)
	becomes(second, 401)
}

// An address that a browser cannot open is no address to print.
func TestReachable(t *testing.T) {
	t.Parallel()
	for from, want := range map[string]string{"127.0.0.1:81": "127.0.0.1:81", "[::]:81": "localhost:81",
		"0.0.0.0:81": "localhost:81", "[::1]:81": "[::1]:81"} {
		t.Run(from, func(t *testing.T) {
			a, err := net.ResolveTCPAddr("tcp", from)
			if err != nil {
				t.Fatal(err)
			}
			if got := browserAddress(a); got != want {
				t.Errorf("%s is printed as %s, want %s", from, got, want)
			}
		})
	}
}

// A model that was fitted to the whole of its data can be judged by what it showed, and by nothing else.
func TestEvaluateByTheLogAlone(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if _, err := plant(t.Context(), folder, smallWorld(), sample.Plan{Split: sample.Whole, Later: true, PerLink: 4,
		Seed: 1}, "naive"); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	judge := func() Job {
		job, err := s.StartJob(JobRequest{Kind: "evaluate"})
		if err != nil {
			t.Fatal(err)
		}
		if job, err = s.WaitJob(t.Context(), job.ID); err != nil {
			t.Fatal(err)
		}
		return job
	}
	if job := judge(); job.State != JobFailed || !strings.Contains(job.Error, "log the lists") {
		t.Errorf("with nothing to judge by: %+v", job)
	}
	for n := range 35 {
		if _, err := s.Recommend(t.Context(), RecommendRequest{Node: fmt.Sprint("p", 100+n), Log: true}); err != nil {
			t.Fatal(err)
		}
	}
	if job := judge(); job.State != JobDone {
		t.Errorf("with lists: %+v", job)
	}
	d, err := s.ModelDetail()
	if err != nil || d.Evaluation == nil || d.Evaluation.Panel != nil || d.Evaluation.Log == nil ||
		d.Evaluation.Log.Lists != 35 {
		t.Errorf("%v, %+v", err, d.Evaluation)
	}
	if w := (client{t: t, h: s.Handler()}).do("GET", "/exposure", nil); w.Code != 200 ||
		!strings.Contains(w.Body.String(), "Evaluated on the log") ||
		!strings.Contains(w.Body.String(), "no held-out pairs to evaluate it on") {
		t.Errorf("the page: %d", w.Code)
	}
}
