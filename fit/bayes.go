package fit

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// learnRounds is how often at most the posterior and its prior are found in turn.
const learnRounds = 12

// mostBytes is what the products of the pairs may take, and mostPairs how many pairs are learned from as they are. Of
// more, whole finds the posterior by way of a part.
const (
	mostBytes = 1 << 30
	mostPairs = 1 << 19
)

// How near to the mode is enough, as a decrement: θ is then within √near standard errors of it.
const (
	near   = .01
	nearby = 1.0
)

// bayesian is a fit by bayes: of a diagonal link model and a field matrix, or of the link model alone
// where the propensities are known.
type bayesian struct {
	laplace  *laplace
	problem  sample.Problem // the pairs that are learned from
	result   *Result
	recorder *recorder
	meter    meter

	cell   []int32   // of each pair, numbered as they occur
	cells  []int32   // the parameter of the field matrix that each cell is
	logits []float64 // of the cells, where they are known

	theta []float64  // where the first start ended; nil before
	v     covariance // there

	whole  *whole         // where the pairs that are learned from are a part; nil where they are all
	terms  []exposureTerm // that exposure depends on besides the fields
	from   []float64      // with terms, where the first start begins, and all but the propensities of the others
	pinned bool           // γ is held at mostText
	lift   [2]float64     // what was added to the logits of pairs of one field, and of two, when they were published
}

// fitBayes learns the posterior.
func fitBayes(ctx context.Context, p sample.Problem, r *Result, recorder *recorder) error {
	b := &bayesian{problem: p, result: r, recorder: recorder, meter: newMeter(r.Settings.Progress, 0)}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	defer b.laplace.design.Close()
	defer b.laplace.close()
	if r.earlier != nil {
		return b.refreshFrom(ctx, r.earlier)
	}
	if err := recorder.begin(b); err != nil {
		return err
	}
	if err := b.startAll(ctx); err != nil || b.laplace.fixed {
		return err // the posterior is of what is learned of both halves
	}
	if err := b.examine(ctx); err != nil {
		return err
	}
	learned := b.problem
	if b.whole != nil {
		learned = b.whole.problem
	}
	return r.learnRates(ctx, learned)
}

// startAll trains from every start that is left.
func (b *bayesian) startAll(ctx context.Context) error {
	r := b.result
	starts := r.Settings.Starts
	if len(starts) == 0 {
		starts = []float64{model.StartPropensity}
	}
	if b.laplace.fixed {
		starts = starts[:1] // they are starts of the propensities
	}
	for i := len(r.Starts); i < len(starts); i++ {
		if err := b.start(ctx, i, starts[i]); err != nil {
			return err
		}
	}
	prior := &b.laplace.prior
	if b.whole != nil {
		if err := b.whole.find(ctx); err != nil {
			return err
		}
		prior = &b.whole.prior
	}
	r.Objective = engine.Parts{Likelihood: r.Starts[0].Objective}
	r.Ridge = float64(b.laplace.d) / prior.Alpha
	return nil
}

// examine measures the errors of the fit and, unless the doctor is to be quick, compares what is
// assumed. Where V is known by draws alone there is no information matrix to compare by. Then the model gets the terms
// of exposure that were asked for or, where that is left open, those that the comparison supports.
func (b *bayesian) examine(ctx context.Context) (err error) {
	r := b.result
	_, terms, err := parseExposure(r.Settings.Exposure)
	if err != nil {
		return err
	}
	var c *comparison
	if r.Settings.Doctor != QuickDoctor && b.v.draws() == 0 {
		if c, err = newComparison(ctx, b); err != nil {
			return err
		}
		defer c.close()
	}
	if c != nil || len(terms) == 0 { // else it is not the fit to be published
		var scores [][]float64
		if r.Posterior, scores, err = newPosterior(ctx, b, c); err == nil && c != nil {
			err = c.compare(ctx, scores)
		}
		if err != nil {
			return err
		}
	}
	var like *alternativeFit
	if r.Settings.Exposure == "" && c != nil && r.Settings.Replicates > 1 { // without which the tests are not exact
		like = r.alternatives[r.reference()]
		terms = like.exposure()
	}
	if len(terms) > 0 {
		if err := b.extend(ctx, terms, like); err != nil {
			return err
		}
	}
	if c == nil {
		return nil
	}
	if err := c.judge(ctx, r); err != nil {
		return err
	}
	return c.rank(ctx, r)
}

