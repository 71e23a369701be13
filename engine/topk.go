package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"unseen/graph"
	"unseen/internal/kern"
)

// TargetSearch asks for the best targets of one query or of many. The score of target j for a query is
//
//	z_j = ⟨Vector, h_j⟩ + Offsets[field of j] + Slope·Values[j].
type TargetSearch struct {
	Targets *graph.Vectors // h, a row per target; see model.InnerProduct
	Fields  []uint16       // of every target; nil where no query has offsets
	Values  []float32      // of every target, such as its popularity; nil where no query has a slope
	Queries []SearchQuery
	K       int // hits of each query; 0 where only scores are wanted
	// Scores, unless nil, are set to the scores of all targets, whichever may be hits: a row per query.
	Scores []float32
	// Blocks has the scores of few queries computed as those of many are, for queries that are put into groups: their
	// scores do not depend on how.
	Blocks bool
	// Sketch, unless nil, is of the targets: an engine may read it in place of them, and of the targets themselves only
	// what it leaves open. Hits are the same.
	Sketch *Sketch
	// Bounds, unless nil, allow Scores to be estimates by the sketch: set to how far each query's may be off.
	Bounds []ScoreBound
}

// ScoreBound says how far scores may be off. The zero ScoreBound is of scores that are what they should be.
type ScoreBound struct {
	reach, margin float32
	rests         []float32
	most          float32
}

// Slack is by how much the score of a target may be off.
func (b ScoreBound) Slack(target int32) float32 {
	if b.rests == nil {
		return 0
	}
	return b.reach*b.rests[target] + b.margin
}

// Most is by how much any score may be off.
func (b ScoreBound) Most() float32 { return b.most }

// Exact reports whether all scores are what they should be.
func (b ScoreBound) Exact() bool { return b.rests == nil }

// SearchQuery is what targets are compared with, and which of them may be hits.
type SearchQuery struct {
	Vector  []float32
	Offsets []float32 // by field; nil means 0
	Slope   float32   // of the targets' values
	Among   []int32   // only these targets, ascending; nil means all
	Skip    []int32   // never these, ascending
}

// Even reports whether the offsets are the same for every field, so that they change no order.
func (q SearchQuery) Even() bool {
	return !slices.ContainsFunc(q.Offsets, func(x float32) bool { return x != q.Offsets[0] })
}

// shared is the offset of every field, if they are even.
func (q SearchQuery) shared() float32 {
	if len(q.Offsets) == 0 {
		return 0
	}
	return q.Offsets[0]
}

// Hit is a target and its score.
type Hit struct {
	Target int32
	Score  float32
}

// Sketch is a copy of vectors in a byte per number, by which every inner product is known within a bound.
type Sketch struct{ heldCodes }

// heldCodes keeps the kernels' codes out of what Sketch exports: packages of this module read them with kern.CodesIn.
type heldCodes = kern.HeldCodes

func (s *Sketch) codes() *kern.Codes { return kern.CodesIn(s) }

// NewSketch copies vectors.
func NewSketch(v *graph.Vectors, threads int) (*Sketch, error) {
	codes, err := kern.Quantise(kern.MatrixOf(v), kern.Threads(threads))
	if err != nil {
		return nil, err
	}
	return &Sketch{kern.HoldCodes(codes)}, nil
}

// SketchParts is what a sketch is kept in: a byte per number, and three numbers per row.
type SketchParts struct {
	Rows, Dim            int
	Bytes                []uint8 // rows of a multiple of 64
	Scales, Rests, Norms []float32
}

// Parts returns what the sketch is kept in, to be stored. It is the sketch's own, and there as long as that is.
func (s *Sketch) Parts() SketchParts { return SketchParts(s.codes().Parts()) }

// SketchFrom returns a sketch that was stored, in the memory of its parts.
func SketchFrom(p SketchParts) (*Sketch, error) {
	codes, err := kern.CodesFrom(kern.CodeParts(p))
	if err != nil {
		return nil, err
	}
	return &Sketch{kern.HoldCodes(codes)}, nil
}

// narrow is the share of the targets of which fewer are looked at one by one, without the sketch.
const narrow = .25

