package fit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"unseen/engine"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// newPosterior makes the posterior around the mode; refits measure the errors that V does not include.
// Of every replicate the scores of the tests are returned, where there is a comparison.
func newPosterior(ctx context.Context, b *bayesian, c *comparison) (*Posterior, [][]float64, error) {
	l, s := b.laplace, b.result.Settings
	scale, shift, err := l.calibrate(ctx, b.theta)
	if err != nil {
		return nil, nil, err
	}
	a := &refits{
		Posterior: &Posterior{
			Alpha: l.prior.Alpha, Tau: l.prior.Tau, Cells: b.cells, unit: l.design.Unit(), scale: scale,
			caseControl: s.Sampling == engine.CaseControl.String(), seed: s.Seed, d: l.d, v: b.v,
		},
		bayesian: b, comparison: c, count: hyperparameters + 1 + max(s.Replicates, 0),
		decided: math.Max(float64(l.d)-l.prior.Alpha*b.v.trace(), 1), known: b.v.moments(l.prior.group),
	}
	for i, t := range b.terms {
		of := postedTerm{place: b.place(l.cells + i), scale: 1, centre: t.centre}
		if t.term == model.Text {
			of.scale, of.centre = scale, shift
		}
		a.Posterior.terms = append(a.Posterior.terms, of)
		a.Posterior.truth = b.exposureAt(b.theta, 1, 0, [2]float64{})
	}
	if err := b.recorder.begin(a); err != nil {
		return nil, nil, err
	}
	for a.done < a.count {
		b.meter.add(b.problem.Train.Len(), true, func() round {
			return round{phase: "estimating its errors", number: a.done + 1, of: a.count}
		})
		var err error
		switch {
		case a.done < hyperparameters:
			err = a.vary(ctx, a.done)
		case a.done == hyperparameters:
			err = a.withoutLogs(ctx)
		default:
			err = a.replicate(ctx, a.done-hyperparameters-1)
		}
		if err != nil {
			return nil, nil, err
		}
		a.done++
		b.recorder.settle(a)
		if err := b.recorder.tick(); err != nil {
			return nil, nil, err
		}
	}
	if b.whole != nil {
		return b.whole.extended(a.Posterior), a.scores, nil
	}
	return a.Posterior, a.scores, nil
}

// hyperparameters are α and two τ².
const hyperparameters = 3

// refits are the fits that follow the search for the mode.
type refits struct {
	*Posterior
	*bayesian
	comparison *comparison // nil where nothing is compared
	scores     [][]float64 // of every replicate

	decided float64 // γ = d − α·tr V_ww: how many weights the data decide rather than the prior
	known   cellMoments
	count   int // in all
	done    int
}

func (a *refits) keep(c *checkpoint) {
	c.putNumber("refits.done", a.done)
	var varied, replicates []float32
	for _, h := range a.hyper {
		varied = append(append(varied, h.link...), h.logits...)
	}
	for _, r := range a.replicates {
		replicates = append(append(append(replicates, r.truth...), r.link...), r.logits...)
	}
	put(c, "refits.varied", varied)
	put(c, "refits.replicates", replicates)
	put(c, "refits.scores", slices.Concat(a.scores...))
	c.putTruth("refits.links", a.links != nil)
	if a.links != nil {
		put(c, "refits.links.logits", a.links.logits)
		put(c, "refits.links.covariance", a.links.covariance)
		if len(a.bayesian.terms) > 0 {
			put(c, "refits.links.means", a.links.keep())
		}
	}
}

func (a *refits) restore(c *checkpoint) {
	a.done = c.number("refits.done", a.count)
	width, cells := a.d+1, len(a.Cells)+len(a.bayesian.terms)
	for part := range slices.Chunk(numbers[float32](c, "refits.varied", -1), width+cells) {
		if len(part) != width+cells {
			c.fail("the moves of the prior are cut short")
			return
		}
		a.hyper = append(a.hyper, variant{part[:width], part[width:]})
	}
	replicates := numbers[float32](c, "refits.replicates", max(a.done-hyperparameters-1, 0)*(2*width+cells))
	for part := range slices.Chunk(replicates, 2*width+cells) {
		a.replicates = append(a.replicates, replicate{part[:width], part[width : 2*width], part[2*width:]})
	}
	if a.comparison != nil {
		scores := numbers[float64](c, "refits.scores", len(a.replicates)*len(scored))
		for part := range slices.Chunk(scores, len(scored)) {
			a.scores = append(a.scores, part)
		}
	}
	if c.truth("refits.links") {
		cells = len(a.Cells)
		a.links = &linksAlone{logits: numbers[float64](c, "refits.links.logits", cells),
			covariance: numbers[float64](c, "refits.links.covariance", cells*cells)}
		if len(a.bayesian.terms) > 0 {
			a.links.restore(numbers[float64](c, "refits.links.means", 3*len(a.links.means)))
		}
	}
}

