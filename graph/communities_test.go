package graph

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	gonum "gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/community"
	"gonum.org/v1/gonum/graph/simple"

	"unseen/internal/racetest"
)

// karate is who met whom in Zachary's karate club (1977), without direction.
const karate = `1-2 1-3 1-4 1-5 1-6 1-7 1-8 1-9 1-11 1-12 1-13 1-14 1-18 1-20 1-22 1-32 2-3 2-4 2-8 2-14 2-18
2-20 2-22 2-31 3-4 3-8 3-9 3-10 3-14 3-28 3-29 3-33 4-8 4-13 4-14 5-7 5-11 6-7 6-11 6-17 7-17 9-31 9-33
9-34 10-34 14-34 15-33 15-34 16-33 16-34 19-33 19-34 20-34 21-33 21-34 23-33 23-34 24-26 24-28 24-30
24-33 24-34 25-26 25-28 25-32 26-32 27-30 27-34 28-34 29-32 29-34 30-33 30-34 31-33 31-34 32-33 32-34 33-34`

// linked is n nodes with the given links, by index.
func linked(tb testing.TB, n int, links []Link) *Graph {
	tb.Helper()
	b := Builder{DropSelfLinks: true}
	for i := range n {
		_, err := b.AddNode(Node{ID: fmt.Sprint(i)})
		must(tb, err)
	}
	for _, l := range links {
		must(tb, b.AddLinkIndex(l.Source, l.Target))
	}
	g, _, err := b.Build()
	must(tb, err)
	return g
}

// planted is n nodes in k groups, with a number of links per node inside its group and to anywhere.
func planted(tb testing.TB, r *rand.Rand, n, k int, inside, anywhere float64) (*Graph, []int) {
	tb.Helper()
	groups := make([]int, n)
	members := make([][]int32, k)
	for i := range groups {
		groups[i] = r.IntN(k)
		members[groups[i]] = append(members[groups[i]], int32(i))
	}
	var links []Link
	for range int(inside * float64(n)) {
		i := r.IntN(n)
		own := members[groups[i]]
		links = append(links, Link{int32(i), own[r.IntN(len(own))]})
	}
	for range int(anywhere * float64(n)) {
		links = append(links, Link{int32(r.IntN(n)), int32(r.IntN(n))})
	}
	return linked(tb, n, links), groups
}

// modularityOf computes Q of the fields from all pairs, as it is defined: (1/2m) Σ (A − γ·dd'/2m).
func modularityOf(g *Graph, links func(i, j int32) bool, resolution float64) float64 {
	n := int32(g.Len())
	degree, ends := make([]float64, n), 0.
	count := func(i, j int32) float64 {
		both := 0.
		if links(i, j) {
			both++
		}
		if links(j, i) {
			both++
		}
		return both
	}
	for i := range n {
		for j := range n {
			degree[i] += count(i, j)
		}
		ends += degree[i]
	}
	q := 0.
	for i := range n {
		for j := range n {
			if g.Field(i) == g.Field(j) {
				q += (count(i, j) - resolution*degree[i]*degree[j]/ends) / ends
			}
		}
	}
	return q
}

func TestCommunitiesAreRecovered(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 30))
		g, groups := planted(t, r, 2000, 4+3*int(seed), 9, 1)
		found, report, err := g.FieldsByLinks(t.Context(), Communities{Seed: seed})
		must(t, err)
		must(t, checkFound(g, found, report, "community"))
		if got := adjustedRand(groups, fieldsOf(found)); got < .95 {
			t.Errorf("seed %d: adjusted Rand index is %v; %+v", seed, got, report)
		}
	}
}

func TestKarateClub(t *testing.T) {
	t.Parallel()
	var links []Link
	for _, pair := range strings.Fields(karate) {
		var l Link
		_, err := fmt.Sscanf(pair, "%d-%d", &l.Source, &l.Target)
		must(t, err)
		links = append(links, Link{l.Source - 1, l.Target - 1})
	}
	g := linked(t, 34, links)
	best := 0.
	for seed := range uint64(20) {
		found, r, err := g.FieldsByLinks(t.Context(), Communities{Seed: seed})
		must(t, err)
		if q := modularityOf(found, g.HasLink, 1); math.Abs(q-r.Modularity) > 1e-12 || q < .39 {
			t.Errorf("seed %d: modularity %v, the report says %+v", seed, q, r)
		}
		best = max(best, r.Modularity)
	}
	// The best there is has 0.4198 in four communities (Brandes and others, 2008).
	if best < .4188 || best > .4198+1e-4 {
		t.Errorf("modularity is %v", best)
	}
}

