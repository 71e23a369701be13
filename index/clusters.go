package index

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/progress"
)

// clusters are groups of rows around centres. A query looks at all rows of the few clusters whose centres are best for
// it: of many queries at once, by block products.
//
// A row is in two clusters: that of the nearest centre, and one whose centre is near in another direction, so that a
// query that the first centre is bad for has a good chance with the second (Sun et al., "SOAR", 2023).
type clusters struct {
	centres *graph.Vectors
	codes   *engine.Sketch // of the centres
	squares []float32      // −|c|²/2, with which the largest score is that of the nearest centre
	first   []int32        // the nearest centre of each row, and the second
	second  []int32
	lists   func() kern.RowLists // of rows, by cluster; made when they are first needed
}

// How clusters are made.
const (
	clusterFactor = 4       // times the root of the number of rows is how many there are
	clusterSample = 64      // rows of each that centres are found by
	clusterRounds = 8       // of moving each centre to the mean of its rows
	nearCentres   = 16      // of a row, among which the second is chosen
	assignedRows  = 4096    // at a time
	mostPanels    = 1 << 28 // bytes of rows that are kept as many queries need them
)

// ClustersOf says how many clusters so many rows have.
func ClustersOf(rows int) int { return min(int(clusterFactor*math.Sqrt(float64(rows))), rows) }

// makeClusters groups rows.
func makeClusters(ctx context.Context, v *graph.Vectors, o Options) (*clusters, error) {
	count := ClustersOf(v.Len())
	order := rand.New(rand.NewPCG(o.Seed, 0xc1)).Perm(v.Len())
	sample := make([]int32, min(clusterSample*count, v.Len()))
	for k := range sample {
		sample[k] = int32(order[k])
	}
	centres, err := graph.NewVectors(count, v.Dim())
	if err != nil {
		return nil, err
	}
	row := make([]float32, v.Dim())
	for k := range count {
		v.Load(row, sample[k])
		if err := centres.Set(int32(k), row); err != nil {
			return nil, err
		}
	}
	slices.Sort(sample)
	c := newClusters(centres)
	for round := range clusterRounds {
		if o.Progress != nil {
			o.Progress(progress.Event{Phase: "grouping vectors", Done: int64(round), Of: clusterRounds + 1})
		}
		if err := c.code(o.Threads); err != nil {
			return nil, err
		}
		nearest := make([]int32, len(sample))
		if err := c.nearest(ctx, v, sample, 1, o.Threads, func(at int, near []kern.RowScore, _ []float32) {
			nearest[at] = near[0].Row
		}); err != nil {
			return nil, err
		}
		if err := c.move(v, sample, nearest, o.Threads); err != nil {
			return nil, err
		}
	}
	if err := c.arrange(); err != nil {
		return nil, err
	}
	if err := c.code(o.Threads); err != nil {
		return nil, err
	}
	c.first, c.second = make([]int32, v.Len()), make([]int32, v.Len())
	if err := c.assign(ctx, v, allRows(v.Len()), o.Threads); err != nil {
		return nil, err
	}
	return c, nil
}

// newClusters returns clusters without rows.
func newClusters(centres *graph.Vectors) *clusters {
	c := &clusters{centres: centres}
	c.lists = sync.OnceValue(c.sorted)
	return c
}

// allRows counts rows.
func allRows(n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(i)
	}
	return out
}

// code makes what is made of the centres.
func (c *clusters) code(threads int) (err error) {
	c.codes, err = engine.NewSketch(c.centres, threads)
	c.squares = make([]float32, c.centres.Len())
	row := make([]float32, c.centres.Dim())
	for k := range c.squares {
		c.centres.Load(row, int32(k))
		var square float64
		for _, x := range row {
			square += float64(x) * float64(x)
		}
		c.squares[k] = float32(-square / 2)
	}
	return err
}

