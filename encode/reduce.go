package encode

import (
	"context"
	"errors"
	"fmt"
	"math"

	"unseen/internal/kern"
	"unseen/progress"
)

// Features are vectors that came with the data: bags of words, indicators, another model's embeddings.
type Features interface {
	Len() int
	Dim() int
	Load(dst []float32, i int32) // row i
}

// Reduce stores vectors of fewer components instead of features: each feature is weighted by its
// rarity, like terms (1 + log((n+1)/(df+1)), which is 1 for those that every row has), rows are
// scaled to length 1, projected on their first singular vectors and scaled to length 1 again. Rows
// of zeros stay zeros and are counted in the report's Empty. room returns where to store the
// vectors; it is called once their number of components is known. The settings Dim, Sample,
// PowerIterations, Seed, Threads and Progress are used.
func Reduce(ctx context.Context, f Features, room func(dim int) (Rows, error), s Settings) (*Summary, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	n, width := f.Len(), f.Dim()
	if n == 0 || width == 0 {
		return nil, fmt.Errorf("%w: %d rows of %d features", ErrTexts, n, width)
	}
	report := &Summary{Documents: n, Found: width, Warnings: []string{}}
	r := &reducer{features: f, row: make([]float32, width), rarity: make([]float32, width)}
	if err := r.count(ctx, &s, report); err != nil {
		return nil, err
	}
	a := r.sample(min(n, s.Sample))
	report.Sample = a.rows()
	v, singular, err := components(ctx, a, &s)
	if errors.Is(err, errNothing) {
		return nil, fmt.Errorf("%w: all %d rows of features are zero", ErrTexts, a.rows())
	}
	if err != nil {
		return nil, err
	}
	defer v.Close()
	switch rank := v.Dim(); {
	case s.Dim > rank:
		return nil, fmt.Errorf("%w: Dim is %d, and %d rows of %d features have %d components; give %d or less, "+
			"or leave it out", ErrDimension, s.Dim, a.rows(), width, rank, rank)
	case s.Dim == 0 && rank < defaultDim:
		report.Warnings = append(report.Warnings,
			fmt.Sprintf("the vectors have %d components instead of %d: the features have no more", rank, defaultDim))
	}
	report.Dim, report.Explained = v.Dim(), explained(a, singular)
	rows, err := room(report.Dim)
	if err != nil {
		return nil, err
	}
	return report, r.project(ctx, &s, v, rows)
}

// reducer is the state of one Reduce.
type reducer struct {
	features Features
	row      []float32 // the features that were loaded last
	rarity   []float32 // of each feature
}

// count finds out how rare each feature is.
func (r *reducer) count(ctx context.Context, s *Settings, report *Summary) error {
	n := r.features.Len()
	frequency := make([]int, len(r.row))
	for i := range n {
		if err := s.every(ctx, "reading features", i, n); err != nil {
			return err
		}
		r.features.Load(r.row, int32(i))
		empty := true
		for k, x := range r.row {
			if x != 0 {
				frequency[k]++
				empty = false
			}
		}
		if empty {
			report.Empty++
		}
	}
	for k, df := range frequency {
		if df > 0 {
			report.Terms++
		}
		r.rarity[k] = float32(1 + math.Log(float64(n+1)/float64(df+1)))
	}
	return nil
}

// every reports progress and checks for cancellation, every few thousand rows.
func (s *Settings) every(ctx context.Context, phase string, i, n int) error {
	if i%4096 > 0 {
		return nil
	}
	s.Progress.Report(progress.Event{Phase: phase, Done: int64(i), Of: int64(n)})
	return ctx.Err()
}

// weigh loads row i, weighted by rarity and scaled to length 1.
func (r *reducer) weigh(i int) {
	r.features.Load(r.row, int32(i))
	for k := range r.row {
		r.row[k] *= r.rarity[k]
	}
	normalise(r.row)
}

// entries appends the nonzero entries of the loaded row.
func (r *reducer) entries(columns []int32, values []float32) ([]int32, []float32) {
	for c, x := range r.row {
		if x != 0 {
			columns, values = append(columns, int32(c)), append(values, x)
		}
	}
	return columns, values
}

// sample is a matrix of evenly spaced weighted rows.
func (r *reducer) sample(rows int) *sparse {
	a := &sparse{starts: []int{0}, width: len(r.row)}
	for k := range rows {
		r.weigh(int(int64(k) * int64(r.features.Len()) / int64(rows)))
		a.columns, a.values = r.entries(a.columns, a.values)
		a.starts = append(a.starts, len(a.columns))
	}
	return a
}

// project stores every row's coordinates along the components.
func (r *reducer) project(ctx context.Context, s *Settings, v *kern.Matrix, rows Rows) error {
	vector := make([]float32, v.Dim())
	var columns []int32
	var values []float32
	for i := range r.features.Len() {
		if err := s.every(ctx, "encoding", i, r.features.Len()); err != nil {
			return err
		}
		r.weigh(i)
		columns, values = r.entries(columns[:0], values[:0])
		clear(vector)
		kern.AddRows(vector, v, columns, values)
		normalise(vector)
		if err := rows.Set(int32(i), vector); err != nil {
			return err
		}
	}
	return nil
}

// explained is the share of a matrix's squares that components with these singular values carry.
func explained(a *sparse, singular []float64) float64 {
	var carried, all float64
	for _, x := range a.values {
		all += float64(x) * float64(x)
	}
	for _, x := range singular {
		carried += x * x
	}
	return min(carried/all, 1)
}
