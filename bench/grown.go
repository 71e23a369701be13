package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"time"
	"unsafe"

	"unseen/engine"
	"unseen/graph"
	"unseen/index"
	"unseen/internal/kern"
	"unseen/recommend"
)

// grown is the index of more rows than any dataset here has, -rows of them, grown from the rows of -data. The peer is
// the goal. They run only when named: ten million rows take an hour and 10 GB of disk.
var grown = []comparison{
	{"grown-build", "the index of -rows rows, grown from those of -data, on all processors, against 40 min per 10M", 1,
		"rows/s", func(b *bench) (float64, float64, error) {
			g, err := b.growIndex()
			return float64(b.rows) / g.seconds, 10e6 / (40 * 60), err
		}},
	{"grown-memory", "rows per gigabyte that this takes beside the mapped rows, against 4 GB per 10M", 1, "rows/GB",
		func(b *bench) (float64, float64, error) {
			g, err := b.growIndex()
			return float64(b.rows) / g.gigabytes, 10e6 / 4, err
		}},
	{"grown-950", "queries/s on all processors that find .95 of the hundred best, against 500", 1, "queries/s",
		func(b *bench) (float64, float64, error) {
			g, err := b.growIndex()
			if err != nil {
				return 0, 0, err
			}
			ours, err := g.fastest(b, .95, func(width int) (float64, [][]int32, error) {
				began := time.Now()
				found, err := g.web.TopK(context.Background(), g.search, min(width, index.MostWidth), 0)
				return time.Since(began).Seconds(), idsOf(found), err
			})
			return ours, 500, err
		}},
	{"grown-lists", "lists/s of all rows on all processors that find .98 of the hundred best, against 15 s per 217k", 1,
		"lists/s", func(b *bench) (float64, float64, error) {
			g, err := b.growIndex()
			if err != nil {
				return 0, 0, err
			}
			ours, err := g.allLists(b, .98)
			return ours, 217_000 / 15., err
		}},
}

// grownIndex is a madeGraph, what it took, and the weights of its queries.
type grownIndex struct {
	*madeGraph
	gigabytes float64
	weights   []float32
}

// growIndex grows the rows and makes their index, once.
func (b *bench) growIndex() (*grownIndex, error) {
	if b.large != nil {
		return b.large, nil
	}
	none := &grownIndex{madeGraph: &madeGraph{seconds: math.Inf(1)}, gigabytes: math.Inf(1)}
	m, free, err := b.searched(20_000, 256)
	if err != nil {
		return none, err
	}
	g := &grownIndex{madeGraph: &madeGraph{}}
	ctx := context.Background()
	err = b.part("growing rows", func() (err error) { g.rows, err = b.grow(ctx, m); return err })
	if err == nil {
		g.queries, err = asked(m, graphQueries)
	}
	err = errors.Join(err, free())
	if m, free = nil, nil; err != nil { // nothing of -data counts as the index's memory
		return none, err
	}
	runtime.GC()
	g.weights = drawnWeights(g.rows.Dim(), rand.New(rand.NewPCG(3, 1))) // which those asked have
	if b.model != "" {
		if g.weights, err = weightsOf(b.model, g.rows.Dim()); err != nil {
			return none, err
		}
		if err := weigh(g.queries, kern.MatrixOf(g.rows), b.model); err != nil {
			return none, err
		}
	}
	g.search = engine.TargetSearch{Targets: g.rows, K: k}
	for q := range g.queries.Rows() {
		g.search.Queries = append(g.search.Queries, engine.SearchQuery{Vector: g.queries.Row(q)})
	}
	b.peak = 0
	began := time.Now()
	if err := b.part("linking", func() (err error) {
		g.web, err = index.Build(ctx, g.rows, index.Options{})
		return err
	}); err != nil {
		return none, err
	}
	g.seconds, g.gigabytes = time.Since(began).Seconds(), float64(b.peak)/1e9
	if err := b.part("exact search", func() (err error) {
		exact := g.search
		exact.Sketch = g.web.Sketch()
		g.exact, err = engine.CPU{}.TopK(ctx, exact)
		return err
	}); err != nil {
		return none, err
	}
	b.large = g
	return g, nil
}

