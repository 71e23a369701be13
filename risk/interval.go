package risk

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/stat/distuv"
)

// Interval is a confidence interval for a mean risk.
type Interval struct {
	Estimate float64 `json:"estimate"` // the mean; with a Nuisance, the mean less its bias
	Lower    float64 `json:"lower"`
	Upper    float64 `json:"upper"`
	Level    float64 `json:"level"` // the nominal coverage
	// of Estimate; for Bernstein, which does not use one, that of the sample
	StandardError float64 `json:"standardError"`
}

// Nuisance is what having estimated π̂ and ŷ adds to the error of a risk. With V the covariance of the
// models' parameters, Variance is ∇R̂ᵀV∇R̂; Bias is E[R̂] − R as a parametric bootstrap finds it.
type Nuisance struct {
	Variance float64
	Bias     float64
}

// Normal returns R̂ − bias ± t·√(SE² + variance). SE counts the sources (or the pairs, where there are
// none) as independent, and t is Student's quantile at one degree of freedom fewer than those: it is
// the normal one for many and wider for few. The zero Nuisance takes π̂ and ŷ as known.
func (s Sample) Normal(level float64, n Nuisance) (Interval, error) {
	if err := checkLevel(level); err != nil {
		return Interval{}, err
	}
	if !(n.Variance >= 0) || math.IsInf(n.Variance, 1) || !isFinite(n.Bias) {
		return Interval{}, fmt.Errorf("%w: nuisance variance %v, bias %v; give finite ones, the variance not negative",
			ErrSetting, n.Variance, n.Bias)
	}
	u, err := s.units()
	if err != nil {
		return Interval{}, err
	}
	if err := u.checkClusters(); err != nil {
		return Interval{}, err
	}
	centre := u.mean - n.Bias
	se := math.Hypot(u.standardError(), math.Sqrt(n.Variance))
	half := 0.
	if se > 0 {
		half = studentQuantile(level, len(u.totals)-1) * se
	}
	return Interval{centre, centre - half, centre + half, level, se}, nil
}

// studentQuantile returns the t with P(|T| < t) = level.
func studentQuantile(level float64, degrees int) float64 {
	tail := (1 - level) / 2
	if degrees > 1e6 {
		return -distuv.UnitNormal.Quantile(tail)
	}
	return -distuv.StudentsT{Sigma: 1, Nu: float64(degrees)}.Quantile(tail)
}

// Bernstein returns the empirical Bernstein interval of Maurer and Pontil (2009, theorems 4 and 11),
// which holds at any sample size, whatever the distribution:
//
//	R̂ ± ( √(2V·log(4/δ)/G) + 7ρ·log(4/δ)/(3(G−1)) ),   δ = 1 − level,
//
// for G independent units whose values t = G·Σ w·r/D average to R̂, D being |U| or Σ w, with variance V
// and range ρ. The caller states the range [low, high] of a pair's risk before seeing any: [0, η]
// for AP and naive, [0, η/ε] for W, [−η(1−ε)/ε, η/ε] for PU. ρ follows from it and the weights, which count
// as given, as do the sources. A value outside the range is an error.
func (s Sample) Bernstein(level, low, high float64) (Interval, error) {
	if err := checkLevel(level); err != nil {
		return Interval{}, err
	}
	if !isFinite(low) || !isFinite(high) || low > high {
		return Interval{}, fmt.Errorf("%w: range [%v, %v]; give finite ends in order", ErrSetting, low, high)
	}
	u, err := s.units()
	if err != nil {
		return Interval{}, err
	}
	if err := u.checkClusters(); err != nil {
		return Interval{}, err
	}
	for i, v := range s.Values {
		if v < low || v > high {
			return Interval{}, fmt.Errorf("%w: pair %d has %v outside the stated range [%v, %v]; state a range "+
				"that no pair can leave", ErrValue, i, v, low, high)
		}
	}
	g := float64(len(u.totals))
	means := make([]float64, len(u.totals))
	least, most := math.Inf(1), math.Inf(-1)
	for k := range means {
		means[k] = g * u.ratio(u.totals[k], u.weight)
		share := g * u.ratio(u.weights[k], u.weight)
		least, most = math.Min(least, share*low), math.Max(most, share*high)
	}
	_, variance := meanVariance(means)
	logs := math.Log(4 / (1 - level))
	half := math.Sqrt(2*variance*logs/g) + 7*(most-least)*logs/(3*(g-1))
	if !isFinite(half) {
		return Interval{}, fmt.Errorf("%w: the interval's half-width overflows to %v; state a narrower range",
			ErrValue, half)
	}
	return Interval{u.mean, u.mean - half, u.mean + half, level, u.standardError()}, nil
}

