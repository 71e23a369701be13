package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"unseen/hint"
	"unseen/internal/columnar"
)

func init() {
	Register(Format{
		Name: "parquet", Summary: "Parquet tables of nodes and links",
		Args: "FOLDER | NODES LINKS | LINKS",
		Help: `Paths are a folder that holds nodes.parquet and links.parquet (or
edges.parquet), the two files themselves, or a file of links alone, whose ends
become the nodes. Vectors are read from vectors.npy in the folder, exposures
from exposures.parquet.

Flags say which column is which; without them, columns are guessed by their
names and the guesses are printed. Ids may be text or whole numbers. Ends of
links are ids: a folder whose links are row numbers is a dataset already, and
needs no import.`,
		Flags:  slices.Concat(roleFlags, tableFlags, flagsOf("exposures", exposureRoles)),
		Import: importParquet,
	})
}

func importParquet(ctx context.Context, o Options, s Sink) error {
	in, err := locate(&o, ".parquet", ".pq")
	if err != nil {
		return err
	}
	if in.single != "" {
		t, err := openParquet(in.single, o)
		if err != nil {
			return err
		}
		_, err = columns(&o, Place{File: in.single}, t.header, linkRoles, "source", "target")
		isNodes, _ := columns(&o, Place{File: in.single}, t.header, nodeRoles, "id")
		t.file.Close()
		switch {
		case err == nil:
			in.links = in.single
		case isNodes != nil:
			in.nodes = in.single
		default:
			return err
		}
	}
	if in.fields != "" {
		fields := parquetScan{in.fields, Options{}, s, []role{{name: "field", known: []string{"field"}}},
			[]string{"field"}}
		if err := fields.rows(ctx, func(r *parquetRow) error { return s.Field(r.text(0)) }); err != nil {
			return err
		}
	}
	var rows []int32
	if in.nodes != "" {
		nodes := parquetScan{in.nodes, o, s, nodeRoles, []string{"id"}}
		err := nodes.rows(ctx, func(r *parquetRow) error {
			when, err := r.when(4)
			if err != nil {
				rows = append(rows, -1)
				return s.Reject(r.at(), hint.Wrap(err, timeHint), []byte(r.text(0)))
			}
			node, err := s.Node(NodeRecord{ID: r.text(0), Field: r.text(1), Title: r.text(2), Text: r.text(3),
				Time: when, Role: roleOf(r.text(5))}, r.at())
			rows = append(rows, node)
			return err
		})
		if err != nil {
			return err
		}
	} else {
		s.NodesFromLinks()
	}
	s.EndNodes()
	if in.vectors != "" {
		if err := importVectors(ctx, in.vectors, o, s, rows); err != nil {
			return err
		}
	}
	if in.links != "" {
		if err := parquetLinks(ctx, parquetScan{in.links, o, s, linkRoles, []string{"source", "target"}}); err != nil {
			return err
		}
	}
	if in.exposures == "" {
		return nil
	}
	exposures := parquetScan{in.exposures, Options{Progress: o.Progress, Flags: exposureFlags(o)}, s, exposureRoles,
		[]string{"source", "target", "linked"}}
	return exposures.rows(ctx, func(r *parquetRow) error {
		e, err := exposureOf(func(k int) (string, bool) {
			if c := r.columns[k]; c.index >= 0 && c.time != nil && !r.values[k][r.k].IsNull() {
				return formatTime(c.time(r.values[k][r.k])), true
			}
			return r.text(k), r.columns[k].index >= 0
		})
		if err != nil {
			return s.Reject(r.at(), hint.Wrap(err, "store true and false, and probabilities from 0 to 1"), nil)
		}
		return s.Exposure(e, r.at())
	})
}

// parquetLinks reads links, many at once where the sink can take them.
func parquetLinks(ctx context.Context, links parquetScan) error {
	one := func(r *parquetRow) error {
		when, err := (&parquetRecord{r}).seconds(2)
		if err != nil {
			return links.sink.Reject(r.at(), hint.Wrap(err, secondsHint), pair(r.text(0), r.text(1)))
		}
		return links.sink.LinkAt(r.text(0), r.text(1), when, r.at())
	}
	sink, many := links.sink.(linkBatcher)
	if !many {
		return links.rows(ctx, one)
	}
	var sources, targets []string
	return links.batches(ctx, func(r *parquetRow, n int) error {
		if r.columns[2].index >= 0 {
			for r.k = range n {
				if err := one(r); err != nil {
					return err
				}
			}
			return nil
		}
		sources, targets = r.texts(sources[:0], 0, n), r.texts(targets[:0], 1, n)
		return sink.linkBatch(sources, targets, r.at())
	})
}

