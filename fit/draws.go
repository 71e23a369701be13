package fit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"unseen/internal/kern"
)

// mostExact is the number of dimensions up to which V is factored; above it V is known by draws.
const mostExact = 4096

// usualDraws is the number of draws of θ: standard errors are uncertain by 1/√(2·128), 6%. There are
// half as many of (w, b) given s, which the leverage is averaged over.
const usualDraws = 128

// draws stand for V where its matrix over the dimensions would be too large. With the pair's
// information written as C Cᵀ, so that I = Σ G C Cᵀ Gᵀ, and the prior's precision as F Fᵀ,
//
//	θ = V·(Σ G C ε + F ε′)    has covariance    V·(I + prior)·V = V:
//
// a draw is one linear system, which conjugate gradients solve with nothing but products with the
// pairs. A variance is then a mean of squares: unbiased whatever the spectrum of V is like, and
// uncertain by a known share. (A low rank and a diagonal would need less memory, and be wrong by an
// unknown one where the spectrum is flat.) The noise depends on the seed alone, so that rounds of
// learning that hardly differ have draws that hardly differ.
type draws struct {
	// What preconditions: the diagonal over w, and the factored block over (b, s).
	diagonal []float64
	block    blas64.Triangular

	pairs []contribution // the information of each, until the leverage is known

	joint [][]float32 // θ less the mode; nil until they are drawn
	given [][]float32 // (w, b) less the mode, given s
	trace float64     // of the covariance of w given s
}

// approximate says that a posterior of so many dimensions is known by draws.
func approximate(dim, draws int) string {
	return fmt.Sprintf("The vectors have %d dimensions, too many for an exact posterior: it is known by %d "+
		"draws, and every standard error is itself uncertain by about %.0f%%.", dim, draws,
		100/math.Sqrt(2*float64(draws)))
}

