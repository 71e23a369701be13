package recommend

import (
	"context"
	"slices"

	"unseen/engine"
	"unseen/index"
	"unseen/internal/kern"
)

// sampledOthers is how many of the candidates that walks have not found are looked at where a list is explored, and
// sampledFor how many for every item at least.
const (
	sampledOthers = 1024
	sampledFor    = 8
)

// sampleSize is how many others an explored list of k items is drawn from.
func (r *Recommender) sampleSize(k int) int { return max(r.sampled, sampledFor*k) }

// sampling is a sample of the candidates that walks have not found, which an explored list is drawn from besides those
// that they have found. Of M others m are in the sample, each with the probability m/M, and each stands for M/m. With
// its w times M/m it is drawn, given the sample, with M/m times the probability that it has in an exact list, and
//
//	p = m/M · (the probability that it is drawn, given the sample)
//
// is about that of an exact list. What the sample leaves open, c and e, differs from sample to sample, and p with it.
// Means by 1/p are right all the same: given the sample [drawn] is its probability in the mean, so that [drawn]/p is
// M/m of those in the sample, 0 of others, and 1 over all samples. Of what walks have found, which no seed changes, p
// is the probability given the sample.
//
// As much is explored beyond what walks have found as in an exact list, in the mean, but for those whose M/m·c·w is
// above 1. The K best are those of both: what walks have missed is shown with m/M of the chance of the best, not with
// that of all others alone, so that an exact list can be judged by a log of such lists. The share e is such that the
// drawn list loses what drawing in proportion to ŷ would lose among all candidates: there, each in the sample counts
// as M/m with its ŷ, none of whom is drawn twice.
type sampling struct {
	nodes []int32
	of    int      // M; 0: there is no sample
	found int      // what walks have found, which come before the sample in the room of the draw
	marks []uint64 // of nodes, in bits; 0 between uses
	wide  []float32
}

// stands is how many candidates each in the sample stands for.
func (s *sampling) stands() float64 { return float64(s.of) / float64(len(s.nodes)) }

// standsFor is how many candidates that at a place of the draw stands for.
func (s *sampling) standsFor(place int32) float64 {
	if s.of == 0 || int(place) < s.found {
		return 1
	}
	return s.stands()
}

// scale multiplies w of all in the sample by how many they stand for, and returns ŷ with the same done to it.
func (s *sampling) scale(y, w []float32) (evenly []float32) {
	if s.of == 0 {
		return y
	}
	s.wide = append(s.wide[:0], y...)
	times := float32(s.stands())
	for place := s.found; place < len(w); place++ {
		w[place] *= times
		s.wide[place] *= times
	}
	return s.wide
}

// take draws a sample of so many others: of those in a list that are to keep and were not found. It reports false where
// the others are few, as it is as fast then to look at each.
func (room *room) take(q Query, most, others int, from []int32, keep func(j int32) bool) bool {
	if others < 2*most || len(room.kept) < q.K {
		return false
	}
	room.random = q.random()
	s := &room.sample
	words := (len(room.by.z) + 63) / 64
	s.marks = slices.Grow(s.marks[:0], words)[:words]
	for _, j := range room.kept {
		s.marks[j/64] |= 1 << (j % 64)
	}
	s.nodes, s.of, s.found = s.nodes[:0], others, len(room.kept)
	gapless := kern.Run(from) == len(from)
	for tries := 64 * most; len(s.nodes) < most && tries > 0; tries-- { // nearly every one is to keep
		at := room.random.IntN(len(from))
		j := from[0] + int32(at)
		if !gapless {
			j = from[at]
		}
		if s.marks[j/64]>>(j%64)&1 == 0 && keep(j) {
			s.marks[j/64] |= 1 << (j % 64)
			s.nodes = append(s.nodes, j)
		}
	}
	for _, nodes := range [][]int32{room.kept, s.nodes} {
		for _, j := range nodes {
			s.marks[j/64] = 0
		}
	}
	return len(s.nodes) == most
}

// pickSampled picks a list from what walks have found and a sample, and makes what was found and picked the candidates.
// The sample is judged by codes, but for the best of it.
func (r *Recommender) pickSampled(ctx context.Context, in *room, q Query) error {
	if err := r.score(ctx, in.by, r.ranker, q.Source, in.kept); err != nil {
		return err
	}
	if in.small == nil {
		in.small = &room{by: new(scored)}
	}
	small, found, sampled := in.small, in.kept, in.sample.nodes
	small.sample.nodes, small.sample.of, small.sample.found = sampled, in.sample.of, len(found)
	small.random = in.random
	n := len(found) + len(sampled)
	small.kept, small.by.z = slices.Grow(small.kept[:0], n)[:n], slices.Grow(small.by.z[:0], n)[:n]
	for place := range small.kept {
		small.kept[place] = int32(place)
	}
	z := small.by.z
	for place, j := range found {
		z[place] = in.by.z[j]
	}
	query, _ := r.query(r.ranker, q.Source)
	if err := r.judgeSample(z[len(found):], query, sampled, q.K); err != nil {
		return err
	}
	in.picked = small.pick(kern.Best(z, small.kept, q.K), q.Explore)
	for k, d := range in.picked {
		if at := int(d.node) - len(found); at >= 0 {
			in.picked[k].node = sampled[at]
			in.kept = append(in.kept, sampled[at])
		} else {
			in.picked[k].node = found[d.node]
		}
	}
	slices.Sort(in.kept)
	return nil
}

// judgeSample sets the scores of a sample by codes, and those of its best as they are.
func (r *Recommender) judgeSample(z []float32, q engine.SearchQuery, nodes []int32, k int) error {
	if err := r.web.Near(z, index.Walk{Targets: r.ranker.rows, Fields: r.nodes.Fields, Values: r.ranker.Popularity,
		Query: q}, nodes); err != nil {
		return err
	}
	places := make([]int32, len(z))
	for p := range places {
		places[p] = int32(p)
	}
	top := kern.Best(z, places, k)
	best, exact := make([]int32, len(top)), make([]float32, len(top))
	for m, p := range top {
		best[m] = nodes[p]
	}
	r.lookup(exact, r.ranker, q, best)
	for m, p := range top {
		z[p] = exact[m]
	}
	return nil
}