const parquetHint = "the file is damaged or not Parquet; write it again, in pandas with to_parquet"

// parquetFile is an open Parquet file and the names of its columns.
type parquetFile struct {
	*parquet.File
	file   InputFile
	header []string
}

func openParquet(path string, o Options) (t *parquetFile, err error) {
	file, size, err := openFile(path, o)
	if err != nil {
		return nil, err
	}
	t, err = newParquet(Place{File: path}, file, size)
	if err != nil {
		file.Close()
		return nil, err
	}
	t.file = file
	return t, nil
}

func newParquet(at Place, r io.ReaderAt, size int64) (t *parquetFile, err error) {
	defer recovered(at, &err)
	p, err := columnar.Open(r, size)
	if err != nil {
		return nil, failAt(at, fmt.Errorf("%w: %v", ErrFormat, err), parquetHint)
	}
	t = &parquetFile{File: p}
	for _, c := range p.Root().Columns() {
		t.header = append(t.header, c.Name())
	}
	return t, nil
}

// recovered turns a panic of the Parquet library, which damaged bytes can cause, into an error.
func recovered(at Place, err *error) {
	if p := recover(); p != nil {
		*err = failAt(at, fmt.Errorf("%w: %v", ErrFormat, p), parquetHint)
	}
}

// parquetColumn is a column and how its values become text or times.
type parquetColumn struct {
	index int  // −1 where there is none
	bytes bool // values are text
	text  func(parquet.Value) string
	time  func(parquet.Value) time.Time // nil where it holds no times
}

// parquetRow is the row that is being read.
type parquetRow struct {
	path    string
	first   int64
	k       int
	values  [][]parquet.Value
	columns []parquetColumn
}

func (r *parquetRow) at() Place { return Place{File: r.path, Line: int(r.first) + r.k + 1} }

// text is a value as text, empty where it is missing; it is valid until the next row.
func (r *parquetRow) text(role int) string {
	c := r.columns[role]
	if c.index < 0 {
		return ""
	}
	v := r.values[role][r.k]
	if v.IsNull() {
		return ""
	}
	return c.text(v)
}

// texts appends the texts of the first n rows.
func (r *parquetRow) texts(to []string, role, n int) []string {
	c, values := r.columns[role], r.values[role][:n]
	if !c.bytes {
		for r.k = range n {
			to = append(to, r.text(role))
		}
		r.k = 0
		return to
	}
	for k := range values {
		to = append(to, alias(values[k].ByteArray())) // of a missing value, no bytes
	}
	return to
}

func (r *parquetRow) when(role int) (time.Time, error) {
	if c := r.columns[role]; c.index >= 0 && c.time != nil {
		if v := r.values[role][r.k]; !v.IsNull() {
			return c.time(v), nil
		}
		return time.Time{}, nil
	}
	return parseTime(r.text(role))
}

// parquetScan says what to read of a Parquet file.
type parquetScan struct {
	path    string
	options Options
	sink    Sink
	roles   []role
	needed  []string // roles that must have a column
}

// rows calls each for every row.
func (q parquetScan) rows(ctx context.Context, each func(*parquetRow) error) error {
	return q.batches(ctx, func(row *parquetRow, n int) error {
		for row.k = range n {
			if err := each(row); err != nil {
				return err
			}
		}
		return nil
	})
}

// batches calls each for n rows at a time, of which row is the first.
func (q parquetScan) batches(ctx context.Context, each func(row *parquetRow, n int) error) error {
	t, err := openParquet(q.path, q.options)
	if err != nil {
		return err
	}
	defer t.file.Close()
	return q.scan(ctx, t, each)
}

