package fit

import (
	"context"
	"fmt"
	"strings"

	"unseen/encode"
	"unseen/engine"
	"unseen/model"
	"unseen/risk"
)

// Extent describes pairs that are elsewhere, in shards: all that must be known to minimise over them.
type Extent struct {
	Pairs      int64   `json:"pairs"`
	MeanWeight float64 `json:"meanWeight"` // of the inclusion weights
	MeanSquare float64 `json:"meanSquare"` // see MeanSquare
	Logged     bool    `json:"logged,omitempty"`

	// What LogCounts say where any pair is logged: LoggedCount, and for the method shown ShownRates.
	LoggedPairs int64      `json:"loggedPairs,omitempty"`
	Shown       ShownRates `json:"shown,omitzero"`
}

// prior returns the precision of every parameter of an objective over factors.
func (x Extent) prior(o *engine.Objective, s Settings) []float64 {
	count := x.Pairs
	if o.Likelihood == engine.Weighted { // as standFor has it
		count = weightOf(x.MeanWeight * float64(x.Pairs))
	}
	return precisionWith(o, propensityPriors(o, x.Pairs-x.LoggedPairs), x.MeanSquare, s.Ridge,
		s.LambdaL/float64(count))
}

// Objective returns what Fit would minimise under the settings over pairs that are elsewhere. The models are made for
// nodes, of which the dimension and the fields are enough where only the parameters are needed.
func (s Settings) Objective(n model.Nodes, x Extent) (*engine.Objective, error) {
	s, err := s.WithDefaults()
	if err != nil {
		return nil, err
	}
	m, err := s.method()
	if err != nil {
		return nil, err
	}
	switch {
	case m.shown && !x.Logged:
		return nil, fmt.Errorf("%w: method %s needs pairs that are logged as shown; log what was shown, or use mle",
			ErrData, s.Method)
	case ofFactors(s.Link):
		if err := s.factorsElsewhere(); err != nil {
			return nil, err
		}
	case strings.Contains(s.Propensity, "+"+string(model.Person)),
		strings.Contains(s.Propensity, "+"+string(model.Item)),
		strings.Contains(s.Propensity, "+"+string(model.Activity)):
		return nil, fmt.Errorf("%w: a propensity %s is learned on one machine; leave out the effects of people and "+
			"items and their activity", ErrSetting, s.Propensity)
	}
	switch {
	case m.bayes || m.untrained:
		return nil, fmt.Errorf("%w: the method %s does not minimise a sum over pairs; use "+
			"naive, mle, shown, rw, pu, ap or dr", ErrSetting, s.Method)
	case m.risk == engine.RiskDR && !x.Logged:
		return nil, fmt.Errorf("%w: method dr needs pairs whose exposure is logged; log some, or use ap", ErrData)
	case x.Pairs < 1:
		return nil, fmt.Errorf("%w: there are no pairs", ErrData)
	}
	link, err := model.NewLink(s.Link, n, s.LinkOptions)
	if err != nil {
		return nil, err
	}
	propensity, err := model.NewPropensity(s.Propensity, n, s.PropensityOptions)
	if err != nil {
		return nil, err
	}
	o, err := s.objective(m, link, propensity)
	if err != nil {
		return nil, err
	}
	o.MeanWeight = x.MeanWeight
	o.Scale = scaleFor(o, x.MeanSquare)
	if !ofFactors(s.Link) {
		o.Precision = precisionWith(o, nil, x.MeanSquare, s.Ridge, s.LambdaL/float64(x.Pairs))
		return o, nil
	}
	o.Tied = !m.shown && x.LoggedPairs == 0
	o.Precision = x.prior(o, s)
	return o, nil
}

// factorsElsewhere refuses what needs all pairs of factors in one place.
func (s Settings) factorsElsewhere() error {
	known := map[string]bool{fieldMatrixKind: true, "constant": true}
	for _, terms := range []string{"+person", "+item", "+person+item"} {
		known[fieldMatrixKind+terms] = true
	}
	switch {
	case s.Link != factorsKind:
		return fmt.Errorf("%w: the link model %s is learned on one machine; use %s here", ErrSetting, s.Link,
			factorsKind)
	case s.Optimiser != alternating:
		return fmt.Errorf("%w: factors are learned from shards by the optimiser %s, not by %s", ErrSetting,
			alternating, s.Optimiser)
	case s.Ridge == 0:
		return fmt.Errorf("%w: a ridge is chosen on one machine; give one, such as the one that a sample chose",
			ErrSetting)
	case !known[s.Propensity]:
		return fmt.Errorf("%w: exposure of the kind %s is learned with factors on one machine; use %s, alone or with "+
			"+person and +item", ErrSetting, s.Propensity, fieldMatrixKind)
	}
	return nil
}

