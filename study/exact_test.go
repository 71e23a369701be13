package study

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"unseen/fit"
	"unseen/gpu"
	"unseen/graph"
	"unseen/model"
	"unseen/progress"
	"unseen/sample"
)

// A small world: samples come nearer to all pairs as they grow, one that is taken for the population does not, and
// few candidates flatter.
func TestExactStudy(t *testing.T) {
	t.Parallel()
	l := small(2, 31, 32)
	l.begin(exact.Name)
	r, err := exact.run(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	r.Study = exact.Name
	if err := r.check(); err != nil {
		t.Error(err)
	}
	for _, f := range r.Rows.([]*exactFound) {
		first, last := f.Samples[0], f.Samples[len(f.Samples)-1]
		if len(f.Samples) < 4 || f.steps == 0 || first.Pairs != 300*299 || first.Links < 300 {
			t.Fatalf("%+v and %d others, %d steps", first, len(f.Samples)-1, f.steps)
		}
		if last.Excess < -1e-4 || last.Excess > first.Excess || last.AP > .2 || first.Inflation < 2*first.Exposure {
			t.Errorf("%+v, then %+v", first, last)
		}
		few, all := f.Ranks[0], f.Ranks[len(f.Ranks)-1]
		if !(few.Learned > all.Learned && few.Learned <= 1+1e-9 && all.Candidates == 300 && all.Learned > 0) {
			t.Errorf("%+v, then %+v", few, all)
		}
	}
	for _, c := range r.Claims {
		if c.Verdict != Met && c.Verdict != Missed || strings.Contains(c.Evidence, "NaN") {
			t.Errorf("%+v", c)
		}
	}
	again := small(1, 31)
	again.begin(exact.Name)
	same, err := exact.run(t.Context(), again)
	if err != nil || *same.Rows.([]*exactFound)[0].Samples[1] != *r.Rows.([]*exactFound)[0].Samples[1] {
		t.Errorf("another number of threads: %v", err)
	}
}

// Worlds of one study have samples of the same sizes, whatever links each has.
func TestExactStudyOfUnevenSeeds(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	if _, err := Run(t.Context(), []string{"exact"}, Options{Seeds: Seeds(2001, 6), Nodes: 205, Dim: 4}); err != nil {
		t.Error(err)
	}
}

// TestExactFitOnACard measures learning from all pairs of UNSEEN_CARD nodes with 768 numbers each, on a card.
func TestExactFitOnACard(t *testing.T) {
	nodes, err := strconv.Atoi(os.Getenv("UNSEEN_CARD"))
	if err != nil {
		t.Skip("UNSEEN_CARD does not say of how many nodes: nothing was learned on a card; gpu/prove does")
	}
	card, err := gpu.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer card.Close()
	on, err := gpu.New(card, gpu.Settings{Format: gpu.BFloat16})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	say := func(format string, a ...any) {
		t.Logf("%6.1f s: %s", time.Since(began).Seconds(), fmt.Sprintf(format, a...))
	}
	w, err := newExactWorld(t.Context(), 1, nodes, 768, runtime.NumCPU())
	if err != nil {
		t.Fatal(err)
	}
	say("%d nodes, %d links", nodes, w.graph.LinkCount())
	pairs, _, err := graph.Sample(w.graph, graph.Universe{}, graph.SampleOptions{PerLink: 2, Src: rand.NewPCG(1, 1)})
	if err != nil {
		t.Fatal(err)
	}
	say("%d pairs drawn", pairs.Len())
	// ten times as many pairs are exposed as are linked
	start := 10 * float64(w.graph.LinkCount()) / float64(nodes) / float64(nodes)
	last := ""
	r, err := fit.Fit(t.Context(), sample.Problem{Nodes: model.NodesOf(w.graph), Train: pairs, Graph: w.graph},
		fit.Settings{Method: "mle", Exact: true, Ridge: 4, Starts: []float64{start}, Seed: 1, Engine: on,
			Progress: func(e progress.Event) {
				if now := fmt.Sprint(e.Phase, e.Done); now != last {
					last = now
					say("%s, step %d: %.9g", e.Phase, e.Done, e.Values["loss"])
				}
			}})
	if err != nil {
		t.Fatal(err)
	}
	say("learned: %d steps in all, objective %v; over all pairs %+v", r.Iterations, r.Objective, *r.Searched)
	if end := r.Searched.Ended; !(end.Errors < .1) || !(end.Gradient < r.Searched.Began.Gradient) {
		t.Errorf("it ended %v standard errors from the optimum, with a gradient of %v", end.Errors, end.Gradient)
	}
	means, err := on.AllPairs(t.Context(), w.graph, predictorOf(r), graph.Universe{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	say("summed: %+v", means)
}
