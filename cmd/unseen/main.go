// Command unseen recommends links and corrects for exposure: a missing link may mean "irrelevant" or
// "never shown". Run "unseen help" for what it can do.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"unseen/hint"
	"unseen/internal/safetext"
)

// What the program tells its caller.
const (
	exitOK      = 0
	exitFailure = 1 // the work failed
	exitUsage   = 2 // the command line was wrong
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program: it reads args (without the program's name), writes, and returns the exit code.
// Results go to stdout; errors go to stderr as one line that says what to do.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out := &results{w: safetext.NewWriter(stdout)}
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(stderr)
	failed, err := root.ExecuteContextC(ctx)
	if out.err != nil {
		err = fmt.Errorf("the results could not be written in full: %w", out.err)
	}
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		err = errors.New("stopped before it was done")
	}
	text := safetext.Line(oneLine(render(failed, err)))
	if forProgram() {
		tellProgram(stderr, failure{text, safetext.Line(oneLine(hint.Advice(err, flagName)))})
	} else {
		fmt.Fprintf(stderr, "unseen: %s\n", text)
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	return exitFailure
}

// failure is an error as a program reads it.
type failure struct {
	Error string `json:"error"`          // with the hint
	Hint  string `json:"hint,omitempty"` // what to do about it
}

// results remembers the first write that failed, which cobra's help and completions would drop.
type results struct {
	w   io.Writer
	err error
}

func (r *results) Write(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.w.Write(p)
	r.err = err
	return n, err
}

// usageError is a wrong command line, as against work that failed.
type usageError struct{ error }

// Unwrap lets hints of the error behind it through.
func (e *usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
