package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"unseen/graph"
	"unseen/internal/kern"
	"unseen/model"
	"unseen/risk"
)

// Means are means over all ordered pairs of a graph, i ≠ j: not estimated from a sample, but
// computed. The risks are those of the model's own predictions under the log-loss.
type Means struct {
	Pairs      int64   `json:"pairs"`
	MeanLink   float64 `json:"meanLink"`   // ŷ
	Likelihood float64 `json:"likelihood"` // −log
	Naive      float64 `json:"naive"`
	W          float64 `json:"w"`
	PU         float64 `json:"pu"`
	AP         float64 `json:"ap"`
}

// Most nodes over which all pairs are summed: by blocks where the models allow it, else pair by pair.
const (
	MostNodes      = 50_000
	mostNodesPairs = 4_000
)

// AllPairs implements Engine. With o = 0 every mass depends on (z, π̂) alone, and linked pairs are
// few: nodes are taken field by field, so that a block of pairs has one π̂; every block is a dense
// product whose o = 0 terms are summed as they come; then the diagonal is taken out, and the linked
// pairs have their o = 0 terms replaced by those of o = 1. The sums do not depend on the number of
// threads.
//
// A link model that is no inner product, or a propensity model that looks at more than the fields,
// is summed pair by pair, for graphs of up to 4,000 nodes.
func (c CPU) AllPairs(ctx context.Context, g *graph.Graph, p Predictor) (Means, error) {
	if err := p.Validate(); err != nil {
		return Means{}, err
	}
	n := g.Len()
	_, inner := p.Link.(model.InnerProduct)
	dense := inner && p.byFields()
	switch {
	case n < 2:
		return Means{}, fmt.Errorf("%w: a graph of %d nodes has no pairs", ErrUnsupported, n)
	case n > MostNodes:
		return Means{}, fmt.Errorf("%w: all pairs of %d nodes are %.2g; %d nodes are the most, so judge by a sample",
			ErrUnsupported, n, float64(n)*float64(n-1), MostNodes)
	case !dense && n > mostNodesPairs:
		return Means{}, fmt.Errorf("%w: with the models %s and %s all pairs are summed one by one, and %d "+
			"nodes are the most; judge by a sample",
			ErrUnsupported, p.Link.Kind(), p.Propensity.Kind(), mostNodesPairs)
	}
	var total Sums
	var err error
	if dense {
		all := make([]int32, n)
		for i := range all {
			all[i] = int32(i)
		}
		total, err = c.SumBlock(ctx, model.NodesOf(g), p, all, all)
	} else {
		total, err = sumPairByPair(ctx, g, p, kern.Threads(c.Threads))
	}
	if err != nil {
		return Means{}, err
	}
	linked, err := sumLinked(ctx, g, p)
	if err != nil {
		return Means{}, err
	}
	total.Add(linked)
	return total.Means(), nil
}

// Sums are what a predictor's own predictions come to over some ordered pairs. Those of disjoint pairs add up.
type Sums struct {
	Pairs                              int64
	Link, Likelihood, Naive, W, PU, AP float64
}

// Add adds the sums over other pairs.
func (t *Sums) Add(u Sums) {
	t.Pairs += u.Pairs
	t.Link += u.Link
	t.Likelihood += u.Likelihood
	t.Naive += u.Naive
	t.W += u.W
	t.PU += u.PU
	t.AP += u.AP
}

// Means returns the means.
func (t Sums) Means() Means {
	pairs := float64(t.Pairs)
	return Means{
		Pairs: t.Pairs, MeanLink: t.Link / pairs, Likelihood: t.Likelihood / pairs,
		Naive: t.Naive / pairs, W: t.W / pairs, PU: t.PU / pairs, AP: t.AP / pairs,
	}
}

// unlinked adds what a block of unlinked pairs sums to.
func (t *Sums) unlinked(s kern.UnlinkedSums, link float64) {
	t.Add(Sums{Link: link, Likelihood: s.NegLog, Naive: s.Loss, W: s.Psi, PU: s.Loss, AP: s.Psi + s.Tau})
}

