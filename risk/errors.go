package risk

import (
	"errors"
	"fmt"
	"math"
)

// Every error of this package wraps one of these.
var (
	ErrEmpty       = errors.New("nothing to average")
	ErrLength      = errors.New("lengths differ")
	ErrBelief      = errors.New("belief was not made by FromLogits or FromProbabilities")
	ErrLogit       = errors.New("logit is not a number")
	ErrProbability = errors.New("probability outside [0, 1]")
	ErrWeight      = errors.New("weight is not positive and finite")
	ErrMass        = errors.New("scheme gives no mass")
	ErrLoss        = errors.New("loss is unusable")
	ErrValue       = errors.New("value is not a finite number")
	ErrSetting     = errors.New("setting out of range")
	ErrClusters    = errors.New("fewer than two independent units")
	ErrName        = errors.New("unusable scheme name")
	ErrDuplicate   = errors.New("scheme name already taken")
	ErrUnknown     = errors.New("no scheme of that name")
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
