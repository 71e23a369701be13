package fit

import (
	"context"
	"fmt"
	"math"
	"slices"

	"unseen/engine"
	"unseen/model"
	"unseen/sample"
)

// The likeliest factors explain the links that they are learned from better than any others, and what they explain too
// well is taken for exposure: with a log of a tenth of the pairs or people, π̂ of the rest comes out a tenth to a third
// too high, and ŷ too low. The log is not explained so. So the level of exposure is the log's: the logits of π̂ all
// move by what logged pairs say, and those of ŷ until as many links are expected as there are. What ranks before what
// stays.

// levelFolds is in how many parts people are hidden who are logged.
const levelFolds = 5

// levelPrior is the prior variance of how far the level is off.
const levelPrior = 1

// level moves the level of π̂ and ŷ of factors to where a log of some of the pairs has it.
func (t *training) level(o *engine.Objective, out run) (run, error) {
	if t.using.Optimiser == "adam" {
		return out, nil
	}
	l, err := t.leveller(o)
	if err != nil || l == nil {
		return out, err
	}
	var known []float64
	if e := t.result.earlier; e != nil {
		known = e.level
	}
	out.params, out.levels, err = l.level(o, out.params, known)
	return out, err
}

// leveller returns what finds the level of factors by a log of some of the pairs; nil where there is none, or nothing
// to find.
func (t *training) leveller(o *engine.Objective) (*leveller, error) {
	if !ofFactors(t.using.Link) || o.Exposure == nil {
		return nil, nil
	}
	pairs := memoryPairs{sample.Evidence{Pairs: o.Pairs, Exposure: o.Exposure}, t.problem.Nodes.Len(),
		t.using.engine()}
	apart := *t
	apart.recorder = nil // of a checkpoint, training goes on before this
	return newLeveller(t.ctx, pairs, t.using, o, func(phase string, _ engine.Engine, o *engine.Objective,
		params []float32) ([]float32, error) {
		t.phase, apart.phase = phase, phase
		found, err := apart.minimise(o, run{params: params})
		return found.params, err
	})
}

// leveller finds what a log of some of the pairs says of the exposure of factors.
type leveller struct {
	ctx      context.Context
	pairs    LoggedPairs
	counts   *LogCounts
	log      *partialLog
	settings Settings
	minimise minimiser
}

// minimiser moves parameters to a minimum of an objective whose pairs an engine has, or the objective itself.
type minimiser func(phase string, e engine.Engine, o *engine.Objective, params []float32) ([]float32, error)

// newLeveller counts the pairs; nil where the log is of none of them or of almost all, or where there is no exposure to
// level.
func newLeveller(ctx context.Context, pairs LoggedPairs, s Settings, o *engine.Objective, m minimiser) (*leveller,
	error) {
	if _, ok := o.Propensity.(model.Layout); !ok || o.ShownOnly || o.Propensity.Size() == 0 {
		return nil, nil
	}
	counts, err := pairs.Count(ctx)
	if err != nil {
		return nil, err
	}
	l := &leveller{ctx: ctx, pairs: pairs, counts: counts, log: logOf(counts), settings: s, minimise: m}
	if !l.log.partial() {
		return nil, nil
	}
	return l, nil
}

// level moves the level of parameters, or as far as is known already, and returns by how much those of π̂ and of ŷ
// moved.
func (l *leveller) level(o *engine.Objective, params []float32, known []float64) (moved []float32, levels []float64,
	err error) {
	layout := o.Propensity.(model.Layout)
	var shift float64
	switch {
	case known != nil:
		shift = known[0]
	case l.log.apart(layout):
		shift, err = l.hidden(o, params)
	default:
		shift, err = l.seen(o, params)
	}
	if err != nil {
		return nil, nil, err
	}
	moved = l.log.raise(o, layout, params, shift)
	intercept, err := l.intercept(o, moved)
	return moved, []float64{shift, intercept}, err
}

