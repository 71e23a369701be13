package kern

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// The integer sums are the definition's to the last bit, in every variant.
func TestCodeSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	eachVariant(t, func(t *testing.T) {
		for _, stride := range []int{64, 128, 320, 768, 832} {
			for _, rows := range []int{16, 32, 48} {
				base, q, rest := make([]uint8, rows*stride), make([]int8, stride), make([]int8, stride)
				for k := range base {
					base[k] = []uint8{uint8(rng.IntN(256)), 0, 255}[min(rng.IntN(8), 2)]
				}
				for k := range q {
					q[k], rest[k] = int8(rng.IntN(256)-128), []int8{127, -128}[rng.IntN(2)]
				}
				high, low := make([]int32, rows), make([]int32, rows)
				dotCodes(high, low, q, rest, base, stride)
				dst, scales := make([]float32, rows), randomRow(rng, rows)
				highZero, lowZero := rng.Int32N(1<<28)-1<<27, rng.Int32N(1<<28)-1<<27
				scaleCodes(dst, high, low, scales, highZero, lowZero)
				for r := range high {
					var a, b int64
					for d := range q {
						a += int64(q[d]) * int64(base[r*stride+d])
						b += int64(rest[d]) * int64(base[r*stride+d])
					}
					if int64(high[r]) != a || int64(low[r]) != b {
						t.Fatalf("stride %d, row %d of %d: got %d and %d, want %d and %d", stride, r, rows, high[r],
							low[r], a, b)
					}
					whole := float32(128) * float32(int32(a)-highZero)
					whole += float32(int32(b) - lowZero)
					if want := scales[r] * whole; dst[r] != want {
						t.Fatalf("stride %d, row %d: scaled to %v, want %v", stride, r, dst[r], want)
					}
				}
			}
		}
	})
}

// The largest sums fit.
func TestCodeSumsDoNotOverflow(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		base, q := slices.Repeat([]uint8{255}, codeRows*maxCodes), slices.Repeat([]int8{-127}, maxCodes)
		high, low := make([]int32, codeRows), make([]int32, codeRows)
		dotCodes(high, low, q, q, base, maxCodes)
		if want := int32(-127 * 255 * maxCodes); high[3] != want || low[15] != want {
			t.Errorf("got %d and %d, want %d", high[3], low[15], want)
		}
	})
}

// A coded row is within half a step of the row, its largest element within rounding.
func TestQuantise(t *testing.T) {
	for name, m := range shapes(t, 50, 70, 3) {
		if name == "padded" {
			clear(m.Row(7))
			for d := range m.Row(8) {
				m.Row(8)[d] = 0x1p-140
			}
			m.Row(9)[3] = math.MaxFloat32
		}
		c, err := Quantise(m, 3)
		if err != nil {
			t.Fatal(err)
		}
		if c.Rows() != 50 || c.Bytes() < 50*128 {
			t.Errorf("%d rows in %d bytes", c.Rows(), c.Bytes())
		}
		for i := range 50 {
			scale := float64(c.scales[i])
			for d, x := range row64(m, i) {
				code := c.bytes[i*c.stride+d]
				if code == 0 || name == "padded" && i == 7 && code != codeZero {
					t.Fatalf("%s: row %d element %d has code %d", name, i, d, code)
				}
				if got := scale * (float64(code) - codeZero); math.Abs(got-x) > .5001*scale+0x1p-141 {
					t.Fatalf("%s: row %d element %d: coded %v is not near %v in steps of %v", name, i, d, got, x, scale)
				}
			}
		}
		if err := c.Close(); err != nil || c.Close() != nil || c.Rows() != 0 {
			t.Errorf("Close: %v, %d rows", err, c.Rows())
		}
	}
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		m := randomMatrix(t, 30, 5, false, 1)
		m.Row(20)[4], m.Row(25)[0] = float32(x), float32(x)
		if _, err := Quantise(m, 2); !errors.Is(err, ErrNotFinite) || !strings.Contains(err.Error(), "row 20") {
			t.Errorf("%v: %v", x, err)
		}
	}
	wide, _ := NewMatrix(1, maxCodes+1)
	if _, err := Quantise(wide, 1); !errors.Is(err, ErrSize) {
		t.Errorf("too wide: %v", err)
	}
}