// sketch returns the information at θ without draws.
func (l *laplace) sketch(ctx context.Context, theta []float64) (*information, error) {
	t, w := l.table(theta), l.weights32(theta)
	d := &draws{diagonal: make([]float64, l.d), pairs: make([]contribution, l.x.Rows())}
	var parts [lots][]float64
	kern.Chunks(lots, 1, l.threads, func(_, i, _, _ int) {
		if ctx.Err() != nil {
			return
		}
		parts[i] = make([]float64, l.d)
		from, to := l.lot(i)
		var z [512]float32
		for ; from < to; from += len(z) {
			n := min(len(z), to-from)
			l.logits(z[:n], w, from)
			for k := range n {
				c := l.contribute(from+k, float64(z[k]), t, nil)
				if l.fixed {
					c.zs = 0
				}
				d.pairs[from+k] = c
				for j, x := range l.x.Row(from + k)[:l.d] {
					parts[i][j] += c.zz * float64(x) * float64(x)
				}
			}
		}
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for j := range d.diagonal {
		d.diagonal[j] = l.prior.Alpha
		for i := range parts {
			d.diagonal[j] += parts[i][j]
		}
	}
	block := l.priorBlock()
	n := block.N
	for k, c := range d.pairs {
		at := 1 + int(l.cell[k])
		block.Data[0] += c.zz
		block.Data[at*n] += c.zs
		block.Data[at*n+at] += c.ss
	}
	var ok bool
	if d.block, ok = lapack64.Potrf(block); !ok {
		return nil, fmt.Errorf("%w: the information of the propensities is not positive definite; the vectors "+
			"may hold huge or missing numbers", ErrDiverged)
	}
	return &information{n: l.size(), d: l.d, draws: d}, nil
}

// priorBlock returns the prior's precision over (b, s).
func (l *laplace) priorBlock() blas64.Symmetric {
	n := 1 + l.cells
	block := blas64.Symmetric{N: n, Stride: n, Data: make([]float64, n*n), Uplo: blas.Lower}
	without := &laplace{group: l.group} // as if there were no w
	l.prior.precision(without, block)
	return block
}

// precondition sets z to what the information's inverse would make of r were w independent of
// (b, s) and its weights of one another.
func (d *draws) precondition(z, r []float64, given bool) {
	n := len(d.diagonal)
	for i, x := range d.diagonal {
		z[i] = r[i] / x
	}
	copy(z[n:], r[n:])
	if given {
		z[n] /= d.block.Data[0] * d.block.Data[0]
		return
	}
	v := blas64.Vector{N: d.block.N, Inc: 1, Data: z[n:]}
	blas64.Trsv(blas.NoTrans, d.block, v)
	blas64.Trsv(blas.Trans, d.block, v)
}

// covariance returns the information at θ, with draws where it is not factored.
func (l *laplace) covariance(ctx context.Context, theta []float64) (*information, error) {
	info, err := l.fisher(ctx, theta)
	if err == nil && info.draws != nil {
		err = l.draw(ctx, info.draws)
	}
	return info, err
}

// draw draws from the posterior, by conjugate gradients for all draws at once.
func (l *laplace) draw(ctx context.Context, d *draws) error {
	const (
		most   = 500
		enough = 1e-8 // of the squared residual, where the preconditioner is the metric
	)
	n, count := l.size(), l.draws+l.draws/2
	residual, err := l.noise(ctx, d, count)
	if err != nil {
		return err
	}
	vectors := func() [][]float64 {
		out := make([][]float64, count)
		for j := range out {
			out[j] = make([]float64, n)
		}
		return out
	}
	x, p, z := vectors(), vectors(), vectors()
	size, first := make([]float64, count), make([]float64, count)
	kern.Chunks(count, 1, l.threads, func(_, j, _, _ int) {
		d.precondition(z[j], residual[j], j >= l.draws)
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
		q, err := l.times(ctx, d, p)
		if err != nil {
			return err
		}
		kern.Chunks(count, 1, l.threads, func(_, j, _, _ int) {
			curvature := dot(p[j], q[j])
			if size[j] <= enough*first[j] || !(curvature > 0) {
				return // done before the others
			}
			step := size[j] / curvature
			for i, v := range p[j] {
				x[j][i] += step * v
				residual[j][i] -= step * q[j][i]
			}
			d.precondition(z[j], residual[j], j >= l.draws)
			next := dot(z[j], residual[j])
			turn := next / size[j]
			for i, v := range z[j] {
				p[j][i] = v + turn*p[j][i]
			}
			size[j] = next
		})
	}
	d.joint, d.given = make([][]float32, l.draws), make([][]float32, l.draws/2)
	for j, v := range x {
		to, length := &d.joint, n
		at := j
		if j >= l.draws {
			to, length, at = &d.given, l.d+1, j-l.draws
		}
		(*to)[at] = make([]float32, length)
		for i := range length {
			(*to)[at][i] = float32(v[i])
		}
	}
	return nil
}

// noise returns Σ G C ε + F ε′ for every draw.
func (l *laplace) noise(ctx context.Context, d *draws, count int) ([][]float64, error) {
	var streams [lots]*rand.Rand
	for i := range streams {
		streams[i] = rand.New(rand.NewPCG(l.seed, 0xd4a35+uint64(i)))
	}
	out, err := l.pass(ctx, nil, count, func(lot, k int, _ []float32, _ []float64, u []float32, v []float64) {
		c := &d.pairs[k]
		// C of the pair: (zz zs; zs ss) = C Cᵀ, lower triangular
		c11 := math.Sqrt(c.zz)
		var c21 float64
		if c11 > 0 {
			c21 = c.zs / c11
		}
		c22 := math.Sqrt(math.Max(c.ss-c21*c21, 0))
		rng := streams[lot]
		for j := range u {
			e := rng.NormFloat64()
			u[j] = float32(c11 * e)
			if j < l.draws {
				v[j] = c21*e + c22*rng.NormFloat64()
			}
		}
	})
	if err != nil {
		return nil, err
	}
	factor, ok := lapack64.Potrf(l.priorBlock())
	if !ok {
		return nil, fmt.Errorf("%w: the prior of the propensities is not positive definite", ErrDiverged)
	}
	rng := rand.New(rand.NewPCG(l.seed, 0xd4a35+lots))
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
			if i == 0 || j < l.draws {
				row[l.d+i] += x
			}
		}
	}
	return out, nil
}

// times returns the information and the prior's precision times each of some vectors.
func (l *laplace) times(ctx context.Context, d *draws, p [][]float64) ([][]float64, error) {
	out, err := l.pass(ctx, p, len(p), func(_, k int, a []float32, s []float64, u []float32, v []float64) {
		c := &d.pairs[k]
		for j := range u {
			x, y := float64(a[j]), s[j]
			u[j] = float32(c.zz*x + c.zs*y)
			v[j] = c.zs*x + c.ss*y
		}
	})
	if err != nil {
		return nil, err
	}
	block := l.priorBlock()
	for j, row := range out {
		for i, x := range p[j][:l.d] {
			row[i] += l.prior.Alpha * x
		}
		blas64.Symv(1, block, blas64.Vector{N: block.N, Inc: 1, Data: p[j][l.d:]}, 1,
			blas64.Vector{N: block.N, Inc: 1, Data: row[l.d:]})
		if j >= l.draws {
			clear(row[l.d+1:])
		}
	}
	return out, nil
}

// pass goes over the pairs once for many vectors θ. f gets a pair's products x·(w, b) and its s, one
// of each vector, and sets the pair's weights u and v; the pass returns Σ u·(x, 1) and Σ v·e_c. Without
// vectors the products are nothing.
func (l *laplace) pass(ctx context.Context, theta [][]float64, count int, f func(lot, k int, a []float32, s []float64,
	u []float32, v []float64)) ([][]float64, error) {
	const chunk = 256
	width := l.d + 1
	var weights *kern.Matrix
	s := make([]float64, l.cells*count) // by cell, then by vector
	if theta != nil {
		var err error
		if weights, err = kern.NewMatrix(count, width); err != nil {
			return nil, err
		}
		defer weights.Close()
		for j, row := range theta {
			to := weights.Row(j)
			for i := range width {
				to[i] = float32(row[i])
			}
			for c, x := range row[width:] {
				s[c*count+j] = x
			}
		}
	}
	type partial struct {
		w *kern.Matrix
		b []float64 // in float64, as fisher does
		s []float64
	}
	parts := make([]partial, lots)
	failed := make([]error, lots)
	kern.Chunks(lots, 1, l.threads, func(_, i, _, _ int) {
		p := &parts[i]
		room := func(rows, columns int) *kern.Matrix {
			m, err := kern.NewMatrix(rows, columns)
			if err != nil && failed[i] == nil {
				failed[i] = err
			}
			return m
		}
		p.w = room(count, width)
		products, turned := room(chunk, count), room(count, chunk)
		if failed[i] != nil {
			return
		}
		defer products.Close()
		defer turned.Close()
		p.b, p.s = make([]float64, count), make([]float64, l.cells*count)
		v := make([]float64, count)
		from, to := l.lot(i)
		for ; from < to && failed[i] == nil; from += chunk {
			if failed[i] = ctx.Err(); failed[i] != nil {
				return
			}
			n := min(chunk, to-from)
			failed[i] = func() error {
				rows, err := l.x.Slice(from, from+n)
				if err != nil {
					return err
				}
				used, err := products.Slice(0, n)
				if err != nil {
					return err
				}
				if weights != nil {
					kern.MulT(used, rows, weights)
				}
				for k := range n {
					cell := int(l.cell[from+k])
					u := used.Row(k)[:count]
					clear(v)
					f(i, from+k, u, s[cell*count:(cell+1)*count], u, v)
					for j, x := range u {
						p.b[j] += float64(x)
					}
					for j, x := range v {
						p.s[cell*count+j] += x
					}
				}
				back, err := turned.First(n)
				if err != nil {
					return err
				}
				kern.Transpose(back, used)
				kern.Mul(p.w, back, rows, true)
				return nil
			}()
		}
	})
	defer func() {
		for _, p := range parts {
			if p.w != nil {
				p.w.Close()
			}
		}
	}()
	for _, err := range failed {
		if err != nil {
			return nil, err
		}
	}
	out := make([][]float64, count)
	for j := range out {
		out[j] = make([]float64, l.size())
		for _, p := range parts {
			for i, x := range p.w.Row(j)[:l.d] {
				out[j][i] += float64(x)
			}
			out[j][l.d] += p.b[j]
			for c := range l.cells {
				out[j][width+c] += p.s[c*count+j]
			}
		}
	}
	return out, nil
}

// leverage returns the variance of every pair's logit given s, and learns the trace by the way. Of
// the d+1 numbers (w, b) the prior decides α·tr V_ww and the data γ = Σ zz·leverage. Draws know both
// sums, and since what they should add up to is known, their shares are surer than either.
func (d *draws) leverage(l *laplace) ([]float32, error) {
	count := len(d.given)
	weights, err := kern.NewMatrix(count, l.d+1)
	if err != nil {
		return nil, err
	}
	defer weights.Close()
	for j, row := range d.given {
		copy(weights.Row(j), row)
	}
	const chunk = 480
	out := make([]float32, l.x.Rows())
	failed := make([]error, (len(out)+chunk-1)/chunk)
	kern.Chunks(len(out), chunk, l.threads, func(_, number, from, to int) {
		room := make([]float32, (to-from)*count)
		products, err := kern.View(room, to-from, count, count)
		if err != nil {
			failed[number] = err
			return
		}
		rows, err := l.x.Slice(from, to)
		if err != nil {
			failed[number] = err
			return
		}
		kern.MulT(products, rows, weights)
		for k := range to - from {
			var sum float64
			for _, x := range room[k*count : (k+1)*count] {
				sum += float64(x) * float64(x)
			}
			out[from+k] = float32(sum / float64(count))
		}
	})
	for _, err := range failed {
		if err != nil {
			return nil, err
		}
	}
	var squares, decided float64
	for _, row := range d.given {
		for _, x := range row[:l.d] {
			squares += float64(x) * float64(x) / float64(count)
		}
	}
	for k, c := range d.pairs {
		decided += c.zz * float64(out[k])
	}
	d.trace = squares * float64(l.d+1) / (l.prior.Alpha*squares + decided)
	d.pairs = nil // of no more use
	return out, nil
}

// variance returns gᵀVg.
func (d *draws) variance(g []float64) float64 {
	var sum float64
	for _, row := range d.joint {
		var along float64
		for i, x := range row {
			along += g[i] * float64(x)
		}
		sum += along * along
	}
	return sum / float64(len(d.joint))
}

// cellCovariance returns the covariance of s, row by row.
func (d *draws) cellCovariance(n int) []float64 {
	v := make([]float64, n*n)
	for _, row := range d.joint {
		s := row[len(row)-n:]
		for a, x := range s {
			for b, y := range s {
				v[a*n+b] += float64(x) * float64(y) / float64(len(d.joint))
			}
		}
	}
	return v
}

// another adds to θ a draw of (w, b) given s: a random mixture of those there are, whose covariance is
// theirs.
func (d *draws) another(theta []float64, rng *rand.Rand) {
	root := math.Sqrt(float64(len(d.given)))
	for _, row := range d.given {
		e := rng.NormFloat64() / root
		for i, x := range row {
			theta[i] += e * float64(x)
		}
	}
}

func (d *draws) keep(c *checkpoint, name string) {
	put(c, name+".diagonal", d.diagonal)
	put(c, name+".block", lower(d.block))
	put(c, name+".joint", flat(d.joint))
	put(c, name+".given", flat(d.given))
	put(c, name+".trace", []float64{d.trace})
}

// restoreDraws returns the draws of n parameters, of which dim are weights.
func restoreDraws(c *checkpoint, name string, n, dim int) *draws {
	d := &draws{diagonal: numbers[float64](c, name+".diagonal", dim), trace: numbers[float64](c, name+".trace", 1)[0]}
	rest := n - dim
	d.block = fromLower(numbers[float64](c, name+".block", rest*(rest+1)/2), rest)
	d.joint = rowsOf(numbers[float32](c, name+".joint", -1), n)
	d.given = rowsOf(numbers[float32](c, name+".given", len(d.joint)/2*(dim+1)), dim+1)
	return d
}

func flat(rows [][]float32) []float32 {
	var out []float32
	for _, row := range rows {
		out = append(out, row...)
	}
	return out
}

func rowsOf(values []float32, width int) [][]float32 {
	out := make([][]float32, 0, len(values)/width)
	for at := 0; at+width <= len(values); at += width {
		out = append(out, values[at:at+width])
	}
	return out
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
