package fit

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"unseen/engine"
	"unseen/graph"
	"unseen/hint"
	"unseen/internal/kern"
	"unseen/model"
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
	case ofFactors(s.Link):
		return fmt.Errorf("%w: factors of people and items are not learned from all pairs; learn from a sample",
			ErrSetting)
	case s.Optimiser != "lbfgs":
		return hint.Wrap(fmt.Errorf("%w: all pairs are learned from by lbfgs, not by %s", ErrSetting, s.Optimiser),
			"leave %v out", hint.Setting("optimiser"))
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
	pairs, _, err := p.Universe.Count(p.Graph)
	if err != nil {
		return err
	}
	return engine.Learnable(s.engine(), pairs)
}

// ExactSearch is how learning from all pairs went: how often all of them were summed, and the gradient where it began
// and where it ended.
type ExactSearch struct {
	Evaluations int     `json:"evaluations"`
	Began       Incline `json:"began"`
	Ended       Incline `json:"ended"`
}

// Incline is how steep an objective is somewhere.
type Incline struct {
	Gradient float64 `json:"gradient"` // its length, with parameters in units of their expected sizes
	// Errors is how far the optimum is by the gradient and the curvature, in standard errors of each parameter, root
	// mean square; 0 where the curvature is not known.
	Errors float64 `json:"errors,omitempty"`
}

// How near to the minimum a search over a sample comes where learning from all pairs begins there, in shares of the
// objective: by its own steps, and then by curvature.
const (
	hither  = 1e-2
	closely = 1e-5
)

// coarser is by how much more the last steps may gain where the curvature is known by them alone.
const coarser = 1000

// exactNoise is the share of an objective over all pairs that it may be off by on a card.
const exactNoise = 3e-6

// overEvery moves where training on the sample ended to the minimum over all pairs: with the curvature that Fisher's
// information has there, or else with that of the last steps, which holds but for its size.
func (t *training) overEvery(from run) (run, engine.Parts, error) {
	s, p, o := t.using, t.problem, *t.objective
	pairs, links, err := p.Universe.Count(p.Graph)
	if err != nil {
		return from, engine.Parts{}, err
	}
	o.Graph, o.Universe, o.Exposure = p.Graph, p.Universe, nil
	o.Precision = precisionFor(&o, MeanSquare(o.Link, o.Pairs), s.Ridge, s.LambdaL, pairs)
	t.phase = "all pairs"
	search := lbfgs{objective: &o, params: from.params, settings: s.LBFGS, noise: exactNoise, tries: 6}
	var l *lbfgs
	var began [2]float64
	if hasCurvature(&o) && links > 0 {
		l, began, err = t.curving(search, "exact", func() (*exactCovariance, error) {
			return t.informed(&o, from.params, float64(pairs), float64(links))
		})
	} else {
		l, began, err = t.remembering(search, from, pairs)
	}
	if err != nil {
		return from, engine.Parts{}, err
	}
	from.iterations += l.iteration
	errors := func(decrement float64) float64 {
		return math.Sqrt(decrement / s.LambdaL * float64(pairs) / float64(o.Size()))
	}
	from.searched = &ExactSearch{Evaluations: l.evaluations, Began: Incline{began[0], errors(began[1])},
		Ended: Incline{l.steep[0], errors(l.steep[1])}}
	return from, l.parts, nil
}

// remembering searches with the curvature of the last steps over the sample. Of a link model that is not linear that
// may lead astray: then it begins again, and learns the curvature as it goes. It also returns how steep it was then.
func (t *training) remembering(search lbfgs, from run, pairs int64) (l *lbfgs, began [2]float64, err error) {
	start := slices.Clone(search.params)
	afresh := search
	if search.memory, err = t.scaled(search.objective, from, pairs); err != nil {
		return nil, began, err
	}
	search.settings.Tolerance *= coarser
	search.noise = search.settings.Tolerance / 3
	undo := t.recorder.within("exact.")
	l = t.equipped(search)
	err = l.train(t.ctx)
	undo()
	if began = l.began; err != nil || l.steep[0] <= began[0]/2 {
		return l, began, err
	}
	defer t.recorder.within("afresh.")()
	evaluations, steps := l.evaluations, l.iteration
	copy(afresh.params, start)
	afresh.tries = 0
	l = t.equipped(afresh)
	err = l.train(t.ctx)
	l.evaluations, l.iteration = l.evaluations+evaluations, l.iteration+steps
	if err == nil && !(l.steep[0] <= began[0]) {
		err = fmt.Errorf("%w: over all pairs, further from the minimum than where it began; learn from a sample",
			ErrDiverged)
	}
	return l, began, err
}

