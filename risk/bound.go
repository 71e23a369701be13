package risk

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
)

// Bound is the generalisation bound: if δ ≤ η and π̂ ≥ ε for every pair, then with probability at least
// 1 − δ₀ over the draw of o, for every (π̂, ŷ) of the model class at once,
//
//	R(ŷ) ≤ R̂ + B(R̂) + 2𝒢 + M ≤ R̂ + B(R̂) + 2𝒢̂ + 3M,   M = √(4η²/(ε²|U|)·log(2/δ₀)),
//
// where R̂ is the W, PU or AP risk, B its absolute bias, 𝒢 the class's complexity and 𝒢̂ its empirical
// complexity (both the same R̂'s: the paper's second line prints those of R̂_w).
//
// M is the paper's and it is loose. Flipping one o moves R̂, and so the supremum of E[R̂] − R̂, by at most
// η/(ε|U|): |δ(1)/π̂ − ψδ(0)| for W, |δ(1) − δ(0)|/π̂ for PU. McDiarmid's inequality then asks for no
// more than √(η²/(2ε²|U|)·log(2/δ₀)) = M/(2√2). (The paper takes 2η/ε for the move, leaving the 1/|U|
// out in print.) For AP the move is ψ|δ(1) − δ(0)| ≤ η, whatever π̂ is: with AP, Floor may be 1.
type Bound struct {
	Loss     float64 // η, the bound of the loss
	Floor    float64 // ε, the least propensity
	Universe float64 // |U|, the number of pairs
	Failure  float64 // δ₀, the probability that the bound fails
}

// Margin returns M.
func (b Bound) Margin() (float64, error) {
	if !(b.Loss > 0) || math.IsInf(b.Loss, 1) {
		return 0, fmt.Errorf("%w: loss bound η = %v; use a bounded loss, such as CappedLogLoss", ErrSetting, b.Loss)
	}
	if !(b.Floor > 0 && b.Floor <= 1) {
		return 0, fmt.Errorf("%w: propensity floor ε = %v; give one in (0, 1]", ErrSetting, b.Floor)
	}
	if !(b.Universe >= 1) || math.IsInf(b.Universe, 1) {
		return 0, fmt.Errorf("%w: universe of %v pairs; give n(n−1)", ErrSetting, b.Universe)
	}
	if !(b.Failure > 0 && b.Failure < 1) {
		return 0, fmt.Errorf("%w: failure probability δ₀ = %v; give one in (0, 1), such as 0.05", ErrSetting, b.Failure)
	}
	return 2 * (b.Loss / b.Floor) * math.Sqrt(math.Log(2/b.Failure)/b.Universe), nil
}

// Population returns R̂ + B + 2𝒢 + M, for a complexity 𝒢 that is known in expectation over o.
func (b Bound) Population(risk, bias, complexity float64) (float64, error) {
	return b.above(risk, bias, complexity, 1)
}

// Empirical returns R̂ + B + 2𝒢̂ + 3M, for the complexity 𝒢̂ of the observed o; see [EstimateComplexity].
func (b Bound) Empirical(risk, bias, complexity float64) (float64, error) {
	return b.above(risk, bias, complexity, 3)
}

func (b Bound) above(risk, bias, complexity, margins float64) (float64, error) {
	margin, err := b.Margin()
	if err != nil {
		return 0, err
	}
	if !isFinite(risk) || !isFinite(bias) || !isFinite(complexity) {
		return 0, fmt.Errorf("%w: risk %v, bias %v, complexity %v; the bound needs finite ones", ErrValue, risk, bias,
			complexity)
	}
	return risk + math.Abs(bias) + 2*complexity + margins*margin, nil
}

// Maximiser returns the supremum over the model class of (1/|U|)·Σ σ·r(o, π̂, ŷ), given a sign
// σ ∈ {−1, +1} for every pair. It must not keep the signs. One that stops short of the supremum, as an
// optimiser may, makes the complexity too small and the bound too bold.
type Maximiser func(ctx context.Context, signs []int8) (float64, error)

// Complexity is an estimate of 𝒢̂ = E over σ of the supremum.
type Complexity struct {
	Value         float64
	StandardError float64 // of Value, from the finite number of draws of σ
	Draws         int
}

// EstimateComplexity averages the maximiser over draws of independent fair signs, one per pair. At
// least two draws are needed for the standard error. The same seed gives the same signs.
func EstimateComplexity(ctx context.Context, pairs, draws int, seed uint64, maximise Maximiser) (Complexity, error) {
	if pairs < 1 {
		return Complexity{}, fmt.Errorf("%w: %d pairs; give at least one", ErrEmpty, pairs)
	}
	if draws < 2 {
		return Complexity{}, fmt.Errorf("%w: %d draws of the signs; give at least 2, better 20", ErrSetting, draws)
	}
	if maximise == nil {
		return Complexity{}, fmt.Errorf("%w: nil maximiser; give the optimiser that trains the model", ErrSetting)
	}
	signs := make([]int8, pairs)
	suprema := make([]float64, draws)
	for d := range draws {
		if err := ctx.Err(); err != nil {
			return Complexity{}, err
		}
		drawSigns(signs, stream(seed, uint64(d)))
		supremum, err := maximise(ctx, signs)
		if err != nil {
			return Complexity{}, fmt.Errorf("maximising over draw %d of the signs: %w", d, err)
		}
		if !isFinite(supremum) {
			return Complexity{}, fmt.Errorf("%w: draw %d of the signs has the supremum %v; bound the loss and "+
				"the propensities", ErrValue, d, supremum)
		}
		suprema[d] = supremum
	}
	mean, variance := meanVariance(suprema)
	return Complexity{mean, math.Sqrt(variance / float64(draws)), draws}, nil
}

func drawSigns(signs []int8, src rand.Source) {
	var bits uint64
	for i := range signs {
		if i%64 == 0 {
			bits = src.Uint64()
		}
		signs[i] = int8(bits&1)*2 - 1
		bits >>= 1
	}
}

// stream returns the source of randomness number k under a seed, independent of every other k, so
// that work may be shared among threads without changing its outcome.
func stream(seed, k uint64) *rand.ChaCha8 {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	binary.LittleEndian.PutUint64(key[8:], k)
	return rand.NewChaCha8(key)
}

// meanVariance returns the mean and the variance Σ(x−x̄)²/(n−1).
func meanVariance(values []float64) (mean, variance float64) {
	n := float64(len(values))
	var total, squares Sum
	for _, v := range values {
		total.Add(v)
	}
	mean = total.Value() / n
	for _, v := range values {
		squares.Add((v - mean) * (v - mean))
	}
	return mean, squares.Value() / (n - 1)
}
