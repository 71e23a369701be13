package engine

import (
	"math"
	"slices"

	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
)

// stretch is how many pairs go through the models at a time: enough to fill the kernels and their
// prefetching, few enough that the rows are still in the second-level cache for the gradient.
const stretch = 64

// folded is how many stretches are added up in float32 before the sum goes into a float64 one.
const folded = 8

// workspace is one worker's scratch memory for a stretch.
type workspace struct {
	sources, targets     []int32
	z, s, y, u, pi, rest []float32
	loss, linkedLoss     []float32 // −log(1−ŷ) and −log ŷ
	dz, ds               []float32
	zz, zs, ss           []float32 // about the curvature in z and s, never negative; nil where nobody asks
	pairSlopes           kern.PairValues
	weight, rate         []float32
	linked               []bool
	exposure             []risk.Exposure
}

func newWorkspace() *workspace {
	room := make([]float32, 12*stretch)
	next := func() []float32 {
		part := room[:stretch:stretch]
		room = room[stretch:]
		return part
	}
	return &workspace{
		sources: make([]int32, stretch), targets: make([]int32, stretch),
		z: next(), s: next(), y: next(), u: next(), pi: next(), rest: next(), loss: next(), linkedLoss: next(),
		dz: next(), ds: next(), weight: next(), rate: next(),
		linked: make([]bool, stretch), exposure: make([]risk.Exposure, stretch),
	}
}

// curved returns the workspace with room for curvatures.
func (w *workspace) curved() *workspace {
	room := make([]float32, 4*stretch)
	w.zz, w.zs, w.ss = room[:stretch], room[stretch:2*stretch], room[2*stretch:3*stretch]
	w.pairSlopes = kern.PairValues{Z: w.z, S: w.s, Sign: room[3*stretch:], Rate: w.rate, Weight: w.weight, DZ: w.dz,
		DS: w.ds, ZZ: w.zz, ZS: w.zs, SS: w.ss, Chance: w.loss}
	return w
}

// curve sets the curvature of pair k.
func (w *workspace) curve(k int, zz, zs, ss float32) {
	if w.zz != nil {
		w.zz[k], w.zs[k], w.ss[k] = zz, zs, ss
	}
}

// weigh multiplies the curvature of pair k.
func (w *workspace) weigh(k int, by float32) {
	if w.zz != nil {
		w.curve(k, by*w.zz[k], by*w.zs[k], by*w.ss[k])
	}
}

// at gathers pair k of the sample into place i of the workspace.
func (o *Objective) at(w *workspace, i, k int, inverseMean float64) {
	p := o.Pairs
	w.sources[i], w.targets[i], w.linked[i] = p.Source[k], p.Target[k], p.Linked[k]
	w.weight[i], w.rate[i] = float32(p.Weight[k]*inverseMean), float32(p.Rate[k])
	if o.Exposure != nil {
		w.exposure[i] = o.Exposure[k]
	}
}

// add evaluates the first n pairs of the workspace and adds scale times their gradient to grad.
// The values of the terms are computed only if asked for: logarithms cost more than slopes.
func (o *Objective) add(w *workspace, n int, params, grad []float32, scale float32, values bool) Parts {
	batch := model.Batch{Sources: w.sources[:n], Targets: w.targets[:n]}
	link, propensity := o.Split(params)
	by := Predictor{Link: o.Link, LinkParams: link, Propensity: o.Propensity, PropensityParams: propensity}
	by.Logits(w.z[:n], w.s[:n], batch)
	parts := o.slopes(w, n, scale, values)
	if grad != nil {
		gradLink, gradPropensity := o.Split(grad)
		by.backward(gradLink, gradPropensity, batch, w.z[:n], w.dz[:n], w.ds[:n])
	}
	return parts
}

// tiny keeps quotients of float32 numbers finite.
const tiny = 1e-35

