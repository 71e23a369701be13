package exchange

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"unicode/utf8"

	"unseen/hint"
)

// Lines reads a text line by line, whatever its length up to Limits.Record. A line ends with \n or \r\n; a
// byte order mark is skipped.
type Lines struct {
	r      io.Reader
	close  func() error
	path   string
	limit  int
	buffer []byte
	start  int // of what was not returned yet
	end    int
	line   []byte
	number int
	long   bool // the line was too long: Bytes are its beginning
	eof    bool
	err    error
}

// OpenLines opens a file as OpenInput does.
func OpenLines(ctx context.Context, path string, o Options) (*Lines, error) {
	s, err := OpenInput(ctx, path, o)
	if err != nil {
		return nil, err
	}
	l := newLines(s, path, o.Limits)
	l.close = s.Close
	return l, nil
}

func newLines(r io.Reader, path string, limits Limits) *Lines {
	return &Lines{r: r, path: path, limit: limits.withDefaults().Record, buffer: make([]byte, 1<<16)}
}

// Next advances to the next line, and reports whether there is one.
func (l *Lines) Next() bool {
	if l.err != nil {
		return false
	}
	l.number++
	l.long = false
	searched := 0
	for {
		if k := bytes.IndexByte(l.buffer[l.start+searched:l.end], '\n'); k >= 0 {
			l.take(searched + k)
			l.start += searched + k + 1
			return true
		}
		searched = l.end - l.start
		if searched > l.limit {
			return l.skip()
		}
		if l.eof {
			l.take(searched)
			l.start = l.end
			return searched > 0
		}
		if !l.fill() {
			return false
		}
	}
}

func (l *Lines) take(n int) {
	l.line = bytes.TrimSuffix(l.buffer[l.start:l.start+n], []byte("\r"))
	if l.number == 1 {
		l.line = bytes.TrimPrefix(l.line, []byte("\xef\xbb\xbf"))
	}
	if len(l.line) > l.limit {
		l.long, l.line = true, l.line[:min(beginning, len(l.line))]
	}
}

// beginning is how much of a bad record is kept.
const beginning = 120

// skip reads on to the end of a line that is too long and keeps its beginning.
func (l *Lines) skip() bool {
	start := bytes.Clone(l.buffer[l.start:min(l.start+beginning, l.end)])
	l.long, l.line = true, start
	for {
		l.start, l.end = 0, 0
		if l.eof {
			return true
		}
		if !l.fill() {
			return false
		}
		if k := bytes.IndexByte(l.buffer[:l.end], '\n'); k >= 0 {
			l.start = k + 1
			return true
		}
	}
}

// fill reads more into the buffer, which grows when it is full.
func (l *Lines) fill() bool {
	if l.start > 0 {
		l.end = copy(l.buffer, l.buffer[l.start:l.end])
		l.start = 0
	}
	if l.end == len(l.buffer) {
		l.buffer = append(l.buffer, make([]byte, len(l.buffer))...)
	}
	n, err := l.r.Read(l.buffer[l.end:])
	l.end += n
	switch {
	case err == io.EOF:
		l.eof = true
	case err != nil:
		l.err = err
		return false
	}
	return true
}

// Bytes returns the line without its end. They are good until Next.
func (l *Lines) Bytes() []byte { return l.line }

// Fault returns what is wrong with a line: it is too long (Bytes are then its beginning), is not UTF-8 or has a NUL
// byte. It wraps ErrTooLong or ErrEncoding, and is nil for a good line. A format rejects such a line and continues
// with the next.
func (l *Lines) Fault() *Error {
	at := l.Place()
	if err := l.tooLong(); err != nil {
		return &Error{at, err}
	}
	if !utf8.Valid(l.line) {
		for at.Column = 1; at.Column <= len(l.line); {
			r, size := utf8.DecodeRune(l.line[at.Column-1:])
			if r == utf8.RuneError && size <= 1 {
				break
			}
			at.Column += size
		}
		return &Error{at, withEncodingHint(fmt.Errorf("%w: byte 0x%02x", ErrEncoding, l.line[at.Column-1]))}
	}
	if k := bytes.IndexByte(l.line, 0); k >= 0 {
		at.Column = k + 1
		return &Error{at, withEncodingHint(fmt.Errorf("%w: a NUL byte; the file is binary, or UTF-16", ErrEncoding))}
	}
	return nil
}

// tooLong is the part of Fault that costs nothing, for formats that read every byte themselves.
func (l *Lines) tooLong() error {
	if !l.long {
		return nil
	}
	return hint.Wrap(fmt.Errorf("%w: more than %d bytes", ErrTooLong, l.limit),
		"check that the file is text with line ends")
}

// Place returns where the line is.
func (l *Lines) Place() Place { return Place{File: l.path, Line: l.number} }

// Err returns what ended the lines before the end of the file.
func (l *Lines) Err() error { return l.err }

// Close closes the file.
func (l *Lines) Close() error {
	if l.close == nil {
		return nil
	}
	return l.close()
}