// equipped completes a search.
func (t *training) equipped(l lbfgs) *lbfgs {
	l.engine, l.recorder = t.using.engine(), t.recorder
	l.report = t.report(l.objective, t.using.LBFGS.Iterations)
	return &l
}

// How often the curvature of a search is found again, and after how many steps.
const (
	mostCurved = 12
	curvedFor  = 6
)

// curving searches with a curvature that is found anew after a few steps. It returns the last search, with the steps
// and evaluations of all of them, and how steep the first was where it began.
func (t *training) curving(search lbfgs, scope string, curvature func() (*exactCovariance, error)) (last *lbfgs,
	began [2]float64, err error) {
	steps, evaluations := 0, 0
	for round := range mostCurved {
		undo := t.recorder.within(fmt.Sprintf("%s%d.", scope, round))
		v, err := curvature()
		if err != nil {
			undo()
			return nil, began, err
		}
		l := t.equipped(search)
		l.initial, l.settings.Iterations = v.solve, min(curvedFor, search.settings.Iterations-steps)
		if last != nil {
			l.grad, l.parts, l.begun = last.grad, last.parts, true
		}
		err = l.train(t.ctx)
		undo()
		if err != nil {
			return nil, began, err
		}
		if last == nil {
			began = l.began
		}
		last, steps, evaluations = l, steps+l.iteration, evaluations+l.evaluations
		if l.stuck && l.iteration > 1 {
			continue
		}
		if l.ended || l.still == 3 || steps >= search.settings.Iterations {
			break
		}
	}
	last.iteration, last.evaluations = steps, evaluations
	return last, began, nil
}

// mostInformed is from how many pairs curvature is known.
const mostInformed = 1 << 21

// approaches reports whether a search over a sample ends by curvature.
func (t *training) approaches(o *engine.Objective) bool {
	return t.using.Exact && hasCurvature(o) && o.Likelihood == engine.CaseControl
}

// approach moves a run to the minimum over a sample.
func (t *training) approach(o *engine.Objective, from run) (run, error) {
	few := sample.Evidence{Pairs: o.Pairs}.At(sample.Thin(o.Pairs.Len(), mostInformed, t.using.Seed)).Pairs
	search := lbfgs{objective: o, params: from.params, settings: t.using.LBFGS}
	search.settings.Tolerance = max(search.settings.Tolerance, closely)
	l, _, err := t.curving(search, "near", func() (*exactCovariance, error) {
		return t.curved(o, from.params, few, few.Rate, 1/float64(few.Len()))
	})
	if err != nil {
		return from, err
	}
	from.iterations += l.iteration
	return from, nil
}

// informed returns the curvature of the likelihood and the prior over all pairs. Fisher's information is the sum of
// p·q·g·gᵀ over all pairs, g the slopes of a pair as engine.LogLikelihood has them. As a pair is linked with
// probability p, the sum of q·g·gᵀ over links is as large on average, and looks at the pairs that matter alone. An
// engine weighs a pair with P(1−P), P = p/(p + r·q): the rate r is chosen so that this is q/4.
func (t *training) informed(o *engine.Objective, params []float32, pairs, links float64) (*exactCovariance, error) {
	linked := sample.Indices(o.Pairs.Len(), func(k int) bool { return o.Pairs.Linked[k] })
	if few := sample.Thin(len(linked), mostInformed, t.using.Seed); len(few) < len(linked) {
		for k, at := range few {
			linked[k] = linked[at]
		}
		linked = linked[:len(few)]
	}
	some := sample.Evidence{Pairs: o.Pairs}.At(linked).Pairs
	z, s, err := t.logits(o, params, some)
	if err != nil {
		return nil, err
	}
	rate := make([]float64, len(z))
	for k := range z {
		y, _ := kern.Sigmoid64(float64(z[k]))
		pi, _ := kern.Sigmoid64(float64(s[k]))
		rate[k] = quarterRate(pi * y)
	}
	return t.curved(o, params, some, rate, 4*links/float64(some.Len())/pairs)
}

