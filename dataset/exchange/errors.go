package exchange

import (
	"errors"
	"fmt"
	"io/fs"
)

// Errors of this package wrap one of these, one of package dataset's or graph's, or one of the system's.
var (
	// ErrFormat: a record or a file is not what the format says.
	ErrFormat = errors.New("bad record")
	// ErrEncoding: text is not UTF-8.
	ErrEncoding = errors.New("not UTF-8")
	// ErrUnknownNode: a link or an exposure has an end that is no node.
	ErrUnknownNode = errors.New("no such node")
	// ErrDuplicateNode: two records have one id.
	ErrDuplicateNode = errors.New("the id was there before")
	// ErrTooLong: a record is longer than Limits.Record.
	ErrTooLong = errors.New("the record is too long")
	// ErrExpands: a compressed file holds more than Limits.Expansion allows.
	ErrExpands = errors.New("the file expands beyond measure")
	// ErrTruncated: a file ends in the middle of something.
	ErrTruncated = errors.New("the file is cut short")
	// ErrUsage: paths or flags do not go together.
	ErrUsage = errors.New("cannot be imported so")
	// ErrExists: there is a dataset in the way.
	ErrExists = errors.New("there is a dataset already")
)

// Error is one thing that is wrong with what is imported or exported: where it is, and what to do.
type Error struct {
	Place Place
	Err   error
	Mend  string
}

func (e *Error) Error() string {
	text := fmt.Sprintf("exchange: %s: %v", e.Place, e.Err)
	if e.Place == (Place{}) {
		text = fmt.Sprintf("exchange: %v", e.Err)
	}
	if e.Mend != "" {
		text += "; " + e.Mend
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Wrong makes an Error about a place.
func Wrong(at Place, err error, mend string) error { return &Error{at, err, mend} }

// bare takes the operation and the path off the system's own errors.
func bare(err error) error {
	if e, ok := err.(*fs.PathError); ok {
		return e.Err
	}
	return err
}
