package recommend

import (
	"math"
	"slices"
	"strings"
	"testing"

	"unseen/fit"
	"unseen/model"
)

// The z of several seeds is the mean of theirs, and their reasons add up to it; one seed alone has the list of its
// node.
func TestSeedsAreMeans(t *testing.T) {
	for _, kind := range []string{"diagonal", "low-rank"} {
		whole, m, naive := small(t, 60, kind)
		base, m, naive := older(t, whole, 40, m, naive)
		r := must(New(base, m, Options{Naive: &naive}))(t)
		var changes []*NodeChange
		for i := int32(40); i < 60; i++ {
			changes = append(changes, changeOf(whole, i))
		}
		o := must(r.Overlay(t.Context(), nil, changes))(t)
		logits := func(s Source) map[string]float64 {
			list := must(r.Top(t.Context(), Query{Source: s, K: 100, Linked: true, Overlay: o, Explain: true}))(t)
			out := map[string]float64{}
			for _, item := range list.Items {
				out[item.ID] = item.Logit
				var sum float64
				for _, part := range item.Why.Children[0].Children {
					sum += part.Value
				}
				if kind == "diagonal" && math.Abs(sum-item.Logit) > 1e-4 {
					t.Fatalf("the reasons of %s add up to %v, not %v", item.ID, sum, item.Logit)
				}
			}
			return out
		}
		places := []int32{9, 21, 45}
		seeds := []Seed{{9, 1}, {21, 2}, {45, 5}}
		got := logits(must(r.Seeds(t.Context(), o, seeds, true))(t))
		parts := make([]map[string]float64, 3)
		for k, place := range places {
			parts[k] = logits(must(r.At(t.Context(), o, place))(t))
		}
		for id, z := range got {
			want, all := 0., true
			for k, part := range parts {
				x, has := part[id]
				want, all = want+x*seeds[k].Weight/8, all && has
			}
			if all && math.Abs(z-want) > 1e-4 {
				t.Fatalf("%s: %s has z %v, the mean of the seeds is %v", kind, id, z, want)
			}
		}
		one := must(r.Top(t.Context(), Query{Source: must(r.Seeds(t.Context(), o, []Seed{{9, 3}}, true))(t), K: 20,
			Overlay: o}))(t)
		node := must(r.Top(t.Context(), Query{Source: r.Node(9), K: 20, Overlay: o}))(t)
		if a, b := byName(one.Items, false), byName(node.Items, false); a != b {
			t.Errorf("%s: one seed:\n%s\n%s", kind, a, b)
		}
		read := must(r.Top(t.Context(), Query{Source: must(r.Seeds(t.Context(), o, seeds, false))(t), K: 100,
			Overlay: o,
			Explain: true}))(t)
		if slices.ContainsFunc(read.Items, func(i Item) bool { return slices.Contains(places, i.Node) }) ||
			len(read.Items) != 57 {
			t.Errorf("%d items for who has read three of 60", len(read.Items))
		}
		if why := read.Items[0].Why.Children[0].Children[0].Message; !strings.HasPrefix(why, "because of “") {
			t.Errorf("the first reason is %q", why)
		}
	}
}

// For anybody, ŷ is the mean of all sources, of new targets too, whatever was clicked.
func TestAnybodyIsTheMean(t *testing.T) {
	whole, m, naive := small(t, 60, "diagonal")
	base, m, naive := older(t, whole, 40, m, naive)
	r := must(New(base, m, Options{Naive: &naive}))(t)
	var changes []*NodeChange
	for i := int32(40); i < 60; i++ {
		changes = append(changes, changeOf(whole, i))
	}
	o := must(r.Overlay(t.Context(), nil, changes))(t)
	for range 2 { // the second time what is kept
		list := must(r.Top(t.Context(), Query{Source: must(r.Anybody(t.Context()))(t), K: 100, Overlay: o,
			Explain: true}))(t)
		if len(list.Items) != 60 {
			t.Fatalf("%d items", len(list.Items))
		}
		for _, item := range list.Items {
			var mean float64
			for i := range int32(40) {
				q, _ := r.query(r.published, r.Node(i))
				row := make([]float32, 8)
				r.loadRow(row, o, item.Node)
				mean += sigmoid(product(q.Vector, row)+float64(q.Offsets[r.FieldAt(o, item.Node)])) / 40
			}
			if math.Abs(item.Link-mean) > 1e-5 || item.Why == nil {
				t.Fatalf("%s has ŷ %v, the mean is %v", item.ID, item.Link, mean)
			}
		}
	}
	if _, err := r.Top(t.Context(), Query{Source: must(r.Anybody(t.Context()))(t), K: 5, Explore: .5,
		Overlay: o}); err != nil {
		t.Error(err)
	}
}

// A weight of two counts as much as two of the same, and several people have the mean of their factors.
func TestWeightsOfHistories(t *testing.T) {
	const people, items = 60, 40
	g, p := peopleAndItems(t, people, items)
	fitted := must(fit.Fit(t.Context(), p, fit.Settings{Method: "mle", Ridge: 1, Threads: 2,
		LinkOptions: model.LinkOptions{Rank: 3}}))(t)
	r := must(New(g, must(fitted.Model())(t), Options{}))(t)
	top := func(s Source) string {
		return byName(must(r.Top(t.Context(), Query{Source: s, K: 100}))(t).Items, false)
	}
	linked := []int32{people + 1, people + 5, people + 9}
	plain := top(must(r.History(t.Context(), linked, nil, nil))(t))
	if ones := top(must(r.WeightedHistory(t.Context(), linked, []float32{1, 1, 1}, nil, nil))(t)); ones != plain {
		t.Errorf("weights of 1:\n%s\n%s", ones, plain)
	}
	twice := top(must(r.WeightedHistory(t.Context(), append(slices.Clone(linked), linked[0]), []float32{1, 1, 1, 1},
		nil, nil))(t))
	double := top(must(r.WeightedHistory(t.Context(), linked, []float32{2, 1, 1}, nil, nil))(t))
	if twice != double || double == plain {
		t.Errorf("a weight of 2:\n%s\n%s\n%s", double, twice, plain)
	}
	if one := must(r.Top(t.Context(), Query{Source: must(r.Seeds(t.Context(), nil, []Seed{{7, 2}}, true))(t),
		K: 100}))(t); byName(one.Items, false) != top(r.Node(7)) {
		t.Error("one seed is not its person")
	}
	if _, err := r.Seeds(t.Context(), nil, []Seed{{people + 1, 1}}, true); err == nil {
		t.Error("an item was taken for a person")
	}
	if _, err := r.Seeds(t.Context(), nil, nil, true); err == nil {
		t.Error("no seeds were taken")
	}
}