// nearest hands the nearest centres of rows to use, in no order, with their places in rows and what they are. Where a
// row cannot be compared it is the first centre. It is called by several goroutines.
func (c *clusters) nearest(ctx context.Context, v *graph.Vectors, rows []int32, k, threads int,
	use func(at int, near []kern.RowScore, row []float32)) error {
	dim := v.Dim()
	return kern.ChunksErr(ctx, len(rows), assignedRows, kern.Threads(threads), func(_, _, from, to int) error {
		data, slopes := make([]float32, (to-from)*dim), slices.Repeat([]float32{1}, to-from)
		for at, i := range rows[from:to] {
			v.Load(data[at*dim:][:dim], i)
		}
		queries, err := kern.View(data, to-from, dim, dim)
		if err != nil {
			return err
		}
		found, err := kern.CodesIn(c.codes).Near(ctx, kern.NearSearch{CodeSearch: kern.CodeSearch{Queries: queries,
			K: k, Values: c.squares, Slopes: slopes}}, 1)
		for at, near := range found {
			if len(near) == 0 {
				near = []kern.RowScore{{}}
			}
			use(from+at, near, data[at*dim:][:dim])
		}
		return err
	})
}

// move puts centres to the means of their rows.
func (c *clusters) move(v *graph.Vectors, rows, nearest []int32, threads int) error {
	lists := listsOf(c.centres.Len(), nearest)
	return kern.ChunksErr(context.Background(), c.centres.Len(), 16, kern.Threads(threads),
		func(_, _, from, to int) error {
			sum, row := make([]float64, v.Dim()), make([]float32, v.Dim())
			for k := from; k < to; k++ {
				own := lists.Rows[lists.Starts[k]:lists.Starts[k+1]]
				if len(own) == 0 {
					continue
				}
				clear(sum)
				for _, at := range own {
					v.Load(row, rows[at])
					for d, x := range row {
						sum[d] += float64(x)
					}
				}
				for d, x := range sum {
					row[d] = float32(x / float64(len(own)))
				}
				if err := c.centres.Set(int32(k), row); err != nil {
					return err
				}
			}
			return nil
		})
}

// arrange numbers centres so that those near each other come together: queries that look at the same clusters are
// compared with them together.
func (c *clusters) arrange() error {
	dim, old := c.centres.Dim(), c.numbers()
	order := allRows(c.centres.Len())
	halve(order, old, dim)
	for k, from := range order {
		if err := c.centres.Set(int32(k), old[int(from)*dim:][:dim]); err != nil {
			return err
		}
	}
	return nil
}

// halve orders rows of numbers along the direction in which they differ most, and then each half of them.
func halve(rows []int32, numbers []float32, dim int) {
	if len(rows) <= 2 {
		return
	}
	row := func(i int32) []float32 { return numbers[int(i)*dim:][:dim] }
	mean, way, next := make([]float64, dim), make([]float64, dim), make([]float64, dim)
	for _, i := range rows {
		for d, x := range row(i) {
			mean[d] += float64(x) / float64(len(rows))
		}
	}
	along := func(i int32) (sum float64) {
		for d, x := range row(i) {
			sum += (float64(x) - mean[d]) * way[d]
		}
		return sum
	}
	for d := range way {
		way[d] = float64(row(rows[0])[d]) - mean[d] + 1e-6
	}
	for range 8 { // the power method
		clear(next)
		var square float64
		for _, i := range rows {
			z := along(i)
			for d, x := range row(i) {
				next[d] += z * (float64(x) - mean[d])
			}
		}
		for _, x := range next {
			square += x * x
		}
		for d, x := range next {
			way[d] = x / max(math.Sqrt(square), 1e-300)
		}
	}
	places := make(map[int32]float64, len(rows))
	for _, i := range rows {
		places[i] = along(i)
	}
	slices.SortFunc(rows, func(a, b int32) int { return cmp.Or(cmp.Compare(places[a], places[b]), cmp.Compare(a, b)) })
	halve(rows[:len(rows)/2], numbers, dim)
	halve(rows[len(rows)/2:], numbers, dim)
}

// assign finds both clusters of rows.
func (c *clusters) assign(ctx context.Context, v *graph.Vectors, rows []int32, threads int) error {
	matrix := kern.MatrixOf(c.centres)
	return c.nearest(ctx, v, rows, nearCentres, threads, func(at int, near []kern.RowScore, row []float32) {
		slices.SortFunc(near, func(a, b kern.RowScore) int { return int(a.Row - b.Row) })
		ids, products := make([]int32, len(near)), make([]float32, 2*len(near))
		for k, h := range near {
			ids[k] = h.Row
		}
		kern.Dots(products, row, matrix, ids)
		c.choose(rows[at], row, ids, products)
	})
}

