package study

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Result is what a study found: the same numbers as typed rows, for programs that know the study, and as
// tables and figures, for those that show any study.
type Result struct {
	Study    string    `json:"study"`
	Title    string    `json:"title"`
	Options  Options   `json:"options"`
	Setting  []string  `json:"setting"` // how it was done, in sentences
	Tables   []Table   `json:"tables"`
	Figures  []Figure  `json:"figures,omitempty"`
	Findings []Finding `json:"findings"`
	Warnings []string  `json:"warnings,omitempty"`
	Rows     any       `json:"rows"` // the study's own type, such as []Outcome
	Seconds  float64   `json:"seconds"`
}

// Finding compares a claim with what came out.
type Finding struct {
	Claim   string  `json:"claim"`
	Verdict Verdict `json:"verdict"`
	Words   string  `json:"words"` // the numbers behind the verdict, in a sentence
}

// Verdict is what became of a claim.
type Verdict string

const (
	Reproduced    Verdict = "reproduced"
	Partly        Verdict = "partly"
	NotReproduced Verdict = "not reproduced"

	// Of thresholds that were stated before the seeds were run.
	Met    Verdict = "met"
	Missed Verdict = "missed"

	// TooSmall is shown in the place of all others where there is too little to judge by; see Judged.
	TooSmall Verdict = "too small to tell"
)

// Repetitions below which nothing is called reproduced. Studies of real networks have intervals over sources, and
// repeat only what is drawn.
const fewestSeeds, fewestDraws = 5, 3

// Small says why the result is too small to judge by, such as "quick, 2 seeds"; "" where it is not.
func (r *Result) Small() string {
	seeds, enough := len(r.Options.Seeds), fewestSeeds
	if r.Study == "figure1" {
		seeds = min(seeds, 1) // it looks at the first alone
	}
	if r.Study == "table3" || r.Study == "table4" || r.Study == "clicks" {
		enough = fewestDraws
	}
	words := fmt.Sprintf("%d seeds", seeds)
	if seeds == 1 {
		words = "one seed"
	}
	switch {
	case r.Options.Quick:
		return "quick, " + words
	case seeds > 0 && seeds < enough:
		return words
	}
	return ""
}

// Judged are the findings as they may be shown: where the result is Small, the verdict of each is TooSmall, and what
// the numbers alone would say is left to its words.
func (r *Result) Judged() []Finding {
	if r.Small() == "" {
		return r.Findings
	}
	judged := make([]Finding, len(r.Findings))
	for i, f := range r.Findings {
		judged[i] = Finding{f.Claim, TooSmall, fmt.Sprintf("By these numbers: %s. %s", f.Verdict, f.Words)}
	}
	return judged
}

// Table is columns and rows.
type Table struct {
	Name    string   `json:"name"` // unique in the study; part of a file's name
	Title   string   `json:"title"`
	Head    string   `json:"head"`             // over the rows' names: "method"
	Detail  bool     `json:"detail,omitempty"` // for files and programs; too long for a terminal
	Columns []Column `json:"columns"`
	Rows    []Row    `json:"rows"`
}

// Column is a heading and how its numbers are written.
type Column struct {
	Name   string `json:"name"`
	Means  string `json:"means,omitempty"`  // explains the name
	Digits int    `json:"digits"`           // after the point
	Better string `json:"better,omitempty"` // higher or lower; "" where neither is
}

// Row is a name and a cell per column.
type Row struct {
	Name  string `json:"name"`
	Cells []Cell `json:"cells"`
}

// Cell is a number, perhaps with its spread, or a word, perhaps with the numbers that it is made of. The zero Cell is
// empty: there is no such number.
type Cell struct {
	text          string
	value, spread float64
	kind          cellKind
	parts         []Part
}

// Part is one of the numbers behind a cell of words. In a CSV file it has a column of its own: that of the cell, if
// it is called value, or else one with its name behind.
type Part struct {
	Name  string `json:"name"`
	Value Mark   `json:"value"`
}

type cellKind uint8

const (
	empty cellKind = iota
	number
	spreadNumber
	word
)

// Number is a cell with a number. One that is not a number leaves it empty.
func Number(x float64) Cell {
	if math.IsNaN(x) {
		return Cell{}
	}
	return Cell{kind: number, value: x}
}

// Spread is a cell with a mean and a standard deviation over seeds. One that is not a number leaves it empty.
func Spread(mean, sd float64) Cell {
	if math.IsNaN(mean) || math.IsNaN(sd) {
		return Number(mean)
	}
	return Cell{kind: spreadNumber, value: mean, spread: sd}
}

