package fit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"unseen/internal/racetest"
	"unseen/model"
	"unseen/progress"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

// resumables are trainings of every kind that a checkpoint keeps.
var resumables = map[string]Settings{
	"adam": {Method: "rw", Seed: 3, Threads: 1, Starts: []float64{.3, .6},
		Adam: AdamSettings{Epochs: 20, Patience: 20, Batch: 8}},
	"lbfgs": {Method: "ap", Seed: 3, Threads: 1, Starts: []float64{.3, .6}, Optimiser: "lbfgs",
		Search: Search{Axes: []Axis{{"ridge", []float64{4, 16}}}}, LBFGS: LBFGSSettings{Iterations: 25}},
	"search": {Method: "rw", Seed: 3, Threads: 1, Starts: []float64{.3, .6}, Link: "low-rank",
		Adam:   AdamSettings{Epochs: 6, Batch: 8},
		Search: Search{Points: 4, Axes: []Axis{{"rank", []float64{2, 3}}, {"lr", []float64{1e-3, 1e-2, 1e300}}}}},
	"factors": {Method: "shown", Seed: 3, Threads: 1, Link: "factors",
		Search: Search{Axes: []Axis{{"ridge", []float64{.5, 1}}, {"rank", []float64{1, 2}}}},
		LBFGS:  LBFGSSettings{Iterations: 15}},
	"replicated": {Method: "mle", Seed: 3, Threads: 1, Link: "factors", Ridge: 1,
		LinkOptions: model.LinkOptions{Rank: 2}, Exposure: "fields+person", Replicates: 3},
	"bayes": {Method: "bayes", Seed: 3, Threads: 1, Starts: []float64{.3, .8}},
	"terms": {Method: "bayes", Seed: 3, Threads: 1, Starts: []float64{.3, .8}, Replicates: 2,
		Exposure: "fields+text+popularity"},
	"drawn": {Method: "bayes", Seed: 3, Threads: 1, Starts: []float64{.3, .8}, Replicates: 2, mostExact: 4, draws: 8},
	"whole": {Method: "bayes", Seed: 3, Threads: 1, Starts: []float64{.3, .8}, Replicates: 2, mostBytes: 4 * 9 * 880,
		mostPairs: 500},
}

// checkpointProblem is small, has logged exposures, and is the same in every process.
func checkpointProblem(tb testing.TB, seed uint64) sample.Problem {
	tb.Helper()
	ctx := context.Background()
	w, err := world.New(ctx, world.Settings{Nodes: 80, Dim: 8, Fields: world.EvenFields(3),
		Scenario: world.Scenario{Seed: seed, Threads: 1}})
	if err != nil {
		tb.Fatal(err)
	}
	drawn, err := w.Pairs(ctx, 900, world.Draw{Logged: .05})
	if err != nil {
		tb.Fatal(err)
	}
	p := sample.Problem{Nodes: model.NodesOf(w.Graph()), Train: drawn.Pairs,
		Exposure: make([]risk.Exposure, drawn.Pairs.Len())}
	for k := range p.Exposure {
		p.Exposure[k] = drawn.Observation(k).Exposure
	}
	tb.Cleanup(func() { runtime.KeepAlive(w) })
	return p
}

// saveFit fits and saves the model.
func saveFit(ctx context.Context, p sample.Problem, s Settings, path string) (*Result, error) {
	r, err := Fit(ctx, p, s)
	if err != nil {
		return nil, err
	}
	m, err := r.Model()
	if err != nil {
		return nil, err
	}
	return r, model.Save(path, m)
}

