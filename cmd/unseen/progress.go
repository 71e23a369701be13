package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"unseen/dataset"
	"unseen/dataset/exchange"
	"unseen/fit"
	"unseen/study"
)

// ticker shows progress: a bar that redraws itself on a terminal, a line now and then elsewhere.
type ticker struct {
	w        io.Writer
	terminal bool
	last     time.Time // of the last line
	phase    string    // of the last line
	began    time.Time // of the phase
	epoch    int       // at which it began

	mu    sync.Mutex // of what is drawn
	width int        // columns of it
	line  string
	since time.Time   // how long the line stands
	pulse *time.Timer // has it say so
}

// newTicker shows progress on a stream, or none if quiet.
func newTicker(w io.Writer, quiet bool) *ticker {
	t := &ticker{w: w}
	if quiet {
		t.w = io.Discard
	}
	if file, ok := t.w.(*os.File); ok {
		t.terminal = term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
	}
	return t
}

// say shows what is being done.
func (t *ticker) say(format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	if t.terminal {
		t.draw(text)
		return
	}
	fmt.Fprintf(t.w, "unseen: %s\n", text)
}

// note says something that stays on the screen.
func (t *ticker) note(format string, a ...any) {
	t.clear()
	fmt.Fprintf(t.w, "unseen: %s\n", fmt.Sprintf(format, a...))
}

// lineEvery is how long there is no line where there is no terminal and the phase stays the same.
const lineEvery = 10 * time.Second

// step shows a moment of training.
func (t *ticker) step(s fit.Step) {
	now := time.Now()
	fresh := s.Phase != t.phase
	if fresh {
		t.phase, t.began, t.epoch = s.Phase, now, s.Epoch
	}
	if !t.terminal && !fresh && now.Sub(t.last) < lineEvery {
		return
	}
	t.last = now
	// Where the engine counts no pairs, rounds and iterations are what there is to count.
	if s.Done == 0 && s.Epochs > 1 {
		s.Done = float64(s.Epoch-1) / float64(s.Epochs)
		if rounds := s.Epoch - t.epoch; rounds > 0 {
			s.Remaining = time.Duration(float64(now.Sub(t.began)) / float64(rounds) * float64(s.Epochs-s.Epoch+1))
		}
	}
	text := s.Phase
	if s.Epochs > 1 {
		text += fmt.Sprintf(", %d/%d", s.Epoch, s.Epochs)
	}
	if s.Remaining > 0 {
		text += fmt.Sprintf(", at most %s left", s.Remaining.Round(time.Second))
	}
	if s.Validation != 0 {
		text += fmt.Sprintf(", validation %.4f", s.Validation)
	}
	t.show(s.Done, text)
}

// work shows a moment of a study.
func (t *ticker) work(s study.Step) {
	now := time.Now()
	if s.Study == t.phase && !t.terminal && now.Sub(t.last) < lineEvery {
		return
	}
	t.phase, t.last = s.Study, now
	text := s.Study
	if !t.terminal {
		text += fmt.Sprintf(" %.0f%%", 100*s.Done)
	}
	if s.Remaining > 0 {
		text += fmt.Sprintf(", about %s left", s.Remaining.Round(time.Second))
	}
	t.show(s.Done, text+", done: "+s.Phase)
}

// read shows a moment of reading a dataset. Most take none, so where there is no terminal only a long one
// is worth a line.
func (t *ticker) read(s dataset.Step) { t.passing("reading "+s.File, s.Done) }

// exchange shows a moment of an import or an export.
func (t *ticker) exchange(s exchange.Step) {
	verb := "reading "
	if s.Writing {
		verb = "writing "
	}
	t.passing(verb+filepath.Base(s.File), s.Done)
}

// passing shows a moment of a phase that may take a blink or an hour.
func (t *ticker) passing(phase string, done float64) {
	now, wait := time.Now(), lineEvery
	if t.terminal {
		wait = time.Second / 10
	}
	if t.last.IsZero() {
		t.last = now
	}
	if now.Sub(t.last) < wait {
		return
	}
	t.last = now
	if !t.terminal {
		phase += fmt.Sprintf(" %.0f%%", 100*done)
	}
	t.show(done, phase)
}

// show draws a bar before the text on a terminal, and a line elsewhere.
func (t *ticker) show(done float64, text string) {
	if t.terminal {
		const cells = 12
		full := min(max(int(done*cells+.5), 0), cells)
		t.draw(strings.Repeat("█", full) + strings.Repeat("░", cells-full) + fmt.Sprintf(" %3.0f%% ", 100*done) + text)
		return
	}
	fmt.Fprintf(t.w, "unseen: %s\n", text)
}

// draw replaces the line that the cursor is on.
func (t *ticker) draw(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line, t.since = text, time.Now()
	t.paint(text)
	if t.pulse == nil {
		t.pulse = time.AfterFunc(pulseEvery, t.beat)
	} else {
		t.pulse.Reset(pulseEvery)
	}
}

// pulseEvery is how long a line stands before it says for how long.
const pulseEvery = time.Second

// beat shows that the work goes on where there is nothing new to say of it.
func (t *ticker) beat() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.width == 0 {
		return // cleared
	}
	t.paint(fmt.Sprintf("%s · %s", short(t.line, 70), time.Since(t.since).Round(time.Second)))
	t.pulse.Reset(pulseEvery)
}

// paint writes a line of 79 columns over the one before. t is locked.
func (t *ticker) paint(text string) {
	text = short(text, 79)
	width := utf8.RuneCountInString(text)
	fmt.Fprintf(t.w, "\r%s%s", text, strings.Repeat(" ", max(t.width-width, 0)))
	t.width = width
}

// clear takes the bar away.
func (t *ticker) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pulse != nil {
		t.pulse.Stop()
	}
	if t.terminal && t.width > 0 {
		fmt.Fprintf(t.w, "\r%s\r", strings.Repeat(" ", t.width))
		t.width = 0
	}
}
