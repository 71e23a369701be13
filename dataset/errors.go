package dataset

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of this package wrap one of these, one of package graph's, or one of the system's, so that
// errors.Is tells the kinds apart.
var (
	// ErrNotDataset: the folder lacks what makes it a dataset, or holds what is none.
	ErrNotDataset = errors.New("not a dataset")
	// ErrFormat: a file is damaged, or holds columns, types or numbers that it should not.
	ErrFormat = errors.New("bad file")
	// ErrVersion: the dataset was written in a later format.
	ErrVersion = errors.New("later format")
	// ErrChecksum: a file is not the one that the manifest speaks of.
	ErrChecksum = errors.New("file was changed")
	// ErrContent: what is to be written cannot be.
	ErrContent = errors.New("cannot be stored")
	// ErrAmbiguous: links could be row numbers or ids.
	ErrAmbiguous = errors.New("row numbers or ids?")
	// ErrClosed: the dataset was closed.
	ErrClosed = errors.New("dataset is closed")
)

// Error is one thing that is wrong with a dataset: where it is, and what to do.
type Error struct {
	Path   string // of the file or the folder
	Row    int64  // counted from 0, as pandas does; −1 when it is not about one row
	Column string // empty when it is not about one column
	Err    error
	Mend   string
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "dataset: %s", e.Path)
	switch {
	case e.Row >= 0 && e.Column != "":
		fmt.Fprintf(&b, ", row %d, column %s", e.Row, e.Column)
	case e.Row >= 0:
		fmt.Fprintf(&b, ", row %d", e.Row)
	case e.Column != "":
		fmt.Fprintf(&b, ", column %s", e.Column)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	if e.Mend != "" {
		fmt.Fprintf(&b, "; %s", e.Mend)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// wrong makes an Error about a whole file or folder.
func wrong(path string, err error, mend string) *Error {
	return &Error{Path: path, Row: -1, Err: err, Mend: mend}
}

// flaw makes an Error about a place in a file.
func flaw(path string, row int64, column string, err error, mend string) *Error {
	return &Error{Path: path, Row: row, Column: column, Err: err, Mend: mend}
}
