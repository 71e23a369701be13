package fit

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// Judge estimates risks with what a fit believes of links and exposure, and says how far the
// estimates can be off.
//
// A risk's masses are made of ŷ and π̂, which are estimated: an interval that only resamples the
// pairs takes them for known and is far too narrow. With V the posterior's covariance and r̄(θ) the
// mean risk as a function of the parameters through its masses,
//
//	R̂ − b ± 1.96·√(SE² + c²·(max(∇r̄ᵀV∇r̄, v) + v/K))
//
// where SE is the standard error of the mean with pairs clustered by source, b the mean over the
// posterior's K replicates of (estimate − truth), known there, v the variance of that difference,
// and c the ratio of Student's quantile with K−1 degrees of freedom to the normal one, since K is
// small. The delta method alone was a fifth too sure of itself. The predictions that are judged are
// held fixed: the question is the risk of this model as it stands, not of the one that more data
// would have given, so that no slope runs through the loss, for the model's own predictions as
// little as for another's.
type Judge struct {
	engine.Predictor
	Posterior *Posterior // nil for methods that have none: intervals then take π̂ and ŷ for known

	Level   float64 // nominal coverage; 0 means .95
	Threads int     // 0 means all processors; results do not depend on it
}

// Judge returns a judge with the beliefs of this fit.
func (r *Result) Judge() *Judge {
	return &Judge{Predictor: r.predictor(), Posterior: r.Posterior, Threads: r.Settings.Threads}
}

// predictor returns both fitted models.
func (r *Result) predictor() engine.Predictor {
	return engine.Predictor{Link: r.Link, LinkParams: r.LinkParams, Propensity: r.Propensity,
		PropensityParams: r.PropensityParams}
}

// JudgeOf returns a judge with the beliefs of a model file.
func JudgeOf(m model.Model) (*Judge, error) {
	posterior, err := PosteriorOf(m)
	if err != nil {
		return nil, err
	}
	return &Judge{Predictor: engine.Predictor{Link: m.Link, LinkParams: m.LinkParams, Propensity: m.Propensity,
		PropensityParams: m.PropensityParams}, Posterior: posterior}, nil
}

// Validate refuses a judge without models.
func (j *Judge) Validate() error {
	if j == nil || j.Link == nil || j.Propensity == nil {
		return fmt.Errorf("%w: a judge without models; take that of a result, Result.Judge, or of a model file, "+
			"JudgeOf", ErrSetting)
	}
	return nil
}

// Logits returns the logits of ŷ and of π̂ of every pair.
func (j *Judge) Logits(p *graph.Pairs) (z, s []float32) {
	z, s = make([]float32, p.Len()), make([]float32, p.Len())
	kern.Chunks(p.Len(), 4096, kern.Threads(j.Threads), func(_, _, from, to int) {
		b := model.Batch{Sources: p.Source[from:to], Targets: p.Target[from:to]}
		j.Link.Logits(z[from:to], j.LinkParams, b)
		j.Propensity.Logits(s[from:to], j.PropensityParams, b)
	})
	return z, s
}

// Estimate is an estimated mean over all pairs with its interval and what that is made of.
type Estimate struct {
	risk.Interval         // around the estimate less its bias; of the naive risk, around the estimate
	Plain         float64 `json:"plain"`     // the estimate before that
	Sampling      float64 `json:"sampling"`  // standard error from having sampled pairs
	Nuisance      float64 `json:"nuisance"`  // standard error from having estimated π̂ and ŷ; 0 without a posterior
	Bias          float64 `json:"bias"`      // in the replicates, on average
	BiasError     float64 `json:"biasError"` // the standard error of Bias
}

// Risk estimates the risk of predictions, given as logits, one per pair; nil means the judge's own.
func (j *Judge) Risk(ctx context.Context, v sample.Evidence, e risk.Estimator, predictions []float32) (Estimate,
	error) {
	out, err := j.answer(ctx, question{Evidence: v, estimators: []risk.Estimator{e}, predictions: predictions})
	if err != nil {
		return Estimate{}, err
	}
	return out[0], nil
}