// refit is one of them: a copy of the fit with its own outcomes, prior and leverage.
type refit struct {
	laplace
	recorder  *recorder
	theta     []float64
	last      [3]float64 // moves of the prior
	round     int
	leveraged bool // the leverage is no longer the fit's
}

func (a *refits) newRefit() *refit {
	f := &refit{laplace: *a.laplace, recorder: a.recorder, theta: slices.Clone(a.theta)}
	f.own = false // the likelihood is the fit's
	return f
}

func (f *refit) keep(c *checkpoint) {
	put(c, "refit.theta", f.theta)
	put(c, "refit.prior", []float64{f.prior.Alpha, f.prior.Tau[0], f.prior.Tau[1], f.last[0], f.last[1], f.last[2]})
	c.putNumber("refit.round", f.round)
	if c.putTruth("refit.leveraged", f.leveraged); f.leveraged {
		put(c, "refit.leverage", f.outcomes.Leverage)
	}
}

func (f *refit) restore(c *checkpoint) {
	copy(f.theta, numbers[float64](c, "refit.theta", len(f.theta)))
	prior := numbers[float64](c, "refit.prior", 6)
	f.prior.Alpha, f.prior.Tau = prior[0], [2]float64{prior[1], prior[2]}
	copy(f.last[:], prior[3:])
	f.round = c.number("refit.round", math.MaxInt32)
	if f.leveraged = c.truth("refit.leveraged"); f.leveraged {
		f.restoreLeverage(c, "refit.leverage")
	}
}

// climb moves to the mode, by the covariance of the fit if that is of use.
func (f *refit) climb(ctx context.Context, v covariance, enough float64) error {
	err := f.laplace.mode(ctx, f.theta, v, climb{enough: enough, recorder: f.recorder})
	if errors.Is(err, ErrDiverged) {
		f.recorder.settle(f)
		err = f.laplace.mode(ctx, f.theta, nil, climb{enough: enough, recorder: f.recorder})
	}
	return err
}

// publish returns the link model's parameters and the propensity's: by cell, then by term. Where those of all pairs
// follow from these, they are not yet calibrated.
func (a *refits) publish(ctx context.Context, l *laplace, theta []float64) (link, exposure []float32, err error) {
	if a.whole != nil {
		return l.weights(theta), a.exposureAt(theta, 1, 0, a.lift), nil
	}
	scale, shift, err := l.calibrate(ctx, theta)
	if err != nil {
		return nil, nil, err
	}
	return l.published(theta, scale, shift), a.exposureAt(theta, scale, shift, a.lift), nil
}

// vary refits at one standard error from one of the prior's own parameters. With γ the number of
// parameters that the data decide, Var log α ≈ 2/γ (MacKay 1992), and as much for τ².
func (a *refits) vary(ctx context.Context, which int) error {
	l := a.laplace
	moved := a.newRefit()
	defer moved.close()
	if which == 0 {
		moved.prior.Alpha *= math.Exp(math.Sqrt(2 / a.decided))
	} else {
		g := which - 1
		decided, members := 1., 0 // 1 for the pseudo-observation
		for c, of := range l.prior.group {
			if int(of) == g {
				members++
				decided += math.Max(1-a.known.variance[c]/(l.prior.Tau[g]*l.prior.Tau[g]), 0)
			}
		}
		if members < 2 {
			return nil
		}
		moved.prior.Tau[g] *= math.Exp(math.Sqrt(2/decided) / 2)
	}
	if err := a.recorder.begin(moved); err != nil {
		return err
	}
	if which == 0 && moved.round == 0 { // the spread of w follows α; the propensities' prior hardly moves it
		if err := moved.spread(ctx, a.Posterior.v); err != nil {
			return err
		}
	}
	if err := moved.climb(ctx, a.Posterior.v, near); err != nil {
		return err
	}
	link, exposure, err := a.publish(ctx, &moved.laplace, moved.theta)
	if err != nil {
		return err
	}
	before, logits, err := a.publish(ctx, l, a.theta)
	if err != nil {
		return err
	}
	move := variant{link: link, logits: exposure}
	for i, x := range before {
		move.link[i] -= x
	}
	for c, x := range logits {
		move.logits[c] -= x
	}
	a.hyper = append(a.hyper, move)
	return nil
}

