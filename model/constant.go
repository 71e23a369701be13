package model

import (
	"fmt"
	"math/rand/v2"
)

// Constant is one propensity for every pair. With π̂ = 1 everything was shown, a missing link means
// no more than "irrelevant", and training is naive.
//
// Certainty is the logit 40. In a float64 σ(40) is 1 to the last bit, while 1−π̂ = 4e−18, 1/(1−π̂) and
// their squares are normal numbers even in float32, so that risks and gradients stay finite.
type Constant struct {
	propensity float64
}

// NewConstant returns the propensity that is the same in (0, 1] for every pair.
func NewConstant(propensity float64) (*Constant, error) {
	if !(propensity > 0 && propensity <= 1) {
		return nil, fmt.Errorf("%w: a propensity of %v for every pair; give more than 0 and at most 1", ErrOption,
			propensity)
	}
	return &Constant{propensity}, nil
}

// Kind is "constant".
func (m *Constant) Kind() string { return "constant" }

// Size is 0: nothing is learned.
func (m *Constant) Size() int { return 0 }

// Parts are none.
func (m *Constant) Parts() []ParameterBlock { return nil }

// StartAt does nothing.
func (m *Constant) StartAt([]float32, float64, rand.Source) {}

// Terms are the constant alone.
func (m *Constant) Terms([]float32) (ExposureTerms, bool) {
	return ExposureTerms{Constant: logit(m.propensity)}, true
}

// BackTerms has nothing to add.
func (m *Constant) BackTerms([]float64, []float32, TermSlopes) {}

// Logits sets every s[k] to the propensity's logit.
func (m *Constant) Logits(s, _ []float32, b Batch) {
	same := logit(m.propensity)
	for k := range s[:b.Len()] {
		s[k] = same
	}
}

// Backward does nothing.
func (m *Constant) Backward(_, _ []float32, _ Batch, _ []float32) {}

func (m *Constant) madeFor() Nodes { return Nodes{} }
func (m *Constant) options() any   { return PropensityOptions{Propensity: m.propensity} }
