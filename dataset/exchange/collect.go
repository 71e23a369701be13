package exchange

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
	"unsafe"

	"unseen/dataset"
	"unseen/graph"
	"unseen/hint"
	"unseen/internal/amount"
	"unseen/internal/atomicfile"
)

// collector is the Sink of Import: a graph in memory, texts and vectors in temporary files.
type collector struct {
	ctx     context.Context
	options Options
	scratch string
	roots   map[string]string // field as given → field as stored
	report  Report

	builder   graph.Builder
	nodes     int
	names     nameRoom
	lastField uint16 // the highest number of a field
	ended     bool   // no further Node comes

	batch    batch
	wanted   map[string]int32 // ids that are no nodes yet, by the number of their first use
	awaited  []string         // the ids of wanted
	waiting  []waiting        // links with at least one wanted end
	files    []string         // of waiting links
	shown    [][]exposure     // in chunks, so that growing copies nothing
	exposed  int64            // exposures given
	surfaces *interner        // of exposures; nil before the first
	joined   exposureParts    // of an importer of interactions; nil for others
	log      string           // what these mean for other pairs, unless it is set
	repeats  int64            // rows of interactions beyond the first of their pair
	fields   map[string]bool  // that Field declared
	missing  int              // nodes whose field says that it is missing

	texts    *spool
	vectors  *os.File
	dim      int
	vectored int // vectors that were set
	rejects  *rejects
}

// waiting is a link or an exposure by the numbers of its ends: a node's, or −1−k for awaited[k].
type waiting struct {
	source, target int32
	file, line     int32
	seconds        int64 // of a link
}

type exposure struct {
	waiting
	shown           float64
	exposed, linked bool
	count, position int32
	surface         uint16
}

// batch is links by id, copied, that are looked up together.
type batch struct {
	text             []byte
	ends             []int // of sources and targets in turn
	at               []Place
	seconds          []int64
	sources, targets []string
	from, to         [batchSize]int32
}

const (
	batchSize         = 1024
	exposuresPerChunk = 1 << 14
)

func newCollector(ctx context.Context, scratch string, o Options) (*collector, error) {
	c := &collector{ctx: ctx, options: o, scratch: scratch, roots: map[string]string{}, wanted: map[string]int32{},
		fields: map[string]bool{}}
	c.names = newNameRoom(o)
	c.builder.DropSelfLinks = true
	for _, field := range slices.Sorted(maps.Keys(o.FieldTree)) {
		if _, err := rootOf(field, o.FieldTree); err != nil {
			return nil, err
		}
	}
	c.rejects = &rejects{folder: scratch}
	return c, nil
}

// rootOf climbs the tree of fields.
func rootOf(field string, tree map[string]string) (string, error) {
	for range len(tree) + 1 {
		parent, has := tree[field]
		if !has || parent == "" {
			return field, nil
		}
		field = parent
	}
	return "", failAt(Place{}, fmt.Errorf("%w: the tree of fields has a cycle through %.80q", ErrUsage, field),
		"give every field one parent, and roots none")
}

// field is the field that a node gets.
func (c *collector) field(given string) string {
	if c.options.FieldSeparator == "" && c.options.FieldTree == nil {
		return given
	}
	if root, known := c.roots[given]; known {
		return root
	}
	first := given
	if c.options.FieldSeparator != "" {
		for part := range strings.SplitSeq(given, c.options.FieldSeparator) {
			if first = strings.TrimSpace(part); first != "" {
				break
			}
		}
	}
	root, err := rootOf(first, c.options.FieldTree)
	if err != nil {
		root = first // cannot happen: newCollector has checked every field of the tree
	}
	root = strings.Clone(root)
	if len(c.roots) < 1<<20 { // there may be as many lists of fields as nodes
		c.roots[strings.Clone(given)] = root
	}
	return root
}

func (c *collector) Field(name string) error {
	name = strings.Clone(name)
	_, err := c.builder.AddField(name)
	if err != nil {
		return &Error{Place{}, err}
	}
	c.fields[name] = true
	return nil
}

