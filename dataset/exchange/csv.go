package exchange

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"unseen/hint"
)

// csvReader splits comma-separated values as encoding/csv does, at several times its speed: records are
// slices of the buffer, and most of the work is done by bytes.IndexByte.
//
//   - a field may be quoted, and then hold delimiters, line ends (\r\n becomes \n) and doubled quotes;
//   - a quote elsewhere is an error, as is a quoted field that does not end at a delimiter or a line end;
//   - empty lines are skipped, and all records have as many fields as the first;
//   - a byte order mark is skipped, which encoding/csv does not.
//
// After an error, reading continues with the line after the record's first.
type csvReader struct {
	r         io.Reader
	path      string
	delimiter byte
	limit     int

	buffer     []byte
	start, end int // of what was not consumed yet
	eof        bool
	inside     bool // a record is being read: start is after its first line
	line       int  // of buffer[start]

	fields [][]byte // of the record
	spare  []byte   // unquoted text of its quoted fields
	marks  []int    // ends in spare
	record struct { // where it is
		line       int
		start, end int
	}
	width int // fields of the first record; 0 before
	err   error
}

// csvFault is what is wrong with a record.
type csvFault struct {
	err          error
	line, column int
}

func (f *csvFault) Error() string { return f.err.Error() }

func (f *csvFault) Unwrap() error { return f.err }

var (
	errStrayQuote = fmt.Errorf("%w: a quote inside a field that is not quoted", ErrFormat)
	errQuote      = fmt.Errorf("%w: text after the closing quote of a field", ErrFormat)
	errOpenQuote  = fmt.Errorf("%w: a quoted field without end", ErrFormat)
	errFieldCount = fmt.Errorf("%w: wrong number of fields", ErrFormat)
	errManyFields = fmt.Errorf("%w: more than %d fields", ErrTooLong, mostFields)
)

// mostFields is how many fields a record may have: a line of nothing but delimiters would become 24 times as large.
const mostFields = 1 << 14

// withHint is the error with what to do about it.
func (f *csvFault) withHint() error {
	switch {
	case errors.Is(f.err, ErrEncoding):
		return withEncodingHint(f.err)
	case errors.Is(f.err, errFieldCount), errors.Is(f.err, errManyFields):
		return hint.Wrap(f.err, "check the delimiter, and quote fields that contain it")
	case errors.Is(f.err, ErrTooLong):
		return hint.Wrap(f.err, "check that every quote is closed")
	}
	return hint.Wrap(f.err, `quote the whole field and double the quotes inside it: "say ""so"""`)
}

func newCSV(r io.Reader, path string, delimiter byte, limits Limits) *csvReader {
	return &csvReader{r: r, path: path, delimiter: delimiter, limit: limits.withDefaults().Record, line: 1}
}

// next reads the next record. A *csvFault is about one record only: the next call continues after it. At the end
// it returns io.EOF.
func (c *csvReader) next() error {
	for {
		if c.err != nil {
			return c.err
		}
		n, err := c.lineEnd(c.start)
		if err != nil {
			return err
		}
		if n == c.start {
			c.err = io.EOF
			return c.err
		}
		line := c.buffer[c.start:n]
		c.record.line, c.record.start, c.record.end = c.line, c.start, n
		c.start, c.line = n, c.line+1
		if len(chop(line)) == 0 {
			continue
		}
		if bytes.IndexByte(line, '"') < 0 {
			c.split(chop(line))
		} else if err := c.unquote(); err != nil {
			return err
		}
		return c.check()
	}
}

// split splits a line without quotes.
func (c *csvReader) split(line []byte) {
	c.fields = c.fields[:0]
	for {
		k := bytes.IndexByte(line, c.delimiter)
		if k < 0 || len(c.fields) > mostFields {
			c.fields = append(c.fields, line)
			return
		}
		c.fields = append(c.fields, line[:k])
		line = line[k+1:]
	}
}

