package gpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
)

// learned is an objective over all pairs, with where it is looked at.
type learned struct {
	name string
	*engine.Objective
	params []float32
	engine.Rectangle
}

// learnedOf are drawn anew with every seed: rectangles of any shape, in an order or in none.
func learnedOf(t testing.TB, seed uint64, rounds, most int) (out []learned) {
	rng := rand.New(rand.NewPCG(seed, 7))
	for round := range rounds {
		nodes, dim := 2+rng.IntN(most), 1+rng.IntN(90)
		if round%5 == 4 {
			dim = 250 + rng.IntN(100)
		}
		g := drawnGraph(t, rng, nodes, dim)
		n := model.NodesOf(g)
		n.Popularity, n.Age = draw(rng, nodes, 1), draw(rng, nodes, 10)
		kind := []string{"field-matrix", "field-matrix+text+popularity+age", "constant", "field-matrix+text",
			"low-rank-fields+popularity", "field-matrix+person+item", "constant+age"}[round%7]
		o := &engine.Objective{Link: must(model.NewLink("diagonal", n, model.LinkOptions{}))(t), Graph: g, LambdaL: 1,
			Propensity: must(model.NewPropensity(kind, n, model.PropensityOptions{Propensity: .9}))(t)}
		l := learned{fmt.Sprintf("%d: %s, %d nodes of %d numbers", round, kind, nodes, dim), o, draw(rng, o.Size(), 2),
			engine.Rectangle{Sources: g.Sources(), Targets: g.Targets()}}
		l.params[dim] = []float32{-14, -3, 1, 5}[rng.IntN(4)]
		if rng.IntN(2) == 0 { // exposure is rare, and more so
			inside := o.Propensity
			if terms, ok := inside.(*model.Covariates); ok {
				inside, _ = terms.Inside()
			}
			for k := range inside.Size() {
				l.params[dim+1+k] -= 10
			}
		}
		if round%2 == 1 {
			some := func(nodes []int32) (out []int32) {
				for _, i := range nodes {
					if rng.IntN(3) > 0 {
						out = append(out, i)
					}
				}
				return out
			}
			l.Sources, l.Targets = some(l.Sources), some(l.Targets)
			o.Universe = graph.Universe{Sources: l.Sources, Targets: l.Targets}
		}
		if rng.IntN(3) == 0 {
			o.Universe.Before = g.ShuffledOrder(rng)
			l.Rank = o.Universe.Before.Rank
		}
		out = append(out, l)
	}
	return out
}

// roundedRows are the vectors of a graph as a card has them, and what rounds a number so.
func roundedRows(g *graph.Graph, format RowFormat) (rounded func(x float32) float32, rows [][]float32) {
	rounded = func(x float32) float32 {
		switch format {
		case BFloat16:
			return math.Float32frombits(uint32(toBFloat16(x)) << 16)
		case Float16:
			half := make([]uint16, 1)
			kern.ToHalf(half, []float32{x})
			out := make([]float32, 1)
			kern.FromHalf(out, half)
			return out[0]
		}
		return x
	}
	rows = make([][]float32, g.Len())
	for i := range rows {
		rows[i] = make([]float32, g.Vectors().Dim())
		g.Vectors().Load(rows[i], int32(i))
		for d, x := range rows[i] {
			rows[i][d] = rounded(x)
		}
	}
	return rounded, rows
}

// inFloat64 sums in float64, pair after pair, of rows as the card has them. It returns how far rounded slopes may be
// off: eight bits of each term.
func (l *learned) inFloat64(format RowFormat) (sum float64, pairs int64, grad, spread []float64) {
	g, dim := l.Graph, l.Graph.Vectors().Dim()
	rounded, rows := roundedRows(g, format)
	link, propensity := l.Split(l.params)
	terms, _ := model.TermsOf(l.Propensity, propensity)
	tile := 64
	if format == BFloat16 {
		tile = slopeTile
	}
	order := make([]int, g.Len())
	for k, i := range slopeNodesOf(model.NodesOf(g), l.Rectangle, tile).nodes {
		if i >= 0 {
			order[i] = k
		}
	}
	grad, spread = make([]float64, l.Size()), make([]float64, l.Size())
	_, place := model.LinkSlope(l.Propensity, propensity)
	for _, i := range l.Sources {
		var others []int32
		var ds []float32
		for _, j := range l.Targets {
			if i == j || l.Rank != nil && l.Rank[j] >= l.Rank[i] {
				continue
			}
			pairs++
			first, second := i, j // whose weights are rounded
			if order[i] < order[j] {
				first, second = j, i
			}
			z := float64(link[dim])
			for d := range dim {
				z += float64(rounded(link[d]*rows[first][d])) * float64(rows[second][d])
			}
			s := float64(terms.Constant) + float64(terms.Link)*z
			for of, at := range map[*[]float32]int{&terms.Fields: int(g.Field(i))*g.FieldCount() + int(g.Field(j)),
				&terms.Source: int(i), &terms.Target: int(j)} {
				if *of != nil {
					s += float64((*of)[at])
				}
			}
			y, u := kern.Sigmoid64(z)
			pi, rest := kern.Sigmoid64(s)
			q := u + rest*y
			sum -= math.Log(q)
			inS := pi * rest * y / q
			slope := pi*y*u/q + float64(terms.Link)*inS
			for d := range dim {
				x := slope * float64(rows[i][d]) * float64(rows[j][d])
				grad[d] += x
				spread[d] += math.Abs(x)
			}
			grad[dim] += slope
			others, ds = append(others, j), append(ds, float32(inS))
			if place >= 0 {
				grad[dim+1+place] += inS * z
			}
		}
		own := make([]float32, l.Propensity.Size())
		l.Propensity.Backward(own, propensity, model.Batch{Sources: slices.Repeat([]int32{i}, len(ds)),
			Targets: others}, ds)
		for k, x := range own {
			grad[dim+1+k] += float64(x)
		}
	}
	return sum, pairs, grad, spread
}

