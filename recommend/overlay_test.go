package recommend

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"unseen/fit"
	"unseen/graph"
	"unseen/model"
)

// changeOf is a node of a graph as a change.
func changeOf(g *graph.Graph, i int32) *NodeChange {
	c := &NodeChange{ID: g.ID(i), Title: g.Title(i), Field: g.FieldName(g.Field(i)), Role: g.Role(i), Links: []string{}}
	c.Time, _ = g.Time(i)
	for _, j := range g.Out(i) {
		c.Links = append(c.Links, g.ID(j))
	}
	if g.Vectors() != nil {
		c.Vector = make([]float32, g.Vectors().Dim())
		g.Vectors().Load(c.Vector, i)
	}
	return c
}

// older is the graph before its last nodes came, with other vectors for every ninth node.
func older(t *testing.T, whole *graph.Graph, n int32, m, naive model.Model) (*graph.Graph, model.Model, model.Model) {
	t.Helper()
	var b graph.Builder
	v := must(graph.NewVectors(int(n), whole.Vectors().Dim()))(t)
	row := make([]float32, v.Dim())
	for f := 1; f < whole.FieldCount(); f++ {
		must(b.AddField(whole.FieldName(uint16(f))))(t)
	}
	for i := range n {
		c := changeOf(whole, i)
		node := graph.Node{ID: c.ID, Title: c.Title, Field: c.Field, Time: c.Time}
		copy(row, c.Vector)
		if i%9 == 4 {
			node.Title, row[0] = "old title", row[0]+1
		}
		must(b.AddNode(node))(t)
		if err := v.Set(i, row); err != nil {
			t.Fatal(err)
		}
	}
	for i, j := range whole.Links() {
		if i < n && j < n {
			if err := b.AddLinkIndex(i, j); err != nil {
				t.Fatal(err)
			}
		}
	}
	g, _, err := b.Build()
	g = must(must(g, err)(t).WithVectors(v))(t)
	nodes := model.NodesOf(g)
	for _, x := range []*model.Model{&m, &naive} {
		x.Link = must(model.NewLink(x.Link.Kind(), nodes, model.LinkOptions{}))(t)
		x.Propensity = must(model.NewPropensity("field-matrix", nodes, model.PropensityOptions{}))(t)
	}
	return g, m, naive
}

// An older graph with an overlay gives the lists of the graph with everything in it, whoever asks and whatever for.
func TestOverlayIsTheWholeGraph(t *testing.T) {
	for _, kind := range []string{"diagonal", "diagonal-field", "low-rank", "diagonal+bonus"} {
		for _, members := range []int{0, 3} {
			whole, m, naive := small(t, 90, kind)
			for i := int32(3); i < 90; i += 7 { // no ties, whose order is that of places
				row := changeOf(whole, i).Vector
				row[1] += .3
				if err := whole.Vectors().Set(i, row); err != nil {
					t.Fatal(err)
				}
			}
			for _, params := range [][]float32{m.LinkParams, naive.LinkParams} {
				for k := range params { // nor ŷ of 1
					params[k] *= .4
				}
			}
			base, baseM, baseNaive := older(t, whole, 60, m, naive)
			if members > 0 && kind == "diagonal" {
				m, baseM = withMembers(m, whole, members, false), withMembers(baseM, base, members, false)
			}
			r := must(New(base, baseM, Options{Naive: &baseNaive, Threads: 1}))(t)
			all := must(New(whole, m, Options{Naive: &naive, Threads: 1}))(t)
			removed := []int32{2, 17, 33, 71}
			var changes []*NodeChange
			for i := int32(0); i < 90; i++ {
				if i >= 60 || i%9 == 4 || i%20 == 7 { // some change to what they are already
					changes = append(changes, changeOf(whole, i))
				}
			}
			rand.New(rand.NewPCG(1, 1)).Shuffle(len(changes), func(a, b int) {
				changes[a], changes[b] = changes[b],
					changes[a]
			})
			for _, i := range removed {
				changes = append(changes, &NodeChange{ID: whole.ID(i), Removed: true})
			}
			var o *Overlay
			for part := range slices.Chunk(changes, 7) {
				o = must(r.Overlay(t.Context(), o, part))(t)
			}
			compareOverlay(t, kind, r, o, all, removed)
		}
	}
}

func compareOverlay(t *testing.T, kind string, r *Recommender, o *Overlay, all *Recommender, removed []int32) {
	t.Helper()
	for i := range int32(90) {
		place, ok := r.Find(o, all.g.ID(i))
		if ok == slices.Contains(removed, i) {
			t.Fatalf("node %d is removed, or found: %v", i, ok)
		}
		if !ok {
			continue
		}
		for _, q := range []Query{{K: 12}, {K: 90}, {K: 20, Seen: true}, {K: 9, Diversity: .4}, {K: 30, Linked: true},
			{K: 20, Fields: []uint16{2}}, {K: 5, Compare: true, Explain: true}} {
			q.Source = must(r.At(t.Context(), o, place))(t)
			q.Overlay = o
			got := must(r.Top(t.Context(), q))(t)
			q.Source, q.Overlay, q.Exclude = all.Node(i), nil, removed
			want := must(all.Top(t.Context(), q))(t)
			if got.Candidates != want.Candidates || got.Source.ID != want.Source.ID || got.Field != want.Field {
				t.Fatalf("%s: %d candidates for %q, want %d", kind, got.Candidates, got.Source.ID, want.Candidates)
			}
			if a, b := byName(got.Items, q.Diversity > 0), byName(want.Items, q.Diversity > 0); a != b {
				t.Fatalf("%s, source %d, %+v:\n%s\n%s", kind, i, q, a, b)
			}
			if a, b := byName(got.Naive, false), byName(want.Naive, false); a != b {
				t.Fatalf("%s, source %d, naive:\n%s\n%s", kind, i, a, b)
			}
			if (got.Agreement == nil) != (want.Agreement == nil) || got.Agreement != nil &&
				*got.Agreement != *want.Agreement {
				t.Fatalf("%s: agreement %v, want %v", kind, got.Agreement, want.Agreement)
			}
		}
	}
}

