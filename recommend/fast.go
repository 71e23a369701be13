package recommend

import (
	"slices"

	"unseen/internal/kern"
	"unseen/model"
)

// fast answers a query by the codes, where those can: found is false where they cannot, and Top goes the exact way.
// They can where all that matters is an inner product, the same for every field but for a constant: without filters
// and dials, and without a naive model, whose ranks are among all candidates.
func (r *Recommender) fast(q Query) (list *List, found bool, err error) {
	inner, ok := r.model.Link.(model.InnerProduct)
	if r.codes == nil || !ok || r.naive != nil || !q.plain() {
		return nil, false, nil
	}
	var never []int32 // of those that the search may find
	if !q.Source.New() {
		if !q.Linked {
			never = slices.Clone(r.g.Out(q.Source.node))
		}
		if !slices.Contains(never, q.Source.node) {
			never = append(never, q.Source.node)
		}
	}
	candidates := r.g.Len() - len(never)
	if q.K+len(never) > kern.MaxK || candidates < 1 {
		return nil, false, nil
	}
	matrix := kern.MatrixOf(r.nodes.Vectors)
	query, offsets := make([]float32, matrix.Dim()), make([]float32, r.nodes.FieldCount)
	if q.Source.New() {
		inner.QueryOf(query, offsets, r.model.LinkParams, q.Source.vector, q.Source.field)
	} else {
		inner.Query(query, offsets, r.model.LinkParams, q.Source.node)
	}
	for _, x := range offsets {
		if x != offsets[0] {
			return nil, false, nil
		}
	}
	view, err := kern.View(query, 1, len(query), len(query))
	if err != nil {
		return nil, false, err
	}
	hits := kern.TopKCodes(r.codes, matrix, view, min(q.K+len(never), r.g.Len()), r.threads)[0]
	hits = slices.DeleteFunc(hits, func(h kern.Hit) bool { return slices.Contains(never, h.Index) })
	hits = hits[:min(q.K, len(hits))]
	chosen, at := make([]drawn, len(hits)), places{logits: make([]float32, len(hits)),
		corrected: make([]int, len(hits))}
	for k, h := range hits {
		chosen[k], at.logits[k], at.corrected[k] = drawn{h.Index, 1}, h.Score+offsets[0], k+1
	}
	list = r.newList(q, candidates)
	list.Approximate = true
	list.Items, err = r.describe(q, chosen, at)
	return list, true, err
}
