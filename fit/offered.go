package fit

import (
	"context"
	"math"

	"unseen/engine"
	"unseen/internal/kern"
	"unseen/risk"
	"unseen/sample"
)

// OfferedTest compares what became of pairs that were shown on purpose with what the fit, which saw them too, expects:
// whether relevance has a ceiling, y = c·σ(z). By links a c < 1 cannot be told from rarer exposure. With t what the fit
// expects, the test is that of the slope in a logit of t that bends where t is high,
//
//	U = Σ t·u,   Var U = Σ t²·I − bᵀVb,   b = Σ t·I·∂logit t/∂θ,
//
// with u = o − t and I = t(1−t) the slope and the information of Ber(o; t), or those of Ber(o; qt) where wanting shows
// with probability q only. bᵀVb is taken off because θ was fitted to the same pairs; q is taken as given. (The slope in
// log c itself, Σ (o−t)/(1−t), hangs by the few pairs of which the fit is most sure.) Far below 0 it says that even
// what looks most relevant is linked only sometimes; far above, that the model is wrong otherwise.
type OfferedTest struct {
	Pairs    int     `json:"pairs"`
	Linked   float64 `json:"linked"`            // share of those that became links
	Expected float64 `json:"expected"`          // mean q·t of those
	Seen     float64 `json:"seen"`              // mean q: the chance that wanting shows
	Z        float64 `json:"z"`                 // U/√Var U
	Learned  bool    `json:"learned,omitempty"` // q was learned with relevance
}

// leastOffers is the least number of offered pairs that became links from which a ceiling would be seen.
const leastOffers = 30

// noCeiling reports whether the offers leave no room for a ceiling that would matter. Where wanting shows only at
// times, a ceiling and a rarer look are the same.
func (t *OfferedTest) noCeiling() bool {
	return t != nil && t.Seen == 1 && t.Linked*float64(t.Pairs) >= leastOffers && t.Z > -1.96
}

// testOffers makes the test; only bayes, which has V, can.
func (d *diagnosis) testOffers(ctx context.Context) error {
	p, post := d.problem, d.result.Posterior
	if post == nil || p.Exposure == nil {
		return nil
	}
	places := sample.Indices(p.Train.Len(), func(k int) bool { return p.Exposure[k].IsOffered() })
	if len(places) == 0 {
		return nil
	}
	offered := p.Training().At(places)
	pairs := offered.Pairs
	for k := range pairs.Weight {
		pairs.Weight[k] = 1
	}
	chances := make([]float64, len(places))
	informed := func(k int, t, not float64) float64 { // 1 − t
		q := offered.Exposure[k].Seen()
		return q * t * not * not / (not + (1-q)*t)
	}
	gradients, err := d.result.Settings.engine().Scan(ctx, engine.Scan{Pairs: pairs,
		Versions: []engine.Predictor{d.result.predictor()}, Totals: []float64{1}, Visit: func(at engine.Portion) error {
			for i := range at.To - at.From {
				pi, rest := kern.Sigmoid64(float64(at.Propensity[0][i]))
				t, not := kern.Sigmoid64(float64(at.Link[0][i]) + math.Log(rest))
				chances[at.From+i] = t
				b := t * informed(at.From+i, t, not)
				at.LinkSlopes[0][i], at.PropensitySlopes[0][i] = b, -pi*b
			}
			return nil
		}})
	if err != nil {
		return err
	}
	var slope, variance, linked, expected, seen risk.Sum
	for k, t := range chances {
		q := offered.Exposure[k].Seen()
		variance.Add(t * t * informed(k, t, 1-t))
		expected.Add(q * t)
		seen.Add(q)
		if pairs.Linked[k] {
			slope.Add(t * (1 - t))
			linked.Add(1)
		} else {
			slope.Add(-t * q * t * (1 - t) / (1 - q*t))
		}
	}
	links, n := d.result.Link.Size(), float64(len(places))
	known := post.varianceAsSeen(gradients[0][:links], gradients[0][links:])
	d.found.Offered = &OfferedTest{Pairs: len(places), Linked: linked.Value() / n, Expected: expected.Value() / n,
		Seen: seen.Value() / n, Learned: p.Rates != nil && p.Rates.Shared()}
	if left := variance.Value() - known; left > 0 {
		d.found.Offered.Z = slope.Value() / math.Sqrt(left)
	}
	return nil
}

// drawnLink returns mean y as pairs have it that were drawn at random from those without a link, and shown, with no
// model; nil where none were, where wanting shows only at times, or where that says nothing. Those with a link are
// relevant, and stand for themselves.
func (d *diagnosis) drawnLink() *MemberValue {
	p := d.problem
	if p.Origin == nil || p.Origin.Plan.Log != sample.Drawn || d.found.Offered == nil || d.found.Offered.Seen < 1 {
		return nil
	}
	type weights struct{ unlinked, drawn float64 }
	of := map[*cellSum]weights{}
	var all, linked float64
	for k, e := range p.Exposure {
		c, w := d.cellOf(k), p.Train.Weight[k]
		at := of[c]
		switch {
		case e.IsOffered():
			at.drawn += w
		case p.Train.Linked[k]:
			linked += w
		default:
			at.unlinked += w
		}
		if of[c] = at; !e.IsOffered() {
			all += w
		}
	}
	found, known := d.standing(func(k int) (value float64, drawn bool) {
		if p.Train.Linked[k] {
			value = 1
		}
		return value, p.Exposure[k].IsOffered()
	}, func(c *cellSum) (all, some float64) { return of[c].unlinked, of[c].drawn })
	if !known {
		return nil
	}
	share := linked / all
	found.Estimate, found.StandardError = share+(1-share)*found.Estimate, (1-share)*found.StandardError
	out := shareOf(found)
	return &out
}
