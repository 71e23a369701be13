package exchange

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"unseen/internal/jsonscan"
)

func init() {
	Register(Format{
		Name:    "semantic-scholar",
		Summary: "Papers, abstracts and citations of Semantic Scholar",
		Args:    "PATH…",
		Help: `Paths are files, or folders of files, of the datasets "papers", "citations" and
perhaps "abstracts" of the Semantic Scholar Academic Graph: one JSON object per
line, plain, gzip or zstd. Which of them a file is, its first record tells.

A paper becomes a node: corpusid, title, publicationdate or year, and as field
the first category of s2fieldsofstudy that its own classifier (s2-fos-model)
gave, else the first. Abstracts become the texts. A citation becomes a link
from citingcorpusid to citedcorpusid; one with an end that is null or leads
outside of the papers is counted and dropped.`,
		Flags: append([]Flag{
			{Name: "influential", Switch: true, Usage: "keep only citations marked isinfluential"},
		}, flagsOfWorks...),
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
			return Wrong(Place{File: strings.Join(o.Paths, " ")}, fmt.Errorf("%w: no file of %s", ErrUsage, needed),
				"name the datasets papers and citations too")
		}
	}
	set, err := newWorks(&o, s, func(n uint64) string { return strconv.FormatUint(n, 10) })
	if err != nil {
		return err
	}
	papers := newWaitingWorks(set)
	defer papers.close()
	var c jsonscan.Cursor
	for _, path := range kinds["papers"] {
		err := eachLine(ctx, path, o, s, func(lines *Lines) error { return semanticScholarPaper(&c, lines, papers) })
		if err != nil {
			return err
		}
	}
	for _, path := range kinds["abstracts"] {
		err := eachLine(ctx, path, o, s, func(lines *Lines) error {
			var abstract []byte
			id := int64(-1)
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
				return scanFault(s, lines, 0, err)
			}
			if id < 0 {
				return noCorpusID(s, lines, "corpusid")
			}
			return papers.text(uint64(id), abstract)
		})
		if err != nil {
			return err
		}
	}
	if err := papers.release(ctx, nil); err != nil {
		return err
	}
	only := o.Flag("influential") == "true"
	unresolved, slight := 0, 0
	for _, path := range kinds["citations"] {
		err := eachLine(ctx, path, o, s, func(lines *Lines) error {
			citing, cited := int64(-1), int64(-1)
			influential, unknown := false, false
			c.Reset(lines.Bytes())
			for key := range c.Keys() {
				switch string(key) {
				case "citingcorpusid":
					if c.Null() {
						unknown = true
					} else {
						citing = c.Int()
					}
				case "citedcorpusid":
					if c.Null() {
						unknown = true
					} else {
						cited = c.Int()
					}
				case "isinfluential":
					influential = c.Bool()
				}
			}
			if err := c.End(); err != nil {
				return scanFault(s, lines, 0, err)
			}
			switch {
			case unknown: // a reference that they could not resolve
				unresolved++
				return nil
			case citing < 0 || cited < 0:
				return noCorpusID(s, lines, "citingcorpusid and citedcorpusid")
			case only && !influential:
				slight++
				return nil
			}
			return set.cite(uint64(citing), uint64(cited), lines.Place())
		})
		if err != nil {
			return err
		}
	}
	if unresolved > 0 {
		s.Note("%d citations have no corpusid at one end and were dropped.", unresolved)
	}
	if slight > 0 {
		s.Note("%d citations are not marked isinfluential and were left out.", slight)
	}
	set.tell()
	return nil
}

func noCorpusID(s Sink, lines *Lines, what string) error {
	return s.Reject(lines.Place(), fmt.Errorf("%w: no %s, or a negative one", ErrFormat, what),
		"mend the record, or let such records go with --lenient", beginningOf(lines.Bytes()))
}

func semanticScholarPaper(c *jsonscan.Cursor, lines *Lines, papers *waitingWorks) error {
	s := papers.set.sink
	var title, date, field []byte
	id, year := int64(-1), int64(0)
	byModel := false
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
				var category, source []byte
				for key := range c.Keys() {
					switch string(key) {
					case "category":
						category = c.Text()
					case "source":
						source = c.Text()
					}
				}
				model := string(source) == "s2-fos-model"
				if len(category) > 0 && (field == nil || model && !byModel) {
					field, byModel = category, model
				}
			}
		}
	}
	if err := c.End(); err != nil {
		return scanFault(s, lines, 0, err)
	}
	if id < 0 {
		return noCorpusID(s, lines, "corpusid")
	}
	when := newYear(year)
	if len(date) > 0 {
		var ok bool
		if when, ok = day(date); !ok {
			return s.Reject(lines.Place(), fmt.Errorf("%w: the publicationdate %.40q is no date", ErrFormat, date),
				"write it as 2021-07-18", beginningOf(lines.Bytes()))
		}
	}
	if !papers.set.wanted(when, view(field)) {
		return nil
	}
	return papers.add(uint64(id), when, field, title, lines)
}

// semanticScholarKind tells the dataset of a file by its first record.
func semanticScholarKind(ctx context.Context, path string, o Options) (string, error) {
	o.Progress = nil
	lines, err := OpenLines(ctx, path, o)
	if err != nil {
		return "", err
	}
	defer lines.Close()
	var c jsonscan.Cursor
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
	return "", Wrong(lines.Place(), fmt.Errorf("%w: the first record is neither a paper (title), nor an "+
		"abstract (abstract), nor a citation (citingcorpusid)", ErrFormat), "leave the file out, or download it again")
}
