package recommend

import (
	"errors"
	"math"
	"reflect"
	"testing"
)

// A batch is the lists of its sources, whatever the model and the threads.
func TestBatchIsTop(t *testing.T) {
	for _, kind := range []string{"diagonal", "diagonal-field", "low-rank", "mlp", "cosine"} {
		g, m, naive := small(t, 90, kind)
		r := must(New(g, m, Options{Naive: &naive, Threads: 2}))(t)
		var sources []int32
		for i := range int32(90) {
			sources = append(sources, (i*37)%90)
		}
		for _, q := range []Query{{K: 8}, {K: 80, Linked: true}, {K: 2000}} {
			rows := must(r.Batch(t.Context(), sources, q))(t)
			for k, row := range rows {
				q.Source = r.Node(row.Source)
				list := must(r.Top(t.Context(), q))(t)
				if row.Source != sources[k] || len(row.Targets) != len(list.Items) {
					t.Fatalf("%s: %d targets of node %d, want %d", kind, len(row.Targets), row.Source, len(list.Items))
				}
				for p, item := range list.Items {
					// equal vectors tie, and then the last bits may decide
					if math.Abs(float64(row.Logits[p])-item.Logit) > 1e-4 {
						t.Fatalf("%s: place %d of node %d is %d with %v, want %d with %v", kind, p, row.Source,
							row.Targets[p], row.Logits[p], item.Node, item.Logit)
					}
					if row.Targets[p] == item.Node && (row.Naive[p] > 0) != (item.NaiveRank <= q.K) &&
						item.NaiveRank != q.K && item.NaiveRank != q.K+1 {
						t.Errorf("%s: naive rank %d of %d, want %d", kind, row.Naive[p], item.Node, item.NaiveRank)
					}
				}
			}
			if one := must(must(New(g, m, Options{Naive: &naive}))(t).Batch(t.Context(), sources,
				q))(t); !reflect.DeepEqual(one, rows) {
				t.Errorf("%s: another batch with one thread", kind)
			}
		}
	}
	g, m, _ := small(t, 30, "diagonal")
	r := must(New(g, m, Options{}))(t)
	for _, q := range []Query{{K: 0}, {K: 3, Explore: .1}, {K: 3, Fields: []uint16{1}}} {
		if _, err := r.Batch(t.Context(), []int32{1}, q); !errors.Is(err, ErrQuery) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if _, err := r.Batch(t.Context(), []int32{99}, Query{K: 3}); !errors.Is(err, ErrQuery) {
		t.Errorf("an unknown node: %v", err)
	}
}
