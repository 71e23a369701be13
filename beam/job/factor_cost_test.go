package job

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"unseen/beam/shards"
	"unseen/engine"
	"unseen/fit"
	"unseen/graph"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// TestFactorCosts measures rounds of factors with 200,000 people, 20,000 items and five million pairs, by one process
// (UNSEEN_FACTORS=one) or by jobs (UNSEEN_FACTORS=jobs), of which each needs a process of its own to know its memory.
// The shards are in UNSEEN_FACTORS_SHARDS, and UNSEEN_FACTORS=make makes them.
func TestFactorCosts(t *testing.T) {
	by, root := os.Getenv("UNSEEN_FACTORS"), os.Getenv("UNSEEN_FACTORS_SHARDS")
	if by == "" {
		t.Skip("a measurement of minutes; give UNSEEN_FACTORS=one or jobs")
	}
	const people, items, links, rounds = 200_000, 20_000, 1_000_000, 3
	settings := fit.Settings{Method: "mle", Link: "factors", Ridge: .25, Seed: 1,
		LBFGS: fit.LBFGSSettings{Iterations: rounds}}
	location := shards.Location{Root: root}
	if by == "make" {
		rng := rand.New(rand.NewPCG(1, 2))
		var b graph.Builder
		for i := range people + items {
			role := graph.SourceOnly
			if i >= people {
				role = graph.TargetOnly
			}
			must(b.AddNode(graph.Node{ID: fmt.Sprint(i), Field: fmt.Sprint("field ", i%10), Role: role}))(t)
		}
		for added := 0; added < links; {
			i := rng.IntN(people)
			if j := rng.IntN(items); i%7 == j%7 || rng.IntN(4) == 0 {
				if b.AddLinkIndex(int32(i), int32(people+j)) == nil {
					added++
				}
			}
		}
		g, _, err := b.Build()
		g = must(must(g, err)(t).WithVectors(must(graph.NewVectors(people+items, 1))(t)))(t)
		prepared := must(sample.Prepare(t.Context(), g, sample.Options{Origin: sample.Origin{Plan: sample.Plan{
			Split: sample.Whole, PerLink: 4, Seed: 1}}}))(t)
		must(shards.Cut(t.Context(), location, prepared, shards.CutSettings{}))(t)
		return
	}
	cluster := &Cluster{Shards: location, Manifest: must(location.Manifest(t.Context()))(t),
		Work: shards.Location{Root: filepath.Join(t.TempDir(), "work")}}
	d := must(cluster.Factors(t.Context(), settings))(t)
	o := d.Objective
	var e engine.Engine = cluster
	if by == "one" {
		o.Pairs = &graph.Pairs{Universe: cluster.Manifest.PairCount()}
		if err := cluster.eachShard(t.Context(), fit.LogView{}, func(p *graph.Pairs, _ []risk.Exposure) {
			o.Pairs.Source, o.Pairs.Target = append(o.Pairs.Source, p.Source...), append(o.Pairs.Target, p.Target...)
			o.Pairs.Linked, o.Pairs.Rate = append(o.Pairs.Linked, p.Linked...), append(o.Pairs.Rate, p.Rate...)
			o.Pairs.Weight = append(o.Pairs.Weight, p.Weight...)
		}); err != nil {
			t.Fatal(err)
		}
		if err := o.Pairs.GroupBySource(); err != nil {
			t.Fatal(err)
		}
		e = engine.CPU{}
	}
	params := make([]float32, o.Size())
	link, exposure := o.Split(params)
	o.Link.Start(link, rand.NewPCG(1, 0))
	o.Propensity.StartAt(exposure, .1, nil)
	a := must(e.Alternate(o))(t)
	for round := range rounds {
		began := time.Now()
		parts := must(a.Round(t.Context(), params))(t)
		t.Logf("%s, round %d of %d pairs, rank %d: %.2f s, %.10f", by, round+1, cluster.Manifest.Extent.Pairs,
			o.Link.(*model.Factors).Rank(), time.Since(began).Seconds(), parts.Total())
	}
	status, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(status), "\n") {
		if strings.HasPrefix(line, "VmHWM") {
			t.Log(line)
		}
	}
}
