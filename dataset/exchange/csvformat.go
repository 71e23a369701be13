package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"unseen/graph"
	"unseen/hint"
)

func init() {
	Register(Format{
		Name: "csv", Summary: "Comma- or tab-separated tables of nodes and links",
		Args: "FOLDER | NODES LINKS | LINKS",
		Help: `Paths are a folder that holds nodes.csv and links.csv (or edges.csv), the two
files themselves, or a file of links alone, whose ends become the nodes.
Files may be compressed (.gz, .zst). Vectors are read from features.npz or
vectors.npy in the folder, exposures from exposures.csv.

The first line names the columns. Flags say which column is which; without
them, columns are guessed by their names and the guesses are printed. Ids are
text: 00003 stays 00003.

A file of clicks is a log of choices (source, target, clicks): people saw the
page source, with all its links, and followed one. The links of the dataset are
then the pairs that were followed. Its exposures are what visitors were shown:
all links of pages on which at least one visitor followed a link, and whatever
was clicked. Links of pages without visitors are left out.`,
		Flags: slices.Concat(roleFlags, tableFlags, flagsOf("exposures", exposureRoles), []Flag{
			{Name: "clicks", Usage: "`FILE` with source, target, clicks"},
			{Name: "delimiter", Usage: "one `CHARACTER`, or tab (default: guessed)"},
			{Name: "no-header", Switch: true, Usage: "the first line is a record; columns are 1, 2, …"},
		}),
		Import: importCSV,
	})
}

func importCSV(ctx context.Context, o Options, s Sink) error {
	in, err := locate(&o, ".csv", ".tsv")
	if err != nil {
		return err
	}
	if in.single != "" {
		isNodes, err := csvHoldsNodes(ctx, in.single, o)
		if err != nil {
			return err
		}
		if isNodes {
			in.nodes = in.single
		} else {
			in.links = in.single
		}
	}
	if in.fields != "" {
		if err := csvFields(ctx, in.fields, o, s); err != nil {
			return err
		}
	}
	var rows []int32
	if in.nodes != "" {
		if rows, err = csvNodes(ctx, in.nodes, o, s); err != nil {
			return err
		}
	} else {
		s.NodesFromLinks()
	}
	s.EndNodes()
	if in.vectors != "" {
		if in.nodes == "" {
			return failAt(Place{File: in.vectors},
				fmt.Errorf("%w: without a file of nodes, the order of vectors is unknown", ErrUsage),
				"name a file of nodes as well")
		}
		if err := importVectors(ctx, in.vectors, o, s, rows); err != nil {
			return err
		}
	}
	var clicks *clickLog
	if in.clicks != "" {
		if clicks, err = csvClicks(ctx, in.clicks, o, s); err != nil {
			return err
		}
	}
	if in.links != "" {
		if err := csvLinks(ctx, in.links, o, s, clicks); err != nil {
			return err
		}
	}
	if clicks != nil {
		if err := clicks.finish(s); err != nil {
			return err
		}
	}
	if in.exposures != "" {
		return csvExposures(ctx, in.exposures, o, s)
	}
	return nil
}

// csvTable is a file of comma-separated values with names for its columns.
type csvTable struct {
	*csvReader
	input  *Input
	header []string
	again  bool // the first record was read to count columns, and is still to be returned
}

func openCSV(ctx context.Context, path string, o Options) (*csvTable, error) {
	input, err := OpenInput(ctx, path, o)
	if err != nil {
		return nil, err
	}
	t, err := newCSVTable(input, path, o)
	if err != nil {
		input.Close()
		return nil, err
	}
	t.input = input
	return t, nil
}

