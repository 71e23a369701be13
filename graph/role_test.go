package graph

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// shop is a random graph of people, items and a few nodes that are both, in a random order; links have times.
func shop(tb testing.TB, r *rand.Rand, n, links int) *Graph {
	tb.Helper()
	var b Builder
	var sources, targets []int32
	for i := range int32(n) {
		role := []Role{SourceOnly, TargetOnly, SourceOnly, TargetOnly, SourceAndTarget}[r.IntN(5)]
		_, err := b.AddNode(Node{ID: fmt.Sprint("n", i), Field: []string{"", "a", "b"}[r.IntN(3)], Role: role,
			Time: time.Unix(int64(r.IntN(9)), 0)})
		must(tb, err)
		if role != TargetOnly {
			sources = append(sources, i)
		}
		if role != SourceOnly {
			targets = append(targets, i)
		}
	}
	for k := range links {
		i, j := sources[r.IntN(len(sources))], targets[r.IntN(len(targets))]
		if i == j {
			continue
		}
		seconds := int64(r.IntN(1000))
		if k%10 == 3 {
			seconds = NoTime
		}
		must(tb, b.AddLinkAt(i, j, seconds))
	}
	g, _, err := b.Build()
	must(tb, err)
	return g
}

// Where every node is source and target, nothing is stored and nothing is different.
func TestRolesOfAll(t *testing.T) {
	t.Parallel()
	g := sketch(t, "a b c b>a c>a")
	if g.TwoSided() || g.HasLinkTimes() || g.OutTimes(1) != nil || !g.IsSource(0) || !g.IsTarget(2) ||
		g.Role(1) != SourceAndTarget || g.PairCount() != 6 || !slices.Equal(g.Sources(), []int32{0, 1, 2}) ||
		!slices.Equal(g.Targets(), g.Sources()) {
		t.Errorf("%v %v, %d pairs", g.Sources(), g.Targets(), g.PairCount())
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	var b Builder
	for _, n := range []Node{{ID: "anna", Role: SourceOnly}, {ID: "book", Role: TargetOnly}, {ID: "shop"}} {
		_, err := b.AddNode(n)
		must(t, err)
	}
	must(t, b.AddLink("anna", "book"))
	must(t, b.AddLink("anna", "shop"))
	must(t, b.AddLink("shop", "book"))
	wantError(t, b.AddLink("book", "shop"), ErrRole, "from", "book", "target only")
	wantError(t, b.AddLink("shop", "anna"), ErrRole, "to", "anna", "source only")
	_, err := b.AddNode(Node{ID: "x", Role: 7})
	wantError(t, err, ErrRole, "Role(7)")
	g, report, err := b.Build()
	must(t, err)
	if report.Links != 3 || !g.TwoSided() || !slices.Equal(g.Sources(), []int32{0, 2}) ||
		!slices.Equal(g.Targets(), []int32{1, 2}) || g.PairCount() != 3 {
		t.Errorf("%+v, %v to %v, %d pairs", report, g.Sources(), g.Targets(), g.PairCount())
	}
	sub, err := g.Induced([]int32{2, 1})
	must(t, err)
	if !sub.TwoSided() || sub.Role(0) != SourceAndTarget || sub.Role(1) != TargetOnly || !sub.HasLink(0, 1) {
		t.Errorf("a subgraph has roles %v and %v", sub.Role(0), sub.Role(1))
	}
	for r := range roles {
		if back, err := ParseRole(r.String()); err != nil || back != r {
			t.Errorf("%v is read as %v, %v", r, back, err)
		}
	}
	_, err = ParseRole("buyer")
	wantError(t, err, ErrRole, "buyer", "source")
}

// People who got a prefix are found without it, unless a source has that id.
func TestSourceIndex(t *testing.T) {
	t.Parallel()
	var b Builder
	for _, n := range []Node{{ID: "user:1", Role: SourceOnly}, {ID: "1", Role: TargetOnly}, {ID: "2", Role: TargetOnly},
		{ID: "user:2", Role: TargetOnly}, {ID: "user:3", Role: SourceOnly}, {ID: "4"}, {ID: "user:4"}} {
		_, err := b.AddNode(n)
		must(t, err)
	}
	g, _, err := b.Build()
	must(t, err)
	for id, want := range map[string]string{"1": "user:1", "user:1": "user:1", "2": "2", "3": "user:3", "4": "4"} {
		if i, ok := g.SourceIndex(id); !ok || g.ID(i) != want {
			t.Errorf("%s finds %d, %t; want %s", id, i, ok, want)
		}
	}
	if i, ok := g.SourceIndex("5"); ok {
		t.Errorf("an id of nobody finds %d", i)
	}
}

// A universe holds pairs of sources and targets, whichever nodes it names; samples of it are unbiased.
func TestRectangleIsSampled(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(4, 5))
	g := shop(t, r, 25, 60)
	some := g.WithLinks(func(i int32, place int) bool { return (int(i)+place)%2 == 0 })
	rest := g.WithLinks(func(i int32, place int) bool { return (int(i)+place)%2 == 1 })
	for name, c := range map[string]struct {
		g *Graph
		u Universe
	}{
		"all": {g, Universe{}}, "before": {g, Universe{Before: g.Order()}},
		"subset":         {g, Universe{Sources: randomNodes(g, r), Targets: randomNodes(g, r)}},
		"except":         {some, Universe{Except: rest}},
		"except, before": {some, Universe{Before: g.Order(), Except: rest}},
		"except itself":  {g, Universe{Except: rest}},
	} {
		all, err := AllPairs(c.g, c.u, 0)
		must(t, err)
		pairs, linked, err := c.u.Count(c.g)
		must(t, err)
		if name == "all" && pairs != g.PairCount() || int(pairs) != all.Len() {
			t.Errorf("%s: %d pairs, not %d", name, pairs, all.Len())
		}
		f := slices.Repeat([]float64{math.NaN()}, g.Len()*g.Len())
		for k := range all.Len() {
			i, j := all.Source[k], all.Target[k]
			if !g.IsSource(i) || !g.IsTarget(j) || c.u.Except != nil && c.u.Except.HasLink(i, j) {
				t.Fatalf("%s: pair (%d, %d) of a %v and a %v", name, i, j, g.Role(i), g.Role(j))
			}
			if all.Linked[k] {
				linked--
			}
			f[int(i)*g.Len()+int(j)] = r.NormFloat64() + float64(len(g.In(j)))
		}
		if linked != 0 {
			t.Errorf("%s: %d links more were counted than there are", name, linked)
		}
		for scheme := range schemes {
			t.Run(fmt.Sprintf("%s/%v", name, scheme), func(t *testing.T) {
				checkUnbiased(t, c.g, c.u, SampleOptions{scheme, 1, rand.NewPCG(1, 6)}, all, f)
			})
		}
	}
	_, _, err := Universe{Except: sketch(t, "a b")}.Count(g)
	wantError(t, err, ErrShape, "2 nodes")
}

