// Package jsonscan reads what is wanted of one JSON value and passes over the rest.
//
// Lines of bibliographies are long and little of them is needed. A Cursor walks once over the bytes, makes
// no values of what nobody asks for, and still refuses everything that is not JSON.
//
//	var c jsonscan.Cursor
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
// The first fault stays: loops then end, and calls return zero, until End tells it.
package jsonscan

import (
	"bytes"
	"fmt"
	"iter"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects may lie in one another.
const MaxDepth = 256

// Error says where and why reading stopped.
type Error struct {
	Offset int // in bytes, from 0
	Reason string
}

func (e *Error) Error() string { return e.Reason }

// Cursor walks over one JSON value. Its zero value is ready for Reset.
type Cursor struct {
	data  []byte
	at    int
	depth int
	err   *Error
}

// Reset begins anew with other bytes, which must not change while they are read.
func (c *Cursor) Reset(data []byte) { *c = Cursor{data: data} }

// Offset returns how far the cursor came.
func (c *Cursor) Offset() int { return c.at }

// Fail stops the cursor with a reason of the caller, such as a number out of range.
func (c *Cursor) Fail(format string, args ...any) {
	if c.err == nil {
		c.err = &Error{Offset: c.at, Reason: fmt.Sprintf(format, args...)}
	}
}

// Err returns the first fault, an *Error, or nil.
func (c *Cursor) Err() error {
	if c.err == nil {
		return nil
	}
	return c.err
}

// End returns the first fault. It is one if anything but space follows the value.
func (c *Cursor) End() error {
	if c.err == nil {
		if c.space(); c.at < len(c.data) {
			c.Fail("more follows where the record should end")
		}
	}
	return c.Err()
}

func (c *Cursor) space() {
	for c.at < len(c.data) {
		switch c.data[c.at] {
		case ' ', '\t', '\n', '\r':
			c.at++
		default:
			return
		}
	}
}

// peek returns the first byte of the next value, or 0 at the end or after a fault.
func (c *Cursor) peek() byte {
	if c.err == nil && c.at < len(c.data) && c.data[c.at] > ' ' {
		return c.data[c.at]
	}
	return c.peekFurther()
}

func (c *Cursor) peekFurther() byte {
	if c.err != nil {
		return 0
	}
	if c.space(); c.at == len(c.data) {
		c.Fail("it ends too early")
		return 0
	}
	return c.data[c.at]
}

// Null passes over a null, and reports whether there was one.
func (c *Cursor) Null() bool {
	return c.peek() == 'n' && c.word("null")
}

// IsText reports whether a text is next.
func (c *Cursor) IsText() bool { return c.peek() == '"' }

// IsList reports whether a list is next.
func (c *Cursor) IsList() bool { return c.peek() == '[' }

// IsObject reports whether an object is next.
func (c *Cursor) IsObject() bool { return c.peek() == '{' }

func (c *Cursor) word(w string) bool {
	if !bytes.HasPrefix(c.data[c.at:], []byte(w)) {
		c.Fail("there is something that is no JSON")
		return false
	}
	c.at += len(w)
	return true
}

func (c *Cursor) want(what string) {
	found := "something that is no JSON"
	switch b := c.peek(); {
	case c.err != nil:
		return
	case b == '{':
		found = "an object"
	case b == '[':
		found = "a list"
	case b == '"':
		found = "a text"
	case b == 't' || b == 'f':
		found = "true or false"
	case b == 'n':
		found = "null"
	case b == '-' || b >= '0' && b <= '9':
		found = "a number"
	}
	c.Fail("%s where %s must be", found, what)
}

// enter and leave count arrays and objects.
func (c *Cursor) enter() bool {
	c.at++
	if c.depth++; c.depth > MaxDepth {
		c.Fail("more than %d lists and objects lie in one another", MaxDepth)
		return false
	}
	return true
}

// more reports whether another element follows, having passed the comma or the closing bracket.
func (c *Cursor) more(first bool, closing byte) bool {
	switch b := c.peek(); {
	case c.err != nil:
		return false
	case b == closing:
		c.at++
		c.depth--
		return false
	case first:
		return true
	case b == ',':
		c.at++
		return true
	}
	c.Fail("a comma or %c is missing", closing)
	return false
}

// Keys passes through an object; null is one without keys. The loop's body reads the value of each key, or
// does nothing and it is passed over. The body must not break.
func (c *Cursor) Keys() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if c.Null() || c.err != nil {
			return
		}
		if c.peek() != '{' {
			c.want("an object")
			return
		}
		if !c.enter() {
			return
		}
		for first := true; c.more(first, '}'); first = false {
			key := c.key()
			if c.err != nil {
				return
			}
			before := c.at
			if !yield(key) {
				c.Fail("reading was broken off")
				return
			}
			if c.at == before {
				c.Skip()
			}
		}
	}
}

