package exchange

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"unseen/hint"
	"unseen/internal/amount"
	"unseen/internal/jsonscan"
)

func init() {
	Register(Format{
		Name:    "openalex",
		Summary: "Works of OpenAlex: JSON lines, or a snapshot's folder",
		Args:    "PATH…",
		Help: `A path is a file of works, one JSON object per line, plain, gzip or zstd, or a
folder with such files, as data/works/updated_date=*/part_*.gz. If a folder
has other kinds of records too, only files under "works" are read.

A work becomes a node: id (shortened, W2741809807), title, the abstract joined
from abstract_inverted_index, publication_date or publication_year, and as
field primary_topic.field, else the concept of level 0 with the highest score.
Every entry of referenced_works becomes a link; most lead outside the set and
are counted and dropped. Works marked is_retracted or is_paratext are left out.
If a work occurs twice, the one in the latest updated_date folder is used, else
the first.`,
		Flags: append([]Flag{
			{Name: "keep-retracted", Switch: true, Usage: "keep retracted works"},
			{Name: "keep-paratext", Switch: true, Usage: "keep covers, contents, mastheads and the like"},
		}, workFlags...),
		Import: importOpenAlex,
	})
}

// openAlexName is the short id of a work.
func openAlexName(number uint64) string { return "W" + strconv.FormatUint(number, 10) }

// openAlexNumber parses W2741809807 or https://openalex.org/W2741809807.
func openAlexNumber(id []byte) (uint64, bool) {
	if k := bytes.LastIndexByte(id, '/'); k >= 0 {
		id = id[k+1:]
	}
	if len(id) < 2 || len(id) > 19 || id[0] != 'W' && id[0] != 'w' {
		return 0, false
	}
	return digits(id[1:])
}

// digits parses a number of at most 18 digits.
func digits(text []byte) (uint64, bool) {
	if len(text) == 0 || len(text) > 18 {
		return 0, false
	}
	var n uint64
	for _, b := range text {
		if b < '0' || b > '9' {
			return 0, false
		}
		n = n*10 + uint64(b-'0')
	}
	return n, true
}

// openAlexWork is what is read of a line.
type openAlexWork struct {
	id, title, name     []byte
	date                []byte
	year                int64
	field, concept      []byte
	score               float64
	retracted, paratext bool
	references          []uint64
	badReference        []byte
	abstract            inverted
}

func (w *openAlexWork) read(c *jsonscan.Scanner, line []byte) error {
	*w = openAlexWork{references: w.references[:0], abstract: w.abstract}
	w.abstract.words = w.abstract.words[:0]
	c.Reset(line)
	for key := range c.Keys() {
		switch string(key) {
		case "id":
			w.id = c.Text()
		case "title":
			w.title = c.Text()
		case "display_name":
			w.name = c.Text()
		case "publication_date":
			w.date = c.Text()
		case "publication_year":
			if !c.Null() {
				w.year = c.Int()
			}
		case "is_retracted":
			w.retracted = c.Bool()
		case "is_paratext":
			w.paratext = c.Bool()
		case "abstract_inverted_index":
			w.abstract.read(c)
		case "primary_topic":
			for key := range c.Keys() {
				if string(key) != "field" {
					continue
				}
				for key := range c.Keys() {
					if string(key) == "display_name" {
						w.field = c.Text()
					}
				}
			}
		case "concepts":
			for range c.Elements() {
				w.readConcept(c)
			}
		case "referenced_works":
			for range c.Elements() {
				id := c.Text()
				if number, ok := openAlexNumber(id); ok {
					w.references = append(w.references, number)
				} else if w.badReference == nil {
					w.badReference = id
				}
			}
		}
	}
	return c.End()
}

