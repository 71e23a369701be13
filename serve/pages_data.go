package serve

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"unseen/graph"
	"unseen/hint"
	"unseen/internal/amount"
	"unseen/serve/store"
)

// data registers the pages where nodes are looked up, and changed by those with the scope write.
func (p *site) data() {
	p.read("GET /data", "page-data", func(w http.ResponseWriter, r *http.Request) error {
		out := p.dataPage(r)
		out.Form.ID = clean(r.URL.Query().Get("add"), 1024)
		if err := out.search(p.s, r); err != nil {
			return err
		}
		p.show(w, r, http.StatusOK, "data", out)
		return nil
	})
	p.read("GET /data/node", "page-data-node", func(w http.ResponseWriter, r *http.Request) error {
		out := p.dataPage(r)
		id := r.URL.Query().Get("id")
		err := out.node(p.s, r, id)
		if err == nil {
			err = out.events(p.s, r, id)
		}
		if err == nil {
			p.show(w, r, http.StatusOK, "data", out)
		}
		return err
	})
	p.form(pageForm{"POST /data/add", "page-add-node", ScopeWrite, p.s.addNode, p.dataAgain})
	p.form(pageForm{"POST /data/save", "page-save-node", ScopeWrite, p.s.saveNode, p.dataAgain})
	p.form(pageForm{"POST /data/remove", "page-remove-node", ScopeWrite, p.s.removeNode, p.dataAgain})
}

// dataNotices say what a form did.
var dataNotices = map[string]string{
	"added": "Added.", "saved": "Saved. Lists follow at once.",
	"same": "Nothing was changed.", "removed": "Removed: no list has it any more.", "gone": "It was not there.",
}

// dataPage is the data of the page: a search, or a node.
type dataPage struct {
	Did    string // what was done
	Editor bool   // the visitor may change nodes
	Error  string
	Wrong  string // the control that the error is about

	Q      string
	Found  NodePage
	Exact  *NodeSummary // the node with this id
	Waits  int          // events about an id that is no node
	Next   string       // address of the next matches; "": these are the last
	Fields []string
	Sides  bool   // people and items are told apart
	Texts  bool   // vectors are made of texts
	Guess  bool   // fields can be guessed
	Unable string // why no node can be added; "": one can

	Node    *NodeDetail // nil: a search
	Form    nodeForm
	Events  *NodeEvents // nil: the log cannot be read now
	Kinds   []kindCount // of these events
	Earlier string      // address of earlier events; "": there are none
	Latest  bool        // these are the latest
}

// kindCount is the number of events of a kind.
type kindCount struct {
	Kind  store.Kind
	Count int
}

// nodeForm is a node as its form has it.
type nodeForm struct {
	ID, Title, Text, Time, Role string
	Field                       string // "=" and its name, "guess" or "none"
	Links                       string // ids, one per line
	Linked                      bool   // the form has links
	Fixed                       string // why links cannot be changed here; "": they can
	Seen                        string // fingerprint of the node that was shown
}

// dataPage fills in what every such page shows.
func (p *site) dataPage(r *http.Request) *dataPage {
	s := p.s
	g := s.Graph()
	query := r.URL.Query()
	out := &dataPage{Did: dataNotices[query.Get("did")], Editor: p.hasScope(r, ScopeWrite), Sides: g.TwoSided(),
		Texts: s.texts, Guess: g.Vectors() != nil, Form: nodeForm{Field: "none"}}
	if out.Guess {
		out.Form.Field = "guess"
	}
	if n, err := strconv.Atoi(query.Get("events")); err == nil && n > 0 {
		out.Did += " " + amount.Of(n, "event") + " that waited for it went into the log."
	}
	for f := range g.FieldCount() {
		if name := g.FieldName(uint16(f)); name != "" && uint16(f) != graph.UnknownField {
			out.Fields = append(out.Fields, name)
		}
	}
	slices.SortFunc(out.Fields, compareNames)
	if g.Vectors() != nil && !s.texts && !g.TwoSided() {
		out.Unable = "the vectors of this dataset were not made from its texts, so that a new node needs a vector. " +
			"PUT " + s.at("/api/v1/nodes") + " takes one"
	}
	return out
}