// SumBlock sums a predictor's own predictions over all pairs from some nodes to others, both ascending, as if none of them
// were linked; SumLinks then puts links right. A node and itself are no pair. The predictor's models must be those of these
// nodes: an inner product, and a propensity of the fields alone. The sums do not depend on the number of threads.
func (c CPU) SumBlock(ctx context.Context, n model.Nodes, p Predictor, sources, targets []int32) (Sums, error) {
	inner, dense := p.Link.(model.InnerProduct)
	if !dense || !p.byFields() {
		return Sums{}, fmt.Errorf("%w: with the models %s and %s pairs are not summed by blocks; judge by a sample",
			ErrUnsupported, p.Link.Kind(), p.Propensity.Kind())
	}
	const height, breadth = 96, 256
	type span struct {
		field uint16
		nodes []int32
	}
	cut := func(nodes []int32, size int) (spans []span) {
		byField := make([][]int32, n.FieldCount)
		for _, i := range nodes {
			byField[n.Fields[i]] = append(byField[n.Fields[i]], i)
		}
		for f, nodes := range byField {
			for from := 0; from < len(nodes); from += size {
				spans = append(spans, span{uint16(f), nodes[from:min(from+size, len(nodes))]})
			}
		}
		return spans
	}
	rows := kern.MatrixOf(n.Vectors)
	d := rows.Dim()
	left, right := cut(sources, height), cut(targets, breadth)
	parts, failed := make([]Sums, len(left)), make([]error, len(left))
	kern.Chunks(len(left), 1, kern.Threads(c.Threads), func(_, number, _, _ int) {
		from := left[number]
		queries, err1 := kern.NewMatrix(len(from.nodes), d)
		block, err2 := kern.NewMatrix(breadth, d)
		if failed[number] = cmp.Or(err1, err2); failed[number] != nil {
			return
		}
		defer queries.Close()
		defer block.Close()
		offsets := make([]float32, len(from.nodes)*n.FieldCount)
		for r, i := range from.nodes {
			inner.Query(queries.Row(r), offsets[r*n.FieldCount:(r+1)*n.FieldCount], p.LinkParams, i)
		}
		room, probabilities := make([]float32, len(from.nodes)*breadth), make([]float32, len(from.nodes)*breadth)
		for _, to := range right {
			if failed[number] = ctx.Err(); failed[number] != nil {
				return
			}
			width := len(to.nodes)
			for r, k := range to.nodes {
				rows.Load(block.Row(r), int(k))
			}
			some, err1 := block.Slice(0, width)
			products, err2 := kern.View(room, len(from.nodes), width, width)
			if failed[number] = cmp.Or(err1, err2); failed[number] != nil {
				return
			}
			kern.MulT(products, queries, some)
			z := room[:len(from.nodes)*width]
			for r := range from.nodes {
				offset := offsets[r*n.FieldCount+int(to.field)]
				row := z[r*width : (r+1)*width]
				for k := range row {
					row[k] += offset
				}
			}
			pair := model.Batch{Sources: from.nodes[:1], Targets: to.nodes[:1]}
			var s [1]float32
			p.Propensity.Logits(s[:], p.PropensityParams, pair)
			pi, rest := kern.Sigmoid64(float64(s[0]))
			var sums kern.UnlinkedSums
			sums.Add(z, pi, rest)
			kern.Sigmoid(probabilities[:len(z)], z)
			link := sumOf(probabilities[:len(z)])
			if from.field == to.field { // the diagonal is no pair
				var own kern.UnlinkedSums
				var ownLink float64
				var itself int64
				for r, i := range from.nodes {
					if at, found := slices.BinarySearch(to.nodes, i); found {
						itself++
						own.Add(z[r*width+at:r*width+at+1], pi, rest)
						ownLink += float64(probabilities[r*width+at])
					}
				}
				parts[number].Pairs -= itself
				parts[number].unlinked(kern.UnlinkedSums{Loss: -own.Loss, Psi: -own.Psi, Tau: -own.Tau,
					NegLog: -own.NegLog}, -ownLink)
			}
			parts[number].Pairs += int64(len(z))
			parts[number].unlinked(sums, link)
		}
	})
	var total Sums
	for i, p := range parts {
		if failed[i] != nil {
			return Sums{}, failed[i]
		}
		total.Add(p)
	}
	return total, nil
}

// byFields tells whether all pairs of two fields share one π̂.
func (p Predictor) byFields() bool {
	terms, ok := model.TermsOf(p.Propensity, p.PropensityParams)
	return ok && terms.ByFields()
}

