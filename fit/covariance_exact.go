package fit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"unseen/engine"
	"unseen/model"
)

// exactCovariance keeps I + prior = L Lᵀ, factored. V itself is never formed: a linear functional with gradient g has
// variance gᵀVg = ‖L⁻¹g‖², one triangular solve.
type exactCovariance struct {
	d      int
	count  int // cells
	factor blas64.Triangular

	traced bool
	ofW    float64 // tr V_ww, where it was traced

	once  sync.Once
	cells []float64 // the covariance of s, once computed
}

// byFactor finds V exactly.
type byFactor struct{}

func (byFactor) search() modeSearch { return modeSearch{iterations: 200, renew: 12} }

func (m byFactor) near(ctx context.Context, l *laplace, theta []float64) (covariance, error) {
	return m.at(ctx, l, theta)
}

func (byFactor) at(ctx context.Context, l *laplace, theta []float64) (covariance, error) {
	likelihood, err := l.likelihood(ctx)
	if err != nil {
		return nil, err
	}
	information, err := likelihood.Information(ctx, theta)
	if err != nil {
		return nil, err
	}
	return l.factor(information)
}

// factor returns V, given the information, which it overwrites.
func (l *laplace) factor(information []float64) (*exactCovariance, error) {
	n := l.size()
	full := blas64.Symmetric{N: n, Stride: n, Data: information, Uplo: blas.Lower}
	l.prior.precision(full)
	saved := slices.Clone(information)
	factor, ok := lapack64.Potrf(full)
	if !ok { // vectors that are alike make columns that are, and rounding may do the rest
		copy(information, saved)
		for i := range n {
			information[i*n+i] *= 1 + 1e-5
		}
		factor, ok = lapack64.Potrf(full)
	}
	if !ok {
		return nil, fmt.Errorf("%w: the information matrix is not positive definite; the vectors may hold huge "+
			"or missing numbers", ErrDiverged)
	}
	return &exactCovariance{d: l.d, count: l.cells, factor: factor}, nil
}

func (byFactor) restore(c *checkpoint, name string, l *laplace) covariance {
	if c.truth(name + ".drawn") {
		c.fail("%s is known by draws there", name)
	}
	n := l.size()
	return &exactCovariance{d: l.d, count: l.cells, factor: fromLower(numbers[float64](c, name, n*(n+1)/2), n)}
}

func (v *exactCovariance) keep(c *checkpoint, name string) {
	c.putTruth(name+".drawn", false)
	put(c, name, lower(v.factor))
}

func (v *exactCovariance) solve(x []float64) {
	at := blas64.Vector{N: v.factor.N, Inc: 1, Data: x}
	blas64.Trsv(blas.NoTrans, v.factor, at)
	blas64.Trsv(blas.Trans, v.factor, at)
}

func (v *exactCovariance) variance(g []float64) float64 {
	v.root(g)
	return dot(g, g)
}

// root replaces g by L⁻¹g.
func (v *exactCovariance) root(g []float64) {
	blas64.Trsv(blas.NoTrans, v.factor, blas64.Vector{N: len(g), Inc: 1, Data: g})
}

func (v *exactCovariance) leverage(ctx context.Context, design engine.Design) ([]float32, error) {
	u := v.weightFactor()
	v.setTrace(u)
	root := engine.Root{Rows: make([][]float32, u.N), Lower: true, Divisor: 1}
	for i := range root.Rows {
		root.Rows[i] = make([]float32, u.N)
		for j, x := range u.Data[i*u.Stride : i*u.Stride+i+1] {
			root.Rows[i][j] = float32(x)
		}
	}
	return design.Leverage(ctx, root)
}

func (v *exactCovariance) trace() float64 {
	if !v.traced {
		v.setTrace(v.weightFactor())
	}
	return v.ofW
}

// setTrace sets the trace of the covariance UᵀU of (w, b), b left out.
func (v *exactCovariance) setTrace(u blas64.Triangular) {
	v.traced, v.ofW = true, 0
	for i := range u.N {
		for _, x := range u.Data[i*u.Stride : i*u.Stride+min(i+1, v.d)] {
			v.ofW += x * x
		}
	}
}

// weightFactor returns U = L⁻¹ of the (w, b) block, so that UᵀU is the covariance of (w, b) given s.
func (v *exactCovariance) weightFactor() blas64.Triangular { return v.invert(0, v.d+1) }

// invert returns the inverse of a diagonal block of the factor.
func (v *exactCovariance) invert(at, n int) blas64.Triangular {
	data := make([]float64, n*n)
	for i := range n {
		copy(data[i*n:i*n+i+1], v.factor.Data[(at+i)*v.factor.Stride+at:])
	}
	u := blas64.Triangular{Uplo: blas.Lower, Diag: blas.NonUnit, N: n, Stride: n, Data: data}
	lapack64.Trtri(u)
	return u
}

func (v *exactCovariance) ofCells() []float64 {
	v.once.Do(func() {
		n, all := v.count, v.factor.N-v.d-1 // with the terms, which come after
		u := v.invert(v.d+1, all)
		v.cells = make([]float64, n*n)
		for i := range all { // V = UᵀU
			row := u.Data[i*all : i*all+min(i+1, n)]
			for a, x := range row {
				for b, y := range row[:a+1] {
					v.cells[a*n+b] += x * y
				}
			}
		}
		for a := range n {
			for b := range a {
				v.cells[b*n+a] = v.cells[a*n+b]
			}
		}
	})
	return v.cells
}

// draw adds L⁻ᵀε over the factor's first rows.
func (v *exactCovariance) draw(theta []float64, rng *rand.Rand) {
	width := v.d + 1
	noise := make([]float64, width)
	for i := range noise {
		noise[i] = rng.NormFloat64()
	}
	block := v.factor
	block.N = width
	blas64.Trsv(blas.Trans, block, blas64.Vector{N: width, Inc: 1, Data: noise})
	for i, x := range noise {
		theta[i] += x
	}
}

func (v *exactCovariance) draws() int { return 0 }

func (v *exactCovariance) close() error { return nil }

// tensor is L in float32, its lower triangle row by row: 2.6 MB for 768 dimensions and 19 fields.
func (v *exactCovariance) tensor() model.Tensor {
	var factor []float32
	for _, x := range lower(v.factor) {
		factor = append(factor, float32(x))
	}
	return model.Tensor{Name: "posterior.factor", Shape: []int{len(factor)}, Data: factor}
}