// search looks nodes up by the words of the query.
func (d *dataPage) search(s *Service, r *http.Request) (err error) {
	const most = 20
	if d.Q = clean(r.URL.Query().Get("q"), 200); d.Q == "" {
		return nil
	}
	offset, err := strconv.Atoi(r.URL.Query().Get("offset"))
	if err != nil || offset < 0 {
		offset = 0
	}
	if d.Found, err = s.Search(r.Context(), d.Q, "", offset, most); err != nil {
		return err
	}
	if d.Found.Next > 0 {
		d.Next = s.at("/data?") + url.Values{"q": {d.Q}, "offset": {strconv.Itoa(d.Found.Next)}}.Encode()
	}
	v := s.live.Load().current.view()
	if place, ok := v.find(d.Q); ok {
		one := v.summary(place)
		d.Exact = &one
		d.Found.Nodes = slices.DeleteFunc(d.Found.Nodes, func(n NodeSummary) bool { return n.ID == one.ID })
	} else {
		d.Waits = s.waiting.countOf(d.Q)
	}
	return nil
}

// node fills in a node and its form.
func (d *dataPage) node(s *Service, r *http.Request, id string) error {
	about, err := s.Node(r.Context(), id)
	if err != nil {
		return err
	}
	n, err := s.catalogue.find(id)
	if err != nil {
		return err
	}
	if n == nil { // removed in this moment
		return noNode(id)
	}
	d.Node = &about
	links := s.catalogue.linksOf(n)
	d.Form = nodeForm{ID: n.ID, Title: n.Title, Text: n.Text, Field: "=" + n.Field, Time: timeText(n.Time),
		Role: n.Role.String(), Links: strings.Join(links, "\n"), Seen: n.fingerprint()}
	switch {
	case n.guessed:
		d.Form.Field = "guess"
	case n.Field == "":
		d.Form.Field = "none"
	}
	switch {
	case n.Role == graph.TargetOnly && len(links) == 0:
		d.Form.Fixed = "it is a target: it links to nothing"
	case len(links) > maxNodeLinks:
		d.Form.Fixed = fmt.Sprintf("it has more than %s", amount.Text(maxNodeLinks))
	case !slices.Equal(links, linesOf(d.Form.Links)):
		d.Form.Fixed = "an id has a line break, or spaces around it"
	}
	return nil
}

// events fills in the latest events of a node, or earlier ones.
func (d *dataPage) events(s *Service, r *http.Request, id string) error {
	const most = 10
	before, err := strconv.ParseInt(r.URL.Query().Get("before"), 10, 64)
	if err != nil || before < 0 {
		before = 0
	}
	found, err := s.NodeEvents(r.Context(), id, before, most)
	if errors.Is(err, store.ErrUnavailable) {
		return nil // the page is of use without them
	}
	if err != nil {
		return err
	}
	d.Events, d.Latest = &found, before == 0
	for _, kind := range store.Kinds {
		d.Kinds = append(d.Kinds, kindCount{kind, found.Counts[kind]})
	}
	if found.Next > 0 {
		d.Earlier = s.dataAt(id) + "&before=" + strconv.FormatInt(found.Next, 10) + "#events"
	}
	return nil
}

// dataAgain shows a form that was refused, with all that was typed.
func (p *site) dataAgain(w http.ResponseWriter, r *http.Request, err error) {
	status, detail := p.errorText(r, err)
	wrong, _ := errors.AsType[*RequestError](err)
	out := p.dataPage(r)
	given := formOf(r.PostForm)
	found := out.node(p.s, r, given.ID)
	if found == nil {
		found = out.events(p.s, r, given.ID)
	}
	if r.URL.Path == p.s.at("/data/add") || found != nil { // a new one, or one that somebody has removed
		out.Node, given.Fixed, given.Seen = nil, "", ""
	} else if given.Fixed = out.Form.Fixed; wrong != nil && wrong.Conflict {
		given.Seen = out.Form.Seen // who saves again has been warned
	}
	if r.URL.Path != p.s.at("/data/remove") || out.Node == nil {
		out.Form = given
	}
	if wrong != nil {
		out.Wrong = wrong.Field
	}
	_, rest, named := strings.Cut(detail, fmt.Sprintf("node %q: ", clip(given.ID)))
	out.Error = detail
	if named {
		out.Error = rest
	}
	p.show(w, r, status, "data", out)
}

// formOf reads a node from a form.
func formOf(form url.Values) nodeForm {
	return nodeForm{ID: form.Get("id"), Title: form.Get("title"), Text: unixLines(form.Get("text")),
		Time: strings.TrimSpace(form.Get("time")), Role: form.Get("role"), Field: cmp.Or(form.Get("field"), "none"),
		Links: unixLines(form.Get("links")), Linked: form.Has("links"), Seen: form.Get("seen")}
}

