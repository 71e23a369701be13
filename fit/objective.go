package fit

import (
	"context"
	"fmt"
	"math"

	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
)

// Sampling says how the likelihood treats a sample in which unlinked pairs were thrown away.
type Sampling uint8

// The ways to allow for having sampled the unlinked pairs.
const (
	// CaseControl corrects the likelihood itself: with unlinked pairs kept at rate r,
	// logit P(linked | sampled) = logit(π̂ŷ) + log(1/r).
	CaseControl Sampling = iota
	// Unweighted takes the sample for the population, as the paper does: ŷ comes out inflated.
	Unweighted
	// Weighted weighs pairs by their inclusion weight: unbiased, but noisy.
	Weighted
)

var samplings = [...]string{CaseControl: "case-control", Unweighted: "unweighted", Weighted: "weighted"}

func (s Sampling) String() string { return samplings[s] }

// ParseSampling reads case-control, unweighted or weighted.
func ParseSampling(name string) (Sampling, error) {
	for s, n := range samplings {
		if n == name {
			return Sampling(s), nil
		}
	}
	return 0, fmt.Errorf("%w: no likelihood %q; there is case-control, unweighted and weighted", ErrSetting, name)
}

// Scheme is the risk that joins the likelihood in the objective.
type Scheme uint8

// The schemes; package risk has the same, pair by pair.
const (
	None  Scheme = iota // the likelihood alone
	W                   // R_w
	PU                  // R_PU
	AP                  // R_AP
	DR                  // doubly robust, over pairs whose exposure is logged
	Other               // any scheme of package risk, pair by pair
)

// Objective is what is minimised over the parameters θ of both models,
//
//	λ_L·(1/n)Σ NLL(o; ŷ, π̂) + λ_R·(1/Σω)Σ ω·r(o; ŷ, π̂) + ½Σ Precision·(θ − Centre)²
//
// over the pairs of a sample, with inclusion weights ω. Everything about a pair comes down to
// two scalars, ∂/∂z and ∂/∂s, which the models take from there.
type Objective struct {
	Link       model.Link
	Propensity model.Propensity

	Likelihood float64 // λ_L
	Risk       float64 // λ_R
	Scheme     Scheme
	Custom     risk.Estimator // for Other
	Held       bool           // masses held constant: no gradient flows through them
	Floor      float64        // the least propensity that the risk sees
	Sampling   Sampling
	EvenRisk   bool // the risk ignores inclusion weights, as in the paper

	// Scale is the size that each parameter is expected to have: optimisers work in units of it, so
	// that the length of the vectors does not matter to them. nil means 1.
	Scale []float64

	Precision []float64 // per parameter; nil means no prior
	Centre    []float64 // nil means 0

	Pairs    *graph.Pairs
	Exposure []risk.Exposure // per pair; nil means that nothing is logged
}

// Parts is the value of an objective by its terms, each already multiplied by its λ.
type Parts struct{ Likelihood, Risk, Prior float64 }

// Total returns the objective.
func (p Parts) Total() float64 { return p.Likelihood + p.Risk + p.Prior }

// Size is the number of parameters: the link model's, then the propensity model's.
func (o *Objective) Size() int { return o.Link.Size() + o.Propensity.Size() }

// Split cuts parameters, or their gradient, into the two models' parts.
func (o *Objective) Split(params []float32) (link, propensity []float32) {
	n := o.Link.Size()
	return params[:n], params[n:o.Size()]
}

// scale returns the expected size of parameter i.
func (o *Objective) scale(i int) float64 {
	if o.Scale == nil {
		return 1
	}
	return o.Scale[i]
}

// thinned returns the objective over about so many of its pairs at most, drawn at random.
func (o *Objective) thinned(most int) *Objective {
	if o.Pairs.Len() <= most {
		return o
	}
	fewer := *o
	fewer.Pairs, fewer.Exposure = pairsAt(o.Pairs, o.Exposure, some(o.Pairs.Len(), most, 0))
	return &fewer
}

