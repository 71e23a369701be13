package exchange

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"unseen/hint"
	"unseen/internal/amount"
	"unseen/internal/atomicfile"
	"unseen/internal/jsonscan"
)

// The formats of bibliographies (openalex, semantic-scholar, mag) share works known by a number, filters, abstracts
// as inverted indices, and references to works outside the set.

// workFlags are flags of all of them.
var workFlags = []Flag{
	{Name: "from-year", Usage: "leave out works before `YEAR`, or without one"},
	{Name: "to-year", Usage: "leave out works after `YEAR`, or without one"},
	{Name: "field", Usage: "keep only works of the fields `NAMES` (a;b;c)"},
	{Name: "keep-outside", Switch: true, Usage: "make nodes of cited works outside the set"},
}

// works collects works and the references between them.
type works struct {
	sink       Sink
	name       func(number uint64) string // the id of a work
	nodes      map[uint64]int32           // of every work in the set
	from, to   int                        // years, 0 without
	fields     map[string]bool            // lower case; nil means all
	keep       bool                       // make nodes of works outside
	references int                        // seen, from works of the set
	outside    int                        // to works outside, dropped
	made       int                        // nodes made of works outside
	filtered   int                        // works left out by a filter
	names      map[string]string          // of fields, each stored once
}

func newWorks(o *Options, s Sink, name func(uint64) string) (*works, error) {
	w := &works{sink: s, name: name, nodes: map[uint64]int32{}, names: map[string]string{},
		keep: o.Flag("keep-outside") == "true" || o.NodesFromLinks}
	for _, year := range []struct {
		flag string
		into *int
	}{{"from-year", &w.from}, {"to-year", &w.to}} {
		given := o.Flag(year.flag)
		if given == "" {
			continue
		}
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 || n > 9999 {
			return nil, failAt(Place{}, fmt.Errorf("%w: %s is %.40q, not a year", ErrUsage, year.flag, given),
				"give a year such as 2015")
		}
		*year.into = n
	}
	if w.from > 0 && w.to > 0 && w.from > w.to {
		return nil, failAt(Place{}, fmt.Errorf("%w: no year is between %d and %d", ErrUsage, w.from, w.to),
			"give the earlier year first")
	}
	for name := range strings.SplitSeq(o.Flag("field"), ";") {
		if name = strings.ToLower(strings.TrimSpace(name)); name != "" {
			if w.fields == nil {
				w.fields = map[string]bool{}
			}
			w.fields[name] = true
		}
	}
	return w, nil
}

// wanted reports whether a work passes the filters, and counts one that does not.
func (w *works) wanted(date time.Time, field string) bool {
	ok := w.ofYears(date) && w.ofFields(field)
	if !ok {
		w.filtered++
	}
	return ok
}

func (w *works) ofYears(date time.Time) bool {
	if w.from == 0 && w.to == 0 {
		return true
	}
	year := date.Year()
	return !date.IsZero() && (w.from == 0 || year >= w.from) && (w.to == 0 || year <= w.to)
}

func (w *works) ofFields(field string) bool {
	return w.fields == nil || w.fields[strings.ToLower(field)]
}

// intern returns a field's name, stored once.
func (w *works) intern(field []byte) string {
	if name, known := w.names[string(field)]; known {
		return name
	}
	name := string(field)
	if len(w.names) < 1<<16 {
		w.names[name] = name
	}
	return name
}

// cite adds a reference by the numbers of its ends. One from a work outside the set is ignored.
func (w *works) cite(source, target uint64, at Place) error {
	from, known := w.nodes[source]
	if !known {
		return nil
	}
	return w.citeFrom(from, target, at)
}

func (w *works) citeFrom(from int32, target uint64, at Place) error {
	w.references++
	to, known := w.nodes[target]
	if !known {
		if !w.keep {
			w.outside++
			return nil
		}
		var err error
		if to, err = w.sink.Node(NodeRecord{ID: w.name(target)}, at); err != nil || to < 0 {
			return err
		}
		w.nodes[target] = to
		w.made++
	}
	return w.sink.LinkIndex(from, to, at)
}

// noteFiltered reports what was left out.
func (w *works) noteFiltered() {
	if w.filtered > 0 {
		w.sink.Note("Skipped %s by %v, %v or %v.", amount.Of(w.filtered, "work"), hint.Setting("fromYear"),
			hint.Setting("toYear"), hint.Setting("field"))
	}
	if w.outside > 0 {
		w.sink.Note("Dropped %d of %d references that lead outside the set, which is usual in part of a "+
			"bibliography; set %v to add their targets as nodes.", w.outside, w.references, hint.Setting("keepOutside"))
	}
	if w.made > 0 {
		w.sink.Note("Made %s of references; they have no text.", amount.Of(w.made, "node"))
	}
}

