package graph

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"unseen/internal/racetest"
)

func TestBuild(t *testing.T) {
	t.Parallel()
	var b Builder
	when := time.Date(2021, 3, 4, 5, 6, 7, 999, time.FixedZone("", 3600))
	nodes := []Node{
		{ID: "00003", Field: "Neuroscience"},
		{ID: "b", Title: "On β", Time: when},
		{ID: "c", Field: "Ecology", Time: time.Date(-300, 1, 1, 0, 0, 0, 0, time.UTC)},
		{ID: "d", Field: "unknown", Title: "D"},
		{ID: "e", Field: "Neuroscience"},
	}
	for k, n := range nodes {
		i, err := b.AddNode(n)
		if must(t, err); int(i) != k {
			t.Fatalf("node %d has index %d", k, i)
		}
	}
	for _, l := range []string{"b 00003", "d c", "d 00003", "b 00003", "00003 d", "d b", "b 00003"} {
		source, target, _ := strings.Cut(l, " ")
		must(t, b.AddLink(source, target))
	}
	g, report, err := b.Build()
	must(t, err)
	want := BuildReport{Nodes: 5, Links: 5, Fields: 2, Repeated: 2, Isolated: 1, Untimed: 3, Fieldless: 2}
	if report != want {
		t.Errorf("report is\n%+v, want\n%+v", report, want)
	}
	if got := ids(g, g.Out(3)); got != "00003 b c" {
		t.Errorf("d links to %s", got)
	}
	if got := ids(g, g.In(0)); got != "b d" {
		t.Errorf("%s link to 00003", got)
	}
	if !g.HasLink(0, 3) || g.HasLink(3, 4) || g.HasLink(2, 3) {
		t.Error("HasLink contradicts the links")
	}
	for k, n := range nodes {
		i := int32(k)
		if at, known := g.Index(n.ID); !known || at != i {
			t.Errorf("Index(%q) = %d, %t", n.ID, at, known)
		}
		at, known := g.Time(i)
		if g.ID(i) != n.ID || g.Title(i) != n.Title || known == n.Time.IsZero() || known &&
			!at.Equal(n.Time.Truncate(time.Second)) {
			t.Errorf("node %d is %q, %q, %v, %t, want %+v", i, g.ID(i), g.Title(i), at, known, n)
		}
		if name := g.FieldName(g.Field(i)); name != n.Field && n.Field != "" {
			t.Errorf("field of node %d is %q", i, name)
		}
	}
	if g.Field(1) != UnknownField || g.Field(3) != UnknownField || g.FieldCount() != 3 || g.FieldName(0) != "unknown" {
		t.Error("unknown fields are not field 0")
	}
	if _, known := g.Index("nobody"); known {
		t.Error("found a node that is not there")
	}
}

func TestBuildNothing(t *testing.T) {
	t.Parallel()
	var b Builder
	g, report, err := b.Build()
	must(t, err)
	if g.Len() != 0 || g.LinkCount() != 0 || g.FieldCount() != 1 || report != (BuildReport{}) {
		t.Errorf("the empty graph has %d nodes, %d links; %+v", g.Len(), g.LinkCount(), report)
	}
	if _, known := g.Index("a"); known {
		t.Error("found a node in the empty graph")
	}
	if o := g.Order(); len(o.Sequence) != 0 {
		t.Error("the empty graph has an order")
	}
}

