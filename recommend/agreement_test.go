package recommend

import (
	"cmp"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"unseen/graph"
	"unseen/model"
)

// withMembers adds random members near the published model; some have a slope of popularity, if asked.
func withMembers(m model.Model, g *graph.Graph, count int, popular bool) model.Model {
	random := rand.New(rand.NewPCG(uint64(count), 5))
	m.Members = nil
	for k := range count {
		one := model.MemberModel{Name: string(rune('a' + k)), LinkParams: slices.Clone(m.LinkParams)}
		for i := range one.LinkParams {
			one.LinkParams[i] += .3 * float32(random.NormFloat64())
		}
		if popular && k%2 == 0 {
			one.Popularity = .5 + random.Float64()
		}
		m.Members = append(m.Members, one)
	}
	m.Popularity = nil
	return withPopularity(m, g)
}

// byMember returns the candidates of a source as a ranker orders them.
func byMember(g *graph.Graph, by model.Ranker, source int32) []int32 {
	var all []int32
	for j := range int32(g.Len()) {
		if j != source && !g.HasLink(source, j) {
			all = append(all, j)
		}
	}
	z := make([]float32, g.Len())
	for _, j := range all {
		by.Logits(z[j:j+1], model.Batch{Sources: []int32{source}, Targets: []int32{j}})
	}
	slices.SortFunc(all, func(a, b int32) int {
		if math.Abs(float64(z[a]-z[b])) < 1e-5 { // the same vector
			return cmp.Compare(a, b)
		}
		return cmp.Compare(z[b], z[a])
	})
	return all
}

// A list has the order of the members' mean, with the numbers of the published model, and says on how many items
// every member agrees.
func TestListsOfMembers(t *testing.T) {
	t.Parallel()
	for _, popular := range []bool{false, true} {
		g, published, naive := small(t, 90, "diagonal")
		m := withMembers(published, g, 4, popular)
		r := must(New(g, m, Options{Naive: &naive, Threads: 2}))(t)
		alone := must(New(g, published, Options{Naive: &naive}))(t)
		for source := int32(0); source < 90; source += 7 {
			q := Query{Source: r.Node(source), K: 12, Compare: true}
			list := must(r.Top(t.Context(), q))(t)
			want := byMember(g, m.Ranker(), source)
			before := must(alone.Top(t.Context(), Query{Source: r.Node(source), K: MaxK, Compare: true}))(t)
			byNode := map[int32]Item{}
			for _, item := range before.Items {
				byNode[item.Node] = item
			}
			for k, item := range list.Items {
				old := byNode[item.Node]
				if item.Node != want[k] || item.ByLink != k+1 {
					t.Fatalf("source %d, place %d: node %d, of rank %d, not %d", source, k, item.Node, item.ByLink,
						want[k])
				}
				if math.Abs(item.Link-old.Link) > 1e-6 || item.Propensity != old.Propensity ||
					item.SeenRank != old.SeenRank || item.NaiveRank != old.NaiveRank {
					t.Fatalf("source %d: %+v, by the published model %+v", source, item, old)
				}
			}
			agreed := 0
			for _, j := range want[:10] {
				all := true
				for _, by := range m.Rankers() {
					all = all && slices.Contains(byMember(g, by, source)[:10], j)
				}
				if all {
					agreed++
				}
			}
			if a := list.Agreement; a == nil || *a != (Agreement{Members: 4, Of: 10, Agreed: agreed}) {
				t.Errorf("source %d: %+v, not %d", source, a, agreed)
			}
			for k := range list.Naive {
				if list.Naive[k].Node != before.Naive[k].Node {
					t.Fatalf("source %d: the naive list changes", source)
				}
			}
			seen := must(r.Top(t.Context(), Query{Source: r.Node(source), K: 12, Seen: true}))(t)
			old := must(alone.Top(t.Context(), Query{Source: r.Node(source), K: 12, Seen: true}))(t)
			for k := range seen.Items {
				if seen.Items[k].Node != old.Items[k].Node || seen.Agreement != nil {
					t.Fatalf("source %d: the list by π̂ŷ changes", source)
				}
			}
			rows := must(r.Batch(t.Context(), []int32{source}, Query{K: 12}))(t)
			if !slices.Equal(rows[0].Targets, want[:12]) {
				t.Errorf("source %d: a batch has %v, not %v", source, rows[0].Targets, want[:12])
			}
			for k, z := range rows[0].Logits {
				if math.Abs(float64(z)-list.Items[k].Logit) > 1e-4 {
					t.Errorf("source %d: a batch has the logit %v, not %v", source, z, list.Items[k].Logit)
				}
			}
		}
	}
}

