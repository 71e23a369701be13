package engine

import (
	"cmp"
	"context"
	"fmt"

	"unseen/graph"
	"unseen/internal/kern"
)

// streamed makes a design that keeps no products.
func (c CPU) streamed(p DesignPairs) (Design, error) {
	n := p.Pairs.Len()
	if p.CellOf == nil || !(p.Unit > 0) || p.Rate != nil && len(p.Rate) != n {
		return nil, fmt.Errorf("%w: a streamed design of %d pairs, unit %v, %d rates", ErrShape, n, p.Unit, len(p.Rate))
	}
	rows := kern.MatrixOf(p.Vectors)
	return &streamedDesign{rows: rows, pairs: p.Pairs, rate: p.Rate, cellOf: p.CellOf,
		shape: cpuDesign{d: rows.Dim(), cells: p.Cells, known: p.Known, unit: p.Unit,
			threads: kern.Threads(c.Threads)}}, nil
}

// streamedDesign is a Design over pairs whose products are made block by block, whenever they are needed.
type streamedDesign struct {
	rows   *kern.Matrix
	pairs  *graph.Pairs
	rate   []float64 // nil means 1
	cellOf func(source, target int32) int32
	shape  cpuDesign // without products, cells and rates
}

// Unit implements Design.
func (s *streamedDesign) Unit() float64 { return s.shape.unit }

// Close implements Design: there is nothing to give back.
func (s *streamedDesign) Close() error { return nil }

// Assume implements Design: it refuses.
func (s *streamedDesign) Assume(context.Context, Outcomes, Assumptions) (AssumedLikelihood, error) {
	return nil, fmt.Errorf("%w: other assumptions for pairs whose products are not kept", ErrUnsupported)
}

// gathered is how many pairs are gone through at a time: their rows stay in the cache between their logits and their
// gradient.
const gathered = 128

// weights returns w for the vectors as they are.
func (s *streamedDesign) weights(theta []float64) []float32 {
	w := make([]float32, s.shape.d)
	for i := range w {
		w[i] = float32(theta[i] / s.shape.unit)
	}
	return w
}

// logits sets z of the pairs from a place on.
func (s *streamedDesign) logits(z, w []float32, b float64, from int) {
	to := from + len(z)
	kern.DotPairs(z, w, s.rows, s.pairs.Source[from:to], s.pairs.Target[from:to])
	for k := range z {
		z[k] += float32(b)
	}
}

// Logits implements Design.
func (s *streamedDesign) Logits(ctx context.Context, theta []float64) ([]float32, error) {
	if len(theta) != s.shape.size() {
		return nil, s.shape.misfit(theta)
	}
	z, w := make([]float32, s.pairs.Len()), s.weights(theta)
	err := kern.ChunksErr(ctx, len(z), 4096, s.shape.threads, func(_, _, from, to int) error {
		s.logits(z[from:to], w, theta[s.shape.d], from)
		return nil
	})
	return z, err
}

// block is a few pairs with their cells, their rates and, if it was filled, their products.
type block struct {
	cpuDesign
	cell []int32 // the room for cells
}

func (s *streamedDesign) newBlock() (*block, error) {
	x, err := kern.NewMatrix(passed, s.shape.d+1)
	if err != nil {
		return nil, err
	}
	out := &block{cpuDesign: s.shape, cell: make([]int32, passed)}
	out.x = x
	return out, nil
}

// place sets the cells and the rates of at most as many pairs as the block has room for.
func (s *streamedDesign) place(b *block, from, to int) {
	b.cpuDesign.cell = b.cell[:to-from]
	if s.rate != nil {
		b.rate = s.rate[from:to]
	}
	for k := from; k < to; k++ {
		b.cell[k-from] = s.cellOf(s.pairs.Source[k], s.pairs.Target[k])
	}
}

// fill makes the products too.
func (s *streamedDesign) fill(b *block, from, to int) {
	s.place(b, from, to)
	inverse := []float32{float32(1 / s.shape.unit)}
	for k := from; k < to; k++ {
		row := b.x.Row(k - from)
		clear(row)
		kern.AddPairs(row[:s.shape.d], s.rows, s.pairs.Source[k:k+1], s.pairs.Target[k:k+1], inverse)
		row[s.shape.d] = 1
	}
}

