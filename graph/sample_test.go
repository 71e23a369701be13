package graph

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"unseen/internal/racetest"
)

// universes are the kinds of universe that the properties are tried on; each is made for a graph.
var universes = map[string]func(g *Graph, r *rand.Rand) Universe{
	"all":    func(*Graph, *rand.Rand) Universe { return Universe{} },
	"before": func(g *Graph, _ *rand.Rand) Universe { return Universe{Before: g.Order()} },
	"subset": func(g *Graph, r *rand.Rand) Universe {
		return Universe{Sources: randomNodes(g, r), Targets: randomNodes(g, r)}
	},
	"subset, before": func(g *Graph, r *rand.Rand) Universe {
		return Universe{Sources: randomNodes(g, r), Targets: randomNodes(g, r), Before: g.Order()}
	},
}

// randomNodes returns two thirds of the nodes in a random order.
func randomNodes(g *Graph, r *rand.Rand) []int32 {
	var nodes []int32
	for _, i := range r.Perm(g.Len())[:2*g.Len()/3] {
		nodes = append(nodes, int32(i))
	}
	return nodes
}

// TestSamplesAreUnbiased draws many samples of small graphs and compares with all pairs: the weighted
// mean of an arbitrary function, the sum of the weights, and how often every unlinked pair was drawn.
func TestSamplesAreUnbiased(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 5))
		g := randomGraph(t, r, 12+int(seed)*6, 30+20*int(seed), .5)
		for name, universe := range universes {
			u := universe(g, r)
			all, err := AllPairs(g, u, 0)
			must(t, err)
			f := slices.Repeat([]float64{math.NaN()}, g.Len()*g.Len())
			for k := range all.Len() {
				j := all.Target[k]
				f[int(all.Source[k])*g.Len()+int(j)] = r.NormFloat64() + 3*float64(g.Field(j)) + float64(len(g.In(j)))
			}
			for scheme := range schemes {
				for _, perLink := range []int{1, 3} {
					t.Run(fmt.Sprintf("seed %d/%s/%v/%d", seed, name, scheme, perLink), func(t *testing.T) {
						checkUnbiased(t, g, u, SampleOptions{scheme, perLink, rand.NewPCG(seed, 6)}, all, f)
					})
				}
			}
		}
	}
}

// checkUnbiased compares samples with all pairs, on f of (i, j) at i·n+j.
func checkUnbiased(t *testing.T, g *Graph, u Universe, s SampleOptions, all *Pairs, f []float64) {
	const draws = 300
	n := g.Len()
	var mean, weights moments
	drawn, rate := make([]float64, n*n), make([]float64, n*n)
	for draw := range draws {
		p, report, err := Sample(g, u, s)
		must(t, err)
		if draw < 10 {
			must(t, p.Validate(g))
			checkDistinct(t, p)
		}
		if p.Universe != int64(all.Len()) || report.Links+report.Negatives != p.Len() {
			t.Fatalf("universe of %d pairs, not %d; %+v", p.Universe, all.Len(), report)
		}
		estimate, sum := 0., 0.
		for k, w := range p.Weight {
			at := int(p.Source[k])*n + int(p.Target[k])
			if math.IsNaN(f[at]) || p.Linked[k] && w != 1 || !p.Linked[k] && math.Abs(w*p.Rate[k]-1) > 1e-12 ||
				report.MaxWeight < w {
				t.Fatalf("pair %d is outside the universe, or has weight %v at rate %v", k, w, p.Rate[k])
			}
			estimate += w * f[at] / float64(p.Universe)
			sum += w
			rate[at] = p.Rate[k]
			drawn[at]++
		}
		mean.add(estimate)
		weights.add(sum / float64(p.Universe))
	}
	exact := 0.
	for k := range all.Len() {
		at := int(all.Source[k])*n + int(all.Target[k])
		exact += f[at] / float64(all.Len())
		want := rate[at]
		if all.Linked[k] {
			want = 1
		}
		// Five standard errors: there are hundreds of pairs.
		if got := drawn[at] / draws; math.Abs(got-want) > 5*math.Sqrt(want*(1-want)/draws)+1e-9 || rate[at] == 0 {
			t.Errorf("pair (%d, %d), linked %t, was in %.3f of the samples, its rate is %.3f", all.Source[k],
				all.Target[k], all.Linked[k], got, rate[at])
		}
	}
	mean.check(t, "weighted mean", exact)
	weights.check(t, "sum of weights over pairs", 1)
}