// apart reports whether logged people have an exposure of their own, so that only others need a level.
func (l *partialLog) apart(layout model.Layout) bool {
	return l.ofPeople && slices.ContainsFunc(layout.Parts(), func(part model.ParameterBlock) bool {
		return part.Name == string(model.Person)
	})
}

// raise returns parameters with all logits of π̂ higher by a shift, but those of people who have an exposure of their
// own.
func (l *partialLog) raise(o *engine.Objective, layout model.Layout, params []float32, shift float64) []float32 {
	link, propensity := o.Split(slices.Clone(params))
	for c := range layout.Parts()[0].Size() {
		propensity[c] += float32(shift)
	}
	if l.apart(layout) {
		at := 0
		for _, part := range layout.Parts() {
			if part.Name == string(model.Person) {
				break
			}
			at += part.Size()
		}
		for row, i := range o.Propensity.(*model.Covariates).Sources() {
			if l.parts[i] > 0 {
				propensity[at+row] -= float32(shift)
			}
		}
	}
	return append(link[:len(link):len(link)], propensity...)
}

// unlevelled returns the parameters of an earlier fit as they were before their level was moved.
func (t *training) unlevelled(o *engine.Objective, e *earlier) []float32 {
	params := append(slices.Clone(e.Model.LinkParams), e.Model.PropensityParams...)
	layout, ok := o.Propensity.(model.Layout)
	if e.level == nil || !ok {
		return params
	}
	counts := NewLogCounts(t.problem.Nodes.Len())
	counts.Add(sample.Evidence{Pairs: o.Pairs, Exposure: o.Exposure})
	params = logOf(counts).raise(o, layout, params, -e.level[0])
	params[o.Link.Size()-1] -= float32(e.level[1])
	return params
}

// believe sets what is known of exposure before the links are looked at. Where nothing is logged, pairs of fields are
// shown alike: what a segment likes and what it is shown more of look the same in links, and if they were free, all of
// it would count as exposure. Where a part is logged, fields and items are about where the log alone has them.
func (t *training) believe(o *engine.Objective) {
	if !ofFactors(t.settings.Link) || o.ShownOnly {
		return
	}
	if o.Tied = !slices.ContainsFunc(o.Exposure, isLogged); t.logAlone != nil {
		o.Centre = append(make([]float64, o.Link.Size()), t.logAlone...)
	}
}

// fieldPrecision is the prior precision of how far apart pairs of fields are, in learning from a log alone.
const fieldPrecision = .25

// learnLog learns exposure from the logged pairs alone, where there are others, for the objective to be about.
func (t *training) learnLog() error {
	l, err := t.leveller(t.objective)
	if err != nil || l == nil {
		return err
	}
	if t.logAlone, err = l.alone(t.objective, t.problem.Nodes); err != nil {
		return err
	}
	return t.use(t.using)
}

// alone returns what the logged pairs alone say of exposure.
func (l *leveller) alone(of *engine.Objective, n model.Nodes) (exposure []float64, err error) {
	// Of what was shown, relevance is learned apart from exposure, so that the smallest link model will do.
	link, err := model.NewLink(factorsKind, n, model.LinkOptions{Rank: 1})
	if err != nil {
		return nil, err
	}
	s, view := l.settings, LogView{Logged: true}
	s.Ridge = 1
	o, err := s.objective(methods[ShownOnly], link, of.Propensity)
	if err != nil {
		return nil, err
	}
	square, err := l.pairs.MeanSquare(l.ctx, link, view)
	if err != nil {
		return nil, err
	}
	known := l.counts.total()
	share := (known.shown + .5) / (known.times + 1)
	o.MeanWeight = known.weight / float64(known.logged)
	o.Centre = make([]float64, o.Size())
	stands := known.logged
	if o.Likelihood == engine.Weighted {
		stands = weightOf(known.weight)
	}
	o.Precision = precisionWith(o, propensityPriors(o, 0), square, s.Ridge, s.LambdaL/float64(stands))
	once := s.LambdaL / float64(known.logged)
	for c := range o.Propensity.(model.Layout).Parts()[0].Size() {
		o.Centre[link.Size()+c] = math.Log(share / (1 - share))
		o.Precision[link.Size()+c] = fieldPrecision * once
	}
	items, rows := itemEffects(o)
	hold := func(precision float64) {
		for i := range rows {
			o.Precision[link.Size()+items+i] = precision * once
		}
	}
	hold(1e4) // at 0, to see how much they differ
	found, err := l.over(view, known.logged, "exposure by the log", o, started(o, share, s.Seed))
	if err == nil && rows > 0 {
		var variance float64
		if variance, err = l.itemVariance(o, found); err != nil {
			return nil, err
		}
		hold(1 / math.Max(variance, 1e-3))
		found, err = l.over(view, known.logged, "exposure by the log", o, found)
	}
	if err != nil {
		return nil, err
	}
	_, propensity := o.Split(found)
	for _, x := range propensity {
		exposure = append(exposure, float64(x))
	}
	return exposure, nil
}

