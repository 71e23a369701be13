package fit

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"unseen/engine"
	"unseen/internal/kern"
	"unseen/internal/racetest"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

// midway is a posterior between start and mode, of logged and unlogged pairs of a case-control
// sample, with leverage.
func midway(t *testing.T, threads int) (*laplace, []float64) {
	t.Helper()
	p := smallProblem(t, 40, 12, 400, 9)
	p.Exposure = make([]risk.Exposure, p.Train.Len())
	rng := rand.New(rand.NewPCG(8, 8))
	leverage := make([]float32, p.Train.Len())
	for k := range leverage {
		leverage[k] = rng.Float32() * 3
		p.Train.Rate[k] = .3
		if k%5 == 0 {
			if p.Exposure[k] = risk.Exposed; k%10 == 0 && !p.Train.Linked[k] {
				p.Exposure[k] = risk.Unexposed
			}
		}
	}
	l := newBayesian(t, p, threads).laplace
	setLeverage(t, l, leverage)
	theta := make([]float64, l.size())
	for i := range theta {
		theta[i] = rng.NormFloat64() * .5
	}
	return l, theta
}

// The products that draws are made with are those with the matrix that they do without.
func TestDrawsMultiplyByTheInformation(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l, theta := midway(t, 2)
	exact := must(byFactor{}.at(ctx, l, theta))(t).(*exactCovariance)
	method := byDraws{count: 8, threads: 2}
	v := must(method.precondition(ctx, l, theta))(t)
	n := l.size()
	factor := mat.NewDense(n, n, nil)
	for i := range n {
		for j := range i + 1 {
			factor.Set(i, j, exact.factor.Data[i*exact.factor.Stride+j])
		}
	}
	var information mat.Dense
	information.Mul(factor, factor.T())
	rng := rand.New(rand.NewPCG(1, 1))
	p := make([][]float64, method.count+1) // the last is one given s
	for j := range p {
		p[j] = make([]float64, n)
		for i := range p[j] {
			p[j][i] = rng.NormFloat64()
		}
	}
	clear(p[method.count][l.d+1:])
	for j, got := range must(method.times(ctx, l, v, p))(t) {
		var want mat.VecDense
		want.MulVec(&information, mat.NewVecDense(n, p[j]))
		for i, x := range got {
			expected := want.AtVec(i)
			if j == method.count && i > l.d {
				expected = 0
			}
			if math.Abs(x-expected) > 1e-4*mat.Norm(&want, 2) {
				t.Fatalf("vector %d, parameter %d: %v, by the matrix %v", j, i, x, expected)
			}
		}
	}
}

// Variances, the trace and the leverage of draws are those of the inverse, within what chance allows,
// and the draws do not depend on the number of threads.
func TestDrawsHaveTheCovariance(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	ctx := context.Background()
	l, theta := midway(t, 2)
	exact := must(byFactor{}.at(ctx, l, theta))(t)
	leverage := must(exact.leverage(ctx, l.design))(t)
	const count = 64
	rng := rand.New(rand.NewPCG(2, 2))
	functionals := make([][]float64, 6)
	for j := range functionals {
		functionals[j] = make([]float64, l.size())
		for i := range functionals[j] {
			switch {
			case j < 3, j == 3 && i == l.d, j == 4 && i == l.d+1, j == 5 && i > l.d: // the last is the scale of π
				functionals[j][i] = 1 + rng.NormFloat64()*float64(3-min(j, 3))
			}
		}
	}
	const seeds = 12
	sums, levers := make([]float64, len(functionals)), make([]float64, len(leverage))
	var traces float64
	for seed := range uint64(seeds) {
		v := must(byDraws{count: count, seed: seed, threads: 2}.at(ctx, l, theta))(t).(*drawnCovariance)
		if seed == 0 {
			alone, _ := midway(t, 1)
			same := must(byDraws{count: count, threads: 1}.at(ctx, alone, theta))(t).(*drawnCovariance)
			if !reflect.DeepEqual(same.joint, v.joint) || !reflect.DeepEqual(same.given, v.given) {
				t.Error("with one thread the draws differ")
			}
		}
		for j, g := range functionals {
			sums[j] += v.variance(g) / seeds
		}
		for k, x := range must(v.leverage(ctx, l.design))(t) {
			levers[k] += float64(x) / seeds
		}
		traces += v.trace() / seeds
	}
	within := func(what string, got, want float64, draws int) {
		t.Helper()
		if math.Abs(got/want-1) > 4*math.Sqrt(2/float64(draws)) {
			t.Errorf("%s is %v by draws and %v by the inverse", what, got, want)
		}
	}
	for j, g := range functionals {
		x := slices.Clone(g)
		exact.solve(x)
		within("a variance", sums[j], dot(g, x), seeds*count)
	}
	within("the trace", traces, exact.trace(), seeds*count/2)
	var far float64
	for k, x := range levers {
		far += math.Abs(x/float64(leverage[k]) - 1)
	}
	// a mean deviation is √(2/π) of a standard one
	if far /= float64(len(levers)); far > 1.2*math.Sqrt(2/math.Pi*2/float64(seeds*count/2)) {
		t.Errorf("leverages are off by %.3f on average", far)
	}
}

