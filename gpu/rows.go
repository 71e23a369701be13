package gpu

import (
	"math"
	"slices"
	"unsafe"

	"unseen/graph"
	"unseen/internal/kern"
)

// memory is what is taken of a card and given back together.
type memory struct {
	device *Device
	held   []*array
}

func (m *memory) take(bytes uint64) (*array, error) {
	a, err := m.device.allocate(bytes)
	if err == nil {
		m.held = append(m.held, a)
	}
	return a, err
}

// reserve takes memory and notes where it is.
func (m *memory) reserve(address *uint64, bytes int) error {
	a, err := m.take(uint64(bytes))
	if err == nil {
		*address = a.address
	}
	return err
}

// at is the memory that begins at an address.
func (m *memory) at(address uint64) *array {
	return m.held[slices.IndexFunc(m.held, func(a *array) bool { return a.address == address })]
}

// spare keeps the memory for what comes next.
func (m *memory) spare() {
	for _, a := range m.held {
		a.spared()
	}
	m.held = nil
}

// free gives the memory back.
func (m *memory) free() {
	for _, a := range m.held {
		a.free()
	}
	m.held = nil
}

// upload puts values into memory of their own and notes where they are.
func upload[T any](m *memory, address *uint64, values []T) error {
	var one T
	a, err := m.take(uint64(len(values)) * uint64(unsafe.Sizeof(one)))
	if err != nil {
		return err
	}
	*address = a.address
	return put(a, 0, values)
}

// cardRows are rows of targets on the card, in float32 and, where searches use them, in float16 times a power of two.
type cardRows struct {
	memory
	vectors      *graph.Vectors
	first, count int
	wide, narrow *array
	scale        float32
	length, rest float64 // of the longest row, and the most that float16 loses of one
}

// of are the rows in a format.
func (r *cardRows) of(format RowFormat) *array {
	if format == Float16 {
		return r.narrow
	}
	return r.wide
}

// hostRoom is memory of this machine that is used again and again.
type hostRoom struct {
	wide   []float32
	narrow []uint16

	// queries of a search, what brings their products back to scale, and how far these may be off
	queries []int
	scales  []float32
	bounds  []queryBound
	// what was found of each
	counts []uint32
	least  []float32
	kept   [][2]uint32
}

// found makes room for what is found of so many queries.
func (h *hostRoom) found(queries, keep int) {
	h.counts, h.least = make([]uint32, queries), make([]float32, queries)
	h.kept = slices.Grow(h.kept[:0], queries*keep)[:queries*keep]
}

// rows is room for so many numbers in both formats.
func (h *hostRoom) rows(n int) ([]float32, []uint16) {
	h.wide, h.narrow = slices.Grow(h.wide[:0], n)[:n], slices.Grow(h.narrow[:0], n)[:n]
	return h.wide, h.narrow
}

// mostHeld is of how many vectors the rows stay on the card: those that lists are ordered by, and a naive model's.
const mostHeld = 2

// hold returns rows on the card, which stay there until others need the room.
func (e *OnCard) hold(v *graph.Vectors, first, count int, format RowFormat) (*cardRows, error) {
	for _, r := range e.held {
		if r.vectors == v && r.first == first && r.count == count && (r.narrow != nil || format != Float16) {
			return r, nil
		}
	}
	for len(e.held) >= mostHeld {
		e.held[0].free()
		e.held = e.held[1:]
	}
	r, err := e.fetch(v, first, count, format)
	if err != nil && len(e.held) > 0 {
		e.release()
		r, err = e.fetch(v, first, count, format)
	}
	if err == nil {
		e.held = append(e.held, r)
	}
	return r, err
}

// release frees the rows that are held.
func (e *OnCard) release() {
	for _, r := range e.held {
		r.free()
	}
	e.held = nil
	if e.learns != nil {
		e.learns.free()
		e.learns = nil
	}
}

// Close frees what the engine holds on its card, which stays open.
func (e *OnCard) Close() error {
	return e.turn(func() error {
		e.release()
		e.device.trim()
		return nil
	})
}

// fetch copies rows to the card.
func (e *OnCard) fetch(v *graph.Vectors, first, count int, format RowFormat) (_ *cardRows, err error) {
	if err := e.loadLists(); err != nil {
		return nil, err
	}
	r := &cardRows{memory: memory{device: e.device}, vectors: v, first: first, count: count}
	defer func() {
		if err != nil {
			r.free()
		}
	}()
	matrix, threads, width := kern.MatrixOf(v), kern.Threads(e.Threads), e.findKernel(format).padded(v.Dim())
	if r.wide, err = r.take(uint64(count) * uint64(width) * 4); err != nil {
		return nil, err
	}
	if format == Float16 {
		if r.narrow, err = r.take(uint64(count) * uint64(width) * 2); err != nil {
			return nil, err
		}
		r.scale = powerOf(largest(matrix, first, count, threads))
	}
	const together, part = 1 << 14, 64
	vectors, halves := new(hostRoom).rows(min(together, count) * width)
	for from := 0; from < count; from += together {
		some := min(together, count-from)
		lengths, rests := make([]float64, some), make([]float64, some)
		kern.Chunks(some, part, threads, func(_, _, low, high int) {
			scratch := make([]float32, 2*width)
			for k := low; k < high; k++ {
				row := vectors[k*width:][:width]
				matrix.Load(row[:v.Dim()], first+from+k)
				if lengths[k] = math.Sqrt(squares(row)); format == Float16 {
					rests[k] = halve(halves[k*width:][:width], row, scratch, r.scale)
				}
			}
		})
		r.length, r.rest = max(r.length, slices.Max(lengths)), max(r.rest, slices.Max(rests))
		if err := put(r.wide, uint64(from)*uint64(width)*4, vectors[:some*width]); err != nil {
			return nil, err
		}
		if format == Float16 {
			if err := put(r.narrow, uint64(from)*uint64(width)*2, halves[:some*width]); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// largest is the largest number of some rows, whatever its sign.
func largest(rows *kern.Matrix, first, count, threads int) (most float32) {
	const part = 4096
	each := make([]float32, (count+part-1)/part)
	kern.Chunks(count, part, threads, func(_, number, from, to int) {
		row := make([]float32, rows.Dim())
		for k := from; k < to; k++ {
			rows.Load(row, first+k)
			each[number] = largestOf(each[number], row)
		}
	})
	return slices.Max(each)
}