func newCSVTable(r io.Reader, path string, o Options) (*csvTable, error) {
	t := &csvTable{csvReader: newCSV(r, path, ',', o.Limits)}
	delimiter := o.Flag("delimiter")
	switch {
	case delimiter == "tab" || delimiter == `\t`:
		t.delimiter = '\t'
	case len(delimiter) == 1 && delimiter != `"` && delimiter != "\n" && delimiter != "\r" && delimiter[0] < 0x80 &&
		delimiter[0] != 0:
		t.delimiter = delimiter[0]
	case delimiter != "":
		return nil, failAt(Place{}, fmt.Errorf("%w: the delimiter %.20q", ErrUsage, delimiter),
			"give one character, or tab")
	default:
		end, err := t.lineEnd(0)
		if f, ok := errors.AsType[*csvFault](err); ok {
			return nil, failAt(Place{path, 1, 0}, f.err, "check that it is a table of text with line ends")
		}
		if err != nil {
			return nil, err
		}
		t.delimiter = guessDelimiter(t.buffer[:end])
	}
	switch err := t.next(); {
	case err == io.EOF:
		return nil, failAt(Place{File: path}, fmt.Errorf("%w: the file is empty", ErrFormat),
			"name the columns in its first line")
	case err != nil:
		if f, ok := errors.AsType[*csvFault](err); ok {
			return nil, &Error{Place{path, f.line, f.column}, f.withHint()}
		}
		return nil, err
	}
	t.again = o.Flag("no-header") == "true"
	for k, field := range t.fields {
		name := string(field)
		if t.again {
			name = strconv.Itoa(k + 1)
		}
		t.header = append(t.header, name)
	}
	return t, nil
}

// guessDelimiter returns the most frequent delimiter of the first line.
func guessDelimiter(line []byte) byte {
	best, most := byte(','), 0
	for _, d := range []byte(",\t;|") {
		if n := bytes.Count(line, []byte{d}); n > most {
			best, most = d, n
		}
	}
	return best
}

// close closes the file.
func (t *csvTable) close() { t.input.Close() }

// each calls record for every record; the sink gets the bad ones.
func (t *csvTable) each(s Sink, record func() error) error {
	for {
		var err error
		if !t.again {
			err = t.next()
		}
		t.again = false
		if err == nil {
			err = record()
			if err != nil {
				return err
			}
			continue
		}
		if err == io.EOF {
			return nil
		}
		f, ok := errors.AsType[*csvFault](err)
		if !ok {
			return err
		}
		if err := s.Reject(Place{t.path, f.line, f.column}, f.withHint(), t.raw()); err != nil {
			return err
		}
	}
}

// text is a field without a copy, valid until the next record.
func (t *csvTable) text(column int) string {
	if column < 0 {
		return ""
	}
	field := t.fields[column]
	return unsafe.String(unsafe.SliceData(field), len(field))
}

// numbered adds the flags of a table without a header: its columns are used in their order.
func numbered(o Options, names ...string) Options {
	if o.Flag("no-header") != "true" {
		return o
	}
	flags := map[string]string{}
	for k, name := range names {
		flags[name] = strconv.Itoa(k + 1)
	}
	for name, value := range o.Flags {
		flags[name] = value
	}
	o.Flags = flags
	return o
}

// csvHoldsNodes reports whether a single file is one of nodes: it has no sources and targets.
func csvHoldsNodes(ctx context.Context, path string, o Options) (bool, error) {
	t, err := openCSV(ctx, path, o)
	if err != nil {
		return false, err
	}
	defer t.close()
	at := Place{path, 1, 0}
	links := numbered(o, "source", "target")
	if _, err := columns(&links, at, t.header, linkRoles, "source", "target"); err == nil {
		return false, nil
	} else if o.Given("source") || o.Given("target") {
		return false, err
	}
	if found, err := columns(&o, at, t.header, nodeRoles); err == nil && found[0] >= 0 {
		return true, nil
	}
	return false, failAt(at, fmt.Errorf("%w: its columns are those of neither links nor nodes: %s", ErrUsage,
		list(t.header)),
		"set %v and %v to those of links, or %v to that of nodes; set %v if the first line is a record",
		hint.Setting("source"), hint.Setting("target"), hint.Setting("id"), hint.Setting("noHeader"))
}