// Descent is training over pairs that the engine holds, such as those of a cluster: by L-BFGS, or of factors side by
// side.
type Descent struct {
	Objective *engine.Objective // as Settings.Objective makes it; the engine has the pairs
	// Settings give Engine, Optimiser, LBFGS, Seed, the first of Starts, Progress, and Checkpoint, which by default is
	// written after every iteration or round.
	Settings Settings
	Data     string      // names the pairs: a checkpoint of others is refused
	Extent   Extent      // of the pairs
	Nodes    model.Nodes // that factors are of
	// Log is the pairs once more, from which factors learn the level of exposure; nil where none is logged.
	Log LoggedPairs
	// Links returns the links among the training pairs, by the sources and the targets of factors, which begin where
	// these point. It is not called where training goes on from a checkpoint. Nil means that factors begin at random.
	Links func(context.Context) (encode.Incidence, error)
}

// Descended is where a Descent ended.
type Descended struct {
	Params     []float32
	Objective  engine.Parts // there; of factors where the last round began
	Iterations int          // or rounds
	// Levels are by how much the log of some pairs moved the level of π̂ and then of ŷ; nil where it did not.
	Levels []float64
	// Warnings say that rounds ended before they had reached the minimum.
	Warnings []risk.Warning
}

// Run trains, or resumes from the checkpoint. When the engine fails, the checkpoint of the last whole iteration stays.
func (d Descent) Run(ctx context.Context) (out Descended, err error) {
	s, err := d.Settings.WithDefaults()
	if err != nil {
		return out, err
	}
	if s.Checkpoint.Every == 0 {
		s.Checkpoint.Every = 1
	}
	d.Settings = s
	recorder, doubts, err := record(s.Checkpoint, func() (map[string]string, error) { return identify(s, d.Data, "") })
	if err != nil {
		return out, err
	}
	start := model.StartPropensity
	if len(s.Starts) > 0 {
		start = s.Starts[0]
	}
	m, most := newMeter(s.Progress, 0), s.LBFGS.Iterations
	of := func(phase string) func(int, engine.Parts) {
		return func(number int, p engine.Parts) {
			m.add(0, true, func() round { return round{phase: phase, number: number, of: most, loss: p.Total()} })
		}
	}
	report := of("training")
	params := started(d.Objective, start, s.Seed)
	if s.Optimiser == alternating {
		most = min(most, mostRounds)
		r := &rounds{engine: s.engine(), objective: d.Objective, params: params, settings: s.LBFGS, calm: 2,
			report: report, recorder: recorder}
		out, err = d.alternate(ctx, r, of)
	} else {
		l := &lbfgs{engine: s.engine(), objective: d.Objective, params: params, settings: s.LBFGS, recorder: recorder,
			report: report}
		err = l.train(ctx)
		out = Descended{Params: l.params, Objective: l.parts, Iterations: l.iteration}
	}
	out.Warnings = append(out.Warnings, doubts...)
	return out, recorder.close(ctx, &Result{}, err)
}

// alternate trains side by side.
func (d Descent) alternate(ctx context.Context, r *rounds, report func(phase string) func(int, engine.Parts)) (
	out Descended, err error) {
	minimise := func(phase string, e engine.Engine, o *engine.Objective, params []float32) ([]float32, error) {
		apart := &rounds{engine: e, objective: o, params: params, settings: r.settings, calm: r.calm,
			report: report(phase)}
		err := apart.through(ctx, phase, &out.Warnings)
		return apart.params, err
	}
	var l *leveller
	if d.Log != nil {
		if l, err = newLeveller(ctx, d.Log, d.Settings, r.objective, minimise); err != nil {
			return out, err
		}
	}
	if l != nil {
		o := *r.objective
		o.Centre = make([]float64, o.Link.Size(), o.Size())
		exposure, err := l.alone(r.objective, d.Nodes)
		if err != nil {
			return out, err
		}
		o.Centre = append(o.Centre, exposure...)
		o.Precision, r.objective = d.Extent.prior(&o, d.Settings), &o
	}
	link, ok := d.Objective.Link.(*model.Factors)
	if ok && d.Links != nil && (r.recorder == nil || r.recorder.resumed == nil) {
		links, err := d.Links(ctx)
		if err == nil {
			err = turned(ctx, link, r.params, links, d.Settings)
		}
		if err != nil {
			return out, err
		}
	}
	err = r.through(ctx, "training side by side", &out.Warnings)
	out.Params, out.Objective, out.Iterations = r.params, r.parts, r.round
	if l != nil && err == nil {
		out.Params, out.Levels, err = l.level(r.objective, r.params, nil)
	}
	return out, err
}

// through trains, and warns where that ends too early.
func (r *rounds) through(ctx context.Context, phase string, warnings *[]risk.Warning) error {
	reached, err := r.train(ctx)
	switch {
	case err != nil || reached:
	case r.round == 0:
		err = fmt.Errorf("%w: the engine does not learn factors side by side; use another", engine.ErrUnsupported)
	default:
		*warnings = append(*warnings, risk.Warning{Kind: "rounds", Message: fmt.Sprintf("%s ended after %d rounds and "+
			"has not reached the minimum, from where one machine goes on by L-BFGS: give another start or ridge, or "+
			"learn on one machine", phase, r.round)})
	}
	return err
}
