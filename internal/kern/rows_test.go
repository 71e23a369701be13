package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

const epsilon = 0x1p-24

// eachVariant runs a test under every variant that this machine and this build have.
func eachVariant(t *testing.T, run func(t *testing.T)) {
	for _, name := range Variants() {
		t.Run(name, func(t *testing.T) {
			restore, err := Use(name)
			if err != nil {
				t.Fatal(err)
			}
			defer restore()
			run(t)
		})
	}
}

var (
	lengths = []int{0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 100, 256, 300, 768, 769}
	counts  = []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 33}
)

// shapes returns matrices of n rows in every layout: padded and off the heap, float16, and an
// unaligned view with an odd stride.
func shapes(tb testing.TB, rows, dim int, seed uint64) map[string]*Matrix {
	rng := rand.New(rand.NewPCG(seed, 9))
	stride := dim + 3
	data := randomRow(rng, rows*stride+1)
	view, err := View(data[1:], rows, dim, stride)
	if err != nil {
		tb.Fatal(err)
	}
	return map[string]*Matrix{
		"padded":  randomMatrix(tb, rows, dim, false, seed),
		"float16": randomMatrix(tb, rows, dim, true, seed),
		"view":    view,
	}
}

// row64 returns a row as float64.
func row64(m *Matrix, i int) []float64 {
	row := make([]float32, m.Dim())
	m.Load(row, i)
	out := make([]float64, len(row))
	for d, x := range row {
		out[d] = float64(x)
	}
	return out
}

// agree checks a float32 product-sum of n terms against the exact one: the bound that doc.go states.
func agree(t *testing.T, what string, got float32, want, magnitude float64, n int) {
	t.Helper()
	if math.IsNaN(want) || math.IsInf(want, 0) {
		if float64(got) != want && !(math.IsNaN(want) && got != got) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
		return
	}
	bound := (float64(n)+4)*epsilon*magnitude + 0x1p-149*float64(n+1)
	if !(math.Abs(float64(got)-want) <= bound) {
		t.Errorf("%s: got %v, want %v, off by %.3g, bound %.3g", what, got, want, math.Abs(float64(got)-want), bound)
	}
}

func randomIndices(rng *rand.Rand, n, rows int) []int32 {
	idx := make([]int32, n)
	for k := range idx {
		idx[k] = int32(rng.IntN(rows))
	}
	return idx
}

func TestDots(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 4))
		for _, dim := range lengths {
			for layout, m := range shapes(t, 40, dim, uint64(dim)) {
				q := randomRow(rng, dim+1)[1:]
				for _, count := range counts {
					idx := randomIndices(rng, count, 40)
					dst := make([]float32, count)
					Dots(dst, q, m, idx)
					for k, i := range idx {
						var sum, magnitude float64
						for d, h := range row64(m, int(i)) {
							sum += h * float64(q[d])
							magnitude += math.Abs(h * float64(q[d]))
						}
						agree(t, fmt.Sprintf("%s dim %d, %d of %d", layout, dim, k, count), dst[k], sum, magnitude, dim)
					}
					// a row's result does not depend on where it stands, nor on the kernel that reads it
					slices.Reverse(idx)
					again := make([]float32, count)
					Dots(again, q, m, idx)
					slices.Reverse(again)
					if !slices.Equal(dst, again) {
						t.Errorf("%s dim %d count %d: the order of the list changed the bits", layout, dim, count)
					}
				}
				all, listed := make([]float32, 37), make([]float32, 37)
				DotRange(all, q, m, 2)
				idx := make([]int32, 37)
				for k := range idx {
					idx[k] = int32(k + 2)
				}
				Dots(listed, q, m, idx)
				if !slices.Equal(all, listed) {
					t.Errorf("%s dim %d: DotRange and Dots differ", layout, dim)
				}
			}
		}
	})
}

func TestAddRows(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 6))
		for _, dim := range lengths {
			for layout, m := range shapes(t, 40, dim, uint64(dim)) {
				for _, count := range counts {
					idx, c := randomIndices(rng, count, 40), randomRow(rng, count)
					room := randomRow(rng, dim+2) // a guard on each side
					dst := room[1 : dim+1 : dim+1]
					sum, magnitude := make([]float64, dim), make([]float64, dim)
					for d, x := range dst {
						sum[d], magnitude[d] = float64(x), math.Abs(float64(x))
					}
					for k, i := range idx {
						for d, h := range row64(m, int(i)) {
							sum[d] += float64(c[k]) * h
							magnitude[d] += math.Abs(float64(c[k]) * h)
						}
					}
					first, last := room[0], room[dim+1]
					AddRows(dst, m, idx, c)
					for d := range dst {
						agree(t, fmt.Sprintf("%s dim %d count %d element %d", layout, dim, count, d), dst[d], sum[d],
							magnitude[d], count)
					}
					if room[0] != first || room[dim+1] != last {
						t.Fatalf("%s dim %d count %d: wrote outside the sum", layout, dim, count)
					}
				}
			}
		}
	})
}

