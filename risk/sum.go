package risk

import "math"

// Sum adds numbers with Neumaier's compensation: its error does not grow with their count. The zero
// Sum is an empty sum. Infinite terms are kept (∞ − ∞ is NaN); finite terms whose running total
// overflows give an infinity.
type Sum struct {
	total, lost float64
}

// Add adds x.
func (s *Sum) Add(x float64) {
	t := s.total + x
	if math.Abs(s.total) >= math.Abs(x) {
		s.lost += (s.total - t) + x
	} else {
		s.lost += (x - t) + s.total
	}
	s.total = t
}

// Value returns the sum of everything added.
func (s *Sum) Value() float64 {
	if !isFinite(s.total) {
		return s.total // an infinity spoils the compensation, not the total
	}
	return s.total + s.lost
}

// times is a·b with 0·∞ = 0: a mass of nothing costs nothing, a loss of nothing costs nothing.
func times(a, b float64) float64 {
	if a == 0 || b == 0 {
		return 0
	}
	return a * b
}

// weigh is P·a + N·b. Where that is ∞ − ∞, because P and N are unbounded with opposite signs and a
// known finite total P + N, it is the limit of P·(a−b) + total·b.
func weigh(m Mass, a, b, total float64) float64 {
	r := times(m.Positive, a) + times(m.Negative, b)
	if math.IsNaN(r) {
		return weighLimit(m, a, b, total)
	}
	return r
}

func weighLimit(m Mass, a, b, total float64) float64 {
	if a == b {
		return times(total, b)
	}
	return times(m.Positive, a-b)
}
