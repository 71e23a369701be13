package loop

import (
	"errors"
	"fmt"
)

// Errors of this package wrap one of these, so that errors.Is tells the kinds apart.
var (
	// ErrSetting: a setting is outside its range, or two contradict one another.
	ErrSetting = errors.New("loop: impossible setting")
	// ErrGraph: a graph lacks what a forecast needs.
	ErrGraph = errors.New("loop: unfit graph")
	// ErrModel: a model lacks a half, gives no usable probability, or is of other nodes.
	ErrModel = errors.New("loop: unfit model")
	// ErrShown: an item of a log of shown items cannot be.
	ErrShown = errors.New("loop: impossible item")
	// ErrState: a saved detector is damaged.
	ErrState = errors.New("loop: unusable state")
)

func settingError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrSetting, fmt.Sprintf(format, args...))
}
