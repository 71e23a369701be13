package engine

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
)

// inFloat64 sums the likelihood of unlinked pairs in float64, and its gradient by Backward, pair by pair.
type inFloat64 struct{ extra int64 }

func (f inFloat64) SumLikelihood(_ context.Context, o *Objective, params []float32, r Rectangle,
	grad []float64) (sum float64, pairs int64, err error) {
	link, propensity := o.Split(params)
	by := Predictor{Link: o.Link, LinkParams: link, Propensity: o.Propensity, PropensityParams: propensity}
	clear(grad)
	one := make([]float32, o.Size())
	for _, i := range r.Sources {
		for _, j := range r.Targets {
			if !r.has(i, j) {
				continue
			}
			pairs++
			batch, z, s := model.Batch{Sources: []int32{i}, Targets: []int32{j}}, make([]float32, 1), make([]float32, 1)
			by.Logits(z, s, batch)
			y, u := kern.Sigmoid64(float64(z[0]))
			pi, rest := kern.Sigmoid64(float64(s[0]))
			q := u + rest*y
			sum -= math.Log(q)
			if grad == nil {
				continue
			}
			clear(one)
			gradLink, gradPropensity := o.Split(one)
			by.backward(gradLink, gradPropensity, batch, z, []float32{float32(pi * y * u / q)},
				[]float32{float32(pi * y * rest / q)})
			for k, x := range one {
				grad[k] += float64(x)
			}
		}
	}
	return sum, pairs + f.extra, nil
}

// An objective over all pairs is that over a sample which has them all, with every model and risk; so it is where
// another sums what is not linked. Its gradient is what differences say.
func TestGradientOverEveryPair(t *testing.T) {
	t.Parallel()
	for seed := range uint64(24) {
		rng := rand.New(rand.NewPCG(seed, 11))
		g := randomGraph(t, rng, 12+rng.IntN(40), 1+rng.IntN(9))
		n, u := model.NodesOf(g), randomUniverse(rng, g)
		n.Popularity, n.Age = random(rng, n.Len(), 1), random(rng, n.Len(), 1)
		if rng.IntN(3) == 0 {
			u.Except = g.WithLinks(func(int32, int) bool { return rng.IntN(2) == 0 })
		}
		pairs, err := graph.AllPairs(g, u, 1<<20)
		if err != nil || pairs.Len() == 0 {
			continue
		}
		link := must(model.NewLink([]string{"diagonal", "diagonal-field", "low-rank", "mlp"}[seed%4], n,
			model.LinkOptions{Rank: 1, Hidden: 2}))(t)
		kind := []string{"field-matrix", "constant", "field-matrix+text+popularity"}[seed%3]
		propensity := must(model.NewPropensity(kind, n, model.PropensityOptions{Propensity: .3}))(t)
		o := &Objective{Link: link, Propensity: propensity, LambdaL: 1.5, LambdaR: .5, Pairs: pairs, Floor: .05,
			Risk: []RiskTerm{NoRisk, NoRisk, RiskW, RiskAP}[rng.IntN(4)]}
		params := random(rng, o.Size(), .5)
		o.Precision = make([]float64, o.Size())
		for k := range o.Precision {
			o.Precision[k] = .01
		}
		every := *o
		every.Graph, every.Universe, every.Pairs = g, u, nil
		want, got := make([]float64, o.Size()), make([]float64, o.Size())
		expected := must(CPU{}.Gradient(t.Context(), o, params, want))(t)
		parts := must(CPU{Threads: 1}.Gradient(t.Context(), &every, params, got))(t)
		sameParts(t, seed, [2]Parts{parts, expected}, got, want)
		again := make([]float64, o.Size())
		if same := must(CPU{Threads: 3}.Gradient(t.Context(), &every, params, again))(t); same != parts {
			t.Errorf("seed %d: %v with three threads, %v with one", seed, same, parts)
		}
		for k, x := range again {
			if x != got[k] {
				t.Fatalf("seed %d: slope %d is %v with three threads, %v with one", seed, k, x, got[k])
			}
		}
		value := must(CPU{}.Gradient(t.Context(), &every, params, nil))(t)
		if math.Abs(value.Total()-parts.Total()) > 1e-9 {
			t.Errorf("seed %d: %v without a gradient, %v with it", seed, value, parts)
		}
		if o.Risk != NoRisk {
			if _, err := (CPU{}).GradientBy(t.Context(), inFloat64{}, &every, params, got); !errors.Is(err,
				ErrUnsupported) {
				t.Errorf("seed %d: a risk elsewhere: %v", seed, err)
			}
			continue
		}
		parts = must(CPU{}.GradientBy(t.Context(), inFloat64{}, &every, params, got))(t)
		sameParts(t, seed, [2]Parts{parts, expected}, got, want)
		byDifferences(t, seed, &every, params, got)
	}
}

