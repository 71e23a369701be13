package model

import (
	"fmt"
	"testing"
)

// BenchmarkModels times a pass forth and back over 768-dimensional vectors, for minibatches of random
// pairs and for pairs grouped by source.
func BenchmarkModels(b *testing.B) {
	rng := newRand(b, 1)
	n := randomNodes(b, rng, 20_000, 768, 20, false)
	batch := func(runs, length int) (batch Batch) {
		for range runs {
			i := int32(rng.IntN(n.Len()))
			for range length {
				batch.Sources, batch.Targets = append(batch.Sources, i), append(batch.Targets, int32(rng.IntN(n.Len())))
			}
		}
		return batch
	}
	for _, kind := range LinkKinds() {
		m, err := NewLink(kind, n, LinkOptions{})
		must(b, err)
		params, grad := randomParams(rng, m), make([]float32, m.Size())
		for _, shape := range []struct{ runs, length int }{{32, 1}, {200, 5}, {10, 100}} {
			pairs := shape.runs * shape.length
			many := make([]Batch, 1+20_000/pairs)
			for k := range many {
				many[k] = batch(shape.runs, shape.length)
			}
			out := randomNumbers(rng, pairs)
			perPair := func(b *testing.B) {
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*pairs), "ns/pair")
			}
			b.Run(fmt.Sprintf("%s/logits/%dx%d", kind, shape.runs, shape.length), func(b *testing.B) {
				b.ReportAllocs()
				for k := range b.N {
					m.Logits(out, params, many[k%len(many)])
				}
				perPair(b)
			})
			b.Run(fmt.Sprintf("%s/backward/%dx%d", kind, shape.runs, shape.length), func(b *testing.B) {
				b.ReportAllocs()
				for k := range b.N {
					m.Backward(grad, params, many[k%len(many)], out)
				}
				perPair(b)
			})
		}
	}
}
