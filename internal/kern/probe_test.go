package kern

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The sums of rows here and there are the definition's to the last bit, in every variant and for every count.
func TestProbeSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 2))
	eachVariant(t, func(t *testing.T) {
		for _, stride := range []int{64, 128, 320, 832} {
			const rows = 37
			base, q := make([]uint8, rows*stride), make([]int8, stride)
			for k := range base {
				base[k] = []uint8{uint8(rng.IntN(256)), 0, 255}[min(rng.IntN(8), 2)]
			}
			for k := range q {
				q[k] = []int8{int8(rng.IntN(256) - 128), 127, -128}[min(rng.IntN(8), 2)]
			}
			for count := 4; count <= 24; count += 4 {
				ids, sums := make([]int32, count), make([]int32, count+4)
				for k := range ids {
					ids[k] = rng.Int32N(rows)
				}
				sums[count] = 77
				dotCodesAt(sums[:count], q, base, stride, ids, base)
				for k, i := range ids {
					var want int64
					for d := range q {
						want += int64(q[d]) * int64(base[int(i)*stride+d])
					}
					if int64(sums[k]) != want {
						t.Fatalf("stride %d, %d of %d: %d, want %d", stride, k, count, sums[k], want)
					}
				}
				if sums[count] != 77 {
					t.Fatal("written behind the sums")
				}
			}
		}
	})
}

// A probe's products are near the inner products, of queries and of rows, whatever the number of rows.
func TestProbes(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		for _, dim := range []int{1, 63, 64, 130, 1100} {
			const rows = 150
			m := randomMatrix(t, rows, dim, false, 11)
			c := quantise(t, m, 1)
			q := make([]float32, dim)
			m.Load(q, 17)
			var asked, row Probe
			if !c.Ask(&asked, q) {
				t.Fatal("a good query is refused")
			}
			c.AskRow(&row, 17)
			ids := make([]int32, rows)
			for k := range ids {
				ids[k] = int32((k * 7) % rows)
			}
			for count := range rows + 1 {
				byQuery, byRow := make([]float32, count), make([]float32, count)
				c.DotsAt(byQuery, &asked, ids[:count])
				c.DotsAt(byRow, &row, ids[:count])
				for k, i := range ids[:count] {
					var want, a, b float64
					other := make([]float32, dim)
					m.Load(other, int(i))
					for d := range q {
						want += float64(q[d]) * float64(other[d])
						a, b = a+float64(q[d])*float64(q[d]), b+float64(other[d])*float64(other[d])
					}
					near := .01 * math.Sqrt(a*b)
					if math.Abs(float64(byQuery[k])-want) > near || math.Abs(float64(byRow[k])-want) > near {
						t.Fatalf("%d elements, row %d: %v by the query and %v by the row, want %v", dim, i, byQuery[k],
							byRow[k], want)
					}
				}
			}
			if c.Ask(&asked, make([]float32, dim)) {
				t.Error("a query of zeros is asked")
			}
		}
	})
}

// Codes that were taken apart are put together again, and parts that do not fit are refused.
func TestCodeParts(t *testing.T) {
	m := randomMatrix(t, 45, 70, false, 5)
	c := quantise(t, m, 1)
	parts := c.Parts()
	again, err := CodesFrom(parts)
	if err != nil {
		t.Fatal(err)
	}
	search := CodeSearch{Queries: randomMatrix(t, 3, 70, false, 6), K: 5}
	want, err1 := TopKCodes(t.Context(), c, m, search, 1)
	got, err2 := TopKCodes(t.Context(), again, m, search, 1)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	for q := range want {
		for k := range want[q] {
			if got[q][k] != want[q][k] {
				t.Errorf("query %d: %v, want %v", q, got[q], want[q])
			}
		}
	}
	if !c.Alike(3, again, 3) || c.Alike(3, again, 4) {
		t.Error("rows are taken for others")
	}
	for _, change := range []func(*CodeParts){
		func(p *CodeParts) { p.Rows += 16 }, func(p *CodeParts) { p.Dim += 64 }, func(p *CodeParts) { p.Dim = 1 << 20 },
		func(p *CodeParts) { p.Rows = -1 }, func(p *CodeParts) { p.Scales = p.Scales[1:] },
		func(p *CodeParts) { p.Bytes = p.Bytes[1:] }, func(p *CodeParts) { p.Norms = nil },
	} {
		other := parts
		change(&other)
		if _, err := CodesFrom(other); err == nil {
			t.Errorf("parts of %d×%d are taken", other.Rows, other.Dim)
		}
	}
}