// prepare checks that bayes can learn the models, and makes their posterior ready to be found.
func (b *bayesian) prepare(ctx context.Context) error {
	r, s := b.result, b.result.Settings
	if _, ok := r.Link.(*model.Diagonal); !ok || r.Link.Kind() != "diagonal" {
		return fmt.Errorf("%w: bayes needs the link model diagonal, not %s; use mle for others", ErrSetting,
			r.Link.Kind())
	}
	field, learned := r.Propensity.(*model.FieldMatrix)
	_, known := r.Propensity.(*model.Known)
	switch {
	case !learned && !known:
		return fmt.Errorf("%w: bayes needs the propensity model field-matrix or known, not %s; use mle for others",
			ErrSetting, r.Propensity.Kind())
	case known && len(s.Anchors) > 0:
		return fmt.Errorf("%w: an anchor, where all propensities are known; leave it out", ErrSetting)
	}
	b.limit(learned)
	var group []uint8
	if learned {
		group = b.occurring(field)
	} else {
		var err error
		if group, err = b.distinct(); err != nil {
			return err
		}
	}
	p := b.problem
	design, err := b.design(ctx, engine.DesignPairs{Pairs: p.Train, Cell: b.cell, Cells: len(group), Known: known})
	if err != nil {
		return err
	}
	d := p.Nodes.Vectors.Dim()
	b.laplace = &laplace{design: design, outcomes: engine.Outcomes{Linked: p.Train.Linked, Exposure: p.Exposure},
		d: d, cells: len(group), prior: newPrior(d, group), method: byFactor{}, fixed: known}
	if d > cmp.Or(s.mostExact, mostExact) {
		draws := cmp.Or(s.draws, usualDraws)
		b.laplace.method = byDraws{count: draws, seed: s.Seed, threads: kern.Threads(s.Threads)}
		r.Warnings = append(r.Warnings, risk.Warning{Kind: "approximate", Message: approximate(d, draws)})
	}
	for _, a := range s.Anchors {
		if err := b.possible(a); err != nil {
			return err
		}
		b.laplace.prior.anchor(a)
	}
	return nil
}

// possible returns an error if no pair has what an anchor speaks of, or if more are linked than it says are shown.
func (b *bayesian) possible(a Anchor) error {
	var all, linked float64
	for k, w := range b.problem.Train.Weight {
		if b.laplace.prior.group[b.cell[k]] != a.group() {
			continue
		}
		if all += w; b.problem.Train.Linked[k] {
			linked += w
		}
	}
	of := map[string]string{"same": "one field", "cross": "two fields"}[a.Group]
	switch share := linked / all; {
	case all == 0:
		return fmt.Errorf("%w: anchor %s=%v±%v, but there are no pairs of %s; leave it out", ErrSetting, a.Group,
			a.Propensity, a.Error, of)
	case a.Propensity+2*a.Error < share:
		return fmt.Errorf("%w: anchor %s=%v±%v, but %s of the pairs of %s are linked, and so at least as many were "+
			"shown; give more", ErrSetting, a.Group, a.Propensity, a.Error, percent(share), of)
	}
	return nil
}

// design makes pairs ready, with their rates where they are needed.
func (b *bayesian) design(ctx context.Context, pairs engine.DesignPairs) (engine.Design, error) {
	s := b.result.Settings
	likelihood, err := s.likelihood()
	if err != nil {
		return nil, err
	}
	if likelihood == engine.CaseControl {
		pairs.Rate = pairs.Pairs.Rate
	}
	pairs.Vectors = b.problem.Nodes.Vectors
	return s.engine().Design(ctx, pairs)
}

