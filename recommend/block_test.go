package recommend

import (
	"context"
	"errors"
	"slices"
	"testing"

	"unseen/engine"
	"unseen/graph"
	"unseen/model"
)

// TestBlocksGiveTheWholeList cuts targets into blocks of all sizes and holds the joined lists against Batch's.
func TestBlocksGiveTheWholeList(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, kind := range []string{"diagonal", "diagonal-field", "low-rank", "members", "popular"} {
		link := kind
		if kind == "members" || kind == "popular" {
			link = "diagonal"
		}
		g, m, _ := small(t, 120, link)
		if link != kind {
			m = withMembers(m, g, 4, kind == "popular")
		}
		r, err := New(g, m, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var all []int32
		var sources []BlockSource
		for i := range int32(g.Len()) {
			all = append(all, i)
			skip := append([]int32{i}, g.Out(i)...)
			slices.Sort(skip)
			sources = append(sources, BlockSource{i, skip})
		}
		rows, err := r.Batch(ctx, all, Query{K: 6})
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{1, 7, 50, g.Len()} {
			lists := make([][]BlockHit, g.Len())
			for first := 0; first < g.Len(); first += size {
				n := min(size, g.Len()-first)
				block, err := graph.NewVectors(n, g.Vectors().Dim())
				if err != nil {
					t.Fatal(err)
				}
				row := make([]float32, g.Vectors().Dim())
				for k := range n {
					g.Vectors().Load(row, int32(first+k))
					if err := block.Set(int32(k), row); err != nil {
						t.Fatal(err)
					}
				}
				b := Block{First: int32(first), Vectors: block, Fields: g.Fields()[first : first+n],
					FieldCount: g.FieldCount(), Engine: engine.CPU{Threads: 2}}
				if kind == "popular" {
					if _, err := b.Top(ctx, m, sources, 6); !errors.Is(err, ErrModel) {
						t.Fatalf("without popularity: %v", err)
					}
					b.Popularity = m.Popularity[first : first+n]
				}
				found, err := b.Top(ctx, m, sources, 6)
				if err != nil {
					t.Fatal(err)
				}
				for k := range lists {
					lists[k] = MergeHits(lists[k], found[k], 6)
				}
			}
			for i, row := range rows {
				var got []int32
				var logits []float32
				for _, h := range lists[i] {
					got, logits = append(got, h.Target), append(logits, h.Logit)
				}
				if !slices.Equal(logits, row.Logits) {
					t.Fatalf("%s, blocks of %d: %d has the logits %v, at once %v", kind, size, i, logits, row.Logits)
				}
				if !slices.Equal(got, row.Targets) {
					t.Fatalf("%s, blocks of %d: %d is given %v, at once %v", kind, size, i, got, row.Targets)
				}
			}
		}
	}
	if _, err := (Block{}).Top(ctx, model.Model{}, nil, 0); err == nil {
		t.Error("a list of none was made")
	}
}
