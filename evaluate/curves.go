package evaluate

import (
	"fmt"
	"math"
)

// Curve is points to draw.
type Curve struct{ X, Y []float64 }

// ROC returns the curve of true positive rates over false positive rates, from (0, 0) to (1, 1), in at
// most so many points: those at which the curve has come furthest since the last.
func (s Scored) ROC(points int) (Curve, error) {
	if points < 2 {
		return Curve{}, fmt.Errorf("evaluate: a curve of %d points; give at least 2", points)
	}
	total, err := s.eachScore(func(group) {})
	if err != nil {
		return Curve{}, err
	}
	c := Curve{X: []float64{0}, Y: []float64{0}}
	var found group
	least := 2 / float64(points-1) // the curve is 2 long, measured along both axes
	if _, err = s.eachScore(func(g group) {
		found.linked += g.linked
		found.unlinked += g.unlinked
		x, y := found.unlinked/total.unlinked, found.linked/total.linked
		if last := len(c.X) - 1; x-c.X[last]+y-c.Y[last] >= least {
			c.X, c.Y = append(c.X, x), append(c.Y, y)
		}
	}); err != nil {
		return Curve{}, err
	}
	if last := len(c.X) - 1; c.X[last] < 1 || c.Y[last] < 1 {
		c.X, c.Y = append(c.X, 1), append(c.Y, 1)
	}
	return c, nil
}

// Calibration returns, for bins of equally many pairs by their score, the mean score and the share that
// is linked. The scores have to be probabilities.
func (s Scored) Calibration(bins int) (Curve, error) {
	if bins < 1 {
		return Curve{}, fmt.Errorf("evaluate: a calibration in %d bins; give at least 1", bins)
	}
	if err := s.Validate(); err != nil {
		return Curve{}, err
	}
	pairs := make([]keyed, len(s.Scores))
	for i, p := range s.Scores {
		if !(p >= 0 && p <= 1) {
			return Curve{}, fmt.Errorf("evaluate: score %d is %v; calibration is of probabilities", i, p)
		}
		pairs[i] = keyed{descending(p), float64(i)}
	}
	pairs = sortKeyed(pairs)
	var c Curve
	for b := bins - 1; b >= 0; b-- { // ascending by score
		var score, linked, weight float64
		for _, p := range pairs[len(pairs)*b/bins : len(pairs)*(b+1)/bins] {
			i := int(p.weight)
			w := s.weight(i)
			score += w * s.Scores[i]
			weight += w
			if s.Linked[i] {
				linked += w
			}
		}
		if weight > 0 && !math.IsNaN(score) {
			c.X, c.Y = append(c.X, score/weight), append(c.Y, linked/weight)
		}
	}
	return c, nil
}
