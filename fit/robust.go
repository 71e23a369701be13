package fit

import (
	"context"
	"fmt"
	"math"
	"slices"

	"unseen/engine"
	"unseen/risk"
)

// robust refuses evidence of which no doubly robust risk can be estimated.
func (q *question) robust() error {
	places := slices.IndexFunc(q.Exposure, func(e risk.Exposure) bool {
		return e == risk.Unlogged || e.IsOffered()
	})
	switch {
	case q.Exposure == nil || places >= 0:
		return fmt.Errorf("%w: R_DR is of pairs whose exposure is logged, and some are not; leave them out", ErrData)
	case !slices.Contains(q.Exposure, risk.Exposed):
		return fmt.Errorf("%w: R_DR needs pairs that were shown, and the log has none; log more", ErrData)
	case slices.Min(q.Pairs.Source) == slices.Max(q.Pairs.Source):
		return fmt.Errorf("%w: R_DR needs logged pairs of two sources or more; log more", ErrData)
	}
	return nil
}

// robustly is the work on the doubly robust risk of predictions, or of the predictions less that of others. How ŷ is
// targeted depends on all pairs that were shown, so that they are looked at before the risks are added up.
type robustly struct {
	*judging
	sides []*robustSide
}

// robustSide is one of the predictions.
type robustSide struct {
	predictions []float32 // nil means the judge's own
	sign        float64
	pairs       []risk.TargetPair     // all
	shown       [][][]risk.TargetPair // by replicate, then by chunk: what is shown there
	target      *risk.Target
	tilts       []risk.Tilt // by replicate
}

// robust answers a question by the doubly robust risk.
func (j *Judge) robust(ctx context.Context, q *question) ([]Judgement, error) {
	if err := q.robust(); err != nil {
		return nil, err
	}
	w := &robustly{judging: newJudging(j, q), sides: []*robustSide{{predictions: q.predictions, sign: 1}}}
	if q.difference {
		w.sides = append(w.sides, &robustSide{predictions: q.others, sign: -1})
	}
	for _, s := range w.sides {
		s.pairs = make([]risk.TargetPair, q.Pairs.Len())
		s.shown = make([][][]risk.TargetPair, len(w.replicates))
		for b := range s.shown {
			s.shown[b] = make([][]risk.TargetPair, len(w.parts))
		}
	}
	scan := engine.Scan{Pairs: q.Pairs, Versions: w.versions, Visit: w.collect}
	if _, err := j.engine().Scan(ctx, scan); err != nil {
		return nil, err
	}
	if err := w.target(); err != nil {
		return nil, err
	}
	var gradient []float64
	if w.totals != nil {
		scan.Totals, scan.Visit = w.totals, w.add
		gradients, err := j.engine().Scan(ctx, scan)
		if err != nil {
			return nil, err
		}
		gradient = gradients[0]
	}
	found, err := w.conclude(0, gradient)
	if err != nil {
		return nil, err
	}
	return []Judgement{w.bounded(found)}, nil
}

// collect keeps the pairs of a portion and, of each replicate, what is shown there.
func (w *robustly) collect(at engine.Portion) error {
	for k := range at.To - at.From {
		place := at.From + k
		for _, s := range w.sides {
			p, err := w.pair(s, at, 0, k)
			if err != nil {
				return err
			}
			p.Weight, p.Outcome = w.Pairs.Weight[place], w.Pairs.Linked[place]
			if w.Exposure[place] != risk.Exposed {
				p.Inverse = 0
			}
			s.pairs[place] = p
		}
		for b := range w.replicates {
			past := w.draw(at, b, k)
			if past.seen.Exposure != risk.Exposed {
				continue
			}
			for _, s := range w.sides {
				p, err := w.pair(s, at, 2+2*b, k)
				if err != nil {
					return err
				}
				p.Weight, p.Outcome = past.weight, past.seen.Linked
				s.shown[b][at.Chunk] = append(s.shown[b][at.Chunk], p)
			}
		}
	}
	return nil
}

// pair returns what a version says of pair k of a portion, as if it had been shown.
func (w *robustly) pair(s *robustSide, at engine.Portion, version, k int) (risk.TargetPair, error) {
	z := float64(at.Link[version][k])
	belief, err := risk.FromLogits(z, float64(at.Propensity[version][k]))
	if err != nil {
		return risk.TargetPair{}, err
	}
	prediction, e := belief, w.estimators[0]
	if s.predictions != nil {
		if prediction, err = risk.FromLogits(float64(s.predictions[at.From+k]), 0); err != nil {
			return risk.TargetPair{}, err
		}
	}
	belief = belief.Floored(e.Floor)
	p := risk.TargetPair{Logit: z, Inverse: belief.InversePropensity(), Clipped: belief.Clipped()}
	if e.Loss == nil {
		e.Loss = risk.LogLoss{}
	}
	p.Linked, p.Unlinked = e.Loss.Losses(prediction)
	return p, nil
}

// target moves ŷ for each side, as it is and in every replicate.
func (w *robustly) target() (err error) {
	for _, s := range w.sides {
		if s.target, err = risk.NewTarget(s.pairs); err != nil {
			return err
		}
		for _, shown := range s.shown {
			tilt, err := risk.NewTilt(slices.Concat(shown...))
			if err != nil {
				return err
			}
			s.tilts = append(s.tilts, tilt)
		}
		s.shown = nil
	}
	var others *risk.Target
	if len(w.sides) > 1 {
		others = w.sides[1].target
	}
	w.values[0], w.unseen = w.sides[0].target.Values(others)
	return nil
}

// add adds a portion to the gradient, and to what the replicates estimate beside what is true there.
func (w *robustly) add(at engine.Portion) error {
	w.open(at.Chunk)
	part := &w.parts[at.Chunk][0]
	for k := range at.To - at.From {
		at.LinkSlopes[0][k], at.PropensitySlopes[0][k] = 0, 0
		for _, s := range w.sides {
			link, propensity := s.target.Slopes(at.From + k)
			at.LinkSlopes[0][k] += s.sign * link
			at.PropensitySlopes[0][k] += s.sign * propensity
		}
		for b := range w.replicates {
			past := w.draw(at, b, k)
			for _, s := range w.sides {
				p, err := w.pair(s, at, 2+2*b, k)
				if err != nil {
					return err
				}
				part.estimate[b] += s.sign * past.weight * s.tilts[b].Risk(&p)
				part.truth[b] += s.sign * past.weight * (past.y*p.Linked + past.u*p.Unlinked)
			}
			part.weight[b] += past.weight
		}
	}
	return nil
}

// bounded keeps a judgement within what the losses allow.
func (w *robustly) bounded(j Judgement) Judgement {
	low, high := w.sides[0].target.Low, w.sides[0].target.High
	if len(w.sides) > 1 {
		others := w.sides[1].target
		low, high = low-others.High, high-others.Low
	}
	if universe := w.estimators[0].Universe; universe > 0 {
		var weight risk.Sum
		for _, x := range w.Pairs.Weight {
			weight.Add(x)
		}
		low, high = low*weight.Value()/universe, high*weight.Value()/universe
	}
	for _, x := range []*float64{&j.Estimate, &j.Lower, &j.Upper} {
		*x = math.Min(math.Max(*x, low), high)
	}
	return j
}
