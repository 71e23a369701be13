// Package lengths tells vectors that training cannot use together by their lengths.
//
// Training has one scale for all vectors, and adds up squares of products of two of them in float32: terms as large as
// the fourth power of a length. One vector that is far longer than the others takes the scale for itself, and vectors
// that are all very long or very short leave sums that are infinite or 0. Either way what texts say is lost without an
// error.
//
//	var t lengths.Tally
//	t.Add(0, lengths.Square(row)) // and so on
//	n, first := t.Longer()        // rows more than Far times as long as the median, and the longest
package lengths

import (
	"math"
	"math/bits"
)

// Far is how many times as long as the median a vector is at least that takes the scale for itself. With one of 300
// vectors 100 times as long as the others, the AUC of ŷ was .8295 instead of .8315; with one 316 times as long .8165.
const Far = 256

// Shortest and Longest are the median lengths whose fourth powers float32 holds, with a margin: with all vectors of
// length 1e-12 or 1e10 the AUC of ŷ was ½, with 1e-10 and 1e8 it was that of length 1.
const Shortest, Longest = 1e-10, 1e9

// bins are of squares by powers of two: those of float32 numbers, summed, are from 2⁻²⁹⁸ to 2²⁵⁶ times the dimension.
const bins, zeroBin = 640, 320

// farBins are the least that two bins are apart whose lengths surely differ by more than Far times.
var farBins = 2*bits.TrailingZeros(Far) + 1

// Tally counts vectors by their lengths, to a factor of √2, in little room. The zero Tally is empty.
type Tally struct {
	Zero, NotFinite           int   // vectors of zeros, and those that hold a NaN or an infinity
	FirstZero, FirstNotFinite int32 // the first row of them, where there is one

	count [bins]int
	first [bins]int32
}

// Square returns the squared length of a vector.
func Square(row []float32) (sum float64) {
	for _, x := range row {
		sum += float64(x) * float64(x)
	}
	return sum
}

// Add counts a row by its squared length. Rows may come in any order.
func (t *Tally) Add(row int32, square float64) {
	switch {
	case math.IsNaN(square) || math.IsInf(square, 0):
		note(&t.NotFinite, &t.FirstNotFinite, 1, row)
	case square == 0:
		note(&t.Zero, &t.FirstZero, 1, row)
	default:
		at := min(max(math.Ilogb(square)+zeroBin, 0), bins-1)
		note(&t.count[at], &t.first[at], 1, row)
	}
}

// Merge adds what another tally has counted.
func (t *Tally) Merge(other *Tally) {
	note(&t.NotFinite, &t.FirstNotFinite, other.NotFinite, other.FirstNotFinite)
	note(&t.Zero, &t.FirstZero, other.Zero, other.FirstZero)
	for at, n := range other.count {
		note(&t.count[at], &t.first[at], n, other.first[at])
	}
}

// note adds n rows, of which the first is given.
func note(count *int, first *int32, n int, row int32) {
	if n > 0 && (*count == 0 || row < *first) {
		*first = row
	}
	*count += n
}

// Median returns about the median length of the vectors that are finite and not zero; 0 where there is none.
func (t *Tally) Median() float64 {
	if at := t.median(); at >= 0 {
		return math.Sqrt(1.5 * math.Ldexp(1, at-zeroBin))
	}
	return 0
}

// OutOfRange reports whether most vectors are so long or so short that sums of squares of their products do not fit
// float32.
func (t *Tally) OutOfRange() bool {
	median := t.Median()
	return median > 0 && (median < Shortest || median > Longest)
}

// Longer counts the vectors that are more than Far times as long as the median one, and names the first of the longest.
func (t *Tally) Longer() (n int, row int32) {
	median := t.median()
	for at := bins - 1; median >= 0 && at >= median+farBins; at-- {
		if n == 0 && t.count[at] > 0 {
			row = t.first[at]
		}
		n += t.count[at]
	}
	return n, row
}

// Shorter counts the vectors that are not zero and more than Far times as short as the median one, and names the first
// of the shortest.
func (t *Tally) Shorter() (n int, row int32) {
	for at := range max(t.median()-farBins+1, 0) {
		if n == 0 && t.count[at] > 0 {
			row = t.first[at]
		}
		n += t.count[at]
	}
	return n, row
}

// median is the bin of the median length; −1 of nothing.
func (t *Tally) median() int {
	all := 0
	for _, n := range t.count {
		all += n
	}
	left := (all + 1) / 2
	for at, n := range t.count {
		if left -= n; all > 0 && left <= 0 {
			return at
		}
	}
	return -1
}
