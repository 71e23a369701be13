package graph

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"time"

	"unseen/internal/racetest"
)

// The size that must fit: a citation graph of 2.4 million papers and 7.6 million links.
const (
	largeNodes = 2_400_000
	largeLinks = 7_600_000

	// largeHeap is what the large graph may take beyond the text of its ids and its vectors.
	largeHeap = 300e6
)

// TestBuildStaysWithinItsBytesPerLink builds a twentieth of the large graph, by id, with a field and a
// time per node, and holds it to the same bytes per link. It is not parallel, because it measures the heap.
func TestBuildStaysWithinItsBytesPerLink(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	const share = 20
	before := heap()
	l := newLarge(t, largeNodes/share, largeLinks/share, true)
	grown := heap() - before - float64(l.text)
	perLink := grown / (largeLinks / share)
	t.Logf("%.1f bytes per link beyond the text of the ids", perLink)
	if limit := largeHeap / largeLinks; perLink > limit {
		t.Errorf("%.1f bytes per link, more than %.1f", perLink, limit)
	}
	runtime.KeepAlive(l)
}

// BenchmarkLarge reports seconds and megabytes for the large graph: built by index and by id, ordered,
// split, and sampled with four negatives per link under each scheme.
func BenchmarkLarge(b *testing.B) {
	for _, byID := range []bool{false, true} {
		name := map[bool]string{false: "BuildByIndex", true: "BuildByID"}[byID]
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				before, peak := heap(), watchPeak()
				l := newLarge(b, largeNodes, largeLinks, byID)
				most := peak()
				b.ReportMetric((heap()-before-float64(l.text))/1e6, "MB-beyond-ids")
				b.ReportMetric((most-before)/1e6, "MB-peak")
				b.ReportMetric(l.nodes.Seconds(), "s-nodes")
				b.ReportMetric(l.links.Seconds(), "s-links")
				b.ReportMetric(l.build.Seconds(), "s-build")
				runtime.KeepAlive(l)
			}
		})
	}
	g := newLarge(b, largeNodes, largeLinks, false).Graph
	o := g.Order()
	s, err := o.SplitByShare(DefaultShares)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("Order", func(b *testing.B) {
		for b.Loop() {
			g.Order()
		}
	})
	b.Run("Split", func(b *testing.B) {
		for b.Loop() {
			o.SplitByShare(DefaultShares)
		}
	})
	for scheme := range schemes {
		for _, u := range []Universe{{}, {Before: o}, s.Universe(Test)} {
			b.Run(fmt.Sprintf("Sample/%v/before=%t/sources=%d", scheme, u.Before != nil, len(u.Sources)),
				func(b *testing.B) {
					for b.Loop() {
						p, _, err := Sample(g, u, SampleOptions{Scheme: scheme, Src: rand.NewPCG(1, 2)})
						if err != nil {
							b.Fatal(err)
						}
						b.ReportMetric(float64(p.Len())/1e6, "Mpairs")
					}
				})
		}
	}
}

// BenchmarkFields reports seconds for finding fields: 19 in vectors of 256 dimensions, well apart and hardly
// so, on one thread; and communities of planted links.
func BenchmarkFields(b *testing.B) {
	for _, n := range []int{20_000, 217_000} {
		for _, noise := range []float64{1, 3, 10} {
			g, _ := withCloud(b, rand.New(rand.NewPCG(1, 2)), cloud{nodes: n, dim: 256, k: 19, noise: noise})
			b.Run(fmt.Sprintf("ByVectors/nodes=%d/noise=%v", n, noise), func(b *testing.B) {
				for b.Loop() {
					_, r, err := g.FieldsByVectors(b.Context(), Clustering{Fields: 19, Threads: 1})
					must(b, err)
					b.ReportMetric(float64(r.Rounds), "rounds")
					b.ReportMetric(r.Explained, "explained")
				}
			})
			must(b, g.Vectors().Close())
		}
	}
	for _, c := range []struct {
		nodes, groups    int
		inside, anywhere float64
	}{{200_000, 2000, 3, 1}, {largeNodes, 2000, 2.5, .7}} {
		g, _ := planted(b, rand.New(rand.NewPCG(3, 4)), c.nodes, c.groups, c.inside, c.anywhere)
		b.Run(fmt.Sprintf("ByLinks/nodes=%d/links=%d", c.nodes, g.LinkCount()), func(b *testing.B) {
			for b.Loop() {
				_, r, err := g.FieldsByLinks(b.Context(), Communities{})
				must(b, err)
				b.ReportMetric(float64(r.Rounds), "rounds")
				b.ReportMetric(r.Modularity, "modularity")
			}
		})
	}
}

// large is a graph whose links prefer old targets, and what it took to build it.
type large struct {
	*Graph
	text                int // bytes of the ids
	nodes, links, build time.Duration
}

// newLarge adds links in a random order, the worst for lookups. The clock stands still while it makes
// up ids.
func newLarge(tb testing.TB, nodes, links int, byID bool) large {
	tb.Helper()
	r := rand.New(rand.NewPCG(24, 76))
	id := func(i int32) string { return "W" + strconv.Itoa(2_000_000_000+int(i)) }
	epoch := time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
	var l large
	var b Builder
	clock := func(total *time.Duration, f func() error) {
		began := time.Now()
		err := f()
		*total += time.Since(began)
		if err != nil {
			tb.Fatal(err)
		}
	}
	const batch = 50_000
	made := make([]Node, 0, batch)
	for first := 0; first < nodes; first += batch {
		made = made[:0]
		for i := first; i < min(nodes, first+batch); i++ {
			made = append(made, Node{ID: id(int32(i)), Field: "field " + strconv.Itoa(i%19),
				Time: epoch.AddDate(0, 0, i*12000/nodes)})
			l.text += len(made[len(made)-1].ID)
		}
		clock(&l.nodes, func() (err error) {
			for _, n := range made {
				if _, err = b.AddNode(n); err != nil {
					break
				}
			}
			return err
		})
	}
	var batchLinks []Link
	var sources, targets []string
	for first := 0; first < links; first += batch {
		batchLinks, sources, targets = batchLinks[:0], sources[:0], targets[:0]
		for range min(batch, links-first) {
			source := 1 + r.IntN(nodes-1)
			u := r.Float64()
			batchLinks = append(batchLinks, Link{int32(source), int32(u * u * float64(source))})
			if last := batchLinks[len(batchLinks)-1]; byID {
				sources, targets = append(sources, id(last.Source)), append(targets, id(last.Target))
			}
		}
		clock(&l.links, func() (err error) {
			if byID {
				return b.AddLinks(sources, targets)
			}
			for _, l := range batchLinks {
				if err = b.AddLinkIndex(l.Source, l.Target); err != nil {
					break
				}
			}
			return err
		})
	}
	clock(&l.build, func() (err error) {
		l.Graph, _, err = b.Build()
		return err
	})
	return l
}

func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// watchPeak samples the heap until the returned function is called, which returns the largest seen.
func watchPeak() func() float64 {
	stop, most := make(chan bool), make(chan float64)
	go func() {
		var m runtime.MemStats
		peak := 0.
		for {
			select {
			case <-stop:
				most <- peak
				return
			case <-time.After(5 * time.Millisecond):
				runtime.ReadMemStats(&m)
				peak = max(peak, float64(m.HeapAlloc))
			}
		}
	}()
	return func() float64 { close(stop); return <-most }
}
