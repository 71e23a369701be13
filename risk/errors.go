package risk

import (
	"errors"
	"fmt"
	"math"
)

// Every error of this package wraps one of these.
var (
	ErrEmpty       = errors.New("risk: nothing to average")
	ErrLength      = errors.New("risk: lengths differ")
	ErrBelief      = errors.New("risk: belief was not made by FromLogits or FromProbabilities")
	ErrLogit       = errors.New("risk: logit is not a number")
	ErrProbability = errors.New("risk: probability outside [0, 1]")
	ErrWeight      = errors.New("risk: weight is not positive and finite")
	ErrMass        = errors.New("risk: scheme gives no mass")
	ErrLoss        = errors.New("risk: loss is unusable")
	ErrValue       = errors.New("risk: value is not a finite number")
	ErrSetting     = errors.New("risk: setting out of range")
	ErrClusters    = errors.New("risk: fewer than two independent units")
	ErrName        = errors.New("risk: unusable scheme name")
	ErrDuplicate   = errors.New("risk: scheme name already taken")
	ErrUnknown     = errors.New("risk: no scheme of that name")
)

func isProbability(p float64) bool { return p >= 0 && p <= 1 }

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// checkLevel accepts a confidence level strictly between 0 and 1.
func checkLevel(level float64) error {
	if !(level > 0 && level < 1) {
		return fmt.Errorf("%w: confidence level %v; give one between 0 and 1, such as 0.95", ErrSetting, level)
	}
	return nil
}

func checkLengths(left string, n int, right string, m int) error {
	if n != m {
		return fmt.Errorf("%w: %d %s but %d %s; give one of each per pair", ErrLength, n, left, m, right)
	}
	if n == 0 {
		return fmt.Errorf("%w: no %s; give at least one pair", ErrEmpty, left)
	}
	return nil
}
