package main

import (
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"unseen/progress"
)

// A line that stands for more than a second says so, every second, until it is taken away; where there is no terminal
// nothing is repeated.
func TestDisplayShowsThatItLives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		bar := &display{w: &out, terminal: true}
		bar.say("judging")
		time.Sleep(3500 * time.Millisecond)
		for _, want := range []string{"judging · 1 s", "judging · 2 s", "judging · 3 s"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q does not say %q", out.String(), want)
			}
		}
		bar.say("%s", strings.Repeat("x", 100))
		time.Sleep(1500 * time.Millisecond)
		if got := out.String(); !strings.Contains(got, "… · 1 s") {
			t.Errorf("a long line hides its time: %q", got)
		}
		bar.clear()
		before := out.String()
		time.Sleep(5 * time.Second)
		if out.String() != before {
			t.Errorf("after the end: %q", out.String()[len(before):])
		}
		var lines lockedBuffer
		plain := &display{w: &lines}
		plain.say("judging")
		time.Sleep(5 * time.Second)
		if lines.String() != "unseen: judging\n" {
			t.Errorf("without a terminal: %q", lines.String())
		}
	})
}

// On a terminal there is one line with a bar, of at most 80 columns, redrawn at most ten times a second.
func TestDisplayDrawsBars(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		bar := &display{w: &out, terminal: true}
		bar.say("making a world")
		for done := range int64(100) {
			bar.report(progress.Event{Phase: "reading nodes.parquet", Done: done, Of: 100})
		}
		bar.report(progress.Event{Phase: "training", Done: 5, Of: 10, Remaining: 90 * time.Second,
			Message: "round 3 of 6", Values: map[string]float64{"validation": .25}})
		bar.report(progress.Event{Phase: strings.Repeat("π", 100), Done: 1, Of: 6})
		bar.report(progress.Event{Phase: "waiting"})
		bar.clear()
		page := out.String()
		for _, s := range []string{"\rmaking a world", "\r░░░░░░░░░░░░   0% reading nodes.parquet",
			"\r██████░░░░░░  50% training, round 3 of 6, about 1 min 30 s left, validation", "…", "\rwaiting"} {
			if !strings.Contains(page, s) {
				t.Errorf("no %q in %q", s, page)
			}
		}
		if strings.Contains(page, "\n") || !strings.HasSuffix(page, "\r") {
			t.Errorf("the bar leaves its line: %q", page)
		}
		if n := strings.Count(page, "nodes.parquet"); n != 1 {
			t.Errorf("drawn %d times within no time", n)
		}
		for line := range strings.SplitSeq(page, "\r") {
			fits80(t, line)
		}
	})
}

// Elsewhere a phase gets a line once it has taken a second, and then one every ten; what remains is estimated where the
// event does not say.
func TestDisplayWritesLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		log := newDisplay(&out, false)
		log.report(progress.Event{Phase: "reading nodes.parquet", Of: 10})
		for done := range int64(16) {
			log.report(progress.Event{Phase: "training", Done: done, Of: 40})
			time.Sleep(time.Second)
		}
		log.report(progress.Event{Phase: "done"})
		log.clear()
		want := "unseen: training 2%, about 39 s left\nunseen: training 28%, about 29 s left\n"
		if out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	})
	var out lockedBuffer
	none := newDisplay(&out, true)
	none.say("making a world")
	none.report(progress.Event{Phase: "training"})
	if out.String() != "" {
		t.Errorf("quiet, but %q", out.String())
	}
}

// A program that started this one gets every line of stderr as JSON: progress, notes, and what went wrong, with what to
// do about it.
func TestProgressForPrograms(t *testing.T) {
	t.Setenv("UNSEEN_PROGRESS", "json")
	var out lockedBuffer
	d := newDisplay(&out, false)
	d.say("making a world")
	d.report(progress.Event{Phase: "training", Done: 1, Of: 4})
	d.report(progress.Event{Phase: "training", Done: 2, Of: 4}) // too soon after the last
	d.report(progress.Event{Phase: "training", Done: 4, Of: 4})
	d.note("kept %d", 3)
	d.clear()
	want := `{"phase":"making a world","done":0}
{"phase":"training","done":1,"of":4}
{"phase":"training","done":4,"of":4}
{"note":"kept 3"}
`
	if out.String() != want {
		t.Errorf("got %s, want %s", out.String(), want)
	}
	quiet := newDisplay(&out, true)
	quiet.say("nothing")
	if out.String() != want {
		t.Errorf("quiet, but %s", out.String())
	}
	for _, c := range []struct {
		args []string
		code int
		part string
	}{
		{[]string{"fit", "--metho", "naive"}, exitUsage, `"error":"unknown flag --metho; did you mean --method?"`},
		{[]string{"fit", filepath.Join(t.TempDir(), "none")}, exitFailure, `"hint":"name the folder of a dataset"`},
	} {
		var errs lockedBuffer
		code := run(t.Context(), c.args, io.Discard, &errs)
		var f failure
		if err := json.Unmarshal([]byte(errs.String()), &f); err != nil || code != c.code {
			t.Errorf("%q: %v, exit code %d, %s", c.args, err, code, errs.String())
		}
		if !strings.Contains(errs.String(), c.part) {
			t.Errorf("%q: no %s in %s", c.args, c.part, errs.String())
		}
	}
}
