package graph

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// reader takes small numbers from fuzzed bytes; it returns zeros once they are used up.
type reader struct{ bytes []byte }

func (r *reader) next() int {
	if len(r.bytes) == 0 {
		return 0
	}
	b := r.bytes[0]
	r.bytes = r.bytes[1:]
	return int(b)
}

// FuzzBuilder drives a Builder with arbitrary calls: it must never panic, refuse only with the errors
// it documents, and build a graph that agrees with what it accepted.
func FuzzBuilder(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 2, 3, 1, 2, 2, 1})
	f.Add([]byte{3, 0, 1, 0, 1, 0, 2, 0, 0, 3, 1, 1, 9})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &reader{data}
		options := r.next()
		b := Builder{DropSelfLinks: options&1 != 0, DropUnknown: options&2 != 0}
		links := map[Link]bool{}
		nodes := map[string]int32{}
		given := func(i, j int32, known bool) {
			if known && i != j {
				links[Link{i, j}] = true
			}
		}
		byID := func(source, target string) {
			i, known := nodes[source]
			j, too := nodes[target]
			given(i, j, known && too)
		}
		id := func(n int) string { return fmt.Sprint(n % 24)[:min(n%3, 1)] }
		for len(r.bytes) > 0 {
			var err error
			switch op, x, y := r.next(), r.next(), r.next(); op % 4 {
			case 0:
				n := Node{ID: id(x), Field: id(y), Title: id(x + y)}
				if y&1 != 0 {
					n.Time = time.Unix(int64(y-128)*1e9, 0)
				}
				var i int32
				if i, err = b.AddNode(n); err == nil {
					nodes[n.ID] = i
				}
			case 1:
				if err = b.AddLink(id(x), id(y)); err == nil {
					byID(id(x), id(y))
				}
			case 2:
				if err = b.AddLinkIndex(int32(x)-8, int32(y)-8); err == nil {
					given(int32(x)-8, int32(y)-8, min(x, y) >= 8 && max(x, y)-8 < len(nodes))
				}
			case 3:
				// Both links are accepted or neither: they have the same two ends.
				err = b.AddLinks([]string{id(x), id(y)}, []string{id(y), id(x)})
				byID(id(x), id(y))
				byID(id(y), id(x))
			}
			if err != nil && !errors.Is(err, ErrDuplicateNode) && !errors.Is(err, ErrEmptyID) &&
				!errors.Is(err, ErrSelfLink) && !errors.Is(err, ErrUnknownNode) {
				t.Fatal(err)
			}
		}
		g, report, err := b.Build()
		must(t, err)
		for l := range links {
			if !g.HasLink(l.Source, l.Target) {
				t.Fatalf("link %v is gone", l)
			}
		}
		if g.LinkCount() != len(links) || g.Len() != len(nodes) || report.Nodes != len(nodes) ||
			report.Links != len(links) {
			t.Fatalf("%d nodes and %d links, want %d and %d", g.Len(), g.LinkCount(), len(nodes), len(links))
		}
		checkRows(t, g)
		for id, i := range nodes {
			if at, known := g.Index(id); !known || at != i || g.ID(i) != id {
				t.Fatalf("node %q is %d, %t, not %d", id, at, known, i)
			}
		}
	})
}

