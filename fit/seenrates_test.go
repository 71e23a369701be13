package fit

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"unseen/model"
	"unseen/risk"
	"unseen/sample"
	"unseen/world"
)

// The information of a pair's rates is the expected square of the slopes of its likelihood, over all that its showings
// can come to.
func TestRateInformation(t *testing.T) {
	t.Parallel()
	rates := &sample.SeenRates{Rate: []float64{.4, .1, .7}}
	for _, shown := range [][]int32{{0}, {0, 1}, {1, 1, 2}, {0, 0, 1, 2}} {
		const chance = .35 // that it is wanted
		slopes := func(clicked int) (p float64, dLogit float64, dRate [3]float64) {
			wanted, inner := 1., [3]float64{}
			for k, a := range shown {
				q := rates.Rate[a]
				if clicked>>k&1 == 1 {
					wanted *= q
					inner[a]++
				} else {
					wanted *= 1 - q
					inner[a] -= q / (1 - q)
				}
			}
			p = chance * wanted
			if clicked == 0 {
				p += 1 - chance
			}
			for a := range inner {
				dRate[a] = chance * wanted * inner[a] / p
			}
			d := chance * (1 - chance) * wanted
			if clicked == 0 {
				d -= chance * (1 - chance)
			}
			return p, d / p, dRate
		}
		var own [3][3]float64
		var with [3]float64
		for clicked := range 1 << len(shown) {
			p, d, rate := slopes(clicked)
			for a := range rate {
				with[a] += p * d * rate[a]
				for b := range rate {
					own[a][b] += p * rate[a] * rate[b]
				}
			}
		}
		got, slope := mat.NewSymDense(3, nil), [3]float64{}
		addRates(got, rates, shown, chance, 2, func(rate int, x float64) { slope[rate] += x })
		for a := range own {
			if math.Abs(slope[a]-with[a]) > 1e-12 {
				t.Errorf("%v: rate %d has %v with logit t, want %v", shown, a, slope[a], with[a])
			}
			for b := range own[a] {
				if math.Abs(got.At(a, b)-2*own[a][b]) > 1e-12 {
					t.Errorf("%v: rates %d and %d have %v, want %v", shown, a, b, got.At(a, b), 2*own[a][b])
				}
			}
		}
	}
}

// offeredSmall is a world with a log of what was shown at two places, whose rates were learned.
func offeredSmall(t *testing.T, rates *sample.SeenRates) (sample.Problem, *Result) {
	t.Helper()
	w := must(world.New(t.Context(), world.Settings{Nodes: 120, Dim: 6, Fields: world.EvenFields(2),
		Scenario: world.Scenario{BaseRate: .25, OracleAUC: .85, Seed: 8, Threads: 1,
			Same: world.PropensityRange{Low: .2, High: .3}, Cross: world.PropensityRange{Low: .1, High: .2}}}))(t)
	w = must(w.Linked(t.Context()))(t)
	drawn := must(w.Pairs(t.Context(), 120*119/2, world.Draw{Parts: 1, Older: true}))(t)
	rng := rand.New(rand.NewPCG(3, 0))
	log := &sample.ExposureLog{Rates: rates}
	for k := range drawn.Pairs.Len() {
		if drawn.Pairs.Linked[k] {
			continue
		}
		rate := int32(k % 2)
		log.Source, log.Target = append(log.Source, drawn.Pairs.Source[k]), append(log.Target, drawn.Pairs.Target[k])
		log.Exposed, log.Seen = append(log.Exposed, true), append(log.Seen, rates.Rate[rate])
		log.Linked = append(log.Linked, drawn.Relevant[k] && rng.Float64() < rates.Rate[rate])
		log.Rate = append(log.Rate, rate)
	}
	prepared := must(sample.Prepare(t.Context(), w.Graph(), sample.Options{Log: log,
		Origin: sample.Origin{Plan: sample.Plan{Split: sample.Whole, Log: sample.Offered, Seed: 1}}}))(t)
	return prepared.Problem, mustFit(t, prepared.Problem, Settings{Seed: 1, Threads: 1, Replicates: -1,
		Doctor: QuickDoctor, Starts: []float64{model.StartPropensity}})
}

// What is not known of the rates that were learned with relevance adds what the inverse of the joint information says,
// and comes back with the model.
func TestLearnedRates(t *testing.T) {
	t.Parallel()
	rates := &sample.SeenRates{Rate: []float64{.6, .3}, Scale: []int32{0, 1}, Covariance: make([]float64, 4)}
	problem, r := offeredSmall(t, rates)
	p, links := r.Posterior, r.Link.Size()
	link := make([]float64, links)
	link[links-1] = 1 // the intercept
	back := must(PosteriorOf(must(r.Model())(t)))(t)
	got, want := back.Variance(link, nil), p.Variance(link, nil)
	if math.Abs(got/want-1) > 1e-4 || len(back.seen) != 2 {
		t.Errorf("the variance came back as %v, was %v", got, want)
	}

	p.seen, p.hyper = nil, nil
	before := p.Variance(link, nil)
	if err := r.learnRates(t.Context(), problem); err != nil {
		t.Fatal(err)
	}
	info := must(r.rateInformation(t.Context(), problem))(t)
	own := p.v.(*exactCovariance)
	n := own.factor.N
	factor, joint := mat.NewDense(n, n, nil), mat.NewDense(n+2, n+2, nil)
	for i := range n {
		for j := range i + 1 {
			factor.Set(i, j, own.factor.Data[i*own.factor.Stride+j])
		}
	}
	joint.Slice(0, n, 0, n).(*mat.Dense).Mul(factor, factor.T())
	for a, g := range info.with {
		for i, x := range p.inTheta(g[:links], g[links:]) {
			joint.Set(n+a, i, x)
			joint.Set(i, n+a, x)
		}
		for b := range info.with {
			joint.Set(n+a, n+b, info.own.At(a, b))
		}
		joint.Set(n+a, n+a, joint.At(n+a, n+a)+leastScale)
	}
	var v mat.Dense
	if err := v.Inverse(joint); err != nil {
		t.Fatal(err)
	}
	g := mat.NewVecDense(n+2, append(p.inTheta(link, nil), 0, 0))
	got, want = p.Variance(link, nil), mat.Inner(g, &v, g)
	t.Logf("variance %v given the rates, %v with theirs, %v by the inverse", before, got, want)
	if math.Abs(got/want-1) > 1e-3 || got < 1.02*before {
		t.Errorf("variance %v, by the inverse %v, given the rates %v", got, want, before)
	}
}

// Of rates that share a scale, a common error of what was learned otherwise is the scale's, and adds nothing.
func TestRatesOfOneScale(t *testing.T) {
	t.Parallel()
	rates := &sample.SeenRates{Rate: []float64{.6, .3}, Scale: []int32{0, 0}, Covariance: make([]float64, 4)}
	problem, r := offeredSmall(t, rates)
	problem.Rates.Covariance = make([]float64, 4)
	evidence := sample.Evidence{Pairs: problem.Train}
	variance := func(covariance ...float64) float64 {
		problem.Rates.Covariance, r.Posterior.seen = covariance, nil
		if err := r.learnRates(t.Context(), problem); err != nil {
			t.Fatal(err)
		}
		return math.Pow(must(r.Judge().Risk(t.Context(), evidence, risk.Estimator{}, nil))(t).Nuisance, 2)
	}
	scale, common, apart := variance(0, 0, 0, 0), variance(1, 1, 1, 1), variance(1, -1, -1, 1)
	t.Logf("variance %v, with a common error %v, with one between rates %v", scale, common, apart)
	if math.Abs(common/scale-1) > .02 || apart < 1.02*scale {
		t.Errorf("variance %v, with a common error %v, with one between rates %v", scale, common, apart)
	}
}
