package recommend

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
)

// Lists are the same with a sketch, to the last bit, whatever is asked for; but for what is drawn.
func TestSketchedListsAreTheSame(t *testing.T) {
	t.Parallel()
	const n = 3000
	for kind, inner := range map[string]bool{"diagonal": true, "low-rank": true, "cosine": false,
		"diagonal-field": true, "mlp": false} {
		g, m, naive := small(t, n, kind)
		order := g.Order()
		for _, terms := range []string{"", "text", "item", "members"} {
			m := m
			switch {
			case terms == "members" && kind == "diagonal":
				m = withMembers(m, g, 3, true)
			case terms == "text" || terms == "item":
				m = withTerm(t, m, g, model.Term(terms))
			}
			slow := must(New(g, m, Options{Naive: &naive}))(t)
			sketched := must(New(g, m, Options{Sketched: true, Threads: 2, Naive: &naive}))(t)
			if got := len(sketched.sketches) > 0; got != inner {
				t.Fatalf("%s is sketched: %v", kind, got)
			}
			vector := make([]float32, 8)
			g.Vectors().Load(vector, 17)
			sources := []Source{slow.Node(0), slow.Node(1234), slow.Node(n - 1)}
			if kind != "mlp" && kind != "cosine" { // these judge no new ones
				sources = append(sources, must(slow.Vector(t.Context(), vector, 1))(t))
			}
			for _, source := range sources {
				for _, q := range []Query{
					{K: 10}, {K: 100, Linked: true}, {K: 3, Explain: true}, {K: n}, {K: 990}, {K: 5, Compare: true},
					{K: 5, Seen: true}, {K: 5, Fields: []uint16{1}}, {K: 5, Exclude: []int32{7}}, {K: 5, Diversity: .5},
					{K: 5, Diversity: .5, Seen: true},
					{K: 5, From: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)},
					{K: 5, Until: time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC)},
					{K: 5, Before: order},
				} {
					if q.Before != nil && source.Index() < 1 {
						continue // a new source has no place in the order, and nothing is before the first
					}
					q.Source = source
					want, got := must(slow.Top(t.Context(), q))(t), must(sketched.Top(t.Context(), q))(t)
					sameList(t, fmt.Sprintf("%s %s, %d of %d", kind, terms, q.K, source.Index()), got, want)
				}
			}
			changed(t, slow, sketched, vector)
			nodes := []int32{3, n - 1, 700, 8, 9}
			want, got := must(slow.Batch(t.Context(), nodes, Query{K: 20}))(t),
				must(sketched.Batch(t.Context(), nodes, Query{K: 20}))(t)
			for k := range want {
				if !slices.Equal(want[k].Targets, got[k].Targets) || !slices.Equal(want[k].Naive, got[k].Naive) {
					t.Errorf("%s: batches differ: %v and %v", kind, got[k], want[k])
				}
			}
		}
	}
}

// sameList compares lists to the last bit.
func sameList(t *testing.T, what string, got, want *List) {
	t.Helper()
	if reflect.DeepEqual(got, want) {
		return
	}
	for k := range want.Items {
		if k < len(got.Items) && !reflect.DeepEqual(got.Items[k], want.Items[k]) {
			t.Fatalf("%s: item %d is %+v, want %+v", what, k, got.Items[k], want.Items[k])
		}
	}
	t.Fatalf("%s: lists of %d and %d differ", what, len(got.Items), len(want.Items))
}

// changed compares lists of which some nodes have changed.
func changed(t *testing.T, slow, sketched *Recommender, vector []float32) {
	t.Helper()
	changes := []*NodeChange{{ID: "new", Field: "biology", Vector: vector}, {ID: "p20", Removed: true},
		{ID: "p30", Field: "physics", Vector: vector}}
	want := map[int]*List{}
	for _, r := range []*Recommender{slow, sketched} {
		o := must(r.Overlay(t.Context(), nil, changes))(t)
		for _, k := range []int{10, 2500} {
			got := must(r.Top(t.Context(), Query{Source: r.Node(77), K: k, Overlay: o}))(t)
			if r == sketched {
				sameList(t, "changed nodes", got, want[k])
			}
			want[k] = got
		}
	}
}

// withTerm adds a term to the exposure of a model.
func withTerm(t *testing.T, m model.Model, g *graph.Graph, term model.Term) model.Model {
	t.Helper()
	propensity := must(model.NewCovariates(m.Propensity, model.NodesOf(g), term))(t)
	params := make([]float32, propensity.Size())
	for k := copy(params, m.PropensityParams); k < len(params); k++ {
		params[k] = float32(k%7)/4 - .7
	}
	m.Propensity, m.PropensityParams = propensity, params
	return m
}

// Orders and ranks are the true ones even where every estimate is off by as much as it may be.
func TestEstimatesAtTheirBounds(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 8))
	for range 300 {
		const n, off = 200, .1
		truth, s := make([]float32, n), scored{z: make([]float32, n)}
		candidates := make([]int32, n)
		for j := range truth {
			z := float32(random.NormFloat64())
			slack := float32(off*.999) * (1 + max(z, -z))
			candidates[j], s.z[j], truth[j] = int32(j), z, z+slack*float32(2*random.IntN(2)-1)
		}
		s.estimated(n, engine.ScoreBound{}, func(dst []float32, nodes []int32) {
			for k, j := range nodes {
				dst[k] = truth[j]
			}
		})
		s.times, s.rounds = 0, off
		some := []int32{int32(random.IntN(n)), 7, 100}
		if got, want := s.ranks(candidates, some), ranks(truth, candidates, some); !slices.Equal(got, want) {
			t.Fatalf("ranks %v, in truth %v", got, want)
		}
		clear(s.known)
		if got, want := s.best(candidates, 9), kern.Best(truth, candidates, 9); !slices.Equal(got, want) {
			t.Fatalf("the best are %v, in truth %v", got, want)
		}
	}
}

// What is drawn from estimates has the chances that it says.
func TestSketchedDraws(t *testing.T) {
	t.Parallel()
	g, m, _ := small(t, 3000, "diagonal")
	r := must(New(g, m, Options{Sketched: true}))(t)
	slow := must(New(g, m, Options{}))(t)
	const draws = 400
	expected, shown := map[int32]float64{}, map[int32]float64{}
	for seed := range uint64(draws) {
		q := Query{Source: r.Node(5), K: 10, Explore: .3, Seed: seed}
		list, exact := must(r.Top(t.Context(), q))(t), must(slow.Top(t.Context(), q))(t)
		if len(list.Items) != len(exact.Items) {
			t.Fatalf("%d items, by the vectors %d", len(list.Items), len(exact.Items))
		}
		for _, item := range list.Items {
			shown[item.Node]++
			expected[item.Node] = item.Shown
		}
	}
	var statistic, count float64
	for j, p := range expected {
		if spread := draws * p * (1 - p); spread > 4 {
			d := shown[j] - draws*p
			statistic, count = statistic+d*d/spread, count+1
		}
	}
	if count < 8 || statistic > count+5*math.Sqrt(2*count) {
		t.Errorf("the shares of %v items have χ² = %v", count, statistic)
	}
}
