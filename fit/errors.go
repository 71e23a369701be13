package fit

import "errors"

// Errors of this package wrap one of these.
var (
	ErrSetting    = errors.New("fit: unusable setting")
	ErrShape      = errors.New("fit: shapes differ")
	ErrData       = errors.New("fit: nothing can be learned from these pairs")
	ErrDiverged   = errors.New("fit: training diverged")
	ErrCheckpoint = errors.New("fit: unusable checkpoint")
)
