package risk_test

import (
	"context"
	"errors"
	"fmt"
	"math"

	"unseen/risk"
)

// must stands for the error handling of a real program.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// A machine-learning paper sees 90% of machine-learning papers and 60% of physics papers, and would cite
// either with probability .8 if it saw them.
func Example() {
	near := must(risk.FromProbabilities(.8, .9)) // ŷ, π̂
	far := must(risk.FromProbabilities(.8, .6))
	fmt.Printf("cited:                 %.2f %.2f\n", near.Observed(), far.Observed())
	fmt.Printf("uncited but relevant:  %.2f %.2f\n", near.Hidden(), far.Hidden())

	missing := risk.Observation{Linked: false}
	for _, name := range []string{"naive", "ap"} {
		e := risk.Estimator{Scheme: must(risk.Lookup(name))}
		fmt.Printf("%-5s risk, uncited:   %.2f %.2f\n", name, e.Risk(missing, near), e.Risk(missing, far))
	}
	// Output:
	// cited:                 0.72 0.48
	// uncited but relevant:  0.29 0.62
	// naive risk, uncited:   1.61 1.61
	// ap    risk, uncited:   1.21 0.76
}

// From slices in memory to a risk: which pairs are linked, and what the models say of each.
func Example_slices() {
	linked := []bool{true, false, false, true, false, false}
	relevant := []float64{.9, .7, .1, .8, .6, .2} // ŷ
	exposed := []float64{.8, .3, .9, .5, .4, .9}  // π̂
	pairs := make([]risk.Pair, len(linked))
	for k := range pairs {
		belief, err := risk.FromProbabilities(relevant[k], exposed[k])
		if err != nil {
			fmt.Println("pair", k, err)
			return
		}
		pairs[k] = risk.Pair{Observation: risk.Observation{Linked: linked[k]}, Belief: belief, Weight: 1}
	}
	for _, name := range []string{"naive", "ap"} {
		scheme, err := risk.Lookup(name)
		if err != nil {
			fmt.Println(err)
			return
		}
		estimate, err := risk.Estimator{Scheme: scheme}.Estimate(pairs)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%-5s %.3f\n", name, estimate.Value)
	}
	// Output:
	// naive 0.463
	// ap    0.353
}

func ExampleBelief() {
	b := must(risk.FromProbabilities(.8, .6))
	fmt.Printf("ŷ %.1f and %.1f, π̂ %.1f and %.1f, 1/π̂ %.2f\n", b.Link(), b.NotLink(), b.Propensity(),
		b.NotPropensity(), b.InversePropensity())
	fmt.Printf("z %.3f, s %.3f, ô %v\n", b.LinkLogit(), b.PropensityLogit(), b.Predicted())
	fmt.Printf("seen %.2f, unseen %.2f; unseen and irrelevant %.3f, unseen and hidden %.3f\n", b.Observed(),
		b.Unobserved(), b.Irrelevant(), b.Hidden())
	// Output:
	// ŷ 0.8 and 0.2, π̂ 0.6 and 0.4, 1/π̂ 1.67
	// z 1.386, s 0.405, ô true
	// seen 0.48, unseen 0.52; unseen and irrelevant 0.385, unseen and hidden 0.615
}

func ExampleFromLogits() {
	b := must(risk.FromLogits(40, -2))
	fmt.Println(b.Link(), b.NotLink()) // 1 − ŷ is not lost although ŷ rounds to 1
	_, err := risk.FromLogits(math.NaN(), 0)
	fmt.Println(errors.Is(err, risk.ErrLogit))
	// Output:
	// 1 4.248354255291589e-18
	// true
}

func ExampleFromProbabilities() {
	_, err := risk.FromProbabilities(.5, 1.2)
	fmt.Println(err)
	// Output: probability outside [0, 1]: π̂ = 1.2; pass logits through FromLogits
}

func ExampleBelief_Floored() {
	b := must(risk.FromProbabilities(.5, .001))
	floored := b.Floored(.05)
	fmt.Println(b.InversePropensity(), floored.InversePropensity(), floored.Clipped())
	// Output: 1000 20 true
}

func ExampleLog() {
	linked, unlinked := risk.LogLoss{}.Losses(must(risk.FromProbabilities(.8, 1)))
	fmt.Printf("%.3f %.3f, bound %v\n", linked, unlinked, risk.LogLoss{}.Bound())
	// Output: 0.223 1.609, bound +Inf
}

