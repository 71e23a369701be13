package figure

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Table is columns and rows.
type Table struct {
	Name    string     `json:"name"` // unique among the tables and figures of a result; part of a file name
	Title   string     `json:"title"`
	Head    string     `json:"head"`             // over the names of the rows: "method"
	Detail  bool       `json:"detail,omitempty"` // for files and programs; too long for a terminal
	Columns []Column   `json:"columns"`
	Rows    []TableRow `json:"rows"`
}

// Column is a heading and how its numbers are written.
type Column struct {
	Name   string `json:"name"`
	Means  string `json:"means,omitempty"`  // explains the name
	Digits int    `json:"digits"`           // after the decimal point
	Better string `json:"better,omitempty"` // "higher", "lower", or "" where neither is better
}

// TableRow is a name and one cell per column.
type TableRow struct {
	Name  string `json:"name"`
	Cells []Cell `json:"cells"`
}

// Add appends a row.
func (t *Table) Add(name string, cells ...Cell) {
	t.Rows = append(t.Rows, TableRow{Name: name, Cells: cells})
}

// Check returns an error if a row does not have one cell per column.
func (t Table) Check() error {
	for _, row := range t.Rows {
		if len(row.Cells) != len(t.Columns) {
			return fmt.Errorf("row %q has %d cells for %d columns; give one each", row.Name, len(row.Cells),
				len(t.Columns))
		}
	}
	return nil
}

// Cell is a number, perhaps with its spread, or a text, perhaps with the numbers behind it. The zero Cell is empty:
// the number is missing.
type Cell struct {
	text          string
	value, spread float64
	kind          cellKind
	parts         []CellPart
}

// CellPart is one of the numbers behind a cell of text. In a CSV file it has a column of its own: that of the cell if
// it is named "value", otherwise one with its name appended.
type CellPart struct {
	Name  string `json:"name"`
	Value Value  `json:"value"`
}

type cellKind uint8

const (
	emptyCell cellKind = iota
	numberCell
	spreadCell
	textCell
)

// Number is a cell with a number. NaN makes it empty.
func Number[T ~int | ~uint64 | ~float64](x T) Cell {
	if math.IsNaN(float64(x)) {
		return Cell{}
	}
	return Cell{kind: numberCell, value: float64(x)}
}

// Spread is a cell with a mean and a standard deviation. A mean that is NaN makes it empty, a deviation that is NaN is
// left out.
func Spread(mean, sd float64) Cell {
	if math.IsNaN(mean) || math.IsNaN(sd) {
		return Number(mean)
	}
	return Cell{kind: spreadCell, value: mean, spread: sd}
}

// Text is a cell with text. The parts are the numbers that the text is made of, such as the ends of an interval: a
// reader wants the sentence, a program the numbers.
func Text(text string, parts ...CellPart) Cell { return Cell{kind: textCell, text: text, parts: parts} }

// Part names one of the numbers behind a cell of text.
func Part[T ~int | ~float64](name string, x T) CellPart { return CellPart{Name: name, Value: Value(x)} }

// Ratio is a cell with a count out of a total: 9/10.
func Ratio(count, total int) Cell {
	return Text(fmt.Sprintf("%d/%d", count, total), Part("value", count), Part("of", total))
}

// Parts are the numbers behind a cell of text.
func (c Cell) Parts() []CellPart { return c.parts }

// Value returns the cell's number, and whether it has one.
func (c Cell) Value() (x float64, ok bool) {
	return c.value, c.kind == numberCell || c.kind == spreadCell
}

// Deviation returns the standard deviation of the cell's number, and whether it has one.
func (c Cell) Deviation() (sd float64, ok bool) { return c.spread, c.kind == spreadCell }

// Format writes the cell with this many digits after the decimal point: "84.45", "84.45 ± 0.12", its text, or "" if it
// is empty.
func (c Cell) Format(digits int) string {
	switch c.kind {
	case numberCell:
		return Decimal(c.value, digits)
	case spreadCell:
		return Decimal(c.value, digits) + " ± " + Decimal(c.spread, digits)
	case textCell:
		return c.text
	}
	return ""
}

// Decimal writes a number with this many digits after the decimal point, and with an exponent from 100,000 on. There
// is no −0, and NaN is "n/a".
func Decimal[T ~float64](value T, digits int) string {
	x := float64(value)
	switch {
	case math.IsNaN(x):
		return "n/a"
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
	Value  *float64   `json:"value,omitempty"`
	Spread *float64   `json:"spread,omitempty"`
	Text   *string    `json:"text,omitempty"`
	Parts  []CellPart `json:"parts,omitempty"`
}

// MarshalJSON writes {"value": x}, {"value": x, "spread": y}, {"text": s}, perhaps with "parts":
// [{"name", "value"}], or null. JSON has no infinity: it is the text "∞".
func (c Cell) MarshalJSON() ([]byte, error) {
	var j cellJSON
	switch {
	case c.kind == emptyCell:
		return []byte("null"), nil
	case c.kind == textCell:
		j.Text, j.Parts = &c.text, c.parts
	case math.IsInf(c.value, 0):
		text := Decimal(c.value, 0)
		j.Text = &text
	default:
		j.Value = &c.value
		if c.kind == spreadCell && !math.IsInf(c.spread, 0) {
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
		*c = Text(*j.Text, j.Parts...)
	case j.Value != nil && j.Spread != nil:
		*c = Spread(*j.Value, *j.Spread)
	case j.Value != nil:
		*c = Number(*j.Value)
	default:
		*c = Cell{}
	}
	return nil
}