// A query in two bytes is within half a step of itself, and its zeros are what rows of zeros add.
func TestCodeQuery(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 6))
	for range 50 {
		q := randomRow(rng, 1+rng.IntN(130))
		q[rng.IntN(len(q))] *= float32(math.Exp(5 * rng.NormFloat64()))
		stride := roundUp(len(q), codePad)
		c := codeQuery(q, stride)
		var most float64
		for _, x := range q {
			most = max(most, math.Abs(float64(x)))
		}
		step := most / (127 * 128)
		var high, low int32
		for d := range stride {
			high += 128 * int32(c.high[d])
			low += 128 * int32(c.low[d])
			want := 0.0
			if d < len(q) {
				want = float64(q[d])
			}
			if got := step * (128*float64(c.high[d]) + float64(c.low[d])); math.Abs(got-want) > .5001*step {
				t.Fatalf("element %d is %v, coded %v in steps of %v", d, want, got, step)
			}
		}
		if c.highZero != high || c.lowZero != low {
			t.Fatalf("zeros %d and %d, want %d and %d", c.highZero, c.lowZero, high, low)
		}
	}
}

// cloud fills a matrix with one of several kinds of vectors.
func cloud(t *testing.T, kind string, rows, dim int, seed uint64) *Matrix {
	m, err := NewMatrix(rows, dim)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 5))
	centres := make([][]float32, 40)
	for k := range centres {
		centres[k] = randomRow(rng, dim)
	}
	for i := range rows {
		row := m.Row(i)
		centre := centres[rng.IntN(len(centres))]
		length := math.Exp(rng.NormFloat64())
		for d := range row {
			x := rng.NormFloat64()
			switch kind {
			case "clusters": // tight ones
				x = float64(centre[d]) + .3*x
			case "spectrum": // like the components of a singular value decomposition
				x *= 1 / math.Sqrt(float64(d+1))
			case "outliers": // a few elements much larger than the others and alike in all rows, as in neural encoders
				if d%100 == 7 {
					x = 10 + .02*x
				}
			case "lengths":
				x *= length
			}
			row[d] = float32(x)
		}
		if i%1000 == 999 {
			clear(row)
		}
	}
	return m
}

// Recall on several kinds of vectors, with queries that weigh elements unevenly as a model does.
func TestTopKCodesRecall(t *testing.T) {
	const k, rows, queries = 100, 10_000, 5
	for at, kind := range []string{"gaussian", "clusters", "spectrum", "outliers", "lengths"} {
		dim := []int{100, 256}[at%2]
		m := cloud(t, kind, rows, dim, 7)
		c, err := Quantise(m, 2)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(11, 3))
		weights := make([]float64, dim)
		for d := range weights {
			weights[d] = math.Exp(rng.NormFloat64()) - .5
		}
		weights[7] = 20 // with outliers, an element of the query leaves little of a byte for the others
		found := 0
		for q := range queries {
			view, _ := NewMatrix(1, dim)
			for d, x := range m.Row(rng.IntN(rows - 1)) {
				view.Row(0)[d] = float32(weights[d]) * x
			}
			want := topK(t, m, view, k, 2)[0]
			got := topKCodes(t, c, m, view, k, 1)[0]
			for _, threads := range []int{2, 5} {
				if other := topKCodes(t, c, m, view, k, threads)[0]; !slices.Equal(got, other) {
					t.Fatalf("%s, query %d: %d threads change the hits", kind, q, threads)
				}
			}
			exact := map[RowScore]bool{}
			for _, hit := range want {
				exact[hit] = true
			}
			one := make([]float32, 1)
			for p, hit := range got {
				if exact[hit] {
					found++
				}
				if Dots(one, view.Row(0), m, []int32{hit.Row}); one[0] != hit.Score {
					t.Fatalf("%s: row %d scored %v, is %v", kind, hit.Row, hit.Score, one[0])
				}
				if p > 0 && !got[p-1].before(hit) {
					t.Fatalf("%s: %v before %v", kind, got[p-1], hit)
				}
			}
		}
		recall := float64(found) / (k * queries)
		t.Logf("%s of %d: recall %.4f", kind, dim, recall)
		if recall < .995 {
			t.Errorf("%s of %d: recall %.4f", kind, dim, recall)
		}
		c.Close()
		m.Close()
	}
}

