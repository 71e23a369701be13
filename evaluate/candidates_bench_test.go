package evaluate

import (
	"context"
	"math/rand/v2"
	"testing"

	"unseen/engine"
	"unseen/fit"
	"unseen/model"
	"unseen/world"
)

// The time that all candidates of a source take, by both scores, among 100,000 nodes of 256 dimensions.
func BenchmarkRank(b *testing.B) {
	w, err := world.New(context.Background(), world.Settings{Nodes: 100_000, Dim: 256, Fields: world.EvenFields(16),
		Scenario: world.Scenario{Seed: 1}})
	if err != nil {
		b.Fatal(err)
	}
	g := w.Graph()
	nodes := model.NodesOf(g)
	link, err := model.NewDiagonal(nodes, false)
	if err != nil {
		b.Fatal(err)
	}
	propensity, err := model.NewFieldMatrix(nodes)
	if err != nil {
		b.Fatal(err)
	}
	j := &fit.Judge{Predictor: engine.Predictor{Link: link, LinkParams: make([]float32, link.Size()),
		Propensity: propensity, PropensityParams: make([]float32, propensity.Size())}}
	random := rand.New(rand.NewPCG(1, 1))
	for _, params := range [][]float32{j.LinkParams, j.PropensityParams} {
		for k := range params {
			params[k] = float32(random.NormFloat64())
		}
	}
	c := &Candidates{g: g, sequence: make([]int32, g.Len())}
	for i := range c.sequence {
		c.sequence[i] = int32(i)
	}
	for i := range int32(2 * rankedTogether) {
		c.sources = append(c.sources, i)
		var links []int32
		for k := range int32(40) {
			links = append(links, 1000+i+2000*k)
		}
		c.links = append(c.links, links)
	}
	for b.Loop() {
		if _, err := c.Rank(context.Background(), j, RankSettings{By: []By{ByRelevance, BySeen}}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(c.sources)*g.Len()), "ns/candidate")
}
