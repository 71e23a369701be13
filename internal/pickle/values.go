package pickle

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Tuple is a tuple.
type Tuple struct {
	Items []any
	depth int32
}

// List is a list.
type List struct {
	Items []any
	depth int32
}

// Set is a set or a frozenset.
type Set struct {
	Items []any
	depth int32
}

// Dict is a dictionary in the order in which it was written. A key that was set twice is there twice,
// and the last counts.
type Dict struct {
	Keys, Values []any
	depth        int32
}

// Get returns the value of a key that is a text.
func (d *Dict) Get(key string) (any, bool) {
	for k := len(d.Keys) - 1; k >= 0; k-- {
		if s, is := d.Keys[k].(string); is && s == key {
			return d.Values[k], true
		}
	}
	return nil, false
}

// Global is the name of a class or a function.
type Global struct{ Module, Name string }

// String returns the name as Python writes it.
func (g Global) String() string { return g.Module + "." + g.Name }

// Object is an instance of a class, or the result of a call, that was not made.
type Object struct {
	Global        // the class, or what would have been called
	Args   *Tuple // with what; nil when nothing is known
	State  any    // what the instance would have been told to be, often a *Dict of attributes; nil without
	Items  *List  // what would have been appended to it
	Pairs  *Dict  // what would have been set in it
	depth  int32
}

// Attribute returns an attribute of an instance with plain attributes.
func (o *Object) Attribute(name string) (any, bool) {
	switch s := o.State.(type) {
	case *Dict:
		return s.Get(name)
	case *Tuple: // (attributes, slots)
		for _, part := range s.Items {
			if d, is := part.(*Dict); is {
				if v, found := d.Get(name); found {
					return v, true
				}
			}
		}
	}
	return nil, false
}

func depthOf(v any) int32 {
	switch v := v.(type) {
	case *Tuple:
		return v.depth
	case *List:
		return v.depth
	case *Set:
		return v.depth
	case *Dict:
		return v.depth
	case *Object:
		return v.depth
	}
	return 0
}

// Describe says in a few words what a value is, for messages: "a list of 3: an array (768) of <f4, …".
func Describe(v any) string {
	var b strings.Builder
	describe(&b, v, 3)
	return b.String()
}

// describe goes down at most deep levels and shows at most eight things on each, because a value may be
// huge, and may contain itself.
func describe(b *strings.Builder, v any, deep int) {
	const shown = 8
	several := func(what string, items []any) {
		fmt.Fprintf(b, "%s of %d", what, len(items))
		if deep == 0 || len(items) == 0 {
			return
		}
		b.WriteString(": ")
		for k, item := range items {
			if k == shown || k > 0 && len(items) > shown && deep < 3 {
				b.WriteString(", …")
				break
			}
			if k > 0 {
				b.WriteString(", ")
			}
			describe(b, item, deep-1)
		}
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		b.WriteString(map[bool]string{true: "True", false: "False"}[v])
	case int64:
		fmt.Fprintf(b, "%d", v)
	case *big.Int:
		fmt.Fprintf(b, "an int of %d bits", v.BitLen())
	case float64:
		b.WriteString(strconv.FormatFloat(v, 'g', -1, 64))
	case string:
		fmt.Fprintf(b, "%.40q", v)
	case []byte:
		fmt.Fprintf(b, "%d bytes", len(v))
	case *Tuple:
		several("a tuple", v.Items)
	case *List:
		several("a list", v.Items)
	case *Set:
		several("a set", v.Items)
	case *Dict:
		several("a dict", v.Keys)
		if deep > 0 && len(v.Values) > 0 {
			b.WriteString(" to ")
			describe(b, v.Values[0], deep-1)
			if len(v.Values) > 1 {
				b.WriteString(", …")
			}
		}
	case Global:
		fmt.Fprintf(b, "%.80s", v.String())
	case *Object:
		fmt.Fprintf(b, "a %.80s", v.Global.String())
	case *DType:
		fmt.Fprintf(b, "dtype %.20q", v.Code)
	case *Array:
		if v.DType == nil {
			b.WriteString("an array that was never filled")
			return
		}
		fmt.Fprintf(b, "an array %v of %.20s", v.Shape, v.DType.Code)
	default:
		fmt.Fprintf(b, "a %T", v)
	}
}
