package fit

import (
	"fmt"
	"slices"

	"unseen/engine"
	"unseen/hint"
	"unseen/internal/kern"
	"unseen/risk"
	"unseen/sample"
)

// validateExact refuses what cannot be learned from all pairs.
func (s Settings) validateExact(m method) error {
	switch {
	case !s.Exact:
		return nil
	case m.bayes || m.untrained || m.shown || m.risk == engine.RiskDR:
		return hint.Wrap(fmt.Errorf("%w: %s does not learn from all pairs", ErrSetting, s.Method),
			"set %v to mle, or learn from a sample", hint.Setting("method"))
	case ofFactors(s.Link) || s.Optimiser != "lbfgs":
		return fmt.Errorf("%w: all pairs are learned from by lbfgs, and neither with %s nor of factors; learn from a "+
			"sample", ErrSetting, s.Optimiser)
	}
	return nil
}

// checkExact refuses a problem of which not all pairs are known.
func checkExact(p sample.Problem, s Settings) error {
	switch {
	case !s.Exact:
		return nil
	case p.Graph == nil:
		return fmt.Errorf("%w: the links of all pairs are not known, so that nothing learns from all of them; learn "+
			"from a sample", ErrData)
	case slices.ContainsFunc(p.Exposure, func(e risk.Exposure) bool { return e != risk.Unlogged }):
		return fmt.Errorf("%w: the exposure of some pairs is logged, and all pairs are learned from without a log; "+
			"leave the log out, or learn from a sample", ErrData)
	}
	return nil
}

// overEvery moves where training on the sample ended to the minimum over all pairs. What the last steps learned of the
// curvature holds there too but for its size.
func (t *training) overEvery(from run) (run, engine.Parts, error) {
	defer t.recorder.within("exact.")()
	s, p, o := t.using, t.problem, *t.objective
	pairs, _, err := p.Universe.Count(p.Graph)
	if err != nil {
		return from, engine.Parts{}, err
	}
	o.Graph, o.Universe, o.Exposure = p.Graph, p.Universe, nil
	o.Precision = precisionFor(&o, MeanSquare(o.Link, o.Pairs), s.Ridge, s.LambdaL, pairs)
	size, err := t.lessCurved(&o, from.params, pairs)
	if err != nil {
		return from, engine.Parts{}, err
	}
	l := &lbfgs{engine: s.engine(), objective: &o, params: from.params, settings: s.LBFGS,
		noise: s.LBFGS.Tolerance / 3, tries: 6, report: t.report(&o, s.LBFGS.Iterations), recorder: t.recorder}
	for _, c := range from.memory {
		turned := slices.Clone(c.turned)
		for k := range turned {
			turned[k] *= size
		}
		l.memory = append(l.memory, curvature{moved: c.moved, turned: turned, inverse: c.inverse / size})
	}
	t.phase = "all pairs"
	if err := l.train(t.ctx); err != nil {
		return from, l.parts, err
	}
	from.iterations += l.iteration
	return from, l.parts, nil
}

// lessCurved returns how much of the curvature of the mean over a sample that over all pairs has. Of a pair that is
// linked with probability p, information is about p; of one that is linked in the sample with probability P, it is
// P(1−P), which is far less for pairs that are likely to be linked. The sum of p over all pairs is the number
// of links.
func (t *training) lessCurved(o *engine.Objective, params []float32, all int64) (float64, error) {
	link, propensity := o.Split(params)
	pairs := describedOf(o.Pairs)
	z, s, err := (&Judge{Predictor: engine.Predictor{Link: o.Link, LinkParams: link, Propensity: o.Propensity,
		PropensityParams: propensity}, Engine: t.using.engine()}).Logits(t.ctx, pairs)
	if err != nil {
		return 0, err
	}
	var sampled, links float64
	for k := range z {
		y, _ := kern.Sigmoid64(float64(z[k]))
		pi, _ := kern.Sigmoid64(float64(s[k]))
		rate := 1.
		if o.Likelihood == engine.CaseControl {
			rate = pairs.Rate[k]
		}
		chance := pi * y / (pi*y + rate*(1-pi*y))
		sampled += chance * (1 - chance) / float64(pairs.Len())
		if pairs.Linked[k] {
			links += float64(o.Pairs.Len()) / float64(pairs.Len())
		}
	}
	return links / float64(all) / max(sampled, 1e-9), nil
}
