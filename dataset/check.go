package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"unseen/graph"
	"unseen/internal/amount"
	"unseen/internal/lengths"
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
	Fix      string   `json:"fix,omitempty"` // what to do
}

// CheckReport is what Check found, the worst first.
type CheckReport struct {
	Nodes     int       `json:"nodes"`
	Links     int       `json:"links"`
	Fields    int       `json:"fields"`
	Exposures int       `json:"exposures"`
	Dimension int       `json:"dimension"` // of the vectors; 0 when there are none
	Findings  []Finding `json:"findings"`
}

// Wrong returns how many kinds of fault there are that must be fixed.
func (r *CheckReport) Wrong() int {
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
	// A hub has at least hubLinks links to it, and more than hubShare of all.
	hubLinks, hubShare = 100, .01
)

// wideFrom is the number of dimensions above which learning becomes slow: time grows with their
// square and more. On 3,000 nodes and 10,000 to 16,000 pairs a fit by bayes took 2, 2, 4 and 19
// seconds of processor time with 128, 256, 512 and 1,024 dimensions, and was stopped unfinished
// after 66 with 2,048.
const wideFrom = 768

// Wide reports whether vectors have too many dimensions, so that learning is slow and they should be reduced.
func Wide(dim int) bool { return dim > wideFrom }

