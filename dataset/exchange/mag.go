package exchange

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"unseen/hint"
	"unseen/internal/jsonscan"
)

func init() {
	Register(Format{
		Name:    "mag",
		Summary: "Tables of the Microsoft Academic Graph",
		Args:    "PATH…",
		Help: `Paths are the tables, or folders that hold them, tab-separated without a header,
plain, gzip or zstd, under the names of the release:

  Papers.txt                       1 PaperId, 5 PaperTitle, 6 OriginalTitle,
                                   8 Year, 9 Date
  PaperReferences.txt              1 PaperId, 2 PaperReferenceId
  FieldsOfStudy.txt                1 FieldOfStudyId, 3 NormalizedName,
                                   4 DisplayName, 6 Level
  FieldOfStudyChildren.txt         1 FieldOfStudyId, 2 ChildFieldOfStudyId
  PaperFieldsOfStudy.txt           1 PaperId, 2 FieldOfStudyId, 3 Score
  PaperAbstractsInvertedIndex.txt  1 PaperId, 2 IndexedAbstract

Only the columns above are used. The first two tables are needed. A table may be
in parts (PaperAbstractsInvertedIndex.txt.1, .2, …).

A paper's field is a root of the tree of fields (Level 0): the one above its
field of study with the highest score. A field below more than one root belongs
to the nearest. Ties go to the first by name. A paper none of whose fields has a
root gets the first field that is listed.`,
		Flags:  workFlags,
		Import: importMAG,
	})
}

// magTables are the names of the tables, and how many columns of each are needed.
var magTables = map[string]int{
	"papers": 9, "paperreferences": 2, "fieldsofstudy": 6, "fieldofstudychildren": 2, "paperfieldsofstudy": 2,
	"paperabstractsinvertedindex": 2,
}

// magTable returns which table a file is: Papers.txt, papers.txt.gz, PaperAbstractsInvertedIndex.txt.2.
func magTable(path string) (string, bool) {
	name, rest, _ := strings.Cut(strings.ToLower(filepath.Base(path)), ".")
	_, known := magTables[name]
	first, _, _ := strings.Cut(rest, ".")
	return name, known && (first == "txt" || first == "tsv")
}

// magField is a field of study.
type magField struct {
	name  string
	level int
	root  int32 // the root above it, −1 without
}

func importMAG(ctx context.Context, o Options, s Sink) error {
	files, err := filesUnder(o.Paths, "tables of MAG, such as Papers.txt",
		func(path string) bool { _, is := magTable(path); return is })
	if err != nil {
		return err
	}
	tables := map[string][]string{}
	for _, path := range files {
		name, is := magTable(path)
		if !is {
			return failAt(Place{File: path}, fmt.Errorf("%w: no table has this name", ErrUsage),
				"give it the name it was released with, such as Papers.txt")
		}
		tables[name] = append(tables[name], path)
	}
	for _, needed := range []string{"Papers", "PaperReferences"} {
		if len(tables[strings.ToLower(needed)]) == 0 {
			return failAt(Place{File: strings.Join(o.Paths, " ")}, fmt.Errorf("%w: no %s.txt", ErrUsage, needed),
				"put it into the folder of the other tables")
		}
	}
	set, err := newWorks(&o, s, func(n uint64) string { return strconv.FormatUint(n, 10) })
	if err != nil {
		return err
	}
	m := &magReader{ctx: ctx, o: o, s: s, tables: tables, set: set, papers: newWaitingWorks(set)}
	defer m.papers.close()
	if err := m.readPapers(); err != nil {
		return err
	}
	if err := m.readFields(); err != nil {
		return err
	}
	if err := m.readAbstracts(); err != nil {
		return err
	}
	if err := m.papers.release(ctx, m.fieldOf); err != nil {
		return err
	}
	err = m.each("paperreferences", func(row [][]byte, lines *Lines) error {
		source, ok := digits(row[0])
		target, also := digits(row[1])
		if !ok || !also {
			return m.noNumber(lines)
		}
		return set.cite(source, target, lines.Place())
	})
	if err != nil {
		return err
	}
	if m.strange > 0 {
		s.Note("%d rows of PaperFieldsOfStudy name a field that FieldsOfStudy does not have.", m.strange)
	}
	set.noteFiltered()
	return nil
}

type magReader struct {
	ctx     context.Context
	o       Options
	s       Sink
	tables  map[string][]string
	set     *works
	papers  *waitingWorks
	fields  []magField
	index   map[uint64]int32 // of a field by its number
	best    []magBest        // per paper, in the order of papers
	strange int
	row     [][]byte
}

// magBest is the best field that is known of a paper.
type magBest struct {
	field, first int32 // with a root; listed first; −1 without
	score        float32
}

