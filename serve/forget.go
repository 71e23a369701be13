package serve

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"unseen/graph"
	"unseen/hint"
	"unseen/internal/atomicfile"
	"unseen/recommend"
	"unseen/serve/store"
)

const (
	maxForgotten = 100_000         // nodes
	forgetWait   = 5 * time.Second // of a call for the log to be erased; a small log takes less
	eraseAgain   = time.Second     // after a failure
)

// forgotten is who is erased on request, for good: a node of the dataset, which stays in its files, is in no list and
// no training any more. It keeps hashes of ids with a salt of its own, and no id.
type forgotten struct {
	path  string
	woken chan struct{} // holds a token when there is somebody to erase

	appends sync.RWMutex                // held for reading from the check of events until they are in the log
	graph   atomic.Pointer[graph.Graph] // with the latest nodes; of all datasets a node has the same place
	hidden  atomic.Pointer[hiddenNodes]

	mu     sync.Mutex
	state  forgottenState
	places map[[sha256.Size]byte]int // of the hashes in the state
	erased chan struct{}             // closed at the next change of what is erased
}

// forgottenState is forgotten.json.
type forgottenState struct {
	Version int             `json:"version"`
	Salt    []byte          `json:"salt"`
	Nodes   []forgottenNode `json:"nodes"`
}

// forgottenNode is one id.
type forgottenNode struct {
	Hash   []byte `json:"hash"`   // SHA-256 of the salt and the id
	Erased bool   `json:"erased"` // from the log and the counts
}

// hiddenNodes are the nodes of the network that are forgotten, and how many others are.
type hiddenNodes struct {
	nodes  []int32
	is     []bool // by node; nil if there are none
	others int
}

// openForgotten reads who was forgotten, and finds these nodes in the network.
func openForgotten(path string, g *graph.Graph) (*forgotten, error) {
	f := &forgotten{path: path, woken: make(chan struct{}, 1), erased: make(chan struct{}),
		places: map[[sha256.Size]byte]int{}}
	f.graph.Store(g)
	raw, _, err := readState(path)
	if err != nil {
		return nil, err
	}
	if raw == nil {
		f.state.Salt = make([]byte, 32)
		rand.Read(f.state.Salt)
		f.hide()
		return f, nil
	}
	err = json.Unmarshal(raw, &f.state)
	if err == nil && len(f.state.Salt) == 0 {
		err = errors.New("it has no salt")
	}
	for k, n := range f.state.Nodes {
		if len(n.Hash) != sha256.Size {
			err = errors.Join(err, fmt.Errorf("hash %d has %d bytes", k+1, len(n.Hash)))
			break
		}
		f.places[[sha256.Size]byte(n.Hash)] = k
		if !n.Erased {
			f.wake()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; restore it from a copy: without it, those who were forgotten would "+
			"be recommended again", path, err)
	}
	f.hide()
	return f, nil
}

func (f *forgotten) wake() {
	select {
	case f.woken <- struct{}{}:
	default:
	}
}

func (f *forgotten) hash(id string) [sha256.Size]byte {
	return sha256.Sum256(append(slices.Clone(f.state.Salt), id...))
}

// hide finds the nodes by their hashes.
func (f *forgotten) hide() {
	g := f.graph.Load()
	h := &hiddenNodes{others: len(f.places)}
	if len(f.places) > 0 {
		h.is = make([]bool, g.Len())
		for i := range int32(g.Len()) {
			if _, ok := f.places[f.hash(g.ID(i))]; ok {
				h.nodes, h.is[i] = append(h.nodes, i), true
			}
		}
		h.others -= len(h.nodes)
	}
	f.hidden.Store(h)
}

// follow looks for those who are forgotten in a dataset with more nodes.
func (f *forgotten) follow(g *graph.Graph) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.graph.Store(g)
	f.hide()
}

// with returns the hidden nodes and one more.
func (h *hiddenNodes) with(g *graph.Graph, id string) *hiddenNodes {
	next := &hiddenNodes{nodes: slices.Clone(h.nodes), is: make([]bool, g.Len()), others: h.others}
	copy(next.is, h.is)
	if i, ok := g.Index(id); ok {
		next.nodes, next.is[i] = append(next.nodes, i), true
	} else {
		next.others++
	}
	return next
}

// hides reports whether a node of the network is forgotten.
func (f *forgotten) hides(i int32) bool {
	h := f.hidden.Load()
	return int(i) < len(h.is) && h.is[i]
}

// nodes returns the forgotten nodes of the network.
func (f *forgotten) nodes() []int32 { return f.hidden.Load().nodes }

// mask returns which nodes of the network are forgotten; nil if none is.
func (f *forgotten) mask() []bool {
	if h := f.hidden.Load(); len(h.nodes) > 0 {
		return h.is
	}
	return nil
}

