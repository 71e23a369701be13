package risk

import "math"

// The conditions below compare biases with the paper's approximation: predicted links are so few that
// only pairs with ô = 0 count. A condition that holds for every pair implies the lower bias, since then
// |Σ term| ≤ Σ |term| < Σ y(1−π), the naive bias.

// LowestPropensity returns π/(2−π): an estimate π̂ above it, and below 1, has |1−π/π̂| < 1−π. (The
// paper's appendix prints 2/(2−π), which is at least 1 and leaves no room; its theorem has it right.)
// NaN unless π is in [0, 1].
func LowestPropensity(propensity float64) float64 {
	if !isProbability(propensity) {
		return math.NaN()
	}
	return propensity / (2 - propensity)
}

// LowerBiasW reports whether one pair's term in the bias of W and PU, y|1−π/π̂|, is below its term in the
// naive bias, y(1−π), for every y > 0: π > 0 and π/(2−π) < π̂ < 1. It is necessary and sufficient.
//
// The paper leaves π > 0 out; at π = 0 both terms are y and neither is lower. False for anything
// outside [0, 1].
func LowerBiasW(propensity, estimate float64) bool {
	return propensity > 0 && estimate > LowestPropensity(propensity) && estimate < 1
}

// HighestLink returns c·y, the largest ŷ (exclusive, and possibly above 1) for which one pair's term in
// the bias of AP, |(1−π)y − (1−πy)τ|, is below its term in the naive bias, (1−π)y, with
//
//	c = 2(1−π) / ((1−π̂)(1−πy) + 2(1−π)π̂y) = 2(1−π) / (1 − π̂ − πy + (2−π)π̂y).
//
// It solves (1−πy)τ = 2(1−π)y for ŷ. c ≥ 1, so that ŷ = y is allowed, wherever π/(2−π) ≤ π̂: that is
// all the paper's condition on π̂ is good for, and below it c may be less than 1. The paper's step
// "π̂ > π/(2−π), therefore (1−π)y − (1−πy)τ ≥ 0" does not hold; its conclusion does.
//
// 0 where no ŷ will do (π = 1 or y = 0); NaN unless all three are in [0, 1].
//
// It is for checks of the theorem on other truths; [LowerBiasAP] is the condition itself.
func HighestLink(truth Truth, estimate float64) float64 {
	if !isProbability(truth.Propensity) || !isProbability(truth.Link) || !isProbability(estimate) {
		return math.NaN()
	}
	room := 2 * (1 - truth.Propensity) * truth.Link
	if room == 0 {
		return 0
	}
	return room / ((1-estimate)*(1-truth.Propensity*truth.Link) + room*estimate)
}

// LowerBiasAP reports whether one pair's term in the bias of AP is below its term in the naive bias:
// 0 < (1−πy)τ < 2(1−π)y, which is π̂ < 1 and 0 < ŷ < c·y with c·y from [HighestLink]. It is necessary
// and sufficient; the lower limit on π̂ that the paper adds is not needed.
//
// False for anything outside [0, 1].
func LowerBiasAP(truth Truth, b Belief) bool {
	return b.notPropensity > 0 && b.link > 0 && b.link < HighestLink(truth, b.propensity)
}

// Conditions counts the pairs that satisfy the conditions for a bias lower than naive.
type Conditions struct {
	Pairs int // pairs with ô = 0, those that the conditions are about
	W     int // of them, pairs with LowerBiasW: also for PU
	AP    int // of them, pairs with LowerBiasAP
}

// CheckConditions counts over the pairs of a planted world. Where W or AP equals Pairs the theorem
// holds; else the count says how far from it the estimates are.
// It is a quick check of whether the theorem applies to a world.
func CheckConditions(truths []Truth, beliefs []Belief) (Conditions, error) {
	var c Conditions
	err := walkTruths(truths, beliefs, func(t Truth, b Belief) {
		if b.Predicted() {
			return
		}
		c.Pairs++
		if LowerBiasW(t.Propensity, b.propensity) {
			c.W++
		}
		if LowerBiasAP(t, b) {
			c.AP++
		}
	})
	return c, err
}
