package risk

import "math"

// Exposure is what a log says of whether the target was shown to the source.
type Exposure uint8

// What a log can say.
const (
	Unlogged  Exposure = iota // nothing is logged
	Exposed                   // a = 1
	Unexposed                 // a = 0
	// Offered: there was no link, and then the target was shown on purpose, whatever π is. Whether it was then
	// linked shows how probable the link is given that exposure had not led to it before. The values above it are
	// of targets that may not have been looked at; see [OfferedSeen].
	Offered
)

// seenSteps is how many values of Exposure an e-fold of Seen takes.
const seenSteps = 45

// OfferedSeen is Offered of a target that, if it is wanted, turns out to be with probability q only: it stood where few
// look, or wanting shows in a click that many do not make. q is rounded by 1.1% at most, and at least .0037.
func OfferedSeen(q float64) Exposure {
	if !(q < 1) {
		return Offered
	}
	steps := math.Round(-seenSteps * math.Log(math.Max(q, 1e-9)))
	return Offered + Exposure(math.Min(steps, float64(math.MaxUint8-Offered)))
}

// seenOf is the q of every value.
var seenOf = func() (q [1 + math.MaxUint8]float64) {
	for e := range q {
		q[e] = math.Exp(-math.Max(float64(e-int(Offered)), 0) / seenSteps)
	}
	return q
}()

// IsOffered reports whether the target was shown on purpose, as [Offered] and [OfferedSeen] say.
func (e Exposure) IsOffered() bool { return e >= Offered }

// Seen is the probability with which wanting shows; see [OfferedSeen]. It is 1 of all others.
func (e Exposure) Seen() float64 { return seenOf[e] }

// Observation is what has been seen of one pair, apart from what the models believe.
type Observation struct {
	Linked   bool     // o
	Exposure Exposure // a, where exposure is logged

	relevance      float64 // y
	relevanceKnown bool
}

// WithRelevance returns the observation with the true link probability y, known in simulated and
// planted worlds. Only [True] and schemes like it use it.
func (o Observation) WithRelevance(y float64) Observation {
	o.relevance, o.relevanceKnown = y, true
	return o
}

// Relevance returns y and whether it is known.
func (o Observation) Relevance() (y float64, known bool) { return o.relevance, o.relevanceKnown }

// Mass is the weight of one pair: P as a link and N as no link.
type Mass struct {
	Positive float64 // P
	Negative float64 // N
}

// Slope holds the derivatives of a pair's masses in the two logits. The logits are the coordinates, not
// ŷ and π̂, because there the derivatives stay finite where 1/π̂² and 1/q² overflow: ∂τ/∂z = τψ
// and ∂τ/∂s = −τψπ̂.
type Slope struct {
	Link       Mass // ∂P/∂z, ∂N/∂z
	Propensity Mass // ∂P/∂s, ∂N/∂s
}

// ChainSlope turns derivatives in the probabilities, ∂(P, N)/∂ŷ and ∂(P, N)/∂π̂, into a Slope:
// ∂/∂z = ŷ(1−ŷ)·∂/∂ŷ and ∂/∂s = π̂(1−π̂)·∂/∂π̂.
func ChainSlope(b Belief, link, propensity Mass) Slope {
	return Slope{
		Link:       link.scaled(b.link * b.notLink),
		Propensity: propensity.scaled(b.propensity * b.notPropensity),
	}
}

func (m Mass) scaled(by float64) Mass { return Mass{times(by, m.Positive), times(by, m.Negative)} }

// Scheme is a way to weigh pairs: one row of the package's table.
//
// Mass must not depend on anything but its arguments, and may be called from many goroutines. A NaN
// mass means that the observation lacks what the scheme needs; Estimate turns it into an error.
type Scheme interface {
	Mass(o Observation, b Belief) Mass
}

// Differentiable is a scheme that knows the slopes of its masses. Others get central differences in
// the logits, at four more calls of Mass a pair and about nine digits.
type Differentiable interface {
	Scheme
	Slope(o Observation, b Belief) Slope
}

// MassFunc makes a scheme of a function.
type MassFunc func(o Observation, b Belief) Mass

// Mass calls f; a nil f gives NaN masses.
func (f MassFunc) Mass(o Observation, b Belief) Mass {
	if f == nil {
		return Mass{math.NaN(), math.NaN()}
	}
	return f(o, b)
}

var (
	_ Scheme         = MassFunc(nil)
	_ Differentiable = True{}
	_ Differentiable = Naive{}
	_ Differentiable = W{}
	_ Differentiable = PU{}
	_ Differentiable = AP{}
)

// True weighs by the true relevance: P = y, N = 1 − y, from [Observation.WithRelevance]; NaN where y is
// unknown or no probability. Its mean is the true risk that the other schemes estimate.
type True struct{}

// Mass returns y and 1 − y.
func (True) Mass(o Observation, _ Belief) Mass {
	if !o.relevanceKnown || !isProbability(o.relevance) {
		return Mass{math.NaN(), math.NaN()}
	}
	return Mass{o.relevance, 1 - o.relevance}
}

// Slope returns zeros.
func (True) Slope(Observation, Belief) Slope { return Slope{} }

// Naive takes what is observed for the truth: P = o, N = 1 − o.
type Naive struct{}

// Mass returns o and 1 − o.
func (Naive) Mass(o Observation, _ Belief) Mass {
	if o.Linked {
		return Mass{Positive: 1}
	}
	return Mass{Negative: 1}
}

// Slope returns zeros.
func (Naive) Slope(Observation, Belief) Slope { return Slope{} }

