package recommend

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"unseen/graph"
	"unseen/index"
	"unseen/internal/racetest"
	"unseen/model"
)

// calm is small, with probabilities that are neither 0 nor 1.
func calm(t *testing.T, n int, kind string) (*graph.Graph, model.Model, model.Model, *index.Web) {
	t.Helper()
	g, m, naive := small(t, n, kind)
	for _, params := range [][]float32{m.LinkParams, naive.LinkParams} {
		for k := range params {
			params[k] *= .3
		}
	}
	return g, m, naive, must(index.Build(t.Context(), g.Vectors(), index.Options{}))(t)
}

// indexed returns a recommender that makes lists exactly, and one that makes them by an index.
func indexed(t *testing.T, g *graph.Graph, m, naive model.Model, web *index.Web) (exact, walking *Recommender) {
	t.Helper()
	exact = must(New(g, m, Options{Naive: &naive}))(t)
	walking = must(New(g, m, Options{Naive: &naive, Index: web, Sketched: true, Sketch: web.Sketch()}))(t)
	if walking.walks(Query{K: 1}) {
		t.Error("the index is used before its recall is known")
	}
	walking.scanned, walking.scannedByMany = 0, 0 // there are few nodes here
	recall := must(walking.Measure(t.Context()))(t)
	if recall.Used && recall.Share < StandardRecall || recall.Queries != measuredLists || recall != walking.Recall() {
		t.Fatalf("recall %+v; want one that will do", recall)
	}
	return exact, walking
}

// alike compares a list by the index with the exact one: how many items it has of it, and whether all that is said of
// those is what the exact list says.
func alike(t *testing.T, what string, got, want *List) (same int) {
	t.Helper()
	if got.Index == nil || want.Index != nil {
		t.Fatalf("%s: the index is named %v, want true; in the exact list %v", what, got.Index != nil,
			want.Index != nil)
	}
	if got.Candidates != want.Candidates || len(got.Items) != len(want.Items) {
		t.Fatalf("%s: %d items of %d candidates, want %d of %d", what, len(got.Items), got.Candidates, len(want.Items),
			want.Candidates)
	}
	near := func(a, b int) bool { return a == 0 || max(a-b, b-a) <= 3+b/3 }
	for _, item := range got.Items {
		at := slices.IndexFunc(want.Items, func(other Item) bool { return other.Node == item.Node })
		if at < 0 {
			continue
		}
		other := want.Items[at]
		same++
		if item.Logit != other.Logit || item.Propensity != other.Propensity || item.ID != other.ID {
			t.Errorf("%s: %+v, want %+v", what, item, other)
		}
		if !near(item.ByLink, other.ByLink) || !near(item.SeenRank, other.SeenRank) ||
			!near(item.NaiveRank, other.NaiveRank) {
			t.Errorf("%s: ranks %d, %d and %d; want %d, %d and %d", what, item.ByLink, item.SeenRank, item.NaiveRank,
				other.ByLink, other.SeenRank, other.NaiveRank)
		}
		beyond := other.SeenRank - len(want.Items)
		if item.Hidden != other.Hidden && max(beyond, -beyond) > 3+len(want.Items)/3 {
			t.Errorf("%s: hidden %v, rank by π̂ŷ %d of %d", what, item.Hidden, other.SeenRank, len(want.Items))
		}
	}
	return same
}