// BootstrapMethod is how an interval is read off the resampled means.
type BootstrapMethod uint8

const (
	// BCa is Efron's bias-corrected and accelerated interval: second-order correct, and the one to use
	// for risks, which are skewed. Acceleration is from the jackknife over clusters.
	BCa BootstrapMethod = iota
	// Percentile takes the plain quantiles of the resampled means.
	Percentile
)

// Bootstrap settings; the zero value is a BCa interval from 2,000 resamples with seed 0.
type Bootstrap struct {
	Method    BootstrapMethod
	Resamples int    // 0 means 2,000; at least 100
	Seed      uint64 // the same seed gives the same interval, whatever the number of threads
	Threads   int    // 0 means all processors; results do not depend on it
}

// Bootstrap returns the interval from resampling whole sources with replacement (pairs, where there
// are none).
func (s Sample) Bootstrap(ctx context.Context, level float64, settings Bootstrap) (Interval, error) {
	if err := checkLevel(level); err != nil {
		return Interval{}, err
	}
	if settings.Resamples == 0 {
		settings.Resamples = 2000
	}
	if settings.Resamples < 100 {
		return Interval{}, fmt.Errorf("%w: %d resamples; give at least 100, or 0 for 2000", ErrSetting,
			settings.Resamples)
	}
	if settings.Threads < 0 {
		return Interval{}, fmt.Errorf("%w: %d threads; give 0 for all processors", ErrSetting, settings.Threads)
	}
	if settings.Method > Percentile {
		return Interval{}, fmt.Errorf("%w: bootstrap method %d; give BCa or Percentile", ErrSetting, settings.Method)
	}
	u, err := s.units()
	if err != nil {
		return Interval{}, err
	}
	if err := u.checkClusters(); err != nil {
		return Interval{}, err
	}
	means, err := u.resample(ctx, settings)
	if err != nil {
		return Interval{}, err
	}
	slices.Sort(means) // NaN first
	if !isFinite(means[0]) || !isFinite(means[len(means)-1]) {
		return Interval{}, fmt.Errorf("%w: resampled means overflow; scale values and weights down", ErrValue)
	}
	low, high := (1-level)/2, (1+level)/2
	if settings.Method == BCa {
		correction, acceleration := u.biasCorrection(means), u.acceleration()
		low, high = bcaLevel(low, correction, acceleration), bcaLevel(high, correction, acceleration)
	}
	_, variance := meanVariance(means)
	return Interval{u.mean, Quantile(means, low), Quantile(means, high), level, math.Sqrt(variance)}, nil
}

// resample returns the means of the resamples, each drawn from its own stream and kept in its own place.
func (u units) resample(ctx context.Context, settings Bootstrap) ([]float64, error) {
	threads := settings.Threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	means := make([]float64, settings.Resamples)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(threads, settings.Resamples) {
		workers.Go(func() {
			for ctx.Err() == nil {
				r := int(next.Add(1)) - 1
				if r >= len(means) {
					return
				}
				means[r] = u.resampledMean(settings.Seed, r)
			}
		})
	}
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return means, nil
}

