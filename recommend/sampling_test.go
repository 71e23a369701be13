package recommend

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"unseen/internal/racetest"
)

// sampled returns recommenders whose explored lists are exact, and by an index with a small sample.
func sampled(t *testing.T, n int) (exact, walking *Recommender) {
	t.Helper()
	g, m, naive, web := calm(t, n, "diagonal")
	exact, walking = indexed(t, g, m, naive, web)
	walking.sampled = 80
	if !walking.walks(Query{K: 10, Explore: .5}) {
		t.Fatal("explored lists are not made by the index")
	}
	return exact, walking
}

// tally adds up what lists say of their items.
type tally struct {
	lists, relevance, outside float64
	inverse, squares          map[int32]float64 // Σ 1/p and Σ 1/p² of the lists that have a node
	listed                    map[int32]int
}

func tallyOf(t *testing.T, r *Recommender, q Query, draws int) tally {
	t.Helper()
	out := tally{lists: float64(draws), inverse: map[int32]float64{}, squares: map[int32]float64{},
		listed: map[int32]int{}}
	for seed := range uint64(draws) {
		q.Seed = seed
		list := must(r.Top(t.Context(), q))(t)
		if len(list.Items) != q.K {
			t.Fatalf("seed %d: %d items of %d", seed, len(list.Items), q.K)
		}
		for _, item := range list.Items {
			if !(item.Shown > 0 && item.Shown <= 1) {
				t.Fatalf("seed %d: %s is shown with probability %v", seed, item.ID, item.Shown)
			}
			out.relevance += item.Link
			out.inverse[item.Node] += 1 / item.Shown
			out.squares[item.Node] += 1 / item.Shown / item.Shown
			if out.listed[item.Node]++; item.ByLink == 0 || item.ByLink > q.K {
				out.outside++
			}
		}
	}
	return out
}

// mean returns the mean of [drawn]/p over the lists, summed over some nodes, and its standard error where they are
// drawn independently; as they compete it is no more than that.
func (a tally) mean(nodes []int32) (sum, deviation float64) {
	var squares float64
	for _, j := range nodes {
		sum += a.inverse[j]
		squares += a.squares[j]
	}
	return sum / a.lists, math.Sqrt(squares) / a.lists
}

// In lists that are drawn from a sample every candidate is as often as its probability says, in the mean over samples:
// one by one where walks find it, and together where they do not. As much is explored as in exact lists, for as much
// relevance.
func TestSampledListsShowWithTheirProbability(t *testing.T) {
	racetest.Skip(t, "TestListsByAnIndexOfAnOverlay has the same goroutines")
	t.Parallel()
	const n, draws = 4000, 1500
	exact, walking := sampled(t, n)
	for _, q := range []Query{{K: 6, Explore: .1}, {K: 10, Explore: .6}, {K: 5, Explore: 1},
		{K: 6, Explore: .5, Fields: []uint16{0, 1}}, {K: 6, Explore: .5, Exclude: []int32{1, 2, 3}, Linked: true}} {
		what := fmt.Sprintf("%d items, explore %v, %d fields", q.K, q.Explore, len(q.Fields))
		q.Source = walking.Node(3210)
		list := must(walking.Top(t.Context(), q))(t)
		if list.Index == nil || list.Sampled != max(80, 8*q.K) {
			t.Fatalf("%s: by the index %v, with %d others", what, list.Index != nil, list.Sampled)
		}
		room := walking.enter(nil)
		plain := q
		plain.Explore = 0
		candidates, ok := walking.pool(room, plain)
		found := slices.Clone(room.kept)
		walking.candidates(room, q)
		if !ok || candidates != len(room.kept) || candidates != list.Candidates {
			t.Fatalf("%s: %d candidates, listed %d, and the list says %d", what, candidates, len(room.kept),
				list.Candidates)
		}
		var others []int32
		for _, j := range room.kept {
			if _, in := slices.BinarySearch(found, j); !in {
				others = append(others, j)
			}
		}
		got, want := tallyOf(t, walking, q, draws), tallyOf(t, exact, q, draws/2)
		common := 0
		for _, j := range found {
			if got.listed[j] < 30 {
				continue
			}
			common++
			if mean, off := got.mean([]int32{j}); math.Abs(mean-1) > 5*off {
				t.Errorf("%s: node %d is shown %.3f times as often as it says, ± %.3f", what, j, mean, off)
			}
		}
		if common < q.K {
			t.Errorf("%s: only %d of what walks find are shown now and then", what, common)
		}
		for part := range 4 { // also of those with higher and lower scores
			var some []int32
			for k, j := range others {
				if k*4/len(others) == part {
					some = append(some, j)
				}
			}
			mean, off := got.mean(some)
			if of := float64(len(some)); math.Abs(mean-of) > 5*off || off > of/4 {
				t.Errorf("%s: Σ [drawn]/p of %v others is %.1f ± %.1f", what, of, mean, off)
			}
		}
		if a, b := got.outside/got.lists, want.outside/want.lists; math.Abs(a-b) > .05*b+
			5*math.Sqrt(b/want.lists) {
			t.Errorf("%s: %.3f items from beyond the best, in exact lists %.3f", what, a, b)
		}
		a, b := got.relevance/got.lists, want.relevance/want.lists
		best := 0.
		for _, item := range must(exact.Top(t.Context(), plain))(t).Items {
			best += item.Link
		}
		if math.Abs(a-b) > .1*(best-b)+.02*b {
			t.Errorf("%s: relevance %.3f, of exact lists %.3f and of the best %.3f", what, a, b, best)
		}
	}
}