// moments is a running mean and variance.
type moments struct{ n, sum, squares float64 }

func (m *moments) add(x float64) { m.n++; m.sum += x; m.squares += x * x }

// check fails when the mean is not within four standard errors of a value.
func (m *moments) check(t *testing.T, what string, want float64) {
	t.Helper()
	mean := m.sum / m.n
	se := math.Sqrt(max(0, m.squares/m.n-mean*mean) / m.n)
	if math.Abs(mean-want) > 4*se+1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s is %v ± %v, want %v", what, mean, se, want)
	}
}

// checkDistinct verifies that pairs are ascending by source and target, and so that none is twice there.
func checkDistinct(t *testing.T, p *Pairs) {
	t.Helper()
	for k := 1; k < p.Len(); k++ {
		if key(p.Source[k-1], p.Target[k-1]) >= key(p.Source[k], p.Target[k]) {
			t.Fatalf("pair %d (%d, %d) does not come after (%d, %d)", k, p.Source[k], p.Target[k], p.Source[k-1],
				p.Target[k-1])
		}
	}
}

// TestLargeStrataAreUniform draws from strata large enough for every way of sorting and for several
// rounds of rejection, and checks the marginal frequencies of targets by their chi-square.
func TestLargeStrataAreUniform(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "it starts no goroutine")
	r := rand.New(rand.NewPCG(8, 8))
	g := randomGraph(t, r, 400, 6000, 1)
	o := g.Order()
	for scheme := range schemes {
		for _, u := range []Universe{{}, {Before: o}} {
			p, report, err := Sample(g, u, SampleOptions{Scheme: scheme, PerLink: 3, Src: rand.NewPCG(9, 9)})
			must(t, err)
			must(t, p.Validate(g))
			checkDistinct(t, p)
			if report.Known == 0 || report.Repeats == 0 {
				t.Errorf("%v: a dense graph met %d known links and %d repeats", scheme, report.Known, report.Repeats)
			}
			got, want := make([]float64, g.Len()), make([]float64, g.Len())
			all, err := AllPairs(g, u, 0)
			must(t, err)
			rate := map[Link]float64{}
			for k := range p.Len() {
				if !p.Linked[k] {
					got[p.Target[k]]++
				}
				rate[Link{int32(g.Field(p.Source[k])), p.Target[k]}] = p.Rate[k]
			}
			for k := range all.Len() {
				if !all.Linked[k] {
					want[all.Target[k]] += rate[Link{int32(g.Field(all.Source[k])), all.Target[k]}]
				}
			}
			chi := 0.
			for j := range got {
				if want[j] > 5 {
					chi += (got[j] - want[j]) * (got[j] - want[j]) / want[j]
				}
			}
			// Drawing without replacement varies less than the chi-square's 400 ± 28.
			if chi > 500 {
				t.Errorf("%v, before %t: chi-square of 400 targets is %v", scheme, u.Before != nil, chi)
			}
		}
	}
}

func TestSameSeedSameBytes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 10))
		g := randomGraph(t, r, 80, 400, .5)
		for name, universe := range universes {
			u := universe(g, r)
			for scheme := range schemes {
				draw := func(seed uint64) ([]byte, SampleReport) {
					p, report, err := Sample(g, u, SampleOptions{Scheme: scheme, Src: rand.NewPCG(seed, 0)})
					must(t, err)
					return pairBytes(t, p), report
				}
				a, ra := draw(1)
				b, rb := draw(1)
				c, _ := draw(2)
				if !bytes.Equal(a, b) || ra != rb {
					t.Errorf("seed %d, %s, %v: the same source gave two samples", seed, name, scheme)
				}
				if bytes.Equal(a, c) {
					t.Errorf("seed %d, %s, %v: two sources gave the same sample", seed, name, scheme)
				}
			}
		}
	}
}

func pairBytes(t *testing.T, p *Pairs) []byte {
	var w bytes.Buffer
	for _, column := range []any{p.Source, p.Target, p.Linked, p.Weight, p.Rate, p.Universe} {
		must(t, binary.Write(&w, binary.LittleEndian, column))
	}
	return w.Bytes()
}

