package exchange

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"unseen/hint"
	"unseen/internal/amount"
	"unseen/internal/jsonscan"
)

func init() {
	Register(Format{
		Name:    "semantic-scholar",
		Summary: "Papers, abstracts and citations of Semantic Scholar",
		Args:    "PATH…",
		Help: `Paths are files, or folders of files, of the datasets "papers", "citations" and
perhaps "abstracts" of the Semantic Scholar Academic Graph: one JSON object per
line, plain, gzip or zstd. The first record of a file says which one it is.

A paper becomes a node: corpusid, title, publicationdate or year, and as field
the first category of s2fieldsofstudy that its own classifier (s2-fos-model)
gave, else the first. Abstracts become the texts. A citation becomes a link
from citingcorpusid to citedcorpusid; one with an end that is null or outside
the papers is counted and dropped.`,
		Flags: append([]Flag{
			{Name: "influential", Switch: true, Usage: "keep only citations marked isinfluential"},
		}, workFlags...),
		Import: importSemanticScholar,
	})
}

func importSemanticScholar(ctx context.Context, o Options, s Sink) error {
	files, err := filesUnder(o.Paths, "JSON lines (.gz or .jsonl)", isJSONLines)
	if err != nil {
		return err
	}
	kinds := map[string][]string{}
	for _, path := range files {
		kind, err := semanticScholarKind(ctx, path, o)
		if err != nil {
			return err
		}
		kinds[kind] = append(kinds[kind], path)
	}
	for _, needed := range []string{"papers", "citations"} {
		if len(kinds[needed]) == 0 {
			return failAt(Place{File: strings.Join(o.Paths, " ")}, fmt.Errorf("%w: no file of %s", ErrUsage, needed),
				"name the datasets papers and citations")
		}
	}
	set, err := newWorks(&o, s, func(n uint64) string { return strconv.FormatUint(n, 10) })
	if err != nil {
		return err
	}
	r := &semanticScholarReader{set: set, papers: newWaitingWorks(set), sink: s,
		onlyInfluential: o.Flag("influential") == "true"}
	defer r.papers.close()
	read := func(kind string, line func(*Lines) error) error {
		for _, path := range kinds[kind] {
			if err := eachLine(ctx, path, o, s, line); err != nil {
				return err
			}
		}
		return nil
	}
	if err := read("papers", r.paper); err != nil {
		return err
	}
	if err := read("abstracts", r.abstract); err != nil {
		return err
	}
	if err := r.papers.release(ctx, nil); err != nil {
		return err
	}
	if err := read("citations", r.citation); err != nil {
		return err
	}
	if r.unresolved > 0 {
		s.Note("Dropped %s without a corpusid at one end.", amount.Of(r.unresolved, "citation"))
	}
	if r.slight > 0 {
		s.Note("Skipped %s without the mark isinfluential.", amount.Of(r.slight, "citation"))
	}
	set.noteFiltered()
	return nil
}

// semanticScholarReader reads the lines of the datasets.
type semanticScholarReader struct {
	set             *works
	papers          *waitingWorks
	sink            Sink
	onlyInfluential bool
	unresolved      int // citations with an unknown end
	slight          int // citations that are not influential

	scanner jsonscan.Scanner
}

func (r *semanticScholarReader) paper(lines *Lines) error {
	var title, date, field []byte
	id, year := int64(-1), int64(0)
	byModel := false
	c := &r.scanner
	c.Reset(lines.Bytes())
	for key := range c.Keys() {
		switch string(key) {
		case "corpusid":
			id = c.Int()
		case "title":
			title = c.Text()
		case "year":
			if !c.Null() {
				year = c.Int()
			}
		case "publicationdate":
			date = c.Text()
		case "s2fieldsofstudy":
			for range c.Elements() {
				category, model := readCategory(c)
				if len(category) > 0 && (field == nil || model && !byModel) {
					field, byModel = category, model
				}
			}
		}
	}
	if err := c.End(); err != nil {
		return rejectJSON(r.sink, lines, 0, err)
	}
	if id < 0 {
		return r.noCorpusID(lines, "corpusid")
	}
	when := newYear(year)
	if len(date) > 0 {
		var ok bool
		if when, ok = day(date); !ok {
			return r.sink.Reject(lines.Place(), hint.Wrap(fmt.Errorf("%w: the publicationdate %.40q is not a date",
				ErrFormat, date), "write it as 2021-07-18"), beginningOf(lines.Bytes()))
		}
	}
	if !r.set.wanted(when, alias(field)) {
		return nil
	}
	return r.papers.add(uint64(id), when, field, title, lines)
}