func sumOf(xs []float32) float64 {
	var sum float64
	for _, x := range xs {
		sum += float64(x)
	}
	return sum
}

// sumPairByPair does the same for any models.
func sumPairByPair(ctx context.Context, g *graph.Graph, p Predictor, threads int) (Sums, error) {
	n := g.Len()
	parts, failed := make([]Sums, n), make([]error, n)
	kern.Chunks(n, 1, threads, func(_, i, _, _ int) {
		if failed[i] = ctx.Err(); failed[i] != nil {
			return
		}
		batch := model.Batch{Sources: make([]int32, 0, n-1), Targets: make([]int32, 0, n-1)}
		for k := range int32(n) {
			if int(k) != i {
				batch.Sources, batch.Targets = append(batch.Sources, int32(i)), append(batch.Targets, k)
			}
		}
		parts[i], failed[i] = p.sum(batch, func(b risk.Belief) Sums { return ownTerms(false, b) })
	})
	var total Sums
	for i, p := range parts {
		if failed[i] != nil {
			return Sums{}, failed[i]
		}
		total.Add(p)
	}
	return total, nil
}

// sumLinked sums, over the links, what they add to being unlinked.
func sumLinked(ctx context.Context, g *graph.Graph, p Predictor) (Sums, error) {
	if err := p.Validate(); err != nil {
		return Sums{}, err
	}
	var total Sums
	for i := range int32(g.Len()) {
		if err := ctx.Err(); err != nil {
			return Sums{}, err
		}
		var batch model.Batch
		for _, k := range g.Out(i) {
			if k != i {
				batch.Sources, batch.Targets = append(batch.Sources, i), append(batch.Targets, k)
			}
		}
		part, err := p.SumLinks(batch)
		if err != nil {
			return Sums{}, err
		}
		total.Add(part)
	}
	return total, nil
}

// SumLinks sums, over links, what they add to being unlinked. It counts no pairs: SumBlock has.
func (p Predictor) SumLinks(links model.Batch) (Sums, error) {
	return p.sum(links, func(b risk.Belief) Sums {
		linked, unlinked := ownTerms(true, b), ownTerms(false, b)
		linked.Add(Sums{-1, -unlinked.Link, -unlinked.Likelihood, -unlinked.Naive, -unlinked.W, -unlinked.PU,
			-unlinked.AP})
		return linked
	})
}

// SumSeen sums, over pairs that are linked or not, the predictor's own predictions: each pair counts weight times where
// weights are given.
func (p Predictor) SumSeen(pairs model.Batch, linked []bool, weight []float64) (total Sums, mass float64, err error) {
	k := -1
	total, err = p.sum(pairs, func(b risk.Belief) Sums {
		k++
		own := ownTerms(linked[k], b)
		w := 1.
		if weight != nil {
			w = weight[k]
		}
		mass += w
		return Sums{1, w * own.Link, w * own.Likelihood, w * own.Naive, w * own.W, w * own.PU, w * own.AP}
	})
	return total, mass, err
}

// sum adds a function of the belief up over a batch.
func (p Predictor) sum(batch model.Batch, of func(risk.Belief) Sums) (Sums, error) {
	if err := p.Validate(); err != nil {
		return Sums{}, err
	}
	var total Sums
	z, s := make([]float32, batch.Len()), make([]float32, batch.Len())
	p.Link.Logits(z, p.LinkParams, batch)
	p.Propensity.Logits(s, p.PropensityParams, batch)
	for k := range z {
		b, err := risk.FromLogits(float64(z[k]), float64(s[k]))
		if err != nil {
			return Sums{}, err
		}
		total.Add(of(b))
	}
	return total, nil
}

// ownTerms are the terms of one pair, with the belief's own prediction.
func ownTerms(linked bool, b risk.Belief) Sums {
	seen := risk.Observation{Linked: linked}
	value := func(s risk.Scheme) float64 { return risk.Estimator{Scheme: s}.Risk(seen, b) }
	nll, _ := risk.NLL(linked, b)
	return Sums{Pairs: 1, Link: b.Link(), Likelihood: nll, Naive: value(risk.Naive{}), W: value(risk.W{}),
		PU: value(risk.PU{}), AP: value(risk.AP{})}
}
