package fit

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"unseen/engine"
	"unseen/sample"
)

// The part of too many pairs that is learned from first: its share of mostBytes, and pairs at most.
const (
	partOfBytes = 8
	partPairs   = 1 << 17
)

// What the information of all pairs is found from: so many pairs·dimensions², and pairs at least.
const (
	informationProducts = 1 << 36
	informationPairs    = 1 << 18
)

// afar is a decrement, as near is, at which V is to be found again.
const afar = 30.

// whole is the posterior given all pairs, where the products of only a part of them fit into memory or time allows to
// learn only from a part again and again.
//
// The part has its own posterior, with mode θ₁ and covariance V₁: that of a case-control sample with fewer
// unlinked pairs, which is right as it stands. From there a few passes over all pairs lead to their mode θ, by the
// likelihood of all and with V as what a quasi-Newton method starts from. V itself is found from a larger part: the
// information is a sum over pairs, so that pairs which had a chance of 1/c count c times. Its own error is measured, as
// the difference between two halves, and V is as much larger.
//
// What refits of the part have shown carries over. A fit is off by V·k + V^½·ε: k is the slope of what the
// likelihood leaves out (the prior's pull, the third derivatives times the leverage), which adds up to about d however
// many pairs there are, and ε is of the size of 1. So a mean error of the part becomes V·V₁⁻¹ times as large,
// and what is left of each error L⁻ᵀ·L₁ᵀ times, for V = L⁻ᵀL⁻¹.
type whole struct {
	*bayesian
	problem sample.Problem // all pairs, or those of the part where the others are elsewhere
	laplace laplace        // over them
	share   [3]float64     // of the pairs of each kind that the part has; see PairChoice.Share

	begun        bool
	theta        []float64
	value        float64    // −log posterior at θ
	v            covariance // that the leverage is of, and at θ once it has ended
	prior        prior
	round        int
	passes       int // over all pairs, in this run of the program
	ended        bool
	published    bool    // the result has it
	scale, shift float64 // by which logits are published
}

// find moves to the mode, given the part's.
func (w *whole) find(ctx context.Context) error {
	if w.published {
		return nil
	}
	rounds := 4
	if w.result.earlier != nil {
		rounds = 1 // under the earlier prior, from nearby
	}
	if err := w.prepare(ctx); err != nil {
		return err
	}
	defer func() {
		w.laplace.close()
		w.laplace = laplace{} // its leverage takes four bytes for every pair
	}()
	l := &w.laplace
	if err := w.recorder.begin(w); err != nil {
		return err
	}
	if !w.begun && w.result.earlier != nil {
		w.v, w.begun = &partCovariance{w.bayesian.v.(factored), nil, w.result.Settings.Seed}, true
	}
	if !w.begun {
		v, err := l.method.at(ctx, l, w.theta)
		if err != nil {
			return err
		}
		w.v, w.begun = v, true
	}
	for !w.ended {
		l.prior = w.prior
		w.report(0)
		if err := l.setLeverage(ctx, w.v); err != nil {
			return err
		}
		enough := near
		if w.round == 0 && rounds > 1 {
			enough = afar // V of the part's mode has led here, and a new one leads further
		}
		err := l.mode(ctx, w.theta, w.v, climb{enough: enough, report: w.report, recorder: w.recorder})
		if err != nil {
			return err
		}
		v, err := l.method.at(ctx, l, w.theta)
		if err != nil {
			return err
		}
		w.v = v
		moved := 0.
		if w.result.earlier == nil {
			if moved, err = w.learnPrior(v.(*partCovariance)); err != nil {
				return err
			}
		}
		w.round++
		w.ended = w.round == rounds || w.round > 1 && moved < .15 || w.theta[l.d] > certain
		w.recorder.settle(w)
		if err := w.recorder.tick(); err != nil {
			return err
		}
	}
	return w.publish(ctx)
}

// learnPrior finds the prior's own parameters and V under them, at the information there is: θ hardly depends on them.
// It returns by how much their logarithms moved.
func (w *whole) learnPrior(v *partCovariance) (float64, error) {
	before := w.prior
	var last [3]float64
	for range learnRounds {
		moved := math.Max(w.prior.updateAlpha(w.theta, v.trace(), &last[0]),
			w.prior.updateTau(w.theta, v.moments(w.prior.group), last[1:]))
		w.laplace.prior = w.prior
		again, err := w.laplace.factor(slices.Clone(v.information))
		if err != nil {
			return 0, err
		}
		if v = v.with(again); moved <= .05 {
			break
		}
	}
	w.v = v
	moved := math.Abs(math.Log(w.prior.Alpha / before.Alpha))
	for g, tau := range before.Tau {
		moved = math.Max(moved, math.Abs(math.Log(w.prior.Tau[g]/tau)))
	}
	return moved, nil
}

