package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"regexp"
	"strings"

	"unseen/evaluate"
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

// HTML returns the page as one file that needs nothing else: no script, no font, no picture from outside. The same page
// gives the same bytes.
func (p *Page) HTML() ([]byte, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	view := pageView{Title: p.Title, Summary: p.Summary, Style: template.CSS(figure.StyleSheet() + pageStyle)}
	names, counts := p.names(), map[study.Verdict]int{}
	for i, s := range p.Sections {
		v := sectionView{Section: s, ID: names[i]}
		for _, c := range s.Claims {
			v.Judged = append(v.Judged, claimView{c, badgeOf(c.Verdict)})
			counts[c.Verdict]++
		}
		for _, f := range s.Figures {
			v.Drawn = append(v.Drawn, figureViewOf(f))
		}
		for _, t := range s.Tables {
			v.Grids = append(v.Grids, tableViewOf(t))
		}
		view.Sections = append(view.Sections, v)
		view.Warnings += len(s.Warnings)
	}
	for _, v := range verdicts {
		if counts[v] > 0 {
			view.Tiles = append(view.Tiles, tile{counts[v], badgeOf(v)})
		}
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, view); err != nil {
		return nil, fmt.Errorf("cannot render page %q: %w", p.Title, err)
	}
	return b.Bytes(), nil
}

// pageView and the types below are what the template sees.
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

// badge is a verdict with its colour, and a sign for readers who do not see colours.
type badge struct{ Tone, Sign, Text string }

func badgeOf(v study.Verdict) badge {
	switch v {
	case study.Reproduced, study.Met, study.Verdict(fit.Identified), study.Verdict(evaluate.PreferOwn):
		return badge{"good", "✓", string(v)}
	case study.Partly, study.Verdict(fit.Weak), study.Verdict(evaluate.PreferOwnIf),
		study.Verdict(evaluate.PreferOtherIf), study.Verdict(evaluate.Depends):
		return badge{"fair", "~", string(v)}
	case study.NotReproduced, study.Missed, study.Verdict(fit.NotIdentified), study.Verdict(fit.NoExposure),
		study.Verdict(evaluate.PreferOther):
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

// wordPattern matches words, as opposed to 4/10, ≥ 3 and ✗.
var wordPattern = regexp.MustCompile(`\pL\pL`)

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
	Words               bool // not numbers: aligned to the left
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
				column.Words = column.Words || wordPattern.MatchString(text)
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
