package fit

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"unseen/engine"
	"unseen/internal/racetest"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

// wholeTrial is a world's pairs, fitted by way of a part of them and as they are.
type wholeTrial struct {
	setup
	seed       uint64
	part, all  *Result
	judgements [2]Judgement // R_AP of each
}

func (s setup) tryWhole(t *testing.T, seed uint64) *wholeTrial {
	t.Helper()
	s.plan.Seed = seed
	nodes := 2000
	if s.caseControl {
		nodes = 1000
	}
	w := must(world.New(t.Context(), world.Settings{Nodes: nodes, Dim: s.dim, Fields: world.EvenFields(4),
		Scenario: s.plan}))(t)
	w, train, test, _ := s.pairsOf(t, w)
	p := sample.Problem{Nodes: model.NodesOf(w.Graph()), Train: train.Pairs, Exposure: exposures(train, s.logged)}
	kept := p.Train.Len() * 9 / 10 // the first part is an eighth of that, and the information from twice as many
	settings := Settings{Doctor: QuickDoctor, Starts: []float64{.3}, Seed: seed, mostBytes: 4 * (s.dim + 1) * kept,
		mostPairs: 2 * kept / partOfBytes}
	out := &wholeTrial{setup: s, seed: seed, part: mustFit(t, p, settings)}
	settings.mostBytes = 0
	out.all = mustFit(t, p, settings)
	evidence := sample.Evidence{Pairs: test.Pairs}
	for i, r := range []*Result{out.part, out.all} {
		out.judgements[i] = must(r.Judge().Risk(t.Context(), evidence, risk.Estimator{}, nil))(t)
	}
	return out
}

// By way of a part of the pairs bayes ends where it ends with all of them: within a fraction of a standard error, with
// standard errors as large, and somewhat larger since the part's own error counts, with intervals as wide, and with a
// bias that is no other, as far as ten replicates can tell.
func TestWhole(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	const seeds = 5 // fewer do not tell how far widths are apart
	for name, s := range map[string]setup{
		"saturated":        {plan: world.Saturated(), pairs: 30_000, dim: 24},
		"saturated-rare":   {plan: world.SaturatedRare(), pairs: 80_000, dim: 16},
		"flat-rare-logged": {plan: world.FlatRare(), pairs: 40_000, dim: 16, logged: .01},
		"case-control":     {plan: world.Saturated(), dim: 24, caseControl: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var errors, widths []float64
			for seed := range uint64(seeds) {
				x := s.tryWhole(t, 300+seed)
				if !slices.ContainsFunc(x.part.Warnings, func(w risk.Warning) bool { return w.Kind == "sample" }) ||
					slices.ContainsFunc(x.all.Warnings, func(w risk.Warning) bool { return w.Kind == "sample" }) {
					t.Errorf("seed %d: warnings %v and %v", x.seed, x.part.Warnings, x.all.Warnings)
				}
				a, b := x.part.Findings.MeanLink, x.all.Findings.MeanLink
				if off := math.Log(a.Value/b.Value) / b.Error; math.Abs(off) > .3 {
					t.Errorf("seed %d: mean ŷ is %v by a part, %v by all: %.2f standard errors", x.seed, a.Value,
						b.Value, off)
				}
				if ratio := a.Error / b.Error; ratio < .97 || ratio > 1.15 {
					t.Errorf("seed %d: the error of mean ŷ is %v by a part, %v by all", x.seed, a.Error, b.Error)
				}
				if off := math.Abs(a.Bias - b.Bias); off > 1.5*b.Error {
					t.Errorf("seed %d: the bias of mean ŷ is %v by a part, %v by all", x.seed, a.Bias, b.Bias)
				}
				mine, others := x.part.Posterior.LogitErrors(), x.all.Posterior.LogitErrors()
				for c, at := range x.all.Posterior.Cells {
					off := float64(x.part.PropensityParams[at]-x.all.PropensityParams[at]) / others[c]
					if math.Abs(off) > .6 || x.part.Posterior.Cells[c] != at {
						t.Errorf("seed %d: the logit of cell %d is off by %.2f standard errors", x.seed, at, off)
					}
					errors = append(errors, math.Log(mine[c]/others[c]))
				}
				mineAP, otherAP := x.judgements[0], x.judgements[1]
				width := otherAP.Upper - otherAP.Lower
				if off := math.Abs(mineAP.Estimate-otherAP.Estimate) / width; off > .25 {
					t.Errorf("seed %d: R_AP is %v by a part, %v by all", x.seed, mineAP.Interval, otherAP.Interval)
				}
				widths = append(widths, math.Log((mineAP.Upper-mineAP.Lower)/width))
			}
			for what, logs := range map[string][]float64{"errors of the logits": errors, "widths of R_AP": widths} {
				mean, se := meanAndError(logs)
				if low, high := -.01-3*se, .1+3*se; mean < low || mean > high {
					t.Errorf("%s: e^%.3f ± %.3f of those of all pairs", what, mean, se)
				}
			}
		})
	}
}