func (c *Cursor) key() []byte {
	if c.peek() != '"' {
		c.want("a key in quotes")
		return nil
	}
	key := c.text()
	if c.peek() != ':' {
		c.Fail("a colon is missing")
		return nil
	}
	c.at++
	c.space()
	return key
}

// Elements passes through a list; null is an empty one. The body reads each element or does nothing, as
// with Keys.
func (c *Cursor) Elements() iter.Seq[int] {
	return func(yield func(int) bool) {
		if c.Null() || c.err != nil {
			return
		}
		if c.peek() != '[' {
			c.want("a list")
			return
		}
		if !c.enter() {
			return
		}
		n := 0
		for ; c.more(n == 0, ']'); n++ {
			c.space()
			before := c.at
			if !yield(n) {
				c.Fail("reading was broken off")
				return
			}
			if c.at == before {
				c.Skip()
			}
		}
	}
}

// Text returns a text; of null, none. It is a part of the bytes where nothing in it is escaped, so it is to
// be copied if it is kept. Whether it is UTF-8 is not looked at.
func (c *Cursor) Text() []byte {
	if c.Null() || c.err != nil {
		return nil
	}
	if c.peek() != '"' {
		c.want("a text")
		return nil
	}
	return c.text()
}

// plain are the bytes that stand for themselves in a text.
var plain = func() (table [256]bool) {
	for b := range table {
		table[b] = b >= 0x20 && b != '"' && b != '\\'
	}
	return table
}()

func (c *Cursor) text() []byte {
	c.at++
	start := c.at
	for c.at < len(c.data) && plain[c.data[c.at]] {
		c.at++
	}
	if c.at < len(c.data) && c.data[c.at] == '"' {
		c.at++
		return c.data[start : c.at-1 : c.at-1]
	}
	out := append(make([]byte, 0, 2*(c.at-start)+16), c.data[start:c.at]...)
	for c.at < len(c.data) {
		from := c.at
		for c.at < len(c.data) && plain[c.data[c.at]] {
			c.at++
		}
		out = append(out, c.data[from:c.at]...)
		if c.at == len(c.data) {
			break
		}
		switch c.data[c.at] {
		case '"':
			c.at++
			return out
		case '\\':
			r, ok := c.escape()
			if !ok {
				return nil
			}
			out = utf8.AppendRune(out, r)
		default:
			c.Fail("a text holds a control character")
			return nil
		}
	}
	c.Fail("it ends within a text")
	return nil
}

func (c *Cursor) escape() (rune, bool) {
	if c.at+1 < len(c.data) {
		b := c.data[c.at+1]
		c.at += 2
		switch b {
		case '"', '\\', '/':
			return rune(b), true
		case 'b':
			return '\b', true
		case 'f':
			return '\f', true
		case 'n':
			return '\n', true
		case 'r':
			return '\r', true
		case 't':
			return '\t', true
		case 'u':
			r, ok := c.hex(c.at)
			if !ok {
				break
			}
			c.at += 4
			if !utf16.IsSurrogate(r) {
				return r, true
			}
			if c.at+1 < len(c.data) && c.data[c.at] == '\\' && c.data[c.at+1] == 'u' {
				if low, ok := c.hex(c.at + 2); ok {
					if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
						c.at += 6
						return both, true
					}
				}
			}
			return utf8.RuneError, true // half a character
		}
	}
	c.Fail("a text holds an escape that is none")
	return 0, false
}