func TestBuilderErrors(t *testing.T) {
	t.Parallel()
	var b Builder
	for _, id := range []string{"a", "b"} {
		_, err := b.AddNode(Node{ID: id})
		must(t, err)
	}
	must(t, b.AddLink("a", "b"))
	_, err := b.AddNode(Node{ID: "a"})
	wantError(t, err, ErrDuplicateNode, `"a"`, "merge")
	_, err = b.AddNode(Node{})
	wantError(t, err, ErrEmptyID, "number 3")
	wantError(t, b.AddLink("a", "a"), ErrSelfLink, `"a"`, "number 2", "DropSelfLinks")
	wantError(t, b.AddLink("a", "x"), ErrUnknownNode, `target "x"`, "number 2", "DropUnknown")
	wantError(t, b.AddLink("y", "a"), ErrUnknownNode, `source "y"`)
	wantError(t, b.AddLinkIndex(0, 2), ErrUnknownNode, "target 2")
	wantError(t, b.AddLinkIndex(-1, 0), ErrUnknownNode, "source -1")
	wantError(t, b.AddLinks([]string{"b", "z"}, []string{"a", "a"}), ErrUnknownNode, `source "z"`, "number 3")
	wantError(t, b.AddLinks([]string{"b"}, nil), ErrShape)

	b.DropSelfLinks, b.DropUnknown = true, true
	must(t, b.AddLinks([]string{"a", "a", "y", "b"}, []string{"a", "x", "a", "a"}))
	must(t, b.AddLinkIndex(7, 7))
	g, report, err := b.Build()
	must(t, err)
	if g.LinkCount() != 2 || report.SelfLinks != 1 || report.UnknownLinks != 3 || report.Repeated != 1 {
		t.Errorf("%d links, %+v", g.LinkCount(), report)
	}

	_, _, err = b.Build()
	wantError(t, err, ErrBuilt, "new Builder")
	_, err = b.AddNode(Node{ID: "c"})
	wantError(t, err, ErrBuilt, `"c"`)
	b.DropUnknown = true
	wantError(t, b.AddLink("a", "b"), ErrBuilt)
	wantError(t, b.AddLinks([]string{"a"}, []string{"b"}), ErrBuilt)
	wantError(t, b.AddLinkIndex(0, 1), ErrBuilt)
}

func TestAddField(t *testing.T) {
	t.Parallel()
	var b Builder
	for k, name := range []string{"later", "nobody's", "later", "unknown", ""} {
		f, err := b.AddField(name)
		if must(t, err); int(f) != []int{1, 2, 1, 0, 0}[k] {
			t.Errorf("field %q has index %d", name, f)
		}
	}
	for _, field := range []string{"first", "later", ""} {
		_, err := b.AddNode(Node{ID: "of " + field, Field: field})
		must(t, err)
	}
	g, report, err := b.Build()
	must(t, err)
	if !slices.Equal(g.Fields(), []uint16{3, 1, 0}) || g.FieldCount() != 4 || g.FieldName(2) != "nobody's" ||
		report.Fields != 3 {
		t.Errorf("fields %v of %d, %+v", g.Fields(), g.FieldCount(), report)
	}
	_, err = b.AddField("late")
	wantError(t, err, ErrBuilt, `"late"`)
}

func TestTooManyFields(t *testing.T) {
	t.Parallel()
	var b Builder
	for i := range 65535 {
		_, err := b.AddNode(Node{ID: strconv.Itoa(i), Field: strconv.Itoa(i)})
		must(t, err)
	}
	_, err := b.AddNode(Node{ID: "last", Field: "straw"})
	wantError(t, err, ErrTooLarge, `"last"`, `"straw"`, "65535")
	_, err = b.AddField("straw")
	wantError(t, err, ErrTooLarge, `"straw"`, "65535")
	i, err := b.AddNode(Node{ID: "last", Field: "7"})
	must(t, err)
	g, report, err := b.Build()
	must(t, err)
	if report.Fields != 65535 || g.FieldName(65535) != "65534" || g.FieldName(g.Field(i)) != "7" {
		t.Errorf("%d fields, the last is %q", report.Fields, g.FieldName(65535))
	}
	o := SampleOptions{Scheme: FieldStratified, Src: rand.NewPCG(1, 1)}
	_, _, err = Sample(sketchWithFields(t, 5000), Universe{}, o)
	wantError(t, err, ErrTooLarge, "4096")
}

// sketchWithFields has one node per field and a link.
func sketchWithFields(t *testing.T, n int) *Graph {
	var b Builder
	for i := range n {
		_, err := b.AddNode(Node{ID: strconv.Itoa(i), Field: strconv.Itoa(i)})
		must(t, err)
	}
	must(t, b.AddLinkIndex(1, 0))
	g, _, err := b.Build()
	must(t, err)
	return g
}

