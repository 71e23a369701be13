package encode

import (
	"math"
	"math/bits"
	"slices"
)

// entry is a bucket of terms and how often they occur in a document.
type entry struct {
	bucket      uint32
	title, text uint32
}

// counter counts the terms of documents. One goroutine has one.
type counter struct {
	tokens tokeniser
	shift  uint // of a term's hash, to give its bucket
	keys   []uint32
	counts []entry
	seen   func(bucket uint32, term []byte) // called for every term if not nil
}

func newCounter(buckets int, bigrams bool) *counter {
	return &counter{tokens: tokeniser{bigrams: bigrams}, shift: 64 - uint(bits.Len(uint(buckets-1)))}
}

// count returns the entries of a document by bucket. They are valid until the next call.
func (c *counter) count(d Text) []entry {
	c.keys = c.keys[:0]
	add := func(inTitle uint32) func([]byte) {
		return func(term []byte) {
			bucket := c.bucket(term)
			c.keys = append(c.keys, bucket<<1|inTitle)
			if c.seen != nil {
				c.seen(bucket, term)
			}
		}
	}
	c.tokens.cut(d.Title, add(1))
	c.tokens.cut(d.Body, add(0))
	slices.Sort(c.keys)
	c.counts = c.counts[:0]
	for _, key := range c.keys {
		if n := len(c.counts); n == 0 || c.counts[n-1].bucket != key>>1 {
			c.counts = append(c.counts, entry{bucket: key >> 1})
		}
		e := &c.counts[len(c.counts)-1]
		e.title += key & 1
		e.text += 1 - key&1
	}
	return c.counts
}

// bucket hashes a term: FNV-1a, and a product that carries every bit to the top. It is part of an
// encoder's file, so it never changes.
func (c *counter) bucket(term []byte) uint32 {
	h := uint64(0xcbf29ce484222325)
	for _, b := range term {
		h = (h ^ uint64(b)) * 0x100000001b3
	}
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	return uint32(h >> c.shift)
}

// weight is the weight of an entry before its rarity: 1 + log tf, so that the tenth occurrence of a
// word adds less than the first. A word of the title counts as titleWeight occurrences.
func weight(e entry, titleWeight float64) float64 {
	tf := float64(e.text) + titleWeight*float64(e.title)
	if tf < 1 {
		return tf
	}
	return 1 + math.Log(tf)
}

// rarity is the inverse document frequency of a term in df of n documents, smoothed as if one more document
// had every term.
func rarity(df uint32, n int) float64 {
	return 1 + math.Log(float64(n+1)/float64(df+1))
}
