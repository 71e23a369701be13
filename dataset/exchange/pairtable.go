package exchange

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"unseen/graph"
)

// pairTable is rows about pairs of a person and an item, as few bytes each as they need: tens of millions of them are
// in memory at once. They come back by pair, 256 people at a time.
type pairTable struct {
	timed, placed, surfaced, valued bool // what rows have besides the pair: a time, a position, a surface, a value

	width   int
	buckets []pairBucket // bucket k has people 256k to 256k+255
	rows    int64
}

// pairRow is one row.
type pairRow struct {
	person, item int32
	flag         bool    // of a showing: it was shown, and not only offered to be
	seconds      int64   // graph.NoTime where it is unknown
	position     int32   // 0 where it is unknown
	surface      uint16  // its number
	value        float32 // a rating, a count or a probability; NaN where it is unknown
	clicked      bool    // of a showing: it was clicked, too; not stored
}

// pairBucket is rows of some people, in chunks so that growing copies nothing.
type pairBucket struct {
	chunks [][]byte
	rows   int
}

const (
	pairsPerChunk   = 1 << 10
	peoplePerBucket = 1 << 8
	rowBits         = 25 // of a key: 8 for the person within its bucket, 31 for the item, and these for the row
	secondsOffset   = 1 << 39
)

// add adds a row.
func (t *pairTable) add(r pairRow) error {
	if t.width == 0 {
		t.width = 6 + 5*bit(t.timed) + 2*bit(t.placed) + 2*bit(t.surfaced) + 4*bit(t.valued)
	}
	number := int(r.person) / peoplePerBucket
	for number >= len(t.buckets) {
		t.buckets = append(t.buckets, pairBucket{})
	}
	b := &t.buckets[number]
	if b.rows == 1<<rowBits {
		return fmt.Errorf("%w: more than %d rows of %d people; import a part", graph.ErrTooLarge, b.rows,
			peoplePerBucket)
	}
	if b.rows%pairsPerChunk == 0 {
		b.chunks = append(b.chunks, make([]byte, 0, pairsPerChunk*t.width))
	}
	last := &b.chunks[len(b.chunks)-1]
	raw := append(*last, byte(r.person), byte(bit(r.flag)))
	raw = binary.LittleEndian.AppendUint32(raw, uint32(r.item))
	if t.timed {
		at := uint64(0) // unknown
		if r.seconds != graph.NoTime {
			at = uint64(max(-secondsOffset+1, min(r.seconds, secondsOffset-1)) + secondsOffset)
		}
		raw = append(binary.LittleEndian.AppendUint32(raw, uint32(at)), byte(at>>32))
	}
	if t.placed {
		raw = binary.LittleEndian.AppendUint16(raw, uint16(max(0, min(r.position, math.MaxUint16))))
	}
	if t.surfaced {
		raw = binary.LittleEndian.AppendUint16(raw, r.surface)
	}
	if t.valued {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(r.value))
	}
	*last = raw
	b.rows++
	t.rows++
	return nil
}

func bit(x bool) int {
	if x {
		return 1
	}
	return 0
}

// sorted returns the keys of a bucket's rows, by person, item and then in the order of the rows.
func (t *pairTable) sorted(number int) []uint64 {
	keys := t.inOrder(number)
	slices.Sort(keys)
	return keys
}

// at returns the row of a key of a bucket.
func (t *pairTable) at(number int, key uint64) pairRow {
	k := int(key & (1<<rowBits - 1))
	raw := t.buckets[number].chunks[k/pairsPerChunk][k%pairsPerChunk*t.width:]
	r := pairRow{person: int32(number*peoplePerBucket) + int32(raw[0]), flag: raw[1] == 1,
		item: int32(binary.LittleEndian.Uint32(raw[2:])), seconds: graph.NoTime, value: float32(math.NaN())}
	raw = raw[6:]
	if t.timed {
		if at := uint64(binary.LittleEndian.Uint32(raw)) | uint64(raw[4])<<32; at > 0 {
			r.seconds = int64(at) - secondsOffset
		}
		raw = raw[5:]
	}
	if t.placed {
		r.position = int32(binary.LittleEndian.Uint16(raw))
		raw = raw[2:]
	}
	if t.surfaced {
		r.surface = binary.LittleEndian.Uint16(raw)
		raw = raw[2:]
	}
	if t.valued {
		r.value = math.Float32frombits(binary.LittleEndian.Uint32(raw))
	}
	return r
}

// free lets go of a bucket.
func (t *pairTable) free(number int) {
	if number < len(t.buckets) {
		t.buckets[number] = pairBucket{}
	}
}

// reorder puts the rows of a bucket into the order of their keys, so that they need not be sorted again.
func (t *pairTable) reorder(number int, keys []uint64) {
	if number >= len(t.buckets) {
		return
	}
	b := &t.buckets[number]
	again := make([][]byte, 0, len(b.chunks))
	for n, key := range keys {
		if n%pairsPerChunk == 0 {
			again = append(again, make([]byte, 0, min(pairsPerChunk, len(keys)-n)*t.width))
		}
		k := int(key & (1<<rowBits - 1))
		row := b.chunks[k/pairsPerChunk][k%pairsPerChunk*t.width:][:t.width]
		again[len(again)-1] = append(again[len(again)-1], row...)
	}
	b.chunks = again
}

// inOrder returns the keys of a bucket whose rows were put into order.
func (t *pairTable) inOrder(number int) []uint64 {
	if number >= len(t.buckets) {
		return nil
	}
	keys := make([]uint64, 0, t.buckets[number].rows)
	for _, chunk := range t.buckets[number].chunks {
		for raw := chunk; len(raw) > 0; raw = raw[t.width:] {
			keys = append(keys, t.key(raw, len(keys)))
		}
	}
	return keys
}

// key orders rows by person, item and then by their number.
func (t *pairTable) key(raw []byte, number int) uint64 {
	return uint64(raw[0])<<56 | uint64(binary.LittleEndian.Uint32(raw[2:]))<<rowBits | uint64(number)
}

// pairOf is what of a key names the pair within its bucket.
func pairOf(key uint64) uint64 { return key >> rowBits }
