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
	"unseen/internal/kern"
	"unseen/model"
)

// mostExact is the number of dimensions up to which V is factored; above it V is known by draws.
const mostExact = 4096

// usualDraws is the number of draws of θ: standard errors are uncertain by 1/√(2·128), 6%. There are
// half as many of (w, b) given s, which the leverage is averaged over.
const usualDraws = 128

// drawnCovariance knows V by draws, where its matrix over the dimensions would be too large. With the pair's
// information written as C Cᵀ, so that I = Σ G C Cᵀ Gᵀ, and the prior's precision as F Fᵀ,
//
//	θ = V·(Σ G C ε + F ε′)    has covariance    V·(I + prior)·V = V:
//
// a draw is one linear system, which conjugate gradients solve with nothing but products with the
// pairs. A variance is then a mean of squares: unbiased whatever the spectrum of V is like, and
// uncertain by a known share. (A low rank and a diagonal would need less memory, and be wrong by an
// unknown one where the spectrum is flat.) The noise depends on the seed alone, so that rounds of
// learning that hardly differ have draws that hardly differ.
type drawnCovariance struct {
	// What preconditions: the diagonal over w, and the factored block over (b, s).
	diagonal []float64
	block    blas64.Triangular

	joint [][]float32 // θ less the mode
	given [][]float32 // (w, b) less the mode, given s

	// of the information and the prior, until the leverage is known
	curvature engine.Curvature
	alpha     float64
	ofW       float64 // tr V_ww given s

	d     int
	once  sync.Once
	cells []float64 // the covariance of s, once computed
}

// approximate says that a posterior is known by draws.
func approximate(dim, draws int) string {
	return fmt.Sprintf("The vectors have %d dimensions, too many for an exact posterior: it is estimated from %d "+
		"draws, and every standard error is itself uncertain by about %.0f%%.", dim, draws,
		100/math.Sqrt(2*float64(draws)))
}

// byDraws finds V by count draws of θ, and half as many of (w, b) given s.
type byDraws struct {
	count   int
	seed    uint64
	threads int
}

// search finds modes with the preconditioner for V, which is only near its matrix: that takes more iterations, which
// are cheap, and computing it again would not help.
func (m byDraws) search() modeSearch { return modeSearch{iterations: 2000} }

// near returns V without draws.
func (m byDraws) near(ctx context.Context, l *laplace, theta []float64) (covariance, error) {
	v, err := m.precondition(ctx, l, theta)
	if err != nil {
		return nil, err
	}
	return v, v.close()
}

func (m byDraws) precondition(ctx context.Context, l *laplace, theta []float64) (*drawnCovariance, error) {
	likelihood, err := l.likelihood(ctx)
	if err != nil {
		return nil, err
	}
	curvature, err := likelihood.Curvature(ctx, theta)
	if err != nil {
		return nil, err
	}
	v := &drawnCovariance{d: l.d, diagonal: make([]float64, l.d), curvature: curvature, alpha: l.prior.Alpha}
	diagonal := curvature.Diagonal()
	for j := range v.diagonal {
		v.diagonal[j] = l.prior.Alpha + diagonal[j]
	}
	block := l.prior.block()
	for i, x := range diagonal[l.d:] {
		block.Data[i*block.N+i] += x
	}
	for c, x := range curvature.Border() {
		block.Data[(1+c)*block.N] += x
	}
	var ok bool
	if v.block, ok = lapack64.Potrf(block); !ok {
		v.close()
		return nil, fmt.Errorf("%w: the information of the propensities is not positive definite; the vectors "+
			"may be all alike, or hold huge numbers", ErrDiverged)
	}
	return v, nil
}

// close frees the curvature, which is not needed any more.
func (v *drawnCovariance) close() error {
	if v.curvature == nil {
		return nil
	}
	curvature := v.curvature
	v.curvature, v.alpha = nil, 0
	return curvature.Close()
}

// at draws from the posterior, by conjugate gradients for all draws at once.
func (m byDraws) at(ctx context.Context, l *laplace, theta []float64) (covariance, error) {
	v, err := m.precondition(ctx, l, theta)
	if err != nil {
		return nil, err
	}
	if err := m.draw(ctx, l, v); err != nil {
		v.close()
		return nil, err
	}
	return v, nil
}

