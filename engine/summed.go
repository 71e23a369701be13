package engine

import (
	"context"
	"fmt"

	"unseen/internal/kern"
)

// PairSums makes the sums over the pairs of a streamed design elsewhere than on the processor. The product of a pair is
// h_i⊙h_j, of d numbers.
type PairSums interface {
	// Dots returns the inner product of w and every pair's product.
	Dots(ctx context.Context, w []float32) ([]float32, error)
	// Add returns the sum of all products times their weights, d numbers.
	Add(ctx context.Context, weights []float32) ([]float64, error)
	// AddByCell returns those sums for every cell, one after the other.
	AddByCell(ctx context.Context, weights []float32) ([]float64, error)
	// Squares returns the sum of weight·x xᵀ over the products x: d×d numbers, row by row, of which the lower
	// triangle is set.
	Squares(ctx context.Context, weights []float32) ([]float64, error)
	// Lengths returns of every pair the sum of (row·x + its last number)² over rows of d+1 numbers.
	Lengths(ctx context.Context, rows [][]float32) ([]float32, error)
	// Close gives back what is held.
	Close() error
}

// DesignBy makes a streamed design whose sums are made elsewhere, given the cell of every pair.
func (c CPU) DesignBy(p DesignPairs, cell []int32, sums PairSums) (Design, error) {
	n := p.Pairs.Len()
	if len(cell) != n || !(p.Unit > 0) || p.Rate != nil && len(p.Rate) != n {
		return nil, fmt.Errorf("%w: a streamed design of %d pairs, unit %v, %d cells, %d rates", ErrShape, n, p.Unit,
			len(cell), len(p.Rate))
	}
	return &summedDesign{sums: sums, pairs: n, shape: cpuDesign{cell: cell, rate: p.Rate, d: p.Vectors.Dim(),
		cells: p.Cells, known: p.Known, unit: p.Unit, threads: kern.Threads(c.Threads)}}, nil
}

// summedDesign is a Design whose sums are made elsewhere.
type summedDesign struct {
	sums  PairSums
	pairs int
	shape cpuDesign // without products
}

// Unit implements Design.
func (s *summedDesign) Unit() float64 { return s.shape.unit }

// Close implements Design.
func (s *summedDesign) Close() error { return s.sums.Close() }

// Assume implements Design: it refuses.
func (s *summedDesign) Assume(context.Context, Outcomes, Assumptions) (AssumedLikelihood, error) {
	return nil, fmt.Errorf("%w: other assumptions for pairs whose products are not kept", ErrUnsupported)
}

// Logits implements Design.
func (s *summedDesign) Logits(ctx context.Context, theta []float64) ([]float32, error) {
	if len(theta) != s.shape.size() {
		return nil, s.shape.misfit(theta)
	}
	w := make([]float32, s.shape.d)
	for i := range w {
		w[i] = float32(theta[i] / s.shape.unit)
	}
	z, err := s.sums.Dots(ctx, w)
	b := float32(theta[s.shape.d])
	for k := range z {
		z[k] += b
	}
	return z, err
}

// Leverage implements Design.
func (s *summedDesign) Leverage(ctx context.Context, root Root) ([]float32, error) {
	inverse := float32(1 / s.shape.unit)
	rows := make([][]float32, len(root.Rows))
	for r, row := range root.Rows {
		rows[r] = make([]float32, s.shape.d+1)
		copy(rows[r], row)
		for i := range s.shape.d {
			rows[r][i] *= inverse
		}
	}
	out, err := s.sums.Lengths(ctx, rows)
	if !root.Lower {
		for k := range out {
			out[k] /= float32(root.Divisor)
		}
	}
	return out, err
}

// Observe implements Design.
func (s *summedDesign) Observe(_ context.Context, o Outcomes) (LogLikelihood, error) {
	if err := o.validate(s.pairs); err != nil {
		return nil, err
	}
	return &summedLikelihood{s, &cpuLikelihood{cpuDesign: &s.shape, linked: o.Linked, exposure: o.Exposure},
		o.Leverage}, nil
}

// summedLikelihood is a LogLikelihood whose sums are made elsewhere: the processor finds what each pair contributes,
// given its logit.
type summedLikelihood struct {
	*summedDesign
	seen     *cpuLikelihood
	leverage []float32
}

// Close implements LogLikelihood: there is nothing to give back.
func (l *summedLikelihood) Close() error { return nil }

