// Package columnar reads columns of a Parquet file side by side.
//
//	err := columnar.Scan(ctx, file, []int{0, 3}, func(first int64, n int, values [][]parquet.Value) error {
//		for k := range n {
//			fmt.Println(first+int64(k), values[0][k], values[1][k])
//		}
//		return nil
//	})
package columnar

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// BatchRows is how many rows Scan passes at a time, at most.
const BatchRows = 1 << 10

// Error says which column cannot be read, by its position in the list, and at which row.
type Error struct {
	Column int
	Row    int64
	Err    error
}

func (e *Error) Error() string { return fmt.Sprintf("row %d: %v", e.Row, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// ErrRows says that the columns have another number of rows than the file claims.
var ErrRows = errors.New("wrong number of rows")

// Scan passes the columns with these indices to each, up to BatchRows rows at a time: values[c][k] is column c at row
// first+k. Values point into the file's pages and are valid until each returns. An index of −1 is left out: its
// values are nil. Damaged bytes can make the Parquet library panic; the caller must recover.
func Scan(ctx context.Context, file *parquet.File, columns []int,
	each func(first int64, n int, values [][]parquet.Value) error) error {
	first := int64(0)
	values := make([][]parquet.Value, len(columns))
	buffers := make([][BatchRows]parquet.Value, len(columns))
	for _, group := range file.RowGroups() {
		cursors := make([]Cursor, len(columns))
		closeAll := func() {
			for c := range cursors {
				cursors[c].Close()
			}
		}
		defer closeAll()
		chunks := group.ColumnChunks()
		for c, index := range columns {
			if index >= 0 {
				cursors[c].Pages = chunks[index].Pages()
			}
		}
		for left := group.NumRows(); left > 0; {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := min(left, BatchRows)
			for c, index := range columns {
				if index < 0 {
					continue
				}
				if err := cursors[c].Advance(); err != nil {
					return &Error{c, first, err}
				}
				n = min(n, cursors[c].Left)
			}
			for c, index := range columns {
				if index < 0 {
					continue
				}
				values[c] = buffers[c][:n]
				if err := cursors[c].Read(values[c]); err != nil {
					return &Error{c, first, err}
				}
			}
			if err := each(first, int(n), values); err != nil {
				return err
			}
			first, left = first+n, left-n
		}
		closeAll()
	}
	if first != file.NumRows() {
		return fmt.Errorf("%w: %d, and the file claims %d", ErrRows, first, file.NumRows())
	}
	return nil
}

// errShort is a column that ends before its table.
var errShort = errors.New("the column ends before the table does")

// Cursor reads the pages of a column chunk.
type Cursor struct {
	Pages parquet.Pages
	Left  int64 // values of the page that have not been read

	page   parquet.Page
	values parquet.ValueReader
}

// Advance reads pages until there are values left to read.
func (c *Cursor) Advance() error {
	for c.Left == 0 {
		page, err := c.Pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return errShort
		}
		if err != nil {
			return err
		}
		c.Release()
		c.page, c.values, c.Left = page, page.Values(), page.NumValues()
	}
	return nil
}

// Read fills dst, which is no longer than Left.
func (c *Cursor) Read(dst []parquet.Value) error {
	c.Left -= int64(len(dst))
	for len(dst) > 0 {
		n, err := c.values.ReadValues(dst)
		dst = dst[n:]
		if len(dst) > 0 && errors.Is(err, io.EOF) {
			return errShort
		}
		if len(dst) > 0 && err != nil {
			return err
		}
		if len(dst) > 0 && n == 0 {
			return io.ErrNoProgress
		}
	}
	return nil
}

// Release returns the page's memory.
func (c *Cursor) Release() {
	if c.page != nil {
		parquet.Release(c.page)
		c.page, c.values = nil, nil
	}
}

// Close returns the page's memory and closes the pages.
func (c *Cursor) Close() {
	c.Release()
	if c.Pages != nil {
		c.Pages.Close()
		c.Pages = nil
	}
}

// Open opens a Parquet file of size bytes. It first checks the footer, since the library would allocate as much memory
// as it claims. Like Scan it may panic.
func Open(r io.ReaderAt, size int64) (*parquet.File, error) {
	var tail [8]byte
	if size < 12 {
		return nil, errors.New("too short")
	}
	if _, err := r.ReadAt(tail[:], size-8); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if string(tail[4:]) != "PAR1" {
		return nil, fmt.Errorf("it ends with %q, so it is not a Parquet file", tail[4:])
	}
	footer := int64(binary.LittleEndian.Uint32(tail[:4]))
	if footer > size-12 {
		return nil, fmt.Errorf("its footer claims %d bytes of %d", footer, size)
	}
	raw := make([]byte, footer)
	if _, err := r.ReadAt(raw, size-8-footer); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := checkFooter(raw); err != nil {
		return nil, err
	}
	return parquet.OpenFile(r, size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
}
