package evaluate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Ranked says where one source's true links came out when its candidate targets were put in order.
// [RankScores] and [RankList] make one.
type Ranked struct {
	targets []int32
	ranks   []int // of the targets: 1 is best, 0 not ranked
}

// RankScores ranks every target by one source's scores, scores[j] being target j's, and keeps the
// ranks of the linked ones. Equal scores rank by target number, the lowest first.
//
// Give −Inf to targets that are no candidates (the source itself, links known beforehand): they
// then come last. The order is not built, only counted, in O(n log m) for m linked of n targets.
func RankScores(scores []float64, linked []int32) (Ranked, error) {
	if err := checkDistinct("linked", linked); err != nil {
		return Ranked{}, err
	}
	// The linked targets, best first.
	type mark struct {
		score  float64
		target int32
		place  int // in linked
	}
	marks := make([]mark, len(linked))
	for i, target := range linked {
		if target < 0 || int(target) >= len(scores) {
			return Ranked{}, fmt.Errorf("%w: linked[%d] is %d but there are %d scores; score every target, "+
				"numbered from 0", ErrTarget, i, target, len(scores))
		}
		marks[i] = mark{scores[target], target, i}
	}
	slices.SortFunc(marks, func(a, b mark) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.target, b.target))
	})
	// Every target belongs to the first mark that it is not behind: that mark itself or one it
	// pushes down, with all marks after it. The last place is for targets behind every mark.
	pushed := make([]int, len(marks)+1)
	for target, score := range scores {
		if math.IsNaN(score) {
			return Ranked{}, fmt.Errorf("%w: the score of target %d; give −Inf to targets that are no candidates",
				ErrNaN, target)
		}
		low, high := 0, len(marks)
		for low < high {
			mid := int(uint(low+high) / 2)
			if m := &marks[mid]; m.score > score || m.score == score && int(m.target) < target {
				low = mid + 1
			} else {
				high = mid
			}
		}
		pushed[low]++
	}
	r := Ranked{slices.Clone(linked), make([]int, len(linked))}
	rank := 0
	for p, m := range marks {
		rank += pushed[p]
		r.ranks[m.place] = rank
	}
	return r, nil
}

// RankList finds the linked targets in one source's list of recommendations, best first. Linked
// targets that are not in the list have no rank: they count as missed.
func RankList(list, linked []int32) (Ranked, error) {
	if err := checkDistinct("list", list); err != nil {
		return Ranked{}, err
	}
	if err := checkDistinct("linked", linked); err != nil {
		return Ranked{}, err
	}
	place := make(map[int32]int, len(list))
	for p, target := range list {
		place[target] = p + 1
	}
	r := Ranked{slices.Clone(linked), make([]int, len(linked))}
	for i, target := range linked {
		r.ranks[i] = place[target]
	}
	return r, nil
}

// RankedAt returns linked targets with the ranks that were counted elsewhere, by [CandidateBlock.Count].
func RankedAt(linked []int32, ranks []int) (Ranked, error) {
	if len(linked) != len(ranks) {
		return Ranked{}, fmt.Errorf("%w: %d linked targets and %d ranks", ErrLength, len(linked), len(ranks))
	}
	return Ranked{slices.Clone(linked), slices.Clone(ranks)}, checkDistinct("linked", linked)
}

func checkDistinct(name string, targets []int32) error {
	seen := make(map[int32]int, len(targets))
	for i, target := range targets {
		if first, ok := seen[target]; ok {
			return fmt.Errorf("%w: %s[%d] and %s[%d] are both %d; name each target once", ErrTarget, name, first, name,
				i, target)
		}
		seen[target] = i
	}
	return nil
}

// Ranks returns the rank of each linked target in the order they were given, 1 for the best and 0
// for one that is not in the list.
func (r Ranked) Ranks() []int { return slices.Clone(r.ranks) }

// Ranking holds a Ranked for every source. Its metrics are means over the sources that have links:
// each such source counts the same, however many links it has, and the others do not count. The
// value of a single source i is that of ranking[i : i+1].
type Ranking []Ranked

// MRR is the mean reciprocal rank: 1/rank of each source's best-ranked link, 0 where none is ranked.
func (r Ranking) MRR() (float64, error) {
	return r.mean(func(_ int, one Ranked) (float64, error) {
		best := math.Inf(1)
		for _, rank := range one.ranks {
			if rank > 0 {
				best = min(best, float64(rank))
			}
		}
		return 1 / best, nil
	})
}