// addNode adds a node that is not there yet.
func (s *Service) addNode(r *http.Request) (to string, err error) {
	f := formOf(r.PostForm)
	f.ID = strings.TrimSpace(f.ID)
	in := f.input(&catalogueNode{}, nil)
	if f.Role != "" {
		in.Role = &f.Role
	}
	done, err := s.changeNodes(r.Context(), &catalogueCall{changes: []NodeInput{in}, replace: true,
		check: func(was *catalogueNode) error {
			if was != nil && !was.Removed {
				return &RequestError{Field: "id", Value: clip(f.ID), Reason: "is there already", Conflict: true}
			}
			return nil
		}})
	if err != nil {
		return "", err
	}
	to = "/data/node?did=added&id=" + url.QueryEscape(f.ID)
	if done.Adopted > 0 {
		to += "&events=" + strconv.Itoa(done.Adopted)
	}
	return to, nil
}

// saveNode replaces a node, unless it is another one than the form was made of.
func (s *Service) saveNode(r *http.Request) (to string, err error) {
	f := formOf(r.PostForm)
	was, err := s.catalogue.find(f.ID)
	if err != nil {
		return "", err
	}
	if was == nil {
		return "", noNode(f.ID)
	}
	in := f.input(was, s.catalogue.linksOf(was))
	done, err := s.changeNodes(r.Context(), &catalogueCall{changes: []NodeInput{in}, replace: true,
		check: func(was *catalogueNode) error {
			switch {
			case was == nil || was.Removed:
				return noNode(f.ID)
			case was.fingerprint() != f.Seen:
				return hint.Wrap(&RequestError{Field: "node", Value: clip(f.ID), Conflict: true,
					Reason: "was changed by somebody else since this form was opened"},
					"save again to replace the other change")
			}
			return nil
		}})
	if err != nil {
		return "", err
	}
	did := "saved"
	if done.Changed == 0 {
		did = "same"
	}
	return "/data/node?did=" + did + "&id=" + url.QueryEscape(f.ID), nil
}

// removeNode removes a node from the catalogue.
func (s *Service) removeNode(r *http.Request) (to string, err error) {
	id := r.PostForm.Get("id")
	if r.PostForm.Get("confirm") != "yes" {
		return "", hint.Wrap(requestError("confirm", nil, "is missing: nothing was removed"),
			"tick the box to remove the node")
	}
	done, err := s.RemoveNodes(r.Context(), []string{id})
	if err != nil {
		return "", err
	}
	did := "removed"
	if done.Changed == 0 {
		did = "gone"
	}
	return "/data?did=" + did, nil
}

// input is what a form changes of a node that links to some ids.
func (f *nodeForm) input(was *catalogueNode, links []string) NodeInput {
	in := NodeInput{ID: f.ID, Title: &f.Title, Text: &f.Text}
	if f.Title == oneLine(was.Title) { // a control has no line breaks
		in.Title = &was.Title
	}
	if f.Text == unixLines(was.Text) {
		in.Text = &was.Text
	}
	switch name, named := strings.CutPrefix(f.Field, "="); {
	case named:
		in.Field = &name
	case f.Field == "none":
		in.Field = new(string)
	}
	switch {
	case f.Time == timeText(was.Time) && f.Time != "": // to the second
		text := was.Time.Format(time.RFC3339)
		in.Time = &text
	case f.Time != "":
		in.Time = &f.Time
	}
	if given := linesOf(f.Links); f.Linked && !slices.Equal(given, links) {
		in.Links = &given
	}
	return in
}

// fingerprint tells two states of a node apart.
func (n *catalogueNode) fingerprint() string {
	l := n.line()
	l.Seq, l.Vector = 0, nil
	raw, err := json.Marshal(l)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

func noNode(id string) error {
	return &RequestError{Field: "id", Value: clip(id), Reason: "is not a node, or not any more", NotFound: true}
}

// timeText is a time as people write it; "" if it is not known.
func timeText(t time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case t.UTC().Truncate(24 * time.Hour).Equal(t):
		return t.UTC().Format(time.DateOnly)
	}
	return t.UTC().Format(time.RFC3339)
}

// unixLines ends lines as text does on a disk: forms send them with a carriage return.
func unixLines(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}

// oneLine is what a control of one line makes of a text.
func oneLine(text string) string { return strings.NewReplacer("\r", "", "\n", "").Replace(text) }

// linesOf returns the lines of a text that are not blank.
func linesOf(text string) []string {
	out := []string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}