// inMemory returns how many pairs are learned from as they are, and with how many learning begins where there are more.
func (s Settings) inMemory(dim int) (most, part int) {
	room := cmp.Or(s.mostBytes, mostBytes) / 4 / (dim + 1)
	return min(room, mostPairs), min(room/partOfBytes, partPairs)
}

// learnedFromAll says what comes from a part.
const learnedFromAll = "bayes learned from all %d pairs; what it knows of its own bias, of other starts and of other " +
	"assumptions comes from %d of them"

// limit takes a part of the pairs where there are too many, at random.
func (b *bayesian) limit(learned bool) {
	s, dim := b.result.Settings, b.problem.Nodes.Vectors.Dim()
	bytes := cmp.Or(s.mostBytes, mostBytes)
	all, room := b.problem.Train.Len(), bytes/4/(dim+1)
	most, begin := s.inMemory(dim)
	warn := func(format string, a ...any) {
		b.result.Warnings = append(b.result.Warnings, risk.Warning{Kind: "sample", Message: fmt.Sprintf(format, a...)})
	}
	switch {
	case b.result.all.whole(): // what is in hand was drawn to be learned from
		b.whole = &whole{bayesian: b, problem: b.problem, share: b.result.all.share}
		warn(learnedFromAll, b.whole.count(), all)
	case learned && dim <= cmp.Or(s.mostExact, mostExact) && all > most:
		b.whole = &whole{bayesian: b, problem: b.problem}
		chosen, part := thinToLearn(b.problem, begin, s)
		b.whole.share = chosen.share
		b.problem.Train, b.problem.Exposure = part.Pairs, part.Exposure
		warn(learnedFromAll, all, b.problem.Train.Len())
	case all > room:
		part := b.problem.Training().At(sample.Thin(all, room, s.Seed))
		b.problem.Train, b.problem.Exposure = part.Pairs, part.Exposure
		warn("bayes learned from a random %d of the %d pairs: it keeps %d numbers for each, and more pairs would take "+
			"over %d MB", b.problem.Train.Len(), all, dim, bytes>>20)
	}
}

// occurring numbers the field pairs that the training pairs have, and groups them into those of
// one field and those of two.
func (b *bayesian) occurring(field *model.FieldMatrix) (group []uint8) {
	p, all := b.problem, b.problem.Train
	if b.whole != nil {
		all = b.whole.problem.Train
	}
	fields := int32(p.Nodes.FieldCount)
	groupOf := func(at int32) uint8 { // of a pair of fields
		if at/fields == at%fields && uint16(at%fields) != graph.UnknownField {
			return 0
		}
		return 1
	}
	number := make(map[int32]int32)
	add := func(at int32) {
		if _, known := number[at]; !known {
			number[at] = int32(len(b.cells))
			b.cells, group = append(b.cells, at), append(group, groupOf(at))
		}
	}
	if from := b.result.earlier; from != nil { // its own come first, for its posterior to fit
		for _, at := range from.posterior.Cells {
			add(at)
		}
	}
	if elsewhere := b.result.all; elsewhere.whole() {
		for _, at := range elsewhere.survey.fields() {
			add(at)
		}
	}
	for k, source := range all.Source {
		add(int32(field.Cell(source, all.Target[k])))
	}
	b.cell = make([]int32, p.Train.Len())
	for k := range b.cell {
		b.cell[k] = number[int32(field.Cell(p.Train.Source[k], p.Train.Target[k]))]
	}
	return group
}

// distinct numbers the known propensities that the training pairs have, and keeps their logits.
func (b *bayesian) distinct() (group []uint8, err error) {
	const most = 4096 // the information matrix has a row for each
	pairs := b.problem.Train
	number := make(map[float32]int32)
	b.cell = make([]int32, pairs.Len())
	s := make([]float32, pairs.Len())
	b.result.Propensity.Logits(s, nil, model.Batch{Sources: pairs.Source, Targets: pairs.Target})
	for k, logit := range s {
		c, ok := number[logit]
		if !ok {
			if len(b.logits) == most {
				return nil, fmt.Errorf("%w: bayes takes at most %d different known propensities; round "+
					"them, or use mle", ErrSetting, most)
			}
			c = int32(len(b.logits))
			number[logit] = c
			b.logits = append(b.logits, float64(logit))
		}
		b.cell[k] = c
	}
	return make([]uint8, len(b.logits)), nil
}