// TestCommunitiesAgreeWithGonum compares the modularity with gonum's of the same communities, and the
// communities with those that gonum finds.
func TestCommunitiesAgreeWithGonum(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 31))
		g, _ := planted(t, r, 400, 8, 3, 2)
		for _, resolution := range []float64{.3, 1, 3} {
			found, report, err := g.FieldsByLinks(t.Context(), Communities{Resolution: resolution, Seed: seed})
			must(t, err)
			w, groups := gonumGraph(g), gonumGroups(found)
			if q := community.Q(w, groups, resolution); math.Abs(q-report.Modularity) > 1e-9 {
				t.Errorf("modularity is %v, gonum says %v", report.Modularity, q)
			}
			theirs := math.Inf(-1)
			for start := range uint64(3) {
				theirs = max(theirs, community.Q(w,
					community.Modularize(w, resolution, rand.NewPCG(start, 0)).Communities(), resolution))
			}
			t.Logf("resolution %v: modularity %.4f, gonum %.4f", resolution, report.Modularity, theirs)
			if report.Modularity < theirs-.01 {
				t.Errorf("modularity is %v, gonum reaches %v", report.Modularity, theirs)
			}
		}
	}
}

func TestResolution(t *testing.T) {
	t.Parallel()
	g, _ := planted(t, rand.New(rand.NewPCG(1, 32)), 600, 12, 5, 1)
	fields := 0
	for _, resolution := range []float64{.05, 1, 20} {
		_, r, err := g.FieldsByLinks(t.Context(), Communities{Resolution: resolution})
		must(t, err)
		if len(r.Sizes) <= fields {
			t.Errorf("resolution %v finds %d fields, a lower one %d", resolution, len(r.Sizes), fields)
		}
		fields = len(r.Sizes)
	}
}

func TestExtremeResolution(t *testing.T) {
	t.Parallel()
	g, _ := planted(t, rand.New(rand.NewPCG(2, 32)), 60, 3, 5, 1)
	_, r, err := g.FieldsByLinks(t.Context(), Communities{Resolution: math.SmallestNonzeroFloat64})
	must(t, err)
	if len(r.Sizes) != 2 || math.Abs(r.Modularity-1) > 1e-12 {
		t.Errorf("a resolution of almost nothing: %+v", r)
	}
	_, r, err = g.FieldsByLinks(t.Context(), Communities{Resolution: math.MaxFloat64})
	must(t, err)
	if len(r.Sizes) != 61 {
		t.Errorf("the largest resolution: %+v", r)
	}
}

// TestCommunitiesSeeOnlyTraining compares the search under a split with one in a graph that never had
// the other links.
func TestCommunitiesSeeOnlyTraining(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 33))
		g := randomGraph(t, r, 300, 1500, .9)
		s, err := g.Order().SplitByShare(DefaultShares)
		must(t, err)
		var train []Link
		for i, j := range s.Links(Train) {
			train = append(train, Link{i, j})
		}
		found, report, err := g.FieldsByLinks(t.Context(), Communities{Split: s, Seed: seed})
		must(t, err)
		must(t, checkFound(g, found, report, "community"))
		blind, unseen, err := linked(t, g.Len(), train).FieldsByLinks(t.Context(), Communities{Seed: seed})
		must(t, err)
		if !slices.Equal(found.Fields(), blind.Fields()) || report.Modularity != unseen.Modularity {
			t.Errorf("seed %d: links outside training make a difference: %+v, %+v", seed, report, unseen)
		}
		for i := range int32(g.Len()) {
			if s.Subset(i) != Train && found.Field(i) != UnknownField {
				t.Errorf("seed %d: node %q of %v has field %q", seed, g.ID(i), s.Subset(i),
					found.FieldName(found.Field(i)))
			}
		}
		if want := fmt.Sprintf("Louvain on training links, %d of them: resolution 1, seed %d", len(train),
			seed); report.Found != want {
			t.Errorf("found by %q, not %q", report.Found, want)
		}
		// A graph with vectors or other fields has the same links.
		again, same, err := found.FieldsByLinks(t.Context(), Communities{Split: s, Seed: seed})
		must(t, err)
		if !slices.Equal(again.Fields(), found.Fields()) || !reflect.DeepEqual(same, report) {
			t.Errorf("seed %d: another search found other fields", seed)
		}
	}
}