// How many targets are scored at a time.
const (
	scannedTogether = 4096 // for few queries
	scoredTogether  = 256  // for many
)

// A few queries are compared with so many targets one after the other, while these are in the cache.
const (
	fewQueries    = 4
	cachedTargets = 32
)

// TopK implements Engine. Few queries are compared with the targets row by row, many by block products: those that ask
// for scores, and those whose hits are the best inner products of all targets but a few. Scores by rows and by blocks
// differ in the last bits; neither depend on the number of threads, nor on which other queries there are. Scores of
// hits that a sketch has found are those by rows.
func (c CPU) TopK(ctx context.Context, s TargetSearch) ([][]Hit, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	switch {
	case s.Scores == nil && s.Sketch != nil && !s.narrow():
		return c.topSketched(ctx, s)
	case s.Scores == nil && s.plain():
		return c.topPlain(ctx, s)
	}
	n, scored := s.Targets.Len(), len(s.Scores) > 0
	if scored {
		score := c.scanAll
		switch {
		case s.Sketch != nil && s.Bounds != nil && !s.Blocks:
			score = c.estimate
		case s.Blocks || len(s.Queries) > fewQueries:
			score = c.multiply
		}
		clear(s.Bounds)
		if err := score(ctx, s); err != nil {
			return nil, err
		}
	}
	scores := s.Scores
	if scores == nil {
		scores = make([]float32, n) // of one query after the other
	}
	hits, all := make([][]Hit, len(s.Queries)), everyNode(min(s.K, 1)*n)
	room := make([]int32, 0, min(s.spare(), 1)*len(all))
	for k, q := range s.Queries {
		own := scores[min(k*n, len(scores)-n):][:n] // the query's row, or the only one
		if !scored {
			if err := c.scan(ctx, s, q, own); err != nil {
				return nil, err
			}
		}
		for _, j := range kern.Best(own, q.candidates(all, room), s.K) {
			hits[k] = append(hits[k], Hit{j, own[j]})
		}
	}
	return hits, nil
}

// Validate refuses what does not fit together.
func (s *TargetSearch) Validate() error {
	n, dim := s.Targets.Len(), s.Targets.Dim()
	if s.K < 0 || s.Scores != nil && len(s.Scores) != n*len(s.Queries) ||
		s.Sketch != nil && s.Sketch.codes().Rows() != n ||
		s.Bounds != nil && (s.Scores == nil || s.K > 0 || len(s.Bounds) != len(s.Queries)) {
		return fmt.Errorf("%w: a search for %d hits of %d queries among %d targets, with room for %d scores", ErrShape,
			s.K, len(s.Queries), n, len(s.Scores))
	}
	for k, q := range s.Queries {
		if a := q.Among; len(a) > 0 && (a[0] < 0 || int(a[len(a)-1]) >= n) {
			return fmt.Errorf("%w: query %d is about targets %d to %d of %d", ErrShape, k, a[0], a[len(a)-1], n)
		}
		if len(q.Vector) != dim || !q.Even() && len(s.Fields) != n || q.Slope != 0 && len(s.Values) != n {
			return fmt.Errorf("%w: query %d has %d numbers, %d offsets and a slope of %g, for %d targets of %d "+
				"numbers with %d fields and %d values", ErrShape, k, len(q.Vector), len(q.Offsets), q.Slope, n, dim,
				len(s.Fields), len(s.Values))
		}
	}
	return nil
}

// plain reports whether hits are those of inner products alone, among all targets but a few.
func (s *TargetSearch) plain() bool {
	return s.K+s.spare() <= kern.MaxK && !slices.ContainsFunc(s.Queries, func(q SearchQuery) bool {
		return q.Among != nil || !q.Even() || q.Slope != 0
	})
}

// spare is how many hits may have to be skipped.
func (s *TargetSearch) spare() (most int) {
	for _, q := range s.Queries {
		most = max(most, len(q.Skip))
	}
	return most
}

