package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
	"unseen/internal/kern"

	"unseen/engine"
	"unseen/graph"
)

// drawSearch draws a search of some kind.
func drawSearch(t *testing.T, rng *rand.Rand, most, queries int) (engine.TargetSearch, string) {
	n, dim := 1+rng.IntN(most), 1+rng.IntN(90)
	v := must(graph.NewVectors(n, dim))(t)
	t.Cleanup(func() { v.Close() })
	size := math.Exp2(float64(rng.IntN(30) - 15))
	alike, one := rng.IntN(5) == 0, draw(rng, dim, size) // many targets are the same
	for i := range int32(n) {
		row := draw(rng, dim, size)
		if alike && i%3 > 0 {
			row = one
		}
		if err := v.Set(i, row); err != nil {
			t.Fatal(err)
		}
	}
	s := engine.TargetSearch{Targets: v, K: 1 + rng.IntN(40)}
	fields, values, among, skips := rng.IntN(2) == 0, rng.IntN(2) == 0, rng.IntN(3) == 0, rng.IntN(2) == 0
	const fieldCount = 5
	for range n {
		s.Fields, s.Values = append(s.Fields, uint16(rng.IntN(fieldCount))), append(s.Values, rng.Float32())
	}
	var only []int32
	for j := range int32(n) {
		if rng.IntN(2) == 0 {
			only = append(only, j)
		}
	}
	for range queries {
		q := engine.SearchQuery{Vector: draw(rng, dim, math.Exp2(float64(rng.IntN(20)-10)))}
		if fields {
			q.Offsets = draw(rng, fieldCount, 1)
		} else if rng.IntN(2) == 0 {
			q.Offsets = slices.Repeat([]float32{rng.Float32()}, fieldCount)
		}
		if values {
			q.Slope = rng.Float32()
		}
		if among && only != nil {
			q.Among = only
		}
		for j := range int32(n) {
			if skips && rng.IntN(20) == 0 {
				q.Skip = append(q.Skip, j)
			}
		}
		s.Queries = append(s.Queries, q)
	}
	return s, fmt.Sprintf("%d targets of %d numbers of size %g, %d hits, fields %v, values %v, among %v, skips %v, "+
		"alike %v", n, dim, size, s.K, fields, values, among, skips, alike)
}

// sameHits compares lists: scores may differ in their last bits, and where they do so may the order.
func sameHits(got, want []engine.Hit) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d hits, not %d", len(got), len(want))
	}
	at := map[int32]float32{}
	for _, h := range got {
		at[h.Target] = h.Score
	}
	if len(at) != len(got) {
		return fmt.Errorf("a target twice in %v", got)
	}
	for k, h := range want {
		near := func(x float32) bool {
			return math.Abs(float64(x)-float64(h.Score)) <= 1e-5*(1e-30+math.Abs(float64(want[0].Score))+
				math.Abs(float64(want[len(want)-1].Score)))
		}
		if !near(got[k].Score) {
			return fmt.Errorf("hit %d has %v, not %v", k, got[k], h)
		}
		if score, there := at[h.Target]; there && !near(score) || !there && !near(want[len(want)-1].Score) {
			return fmt.Errorf("hit %d is %v and is not there, or scores otherwise", k, h)
		}
	}
	return nil
}

// Hits are in order: by score, and of equal ones by target.
func TestBestHits(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 3))
	for range 200 {
		var hits []engine.Hit
		for j := range int32(rng.IntN(40)) {
			score := []float32{0, float32(math.Copysign(0, -1)), 1, -1, rng.Float32(), -rng.Float32(), 1e30, -1e-30,
				float32(math.Inf(1)), float32(math.Inf(-1))}[rng.IntN(10)]
			hits = append(hits, engine.Hit{Target: j, Score: score})
		}
		want, k := slices.Clone(hits), rng.IntN(50)
		slices.SortStableFunc(want, func(a, b engine.Hit) int { return cmp.Compare(b.Score, a.Score) })
		rng.Shuffle(len(hits), func(a, b int) { hits[a], hits[b] = hits[b], hits[a] })
		if got := best(hits, k); !slices.Equal(got, want[:min(k, len(want))]) {
			t.Fatalf("%v, not %v", got, want)
		}
	}
}

