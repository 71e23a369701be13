package graph

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"unseen/internal/kern"
)

// Clustering says how FieldsByVectors finds fields. Fields is needed, the rest has defaults.
type Clustering struct {
	Fields  int    // how many to find
	Rounds  int    // most rounds; zero means DefaultRounds
	Seed    uint64 // the same seed finds the same fields
	Threads int    // 0 means all processors; results do not depend on it
}

// DefaultRounds is the most rounds of FieldsByVectors unless another number is given.
const DefaultRounds = 100

// FieldsByVectors returns the same graph with fields found in its vectors h, in place of those it has:
// k-means, which makes
//
//	Σ_i min_c ‖h_i − c‖²
//
// small over k centres c. They start far apart (greedy k-means++; Arthur and Vassilvitskii, 2007), and
// every round moves each to the mean of the vectors nearest to it, until no vector changes sides, or so
// few (one in a hundred) that the sum falls by less than a hundred-thousandth, or the rounds run out. A
// centre that no vector is nearest to takes the vector that is farthest from its own.
//
// Fields are named "cluster 1", "cluster 2" and so on by size. It is an error if there are fewer distinct vectors
// than fields. A vector of zeros says nothing about its node, whose field is
// UnknownField. Vectors count as they are: scale them to length one for clusters of like direction.
// The sum found is low but seldom the lowest there is; other seeds find others.
func (g *Graph) FieldsByVectors(ctx context.Context, s Clustering) (*Graph, FieldReport, error) {
	var none FieldReport
	m, s, err := newKMeans(g, s)
	if err != nil {
		return nil, none, err
	}
	r := FieldReport{Found: fmt.Sprintf("k-means on vectors: %d fields, seed %d, at most %d rounds", s.Fields, s.Seed,
		s.Rounds)}
	if err := m.start(ctx); err != nil {
		return nil, none, err
	}
	for r.Inertia = math.Inf(1); ; m.recentre() {
		moved, err := m.assign(ctx)
		if err != nil {
			return nil, none, err
		}
		refilled := m.refill()
		inertia := sum(m.nearest)
		r.Rounds++
		few := moved <= len(m.nodes)/100 && r.Inertia-inertia <= clusterTolerance*inertia
		r.Converged = refilled == 0 && (moved == 0 || few)
		r.Inertia = inertia
		if r.Converged || r.Rounds == s.Rounds {
			break
		}
	}
	if r.Explained = 1; r.Inertia > m.rounding {
		r.Explained = 1 - r.Inertia/sum(m.spread)
	}
	of := slices.Repeat([]int32{fieldless}, g.Len())
	for p, i := range m.nodes {
		of[i] = m.of[p]
	}
	found, sizes, err := g.withFields("cluster", of, m.k)
	r.Sizes = sizes
	return found, r, err
}

const (
	// clusterTolerance is the relative decrease of the inertia below which the search ends.
	clusterTolerance = 1e-5

	startDraws  = 32   // points drawn for each centre at the start
	pointBlock  = 512  // vectors multiplied with the centres at a time
	centreBlock = 256  // centres at a time, so that the products stay in the cache
	sumRun      = 64   // vectors added in float32 before they join a float64 sum
	sumSegment  = 4096 // vectors of a cluster added by one thread

	// Lengths of vectors whose products are normal numbers in float32.
	shortestVector, longestVector = 1e-15, 1e15
)

// kmeans is a clustering in progress. A point is a node whose vector is not zero; points are
// numbered from 0 and their columns have the same order.
//
// Squared distances come from the block product of the vectors, as they are, with the centres around
// the mean μ of all vectors:
//
//	‖h−c‖² = ‖h−μ‖² + ‖c−μ‖² + 2⟨μ, c−μ⟩ − 2⟨h, c−μ⟩
//
// so that little cancels when all vectors lie to one side of the origin, as those of texts do.
type kmeans struct {
	g       *Graph
	vectors *kern.Matrix
	k       int
	threads int
	random  *rand.Rand

	mean    []float64
	nodes   []int32   // of each point
	spread  []float64 // ‖h−μ‖² of each point
	slack   []float64 // of each point, twice the kernel's error in 2⟨h, c−μ⟩ per length of c−μ
	of      []int32   // cluster of each point
	nearest []float64 // squared distance of each point from its centre

	rounding float64 // what inertia there may be between equal vectors
	centres  centres
	scratch  []clusterScratch // one per thread
}

