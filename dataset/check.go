package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"unseen/graph"
)

// Severity says how much a finding matters.
type Severity string

// The severities, the worst first.
const (
	Wrong Severity = "wrong" // the data contradict themselves, or nothing can be learned from them
	Weak  Severity = "weak"  // learning works and is worse for it
	Note  Severity = "note"  // good to know
)

// Finding is one thing that is wrong or weak.
type Finding struct {
	Kind     string   `json:"kind"` // for programs: isolated, hub, against-time, …
	Severity Severity `json:"severity"`
	Count    int      `json:"count"`
	Message  string   `json:"message"` // a sentence with the count in it
	Example  string   `json:"example,omitempty"`
	Mend     string   `json:"mend,omitempty"` // what to do
}

// Report is what Check found, the worst first.
type Report struct {
	Nodes     int       `json:"nodes"`
	Links     int       `json:"links"`
	Fields    int       `json:"fields"`
	Exposures int       `json:"exposures"`
	Dimension int       `json:"dimension"` // of the vectors; 0 when there are none
	Findings  []Finding `json:"findings"`
}

// Wrong returns how many kinds of fault there are that must be mended.
func (r *Report) Wrong() int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == Wrong {
			n++
		}
	}
	return n
}

// What counts as small or large.
const (
	// tinyField is the number of nodes below which hardly anything is learned of a field's exposure.
	tinyField = 20
	// A hub has at least so many links to it, and more than hubShare of all.
	hubLinks, hubShare = 100, .01
)

// wideFrom is the number of dimensions above which learning becomes slow: time grows with their
// square and more. On 3,000 nodes and 10,000 to 16,000 pairs a fit by bayes took 2, 2, 4 and 19
// seconds of processor time with 128, 256, 512 and 1,024 dimensions, and was stopped unfinished
// after 66 with 2,048.
const wideFrom = 768

// Wide is what to do about vectors of so many dimensions in the folder dir; "" where they are few enough.
func Wide(dir string, dim int) string {
	if dim <= wideFrom {
		return ""
	}
	return "reduce them in seconds, which replaces " + VectorsFile + ": unseen encode " + dir +
		" --encoder features --dim 128 --force"
}

// Check reads the whole dataset and says in words what is wrong or weak in it. Open it with Tolerant to
// have faults counted that Open would otherwise stop at, and with RowNumbers as it needs. The error is
// about what could not be looked at, not about what was found.
func Check(ctx context.Context, d *Dataset) (Report, error) {
	g := d.Graph()
	c := &checker{d: d, g: g, report: Report{Nodes: g.Len(), Links: g.LinkCount(), Fields: g.FieldCount() - 1,
		Findings: []Finding{}}}
	for _, look := range []func(context.Context) error{c.files, c.faults, c.links, c.order, c.fields, c.texts,
		c.vectors, c.exposures} {
		if err := ctx.Err(); err != nil {
			return Report{}, err
		}
		if err := look(ctx); err != nil {
			return Report{}, err
		}
	}
	rank := map[Severity]int{Wrong: 0, Weak: 1, Note: 2}
	slices.SortStableFunc(c.report.Findings,
		func(a, b Finding) int { return cmp.Compare(rank[a.Severity], rank[b.Severity]) })
	return c.report, nil
}

// checker is one Check.
type checker struct {
	d      *Dataset
	g      *graph.Graph
	report Report
}

// found adds a finding if there is anything to count.
func (c *checker) found(kind string, s Severity, count int, example, mend, format string, a ...any) {
	if count > 0 {
		c.report.Findings = append(c.report.Findings, Finding{kind, s, count, fmt.Sprintf(format, a...), example, mend})
	}
}

func (c *checker) files(ctx context.Context) error {
	if !c.d.written {
		c.found("no-manifest", Note, 1, "", "seal it, once it is done: unseen check "+c.d.dir+" --seal",
			"There is no %s: nothing vouches for the bytes, and every opening reads all vectors.", ManifestFile)
		return nil
	}
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if c.d.files[NodesFile] == nil {
		return wrong(c.d.dir, ErrClosed, "check it before Close")
	}
	changed, err := c.d.changed(ctx, true)
	for _, e := range changed {
		c.found("changed", Wrong, 1, "", e.Mend, "%s is not the file that was written: %v.", e.Path, e.Err)
	}
	return err
}