// Lists of a card are those of the processor: here those of a card that is not there.
func TestListsByAFakeCard(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 1))
	rounds := 40
	if testing.Short() {
		rounds = 12
	}
	for range rounds {
		s, name := drawSearch(t, rng, 400, 1+rng.IntN(6))
		want := must(engine.CPU{}.TopK(t.Context(), s))(t)
		for _, capability := range []int32{80, 90} {
			for _, room := range []uint64{0, 1 << 16} { // all at once, or in blocks
				fake := newFakeCard(capability)
				e := must(New(must(open(&fake.driver, 0))(t), Settings{Memory: room}))(t)
				e.fewPairs = 1
				for again := range 2 {
					got := must(e.TopK(t.Context(), s))(t)
					for k := range want {
						if err := sameHits(got[k], want[k]); err != nil {
							t.Errorf("%s; generation %d, room %d, time %d, query %d: %v", name, capability, room,
								again, k, err)
						}
					}
				}
				if err := e.Close(); err != nil || len(fake.memory) > 0 {
					t.Errorf("%s: %d pieces of memory are not given back, %v", name, len(fake.memory), err)
				}
			}
		}
	}
}

// What rounding to 16 bits hides is found all the same: targets that differ by less than that rounds, beside others
// that are far from being hits, in a block of their own.
func TestListsOfNearlyEqualTargets(t *testing.T) {
	t.Parallel()
	const n, dim, block = 6000, 64, 3000
	rng := rand.New(rand.NewPCG(8, 2))
	v := must(graph.NewVectors(n, dim))(t)
	defer v.Close()
	base := draw(rng, dim, 1)
	for i := range int32(n) {
		row := draw(rng, dim, .0003)
		if i >= block {
			row = draw(rng, dim, .05)
		}
		for d := range row {
			if i < block {
				row[d] += base[d]
			} else {
				row[d] -= base[d]
			}
		}
		if err := v.Set(i, row); err != nil {
			t.Fatal(err)
		}
	}
	s := engine.TargetSearch{Targets: v, K: 20}
	for range 8 {
		query := draw(rng, dim, .01)
		for d := range query {
			query[d] += base[d]
		}
		s.Queries = append(s.Queries, engine.SearchQuery{Vector: query})
	}
	want := must(engine.CPU{}.TopK(t.Context(), s))(t)
	for _, room := range []uint64{0, 2 * block * 64 * 6} {
		fake := newFakeCard(hopper)
		e := must(New(must(open(&fake.driver, 0))(t), Settings{Memory: room}))(t)
		e.fewPairs = 1
		for k, got := range must(e.TopK(t.Context(), s))(t) {
			for place, h := range want[k] {
				if math.Abs(float64(got[place].Score-h.Score)) > 2e-5 {
					t.Errorf("room %d, query %d: hit %d is %v, not %v", room, k, place, got[place], h)
				}
			}
		}
	}
}

