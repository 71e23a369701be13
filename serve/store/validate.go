package store

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Check returns a copy of the events as Append would store them, or the first invalid one.
func Check(events []LogEvent, now func() time.Time) ([]LogEvent, error) { return prepare(events, now) }

// prepare returns a copy of the events as they will be stored, or the first invalid one. The limits are those of
// the strictest store, so that a log can be moved from one to another.
func prepare(events []LogEvent, now func() time.Time) ([]LogEvent, error) {
	if len(events) > MaxAppend {
		return nil, &InvalidError{Reason: fmt.Sprintf("%d events at once, the limit is %d; send them in parts",
			len(events), MaxAppend)}
	}
	events = slices.Clone(events)
	for i := range events {
		event := &events[i]
		if name, reason := event.fault(); name != "" {
			return nil, &InvalidError{Index: i, Name: name, Reason: reason}
		}
		if event.At.IsZero() {
			event.At = now()
		}
		event.At = time.UnixMicro(event.At.UnixMicro()).UTC()
		event.Seq = 0
		event.Probability += 0 // of the two zeros only +0: no database need keep them apart
		event.Placed += 0
	}
	return events, nil
}

// fault returns the first invalid field of the event and the reason; no name means none.
func (e *LogEvent) fault() (name, reason string) {
	for _, text := range []struct {
		name, value string
		least, most int
	}{
		{"ID", e.ID, 1, MaxID}, {"Source", e.Source, 1, MaxNode}, {"Target", e.Target, 1, MaxNode},
		{"Model", e.Model, 0, MaxID}, {"List", e.List, 0, MaxID}, {"Surface", e.Surface, 0, MaxSurface},
		{"Candidates", e.Candidates, 0, MaxCandidates},
	} {
		switch {
		case len(text.value) < text.least:
			return text.name, "is empty"
		case len(text.value) > text.most:
			return text.name, fmt.Sprintf("has %d bytes, the limit is %d", len(text.value), text.most)
		case !utf8.ValidString(text.value):
			return text.name, "is not valid UTF-8"
		case strings.IndexByte(text.value, 0) >= 0:
			return text.name, "contains a NUL byte"
		}
	}
	switch {
	case !slices.Contains(Kinds, e.Kind):
		kind := string(e.Kind)
		if len(kind) > 20 {
			kind = kind[:20] + "…"
		}
		return "Kind", fmt.Sprintf("is %q, want one of %v", kind, Kinds)
	case !(e.Probability >= 0 && e.Probability <= 1): // so that NaN fails too
		return "Probability", fmt.Sprintf("is %v, want 0 (unknown) to 1", e.Probability)
	case !(e.Placed >= 0 && e.Placed <= 1):
		return "Placed", fmt.Sprintf("is %v, want 0 (unknown) to 1", e.Placed)
	case e.Position < 0 || e.Position > math.MaxInt32:
		return "Position", fmt.Sprintf("is %d, want 0 (unknown) to %d", e.Position, math.MaxInt32)
	case !e.At.IsZero() && (e.At.UTC().Year() < 1970 || e.At.UTC().Year() > 9999):
		return "At", fmt.Sprintf("is in the year %d, want 1970 to 9999", e.At.UTC().Year())
	}
	return "", ""
}
