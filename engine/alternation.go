package engine

import "context"

// Alternation minimises an objective over learned factors, model.Factors, side by side. Given the factors of the
// targets, those of every source are a small problem of their own, which a Newton step almost solves; then the same is
// true of the targets. A few rounds do what hundreds of gradients would.
type Alternation interface {
	// Round moves the factors and effects of the sources, of the targets, and then the propensities of pairs of fields
	// together with the common intercept. It returns the objective where the round began.
	Round(ctx context.Context, params []float32) (Parts, error)
	// Complete reports whether rounds move all parameters; otherwise those of exposure that are left stay where they
	// are, for another method to move.
	Complete() bool
}