func TestFieldStratifiedWeights(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(11, 11))
	g := randomGraph(t, r, 200, 400, 0)
	uniform, _, err := Sample(g, Universe{}, SampleOptions{Src: rand.NewPCG(1, 1)})
	must(t, err)
	flat := slices.Max(uniform.Weight)
	p, report, err := Sample(g, Universe{}, SampleOptions{Scheme: FieldStratified, Src: rand.NewPCG(1, 1)})
	must(t, err)
	if report.MaxWeight > 2*flat {
		t.Errorf("weight %v is more than twice the uniform %v", report.MaxWeight, flat)
	}
	if report.Strata != 9 {
		t.Errorf("%d strata of 9", report.Strata)
	}
	if want := 4 * report.Links; report.Negatives < want || report.Negatives > want+9 {
		t.Errorf("%d negatives, want %d to %d", report.Negatives, want, want+9)
	}
	sum := 0.
	for _, w := range p.Weight {
		sum += w
	}
	if math.Abs(sum-float64(p.Universe)) > 1e-6 {
		t.Errorf("weights sum to %v, not %d", sum, p.Universe)
	}
}

func TestPopularityMatches(t *testing.T) {
	t.Parallel()
	// The hub has 30 of 60 links; matched negatives point to it as often as links do.
	b := Builder{}
	for i := range 500 {
		_, err := b.AddNode(Node{ID: fmt.Sprint(i)})
		must(t, err)
	}
	for i := range int32(30) {
		must(t, b.AddLinkIndex(i+1, 0))
		must(t, b.AddLinkIndex(i+100, i+200))
	}
	g, _, err := b.Build()
	must(t, err)
	p, report, err := Sample(g, Universe{}, SampleOptions{Scheme: PopularityMatched, Src: rand.NewPCG(1, 1)})
	must(t, err)
	hub := 0
	for k := range p.Len() {
		if !p.Linked[k] && p.Target[k] == 0 {
			hub++
		}
	}
	// e = K·(links+1)/Σ(links+1) = 240·31/560 = 13.3
	if report.Negatives != 240 || hub != 13 && hub != 14 {
		t.Errorf("%d of %d negatives point to the hub", hub, report.Negatives)
	}
	if r := p.Rate[slices.Index(p.Target, 0)]; math.Abs(r-240*31./560/469) > 1e-12 {
		t.Errorf("rate of the hub is %v", r)
	}
}

// TestSampleTakesAll asks for more negatives than there are: these schemes then are all pairs.
func TestSampleTakesAll(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 12))
	g := randomGraph(t, r, 20, 60, .5)
	for name, universe := range universes {
		u := universe(g, r)
		all, err := AllPairs(g, u, 0)
		must(t, err)
		for _, scheme := range []NegativeScheme{Uniform, PopularityMatched} {
			p, _, err := Sample(g, u, SampleOptions{scheme, math.MaxInt, rand.NewPCG(1, 1)})
			if must(t, err); !bytes.Equal(pairBytes(t, p), pairBytes(t, all)) {
				t.Errorf("%s, %v: sample is %v, not %v", name, scheme, p, all)
			}
		}
	}
}

func TestAllPairs(t *testing.T) {
	t.Parallel()
	g := sketch(t, "a b c b>a c>a a>c")
	p, err := AllPairs(g, Universe{}, 0)
	must(t, err)
	want := &Pairs{
		Source: []int32{0, 0, 1, 1, 2, 2}, Target: []int32{1, 2, 0, 2, 0, 1},
		Linked: []bool{false, true, true, false, true, false},
		Weight: []float64{1, 1, 1, 1, 1, 1}, Rate: []float64{1, 1, 1, 1, 1, 1}, Universe: 6,
	}
	if !bytes.Equal(pairBytes(t, p), pairBytes(t, want)) {
		t.Errorf("pairs are %v", p)
	}
	_, err = AllPairs(g, Universe{}, 5)
	wantError(t, err, ErrTooManyPairs, "6", "5", "Sample", "Subgraph")
}

