package kern

import "math"

// Adam is the state of Kingma and Ba's optimiser over a vector of parameters.
type Adam struct {
	Rate          float64 // the learning rate
	Beta1, Beta2  float64 // how much of the moments a step keeps
	Epsilon       float64
	Steps         int
	First, Second []float32 // the moments
}

// NewAdam returns the optimiser with the usual settings, β₁ = .9, β₂ = .999, ε = 1e-8.
func NewAdam(size int, rate float64) *Adam {
	return &Adam{Rate: rate, Beta1: .9, Beta2: .999, Epsilon: 1e-8, First: make([]float32, size),
		Second: make([]float32, size)}
}

// adamStep is one step's coefficients.
type adamStep struct{ blend1, blend2, step, root, epsilon float32 }

// Step moves the parameters against the gradient:
//
//	m ← β₁m + (1−β₁)g    v ← β₂v + (1−β₂)g²    θ ← θ − rate·(m/(1−β₁ᵗ)) / (√(v/(1−β₂ᵗ)) + ε)
func (a *Adam) Step(params, grad []float32) {
	if len(params) != len(a.First) || len(grad) != len(a.First) {
		panic("kern: Adam over another number of parameters")
	}
	a.Steps++
	t := float64(a.Steps)
	coefficients := adamStep{
		blend1:  float32(1 - a.Beta1),
		blend2:  float32(1 - a.Beta2),
		step:    float32(a.Rate / (1 - math.Pow(a.Beta1, t))),
		root:    float32(1 / math.Sqrt(1-math.Pow(a.Beta2, t))),
		epsilon: float32(a.Epsilon),
	}
	whole := len(grad) - len(grad)%lanes()
	adam(params[:whole], a.First[:whole], a.Second[:whole], grad[:whole], coefficients)
	adamGo(params[whole:], a.First[whole:], a.Second[whole:], grad[whole:], coefficients)
}
