package study

import "unseen/figure"

// where returns the rows of which something is so, in their order.
func where[T any](rows []T, is func(T) bool) (some []T) {
	for _, r := range rows {
		if is(r) {
			some = append(some, r)
		}
	}
	return some
}

// of returns the rows of a method, in their order, which is that of the seeds.
func of[T interface{ trained() Method }](rows []T, m Method) []T {
	return where(rows, func(r T) bool { return r.trained() == m })
}

func (o *Outcome) trained() Method    { return o.Method }
func (e *Table2Row) trained() Method  { return e.Method }
func (c *Table3Row) trained() Method  { return c.Method }
func (c *ClicksRow) trained() Method  { return c.Method }
func (r *Figure1Row) trained() Method { return r.Method }

// values returns one number of every row.
func values[T any](rows []T, get func(T) figure.Value) []float64 {
	xs := make([]float64, len(rows))
	for i, r := range rows {
		xs[i] = float64(get(r))
	}
	return xs
}

// column is a column of a table whose cells are means over rows of type T.
type column[T any] struct {
	figure.Column
	scale float64 // 100 for percent
	get   func(T) figure.Value
}

// columns are the headings of some of them.
func columns[T any](some []column[T]) (heads []figure.Column) {
	for _, c := range some {
		heads = append(heads, c.Column)
	}
	return heads
}

// cells is mean ± sd of every column.
func cells[T any](columns []column[T], rows []T) (out []figure.Cell) {
	for _, c := range columns {
		xs := values(rows, c.get)
		for i := range xs {
			xs[i] *= c.scale
		}
		out = append(out, spreadOf(xs))
	}
	return out
}

// verdictOf is reproduced if all of some things are so, not if none is, else partly.
func verdictOf(so, all int) Verdict {
	switch so {
	case 0:
		return NotReproduced
	case all:
		return Reproduced
	}
	return Partly
}
