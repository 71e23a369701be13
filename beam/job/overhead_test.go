package job

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"unseen/beam/shards"
	"unseen/engine"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/sample"
)

// TestOverhead measures what a cluster costs beside one process, over the shards at UNSEEN_BEAM_SHARDS that unseen-beam
// generate made: one gradient of bayes and one information over all pairs, with two threads or two tasks at a time.
// It prints lines for bench/RESULTS.md. See flink/prove for how Flink joins in.
func TestOverhead(t *testing.T) {
	place := os.Getenv("UNSEEN_BEAM_SHARDS")
	if place == "" {
		t.Skip("a measurement for bench/RESULTS.md; set UNSEEN_BEAM_SHARDS to shards of unseen-beam generate")
	}
	ctx := context.Background()
	location := shards.Location{Root: place}
	m := must(location.Manifest(ctx))(t)
	pairs := fit.PairDesign{Unit: 1 / math.Sqrt(float64(m.Dim)), CaseControl: true}
	for cell := range len(m.Fields) * len(m.Fields) {
		pairs.Cells = append(pairs.Cells, int32(cell))
	}
	theta := make([]float64, m.Dim+1+len(pairs.Cells))
	for k := range theta {
		theta[k] = math.Sin(float64(3*k)) / 4
	}
	runs := 1
	if m.Extent.Pairs <= 10_000_000 {
		runs = 3
	}
	sums := sumsOfBayes
	if only := os.Getenv("UNSEEN_BEAM_SUM"); only != "" {
		sums = slices.DeleteFunc(slices.Clone(sums), func(s bayesSum) bool { return s.name != only })
	}
	want := make([][]float64, len(sums))
	func() {
		p := wholeProblem(t, location, m)
		defer p.Nodes.Vectors.Close()
		design, seen, _, err := pairs.Over(ctx, engine.CPU{Threads: 2}, p)
		if err != nil {
			t.Fatal(err)
		}
		l := must(design.Observe(ctx, seen))(t)
		for k, sum := range sums {
			cost := measure(t, runs, "", func() (err error) { want[k], err = sum.of(ctx, l, theta); return err })
			t.Logf("%d pairs, %s: one process %s", m.Extent.Pairs, sum.name, cost)
		}
	}()
	debug.FreeOSMemory()
	var bits [][]float64
	for name, runner := range runners() {
		cluster := &Cluster{Shards: location, Manifest: m, Runner: runner, Work: shards.Location{Root: t.TempDir()}}
		l := must(must(cluster.Population(0).Design(ctx, pairs))(t).Observe(ctx, engine.Outcomes{}))(t)
		got := make([][]float64, len(sums))
		for k, sum := range sums {
			cost := measure(t, runs, name, func() (err error) { got[k], err = sum.of(ctx, l, theta); return err })
			t.Logf("%d pairs, %s: %s %s, off by %.1g", m.Extent.Pairs, sum.name, name, cost, relative(got[k], want[k]))
			if off := relative(got[k], want[k]); off > 1e-6 {
				t.Errorf("%s on %s is off by %v of one process", sum.name, name, off)
			}
		}
		if bits != nil && !slices.EqualFunc(got, bits, slices.Equal) {
			t.Error("runners differ")
		}
		bits = got
	}
}

// bayesSum is a sum over all pairs.
type bayesSum struct {
	name string
	of   func(context.Context, engine.LogLikelihood, []float64) ([]float64, error)
}

// sumsOfBayes are those that a fit asks for again and again. UNSEEN_BEAM_SUM measures one of them.
var sumsOfBayes = []bayesSum{
	{"gradient", func(ctx context.Context, l engine.LogLikelihood, theta []float64) ([]float64, error) {
		grad := make([]float64, len(theta))
		value, err := l.Value(ctx, theta, grad)
		return append(grad, value), err
	}},
	{"information", func(ctx context.Context, l engine.LogLikelihood, theta []float64) ([]float64, error) {
		full, err := l.Information(ctx, theta)
		for i := range theta { // the upper triangle is not asked for
			clear(full[i*len(theta)+i+1 : (i+1)*len(theta)])
		}
		return full, err
	}},
}

// wholeProblem reads all shards into memory, ascending by source, as one machine has its pairs.
func wholeProblem(t *testing.T, location shards.Location, m *shards.Manifest) sample.Problem {
	t.Helper()
	ctx, l, n := context.Background(), m.Layout(), int(m.Extent.Pairs)
	all := &graph.Pairs{Source: make([]int32, n), Target: make([]int32, n), Linked: make([]bool, n),
		Weight: make([]float64, n), Rate: make([]float64, n)}
	nodes := model.Nodes{Vectors: must(graph.NewVectors(m.Nodes, m.Dim))(t), FieldCount: len(m.Fields),
		FieldNames: m.Fields}
	row, from := make([]float32, m.Dim), 0
	for b, block := range m.Blocks {
		vectors, table, err := location.OpenBlock(ctx, l, block)
		if err != nil {
			t.Fatal(err)
		}
		nodes.Fields = append(nodes.Fields, table.Fields...)
		for i := range int32(block.Nodes) {
			vectors.Load(row, i)
			if err := nodes.Vectors.Set(int32(block.First)+i, row); err != nil {
				t.Fatal(err)
			}
		}
		vectors.Close()
		var parts []*graph.Pairs
		next := make([]int, block.Nodes+1) // where the next pair of a source goes
		for _, s := range m.Train {
			if s.Source != b {
				continue
			}
			p, _, err := location.Pairs(ctx, s, 2)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range p.Source {
				next[int(i)-block.First+1]++
			}
			parts = append(parts, p)
		}
		next[0] = from
		for i := range block.Nodes {
			next[i+1] += next[i]
		}
		from = next[block.Nodes]
		for _, p := range parts {
			for k, i := range p.Source {
				at := next[int(i)-block.First]
				next[int(i)-block.First]++
				all.Source[at], all.Target[at], all.Linked[at] = i, p.Target[k], p.Linked[k]
				all.Weight[at], all.Rate[at] = p.Weight[k], p.Rate[k]
			}
		}
	}
	return sample.Problem{Nodes: nodes, Train: all}
}

