package risk

import "math"

// Gradient holds derivatives in the two logits; models only ever propagate these two numbers.
type Gradient struct {
	Link       float64 // ∂/∂z
	Propensity float64 // ∂/∂s
}

// NLL returns the negative log-likelihood of what is observed of one pair,
//
//	−o·log(ŷπ̂) − (1−o)·log(1−ŷπ̂),
//
// and its gradient
//
//	∂z = (1−o)·π̂ŷψ − o·(1−ŷ),   ∂s = (1−o)·π̂τ − o·(1−π̂),
//
// which is π̂ŷ(1−ŷ)/q and ŷπ̂(1−π̂)/q where o = 0. It is +Inf for an observation that the belief calls
// impossible. Where the propensity is clipped ∂s is 0.
func NLL(linked bool, b Belief) (float64, Gradient) {
	var value float64
	var g Gradient
	if linked {
		value = softplus(-b.linkLogit) + softplus(-b.propensityLogit)
		g = Gradient{-b.notLink, -b.notPropensity}
	} else {
		value = surprise(b)
		g = Gradient{b.Observed() * b.Irrelevant(), b.propensity * b.Hidden()}
	}
	if b.clipped {
		g.Propensity = 0
	}
	return value, g
}

// surprise returns −log q = −log(1−π̂ŷ), from whichever of π̂ŷ and q is the smaller.
func surprise(b Belief) float64 {
	if p := b.Observed(); p < .5 {
		return -math.Log1p(-p)
	}
	if q := b.Unobserved(); q > farAway {
		return -math.Log(q)
	}
	// Both logits are large: q = e⁻ᶻ + e⁻ˢ, to beyond double precision.
	near := math.Min(b.linkLogit, b.propensityLogit)
	if math.IsInf(near, 1) {
		return near
	}
	return near - math.Log1p(math.Exp(-math.Abs(b.linkLogit-b.propensityLogit)))
}
