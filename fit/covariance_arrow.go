package fit

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"unseen/engine"
	"unseen/model"
)

// mostDense is the number of field pairs up to which I + prior is factored as it stands.
const mostDense = 1024

// arrowCovariance is V exactly, where there are many field pairs. A pair of nodes has one field pair, so that there is
// no information between two of them, and the prior couples them by the mean μ of their group alone. With μ as a
// parameter the matrix over s and u = (w, b, terms, μ) is an arrow,
//
//	I + prior = ( Δ   R )   with Δ diagonal,   K − RᵀΔ⁻¹R = L Lᵀ,
//	            ( Rᵀ  K )
//
// and all that is asked of V follows from L: the work grows with the number of field pairs, and not with its cube.
type arrowCovariance struct {
	given    *exactCovariance  // of (w, b) given the rest
	terms    int               // of other assumptions
	delta    []float64         // Δ
	coupling blas64.General    // R, a row for every field pair
	head     blas64.Triangular // L
	group    []uint8           // of every field pair

	once  sync.Once
	dense *exactCovariance
}

// arrow returns V, given the information.
func (l *laplace) arrow(information []float64) (*arrowCovariance, error) {
	p, n, m, terms := &l.prior, l.size(), l.d+1, len(l.prior.Terms)
	k := m + terms + len(p.Tau)
	core := blas64.Symmetric{N: k, Stride: k, Data: make([]float64, k*k), Uplo: blas.Lower}
	v := &arrowCovariance{terms: terms, delta: make([]float64, l.cells), group: p.group,
		coupling: blas64.General{Rows: l.cells, Cols: k, Stride: k, Data: make([]float64, l.cells*k)}}
	for i := range m {
		copy(core.Data[i*k:i*k+i+1], information[i*n:])
		if i < l.d {
			core.Data[i*k+i] += p.Alpha
		}
	}
	core.Data[l.d*k+l.d] += flat
	for t, of := range p.Terms {
		row, out := information[(m+l.cells+t)*n:], core.Data[(m+t)*k:]
		copy(out[:m], row)
		copy(out[m:m+t+1], row[m+l.cells:])
		out[m+t] += 1 / (of.deviation * of.deviation)
		for c := range l.cells {
			v.coupling.Data[c*k+m+t] = row[m+c]
		}
	}
	for c, g := range p.group {
		tight, mean := 1/(p.Tau[g]*p.Tau[g]), m+terms+int(g)
		copy(v.coupling.Data[c*k:c*k+m], information[(m+c)*n:])
		v.coupling.Data[c*k+mean] = -tight
		v.delta[c] = information[(m+c)*n+m+c] + tight
		core.Data[mean*k+mean] += tight
	}
	for g, spread := range p.Spread {
		mean := m + terms + g
		core.Data[mean*k+mean] += 1 / (spread * spread)
	}
	weights := blas64.Symmetric{N: m, Stride: m, Data: make([]float64, m*m), Uplo: blas.Lower}
	for i := range m {
		copy(weights.Data[i*m:i*m+i+1], core.Data[i*k:])
	}
	scaled := blas64.General{Rows: l.cells, Cols: k, Stride: k, Data: slices.Clone(v.coupling.Data)}
	for c, x := range v.delta {
		blas64.Scal(1/math.Sqrt(x), blas64.Vector{N: k, Inc: 1, Data: scaled.Data[c*k:]})
	}
	blas64.Syrk(blas.Trans, -1, scaled, 1, core)
	factor, err := cholesky(weights)
	if err == nil {
		v.head, err = cholesky(core)
	}
	v.given = &exactCovariance{d: l.d, factor: factor}
	return v, err
}

// split returns of x what is of u, with 0 for μ, and in place what is of s.
func (v *arrowCovariance) split(x []float64) (u, s []float64) {
	m, cells := v.given.factor.N, len(v.delta)
	u = make([]float64, v.head.N)
	copy(u, x[:m])
	copy(u[m:], x[m+cells:])
	return u, x[m : m+cells]
}

// reduce replaces u by L⁻¹(u − RᵀΔ⁻¹s).
func (v *arrowCovariance) reduce(u, s []float64) blas64.Vector {
	scaled := make([]float64, len(s))
	for c, x := range s {
		scaled[c] = x / v.delta[c]
	}
	at := blas64.Vector{N: len(u), Inc: 1, Data: u}
	blas64.Gemv(blas.Trans, -1, v.coupling, blas64.Vector{N: len(s), Inc: 1, Data: scaled}, 1, at)
	blas64.Trsv(blas.NoTrans, v.head, at)
	return at
}

