// Package jsonscan reads the wanted parts of one JSON value and skips the rest.
//
// Lines of bibliographies are long and little of them is needed. A Scanner passes once over the bytes, makes no values
// of what nobody asks for, and still refuses everything that is not JSON.
//
//	var c jsonscan.Scanner
//	c.Reset(line)
//	for key := range c.Keys() {
//		switch string(key) {
//		case "id":
//			id = c.Text()
//		case "year":
//			year = c.Int()
//		}
//	}
//	if err := c.End(); err != nil { … }
//
// The first error stays: loops then end and calls return zero, until End reports it. Package jsontext reads the JSON,
// and limits how deep arrays and objects may nest.
package jsonscan

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Error says where and why reading stopped.
type Error struct {
	Offset int // in bytes, from 0
	Reason string
}

func (e *Error) Error() string { return e.Reason }

// Scanner passes over one JSON value. Its zero value is ready for Reset.
type Scanner struct {
	data    []byte
	buffer  bytes.Buffer // holds data, which the decoder then reads in place
	decoder jsontext.Decoder
	err     *Error
}

// Reset starts over with other bytes, which must not change while they are read. Whether they are UTF-8 is for the
// caller to check. Keys may repeat.
func (c *Scanner) Reset(data []byte) {
	c.data, c.buffer, c.err = data, *bytes.NewBuffer(data), nil
	c.decoder.Reset(&c.buffer, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

// Fail stops the scanner with a reason of the caller, such as a number out of range.
func (c *Scanner) Fail(format string, args ...any) {
	c.failAt(c.decoder.InputOffset(), format, args...)
}

func (c *Scanner) failAt(offset int64, format string, args ...any) {
	if c.err == nil {
		c.err = &Error{Offset: int(offset), Reason: fmt.Sprintf(format, args...)}
	}
}

// ok keeps an error of the decoder, and reports whether there was none.
func (c *Scanner) ok(err error) bool {
	if err == nil {
		return true
	}
	if syntax, is := errors.AsType[*jsontext.SyntacticError](err); is {
		c.failAt(syntax.ByteOffset, "%v", syntax.Err)
	} else {
		c.Fail("unexpected EOF") // nothing but space
	}
	return false
}

// Err returns the first error, an *Error, or nil.
func (c *Scanner) Err() error {
	if c.err == nil {
		return nil
	}
	return c.err
}

// End returns the first error. Anything but space after the value is one.
func (c *Scanner) End() error {
	if c.err == nil && len(bytes.TrimLeft(c.data[c.decoder.InputOffset():], " \t\r\n")) > 0 {
		c.Fail("more data after the record")
	}
	return c.Err()
}

// peek returns the kind of the next value, or 0 at the end or after an error.
func (c *Scanner) peek() jsontext.Kind {
	if c.err != nil {
		return jsontext.KindInvalid
	}
	return c.decoder.PeekKind()
}

// Null skips a null, and reports whether there was one.
func (c *Scanner) Null() bool {
	null := c.peek() == jsontext.KindNull
	if null {
		c.Skip()
	}
	return null && c.err == nil
}

// IsText reports whether a string is next.
func (c *Scanner) IsText() bool { return c.peek() == jsontext.KindString }

// IsList reports whether an array is next.
func (c *Scanner) IsList() bool { return c.peek() == jsontext.KindBeginArray }

// IsObject reports whether an object is next.
func (c *Scanner) IsObject() bool { return c.peek() == jsontext.KindBeginObject }

// Keys iterates over an object; null is one without keys. The loop's body reads the value of each key, or does nothing
// and it is skipped. The body must not break.
func (c *Scanner) Keys() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if !c.enter(jsontext.KindBeginObject) {
			return
		}
		for c.more(jsontext.KindEndObject) {
			key := c.Text()
			if c.err != nil {
				return
			}
			before := c.decoder.InputOffset()
			if !yield(key) {
				c.Fail("the loop over keys ended early")
				return
			}
			if c.decoder.InputOffset() == before {
				c.Skip()
			}
		}
	}
}