// start finds the posterior from one propensity: the first learns the prior as well, the others check under that prior,
// from far away, that they end in the same place.
func (b *bayesian) start(ctx context.Context, i int, propensity float64) error {
	l, r := b.laplace, b.result
	pairs := b.problem.Train.Len()
	theta := make([]float64, l.size())
	copy(theta, b.from)
	if i > 0 || b.from == nil {
		for c := range l.cells {
			theta[l.d+1+c] = math.Log(propensity / (1 - propensity))
		}
	}
	copy(theta[l.d+1:], b.logits)
	if i == 0 {
		if err := b.learn(ctx, theta); err != nil {
			return err
		}
	} else if err := l.mode(ctx, theta, b.v, climb{enough: near, recorder: b.recorder, report: func(value float64) {
		b.meter.add(pairs, false, func() round {
			return round{phase: fmt.Sprintf("restarting from π̂ = %g", propensity), number: 1, of: 1,
				loss: value / float64(pairs)}
		})
	}}); err != nil {
		return err
	}
	link, exposure, lift, err := b.publish(ctx, theta)
	if err != nil {
		return err
	}
	summary, err := describe(ctx, r.Settings.engine(), b.problem, engine.Predictor{Link: r.Link, LinkParams: link,
		Propensity: r.Propensity, PropensityParams: exposure})
	if err != nil {
		return err
	}
	value, err := l.value(ctx, theta, make([]float64, l.size()))
	if err != nil {
		return err
	}
	summary.Propensity, summary.Objective = propensity, value/float64(pairs)
	r.Starts = append(r.Starts, summary)
	if i == 0 {
		r.LinkParams, r.PropensityParams, b.lift = link, exposure, lift
	}
	b.recorder.settle(b)
	return nil
}

// exposure returns the propensity model's parameters.
func (b *bayesian) exposure(theta []float64) []float32 {
	out := make([]float32, b.result.Propensity.Size())
	b.result.Propensity.StartAt(out, model.StartPropensity, nil)
	for c, at := range b.cells {
		out[at] = float32(theta[b.laplace.d+1+c])
	}
	return out
}

// learn finds the posterior and its prior. A γ beyond mostText is held there, and the rest found again.
func (b *bayesian) learn(ctx context.Context, theta []float64) error {
	phase, pairs, shown := "finding the posterior", b.problem.Train.Len(), 0
	if len(b.terms) > 0 {
		phase = "learning more of exposure"
	}
	for again := true; again; again = b.pin(theta) {
		b.recorder.settle(b)
		v, rounds, err := b.laplace.learn(ctx, theta, func(number int, value float64) {
			b.meter.add(pairs, number != shown, func() round {
				return round{phase: phase, number: number, of: learnRounds, loss: value / float64(pairs)}
			})
			shown = number
		}, b.recorder)
		if err != nil {
			return err
		}
		b.result.Iterations, b.theta, b.v = rounds, theta, v
	}
	return nil
}

func (b *bayesian) keep(c *checkpoint) {
	b.result.keep(c)
	l := b.laplace
	put(c, "bayes.prior", []float64{l.prior.Alpha, l.prior.Tau[0], l.prior.Tau[1]})
	put(c, "bayes.leverage", l.outcomes.Leverage)
	put(c, "bayes.theta", b.theta)
	c.putCovariance("bayes.factor", b.v)
	if b.whole != nil {
		if c.putTruth("bayes.whole", b.whole.published); b.whole.published {
			b.whole.keep(c)
		}
	}
	if len(b.terms) > 0 {
		put(c, "bayes.lift", b.lift[:])
		c.putTruth("bayes.pinned", b.pinned)
	}
}

