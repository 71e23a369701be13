package fit

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"unseen/graph"
	"unseen/internal/kern"
	"unseen/internal/racetest"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

// TestNuisanceIsTheDeltaMethod checks ∇r̄ᵀV∇r̄ against finite differences in every parameter, with
// the predictions held fixed.
func TestNuisanceIsTheDeltaMethod(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	s := must(saturated())(t)
	ctx := context.Background()
	r := s.result
	own := logitsOf(r, s.test.Pairs)
	mean := func(scheme risk.Scheme, link, propensity []float32) float64 {
		z, p := make([]float32, len(own)), make([]float32, len(own))
		b := model.Batch{Sources: s.test.Pairs.Source, Targets: s.test.Pairs.Target}
		r.Link.Logits(z, link, b)
		r.Propensity.Logits(p, propensity, b)
		var sum risk.Sum
		for k := range z {
			belief := must(risk.FromLogits(float64(z[k]), float64(p[k])))(t)
			e := risk.Estimator{Scheme: scheme, Loss: fixedLoss{kern.Softplus64(-float64(own[k])),
				kern.Softplus64(float64(own[k]))}}
			sum.Add(e.Risk(risk.Observation{Linked: s.test.Pairs.Linked[k]}, belief))
		}
		return sum.Value() / float64(len(z))
	}
	for name, scheme := range map[string]risk.Scheme{"ap": risk.AP{}, "w": risk.W{}} {
		slope := func(params []float32, i int, f func() float64) float64 {
			was := params[i]
			step := float32(.02 * math.Max(math.Abs(float64(was)), .1))
			params[i] = was + step
			up := f()
			params[i] = was - step
			down := f()
			params[i] = was
			return (up - down) / float64(2*step)
		}
		link, propensity := slices.Clone(r.LinkParams), slices.Clone(r.PropensityParams)
		f := func() float64 { return mean(scheme, link, propensity) }
		gLink, gPropensity := make([]float64, len(link)), make([]float64, len(propensity))
		for i := range link {
			gLink[i] = slope(link, i, f)
		}
		for _, at := range r.Posterior.Cells {
			gPropensity[at] = slope(propensity, int(at), f)
		}
		want := math.Sqrt(r.Posterior.Variance(gLink, gPropensity))
		got := must(r.Judge().Risk(ctx, sample.Evidence{Pairs: s.test.Pairs}, risk.Estimator{Scheme: scheme}, nil))(t)
		if math.Abs(got.Nuisance-want) > .01*want {
			t.Errorf("%s: nuisance error %v, by differences %v", name, got.Nuisance, want)
		}
	}
}

// The difference of two risks is the difference of their estimates, whichever of them is the
// judge's own. Where no mass is beyond 1 it is surer than they are, since what they have in common
// falls out.
func TestDifferences(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestEveryMethodRunsOnAnyEngine has the goroutines of every fit")
	s := must(saturated())(t)
	ctx := context.Background()
	judge := s.result.Judge()
	evidence := sample.Evidence{Pairs: s.test.Pairs, Exposure: exposures(s.test, .1)}
	naive := mustFit(t, sample.Problem{Nodes: s.problem.Nodes, Train: s.problem.Train},
		Settings{Method: "naive", Optimiser: "lbfgs"})
	its, other := logitsOf(naive, s.test.Pairs), make([]float32, s.test.Pairs.Len())
	own, theirs := must(judge.Panel(ctx, evidence, .05, nil))(t).Risks,
		must(judge.Panel(ctx, evidence, .05, its))(t).Risks
	zero := must(judge.Panel(ctx, evidence, .05, other))(t).Risks
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	more, less := must(judge.Differences(ctx, evidence, .05, its, nil))(t),
		must(judge.Differences(ctx, evidence, .05, nil, its))(t)
	both := must(judge.Differences(ctx, evidence, .05, its, other))(t)
	if len(more) != len(own) || len(own) != 5 {
		t.Errorf("%d differences of %d risks", len(more), len(own))
	}
	for name, d := range more {
		near(name, d.Plain, theirs[name].Plain-own[name].Plain)
		near(name+", bias", d.Bias, theirs[name].Bias-own[name].Bias)
		near(name+", turned around", less[name].Interval.Estimate, -d.Interval.Estimate)
		near(name+", turned around, bound", less[name].Lower, -d.Upper)
		near(name+", of two others", both[name].Plain, theirs[name].Plain-zero[name].Plain)
		if apart := math.Hypot(theirs[name].StandardError, own[name].StandardError); (name == "naive" ||
			name == "ap") && !(d.StandardError < .9*apart) {
			t.Errorf("%s: standard error %v, were they independent %v", name, d.StandardError, apart)
		}
	}
	one := must(judge.Difference(ctx, evidence, risk.Estimator{Scheme: risk.AP{}, Floor: .05}, its, nil))(t)
	if one != more["ap"] {
		t.Errorf("alone %+v, among the others %+v", one, more["ap"])
	}
	if _, err := judge.Difference(ctx, evidence, risk.Estimator{}, nil, nil); !errors.Is(err, ErrData) {
		t.Errorf("of nothing from nothing: %v", err)
	}
	if _, err := judge.Difference(ctx, evidence, risk.Estimator{}, its, its[1:]); !errors.Is(err, ErrShape) {
		t.Errorf("of too few: %v", err)
	}
}

