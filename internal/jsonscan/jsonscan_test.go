package jsonscan

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
)

// value reads everything, as encoding/json would.
func value(c *Scanner) any {
	switch c.peek() {
	case '{':
		m := map[string]any{}
		for key := range c.Keys() {
			m[string(key)] = value(c)
		}
		return m
	case '[':
		list := []any{}
		for range c.Elements() {
			list = append(list, value(c))
		}
		return list
	case '"':
		return string(c.Text())
	case 't', 'f':
		return c.Bool()
	case 'n':
		c.Null()
		return nil
	}
	return c.Float()
}

var samples = []string{
	`{"id":"W1","a":[1,-2.5e3,0.1,{"b":null}],"t":true,"f":false,"s":"a\"\\\/\b\f\n\r\té😀\ud800x"}`,
	`[]`, `{}`, `[[],{}]`, ` { "a" : [ ] , "b" : { } } `, `"x"`, `0`, `-0`, `1e5`, `null`, `[1,2`, `[1,]`, `{"a"}`,
	`{"a":1,}`, `{a:1}`, `01`, `1.`, `.5`,
	`-`, `1e`, `"\x"`, "\"\n\"", `"\u12"`, `nul`, `tru`, `[1 2]`, `{"a":1 "b":2}`, `{} x`, ``, ` `, `"`, `"\`, `{"a":`,
	`]`, `}`, `[}`, `{]`, "[1]\x00",
}

func TestAcceptsWhatJSONIs(t *testing.T) {
	t.Parallel()
	for _, s := range samples {
		agrees(t, []byte(s))
	}
}

func agrees(t *testing.T, data []byte) {
	t.Helper()
	var c Scanner
	c.Reset(data)
	c.Skip()
	skipped := c.End()
	c.Reset(data)
	got := value(&c)
	read := c.End()
	var want any
	err := json.Unmarshal(data, &want)
	outOfRange := read != nil && strings.Contains(read.Error(), "too large")
	if valid := json.Valid(data); (skipped == nil) != valid {
		t.Fatalf("%q: passed over with %v, valid is %v", data, skipped, valid)
	}
	if (read == nil) != (err == nil) && !outOfRange {
		t.Fatalf("%q: read with %v, encoding/json says %v", data, read, err)
	}
	// encoding/json mends bytes that are not UTF-8; here that is the caller's.
	if read == nil && json.Valid(data) && strings.ToValidUTF8(string(data), "") == string(data) &&
		!reflect.DeepEqual(got, want) {
		t.Fatalf("%q: read as %#v, encoding/json as %#v", data, got, want)
	}
	for _, e := range []error{skipped, read} {
		var at *Error
		if e != nil && (!errors.As(e, &at) || at.Offset < 0 || at.Offset > len(data)) {
			t.Fatalf("%q: %#v", data, e)
		}
	}
}

func TestDepth(t *testing.T) {
	t.Parallel()
	for n, good := range map[int]bool{1000: true, 1 << 20: false} {
		data := []byte(strings.Repeat("[", n) + strings.Repeat("]", n))
		var c Scanner
		c.Reset(data)
		c.Skip()
		if err := c.End(); (err == nil) != good {
			t.Errorf("%d lists in one another: %v", n, err)
		}
	}
}

func TestFaultsSayWhere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		data   string
		offset int
		says   string
	}{
		{`{"id":5}`, 6, "expected a string, found a number"},
		{`{"id":["x"]}`, 6, "expected a string, found an array"},
		{`{"n":"x"}`, 5, "expected a number, found a string"},
		{`{"n":1.5}`, 5, "found 1.5"},
		{`{"n":99999999999999999999}`, 5, "64 bits"},
		{`[1]`, 0, "expected an object, found an array"},
		{`{"id":"x"`, 9, "unexpected EOF"},
		{`{"id":"x`, 8, "unexpected EOF"},
	} {
		var cur Scanner
		cur.Reset([]byte(c.data))
		for key := range cur.Keys() {
			switch string(key) {
			case "id":
				cur.Text()
			case "n":
				cur.Int()
			}
		}
		var e *Error
		if err := cur.End(); !errors.As(err, &e) || e.Offset != c.offset || !strings.Contains(e.Reason, c.says) {
			t.Errorf("%s: %+v, want at %d: %s", c.data, err, c.offset, c.says)
		}
	}
}

func TestInt(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{0, 1, -1, 9, 10, 999999999999999999, 1000000000000000000, math.MaxInt64, math.MinInt64} {
		for _, form := range []string{"%d", " %d ", "[%d]", "[%d,5]", "[ %d , 5 ]", `{"n":%d}`} {
			var c Scanner
			c.Reset(fmt.Appendf(nil, form, n))
			got := int64(-7)
			switch {
			case c.IsList():
				for k := range c.Elements() {
					if k == 0 {
						got = c.Int()
					}
				}
			case c.IsObject():
				for range c.Keys() {
					got = c.Int()
				}
			default:
				got = c.Int()
			}
			if err := c.End(); err != nil || got != n {
				t.Errorf(form+": read as %d, %v", n, got, err)
			}
		}
	}
	for _, wrong := range []string{"[1.0]", "[1e3]", "[12x]", "[9223372036854775808]", "[01]", "[-]", "[1 2]"} {
		var c Scanner
		c.Reset([]byte(wrong))
		for range c.Elements() {
			c.Int()
		}
		if c.End() == nil {
			t.Errorf("%s was read", wrong)
		}
	}
}

func FuzzScanner(f *testing.F) {
	for _, s := range samples {
		f.Add([]byte(s))
	}
	f.Fuzz(agrees)
}

func ExampleScanner() {
	var c Scanner
	c.Reset([]byte(`{"id": "W1", "authors": [{"name": "not wanted"}], "year": 2021}`))
	for key := range c.Keys() {
		switch string(key) {
		case "id":
			fmt.Println("id", string(c.Text()))
		case "year":
			fmt.Println("year", c.Int())
		}
	}
	fmt.Println(c.End())
	// Output:
	// id W1
	// year 2021
	// <nil>
}
