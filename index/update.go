package index

import (
	"context"
	"runtime"
	"slices"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
)

// Update makes the web of vectors of which most are those of an older web, in any order: rows that it has keep their
// links, rows that went are linked around, and new ones are linked. Where fewer than half are known it is made anew. Of
// the options Degree is the older web's.
func Update(ctx context.Context, old *Web, v *graph.Vectors, o Options) (*Web, error) {
	sketch, err := engine.NewSketch(v, o.Threads)
	if err != nil {
		return nil, err
	}
	if o.Degree = old.Degree(); v.Dim() != old.sketch.Parts().Dim {
		return Build(ctx, v, o)
	}
	w := newWeb(sketch)
	firsts, twins := w.pair()
	w.makeRoom(o.Degree, twins)
	known, fresh, to := w.match(firsts, old)
	if 2*known < w.Rows() {
		return Build(ctx, v, o)
	}
	if w.clusters, err = old.clusters.carried(ctx, v, to, w, o.Threads); err != nil {
		return nil, err
	}
	b := newBuilder(w, o)
	b.count = known
	for _, i := range old.doors {
		if to[i] >= 0 {
			w.doors = append(w.doors, to[i])
		}
	}
	if err := kern.ChunksErr(ctx, len(to), 256, b.threads, func(worker, _, from, end int) error {
		for i := from; i < end; i++ {
			if to[i] >= 0 {
				b.carry(b.rooms[worker], old, int32(i), to)
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	runtime.KeepAlive(old) // whose memory is not the collector's
	return w, b.add(ctx, shuffled(fresh, o.Seed))
}

// match returns which row the first of twins is now, −1 if it went or is no first one; how many are known; and the
// others of the firsts of today.
func (w *Web) match(firsts []keyed, old *Web) (known int, fresh []keyed, to []int32) {
	to = make([]int32, old.Rows())
	later := make([]bool, old.Rows()) // has a twin before it
	for i := range to {
		to[i] = -1
		if twin := old.links.twin(int32(i)); twin >= 0 {
			later[twin] = true
		}
	}
	var before []keyed
	for i := range to {
		if !later[i] {
			before = append(before, keyed{hashOf(old.codes.CodesOf(int32(i))), int32(i)})
		}
	}
	slices.SortFunc(before, byKey)
	for _, x := range firsts {
		at, _ := slices.BinarySearchFunc(before, keyed{x.key, -1}, byKey)
		for ; at < len(before) && before[at].key == x.key; at++ {
			if y := before[at].row; to[y] < 0 && w.codes.Alike(x.row, old.codes, y) {
				to[y] = x.row
				break
			}
		}
		if at < len(before) && before[at].key == x.key {
			known++
		} else {
			fresh = append(fresh, x)
		}
	}
	return known, fresh, to
}

// carry gives a row the links that it had. Where one went, those that the row linked to lead on.
func (b *builder) carry(room *workroom, old *Web, i int32, to []int32) {
	room.kept, room.before = room.kept[:0], old.links.near(room.before[:0], i)
	lost := false
	for _, j := range room.before {
		if to[j] >= 0 {
			room.kept = append(room.kept, to[j])
		} else {
			lost = true
		}
	}
	if lost {
		for _, j := range room.before {
			if to[j] >= 0 {
				continue
			}
			room.beyond = old.links.near(room.beyond[:0], j)
			for _, next := range room.beyond {
				if at := to[next]; at >= 0 && at != to[i] && !slices.Contains(room.kept, at) {
					room.kept = append(room.kept, at)
				}
			}
		}
		b.sortNear(room, to[i])
		b.choose(room, to[i], b.Degree())
	}
	b.links.setNear(to[i], room.kept)
}