func TestJudgeDoesNotDependOnThreads(t *testing.T) {
	t.Parallel()
	s := must(saturated())(t)
	ctx := context.Background()
	one, three := s.result.Judge(), s.result.Judge()
	one.Threads, three.Threads = 1, 3
	evidence := sample.Evidence{Pairs: s.train.Pairs}
	a, b := must(one.Panel(ctx, evidence, .05, nil))(t), must(three.Panel(ctx, evidence, .05, nil))(t)
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%+v with one thread, %+v with three", a, b)
	}
	for name := range a.Risks {
		if a.Risks[name].Estimate == a.MeanLink.Estimate {
			t.Errorf("%s is the mean ŷ", name)
		}
	}
	// Alone it is what it is among the others, also where those judge another's predictions.
	other := must(one.Panel(ctx, evidence, .05, make([]float32, evidence.Pairs.Len())))(t)
	if mean := must(one.MeanLink(ctx, evidence))(t); mean != a.MeanLink || mean != other.MeanLink {
		t.Errorf("mean ŷ %+v, in a panel %+v and %+v", mean, a.MeanLink, other.MeanLink)
	}
}

// Where the vectors follow from the links, the doctor does not call the scale identified and says why.
func TestEchoIsDoubted(t *testing.T) {
	t.Parallel()
	s := must(saturated())(t)
	for _, echo := range []float64{.5, .99} {
		p := s.problem
		p.Echo = echo
		f := must(Diagnose(context.Background(), p, s.result))(t)
		says := strings.Contains(strings.Join(f.Verdict, " "), "The vectors follow from the links: they agree to 99%")
		if says != (echo > .9) || says && f.Class != Weak || f.Echo != echo {
			t.Errorf("echo %v: %s, %q", echo, f.Class, f.Verdict)
		}
		if says && (len(f.warnings()) == 0 || !strings.Contains(f.warnings()[0].Message, "follow from the links")) {
			t.Errorf("echo %v: warnings %v", echo, f.warnings())
		}
	}
}

// Exposure that is too rare for links to confirm it is doubted, unless it is logged.
func TestRareExposureIsDoubted(t *testing.T) {
	t.Parallel()
	s := must(saturated())(t)
	rare := *s.result
	rare.Starts = slices.Clone(rare.Starts)
	rare.Starts[0].MeanSame = .0021
	f := must(Diagnose(context.Background(), s.problem, &rare))(t)
	if f.Class != Weak || f.Rare != .0021 ||
		!strings.Contains(f.Verdict[0], "480 times as many things are relevant as were linked") {
		t.Errorf("%s, %q", f.Class, f.Verdict)
	}
	if f = must(Diagnose(context.Background(), s.problem, s.result))(t); f.Rare != 0 {
		t.Errorf("%s, %q", f.Class, f.Verdict)
	}
}