func ExampleCappedLogLoss() {
	loss := risk.CappedLogLoss{Cap: 3}
	certain := must(risk.FromProbabilities(1, .5))
	linked, unlinked := loss.Losses(certain)
	slopeLinked, slopeUnlinked := loss.Slopes(certain)
	fmt.Println(linked, unlinked, slopeLinked == 0, slopeUnlinked, loss.Bound())
	// Output: 0 3 true 0 3
}

func ExampleZeroOne() {
	linked, unlinked := risk.ZeroOne{Cost: 2}.Losses(must(risk.FromProbabilities(.8, 1)))
	fmt.Println(linked, unlinked)
	// Output: 0 2
}

func ExampleObservation() {
	seen := risk.Observation{Linked: true}
	logged := risk.Observation{Linked: false, Exposure: risk.Exposed}
	planted := risk.Observation{}.WithRelevance(.3)
	y, known := planted.Relevance()
	fmt.Println(seen.Linked, logged.Exposure == risk.Exposed, y, known)
	// Output: true true 0.3 true
}

func ExampleMass() {
	b := must(risk.FromProbabilities(.8, .5))
	for _, name := range []string{"naive", "w", "pu", "ap"} {
		s := must(risk.Lookup(name))
		link := s.Mass(risk.Observation{Linked: true}, b)
		none := s.Mass(risk.Observation{Linked: false}, b)
		fmt.Printf("%-5s link: P %.2f N %5.2f   no link: P %.2f N %.2f\n", name, link.Positive, link.Negative,
			none.Positive, none.Negative)
	}
	// Output:
	// naive link: P 1.00 N  0.00   no link: P 0.00 N 1.00
	// w     link: P 2.00 N  0.00   no link: P 0.00 N 0.33
	// pu    link: P 2.00 N -1.00   no link: P 0.00 N 1.00
	// ap    link: P 1.00 N  0.00   no link: P 0.67 N 0.33
}

func ExampleTrue() {
	truth := risk.Estimator{Scheme: risk.True{}, Loss: risk.ZeroOne{}}
	b := must(risk.FromProbabilities(.2, .5)) // predicts no link
	fmt.Println(truth.Risk(risk.Observation{}.WithRelevance(.3), b))
	// Output: 0.3
}

func ExampleNaive() {
	e := risk.Estimator{Scheme: risk.Naive{}, Loss: risk.ZeroOne{}}
	b := must(risk.FromProbabilities(.8, .5)) // predicts a link
	fmt.Println(e.Risk(risk.Observation{Linked: false}, b))
	// Output: 1
}

func ExampleW() {
	e := risk.Estimator{Scheme: risk.W{}, Loss: risk.ZeroOne{}}
	b := must(risk.FromProbabilities(.8, .5))
	fmt.Printf("%.3f\n", e.Risk(risk.Observation{Linked: false}, b)) // ψ = .2/.6
	// Output: 0.333
}

func ExamplePU() {
	e := risk.Estimator{Scheme: risk.PU{}, Loss: risk.ZeroOne{}}
	b := must(risk.FromProbabilities(.8, .5))
	fmt.Println(e.Risk(risk.Observation{Linked: true}, b)) // N = 1 − 1/π̂: below 0
	// Output: -1
}

func ExampleAP() {
	e := risk.Estimator{Scheme: risk.AP{}, Loss: risk.ZeroOne{}}
	b := must(risk.FromProbabilities(.2, .5))                        // predicts no link
	fmt.Printf("%.3f\n", e.Risk(risk.Observation{Linked: false}, b)) // τ = .1/.9: it may have been hidden
	// Output: 0.111
}

// W with its weights clipped at 10, in a few lines. It gives no slopes, so gradients are by differences.
func ExampleRegister() {
	clipped := risk.MassFunc(func(o risk.Observation, b risk.Belief) risk.Mass {
		m := risk.W{}.Mass(o, b)
		m.Positive = min(m.Positive, 10)
		return m
	})
	fmt.Println(risk.Register("clipped-w", clipped))
	fmt.Println(risk.Register("clipped-w", clipped))

	e := risk.Estimator{Scheme: must(risk.Lookup("clipped-w"))}
	value, g := e.Gradient(risk.Observation{Linked: true}, must(risk.FromProbabilities(.5, .01)))
	fmt.Printf("%.3f %.3f %.3f\n", value, g.Link, g.Propensity)
	// Output:
	// <nil>
	// scheme name already taken: "clipped-w"; choose another name
	// 6.931 -5.000 0.000
}

