package hint_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"unseen/hint"
)

func flag(s hint.Setting) string { return "--" + string(s) }

func TestRender(t *testing.T) {
	t.Parallel()
	one := hint.Wrap(io.EOF, "set %v to %q", hint.Setting("log"), "complete")
	two := hint.Wrap(errors.New("no model"), "give %v or %v", hint.Setting("model"), hint.Setting("naive"))
	for _, c := range []struct {
		err         error
		plain, flag string
	}{
		{one, `EOF; set log to "complete"`, `EOF; set --log to "complete"`},
		{fmt.Errorf("fit: %w (twice)", one), `fit: EOF; set log to "complete" (twice)`,
			`fit: EOF; set --log to "complete" (twice)`},
		{errors.Join(one, two), "EOF; set log to \"complete\"\nno model; give model or naive",
			"EOF; set --log to \"complete\"\nno model; give --model or --naive"},
		{hint.Wrap(one, "or use %v", hint.Setting("quick")), `EOF; set log to "complete"; or use quick`,
			`EOF; set --log to "complete"; or use --quick`},
		{io.EOF, "EOF", "EOF"},
	} {
		if got := c.err.Error(); got != c.plain {
			t.Errorf("got %q, want %q", got, c.plain)
		}
		if got := hint.Render(c.err, flag); got != c.flag {
			t.Errorf("got %q, want %q", got, c.flag)
		}
	}
	if hint.Wrap(nil, "x") != nil || hint.Render(nil, flag) != "" {
		t.Error("no error has a hint")
	}
	if !errors.Is(fmt.Errorf("a: %w", one), io.EOF) {
		t.Error("the error behind the hint is lost")
	}
}

// The hints of an error are data: a text, innermost first as in the error's own text, and the settings it speaks of.
func TestOf(t *testing.T) {
	t.Parallel()
	err := hint.Wrap(io.EOF, "set %v to complete", hint.Setting("log"))
	err = hint.Wrap(fmt.Errorf("fit: %w", err), "use %v, or %v", hint.Setting("quick"), hint.Setting("log"))
	text, settings := hint.Of(err)
	if text != "set log to complete; use quick, or log" || !slices.Equal(settings, []hint.Setting{"log", "quick"}) {
		t.Errorf("%q, %q", text, settings)
	}
	if text, settings := hint.Of(io.EOF); text != "" || settings != nil {
		t.Errorf("an error without a hint: %q, %q", text, settings)
	}
}

// A value that reads like a setting is a value: only settings are renamed.
func TestValuesStay(t *testing.T) {
	t.Parallel()
	err := hint.Wrap(io.EOF, "rename %s, or set %v", "log", hint.Setting("log"))
	if got, want := hint.Render(err, flag), "EOF; rename log, or set --log"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var e *hint.Error
	if !errors.As(err, &e) || len(e.Settings()) != 1 || e.Settings()[0] != "log" {
		t.Errorf("settings %v, want [log]", e.Settings())
	}
}

// A note is a string in JSON, and names its settings as whoever shows it likes.
func TestNote(t *testing.T) {
	t.Parallel()
	note := hint.Notef("set %v to keep %d works", hint.Setting("keepOutside"), 3)
	if got, want := note.Render(flag), "set --keepOutside to keep 3 works"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	raw, err := json.Marshal([]hint.Note{note})
	if want := `["set keepOutside to keep 3 works"]`; err != nil || string(raw) != want {
		t.Errorf("got %s, %v, want %s", raw, err, want)
	}
	var read []hint.Note
	if err := json.Unmarshal([]byte(`["take 95%d"]`), &read); err != nil || read[0].String() != "take 95%d" {
		t.Errorf("read %v, %v", read, err)
	}
}

func ExampleRender() {
	err := hint.Wrap(errors.New("the log holds only what was shown"), "set %v to complete", hint.Setting("log"))
	fmt.Println(hint.Render(err, func(s hint.Setting) string { return "--" + string(s) }))
	// Output: the log holds only what was shown; set --log to complete
}