// has reports whether an id is forgotten.
func (f *forgotten) has(id string) bool {
	h := f.hidden.Load()
	if h.is == nil {
		return false
	}
	if i, ok := f.graph.Load().Index(id); ok {
		return f.hides(i)
	}
	if h.others == 0 {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.places[f.hash(id)]
	return ok
}

// find returns a node of the network that is not forgotten.
func (f *forgotten) find(g *graph.Graph, id string) (int32, bool) {
	i, ok := g.Index(id)
	if !ok || f.hides(i) {
		return 0, false
	}
	return i, true
}

// add forgets an id. When it returns, this is durable; what names the id is still to be erased.
func (f *forgotten) add(id string) error {
	f.appends.Lock() // no event of it is on its way to the log afterwards
	defer f.appends.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := f.hash(id)
	next := f.state
	next.Nodes = slices.Clone(f.state.Nodes)
	place, known := f.places[sum]
	if known {
		next.Nodes[place].Erased = false
	} else {
		if len(next.Nodes) >= maxForgotten {
			return hint.Wrap(fmt.Errorf("%d nodes are forgotten already", maxForgotten),
				"remove them from the dataset, fit a model to it, and start with a new state")
		}
		place, next.Nodes = len(next.Nodes), append(next.Nodes, forgottenNode{Hash: sum[:]})
	}
	if err := f.save(next); err != nil {
		return err
	}
	f.places[sum] = place
	if !known {
		f.hidden.Store(f.hidden.Load().with(f.graph.Load(), id))
	}
	f.wake()
	return nil
}

// save writes a state and makes it the current one. f is locked.
func (f *forgotten) save(next forgottenState) error {
	next.Version = stateVersion
	err := atomicfile.WritePrivate(f.path, func(w io.Writer) error { return json.NewEncoder(w).Encode(next) })
	if err == nil {
		f.state = next
	}
	return err
}

// pending returns the places of those who are not erased yet, and a function that recognises their ids.
func (f *forgotten) pending() (places []int, names func(string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	want := map[[sha256.Size]byte]bool{}
	for sum, place := range f.places {
		if !f.state.Nodes[place].Erased {
			places, want[sum] = append(places, place), true
		}
	}
	last, was := "", false // a list has one source
	return places, func(id string) bool {
		if id != last {
			last, was = strings.Clone(id), want[f.hash(id)]
		}
		return was
	}
}

// finish records that some are erased.
func (f *forgotten) finish(places []int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := f.state
	next.Nodes = slices.Clone(f.state.Nodes)
	for _, place := range places {
		next.Nodes[place].Erased = true
	}
	if err := f.save(next); err != nil {
		return err
	}
	close(f.erased)
	f.erased = make(chan struct{})
	return nil
}

// count returns how many are forgotten and how many of them are to be erased, and what is closed when that changes.
func (f *forgotten) count() (Forgotten, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := Forgotten{Nodes: len(f.state.Nodes)}
	for _, n := range f.state.Nodes {
		if !n.Erased {
			out.Pending++
		}
	}
	return out, f.erased
}

// keep returns the events that are not about somebody who is forgotten, and the number of the others.
func (f *forgotten) keep(events []store.LogEvent) (kept []store.LogEvent, dropped int) {
	if f.hidden.Load().is == nil {
		return events, 0
	}
	kept = make([]store.LogEvent, 0, len(events))
	for _, e := range events {
		if !f.has(e.Source) && !f.has(e.Target) {
			kept = append(kept, e)
		}
	}
	return kept, len(events) - len(kept)
}

// bridges returns bridges without the pairs of those who are changed, removed or forgotten.
func (v modelView) bridges(found []recommend.Bridge) []recommend.Bridge {
	if v.forgotten.mask() == nil && v.over == nil {
		return found
	}
	found = slices.Clone(found)
	for k := range found {
		found[k].Reading = slices.DeleteFunc(slices.Clone(found[k].Reading), func(r recommend.Reading) bool {
			return v.hides(r.Node) || v.hides(r.For.Node)
		})
	}
	return found
}

// Forgotten counts who was forgotten.
type Forgotten struct {
	Nodes   int `json:"nodes" doc:"number of nodes that were forgotten"`
	Pending int `json:"pending" doc:"of these, those that are still being erased from the log"`
}

func (s *Service) deleteNode(ctx context.Context, in *idInput) (*body[Forgotten], error) {
	out, err := s.Forget(ctx, in.ID)
	return respond(out), err
}

func (s *Service) getForgotten(context.Context, *struct{}) (*body[Forgotten], error) {
	return respond(s.Forgotten()), nil
}

// Forgotten returns how many nodes were forgotten.
func (s *Service) Forgotten() Forgotten {
	out, _ := s.forgotten.count()
	return out
}

// Forget erases a person or node by its id, for good: it is in no list, no new event of it is stored, and no model
// learns from it any more. Its events are erased from the log in the background, which Forget waits for if it takes a
// moment; a restart goes on with it. The dataset's files and the models that learned from it stay as they are.
func (s *Service) Forget(ctx context.Context, id string) (_ Forgotten, err error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return Forgotten{}, err
	}
	defer end(&err)
	if id == "" || len(id) > store.MaxNode || !utf8.ValidString(id) {
		return Forgotten{}, hint.Wrap(requestError("id", nil, "has %d bytes, or is not UTF-8", len(id)),
			"give from 1 to %d bytes", store.MaxNode)
	}
	// First what names the id in sentences, which only its text finds.
	if err := s.jobs.redact(id); err != nil {
		return Forgotten{}, err
	}
	if err := s.models.redact(id); err != nil {
		return Forgotten{}, err
	}
	if err := s.removeCopies(); err != nil {
		return Forgotten{}, err
	}
	if err := s.forgotten.add(id); err != nil {
		return Forgotten{}, err
	}
	if err := s.catalogue.erase(func(name string) bool { return name == id }); err != nil {
		return Forgotten{}, err
	}
	patience := time.NewTimer(forgetWait)
	defer patience.Stop()
	for {
		out, changed := s.forgotten.count()
		if out.Pending == 0 {
			return out, nil
		}
		select {
		case <-changed:
		case <-patience.C:
			return out, nil
		case <-ctx.Done():
			return out, nil
		}
	}
}

// removeCopies removes the copies of files of older versions, which may name anybody, and what killed writes left.
func (s *Service) removeCopies() error {
	for _, path := range []string{s.models.file(), s.jobs.path, s.monitor.path} {
		for version := 1; version < stateVersion; version++ {
			if err := os.Remove(copyPath(path, version)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			atomicfile.Sweep(copyPath(path, version))
		}
		atomicfile.Sweep(path)
	}
	return nil
}

// runEraser erases those who are forgotten until the context ends.
func (s *Service) runEraser(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.forgotten.woken:
		}
		for {
			err := s.eraseForgotten(ctx)
			if err == nil || ctx.Err() != nil {
				break
			}
			s.o.Log.Warn("erasing forgotten nodes failed; it is tried again", "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(eraseAgain):
			}
		}
	}
}

