package loop

import (
	"testing"

	"unseen/risk"
)

// Bands over runs and intervals over replicates are read as bootstraps are.
func TestBandsAreQuantileIntervals(t *testing.T) {
	t.Parallel()
	shares := []float64{.1, .2, .4, .7, .71, .9}
	low, high := risk.QuantileInterval(shares, .8)
	if b := bandOf(shares); b.Low != low || b.High != high {
		t.Errorf("a band of %v to %v, want %v to %v", b.Low, b.High, low, high)
	}
	runs := make([][]float64, len(shares))
	for k, x := range shares {
		runs[k] = []float64{x}
	}
	forecast := []Share{{Share: .5}}
	if spread(forecast, runs, .8); forecast[0].Low != low || forecast[0].High != high {
		t.Errorf("a forecast of %v to %v, want %v to %v", forecast[0].Low, forecast[0].High, low, high)
	}
}
