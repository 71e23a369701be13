package serve

import (
	"slices"
	"strings"
	"testing"

	"unseen/serve/store"
)

// Lists for a history, for several nodes and for anybody: without what they are made of and what is excluded, with
// reasons, and logged under names that are no nodes.
func TestListsOfSeveral(t *testing.T) {
	t.Parallel()
	s := open(t)
	shop, _ := shop(t, "mle")
	for name, s := range map[string]*Service{"papers": s, "people and items": shop} {
		c := client{t: t, h: s.Handler()}
		g := s.Graph()
		item := func(k int) string { return g.ID(g.Targets()[k]) }
		read, people := []string{item(3), item(9), item(20)}, []string{g.ID(g.Sources()[1]), g.ID(g.Sources()[6])}
		for what, r := range map[string]RecommendRequest{
			"history":  {History: read},
			"weighted": {History: read, Weights: []float64{1, 3, .5}},
			"nodes":    {Nodes: people},
			"two":      {Nodes: people, Weights: []float64{1, 4}, Linked: true},
			"anybody":  {Anybody: true},
			"fields":   {Anybody: true, Fields: []string{g.FieldName(g.Field(g.Targets()[3]))}},
		} {
			r.K, r.Exclude, r.Explain, r.Log, r.Seed = 30, []string{item(12)}, true, true, ptr(uint64(4))
			a := want[RecommendResponse](c, 200, "POST", "/api/v1/recommendations", r)
			ids := idsOf(a)
			if len(ids) != 30 || slices.Contains(ids, item(12)) || a.Logged != 30 || a.Explore != .1 {
				t.Errorf("%s, %s: %d items, %d logged, %v explored", name, what, len(ids), a.Logged, a.Explore)
			}
			for k, i := range a.Items {
				if r.History != nil && slices.Contains(read, i.ID) || slices.Contains(r.Nodes, i.ID) || i.Why == nil ||
					!(i.Shown > 0 && i.Shown <= 1) || r.Fields != nil && i.Field != r.Fields[0] {
					t.Errorf("%s, %s: item %d is %+v", name, what, k, i)
				}
			}
		}
		page := want[EventPage](c, 200, "GET", "/api/v1/events?limit=1000", nil)
		kinds := map[string]int{}
		for _, e := range page.Events {
			kind, _, _ := strings.Cut(e.Source, ":")
			kinds[kind]++
		}
		if page.Total != 180 || kinds["history"] != 60 || kinds["nodes"] != 60 || kinds["anybody"] != 60 {
			t.Errorf("%s: the log has %v", name, kinds)
		}
		clicked := page.Events[0]
		clicked.ID, clicked.Kind, clicked.Seq = "click", store.Clicked, 0
		if r := want[EventResult](c, 200, "POST", "/api/v1/events",
			eventBatch{[]store.LogEvent{clicked}}); r.Stored != 1 {
			t.Errorf("a click of a reader without a node: %+v", r)
		}
	}
	c := client{t: t, h: s.Handler()}
	for _, r := range []RecommendRequest{
		{}, {Anybody: true, Node: "p1"}, {Nodes: []string{}}, {Nodes: []string{"p1"}, Weights: []float64{1, 2}},
		{Nodes: []string{"p1"}, Weights: []float64{-1}}, {Nodes: slices.Repeat([]string{"p1"}, 101)},
		{History: []string{"p1"}, Weights: []float64{0}}, {History: []string{"p1"}, Shown: []string{"p2"}},
		{History: []string{}}, {Anybody: true, Field: "alchemy"},
	} {
		if w := c.do("POST", "/api/v1/recommendations", r); w.Code != 422 {
			t.Errorf("%+v: %d %s", r, w.Code, w.Body)
		}
	}
	for _, r := range []RecommendRequest{{Nodes: []string{"nobody"}}, {History: []string{"nobody"}}} {
		if w := c.do("POST", "/api/v1/recommendations", r); w.Code != 404 {
			t.Errorf("%+v: %d", r, w.Code)
		}
	}
}