// centres are points to measure distances from, kept exactly and as the kernel wants them.
type centres struct {
	exact  []float64 // c, one after the other
	around []float32 // c−μ, one after the other
	offset []float64 // ‖c−μ‖² + 2⟨μ, c−μ⟩
	half   []float32 // offset/2
	length []float64 // ‖c−μ‖
}

// clusterScratch is the memory that a thread works in.
type clusterScratch struct {
	block, dots []float32 // vectors, and their products with centres
	best, dot   []float32 // of each vector of the block, the largest ⟨h, c−μ⟩ − offset/2, and its ⟨h, c−μ⟩
	line        []float32 // one vector, or a sum of some
}

func newKMeans(g *Graph, s Clustering) (*kmeans, Clustering, error) {
	switch {
	case g.vectors == nil:
		return nil, s, fmt.Errorf("fields by vectors: the graph has no vectors: %w; attach them by WithVectors, "+
			"or use FieldsByLinks", ErrShape)
	case g.vectors.Len() != g.Len():
		return nil, s, fmt.Errorf("fields by vectors: %d vectors for %d nodes: %w; close vectors after their last use",
			g.vectors.Len(), g.Len(), ErrShape)
	case s.Fields < 1:
		return nil, s, fmt.Errorf("fields by vectors: %w: %d fields; ask for 1 or more", ErrSettings, s.Fields)
	case s.Fields > math.MaxUint16:
		return nil, s, fmt.Errorf("fields by vectors: %d fields: %w; ask for %d or fewer", s.Fields, ErrTooLarge,
			math.MaxUint16)
	case s.Rounds < 0:
		return nil, s, fmt.Errorf("fields by vectors: %w: at most %d rounds; give 1 or more, or 0 for %d", ErrSettings,
			s.Rounds, DefaultRounds)
	case s.Threads < 0:
		return nil, s, fmt.Errorf("fields by vectors: %w: %d threads; give 1 or more, or 0 for all processors",
			ErrSettings, s.Threads)
	}
	if s.Rounds == 0 {
		s.Rounds = DefaultRounds
	}
	if s.Threads == 0 {
		s.Threads = runtime.GOMAXPROCS(0)
	}
	m := &kmeans{g: g, vectors: g.vectors.rows(), k: s.Fields, random: rand.New(rand.NewPCG(s.Seed, 0))}
	m.threads = max(1, min(s.Threads, g.Len()/pointBlock)) // more would have nothing to do
	m.scratch = make([]clusterScratch, m.threads)
	dim := m.vectors.Dim()
	for w := range m.scratch {
		m.scratch[w] = clusterScratch{
			block: make([]float32, pointBlock*dim),
			dots:  make([]float32, pointBlock*max(startDraws, min(m.k, centreBlock))),
			best:  make([]float32, pointBlock),
			dot:   make([]float32, pointBlock),
			line:  make([]float32, dim),
		}
	}
	return m, s, m.measure()
}