// chop removes the end of a line. At the end of the file a lone \r counts as one.
func chop(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r"))
}

// unquote splits a record with quotes, which may span many lines.
func (c *csvReader) unquote() error {
	c.spare, c.marks = c.spare[:0], c.marks[:0]
	at, end := c.record.start, c.record.end // the rest of the line, with its end
	lineStart, line := at, c.record.line
	fault := func(err error, place int) error { return &csvFault{err, line, place - lineStart + 1} }
	for {
		if len(c.marks) >= mostFields {
			return fault(errManyFields, at)
		}
		rest := chop(c.buffer[at:end])
		if len(rest) == 0 || rest[0] != '"' {
			k := bytes.IndexByte(rest, c.delimiter)
			field := rest
			if k >= 0 {
				field = rest[:k]
			}
			if q := bytes.IndexByte(field, '"'); q >= 0 {
				return fault(errStrayQuote, at+q)
			}
			c.spare = append(c.spare, field...)
			c.marks = append(c.marks, len(c.spare))
			if k < 0 {
				break
			}
			at += k + 1
			continue
		}
		open, openLine, openStart := at, line, lineStart
		at++
		closed := false
		for !closed {
			q := bytes.IndexByte(c.buffer[at:end], '"')
			if q < 0 {
				// The field continues in the next line.
				c.spare = appendNormal(c.spare, c.buffer[at:end])
				if end-c.record.start > c.limit {
					return &csvFault{fmt.Errorf("%w: more than %d bytes in one quoted field", ErrTooLong, c.limit),
						openLine, open - openStart + 1}
				}
				begun := c.record.start
				c.inside = true
				next, err := c.lineEnd(end)
				c.inside = false
				// The buffer may have moved.
				moved := begun - c.record.start
				if open, openStart = open-moved, openStart-moved; err != nil {
					if f, ok := err.(*csvFault); ok {
						f.line, f.column = openLine, open-openStart+1
					}
					return err
				}
				if end -= moved; next == end {
					return &csvFault{errOpenQuote, openLine, open - openStart + 1}
				}
				at, lineStart, end = end, end, next
				line++
				continue
			}
			c.spare = append(c.spare, c.buffer[at:at+q]...)
			at += q + 1
			switch rest := chop(c.buffer[at:end]); {
			case at < end && c.buffer[at] == '"':
				c.spare = append(c.spare, '"')
				at++
			case at < end && c.buffer[at] == c.delimiter:
				closed = true
				at++
			case len(rest) == 0:
				c.marks = append(c.marks, len(c.spare))
				c.finish(end, line)
				return nil
			default:
				return fault(errQuote, at-1)
			}
		}
		c.marks = append(c.marks, len(c.spare))
	}
	c.finish(end, line)
	return nil
}

// finish makes fields of what unquote found.
func (c *csvReader) finish(end, line int) {
	c.record.end, c.start, c.line = end, end, line+1
	c.fields = c.fields[:0]
	from := 0
	for _, to := range c.marks {
		c.fields = append(c.fields, c.spare[from:to:to])
		from = to
	}
}

// appendNormal appends a line whose end, if it has one, is \n.
func appendNormal(to, line []byte) []byte {
	if body, found := bytes.CutSuffix(line, []byte("\r\n")); found {
		return append(append(to, body...), '\n')
	}
	return append(to, line...)
}