// Times stay with their links, however those are given; a repeated link keeps its earliest time.
func TestLinkTimes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 9))
		want, given := map[Link]int64{}, []Link{}
		var b Builder
		for i := range 30 {
			_, err := b.AddNode(Node{ID: fmt.Sprint(i)})
			must(t, err)
		}
		for k := range 300 {
			l := Link{int32(r.IntN(30)), int32(r.IntN(29))}
			if l.Source == l.Target {
				continue
			}
			given = append(given, l)
			old, known := want[l]
			if !known {
				old = NoTime
			}
			if k < 20 && seed%2 == 0 { // the first have none
				must(t, b.AddLinkIndex(l.Source, l.Target))
				want[l] = old
				continue
			}
			seconds := int64(r.IntN(5))
			must(t, b.AddLinkAt(l.Source, l.Target, seconds))
			want[l] = earliest(old, seconds)
		}
		g, report, err := b.Build()
		must(t, err)
		if report.Repeated != len(given)-len(want) || g.LinkCount() != len(want) {
			t.Errorf("seed %d: %+v", seed, report)
		}
		check := func(g *Graph, name func(i int32) int32) {
			for i := range int32(g.Len()) {
				for k, j := range g.Out(i) {
					if at := (Link{name(i), name(j)}); g.OutTimes(i)[k] != want[at] {
						t.Fatalf("seed %d: link %v has time %d, not %d", seed, at, g.OutTimes(i)[k], want[at])
					}
				}
			}
		}
		check(g, func(i int32) int32 { return i })
		nodes := randomNodes(g, r)
		sub, err := g.Induced(nodes)
		must(t, err)
		check(sub, func(i int32) int32 { return nodes[i] })
		half := g.WithLinks(func(i int32, place int) bool { return place%2 == 0 })
		check(half, func(i int32) int32 { return i })
		for i := range int32(half.Len()) {
			for _, j := range half.Out(i) {
				if !slices.Contains(half.In(j), i) {
					t.Fatalf("seed %d: link %d → %d is not among those to its target", seed, i, j)
				}
			}
		}
	}
}

