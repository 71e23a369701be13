package engine

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"unseen/graph"
	"unseen/risk"
)

// A design that keeps no products says what one that keeps them says, whatever the threads.
func TestStreamedDesign(t *testing.T) {
	t.Parallel()
	const nodes, dim, cells, n = 40, 20, 3, 5000
	rng := rand.New(rand.NewPCG(3, 9))
	vectors, err := graph.NewVectors(nodes, dim)
	if err != nil {
		t.Fatal(err)
	}
	row := make([]float32, dim)
	for i := range int32(nodes) {
		for j := range row {
			row[j] = float32(rng.NormFloat64())
		}
		if err := vectors.Set(i, row); err != nil {
			t.Fatal(err)
		}
	}
	cellOf := func(source, target int32) int32 { return (source + 2*target) % cells }
	pairs := &graph.Pairs{}
	var outcomes Outcomes
	var cell []int32
	for range n {
		i, j := int32(rng.IntN(nodes)), int32(rng.IntN(nodes))
		pairs.Source, pairs.Target = append(pairs.Source, i), append(pairs.Target, j)
		pairs.Rate = append(pairs.Rate, []float64{1, .3}[rng.IntN(2)])
		cell = append(cell, cellOf(i, j))
		linked := rng.IntN(3) == 0
		outcomes.Linked = append(outcomes.Linked, linked)
		outcomes.Exposure = append(outcomes.Exposure, []risk.Exposure{risk.Unlogged, risk.Exposed}[rng.IntN(2)])
		outcomes.Leverage = append(outcomes.Leverage, float32(rng.Float64()))
	}
	theta := make([]float64, dim+1+cells)
	for i := range theta {
		theta[i] = .5 * rng.NormFloat64()
	}
	root := Root{Divisor: 3}
	for range 3 {
		draw := make([]float32, dim+1)
		for i := range draw {
			draw[i] = float32(rng.NormFloat64())
		}
		root.Rows = append(root.Rows, draw)
	}
	type found struct {
		value             float64
		grad, information []float64
		logits, leverage  []float32
	}
	find := func(threads int, o Outcomes, p DesignPairs) found {
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
		out := found{grad: make([]float64, len(theta))}
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
	certain := outcomes
	certain.Leverage, certain.Exposure = nil, nil
	for _, o := range []Outcomes{outcomes, certain} {
		p := DesignPairs{Vectors: vectors, Pairs: pairs, Cell: cell, Cells: cells, Rate: pairs.Rate, Unit: 1.3}
		kept := find(2, o, p)
		p.Cell, p.CellOf, p.Streamed = nil, cellOf, true
		one, three := find(1, o, p), find(3, o, p)
		if one.value != three.value || !slices.Equal(one.grad, three.grad) ||
			!slices.Equal(one.information, three.information) || !slices.Equal(one.leverage, three.leverage) {
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
	if _, err := (CPU{}).Design(t.Context(), DesignPairs{Vectors: vectors, Pairs: pairs, Streamed: true}); !errors.Is(
		err, ErrShape) {
		t.Errorf("a streamed design without cells and unit: %v", err)
	}
}