// Where both methods run they come to the same: the draws change the result by less than their own
// uncertainty and what the rounds of learning leave open.
func TestManyDimensions(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	if kern.Variant() == "go" {
		t.Skip("slow without assembly, and the tests above see the same")
	}
	plan := world.Saturated()
	plan.Seed = 3
	s := Settings{Starts: []float64{.3}, Replicates: -1, Threads: 2, Seed: 1}
	exact := mustSmall(t, plan, 2_000, 64, 0, s)
	s.mostExact = 63
	drawn := mustFit(t, exact.problem, s)
	if exact.result.Posterior.Draws() != 0 || drawn.Posterior.Draws() != usualDraws {
		t.Fatalf("%d and %d draws", exact.result.Posterior.Draws(), drawn.Posterior.Draws())
	}
	for _, c := range []struct {
		what      string
		got, want float64
		tolerance float64
	}{
		{"mean ŷ", drawn.Starts[0].MeanLink, exact.result.Starts[0].MeanLink, .05},
		{"mean π̂, one field", drawn.Starts[0].MeanSame, exact.result.Starts[0].MeanSame, .03},
		{"mean π̂, two fields", drawn.Starts[0].MeanCross, exact.result.Starts[0].MeanCross, .05},
		{"α", drawn.Posterior.Alpha, exact.result.Posterior.Alpha, .15},
		{"error of log mean ŷ", drawn.Findings.MeanLink.Error, exact.result.Findings.MeanLink.Error, .2},
		{"error of the ratio", drawn.Findings.Ratio.Error, exact.result.Findings.Ratio.Error, .2},
	} {
		t.Logf("%s: %.4g by draws, %.4g exactly", c.what, c.got, c.want)
		if math.Abs(c.got/c.want-1) > c.tolerance {
			t.Errorf("%s is %v by draws and %v exactly", c.what, c.got, c.want)
		}
	}
	says := func(text string) bool { return strings.Contains(text, "estimated from 128 draws") }
	if !slices.ContainsFunc(drawn.Findings.Verdict, says) || slices.ContainsFunc(exact.result.Findings.Verdict, says) {
		t.Errorf("the doctor says %q of draws and %q of none", drawn.Findings.Verdict, exact.result.Findings.Verdict)
	}
	if !slices.ContainsFunc(drawn.Warnings, func(w risk.Warning) bool { return w.Kind == "approximate" }) {
		t.Errorf("no warning among %v", drawn.Warnings)
	}

	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := model.Save(path, must(drawn.Model())(t)); err != nil {
		t.Fatal(err)
	}
	back := must(must(model.Open(path))(t).Model(exact.problem.Nodes))(t)
	evidence := sample.Evidence{Pairs: exact.test.Pairs}
	want := must(drawn.Judge().Risk(context.Background(), evidence, risk.Estimator{}, nil))(t)
	got := must(must(JudgeOf(back))(t).Risk(context.Background(), evidence, risk.Estimator{}, nil))(t)
	if want.Nuisance == 0 || got != want {
		t.Errorf("the interval came back as %+v, was %+v", got, want)
	}
	for i := range back.Extra {
		if back.Extra[i].Name == "posterior.draws" {
			back.Extra[i].Data = back.Extra[i].Data.([]float32)[1:]
			if _, err := JudgeOf(back); err == nil {
				t.Error("no complaint though the draws are cut short")
			}
		}
	}
}

// What an arrow knows of V, terms of other assumptions included, is what the factor of the whole matrix knows.
func TestArrowIsTheFactor(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	l, theta := midway(t, 2)
	l.assumed = &engine.Assumptions{Terms: []engine.AssumedTerm{{Kind: engine.LinkInExposure},
		{Kind: engine.Dependence}}}
	l.prior.Terms = []normal{{deviation: .5}, {deviation: 3}}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	theta = append(theta, .2, .7)
	information := must(must(l.likelihood(ctx))(t).Information(ctx, theta))(t)
	arrow := must(l.arrow(information))(t)
	whole := must(l.factor(slices.Clone(information)))(t).(*exactCovariance)
	near := func(name string, got, want []float64) {
		t.Helper()
		var scale float64
		for _, x := range want {
			scale = max(scale, math.Abs(x))
		}
		for i, x := range want {
			if len(got) != len(want) || math.Abs(got[i]-x) > 1e-9*scale {
				t.Fatalf("%s: %v, by the whole matrix %v", name, got, want)
			}
		}
	}
	rng := rand.New(rand.NewPCG(3, 3))
	var g, solved, again, roots [2][]float64
	for k := range g {
		for range l.size() {
			g[k] = append(g[k], rng.NormFloat64())
		}
		solved[k], again[k], roots[k] = slices.Clone(g[k]), slices.Clone(g[k]), arrow.root(slices.Clone(g[k]))
		arrow.solve(solved[k])
		whole.solve(again[k])
		near("V·g", solved[k], again[k])
		near("gᵀVg", []float64{arrow.variance(slices.Clone(g[k]))}, []float64{dot(g[k], again[k])})
	}
	near("the covariance by roots", []float64{dot(roots[0], roots[1])}, []float64{dot(g[0], again[1])})
	near("the covariance of cells", arrow.ofCells(), whole.ofCells())
	known, want := arrow.moments(l.prior.group), whole.moments(l.prior.group)
	near("the variances of cells", known.variance, want.variance)
	near("the covariances with groups", known.withGroup, want.withGroup)
	near("the trace", []float64{arrow.trace()}, []float64{whole.trace()})
	near("the factor", lower(arrow.exact().factor), lower(whole.factor))

	c := &checkpoint{file: &model.File{}, whole: map[string]int{}}
	arrow.keep(c, "v")
	restored := restoreArrow(c, "v", l)
	near("the factor of one restored", lower(restored.exact().factor), lower(whole.factor))

	// two halves that differ by a hundredth
	for i := range information {
		information[i] /= 100
	}
	if got, want := arrow.relativeError(slices.Clone(information)), whole.relativeError(information); got > .01 ||
		got < want/2 || got > want*2 {
		t.Errorf("a hundredth of the information is %v of a variance, by the whole matrix %v", got, want)
	}
}
