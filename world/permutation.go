package world

import "math/bits"

// permutation is a random order of 0…size−1 that is never written down: a Feistel network over the
// next even number of bits, walked until it lands inside (Black and Rogaway, "Ciphers with arbitrary
// finite domains", 2002). Its first n places are n distinct numbers, and disjoint places are
// disjoint numbers.
type permutation struct {
	size uint64
	half uint   // bits of one half
	mask uint64 // of one half
	keys [6]uint64
}

func newPermutation(seed uint64, name string, size uint64) permutation {
	half := uint(bits.Len64(size-1)+1) / 2
	half = max(half, 1)
	p := permutation{size: size, half: half, mask: 1<<half - 1}
	src := newStream(seed, name, size)
	for r := range p.keys {
		p.keys[r] = src.Uint64()
	}
	return p
}

// at returns the number at a place below size.
func (p *permutation) at(place uint64) uint64 {
	for {
		left, right := place>>p.half, place&p.mask
		for _, key := range p.keys {
			left, right = right, left^mix(right^key)&p.mask
		}
		place = left<<p.half | right
		if place < p.size {
			return place
		}
	}
}
