package fit

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

// Totals are means over all ordered pairs of a graph, i ≠ j: not estimated from a sample, but
// computed. The risks are those of the model's own predictions under the log-loss.
type Totals struct {
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
func (c CPU) AllPairs(ctx context.Context, g *graph.Graph, j *Judge) (Totals, error) {
	n := g.Len()
	_, inner := j.Link.(model.InnerProduct)
	_, fields := j.Propensity.(model.FieldOnly)
	dense := inner && fields
	switch {
	case n < 2:
		return Totals{}, fmt.Errorf("%w: a graph of %d nodes has no pairs", ErrData, n)
	case n > MostNodes:
		return Totals{}, fmt.Errorf("%w: all pairs of %d nodes are %.2g; %d nodes are the most, so judge by a sample", ErrData, n, float64(n)*float64(n-1), MostNodes)
	case !dense && n > mostNodesPairs:
		return Totals{}, fmt.Errorf("%w: with the models %s and %s all pairs are summed one by one, and %d nodes are the most; judge by a sample",
			ErrData, j.Link.Kind(), j.Propensity.Kind(), mostNodesPairs)
	}
	sum := sumPairByPair
	if dense {
		sum = sumBlocks
	}
	total, err := sum(ctx, g, j, max(c.Threads, 1))
	if err != nil {
		return Totals{}, err
	}
	linked, err := sumLinked(ctx, g, j)
	if err != nil {
		return Totals{}, err
	}
	total.add(linked)
	pairs := float64(n) * float64(n-1)
	return Totals{
		Pairs: int64(n) * int64(n-1), MeanLink: total.link / pairs, Likelihood: total.likelihood / pairs,
		Naive: total.naive / pairs, W: total.w / pairs, PU: total.pu / pairs, AP: total.ap / pairs,
	}, nil
}

// totals are sums over pairs.
type totals struct{ link, likelihood, naive, w, pu, ap float64 }

func (t *totals) add(u totals) {
	t.link += u.link
	t.likelihood += u.likelihood
	t.naive += u.naive
	t.w += u.w
	t.pu += u.pu
	t.ap += u.ap
}

// unlinked adds what a block of unlinked pairs sums to.
func (t *totals) unlinked(s kern.UnlinkedSums, link float64) {
	t.add(totals{link: link, likelihood: s.NegLog, naive: s.Loss, w: s.Psi, pu: s.Loss, ap: s.Psi + s.Tau})
}

// sumBlocks sums all pairs as if none were linked.
func sumBlocks(ctx context.Context, g *graph.Graph, j *Judge, threads int) (totals, error) {
	const sources, targets = 96, 256
	type span struct {
		field uint16
		nodes []int32
	}
	byField := make([][]int32, g.FieldCount())
	for i := range int32(g.Len()) {
		byField[g.Field(i)] = append(byField[g.Field(i)], i)
	}
	cut := func(size int) (spans []span) {
		for f, nodes := range byField {
			for from := 0; from < len(nodes); from += size {
				spans = append(spans, span{uint16(f), nodes[from:min(from+size, len(nodes))]})
			}
		}
		return spans
	}
	rows := g.Vectors().Matrix()
	d := rows.Dim()
	left, right := cut(sources), cut(targets)
	parts, failed := make([]totals, len(left)), make([]error, len(left))
	kern.Chunks(len(left), 1, threads, func(_, number, _, _ int) {
		from := left[number]
		queries, err1 := kern.NewMatrix(len(from.nodes), d)
		block, err2 := kern.NewMatrix(targets, d)
		if failed[number] = cmp.Or(err1, err2); failed[number] != nil {
			return
		}
		defer queries.Close()
		defer block.Close()
		offsets := make([]float32, len(from.nodes)*g.FieldCount())
		for r, i := range from.nodes {
			j.Link.(model.InnerProduct).Query(queries.Row(r), offsets[r*g.FieldCount():(r+1)*g.FieldCount()], j.LinkParams, i)
		}
		room, probabilities := make([]float32, len(from.nodes)*targets), make([]float32, len(from.nodes)*targets)
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
				offset := offsets[r*g.FieldCount()+int(to.field)]
				row := z[r*width : (r+1)*width]
				for k := range row {
					row[k] += offset
				}
			}
			pair := model.Batch{Sources: from.nodes[:1], Targets: to.nodes[:1]}
			var s [1]float32
			j.Propensity.Logits(s[:], j.PropensityParams, pair)
			pi, rest := sigmoidBoth(float64(s[0]))
			var sums kern.UnlinkedSums
			sums.Add(z, pi, rest)
			kern.Sigmoid(probabilities[:len(z)], z)
			link := sumOf(probabilities[:len(z)])
			if from.field == to.field { // the diagonal is no pair
				var own kern.UnlinkedSums
				var ownLink float64
				for r, i := range from.nodes {
					if c, found := slices.BinarySearch(to.nodes, i); found {
						own.Add(z[r*width+c:r*width+c+1], pi, rest)
						ownLink += float64(probabilities[r*width+c])
					}
				}
				parts[number].unlinked(kern.UnlinkedSums{Loss: -own.Loss, Psi: -own.Psi, Tau: -own.Tau, NegLog: -own.NegLog}, -ownLink)
			}
			parts[number].unlinked(sums, link)
		}
	})
	var total totals
	for i, p := range parts {
		if failed[i] != nil {
			return totals{}, failed[i]
		}
		total.add(p)
	}
	return total, nil
}