// Difference estimates by how much the risk of predictions is above that of others, both given as logits, one per
// pair; nil means the judge's own. What both have in common falls out, the pairs and, by masses that are probabilities
// as those of ap, much of what is not known of π̂ and ŷ: where the intervals of two risks overlap, that of their
// difference may still be clear of 0.
func (j *Judge) Difference(ctx context.Context, v sample.Evidence, e risk.Estimator,
	predictions, others []float32) (Estimate, error) {
	out, err := j.answer(ctx, question{Evidence: v, estimators: []risk.Estimator{e}, predictions: predictions,
		others: others, difference: true})
	if err != nil {
		return Estimate{}, err
	}
	return out[0], nil
}

// Panel is what every estimator says of some predictions.
type Panel struct {
	Risks    map[string]Estimate // by the schemes of risk.Panel and, over the pairs whose exposure is logged, dr
	MeanLink Estimate            // how common relevance is, whatever the predictions
}

// Panel estimates the risk of predictions by every scheme. ap is the one to report: its masses are
// probabilities. The floor is the least propensity that w, pu and dr see.
func (j *Judge) Panel(ctx context.Context, v sample.Evidence, floor float64, predictions []float32) (*Panel, error) {
	return j.panel(ctx, question{Evidence: v, predictions: predictions}, floor)
}

// Differences estimates by every scheme what Difference does by one.
func (j *Judge) Differences(ctx context.Context, v sample.Evidence, floor float64, predictions,
	others []float32) (map[string]Estimate, error) {
	p, err := j.panel(ctx, question{Evidence: v, predictions: predictions, others: others, difference: true}, floor)
	if err != nil {
		return nil, err
	}
	return p.Risks, nil
}

