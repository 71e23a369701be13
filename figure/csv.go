package figure

import (
	"bytes"
	"encoding/csv"
	"math"
	"slices"
	"strconv"
	"strings"

	"unseen/internal/safetext"
)

// CSV has a line per row. Every number has a column of its own: a column whose numbers have a spread is followed by
// one of standard deviations, and a column of text with numbers behind it becomes a column for each of those.
func (t Table) CSV() []byte {
	const value = "value"
	parts := make([][]string, len(t.Columns)) // the names of the columns that each becomes
	head := []string{t.Head}
	for i, column := range t.Columns {
		for _, r := range t.Rows {
			for _, p := range r.Cells[i].csvFields() {
				if !slices.Contains(parts[i], p.name) {
					parts[i] = append(parts[i], p.name)
				}
			}
		}
		if len(parts[i]) == 0 {
			parts[i] = []string{value}
		}
		for _, name := range parts[i] {
			if name == value {
				head = append(head, column.Name)
			} else {
				head = append(head, column.Name+" "+name)
			}
		}
	}
	lines := [][]string{head}
	for _, r := range t.Rows {
		line := []string{r.Name}
		for i, c := range r.Cells {
			for _, name := range parts[i] {
				text := ""
				for _, p := range c.csvFields() {
					if p.name == name {
						text = p.text
					}
				}
				line = append(line, text)
			}
		}
		lines = append(lines, line)
	}
	return encodeCSV(lines)
}

// csvField is what one column of a CSV file has of a cell.
type csvField struct{ name, text string }

func (c Cell) csvFields() (all []csvField) {
	x, isNumber := c.Value()
	switch {
	case c.kind == emptyCell:
	case isNumber:
		all = append(all, csvField{"value", exact(x)})
		if sd, ok := c.Deviation(); ok {
			all = append(all, csvField{"sd", exact(sd)})
		}
	case len(c.parts) == 0:
		all = append(all, csvField{"value", c.text})
	}
	for _, p := range c.parts {
		all = append(all, csvField{p.Name, exact(float64(p.Value))})
	}
	return all
}

// CSV has a line per point of the figure, which every plotting program can read.
func (f Figure) CSV() []byte {
	switch {
	case f.Heat != nil:
		return encodeCSV(f.Heat.csvLines())
	case f.Lines != nil:
		lines := [][]string{{"series", f.Lines.XTitle, f.Lines.YTitle, "low", "high"}}
		for _, s := range f.Lines.Series {
			for i := range s.X {
				lines = append(lines, []string{s.Name, s.X.csvAt(i), s.Y.csvAt(i), s.Low.csvAt(i), s.High.csvAt(i)})
			}
		}
		return encodeCSV(lines)
	case f.Bars != nil:
		lines := [][]string{{"series", "group", f.Bars.YTitle, "error"}}
		for _, s := range f.Bars.Series {
			for i, group := range f.Bars.Groups {
				lines = append(lines, []string{s.Name, group, s.Values.csvAt(i), s.Errors.csvAt(i)})
			}
		}
		return encodeCSV(lines)
	case f.Intervals != nil:
		lines := [][]string{{"group", "name", f.Intervals.XTitle, "low", "high", "truth"}}
		for _, r := range f.Intervals.Rows {
			truth := ""
			if r.Truth != nil {
				truth = exact(float64(*r.Truth))
			}
			lines = append(lines, []string{r.Group, r.Name, exact(float64(r.Estimate)), exact(float64(r.Low)),
				exact(float64(r.High)), truth})
		}
		return encodeCSV(lines)
	}
	return nil
}

func (h *HeatMap) csvLines() [][]string {
	maps, titles := []*HeatMap{h}, []string{"value"}
	if h.Beside != nil {
		maps, titles = append(maps, h.Beside), []string{h.Title, h.Beside.Title}
	}
	lines := [][]string{append([]string{h.RowTitle, h.ColumnTitle}, titles...)}
	for i, row := range h.Rows {
		for j, column := range h.Columns {
			line := []string{row, column}
			for _, m := range maps {
				line = append(line, m.Values[i].csvAt(j))
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// csvAt is the i-th number, or "" where there are fewer.
func (v Values) csvAt(i int) string {
	if i < len(v) {
		return exact(v[i])
	}
	return ""
}

// exact writes a number such that reading it gives the same one; a missing one leaves its place empty.
func exact(x float64) string {
	if math.IsNaN(x) {
		return ""
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// encodeCSV writes lines, the first of which are headings: in a file they are names of columns.
func encodeCSV(lines [][]string) []byte {
	for i, heading := range lines[0] {
		lines[0][i] = columnName(heading)
		for n := 2; slices.Contains(lines[0][:i], lines[0][i]); n++ {
			lines[0][i] = columnName(heading) + "_" + strconv.Itoa(n)
		}
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	for _, line := range lines {
		w.Write(safetext.Cells(line)) // a bytes.Buffer returns no error
	}
	w.Flush()
	return b.Bytes()
}

// symbols are what headings have besides words, as columns name it.
var symbols = strings.NewReplacer("ŷ", " link ", "π̂", " propensity ", "\u0302", " hat ", "κ", " kappa ", "𝒢", " g ",
	"±", " plus minus ", "−", " minus ", "÷", " over ", "%", " percent ", "³", "3 ", "⁶", "6 ", "'", "")

// columnName is a heading in snake_case, with ASCII letters and digits alone: "R_AP − R" is r_ap_minus_r.
func columnName(heading string) string {
	words := strings.FieldsFunc(strings.ToLower(symbols.Replace(heading)), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	name := strings.Join(words, "_")
	if name == "" || name[0] <= '9' { // a name begins with a letter
		name = strings.TrimSuffix("n_"+name, "_")
	}
	return name
}