// A split of the order of a shop divides its sources; every target that is none is there to train on.
func TestSplitBySource(t *testing.T) {
	t.Parallel()
	g := shop(t, rand.New(rand.NewPCG(2, 2)), 200, 600)
	for name, o := range map[string]*Order{"order": g.Order(), "random": g.ShuffledOrder(rand.NewPCG(1, 1))} {
		s, err := o.SplitByShare(Shares{})
		must(t, err)
		n := len(g.Sources())
		if test := len(s.Nodes(Test)); math.Abs(float64(test)-.2*float64(n)) > 1 {
			t.Errorf("%s: %d of %d sources are for test", name, test, n)
		}
		for i := range int32(g.Len()) {
			if !g.IsSource(i) && s.Subset(i) != Train {
				t.Fatalf("%s: target %d is in %v", name, i, s.Subset(i))
			}
		}
		_, linked, err := s.Universe(Test).Count(g)
		must(t, err)
		if int(linked) != s.Report.Links[Test] {
			t.Errorf("%s: %d links of test, the report has %d", name, linked, s.Report.Links[Test])
		}
	}
	s, err := g.Order().SplitByDate(time.Unix(4, 0), time.Unix(6, 0))
	must(t, err)
	for _, i := range s.Nodes(Test) {
		if when, _ := g.Time(i); when.Unix() < 6 {
			t.Errorf("source %d of %v is for test", i, when)
		}
	}
}

// Splits of links keep every link once, the last ones of each source for test, and what is held out stays in the
// universe of training.
func TestSplitLinks(t *testing.T) {
	t.Parallel()
	g := shop(t, rand.New(rand.NewPCG(3, 2)), 60, 900)
	byDate := func() (*Split, error) { return g.SplitLinksByDate(time.Unix(700, 0), time.Unix(800, 0)) }
	for name, split := range map[string]func() (*Split, error){
		"last": func() (*Split, error) { return g.SplitLastLinks(Shares{}) }, "date": byDate,
		"random": func() (*Split, error) { return g.SplitLinksAtRandom(Shares{}, rand.NewPCG(1, 1)) },
	} {
		s, err := split()
		must(t, err)
		total := 0
		for p := range Subset(subsets) {
			pairs, linked, err := s.Universe(p).Count(s.Graph(p))
			must(t, err)
			if int(linked) != s.Report.Links[p] || pairs != g.PairCount()-int64(total) {
				t.Errorf("%s, %v: %d links of %d pairs; %d in the report", name, p, linked, pairs, s.Report.Links[p])
			}
			total += int(linked)
			for i, j := range s.Links(p) {
				if !g.HasLink(i, j) || p > Train && s.Known(p).HasLink(i, j) || !slices.Contains(s.Nodes(p), i) {
					t.Fatalf("%s, %v: link %d → %d", name, p, i, j)
				}
			}
		}
		if share := float64(s.Report.Links[Test]) / float64(total); total != g.LinkCount() || math.Abs(share-.2) > .05 {
			t.Errorf("%s: %d of %d links, %.2f for test", name, total, g.LinkCount(), share)
		}
		again, err := split()
		must(t, err)
		if !slices.Equal(slices.Collect(firsts(s)), slices.Collect(firsts(again))) {
			t.Errorf("%s: two splits differ", name)
		}
	}
	s, err := g.SplitLastLinks(Shares{})
	must(t, err)
	for _, i := range g.Sources() {
		latest := int64(NoTime)
		for _, t := range s.Graph(Train).OutTimes(i) {
			latest = max(latest, t)
		}
		for k, when := range s.Graph(Test).OutTimes(i) {
			if when < latest {
				t.Fatalf("link %d → %d of time %d is for test, and one of %d for training", i,
					s.Graph(Test).Out(i)[k], when, latest)
			}
		}
		if len(g.Out(i)) > 0 && len(s.Graph(Train).Out(i)) == 0 {
			t.Errorf("nothing of source %d is left to train on", i)
		}
	}
	found, _, err := g.FieldsByLinks(t.Context(), Communities{Split: s, Seed: 1})
	must(t, err)
	if found.FieldCount() < 2 {
		t.Error("no communities among the training links")
	}
	untimed := sketch(t, "a b c b>a c>a")
	_, err = untimed.SplitLastLinks(Shares{})
	wantError(t, err, ErrDates, "at random")
	_, err = g.SplitLinksByDate(time.Unix(5000, 0), time.Unix(6000, 0))
	wantError(t, err, ErrEmptySubset, "1970-01-01")
	_, err = g.SplitLinksAtRandom(Shares{Train: 2}, rand.NewPCG(1, 1))
	wantError(t, err, ErrShares)
}

