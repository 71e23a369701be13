package recommend

import (
	"math/bits"
	"slices"
)

// sampledOthers is how many of the candidates that walks have not found are looked at where a list is explored.
const sampledOthers = 2048

// sampling is a sample of the candidates that walks have not found, which an explored list is drawn from besides those
// that they have found. Of M others m are in the sample, each with the probability m/M, and each stands for M/m. With
// its w times M/m it is drawn, given the sample, with M/m times the probability that it has in an exact list, and
//
//	p = m/M · (the probability that it is drawn, given the sample)
//
// is about that of an exact list. What the sample leaves open, c and e, differs from sample to sample, and p with it.
// Means by 1/p are right all the same: given every sample [drawn] is its probability in the mean, so that [drawn]/p is
// M/m of those in the sample, 0 of others, and 1 over all samples. Of what walks have found, which no seed changes, p is
// the probability given the sample.
//
// As much is explored beyond what walks have found as in an exact list, in the mean, but for those whose M/m·c·w is
// above 1. The share e is found by what the drawn list loses; and what drawing in proportion to ŷ would lose is found
// as of all candidates: there, each in the sample counts as M/m of its ŷ, none of whom is drawn twice.
type sampling struct {
	size, of int      // m and M; 0 where there is none
	found    []int32  // what walks have found, ascending
	marks    []uint64 // of nodes, in bits; 0 between uses
	// of a room that gather has made: the places of the sample, ascending, and their ŷ times M/m among those of all
	places []int32
	evenly []float32
}

// reset leaves no sample.
func (s *sampling) reset() { s.size, s.of = 0, 0 }

// addSample adds to the candidates, which walks have found, some of the others, at most so many, drawn evenly. All of them
// are in a list, with more that are not to keep. It reports false where the others are few: it is as fast then to look
// at each.
func (room *room) addSample(most, others int, from []int32, keep func(j int32) bool) bool {
	if others < 2*most {
		return false
	}
	s := &room.sample
	words := (len(room.by.z) + 63) / 64
	s.marks = slices.Grow(s.marks[:0], words)[:words]
	s.found = append(s.found[:0], room.kept...)
	for _, j := range room.kept {
		s.marks[j/64] |= 1 << (j % 64)
	}
	left := most
	for tries := 64 * most; left > 0 && tries > 0; tries-- { // nearly each of them is one to keep
		j := from[room.random.IntN(len(from))]
		if s.marks[j/64]>>(j%64)&1 == 0 && keep(j) {
			s.marks[j/64] |= 1 << (j % 64)
			left--
		}
	}
	room.kept = room.kept[:0]
	for at, word := range s.marks {
		for ; word != 0; word &= word - 1 {
			room.kept = append(room.kept, int32(64*at+bits.TrailingZeros64(word)))
		}
	}
	clear(s.marks)
	s.size, s.of = most, others
	return left == 0
}

// gather returns a room with the candidates alone: what is by node in this one is there by place among the candidates,
// so that nothing is as long as the graph.
func (r *room) gather() *room {
	if r.small == nil {
		r.small = &room{by: new(scored)}
	}
	small, n := r.small, len(r.kept)
	small.kept, small.by.z = slices.Grow(small.kept[:0], n)[:n], slices.Grow(small.by.z[:0], n)[:n]
	small.sample.size, small.sample.of, small.sample.places = r.sample.size, r.sample.of, small.sample.places[:0]
	found := r.sample.found
	for place, j := range r.kept {
		small.kept[place], small.by.z[place] = int32(place), r.by.z[j]
		if len(found) > 0 && found[0] == j {
			found = found[1:]
			continue
		}
		small.sample.places = append(small.sample.places, int32(place))
	}
	return small
}

// placesIn returns the places of some nodes among candidates, which ascend.
func placesIn(candidates, nodes []int32) []int32 {
	out := make([]int32, len(nodes))
	for k, j := range nodes {
		at, _ := slices.BinarySearch(candidates, j)
		out[k] = int32(at)
	}
	return out
}

// standsFor is how many candidates that at a place stands for.
func (s *sampling) standsFor(place int32) float64 {
	if s.size == 0 {
		return 1
	}
	if _, sampled := slices.BinarySearch(s.places, place); !sampled {
		return 1
	}
	return float64(s.of) / float64(s.size)
}

// scale multiplies the w of all in the sample by how many they stand for, and returns ŷ with the same done to it.
func (s *sampling) scale(y, w []float32) (evenly []float32) {
	if s.size == 0 {
		return y
	}
	s.evenly = append(s.evenly[:0], y...)
	times := float32(float64(s.of) / float64(s.size))
	for _, place := range s.places {
		w[place] *= times
		s.evenly[place] *= times
	}
	return s.evenly
}
