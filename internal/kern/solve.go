package kern

import "math"

// SolveLower solves h·x = b in place by Cholesky of h's lower triangle, row by row, which it overwrites; false if h is
// not positive definite.
func SolveLower(h, b []float64) bool {
	if !Cholesky(h, len(b)) {
		return false
	}
	SolveCholesky(h, b)
	return true
}

// Cholesky overwrites the lower triangle of h, a square of order n row by row, with L of h = L·Lᵀ; false if h is not
// positive definite.
func Cholesky(h []float64, n int) bool {
	for i := range n {
		own := h[i*n:][:i+1]
		for j := range own {
			other := h[j*n:][:j+1]
			sum := own[j]
			for k, x := range other[:j] {
				sum -= own[k] * x
			}
			if i != j {
				own[j] = sum / other[j]
				continue
			}
			if !(sum > 0) {
				return false
			}
			own[i] = math.Sqrt(sum)
		}
	}
	return true
}

// SolveCholesky solves L·Lᵀ·x = b in place, given the factor that Cholesky left.
func SolveCholesky(l, b []float64) {
	n := len(b)
	for i := range b {
		row, sum := l[i*n:][:i+1], b[i]
		for k, x := range row[:i] {
			sum -= x * b[k]
		}
		b[i] = sum / row[i]
	}
	for i := n - 1; i >= 0; i-- {
		row := l[i*n:][:i+1]
		b[i] /= row[i]
		for k, x := range row[:i] {
			b[k] -= x * b[i]
		}
	}
}