// meanWeight is what inclusion weights are divided by, so that they average to 1.
func (o *Objective) meanWeight() float64 {
	var sum risk.Sum
	for _, w := range o.Pairs.Weight {
		sum.Add(w)
	}
	return sum.Value() / float64(max(o.Pairs.Len(), 1))
}

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
	o.Link.Logits(w.z[:n], link, batch)
	o.Propensity.Logits(w.s[:n], propensity, batch)
	parts := o.slopes(w, n, scale, values)
	if grad != nil {
		gradLink, gradPropensity := o.Split(grad)
		o.Link.Backward(gradLink, link, batch, w.dz[:n])
		o.Propensity.Backward(gradPropensity, propensity, batch, w.ds[:n])
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
func (o *Objective) slopes(w *workspace, n int, scale float32, values bool) Parts {
	z, s, y, u, pi, rest := w.z[:n], w.s[:n], w.y[:n], w.u[:n], w.pi[:n], w.rest[:n]
	kern.SigmoidSoftplus(y, w.loss[:n], z)
	for k := range z {
		u[k], rest[k] = -z[k], -s[k]
	}
	kern.SigmoidSoftplus(u, w.linkedLoss[:n], u)
	kern.Sigmoid(pi, s)
	kern.Sigmoid(rest, rest)
	lambdaL, lambdaR, floor := scale*float32(o.Likelihood), scale*float32(o.Risk), float32(o.Floor)
	var nll logSum
	var total float64
	for k := range z {
		linked := w.linked[k]
		yk, uk, pk, rk := y[k], u[k], pi[k], rest[k]
		q := max(uk+yk*rk, tiny)
		inverse := 1 / q
		psi, hide := uk*inverse, rk*inverse
		likelihood := lambdaL
		if o.Sampling == Weighted {
			likelihood *= w.weight[k]
		}
		var dz, ds float32
		if o.Exposure != nil && w.exposure[k] == risk.Offered {
			// −log Ber(o; t) with logit t = z + log(1−π̂): see Offered. There is no risk of it, which is of o = o′·a.
			logit := float64(z[k]) - softplus(float64(s[k]))
			if linked {
				logit = -logit
			}
			e := float32(1 / (1 + math.Exp(-logit)))
			if linked {
				e = -e
			}
			w.dz[k], w.ds[k] = lambdaL*e, -lambdaL*e*pk
			if values {
				nll.sum += float64(lambdaL) * softplus(logit)
			}
			continue
		}
		if o.Exposure != nil && w.exposure[k] != risk.Unlogged {
			// −log Ber(a; π̂) − a·log Ber(o; ŷ)
			if w.exposure[k] == risk.Exposed {
				ds = -rk
				dz = yk
				if linked {
					dz = -uk
				}
			} else {
				ds = pk
			}
			value := 0.0
			if values {
				value = w.loggedNLL(k)
			}
			if r := w.rate[k]; o.Sampling == CaseControl && r < 1 {
				// every pair is in the sample with a chance that depends on o: log(p + r·q)
				p := pk * yk
				sampled := p + r*q
				share := (1 - r) * p / sampled
				dz, ds = dz+share*uk, ds+share*rk
				if values {
					value += math.Log(float64(sampled))
				}
			}
			dz, ds = dz*likelihood, ds*likelihood
			nll.sum += float64(likelihood) * value
		} else {
			r := float32(1)
			if o.Sampling == CaseControl {
				r = w.rate[k]
			}
			p := max(pk*yk, tiny)
			e := p / (p + r*q)
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
		if o.Scheme != None {
			weight := lambdaR
			if !o.EvenRisk {
				weight *= w.weight[k]
			}
			risky, rz, rs := o.risk(w, k, floor, values)
			dz += weight * rz
			ds += weight * rs
			if values {
				total += float64(weight) * risky
			}
		}
		w.dz[k], w.ds[k] = dz, ds
	}
	return Parts{Likelihood: nll.value(), Risk: total}
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
		return softplus(s)
	case w.linked[k]:
		return softplus(-s) + float64(w.linkedLoss[k])
	}
	return softplus(-s) + float64(w.loss[k])
}

func softplus(x float64) float64 { return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// risk returns the value of pair k's risk and its slopes in z and s.
func (o *Objective) risk(w *workspace, k int, floor float32, values bool) (value float64, dz, ds float32) {
	if o.Scheme == Other {
		return o.custom(w, k)
	}
	y, u, pi, rest := w.y[k], w.u[k], w.pi[k], w.rest[k]
	held := o.Held
	room := pi * rest // ∂π̂/∂s
	if pi < floor {   // max(π̂, floor) is flat here
		pi, rest, room = floor, 1-floor, 0
	}
	inverse := 1 / max(u+y*rest, tiny)
	psi, hide := u*inverse, rest*inverse
	unlinkedLoss, linkedLoss := w.loss[k], w.linkedLoss[k]
	var positive, negative float32
	switch {
	case o.Scheme == DR:
		// Only pairs with logged exposure count; m is ŷ, held, so P = ŷ + a(o−ŷ)/π̂.
		if w.exposure == nil || w.exposure[k] == risk.Unlogged {
			return 0, 0, 0
		}
		positive = y
		if w.exposure[k] == risk.Exposed {
			outcome := float32(0)
			if w.linked[k] {
				outcome = 1
			}
			positive += (outcome - y) / max(pi, tiny)
		}
		negative = 1 - positive
		held = true
	case w.linked[k]:
		positive = 1
		if o.Scheme != AP {
			positive = 1 / max(pi, tiny)
		}
		if o.Scheme == PU {
			negative = 1 - positive
		}
	case o.Scheme == PU:
		negative = 1
	default:
		negative = psi
		if o.Scheme == AP {
			positive = y * hide
		}
	}
	if values {
		value = weighed(positive, linkedLoss) + weighed(negative, unlinkedLoss)
	}
	if held {
		return value, negative*y - positive*u, 0
	}
	slope := psi * inverse * y * room // ∂τ/∂s = −∂ψ/∂s, with the sign turned
	switch {
	case o.Scheme == W && w.linked[k]:
		return value, -u * positive, -linkedLoss * room * positive * positive
	case o.Scheme == W:
		return value, y * psi * (1 - hide*unlinkedLoss), slope * unlinkedLoss
	case o.Scheme == PU && w.linked[k]:
		return value, y - positive, w.z[k] * room * positive * positive
	case o.Scheme == PU:
		return value, y, 0
	case w.linked[k]:
		return value, -u, 0
	}
	return value, y * psi * (pi - hide*w.z[k]), slope * w.z[k]
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
	gradient := o.Custom.Gradient
	if o.Held {
		gradient = o.Custom.HeldGradient
	}
	value, g := gradient(seen, belief)
	return value, float32(g.Link), float32(g.Propensity)
}

// prior adds the prior's gradient and returns its value.
func (o *Objective) prior(params []float32, grad []float64) float64 {
	var sum float64
	for i, precision := range o.Precision {
		d := float64(params[i])
		if o.Centre != nil {
			d -= o.Centre[i]
		}
		sum += precision * d * d / 2
		if grad != nil {
			grad[i] += precision * d
		}
	}
	return sum
}

// Engine does what is heavy. The processor, a graphics card and a cluster each have one, and they
// agree within rounding.
type Engine interface {
	// Gradient returns the objective's parts at params and, unless grad is nil, sets grad to its
	// gradient.
	Gradient(ctx context.Context, o *Objective, params []float32, grad []float64) (Parts, error)
	// AllPairs returns what a judge's own predictions come to over all ordered pairs of a graph.
	AllPairs(ctx context.Context, g *graph.Graph, j *Judge) (Totals, error)
}

var _ Engine = CPU{}

// CPU is the engine on this machine's processor.
type CPU struct {
	Threads int // 0 means all processors; results do not depend on it
}

// maxChunks bounds the partial gradients that are kept apart until they are added in order.
const maxChunks = 256

// Gradient implements Engine. The sums do not depend on the number of threads.
func (c CPU) Gradient(ctx context.Context, o *Objective, params []float32, grad []float64) (Parts, error) {
	partial, err := c.portions(ctx, o, params, grad, o.meanWeight())
	if err != nil {
		return Parts{}, err
	}
	n := float64(o.Pairs.Len())
	var total Parts
	clear(grad)
	for _, p := range partial {
		total.Likelihood += p.parts.Likelihood / n
		total.Risk += p.parts.Risk / n
		for i, g := range p.grad {
			grad[i] += g / n
		}
	}
	total.Prior = o.prior(params, grad)
	return total, nil
}

// portion is what some pairs in a row sum to.
type portion struct {
	parts Parts
	grad  []float64
}

// portions sums the objective's pairs in fixed portions, without the prior; gradients only if grad is not nil.
func (c CPU) portions(ctx context.Context, o *Objective, params []float32, grad []float64,
	meanWeight float64) ([]portion, error) {
	n := o.Pairs.Len()
	if len(params) < o.Size() || grad != nil && len(grad) < o.Size() {
		return nil, fmt.Errorf("%w: %d parameters for models with %d", ErrShape, len(params), o.Size())
	}
	size := max((n+maxChunks-1)/maxChunks, stretch)
	size = (size + stretch - 1) / stretch * stretch
	chunks := (n + size - 1) / size
	partial := make([]portion, chunks)
	threads := kern.Threads(c.Threads)
	spaces := make([]*workspace, threads)
	sums := make([][]float32, threads)
	inverseMean := 1 / meanWeight
	kern.Chunks(n, size, threads, func(worker, chunk, from, to int) {
		if ctx.Err() != nil {
			return
		}
		if spaces[worker] == nil {
			spaces[worker] = newWorkspace()
			sums[worker] = make([]float32, o.Size())
		}
		w, sum := spaces[worker], sums[worker]
		result := &partial[chunk]
		if grad == nil {
			sum = nil
		} else {
			result.grad = make([]float64, o.Size())
		}
		clear(sum)
		for number := 1; from < to; number++ {
			count := min(stretch, to-from)
			for i := range count {
				o.at(w, i, from+i, inverseMean)
			}
			parts := o.add(w, count, params, sum, 1, true)
			result.parts.Likelihood += parts.Likelihood
			result.parts.Risk += parts.Risk
			if from += count; number%folded == 0 || from == to {
				for i, g := range sum {
					result.grad[i] += float64(g)
				}
				clear(sum)
			}
		}
	})
	return partial, ctx.Err()
}
