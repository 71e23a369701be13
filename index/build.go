package index

import (
	"cmp"
	"context"
	"slices"

	"unseen/internal/kern"
	"unseen/progress"
)

// builder adds rows to a web.
type builder struct {
	*Web
	o       Options
	width   int
	threads int
	rooms   []*workroom
	count   int // rows that are linked

	// of a batch, and used again by the next
	found  []int32  // the links of each new row
	back   []uint64 // a row that is there, and the place of the new one
	starts []int    // where those of each row begin in back
	places []uint64 // see byCluster
	order  []int32
}

// workroom is what one thread needs.
type workroom struct {
	walker *walker
	probe  kern.Probe
	scores []float32
	kept   []int32
	near   []stop
	// links of a row of an older web, and of one that it linked to
	before, beyond []int32
	// squares of near rows and of those that are kept
	squares     []float32
	keptSquares []float32
}

func newBuilder(w *Web, o Options) *builder {
	b := &builder{Web: w, o: o, width: o.Width, threads: kern.Threads(o.Threads)}
	if b.width == 0 {
		b.width = StandardWidth
	}
	for range b.threads {
		b.rooms = append(b.rooms, &workroom{walker: newWalker(w), scores: make([]float32, w.Degree())})
	}
	return b
}

// add links rows, in their order.
func (b *builder) add(ctx context.Context, order []int32) error {
	total := int64(len(order))
	for len(order) > 0 {
		if b.o.Progress != nil {
			b.o.Progress(progress.Event{Phase: "linking vectors that are near each other",
				Done: total - int64(len(order)), Of: total})
		}
		size := min(max(b.count/batchShare, min(firstBatch, max(b.count, 1))), mostBatch, len(order))
		if err := b.batch(ctx, order[:size]); err != nil {
			return err
		}
		order = order[size:]
	}
	return nil
}

// batch links rows to those that are there, and those back to them.
func (b *builder) batch(ctx context.Context, rows []int32) error {
	degree := b.Degree()
	b.found = sized(b.found, len(rows)*degree)
	found, order := b.found, b.byCluster(len(rows), func(k int32) int32 { return rows[k] })
	if err := kern.ChunksErr(ctx, len(rows), 16, b.threads, func(worker, _, from, to int) error {
		room := b.rooms[worker]
		for _, k := range order[from:to] {
			b.find(room, rows[k])
			set(found[int(k)*degree:][:degree], room.kept)
		}
		return nil
	}); err != nil {
		return err
	}
	back, starts := b.back[:0], b.starts[:0]
	for k, i := range rows {
		near := linked(found[k*degree:][:degree])
		b.links.setNear(i, near)
		for _, j := range near {
			back = append(back, uint64(j)<<32|uint64(k))
		}
		if len(b.doors) < mostDoors {
			b.doors = append(b.doors, i)
		}
	}
	b.count += len(rows)
	slices.Sort(back)
	for k, x := range back {
		if k == 0 || x>>32 != back[k-1]>>32 {
			starts = append(starts, k)
		}
	}
	starts = append(starts, len(back))
	b.back, b.starts = back, starts
	order = b.byCluster(len(starts)-1, func(s int32) int32 { return int32(back[starts[s]] >> 32) })
	return kern.ChunksErr(ctx, len(order), 16, b.threads, func(worker, _, from, to int) error {
		for _, s := range order[from:to] {
			end := starts[s+1]
			b.linkBack(b.rooms[worker], int32(back[starts[s]]>>32), back[starts[s]:end], rows)
		}
		return nil
	})
}

// set puts links into places, of which there may be more.
func set(places, links []int32) {
	for k := copy(places, links); k < len(places); k++ {
		places[k] = -1
	}
}

// linked returns the links before the first place without one.
func linked(places []int32) []int32 {
	if end := slices.Index(places, -1); end >= 0 {
		return places[:end]
	}
	return places
}

// byCluster is an order in which to look at rows, given their number and which they are: those near each other come one
// after another, so that what one has walked over is still in a cache for the next.
func (b *builder) byCluster(count int, row func(k int32) int32) []int32 {
	b.places, b.order = sized(b.places, count), sized(b.order, count)
	for k := range b.places {
		b.places[k] = uint64(b.clusters.first[row(int32(k))])<<32 | uint64(k)
	}
	slices.Sort(b.places)
	for at, x := range b.places {
		b.order[at] = int32(uint32(x))
	}
	return b.order
}

// find finds what a new row is linked to.
func (b *builder) find(room *workroom, i int32) {
	x := room.walker
	b.codes.AskRow(&x.probe, i)
	x.walk(b.width)
	room.near = room.near[:0]
	for _, s := range x.stops {
		room.near = append(room.near, stop{s.score, s.place()})
	}
	b.choose(room, i, b.Degree())
}

// linkBack links a row to new ones that were linked to it.
func (b *builder) linkBack(room *workroom, i int32, back []uint64, rows []int32) {
	all := b.links.near(room.kept[:0], i)
	for _, x := range back {
		all = append(all, rows[uint32(x)])
	}
	if room.kept = all; len(all) <= b.Degree() {
		b.links.setNear(i, all)
		return
	}
	b.sortNear(room, i)
	b.choose(room, i, b.Degree())
	b.links.setNear(i, room.kept)
}

// sortNear makes the rows that a room has kept those near a row, nearest first.
func (b *builder) sortNear(room *workroom, i int32) {
	b.codes.AskRow(&room.probe, i)
	if len(room.scores) < len(room.kept) {
		room.scores = make([]float32, 2*len(room.kept))
	}
	b.codes.DotsAt(room.scores, &room.probe, room.kept)
	room.near = room.near[:0]
	for k, j := range room.kept {
		room.near = append(room.near, stop{room.scores[k], j})
	}
	slices.SortFunc(room.near, func(x, y stop) int {
		return cmp.Or(cmp.Compare(y.score, x.score), cmp.Compare(x.row, y.row))
	})
}

// apartness is how much nearer to a row than to one that it links to another must be to be linked too.
const apartness = 1.1

// choose keeps of near rows, nearest first, those that no nearer one leads to.
func (b *builder) choose(room *workroom, i int32, most int) {
	room.kept, room.keptSquares = room.kept[:0], room.keptSquares[:0]
	if len(room.scores) < most {
		room.scores = make([]float32, most)
	}
	own := b.square(i)
	// all of them before the first is needed, since the processor then reads many at once
	room.squares = sized(room.squares, len(room.near))
	for k, s := range room.near {
		room.squares[k] = b.square(s.row)
	}
	for at, s := range room.near {
		if s.row == i {
			continue
		}
		if len(room.kept) == most {
			return
		}
		square := room.squares[at]
		distance := own + square - 2*s.score
		good := true
		if len(room.kept) > 0 {
			b.codes.AskRow(&room.probe, s.row)
			b.codes.DotsAt(room.scores, &room.probe, room.kept)
			for k, other := range room.keptSquares {
				between := square + other - 2*room.scores[k]
				if apartness*between <= distance {
					good = false
					break
				}
			}
		}
		if good {
			room.kept, room.keptSquares = append(room.kept, s.row), append(room.keptSquares, square)
		}
	}
}

// square is the squared length of a row.
func (w *Web) square(i int32) float32 { return w.codes.Length(i) * w.codes.Length(i) }
