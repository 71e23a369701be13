package fit

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"unseen/engine"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

// The posterior's gradient agrees with differences of its value, with and without leverage, for
// logged and unlogged pairs of a case-control sample.
func TestPosteriorGradient(t *testing.T) {
	ctx := context.Background()
	p := smallProblem(t, 30, 6, 300, 9)
	exposure := make([]risk.Exposure, p.Train.Len())
	for k := range exposure {
		if exposure[k] = risk.Exposure(k % 3); exposure[k] == risk.Unexposed {
			p.Train.Linked[k] = false
		}
	}
	p.Exposure = exposure
	field, err := model.NewFieldMatrix(p.Nodes)
	if err != nil {
		t.Fatal(err)
	}
	cell, cells, group := occurring(p, field)
	l, err := newLaplace(kern.MatrixOf(p.Nodes.Vectors), p.Train, cell, len(cells), group, engine.CaseControl,
		exposure, 1)
	if err != nil {
		t.Fatal(err)
	}
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
		l.setSpread(lever)
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

// The information of a sampled pair is the expected square of its slopes.
func TestInformationOfAPair(t *testing.T) {
	for _, rate := range []float64{1, .3} {
		for _, logged := range []bool{false, true} {
			base := point{pi: .4, rest: .6, rate: rate}
			e := math.Exp(-.7)
			y := 1 / (1 + e)
			observed := base.pi * y
			sampled := observed + rate*(1-observed)
			type outcome struct {
				chance float64
				p      point
			}
			linked, refused, unseen := base, base, base
			linked.linked = true
			outcomes := []outcome{{observed / sampled, linked}, {rate * (1 - observed) / sampled, base}}
			if logged {
				linked.exposure, refused.exposure, unseen.exposure = risk.Exposed, risk.Exposed, risk.Unexposed
				outcomes = []outcome{{observed / sampled, linked}, {rate * base.pi * (1 - y) / sampled, refused},
					{rate * base.rest / sampled, unseen}}
			}
			var zz, zs, ss, dz, ds float64
			var information contribution
			for _, o := range outcomes {
				var c contribution
				if logged {
					o.p.addLogged(&c, e, 1)
				} else {
					o.p.add(&c, e, 1)
				}
				dz, ds = dz+o.chance*c.dz, ds+o.chance*c.ds
				zz, zs, ss = zz+o.chance*c.dz*c.dz, zs+o.chance*c.dz*c.ds, ss+o.chance*c.ds*c.ds
				information.zz += o.chance * c.zz
				information.zs += o.chance * c.zs
				information.ss += o.chance * c.ss
			}
			for name, pair := range map[string][2]float64{"mean ∂z": {dz, 0}, "mean ∂s": {ds, 0},
				"zz": {information.zz, zz}, "zs": {information.zs, zs}, "ss": {information.ss, ss}} {
				if math.Abs(pair[0]-pair[1]) > 1e-12 {
					t.Errorf("rate %v logged %v: %s is %v, want %v", rate, logged, name, pair[0], pair[1])
				}
			}
		}
	}
}

// Losses that are added up by products are the sums of their logarithms, however large they are.
func TestTally(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	l := &laplace{spread: make([]spread, 1)}
	losses := l.tally()
	var want float64
	for range 100_000 {
		i := rng.IntN(4)
		loss := math.Exp(rng.NormFloat64() * 3) // up to some 300,000
		if loss > 700 {
			loss = 700
		}
		losses.add(i, math.Exp(loss))
		want += losses.weights[i] * loss
	}
	if got := losses.total(); math.Abs(got-want) > 1e-11*want {
		t.Errorf("%v, want %v", got, want)
	}
	if sum := losses.weights[0] + 2*(losses.weights[1]+losses.weights[2]+losses.weights[3]); math.Abs(sum-1) > 1e-15 {
		t.Errorf("the weights of the seven points add up to %v", sum)
	}
	losses.add(2, math.Inf(1))
	if got := losses.total(); !math.IsInf(got, 1) {
		t.Errorf("%v with an impossible pair", got)
	}
}

// In this world the first steps of a quasi-Newton method lead far away, and from there into another valley: the
// mode from the usual start must be that from the truth.
func TestModeIsThatOfTheTruth(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	ctx := context.Background()
	plan := world.SaturatedRare()
	plan.Seed = 7048
	w := must(world.New(ctx, world.Settings{Nodes: 3000, Dim: 32, Fields: world.EvenFields(8), Plan: plan}))(t)
	p := sample.Problem{Nodes: model.NodesOf(w.Graph()), Train: must(w.Pairs(ctx, 240_000, world.Draw{}))(t).Pairs}
	field := must(model.NewFieldMatrix(p.Nodes))(t)
	cell, cells, group := occurring(p, field)
	l := must(newLaplace(kern.MatrixOf(p.Nodes.Vectors), p.Train, cell, len(cells), group, engine.CaseControl,
		nil, 2))(t)
	defer l.x.Close()
	usual, truth := make([]float64, l.size()), make([]float64, l.size())
	for k, x := range w.Weights() {
		truth[k] = float64(x) * l.unit
	}
	truth[l.d] = w.Bias()
	for k, c := range cell {
		pi := w.Propensity(p.Nodes.Fields[p.Train.Source[k]], p.Nodes.Fields[p.Train.Target[k]])
		usual[l.d+1+int(c)], truth[l.d+1+int(c)] = math.Log(.3/.7), math.Log(pi/(1-pi))
	}
	values := [2]float64{}
	for i, theta := range [][]float64{usual, truth} {
		if _, err := l.mode(ctx, theta, nil, .01, nil, nil); err != nil {
			t.Fatal(err)
		}
		values[i] = must(l.value(ctx, theta, make([]float64, l.size())))(t)
	}
	if math.Abs(values[0]-values[1]) > 1 {
		t.Errorf("the mode has %.2f from the usual start and %.2f from the truth", values[0], values[1])
	}
}
