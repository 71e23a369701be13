package graph

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, words, want, broken string
		againstTime               int
	}{
		{"a chain comes out backwards", "a b c a>b b>c", "c b a", "", 0},
		{"without links nodes stay", "b a c", "b a c", "", 0},
		{"targets are pulled in front", "a b c d b>d", "a d b c", "", 0},
		{"time rules", "a@2020 b@2019 c@2018", "c b a", "", 0},
		{"links rule within a year", "a@2020 b@2020 c@2019 a>b", "c b a", "", 0},
		{"a link against time is broken", "a@2018 b@2020 a>b", "a b", "a>b", 1},
		{"a cycle breaks where it closes", "a b c a>b b>c c>a", "c b a", "c>a", 0},
		{"a cycle across years breaks where time does", "a@2020 b@2019 a>b b>a", "b a", "b>a", 1},
		{"what a cycle links to comes first", "a b x a>b b>a b>x", "x b a", "b>a", 0},
		{"a node without a time follows its targets", "u a@2019 b@2020 u>a", "a u b", "", 0},
		{"the latest target counts", "u a@2019 b@2020 c@2021 u>a u>b", "a b u c", "", 0},
		{"also through others without a time", "u v b@2020 c@2021 u>v v>b", "b v u c", "", 0},
		{"reaching no time, it comes first", "a@2019 u", "u a", "", 0},
		{"an inferred time can be contradicted", "w@2018 u a@2020 w>u u>a", "w a u", "w>u", 1},
		{"a node with a time passes its own on", "u k@2019 b@2021 u>k k>b", "k u b", "k>b", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := sketch(t, c.words)
			o := g.Order()
			if got := ids(g, o.Sequence); got != c.want {
				t.Errorf("order is %s, want %s", got, c.want)
			}
			var broken []string
			for _, l := range o.Broken {
				broken = append(broken, g.ID(l.Source)+">"+g.ID(l.Target))
			}
			if got := strings.Join(broken, " "); got != c.broken || o.AgainstTime != c.againstTime {
				t.Errorf("broken are %q, %d of them against time; want %q, %d", got, o.AgainstTime, c.broken,
					c.againstTime)
			}
		})
	}
}