func (b *bayesian) restore(c *checkpoint) {
	b.result.restore(c)
	l := b.laplace
	prior := numbers[float64](c, "bayes.prior", 3)
	l.prior.Alpha, l.prior.Tau = prior[0], [2]float64{prior[1], prior[2]}
	if leverage := numbers[float32](c, "bayes.leverage", -1); len(leverage) > 0 {
		l.restoreLeverage(c, "bayes.leverage")
	}
	if len(b.result.Starts) > 0 {
		b.theta = numbers[float64](c, "bayes.theta", l.size())
	}
	if b.v = c.covariance("bayes.factor", l); b.v == nil && b.theta != nil {
		c.fail("the information at the mode is missing")
	}
	if b.whole != nil && c.truth("bayes.whole") {
		b.whole.restore(c)
		b.whole.published = true
	}
	if len(b.terms) > 0 {
		copy(b.lift[:], numbers[float64](c, "bayes.lift", len(b.lift)))
		if c.truth("bayes.pinned") {
			b.hold()
		}
	}
}

// restoreLeverage takes the leverage that a checkpoint has.
func (l *laplace) restoreLeverage(c *checkpoint, name string) {
	o := l.outcomes
	o.Leverage = numbers[float32](c, name, len(o.Linked))
	if err := l.observe(o); err != nil {
		c.fail("%v", err)
	}
}

// learn finds the parameters and the prior's own parameters together. What is believed of w is a
// normal distribution, not a point: each pair's likelihood is averaged over its logit's variance
// (the leverage xᵀVx). At a point estimate, which is shrunk, hardly any ŷ would come near 1, and
// the propensities would be taken for larger than they are.
//
// The posterior and the prior's own parameters are found in turn, until neither moves. No validation pairs are needed.
func (l *laplace) learn(ctx context.Context, theta []float64, report func(round int, value float64),
	r *recorder) (covariance, int, error) {
	s := &learning{laplace: l, theta: theta}
	if err := r.begin(s); err != nil {
		return nil, 0, err
	}
	for !s.ended {
		round := s.round + 1
		enough := near
		if round == 1 {
			enough = nearby // the next round begins with other likelihoods
		}
		reported := func(value float64) { report(round, value) }
		if err := l.mode(ctx, theta, s.v, climb{enough, reported, r}); err != nil {
			return nil, round, err
		}
		v, err := l.method.at(ctx, l, theta)
		if err != nil {
			return nil, round, err
		}
		if err := l.setLeverage(ctx, v); err != nil {
			return nil, round, err
		}
		if round > 1 { // in the first, w was taken as certain; what that says of the prior is wrong
			moved := l.prior.updateAlpha(theta, v.trace(), &s.last[0])
			if !l.fixed {
				moved = math.Max(moved, l.prior.updateTau(theta, v.moments(l.prior.group), s.last[1:]))
			}
			if s.calm++; moved > .05 {
				s.calm = 0
			}
		}
		s.round, s.v = round, v
		s.ended = s.calm == 2 || round == learnRounds
		r.settle(s)
		if err := r.tick(); err != nil {
			return nil, round, err
		}
	}
	return s.v, s.round, nil
}

// learning is what the rest of learn depends on, besides the prior and the leverage.
type learning struct {
	laplace *laplace
	theta   []float64
	v       covariance
	last    [3]float64 // the last moves of log α and log τ²
	round   int        // the last that is done
	calm    int        // rounds in a row in which nothing moved by more than 5%
	ended   bool
}

func (s *learning) keep(c *checkpoint) {
	put(c, "learning.theta", s.theta)
	c.putCovariance("learning.factor", s.v)
	put(c, "learning.last", s.last[:])
	c.putNumber("learning.round", s.round)
	c.putNumber("learning.calm", s.calm)
	c.putTruth("learning.ended", s.ended)
}

func (s *learning) restore(c *checkpoint) {
	copy(s.theta, numbers[float64](c, "learning.theta", len(s.theta)))
	s.v = c.covariance("learning.factor", s.laplace)
	copy(s.last[:], numbers[float64](c, "learning.last", len(s.last)))
	s.round, s.ended = c.number("learning.round", learnRounds), c.truth("learning.ended")
	if s.v == nil && s.round > 0 {
		c.fail("the information of round %d is missing", s.round)
	}
	s.calm = c.number("learning.calm", 2)
}
