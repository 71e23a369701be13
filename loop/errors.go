package loop

import (
	"errors"
	"fmt"
)

// Errors of this package wrap one of these, for errors.Is.
var (
	// ErrSetting: a setting is outside its range, or two settings contradict each other.
	ErrSetting = errors.New("invalid setting")
	// ErrGraph: the graph lacks what a forecast needs.
	ErrGraph = errors.New("unusable graph")
	// ErrModel: the model lacks a half, gives no valid probability, or was made for other nodes.
	ErrModel = errors.New("unusable model")
	// ErrShown: a list of shown items is invalid.
	ErrShown = errors.New("invalid list of shown items")
	// ErrState: a saved detector is damaged.
	ErrState = errors.New("damaged drift state")
)

func settingError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrSetting, fmt.Sprintf(format, args...))
}
