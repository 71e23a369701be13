package index

import (
	"encoding/binary"
	"fmt"
)

// links has for every row the next of those with equal codes, its twin, and then up to degree rows that it links to. Of
// twins only the first has links. A row takes three bytes where there are few enough, and none has all bits set.
type links struct {
	bytes  []uint8
	wide   int // bytes of a row's number
	degree int
}

// mostOfThree is how many rows three bytes tell apart, beside none.
const mostOfThree = 1<<24 - 1

// wideFor is how many bytes the number of one of so many rows takes.
func wideFor(rows int) int {
	if rows > mostOfThree {
		return 4
	}
	return 3
}

// newLinks has no links yet.
func newLinks(rows, wide, degree int) links {
	l := links{make([]uint8, rows*wide*(degree+1)), wide, degree}
	for k := range l.bytes {
		l.bytes[k] = 0xff
	}
	return l
}

// record is what is kept of a row.
func (l *links) record(i int32) []uint8 {
	size := l.wide * (l.degree + 1)
	return l.bytes[int(i)*size:][:size]
}

// number reads a row's number, or −1.
func (l *links) number(from []uint8) int32 {
	x := uint32(from[0]) | uint32(from[1])<<8 | uint32(from[2])<<16
	switch {
	case l.wide == 4:
		return int32(x | uint32(from[3])<<24)
	case x == mostOfThree:
		return -1
	}
	return int32(x)
}

// put writes a row's number.
func (l *links) put(to []uint8, i int32) {
	to[0], to[1], to[2] = uint8(i), uint8(i>>8), uint8(i>>16)
	if l.wide == 4 {
		to[3] = uint8(i >> 24)
	}
}

// twin returns the next row with equal codes, or −1.
func (l *links) twin(i int32) int32 { return l.number(l.record(i)) }

func (l *links) setTwin(i, twin int32) { l.put(l.record(i), twin) }

// near appends the rows that one links to.
func (l *links) near(to []int32, i int32) []int32 { return l.read(to, l.record(i)[l.wide:]) }

// next appends the rows that one leads to: its twin and those that it links to.
func (l *links) next(to []int32, i int32) []int32 {
	record := l.record(i)
	if twin := l.number(record); twin >= 0 {
		to = append(to, twin)
	}
	return l.read(to, record[l.wide:])
}

// read appends the numbers before the first that is none.
func (l *links) read(to []int32, from []uint8) []int32 {
	for l.wide == 3 && len(from) > 3 { // four bytes at once, of which the last is the next number's
		j := binary.LittleEndian.Uint32(from) & mostOfThree
		if j == mostOfThree {
			return to
		}
		to, from = append(to, int32(j)), from[3:]
	}
	for ; len(from) > 0; from = from[l.wide:] {
		j := l.number(from)
		if j < 0 {
			break
		}
		to = append(to, j)
	}
	return to
}

// setNear sets the rows that one links to.
func (l *links) setNear(i int32, near []int32) {
	record := l.record(i)[l.wide:]
	for _, j := range near {
		l.put(record, j)
		record = record[l.wide:]
	}
	for k := range record {
		record[k] = 0xff
	}
}

// check refuses links that lead nowhere.
func (l *links) check(from, to int32, rows int) error {
	for i := from; i < to; i++ {
		for record := l.record(i); len(record) > 0; record = record[l.wide:] {
			if j := l.number(record); j < -1 || int(j) >= rows {
				return fmt.Errorf("a link to row %d of %d", j, rows)
			}
		}
	}
	return nil
}