// Elements iterates over an array; null is an empty one. The body reads each element or does nothing, as with Keys.
func (c *Scanner) Elements() iter.Seq[int] {
	return func(yield func(int) bool) {
		if !c.enter(jsontext.KindBeginArray) {
			return
		}
		for n := 0; c.more(jsontext.KindEndArray); n++ {
			before := c.decoder.InputOffset()
			if !yield(n) {
				c.Fail("the loop over elements ended early")
				return
			}
			if c.decoder.InputOffset() == before {
				c.Skip()
			}
		}
	}
}

// enter reads the beginning of an array or an object, or null.
func (c *Scanner) enter(kind jsontext.Kind) bool {
	if c.err != nil {
		return false
	}
	token, err := c.decoder.ReadToken()
	if !c.ok(err) || token.Kind() == jsontext.KindNull {
		return false
	}
	return c.is(kind, token.Kind(), 1)
}

// more reports whether another element follows; if not, the end is read.
func (c *Scanner) more(end jsontext.Kind) bool {
	if c.err != nil {
		return false
	}
	if kind := c.decoder.PeekKind(); kind != end && kind != jsontext.KindInvalid {
		return true
	}
	_, err := c.decoder.ReadToken()
	c.ok(err)
	return false
}

var kindNames = map[jsontext.Kind]string{
	jsontext.KindNull: "null", jsontext.KindFalse: "false", jsontext.KindTrue: "true", jsontext.KindString: "a string",
	jsontext.KindNumber: "a number", jsontext.KindBeginObject: "an object", jsontext.KindBeginArray: "an array",
}

// is fails unless what was just read, of a length, is of the kind that is wanted.
func (c *Scanner) is(want, got jsontext.Kind, length int) bool {
	if got == want {
		return true
	}
	c.failAt(c.decoder.InputOffset()-int64(length), "expected %s, found %s", kindNames[want], kindNames[got])
	return false
}

// value reads a value of a kind; of null, if that is allowed, or after an error it returns nil.
func (c *Scanner) value(kind jsontext.Kind, orNull bool) jsontext.Value {
	if c.err != nil {
		return nil
	}
	v, err := c.decoder.ReadValue()
	if !c.ok(err) || orNull && v.Kind() == jsontext.KindNull || !c.is(kind, v.Kind(), len(v)) {
		return nil
	}
	return v
}

// Text returns a string; of null, none. It is a part of the bytes where nothing in it is escaped, so it must be copied
// if it is kept.
func (c *Scanner) Text() []byte {
	v := c.value(jsontext.KindString, true)
	if v == nil {
		return nil
	}
	if bytes.IndexByte(v, '\\') >= 0 {
		text, _ := jsontext.AppendUnquote(nil, v) // its errors are of UTF-8
		return text
	}
	end := c.decoder.InputOffset()
	return c.data[end-int64(len(v))+1 : end-1 : end-1]
}

// Int returns a whole number.
func (c *Scanner) Int() int64 {
	v := c.value(jsontext.KindNumber, false)
	if v == nil {
		return 0
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		c.failAt(c.decoder.InputOffset()-int64(len(v)), "expected a whole number of 64 bits, found %.40s", v)
	}
	return n
}

// Float returns a number.
func (c *Scanner) Float() float64 {
	v := c.value(jsontext.KindNumber, false)
	if v == nil {
		return 0
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil {
		c.failAt(c.decoder.InputOffset()-int64(len(v)), "%.40s is too large a number", v)
	}
	return f
}

// Bool returns true or false; null is false.
func (c *Scanner) Bool() bool {
	if c.peek() == jsontext.KindFalse {
		c.Skip()
		return false
	}
	return c.value(jsontext.KindTrue, true) != nil
}

// Skip skips the next value, whatever it is.
func (c *Scanner) Skip() {
	if c.err == nil {
		_, err := c.decoder.ReadValue()
		c.ok(err)
	}
}