// prepare makes the likelihood of all pairs ready, and chooses those that their information is found from.
func (w *whole) prepare(ctx context.Context) error {
	part, s := w.bayesian.laplace, w.result.Settings
	of := PairDesign{Cells: w.cells, Unit: part.design.Unit(), CaseControl: !s.evenly()}
	design, outcomes, _, err := w.over(ctx, of)
	if err != nil {
		return err
	}
	method := byPart{seed: s.Seed}
	most := cmp.Or(s.mostPairs, max(informationProducts/(part.d+1)/(part.d+1), informationPairs))
	if kinds := w.kinds(); kinds[0]+kinds[1]+kinds[2] > int64(most) {
		share := sharesOf(kinds, most, false)
		for kind, pairs := range kinds {
			for half := range 2 {
				at := stratumPairs{PairStratum: PairStratum{kind, half}, times: 1 / share[kind]}
				if pairs == 0 {
					continue
				}
				of.Choice = &PairChoice{Seed: s.Seed, Share: share, Stratum: &at.PairStratum}
				if at.design, at.outcomes, at.places, err = w.over(ctx, of); err != nil {
					return err
				}
				method.strata = append(method.strata, at)
			}
		}
	}
	w.laplace = laplace{design: design, outcomes: outcomes, d: part.d, cells: part.cells, prior: part.prior,
		method: method, elsewhere: w.result.all.whole()}
	w.theta, w.prior = slices.Clone(w.bayesian.theta), part.prior
	return nil
}

// over makes a design over all pairs, or some of them.
func (w *whole) over(ctx context.Context, d PairDesign) (engine.Design, engine.Outcomes, []int32, error) {
	if all := w.result.all; all.whole() {
		design, err := all.Design(ctx, d)
		return design, engine.Outcomes{}, nil, err
	}
	return d.Over(ctx, w.result.Settings.engine(), w.problem)
}

// kinds returns how many pairs there are of each kind.
func (w *whole) kinds() (count [3]int64) {
	if all := w.result.all; all.whole() {
		return all.survey.Kinds
	}
	for k := range w.problem.Train.Linked {
		count[pairKind(w.problem, k)]++
	}
	return count
}

// count returns how many pairs there are.
func (w *whole) count() int64 {
	if all := w.result.all; all.whole() {
		return all.survey.count()
	}
	return int64(w.problem.Train.Len())
}

// report counts a pass over all pairs.
func (w *whole) report(value float64) {
	const usual = 12 // passes
	pairs := int(w.count())
	w.passes++
	w.value = cmp.Or(value, w.value)
	w.meter.add(pairs, true, func() round {
		return round{phase: "learning from all pairs", number: w.passes, of: max(usual, w.passes),
			loss: value / float64(pairs)}
	})
}

// publish makes the result that of all pairs. The starts were compared by the part: they differ as they did there.
func (w *whole) publish(ctx context.Context) error {
	r := w.result
	seen := *w.bayesian.laplace // the part's pairs, with what is known of their logits from all
	seen.seen, seen.own, seen.last = nil, false, nil
	seen.prior = w.prior
	leverage, err := w.factored().leverage(ctx, seen.design)
	if err != nil {
		return err
	}
	seen.outcomes.Leverage = leverage
	defer seen.close()
	if w.scale, w.shift, err = seen.calibrate(ctx, w.theta); err != nil {
		return err
	}
	r.LinkParams, r.PropensityParams = w.linkParams(w.theta), w.exposure(w.theta)
	first, err := describe(ctx, r.Settings.engine(), w.problem, r.predictor())
	if err != nil {
		return err
	}
	first.Objective = w.value / float64(w.count())
	if r.earlier != nil { // the part was not learned from
		r.Starts = []Start{{Propensity: r.Settings.firstStart()}}
	}
	before := r.Starts[0]
	for i, s := range r.Starts {
		times := func(mine, at, began float64) float64 {
			if began == 0 {
				return mine
			}
			return mine * at / began
		}
		r.Starts[i] = Start{Propensity: s.Propensity, Objective: first.Objective + s.Objective - before.Objective,
			MeanLink:  times(first.MeanLink, s.MeanLink, before.MeanLink),
			MeanSame:  times(first.MeanSame, s.MeanSame, before.MeanSame),
			MeanCross: times(first.MeanCross, s.MeanCross, before.MeanCross)}
	}
	w.published = true
	w.recorder.settle(w.bayesian)
	return nil
}