// halfway lies between naive and AP: P = o + ½(1−o)τ, N = 1 − P. It knows its slopes.
type halfway struct{}

func (halfway) Mass(o risk.Observation, b risk.Belief) risk.Mass {
	if o.Linked {
		return risk.Mass{Positive: 1}
	}
	return risk.Mass{Positive: b.Hidden() / 2, Negative: 1 - b.Hidden()/2}
}

func (halfway) Slope(o risk.Observation, b risk.Belief) risk.Slope {
	if o.Linked {
		return risk.Slope{}
	}
	q := b.Unobserved()
	y := b.NotPropensity() / (q * q) / 2       // ∂τ/∂ŷ = (1−π̂)/q²
	p := -b.Link() * b.NotLink() / (q * q) / 2 // ∂τ/∂π̂ = −ŷ(1−ŷ)/q²
	return risk.ChainSlope(b, risk.Mass{Positive: y, Negative: -y}, risk.Mass{Positive: p, Negative: -p})
}

func ExampleScheme() {
	b := must(risk.FromProbabilities(.8, .5))
	fmt.Printf("%.3f\n", halfway{}.Mass(risk.Observation{}, b).Positive)
	// Output: 0.333
}

func ExampleDifferentiable() {
	b := must(risk.FromProbabilities(.8, .5))
	_, exact := risk.Estimator{Scheme: halfway{}}.Gradient(risk.Observation{}, b)
	_, numerical := risk.Estimator{Scheme: risk.MassFunc(halfway{}.Mass)}.Gradient(risk.Observation{}, b)
	fmt.Printf("%.6f %.6f\n%.6f %.6f\n", exact.Link, exact.Propensity, numerical.Link, numerical.Propensity)
	// Output:
	// 0.312634 0.077016
	// 0.312634 0.077016
}

func ExampleMassFunc() {
	all := risk.MassFunc(func(risk.Observation, risk.Belief) risk.Mass { return risk.Mass{Positive: 1} })
	fmt.Println(all.Mass(risk.Observation{}, risk.Belief{}).Positive)
	// Output: 1
}

func ExampleChainSlope() {
	b := must(risk.FromProbabilities(.5, .5))
	s := risk.ChainSlope(b, risk.Mass{Positive: 1}, risk.Mass{Negative: -2}) // P = ŷ, N = −2π̂
	fmt.Println(s.Link.Positive, s.Propensity.Negative)
	// Output: 0.25 -0.5
}

func ExampleSlope() {
	b := must(risk.FromProbabilities(.5, .5))
	s := risk.AP{}.Slope(risk.Observation{}, b)
	fmt.Printf("∂τ/∂z = τψ = %.3f, ∂τ/∂s = −τψπ̂ = %.3f\n", s.Link.Positive, s.Propensity.Positive)
	// Output: ∂τ/∂z = τψ = 0.222, ∂τ/∂s = −τψπ̂ = -0.111
}

func ExampleLookup() {
	s := must(risk.Lookup("pu"))
	fmt.Printf("%T\n", s)
	_, err := risk.Lookup("ips")
	fmt.Println(errors.Is(err, risk.ErrUnknown))
	// Output:
	// risk.PU
	// true
}

// A pair that was shown and not linked.
func ExampleDR() {
	belief := must(risk.FromProbabilities(.5, .8))
	mass := risk.DR{}.Mass(risk.Observation{Exposure: risk.Exposed}, belief)
	fmt.Printf("%.3f %.3f\n", mass.Positive, mass.Negative)
	// Output: -0.125 1.125
}

func ExampleCanonical() {
	fmt.Println(risk.Canonical("rw"), risk.Canonical("ap"))
	// Output: w ap
}

