package risk

import (
	"fmt"
	"math"
)

// Belief is what the two models say of one pair: ŷ = P(link | exposed) and π̂ = P(exposed), with their
// complements and logits carried along so that nothing has to be found by cancellation.
//
// Make one with [FromLogits] or [FromProbabilities]; the zero Belief is none, and Estimate refuses it.
type Belief struct {
	link, notLink             float64 // ŷ, 1−ŷ
	propensity, notPropensity float64 // π̂, 1−π̂
	linkLogit                 float64 // z
	propensityLogit           float64 // s
	clipped                   bool
}

// FromLogits returns the belief ŷ = σ(z), π̂ = σ(s). Infinite logits are certain; NaN is an error.
func FromLogits(z, s float64) (Belief, error) {
	if math.IsNaN(z) || math.IsNaN(s) {
		return Belief{}, fmt.Errorf("%w: z = %v, s = %v; look for an overflow in the model", ErrLogit, z, s)
	}
	b := Belief{linkLogit: z, propensityLogit: s}
	b.link, b.notLink = sigmoids(z)
	b.propensity, b.notPropensity = sigmoids(s)
	return b, nil
}

// FromProbabilities returns the belief (ŷ, π̂), each in [0, 1]. Near 1 prefer FromLogits: a float64
// cannot hold 1 − 1e−17.
func FromProbabilities(link, propensity float64) (Belief, error) {
	if !isProbability(link) {
		return Belief{}, fmt.Errorf("%w: ŷ = %v; pass logits through FromLogits", ErrProbability, link)
	}
	if !isProbability(propensity) {
		return Belief{}, fmt.Errorf("%w: π̂ = %v; pass logits through FromLogits", ErrProbability, propensity)
	}
	link, propensity = math.Abs(link), math.Abs(propensity) // −0 is 0
	return Belief{
		link: link, notLink: 1 - link,
		propensity: propensity, notPropensity: 1 - propensity,
		linkLogit: logit(link), propensityLogit: logit(propensity),
	}, nil
}

// Link returns ŷ, the probability of a link given exposure.
func (b Belief) Link() float64 { return b.link }

// NotLink returns 1 − ŷ.
func (b Belief) NotLink() float64 { return b.notLink }

// Propensity returns π̂, the probability of exposure.
func (b Belief) Propensity() float64 { return b.propensity }

// NotPropensity returns 1 − π̂.
func (b Belief) NotPropensity() float64 { return b.notPropensity }

// InversePropensity returns 1/π̂, +Inf at π̂ = 0.
func (b Belief) InversePropensity() float64 { return 1 / b.propensity }

// LinkLogit returns z, with ŷ = σ(z).
func (b Belief) LinkLogit() float64 { return b.linkLogit }

// PropensityLogit returns s, with π̂ = σ(s).
func (b Belief) PropensityLogit() float64 { return b.propensityLogit }

// Predicted returns ô = 1(ŷ ≥ ½), which is z ≥ 0.
func (b Belief) Predicted() bool { return b.linkLogit >= 0 }

// Observed returns π̂ŷ, the probability that the link is seen.
func (b Belief) Observed() float64 { return b.link * b.propensity }

// Unobserved returns q = 1 − π̂ŷ, the probability that no link is seen.
func (b Belief) Unobserved() float64 { return b.notLink + b.link*b.notPropensity }

// Irrelevant returns ψ = (1−ŷ)/q, the probability that an unseen link is irrelevant.
//
// At ŷ = π̂ = 1 an unseen link is impossible and ψ is 0/0; it is 1 there, the limit along π̂ = 1, where
// everything is shown and what is unseen is irrelevant.
func (b Belief) Irrelevant() float64 {
	if q := b.Unobserved(); q > farAway {
		return b.notLink / q
	}
	return b.farIrrelevant()
}

// Hidden returns τ = ŷ(1−π̂)/q = 1 − ψ, the probability that an unseen link is relevant but was never
// shown; 0 at ŷ = π̂ = 1.
func (b Belief) Hidden() float64 {
	if q := b.Unobserved(); q > farAway {
		return b.link * b.notPropensity / q
	}
	return b.farHidden()
}

// Floored returns the belief with π̂ raised to the floor if it was below. The result remembers that it
// was clipped: max(π̂, floor) is flat there, so gradients in s are 0. A floor ≤ 0 or NaN changes
// nothing; one above 1 counts as 1.
func (b Belief) Floored(floor float64) Belief {
	if !(floor > b.propensity) {
		return b
	}
	b.propensity = min(floor, 1)
	b.notPropensity = 1 - b.propensity
	b.propensityLogit = logit(b.propensity)
	b.clipped = true
	return b
}

// Clipped reports whether Floored raised the propensity.
func (b Belief) Clipped() bool { return b.clipped }

// made reports whether a belief was constructed, and is not the zero Belief.
func (b Belief) made() bool { return b.link+b.notLink > 0 }

// farAway is the q below which the probabilities themselves underflow and ψ, τ and log q are found
// from the logits, through logit τ = z + log(1−π̂) = z − softplus(s).
const farAway = 1e-290

func (b Belief) farIrrelevant() float64 {
	t := softplus(b.propensityLogit) - b.linkLogit
	if math.IsNaN(t) {
		return 1 // both logits are +Inf: the corner ŷ = π̂ = 1
	}
	irrelevant, _ := sigmoids(t)
	return irrelevant
}

func (b Belief) farHidden() float64 {
	t := softplus(b.propensityLogit) - b.linkLogit
	if math.IsNaN(t) {
		return 0
	}
	_, hidden := sigmoids(t)
	return hidden
}

// sigmoids returns σ(x) and σ(−x), both to full relative precision.
func sigmoids(x float64) (sigma, complement float64) {
	e := math.Exp(-math.Abs(x))
	large, small := 1/(1+e), e/(1+e)
	if x >= 0 {
		return large, small
	}
	return small, large
}

// softplus returns log(1 + eˣ).
func softplus(x float64) float64 { return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// logit returns log(p/(1−p)) for p in [0, 1].
func logit(p float64) float64 { return math.Log(p / (1 - p)) }
