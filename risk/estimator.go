package risk

import (
	"fmt"
	"math"
)

// Estimator is a risk: a scheme, a loss and the guards that keep them finite. The zero Estimator is the
// AP risk under the log-loss with no floor, averaged over the weights.
type Estimator struct {
	Scheme Scheme // nil means AP, whose masses are probabilities whatever the propensities are
	Loss   Loss   // nil means Log

	// Floor raises every propensity to at least this; 0 means none.
	Floor float64

	// Universe is |U|, the number of pairs that the sample stands for. With it a mean is
	// Horvitz–Thompson's, Σ w·r / |U|, unbiased for known inclusion probabilities; 0 means Hájek's,
	// Σ w·r / Σ w, which does not move when every risk is shifted by a constant and is usually steadier.
	Universe float64
}

// Risk returns P·δ(1, ŷ) + N·δ(0, ŷ) for one pair. Like Gradient and HeldGradient it is for the
// inside of a loop and trusts what it is given: the zero Belief, which nothing made, has a value
// here that means nothing, where Estimate refuses it.
func (e Estimator) Risk(o Observation, b Belief) float64 {
	b = b.Floored(e.Floor)
	linked, unlinked := e.loss().Losses(b)
	return weigh(e.scheme().Mass(o, b), linked, unlinked, 1)
}

// Gradient returns one pair's risk and its gradient through losses and masses alike:
//
//	∂z = P·δ′(1) + N·δ′(0) + P_z·δ(1) + N_z·δ(0),   ∂s = P_s·δ(1) + N_s·δ(0).
//
// Where the floor clips the propensity ∂s is 0.
func (e Estimator) Gradient(o Observation, b Belief) (float64, Gradient) {
	b = b.Floored(e.Floor)
	linked, unlinked := e.loss().Losses(b)
	value, g := e.held(o, b, linked, unlinked)
	slope := slopeOf(e.scheme(), o, b)
	g.Link += weigh(slope.Link, linked, unlinked, 0)
	if !b.clipped {
		g.Propensity = weigh(slope.Propensity, linked, unlinked, 0)
	}
	return value, g
}

// HeldGradient returns one pair's risk and its gradient with the masses held constant (stop-gradient),
//
//	∂z = P·δ′(1) + N·δ′(0),   ∂s = 0.
//
// Under AP and the log-loss this ∂z is exactly that of [NLL]: it is the EM step for the latent o′. The
// likelihood also has a ∂s, which a risk with constant masses does not: it says nothing of π̂.
func (e Estimator) HeldGradient(o Observation, b Belief) (float64, Gradient) {
	b = b.Floored(e.Floor)
	linked, unlinked := e.loss().Losses(b)
	return e.held(o, b, linked, unlinked)
}

// held takes a floored belief and its losses.
func (e Estimator) held(o Observation, b Belief, linked, unlinked float64) (float64, Gradient) {
	mass := e.scheme().Mass(o, b)
	slopeLinked, slopeUnlinked := e.loss().Slopes(b)
	return weigh(mass, linked, unlinked, 1), Gradient{Link: weigh(mass, slopeLinked, slopeUnlinked, 1)}
}

func (e Estimator) scheme() Scheme {
	if e.Scheme == nil {
		return AP{}
	}
	return e.Scheme
}

func (e Estimator) loss() Loss {
	if e.Loss == nil {
		return LogLoss{}
	}
	return e.Loss
}

func (e Estimator) check() error {
	if err := checkLoss(e.loss()); err != nil {
		return err
	}
	if !isProbability(e.Floor) {
		return fmt.Errorf("%w: propensity floor %v; give one in [0, 1], such as 0.05", ErrSetting, e.Floor)
	}
	return checkUniverse(e.Universe)
}

func checkUniverse(universe float64) error {
	if !(universe >= 0) || math.IsInf(universe, 1) {
		return fmt.Errorf("%w: universe of %v pairs; give n(n−1), or 0 to divide by the weights", ErrSetting, universe)
	}
	return nil
}