// The same seed gives the same list, another seed another; exactly, a list is as without an index, and so are lists
// where candidates are few.
func TestSampledListsRepeat(t *testing.T) {
	racetest.Skip(t, "TestListsByAnIndexOfAnOverlay has the same goroutines")
	t.Parallel()
	const n = 4000
	exact, walking := sampled(t, n)
	q := Query{Source: walking.Node(77), K: 10, Explore: .5, Seed: 5}
	first := must(walking.Top(t.Context(), q))(t)
	must(walking.Top(t.Context(), Query{Source: walking.Node(78), K: 30, Explore: .1}))(t)
	if again := must(walking.Top(t.Context(), q))(t); !reflect.DeepEqual(again, first) {
		t.Error("the same query gives another list")
	}
	other := q
	other.Seed++
	if reflect.DeepEqual(must(walking.Top(t.Context(), other))(t).Items, first.Items) {
		t.Error("another seed gives the same list")
	}
	sketched := must(New(exact.g, exact.model, Options{Naive: exact.naive, Sketched: true}))(t)
	exactly := q
	exactly.Exact = true
	sameList(t, "exactly", must(walking.Top(t.Context(), exactly))(t), must(sketched.Top(t.Context(), exactly))(t))
	few := q
	for j := range int32(n - 300) {
		few.Exclude = append(few.Exclude, j+200)
	}
	sameList(t, "few candidates", must(walking.Top(t.Context(), few))(t), must(sketched.Top(t.Context(), few))(t))
	walking.sampled = n/16 - 1 // of which twice as many are not left
	few.Exclude = few.Exclude[:n-530]
	if list := must(walking.Top(t.Context(), few))(t); list.Index != nil || list.Sampled != 0 {
		t.Errorf("of %d candidates %d are sampled", list.Candidates, list.Sampled)
	}
}

// Explored lists by an index have what came since the graph was made, and nothing that was removed, that is excluded,
// or that the source links to.
func TestSampledListsOfAnOverlay(t *testing.T) {
	racetest.Skip(t, "TestListsByAnIndexOfAnOverlay has the same goroutines")
	t.Parallel()
	const n = 4000
	exact, walking := sampled(t, n)
	q := Query{Source: walking.Node(3210), K: 20, Explore: 1}
	best := must(exact.Top(t.Context(), Query{Source: q.Source, K: 3}))(t).Items
	var changes []*NodeChange
	for j := int32(100); j < 2000; j++ {
		changes = append(changes, &NodeChange{ID: exact.g.ID(j), Removed: true})
	}
	added := changeOf(exact.g, best[0].Node)
	added.ID = "new"
	changes = append(changes, added)
	q.Overlay = must(walking.Overlay(t.Context(), nil, changes))(t)
	for j := int32(2500); j < 3000; j++ {
		q.Exclude = append(q.Exclude, j)
	}
	fresh := 0
	for q.Seed = range uint64(300) {
		list := must(walking.Top(t.Context(), q))(t)
		if list.Sampled == 0 {
			t.Fatal("the list is not from a sample")
		}
		for _, item := range list.Items {
			j := item.Node
			if item.ID == "new" {
				fresh++
			} else if j == 3210 || j >= 100 && j < 2000 || j >= 2500 && j < 3000 || exact.g.HasLink(3210, j) {
				t.Fatalf("seed %d: %s is recommended", q.Seed, item.ID)
			}
		}
	}
	if fresh == 0 {
		t.Error("what is new is never shown")
	}
}