// slopes turns logits into ∂z and ∂s for the first n pairs, times scale.
//
// With p = π̂ŷ, q = 1−p = u + ŷ(1−π̂), ψ = u/q, and P = p/(p + r·q) the probability that a
// sampled pair is linked, the likelihood has ∂z = (P−o)ψ and ∂s = (P−o)(1−π̂)/q. The risks are
// MATH's closed forms in the same quantities.
//
// The curvatures are Fisher's information of the likelihood, P(1−P) times the products of ψ and (1−π̂)/q, and of a risk
// what it would be with constant masses: never negative, whatever the second derivatives are.
func (o *Objective) slopes(w *workspace, n int, scale float32, values bool) Parts {
	z, s, y, u, pi, rest := w.z[:n], w.s[:n], w.y[:n], w.u[:n], w.pi[:n], w.rest[:n]
	kern.SigmoidSoftplus(y, w.loss[:n], z)
	for k := range z {
		u[k], rest[k] = -z[k], -s[k]
	}
	kern.SigmoidSoftplus(u, w.linkedLoss[:n], u)
	kern.Sigmoid(pi, s)
	kern.Sigmoid(rest, rest)
	lambdaL, lambdaR, floor := scale*float32(o.LambdaL), scale*float32(o.LambdaR), float32(o.Floor)
	var nll logSum
	var total float64
	for k := range z {
		linked := w.linked[k]
		yk, uk, pk, rk := y[k], u[k], pi[k], rest[k]
		q := max(uk+yk*rk, tiny)
		inverse := 1 / q
		psi, hide := uk*inverse, rk*inverse
		likelihood := lambdaL
		if o.Likelihood == Weighted {
			likelihood *= w.weight[k]
		}
		var dz, ds float32
		if o.ShownOnly {
			nll.sum += o.shown(w, k, likelihood, lambdaL*w.weight[k])
			continue
		}
		if o.Exposure != nil && w.exposure[k].IsOffered() {
			nll.sum += w.offered(k, lambdaL, values)
			continue
		}
		if o.Exposure != nil && w.exposure[k] != risk.Unlogged {
			var value float64
			value, dz, ds = o.logged(w, k, q, values)
			dz, ds = dz*likelihood, ds*likelihood
			w.weigh(k, likelihood)
			nll.sum += float64(likelihood) * value
		} else {
			r := float32(1)
			if o.Likelihood == CaseControl {
				r = w.rate[k]
			}
			p := max(pk*yk, tiny)
			e := p / (p + r*q)
			if w.zz != nil {
				v := likelihood * e * (1 - e)
				w.zz[k], w.zs[k], w.ss[k] = v*psi*psi, v*psi*hide, v*hide*hide
			}
			if linked {
				e = -r * q / (p + r*q)
			}
			dz, ds = likelihood*e*psi, likelihood*e*hide
			if values {
				odds := float64(p) / (float64(r) * float64(q))
				if linked {
					odds = 1 / odds
				}
				nll.add(1+odds, float64(likelihood))
			}
		}
		if o.Risk != NoRisk {
			weight := lambdaR
			if !o.EvenRisk {
				weight *= w.weight[k]
			}
			risky, rz, rs := o.risk(w, k, floor, values)
			dz += weight * rz
			ds += weight * rs
			if w.zz != nil {
				w.zz[k] += weight * yk * uk * o.mass(w, k, floor)
			}
			if values {
				total += float64(weight) * risky
			}
		}
		w.dz[k], w.ds[k] = dz, ds
	}
	return Parts{Likelihood: nll.value(), Risk: total}
}