func (j *Judge) panel(ctx context.Context, q question, floor float64) (*Panel, error) {
	names := risk.Panel()
	for _, name := range names {
		scheme, err := risk.Lookup(name)
		if err != nil {
			return nil, err
		}
		q.estimators = append(q.estimators, risk.Estimator{Scheme: scheme, Floor: floor})
	}
	q.estimators = append(q.estimators, meanLink)
	found, err := j.answer(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &Panel{Risks: map[string]Estimate{}, MeanLink: found[len(names)]}
	for i, name := range names {
		out.Risks[name] = found[i]
	}
	if q = q.logged(); q.Pairs.Len() > 1 {
		q.estimators = []risk.Estimator{{Scheme: risk.DR{}, Floor: floor}}
		if found, err = j.answer(ctx, q); err != nil {
			return nil, err
		}
		out.Risks["dr"] = found[0]
	}
	return out, nil
}

// MeanLink estimates how common relevance is: the mean of ŷ over all pairs.
func (j *Judge) MeanLink(ctx context.Context, v sample.Evidence) (Estimate, error) {
	return j.Risk(ctx, v, meanLink, nil)
}

// meanLink has the mass ŷ at a loss of 1, whatever the prediction.
var meanLink = risk.Estimator{Scheme: risk.MassFunc(linkMass), Loss: fixedLoss{linked: 1}}

func linkMass(_ risk.Observation, b risk.Belief) risk.Mass { return risk.Mass{Positive: b.Link()} }

// question is what a judge is asked: the risk of predictions, or by how much it is above that of others.
type question struct {
	sample.Evidence
	estimators          []risk.Estimator
	predictions, others []float32 // logits, one per pair; nil means the judge's own
	difference          bool      // from the others
}

// logged asks the same of the pairs whose exposure is logged.
func (q question) logged() question {
	out := q
	out.Pairs, out.Exposure, out.predictions, out.others = &graph.Pairs{Universe: q.Pairs.Universe}, nil, nil, nil
	for k, e := range q.Exposure {
		if e == risk.Unlogged || e == risk.Offered {
			continue
		}
		p := out.Pairs
		p.Source, p.Target, p.Linked = append(p.Source, q.Pairs.Source[k]), append(p.Target, q.Pairs.Target[k]),
			append(p.Linked, q.Pairs.Linked[k])
		p.Weight, p.Rate = append(p.Weight, q.Pairs.Weight[k]), append(p.Rate, q.Pairs.Rate[k])
		out.Exposure = append(out.Exposure, e)
		if q.predictions != nil {
			out.predictions = append(out.predictions, q.predictions[k])
		}
		if q.others != nil {
			out.others = append(out.others, q.others[k])
		}
	}
	return out
}

// fixedLoss is a loss that does not look at the belief, so that slopes run through masses alone.
type fixedLoss struct{ linked, unlinked float64 }

func (l fixedLoss) Losses(risk.Belief) (linked, unlinked float64) { return l.linked, l.unlinked }
func (l fixedLoss) Slopes(risk.Belief) (linked, unlinked float64) { return 0, 0 }
func (l fixedLoss) Bound() float64                                { return math.Inf(1) }

// add adds so many times the losses of a prediction under each estimator's loss. Most have the default one, which is
// found once.
func (q *question) add(losses []fixedLoss, times float64, prediction risk.Belief) {
	linked, unlinked := risk.LogLoss{}.Losses(prediction)
	for i, e := range q.estimators {
		a, b := linked, unlinked
		if e.Loss != nil {
			a, b = e.Loss.Losses(prediction)
		}
		losses[i].linked += times * a
		losses[i].unlinked += times * b
	}
}

// stretch is how many pairs go through the models at a time: few enough that their vectors stay in the cache for all
// replicates.
const stretch = 64

// judged is what a chunk of the evidence adds up to for one estimator.
type judged struct {
	link, propensity []float64 // Σ w·∂r, through the masses
	estimate         []float64 // by replicate: Σ w·r of what is drawn there
	truth            []float64 // by replicate: Σ w·(yδ(1) + (1−y)δ(0)) with the y that it is drawn from
	weight           []float64 // by replicate: Σ w
}

// answer returns an estimate by each of the question's estimators.
func (j *Judge) answer(ctx context.Context, q question) ([]Estimate, error) {
	if err := j.Validate(); err != nil {
		return nil, err
	}
	if q.Pairs == nil || q.Pairs.Len() == 0 {
		return nil, fmt.Errorf("%w: there are none to judge by; hold some out, by a split other than %s", ErrData,
			sample.Whole)
	}
	n := q.Pairs.Len()
	if q.predictions != nil && len(q.predictions) != n || q.others != nil && len(q.others) != n || q.Exposure != nil &&
		len(q.Exposure) != n {
		return nil, fmt.Errorf("%w: %d pairs, %d and %d predictions, %d exposures", ErrShape, n, len(q.predictions),
			len(q.others), len(q.Exposure))
	}
	if q.difference && q.predictions == nil && q.others == nil {
		return nil, fmt.Errorf("%w: the judge's own predictions differ from themselves by nothing; give others",
			ErrData)
	}
	const chunk = 4096
	var replicates []replicate
	if j.Posterior != nil {
		replicates = j.Posterior.replicates
	}
	values := make([][]float64, len(q.estimators))
	for i := range values {
		values[i] = make([]float64, n)
	}
	parts := make([][]judged, (n+chunk-1)/chunk)
	failed := make([]error, len(parts))
	kern.Chunks(n, chunk, kern.Threads(j.Threads), func(_, number, from, to int) {
		parts[number] = make([]judged, len(q.estimators))
		for i := range parts[number] {
			parts[number][i] = judged{
				link: make([]float64, j.Link.Size()), propensity: make([]float64, j.Propensity.Size()),
				estimate: make([]float64, len(replicates)), truth: make([]float64, len(replicates)),
				weight: make([]float64, len(replicates)),
			}
		}
		for ; from < to && failed[number] == nil; from += stretch {
			if failed[number] = ctx.Err(); failed[number] == nil {
				failed[number] = j.judge(&q, from, min(from+stretch, to), replicates, values, parts[number])
			}
		}
	})
	for _, err := range failed {
		if err != nil {
			return nil, err
		}
	}
	out := make([]Estimate, len(q.estimators))
	for i, e := range q.estimators {
		var err error
		if out[i], err = j.conclude(q.Evidence, e, values[i], parts, i, len(replicates)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// judge adds a stretch of pairs to what they come to.
func (j *Judge) judge(q *question, from, to int, replicates []replicate, values [][]float64, parts []judged) error {
	n, count := to-from, len(q.estimators)
	batch := model.Batch{Sources: q.Pairs.Source[from:to], Targets: q.Pairs.Target[from:to]}
	var z, s, truth, dz, ds [stretch]float32
	j.Link.Logits(z[:n], j.LinkParams, batch)
	j.Propensity.Logits(s[:n], j.PropensityParams, batch)
	// Of a pair, losses for each estimator: given are those of predictions that are given.
	beliefs, losses, given := make([]risk.Belief, n), make([]fixedLoss, n*count), make([]fixedLoss, n*count)
	own := 0. // how often those of the judge's own predictions count
	for _, of := range []struct {
		predictions []float32
		times       float64
	}{{q.predictions, 1}, {q.others, -1}} {
		switch {
		case of.times < 0 && !q.difference:
		case of.predictions == nil:
			own = of.times
		default:
			for k := range n {
				prediction, err := risk.FromLogits(float64(of.predictions[from+k]), 0)
				if err != nil {
					return err
				}
				q.add(given[k*count:], of.times, prediction)
			}
		}
	}
	believe := func(z, s []float32) (err error) {
		copy(losses, given)
		for k := range n {
			if beliefs[k], err = risk.FromLogits(float64(z[k]), float64(s[k])); err != nil {
				return err
			}
			if own != 0 {
				q.add(losses[k*count:], own, beliefs[k])
			}
		}
		return nil
	}
	if err := believe(z[:], s[:]); err != nil {
		return err
	}
	link, propensity := make([]float32, j.Link.Size()), make([]float32, j.Propensity.Size())
	for i, e := range q.estimators {
		clear(link)
		clear(propensity)
		for k := range n {
			seen := risk.Observation{Linked: q.Pairs.Linked[from+k]}
			if q.Exposure != nil {
				seen.Exposure = q.Exposure[from+k]
			}
			e.Loss = &losses[k*count+i]
			value, g := e.Gradient(seen, beliefs[k])
			w := q.Pairs.Weight[from+k] / q.Pairs.Weight[0] // near 1, for float32
			values[i][from+k] = value
			dz[k], ds[k] = float32(w*g.Link), float32(w*g.Propensity)
		}
		if j.Posterior == nil {
			continue
		}
		j.Link.Backward(link, j.LinkParams, batch, dz[:n])
		j.Propensity.Backward(propensity, j.PropensityParams, batch, ds[:n])
		for k, g := range link {
			parts[i].link[k] += float64(g) * q.Pairs.Weight[0]
		}
		for k, g := range propensity {
			parts[i].propensity[k] += float64(g) * q.Pairs.Weight[0]
		}
	}
	if len(replicates) == 0 {
		return nil
	}
	params := append([]float32(nil), j.PropensityParams...)
	var again, shown [stretch]float32
	var exposed [stretch]float64
	for k := range n {
		exposed[k], _ = kern.Sigmoid64(float64(s[k]))
	}
	for b, r := range replicates {
		j.Link.Logits(truth[:n], r.truth, batch)
		j.Link.Logits(again[:n], r.link, batch)
		for c, at := range j.Posterior.Cells {
			params[at] = r.logits[c]
		}
		j.Propensity.Logits(shown[:n], params, batch)
		if err := believe(again[:], shown[:]); err != nil {
			return err
		}
		for k := range n {
			y, u := kern.Sigmoid64(float64(truth[k]))
			rate := 1.
			if j.Posterior.caseControl {
				rate = q.Pairs.Rate[from+k]
			}
			past := history{seed: j.Posterior.seed, replicate: b, source: batch.Sources[k], target: batch.Targets[k]}
			as := risk.Unlogged
			if q.Exposure != nil {
				as = q.Exposure[from+k]
			}
			seen := past.happen(y, exposed[k], rate, as)
			w := q.Pairs.Weight[from+k]
			switch was := q.Pairs.Linked[from+k]; {
			case was && !seen.Linked: // sampled less often, it stands for more
				w /= rate
			case !was && seen.Linked:
				w *= rate
			}
			for i, e := range q.estimators {
				loss := &losses[k*count+i]
				e.Loss = loss
				parts[i].estimate[b] += w * e.Risk(seen, beliefs[k])
				parts[i].truth[b] += w * (y*loss.linked + u*loss.unlinked)
				parts[i].weight[b] += w
			}
		}
	}
	return nil
}

// conclude adds the chunks of one estimator up.
func (j *Judge) conclude(v sample.Evidence, e risk.Estimator, values []float64, parts [][]judged, i,
	replicates int) (Estimate, error) {
	sample := risk.Sample{Values: values, Weights: v.Pairs.Weight, Sources: make([]int, len(values)),
		Universe: e.Universe}
	var weight risk.Sum
	for k, source := range v.Pairs.Source {
		sample.Sources[k] = int(source)
		weight.Add(v.Pairs.Weight[k])
	}
	plain, err := sample.Mean()
	if err != nil {
		return Estimate{}, err
	}
	level := j.Level
	if level == 0 {
		level = .95
	}
	known, err := sample.Normal(level, risk.Nuisance{})
	if err != nil {
		return Estimate{}, err
	}
	out := Estimate{Interval: known, Plain: plain, Sampling: known.StandardError}
	if j.Posterior == nil {
		return out, nil
	}
	total := weight.Value()
	if e.Universe > 0 {
		total = e.Universe
	}
	link, propensity := make([]float64, j.Link.Size()), make([]float64, j.Propensity.Size())
	errs := make([]float64, replicates)
	for b := range errs {
		var estimate, truth, weight float64
		for _, p := range parts {
			estimate, truth, weight = estimate+p[i].estimate[b], truth+p[i].truth[b], weight+p[i].weight[b]
		}
		if e.Universe > 0 {
			weight = e.Universe
		}
		errs[b] = (estimate - truth) / weight
	}
	for _, p := range parts {
		for k, g := range p[i].link {
			link[k] += g / total
		}
		for k, g := range p[i].propensity {
			propensity[k] += g / total
		}
	}
	out.Nuisance = math.Sqrt(j.Posterior.Variance(link, propensity))
	out.Bias, out.BiasError = meanAndError(errs)
	if _, naive := e.Scheme.(risk.Naive); naive {
		return out, nil // it rests on neither π̂ nor ŷ, and a naive judge would not know of its bias
	}
	variance := out.Nuisance * out.Nuisance
	if replicates > 1 {
		spread := out.BiasError * out.BiasError
		variance = math.Max(variance, spread*float64(replicates)) + spread
		few := distuv.StudentsT{Sigma: 1, Nu: float64(replicates - 1)}.Quantile((1+
			level)/2) / distuv.UnitNormal.Quantile((1+level)/2)
		variance *= few * few
	}
	out.Interval, err = sample.Normal(level, risk.Nuisance{Variance: variance, Bias: out.Bias})
	return out, err
}

// meanAndError returns a mean and its standard error; zeros for fewer than two numbers.
func meanAndError(xs []float64) (mean, se float64) {
	n := float64(len(xs))
	if n < 2 {
		return 0, 0
	}
	for _, x := range xs {
		mean += x / n
	}
	for _, x := range xs {
		se += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(se / (n - 1) / n)
}
