package recommend

import (
	"math"
	"slices"

	"unseen/engine"
	"unseen/internal/kern"
)

// scored is what a rule makes of every node for one source, by node. Where a sketch was read in place of the vectors
// they are estimates, each within a slack of what it stands for: an order of estimates that are further apart than
// that is the true one, and those on which more depends are looked up. Orders and ranks are the same with and without.
type scored struct {
	z     []float32
	known []uint64 // of which nodes it is no estimate, in bits
	// Estimates are off by up to times·the bound's slack, and for rounding by up to rounds·(1 + |z|). Where they are
	// made of other scores, of log σ(of), that changes by σ(−of) times as much.
	bound         engine.ScoreBound
	times, rounds float32
	of            *scored
	// lookup sets what nodes of the graph are truly scored; nil where there are no estimates
	lookup func(dst []float32, nodes []int32)
}

// exact makes all scores what they are.
func (s *scored) exact() { s.lookup = nil }

// estimated makes the scores of the first nodes, those of the graph, estimates: what is behind it is in no sketch.
func (s *scored) estimated(nodes int, bound engine.ScoreBound, lookup func(dst []float32, nodes []int32)) {
	s.bound, s.times, s.rounds, s.of, s.lookup = bound, 1, 0, nil, lookup
	words := (len(s.z) + 63) / 64
	s.known = slices.Grow(s.known[:0], words)[:words]
	clear(s.known)
	for j := nodes; j < len(s.z); j++ {
		s.known[j/64] |= 1 << (j % 64)
	}
}

// open reports whether a score is an estimate.
func (s *scored) open(j int32) bool { return s.lookup != nil && s.known[j/64]>>(j%64)&1 == 0 }

// slack is by how much an estimate may be off.
func (s *scored) slack(j int32) float32 {
	slack, times := s.bound.Slack(j), s.times
	if s.of != nil { // whose score is within twice the slack, if that is an estimate too
		times += min(1, float32(sigmoid(float64(-s.of.z[j]))*math.Exp(2*float64(slack))))
	}
	return times*slack + s.rounds*(1+max(s.z[j], -s.z[j]))
}

// below returns a number such that whoever is estimated to have less has less than z for certain.
func (s *scored) below(z float32) float32 {
	if s.lookup == nil {
		return z
	}
	times := s.times
	if s.of != nil {
		times++
	}
	return z - 2*s.rounds*(1+max(z, -z)) - times*s.bound.Most()*(1+2*s.rounds)
}

// settle looks nodes up.
func (s *scored) settle(nodes []int32) {
	if s.lookup == nil {
		return
	}
	var open []int32
	for _, j := range nodes {
		if s.open(j) {
			open = append(open, j)
			s.known[j/64] |= 1 << (j % 64)
		}
	}
	if len(open) == 0 {
		return
	}
	z := make([]float32, len(open))
	s.lookup(z, open)
	for k, j := range open {
		s.z[j] = z[k]
	}
}

// best returns the k candidates with the highest scores, best first; of equal ones the lowest.
func (s *scored) best(candidates []int32, k int) []int32 {
	found := kern.Best(s.z, candidates, k)
	if s.lookup == nil || len(found) == 0 {
		return found
	}
	// so much k candidates have at least; and whoever may have as much is looked at
	least := s.lower(found[0])
	for _, j := range found {
		least = min(least, s.lower(j))
	}
	var likely []int32
	if len(found) < k {
		likely = candidates // all, but for those without a score
	} else {
		each := func(j int32) {
			if z := s.z[j]; !(z < least) || s.open(j) && !(z+s.slack(j) < least) {
				likely = append(likely, j)
			}
		}
		s.atLeast(s.below(least), candidates, each)
	}
	s.settle(likely)
	return kern.Best(s.z, likely, k)
}

// atLeast calls a function for the candidates that are not below a score.
func (s *scored) atLeast(score float32, candidates []int32, each func(j int32)) {
	below := math.Nextafter32(score, float32(math.Inf(-1)))
	if !(below > float32(math.Inf(-1))) { // nothing can be left out
		for _, j := range candidates {
			each(j)
		}
		return
	}
	for len(candidates) > 0 {
		first, run := candidates[0], kern.Run(candidates)
		candidates = candidates[run:]
		z := s.z[first:][:run]
		for at := kern.Above(z, below); at < run; at += kern.Above(z[at:], below) {
			each(first + int32(at))
			at++
		}
	}
}

// lower is what the score of a node is at least.
func (s *scored) lower(j int32) float32 {
	if s.open(j) {
		return s.z[j] - s.slack(j)
	}
	return s.z[j]
}

// ranks returns the place of each of some candidates among all, from 1 on.
func (s *scored) ranks(candidates, of []int32) []int {
	if s.lookup != nil && len(of) > 0 {
		s.settle(of)
		limits := make([]float32, len(of))
		for k, j := range of {
			limits[k] = s.z[j]
		}
		slices.Sort(limits)
		var between []int32 // who may be on either side of one
		below := s.below(limits[0])
		s.atLeast(below, candidates, func(j int32) {
			if !s.open(j) {
				return
			}
			z, slack := s.z[j], s.slack(j)
			if z+slack < limits[0] || z-slack > limits[len(limits)-1] {
				return
			}
			at, _ := slices.BinarySearch(limits, z-slack)
			if !(at < len(limits) && limits[at] > z+slack) {
				between = append(between, j)
			}
		})
		s.settle(between)
	}
	return ranks(s.z, candidates, of)
}

// estimate has scores estimated by a query's bound, if that leaves anything open.
func (r *Recommender) estimate(s *scored, by ranking, q engine.SearchQuery, bound engine.ScoreBound) {
	if bound.Exact() {
		s.exact()
		return
	}
	s.estimated(r.g.Len(), bound, func(dst []float32, nodes []int32) { r.lookup(dst, by, q, nodes) })
}

// lookup scores nodes of the graph as the engine scores all.
func (r *Recommender) lookup(dst []float32, by ranking, q engine.SearchQuery, nodes []int32) {
	kern.Dots(dst, q.Vector, kern.MatrixOf(by.rows), nodes)
	for k, j := range nodes {
		dst[k] += q.Offsets[r.nodes.Fields[j]]
		if q.Slope != 0 {
			dst[k] += q.Slope * by.Popularity[j]
		}
	}
}

// sketchOf is the sketch of a ranking's rows, if there is one.
func (r *Recommender) sketchOf(by ranking) *engine.Sketch { return r.sketches[by.rows] }
