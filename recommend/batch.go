package recommend

import (
	"context"
	"fmt"
	"slices"

	"unseen/internal/kern"
	"unseen/model"
)

// Row is the list of one source among many, best first.
type Row struct {
	Source  int32
	Targets []int32
	Logits  []float32 // of ŷ
	Naive   []int32   // the rank of each target in the naive model's list, 0 where that is too short; nil without one
}

// batchSize is how many sources are scored by one pass over the vectors.
const batchSize = 256

// Batch recommends to many sources: the K best of each, without what it links to unless q.Linked. The same
// nodes as Top gives come out, by block products where the model is an inner product without a field's offset; z may
// differ in the last bits. Filters, exclusions and dials need Top. Results do not depend on the number of threads.
func (r *Recommender) Batch(ctx context.Context, sources []int32, q Query) ([]Row, error) {
	if !q.plain() {
		return nil, fmt.Errorf("%w: a batch has no filters and no dials; ask for each source by itself", ErrQuery)
	}
	rows := make([]Row, len(sources))
	for k, i := range sources {
		q.Source = r.Node(i)
		if err := r.validate(q); err != nil {
			return nil, err
		}
		rows[k].Source = i
	}
	for from := 0; from < len(rows); from += batchSize {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		part := rows[from:min(from+batchSize, len(rows))]
		if err := r.batch(part, r.model, q, func(row *Row, hits []kern.Hit) {
			for _, h := range hits {
				row.Targets, row.Logits = append(row.Targets, h.Index), append(row.Logits, h.Score)
			}
		}); err != nil {
			return nil, err
		}
		if r.naive == nil {
			continue
		}
		if err := r.batch(part, *r.naive, q, func(row *Row, hits []kern.Hit) {
			place := make(map[int32]int32, len(hits))
			for k, h := range hits {
				place[h.Index] = int32(k + 1)
			}
			row.Naive = make([]int32, len(row.Targets))
			for k, j := range row.Targets {
				row.Naive[k] = place[j]
			}
		}); err != nil {
			return nil, fmt.Errorf("the naive model: %w", err)
		}
	}
	return rows, nil
}

// batch finds the best of some sources by one model.
func (r *Recommender) batch(rows []Row, m model.Model, q Query, keep func(*Row, []kern.Hit)) error {
	inner, ok := m.Link.(model.InnerProduct)
	spare := 1 // the source itself
	if !q.Linked {
		for k := range rows {
			spare = max(spare, 1+len(r.g.Out(rows[k].Source)))
		}
	}
	matrix := kern.MatrixOf(r.nodes.Vectors)
	d, n := matrix.Dim(), len(rows)
	queries, offsets := make([]float32, n*d), make([]float32, r.nodes.FieldCount)
	even := ok && q.K+spare <= kern.MaxK
	common := make([]float32, n)
	for k := 0; k < n && even; k++ {
		inner.Query(queries[k*d:(k+1)*d], offsets, m.LinkParams, rows[k].Source)
		for _, x := range offsets {
			even = even && x == offsets[0]
		}
		common[k] = offsets[0]
	}
	if !even {
		return r.oneByOne(rows, m, q, keep)
	}
	view, err := kern.View(queries, n, d, d)
	if err != nil {
		return err
	}
	for k, hits := range kern.TopK(matrix, view, min(q.K+spare, r.g.Len()), r.threads) {
		row := &rows[k]
		hits = slices.DeleteFunc(hits, func(h kern.Hit) bool {
			return h.Index == row.Source || !q.Linked && r.g.HasLink(row.Source, h.Index)
		})
		hits = hits[:min(q.K, len(hits))]
		for p := range hits {
			hits[p].Score += common[k]
		}
		keep(row, hits)
	}
	return nil
}

// oneByOne is batch for models that are no plain inner product, or lists too long for it.
func (r *Recommender) oneByOne(rows []Row, m model.Model, q Query, keep func(*Row, []kern.Hit)) error {
	room := r.rooms.Get().(*room)
	defer r.rooms.Put(room)
	for k := range rows {
		q.Source = r.Node(rows[k].Source)
		r.candidates(room, q)
		if err := r.score(room.scores, m, q.Source); err != nil {
			return err
		}
		var hits []kern.Hit
		for _, j := range best(room.scores, room.kept, q.K) {
			hits = append(hits, kern.Hit{Index: j, Score: room.scores[j]})
		}
		keep(&rows[k], hits)
	}
	return nil
}