// Lists by an index are those of a scan but for a few items, whatever is asked for.
func TestListsByAnIndex(t *testing.T) {
	racetest.Skip(t, "TestListsByAnIndexOfAnOverlay has the same goroutines")
	t.Parallel()
	const n = 4000
	for _, kind := range []string{"diagonal", "low-rank"} {
		g, m, naive, web := calm(t, n, kind)
		for _, terms := range []string{"", "text", "item", "members"} {
			m := m
			switch {
			case terms == "members" && kind == "diagonal":
				m = withMembers(m, g, 3, true)
			case terms == "text" || terms == "item":
				m = withTerm(t, m, g, model.Term(terms))
			case terms != "": // members are of one kind
				continue
			}
			exact, walking := indexed(t, g, m, naive, web)
			if used := walking.Recall().Used; !used && terms == "" {
				t.Errorf("%s %s: recall %+v; want one that will do", kind, terms, walking.Recall())
			}
			vector := make([]float32, 8)
			g.Vectors().Load(vector, 17)
			same, all := 0, 0
			for _, source := range []Source{exact.Node(0), exact.Node(n - 1),
				must(exact.Vector(t.Context(), vector, 1))(t)} {
				for k, q := range []Query{
					{K: 10}, {K: 100, Linked: true}, {K: 3, Explain: true}, {K: 150}, {K: 5, Compare: true},
					{K: 20, Fields: []uint16{0, 1, 2}}, {K: 20, Exclude: []int32{7, 8}},
					{K: 5, Diversity: .5}, {K: 5, Until: time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC)},
				} {
					q.Source = source
					want, got := must(exact.Top(t.Context(), q))(t), must(walking.Top(t.Context(), q))(t)
					what := fmt.Sprintf("%s %s, query %d of %d", kind, terms, k, source.Index())
					filtered := q.filtered() && q.Exclude == nil
					if got.Index == nil && (filtered || !walking.Recall().Used) { // no walk leads there
						sameList(t, what, got, want)
						continue
					}
					same += alike(t, what, got, want)
					all += len(want.Items)
					q.Exact = true
					sameList(t, fmt.Sprintf("%s %s, query %d, exactly", kind, terms, k),
						must(walking.Top(t.Context(), q))(t), want)
				}
			}
			if float64(same) < .97*float64(all) {
				t.Errorf("%s %s: %d of %d items", kind, terms, same, all)
			}
		}
	}
}

// What an index cannot do is done exactly: what is drawn, long lists, few candidates, models that are no product.
func TestListsWithoutAnIndex(t *testing.T) {
	racetest.Skip(t, "TestListsByAnIndexOfAnOverlay has the same goroutines")
	t.Parallel()
	const n = 4000
	g, m, naive, web := calm(t, n, "diagonal")
	exact, walking := indexed(t, g, m, naive, web)
	var few []int32
	for j := range int32(n - 40) {
		few = append(few, j)
	}
	for _, q := range []Query{{K: 5, Explore: .2, Seed: 3}, {K: 1001}, {K: 5, Seen: true}, {K: 10, Exclude: few},
		{K: 10, Exact: true}} {
		q.Source = exact.Node(3210)
		list := must(walking.Top(t.Context(), q))(t)
		if list.Index != nil {
			t.Errorf("%d items, of %d candidates, are made by the index", q.K, list.Candidates)
		}
		if q.Explore == 0 {
			sameList(t, fmt.Sprint(q.K, " items"), list, must(exact.Top(t.Context(), q))(t))
		}
	}
	for name, r := range map[string]*Recommender{
		"too few are found": must(New(g, m, Options{Index: web, LeastRecall: 1.5}))(t),
		"no product": must(func() (*Recommender, error) {
			g, m, _ := small(t, n, "mlp")
			return New(g, m, Options{Index: web})
		}())(t),
	} {
		recall := must(r.Measure(t.Context()))(t)
		if recall.Used || must(r.Top(t.Context(), Query{Source: r.Node(1), K: 3}))(t).Index != nil {
			t.Errorf("%s: recall %+v, and the index is used", name, recall)
		}
	}
}

// What has changed since the graph was made is in lists by an index, and what was removed is not.
func TestListsByAnIndexOfAnOverlay(t *testing.T) {
	t.Parallel()
	const n = 4000
	g, m, naive, web := calm(t, n, "diagonal")
	exact, walking := indexed(t, g, m, naive, web)
	q := Query{Source: exact.Node(3210), K: 30}
	best := must(exact.Top(t.Context(), q))(t).Items
	changes := []*NodeChange{{ID: best[0].ID, Removed: true}, {ID: best[5].ID, Removed: true}}
	moved := changeOf(g, best[2].Node)
	moved.ID, moved.Title = "new", "a new one"
	changes = append(changes, moved, changeOf(g, best[7].Node))
	want, got := q, q
	want.Overlay = must(exact.Overlay(t.Context(), nil, changes))(t)
	got.Overlay = must(walking.Overlay(t.Context(), nil, changes))(t)
	exactly, list := must(exact.Top(t.Context(), want))(t), must(walking.Top(t.Context(), got))(t)
	if same := alike(t, "an overlay", list, exactly); same < 28 {
		t.Errorf("%d of 30 items", same)
	}
	has := func(id string) bool { return slices.ContainsFunc(list.Items, func(i Item) bool { return i.ID == id }) }
	if has(best[0].ID) || has(best[5].ID) || !has("new") || !has(best[7].ID) {
		t.Errorf("removed %v and %v, new %v, changed %v", has(best[0].ID), has(best[5].ID), has("new"), has(best[7].ID))
	}
}

