package job

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"unseen/beam/shards"
	"unseen/engine"
	"unseen/fit"
	"unseen/model"
	"unseen/recommend"
)

// TestBayesCosts measures the jobs of bayes on Prism, in core-seconds of this process, which depend little on what else
// the machine does: UNSEEN_BEAM_COSTS=1000000 pairs with vectors of UNSEEN_BEAM_DIM (64). It prints lines for
// bench/RESULTS.md, and what unseen-beam plan reckons with.
func TestBayesCosts(t *testing.T) {
	pairs, err := strconv.Atoi(os.Getenv("UNSEEN_BEAM_COSTS"))
	if err != nil {
		t.Skip("UNSEEN_BEAM_COSTS does not say of how many pairs: no cost was measured")
	}
	dim := 64
	if n, err := strconv.Atoi(os.Getenv("UNSEEN_BEAM_DIM")); err == nil {
		dim = n
	}
	ctx := context.Background()
	cluster := generated(t, shards.GenerateSettings{Nodes: 1 << 17, Pairs: int64(pairs), Dimension: dim, Blocks: 2})
	m := cluster.Manifest
	all := cluster.Population(0)
	cost := func(what string, work func() error) {
		before, began := processorSeconds(t), time.Now()
		if err := work(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		used := processorSeconds(t) - before
		t.Logf("%s of %d pairs in %d shards, dimension %d: %.1f s, %.3f core-seconds per million pairs", what, pairs,
			len(m.Train), dim, time.Since(began).Seconds(), used/float64(pairs)*1e6)
	}
	var survey fit.PairSurvey
	cost("survey", func() (err error) {
		survey, err = all.Survey(ctx, fit.PairChoice{Share: [3]float64{1, 1, 1}})
		return err
	})
	cost("draw", func() error {
		share := 131072 / float64(pairs)
		_, err := all.Draw(ctx, fit.PairChoice{Seed: 1, Share: [3]float64{share, share, share}})
		return err
	})
	design := must(all.Design(ctx, fit.PairDesign{Cells: fieldsOf(survey), Unit: 1. / 64, CaseControl: true}))(t)
	root := engine.Root{Divisor: 64}
	for range max(8, min(64, 4096/dim)) {
		root.Rows = append(root.Rows, slices.Repeat([]float32{.01}, dim+1))
	}
	l := must(design.Observe(ctx, engine.Outcomes{Root: &root}))(t)
	theta := make([]float64, dim+1+len(survey.First))
	grad := make([]float64, len(theta))
	value := func() error { _, err := l.Value(ctx, theta, grad); return err }
	cost("value, leverage found", value)
	cost("value, leverage kept", value)
	cost("value, leverage kept", value)
	cost("information", func() error { _, err := l.Information(ctx, theta); return err })
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	t.Logf("peak resident memory of this process, driver and worker and the test's own pairs: %d MB", usage.Maxrss>>10)
}

// TestTopCosts measures lists on one core, with vectors of UNSEEN_BEAM_DIM.
func TestTopCosts(t *testing.T) {
	dim, err := strconv.Atoi(os.Getenv("UNSEEN_BEAM_DIM"))
	if err != nil {
		t.Skip("a measurement for bench/RESULTS.md; set UNSEEN_BEAM_DIM to a dimension to make it")
	}
	ctx := context.Background()
	cluster := generated(t, shards.GenerateSettings{Nodes: 1 << 17, Pairs: 1, Dimension: dim, Blocks: 1})
	m := cluster.Manifest
	vectors, table, err := cluster.Shards.OpenBlock(ctx, m.Layout(), m.Blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	defer vectors.Close()
	nodes := model.Nodes{Vectors: vectors, Fields: table.Fields, FieldCount: len(m.Fields), FieldNames: m.Fields}
	link := must(model.NewLink("diagonal", nodes, model.LinkOptions{}))(t)
	fitted := model.Model{Link: link, LinkParams: slices.Repeat([]float32{.5}, link.Size())}
	sources := make([]recommend.BlockSource, 1024)
	for k := range sources {
		sources[k].Node = int32(k)
	}
	block := recommend.Block{Vectors: vectors, Fields: table.Fields, FieldCount: len(m.Fields),
		Engine: engine.CPU{Threads: 1}}
	top := measure(t, 3, "", func() error { _, err := block.Top(ctx, fitted, sources, 10); return err })
	t.Logf("top-10 of %d sources among %d targets, dimension %d, one core: %.2f s, %.2f s per billion comparisons",
		len(sources), m.Nodes, dim, top.seconds, top.seconds/float64(len(sources)*m.Nodes)*1e9)
}

// generated is a cluster over shards of random pairs.
func generated(t *testing.T, s shards.GenerateSettings) *Cluster {
	t.Helper()
	s.Fields, s.PerLink, s.Seed = 19, 4, 1
	location := shards.Location{Root: filepath.Join(t.TempDir(), "shards")}
	return &Cluster{Shards: location, Manifest: must(shards.Generate(context.Background(), location, s))(t),
		Work: shards.Location{Root: t.TempDir()}}
}

// processorSeconds is how much this process has used of all cores.
func processorSeconds(t *testing.T) float64 {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	of := func(v syscall.Timeval) float64 { return float64(v.Sec) + float64(v.Usec)/1e6 }
	return of(usage.Utime) + of(usage.Stime)
}