// topPlain finds the best inner products, with as many more as may have to be skipped.
func (c CPU) topPlain(ctx context.Context, s TargetSearch) ([][]Hit, error) {
	matrix, threads := kern.MatrixOf(s.Targets), kern.Threads(c.Threads)
	room := s.room()
	defer kern.GiveBack(room)
	queries, err := s.matrix(room)
	if err != nil {
		return nil, err
	}
	count := min(s.K+s.spare(), matrix.Rows())
	found, err := kern.TopK(ctx, matrix, queries, count, threads)
	if err != nil {
		return nil, err
	}
	hits := make([][]Hit, len(s.Queries))
	for k, q := range s.Queries {
		for _, h := range found[k] {
			if _, skip := slices.BinarySearch(q.Skip, h.Row); !skip && len(hits[k]) < s.K {
				hits[k] = append(hits[k], Hit{h.Row, h.Score + q.shared()})
			}
		}
	}
	return hits, nil
}

// narrow reports whether the queries are about so few of the targets that a sketch of all is no help.
func (s *TargetSearch) narrow() bool {
	return slices.ContainsFunc(s.Queries, func(q SearchQuery) bool {
		return q.Among != nil && float64(len(q.Among)) < narrow*float64(s.Targets.Len())
	})
}

// topSketched finds the hits of all queries by the sketch.
func (c CPU) topSketched(ctx context.Context, s TargetSearch) ([][]Hit, error) {
	room := s.room()
	defer kern.GiveBack(room)
	queries, err := s.matrix(room)
	if err != nil {
		return nil, err
	}
	search := s.coded(queries)
	search.K = min(s.K, s.Targets.Len())
	search.Keep = func(query int, row int32) bool {
		q := s.Queries[query]
		if _, skip := slices.BinarySearch(q.Skip, row); skip {
			return false
		}
		_, among := slices.BinarySearch(q.Among, row)
		return q.Among == nil || among
	}
	found, err := kern.TopKCodes(ctx, s.Sketch.codes(), kern.MatrixOf(s.Targets), search, kern.Threads(c.Threads))
	if err != nil {
		return nil, err
	}
	hits := make([][]Hit, len(found))
	for k := range found {
		for _, h := range found[k] {
			hits[k] = append(hits[k], Hit{h.Row, h.Score})
		}
	}
	return hits, nil
}

// coded is the search as the codes know it.
func (s *TargetSearch) coded(queries *kern.Matrix) kern.CodeSearch {
	out := kern.CodeSearch{Queries: queries, Fields: s.Fields, Values: s.Values}
	for _, q := range s.Queries {
		offsets := q.Offsets
		if s.Fields == nil && len(offsets) > 0 { // they are even
			offsets = offsets[:1]
		}
		out.Offsets = append(out.Offsets, offsets)
		out.Slopes = append(out.Slopes, q.Slope)
	}
	return out
}

// estimate scores all targets by the sketch, in one pass over it. A query that it knows nothing of is compared with the
// targets themselves.
func (c CPU) estimate(ctx context.Context, s TargetSearch) error {
	n, codes, threads := s.Targets.Len(), s.Sketch.codes(), kern.Threads(c.Threads)
	scores, vectors := make([][]float32, len(s.Queries)), make([][]float32, len(s.Queries))
	for k, q := range s.Queries {
		scores[k], vectors[k] = s.Scores[k*n:(k+1)*n], q.Vector
	}
	reaches, err := codes.Estimate(ctx, scores, vectors, threads)
	if err != nil {
		return err
	}
	search := s.coded(nil)
	for k, q := range s.Queries {
		if reaches[k] < 0 {
			q.Among = nil // all scores are wanted
			if err := c.scan(ctx, s, q, scores[k]); err != nil {
				return err
			}
			continue
		}
		s.addOffsets(scores[k], q, 0)
		margin := search.Margin(k)
		s.Bounds[k] = ScoreBound{reaches[k], margin, codes.Rests(), reaches[k]*codes.LargestRest() + margin}
	}
	return nil
}

// matrix puts the queries below one another, in room for them.
func (s *TargetSearch) matrix(room *kern.Scratch) (*kern.Matrix, error) {
	dim := s.Targets.Dim()
	for k, q := range s.Queries {
		copy(room.Data[k*dim:(k+1)*dim], q.Vector)
	}
	return kern.View(room.Data, len(s.Queries), dim, dim)
}