// over minimises an objective over a view of so many pairs.
func (l *leveller) over(v LogView, pairs int64, phase string, o *engine.Objective, params []float32) ([]float32,
	error) {
	e, viewed, err := l.pairs.Over(o, v, pairs)
	if err != nil {
		return nil, err
	}
	return l.minimise(phase, e, viewed, params)
}

// itemEffects are where the effects of items begin among the parameters of exposure, and how many they are.
func itemEffects(o *engine.Objective) (at, count int) {
	for _, part := range o.Propensity.(model.Layout).Parts() {
		if part.Name == string(model.Item) {
			return at, part.Size()
		}
		at += part.Size()
	}
	return 0, 0
}

// itemVariance is how much items differ in how much they are shown, by how much more their numbers of showings differ
// than chance would have it.
func (l *leveller) itemVariance(o *engine.Objective, params []float32) (float64, error) {
	sums, err := l.pairs.Sums(l.ctx, ItemSums, predictorOf(o, params), LogView{Logged: true})
	if err != nil {
		return 0, err
	}
	items, err := sums(0)
	if err != nil {
		return 0, err
	}
	var more, squares float64
	for _, item := range items {
		off, chance := item[0], item[1]
		more += off*off - chance
		squares += chance * chance
	}
	if squares == 0 {
		return 0, nil
	}
	return math.Max(more/squares, 0), nil
}

// partialLog is which pairs, and which people, a log is of.
type partialLog struct {
	all, pairs int64   // all pairs, and those that are logged
	parts      []uint8 // by node: the part of the logged people that it is in, from 1 to levelFolds; 0 of others
	ofPeople   bool    // most of what is logged is of people of whom everything is, and of others nothing is
}

// partial reports whether more than a twentieth of the pairs is not logged, and anything is.
func (l *partialLog) partial() bool {
	return l.pairs > 0 && 20*(l.all-l.pairs) > l.all
}

func logOf(c *LogCounts) *partialLog {
	l := &partialLog{parts: make([]uint8, len(c.Pairs))}
	var whole int64
	next, without := 0, 0
	for i, all := range c.Pairs {
		logged := c.Logged[i]
		l.all += int64(all)
		l.pairs += int64(logged)
		if logged == all {
			whole += int64(logged)
		}
		switch {
		case logged > 0:
			l.parts[i] = uint8(1 + next%levelFolds)
			next++
		case all > 0:
			without++
		}
	}
	l.ofPeople = 2*whole >= l.pairs && without > 0
	return l
}

// predictorOf has the models of an objective with some parameters.
func predictorOf(o *engine.Objective, params []float32) engine.Predictor {
	link, propensity := o.Split(params)
	return engine.Predictor{Link: o.Link, LinkParams: link, Propensity: o.Propensity, PropensityParams: propensity}
}

// nodeSums are sums of what the pairs of every node give, at some shift.
type nodeSums = func(shift float64) ([][2]float64, error)

