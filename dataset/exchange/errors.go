package exchange

import (
	"errors"
	"fmt"

	"unseen/hint"
)

// Errors of this package wrap one of these, one of package dataset's or graph's, or one of the system's.
var (
	// ErrFormat: a record or a file is not what the format says.
	ErrFormat = errors.New("bad record")
	// ErrEncoding: text is not UTF-8.
	ErrEncoding = errors.New("not UTF-8")
	// ErrUnknownNode: a link or an exposure has an end that is no node.
	ErrUnknownNode = errors.New("no such node")
	// ErrDuplicateNode: two records have the same id.
	ErrDuplicateNode = errors.New("duplicate id")
	// ErrTooLong: a record is longer than Limits.Record.
	ErrTooLong = errors.New("record too long")
	// ErrExpands: a compressed file holds more than Limits.Expansion allows.
	ErrExpands = errors.New("file expands too much")
	// ErrTruncated: a file ends in the middle of something.
	ErrTruncated = errors.New("file is truncated")
	// ErrUsage: paths or settings do not go together.
	ErrUsage = errors.New("cannot import")
	// ErrExists: the output folder holds a dataset.
	ErrExists = errors.New("a dataset exists")
)

// Error is an error at a place of an input or an output. Most carry a hint (package hint) on what to do.
type Error struct {
	Place Place
	Err   error
}

func (e *Error) Error() string {
	if e.Place == (Place{}) {
		return e.Err.Error()
	}
	return fmt.Sprintf("%s: %v", e.Place, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// failAt makes an Error with a hint on what to do.
func failAt(at Place, err error, fix string, args ...any) error {
	return &Error{at, hint.Wrap(err, fix, args...)}
}

// withEncodingHint says what to do about bytes that are not UTF-8.
func withEncodingHint(err error) error {
	return hint.Wrap(err, "save the file as UTF-8 (iconv -f LATIN1 -t UTF-8; -f UTF-16 for a file of Windows), or set "+
		"%v to skip such records", hint.Setting("lenient"))
}

// plainReason is an error without its place and its hint.
func plainReason(err error) error {
	if e, is := err.(*Error); is {
		err = e.Err
	}
	if e, is := err.(*hint.Error); is {
		err = e.Err
	}
	return err
}
