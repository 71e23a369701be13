package study

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"unseen/internal/atomicfile"
)

// Prepare makes a folder for results, unless there is one, and tells whether files can be written there: before
// hours of work rather than after them.
func Prepare(folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return fmt.Errorf("the folder %s cannot be made: %w; choose another", folder, cause(err))
	}
	file, err := os.CreateTemp(folder, ".study-*.tmp")
	if err != nil {
		return fmt.Errorf("the folder %s cannot be written to: %w; choose another, or mend its permissions", folder,
			cause(err))
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// Write writes every result into a folder: STUDY.json with all of it, and STUDY-NAME.csv for every table and
// figure. Each file is the old one or the new one, whatever happens in between. It returns their paths.
func Write(folder string, results []*Result) ([]string, error) {
	var paths []string
	for _, r := range results {
		if err := r.check(); err != nil {
			return paths, err
		}
		raw, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return paths, fmt.Errorf("study %s has no JSON form: %w", r.Study, err)
		}
		files := []struct {
			name    string
			content []byte
		}{{r.Study + ".json", append(raw, '\n')}}
		for _, t := range r.Tables {
			files = append(files, struct {
				name    string
				content []byte
			}{r.Study + "-" + t.Name + ".csv", t.csv()})
		}
		for _, f := range r.Figures {
			files = append(files, struct {
				name    string
				content []byte
			}{r.Study + "-" + f.Name + ".csv", f.csv()})
		}
		for _, f := range files {
			path := filepath.Join(folder, f.name)
			if err := atomicfile.Write(path, func(w io.Writer) error {
				_, err := w.Write(f.content)
				return err
			}); err != nil {
				return paths, err
			}
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// csv is a row per row. Every number has a column of its own: a column whose numbers have a spread is followed by one
// of spreads, and one of words that are made of numbers by theirs.
func (t Table) csv() []byte {
	const value = "value"
	parts := make([][]string, len(t.Columns)) // the names of the columns that each becomes
	head := []string{t.Head}
	for i, column := range t.Columns {
		for _, r := range t.Rows {
			for _, p := range r.Cells[i].fields() {
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
				for _, p := range c.fields() {
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

// field is what one column of a CSV file has of a cell.
type field struct{ name, text string }

func (c Cell) fields() (all []field) {
	x, isNumber := c.Value()
	switch {
	case c.kind == empty:
	case isNumber:
		all = append(all, field{"value", exact(x)})
		if sd, ok := c.Deviation(); ok {
			all = append(all, field{"sd", exact(sd)})
		}
	case len(c.parts) == 0:
		all = append(all, field{"value", c.text})
	}
	for _, p := range c.parts {
		all = append(all, field{p.Name, exact(float64(p.Value))})
	}
	return all
}

// csv is a row per number of the figure, so that every plotting program can read it.
func (f Figure) csv() []byte {
	var lines [][]string
	at := func(n Numbers, i int) string {
		if i < len(n) {
			return exact(n[i])
		}
		return ""
	}
	switch {
	case f.Heat != nil:
		maps := []*HeatMap{f.Heat}
		head := []string{f.Heat.RowTitle, f.Heat.ColumnTitle, "value"}
		if f.Heat.Beside != nil {
			maps = append(maps, f.Heat.Beside)
			head = []string{f.Heat.RowTitle, f.Heat.ColumnTitle, f.Heat.Title, f.Heat.Beside.Title}
		}
		lines = append(lines, head)
		for i, row := range f.Heat.Rows {
			for j, column := range f.Heat.Columns {
				line := []string{row, column}
				for _, m := range maps {
					line = append(line, at(m.Values[i], j))
				}
				lines = append(lines, line)
			}
		}
	case f.Lines != nil:
		lines = append(lines, []string{"series", f.Lines.XTitle, f.Lines.YTitle, "low", "high"})
		for _, s := range f.Lines.Series {
			for i := range s.X {
				lines = append(lines, []string{s.Name, at(s.X, i), at(s.Y, i), at(s.Low, i), at(s.High, i)})
			}
		}
	case f.Bars != nil:
		lines = append(lines, []string{"series", "group", f.Bars.YTitle, "error"})
		for _, s := range f.Bars.Series {
			for i, group := range f.Bars.Groups {
				lines = append(lines, []string{s.Name, group, at(s.Values, i), at(s.Errors, i)})
			}
		}
	case f.Intervals != nil:
		lines = append(lines, []string{"group", "name", f.Intervals.XTitle, "low", "high", "truth"})
		for _, r := range f.Intervals.Rows {
			line := []string{r.Group, r.Name, exact(float64(r.Estimate)), exact(float64(r.Low)),
				exact(float64(r.High)), ""}
			if r.Truth != nil {
				line[5] = exact(float64(*r.Truth))
			}
			lines = append(lines, line)
		}
	}
	return encodeCSV(lines)
}

// exact writes a number such that reading it gives the same one.
func exact(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func encodeCSV(lines [][]string) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.WriteAll(lines) // a Buffer takes everything
	return b.Bytes()
}
