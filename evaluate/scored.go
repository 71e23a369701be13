package evaluate

import (
	"fmt"
	"math"
)

// Scored is a set of pairs, each with a model's score and the truth. Only the order of the scores
// counts, so probabilities and logits serve alike, except where a threshold is compared with them.
type Scored struct {
	Scores []float64 // the higher, the likelier the link; ±Inf allowed, NaN not
	Linked []bool    // the truth, one per score

	// Weights says how many pairs each one stands for, for instance the inverse of the probability
	// with which it was sampled. Finite and not negative; nil counts every pair once.
	Weights []float64
}

// AUC is the area under the ROC curve: the probability that a random linked pair scores higher than
// a random unlinked one, a tie counting half,
//
//	Σᵢ Σⱼ wᵢwⱼ·(1(sᵢ > sⱼ) + ½·1(sᵢ = sⱼ)) / (Σᵢ wᵢ · Σⱼ wⱼ),   i linked, j not.
//
// It is summed over sorted groups of equal score, in O(n log n). Without weights the sum is of whole
// and half numbers and exact while the product of the two counts stays below 2⁵².
func (s Scored) AUC() (float64, error) {
	var inOrder, above float64
	total, err := s.eachScore(func(g group) {
		inOrder += g.unlinked * (above + g.linked/2)
		above += g.linked
	})
	if err != nil {
		return 0, err
	}
	// Rounding of weighted sums may pass 1 by an ulp.
	return min(1, inOrder/(total.linked*total.unlinked)), nil
}

// AveragePrecision is the area under the precision-recall steps,
//
//	Σ over distinct scores t, highest first, of (recall(t) − recall(before t)) · precision(t),
//
// where precision and recall count the pairs that score t or more. This is the average precision of
// scikit-learn: no interpolation, one step per distinct score.
func (s Scored) AveragePrecision() (float64, error) {
	var area float64
	var found group
	total, err := s.eachScore(func(g group) {
		found.linked += g.linked
		found.unlinked += g.unlinked
		if g.linked > 0 {
			area += g.linked * (found.linked / (found.linked + found.unlinked))
		}
	})
	if err != nil {
		return 0, err
	}
	return min(1, area/total.linked), nil
}

// ThresholdedAP is the average precision of the predictions cut to 0 and 1 at the threshold,
//
//	precision·recall + prevalence·(1 − recall).
//
// Some published tables call this "MAP". It forgets the order within each side of the threshold, so
// prefer [Scored.AveragePrecision]; this one is for comparison with those tables.
func (s Scored) ThresholdedAP(threshold float64) (float64, error) {
	c, err := s.ConfusionAt(threshold)
	if err != nil {
		return 0, err
	}
	linked, unlinked := c.TP+c.FN, c.FP+c.TN
	if err := checkClasses(linked, unlinked); err != nil {
		return 0, err
	}
	area := c.FN * (linked / (linked + unlinked))
	if c.TP > 0 {
		area += c.TP * (c.TP / (c.TP + c.FP))
	}
	return min(1, area/linked), nil
}

// Validate reports the first thing that keeps the pairs from being measured at all. The metrics call
// it themselves.
func (s Scored) Validate() error {
	n := len(s.Scores)
	switch {
	case len(s.Linked) != n:
		return fmt.Errorf("%w: %d scores but %d truths; give one truth per score", ErrLength, n, len(s.Linked))
	case s.Weights != nil && len(s.Weights) != n:
		return fmt.Errorf("%w: %d scores but %d weights; give one weight per score, or nil to count each pair once",
			ErrLength, n, len(s.Weights))
	case n == 0:
		return fmt.Errorf("%w: no pairs; give at least one score", ErrEmpty)
	}
	for i, x := range s.Scores {
		if math.IsNaN(x) {
			return fmt.Errorf("%w: score %d of %d; leave the pair out or mend the model that scored it", ErrNaN, i, n)
		}
	}
	var total float64
	for i, w := range s.Weights {
		if !(w >= 0 && w <= math.MaxFloat64) {
			return fmt.Errorf("%w: weight %d of %d is %v; use a finite number, 0 or more", ErrWeight, i, n, w)
		}
		total += w
	}
	if s.Weights != nil {
		return checkTotal("all pairs together", total)
	}
	return nil
}

// A group is the weight of the linked and of the unlinked pairs of one score.
type group struct{ linked, unlinked float64 }

// eachScore visits the pairs gathered by score, highest first, and returns their total. It fails
// unless both classes have weight.
func (s Scored) eachScore(visit func(group)) (total group, err error) {
	if err := s.Validate(); err != nil {
		return group{}, err
	}
	pairs := make([]keyed, len(s.Scores))
	for i, score := range s.Scores {
		w := s.weight(i)
		if !s.Linked[i] {
			w = -w
		}
		pairs[i] = keyed{descending(score), w}
	}
	pairs = sortKeyed(pairs)
	for start := 0; start < len(pairs); {
		var g group
		end := start
		for ; end < len(pairs) && pairs[end].key == pairs[start].key; end++ {
			if w := pairs[end].weight; w > 0 {
				g.linked += w
			} else {
				g.unlinked -= w
			}
		}
		visit(g)
		total.linked += g.linked
		total.unlinked += g.unlinked
		start = end
	}
	return total, checkClasses(total.linked, total.unlinked)
}

func (s Scored) weight(i int) float64 {
	if s.Weights == nil {
		return 1
	}
	return s.Weights[i]
}

// Weights far outside this range would overflow or vanish when totals are multiplied.
const minTotal, maxTotal = 1e-150, 1e150

func checkTotal(of string, total float64) error {
	switch {
	case total == 0:
		return fmt.Errorf("%w: the weights of %s sum to zero; give some pair a positive weight", ErrWeight, of)
	case !(total >= minTotal && total <= maxTotal):
		return fmt.Errorf("%w: the weights of %s sum to %v; scale them to sum to between %v and %v", ErrWeight, of,
			total, minTotal, maxTotal)
	}
	return nil
}

func checkClasses(linked, unlinked float64) error {
	switch {
	case linked == 0:
		return fmt.Errorf("%w: no linked pair (of weight above zero); this metric compares linked with unlinked "+
			"pairs, give some of each", ErrOneClass)
	case unlinked == 0:
		return fmt.Errorf("%w: no unlinked pair (of weight above zero); this metric compares linked with "+
			"unlinked pairs, give some of each", ErrOneClass)
	}
	if err := checkTotal("the linked pairs", linked); err != nil {
		return err
	}
	return checkTotal("the unlinked pairs", unlinked)
}