// Curvature implements LogLikelihood: it refuses.
func (l *summedLikelihood) Curvature(context.Context, []float64) (Curvature, error) {
	return nil, fmt.Errorf("%w: products with the information of pairs whose products are not kept", ErrUnsupported)
}

// Calibrate implements LogLikelihood: it refuses.
func (l *summedLikelihood) Calibrate(context.Context, []float64) (scale, shift float64, err error) {
	return 0, 0, fmt.Errorf("%w: to calibrate by pairs whose products are not kept", ErrUnsupported)
}

// each hands what every pair contributes at θ to visit, lot by lot, and returns the sum of the losses.
func (l *summedLikelihood) each(ctx context.Context, theta []float64, visit func(lot, k int, c contribution)) (float64,
	error) {
	z, err := l.Logits(ctx, theta)
	if err != nil {
		return 0, err
	}
	t := l.shape.table(theta)
	var loss [lots]float64
	err = eachLot(ctx, l.pairs, l.shape.threads, func(lot, from, to int) error {
		losses, sum := newTally(l.leverage != nil), 0. // its own: lots that share a line of the cache wait for it
		for k := from; k < to; k++ {
			at := l.seen.point(k, t)
			var around *spread
			if l.leverage != nil {
				own := spreadOf(l.leverage[k])
				around = &own
			}
			c := at.contribute(float64(z[k]), around, &losses)
			sum += c.loss
			visit(lot, k, c)
			if k%passed == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
		}
		loss[lot] = sum + losses.total()
		return nil
	})
	var total float64
	for _, x := range loss {
		total += x
	}
	return total, err
}

// Value implements LogLikelihood.
func (l *summedLikelihood) Value(ctx context.Context, theta, grad []float64) (float64, error) {
	d := l.shape.d
	if len(theta) != l.shape.size() || len(grad) != l.shape.size() {
		return 0, l.shape.misfit(theta)
	}
	slopes := make([]float32, l.pairs)
	parts := table[float64](lots, 1+l.shape.cells) // of the intercept and the cells
	loss, err := l.each(ctx, theta, func(lot, k int, c contribution) {
		slopes[k] = float32(c.dz)
		parts[lot][0] += c.dz
		parts[lot][1+l.shape.cell[k]] += c.ds
	})
	if err != nil {
		return 0, err
	}
	along, err := l.sums.Add(ctx, slopes)
	if err != nil {
		return 0, err
	}
	clear(grad)
	for i, x := range along {
		grad[i] = x / l.shape.unit
	}
	for _, part := range parts {
		for i, x := range part {
			grad[d+i] += x
		}
	}
	return loss, nil
}

// Information implements LogLikelihood.
func (l *summedLikelihood) Information(ctx context.Context, theta []float64) ([]float64, error) {
	d, n, cells := l.shape.d, l.shape.size(), l.shape.cells
	if len(theta) != n {
		return nil, l.shape.misfit(theta)
	}
	zz, zs := make([]float32, l.pairs), make([]float32, l.pairs)
	// the intercept's own part, and with each cell, and the cells'; in float64, see informationPart
	parts := table[float64](lots, 1+2*cells)
	if _, err := l.each(ctx, theta, func(lot, k int, c contribution) {
		zz[k], zs[k] = float32(c.zz), float32(c.zs)
		own, cell := parts[lot], int(l.shape.cell[k])
		own[0] += c.zz
		own[1+cell] += c.zs
		own[1+cells+cell] += c.ss
	}); err != nil {
		return nil, err
	}
	full, unit := make([]float64, n*n), l.shape.unit
	squares, err := l.sums.Squares(ctx, zz)
	if err != nil {
		return nil, err
	}
	for i := range d {
		for j := range i + 1 {
			full[i*n+j] = squares[i*d+j] / (unit * unit)
		}
	}
	along, err := l.sums.Add(ctx, zz)
	if err != nil {
		return nil, err
	}
	for j, x := range along {
		full[d*n+j] = x / unit
	}
	if !l.shape.known {
		byCell, err := l.sums.AddByCell(ctx, zs)
		if err != nil {
			return nil, err
		}
		for at, x := range byCell {
			full[(d+1+at/d)*n+at%d] = x / unit
		}
	}
	for _, own := range parts {
		full[d*n+d] += own[0]
		for c := range cells {
			if !l.shape.known {
				full[(d+1+c)*n+d] += own[1+c]
			}
			full[(d+1+c)*n+d+1+c] += own[1+cells+c]
		}
	}
	return full, nil
}
