//go:build unix

package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"
	"unsafe"
)

// fence is memory between two pages that nobody may touch.
type fence struct{ memory []byte }

const (
	fenceMark  = 0xa5 // what the memory beside the elements is filled with
	fenceBytes = 256  // and how much of it
)

func newFence(t *testing.T) *fence {
	t.Helper()
	page := os.Getpagesize()
	all, err := syscall.Mmap(-1, 0, 1<<17+2*page, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(all) })
	for _, outside := range [][]byte{all[:page], all[len(all)-page:]} {
		if err := syscall.Mprotect(outside, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return &fence{all[page : len(all)-page]}
}

// place returns n elements that end at the upper fence, or begin at the lower one; what is beside them is marked.
func place[T any](f *fence, n int, upper bool) []T {
	var element T
	size, at := n*int(unsafe.Sizeof(element)), 0
	if upper {
		at = len(f.memory) - size
	}
	for i := range f.beside(size, upper) {
		f.beside(size, upper)[i] = fenceMark
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(f.memory[at:]))), n)[:n:n]
}

// beside returns the memory on the open side of elements of so many bytes.
func (f *fence) beside(size int, upper bool) []byte {
	if upper {
		return f.memory[len(f.memory)-size-fenceBytes:][:fenceBytes]
	}
	return f.memory[size:][:fenceBytes]
}

// yard is a few fences, and what is placed in them is checked together.
type yard struct {
	t      *testing.T
	rng    *rand.Rand
	upper  bool
	fences []*fence
	sizes  []int // of what the fences hold
}

func newYard(t *testing.T) *yard {
	y := &yard{t: t, rng: rand.New(rand.NewPCG(21, 22))}
	for range 6 {
		y.fences = append(y.fences, newFence(t))
	}
	return y
}

func placeIn[T any](y *yard, n int) []T {
	var element T
	y.sizes = append(y.sizes, n*int(unsafe.Sizeof(element)))
	return place[T](y.fences[len(y.sizes)-1], n, y.upper)
}

func (y *yard) floats(n int) []float32 {
	out := placeIn[float32](y, n)
	copy(out, randomRow(y.rng, n))
	return out
}

func (y *yard) indices(n, rows int) []int32 {
	out := placeIn[int32](y, n)
	copy(out, randomIndices(y.rng, n, rows))
	return out
}

// matrix returns rows without padding, of float32 or float16 numbers.
func (y *yard) matrix(rows, dim int, half bool) *Matrix {
	m := &Matrix{rows: rows, dim: dim, stride: dim, half: half}
	if half {
		m.f16 = placeIn[uint16](y, rows*dim)
		ToHalf(m.f16, randomRow(y.rng, rows*dim))
	} else {
		m.f32 = y.floats(rows * dim)
	}
	return m
}

// check ends one try.
func (y *yard) check(what string) {
	y.t.Helper()
	for i, size := range y.sizes {
		if slices.ContainsFunc(y.fences[i].beside(size, y.upper), func(b byte) bool { return b != fenceMark }) {
			y.t.Fatalf("%s: wrote outside of argument %d", what, i)
		}
	}
	y.sizes = y.sizes[:0]
}

// eachPlace runs a test under every variant, at both fences.
func eachPlace(t *testing.T, run func(y *yard)) {
	eachVariant(t, func(t *testing.T) {
		y := newYard(t)
		for _, y.upper = range []bool{false, true} {
			run(y)
		}
	})
}