// On a card the same, among more targets, and the same bits on every run.
func TestListsOnACard(t *testing.T) {
	d := card(t)
	seed := rand.Uint64()
	t.Logf("%s, seed %d", d.Name, seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for round := range 40 {
		s, name := drawSearch(t, rng, []int{400, 40_000, 200_000}[round%3], 1+rng.IntN(300))
		e := must(New(d, Settings{}))(t)
		e.fewPairs = 1
		want := must(engine.CPU{}.TopK(t.Context(), s))(t)
		got := must(e.TopK(t.Context(), s))(t)
		again := must(e.TopK(t.Context(), s))(t)
		for k := range want {
			if err := sameHits(got[k], want[k]); err != nil {
				t.Errorf("%s, query %d: %v", name, k, err)
			}
			if !slices.Equal(got[k], again[k]) {
				t.Errorf("%s, query %d: other hits the second time", name, k)
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestListsSpeedOnACard measures the hundred best of a fifth of the nodes among all, warm, the median of three; a
// sample of the lists is compared with the processor's. It takes minutes and gigabytes: gpu/prove runs it.
func TestListsSpeedOnACard(t *testing.T) {
	nodes, err := strconv.Atoi(os.Getenv("UNSEEN_CARD"))
	if err != nil {
		t.Skip("UNSEEN_CARD does not say of how many nodes: no speed was measured; gpu/prove does")
	}
	const dim, k = 768, 100
	d := card(t)
	v := must(graph.NewVectors(nodes, dim))(t)
	defer v.Close()
	noise := draw(rand.New(rand.NewPCG(1, 2)), 1<<22, 1/math.Sqrt(dim))
	kern.Chunks(nodes, 1024, kern.Threads(0), func(_, _, from, to int) {
		row := make([]float32, dim)
		for i := from; i < to; i++ {
			rng := rand.New(rand.NewPCG(uint64(i), 3))
			a, b := rng.IntN(len(noise)-dim), rng.IntN(len(noise)-dim)
			for x := range row {
				row[x] = noise[a+x] + noise[b+x]/2
			}
			if err := v.Set(int32(i), row); err != nil {
				panic(err)
			}
		}
	})
	w := draw(rand.New(rand.NewPCG(3, 4)), dim, 1)
	matrix, sources := kern.MatrixOf(v), nodes/5
	e := must(New(d, Settings{}))(t)
	defer e.Close()
	all := make([][]engine.Hit, sources)
	search := func() {
		for first := 0; first < sources; first += e.Together() {
			s := engine.TargetSearch{Targets: v, K: k}
			s.Queries = make([]engine.SearchQuery, min(e.Together(), sources-first))
			kern.Chunks(len(s.Queries), 1024, kern.Threads(0), func(_, _, from, to int) {
				for at := from; at < to; at++ {
					query := make([]float32, dim)
					matrix.Load(query, first+at)
					for x := range query {
						query[x] *= 4 + w[x]
					}
					s.Queries[at] = engine.SearchQuery{Vector: query, Skip: []int32{int32(first + at)}}
				}
			})
			copy(all[first:], must(e.TopK(t.Context(), s))(t))
		}
	}
	var took []float64
	for range 4 {
		began := time.Now()
		search()
		took = append(took, time.Since(began).Seconds())
	}
	t.Logf("the first time %.2f s", took[0])
	took = took[1:]
	slices.Sort(took)
	t.Logf("the %d best of %d among %d nodes of %d numbers: %.2f s (%.2f to %.2f), %.0f TFLOP/s", k, sources, nodes,
		dim, took[1], took[0], took[2], 2*dim*float64(sources)*float64(nodes)/took[1]/1e12)
	s := engine.TargetSearch{Targets: v, K: k}
	const compared = 32
	for at := range compared {
		i := at * sources / compared
		query := make([]float32, dim)
		matrix.Load(query, i)
		for x := range query {
			query[x] *= 4 + w[x]
		}
		s.Queries = append(s.Queries, engine.SearchQuery{Vector: query, Skip: []int32{int32(i)}})
	}
	for at, want := range must(engine.CPU{}.TopK(t.Context(), s))(t) {
		if err := sameHits(all[at*sources/compared], want); err != nil {
			t.Errorf("query %d: %v", at, err)
		}
	}
}

// A search that is cancelled leaves nothing running: the next one has the same rooms.
func TestListsAfterACancelledSearch(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	fake := newFakeCard(80)
	e := must(New(must(open(&fake.driver, 0))(t), Settings{Threads: 2}))(t)
	e.fewPairs = 1
	s, _ := drawSearch(t, rand.New(rand.NewPCG(1, 2)), 50, 400)
	for len(s.Queries) < 40_000 { // several parts
		s.Queries = append(s.Queries, s.Queries...)
	}
	s.K = 5
	for k := range s.Queries {
		s.Queries[k].Among, s.Queries[k].Skip = nil, nil
	}
	next := s
	next.Queries = slices.Clone(s.Queries[:20_000])
	slices.Reverse(next.Queries)
	want := must(engine.CPU{}.TopK(t.Context(), next))(t)
	launch := fake.launch
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		fake.launch = func(l launching) int32 {
			if fake.names[l.function-1] == "rescore" {
				cancel()
			}
			return launch(l)
		}
		if _, err := e.TopK(ctx, s); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		cancel()
		fake.launch = launch
		for k, list := range must(e.TopK(t.Context(), next))(t) {
			if err := sameHits(list, want[k]); err != nil {
				t.Fatalf("list %d after a search that was cancelled: %v", k, err)
			}
		}
	}
}
