package recommend

import (
	"context"
	"fmt"
	"slices"

	"unseen/engine"
	"unseen/internal/kern"
)

// Row is the list of one source among many, best first.
type Row struct {
	Source  int32
	Targets []int32
	Logits  []float32 // of ŷ
	Naive   []int32   // the rank of each target in the naive model's list, 0 where that is too short; nil without one
}

// How many sources are scored by one call: exactly, unless an engine has a number of its own, a multiple of what is
// compared with a vector at a time; by the index, as many as several threads look for at once, those of like nodes
// together.
const (
	batchSize   = 960
	indexedSize = 1 << 15
)

// Batch recommends to many sources: the K best of each, without what it links to unless q.Linked. The same
// nodes as Top gives come out, by block products where the model is an inner product without a field's offset; z may
// differ in the last bits. Filters, exclusions and dials need Top. Results do not depend on the number of threads.
func (r *Recommender) Batch(ctx context.Context, sources []int32, q Query) ([]Row, error) {
	if !q.plain() {
		return nil, fmt.Errorf("%w: a batch has no filters and no dials; ask for each source by itself", ErrQuery)
	}
	rows, order := make([]Row, len(sources)), make([]*Row, len(sources))
	for k, i := range sources {
		q.Source = r.Node(i)
		if err := r.validate(q); err != nil {
			return nil, err
		}
		rows[k].Source = i
		order[k] = &rows[k]
	}
	together := batchSize
	if e, many := r.engine.(engine.Batching); many {
		together = e.Together()
	}
	if !q.Exact && r.ManyByIndex(q.K) {
		together = indexedSize
		for at, k := range r.web.Together(sources) {
			order[at] = &rows[k]
		}
	}
	for from := 0; from < len(order); from += together {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		part := order[from:min(from+together, len(order))]
		if err := r.batch(ctx, part, r.ranker, q, func(row *Row, hits []engine.Hit) {
			row.Targets, row.Logits = make([]int32, len(hits)), make([]float32, len(hits))
			for k, h := range hits {
				row.Targets[k], row.Logits[k] = h.Target, h.Score
			}
		}); err != nil {
			return nil, err
		}
		if r.members != nil { // the scores are not z
			for _, row := range part {
				row.Logits = r.logits(r.published, r.Node(row.Source), row.Targets)
			}
		}
		if r.naive == nil {
			continue
		}
		if err := r.batch(ctx, part, r.baseline, q, func(row *Row, hits []engine.Hit) {
			place := make(map[int32]int32, len(hits))
			for k, h := range hits {
				place[h.Target] = int32(k + 1)
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

// batch finds the best of some sources by one ranker. Several goroutines call keep.
func (r *Recommender) batch(ctx context.Context, rows []*Row, by ranking, q Query,
	keep func(*Row, []engine.Hit)) error {
	if by.rows == nil {
		return r.oneByOne(ctx, rows, by, q, keep)
	}
	search := engine.TargetSearch{Targets: by.rows, Fields: r.nodes.Fields, Values: by.Popularity, K: q.K,
		Sketch: r.sketchOf(by)}
	search.Queries = make([]engine.SearchQuery, len(rows))
	kern.Chunks(len(rows), 64, r.threads, func(_, _, from, to int) {
		for k := from; k < to; k++ {
			source := r.Node(rows[k].Source)
			query, _ := r.query(by, source)
			query.Skip = r.skipped(source, q.Linked)
			if r.g.TwoSided() {
				query.Among = r.g.Targets()
			}
			search.Queries[k] = query
		}
	})
	lists, err := r.batchTop(ctx, search, by, q)
	if err != nil {
		return err
	}
	kern.Chunks(len(rows), 64, r.threads, func(_, _, from, to int) {
		for k := from; k < to; k++ {
			keep(rows[k], lists[k])
		}
	})
	return nil
}

// skipped lists who is never recommended to a source: itself and, unless they may be, those that it links to.
func (r *Recommender) skipped(s Source, linked bool) (skip []int32) {
	if !linked {
		skip = slices.Clone(r.linkedBy(s))
	}
	if s.New() {
		return skip
	}
	if at, found := slices.BinarySearch(skip, s.node); !found {
		skip = slices.Insert(skip, at, s.node)
	}
	return skip
}

// oneByOne is batch for models that are no inner product.
func (r *Recommender) oneByOne(ctx context.Context, rows []*Row, by ranking, q Query,
	keep func(*Row, []engine.Hit)) error {
	room := r.enter(nil)
	defer r.rooms.Put(room)
	for k := range rows {
		q.Source = r.Node(rows[k].Source)
		r.candidates(room, q)
		if err := r.score(ctx, room.by, by, q.Source, room.kept); err != nil {
			return err
		}
		var hits []engine.Hit
		for _, j := range room.by.best(room.kept, q.K) {
			hits = append(hits, engine.Hit{Target: j, Score: room.by.z[j]})
		}
		keep(rows[k], hits)
	}
	return nil
}
