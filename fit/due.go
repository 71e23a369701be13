package fit

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"unseen/engine"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
	"unseen/sample"
)

// RefreshFindings say how far a refreshed model is from the last full training, and whether another is due.
//
// While nothing but chance changes, the mode of n·(1+s) pairs is about √s standard deviations of the posterior away
// from that of n of them, in every direction: that is the score test of the new pairs under the earlier prior. So moves
// are counted in standard deviations. Within the bounds of all four numbers, what is carried over from the full
// training is as good as new.
type RefreshFindings struct {
	Full     time.Time `json:"full,omitzero"` // when the last full training was
	Number   int       `json:"number"`        // refreshes since then, this one included
	Links    int       `json:"links"`         // training links then
	Logged   int       `json:"logged"`        // training pairs with known exposure then, logged or offered
	NewShare float64   `json:"newShare"`      // how many more or fewer there are now, of links or of those, as a share
	// Relevance is by how many standard deviations of its posterior the logit of a pair's ŷ has moved, root mean
	// square; of a method without a posterior, of its spread over the pairs.
	Relevance float64 `json:"relevance"`
	// Exposure is by how many standard errors the logit of the mean π̂ of two fields has moved, where that is most.
	Exposure float64  `json:"exposure"`
	Due      bool     `json:"due"`           // a full training is due
	Why      []string `json:"why,omitempty"` // in plain words
}

// Up to where a refresh is as good as a full training. At a share of new links of mostNew the moves are about √mostNew
// by chance, and the largest of some hundred field pairs three times that.
const (
	mostNew       = .05
	mostRelevance = .5
	mostExposure  = 1
	mostRefreshes = 50
	// of a method without a posterior
	mostSpread = .35
)

// Due says why a full training is due rather than a refresh, as far as that is known before it: none where it is not.
func (e Earlier) Due(p sample.Problem) (why []string, err error) {
	from := &earlier{Earlier: e}
	if err := from.read(); err != nil {
		return nil, err
	}
	if before := from.findings.Refresh; before != nil && before.Due {
		return before.Why, nil
	}
	now := Support{}
	for k, linked := range p.Train.Linked {
		if linked {
			now.Links++
		}
		if p.Exposure != nil && p.Exposure[k] != risk.Unlogged {
			now.Logged++
		}
	}
	f := from.since(now)
	f.decide(from.posterior != nil)
	return f.Why, nil
}

// since counts how much is new since the last full training.
func (e *earlier) since(now Support) *RefreshFindings {
	f := &RefreshFindings{Full: e.Made.UTC(), Number: 1, Links: e.findings.Support.Links,
		Logged: e.findings.Support.shown()}
	if before := e.findings.Refresh; before != nil {
		f.Full, f.Number, f.Links, f.Logged = before.Full, before.Number+1, before.Links, before.Logged
	}
	f.NewShare = math.Max(changed(f.Links, now.Links), changed(f.Logged, now.shown()))
	return f
}

// shown is how many pairs have an exposure that is known.
func (s Support) shown() int { return s.Logged + s.Offered }

// carry takes over what the full training found by fitting many times.
func (d *diagnosis) carry(from *Findings) {
	d.found.Lists, d.found.Starts, d.found.Bounds = from.Lists, from.Starts, from.Bounds
	d.found.Ridge, d.found.Prescription = from.Ridge, from.Prescription
	if d.result.Posterior != nil { // by a fit that does not see the log
		d.found.Logged = from.Logged
	}
}

// earlierError returns the standard error that the mean π̂ of two fields had, by replicates; 0 where it had none.
func (d *diagnosis) earlierError(of fieldPair) float64 {
	if e := d.result.earlier; e != nil {
		for _, c := range e.findings.Cells {
			if c.Source == of.source && c.Target == of.target {
				return c.LogitError
			}
		}
	}
	return 0
}

// sinceFull finds how far the model is from the last full training.
func (d *diagnosis) sinceFull(ctx context.Context) error {
	e := d.result.earlier
	if e == nil {
		return nil
	}
	f := e.since(d.found.Support)
	d.found.Refresh = f
	if err := d.movedRelevance(ctx, f); err != nil {
		return err
	}
	if err := d.movedExposure(ctx, f); err != nil {
		return err
	}
	f.decide(d.result.Posterior != nil)
	return nil
}

// changed returns by what share a number changed; of none, anything is all.
func changed(before, now int) float64 {
	if before == now {
		return 0
	}
	return math.Abs(float64(now-before)) / float64(max(before, 1))
}

// full is the model of the last full training.
func (d *diagnosis) full() engine.Predictor {
	r, e := d.result, d.result.earlier
	return engine.Predictor{Link: r.Link, LinkParams: e.fullLink, Propensity: r.Propensity,
		PropensityParams: e.fullPropensity}
}

