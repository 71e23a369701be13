package sample

import "errors"

// Errors of this package wrap one of these.
var (
	ErrSetting = errors.New("invalid plan")
	ErrShape   = errors.New("shapes differ")
	ErrData    = errors.New("nothing can be learned from these pairs")
)
