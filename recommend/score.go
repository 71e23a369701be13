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

// scoreAll scores the candidates for a source: by what lists are ordered by, where that differs by the published model,
// and by the naive one; in one pass over the vectors where it can.
func (r *Recommender) scoreAll(ctx context.Context, room *room, s Source) error {
	type wanted struct {
		into *scored
		by   ranking
	}
	all := []wanted{{room.by, r.ranker}}
	if room.links != room.by {
		all = append(all, wanted{room.links, r.published})
	}
	if r.naive != nil {
		all = append(all, wanted{room.naive, r.baseline})
	}
	var together []wanted
	var queries []engine.SearchQuery
	for _, w := range all {
		if w.by.rows == r.ranker.rows && !s.anybody && !r.narrow(room.kept) {
			if q, ok := r.query(w.by, s); ok {
				together, queries = append(together, w), append(queries, q)
				continue
			}
		}
		if err := r.score(ctx, w.into, w.by, s, room.kept); err != nil {
			if w.into == room.naive {
				err = fmt.Errorf("the naive model: %w", err)
			}
			return err
		}
	}
	if len(queries) == 0 {
		return nil
	}
	n := r.g.Len()
	scores := together[0].into.z[:n]
	if len(queries) > 1 {
		room.joint = slices.Grow(room.joint[:0], n*len(queries))[:n*len(queries)]
		scores = room.joint
	}
	bounds := make([]engine.ScoreBound, len(queries))
	if _, err := r.engine.TopK(ctx, engine.TargetSearch{Targets: r.ranker.rows, Fields: r.nodes.Fields,
		Values: r.ranker.Popularity, Queries: queries, Scores: scores, Sketch: r.sketchOf(r.ranker),
		Bounds: bounds}); err != nil {
		return err
	}
	for k, w := range together {
		copy(w.into.z, scores[k*n:(k+1)*n]) // onto itself, if it is alone
		r.scoreExtra(w.into.z, w.by, queries[k], s.over)
		r.estimate(w.into, w.by, queries[k], bounds[k])
	}
	return nil
}

// narrow reports whether the candidates are so few that it is faster to look at each than at all nodes.
func (r *Recommender) narrow(kept []int32) bool { return len(kept) < r.g.Len()/8 }

// score sets what a ranker makes of the candidates for a source; nil means all nodes, and no estimates.
func (r *Recommender) score(ctx context.Context, into *scored, by ranking, s Source, kept []int32) error {
	into.exact()
	z := into.z
	if s.anybody && by.rows != nil {
		return r.scoreAnybody(ctx, z, by, s.over)
	}
	if q, ok := r.query(by, s); ok {
		defer r.scoreExtra(z, by, q, s.over)
		if kept != nil && r.narrow(kept) {
			inGraph, _ := slices.BinarySearch(kept, int32(r.g.Len()))
			found := make([]float32, inGraph)
			r.lookup(found, by, q, kept[:inGraph])
			for k, j := range kept[:inGraph] {
				z[j] = found[k]
			}
			return ctx.Err()
		}
		search := engine.TargetSearch{Targets: by.rows, Fields: r.nodes.Fields, Values: by.Popularity,
			Queries: []engine.SearchQuery{q}, Scores: z[:r.g.Len()], Bounds: make([]engine.ScoreBound, 1)}
		if kept != nil {
			search.Sketch = r.sketchOf(by)
		}
		_, err := r.engine.TopK(ctx, search)
		r.estimate(into, by, q, search.Bounds[0])
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
		Queries: []engine.SearchQuery{q}, K: k, Sketch: r.sketches[r.nodes.Vectors]})
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

