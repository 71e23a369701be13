package serve

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"unseen/encode"
	"unseen/graph"
	"unseen/hint"
	"unseen/internal/layered"
	"unseen/recommend"
	"unseen/sample"
	"unseen/serve/store"
)

// Limits of the catalogue.
const (
	maxBatch       = 1000      // nodes of a request
	maxNodeLinks   = 1000      // of a node
	maxNodeBytes   = 256 << 10 // of a node in the file
	maxChanged     = 100_000   // nodes that came, changed or were removed
	maxChangeBytes = 128 << 20 // of these in the file and, about, in memory
	maxPending     = 16 << 20  // bytes that wait for their turn
)

// catalogueTitle names the file of changes and its version.
const catalogueTitle = "unseen catalogue 1"

// catalogue is what has changed since the dataset was made: nodes that came, changed or were removed. A change is in
// its file before it is acknowledged, and in the lists when it is acknowledged. Requests read versions that never
// change.
type catalogue struct {
	s       *Service
	file    *store.Journal
	group   store.Grouped[*catalogueCall]
	state   atomic.Pointer[catalogueState]
	pending atomic.Int64 // bytes of the calls that wait
	unclean bool         // the file has bytes of somebody who was erased; of the group's turn
}

// catalogueState is one version.
type catalogueState struct {
	seq   int64                       // of the last change
	nodes layered.Map[*catalogueNode] // by id
	count int
	bytes int64
}

// catalogueNode is a node as it was changed last.
type catalogueNode struct {
	recommend.NodeChange
	seq     int64
	guessed bool // the field was guessed
	dropped bool // it is removed, and no dataset has it: it is as if it had never been
	size    int64
}

// catalogueLine is a line of the file.
type catalogueLine struct {
	Seq     int64     `json:"seq"`
	ID      string    `json:"id"`
	Removed bool      `json:"removed,omitempty"`
	Dropped bool      `json:"dropped,omitempty"` // nothing is known of it any more
	Title   string    `json:"title,omitempty"`
	Text    string    `json:"text,omitempty"`
	Field   string    `json:"field,omitempty"`
	Guessed bool      `json:"guessed,omitempty"`
	Time    time.Time `json:"time,omitzero"`
	Role    string    `json:"role,omitempty"`
	Vector  []byte    `json:"vector,omitempty"` // float32, the lowest byte first
	Links   *[]string `json:"links,omitempty"`
}

// catalogueCall is one request on its way into the file.
type catalogueCall struct {
	changes []NodeInput
	replace bool                           // PUT: what is not given is empty
	removed []string                       // ids
	check   func(was *catalogueNode) error // refuses a change of a node that is not as it should be; nil: none does
	result  CatalogueResult
	err     error
}