func csvFields(ctx context.Context, path string, o Options, s Sink) error {
	t, err := openCSV(ctx, path, o)
	if err != nil {
		return err
	}
	defer t.close()
	return t.each(s, func() error { return s.Field(t.text(0)) })
}

// csvNodes reads nodes, and returns the node of every record, −1 where it was rejected.
func csvNodes(ctx context.Context, path string, o Options, s Sink) ([]int32, error) {
	t, err := openCSV(ctx, path, o)
	if err != nil {
		return nil, err
	}
	defer t.close()
	o = numbered(o, "id")
	found, err := columns(&o, Place{path, 1, 0}, t.header, nodeRoles, "id")
	if err != nil {
		return nil, err
	}
	noteGuesses(s, &o, path, t.header, nodeRoles, found)
	var rows []int32
	faults := 0
	counting := countRejects{s, &faults}
	err = t.each(counting, func() error {
		// A record that cannot be read still has a vector.
		for ; faults > 0; faults-- {
			rows = append(rows, -1)
		}
		at := t.place()
		when, err := parseTime(t.text(found[4]))
		if err != nil {
			rows = append(rows, -1)
			return s.Reject(at, hint.Wrap(err, timeHint), t.raw())
		}
		node, err := s.Node(NodeRecord{ID: t.text(found[0]), Field: t.text(found[1]), Title: t.text(found[2]),
			Text: t.text(found[3]), Time: when, Role: roleOf(t.text(found[5]))}, at)
		rows = append(rows, node)
		return err
	})
	for ; faults > 0; faults-- {
		rows = append(rows, -1)
	}
	return rows, err
}

// countRejects counts what a table rejects itself.
type countRejects struct {
	Sink
	n *int
}

func (c countRejects) Reject(at Place, reason error, record []byte) error {
	*c.n++
	return c.Sink.Reject(at, reason, record)
}

// csvLinks reads links; with a log of clicks they are what was shown, and only those that were clicked are links.
func csvLinks(ctx context.Context, path string, o Options, s Sink, clicks *clickLog) error {
	t, err := openCSV(ctx, path, o)
	if err != nil {
		return err
	}
	defer t.close()
	o = numbered(o, "source", "target")
	found, err := columns(&o, Place{path, 1, 0}, t.header, linkRoles, "source", "target")
	if err != nil {
		return err
	}
	noteGuesses(s, &o, path, t.header, linkRoles, found)
	source, target := found[0], found[1]
	if clicks != nil {
		return t.each(s, func() error { return clicks.show(s, t.text(source), t.text(target), t.place()) })
	}
	return t.each(s, func() error {
		when, err := parseSeconds(t.text(found[2]))
		if err != nil {
			return s.Reject(t.place(), hint.Wrap(err, secondsHint), t.raw())
		}
		return s.LinkAt(t.text(source), t.text(target), when, t.place())
	})
}

// clickLog is what people clicked, by source and target.
type clickLog struct {
	path   string
	chosen map[string]map[string]*choice
	order  []*choice
}

type choice struct {
	source, target string
	clicked, shown bool
	at             Place
}

func csvClicks(ctx context.Context, path string, o Options, s Sink) (*clickLog, error) {
	o.Flags = map[string]string{} // columns of the log have their own names
	t, err := openCSV(ctx, path, o)
	if err != nil {
		return nil, err
	}
	defer t.close()
	found, err := columns(&o, Place{path, 1, 0}, t.header, clickRoles, "source", "target", "clicks")
	if err != nil {
		return nil, err
	}
	log := &clickLog{path: path, chosen: map[string]map[string]*choice{}}
	err = t.each(s, func() error {
		n, err := strconv.ParseInt(t.text(found[2]), 10, 64)
		if err != nil || n < 0 {
			return s.Reject(t.place(), hint.Wrap(fmt.Errorf("%w: %.40q is not a number of clicks", ErrFormat,
				t.text(found[2])), "give a count, 0 or more"), t.raw())
		}
		source, target := strings.Clone(t.text(found[0])), strings.Clone(t.text(found[1]))
		if log.chosen[source] == nil {
			log.chosen[source] = map[string]*choice{}
		}
		c := log.chosen[source][target]
		if c == nil {
			c = &choice{source: source, target: target, at: t.place()}
			log.chosen[source][target] = c
			log.order = append(log.order, c)
		}
		c.clicked = c.clicked || n > 0
		return nil
	})
	return log, err
}

