package study

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"unseen/figure"
	"unseen/internal/racetest"
	"unseen/risk"
)

// In every small world the true risk is below the bound, and below the sharper one; every term is there.
func TestBoundHolds(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	nodes, seeds := []int{8, 14}, []uint64{1, 2}
	guarantees, err := small(2, seeds...).boundRows(t.Context(), nodes, seeds, 2)
	if err != nil {
		t.Fatal(err)
	}
	if len(guarantees) != len(nodes)*len(seeds)*len(boundSchemes) {
		t.Fatalf("%d guarantees", len(guarantees))
	}
	for _, g := range guarantees {
		if !(g.Risk <= g.Sharper && g.Sharper < g.Bound) {
			t.Errorf("risk %v, sharper %v, bound %v: %+v", g.Risk, g.Sharper, g.Bound, g)
		}
		if !(g.Risk > 0 && g.Risk <= boundLoss && g.Complexity > 0 && g.Margin > 0 && g.Bias >= 0) ||
			g.Pairs != g.Nodes*(g.Nodes-1) {
			t.Errorf("%+v", g)
		}
		if sum := g.Estimate + g.Bias + 2*g.Complexity + 3*g.Margin; math.Abs(float64(sum-g.Bound)) > 1e-9 {
			t.Errorf("the terms add up to %v, the bound is %v", sum, g.Bound)
		}
	}
	// What flipping a link can do is least for R_AP, and everything but B shrinks as nodes are added.
	for _, s := range boundSchemes {
		few, many := boundRowsOf(guarantees, s.name, nodes[0]), boundRowsOf(guarantees, s.name, nodes[1])
		complexity := func(g *BoundRow) figure.Value { return g.Complexity }
		a := meanOf(few, complexity)
		b := meanOf(many, complexity)
		if !(b < a) || !(many[0].Margin < few[0].Margin) {
			t.Errorf("%s: complexity %v with %d nodes, %v with %d", s.name, a, nodes[0], b, nodes[1])
		}
	}
	raw, err := json.Marshal(guarantees)
	if err != nil {
		t.Fatal(err)
	}
	var again []*BoundRow
	if err := json.Unmarshal(raw, &again); err != nil || !reflect.DeepEqual(again, guarantees) {
		t.Errorf("read again: %v", err)
	}
}

// Neither the number of threads nor the order of the schemes changes a guarantee.
func TestBoundDependsOnSeedsAlone(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestStudies has the same goroutines")
	one, err := small(1, 5).boundRows(t.Context(), []int{10}, []uint64{5}, 2)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newClass(t.Context(), 10, 5)
	if err != nil {
		t.Fatal(err)
	}
	defer c.world.Graph().Vectors().Close()
	last := boundSchemes[len(boundSchemes)-1]
	g, err := c.row(t.Context(), last.name, last.scheme, 2)
	if err != nil || !reflect.DeepEqual(g, one[len(one)-1]) {
		t.Errorf("%+v and %+v: %v", g, one[len(one)-1], err)
	}
}

// The maximiser's value is that of a member of the class, and no member that is tried at random has a larger one.
func TestMaximiser(t *testing.T) {
	t.Parallel()
	c, err := newClass(t.Context(), 12, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer c.world.Graph().Vectors().Close()
	r := rand.New(rand.NewPCG(1, 2))
	signs := make([]int8, c.sample.Pairs.Len())
	for k := range signs {
		signs[k] = int8(2*r.IntN(2) - 1)
	}
	for _, s := range boundSchemes {
		e := risk.Estimator{Scheme: s.scheme, Loss: risk.CappedLogLoss{Cap: boundLoss}}
		found, err := c.largest(e)(t.Context(), signs)
		if err != nil {
			t.Fatal(err)
		}
		for range 500 {
			x := make([]float64, len(c.scale))
			for i := range x {
				x[i] = 3 * r.NormFloat64()
			}
			c.project(x)
			params := c.params(x)
			beliefs, err := c.believe(params[:c.link.Size()], params[c.link.Size():])
			if err != nil {
				t.Fatal(err)
			}
			var sum float64
			for k, b := range beliefs {
				sum += float64(signs[k]) * e.Risk(c.sample.Observation(k), b)
			}
			if sum /= float64(len(signs)); sum > found {
				t.Fatalf("%s: a member has %v, the largest found is %v", s.name, sum, found)
			}
		}
	}
}

// Of the points of a ball, the one nearest to a point outside is on the way to its centre.
func TestProjectedDescent(t *testing.T) {
	t.Parallel()
	centre := []float64{3, 4, 0}
	curved := []float64{1, 10, 100}
	nearest := func(curvature []float64) func(x, grad []float64) (float64, error) {
		return func(x, grad []float64) (sum float64, _ error) {
			for i := range x {
				d := x[i] - centre[i]
				sum += curvature[i] * d * d / 2
				grad[i] = curvature[i] * d
			}
			return sum, nil
		}
	}
	within := func(radius float64) func([]float64) {
		return func(x []float64) {
			var square float64
			for _, v := range x {
				square += v * v
			}
			for i := range x {
				x[i] *= math.Min(1, radius/math.Sqrt(math.Max(square, 1e-300)))
			}
		}
	}
	x := []float64{-1, .5, 1}
	value, err := projectedDescent(t.Context(), nearest([]float64{1, 1, 1}), within(2), x)
	if err != nil || math.Abs(value-4.5) > 1e-3 || math.Abs(x[0]-1.2) > 1e-2 || math.Abs(x[1]-1.6) > 1e-2 {
		t.Errorf("%v at %v: %v", value, x, err)
	}
	x = []float64{-1, .5, 1}
	if value, err = projectedDescent(t.Context(), nearest(curved), within(100), x); err != nil || value > 1e-3 {
		t.Errorf("%v at %v: %v", value, x, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := projectedDescent(ctx, nearest(curved), within(100), x); err == nil {
		t.Error("it was not stopped")
	}
}

func TestProject(t *testing.T) {
	t.Parallel()
	c, err := newClass(t.Context(), 10, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer c.world.Graph().Vectors().Close()
	x := make([]float64, len(c.scale))
	for i := range x {
		x[i] = 100
	}
	x[len(x)-1] = -100
	c.project(x)
	var square float64
	for _, w := range x[:c.link.Size()] {
		square += w * w
	}
	last := 1 / (1 + math.Exp(-x[len(x)-1]))
	if math.Abs(math.Sqrt(square)-ballRadius) > 1e-9 || math.Abs(last-boundFloor) > 1e-9 {
		t.Errorf("norm %v, least π̂ %v", math.Sqrt(square), last)
	}
	// The truth is a member, or the bound would be about a class that cannot learn it.
	weights := append(c.world.Weights(), float32(c.world.Bias()))
	square = 0
	for i, w := range weights {
		square += float64(w) * float64(w) / c.scale[i] / c.scale[i]
	}
	if math.Sqrt(square) > ballRadius {
		t.Errorf("the truth has the norm %v", math.Sqrt(square))
	}
}

func TestNodesFor(t *testing.T) {
	t.Parallel()
	for _, three := range []float64{1, .1, .03} {
		n := nodesFor(three)
		margin := func(n float64) float64 {
			m, err := risk.Bound{Loss: boundLoss, Floor: boundFloor, Universe: n * (n - 1),
				Failure: boundFailure}.Margin()
			if err != nil {
				t.Fatal(err)
			}
			return 3 * m
		}
		if margin(n) > three || margin(n-1) <= three {
			t.Errorf("3M is %v with %v nodes, %v with one fewer; %v is wanted", margin(n), n, margin(n-1), three)
		}
	}
}
