package index

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/progress"
)

// Options say how a web is made.
type Options struct {
	Degree   int    // links of a row at most; 0 means StandardDegree
	Width    int    // rows that are looked at again to link a new one; 0 means StandardWidth
	Seed     uint64 // of the order in which rows come
	Threads  int    // 0 means all processors; the web does not depend on it
	Progress progress.Func
}

// What Options mean by 0.
const (
	StandardDegree = 31 // with the twin, a line and a half of a cache
	StandardWidth  = 128
)

// mostDegree bounds Options.Degree.
const mostDegree = 255

// Web links every row of a matrix to rows near it, so that a walk from link to link finds the rows whose inner products
// with a query are the largest, having looked at few of them. It is made of the rows alone: queries of every model find
// their best in it. It may be used by many goroutines at once.
type Web struct {
	sketch   *engine.Sketch
	codes    *kern.Codes // of the sketch
	links    links
	doors    []int32 // where walks begin
	clusters *clusters
	rooms    sync.Pool
	memory   *kern.Mapped // of a web that was opened; nil of one that was built
}

// How many rows are doors, and at how many of them a walk begins.
const (
	mostDoors = 1024
	entered   = 8
)

// Rows are added in batches: those of a batch find only what earlier ones have added, so that threads do not matter.
const (
	firstBatch = 64
	batchShare = 50 // a batch is at most one in so many of the rows that are there
	mostBatch  = 1 << 16
)

// manyRows are so many that memory is given back to the system before room is made for their links.
const manyRows = 500_000

// Build makes the web of vectors.
func Build(ctx context.Context, v *graph.Vectors, o Options) (*Web, error) {
	sketch, err := engine.NewSketch(v, o.Threads)
	if err != nil {
		return nil, err
	}
	w := newWeb(sketch)
	if w.clusters, err = makeClusters(ctx, v, o); err != nil {
		return nil, err
	}
	firsts, twins := w.pair()
	order := shuffled(firsts, o.Seed) // before there is room for links, so that not all is in memory at once
	firsts = nil
	if w.Rows() >= manyRows {
		debug.FreeOSMemory()
	}
	w.makeRoom(o.degree(), twins)
	return w, newBuilder(w, o).add(ctx, order)
}

// shuffled puts rows into the order in which they come.
func shuffled(rows []keyed, seed uint64) []int32 {
	order := make([]int32, len(rows))
	for k, at := range rand.New(rand.NewPCG(seed, 0x3eb)).Perm(len(rows)) {
		order[k] = rows[at].row
	}
	return order
}

// keyed is a row with a hash of its codes.
type keyed struct {
	key uint64
	row int32
}

func byKey(a, b keyed) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.row, b.row)) }

// twins are two rows with equal codes, of which the second is the next after the first.
type twins [2]int32

// pair finds rows with equal codes, and returns the first of each, by their keys.
func (w *Web) pair() (firsts []keyed, pairs []twins) {
	all := make([]keyed, w.Rows())
	for i := range all {
		all[i] = keyed{hashOf(w.codes.CodesOf(int32(i))), int32(i)}
	}
	slices.SortFunc(all, byKey)
	firsts = all[:0]
	var last []int32 // of the twins of each of the firsts with this key
	for k, x := range all {
		if k == 0 || x.key != all[k-1].key {
			last = last[:0]
		}
		same := slices.IndexFunc(last, func(j int32) bool { return w.codes.Alike(x.row, w.codes, j) })
		if same < 0 {
			firsts, last = append(firsts, x), append(last, x.row)
			continue
		}
		pairs = append(pairs, twins{last[same], x.row})
		last[same] = x.row
	}
	return firsts, pairs
}

// hashOf is FNV-1a by words of eight bytes.
func hashOf(codes []uint8) uint64 {
	key := uint64(14695981039346656037)
	for ; len(codes) >= 8; codes = codes[8:] {
		key = (key ^ binary.LittleEndian.Uint64(codes)) * 1099511628211
		key ^= key >> 32
	}
	return key
}

func (o Options) degree() int {
	if o.Degree == 0 {
		return StandardDegree
	}
	return o.Degree
}

// newWeb returns a web that has no room for links yet.
func newWeb(sketch *engine.Sketch) *Web {
	w := &Web{sketch: sketch, codes: kern.CodesIn(sketch)}
	w.rooms.New = func() any { return newWalker(w) }
	return w
}

// makeRoom makes room for links, of which there are none but those of twins.
func (w *Web) makeRoom(degree int, of []twins) {
	w.links = newLinks(w.Rows(), wideFor(w.Rows()), degree)
	for _, pair := range of {
		w.links.setTwin(pair[0], pair[1])
	}
}

// Rows returns the number of rows.
func (w *Web) Rows() int { return w.codes.Rows() }

// Degree is how many links a row has at most.
func (w *Web) Degree() int { return w.links.degree }

// Sketch returns the codes of the rows, by which an engine finds the best exactly.
func (w *Web) Sketch() *engine.Sketch { return w.sketch }

// Bytes returns how much memory the web takes.
func (w *Web) Bytes() int {
	c := w.clusters
	return w.codes.Bytes() + len(w.links.bytes) +
		4*(len(w.doors)+c.centres.Len()*c.centres.Dim()+len(c.first)+len(c.second))
}

// String describes the web.
func (w *Web) String() string {
	return fmt.Sprintf("%d rows, %d links each at most, %d bytes", w.Rows(), w.Degree(), w.Bytes())
}