// show adds a link of a page: its visitors saw it.
func (l *clickLog) show(s Sink, source, target string, at Place) error {
	of := l.chosen[source]
	if of == nil {
		return nil
	}
	e := ExposureRecord{Source: source, Target: target, Shown: math.NaN(), Exposed: true}
	if c := of[target]; c != nil {
		if c.shown {
			return nil // a repeated link
		}
		c.shown = true
		e.Linked = c.clicked
	}
	return s.Exposure(e, at)
}

// finish makes links of the clicks. What was clicked without being a link of the page was shown too.
func (l *clickLog) finish(s Sink) error {
	for _, c := range l.order {
		// A click without its page is rejected once: as a link.
		known := s.Has(c.source) && s.Has(c.target)
		if !c.shown && (known || !c.clicked) {
			e := ExposureRecord{Source: c.source, Target: c.target, Shown: math.NaN(), Exposed: true, Linked: c.clicked}
			if err := s.Exposure(e, c.at); err != nil {
				return err
			}
		}
		if !c.clicked {
			continue
		}
		if err := s.Link(c.source, c.target, c.at); err != nil {
			return err
		}
	}
	return nil
}

func csvExposures(ctx context.Context, path string, o Options, s Sink) error {
	o.Flags = exposureFlags(o)
	t, err := openCSV(ctx, path, o)
	if err != nil {
		return err
	}
	defer t.close()
	found, err := columns(&o, Place{path, 1, 0}, t.header, exposureRoles, "source", "target", "linked")
	if err != nil {
		return err
	}
	return t.each(s, func() error {
		e, err := exposureOf(func(k int) (string, bool) { return t.text(found[k]), found[k] >= 0 })
		if err != nil {
			return s.Reject(t.place(), hint.Wrap(err, "write true or false, and probabilities from 0 to 1"), t.raw())
		}
		return s.Exposure(e, t.place())
	})
}

// exposureOf makes an exposure of the texts of exposureRoles. A pair in a log was shown, unless the log says
// otherwise.
func exposureOf(text func(role int) (text string, there bool)) (e ExposureRecord, err error) {
	e = ExposureRecord{Shown: math.NaN(), Exposed: true}
	e.Source, _ = text(0)
	e.Target, _ = text(1)
	linked, _ := text(2)
	if e.Linked, err = parseBool(linked); err != nil {
		return e, err
	}
	if exposed, there := text(3); there {
		if e.Exposed, err = parseBool(exposed); err != nil {
			return e, err
		}
	}
	if shown, _ := text(4); shown != "" {
		if e.Shown, err = strconv.ParseFloat(shown, 64); err != nil {
			return e, fmt.Errorf("%w: %.40q is not a probability", ErrFormat, shown)
		}
	}
	for role, into := range map[int]*int{5: &e.Count, 6: &e.Position} {
		if text, _ := text(role); text != "" {
			if *into, err = strconv.Atoi(text); err != nil || *into < 0 {
				return e, fmt.Errorf("%w: %.40q is not a count", ErrFormat, text)
			}
		}
	}
	e.Surface, _ = text(7)
	when, _ := text(8)
	seconds, err := parseSeconds(when)
	if err == nil && seconds != graph.NoTime {
		e.Time = time.Unix(seconds, 0)
	}
	return e, err
}