// agree compares sums of a card with those in float64.
func (l *learned) agree(t *testing.T, e *OnCard, rounds bool) (worst float64) {
	t.Helper()
	grad := make([]float64, l.Size())
	sum, pairs, err := e.SumLikelihood(t.Context(), l.Objective, l.params, l.Rectangle, grad)
	if err != nil {
		t.Fatal(err)
	}
	want, count, slopes, spread := l.inFloat64(e.format)
	if pairs != count || math.Abs(sum-want) > 3e-6*(1+math.Abs(want)) {
		t.Errorf("%s, %s: %v of %d pairs, in float64 %v of %d", l.name, e.format, sum, pairs, want, count)
	}
	size := 0.
	for _, x := range slopes {
		size = max(size, math.Abs(x))
	}
	for k, x := range grad {
		most := 2e-5*math.Abs(slopes[k]) + 3e-6*size + 1e-9
		if rounds {
			most += math.Ldexp(spread[k], -8)
		}
		if !(math.Abs(x-slopes[k]) <= most) {
			t.Errorf("%s, %s: slope %d of %d is %v, in float64 %v, and may be %g off", l.name, e.format, k, len(grad),
				x, slopes[k], most)
			return worst
		}
		worst = max(worst, math.Abs(x-slopes[k])/max(size, 1e-9))
	}
	return worst
}

// What the card is given, cut into tiles and stripes and put together again comes to what float64 sums, on both ways.
func TestGradientByAFakeCard(t *testing.T) {
	t.Parallel()
	rounds, most := 10, 120
	if testing.Short() {
		rounds = 5
	}
	for round, l := range learnedOf(t, 1, rounds, most) {
		for _, capability := range []int32{80, 90} {
			for _, format := range []RowFormat{Float32, Float16, BFloat16} {
				if format == Float16 && round%4 > 0 {
					continue
				}
				fake := newFakeCard(capability)
				if round%2 == 0 {
					fake.left = 1 << 24 // stripes of one row of tiles
				}
				e := must(New(must(open(&fake.driver, 0))(t), Settings{Format: format}))(t)
				fake.left = 1 << 30
				l.agree(t, e, capability == 90 && format == BFloat16)
				if err := e.Close(); err != nil || len(fake.memory) > 0 {
					t.Errorf("%s: %v, and %d pieces of memory are not given back", l.name, err, len(fake.memory))
				}
			}
		}
	}
}

// Rows that a card has no room for at once are summed block by block, and come to the same.
func TestGradientInBlocksByAFakeCard(t *testing.T) {
	t.Parallel()
	most := uint32(0)
	for _, l := range learnedOf(t, 11, 7, 250) {
		for _, of := range []struct {
			capability int32
			format     RowFormat
		}{{80, Float32}, {90, BFloat16}} {
			fake := newFakeCard(of.capability)
			e := must(New(must(open(&fake.driver, 0))(t), Settings{Format: of.format, Memory: 1}))(t)
			l.agree(t, e, of.format == BFloat16)
			if l.agree(t, e, of.format == BFloat16); e.learns.block != leastBlock { // once more, from where that ended
				t.Errorf("%s: blocks of %d tiles", l.name, e.learns.block)
			}
			most = max(most, (uint32(len(e.learns.of.tiles))+leastBlock-1)/leastBlock)
			if err := e.Close(); err != nil || len(fake.memory) > 0 {
				t.Errorf("%s: %v, and %d pieces of memory are not given back", l.name, err, len(fake.memory))
			}
		}
	}
	if most < 4 {
		t.Errorf("%d blocks are the most that were tried", most)
	}
}