// byName is a list in words, sorted by the rounded z and by name: sums of a row behind the graph may differ in their
// last bit. Re-ranked lists have their places as they are.
func byName(items []Item, ranked bool) (text string) {
	if !ranked {
		slices.SortFunc(items, func(a, b Item) int {
			return cmp.Or(cmp.Compare(math.Round(b.Logit*1e4), math.Round(a.Logit*1e4)), cmp.Compare(a.ID, b.ID))
		})
	}
	for _, item := range items {
		text += fmt.Sprintf("%s %q %s %s %.4f %.4f %v; ", item.ID, item.Title, item.Field, item.Time, item.Link,
			item.Propensity,
			item.Why == nil)
	}
	return text
}

// Nodes that came are drawn with the probability that the list says.
func TestOverlayIsDrawnWithItsProbability(t *testing.T) {
	whole, m, naive := small(t, 30, "diagonal")
	g, m, _ := older(t, whole, 20, m, naive)
	r := must(New(g, m, Options{}))(t)
	var changes []*NodeChange
	for i := int32(20); i < 30; i++ {
		changes = append(changes, changeOf(whole, i))
	}
	o := must(r.Overlay(t.Context(), nil, changes))(t)
	const lists = 4000
	counts, stamps := map[string]float64{}, map[string]float64{}
	for seed := range uint64(lists) {
		list := must(r.Top(t.Context(), Query{Source: r.Node(8), K: 6, Explore: .5, Seed: seed, Overlay: o}))(t)
		for _, item := range list.Items {
			counts[item.ID]++
			stamps[item.ID] = item.Shown
		}
	}
	came := 0
	for id, p := range stamps {
		if e := math.Sqrt(p * (1 - p) / lists); math.Abs(counts[id]/lists-p) > 4*e+1e-9 {
			t.Errorf("%s is in %v of the lists and says %v", id, counts[id]/lists, p)
		}
		if place, _ := r.Find(o, id); int(place) >= g.Len() {
			came++
		}
	}
	if came == 0 {
		t.Error("no node that came was ever drawn")
	}
}

// However often nodes change, an overlay holds each once, and older versions stay as they were.
func TestOverlayIsCompacted(t *testing.T) {
	whole, m, _ := small(t, 40, "diagonal")
	r := must(New(whole, m, Options{}))(t)
	var o *Overlay
	for round := range 200 {
		var changes []*NodeChange
		for i := range int32(20) {
			c := changeOf(whole, i)
			c.Title = fmt.Sprint("round ", round)
			c.ID = fmt.Sprint("new ", i)
			changes = append(changes, c)
		}
		changes = append(changes, &NodeChange{ID: fmt.Sprint("new ", round%20), Removed: true})
		before := o
		o = must(r.Overlay(t.Context(), o, changes))(t)
		for i := range 20 {
			id := fmt.Sprint("new ", i)
			place, ok := r.Find(o, id)
			if c, _ := o.Change(place); ok != (i != round%20) || ok && (c.ID != id || c.Title != fmt.Sprint("round ",
				round)) {
				t.Fatalf("round %d, node %d: %v %+v", round, i, ok, c)
			}
			if before == nil || i == (round-1)%20 {
				continue
			}
			place, _ = r.Find(before, id)
			if c, _ := before.Change(place); c.Title != fmt.Sprint("round ", round-1) {
				t.Fatalf("an older version has changed: %+v", c)
			}
		}
	}
	if o.count() > 2*mostDead+100 {
		t.Errorf("%d places for 19 nodes", o.count())
	}
}

// New people and items of learned factors: a person by what it links to, an item as the average one.
func TestOverlayOfFactors(t *testing.T) {
	const people, items = 60, 40
	g, p := peopleAndItems(t, people, items)
	fitted := must(fit.Fit(t.Context(), p, fit.Settings{Method: "mle", Ridge: 1, Threads: 2,
		LinkOptions: model.LinkOptions{Rank: 3}}))(t)
	r := must(New(g, must(fitted.Model())(t), Options{}))(t)
	person := changeOf(g, 5)
	person.ID = "somebody"
	o := must(r.Overlay(t.Context(), nil, []*NodeChange{person, {ID: "item", Role: graph.TargetOnly,
		Field: "category 1"}, {ID: g.ID(people + 3), Removed: true}}))(t)
	place, _ := r.Find(o, "somebody")
	list := must(r.Top(t.Context(), Query{Source: must(r.At(t.Context(), o, place))(t), K: 100, Overlay: o}))(t)
	folded := must(r.History(t.Context(), g.Out(5), nil, &[]uint16{g.Field(5)}[0]))(t)
	want := must(r.Top(t.Context(), Query{Source: folded, K: 100, Exclude: []int32{people + 3}}))(t)
	found := slices.IndexFunc(list.Items, func(i Item) bool { return i.ID == "item" })
	if found < 0 {
		t.Fatal("the new item is in no list")
	}
	if place := list.Items[found]; place.Link <= 0 || place.Link >= 1 || place.Field != "category 1" {
		t.Errorf("the new item: %+v", place)
	}
	if a, b := byName(slices.Delete(slices.Clone(list.Items), found, found+1), false), byName(want.Items,
		false); a != b {
		t.Errorf("somebody with the history of p5:\n%s\n%s", a, b)
	}
	if _, err := r.At(t.Context(), o, place+1); err == nil {
		t.Error("something was recommended to an item")
	}
}
