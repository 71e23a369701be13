package evaluate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestDescending(t *testing.T) {
	falling := []float64{inf, math.MaxFloat64, 2, 1, math.Nextafter(1, 0), 5e-324, 0, -5e-324, -1, -2,
		-math.MaxFloat64, -inf}
	for i, x := range falling[1:] {
		if !(descending(falling[i]) < descending(x)) {
			t.Errorf("the key of %v is not below that of %v", falling[i], x)
		}
	}
	if descending(0) != descending(math.Copysign(0, -1)) {
		t.Error("0 and −0 have different keys")
	}
}

func TestSortKeyed(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, n := range []int{0, 1, 2, 300, 5000} {
		for _, shift := range []int{0, 20, 50, 60, 64} { // the higher, the more equal keys
			pairs := make([]keyed, n)
			for i := range pairs {
				pairs[i] = keyed{r.Uint64() >> shift, float64(i)}
			}
			want := slices.Clone(pairs)
			slices.SortStableFunc(want, func(a, b keyed) int { return cmp.Compare(a.key, b.key) })
			if got := sortKeyed(pairs); !slices.Equal(got, want) {
				t.Errorf("%d pairs shifted by %d come out of order", n, shift)
			}
		}
	}
}