// spread finds the mode and the leverage there, from which the next search goes on.
func (f *refit) spread(ctx context.Context, v covariance) error {
	if err := f.climb(ctx, v, near); err != nil {
		return err
	}
	own, err := f.method.at(ctx, &f.laplace, f.theta)
	if err != nil {
		return err
	}
	defer own.close()
	if err := f.setLeverage(ctx, own); err != nil {
		return err
	}
	f.leveraged = true
	f.round++
	f.recorder.settle(f)
	return nil
}

// withoutLogs finds what the links alone would have said, for the test of logged exposure.
func (a *refits) withoutLogs(ctx context.Context) error {
	if !slices.ContainsFunc(a.laplace.outcomes.Exposure, isLogged) {
		return nil
	}
	blind := a.newRefit()
	defer blind.close()
	o := blind.outcomes
	o.Exposure = slices.Clone(o.Exposure)
	for k, e := range o.Exposure {
		if !e.IsOffered() { // which is no exposure by π
			o.Exposure[k] = risk.Unlogged
		}
	}
	if err := blind.observe(o); err != nil {
		return err
	}
	if err := a.recorder.begin(blind); err != nil {
		return err
	}
	if err := blind.climb(ctx, nil, near); err != nil {
		return err
	}
	v, err := blind.method.at(ctx, &blind.laplace, blind.theta)
	if err != nil {
		return err
	}
	a.links = &linksAlone{logits: blind.theta[blind.d+1 : blind.d+1+blind.cells], covariance: v.ofCells()}
	if len(a.bayesian.terms) > 0 {
		if err := a.expect(ctx, blind, v); err != nil {
			return err
		}
	}
	return v.close()
}

// expect finds what a fit without logs expects of the pairs that are logged.
func (a *refits) expect(ctx context.Context, blind *refit, v covariance) error {
	pairs, logs := a.problem.Train, a.laplace.outcomes.Exposure
	var count [len(loggedGroups)]float64
	means := make([]engine.PairMean, len(count))
	for g := range means {
		means[g].Exposure = make([]float32, pairs.Len())
	}
	each := func(f func(k, group int)) {
		for k, e := range logs {
			if !isLogged(e) {
				continue
			}
			f(k, 0)
			f(k, 1+int(a.laplace.prior.group[a.cell[k]]))
		}
	}
	each(func(k, g int) { count[g] += loggedTimes(pairs, k) })
	each(func(k, g int) { means[g].Exposure[k] = float32(loggedTimes(pairs, k) / count[g]) })
	likelihood, err := blind.likelihood(ctx)
	if err != nil {
		return err
	}
	values, gradients, err := likelihood.(engine.AssumedLikelihood).Means(ctx, blind.theta, means)
	if err != nil {
		return err
	}
	z, err := blind.design.Logits(ctx, blind.theta[:blind.d+1+blind.cells])
	if err != nil {
		return err
	}
	for g := range means {
		a.links.means[g] = loggedMean{expected: values[g], unsure: v.variance(gradients[g])}
	}
	each(func(k, g int) {
		pi, rest := kern.Sigmoid64(a.logit(blind.theta, k, float64(z[k])))
		a.links.means[g].variance += loggedTimes(pairs, k) * pi * rest / count[g]
	})
	return nil
}

// logit returns s of a training pair at θ, given its z.
func (b *bayesian) logit(theta []float64, k int, z float64) float64 {
	at := b.laplace.d + 1
	s := theta[at+int(b.cell[k])]
	for i, t := range b.terms {
		if slope := theta[at+b.laplace.cells+i]; t.term == model.Text {
			s += slope * z
		} else {
			s += slope * float64(t.values[k])
		}
	}
	return s
}

// replicate simulates a history and refits it. Its truth is a draw of (w, b) given ŝ: the fitted w
// itself is shrunk, and a world made of it would have fewer pairs near ŷ = 1 than the real one.
// The pairs stay, which of them are logged, what is known of their popularity, and the variances of the logits.
func (a *refits) replicate(ctx context.Context, k int) error {
	l := a.laplace
	truth := slices.Clone(a.theta)
	a.Posterior.v.draw(truth, rand.New(rand.NewPCG(a.seed, uint64(k))))
	again := a.newRefit()
	defer again.close()
	o, err := a.simulate(ctx, truth, k)
	if err != nil {
		return err
	}
	if err := again.observe(o); err != nil {
		return err
	}
	if err := a.recorder.begin(again); err != nil {
		return err
	}
	if err := a.relearn(ctx, again); err != nil {
		return fmt.Errorf("replicate %d: %w", k+1, err)
	}
	link, exposure, err := a.publish(ctx, &again.laplace, again.theta)
	if err != nil {
		return err
	}
	if a.comparison != nil {
		scores, err := a.comparison.replicateScores(ctx, &again.laplace, again.theta)
		if err != nil {
			return err
		}
		a.scores = append(a.scores, scores)
	}
	a.replicates = append(a.replicates, replicate{truth: l.weights(truth), link: link, logits: exposure})
	return nil
}

