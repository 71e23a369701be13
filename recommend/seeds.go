package recommend

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"unseen/engine"
	"unseen/internal/kern"
	"unseen/model"
)

// Seed is a node that a source is made of, and how much it counts.
type Seed struct {
	Place  int32 // that Find has returned
	Weight float64
}

// seedPart is what a seed adds to the query of a model over vectors.
type seedPart struct {
	name   string
	vector []float32 // times its share
}

// Seeds is a source of several: people or papers whose list is one, each counted by its weight. Its z of a target is
// the weighted mean of theirs, as z is linear in a source's vector or factors; of models over vectors also targets can
// be seeds, as what a reader has read. It links to the seeds and, if asked, to what they link to.
func (r *Recommender) Seeds(ctx context.Context, o *Overlay, seeds []Seed, links bool) (s Source, err error) {
	total, err := r.checkSeeds(seeds)
	if err != nil {
		return s, err
	}
	var linked []int32
	fields := make([]float64, r.g.FieldCount())
	for _, seed := range seeds {
		linked = append(linked, seed.Place)
		fields[r.FieldAt(o, seed.Place)] += seed.Weight
	}
	if r.published.folding != nil {
		s, err = r.meanOfPeople(ctx, o, seeds, total)
	} else {
		s, err = r.meanOfVectors(ctx, o, seeds, total, fields)
	}
	if err != nil {
		return Source{}, err
	}
	for _, seed := range seeds {
		switch e := r.extraAt(o, seed.Place); {
		case !links:
		case e != nil && e.Links != nil:
			linked = append(linked, r.placesOfIDs(o, e.Links)...)
		case e != nil && e.base >= 0:
			linked = append(linked, r.g.Out(e.base)...)
		case e == nil:
			linked = append(linked, r.g.Out(seed.Place)...)
		}
	}
	slices.Sort(linked)
	s.linked, s.relinked = slices.Compact(linked), true
	return s, nil
}

// checkSeeds returns the sum of the weights.
func (r *Recommender) checkSeeds(seeds []Seed) (total float64, err error) {
	if len(seeds) == 0 {
		return 0, fmt.Errorf("%w: no seeds; give at least one", ErrQuery)
	}
	for _, seed := range seeds {
		if !(seed.Weight > 0) || math.IsInf(seed.Weight, 0) {
			return 0, fmt.Errorf("%w: a weight of %v; give positive numbers", ErrQuery, seed.Weight)
		}
		total += seed.Weight
	}
	return total, r.open()
}

// meanOfVectors is the source with the mean vector.
func (r *Recommender) meanOfVectors(ctx context.Context, o *Overlay, seeds []Seed, total float64, fields []float64) (
	Source, error) {
	mean := make([]float32, r.nodes.Dim())
	parts := make([]seedPart, len(seeds))
	for k, seed := range seeds {
		vector := make([]float32, len(mean))
		r.loadVector(vector, o, seed.Place)
		for d := range vector {
			vector[d] *= float32(seed.Weight / total)
			mean[d] += vector[d]
		}
		item := r.item(o, seed.Place)
		parts[k] = seedPart{cmp.Or(item.Title, item.ID), vector}
	}
	field := uint16(0)
	for f, weight := range fields {
		if weight > fields[field] {
			field = uint16(f)
		}
	}
	s, err := r.Vector(ctx, mean, field)
	s.parts = parts
	return s, err
}

// meanOfPeople is the source with the mean query.
func (r *Recommender) meanOfPeople(ctx context.Context, o *Overlay, seeds []Seed, total float64) (Source, error) {
	out := Source{known: true, folded: &folded{}, like: r.g.Sources()[0]}
	add := func(sum *engine.SearchQuery, q engine.SearchQuery, share float32) {
		if sum.Vector == nil {
			*sum = engine.SearchQuery{Vector: make([]float32, len(q.Vector)), Offsets: make([]float32, len(q.Offsets))}
		}
		for d, x := range q.Vector {
			sum.Vector[d] += share * x
		}
		for g, x := range q.Offsets {
			sum.Offsets[g] += share * x
		}
	}
	heaviest := 0.
	for _, seed := range seeds {
		s, err := r.At(ctx, o, seed.Place)
		if err == nil && !s.New() && !r.g.IsSource(s.node) {
			err = fmt.Errorf("%w: %q is a target only; give it in a history", ErrQuery, r.g.ID(s.node))
		}
		if err != nil {
			return Source{}, err
		}
		share := float32(seed.Weight / total)
		q, _ := r.query(r.published, s)
		add(&out.folded.published, q, share)
		if r.baseline.rows != nil {
			if q, ok := r.query(r.baseline, s); ok {
				add(&out.folded.baseline, q, share)
			}
		}
		if seed.Weight > heaviest {
			heaviest, out.field = seed.Weight, r.field(s)
			if out.like = s.like; !s.New() {
				out.like = s.node
			}
		}
	}
	return out, nil
}

// readers is how many sources stand for all where nothing is known of one.
const readers = 256

