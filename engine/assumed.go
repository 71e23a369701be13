package engine

import (
	"context"
	"fmt"
	"math"
)

// Assumptions say how links come about: what a Design is observed under. The zero Assumptions are the model's own,
// P(link) = σ(s[cell])·σ(z).
//
// Every term is one more number t of θ, which becomes (w, b, s, t).
type Assumptions struct {
	Response Response
	Terms    []AssumedTerm // at most one of them Dependence
}

// Response is how relevance depends on the link logit: ŷ = F(z).
type Response uint8

// The responses. They differ in how fast ŷ comes near 0 and 1, which links hardly show and the scale of π̂ hangs on.
const (
	Logistic            Response = iota
	Probit                       // the normal distribution's
	ComplementaryLogLog          // 1 − exp(−eᶻ)
	ArandaOrdaz                  // 1 − (1 + 4eᶻ)^(−1/4): slower towards 1 than Logistic
	Cauchit                      // ½ + arctan(z)/π: slower towards 0 and 1
)

// responseNames are how they are written.
var responseNames = [...]string{"logit", "probit", "cloglog", "aranda-ordaz", "cauchit"}

func (r Response) String() string { return responseNames[r] }

// MarshalText implements encoding.TextMarshaler.
func (r Response) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Response) UnmarshalText(text []byte) error {
	for i, name := range responseNames {
		if name == string(text) {
			*r = Response(i)
			return nil
		}
	}
	return fmt.Errorf("no response %q; there is %v", text, responseNames)
}

// AssumedTerm is something that s or z depend on besides the cell and the products of vectors, times a number t.
type AssumedTerm struct {
	Kind  TermKind
	Value []float32 // v of each pair; nil means 1
}

// TermKind says where a term goes.
type TermKind uint8

// The kinds of terms.
const (
	InExposure     TermKind = iota // s gets t·v
	InLink                         // z gets t·v
	LinkInExposure                 // s gets t·v·likeness, see Response.likeness: what is relevant is shown more
	// Dependence makes exposure and relevance of a pair dependent given π and ŷ: two normal variables decide them,
	// whose correlation is tanh t. Both come about together more often than π·ŷ where t > 0.
	Dependence
)

// mostDependent is t of the largest correlation, .9993.
const mostDependent = 4

// AssumedLikelihood is a LogLikelihood under Assumptions, and what is asked of it to compare them.
type AssumedLikelihood interface {
	LogLikelihood
	// Means returns weighted sums over the pairs of what is believed of them at θ, and the gradient of each.
	Means(ctx context.Context, theta []float64, of []PairMean) (values []float64, gradients [][]float64, err error)
	// GroupGradients returns the gradient of every group of pairs at θ.
	GroupGradients(ctx context.Context, theta []float64, g PairGroups) ([][]float64, error)
	// GroupValues returns −log likelihood of every group of pairs at the group's own θ: of each pair minus the
	// logarithm of its mean likelihood over what is believed of its logit, where Value has the mean of the logarithm.
	GroupValues(ctx context.Context, theta [][]float64, g PairGroups) ([]float64, error)
}

// PairGroups are the pairs of a design in groups: Of each pair its number, below Count.
type PairGroups struct {
	Of    []uint8
	Count int
}

// PairMean is Σ Link·ŷ + Exposure·π̂ + Missed·P(relevant | not linked) over the pairs. Each has a factor per pair; nil
// means 0.
type PairMean struct{ Link, Exposure, Missed []float32 }

// validate checks assumptions about so many pairs.
func (a Assumptions) validate(pairs int) error {
	dependences := 0
	for _, t := range a.Terms {
		if t.Kind > Dependence || t.Value != nil && len(t.Value) != pairs {
			return fmt.Errorf("%w: %d pairs, a term of kind %d with %d values", ErrShape, pairs, t.Kind, len(t.Value))
		}
		if t.Kind == Dependence {
			dependences++
		}
	}
	if dependences > 1 || int(a.Response) >= len(responseNames) {
		return fmt.Errorf("%w: %d terms of dependence, response %d", ErrShape, dependences, a.Response)
	}
	return nil
}

// at returns ŷ, 1−ŷ and d log ŷ/dz, none of them 0 or infinite.
func (r Response) at(z float64) (y, rest, slope float64) {
	return r.atOdds(z, math.Exp(max(-600, min(600, z))))
}

// atOdds is at for a z whose e^z is known; it is finite.
func (r Response) atOdds(z, odds float64) (y, rest, slope float64) {
	odds = max(odds, 1e-260)
	switch r {
	case Probit:
		z = max(-37, min(37, z))
		y = math.Erfc(-z/math.Sqrt2) / 2
		if rest = 1 - y; z > 3 {
			rest = max(math.Erfc(z/math.Sqrt2)/2, 1e-300)
		}
		return y, rest, math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) / y
	case ComplementaryLogLog:
		e := min(odds, 400)
		if e < .5 {
			y = -math.Expm1(-e)
			rest = 1 - y
		} else {
			rest = math.Exp(-e)
			y = 1 - rest
		}
		return y, rest, e * rest / y
	case ArandaOrdaz:
		square := math.Sqrt(1 + 4*odds)
		root := math.Sqrt(square)
		rest = 1 / root
		if y = 1 - rest; y < .1 { // where the difference would lose digits
			y = 4 * odds * rest / ((1 + root) * (1 + square))
		}
		return y, rest, rest * odds / (1 + 4*odds) / y
	case Cauchit:
		z = max(-1e12, min(1e12, z))
		if z < 0 {
			y = math.Atan2(1, -z) / math.Pi
			rest = 1 - y
		} else {
			rest = math.Atan2(1, z) / math.Pi
			y = 1 - rest
		}
		return y, rest, 1 / (math.Pi * (1 + z*z)) / y
	}
	e := 1 / odds
	return 1 / (1 + e), e / (1 + e), e / (1 + e)
}

// likeness returns what exposure may follow of a logit: about the log odds of ŷ where it is small,
// so that a slope means the same whatever the response; and its own slope. Of a logistic response
// it is z. Cauchit's z runs away where ŷ comes near 0 or 1, and a small slope on it would make
// exposure the one that decides.
func (r Response) likeness(z, y, rest, slope float64) (value, rise float64) {
	const shorter = 1.7 // is z of a probit than its log odds
	switch r {
	case Probit:
		return shorter * z, shorter
	case Cauchit:
		return math.Log(y / rest), slope / rest
	}
	return z, 1
}

// line returns likeness and its slope where it is a line; of cauchit, whose likeness is not, nothing that matters.
func (r Response) line(z float64) (value, rise float64) { return r.likeness(z, .5, .5, .5) }