// Leverage implements Design.
func (s *streamedDesign) Leverage(ctx context.Context, root Root) ([]float32, error) {
	rows, err := kern.NewMatrix(len(root.Rows), s.shape.d+1)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for i, row := range root.Rows {
		copy(rows.Row(i), row)
	}
	leverage := make([]float32, s.pairs.Len())
	err = eachLot(ctx, len(leverage), s.shape.threads, func(_, first, end int) error {
		b, err := s.newBlock()
		if err != nil {
			return err
		}
		defer b.x.Close()
		for from := first; from < end; from += passed {
			if err := ctx.Err(); err != nil {
				return err
			}
			to := min(from+passed, end)
			s.fill(b, from, to)
			if root.Lower {
				err = b.leverageByFactor(leverage[from:to], rows, 0)
			} else {
				err = b.leverageByDraws(leverage[from:to], rows, 0, root.Divisor)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return leverage, err
}

// Observe implements Design.
func (s *streamedDesign) Observe(_ context.Context, o Outcomes) (LogLikelihood, error) {
	if err := o.validate(s.pairs.Len()); err != nil {
		return nil, err
	}
	return &streamedLikelihood{s, o}, nil
}

// streamedLikelihood is a LogLikelihood over pairs whose products are not kept, and neither is the spread of their
// logits, which takes six times the memory of the leverage.
type streamedLikelihood struct {
	*streamedDesign
	outcomes Outcomes
}

// Close implements LogLikelihood: there is nothing to give back.
func (l *streamedLikelihood) Close() error { return nil }

// Curvature implements LogLikelihood: it refuses.
func (l *streamedLikelihood) Curvature(context.Context, []float64) (Curvature, error) {
	return nil, fmt.Errorf("%w: products with the information of pairs whose products are not kept", ErrUnsupported)
}

// Calibrate implements LogLikelihood: it refuses.
func (l *streamedLikelihood) Calibrate(context.Context, []float64) (scale, shift float64, err error) {
	return 0, 0, fmt.Errorf("%w: to calibrate by pairs whose products are not kept", ErrUnsupported)
}

// seen makes the likelihood of a block's pairs.
func (l *streamedLikelihood) seen(b *block, spreads []spread, from, to int) *cpuLikelihood {
	o := l.outcomes
	out := &cpuLikelihood{cpuDesign: &b.cpuDesign, linked: o.Linked[from:to]}
	if o.Exposure != nil {
		out.exposure = o.Exposure[from:to]
	}
	if o.Leverage != nil {
		for k := range to - from {
			spreads[k] = spreadOf(o.Leverage[from+k])
		}
		out.spread = spreads[:to-from]
	}
	return out
}

// Value implements LogLikelihood. The sums of a few thousand pairs are float32, those of more float64.
func (l *streamedLikelihood) Value(ctx context.Context, theta, grad []float64) (float64, error) {
	shape := &l.shape
	if len(theta) != shape.size() || len(grad) != shape.size() {
		return 0, shape.misfit(theta)
	}
	t, w := shape.table(theta), l.weights(theta)
	var loss [lots]float64
	var slopes [lots][]float64
	err := eachLot(ctx, l.pairs.Len(), shape.threads, func(lot, from, end int) error {
		out := make([]float64, shape.size())
		losses := newTally(l.outcomes.Leverage != nil)
		b := &block{cpuDesign: *shape, cell: make([]int32, gathered)}
		sum, spreads := make([]float32, shape.d), make([]spread, gathered)
		var z, dz [gathered]float32
		for number := 1; from < end; number++ {
			to := min(from+gathered, end)
			n := to - from
			l.place(b, from, to)
			seen := l.seen(b, spreads, from, to)
			l.logits(z[:n], w, theta[shape.d], from)
			for k, at := range z[:n] {
				c := seen.contribute(k, at, t, &losses)
				loss[lot] += c.loss
				dz[k] = float32(c.dz)
				out[shape.d] += c.dz
				out[shape.d+1+int(b.cell[k])] += c.ds
			}
			kern.AddPairs(sum, l.rows, l.pairs.Source[from:to], l.pairs.Target[from:to], dz[:n])
			if from = to; number%32 != 0 && from < end {
				continue
			}
			for i, x := range sum {
				out[i] += float64(x) / shape.unit
			}
			clear(sum)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		loss[lot] += losses.total()
		slopes[lot] = out
		return nil
	})
	if err != nil {
		return 0, err
	}
	clear(grad)
	var total float64
	for lot, part := range slopes {
		total += loss[lot]
		for i, x := range part {
			grad[i] += x
		}
	}
	return total, nil
}

// settled is of how many pairs the information is summed in float32, in lots, before it is added to float64 numbers. A
// float32 sum of ten million pairs was off by 3e-4.
const settled = 1 << 17

// Information implements LogLikelihood.
func (l *streamedLikelihood) Information(ctx context.Context, theta []float64) ([]float64, error) {
	n := l.shape.size()
	if len(theta) != n {
		return nil, l.shape.misfit(theta)
	}
	full := make([]float64, n*n)
	for from := 0; from < l.pairs.Len(); from += settled {
		if err := l.addInformation(ctx, full, theta, from, min(from+settled, l.pairs.Len())); err != nil {
			return nil, err
		}
	}
	return full, nil
}

// addInformation adds that of some pairs.
func (l *streamedLikelihood) addInformation(ctx context.Context, full, theta []float64, start, stop int) error {
	shape := &l.shape
	t, w := shape.table(theta), shape.weights(theta)
	parts := make([]informationPart, lots)
	defer closeParts(parts)
	err := eachLot(ctx, stop-start, shape.threads, func(lot, first, end int) (err error) {
		if parts[lot], err = newInformationPart(shape.d+1, shape.cells); err != nil {
			return err
		}
		b, err := l.newBlock()
		if err != nil {
			return err
		}
		defer b.x.Close()
		squares, err := newWeightedSquares(b.x)
		if err != nil {
			return err
		}
		defer squares.close()
		spreads := make([]spread, passed)
		for from := start + first; from < start+end; from += passed {
			to := min(from+passed, start+end)
			l.fill(b, from, to)
			err := l.seen(b, spreads, from, to).addInformation(&parts[lot], squares, t, w, 0, to-from)
			if err := cmp.Or(err, ctx.Err()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, p := range parts {
		p.into(full, shape.size(), shape.d)
	}
	return nil
}