func (c *Cursor) hex(at int) (rune, bool) {
	if at+4 > len(c.data) {
		return 0, false
	}
	var r rune
	for _, b := range c.data[at : at+4] {
		switch {
		case b >= '0' && b <= '9':
			r = r<<4 | rune(b-'0')
		case b >= 'a' && b <= 'f':
			r = r<<4 | rune(b-'a'+10)
		case b >= 'A' && b <= 'F':
			r = r<<4 | rune(b-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// skipText passes over a text without making one.
func (c *Cursor) skipText() {
	c.at++
	for c.at < len(c.data) {
		switch b := c.data[c.at]; {
		case plain[b]:
			c.at++
		case b == '"':
			c.at++
			return
		case b == '\\':
			if _, ok := c.escape(); !ok {
				return
			}
		default:
			c.Fail("a text holds a control character")
			return
		}
	}
	c.Fail("it ends within a text")
}

// number passes over a number and returns its bytes.
func (c *Cursor) number(what string) []byte {
	if b := c.peek(); b != '-' && (b < '0' || b > '9') {
		c.want(what)
		return nil
	}
	start := c.at
	digits := func() bool {
		from := c.at
		for c.at < len(c.data) && c.data[c.at] >= '0' && c.data[c.at] <= '9' {
			c.at++
		}
		return c.at > from
	}
	is := func(b byte) bool { return c.at < len(c.data) && c.data[c.at] == b }
	if is('-') {
		c.at++
	}
	good := true
	if is('0') {
		c.at++
	} else {
		good = digits()
	}
	if good && is('.') {
		c.at++
		good = digits()
	}
	if good && (is('e') || is('E')) {
		c.at++
		if is('+') || is('-') {
			c.at++
		}
		good = digits()
	}
	if !good {
		c.Fail("a number is not written as JSON's are")
		return nil
	}
	return c.data[start:c.at]
}

// Int returns a whole number.
func (c *Cursor) Int() int64 {
	// The common case first: up to 18 digits, and then what follows a number in a list or an object.
	if b := c.peek(); b >= '1' && b <= '9' {
		n := int64(0)
		for k, d := range c.data[c.at:min(c.at+19, len(c.data))] {
			if d < '0' || d > '9' {
				if d == ',' || d == ']' || d == '}' {
					c.at += k
					return n
				}
				break
			}
			n = n*10 + int64(d-'0')
		}
	}
	b := c.number("a whole number")
	if c.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		c.Fail("%.40s where a whole number of 64 bits must be", b)
		return 0
	}
	return n
}

// Float returns a number.
func (c *Cursor) Float() float64 {
	b := c.number("a number")
	if c.err != nil {
		return 0
	}
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		c.Fail("%.40s is too large a number", b)
		return 0
	}
	return f
}

// Bool returns true or false; null is false.
func (c *Cursor) Bool() bool {
	switch c.peek() {
	case 't':
		return c.word("true")
	case 'f':
		c.word("false")
		return false
	case 'n':
		c.word("null")
		return false
	}
	c.want("true or false")
	return false
}

// Skip passes over the next value, whatever it is.
func (c *Cursor) Skip() {
	outer := c.depth
	var inObject [MaxDepth + 1]bool
	first := false // at the first element of what was just entered
	for c.err == nil {
		// A value.
		switch b := c.peek(); {
		case b == '{' || b == '[':
			if !c.enter() {
				return
			}
			inObject[c.depth] = b == '{'
			first = true
		case b == '"':
			c.skipText()
		case b == 't':
			c.word("true")
		case b == 'f':
			c.word("false")
		case b == 'n':
			c.word("null")
		case b == '-' || b >= '0' && b <= '9':
			c.number("a number")
		default:
			if c.err == nil {
				c.want("a value")
			}
			return
		}
		// What follows it: closing brackets, then a comma and perhaps a key.
		for c.depth > outer && c.err == nil {
			closing := byte(']')
			if inObject[c.depth] {
				closing = '}'
			}
			more := c.more(first, closing)
			first = false
			if more {
				if closing == '}' {
					if c.peek() != '"' {
						c.want("a key in quotes")
						return
					}
					if c.skipText(); c.peek() != ':' {
						c.Fail("a colon is missing")
						return
					}
					c.at++
				}
				break
			}
		}
		if c.depth == outer {
			return
		}
	}
}
