package sample

import (
	"unseen/graph"
	"unseen/risk"
)

// Evidence is pairs with what is known of their exposure: to learn from, or held out to judge by.
type Evidence struct {
	Pairs    *graph.Pairs    // nil if none were held out
	Exposure []risk.Exposure // of each pair; nil means that nothing is logged
}

// At copies the pairs at the given indices.
func (e Evidence) At(indices []int32) Evidence {
	p := e.Pairs
	out := Evidence{Pairs: &graph.Pairs{
		Source: Column(p.Source, indices), Target: Column(p.Target, indices), Linked: Column(p.Linked, indices),
		Weight: Column(p.Weight, indices), Rate: Column(p.Rate, indices), Universe: p.Universe,
	}}
	if e.Exposure != nil {
		out.Exposure = Column(e.Exposure, indices)
	}
	return out
}

// without leaves out the pairs of some nodes.
func (e Evidence) without(nodes []bool) Evidence {
	if nodes == nil || e.Pairs == nil {
		return e
	}
	var kept []int32
	for k, i := range e.Pairs.Source {
		if !nodes[i] && !nodes[e.Pairs.Target[k]] {
			kept = append(kept, int32(k))
		}
	}
	return e.At(kept)
}

// links counts the pairs that are linked.
func (e Evidence) links() (n int) {
	if e.Pairs == nil {
		return 0
	}
	for _, linked := range e.Pairs.Linked {
		if linked {
			n++
		}
	}
	return n
}

// Column copies the values of a column at the given indices.
func Column[T any](values []T, indices []int32) []T {
	out := make([]T, len(indices))
	for i, k := range indices {
		out[i] = values[k]
	}
	return out
}

// Indices lists those of n rows for which a condition holds.
func Indices(n int, holds func(k int) bool) []int32 {
	count := 0
	for k := range n {
		if holds(k) {
			count++
		}
	}
	indices := make([]int32, 0, count) // counted first: growing would take twice the memory
	for k := range n {
		if holds(k) {
			indices = append(indices, int32(k))
		}
	}
	return indices
}

// Thin lists about most of n rows, the same ones for the same seed; all of them where there are no more. They are drawn
// row by row: samples have patterns, such as four unlinked pairs after every link, that evenly spaced indices would
// follow.
func Thin(n, most int, seed uint64) []int32 {
	share := float64(most) / float64(max(n, 1))
	return Indices(n, func(k int) bool { return share >= 1 || Uniform(seed, 0, uint64(k)) < share })
}

// Uniform returns a number in [0, 1) that is a function of a seed and two keys, by the finaliser of SplitMix64.
func Uniform(seed, first, second uint64) float64 {
	x := seed
	for _, key := range [...]uint64{first, second} {
		x += key + 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return float64(x>>11) / (1 << 53)
}