// SpreadOf is the Spread of some numbers, of which one may be missing no more than all: where one is not a
// number, the cell is empty.
func SpreadOf(xs []float64) Cell {
	if len(xs) == 1 {
		return Number(xs[0])
	}
	if len(xs) == 0 {
		return Cell{}
	}
	return Spread(meanAndSpread(xs))
}

// Word is a cell with text.
func Word(text string) Cell { return Cell{kind: word, text: text} }

// Worded is a cell whose numbers a reader wants in words, such as an interval, and a program one by one.
func Worded(text string, parts ...Part) Cell { return Cell{kind: word, text: text, parts: parts} }

// ratio is a cell with a count and what it is a count of, 9/10.
func ratio(count, of int) Cell {
	return Worded(fmt.Sprintf("%d/%d", count, of), Part{"value", Mark(count)}, Part{"of", Mark(of)})
}

// Parts are the numbers behind a cell of words.
func (c Cell) Parts() []Part { return c.parts }

// Value returns the cell's number, and whether it has one.
func (c Cell) Value() (x float64, ok bool) {
	return c.value, c.kind == number || c.kind == spreadNumber
}

// Deviation returns the spread of the cell's number, and whether it has one.
func (c Cell) Deviation() (sd float64, ok bool) { return c.spread, c.kind == spreadNumber }

// Format writes the cell with so many digits after the point: "84.45", "84.45 ± 0.12", a word, or "" where
// there is nothing. Numbers that are very large are written with an exponent.
func (c Cell) Format(digits int) string {
	switch c.kind {
	case number:
		return decimal(c.value, digits)
	case spreadNumber:
		return decimal(c.value, digits) + " ± " + decimal(c.spread, digits)
	case word:
		return c.text
	}
	return ""
}

func decimal(x float64, digits int) string {
	switch {
	case math.IsInf(x, 1):
		return "∞"
	case math.IsInf(x, -1):
		return "−∞"
	case math.Abs(x) >= 1e5:
		return strconv.FormatFloat(x, 'e', 1, 64)
	}
	text := strconv.FormatFloat(x, 'f', digits, 64)
	if zero := strconv.FormatFloat(math.Copysign(0, -1), 'f', digits, 64); text == zero {
		text = text[1:]
	}
	return text
}

type cellJSON struct {
	Value  *float64 `json:"value,omitempty"`
	Spread *float64 `json:"spread,omitempty"`
	Text   *string  `json:"text,omitempty"`
	Parts  []Part   `json:"parts,omitempty"`
}

