package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"time"

	"unseen/engine"
	"unseen/fit"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/progress"
	"unseen/sample"
)

// scales need a clone of the paper's Dataset 1, 7.5 GB on disk, and run only when named. The peer
// is the goal: a minute per epoch, 1.5 GB without the mapped vectors.
var scales = []comparison{
	cloned("naive", "naive", true), cloned("mle", "mle", true), cloned("rw", "R_w", true), cloned("pu", "R_PU", true),
	cloned("ap", "R_AP", true),
	cloned("rw", "R_w in batches of 32 single pairs", false),
	{"clone-lbfgs", "the gradient over all its pairs, as a step of L-BFGS needs it, against 60 s", 1, "passes/min",
		(*bench).clonePass},
	{"clone-checksum", "the checksum of its data, which a checkpoint needs, against 60 s", 1, "sums/min",
		(*bench).cloneChecksum},
	{"clone-bayes", "Fit by bayes of all its pairs, with links of a planted truth and with intervals, against 10 min",
		1, "fits/10min", (*bench).cloneBayes},
	{"clone-memory", "peak memory of the above without mapped vectors, from the creation of the graph on, " +
		"against 1.5 GB", 1, "1/GB", (*bench).cloneMemory},
}

// cloned is an epoch of a method, in large batches of whole sources or as the preset has it.
func cloned(method, about string, bySource bool) comparison {
	name, adam := "clone-"+method, fit.AdamSettings{Epochs: 1, Batch: 1024, BySource: true}
	if !bySource {
		name, adam = name+"-32", fit.AdamSettings{Epochs: 1}
	}
	return comparison{name, "Fit by " + about +
		" for an epoch, with its checks and findings, 2.4M nodes, 37.9M pairs, two threads, against 60 s", 1,
		"epochs/min",
		func(b *bench) (float64, float64, error) { return b.cloneEpoch(method, adam) }}
}

const (
	cloneThreads = 2
	// cloneLimit is the limit of the garbage collector, which would otherwise let garbage grow to
	// the size of what is in use. Mapped vectors do not count. GOMEMLIMIT overrides it.
	cloneLimit = 1250 << 20
)

// cloneProblem makes the graph, samples pairs and maps the vectors, once.
func (b *bench) cloneProblem() (sample.Problem, error) {
	if b.problem != nil {
		return *b.problem, nil
	}
	ctx := context.Background()
	c := paperClone.scaled(b.scale)
	c.half = b.half
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(cloneLimit)
	}
	var path string
	var made bool
	if err := b.part("vectors", func() (err error) {
		path, made, err = c.vectors(ctx, b.dir, cloneThreads, b.notes)
		return err
	}); err != nil {
		return sample.Problem{}, err
	}
	fmt.Fprintf(b.notes, "%s, generated now: %t\n", path, made)
	var g *graph.Graph
	if err := b.part("graph", func() (err error) { g, err = c.graph(); return err }); err != nil {
		return sample.Problem{}, err
	}
	var pairs *graph.Pairs
	if err := b.part("sample", func() (err error) {
		pairs, _, err = graph.Sample(g, graph.Universe{Before: g.Order()}, graph.SampleOptions{Src: rand.NewPCG(1, 1)})
		return err
	}); err != nil {
		return sample.Problem{}, err
	}
	vectors, err := c.open(path)
	if err != nil {
		return sample.Problem{}, err
	}
	if err := b.part("attach", func() (err error) { g, err = g.WithVectors(vectors); return err }); err != nil {
		return sample.Problem{}, err
	}
	b.problem = &sample.Problem{Nodes: model.NodesOf(g), Train: pairs}
	return *b.problem, nil
}

// part runs a part of the work and prints its time and memory.
func (b *bench) part(name string, work func() error) error {
	watch := watchMemory()
	began, spentBefore := time.Now(), processorTime()
	err := work()
	took, spent := time.Since(began), processorTime()-spentBefore
	peak, failed := watch.stop()
	b.peak = max(b.peak, peak.own)
	if failed != nil {
		fmt.Fprintf(b.notes, "%-14s %5.1f s, %5.1f s of processors, memory unknown: %v\n", name, took.Seconds(),
			spent.Seconds(), failed)
	} else {
		fmt.Fprintf(b.notes, "%-14s %5.1f s, %5.1f s of processors, at most %.2f GB and %.2f GB of mapped files\n",
			name, took.Seconds(), spent.Seconds(), float64(peak.own)/1e9, float64(peak.mapped)/1e9)
	}
	return err
}