// measure finds the points and where they lie.
func (m *kmeans) measure() error {
	length := make([]float64, m.vectors.Rows())
	kern.Chunks(len(length), pointBlock, m.threads, func(worker, _, from, to int) {
		for i := from; i < to; i++ {
			length[i] = math.Sqrt(squaredDistance(m.row(worker, int32(i)), nil))
		}
	})
	longest := 0.
	for i, l := range length {
		if !(l <= longestVector) {
			return fmt.Errorf("fields by vectors: the vector of node %q has length %v, its products are %w; scale "+
				"the vectors to length 1", m.g.ID(int32(i)), l, ErrNotFinite)
		}
		longest = max(longest, l)
		m.rounding += 1e-12 * l * l
		if l > 0 {
			m.nodes = append(m.nodes, int32(i))
		}
	}
	switch {
	case len(m.nodes) < m.k:
		return fmt.Errorf("fields by vectors: %w: %d fields of %d nodes, %d of them with a vector that is not "+
			"zero; ask for %d fields or fewer, or encode the nodes", ErrSettings, m.k, m.g.Len(), len(m.nodes),
			len(m.nodes))
	case longest < shortestVector:
		return fmt.Errorf("fields by vectors: %w: the longest vector has length %v, its products vanish; scale "+
			"the vectors to length 1", ErrSettings, longest)
	}
	m.of = slices.Repeat([]int32{fieldless}, len(m.nodes))
	m.mean = m.sums(rows{start: []int64{0, int64(len(m.nodes))}, node: numbers(len(m.nodes))})
	for d := range m.mean {
		m.mean[d] /= float64(len(m.nodes))
	}
	m.spread, m.slack, m.nearest = make([]float64, len(m.nodes)), make([]float64, len(m.nodes)),
		make([]float64, len(m.nodes))
	kern.Chunks(len(m.nodes), pointBlock, m.threads, func(worker, _, from, to int) {
		for p := from; p < to; p++ {
			m.spread[p] = squaredDistance(m.row(worker, m.nodes[p]), m.mean)
			m.slack[p] = 4 * float64(len(m.mean)+4) * 0x1p-24 * length[m.nodes[p]]
		}
	})
	return nil
}

// start chooses points as the first centres: one at random, then each from candidates that are drawn with
// probabilities proportional to their squared distance from the nearest centre so far: the one that leaves
// the smallest sum of those. There are many candidates, because the probabilities differ little where vectors
// have many dimensions; they cost little, because one block product computes all of them.
func (m *kmeans) start(ctx context.Context) error {
	dim := m.vectors.Dim()
	m.centres = newCentres(m.k, dim)
	drawn := newCentres(startDraws, dim)
	candidates := make([]int, startDraws)
	for p := range m.nearest {
		m.nearest[p] = math.Inf(1)
	}
	next := m.random.IntN(len(m.nodes))
	for c := range m.k {
		m.placeAt(&m.centres, c, next)
		totals, err := m.approach(ctx, c)
		if err != nil || c+1 == m.k {
			return err
		}
		if sum(totals) == 0 {
			return fmt.Errorf("fields by vectors: %w: %d fields of %d distinct vectors; ask for %d or fewer",
				ErrSettings, m.k, c+1, c+1)
		}
		for t := range candidates {
			candidates[t] = m.draw(totals)
			m.placeAt(&drawn, t, candidates[t])
		}
		gains, err := m.tryCentres(ctx, &drawn)
		if err != nil {
			return err
		}
		best := 0
		for t, gain := range gains {
			if gain > gains[best] {
				best = t
			}
		}
		next = candidates[best]
	}
	return nil
}

// approach lowers the distance of every point from the nearest centre to that from centre c, and returns
// the sums over blocks of points.
func (m *kmeans) approach(ctx context.Context, c int) (totals []float64, err error) {
	totals = make([]float64, m.blocks())
	around := m.centres.around[c*len(m.mean):][:len(m.mean)]
	err = kern.ChunksErr(ctx, len(m.nodes), pointBlock, m.threads, func(worker, block, from, to int) error {
		dots := m.scratch[worker].dots[:to-from]
		kern.Dots(dots, around, m.vectors, m.nodes[from:to])
		for x, dot := range dots {
			p := from + x
			m.nearest[p] = min(m.nearest[p], m.distance(worker, p, &m.centres, c, dot))
			totals[block] += m.nearest[p]
		}
		return nil
	})
	return totals, err
}

// tryCentres returns by how much each new centre would lower the sum of the squared distances.
func (m *kmeans) tryCentres(ctx context.Context, c *centres) ([]float64, error) {
	parts := make([]float64, m.blocks()*startDraws)
	err := kern.ChunksErr(ctx, len(m.nodes), pointBlock, m.threads, func(worker, block, from, to int) error {
		s, part := &m.scratch[worker], parts[block*startDraws:][:startDraws]
		kern.MulT(view(s.dots, to-from, startDraws), m.load(worker, from, to), view(c.around, startDraws, len(m.mean)))
		for x, nearest := range m.nearest[from:to] {
			farther := nearest - m.spread[from+x]
			for t, dot := range s.dots[x*startDraws:][:startDraws] {
				if gain := farther - c.offset[t] + 2*float64(dot); gain > 0 {
					part[t] += gain
				}
			}
		}
		return nil
	})
	gains := make([]float64, startDraws)
	for k, gain := range parts {
		gains[k%startDraws] += gain
	}
	return gains, err
}