// Kernels of rows read and write what they are given and nothing beside it, whatever the length: a read outside ends
// the program.
func TestRowsStayInside(t *testing.T) {
	eachPlace(t, func(y *yard) {
		for dim := range 140 {
			for _, half := range []bool{false, true} {
				rows := 1 + y.rng.IntN(9)
				what := fmt.Sprintf("dim %d, %d rows, float16 %v, upper %v", dim, rows, half, y.upper)
				m, q, dst := y.matrix(rows, dim, half), y.floats(dim), y.floats(rows)
				idx := y.indices(rows, rows)
				for k := range idx {
					idx[k] = int32(k)
				}
				Dots(dst, q, m, idx)
				listed := slices.Clone(dst)
				DotRange(dst, q, m, 0)
				if !slices.Equal(dst, listed) {
					t.Fatalf("%s: Dots and DotRange differ", what)
				}
				for k, got := range dst {
					var sum, magnitude float64
					for d, h := range row64(m, k) {
						sum += h * float64(q[d])
						magnitude += math.Abs(h * float64(q[d]))
					}
					agree(y.t, what, got, sum, magnitude, dim)
				}
				AddRows(q, m, idx, dst)
				y.check(what)

				m, q, dst = y.matrix(rows, dim, half), y.floats(dim), y.floats(rows)
				sources, targets := y.indices(rows, rows), y.indices(rows, rows)
				DotPairs(dst, q, m, sources, targets)
				AddPairs(q, m, sources, targets, dst)
				y.check(what + ", pairs")
			}
		}
	})
}

func TestBlocksStayInside(t *testing.T) {
	eachPlace(t, func(y *yard) {
		for rows := range 14 {
			for _, columns := range []int{1, 5, 8, 9, 16, 19, 33} {
				for _, half := range []bool{false, true} {
					dim := y.rng.IntN(20)
					what := fmt.Sprintf("%d×%d·%d, float16 %v, upper %v", rows, columns, dim, half, y.upper)
					a, b, z := y.matrix(rows, dim, half), y.matrix(columns, dim, half), y.matrix(rows, columns, false)
					MulT(z, a, b)
					for i := range rows {
						left := row64(a, i)
						for j, got := range z.Row(i) {
							var sum, magnitude float64
							for d, h := range row64(b, j) {
								sum += h * left[d]
								magnitude += math.Abs(h * left[d])
							}
							agree(y.t, what, got, sum, magnitude, dim)
						}
					}
					y.check("MulT " + what)
					c, h, v := y.matrix(rows, columns, false), y.matrix(columns, dim, half), y.matrix(rows, dim, false)
					Mul(v, c, h, true)
					y.check("Mul " + what)
				}
			}
		}
	})
}

func TestFunctionsStayInside(t *testing.T) {
	eachPlace(t, func(y *yard) {
		for n := range 140 {
			what := fmt.Sprintf("%d elements, upper %v", n, y.upper)
			first, second, third := y.floats(n), y.floats(n), y.floats(n)
			Sigmoid(first, second)
			LogSigmoid(first, second)
			SigmoidSoftplus(first, third, second)
			var sums UnlinkedSums
			sums.Add(second, .3, .7)
			sums.AddEach(second, Exposed{third, 1}, ExposureRule{.1, .1})
			sums.AddEachBoth(second, Exposed{third, 1}, Exposed{first, 2}, ExposureRule{.1, .1})
			sums.AddBoth(second, Propensity{.3, .7}, Propensity{.6, .4})
			bits := placeIn[uint16](y, n)
			ToHalf(bits, second)
			FromHalf(third, bits)
			for i, x := range second {
				if want := halfToFloat(floatToHalf(x)); third[i] != want {
					t.Fatalf("%s: %v became %v, want %v", what, x, third[i], want)
				}
			}
			y.check(what)
			a := &Adam{Rate: .1, Beta1: .9, Beta2: .999, Epsilon: 1e-8, First: y.floats(n), Second: y.floats(n)}
			for i, x := range a.Second {
				a.Second[i] = x * x
			}
			a.Step(y.floats(n), y.floats(n))
			y.check(what + ", Adam")
		}
	})
}

