package encode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"unseen/internal/kern"
	"unseen/progress"
)

// sparse is a matrix by rows: row i holds values[starts[i]:starts[i+1]] in the columns of the same places.
type sparse struct {
	starts  []int
	columns []int32
	values  []float32
	width   int
}

func (s *sparse) rows() int { return len(s.starts) - 1 }

func (s *sparse) transposed() *sparse {
	t := &sparse{starts: make([]int, s.width+1), columns: make([]int32, len(s.columns)),
		values: make([]float32, len(s.values)), width: s.rows()}
	for _, c := range s.columns {
		t.starts[c+1]++
	}
	for c := range s.width {
		t.starts[c+1] += t.starts[c]
	}
	next := append([]int(nil), t.starts[:s.width]...)
	for i := range s.rows() {
		for k := s.starts[i]; k < s.starts[i+1]; k++ {
			c := s.columns[k]
			t.columns[next[c]], t.values[next[c]] = int32(i), s.values[k]
			next[c]++
		}
	}
	return t
}

// times returns S·M. Every row is a sum in a fixed order, whatever the number of threads.
func (s *sparse) times(m *kern.Matrix, threads int) (*kern.Matrix, error) {
	product, err := kern.NewMatrix(s.rows(), m.Dim())
	if err != nil {
		return nil, err
	}
	kern.Chunks(s.rows(), 64, threads, func(_, _, from, to int) {
		for i := from; i < to; i++ {
			a, b := s.starts[i], s.starts[i+1]
			kern.AddRows(product.Row(i), m, s.columns[a:b], s.values[a:b])
		}
	})
	return product, nil
}

// oversample is the number of additional columns of the random search: it costs little and
// makes the last components as good as the first.
const oversample = 32

// noise is the square of a singular value, as a share of the largest, below which it is rounding: the
// products are in float32. Such a component carries a hundred-thousandth of the first.
const noise = 1e-5

// components returns the first right singular vectors of A, a column per component, and the singular values,
// by the randomised method of Halko, Martinsson and Tropp (2011) with power iterations:
//
//	Y = A·Ω;  repeat: Z = Aᵀ·orth(Y), Y = A·orth(Z);  B = Aᵀ·orth(Y) = V·S·Wᵀ
//
// There are fewer than s.Dim, 256 where that is 0, where A has a smaller rank. Ω is drawn by the seed.
func components(ctx context.Context, a *sparse, s *Settings) (v *kern.Matrix, singular []float64, err error) {
	dim, iterations, seed, threads := cmp.Or(s.Dim, defaultDim), s.PowerIterations, s.Seed, s.Threads
	report := func(rounds int) {
		s.Progress.Report(progress.Event{Phase: "finding components", Done: int64(rounds), Of: int64(iterations + 1)})
	}
	at := a.transposed()
	width := min(dim+oversample, a.rows(), a.width)
	z, err := kern.NewMatrix(a.width, width)
	if err != nil {
		return nil, nil, err
	}
	defer func() { z.Close() }()
	kern.Chunks(a.width, 256, threads, func(_, chunk, from, to int) {
		r := rand.New(rand.NewPCG(seed, uint64(chunk)))
		for i := from; i < to; i++ {
			row := z.Row(i)
			for k := range row {
				row[k] = float32(r.NormFloat64())
			}
		}
	})
	for round := range iterations + 1 {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		report(round)
		if round > 0 {
			if err := orthonormalise(&z, threads); err != nil {
				return nil, nil, err
			}
		}
		y, err := a.times(z, threads)
		if err != nil {
			return nil, nil, err
		}
		z.Close()
		if err = orthonormalise(&y, threads); err == nil {
			z, err = at.times(y, threads)
		}
		y.Close()
		if err != nil {
			return nil, nil, err
		}
	}
	values, vectors, err := spectrum(z, threads)
	if err != nil {
		return nil, nil, err
	}
	turn := turned(values, vectors, dim)
	if turn == nil {
		return nil, nil, errNothing
	}
	if v, err = rotate(z, turn, threads); err != nil {
		return nil, nil, err
	}
	settleSigns(v)
	for k := range v.Dim() {
		singular = append(singular, math.Sqrt(values[k]))
	}
	report(iterations + 1)
	return v, singular, nil
}

var errNothing = errors.New("all rows are zero")

// orthonormalise replaces a matrix by one with orthonormal columns that span the same, without the
// directions that are rounding.
func orthonormalise(m **kern.Matrix, threads int) error {
	values, vectors, err := spectrum(*m, threads)
	if err != nil {
		return err
	}
	turn := turned(values, vectors, len(values))
	if turn == nil {
		return errNothing
	}
	q, err := rotate(*m, turn, threads)
	if err != nil {
		return err
	}
	(*m).Close()
	*m = q
	return nil
}