// MarshalJSON writes {"value": x}, {"value": x, "spread": y}, {"text": s}, perhaps with "parts":
// [{"name", "value"}], or null. JSON has no infinity: it is the text "∞".
func (c Cell) MarshalJSON() ([]byte, error) {
	var j cellJSON
	switch {
	case c.kind == empty:
		return []byte("null"), nil
	case c.kind == word:
		j.Text, j.Parts = &c.text, c.parts
	case math.IsInf(c.value, 0):
		text := decimal(c.value, 0)
		j.Text = &text
	default:
		j.Value = &c.value
		if c.kind == spreadNumber && !math.IsInf(c.spread, 0) {
			j.Spread = &c.spread
		}
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (c *Cell) UnmarshalJSON(raw []byte) error {
	var j cellJSON
	if err := json.Unmarshal(raw, &j); err != nil {
		return err
	}
	switch {
	case j.Text != nil:
		*c = Worded(*j.Text, j.Parts...)
	case j.Value != nil && j.Spread != nil:
		*c = Spread(*j.Value, *j.Spread)
	case j.Value != nil:
		*c = Number(*j.Value)
	default:
		*c = Cell{}
	}
	return nil
}

// Figure is one drawing, with exactly one of its kinds set.
type Figure struct {
	Name  string   `json:"name"` // unique in the study; part of a file's name
	Title string   `json:"title"`
	Heat  *HeatMap `json:"heat,omitempty"`
	Lines *Lines   `json:"lines,omitempty"`
	Bars  *Bars    `json:"bars,omitempty"`

	Intervals *Intervals `json:"intervals,omitempty"`
	Caption   string     `json:"caption,omitempty"` // what to see in it, in a sentence or two
}

// HeatMap is a matrix of numbers with names on both sides.
type HeatMap struct {
	Title       string    `json:"title,omitempty"` // tells it from the one beside it: "true"
	RowTitle    string    `json:"rowTitle"`
	ColumnTitle string    `json:"columnTitle"`
	Rows        []string  `json:"rows"`
	Columns     []string  `json:"columns"`
	Values      []Numbers `json:"values"` // by row
	Low         float64   `json:"low"`    // ends of the scale, so that two maps can share one
	High        float64   `json:"high"`
	Beside      *HeatMap  `json:"beside,omitempty"` // one more, with the same names and scale
}

// Lines is series over a common axis, each perhaps with a band.
type Lines struct {
	XTitle   string `json:"xTitle"`
	YTitle   string `json:"yTitle"`
	Series   []Line `json:"series"`
	LogX     bool   `json:"logX,omitempty"` // logarithmic axes leave out what is not above 0
	LogY     bool   `json:"logY,omitempty"`
	Shares   bool   `json:"shares,omitempty"`   // both axes run from 0 to 1: ROC and calibration curves
	Diagonal bool   `json:"diagonal,omitempty"` // y = x is drawn too
}

// Line is points, and a band around them where Low and High are not nil.
type Line struct {
	Name string  `json:"name"`
	X    Numbers `json:"x"`
	Y    Numbers `json:"y"`
	Low  Numbers `json:"low,omitempty"`
	High Numbers `json:"high,omitempty"`

	// what the others are measured by, such as the truth: drawn thin and dashed
	Reference bool `json:"reference,omitempty"`
}

// Bars is groups of bars, one bar per series in each.
type Bars struct {
	YTitle string   `json:"yTitle"`
	Groups []string `json:"groups"`
	Series []Bar    `json:"series"`
}

// Bar is a bar per group, and half the length of its whisker where Errors is not nil.
type Bar struct {
	Name   string  `json:"name"`
	Values Numbers `json:"values"`
	Errors Numbers `json:"errors,omitempty"`
}

// Intervals is estimates with intervals, one below the other.
type Intervals struct {
	XTitle string     `json:"xTitle"`
	Legend string     `json:"legend,omitempty"` // what dots and whiskers are; "" means estimate and its interval
	Digits int        `json:"digits,omitempty"` // after the point; 0 leaves it to who draws
	Rows   []Interval `json:"rows"`
}

// Interval is an estimate from Low to High, and the truth where it is known. What is not a number is not drawn.
type Interval struct {
	Name     string `json:"name"`
	Group    string `json:"group,omitempty"` // rows of one group stand together below its name
	Estimate Mark   `json:"estimate"`
	Low      Mark   `json:"low"`
	High     Mark   `json:"high"`
	Truth    *Mark  `json:"truth,omitempty"`
}

// Numbers are numbers of which some may be missing: what is not a finite number is null in JSON, and NaN
// once read again.
type Numbers []float64

// MarshalJSON writes null for what is not finite.
func (n Numbers) MarshalJSON() ([]byte, error) {
	out := make([]*float64, len(n))
	for i := range n {
		if !math.IsNaN(n[i]) && !math.IsInf(n[i], 0) {
			out[i] = &n[i]
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads null as NaN.
func (n *Numbers) UnmarshalJSON(raw []byte) error {
	var in []*float64
	if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	*n = make(Numbers, len(in))
	for i, x := range in {
		(*n)[i] = math.NaN()
		if x != nil {
			(*n)[i] = *x
		}
	}
	return nil
}

// check tells a study's author what is wrong with its tables and figures.
func (r *Result) check() error {
	names := make(map[string]bool)
	unique := func(name string) error {
		if name == "" || names[name] {
			return fmt.Errorf("study: a table or figure of %s is named %q, as is another or none", r.Study, name)
		}
		names[name] = true
		return nil
	}
	for _, t := range r.Tables {
		if err := unique(t.Name); err != nil {
			return err
		}
		for _, row := range t.Rows {
			if len(row.Cells) != len(t.Columns) {
				return fmt.Errorf("study: table %s of %s: row %q has %d cells for %d columns", t.Name, r.Study,
					row.Name, len(row.Cells), len(t.Columns))
			}
		}
	}
	for _, f := range r.Figures {
		if err := unique(f.Name); err != nil {
			return err
		}
		kinds := 0
		for _, is := range []bool{f.Heat != nil, f.Lines != nil, f.Bars != nil, f.Intervals != nil} {
			if is {
				kinds++
			}
		}
		if kinds != 1 {
			return fmt.Errorf("study: figure %s of %s is of %d kinds; make it of one", f.Name, r.Study, kinds)
		}
		if h := f.Heat; h != nil {
			if len(h.Values) != len(h.Rows) || h.Beside != nil && len(h.Beside.Values) != len(h.Rows) {
				return fmt.Errorf("study: figure %s of %s: the heat map, or the one beside it, has not a row of "+
					"numbers for each of %d names", f.Name, r.Study, len(h.Rows))
			}
		}
	}
	return nil
}
