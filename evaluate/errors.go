package evaluate

import "errors"

// What can be wrong with the input. Every error of this package wraps one of these and says where
// the trouble is and how to mend it.
var (
	ErrEmpty     = errors.New("nothing to evaluate")
	ErrLength    = errors.New("lengths differ")
	ErrNaN       = errors.New("not a number")
	ErrWeight    = errors.New("unusable weight")
	ErrOneClass  = errors.New("only one class")
	ErrCutoff    = errors.New("cutoff must be at least 1")
	ErrTarget    = errors.New("unusable target")
	ErrUndefined = errors.New("no value")
)
