package loop

import (
	"context"
	"math"
	"math/rand/v2"

	"unseen/internal/kern"
)

// SkewBound is a lower bound on P(A), the probability that in one round of the naive [Process] every
// ratio skews further: κ_vw⁽ᵗ⁺¹⁾ > κ_vw⁽ᵗ⁾ for all categories with q_v > q_w.
//
// With κ = κ⁽ᵗ⁾, q̃_v = n_v/(nκ_v) and q̃_v within ε_v of q_v for every v,
//
//	ê_vw ≥ κ_v(q_v−ε_v) / (κ_v(q_v−ε_v) + κ_w(q_w+ε_w))                       the worst case,
//	ρ_vw = that − κ_vw                                                       which must be positive.
//
// If then κ⁽ᵗ⁺¹⁾ is within δ of ê in every category, κ_vw⁽ᵗ⁺¹⁾ is above ê_vw − δ/(ê_v+ê_w), and so
// above κ_vw where
//
//	δ ≤ ρ_vw·(ê_v+ê_w),   ê_v+ê_w at least S/(S + Σ_{z≠v,w} κ_z(q_z+ε_z)),  S = κ_v(q_v−ε_v) + κ_w(q_w−ε_w).
//
// Hoeffding's inequality on nκ_v draws for q̃_v, and on n for κ⁽ᵗ⁺¹⁾, gives
//
//	P(A) ≥ 1 − 2C·exp(−2nε²) − 2C·exp(−2nδ²),   ε_v = ε/√κ_v,
//
// and ε is chosen to make that largest. The published proof differs in four places, see the
// package's documentation; Printed is what its theorem says.
type SkewBound struct {
	Probability float64 // the bound; at most 0 where n is too small for it to say anything
	Epsilon     float64 // ε
	Delta       float64 // δ, the theorem's η/C
	// Exponent is the λ of the one-term form P(A) ≥ 1 − 2C·exp(−2nλ), which follows from the two
	// terms: λ = min(ε², δ²)·log(2C)/log(4C). Where the two-term sum exceeds it, 2C·exp(−2nλ) is
	// above 1 and says nothing.
	Exponent float64
	// Printed is 1 − 2C·exp(−2n[ε² + η²/C²]) with constants ε and η that the corrected lemmas
	// allow. It can be above the true probability.
	Printed float64
}

// BoundSkew returns the bound for one round after counts[v] = n·κ_v⁽ᵗ⁾ recommendations of each
// category, whose items are linked with probability q[v].
func BoundSkew(counts []int, q []float64) (SkewBound, error) {
	n, err := checkRound(counts, q)
	if err != nil {
		return SkewBound{}, err
	}
	shares := make([]float64, len(counts))
	for v, k := range counts {
		shares[v] = float64(k) / float64(n)
	}
	C := float64(len(q))
	tail := func(x float64) float64 { return 2 * C * math.Exp(-2*float64(n)*x*x) }
	best := SkewBound{Probability: math.Inf(-1)}
	// The bound rises in ε and in δ, and δ falls as ε rises, from its largest to 0.
	top := largestEpsilon(shares, q)
	const steps = 400
	for k := 1; k < steps; k++ {
		epsilon := top * float64(k) / steps
		spread := make([]float64, len(q))
		for v, share := range shares {
			spread[v] = epsilon / math.Sqrt(share)
		}
		delta := margin(shares, q, spread)
		if delta <= 0 {
			break
		}
		if p := 1 - tail(epsilon) - tail(delta); p > best.Probability {
			best.Probability, best.Epsilon, best.Delta = p, epsilon, delta
		}
	}
	m := min(best.Epsilon, best.Delta)
	best.Exponent = m * m * math.Log(2*C) / math.Log(4*C)
	best.Printed = printed(n, shares, q)
	return best, nil
}

// largestEpsilon is an ε at which some pair's worst case no longer skews further.
func largestEpsilon(shares, q []float64) float64 {
	top := math.Inf(1)
	for v := range q {
		for w := range q {
			if q[v] > q[w] { // κ_vw stays where (q_v − ε_v) = (q_w + ε_w)
				top = min(top, (q[v]-q[w])/(1/math.Sqrt(shares[v])+1/math.Sqrt(shares[w])))
			}
		}
	}
	return top
}

// margin returns the largest δ that keeps every ratio above κ_vw when every q̃_v is within spread[v] of
// q_v, or 0.
func margin(shares, q, spread []float64) float64 {
	var all float64
	for z := range q {
		all += shares[z] * min(q[z]+spread[z], 1)
	}
	delta := math.Inf(1)
	for v := range q {
		for w := range q {
			if q[v] <= q[w] {
				continue
			}
			low, high := shares[v]*max(q[v]-spread[v], 0), shares[w]*min(q[w]+spread[w], 1)
			rho := low/(low+high) - Relative(shares, v, w)
			if rho <= 0 {
				return 0
			}
			both := low + shares[w]*max(q[w]-spread[w], 0)
			rest := all - shares[v]*min(q[v]+spread[v], 1) - high
			delta = min(delta, rho*both/(both+rest))
		}
	}
	return delta
}

