package world

import (
	"math"

	"unseen/internal/normal"
	"unseen/risk"
)

// LinkRate returns the probability that a pair with this truth is linked, which is to be exposed and relevant at once:
// π·y where the two are drawn independently, and more or less where Violations.Dependence says so.
func (w *World) LinkRate(t risk.Truth) float64 { return w.together.Both(t.Propensity, t.Link) }

// depend turns two independent uniform numbers into one that is uniform as well, and whose normal quantile has the
// given correlation with that of the first.
func depend(first, second, correlation float64) float64 {
	x, y := normal.Quantile(first), normal.Quantile(second)
	return normal.Chance(correlation*x + math.Sqrt(1-correlation*correlation)*y)
}