// openCatalogue reads the changes of a state folder.
func openCatalogue(path string, s *Service) (*catalogue, error) {
	c := &catalogue{s: s}
	c.group.Do = c.apply
	state := &catalogueState{}
	nodes := map[string]*catalogueNode{}
	var err error
	c.file, err = store.OpenJournal(path, catalogueTitle, func(raw []byte) error {
		var line catalogueLine
		if err := json.Unmarshal(raw, &line); err != nil {
			return err
		}
		n, err := line.node()
		if err != nil {
			return err
		}
		n.size = int64(len(raw))
		state.seq = max(state.seq, n.seq)
		if nodes[n.ID] = n; line.Dropped {
			delete(nodes, n.ID)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	dim := s.net.Graph().Vectors()
	state.nodes = state.nodes.Next()
	for id, n := range nodes {
		if n.Vector != nil && (dim == nil || len(n.Vector) != dim.Dim()) {
			c.file.Close()
			return nil, hint.Wrap(fmt.Errorf("%s is of another dataset: node %q has a vector of %d numbers", path, id,
				len(n.Vector)), "move it away, and send the nodes again")
		}
		state.nodes.Set(id, n)
		state.count++
		state.bytes += n.size
	}
	c.state.Store(state)
	return c, nil
}

func (l *catalogueLine) node() (*catalogueNode, error) {
	n := &catalogueNode{seq: l.Seq, guessed: l.Guessed, NodeChange: recommend.NodeChange{ID: l.ID, Removed: l.Removed,
		Title: l.Title, Text: l.Text, Field: l.Field, Time: l.Time}}
	if l.ID == "" || len(l.Vector)%4 != 0 {
		return nil, errors.New("a node without an id, or with a part of a number")
	}
	if l.Links != nil {
		n.Links = append([]string{}, *l.Links...)
	}
	for part := range slices.Chunk(l.Vector, 4) {
		x := math.Float32frombits(binary.LittleEndian.Uint32(part))
		if x-x != 0 {
			return nil, fmt.Errorf("the vector of %q is not finite", clip(l.ID))
		}
		n.Vector = append(n.Vector, x)
	}
	var err error
	n.Role, err = graph.ParseRole(l.Role)
	return n, err
}

func (n *catalogueNode) line() catalogueLine {
	l := catalogueLine{Seq: n.seq, ID: n.ID, Removed: n.Removed, Dropped: n.dropped, Title: n.Title, Text: n.Text,
		Field:   n.Field,
		Guessed: n.guessed, Time: n.Time}
	if n.Role != graph.SourceAndTarget {
		l.Role = n.Role.String()
	}
	if n.Links != nil {
		l.Links = &n.Links
	}
	for _, x := range n.Vector {
		l.Vector = binary.LittleEndian.AppendUint32(l.Vector, math.Float32bits(x))
	}
	return l
}

// same reports whether two nodes say the same.
func (n *catalogueNode) same(other *catalogueNode) bool {
	return n.Removed == other.Removed && n.Title == other.Title && n.Text == other.Text && n.Field == other.Field &&
		n.Time.Equal(other.Time) && n.Role == other.Role && slices.Equal(n.Vector, other.Vector) &&
		(n.Links == nil) == (other.Links == nil) && slices.Equal(n.Links, other.Links)
}

// change makes a call part of the next group.
func (c *catalogue) change(call *catalogueCall) (CatalogueResult, error) {
	var size int64
	for _, n := range call.changes {
		size += n.bytes()
	}
	for _, id := range call.removed {
		size += int64(len(id))
	}
	defer c.pending.Add(-size)
	if waiting := c.pending.Add(size); waiting > size && waiting > maxPending {
		return CatalogueResult{}, &store.BusyError{Wait: time.Second}
	}
	call.err = errors.New("the change of the catalogue was interrupted")
	c.group.Add(call)
	return call.result, call.err
}

// apply makes a group of calls durable and visible.
func (c *catalogue) apply(calls []*catalogueCall) {
	state := c.state.Load()
	next := &catalogueState{seq: state.seq, nodes: state.nodes.Next(), count: state.count, bytes: state.bytes}
	var changed []*catalogueNode
	var lines [][]byte
	for _, call := range calls {
		nodes, raw, err := c.merge(next, call)
		if call.err = err; err == nil {
			changed, lines = append(changed, nodes...), append(lines, raw...)
		}
	}
	if len(changed) == 0 {
		return
	}
	fail := func(err error) {
		for _, call := range calls {
			call.err = cmp.Or(call.err, err)
		}
	}
	live := c.s.live.Load().models()
	overlays := make([]*recommend.Overlay, len(live))
	for k, e := range live {
		var err error
		if overlays[k], err = e.Overlay(c.s.life, e.view().over, e.changes(changed)); err != nil {
			fail(err)
			return
		}
	}
	if err := c.file.Append(lines...); err != nil {
		fail(err)
		return
	}
	c.state.Store(next)
	for k, e := range live {
		e.overlay.Store(&modelOverlay{overlays[k], next.seq})
	}
	c.compact()
}

// compact removes changes from the file that later ones have replaced, if they are most of it.
func (c *catalogue) compact() {
	state := c.state.Load()
	if c.file.Size() < 2*(state.bytes+1<<20) {
		return
	}
	if err := c.rewrite(); err != nil {
		c.s.o.Log.Warn("compacting the catalogue failed; it is tried again", "error", err)
	}
}

// rewrite writes the file anew, without what was replaced.
func (c *catalogue) rewrite() error {
	var failed error
	err := c.file.Rewrite(func(yield func([]byte) bool) {
		for _, n := range c.state.Load().sorted() {
			raw, err := json.Marshal(n.line())
			if failed = err; err != nil || !yield(raw) {
				return
			}
		}
	})
	return errors.Join(err, failed)
}

// sorted returns the nodes in the order of their changes.
func (s *catalogueState) sorted() (out []*catalogueNode) {
	for _, n := range s.nodes.All() {
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b *catalogueNode) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// erase removes nodes as if they had never been, also from the links of others, and their bytes from the file.
func (c *catalogue) erase(names func(id string) bool) (err error) {
	c.group.Alone(func() {
		state := c.state.Load()
		next := &catalogueState{seq: state.seq, nodes: state.nodes.Next(), count: state.count, bytes: state.bytes}
		var changed []*catalogueNode
		for id, n := range state.nodes.All() {
			if names(id) {
				next.nodes.Delete(id)
				next.count, next.bytes = next.count-1, next.bytes-n.size
				changed = append(changed, &catalogueNode{NodeChange: recommend.NodeChange{ID: id, Removed: true},
					seq: n.seq})
			} else if slices.ContainsFunc(n.Links, names) {
				other := *n
				other.Links = slices.DeleteFunc(slices.Clone(n.Links), names)
				next.nodes.Set(id, &other)
				changed = append(changed, &other)
			}
		}
		if len(changed) == 0 && !c.unclean {
			return
		}
		live := c.s.live.Load().models()
		overlays := make([]*recommend.Overlay, len(live))
		for k, e := range live {
			if overlays[k], err = e.Overlay(c.s.life, e.view().over, e.changes(changed)); err != nil {
				return
			}
		}
		c.state.Store(next)
		for k, e := range live {
			e.overlay.Store(&modelOverlay{overlays[k], next.seq})
		}
		err = c.rewrite()
		c.unclean = err != nil
	})
	return err
}

// merge puts the changes of a call into a version that nobody reads yet, or none of them.
func (c *catalogue) merge(next *catalogueState, call *catalogueCall) (changed []*catalogueNode, lines [][]byte,
	err error) {
	call.result = CatalogueResult{}
	own := map[string]*catalogueNode{} // of this call, in which a node may be twice
	current := func(id string) (*catalogueNode, error) {
		if n := own[id]; n != nil {
			return n, nil // also one that is removed
		}
		if n, _ := next.nodes.Get(id); n != nil {
			return n, nil
		}
		return c.inDataset(id)
	}
	put := func(was, n *catalogueNode) error {
		if was != nil && was.same(n) || was == nil && n.Removed {
			call.result.Unchanged++
			return nil
		}
		next.seq++
		n.seq = next.seq
		n.dropped = n.Removed && !c.based(n.ID)
		raw, err := json.Marshal(n.line())
		if err != nil {
			return err
		}
		if n.size = int64(len(raw)); n.size > maxNodeBytes {
			return hint.Wrap(requestError("nodes", clip(n.ID), "has a node of %d bytes", n.size),
				"give at most %d: a shorter text, or fewer links", maxNodeBytes)
		}
		own[n.ID], changed, lines = n, append(changed, n), append(lines, raw)
		return nil
	}
	first := next.seq
	defer func() {
		if err != nil {
			next.seq, call.result = first, CatalogueResult{}
		}
	}()
	for k := range call.changes {
		was, err := current(call.changes[k].ID)
		if err != nil {
			return nil, nil, err
		}
		if call.check != nil {
			if err := call.check(was); err != nil {
				return nil, nil, err
			}
		}
		n, err := c.edit(was, &call.changes[k], call.replace)
		if err != nil {
			return nil, nil, fmt.Errorf("node %q: %w", clip(call.changes[k].ID), err)
		}
		if err := put(was, n); err != nil {
			return nil, nil, err
		}
		if n.Vector == nil && c.s.net.Graph().Vectors() != nil {
			call.result.WithoutVector++
		}
	}
	for _, id := range call.removed {
		was, err := current(id)
		if err != nil {
			return nil, nil, err
		}
		if err := put(was, &catalogueNode{NodeChange: recommend.NodeChange{ID: id, Removed: true}}); err != nil {
			return nil, nil, err
		}
	}
	if err := next.take(own); err != nil {
		return nil, nil, err
	}
	call.result.Changed = len(changed)
	return changed, lines, nil
}

// take puts nodes into a version that nobody reads yet, within the limits.
func (s *catalogueState) take(nodes map[string]*catalogueNode) error {
	count, bytes := s.count, s.bytes
	for id, n := range nodes {
		if was, _ := s.nodes.Get(id); was != nil {
			count, bytes = count-1, bytes-was.size
		}
		if !n.dropped {
			count, bytes = count+1, bytes+n.size
		}
	}
	if count > maxChanged || bytes > maxChangeBytes {
		return newProblem(507, hint.Wrap(fmt.Errorf("the catalogue is full: %d nodes changed, %d MiB", count,
			bytes>>20), "make a dataset of them: at most %d nodes and %d MiB may differ from the dataset", maxChanged,
			maxChangeBytes>>20))
	}
	for id, n := range nodes {
		if s.nodes.Set(id, n); n.dropped {
			s.nodes.Delete(id)
		}
	}
	s.count, s.bytes = count, bytes
	return nil
}

// find returns a node as it is now; nil if it is not there.
func (c *catalogue) find(id string) (*catalogueNode, error) {
	n, _ := c.state.Load().nodes.Get(id)
	switch {
	case n == nil:
		return c.inDataset(id)
	case n.Removed:
		return nil, nil
	}
	return n, nil
}

// linksOf returns the ids that a node links to.
func (c *catalogue) linksOf(n *catalogueNode) []string {
	if n.Links != nil {
		return n.Links
	}
	g := c.s.datasets.newest().Graph()
	ids := []string{}
	if i, ok := g.Index(n.ID); ok {
		for _, j := range g.Out(i) {
			ids = append(ids, g.ID(j))
		}
	}
	return ids
}

// based reports whether a dataset has a node, so that its removal must be remembered.
func (c *catalogue) based(id string) bool {
	_, ok := c.s.datasets.newest().Graph().Index(id)
	return ok
}

// inDataset returns a node as it is in the dataset; nil if it is not there.
func (c *catalogue) inDataset(id string) (*catalogueNode, error) {
	base := c.s.datasets.newest()
	g := base.Graph()
	i, ok := c.s.forgotten.find(g, id)
	if !ok {
		return nil, nil
	}
	n := &catalogueNode{NodeChange: recommend.NodeChange{ID: g.ID(i), Title: g.Title(i), Role: g.Role(i)}}
	if f := g.Field(i); f != graph.UnknownField {
		n.Field = g.FieldName(f)
	}
	if t, known := g.Time(i); known {
		n.Time = t
	}
	if v := g.Vectors(); v != nil {
		n.Vector = make([]float32, v.Dim())
		v.Load(n.Vector, i)
	}
	var err error
	n.Text, err = base.Text(i)
	return n, err
}

// edit returns a node after a change; was is nil for a new one.
func (c *catalogue) edit(was *catalogueNode, in *NodeInput, replace bool) (*catalogueNode, error) {
	g := c.s.net.Graph()
	if c.s.forgotten.has(in.ID) {
		return nil, hint.Wrap(requestError("id", nil, "was forgotten, for good"), "give another id")
	}
	fresh := was == nil || was.Removed
	if fresh && !replace {
		return nil, &RequestError{Field: "id", Value: clip(in.ID), Reason: "is not in the catalogue; PUT adds a node",
			See: "/api/v1/nodes", NotFound: true}
	}
	n := &catalogueNode{NodeChange: recommend.NodeChange{ID: in.ID}}
	if !fresh {
		n.Role, n.Links, n.Vector = was.Role, was.Links, was.Vector
	}
	if !replace {
		n.NodeChange, n.guessed = was.NodeChange, was.guessed
	}
	if err := in.fill(n, g, fresh); err != nil {
		return nil, err
	}
	reworded := fresh || n.Title != was.Title || n.Text != was.Text
	switch {
	case in.Vector != nil:
		n.Vector = *in.Vector
	case reworded && c.s.texts:
		n.Vector = c.s.net.Encode(encode.Text{Title: n.Title, Body: n.Text})
	case fresh && g.Vectors() != nil && !c.s.texts && n.Role != graph.SourceOnly: // people are known by their links
		return nil, hint.Wrap(requestError("vector", nil, "is missing: the service has no encoder that makes one of a "+
			"text"), "give the vector that your encoder makes")
	}
	if in.Field == nil && (replace || n.guessed) {
		n.Field, n.guessed = "", true
		if !fresh && was.guessed && slices.Equal(was.Vector, n.Vector) {
			n.Field = was.Field
		} else if e := c.s.live.Load().current; n.Vector != nil && e.origin.Fields == (sample.FieldsBy{}) {
			f, err := e.GuessField(c.s.life, &n.NodeChange)
			if err != nil {
				return nil, err
			}
			if f != graph.UnknownField {
				n.Field = g.FieldName(f)
			}
		}
	}
	return n, nil
}

// NodeInput is a node of the catalogue as a client sends it. What is absent stays as it is with PATCH, and is empty
// with PUT, but for links.
type NodeInput struct {
	ID    string  `json:"id,omitempty" maxLength:"1024" doc:"id; may be left out where the path has it"`
	Title *string `json:"title,omitempty"`
	Text  *string `json:"text,omitempty" doc:"the vector is made of title and text, as those of the dataset were"`
	Field *string `json:"field,omitempty" doc:"a field of the dataset; default: guessed from the vector"`
	Time  *string `json:"time,omitempty" maxLength:"40" doc:"as 2021, 2021-01-31 or 2021-01-31T12:00:00Z"`
	// Role can be given to new nodes only.
	Role   *string    `json:"role,omitempty" enum:"source,target,both" doc:"of a new node: source, target or both"`
	Vector *[]float32 `json:"vector,omitempty" maxItems:"65536" doc:"instead of the one that is made of the text"`
	Links  *[]string  `json:"links,omitempty" maxItems:"1000" doc:"ids that it links to; default: as they are"`
}

// bytes is about what it takes.
func (n *NodeInput) bytes() int64 {
	size := len(n.ID)
	for _, text := range []*string{n.Title, n.Text, n.Field} {
		if text != nil {
			size += len(*text)
		}
	}
	if n.Vector != nil {
		size += 4 * len(*n.Vector)
	}
	if n.Links != nil {
		for _, id := range *n.Links {
			size += len(id)
		}
	}
	return int64(size)
}

// fill checks what is given and puts it into a node.
func (n *NodeInput) fill(into *catalogueNode, g *graph.Graph, fresh bool) error {
	for _, part := range []struct {
		field string
		from  *string
		into  *string
	}{{"title", n.Title, &into.Title}, {"text", n.Text, &into.Text}} {
		if part.from != nil {
			if !utf8.ValidString(*part.from) {
				return requestError(part.field, nil, "is not UTF-8")
			}
			*part.into = *part.from
		}
	}
	if size := len(into.Title) + len(into.Text); size > MaxText {
		return hint.Wrap(requestError("text", nil, "and title have %d bytes", size), "give at most %d", MaxText)
	}
	if n.Field != nil {
		into.Field, into.guessed = "", false
		if *n.Field != "" {
			f, err := fieldNamed(g, "field", *n.Field)
			if err != nil {
				return err
			}
			into.Field = g.FieldName(f)
		}
	}
	if n.Time != nil {
		t, err := parseTime(*n.Time)
		if err != nil {
			return hint.Wrap(requestError("time", clip(*n.Time), "is not a time"),
				"give one such as 2021, 2021-01-31 or 2021-01-31T12:00:00Z")
		}
		into.Time = t
	}
	if err := n.fillRole(into, g, fresh); err != nil {
		return err
	}
	if n.Vector != nil {
		dim := 0
		if g.Vectors() != nil {
			dim = g.Vectors().Dim()
		}
		if len(*n.Vector) != dim || slices.ContainsFunc(*n.Vector, func(x float32) bool { return x-x != 0 }) {
			return hint.Wrap(requestError("vector", len(*n.Vector), "has %d numbers, or infinite ones",
				len(*n.Vector)), "give %d, as the nodes of the dataset have", dim)
		}
	}
	if n.Links != nil {
		if len(*n.Links) > maxNodeLinks {
			return hint.Wrap(requestError("links", len(*n.Links), "has %d ids", len(*n.Links)), "give at most %d",
				maxNodeLinks)
		}
		into.Links = []string{}
		for _, id := range *n.Links {
			if err := checkID("links", id); err != nil {
				return err
			}
			if id != n.ID && !slices.Contains(into.Links, id) {
				into.Links = append(into.Links, id)
			}
		}
	}
	return nil
}

func (n *NodeInput) fillRole(into *catalogueNode, g *graph.Graph, fresh bool) error {
	if n.Role == nil {
		if fresh && g.TwoSided() {
			return hint.Wrap(requestError("role", nil, "is missing: people and items are told apart"),
				"give source for who gets lists, or target for what is in them")
		}
		return nil
	}
	role, err := graph.ParseRole(*n.Role)
	if err != nil {
		return requestError("role", clip(*n.Role), "is not source, target or both")
	}
	switch {
	case !fresh && role != into.Role:
		return hint.Wrap(requestError("role", *n.Role, "cannot be changed: the node is %s", into.Role),
			"add another node")
	case !g.TwoSided() && role != graph.SourceAndTarget:
		return hint.Wrap(requestError("role", *n.Role, "is for datasets of people and items"), "leave it out")
	}
	into.Role = role
	return nil
}

// checkID refuses what cannot be the id of a node.
func checkID(field, id string) error {
	if id == "" || len(id) > store.MaxNode || !utf8.ValidString(id) || strings.IndexByte(id, 0) >= 0 {
		return hint.Wrap(requestError(field, nil, "has an id of %d bytes, or one that is not UTF-8", len(id)),
			"give from 1 to %d bytes", store.MaxNode)
	}
	return nil
}

func parseTime(text string) (time.Time, error) {
	for _, layout := range []string{"2006", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	t, err := time.Parse(time.RFC3339, text)
	if err == nil && (t.Year() < 1 || t.Year() > 9999) {
		err = errors.New("the year has not four digits")
	}
	return t.UTC().Truncate(time.Second), err
}

// CatalogueResult counts what a change of the catalogue did.
type CatalogueResult struct {
	Changed   int `json:"changed" doc:"nodes that came, changed or were removed"`
	Unchanged int `json:"unchanged" doc:"nodes that were so already"`
	// WithoutVector are in no list before their text has a word that the encoder knows.
	WithoutVector int `json:"withoutVector,omitempty" doc:"nodes whose text has no word that the encoder knows"`
	Adopted       int `json:"adopted,omitempty" doc:"events that waited for these nodes and are in the log now"`
}

// PutNodes adds nodes to the catalogue or replaces them. When it returns, they survive kill -9, and lists have them. It
// is done for all of them or for none, and may be repeated.
func (s *Service) PutNodes(ctx context.Context, nodes []NodeInput) (CatalogueResult, error) {
	return s.changeNodes(ctx, &catalogueCall{changes: nodes, replace: true})
}

// PatchNodes changes what is given of nodes of the catalogue, as PutNodes does.
func (s *Service) PatchNodes(ctx context.Context, nodes []NodeInput) (CatalogueResult, error) {
	return s.changeNodes(ctx, &catalogueCall{changes: nodes})
}

// RemoveNodes removes nodes from the catalogue: no list has them any more. Their events stay, and PutNodes brings them
// back. Forget is for people who want to be erased.
func (s *Service) RemoveNodes(ctx context.Context, ids []string) (CatalogueResult, error) {
	return s.changeNodes(ctx, &catalogueCall{removed: ids})
}

func (s *Service) changeNodes(ctx context.Context, call *catalogueCall) (_ CatalogueResult, err error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return CatalogueResult{}, err
	}
	defer end(&err)
	if count := len(call.changes) + len(call.removed); count < 1 || count > maxBatch {
		return CatalogueResult{}, hint.Wrap(requestError("nodes", count, "has %d nodes", count), "give from 1 to %d",
			maxBatch)
	}
	for _, n := range call.changes {
		if err := checkID("id", n.ID); err != nil {
			return CatalogueResult{}, err
		}
	}
	for _, id := range call.removed {
		if err := checkID("id", id); err != nil {
			return CatalogueResult{}, err
		}
	}
	out, err := s.catalogue.change(call)
	if err != nil || len(call.changes) == 0 {
		return out, err
	}
	ids := make([]string, len(call.changes))
	for k, n := range call.changes {
		ids[k] = n.ID
	}
	adopted, err := s.adopt(ctx, ids)
	if out.Adopted = adopted; err != nil { // the change is made; the next one of the node tries it again
		s.o.Log.Warn("events that waited for their nodes still wait", "error", err)
	}
	return out, nil
}
