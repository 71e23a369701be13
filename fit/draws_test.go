package fit

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"unseen/engine"
	"unseen/internal/kern"
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
	field := must(model.NewFieldMatrix(p.Nodes))(t)
	cell, cells, group := occurring(p, field)
	l := must(newLaplace(kern.MatrixOf(p.Nodes.Vectors), p.Train, cell, len(cells), group, engine.CaseControl,
		p.Exposure, threads))(t)
	t.Cleanup(func() { l.x.Close() })
	l.setSpread(leverage)
	theta := make([]float64, l.size())
	for i := range theta {
		theta[i] = rng.NormFloat64() * .5
	}
	return l, theta
}

// The products that draws are made with are those with the matrix that they do without.
func TestDrawsMultiplyByTheInformation(t *testing.T) {
	ctx := context.Background()
	l, theta := midway(t, 2)
	exact := must(l.fisher(ctx, theta))(t)
	l.draws = 8
	d := must(l.fisher(ctx, theta))(t).draws
	factor := mat.NewDense(exact.n, exact.n, nil)
	for i := range exact.n {
		for j := range i + 1 {
			factor.Set(i, j, exact.factor.Data[i*exact.factor.Stride+j])
		}
	}
	var information mat.Dense
	information.Mul(factor, factor.T())
	rng := rand.New(rand.NewPCG(1, 1))
	p := make([][]float64, l.draws+1) // the last is one given s
	for j := range p {
		p[j] = make([]float64, exact.n)
		for i := range p[j] {
			p[j][i] = rng.NormFloat64()
		}
	}
	clear(p[l.draws][l.d+1:])
	for j, got := range must(l.times(ctx, d, p))(t) {
		var want mat.VecDense
		want.MulVec(&information, mat.NewVecDense(exact.n, p[j]))
		for i, x := range got {
			expected := want.AtVec(i)
			if j == l.draws && i > l.d {
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
	ctx := context.Background()
	l, theta := midway(t, 2)
	before := l.leverage
	exact := must(l.covariance(ctx, theta))(t)
	trace := must(l.setLeverage(exact))(t)
	leverage := l.leverage
	l.draws = 64
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
	for l.seed = range uint64(seeds) {
		l.setSpread(before)
		info := must(l.covariance(ctx, theta))(t)
		if l.seed == 0 {
			alone, _ := midway(t, 1)
			alone.draws = l.draws
			if same := must(alone.covariance(ctx, theta))(t).draws; !slices.Equal(flat(same.joint),
				flat(info.draws.joint)) || !slices.Equal(flat(same.given), flat(info.draws.given)) {
				t.Error("with one thread the draws differ")
			}
		}
		for j, g := range functionals {
			sums[j] += info.draws.variance(g) / seeds
		}
		traces += must(l.setLeverage(info))(t) / seeds
		for k, x := range l.leverage {
			levers[k] += float64(x) / seeds
		}
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
		within("a variance", sums[j], dot(g, x), seeds*l.draws)
	}
	within("the trace", traces, trace, seeds*l.draws/2)
	var far float64
	for k, x := range levers {
		far += math.Abs(x/float64(leverage[k]) - 1)
	}
	// a mean deviation is √(2/π) of a standard one
	if far /= float64(len(levers)); far > 1.2*math.Sqrt(2/math.Pi*2/float64(seeds*l.draws/2)) {
		t.Errorf("leverages are off by %.3f on average", far)
	}
}

// Where both methods run they come to the same: the draws change the result by less than their own
// uncertainty and what the rounds of learning leave open.
func TestManyDimensions(t *testing.T) {
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
	says := func(text string) bool { return strings.Contains(text, "known by 128 draws") }
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
