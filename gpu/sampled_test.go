package gpu

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"testing"
	"time"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/risk"
)

// runSampled does what the kernels of kernels/sampled.cu do.
func (f *fakeCard) runSampled(name string, l launching) int32 {
	s, list := *(*drawn)(l.arguments[0]), l.arguments
	address := func(at int) uint64 { return *(*uint64)(list[at]) }
	number := func(at int) int { return int(*(*uint32)(list[at])) }
	sources, targets := view[uint32](f, s.sources, int(s.count)), view[uint32](f, s.targets, int(s.count))
	product := func(k int) []float64 {
		a := view[float32](f, s.rows+uint64(sources[k])*uint64(s.dim)*4, int(s.dim))
		b := view[float32](f, s.rows+uint64(targets[k])*uint64(s.dim)*4, int(s.dim))
		out := make([]float64, s.dim)
		for d := range out {
			out[d] = float64(a[d]) * float64(b[d])
		}
		return out
	}
	switch name {
	case "dotPairs":
		w, out := view[float32](f, address(1), int(s.dim)), view[float32](f, address(2), int(s.count))
		for k := range out {
			var sum float64
			for d, x := range product(k) {
				sum += x * float64(w[d])
			}
			out[k] = float32(sum)
		}
	case "addPairs":
		weights, order := view[float32](f, address(1), int(s.count)), view[uint32](f, address(2), int(s.count))
		starts := view[uint32](f, address(3), number(4)+1)
		out := view[float64](f, address(5), number(4)*int(s.dim))
		clear(out)
		for g := range number(4) {
			for _, k := range order[starts[g]:starts[g+1]] {
				for d, x := range product(int(k)) {
					out[g*int(s.dim)+d] += x * float64(weights[k])
				}
			}
		}
	case "addSquares":
		f.addSquares(&s, view[float32](f, address(1), int(s.count)), [2]int{number(2), number(3)}, product,
			view[float64](f, address(4), int(l.blocks)*squareTile*squareTile))
	case "addLengths":
		rows := view[float32](f, address(1), number(3)*int(s.dim))
		offsets, out := view[float32](f, address(2), number(3)), view[float32](f, address(4), int(s.count))
		for k := range out {
			x, total := product(k), 0.
			for r, sum := range offsets {
				for d := range x {
					sum += float32(x[d]) * rows[r*int(s.dim)+d]
				}
				total += float64(sum) * float64(sum)
			}
			out[k] = float32(total)
		}
	}
	return 0
}

func (f *fakeCard) addSquares(s *drawn, weights []float32, cut [2]int, product func(k int) []float64, out []float64) {
	clear(out)
	parts, tiles := cut[0], cut[1]
	for number := range parts * tiles {
		part, tile, row := number/tiles, number%tiles, 0
		for (row+1)*(row+2)/2 <= tile {
			row++
		}
		column := tile - row*(row+1)/2
		for k := int(s.count) * part / parts; k < int(s.count)*(part+1)/parts; k++ {
			x := product(k)
			for i := range squareTile {
				for j := range squareTile {
					out[(number*squareTile+i)*squareTile+j] += float64(weights[k]) * x[row*squareTile+i] *
						x[column*squareTile+j]
				}
			}
		}
	}
}

// drawnPairs are random pairs with random outcomes.
func drawnPairs(t *testing.T, rng *rand.Rand, count, nodes, dim int) (engine.DesignPairs, engine.Outcomes) {
	v := must(graph.NewVectors(nodes, dim))(t)
	t.Cleanup(func() { v.Close() })
	for i := range int32(nodes) {
		if err := v.Set(i, draw(rng, dim, 1)); err != nil {
			t.Fatal(err)
		}
	}
	cells := 1 + rng.IntN(7)
	p := engine.DesignPairs{Vectors: v, Pairs: &graph.Pairs{}, Cells: cells, Unit: 1.3, Streamed: true,
		Known:  rng.IntN(3) == 0,
		CellOf: func(source, target int32) int32 { return (source + 2*target) % int32(cells) }}
	var o engine.Outcomes
	logged, spread, rated := rng.IntN(2) == 0, rng.IntN(2) == 0, rng.IntN(2) == 0
	for range count {
		p.Pairs.Source = append(p.Pairs.Source, int32(rng.IntN(nodes)))
		p.Pairs.Target = append(p.Pairs.Target, int32(rng.IntN(nodes)))
		o.Linked = append(o.Linked, rng.IntN(3) == 0)
		if logged {
			o.Exposure = append(o.Exposure, []risk.Exposure{risk.Unlogged, risk.Exposed}[rng.IntN(2)])
		}
		if spread {
			o.Leverage = append(o.Leverage, rng.Float32())
		}
		if rated {
			p.Rate = append(p.Rate, []float64{1, .3}[rng.IntN(2)])
		}
	}
	return p, o
}