// PairEpsilon is the appendix's first lemma with its algebra corrected: while q̃_v and q̃_w are within
// ε < PairEpsilon of q_v > q_w, ê_vw − κ_vw > ρ. With a = κ_v and b = κ_w it is
//
//	(ab(q_v−q_w) − ρ(a+b)(a·q_v + b·q_w)) / (2ab − ρ(a²−b²)),
//
// positive for 0 ≤ ρ < ab(q_v−q_w)/(q_v·a² + (q_v+q_w)ab + q_w·b²), and 0 beyond.
//
// It is exported because it differs from the printed lemma, so that it can be checked; [BoundSkew] is
// built on it.
func PairEpsilon(shareV, shareW, qV, qW, rho float64) float64 {
	a, b := shareV, shareW
	top := a*b*(qV-qW) - rho*(a+b)*(a*qV+b*qW)
	if top <= 0 {
		return 0
	}
	return top / (2*a*b - rho*(a*a-b*b))
}

// printed evaluates the theorem's formula with one ε and ρ for all pairs and η as the second lemma's
// proof has it, at the ρ that makes it largest: all are constants that the lemmas allow.
func printed(n int, shares, q []float64) float64 {
	C := float64(len(q))
	ceiling, topQ := math.Inf(1), 0.
	for v := range q {
		topQ = max(topQ, q[v])
		for w := range q {
			if a, b := shares[v], shares[w]; q[v] > q[w] {
				ceiling = min(ceiling, a*b*(q[v]-q[w])/((a+b)*(a*q[v]+b*q[w])))
			}
		}
	}
	best := math.Inf(-1)
	const steps = 400
	for k := 1; k < steps; k++ {
		rho := ceiling * float64(k) / steps
		epsilon := math.Inf(1)
		for v := range q {
			for w := range q {
				if q[v] > q[w] {
					epsilon = min(epsilon, PairEpsilon(shares[v], shares[w], q[v], q[w], rho))
				}
			}
		}
		eta := math.Inf(1)
		for v := range q {
			for w := range q {
				if q[v] > q[w] {
					eta = min(eta, rho*(shares[v]*max(q[v]-epsilon, 0)+shares[w]*max(q[w]-epsilon, 0))/(topQ+epsilon))
				}
			}
		}
		best = max(best, 1-2*C*math.Exp(-2*float64(n)*(epsilon*epsilon+eta*eta/(C*C))))
	}
	return best
}

func checkRound(counts []int, q []float64) (n int, err error) {
	if len(counts) < 2 || len(counts) != len(q) {
		return 0, settingError("%d counts and %d probabilities; give one of each for two categories or more",
			len(counts), len(q))
	}
	different := false
	for v, k := range counts {
		if k < 1 || k > maxDraws {
			return 0, settingError("%d recommendations of category %d; give from 1 to %d: without any it has no ratio",
				k, v, maxDraws)
		}
		if !(q[v] > 0 && q[v] < 1) {
			return 0, settingError("q of category %d is %v; give a probability between 0 and 1", v, q[v])
		}
		n += k
		different = different || q[v] != q[0]
	}
	if n > maxDraws {
		return 0, settingError("%d recommendations; give at most %d in all", n, maxDraws)
	}
	if !different {
		return 0, settingError("all categories have q = %v; no ratio is expected to move", q[0])
	}
	return n, nil
}

// SkewProbability draws one round of the naive process many times and returns the share in which
// every ratio skewed further. 0 threads means all processors; results do not depend on it.
func SkewProbability(ctx context.Context, counts []int, q []float64, draws int, seed uint64, threads int) (float64,
	error) {
	n, err := checkRound(counts, q)
	if err != nil {
		return 0, err
	}
	if draws < 1 {
		return 0, settingError("%d draws; give at least 1", draws)
	}
	const chunk = 64
	skewed := make([]int, (draws+chunk-1)/chunk)
	err = kern.ChunksErr(ctx, draws, chunk, kern.Threads(threads), func(_, part, from, to int) error {
		rng := newStream(seed, "skew", uint64(part))
		links, next := make([]float64, len(q)), make([]int, len(q))
		for range to - from {
			if skews(rng, counts, q, n, links, next) {
				skewed[part]++
			}
		}
		return nil
	})
	total := 0
	for _, k := range skewed {
		total += k
	}
	return float64(total) / float64(draws), err
}

// skews draws one round and reports whether κ_v′/κ_w′ > κ_v/κ_w for all q_v > q_w.
func skews(rng *rand.Rand, counts []int, q []float64, n int, links []float64, next []int) bool {
	var total float64
	for v, k := range counts {
		links[v] = float64(binomial(rng, k, q[v]))
		total += links[v]
	}
	if total == 0 {
		return false
	}
	multinomial(rng, next, n, links)
	for v := range q {
		for w := range q {
			if q[v] > q[w] && !(float64(next[v])*float64(counts[w]) > float64(next[w])*float64(counts[v])) {
				return false
			}
		}
	}
	return true
}
