package fit

import (
	"errors"

	"unseen/sample"
)

// Errors of this package wrap one of these. ErrShape and ErrData are those of package sample, which checks the pairs.
var (
	ErrSetting    = errors.New("fit: unusable setting")
	ErrShape      = sample.ErrShape
	ErrData       = sample.ErrData
	ErrDiverged   = errors.New("fit: training diverged")
	ErrCheckpoint = errors.New("fit: unusable checkpoint")
)