// Check reads the whole dataset and reports in words what is wrong or weak in it. Open it with Tolerant to
// count faults that Open would otherwise stop at, and with RowNumbers where needed. The error is about what
// could not be read, not about what was found.
func Check(ctx context.Context, d *Dataset) (CheckReport, error) {
	g := d.Graph()
	c := &checker{d: d, g: g, report: CheckReport{Nodes: g.Len(), Links: g.LinkCount(), Fields: g.FieldCount() - 1,
		Findings: []Finding{}}}
	for _, look := range []func(context.Context) error{c.files, c.faults, c.links, c.order, c.fields, c.texts,
		c.vectors, c.exposures} {
		if err := ctx.Err(); err != nil {
			return CheckReport{}, err
		}
		if err := look(ctx); err != nil {
			return CheckReport{}, err
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
	report CheckReport
}

// found adds a finding with its message if there is anything to count.
func (c *checker) found(f Finding, format string, a ...any) {
	if f.Count > 0 {
		f.Message = fmt.Sprintf(format, a...)
		c.report.Findings = append(c.report.Findings, f)
	}
}

func (c *checker) files(ctx context.Context) error {
	if !c.d.written {
		c.found(Finding{Kind: "no-manifest", Severity: Note, Count: 1,
			Fix: "seal the dataset once it is complete"},
			"There is no %s: changed files are not noticed, and every opening reads all vectors.", ManifestFile)
		return nil
	}
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if c.d.files[NodesFile] == nil {
		return fileError(c.d.dir, ErrClosed, "check it before Close")
	}
	changed, err := c.d.changed(ctx, true)
	for _, e := range changed {
		fix, cause := e.parts()
		c.found(Finding{Kind: "changed", Severity: Wrong, Count: 1, Fix: fix},
			"%s is not the file that was written: %v.", e.Path, cause)
	}
	return err
}

func (c *checker) faults(context.Context) error {
	f := &c.d.faults
	n := c.g.Len()
	c.found(Finding{Kind: "empty-id", Severity: Wrong, Count: f.emptyID.count, Example: f.emptyID.example,
		Fix: "give every node an id"},
		"%s no id.", nodesHave(f.emptyID.count, n))
	c.found(Finding{Kind: "duplicate-id", Severity: Wrong, Count: f.duplicateID.count, Example: f.duplicateID.example,
		Fix: `merge the rows or give one another id; nodes[nodes["id"].duplicated()] lists them`},
		"%s an id that an earlier one has; links by that id go to the first.", nodesHave(f.duplicateID.count, n))
	c.found(Finding{Kind: "dangling", Severity: Wrong, Count: f.dangling.count, Example: f.dangling.example,
		Fix: "leave them out or add the nodes"},
		"%s to or from a node that is not there.", linksGo(f.dangling.count))
	c.found(Finding{Kind: "self-link", Severity: Wrong, Count: f.selfLink.count, Example: f.selfLink.example,
		Fix: "leave them out"},
		"%s from a node to itself.", linksGo(f.selfLink.count))
	c.found(Finding{Kind: "role", Severity: Wrong, Count: f.role.count, Example: f.role.example,
		Fix: "swap their ends, or let the nodes be source and target"},
		"%s from a node that is a target only, or to one that is a source only.", linksGo(f.role.count))
	c.found(Finding{Kind: "repeated", Severity: Note, Count: c.d.build.Repeated},
		"%s there more than once and count as one.", amount.OneOrMore(c.d.build.Repeated, "link is", "links are"))
	return nil
}

func (c *checker) links(context.Context) error {
	if c.g.LinkCount() == 0 {
		c.found(Finding{Kind: "no-links", Severity: Wrong, Count: 1, Fix: "add links: there is nothing to learn from"},
			"There are no links.")
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
	c.found(Finding{Kind: "isolated", Severity: weakIf(2*isolated > c.g.Len()), Count: isolated, Example: example,
		Fix: "nothing, if they have no links yet; only nodes with links are learned from"},
		"%s no link at all.", nodesHave(isolated, c.g.Len()))
	if len(hubs) > 0 {
		most := slices.MaxFunc(hubs, func(a, b hub) int {
			return cmp.Or(cmp.Compare(a.links, b.links),
				cmp.Compare(b.node, a.node))
		})
		c.found(Finding{Kind: "hub", Severity: Weak, Count: len(hubs),
			Example: fmt.Sprintf("%s has %d of %d links", c.name(most.node), most.links, c.g.LinkCount()),
			Fix:     "a few popular nodes can outweigh the rest; leave out those that everybody links to by default"},
			"%s linked from more than %v%% of all links.", amount.OneOrMore(len(hubs), "node is", "nodes are"),
			100*hubShare)
	}
	return nil
}

func (c *checker) order(context.Context) error {
	untimed := c.d.build.Untimed
	switch {
	case c.g.TwoSided():
		c.availability()
	case untimed == c.g.Len() && untimed > 0:
		c.found(Finding{Kind: "no-time", Severity: Note, Count: untimed,
			Fix: "add a column time to split the past from the future by date"},
			"No node has a time, so order and splits come from the links alone.")
	default:
		i := slices.IndexFunc(c.indices(), func(i int32) bool { _, known := c.g.Time(i); return !known })
		c.found(Finding{Kind: "untimed", Severity: Note, Count: untimed, Example: c.nameAt(i)},
			"%s no time; they count as newer than what they link to.", nodesHave(untimed, c.g.Len()))
		c.oneTime()
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
	share := func(n int) Severity { return weakIf(20*n > c.g.LinkCount()) }
	c.found(Finding{Kind: "against-time", Severity: share(o.AgainstTime), Count: o.AgainstTime, Example: against,
		Fix: "check these times; a split drops links into a later subset"},
		"%s from an older node to a newer one.", linksGo(o.AgainstTime))
	cycles := len(o.Broken) - o.AgainstTime
	c.found(Finding{Kind: "cycle", Severity: share(cycles), Count: cycles, Example: cycle,
		Fix: "usually nothing; times, where nodes have them, show which links lead back"},
		"%s cycles of nodes without times or of one time.", amount.OneOrMore(cycles, "link closes", "links close"))
	return nil
}

// oneTime says that the times of nodes tell none apart.
func (c *checker) oneTime() {
	known, only := 0, ""
	for _, i := range c.indices() {
		if t, is := c.g.Time(i); is {
			known, only = known+1, t.UTC().Format(time.DateTime)
		}
	}
	if known > 1 && !c.g.TimesDiffer() {
		c.found(Finding{Kind: "one-time", Severity: Note, Count: known, Example: only,
			Fix: "give every node its own time to split the past from the future by date"},
			"All %s times of nodes are the same, so order and splits come from the links alone.", amount.Text(known))
	}
}

// availability says whether times tell what was there when people were active. Those of people
// themselves do not matter.
func (c *checker) availability() {
	var untimed []int32
	for _, j := range c.g.Targets() {
		if _, known := c.g.Time(j); !known {
			untimed = append(untimed, j)
		}
	}
	switch {
	case !c.g.HasLinkTimes():
		c.found(Finding{Kind: "no-time", Severity: Note, Count: c.g.LinkCount(),
			Fix: "add a column time to the links, and to the targets, to split the past from the future"},
			"No link has a time, so links are held out at random, and every target counts as there all the time.")
	case c.g.LinkCount() > 1 && !c.g.LinkTimesDiffer():
		c.found(Finding{Kind: "one-time", Severity: Note, Count: c.g.LinkCount(),
			Fix: "give every link its own time to hold out the last ones"},
			"No source has two links of different times, so links are held out at random.")
	case len(untimed) > 0:
		c.found(Finding{Kind: "untimed", Severity: Note, Count: len(untimed), Example: c.name(untimed[0]),
			Fix: "add a column time to the targets: what was not there yet was not shown"},
			"%s no time; they count as there all the time.",
			amount.OneOrMore(len(untimed), "target has", "targets have"))
	}
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
		c.found(Finding{Kind: "no-nodes", Severity: Wrong, Count: 1, Fix: "add nodes"}, "There are no nodes.")
		return nil
	case named == 0:
		c.found(Finding{Kind: "no-fields", Severity: Weak, Count: 1,
			Fix: "add a column field, or let fields be found among the vectors when fitting"},
			"No node has a field, and exposure is learned per pair of fields.")
		return nil
	case named == 1 && unknown == 0:
		c.found(Finding{Kind: "one-field", Severity: Weak, Count: 1, Example: c.g.FieldName(1),
			Fix: "use a finer division, or let fields be found among the vectors when fitting"},
			"All nodes have one field, and exposure is learned per pair of fields.")
	}
	c.found(Finding{Kind: "fieldless", Severity: weakIf(10*unknown > c.g.Len()), Count: unknown,
		Example: c.nameAt(int(first[graph.UnknownField])),
		Fix:     "give them a field; until then they share one, unknown"},
		"%s no field.", nodesHave(unknown, c.g.Len()))
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
		c.found(Finding{Kind: "tiny-field", Severity: Weak, Count: tiny,
			Example: fmt.Sprintf("%q has %d", c.g.FieldName(uint16(smallest)), sizes[smallest]),
			Fix:     "merge them with fields that are shown to the same people"},
			"%s fewer than %d nodes, too few to learn their exposure.", amount.OneOrMore(tiny, "field has",
				"fields have"),
			tinyField)
	}
	c.found(Finding{Kind: "empty-field", Severity: Note, Count: empty},
		"%s no node.", amount.OneOrMore(empty, "field has", "fields have"))
	return nil
}

func (c *checker) texts(ctx context.Context) error {
	if !c.d.HasText() {
		c.vectorless(false)
		return nil
	}
	missing, first := 0, -1
	targets := c.g.Targets() // people, who are sources alone, are known by their links
	for k, i := range targets {
		if k%rowsPerBatch == 0 && ctx.Err() != nil {
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
	c.vectorless(missing < len(targets))
	if missing < len(targets) {
		severity := weakIf(10*missing > len(targets) && c.g.Vectors() == nil)
		c.found(Finding{Kind: "textless", Severity: severity, Count: missing, Example: c.nameAt(first),
			Fix: "use the title instead, or leave these nodes out"},
			"%s no text.", nodesHave(missing, len(targets)))
	}
	return nil
}

// vectorless says what to do where there are no vectors.
func (c *checker) vectorless(texts bool) {
	switch titled := slices.ContainsFunc(c.indices(),
		func(i int32) bool { return strings.TrimSpace(c.g.Title(i)) != "" }); {
	case c.g.Vectors() != nil || c.g.Len() == 0:
	case (texts || titled) && c.g.TwoSided():
		c.found(Finding{Kind: "no-vectors", Severity: Note, Count: 1,
			Fix: "nothing, or encode the titles and texts to compare items by them"},
			"There are no vectors, and none are needed: factors of people and items are learned from links. An item "+
				"without links has none.")
	case texts || titled:
		c.found(Finding{Kind: "no-vectors", Severity: Note, Count: 1,
			Fix: "encode the titles and texts"},
			"There are no vectors yet. Models compare nodes by their vectors.")
	case c.g.TwoSided():
		c.found(Finding{Kind: "no-text", Severity: Note, Count: 1,
			Fix: "add a column text or title to the items and encode it"},
			"There are neither texts nor titles nor vectors. Factors of people and items are learned from links "+
				"alone, "+
				"and an item without links has none.")
	default:
		c.found(Finding{Kind: "no-text", Severity: Wrong, Count: 1,
			Fix: "add vectors of your own, " + VectorsFile + "; or add a column text or title to " + NodesFile +
				" and encode it"},
			"There are neither texts nor titles nor vectors, so nodes cannot be compared.")
	}
}

func (c *checker) vectors(ctx context.Context) error {
	v := c.g.Vectors()
	if v == nil {
		return nil
	}
	c.report.Dimension = v.Dim()
	if Wide(v.Dim()) {
		c.found(Finding{Kind: "wide", Severity: Note, Count: 1,
			Fix: "reduce them in seconds, which replaces " + VectorsFile},
			"Vectors have %d dimensions, which makes fitting slow.", v.Dim())
	}
	r, err := v.Check(c.g)
	if err != nil {
		return fileError(c.d.path(VectorsFile), err, "")
	}
	if err := c.lengths(ctx, v); err != nil {
		return err
	}
	if echo := c.g.Echo(); echo >= graph.EchoFrom && c.neighboursDiffer() {
		c.found(Finding{Kind: "echo", Severity: Weak, Count: 1,
			Fix: "use vectors that say what nodes are like, such as those of their texts"},
			"The vectors follow from the links: they agree to %.0f%% with those of the nodes that each is "+
				"linked with. Vectors made from links contain exposure and hide it.", 100*echo)
	}
	first := func(ids []string) string {
		if len(ids) == 0 {
			return ""
		}
		i, _ := c.g.Index(ids[0])
		return c.name(i)
	}
	c.found(Finding{Kind: "not-finite", Severity: Wrong, Count: r.NotFinite, Example: first(r.NotFiniteIDs),
		Fix: "encode these nodes again or leave them out"},
		"%s a vector that holds a NaN or an infinity.", nodesHave(r.NotFinite, c.g.Len()))
	c.found(Finding{Kind: "zero-vector", Severity: weakIf(10*r.Zero > c.g.Len()), Count: r.Zero,
		Example: first(r.ZeroIDs), Fix: "give them text and encode them again, or leave them out"},
		"%s a vector of zeros, which is like no other.", nodesHave(r.Zero, c.g.Len()))
	return nil
}

// lengths finds vectors that spoil training by their lengths, and those that are all the same.
func (c *checker) lengths(ctx context.Context, v *graph.Vectors) error {
	var t lengths.Tally
	row, first := make([]float32, v.Dim()), make([]float32, v.Dim())
	alike := v.Len() > 1
	for i := range int32(v.Len()) {
		if i%rowsPerBatch == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if v.Load(row, i); i == 0 {
			copy(first, row)
		}
		alike = alike && slices.Equal(row, first)
		t.Add(i, lengths.Square(row))
	}
	if alike && t.Zero == 0 {
		c.found(Finding{Kind: "same-vectors", Severity: Weak, Count: v.Len(),
			Fix: "encode the nodes by texts of their own"},
			"All %s vectors are the same, so that texts tell nothing.", amount.Text(v.Len()))
	}
	if t.OutOfRange() {
		c.found(Finding{Kind: "vector-scale", Severity: Weak, Count: v.Len(),
			Fix: fmt.Sprintf("divide all vectors by %.0e, or encode the texts again", t.Median())},
			"Vectors are about %.0e long. Training adds up products of four of their numbers, which overflow or "+
				"vanish in float32 unless most lengths are between %.0e and %.0e: what texts say is lost.", t.Median(),
			lengths.Shortest, lengths.Longest)
	}
	length := func(i int32) string {
		v.Load(row, i)
		return fmt.Sprintf("%s is %.2g long, the median about %.2g", c.name(i), math.Sqrt(lengths.Square(row)),
			t.Median())
	}
	if n, i := t.Longer(); n > 0 {
		c.found(Finding{Kind: "long-vector", Severity: Weak, Count: n, Example: length(i),
			Fix: "encode these nodes again, leave them out, or divide every vector by its length"},
			"%s a vector more than %d times as long as the median one. All have one scale in training, so that these "+
				"drown what the texts of the others say.", nodesHave(n, c.g.Len()), lengths.Far)
	}
	if n, i := t.Shorter(); n > 0 {
		c.found(Finding{Kind: "short-vector", Severity: weakIf(10*n > c.g.Len()), Count: n, Example: length(i),
			Fix: "encode these nodes again, leave them out, or divide every vector by its length"},
			"%s a vector more than %d times as short as the median one, which is as good as none.",
			nodesHave(n, c.g.Len()), lengths.Far)
	}
	return nil
}

// echoNodes is how many nodes with links it takes at least to tell whether vectors follow from the links: two numbers
// always agree with two others.
const echoNodes = 20

// neighboursDiffer reports whether links can tell nodes apart: there are enough nodes with links, and most of them are
// not linked with all others. In a graph of all pairs the neighbours of a node add up to all but itself, so that any
// vectors seem to follow from the links.
func (c *checker) neighboursDiffer() bool {
	linked, most := 0, 0
	degrees := make([]int, c.g.Len())
	for i := range degrees {
		out, in := c.g.Out(int32(i)), c.g.In(int32(i))
		degrees[i] = len(out) + len(in)
		for _, j := range out { // a link and its reverse lead to one neighbour
			if _, both := slices.BinarySearch(in, j); both {
				degrees[i]--
			}
		}
		if degrees[i] > 0 {
			linked++
		}
	}
	for _, d := range degrees {
		if d > 0 && d < linked-1 {
			most++
		}
	}
	return linked >= echoNodes && 2*most > linked
}

func (c *checker) exposures(ctx context.Context) error {
	e, err := c.d.Exposures(ctx)
	if e, ok := errors.AsType[*Error](err); ok && ctx.Err() == nil {
		fix, cause := e.parts()
		c.found(Finding{Kind: "bad-exposures", Severity: Wrong, Count: 1, Fix: fix},
			"The exposures cannot be read: %s: %v.", e.place(), cause)
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
			was := map[bool]string{true: "exposed", false: "not exposed"}[e.Exposed[k]]
			impossible.add("row %d: %s, with the probability %v of being shown", k, was, e.Shown[k])
		}
	}
	c.log(e)
	c.found(Finding{Kind: "exposed-self", Severity: Wrong, Count: selves.count, Example: selves.example,
		Fix: "leave them out"},
		"%s of a node with itself.", amount.OneOrMore(selves.count, "exposure is", "exposures are"))
	c.found(Finding{Kind: "linked-unexposed", Severity: Weak, Count: unseen.count, Example: unseen.example,
		Fix: "a link says that its target was seen somehow: note it as exposed, or log where it was seen"},
		"%s linked and not exposed.", amount.OneOrMore(unseen.count, "exposure is", "exposures are"))
	c.found(Finding{Kind: "exposure-disagrees", Severity: Weak, Count: unknown.count, Example: unknown.example,
		Fix: "add the links to " + LinksFile + ", or correct the column linked"},
		"%s from %s on whether there is a link.", amount.OneOrMore(unknown.count, "exposure differs",
			"exposures differ"),
		LinksFile)
	c.found(Finding{Kind: "impossible-exposure", Severity: Wrong, Count: impossible.count, Example: impossible.example,
		Fix: "probabilities of 0 and 1 allow one outcome; correct one of the two columns"},
		"%s what their probability excludes.", amount.OneOrMore(impossible.count, "exposure did", "exposures did"))
	return nil
}

// log finds out whether the exposures can be read as a sample, as they are unless somebody says otherwise, and whether
// they contradict themselves.
func (c *checker) log(e *Exposures) {
	pairs := make([]uint64, 0, e.Len()) // by source and target, the last bit says whether it was shown
	unshown, linked := 0, 0
	for k, i := range e.Source {
		pair := uint64(i)<<32 | uint64(e.Target[k])<<1
		switch {
		case e.Exposed[k]:
			pair |= 1
		case e.Linked[k]:
			linked++
			pair |= 1
		default:
			unshown++
		}
		pairs = append(pairs, pair)
	}
	if !slices.IsSorted(pairs) {
		slices.Sort(pairs)
	}
	contradicted, example := 0, ""
	for k := 1; k < len(pairs); k++ {
		if pairs[k] == pairs[k-1]+1 && pairs[k]&1 == 1 {
			if contradicted++; contradicted == 1 {
				example = fmt.Sprintf("%s and %s", c.name(int32(pairs[k]>>32)), c.name(int32(uint32(pairs[k])>>1)))
			}
		}
	}
	c.found(Finding{Kind: "contradicted-exposure", Severity: weakIf(20*contradicted > e.Len()), Count: contradicted,
		Example: example,
		Fix:     "nothing, if they were shown at one time and not at another; else leave the wrong rows out"},
		"%s in the log both as shown and as not shown, and count as shown.",
		amount.OneOrMore(contradicted, "pair is", "pairs are"))
	if unshown > 0 || e.Len() == 0 || c.d.manifest.Log != "" && c.d.manifest.Log != "sample" {
		return
	}
	c.found(Finding{Kind: "shown-only", Severity: Weak, Count: e.Len(),
		Fix: "if nothing else was shown to their sources, fit with the log as complete, else with the log ignored"},
		"The log holds only pairs that were shown%s, so it cannot tell how many were not: it is refused as a sample.",
		orLinked(linked))
}

// orLinked says why pairs count as shown that a log has as not shown.
func orLinked(linked int) string {
	if linked == 0 {
		return ""
	}
	return fmt.Sprintf(" or linked (a link counts as shown, and %s)",
		amount.OneOrMore(linked, "row is linked and not exposed", "rows are linked and not exposed"))
}

// name is how a report names a node: by its id, and its title if it has one.
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

func weakIf(weak bool) Severity {
	if weak {
		return Weak
	}
	return Note
}

func nodesHave(n, of int) string {
	if of > 0 && n > 1 {
		return fmt.Sprintf("%d of %d nodes have", n, of)
	}
	return amount.OneOrMore(n, "node has", "nodes have")
}

func linksGo(n int) string { return amount.OneOrMore(n, "link goes", "links go") }