// sumCost is what a sum takes.
type sumCost struct {
	seconds, processor float64 // the latter of all processes
	peak               string  // resident memory
}

func (c sumCost) String() string {
	return fmt.Sprintf("%.2f s, %.2f core-seconds, peak resident memory %s", c.seconds, c.processor, c.peak)
}

// measure returns what the fastest of some runs takes. On Flink, the memory is that of the largest worker.
func measure(t *testing.T, runs int, name string, work func() error) (best sumCost) {
	t.Helper()
	for range runs {
		peak := watchMemory(name == "flink")
		before, began := clusterSeconds(t), time.Now()
		if err := work(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		took := sumCost{time.Since(began).Seconds(), clusterSeconds(t) - before, peak()}
		if best.seconds == 0 || took.seconds < best.seconds {
			best = took
		}
	}
	return best
}

// clusterSeconds is how much this process and those of flink/up with their workers have used of all cores. A worker
// counts once it has ended.
func clusterSeconds(t *testing.T) float64 {
	t.Helper()
	used := processorSeconds(t)
	files, _ := filepath.Glob(filepath.Join(os.Getenv("UNSEEN_FLINK_PIDS"), "*.pid"))
	for _, file := range files {
		number := must(os.ReadFile(file))(t)
		text, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(number)), "stat"))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		for _, ticks := range strings.Fields(rest)[11:15] { // its own, and those of children that have ended
			n, _ := strconv.ParseFloat(ticks, 64)
			used += n / 100
		}
	}
	return used
}

// watchMemory follows this process, or the workers of Flink, and returns what the largest of them has taken.
func watchMemory(flink bool) func() string {
	if !flink {
		os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // its peak begins anew
		return func() string { return fmt.Sprintf("%d MB", peakMemory("/proc/self")>>10) }
	}
	stop := make(chan bool)
	var wait sync.WaitGroup
	peak := 0
	wait.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
			all, _ := filepath.Glob("/proc/[0-9]*/exe")
			for _, link := range all {
				if exe, err := os.Readlink(link); err == nil && exe == os.Getenv("UNSEEN_WORKER") {
					peak = max(peak, peakMemory(filepath.Dir(link)))
				}
			}
		}
	})
	return func() string {
		close(stop)
		wait.Wait()
		return fmt.Sprintf("%d MB", peak>>10)
	}
}

// peakMemory is the largest resident memory that a process has had, in kB.
func peakMemory(process string) int {
	status, _ := os.ReadFile(filepath.Join(process, "status"))
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	if fields := strings.Fields(rest); len(fields) > 0 {
		kilobytes, _ := strconv.Atoi(fields[0])
		return kilobytes
	}
	return 0
}

// TestStartOfJobs measures what a job costs that has next to nothing to do: the first on a cluster, and those after it,
// as the jobs of a fit come one after the other; also with workers that stay between jobs, which must give the same
// bits. It prints lines for bench/RESULTS.md.
func TestStartOfJobs(t *testing.T) {
	program := os.Getenv("UNSEEN_WORKER")
	if os.Getenv("UNSEEN_FLINK") == "" || program == "" {
		t.Skip("a measurement for bench/RESULTS.md; run flink/prove -run StartOfJobs")
	}
	all := runners()
	staying := all["flink"]
	staying.Environment, staying.Config = "EXTERNAL", keptWorkers(t, program)
	all["flink with workers that stay"] = staying
	s := newSetup(t, 300, 8)
	cluster, m := s.cut(t, shards.CutSettings{Nodes: 300, Pairs: 1 << 20})
	cluster.Settings = settingsFor("ap")
	o := must(cluster.Settings.Objective(must(m.Shape())(t), cluster.Manifest.Extent))(t)
	var bits []float64
	for name, runner := range all {
		cluster.Runner = runner
		var seconds []float64
		for range 20 {
			began, grad := time.Now(), make([]float64, o.Size())
			parts := must(cluster.Gradient(t.Context(), o, make([]float32, o.Size()), grad))(t)
			seconds = append(seconds, time.Since(began).Seconds())
			if grad = append(grad, parts.Total()); bits != nil && !slices.Equal(grad, bits) {
				t.Fatalf("%s has other bits", name)
			}
			bits = grad
		}
		later := slices.Sorted(slices.Values(seconds[1:]))
		t.Logf("%s: the first job took %.2f s, the %d after it a median of %.2f s, at most %.2f s: %.2f", name,
			seconds[0], len(later), later[len(later)/2], later[len(later)-1], seconds)
	}
}

// keptWorkers starts workers that stay, and returns their address.
func keptWorkers(t *testing.T, program string) string {
	t.Helper()
	command := exec.Command(program, "workers", "--port", "0")
	says := must(command.StderrPipe())(t)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Signal(os.Interrupt)
		if err := command.Wait(); err != nil {
			t.Errorf("workers that were interrupted: %v", err)
		}
	})
	line := must(bufio.NewReader(says).ReadString('\n'))(t)
	return strings.TrimSpace(strings.TrimPrefix(line, "workers on "))
}
