package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"regexp"
	"strings"

	"unseen/figure"
	"unseen/fit"
	"unseen/study"
)

//go:embed page.gohtml
var pageText string

//go:embed page.css
var pageStyle string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// rowsShown is how many rows of a table a page has; files have the others.
const rowsShown = 400

// HTML returns the document as one page that needs nothing else: no script, no font, no picture from outside. The
// same document gives the same bytes.
func (d *Page) HTML() ([]byte, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	p := pageView{Title: d.Title, Summary: d.Summary}
	p.Style = template.CSS(figure.StyleSheet() + pageStyle)
	names := d.names()
	var all []study.Claim
	for i, s := range d.Sections {
		v := sectionView{Section: s, ID: names[i]}
		for _, f := range s.Claims {
			v.Judged = append(v.Judged, claimView{f, badgeOf(f.Verdict)})
		}
		for _, f := range s.Figures {
			v.Drawn = append(v.Drawn, figureViewOf(f))
		}
		for _, t := range s.Tables {
			v.Grids = append(v.Grids, tableViewOf(t))
		}
		p.Sections = append(p.Sections, v)
		p.Warnings += len(s.Warnings)
		all = append(all, s.Claims...)
	}
	for _, v := range verdicts {
		n := 0
		for _, f := range all {
			if f.Verdict == v {
				n++
			}
		}
		if n > 0 {
			p.Tiles = append(p.Tiles, tile{n, badgeOf(v)})
		}
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		return nil, fmt.Errorf("report: the page %q cannot be made: %w", d.Title, err)
	}
	return b.Bytes(), nil
}

// page and what follows is what the template sees.
type pageView struct {
	Title    string
	Summary  []string
	Style    template.CSS
	Tiles    []tile
	Warnings int
	Sections []sectionView
}

type tile struct {
	Count int
	Badge badge
}

type sectionView struct {
	Section
	ID     string
	Judged []claimView
	Drawn  []figureView
	Grids  []tableView
}

type claimView struct {
	study.Claim
	Badge badge
}

// badge is a verdict with its colour and a sign, for those who do not see colours.
type badge struct{ Tone, Sign, Text string }

func badgeOf(v study.Verdict) badge {
	switch v {
	case study.Reproduced, study.Met, study.Verdict(fit.Identified):
		return badge{"good", "✓", string(v)}
	case study.Partly, study.Verdict(fit.Weak):
		return badge{"fair", "~", string(v)}
	case study.NotReproduced, study.Missed, study.Verdict(fit.NotIdentified), study.Verdict(fit.NoExposure):
		return badge{"bad", "✗", string(v)}
	}
	return badge{"calm", "?", string(v)}
}

type figureView struct {
	Title, Caption string
	Half           bool
	Wide, Narrow   template.HTML // all text in them is escaped
}

func figureViewOf(f figure.Figure) figureView {
	width := wideWidth
	if half(f) {
		width = halfWidth
	}
	return figureView{
		Title: f.Title, Caption: f.Caption, Half: half(f),
		Wide:   template.HTML(drawFigure(f, width, false).svg(true)),
		Narrow: template.HTML(drawFigure(f, narrowWidth, false).svg(true)),
	}
}

// aWord tells words from figures such as 4/10, ≥ 3 and ✗.
var aWord = regexp.MustCompile(`\pL\pL`)

type tableView struct {
	Title, Head string
	Detail      bool
	Worded      bool // a column has sentences
	Columns     []columnView
	Rows        []rowView
	Means       []string
	Arrows      bool
	Left        int // rows that are not shown
}

type columnView struct {
	Name, Arrow, Better string
	Words               bool // not figures: to the left
	Long                bool // sentences
}

type rowView struct {
	Name  string
	Short bool // it stays on one line
	Cells []cellView
}

type cellView struct {
	Text, Spread   string
	Words, Missing bool
	Long           bool
}

func tableViewOf(t figure.Table) tableView {
	v := tableView{Title: t.Title, Head: t.Head, Detail: t.Detail}
	for i, c := range t.Columns {
		column := columnView{Name: c.Name}
		switch c.Better {
		case "higher":
			column.Arrow, column.Better = "↑", "higher is better"
		case "lower":
			column.Arrow, column.Better = "↓", "lower is better"
		}
		if c.Means != "" {
			v.Means = append(v.Means, c.Name+": "+c.Means)
		}
		for _, r := range t.Rows {
			if _, isNumber := r.Cells[i].Value(); !isNumber {
				text := r.Cells[i].Format(0)
				column.Words = column.Words || aWord.MatchString(text)
				column.Long = column.Long || len(text) > 40
			}
		}
		v.Arrows = v.Arrows || column.Arrow != ""
		v.Worded = v.Worded || column.Long
		v.Columns = append(v.Columns, column)
	}
	for i, r := range t.Rows {
		if i == rowsShown {
			v.Left = len(t.Rows) - i
			break
		}
		row := rowView{Name: r.Name, Short: len(r.Name) <= 18}
		for j, c := range r.Cells {
			text := c.Format(min(max(t.Columns[j].Digits, 0), 12))
			cell := cellView{Text: text, Words: v.Columns[j].Words, Long: v.Columns[j].Long, Missing: text == ""}
			if _, has := c.Deviation(); has {
				cell.Text, cell.Spread, _ = strings.Cut(text, " ± ")
			}
			if _, isNumber := c.Value(); isNumber {
				cell.Text = strings.Replace(cell.Text, "-", "−", 1)
			}
			row.Cells = append(row.Cells, cell)
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}
