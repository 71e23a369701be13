package fit

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"unseen/engine"
	"unseen/graph"
	"unseen/model"
)

// benchObjective is peer_torch.py's problem: random vectors, fields and labels.
func benchObjective(tb testing.TB, nodes, dim, pairs int, grouped bool) *engine.Objective {
	rng := rand.New(rand.NewPCG(1, 1))
	vectors, err := graph.NewVectors(nodes, dim)
	if err != nil {
		tb.Fatal(err)
	}
	row := make([]float32, dim)
	fields := make([]uint16, nodes)
	for i := range nodes {
		for d := range row {
			row[d] = float32(rng.NormFloat64()) * .19
		}
		vectors.Set(int32(i), row)
		fields[i] = uint16(rng.IntN(19))
	}
	n := model.Nodes{Vectors: vectors, Fields: fields, FieldCount: 19}
	link, err := model.NewDiagonal(n, false)
	if err != nil {
		tb.Fatal(err)
	}
	propensity, err := model.NewFieldMatrix(n)
	if err != nil {
		tb.Fatal(err)
	}
	p := &graph.Pairs{Universe: int64(nodes) * int64(nodes-1)}
	for k := range pairs {
		source := rng.IntN(nodes)
		if grouped {
			source = k * nodes / pairs
		}
		p.Source = append(p.Source, int32(source))
		p.Target = append(p.Target, int32(rng.IntN(nodes)))
		p.Linked = append(p.Linked, rng.IntN(20) == 0)
		p.Weight = append(p.Weight, 1)
		p.Rate = append(p.Rate, 1)
	}
	return &engine.Objective{Link: link, Propensity: propensity, LambdaL: 20, LambdaR: 1, Risk: engine.RiskW, Pairs: p}
}

func BenchmarkAdam(b *testing.B) {
	for _, batch := range []int{32, 1024} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%d/threads%d", batch, threads), func(b *testing.B) {
				o := benchObjective(b, 20000, 768, 160000, false)
				s := AdamSettings{Batch: batch, Rate: 1e-4}.withDefaults()
				state := newAdamState(o, make([]float32, o.Size()), s.Rate)
				t := &trainer{engine: engine.CPU{Threads: threads}, objective: o, settings: s, state: state}
				t.survey()
				order := t.order(0)
				pairs := 0
				for b.Loop() {
					if state.unit >= len(order) {
						state.unit = 0
					}
					n, err := t.batch(b.Context(), order)
					if err != nil {
						b.Fatal(err)
					}
					pairs += n
				}
				b.ReportMetric(float64(pairs)/b.Elapsed().Seconds()/1e6, "Mpairs/s")
			})
		}
	}
}
