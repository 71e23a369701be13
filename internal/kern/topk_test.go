package kern

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// sortedHits is the definition: score every row, sort, cut.
func sortedHits(scores []float32, k int) []RowScore {
	var hits []RowScore
	for i, s := range scores {
		if s == s {
			hits = append(hits, RowScore{int32(i), s})
		}
	}
	slices.SortStableFunc(hits, func(a, b RowScore) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return 0
	})
	return hits[:min(k, len(hits))]
}

func TestTopK(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		for round := range 30 {
			dim := 1 + rng.IntN(20)
			k := []int{1, 2, 10, 100, 1000}[rng.IntN(5)]
			batch := []int{1, 2, 31, 64, 300}[rng.IntN(5)]
			rows := 1 + rng.IntN(50_000)/(batch+20)
			if round%3 == 0 {
				rows = 1 + rng.IntN(40)
			}
			if round >= 28 { // several chunks, both ways of scoring
				rows, batch = 2*chunkRows+77, round-27
			}
			half := round%2 == 1
			m := randomMatrix(t, rows, dim, half, uint64(round))
			row := make([]float32, dim)
			for range rows / 3 { // many equal rows, so that ties are everywhere
				m.Load(row, rng.IntN(rows))
				m.Store(rng.IntN(rows), row)
			}
			if round%5 == 4 { // a few rows without a score
				for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
					for d := range row {
						row[d] = float32(x)
					}
					m.Store(rng.IntN(rows), row)
				}
			}
			queries := randomMatrix(t, batch, dim, false, uint64(round)+1000)
			want := make([][]RowScore, batch)
			if batch == 1 {
				scores := make([]float32, rows)
				DotRange(scores, queries.Row(0), m, 0)
				want[0] = sortedHits(scores, k)
			} else {
				z, _ := NewMatrix(rows, batch)
				MulT(z, m, queries)
				for q := range want {
					scores := make([]float32, rows)
					for i := range scores {
						scores[i] = z.Row(i)[q]
					}
					want[q] = sortedHits(scores, k)
				}
			}
			for _, threads := range []int{1, 2, 7} {
				got := topK(t, m, queries, k, threads)
				for q := range want {
					if !slices.Equal(got[q], want[q]) {
						t.Fatalf("round %d: %d×%d half %v k %d, query %d of %d, %d threads:\ngot  %v\nwant %v", round,
							rows, dim, half, k, q, batch, threads, got[q], want[q])
					}
				}
			}
		}
	})
}

func TestTopKOfNothing(t *testing.T) {
	none, _ := NewMatrix(0, 4)
	one := randomMatrix(t, 1, 4, false, 1)
	if hits := topK(t, none, one, 5, 2); len(hits) != 1 || len(hits[0]) != 0 {
		t.Errorf("no rows gave %v", hits)
	}
	if hits := topK(t, one, none, 5, 2); len(hits) != 0 {
		t.Errorf("no queries gave %v", hits)
	}
	if hits := topK(t, one, one, 0, 2); len(hits) != 1 || len(hits[0]) != 0 {
		t.Errorf("k = 0 gave %v", hits)
	}
	row := one.Row(0)
	row[2] = float32(math.NaN())
	if hits := topK(t, one, one, 5, 2); len(hits[0]) != 0 {
		t.Errorf("NaN won: %v", hits)
	}
}

func TestChunks(t *testing.T) {
	for _, threads := range []int{0, 1, 2, 5} {
		for _, n := range []int{-1, 0, 1, 9, 10, 11, 1000} {
			seen := make([]int, max(n, 0))
			Chunks(n, 10, threads, func(worker, chunk, from, to int) {
				if worker < 0 || worker >= max(threads, 1) || from != chunk*10 || to > n || to <= from {
					panic(fmt.Sprint(worker, chunk, from, to))
				}
				for i := from; i < to; i++ {
					seen[i]++ // chunks do not overlap: the race detector watches
				}
			})
			for i, times := range seen {
				if times != 1 {
					t.Fatalf("n %d threads %d: %d was worked on %d times", n, threads, i, times)
				}
			}
		}
	}
}

// topK is TopK that nobody cancels.
func topK(t testing.TB, m, queries *Matrix, k, threads int) [][]RowScore {
	t.Helper()
	hits, err := TopK(t.Context(), m, queries, k, threads)
	if err != nil {
		t.Fatal(err)
	}
	return hits
}

// The best candidates are those of a sort, whatever gaps there are between candidates and with many equals, infinite
// scores and such that are not numbers.
func TestBest(t *testing.T) {
	eachVariant(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(6, 3))
		for range 500 {
			n, few := 1+rng.IntN(400), 1+rng.IntN(40)
			scores := make([]float32, n)
			var candidates []int32
			gap := false
			for j := range scores {
				switch scores[j] = float32(rng.IntN(few)); rng.IntN(40) {
				case 0:
					scores[j] = float32(math.Inf(1 - 2*rng.IntN(2)))
				case 1:
					scores[j] = float32(math.NaN())
				case 2, 3, 4:
					gap = !gap
				}
				if !gap {
					candidates = append(candidates, int32(j))
				}
			}
			var want []int32
			for _, j := range candidates {
				if scores[j] == scores[j] {
					want = append(want, j)
				}
			}
			slices.SortStableFunc(want, func(a, b int32) int { return cmp.Compare(scores[b], scores[a]) })
			k := rng.IntN(20)
			want = want[:min(k, len(want))]
			if got := Best(scores, candidates, k); !slices.Equal(got, want) {
				t.Fatalf("%d of %d: %v, not %v", k, len(candidates), got, want)
			}
		}
	})
}
