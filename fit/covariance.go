package fit

import (
	"context"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"unseen/engine"
	"unseen/model"
)

// covariance is what is known of V = (I + prior)⁻¹ at one θ = (w, b, s): exactly, by a factored matrix, or by draws.
type covariance interface {
	// solve replaces x by V·x, or by something near it: it preconditions the search for a mode.
	solve(x []float64)
	// leverage returns the variance of every pair's logit under the covariance of (w, b) given s.
	leverage(ctx context.Context, design engine.Design) ([]float32, error)
	// trace returns tr V_ww given s. That of draws is known once the leverage is.
	trace() float64
	// times returns V·g, and may overwrite g.
	times(g []float64) []float64
	// variance returns gᵀVg, and may overwrite g.
	variance(g []float64) float64
	// ofCells returns the covariance of s, row by row, which is not to be changed.
	ofCells() []float64
	// moments returns what a prior needs of that, given the group of each field pair.
	moments(group []uint8) cellMoments
	// draw adds to θ a draw of (w, b) given s.
	draw(theta []float64, rng *rand.Rand)
	// draws returns how many draws stand for V; 0 where it is exact.
	draws() int
	// tensor returns what a model file keeps of V.
	tensor() model.Tensor
	// keep puts it into a checkpoint.
	keep(c *checkpoint, name string)
	// close frees what the engine holds for it; leverage cannot be called afterwards.
	close() error
}

// covarianceMethod is a way to find V.
type covarianceMethod interface {
	// near returns V at θ as far as solve needs it.
	near(ctx context.Context, l *laplace, theta []float64) (covariance, error)
	// at returns V at θ.
	at(ctx context.Context, l *laplace, theta []float64) (covariance, error)
	// restore reads what keep put into a checkpoint.
	restore(c *checkpoint, name string, l *laplace) covariance
	// search says how modes are found with it.
	search() modeSearch
}

// cellMoments are of every s its variance, and its covariance with the sum of s over its group.
type cellMoments struct{ variance, withGroup []float64 }

// cellMomentsOf returns those of a covariance of s.
func cellMomentsOf(covariance []float64, group []uint8) cellMoments {
	n := len(group)
	out := cellMoments{make([]float64, n), make([]float64, n)}
	for c, g := range group {
		out.variance[c] = covariance[c*n+c]
		for e, h := range group {
			if h == g {
				out.withGroup[c] += covariance[c*n+e]
			}
		}
	}
	return out
}

// putCovariance keeps a covariance, or that there is none yet.
func (c *checkpoint) putCovariance(name string, v covariance) {
	if c.putTruth(name, v != nil); v != nil {
		v.keep(c, name)
	}
}

// covariance reads it; nil where there was none.
func (c *checkpoint) covariance(name string, l *laplace) covariance {
	if !c.truth(name) {
		return nil
	}
	return l.method.restore(c, name, l)
}

// lower returns the lower triangle of a factor, row by row.
func lower(factor blas64.Triangular) []float64 {
	out := make([]float64, 0, factor.N*(factor.N+1)/2)
	for i := range factor.N {
		row := i * factor.Stride
		out = append(out, factor.Data[row:row+i+1]...)
	}
	return out
}

func fromLower(triangle []float64, n int) blas64.Triangular {
	factor := blas64.Triangular{Uplo: blas.Lower, Diag: blas.NonUnit, N: n, Stride: n, Data: make([]float64, n*n)}
	for i := range n {
		copy(factor.Data[i*n:i*n+i+1], triangle)
		triangle = triangle[i+1:]
	}
	return factor
}

func dot(a, b []float64) float64 {
	var s float64
	for i, x := range a {
		s += x * b[i]
	}
	return s
}