// linkParams returns the link model's parameters at θ.
func (w *whole) linkParams(theta []float64) []float32 {
	return w.bayesian.laplace.published(theta, w.scale, w.shift)
}

func (w *whole) factored() factored { return w.v.(*partCovariance).factored }

// extended returns the posterior of all pairs, given the part's, which stays: a checkpoint may keep it.
func (w *whole) extended(part *Posterior) *Posterior {
	p := *part
	p.hyper, p.replicates = slices.Clone(p.hyper), slices.Clone(p.replicates)
	small, large := p.v.(factored).exact().factor, w.factored().exact().factor
	d, n, unit := p.d, large.N, p.unit
	width := d + 1
	// θ of a move that is given as parameters of the models, and back
	theta := func(link, logits []float32) []float64 {
		out := make([]float64, n)
		for i, x := range link {
			if out[i] = float64(x); i < d {
				out[i] *= unit
			}
		}
		for c, x := range logits {
			out[width+c] = float64(x)
		}
		return out
	}
	moved := func(x []float64) variant { return variant{w.bayesian.laplace.weights(x), float32s(x[width:])} }
	for i, h := range p.hyper {
		x := theta(h.link, h.logits)
		carryMean(small, large, x)
		for k := range width {
			x[k] *= w.scale
		}
		p.hyper[i] = moved(x)
	}
	// the errors of the replicates and their mean
	began := w.bayesian.theta
	count := float64(len(p.replicates))
	mean, truths, errors := make([]float64, n), [][]float64{}, [][]float64{}
	for _, r := range p.replicates {
		truth, at := theta(r.truth, float32s(began[width:])), theta(r.link, r.logits)
		for i := range at {
			at[i] -= truth[i]
			mean[i] += at[i] / count
		}
		for i := range width {
			truth[i] -= began[i]
		}
		truths, errors = append(truths, truth), append(errors, at)
	}
	bias := slices.Clone(mean)
	carryMean(small, large, bias)
	for i := range p.replicates {
		truth, at := truths[i], errors[i]
		given, wide := small, large
		given.N, wide.N = width, width
		carryDeviation(given, wide, truth[:width])
		for k := range width {
			truth[k] += w.theta[k]
		}
		copy(truth[width:], w.theta[width:])
		for k := range at {
			at[k] -= mean[k]
		}
		carryDeviation(small, large, at)
		for k := range at {
			at[k] += truth[k] + bias[k]
		}
		p.replicates[i] = replicate{truth: w.bayesian.laplace.weights(truth), link: w.linkParams(at),
			logits: float32s(at[width:])}
	}
	p.Alpha, p.Tau, p.scale = w.prior.Alpha, w.prior.Tau, w.scale
	p.v = &exactCovariance{d: d, count: n - width, factor: large}
	return &p
}

func float32s(values []float64) []float32 {
	out := make([]float32, len(values))
	for i, x := range values {
		out[i] = float32(x)
	}
	return out
}

// carryMean replaces a mean error under L₁L₁ᵀ = V₁⁻¹ by the one under LLᵀ = V⁻¹: V·V₁⁻¹ times it.
func carryMean(small, large blas64.Triangular, x []float64) {
	at := blas64.Vector{N: len(x), Inc: 1, Data: x}
	blas64.Trmv(blas.Trans, small, at)
	blas64.Trmv(blas.NoTrans, small, at)
	blas64.Trsv(blas.NoTrans, large, at)
	blas64.Trsv(blas.Trans, large, at)
}

// carryDeviation replaces a deviation with covariance V₁ by one with covariance V: L⁻ᵀ·L₁ᵀ times it.
func carryDeviation(small, large blas64.Triangular, x []float64) {
	at := blas64.Vector{N: len(x), Inc: 1, Data: x}
	blas64.Trmv(blas.Trans, small, at)
	blas64.Trsv(blas.Trans, large, at)
}

func (w *whole) keep(c *checkpoint) {
	put(c, "whole.theta", w.theta)
	put(c, "whole.prior", []float64{w.prior.Alpha, w.prior.Tau[0], w.prior.Tau[1]})
	put(c, "whole.values", []float64{w.scale, w.shift, w.value})
	c.putCovariance("whole.factor", w.v)
	c.putNumber("whole.round", w.round)
	c.putTruth("whole.ended", w.ended)
}

