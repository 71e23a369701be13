package world

import "errors"

// Errors of this package wrap one of these, for errors.Is.
var (
	// ErrSetting: a setting is outside its range, or two contradict one another.
	ErrSetting = errors.New("invalid setting")
	// ErrUnreachable: no scale of the logits gives the wanted base rate and oracle AUC.
	ErrUnreachable = errors.New("out of reach")
	// ErrGraph: the graph to plant on lacks what a world needs, or is not this world's.
	ErrGraph = errors.New("unusable graph")
	// ErrTooManyPairs: a draw asks for more pairs than its part of the universe has.
	ErrTooManyPairs = errors.New("too many pairs")
)