// draw draws a point with a chance proportional to its squared distance from the nearest centre; totals
// are the sums of these over blocks.
func (m *kmeans) draw(totals []float64) int {
	u := m.random.Float64() * sum(totals)
	block := 0
	for block+1 < len(totals) && u >= totals[block] {
		u -= totals[block]
		block++
	}
	for p := block * pointBlock; p < len(m.nearest); p++ {
		if u < m.nearest[p] {
			return p
		}
		u -= m.nearest[p]
	}
	// Rounding left u beyond the end: the last that has a chance.
	p := len(m.nearest) - 1
	for m.nearest[p] == 0 {
		p--
	}
	return p
}

// assign puts every point into the cluster of the nearest centre, the first of equally near ones, and
// returns how many moved.
func (m *kmeans) assign(ctx context.Context) (moved int, err error) {
	moves := make([]int, m.blocks())
	err = kern.ChunksErr(ctx, len(m.nodes), pointBlock, m.threads, func(worker, block, from, to int) error {
		before := slices.Clone(m.of[from:to])
		m.findNearest(worker, from, to)
		for x, c := range m.of[from:to] {
			if c != before[x] {
				moves[block]++
			}
		}
		return nil
	})
	for _, n := range moves {
		moved += n
	}
	return moved, err
}

// findNearest finds the nearest centre of the points of a block: that with the largest
// ⟨h, c−μ⟩ − offset/2.
func (m *kmeans) findNearest(worker, from, to int) {
	dim, s, of := m.vectors.Dim(), &m.scratch[worker], m.of[from:to]
	for x := range of {
		of[x], s.best[x] = 0, float32(math.Inf(-1))
	}
	rows := m.load(worker, from, to)
	for first := 0; first < m.k; first += centreBlock {
		count := min(centreBlock, m.k-first)
		kern.MulT(view(s.dots, len(of), count), rows, view(m.centres.around[first*dim:], count, dim))
		half := m.centres.half[first:][:count]
		for x := range of {
			dots, best, c := s.dots[x*count:][:count], s.best[x], -1
			for k, dot := range dots {
				if score := dot - half[k]; score > best {
					best, c = score, k
				}
			}
			if c >= 0 {
				s.best[x], s.dot[x], of[x] = best, dots[c], int32(first+c)
			}
		}
	}
	for x, c := range of {
		m.nearest[from+x] = m.distance(worker, from+x, &m.centres, int(c), s.dot[x])
	}
}

// distance returns the squared distance of a point from centre c, given ⟨h, c−μ⟩. Where the kernel's
// error could be most of it, it is computed again; only then is that of equal vectors zero.
func (m *kmeans) distance(worker, p int, c *centres, k int, dot float32) float64 {
	d := m.spread[p] + c.offset[k] - 2*float64(dot)
	if d < m.slack[p]*c.length[k] {
		dim := m.vectors.Dim()
		d = squaredDistance(m.row(worker, m.nodes[p]), c.exact[k*dim:][:dim])
	}
	return d
}

// refill gives every cluster without points one: that farthest from its centre, of a cluster that has
// others. It returns how many clusters were empty.
func (m *kmeans) refill() int {
	size := make([]int, m.k)
	for _, c := range m.of {
		size[c]++
	}
	if !slices.Contains(size, 0) {
		return 0
	}
	farthest := numbers(len(m.nodes))
	slices.SortFunc(farthest, func(p, q int32) int {
		return cmp.Or(cmp.Compare(m.nearest[q], m.nearest[p]), cmp.Compare(p, q))
	})
	refilled := 0
	for c := range size {
		if size[c] > 0 {
			continue
		}
		// There are at least as many points as clusters, so some cluster has two.
		for size[m.of[farthest[0]]] == 1 {
			farthest = farthest[1:]
		}
		p := farthest[0]
		farthest = farthest[1:]
		size[m.of[p]]--
		size[c] = 1
		m.of[p], m.nearest[p] = int32(c), 0
		refilled++
	}
	return refilled
}