// rejectJSON rejects a line with an error of a scanner, which began at an offset into the line.
func rejectJSON(s Sink, lines *Lines, offset int, err error) error {
	at := lines.Place()
	if e, ok := errors.AsType[*jsonscan.Error](err); ok {
		at.Column = offset + e.Offset + 1
	}
	return s.Reject(at, hint.Wrap(fmt.Errorf("%w: %v", ErrFormat, err),
		"fix the record, or set %v to skip such records", hint.Setting("lenient")), beginningOf(lines.Bytes()))
}

func beginningOf(record []byte) []byte { return record[:min(len(record), beginning)] }

// eachLine calls f for every line that is not empty; lines that are too long are rejected.
func eachLine(ctx context.Context, path string, o Options, s Sink, f func(lines *Lines) error) (err error) {
	lines, err := OpenLines(ctx, path, o)
	if err != nil {
		return err
	}
	defer lines.Close()
	for lines.Next() {
		if fault := lines.tooLong(); fault != nil {
			err = s.Reject(lines.Place(), fault, lines.Bytes())
		} else if len(lines.Bytes()) > 0 {
			err = f(lines)
		}
		if err != nil {
			return err
		}
	}
	return lines.Err()
}

// day reads a date as 2021-07-18, with a time of day after it or not.
func day(text []byte) (time.Time, bool) {
	if len(text) > 10 && (text[10] == 'T' || text[10] == ' ') {
		text = text[:10]
	}
	t, err := time.Parse("2006-01-02", string(text))
	return t, err == nil && t.Year() > 0
}

// newYear is the first day of a year, zero where the year is out of range.
func newYear(year int64) time.Time {
	if year < 1 || year > 9999 {
		return time.Time{}
	}
	return time.Date(int(year), 1, 1, 0, 0, 0, 0, time.UTC)
}

// waitingWorks are works whose texts, and perhaps fields, are in other files. They wait on disk.
type waitingWorks struct {
	set     *works
	records *recordFile // number, file, line, time, field, title
	texts   *recordFile // abstracts
	textAt  []int64     // per work in the order of records: 1 + where its abstract is, 0 without
	files   []string
	record  []byte
}

func newWaitingWorks(set *works) *waitingWorks {
	return &waitingWorks{set: set, records: newRecordFile(set.sink), texts: newRecordFile(set.sink)}
}

func (w *waitingWorks) close() {
	w.records.close()
	w.texts.close()
}

// add adds a work. Until works are nodes, set.nodes has their positions among those that wait.
func (w *waitingWorks) add(number uint64, date time.Time, field, title []byte, lines *Lines) error {
	at := lines.Place()
	if _, twice := w.set.nodes[number]; twice {
		return w.set.sink.Reject(at, hint.Wrap(fmt.Errorf("%w: %d", ErrDuplicateNode, number),
			"remove one of the records"), beginningOf(lines.Bytes()))
	}
	if len(w.textAt) == maxWorks {
		return failAt(at, fmt.Errorf("%w: more than %d works", ErrUsage, maxWorks), "import fewer at a time")
	}
	if n := len(w.files); n == 0 || w.files[n-1] != at.File {
		w.files = append(w.files, at.File)
	}
	seconds := int64(0)
	if !date.IsZero() {
		seconds = date.Unix()
	}
	r := binary.AppendUvarint(w.record[:0], number)
	r = binary.AppendUvarint(r, uint64(len(w.files)-1))
	r = binary.AppendUvarint(r, uint64(at.Line))
	known := byte(0)
	if !date.IsZero() {
		known = 1
	}
	r = binary.AppendVarint(append(r, known), seconds)
	r = append(binary.AppendUvarint(r, uint64(len(field))), field...)
	w.record = append(r, title...)
	if _, err := w.records.add(w.record); err != nil {
		return err
	}
	w.set.nodes[number] = int32(len(w.textAt))
	w.textAt = append(w.textAt, 0)
	return nil
}

const maxWorks = 1<<31 - 1

// text sets the abstract of a work. Of two, the first counts; that of an unknown work is ignored.
func (w *waitingWorks) text(number uint64, text []byte) error {
	k, known := w.set.nodes[number]
	if !known || len(text) == 0 || w.textAt[k] != 0 {
		return nil
	}
	at, err := w.texts.add(text)
	w.textAt[k] = 1 + at
	return err
}

