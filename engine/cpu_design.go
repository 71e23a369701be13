package engine

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"unseen/internal/kern"
	"unseen/risk"
)

// Design implements Engine. A row of products is kept for every pair.
func (c CPU) Design(ctx context.Context, p DesignPairs) (Design, error) {
	if p.Streamed {
		return c.streamed(p)
	}
	rows, n := kern.MatrixOf(p.Vectors), p.Pairs.Len()
	d := rows.Dim()
	if len(p.Cell) != n || p.Rate != nil && len(p.Rate) != n {
		return nil, fmt.Errorf("%w: %d pairs, %d cells, %d rates", ErrShape, n, len(p.Cell), len(p.Rate))
	}
	x, err := kern.NewMatrix(n, d+1)
	if err != nil {
		return nil, fmt.Errorf("the products of %d pairs: %w; use fewer pairs", n, err)
	}
	s := &cpuDesign{x: x, cell: p.Cell, rate: p.Rate, d: d, cells: p.Cells, known: p.Known,
		threads: kern.Threads(c.Threads)}
	const chunk = 1024
	squares := make([]float64, (n+chunk-1)/chunk)
	err = kern.ChunksErr(ctx, n, chunk, s.threads, func(_, number, from, to int) error {
		a, b := make([]float32, d), make([]float32, d)
		for k := from; k < to; k++ {
			rows.Load(a, int(p.Pairs.Source[k]))
			rows.Load(b, int(p.Pairs.Target[k]))
			out := x.Row(k)
			var square float32
			for i := range a {
				out[i] = a[i] * b[i]
				square += out[i] * out[i]
			}
			out[d] = 1
			squares[number] += float64(square)
		}
		return nil
	})
	if err != nil {
		x.Close()
		return nil, err
	}
	var sum float64
	for _, square := range squares {
		sum += square
	}
	switch {
	case p.Unit > 0:
		s.unit = p.Unit
	case sum > 0:
		s.unit = math.Sqrt(sum / float64(n) / float64(d))
	default:
		s.unit = 1
	}
	inverse := float32(1 / s.unit)
	kern.Chunks(n, chunk, s.threads, func(_, _, from, to int) {
		for k := from; k < to; k++ {
			row := x.Row(k)[:d]
			for i := range row {
				row[i] *= inverse
			}
		}
	})
	return s, nil
}

// cpuDesign is a Design in memory.
type cpuDesign struct {
	x        *kern.Matrix // (h_i⊙h_j)/unit and a 1, a row per pair
	cell     []int32
	rate     []float64 // nil means 1
	d, cells int
	known    bool
	unit     float64
	threads  int
}

// lots is the number of partial sums that are kept apart, so that results do not depend on the number of threads.
const lots = 8

// eachLot runs work on fixed shares of the pairs.
func (s *cpuDesign) eachLot(ctx context.Context, work func(lot, from, to int) error) error {
	return eachLot(ctx, s.x.Rows(), s.threads, work)
}

func eachLot(ctx context.Context, n, threads int, work func(lot, from, to int) error) error {
	return kern.ChunksErr(ctx, lots, 1, threads, func(_, i, _, _ int) error {
		return work(i, n*i/lots, n*(i+1)/lots)
	})
}

// size is the number of parameters.
func (s *cpuDesign) size() int { return s.d + 1 + s.cells }

// weights returns (w, b) as the kernels take them.
func (s *cpuDesign) weights(theta []float64) []float32 {
	w := make([]float32, s.d+1)
	for i := range w {
		w[i] = float32(theta[i])
	}
	return w
}

// Unit implements Design.
func (s *cpuDesign) Unit() float64 { return s.unit }

// Close implements Design.
func (s *cpuDesign) Close() error { return s.x.Close() }

// Logits implements Design.
func (s *cpuDesign) Logits(ctx context.Context, theta []float64) ([]float32, error) {
	if len(theta) != s.size() {
		return nil, s.misfit(theta)
	}
	z, w := make([]float32, s.x.Rows()), s.weights(theta)
	err := kern.ChunksErr(ctx, len(z), 4096, s.threads, func(_, _, from, to int) error {
		kern.DotRange(z[from:to], w, s.x, from)
		return nil
	})
	return z, err
}

func (s *cpuDesign) misfit(theta []float64) error {
	return fmt.Errorf("%w: %d parameters for a design with %d", ErrShape, len(theta), s.size())
}