// check tests what all records must have.
func (c *csvReader) check() error {
	raw := c.raw()
	if !utf8.Valid(raw) {
		line, column := c.record.line, 1
		for len(raw) > 0 {
			r, size := utf8.DecodeRune(raw)
			if r == utf8.RuneError && size <= 1 {
				return &csvFault{fmt.Errorf("%w: byte 0x%02x", ErrEncoding, raw[0]), line, column}
			}
			column += size
			if r == '\n' {
				line, column = line+1, 1
			}
			raw = raw[size:]
		}
	}
	if k := bytes.IndexByte(raw, 0); k >= 0 {
		line := c.record.line + bytes.Count(raw[:k], []byte("\n"))
		return &csvFault{fmt.Errorf("%w: a NUL byte; the file is binary, or UTF-16", ErrEncoding), line,
			k - bytes.LastIndexByte(raw[:k], '\n')}
	}
	if len(c.fields) > mostFields {
		return &csvFault{errManyFields, c.record.line, 0}
	}
	if c.width == 0 {
		c.width = len(c.fields)
	}
	if len(c.fields) != c.width {
		return &csvFault{fmt.Errorf("%w: %d, and the first record has %d", errFieldCount, len(c.fields), c.width),
			c.record.line, 0}
	}
	return nil
}

// raw returns the record as it is in the file.
func (c *csvReader) raw() []byte { return c.buffer[c.record.start:c.record.end] }

// place returns where the record begins.
func (c *csvReader) place() Place { return Place{File: c.path, Line: c.record.line} }

// lineEnd returns the end of the line that begins at from, after its \n, or the end of the file. It reads more as
// needed, and may drop what is before start: then the record moves.
func (c *csvReader) lineEnd(from int) (int, error) {
	searched := from
	keep := func() int {
		if c.inside {
			return c.record.start
		}
		return c.start
	}
	for {
		if k := bytes.IndexByte(c.buffer[searched:c.end], '\n'); k >= 0 {
			return searched + k + 1, nil
		}
		searched = c.end
		if c.eof {
			return c.end, nil
		}
		if c.end-keep() > c.limit {
			return 0, c.tooLong()
		}
		if n := keep(); c.end == len(c.buffer) && n > 0 && n > len(c.buffer)/2 {
			copy(c.buffer, c.buffer[n:c.end])
			c.end -= n
			c.start, c.record.start, c.record.end = c.start-n, c.record.start-n, c.record.end-n
			from, searched = from-n, searched-n
		} else if c.end == len(c.buffer) {
			c.buffer = append(c.buffer, make([]byte, c.growth())...)
		}
		n, err := c.r.Read(c.buffer[c.end:])
		if c.line == 1 && c.start == 0 && c.end < 3 {
			c.end += n
			c.mark()
		} else {
			c.end += n
		}
		switch {
		case err == io.EOF:
			c.eof = true
		case err != nil:
			c.err = err
			return 0, err
		}
	}
}

// mark skips the byte order mark at the beginning of the file.
func (c *csvReader) mark() {
	if c.end >= 3 && string(c.buffer[:3]) == "\xef\xbb\xbf" {
		c.end = copy(c.buffer, c.buffer[3:c.end])
	}
}

// tooLong skips a record that is too long: to the end of its first line.
func (c *csvReader) tooLong() error {
	fault := &csvFault{fmt.Errorf("%w: more than %d bytes", ErrTooLong, c.limit), c.line, 0}
	if c.inside {
		fault.line = c.record.line
		return fault
	}
	c.record.line, c.record.start, c.record.end = c.line, 0,
		copy(c.buffer, c.buffer[c.start:min(c.start+beginning, c.end)])
	kept := c.record.end
	for {
		c.start, c.end = kept, kept
		if c.eof {
			c.line++
			return fault
		}
		n, err := c.r.Read(c.buffer[kept:])
		c.end += n
		switch {
		case err == io.EOF:
			c.eof = true
		case err != nil:
			c.err = err
			return err
		}
		if k := bytes.IndexByte(c.buffer[kept:c.end], '\n'); k >= 0 {
			c.start = kept + k + 1
			c.line++
			return fault
		}
	}
}

// growth is by how much the buffer grows when it is full: it doubles, from a size that reads well.
func (c *csvReader) growth() int {
	if len(c.buffer) == 0 {
		return 1 << 18
	}
	return len(c.buffer)
}
