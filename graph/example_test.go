package graph_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"time"

	"unseen/graph"
)

// papers are six papers of two fields, one a year; the newest is last.
func papers() *graph.Graph {
	var b graph.Builder
	for k, node := range []graph.Node{
		{ID: "newton", Field: "physics"},
		{ID: "darwin", Field: "biology"},
		{ID: "bohr", Field: "physics"},
		{ID: "fisher", Field: "biology"},
		{ID: "watson", Field: "biology"},
		{ID: "higgs", Field: "physics"},
	} {
		node.Time = time.Date(2001+k, 1, 1, 0, 0, 0, 0, time.UTC)
		if _, err := b.AddNode(node); err != nil {
			log.Fatal(err)
		}
	}
	sources := []string{"bohr", "fisher", "watson", "watson", "higgs", "higgs"}
	targets := []string{"newton", "darwin", "darwin", "bohr", "bohr", "newton"}
	if err := b.AddLinks(sources, targets); err != nil {
		log.Fatal(err)
	}
	g, _, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	return g
}

func ExampleBuilder() {
	b := graph.Builder{DropUnknown: true}
	b.AddNode(graph.Node{ID: "old", Field: "physics", Title: "On motion"})
	b.AddNode(graph.Node{ID: "new", Field: "biology"})
	b.AddLink("new", "old")
	b.AddLink("new", "old")
	b.AddLink("new", "lost")
	fmt.Println(b.AddLink("old", "old"))
	g, report, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d nodes, %d link, %d repeated, %d unknown\n", g.Len(), g.LinkCount(), report.Repeated,
		report.UnknownLinks)
	// Output:
	// link number 4: node "old" has a link to itself; remove it or set DropSelfLinks
	// 2 nodes, 1 link, 1 repeated, 1 unknown
}

func ExampleGraph() {
	g := papers()
	i, known := g.Index("watson")
	fmt.Println(i, known, g.FieldName(g.Field(i)))
	for _, j := range g.Out(i) {
		when, _ := g.Time(j)
		fmt.Println(g.ID(i), "links to", g.ID(j), "of", when.Year())
	}
	// Output:
	// 4 true biology
	// watson links to darwin of 2002
	// watson links to bohr of 2003
}

func ExampleGraph_Order() {
	var b graph.Builder
	for _, id := range []string{"app", "library", "compiler"} {
		b.AddNode(graph.Node{ID: id})
	}
	b.AddLink("app", "library")
	b.AddLink("library", "compiler")
	b.AddLink("compiler", "library") // a cycle
	g, _, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	o := g.Order()
	for rank, i := range o.Sequence {
		fmt.Println(rank, g.ID(i))
	}
	for _, l := range o.Broken {
		fmt.Println("broken:", g.ID(l.Source), "→", g.ID(l.Target))
	}
	// Output:
	// 0 compiler
	// 1 library
	// 2 app
	// broken: compiler → library
}

func ExampleOrder_SplitByShare() {
	g := papers()
	s, err := g.Order().SplitByShare(graph.Shares{Train: .5, Validation: .2, Test: .3})
	if err != nil {
		log.Fatal(err)
	}
	for p := graph.Train; p <= graph.Test; p++ {
		fmt.Print(p, ":")
		for i, j := range s.Links(p) {
			fmt.Print(" ", g.ID(i), "→", g.ID(j))
		}
		fmt.Println()
	}
	// Output:
	// train: bohr→newton
	// validation: fisher→darwin
	// test: watson→darwin watson→bohr higgs→newton higgs→bohr
}

