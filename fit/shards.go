package fit

import (
	"context"
	"fmt"

	"unseen/engine"
	"unseen/model"
)

// Extent is what must be known of all pairs to minimise over them where they are elsewhere, in shards.
type Extent struct {
	Pairs      int64   `json:"pairs"`
	MeanWeight float64 `json:"meanWeight"` // of the inclusion weights
	MeanSquare float64 `json:"meanSquare"` // see MeanSquare
	Logged     bool    `json:"logged,omitempty"`
}

// Objective returns what Fit would minimise under the settings over pairs that are elsewhere. The models are made for
// nodes, of which it is enough to have the dimension and the fields where only the parameters are wanted.
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
	case m.bayes || m.untrained:
		return nil, fmt.Errorf("%w: the method %s is not the minimum of a sum over pairs; of those that are "+
			"there is naive, mle, rw, pu, ap and dr", ErrSetting, s.Method)
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
	count := weightsOf(link)
	o.MeanWeight = x.MeanWeight
	o.Scale = scaleFor(o, count, x.MeanSquare)
	o.Precision = precisionFor(o, count, x.MeanSquare, s.Ridge, s.LambdaL, x.Pairs)
	return o, nil
}

// Descent is training by L-BFGS over pairs that the engine holds, such as those of a cluster.
type Descent struct {
	Objective *engine.Objective // as Settings.Objective makes it; the pairs are the engine's business
	// of these Engine, LBFGS, Seed, the first of Starts, Progress, and Checkpoint, which is written after every
	// iteration unless it says otherwise
	Settings Settings
	Data     string // names the pairs: a checkpoint of others is refused
}

// Run trains, or goes on from the checkpoint, and returns the parameters, the objective there and the number of
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