func (c *collector) Node(n NodeRecord, at Place) (int32, error) {
	if c.ended {
		return -1, failAt(at, errors.New("a node after EndNodes"), "report this bug of the format")
	}
	// Links of the batch may make nodes of ends that have no record.
	if len(c.batch.at) > 0 {
		if err := c.flush(); err != nil {
			return -1, err
		}
	}
	if err := n.fault(); err != nil {
		return -1, c.Reject(at, err, []byte(n.ID[:min(len(n.ID), beginning)]))
	}
	if err := c.names.take(at, len(n.ID)+len(n.Title)); err != nil {
		return -1, err
	}
	field := c.field(n.Field)
	if missingValue(field) && !c.fields[field] {
		field = ""
	}
	i, err := c.builder.AddNode(graph.Node{ID: n.ID, Field: field, Title: n.Title, Time: n.Time, Role: n.Role})
	switch {
	case errors.Is(err, graph.ErrEmptyID):
		return -1, c.Reject(at, emptyID(), []byte(n.Title))
	case errors.Is(err, graph.ErrDuplicateNode):
		return -1, c.Reject(at, duplicateID(n.ID), []byte(n.ID))
	case err != nil:
		return -1, &Error{at, err}
	}
	if field == "" && strings.TrimSpace(n.Field) != "" {
		c.missing++
	}
	c.nodes++
	if number, err := c.builder.AddField(field); err == nil && number > c.lastField {
		c.lastField = number
		if err := c.names.take(at, 4*len(field)); err != nil { // kept by name, by number and in the manifest
			return -1, err
		}
	}
	if n.Text != "" || c.texts != nil {
		if err := c.addText(i, n.Text); err != nil {
			return -1, err
		}
	}
	if c.nodes%batchSize == 0 {
		return i, c.ctx.Err()
	}
	return i, nil
}

// fault says what is wrong with the texts of a node: too long, or not UTF-8.
func (n *NodeRecord) fault() error {
	for _, part := range [...]struct{ name, text string }{{"id", n.ID}, {"field", n.Field}, {"title", n.Title},
		{"text", n.Text}} {
		if most := mostBytes[part.name]; len(part.text) > most {
			return tooLong(part.name, len(part.text), most)
		}
		if !utf8.ValidString(part.text) {
			return withEncodingHint(fmt.Errorf("%w: the %s", ErrEncoding, part.name))
		}
	}
	return nil
}

func duplicateID(id string) error {
	return hint.Wrap(fmt.Errorf("%w: %.80q", ErrDuplicateNode, id), "merge the records, or change one id")
}

func emptyID() error {
	return hint.Wrap(fmt.Errorf("%w: the id is empty", ErrFormat), "give every node an id")
}

// nameRoom is the memory that names of nodes may still take.
type nameRoom struct {
	left, most, size int64
}

// nodeBytes is what a node takes besides its names.
const nodeBytes = 16

func newNameRoom(o Options) nameRoom {
	most := o.Limits.withDefaults().names(o.size)
	return nameRoom{most, most, o.size}
}

// take takes the memory of one name more.
func (r *nameRoom) take(at Place, bytes int) error {
	if r.left -= int64(bytes + nodeBytes); r.left >= 0 {
		return nil
	}
	return failAt(at, fmt.Errorf("%w: ids, titles and fields of more than %d bytes out of %d", ErrExpands, r.most,
		r.size), expandHint)
}

// mostBytes is the length of the longest text that a node may have.
var mostBytes = map[string]int{"id": 1 << 10, "field": 1 << 12, "title": 1 << 16, "text": 1 << 23}

func tooLong(what string, size, most int) error {
	return hint.Wrap(fmt.Errorf("%w: the %s has %d bytes", ErrTooLong, what, size),
		"give at most %d, or set %v to skip such records", most, hint.Setting("lenient"))
}

// missingValue reports whether a field only says that there is none.
func missingValue(field string) bool {
	switch strings.ToLower(strings.TrimSpace(field)) {
	case "", "none", "unknown", "n/a", "nan", "null":
		return true
	}
	return false
}

// link, showings and repeat take what an importer of interactions has joined.
func (c *collector) link(source, target int32, seconds int64) error {
	if err := c.builder.AddLinkAt(source, target, seconds); err != nil {
		return &Error{Place{}, err}
	}
	return nil
}

func (c *collector) showings(count int, log string, parts exposureParts) {
	c.report.Exposures, c.log, c.joined = count, log, parts
}

func (c *collector) repeat(rows int64) { c.repeats += rows }

func (c *collector) NodesFromLinks() { c.options.NodesFromLinks = true }

func (c *collector) EndNodes() { c.ended = true }

func (c *collector) Link(source, target string, at Place) error {
	return c.LinkAt(source, target, graph.NoTime, at)
}