// room is what matrix needs, to be given back after its last use.
func (s *TargetSearch) room() *kern.Scratch { return kern.Borrow(len(s.Queries) * s.Targets.Dim()) }

// scanAll scores all targets for a few queries, in one pass over them.
func (c CPU) scanAll(ctx context.Context, s TargetSearch) error {
	n, matrix := s.Targets.Len(), kern.MatrixOf(s.Targets)
	step := scannedTogether
	if len(s.Queries) > 1 {
		step = cachedTargets
	}
	return kern.ChunksErr(ctx, n, scannedTogether, kern.Threads(c.Threads), func(_, _, from, to int) error {
		for first := from; first < to; first += step {
			for k, q := range s.Queries {
				scores := s.Scores[k*n+first : k*n+min(first+step, to)]
				kern.DotRange(scores, q.Vector, matrix, first)
				s.addOffsets(scores, q, first)
			}
		}
		return nil
	})
}

// scan scores the targets of one query that may be hits: no other score is wanted.
func (c CPU) scan(ctx context.Context, s TargetSearch, q SearchQuery, scores []float32) error {
	matrix, threads := kern.MatrixOf(s.Targets), kern.Threads(c.Threads)
	if q.Among == nil {
		return kern.ChunksErr(ctx, len(scores), scannedTogether, threads, func(_, _, from, to int) error {
			kern.DotRange(scores[from:to], q.Vector, matrix, from)
			s.addOffsets(scores[from:to], q, from)
			return nil
		})
	}
	return kern.ChunksErr(ctx, len(q.Among), scannedTogether, threads, func(_, _, from, to int) error {
		some := make([]float32, to-from)
		kern.Dots(some, q.Vector, matrix, q.Among[from:to])
		for k, j := range q.Among[from:to] {
			scores[j] = some[k]
			s.addOffsets(scores[j:j+1], q, int(j))
		}
		return nil
	})
}

// multiply scores all targets for all queries by block products.
func (c CPU) multiply(ctx context.Context, s TargetSearch) error {
	n, count, matrix := s.Targets.Len(), len(s.Queries), kern.MatrixOf(s.Targets)
	room := s.room()
	defer kern.GiveBack(room)
	queries, err := s.matrix(room)
	if err != nil {
		return err
	}
	return kern.ChunksErr(ctx, n, scoredTogether, kern.Threads(c.Threads), func(_, _, from, to int) error {
		targets, err1 := matrix.Slice(from, to)
		products, err2 := kern.View(s.Scores[from:(count-1)*n+to], count, to-from, n)
		if err := cmp.Or(err1, err2); err != nil {
			return err
		}
		kern.MulT(products, queries, targets)
		for k, q := range s.Queries {
			s.addOffsets(s.Scores[k*n+from:k*n+to], q, from)
		}
		return nil
	})
}

// addOffsets adds what their fields and values add to the scores of targets, from the first of them on.
func (s *TargetSearch) addOffsets(scores []float32, q SearchQuery, first int) {
	switch {
	case q.Even():
		if shared := q.shared(); shared != 0 {
			kern.Shift(scores, shared)
		}
	default:
		for k, f := range s.Fields[first : first+len(scores)] {
			scores[k] += q.Offsets[f]
		}
	}
	if q.Slope != 0 {
		for k, x := range s.Values[first : first+len(scores)] {
			scores[k] += q.Slope * x
		}
	}
}

// candidates lists the targets that may be hits, given a list of all and room for the others.
func (q SearchQuery) candidates(all, room []int32) []int32 {
	if q.Among != nil {
		all = q.Among
	}
	if len(q.Skip) == 0 {
		return all
	}
	left, next := room[:0], 0
	for _, j := range q.Skip {
		// what comes before it, in a piece
		at, found := slices.BinarySearch(all[next:], j)
		left = append(left, all[next:next+at]...)
		if next += at; found {
			next++
		}
	}
	return append(left, all[next:]...)
}