func (m byDraws) draw(ctx context.Context, l *laplace, v *drawnCovariance) error {
	const (
		most   = 500
		enough = 1e-8 // of the squared residual, where the preconditioner is the metric
	)
	n, count := l.size(), m.count+m.count/2
	residual, err := m.noise(ctx, l, v)
	if err != nil {
		return err
	}
	x, p, z := rowsOfZeros(count, n), rowsOfZeros(count, n), rowsOfZeros(count, n)
	size, first := make([]float64, count), make([]float64, count)
	kern.Chunks(count, 1, m.threads, func(_, j, _, _ int) {
		v.precondition(z[j], residual[j], j >= m.count)
		copy(p[j], z[j])
		size[j] = dot(z[j], residual[j])
		first[j] = size[j]
	})
	for iteration := 0; ; iteration++ {
		worst := 0.
		for j := range size {
			if first[j] > 0 {
				worst = math.Max(worst, size[j]/first[j])
			}
		}
		if worst <= enough {
			break
		}
		if iteration == most || math.IsNaN(worst) {
			return fmt.Errorf("%w: the posterior of %d dimensions could not be drawn from: residual %.1g after "+
				"%d steps; the vectors may be nearly alike, so reduce their dimensions, or use mle", ErrDiverged, l.d,
				math.Sqrt(worst), iteration)
		}
		q, err := m.times(ctx, l, v, p)
		if err != nil {
			return err
		}
		kern.Chunks(count, 1, m.threads, func(_, j, _, _ int) {
			curvature := dot(p[j], q[j])
			if size[j] <= enough*first[j] || !(curvature > 0) {
				return // done before the others
			}
			step := size[j] / curvature
			for i, along := range p[j] {
				x[j][i] += step * along
				residual[j][i] -= step * q[j][i]
			}
			v.precondition(z[j], residual[j], j >= m.count)
			next := dot(z[j], residual[j])
			turn := next / size[j]
			for i, along := range z[j] {
				p[j][i] = along + turn*p[j][i]
			}
			size[j] = next
		})
	}
	v.joint, v.given = float32Rows(x[:m.count], n), float32Rows(x[m.count:], l.d+1)
	return nil
}

func rowsOfZeros(rows, columns int) [][]float64 {
	out := make([][]float64, rows)
	for j := range out {
		out[j] = make([]float64, columns)
	}
	return out
}

// float32Rows returns the first columns of rows.
func float32Rows(rows [][]float64, columns int) [][]float32 {
	out := make([][]float32, len(rows))
	for j, row := range rows {
		out[j] = make([]float32, columns)
		for i, x := range row[:columns] {
			out[j][i] = float32(x)
		}
	}
	return out
}

// noise returns Σ G C ε + F ε′ for every draw.
func (m byDraws) noise(ctx context.Context, l *laplace, v *drawnCovariance) ([][]float64, error) {
	out, err := v.curvature.Noise(ctx, m.seed, m.count, m.count/2)
	if err != nil {
		return nil, err
	}
	factor, ok := lapack64.Potrf(l.prior.block())
	if !ok {
		return nil, fmt.Errorf("%w: the prior of the propensities is not positive definite", ErrDiverged)
	}
	rng := rand.New(rand.NewPCG(m.seed, 0xd4a3d)) // none of the streams of the engine's noise
	root := math.Sqrt(l.prior.Alpha)
	for j, row := range out {
		for i := range l.d {
			row[i] += root * rng.NormFloat64()
		}
		e := make([]float64, factor.N)
		for i := range e {
			e[i] = rng.NormFloat64()
		}
		blas64.Trmv(blas.NoTrans, factor, blas64.Vector{N: len(e), Inc: 1, Data: e})
		for i, x := range e {
			if i == 0 || j < m.count {
				row[l.d+i] += x
			}
		}
	}
	return out, nil
}

// times returns the information and the prior's precision times each of the vectors.
func (m byDraws) times(ctx context.Context, l *laplace, v *drawnCovariance, p [][]float64) ([][]float64, error) {
	out, err := v.curvature.Times(ctx, p)
	if err != nil {
		return nil, err
	}
	block := l.prior.block()
	for j, row := range out {
		for i, x := range p[j][:l.d] {
			row[i] += l.prior.Alpha * x
		}
		blas64.Symv(1, block, blas64.Vector{N: block.N, Inc: 1, Data: p[j][l.d:]}, 1,
			blas64.Vector{N: block.N, Inc: 1, Data: row[l.d:]})
		if j >= m.count {
			clear(row[l.d+1:])
		}
	}
	return out, nil
}

// precondition sets z to what V would make of r were w independent of (b, s) and its weights of one another; of (w, b)
// alone, given s, if given is set.
func (v *drawnCovariance) precondition(z, r []float64, given bool) {
	n := len(v.diagonal)
	for i, x := range v.diagonal {
		z[i] = r[i] / x
	}
	copy(z[n:], r[n:])
	if given {
		z[n] /= v.block.Data[0] * v.block.Data[0]
		return
	}
	rest := blas64.Vector{N: v.block.N, Inc: 1, Data: z[n:]}
	blas64.Trsv(blas.NoTrans, v.block, rest)
	blas64.Trsv(blas.Trans, v.block, rest)
}

