package recommend

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"unseen/graph"
	"unseen/model"
)

// BenchmarkMembers is a list of 10 among 20,000 vectors of 768 numbers, under one assumption and under eight, one of
// which has a slope of popularity; and what the agreement alone costs.
func BenchmarkMembers(b *testing.B) {
	const n, dim = 20_000, 768
	random := rand.New(rand.NewPCG(1, 2))
	var builder graph.Builder
	v := must(graph.NewVectors(n, dim))(b)
	row := make([]float32, dim)
	for i := range n {
		must(builder.AddNode(graph.Node{ID: fmt.Sprint(i), Field: fmt.Sprint(i % 5)}))(b)
		for k := range row {
			row[k] = random.Float32() - .5
		}
		if err := v.Set(int32(i), row); err != nil {
			b.Fatal(err)
		}
	}
	g, _, err := builder.Build()
	if err != nil {
		b.Fatal(err)
	}
	g = must(g.WithVectors(v))(b)
	nodes := model.NodesOf(g)
	link := must(model.NewDiagonal(nodes, false))(b)
	propensity := must(model.NewFieldMatrix(nodes))(b)
	m := model.Model{Link: link, LinkParams: make([]float32, link.Size()), Propensity: propensity,
		PropensityParams: make([]float32, propensity.Size())}
	for k := range m.LinkParams {
		m.LinkParams[k] = random.Float32() - .3
	}
	for _, c := range []struct {
		name     string
		members  int
		popular  bool
		sketched bool
	}{{"one", 0, false, false}, {"eight", 8, false, false}, {"eight with popularity", 8, true, false},
		{"one, sketched", 0, false, true}, {"eight, sketched", 8, false, true}} {
		r := must(New(g, withMembers(m, g, c.members, c.popular), Options{Threads: 1, Sketched: c.sketched}))(b)
		b.Run(c.name, func(b *testing.B) {
			for i := range b.N {
				must(r.Top(b.Context(), Query{Source: r.Node(int32(i % n)), K: 10}))(b)
			}
		})
		if c.name != "eight" {
			continue
		}
		pool := make([]int32, agreementPool)
		for k := range pool {
			pool[k] = int32(k * 197)
		}
		b.Run("agreement of eight", func(b *testing.B) {
			for i := range b.N {
				r.agreement(Query{Source: r.Node(int32(i % n)), K: 10}, pool)
			}
		})
	}
}
