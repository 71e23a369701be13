// Package loop simulates and forecasts the feedback loop of a recommender that is trained on its own
// recommendations, and raises an alarm when a running service drifts.
//
//	recommend in proportion to the estimate ──► readers link to some of it
//	             ▲                                        │
//	             └───────────── retrain ◄─────────────────┘
//
// Four nouns:
//
//	Process   categories alone: draws of κ⁽ᵗ⁾ and its limit κ_vw → 1 − 1/(1+cᵗ); SkewBound for finite n
//	History   410 papers and a model that is retrained every round, by Simulate; Repeat runs it over
//	          seeds; a Learner of your own can replace the methods of package fit
//	Forecast  where a model's recommendations will go, field by field, with and without correction
//	Drift     watches what is shown, list by list, and raises an alarm when it leaves the forecast
//
// An example:
//
//	p := loop.Process{Propensity: []float64{.8, .2}, Link: []float64{.5, .5}}
//	shares, err := p.Run(1_000_000, 5, rand.NewPCG(1, 0)) // equally relevant, and yet
//	fmt.Println(shares[4][0])                             // .999 of the fifth round's recommendations
//	p.Corrected = true                                    // divide the estimates by the propensity:
//	shares, err = p.Run(1_000_000, 5, rand.NewPCG(1, 0))  // half and half in every round
//
// # What the correction does and does not stop
//
// With q̂_v = n_v/n the estimate of a category carries its own share κ_v along: q̂_v → κ_v·q_v. Dividing
// by π_v leaves κ_v·y_v, so that equally relevant categories keep equal shares, but of two categories of
// which one is 1.2 times as relevant that one has 97% after 20 rounds. The correction for exposure stops
// the loop that exposure feeds and no other. What stops both is to count only what was shown
// ([Process.ShownOnly]): q̂_v = n_v/(nκ_v·π_v) → y_v in every round.
//
// # The finite-sample theorem, corrected
//
// The paper states P(every ratio skews further) ≥ 1 − 2C·exp(−2n[ε² + η²/C²]). Its proof does not give
// that. [SkewBound] is what it gives once these are corrected:
//
//   - The first lemma's bound on ε has wrong signs and terms; as printed it is negative wherever the lemma
//     applies. See [PairEpsilon].
//   - q̃_v is a mean of nκ_v draws, not of n: its tail is 2·exp(−2nκ_v·ε²). With κ_v small this is all
//     the difference: at n = 1000, κ = (.01, .99) and q = (.9, .5) the printed bound is 1 − 10⁻³⁴, the
//     true probability .953. Even in the paper's own example, n = 100, κ = (.6, .4) and q = (.8, .4), it
//     is .9986 and the truth .991.
//   - η lost its factor ρ between the second lemma and the theorem, and κ⁽ᵗ⁺¹⁾ stands for κ⁽ᵗ⁾.
//   - The two failures' probabilities add: exp(−2nε²) + exp(−2nη²/C²), not the exponential of the sum. A
//     single exponential is true with a smaller constant, [SkewBound.Exponent].
//
// The factor 1/C of the second lemma is not needed. And the corollary, that P → 1 if C³ = o(n), is
// wrong: C different probabilities have two that are at most 1/(C−1) apart, so that ε and η shrink as C
// grows. For evenly spaced q and equal shares, C − 1 neighbours each have to move by about 1/C against
// noise of about √(C/n): by that argument, which is no proof, n has to grow as
// C³·log C at least. Draws at n = 10·C³ fall from .98 at C = 4 to .14 at C = 60.
package loop
