package engine

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"unseen/graph"
	"unseen/risk"
)

// streamedPairs are random pairs with random outcomes, and how their design is made.
func streamedPairs(t *testing.T, rng *rand.Rand, n, dim, cells int) (DesignPairs, Outcomes) {
	t.Helper()
	const nodes = 40
	vectors, err := graph.NewVectors(nodes, dim)
	if err != nil {
		t.Fatal(err)
	}
	for i := range int32(nodes) {
		if err := vectors.Set(i, normalRow(rng, dim)); err != nil {
			t.Fatal(err)
		}
	}
	p := DesignPairs{Vectors: vectors, Pairs: &graph.Pairs{}, Cells: cells, Unit: 1.3,
		CellOf: func(source, target int32) int32 { return (source + 2*target) % int32(cells) }}
	var o Outcomes
	for range n {
		i, j := int32(rng.IntN(nodes)), int32(rng.IntN(nodes))
		p.Pairs.Source, p.Pairs.Target = append(p.Pairs.Source, i), append(p.Pairs.Target, j)
		p.Rate = append(p.Rate, []float64{1, .3}[rng.IntN(2)])
		p.Cell = append(p.Cell, p.CellOf(i, j))
		o.Linked = append(o.Linked, rng.IntN(3) == 0)
		o.Exposure = append(o.Exposure, []risk.Exposure{risk.Unlogged, risk.Exposed}[rng.IntN(2)])
		o.Leverage = append(o.Leverage, float32(rng.Float64()))
	}
	return p, o
}

func normalRow(rng *rand.Rand, n int) []float32 {
	row := make([]float32, n)
	for i := range row {
		row[i] = float32(rng.NormFloat64())
	}
	return row
}

// designFacts is all that a streamed design can say.
type designFacts struct {
	value             float64
	grad, information []float64
	logits, leverage  []float32
}

func factsOf(t *testing.T, threads int, p DesignPairs, o Outcomes, theta []float64, root Root) designFacts {
	t.Helper()
	design, err := CPU{Threads: threads}.Design(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer design.Close()
	l, err := design.Observe(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out := designFacts{grad: make([]float64, len(theta))}
	var errs [4]error
	out.value, errs[0] = l.Value(t.Context(), theta, out.grad)
	out.information, errs[1] = l.Information(t.Context(), theta)
	out.logits, errs[2] = design.Logits(t.Context(), theta)
	out.leverage, errs[3] = design.Leverage(t.Context(), root)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return out
}

// A design that keeps no products says what one that keeps them says, whatever the threads.
func TestStreamedDesign(t *testing.T) {
	t.Parallel()
	const dim, cells, n = 20, 3, 5000
	rng := rand.New(rand.NewPCG(3, 9))
	pairs, outcomes := streamedPairs(t, rng, n, dim, cells)
	theta := make([]float64, dim+1+cells)
	for i := range theta {
		theta[i] = .5 * rng.NormFloat64()
	}
	root := Root{Divisor: 3}
	for range 3 {
		root.Rows = append(root.Rows, normalRow(rng, dim+1))
	}
	certain := outcomes
	certain.Leverage, certain.Exposure = nil, nil
	for _, o := range []Outcomes{outcomes, certain} {
		p := pairs
		p.CellOf = nil
		kept := factsOf(t, 2, p, o, theta, root)
		p = pairs
		p.Cell, p.Streamed = nil, true
		one, three := factsOf(t, 1, p, o, theta, root), factsOf(t, 3, p, o, theta, root)
		if !reflect.DeepEqual(one, three) {
			t.Error("the threads change it")
		}
		if !near(kept.value, one.value, 1e-6) {
			t.Errorf("the value is %v, not %v", one.value, kept.value)
		}
		for i := range kept.grad {
			if !near(kept.grad[i], one.grad[i], 1e-4) {
				t.Errorf("slope %d is %v, not %v", i, one.grad[i], kept.grad[i])
			}
		}
		for i := range kept.information {
			if !near(kept.information[i], one.information[i], 1e-4) {
				t.Errorf("information %d is %v, not %v", i, one.information[i], kept.information[i])
			}
		}
		for k := range kept.logits {
			if !near(float64(kept.logits[k]), float64(one.logits[k]), 1e-5) ||
				!near(float64(kept.leverage[k]), float64(one.leverage[k]), 1e-5) {
				t.Fatalf("pair %d: logit %v, not %v; leverage %v, not %v", k, one.logits[k], kept.logits[k],
					one.leverage[k], kept.leverage[k])
			}
		}
	}
	pairs.Streamed, pairs.Unit = true, 0
	if _, err := (CPU{}).Design(t.Context(), pairs); !errors.Is(err, ErrShape) {
		t.Errorf("a streamed design without a unit: %v", err)
	}
}

// TestStreamedInformationOfManyPairs holds the information of a million pairs, which float32 sums would blur, against
// those of parts of them.
func TestStreamedInformationOfManyPairs(t *testing.T) {
	const n, part = 1 << 20, 1 << 15
	p, o := streamedPairs(t, rand.New(rand.NewPCG(3, 4)), n, 3, 2)
	p.Streamed, o.Leverage = true, nil
	theta := []float64{.4, -.3, .2, -1, .5, -.6}
	information := func(from, to int) []float64 {
		some, seen := p, Outcomes{Linked: o.Linked[from:to], Exposure: o.Exposure[from:to]}
		some.Pairs = &graph.Pairs{Source: p.Pairs.Source[from:to], Target: p.Pairs.Target[from:to]}
		some.Rate = p.Rate[from:to]
		design, err := CPU{Threads: 2}.Design(t.Context(), some)
		if err != nil {
			t.Fatal(err)
		}
		l, err := design.Observe(t.Context(), seen)
		if err != nil {
			t.Fatal(err)
		}
		full, err := l.Information(t.Context(), theta)
		if err != nil {
			t.Fatal(err)
		}
		return full
	}
	want := make([]float64, len(theta)*len(theta))
	for from := 0; from < n; from += part {
		for i, x := range information(from, from+part) {
			want[i] += x
		}
	}
	var off, size float64
	for i, x := range information(0, n) {
		off, size = off+(x-want[i])*(x-want[i]), size+want[i]*want[i]
	}
	if off = math.Sqrt(off / size); off > 1e-6 {
		t.Errorf("off by %.2g", off)
	}
}
