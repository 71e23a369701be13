package dataset

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"unseen/hint"
	"unseen/internal/atomicfile"
	"unseen/internal/columnar"
)

// table is a Parquet file that is read by columns.
type table struct {
	path    string
	parquet *parquet.File
}

const fixTable = "the file is damaged or not Parquet; write it again, in pandas with to_parquet"

// What the columns of a table may expand to: any file to some bytes, and a larger one to a multiple of its size.
const (
	expandsFreely = 512 << 20
	expandsMost   = 200
)

func openTable(file *os.File, path string) (t *table, err error) {
	defer catch(path, &err)
	info, err := file.Stat()
	if err != nil {
		return nil, fileError(path, atomicfile.WithoutPath(err), "")
	}
	p, err := columnar.Open(file, info.Size())
	if err != nil {
		return nil, fileError(path, fmt.Errorf("%w: %v", ErrFormat, err), fixTable)
	}
	return &table{path, p}, nil
}

// catch turns a panic of the Parquet library, which damaged bytes can cause, into an error.
func catch(path string, err *error) {
	if p := recover(); p != nil {
		*err = fileError(path, fmt.Errorf("%w: %v", ErrFormat, p), fixTable)
	}
}

// bounds is what columns of the table may expand to.
func (t *table) bounds() columnar.Bounds {
	return columnar.Bounds{Bytes: max(expandsFreely, expandsMost*t.parquet.Size()), Values: math.MaxInt32}
}

func (t *table) rows() int64 { return t.parquet.NumRows() }

// textBytes is about how many bytes of text a column holds, as the file claims; no more than can be believed.
func (t *table) textBytes(c *column) int {
	claimed := int64(0)
	for _, group := range t.parquet.Metadata().RowGroups {
		if c.index < len(group.Columns) {
			claimed = min(claimed+max(group.Columns[c.index].MetaData.TotalUncompressedSize, 0), 1<<28)
		}
	}
	return int(claimed)
}

// column is one flat column of a table.
type column struct {
	name  string
	index int
	kind  parquet.Kind
	time  func(int64) time.Time // of a column of times
}

// Kinds of columns that are no kind of Parquet's.
const (
	kindDecimal parquet.Kind = -1 - iota
	kindNothing              // of no type, as Arrow writes a column without any value
)

// find returns the column of a name, or nil when there is none. A list or a record is an error.
func (t *table) find(name string) (*column, error) {
	c := t.parquet.Root().Column(name)
	if c == nil {
		return nil, nil
	}
	if !c.Leaf() || c.Repeated() {
		return nil, t.mistyped(name, "lists or records", "store one value per row")
	}
	found := &column{name: name, index: c.Index(), kind: c.Type().Kind()}
	if logical := c.Type().LogicalType(); logical != nil {
		switch l := logical.Value.(type) {
		case *format.DecimalType:
			found.kind = kindDecimal
		case *format.NullType:
			found.kind = kindNothing
		case *format.DateType:
			found.time = func(days int64) time.Time { return time.Unix(days*86400, 0) }
		case *format.TimestampType:
			found.time = timeOf(l.Unit)
		}
	}
	return found, nil
}

func timeOf(unit format.TimeUnit) func(int64) time.Time {
	switch unit.Value.(type) {
	case *format.MilliSeconds:
		return time.UnixMilli
	case *format.MicroSeconds:
		return time.UnixMicro
	}
	return func(nanoseconds int64) time.Time { return time.Unix(0, nanoseconds) }
}

// must returns the column of a name, of strings.
func (t *table) must(name string) (*column, error) {
	c, err := t.find(name)
	if err == nil && c == nil {
		var has []string
		for _, c := range t.parquet.Root().Columns() {
			has = append(has, c.Name())
		}
		err = t.unnamed(name, fmt.Errorf("%w: there is no such column, but %.200s", ErrFormat, strings.Join(has, ", ")))
	}
	return c, err
}

// unnamed says how a table gets a column that it has under another name.
func (t *table) unnamed(name string, err error) error {
	switch filepath.Base(t.path) {
	case LinksFile:
		// Columns that may be the ends: the usual names, or else the first two.
		source, target := "", ""
		for _, c := range t.parquet.Root().Columns() {
			switch strings.ToLower(c.Name()) {
			case "source", "src", "from", "citing":
				source = c.Name()
			case "target", "dst", "dest", "destination", "to", "cited":
				target = c.Name()
			}
		}
		if columns := t.parquet.Root().Columns(); (source == "" || target == "") && len(columns) > 1 {
			source, target = columns[0].Name(), columns[1].Name()
		}
		if source != "" && target != "" {
			return placeError(t.path, -1, name, err, "rename the column, or import the tables with %v %s and %v %s",
				hint.Setting("source"), source, hint.Setting("target"), target)
		}
	case NodesFile:
		return placeError(t.path, -1, name, err, "rename the column, or import the tables and name it by %v",
			hint.Setting("id"))
	}
	return placeError(t.path, -1, name, err, "rename the column")
}