// Where less is free than was reckoned with, blocks are halved; a card without room for any says so.
func TestGradientOnAFullCard(t *testing.T) {
	t.Parallel()
	l := learnedOf(t, 3, 1, 400)[0]
	const all = 1 << 30
	for _, lacks := range []uint64{0, 1, all} {
		fake := newFakeCard(80)
		e := must(New(must(open(&fake.driver, 0))(t), Settings{}))(t)
		l.agree(t, e, false)
		tiles := uint32(len(e.learns.of.tiles))
		used := fake.left
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if used = all - used; lacks == all {
			used = lacks
		}
		fake.left = used - lacks
		if lacks == all {
			if _, err := e.Gradient(t.Context(), l.Objective, l.params, nil); !errors.Is(err, errFull) ||
				!strings.Contains(err.Error(), "use the processor") {
				t.Error(err)
			}
			continue
		}
		l.agree(t, e, false)
		if e.learns.block < tiles != (lacks > 0) {
			t.Errorf("%d tiles, %d in a block", tiles, e.learns.block)
		}
	}
}

// An objective over all pairs has the processor's value and slopes, links and all; rows are copied to the card once.
func TestObjectiveOverEveryPairByAFakeCard(t *testing.T) {
	t.Parallel()
	for _, l := range learnedOf(t, 3, 2, 150) { // exposure by fields, and by other terms too
		fake := newFakeCard(80)
		e := must(New(must(open(&fake.driver, 0))(t), Settings{}))(t)
		copies, copied := 0, fake.cuMemcpyHtoD_v2
		fake.cuMemcpyHtoD_v2 = func(to uint64, from unsafe.Pointer, n uint64) int32 {
			copies++
			return copied(to, from, n)
		}
		before := 0
		for round := range 3 {
			want, got := make([]float64, l.Size()), make([]float64, l.Size())
			expected := must(e.CPU.Gradient(t.Context(), l.Objective, l.params, want))(t)
			parts := must(e.Gradient(t.Context(), l.Objective, l.params, got))(t)
			if math.Abs(parts.Total()-expected.Total()) > 1e-5*(1+math.Abs(expected.Total())) {
				t.Errorf("%s: %v, of the processor %v", l.name, parts, expected)
			}
			for k, x := range got {
				if math.Abs(x-want[k]) > 1e-5*(.01+math.Abs(want[k])) {
					t.Fatalf("%s: slope %d is %v, of the processor %v", l.name, k, x, want[k])
				}
			}
			if round > 0 && copies-before > 3 {
				t.Errorf("%s: %d copies in round %d", l.name, copies-before, round)
			}
			before = copies
			for k := range l.params {
				l.params[k] *= .9
			}
		}
	}
}

// A card refuses models by name that it has no gradient of, and stops when it is told to.
func TestGradientRefusals(t *testing.T) {
	t.Parallel()
	l := learnedOf(t, 3, 1, 150)[0]
	e := must(New(must(open(&newFakeCard(80).driver, 0))(t), Settings{}))(t)
	n := model.NodesOf(l.Graph)
	lowRank := must(model.NewLink("low-rank", n, model.LinkOptions{Rank: 1}))(t)
	n.Activity = model.ActivitiesOf(l.Graph, nil)
	active := must(model.NewPropensity("field-matrix+activity", n, model.PropensityOptions{}))(t)
	for kind, o := range map[string]engine.Objective{
		"low-rank":              {Link: lowRank, Propensity: l.Propensity},
		"field-matrix+activity": {Link: l.Link, Propensity: active},
	} {
		o.Graph, o.LambdaL = l.Graph, 1
		if _, err := e.Gradient(t.Context(), &o, make([]float32, o.Size()), nil); !errors.Is(err,
			engine.ErrUnsupported) || !strings.Contains(err.Error(), kind) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Gradient(ctx, l.Objective, l.params, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// On a card: the same, on fresh rectangles, and the same bits on every run.
func TestGradientOnACard(t *testing.T) {
	d := card(t)
	seed := rand.Uint64()
	t.Logf("%s, seed %d", d.Name, seed)
	worst := map[RowFormat]float64{}
	for _, l := range learnedOf(t, seed, 28, 1200) {
		for _, format := range []RowFormat{Float32, Float16, BFloat16} {
			inBlocks := must(New(d, Settings{Format: format, Memory: 1}))(t)
			y := l.agree(t, inBlocks, d.Capability == hopper && format == BFloat16)
			e := must(New(d, Settings{Format: format}))(t)
			x := l.agree(t, e, d.Capability == hopper && format == BFloat16)
			worst[format] = max(worst[format], x, y)
			if err := inBlocks.Close(); err != nil {
				t.Error(err)
			}
			first, second := make([]float64, l.Size()), make([]float64, l.Size())
			a, _, err1 := e.SumLikelihood(t.Context(), l.Objective, l.params, l.Rectangle, first)
			b, _, err2 := e.SumLikelihood(t.Context(), l.Objective, l.params, l.Rectangle, second)
			if err := errors.Join(err1, err2, e.Close()); err != nil || a != b || !slices.Equal(first, second) {
				t.Errorf("%s, %s: %v; %v and then %v", l.name, format, err, a, b)
			}
		}
	}
	t.Logf("largest errors of slopes, in parts of the largest: %v", worst)
}