// readCategory reads a field of study, and whether Semantic Scholar's own classifier gave it.
func readCategory(c *jsonscan.Scanner) (category []byte, byModel bool) {
	for key := range c.Keys() {
		switch string(key) {
		case "category":
			category = c.Text()
		case "source":
			byModel = string(c.Text()) == "s2-fos-model"
		}
	}
	return category, byModel
}

func (r *semanticScholarReader) abstract(lines *Lines) error {
	var abstract []byte
	id := int64(-1)
	c := &r.scanner
	c.Reset(lines.Bytes())
	for key := range c.Keys() {
		switch string(key) {
		case "corpusid":
			id = c.Int()
		case "abstract":
			abstract = c.Text()
		}
	}
	if err := c.End(); err != nil {
		return rejectJSON(r.sink, lines, 0, err)
	}
	if id < 0 {
		return r.noCorpusID(lines, "corpusid")
	}
	return r.papers.text(uint64(id), abstract)
}

func (r *semanticScholarReader) citation(lines *Lines) error {
	citing, cited := int64(-1), int64(-1)
	influential, unknown := false, false
	c := &r.scanner
	end := func(into *int64) {
		if c.Null() {
			unknown = true
		} else {
			*into = c.Int()
		}
	}
	c.Reset(lines.Bytes())
	for key := range c.Keys() {
		switch string(key) {
		case "citingcorpusid":
			end(&citing)
		case "citedcorpusid":
			end(&cited)
		case "isinfluential":
			influential = c.Bool()
		}
	}
	if err := c.End(); err != nil {
		return rejectJSON(r.sink, lines, 0, err)
	}
	switch {
	case unknown: // a reference that they could not resolve
		r.unresolved++
		return nil
	case citing < 0 || cited < 0:
		return r.noCorpusID(lines, "citingcorpusid and citedcorpusid")
	case r.onlyInfluential && !influential:
		r.slight++
		return nil
	}
	return r.set.cite(uint64(citing), uint64(cited), lines.Place())
}

func (r *semanticScholarReader) noCorpusID(lines *Lines, what string) error {
	return r.sink.Reject(lines.Place(), hint.Wrap(fmt.Errorf("%w: no %s, or a negative one", ErrFormat, what),
		"fix the record, or set %v to skip such records", hint.Setting("lenient")), beginningOf(lines.Bytes()))
}

// semanticScholarKind returns the dataset of a file, by its first record.
func semanticScholarKind(ctx context.Context, path string, o Options) (string, error) {
	o.Progress = nil
	lines, err := OpenLines(ctx, path, o)
	if err != nil {
		return "", err
	}
	defer lines.Close()
	var c jsonscan.Scanner
	for lines.Next() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		if lines.tooLong() != nil {
			break
		}
		kind := ""
		c.Reset(lines.Bytes())
		for key := range c.Keys() {
			switch string(key) {
			case "citingcorpusid", "citedcorpusid":
				kind = "citations"
			case "abstract":
				kind = "abstracts"
			case "title":
				if kind == "" {
					kind = "papers"
				}
			}
		}
		if kind != "" {
			return kind, nil
		}
		break
	}
	if err := lines.Err(); err != nil {
		return "", err
	}
	return "", failAt(lines.Place(), fmt.Errorf("%w: the first record is neither a paper (title), nor an abstract "+
		"(abstract), nor a citation (citingcorpusid)", ErrFormat), "remove the file, or download it again")
}
