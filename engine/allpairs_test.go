package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"unseen/graph"
	"unseen/model"
	"unseen/risk"
	"unseen/world"
)

func must[T any](x T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
}

// termed is a propensity model of any terms.
type termed struct {
	model.PropensityModel // of another kind, for what is not asked here
	terms                 model.ExposureTerms
	nodes                 model.Nodes
	link                  model.LinkModel
	linkParams            []float32
}

func (m *termed) Terms([]float32) (model.ExposureTerms, bool) { return m.terms, true }

func (m *termed) Logits(s, _ []float32, b model.Batch) {
	z := make([]float32, b.Len())
	m.link.Logits(z, m.linkParams, b)
	for k, i := range b.Sources {
		j := b.Targets[k]
		x := float64(m.terms.Constant) + float64(m.terms.Link)*float64(z[k])
		if m.terms.Fields != nil {
			x += float64(m.terms.Fields[int(m.nodes.Fields[i])*m.nodes.FieldCount+int(m.nodes.Fields[j])])
		}
		if m.terms.Source != nil {
			x += float64(m.terms.Source[i])
		}
		if m.terms.Target != nil {
			x += float64(m.terms.Target[j])
		}
		s[k] = float32(x)
	}
}

// randomGraph has vectors and links, and nodes in fields of every size: from one node to a third of all.
func randomGraph(t testing.TB, rng *rand.Rand, nodes, dim int) *graph.Graph {
	t.Helper()
	var b graph.Builder
	for i := range nodes {
		field := fmt.Sprint("small ", i)
		if f := rng.IntN(5); f < 3 {
			field = fmt.Sprint("large ", f)
		}
		must(b.AddNode(graph.Node{ID: fmt.Sprint(i), Field: field}))(t)
	}
	for range 3 * nodes {
		if i, j := rng.IntN(nodes), rng.IntN(nodes); i != j {
			if err := b.AddLinkIndex(int32(i), int32(j)); err != nil {
				t.Fatal(err)
			}
		}
	}
	g, _, err := b.Build()
	vectors := must(graph.NewVectors(nodes, dim))(t)
	for i := range int32(nodes) {
		if err := vectors.Set(i, random(rng, dim, 1)); err != nil {
			t.Fatal(err)
		}
	}
	return must(must(g, err)(t).WithVectors(vectors))(t)
}

func random(rng *rand.Rand, n int, scale float64) []float32 {
	out := make([]float32, n)
	for k := range out {
		out[k] = float32(scale * rng.NormFloat64())
	}
	return out
}

// randomUniverse is a rectangle of the graph's nodes, in an order or in none.
func randomUniverse(rng *rand.Rand, g *graph.Graph) (u graph.Universe) {
	some := func() []int32 {
		if rng.IntN(3) == 0 {
			return nil
		}
		var nodes []int32
		for _, i := range rng.Perm(g.Len())[:1+rng.IntN(g.Len())] {
			nodes = append(nodes, int32(i))
		}
		return nodes
	}
	u.Sources, u.Targets = some(), some()
	if rng.IntN(2) == 0 {
		u.Before = g.ShuffledOrder(rng)
	}
	return u
}

// randomTerms are terms of exposure, some of which are missing.
func randomTerms(rng *rand.Rand, n model.Nodes) (terms model.ExposureTerms) {
	terms.Constant = float32(rng.NormFloat64() - 2)
	maybe := func(size int, scale float64) []float32 {
		if rng.IntN(3) == 0 {
			return nil
		}
		return random(rng, size, scale)
	}
	terms.Fields = maybe(n.FieldCount*n.FieldCount, 2)
	if rng.IntN(3) > 0 {
		terms.Link = float32(rng.NormFloat64())
		terms.Source, terms.Target = maybe(n.Len(), 1), maybe(n.Len(), 1)
	}
	return terms
}