// TestLinksAgainstASet builds random graphs by every way to add a link and compares them with a set.
func TestLinksAgainstASet(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 1 + r.IntN(60)
		b := Builder{DropSelfLinks: true, DropUnknown: true}
		for i := range n {
			if r.IntN(20) == 0 {
				b.Grow(r.IntN(100) - 20)
			}
			_, err := b.AddNode(Node{ID: fmt.Sprint("id", i)})
			must(t, err)
		}
		set := map[Link]int{}
		selves, unknown := 0, 0
		var sources, targets []string
		for range r.IntN(4000) {
			l := Link{int32(r.IntN(n + 1)), int32(r.IntN(n + 1))} // node n is unknown
			source, target := fmt.Sprint("id", l.Source), fmt.Sprint("id", l.Target)
			switch r.IntN(3) {
			case 0:
				must(t, b.AddLink(source, target))
			case 1:
				must(t, b.AddLinkIndex(l.Source, l.Target))
			default:
				sources, targets = append(sources, source), append(targets, target)
			}
			switch {
			case int(l.Source) == n || int(l.Target) == n:
				unknown++
			case l.Source == l.Target:
				selves++
			default:
				set[l]++
			}
		}
		must(t, b.AddLinks(sources, targets))
		g, report, err := b.Build()
		must(t, err)
		repeated := 0
		for _, times := range set {
			repeated += times - 1
		}
		if g.LinkCount() != len(set) || report.Repeated != repeated || report.SelfLinks != selves ||
			report.UnknownLinks != unknown {
			t.Fatalf("seed %d: %d links, want %d; %+v", seed, g.LinkCount(), len(set), report)
		}
		checkRows(t, g)
		for i, j := range g.Links() {
			if set[Link{i, j}] == 0 {
				t.Fatalf("seed %d: link %d>%d was not given", seed, i, j)
			}
		}
	}
}

// TestSortedLinks adds links in order, which takes a shorter way, and shuffled: the graph is the same.
func TestSortedLinks(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "it starts no goroutine")
	const n = 3000
	r := rand.New(rand.NewPCG(9, 9))
	var links []Link
	for i := range int32(n) {
		for j := range int32(n) {
			if i != j && r.IntN(100) == 0 {
				links = append(links, Link{i, j})
			}
		}
	}
	if len(links) <= linksPerChunk || !ascending([][]Link{links}) {
		t.Fatalf("%d links", len(links))
	}
	sorted := linked(t, n, links)
	r.Shuffle(len(links), func(a, b int) { links[a], links[b] = links[b], links[a] })
	shuffled := linked(t, n, links)
	for i := range int32(n) {
		if !slices.Equal(sorted.Out(i), shuffled.Out(i)) || !slices.Equal(sorted.In(i), shuffled.In(i)) {
			t.Fatalf("node %d has links %v and %v in one, %v and %v in the other", i, sorted.Out(i), sorted.In(i),
				shuffled.Out(i), shuffled.In(i))
		}
	}
	checkRows(t, sorted)
	for _, chunks := range [][][]Link{{{{1, 2}, {1, 2}}}, {{{1, 2}}, {{1, 1}}}, {{{2, 1}}, {{1, 2}}}} {
		if ascending(chunks) {
			t.Errorf("%v counts as ascending", chunks)
		}
	}
}

// checkRows verifies that rows are strictly ascending, that both directions agree, and that no node
// links to itself.
func checkRows(tb testing.TB, g *Graph) {
	tb.Helper()
	in := 0
	for i := range int32(g.Len()) {
		for _, row := range [][]int32{g.Out(i), g.In(i)} {
			if !slices.IsSorted(row) || len(slices.Compact(slices.Clone(row))) != len(row) || slices.Contains(row, i) {
				tb.Fatalf("row of node %d is %v", i, row)
			}
		}
		for _, j := range g.Out(i) {
			if !slices.Contains(g.In(j), i) || !g.HasLink(i, j) {
				tb.Fatalf("link %d>%d is missing in the other direction", i, j)
			}
		}
		in += len(g.In(i))
	}
	if in != g.LinkCount() {
		tb.Fatalf("%d links in, %d out", in, g.LinkCount())
	}
}
