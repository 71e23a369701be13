package recommend

import (
	"context"

	"unseen/engine"
)

// fast answers a query by the sketch, where that can: found is false where it cannot, and Top goes the exact way. It
// can where all that matters is an inner product, the same for every field but for a constant: without filters and
// dials, and without a naive model, whose ranks are among all candidates.
func (r *Recommender) fast(ctx context.Context, q Query) (list *List, found bool, err error) {
	if r.sketch == nil || r.naive != nil || !q.plain() || q.Overlay != nil { // nor are people and items sketched
		return nil, false, nil
	}
	query, ok := r.query(r.ranker, q.Source)
	query.Skip = r.skipped(q.Source, q.Linked)
	candidates := r.g.Len() - len(query.Skip)
	count := q.K
	if r.members != nil {
		count = max(count, agreementPool)
	}
	if !ok || !query.Even() || query.Slope != 0 || count+len(query.Skip) > engine.MaxSketchHits || candidates < 1 {
		return nil, false, nil
	}
	lists, err := r.engine.TopK(ctx, engine.TargetSearch{Targets: r.ranker.rows, Queries: []engine.SearchQuery{query},
		K: count, Sketch: r.sketch})
	if err != nil {
		return nil, false, err
	}
	pool := make([]int32, len(lists[0]))
	for k, h := range lists[0] {
		pool[k] = h.Target
	}
	hits := lists[0][:min(q.K, len(pool))]
	chosen, at := make([]drawn, len(hits)), places{logits: make([]float32, len(hits)),
		corrected: make([]int, len(hits))}
	for k, h := range hits {
		chosen[k], at.logits[k], at.corrected[k] = drawn{h.Target, 1, 1}, h.Score, k+1
	}
	list = r.newList(q, candidates)
	list.Approximate = true
	if r.members != nil {
		at.logits = r.logits(r.published, q.Source, pool[:len(hits)])
		list.Agreement = r.agreement(q, pool)
	}
	list.Items, err = r.describe(ctx, q, chosen, at)
	return list, true, err
}