// The part's posterior would have much larger errors than that of all: what is carried over is made as small.
func TestWholeIsSurerThanItsPart(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestWholeThreads has the goroutines of a fit by a part")
	x := setup{plan: world.Saturated(), pairs: 20_000, dim: 8}.tryWhole(t, 11)
	spread := func(r *Result) (sum float64) {
		for _, replicate := range r.Posterior.replicates {
			for i, x := range replicate.link {
				d := float64(x - replicate.truth[i])
				sum += d * d
			}
		}
		return sum / float64(len(r.Posterior.replicates))
	}
	if a, b := spread(x.part), spread(x.all); a < b/2 || a > 2*b {
		t.Errorf("replicates are off by %v by a part, by %v by all", a, b)
	}
}

// The information of a part of the pairs, each counted for as many as it stands for, is that of all but for an error
// that is said.
func TestInformationOfPart(t *testing.T) {
	t.Parallel()
	p := smallProblem(t, 300, 12, 40_000, 5)
	settings := must(Settings{mostBytes: 4 * 13 * 20_000, mostPairs: 8_000, Seed: 2}.WithDefaults())(t)
	var errors []float64
	for seed := range uint64(5) {
		settings.Seed = seed
		b, l := wholeOf(t, p, settings)
		theta := slices.Clone(b.theta)
		part, err := l.method.(byPart).information(t.Context(), l, theta)
		if err != nil {
			t.Fatal(err)
		}
		all, err := byPart{}.information(t.Context(), l, theta)
		if err != nil {
			t.Fatal(err)
		}
		v := must(l.factor(slices.Clone(all)))(t)
		n := l.size()
		for i := range n { // along each parameter
			g := make([]float64, n)
			g[i] = 1
			errors = append(errors, math.Log(v.variance(slices.Clone(g))))
			w := must(l.factor(slices.Clone(part)))(t)
			errors[len(errors)-1] -= math.Log(w.variance(g))
		}
	}
	mean, _ := meanAndError(errors)
	var square float64
	for _, e := range errors {
		square += e * e / float64(len(errors))
	}
	if mean > 0 || mean < -.1 || math.Sqrt(square) > .1 {
		t.Errorf("variances by a part are e^%.3f of those by all, ± %.3f", -mean, math.Sqrt(square))
	}
}

// wholeOf prepares the posterior of all pairs at an arbitrary place.
func wholeOf(t *testing.T, p sample.Problem, s Settings) (*bayesian, *laplace) {
	t.Helper()
	r := &Result{Settings: s, Link: must(model.NewDiagonal(p.Nodes, false))(t),
		Propensity: must(model.NewFieldMatrix(p.Nodes))(t)}
	b := &bayesian{problem: p, result: r, meter: newMeter(nil, 0)}
	if err := b.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.laplace.design.Close() })
	b.theta = make([]float64, b.laplace.size())
	for i := range b.theta {
		b.theta[i] = .3 * math.Sin(float64(7*i))
	}
	if b.whole == nil {
		t.Fatal("the pairs are learned from as they are")
	}
	if err := b.whole.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b, &b.whole.laplace
}

// Whatever the threads, the result has the same bits.
func TestWholeThreads(t *testing.T) {
	t.Parallel()
	p := checkpointProblem(t, 2)
	s := resumables["whole"]
	var first *Result
	for _, threads := range []int{1, 3} {
		s.Threads = threads
		r := mustFit(t, p, s)
		if first == nil {
			first = r
		} else if !slices.Equal(first.LinkParams, r.LinkParams) || !slices.Equal(first.PropensityParams,
			r.PropensityParams) || !reflect.DeepEqual(first.Findings, r.Findings) {
			t.Errorf("%d threads change the fit", threads)
		}
	}
}

// Pairs are thinned with chances that depend on what is seen of them, and weights and rates make up for it.
func TestThinToLearn(t *testing.T) {
	t.Parallel()
	p := smallProblem(t, 300, 4, 50_000, 1)
	p.Exposure = make([]risk.Exposure, p.Train.Len())
	for k := range p.Exposure {
		if k%50 == 0 {
			p.Exposure[k] = risk.Exposed
		}
	}
	var all [3]float64
	for k, w := range p.Train.Weight {
		all[pairKind(p, k)] += w
	}
	for _, sampling := range []string{engine.CaseControl.String(), engine.Unweighted.String()} {
		t.Run(sampling, func(t *testing.T) {
			part, e := thinToLearn(p, 8000, Settings{Sampling: sampling})
			if n := e.Pairs.Len(); n < 7600 || n > 8400 {
				t.Errorf("%d pairs, not 8000", n)
			}
			var kept [3]float64
			for i, k := range part.places {
				kind := pairKind(p, int(k))
				kept[kind] += e.Pairs.Weight[i]
				rate := p.Train.Rate[k]
				if kind < 2 {
					rate *= part.share[0] / part.share[1]
				}
				if e.Pairs.Rate[i] != rate {
					t.Fatalf("pair %d has the rate %v, not %v", k, e.Pairs.Rate[i], rate)
				}
			}
			if part.share[2] != 1 {
				t.Errorf("only %v of the logged pairs", part.share[2])
			}
			for kind := range kept {
				if math.Abs(kept[kind]/all[kind]-1) > .06 {
					t.Errorf("pairs of kind %d weigh %v, not %v", kind, kept[kind], all[kind])
				}
			}
		})
	}
}
