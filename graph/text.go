package graph

import (
	"fmt"
	"hash/maphash"
	"math"
	"unsafe"
)

// textTable is many short strings in one long one: string i is text[end[i-1]:end[i]].
type textTable struct {
	text string
	end  []uint32
}

func (t *textTable) at(i int32) string {
	start := uint32(0)
	if i > 0 {
		start = t.end[i-1]
	}
	return t.text[start:t.end[i]]
}

// textWriter grows a textTable.
type textWriter struct {
	text []byte
	end  []uint32
}

// fits is nil when s can still be numbered.
func (w *textWriter) fits(s string) error {
	if uint64(len(w.text))+uint64(len(s)) > math.MaxUint32 {
		return fmt.Errorf("%w: ids or titles of more than 4 GiB in all; shorten them or leave titles out", ErrTooLarge)
	}
	return nil
}

func (w *textWriter) add(s string) {
	w.text = append(w.text, s...)
	w.end = append(w.end, uint32(len(w.text)))
}

// table returns what was written so far. It stays valid while more is written, since written bytes never change.
func (w *textWriter) table() textTable {
	return textTable{unsafe.String(unsafe.SliceData(w.text), len(w.text)), w.end}
}

// idIndex finds a node by its id: an open-addressing hash table of nodes that leaves the ids where
// they are. A slot costs 8 bytes, a third of what a map[string]int32 takes.
type idIndex struct {
	seed  maphash.Seed
	slots []idSlot // a power of two of them, at most three quarters full
	used  int
}

// idSlot keeps the hash beside the node, so that slots of other ids are passed over, and the table
// grows, without reading their text.
type idSlot struct {
	hash uint32
	node int32 // index + 1; 0 is a free slot
}

func (x *idIndex) find(id string, ids *textTable) (int32, bool) {
	if len(x.slots) == 0 {
		return 0, false
	}
	slot := x.slots[x.probe(x.hash(id), id, ids)]
	return slot.node - 1, slot.node != 0
}

// findAll finds many ids at once; −1 stands for one that is not there. Each lookup waits for memory
// three times (slot, place of the text, text), so lookups go side by side and wait together.
func (x *idIndex) findAll(found []int32, wanted []string, ids *textTable) {
	const together = 32
	var (
		hashes [together]uint32
		nodes  [together]int32
		texts  [together]string
	)
	for len(wanted) > 0 && len(x.slots) > 0 {
		batch := wanted[:min(together, len(wanted))]
		for k, id := range batch {
			hashes[k] = x.hash(id)
		}
		for k := range batch {
			nodes[k] = x.slots[x.alike(hashes[k], x.first(hashes[k]))].node
		}
		for k := range batch {
			if texts[k] = ""; nodes[k] != 0 {
				texts[k] = ids.at(nodes[k] - 1)
			}
		}
		for k, id := range batch {
			if texts[k] != id {
				nodes[k] = x.slots[x.probe(hashes[k], id, ids)].node
			}
			found[k] = nodes[k] - 1
		}
		wanted, found = wanted[len(batch):], found[len(batch):]
	}
	for k := range wanted {
		found[k] = -1
	}
}

// add returns false when the id is there already; otherwise node's id is the one about to be
// written to ids.
func (x *idIndex) add(id string, node int32, ids *textTable) bool {
	if 4*(x.used+1) > 3*len(x.slots) {
		x.grow()
	}
	return x.addHashed(x.hash(id), id, node, ids)
}

// addHashed is add for an id whose hash is known, into a table that has room.
func (x *idIndex) addHashed(hash uint32, id string, node int32, ids *textTable) bool {
	at := x.probe(hash, id, ids)
	if x.slots[at].node != 0 {
		return false
	}
	x.slots[at] = idSlot{hash, node + 1}
	x.used++
	return true
}

// probe returns the slot that holds the id, or the free one where it belongs.
func (x *idIndex) probe(hash uint32, id string, ids *textTable) int {
	at := x.alike(hash, x.first(hash))
	for x.slots[at].node != 0 && ids.at(x.slots[at].node-1) != id {
		at = x.alike(hash, (at+1)&(len(x.slots)-1))
	}
	return at
}

// alike returns the next slot from at on that has this hash or is free.
func (x *idIndex) alike(hash uint32, at int) int {
	for x.slots[at].node != 0 && x.slots[at].hash != hash {
		at = (at + 1) & (len(x.slots) - 1)
	}
	return at
}

func (x *idIndex) hash(id string) uint32 { return uint32(maphash.String(x.seed, id)) }

func (x *idIndex) first(hash uint32) int { return int(hash) & (len(x.slots) - 1) }

func (x *idIndex) grow() { x.resize(max(16, 2*len(x.slots))) }

// reserve makes room for a number of ids in all.
func (x *idIndex) reserve(ids int) {
	slots := max(16, len(x.slots))
	for 4*ids > 3*slots {
		slots *= 2
	}
	if slots > len(x.slots) {
		x.resize(slots)
	}
}

// resize gives the table another number of slots, a power of two.
func (x *idIndex) resize(slots int) {
	if x.slots == nil {
		x.seed = maphash.MakeSeed()
	}
	old := x.slots
	x.slots = make([]idSlot, slots)
	for _, slot := range old {
		if slot.node == 0 {
			continue
		}
		at := x.first(slot.hash)
		for x.slots[at].node != 0 {
			at = (at + 1) & (len(x.slots) - 1)
		}
		x.slots[at] = slot
	}
}