// choose sets both clusters of a row, given the products with the centres near it.
func (c *clusters) choose(i int32, row []float32, ids []int32, products []float32) {
	best := 0
	for k, j := range ids {
		if products[k]+c.squares[j] > products[best]+c.squares[ids[best]] {
			best = k
		}
	}
	// of what the row is apart from its centre, the rest, the second centre is to leave as little as it can
	centre := make([]float32, len(row))
	c.centres.Load(centre, ids[best])
	others := products[len(ids):]
	kern.Dots(others, centre, kern.MatrixOf(c.centres), ids)
	var square, rest float64
	for d, x := range row {
		square += float64(x) * float64(x)
		rest += float64(x-centre[d]) * float64(x-centre[d])
	}
	second, least := ids[best], math.Inf(1)
	for k, j := range ids {
		if k == best {
			continue
		}
		distance := square - 2*float64(products[k]+c.squares[j])
		// ⟨rest, row − centre j⟩, where rest = row − centre
		along := square - float64(products[k]) - float64(products[best]) + float64(others[k])
		if loss := distance + along*along/max(rest, 1e-12); loss < least {
			second, least = j, loss
		}
	}
	c.first[i], c.second[i] = ids[best], second
}

// listsOf sorts rows by the lists that they are in, −1 being none; rows of several arrays are the same ones.
func listsOf(count int, of ...[]int32) kern.RowLists {
	lists := kern.RowLists{Starts: make([]int, count+1)}
	for _, in := range of {
		for _, l := range in {
			if l >= 0 {
				lists.Starts[l+1]++
			}
		}
	}
	for l := range count {
		lists.Starts[l+1] += lists.Starts[l]
	}
	next := slices.Clone(lists.Starts)
	lists.Rows = make([]int32, lists.Starts[count])
	for i := range of[0] {
		for _, in := range of {
			if l := in[i]; l >= 0 {
				lists.Rows[next[l]] = int32(i)
				next[l]++
			}
		}
	}
	return lists
}

// sorted makes the lists of all clusters.
func (c *clusters) sorted() kern.RowLists {
	second := slices.Clone(c.second)
	for i, l := range second {
		if l == c.first[i] { // it has no other
			second[i] = -1
		}
	}
	lists := listsOf(c.centres.Len(), c.first, second)
	lists.Home = c.first
	lists.Panels = kern.NewListPanels(c.centres.Len(), mostPanels)
	return lists
}

// carried returns clusters of the rows of a web around the same centres: to says which of them each row is now, −1
// being none.
func (c *clusters) carried(ctx context.Context, v *graph.Vectors, to []int32, w *Web, threads int) (*clusters,
	error) {
	out := newClusters(c.centres)
	out.codes, out.squares = c.codes, c.squares
	out.first, out.second = slices.Repeat([]int32{-1}, v.Len()), make([]int32, v.Len())
	for i, now := range to {
		for ; now >= 0 && out.first[now] < 0; now = w.links.twin(now) { // and its twins
			out.first[now], out.second[now] = c.first[i], c.second[i]
		}
	}
	var fresh []int32
	for i, l := range out.first {
		if l < 0 {
			fresh = append(fresh, int32(i))
		}
	}
	return out, out.assign(ctx, v, fresh, threads)
}

// Clusters is how many clusters there are.
func (w *Web) Clusters() int { return w.clusters.centres.Len() }

// Together returns the places of rows in an order in which like ones come together: by their clusters. Searches of
// which the queries are made of such rows look at the same clusters, which are in the cache then.
func (w *Web) Together(rows []int32) (places []int32) {
	homes := make([]int32, len(rows))
	for k, i := range rows {
		homes[k] = w.clusters.first[i]
	}
	return listsOf(w.Clusters(), homes).Rows
}