// spectrum returns the eigenvalues of MᵀM, the largest first, and the eigenvectors by column in that order.
func spectrum(m *kern.Matrix, threads int) ([]float64, *mat.Dense, error) {
	n := m.Dim()
	gram := mat.NewSymDense(n, gramOf(m, threads))
	var eigen mat.EigenSym
	if !eigen.Factorize(gram, true) {
		return nil, nil, fmt.Errorf("the eigenvalues of a %d×%d matrix did not converge", n, n)
	}
	rising := eigen.Values(nil)
	var columns mat.Dense
	eigen.VectorsTo(&columns)
	values, vectors := make([]float64, n), mat.NewDense(n, n, nil)
	for k := range n {
		values[k] = rising[n-1-k]
		for i := range n {
			vectors.Set(i, k, columns.At(i, n-1-k))
		}
	}
	return values, vectors, nil
}

// gramRows is how many rows are multiplied in float32 before their sum is added in float64.
const gramRows = 64

// gramOf returns MᵀM, n×n, both triangles.
func gramOf(m *kern.Matrix, threads int) []float64 {
	n := m.Dim()
	// Parts are kept apart and added in order. Their number depends on the rows alone.
	size := max(4096, (m.Rows()+63)/64)
	parts := make([][]float64, (m.Rows()+size-1)/size)
	kern.Chunks(m.Rows(), size, threads, func(_, chunk, from, to int) {
		sum := make([]float64, n*n)
		square, flat := must(kern.NewMatrix(n, n)), must(kern.NewMatrix(n, gramRows))
		defer square.Close()
		defer flat.Close()
		for first := from; first < to; first += gramRows {
			rows := must(m.Slice(first, min(first+gramRows, to)))
			across := flat
			if rows.Rows() < gramRows {
				across = must(flat.First(rows.Rows()))
			}
			kern.Transpose(across, rows)
			for i := range n {
				clear(square.Row(i))
			}
			kern.AddLower(square, across, rows)
			for i := range n {
				into := sum[i*n : i*n+i+1]
				for j, x := range square.Row(i)[:i+1] {
					into[j] += float64(x)
				}
			}
		}
		parts[chunk] = sum
	})
	gram := make([]float64, n*n)
	for _, part := range parts {
		for k, x := range part {
			gram[k] += x
		}
	}
	for i := range n {
		for j := range i {
			gram[j*n+i] = gram[i*n+j]
		}
	}
	return gram
}

// must panics on an error: this package chose the shape, and running out of memory ends a program elsewhere too.
func must(m *kern.Matrix, err error) *kern.Matrix {
	if err != nil {
		panic(err)
	}
	return m
}

// turned returns the matrix that makes the columns of a matrix with that spectrum orthonormal, at
// most that many columns; nil if all are rounding errors.
func turned(values []float64, vectors *mat.Dense, most int) *mat.Dense {
	rank := 0
	for rank < min(most, len(values)) && values[rank] > noise*values[0] && values[rank] > 0 {
		rank++
	}
	if rank == 0 {
		return nil
	}
	turn := mat.NewDense(len(values), rank, nil)
	for k := range rank {
		scale := 1 / math.Sqrt(values[k])
		for i := range values {
			turn.Set(i, k, vectors.At(i, k)*scale)
		}
	}
	return turn
}

// rotate returns M·T.
func rotate(m *kern.Matrix, turn *mat.Dense, threads int) (*kern.Matrix, error) {
	from, to := turn.Dims()
	small, err := kern.NewMatrix(from, to)
	if err != nil {
		return nil, err
	}
	defer small.Close()
	for i := range from {
		for k, x := range turn.RawRowView(i) {
			small.Row(i)[k] = float32(x)
		}
	}
	product, err := kern.NewMatrix(m.Rows(), to)
	if err != nil {
		return nil, err
	}
	kern.Chunks(m.Rows(), 256, threads, func(_, _, from, to int) {
		kern.Mul(must(product.Slice(from, to)), must(m.Slice(from, to)), small, false)
	})
	return product, nil
}

// settleSigns makes the largest element of every column positive: either sign is correct, and one must be chosen.
func settleSigns(v *kern.Matrix) {
	largest := make([]float32, v.Dim())
	for i := range v.Rows() {
		for k, x := range v.Row(i) {
			if abs(x) > abs(largest[k]) {
				largest[k] = x
			}
		}
	}
	for i := range v.Rows() {
		for k := range largest {
			if largest[k] < 0 {
				v.Row(i)[k] *= -1
			}
		}
	}
}

func abs(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }
