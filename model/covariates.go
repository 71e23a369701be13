package model

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
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
	// Person is an effect of every source: some are shown more than others.
	Person Term = "person"
	// Item is an effect of every target: some are shown to more than others.
	Item Term = "item"
	// Activity is how long the target had been there when the source was last active, and how much the source did.
	Activity Term = "activity"
)

// Terms are all of them, in the order in which a propensity has them.
func Terms() []Term { return []Term{Text, Popularity, Age, Person, Item, Activity} }

// Covariates is another propensity model with terms added to s:
//
//	s = s_inside + γ·z + α·log(1 + in-degree of the target) + β·(age of the target − age of the source)/10
//	    + p_i + q_j + δ₁·a + δ₂·(a² − 1) + δ₃·n + δ₄·n·a,
//
// with effects p and q of every source and every target, and the age a and the links n of Nodes.Activity. z is the link
// model's, which this model does not know: Logits and Backward leave γ·z out, and engine.Predictor, which has both
// models, adds it.
type Covariates struct {
	inside           savedPropensity
	terms            []Term
	nodes            Nodes
	sources, targets sideNumber
}

// NewCovariates returns a propensity model of this package with terms added, which the nodes must
// know. The parameters are those of the model inside, then those of each term, in the order given.
func NewCovariates(inside PropensityModel, n Nodes, terms ...Term) (*Covariates, error) {
	own, ok := inside.(savedPropensity)
	if _, twice := inside.(*Covariates); !ok || twice {
		return nil, fmt.Errorf("%w: terms go all at once on a propensity model of this package, not on %T", ErrKind,
			inside)
	}
	if len(terms) == 0 {
		return nil, fmt.Errorf("%w: no terms; have %s", ErrOption, termNames(", "))
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
	return &Covariates{own, slices.Clone(terms), n, numberSide(n.Sources, n.Len()), numberSide(n.Targets, n.Len())}, nil
}

// termNames lists the terms.
func termNames(between string) string {
	var names []string
	for _, t := range Terms() {
		names = append(names, string(t))
	}
	return strings.Join(names, between)
}

func checkTerm(n Nodes, term Term) error {
	var values []float32
	switch term {
	case Text, Person, Item:
		return nil
	case Popularity:
		values = n.Popularity
	case Age:
		values = n.Age
	case Activity:
		if n.Activity == nil || len(n.Activity.When) != n.Len() || len(n.Activity.Links) != n.Len() {
			return fmt.Errorf("%w: the %s of the nodes is not known; fill Nodes.Activity with ActivitiesOf", ErrShape,
				term)
		}
		return nil
	default:
		return fmt.Errorf("%w: no term %q; have %s", ErrOption, term, termNames(", "))
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
		for part, at := range covariates.parts() {
			if part == Text {
				return params[at.from], at.from
			}
		}
	}
	return 0, -1
}

// Inside returns the propensity model that the terms are added to, and the terms.
func (m *Covariates) Inside() (PropensityModel, []Term) { return m.inside, m.terms }

// Sources returns the node of every effect of the term Person, in order.
func (m *Covariates) Sources() []int32 {
	if m.nodes.Sources != nil {
		return m.nodes.Sources
	}
	all := make([]int32, m.nodes.Len())
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

// Kind is that of the model inside with the terms behind it, such as "field-matrix+popularity+age".
func (m *Covariates) Kind() string {
	kind := m.inside.Kind()
	for _, term := range m.terms {
		kind += "+" + string(term)
	}
	return kind
}

// Size is that of the model inside and of the terms.
func (m *Covariates) Size() int {
	size := m.inside.Size()
	for _, term := range m.terms {
		size += m.size(term)
	}
	return size
}

// size is how many parameters a term has.
func (m *Covariates) size(term Term) int {
	switch term {
	case Person:
		return m.sources.count
	case Item:
		return m.targets.count
	case Activity:
		return activitySlopes
	}
	return 1
}

// place is where the parameters of a term are.
type place struct{ from, to int }

// parts yields every term and where its parameters are.
func (m *Covariates) parts() iter.Seq2[Term, place] {
	return func(yield func(Term, place) bool) {
		from := m.inside.Size()
		for _, term := range m.terms {
			to := from + m.size(term)
			if !yield(term, place{from, to}) {
				return
			}
			from = to
		}
	}
}

// Parts are those of the model inside and the slopes or effects of every term.
func (m *Covariates) Parts() []ParameterBlock {
	parts := m.inside.Parts()
	for _, term := range m.terms {
		parts = append(parts, ParameterBlock{string(term), []int{m.size(term)}})
	}
	return parts
}

// StartAt is that of the model inside, with slopes and effects of 0; where that one is fixed it stays so.
func (m *Covariates) StartAt(params []float32, propensity float64, src rand.Source) {
	size := m.inside.Size()
	m.inside.StartAt(params[:size], propensity, src)
	clear(params[size:])
}

// value is what the slope of popularity or age multiplies.
func (m *Covariates) value(term Term, source, target int32) float32 {
	if term == Popularity {
		return m.nodes.Popularity[target]
	}
	return (m.nodes.Age[target] - m.nodes.Age[source]) / 10
}

// Logits sets s[k] to that of the model inside plus the terms of pair k, but for γ·z.
func (m *Covariates) Logits(s, params []float32, b Batch) {
	m.inside.Logits(s, params[:m.inside.Size()], b)
	s = s[:b.Len()]
	sources, targets := b.Sources[:len(s)], b.Targets[:len(s)]
	for term, at := range m.parts() {
		own := params[at.from:at.to]
		switch term {
		case Text:
		case Person:
			for k, i := range sources {
				if at := m.sources.of(i); at >= 0 { // others are asked for in passing, and have no effect
					s[k] += own[at]
				}
			}
		case Item:
			for k, j := range targets {
				if at := m.targets.of(j); at >= 0 {
					s[k] += own[at]
				}
			}
		case Activity:
			for k, i := range sources {
				v := m.nodes.Activity.values(i, targets[k])
				s[k] += own[0]*v[0] + own[1]*v[1] + own[2]*v[2] + own[3]*v[3]
			}
		default:
			for k, i := range sources {
				s[k] += own[0] * m.value(term, i, targets[k])
			}
		}
	}
}

// Backward is that of the model inside; a slope's gradient is Σ ds·term and an effect's Σ ds, but for γ's.
func (m *Covariates) Backward(grad, params []float32, b Batch, ds []float32) {
	size := m.inside.Size()
	m.inside.Backward(grad[:size], params[:size], b, ds)
	ds = ds[:b.Len()]
	sources, targets := b.Sources[:len(ds)], b.Targets[:len(ds)]
	for term, at := range m.parts() {
		own := grad[at.from:at.to]
		switch term {
		case Text:
		case Person:
			for k, x := range ds {
				own[m.sources.of(sources[k])] += x
			}
		case Item:
			for k, x := range ds {
				own[m.targets.of(targets[k])] += x
			}
		case Activity:
			var slopes [activitySlopes]float64
			for k, x := range ds {
				for q, v := range m.nodes.Activity.values(sources[k], targets[k]) {
					slopes[q] += float64(x * v)
				}
			}
			for q, x := range slopes {
				own[q] += float32(x)
			}
		default:
			var slope float64
			for k, x := range ds {
				slope += float64(x) * float64(m.value(term, sources[k], targets[k]))
			}
			own[0] += float32(slope)
		}
	}
}

// Terms are those of the model inside, with γ, popularity added to the targets', age to both ends' and the effects to
// their own. Activity is no sum of what the two ends have.
func (m *Covariates) Terms(params []float32) (ExposureTerms, bool) {
	out, ok := TermsOf(m.inside, params[:m.inside.Size()])
	if !ok || slices.Contains(m.terms, Activity) {
		return ExposureTerms{}, false
	}
	for term, at := range m.parts() {
		switch own := params[at.from:at.to]; term {
		case Text:
			out.Link = own[0]
		case Popularity:
			out.Target = plus(out.Target, own[0], m.nodes.Popularity)
		case Age:
			out.Source = plus(out.Source, -own[0]/10, m.nodes.Age)
			out.Target = plus(out.Target, own[0]/10, m.nodes.Age)
		case Person:
			out.Source = plus(out.Source, 1, m.sources.spread(own, m.nodes.Len()))
		case Item:
			out.Target = plus(out.Target, 1, m.targets.spread(own, m.nodes.Len()))
		}
	}
	return out, true
}

// BackTerms is that of the model inside; a slope's gradient is that of the ends times what it multiplies, an effect's
// that of its own end.
func (m *Covariates) BackTerms(grad []float64, params []float32, s TermSlopes) {
	size := m.inside.Size()
	m.inside.(LearnedTerms).BackTerms(grad[:size], params[:size], s)
	for term, at := range m.parts() {
		switch own := grad[at.from:at.to]; term {
		case Text:
			own[0] += s.Link
		case Popularity:
			own[0] += along(s.Target, m.nodes.Popularity)
		case Age:
			own[0] += (along(s.Target, m.nodes.Age) - along(s.Source, m.nodes.Age)) / 10
		case Person:
			m.sources.gather(own, s.Source)
		case Item:
			m.targets.gather(own, s.Target)
		}
	}
}

// along is the inner product of slopes with values.
func along(slopes []float64, values []float32) (sum float64) {
	for i, x := range slopes {
		sum += x * float64(values[i])
	}
	return sum
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
