package serve

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"unseen/serve/store"
)

// Limits of the events that wait for their nodes; beyond, the oldest are dropped.
const (
	maxWaitingEvents = 100_000
	maxWaitingBytes  = 16 << 20
	maxUnknown       = 20 // ids that are named in an answer
)

// waitingTitle names the file of events that wait and its version.
const waitingTitle = "unseen waiting 1"

// waitingEvents are events about ids that are no nodes. They are kept apart from the log, with a bound, so that nobody
// fills the log with invented ids, and go into it when the nodes have come.
type waitingEvents struct {
	group store.Grouped[*waitingCall]

	mu     sync.Mutex // of what follows; the group's turn is held by whoever changes the file
	file   *store.Journal
	events []waitingEvent // the oldest first
	ids    map[string]bool
	bytes  int64
	about  map[string]int // how many wait for an id
}

type waitingEvent struct {
	store.LogEvent
	size int64
}

// waitingLine is a line of the file: an event, or the ids of events that are in the log now.
type waitingLine struct {
	Event   *store.LogEvent `json:"event,omitempty"`
	Adopted []string        `json:"adopted,omitempty"`
}

// waitingCall is the events of one request on their way into the file.
type waitingCall struct {
	events    []store.LogEvent
	duplicate int
	err       error
}

func openWaiting(path string) (*waitingEvents, error) {
	w := &waitingEvents{ids: map[string]bool{}, about: map[string]int{}}
	w.group.Do = w.append
	var err error
	w.file, err = store.OpenJournal(path, waitingTitle, func(raw []byte) error {
		var line waitingLine
		if err := json.Unmarshal(raw, &line); err != nil {
			return err
		}
		if line.Event != nil {
			w.add(*line.Event, int64(len(raw)))
		}
		if len(line.Adopted) > 0 {
			w.drop(func(e store.LogEvent) bool { return slices.Contains(line.Adopted, e.ID) })
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// add puts an event behind the others, and drops the oldest beyond the limits. w is locked, or nobody else has it.
func (w *waitingEvents) add(e store.LogEvent, size int64) {
	if w.ids[e.ID] {
		return
	}
	w.ids[e.ID] = true
	w.events = append(w.events, waitingEvent{e, size})
	w.bytes += size
	w.about[e.Source]++
	w.about[e.Target]++
	for len(w.events) > maxWaitingEvents || w.bytes > maxWaitingBytes {
		w.forgetEvent(w.events[0])
		w.events[0] = waitingEvent{}
		w.events = w.events[1:]
	}
}

// forgetEvent removes an event from the counts.
func (w *waitingEvents) forgetEvent(e waitingEvent) {
	delete(w.ids, e.ID)
	w.bytes -= e.size
	for _, id := range []string{e.Source, e.Target} {
		if w.about[id]--; w.about[id] == 0 {
			delete(w.about, id)
		}
	}
}

// drop removes events. w is locked, or nobody else has it.
func (w *waitingEvents) drop(which func(store.LogEvent) bool) (dropped int) {
	before := len(w.events)
	w.events = slices.DeleteFunc(w.events, func(e waitingEvent) bool {
		if !which(e.LogEvent) {
			return false
		}
		w.forgetEvent(e)
		return true
	})
	return before - len(w.events)
}

// append makes a group of calls durable.
func (w *waitingEvents) append(calls []*waitingCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines [][]byte
	var added []store.LogEvent
	seen := map[string]bool{}
	var failed error
	for _, call := range calls {
		for k := range call.events {
			e := call.events[k]
			if w.ids[e.ID] || seen[e.ID] {
				call.duplicate++
				continue
			}
			raw, err := json.Marshal(waitingLine{Event: &e})
			failed = errors.Join(failed, err)
			seen[e.ID], lines, added = true, append(lines, raw), append(added, e)
		}
	}
	if failed == nil && len(lines) > 0 {
		failed = w.file.Append(lines...)
	}
	for _, call := range calls {
		call.err = failed
	}
	if failed != nil {
		return
	}
	for k, e := range added {
		w.add(e, int64(len(lines[k])))
	}
	if w.file.Size() > w.bytes+w.bytes/2+1<<20 {
		_ = w.rewrite() // if it fails, the next group tries it again
	}
}

// rewrite writes the file anew with what waits. w is locked.
func (w *waitingEvents) rewrite() error {
	var failed error
	return errors.Join(w.file.Rewrite(func(yield func([]byte) bool) {
		for _, e := range w.events {
			raw, err := json.Marshal(waitingLine{Event: &e.LogEvent})
			if failed = err; err != nil || !yield(raw) {
				return
			}
		}
	}), failed)
}

// takes returns the events that wait for one of some ids, nil meaning any, and whose both ends are known now.
func (w *waitingEvents) takes(ids []string, known func(string) bool) (out []store.LogEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ids != nil && !slices.ContainsFunc(ids, func(id string) bool { return w.about[id] > 0 }) {
		return nil
	}
	for _, e := range w.events {
		if (ids == nil || slices.Contains(ids, e.Source) || slices.Contains(ids, e.Target)) && known(e.Source) &&
			known(e.Target) {
			out = append(out, e.LogEvent)
		}
	}
	return out
}

// adopted removes events that are in the log now.
func (w *waitingEvents) adopted(events []store.LogEvent) (err error) {
	w.group.Alone(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		ids, line := map[string]bool{}, waitingLine{}
		for _, e := range events {
			ids[e.ID], line.Adopted = true, append(line.Adopted, e.ID)
		}
		var raw []byte
		if raw, err = json.Marshal(line); err == nil {
			err = w.file.Append(raw)
		}
		w.drop(func(e store.LogEvent) bool { return ids[e.ID] })
	})
	return err
}

// erase removes the events of nodes, and their bytes from the file.
func (w *waitingEvents) erase(names func(id string) bool) (err error) {
	w.group.Alone(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.drop(func(e store.LogEvent) bool { return names(e.Source) || names(e.Target) }) > 0 ||
			w.file.Len() > len(w.events) {
			err = w.rewrite()
		}
	})
	return err
}

// count returns how many events wait.
func (w *waitingEvents) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.events)
}