func sameParts(t *testing.T, seed uint64, parts [2]Parts, grad, expected []float64) {
	t.Helper()
	const most = 1e-5
	if math.Abs(parts[0].Total()-parts[1].Total()) > most*(1+math.Abs(parts[1].Total())) {
		t.Errorf("seed %d: %v, of the sample %v", seed, parts[0], parts[1])
	}
	for k, x := range grad {
		if math.Abs(x-expected[k]) > most*(.1+math.Abs(expected[k])) {
			t.Errorf("seed %d: slope %d of %d is %v, of the sample %v", seed, k, len(grad), x, expected[k])
			return
		}
	}
}

// byDifferences compares slopes with differences of the float64 sums.
func byDifferences(t *testing.T, seed uint64, o *Objective, params []float32, grad []float64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 12))
	for range 4 {
		k := rng.IntN(len(params))
		const h = 4e-3
		at := params[k]
		value := func(x float32) float64 {
			params[k] = x
			return must(CPU{}.GradientBy(t.Context(), inFloat64{}, o, params, nil))(t).Total()
		}
		numeric := (value(at+h) - value(at-h)) / float64((at+h)-(at-h))
		params[k] = at
		if math.Abs(numeric-grad[k]) > 2e-3*(.2+math.Abs(numeric)) {
			t.Errorf("seed %d: slope %d of %d is %v, by differences %v", seed, k, len(params), grad[k], numeric)
		}
	}
}

// What cannot be summed over all pairs is refused with what to do.
func TestEveryPairRefuses(t *testing.T) {
	t.Parallel()
	g := randomGraph(t, rand.New(rand.NewPCG(1, 1)), 20, 3)
	n := model.NodesOf(g)
	o := &Objective{Link: must(model.NewDiagonal(n, false))(t), Propensity: must(model.NewFieldMatrix(n))(t),
		LambdaL: 1, Graph: g}
	params := make([]float32, o.Size())
	logged := *o
	logged.Exposure = []risk.Exposure{risk.Exposed}
	if _, err := (CPU{}).Gradient(t.Context(), &logged, params, nil); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
	if _, err := (CPU{}).Gradient(t.Context(), o, params[:2], nil); !errors.Is(err, ErrShape) {
		t.Error(err)
	}
	if _, err := (CPU{}).GradientBy(t.Context(), inFloat64{extra: 1}, o, params, nil); !errors.Is(err, ErrShape) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (CPU{}).Gradient(ctx, o, params, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// BenchmarkGradientOverEveryPair is per pair.
func BenchmarkGradientOverEveryPair(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	g := randomGraph(b, rng, 1000, 64)
	n := model.NodesOf(g)
	o := &Objective{Link: must(model.NewDiagonal(n, false))(b), LambdaL: 1, Graph: g,
		Propensity: must(model.NewConstant(.3))(b)}
	params, grad := random(rng, o.Size(), .1), make([]float64, o.Size())
	for b.Loop() {
		must(CPU{Threads: 1}.Gradient(b.Context(), o, params, grad))(b)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/999_000, "ns/pair")
}