func sumOf(xs []float32) float64 {
	var sum float64
	for _, x := range xs {
		sum += float64(x)
	}
	return sum
}

// sumPairByPair does the same for any models.
func sumPairByPair(ctx context.Context, g *graph.Graph, j *Judge, threads int) (totals, error) {
	n := g.Len()
	parts, failed := make([]totals, n), make([]error, n)
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
		parts[i], failed[i] = j.sum(batch, func(b risk.Belief) totals { return ownTerms(false, b) })
	})
	var total totals
	for i, p := range parts {
		if failed[i] != nil {
			return totals{}, failed[i]
		}
		total.add(p)
	}
	return total, nil
}

// sumLinked sums, over the links, what they add to being unlinked.
func sumLinked(ctx context.Context, g *graph.Graph, j *Judge) (totals, error) {
	var total totals
	for i := range int32(g.Len()) {
		if err := ctx.Err(); err != nil {
			return totals{}, err
		}
		var batch model.Batch
		for _, k := range g.Out(i) {
			if k != i {
				batch.Sources, batch.Targets = append(batch.Sources, i), append(batch.Targets, k)
			}
		}
		part, err := j.sum(batch, func(b risk.Belief) totals {
			linked, unlinked := ownTerms(true, b), ownTerms(false, b)
			linked.add(totals{-unlinked.link, -unlinked.likelihood, -unlinked.naive, -unlinked.w, -unlinked.pu, -unlinked.ap})
			return linked
		})
		if err != nil {
			return totals{}, err
		}
		total.add(part)
	}
	return total, nil
}

// sum adds a function of the belief up over a batch.
func (j *Judge) sum(batch model.Batch, of func(risk.Belief) totals) (totals, error) {
	var total totals
	z, s := make([]float32, batch.Len()), make([]float32, batch.Len())
	j.Link.Logits(z, j.LinkParams, batch)
	j.Propensity.Logits(s, j.PropensityParams, batch)
	for k := range z {
		b, err := risk.FromLogits(float64(z[k]), float64(s[k]))
		if err != nil {
			return totals{}, err
		}
		total.add(of(b))
	}
	return total, nil
}

// ownTerms are the terms of one pair, with the belief's own prediction.
func ownTerms(linked bool, b risk.Belief) totals {
	seen := risk.Observation{Linked: linked}
	value := func(s risk.Scheme) float64 { return risk.Estimator{Scheme: s}.Risk(seen, b) }
	nll, _ := risk.NLL(linked, b)
	return totals{link: b.Link(), likelihood: nll, naive: value(risk.Naive{}), w: value(risk.W{}), pu: value(risk.PU{}), ap: value(risk.AP{})}
}
