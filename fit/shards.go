package fit

import (
	"context"
	"fmt"
	"strings"

	"unseen/engine"
	"unseen/model"
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
	case ofFactors(s.Link) || m.shown:
		return nil, fmt.Errorf("%w: factors and the method shown are learned on one machine; use the link model "+
			"diagonal and naive, mle, rw, pu, ap or dr", ErrSetting)
	case strings.Contains(s.Propensity, "+"+string(model.Person)),
		strings.Contains(s.Propensity, "+"+string(model.Item)),
		strings.Contains(s.Propensity, "+"+string(model.Activity)):
		return nil, fmt.Errorf("%w: a propensity %s is learned on one machine; leave out the effects of people and "+
			"items and their activity", ErrSetting, s.Propensity)
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
	o.Precision = precisionFor(o, x.MeanSquare, s.Ridge, s.LambdaL, x.Pairs)
	return o, nil
}

// Descent is training by L-BFGS over pairs that the engine holds, such as those of a cluster.
type Descent struct {
	Objective *engine.Objective // as Settings.Objective makes it; the engine has the pairs
	// Settings give Engine, LBFGS, Seed, the first of Starts, Progress, and Checkpoint, which by default is written
	// after every iteration.
	Settings Settings
	Data     string // names the pairs: a checkpoint of others is refused
}

// Run trains, or resumes from the checkpoint, and returns the parameters, the objective there and the number of
// iterations. When the engine fails, the checkpoint of the last whole iteration stays.
func (d Descent) Run(ctx context.Context) (params []float32, parts engine.Parts, iterations int, err error) {
	s, err := d.Settings.WithDefaults()
	if err != nil {
		return nil, engine.Parts{}, 0, err
	}
	if s.Checkpoint.Every == 0 {
		s.Checkpoint.Every = 1
	}
	recorder, _, err := record(s.Checkpoint, func() (map[string]string, error) { return identify(s, d.Data, "") })
	if err != nil {
		return nil, engine.Parts{}, 0, err
	}
	start := model.StartPropensity
	if len(s.Starts) > 0 {
		start = s.Starts[0]
	}
	m := newMeter(s.Progress, 0)
	l := &lbfgs{engine: s.engine(), objective: d.Objective, params: started(d.Objective, start, s.Seed),
		settings: s.LBFGS, recorder: recorder, report: func(iteration int, p engine.Parts) {
			m.add(0, true, func() round {
				return round{phase: "training", number: iteration, of: s.LBFGS.Iterations, loss: p.Total()}
			})
		}}
	err = l.train(ctx)
	return l.params, l.parts, l.iteration, recorder.close(ctx, &Result{}, err)
}
