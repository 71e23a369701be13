package study

import (
	"math"

	"unseen/figure"
)

// filter returns the rows that keep accepts, in their order.
func filter[T any](rows []T, keep func(T) bool) (kept []T) {
	for _, r := range rows {
		if keep(r) {
			kept = append(kept, r)
		}
	}
	return kept
}

// byMethod returns the rows of a method, in their order, which is that of the seeds.
func byMethod[T interface{ trained() Method }](rows []T, m Method) []T {
	return filter(rows, func(r T) bool { return r.trained() == m })
}

func (o *Outcome) trained() Method    { return o.Method }
func (r *Table2Row) trained() Method  { return r.Method }
func (r *Table3Row) trained() Method  { return r.Method }
func (r *ClicksRow) trained() Method  { return r.Method }
func (r *Figure1Row) trained() Method { return r.Method }

// values returns one number of every row.
func values[T any](rows []T, get func(T) figure.Value) []float64 {
	xs := make([]float64, len(rows))
	for i, r := range rows {
		xs[i] = float64(get(r))
	}
	return xs
}

// meanOf is the mean of one number over the rows.
func meanOf[T any](rows []T, get func(T) figure.Value) float64 { return mean(values(rows, get)) }

func mean(xs []float64) float64 {
	m, _ := meanAndSpread(xs)
	return m
}

// meanAndSpread returns the mean of numbers and their standard deviation (n − 1), which is 0 for one number.
func meanAndSpread(xs []float64) (mean, sd float64) {
	n := float64(len(xs))
	for _, x := range xs {
		mean += x / n
	}
	for _, x := range xs {
		sd += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(sd / max(n-1, 1))
}

// beyondChance reports whether a mean over n seeds is above 0 by more than two standard errors.
func beyondChance(mean, sd float64, n int) bool { return mean > 2*sd/math.Sqrt(float64(n)) }

// spreadOf is a cell with the mean and standard deviation of numbers. It is empty where one of them is NaN.
func spreadOf(xs []float64) figure.Cell {
	switch len(xs) {
	case 0:
		return figure.Cell{}
	case 1:
		return figure.Number(xs[0])
	}
	return figure.Spread(meanAndSpread(xs))
}

// numberCells is a cell for every number.
func numberCells[T ~float64](xs []T) (out []figure.Cell) {
	for _, x := range xs {
		out = append(out, figure.Number(x))
	}
	return out
}

// column is a column of a table whose cells are means over rows of type T.
type column[T any] struct {
	figure.Column
	scale float64 // 100 for percent
	get   func(T) figure.Value
}

// percent is a column of shares, of which higher ones are better.
func percent[T any](name, means string, digits int, get func(T) figure.Value) column[T] {
	return column[T]{figure.Column{Name: name, Means: means, Digits: digits, Better: "higher"}, 100, get}
}

// headings are the columns without what they compute.
func headings[T any](columns []column[T]) (heads []figure.Column) {
	for _, c := range columns {
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

// tally counts in how many cases a claim holds. Comparisons with a missing number, which is NaN, do not hold.
type tally struct{ held, all int }

func (t *tally) add(holds bool) {
	t.all++
	if holds {
		t.held++
	}
}

// verdict is reproduced if the claim holds in all cases, not reproduced if in none, otherwise partly.
func (t tally) verdict() Verdict {
	switch t.held {
	case 0:
		return NotReproduced
	case t.all:
		return Reproduced
	}
	return Partly
}

// metVerdict is verdict in the words of thresholds: met, partly or missed.
func (t tally) metVerdict() Verdict {
	switch t.verdict() {
	case Reproduced:
		return Met
	case NotReproduced:
		return Missed
	}
	return Partly
}

func reproducedIf(holds bool) Verdict {
	if holds {
		return Reproduced
	}
	return NotReproduced
}

// signed writes a number with its sign.
func signed(x float64, digits int) string {
	text := figure.Decimal(math.Abs(x), digits)
	switch {
	case math.IsNaN(x):
		return text
	case x < 0:
		return "−" + text
	}
	return "+" + text
}