// each calls f for every row of a table. Rows with too few columns are rejected.
func (m *magReader) each(table string, f func(row [][]byte, lines *Lines) error) error {
	columns := magTables[table]
	for _, path := range m.tables[table] {
		err := eachLine(m.ctx, path, m.o, m.s, func(lines *Lines) error {
			// The needed columns, of which the last ends at the next tab.
			m.row = m.row[:0]
			rest, more := lines.Bytes(), true
			for more && len(m.row) < columns+1 {
				var cell []byte
				cell, rest, more = bytes.Cut(rest, []byte("\t"))
				m.row = append(m.row, cell)
			}
			if len(m.row) < columns {
				return m.s.Reject(lines.Place(), hint.Wrap(fmt.Errorf("%w: %d columns, want %d or more", ErrFormat,
					len(m.row), columns), "check that tabs separate the columns"), beginningOf(lines.Bytes()))
			}
			return f(m.row, lines)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *magReader) noNumber(lines *Lines) error {
	return m.s.Reject(lines.Place(), hint.Wrap(fmt.Errorf("%w: an id is not a number", ErrFormat),
		"check that the table has no header and its columns are in the order of the release"),
		beginningOf(lines.Bytes()))
}

func (m *magReader) readPapers() error {
	return m.each("papers", func(row [][]byte, lines *Lines) error {
		number, ok := digits(row[0])
		if !ok {
			return m.noNumber(lines)
		}
		var date time.Time
		switch {
		case len(row[8]) > 0:
			if date, ok = day(row[8]); !ok {
				return m.s.Reject(lines.Place(), hint.Wrap(fmt.Errorf("%w: the Date %.40q is not a date", ErrFormat,
					row[8]), "write it as 2021-07-18"), beginningOf(lines.Bytes()))
			}
		case len(row[7]) > 0:
			year, ok := digits(row[7])
			if !ok || year < 1 || year > 9999 {
				return m.s.Reject(lines.Place(), hint.Wrap(fmt.Errorf("%w: the Year %.40q is not a year", ErrFormat,
					row[7]), "write it as 2021"), beginningOf(lines.Bytes()))
			}
			date = newYear(int64(year))
		}
		if !m.set.ofYears(date) {
			m.set.filtered++
			return nil
		}
		title := row[5]
		if len(title) == 0 {
			title = row[4]
		}
		return m.papers.add(number, date, nil, title, lines)
	})
}

// readFields reads the tree of fields, then the field of every paper.
func (m *magReader) readFields() error {
	m.index = map[uint64]int32{}
	err := m.each("fieldsofstudy", func(row [][]byte, lines *Lines) error {
		number, ok := digits(row[0])
		level, also := digits(row[5])
		if !ok || !also {
			return m.noNumber(lines)
		}
		name := row[3]
		if len(name) == 0 {
			name = row[2]
		}
		if _, twice := m.index[number]; twice {
			return m.s.Reject(lines.Place(), hint.Wrap(fmt.Errorf("%w: field %d", ErrDuplicateNode, number),
				"remove one of the rows"), beginningOf(lines.Bytes()))
		}
		m.index[number] = int32(len(m.fields))
		m.fields = append(m.fields, magField{name: string(name), level: int(level), root: -1})
		return nil
	})
	if err != nil {
		return err
	}
	children := map[int32][]int32{}
	err = m.each("fieldofstudychildren", func(row [][]byte, lines *Lines) error {
		parent, ok := digits(row[0])
		child, also := digits(row[1])
		if !ok || !also {
			return m.noNumber(lines)
		}
		p, ok := m.index[parent]
		c, also := m.index[child]
		if ok && also {
			children[p] = append(children[p], c)
		}
		return nil
	})
	if err != nil {
		return err
	}
	m.findRoots(children)
	m.best = make([]magBest, len(m.papers.textAt))
	for k := range m.best {
		m.best[k] = magBest{-1, -1, 0}
	}
	return m.each("paperfieldsofstudy", m.readPaperField)
}

// readPaperField keeps the best field of a paper.
func (m *magReader) readPaperField(row [][]byte, lines *Lines) error {
	number, ok := digits(row[0])
	field, also := digits(row[1])
	if !ok || !also {
		return m.noNumber(lines)
	}
	paper, ok := m.set.nodes[number]
	if !ok {
		return nil
	}
	f, ok := m.index[field]
	if !ok {
		m.strange++
		return nil
	}
	score := 0.0
	if len(row) > 2 && len(row[2]) > 0 {
		var err error
		if score, err = strconv.ParseFloat(alias(row[2]), 32); err != nil || score != score {
			return m.s.Reject(lines.Place(), hint.Wrap(fmt.Errorf("%w: the Score %.40q is not a number", ErrFormat,
				row[2]), "write it as 0.47"), beginningOf(lines.Bytes()))
		}
	}
	b := &m.best[paper]
	if b.first < 0 {
		b.first = f
	}
	if m.fields[f].root < 0 {
		return nil
	}
	if b.field < 0 || float32(score) > b.score || float32(score) == b.score &&
		m.fields[f].name < m.fields[b.field].name {
		b.field, b.score = f, float32(score)
	}
	return nil
}

// findRoots goes down from all roots at once, in the order of their names, so that every field is reached first
// from the nearest root, of equally near ones from the first by name.
func (m *magReader) findRoots(children map[int32][]int32) {
	var queue []int32
	for f := range m.fields {
		if m.fields[f].level == 0 {
			queue = append(queue, int32(f))
			m.fields[f].root = int32(f)
		}
	}
	slices.SortStableFunc(queue, func(a, b int32) int { return cmp.Compare(m.fields[a].name, m.fields[b].name) })
	for len(queue) > 0 {
		f := queue[0]
		queue = queue[1:]
		for _, child := range children[f] {
			if m.fields[child].root < 0 {
				m.fields[child].root = m.fields[f].root
				queue = append(queue, child)
			}
		}
	}
}

func (m *magReader) fieldOf(k int32) string {
	switch b := m.best[k]; {
	case b.field >= 0:
		return m.fields[m.fields[b.field].root].name
	case b.first >= 0:
		return m.fields[b.first].name
	}
	return ""
}

func (m *magReader) readAbstracts() error {
	var c jsonscan.Scanner
	var index inverted
	return m.each("paperabstractsinvertedindex", func(row [][]byte, lines *Lines) error {
		number, ok := digits(row[0])
		if !ok {
			return m.noNumber(lines)
		}
		if _, known := m.set.nodes[number]; !known || len(row[1]) == 0 {
			return nil
		}
		c.Reset(row[1])
		index.read(&c)
		if err := c.End(); err != nil {
			return rejectJSON(m.s, lines, len(row[0])+1, err)
		}
		return m.papers.text(number, index.text())
	})
}