// curves is slopes with curvatures. The likelihood alone, of pairs whose exposure nobody knows, is a kernel of its own.
func (o *Objective) curves(w *workspace, n int, values bool) Parts {
	if o.Risk != NoRisk || o.ShownOnly ||
		o.Exposure != nil && slices.ContainsFunc(w.exposure[:n], risk.Exposure.IsOffered) {
		return o.slopes(w, n, 1, values)
	}
	lambda, weight, rate := float32(o.LambdaL), w.weight[:n], w.rate[:n]
	sign := w.pairSlopes.Sign
	for k, linked := range w.linked[:n] {
		if sign[k] = 1; linked {
			sign[k] = -1
		}
	}
	if o.Likelihood != CaseControl {
		for k := range rate {
			rate[k] = 1
		}
	}
	if o.Likelihood != Weighted {
		for k := range weight {
			weight[k] = 1
		}
	}
	kern.PairSlopes(&w.pairSlopes, n, lambda)
	if o.Exposure != nil {
		w.known(n, lambda)
	}
	if !values {
		return Parts{}
	}
	var nll logSum
	for k, x := range w.pairSlopes.Chance[:n] {
		nll.add(1/max(float64(x), 1e-35), float64(lambda*weight[k]))
	}
	return Parts{Likelihood: nll.value()}
}

// known puts right the pairs of which the exposure is logged; see logged.
func (w *workspace) known(n int, lambda float32) {
	z, s, y, u, pi, rest := w.z[:n], w.s[:n], w.y[:n], w.u[:n], w.pi[:n], w.rest[:n]
	for k := range z {
		u[k], rest[k] = -z[k], -s[k]
	}
	kern.Sigmoid(y, z)
	kern.Sigmoid(u, u)
	kern.Sigmoid(pi, s)
	kern.Sigmoid(rest, rest)
	for k, exposure := range w.exposure[:n] {
		if exposure == risk.Unlogged {
			continue
		}
		yk, uk, pk, rk, scale := y[k], u[k], pi[k], rest[k], lambda*w.weight[k]
		dz, ds, zz, zs, ss, chance := float32(0), pk, float32(0), float32(0), pk*rk, rk
		if exposure == risk.Exposed {
			dz, ds, zz, chance = yk, -rk, yk*uk, pk*uk
			if w.linked[k] {
				dz, chance = -uk, pk*yk
			}
		}
		if r := w.rate[k]; r < 1 {
			p := pk * yk
			sampled := p + r*(uk+yk*rk)
			share := (1 - r) * p / sampled
			v := share * (1 - share)
			dz, ds, chance = dz+share*uk, ds+share*rk, chance/sampled
			zz, zs, ss = zz+v*uk*uk, v*uk*rk, ss+v*rk*rk
		}
		w.dz[k], w.ds[k], w.zz[k], w.zs[k], w.ss[k] = scale*dz, scale*ds, scale*zz, scale*zs, scale*ss
		w.pairSlopes.Chance[k] = chance
	}
}

// offered sets the slopes of a pair that was offered and returns its value, times lambda: −log Ber(o; q·t) with logit
// t = z + log(1−π̂); see Offered and point.addOffered. There is no risk of it, which is of o = o′·a.
func (w *workspace) offered(k int, lambda float32, values bool) (value float64) {
	logit := float64(w.z[k]) - kern.Softplus64(float64(w.s[k]))
	slope, information, value := seenSlopes(logit, w.exposure[k].Seen(), w.linked[k], values)
	d, v := lambda*float32(slope), lambda*float32(information)
	w.dz[k], w.ds[k] = d, -d*w.pi[k]
	w.curve(k, v, -v*w.pi[k], v*w.pi[k]*w.pi[k])
	return float64(lambda) * value
}

// seenSlopes returns the slope and the information of −log Ber(o; q·t) in the logit of t, and its value if that is
// wanted.
func seenSlopes(logit, q float64, linked, values bool) (slope, information, value float64) {
	t, u := kern.Sigmoid64(logit)
	missed := u + (1-q)*t // 1 − qt
	slope = q * t * u / missed
	information = slope * u
	switch {
	case linked:
		slope = -u
		if values {
			value = kern.Softplus64(-logit) - math.Log(q)
		}
	case q == 1:
		if values {
			value = kern.Softplus64(logit)
		}
	case values:
		value = -math.Log(missed)
	}
	return slope, information, value
}