// FuzzOrderAndSplit makes a graph of arbitrary links and times and checks what an order and its splits
// promise, then samples each subset.
func FuzzOrderAndSplit(f *testing.F) {
	f.Add([]byte{10, 1, 2, 3, 4, 5, 0, 1, 1, 2, 2, 0})
	f.Add([]byte{24, 0, 9, 0, 9, 1, 2, 3, 3, 2, 9, 9})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &reader{data}
		n := 1 + r.next()%40
		b := Builder{DropSelfLinks: true}
		for i := range n {
			node := Node{ID: fmt.Sprint(i)}
			if when := r.next(); when%3 != 0 {
				node.Time = time.Unix(int64(when%7), 0)
			}
			_, err := b.AddNode(node)
			must(t, err)
		}
		for len(r.bytes) > 0 {
			must(t, b.AddLinkIndex(int32(r.next()%n), int32(r.next()%n)))
		}
		g, _, err := b.Build()
		must(t, err)
		o := g.Order()
		must(t, checkOrder(g, o))
		byShare, err := o.SplitByShare(Shares{Train: .5, Validation: .25, Test: .25})
		if err != nil && !errors.Is(err, ErrEmptySubset) {
			t.Fatal(err)
		}
		byDate, err := o.SplitByDate(time.Unix(2, 0), time.Unix(4, 0))
		if err != nil && !errors.Is(err, ErrEmptySubset) && !errors.Is(err, ErrDates) {
			t.Fatal(err)
		}
		for _, s := range []*Split{byShare, byDate} {
			if s == nil {
				continue
			}
			must(t, checkSplit(g, s))
			for p := Train; p <= Test; p++ {
				u := s.Universe(p)
				for _, u.Before = range []*Order{nil, o} {
					for scheme := range schemes {
						o := SampleOptions{Scheme: scheme, Src: rand.NewPCG(uint64(len(data)), 1)}
						sample, _, err := Sample(g, u, o)
						if errors.Is(err, ErrNoLinks) || errors.Is(err, ErrEmptyUniverse) {
							continue
						}
						must(t, err)
						must(t, sample.Validate(g))
						checkDistinct(t, sample)
					}
				}
			}
		}
	})
}

// FuzzFields finds fields in arbitrary links and vectors, with repeats and zeros among them: it must end,
// refuse only with the errors it documents, and report what can be computed from its fields.
func FuzzFields(f *testing.F) {
	f.Add([]byte{9, 2, 3, 1, 0, 0, 1, 1, 2, 1, 1, 2, 2, 0, 3, 4, 4, 5})
	f.Add([]byte{30, 1, 9, 0, 2, 3, 200, 7, 7, 0, 0, 255, 1, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &reader{data}
		n, dim, k, seed := 1+r.next()%40, 1+r.next()%5, 1+r.next()%12, uint64(r.next())
		s := Communities{Resolution: float64(1+r.next()%40) / 10, MinSize: r.next() % 4, JoinSmall: r.next()%2 == 0,
			Seed: seed}
		half, scale := r.next()%2 == 0, float32(math.Pow(10, float64(r.next()%9-4)))
		vectors := make([]float32, n*dim)
		for x := range vectors {
			vectors[x] = float32(r.next()%4) * scale
		}
		var links []Link
		for len(r.bytes) > 0 {
			links = append(links, Link{int32(r.next() % n), int32(r.next() % n)})
		}
		g := withVectors(t, linked(t, n, links), dim, half, func(i int) []float32 { return vectors[i*dim:][:dim] })

		found, report, err := g.FieldsByVectors(t.Context(), Clustering{Fields: k, Seed: seed, Threads: 1 +
			int(seed%3)})
		if err != nil {
			if !errors.Is(err, ErrSettings) {
				t.Fatal(err)
			}
		} else {
			must(t, checkFound(g, found, report, "cluster"))
			must(t, checkNearest(found, report))
			if found.FieldCount() != k+1 {
				t.Fatalf("%d fields, not %d", found.FieldCount()-1, k)
			}
		}

		found, report, err = g.FieldsByLinks(t.Context(), s)
		if err != nil {
			if !errors.Is(err, ErrSettings) && !errors.Is(err, ErrNoLinks) {
				t.Fatal(err)
			}
			return
		}
		must(t, checkFound(g, found, report, "community"))
		if q := modularityOf(found, g.HasLink, s.Resolution); report.Merged == 0 &&
			math.Abs(q-report.Modularity) > 1e-9 {
			t.Fatalf("modularity is %v, not %v", q, report.Modularity)
		}
		for i := range int32(n) {
			if alone := len(g.Out(i))+len(g.In(i)) == 0; alone && found.Field(i) != UnknownField {
				t.Fatalf("node %d has no link but a field", i)
			}
		}
	})
}