func (w *whole) restore(c *checkpoint) {
	part := w.bayesian.laplace
	w.theta, w.prior = numbers[float64](c, "whole.theta", part.size()), part.prior
	prior, values := numbers[float64](c, "whole.prior", 3), numbers[float64](c, "whole.values", 3)
	w.prior.Alpha, w.prior.Tau = prior[0], [2]float64{prior[1], prior[2]}
	w.scale, w.shift, w.value = values[0], values[1], values[2]
	if w.begun = c.truth("whole.factor"); w.begun {
		w.v = byPart{seed: w.result.Settings.Seed}.restore(c, "whole.factor", part)
	}
	w.round, w.ended = c.number("whole.round", math.MaxInt32), c.truth("whole.ended")
}

// stratumPairs is the pairs of a stratum, which had the same chance to be chosen.
type stratumPairs struct {
	PairStratum
	places   []int32 // among all pairs, where these are in memory
	times    float64 // how many pairs each stands for
	design   engine.Design
	outcomes engine.Outcomes
}

// byPart finds V from the information of a part of the pairs; of all where there are no strata.
type byPart struct {
	strata []stratumPairs
	seed   uint64
}

// partCovariance is V whose leverage is found by draws: that of all pairs would cost as much as their information.
type partCovariance struct {
	factored
	information []float64 // of all pairs, without the prior; nil where it was restored
	seed        uint64
}

// with returns the same with another V.
func (v *partCovariance) with(other factored) *partCovariance {
	return &partCovariance{other, v.information, v.seed}
}

func (byPart) search() modeSearch { return byFactor{}.search() }

func (m byPart) near(ctx context.Context, l *laplace, theta []float64) (covariance, error) {
	return m.at(ctx, l, theta)
}

func (m byPart) at(ctx context.Context, l *laplace, theta []float64) (covariance, error) {
	information, err := m.information(ctx, l, theta)
	if err != nil {
		return nil, err
	}
	v, err := l.factor(slices.Clone(information))
	if err != nil {
		return nil, err
	}
	return &partCovariance{v, information, m.seed}, nil
}

// information estimates that of all pairs, less what the estimate may be too large by.
func (m byPart) information(ctx context.Context, l *laplace, theta []float64) ([]float64, error) {
	if m.strata == nil {
		likelihood, err := l.likelihood(ctx)
		if err != nil {
			return nil, err
		}
		return likelihood.Information(ctx, theta)
	}
	n := l.size()
	sum, difference := make([]float64, n*n), make([]float64, n*n)
	for _, s := range m.strata {
		information, err := s.information(ctx, l, theta)
		if err != nil {
			return nil, err
		}
		sign := s.times * float64(1-2*s.Half)
		for i, x := range information {
			sum[i] += s.times * x
			difference[i] += sign * x
		}
	}
	v, err := l.factor(slices.Clone(sum))
	if err != nil {
		return nil, err
	}
	shrunk := 1 / (1 + v.relativeError(difference))
	for i := range sum {
		sum[i] *= shrunk
	}
	return sum, nil
}

// information returns that of the stratum's pairs.
func (s stratumPairs) information(ctx context.Context, l *laplace, theta []float64) ([]float64, error) {
	o := s.outcomes
	if o.Root = l.outcomes.Root; l.outcomes.Leverage != nil {
		o.Leverage = sample.Column(l.outcomes.Leverage, s.places)
	}
	seen, err := s.design.Observe(ctx, o)
	if err != nil {
		return nil, err
	}
	defer seen.Close()
	return seen.Information(ctx, theta)
}

func (m byPart) restore(c *checkpoint, name string, l *laplace) covariance {
	return &partCovariance{byFactor{}.restore(c, name, l).(factored), nil, m.seed}
}

// leverage is the mean square of a few draws: of many pairs the leverage is small, and what matters is its sum, which a
// few draws in many dimensions know to a share of √(2/(draws·dimensions)).
func (v *partCovariance) leverage(ctx context.Context, design engine.Design) ([]float32, error) {
	return design.Leverage(ctx, v.drawn())
}

// drawn returns those draws.
func (v *partCovariance) drawn() engine.Root {
	weights := v.weights()
	count := max(8, min(64, 4096/weights.d))
	u := weights.weightFactor()
	weights.setTrace(u)
	root := engine.Root{Rows: make([][]float32, count), Divisor: float64(count)}
	rng := rand.New(rand.NewPCG(v.seed, 0x1e7e4a9e))
	for i := range root.Rows {
		e := make([]float64, u.N)
		for j := range e {
			e[j] = rng.NormFloat64()
		}
		blas64.Trmv(blas.Trans, u, blas64.Vector{N: u.N, Inc: 1, Data: e})
		root.Rows[i] = float32s(e)
	}
	return root
}