// eraseForgotten erases the pending ones from the log and the counts. It can be interrupted and repeated.
func (s *Service) eraseForgotten(ctx context.Context) error {
	places, names := s.forgotten.pending()
	if len(places) == 0 {
		return nil
	}
	if err := errors.Join(s.catalogue.erase(names), s.waiting.erase(names)); err != nil {
		return err
	}
	events, err := s.events.Erase(ctx, names)
	if err != nil {
		return err
	}
	if err := s.monitor.forget(); err != nil {
		return err
	}
	if err := s.forgotten.finish(places); err != nil {
		return err
	}
	s.o.Log.Info("erased forgotten nodes", "nodes", len(places), "events", events)
	return nil
}

// erasedText replaces a text that named somebody.
const erasedText = "(removed: it named somebody who was forgotten)"

// redact removes texts that name an id, and reports whether there were any.
func redact(id string, texts ...*string) (found bool) {
	for _, text := range texts {
		if mentions(*text, id) {
			*text, found = erasedText, true
		}
	}
	return found
}

// mentions reports whether a text has an id as a word of its own.
func mentions(text, id string) bool {
	word := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	for from := 0; ; {
		at := strings.Index(text[from:], id)
		if at < 0 {
			return false
		}
		before, _ := utf8.DecodeLastRuneInString(text[:from+at])
		after, _ := utf8.DecodeRuneInString(text[from+at+len(id):])
		if !word(before) && !word(after) {
			return true
		}
		from += at + 1
	}
}

// redact removes what names an id from the jobs.
func (j *jobs) redact(id string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	found := false
	for _, w := range j.all {
		texts := []*string{&w.Error, &w.Request.Model, &w.Request.Method, &w.Phase}
		if w.Order != nil {
			texts = append(texts, &w.Order.Model, &w.Order.Method)
		}
		w.Checks = slices.Clone(w.Checks)
		for k := range w.Checks {
			texts = append(texts, &w.Checks[k].Detail)
		}
		found = redact(id, texts...) || found
	}
	if !found {
		return nil
	}
	return j.save()
}

// redact removes what names an id from the entries of models.
func (g *registry) redact(id string) error {
	return g.change(func(r *registryState) error {
		for k := range r.Models {
			e := &r.Models[k]
			e.Checks = slices.Clone(e.Checks)
			redact(id, &e.Note)
			for c := range e.Checks {
				redact(id, &e.Checks[c].Detail)
			}
		}
		return nil
	})
}

// forget removes the counts of those who are forgotten, and saves the rest.
func (w *monitor) forget() error {
	w.mu.Lock()
	w.prune()
	w.list = slices.DeleteFunc(w.list, func(e store.LogEvent) bool {
		return w.service.forgotten.has(e.Source) || w.service.forgotten.has(e.Target)
	})
	w.dirty = true
	w.mu.Unlock()
	return w.save()
}