// Anybody is a source of whom nothing is known. Targets are ordered by the mean ŷ of 256 sources, evenly spaced over
// all of them: by how many would link to a target if it were shown to them, not by how many did, which repeats whom it
// was shown to.
func (r *Recommender) Anybody(ctx context.Context) (Source, error) {
	if err := r.open(); err != nil {
		return Source{}, err
	}
	if r.ranker.rows == nil {
		return Source{}, fmt.Errorf("%w: a %s model is too slow for the mean of all sources; fit a diagonal or "+
			"low-rank one", ErrModel, r.model.Link.Kind())
	}
	for _, by := range []ranking{r.ranker, r.published, r.baseline} {
		if by.rows == nil {
			continue
		}
		if _, err := r.meansOf(ctx, by); err != nil {
			return Source{}, err
		}
	}
	return Source{known: true, anybody: true, like: r.g.Sources()[0]}, nil
}

// meanScores are the logits of the mean ŷ of all nodes, and the queries that they are of.
type meanScores struct {
	logits  []float32
	queries []engine.SearchQuery
}

// place of a ranking among the kept means.
func (r *Recommender) meanPlace(by ranking) int {
	switch {
	case r.naive != nil && by.rows == r.baseline.rows && &by.Params[0] == &r.baseline.Params[0]:
		return 2
	case &by.Params[0] == &r.published.Params[0]:
		return 1
	}
	return 0
}

// meansOf returns the means by a ranking, which are found once.
func (r *Recommender) meansOf(ctx context.Context, by ranking) (*meanScores, error) {
	r.meansMu.Lock()
	defer r.meansMu.Unlock()
	kept := &r.means[r.meanPlace(by)]
	if *kept != nil {
		return *kept, nil
	}
	const together = 16
	sources := r.g.Sources()
	count := min(readers, len(sources))
	m := &meanScores{logits: make([]float32, r.g.Len())}
	sums, scores := make([]float64, r.g.Len()), make([]float32, together*r.g.Len())
	for k := range count {
		q, _ := r.query(by, r.Node(sources[k*len(sources)/count]))
		m.queries = append(m.queries, q)
	}
	for part := range slices.Chunk(m.queries, together) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		z := scores[:len(part)*r.g.Len()]
		if _, err := r.engine.TopK(ctx, engine.TargetSearch{Targets: by.rows, Fields: r.nodes.Fields,
			Values: by.Popularity, Queries: part, Scores: z}); err != nil {
			return nil, err
		}
		kern.Sigmoid(z, z)
		for k := range z {
			sums[k%r.g.Len()] += float64(z[k])
		}
	}
	for j, sum := range sums {
		m.logits[j] = logitOf(sum / float64(count))
	}
	*kept = m
	return m, nil
}

// logitOf is that of a probability, finite for 0 and 1.
func logitOf(p float64) float32 {
	p = min(max(p, 1e-12), 1-1e-12)
	return float32(math.Log(p / (1 - p)))
}

// scoreAnybody sets the logits of the mean ŷ by a ranking.
func (r *Recommender) scoreAnybody(ctx context.Context, z []float32, by ranking, o *Overlay) error {
	m, err := r.meansOf(ctx, by)
	if err != nil {
		return err
	}
	copy(z, m.logits)
	if o.count() == 0 {
		return nil
	}
	z = z[r.g.Len():]
	which := r.meanPlace(by)
	for k := range o.extra {
		e := &o.extra[k]
		if o.dead[k] || !e.judged {
			continue
		}
		if known := e.means[which].Load(); known != 0 { // two queries at once find the same
			z[k] = math.Float32frombits(uint32(known))
			continue
		}
		z[k] = r.meanOfExtra(m, by, o, k)
		e.means[which].Store(1<<32 | uint64(math.Float32bits(z[k])))
	}
	return nil
}

// meanOfExtra is the logit of the mean ŷ of a node behind the graph.
func (r *Recommender) meanOfExtra(m *meanScores, by ranking, o *Overlay, k int) float32 {
	rows := o.rowsOf(by)
	dim := len(m.queries[0].Vector)
	row := rows[k*dim : (k+1)*dim]
	var sum float64
	for _, q := range m.queries {
		z := product(q.Vector, row) + float64(q.Offsets[o.extra[k].field])
		if base := o.extra[k].base; by.Slope != 0 && base >= 0 {
			z += float64(by.Slope * by.Popularity[base])
		}
		sum += sigmoid(z)
	}
	return logitOf(sum / float64(len(m.queries)))
}

// explainSeeds says how much each seed adds to z, the three that add most.
func (r *Recommender) explainSeeds(s Source, item Item) (out []*Explanation, sum float64) {
	link, ok := r.model.Link.(model.VectorQuery)
	if !ok {
		return nil, 0
	}
	to, q, offsets := make([]float32, r.nodes.Dim()), make([]float32, r.nodes.Dim()), make([]float32,
		r.nodes.FieldCount)
	r.loadVector(to, s.over, item.Node)
	for _, part := range s.parts {
		link.QueryOf(q, offsets, r.model.LinkParams, part.vector, s.field)
		value := product(q, to)
		sum += value
		out = append(out, &Explanation{Value: value, Message: "because of “" + part.name + "”"})
	}
	slices.SortStableFunc(out, func(a, b *Explanation) int { return cmp.Compare(b.Value, a.Value) })
	if len(out) > 3 {
		rest := sum
		for _, e := range out[:3] {
			rest -= e.Value
		}
		out = append(out[:3], &Explanation{Value: rest, Message: fmt.Sprintf("the other %d", len(out)-3)})
	}
	return out, sum
}
