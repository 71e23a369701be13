package engine

import (
	"math"

	"unseen/internal/kern"
	"unseen/risk"
)

// contribution is what one pair contributes, given its logits.
type contribution struct {
	loss       float64 // of pairs whose exposure is logged; of the others it is tallied
	dz, ds     float64 // slopes
	zz, zs, ss float64 // Fisher information
}

// point is a pair at which contributions are evaluated.
type point struct {
	pi, rest, rate float64
	linked         bool
	exposure       risk.Exposure
}

// contribute averages a pair's contribution over what is believed of its logit: a normal
// distribution around z, given by its spread; nil takes z as certain. The loss is tallied, unless that is nil.
func (p *point) contribute(z float64, around *spread, losses *tally) contribution {
	z = max(-300, min(300, z)) // e^±300 and its neighbours are finite
	e := math.Exp(-z)
	centre := 1.
	if around != nil {
		centre = hermiteCentre
	}
	var sum contribution
	if p.exposure != risk.Unlogged {
		p.addSeen(&sum, e, centre)
		if around != nil {
			for i, factor := range around {
				p.addSeen(&sum, e*factor, hermiteWeight[i])
				p.addSeen(&sum, e/factor, hermiteWeight[i])
			}
		}
		return sum
	}
	loss := p.add(&sum, e, centre)
	if losses != nil {
		losses.add(0, loss)
	}
	if around != nil {
		for i, factor := range around {
			above, below := p.add(&sum, e*factor, hermiteWeight[i]), p.add(&sum, e/factor, hermiteWeight[i])
			if losses != nil {
				losses.add(1+i, above)
				losses.add(1+i, below)
			}
		}
	}
	return sum
}

// add adds weight times the slopes and the information at the logit z, given as e = e^−z, and
// returns e^loss. With G = e + (1−π) and T = π + r·G everything is a quotient of positive numbers:
// q = G/(1+e), P = π/T, ψ = e/G.
func (p *point) add(sum *contribution, e, weight float64) float64 {
	g := e + p.rest
	t := p.pi + p.rate*g
	inverse, whole := 1/g, 1/t
	linked, unlinked := p.pi*whole, p.rate*g*whole
	psi, hide := e*inverse, p.rest*(1+e)*inverse
	v := weight * linked * unlinked
	sum.zz += v * psi * psi
	sum.zs += v * psi * hide
	sum.ss += v * hide * hide
	if p.linked {
		sum.dz -= weight * unlinked * psi
		sum.ds -= weight * unlinked * hide
		return 1 / linked
	}
	sum.dz += weight * linked * psi
	sum.ds += weight * linked * hide
	return 1 / unlinked
}

// addSeen is add for a pair of whose exposure something is known.
func (p *point) addSeen(sum *contribution, e, weight float64) {
	if p.exposure.IsOffered() {
		p.addOffered(sum, e, weight)
	} else {
		p.addLogged(sum, e, weight)
	}
}

// addLogged is add for a pair whose exposure a is logged: −log Ber(a; π) − a·log Ber(o; ŷ). In a
// case-control sample every pair is there with a chance that depends on o, which adds
// log(p + r·q): its slopes are (1−r)·P·(1−ŷ) and (1−r)·P·(1−π). The information is expected over
// the three things that can happen to a sampled pair.
func (p *point) addLogged(sum *contribution, e, weight float64) {
	y := 1 / (1 + e)
	u := e * y
	observed := p.pi * y
	sampled := observed + p.rate*(1-observed)
	share := (1 - p.rate) * observed / sampled
	commonZ, commonS := share*u, share*p.rest
	sum.loss += weight * math.Log(sampled)
	var dz, ds float64
	switch {
	case p.exposure == risk.Unexposed:
		sum.loss -= weight * math.Log(p.rest)
		ds = p.pi
	case p.linked:
		sum.loss += weight * (math.Log(1+e) - math.Log(p.pi))
		dz, ds = -u, -p.rest
	default:
		sum.loss += weight * (math.Log((1+e)/e) - math.Log(p.pi))
		dz, ds = y, -p.rest
	}
	sum.dz += weight * (dz + commonZ)
	sum.ds += weight * (ds + commonS)
	for _, outcome := range [3]struct{ chance, z, s float64 }{
		{p.rate * p.rest, 0, p.pi},
		{p.rate * p.pi * u, y, -p.rest},
		{observed, -u, -p.rest},
	} {
		chance, z, s := weight*outcome.chance/sampled, outcome.z+commonZ, outcome.s+commonS
		sum.zz += chance * z * z
		sum.zs += chance * z * s
		sum.ss += chance * s * s
	}
}

