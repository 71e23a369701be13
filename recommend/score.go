package recommend

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"

	"unseen/engine"
	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
)

// ranking is a ranker with what its queries are multiplied with; nil if it is no inner product.
type ranking struct {
	model.Ranker
	rows    *graph.Vectors
	folding *model.Folding // of models with learned factors
}

func newRanking(by model.Ranker) (out ranking, err error) {
	out.Ranker = by
	if inner, ok := by.Link.(model.InnerProduct); ok {
		if out.rows, err = inner.Rows(by.Params); err != nil {
			err = fmt.Errorf("%w: %w", ErrModel, err)
		}
	}
	return out, err
}

// scoreAll scores every node for a source: by what lists are ordered by and, where that differs, by the published
// model, in one pass over the vectors.
func (r *Recommender) scoreAll(ctx context.Context, room *room, s Source) error {
	if r.members == nil {
		return r.score(ctx, room.scores, r.ranker, s)
	}
	if s.anybody {
		return cmp.Or(r.score(ctx, room.scores, r.ranker, s), r.score(ctx, room.links, r.published, s))
	}
	n := r.g.Len()
	own, _ := r.query(r.ranker, s) // members are inner products
	published, _ := r.query(r.published, s)
	_, err := r.engine.TopK(ctx, engine.TargetSearch{Targets: r.ranker.rows, Fields: r.nodes.Fields,
		Values: r.ranker.Popularity, Queries: []engine.SearchQuery{own, published}, Scores: room.both})
	if s.over.count() > 0 {
		copy(room.scores, room.both[:n])
		copy(room.links, room.both[n:])
		r.scoreExtra(room.scores, r.ranker, own, s.over)
		r.scoreExtra(room.links, r.published, published, s.over)
	}
	return err
}

// score sets what a ranker makes of every node for a source.
func (r *Recommender) score(ctx context.Context, z []float32, by ranking, s Source) error {
	if s.anybody && by.rows != nil {
		return r.scoreAnybody(ctx, z, by, s.over)
	}
	if q, ok := r.query(by, s); ok {
		_, err := r.engine.TopK(ctx, engine.TargetSearch{Targets: by.rows, Fields: r.nodes.Fields,
			Values: by.Popularity, Queries: []engine.SearchQuery{q}, Scores: z[:r.g.Len()]})
		r.scoreExtra(z, by, q, s.over)
		return err
	}
	if s.New() {
		return fmt.Errorf("%w: a %s model needs a node of the graph and cannot judge a new source; fit a "+
			"diagonal or low-rank one", ErrModel, by.Link.Kind())
	}
	all := make([]int32, r.g.Len())
	for j := range all {
		all[j] = int32(j)
	}
	logits, _, err := engine.SourceLogits(ctx, r.engine, engine.Predictor{Link: by.Link, LinkParams: by.Params},
		s.node, all)
	for k := copy(z, logits); k < len(z); k++ { // such a model cannot judge what is behind the graph
		z[k] = float32(math.Inf(-1))
	}
	return err
}

// query is what targets of a source are compared with by a ranker; false if that is no inner product.
func (r *Recommender) query(by ranking, s Source) (q engine.SearchQuery, ok bool) {
	if by.rows == nil {
		return q, false
	}
	q.Vector, q.Offsets = make([]float32, by.rows.Dim()), make([]float32, r.nodes.FieldCount)
	q.Slope = by.Slope
	if !s.New() {
		by.Link.(model.InnerProduct).Query(q.Vector, q.Offsets, by.Params, s.node)
		return q, true
	}
	if s.folded != nil {
		if by.rows == r.baseline.rows {
			return s.folded.baseline, s.folded.baseline.Vector != nil
		}
		return s.folded.published, true
	}
	link, ok := by.Link.(model.VectorQuery)
	if ok {
		link.QueryOf(q.Vector, q.Offsets, by.Params, s.vector, s.field)
	}
	return q, ok
}

// search returns the nodes whose vectors are most like a query.
func (r *Recommender) search(ctx context.Context, q engine.SearchQuery, k int) ([]engine.Hit, error) {
	hits, err := r.engine.TopK(ctx, engine.TargetSearch{Targets: r.nodes.Vectors, Fields: r.nodes.Fields,
		Queries: []engine.SearchQuery{q}, K: k})
	if err != nil {
		return nil, err
	}
	return hits[0], nil
}