func (v *arrowCovariance) solve(x []float64) {
	u, s := v.split(x)
	at := v.reduce(u, s)
	blas64.Trsv(blas.Trans, v.head, at)
	blas64.Gemv(blas.NoTrans, -1, v.coupling, at, 1, blas64.Vector{N: len(s), Inc: 1, Data: s})
	for c := range s {
		s[c] /= v.delta[c]
	}
	m := v.given.factor.N
	copy(x[:m], u)
	copy(x[m+len(s):], u[m:])
}

func (v *arrowCovariance) root(g []float64) []float64 {
	u, s := v.split(g)
	v.reduce(u, s)
	for c, x := range s {
		u = append(u, x/math.Sqrt(v.delta[c]))
	}
	return u
}

func (v *arrowCovariance) times(g []float64) []float64 {
	v.solve(g)
	return g
}

func (v *arrowCovariance) variance(g []float64) float64 {
	root := v.root(g)
	return dot(root, root)
}

func (v *arrowCovariance) weights() *exactCovariance { return v.given }

func (v *arrowCovariance) leverage(ctx context.Context, design engine.Design) ([]float32, error) {
	return v.given.leverage(ctx, design)
}

func (v *arrowCovariance) trace() float64 { return v.given.trace() }

func (v *arrowCovariance) draw(theta []float64, rng *rand.Rand) { v.given.draw(theta, rng) }

func (v *arrowCovariance) draws() int { return 0 }

func (v *arrowCovariance) close() error { return nil }

// cellRoot returns Y = Δ⁻¹RL⁻ᵀ: the covariance of s is Δ⁻¹ + YYᵀ.
func (v *arrowCovariance) cellRoot() blas64.General {
	y := v.coupling
	y.Data = slices.Clone(y.Data)
	blas64.Trsm(blas.Right, blas.Trans, 1, v.head, y)
	for c, x := range v.delta {
		blas64.Scal(1/x, blas64.Vector{N: y.Cols, Inc: 1, Data: y.Data[c*y.Stride:]})
	}
	return y
}

func (v *arrowCovariance) moments(group []uint8) cellMoments {
	y := v.cellRoot()
	out := cellMoments{variance: make([]float64, len(group)), withGroup: make([]float64, len(group))}
	for c, x := range v.delta {
		row := y.Data[c*y.Stride : c*y.Stride+y.Cols]
		out.variance[c] = 1/x + dot(row, row)
	}
	m := v.given.factor.N
	for g := range hyperparameters - 1 {
		x := make([]float64, m+len(group)+v.terms)
		for c, of := range group {
			if int(of) == g {
				x[m+c] = 1
			}
		}
		v.solve(x)
		for c, of := range group {
			if int(of) == g {
				out.withGroup[c] = x[m+c]
			}
		}
	}
	return out
}

func (v *arrowCovariance) ofCells() []float64 {
	n := len(v.delta)
	out := blas64.Symmetric{N: n, Stride: n, Data: make([]float64, n*n), Uplo: blas.Lower}
	for c, x := range v.delta {
		out.Data[c*n+c] = 1 / x
	}
	blas64.Syrk(blas.NoTrans, 1, v.cellRoot(), 1, out)
	mirror(out.Data, n)
	return out.Data
}

