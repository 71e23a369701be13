package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Term is something seen of a pair that a propensity may depend on, beside its fields.
type Term string

const (
	// Text is z, the link model's logit of the pair: what is relevant by its vectors is shown more.
	Text Term = "text"
	// Popularity is log(1 + in-degree of the target): what many link to is shown often.
	Popularity Term = "popularity"
	// Age is how much older than the source the target is, in decades.
	Age Term = "age"
)

// Covariates is another propensity model with linear terms added to s:
//
//	s = s_inside + γ·z + α·log(1 + in-degree of the target) + β·(age of the target − age of the source)/10.
//
// z is the link model's, which this model does not know: Logits and Backward leave γ·z out, and engine.Predictor, which
// has both models, adds it.
type Covariates struct {
	inside savedPropensity
	terms  []Term
	nodes  Nodes
}

// NewCovariates returns a propensity model of this package with terms added, which the nodes must
// know. The parameters are those of the model inside, then one per term, in the order given.
func NewCovariates(inside PropensityModel, n Nodes, terms ...Term) (*Covariates, error) {
	own, ok := inside.(savedPropensity)
	if _, twice := inside.(*Covariates); !ok || twice {
		return nil, fmt.Errorf("%w: terms go all at once on a propensity model of this package, not on %T", ErrKind,
			inside)
	}
	if len(terms) == 0 {
		return nil, fmt.Errorf("%w: no terms; have %s, %s, %s", ErrOption, Text, Popularity, Age)
	}
	if known := own.madeFor().Len(); known != 0 && known != n.Len() {
		return nil, fmt.Errorf("%w: the propensity is made for %d nodes, its terms for %d; give both the same",
			ErrShape, known, n.Len())
	}
	for k, term := range terms {
		if slices.Contains(terms[:k], term) {
			return nil, fmt.Errorf("%w: the term %q comes twice; give it once", ErrOption, term)
		}
		if err := checkTerm(n, term); err != nil {
			return nil, err
		}
	}
	return &Covariates{own, slices.Clone(terms), n}, nil
}

func checkTerm(n Nodes, term Term) error {
	var values []float32
	switch term {
	case Text:
		return nil
	case Popularity:
		values = n.Popularity
	case Age:
		values = n.Age
	default:
		return fmt.Errorf("%w: no term %q; have %s, %s, %s", ErrOption, term, Text, Popularity, Age)
	}
	if len(values) != n.Len() {
		return fmt.Errorf("%w: the %s of %d nodes of %d is known; fill Nodes.Popularity with LogInDegree and "+
			"Nodes.Age with Ages", ErrShape, term, len(values), n.Len())
	}
	for i, x := range values {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return fmt.Errorf("%w: the %s of node %d is %v; give the mean of the others", ErrNotFinite, term, i, x)
		}
	}
	return nil
}

// LinkSlope returns γ, by how much a propensity's logit rises with the link model's, and its place among the
// parameters; 0 and −1 of a propensity that has no such term.
func LinkSlope(m PropensityModel, params []float32) (slope float32, place int) {
	if covariates, ok := m.(*Covariates); ok {
		if t := slices.Index(covariates.terms, Text); t >= 0 {
			place = covariates.inside.Size() + t
			return params[place], place
		}
	}
	return 0, -1
}

// Inside returns the propensity model that the terms are added to, and the terms.
func (m *Covariates) Inside() (PropensityModel, []Term) { return m.inside, m.terms }

// Kind is that of the model inside with the terms behind it, such as "field-matrix+popularity+age".
func (m *Covariates) Kind() string {
	kind := m.inside.Kind()
	for _, term := range m.terms {
		kind += "+" + string(term)
	}
	return kind
}

// Size is that of the model inside and one per term.
func (m *Covariates) Size() int { return m.inside.Size() + len(m.terms) }

// Parts are those of the model inside and a slope per term.
func (m *Covariates) Parts() []ParameterBlock {
	parts := m.inside.Parts()
	for _, term := range m.terms {
		parts = append(parts, ParameterBlock{string(term), []int{1}})
	}
	return parts
}

// StartAt is that of the model inside, with slopes of 0; where that one is fixed it stays so.
func (m *Covariates) StartAt(params []float32, propensity float64, src rand.Source) {
	size := m.inside.Size()
	m.inside.StartAt(params[:size], propensity, src)
	clear(params[size:])
}

// value is what a term sees of a pair.
func (m *Covariates) value(term Term, source, target int32) float32 {
	if term == Popularity {
		return m.nodes.Popularity[target]
	}
	return (m.nodes.Age[target] - m.nodes.Age[source]) / 10
}

// Logits sets s[k] to that of the model inside plus the terms of pair k, but for γ·z.
func (m *Covariates) Logits(s, params []float32, b Batch) {
	size := m.inside.Size()
	m.inside.Logits(s, params[:size], b)
	for t, term := range m.terms {
		if term == Text {
			continue
		}
		slope := params[size+t]
		for k := range s[:b.Len()] {
			s[k] += slope * m.value(term, b.Sources[k], b.Targets[k])
		}
	}
}

// Backward is that of the model inside; a slope's gradient is Σ ds·term, but for γ's.
func (m *Covariates) Backward(grad, params []float32, b Batch, ds []float32) {
	size := m.inside.Size()
	m.inside.Backward(grad[:size], params[:size], b, ds)
	for t, term := range m.terms {
		if term == Text {
			continue
		}
		var slope float64
		for k, x := range ds[:b.Len()] {
			slope += float64(x) * float64(m.value(term, b.Sources[k], b.Targets[k]))
		}
		grad[size+t] += float32(slope)
	}
}

// Terms are those of the model inside, with γ, popularity added to the targets' and age to both ends'.
func (m *Covariates) Terms(params []float32) (ExposureTerms, bool) {
	size := m.inside.Size()
	out, ok := TermsOf(m.inside, params[:size])
	if !ok {
		return ExposureTerms{}, false
	}
	for t, term := range m.terms {
		switch slope := params[size+t]; term {
		case Text:
			out.Link = slope
		case Popularity:
			out.Target = plus(out.Target, slope, m.nodes.Popularity)
		case Age:
			out.Source = plus(out.Source, -slope/10, m.nodes.Age)
			out.Target = plus(out.Target, slope/10, m.nodes.Age)
		}
	}
	return out, true
}

// plus returns a + slope·b, where a may be nil for zeros.
func plus(a []float32, slope float32, b []float32) []float32 {
	out := make([]float32, len(b))
	copy(out, a)
	for i, x := range b {
		out[i] += slope * x
	}
	return out
}

func (m *Covariates) madeFor() Nodes { return m.nodes }
func (m *Covariates) options() any   { return m.inside.options() }
func (m *Covariates) tables() []Tensor {
	if inside, ok := m.inside.(tabular); ok {
		return inside.tables()
	}
	return nil
}