// firsts yields the sources of the links of test.
func firsts(s *Split) func(func(int32) bool) {
	return func(yield func(int32) bool) {
		for i := range s.Links(Test) {
			if !yield(i) {
				return
			}
		}
	}
}

// Roles come by columns as they do one by one.
func TestRoleColumns(t *testing.T) {
	t.Parallel()
	var c NodeColumns
	must(t, c.AddIDs([]string{"a", "b"}))
	c.AddRoles([]Role{SourceOnly, TargetOnly})
	var b Builder
	must(t, b.AddColumns(&c))
	must(t, b.AddLinkIndex(0, 1))
	wantError(t, b.AddLinkIndex(1, 0), ErrRole)
	g, _, err := b.Build()
	must(t, err)
	if g.Role(0) != SourceOnly || g.Role(1) != TargetOnly {
		t.Errorf("roles %v and %v", g.Role(0), g.Role(1))
	}
	all, err := AllPairs(g, Universe{}, 0)
	must(t, err)
	one := &Pairs{Source: []int32{0}, Target: []int32{1}, Linked: []bool{true}, Weight: []float64{1},
		Rate: []float64{1}, Universe: 1}
	if !bytes.Equal(pairBytes(t, all), pairBytes(t, one)) {
		t.Errorf("pairs are %v", all)
	}
	one.Source[0], one.Target[0] = 1, 0
	wantError(t, one.Validate(g), ErrPair, "target", "source")
	c = NodeColumns{}
	must(t, c.AddIDs([]string{"a", "b"}))
	c.AddRoles([]Role{SourceOnly})
	wantError(t, new(Builder).AddColumns(&c), ErrShape, "1 roles")
}

// What came after a person's last link was not available to them; everything that anybody linked to was.
func TestAvailability(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(6, 6))
	var b Builder
	const people, items = 40, 30
	for k := range people + items {
		n := Node{ID: fmt.Sprint(k), Role: SourceOnly}
		if k >= people {
			n.Role = TargetOnly
			if k%5 > 0 {
				n.Time = time.Unix(int64(r.IntN(1000)), 0)
			}
		}
		_, err := b.AddNode(n)
		must(t, err)
	}
	for k := range 300 {
		i, j := r.IntN(people-2), people+r.IntN(items) // two never link
		seconds := int64(i*20 + r.IntN(100))           // people are active one after the other
		if began := b.times[j]; began > seconds && k%9 > 0 {
			continue // a few link to what was not there yet
		}
		if k == 7 {
			seconds = NoTime
		}
		must(t, b.AddLinkAt(int32(i), int32(j), seconds))
	}
	g, _, err := b.Build()
	must(t, err)
	const slack = 10 * time.Second
	o, err := g.Availability(slack)
	must(t, err)
	if len(o.Broken) > 0 {
		t.Errorf("%d links to what was not there", len(o.Broken))
	}
	pairs, err := AllPairs(g, Universe{Before: o}, 0)
	must(t, err)
	got := map[Link]bool{}
	for k, i := range pairs.Source {
		got[Link{i, pairs.Target[k]}] = true
	}
	left := 0
	for _, i := range g.Sources() {
		last := int64(NoTime)
		always := len(g.Out(i)) == 0
		for _, at := range g.OutTimes(i) {
			last, always = max(last, at), always || at == NoTime
		}
		for _, j := range g.Targets() {
			from := int64(NoTime)
			if when, known := g.Time(j); known {
				from = when.Unix()
				for _, s := range g.In(j) {
					if at := g.OutTimes(s)[slices.Index(g.Out(s), j)]; at != NoTime {
						from = min(from, at)
					}
				}
			}
			want := always || from <= last+10
			if got[Link{i, j}] != want {
				t.Fatalf("item %d from %d on, person %d until %d: available %t", j, from, i, last, got[Link{i, j}])
			}
			left += bit(!want)
		}
	}
	if left < 50 {
		t.Errorf("only %d pairs were left out", left)
	}
	_, err = sketch(t, "a b b>a").Availability(0)
	wantError(t, err, ErrDates)
	_, err = shop(t, r, 20, 40).Availability(0)
	wantError(t, err, ErrRole)
}

