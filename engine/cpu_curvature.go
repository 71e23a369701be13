package engine

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"unseen/internal/kern"
)

// Curvature implements LogLikelihood. It keeps the information of every pair, and goes over the products again for
// every call.
func (l *cpuLikelihood) Curvature(ctx context.Context, theta []float64) (Curvature, error) {
	if len(theta) != l.size() {
		return nil, l.misfit(theta)
	}
	t, w := l.table(theta), l.weights(theta)
	out := &cpuCurvature{cpuDesign: l.cpuDesign, pairs: make([]pairInformation, l.x.Rows()),
		diagonal: make([]float64, l.size()), border: make([]float64, l.cells)}
	type partial struct{ diagonal, border []float64 }
	var parts [lots]partial
	err := l.eachLot(ctx, func(lot, from, to int) error {
		p := partial{make([]float64, l.size()), make([]float64, l.cells)}
		var z [passed]float32
		for ; from < to; from += passed {
			n := min(passed, to-from)
			kern.DotRange(z[:n], w, l.x, from)
			for k := range n {
				c := l.contribute(from+k, z[k], t, nil)
				if l.known {
					c.zs = 0
				}
				out.pairs[from+k] = pairInformation{c.zz, c.zs, c.ss}
				for j, x := range l.x.Row(from + k)[:l.d] {
					p.diagonal[j] += c.zz * float64(x) * float64(x)
				}
				cell := int(l.cell[from+k])
				p.diagonal[l.d] += c.zz
				p.diagonal[l.d+1+cell] += c.ss
				p.border[cell] += c.zs
			}
		}
		parts[lot] = p
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		for i, x := range p.diagonal {
			out.diagonal[i] += x
		}
		for c, x := range p.border {
			out.border[c] += x
		}
	}
	return out, nil
}

// cpuCurvature is a Curvature in memory.
type cpuCurvature struct {
	*cpuDesign
	pairs            []pairInformation
	diagonal, border []float64
}

// pairInformation is Fisher's information of one pair about (z, s).
type pairInformation struct{ zz, zs, ss float64 }

// Diagonal implements Curvature.
func (c *cpuCurvature) Diagonal() []float64 { return c.diagonal }

// Border implements Curvature.
func (c *cpuCurvature) Border() []float64 { return c.border }

// Close implements Curvature: the memory is the collector's.
func (c *cpuCurvature) Close() error { return nil }

// Decided implements Curvature: Σ zz·leverage.
func (c *cpuCurvature) Decided(_ context.Context, leverage []float32) (sum float64, err error) {
	if len(leverage) != len(c.pairs) {
		return 0, fmt.Errorf("%w: %d leverages of %d pairs", ErrShape, len(leverage), len(c.pairs))
	}
	for k, p := range c.pairs {
		sum += p.zz * float64(leverage[k])
	}
	return sum, nil
}

// Times implements Curvature.
func (c *cpuCurvature) Times(ctx context.Context, v [][]float64) ([][]float64, error) {
	return c.pass(ctx, v, len(v), func(_, k int, a []float32, s []float64, u []float32, v []float64) {
		p := &c.pairs[k]
		for j := range u {
			x, y := float64(a[j]), s[j]
			u[j] = float32(p.zz*x + p.zs*y)
			v[j] = p.zs*x + p.ss*y
		}
	})
}

// Noise implements Curvature. With the information of a pair written as C Cᵀ, so that I = Σ G C Cᵀ Gᵀ, it is Σ G C ε.
func (c *cpuCurvature) Noise(ctx context.Context, seed uint64, joint, given int) ([][]float64, error) {
	var streams [lots]*rand.Rand
	for i := range streams {
		streams[i] = rand.New(rand.NewPCG(seed, 0xd4a35+uint64(i)))
	}
	return c.pass(ctx, nil, joint+given, func(lot, k int, _ []float32, _ []float64, u []float32, v []float64) {
		p := &c.pairs[k]
		// C of the pair: (zz zs; zs ss) = C Cᵀ, lower triangular
		c11 := math.Sqrt(p.zz)
		var c21 float64
		if c11 > 0 {
			c21 = p.zs / c11
		}
		c22 := math.Sqrt(math.Max(p.ss-c21*c21, 0))
		rng := streams[lot]
		for j := range u {
			e := rng.NormFloat64()
			u[j] = float32(c11 * e)
			if j < joint {
				v[j] = c21*e + c22*rng.NormFloat64()
			}
		}
	})
}

// pairWeights gets a pair's products x·(w, b) and its s, one of each vector, and sets the pair's weights u and v.
type pairWeights func(lot, k int, a []float32, s []float64, u []float32, v []float64)

// passPart is what one lot adds to a pass.
type passPart struct {
	w *kern.Matrix
	b []float64 // in float64, as Information does
	s []float64
}

// pass goes over the pairs once for many vectors θ and returns Σ u·(x, 1) and Σ v·e_c with the weights that f sets.
// Without vectors the products are nothing.
func (c *cpuCurvature) pass(ctx context.Context, theta [][]float64, count int, f pairWeights) ([][]float64, error) {
	width := c.d + 1
	var weights *kern.Matrix
	s := make([]float64, c.cells*count) // by cell, then by vector
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
			for cell, x := range row[width:] {
				s[cell*count+j] = x
			}
		}
	}
	parts := make([]passPart, lots)
	defer func() {
		for _, p := range parts {
			if p.w != nil {
				p.w.Close()
			}
		}
	}()
	err := c.eachLot(ctx, func(lot, from, to int) error {
		p := &parts[lot]
		var err error
		if p.w, err = kern.NewMatrix(count, width); err != nil {
			return err
		}
		p.b, p.s = make([]float64, count), make([]float64, c.cells*count)
		return c.passLot(ctx, p, weights, s, span{lot, from, to}, f)
	})
	if err != nil {
		return nil, err
	}
	out := make([][]float64, count)
	for j := range out {
		out[j] = make([]float64, c.size())
		for _, p := range parts {
			for i, x := range p.w.Row(j)[:c.d] {
				out[j][i] += float64(x)
			}
			out[j][c.d] += p.b[j]
			for cell := range c.cells {
				out[j][width+cell] += p.s[cell*count+j]
			}
		}
	}
	return out, nil
}

// span is a lot and its pairs.
type span struct{ lot, from, to int }

// passLot is a pass over one lot.
func (c *cpuCurvature) passLot(ctx context.Context, p *passPart, weights *kern.Matrix, s []float64, at span,
	f pairWeights) error {
	const chunk = 256
	count := p.w.Rows()
	products, err1 := kern.NewMatrix(chunk, count)
	turned, err2 := kern.NewMatrix(count, chunk)
	if err := cmp.Or(err1, err2); err != nil {
		return err
	}
	defer products.Close()
	defer turned.Close()
	v := make([]float64, count)
	for from := at.from; from < at.to; from += chunk {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(chunk, at.to-from)
		rows, err1 := c.x.Slice(from, from+n)
		used, err2 := products.Slice(0, n)
		back, err3 := turned.First(n)
		if err := cmp.Or(err1, err2, err3); err != nil {
			return err
		}
		if weights != nil {
			kern.MulT(used, rows, weights)
		}
		for k := range n {
			cell := int(c.cell[from+k])
			u := used.Row(k)[:count]
			clear(v)
			f(at.lot, from+k, u, s[cell*count:(cell+1)*count], u, v)
			for j, x := range u {
				p.b[j] += float64(x)
			}
			for j, x := range v {
				p.s[cell*count+j] += x
			}
		}
		kern.Transpose(back, used)
		kern.Mul(p.w, back, rows, true)
	}
	return nil
}