// readConcept keeps the root with the highest score, of equal ones the first by name.
func (w *openAlexWork) readConcept(c *jsonscan.Scanner) {
	var name []byte
	level, score := int64(-1), 0.0
	for key := range c.Keys() {
		switch string(key) {
		case "display_name":
			name = c.Text()
		case "level":
			if !c.Null() {
				level = c.Int()
			}
		case "score":
			switch {
			case c.Null():
			case c.IsText(): // as early snapshots wrote it
				text := c.Text()
				f, err := strconv.ParseFloat(alias(text), 64)
				if err != nil {
					c.Fail("the score %.40q is not a number", text)
				}
				score = f
			default:
				score = c.Float()
			}
		}
	}
	if level != 0 || len(name) == 0 {
		return
	}
	if w.concept == nil || score > w.score || score == w.score && bytes.Compare(name, w.concept) < 0 {
		w.concept, w.score = name, score
	}
}

// fieldName is primary_topic.field, else the root concept with the highest score.
func (w *openAlexWork) fieldName() []byte {
	if len(w.field) > 0 {
		return w.field
	}
	return w.concept
}

// titleText is the title, else display_name.
func (w *openAlexWork) titleText() []byte {
	if len(w.title) > 0 {
		return w.title
	}
	return w.name
}

func (w *openAlexWork) time() (time.Time, error) {
	if len(w.date) > 0 {
		t, ok := day(w.date)
		if !ok {
			return t, fmt.Errorf("%w: the publication_date %.40q is not a date", ErrFormat, w.date)
		}
		return t, nil
	}
	return newYear(w.year), nil
}

func importOpenAlex(ctx context.Context, o Options, s Sink) error {
	files, err := filesUnder(o.Paths, "works (.gz or .jsonl)", isJSONLines)
	if err != nil {
		return err
	}
	files = openAlexOrder(files, o.Paths)
	set, err := newWorks(&o, s, openAlexName)
	if err != nil {
		return err
	}
	r := &openAlexReader{set: set, sink: s, references: newRecordFile(s),
		keepRetracted: o.Flag("keep-retracted") == "true", keepParatext: o.Flag("keep-paratext") == "true"}
	defer r.references.close()
	for _, path := range files {
		if err := eachLine(ctx, path, o, s, r.line); err != nil {
			return err
		}
	}
	if err := r.link(ctx, Place{File: files[len(files)-1]}); err != nil {
		return err
	}
	if r.retracted+r.paratext > 0 {
		s.Note("Skipped %s and %s of paratext; set %v or %v to keep them.", amount.Of(r.retracted, "retracted work"),
			amount.Of(r.paratext, "work"), hint.Setting("keepRetracted"), hint.Setting("keepParatext"))
	}
	if r.repeated > 0 {
		s.Note("Skipped %s of a work; the one in the latest folder counts, else the first.", amount.Of(r.repeated,
			"repetition"))
	}
	set.noteFiltered()
	return nil
}

// openAlexReader reads works and keeps their references until all works are known.
type openAlexReader struct {
	set                           *works
	sink                          Sink
	keepRetracted, keepParatext   bool
	references                    *recordFile // source, then targets
	retracted, paratext, repeated int         // works that were skipped

	scanner jsonscan.Scanner
	work    openAlexWork
	record  []byte
}