// quarterRate returns the rate r by which P(1−P) is (1−p)/4, P = p/(p + r·(1−p)): that is where P
// is (1 + √p)/2.
func quarterRate(p float64) float64 {
	root := 1 + math.Sqrt(p)
	return max(p/(root*root), 1e-30)
}

// hasCurvature reports whether the curvature of an objective is known: of the likelihood of a diagonal link model and
// exposure by field pairs, of which nothing is logged.
func hasCurvature(o *engine.Objective) bool {
	field, ok := o.Propensity.(*model.FieldMatrix)
	return ok && o.Link.Kind() == "diagonal" && !o.Tied && o.Risk == engine.NoRisk && o.Exposure == nil &&
		!o.ShownOnly && field.Size() <= mostDense && o.Link.Size() <= mostExact
}

// curved returns the curvature of an objective, factored, in units of the parameters' sizes: that of its prior, and of
// the information of some pairs times a number.
func (t *training) curved(o *engine.Objective, params []float32, some *graph.Pairs, rate []float64,
	times float64) (*exactCovariance, error) {
	field := o.Propensity.(*model.FieldMatrix)
	design, err := t.using.engine().Design(t.ctx, engine.DesignPairs{Vectors: t.problem.Nodes.Vectors, Pairs: some,
		Cells: field.Size(), Rate: rate, Unit: 1 / sizeOf(o, 0), Streamed: true,
		CellOf: func(source, target int32) int32 { return int32(field.Cell(source, target)) }})
	if err != nil {
		return nil, err
	}
	defer design.Close()
	seen, err := design.Observe(t.ctx, engine.Outcomes{Linked: some.Linked})
	if err != nil {
		return nil, err
	}
	defer seen.Close()
	theta := make([]float64, o.Size())
	for i := range theta {
		theta[i] = float64(params[i]) / sizeOf(o, i)
	}
	full, err := seen.Information(t.ctx, theta)
	if err != nil {
		return nil, err
	}
	for i := range full {
		full[i] *= o.LambdaL * times
	}
	for i := range theta {
		if o.Precision != nil {
			full[i*len(theta)+i] += o.Precision[i] * sizeOf(o, i) * sizeOf(o, i)
		}
		if i >= o.Link.Size() { // a pair's worth, for fields that have none
			full[i*len(theta)+i] += o.LambdaL * times
		}
	}
	factor, err := cholesky(blas64.Symmetric{N: len(theta), Stride: len(theta), Data: full, Uplo: blas.Lower})
	return &exactCovariance{d: o.Link.Size() - 1, count: field.Size(), factor: factor}, err
}

// logits returns the logits of both models under parameters of an objective.
func (t *training) logits(o *engine.Objective, params []float32, pairs *graph.Pairs) (z, s []float32, err error) {
	link, propensity := o.Split(params)
	return (&Judge{Predictor: engine.Predictor{Link: o.Link, LinkParams: link, Propensity: o.Propensity,
		PropensityParams: propensity}, Engine: t.using.engine()}).Logits(t.ctx, pairs)
}

// scaled returns what the last steps over the sample learned of the curvature, of the size that it has over all pairs.
func (t *training) scaled(o *engine.Objective, from run, pairs int64) (memory []curvature, err error) {
	size, err := t.lessCurved(o, from.params, pairs)
	for _, c := range from.memory {
		turned := slices.Clone(c.turned)
		for k := range turned {
			turned[k] *= size
		}
		memory = append(memory, curvature{moved: c.moved, turned: turned, inverse: c.inverse / size})
	}
	return memory, err
}

// lessCurved returns how much of the curvature of the mean over a sample that over all pairs has. Of a pair that is
// linked with probability p, information is about p; of one that is linked in the sample with probability P, it is
// P(1−P), which is far less for pairs that are likely to be linked. The sum of p over all pairs is the number
// of links.
func (t *training) lessCurved(o *engine.Objective, params []float32, all int64) (float64, error) {
	pairs := describedOf(o.Pairs)
	z, s, err := t.logits(o, params, pairs)
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
