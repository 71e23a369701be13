package recommend

import (
	"context"
	"slices"
	"testing"

	"unseen/engine"
	"unseen/internal/enginetest"
)

// What is heavy goes through the engine, whatever it is; where that fails there is an error, and not half a list.
func TestEverySearchRunsOnAnyEngine(t *testing.T) {
	scans, searches := []string{"Scan"}, []string{"TopK"}
	both := []string{"Scan", "TopK"}
	type work = func(ctx context.Context, r *Recommender) (any, error)
	top := func(q Query) work {
		return func(ctx context.Context, r *Recommender) (any, error) {
			q.Source = r.Node(40)
			return r.Top(ctx, q)
		}
	}
	batch := func(ctx context.Context, r *Recommender) (any, error) {
		return r.Batch(ctx, []int32{1, 20, 40, 41}, Query{K: 5})
	}
	for _, kind := range []string{"diagonal", "diagonal-field", "mlp"} {
		g, m, naive := small(t, 90, kind)
		check := func(name string, calls []string, o Options, do work) {
			if kind == "mlp" {
				calls = scans // it is no inner product
			}
			t.Run(kind+"/"+name, func(t *testing.T) {
				enginetest.Check(t, calls, func(ctx context.Context, e engine.Engine) (any, error) {
					o.Engine, o.Threads = e, 2
					return do(ctx, must(New(g, m, o))(t))
				})
			})
		}
		check("top", both, Options{}, top(Query{K: 5}))
		check("seen", both, Options{}, top(Query{K: 2000, Seen: true}))
		check("compared", both, Options{Naive: &naive}, top(Query{K: 5, Compare: true}))
		check("sketched", both, Options{Sketched: true}, top(Query{K: 5}))
		check("diverse", both, Options{}, top(Query{K: 5, Diversity: .5}))
		check("explored", both, Options{}, top(Query{K: 5, Explore: .5}))
		check("batch", searches, Options{Naive: &naive}, batch)
		if kind == "mlp" {
			continue
		}
		check("vector", both, Options{}, func(ctx context.Context, r *Recommender) (any, error) {
			vector := make([]float32, 8)
			g.Vectors().Load(vector, 7)
			field, _, err := r.FieldOf(ctx, vector)
			if err != nil {
				return nil, err
			}
			s, err := r.Vector(ctx, vector, field)
			if err != nil {
				return nil, err
			}
			return r.Top(ctx, Query{Source: s, K: 5})
		})
		check("bridges", both, Options{Naive: &naive}, func(ctx context.Context, r *Recommender) (any, error) {
			return r.Bridges(ctx, BridgeSettings{Sources: 20})
		})
		t.Run(kind+"/block", func(t *testing.T) {
			enginetest.Check(t, searches, func(ctx context.Context, e engine.Engine) (any, error) {
				b := Block{Vectors: g.Vectors(), Fields: g.Fields(), FieldCount: g.FieldCount(), Engine: e}
				return b.Top(ctx, m, []BlockSource{{Node: 3}, {Node: 4, Skip: []int32{4, 5}}}, 5)
			})
		})
	}
	r, held := swept(t)
	enginetest.Check(t, searches, func(ctx context.Context, e engine.Engine) (any, error) {
		other := must(New(r.Graph(), r.Model(), Options{Engine: e, Threads: 2}))(t)
		return other.Sweep(ctx, SweepSettings{Held: held})
	})
}

// together is an engine that wants so many queries at a time.
type together struct {
	engine.CPU
	most  int
	asked *[]int
}

func (e together) Together() int { return e.most }

func (e together) TopK(ctx context.Context, s engine.TargetSearch) ([][]engine.Hit, error) {
	*e.asked = append(*e.asked, len(s.Queries))
	return e.CPU.TopK(ctx, s)
}

// An engine is asked about as many sources at a time as it wants, and lists do not depend on it.
func TestBatchesAreAsLargeAsEnginesWant(t *testing.T) {
	g, m, _ := small(t, 90, "diagonal")
	sources := []int32{1, 20, 40, 41, 42, 50, 60}
	want := must(must(New(g, m, Options{}))(t).Batch(t.Context(), sources, Query{K: 5}))(t)
	var asked []int
	got := must(must(New(g, m, Options{Engine: together{most: 3, asked: &asked}}))(t).Batch(t.Context(), sources,
		Query{K: 5}))(t)
	if !slices.Equal(asked, []int{3, 3, 1}) {
		t.Errorf("asked about %v", asked)
	}
	for k := range want {
		if !slices.Equal(got[k].Targets, want[k].Targets) {
			t.Errorf("%v, not %v", got[k], want[k])
		}
	}
}
