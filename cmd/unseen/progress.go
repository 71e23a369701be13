package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"unseen/internal/safetext"
	"unseen/progress"
)

// display shows progress: a bar that redraws itself on a terminal, a line now and then elsewhere, JSON for a program.
type display struct {
	terminal bool
	program  bool // reads JSON lines

	mu    sync.Mutex // of all below
	w     io.Writer
	phase string    // of the last event
	began time.Time // of the phase
	done  int64     // of the phase when it began
	last  time.Time // of the last bar or line of the phase
	width int       // columns of what is drawn
	line  string    // what is drawn
	since time.Time // when it was
	pulse *time.Timer
}

// newDisplay shows progress on a stream, or none if quiet.
func newDisplay(w io.Writer, quiet bool) *display {
	d := &display{w: w}
	if quiet {
		d.w = io.Discard
	}
	if d.program = forProgram(); d.program {
		return d
	}
	if file, ok := d.w.(*os.File); ok {
		d.terminal = term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
	}
	return d
}

// forProgram tells whether the program that started this one reads its stderr. Then every line there is a JSON object:
// progress as progress.Event has it, {"note": …} for what stays on a screen, and at last {"error": …, "hint": …}
// if the work failed. It is a variable and no flag because a wrong command line is reported in the same way.
func forProgram() bool { return os.Getenv("UNSEEN_PROGRESS") == "json" }

// tellProgram writes a line for the program that started this one.
func tellProgram(w io.Writer, line any) {
	if raw, err := json.Marshal(line); err == nil {
		_, _ = w.Write(append(raw, '\n')) // who does not listen loses progress and no result
	}
}

// say shows what is being done.
func (d *display) say(format string, a ...any) {
	text := safetext.Line(fmt.Sprintf(format, a...))
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.program {
		tellProgram(d.w, progress.Event{Phase: text})
		return
	}
	if d.terminal {
		d.draw(text)
		return
	}
	fmt.Fprintf(d.w, "unseen: %s\n", text)
}

// note says something that stays on the screen.
func (d *display) note(format string, a ...any) {
	d.clear()
	text := safetext.Line(fmt.Sprintf(format, a...))
	if d.program {
		tellProgram(d.w, map[string]string{"note": text})
		return
	}
	fmt.Fprintf(d.w, "unseen: %s\n", text)
}

const (
	// barEvery is the least time between two bars of a phase.
	barEvery = time.Second / 10
	// Where there is no terminal, a phase that takes lineAfter gets a line then, and another every lineEvery.
	lineAfter, lineEvery = time.Second, 10 * time.Second
)

// report shows how far work has come; it is a progress.Func.
func (d *display) report(e progress.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if fresh := e.Phase != d.phase; fresh {
		d.phase, d.began, d.done, d.last = e.Phase, now, e.Done, time.Time{}
	}
	soon := d.terminal || d.program
	switch first := d.last.IsZero(); {
	case soon && !first && now.Sub(d.last) < barEvery && e.Done < e.Of,
		!soon && first && now.Sub(d.began) < lineAfter,
		!soon && !first && now.Sub(d.last) < lineEvery:
		return
	}
	d.last = now
	if done := e.Done - d.done; e.Remaining == 0 && done > 0 && e.Of > e.Done {
		e.Remaining = time.Duration(float64(now.Sub(d.began)) / float64(done) * float64(e.Of-e.Done))
	}
	if d.program {
		tellProgram(d.w, e)
		return
	}
	if !d.terminal {
		fmt.Fprintf(d.w, "unseen: %s\n", describe(e, true))
		return
	}
	bar := ""
	if e.Of > 0 {
		const cells = 12
		full := int(e.Share()*cells + .5)
		bar = strings.Repeat("█", full) + strings.Repeat("░", cells-full) + fmt.Sprintf(" %3.0f%% ", 100*e.Share())
	}
	d.draw(bar + describe(e, false))
}

// describe says how far work has come, in a line.
func describe(e progress.Event, percent bool) string {
	text := e.Phase
	if percent && e.Of > 0 {
		text += fmt.Sprintf(" %.0f%%", 100*e.Share())
	}
	if e.Message != "" {
		text += ", " + e.Message
	}
	if e.Remaining >= time.Second {
		text += ", about " + progress.Duration(e.Remaining.Round(time.Second)) + " left"
	}
	if loss, measured := e.Values["validation"]; measured {
		text += fmt.Sprintf(", validation %.4f", loss)
	}
	return text
}

// draw replaces the line that the cursor is on. d is locked, as in the functions below.
func (d *display) draw(text string) {
	d.line, d.since = text, time.Now()
	d.paint(text)
	if d.pulse == nil {
		d.pulse = time.AfterFunc(pulseEvery, d.beat)
	} else {
		d.pulse.Reset(pulseEvery)
	}
}

// pulseEvery is how long a line stands before it says for how long.
const pulseEvery = time.Second

// beat shows that the work goes on where there is nothing new to say of it.
func (d *display) beat() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.width == 0 {
		return // cleared
	}
	d.paint(short(d.line, 65) + " · " + progress.Duration(time.Since(d.since).Round(time.Second)))
	d.pulse.Reset(pulseEvery)
}

// paint writes a line of 79 columns over the one before.
func (d *display) paint(text string) {
	text = short(text, 79)
	width := utf8.RuneCountInString(text)
	fmt.Fprintf(d.w, "\r%s%s", text, strings.Repeat(" ", max(d.width-width, 0)))
	d.width = width
}

// clear takes the bar away.
func (d *display) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pulse != nil {
		d.pulse.Stop()
	}
	if d.terminal && d.width > 0 {
		fmt.Fprintf(d.w, "\r%s\r", strings.Repeat(" ", d.width))
		d.width = 0
	}
}
