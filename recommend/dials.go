package recommend

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
)

// drawn is a target and the probability with which it is in the list.
type drawn struct {
	node  int32
	shown float64
}

// diversify re-ranks the best candidates: each place goes to the one with the highest
//
//	(1 − x)·ŷ/ŷ₁ − x·max over those placed of ½·cos(h, h′) + ½·[same field],
//
// where ŷ₁ is the highest of all. The pool is ten times as long as the list, at least 200.
func (r *Recommender) diversify(ctx context.Context, room *room, order []float32, q Query) []drawn {
	pool := best(order, room.kept, max(10*q.K, 200))
	x := q.Diversity
	relevance := make([]float64, len(pool))
	top := math.Inf(-1)
	probability := func(j int32) float64 {
		if q.Seen {
			return math.Exp(float64(order[j]))
		}
		return sigmoid(float64(order[j]))
	}
	for k, j := range pool {
		relevance[k] = probability(j)
		top = math.Max(top, relevance[k])
	}
	vectors := make([][]float32, len(pool))
	norms := make([]float64, len(pool))
	for k, j := range pool {
		vectors[k] = make([]float32, r.nodes.Vectors.Dim())
		r.nodes.Vectors.Load(vectors[k], j)
		norms[k] = math.Sqrt(product(vectors[k], vectors[k]))
		if top > 0 {
			relevance[k] /= top
		}
	}
	alike := make([]float64, len(pool)) // to the most similar of those placed
	placed := make([]bool, len(pool))
	var out []drawn
	for len(out) < min(q.K, len(pool)) && ctx.Err() == nil {
		at, value := -1, math.Inf(-1)
		for k := range pool {
			if v := (1-x)*relevance[k] - x*alike[k]; !placed[k] && v > value {
				at, value = k, v
			}
		}
		placed[at] = true
		out = append(out, drawn{pool[at], 1})
		for k := range pool {
			if placed[k] {
				continue
			}
			similar := 0.0
			if norms[k] > 0 && norms[at] > 0 {
				similar = .5 * product(vectors[k], vectors[at]) / (norms[k] * norms[at])
			}
			if r.g.Field(pool[k]) == r.g.Field(pool[at]) {
				similar += .5
			}
			if len(out) == 1 || similar > alike[k] {
				alike[k] = similar
			}
		}
	}
	return out
}

func product(a, b []float32) float64 {
	var sum float64
	for k, x := range a {
		sum += float64(x) * float64(b[k])
	}
	return sum
}

// explore draws a list of K. Candidate j is in it with the probability
//
//	p_j = (1 − e)·[j is among the K best] + e·min(1, c·ŷ_j),  Σ p_j = K,
//
// e being the share to explore, and the draw is pivotal: exactly K, each with exactly its p. Every candidate can
// be shown, which is what later lets a log tell relevance from exposure. The list is in the order of ŷ.
func (r *Recommender) explore(room *room, q Query) []drawn {
	k := min(q.K, len(room.kept))
	p := proportional(room.scores, room.kept, k)
	for i := range p {
		p[i] *= q.Explore
	}
	for _, j := range best(room.scores, room.kept, k) {
		place, _ := slices.BinarySearch(room.kept, j) // they ascend
		p[place] += 1 - q.Explore
	}
	chosen := pivotal(p, rand.New(rand.NewPCG(q.Seed, uint64(uint32(q.Source.Index())))))
	out := make([]drawn, len(chosen))
	for i, at := range chosen {
		out[i] = drawn{room.kept[at], math.Min(p[at], 1)}
	}
	slices.SortFunc(out, func(a, b drawn) int {
		return cmp.Or(cmp.Compare(room.scores[b.node], room.scores[a.node]), cmp.Compare(a.node, b.node))
	})
	return out
}

// proportional returns probabilities min(1, c·ŷ) that add up to k.
func proportional(scores []float32, candidates []int32, k int) []float64 {
	p := make([]float64, len(candidates))
	var total float64
	for i, j := range candidates {
		p[i] = sigmoid(float64(scores[j]))
		if !(p[i] > 1e-300) { // so that c stays finite; also not a number
			p[i] = 1e-300
		}
		total += p[i]
	}
	// those with c·ŷ ≥ 1 are sure; c is found anew without them until none is left
	sure := make([]bool, len(p))
	left := float64(k)
	for {
		c := left / total
		more := false
		for i, y := range p {
			if !sure[i] && c*y >= 1 {
				sure[i], more = true, true
				left--
				total -= y
			}
		}
		if !more || total <= 0 || left <= 0 {
			break
		}
	}
	c := 0.0
	if total > 0 {
		c = math.Max(left, 0) / total
	}
	for i, y := range p {
		p[i] = math.Min(1, c*y)
		if sure[i] {
			p[i] = 1
		}
	}
	return p
}

// pivotal draws a sample in which element i is with probability p_i exactly, as many as the probabilities add up to, by
// duels (Deville and Tillé, 1998): of two elements one takes all of the other's probability, or is taken and leaves it
// what is beyond 1. Elements compete, so that a list has about as many of the best as it should. A comb over the elements
// laid end to end would have the same probabilities, and now and then miss nearly all of the best at once.
func pivotal(p []float64, random *rand.Rand) []int {
	var total float64
	for _, x := range p {
		total += x
	}
	count := int(math.Round(total))
	var out []int
	left, a := -1, 0. // who is still in the ring, and with what
	for i, b := range p {
		switch {
		case b <= 0:
		case b >= 1:
			out = append(out, i)
		case left < 0:
			left, a = i, b
		case a+b < 1:
			if random.Float64()*(a+b) >= a {
				left = i
			}
			a += b
		default:
			taken := i
			if random.Float64()*(2-a-b) < 1-b {
				taken, left = left, i
			}
			out = append(out, taken)
			a += b - 1
		}
	}
	if left >= 0 && len(out) < count { // the last has 1, but for rounding
		out = append(out, left)
	}
	return out
}
