package risk

import (
	"math"
	"testing"
)

func TestSum(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	for _, c := range []struct {
		terms []float64
		want  float64
	}{
		{nil, 0},
		{[]float64{1, 1e100, 1, -1e100}, 2}, // Neumaier's own example; Kahan gives 0
		{[]float64{.1, .2, .3, -.6}, 2.7755575615628914e-17}, // the exact rational sum, rounded
		{[]float64{1, inf, 2}, inf},
		{[]float64{inf, 1, -1}, inf},
		{[]float64{-inf, 3}, -inf},
	} {
		var s Sum
		for _, x := range c.terms {
			s.Add(x)
		}
		if got := s.Value(); got != c.want {
			t.Errorf("sum of %v = %v, want %v", c.terms, got, c.want)
		}
	}
	var s Sum
	s.Add(inf)
	s.Add(-inf)
	if !math.IsNaN(s.Value()) {
		t.Errorf("∞ − ∞ = %v, want NaN", s.Value())
	}
}

func TestSumOfManyIsExact(t *testing.T) {
	t.Parallel()
	var s Sum
	plain := 0.
	for range 1_000_000 {
		s.Add(.1)
		plain += .1
	}
	if got := s.Value(); math.Abs(got-100000) > 2e-11 {
		t.Errorf("10⁶ × 0.1 = %v", got)
	}
	if plain == s.Value() {
		t.Error("plain summation was as good: the test no longer tests")
	}
}

func TestTimesAndLimit(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	if times(0, inf) != 0 || times(-inf, 0) != 0 || times(2, 3) != 6 {
		t.Error("0·∞ must be 0")
	}
	opposed := Mass{inf, -inf}
	for _, c := range []struct{ a, b, total, want float64 }{
		{2, 1, 1, inf}, {1, 2, 1, -inf}, {3, 3, 1, 3}, {3, 3, 0, 0},
	} {
		if got := weigh(opposed, c.a, c.b, c.total); got != c.want {
			t.Errorf("weigh(±∞, %v, %v, %v) = %v, want %v", c.a, c.b, c.total, got, c.want)
		}
	}
}
