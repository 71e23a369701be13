package fit

import (
	"context"
	"fmt"

	"unseen/model"
)

// Extent is what must be known of all pairs to minimise over them where they are elsewhere, in shards.
type Extent struct {
	Pairs      int64   `json:"pairs"`
	MeanWeight float64 `json:"meanWeight"` // of the inclusion weights
	MeanSquare float64 `json:"meanSquare"` // see MeanSquare
	Logged     bool    `json:"logged,omitempty"`
}

// Sum returns what the likelihood and the risk sum to over o.Pairs, which are a shard of all pairs,
// and, unless grad is nil, sets grad to their gradient: no mean, and without the prior. The mean
// weight is that of all pairs. Sums of shards add up to what Objective.Join takes.
func (c CPU) Sum(ctx context.Context, o *Objective, params []float32, grad []float64, meanWeight float64) (Parts,
	error) {
	if !(meanWeight > 0) {
		return Parts{}, fmt.Errorf("%w: a mean inclusion weight of %v; it is that of all pairs, and positive",
			ErrShape, meanWeight)
	}
	partial, err := c.portions(ctx, o, params, grad, meanWeight)
	if err != nil {
		return Parts{}, err
	}
	var total Parts
	clear(grad)
	for _, p := range partial {
		total.Likelihood += p.parts.Likelihood
		total.Risk += p.parts.Risk
		for i, g := range p.grad {
			grad[i] += g
		}
	}
	return total, nil
}

// Join makes the objective, and its gradient in place, of the sums over all pairs: it divides by their number and adds
// the prior. grad may be nil.
func (o *Objective) Join(sum Parts, pairs int64, params []float32, grad []float64) Parts {
	n := float64(pairs)
	for i := range grad {
		grad[i] /= n
	}
	return Parts{Likelihood: sum.Likelihood / n, Risk: sum.Risk / n, Prior: o.prior(params, grad)}
}

// Objective returns what Fit would minimise under the settings over pairs that are elsewhere. The models are made for
// nodes, of which it is enough to have the dimension and the fields where only the parameters are wanted.
func (s Settings) Objective(n model.Nodes, x Extent) (*Objective, error) {
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
	case m.scheme == DR && !x.Logged:
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
	o.Scale = scaleFor(o, count, x.MeanSquare)
	o.Precision = precisionFor(o, count, x.MeanSquare, s.Ridge, s.LambdaL, x.Pairs)
	return o, nil
}

// Descent is training by L-BFGS on an engine of the caller's, such as a cluster.
type Descent struct {
	Engine    Engine
	Objective *Objective // as Settings.Objective makes it; the pairs are the engine's business
	// of these LBFGS, Seed, the first of Starts, and Checkpoint, which is written after every
	// iteration unless it says otherwise
	Settings Settings
	Data     string // names the pairs: a checkpoint of others is refused
	Report   func(iteration int, p Parts)
}

// Run trains, or goes on from the checkpoint, and returns the parameters, the objective there and the number of
// iterations. When the engine fails, the checkpoint of the last whole iteration stays.
func (d Descent) Run(ctx context.Context) (params []float32, parts Parts, iterations int, err error) {
	s, err := d.Settings.WithDefaults()
	if err != nil {
		return nil, Parts{}, 0, err
	}
	if s.Checkpoint.Every == 0 {
		s.Checkpoint.Every = 1
	}
	recorder, _, err := record(s.Checkpoint, func() (map[string]string, error) { return identify(s, d.Data, "") })
	if err != nil {
		return nil, Parts{}, 0, err
	}
	start := .3
	if len(s.Starts) > 0 {
		start = s.Starts[0]
	}
	params = d.Objective.started(start, s.Seed)
	parts, iterations, err = trainLBFGS(ctx, d.Engine, d.Objective, params, s.LBFGS, d.Report, recorder)
	return params, parts, iterations, recorder.close(ctx, &Result{}, err)
}
