package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A line that stands for more than a second says so, every second, until it is taken away; where there is no terminal
// nothing is repeated.
func TestTickerShowsThatItLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		bar := &ticker{w: &out, terminal: true}
		bar.say("judging")
		time.Sleep(3500 * time.Millisecond)
		for _, want := range []string{"judging · 1s", "judging · 2s", "judging · 3s"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q does not say %q", out.String(), want)
			}
		}
		bar.say("%s", strings.Repeat("x", 100))
		time.Sleep(1500 * time.Millisecond)
		if got := out.String(); !strings.Contains(got, "… · 1s") {
			t.Errorf("a long line hides its time: %q", got)
		}
		bar.clear()
		before := out.String()
		time.Sleep(5 * time.Second)
		if out.String() != before {
			t.Errorf("after the end: %q", out.String()[len(before):])
		}
		var lines lockedBuffer
		plain := &ticker{w: &lines}
		plain.say("judging")
		time.Sleep(5 * time.Second)
		if lines.String() != "unseen: judging\n" {
			t.Errorf("without a terminal: %q", lines.String())
		}
	})
}
