package kern

import (
	"math/rand/v2"
	"testing"
)

func randomMatrix(tb testing.TB, rows, dim int, half bool, seed uint64) *Matrix {
	tb.Helper()
	make := NewMatrix
	if half {
		make = NewHalf
	}
	m, err := make(rows, dim)
	if err != nil {
		tb.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	row := randomRow(rng, dim)
	for i := range rows {
		for d := range row {
			row[d] = float32(rng.NormFloat64())
		}
		m.Store(i, row)
	}
	return m
}

func randomRow(rng *rand.Rand, n int) []float32 {
	row := make([]float32, n)
	for i := range row {
		row[i] = float32(rng.NormFloat64())
	}
	return row
}

// eachVariant runs a benchmark or test under every variant that this machine has.
func benchmarkVariants(b *testing.B, run func(b *testing.B)) {
	for _, name := range Variants() {
		b.Run(name, func(b *testing.B) {
			restore, err := Use(name)
			if err != nil {
				b.Fatal(err)
			}
			defer restore()
			run(b)
		})
	}
}

// sized returns a size, or with -short a small one, for emulators.
func sized(whole, small int) int {
	if testing.Short() {
		return small
	}
	return whole
}

func BenchmarkRows(b *testing.B) {
	const dim = 768
	nodes, pairs := sized(200_000, 2000), sized(8192, 512)
	rng := rand.New(rand.NewPCG(1, 2))
	idx, other := make([]int32, pairs), make([]int32, pairs)
	for _, half := range []bool{false, true} {
		m := randomMatrix(b, nodes, dim, half, 1)
		q, c, dst := randomRow(rng, dim), randomRow(rng, pairs), make([]float32, pairs)
		name := "float32"
		if half {
			name = "float16"
		}
		shuffle := func(b *testing.B) {
			b.StopTimer()
			for k := range idx {
				idx[k], other[k] = int32(rng.IntN(nodes)), int32(rng.IntN(nodes))
			}
			b.StartTimer()
		}
		bytes := int64(pairs * dim * elementSize(half))
		b.Run("dots/"+name, func(b *testing.B) {
			benchmarkVariants(b, func(b *testing.B) {
				b.SetBytes(bytes)
				for b.Loop() {
					shuffle(b)
					Dots(dst, q, m, idx)
				}
			})
		})
		b.Run("addrows/"+name, func(b *testing.B) {
			benchmarkVariants(b, func(b *testing.B) {
				b.SetBytes(bytes)
				for b.Loop() {
					shuffle(b)
					AddRows(q, m, idx, c)
				}
			})
		})
		b.Run("dotpairs/"+name, func(b *testing.B) {
			benchmarkVariants(b, func(b *testing.B) {
				b.SetBytes(2 * bytes)
				for b.Loop() {
					shuffle(b)
					DotPairs(dst, q, m, idx, other)
				}
			})
		})
		b.Run("scan/"+name, func(b *testing.B) {
			all := make([]float32, nodes)
			benchmarkVariants(b, func(b *testing.B) {
				b.SetBytes(int64(nodes * dim * elementSize(half)))
				for b.Loop() {
					DotRange(all, q, m, 0)
				}
			})
		})
		m.Close()
	}
}

func BenchmarkMulT(b *testing.B) {
	rows := sized(2048, 64)
	for _, n := range []int{64, rows} {
		a, c := randomMatrix(b, rows, 768, false, 1), randomMatrix(b, n, 768, false, 2)
		z, _ := NewMatrix(rows, n)
		benchmarkVariants(b, func(b *testing.B) {
			for b.Loop() {
				MulT(z, a, c)
			}
			b.ReportMetric(2*float64(rows*n)*768*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
		})
	}
}

func BenchmarkMul(b *testing.B) {
	rows, deep := sized(1024, 16), sized(2048, 128)
	c, h := randomMatrix(b, rows, deep, false, 1), randomMatrix(b, deep, 768, false, 2)
	v, _ := NewMatrix(rows, 768)
	benchmarkVariants(b, func(b *testing.B) {
		for b.Loop() {
			Mul(v, c, h, false)
		}
		b.ReportMetric(2*float64(rows*deep)*768*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
	})
}

func BenchmarkTopK(b *testing.B) {
	for _, half := range []bool{false, true} {
		m := randomMatrix(b, sized(300_000, 1000), 768, half, 1)
		for _, batch := range []int{1, 64} {
			queries := randomMatrix(b, batch, 768, false, 2)
			name := map[bool]string{false: "float32", true: "float16"}[half]
			b.Run(name+map[int]string{1: "/one", 64: "/sixtyfour"}[batch], func(b *testing.B) {
				for b.Loop() {
					topK(b, m, queries, 10, 1)
				}
			})
		}
		m.Close()
	}
}

// Sums of codes with one query, and with as many as a tile is wide.
func BenchmarkCodes(b *testing.B) {
	rows := sized(100_000, 1024) / codeBlockRows * codeBlockRows
	m := randomMatrix(b, rows, 768, false, 1)
	c := quantise(b, m, 2)
	queries := randomMatrix(b, codeTileColumns, 768, false, 2)
	one := c.codeQuery(queries.Row(0))
	room, sums := make([]int32, 2*rows), make([]int32, codeBlockRows*codeTileColumns)
	block := newCodeBlock(c, &CodeSearch{Queries: queries, K: 10}, 0, codeTileColumns, 1)
	bytes := int64(rows * c.stride)
	b.Run("one", func(b *testing.B) {
		benchmarkVariants(b, func(b *testing.B) {
			b.SetBytes(bytes)
			for b.Loop() {
				dotCodes(room[:rows], room[rows:], one.high, one.low, c.bytes, c.stride)
			}
		})
	})
	b.Run("block", func(b *testing.B) {
		benchmarkVariants(b, func(b *testing.B) {
			b.SetBytes(bytes * codeTileColumns)
			for b.Loop() {
				for from := 0; from < rows; from += codeBlockRows {
					block.multiply(sums, from, codeBlockRows)
				}
			}
		})
	})
}

func BenchmarkFunctions(b *testing.B) {
	z := randomRow(rand.New(rand.NewPCG(1, 2)), sized(1<<16, 1<<12))
	y, loss := make([]float32, len(z)), make([]float32, len(z))
	for name, f := range map[string]func(){
		"sigmoid":         func() { Sigmoid(y, z) },
		"logSigmoid":      func() { LogSigmoid(y, z) },
		"sigmoidsoftplus": func() { SigmoidSoftplus(y, loss, z) },
		"lossSums":        func() { var s UnlinkedSums; s.Add(z, 0.3, 0.7) },
		"lossSumsBoth":    func() { var s UnlinkedSums; s.AddBoth(z, Propensity{0.3, 0.7}, Propensity{0.6, 0.4}) },
		"lossSumsEach":    func() { var s UnlinkedSums; s.AddEach(z, Exposed{z, 1}, ExposureRule{.1, .01}) },
		"lossSumsEachBoth": func() {
			var s UnlinkedSums
			s.AddEachBoth(z, Exposed{z, 1}, Exposed{y, -1}, ExposureRule{.1, .01})
		},
	} {
		b.Run(name, func(b *testing.B) {
			benchmarkVariants(b, func(b *testing.B) {
				for b.Loop() {
					f()
				}
				b.ReportMetric(float64(len(z))*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gelem/s")
			})
		})
	}
}
