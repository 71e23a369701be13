package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"unseen/beam/shards"
	"unseen/engine"
	"unseen/fit"
)

// TestKilledTaskManagerChangesNothing kills one of two task managers, with SIGKILL, while its workers are in the middle
// of a gradient, of the information that bayes needs, and of an import of tables. The job must end with the same bits
// as on Prism, and Flink must know that it lost one.
//
// It needs the cluster of flink/up: UNSEEN_FLINK, UNSEEN_WORKER, UNSEEN_FLINK_WEB
// (http://127.0.0.1:18081) and UNSEEN_FLINK_PIDS, the folder with the processes' numbers; see
// flink/prove. Each of these leaves the cluster with one task manager.
func TestKilledTaskManagerChangesNothing(t *testing.T) {
	web, pids := os.Getenv("UNSEEN_FLINK_WEB"), os.Getenv("UNSEEN_FLINK_PIDS")
	flink, ok := runners()["flink"]
	if !ok || web == "" || pids == "" {
		t.Skip("no Flink cluster to take a task manager from; beam/check without --prism has one")
	}
	s := newSetup(t, 1000, 64)
	cut := func(t *testing.T) (*Cluster, *shards.Manifest) {
		cluster, m := s.cut(t, shards.CutSettings{Nodes: 250, Pairs: 2000})
		// The same shards again and again, until the job takes long enough to be hit.
		times := 600
		cluster.Manifest.Train = slices.Repeat(cluster.Manifest.Train, times)
		cluster.Manifest.Extent.Pairs *= int64(times)
		return cluster, m
	}
	t.Run("gradient", func(t *testing.T) {
		cluster, m := cut(t)
		cluster.Settings = settingsFor("ap")
		o := must(cluster.Settings.Objective(must(m.Shape())(t), cluster.Manifest.Extent))(t)
		params := make([]float32, o.Size())
		for i := range params {
			params[i] = float32(i%7) / 10
		}
		killed{web, pids}.compare(t, cluster, flink, func(ctx context.Context) (any, error) {
			grad := make([]float64, o.Size())
			parts, err := cluster.Gradient(ctx, o, params, grad)
			return append(grad, parts.Total()), err
		})
	})
	t.Run("information", func(t *testing.T) {
		cluster, _ := cut(t)
		survey := fit.SurveyPairs(s.Problem, fit.PairChoice{Share: [3]float64{1, 1, 1}})
		of := fit.PairDesign{Cells: fieldsOf(survey), Unit: .7, CaseControl: true}
		theta := make([]float64, s.Problem.Nodes.Dim()+1+len(of.Cells))
		for i := range theta {
			theta[i] = .3 * float64(i%4-2)
		}
		killed{web, pids}.compare(t, cluster, flink, func(ctx context.Context) (any, error) {
			design, err := cluster.Population(0).Design(ctx, of)
			if err != nil {
				return nil, err
			}
			all, err := design.Observe(ctx, engine.Outcomes{})
			if err != nil {
				return nil, err
			}
			return all.Information(ctx, theta)
		})
	})
	t.Run("import", func(t *testing.T) {
		tables := newShop(t, 20_000, 3000, 600_000, "user_id,item_id,timestamp", nil)
		settings := tables.settings(8)
		settings.Nodes, settings.Pairs = 6000, 500_000
		cluster := &Cluster{Manifest: &shards.Manifest{}}
		killed{web, pids}.compare(t, cluster, flink, func(ctx context.Context) (any, error) {
			to := shards.Location{Root: filepath.Join(t.TempDir(), "shards")}
			m, _, err := ImportInteractions(ctx, cluster.Runner, to, settings)
			if err == nil {
				cluster.Manifest = m
			}
			return m, err
		})
	})
}