// simulate draws outcomes from the truth of a replicate.
func (a *refits) simulate(ctx context.Context, truth []float64, k int) (engine.Outcomes, error) {
	l, pairs := a.laplace, a.problem.Train
	z, err := l.design.Logits(ctx, truth[:l.d+1+l.cells])
	if err != nil {
		return engine.Outcomes{}, err
	}
	shown := make([]float64, l.cells)
	for c := range shown {
		pi, _ := kern.Sigmoid64(a.theta[l.d+1+c])
		shown[c] = math.Max(pi, 1e-300)
	}
	o := engine.Outcomes{Linked: make([]bool, len(z)), Leverage: l.outcomes.Leverage}
	if l.outcomes.Exposure != nil {
		o.Exposure = make([]risk.Exposure, len(z))
	}
	for i := range z {
		past := chance{seed: a.seed, replicate: k, source: a.problem.Nodes.Number(pairs.Source[i]),
			target: a.problem.Nodes.Number(pairs.Target[i])}
		y, _ := kern.Sigmoid64(float64(z[i]))
		rate, as := 1., risk.Unlogged
		if a.caseControl {
			rate = pairs.Rate[i]
		}
		if o.Exposure != nil {
			as = l.outcomes.Exposure[i]
		}
		pi := shown[a.cell[i]]
		if len(a.bayesian.terms) > 0 {
			pi, _ = kern.Sigmoid64(a.logit(a.theta, i, float64(z[i])))
		}
		seen := past.outcome(y, pi, rate, as)
		o.Linked[i] = seen.Linked
		if o.Exposure != nil {
			o.Exposure[i] = seen.Exposure
		}
	}
	return o, nil
}

// relearn refits, prior and all, by the covariance of the fit: γ and the covariance of s stay what
// they were, so that only modes have to be found. α keeps within three standard errors of the
// fit's, without which it runs away where hardly any weight is decided.
func (a *refits) relearn(ctx context.Context, f *refit) error {
	const rounds = 4
	alpha := a.laplace.prior.Alpha
	most := 3 * math.Sqrt(2/a.decided)
	for {
		enough := 10 * near
		if f.round == rounds {
			enough = near
		}
		if err := f.climb(ctx, a.Posterior.v, enough); err != nil || f.round == rounds {
			return err
		}
		f.prior.updateAlpha(f.theta, (float64(f.d)-a.decided)/f.prior.Alpha, &f.last[0])
		f.prior.Alpha = alpha * math.Exp(math.Max(-most, math.Min(most, math.Log(f.prior.Alpha/alpha))))
		f.prior.updateTau(f.theta, a.known, f.last[1:])
		f.round++
		a.recorder.settle(f)
	}
}

// chance decides what is seen of a pair in a replicate: a function of the seed, the replicate and the
// pair, so that training pairs and pairs drawn later agree.
type chance struct {
	seed           uint64
	replicate      int
	source, target int32
}

// outcome returns what is seen of a pair of link probability y and propensity π that was sampled,
// unlinked pairs at the relative rate r: P(o=1 | sampled) = πy/(πy + r(1−πy)).
func (h chance) outcome(y, pi, rate float64, as risk.Exposure) risk.Observation {
	first := sample.Uniform(h.seed, uint64(h.replicate), uint64(uint32(h.source))<<32|uint64(uint32(h.target)))
	switch {
	case as == risk.Unlogged:
		p := pi * y
		return risk.Observation{Linked: first*(p+rate*(1-p)) < p}
	case as.IsOffered():
		return risk.Observation{Linked: first*(1-pi*y) < as.Seen()*y*(1-pi), Exposure: as}
	}
	// linked 1, shown and unlinked r, not shown r: the chances of being in the sample
	linked, refused, unseen := pi*y, rate*pi*(1-y), rate*(1-pi)
	switch at := first * (linked + refused + unseen); {
	case at < unseen:
		return risk.Observation{Exposure: risk.Unexposed}
	case at < unseen+refused:
		return risk.Observation{Exposure: risk.Exposed}
	}
	return risk.Observation{Linked: true, Exposure: risk.Exposed}
}
