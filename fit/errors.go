package fit

import (
	"errors"

	"unseen/sample"
)

// Errors of this package wrap one of these. ErrShape and ErrData are those of package sample, which checks the pairs.
var (
	ErrSetting    = errors.New("invalid setting")
	ErrShape      = sample.ErrShape
	ErrData       = sample.ErrData
	ErrDiverged   = errors.New("training diverged")
	ErrCheckpoint = errors.New("unusable checkpoint")
	// ErrEarlier: a refresh cannot begin at that model; a full training can.
	ErrEarlier = errors.New("unusable earlier model")
)
