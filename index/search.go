package index

import (
	"context"
	"fmt"
	"slices"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
)

// MostWidth is how many rows a walk keeps at most. Where more would be needed, looking at all rows is faster.
const MostWidth = 8192

// Walk asks for the best targets of a query, nearly all of them. Fields, Values and the query's own terms are as
// those of an engine.TargetSearch.
type Walk struct {
	Targets *graph.Vectors // that the web is of
	Fields  []uint16
	Values  []float32
	Query   engine.SearchQuery
	K       int
	// Width is how many rows the walk keeps: the more, the more of the best are found, and the longer it takes.
	Width int
	// Keep, unless nil, says whether a row may be a hit.
	Keep func(row int32) bool
}

// check refuses what does not fit together.
func (w *Web) check(s *Walk) error {
	n, q := w.Rows(), s.Query
	if s.Targets.Len() != n || s.Targets.Dim() != w.sketch.Parts().Dim || len(q.Vector) != s.Targets.Dim() ||
		!q.Even() && len(s.Fields) != n || q.Slope != 0 && len(s.Values) != n || s.K < 0 || s.Width < 0 ||
		s.Width > MostWidth {
		return fmt.Errorf("%w: a search for %d hits of a query of %d numbers, %d wide, among %d targets of %d, in an "+
			"index of %d", engine.ErrShape, s.K, len(q.Vector), s.Width, s.Targets.Len(), s.Targets.Dim(), n)
	}
	return nil
}

// Likely returns up to K rows that may be hits, best first by their codes, which is nearly their order. There may be
// fewer than there could be: where the walk met too few that may be hits, or the query is not finite.
//
// Of other orders, which make of scores, given with their rows, what else rows are ranked by, it returns the best too:
// those of all rows that were met on the way.
func (w *Web) Likely(s Walk, others ...func(scores []float32, rows []int32)) ([][]int32, error) {
	if err := w.check(&s); err != nil {
		return nil, err
	}
	x := w.rooms.Get().(*walker)
	defer w.rooms.Put(x)
	q, out := s.Query, make([][]int32, 1+len(others))
	if s.K == 0 || !x.ask(&s) {
		return out, nil
	}
	x.walk(max(s.Width, 1))
	keep := func(row int32) bool { return allows(&q, row) && (s.Keep == nil || s.Keep(row)) }
	for _, at := range x.stops {
		if row := at.place(); keep(row) {
			if out[0] = append(out[0], row); len(out[0]) == s.K {
				break
			}
		}
	}
	if len(others) == 0 {
		return out, nil
	}
	rows, scores := make([]int32, 0, len(x.path)), make([]float32, 0, len(x.path))
	for k, row := range x.path {
		if keep(row) {
			rows, scores = append(rows, row), append(scores, x.met[k])
		}
	}
	addEven(scores, q) // which changes no order but those of others
	by := make([]float32, len(scores))
	for o, rank := range others {
		copy(by, scores)
		rank(by, rows)
		out[1+o] = bestOf(by, rows, s.K)
	}
	return out, nil
}

// Near sets dst to about what rows score, by their codes. Of the walk it takes what scores are made of.
func (w *Web) Near(dst []float32, s Walk, rows []int32) error {
	if err := w.check(&s); err != nil {
		return err
	}
	x := w.rooms.Get().(*walker)
	defer w.rooms.Put(x)
	if !x.ask(&s) {
		return fmt.Errorf("%w: a query that is not finite, too large or too small", engine.ErrShape)
	}
	for len(rows) > 0 {
		x.ids = append(x.ids[:0], rows[:min(len(rows), len(x.scores))]...)
		count := copy(dst, x.look())
		addEven(dst[:count], s.Query)
		dst, rows = dst[count:], rows[count:]
	}
	return nil
}

// addEven adds to scores the offset that all fields have, which walks leave out.
func addEven(scores []float32, q engine.SearchQuery) {
	if q.Even() && len(q.Offsets) > 0 {
		for k := range scores {
			scores[k] += q.Offsets[0]
		}
	}
}

// bestOf returns the rows with the largest scores, best first.
func bestOf(scores []float32, rows []int32, k int) []int32 {
	best := make(kern.Heap, 0, min(k, len(rows)))
	for at, row := range rows {
		if z := scores[at]; z == z {
			best.Offer(kern.RowScore{Row: row, Score: z}, k)
		}
	}
	best.Sort()
	out := make([]int32, len(best))
	for at, h := range best {
		out[at] = h.Row
	}
	return out
}

// Top returns the hits, best first, of equal ones the lowest, with the scores of a scan: those of the likely rows.
// Which they are does not depend on chance or threads.
func (w *Web) Top(s Walk) ([]engine.Hit, error) {
	if err := w.check(&s); err != nil || s.K == 0 {
		return nil, err
	}
	more := s
	more.K += s.K/8 + 8 // the order by codes is nearly the true one
	rows, err := w.Likely(more)
	if err != nil {
		return nil, err
	}
	return s.exactly(rows[0]), nil
}

// allows reports whether a row may be a hit of a query.
func allows(q *engine.SearchQuery, row int32) bool {
	if _, skip := slices.BinarySearch(q.Skip, row); skip {
		return false
	}
	if q.Among == nil {
		return true
	}
	_, among := slices.BinarySearch(q.Among, row)
	return among
}

// exactly scores rows in full and keeps the best.
func (s *Walk) exactly(rows []int32) []engine.Hit {
	q, z := s.Query, make([]float32, len(rows))
	kern.Dots(z, q.Vector, kern.MatrixOf(s.Targets), rows)
	best := make([]uint64, 0, len(rows))
	for k, i := range rows {
		if len(q.Offsets) > 0 {
			field := uint16(0) // they are even
			if len(s.Fields) > 0 {
				field = s.Fields[i]
			}
			z[k] += q.Offsets[field]
		}
		if q.Slope != 0 {
			z[k] += q.Slope * s.Values[i]
		}
		if z[k] == z[k] {
			best = append(best, ^kern.HitKey(kern.RowScore{Row: i, Score: z[k]}))
		}
	}
	slices.Sort(best)
	hits := make([]engine.Hit, min(s.K, len(best)))
	for k := range hits {
		h := kern.HitOf(^best[k])
		hits[k] = engine.Hit{Target: h.Row, Score: h.Score}
	}
	return hits
}

// TopK returns the hits of many queries; see Top. Width is of all of them, and wider for those that are about few of
// the targets.
func (w *Web) TopK(ctx context.Context, s engine.TargetSearch, width, threads int) ([][]engine.Hit, error) {
	hits := make([][]engine.Hit, len(s.Queries))
	return hits, kern.ChunksErr(ctx, len(hits), 1, kern.Threads(threads), func(_, k, _, _ int) (err error) {
		q := s.Queries[k]
		allowed := w.Rows()
		if q.Among != nil {
			allowed = len(q.Among)
		}
		hits[k], err = w.Top(Walk{Targets: s.Targets, Fields: s.Fields, Values: s.Values, Query: q, K: s.K,
			Width: w.WidthFor(width, allowed)})
		return err
	})
}

// WidthFor is how wide a walk is to be where only so many rows may be hits, to find as many of the best as one that is
// so wide among all.
func (w *Web) WidthFor(width, allowed int) int {
	if allowed >= w.Rows() {
		return min(width, MostWidth)
	}
	return min(int(float64(width)*float64(w.Rows())/float64(max(allowed, 1))), MostWidth)
}