func TestSmallCommunities(t *testing.T) {
	t.Parallel()
	// A clique of five, one of four that hangs on it and on a pair, a pair apart, and a node alone.
	words := "a b c d e  p q r s  x y  v w  alone  v>w x>y x>s p>a "
	for _, clique := range []string{"abcde", "pqrs"} {
		for k, from := range clique {
			for _, to := range clique[:k] {
				words += fmt.Sprintf("%c>%c ", from, to)
			}
		}
	}
	g := sketch(t, words)
	for _, c := range []struct {
		s      Communities
		sizes  []int
		merged int
		says   string
	}{
		{Communities{}, []int{1, 5, 4, 2, 2}, 0, "Louvain on all links, 20 of them: resolution 1, seed 0"},
		{Communities{MinSize: 2}, []int{1, 5, 4, 2, 2}, 0, "below 2 nodes join unknown"},
		{Communities{MinSize: 3}, []int{5, 5, 4}, 2, "below 3 nodes join unknown"},
		{Communities{MinSize: 3, JoinSmall: true}, []int{3, 6, 5}, 2, "below 3 nodes join a neighbour"},
		{Communities{MinSize: 5, JoinSmall: true}, []int{5, 9}, 3, "below 5 nodes join a neighbour"},
	} {
		found, r, err := g.FieldsByLinks(t.Context(), c.s)
		must(t, err)
		must(t, checkFound(g, found, r, "community"))
		if !slices.Equal(r.Sizes, c.sizes) || r.Merged != c.merged || !strings.Contains(r.Found, c.says) {
			t.Errorf("%+v: %+v", c.s, r)
		}
	}
}

func TestCommunityErrors(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "it starts no goroutine")
	g := sketch(t, "a b c d b>a c>b d>c")
	s, err := g.Order().SplitByShare(Shares{Train: .25, Test: .75})
	must(t, err)
	other, err := sketch(t, "a b c d b>a c>b d>c").Order().SplitByShare(DefaultShares)
	must(t, err)
	for _, c := range []struct {
		g    *Graph
		s    Communities
		kind error
		says string
	}{
		{g, Communities{Resolution: -1}, ErrSettings, "resolution -1"},
		{g, Communities{Resolution: math.NaN()}, ErrSettings, "resolution NaN"},
		{g, Communities{Resolution: math.Inf(1)}, ErrSettings, "resolution +Inf"},
		{g, Communities{MinSize: -1}, ErrSettings, "-1 nodes"},
		{g, Communities{MinSize: 9}, ErrSettings, "none has 9 nodes, the largest has 2"},
		{g, Communities{Split: s}, ErrNoLinks, "training links"},
		{g, Communities{Split: other}, ErrShape, "another graph"},
		{unlinkedNodes(t, 3), Communities{}, ErrNoLinks, "FieldsByVectors"},
		{&Graph{}, Communities{}, ErrNoLinks, "all links"},
		{&Graph{}, Communities{Split: s}, ErrShape, "another graph"},
	} {
		_, _, err := c.g.FieldsByLinks(t.Context(), c.s)
		wantError(t, err, c.kind, c.says)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, _, err = g.FieldsByLinks(stopped, Communities{}); err != context.Canceled {
		t.Errorf("a stopped search returned %v", err)
	}

	// More pairs of nodes than there are fields.
	var links []Link
	for k := range int32(math.MaxUint16 + 1) {
		links = append(links, Link{2 * k, 2*k + 1})
	}
	_, _, err = linked(t, 2*len(links), links).FieldsByLinks(t.Context(), Communities{})
	wantError(t, err, ErrTooLarge, "65536", "MinSize")
}

func gonumGraph(g *Graph) *simple.WeightedUndirectedGraph {
	w := simple.NewWeightedUndirectedGraph(0, 0)
	for i := range int64(g.Len()) {
		w.AddNode(simple.Node(i))
	}
	for i, j := range g.Links() {
		weight := 1.
		if g.HasLink(j, i) {
			weight = 2
		}
		w.SetWeightedEdge(w.NewWeightedEdge(simple.Node(i), simple.Node(j), weight))
	}
	return w
}

// gonumGroups lists the nodes of each field; nodes without a link have no say in the modularity.
func gonumGroups(g *Graph) [][]gonum.Node {
	groups := make([][]gonum.Node, g.FieldCount())
	for i, f := range g.Fields() {
		groups[f] = append(groups[f], simple.Node(i))
	}
	return groups
}