func (c *collector) LinkAt(source, target string, seconds int64, at Place) error {
	if most := mostBytes["id"]; len(source) > most || len(target) > most {
		if err := c.flush(); err != nil {
			return err
		}
		_, _, _, err := c.ends(source, target, at, false)
		return err
	}
	b := &c.batch
	b.seconds = append(b.seconds, seconds)
	b.text = append(b.text, source...)
	b.ends = append(b.ends, len(b.text))
	b.text = append(b.text, target...)
	b.ends = append(b.ends, len(b.text))
	if b.at = append(b.at, at); len(b.at) == batchSize {
		return c.flush()
	}
	return nil
}

// flush looks up the ends of a batch of links and adds them.
func (c *collector) flush() error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	b := &c.batch
	n := len(b.at)
	if n == 0 {
		return nil
	}
	text := unsafe.String(unsafe.SliceData(b.text), len(b.text))
	b.sources, b.targets = b.sources[:0], b.targets[:0]
	start := 0
	for k := range n {
		middle, end := b.ends[2*k], b.ends[2*k+1]
		b.sources, b.targets = append(b.sources, text[start:middle]), append(b.targets, text[middle:end])
		start = end
	}
	// Emptied first, since addAll may call flush again.
	at, seconds := b.at, b.seconds
	b.text, b.ends, b.at, b.seconds = b.text[:0], b.ends[:0], b.at[:0], b.seconds[:0]
	return c.addAll(b.sources, b.targets, seconds, func(k int) Place { return at[k] })
}