// Blocks come to what one pair after another does in float64: for every dense link model and all
// terms of exposure, with fields of one node, rectangles of any shape, with a floor and without, in
// an order and in none.
func TestAllPairs(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	seed := uint64(13655463893941972874) // a sure model of two nodes is among its graphs
	rng := rand.New(rand.NewPCG(seed, 1))
	kinds := map[string]float64{"diagonal": .5, "diagonal-field": .5, "low-rank": .15} // with the size of parameters
	for round := range 72 {
		g := randomGraph(t, rng, 2+rng.IntN(400), 1+rng.IntN(40))
		u := randomUniverse(rng, g)
		everybody := round >= 60 // with everybody, in blocks that serve both directions where the model allows it
		if everybody {
			g, u = randomGraph(t, rng, 2*blockSquare+rng.IntN(100), 1+rng.IntN(40)), graph.Universe{}
		}
		if _, _, err := u.Count(g); err != nil {
			continue // no pair
		}
		nodes, floor := model.NodesOf(g), []float64{0, .01, .3}[rng.IntN(3)]
		kind := slices.Sorted(maps.Keys(kinds))[rng.IntN(len(kinds))]
		if everybody {
			kind = []string{"diagonal", "diagonal-field"}[round%4/3]
		}
		link := must(model.NewLink(kind, nodes, model.LinkOptions{}))(t)
		params := random(rng, link.Size(), kinds[kind])
		terms := randomTerms(rng, nodes)
		if everybody && round%2 == 0 { // one π in each direction of a block, above the floor or not
			terms = model.ExposureTerms{Fields: random(rng, nodes.FieldCount*nodes.FieldCount, 2)}
			floor = []float64{0, .3}[round/2%2]
		}
		p := Predictor{Link: link, LinkParams: params, Propensity: &termed{must(model.NewConstant(.5))(t), terms, nodes,
			link, params}}
		got := must(CPU{Threads: 3}.AllPairs(ctx, g, p, u, floor))(t)
		if again := must(CPU{Threads: 1}.AllPairs(ctx, g, p, u, floor))(t); again != got {
			t.Errorf("seed %d, round %d: %v with one thread, %v with three", seed, round, again, got)
		}
		want, unlinked := allPairsOneByOne(t, g, p, u, floor)
		agree(t, got, want, unlinked)
		if t.Failed() {
			t.Fatalf("seed %d, round %d, %s, floor %v", seed, round, link.Kind(), floor)
		}
	}
}

// allPairsOneByOne is the reference: the terms of every pair by itself, as package risk has them; and the sum of naive
// losses if no pair were linked.
func allPairsOneByOne(t *testing.T, g *graph.Graph, p Predictor, u graph.Universe, floor float64) (Sums, float64) {
	t.Helper()
	pairs := must(graph.AllPairs(g, u, 0))(t)
	k, unlinked := -1, 0.
	sums := must(p.sum(model.Batch{Sources: pairs.Source, Targets: pairs.Target}, func(b risk.Belief) Sums {
		k++
		unlinked += ownTerms(false, b, floor).Naive
		return ownTerms(pairs.Linked[k], b, floor)
	}))(t)
	return sums, unlinked
}

// The propensity models of package model have the dense path, or are summed one by one; both agree.
func TestAllPairsOfEveryPropensity(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 1))
	g := randomGraph(t, rng, 120, 8)
	nodes := model.NodesOf(g)
	nodes.Popularity, nodes.Age = random(rng, g.Len(), 1), random(rng, g.Len(), 10)
	link := must(model.NewDiagonal(nodes, false))(t)
	params := random(rng, link.Size(), .5)
	for _, kind := range []string{"constant", "field-matrix", "low-rank-fields", "mlp", "field-matrix+popularity+age",
		"field-matrix+text+popularity+age"} {
		propensity := must(model.NewPropensity(kind, nodes, model.PropensityOptions{Propensity: .4}))(t)
		p := Predictor{link, params, propensity, random(rng, propensity.Size(), 1)}
		if _, _, dense := p.dense(); dense != (kind != "mlp") {
			t.Errorf("%s: dense is %v", kind, dense)
		}
		got := must(CPU{}.AllPairs(t.Context(), g, p, graph.Universe{}, .01))(t)
		sums, _ := allPairsOneByOne(t, g, p, graph.Universe{}, .01)
		want := sums.Means()
		if math.Abs(got.AP-want.AP) > 2e-5*want.AP || math.Abs(got.Likelihood-want.Likelihood) > 2e-5*want.Likelihood {
			t.Errorf("%s: %+v, want %+v", kind, got, want)
		}
	}
}

