package evaluate

import (
	"fmt"
	"slices"
)

// ROC returns the points of the ROC curve, from (0, 0) to (1, 1), one per distinct score: x is the share of unlinked
// pairs that score as high or higher, y that of linked ones. The area below straight lines through them is AUC.
func (s Scored) ROC() (x, y []float64, err error) {
	x, y = []float64{0}, []float64{0}
	var above group
	total, err := s.eachScore(func(g group) {
		above.linked += g.linked
		above.unlinked += g.unlinked
		x, y = append(x, above.unlinked), append(y, above.linked)
	})
	if err != nil {
		return nil, nil, err
	}
	for i := range x {
		x[i], y[i] = min(1, x[i]/total.unlinked), min(1, y[i]/total.linked)
	}
	return x, y, nil
}

// PrecisionRecall returns the points of the precision-recall curve, one per distinct score, the highest first: x is
// the recall of the pairs that score as high or higher, y their precision.
func (s Scored) PrecisionRecall() (x, y []float64, err error) {
	var above group
	total, err := s.eachScore(func(g group) {
		above.linked += g.linked
		above.unlinked += g.unlinked
		x = append(x, above.linked)
		precision := 0. // of pairs that weigh nothing
		if all := above.linked + above.unlinked; all > 0 {
			precision = above.linked / all
		}
		y = append(y, precision)
	})
	if err != nil {
		return nil, nil, err
	}
	for i := range x {
		x[i] = min(1, x[i]/total.linked)
	}
	return x, y, nil
}

// Calibration sorts the pairs by score, cuts them into bins of equal weight and returns, bin by bin, the mean score
// and the share that is linked: equal where scores are probabilities that mean what they say. Pairs of one score
// stay together, so that there may be fewer bins.
func (s Scored) Calibration(bins int) (x, y []float64, err error) {
	if err := s.Validate(); err != nil {
		return nil, nil, err
	}
	if bins < 1 {
		return nil, nil, fmt.Errorf("%w: %d bins", ErrCutoff, bins)
	}
	order := make([]int, len(s.Scores))
	total := 0.
	for i := range order {
		order[i] = i
		total += s.weight(i)
		if !(s.Scores[i] >= 0 && s.Scores[i] <= 1) {
			return nil, nil, fmt.Errorf("%w: score %d is %v and no probability; calibration needs them between 0 and 1",
				ErrUndefined, i, s.Scores[i])
		}
	}
	if err := checkTotal("all pairs", total); err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case s.Scores[a] < s.Scores[b]:
			return -1
		case s.Scores[a] > s.Scores[b]:
			return 1
		}
		return 0
	})
	var weight, score, linked, done float64
	for k, i := range order {
		w := s.weight(i)
		weight, score, done = weight+w, score+w*s.Scores[i], done+w
		if s.Linked[i] {
			linked += w
		}
		last := k == len(order)-1
		full := done >= total*float64(len(x)+1)/float64(bins)*(1-1e-12)
		if weight > 0 && (last || full && s.Scores[order[k+1]] != s.Scores[i]) {
			x, y = append(x, score/weight), append(y, linked/weight)
			weight, score, linked = 0, 0, 0
		}
	}
	return x, y, nil
}
