package risk

import (
	"fmt"
	"math"
)

// Loss is δ(outcome, ŷ), the cost of the prediction ŷ for each of the two outcomes.
type Loss interface {
	// Losses returns δ(1, ŷ) and δ(0, ŷ).
	Losses(b Belief) (linked, unlinked float64)
	// Slopes returns the derivatives of both in the logit z.
	Slopes(b Belief) (linked, unlinked float64)
	// Bound returns η, the least number that no loss exceeds; +Inf if there is none.
	Bound() float64
}

var (
	_ Loss = LogLoss{}
	_ Loss = CappedLogLoss{}
	_ Loss = ZeroOne{}
)

// LogLoss is the log-loss: δ(1, ŷ) = −log ŷ = softplus(−z), δ(0, ŷ) = −log(1−ŷ) = softplus(z). It is
// infinite for an outcome that ŷ ∈ {0, 1} calls impossible.
type LogLoss struct{}

// Losses returns −log ŷ and −log(1−ŷ).
func (LogLoss) Losses(b Belief) (linked, unlinked float64) {
	z := b.linkLogit
	common := math.Log1p(math.Exp(-math.Abs(z)))
	return math.Max(-z, 0) + common, math.Max(z, 0) + common
}

// Slopes returns −(1−ŷ) and ŷ.
func (LogLoss) Slopes(b Belief) (linked, unlinked float64) { return -b.notLink, b.link }

// Bound returns +Inf.
func (LogLoss) Bound() float64 { return math.Inf(1) }

// CappedLogLoss is min(log-loss, Cap): the bounded log-loss that a generalisation bound needs. Its slope is
// 0 where the cap holds. A Cap that is not positive makes Estimate fail.
type CappedLogLoss struct {
	Cap float64 // η
}

// Losses returns the two log-losses, each at most the cap.
func (l CappedLogLoss) Losses(b Belief) (linked, unlinked float64) {
	linked, unlinked = LogLoss{}.Losses(b)
	return math.Min(linked, l.Cap), math.Min(unlinked, l.Cap)
}

// Slopes returns the slopes of the log-loss, 0 above the cap.
func (l CappedLogLoss) Slopes(b Belief) (linked, unlinked float64) {
	lossLinked, lossUnlinked := LogLoss{}.Losses(b)
	linked, unlinked = LogLoss{}.Slopes(b)
	if lossLinked > l.Cap {
		linked = 0
	}
	if lossUnlinked > l.Cap {
		unlinked = 0
	}
	return linked, unlinked
}

// Bound returns the cap.
func (l CappedLogLoss) Bound() float64 { return l.Cap }

// ZeroOne is the loss of the theory: the cost Δ where the prediction ô = 1(ŷ ≥ ½) is not the outcome,
// else 0. Its slope is 0.
type ZeroOne struct {
	Cost float64 // Δ; 0 means 1
}

// Losses returns Δ(1−ô) and Δô.
func (l ZeroOne) Losses(b Belief) (linked, unlinked float64) {
	if b.Predicted() {
		return 0, l.Bound()
	}
	return l.Bound(), 0
}

// Slopes returns zeros: the loss is flat on either side of ½.
func (ZeroOne) Slopes(Belief) (linked, unlinked float64) { return 0, 0 }

// Bound returns Δ.
func (l ZeroOne) Bound() float64 {
	if l.Cost == 0 {
		return 1
	}
	return l.Cost
}

func checkLoss(l Loss) error {
	if bound := l.Bound(); !(bound > 0) {
		return fmt.Errorf("%w: %T with bound %v; give it a positive one", ErrLoss, l, bound)
	}
	return nil
}