func TestIntervalsAreWiderThanSampling(t *testing.T) {
	t.Parallel()
	s := must(saturated())(t)
	ctx := context.Background()
	evidence := sample.Evidence{Pairs: s.test.Pairs, Exposure: exposures(s.test, .1)}
	panel := must(s.result.Judge().Panel(ctx, evidence, .05, nil))(t).Risks
	for _, name := range []string{"naive", "w", "pu", "ap", "dr"} {
		e, ok := panel[name]
		if !ok || !(e.Lower < e.Estimate && e.Estimate < e.Upper) || e.StandardError < e.Sampling || e.Level != .95 {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if e := panel["naive"]; e.Nuisance != 0 {
		t.Errorf("the naive masses depend on no estimate, but have nuisance error %v", e.Nuisance)
	}
	if _, ok := must(s.result.Judge().Panel(ctx, sample.Evidence{Pairs: s.test.Pairs}, .05, nil))(t).Risks["dr"]; ok {
		t.Error("dr is estimated though nothing is logged")
	}
	level := s.result.Judge()
	level.Level = .5
	if half := must(level.Risk(ctx, evidence, risk.Estimator{},
		nil))(t); !(half.Upper-half.Lower < panel["ap"].Upper-panel["ap"].Lower) {
		t.Error("an interval of level .5 is no narrower")
	}
}

func TestHorvitzThompson(t *testing.T) {
	t.Parallel()
	s := must(saturated())(t)
	e := risk.Estimator{Universe: float64(s.test.Pairs.Universe)}
	a := must(s.result.Judge().Risk(context.Background(), sample.Evidence{Pairs: s.test.Pairs}, e, nil))(t)
	b := must(s.result.Judge().Risk(t.Context(), sample.Evidence{Pairs: s.test.Pairs}, risk.Estimator{}, nil))(t)
	// the weights of a uniform sample add up to the universe
	if math.Abs(a.Plain-b.Plain) > 1e-9 || math.Abs(a.Bias-b.Bias) > 1e-9 || math.Abs(a.Nuisance-b.Nuisance) > 1e-9 {
		t.Errorf("%+v, by Hájek %+v", a, b)
	}
}

func TestJudgeWithoutPosterior(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestJudgeDoesNotDependOnThreads has the goroutines of a judge")
	s := mustSmall(t, world.Saturated(), 2_000, 8, 0, Settings{Method: "mle", Optimiser: "lbfgs"})
	e := must(s.result.Judge().Risk(t.Context(), sample.Evidence{Pairs: s.test.Pairs}, risk.Estimator{}, nil))(t)
	if e.Nuisance != 0 || e.StandardError != e.Sampling {
		t.Errorf("%+v", e)
	}
}

func TestJudgeRefuses(t *testing.T) {
	t.Parallel()
	s := must(saturated())(t)
	ctx := context.Background()
	if _, err := s.result.Judge().Risk(ctx, sample.Evidence{Pairs: s.test.Pairs}, risk.Estimator{},
		make([]float32, 3)); !errors.Is(err, ErrShape) {
		t.Errorf("three predictions: %v", err)
	}
	if _, err := s.result.Judge().Risk(ctx, sample.Evidence{Pairs: s.test.Pairs}, risk.Estimator{Scheme: risk.DR{}},
		nil); err == nil {
		t.Error("dr over pairs that are not logged")
	}
	for name, pairs := range map[string]*graph.Pairs{"nothing held out": nil, "no pairs": {}} {
		if _, err := s.result.Judge().Panel(ctx, sample.Evidence{Pairs: pairs}, .05, nil); !errors.Is(err, ErrData) ||
			!strings.Contains(err.Error(), "split") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := new(Judge).Panel(ctx, sample.Evidence{Pairs: s.test.Pairs}, .05, nil); !errors.Is(err, ErrSetting) ||
		!strings.Contains(err.Error(), "JudgeOf") {
		t.Errorf("a judge without models: %v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.result.Judge().Risk(cancelled, sample.Evidence{Pairs: s.test.Pairs}, risk.Estimator{},
		nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