// sampleFacts is what a design says.
type sampleFacts struct {
	Value             []float64
	Grad, Information []float64
	Logits, Leverage  []float32
}

func factsOf(t *testing.T, e engine.Engine, p engine.DesignPairs, o engine.Outcomes, lower bool) (out sampleFacts) {
	t.Helper()
	rng := rand.New(rand.NewPCG(4, 4))
	d := p.Vectors.Dim()
	theta := make([]float64, d+1+p.Cells)
	for i := range theta {
		theta[i] = rng.NormFloat64() / math.Sqrt(float64(d))
	}
	root := engine.Root{Lower: lower, Divisor: 1}
	for i := range d + 1 {
		row := draw(rng, d+1, .1)
		if lower {
			clear(row[i+1:])
		} else {
			root.Divisor = 3
		}
		root.Rows = append(root.Rows, row)
	}
	design := must(e.Design(t.Context(), p))(t)
	l := must(design.Observe(t.Context(), o))(t)
	out.Grad, out.Value = make([]float64, len(theta)), make([]float64, 1)
	out.Value[0] = must(l.Value(t.Context(), theta, out.Grad))(t)
	out.Information = must(l.Information(t.Context(), theta))(t)
	out.Logits, out.Leverage = must(design.Logits(t.Context(), theta))(t), must(design.Leverage(t.Context(), root))(t)
	if err := errors.Join(l.Close(), design.Close()); err != nil {
		t.Error(err)
	}
	return out
}

// furthest is the largest difference, to the largest number.
func furthest[T float32 | float64](a, b []T) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	most, size := 0., 1e-30
	for k, x := range a {
		most, size = max(most, math.Abs(float64(x-b[k]))), max(size, math.Abs(float64(b[k])))
		if x != x {
			return math.Inf(1)
		}
	}
	return most / size
}

func (a sampleFacts) from(b sampleFacts) float64 {
	return max(furthest(a.Value, b.Value), furthest(a.Grad, b.Grad), furthest(a.Information, b.Information),
		furthest(a.Logits, b.Logits), furthest(a.Leverage, b.Leverage))
}

// A design on a card says what the processor's says: here one that is not there.
func TestDesignByAFakeCard(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(9, 1))
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	for round := range rounds {
		p, o := drawnPairs(t, rng, 1+rng.IntN(300), 2+rng.IntN(40), 1+rng.IntN(100))
		fake := newFakeCard(80 + 10*int32(round%2))
		e := must(New(must(open(&fake.driver, 0))(t), Settings{}))(t)
		e.fewPairs = 1
		want := factsOf(t, engine.CPU{}, p, o, round%3 > 0)
		got := factsOf(t, e, p, o, round%3 > 0)
		if x := got.from(want); !(x < 2e-5) {
			t.Errorf("%d pairs of %d numbers: %g off: %+v, not %+v", p.Pairs.Len(), p.Vectors.Dim(), x, got, want)
		}
		if err := e.Close(); err != nil || len(fake.memory) > 0 {
			t.Errorf("%d pieces of memory are not given back, %v", len(fake.memory), err)
		}
	}
	p, o := drawnPairs(t, rng, 10, 5, 3)
	fake := newFakeCard(80)
	e := must(New(must(open(&fake.driver, 0))(t), Settings{}))(t)
	e.fewPairs = 1
	design := must(e.Design(t.Context(), p))(t)
	l := must(design.Observe(t.Context(), o))(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	theta := make([]float64, 3+1+p.Cells)
	if _, err := l.Information(ctx, theta); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	fake.fails["cuMemcpyDtoH"] = 700
	if _, err := l.Value(t.Context(), theta, make([]float64, len(theta))); err == nil {
		t.Error("a failing copy is no error")
	}
}