// TestStoppedRunEndsOnFlink stops a run while its workers are in the middle of a gradient: the job must end soon, where
// it would go on for long.
func TestStoppedRunEndsOnFlink(t *testing.T) {
	web := os.Getenv("UNSEEN_FLINK_WEB")
	flink, ok := runners()["flink"]
	if !ok || web == "" {
		t.Skip("no Flink cluster to stop a job of; beam/check without --prism has one")
	}
	s := newSetup(t, 1000, 64)
	cluster, m := s.cut(t, shards.CutSettings{Nodes: 250, Pairs: 2000})
	cluster.Manifest.Train = slices.Repeat(cluster.Manifest.Train, 3000)
	cluster.Manifest.Extent.Pairs *= 3000
	cluster.Settings, cluster.Runner = settingsFor("ap"), flink
	o := must(cluster.Settings.Objective(must(m.Shape())(t), cluster.Manifest.Extent))(t)
	known := map[string]bool{}
	for _, j := range jobsOf(t, web) {
		known[j.ID] = true
	}
	newest := func() (flinkJob, bool) {
		all := jobsOf(t, web)
		at := slices.IndexFunc(all, func(j flinkJob) bool { return !known[j.ID] })
		return all[max(at, 0)], at >= 0
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := cluster.Gradient(ctx, o, make([]float32, o.Size()), nil)
		done <- err
	}()
	for {
		if j, ok := newest(); ok && runningOn(t, web, j.ID) != "" {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(time.Second) // into the middle
	began := time.Now()
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a stopped run: %v", err)
	}
	returned := time.Since(began)
	for j, _ := newest(); j.State == "RUNNING"; j, _ = newest() {
		if time.Since(began) > time.Minute {
			t.Fatal("the job goes on")
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("the run ended %v after it was stopped, its job of %d shards after %v", returned.Round(time.Millisecond),
		len(cluster.Manifest.Train), time.Since(began).Round(100*time.Millisecond))
}

// killed is where to find a task manager that works at tasks.
type killed struct{ web, pids string }

// compare computes on Prism, and again on Flink with a task manager killed in the middle.
func (k killed) compare(t *testing.T, cluster *Cluster, flink Runner,
	compute func(context.Context) (any, error)) {
	t.Helper()
	ctx := t.Context()
	cluster.Runner = Runner{}
	want := must(compute(ctx))(t)
	cluster.Runner = flink
	type outcome struct {
		result any
		err    error
	}
	done := make(chan outcome, 1)
	began := time.Now()
	known := map[string]bool{}
	for _, j := range jobsOf(t, k.web) {
		known[j.ID] = true
	}
	go func() {
		result, err := compute(ctx)
		done <- outcome{result, err}
	}()
	victim, id := "", ""
	for victim == "" {
		select {
		case got := <-done:
			t.Fatalf("the job was over after %v, before anything could be killed: give it more to do: %v",
				time.Since(began), got.err)
		case <-time.After(200 * time.Millisecond):
		}
		if time.Since(began) > 3*time.Minute {
			t.Fatal("the job does not begin to run")
		}
		for _, j := range jobsOf(t, k.web) {
			if !known[j.ID] && j.State == "RUNNING" && runningOn(t, k.web, j.ID) != "" {
				time.Sleep(time.Second) // into the middle; a step that is over then was too short
				id, victim = j.ID, runningOn(t, k.web, j.ID)
			}
		}
	}
	pid := killManager(t, k.pids, victim)
	after := time.Since(began)
	got := <-done
	if got.err != nil {
		t.Fatalf("%s was killed after %v, and the job failed: %v", victim, after, got.err)
	}
	if !reflect.DeepEqual(got.result, want) {
		t.Error("after a kill the result is another")
	}
	losses := lossesOf(t, k.web, id)
	if len(losses) == 0 {
		t.Error("Flink has not noticed the loss: the kill did not hit the job")
	}
	t.Logf("%s (process %d) killed after %v; all ended after %v with the same bits, of %d shards and %d pairs; "+
		"Flink's own history: %v",
		victim, pid, after.Round(100*time.Millisecond), time.Since(began).Round(100*time.Millisecond),
		len(cluster.Manifest.Train), cluster.Manifest.Extent.Pairs, losses)
}

// killManager kills a task manager and returns the number of its process.
func killManager(t *testing.T, pids, victim string) int {
	t.Helper()
	// its id begins with the name of the file that holds its process
	name := strings.Join(strings.Split(victim, "-")[:3], "-")
	number := must(os.ReadFile(filepath.Join(pids, name+".pid")))(t)
	pid := must(strconv.Atoi(strings.TrimSpace(string(number))))(t)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	return pid
}

// lossesOf lists what Flink's own history says went wrong in a job.
func lossesOf(t *testing.T, web, id string) (names []string) {
	t.Helper()
	var exceptions struct {
		History struct {
			Entries []struct {
				Name string `json:"exceptionName"`
			} `json:"entries"`
		} `json:"exceptionHistory"`
	}
	ask(t, web+"/jobs/"+id+"/exceptions", &exceptions)
	for _, e := range exceptions.History.Entries {
		names = append(names, e.Name)
	}
	return names
}

type flinkJob struct {
	ID    string `json:"jid"`
	State string `json:"state"`
}

func jobsOf(t *testing.T, web string) []flinkJob {
	t.Helper()
	var all struct {
		Jobs []flinkJob `json:"jobs"`
	}
	ask(t, web+"/jobs/overview", &all)
	return all.Jobs
}

// runningOn returns a task manager on which tasks of a job are running.
func runningOn(t *testing.T, web, id string) string {
	t.Helper()
	var job struct {
		Vertices []struct{ ID, Name string } `json:"vertices"`
	}
	ask(t, web+"/jobs/"+id, &job)
	for _, v := range job.Vertices {
		if !strings.Contains(v.Name, "taskFn") {
			continue
		}
		var on struct {
			Managers []struct {
				ID     string `json:"taskmanager-id"`
				Status string `json:"status"`
			} `json:"taskmanagers"`
		}
		ask(t, web+"/jobs/"+id+"/vertices/"+v.ID+"/taskmanagers", &on)
		for _, m := range on.Managers {
			if m.Status == "RUNNING" && strings.HasPrefix(m.ID, "task-manager-") {
				return m.ID
			}
		}
	}
	return ""
}

func ask(t *testing.T, url string, into any) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatal(fmt.Errorf("%s: %s", url, answer.Status))
	}
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", url, err))
	}
}