// cloneEpoch fits for an epoch.
func (b *bench) cloneEpoch(method string, adam fit.AdamSettings) (float64, float64, error) {
	p, err := b.cloneProblem()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	var first, last time.Time
	var r *fit.Result
	err = b.part("fit "+method, func() (err error) {
		r, err = fit.Fit(context.Background(), p, fit.Settings{
			Method: method, Starts: []float64{.3}, Threads: cloneThreads, Adam: adam,
			Progress: func(progress.Event) {
				if last = time.Now(); first.IsZero() {
					first = last
				}
			},
		})
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	ended := time.Now()
	fmt.Fprintf(b.notes, "%14s before %.1f s, training and validation %.1f s (%.3g pairs/s), after %.1f s\n", "",
		first.Sub(began).Seconds(), last.Sub(first).Seconds(), r.Speed, ended.Sub(last).Seconds())
	return 60 / ended.Sub(began).Seconds(), 1, nil
}

func (b *bench) clonePass() (float64, float64, error) {
	p, err := b.cloneProblem()
	if err != nil {
		return 0, 0, err
	}
	o, err := likelihood(p)
	if err != nil {
		return 0, 0, err
	}
	o.LambdaR, o.Risk, o.Floor, o.Held = 1, engine.RiskW, .05, true
	params, grad := make([]float32, o.Size()), make([]float64, o.Size())
	began := time.Now()
	err = b.part("full gradient", func() error {
		_, err := engine.CPU{Threads: cloneThreads}.Gradient(context.Background(), o, params, grad)
		return err
	})
	return 60 / time.Since(began).Seconds(), 1, err
}

func (b *bench) cloneChecksum() (float64, float64, error) {
	p, err := b.cloneProblem()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	err = b.part("checksum", func() error { p.Checksum(); return nil })
	return 60 / time.Since(began).Seconds(), 1, err
}

// cloneBayes fits all pairs with all that intervals need: three starts and ten replicates. The clone's own links say
// nothing of relevance, so they are replaced by links of a planted truth, and the estimates can be compared with it.
func (b *bench) cloneBayes() (float64, float64, error) {
	p, err := b.cloneProblem()
	if err != nil {
		return 0, 0, err
	}
	b.problem = nil // its links are replaced
	var truth float64
	if err := b.part("plant", func() (err error) { truth, err = plant(p); return err }); err != nil {
		return 0, 0, err
	}
	began, phase, since := time.Now(), "before", time.Now()
	name := func(next string) {
		if next != phase {
			fmt.Fprintf(b.notes, "%14s %-32s %6.1f s\n", "", phase, time.Since(since).Seconds())
			phase, since = next, time.Now()
		}
	}
	var r *fit.Result
	err = b.part("bayes", func() (err error) {
		r, err = fit.Fit(context.Background(), p, fit.Settings{Doctor: fit.QuickDoctor, Threads: cloneThreads,
			Progress: func(e progress.Event) { name(e.Phase) }})
		return err
	})
	name("")
	if err != nil {
		return 0, 0, err
	}
	took, mean := time.Since(began), r.Findings.MeanLink
	fmt.Fprintf(b.notes, "%14s mean ŷ %.4f, from %.4f to %.4f; planted %.4f\n", "", mean.Value, mean.Lower, mean.Upper,
		truth)
	return 600 / took.Seconds(), 1, nil
}

// plant replaces the links of a problem by those of a truth like that of the saturated worlds, as if its pairs were
// drawn at random, and returns the mean y: z has a standard deviation of 3, and pairs of one field are shown with a
// probability of .5, others with .05 to .3.
func plant(p sample.Problem) (meanLink float64, err error) {
	rows, pairs, n := kern.MatrixOf(p.Nodes.Vectors), p.Train, p.Train.Len()
	rng := rand.New(rand.NewPCG(7, 7))
	w := make([]float32, rows.Dim())
	for k := range w {
		w[k] = float32(rng.NormFloat64())
	}
	few := make([]float32, min(n, 1<<14))
	kern.DotPairs(few, w, rows, pairs.Source[n-len(few):], pairs.Target[n-len(few):])
	var sum, squares float64
	for _, z := range few {
		sum, squares = sum+float64(z), squares+float64(z)*float64(z)
	}
	mean := sum / float64(len(few))
	scale := 3 / math.Sqrt(squares/float64(len(few))-mean*mean)
	const chunk = 1 << 12
	sums := make([]float64, (n+chunk-1)/chunk)
	err = kern.ChunksErr(context.Background(), n, chunk, cloneThreads, func(_, number, from, to int) error {
		rng, z := rand.New(rand.NewPCG(8, uint64(number))), make([]float32, to-from)
		kern.DotPairs(z, w, rows, pairs.Source[from:to], pairs.Target[from:to])
		for k, x := range z {
			y, _ := kern.Sigmoid64(scale*(float64(x)-mean) - 3.5)
			sums[number] += y
			i, j := p.Nodes.Fields[pairs.Source[from+k]], p.Nodes.Fields[pairs.Target[from+k]]
			pi := .5
			if i != j {
				pi = .05 + .25*float64(mix(uint64(i)<<16|uint64(j))>>11)/(1<<53)
			}
			pairs.Linked[from+k] = rng.Float64() < pi && rng.Float64() < y
			pairs.Weight[from+k], pairs.Rate[from+k] = 1, 1
		}
		return nil
	})
	for _, y := range sums {
		meanLink += y / float64(n)
	}
	return meanLink, err
}

func (b *bench) cloneMemory() (float64, float64, error) {
	if _, err := b.cloneProblem(); err != nil {
		return 0, 0, err
	}
	return 1e9 / float64(b.peak), 1 / 1.5, nil
}
