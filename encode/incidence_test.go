package encode

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// blocks is rows and columns of so many kinds: row i is of kind i mod kinds, and has most of its ones in columns of its
// own kind, some rows many and some few.
func blocks(r *rand.Rand, rows, width, kinds int) Incidence {
	m := Incidence{Starts: []int{0}, Width: width}
	for i := range rows {
		ones := map[int32]bool{}
		for range 3 + i%20 {
			j := r.IntN(width)
			if r.Float64() < .9 {
				j = j/kinds*kinds + i%kinds
			}
			if j < width {
				ones[int32(j)] = true
			}
		}
		for j := range int32(width) {
			if ones[j] {
				m.Columns = append(m.Columns, j)
			}
		}
		m.Starts = append(m.Starts, len(m.Columns))
	}
	return m
}

// Rows of a kind, and the columns that they have ones in, point the same way, and others another.
func TestFactor(t *testing.T) {
	t.Parallel()
	const kinds = 3
	m := blocks(rand.New(rand.NewPCG(1, 2)), 300, 60, kinds)
	empty := 7 // a row without a one
	from, to := m.Starts[empty], m.Starts[empty+1]
	m.Columns = slices.Delete(m.Columns, from, to)
	for k := empty + 1; k < len(m.Starts); k++ {
		m.Starts[k] -= to - from
	}
	d, err := m.Factor(t.Context(), Settings{Dim: kinds, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	if d.Dim != kinds {
		t.Fatalf("%d components", d.Dim)
	}
	all := slices.Concat(d.Rows, d.Columns)
	at := func(i int) []float32 { return all[i*kinds:][:kinds] }
	var sums [2][2]float64 // of cosines and pairs, of other kinds and of one
	for a := range 360 {
		length := math.Sqrt(cosine(at(a), at(a)))
		if want := map[bool]float64{true: 0, false: 1}[a == empty]; math.Abs(length-want) > 1e-5 {
			t.Fatalf("direction %d has length %v", a, length)
		}
		for b := range a {
			if a == empty || b == empty {
				continue
			}
			same := 0
			if a%kinds == b%kinds { // 300 rows are a multiple of the kinds
				same = 1
			}
			sums[same][0] += cosine(at(a), at(b))
			sums[same][1]++
		}
	}
	if other, same := sums[0][0]/sums[0][1], sums[1][0]/sums[1][1]; same < .8 || other > .4 {
		t.Errorf("mean cosine %.2f within kinds, %.2f between", same, other)
	}
	again, err := m.Factor(t.Context(), Settings{Dim: kinds, Seed: 3, Threads: 3})
	if err != nil || !slices.Equal(d.Rows, again.Rows) || !slices.Equal(d.Columns, again.Columns) {
		t.Errorf("other directions with three threads (%v)", err)
	}
	if _, err := (Incidence{Starts: []int{0, 0}, Width: 4}).Factor(t.Context(), Settings{}); err == nil {
		t.Error("directions of nothing")
	}
}

func cosine(a, b []float32) (sum float64) {
	for k, x := range a {
		sum += float64(x) * float64(b[k])
	}
	return sum
}
