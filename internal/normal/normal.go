// Package normal has what is needed of normal variables: chances, quantiles, and how two events come together that two
// correlated ones decide.
package normal

import "math"

// Chance is that of a normal variable below x.
func Chance(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

// Quantile is the x below which a normal variable is with a chance p. It is finite: chances within 1e-15 of 0 or 1
// have the quantile that is there.
func Quantile(p float64) float64 {
	const least = 1e-15
	return math.Sqrt2 * math.Erfinv(2*max(least, min(1-least, p))-1)
}

// Copula is how two events come together that are decided by two normal variables with a correlation ρ.
//
// With h and k the quantiles of their chances p and q, the chance of both is (Drezner and Wesolowsky, "On the
// computation of the bivariate normal integral", 1990)
//
//	C(p, q) = pq + 1/2π ∫₀^{asin ρ} exp(−(h² + k² − 2hk·sin θ)/(2cos²θ)) dθ
//
// The integral is a sum over points that depend on ρ alone.
type Copula struct {
	correlation, rest float64 // ρ and √(1−ρ²)
	points            []point
}

// point is one of the integral: its exponent is rise·hk − fall·(h² + k²).
type point struct{ rise, fall, weight float64 }

// NewCopula returns that of a correlation, −1 < ρ < 1. The integrand changes ever faster towards ±π/2, so that
// every panel of the rule goes half of the way that is left.
func NewCopula(correlation float64) *Copula {
	c := &Copula{correlation: correlation, rest: math.Sqrt((1 - correlation) * (1 + correlation))}
	end := math.Asin(math.Abs(correlation))
	for from := 0.; from < end && math.Pi/2-from > 1e-9; {
		to := min(end, from+(math.Pi/2-from)/2)
		middle, half := (from+to)/2, (to-from)/2
		for n, x := range legendreNodes {
			for _, theta := range [...]float64{middle - half*x, middle + half*x} {
				sin, cos := math.Sincos(theta)
				c.points = append(c.points, point{math.Copysign(sin, correlation) / (cos * cos), 1 / (2 * cos * cos),
					math.Copysign(half*legendreWeights[n], correlation) / (2 * math.Pi)})
			}
		}
		from = to
	}
	return c
}

// The positive half of the Gauss-Legendre rule of 12 points on [−1, 1].
var (
	legendreNodes = [...]float64{.1252334085114689, .3678314989981802, .5873179542866175, .7699026741943047,
		.9041172563704749, .9815606342467193}
	legendreWeights = [...]float64{.2491470458134028, .2334925365383548, .2031674267230659, .1600783285433462,
		.1069393259953184, .0471753363865118}
)

// Both is the chance of both events, given those of each.
func (c *Copula) Both(p, q float64) float64 {
	if c.correlation == 0 {
		return p * q
	}
	h, k := Quantile(p), Quantile(q)
	return c.both(p, q, h*h+k*k, h*k)
}

func (c *Copula) both(p, q, squares, product float64) float64 {
	both := p * q
	for _, x := range c.points {
		both += x.weight * math.Exp(x.rise*product-x.fall*squares)
	}
	return min(max(both, 0, p+q-1), p, q) // which rounding can miss
}

// Slopes returns Both, never below a billionth of pq, and the slopes of its logarithm: in the logarithms of p and q,
// and in the t of ρ = tanh t.
func (c *Copula) Slopes(p, q float64) (both, byP, byQ, byT float64) {
	h, k := Quantile(p), Quantile(q)
	squares, product := h*h+k*k, h*k
	both = max(c.both(p, q, squares, product), 1e-9*p*q)
	density := math.Exp((2*c.correlation*product - squares) / (2 * c.rest * c.rest))
	byP = p * Chance((k-c.correlation*h)/c.rest) / both
	byQ = q * Chance((h-c.correlation*k)/c.rest) / both
	return both, byP, byQ, c.rest * density / (2 * math.Pi) / both
}