func ExampleNames() {
	for _, name := range risk.Names() {
		if _, err := risk.Lookup(name); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(len(risk.Names()) >= 5)
	// Output: true
}

func ExampleNLL() {
	value, g := risk.NLL(false, must(risk.FromProbabilities(.5, .5)))
	fmt.Printf("−log(1−ŷπ̂) = %.3f, ∂z %.3f, ∂s %.3f\n", value, g.Link, g.Propensity)
	// Output: −log(1−ŷπ̂) = 0.288, ∂z 0.167, ∂s 0.167
}

func ExampleEstimator() {
	guarded := risk.Estimator{Scheme: risk.W{}, Loss: risk.CappedLogLoss{Cap: 5}, Floor: .05}
	b := must(risk.FromProbabilities(0, 1e-9))
	fmt.Println(guarded.Risk(risk.Observation{Linked: true}, b)) // 5/.05, not infinite
	// Output: 100
}

func ExampleEstimator_Risk() {
	b := must(risk.FromProbabilities(.8, .6))
	fmt.Printf("%.3f\n", risk.Estimator{}.Risk(risk.Observation{Linked: false}, b))
	// Output: 0.756
}

func ExampleEstimator_Gradient() {
	b := must(risk.FromProbabilities(.8, .5))
	value, g := risk.Estimator{Scheme: risk.PU{}}.Gradient(risk.Observation{Linked: true}, b)
	fmt.Printf("%.3f, ∂z = ŷ − 1/π̂ = %.3f, ∂s = z(1−π̂)/π̂ = %.3f\n", value, g.Link, g.Propensity)
	// Output: -1.163, ∂z = ŷ − 1/π̂ = -1.200, ∂s = z(1−π̂)/π̂ = 1.386
}

func ExampleEstimator_HeldGradient() {
	b := must(risk.FromProbabilities(.8, .5))
	_, held := risk.Estimator{Scheme: risk.AP{}}.HeldGradient(risk.Observation{}, b)
	_, nll := risk.NLL(false, b)
	fmt.Printf("%.4f %.4f\n", held.Link, nll.Link)
	// Output: 0.1333 0.1333
}

func ExampleEstimator_Estimate() {
	b := must(risk.FromProbabilities(.9, .02))
	pairs := []risk.Pair{
		{Observation: risk.Observation{Linked: true}, Belief: b, Weight: 1, Source: 0},
		{Observation: risk.Observation{Linked: false}, Belief: b, Weight: 20, Source: 1}, // one in twenty was sampled
	}
	est := must(risk.Estimator{Scheme: risk.PU{}, Loss: risk.ZeroOne{}, Floor: .025}.Estimate(pairs))
	fmt.Printf("%.3f over %d pairs of weight %.0f, %.0f%% clipped\n", est.Value, est.Pairs, est.Weight, 100*est.Clipped)
	for _, w := range est.Warnings {
		fmt.Println(w.Kind)
	}
	// Output:
	// -0.905 over 2 pairs of weight 21, 100% clipped
	// negative-risk
	// clipped
}

func ExampleWarning() {
	b := must(risk.FromProbabilities(0, 1))
	est := must(risk.Estimator{}.Estimate([]risk.Pair{{Observation: risk.Observation{Linked: true}, Belief: b,
		Weight: 1}}))
	fmt.Println(est.Value, est.Warnings[0])
	// Output: +Inf infinite-risk: 1 of 1 pairs have an infinite risk, the first is pair 0; set a floor or cap the loss
}

func ExampleEstimator_Sample() {
	b := must(risk.FromProbabilities(.8, .5))
	pairs := []risk.Pair{
		{Observation: risk.Observation{Linked: true}, Belief: b, Weight: 1, Source: 3},
		{Observation: risk.Observation{Linked: false}, Belief: b, Weight: 2, Source: 4},
	}
	s := must(risk.Estimator{Scheme: risk.Naive{}, Loss: risk.ZeroOne{}}.Sample(pairs))
	fmt.Println(s.Values, s.Weights, s.Sources)
	// Output: [0 1] [1 2] [3 4]
}

func ExampleEstimator_Moments() {
	truths := []risk.Truth{{Propensity: .6, Link: .3}}
	beliefs := []risk.Belief{must(risk.FromProbabilities(.3, .6))} // both models right
	for _, name := range []string{"naive", "w", "pu", "ap"} {
		m := must(risk.Estimator{Scheme: must(risk.Lookup(name))}.Moments(truths, beliefs))
		fmt.Printf("%-5s bias %.3f variance %.3f\n", name, m.AbsoluteBias(), m.Variance)
	}
	// Output:
	// naive bias 0.102 variance 0.106
	// w     bias 0.000 variance 0.428
	// pu    bias 0.000 variance 0.294
	// ap    bias 0.000 variance 0.077
}

func ExampleMoments_AbsoluteBias() {
	fmt.Println(risk.Moments{Bias: -.1}.AbsoluteBias())
	// Output: 0.1
}

func ExampleClosedForm() {
	truths := []risk.Truth{{Propensity: .6, Link: .8}}
	beliefs := []risk.Belief{must(risk.FromProbabilities(.4, .5))}
	for _, lemma := range []risk.Lemma{risk.Naive{}, risk.W{}, risk.PU{}, risk.AP{}} {
		m := must(risk.ClosedForm(lemma, 1, truths, beliefs))
		fmt.Printf("%T bias %+.2f variance %.2f\n", lemma, m.Bias, m.Variance)
	}
	// Output:
	// risk.Naive bias -0.32 variance 0.25
	// risk.W bias +0.16 variance 1.00
	// risk.PU bias +0.16 variance 1.00
	// risk.AP bias -0.19 variance 0.14
}

func ExampleLemma() {
	b := must(risk.FromProbabilities(.4, .5))
	var lemma risk.Lemma = risk.PU{}
	fmt.Printf("%.2f %.0f\n", lemma.BiasTerm(risk.Truth{Propensity: .6, Link: .8}, b), lemma.VarianceFactor(b))
	// Output: -0.16 4
}

func ExampleLowestPropensity() {
	fmt.Printf("%.3f\n", risk.LowestPropensity(.5))
	// Output: 0.333
}

func ExampleLowerBiasW() {
	fmt.Println(risk.LowerBiasW(.5, .4), risk.LowerBiasW(.5, .3))
	// Output: true false
}

func ExampleHighestLink() {
	fmt.Printf("%.2f\n", risk.HighestLink(risk.Truth{Propensity: .5, Link: .5}, .5))
	// Output: 0.80
}

func ExampleLowerBiasAP() {
	truth := risk.Truth{Propensity: .5, Link: .5}
	for _, link := range []float64{.7, .9} {
		fmt.Println(link, risk.LowerBiasAP(truth, must(risk.FromProbabilities(link, .5))))
	}
	// Output:
	// 0.7 true
	// 0.9 false
}

func ExampleCheckConditions() {
	truths := []risk.Truth{{Propensity: .5, Link: .2}, {Propensity: .5, Link: .2}, {Propensity: .5, Link: .9}}
	beliefs := []risk.Belief{
		must(risk.FromProbabilities(.2, .4)),
		must(risk.FromProbabilities(.2, .1)),
		must(risk.FromProbabilities(.9, .5)), // predicted: the theorem neglects it
	}
	c := must(risk.CheckConditions(truths, beliefs))
	fmt.Printf("of %d pairs W holds for %d, AP for %d\n", c.Pairs, c.W, c.AP)
	// Output: of 2 pairs W holds for 1, AP for 2
}

func ExampleBound() {
	b := risk.Bound{Loss: 1, Floor: .1, Universe: 1000 * 999, Failure: .05}
	fmt.Printf("M = %.4f\n", must(b.Margin()))
	fmt.Printf("R ≤ %.4f with 𝒢 known\n", must(b.Population(.05, .01, .002)))
	fmt.Printf("R ≤ %.4f with 𝒢̂ estimated\n", must(b.Empirical(.05, .01, .002)))
	// Output:
	// M = 0.0384
	// R ≤ 0.1024 with 𝒢 known
	// R ≤ 0.1793 with 𝒢̂ estimated
}

func ExampleBound_Margin() {
	_, err := risk.Bound{Loss: risk.LogLoss{}.Bound(), Floor: .1, Universe: 100, Failure: .05}.Margin()
	fmt.Println(err)
	// Output: setting out of range: loss bound η = +Inf; use a bounded loss, such as CappedLogLoss
}

func ExampleBound_Population() {
	b := risk.Bound{Loss: 1, Floor: .5, Universe: 1e8, Failure: .05}
	fmt.Printf("%.4f\n", must(b.Population(.2, 0, 0)))
	// Output: 0.2008
}

func ExampleBound_Empirical() {
	b := risk.Bound{Loss: 1, Floor: .5, Universe: 1e8, Failure: .05}
	fmt.Printf("%.4f\n", must(b.Empirical(.2, 0, 0)))
	// Output: 0.2023
}

// A class of two models, whose risks on four pairs are known: the supremum is the larger of two sums,
// and its mean over the signs is .4·E|Σσ|/4 = .15.
func ExampleEstimateComplexity() {
	class := [][]float64{{.1, .9, .1, .9}, {.9, .1, .9, .1}}
	maximise := func(_ context.Context, signs []int8) (float64, error) {
		best := math.Inf(-1)
		for _, risks := range class {
			total := 0.
			for i, sign := range signs {
				total += float64(sign) * risks[i]
			}
			best = math.Max(best, total/float64(len(signs)))
		}
		return best, nil
	}
	g := must(risk.EstimateComplexity(context.Background(), 4, 2000, 1, maximise))
	fmt.Printf("%v draws, within four standard errors of .15: %v\n", g.Draws, math.Abs(g.Value-.15) < 4*g.StandardError)
	// Output: 2000 draws, within four standard errors of .15: true
}

func ExampleSum() {
	var compensated risk.Sum
	plain := 0.
	for _, x := range []float64{1, 1e100, 1, -1e100} {
		compensated.Add(x)
		plain += x
	}
	fmt.Println(compensated.Value(), plain)
	// Output: 2 0
}

func ExampleSample() {
	s := risk.Sample{
		Values:  []float64{.2, .3, .7, .9, .4, .1},
		Weights: []float64{1, 1, 2, 2, 1, 1},
		Sources: []int{1, 1, 2, 2, 3, 3},
	}
	i := must(s.Normal(.95, risk.Nuisance{}))
	fmt.Printf("%.2f in [%.2f, %.2f]\n", i.Estimate, i.Lower, i.Upper)
	// Output: 0.53 in [-0.36, 1.41]
}

func ExampleSample_Mean() {
	s := risk.Sample{Values: []float64{0, 1}, Weights: []float64{30, 10}}
	fmt.Println(must(s.Mean())) // Hájek: over Σ w
	s.Universe = 50
	fmt.Println(must(s.Mean())) // Horvitz–Thompson: over |U|
	// Output:
	// 0.25
	// 0.2
}

func ExampleSample_Size() {
	s := risk.Sample{Values: make([]float64, 4), Weights: []float64{1, 1, 1, 3}, Sources: []int{7, 7, 8, 8}}
	fmt.Printf("%+v\n", must(s.Size()))
	// Output: {Pairs:4 Clusters:2 Effective:3}
}

func ExampleSample_Normal() {
	s := risk.Sample{Values: []float64{1, 2, 3, 4}}
	known := must(s.Normal(.95, risk.Nuisance{}))
	learned := must(s.Normal(.95, risk.Nuisance{Variance: .5, Bias: .1})) // of π̂ and ŷ
	fmt.Printf("%.2f ± %.2f, %.2f ± %.2f\n", known.Estimate, known.Upper-known.Estimate, learned.Estimate,
		learned.Upper-learned.Estimate)
	// Output: 2.50 ± 2.05, 2.40 ± 3.05
}

func ExampleSample_Bernstein() {
	values := make([]float64, 10000)
	for i := range values {
		values[i] = float64(i%10) / 10
	}
	i := must(risk.Sample{Values: values}.Bernstein(.95, 0, 1))
	fmt.Printf("%.4f in [%.4f, %.4f]\n", i.Estimate, i.Lower, i.Upper)
	// Output: 0.4500 in [0.4405, 0.4595]
}

func ExampleSample_Bootstrap() {
	s := risk.Sample{Values: []float64{94, 197, 16, 38, 99, 141, 23}}
	one := must(s.Bootstrap(context.Background(), .95, risk.Bootstrap{Seed: 1, Threads: 1}))
	many := must(s.Bootstrap(context.Background(), .95, risk.Bootstrap{Seed: 1, Threads: 4}))
	plain := must(s.Bootstrap(context.Background(), .95, risk.Bootstrap{Seed: 1, Method: risk.Percentile}))
	fmt.Printf("%.1f, the same on four threads: %v\n", one.Estimate, one == many)
	fmt.Println("BCa follows the skew to the right:", one.Lower > plain.Lower && one.Upper > plain.Upper)
	// Output:
	// 86.9, the same on four threads: true
	// BCa follows the skew to the right: true
}
