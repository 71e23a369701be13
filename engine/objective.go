package engine

import (
	"fmt"

	"unseen/graph"
	"unseen/model"
	"unseen/risk"
)

// Likelihood says how a likelihood treats a sample in which unlinked pairs were thrown away.
type Likelihood uint8

// The ways to allow for having sampled the unlinked pairs.
const (
	// CaseControl corrects the likelihood itself: with unlinked pairs kept at rate r,
	// logit P(linked | sampled) = logit(π̂ŷ) + log(1/r).
	CaseControl Likelihood = iota
	// Unweighted takes the sample for the population, as the paper does: ŷ comes out inflated.
	Unweighted
	// Weighted weighs pairs by their inclusion weight: unbiased, but noisy.
	Weighted
)

var likelihoods = [...]string{CaseControl: "case-control", Unweighted: "unweighted", Weighted: "weighted"}

func (l Likelihood) String() string { return likelihoods[l] }

// ParseLikelihood reads case-control, unweighted or weighted.
func ParseLikelihood(name string) (Likelihood, error) {
	for l, n := range likelihoods {
		if n == name {
			return Likelihood(l), nil
		}
	}
	return 0, fmt.Errorf("no likelihood %q; use case-control, unweighted or weighted", name)
}

// RiskTerm is the risk that joins the likelihood in an objective.
type RiskTerm uint8

// The risks; package risk has the same, pair by pair.
const (
	NoRisk    RiskTerm = iota // the likelihood alone
	RiskW                     // R_w
	RiskPU                    // R_PU
	RiskAP                    // R_AP
	RiskDR                    // doubly robust, over pairs whose exposure is logged
	OtherRisk                 // any scheme of package risk, pair by pair
)

// Objective is what is minimised over the parameters θ of both models,
//
//	λ_L·(1/n)Σ NLL(o; ŷ, π̂) + λ_R·(1/Σω)Σ ω·r(o; ŷ, π̂) + ½Σ Precision·(θ − Centre)²
//
// over the pairs of a sample, with inclusion weights ω, or over all pairs of a graph. Everything about a pair comes
// down to two scalars, ∂/∂z and ∂/∂s, which the models take from there.
type Objective struct {
	Link       model.LinkModel
	Propensity model.PropensityModel

	LambdaL    float64 // weight of the likelihood
	LambdaR    float64 // weight of the risk
	Likelihood Likelihood
	Risk       RiskTerm
	Estimator  risk.Estimator // of OtherRisk
	Held       bool           // masses held constant: no gradient flows through them
	Floor      float64        // the least propensity that the risk sees
	EvenRisk   bool           // the risk ignores inclusion weights, as in the paper
	// ShownOnly learns ŷ from the pairs that are known to have been shown, linked or by the log, and π̂ from what is
	// logged; in the place of the likelihood stand −a·log Ber(o; ŷ) and, weighted, −log Ber(a; π̂).
	ShownOnly bool

	// Scale is the size that each parameter is expected to have: optimisers work in units of it, so
	// that the length of the vectors does not matter to them. nil means 1.
	Scale []float64

	Precision []float64 // per parameter; nil means no prior
	Centre    []float64 // nil means 0
	// Tied holds the logits of all pairs of fields together: they are one number, and move as one.
	Tied bool

	Pairs    *graph.Pairs
	Exposure []risk.Exposure // per pair; nil means that nothing is logged
	// Graph makes the objective one over all pairs of its Universe, each counted once and linked where the graph links
	// them: Gradient then does not look at Pairs. Nil means the sample.
	Graph    *graph.Graph
	Universe graph.Universe

	// MeanWeight is what inclusion weights are divided by; 0 means their mean, so that they average to 1. A shard has
	// that of all pairs.
	MeanWeight float64
}

// Parts is the value of an objective by its terms, each already multiplied by its λ.
type Parts struct{ Likelihood, Risk, Prior float64 }

// Total returns the objective.
func (p Parts) Total() float64 { return p.Likelihood + p.Risk + p.Prior }

// Size is the number of parameters: the link model's, then the propensity model's.
func (o *Objective) Size() int { return o.Link.Size() + o.Propensity.Size() }

// Split cuts parameters, or their gradient, into the two models' parts.
func (o *Objective) Split(params []float32) (link, propensity []float32) {
	n := o.Link.Size()
	return params[:n], params[n:o.Size()]
}

func (o *Objective) meanWeight() float64 {
	if o.MeanWeight != 0 {
		return o.MeanWeight
	}
	var sum risk.Sum
	for _, w := range o.Pairs.Weight {
		sum.Add(w)
	}
	return sum.Value() / float64(max(o.Pairs.Len(), 1))
}

// prior adds the prior's gradient, which is then whole and is tied, and returns its value.
func (o *Objective) prior(params []float32, grad []float64) float64 {
	var sum float64
	for i, precision := range o.Precision {
		d := o.offCentre(params, i)
		sum += precision * d * d / 2
		if grad != nil {
			grad[i] += precision * d
		}
	}
	if grad != nil {
		tie(o, grad)
	}
	return sum
}

// offCentre is how far parameter i is from the prior's centre.
func (o *Objective) offCentre(params []float32, i int) float64 {
	d := float64(params[i])
	if o.Centre != nil {
		d -= o.Centre[i]
	}
	return d
}

// Join makes the objective, and its gradient in place, of the sums over all pairs: it divides by their number and adds
// the prior. grad may be nil.
func (o *Objective) Join(sum Parts, pairs int64, params []float32, grad []float64) Parts {
	n := float64(pairs)
	for i := range grad {
		grad[i] /= n
	}
	return Parts{Likelihood: sum.Likelihood / n, Risk: sum.Risk / n, Prior: o.prior(params, grad)}
}

// tie shares the gradient of tied logits evenly among them.
func tie[T float32 | float64](o *Objective, grad []T) {
	fields := o.fields()
	if !o.Tied || fields == nil {
		return
	}
	from, size := o.Link.Size(), fields.Size()
	var sum float64
	for _, x := range grad[from : from+size] {
		sum += float64(x)
	}
	for i := range size {
		grad[from+i] = T(sum / float64(size))
	}
}

// fields is the part of the propensity that depends on pairs of fields, whose parameters come first; nil where there is
// none.
func (o *Objective) fields() *model.FieldMatrix {
	inside := o.Propensity
	if covariates, ok := inside.(*model.Covariates); ok {
		inside, _ = covariates.Inside()
	}
	fields, _ := inside.(*model.FieldMatrix)
	return fields
}
