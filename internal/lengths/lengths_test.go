package lengths

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Counts by bins are those of the lengths themselves, but for rows within √2 of the limit, in any order and from any
// parts.
func TestTallyAgainstSorting(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 1 + r.IntN(40)
		scale := math.Exp(60 * r.NormFloat64() / 3)
		var parts [2]Tally
		squares := make([]float64, n)
		for _, i := range r.Perm(n) {
			length := scale * math.Exp(r.NormFloat64()/10)
			switch r.IntN(12) {
			case 0:
				length *= 1e3
			case 1:
				length /= 1e3
			}
			squares[i] = length * length
			parts[r.IntN(2)].Add(int32(i), squares[i])
		}
		both := parts[0]
		both.Merge(&parts[1])
		median := both.Median()
		longer, shorter := 0, 0
		for _, s := range squares {
			longer += count(math.Sqrt(s) > 600*median)
			shorter += count(math.Sqrt(s) < median/600)
		}
		if got, row := both.Longer(); got != longer || got > 0 && math.Sqrt(squares[row]) < Far*median/2 {
			t.Errorf("seed %d: %d are longer, such as row %d, want %d", seed, got, row, longer)
		}
		if got, row := both.Shorter(); got != shorter || got > 0 && math.Sqrt(squares[row]) > 2*median/Far {
			t.Errorf("seed %d: %d are shorter, such as row %d, want %d", seed, got, row, shorter)
		}
		if both.OutOfRange() != (median < Shortest || median > Longest) {
			t.Errorf("seed %d: a median of %v", seed, median)
		}
	}
}

// Zeros and what is not finite are counted apart, and the first rows are named.
func TestTallyOfNothing(t *testing.T) {
	t.Parallel()
	var tally Tally
	if n, _ := tally.Longer(); n != 0 || tally.Median() != 0 || tally.OutOfRange() {
		t.Errorf("of nothing: %+v", tally.Median())
	}
	for _, row := range []int32{7, 3, 5} {
		tally.Add(row, 0)
		tally.Add(row+1, math.NaN())
	}
	tally.Add(1, Square([]float32{3, 4}))
	if tally.Zero != 3 || tally.FirstZero != 3 || tally.NotFinite != 3 || tally.FirstNotFinite != 4 ||
		math.Abs(tally.Median()-5) > 1.2 {
		t.Errorf("%d zeros from %d, %d not finite from %d, median %v", tally.Zero, tally.FirstZero, tally.NotFinite,
			tally.FirstNotFinite, tally.Median())
	}
	var extreme Tally
	extreme.Add(0, Square([]float32{math.SmallestNonzeroFloat32}))
	extreme.Add(1, Square([]float32{math.MaxFloat32, math.MaxFloat32}))
	if n, row := extreme.Longer(); n != 1 || row != 1 {
		t.Errorf("%d are longer, such as %d", n, row)
	}
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}
