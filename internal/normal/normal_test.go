package normal_test

import (
	"math"
	"testing"

	"unseen/internal/normal"
)

// integrated is the chance of both by the integral over the first variable that defines it, by the trapezoidal rule.
func integrated(p, q, correlation float64) (sum float64) {
	const steps, from = 20_000, -9.
	h, k := normal.Quantile(p), normal.Quantile(q)
	step := (h - from) / steps
	for n := range steps + 1 {
		x := from + float64(n)*step
		y := step / math.Sqrt(2*math.Pi) * math.Exp(-x*x/2) *
			normal.Chance((k-correlation*x)/math.Sqrt(1-correlation*correlation))
		if n == 0 || n == steps {
			y /= 2
		}
		sum += y
	}
	return sum
}

func TestBoth(t *testing.T) {
	t.Parallel()
	for _, correlation := range []float64{-.99, -.3, 0, .3, .7, .95} {
		c := normal.NewCopula(correlation)
		for _, p := range []float64{1e-6, .001, .03, .5, .9} {
			for _, q := range []float64{1e-4, .01, .2, .5, .99} {
				want := integrated(p, q, correlation)
				most := 1e-6*p*q + 1e-4*want // the rule's own error, over what is there
				if got := c.Both(p, q); math.Abs(got-want) > most {
					t.Errorf("correlation %v, p %v, q %v: %v, want %v", correlation, p, q, got, want)
				}
			}
		}
	}
	for _, correlation := range []float64{-.8, .25, .999999} { // a known value
		got, want := normal.NewCopula(correlation).Both(.5, .5), .25+math.Asin(correlation)/(2*math.Pi)
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("correlation %v of two halves: %v, want %v", correlation, got, want)
		}
	}
	if c := normal.NewCopula(.5); c.Both(1, .3) != .3 || c.Both(.3, 0) != 0 {
		t.Error("certain and impossible events depend on others")
	}
}

// Slopes are those of the logarithm of Both.
func TestSlopes(t *testing.T) {
	t.Parallel()
	for _, at := range []float64{-1.2, -.4, 0, .2, .9, 1.9} {
		both := func(t, logP, logQ float64) float64 {
			return math.Log(normal.NewCopula(math.Tanh(t)).Both(math.Exp(logP), math.Exp(logQ)))
		}
		for _, p := range []float64{.002, .05, .4, .97} {
			for _, q := range []float64{.001, .1, .6, .99} {
				value, byP, byQ, byT := normal.NewCopula(math.Tanh(at)).Slopes(p, q)
				x, y := math.Log(p), math.Log(q)
				if value <= 1e-6*p*q { // of what rounding leaves
					continue
				}
				if math.Abs(math.Log(value)-both(at, x, y)) > 1e-7 {
					t.Errorf("t %v, p %v, q %v: %v is not %v", at, p, q, value, math.Exp(both(at, x, y)))
				}
				const h = 1e-5
				for i, want := range []float64{both(at, x+h, y) - both(at, x-h, y), both(at, x, y+h) - both(at, x, y-h),
					both(at+h, x, y) - both(at-h, x, y)} {
					got := []float64{byP, byQ, byT}[i]
					if want /= 2 * h; math.Abs(got-want) > 2e-4*(1+math.Abs(want)) {
						t.Errorf("t %v, p %v, q %v: slope %d is %v, want %v", at, p, q, i, got, want)
					}
				}
			}
		}
	}
}
