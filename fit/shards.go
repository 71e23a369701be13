package fit

import (
	"context"
	"fmt"
	"math"
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
	case m.shown:
		return nil, fmt.Errorf("%w: the method %s is learned on one machine; use naive, mle, rw, pu, ap or dr",
			ErrSetting, s.Method)
	case ofFactors(s.Link):
		if err := s.factorsElsewhere(x); err != nil {
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
			"naive, mle, rw, pu, ap or dr", ErrSetting, s.Method)
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
	o.Tied = true
	count := x.Pairs
	if o.Likelihood == engine.Weighted { // as standFor has it
		count = int64(math.Ceil(x.MeanWeight * float64(x.Pairs)))
	}
	o.Precision = precisionWith(o, propensityPriors(o, x.Pairs), x.MeanSquare, s.Ridge, s.LambdaL/float64(count))
	return o, nil
}

// factorsElsewhere refuses what needs all pairs of factors in one place.
func (s Settings) factorsElsewhere(x Extent) error {
	known := map[string]bool{fieldMatrixKind: true, "constant": true}
	for _, terms := range []string{"+person", "+item", "+person+item"} {
		known[fieldMatrixKind+terms] = true
	}
	switch {
	case s.Link != factorsKind:
		return fmt.Errorf("%w: the link model %s is learned on one machine; use %s here", ErrSetting, s.Link,
			factorsKind)
	case x.Logged:
		return fmt.Errorf("%w: factors are learned on one machine where exposure is logged; make a sample of the data "+
			"and learn from that, or use the link model diagonal", ErrSetting)
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
	Data     string // names the pairs: a checkpoint of others is refused
	// Links returns the links among the training pairs, by the sources and the targets of factors, which begin where
	// these point. It is not called where training goes on from a checkpoint. Nil means that factors begin at random.
	Links func(context.Context) (encode.Incidence, error)
}

// Descended is where a Descent ended.
type Descended struct {
	Params     []float32
	Objective  engine.Parts // there; of factors where the last round began
	Iterations int          // or rounds
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
	recorder, _, err := record(s.Checkpoint, func() (map[string]string, error) { return identify(s, d.Data, "") })
	if err != nil {
		return out, err
	}
	start := model.StartPropensity
	if len(s.Starts) > 0 {
		start = s.Starts[0]
	}
	m, most := newMeter(s.Progress, 0), s.LBFGS.Iterations
	report := func(number int, p engine.Parts) {
		m.add(0, true, func() round { return round{phase: "training", number: number, of: most, loss: p.Total()} })
	}
	params := started(d.Objective, start, s.Seed)
	if s.Optimiser == alternating {
		most = min(most, mostRounds)
		r := &rounds{engine: s.engine(), objective: d.Objective, params: params, settings: s.LBFGS, calm: 2,
			report: report, recorder: recorder}
		out, err = d.alternate(ctx, r)
	} else {
		l := &lbfgs{engine: s.engine(), objective: d.Objective, params: params, settings: s.LBFGS, recorder: recorder,
			report: report}
		err = l.train(ctx)
		out = Descended{Params: l.params, Objective: l.parts, Iterations: l.iteration}
	}
	return out, recorder.close(ctx, &Result{}, err)
}

// alternate trains side by side.
func (d Descent) alternate(ctx context.Context, r *rounds) (Descended, error) {
	link, ok := d.Objective.Link.(*model.Factors)
	if ok && d.Links != nil && (r.recorder == nil || r.recorder.resumed == nil) {
		links, err := d.Links(ctx)
		if err == nil {
			err = turned(ctx, link, r.params, links, d.Settings)
		}
		if err != nil {
			return Descended{}, err
		}
	}
	reached, err := r.train(ctx)
	out := Descended{Params: r.params, Objective: r.parts, Iterations: r.round}
	switch {
	case err != nil || reached:
	case r.round == 0:
		err = fmt.Errorf("%w: the engine does not learn factors side by side; use another", engine.ErrUnsupported)
	default:
		out.Warnings = append(out.Warnings, risk.Warning{Kind: "rounds", Message: fmt.Sprintf("training side by side "+
			"ended after %d rounds and has not reached the minimum, from where one machine goes on by L-BFGS: give "+
			"another start or ridge, or learn on one machine", r.round)})
	}
	return out, err
}