// propensities returns the logits of π̂ of some targets for a source, given those of ŷ.
func (r *Recommender) propensities(ctx context.Context, s Source, targets []int32, z []float32) ([]float32, error) {
	source := s.node
	if s.New() {
		source = s.like
		if source < 0 { // nobody has the field: any node will do, as nothing is known of it
			source = 0
		}
	}
	targets = r.likeTargets(s.over, targets)
	if r.terms != nil {
		logits := make([]float32, len(targets))
		r.terms.Logits(logits, r.nodes, source, targets, z)
		return logits, nil
	}
	_, logits, err := engine.SourceLogits(ctx, r.engine,
		engine.Predictor{Propensity: r.model.Propensity, PropensityParams: r.model.PropensityParams}, source, targets)
	return logits, err
}

// seen returns log π̂ + log ŷ of every candidate, at its place: the order in which links are seen
// rather than made. Others have no meaning. Where π̂ is a matter of fields alone it is looked up.
func (r *Recommender) seen(ctx context.Context, room *room, s Source) ([]float32, error) {
	out, negative := room.seen, room.spare
	for j, z := range room.links {
		negative[j] = -z
	}
	kern.SigmoidSoftplus(negative, out, negative)
	terms, dense := model.TermsOf(r.model.Propensity, r.model.PropensityParams)
	if dense && terms.ByFields() {
		byField := make([]float32, r.g.FieldCount())
		from := int(r.field(s)) * len(byField)
		for f := range byField {
			logit := terms.Constant
			if terms.Fields != nil {
				logit += terms.Fields[from+f]
			}
			byField[f] = float32(softplus(-float64(logit)))
		}
		for _, j := range room.kept {
			out[j] = -out[j] - byField[r.FieldAt(s.over, j)]
		}
		return out, nil
	}
	z := make([]float32, len(room.kept))
	for k, j := range room.kept {
		z[k] = room.links[j]
	}
	logits, err := r.propensities(ctx, s, room.kept, z)
	for k, p := range logits {
		j := room.kept[k]
		out[j] = -out[j] - float32(softplus(-float64(p)))
	}
	return out, err
}

func softplus(x float64) float64 { return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// ranks returns the place of each of some candidates among all, in the order of scores, from 1 on. The order is
// counted, not built.
func ranks(scores []float32, candidates, of []int32) []int {
	if out, few := fewRanks(scores, candidates, of); few {
		return out
	}
	sorted := slices.Clone(of) // best first
	slices.SortFunc(sorted, func(a, b int32) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b))
	})
	// count[p] candidates come before sorted[p] and not before sorted[p−1]
	count := make([]int, len(sorted)+1)
	limits := make([]float32, len(sorted))
	for p, j := range sorted {
		limits[p] = scores[j]
	}
	for _, j := range candidates {
		z, at := scores[j], len(sorted)
		// Most come after all of them, or after all but one that was drawn from far down.
		for steps := 0; at > 0 && (z > limits[at-1] || z == limits[at-1] && j < sorted[at-1]); steps++ {
			if at--; steps == 3 {
				at = sort.Search(at, func(p int) bool { return z > limits[p] || z == limits[p] && j < sorted[p] })
				break
			}
		}
		count[at]++
	}
	place := make(map[int32]int, len(sorted))
	before := 0
	for p, j := range sorted {
		before += count[p]
		place[j] = before
	}
	out := make([]int, len(of))
	for k, j := range of {
		// j itself is counted after its own place
		out[k] = place[j] + 1
	}
	return out
}

// fewRanks is ranks where all but a few are the best of all, as in most lists: their places are known, and only for the
// others are the candidates counted that come before.
func fewRanks(scores []float32, candidates, of []int32) (out []int, few bool) {
	const counted = 4
	top := kern.Best(scores, candidates, len(of))
	place := make(map[int32]int, len(top))
	for p, j := range top {
		place[j] = p + 1
	}
	out = make([]int, len(of))
	left := 0
	for k, j := range of {
		if out[k] = place[j]; out[k] > 0 {
			continue
		}
		limit, before := scores[j], 0
		if left++; left > counted || limit-limit != 0 { // infinite, or not a number
			return nil, false
		}
		for _, i := range candidates {
			z := scores[i]
			before += int(math.Float32bits(limit-z) >> 31) // the sign: 1 where z > limit, without a branch to guess
			if z == limit && i < j {
				before++
			}
		}
		out[k] = before + 1
	}
	return out, true
}