// Leverage implements Design.
func (s *cpuDesign) Leverage(ctx context.Context, root Root) ([]float32, error) {
	width := s.d + 1
	rows, err := kern.NewMatrix(len(root.Rows), width)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for i, row := range root.Rows {
		copy(rows.Row(i), row)
	}
	leverage := make([]float32, s.x.Rows())
	const chunk = 480
	err = kern.ChunksErr(ctx, len(leverage), chunk, s.threads, func(_, _, from, to int) error {
		if root.Lower {
			return s.leverageByFactor(leverage[from:to], rows, from)
		}
		return s.leverageByDraws(leverage[from:to], rows, from, root.Divisor)
	})
	return leverage, err
}

// leverageByFactor adds squared products with a triangular factor, band by band, so that most of what is not in the
// triangle is left out.
func (s *cpuDesign) leverageByFactor(out []float32, factor *kern.Matrix, from int) error {
	n := factor.Rows()
	room := make([]float32, len(out)*(n/2+1))
	return eachBand(n, func(top, bottom int) error {
		pairs, err1 := band(s.x, from, from+len(out), bottom)
		rows, err2 := band(factor, top, bottom, bottom)
		if err := cmp.Or(err1, err2); err != nil {
			return err
		}
		width := bottom - top
		products, err := kern.View(room, len(out), width, width)
		if err != nil {
			return err
		}
		kern.MulT(products, pairs, rows)
		for k := range out {
			row := room[k*width : (k+1)*width]
			var s0, s1 float32
			i := 0
			for ; i+2 <= len(row); i += 2 {
				s0 += row[i] * row[i]
				s1 += row[i+1] * row[i+1]
			}
			if i < len(row) {
				s0 += row[i] * row[i]
			}
			out[k] += s0 + s1
		}
		return nil
	})
}

// leverageByDraws sets the mean of squared products with draws.
func (s *cpuDesign) leverageByDraws(out []float32, draws *kern.Matrix, from int, divisor float64) error {
	count := draws.Rows()
	room := make([]float32, len(out)*count)
	products, err1 := kern.View(room, len(out), count, count)
	rows, err2 := s.x.Slice(from, from+len(out))
	if err := cmp.Or(err1, err2); err != nil {
		return err
	}
	kern.MulT(products, rows, draws)
	for k := range out {
		var sum float64
		for _, x := range room[k*count : (k+1)*count] {
			sum += float64(x) * float64(x)
		}
		out[k] = float32(sum / divisor)
	}
	return nil
}

