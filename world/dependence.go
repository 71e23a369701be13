package world

import (
	"math"

	"unseen/risk"
)

// LinkRate returns the probability that a pair with this truth is linked, which is to be exposed and relevant at once:
// π·y where the two are drawn independently, and more or less where Violations.Dependence says so.
func (w *World) LinkRate(t risk.Truth) float64 {
	return bothBelow(t.Propensity, t.Link, w.violations.Dependence)
}

// depend turns two independent uniform numbers into one that is uniform as well, and whose normal quantile has the
// given correlation with that of the first.
func depend(first, second, correlation float64) float64 {
	x, y := normalQuantile(first), normalQuantile(second)
	return normalCDF(correlation*x + math.Sqrt(1-correlation*correlation)*y)
}

// bothBelow returns the probability that of two uniform numbers, whose normal quantiles h and k have correlation ρ, the
// first is below p and the second below q (Drezner and Wesolowsky, "On the computation of the bivariate normal
// integral", 1990):
//
//	Φ₂(h, k; ρ) = pq + 1/2π ∫₀^{asin ρ} exp(−(h² + k² − 2hk·sin θ)/(2cos²θ)) dθ
//
// The integrand changes ever faster towards ±π/2, so that every panel of the rule goes half of the way that is left.
func bothBelow(p, q, correlation float64) float64 {
	if correlation == 0 {
		return p * q
	}
	h, k := normalQuantile(p), normalQuantile(q)
	if math.IsInf(h, 0) || math.IsInf(k, 0) {
		return p * q
	}
	squares, product := h*h+k*k, 2*h*k
	if correlation < 0 {
		product = -product
	}
	end := math.Asin(math.Abs(correlation))
	var area float64
	for from := 0.; from < end; {
		to := min(end, from+(math.Pi/2-from)/2)
		middle, half := (from+to)/2, (to-from)/2
		for n, x := range legendreNodes {
			for _, theta := range [...]float64{middle - half*x, middle + half*x} {
				sin, cos := math.Sincos(theta)
				area += half * legendreWeights[n] * math.Exp((product*sin-squares)/(2*cos*cos))
			}
		}
		if from = to; math.Pi/2-from < 1e-9 {
			break
		}
	}
	both := p*q + math.Copysign(area, correlation)/(2*math.Pi)
	return min(max(both, 0, p+q-1), p, q) // which rounding can miss
}

// The positive half of the Gauss-Legendre rule of 12 points on [−1, 1].
var (
	legendreNodes = [...]float64{.1252334085114689, .3678314989981802, .5873179542866175, .7699026741943047,
		.9041172563704749, .9815606342467193}
	legendreWeights = [...]float64{.2491470458134028, .2334925365383548, .2031674267230659, .1600783285433462,
		.1069393259953184, .0471753363865118}
)

func normalCDF(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

func normalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }
