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
//	U = Σ t(o−t),   Var U = Σ t³(1−t) − bᵀVb,   b = Σ t²(1−t)·∂logit t/∂θ,
//
// the latter because θ was fitted to the same pairs. (The slope in log c itself, Σ (o−t)/(1−t), hangs by the few pairs
// of which the fit is most sure.) Far below 0 it says that even what looks most relevant is linked only sometimes; far
// above, that the model is wrong otherwise.
type OfferedTest struct {
	Pairs    int     `json:"pairs"`
	Linked   float64 `json:"linked"`   // share of those that became links
	Expected float64 `json:"expected"` // mean t of those
	Z        float64 `json:"z"`        // U/√Var U
}

// leastOffers is the least number of offered pairs that became links from which a ceiling would be seen.
const leastOffers = 30

// noCeiling reports whether the offers leave no room for a ceiling that would matter.
func (t *OfferedTest) noCeiling() bool {
	return t != nil && t.Linked*float64(t.Pairs) >= leastOffers && t.Z > -1.96
}

// testOffers makes the test; only bayes, which has V, can.
func (d *diagnosis) testOffers(ctx context.Context) error {
	p, post := d.problem, d.result.Posterior
	if post == nil || p.Exposure == nil {
		return nil
	}
	places := sample.Indices(p.Train.Len(), func(k int) bool { return p.Exposure[k] == risk.Offered })
	if len(places) == 0 {
		return nil
	}
	pairs := p.Training().At(places).Pairs
	for k := range pairs.Weight {
		pairs.Weight[k] = 1
	}
	chances := make([]float64, len(places))
	gradients, err := d.result.Settings.engine().Scan(ctx, engine.Scan{Pairs: pairs,
		Versions: []engine.Predictor{d.result.predictor()}, Totals: []float64{1}, Visit: func(at engine.Portion) error {
			for i := range at.To - at.From {
				pi, rest := kern.Sigmoid64(float64(at.Propensity[0][i]))
				t, not := kern.Sigmoid64(float64(at.Link[0][i]) + math.Log(rest))
				chances[at.From+i] = t
				at.LinkSlopes[0][i], at.PropensitySlopes[0][i] = t*t*not, -pi*t*t*not
			}
			return nil
		}})
	if err != nil {
		return err
	}
	var slope, variance, linked, expected risk.Sum
	for k, t := range chances {
		variance.Add(t * t * t * (1 - t))
		expected.Add(t)
		if slope.Add(-t * t); pairs.Linked[k] {
			slope.Add(t)
			linked.Add(1)
		}
	}
	links, n := d.result.Link.Size(), float64(len(places))
	known := post.Variance(gradients[0][:links], gradients[0][links:])
	d.found.Offered = &OfferedTest{Pairs: len(places), Linked: linked.Value() / n, Expected: expected.Value() / n}
	if left := variance.Value() - known; left > 0 {
		d.found.Offered.Z = slope.Value() / math.Sqrt(left)
	}
	return nil
}
