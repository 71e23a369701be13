package fit

import (
	"math"
	"testing"

	"unseen/graph"
	"unseen/sample"
)

// A pair's chances to be learned from, to be compared with and to be held out have nothing to do with each other: a
// part that is drawn of a part is as large as its share says, whatever drew the first.
func TestChancesOfPairsAreApart(t *testing.T) {
	t.Parallel()
	const n, seed, most, share = 300, 5, .2, .2
	p := &graph.Pairs{}
	for i := range int32(n) {
		for j := range int32(n) {
			p.Source, p.Target = append(p.Source, i), append(p.Target, j)
		}
	}
	problem := sample.Problem{Train: p}
	chances := map[string]func(k int) float64{
		"learned from":  func(k int) float64 { return pairChance(problem, k, seed, learnedFrom) },
		"compared with": func(k int) float64 { return pairChance(problem, k, seed, comparedWith) },
		"halved":        func(k int) float64 { return pairChance(problem, k, seed, halved) },
		"held out": func(k int) float64 {
			return sample.Uniform(seed, uint64(uint32(p.Source[k])), uint64(uint32(p.Target[k])))
		},
	}
	for a, first := range chances {
		for b, second := range chances {
			if a == b {
				continue
			}
			left, both := 0, 0
			for k := range p.Source {
				if first(k) >= most {
					continue
				}
				if left++; second(k) < share {
					both++
				}
			}
			got, wide := float64(both)/float64(left), 5*math.Sqrt(share*(1-share)/float64(left))
			if math.Abs(got-share) > wide || math.Abs(float64(left)/float64(len(p.Source))-most) > wide {
				t.Errorf("of the %d of %d that are %s, %.3f are %s; want %.3f", left, len(p.Source), a, got, b, share)
			}
		}
	}
}
