package kern

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
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
				dst, scales, step := make([]float32, rows), randomRow(rng, rows), rng.Float32()
				highZero, lowZero := rng.Int32N(1<<28)-1<<27, rng.Int32N(1<<28)-1<<27
				scaleCodes(dst, high, low, scales, &coded{step: step, highZero: highZero, lowZero: lowZero})
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
					if want := float32(scales[r]*step) * whole; dst[r] != want {
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

// The block product of codes and what is made of it are the definition's, in every variant.
func TestCodeBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	m := randomMatrix(t, 70, 130, false, 3)
	m.Row(5)[3] = float32(math.NaN())
	c := quantise(t, m, 1)
	for _, count := range []int{30, 47, 48, 49, 130} {
		s := CodeSearch{Queries: randomMatrix(t, count, 130, false, 5), K: 3, Fields: make([]uint16, 70),
			Values: randomRow(rng, 70), Slopes: randomRow(rng, count)}
		for i := range s.Fields {
			s.Fields[i] = uint16(rng.IntN(4))
		}
		for range count {
			s.Offsets = append(s.Offsets, randomRow(rng, 4))
		}
		eachVariant(t, func(t *testing.T) {
			b := newCodeBlock(c, &s, 0, count, 1)
			least := b.term(termLeast)
			for q := range count {
				least[q] = 20 * float32(rng.NormFloat64())
			}
			var w codeWorker
			b.hire(&w)
			b.multiply(w.sums, 0, codeBlockRows)
			want := make([]int32, len(w.sums))
			for at := 0; at < b.columns; at += codeTileColumns {
				for r := 0; r < codeBlockRows; r += codeTileRows {
					tileCodesGo(want[r*b.columns+at:], b.columns, c.bytes[r*c.stride:], c.stride,
						b.panels[at*c.stride:])
				}
			}
			if !slices.Equal(w.sums, want) {
				t.Fatalf("%d queries: the sums differ", count)
			}
			masks := slices.Clone(w.masks)
			reach := &codeReach{c, 0, codeBlockRows, w.sums, s.Values, s.Fields, w.terms, b.offsets}
			reachCodes(w.masks, reach)
			reachCodesGo(masks, reach)
			differ, set := 0, 0
			for k := range masks {
				differ += bits.OnesCount16(masks[k] ^ w.masks[k])
				set += bits.OnesCount16(masks[k])
			}
			if all := codeBlockRows * count; differ > 1+all/1000 || set < all/10 || set > all*9/10 {
				t.Errorf("%d queries: %d of %d masks set, %d differ", count, set, all, differ)
			}
			for q := range count { // nothing is known of the row that is not finite
				if w.masks[(5*b.columns+q)/16]>>(q%16)&1 == 0 {
					t.Errorf("%d queries: a row that is not finite is left out", count)
				}
			}
		})
	}
}

// The rotation keeps lengths and angles, and spreads what is in one element over all.
func TestRotation(t *testing.T) {
	for _, dim := range []int{1, 2, 3, 8, 20, 64, 100, 256, 300, 768} {
		if testing.Short() && dim > 100 {
			break
		}
		r := newRotation(dim).matrix
		worst, most := 0.0, 0.0
		for a := range dim {
			for b := range a + 1 {
				var dot float64
				for d := range dim {
					dot += float64(r.Row(a)[d]) * float64(r.Row(b)[d])
				}
				if a == b {
					dot--
				}
				worst = max(worst, math.Abs(dot))
			}
			most = max(most, largest(r.Row(a)))
		}
		if worst > 1e-6 {
			t.Errorf("%d: rows are %g off being orthogonal", dim, worst)
		}
		if dim >= 64 && most > 8/math.Sqrt(float64(dim)) {
			t.Errorf("%d: an element of %v", dim, most)
		}
	}
}