func TestAllPairsRefuses(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	g := randomGraph(t, rand.New(rand.NewPCG(1, 2)), 60, 8)
	nodes := model.NodesOf(g)
	p := Predictor{Link: must(model.NewDiagonal(nodes, false))(t), Propensity: must(model.NewFieldMatrix(nodes))(t)}
	p.LinkParams, p.PropensityParams = make([]float32, p.Link.Size()), make([]float32, p.Propensity.Size())
	for name, c := range map[string]struct {
		p     Predictor
		u     graph.Universe
		floor float64
		want  error
	}{
		"no models":       {Predictor{}, graph.Universe{}, 0, ErrShape},
		"one node":        {p, graph.Universe{Sources: []int32{7}, Targets: []int32{7}}, 0, graph.ErrEmptyUniverse},
		"an unknown node": {p, graph.Universe{Sources: []int32{60}}, 0, graph.ErrUnknownNode},
		"a floor of 1":    {p, graph.Universe{}, 1, ErrUnsupported},
		"no floor":        {p, graph.Universe{}, math.NaN(), ErrUnsupported},
	} {
		if _, err := (CPU{}).AllPairs(ctx, g, c.p, c.u, c.floor); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	cancel()
	if _, err := (CPU{}).AllPairs(ctx, g, p, graph.Universe{}, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Sums over all pairs, by the terms of exposure: field pairs alone, and every term.
func BenchmarkAllPairs(b *testing.B) {
	for _, dim := range []int{64, 256} {
		w := must(world.New(b.Context(), world.Settings{Nodes: 4000, Dim: dim, Fields: world.EvenFields(10)}))(b)
		g, nodes := w.Graph(), model.NodesOf(w.Graph())
		rng := rand.New(rand.NewPCG(1, 1))
		nodes.Popularity, nodes.Age = random(rng, g.Len(), 1), random(rng, g.Len(), 10)
		link := must(model.NewDiagonal(nodes, false))(b)
		params := random(rng, link.Size(), .5)
		for _, kind := range []string{"field-matrix", "field-matrix+popularity+age"} {
			propensity := must(model.NewPropensity(kind, nodes, model.PropensityOptions{}))(b)
			p := Predictor{link, params, propensity, random(rng, propensity.Size(), 1)}
			for name, u := range map[string]graph.Universe{"all": {}, "before": {Before: g.Order()}} {
				b.Run(fmt.Sprintf("%s/%s/%d", kind, name, dim), func(b *testing.B) {
					var pairs int64
					for b.Loop() {
						pairs = must(CPU{Threads: 1}.AllPairs(b.Context(), g, p, u, .01))(b).Pairs
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(pairs), "ns/pair")
				})
			}
		}
	}
}

// The rectangle of people and items, without links that were known before, comes to what its pairs do.
func TestAllPairsOfTwoSides(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 1))
	for round := range 20 {
		plain := randomGraph(t, rng, 20+rng.IntN(300), 8)
		var b graph.Builder
		for i := range int32(plain.Len()) {
			role := []graph.Role{graph.SourceOnly, graph.TargetOnly, graph.SourceAndTarget}[rng.IntN(3)]
			must(b.AddNode(graph.Node{ID: plain.ID(i), Field: plain.FieldName(plain.Field(i)), Role: role}))(t)
		}
		for i, j := range plain.Links() {
			_ = b.AddLinkIndex(i, j) // an error where a role does not allow it
		}
		g, _, err := b.Build()
		g = must(must(g, err)(t).WithVectors(plain.Vectors()))(t)
		known := g.WithLinks(func(i int32, place int) bool { return (int(i)+place)%3 == 0 })
		u := randomUniverse(rng, g)
		u.Except = known
		pairs, _, err := u.Count(g)
		if err != nil {
			continue // no pair
		}
		nodes := model.NodesOf(g)
		link := must(model.NewLink([]string{"diagonal", "factors"}[round%2], nodes, model.LinkOptions{}))(t)
		params := random(rng, link.Size(), .5)
		p := Predictor{Link: link, LinkParams: params, Propensity: &termed{must(model.NewConstant(.5))(t),
			randomTerms(rng, nodes), nodes, link, params}}
		got := must(CPU{}.AllPairs(t.Context(), g, p, u, .01))(t)
		want, _ := allPairsOneByOne(t, g, p, u, .01)
		if got.Pairs != pairs || got.Pairs != want.Pairs ||
			math.Abs(got.Likelihood*float64(pairs)-want.Likelihood) > 1e-4*want.Likelihood ||
			math.Abs(got.MeanLink*float64(pairs)-want.Link) > 1e-4*want.Link ||
			math.Abs(got.AP*float64(pairs)-want.AP) > 1e-4*want.Naive {
			t.Errorf("round %d: %+v over %d pairs, want %+v", round, got, pairs, want)
		}
	}
}

// The mean exposure of two fields is of sources of the one and targets of the other.
func TestFieldExposureOfTwoSides(t *testing.T) {
	t.Parallel()
	n := model.Nodes{Fields: []uint16{1, 1, 2, 2}, FieldCount: 3, Sources: []int32{0, 2}, Targets: []int32{1, 2, 3}}
	from, to := n.FieldMembers()
	if !slices.EqualFunc(from, [][]int32{nil, {0}, {2}}, slices.Equal) ||
		!slices.EqualFunc(to, [][]int32{nil, {1}, {2, 3}}, slices.Equal) {
		t.Errorf("%v to %v", from, to)
	}
}
