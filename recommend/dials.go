package recommend

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"unseen/internal/kern"
)

// drawn is a target, the probability with which it is in the list, and that of its place given the list's items.
type drawn struct {
	node   int32
	shown  float64
	placed float64
}

// diversify re-ranks the best candidates: each place goes to the one with the highest
//
//	(1 − x)·ŷ/ŷ₁ − x·max over those placed of ½·cos(h, h′) + ½·[same field],
//
// where ŷ₁ is the highest of all. The pool is ten times as long as the list, at least 200.
func (r *Recommender) diversify(ctx context.Context, room *room, order *scored, q Query) []drawn {
	pool := order.best(room.kept, max(10*q.K, 200))
	x := q.Diversity
	relevance := make([]float64, len(pool))
	top := math.Inf(-1)
	probability := func(j int32) float64 {
		if q.Seen {
			return math.Exp(float64(order.z[j]))
		}
		return sigmoid(float64(order.z[j]))
	}
	for k, j := range pool {
		relevance[k] = probability(j)
		top = math.Max(top, relevance[k])
	}
	dim, load := r.nodes.Dim(), r.loadVector
	if r.nodes.Vectors == nil { // learned factors, where there is nothing else to compare
		dim, load = r.published.rows.Dim(), r.loadRow
	}
	vectors := make([][]float32, len(pool))
	norms := make([]float64, len(pool))
	for k, j := range pool {
		vectors[k] = make([]float32, dim)
		load(vectors[k], q.Overlay, j)
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
		out = append(out, drawn{pool[at], 1, 1})
		for k := range pool {
			if placed[k] {
				continue
			}
			similar := 0.0
			if norms[k] > 0 && norms[at] > 0 {
				similar = .5 * product(vectors[k], vectors[at]) / (norms[k] * norms[at])
			}
			if r.FieldAt(q.Overlay, pool[k]) == r.FieldAt(q.Overlay, pool[at]) {
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
//	p_j = (1 − e)·[j is among the K best] + e·min(1, c·w_j),  w = √(ŷ(1−ŷ)(1+z²)),  Σ p_j = K,
//
// and the draw is pivotal: exactly K, each with exactly its p. The variance of a risk by
// the log, R_DR, is Σ ŷ(1−ŷ)z²/p, z being the difference of the two losses: it is least for p in proportion to the
// root, so that places are spent where they teach most. The 1 is for other losses, and for those of whom z is 0. Every
// candidate can be shown, which is what later lets a log tell relevance from exposure. Of Query.Explore e is the part
// that loses as much relevance as drawing that share in proportion to ŷ would: the dial is one of cost.
//
// The list is in the order of ŷ, but for that share of the lists, which are in any order: what is clicked less at lower
// places for being less relevant can then be told from what is clicked less for being looked at less. An item of K is
// at its place with probability (1 − e)·[that is its place by ŷ] + e/K, given the items.
//
// Of a list by the index, candidates are those that walks have found and a sample of the others; see sampling. Its
// items were picked before.
func (room *room) explore(q Query) []drawn {
	out := room.picked
	if room.sample.of == 0 {
		room.random = q.random()
		out = room.pick(room.by.best(room.kept, min(q.K, len(room.kept))), q.Explore)
	}
	random := room.random
	nodes := make([]int32, len(out))
	anywhere := q.Explore / float64(len(out))
	for i := range out {
		nodes[i], out[i].placed = out[i].node, anywhere
	}
	room.by.settle(nodes)
	slices.SortFunc(out, func(a, b drawn) int {
		return cmp.Or(cmp.Compare(room.by.z[b.node], room.by.z[a.node]), cmp.Compare(a.node, b.node))
	})
	ranked := slices.Clone(out)
	if random.Float64() < q.Explore {
		random.Shuffle(len(out), func(a, b int) { out[a], out[b] = out[b], out[a] })
	}
	for place := range out {
		if out[place].node == ranked[place].node {
			out[place].placed = math.Min(1-q.Explore+anywhere, 1)
		}
	}
	return out
}

// random is what a list is drawn by.
func (q Query) random() *rand.Rand {
	return rand.New(rand.NewPCG(q.Seed, uint64(uint32(q.Source.Index()))))
}

// pick draws the items of a list with so many of the best, with the probabilities that it has them; see explore.
func (room *room) pick(best []int32, explore float64) []drawn {
	t := room.teach(best, explore)
	chosen := draw(t, len(t.weights), t.blocks(), room.random)
	out := make([]drawn, len(chosen))
	var chance [1]float64
	for i, j := range chosen {
		t.fill(chance[:], j)
		out[i].node = int32(j)
		out[i].shown = math.Min(chance[0], 1) / room.sample.standsFor(out[i].node)
	}
	return out
}

// chances returns the probabilities p of the candidates; see explore. Where nothing is explored they are 1 for the
// best.
func (room *room) chances(k int, explore float64) []float64 {
	best := room.by.best(room.kept, min(k, len(room.kept)))
	p := make([]float64, len(room.kept))
	if explore > 0 {
		t := room.teach(best, explore)
		for rest := p; len(rest) > 0; {
			kept := room.kept[len(p)-len(rest):]
			run := kern.Run(kept)
			t.fill(rest[:run], int(kept[0]))
			rest = rest[run:]
		}
		return p
	}
	for _, j := range best {
		place, _ := slices.BinarySearch(room.kept, j) // they ascend
		p[place] = 1
	}
	return p
}

// ExploredShares returns the probability with which each of some candidates, of these logits of ŷ, is in a list of k of
// which a share is explored; see Query.
func ExploredShares(logits []float32, k int, share float64) []float64 {
	room := &room{by: &scored{z: logits}, kept: make([]int32, len(logits))}
	for j := range room.kept {
		room.kept[j] = int32(j)
	}
	return room.chances(k, share)
}

// taught is with which probability every node is drawn: e·min(1, c·w), and 1 − e more for the best.
type taught struct {
	weights []float32 // w, by node; 0 of those that are no candidates
	c, e    float64
	best    []int32 // ascending

	largest []int32      // those with the largest w, whoever is sure to be drawn among them
	sums    [][2]float64 // Σ w of all others, in blocks
}

// fill sets the probabilities of nodes in a row, the first of which is given.
func (t *taught) fill(p []float64, first int) {
	for i, w := range t.weights[first:][:len(p)] {
		p[i] = t.e * min(t.c*float64(w), 1)
	}
	for k, _ := slices.BinarySearch(t.best, int32(first)); k < len(t.best) && int(t.best[k]) < first+len(p); k++ {
		p[int(t.best[k])-first] += 1 - t.e
	}
}

// blocks returns what the probabilities of every block of nodes add up to.
func (t *taught) blocks() []float64 {
	out := make([]float64, len(t.sums))
	for b, sum := range t.sums {
		out[b] = t.e * t.c * sum[0]
	}
	for _, j := range t.largest {
		out[j/kern.SumBlock] += t.e * min(t.c*float64(t.weights[j]), 1)
	}
	for _, j := range t.best {
		out[j/kern.SumBlock] += 1 - t.e
	}
	return out
}

// teach finds the probabilities of a list with so many of the best; see explore. Its e is what of the share to explore
// loses as much relevance as drawing that share in proportion to ŷ.
func (room *room) teach(best []int32, explore float64) *taught {
	size := len(room.by.z)
	y, w := slices.Grow(room.relevance[:0], size)[:size], slices.Grow(room.teaches[:0], size)[:size]
	room.relevance, room.teaches = y, w
	kern.Teaching(y, w, room.by.z)
	left := 0 // who is not a candidate adds nothing
	for rest := room.kept; len(rest) > 0; {
		first, run := int(rest[0]), kern.Run(rest)
		clear(y[left:first])
		clear(w[left:first])
		left, rest = first+run, rest[run:]
	}
	clear(y[left:])
	clear(w[left:])
	evenly := room.sample.scale(y, w)
	largest := kern.Best(w, room.kept, len(best))
	even, _ := room.capped(evenly, best, room.sample.standsFor)
	drawn, c := room.capped(w, largest, nil)
	relevance := 0.
	for _, j := range best {
		relevance += float64(y[j])
	}
	if even, drawn = relevance-even, relevance-drawn; drawn > even && even > 0 {
		explore *= even / drawn
	}
	return &taught{weights: w, c: c, e: explore, best: slices.Sorted(slices.Values(best)), largest: largest,
		sums: room.sums}
}

// capped finds c such that min(1, c·w) of the candidates adds up to as many as there are largest: those with the
// largest w, largest first. Who is sure to be drawn is among them, so that c follows from them and the sum of all
// others. It returns the relevance that is then drawn, and c. Where candidates stand for several, each with its part of
// w, that is what these add up to; nil: each stands for itself.
func (room *room) capped(w []float32, largest []int32, standsFor func(j int32) float64) (drawn, c float64) {
	weights, times := make([]float64, len(largest)), make([]float64, len(largest))
	for m, j := range largest {
		times[m] = 1
		if standsFor != nil {
			times[m] = standsFor(j)
		}
		weights[m], w[j] = float64(w[j])/times[m], 0
	}
	y := room.relevance // or w itself
	room.sums = kern.BlockSums(room.sums, w, y)
	var rest, restDrawn float64
	for _, sum := range room.sums {
		rest, restDrawn = rest+sum[0], restDrawn+sum[1]
	}
	totals := make([]float64, len(largest)) // of largest[m] and all that come after it
	for m, x := range slices.Backward(weights) {
		w[largest[m]] = float32(x * times[m])
		rest += x * times[m]
		totals[m] = rest
	}
	left := float64(len(largest))
	for sure := range largest {
		if c = left / totals[sure]; c*weights[sure] < 1 {
			break
		}
		left -= times[sure]
	}
	drawn = c * restDrawn
	for m, j := range largest {
		drawn += times[m] * math.Min(c*weights[m], 1) * float64(y[j])
	}
	return drawn, c
}

// Draw draws a sample in which element i is with probability p_i exactly, as many as the
// probabilities add up to, by duels (Deville and Tillé, 1998): of two elements one takes all of the
// other's probability, or is taken and leaves it what is beyond 1. Elements compete, so that a list
// has about as many of the best as it should. A comb over the elements laid end to end would have
// the same probabilities, and now and then miss nearly all of the best at once.
//
// Of a run of elements that hold less than 1 together, duels leave each standing in proportion to its p; so chance is
// asked once for the run, when somebody comes who would make it 1.
func Draw(p []float64, random *rand.Rand) []int {
	sums := make([]float64, (len(p)+kern.SumBlock-1)/kern.SumBlock)
	for i, x := range p {
		sums[i/kern.SumBlock] += x
	}
	return draw(probabilities(p), len(p), sums, random)
}

// probabilities are those of the elements of a sample.
type probabilities []float64

func (p probabilities) fill(out []float64, first int) { copy(out, p[first:]) }

// draw is Draw of n elements whose probabilities add up to sums, block by block: where a whole block holds less than 1
// together with what stands, its elements are not looked at.
func draw(p interface {
	fill(out []float64, first int)
}, n int, sums []float64, random *rand.Rand) []int {
	const size = kern.SumBlock
	var room, other [size]float64
	open := func(room []float64, block int) []float64 {
		own := room[:min(size, n-block*size)]
		p.fill(own, block*size)
		return own
	}
	var total float64
	for _, x := range sums {
		total += x
	}
	count := int(math.Round(total))
	out := make([]int, 0, count)
	first, mass := -1, 0. // who was in the ring when the run began, and with what
	from, held := 0, 0.   // where the run goes on, and what it holds by now
	winner := func(until int) int {
		u := random.Float64() * held
		if u < mass {
			return first
		}
		u -= mass
		for at := from; at < until; at = (at/size + 1) * size {
			block := at / size
			if at == block*size && at+size <= until && u >= sums[block] {
				u -= sums[block]
				continue
			}
			for i, x := range open(other[:], block)[at-block*size : min(size, until-block*size)] {
				if x > 0 && x < 1 {
					if u < x {
						return at + i
					}
					u -= x
				}
			}
		}
		for i := until - 1; i >= from; i-- { // u is beyond all, for rounding alone: the last
			if p.fill(other[:1], i); other[0] > 0 && other[0] < 1 {
				return i
			}
		}
		return first
	}
	for block, whole := range sums {
		if held+whole < 1 {
			held += whole
			continue
		}
		for i, b := range open(room[:], block) {
			sum := held + b
			if sum < 1 {
				held = sum
				continue
			}
			i += block * size
			if b >= 1 {
				out = append(out, i)
				continue
			}
			taken, left := winner(i), i
			if random.Float64()*(2-sum) >= 1-b {
				taken, left = left, taken
			}
			out = append(out, taken)
			first, mass = left, sum-1
			from, held = i+1, mass
		}
	}
	if held > 0 && len(out) < count { // the last has 1, but for rounding
		out = append(out, winner(n))
	}
	return out
}