// release makes nodes of all works. The field of work k is that of its record, or fieldOf(k) if given; a work
// that then fails the filters is left out.
func (w *waitingWorks) release(ctx context.Context, fieldOf func(k int32) string) error {
	buffer := make([]byte, 4096)
	var text []byte
	k := int32(-1)
	return w.records.each(ctx, func(r []byte) (err error) {
		k++
		number, n := binary.Uvarint(r)
		r = r[n:]
		file, n := binary.Uvarint(r)
		r = r[n:]
		line, n := binary.Uvarint(r)
		known := r[n] == 1
		r = r[n+1:]
		seconds, n := binary.Varint(r)
		r = r[n:]
		length, n := binary.Uvarint(r)
		field, title := r[n:n+int(length)], r[n+int(length):]
		work := NodeRecord{ID: w.set.name(number), Title: alias(title)}
		if known {
			work.Time = time.Unix(seconds, 0).UTC()
		}
		if fieldOf == nil {
			work.Field = w.set.intern(field)
		} else if work.Field = fieldOf(k); !w.set.wanted(work.Time, work.Field) {
			delete(w.set.nodes, number)
			return nil
		}
		if w.textAt[k] != 0 {
			if text, err = w.texts.get(w.textAt[k]-1, buffer); err != nil {
				return err
			}
			work.Text = alias(text)
		}
		i, err := w.set.sink.Node(work, Place{File: w.files[file], Line: int(line)})
		if err != nil {
			return err
		}
		if i < 0 {
			delete(w.set.nodes, number)
			return nil
		}
		w.set.nodes[number] = i
		return nil
	})
}

// inverted is an abstract by its words: {"of": [1, 7], "exposure": [2], …}.
type inverted struct {
	words []placed
	table [][]byte
	out   []byte
}

type placed struct {
	at   int32
	word []byte
}

// lastPosition is the last position of a word that is believed: real abstracts end before 20,000 words.
const lastPosition = 1 << 20

// read reads an index, in OpenAlex's form or in MAG's, {"IndexLength":n,"InvertedIndex":{…}}.
func (x *inverted) read(c *jsonscan.Scanner) {
	x.words = x.words[:0]
	if c.IsText() { // JSON within a string
		var inner jsonscan.Scanner
		inner.Reset(c.Text())
		x.entries(&inner)
		if err := inner.End(); err != nil {
			c.Fail("index of the abstract: %v", err)
		}
		return
	}
	x.entries(c)
}

func (x *inverted) entries(c *jsonscan.Scanner) {
	for key := range c.Keys() {
		switch {
		case c.IsList():
			for range c.Elements() {
				at := c.Int()
				if at < 0 || at > lastPosition {
					c.Fail("a word of the abstract has the position %d", at)
				}
				x.words = append(x.words, placed{int32(at), key})
			}
		case string(key) == "InvertedIndex" && c.IsObject():
			x.entries(c)
		case string(key) == "IndexLength":
			c.Int()
		default:
			c.Fail("index of the abstract: %.40q has no list of positions", key)
		}
	}
}

