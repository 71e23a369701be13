package fit

import (
	"math"

	"unseen/engine"
	"unseen/graph"
	"unseen/risk"
	"unseen/sample"
)

// thinnedPairs is a part of a problem's pairs, in which a pair has a chance that depends on what is seen of it.
type thinnedPairs struct {
	places []int32
	share  [3]float64 // the chance of an unlinked pair, of a linked one, and of one whose exposure is logged
}

// pairKind is the place of a pair in thinnedPairs.share.
func pairKind(p sample.Problem, k int) int {
	switch {
	case p.Exposure != nil && p.Exposure[k] != risk.Unlogged:
		return 2
	case p.Train.Linked[k]:
		return 1
	}
	return 0
}

// thin chooses about so many of the pairs: those whose exposure is logged up to half, the links up to half of
// the rest, and unlinked pairs, which say least. An even one has the same chance for links and unlinked pairs.
func thin(p sample.Problem, most int, seed uint64, even bool) thinnedPairs {
	var count [3]int
	for k := range p.Train.Linked {
		count[pairKind(p, k)]++
	}
	share := func(room float64, of int) float64 { return math.Min(1, room/float64(max(of, 1))) }
	unlogged := count[0] + count[1]
	t := thinnedPairs{share: [3]float64{2: share(float64(most-min(most/2, unlogged)), count[2])}}
	room := math.Max(float64(most)-t.share[2]*float64(count[2]), 1)
	t.share[1] = share(room/2, count[1])
	t.share[0] = share(room-t.share[1]*float64(count[1]), count[0])
	if even {
		t.share[0] = share(room, unlogged)
		t.share[1] = t.share[0]
	}
	t.places = sample.Indices(p.Train.Len(), func(k int) bool {
		share := t.share[pairKind(p, k)]
		return share >= 1 || pairChance(p.Train, k, seed, learnedFrom) < share
	})
	return t
}

// What the chance of a pair decides. Parts are drawn of parts, and of what a split has left, which goes by the pair and
// a seed too: of a number that decided before, those that are left have only the lower end.
const (
	learnedFrom  = 0x1ea7_4ed0_f407_0001
	comparedWith = 0xc035_a4ed_317b_0002
)

// pairChance is a number in [0, 1) of a pair and a seed, which is another for everything that it decides. It does not
// depend on the other pairs, so that a part of the pairs changes little when a few are added.
func pairChance(p *graph.Pairs, k int, seed, decides uint64) float64 {
	return sample.Uniform(seed^decides, uint64(uint32(p.Source[k])), uint64(uint32(p.Target[k])))
}

// thinToLearn chooses about so many of the pairs to learn from, with weights and rates that make up for it. Where the
// likelihood knows no rates, the part is even.
func thinToLearn(p sample.Problem, most int, s Settings) (thinnedPairs, sample.Evidence) {
	t := thin(p, most, s.Seed, s.Sampling != engine.CaseControl.String())
	out := p.Training().At(t.places)
	for i, k := range t.places {
		kind := pairKind(p, int(k))
		out.Pairs.Weight[i] /= t.share[kind]
		if kind < 2 {
			out.Pairs.Rate[i] *= t.share[0] / t.share[1]
		}
	}
	return t, out
}