// seen sets log π̂ + log ŷ of every candidate, at its place: the order in which links are seen rather than made. Others
// have no meaning. Where π̂ is a matter of fields alone it is looked up.
func (r *Recommender) seen(ctx context.Context, room *room, s Source) error {
	hidden, byField, err := r.hiddenBy(ctx, room, s)
	if err != nil {
		return err
	}
	out := room.seen
	lookup := func(dst []float32, nodes []int32) {
		room.links.settle(nodes)
		z := make([]float32, len(nodes))
		for k, j := range nodes {
			z[k] = room.links.z[j]
		}
		kern.LogSigmoid(dst, z)
		hidden(z, nodes)
		for k, x := range z {
			dst[k] -= x
		}
	}
	if out.exact(); r.narrow(room.kept) {
		found := room.spare[:len(room.kept)]
		lookup(found, room.kept)
		for k, j := range room.kept {
			out.z[j] = found[k]
		}
		return nil
	}
	kern.LogSigmoid(out.z, room.links.z)
	if byField != nil {
		for j, f := range r.nodes.Fields { // all of the graph: that is faster than to look who is a candidate
			out.z[j] -= byField[f]
		}
		for j := len(r.nodes.Fields); j < len(out.z); j++ {
			out.z[j] -= byField[r.FieldAt(s.over, int32(j))]
		}
	} else {
		hidden(room.spare[:len(room.kept)], room.kept)
		for k, x := range room.spare[:len(room.kept)] {
			out.z[room.kept[k]] -= x
		}
	}
	if room.links.lookup == nil {
		return nil
	}
	out.estimated(r.g.Len(), room.links.bound, lookup)
	// the slope of log π̂ŷ in the logit of ŷ is 1 − ŷ + γ(1 − π̂)
	gamma, _ := model.LinkSlope(r.model.Propensity, r.model.PropensityParams)
	out.of, out.times, out.rounds = room.links, max(gamma, -gamma)*(1+0x1p-10), 0x1p-18*(1+max(gamma, -gamma))
	return nil
}

// hiddenBy returns what sets −log π̂ of candidates and, where that is a matter of their fields alone, what it is by
// field.
func (r *Recommender) hiddenBy(ctx context.Context, room *room, s Source) (set func(dst []float32, nodes []int32),
	byField []float32, err error) {
	terms, dense := model.TermsOf(r.model.Propensity, r.model.PropensityParams)
	if dense && terms.ByFields() {
		byField = make([]float32, r.g.FieldCount())
		from := int(r.field(s)) * len(byField)
		for f := range byField {
			logit := terms.Constant
			if terms.Fields != nil {
				logit += terms.Fields[from+f]
			}
			byField[f] = float32(softplus(-float64(logit)))
		}
		fields := r.nodes.Fields
		return func(dst []float32, nodes []int32) {
			for k, j := range nodes {
				if int(j) < len(fields) {
					dst[k] = byField[fields[j]]
				} else {
					dst[k] = byField[r.FieldAt(s.over, j)]
				}
			}
		}, byField, nil
	}
	of := func(dst []float32, nodes []int32) error {
		for k, j := range nodes {
			dst[k] = room.links.z[j]
		}
		logits, err := r.propensities(ctx, s, nodes, dst)
		for k, p := range logits {
			dst[k] = float32(softplus(-float64(p)))
		}
		return err
	}
	if r.terms != nil {
		return func(dst []float32, nodes []int32) { _ = of(dst, nodes) }, nil, nil // sums of terms cannot fail
	}
	// a model of its own, which does not look at ŷ: it is asked once
	kept := room.kept
	all := make([]float32, len(kept))
	err = of(all, kept)
	return func(dst []float32, nodes []int32) {
		for k, j := range nodes {
			at, _ := slices.BinarySearch(kept, j)
			dst[k] = all[at]
		}
	}, nil, err
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
		limit := scores[j]
		if left++; left > counted || limit-limit != 0 { // infinite, or not a number
			return nil, false
		}
		at, _ := slices.BinarySearch(candidates, j)
		out[k] = countAbove(scores, candidates[:at], math.Nextafter32(limit, float32(math.Inf(-1)))) +
			countAbove(scores, candidates[at:], limit) + 1
	}
	return out, true
}

// countAbove counts the candidates with a score above a limit.
func countAbove(scores []float32, candidates []int32, limit float32) (count int) {
	for len(candidates) > 0 {
		first, run := candidates[0], kern.Run(candidates)
		candidates = candidates[run:]
		count += kern.CountAbove(scores[first:][:run], limit)
	}
	return count
}
