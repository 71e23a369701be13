package fit

import (
	"fmt"
	"math"
	"slices"

	"unseen/engine"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
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
	if log.pairs == 0 || log.pairs == o.Pairs.Len() {
		return out, nil
	}
	t.phase = "level of exposure"
	ofPeople := -1 // where effects of people begin
	at := 0
	for _, part := range layout.Parts() {
		if part.Name == string(model.Person) {
			ofPeople = at
		}
		at += part.Size()
	}
	apart := ofPeople >= 0 && log.ofPeople // logged people have an exposure of their own, and only others need a level
	logits, err := t.exposures(o, out.params)
	if apart {
		logits, err = t.hidden(o, out, log)
	}
	if err != nil {
		return out, err
	}
	shift := log.shift(o, logits)
	link, propensity := o.Split(slices.Clone(out.params))
	for c := range layout.Parts()[0].Size() {
		propensity[c] += float32(shift)
	}
	if apart {
		for row, i := range o.Propensity.(*model.Covariates).Sources() {
			if log.people[i] {
				propensity[ofPeople+row] -= float32(shift)
			}
		}
	}
	out.params = append(link[:len(link):len(link)], propensity...)
	return out, t.intercept(o, out.params)
}

// partialLog is which pairs, and which people, a log is of.
type partialLog struct {
	pairs    int
	people   []bool // by node: anything is logged
	ofPeople bool   // most of what is logged is of people of whom everything is
	number   []int  // of every logged person among those
}

func logOf(o *engine.Objective, n int) *partialLog {
	l := &partialLog{people: make([]bool, n), number: make([]int, n)}
	all, logged := make([]int, n), make([]int, n)
	for k, i := range o.Pairs.Source {
		all[i]++
		if o.Exposure[k] == risk.Exposed || o.Exposure[k] == risk.Unexposed {
			logged[i]++
			l.pairs++
			l.people[i] = true
		}
	}
	whole, next := 0, 0
	for i := range n {
		if logged[i] == all[i] {
			whole += logged[i]
		}
		if l.number[i] = next; l.people[i] {
			next++
		}
	}
	l.ofPeople = 2*whole >= l.pairs
	return l
}

// exposures are the logits of π̂ of all pairs.
func (t *training) exposures(o *engine.Objective, params []float32) ([]float32, error) {
	link, propensity := o.Split(params)
	_, s, err := (&Judge{Predictor: engine.Predictor{Link: o.Link, LinkParams: link, Propensity: o.Propensity,
		PropensityParams: propensity}, Engine: t.using.engine()}).Logits(t.ctx, o.Pairs)
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
			if e != risk.Exposed && e != risk.Unexposed {
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

// intercept moves b such that as many links are expected, of all pairs that the training pairs stand for, as there are.
// The likelihood would put it where the links of training are explained too well.
func (t *training) intercept(o *engine.Objective, params []float32) error {
	link, propensity := o.Split(params)
	z, s, err := (&Judge{Predictor: engine.Predictor{Link: o.Link, LinkParams: link, Propensity: o.Propensity,
		PropensityParams: propensity}, Engine: t.using.engine()}).Logits(t.ctx, o.Pairs)
	if err != nil {
		return err
	}
	var shift float64
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
			return nil
		}
		if shift += step; math.Abs(step) < 1e-6 {
			break
		}
	}
	link[len(link)-1] += float32(shift) // b is the last
	return nil
}
