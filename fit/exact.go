package fit

import (
	"fmt"
	"slices"

	"unseen/engine"
	"unseen/hint"
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
// curvature holds there too but for its size: the mean over all pairs has so much less of it as the sample has more
// links in it.
func (t *training) overEvery(from run) (run, engine.Parts, error) {
	defer t.recorder.within("exact.")()
	s, p, o := t.using, t.problem, *t.objective
	pairs, _, err := p.Universe.Count(p.Graph)
	if err != nil {
		return from, engine.Parts{}, err
	}
	o.Graph, o.Universe, o.Exposure = p.Graph, p.Universe, nil
	o.Precision = precisionFor(&o, MeanSquare(o.Link, o.Pairs), s.Ridge, s.LambdaL, pairs)
	unlinked := 0
	for _, linked := range o.Pairs.Linked {
		if !linked {
			unlinked++
		}
	}
	drawn := float64(o.Pairs.Len())
	size := drawn / float64(pairs) * drawn / float64(max(unlinked, 1))
	l := &lbfgs{engine: s.engine(), objective: &o, params: from.params, settings: s.LBFGS,
		noise: s.LBFGS.Tolerance / 10, report: t.report(&o, s.LBFGS.Iterations), recorder: t.recorder}
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