// countOf returns how many events about an id wait.
func (w *waitingEvents) countOf(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.about[id]
}

// EventResult counts the events of one request: Stored + Duplicate + Spooled + Forgotten + Waiting is their number.
type EventResult struct {
	store.Result
	Waiting int      `json:"waiting,omitempty" doc:"events about unknown ids, which are kept until the nodes come"`
	Unknown []string `json:"unknown,omitempty" doc:"ids that are no nodes, the first 20"`
}

// knownNode reports whether an id is a node, also one that was removed, or somebody whom Recommend gave a name to.
func (s *Service) knownNode(v modelView, id string) bool {
	if _, ok := v.Find(v.over, id); ok {
		return true
	}
	if _, ok := s.datasets.newest().Graph().Index(id); ok {
		return true
	}
	return isGivenName(id)
}

// isGivenName reports whether the log calls a source so that is no node.
func isGivenName(id string) bool {
	for _, kind := range givenNames {
		if hash, ok := strings.CutPrefix(id, kind); ok && len(hash) == 16 && strings.Trim(hash,
			"0123456789abcdef") == "" {
			return true
		}
	}
	return false
}

// setApart divides events into those of nodes and those that wait. Events that cannot be stored stay with the first,
// whose store says why.
func (s *Service) setApart(events []store.LogEvent) (known, waiting []store.LogEvent, unknown []string) {
	v := s.live.Load().current.view()
	for k, e := range events {
		found := len(unknown)
		for _, id := range []string{e.Source, e.Target} {
			if id != "" && utf8.ValidString(id) && !s.knownNode(v, id) {
				unknown = append(unknown, id)
			}
		}
		switch {
		case len(unknown) > found && waiting == nil:
			known, waiting = slices.Clone(events[:k]), []store.LogEvent{e}
		case len(unknown) > found:
			waiting = append(waiting, e)
		case waiting != nil:
			known = append(known, e)
		}
		if len(unknown) > 2*maxUnknown {
			unknown = firstIDs(unknown)
		}
	}
	if waiting == nil {
		return events, nil, nil
	}
	return known, waiting, firstIDs(unknown)
}

// firstIDs returns the first different ids.
func firstIDs(ids []string) (out []string) {
	for _, id := range ids {
		if len(out) < maxUnknown && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// adopt logs the events that waited for nodes, nil meaning any, and returns their number.
func (s *Service) adopt(ctx context.Context, ids []string) (int, error) {
	v := s.live.Load().current.view()
	events := s.waiting.takes(ids, func(id string) bool { return s.knownNode(v, id) })
	for part := range slices.Chunk(events, store.MaxAppend) {
		s.forgotten.appends.RLock()
		kept, _ := s.forgotten.keep(part)
		_, err := s.events.Append(ctx, kept)
		s.forgotten.appends.RUnlock()
		if err == nil {
			err = s.waiting.adopted(part)
		}
		if err != nil {
			return 0, err
		}
	}
	if len(events) > 0 {
		s.monitor.wake()
	}
	return len(events), nil
}
