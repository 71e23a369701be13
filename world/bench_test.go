package world_test

import (
	"testing"

	"unseen/world"
)

// The paper's size: 26,000 nodes of dimension 768.
func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		w := generate(b, world.Settings{})
		if err := w.Graph().Vectors().Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPairs(b *testing.B) {
	w := generate(b, world.Settings{})
	for _, size := range []struct {
		name  string
		pairs int
	}{{"32k", 32_000}, {"320k", 320_000}, {"1M", 1_000_000}} {
		b.Run(size.name, func(b *testing.B) {
			for b.Loop() {
				draw(b, w, size.pairs, world.Draw{})
			}
		})
	}
}

// A graph as sparse as those of citations.
func BenchmarkLinked(b *testing.B) {
	w, err := generate(b, world.Settings{}).Thinned(.02)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		linked, err := w.Linked(ctx)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(linked.Graph().LinkCount()), "links")
	}
}
