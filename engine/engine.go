package engine

import (
	"context"
	"errors"
	"fmt"

	"unseen/graph"
	"unseen/model"
)

// Errors of this package wrap one of these.
var (
	ErrShape       = errors.New("shapes differ")
	ErrUnsupported = errors.New("not supported")
)

// Engine does what is heavy. The processor, a graphics card and a cluster each have one, and they
// agree within rounding. What an engine cannot do it refuses with ErrUnsupported.
type Engine interface {
	// Gradient returns the objective's parts at params and, unless grad is nil, sets grad to its
	// gradient.
	Gradient(ctx context.Context, o *Objective, params []float32, grad []float64) (Parts, error)
	// Minibatch sets grad to the gradient of the objective over some of its pairs, given by their places.
	Minibatch(ctx context.Context, o *Objective, places []int, params, grad []float32) error
	// Alternate prepares an objective over learned factors for being minimised side by side.
	Alternate(o *Objective) (Alternation, error)
	// Design prepares pairs for the posterior of a linear link model.
	Design(ctx context.Context, p DesignPairs) (Design, error)
	// Scan evaluates models on pairs, hands the logits to a visitor, and returns gradients of what that makes of
	// them.
	Scan(ctx context.Context, s Scan) ([][]float64, error)
	// TopK returns the best targets of every query, best first and of equal scores the lowest first. There are fewer
	// than K only where fewer may be hits and have a score that is a number.
	TopK(ctx context.Context, s TargetSearch) ([][]Hit, error)
	// AllPairs returns what a predictor's own predictions come to over all pairs of a graph's universe. The floor is
	// the least propensity that the risks see, as of risk.Estimator.
	AllPairs(ctx context.Context, g *graph.Graph, p Predictor, u graph.Universe, floor float64) (Means, error)
}

// Batching is an engine that is best asked about many queries at a time.
type Batching interface {
	// Together is about how many.
	Together() int
}

// Predictor is both models with their parameters: what predicts ŷ and π̂ of pairs.
type Predictor struct {
	Link             model.LinkModel
	LinkParams       []float32
	Propensity       model.PropensityModel
	PropensityParams []float32
}

// Validate refuses a predictor without models, or with too few parameters.
func (p Predictor) Validate() error {
	if p.Link == nil || p.Propensity == nil {
		return fmt.Errorf("%w: a predictor without models", ErrShape)
	}
	if len(p.LinkParams) < p.Link.Size() || len(p.PropensityParams) < p.Propensity.Size() {
		return fmt.Errorf("%w: %d and %d parameters for models with %d and %d", ErrShape, len(p.LinkParams),
			len(p.PropensityParams), p.Link.Size(), p.Propensity.Size())
	}
	return nil
}

// Logits sets z and s to the logits of ŷ and of π̂ of every pair of a batch, each if there is such a model. This is
// where a propensity with a text term gets its γ·z. Without a link model, it lacks that.
func (p Predictor) Logits(z, s []float32, b model.Batch) {
	if p.Link != nil {
		p.Link.Logits(z, p.LinkParams, b)
	}
	if p.Propensity == nil {
		return
	}
	p.Propensity.Logits(s, p.PropensityParams, b)
	if slope, place := model.LinkSlope(p.Propensity, p.PropensityParams); place >= 0 {
		for k := range s[:b.Len()] {
			s[k] += slope * z[k]
		}
	}
}

// backward adds the gradients in the parameters of both models, given z and each pair's slopes in z and s. Those in z
// are overwritten: with a text term, z acts through s as well.
func (p Predictor) backward(gradLink, gradPropensity []float32, b model.Batch, z, dz, ds []float32) {
	if slope, place := model.LinkSlope(p.Propensity, p.PropensityParams); place >= 0 {
		var sum float64
		for k, x := range ds[:b.Len()] {
			sum += float64(x) * float64(z[k])
			dz[k] += slope * x
		}
		gradPropensity[place] += float32(sum)
	}
	p.Link.Backward(gradLink, p.LinkParams, b, dz)
	p.Propensity.Backward(gradPropensity, p.PropensityParams, b, ds)
}

// Exposure returns what is needed to predict π̂: the propensity model, and the link model where π̂ depends on z.
func (p Predictor) Exposure() Predictor {
	if _, place := model.LinkSlope(p.Propensity, p.PropensityParams); place < 0 {
		p.Link, p.LinkParams = nil, nil
	}
	return p
}
