package recommend

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// The fast way gives the exact lists where nearly all of the pool is far below the list's end, and
// says that it was taken.
func TestFast(t *testing.T) {
	const n = 1500
	for kind, inner := range map[string]bool{"diagonal": true, "low-rank": true, "cosine": false,
		"diagonal-field": false, "mlp": false} {
		g, m, naive := small(t, n, kind)
		slow := must(New(g, m, Options{}))(t)
		fast := must(New(g, m, Options{Fast: true, Threads: 2}))(t)
		both := must(New(g, m, Options{Fast: true, Naive: &naive}))(t)
		vector := make([]float32, 8)
		g.Vectors().Load(vector, 17)
		order := g.Order()
		sources := []Source{slow.Node(0), slow.Node(1234), slow.Node(n - 1),
			must(slow.Vector(t.Context(), vector, 1))(t)}
		if kind == "mlp" || kind == "cosine" {
			sources = sources[:3] // these judge no new ones
		}
		for _, source := range sources {
			for at, q := range []Query{
				{K: 10}, {K: 100, Linked: true}, {K: 3, Explain: true}, // plain ones
				{K: 990}, {K: 5, Seen: true}, {K: 5, Fields: []uint16{1}}, {K: 5, Exclude: []int32{7}},
				{K: 5, Diversity: .5}, {K: 5, Explore: .5},
				{K: 5, From: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)},
				{K: 5, Until: time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC)},
				{K: 5, Before: order},
			} {
				if q.Before != nil && source.Index() < 1 {
					continue // a new source has no place in the order, and nothing is before the first
				}
				q.Source = source
				want, got := must(slow.Top(t.Context(), q))(t), must(fast.Top(t.Context(), q))(t)
				if plain := inner && at < 3; got.Approximate != plain && q.K < 900 {
					t.Errorf("%s, %+v: approximate is %v", kind, q, got.Approximate)
				}
				if want.Approximate {
					t.Errorf("%s: the exact list says that it is not", kind)
				}
				if got.Approximate { // the rank by π̂ŷ is among all, and not found
					for k, item := range want.Items {
						if item.Why != nil {
							item.Why.Children = slices.DeleteFunc(item.Why.Children, func(e *Explanation) bool {
								return strings.Contains(e.Message, "by π̂ŷ")
							})
						}
						want.Items[k].SeenRank, want.Items[k].Hidden = 0, false
					}
				}
				got.Approximate = false
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s, %+v:\ngot  %+v\nwant %+v", kind, q, got, want)
				}
				if list := must(both.Top(t.Context(), q))(t); list.Approximate {
					t.Errorf("%s, %+v: ranks of a naive model, which are among all, and yet approximate", kind, q)
				}
			}
		}
		nodes := []int32{3, n - 1, 700}
		if want, got := must(slow.Batch(t.Context(), nodes, Query{K: 20}))(t),
			must(fast.Batch(t.Context(), nodes, Query{K: 20}))(t); !slices.EqualFunc(want, got,
			func(a, b Row) bool { return reflect.DeepEqual(a, b) }) {
			t.Errorf("%s: batches differ", kind)
		}
	}
}