func TestUniverseCount(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 13))
		g := randomGraph(t, r, 3+r.IntN(30), r.IntN(100), .5)
		o := g.Order()
		u := Universe{Sources: randomNodes(g, r), Targets: randomNodes(g, r)}
		if r.IntN(2) == 0 {
			u.Before = o
		}
		pairs, linked := int64(0), int64(0)
		for _, i := range u.Sources {
			for _, j := range u.Targets {
				if i != j && (u.Before == nil || o.Rank[j] < o.Rank[i]) {
					pairs++
					if g.HasLink(i, j) {
						linked++
					}
				}
			}
		}
		gotPairs, gotLinked, err := u.Count(g)
		if pairs == 0 {
			wantError(t, err, ErrEmptyUniverse)
		} else if err != nil || gotPairs != pairs || gotLinked != linked {
			t.Errorf("seed %d: %d pairs, %d linked, %v; want %d, %d", seed, gotPairs, gotLinked, err, pairs, linked)
		}
	}
}

func TestSampleErrors(t *testing.T) {
	t.Parallel()
	g := sketch(t, "a b c b>a")
	src := rand.NewPCG(1, 1)
	for _, c := range []struct {
		u    Universe
		s    SampleOptions
		kind error
		says string
	}{
		{Universe{}, SampleOptions{}, ErrSettings, "Src"},
		{Universe{}, SampleOptions{Scheme: 7, Src: src}, ErrSettings, "number 7"},
		{Universe{}, SampleOptions{PerLink: -1, Src: src}, ErrSettings, "-1"},
		{Universe{Sources: []int32{0}}, SampleOptions{Src: src}, ErrNoLinks, "take more sources"},
		{Universe{Sources: []int32{}}, SampleOptions{Src: src}, ErrEmptyUniverse, "0 sources"},
		{Universe{Sources: []int32{0}, Targets: []int32{0}}, SampleOptions{Src: src}, ErrEmptyUniverse, "1 sources"},
		{Universe{Sources: []int32{3}}, SampleOptions{Src: src}, ErrUnknownNode, "sources is 3"},
		{Universe{Targets: []int32{-1}}, SampleOptions{Src: src}, ErrUnknownNode, "targets is -1"},
		{Universe{Targets: []int32{1, 1}}, SampleOptions{Src: src}, ErrDuplicateNode, `"b"`},
		{Universe{Before: sketch(t, "x").Order()}, SampleOptions{Src: src}, ErrShape, "1 nodes, the graph 3"},
	} {
		_, _, err := Sample(g, c.u, c.s)
		wantError(t, err, c.kind, c.says)
	}
	_, _, err := Universe{Sources: []int32{9}}.Count(g)
	wantError(t, err, ErrUnknownNode)
	_, err = AllPairs(g, Universe{Sources: []int32{9}}, 0)
	wantError(t, err, ErrUnknownNode)

	for scheme := range schemes {
		if back, err := ParseNegativeScheme(scheme.String()); err != nil || back != scheme {
			t.Errorf("scheme %v reads back as %v, %v", scheme, back, err)
		}
	}
	_, err = ParseNegativeScheme("best")
	wantError(t, err, ErrSettings, `"best"`, "popularity")
	if name := NegativeScheme(9).String(); name != "NegativeScheme(9)" {
		t.Error(name)
	}
}

// TestTooManyNegatives asks for more than a sample can hold, of a graph that has them.
func TestTooManyNegatives(t *testing.T) {
	t.Parallel()
	b := Builder{}
	for i := range 60_000 {
		_, err := b.AddNode(Node{ID: fmt.Sprint(i)})
		must(t, err)
	}
	must(t, b.AddLinkIndex(1, 0))
	g, _, err := b.Build()
	must(t, err)
	_, _, err = Sample(g, Universe{}, SampleOptions{PerLink: math.MaxInt, Src: rand.NewPCG(1, 1)})
	wantError(t, err, ErrTooManyPairs, "perLink")
	_, err = AllPairs(g, Universe{}, math.MaxInt)
	wantError(t, err, ErrTooManyPairs)
}

func TestSortKeys(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 14))
		keys := make([]uint64, r.IntN(20_000))
		mask := r.Uint64() >> r.IntN(64)
		for k := range keys {
			keys[k] = r.Uint64() & mask
		}
		want := slices.Sorted(slices.Values(keys))
		if sortKeys(keys); !slices.Equal(keys, want) {
			t.Fatalf("seed %d: %d keys are not sorted", seed, len(keys))
		}
	}
}
