package fit

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// prior is what is believed of θ = (w, b, s) before the data: w ~ N(0, 1/Alpha), b flat, and within a group
// of field pairs s = μ + δ, μ ~ N(Centre, Spread²), δ ~ N(0, Tau²). Terms of other assumptions are normal.
type prior struct {
	d     int     // weights
	group []uint8 // of each cell: 0 same field, 1 cross field

	Alpha          float64
	Tau            [2]float64 // standard deviations
	Centre, Spread [2]float64
	Terms          []normal
}

// normal is a normal distribution.
type normal struct {
	mean, deviation float64
	// offset is what is taken out of the slope of a t of which the links say ever less the larger tanh t is: as much at
	// 0, and less where they do.
	offset float64
}

func newPrior(d int, group []uint8) prior {
	return prior{d: d, group: group, Alpha: float64(d) / 16, Tau: [2]float64{.5, .5}, Spread: [2]float64{1.5, 1.5}}
}

// anchor sets what is known from outside of the scale of a group's propensities.
func (p *prior) anchor(a Anchor) {
	g := a.group()
	p.Centre[g] = math.Log(a.Propensity / (1 - a.Propensity))
	p.Spread[g] = a.Error / (a.Propensity * (1 - a.Propensity))
}

// add adds the prior's gradient and returns its value.
func (p *prior) add(theta, grad []float64) float64 {
	var sum float64
	for i, w := range theta[:p.d] {
		sum += p.Alpha * w * w / 2
		grad[i] += p.Alpha * w
	}
	var centred, count [2]float64
	s := theta[p.d+1:]
	for c, g := range p.group {
		centred[g] += s[c] - p.Centre[g]
		count[g]++
	}
	for c, g := range p.group {
		tau, spread := p.Tau[g]*p.Tau[g], p.Spread[g]*p.Spread[g]
		d := s[c] - p.Centre[g]
		q := (d - centred[g]*spread/(tau+count[g]*spread)) / tau // row of Q(s−m)
		sum += d * q / 2
		grad[p.d+1+c] += q
	}
	at := p.d + 1 + len(p.group)
	for i, t := range p.Terms {
		move := (theta[at+i] - t.mean) / t.deviation
		sum += move * move / 2
		grad[at+i] += move / t.deviation
		if t.offset != 0 {
			x := math.Tanh(theta[at+i])
			sum += t.offset * (x - x*x*x/3)
			grad[at+i] += t.offset * (1 - x*x) * (1 - x*x)
		}
	}
	return sum
}

// precision adds the prior's precision to the lower triangle.
func (p *prior) precision(full blas64.Symmetric) {
	n := full.N
	for i := range p.d {
		full.Data[i*n+i] += p.Alpha
	}
	full.Data[p.d*n+p.d] += flat
	var count [2]float64
	for _, g := range p.group {
		count[g]++
	}
	at := p.d + 1
	for c, g := range p.group {
		tau, spread := p.Tau[g]*p.Tau[g], p.Spread[g]*p.Spread[g]
		full.Data[(at+c)*n+at+c] += 1 / tau
		shared := spread / (tau + count[g]*spread) / tau
		for e, h := range p.group[:c+1] {
			if h == g {
				full.Data[(at+c)*n+at+e] -= shared
			}
		}
	}
	at += len(p.group)
	for i, t := range p.Terms {
		full.Data[(at+i)*n+at+i] += 1 / (t.deviation * t.deviation)
	}
}

// flat is the precision of b's prior, which is flat but for this.
const flat = 1e-8

// block returns the prior's precision over (b, s).
func (p *prior) block() blas64.Symmetric {
	n := 1 + len(p.group)
	block := blas64.Symmetric{N: n, Stride: n, Data: make([]float64, n*n), Uplo: blas.Lower}
	without := *p
	without.d = 0 // as if there were no w
	without.precision(block)
	return block
}

// updateAlpha re-estimates the precision of w, given tr V_ww, and returns by how much its logarithm moved.
//
//	α ← (d − α·tr V_ww)/‖w‖²
func (p *prior) updateAlpha(theta []float64, trace float64, last *float64) float64 {
	var norm float64
	for _, w := range theta[:p.d] {
		norm += w * w
	}
	if norm == 0 {
		return 0
	}
	alpha := math.Max((float64(p.d)-p.Alpha*trace)/norm, 1e-6)
	move := extrapolate(math.Log(alpha/p.Alpha), last)
	p.Alpha *= math.Exp(move)
	return math.Abs(move)
}

// updateTau re-estimates the spread of the propensity logits within each group, given their covariance, and returns by
// how much its logarithm moved.
//
//	τ² ← (Σ E[(s−μ)²] + .25)/(n+1)    (one pseudo-observation at .25)
func (p *prior) updateTau(theta []float64, known cellMoments, last []float64) (moved float64) {
	s := theta[p.d+1:]
	for g := range p.Tau {
		var members []int
		for c, h := range p.group {
			if int(h) == g {
				members = append(members, c)
			}
		}
		if len(members) == 0 {
			continue
		}
		n := float64(len(members))
		var sum, all float64
		for _, c := range members {
			sum += s[c] - p.Centre[g]
			all += known.withGroup[c]
		}
		spread := p.Spread[g] * p.Spread[g]
		before := p.Tau[g] * p.Tau[g]
		tau := before
		for range 6 {
			precision := n/tau + 1/spread
			a := 1 / tau / precision
			mean := a * sum
			var total float64
			for _, c := range members {
				d := s[c] - p.Centre[g] - mean
				total += d*d + known.variance[c] - 2*a*known.withGroup[c] + a*a*all + 1/precision
			}
			tau = (total + .25) / (n + 1)
		}
		move := extrapolate(math.Log(tau/before), &last[g])
		p.Tau[g] = math.Sqrt(before * math.Exp(move))
		moved = math.Max(moved, math.Abs(move)/2)
	}
	return moved
}

// extrapolate lengthens a move: the moves of a slow iteration shrink by a steady factor, so that
// where they end can be seen from two of them.
func extrapolate(move float64, last *float64) float64 {
	if ratio := move / *last; *last != 0 && ratio > 0 && ratio < .95 {
		*last = 0
		return move / (1 - math.Min(ratio, .8))
	}
	*last = move
	return move
}
