package evaluate

import "math"

// keyed is a pair on its way through the sort: its score as a key, and its weight, negative for an
// unlinked pair.
type keyed struct {
	key    uint64
	weight float64
}

// descending maps scores to keys that rise as the scores fall; equal scores, also 0 and −0, have
// equal keys.
func descending(score float64) uint64 {
	bits := math.Float64bits(score + 0) // −0 + 0 is 0
	if bits>>63 == 1 {
		return bits
	}
	return ^bits &^ (1 << 63)
}

// sortKeyed sorts by key: a stable radix sort by bytes, lowest first, which for a million pairs is
// several times faster than comparing them. It reuses the pairs' memory; use only what it returns.
func sortKeyed(pairs []keyed) []keyed {
	var counts [8][256]int
	for _, p := range pairs {
		for b := range counts {
			counts[b][byte(p.key>>(8*b))]++
		}
	}
	spare := make([]keyed, len(pairs))
	for b := range counts {
		next, at := &counts[b], 0
		if len(pairs) > 0 && next[byte(pairs[0].key>>(8*b))] == len(pairs) {
			continue // all alike in this byte
		}
		for d, n := range next {
			next[d], at = at, at+n
		}
		for _, p := range pairs {
			d := byte(p.key >> (8 * b))
			spare[next[d]] = p
			next[d]++
		}
		pairs, spare = spare, pairs
	}
	return pairs
}