func (u units) resampledMean(seed uint64, r int) float64 {
	rng := rand.New(stream(seed, uint64(r)))
	var total, weight Sum
	for range u.totals {
		k := rng.IntN(len(u.totals))
		total.Add(u.totals[k])
		weight.Add(u.weights[k])
	}
	return u.ratio(total.Value(), weight.Value())
}

// biasCorrection returns z₀ = Φ⁻¹(share of resampled means below the estimate), ties counting half. The
// share is kept half a resample away from 0 and 1, where z₀ is infinite.
func (u units) biasCorrection(sorted []float64) float64 {
	below, _ := slices.BinarySearch(sorted, u.mean)
	above, _ := slices.BinarySearch(sorted, math.Nextafter(u.mean, math.Inf(1)))
	n := float64(len(sorted))
	share := float64(below+above) / 2 / n
	return distuv.UnitNormal.Quantile(math.Min(math.Max(share, .5/n), 1-.5/n))
}

// acceleration returns a = Σd³ / (6·(Σd²)^(3/2)), d the jackknife's deviations θ̄ − θ₋ₖ over clusters.
// It does not change when the means are scaled, so Horvitz–Thompson's need no correction for the
// cluster left out.
func (u units) acceleration() float64 {
	var total Sum
	for _, t := range u.totals {
		total.Add(t)
	}
	left := make([]float64, len(u.totals))
	for k, t := range u.totals {
		left[k] = u.ratio(total.Value()-t, u.weight-u.weights[k])
	}
	mean, _ := meanVariance(left)
	largest := 0.
	for _, l := range left {
		largest = math.Max(largest, math.Abs(mean-l))
	}
	if largest == 0 || !isFinite(largest) {
		return 0
	}
	var squares, cubes Sum
	for _, l := range left {
		d := (mean - l) / largest // scaled, so that no power under- or overflows
		squares.Add(d * d)
		cubes.Add(d * d * d)
	}
	return cubes.Value() / (6 * math.Pow(squares.Value(), 1.5))
}

// bcaLevel returns Φ(z₀ + (z₀+z)/(1−a(z₀+z))), the level to read the interval's end at.
func bcaLevel(level, correction, acceleration float64) float64 {
	z := correction + distuv.UnitNormal.Quantile(level)
	shrink := 1 - acceleration*z
	if shrink <= 0 { // past the pole: the end of the distribution on z's side
		return distuv.UnitNormal.CDF(math.Copysign(math.Inf(1), z))
	}
	return distuv.UnitNormal.CDF(correction + z/shrink)
}

// Quantile reads the p-quantile off ascending values, such as the draws of a bootstrap, at place (n+1)·p with linear
// interpolation between neighbours; beyond the first and the last it stays with them. NaN of no values.
//
// This is definition 6 of Hyndman and Fan (1996), which Davison and Hinkley (1997, section 2.6) use for bootstraps: a
// further draw from the same distribution falls below the k-th of n values with probability k/(n+1) exactly, so that an
// interval holds its share of the draws to come and not only of those drawn. Every interval of this module that is
// read off draws or runs uses it.
func Quantile(ascending []float64, p float64) float64 {
	n := len(ascending)
	if n == 0 {
		return math.NaN()
	}
	place := p*float64(n+1) - 1
	if !(place > 0) {
		return ascending[0]
	}
	if place >= float64(n-1) {
		return ascending[n-1]
	}
	k := int(place)
	low, high, part := ascending[k], ascending[k+1], place-float64(k)
	if low == high {
		return low
	}
	return (1-part)*low + part*high // no difference, which could overflow
}

// QuantileInterval returns the interval that holds the middle of ascending values: from the (1−level)/2-quantile to the
// (1+level)/2-quantile.
func QuantileInterval(ascending []float64, level float64) (lower, upper float64) {
	return Quantile(ascending, (1-level)/2), Quantile(ascending, (1+level)/2)
}