// Many lists at once are by the index too, and of those for whom it finds too few exact.
func TestBatchesByAnIndex(t *testing.T) {
	racetest.Skip(t, "TestListsByAnIndexOfAnOverlay has the same goroutines")
	t.Parallel()
	const n = 4000
	g, m, naive, web := calm(t, n, "diagonal")
	exact, walking := indexed(t, g, m, naive, web)
	walking.leastRecall = .9
	recall := must(walking.MeasureMany(t.Context(), 50))(t)
	if !recall.Used || recall.Share < .9 || recall.Queries != measuredLists || recall.K != 50 ||
		recall.Clusters < fewestClusters || !walking.ManyByIndex(50) || walking.ManyByIndex(51) {
		t.Fatalf("recall %+v", recall)
	}
	var sources []int32
	for i := int32(5); i < n; i += 60 {
		sources = append(sources, i)
	}
	want, got := must(exact.Batch(t.Context(), sources, Query{K: 50}))(t),
		must(walking.Batch(t.Context(), sources, Query{K: 50}))(t)
	same := 0
	for k := range want {
		if len(got[k].Targets) != 50 {
			t.Fatalf("source %d has %d targets", got[k].Source, len(got[k].Targets))
		}
		for _, j := range got[k].Targets {
			if slices.Contains(want[k].Targets, j) {
				same++
			}
		}
	}
	if share := float64(same) / float64(50*len(want)); share < .88 || share == 1 {
		t.Errorf("%d of %d targets", same, 50*len(want))
	}
	walking.leastRecall = 1 // which no few clusters reach
	if recall := must(walking.MeasureMany(t.Context(), 50))(t); recall.Used || walking.ManyByIndex(50) {
		t.Errorf("recall %+v", recall)
	}
	if all := must(walking.Batch(t.Context(), sources, Query{K: 50}))(t); !slices.EqualFunc(all, want,
		func(a, b Row) bool { return slices.Equal(a.Targets, b.Targets) }) {
		t.Error("lists are not exact though the index finds too few")
	}
	whole := must(walking.Batch(t.Context(), sources[:2], Query{K: n - 100, Exact: true}))(t)
	if len(whole[0].Targets) != n-100 {
		t.Errorf("%d of %d targets", len(whole[0].Targets), n-100)
	}
}

// Lists that are asked for while an index is measured are exact, and those after it are made by the index.
func TestListsWhileAnIndexIsMeasured(t *testing.T) {
	t.Parallel()
	g, m, naive, web := calm(t, 1500, "diagonal")
	r := must(New(g, m, Options{Naive: &naive, Index: web, Sketched: true, Sketch: web.Sketch(), LeastRecall: .5}))(t)
	r.scanned = 0 // there are few nodes here
	done := make(chan error)
	go func() {
		_, err := r.Measure(t.Context())
		done <- err
	}()
	q := Query{Source: r.Node(3), K: 10}
	for before := 0; ; before++ {
		list := must(r.Top(t.Context(), q))(t)
		if len(list.Items) != 10 {
			t.Fatalf("%d items", len(list.Items))
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			if after := must(r.Top(t.Context(), q))(t); before == 0 || after.Index == nil {
				t.Errorf("%d lists before it was measured; by the index afterwards: %v", before, after.Index != nil)
			}
			return
		default:
			if list.Index != nil && !r.Recall().Used {
				t.Fatal("a list is made by an index that is not measured")
			}
		}
	}
}