// On a card the same, of more pairs, and the same bits on every run.
func TestDesignOnACard(t *testing.T) {
	d := card(t)
	seed := rand.Uint64()
	t.Logf("%s, seed %d", d.Name, seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	worst := 0.
	for round := range 12 {
		p, o := drawnPairs(t, rng, 1+rng.IntN(60_000), 2+rng.IntN(4000), 1+rng.IntN(300))
		e := must(New(d, Settings{}))(t)
		e.fewPairs = 1
		want, got := factsOf(t, engine.CPU{}, p, o, round%3 > 0), factsOf(t, e, p, o, round%3 > 0)
		worst = max(worst, got.from(want))
		if x := got.from(want); !(x < 3e-5) {
			t.Errorf("%d pairs of %d numbers: %g off", p.Pairs.Len(), p.Vectors.Dim(), x)
		}
		if again := factsOf(t, e, p, o, round%3 > 0); !reflect.DeepEqual(got, again) {
			t.Errorf("%d pairs of %d numbers: other sums the second time", p.Pairs.Len(), p.Vectors.Dim())
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("largest difference from the processor's: %g", worst)
}

// TestDesignSpeedOnACard measures the sums over ten million pairs of 768 numbers, beside the processor's over fewer.
func TestDesignSpeedOnACard(t *testing.T) {
	nodes, err := strconv.Atoi(os.Getenv("UNSEEN_CARD"))
	if err != nil {
		t.Skip("UNSEEN_CARD does not say of how many nodes: no speed was measured; gpu/prove does")
	}
	d := card(t)
	const dim, cells, count = 768, 400, 10_000_000
	v := must(graph.NewVectors(nodes, dim))(t)
	defer v.Close()
	noise := draw(rand.New(rand.NewPCG(1, 2)), 1<<22, 1)
	kern.Chunks(nodes, 1024, kern.Threads(0), func(_, _, from, to int) {
		for i := from; i < to; i++ {
			at := rand.New(rand.NewPCG(uint64(i), 3)).IntN(len(noise) - dim)
			if err := v.Set(int32(i), noise[at:at+dim]); err != nil {
				panic(err)
			}
		}
	})
	rng := rand.New(rand.NewPCG(5, 5))
	for _, of := range []struct {
		name  string
		on    engine.Engine
		pairs int
	}{{"card", must(New(d, Settings{}))(t), count}, {"processor", engine.CPU{}, count / 20}} {
		p := engine.DesignPairs{Vectors: v, Pairs: &graph.Pairs{}, Cells: cells, Unit: 1, Streamed: true,
			CellOf: func(source, target int32) int32 { return source%20*20 + target%20 }}
		var o engine.Outcomes
		for range of.pairs {
			p.Pairs.Source = append(p.Pairs.Source, int32(rng.IntN(nodes)))
			p.Pairs.Target = append(p.Pairs.Target, int32(rng.IntN(nodes)))
			o.Linked = append(o.Linked, rng.IntN(5) == 0)
		}
		theta := make([]float64, dim+1+cells)
		for i := range theta {
			theta[i] = .05 * rng.NormFloat64()
		}
		root := engine.Root{Lower: true, Divisor: 1, Rows: make([][]float32, dim+1)}
		for i := range root.Rows {
			root.Rows[i] = draw(rng, dim+1, .01)
			clear(root.Rows[i][i+1:])
		}
		design := must(of.on.Design(t.Context(), p))(t)
		l := must(design.Observe(t.Context(), o))(t)
		grad := make([]float64, len(theta))
		measure := func(name string, do func()) {
			do()
			began := time.Now()
			do()
			took := time.Since(began).Seconds()
			t.Logf("%-10s %-12s %8.3f s of %d pairs; %7.2f s of %d", of.name, name, took, of.pairs,
				took*count/float64(of.pairs), count)
		}
		measure("gradient", func() { must(l.Value(t.Context(), theta, grad))(t) })
		measure("information", func() { must(l.Information(t.Context(), theta))(t) })
		measure("leverage", func() { must(design.Leverage(t.Context(), root))(t) })
		if err := errors.Join(l.Close(), design.Close()); err != nil {
			t.Error(err)
		}
	}
}

// Nothing is launched without its arguments, which would ruin the card's context for all that follows; and what is
// refused gives its memory back.
func TestSampledOnAFullCard(t *testing.T) {
	t.Parallel()
	fake := newFakeCard(80)
	e := must(New(must(open(&fake.driver, 0))(t), Settings{Threads: 2}))(t)
	e.fewPairs = 1
	p, _ := drawnPairs(t, rand.New(rand.NewPCG(1, 2)), 500, 40, 10)
	refused := p
	refused.Unit = 0
	refused.Rate = []float64{1}
	before := len(fake.memory)
	if _, err := e.Design(t.Context(), refused); err == nil || len(fake.memory) != before {
		t.Errorf("%v; %d pieces of memory are held, %d before", err, len(fake.memory), before)
	}
	design := must(e.Design(t.Context(), p))(t)
	theta := make([]float64, 10+1+p.Cells)
	if _, err := design.Logits(t.Context(), theta); err != nil {
		t.Fatal(err)
	}
	launches, launch := 0, fake.launch
	fake.launch = func(l launching) int32 { launches++; return launch(l) }
	fake.left = 10
	if _, err := design.Logits(t.Context(), theta); err == nil || launches > 0 {
		t.Errorf("%v after %d launches", err, launches)
	}
}
