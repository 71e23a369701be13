package world

import (
	"context"
	"fmt"
	"math"
	"slices"

	"unseen/internal/kern"
)

// calibrationPairs is how many random pairs stand for all of them when b and the length of w are
// found; a world with fewer uses them all. It leaves a relative error of about
// √((1−BaseRate)/(BaseRate·calibrationPairs)) in the base rate: .4% at .16, 2% at .01.
const calibrationPairs = 1 << 18

// Spreads, standard deviations of the logits, among which the oracle AUC is looked for: from
// practically constant y to a step function.
const (
	narrowest = 1e-4
	widest    = 1e4
)

// Profile is what a world's pairs look like, measured on the pairs it was calibrated with: all, or
// 2¹⁸ random ones.
type Profile struct {
	Pairs      int     // measured
	BaseRate   float64 // mean of y
	OracleAUC  float64 // expected AUC of y for o′
	Spread     float64 // standard deviation of the logits z
	Saturated  float64 // share of pairs with y > .9
	Propensity float64 // mean of π
	LinkRate   float64 // the share of pairs that are seen linked: mean of πy, where a and o′ are independent
}

// calibration finds the scale and the bias of logits from scores that are known up to both.
type calibration struct {
	scores         []float32 // standardised, ascending
	mean, sd       float64   // of the scores before
	logits, chance []float32 // of the last trial
	last           float64   // shift found, where the search for the next begins
	response       *response // of which the chances are; nil means the logistic one
}

func newCalibration(scores []float32, r *response) (*calibration, error) {
	var mean, square float64
	for _, x := range scores {
		mean += float64(x)
	}
	mean /= float64(len(scores))
	for _, x := range scores {
		square += (float64(x) - mean) * (float64(x) - mean)
	}
	sd := math.Sqrt(square / float64(len(scores)))
	if !(sd > 0 && sd <= math.MaxFloat32) {
		return nil, fmt.Errorf("%w: the scores wᵀ(h_i⊙h_j) have standard deviation %v; give vectors and "+
			"weights of moderate size under which pairs differ", ErrUnreachable, sd)
	}
	c := &calibration{mean: mean, sd: sd, response: r}
	c.scores = make([]float32, len(scores))
	for k, x := range scores {
		c.scores[k] = float32((float64(x) - mean) / sd)
	}
	slices.Sort(c.scores)
	c.logits, c.chance = make([]float32, len(scores)), make([]float32, len(scores))
	return c, nil
}

// solve returns the scale and the bias with which z = scale·score + bias has the base rate and the
// oracle AUC asked for.
func (c *calibration) solve(ctx context.Context, baseRate, auc float64) (scale, bias float64, err error) {
	low, high := math.Log(narrowest), math.Log(widest)
	x, found := 0., false
	if rough, reached := c.thinned().spread(ctx, baseRate, auc, low, high); reached {
		x, found = c.spread(ctx, baseRate, auc, rough-.05, rough+.05)
	}
	if !found {
		x, found = c.spread(ctx, baseRate, auc, low, high)
	}
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	if !found {
		return 0, 0, fmt.Errorf("%w: an AUC of %v by the true y; with a base rate of %v and these "+
			"vectors it can be from %.4f to %.4f; ask for one between, or give more nodes and dimensions",
			ErrUnreachable, auc, baseRate, c.reach(baseRate, narrowest), c.reach(baseRate, widest))
	}
	spread := math.Exp(x)
	shift := c.shift(baseRate, spread)
	if mean, _ := c.rate(); !(math.Abs(mean-baseRate) <= 1e-3*min(baseRate, 1-baseRate)) {
		return 0, 0, fmt.Errorf("%w: a base rate of %v; the nearest that %d pairs come to is %.4g; ask for one "+
			"further from 0 and 1", ErrUnreachable, baseRate, len(c.scores), mean)
	}
	scale = spread / c.sd
	return scale, shift - scale*c.mean, nil
}

// thinned returns the calibration on a few thousand quantiles of the scores, to begin the search with.
func (c *calibration) thinned() *calibration {
	const quantiles = 1 << 12
	every := max(1, len(c.scores)/quantiles)
	rough := calibration{response: c.response}
	for k := every / 2; k < len(c.scores); k += every {
		rough.scores = append(rough.scores, c.scores[k])
	}
	rough.logits, rough.chance = make([]float32, len(rough.scores)), make([]float32, len(rough.scores))
	return &rough
}

