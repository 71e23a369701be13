package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMulT(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	eachVariant(t, func(t *testing.T) {
		for _, rows := range []int{0, 1, 5, 12, 13, 40} {
			for _, columns := range []int{0, 1, 16, 31, 33, 70} {
				for _, dim := range []int{0, 1, 3, 17, 64} {
					right := shapes(t, columns, dim, 2)
					for layout, a := range shapes(t, rows, dim, 1) {
						b := right[layout]
						z := randomMatrix(t, rows, columns, false, 3)
						MulT(z, a, b)
						for i := range rows {
							left := row64(a, i)
							for j, got := range z.Row(i) {
								var sum, magnitude float64
								for d, h := range row64(b, j) {
									sum += h * left[d]
									magnitude += math.Abs(h * left[d])
								}
								agree(t, fmt.Sprintf("%s %d×%d·%d at %d,%d", layout, rows, columns, dim, i, j), got,
									sum, magnitude, dim)
							}
							if stride := z.Stride(); stride > columns {
								for _, x := range z.f32[i*stride+columns : (i+1)*stride] {
									if x != 0 {
										t.Fatalf("%s %d×%d·%d: wrote into the padding", layout, rows, columns, dim)
									}
								}
							}
						}
					}
				}
			}
		}
	})
}

// An element's bits do not depend on where in a block it is computed.
func TestMulTIsPositionFree(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		a, b := randomMatrix(t, 50, 77, false, 1), randomMatrix(t, 90, 77, false, 2)
		whole, _ := NewMatrix(50, 90)
		MulT(whole, a, b)
		rng := rand.New(rand.NewPCG(1, 1))
		for range 20 {
			i, j := rng.IntN(50), rng.IntN(90)
			m, n := 1+rng.IntN(50-i), 1+rng.IntN(90-j)
			left, _ := View(a.f32[i*a.stride:], m, 77, a.stride)
			right, _ := View(b.f32[j*b.stride:], n, 77, b.stride)
			part, _ := NewMatrix(m, n)
			MulT(part, left, right)
			for r := range m {
				if !slices.Equal(part.Row(r), whole.Row(i + r)[j:j+n]) {
					t.Fatalf("rows %d+%d, columns %d+%d differ from the whole", i, m, j, n)
				}
			}
		}
	})
}

func TestMul(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	eachVariant(t, func(t *testing.T) {
		for _, rows := range []int{0, 1, 13, 24} {
			for _, deep := range []int{0, 1, 30, 300} {
				for _, dim := range []int{0, 1, 33, 64} {
					c := randomMatrix(t, rows, deep, false, 4)
					for layout, h := range shapes(t, deep, dim, 5) {
						for _, accumulate := range []bool{false, true} {
							v, before := randomMatrix(t, rows, dim, false, 6), randomMatrix(t, rows, dim, false, 6)
							Mul(v, c, h, accumulate)
							for i := range rows {
								sum, magnitude := make([]float64, dim), make([]float64, dim)
								if accumulate {
									for d, x := range row64(before, i) {
										sum[d], magnitude[d] = x, math.Abs(x)
									}
								}
								for k, f := range row64(c, i) {
									for d, x := range row64(h, k) {
										sum[d] += f * x
										magnitude[d] += math.Abs(f * x)
									}
								}
								for d, got := range v.Row(i) {
									agree(t, fmt.Sprintf("%s %d×%d·%d at %d,%d", layout, rows, deep, dim, i, d), got,
										sum[d], magnitude[d], deep+1)
								}
							}
						}
					}
				}
			}
		}
	})
}

// The packed side is cut when it is larger than the cache: the cuts must not show.
func TestMulAcrossPanels(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		const deep, dim = 700, 2100 // more than panelBytes in one direction each
		c, h := randomMatrix(t, 13, deep, false, 1), randomMatrix(t, deep, dim, false, 2)
		v, _ := NewMatrix(13, dim)
		Mul(v, c, h, false)
		z, _ := NewMatrix(13, 300)
		wide, _ := View(h.f32, 300, dim, h.stride)
		row := randomMatrix(t, 13, dim, false, 3)
		MulT(z, row, wide)
		for _, i := range []int{0, 12} {
			for _, d := range []int{0, 31, 32, 2047, 2099} {
				var sum, magnitude float64
				for k, f := range row64(c, i) {
					x := f * float64(h.Row(k)[d])
					sum, magnitude = sum+x, magnitude+math.Abs(x)
				}
				agree(t, fmt.Sprint("Mul at ", i, d), v.Row(i)[d], sum, magnitude, deep)
			}
			for _, j := range []int{0, 120, 128, 299} {
				var sum, magnitude float64
				for d, f := range row64(row, i) {
					x := f * float64(h.Row(j)[d])
					sum, magnitude = sum+x, magnitude+math.Abs(x)
				}
				agree(t, fmt.Sprint("MulT at ", i, j), z.Row(i)[j], sum, magnitude, dim)
			}
		}
	})
}

// AddLower is Mul up to the diagonal; above it, it may leave what was there.
func TestAddLower(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		for _, n := range []int{0, 1, 12, 33, 100} {
			for _, deep := range []int{1, 64, 513} {
				c, h := randomMatrix(t, n, deep, false, 4), randomMatrix(t, deep, n, false, 5)
				lower, whole := randomMatrix(t, n, n, false, 6), randomMatrix(t, n, n, false, 6)
				before := randomMatrix(t, n, n, false, 6)
				AddLower(lower, c, h)
				Mul(whole, c, h, true)
				for i := range n {
					if !slices.Equal(lower.Row(i)[:i+1], whole.Row(i)[:i+1]) {
						t.Fatalf("%d×%d·%d: row %d differs from Mul's", n, deep, n, i)
					}
					for j := i + 1; j < n; j++ {
						if got := lower.Row(i)[j]; got != whole.Row(i)[j] && got != before.Row(i)[j] {
							t.Fatalf("%d×%d·%d: %g at %d,%d is neither Mul's nor what was there", n, deep, n, got, i, j)
						}
					}
				}
			}
		}
	})
}
