package evaluate

import (
	"math"
	"math/rand/v2"
	"slices"

	"unseen/risk"
)

// Band is an estimate with its 95% interval.
type Band struct {
	Value float64 `json:"value"`
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
}

// DefaultDraws is how often a bootstrap draws where nothing else is said.
const DefaultDraws = 1000

// Bootstrap says how far measures depend on which sources happened to be looked at. It draws as many sources as
// there are, with replacement, again and again, and takes the interval that holds the middle 95% of what comes out
// (Efron, 1979; percentile intervals). measure is given how often each source counts and returns one number per
// measure; NaN where it has none. The same draws serve all measures, so that differences between them are paired.
// draws of 0 mean [DefaultDraws].
func Bootstrap(sources, draws int, seed uint64, measure func(times []float64) []float64) []Band {
	if draws == 0 {
		draws = DefaultDraws
	}
	times := make([]float64, sources)
	for i := range times {
		times[i] = 1
	}
	whole := measure(times)
	drawn := make([][]float64, len(whole))
	random := rand.New(rand.NewPCG(seed, 0xb007))
	for range draws {
		clear(times)
		for range times {
			times[random.IntN(len(times))]++
		}
		for k, x := range measure(times) {
			if !math.IsNaN(x) {
				drawn[k] = append(drawn[k], x)
			}
		}
	}
	bands := make([]Band, len(whole))
	for k, x := range whole {
		bands[k] = Band{x, x, x}
		if len(drawn[k]) > 0 {
			slices.Sort(drawn[k])
			bands[k].Lower, bands[k].Upper = risk.QuantileInterval(drawn[k], .95)
		}
	}
	return bands
}