// text joins the words in order. Of two at one position the first counts. The bytes are valid until the next call.
func (x *inverted) text() []byte {
	x.out = x.out[:0]
	end := int32(0)
	for _, w := range x.words {
		end = max(end, w.at+1)
	}
	add := func(word []byte) {
		if len(x.out) > 0 {
			x.out = append(x.out, ' ')
		}
		x.out = append(x.out, word...)
	}
	if int(end) <= 4*len(x.words)+64 {
		if cap(x.table) < int(end) {
			x.table = make([][]byte, end)
		}
		x.table = x.table[:end]
		clear(x.table)
		for _, w := range x.words {
			if x.table[w.at] == nil {
				x.table[w.at] = w.word
			}
		}
		for _, word := range x.table {
			if word != nil {
				add(word)
			}
		}
		return x.out
	}
	// Positions with large gaps: a table would be larger than the abstract.
	slices.SortStableFunc(x.words, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
	for k, w := range x.words {
		if k == 0 || w.at != x.words[k-1].at {
			add(w.word)
		}
	}
	return x.out
}

// recordFile keeps records for later, to be read in order or by offset. All but the newest are on disk.
type recordFile struct {
	folder string
	file   *os.File // nil while all is in recent
	onDisk int64    // bytes in file
	recent []byte   // what comes after them
}

// recordBuffer is how many bytes a recordFile writes at a time.
const recordBuffer = 1 << 18

// newRecordFile returns an empty file among the temporary files of an import.
func newRecordFile(s Sink) *recordFile {
	if c, is := s.(*collector); is {
		return &recordFile{folder: c.scratch}
	}
	return &recordFile{folder: os.TempDir()}
}

// add appends a record and returns its offset.
func (s *recordFile) add(record []byte) (int64, error) {
	at := s.onDisk + int64(len(s.recent))
	s.recent = binary.AppendUvarint(s.recent, uint64(len(record)))
	s.recent = append(s.recent, record...)
	if len(s.recent) < recordBuffer {
		return at, nil
	}
	if s.file == nil {
		file, err := os.CreateTemp(s.folder, "records-*")
		if err != nil {
			return 0, diskError(s.folder, err)
		}
		s.file = file
	}
	if _, err := s.file.WriteAt(s.recent, s.onDisk); err != nil {
		return 0, diskError(s.folder, err)
	}
	s.onDisk += int64(len(s.recent))
	s.recent = s.recent[:0]
	return at, nil
}

// each calls f for every record in order. The bytes are valid until f returns.
func (s *recordFile) each(ctx context.Context, f func(record []byte) error) error {
	r := bufio.NewReaderSize(io.MultiReader(io.NewSectionReader(s.file, 0, s.onDisk), bytes.NewReader(s.recent)), 1<<16)
	var record []byte
	for k := 0; ; k++ {
		if k%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		n, err := binary.ReadUvarint(r)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			record = slices.Grow(record[:0], int(n))[:n]
			_, err = io.ReadFull(r, record)
		}
		if err != nil {
			return diskError(s.folder, err)
		}
		if err := f(record); err != nil {
			return err
		}
	}
}

// get returns the record at an offset. It may use the bytes of buffer.
func (s *recordFile) get(at int64, buffer []byte) ([]byte, error) {
	if at >= s.onDisk {
		rest := s.recent[at-s.onDisk:]
		length, used := binary.Uvarint(rest)
		return rest[used : used+int(length)], nil
	}
	// Most are short, so that one read gets length and record.
	buffer = slices.Grow(buffer[:0], 4096)[:4096]
	n, err := s.file.ReadAt(buffer, at)
	if err != nil && err != io.EOF {
		return nil, diskError(s.folder, err)
	}
	length, used := binary.Uvarint(buffer[:n])
	if used <= 0 || at+int64(used)+int64(length) > s.onDisk {
		return nil, diskError(s.folder, io.ErrUnexpectedEOF)
	}
	if have := n - used; int(length) <= have {
		return buffer[used : used+int(length)], nil
	}
	record := make([]byte, length)
	if _, err := s.file.ReadAt(record, at+int64(used)); err != nil {
		return nil, diskError(s.folder, err)
	}
	return record, nil
}

func (s *recordFile) close() {
	if s.file != nil {
		s.file.Close()
		os.Remove(s.file.Name())
	}
}

// filesUnder returns the named files, and those of named folders that take accepts. A folder without any is an error.
func filesUnder(paths []string, what string, take func(path string) bool) ([]string, error) {
	var all []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, failAt(Place{File: path}, fs.ErrNotExist, "name an existing file or folder")
		}
		if err != nil {
			return nil, failAt(Place{File: path}, atomicfile.WithoutPath(err), "name a readable file or folder")
		}
		if !info.IsDir() {
			all = append(all, path)
			continue
		}
		before := len(all)
		err = filepath.WalkDir(path, func(p string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if p != path && strings.HasPrefix(entry.Name(), ".") {
				if entry.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			if !entry.IsDir() && take(p) {
				all = append(all, p)
			}
			return nil
		})
		if err != nil {
			return nil, failAt(Place{File: path}, atomicfile.WithoutPath(err), "check its permissions")
		}
		if len(all) == before {
			return nil, failAt(Place{File: path}, fmt.Errorf("%w: the folder has no %s", ErrUsage, what),
				"name the downloaded folder")
		}
	}
	return all, nil
}

// isJSONLines reports whether a file has the name of JSON lines, compressed or not.
func isJSONLines(path string) bool {
	name := strings.ToLower(filepath.Base(path))
	packed := strings.HasSuffix(name, ".gz") || strings.HasSuffix(name, ".zst")
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")
	switch filepath.Ext(name) {
	case ".jsonl", ".ndjson", ".json":
		return name != "manifest.json"
	case "":
		return packed // part_000.gz
	}
	return packed && !strings.HasSuffix(name, ".parquet") && !strings.HasSuffix(name, ".csv") &&
		!strings.HasSuffix(name, ".txt")
}