// movedRelevance compares the logits of ŷ of some training pairs.
func (d *diagnosis) movedRelevance(ctx context.Context, f *RefreshFindings) error {
	r := d.result
	pairs := d.problem.Training().At(spaced(d.problem.Train.Len(), min(d.problem.Train.Len(), movedPairs))).Pairs
	before, _, err := engine.Logits(ctx, r.Settings.engine(), d.full(), pairs)
	if err != nil {
		return err
	}
	after, _, err := engine.Logits(ctx, r.Settings.engine(), r.predictor(), pairs)
	if err != nil {
		return err
	}
	var moved, mean, square float64
	n := float64(len(after))
	for k, z := range after {
		move := float64(z - before[k])
		moved += move * move / n
		mean += float64(z) / n
		square += float64(z) * float64(z) / n
	}
	spread := square - mean*mean
	if r.Posterior != nil {
		spread = d.logitVariance(pairs.Source, pairs.Target)
	}
	if moved > 0 {
		f.Relevance = math.Sqrt(moved / math.Max(spread, 1e-12))
	}
	return nil
}

// movedPairs is how many pairs the move of ŷ is seen by, and variancePairs by how many of these its standard deviation.
const (
	movedPairs    = 1 << 14
	variancePairs = 1 << 6
)

// logitVariance returns the mean posterior variance of z over some of the pairs.
func (d *diagnosis) logitVariance(source, target []int32) (sum float64) {
	r := d.result
	places := spaced(len(source), min(len(source), variancePairs))
	gradient := make([]float64, r.Link.Size())
	for _, k := range places {
		slope := make([]float32, r.Link.Size())
		r.Link.Backward(slope, r.LinkParams, model.Batch{Sources: source[k : k+1], Targets: target[k : k+1]},
			[]float32{1})
		for i, x := range slope {
			gradient[i] = float64(x)
		}
		sum += r.Posterior.Variance(gradient, nil) / float64(len(places))
	}
	return sum
}

// leastUnsure is the least standard error that a move of π̂ is compared with: what moves by less changes nothing.
const leastUnsure = .05

// movedExposure compares the mean π̂ of every pair of fields. Where it has no standard error, that of its logarithm is
// taken for 1/√links, as the links of the field pair have it, and a tenth.
func (d *diagnosis) movedExposure(ctx context.Context, f *RefreshFindings) error {
	if d.result.Propensity.Size() == 0 {
		return nil
	}
	train, shown := d.problem.Train, map[*cellSum]float64{}
	logits := make([]float32, min(train.Len(), logitsAtOnce))
	before := d.full().Exposure()
	for first := 0; first < train.Len(); first += len(logits) {
		count := min(len(logits), train.Len()-first)
		_, err := d.result.Settings.engine().Scan(ctx, engine.Scan{Pairs: pairsBetween(train, first, first+count),
			Versions: []engine.Predictor{before}, Portion: engine.ScanChunk, Visit: func(at engine.Portion) error {
				copy(logits[at.From:at.To], at.Propensity[0])
				return nil
			}})
		if err != nil {
			return err
		}
		for i, s := range logits[:count] {
			pi, _ := kern.Sigmoid64(float64(s))
			shown[d.cellOf(first+i)] += train.Weight[first+i] * pi
		}
	}
	logit := func(p float64) float64 {
		p = math.Max(1e-12, math.Min(1-1e-12, p))
		return math.Log(p / (1 - p))
	}
	for k, c := range d.cells {
		now := c.propensity()
		unsure := math.Max(d.found.Cells[k].LogitError, leastUnsure)
		if d.found.Cells[k].LogitError == 0 {
			unsure = math.Hypot(1/math.Sqrt(float64(c.links)+1), 2*leastUnsure) / (1 - math.Min(now, .99))
		}
		f.Exposure = math.Max(f.Exposure, math.Abs(logit(now)-logit(shown[c]/c.weight))/unsure)
	}
	return nil
}

// decide says whether a full training is due, and why.
func (f *RefreshFindings) decide(posterior bool) {
	say := func(when bool, format string, a ...any) {
		if when {
			f.Due, f.Why = true, append(f.Why, fmt.Sprintf(format, a...))
		}
	}
	say(f.NewShare > mostNew, "%s of the links or logged pairs have come or gone since the last one, and a refresh is "+
		"for up to %s", percent(f.NewShare), percent(mostNew))
	if posterior {
		say(f.Relevance > mostRelevance, "ŷ has moved by %.2g standard deviations of its posterior, and up to %g are "+
			"chance", f.Relevance, mostRelevance)
	} else {
		say(f.Relevance > mostSpread, "ŷ has moved by %s of its spread, and up to %s is little", percent(f.Relevance),
			percent(mostSpread))
	}
	say(f.Exposure > mostExposure, "π̂ of a pair of fields has moved by %.2g standard errors, and up to %d is chance",
		f.Exposure, mostExposure)
	say(f.Number >= mostRefreshes, "it was refreshed %d times since the last one", f.Number)
}

// sayRefresh says what of the findings is not new, and whether a full training is due.
func (f *Findings) sayRefresh() {
	r := f.Refresh
	if r == nil {
		return
	}
	when := ""
	if !r.Full.IsZero() {
		when = " of " + r.Full.UTC().Format(time.DateOnly)
	}
	carried := "how well its numbers are known"
	if f.Set != nil {
		carried = "which assumptions explain the links, what these make of lists, and the errors by replicates"
	}
	f.say("This model is refresh %d of the full training%s. From that training it has %s.", r.Number, when, carried)
	if r.Due {
		f.say("A full training is due: %s.", strings.Join(r.Why, "; "))
		f.advise("train in full")
	}
}
