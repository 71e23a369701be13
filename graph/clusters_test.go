package graph

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"unseen/internal/racetest"
)

// cloud is vectors around k centres, which lie around the same point far from the origin.
type cloud struct {
	nodes, dim, k int
	noise         float64 // standard deviation around a centre; centres have 1 around their point
	away          float64 // of that point, every coordinate
	half          bool
}

// withCloud makes a graph of such vectors and returns the centre that each is from.
func withCloud(tb testing.TB, r *rand.Rand, c cloud) (*Graph, []int) {
	tb.Helper()
	centres := make([][]float64, c.k)
	for k := range centres {
		centres[k] = make([]float64, c.dim)
		for d := range centres[k] {
			centres[k][d] = c.away + r.NormFloat64()
		}
	}
	from := make([]int, c.nodes)
	row := make([]float32, c.dim)
	g := withVectors(tb, unlinkedNodes(tb, c.nodes), c.dim, c.half, func(i int) []float32 {
		from[i] = r.IntN(c.k)
		for d := range row {
			row[d] = float32(centres[from[i]][d] + c.noise*r.NormFloat64())
		}
		return row
	})
	return g, from
}

func withVectors(tb testing.TB, g *Graph, dim int, half bool, vector func(i int) []float32) *Graph {
	tb.Helper()
	allocate := NewVectors
	if half {
		allocate = NewHalfVectors
	}
	v, err := allocate(g.Len(), dim)
	must(tb, err)
	tb.Cleanup(func() { v.Close() })
	for i := range g.Len() {
		must(tb, v.Set(int32(i), vector(i)))
	}
	g, err = g.WithVectors(v)
	must(tb, err)
	return g
}

