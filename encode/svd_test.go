package encode

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// randomSparse is a matrix with a spectrum that falls slowly, as that of texts does, and its dense twin.
func randomSparse(seed uint64, rows, columns, perRow int) (*sparse, *mat.Dense) {
	r := rand.New(rand.NewPCG(seed, 1))
	s := &sparse{starts: []int{0}, width: columns}
	dense := mat.NewDense(rows, columns, nil)
	for i := range rows {
		for c := range columns {
			// the first columns are commoner, and rows of a kind share some
			if r.Float64()*float64(columns) < float64(perRow)*math.Exp(-3*float64(c)/float64(columns)) || c%7 == i%7 &&
				r.IntN(3) == 0 {
				x := float32(r.Float64() + .1)
				s.columns, s.values = append(s.columns, int32(c)), append(s.values, x)
				dense.Set(i, c, float64(x))
			}
		}
		s.starts = append(s.starts, len(s.columns))
	}
	return s, dense
}

// TestComponents compares with LAPACK's algorithm in float64.
func TestComponents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rows, columns, dim int }{{300, 120, 10}, {90, 400, 20}, {40, 30, 20}, {500, 97, 33}} {
		a, dense := randomSparse(uint64(c.rows), c.rows, c.columns, 20)
		v, singular, err := components(context.Background(), a,
			&Settings{Dim: c.dim, PowerIterations: 6, Seed: 3, Threads: 2})
		ok(t, err)
		var reference mat.SVD
		if !reference.Factorize(dense, mat.SVDThin) {
			t.Fatal("no reference")
		}
		want := reference.Values(nil)
		var vectors mat.Dense
		reference.VTo(&vectors)
		if v.Dim() != c.dim || len(singular) != c.dim {
			t.Fatalf("%v: %d components", c, v.Dim())
		}
		for k, s := range singular {
			if math.Abs(s-want[k]) > 1e-3*want[k] {
				t.Errorf("%v: singular value %d is %v, want %v", c, k, s, want[k])
			}
			if k > 0 && s > singular[k-1] {
				t.Errorf("%v: singular values rise at %d", c, k)
			}
		}
		// Columns are orthonormal, and A·V carries as much as the best V does.
		for k := range c.dim {
			for l := range k + 1 {
				var dot float64
				for i := range c.columns {
					dot += float64(v.Row(i)[k]) * float64(v.Row(i)[l])
				}
				want := 0.
				if k == l {
					want = 1
				}
				if math.Abs(dot-want) > 1e-4 {
					t.Errorf("%v: columns %d and %d have the product %v", c, k, l, dot)
				}
			}
		}
		// The first component, whose value stands apart, is the reference's up to its sign.
		var dot float64
		for i := range c.columns {
			dot += float64(v.Row(i)[0]) * vectors.At(i, 0)
		}
		if math.Abs(math.Abs(dot)-1) > 1e-4 {
			t.Errorf("%v: the first component has the cosine %v with the reference's", c, dot)
		}
		v.Close()
	}
}

// A matrix of small rank gives as many components as it has, not rounding.
func TestRank(t *testing.T) {
	t.Parallel()
	for rank := 1; rank < 6; rank++ {
		s := &sparse{starts: []int{0}, width: 50}
		for i := range 200 {
			for k := range 5 {
				s.columns, s.values = append(s.columns, int32(i%rank*10+k)), append(s.values, float32(1+k))
			}
			s.starts = append(s.starts, len(s.columns))
		}
		v, _, err := components(context.Background(), s,
			&Settings{Dim: 20, PowerIterations: 3, Seed: 1, Threads: 2})
		ok(t, err)
		if v.Dim() != rank {
			t.Errorf("rank %d gives %d components", rank, v.Dim())
		}
		v.Close()
	}
}
