package model

import (
	"errors"
	"math"
	"math/rand/v2"

	"unseen/graph"
)

// Errors of this package wrap one of these.
var (
	// ErrShape: vectors, fields or parameters do not fit one another.
	ErrShape = errors.New("shapes differ")
	// ErrKind: there is no model of that name, or it does not support the operation.
	ErrKind = errors.New("unsupported model")
	// ErrOption: an option or a known propensity is out of range.
	ErrOption = errors.New("invalid option")
	// ErrNotFinite: a parameter or a model's input is infinite or not a number.
	ErrNotFinite = errors.New("not a finite number")
	// ErrFile: a file is not a model file, is damaged, or was changed after it was written.
	ErrFile = errors.New("unusable model file")
	// ErrNodes: a model was trained on vectors or fields other than the nodes'.
	ErrNodes = errors.New("made for other nodes")
)

// PairModel is a function from a pair of nodes to a logit, with parameters that the caller holds:
// optimisers and threads keep several sets. Logits and Backward may run on many goroutines.
type PairModel interface {
	// Kind names the model, as New… reads it.
	Kind() string
	// Size is the number of parameters.
	Size() int
	// Logits sets out[k] to the logit of pair k.
	Logits(out, params []float32, b Batch)
	// Backward adds Σ_k d[k]·∂logit_k/∂params to grad: one scalar per pair.
	Backward(grad, params []float32, b Batch, d []float32)
}

// LinkModel gives z, the logit of ŷ = P(link | exposed).
type LinkModel interface {
	PairModel
	// Start fills the parameters with where training begins.
	Start(params []float32, src rand.Source)
}

// PropensityModel gives s, the logit of π̂ = P(exposed). The scale of π is weakly identified, so that
// training starts from several propensities, and what the starts agree on can be trusted more.
type PropensityModel interface {
	PairModel
	// StartAt fills the parameters such that π̂ is about the given propensity, in (0, 1), for every
	// pair. A model without parameters has nothing to fill.
	StartAt(params []float32, propensity float64, src rand.Source)
}

// StartPropensity is where training starts by default: π̂ = .3, from which neither end of [0, 1] attracts.
const StartPropensity = .3

// InnerProduct is a link model whose logit is an inner product with a row of the target,
//
//	z_ij = ⟨q_i, t_j⟩ + offsets[field_j],
//
// so that the best targets of a source are found by maximum inner-product search over the rows.
type InnerProduct interface {
	// Rows returns the rows t under the parameters, one per node. Of [VectorQuery] they are the nodes' own vectors,
	// whatever the parameters. Others make them anew at every call, so keep them; they are not to be closed.
	Rows(params []float32) (*graph.Vectors, error)
	// Query sets q, of the rows' dimension, and offsets, one per field, for a source.
	Query(q, offsets, params []float32, source int32)
}

// VectorQuery is an inner product with the unchanged vectors h_j: training changes only the query, never an index over
// them. A source that is not among the nodes has a query too, by its vector and field.
type VectorQuery interface {
	InnerProduct
	QueryOf(q, offsets, params, vector []float32, field uint16)
}

// TargetRows is an inner product that has rows for targets that it was not trained on.
type TargetRows interface {
	InnerProduct
	// RowOf sets the row of a target with a vector, which may be nil: of a node of the model whose vector has changed,
	// or of a new one, whose node is −1. It reports false where the vector does not fit.
	RowOf(row, params []float32, node int32, vector []float32) bool
}

// DensePropensity is a propensity model whose logits are sums of terms, so that the logits of whole blocks of
// pairs can be computed together. Sums over all pairs of a graph need it.
type DensePropensity interface {
	// Terms returns the terms under the parameters, and false if the logits are no such sum.
	Terms(params []float32) (ExposureTerms, bool)
}

// ExposureTerms are a propensity's logit by its terms: of the fields f and g of source i and target j, of the link
// model's logit z, of the source and of the target. With C fields
//
//	s_ij = Constant + Fields[f·C + g] + Link·z_ij + Source[i] + Target[j].
type ExposureTerms struct {
	Constant float32
	Fields   []float32 // by the source's field, then by the target's; nil means 0
	Link     float32   // γ
	Source   []float32 // by node; nil means 0
	Target   []float32 // by node; nil means 0
}

// TermSlopes are the slopes of a sum over pairs in the terms of their exposure, each at its place in ExposureTerms.
type TermSlopes struct {
	Fields         []float64
	Link           float64
	Source, Target []float64 // by node
}

// LearnedTerms is a dense propensity model that can be learned by its terms alone.
type LearnedTerms interface {
	DensePropensity
	// BackTerms adds to grad what slopes in the terms are in the parameters.
	BackTerms(grad []float64, params []float32, s TermSlopes)
}

// TermsOf returns the terms of a propensity model, and false if its logits are no sum of such terms.
func TermsOf(m PropensityModel, params []float32) (ExposureTerms, bool) {
	if dense, ok := m.(DensePropensity); ok {
		return dense.Terms(params)
	}
	return ExposureTerms{}, false
}

// Logits sets s[k] to the logit of the pair of a source and target k, given the link model's logits z.
func (t ExposureTerms) Logits(s []float32, n Nodes, source int32, targets []int32, z []float32) {
	from := int(n.Fields[source]) * n.FieldCount
	for k, j := range targets {
		s[k] = t.Constant
		if t.Fields != nil {
			s[k] += t.Fields[from+int(n.Fields[j])]
		}
		if t.Target != nil {
			s[k] += t.Target[j]
		}
		if t.Source != nil {
			s[k] += t.Source[source]
		}
		s[k] += t.Link * z[k]
	}
}

// ByFields reports whether all pairs of two fields share one logit.
func (t ExposureTerms) ByFields() bool { return t.Link == 0 && t.Source == nil && t.Target == nil }

// Layout names the parts of a model's parameters, in their order. Together they are all of them.
type Layout interface {
	Parts() []ParameterBlock
}

// ParameterBlock is a named stretch of parameters: an array of a shape, row by row.
type ParameterBlock struct {
	Name  string
	Shape []int
}

// Size returns the number of parameters in the part.
func (p ParameterBlock) Size() int {
	size := 1
	for _, n := range p.Shape {
		size *= n
	}
	return size
}

// maxLogit stands for certainty. It is the largest round number whose e^(±2s) are normal float32
// numbers: π̂ is 1 to the last bit of a float64, while 1−π̂, 1/π̂ and their squares, of which risks
// and gradients are made, neither overflow nor lose bits.
const maxLogit = 40

// logit returns log(p/(1−p)) for p in [0, 1], at most maxLogit in size.
func logit(p float64) float32 {
	return float32(max(-maxLogit, min(maxLogit, math.Log(p/(1-p)))))
}

// sum adds up in float64: a bias sees every pair of a batch.
func sum(xs []float32) float32 {
	var s float64
	for _, x := range xs {
		s += float64(x)
	}
	return float32(s)
}

// normal fills a part of the parameters with normal numbers of mean 0.
func normal(params []float32, deviation float64, rng *rand.Rand) {
	for k := range params {
		params[k] = float32(deviation * rng.NormFloat64())
	}
}
