package encode

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// Incidence is a matrix of zeros and ones by rows, such as who clicked what: row i has its ones in the columns
// Columns[Starts[i]:Starts[i+1]].
type Incidence struct {
	Starts  []int
	Columns []int32
	Width   int // number of columns
}

// Directions are vectors of length 1 for every row and every column of a matrix, in one space, Dim numbers each, one
// after the other. Those of rows and columns without a one are zero.
type Directions struct {
	Dim           int
	Rows, Columns []float32
}

// Factor returns where rows and columns point by their ones: rows that have their ones in the same columns point the
// same way, however many they have. With n_i ones in row i and m_j in column j, and means n̄ and m̄, the matrix
//
//	B_ij = A_ij / √((n_i + n̄)·(m_j + m̄)) ≈ U·S·Vᵀ
//
// gives the rows those of B·V and the columns those of V·S, each scaled to length 1 (Rohe, Qin and Yu, 2016). The means
// keep rows with a single one from being components of their own. The settings Dim, which is 256 where it is 0 and less
// where the matrix has fewer, PowerIterations, Seed, Threads and Progress are used.
func (m Incidence) Factor(ctx context.Context, s Settings) (*Directions, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	a := m.weighted()
	if len(a.columns) == 0 {
		return nil, fmt.Errorf("%w: %d rows of %d columns without a one", ErrTexts, a.rows(), a.width)
	}
	v, singular, err := components(ctx, a, &s)
	if errors.Is(err, errNothing) {
		err = fmt.Errorf("%w: %d rows of %d columns have no components", ErrTexts, a.rows(), a.width)
	}
	if err != nil {
		return nil, err
	}
	defer v.Close()
	projected, err := a.times(v, s.Threads)
	if err != nil {
		return nil, err
	}
	defer projected.Close()
	dim := v.Dim()
	out := &Directions{Dim: dim, Rows: make([]float32, a.rows()*dim), Columns: make([]float32, a.width*dim)}
	for i := range a.rows() {
		copy(out.Rows[i*dim:], projected.Row(i)[:dim])
		normalise(out.Rows[i*dim:][:dim])
	}
	for j := range a.width {
		row := out.Columns[j*dim:][:dim]
		for k, x := range v.Row(j)[:dim] {
			row[k] = x * float32(singular[k])
		}
		normalise(row)
	}
	return out, nil
}

// weighted is the matrix B.
func (m Incidence) weighted() *sparse {
	a := &sparse{starts: m.Starts, columns: m.Columns, values: make([]float32, len(m.Columns)), width: m.Width}
	ones := float64(len(m.Columns))
	perRow, perColumn := ones/float64(max(a.rows(), 1)), ones/float64(max(a.width, 1))
	counts := make([]float64, a.width)
	for _, j := range m.Columns {
		counts[j]++
	}
	for i := range a.rows() {
		own := float64(a.starts[i+1]-a.starts[i]) + perRow
		for k := a.starts[i]; k < a.starts[i+1]; k++ {
			a.values[k] = float32(1 / math.Sqrt(own*(counts[a.columns[k]]+perColumn)))
		}
	}
	return a
}