// allLists makes the list of every row by as few clusters of the index as find a share of the best, exactly where none
// do, and returns how many it makes a second.
func (g *grownIndex) allLists(b *bench, recall float64) (float64, error) {
	ctx := context.Background()
	made, together := "exact", 960 // as recommend has it
	top := func(s engine.TargetSearch) ([][]engine.Hit, error) {
		s.Sketch = g.web.Sketch()
		return engine.CPU{}.TopK(ctx, s)
	}
	for _, count := range recommend.ClusterCounts(g.web.Clusters()) {
		found, err := g.web.Many(ctx, g.search, count, 0)
		if err != nil {
			return 0, err
		}
		if share := g.share(idsOf(found)); share >= recall {
			made = fmt.Sprintf("by %d of %d clusters, which find %.3f", count, g.web.Clusters(), share)
			together = 1 << 16
			top = func(s engine.TargetSearch) ([][]engine.Hit, error) { return g.web.Many(ctx, s, count, 0) }
			break
		}
	}
	fmt.Fprintf(b.notes, "all lists of %d rows, %s\n", g.rows.Len(), made)
	began := time.Now()
	err := b.part("all lists", func() error {
		for from := 0; from < g.rows.Len(); from += together {
			if _, err := top(g.asking(from, min(from+together, g.rows.Len()))); err != nil {
				return err
			}
		}
		return nil
	})
	return float64(g.rows.Len()) / time.Since(began).Seconds(), err
}

// asking is the search for the best of some rows, without themselves.
func (g *grownIndex) asking(from, to int) engine.TargetSearch {
	s := g.search
	s.Queries = make([]engine.SearchQuery, to-from)
	kern.Chunks(to-from, 1024, kern.Threads(0), func(_, _, first, end int) {
		for q := first; q < end; q++ {
			row := make([]float32, len(g.weights))
			g.rows.Load(row, int32(from+q))
			for d, w := range g.weights {
				row[d] *= w
			}
			s.Queries[q] = engine.SearchQuery{Vector: row, Skip: []int32{int32(from + q)}}
		}
	})
	return s
}

// growth is how much of a difference of two rows is added to a third.
const growth = .5

// grow writes rows to a file of -dir and maps them: a row, plus a share of the difference of two others, as long as the
// row. Differences of rows have their spectrum. The file has no name any more when it is mapped.
func (b *bench) grow(ctx context.Context, m *kern.Matrix) (_ *graph.Vectors, err error) {
	file, err := os.CreateTemp(b.dir, "unseen-grown")
	if err != nil {
		return nil, fmt.Errorf("%w; name a folder by -dir", err)
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	const rowsAtOnce = 4096
	dim, size := m.Dim(), 4*m.Dim()
	if err := kern.ChunksErr(ctx, b.rows, rowsAtOnce, kern.Threads(0), func(_, _, from, to int) error {
		numbers, first, second := make([]float32, (to-from)*dim), make([]float32, dim), make([]float32, dim)
		for i := from; i < to; i++ {
			row := numbers[(i-from)*dim:][:dim]
			for k, dst := range [][]float32{row, first, second} {
				m.Load(dst, int(mix(uint64(3*i+k))%uint64(m.Rows())))
			}
			length, grown := 0., 0.
			for d, x := range row {
				y := x + growth*(first[d]-second[d])
				length, grown = length+float64(x)*float64(x), grown+float64(y)*float64(y)
				row[d] = y
			}
			scale := float32(math.Sqrt(length / max(grown, 1e-12)))
			for d := range row {
				row[d] *= scale
			}
		}
		_, err := file.WriteAt(unsafe.Slice((*byte)(unsafe.Pointer(&numbers[0])), 4*len(numbers)),
			int64(from)*int64(size))
		return err
	}); err != nil {
		return nil, fmt.Errorf("%w; name a folder with %.1f GB free by -dir", err, float64(b.rows)*float64(size)/1e9)
	}
	return graph.MapVectors(file, 0, b.rows, dim, false)
}
