package fit

import (
	"math"

	"unseen/engine"
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
	var count [3]int64
	for k := range p.Train.Linked {
		count[pairKind(p, k)]++
	}
	t := thinnedPairs{share: sharesOf(count, most, even)}
	t.places = PairChoice{Seed: seed, Share: t.share}.Places(p)
	return t
}

// sharesOf returns the chance of a pair of each kind, given how many there are.
func sharesOf(count [3]int64, most int, even bool) (out [3]float64) {
	share := func(room float64, of int64) float64 { return math.Min(1, room/float64(max(of, 1))) }
	unlogged := count[0] + count[1]
	out[2] = share(float64(int64(most)-min(int64(most/2), unlogged)), count[2])
	room := math.Max(float64(most)-out[2]*float64(count[2]), 1)
	out[1] = share(room/2, count[1])
	out[0] = share(room-out[1]*float64(count[1]), count[0])
	if even {
		out[0] = share(room, unlogged)
		out[1] = out[0]
	}
	return out
}

// PairChoice says which pairs are chosen. It looks at each pair alone, so that the pairs may be cut anyhow.
type PairChoice struct {
	Seed uint64 `json:"seed"`
	// Share is the chance of an unlinked pair, of a linked one, and of one whose exposure is logged.
	Share [3]float64 `json:"share"`
	// Stratum keeps those of one kind and half; nil keeps all.
	Stratum *PairStratum `json:"stratum,omitempty"`
	// Sources keeps the pairs of about so many of 2³² sources, whole ones; 0 keeps all.
	Sources uint64 `json:"sources,omitempty"`
}

// PairStratum is a kind of pairs, by its place in PairChoice.Share, and one of two halves of those, by chance.
type PairStratum struct {
	Kind int `json:"kind"`
	Half int `json:"half"`
}

// evenChoice chooses so large a share of all pairs.
func evenChoice(share float64) PairChoice { return PairChoice{Share: [3]float64{share, share, share}} }

// Places returns which of a problem's training pairs are chosen.
func (c PairChoice) Places(p sample.Problem) []int32 {
	return sample.Indices(p.Train.Len(), func(k int) bool {
		kind := pairKind(p, k)
		if c.Sources > 0 && sourceChance(p.Nodes.Number(p.Train.Source[k])) >= c.Sources {
			return false
		}
		if s := c.Stratum; s != nil && (s.Kind != kind || s.Half != int(2*pairChance(p, k, c.Seed, halved))) {
			return false
		}
		return c.Share[kind] >= 1 || pairChance(p, k, c.Seed, learnedFrom) < c.Share[kind]
	})
}

// sourceChance is a number below 2³² of a source, given its number, and of nothing else.
func sourceChance(source int32) uint64 {
	h := uint64(uint32(source)) + 1
	h = (h ^ h<<17) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h >> 32
}

// What the chance of a pair decides. Parts are drawn of parts, and of what a split has left, which goes by the pair and
// a seed too: of a number that decided before, those that are left have only the lower end.
const (
	learnedFrom  = 0x1ea7_4ed0_f407_0001
	comparedWith = 0xc035_a4ed_317b_0002
	halved       = 0x4a1f_ed00_9a12_0003
)

// pairChance is a number in [0, 1) of a pair and a seed, which is another for everything that it decides. It does not
// depend on the other pairs, so that a part of the pairs changes little when a few are added.
func pairChance(p sample.Problem, k int, seed, decides uint64) float64 {
	source, target := p.Nodes.Number(p.Train.Source[k]), p.Nodes.Number(p.Train.Target[k])
	return sample.Uniform(seed^decides, uint64(uint32(source)), uint64(uint32(target)))
}

// thinToLearn chooses about so many of the pairs to learn from, with weights and rates that make up for it. Where the
// likelihood knows no rates, the part is even.
func thinToLearn(p sample.Problem, most int, s Settings) (thinnedPairs, sample.Evidence) {
	t := thin(p, most, s.Seed, s.evenly())
	out := p.Training().At(t.places)
	t.makeUp(out)
	return t, out
}

// evenly reports whether links and unlinked pairs must have the same chance to be learned from.
func (s Settings) evenly() bool { return s.Sampling != engine.CaseControl.String() }

// makeUp sets the weights and rates of pairs that were chosen.
func (t thinnedPairs) makeUp(of sample.Evidence) {
	p := sample.Problem{Train: of.Pairs, Exposure: of.Exposure}
	for i := range of.Pairs.Weight {
		kind := pairKind(p, i)
		of.Pairs.Weight[i] /= t.share[kind]
		if kind < 2 {
			of.Pairs.Rate[i] *= t.share[0] / t.share[1]
		}
	}
}