// quantise is Quantise that cannot fail.
func quantise(t testing.TB, m *Matrix, threads int) *Codes {
	t.Helper()
	c, err := Quantise(m, threads)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A coded row is as near to the turned row as its rest says, and no nearer by far.
func TestQuantise(t *testing.T) {
	for name, m := range shapes(t, 50, 70, 3) {
		if name == "padded" {
			clear(m.Row(7))
			for d := range m.Row(8) {
				m.Row(8)[d] = 0x1p-140
			}
			m.Row(9)[3], m.Row(10)[4], m.Row(11)[5] = math.MaxFloat32, float32(math.Inf(-1)), float32(math.NaN())
		}
		c := quantise(t, m, 3)
		if c.Rows() != 50 || c.Bytes() < 50*128 {
			t.Errorf("%d rows in %d bytes", c.Rows(), c.Bytes())
		}
		for i := range 50 {
			if name == "padded" && i >= 9 && i <= 11 {
				if !math.IsInf(float64(c.Rests()[i]), 1) {
					t.Errorf("row %d has a rest of %v", i, c.Rests()[i])
				}
				continue
			}
			scale, row := float64(c.scales[i]), make([]float32, 70)
			m.Load(row, i)
			var rest float64
			for d, x := range c.turned(row) {
				code := c.bytes[i*c.stride+d]
				if code == 0 || name == "padded" && i == 7 && code != codeZero {
					t.Fatalf("%s: row %d element %d has code %d", name, i, d, code)
				}
				e := float64(x) - scale*(float64(code)-codeZero)
				if math.Abs(e) > .5001*scale+0x1p-141 {
					t.Fatalf("%s: row %d element %d is %v off in steps of %v", name, i, d, e, scale)
				}
				rest += e * e
			}
			if bound := float64(c.Rests()[i]); math.Sqrt(rest) > bound+1e-36 || bound > 1.5*math.Sqrt(rest)+1e-36 {
				t.Errorf("%s: row %d has a rest of %v, bounded by %v", name, i, math.Sqrt(rest), bound)
			}
		}
		if err := c.Close(); err != nil || c.Close() != nil || c.Rows() != 0 {
			t.Errorf("Close: %v, %d rows", err, c.Rows())
		}
	}
	wide, _ := NewMatrix(1, maxCodes+1)
	if _, err := Quantise(wide, 1); !errors.Is(err, ErrSize) {
		t.Errorf("too wide: %v", err)
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
			case "copies": // that differ in the last bits, or not at all
				x = float64(centres[i%3][d])
				if i%2 == 0 {
					x *= 1 + 1e-6*rng.Float64()
				}
			case "sparse":
				if rng.IntN(20) > 0 {
					x = 0
				}
			case "wild": // from the smallest to the largest numbers
				x *= math.Exp(20 * rng.NormFloat64())
			}
			row[d] = float32(x)
		}
		switch {
		case i%1000 == 999:
			clear(row)
		case kind == "wild" && i%500 == 17:
			row[i%dim] = []float32{float32(math.NaN()), float32(math.Inf(1)), math.MaxFloat32}[i/500%3]
		}
	}
	return m
}

// clouds are the kinds of vectors that searches are tried on.
var clouds = []string{"gaussian", "clusters", "spectrum", "outliers", "lengths", "copies", "sparse", "wild"}

// weighted returns queries that weigh the elements of rows unevenly, as a model does, and some that nobody would ask.
func weighted(t *testing.T, m *Matrix, count int, seed uint64) *Matrix {
	rng := rand.New(rand.NewPCG(seed, 3))
	out, err := NewMatrix(count, m.Dim())
	if err != nil {
		t.Fatal(err)
	}
	for q := range count {
		row, from := out.Row(q), m.Row(rng.IntN(m.Rows()))
		for d := range row {
			row[d] = from[d] * float32(math.Exp(rng.NormFloat64())-.5)
			switch q % 8 {
			case 1:
				row[d] = float32(rng.NormFloat64())
			case 2:
				row[d] = 0
			case 3:
				row[d] *= 1e-30
			case 4:
				row[d] *= 1e20
			}
		}
		switch q % 16 {
		case 5:
			row[rng.IntN(len(row))] *= 1000
		case 6:
			clear(row)
			row[rng.IntN(len(row))] = 1
		case 2:
			row[rng.IntN(len(row))] = float32(math.Inf(1))
		}
	}
	return out
}