func TestOrderInvariants(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		n := 1 + r.IntN(40)
		g := randomGraph(t, r, n, r.IntN(3*n), r.Float64()*1.2)
		if err := checkOrder(g, g.Order()); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// checkOrder verifies what Order promises, by means that share nothing with how it works.
func checkOrder(g *Graph, o *Order) error {
	n := g.Len()
	seen := make([]bool, n)
	for rank, i := range o.Sequence {
		if seen[i] || int(o.Rank[i]) != rank {
			return fmt.Errorf("node %d is twice in the sequence or has the wrong rank", i)
		}
		seen[i] = true
	}
	if len(o.Sequence) != n {
		return fmt.Errorf("the sequence has %d of %d nodes", len(o.Sequence), n)
	}
	last := int64(NoTime)
	for _, i := range o.Sequence {
		if at, known := g.Time(i); known {
			if at.Unix() < last {
				return fmt.Errorf("node %d comes after a newer one", i)
			}
			last = at.Unix()
		}
	}
	// A broken link contradicts the (inferred) times or lies on a cycle of its own time.
	reach := reachability(g, o.when)
	broken, against := 0, 0
	for i, j := range g.Links() {
		if o.Rank[j] < o.Rank[i] {
			continue
		}
		if broken >= len(o.Broken) || o.Broken[broken] != (Link{i, j}) {
			return fmt.Errorf("broken link %d>%d is not listed", i, j)
		}
		broken++
		if o.when[i] < o.when[j] {
			against++
		} else if !reach[j][i] {
			return fmt.Errorf("link %d>%d is broken without need", i, j)
		}
	}
	if broken != len(o.Broken) || against != o.AgainstTime {
		return fmt.Errorf("%d broken links, %d against time; listed are %d and %d", broken, against, len(o.Broken),
			o.AgainstTime)
	}
	return nil
}

// reachability is the transitive closure of the links within one time, by Warshall.
func reachability(g *Graph, when []int64) [][]bool {
	n := g.Len()
	reach := make([][]bool, n)
	for i := range reach {
		reach[i] = make([]bool, n)
		for _, j := range g.Out(int32(i)) {
			reach[i][j] = when[i] == when[j]
		}
	}
	for k := range n {
		for i := range n {
			for j := range n {
				reach[i][j] = reach[i][j] || reach[i][k] && reach[k][j]
			}
		}
	}
	return reach
}

// TestOrderOfLongChains would overflow the stack of a recursive walk.
func TestOrderOfLongChains(t *testing.T) {
	t.Parallel()
	const n = 50_000
	for _, cyclic := range []bool{false, true} {
		var b Builder
		for i := range n {
			_, err := b.AddNode(Node{ID: fmt.Sprint(i)})
			must(t, err)
		}
		for i := range int32(n - 1) {
			must(t, b.AddLinkIndex(i, i+1))
		}
		if cyclic {
			must(t, b.AddLinkIndex(n-1, 0))
		}
		g, _, err := b.Build()
		must(t, err)
		o := g.Order()
		if want := map[bool]int{true: 1}[cyclic]; len(o.Broken) != want || o.Sequence[0] != n-1 {
			t.Errorf("cyclic %t: %d broken, first is %d", cyclic, len(o.Broken), o.Sequence[0])
		}
	}
}

func TestSplitByShare(t *testing.T) {
	t.Parallel()
	g := sketch(t, "a@2001 b@2002 c@2002 d@2003 e@2004 f@2005 g@2006 h@2007 i@2008 j@2009 b>a j>a j>i i>h h>b a>j a>b")
	o := g.Order()
	s, err := o.SplitByShare(Shares{})
	must(t, err)
	for p, want := range map[Subset]string{Train: "a b c d e f g", Validation: "h", Test: "i j"} {
		if got := ids(g, s.Nodes(p)); got != want {
			t.Errorf("%v is %s, want %s", p, got, want)
		}
		for _, i := range s.Nodes(p) {
			if s.Subset(i) != p {
				t.Errorf("node %d is in %v, not %v", i, s.Subset(i), p)
			}
		}
	}
	want := SplitReport{Nodes: [3]int{7, 1, 2}, Links: [3]int{2, 1, 3}, Dropped: 1}
	if s.Report != want {
		t.Errorf("report is %+v, want %+v", s.Report, want)
	}
	if s, err = o.SplitByShare(Shares{Train: .5, Test: .5}); err != nil || s.Report.Nodes != [3]int{5, 0, 5} {
		t.Errorf("halves are %v, %v", s.Report.Nodes, err)
	}
	if name := Subset(9).String(); name != "Subset(9)" {
		t.Error(name)
	}
}

func TestSplitByDate(t *testing.T) {
	t.Parallel()
	g := sketch(t, "x@2021 y@2020 z@2019 u w u>x")
	o := g.Order()
	date := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	s, err := o.SplitByDate(date(2020), date(2021))
	must(t, err)
	for p, want := range map[Subset]string{Train: "w z", Validation: "y", Test: "x u"} {
		if got := ids(g, s.Nodes(p)); got != want {
			t.Errorf("%v is %s, want %s", p, got, want)
		}
	}
	s, err = o.SplitByDate(date(2020).Add(time.Nanosecond), date(2020).Add(time.Nanosecond))
	must(t, err)
	if got := ids(g, s.Nodes(Train)); got != "w z y" {
		t.Errorf("up to the first nanosecond of 2020 come %s", got)
	}

	_, err = o.SplitByDate(date(2021), date(2020))
	wantError(t, err, ErrDates, "2020-01-01", "swap")
	_, err = o.SplitByDate(date(2030), date(2031))
	wantError(t, err, ErrEmptySubset, "test", "2019-01-01", "2021-01-01")
	_, err = sketch(t, "a b").Order().SplitByDate(date(2020), date(2021))
	wantError(t, err, ErrDates, "share")
}

func TestSplitErrors(t *testing.T) {
	t.Parallel()
	o := sketch(t, "a b c").Order()
	nan := 0.
	nan /= nan
	for _, s := range []Shares{{1, 1, 1}, {-.1, .1, 1}, {nan, 0, 1}, {.5, .1, .1}, {nan, nan, nan}} {
		_, err := o.SplitByShare(s)
		wantError(t, err, ErrShares, "add up to 1")
	}
	for _, s := range []Shares{{1, 0, 0}, {0, 0, 1}, {0, 1, 0}, {.9, 0, .1}} {
		_, err := o.SplitByShare(s)
		wantError(t, err, ErrEmptySubset, "larger")
	}
	_, err := sketch(t, "").Order().SplitByShare(Shares{})
	wantError(t, err, ErrEmptySubset)
}

func TestSplitInvariants(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 3))
		n := 10 + r.IntN(40)
		g := randomGraph(t, r, n, r.IntN(4*n), r.Float64()*1.2)
		s, err := g.Order().SplitByShare(DefaultShares)
		must(t, err)
		if err := checkSplit(g, s); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// checkSplit verifies that subsets are disjoint and cover the nodes, that every link is in the subset it
// belongs to or dropped, and that nothing of the test subset is seen in training.
func checkSplit(g *Graph, s *Split) error {
	nodes, links := 0, map[Link]Subset{}
	for p := Train; p <= Test; p++ {
		nodes += len(s.Nodes(p))
		count := 0
		for i, j := range s.Links(p) {
			if _, twice := links[Link{i, j}]; twice || s.Subset(i) != p || s.Subset(j) > p || !g.HasLink(i, j) {
				return fmt.Errorf("link %d>%d does not belong to %v", i, j, p)
			}
			if p == Train && (s.Subset(i) != Train || s.Subset(j) != Train) {
				return fmt.Errorf("link %d>%d leaks into training", i, j)
			}
			links[Link{i, j}] = p
			count++
		}
		if count != s.Report.Links[p] || len(s.Nodes(p)) != s.Report.Nodes[p] {
			return fmt.Errorf("%v has %d links, the report says %d", p, count, s.Report.Links[p])
		}
		if len(s.Nodes(p)) == 0 {
			continue
		}
		_, linked, err := s.Universe(p).Count(g)
		if err != nil && len(s.Nodes(p)) > 1 || err == nil && linked != int64(count) {
			return fmt.Errorf("universe of %v has %d links of %d: %v", p, linked, count, err)
		}
	}
	if nodes != g.Len() || len(links)+s.Report.Dropped != g.LinkCount() {
		return fmt.Errorf("%d nodes, %d links and %d dropped of %d and %d", nodes, len(links), s.Report.Dropped,
			g.Len(), g.LinkCount())
	}
	for i, j := range g.Links() {
		if _, kept := links[Link{i, j}]; !kept && !slices.Contains(s.order.Broken, Link{i, j}) {
			return fmt.Errorf("link %d>%d was dropped but is not broken", i, j)
		}
	}
	return nil
}