// seen is by how much the logits of logged pairs are to move.
func (l *leveller) seen(o *engine.Objective, params []float32) (float64, error) {
	sums, err := l.pairs.Sums(l.ctx, LogSums, predictorOf(o, params), LogView{Logged: true})
	if err != nil {
		return 0, err
	}
	return l.shift([]nodeSums{sums})
}

// hidden is the same with the logits that logged pairs have by factors that were learned without the log of their
// person.
func (l *leveller) hidden(o *engine.Objective, params []float32) (float64, error) {
	s := l.settings
	square, err := l.pairs.MeanSquare(l.ctx, o.Link, LogView{})
	if err != nil {
		return 0, err
	}
	stands := l.log.all
	if o.Likelihood == engine.Weighted {
		stands = weightOf(l.counts.total().allWeight)
	}
	var parts []nodeSums
	for part := uint8(1); part <= levelFolds; part++ {
		var hides int64
		for i, of := range l.log.parts {
			if of == part {
				hides += int64(l.counts.Logged[i])
			}
		}
		if hides == 0 {
			continue
		}
		view := LogView{Part: part, Parts: l.log.parts}
		less := *o
		less.Precision = precisionWith(&less, propensityPriors(&less, l.log.all-l.log.pairs+hides), square, s.Ridge,
			s.LambdaL/float64(stands))
		again, err := l.over(view, l.log.all, fmt.Sprintf("level of exposure, part %d of %d", part, levelFolds), &less,
			slices.Clone(params))
		if err != nil {
			return 0, err
		}
		view.Logged = true
		sums, err := l.pairs.Sums(l.ctx, LogSums, predictorOf(o, again), view)
		if err != nil {
			return 0, err
		}
		parts = append(parts, sums)
	}
	return l.shift(parts)
}

// shift is by how much logits are to move for as many logged pairs to be shown as were, drawn to 0 as far as their
// people differ.
func (l *leveller) shift(parts []nodeSums) (shift float64, err error) {
	var known int
	for _, part := range l.log.parts {
		if part > 0 {
			known++
		}
	}
	if known < 2 {
		return 0, nil
	}
	var variance float64
	for range 30 {
		slope, curvature, squares, err := summed(parts, shift)
		if err != nil || !(curvature > 0) {
			return 0, err
		}
		step := math.Max(-1, math.Min(1, slope/curvature))
		shift += step
		if variance = squares / (curvature * curvature); math.Abs(step) < 1e-6 {
			break
		}
	}
	variance *= float64(known) / float64(known-1)
	return shift * levelPrior / (levelPrior + variance), nil
}

// summed adds up the slopes of all nodes, their curvatures, and the squares of the slopes.
func summed(parts []nodeSums, shift float64) (slope, curvature, squares float64, err error) {
	for _, sums := range parts {
		nodes, err := sums(shift)
		if err != nil {
			return 0, 0, 0, err
		}
		for _, x := range nodes {
			slope += x[0]
			curvature += x[1]
			squares += x[0] * x[0]
		}
	}
	return slope, curvature, squares, nil
}

// intercept moves b such that as many links are expected, of all pairs that the training pairs stand for, as there are,
// and returns by how much. The likelihood would put it where the links of training are explained too well.
func (l *leveller) intercept(o *engine.Objective, params []float32) (shift float64, err error) {
	sums, err := l.pairs.Sums(l.ctx, LinkSums, predictorOf(o, params), LogView{})
	if err != nil {
		return 0, err
	}
	for range 30 {
		slope, curvature, _, err := summed([]nodeSums{sums}, shift)
		if err != nil {
			return 0, err
		}
		step := math.Max(-1, math.Min(1, slope/curvature))
		if math.IsNaN(step) {
			return 0, nil
		}
		if shift += step; math.Abs(step) < 1e-6 {
			break
		}
	}
	params[o.Link.Size()-1] += float32(shift) // b is the last of the link model's
	return shift, nil
}