// One member is the published model: lists are what they were without members.
func TestListsOfOneMember(t *testing.T) {
	t.Parallel()
	g, m, naive := small(t, 90, "diagonal")
	alone := must(New(g, m, Options{Naive: &naive}))(t)
	one := must(New(g, withMembers(m, g, 1, true), Options{Naive: &naive}))(t)
	for source := int32(0); source < 90; source += 5 {
		for _, q := range []Query{{K: 10}, {K: 10, Diversity: .5}, {K: 10, Explore: .5}, {K: 10, Seen: true}} {
			q.Source = alone.Node(source)
			if a, b := must(alone.Top(t.Context(), q))(t), must(one.Top(t.Context(), q))(t); !reflect.DeepEqual(a, b) {
				t.Fatalf("%+v: another list", q)
			}
		}
	}
}

// Of two assumptions, one looks along x and one along y: they agree on what is far along both.
func TestAgreementByHand(t *testing.T) {
	t.Parallel()
	rows := [][]float32{{1, 1}, {200, 200}, {199, 199}, {198, 198}}
	for k := range 12 {
		rows = append(rows, []float32{100 - float32(k), 0}, []float32{0, 100 - float32(k)})
	}
	var b graph.Builder
	v := must(graph.NewVectors(len(rows), 2))(t)
	for i, row := range rows {
		must(b.AddNode(graph.Node{ID: string(rune('a' + i)), Field: "one"}))(t)
		if err := v.Set(int32(i), row); err != nil {
			t.Fatal(err)
		}
	}
	g, _, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	g = must(g.WithVectors(v))(t)
	nodes := model.NodesOf(g)
	link := must(model.NewDiagonal(nodes, false))(t)
	propensity := must(model.NewFieldMatrix(nodes))(t)
	m := model.Model{Link: link, LinkParams: []float32{1, 1, 0}, Propensity: propensity,
		PropensityParams: make([]float32, propensity.Size()), Members: []model.MemberModel{
			{LinkParams: []float32{2, 0, 0}}, {LinkParams: []float32{0, 2, 0}}}}
	for _, fast := range []bool{false, true} {
		r := must(New(g, m, Options{Sketched: fast}))(t)
		for k, want := range map[int]Agreement{1: {2, 1, 1}, 3: {2, 3, 3}, 5: {2, 5, 3}, 10: {2, 10, 3},
			20: {2, 10, 3}} {
			list := must(r.Top(t.Context(), Query{Source: r.Node(0), K: k}))(t)
			if list.Agreement == nil || *list.Agreement != want || len(list.Items) != k {
				t.Errorf("the first %d: %+v, not %+v", k, list.Agreement, want)
			}
		}
	}
	for name, change := range map[string]func(*model.Model){
		"ŷ is constant": func(m *model.Model) {
			m.Members = []model.MemberModel{{LinkParams: []float32{0, 0, 3}}, {LinkParams: []float32{0, 0, 4}}}
		},
		"the model collapsed": func(m *model.Model) {
			m.Findings = []byte(`{"class":"not identified","meanLink":{"value":0.995}}`)
		},
	} {
		bad := m
		change(&bad)
		r := must(New(g, bad, Options{}))(t)
		list := must(r.Top(t.Context(), Query{Source: r.Node(0), K: 3}))(t)
		if list.Agreement != nil {
			t.Errorf("%s: %s", name, list.Agreement)
		}
		if said := slices.ContainsFunc(list.Warnings, func(warning string) bool {
			return strings.HasPrefix(warning, "The model collapsed: ")
		}); said != (bad.Findings != nil) {
			t.Errorf("%s: %q", name, list.Warnings)
		}
	}
	const words = "All 2 assumptions that explain the links have 3 of the first 5 in their own first 10."
	if got := (&Agreement{2, 5, 3}).String(); got != words {
		t.Error(got)
	}
}

// Members that cannot be used are refused, not met in a query.
func TestMembersRefused(t *testing.T) {
	t.Parallel()
	g, m, _ := small(t, 30, "diagonal")
	other := withMembers(m, g, 3, true)
	other.Popularity = other.Popularity[1:]
	_, mlp, _ := small(t, 30, "mlp")
	for name, m := range map[string]model.Model{"popularity": other, "mlp": withMembers(mlp, g, 2, false)} {
		if _, err := New(g, m, Options{}); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}