// exact factors I + prior over θ as it stands, once, for what needs that factor.
func (v *arrowCovariance) exact() *exactCovariance {
	v.once.Do(func() {
		m, k, cells := v.given.factor.N, v.head.N, len(v.delta)
		// K = LLᵀ + RᵀΔ⁻¹R
		core := blas64.General{Rows: k, Cols: k, Stride: k, Data: make([]float64, k*k)}
		for i := range k {
			copy(core.Data[i*k:i*k+i+1], v.head.Data[i*v.head.Stride:])
		}
		blas64.Trmm(blas.Right, blas.Trans, 1, v.head, core)
		scaled := blas64.General{Rows: cells, Cols: k, Stride: k, Data: slices.Clone(v.coupling.Data)}
		for c, x := range v.delta {
			blas64.Scal(1/math.Sqrt(x), blas64.Vector{N: k, Inc: 1, Data: scaled.Data[c*k:]})
		}
		blas64.Gemm(blas.Trans, blas.NoTrans, 1, scaled, scaled, 1, core)
		n := m + cells + v.terms
		full := blas64.Symmetric{N: n, Stride: n, Data: make([]float64, n*n), Uplo: blas.Lower}
		for i := range m {
			copy(full.Data[i*n:i*n+i+1], core.Data[i*k:])
		}
		for c, g := range v.group {
			row, out, mean := v.coupling.Data[c*k:], full.Data[(m+c)*n:], m+v.terms+int(g)
			copy(out[:m], row)
			for e, h := range v.group[:c+1] { // μ is integrated out
				if h == g {
					out[m+e] = -row[mean] * row[mean] / core.Data[mean*k+mean]
				}
			}
			out[m+c] += v.delta[c]
		}
		for t := range v.terms {
			out := full.Data[(m+cells+t)*n:]
			copy(out[:m], core.Data[(m+t)*k:])
			for c := range cells {
				out[m+c] = v.coupling.Data[c*k+m+t]
			}
			copy(out[m+cells:m+cells+t+1], core.Data[(m+t)*k+m:])
		}
		factor, err := cholesky(full)
		for more := 1e-4; err != nil; more *= 10 { // of what is positive definite but for rounding
			for i := range n {
				full.Data[i*n+i] *= 1 + more
			}
			factor, err = cholesky(full)
		}
		v.dense = &exactCovariance{d: v.given.d, count: cells, factor: factor}
	})
	return v.dense
}

func (v *arrowCovariance) tensor() model.Tensor { return v.exact().tensor() }

// relativeError is that of exactCovariance, along the columns of this factor's inverse.
func (v *arrowCovariance) relativeError(difference []float64) float64 {
	m, k, cells := v.given.factor.N, v.head.N, len(v.delta)
	n := m + cells + v.terms
	rest := blas64.General{Rows: k, Cols: k, Stride: k, Data: make([]float64, k*k)} // of u
	own := blas64.General{Rows: cells, Cols: k, Stride: k, Data: make([]float64, cells*k)}
	copyRow := func(out, row []float64, until int) {
		copy(out[:min(m, until)], row)
		if until > m {
			copy(out[m:until], row[m+cells:])
		}
	}
	for i := range m + v.terms {
		at := i
		if i >= m {
			at += cells
		}
		copyRow(rest.Data[i*k:], difference[at*n:], i+1)
	}
	mirror(rest.Data, k)
	var sum float64
	for c := range cells {
		out := own.Data[c*k : (c+1)*k]
		copy(out[:m], difference[(m+c)*n:])
		for t := range v.terms {
			out[m+t] = difference[(m+cells+t)*n+m+c]
		}
		along := difference[(m+c)*n+m+c] / v.delta[c]
		sum += along * along
		// ½·d·R less what it has with u, so that the product below and its mirror have d·RRᵀ once
		for j, x := range v.coupling.Data[c*k : (c+1)*k] {
			out[j] = (along*x/2 - out[j]) / v.delta[c]
		}
	}
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, v.coupling, own, 1, rest)
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, own, v.coupling, 1, rest)
	blas64.Trsm(blas.Left, blas.NoTrans, 1, v.head, rest)
	blas64.Trsm(blas.Right, blas.Trans, 1, v.head, rest)
	for i := range k {
		sum += rest.Data[i*k+i] * rest.Data[i*k+i]
	}
	return math.Sqrt(sum / float64(n))
}

func (v *arrowCovariance) keep(c *checkpoint, name string) {
	c.putTruth(name+".drawn", false)
	put(c, name, lower(v.head))
	put(c, name+".given", lower(v.given.factor))
	put(c, name+".delta", v.delta)
	put(c, name+".coupling", v.coupling.Data)
}

func restoreArrow(c *checkpoint, name string, l *laplace) *arrowCovariance {
	m, terms := l.d+1, len(l.prior.Terms)
	k := m + terms + len(l.prior.Tau)
	return &arrowCovariance{terms: terms, group: l.prior.group,
		given: &exactCovariance{d: l.d, factor: fromLower(numbers[float64](c, name+".given", m*(m+1)/2), m)},
		delta: numbers[float64](c, name+".delta", l.cells),
		coupling: blas64.General{Rows: l.cells, Cols: k, Stride: k,
			Data: numbers[float64](c, name+".coupling", l.cells*k)},
		head: fromLower(numbers[float64](c, name, k*(k+1)/2), k)}
}