// spread looks for the logarithm of the spread of the logits that has the oracle AUC, between two of
// them. With the base rate held, the AUC grows with the spread.
func (c *calibration) spread(ctx context.Context, baseRate, auc, low, high float64) (x float64, found bool) {
	miss := func(x float64) float64 {
		if ctx.Err() != nil {
			return 0
		}
		return c.reach(baseRate, math.Exp(x)) - auc
	}
	from, to := bound{low, miss(low)}, bound{high, miss(high)}
	if !(from.f <= 0 && to.f >= 0) {
		return 0, false
	}
	return root(from, to, miss), true
}

// bound is an end of a bracket: a place and the function's value there.
type bound struct{ x, f float64 }

// root returns where a rising function is 0 between two bounds: by bisection until the bracket is
// short, then by regula falsi, of the kind that halves the value of an end that stays ("Illinois").
func root(low, high bound, f func(float64) float64) float64 {
	const short, enough = .5, 1e-7
	side := 0
	for range 200 {
		middle := (low.x + high.x) / 2
		if high.x-low.x < short && high.f > low.f {
			middle = (low.x*high.f - high.x*low.f) / (high.f - low.f)
		}
		switch value := f(middle); {
		case math.Abs(value) <= enough || high.x-low.x <= enough:
			return middle
		case value < 0:
			low = bound{middle, value}
			if side < 0 {
				high.f /= 2
			}
			side = -1
		default:
			high = bound{middle, value}
			if side > 0 {
				low.f /= 2
			}
			side = 1
		}
	}
	return high.x
}

// reach returns the oracle AUC at a spread, with the base rate held.
func (c *calibration) reach(baseRate, spread float64) float64 {
	c.shift(baseRate, spread)
	return c.auc(1)
}

// shift returns the b at which the mean of F(spread·score + b) is the base rate, and leaves the
// chances there: Newton's method inside a bracket at whose ends every pair is below or above the base
// rate, and bisection where it takes too long, as near a step.
func (c *calibration) shift(baseRate, spread float64) float64 {
	const enough, patience = 1e-7, 12
	centre := math.Log(baseRate) - math.Log1p(-baseRate)
	if c.response != nil {
		centre = c.response.inverse(baseRate)
	}
	low := centre - spread*float64(c.scores[len(c.scores)-1])
	high := centre - spread*float64(c.scores[0])
	b := min(max(c.last, low), high)
	for steps := 0; ; steps++ {
		c.try(spread, b)
		mean, slope := c.rate()
		if math.Abs(mean-baseRate) <= enough*min(baseRate, 1-baseRate) || high-low <= 1e-12*(1+math.Abs(b)) {
			c.last = b
			return b
		}
		if mean < baseRate {
			low = b
		} else {
			high = b
		}
		b -= (mean - baseRate) / slope
		if steps >= patience || !(b > low && b < high) {
			b = (low + high) / 2
		}
	}
}

// try sets the chances F(spread·score + b).
func (c *calibration) try(spread, b float64) {
	for k, x := range c.scores {
		c.logits[k] = float32(spread*float64(x) + b)
	}
	if c.response == nil {
		kern.Sigmoid(c.chance, c.logits)
		return
	}
	for k, z := range c.logits {
		c.chance[k] = float32(c.response.at(float64(z)))
	}
}

// rate returns the mean of the chances and its derivative in b.
func (c *calibration) rate() (mean, slope float64) {
	for k, p := range c.chance {
		mean += float64(p)
		if c.response == nil {
			slope += float64(p) * (1 - float64(p))
		} else {
			slope += c.response.slope(float64(c.logits[k]))
		}
	}
	n := float64(len(c.chance))
	return mean / n, slope / n
}

// auc returns, for y = ceiling·chance, the probability that of two different pairs, the first of them
// relevant and the second not, the first has the higher y, ties counting half:
//
//	Σ_p Σ_{q≠p} y_p(1−y_q)·(1(y_p > y_q) + ½·1(y_p = y_q)) / Σ_p Σ_{q≠p} y_p(1−y_q)
func (c *calibration) auc(ceiling float64) float64 {
	var inOrder, below, relevant, irrelevant, itself float64
	for from := 0; from < len(c.scores); {
		var linked, unlinked, both float64 // of one score
		to := from
		for ; to < len(c.scores) && c.scores[to] == c.scores[from]; to++ {
			y := ceiling * float64(c.chance[to])
			linked += y
			unlinked += 1 - y
			both += y * (1 - y)
		}
		inOrder += linked*below + (linked*unlinked-both)/2
		below += unlinked
		relevant, irrelevant, itself = relevant+linked, irrelevant+unlinked, itself+both
		from = to
	}
	pairs := relevant*irrelevant - itself
	if !(pairs > 0) {
		return .5
	}
	return inOrder / pairs
}
