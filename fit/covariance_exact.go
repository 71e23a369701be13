package fit

import (
	"context"
	"fmt"
	"math"
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

// factored is V by a factored matrix.
type factored interface {
	covariance
	// root returns a vector whose product with that of another gradient is their covariance; it may overwrite g.
	root(g []float64) []float64
	// weights returns V of (w, b) given the rest.
	weights() *exactCovariance
	// relativeError returns by what share a variance is off if the information is I₁ + I₂, of two halves that differ by
	// no more than chance, given the lower triangle of the difference D = I₁ − I₂, which it may overwrite: I₁ + I₂ is
	// off by as much as D is from 0. Along the columns of L⁻ᵀ, which V makes independent, the variances are off by the
	// diagonal of L⁻¹DL⁻ᵀ.
	relativeError(difference []float64) float64
	// exact returns the same by the factor of the whole matrix.
	exact() *exactCovariance
}

// factor returns V, given the information, which it overwrites.
func (l *laplace) factor(information []float64) (factored, error) {
	if l.cells > mostDense {
		return l.arrow(information)
	}
	n := l.size()
	full := blas64.Symmetric{N: n, Stride: n, Data: information, Uplo: blas.Lower}
	l.prior.precision(full)
	factor, err := cholesky(full)
	return &exactCovariance{d: l.d, count: l.cells, factor: factor}, err
}

// cholesky factors a matrix in place; after an error it is what it was, but for a larger diagonal.
func cholesky(full blas64.Symmetric) (blas64.Triangular, error) {
	n := full.N
	saved := slices.Clone(full.Data)
	factor, ok := lapack64.Potrf(full)
	if !ok { // vectors that are alike make columns that are, and rounding may do the rest
		for i := range n {
			saved[i*n+i] *= 1 + 1e-5
		}
		copy(full.Data, saved)
		if factor, ok = lapack64.Potrf(full); !ok {
			copy(full.Data, saved)
			return factor, fmt.Errorf("%w: the information matrix is not positive definite; the vectors may be all "+
				"alike, or hold huge numbers", ErrDiverged)
		}
	}
	return factor, nil
}

func (byFactor) restore(c *checkpoint, name string, l *laplace) covariance {
	if c.truth(name + ".drawn") {
		c.fail("%s is known by draws there", name)
	}
	if l.cells > mostDense {
		return restoreArrow(c, name, l)
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

func (v *exactCovariance) times(g []float64) []float64 {
	v.solve(g)
	return g
}

func (v *exactCovariance) variance(g []float64) float64 {
	root := v.root(g)
	return dot(root, root)
}

// root replaces g by L⁻¹g.
func (v *exactCovariance) root(g []float64) []float64 {
	blas64.Trsv(blas.NoTrans, v.factor, blas64.Vector{N: len(g), Inc: 1, Data: g})
	return g
}

func (v *exactCovariance) weights() *exactCovariance { return v }

func (v *exactCovariance) exact() *exactCovariance { return v }

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
		mirror(v.cells, n)
	})
	return v.cells
}

// mirror copies the lower triangle of a matrix to the upper.
func mirror(matrix []float64, n int) {
	for a := range n {
		for b := range a {
			matrix[b*n+a] = matrix[a*n+b]
		}
	}
}

func (v *exactCovariance) moments(group []uint8) cellMoments {
	return cellMomentsOf(v.ofCells(), group)
}

func (v *exactCovariance) relativeError(difference []float64) float64 {
	n := v.factor.N
	mirror(difference, n)
	d := blas64.General{Rows: n, Cols: n, Stride: n, Data: difference}
	blas64.Trsm(blas.Left, blas.NoTrans, 1, v.factor, d)
	blas64.Trsm(blas.Right, blas.Trans, 1, v.factor, d)
	var sum float64
	for i := range n {
		sum += difference[i*n+i] * difference[i*n+i]
	}
	return math.Sqrt(sum / float64(n))
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
