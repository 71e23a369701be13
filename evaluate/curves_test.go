package evaluate

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The area under the curve is the AUC, but for what thinning it to points leaves out.
func TestROCHasTheArea(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var s Scored
	for range 5000 {
		z := rng.NormFloat64()
		s.Scores, s.Linked = append(s.Scores, math.Round(z*10)/10), append(s.Linked, rng.Float64() < 1/(1+math.Exp(-2*z)))
	}
	for points, tolerance := range map[int]float64{2: 1, 50: .01, 10_000: 1e-9} {
		c := must(s.ROC(points))(t)
		var area float64
		for i := range c.X[1:] {
			if c.X[i+1] < c.X[i] || c.Y[i+1] < c.Y[i] {
				t.Fatalf("the curve goes back at %d", i)
			}
			area += (c.X[i+1] - c.X[i]) * (c.Y[i+1] + c.Y[i]) / 2
		}
		if auc := must(s.AUC())(t); math.Abs(area-auc) > tolerance {
			t.Errorf("%d points: area %v, AUC %v", points, area, auc)
		}
		if n := len(c.X); n > points+1 || c.X[0] != 0 || c.Y[0] != 0 || c.X[n-1] != 1 || c.Y[n-1] != 1 {
			t.Errorf("%d points of %d, from (%v, %v) to (%v, %v)", n, points, c.X[0], c.Y[0], c.X[n-1], c.Y[n-1])
		}
	}
	if _, err := s.ROC(1); err == nil {
		t.Error("a curve of one point")
	}
}

func TestCalibration(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var s Scored
	for range 40_000 {
		p := rng.Float64()
		s.Scores, s.Linked = append(s.Scores, p), append(s.Linked, rng.Float64() < p*p)
	}
	c := must(s.Calibration(10))(t)
	if len(c.X) != 10 {
		t.Fatalf("%d bins", len(c.X))
	}
	for i, x := range c.X {
		if want := (float64(i) + .5) / 10; math.Abs(x-want) > .01 || math.Abs(c.Y[i]-x*x) > .03 {
			t.Errorf("bin %d: %v relevant at %v, want about %v at %v", i, c.Y[i], x, want*want, want)
		}
	}
	if _, err := (Scored{Scores: []float64{2}, Linked: []bool{true}}).Calibration(3); err == nil {
		t.Error("a score of 2 is a probability")
	}
	if _, err := s.Calibration(0); err == nil {
		t.Error("no bins")
	}
}
