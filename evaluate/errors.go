package evaluate

import "errors"

// What can be wrong with the input. Every error of this package wraps one of these and says where
// the trouble is and how to mend it.
var (
	ErrEmpty     = errors.New("evaluate: nothing to evaluate")
	ErrLength    = errors.New("evaluate: lengths differ")
	ErrNaN       = errors.New("evaluate: not a number")
	ErrWeight    = errors.New("evaluate: unusable weight")
	ErrOneClass  = errors.New("evaluate: only one class")
	ErrCutoff    = errors.New("evaluate: cutoff must be at least 1")
	ErrTarget    = errors.New("evaluate: unusable target")
	ErrUndefined = errors.New("evaluate: no value")
)
