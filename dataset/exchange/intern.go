package exchange

import (
	"fmt"
	"hash/maphash"
	"math"
	"strings"

	"unseen/graph"
)

// interner numbers ids from 0 in the order in which they first come. It keeps their bytes one after the other, and
// copies a string only when it is new.
type interner struct {
	seed  maphash.Seed
	slots []internSlot // a power of two, at most half full; number −1 is free
	text  []byte
	ends  []int     // of every id in text
	room  *nameRoom // for new ids, of this and others; nil means that there is no limit
}

// internSlot has all that a comparison needs, so that it looks nowhere else but at the text.
type internSlot struct {
	hash   uint32
	number int32
	start  uint64 // of the text, in the high 48 bits; its length, or 65535 if it is longer, in the low 16
}

const longID = 1<<16 - 1

func newInterner() *interner {
	n := &interner{seed: maphash.MakeSeed()}
	n.grow(1 << 10)
	return n
}

// len returns how many ids there are.
func (n *interner) len() int { return len(n.ends) }

// id returns the id of a number.
func (n *interner) id(number int32) string {
	start := 0
	if number > 0 {
		start = n.ends[number-1]
	}
	return alias(n.text[start:n.ends[number]:n.ends[number]])
}

// all returns the ids by number, in memory of their own.
func (n *interner) all() (ids []string) {
	for number := range int32(n.len()) {
		ids = append(ids, strings.Clone(n.id(number)))
	}
	return ids
}

// find returns the number of an id, −1 where it has none.
func (n *interner) find(id string) int32 {
	_, number := n.slot(id)
	return number
}

// add returns the number of an id, which it gives it if it is new.
func (n *interner) add(id string) (int32, error) {
	at, number := n.slot(id)
	if number >= 0 {
		return number, nil
	}
	if len(n.ends) == math.MaxInt32/2 {
		return -1, fmt.Errorf("%w: more than %d ids; import a part", graph.ErrTooLarge, math.MaxInt32/2)
	}
	if n.room != nil {
		if err := n.room.take(Place{}, len(id)); err != nil {
			return -1, err
		}
	}
	number = int32(len(n.ends))
	n.text = append(n.text, id...)
	n.ends = append(n.ends, len(n.text))
	n.slots[at] = n.slotOf(number)
	if 2*len(n.ends) > len(n.slots) {
		n.grow(2 * len(n.slots))
	}
	return number, nil
}

// slot returns where an id is or would be, and its number or −1.
func (n *interner) slot(id string) (at uint64, number int32) {
	h := maphash.String(n.seed, id)
	mask := uint64(len(n.slots) - 1)
	for at = h & mask; ; at = (at + 1) & mask {
		s := n.slots[at]
		if s.number < 0 {
			return at, -1
		}
		if s.hash != uint32(h>>32) {
			continue
		}
		if length := int(s.start & longID); length == longID && n.id(s.number) == id ||
			length == len(id) && string(n.text[s.start>>16:][:length]) == id {
			return at, s.number
		}
	}
}

// slotOf is the slot of a number.
func (n *interner) slotOf(number int32) internSlot {
	id := n.id(number)
	return internSlot{uint32(maphash.String(n.seed, id) >> 32), number,
		uint64(n.ends[number]-len(id))<<16 | uint64(min(len(id), longID))}
}

func (n *interner) grow(size int) {
	n.slots = make([]internSlot, size)
	for k := range n.slots {
		n.slots[k].number = -1
	}
	for number := range int32(len(n.ends)) {
		at, _ := n.slot(n.id(number))
		n.slots[at] = n.slotOf(number)
	}
}
