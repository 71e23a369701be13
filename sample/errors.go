package sample

import "errors"

// Errors of this package wrap one of these.
var (
	ErrSetting = errors.New("invalid plan")
	ErrShape   = errors.New("shapes differ")
	ErrData    = errors.New("nothing can be learned from these pairs")
	// ErrPairs is an ErrData whatever the settings: links or unlinked pairs are missing.
	ErrPairs error = tooLittle{}
)

type tooLittle struct{}

func (tooLittle) Error() string { return "too little to learn from" }
func (tooLittle) Unwrap() error { return ErrData }
