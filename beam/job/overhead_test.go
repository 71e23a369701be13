package job

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"unseen/beam/shards"
	"unseen/engine"
	"unseen/graph"
	"unseen/model"
	"unseen/recommend"
	"unseen/sample"
)

// TestOverhead measures what a cluster costs beside one process: UNSEEN_BEAM_BENCH=50000000 pairs,
// on as many cores as UNSEEN_BEAM_THREADS says (2), with vectors of UNSEEN_BEAM_DIM (64). It prints
// lines for bench/RESULTS.md. See flink/prove for how Flink joins in.
func TestOverhead(t *testing.T) {
	pairs, err := strconv.Atoi(os.Getenv("UNSEEN_BEAM_BENCH"))
	if err != nil {
		t.Skip("a measurement; set UNSEEN_BEAM_BENCH to a number of pairs")
	}
	threads := 2
	if n, err := strconv.Atoi(os.Getenv("UNSEEN_BEAM_THREADS")); err == nil {
		threads = n
	}
	const nodes = 1 << 17
	dim := 64
	if n, err := strconv.Atoi(os.Getenv("UNSEEN_BEAM_DIM")); err == nil {
		dim = n
	}
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 1))
	g, train := randomPairs(t, rng, nodes, dim, pairs)
	s := setup{&sample.Prepared{Graph: g, Problem: sample.Problem{Nodes: model.NodesOf(g), Train: train}}}
	began := time.Now()
	cluster, m := s.cut(t, shards.CutSettings{})
	t.Logf("cutting %d pairs into %d shards: %.1f s", pairs, len(m.Train), time.Since(began).Seconds())
	cluster.Settings = settingsFor("ap")
	o := must(cluster.Settings.Objective(s.Problem.Nodes, m.Extent))(t)
	o.Pairs = train
	params, grad := make([]float32, o.Size()), make([]float64, o.Size())
	for i := range params {
		params[i] = float32(rng.NormFloat64())
	}
	plain := measure(t, "one process", func() error {
		_, err := engine.CPU{Threads: threads}.Gradient(ctx, o, params, grad)
		return err
	})
	t.Logf("gradient of %d pairs, dimension %d: one process, %d threads, %.2f s (%.3f core-seconds per million pairs)",
		pairs, dim, threads, plain, plain*float64(threads)/float64(pairs)*1e6)
	few := &graph.Pairs{}
	for k := range 64 {
		few.Source, few.Target, few.Linked = append(few.Source, int32(k)), append(few.Target, int32(k+1)),
			append(few.Linked, true)
		few.Weight, few.Rate = append(few.Weight, 1), append(few.Rate, 1)
	}
	tiny := setup{&sample.Prepared{Graph: g, Problem: sample.Problem{Nodes: s.Problem.Nodes, Train: few}}}
	started, _ := tiny.cut(t, shards.CutSettings{Nodes: 1024})
	started.Settings = cluster.Settings
	for name, runner := range runners() {
		cluster.Runner, started.Runner = runner, runner
		start := measure(t, name, func() error { _, err := started.Gradient(ctx, o, params, grad); return err })
		stop := watchMemory(os.Getenv("UNSEEN_WORKER"))
		took := measure(t, name, func() error { _, err := cluster.Gradient(ctx, o, params, grad); return err })
		t.Logf("the same on %s: %.2f s, %.2f of one process; a job of one small shard takes %.2f s; workers' "+
			"peak resident memory %s", name, took, took/plain, start, stop())
	}
	// Top-K over blocks.
	link, _ := o.Split(params)
	fitted := model.Model{Link: o.Link, LinkParams: link}
	sources := make([]recommend.BlockSource, 1024)
	for k := range sources {
		sources[k].Node = int32(k)
	}
	block := recommend.Block{Vectors: g.Vectors(), Fields: g.Fields(), FieldCount: g.FieldCount(),
		Engine: engine.CPU{Threads: 1}}
	top := measure(t, "top-K", func() error {
		_, err := block.Top(ctx, fitted, sources, 10)
		return err
	})
	compared := float64(len(sources)) * nodes
	t.Logf("top-10 of %d sources among %d targets, dimension %d, one core: %.2f s, %.2f s per billion comparisons",
		len(sources), nodes, dim, top, top/compared*1e9)
}

// randomPairs is a graph without links and pairs between its nodes, a fifth of them linked.
func randomPairs(t *testing.T, rng *rand.Rand, nodes, dim, pairs int) (*graph.Graph, *graph.Pairs) {
	t.Helper()
	const fields = 19
	b := &graph.Builder{}
	for i := range nodes {
		must(b.AddNode(graph.Node{ID: strconv.Itoa(i), Field: fmt.Sprint("field ", rng.IntN(fields))}))(t)
	}
	g, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	vectors := must(graph.NewVectors(nodes, dim))(t)
	row := make([]float32, dim)
	for i := range int32(nodes) {
		for k := range row {
			row[k] = float32(rng.NormFloat64()) / 8
		}
		if err := vectors.Set(i, row); err != nil {
			t.Fatal(err)
		}
	}
	g = must(g.WithVectors(vectors))(t)
	train := &graph.Pairs{Universe: int64(nodes) * int64(nodes-1)}
	for k := range pairs {
		linked := k%5 == 0
		weight, rate := 1., 1e-2
		if !linked {
			weight = 100
		}
		source := int32(k * nodes / pairs)
		target := rng.Int32N(int32(nodes - 1))
		if target >= source {
			target++
		}
		train.Source, train.Target, train.Linked = append(train.Source, source), append(train.Target, target),
			append(train.Linked, linked)
		train.Weight, train.Rate = append(train.Weight, weight), append(train.Rate, rate)
	}
	return g, train
}

// measure returns the seconds of the fastest of three runs.
func measure(t *testing.T, name string, work func() error) float64 {
	t.Helper()
	best := 0.
	for range 3 {
		began := time.Now()
		if err := work(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if took := time.Since(began).Seconds(); best == 0 || took < best {
			best = took
		}
	}
	return best
}

// watchMemory follows the processes of a program and returns what the largest of them has taken.
func watchMemory(program string) func() string {
	if program == "" {
		return func() string { return "(in this process)" }
	}
	stop := make(chan bool)
	var wait sync.WaitGroup
	peak := 0
	wait.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond):
			}
			all, _ := filepath.Glob("/proc/[0-9]*/exe")
			for _, link := range all {
				if exe, err := os.Readlink(link); err != nil || exe != program {
					continue
				}
				status, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "status"))
				for line := range strings.SplitSeq(string(status), "\n") {
					if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
						kb, _ := strconv.Atoi(strings.Fields(rest)[0])
						peak = max(peak, kb)
					}
				}
			}
		}
	})
	return func() string {
		close(stop)
		wait.Wait()
		return fmt.Sprintf("%d MB", peak/1024)
	}
}
