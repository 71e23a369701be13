package recommend

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"unseen/internal/kern"
	"unseen/model"
)

// score sets z of every node for a source.
func (r *Recommender) score(z []float32, m model.Model, s Source) error {
	rows, fields := kern.MatrixOf(r.nodes.Vectors), r.nodes.Fields
	inner, ok := m.Link.(model.InnerProduct)
	if !ok {
		if s.New() {
			return fmt.Errorf("%w: a %s model needs a node of the graph and cannot judge a new text; fit a "+
				"diagonal or low-rank one", ErrModel, m.Link.Kind())
		}
		r.chunks(func(from, to int) {
			sources, targets := make([]int32, to-from), make([]int32, to-from)
			for k := range sources {
				sources[k], targets[k] = s.node, int32(from+k)
			}
			m.Link.Logits(z[from:to], m.LinkParams, model.Batch{Sources: sources, Targets: targets})
		})
		return nil
	}
	q, offsets := make([]float32, rows.Dim()), make([]float32, r.nodes.FieldCount)
	if s.New() {
		inner.QueryOf(q, offsets, m.LinkParams, s.vector, s.field)
	} else {
		inner.Query(q, offsets, m.LinkParams, s.node)
	}
	r.chunks(func(from, to int) {
		kern.DotRange(z[from:to], q, rows, from)
		for j := from; j < to; j++ {
			z[j] += offsets[fields[j]]
		}
	})
	return nil
}

// propensities returns the logits of π̂ of some targets for a source.
func (r *Recommender) propensities(s Source, targets []int32) []float32 {
	source := s.node
	if s.New() {
		source = s.like
		if source < 0 { // nobody has the field: any node will do, as nothing is known of it
			source = 0
		}
	}
	out := make([]float32, len(targets))
	const stretch = 4096
	sources := slices.Repeat([]int32{source}, min(stretch, len(targets)))
	for from := 0; from < len(targets); from += stretch {
		to := min(from+stretch, len(targets))
		r.model.Propensity.Logits(out[from:to], r.model.PropensityParams,
			model.Batch{Sources: sources[:to-from], Targets: targets[from:to]})
	}
	return out
}

// seen returns log π̂ + log ŷ of every candidate, at its place; others are left as they are.
func (r *Recommender) seen(room *room, s Source) []float32 {
	out := make([]float32, len(room.scores))
	for k, p := range r.propensities(s, room.kept) {
		j := room.kept[k]
		out[j] = float32(-softplus(-float64(room.scores[j])) - softplus(-float64(p)))
	}
	return out
}

func softplus(x float64) float64 { return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// best returns the k candidates with the highest scores, the lowest numbered of equals first.
func best(scores []float32, candidates []int32, k int) []int32 {
	before := func(a, b int32) bool { return scores[a] > scores[b] || scores[a] == scores[b] && a < b }
	heap := make([]int32, 0, k) // the worst on top
	down := func(i int) {
		for {
			child := 2*i + 1
			if child >= len(heap) {
				return
			}
			if child+1 < len(heap) && before(heap[child], heap[child+1]) {
				child++
			}
			if !before(heap[i], heap[child]) {
				return
			}
			heap[i], heap[child] = heap[child], heap[i]
			i = child
		}
	}
	worst := float32(math.Inf(-1)) // of a full heap
	for _, j := range candidates {
		z := scores[j]
		if !(z >= worst) {
			continue // also not a number: never recommended
		}
		if len(heap) < k {
			heap = append(heap, j)
			if len(heap) == k {
				for i := k/2 - 1; i >= 0; i-- {
					down(i)
				}
				worst = scores[heap[0]]
			}
			continue
		}
		if k > 0 && before(j, heap[0]) {
			heap[0] = j
			down(0)
			worst = scores[heap[0]]
		}
	}
	slices.SortFunc(heap, func(a, b int32) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b))
	})
	return heap
}

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
	top := best(scores, candidates, len(of))
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