// shown sets the slopes of a pair under ShownOnly and returns its value: of ŷ times lambda, under
// the case-control likelihood with logit P(linked | sampled, shown) = z − log r, and of π̂ times
// weight. ŷ and π̂ have nothing to do with one another here.
func (o *Objective) shown(w *workspace, k int, lambda, weight float32) (value float64) {
	linked, exposure := w.linked[k], risk.Unlogged
	if o.Exposure != nil {
		exposure = w.exposure[k]
	}
	w.dz[k], w.ds[k] = 0, 0
	var zz, ss float32
	if linked || exposure == risk.Exposed || exposure.IsOffered() {
		logit := float64(w.z[k])
		if o.Likelihood == CaseControl {
			logit -= math.Log(float64(w.rate[k]))
		}
		d, v, loss := seenSlopes(logit, exposure.Seen(), linked, true)
		w.dz[k], zz, value = float32(d)*lambda, float32(v)*lambda, float64(lambda)*loss
	}
	switch s := float64(w.s[k]); exposure {
	case risk.Exposed:
		w.ds[k], ss = -weight*w.rest[k], weight*w.pi[k]*w.rest[k]
		value += float64(weight) * kern.Softplus64(-s)
	case risk.Unexposed:
		w.ds[k], ss = weight*w.pi[k], weight*w.pi[k]*w.rest[k]
		value += float64(weight) * kern.Softplus64(s)
	}
	w.curve(k, zz, 0, ss)
	return value
}

// logged returns the value and the slopes of a pair of which the exposure is known: −log Ber(a; π̂) − a·log Ber(o; ŷ).
func (o *Objective) logged(w *workspace, k int, q float32, values bool) (value float64, dz, ds float32) {
	yk, uk, pk, rk := w.y[k], w.u[k], w.pi[k], w.rest[k]
	var zz, zs, ss float32
	switch ss = pk * rk; {
	case w.exposure[k] != risk.Exposed:
		ds = pk
	case w.linked[k]:
		dz, ds, zz = -uk, -rk, yk*uk
	default:
		dz, ds, zz = yk, -rk, yk*uk
	}
	if values {
		value = w.loggedNLL(k)
	}
	if r := w.rate[k]; o.Likelihood == CaseControl && r < 1 {
		// every pair is in the sample with a chance that depends on o: log(p + r·q)
		p := pk * yk
		sampled := p + r*q
		share := (1 - r) * p / sampled
		dz, ds = dz+share*uk, ds+share*rk
		v := share * (1 - share)
		zz, zs, ss = zz+v*uk*uk, v*uk*rk, ss+v*rk*rk
		if values {
			value += math.Log(float64(sampled))
		}
	}
	w.curve(k, zz, zs, ss)
	return value, dz, ds
}

// logSum is a sum of weight·log x over numbers x ≥ 1 that often have one weight in a row: those are
// multiplied and share a logarithm, which costs more than the rest of a pair.
type logSum struct{ sum, product, weight float64 }

func (s *logSum) add(x, weight float64) {
	if weight != s.weight || s.product > 1e200 {
		s.sum = s.value()
		s.product, s.weight = 1, weight
	}
	s.product *= x
}

func (s *logSum) value() float64 {
	if s.weight == 0 {
		return s.sum
	}
	return s.sum + s.weight*math.Log(s.product)
}

// loggedNLL is −log Ber(a; π̂) − a·log Ber(o; ŷ) of pair k.
func (w *workspace) loggedNLL(k int) float64 {
	s := float64(w.s[k])
	switch {
	case w.exposure[k] == risk.Unexposed:
		return kern.Softplus64(s)
	case w.linked[k]:
		return kern.Softplus64(-s) + float64(w.linkedLoss[k])
	}
	return kern.Softplus64(-s) + float64(w.loss[k])
}