// Every variant and every thread count finds the same likely rows; the edges are those of TopK.
func TestTopKCodesEdges(t *testing.T) {
	var first [][]RowScore
	for _, name := range Variants() {
		restore, err := Use(name)
		if err != nil {
			t.Fatal(err)
		}
		for shape, m := range shapes(t, chunkRows+1234, 20, 8) {
			c, err := Quantise(m, 2)
			if err != nil {
				t.Fatal(err)
			}
			queries := randomMatrix(t, 3, 20, false, 4)
			clear(queries.Row(1))
			queries.Row(2)[3] = float32(math.NaN())
			hits := topKCodes(t, c, m, queries, 7, 3)
			if want := topK(t, m, queries, 7, 1); len(hits[0]) != 7 || len(hits[2]) != 0 || len(want[2]) != 0 {
				t.Fatalf("%s %s: %v, exact %v", name, shape, hits, want)
			}
			for p, hit := range hits[1] { // all scores are equal: the lowest rows
				if hit != (RowScore{int32(p), 0}) {
					t.Errorf("%s %s: a query of zeros found %v", name, shape, hits[1])
				}
			}
			if shape != "padded" {
				continue
			}
			if first == nil {
				first = hits
			}
			for p, hit := range hits[0] {
				if hit.Row != first[0][p].Row {
					t.Errorf("%s: %v, other variants %v", name, hits[0], first[0])
				}
			}
			if few := topKCodes(t, c, m, queries, 0, 1); len(few) != 3 || few[0] != nil {
				t.Errorf("k = 0 gave %v", few)
			}
		}
		restore()
	}
	small := randomMatrix(t, 5, 9, false, 1)
	c, err := Quantise(small, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := topKCodes(t, c, small, small, 9, 2), topK(t, small, small, 9, 1); len(got[3]) != 5 ||
		got[3][0].Row != want[3][0].Row {
		t.Errorf("got %v, want %v", got, want)
	}
	none, _ := NewMatrix(0, 9)
	empty, err := Quantise(none, 1)
	if err != nil {
		t.Fatal(err)
	}
	if hits := topKCodes(t, empty, none, small, 3, 1); len(hits) != 5 || len(hits[0]) != 0 {
		t.Errorf("no rows gave %v", hits)
	}
	for what, call := range map[string]func(){
		"other rows": func() { topKCodes(t, empty, small, small, 3, 1) },
		"k":          func() { topKCodes(t, c, small, small, MaxK+1, 1) },
		"queries":    func() { topKCodes(t, c, small, randomMatrix(t, 1, 8, false, 1), 1, 1) },
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, "TopKCodes") {
					t.Errorf("%s: %s", what, text)
				}
			}()
			call()
		}()
	}
}

// topKCodes is TopKCodes that nobody cancels.
func topKCodes(t testing.TB, c *Codes, m, queries *Matrix, k, threads int) [][]RowScore {
	t.Helper()
	hits, err := TopKCodes(t.Context(), c, m, queries, k, threads)
	if err != nil {
		t.Fatal(err)
	}
	return hits
}
