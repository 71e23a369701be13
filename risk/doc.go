// Package risk measures link predictions when a missing link may mean "irrelevant" or "never shown".
//
// For every ordered pair (i, j) of nodes
//
//	o′ ~ Ber(y)   would i link to j, were j shown to it (relevance)
//	a  ~ Ber(π)   was j shown to i (exposure; π is the propensity)
//	o  = o′·a     the link that is observed
//
// and two models give a [Belief]: ŷ for y and π̂ for π. The true risk of ŷ is a mean over all pairs of
// y·δ(1, ŷ) + (1−y)·δ(0, ŷ), with a [Loss] δ; but only o is seen. Every estimator of it has one shape,
// the mean of
//
//	P·δ(1, ŷ) + N·δ(0, ŷ)
//
// and differs only in the positive mass P and the negative mass N that it gives a pair:
//
//	scheme   P            N          P + N
//	True     y            1 − y      1        (y known: planted or simulated worlds)
//	Naive    o            1 − o      1
//	W        o/π̂          (1−o)ψ     not 1
//	PU       o/π̂          1 − o/π̂    1        (N < 0 where o = 1)
//	AP       o + (1−o)τ   (1−o)ψ     1
//
//	q = 1 − π̂ŷ = P(o = 0),   ψ = (1−ŷ)/q = P(o′=0 given o=0),   τ = ŷ(1−π̂)/q = P(o′=1 given o=0)
//
// A [Scheme] is that table's row; [Register] adds one. An [Estimator] is a scheme, a loss and a
// propensity floor: it gives the risk of one pair with its gradient in the two logits, the weighted
// mean over many pairs with warnings, and a [Sample] from which intervals follow.
//
// # Example
//
// A machine-learning paper sees 90% of the machine-learning papers and 60% of the physics papers that
// it would cite with probability .8 if it saw them. It cites .72 of the former and .48 of the latter,
// and the naive risk takes the difference for a lack of relevance:
//
//	near, _ := risk.FromProbabilities(.8, .9) // ŷ, π̂
//	far, _ := risk.FromProbabilities(.8, .6)
//	fmt.Printf("%.2f %.2f\n", near.Observed(), far.Observed()) // 0.72 0.48
//	fmt.Printf("%.2f %.2f\n", near.Hidden(), far.Hidden())     // 0.29 0.62: an absent link's chance of being relevant
//	value := risk.Estimator{Scheme: risk.AP{}}.Risk(risk.Observation{Linked: false}, far)
//
// # Theory
//
// Bias and variance are exact for given (π, y): [Estimator.Moments] for any scheme and loss,
// [ClosedForm] for the paper's lemmas under the 0–1 loss. [LowerBiasW] and [LowerBiasAP] are the
// conditions under which a wrong π̂ and ŷ still beat the naive estimator; [Bound] is the
// generalisation bound.
//
// # Numbers
//
// A belief carries ŷ, 1−ŷ, π̂, 1−π̂ and both logits, so that nothing is found by subtracting nearly equal
// numbers. Over the closed ranges ŷ, π̂ ∈ [0, 1] and logits in [−∞, +∞] no built-in scheme, loss or
// likelihood returns NaN; 0·∞ counts as 0. A result is infinite only where the mathematics is:
// the log-loss of an outcome called impossible, and 1/π̂ at π̂ = 0 (for PU also −∞, since N < 0).
// [CappedLogLoss] and a floor on π̂ rule both out. For |z|, |s| ≤ 700 every result is finite.
package risk
