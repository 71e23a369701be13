package fit

import (
	"context"
	"math"
	"path/filepath"
	"sync"
	"testing"

	"gonum.org/v1/gonum/mat"

	"unseen/internal/racetest"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

// small is a world that is quickly fitted, and its fit.
type small struct {
	world       *world.World
	train, test *world.TruePairs
	problem     sample.Problem
	result      *Result
}

func newSmall(p world.Scenario, pairs, dim int, logged float64, s Settings) (*small, error) {
	ctx := context.Background()
	w, err := world.New(ctx, world.Settings{Nodes: 1000, Dim: dim, Fields: world.EvenFields(4), Scenario: p})
	if err != nil {
		return nil, err
	}
	out := &small{world: w}
	if out.train, err = w.Pairs(ctx, pairs, world.Draw{Logged: logged}); err != nil {
		return nil, err
	}
	if out.test, err = w.Pairs(ctx, 4_000, world.Draw{Part: 2, Logged: .1}); err != nil {
		return nil, err
	}
	out.problem = sample.Problem{Nodes: model.NodesOf(w.Graph()), Train: out.train.Pairs,
		Exposure: exposures(out.train, logged)}
	if s.Starts == nil {
		s.Starts = []float64{.3}
	}
	if racetest.Enabled { // TestEveryMethodRunsOnAnyEngine has the goroutines of the whole doctor
		s.Doctor = QuickDoctor
	}
	out.result, err = Fit(ctx, out.problem, s)
	return out, err
}

func mustSmall(t testing.TB, p world.Scenario, pairs, dim int, logged float64, s Settings) *small {
	t.Helper()
	return must(newSmall(p, pairs, dim, logged, s))(t)
}

// saturated is shared by the tests that only read it.
var saturated = sync.OnceValues(func() (*small, error) {
	plan := world.Saturated()
	plan.Seed = 31
	return newSmall(plan, 4_000, 16, 0, Settings{Seed: 5})
})

func TestVarianceIsThatOfTheInverse(t *testing.T) {
	t.Parallel()
	s := must(saturated())(t)
	p := s.result.Posterior
	own, n, d := p.v.(*exactCovariance), p.d+1+len(p.Cells), p.d
	factor := mat.NewDense(n, n, nil)
	for i := range n {
		for j := range i + 1 {
			factor.Set(i, j, own.factor.Data[i*own.factor.Stride+j])
		}
	}
	var information, v mat.Dense
	information.Mul(factor, factor.T())
	if err := v.Inverse(&information); err != nil {
		t.Fatal(err)
	}
	// variance of a mean of logits of both kinds, by hand
	link, propensity := make([]float64, d+1), make([]float64, len(s.result.PropensityParams))
	g := mat.NewVecDense(n, nil)
	for i := range link {
		link[i] = math.Sin(float64(i))
		unit := p.unit
		if i == d {
			unit = 1
		}
		g.SetVec(i, link[i]*p.scale/unit)
	}
	for c, at := range p.Cells {
		propensity[at] = math.Cos(float64(c))
		g.SetVec(d+1+c, propensity[at])
	}
	want := mat.Inner(g, &v, g)
	for _, h := range p.hyper {
		var move float64
		for i, x := range link {
			move += x * float64(h.link[i])
		}
		for c, at := range p.Cells {
			move += propensity[at] * float64(h.logits[c])
		}
		want += move * move
	}
	if got := p.Variance(link, propensity); math.Abs(got-want) > 1e-9*want {
		t.Errorf("variance %v, by the inverse %v", got, want)
	}
	if len(p.hyper) != 3 {
		t.Errorf("%d hyperparameters were varied, want α and two τ", len(p.hyper))
	}
	for c, se := range p.LogitErrors() {
		clear(propensity)
		propensity[p.Cells[c]] = 1
		if want := math.Sqrt(p.Variance(nil, propensity)); math.Abs(se-want) > 1e-9*want {
			t.Errorf("cell %d: error %v, by its functional %v", c, se, want)
		}
	}
}

func TestPosteriorComesBack(t *testing.T) {
	t.Parallel()
	s := must(saturated())(t)
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	m := must(s.result.Model())(t)
	if err := model.Save(path, m); err != nil {
		t.Fatal(err)
	}
	back := must(must(model.Open(path))(t).Model(s.problem.Nodes))(t)
	judge := must(JudgeOf(back))(t)
	evidence := sample.Evidence{Pairs: s.test.Pairs}
	want := must(s.result.Judge().Risk(ctx, evidence, risk.Estimator{}, nil))(t)
	got := must(judge.Risk(ctx, evidence, risk.Estimator{}, nil))(t)
	if got.Plain != want.Plain || got.Bias != want.Bias || math.Abs(got.Nuisance/want.Nuisance-1) > 1e-4 {
		t.Errorf("the interval came back as %+v, was %+v", got, want)
	}
	if judge.Posterior.Replicates() != 10 {
		t.Errorf("%d replicates came back", judge.Posterior.Replicates())
	}

	for i := range back.Extra {
		damaged := back
		damaged.Extra = append([]model.Tensor(nil), back.Extra...)
		if damaged.Extra[i].Name == "posterior.factor" {
			damaged.Extra[i].Data = make([]float32, 3)
		} else {
			damaged.Extra[i].Name = "elsewhere"
		}
		if _, err := JudgeOf(damaged); err == nil {
			t.Errorf("no complaint though %s is damaged", back.Extra[i].Name)
		}
	}
	back.Extra = nil
	if p, err := PosteriorOf(back); p != nil || err != nil {
		t.Errorf("a model without posterior has %v, %v", p, err)
	}
}

func TestChanceObeysItsProbabilities(t *testing.T) {
	t.Parallel()
	const n = 40_000
	count := func(y, pi, rate float64, logged risk.Exposure) (linked, exposed float64) {
		for k := range int32(n) {
			o := chance{seed: 9, replicate: 3, source: k, target: 2*k + 1}.outcome(y, pi, rate, logged)
			if o.Linked {
				linked++
			}
			if o.Exposure == risk.Exposed {
				exposed++
			}
			if (logged == risk.Unlogged) != (o.Exposure == risk.Unlogged) ||
				logged.IsOffered() != o.Exposure.IsOffered() || o.Linked && o.Exposure == risk.Unexposed {
				t.Fatalf("impossible: %+v", o)
			}
		}
		return linked / n, exposed / n
	}
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 4*math.Sqrt(want*(1-want)/n) {
			t.Errorf("%s: %.4f, want %.4f", what, got, want)
		}
	}
	kept, shown := count(.5, .4, .1, risk.Exposed) // of .28 that is sampled, .2 is linked and .02 was shown in vain
	near("links of a case-control sample", kept, .2/.28)
	near("exposures of a case-control sample", shown, .22/.28)
	linked, _ := count(.5, .4, 1, risk.Unlogged)
	near("links", linked, .2)
	linked, _ = count(.5, .4, .25, risk.Unlogged)
	near("links of a case-control sample", linked, .2/(.2+.25*.8))
	linked, exposed := count(.5, .4, 1, risk.Exposed)
	near("links where exposure is logged", linked, .2)
	near("exposures", exposed, .4)
	linked, _ = count(.5, .4, 1, risk.Offered)
	near("links of what was offered", linked, .5*.6/(1-.5*.4))
	often := risk.OfferedSeen(.3)
	linked, _ = count(.5, .4, 1, often)
	near("links of what was offered and seen at times", linked, often.Seen()*.5*.6/(1-.5*.4))
}

func TestNoReplicates(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	plan := world.Saturated()
	s := mustSmall(t, plan, 2_000, 8, 0, Settings{Replicates: -1})
	if s.result.Posterior.Replicates() != 0 {
		t.Fatal("there are replicates")
	}
	e := must(s.result.Judge().Risk(t.Context(), sample.Evidence{Pairs: s.test.Pairs}, risk.Estimator{}, nil))(t)
	if e.Bias != 0 || e.Estimate != e.Plain || !(e.StandardError > e.Sampling) {
		t.Errorf("without replicates %+v", e)
	}
}
