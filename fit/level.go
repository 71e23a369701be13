package fit

import (
	"fmt"
	"math"
	"slices"

	"unseen/engine"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
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
	layout, ok := o.Propensity.(model.Layout)
	if !ofFactors(t.using.Link) || t.using.Optimiser == "adam" || o.ShownOnly || o.Exposure == nil || !ok ||
		o.Propensity.Size() == 0 {
		return out, nil
	}
	log := logOf(o, t.problem.Nodes.Len())
	if !log.partial(o) {
		return out, nil
	}
	t.phase = "level of exposure"
	e := t.result.earlier
	var shift float64
	if e != nil && e.level != nil {
		shift = e.level[0]
	} else {
		logits, err := t.exposures(o, out.params)
		if log.apart(layout) {
			logits, err = t.hidden(o, out, log)
		}
		if err != nil {
			return out, err
		}
		shift = log.shift(o, logits)
	}
	out.params = log.raise(o, layout, out.params, shift)
	intercept, err := t.intercept(o, out.params)
	out.levels = []float64{shift, intercept}
	return out, err
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
			if l.people[i] {
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
	params = logOf(o, t.problem.Nodes.Len()).raise(o, layout, params, -e.level[0])
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
	o := t.objective
	if !ofFactors(t.settings.Link) || o.ShownOnly || o.Propensity.Size() == 0 ||
		!logOf(o, t.problem.Nodes.Len()).partial(o) {
		return nil
	}
	// Of what was shown, relevance is learned apart from exposure, so that the smallest link model will do.
	link, err := model.NewLink(factorsKind, t.problem.Nodes, model.LinkOptions{Rank: 1})
	if err != nil {
		return err
	}
	s := t.settings
	s.Ridge = 1
	alone, err := s.objective(methods[ShownOnly], link, o.Propensity)
	if err != nil {
		return err
	}
	logged := sample.Evidence{Pairs: o.Pairs, Exposure: o.Exposure}.At(sample.Indices(o.Pairs.Len(),
		func(k int) bool { return isLogged(o.Exposure[k]) }))
	alone.Pairs, alone.Exposure = logged.Pairs, logged.Exposure
	var shown, all float64
	for k, e := range logged.Exposure {
		if all += loggedTimes(logged.Pairs, k); e == risk.Exposed {
			shown += loggedTimes(logged.Pairs, k)
		}
	}
	share := (shown + .5) / (all + 1)
	alone.Centre = make([]float64, alone.Size())
	alone.Precision = precisionFor(alone, MeanSquare(link, logged.Pairs), s.Ridge, s.LambdaL,
		standFor(alone, logged.Pairs.Len()))
	for c := range o.Propensity.(model.Layout).Parts()[0].Size() {
		alone.Centre[link.Size()+c] = math.Log(share / (1 - share))
		alone.Precision[link.Size()+c] = fieldPrecision * s.LambdaL / float64(logged.Pairs.Len())
	}
	apart := *t
	apart.recorder, apart.using, apart.phase = nil, s, "exposure by the log"
	items, rows := t.itemEffects(o)
	hold := func(precision float64) {
		for i := range rows {
			alone.Precision[link.Size()+items+i] = precision * s.LambdaL / float64(logged.Pairs.Len())
		}
	}
	hold(1e4) // at 0, to see how much they differ
	found, err := apart.minimise(alone, run{params: started(alone, share, s.Seed)})
	if err != nil {
		return err
	}
	if rows > 0 {
		variance, err := t.itemVariance(alone, found.params)
		if err != nil {
			return err
		}
		hold(1 / math.Max(variance, 1e-3))
		if found, err = apart.minimise(alone, found); err != nil {
			return err
		}
	}
	_, propensity := alone.Split(found.params)
	for _, x := range propensity {
		t.logAlone = append(t.logAlone, float64(x))
	}
	return t.use(t.using)
}

// itemEffects are where the effects of items begin among the parameters of exposure, and how many they are.
func (t *training) itemEffects(o *engine.Objective) (at, count int) {
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
func (t *training) itemVariance(o *engine.Objective, params []float32) (float64, error) {
	logits, err := t.exposures(o, params)
	if err != nil {
		return 0, err
	}
	off, chance := make([]float64, t.problem.Nodes.Len()), make([]float64, t.problem.Nodes.Len())
	for k, e := range o.Exposure {
		j, times := o.Pairs.Target[k], loggedTimes(o.Pairs, k)
		pi, rest := kern.Sigmoid64(float64(logits[k]))
		if off[j] -= times * pi; e == risk.Exposed {
			off[j] += times
		}
		chance[j] += times * pi * rest
	}
	var more, squares float64
	for j, v := range chance {
		more += off[j]*off[j] - v
		squares += v * v
	}
	if squares == 0 {
		return 0, nil
	}
	return math.Max(more/squares, 0), nil
}

// partialLog is which pairs, and which people, a log is of.
type partialLog struct {
	pairs    int
	people   []bool // by node: anything is logged
	ofPeople bool   // most of what is logged is of people of whom everything is, and of others nothing is
	number   []int  // of every logged person among those
}

// partial reports whether more than a twentieth of the pairs is not logged, and anything is.
func (l *partialLog) partial(o *engine.Objective) bool {
	return l.pairs > 0 && 20*(o.Pairs.Len()-l.pairs) > o.Pairs.Len()
}

func logOf(o *engine.Objective, n int) *partialLog {
	l := &partialLog{people: make([]bool, n), number: make([]int, n)}
	if o.Exposure == nil {
		return l
	}
	all, logged := make([]int, n), make([]int, n)
	for k, i := range o.Pairs.Source {
		all[i]++
		if isLogged(o.Exposure[k]) {
			logged[i]++
			l.pairs++
			l.people[i] = true
		}
	}
	whole, next, without := 0, 0, 0
	for i := range n {
		if logged[i] == all[i] {
			whole += logged[i]
		}
		if l.number[i] = next; l.people[i] {
			next++
		} else if all[i] > 0 {
			without++
		}
	}
	l.ofPeople = 2*whole >= l.pairs && without > 0
	return l
}

// judge has the models of an objective with some parameters.
func (t *training) judge(o *engine.Objective, params []float32) *Judge {
	link, propensity := o.Split(params)
	return &Judge{Predictor: engine.Predictor{Link: o.Link, LinkParams: link, Propensity: o.Propensity,
		PropensityParams: propensity}, Engine: t.using.engine()}
}

// exposures are the logits of π̂ of all pairs.
func (t *training) exposures(o *engine.Objective, params []float32) ([]float32, error) {
	_, s, err := t.judge(o, params).Logits(t.ctx, o.Pairs)
	return s, err
}

// hidden are the logits of logged pairs, each by factors that were learned without the log of its person.
func (t *training) hidden(o *engine.Objective, out run, log *partialLog) ([]float32, error) {
	s := t.using
	logits := make([]float32, o.Pairs.Len())
	apart := *t
	apart.recorder = nil // of a checkpoint, training goes on before this
	for fold := range levelFolds {
		t.phase = fmt.Sprintf("level of exposure, part %d of %d", fold+1, levelFolds)
		apart.phase = t.phase
		hides := func(k int) bool {
			i := o.Pairs.Source[k]
			return log.people[i] && log.number[i]%levelFolds == fold
		}
		less := *o
		less.Exposure = slices.Clone(o.Exposure)
		any := false
		for k := range less.Exposure {
			if hides(k) {
				less.Exposure[k], any = risk.Unlogged, true
			}
		}
		if !any {
			continue
		}
		less.Precision = precisionFor(&less, MeanSquare(o.Link, o.Pairs), s.Ridge, s.LambdaL,
			standFor(o, o.Pairs.Len()))
		again, err := apart.minimise(&less, run{params: slices.Clone(out.params)})
		if err != nil {
			return nil, err
		}
		found, err := t.exposures(o, again.params)
		if err != nil {
			return nil, err
		}
		for k, s := range found {
			if hides(k) {
				logits[k] = s
			}
		}
	}
	return logits, nil
}

// shift is by how much logits are to move for as many logged pairs to be shown as were, drawn to 0 as far as their
// people differ.
func (l *partialLog) shift(o *engine.Objective, logits []float32) (shift float64) {
	var known int
	for _, is := range l.people {
		if is {
			known++
		}
	}
	if known < 2 {
		return 0
	}
	var variance float64
	for range 30 {
		var slope, curvature float64
		sums := make([]float64, len(l.people))
		for k, e := range o.Exposure {
			if !isLogged(e) {
				continue
			}
			times := loggedTimes(o.Pairs, k)
			pi, rest := kern.Sigmoid64(float64(logits[k]) + shift)
			off := -pi
			if e == risk.Exposed {
				off = rest
			}
			slope += times * off
			sums[o.Pairs.Source[k]] += times * off
			curvature += times * pi * rest
		}
		if !(curvature > 0) {
			return 0
		}
		step := math.Max(-1, math.Min(1, slope/curvature))
		shift += step
		variance = 0
		for _, x := range sums {
			variance += x * x
		}
		if variance /= curvature * curvature; math.Abs(step) < 1e-6 {
			break
		}
	}
	variance *= float64(known) / float64(known-1)
	return shift * levelPrior / (levelPrior + variance)
}

// intercept moves b such that as many links are expected, of all pairs that the training pairs stand for, as there are,
// and returns by how much. The likelihood would put it where the links of training are explained too well.
func (t *training) intercept(o *engine.Objective, params []float32) (shift float64, err error) {
	z, s, err := t.judge(o, params).Logits(t.ctx, o.Pairs)
	if err != nil {
		return 0, err
	}
	for range 30 {
		var slope, curvature float64
		for k, w := range o.Pairs.Weight {
			pi, _ := kern.Sigmoid64(float64(s[k]))
			y, rest := kern.Sigmoid64(float64(z[k]) + shift)
			if slope -= w * pi * y; o.Pairs.Linked[k] {
				slope += w
			}
			curvature += w * pi * y * rest
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