func TestClustersAreRecovered(t *testing.T) {
	t.Parallel()
	for seed, c := range []cloud{
		{nodes: 300, dim: 2, k: 2, noise: .1},
		{nodes: 600, dim: 8, k: 5, noise: .2},
		{nodes: 3000, dim: 33, k: 19, noise: .3},
		{nodes: 3000, dim: 33, k: 19, noise: .3, half: true},
		{nodes: 3000, dim: 64, k: 7, noise: .3, away: 1000},
		{nodes: 700, dim: 64, k: 7, noise: .3, away: 30, half: true},
		{nodes: 2000, dim: 1, k: 1, noise: 1},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			g, from := withCloud(t, rand.New(rand.NewPCG(uint64(seed), 20)), c)
			found, r, err := g.FieldsByVectors(t.Context(), Clustering{Fields: c.k, Seed: uint64(seed)})
			must(t, err)
			must(t, checkFound(g, found, r, "cluster"))
			must(t, checkNearest(found, r))
			if rand := adjustedRand(from, fieldsOf(found)); rand < .95 {
				t.Errorf("adjusted Rand index is %v; %+v", rand, r)
			}
			if !r.Converged || r.Sizes[UnknownField] > 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// checkNearest computes means and distances in float64, one by one: hardly a vector is nearer to the
// mean of another cluster than to that of its own, and the report's sums are right.
func checkNearest(g *Graph, r FieldReport) error {
	dim, k := g.Vectors().Dim(), g.FieldCount()
	means := make([][]float64, k)
	for f := range means {
		means[f] = make([]float64, dim)
	}
	overall := make([]float64, dim)
	rows := make([][]float32, g.Len())
	for i := range rows {
		rows[i] = make([]float32, dim)
		g.Vectors().Load(rows[i], int32(i))
		for d, x := range rows[i] {
			means[g.Field(int32(i))][d] += float64(x) / float64(r.Sizes[g.Field(int32(i))])
			if g.Field(int32(i)) != UnknownField {
				overall[d] += float64(x) / float64(g.Len()-r.Sizes[UnknownField])
			}
		}
	}
	inertia, spread, squares, nearer := 0., 0., 0., 0.
	for i, row := range rows {
		if g.Field(int32(i)) == UnknownField {
			continue
		}
		own := squaredDistance(row, means[g.Field(int32(i))])
		least := own
		for f := 1; f < k; f++ {
			least = min(least, squaredDistance(row, means[f]))
		}
		inertia += own
		nearer += own - least
		spread += squaredDistance(row, overall)
		squares += squaredDistance(row, nil)
	}
	// The report measures from the centres before their last small step, so it may only be above.
	slack := 2*clusterTolerance*inertia + 1e-5*spread + 1e-12*squares
	if inertia > r.Inertia+slack || r.Inertia > inertia*1.001+slack ||
		math.Abs((1-r.Explained)*spread-r.Inertia) > slack {
		return fmt.Errorf("inertia is %v of %v, the report says %v and %v", inertia, spread, r.Inertia, r.Explained)
	}
	if r.Converged && nearer > 1e-3*inertia+slack {
		return fmt.Errorf("nearer centres would save %v of %v", nearer, inertia)
	}
	return nil
}

// TestClustersDoNotDependOnThreads has more vectors than fit one block, one run and one segment of a
// sum, and then more centres than fit one block.
func TestClustersDoNotDependOnThreads(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ nodes, fields int }{{sumSegment + 1000, 3}, {600, centreBlock + 30}} {
		g, _ := withCloud(t, rand.New(rand.NewPCG(1, 21)), cloud{nodes: c.nodes, dim: 20, k: 30, noise: 1})
		s := Clustering{Fields: c.fields, Seed: 3, Rounds: 6}
		var first *Graph
		var report FieldReport
		for _, s.Threads = range []int{1, 2, 5, 0} {
			found, r, err := g.FieldsByVectors(t.Context(), s)
			must(t, err)
			if first == nil {
				first, report = found, r
				must(t, checkFound(g, found, r, "cluster"))
			}
			if !slices.Equal(found.Fields(), first.Fields()) || !reflect.DeepEqual(r, report) {
				t.Errorf("%d threads found other fields: %+v, not %+v", s.Threads, r, report)
			}
		}
		s.Seed++
		other, _, err := g.FieldsByVectors(t.Context(), s)
		must(t, err)
		if slices.Equal(other.Fields(), first.Fields()) {
			t.Errorf("%d fields: two seeds went the same way", s.Fields)
		}
	}
}

func TestZeroVectorsHaveNoCluster(t *testing.T) {
	t.Parallel()
	g := withVectors(t, unlinkedNodes(t, 9), 3, false, func(i int) []float32 {
		return [][]float32{{0, 0, 0}, {1, 0, 0}, {0, 1, .1}}[i%3]
	})
	found, r, err := g.FieldsByVectors(t.Context(), Clustering{Fields: 2})
	must(t, err)
	if !slices.Equal(r.Sizes, []int{3, 3, 3}) || r.Inertia > 1e-12 || math.Abs(r.Explained-1) > 1e-12 {
		t.Errorf("%+v", r)
	}
	if f := found.Fields(); f[0] != UnknownField || f[1] != 1 || f[2] != 2 || !slices.Equal(f[:3], f[6:]) {
		t.Errorf("fields are %v", f)
	}
	if want := "k-means on vectors: 2 fields, seed 0, at most 100 rounds"; r.Found != want {
		t.Errorf("found by %q, not %q", r.Found, want)
	}
}

// TestDuplicateVectors asks for exactly as many fields as there are distinct vectors, some of which lie
// closer together than a float32 product can tell, and for one more.
func TestDuplicateVectors(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestClustersDoNotDependOnThreads has the same goroutines")
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 22))
		distinct, dim := 1+r.IntN(12), 1+r.IntN(40)
		kinds := make([][]float32, distinct)
		for k := range kinds {
			kinds[k] = make([]float32, dim)
			for d := range kinds[k] {
				kinds[k][d] = 100 + float32(r.NormFloat64())
			}
			if k > 0 && r.IntN(2) == 0 {
				copy(kinds[k], kinds[k-1])
				kinds[k][0] += 1e-4 * float32(k)
			}
		}
		kind := make([]int, 200)
		g := withVectors(t, unlinkedNodes(t, len(kind)), dim, false, func(i int) []float32 {
			if kind[i] = r.IntN(distinct); i < distinct {
				kind[i] = i
			}
			return kinds[kind[i]]
		})
		found, report, err := g.FieldsByVectors(t.Context(), Clustering{Fields: distinct, Seed: seed})
		must(t, err)
		must(t, checkFound(g, found, report, "cluster"))
		if got := adjustedRand(kind, fieldsOf(found)); got < 1 && report.Inertia > 1e-3 {
			t.Errorf("seed %d: adjusted Rand index %v of %d distinct vectors; %+v", seed, got, distinct, report)
		}
		_, _, err = g.FieldsByVectors(t.Context(), Clustering{Fields: distinct + 1, Seed: seed})
		wantError(t, err, ErrSettings, fmt.Sprintf("of %d distinct vectors", distinct),
			fmt.Sprintf("ask for %d or fewer", distinct))
	}
}