// eachBand cuts 0…n into bands, so that work on a triangle can leave out most of what is not in it.
func eachBand(n int, f func(from, to int) error) error {
	const bands = 8
	for b := range bands {
		if from, to := n*b/bands, n*(b+1)/bands; from < to {
			if err := f(from, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// band returns rows and the first columns of a matrix.
func band(m *kern.Matrix, from, to, columns int) (*kern.Matrix, error) {
	rows, err := m.Slice(from, to)
	if err != nil {
		return nil, err
	}
	return rows.First(columns)
}

// Observe implements Design.
func (s *cpuDesign) Observe(ctx context.Context, o Outcomes) (LogLikelihood, error) {
	n := s.x.Rows()
	if err := o.validate(n); err != nil {
		return nil, err
	}
	l := &cpuLikelihood{cpuDesign: s, linked: o.Linked, exposure: o.Exposure}
	if o.Leverage == nil {
		return l, nil
	}
	l.spread = make([]spread, n)
	err := kern.ChunksErr(ctx, n, 4096, s.threads, func(_, _, from, to int) error {
		for k := from; k < to; k++ {
			l.spread[k] = spreadOf(o.Leverage[k])
		}
		return nil
	})
	return l, err
}

// validate checks outcomes of so many pairs.
func (o Outcomes) validate(n int) error {
	if len(o.Linked) != n || o.Exposure != nil && len(o.Exposure) != n || o.Leverage != nil && len(o.Leverage) != n {
		return fmt.Errorf("%w: %d pairs, %d outcomes, %d exposures, %d leverages", ErrShape, n, len(o.Linked),
			len(o.Exposure), len(o.Leverage))
	}
	return nil
}

// cpuLikelihood is a LogLikelihood in memory.
type cpuLikelihood struct {
	*cpuDesign
	linked   []bool
	exposure []risk.Exposure
	spread   []spread // nil takes logits as certain
}

// Close implements LogLikelihood: the memory is the collector's.
func (l *cpuLikelihood) Close() error { return nil }

// cellTable holds σ(s) and σ(−s) of every cell.
type cellTable struct{ pi, rest []float64 }

func (s *cpuDesign) table(theta []float64) cellTable {
	t := cellTable{make([]float64, s.cells), make([]float64, s.cells)}
	for c := range s.cells {
		pi, rest := kern.Sigmoid64(theta[s.d+1+c])
		t.pi[c], t.rest[c] = math.Max(pi, 1e-300), math.Max(rest, 1e-300)
	}
	return t
}

// point is what is known of pair k.
func (l *cpuLikelihood) point(k int, t cellTable) point {
	at := point{pi: t.pi[l.cell[k]], rest: t.rest[l.cell[k]], rate: 1, linked: l.linked[k]}
	if l.rate != nil {
		at.rate = l.rate[k]
	}
	if l.exposure != nil {
		at.exposure = l.exposure[k]
	}
	return at
}

// contribute returns what pair k contributes at the logit z.
func (l *cpuLikelihood) contribute(k int, z float32, t cellTable, losses *tally) contribution {
	at := l.point(k, t)
	if l.spread == nil {
		return at.contribute(float64(z), nil, losses)
	}
	return at.contribute(float64(z), &l.spread[k], losses)
}

// passed is how many logits are found at a time.
const passed = 512

// Value implements LogLikelihood.
func (l *cpuLikelihood) Value(ctx context.Context, theta, grad []float64) (float64, error) {
	if len(theta) != l.size() || len(grad) != l.size() {
		return 0, l.misfit(theta)
	}
	t, w := l.table(theta), l.weights(theta)
	type partial struct {
		loss float64
		w    []float32
		s    []float64
	}
	var parts [lots]partial
	err := l.eachLot(ctx, func(lot, from, to int) error {
		p := &parts[lot]
		p.w, p.s = make([]float32, l.d+1), make([]float64, l.cells)
		losses := newTally(l.spread != nil)
		var z, dz [passed]float32
		var idx [passed]int32
		for ; from < to; from += passed {
			n := min(passed, to-from)
			kern.DotRange(z[:n], w, l.x, from)
			for k := range n {
				c := l.contribute(from+k, z[k], t, &losses)
				p.loss += c.loss
				dz[k], idx[k] = float32(c.dz), int32(from+k)
				p.s[l.cell[from+k]] += c.ds
			}
			kern.AddRows(p.w, l.x, idx[:n], dz[:n])
		}
		p.loss += losses.total()
		return nil
	})
	if err != nil {
		return 0, err
	}
	clear(grad)
	var loss float64
	for i := range parts {
		loss += parts[i].loss
		for k, g := range parts[i].w {
			grad[k] += float64(g)
		}
		for c, g := range parts[i].s {
			grad[l.d+1+c] += g
		}
	}
	return loss, nil
}

// informationPart is what one lot adds to Fisher's information.
type informationPart struct {
	a *kern.Matrix // Σ zz·x xᵀ
	b *kern.Matrix // row per cell: Σ zs·x
	s []float64    // Σ ss

	// The intercept's own part, in float64: where all logits are alike it is as good as a sum of
	// the cells', and rounding would leave no positive definite matrix.
	one  float64   // Σ zz
	ones []float64 // Σ zs
}

// Information implements LogLikelihood.
func (l *cpuLikelihood) Information(ctx context.Context, theta []float64) ([]float64, error) {
	if len(theta) != l.size() {
		return nil, l.misfit(theta)
	}
	t, w := l.table(theta), l.weights(theta)
	parts := make([]informationPart, lots)
	defer closeParts(parts)
	err := l.eachLot(ctx, func(lot, from, to int) (err error) {
		if parts[lot], err = newInformationPart(l.d+1, l.cells); err != nil {
			return err
		}
		squares, err := newWeightedSquares(l.x)
		if err != nil {
			return err
		}
		defer squares.close()
		return l.addInformation(&parts[lot], squares, t, w, from, to)
	})
	if err != nil {
		return nil, err
	}
	return l.informationOf(parts), nil
}

// informationOf adds up what lots contribute.
func (s *cpuDesign) informationOf(parts []informationPart) []float64 {
	n := s.size()
	full := make([]float64, n*n)
	for _, p := range parts {
		p.into(full, n, s.d)
	}
	return full
}

func closeParts(parts []informationPart) {
	for _, p := range parts {
		if p.a != nil {
			p.a.Close()
		}
		if p.b != nil {
			p.b.Close()
		}
	}
}

func newInformationPart(width, cells int) (p informationPart, err error) {
	a, err1 := kern.NewMatrix(width, width)
	b, err2 := kern.NewMatrix(cells, width)
	p = informationPart{a: a, b: b, s: make([]float64, cells), ones: make([]float64, cells)}
	return p, cmp.Or(err1, err2)
}

// add adds what pair k contributes along its cell.
func (p *informationPart) add(s *cpuDesign, k int, c contribution) {
	cell := s.cell[k]
	p.s[cell] += c.ss
	p.one += c.zz
	if c.zs != 0 && !s.known {
		p.ones[cell] += c.zs
		kern.AddRows(p.b.Row(int(cell)), s.x, []int32{int32(k)}, []float32{float32(c.zs)})
	}
}

// into adds it to the lower triangle of a matrix with rows of n numbers, over d weights, the intercept and the cells.
func (p *informationPart) into(full []float64, n, d int) {
	width := d + 1
	for i := range width {
		out := full[i*n:]
		for j, x := range p.a.Row(i)[:min(i+1, d)] {
			out[j] += float64(x)
		}
	}
	full[d*n+d] += p.one
	for c := range p.s {
		out := full[(width+c)*n:]
		for j, x := range p.b.Row(c)[:d] {
			out[j] += float64(x)
		}
		out[d] += p.ones[c]
		out[width+c] += p.s[c]
	}
}

func (l *cpuLikelihood) addInformation(p *informationPart, squares *weightedSquares, t cellTable, w []float32, from,
	to int) error {
	var z, zz [passed]float32
	for ; from < to; from += passed {
		n := min(passed, to-from)
		kern.DotRange(z[:n], w, l.x, from)
		for k := range n {
			c := l.contribute(from+k, z[k], t, nil)
			zz[k] = float32(c.zz)
			p.add(l.cpuDesign, from+k, c)
		}
		if err := squares.add(p.a, from, zz[:n]); err != nil {
			return err
		}
	}
	return nil
}

// weightedSquares adds Σ weight·x xᵀ over rows.
type weightedSquares struct {
	x      *kern.Matrix
	turned *kern.Matrix // some rows, as columns
}

func newWeightedSquares(x *kern.Matrix) (*weightedSquares, error) {
	// rows a power of two apart would fall on one another in the cache
	turned, err := kern.NewMatrix(x.Dim(), passed+32)
	return &weightedSquares{x, turned}, err
}

func (s *weightedSquares) close() { s.turned.Close() }

// add adds the rows from some place on, at most passed of them, to the lower triangle of a sum.
func (s *weightedSquares) add(sum *kern.Matrix, from int, weights []float32) error {
	rows, err1 := s.x.Slice(from, from+len(weights))
	columns, err2 := s.turned.First(len(weights))
	if err := cmp.Or(err1, err2); err != nil {
		return err
	}
	kern.Transpose(columns, rows)
	for j := range s.x.Dim() {
		row := columns.Row(j)
		for k, v := range weights[:len(row)] {
			row[k] *= v
		}
	}
	kern.AddLower(sum, columns, rows)
	return nil
}

// Calibrate implements LogLikelihood: a logistic regression on soft targets.
func (l *cpuLikelihood) Calibrate(ctx context.Context, theta []float64) (scale, shift float64, err error) {
	if l.spread == nil {
		return 1, 0, nil
	}
	z, err := l.Logits(ctx, theta)
	if err != nil {
		return 0, 0, err
	}
	target := make([]float64, len(z))
	err = kern.ChunksErr(ctx, len(z), 4096, l.threads, func(_, _, from, to int) error {
		for k := from; k < to; k++ {
			e := math.Exp(-math.Max(-300, math.Min(300, float64(z[k]))))
			target[k] = hermiteCentre / (1 + e)
			for i, factor := range l.spread[k] {
				target[k] += hermiteWeight[i] * (1/(1+e*factor) + 1/(1+e/factor))
			}
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	scale, shift = calibrated(z, target)
	return scale, shift, nil
}

// calibrated returns how to scale and shift logits for σ to come closest to the targets.
func calibrated[T float32 | float64](logits []T, target []float64) (scale, shift float64) {
	scale = 1
	for range 20 {
		var g0, g1, h00, h01, h11 float64
		for k, x := range logits {
			z := float64(x)
			y, u := kern.Sigmoid64(scale*z + shift)
			e, v := y-target[k], y*u
			g0 += e
			g1 += e * z
			h00 += v
			h01 += v * z
			h11 += v * z * z
		}
		det := h00*h11 - h01*h01
		if !(det > 0) {
			return 1, 0
		}
		d0, d1 := (h11*g0-h01*g1)/det, (h00*g1-h01*g0)/det
		shift, scale = shift-d0, scale-d1
		if math.Abs(d0)+math.Abs(d1) < 1e-9 {
			break
		}
	}
	return scale, shift
}
