package serve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// stopAt is a log that stops the program at a message for good, once it is told to.
type stopAt struct {
	slog.Handler
	message string
}

func (h stopAt) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.message {
		fmt.Println("reached", r.Message)
		select {} // until it is killed
	}
	return nil
}

// swapUntilKilled serves a folder in a process of its own. "retrain" trains a model and stops in the moment in which it
// has become live; otherwise models take turns, and each turn is said once it is acknowledged.
func swapUntilKilled(what, folder string) {
	o := Options{Folder: folder}
	if what == "retrain" {
		o.Log = slog.New(stopAt{slog.NewTextHandler(io.Discard, nil), "deployed a model"})
	}
	s, err := Open(context.Background(), o)
	if err != nil {
		fmt.Println("failed:", err)
		return
	}
	if what == "retrain" {
		job, err := s.StartJob(JobRequest{Kind: "retrain", Method: "naive"})
		if err == nil {
			job, err = s.WaitJob(context.Background(), job.ID)
		}
		fmt.Println("ended", job.State, job.Error, err)
		return
	}
	go func() { // beside requests
		for err == nil {
			_, err = s.Recommend(context.Background(), RecommendRequest{Node: "p200"})
		}
		fmt.Println("failed:", err)
	}()
	fmt.Println("swapping")
	models := strings.Fields(what)
	for turn := 0; ; turn++ {
		if _, err := s.Deploy(context.Background(), models[turn%len(models)]); err != nil {
			fmt.Println("failed:", err)
			return
		}
		fmt.Println(models[turn%len(models)])
	}
}

// swapping starts such a process.
func swapping(t *testing.T, what, folder string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "UNSEEN_TEST_SWAPS="+what+"\n"+folder)
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd, bufio.NewScanner(output)
}

// A service that is killed while one model takes the place of another serves the one that was acknowledged last, or the
// one that was on its way, and every model is registered once.
func TestKilledWhileSwapping(t *testing.T) {
	t.Parallel()
	folder := copyOf(t)
	s, err := Open(t.Context(), Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	live := s.models.snapshot().Current
	models := []string{live} // three, so that the third cannot be live
	for _, method := range []string{"naive", "mle"} {
		job, err := s.StartJob(JobRequest{Kind: "retrain", Method: method, TrainOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		if job, err = s.WaitJob(t.Context(), job.ID); err != nil || slices.Contains(append(models, ""), job.Model) {
			t.Fatalf("%v, %+v", err, job)
		}
		models = append(models, job.Model)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for k := range 20 {
		cmd, lines := swapping(t, strings.Join(models, " "), folder)
		if !lines.Scan() || lines.Text() != "swapping" {
			t.Fatalf("kill %d: the service says %q", k, lines.Text())
		}
		kill := time.AfterFunc(time.Duration(rand.Int64N(int64(60*time.Millisecond))), func() { cmd.Process.Kill() })
		said, underWay := live, models[0]
		for lines.Scan() {
			said = lines.Text()
			turn := slices.Index(models, said)
			if turn < 0 {
				t.Fatalf("kill %d: %s", k, said)
			}
			underWay = models[(turn+1)%len(models)]
		}
		cmd.Wait()
		kill.Stop()
		s, err := Open(t.Context(), Options{Folder: folder})
		if err != nil {
			t.Fatalf("kill %d: %v", k, err)
		}
		r := s.models.snapshot()
		if live = r.Current; live != said && live != underWay {
			t.Errorf("kill %d: %.8s was acknowledged and %.8s is live", k, said, live)
		}
		digests := map[string]int{}
		for _, e := range r.Models {
			if digests[e.Digest]++; digests[e.Digest] > 1 {
				t.Errorf("kill %d: %.8s is registered twice", k, e.Digest)
			}
		}
		if list, err := s.Recommend(t.Context(), RecommendRequest{Node: "p200"}); err != nil || list.Model != live ||
			len(list.Items) == 0 {
			t.Errorf("kill %d: %v, a list of %d by %.8s, live is %.8s", k, err, len(list.Items), list.Model, live)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A service that is killed when a trained model has become live and its job has not been written down yet serves that
// model, and does the job again without registering a second one.
func TestKilledWhenATrainedModelBecomesLive(t *testing.T) {
	t.Parallel()
	folder := copyOf(t)
	before, err := Open(t.Context(), Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	first := before.models.snapshot()
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	cmd, lines := swapping(t, "retrain", folder)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "reached") {
		t.Fatalf("the service says %q", lines.Text())
	}
	cmd.Process.Kill()
	cmd.Wait()
	s, err := Open(t.Context(), Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	trained := s.models.snapshot()
	if trained.Current == first.Current || len(trained.Models) != len(first.Models)+1 {
		t.Fatalf("%.8s is live, of %d models; before it was %.8s, of %d", trained.Current, len(trained.Models),
			first.Current, len(first.Models))
	}
	job, err := s.WaitJob(t.Context(), "1")
	if err != nil || job.State != JobDone || job.Begun != 2 {
		t.Fatalf("%v, %+v", err, job)
	}
	again := s.models.snapshot()
	if again.Current != job.Model || len(again.Models) != len(trained.Models) || job.Model != trained.Current {
		t.Errorf("the job done again: %.8s of %d models, %.8s is live; before %.8s of %d", job.Model, len(again.Models),
			again.Current, trained.Current, len(trained.Models))
	}
}
