package dataset

import (
	"fmt"
	"strings"

	"github.com/parquet-go/parquet-go"

	"unseen/internal/columnar"
)

// texts reads the text of nodes, a page at a time, and keeps the page: going through the nodes in
// order reads every page once.
type texts struct {
	table  *table
	column *column // nil when there is none

	pages parquet.Pages // of one row group
	group int           // which it is
	start int64         // its first row
	first int64         // the row of kept[0]
	kept  []string
}

// HasText reports whether nodes have a column of text. Single ones may still have none.
func (d *Dataset) HasText() bool { return d.texts.column != nil }

// Text returns the text of node i, empty when it has none. It is read from the file, so read texts in
// order where you can. Like an index of the graph, i must be in range.
func (d *Dataset) Text(i int32) (string, error) {
	_ = d.graph.Field(i)
	if d.texts.column == nil {
		return "", nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[NodesFile] == nil {
		return "", fileError(d.dir, ErrClosed, "read texts before Close")
	}
	return d.texts.at(int64(i))
}

func (x *texts) at(row int64) (text string, err error) {
	defer catch(x.table.path, &err)
	if row < x.first || row >= x.first+int64(len(x.kept)) {
		if err := x.load(row); err != nil {
			x.close()
			return "", x.table.broken(row, x.column, err)
		}
	}
	return x.kept[row-x.first], nil
}

// load keeps the texts from a row to the end of its page.
func (x *texts) load(row int64) error {
	groups := x.table.parquet.RowGroups()
	next := x.pages != nil && row == x.first+int64(len(x.kept))
	if x.pages == nil || row < x.start || row >= x.start+groups[x.group].NumRows() {
		x.close()
		start := int64(0)
		for g, group := range groups {
			if row < start+group.NumRows() {
				if err := columnar.CheckGroup(x.table.parquet, g, x.column.index, x.table.bounds()); err != nil {
					return err
				}
				chunk := group.ColumnChunks()[x.column.index]
				// Without this index, which some writers leave out, seeking goes through all pages.
				_, _ = chunk.OffsetIndex()
				x.group, x.start, x.pages, next = g, start, chunk.Pages(), row == start
				break
			}
			start += group.NumRows()
		}
	}
	if !next {
		if err := x.pages.SeekToRow(row - x.start); err != nil {
			return err
		}
	}
	c := columnar.Cursor{Pages: x.pages}
	if err := c.Advance(); err != nil {
		return err
	}
	defer c.Release()
	values := make([]parquet.Value, c.Left)
	if err := c.Read(values); err != nil {
		return err
	}
	x.first, x.kept = row, make([]string, len(values))
	for k, v := range values {
		text, err := x.table.text(row+int64(k), x.column, v)
		if err != nil {
			return fmt.Errorf("row %d: %w", row+int64(k), err)
		}
		x.kept[k] = strings.Clone(text) // the page goes back
	}
	return nil
}

func (x *texts) close() {
	if x.pages != nil {
		x.pages.Close()
		x.pages = nil
	}
	x.kept = nil
}