// addOffered is add for a pair that was not linked and was then shown on purpose: −log Ber(o; q·t), where
//
//	t = P(relevant | not linked) = ŷ(1−π)/(1−πŷ),   logit t = z + log(1−π),
//
// and q is the chance that a relevant one turns out to be. With u = 1 − t, ∂z = −u of a link and qtu/(1−qt) of none,
// the information is qtu²/(1−qt), and ∂s = −π·∂z.
func (p *point) addOffered(sum *contribution, e, weight float64) {
	q, inverse := p.exposure.Seen(), 1/(p.rest+e)
	t, u, missed := p.rest*inverse, e*inverse, (e+(1-q)*p.rest)*inverse // 1 − qt
	d := q * t * u / missed
	v := weight * d * u
	if p.linked {
		d = -u
		sum.loss -= weight * math.Log(q*t)
	} else {
		sum.loss -= weight * math.Log(missed)
	}
	sum.dz += weight * d
	sum.ds -= weight * p.pi * d
	sum.zz += v
	sum.zs -= v * p.pi
	sum.ss += v * p.pi * p.pi
}

// hermite is Gauss and Hermite's rule with seven points for a standard normal: the point 0, and
// three points on either side of it.
var (
	hermiteAt     = [3]float64{1.154405394739968, 2.366759410734541, 3.7504397177257425}
	hermiteWeight = [3]float64{.24012317860501271, 3.0757123967586497e-2, 5.4826885597221792e-4}
)

const hermiteCentre = .45714285714285714

// spread is e^(sd·at) for the three points of a pair: fixed while the leverage is, so that a pair
// costs one exponential however often its likelihood is averaged.
type spread [3]float64

func spreadOf(leverage float32) (s spread) {
	sd := math.Min(math.Sqrt(float64(leverage)), 80)
	for i, at := range hermiteAt {
		s[i] = math.Exp(sd * at)
	}
	return s
}

// tally adds up Σ weight·log x over many pairs, for the weights of the points, by products: most x
// are near 1, so that hundreds of pairs share a logarithm. A product is off by half an ulp for each
// factor, as a sum of logarithms would be.
type tally struct {
	loss     float64
	weights  [6]float64 // of the logit itself, of either side's three points, and of three points in all
	products [6]float64
}

// newTally returns an empty tally, of logits that are averaged over their spread or not.
func newTally(averaged bool) tally {
	weights := [6]float64{1, hermiteWeight[0], hermiteWeight[1], hermiteWeight[2], 2. / 3, 1. / 6}
	if averaged {
		weights[0] = hermiteCentre
	}
	return tally{weights: weights, products: [6]float64{1, 1, 1, 1, 1, 1}}
}

// add adds weights[i]·log x, for an x of at least 1, but for its rounding.
func (t *tally) add(i int, x float64) {
	if p := t.products[i] * x; p < 1e300 {
		t.products[i] = p
		return
	}
	t.loss += t.weights[i] * (math.Log(t.products[i]) + math.Log(x))
	t.products[i] = 1
}

func (t *tally) total() float64 {
	sum := t.loss
	for i, p := range t.products {
		sum += t.weights[i] * math.Log(p)
	}
	return sum
}

// Intercept returns by how much all link logits z are to be shifted for the outcomes to be
// likeliest, given the logits s of the propensities and the rates, and minus the log-likelihood
// there.
func (o Outcomes) Intercept(z, s, rate []float64) (shift, loss float64) {
	points := make([]point, len(z))
	for k := range points {
		points[k] = point{rate: rate[k], linked: o.Linked[k]}
		points[k].pi, points[k].rest = kern.Sigmoid64(s[k])
		if o.Exposure != nil {
			points[k].exposure = o.Exposure[k]
		}
	}
	for range 30 {
		var slope, curvature float64
		loss = 0
		losses := newTally(false)
		for k := range points {
			c := points[k].contribute(z[k]+shift, nil, &losses)
			loss += c.loss
			slope += c.dz
			curvature += c.zz
		}
		loss += losses.total()
		step := -slope / math.Max(curvature, 1e-12)
		if math.Abs(step) < 1e-4 {
			break
		}
		shift += math.Max(-1, math.Min(1, step))
	}
	return shift, loss
}
