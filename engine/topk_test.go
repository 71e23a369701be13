package engine

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"unseen/graph"
	"unseen/internal/kern"
)

// searched is a search of many queries among vectors of whole numbers, of which all sums are exact, with many ties.
func searched(t *testing.T, n, queries int, seed uint64) TargetSearch {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	whole := func() float32 { return float32(random.IntN(5) - 2) }
	const dim, fields = 6, 3
	s := TargetSearch{Targets: must(graph.NewVectors(n, dim))(t), K: 1 + random.IntN(12)}
	row := make([]float32, dim)
	for j := range n {
		for d := range row {
			row[d] = whole()
		}
		if err := s.Targets.Set(int32(j), row); err != nil {
			t.Fatal(err)
		}
		s.Fields, s.Values = append(s.Fields, uint16(random.IntN(fields))), append(s.Values, whole())
	}
	some := func() (list []int32) {
		for j := range int32(n) {
			if random.IntN(3) == 0 {
				list = append(list, j)
			}
		}
		return list
	}
	for range queries {
		q := SearchQuery{Vector: make([]float32, dim)}
		for d := range q.Vector {
			q.Vector[d] = whole()
		}
		if kind := seed % 8; kind&1 != 0 {
			q.Skip = some()
		} else if kind&2 != 0 {
			q.Among = append([]int32{}, some()...)
		} else if kind&4 != 0 {
			q.Offsets = []float32{whole(), whole(), whole()}
		}
		if seed%3 == 2 {
			q.Slope = whole()
		}
		s.Queries = append(s.Queries, q)
	}
	return s
}

// every returns what the hits of a query and all its scores should be, by a sort of all.
func (s TargetSearch) every(q SearchQuery) (hits []Hit, scores []float32) {
	row := make([]float32, s.Targets.Dim())
	for j := range int32(s.Targets.Len()) {
		s.Targets.Load(row, j)
		var z float32
		for d, x := range row {
			z += x * q.Vector[d]
		}
		if q.Offsets != nil {
			z += q.Offsets[s.Fields[j]]
		}
		z += q.Slope * s.Values[j]
		scores = append(scores, z)
		if !slices.Contains(q.Skip, j) && (q.Among == nil || slices.Contains(q.Among, j)) {
			hits = append(hits, Hit{j, z})
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return int(b.Score - a.Score) })
	return hits[:min(len(hits), s.K)], scores
}

// Hits are the best of all, ties in the order of the targets, whatever the threads, the sketch and the room for scores.
func TestTopKAgainstEveryTarget(t *testing.T) {
	t.Parallel()
	for seed := range uint64(48) {
		for _, n := range []int{1, 40, 700} {
			for _, count := range []int{0, 1, 5} {
				s := searched(t, n, count, seed)
				want, all := make([][]Hit, count), []float32(nil)
				for k, q := range s.Queries {
					hits, scores := s.every(q)
					want[k], all = append(want[k], hits...), append(all, scores...)
				}
				sketch := must(NewSketch(s.Targets, 1))(t)
				for variant := range 8 {
					s.Scores, s.Sketch, s.Blocks = nil, nil, variant&1 != 0
					if variant&2 != 0 {
						s.Scores = make([]float32, n*count)
					}
					if variant&4 != 0 {
						s.Sketch = sketch
					}
					got := must(CPU{Threads: 1 + variant%3}.TopK(t.Context(), s))(t)
					if !reflect.DeepEqual(got, want) {
						t.Fatalf("seed %d, %d targets, variant %d: %v, want %v", seed, n, variant, got, want)
					}
					if s.Scores != nil && !slices.Equal(s.Scores, all) {
						t.Fatalf("seed %d, %d targets, variant %d: scores %v, want %v", seed, n, variant, s.Scores, all)
					}
				}
				s.K, s.Blocks, s.Bounds = 0, false, make([]ScoreBound, count)
				must(CPU{}.TopK(t.Context(), s))(t)
				for k, z := range s.Scores {
					target := int32(k % n)
					if off := math.Abs(float64(z - all[k])); off > float64(s.Bounds[k/n].Slack(target)) ||
						s.Bounds[k/n].Exact() && off > 0 {
						t.Fatalf("seed %d, %d targets: %v is estimated as %v, within %v", seed, n, all[k], z,
							s.Bounds[k/n].Slack(target))
					}
				}
			}
		}
	}
}

// What does not fit together, a context that has ended and a worker that panics are errors.
func TestTopKRefuses(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(s *TargetSearch){
		"a negative number of hits": func(s *TargetSearch) { s.K = -1 },
		"room for other scores":     func(s *TargetSearch) { s.Scores = make([]float32, 3) },
		"a short query":             func(s *TargetSearch) { s.Queries[1].Vector = nil },
		"a slope without values":    func(s *TargetSearch) { s.Values, s.Queries[0].Slope = nil, 1 },
		"offsets without fields":    func(s *TargetSearch) { s.Fields, s.Queries[0].Offsets = nil, []float32{1, 2, 3} },
		"targets that are not":      func(s *TargetSearch) { s.Queries[0].Among = []int32{3, 40} },
		"bounds of others": func(s *TargetSearch) {
			s.K, s.Scores, s.Bounds = 0, make([]float32, 80), make([]ScoreBound, 1)
		},
		"bounds of hits": func(s *TargetSearch) {
			s.Scores, s.Bounds = make([]float32, 80), make([]ScoreBound, 2)
		},
		"a sketch of others": func(s *TargetSearch) {
			s.Sketch = must(NewSketch(searched(t, 3, 0, 1).Targets, 1))(t)
		},
	} {
		s := searched(t, 40, 2, 0)
		spoil(&s)
		if hits, err := (CPU{}).TopK(t.Context(), s); !errors.Is(err, ErrShape) || hits != nil {
			t.Errorf("%s: %v, %v", name, hits, err)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if hits, err := (CPU{}).TopK(cancelled, searched(t, 40, 2, 0)); !errors.Is(err, context.Canceled) || hits != nil {
		t.Errorf("cancelled: %v, %v", hits, err)
	}
	s := searched(t, 40, 2, 4)
	s.Queries[1].Offsets = []float32{1, 2} // a field has none
	var panicked *kern.PanicError
	for _, sketch := range []*Sketch{nil, must(NewSketch(s.Targets, 1))(t)} {
		s.Sketch = sketch
		if hits, err := (CPU{Threads: 2}).TopK(t.Context(), s); !errors.As(err, &panicked) || hits != nil {
			t.Errorf("a worker panicked: %v, %v", hits, err)
		}
	}
}