func TestPairs(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(7, 8))
		for _, dim := range lengths {
			for layout, m := range shapes(t, 40, dim, uint64(dim)) {
				w := randomRow(rng, dim)
				for _, count := range counts {
					sources, targets, c := randomIndices(rng, count, 40), randomIndices(rng, count, 40),
						randomRow(rng, count)
					dst, grad := make([]float32, count), make([]float32, dim)
					sum, magnitude := make([]float64, dim), make([]float64, dim)
					DotPairs(dst, w, m, sources, targets)
					AddPairs(grad, m, sources, targets, c)
					for k := range sources {
						a, b := row64(m, int(sources[k])), row64(m, int(targets[k]))
						var z, size float64
						for d := range a {
							z += float64(w[d]) * a[d] * b[d]
							size += math.Abs(float64(w[d]) * a[d] * b[d])
							sum[d] += float64(c[k]) * a[d] * b[d]
							magnitude[d] += math.Abs(float64(c[k]) * a[d] * b[d])
						}
						agree(t, fmt.Sprintf("%s dim %d pair %d of %d", layout, dim, k, count), dst[k], z, size, dim)
					}
					for d := range grad {
						agree(t, fmt.Sprintf("%s dim %d count %d element %d", layout, dim, count, d), grad[d], sum[d],
							magnitude[d], count)
					}
				}
			}
		}
	})
}

func TestAddGram(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(9, 10))
		for _, dim := range []int{1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 33, 48} {
			m, order := randomMatrix(t, 40, dim, false, uint64(dim)), GramOrder(dim)
			if m.Stride() < order {
				t.Fatalf("dim %d: a stride of %d is less than %d", dim, m.Stride(), order)
			}
			for _, count := range counts {
				idx, c := randomIndices(rng, count, 40), randomRow(rng, count)
				h := make([]float32, order*order)
				for a := range dim {
					for b := range a + 1 {
						h[a*order+b] = float32(a - 2*b)
					}
				}
				AddGram(h, m, idx, c)
				for a := range dim {
					for b := range a + 1 {
						sum := float64(a - 2*b)
						magnitude := math.Abs(sum)
						for k, i := range idx {
							row := row64(m, int(i))
							sum += float64(c[k]) * row[a] * row[b]
							magnitude += math.Abs(float64(c[k]) * row[a] * row[b])
						}
						agree(t, fmt.Sprintf("dim %d count %d element %d, %d", dim, count, a, b), h[a*order+b], sum,
							magnitude, count+1)
					}
				}
			}
		}
	})
}

// Infinite, missing, tiny and huge elements: the class of the result is that of the float64 sum.
func TestDotsOfExtremes(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	values := []float64{0, math.Copysign(0, -1), 1, -1, 1e-40, -1e-45, 1e18, -1e18, 3e-20, inf, -inf, nan}
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(11, 12))
		for round := range 400 {
			dim := 1 + rng.IntN(70)
			data, q := make([]float32, 5*dim), make([]float32, dim)
			kinds := 1 + rng.IntN(len(values))
			for i := range data {
				data[i] = float32(values[rng.IntN(kinds)])
			}
			for i := range q {
				q[i] = float32(values[rng.IntN(min(kinds, 9))])
			}
			m, err := View(data, 5, dim, dim)
			if err != nil {
				t.Fatal(err)
			}
			dst := make([]float32, 5)
			Dots(dst, q, m, []int32{0, 1, 2, 3, 4})
			for i := range dst {
				var sum, magnitude float64
				for d, h := range row64(m, i) {
					sum += h * float64(q[d])
					magnitude += math.Abs(h * float64(q[d]))
				}
				agree(t, fmt.Sprintf("round %d row %d", round, i), dst[i], sum, magnitude, dim)
			}
		}
	})
}

func TestDoorIsClosed(t *testing.T) {
	m := randomMatrix(t, 3, 5, false, 1)
	q, out := make([]float32, 5), make([]float32, 4)
	closed := randomMatrix(t, 3, 5, false, 1)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	for name, f := range map[string]func(){
		"index too large":   func() { Dots(out, q, m, []int32{0, 3}) },
		"negative index":    func() { Dots(out, q, m, []int32{-1}) },
		"short query":       func() { Dots(out, q[:4], m, []int32{0}) },
		"short result":      func() { Dots(out[:0:0], q, m, []int32{0}) },
		"range too long":    func() { DotRange(out, q, m, 0) },
		"negative range":    func() { DotRange(out[:1], q, m, -1) },
		"few factors":       func() { AddRows(q, m, []int32{0, 1}, out[:1:1]) },
		"unequal pairs":     func() { DotPairs(out, q, m, []int32{0, 1}, []int32{0}[:1:1]) },
		"bad target":        func() { AddPairs(q, m, []int32{0}, []int32{9}, out) },
		"closed":            func() { Dots(out, q, closed, []int32{0}) },
		"row of closed":     func() { closed.Row(0) },
		"shapes of MulT":    func() { MulT(m, m, m) },
		"shapes of Mul":     func() { Mul(m, m, m, false) },
		"hits without end":  func() { topK(t, m, m, MaxK+1, 1) },
		"float16 row":       func() { h, _ := NewHalf(1, 1); h.Row(0) },
		"chunks of nothing": func() { Chunks(1, 0, 1, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}