// NDCG is the normalised discounted cumulative gain of the first k: a link at rank p earns
// 1/log₂(p+1), and the sum is divided by that of the best order possible.
func (r Ranking) NDCG(k int) (float64, error) {
	if err := checkCutoff(k); err != nil {
		return 0, err
	}
	gain := func(rank int) float64 { return 1 / math.Log2(float64(rank)+1) }
	return r.mean(func(_ int, one Ranked) (float64, error) {
		// Best rank first, so that a perfect order sums exactly as the ideal does.
		ranks := slices.Sorted(slices.Values(one.ranks))
		var got, ideal float64
		for i, rank := range ranks {
			if rank > 0 && rank <= k {
				got += gain(rank)
			}
			if i < k {
				ideal += gain(i + 1)
			}
		}
		return got / ideal, nil
	})
}

// Recall is the share of a source's links that are among its first k, whatever their number: with
// more than k links it cannot reach 1.
func (r Ranking) Recall(k int) (float64, error) {
	if err := checkCutoff(k); err != nil {
		return 0, err
	}
	return r.mean(func(_ int, one Ranked) (float64, error) {
		return float64(one.found(k)) / float64(len(one.ranks)), nil
	})
}

// Precision is the share of links among a source's first k: with fewer than k links it cannot reach 1.
func (r Ranking) Precision(k int) (float64, error) {
	if err := checkCutoff(k); err != nil {
		return 0, err
	}
	return r.mean(func(_ int, one Ranked) (float64, error) { return float64(one.found(k)) / float64(k), nil })
}

// HitRate is the share of sources with a link among their first k.
func (r Ranking) HitRate(k int) (float64, error) {
	if err := checkCutoff(k); err != nil {
		return 0, err
	}
	return r.mean(func(_ int, one Ranked) (float64, error) { return float64(min(one.found(k), 1)), nil })
}

// found counts the links among the first k.
func (r Ranked) found(k int) (n int) {
	for _, rank := range r.ranks {
		if rank > 0 && rank <= k {
			n++
		}
	}
	return n
}

// MeanRank is the mean rank of a source's links, averaged over sources. Every link must have a rank,
// so rank all candidates with [RankScores] or give whole lists to [RankList].
func (r Ranking) MeanRank() (float64, error) {
	return r.mean(func(source int, one Ranked) (float64, error) {
		var sum float64
		for i, rank := range one.ranks {
			if rank == 0 {
				return 0, fmt.Errorf("%w: mean rank: target %d is not in the list of source %d; rank every "+
					"candidate, not only the first few", ErrUndefined, one.targets[i], source)
			}
			sum += float64(rank)
		}
		return sum / float64(len(one.ranks)), nil
	})
}

// FieldEntropy is the diversity of what was rightly recommended: for each source the entropy, in
// nats, of the fields of the links among its first k,
//
//	−Σ over fields f of p_f·log p_f,   p_f the share of f among these links.
//
// It is 0 when all are of one field and log F when F fields share them evenly. fields[j] is the
// field of target j. Sources with no link among their first k do not count.
func (r Ranking) FieldEntropy(fields []uint16, k int) (float64, error) {
	if err := checkCutoff(k); err != nil {
		return 0, err
	}
	var sum float64
	sources := 0
	for source, one := range r {
		var found []uint16
		for i, target := range one.targets {
			if target < 0 || int(target) >= len(fields) {
				return 0, fmt.Errorf("%w: source %d links to target %d but there are %d fields; give every "+
					"target its field, numbered from 0", ErrTarget, source, target, len(fields))
			}
			if rank := one.ranks[i]; rank > 0 && rank <= k {
				found = append(found, fields[target])
			}
		}
		if len(found) > 0 {
			sum += entropy(found)
			sources++
		}
	}
	if sources == 0 {
		return 0, fmt.Errorf("%w: field entropy: no source has a link among its first %d; raise the cutoff or "+
			"give sources with links", ErrUndefined, k)
	}
	return sum / float64(sources), nil
}

// entropy of the labels' shares. It sorts them: a map's order would change the last bit of the sum.
func entropy(labels []uint16) float64 {
	slices.Sort(labels)
	var h float64
	for start := 0; start < len(labels); {
		end := start
		for end < len(labels) && labels[end] == labels[start] {
			end++
		}
		p := float64(end-start) / float64(len(labels))
		h -= p * math.Log(p)
		start = end
	}
	return max(0, h) // log 1 is 0, and −0 prints badly
}

// mean averages a metric over the sources that have links.
func (r Ranking) mean(metric func(source int, one Ranked) (float64, error)) (float64, error) {
	var sum float64
	sources := 0
	for source, one := range r {
		if len(one.ranks) == 0 {
			continue
		}
		x, err := metric(source, one)
		if err != nil {
			return 0, err
		}
		sum += x
		sources++
	}
	if sources == 0 {
		return 0, fmt.Errorf("%w: none of the %d sources has a link; give sources with links", ErrEmpty, len(r))
	}
	return sum / float64(sources), nil
}

func checkCutoff(k int) error {
	if k < 1 {
		return fmt.Errorf("%w: got %d; name how many recommendations are shown", ErrCutoff, k)
	}
	return nil
}