func (t *table) mistyped(name, is, fix string) error {
	return placeError(t.path, -1, name, fmt.Errorf("%w: it holds %s", ErrFormat, is), "%s", fix)
}

// vacant reports whether a column of another type than text has no value in any row, as pandas writes a column of None
// or NaN alone. Nothing in it can be misread.
func (t *table) vacant(c *column) bool {
	if c.kind == parquet.ByteArray || t.rows() == 0 {
		return false
	}
	nulls := int64(0)
	for _, group := range t.parquet.Metadata().RowGroups {
		if c.index < len(group.Columns) {
			nulls += group.Columns[c.index].MetaData.Statistics.NullCount
		}
	}
	return nulls == t.rows()
}

// optional returns a column that need not be there; nil where it is not, or has no value at all.
func (t *table) optional(name string) (*column, error) {
	c, err := t.find(name)
	if err != nil || c == nil || t.vacant(c) {
		return nil, err
	}
	return c, nil
}

// strings is nil when the column is one of strings.
func (t *table) strings(c *column) error {
	if c == nil || c.kind == parquet.ByteArray {
		return nil
	}
	return t.mistyped(c.name, kindWords(c), fmt.Sprintf(
		`store it as text, with "" where there is none: table[%q] = table[%q].astype(object).fillna("").astype(str)`,
		c.name, c.name))
}

// times is nil when the column is one of times.
func (t *table) times(c *column) error {
	if c == nil || c.time != nil && (c.kind == parquet.Int64 || c.kind == parquet.Int32) {
		return nil
	}
	return t.mistyped(c.name, kindWords(c)+" and not times",
		fmt.Sprintf("table[%q] = pandas.to_datetime(table[%q], utc=True)", c.name, c.name))
}

// booleans is nil when the column is one of true and false. What the mends do not name becomes empty, which is refused:
// astype(bool) would make true of any text.
func (t *table) booleans(c *column) error {
	if c == nil || c.kind == parquet.Boolean {
		return nil
	}
	mend := "store true and false, and say which value is which: table[%[1]q] = " +
		"table[%[1]q].map({1: True, 0: False}).astype(\"boolean\")"
	switch c.kind {
	case parquet.ByteArray, parquet.FixedLenByteArray:
		mend = strings.Replace(mend, "1: True, 0: False", `"yes": True, "no": False`, 1)
	case kindNothing:
		mend = "store true or false in every row, or leave out the rows of which it is not known"
		if c.name == "exposed" {
			mend += "; leave out the column if all were shown"
		}
		return t.mistyped(c.name, kindWords(c), mend)
	}
	return t.mistyped(c.name, kindWords(c), fmt.Sprintf(mend, c.name))
}

func kindWords(c *column) string {
	switch c.kind {
	case parquet.Boolean:
		return "true and false"
	case parquet.Int32, parquet.Int64:
		return "whole numbers"
	case parquet.Int96:
		return "times of an old kind (INT96)"
	case parquet.Float, parquet.Double:
		return "numbers with a fraction"
	case parquet.ByteArray, parquet.FixedLenByteArray:
		return "text"
	case kindNothing:
		return "no value in any row"
	}
	return "decimal numbers"
}

// scan hands over the columns side by side, some rows at a time: values[c][k] is column c at row first+k.
// Values point into the file's pages and are good until the function returns. Columns that are nil are
// left out, and their values are nil.
func (t *table) scan(ctx context.Context, columns []*column,
	each func(first int64, n int, values [][]parquet.Value) error) (err error) {
	defer catch(t.path, &err)
	indices := make([]int, len(columns))
	for k, c := range columns {
		if indices[k] = -1; c != nil {
			indices[k] = c.index
		}
	}
	err = columnar.Check(t.parquet, indices, t.bounds())
	if err != nil {
		return fileError(t.path, fmt.Errorf("%w: %v", ErrFormat, err), fixTable)
	}
	err = columnar.Scan(ctx, t.parquet, indices, each)
	if e, ok := errors.AsType[*columnar.Error](err); ok {
		return t.broken(e.Row, columns[e.Column], e.Err)
	}
	if errors.Is(err, columnar.ErrRows) {
		return fileError(t.path, fmt.Errorf("%w: %v", ErrFormat, err), fixTable)
	}
	return err
}

func (t *table) broken(row int64, c *column, err error) error {
	return placeError(t.path, row, c.name, fmt.Errorf("%w: %v", ErrFormat, err), fixTable)
}

// text returns a value's text, empty when it is missing. It shares the page's memory.
func (t *table) text(row int64, c *column, v parquet.Value) (string, error) {
	if v.IsNull() {
		return "", nil
	}
	raw := v.ByteArray()
	if !utf8.Valid(raw) {
		return "", placeError(t.path, row, c.name, fmt.Errorf("%w: it is not UTF-8: %.40q", ErrFormat, raw),
			"decode it with the right character set and write it as text")
	}
	return unsafe.String(unsafe.SliceData(raw), len(raw)), nil
}
