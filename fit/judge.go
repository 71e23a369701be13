package fit

import (
	"context"
	"fmt"
	"math"
	"slices"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// Judge estimates risks with the ŷ and π̂ of a fit, and says how far the estimates can be off.
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

	Engine engine.Engine // for the heavy computations; nil means engine.CPU with these Threads
}

// Judge returns a judge with the beliefs of this fit.
func (r *Result) Judge() *Judge {
	return &Judge{Predictor: r.predictor(), Posterior: r.Posterior, Threads: r.Settings.Threads,
		Engine: r.Settings.Engine}
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
func (j *Judge) Logits(ctx context.Context, p *graph.Pairs) (z, s []float32, err error) {
	return engine.Logits(ctx, j.engine(), j.Predictor, p)
}

func (j *Judge) engine() engine.Engine { return engine.OrCPU(j.Engine, j.Threads) }

// Judgement is an estimated mean over all pairs with its interval and what that is made of.
type Judgement struct {
	risk.Interval         // around the estimate less its bias; of the naive risk, around the estimate
	Plain         float64 `json:"plain"`     // the estimate before that
	Sampling      float64 `json:"sampling"`  // standard error from having sampled pairs
	Nuisance      float64 `json:"nuisance"`  // standard error from having estimated π̂ and ŷ; 0 without a posterior
	Bias          float64 `json:"bias"`      // in the replicates, on average
	BiasError     float64 `json:"biasError"` // the standard error of Bias
}

// Risk estimates the risk of predictions, given as logits, one per pair; nil means the judge's own.
func (j *Judge) Risk(ctx context.Context, v sample.Evidence, e risk.Estimator, predictions []float32) (Judgement,
	error) {
	return first(j.answer(ctx, question{Evidence: v, estimators: []risk.Estimator{e}, predictions: predictions}))
}

// Difference estimates by how much the risk of predictions is above that of others, both given as logits, one per
// pair; nil means the judge's own. What both have in common cancels: the pairs and, by masses that are probabilities
// as those of ap, much of what is not known of π̂ and ŷ. Where the intervals of two risks overlap, that of their
// difference may still be clear of 0.
func (j *Judge) Difference(ctx context.Context, v sample.Evidence, e risk.Estimator,
	predictions, others []float32) (Judgement, error) {
	return first(j.answer(ctx, question{Evidence: v, estimators: []risk.Estimator{e}, predictions: predictions,
		others: others, difference: true}))
}

func first(all []Judgement, err error) (Judgement, error) {
	if err != nil {
		return Judgement{}, err
	}
	return all[0], nil
}

// RiskPanel is what every estimator says of some predictions.
type RiskPanel struct {
	Risks    map[string]Judgement // by the schemes of risk.Panel and, over the pairs whose exposure is logged, dr
	MeanLink Judgement            // how common relevance is, whatever the predictions
}

// Panel estimates the risk of predictions by every scheme. ap is the one to report: its masses are
// probabilities. The floor is the least propensity that w and pu see; dr has no need of one.
func (j *Judge) Panel(ctx context.Context, v sample.Evidence, floor float64, predictions []float32) (*RiskPanel,
	error) {
	return j.panel(ctx, question{Evidence: v, predictions: predictions}, floor)
}

// Differences estimates by every scheme what Difference does by one.
func (j *Judge) Differences(ctx context.Context, v sample.Evidence, floor float64, predictions,
	others []float32) (map[string]Judgement, error) {
	p, err := j.panel(ctx, question{Evidence: v, predictions: predictions, others: others, difference: true}, floor)
	if err != nil {
		return nil, err
	}
	return p.Risks, nil
}

func (j *Judge) panel(ctx context.Context, q question, floor float64) (*RiskPanel, error) {
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
	out := &RiskPanel{Risks: map[string]Judgement{}, MeanLink: found[len(names)]}
	for i, name := range names {
		out.Risks[name] = found[i]
	}
	if q = q.logged(); q.robust() == nil {
		q.estimators = []risk.Estimator{{Scheme: risk.DR{}}}
		if found, err = j.answer(ctx, q); err != nil {
			return nil, err
		}
		out.Risks["dr"] = found[0]
	}
	return out, nil
}

// MeanLink estimates how common relevance is: the mean of ŷ over all pairs.
func (j *Judge) MeanLink(ctx context.Context, v sample.Evidence) (Judgement, error) {
	return j.Risk(ctx, v, meanLink, nil)
}

// meanLink has the mass ŷ at a loss of 1, whatever the prediction.
var meanLink = risk.Estimator{Scheme: risk.MassFunc(linkMass), Loss: fixedLoss{linked: 1}}

func linkMass(_ risk.Observation, b risk.Belief) risk.Mass { return risk.Mass{Positive: b.Link()} }

// question is what to estimate: the risk of predictions, or by how much it is above that of others.
type question struct {
	sample.Evidence
	estimators          []risk.Estimator
	predictions, others []float32 // logits, one per pair; nil means the judge's own
	difference          bool      // from the others
}

// logged asks the same of the pairs whose exposure is logged.
func (q question) logged() question {
	places := sample.Indices(len(q.Exposure), func(k int) bool {
		return q.Exposure[k] != risk.Unlogged && !q.Exposure[k].IsOffered()
	})
	q.Evidence = q.At(places)
	for _, logits := range []*[]float32{&q.predictions, &q.others} {
		if *logits != nil {
			*logits = sample.Column(*logits, places)
		}
	}
	return q
}

// fixedLoss is a loss that does not depend on the belief, so that slopes run through masses alone.
type fixedLoss struct{ linked, unlinked float64 }

func (l fixedLoss) Losses(risk.Belief) (linked, unlinked float64) { return l.linked, l.unlinked }
func (l fixedLoss) Slopes(risk.Belief) (linked, unlinked float64) { return 0, 0 }
func (l fixedLoss) Bound() float64                                { return math.Inf(1) }

// add adds the losses of a prediction under each estimator's loss, times a factor. Most have the default one, which is
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

// answer returns an estimate by each of the question's estimators. DR is asked for alone.
func (j *Judge) answer(ctx context.Context, q question) ([]Judgement, error) {
	if err := j.check(&q); err != nil {
		return nil, err
	}
	if _, robust := q.estimators[0].Scheme.(risk.DR); robust {
		return j.robust(ctx, &q)
	}
	w := newJudging(j, &q)
	gradients, err := j.engine().Scan(ctx, engine.Scan{Pairs: q.Pairs, Versions: w.versions, Totals: w.totals,
		Visit: w.visit})
	if err != nil {
		return nil, err
	}
	out := make([]Judgement, len(q.estimators))
	for i := range out {
		var gradient []float64
		if len(gradients) > 0 {
			gradient = gradients[i]
		}
		if out[i], err = w.conclude(i, gradient); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// check refuses a question that cannot be answered.
func (j *Judge) check(q *question) error {
	if err := j.Validate(); err != nil {
		return err
	}
	if q.Pairs == nil || q.Pairs.Len() == 0 {
		return fmt.Errorf("%w: no pairs to evaluate on; hold some out, by a split other than %s", ErrData,
			sample.Whole)
	}
	n := q.Pairs.Len()
	if q.predictions != nil && len(q.predictions) != n || q.others != nil && len(q.others) != n || q.Exposure != nil &&
		len(q.Exposure) != n {
		return fmt.Errorf("%w: %d pairs, %d and %d predictions, %d exposures", ErrShape, n, len(q.predictions),
			len(q.others), len(q.Exposure))
	}
	if q.difference && q.predictions == nil && q.others == nil {
		return fmt.Errorf("%w: the judge's own predictions do not differ from themselves; give others", ErrData)
	}
	return nil
}

// judging is the work on one question.
type judging struct {
	*question
	judge      *Judge
	nodes      model.Nodes // of which only the numbers are known, by which chance goes
	replicates []replicate
	versions   []engine.Predictor // the judge's own; then of every replicate its truth and its fit
	totals     []float64          // by estimator: what its sums are divided by
	own        float64            // how often the losses of the judge's own predictions count

	values [][]float64 // by estimator, then by pair: the risk
	unseen float64     // variance of the mean that the values do not show
	parts  [][]judged  // by chunk, then by estimator
}

// judged is what the replicates of a chunk of the evidence add up to for one estimator, by replicate.
type judged struct {
	estimate []float64 // Σ w·r of what is drawn there
	truth    []float64 // Σ w·(yδ(1) + (1−y)δ(0)) with the y that it is drawn from
	weight   []float64 // Σ w
}

func newJudging(j *Judge, q *question) *judging {
	w := &judging{question: q, judge: j, nodes: model.Nodes{Numbers: model.NumbersFor(j.Link)},
		versions: []engine.Predictor{j.Predictor},
		parts:    make([][]judged, engine.ScanChunks(q.Pairs.Len()))}
	var weight risk.Sum
	for _, x := range q.Pairs.Weight {
		weight.Add(x)
	}
	for _, e := range q.estimators {
		w.values = append(w.values, make([]float64, q.Pairs.Len()))
		if j.Posterior == nil {
			continue
		}
		total := weight.Value()
		if e.Universe > 0 {
			total = e.Universe
		}
		w.totals = append(w.totals, total)
	}
	if q.difference && q.others == nil {
		w.own = -1
	} else if q.predictions == nil {
		w.own = 1
	}
	if j.Posterior == nil {
		return w
	}
	w.replicates = j.Posterior.replicates
	for _, r := range w.replicates {
		exposure, truth := j.exposure(r.logits), engine.Predictor{Link: j.Link, LinkParams: r.truth}
		if j.Posterior.truth != nil {
			truth.Propensity, truth.PropensityParams = j.Propensity, j.exposure(j.Posterior.truth)
		}
		w.versions = append(w.versions, truth, engine.Predictor{Link: j.Link, LinkParams: r.link,
			Propensity: j.Propensity, PropensityParams: exposure})
	}
	return w
}

// exposure returns the parameters of the propensity model with those of the posterior put in.
func (j *Judge) exposure(logits []float32) []float32 {
	out := slices.Clone(j.PropensityParams)
	for c, x := range logits {
		out[j.Posterior.place(c)] = x
	}
	return out
}

// visit adds a portion of pairs to the sums.
func (w *judging) visit(at engine.Portion) error {
	n, count := at.To-at.From, len(w.estimators)
	w.open(at.Chunk)
	given, err := w.given(at)
	if err != nil {
		return err
	}
	beliefs, losses := make([]risk.Belief, n), make([]fixedLoss, n*count)
	believe := func(version int) (err error) {
		copy(losses, given)
		for k := range n {
			beliefs[k], err = risk.FromLogits(float64(at.Link[version][k]), float64(at.Propensity[version][k]))
			if err != nil {
				return err
			}
			if w.own != 0 {
				w.add(losses[k*count:], w.own, beliefs[k])
			}
		}
		return nil
	}
	if err := believe(0); err != nil {
		return err
	}
	for i, e := range w.estimators {
		for k := range n {
			e.Loss = &losses[k*count+i]
			value, g := e.Gradient(w.observation(at.From+k), beliefs[k])
			w.values[i][at.From+k] = value
			if w.totals != nil {
				at.LinkSlopes[i][k], at.PropensitySlopes[i][k] = g.Link, g.Propensity
			}
		}
	}
	for b := range w.replicates {
		if err := believe(2 + 2*b); err != nil {
			return err
		}
		w.replay(at, b, beliefs, losses)
	}
	return nil
}

// open makes room for the sums of a chunk.
func (w *judging) open(chunk int) {
	if w.parts[chunk] != nil {
		return
	}
	w.parts[chunk] = make([]judged, len(w.estimators))
	for i := range w.parts[chunk] {
		w.parts[chunk][i] = judged{estimate: make([]float64, len(w.replicates)),
			truth: make([]float64, len(w.replicates)), weight: make([]float64, len(w.replicates))}
	}
}

// given returns the losses of predictions that are given, by pair and estimator: less those of others, where the
// difference is estimated.
func (w *judging) given(at engine.Portion) ([]fixedLoss, error) {
	count := len(w.estimators)
	out := make([]fixedLoss, (at.To-at.From)*count)
	for _, of := range []struct {
		predictions []float32
		times       float64
	}{{w.predictions, 1}, {w.others, -1}} {
		if of.predictions == nil || of.times < 0 && !w.difference {
			continue
		}
		for k := range at.To - at.From {
			prediction, err := risk.FromLogits(float64(of.predictions[at.From+k]), 0)
			if err != nil {
				return nil, err
			}
			w.add(out[k*count:], of.times, prediction)
		}
	}
	return out, nil
}

// observation is what is seen of a pair.
func (w *judging) observation(k int) risk.Observation {
	seen := risk.Observation{Linked: w.Pairs.Linked[k]}
	if w.Exposure != nil {
		seen.Exposure = w.Exposure[k]
	}
	return seen
}

// replay draws what is seen in a replicate, and adds what its fit estimates from that beside what is true there.
func (w *judging) replay(at engine.Portion, b int, beliefs []risk.Belief, losses []fixedLoss) {
	count := len(w.estimators)
	for k := range at.To - at.From {
		past := w.draw(at, b, k)
		for i, e := range w.estimators {
			loss, part := &losses[k*count+i], &w.parts[at.Chunk][i]
			e.Loss = loss
			part.estimate[b] += past.weight * e.Risk(past.seen, beliefs[k])
			part.truth[b] += past.weight * (past.y*loss.linked + past.u*loss.unlinked)
			part.weight[b] += past.weight
		}
	}
}

// replayed is a pair in a replicate: what is seen of it, how probable its link is and is not, and its weight.
type replayed struct {
	seen         risk.Observation
	y, u, weight float64
}

// draw replays pair k of a portion in a replicate.
func (w *judging) draw(at engine.Portion, b, k int) (out replayed) {
	posterior, pairs, place := w.judge.Posterior, w.Pairs, at.From+k
	out.y, out.u = kern.Sigmoid64(float64(at.Link[1+2*b][k]))
	shown := at.Propensity[0]
	if posterior.truth != nil { // which depends on z, and so on that of the replicate
		shown = at.Propensity[1+2*b]
	}
	exposed, _ := kern.Sigmoid64(float64(shown[k]))
	rate := 1.
	if posterior.caseControl {
		rate = pairs.Rate[place]
	}
	past := chance{seed: posterior.seed, replicate: b, source: w.nodes.Number(pairs.Source[place]),
		target: w.nodes.Number(pairs.Target[place])}
	out.seen = past.outcome(out.y, exposed, rate, w.observation(place).Exposure)
	out.weight = pairs.Weight[place]
	switch was := pairs.Linked[place]; {
	case was && !out.seen.Linked: // sampled less often, it stands for more
		out.weight /= rate
	case !was && out.seen.Linked:
		out.weight *= rate
	}
	return out
}

// conclude makes the estimate of one estimator, given the gradient of its risk through the masses.
func (w *judging) conclude(i int, gradient []float64) (Judgement, error) {
	e, j := w.estimators[i], w.judge
	seen := risk.Sample{Values: w.values[i], Weights: w.Pairs.Weight, Sources: make([]int, w.Pairs.Len()),
		Universe: e.Universe, Unseen: w.unseen}
	for k, source := range w.Pairs.Source {
		seen.Sources[k] = int(source)
	}
	plain, err := seen.Mean()
	if err != nil {
		return Judgement{}, err
	}
	level := j.Level
	if level == 0 {
		level = .95
	}
	known, err := seen.Normal(level, risk.Nuisance{})
	if err != nil {
		return Judgement{}, err
	}
	out := Judgement{Interval: known, Plain: plain, Sampling: known.StandardError}
	if j.Posterior == nil {
		return out, nil
	}
	link, propensity := gradient[:j.Link.Size()], gradient[j.Link.Size():]
	asSeen, variance := j.Posterior.varianceAsSeen(link, propensity), j.Posterior.Variance(link, propensity)
	out.Nuisance = math.Sqrt(variance)
	out.Bias, out.BiasError = meanAndError(w.errors(i))
	if _, naive := e.Scheme.(risk.Naive); naive {
		return out, nil // it rests on neither π̂ nor ŷ, and a naive judge cannot estimate its bias
	}
	if replicates := len(w.replicates); replicates > 1 {
		spread := out.BiasError * out.BiasError
		variance += math.Max(spread*float64(replicates)-asSeen, 0) + spread // what is shown is the same in replicates
		variance *= math.Pow(few(replicates, level), 2)
	}
	out.Interval, err = seen.Normal(level, risk.Nuisance{Variance: variance, Bias: out.Bias})
	return out, err
}

// errors returns by how much an estimator is off in each replicate.
func (w *judging) errors(i int) []float64 {
	out := make([]float64, len(w.replicates))
	for b := range out {
		var estimate, truth, weight float64
		for _, part := range w.parts {
			estimate, truth, weight = estimate+part[i].estimate[b], truth+part[i].truth[b], weight+part[i].weight[b]
		}
		if universe := w.estimators[i].Universe; universe > 0 {
			weight = universe
		}
		out[b] = (estimate - truth) / weight
	}
	return out
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
