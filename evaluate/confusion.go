package evaluate

import (
	"fmt"
	"math"
)

// Confusion counts pairs (or sums their weights) by prediction and truth.
type Confusion struct {
	TP float64 // predicted, linked
	FP float64 // predicted, not linked
	FN float64 // not predicted, linked
	TN float64 // not predicted, not linked
}

// ConfusionAt predicts a link wherever the score is at least the threshold, and counts. The
// threshold may be infinite, to predict everything or nothing.
func (s Scored) ConfusionAt(threshold float64) (Confusion, error) {
	if err := s.Validate(); err != nil {
		return Confusion{}, err
	}
	if math.IsNaN(threshold) {
		return Confusion{}, fmt.Errorf("%w: the threshold; use ½ for probabilities, 0 for logits", ErrNaN)
	}
	var c Confusion
	for i, score := range s.Scores {
		w := s.weight(i)
		switch predicted := score >= threshold; {
		case predicted && s.Linked[i]:
			c.TP += w
		case predicted:
			c.FP += w
		case s.Linked[i]:
			c.FN += w
		default:
			c.TN += w
		}
	}
	return c, nil
}

// Precision is the share of predicted links that are true, TP/(TP+FP). Where nothing is predicted
// it has no value.
func (c Confusion) Precision() (float64, error) {
	return c.share(c.TP, c.FP, "precision", "nothing is predicted; lower the threshold")
}

// Recall is the share of true links that are predicted, TP/(TP+FN). Where nothing is linked it has
// no value.
func (c Confusion) Recall() (float64, error) {
	return c.share(c.TP, c.FN, "recall", "nothing is linked; give pairs with links")
}

// F1 is the harmonic mean of precision and recall, TP/(TP + ½(FP+FN)). Where nothing is linked and
// nothing predicted it has no value.
func (c Confusion) F1() (float64, error) {
	return c.share(2*c.TP, c.FP+c.FN, "F1", "nothing is linked and nothing predicted; give pairs with links")
}

// Accuracy is the share of all pairs predicted rightly, (TP+TN)/(TP+TN+FP+FN).
func (c Confusion) Accuracy() (float64, error) {
	return c.share(c.TP+c.TN, c.FP+c.FN, "accuracy", "nothing was counted; give some pairs")
}

// share returns right/(right+wrong).
func (c Confusion) share(right, wrong float64, metric, mend string) (float64, error) {
	for _, cell := range []struct {
		name  string
		count float64
	}{{"TP", c.TP}, {"FP", c.FP}, {"FN", c.FN}, {"TN", c.TN}} {
		if !(cell.count >= 0 && cell.count <= maxTotal) {
			return 0, fmt.Errorf("%w: %s is %v; counts are 0 or more and at most %v", ErrWeight, cell.name, cell.count,
				maxTotal)
		}
	}
	if right+wrong == 0 {
		return 0, fmt.Errorf("%w: %s: %s", ErrUndefined, metric, mend)
	}
	return right / (right + wrong), nil
}