func (v *drawnCovariance) solve(x []float64) { v.precondition(x, x, false) }

// leverage finds the trace too. Of the d+1 numbers (w, b) the prior decides α·tr V_ww and the data
// γ = Σ zz·leverage. Draws know both sums, and since what they should add up to is known, their shares are surer than
// either.
func (v *drawnCovariance) leverage(ctx context.Context, design engine.Design) ([]float32, error) {
	count, d := len(v.given), v.d
	out, err := design.Leverage(ctx, engine.Root{Rows: v.given, Divisor: float64(count)})
	if err != nil {
		return nil, err
	}
	var squares float64
	for _, row := range v.given {
		for _, x := range row[:d] {
			squares += float64(x) * float64(x) / float64(count)
		}
	}
	decided, err := v.curvature.Decided(ctx, out)
	if err != nil {
		return nil, err
	}
	v.ofW = squares * float64(d+1) / (v.alpha*squares + decided)
	return out, v.close()
}

func (v *drawnCovariance) trace() float64 { return v.ofW }

func (v *drawnCovariance) times(g []float64) []float64 {
	out := make([]float64, len(g))
	for _, row := range v.joint {
		var along float64
		for i, x := range row {
			along += g[i] * float64(x)
		}
		for i, x := range row {
			out[i] += along / float64(len(v.joint)) * float64(x)
		}
	}
	return out
}

func (v *drawnCovariance) variance(g []float64) float64 {
	var sum float64
	for _, row := range v.joint {
		var along float64
		for i, x := range row {
			along += g[i] * float64(x)
		}
		sum += along * along
	}
	return sum / float64(len(v.joint))
}

func (v *drawnCovariance) ofCells() []float64 {
	v.once.Do(func() {
		n := len(v.joint[0]) - v.d - 1
		v.cells = make([]float64, n*n)
		for _, row := range v.joint {
			s := row[len(row)-n:]
			for a, x := range s {
				for b, y := range s {
					v.cells[a*n+b] += float64(x) * float64(y) / float64(len(v.joint))
				}
			}
		}
	})
	return v.cells
}

func (v *drawnCovariance) moments(group []uint8) cellMoments {
	return cellMomentsOf(v.ofCells(), group)
}

// draw adds a random mixture of the draws there are, whose covariance is theirs.
func (v *drawnCovariance) draw(theta []float64, rng *rand.Rand) {
	root := math.Sqrt(float64(len(v.given)))
	for _, row := range v.given {
		e := rng.NormFloat64() / root
		for i, x := range row {
			theta[i] += e * float64(x)
		}
	}
}

func (v *drawnCovariance) draws() int { return len(v.joint) }

// tensor is the draws: 4.2 MB for 8192 dimensions.
func (v *drawnCovariance) tensor() model.Tensor {
	return model.Tensor{Name: "posterior.draws", Shape: []int{len(v.joint), len(v.joint[0])},
		Data: slices.Concat(v.joint...)}
}

func (v *drawnCovariance) keep(c *checkpoint, name string) {
	c.putTruth(name+".drawn", true)
	put(c, name+".diagonal", v.diagonal)
	put(c, name+".block", lower(v.block))
	put(c, name+".joint", slices.Concat(v.joint...))
	put(c, name+".given", slices.Concat(v.given...))
	put(c, name+".trace", []float64{v.ofW})
}

func (m byDraws) restore(c *checkpoint, name string, l *laplace) covariance {
	if !c.truth(name + ".drawn") {
		c.fail("%s is exact there", name)
	}
	n, d := l.size(), l.d
	v := &drawnCovariance{d: d, diagonal: numbers[float64](c, name+".diagonal", d),
		ofW: numbers[float64](c, name+".trace", 1)[0]}
	v.block = fromLower(numbers[float64](c, name+".block", (n-d)*(n-d+1)/2), n-d)
	v.joint = rowsOf(numbers[float32](c, name+".joint", -1), n)
	v.given = rowsOf(numbers[float32](c, name+".given", len(v.joint)/2*(d+1)), d+1)
	return v
}

func rowsOf(values []float32, width int) [][]float32 {
	out := make([][]float32, 0, len(values)/width)
	for at := 0; at+width <= len(values); at += width {
		out = append(out, values[at:at+width])
	}
	return out
}