func (c *checker) faults(context.Context) error {
	f := &c.d.faults
	n := c.g.Len()
	c.found("empty-id", Wrong, f.emptyID.count, f.emptyID.example, "give every node an id", "%s no id.",
		nodesHave(f.emptyID.count, n))
	c.found("duplicate-id", Wrong, f.duplicateID.count, f.duplicateID.example,
		`merge the rows or give one another id; nodes[nodes["id"].duplicated()] lists them`,
		"%s an id that an earlier one has; links by that id go to the first.", nodesHave(f.duplicateID.count, n))
	c.found("dangling", Wrong, f.dangling.count, f.dangling.example, "leave them out or add the nodes",
		"%s to or from a node that is not there.", linksGo(f.dangling.count))
	c.found("self-link", Wrong, f.selfLink.count, f.selfLink.example, "leave them out", "%s from a node to itself.",
		linksGo(f.selfLink.count))
	c.found("repeated", Note, c.d.build.Repeated, "", "", "%s there more than once and count as one.",
		plural(c.d.build.Repeated, "link is", "links are"))
	return nil
}

func (c *checker) links(context.Context) error {
	if c.g.LinkCount() == 0 {
		c.found("no-links", Wrong, 1, "", "add links: there is nothing to learn from", "There are no links.")
		return nil
	}
	isolated, example := 0, ""
	type hub struct {
		node  int32
		links int
	}
	var hubs []hub
	for i := range int32(c.g.Len()) {
		in := len(c.g.In(i))
		if in == 0 && len(c.g.Out(i)) == 0 {
			if isolated == 0 {
				example = c.name(i)
			}
			isolated++
		}
		if in >= hubLinks && float64(in) > hubShare*float64(c.g.LinkCount()) {
			hubs = append(hubs, hub{i, in})
		}
	}
	severity := Note
	if 2*isolated > c.g.Len() {
		severity = Weak
	}
	c.found("isolated", severity, isolated, example,
		"nothing to do if nobody has linked them yet; only nodes with links are learned from", "%s no link at all.",
		nodesHave(isolated, c.g.Len()))
	if len(hubs) > 0 {
		most := slices.MaxFunc(hubs, func(a, b hub) int {
			return cmp.Or(cmp.Compare(a.links, b.links),
				cmp.Compare(b.node, a.node))
		})
		c.found("hub", Weak, len(hubs), fmt.Sprintf("%s has %d of %d links", c.name(most.node), most.links,
			c.g.LinkCount()),
			"a few popular nodes can outweigh the rest; leave out those that everybody links to by default",
			"%s linked from more than %v%% of all links.", plural(len(hubs), "node is", "nodes are"), 100*hubShare)
	}
	return nil
}

func (c *checker) order(context.Context) error {
	untimed := c.d.build.Untimed
	switch {
	case untimed == c.g.Len() && untimed > 0:
		c.found("no-time", Note, untimed, "", "add a column time to split the past from the future by date",
			"No node has a time, so order and splits come from the links alone.")
	default:
		i := slices.IndexFunc(c.indices(), func(i int32) bool { _, known := c.g.Time(i); return !known })
		c.found("untimed", Note, untimed, c.nameAt(i), "",
			"%s no time; what they link to tells how old they are at least.", nodesHave(untimed, c.g.Len()))
	}
	o := c.g.Order()
	against, cycle := "", ""
	for _, l := range o.Broken {
		example := fmt.Sprintf("%s links to %s", c.name(l.Source), c.name(l.Target))
		if o.AgainstTime > 0 && against == "" && c.older(l.Source, l.Target) {
			against = example
		} else if cycle == "" && !c.older(l.Source, l.Target) {
			cycle = example
		}
	}
	share := func(n int) Severity {
		if 20*n > c.g.LinkCount() {
			return Weak
		}
		return Note
	}
	c.found("against-time", share(o.AgainstTime), o.AgainstTime, against,
		"check these times; a split drops links into a later part", "%s from an older node to a newer one.",
		linksGo(o.AgainstTime))
	cycles := len(o.Broken) - o.AgainstTime
	c.found("cycle", share(cycles), cycles, cycle,
		"nothing to do as a rule; times, where there are any, tell which of them lead back",
		"%s cycles of nodes without times or of one time.", plural(cycles, "link closes", "links close"))
	return nil
}

// older reports whether node i has an earlier time than node j.
func (c *checker) older(i, j int32) bool {
	a, known := c.g.Time(i)
	b, both := c.g.Time(j)
	return known && both && a.Before(b)
}