// linkBatch adds links whose ids need no copy, line after line from a place on.
func (c *collector) linkBatch(sources, targets []string, first Place) error {
	if err := c.flush(); err != nil {
		return err
	}
	for start := 0; start < len(sources); start += batchSize {
		end := min(start+batchSize, len(sources))
		err := c.addAll(sources[start:end], targets[start:end], nil, func(k int) Place {
			return Place{File: first.File, Line: first.Line + start + k}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// linkBatcher is a Sink that takes many links at once.
type linkBatcher interface {
	linkBatch(sources, targets []string, first Place) error
}

// addAll looks up the ends of at most batchSize links and adds them; seconds may be nil.
func (c *collector) addAll(sources, targets []string, seconds []int64, at func(k int) Place) error {
	b, n := &c.batch, len(sources)
	// Most of the time is spent waiting for memory, which two goroutines can do at once.
	var both sync.WaitGroup
	if n == batchSize {
		both.Go(func() { c.builder.Find(b.from[:n], sources) })
	} else {
		c.builder.Find(b.from[:n], sources)
	}
	c.builder.Find(b.to[:n], targets)
	both.Wait()
	for k := range n {
		from, to, when := b.from[k], b.to[k], int64(graph.NoTime)
		if seconds != nil {
			when = seconds[k]
		}
		if from >= 0 && to >= 0 {
			if err := c.add(from, to, when, at(k)); err != nil {
				return err
			}
			continue
		}
		from, to, ok, err := c.ends(sources[k], targets[k], at(k), c.options.NodesFromLinks)
		if err != nil {
			return err
		}
		switch {
		case !ok:
		case from >= 0 && to >= 0:
			err = c.add(from, to, when, at(k))
		default:
			w := c.waitingAt(from, to, at(k))
			w.seconds = when
			c.waiting = append(c.waiting, w)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add adds a link between two nodes.
func (c *collector) add(from, to int32, seconds int64, at Place) error {
	err := c.builder.AddLinkAt(from, to, seconds)
	if err == nil && c.options.Undirected && from != to {
		err = c.builder.AddLinkAt(to, from, seconds)
	}
	if link, is := errors.AsType[*graph.LinkError](err); is { // of a role: unknown ends never get here
		return c.Reject(at, hint.Wrap(link.Err, "%s", link.Hint), nil)
	}
	if err != nil {
		return &Error{at, err}
	}
	return nil
}

// ends returns the numbers of two ends: of nodes, or of ids that may still become nodes. It is not ok where
// an end cannot be a node and was rejected.
func (c *collector) ends(source, target string, at Place, make bool) (from, to int32, ok bool, err error) {
	numbers := [2]int32{}
	for k, id := range [2]string{source, target} {
		name := [2]string{"source", "target"}[k]
		if most := mostBytes["id"]; len(id) > most {
			return 0, 0, false, c.Reject(at, tooLong(name, len(id), most), []byte(id[:beginning]))
		}
		i := [1]int32{}
		c.builder.Find(i[:], []string{id})
		switch {
		case i[0] >= 0:
			numbers[k] = i[0]
		case id == "":
			return 0, 0, false, c.Reject(at, hint.Wrap(fmt.Errorf("%w: the %s is empty", ErrFormat, name),
				"give every link two ends"), pair(source, target))
		case !utf8.ValidString(id):
			return 0, 0, false, c.Reject(at, withEncodingHint(fmt.Errorf("%w: the %s", ErrEncoding, name)),
				pair(source, target))
		case c.ended && make:
			if err := c.names.take(at, len(id)); err != nil {
				return 0, 0, false, err
			}
			if numbers[k], err = c.builder.AddNode(graph.Node{ID: id}); err != nil {
				return 0, 0, false, &Error{at, err}
			}
			c.nodes++
		case c.ended:
			return 0, 0, false, c.noNode(name, id, at, pair(source, target))
		default:
			number, known := c.wanted[id]
			if !known {
				if err := c.names.take(at, 2*len(id)+nodeBytes); err != nil { // it is kept twice
					return 0, 0, false, err
				}
				id = strings.Clone(id)
				number = int32(len(c.awaited))
				c.wanted[id] = number
				c.awaited = append(c.awaited, id)
			}
			numbers[k] = -1 - number
		}
	}
	return numbers[0], numbers[1], true, nil
}

func pair(source, target string) []byte { return []byte(source + "," + target) }

func (c *collector) noNode(end, id string, at Place, record []byte) error {
	return c.Reject(at, hint.Wrap(fmt.Errorf("%w: the %s %.80q", ErrUnknownNode, end, id),
		"add the node, set %v to skip such records, or set %v to add missing nodes", hint.Setting("lenient"),
		hint.Setting("nodesFromLinks")), record)
}

func (c *collector) waitingAt(from, to int32, at Place) waiting {
	if n := len(c.files); n == 0 || c.files[n-1] != at.File {
		c.files = append(c.files, at.File)
	}
	return waiting{from, to, int32(len(c.files) - 1), int32(min(at.Line, math.MaxInt32)), graph.NoTime}
}

func (c *collector) LinkIndex(source, target int32, at Place) error {
	if n := uint32(c.nodes); uint32(source) >= n || uint32(target) >= n {
		return c.Reject(at, hint.Wrap(fmt.Errorf("%w: %d links to %d, and there are %d nodes", ErrUnknownNode, source,
			target, c.nodes), "number nodes from 0"), fmt.Appendf(nil, "%d,%d", source, target))
	}
	return c.add(source, target, graph.NoTime, at)
}

func (c *collector) Exposure(e ExposureRecord, at Place) error {
	if most := c.options.Limits.withDefaults().exposures(c.options.size); c.exposed >= most {
		return failAt(at, fmt.Errorf("%w: more than %d exposures out of %d bytes", ErrExpands, most, c.options.size),
			expandHint)
	}
	if !math.IsNaN(e.Shown) && !(e.Shown >= 0 && e.Shown <= 1) {
		return c.Reject(at, hint.Wrap(fmt.Errorf("%w: shown with probability %v", ErrFormat, e.Shown),
			"give a probability from 0 to 1"), pair(e.Source, e.Target))
	}
	// Earlier links may make the nodes of this pair.
	if err := c.flush(); err != nil {
		return err
	}
	from, to, ok, err := c.ends(e.Source, e.Target, at, false)
	if err != nil || !ok {
		return err
	}
	x := exposure{waiting: c.waitingAt(from, to, at), shown: e.Shown, exposed: e.Exposed, linked: e.Linked,
		count: int32(max(0, min(e.Count, math.MaxInt32))), position: int32(max(0, min(e.Position, math.MaxInt32)))}
	if !e.Time.IsZero() {
		x.seconds = e.Time.Unix()
	}
	if x.surface, err = c.surface(e.Surface); err != nil {
		return c.Reject(at, err, pair(e.Source, e.Target))
	}
	if c.exposed%exposuresPerChunk == 0 {
		c.shown = append(c.shown, make([]exposure, 0, exposuresPerChunk))
	}
	last := &c.shown[len(c.shown)-1]
	*last = append(*last, x)
	c.exposed++
	return nil
}

// surface numbers the name of a surface.
func (c *collector) surface(name string) (uint16, error) {
	if c.surfaces == nil {
		c.surfaces = newInterner()
		c.surfaces.add("")
	}
	number, err := c.surfaces.add(name)
	if err != nil || number > math.MaxUint16 {
		return 0, hint.Wrap(fmt.Errorf("%w: more than %d surfaces", graph.ErrTooLarge, math.MaxUint16),
			"merge the rare ones")
	}
	return uint16(number), nil
}

func (c *collector) Has(id string) bool {
	if len(c.batch.at) > 0 && c.options.NodesFromLinks {
		if c.flush() != nil { // cancelled or disk full, which the next call reports
			return false
		}
	}
	i := [1]int32{}
	c.builder.Find(i[:], []string{id})
	return i[0] >= 0
}

func (c *collector) Vector(node int32, vector []float32, at Place) error {
	if node < 0 || int(node) >= c.nodes {
		return failAt(at, fmt.Errorf("%w: a vector of node %d, and there are %d nodes", ErrFormat, node, c.nodes),
			"give one vector per node")
	}
	if c.vectors == nil {
		if len(vector) == 0 {
			return failAt(at, fmt.Errorf("%w: an empty vector", ErrFormat), "give vectors of dimension 1 or more")
		}
		file, err := os.Create(filepath.Join(c.scratch, "vectors.npy"))
		if err != nil {
			return diskError(c.scratch, err)
		}
		c.vectors, c.dim = file, len(vector)
	}
	if len(vector) != c.dim {
		return c.Reject(at, hint.Wrap(fmt.Errorf("%w: a vector of %d numbers among vectors of %d", ErrFormat,
			len(vector), c.dim), "give all vectors the same dimension"), nil)
	}
	for k, x := range vector {
		if !(math.Abs(float64(x)) <= math.MaxFloat32) {
			return c.Reject(at, hint.Wrap(fmt.Errorf("%w: the vector has %v at position %d", ErrFormat, x, k),
				"compute the vector again"), nil)
		}
	}
	raw := make([]byte, 0, 4*len(vector))
	for _, x := range vector {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	c.vectored++
	if _, err := c.vectors.WriteAt(raw, npyRoom+int64(node)*int64(4*c.dim)); err != nil {
		return diskError(c.scratch, err)
	}
	return nil
}

func (c *collector) Reject(at Place, reason error, record []byte) error {
	if !c.options.Lenient {
		return strictError(at, reason)
	}
	c.report.Rejected++
	if err := c.rejects.add(at, reason, record); err != nil {
		return diskError(c.scratch, err)
	}
	return nil
}

// strictError is the error of a strict import at a bad record.
func strictError(at Place, reason error) error {
	switch fix, settings := hint.Of(reason); {
	case fix == "":
		reason = hint.Wrap(reason, "set %v to skip such records", hint.Setting("lenient"))
	case !slices.Contains(settings, "lenient"):
		reason = hint.Wrap(reason, "or set %v to skip such records", hint.Setting("lenient"))
	}
	return &Error{at, reason}
}

func (c *collector) Note(format string, a ...any) {
	c.report.Notes = append(c.report.Notes, hint.Notef(format, a...))
}

// diskError is an error of writing or reading temporary files.
func diskError(folder string, err error) error {
	return failAt(Place{File: filepath.Dir(folder)}, atomicfile.WithoutPath(err), "free space on the disk")
}

// spool keeps texts in a file, in the order of their nodes.
type spool struct {
	file *os.File
	w    *bufio.Writer
	r    *bufio.Reader
	n    int32 // texts
}

func (c *collector) addText(i int32, text string) error {
	if c.texts == nil {
		file, err := os.Create(filepath.Join(c.scratch, "texts"))
		if err != nil {
			return diskError(c.scratch, err)
		}
		c.texts = &spool{file: file, w: bufio.NewWriterSize(file, 1<<18)}
	}
	s := c.texts
	for ; s.n < i; s.n++ {
		s.w.WriteByte(0)
	}
	s.n++
	var length [binary.MaxVarintLen64]byte
	s.w.Write(length[:binary.PutUvarint(length[:], uint64(len(text)))])
	if _, err := s.w.WriteString(text); err != nil {
		return diskError(c.scratch, err)
	}
	return nil
}

// next returns the texts of nodes 0, 1, 2, … in turn.
func (s *spool) next(i int32) (string, error) {
	if i >= s.n {
		return "", nil
	}
	n, err := binary.ReadUvarint(s.r)
	if err != nil {
		return "", err
	}
	text := make([]byte, n)
	_, err = io.ReadFull(s.r, text)
	return unsafe.String(unsafe.SliceData(text), len(text)), err
}

// finish resolves what waits and returns the content to be written.
func (c *collector) finish() (content dataset.Content, err error) {
	if err := c.flush(); err != nil {
		return content, err
	}
	c.ended = true
	numbers, err := c.resolve()
	if err != nil {
		return content, err
	}
	if err := c.addWaiting(numbers); err != nil {
		return content, err
	}
	if content.Exposures, err = c.exposures(numbers); err != nil {
		return content, err
	}
	content.Log = cmp.Or(c.options.Flag("log"), c.log)
	if c.report.Exposures == 0 && content.Log == "ignored" {
		content.Log = "" // there is nothing to ignore
	}
	if content.Log != "" && c.report.Exposures == 0 {
		return content, failAt(Place{}, fmt.Errorf("%w: log is %s, and there are no exposures", ErrUsage, content.Log),
			"leave %v out, or name a file of what was shown", hint.Setting("log"))
	}
	if content.Text, err = c.rewindTexts(); err != nil {
		return content, err
	}
	content.Graph, err = c.build()
	if err == nil && c.joined != nil {
		content.ExposureParts = c.joined(content.Graph.HasLink)
	}
	return content, err
}

// addWaiting adds the links that waited for nodes, whose numbers are now known.
func (c *collector) addWaiting(numbers []int32) error {
	for k, w := range c.waiting {
		if k%batchSize == 0 && c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		from, to := numberOf(w.source, numbers), numberOf(w.target, numbers)
		if from < 0 || to < 0 {
			if err := c.rejectWaiting(w, from); err != nil {
				return err
			}
		} else if err := c.add(from, to, w.seconds, c.placeOf(w)); err != nil {
			return err
		}
	}
	c.waiting = nil
	return nil
}

// exposures returns the exposures, with their ends resolved; nil where there are none.
func (c *collector) exposures(numbers []int32) (*dataset.Exposures, error) {
	if len(c.shown) == 0 {
		return nil, nil
	}
	e, n := &dataset.Exposures{}, int(c.exposed)
	e.Source, e.Target, e.Shown = make([]int32, 0, n), make([]int32, 0, n), make([]float64, 0, n)
	e.Exposed, e.Linked = make([]bool, 0, n), make([]bool, 0, n)
	e.Count, e.Position = make([]int32, 0, n), make([]int32, 0, n)
	e.Surface, e.Time = make([]uint16, 0, n), make([]int64, 0, n)
	known, counted, placed, surfaced, timed, unshown := false, false, false, false, false, false
	for x := range c.eachShown() {
		from, to := numberOf(x.source, numbers), numberOf(x.target, numbers)
		if from < 0 || to < 0 {
			if err := c.rejectWaiting(x.waiting, from); err != nil {
				return nil, err
			}
			continue
		}
		e.Source, e.Target = append(e.Source, from), append(e.Target, to)
		e.Exposed, e.Linked = append(e.Exposed, x.exposed), append(e.Linked, x.linked)
		e.Shown = append(e.Shown, x.shown)
		known = known || !math.IsNaN(x.shown)
		e.Count, e.Position = append(e.Count, x.count), append(e.Position, x.position)
		e.Surface, e.Time = append(e.Surface, x.surface), append(e.Time, x.seconds)
		counted, placed = counted || x.count > 0, placed || x.position > 0
		surfaced, timed = surfaced || x.surface > 0, timed || x.seconds != graph.NoTime
		unshown = unshown || !x.exposed && !x.linked
	}
	if e.Len() > 0 && !unshown && !c.options.Given("log") {
		c.Note(unsaidLog, hint.Setting("log"))
	}
	if !known {
		e.Shown = nil
	}
	if !counted {
		e.Count = nil
	}
	if !placed {
		e.Position = nil
	}
	if e.Surfaces = c.surfaces.all(); !surfaced {
		e.Surface, e.Surfaces = nil, nil
	}
	if !timed {
		e.Time = nil
	}
	c.shown = nil
	c.report.Exposures = e.Len()
	return e, nil
}

// eachShown passes the exposures, and lets go of them.
func (c *collector) eachShown() iter.Seq[exposure] {
	return func(yield func(exposure) bool) {
		for k, chunk := range c.shown {
			for _, x := range chunk {
				if !yield(x) {
					return
				}
			}
			c.shown[k] = nil
		}
	}
}

// numberOf is the node of an end, −1 where there is none. Ends that waited are −1−k for numbers[k].
func numberOf(end int32, numbers []int32) int32 {
	if end >= 0 {
		return end
	}
	return numbers[-1-end]
}

func (c *collector) placeOf(w waiting) Place { return Place{File: c.files[w.file], Line: int(w.line)} }

// rejectWaiting rejects a pair of which an end never became a node: the source if from is −1, else the target.
func (c *collector) rejectWaiting(w waiting, from int32) error {
	name := func(k int32) string {
		if k < 0 {
			return c.awaited[-1-k]
		}
		return "…" // a node, which is not at fault
	}
	end, id := "target", w.target
	if from < 0 {
		end, id = "source", w.source
	}
	return c.noNode(end, name(id), c.placeOf(w), pair(name(w.source), name(w.target)))
}

// build makes the graph, with its vectors.
func (c *collector) build() (*graph.Graph, error) {
	g, built, err := c.builder.Build()
	if err != nil {
		return nil, &Error{Place{}, err}
	}
	built.Repeated += int(c.repeats)
	c.report.BuildReport = built
	if c.missing > 0 {
		c.Note("%s a field such as none or n/a, which counts as missing.",
			amount.OneOrMore(c.missing, "node has", "nodes have"))
	}
	if g.Len() == 0 {
		return nil, failAt(Place{File: strings.Join(c.options.Paths, " ")}, fmt.Errorf("%w: no nodes", ErrFormat),
			"check that the files are not empty and that the settings name their columns")
	}
	if c.vectors == nil {
		return g, nil
	}
	v, err := c.mapVectors(g.Len())
	if err != nil {
		return nil, err
	}
	c.report.Dimension = c.dim
	if missing := g.Len() - c.vectored; missing > 0 {
		c.Note("%d of %d nodes have no vector and get zeros.", missing, g.Len())
	}
	return g.WithTrustedVectors(v) // Vector has checked every number, and Write does again
}

// rewindTexts returns the texts of nodes, to be read in their order; nil where there are none.
func (c *collector) rewindTexts() (func(int32) (string, error), error) {
	if c.texts == nil {
		return nil, nil
	}
	if err := c.texts.w.Flush(); err != nil {
		return nil, diskError(c.scratch, err)
	}
	if _, err := c.texts.file.Seek(0, io.SeekStart); err != nil {
		return nil, diskError(c.scratch, err)
	}
	c.texts.r = bufio.NewReaderSize(c.texts.file, 1<<18)
	return c.texts.next, nil
}

// resolve returns the nodes of the wanted ids, −1 where there is none.
func (c *collector) resolve() ([]int32, error) {
	numbers := make([]int32, len(c.awaited))
	c.builder.Find(numbers, c.awaited)
	if !c.options.NodesFromLinks {
		return numbers, nil
	}
	// An id that only exposures name does not become a node.
	linked := make([]bool, len(c.awaited))
	for _, w := range c.waiting {
		for _, end := range [2]int32{w.source, w.target} {
			if end < 0 {
				linked[-1-end] = true
			}
		}
	}
	for k, i := range numbers {
		if i >= 0 || !linked[k] {
			continue
		}
		var err error
		if numbers[k], err = c.builder.AddNode(graph.Node{ID: c.awaited[k]}); err != nil {
			return nil, &Error{Place{}, err}
		}
		c.nodes++
	}
	return numbers, nil
}

// mapVectors completes the file of vectors and maps it.
func (c *collector) mapVectors(nodes int) (*graph.Vectors, error) {
	header, err := npyHeader("<f4", nodes, c.dim)
	if err != nil {
		return nil, err
	}
	if _, err = c.vectors.WriteAt(header, 0); err == nil {
		err = c.vectors.Truncate(npyRoom + int64(nodes)*int64(4*c.dim))
	}
	path := c.vectors.Name()
	if closed := c.vectors.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, diskError(c.scratch, err)
	}
	return dataset.MapVectors(path)
}

// close closes the files; the caller removes their folder.
func (c *collector) close() {
	if c.texts != nil {
		c.texts.file.Close()
	}
	if c.vectors != nil {
		c.vectors.Close()
	}
	c.rejects.close()
}
