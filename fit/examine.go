package fit

import (
	"context"
	"slices"

	"unseen/engine"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// PartOf returns a model for some nodes of those that it was made for.
type PartOf func(ctx context.Context, m model.Model, n model.Nodes) (model.Model, error)

// Examine says of factors that a descent has learned what Fit says of them: the doctor's findings, and warnings. It
// draws the pairs of some sources, all pairs where these are at most about 1,048,576 of vectors of 64 dimensions; then
// the result is that of Fit. Of more pairs, what is counted is counted of all, and what is estimated comes from the
// drawn. The survey has the number of the pairs, and the dimension of the vectors.
func (d Descent) Examine(ctx context.Context, found Descended, all Population, survey PairSurvey, part PartOf) (
	*Result, error) {
	s, err := d.Settings.WithDefaults()
	if err != nil {
		return nil, err
	}
	s.Engine = nil // what is drawn is the driver's
	p, err := DrawSources(ctx, all, survey, examinedPairs)
	if err != nil {
		return nil, err
	}
	o := *d.Objective
	link, propensity := o.Split(found.Params)
	whole := engine.Predictor{Link: o.Link, LinkParams: link, Propensity: o.Propensity, PropensityParams: propensity}
	own, err := part(ctx, model.Model{Link: whole.Link, LinkParams: whole.LinkParams, Propensity: whole.Propensity,
		PropensityParams: whole.PropensityParams, Method: s.Method}, p.Nodes)
	if err != nil {
		return nil, err
	}
	r := &Result{Settings: s, Link: own.Link, LinkParams: own.LinkParams, Propensity: own.Propensity,
		PropensityParams: own.PropensityParams, Iterations: found.Iterations, Warnings: found.Warnings, problem: p,
		levels: found.Levels, all: &elsewhere{Population: all, survey: survey,
			part: int64(p.Train.Len()) < survey.count(), has: &whole}}
	if !r.all.part {
		warnings, err := p.Validate(s.Threads)
		if err != nil {
			return nil, err
		}
		r.Warnings = append(r.Warnings, slices.DeleteFunc(warnings, func(w risk.Warning) bool {
			return w.Kind == sample.ZeroVectors
		})...)
	}
	o.Link, o.Propensity, o.Centre, o.Precision, o.Scale = own.Link, own.Propensity, nil, nil, nil
	o.Pairs, o.Exposure = d.Extent.Shown.Of(p.Train, p.Exposure), p.Exposure
	params := append(slices.Clone(own.LinkParams), own.PropensityParams...)
	if r.Objective, err = s.engine().Gradient(ctx, thinned(&o, describedPairs), params, nil); err != nil {
		return nil, err
	}
	start, err := describe(ctx, s.engine(), p, r.predictor())
	if err != nil {
		return nil, err
	}
	start.Propensity, start.Objective = s.firstStart(), r.Objective.Total()
	r.Starts = []Start{start}
	if r.Findings, err = Diagnose(ctx, p, r); err != nil {
		return nil, err
	}
	r.warn()
	r.Warnings = append(r.Warnings, r.Findings.warnings()...)
	r.Link, r.LinkParams, r.Propensity, r.PropensityParams = whole.Link, whole.LinkParams, whole.Propensity,
		whole.PropensityParams
	r.Objective = found.Objective
	return r, nil
}