// line reads a work.
func (r *openAlexReader) line(lines *Lines) error {
	work, s := &r.work, r.sink
	if err := work.read(&r.scanner, lines.Bytes()); err != nil {
		return rejectJSON(s, lines, 0, err)
	}
	number, ok := openAlexNumber(work.id)
	if !ok {
		return s.Reject(lines.Place(), hint.Wrap(fmt.Errorf("%w: the id %.60q is not a work of OpenAlex", ErrFormat,
			work.id), "give works ids such as https://openalex.org/W2741809807; if this is another kind of record, "+
			"name the folder of works"), beginningOf(lines.Bytes()))
	}
	date, err := work.time()
	if err != nil {
		return s.Reject(lines.Place(), hint.Wrap(err, "write it as 2021-07-18"), beginningOf(lines.Bytes()))
	}
	if work.badReference != nil {
		// The work is good without it.
		err := s.Reject(lines.Place(), hint.Wrap(fmt.Errorf("%w: the reference %.60q is not a work of OpenAlex",
			ErrFormat, work.badReference), "write references as https://openalex.org/W2741809807"),
			beginningOf(lines.Bytes()))
		if err != nil {
			return err
		}
	}
	_, known := r.set.nodes[number]
	switch {
	case work.retracted && !r.keepRetracted:
		r.retracted++
		return nil
	case work.paratext && !r.keepParatext:
		r.paratext++
		return nil
	case !r.set.wanted(date, alias(work.fieldName())):
		return nil
	case known:
		r.repeated++
		return nil
	}
	i, err := s.Node(NodeRecord{ID: openAlexName(number), Field: r.set.intern(work.fieldName()),
		Title: alias(work.titleText()), Text: alias(work.abstract.text()), Time: date}, lines.Place())
	if err != nil || i < 0 {
		return err
	}
	r.set.nodes[number] = i
	if len(work.references) == 0 {
		return nil
	}
	r.record = binary.AppendUvarint(r.record[:0], uint64(i))
	for _, target := range work.references {
		r.record = binary.AppendUvarint(r.record, target)
	}
	_, err = r.references.add(r.record)
	return err
}

// link makes links of the references.
func (r *openAlexReader) link(ctx context.Context, at Place) error {
	return r.references.each(ctx, func(record []byte) error {
		from, n := binary.Uvarint(record)
		for record = record[n:]; len(record) > 0; record = record[n:] {
			var target uint64
			target, n = binary.Uvarint(record)
			if err := r.set.citeFrom(int32(from), target, at); err != nil {
				return err
			}
		}
		return nil
	})
}

// openAlexOrder keeps files under a folder of works, if there is one, and puts the latest updated_date first.
// Explicitly named files stay.
func openAlexOrder(files, named []string) []string {
	under := func(path string) bool {
		return slices.Contains(strings.Split(filepath.ToSlash(filepath.Dir(path)), "/"), "works")
	}
	if slices.ContainsFunc(files, under) {
		files = slices.DeleteFunc(files, func(path string) bool {
			return !under(path) && !slices.Contains(named, path)
		})
	}
	date := func(path string) string {
		for part := range strings.SplitSeq(filepath.ToSlash(path), "/") {
			if d, is := strings.CutPrefix(part, "updated_date="); is {
				return d
			}
		}
		return ""
	}
	slices.SortStableFunc(files, func(a, b string) int { return strings.Compare(date(b), date(a)) })
	return files
}

// OpenAlexWork is one work of OpenAlex, for programs that read its files elsewhere, such as on a cluster.
type OpenAlexWork struct {
	Number     uint64 // W2741809807 is 2741809807
	Title      string
	Text       string // of the abstract
	Field      string // primary_topic.field, else the root concept with the highest score; may be empty
	Time       time.Time
	Retracted  bool
	Paratext   bool
	References []uint64 // numbers, in their order
}

// ID returns the short id.
func (w *OpenAlexWork) ID() string { return openAlexName(w.Number) }

// ParseOpenAlexWork parses a line of OpenAlex's works as the format "openalex" does. References to other things than
// works are left out.
func ParseOpenAlexWork(line []byte) (OpenAlexWork, error) {
	var c jsonscan.Scanner
	var work openAlexWork
	if err := work.read(&c, line); err != nil {
		return OpenAlexWork{}, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	number, ok := openAlexNumber(work.id)
	if !ok {
		return OpenAlexWork{}, fmt.Errorf("%w: the id %.60q is not a work of OpenAlex", ErrFormat, work.id)
	}
	date, err := work.time()
	if err != nil {
		return OpenAlexWork{}, err
	}
	return OpenAlexWork{
		Number: number, Title: string(work.titleText()), Text: string(work.abstract.text()),
		Field: string(work.fieldName()), Time: date,
		Retracted: work.retracted, Paratext: work.paratext, References: slices.Clone(work.references),
	}, nil
}