func read(tb testing.TB, path string) []byte {
	tb.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// The environment of a helper process, which fits and is killed meanwhile.
const helperKind, helperFolder, helperThreads = "UNSEEN_FIT_KIND", "UNSEEN_FIT_FOLDER", "UNSEEN_FIT_THREADS"

// TestHelperProcess is no test: TestKilled runs it as a process of its own.
func TestHelperProcess(t *testing.T) {
	kind := os.Getenv(helperKind)
	if kind == "" {
		t.Skip("only as a helper process")
	}
	s := resumables[kind]
	folder := os.Getenv(helperFolder)
	s.Threads, _ = strconv.Atoi(os.Getenv(helperThreads))
	s.Checkpoint = Checkpoint{Path: filepath.Join(folder, "checkpoint"), Every: 2 * time.Millisecond, Keep: true}
	if _, err := os.Stat(s.Checkpoint.Path); err == nil {
		s.Checkpoint.Resume = true
	}
	if _, err := saveFit(context.Background(), checkpointProblem(t, 1), s, filepath.Join(folder, "model")); err != nil {
		t.Fatal(err)
	}
	if err := s.Checkpoint.Remove(); err != nil {
		t.Fatal(err)
	}
}

// A process that is killed at any moment, and resumed until it ends, leaves the model of one that
// was never interrupted, to the byte, whatever the number of threads and of processors of each attempt.
func TestKilled(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestResumedWithOtherThreads has the goroutines of fits that are interrupted")
	if runtime.GOOS == "windows" {
		t.Skip("no SIGKILL")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for kind, s := range resumables {
		t.Run(kind, func(t *testing.T) {
			folder := t.TempDir()
			want := filepath.Join(t.TempDir(), "model")
			if _, err := saveFit(context.Background(), checkpointProblem(t, 1), s, want); err != nil {
				t.Fatal(err)
			}
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			kills := 0
			for attempt := 1; ; attempt++ {
				helper := exec.Command(program, "-test.run", "^TestHelperProcess$")
				helper.Env = append(os.Environ(), helperKind+"="+kind, helperFolder+"="+folder,
					fmt.Sprintf("%s=%d", helperThreads, 1+attempt%3),
					fmt.Sprintf("GOMAXPROCS=%d", runtime.NumCPU()+attempt))
				var output bytes.Buffer
				helper.Stdout, helper.Stderr = &output, &output
				if err := helper.Start(); err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() { ended <- helper.Wait() }()
				kill := make(<-chan time.Time)
				if kills < *mostKills {
					// as soon as it has written once more, and some milliseconds
					kill = afterWrite(folder, time.Duration(rng.IntN(6_000))*time.Microsecond)
				}
				var err error
				select {
				case err = <-ended:
				case <-kill:
					helper.Process.Kill()
					err = <-ended
				}
				if err == nil && kills == 0 && attempt < 10 {
					continue // it was too quick: once more
				}
				if err == nil {
					break
				}
				if status, ok := helper.ProcessState.Sys().(syscall.WaitStatus); !ok ||
					status.Signal() != syscall.SIGKILL {
					t.Fatalf("seed %d, attempt %d: %v\n%s", seed, attempt, err, &output)
				}
				kills++
			}
			t.Logf("%d kills", kills)
			if kills == 0 {
				t.Errorf("seed %d: nothing was killed", seed)
			}
			if !bytes.Equal(read(t, want), read(t, filepath.Join(folder, "model"))) {
				t.Errorf("seed %d: after %d kills the model differs", seed, kills)
			}
			left, err := filepath.Glob(filepath.Join(folder, "*checkpoint*"))
			if err != nil || len(left) != 0 {
				t.Errorf("seed %d: %v are left: %v", seed, left, err)
			}
		})
	}
}

var mostKills = flag.Int("kills", 3, "how often TestKilled kills each kind of training at most")

// afterWrite signals some time after the checkpoint of a folder has changed.
func afterWrite(folder string, then time.Duration) <-chan time.Time {
	out := make(chan time.Time, 1)
	stamp := func() time.Time {
		if info, err := os.Stat(filepath.Join(folder, "checkpoint")); err == nil {
			return info.ModTime()
		}
		return time.Time{}
	}
	before := stamp()
	go func() {
		for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline) && stamp().Equal(before); {
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(then)
		out <- time.Now()
	}()
	return out
}

// countdown is a context that is cancelled after a number of calls of Err.
type countdown struct {
	context.Context
	cancel context.CancelFunc
	left   int
}

// newCountdown is for one thread: with more, the order of the calls is random.
func newCountdown(looks int) *countdown {
	ctx, cancel := context.WithCancel(context.Background())
	return &countdown{ctx, cancel, looks}
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		c.cancel()
	}
	return c.Context.Err()
}

// Wherever training checks its context, it can be cancelled there, and resumed to the same result.
func TestCancelledAnywhere(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestResumedWithOtherThreads has the goroutines of fits that are interrupted")
	p := checkpointProblem(t, 1)
	for kind, s := range resumables {
		t.Run(kind, func(t *testing.T) {
			want, err := Fit(context.Background(), p, s)
			if err != nil {
				t.Fatal(err)
			}
			folder := t.TempDir()
			s.Checkpoint = Checkpoint{Path: filepath.Join(folder, "checkpoint")}
			seed := rand.Uint64()
			rng := rand.New(rand.NewPCG(seed, 0))
			var r *Result
			cancelled := 0
			for range 200 {
				looks := 60
				if cancelled > 0 {
					looks = map[string]int{"adam": 2500, "lbfgs": 900, "search": 2500, "bayes": 700, "terms": 700,
						"drawn": 1500, "whole": 1200, "factors": 900, "replicated": 900}[kind]
				}
				ctx := newCountdown(rng.IntN(looks))
				r, err = Fit(ctx, p, s)
				ctx.cancel()
				if err == nil {
					break
				}
				if !errors.Is(err, context.Canceled) {
					t.Fatalf("seed %d: %v", seed, err)
				}
				files, err := os.ReadDir(folder)
				if err == nil && len(files) == 0 && cancelled == 0 {
					continue // cancelled before training began, with nothing to resume
				}
				if err != nil || len(files) != 1 || files[0].Name() != "checkpoint" {
					t.Fatalf("seed %d: cancelling leaves %v: %v", seed, files, err)
				}
				cancelled++
				s.Checkpoint.Resume = true
			}
			t.Logf("seed %d, cancelled %d times", seed, cancelled)
			if err != nil || cancelled == 0 {
				t.Fatalf("seed %d: cancelled %d times, then %v", seed, cancelled, err)
			}
			if files, err := os.ReadDir(folder); err != nil || len(files) != 0 {
				t.Errorf("seed %d: success leaves %v: %v", seed, files, err)
			}
			sameResult(t, want, r)
		})
	}
}

// sameResult compares everything but where checkpoints were.
func sameResult(t *testing.T, want, got *Result) {
	t.Helper()
	a, b := *want, *got
	a.Settings.Checkpoint, b.Settings.Checkpoint = Checkpoint{}, Checkpoint{}
	a.Settings.Threads, b.Settings.Threads = 0, 0
	a.Link, b.Link, a.Propensity, b.Propensity = nil, nil, nil, nil
	a.Speed, b.Speed, a.Settings.Progress, b.Settings.Progress = 0, 0, nil, nil
	if !reflect.DeepEqual(a, b) {
		t.Errorf("resumed, the result is\n%+v\nnot\n%+v", b, a)
	}
}

func TestResumedWithOtherThreads(t *testing.T) {
	t.Parallel()
	p := checkpointProblem(t, 1)
	for kind, s := range resumables {
		t.Run(kind, func(t *testing.T) {
			want, err := Fit(context.Background(), p, s)
			if err != nil {
				t.Fatal(err)
			}
			s.Checkpoint = Checkpoint{Path: filepath.Join(t.TempDir(), "checkpoint")}
			stopHalfway(t, p, s)
			s.Checkpoint.Resume, s.Threads = true, 3
			got, err := Fit(context.Background(), p, s)
			if err != nil {
				t.Fatal(err)
			}
			sameResult(t, want, got)
		})
	}
}

// stopHalfway leaves a checkpoint.
func stopHalfway(t *testing.T, p sample.Problem, s Settings) {
	t.Helper()
	ctx := newCountdown(60)
	if _, err := Fit(ctx, p, s); !errors.Is(err, context.Canceled) {
		t.Fatalf("not cancelled: %v", err)
	}
}

func TestCheckpointRefused(t *testing.T) {
	t.Parallel()
	p := checkpointProblem(t, 1)
	s := resumables["adam"]
	path := filepath.Join(t.TempDir(), "checkpoint")
	s.Checkpoint = Checkpoint{Path: path}
	stopHalfway(t, p, s)
	whole := read(t, path)

	refused := func(name string, p sample.Problem, s Settings, also error, says ...string) {
		t.Run(name, func(t *testing.T) {
			before, _ := os.ReadFile(path)
			_, err := Fit(context.Background(), p, s)
			if !errors.Is(err, ErrCheckpoint) || also != nil && !errors.Is(err, also) {
				t.Fatalf("got %v", err)
			}
			for _, s := range says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not say %q", err, s)
				}
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the checkpoint changed")
			}
		})
	}
	refused("started over", p, s, nil, path, "exists already", "resume it, or remove")
	s.Checkpoint.Resume = true
	refused("other data", checkpointProblem(t, 2), s, nil, path, "other data", "same data, or remove")
	logs := p
	logs.Exposure = slices.Clone(p.Exposure)
	logs.Exposure[slices.Index(logs.Exposure, risk.Exposed)] = risk.Unlogged
	refused("other logs", logs, s, nil, path, "other data")
	other := s
	other.Seed, other.Adam.Rate, other.Starts = 4, .01, []float64{.5}
	refused("other settings", p, other, nil, path, "adam.Rate is 0.001 there and 0.01 here",
		"seed is 3 there and 4 here", "starts is [0.3,0.6] there and [0.5] here")
	method := s
	method.Method = "ap"
	refused("other method", p, method, nil, path, "method rw, not ap")
	tables := p
	tables.Nodes.Age = make([]float32, len(p.Nodes.Fields))
	refused("other ages", tables, s, nil, path, "ages")

	gone := s
	gone.Checkpoint.Path += "-gone"
	refused("missing", p, gone, fs.ErrNotExist, gone.Checkpoint.Path, "start over")

	write := func(raw []byte) {
		if err := os.WriteFile(path, raw, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(whole[:len(whole)-5])
	refused("truncated", p, s, model.ErrFile, path, "truncated")
	write(nil)
	refused("empty", p, s, model.ErrFile, path)
	tampered := slices.Clone(whole)
	tampered[len(tampered)-9] ^= 1
	write(tampered)
	refused("tampered", p, s, model.ErrFile, path, "changed or damaged")

	file := &model.File{Metadata: map[string]string{"format": "unseen-model"}}
	if err := file.Save(path); err != nil {
		t.Fatal(err)
	}
	refused("a model", p, s, nil, path, "another kind")
	write(whole)
	file, err := model.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	file.Metadata[keyVersion] = "0"
	if err := file.Save(path); err != nil {
		t.Fatal(err)
	}
	refused("another version", p, s, nil, path, "version")
}

// A file whose digest is right and whose content is not, such as one made by hand, is an error or
// makes a model, and never a panic.
func TestForgedCheckpoint(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestResumedWithOtherThreads has the goroutines of fits that are interrupted")
	p := checkpointProblem(t, 1)
	for kind, s := range resumables {
		t.Run(kind, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "checkpoint")
			s.Checkpoint = Checkpoint{Path: path}
			stopHalfway(t, p, s)
			s.Checkpoint.Resume = true
			whole := read(t, path)
			open := func() *model.File {
				if err := os.WriteFile(path, whole, 0o666); err != nil {
					t.Fatal(err)
				}
				f, err := model.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				return f
			}
			attempt := func(f *model.File, what string, must bool) {
				t.Helper()
				if err := f.Save(path); err != nil {
					t.Fatal(err)
				}
				_, err := Fit(newCountdown(3), p, s)
				if must && !errors.Is(err, ErrCheckpoint) {
					t.Errorf("%s: %v", what, err)
				}
			}
			for i, tensor := range open().Tensors {
				f := open()
				f.Tensors = slices.Delete(f.Tensors, i, i+1)
				attempt(f, "without "+tensor.Name, tensor.Name != "result.link" &&
					tensor.Name != "result.propensity" && tensor.Name != "bayes.theta")
				f = open()
				f.Tensors[i].Shape, f.Tensors[i].Data = []int{1, 1}, []int32{7}
				attempt(f, "integers in "+tensor.Name, false)
			}
			var state map[string]int
			if err := json.Unmarshal([]byte(open().Metadata[keyState]), &state); err != nil {
				t.Fatal(err)
			}
			for name := range state {
				for _, value := range []int{-1, math.MaxInt32 + 1} {
					f := open()
					forged := map[string]int{}
					for k, v := range state {
						forged[k] = v
					}
					forged[name] = value
					text, err := json.Marshal(forged)
					if err != nil {
						t.Fatal(err)
					}
					f.Metadata[keyState] = string(text)
					attempt(f, fmt.Sprintf("%s = %d", name, value), value < 0)
				}
			}
			f := open()
			f.Metadata[keyState] = "[]"
			attempt(f, "no state", true)
		})
	}
}