// scan is batches of an open file.
func (q parquetScan) scan(ctx context.Context, t *parquetFile, each func(row *parquetRow, n int) error) (err error) {
	at := Place{File: q.path}
	defer recovered(at, &err)
	found, err := columns(&q.options, at, t.header, q.roles, q.needed...)
	if err != nil {
		return err
	}
	noteGuesses(q.sink, &q.options, q.path, t.header, q.roles, found)
	row := parquetRow{path: q.path, columns: make([]parquetColumn, len(q.roles))}
	indices := make([]int, len(q.roles))
	for k, c := range found {
		row.columns[k].index = -1
		if c >= 0 {
			if row.columns[k], err = columnOf(t.Root().Column(t.header[c])); err != nil {
				return failAt(at, fmt.Errorf("column %s: %w", t.header[c], err),
					"store text, whole numbers or times, one per row")
			}
		}
		indices[k] = row.columns[k].index
	}
	limits := q.options.Limits.withDefaults()
	err = columnar.Check(t.File, indices, columnar.Bounds{Values: limits.records(t.Size()),
		Bytes:  max(limits.Free, limits.bytes(t.Size())/2), // a page is in memory with what it becomes
		Memory: limits.Large * 3 / 4})
	if errors.Is(err, columnar.ErrExpands) {
		return failAt(at, fmt.Errorf("%w%s", ErrExpands, strings.TrimPrefix(err.Error(), columnar.ErrExpands.Error())),
			expandHint)
	}
	if err != nil {
		return failAt(at, fmt.Errorf("%w: %v", ErrFormat, err), parquetHint)
	}
	err = columnar.Scan(ctx, t.File, indices, func(first int64, n int, values [][]parquet.Value) error {
		q.options.reading(q.path, first, t.NumRows())
		row.first, row.values, row.k = first, values, 0
		return each(&row, n)
	})
	if e, ok := errors.AsType[*columnar.Error](err); ok {
		return failAt(Place{File: q.path, Line: int(e.Row) + 1}, fmt.Errorf("%w: column %s: %v", ErrFormat,
			t.header[found[e.Column]], e.Err), parquetHint)
	}
	if errors.Is(err, columnar.ErrRows) {
		return failAt(at, fmt.Errorf("%w: %v", ErrFormat, err), parquetHint)
	}
	return err
}

// columnOf says how to read a column.
func columnOf(c *parquet.Column) (parquetColumn, error) {
	if !c.Leaf() || c.Repeated() {
		return parquetColumn{}, fmt.Errorf("%w: lists or records", ErrFormat)
	}
	out := parquetColumn{index: c.Index()}
	if logical := c.Type().LogicalType(); logical != nil {
		switch l := logical.Value.(type) {
		case *format.DecimalType:
			return out, fmt.Errorf("%w: decimal numbers", ErrFormat)
		case *format.DateType:
			out.time = func(v parquet.Value) time.Time { return time.Unix(86400*int64(v.Int32()), 0).UTC() }
		case *format.TimestampType:
			out.time = func(v parquet.Value) time.Time { return time.Unix(0, v.Int64()) }
			switch l.Unit.Value.(type) {
			case *format.MilliSeconds:
				out.time = func(v parquet.Value) time.Time { return time.UnixMilli(v.Int64()) }
			case *format.MicroSeconds:
				out.time = func(v parquet.Value) time.Time { return time.UnixMicro(v.Int64()) }
			}
		}
	}
	switch c.Type().Kind() {
	case parquet.ByteArray, parquet.FixedLenByteArray:
		out.bytes, out.text, out.time = true, func(v parquet.Value) string { return alias(v.ByteArray()) }, nil
	case parquet.Int32:
		out.text = func(v parquet.Value) string { return strconv.Itoa(int(v.Int32())) }
	case parquet.Int64:
		out.text = func(v parquet.Value) string { return strconv.FormatInt(v.Int64(), 10) }
	case parquet.Float:
		out.text, out.time = func(v parquet.Value) string {
			return strconv.FormatFloat(float64(v.Float()), 'g', -1,
				32)
		}, nil
	case parquet.Double:
		out.text, out.time = func(v parquet.Value) string { return strconv.FormatFloat(v.Double(), 'g', -1, 64) }, nil
	case parquet.Boolean:
		out.text, out.time = func(v parquet.Value) string { return strconv.FormatBool(v.Boolean()) }, nil
	default:
		return out, fmt.Errorf("%w: times of the deprecated type INT96", ErrFormat)
	}
	return out, nil
}
