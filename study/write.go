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
		return fmt.Errorf("the folder %s cannot be written to: %w; choose another, or mend its permissions", folder, cause(err))
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

// csv is a row per row. A column whose numbers have a spread is followed by one of spreads.
func (t Table) csv() []byte {
	spreads := make([]bool, len(t.Columns))
	for _, r := range t.Rows {
		for i, c := range r.Cells {
			_, is := c.Deviation()
			spreads[i] = spreads[i] || is
		}
	}
	head := []string{t.Head}
	for i, c := range t.Columns {
		head = append(head, c.Name)
		if spreads[i] {
			head = append(head, c.Name+" sd")
		}
	}
	lines := [][]string{head}
	for _, r := range t.Rows {
		line := []string{r.Name}
		for i, c := range r.Cells {
			text := c.Format(0)
			if x, ok := c.Value(); ok {
				text = exact(x)
			}
			line = append(line, text)
			if spreads[i] {
				text = ""
				if x, ok := c.Deviation(); ok {
					text = exact(x)
				}
				line = append(line, text)
			}
		}
		lines = append(lines, line)
	}
	return encodeCSV(lines)
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
			line := []string{r.Group, r.Name, exact(float64(r.Estimate)), exact(float64(r.Low)), exact(float64(r.High)), ""}
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