// Where a checkpoint cannot be written, training ends with one error and the one before stays.
func TestCheckpointUnwritable(t *testing.T) {
	t.Parallel()
	p := checkpointProblem(t, 1)
	s := resumables["adam"]
	s.Checkpoint = Checkpoint{Path: filepath.Join(t.TempDir(), "no such folder", "checkpoint")}
	if _, err := Fit(context.Background(), p, s); !errors.Is(err, ErrCheckpoint) ||
		!errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), s.Checkpoint.Path) {
		t.Errorf("got %v", err)
	}

	// The folder vanishes under the training, and with it every place to write to.
	folder := filepath.Join(t.TempDir(), "folder")
	if err := os.Mkdir(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	s.Checkpoint = Checkpoint{Path: filepath.Join(folder, "checkpoint"), Every: time.Nanosecond}
	moved := false
	s.Progress = func(e progress.Event) {
		if !moved && e.Values["round"] > 1 {
			moved = true
			if err := os.Rename(folder, folder+"-away"); err != nil {
				t.Error(err)
			}
		}
	}
	_, err := Fit(context.Background(), p, s)
	s.Progress = nil
	if !errors.Is(err, ErrCheckpoint) || strings.Contains(err.Error(), "\n") ||
		!strings.Contains(err.Error(), "make its folder first, or choose another path") {
		t.Errorf("got %v", err)
	}
	s.Checkpoint = Checkpoint{Path: filepath.Join(folder+"-away", "checkpoint"), Resume: true}
	got, err := Fit(context.Background(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	s.Checkpoint = Checkpoint{}
	want, err := Fit(context.Background(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	sameResult(t, want, got)
}

func TestCheckpointSettings(t *testing.T) {
	t.Parallel()
	p := checkpointProblem(t, 1)
	for _, c := range []Checkpoint{{Resume: true}, {Path: "checkpoint", Every: -1}} {
		s := resumables["adam"]
		s.Checkpoint = c
		if _, err := Fit(context.Background(), p, s); !errors.Is(err, ErrSetting) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// What is written is small and often, and temporary files of a killed write go with the next.
func TestCheckpointLeftovers(t *testing.T) {
	t.Parallel()
	p := checkpointProblem(t, 1)
	s := resumables["adam"]
	folder := t.TempDir()
	s.Checkpoint = Checkpoint{Path: filepath.Join(folder, "checkpoint")}
	stopHalfway(t, p, s)
	for _, name := range []string{".checkpoint.123-0.tmp", ".checkpoint.mine.tmp", ".other.123-0.tmp", "note"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	s.Checkpoint.Resume = true
	if _, err := Fit(context.Background(), p, s); err != nil {
		t.Fatal(err)
	}
	var left []string
	files, err := os.ReadDir(folder)
	for _, f := range files {
		left = append(left, f.Name())
	}
	if want := []string{".checkpoint.mine.tmp", ".other.123-0.tmp", "note"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("%q are left, want %q: %v", left, want, err)
	}
}

// A training that other kernels began is resumed, and says so.
func TestResumedWithOtherKernels(t *testing.T) {
	t.Parallel()
	p := checkpointProblem(t, 1)
	s := resumables["adam"]
	path := filepath.Join(t.TempDir(), "checkpoint")
	s.Checkpoint = Checkpoint{Path: path}
	stopHalfway(t, p, s)
	f, err := model.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	f.Metadata[keyKernels] = "abacus"
	if err := f.Save(path); err != nil {
		t.Fatal(err)
	}
	s.Checkpoint.Resume = true
	r, err := Fit(context.Background(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(r.Warnings, func(w risk.Warning) bool {
		return w.Kind == "kernels" &&
			strings.Contains(w.Message, "abacus")
	}) {
		t.Errorf("no warning among %v", r.Warnings)
	}
}

// Trouble with the checkpoint at the very end costs a warning, not the result.
func TestCheckpointLostAtTheEnd(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestResumedWithOtherThreads has the goroutines of fits that are interrupted")
	p := checkpointProblem(t, 1)
	for _, keep := range []bool{false, true} {
		s := resumables["adam"]
		folder := filepath.Join(t.TempDir(), "folder")
		if err := os.Mkdir(folder, 0o777); err != nil {
			t.Fatal(err)
		}
		s.Checkpoint = Checkpoint{Path: filepath.Join(folder, "checkpoint"), Keep: keep}
		s.Progress = func(progress.Event) { os.RemoveAll(folder) }
		r, err := Fit(context.Background(), p, s)
		if err != nil || len(r.LinkParams) == 0 {
			t.Fatalf("keep %v: no result: %v", keep, err)
		}
		if !slices.ContainsFunc(r.Warnings, func(w risk.Warning) bool {
			return w.Kind == "checkpoint" &&
				strings.Contains(w.Message, folder)
		}) {
			t.Errorf("keep %v: no warning among %v", keep, r.Warnings)
		}
	}
}

// Data that nothing can be learned from leave no checkpoint in the way of the next attempt.
func TestCheckpointOfWhatCannotBe(t *testing.T) {
	t.Parallel()
	p := smallProblem(t, 60, 4, 400, 2)
	p.Nodes.Age = nil
	path := filepath.Join(t.TempDir(), "checkpoint")
	_, err := Fit(t.Context(), p, Settings{Exposure: "fields+age", Starts: []float64{.3}, Replicates: -1,
		Checkpoint: Checkpoint{Path: path}})
	if _, left := os.Lstat(path); !errors.Is(err, ErrData) || left == nil {
		t.Errorf("%v, and a checkpoint is there: %t", err, left == nil)
	}
}

// A kept checkpoint gives the result again, without training.
func TestCheckpointKept(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestResumedWithOtherThreads has the goroutines of fits that are interrupted")
	p := checkpointProblem(t, 1)
	for kind, s := range resumables {
		s.Checkpoint = Checkpoint{Path: filepath.Join(t.TempDir(), "checkpoint"), Keep: true}
		want, err := Fit(context.Background(), p, s)
		if err != nil {
			t.Fatal(err)
		}
		s.Checkpoint.Resume = true
		s.Progress = func(e progress.Event) { t.Errorf("%s trains: %+v", kind, e) }
		got, err := Fit(context.Background(), p, s)
		if err != nil {
			t.Fatal(err)
		}
		sameResult(t, want, got)
		if err := s.Checkpoint.Remove(); err != nil {
			t.Error(err)
		}
		if err := s.Checkpoint.Remove(); !errors.Is(err, ErrCheckpoint) {
			t.Errorf("removed twice: %v", err)
		}
	}
}

// A checkpoint of the last version, which had another name for the refits, is resumed.
func TestCheckpointOfLastVersion(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestResumedWithOtherThreads has the goroutines of fits that are interrupted")
	p, s := checkpointProblem(t, 1), resumables["bayes"]
	want, err := Fit(context.Background(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	s.Checkpoint = Checkpoint{Path: filepath.Join(t.TempDir(), "checkpoint")}
	if _, err := Fit(newCountdown(1000), p, s); !errors.Is(err, context.Canceled) {
		t.Fatalf("not cancelled: %v", err)
	}
	f, err := model.Open(s.Checkpoint.Path)
	if err != nil {
		t.Fatal(err)
	}
	renamed := strings.Count(f.Metadata[keyState], `"refits.`)
	f.Metadata[keyState] = strings.ReplaceAll(f.Metadata[keyState], `"refits.`, `"aftermath.`)
	for k, tensor := range f.Tensors {
		if rest, ok := strings.CutPrefix(tensor.Name, "refits."); ok {
			f.Tensors[k].Name = "aftermath." + rest
			renamed++
		}
	}
	if renamed < 4 {
		t.Fatalf("%d names were changed: the training stopped before its refits", renamed)
	}
	if err := f.Save(s.Checkpoint.Path); err != nil {
		t.Fatal(err)
	}
	s.Checkpoint.Resume = true
	got, err := Fit(context.Background(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	sameResult(t, want, got)
}

// What never began, or would only diverge again, leaves no checkpoint.
func TestCheckpointOfNothing(t *testing.T) {
	t.Parallel()
	p := checkpointProblem(t, 1)
	for _, s := range []Settings{
		{Method: "bayes", Link: "cosine"},
		{Method: "mle", Adam: AdamSettings{Rate: 1e300}},
		{Method: "cosine"},
	} {
		folder := t.TempDir()
		s.Checkpoint.Path = filepath.Join(folder, "checkpoint")
		_, err := Fit(context.Background(), p, s)
		if s.Method != "cosine" && !errors.Is(err, ErrSetting) && !errors.Is(err, ErrDiverged) {
			t.Errorf("%s: %v", s.Method, err)
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
			t.Errorf("%s leaves %v: %v", s.Method, left, err)
		}
	}
}

// FuzzSealedCheckpoint changes the state and one array of a checkpoint and seals it again, so that its digest is right:
// training goes on or refuses, and never panics.
func FuzzSealedCheckpoint(f *testing.F) {
	p := checkpointProblem(f, 1)
	kinds := []string{"adam", "lbfgs", "factors", "bayes"}
	settings, whole := make([]Settings, len(kinds)), make([]*model.File, len(kinds))
	path := filepath.Join(f.TempDir(), "checkpoint")
	for k, kind := range kinds {
		settings[k] = resumables[kind]
		settings[k].Checkpoint = Checkpoint{Path: path}
		if _, err := Fit(newCountdown(60), p, settings[k]); !errors.Is(err, context.Canceled) {
			f.Fatalf("not cancelled: %v", err)
		}
		settings[k].Checkpoint.Resume = true
		var err error
		if whole[k], err = model.Open(path); err != nil {
			f.Fatal(err)
		}
		os.Remove(path)
		f.Add(uint8(k), whole[k].Metadata[keyState], uint8(0), uint8(0), uint16(0), uint64(0))
		for tensor := range whole[k].Tensors {
			f.Add(uint8(k), "", uint8(tensor), uint8(0), uint16(3), math.Float64bits(math.NaN()))
			f.Add(uint8(k), "", uint8(tensor), uint8(3), uint16(0), uint64(1)<<62)
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, state string, tensor, length uint8, at uint16, bits uint64) {
		k := int(kind) % len(kinds)
		forged := &model.File{Metadata: maps.Clone(whole[k].Metadata), Tensors: slices.Clone(whole[k].Tensors)}
		if state != "" {
			forged.Metadata[keyState] = strings.ToValidUTF8(state, "?")
		}
		one := &forged.Tensors[int(tensor)%len(forged.Tensors)]
		switch data := one.Data.(type) {
		case []float64:
			one.Data = forge(one, data, int(length), int(at), math.Float64frombits(bits))
		case []float32:
			one.Data = forge(one, data, int(length), int(at), math.Float32frombits(uint32(bits)))
		case []int32:
			one.Data = forge(one, data, int(length), int(at), int32(bits))
		}
		s := settings[k]
		s.Checkpoint.Path = filepath.Join(t.TempDir(), "checkpoint")
		if err := forged.Save(s.Checkpoint.Path); err != nil {
			t.Skip("such a file cannot be written: ", err)
		}
		if _, err := Fit(newCountdown(3), p, s); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("more than a line: %q", err)
		}
	})
}

// forge changes a number of an array, and its length if one is given.
func forge[T any](of *model.Tensor, data []T, length, at int, x T) []T {
	data = slices.Clone(data)
	if length > 0 {
		data = append(data, make([]T, length)...)[:length]
		of.Shape = []int{length}
	}
	if len(data) > 0 {
		data[at%len(data)] = x
	}
	return data
}