func (c *checker) indices() []int32 {
	all := make([]int32, c.g.Len())
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

func (c *checker) fields(context.Context) error {
	sizes := make([]int, c.g.FieldCount())
	first := slices.Repeat([]int32{-1}, c.g.FieldCount())
	for i, f := range c.g.Fields() {
		if sizes[f]++; first[f] < 0 {
			first[f] = int32(i)
		}
	}
	unknown := sizes[graph.UnknownField]
	switch named := c.g.FieldCount() - 1; {
	case c.g.Len() == 0:
		c.found("no-nodes", Wrong, 1, "", "add nodes", "There are no nodes.")
		return nil
	case named == 0:
		c.found("no-fields", Weak, 1, "", "add a column field (unseen import … --field COLUMN), or let unseen "+
			"fit find fields: --fields-by vectors:20", "No node has a field, and exposure is learned per pair "+
			"of fields.")
		return nil
	case named == 1 && unknown == 0:
		c.found("one-field", Weak, 1, c.g.FieldName(1),
			"use a finer division, or let unseen fit find fields: --fields-by vectors:20",
			"All nodes have one field, and exposure is learned per pair of fields.")
	}
	severity := Note
	if 10*unknown > c.g.Len() {
		severity = Weak
	}
	c.found("fieldless", severity, unknown, c.nameAt(int(first[graph.UnknownField])),
		"give them a field; until then they share one, unknown", "%s no field.", nodesHave(unknown, c.g.Len()))
	tiny, empty, smallest := 0, 0, -1
	for f := 1; f < len(sizes); f++ {
		switch {
		case sizes[f] == 0:
			empty++
		case sizes[f] < tinyField:
			if tiny++; smallest < 0 || sizes[f] < sizes[smallest] {
				smallest = f
			}
		}
	}
	if tiny > 0 {
		c.found("tiny-field", Weak, tiny, fmt.Sprintf("%q has %d", c.g.FieldName(uint16(smallest)), sizes[smallest]),
			"merge them with fields that are shown to the same people",
			"%s fewer than %d nodes, too few to learn their exposure.", plural(tiny, "field has", "fields have"),
			tinyField)
	}
	c.found("empty-field", Note, empty, "", "", "%s no node.", plural(empty, "field has", "fields have"))
	return nil
}

func (c *checker) texts(ctx context.Context) error {
	if !c.d.HasText() {
		c.vectorless(false)
		return nil
	}
	missing, first := 0, -1
	for i := range int32(c.g.Len()) {
		if i%rowsPerBatch == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		text, err := c.d.Text(i)
		if err != nil {
			return err
		}
		if strings.TrimSpace(text) == "" {
			if missing++; first < 0 {
				first = int(i)
			}
		}
	}
	c.vectorless(missing < c.g.Len())
	if missing < c.g.Len() {
		severity := Note
		if 10*missing > c.g.Len() && c.g.Vectors() == nil {
			severity = Weak
		}
		c.found("textless", severity, missing, c.nameAt(first), "use the title instead, or leave these nodes out",
			"%s no text.", nodesHave(missing, c.g.Len()))
	}
	return nil
}

// vectorless says what to do where there are no vectors.
func (c *checker) vectorless(texts bool) {
	switch titled := slices.ContainsFunc(c.indices(),
		func(i int32) bool { return strings.TrimSpace(c.g.Title(i)) != "" }); {
	case c.g.Vectors() != nil || c.g.Len() == 0:
	case texts || titled:
		c.found("no-vectors", Note, 1, "", "make them of titles and texts: unseen encode "+c.d.dir,
			"There are no vectors yet, by which nodes are compared.")
	default:
		c.found("no-text", Wrong, 1, "", "add a column text or title to "+NodesFile+" and run unseen encode "+c.d.dir+
			"; or add vectors of your own, "+VectorsFile,
			"There are neither texts nor titles nor vectors, so nodes cannot be compared.")
	}
}

func (c *checker) vectors(context.Context) error {
	v := c.g.Vectors()
	if v == nil {
		return nil
	}
	c.report.Dimension = v.Dim()
	if hint := Wide(c.d.dir, v.Dim()); hint != "" {
		c.found("wide", Note, 1, "", hint, "Vectors have %d dimensions, with which unseen fit (bayes) is slow.",
			v.Dim())
	}
	r, err := v.Check(c.g)
	if err != nil {
		return wrong(c.d.path(VectorsFile), err, "")
	}
	if echo := c.g.Echo(); echo >= graph.EchoFrom {
		c.found("echo", Weak, 1, "", "use vectors that say what nodes are like, such as unseen encode makes of texts",
			"The vectors follow from the links: they agree to %.0f%% with those of the nodes that each is "+
				"linked with. Vectors made of links carry exposure, and hide it.", 100*echo)
	}
	first := func(ids []string) string {
		if len(ids) == 0 {
			return ""
		}
		i, _ := c.g.Index(ids[0])
		return c.name(i)
	}
	c.found("not-finite", Wrong, r.NotFinite, first(r.NotFiniteIDs), "encode these nodes again or leave them out",
		"%s a vector that holds a NaN or an infinity.", nodesHave(r.NotFinite, c.g.Len()))
	severity := Note
	if 10*r.Zero > c.g.Len() {
		severity = Weak
	}
	c.found("zero-vector", severity, r.Zero, first(r.ZeroIDs),
		"give them text and encode them again, or leave them out", "%s a vector of zeros, which is like no other.",
		nodesHave(r.Zero, c.g.Len()))
	return nil
}

func (c *checker) exposures(ctx context.Context) error {
	e, err := c.d.Exposures(ctx)
	if place, ok := errors.AsType[*Error](err); ok && ctx.Err() == nil {
		c.found("bad-exposures", Wrong, 1, "", place.Mend, "The exposures cannot be read: %v.",
			(&Error{Path: place.Path, Row: place.Row, Column: place.Column, Err: place.Err}).Error())
		return nil
	}
	if err != nil || e == nil {
		return err
	}
	c.report.Exposures = e.Len()
	unseen, unknown, selves, impossible := fault{}, fault{}, fault{}, fault{}
	for k := range e.Source {
		i, j := e.Source[k], e.Target[k]
		if i == j {
			selves.add("row %d: %s", k, c.name(i))
			continue
		}
		if e.Linked[k] && !e.Exposed[k] {
			unseen.add("row %d: %s and %s", k, c.name(i), c.name(j))
		}
		if e.Linked[k] != c.g.HasLink(i, j) {
			unknown.add("row %d: %s and %s", k, c.name(i), c.name(j))
		}
		if e.Shown != nil && (e.Shown[k] == 0 && e.Exposed[k] || e.Shown[k] == 1 && !e.Exposed[k]) {
			impossible.add("row %d: shown with probability %v", k, e.Shown[k])
		}
	}
	c.found("exposed-self", Wrong, selves.count, selves.example, "leave them out", "%s of a node with itself.",
		plural(selves.count, "exposure is", "exposures are"))
	c.found("linked-unexposed", Weak, unseen.count, unseen.example,
		"a link says that its target was seen somehow: note it as exposed, or log where it was seen",
		"%s linked and not exposed.", plural(unseen.count, "exposure is", "exposures are"))
	c.found("exposure-disagrees", Weak, unknown.count, unknown.example, "add the links to "+LinksFile+
		", or correct the column linked", "%s from %s on whether there is a link.",
		plural(unknown.count, "exposure differs", "exposures differ"), LinksFile)
	c.found("impossible-exposure", Wrong, impossible.count, impossible.example,
		"probabilities of 0 and 1 allow one outcome; correct one of the two columns",
		"%s what their probability excludes.", plural(impossible.count, "exposure did", "exposures did"))
	return nil
}

// name is how a report speaks of a node: by its id, and its title if it has one.
func (c *checker) name(i int32) string {
	if title := []rune(c.g.Title(i)); len(title) > 60 {
		return fmt.Sprintf("%q (%s…)", c.g.ID(i), string(title[:59]))
	} else if len(title) > 0 {
		return fmt.Sprintf("%q (%s)", c.g.ID(i), string(title))
	}
	return fmt.Sprintf("%q", c.g.ID(i))
}

// nameAt is name, or nothing for a node that there is not.
func (c *checker) nameAt(i int) string {
	if i < 0 {
		return ""
	}
	return c.name(int32(i))
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func nodesHave(n, of int) string {
	if of > 0 && n > 1 {
		return fmt.Sprintf("%d of %d nodes have", n, of)
	}
	return plural(n, "node has", "nodes have")
}

func linksGo(n int) string { return plural(n, "link goes", "links go") }