func TestCodesStayInside(t *testing.T) {
	eachPlace(t, func(y *yard) {
		for _, stride := range []int{64, 128, 192, 768} {
			for _, rows := range []int{16, 48} {
				what := fmt.Sprintf("%d codes, %d rows, upper %v", stride, rows, y.upper)
				high, low := placeIn[int32](y, rows), placeIn[int32](y, rows)
				q, rest := placeIn[int8](y, stride), placeIn[int8](y, stride)
				base := placeIn[uint8](y, rows*stride)
				for k := range base {
					base[k] = uint8(y.rng.IntN(256))
				}
				for k := range q {
					q[k], rest[k] = int8(y.rng.IntN(256)-128), int8(y.rng.IntN(256)-128)
				}
				dotCodes(high, low, q, rest, base, stride)
				wantHigh, wantLow := make([]int32, rows), make([]int32, rows)
				dotCodesGo(wantHigh, wantLow, q, rest, base, stride)
				if !slices.Equal(high, wantHigh) || !slices.Equal(low, wantLow) {
					t.Fatalf("%s: the sums differ", what)
				}
				y.check(what)
				dst, scales := y.floats(rows), y.floats(rows)
				high, low = placeIn[int32](y, rows), placeIn[int32](y, rows)
				scaleCodes(dst, high, low, scales, &coded{step: .5, highZero: 3, lowZero: 4})
				y.check(what + ", scaled")
				sums, panel := placeIn[int32](y, codeTileRows*codeTileColumns), placeIn[int8](y, stride*codeTileColumns)
				base = placeIn[uint8](y, codeTileRows*stride)
				tileCodes(sums, codeTileColumns, base, stride, panel)
				y.check(what + ", tile")
			}
		}
	})
}

// Numbers above a threshold are counted, those at it and infinite ones too, and a number is added to all, as one by
// one.
func TestCountAboveAndShift(t *testing.T) {
	eachPlace(t, func(y *yard) {
		for n := range 140 {
			z := y.floats(n)
			limit := float32(.25)
			want := 0
			shifted := make([]float32, n)
			for k := range z {
				switch y.rng.IntN(8) {
				case 0:
					z[k] = limit
				case 1:
					z[k] = float32(math.Inf(1 - 2*y.rng.IntN(2)))
				}
				if z[k] > limit {
					want++
				}
				shifted[k] = z[k] + limit
			}
			if got := CountAbove(z, limit); got != want {
				t.Fatalf("%d of %d numbers are above %v, want %d", got, n, limit, want)
			}
			if Shift(z, limit); !slices.Equal(z, shifted) {
				t.Fatalf("%d numbers and %v: %v, want %v", n, limit, z, shifted)
			}
			y.check(fmt.Sprint(n, " numbers"))
		}
	})
}

// A place that above returns is of the block that has the first score above the threshold.
func TestAbove(t *testing.T) {
	eachPlace(t, func(y *yard) {
		for n := 0; n < 140; n += lanes() {
			z := y.floats(n)
			most := slices.Max(append(slices.Clone(z), -10))
			if got := above(z, most); got != n {
				t.Fatalf("%d scores: found %d, none is above %v", n, got, most)
			}
			for first := range z {
				z[first] = most + 1
				if got := above(z, most); got > first || first-got >= maxLanes || got%lanes() != 0 {
					t.Fatalf("%d scores: found %d, want the block of %d", n, got, first)
				}
				z[first] = most
			}
			y.check(fmt.Sprint(n, " scores"))
			_, columns := tileShape()
			rows := 1 + y.rng.IntN(5)
			grid, thresholds := y.floats(rows*columns), y.floats(columns)
			for c := range thresholds {
				thresholds[c] = 9
			}
			want := y.rng.IntN(rows + 1)
			if want < rows {
				grid[want*columns+y.rng.IntN(columns)] = 10
			}
			if got := columnsAbove(grid, columns, 0, rows, thresholds); got != want {
				t.Fatalf("%d×%d: found row %d, want %d", rows, columns, got, want)
			}
			y.check("columns")
		}
	})
}