// Many returns the hits of many queries as TopK does: for each, those of the rows in so many clusters, the best for it.
func (w *Web) Many(ctx context.Context, s engine.TargetSearch, count, threads int) ([][]engine.Hit, error) {
	hits := make([][]engine.Hit, len(s.Queries))
	if len(hits) == 0 || s.K == 0 {
		return hits, nil
	}
	for k := range s.Queries {
		if err := w.check(&Walk{Targets: s.Targets, Fields: s.Fields, Values: s.Values, Query: s.Queries[k],
			K: s.K}); err != nil {
			return nil, err
		}
	}
	dim, threads := s.Targets.Dim(), kern.Threads(threads)
	data := make([]float32, 0, len(s.Queries)*dim)
	search := w.clusters.search(s)
	for k, q := range s.Queries {
		data = append(data, q.Vector...)
		if !q.Even() {
			search.Offsets = sized(search.Offsets, len(hits))
			search.Offsets[k] = q.Offsets
		}
		if q.Slope != 0 {
			search.Slopes = sized(search.Slopes, len(hits))
			search.Slopes[k] = q.Slope
		}
	}
	search.Visits = min(count, w.Clusters())
	var err error
	if search.Queries, err = kern.View(data, len(s.Queries), dim, dim); err != nil {
		return nil, err
	}
	found, err := w.codes.Near(ctx, search, threads)
	if err != nil {
		return nil, err
	}
	err = kern.ChunksErr(ctx, len(hits), 64, threads, func(_, _, from, to int) error {
		var rows []int32
		for k := from; k < to; k++ {
			rows = rows[:0]
			for _, h := range found[k] {
				rows = append(rows, h.Row)
			}
			walk := Walk{Targets: s.Targets, Fields: s.Fields, Values: s.Values, Query: s.Queries[k], K: s.K}
			hits[k] = walk.exactly(rows)
		}
		return nil
	})
	runtime.KeepAlive(w) // whose memory is not the collector's
	return hits, err
}

// sized is a slice of so many elements, in the memory of one of before where there is room.
func sized[T any](s []T, count int) []T { return slices.Grow(s[:0], count)[:count] }

// search is a search in clusters, without its queries. A cluster has the field that most of its rows have, and the mean
// of their values.
func (c *clusters) search(s engine.TargetSearch) kern.NearSearch {
	return kern.NearSearch{Lists: c.lists(), Centres: kern.CodesIn(c.codes), CentreFields: c.fields(s.Fields),
		CentreValues: c.means(s.Values), CodeSearch: kern.CodeSearch{Fields: s.Fields, Values: s.Values,
			K:    s.K + s.K/16 + 8, // the order by codes is nearly the true one
			Keep: func(query int, row int32) bool { return allows(&s.Queries[query], row) }}}
}

// fields returns the most common field of each cluster.
func (c *clusters) fields(of []uint16) []uint16 {
	if of == nil {
		return nil
	}
	counts, lists := make([]int, int(slices.Max(of))+1), c.lists()
	out := make([]uint16, c.centres.Len())
	for l := range out {
		clear(counts)
		for _, i := range lists.Rows[lists.Starts[l]:lists.Starts[l+1]] {
			if counts[of[i]]++; counts[of[i]] > counts[out[l]] {
				out[l] = of[i]
			}
		}
	}
	return out
}

// means returns the mean value of each cluster.
func (c *clusters) means(of []float32) []float32 {
	if of == nil {
		return nil
	}
	out, lists := make([]float32, c.centres.Len()), c.lists()
	for l := range out {
		own := lists.Rows[lists.Starts[l]:lists.Starts[l+1]]
		var sum float64
		for _, i := range own {
			sum += float64(of[i])
		}
		out[l] = float32(sum / float64(max(len(own), 1)))
	}
	return out
}

// numbers returns the centres one behind the other.
func (c *clusters) numbers() []float32 {
	dim := c.centres.Dim()
	out := make([]float32, c.centres.Len()*dim)
	for k := range c.centres.Len() {
		c.centres.Load(out[k*dim:][:dim], int32(k))
	}
	return out
}

// clustersFrom returns clusters that were stored: the numbers of the centres, and both clusters of every row.
func clustersFrom(h header, parts [][]byte, threads int) (*clusters, error) {
	centres, err := graph.NewVectors(h.Clusters, h.Dim)
	if err != nil {
		return nil, err
	}
	numbers := kern.NumbersOf[float32](parts[0])
	for k := range h.Clusters {
		if err := centres.Set(int32(k), numbers[k*h.Dim:][:h.Dim]); err != nil {
			return nil, err
		}
	}
	c := newClusters(centres)
	c.first, c.second = kern.NumbersOf[int32](parts[1]), kern.NumbersOf[int32](parts[2])
	for _, of := range [][]int32{c.first, c.second} {
		for i, l := range of {
			if l < 0 || int(l) >= h.Clusters {
				return nil, fmt.Errorf("row %d in cluster %d of %d", i, l, h.Clusters)
			}
		}
	}
	return c, c.code(threads)
}
