package risk

import (
	"math"
	"testing"
)

func TestLossValues(t *testing.T) {
	t.Parallel()
	b := probabilities(t, .8, .5)
	for _, c := range []struct {
		loss             Loss
		linked, unlinked float64
		bound            float64
	}{
		{LogLoss{}, -math.Log(.8), -math.Log(.2), math.Inf(1)},
		{CappedLogLoss{Cap: 1}, -math.Log(.8), 1, 1},
		{ZeroOne{}, 0, 1, 1},
		{ZeroOne{Cost: 2.5}, 0, 2.5, 2.5},
	} {
		linked, unlinked := c.loss.Losses(b)
		wantNear(t, "δ(1)", linked, c.linked, 1e-15)
		wantNear(t, "δ(0)", unlinked, c.unlinked, 1e-15)
		if got := c.loss.Bound(); got != c.bound {
			t.Errorf("%T bound %v, want %v", c.loss, got, c.bound)
		}
	}
}

// ô = 1(ŷ ≥ ½), with ½ itself a prediction.
func TestZeroOneThreshold(t *testing.T) {
	t.Parallel()
	for y, want := range map[float64]bool{0: false, math.Nextafter(.5, 0): false, .5: true,
		math.Nextafter(.5, 1): true, 1: true} {
		if got := probabilities(t, y, .5).Predicted(); got != want {
			t.Errorf("ô at ŷ = %v is %v", y, got)
		}
	}
	if !logits(t, 0, 0).Predicted() || logits(t, -1e-300, 0).Predicted() {
		t.Error("ô must turn at z = 0")
	}
}

func TestLossesEverywhere(t *testing.T) {
	t.Parallel()
	for _, b := range beliefsEverywhere(t) {
		for _, loss := range []Loss{LogLoss{}, CappedLogLoss{Cap: 3}, ZeroOne{Cost: 2}} {
			linked, unlinked := loss.Losses(b)
			for _, l := range []float64{linked, unlinked} {
				if !(l >= 0 && l <= loss.Bound()) {
					t.Fatalf("%T = %v outside [0, %v] at %+v", loss, l, loss.Bound(), b)
				}
			}
			slopeLinked, slopeUnlinked := loss.Slopes(b)
			if !(slopeLinked <= 0 && slopeLinked >= -1 && slopeUnlinked >= 0 && slopeUnlinked <= 1) {
				t.Fatalf("%T slopes %v, %v at %+v", loss, slopeLinked, slopeUnlinked, b)
			}
		}
		linked, unlinked := LogLoss{}.Losses(b)
		if math.IsInf(linked, 1) != (b.LinkLogit() == math.Inf(-1)) ||
			math.IsInf(unlinked, 1) != (b.LinkLogit() == math.Inf(1)) {
			t.Fatalf("log-loss %v, %v at %+v: infinite exactly where the outcome is called impossible", linked,
				unlinked, b)
		}
	}
}

func TestLossSlopesAgainstDifferences(t *testing.T) {
	t.Parallel()
	const h = 1e-5
	for _, loss := range []Loss{LogLoss{}, CappedLogLoss{Cap: 1.3}, ZeroOne{}} {
		for z := -8.03; z < 8; z += .37 {
			upLinked, upUnlinked := loss.Losses(logits(t, z+h, 0))
			downLinked, downUnlinked := loss.Losses(logits(t, z-h, 0))
			linked, unlinked := loss.Slopes(logits(t, z, 0))
			wantNear(t, "δ′(1)", linked, (upLinked-downLinked)/(2*h), 1e-9)
			wantNear(t, "δ′(0)", unlinked, (upUnlinked-downUnlinked)/(2*h), 1e-9)
		}
	}
}
