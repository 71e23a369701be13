// Package hint lets an error carry what to do about it as data. A library names the setting that
// would help; who reports the error names it in the reader's own words: the command line as a flag,
// the API as a field, a Go program as it likes.
//
//	err := hint.Wrap(err, "set %v to complete if nothing else was shown", hint.Setting("log"))
//	fmt.Println(err)                                      // …; set log to complete if nothing else was shown
//	fmt.Println(hint.Render(err, func(s hint.Setting) string {
//		return "--" + string(s)                           // …; set --log to complete if nothing else was shown
//	}))
package hint

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Setting is the name of an option that a hint speaks of, in camelCase as in JSON: "perLink".
type Setting string

// Note is a text that may speak of settings.
type Note struct {
	format string
	args   []any
}

// Notef makes a text. Arguments that are Settings are named by whoever shows it.
func Notef(format string, args ...any) Note { return Note{format, args} }

// Render returns the text with settings named by a function; nil leaves them as they are.
func (n Note) Render(name func(Setting) string) string {
	args := make([]any, len(n.args))
	for i, a := range n.args {
		if s, is := a.(Setting); is && name != nil {
			a = name(s)
		}
		args[i] = a
	}
	return fmt.Sprintf(n.format, args...)
}

// String is the text with settings by their own names.
func (n Note) String() string { return n.Render(nil) }

// MarshalText makes the text a string in JSON.
func (n Note) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads a text that MarshalText wrote; its settings have kept their own names.
func (n *Note) UnmarshalText(text []byte) error {
	*n = Notef("%s", text)
	return nil
}

// Error is an error and what to do about it.
type Error struct {
	Err  error
	note Note
}

// Wrap adds a hint to an error. Arguments that are Settings are rendered by whoever reports the error.
// Wrap of a nil error is nil.
func Wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &Error{err, Notef(format, args...)}
}

// Error is the error's text and the hint, with settings by their own names.
func (e *Error) Error() string { return e.Err.Error() + "; " + e.note.String() }

// Unwrap returns the error without the hint.
func (e *Error) Unwrap() error { return e.Err }

// Hint returns the hint alone, with settings named by a function; nil leaves them as they are.
func (e *Error) Hint(name func(Setting) string) string { return e.note.Render(name) }

// Settings lists the settings that the hint speaks of.
func (e *Error) Settings() []Setting {
	var all []Setting
	for _, a := range e.note.args {
		if s, is := a.(Setting); is {
			all = append(all, s)
		}
	}
	return all
}

// Render returns the error's text with the settings of every hint in it named by a function.
func Render(err error, name func(Setting) string) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	for _, e := range hints(err) {
		text = strings.Replace(text, e.Hint(nil), e.Hint(name), 1)
	}
	return text
}

// Of returns the hints of an error, with "; " between them and settings by their own names, and the settings that they
// speak of, each once.
func Of(err error) (text string, settings []Setting) {
	for _, e := range slices.Backward(hints(err)) {
		for _, s := range e.Settings() {
			if !slices.Contains(settings, s) {
				settings = append(settings, s)
			}
		}
	}
	return Advice(err, nil), settings
}

// Advice returns the hints of an error without the error, with "; " between them and settings named by a function; nil
// leaves them as they are.
func Advice(err error, name func(Setting) string) string {
	var texts []string
	for _, e := range slices.Backward(hints(err)) {
		texts = append(texts, e.Hint(name))
	}
	return strings.Join(texts, "; ")
}

// hints lists the errors with hints in an error's tree, outermost first.
func hints(err error) []*Error {
	var all []*Error
	switch e := err.(type) {
	case nil:
		return nil
	case *Error:
		all = append(all, e)
	}
	if many, is := err.(interface{ Unwrap() []error }); is {
		for _, e := range many.Unwrap() {
			all = append(all, hints(e)...)
		}
		return all
	}
	return append(all, hints(errors.Unwrap(err))...)
}
