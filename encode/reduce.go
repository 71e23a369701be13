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

// Reduce stores vectors of fewer components in the place of features: each is weighed by its
// rarity, as terms are (1 + log((n+1)/(df+1)), which is 1 for those that every row has), rows are
// brought to length 1, projected on their first singular vectors and brought to length 1 again.
// Rows of zeros stay zeros and are counted in the report's Empty. room is asked for where to store
// them once it is known how many components there are. Of the settings Dim, Sample,
// PowerIterations, Seed, Threads and Progress are looked at.
func Reduce(ctx context.Context, f Features, room func(dim int) (Rows, error), s Settings) (*Summary, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	n, width := f.Len(), f.Dim()
	if n == 0 || width == 0 {
		return nil, fmt.Errorf("%w: %d rows of %d features", ErrTexts, n, width)
	}
	report := &Summary{Documents: n, Found: width, Warnings: []string{}}
	frequency := make([]int, width)
	row := make([]float32, width)
	for i := range n {
		if i%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			s.Progress.Report(progress.Event{Phase: "reading features", Done: int64(i), Of: int64(n)})
		}
		f.Load(row, int32(i))
		empty := true
		for k, x := range row {
			if x != 0 {
				frequency[k]++
				empty = false
			}
		}
		if empty {
			report.Empty++
		}
	}
	rarity := make([]float32, width)
	for k, df := range frequency {
		if df > 0 {
			report.Terms++
		}
		rarity[k] = float32(1 + math.Log(float64(n+1)/float64(df+1)))
	}
	weigh := func(i int) {
		f.Load(row, int32(i))
		for k := range row {
			row[k] *= rarity[k]
		}
		normalise(row)
	}
	a := &sparse{starts: []int{0}, width: width}
	report.Sample = min(n, s.Sample)
	for k := range report.Sample {
		weigh(int(int64(k) * int64(n) / int64(report.Sample)))
		for c, x := range row {
			if x != 0 {
				a.columns, a.values = append(a.columns, int32(c)), append(a.values, x)
			}
		}
		a.starts = append(a.starts, len(a.columns))
	}
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
			fmt.Sprintf("the vectors have %d components and not %d: the features have no more", rank, defaultDim))
	}
	var carried, all float64
	for _, x := range a.values {
		all += float64(x) * float64(x)
	}
	for _, x := range singular {
		carried += x * x
	}
	report.Dim, report.Explained = v.Dim(), min(carried/all, 1)
	rows, err := room(report.Dim)
	if err != nil {
		return nil, err
	}
	vector := make([]float32, report.Dim)
	var columns []int32
	var values []float32
	for i := range n {
		if i%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			s.Progress.Report(progress.Event{Phase: "encoding", Done: int64(i), Of: int64(n)})
		}
		weigh(i)
		columns, values = columns[:0], values[:0]
		for c, x := range row {
			if x != 0 {
				columns, values = append(columns, int32(c)), append(values, x)
			}
		}
		clear(vector)
		kern.AddRows(vector, v, columns, values)
		normalise(vector)
		if err := rows.Set(int32(i), vector); err != nil {
			return nil, err
		}
	}
	return report, nil
}
