package fit

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"unseen/model"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

// newBayesian makes a posterior ready to be found.
func newBayesian(t *testing.T, p sample.Problem, threads int) *bayesian {
	t.Helper()
	b := &bayesian{problem: p, result: &Result{Settings: must(Settings{Threads: threads}.WithDefaults())(t),
		Link: must(model.NewDiagonal(p.Nodes, false))(t), Propensity: must(model.NewFieldMatrix(p.Nodes))(t)}}
	if err := b.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.laplace.close()
		b.laplace.design.Close()
	})
	return b
}

func setLeverage(t *testing.T, l *laplace, leverage []float32) {
	t.Helper()
	o := l.outcomes
	o.Leverage = leverage
	if err := l.observe(o); err != nil {
		t.Fatal(err)
	}
}

// The posterior's gradient agrees with differences of its value, with and without leverage, for
// logged and unlogged pairs of a case-control sample.
func TestPosteriorGradient(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	p := smallProblem(t, 30, 6, 300, 9)
	exposure := make([]risk.Exposure, p.Train.Len())
	for k := range exposure {
		if exposure[k] = risk.Exposure(k % 3); exposure[k] == risk.Unexposed {
			p.Train.Linked[k] = false
		}
	}
	p.Exposure = exposure
	l := newBayesian(t, p, 1).laplace
	rng := rand.New(rand.NewPCG(8, 8))
	theta, grad, scratch := make([]float64, l.size()), make([]float64, l.size()), make([]float64, l.size())
	for i := range theta {
		theta[i] = rng.NormFloat64() * .5
	}
	leverage := make([]float32, p.Train.Len())
	for k := range leverage {
		leverage[k] = rng.Float32() * 3
	}
	for _, lever := range [][]float32{nil, leverage} {
		setLeverage(t, l, lever)
		if _, err := l.value(ctx, theta, grad); err != nil {
			t.Fatal(err)
		}
		for i := range theta {
			const h = 1e-2
			at := theta[i]
			value := func(x float64) float64 {
				theta[i] = x
				v, err := l.value(ctx, theta, scratch)
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			numeric := (value(at+h) - value(at-h)) / (2 * h)
			theta[i] = at
			if math.Abs(numeric-grad[i]) > 2e-3*(1+math.Abs(numeric)) {
				t.Errorf("leverage %v: parameter %d has slope %v, by differences %v", lever != nil, i, grad[i], numeric)
			}
		}
	}
}

// In this world the first steps of a quasi-Newton method lead far away, and from there into another valley: the
// mode from the usual start must be that from the truth.
func TestModeIsThatOfTheTruth(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	ctx := context.Background()
	plan := world.SaturatedRare()
	plan.Seed = 7048
	w := must(world.New(ctx, world.Settings{Nodes: 3000, Dim: 32, Fields: world.EvenFields(8), Scenario: plan}))(t)
	p := sample.Problem{Nodes: model.NodesOf(w.Graph()), Train: must(w.Pairs(ctx, 240_000, world.Draw{}))(t).Pairs}
	b := newBayesian(t, p, 2)
	l := b.laplace
	usual, truth := make([]float64, l.size()), make([]float64, l.size())
	for k, x := range w.Weights() {
		truth[k] = float64(x) * l.design.Unit()
	}
	truth[l.d] = w.Bias()
	for k, c := range b.cell {
		pi := w.Propensity(p.Nodes.Fields[p.Train.Source[k]], p.Nodes.Fields[p.Train.Target[k]])
		usual[l.d+1+int(c)], truth[l.d+1+int(c)] = math.Log(.3/.7), math.Log(pi/(1-pi))
	}
	values := [2]float64{}
	for i, theta := range [][]float64{usual, truth} {
		if err := l.mode(ctx, theta, nil, climb{enough: .01}); err != nil {
			t.Fatal(err)
		}
		values[i] = must(l.value(ctx, theta, make([]float64, l.size())))(t)
	}
	if math.Abs(values[0]-values[1]) > 1 {
		t.Errorf("the mode has %.2f from the usual start and %.2f from the truth", values[0], values[1])
	}
}

// The prior's slope in the terms of other assumptions is that of its value. What is taken out of a slope is all of it
// at 0, and nothing where the links say nothing.
func TestPriorOfTerms(t *testing.T) {
	t.Parallel()
	p := prior{Terms: []normal{{mean: .3, deviation: .5}, {deviation: .5, offset: -40}}}
	slopes := func(at float64) (grad []float64) {
		grad = make([]float64, 3)
		p.add([]float64{0, at, at}, grad)
		return grad[1:]
	}
	for _, at := range []float64{-1.3, 0, .4, 2.5} {
		for i, got := range slopes(at) {
			const h = 1e-5
			up, down := []float64{0, at, at}, []float64{0, at, at}
			up[1+i], down[1+i] = at+h, at-h
			want := (p.add(up, make([]float64, 3)) - p.add(down, make([]float64, 3))) / (2 * h)
			if math.Abs(got-want) > 1e-5*(1+math.Abs(want)) {
				t.Errorf("term %d at %v has slope %v, by differences %v", i, at, got, want)
			}
		}
	}
	if none, far := slopes(0)[1], slopes(6)[1]-6/.25; none != -40 || math.Abs(far) > 1e-3 {
		t.Errorf("%v is taken out at 0, %v far off", none, far)
	}
}