func ExampleOrder_SplitByDate() {
	g := papers()
	s, err := g.Order().SplitByDate(
		time.Date(2004, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2005, 1, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("nodes", s.Report.Nodes, "links", s.Report.Links, "dropped", s.Report.Dropped)
	// Output: nodes [3 1 2] links [1 1 4] dropped 0
}

func ExampleGraph_Subgraph() {
	g := papers()
	root, _ := g.Index("watson")
	sub, old, err := g.Subgraph(root, 4, graph.BothWays)
	if err != nil {
		log.Fatal(err)
	}
	for k, i := range old {
		fmt.Print(sub.ID(int32(k)), " was ", i, "; ")
	}
	fmt.Println(sub.LinkCount(), "links")
	// Output: darwin was 1; bohr was 2; fisher was 3; watson was 4; 3 links
}

func ExampleGraph_Induced() {
	g := papers()
	sub, err := g.Induced([]int32{5, 2, 0})
	if err != nil {
		log.Fatal(err)
	}
	for i, j := range sub.Links() {
		fmt.Println(sub.ID(i), "→", sub.ID(j))
	}
	// Output:
	// higgs → bohr
	// higgs → newton
	// bohr → newton
}

func ExampleUniverse() {
	g := papers()
	all, links, _ := graph.Universe{}.Count(g)
	fmt.Println(all, "pairs,", links, "linked")
	older, links, _ := graph.Universe{Before: g.Order()}.Count(g)
	fmt.Println(older, "pairs with an older target,", links, "linked")
	// Output:
	// 30 pairs, 6 linked
	// 15 pairs with an older target, 6 linked
}

func ExampleSample() {
	p, report, err := graph.Sample(papers(), graph.Universe{}, graph.SampleOptions{PerLink: 2, Src: rand.NewPCG(1, 0)})
	if err != nil {
		log.Fatal(err)
	}
	sum := 0.
	for _, w := range p.Weight {
		sum += w
	}
	fmt.Printf("%d links and %d unlinked pairs, which stand for %v each\n", report.Links, report.Negatives,
		report.MaxWeight)
	fmt.Printf("weights sum to %v, the universe has %d pairs\n", sum, p.Universe)
	// Output:
	// 6 links and 12 unlinked pairs, which stand for 2 each
	// weights sum to 30, the universe has 30 pairs
}

func ExampleSample_fieldStratified() {
	g := papers()
	p, report, err := graph.Sample(g, graph.Universe{}, graph.SampleOptions{Scheme: graph.FieldStratified, PerLink: 1,
		Src: rand.NewPCG(1, 0)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Strata, "pairs of fields")
	for k := range p.Len() {
		if g.ID(p.Source[k]) == "higgs" && p.Linked[k] {
			fmt.Printf("higgs → %s: an unlinked pair like it is taken with probability %.2f\n", g.ID(p.Target[k]),
				p.Rate[k])
		}
	}
	// Output:
	// 4 pairs of fields
	// higgs → newton: an unlinked pair like it is taken with probability 0.67
	// higgs → bohr: an unlinked pair like it is taken with probability 0.67
}

func ExampleSample_popularityMatched() {
	g := papers()
	p, _, err := graph.Sample(g, graph.Universe{}, graph.SampleOptions{Scheme: graph.PopularityMatched, PerLink: 2,
		Src: rand.NewPCG(1, 0)})
	if err != nil {
		log.Fatal(err)
	}
	rates := map[string]float64{}
	for k := range p.Len() {
		rates[g.ID(p.Target[k])] = p.Rate[k]
	}
	fmt.Printf("bohr, linked twice: %.2f; watson, never linked: %.2f\n", rates["bohr"], rates["watson"])
	// Output: bohr, linked twice: 1.00; watson, never linked: 0.20
}

func ExampleAllPairs() {
	g := papers()
	p, err := graph.AllPairs(g, graph.Universe{}, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Len(), "pairs")
	_, err = graph.AllPairs(g, graph.Universe{}, 20)
	fmt.Println(errors.Is(err, graph.ErrTooManyPairs))
	// Output:
	// 30 pairs
	// true
}

func ExamplePairs_Groups() {
	g := papers()
	p, err := graph.AllPairs(g, graph.Universe{Before: g.Order()}, 0)
	if err != nil {
		log.Fatal(err)
	}
	for group := range p.Groups() {
		linked := 0
		for _, yes := range p.Linked[group.Start:group.End] {
			if yes {
				linked++
			}
		}
		fmt.Println(g.ID(group.Source), "links to", linked, "of", group.End-group.Start)
	}
	// Output:
	// darwin links to 0 of 1
	// bohr links to 1 of 2
	// fisher links to 1 of 3
	// watson links to 2 of 4
	// higgs links to 2 of 5
}

func ExamplePairs_GroupBySource() {
	p, err := graph.AllPairs(papers(), graph.Universe{}, 0)
	if err != nil {
		log.Fatal(err)
	}
	if err := p.Shuffle(rand.NewPCG(1, 0)); err != nil {
		log.Fatal(err)
	}
	if err := p.GroupBySource(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Source[:6])
	// Output: [0 0 0 0 0 1]
}

func ExampleVectors() {
	g := papers()
	v, err := graph.NewVectors(g.Len(), 2)
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close()
	for i := range int32(g.Len()) {
		if err := v.Set(i, []float32{1, float32(i)}); err != nil {
			log.Fatal(err)
		}
	}
	if g, err = g.WithVectors(v); err != nil {
		log.Fatal(err)
	}
	row := make([]float32, v.Dim())
	g.Vectors().Load(row, 3)
	fmt.Println(g.ID(3), row)
	// Output: fisher [1 3]
}

func ExampleVectors_Check() {
	g := papers()
	v, err := graph.NewVectors(g.Len(), 2)
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close()
	v.Set(0, []float32{1, 0})
	report, err := v.Check(g)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Zero, "nodes have no vector yet, the first is", report.ZeroIDs[0])
	// Output: 5 nodes have no vector yet, the first is darwin
}

func ExampleGraph_FieldsByVectors() {
	g := papers()
	v, err := graph.NewVectors(g.Len(), 2)
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close()
	// Three texts are about matter, two about life, and higgs has none.
	for i, vector := range [][]float32{{1, 0}, {0, 1}, {.9, .1}, {.1, .8}, {.8, .1}, {0, 0}} {
		if err := v.Set(int32(i), vector); err != nil {
			log.Fatal(err)
		}
	}
	if g, err = g.WithVectors(v); err != nil {
		log.Fatal(err)
	}
	found, report, err := g.FieldsByVectors(context.Background(), graph.Clustering{Fields: 2, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	for i := range int32(found.Len()) {
		fmt.Println(found.ID(i), "is in", found.FieldName(found.Field(i)))
	}
	fmt.Println(report.Found)
	fmt.Printf("they explain %.0f%% of the variance\n", 100*report.Explained)
	// Output:
	// newton is in cluster 1
	// darwin is in cluster 2
	// bohr is in cluster 1
	// fisher is in cluster 2
	// watson is in cluster 1
	// higgs is in unknown
	// k-means on vectors: 2 fields, seed 1, at most 100 rounds
	// they explain 97% of the variance
}

func ExampleGraph_FieldsByLinks() {
	g := papers()
	found, report, err := g.FieldsByLinks(context.Background(), graph.Communities{Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	for i := range int32(found.Len()) {
		fmt.Println(found.ID(i), "is in", found.FieldName(found.Field(i)))
	}
	fmt.Println(report.Found)
	fmt.Printf("modularity %.2f\n", report.Modularity)
	// Output:
	// newton is in community 1
	// darwin is in community 2
	// bohr is in community 1
	// fisher is in community 2
	// watson is in community 2
	// higgs is in community 1
	// Louvain on all links, 6 of them: resolution 1, seed 1
	// modularity 0.32
}

func ExampleParseNegativeScheme() {
	s, err := graph.ParseNegativeScheme("popularity")
	fmt.Println(s, err)
	// Output: popularity <nil>
}

func ExampleNodeColumns() {
	var b graph.Builder
	optics, _ := b.AddField("optics")
	var c graph.NodeColumns
	c.AddIDs([]string{"a", "b"})
	c.AddFields([]uint16{optics, graph.UnknownField})
	c.AddTimes([]int64{0, graph.NoTime})
	if err := b.AddColumns(&c); err != nil {
		fmt.Println(err)
		return
	}
	g, _, _ := b.Build()
	for i := range int32(g.Len()) {
		_, known := g.Time(i)
		fmt.Println(g.ID(i), g.FieldName(g.Field(i)), known)
	}
	// Output:
	// a optics true
	// b unknown false
}