// Every inner product is within the bound of its estimate; and the bound is worth something.
func TestEstimates(t *testing.T) {
	rows := sized(5000, 300)
	for at, kind := range clouds {
		dim := []int{20, 100, 256, 384}[at%4]
		m := cloud(t, kind, rows, dim, 7)
		c := quantise(t, m, 2)
		queries := weighted(t, m, 16, 9)
		eachVariant(t, func(t *testing.T) {
			var slack, spread float64
			for q := range queries.Rows() {
				estimates, exact := make([]float32, rows), make([]float32, rows)
				others := [][]float32{make([]float32, rows), make([]float32, rows)}
				together := [][]float32{others[0], estimates, others[1]}
				reaches, err := c.Estimate(t.Context(), together, [][]float32{queries.Row((q + 1) % 16),
					queries.Row(q), queries.Row((q + 2) % 16)}, 2)
				if err != nil || reaches[1] >= 0 != codable(queries.Row(q)) {
					t.Fatal(reaches, err)
				}
				alone, err := c.Estimate(t.Context(), others[:1], [][]float32{queries.Row(q)}, 1)
				if reach := reaches[1]; err != nil || alone[0] != reach ||
					reach >= 0 && !slices.Equal(others[0], estimates) {
					t.Fatalf("%s, query %d: other estimates alone than beside others", kind, q)
				}
				reach := reaches[1]
				if reach < 0 {
					continue
				}
				DotRange(exact, queries.Row(q), m, 0)
				for i, z := range exact {
					bound := float64(reach*c.Rests()[i]) + leastSlack
					if off := math.Abs(float64(z) - float64(estimates[i])); off > bound || math.IsNaN(bound) {
						t.Fatalf("%s, query %d, row %d: %v is estimated as %v, which is %g off, with a bound of %g",
							kind, q, i, z, estimates[i], off, bound)
					}
					if kind == "gaussian" && q%8 == 1 {
						slack += bound
						spread += math.Abs(float64(z))
					}
				}
			}
			if slack > .5*spread {
				t.Errorf("%s: bounds of %g, inner products of %g", kind, slack, spread)
			}
		})
		c.Close()
		m.Close()
	}
}

// fullScan is the definition of what TopKCodes finds.
func fullScan(m *Matrix, s CodeSearch) [][]RowScore {
	out := make([][]RowScore, s.Queries.Rows())
	for q := range out {
		scores, rows := make([]float32, m.Rows()), make([]int32, m.Rows())
		for i := range rows {
			rows[i] = int32(i)
		}
		DotRange(scores, s.Queries.Row(q), m, 0)
		s.add(scores, q, rows)
		hits := Heap{}
		for i, z := range scores {
			if z == z && s.keeps(q, int32(i)) {
				hits = append(hits, RowScore{int32(i), z})
			}
		}
		hits.Sort()
		out[q] = hits[:min(len(hits), s.K)]
	}
	return out
}

// What is found by codes is what a full scan finds, with the same scores to the bit: whatever the vectors and queries,
// with offsets, slopes and filters, for one query and for many, by any number of threads.
func TestTopKCodesIsExact(t *testing.T) {
	for at, kind := range clouds {
		rows, dim := []int{300, 2047, chunkRows + 700}[at%3], []int{3, 100, 256, 64}[at%4]
		if testing.Short() {
			rows = min(rows, 400)
		}
		m := cloud(t, kind, rows, dim, 8)
		c := quantise(t, m, 2)
		rng := rand.New(rand.NewPCG(11, 3))
		fields, values := make([]uint16, rows), randomRow(rng, rows)
		for i := range fields {
			fields[i] = uint16(rng.IntN(5))
		}
		most := sized(260, 70) // queries: more than a group
		queries := weighted(t, m, most, 4)
		var offsets [][]float32
		for range most {
			offsets = append(offsets, randomRow(rng, 5))
		}
		offsets[7][1], offsets[8][2], offsets[9] = float32(math.Inf(-1)), 1e6, nil
		slopes := randomRow(rng, most)
		slopes[5], slopes[6] = 0, 1e-7
		for trial, count := range []int{1, 2, 5, most / 2, most} {
			few, _ := queries.Slice(0, count)
			s := CodeSearch{Queries: few, K: []int{1, 7, 100, rows + 1}[(trial+at)%4]}
			if trial%2 == 1 {
				s.Fields, s.Offsets = fields, offsets
			}
			if trial == 2 || trial == 3 {
				s.Values, s.Slopes = values, slopes
			}
			if trial > 2 {
				s.Keep = func(query int, row int32) bool { return (int(row)+query)%3 != 0 }
			}
			want := fullScan(m, s)
			for _, threads := range []int{1, 3} {
				got, err := TopKCodes(t.Context(), c, m, s, threads)
				if err != nil {
					t.Fatal(err)
				}
				for q := range want {
					if !slices.Equal(got[q], want[q]) {
						t.Fatalf("%s, %d×%d, %d queries, %d threads, query %d: got %v, want %v", kind, rows, dim, count,
							threads, q, first(got[q]), first(want[q]))
					}
				}
			}
		}
		c.Close()
		m.Close()
	}
}