// recentre moves every centre to the mean of its points.
func (m *kmeans) recentre() {
	members := groups(m.of, m.k)
	m.centres.exact = m.sums(members)
	for c := range m.k {
		size := float64(len(members.row(int32(c))))
		for d := range m.mean {
			m.centres.exact[c*len(m.mean)+d] /= size
		}
		m.centres.place(c, m.mean)
	}
}

// sums returns the sum of the vectors of each group of points, one after the other. Groups are cut into
// segments of a fixed size whose sums are added in order, so threads make no difference.
func (m *kmeans) sums(members rows) []float64 {
	type segment struct {
		group  int
		points []int32
	}
	var segments []segment
	for c := range len(members.start) - 1 {
		for points := range slices.Chunk(members.row(int32(c)), sumSegment) {
			segments = append(segments, segment{c, points})
		}
	}
	dim := m.vectors.Dim()
	parts := make([]float64, len(segments)*dim)
	ones := slices.Repeat([]float32{1}, sumRun)
	kern.Chunks(len(segments), 1, m.threads, func(worker, s, _, _ int) {
		var nodes [sumRun]int32
		line, part := m.scratch[worker].line, parts[s*dim:][:dim]
		for run := range slices.Chunk(segments[s].points, sumRun) {
			for x, p := range run {
				nodes[x] = m.nodes[p]
			}
			clear(line)
			kern.AddRows(line, m.vectors, nodes[:len(run)], ones[:len(run)])
			for d, x := range line {
				part[d] += float64(x)
			}
		}
	})
	total := make([]float64, (len(members.start)-1)*dim)
	for s := range segments {
		group := total[segments[s].group*dim:][:dim]
		for d, x := range parts[s*dim:][:dim] {
			group[d] += x
		}
	}
	return total
}

// blocks returns the number of blocks of points.
func (m *kmeans) blocks() int { return (len(m.nodes) + pointBlock - 1) / pointBlock }

// load returns the vectors of a block of points, valid until the thread's next block.
func (m *kmeans) load(worker, from, to int) *kern.Matrix {
	block := m.scratch[worker].block
	for x, i := range m.nodes[from:to] {
		m.vectors.Load(block[x*len(m.mean):], int(i))
	}
	return view(block, to-from, len(m.mean))
}

// row returns a node's vector, valid until the thread's next.
func (m *kmeans) row(worker int, i int32) []float32 {
	if !m.vectors.Half() {
		return m.vectors.Row(int(i))
	}
	line := m.scratch[worker].line
	m.vectors.Load(line, int(i))
	return line
}

func newCentres(count, dim int) centres {
	return centres{
		exact:  make([]float64, count*dim),
		around: make([]float32, count*dim),
		offset: make([]float64, count),
		half:   make([]float32, count),
		length: make([]float64, count),
	}
}

// placeAt puts centre k where a point is.
func (m *kmeans) placeAt(c *centres, k, p int) {
	for d, x := range m.row(0, m.nodes[p]) {
		c.exact[k*len(m.mean)+d] = float64(x)
	}
	c.place(k, m.mean)
}

// place works out what goes with the exact centre k.
func (c *centres) place(k int, mean []float64) {
	squares, products := 0., 0.
	for d, μ := range mean {
		x := float32(c.exact[k*len(mean)+d] - μ)
		c.around[k*len(mean)+d] = x
		squares += float64(x) * float64(x)
		products += float64(x) * μ
	}
	c.offset[k] = squares + 2*products
	c.half[k] = float32(c.offset[k] / 2)
	c.length[k] = math.Sqrt(squares)
}

// view returns numbers as a matrix without padding, in place.
func view(data []float32, rows, dim int) *kern.Matrix {
	m, err := kern.View(data, rows, dim, dim)
	if err != nil {
		panic(err)
	}
	return m
}

// squaredDistance returns ‖h−c‖², or ‖h‖² where c is nil.
func squaredDistance(h []float32, c []float64) float64 {
	total := 0.
	if c == nil {
		for _, x := range h {
			total += float64(x) * float64(x)
		}
		return total
	}
	for d, x := range h {
		x := float64(x) - c[d]
		total += x * x
	}
	return total
}

func sum(values []float64) float64 {
	total := 0.
	for _, x := range values {
		total += x
	}
	return total
}
