package index

import (
	"unseen/internal/kern"
)

// stop is a row on a walk, with its score. The row is −1−row once its links were looked at.
type stop struct {
	score float32
	row   int32
}

// place is its row.
func (s stop) place() int32 {
	if s.row < 0 {
		return -1 - s.row
	}
	return s.row
}

// walker is what one walk at a time needs.
type walker struct {
	web     *Web
	probe   kern.Probe
	seen    []uint64  // rows that were looked at, in bits
	path    []int32   // the same, as they came
	met     []float32 // their scores
	stops   []stop    // best first
	ids     []int32
	doors   []float32 // their scores
	scores  []float32
	offsets []float32 // by field; nil: none
	fields  []uint16
	slope   float32
	values  []float32
}

func newWalker(w *Web) *walker {
	most := max(w.Degree()+1, mostDoors)
	return &walker{web: w, seen: make([]uint64, (w.Rows()+63)/64), ids: make([]int32, 0, most),
		scores: make([]float32, most)}
}

// ask makes scores those of a query. It reports false where that is not finite, too large or too small.
func (x *walker) ask(s *Walk) bool {
	q := s.Query
	x.offsets, x.fields, x.slope, x.values = nil, s.Fields, q.Slope, s.Values
	if !q.Even() {
		x.offsets = q.Offsets
	}
	return x.web.codes.Ask(&x.probe, q.Vector)
}

// begin forgets the last walk.
func (x *walker) begin() {
	for _, i := range x.path {
		x.seen[i/64] = 0
	}
	x.stops, x.path, x.met = x.stops[:0], x.path[:0], x.met[:0]
}

// look scores the rows in ids.
func (x *walker) look() []float32 {
	z := x.scores[:len(x.ids)]
	x.web.codes.DotsAt(z, &x.probe, x.ids)
	if x.offsets != nil {
		for k, i := range x.ids {
			z[k] += x.offsets[x.fields[i]]
		}
	}
	if x.slope != 0 {
		for k, i := range x.ids {
			z[k] += x.slope * x.values[i]
		}
	}
	return z
}

// keep puts a row among the stops, of which there are at most width, and returns its place; width if it has none.
func (x *walker) keep(s stop, width int) int {
	n := len(x.stops)
	if n == width && !(s.score > x.stops[n-1].score) {
		return width
	}
	if n < width {
		x.stops = append(x.stops, s)
		n++
	}
	lo, hi := 0, n-1
	for lo < hi {
		if mid := (lo + hi) / 2; x.stops[mid].score < s.score {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	copy(x.stops[lo+1:], x.stops[lo:n-1])
	x.stops[lo] = s
	return lo
}

// enter begins at the best of the doors.
func (x *walker) enter(width int) {
	x.ids = append(x.ids[:0], x.web.doors...)
	z := x.look()
	x.doors = append(x.doors[:0], z...)
	for k, i := range x.ids {
		x.keep(stop{z[k], i}, min(entered, width))
	}
	for _, s := range x.stops {
		x.first(s.row)
		x.met = append(x.met, s.score)
	}
}

// first reports whether a row is looked at for the first time.
func (x *walker) first(i int32) bool {
	word, bit := &x.seen[i/64], uint64(1)<<(i%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	x.path = append(x.path, i)
	return true
}

// walk goes from the doors to the best rows, until the links of all of the width best were looked at.
func (x *walker) walk(width int) {
	w := x.web
	x.begin()
	x.enter(width)
	for at := 0; at < len(x.stops); {
		row := x.stops[at].row
		if row < 0 {
			at++
			continue
		}
		x.stops[at].row = -1 - row
		next := at + 1
		for next < len(x.stops) && x.stops[next].row < 0 {
			next++
		}
		if next < len(x.stops) {
			x.probe.Ahead = w.links.record(x.stops[next].row)
		}
		leads := w.links.next(x.ids[:0], row)
		x.ids = leads[:0]
		for _, j := range leads {
			if x.first(j) {
				x.ids = append(x.ids, j)
			}
		}
		if len(x.ids) > 0 {
			scores := x.look()
			x.met = append(x.met, scores...)
			for k, z := range scores {
				next = min(next, x.keep(stop{z, x.ids[k]}, width))
			}
		}
		at = next
	}
	for k, i := range w.doors { // those that no link leads to
		if z := x.doors[k]; x.first(i) {
			x.met = append(x.met, z)
			x.keep(stop{z, -1 - i}, width)
		}
	}
}