// W weighs links by the inverse propensity and missing links by their chance of being irrelevant:
// P = o/π̂, N = (1−o)ψ.
type W struct{}

// Mass returns o/π̂ and (1−o)ψ.
func (W) Mass(o Observation, b Belief) Mass {
	if o.Linked {
		return Mass{Positive: b.InversePropensity()}
	}
	return Mass{Negative: b.Irrelevant()}
}

// Slope returns the slopes of 1/π̂ or of ψ.
func (W) Slope(o Observation, b Belief) Slope {
	if o.Linked {
		return Slope{Propensity: Mass{Positive: -inverseOdds(b)}}
	}
	link, propensity := hiddenSlopes(b)
	return Slope{Link: Mass{Negative: -link}, Propensity: Mass{Negative: -propensity}}
}

// PU weighs links by the inverse propensity and takes as many missing links away: P = o/π̂,
// N = 1 − o/π̂. Its mean can be negative, and has no lower bound as π̂ → 0.
type PU struct{}

// Mass returns o/π̂ and 1 − o/π̂, which is −(1−π̂)/π̂ where o = 1.
func (PU) Mass(o Observation, b Belief) Mass {
	if o.Linked {
		return Mass{b.InversePropensity(), 0 - inverseOdds(b)} // 0−x: no −0 at π̂ = 1
	}
	return Mass{Negative: 1}
}

// Slope returns the slopes of 1/π̂ and −1/π̂ where o = 1.
func (PU) Slope(o Observation, b Belief) Slope {
	if !o.Linked {
		return Slope{}
	}
	odds := inverseOdds(b)
	return Slope{Propensity: Mass{-odds, odds}}
}

// AP adds to each missing link the chance that it is relevant after all: P = o + (1−o)τ, N = (1−o)ψ.
// The masses are probabilities, so its risk stays within the loss's bounds whatever π̂ is.
type AP struct{}

// Mass returns o + (1−o)τ and (1−o)ψ.
func (AP) Mass(o Observation, b Belief) Mass {
	if o.Linked {
		return Mass{Positive: 1}
	}
	return Mass{b.Hidden(), b.Irrelevant()}
}

// Slope returns the slopes of τ and ψ = 1 − τ where o = 0.
func (AP) Slope(o Observation, b Belief) Slope {
	if o.Linked {
		return Slope{}
	}
	link, propensity := hiddenSlopes(b)
	return Slope{Link: Mass{link, -link}, Propensity: Mass{propensity, -propensity}}
}

// DR is the doubly robust scheme, for pairs whose exposure a is logged: P = ŷ + a(o−ŷ)/π̂, N = 1 − P. It is unbiased
// where either π̂ or ŷ is right. Other pairs have no mass, and an estimate over them fails.
//
// These masses have no bounds where π̂ is small, so no estimate uses them as they are: over pairs, R_DR is that of a
// [Target], which moves ŷ to ŷ* first and has no a(o−ŷ*)/π̂ left over. Training has no need of that. With constant
// masses the gradient is that of a/π̂·δ(o, ŷ), the loss of what was shown, and is 0 where Target has nothing to move.
type DR struct{}

// Mass returns ŷ + a(o−ŷ)/π̂ and what is missing to 1; NaN where a is not logged.
func (DR) Mass(o Observation, b Belief) Mass {
	p := b.Link()
	switch {
	case o.Exposure == Unlogged || o.Exposure.IsOffered():
		return Mass{math.NaN(), math.NaN()}
	case o.Exposure == Exposed && o.Linked:
		p += b.NotLink() * b.InversePropensity()
	case o.Exposure == Exposed:
		p -= b.Link() * b.InversePropensity()
	}
	return Mass{p, 1 - p}
}

// inverseOdds returns (1−π̂)/π̂ = 1/π̂ − 1 = e⁻ˢ, which is also −∂(1/π̂)/∂s.
func inverseOdds(b Belief) float64 { return b.notPropensity / b.propensity }

// hiddenSlopes returns ∂τ/∂z = τψ and ∂τ/∂s = −τψπ̂.
func hiddenSlopes(b Belief) (link, propensity float64) {
	link = b.Hidden() * b.Irrelevant()
	return link, -link * b.propensity
}

// slopeOf returns the scheme's own slopes, or central differences of its masses.
func slopeOf(s Scheme, o Observation, b Belief) Slope {
	if d, ok := s.(Differentiable); ok {
		return d.Slope(o, b)
	}
	return Slope{
		Link: centralDifference(b.linkLogit, func(z float64) Mass {
			at := b
			at.linkLogit = z
			at.link, at.notLink = sigmoids(z)
			return s.Mass(o, at)
		}),
		Propensity: centralDifference(b.propensityLogit, func(logit float64) Mass {
			at := b
			at.propensityLogit = logit
			at.propensity, at.notPropensity = sigmoids(logit)
			return s.Mass(o, at)
		}),
	}
}

// centralDifference differentiates masses in one logit. Where the logit is infinite, or the masses are,
// there is no difference to take and the slope is given as 0.
func centralDifference(at float64, mass func(float64) Mass) Mass {
	if math.IsInf(at, 0) {
		return Mass{}
	}
	step := 6e-6 * math.Max(1, math.Abs(at)) // ∛ε balances truncation and rounding
	high, low := at+step, at-step
	up, down := mass(high), mass(low)
	return Mass{
		difference(up.Positive, down.Positive, high-low),
		difference(up.Negative, down.Negative, high-low),
	}
}

func difference(up, down, width float64) float64 {
	if math.IsInf(up, 0) || math.IsInf(down, 0) {
		return 0
	}
	return (up - down) / width
}
