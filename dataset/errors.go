package dataset

import (
	"errors"
	"fmt"

	"unseen/hint"
)

// Errors of this package wrap one of these, one of package graph's, or one of the system's, for
// errors.Is.
var (
	// ErrNotDataset: the folder is not a dataset, or holds other files.
	ErrNotDataset = errors.New("not a dataset")
	// ErrFormat: a file is damaged, or holds columns, types or numbers that it should not.
	ErrFormat = errors.New("invalid file")
	// ErrVersion: the dataset was written in a later format.
	ErrVersion = errors.New("later format")
	// ErrChecksum: a file is not the one that the manifest describes.
	ErrChecksum = errors.New("file was changed")
	// ErrContent: the content cannot be stored.
	ErrContent = errors.New("cannot be stored")
	// ErrAmbiguous: links could be row numbers or ids.
	ErrAmbiguous = errors.New("row numbers or ids?")
	// ErrClosed: the dataset was closed.
	ErrClosed = errors.New("dataset is closed")
)

// Error is one thing that is wrong with a dataset: where it is, what it is and, as a hint, what to do.
type Error struct {
	Path   string // of the file or the folder
	Row    int64  // counted from 0, as pandas does; −1 when it is not about one row
	Column string // empty when it is not about one column
	Err    error  // what is wrong; a *hint.Error where something can be done about it
}

func (e *Error) Error() string { return e.place() + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

func (e *Error) place() string {
	place := e.Path
	if e.Row >= 0 {
		place += fmt.Sprintf(", row %d", e.Row)
	}
	if e.Column != "" {
		place += ", column " + e.Column
	}
	return place
}

// parts returns what to do about it, "" where there is nothing, and what is wrong.
func (e *Error) parts() (fix string, cause error) {
	if h, ok := e.Err.(*hint.Error); ok {
		return h.Hint(nil), h.Err
	}
	return "", e.Err
}

// fileError makes an Error about a whole file or folder. The fix is a hint's format, "" for none.
func fileError(path string, err error, fix string, args ...any) *Error {
	return placeError(path, -1, "", err, fix, args...)
}

// placeError makes an Error about a place in a file.
func placeError(path string, row int64, column string, err error, fix string, args ...any) *Error {
	if fix != "" {
		err = hint.Wrap(err, fix, args...)
	}
	return &Error{Path: path, Row: row, Column: column, Err: err}
}
