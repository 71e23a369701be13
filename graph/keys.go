package graph

import "slices"

// sortKeys sorts ascending. Many keys are sorted by their digits of 11 bits, from the lowest that
// differ to the highest, which reads 30 million pairs of nodes five times instead of twenty-five.
func sortKeys(keys []uint64) {
	const (
		few   = 1 << 12
		bits  = 11
		digit = 1<<bits - 1
	)
	if slices.IsSorted(keys) {
		return
	}
	if len(keys) < few {
		slices.Sort(keys)
		return
	}
	var differ uint64
	for _, key := range keys {
		differ |= key ^ keys[0]
	}
	from, to := keys, make([]uint64, len(keys))
	for shift := 0; shift < 64; shift += bits {
		if differ>>shift&digit == 0 {
			continue
		}
		var start [digit + 1]int
		for _, key := range from {
			start[key>>shift&digit]++
		}
		at := 0
		for d, count := range start {
			start[d] = at
			at += count
		}
		for _, key := range from {
			d := key >> shift & digit
			to[start[d]] = key
			start[d]++
		}
		from, to = to, from
	}
	if &from[0] != &keys[0] {
		copy(keys, from)
	}
}
