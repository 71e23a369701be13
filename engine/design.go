package engine

import (
	"context"

	"unseen/graph"
	"unseen/risk"
)

// Design is the pairs of a sample made ready for the posterior of θ = (w, b, s): d weights of the products of two
// vectors, an intercept, and one propensity logit for every cell of pairs that share one.
//
//	z = w·x + b,  x = (h_i⊙h_j)/unit        s = s[cell]
//
// It is prepared once and used many times: a graphics card uploads the products, a cluster cuts them into shards.
type Design interface {
	// Unit is what the products of vectors were divided by, so that their squared length is d on average and w is
	// of the size of 1 whatever the vectors' length.
	Unit() float64
	// Logits returns z of every pair at θ.
	Logits(ctx context.Context, theta []float64) ([]float32, error)
	// Leverage returns xᵀVx of every pair: the variance of its logit where V is the covariance of (w, b).
	Leverage(ctx context.Context, root Root) ([]float32, error)
	// Observe makes the likelihood of what is seen of the pairs. It is to be closed before the design is.
	Observe(ctx context.Context, o Outcomes) (LogLikelihood, error)
	// Assume makes the likelihood of the same under other assumptions. It is to be closed before the design is.
	Assume(ctx context.Context, o Outcomes, a Assumptions) (AssumedLikelihood, error)
	// Close gives back what the design holds.
	Close() error
}

// DesignPairs says which pairs a Design is made of.
type DesignPairs struct {
	Vectors *graph.Vectors
	Pairs   *graph.Pairs // of which sources and targets are looked at
	Cell    []int32      // the cell of each pair
	Cells   int          // how many there are
	Rate    []float64    // of each pair: how often it is in the sample if unlinked, to if linked; nil means 1
	Known   bool         // s is known: of w and s there is no common information
	// Unit is what the products are divided by, for θ to mean what it does in another design; 0 means as Design.Unit
	// has it.
	Unit float64
	// Streamed keeps no products: every pass makes them again. It is for pairs whose products would not fit into
	// memory. Of a streamed design there are Logits, Leverage, Value and Information. Its cells are CellOf.
	Streamed bool
	CellOf   func(source, target int32) int32
}

// Outcomes are what is seen of the pairs of a design, and how surely their logits are known.
type Outcomes struct {
	Linked   []bool
	Exposure []risk.Exposure // nil means that nothing is logged
	// Leverage is the variance of each pair's logit z, over which its likelihood is averaged; nil takes z as certain.
	Leverage []float32
	// Root gives the leverage of pairs that are elsewhere, in its place: their engine finds it, as Design.Leverage
	// does. What is seen of such pairs is elsewhere too.
	Root *Root
}

// Root is R of a covariance V = RᵀR/Divisor over (w, b): a triangular factor with a Divisor of 1, or so many draws.
type Root struct {
	Rows    [][]float32 // of d+1 numbers
	Lower   bool        // row i has nothing after its place i
	Divisor float64
}

// LogLikelihood is the likelihood of a design's Outcomes as a function of θ. With p = π̂ŷ, q = 1−p,
// P = p/(p + r·q) and the pair's own g = (ψ·(x, 1); ((1−π̂)/q)·e_c), it has the gradient Σ(P−o)·g and Fisher's
// information Σ P(1−P)·g gᵀ, whose s-block is diagonal.
type LogLikelihood interface {
	// Value returns −log likelihood at θ and sets grad to its gradient.
	Value(ctx context.Context, theta, grad []float64) (float64, error)
	// Information returns Fisher's information at θ: n×n numbers, row by row, of which the lower triangle is set.
	Information(ctx context.Context, theta []float64) ([]float64, error)
	// Curvature returns Fisher's information at θ for products with it, where the matrix would be too large.
	Curvature(ctx context.Context, theta []float64) (Curvature, error)
	// Calibrate returns how to scale and shift the logits so that the point model σ(scale·z + shift) comes closest,
	// over all pairs, to the mean of σ(z) over what is believed of each logit.
	Calibrate(ctx context.Context, theta []float64) (scale, shift float64, err error)
	// Close gives back what the likelihood holds.
	Close() error
}

// Curvature is Fisher's information I at one θ, pair by pair.
type Curvature interface {
	// Diagonal returns the diagonal of I, in the order of θ.
	Diagonal() []float64
	// Border returns the information that the intercept and each cell have in common.
	Border() []float64
	// Times returns I·v for each of the vectors.
	Times(ctx context.Context, v [][]float64) ([][]float64, error)
	// Noise returns vectors whose covariance is I: the first so many over all of θ, the others over (w, b) alone,
	// given s. It depends on the seed alone, so that curvatures that hardly differ have noise that hardly differs.
	Noise(ctx context.Context, seed uint64, joint, given int) ([][]float64, error)
	// Decided returns how many of the numbers (w, b) the pairs decide rather than the prior, given the leverage.
	Decided(ctx context.Context, leverage []float32) (float64, error)
	// Close gives back what the curvature holds.
	Close() error
}