func first(hits []RowScore) string {
	return fmt.Sprintf("%d hits, first %v", len(hits), hits[:min(len(hits), 8)])
}

// Only a few rows are left to look at in full.
func TestLikelyRowsAreFew(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	const rows, k = 20_000, 10
	m := cloud(t, "spectrum", rows, 256, 3)
	c := quantise(t, m, 2)
	s := CodeSearch{Queries: weighted(t, m, 64, 2), K: k}
	left, codes := 0, 0
	for q := range s.Queries.Rows() {
		if codable(s.Queries.Row(q)) {
			likely, err := c.likely(t.Context(), &s, q, 2)
			if err != nil {
				t.Fatal(err)
			}
			left, codes = left+len(likely), codes+1
		}
	}
	if mean := float64(left) / float64(codes); codes < 40 || mean > 5*k {
		t.Errorf("%d queries leave %v rows for %d hits", codes, mean, k)
	}
	b := newCodeBlock(c, &s, 0, 64, 1)
	if err := b.run(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	hard := 0
	for q := range 64 {
		if b.hard(q) {
			hard++
		}
	}
	if hard > 64-codes {
		t.Errorf("%d of 64 queries have too many likely rows, %d cannot be coded", hard, 64-codes)
	}
}

func TestTopKCodesEdges(t *testing.T) {
	small := randomMatrix(t, 5, 9, false, 1)
	c := quantise(t, small, 1)
	none, _ := NewMatrix(0, 9)
	empty := quantise(t, none, 1)
	search := func(c *Codes, m *Matrix, s CodeSearch) [][]RowScore {
		hits, err := TopKCodes(t.Context(), c, m, s, 1)
		if err != nil {
			t.Fatal(err)
		}
		return hits
	}
	if hits := search(empty, none, CodeSearch{Queries: small, K: 3}); len(hits) != 5 || len(hits[0]) != 0 {
		t.Errorf("no rows gave %v", hits)
	}
	if hits := search(c, small, CodeSearch{Queries: small}); len(hits) != 5 || hits[0] != nil {
		t.Errorf("no hits gave %v", hits)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := TopKCodes(cancelled, c, small, CodeSearch{Queries: small, K: 2}, 1)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	for what, call := range map[string]func(){
		"other rows": func() { search(empty, small, CodeSearch{Queries: small, K: 3}) },
		"k":          func() { search(c, small, CodeSearch{Queries: small, K: -1}) },
		"queries":    func() { search(c, small, CodeSearch{Queries: randomMatrix(t, 1, 8, false, 1), K: 1}) },
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

// Near finds the best by codes, whatever the threads and the kernels, and with lists those of the best lists alone,
// each row once.
func TestNear(t *testing.T) {
	const rows, dim, queries, lists, k = 3000, 40, 300, 50, 7
	random := rand.New(rand.NewPCG(4, 2))
	numbers := func(n int) []float32 {
		out := make([]float32, n)
		for i := range out {
			out[i] = float32(random.NormFloat64())
		}
		return out
	}
	coded := func(n int) *Codes {
		m, err1 := View(numbers(n*dim), n, dim, dim)
		c, err2 := Quantise(m, 2)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		return c
	}
	c, centres := coded(rows), coded(lists)
	asked := numbers(queries * dim)
	asked[5*dim] = float32(math.Inf(1))
	q, err := View(asked, queries, dim, dim)
	if err != nil {
		t.Fatal(err)
	}
	plain := CodeSearch{Queries: q, K: k, Fields: make([]uint16, rows), Values: numbers(rows),
		Keep: func(query int, row int32) bool { return (int(row)+query)%5 != 0 }}
	terms := plain
	terms.Fields = make([]uint16, rows)
	for i := range plain.Fields {
		plain.Fields[i], terms.Fields[i] = math.MaxUint16, uint16(i%9) // of no offsets, and of nine
	}
	for range queries {
		terms.Offsets, terms.Slopes = append(terms.Offsets, numbers(9)), append(terms.Slopes, .5)
	}
	in := RowLists{Starts: []int{0}, Home: make([]int32, rows)}
	for l := range lists {
		for i := range rows {
			if second := (i*7 + 3) % lists; i%lists == l || second == l {
				in.Rows = append(in.Rows, int32(i))
			}
			in.Home[i] = int32(i % lists)
		}
		in.Starts = append(in.Starts, len(in.Rows))
	}
	kept := in
	kept.Panels = NewListPanels(lists, 25*144*(c.stride+4*termCount+8)) // a list has 120 rows
	for name, s := range map[string]NearSearch{
		"all rows": {CodeSearch: plain}, "all rows, with terms": {CodeSearch: terms},
		"lists": {CodeSearch: plain, Lists: in, Centres: centres, Visits: 9, CentreFields: make([]uint16, lists)},
		"lists, with terms": {CodeSearch: terms, Lists: in, Centres: centres, Visits: 9,
			CentreFields: make([]uint16, lists), CentreValues: numbers(lists)},
		"lists, some kept": {CodeSearch: plain, Lists: kept, Centres: centres, Visits: 9},
		"lists, some kept, with terms": {CodeSearch: terms, Lists: kept, Centres: centres, Visits: 9,
			CentreFields: make([]uint16, lists), CentreValues: numbers(lists)}} {
		var first [][]RowScore
		eachVariant(t, func(t *testing.T) {
			for _, threads := range []int{1, 3} {
				got, err := c.Near(t.Context(), s, threads)
				if err != nil {
					t.Fatal(err)
				}
				for _, hits := range got {
					Heap(hits).Sort()
				}
				if first == nil {
					first = got
					checkNear(t, name, c, &s, got)
				}
				if !slices.EqualFunc(got, first, slices.Equal) {
					t.Errorf("%s: others with %d threads", name, threads)
				}
			}
		})
	}
}

// largestOf finds the largest, whatever they are.
func TestLargestOf(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	keys := map[string]func() uint64{
		"anything": random.Uint64,
		"few":      func() uint64 { return random.Uint64N(50) },
		"one":      func() uint64 { return 7 },
		"scores": func() uint64 {
			return HitKey(RowScore{int32(random.IntN(1000)), float32(random.NormFloat64())})
		},
		"most far below": func() uint64 {
			if random.IntN(20) == 0 {
				return random.Uint64N(10)
			}
			return math.MaxUint64 - random.Uint64N(1000)
		},
	}
	for name, key := range keys {
		for range 500 {
			all := make([]uint64, 1+random.IntN(900))
			for k := range all {
				all[k] = key()
			}
			k := 1 + random.IntN(len(all))
			want := slices.Clone(all)
			slices.Sort(want)
			got := largestOf(slices.Clone(all), k)
			if slices.Sort(got); !slices.Equal(got, want[len(want)-k:]) {
				t.Fatalf("%s: the %d largest of %v are not %v", name, k, all, got)
			}
		}
	}
}

// checkNear compares hits with what a look at every row finds.
func checkNear(t *testing.T, name string, c *Codes, s *NearSearch, got [][]RowScore) {
	t.Helper()
	score := func(c *Codes, at CodeSearch, query int, row int32) (float32, bool) {
		q := make([]float32, c.dim)
		s.Queries.Load(q, query)
		var p Probe
		if !c.Ask(&p, q) {
			return 0, false
		}
		z := []float32{0}
		c.DotsAt(z, &p, []int32{row})
		at.Offsets, at.Slopes = s.Offsets, s.Slopes
		at.add(z, query, []int32{row})
		return z[0], true
	}
	for query, hits := range got {
		rows := oneList(c.rows).Rows
		if s.Centres != nil {
			var near Heap
			for l := range int32(s.Centres.rows) {
				if z, ok := score(s.Centres, CodeSearch{Fields: s.CentreFields, Values: s.CentreValues}, query,
					l); ok {
					near.Offer(RowScore{l, z}, s.Visits)
				}
			}
			rows = nil
			for _, l := range near {
				rows = append(rows, s.Lists.Rows[s.Lists.Starts[l.Row]:s.Lists.Starts[l.Row+1]]...)
			}
			slices.Sort(rows)
			rows = slices.Compact(rows)
		}
		var want Heap
		for _, i := range rows {
			if z, ok := score(c, s.CodeSearch, query, i); ok && s.keeps(query, i) {
				want.Offer(RowScore{i, z}, s.K)
			}
		}
		want.Sort()
		if !slices.Equal(hits, want) {
			t.Fatalf("%s: query %d finds %v, want %v", name, query, hits, want)
		}
	}
}
