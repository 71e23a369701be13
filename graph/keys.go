package graph

import (
	"math/bits"
	"slices"
)

const (
	digitBits = 11
	digitMask = 1<<digitBits - 1

	fewKeys  = 1 << 9               // fewer are sorted faster by comparing than by counting
	manyKeys = fewKeys << digitBits // no cache holds so many
)

// sortKeys sorts ascending: few keys by comparing, more by their digits, and many are first dealt out by
// their highest digit, so that the others can be sorted within the cache.
func sortKeys(keys []uint64) {
	if slices.IsSorted(keys) {
		return
	}
	if len(keys) < fewKeys {
		slices.Sort(keys)
		return
	}
	var differ uint64
	for _, key := range keys {
		differ |= key ^ keys[0]
	}
	room := make([]uint64, len(keys))
	if len(keys) < manyKeys {
		sortDigits(keys, keys, room, differ)
		return
	}
	shift := max(bits.Len64(differ)-digitBits, 0)
	from := 0
	for _, to := range deal(room, keys, shift) {
		sortDigits(keys[from:to], room[from:to], keys[from:to], differ&(1<<shift-1))
		from = to
	}
}

// sortDigits sorts from, which differ in some bits, into sorted: digit by digit, each starting at the
// lowest bit that differs and that no digit has yet. It also writes to room; sorted may be either.
func sortDigits(sorted, from, room []uint64, differ uint64) {
	if len(from) < fewKeys {
		slices.Sort(from)
		differ = 0
	}
	for differ != 0 {
		shift := bits.TrailingZeros64(differ)
		differ &^= digitMask << shift
		deal(room, from, shift)
		from, room = room, from
	}
	if len(from) > 0 && &sorted[0] != &from[0] {
		copy(sorted, from)
	}
}

// deal puts keys in the order of one digit and keeps that of keys with the same. It returns where each
// digit's end.
func deal(to, from []uint64, shift int) [digitMask + 1]int {
	var place [digitMask + 1]int
	for _, key := range from {
		place[key>>shift&digitMask]++
	}
	at := 0
	for d, count := range place {
		place[d] = at
		at += count
	}
	for _, key := range from {
		d := key >> shift & digitMask
		to[place[d]] = key
		place[d]++
	}
	return place
}