func bit(x bool) int {
	if x {
		return 1
	}
	return 0
}

// Nodes without a field get one by their links, those of as many links the same; others keep theirs.
func TestFieldsByActivity(t *testing.T) {
	t.Parallel()
	g := shop(t, rand.New(rand.NewPCG(9, 9)), 120, 900)
	trained := g.WithLinks(func(i int32, place int) bool { return (int(i)+place)%4 > 0 })
	found, err := g.FieldsByActivity(trained, 3)
	must(t, err)
	if n := found.FieldCount() - g.FieldCount(); n < 4 || n > 6 {
		t.Errorf("%d more fields for two sides", n)
	}
	links, groups := map[uint16][2]int{}, map[[2]any]uint16{}
	for i := range int32(g.Len()) {
		f := found.Field(i)
		if g.Field(i) != UnknownField {
			if f != g.Field(i) || found.FieldName(f) != g.FieldName(f) {
				t.Fatalf("node %d has another field", i)
			}
			continue
		}
		n := len(trained.Out(i))
		if !g.IsSource(i) {
			n = len(trained.In(i))
		}
		at := [2]any{g.IsSource(i), n}
		if known, is := groups[at]; is && known != f || f == UnknownField {
			t.Fatalf("nodes of %d links are in fields %d and %d", n, known, f)
		}
		groups[at] = f
		span, is := links[f]
		if !is {
			span = [2]int{n, n}
		}
		links[f] = [2]int{min(span[0], n), max(span[1], n)}
	}
	for f, span := range links {
		if name := found.FieldName(f); !strings.Contains(name, fmt.Sprint(span[0])) ||
			!strings.Contains(name, fmt.Sprint(span[1])) {
			t.Errorf("%q has nodes of %d to %d links", name, span[0], span[1])
		}
	}
	_, err = g.FieldsByActivity(trained, 0)
	wantError(t, err, ErrSettings)
	_, err = g.FieldsByActivity(sketch(t, "a b"), 2)
	wantError(t, err, ErrShape)
}

// Nodes without a field get one by their factors, people and items apart; others keep theirs, and nodes whose factors
// are zero get none.
func TestFieldsByFactors(t *testing.T) {
	t.Parallel()
	g := shop(t, rand.New(rand.NewPCG(9, 9)), 120, 900)
	v, err := NewVectors(g.Len(), 2)
	must(t, err)
	for i := range int32(g.Len()) {
		if i%7 != 0 {
			must(t, v.Set(i, [][]float32{{1, 0}, {0, 1}, {-1, 0}}[i%3]))
		}
	}
	found, err := g.FieldsByFactors(t.Context(), v, Clustering{Fields: 3, Seed: 1})
	must(t, err)
	if n := found.FieldCount() - g.FieldCount(); n != 6 {
		t.Errorf("%d more fields for two sides", n)
	}
	groups := map[string]uint16{}
	for i := range int32(g.Len()) {
		f := found.Field(i)
		switch {
		case g.Field(i) != UnknownField:
			if f != g.Field(i) || found.FieldName(f) != g.FieldName(f) {
				t.Fatalf("node %d has another field", i)
			}
			continue
		case i%7 == 0:
			if f != UnknownField {
				t.Fatalf("node %d without factors has field %q", i, found.FieldName(f))
			}
			continue
		}
		side := "target"
		if g.IsSource(i) {
			side = "source"
		}
		at := fmt.Sprint(side, i%3)
		if known, is := groups[at]; is && known != f || !strings.HasPrefix(found.FieldName(f), side+" cluster ") {
			t.Fatalf("node %d of %s is in %q", i, at, found.FieldName(f))
		}
		groups[at] = f
	}
	if len(groups) != 6 {
		t.Errorf("groups %v", groups)
	}
	_, err = g.FieldsByFactors(t.Context(), v, Clustering{Fields: 40_000})
	wantError(t, err, ErrTooLarge)
	_, err = g.FieldsByFactors(t.Context(), v, Clustering{Fields: 0})
	wantError(t, err, ErrSettings)
}