func TestAsManyClustersAsNodes(t *testing.T) {
	t.Parallel()
	g, _ := withCloud(t, rand.New(rand.NewPCG(2, 23)), cloud{nodes: 50, dim: 4, k: 1, noise: 1})
	_, r, err := g.FieldsByVectors(t.Context(), Clustering{Fields: 50})
	must(t, err)
	if slices.Max(r.Sizes) != 1 || r.Inertia > 1e-9 || !r.Converged {
		t.Errorf("%+v", r)
	}
	_, r, err = g.FieldsByVectors(t.Context(), Clustering{Fields: 1})
	must(t, err)
	if !slices.Equal(r.Sizes, []int{0, 50}) || math.Abs(r.Explained) > 1e-9 || !r.Converged {
		t.Errorf("%+v", r)
	}
	_, r, err = g.FieldsByVectors(t.Context(), Clustering{Fields: 5, Rounds: 1})
	must(t, err)
	if r.Rounds != 1 || r.Converged {
		t.Errorf("%+v", r)
	}
}

// TestEmptyClustersAreRefilled starts from centres that lie where no vector is.
func TestEmptyClustersAreRefilled(t *testing.T) {
	t.Parallel()
	g := withVectors(t, unlinkedNodes(t, 6), 1, false,
		func(i int) []float32 { return []float32{[]float32{1, 1, 1, 2, 5, 9}[i]} })
	m, _, err := newKMeans(g, Clustering{Fields: 4, Threads: 1})
	must(t, err)
	m.centres = newCentres(4, 1)
	copy(m.centres.exact, []float64{1, 50, 60, 70})
	for c := range 4 {
		m.centres.place(c, m.mean)
	}
	moved, err := m.assign(t.Context())
	must(t, err)
	inertia := sum(m.nearest)
	if refilled := m.refill(); moved != 6 || refilled != 3 || math.Abs(inertia-(1+16+64)) > 1e-4 {
		t.Errorf("%d moved, %d clusters refilled, inertia %v", moved, refilled, inertia)
	}
	if !slices.Equal(m.of, []int32{0, 0, 0, 3, 2, 1}) || !slices.Equal(m.nearest, make([]float64, 6)) {
		t.Errorf("clusters are %v, distances %v", m.of, m.nearest)
	}
	if m.refill() != 0 {
		t.Error("refilled again")
	}
}

func TestClusterErrors(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	plain := unlinkedNodes(t, 4)
	_, _, err := plain.FieldsByVectors(ctx, Clustering{Fields: 2})
	wantError(t, err, ErrShape, "no vectors", "WithVectors")
	vectors := func(scale float32) *Graph {
		return withVectors(t, plain, 2, false, func(i int) []float32 { return []float32{scale * float32(i), 0} })
	}
	g := vectors(1)
	for _, c := range []struct {
		g    *Graph
		s    Clustering
		kind error
		says string
	}{
		{g, Clustering{}, ErrSettings, "0 fields"},
		{g, Clustering{Fields: -2}, ErrSettings, "-2 fields"},
		{g, Clustering{Fields: 1 << 16}, ErrTooLarge, "65535 or fewer"},
		{g, Clustering{Fields: 2, Rounds: -1}, ErrSettings, "-1 rounds"},
		{g, Clustering{Fields: 2, Threads: -1}, ErrSettings, "-1 threads"},
		{g, Clustering{Fields: 5}, ErrSettings,
			"5 fields of 4 nodes, 3 of them with a vector that is not zero; ask for 3"},
		{vectors(0), Clustering{Fields: 1}, ErrSettings, "encode the nodes"},
		{vectors(1e20), Clustering{Fields: 2}, ErrNotFinite, `node "1" has length 1.0`},
		{vectors(1e-20), Clustering{Fields: 2}, ErrSettings, "scale the vectors"},
	} {
		_, _, err := c.g.FieldsByVectors(ctx, c.s)
		wantError(t, err, c.kind, c.says)
	}
	must(t, g.Vectors().Set(2, []float32{float32(math.NaN()), 0}))
	_, _, err = g.FieldsByVectors(ctx, Clustering{Fields: 2})
	wantError(t, err, ErrNotFinite, `"2"`)
	must(t, g.Vectors().Close())
	_, _, err = g.FieldsByVectors(ctx, Clustering{Fields: 2})
	wantError(t, err, ErrShape, "0 vectors for 4 nodes")

	stopped, stop := context.WithCancel(ctx)
	stop()
	if _, _, err = vectors(1).FieldsByVectors(stopped, Clustering{Fields: 2}); err != context.Canceled {
		t.Errorf("a stopped search returned %v", err)
	}
}