// robust returns a/π̂·δ(o, ŷ) of pair k and its slope, π̂ held: a(ŷ−o)/π̂. This is the slope of the doubly robust risk
// with constant masses, of which ŷ + a(o−ŷ)/π̂ and the rest to 1 cancel but for what was shown. Unlike those masses it
// has a value that falls along its slope and never below 0, and adds up over minibatches; at its minimum
// [risk.Target], which is what models are judged by, finds nothing to move on the same pairs.
func (o *Objective) robust(w *workspace, k int, floor float32) (value float64, dz, ds float32) {
	if w.exposure == nil || w.exposure[k] != risk.Exposed {
		return 0, 0, 0
	}
	inverse := 1 / max(w.pi[k], floor, tiny)
	if w.linked[k] {
		return weighed(inverse, w.linkedLoss[k]), -inverse * w.u[k], 0
	}
	return weighed(inverse, w.loss[k]), inverse * w.y[k], 0
}

// risk returns the value of pair k's risk and its slopes in z and s.
func (o *Objective) risk(w *workspace, k int, floor float32, values bool) (value float64, dz, ds float32) {
	switch o.Risk {
	case OtherRisk:
		return o.custom(w, k)
	case RiskDR:
		return o.robust(w, k, floor)
	}
	y, u, pi, rest := w.y[k], w.u[k], w.pi[k], w.rest[k]
	room := pi * rest // ∂π̂/∂s
	if pi < floor {   // max(π̂, floor) is flat here
		pi, rest, room = floor, 1-floor, 0
	}
	inverse := 1 / max(u+y*rest, tiny)
	psi, hide := u*inverse, rest*inverse
	unlinkedLoss, linkedLoss := w.loss[k], w.linkedLoss[k]
	var positive, negative float32
	switch {
	case w.linked[k]:
		positive = 1
		if o.Risk != RiskAP {
			positive = 1 / max(pi, tiny)
		}
		if o.Risk == RiskPU {
			negative = 1 - positive
		}
	case o.Risk == RiskPU:
		negative = 1
	default:
		negative = psi
		if o.Risk == RiskAP {
			positive = y * hide
		}
	}
	if values {
		value = weighed(positive, linkedLoss) + weighed(negative, unlinkedLoss)
	}
	if o.Held {
		return value, negative*y - positive*u, 0
	}
	slope := psi * inverse * y * room // ∂τ/∂s = −∂ψ/∂s, with the sign turned
	switch {
	case o.Risk == RiskW && w.linked[k]:
		return value, -u * positive, -linkedLoss * room * positive * positive
	case o.Risk == RiskW:
		return value, y * psi * (1 - hide*unlinkedLoss), slope * unlinkedLoss
	case o.Risk == RiskPU && w.linked[k]:
		return value, y - positive, w.z[k] * room * positive * positive
	case o.Risk == RiskPU:
		return value, y, 0
	case w.linked[k]:
		return value, -u, 0
	}
	return value, y * psi * (pi - hide*w.z[k]), slope * w.z[k]
}

// mass is what the risk's two masses of pair k come to, as far as they are not negative.
func (o *Objective) mass(w *workspace, k int, floor float32) float32 {
	pi := max(w.pi[k], floor, tiny)
	switch {
	case o.Risk == RiskDR && (w.exposure == nil || w.exposure[k] != risk.Exposed):
		return 0
	case o.Risk == RiskDR, o.Risk == RiskW && w.linked[k]:
		return 1 / pi
	}
	return 1
}

// weighed is mass·loss with 0·∞ = 0.
func weighed(mass, loss float32) float64 {
	if mass == 0 {
		return 0
	}
	return float64(mass) * float64(loss)
}

// custom evaluates a scheme of package risk in float64.
func (o *Objective) custom(w *workspace, k int) (float64, float32, float32) {
	belief, err := risk.FromLogits(float64(w.z[k]), float64(w.s[k]))
	if err != nil {
		return math.NaN(), float32(math.NaN()), 0
	}
	seen := risk.Observation{Linked: w.linked[k]}
	if o.Exposure != nil {
		seen.Exposure = w.exposure[k]
	}
	belief = belief.Floored(o.Floor)
	gradient := o.Estimator.Gradient
	if o.Held {
		gradient = o.Estimator.HeldGradient
	}
	value, g := gradient(seen, belief)
	return value, float32(g.Link), float32(g.Propensity)
}
