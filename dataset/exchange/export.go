package exchange

import (
	"archive/zip"
	"bufio"
	"context"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"unseen/dataset"
	"unseen/graph"
	"unseen/hint"
	"unseen/internal/atomicfile"
	"unseen/progress"
)

// ExportOptions says how to export. Its zero value is ready.
type ExportOptions struct {
	Force    bool          // replace an existing export
	Progress progress.Func // called from the caller's goroutine; may be nil
}

// Exports are the formats that Export writes.
func Exports() []string { return []string{"csv", "jsonl", "npz", "parquet"} }

// Export writes the dataset in the folder dir in another format, into a folder of files that Import reads
// back to the same dataset:
//
//	csv      nodes.csv, links.csv (by id), exposures.csv, fields.csv
//	jsonl    nodes.jsonl, links.jsonl, exposures.jsonl, fields.jsonl
//	parquet  nodes.parquet, links.parquet (by id), exposures.parquet, fields.parquet
//	npz      links.npz (a CSR matrix of scipy), nodes.csv, exposures.csv, fields.csv
//
// and vectors.npy where there are vectors; fields.* keeps the order of the fields. In CSV, \r\n within a text
// becomes \n, and a text with a NUL byte cannot be written.
//
// The folder appears when all files are written; an error leaves nothing behind.
func Export(ctx context.Context, dir, format, out string, o ExportOptions) error {
	if !slices.Contains(Exports(), format) {
		return failAt(Place{}, fmt.Errorf("%w: unknown format %.40q", ErrUsage, format), "use one of %s",
			strings.Join(Exports(), ", "))
	}
	d, err := dataset.Open(ctx, dir, dataset.OpenOptions{Progress: o.Progress})
	if err != nil {
		return err
	}
	defer d.Close()
	content, err := d.Content(ctx)
	if err != nil {
		return err
	}
	out = filepath.Clean(out)
	entries, err := os.ReadDir(out)
	switch {
	case err == nil && len(entries) > 0 && !o.Force:
		return failAt(Place{File: out}, fmt.Errorf("%w: the folder is not empty", ErrUsage),
			"choose another folder, or set %v to replace it", hint.Setting("force"))
	case err == nil:
		for _, e := range entries {
			if !exported(e.Name()) {
				return failAt(Place{File: out}, fmt.Errorf("%w: it has %s, which no export wrote", ErrUsage, e.Name()),
					"choose another folder")
			}
		}
	case !os.IsNotExist(err):
		return failAt(Place{File: out}, atomicfile.WithoutPath(err), "choose another folder")
	}
	return atomicfile.WriteFolder(out, func(folder string) error {
		x := &exporter{ctx: ctx, content: content, folder: folder, out: out, options: o}
		return x.write(format)
	})
}

// exported reports whether an export gives a file that name.
func exported(name string) bool {
	stem, extension := stemOf(name)
	return slices.Contains([]string{"nodes", "links", "exposures", "fields", "vectors"}, stem) &&
		slices.Contains([]string{".csv", ".jsonl", ".parquet", ".npz", ".npy"}, extension)
}

// exporter is one Export.
type exporter struct {
	ctx     context.Context
	content dataset.Content
	folder  string // where the files are made
	out     string // where they will be, for errors
	options ExportOptions
}

func (x *exporter) write(format string) error {
	tables := format
	if format == "npz" {
		if x.content.Graph.HasLinkTimes() {
			return failAt(Place{File: x.out}, fmt.Errorf("%w: links have times, and a matrix has no place for them",
				ErrUsage), "export to csv, jsonl or parquet")
		}
		tables = "csv"
		if err := x.file("links.npz", x.matrix); err != nil {
			return err
		}
	}
	g := x.content.Graph
	fields := table{"fields", []string{"field"}, g.FieldCount() - 1, func(i int, row *row) error {
		row.text(0, g.FieldName(uint16(i+1)))
		return nil
	}}
	nodes := table{"nodes", []string{"id", "field", "title", "text", "time"}, g.Len(), x.node}
	if g.TwoSided() {
		nodes.columns = append(nodes.columns, "role")
	}
	all := []table{fields, nodes}
	if format != "npz" {
		links := table{"links", []string{"source", "target"}, g.LinkCount(), x.links()}
		if g.HasLinkTimes() {
			links.columns = append(links.columns, "time")
		}
		all = append(all, links)
	}
	if e := x.content.Exposures; e != nil {
		log := table{"exposures", []string{"source", "target", "shown", "exposed", "linked"}, e.Len(), x.exposure}
		if x.showings() {
			log.columns = append(log.columns, "count", "position", "surface", "time")
		}
		all = append(all, log)
	}
	for _, t := range all {
		if err := x.file(t.name+"."+tables, func(w io.Writer, progress func(done, of int) error) error {
			switch tables {
			case "csv":
				return x.csv(w, t, progress)
			case "jsonl":
				return x.jsonl(w, t, progress)
			}
			return x.parquet(w, t, progress)
		}); err != nil {
			return err
		}
	}
	if g.Vectors() != nil {
		return x.file("vectors.npy", x.vectors)
	}
	return nil
}

// file writes one file of the folder.
func (x *exporter) file(name string, write func(io.Writer, func(done, of int) error) error) error {
	failed := func(err error) error {
		return &atomicfile.Error{Path: filepath.Join(x.out, name), Err: atomicfile.WithoutPath(err)}
	}
	file, err := os.Create(filepath.Join(x.folder, name))
	if err != nil {
		return failed(err)
	}
	w := &keeping{w: file}
	buffered := bufio.NewWriterSize(w, 1<<18)
	err = write(buffered, func(done, of int) error {
		x.options.Progress.Report(progress.Event{Phase: "writing " + name, Done: int64(done), Of: int64(of)})
		return x.ctx.Err()
	})
	if err == nil {
		err = buffered.Flush()
	}
	closed := file.Close()
	switch {
	case w.err != nil:
		return failed(w.err)
	case err != nil:
		return err
	case closed != nil:
		return failed(closed)
	}
	return nil
}

// keeping keeps the first error of a file, which the layers above may replace.
type keeping struct {
	w   io.Writer
	err error
}

func (k *keeping) Write(p []byte) (int, error) {
	n, err := k.w.Write(p)
	if k.err == nil {
		k.err = err
	}
	return n, err
}

// table is rows, made one by one in their order.
type table struct {
	name    string
	columns []string
	rows    int
	row     func(i int, row *row) error
}

// row is the values of a row: text, a bool, a float64, an int64 or a time; nil is missing.
type row struct{ values []any }

func (r *row) text(k int, text string) {
	if text != "" {
		r.values[k] = text
	}
}

func (x *exporter) node(i int, r *row) error {
	g := x.content.Graph
	n := int32(i)
	r.text(0, g.ID(n))
	if f := g.Field(n); f != graph.UnknownField {
		r.text(1, g.FieldName(f))
	}
	r.text(2, g.Title(n))
	if x.content.Text != nil {
		text, err := x.content.Text(n)
		if err != nil {
			return err
		}
		r.text(3, text)
	}
	if t, known := g.Time(n); known {
		r.values[4] = t
	}
	if role := g.Role(n); role != graph.SourceAndTarget {
		r.values[5] = role.String()
	}
	return nil
}

// showings reports whether more is known of how pairs were shown.
func (x *exporter) showings() bool {
	e := x.content.Exposures
	return e.Count != nil || e.Position != nil || e.Surface != nil || e.Time != nil
}

// links returns a function that returns one link after the other.
func (x *exporter) links() func(int, *row) error {
	g := x.content.Graph
	source, k := int32(0), 0
	return func(_ int, r *row) error {
		for k == len(g.Out(source)) {
			source, k = source+1, 0
		}
		r.values[0], r.values[1] = g.ID(source), g.ID(g.Out(source)[k])
		if times := g.OutTimes(source); times != nil && times[k] != graph.NoTime {
			r.values[2] = time.Unix(times[k], 0).UTC()
		}
		k++
		return nil
	}
}

func (x *exporter) exposure(i int, r *row) error {
	e, g := x.content.Exposures, x.content.Graph
	r.values[0], r.values[1] = g.ID(e.Source[i]), g.ID(e.Target[i])
	if e.Shown != nil && !math.IsNaN(e.Shown[i]) {
		r.values[2] = e.Shown[i]
	}
	r.values[3], r.values[4] = e.Exposed[i], e.Linked[i]
	if e.Count != nil {
		r.values[5] = int64(e.Count[i])
	}
	if e.Position != nil && e.Position[i] > 0 {
		r.values[6] = int64(e.Position[i])
	}
	if e.Surface != nil {
		r.text(7, e.Surfaces[e.Surface[i]])
	}
	if e.Time != nil && e.Time[i] != graph.NoTime {
		r.values[8] = time.Unix(e.Time[i], 0).UTC()
	}
	return nil
}

// each calls do for every row.
func (t *table) each(progress func(done, of int) error, do func(values []any) error) error {
	r := row{make([]any, len(t.columns))}
	for i := range t.rows {
		if i%1024 == 0 {
			if err := progress(i, t.rows); err != nil {
				return err
			}
		}
		clear(r.values)
		if err := t.row(i, &r); err != nil {
			return err
		}
		if err := do(r.values); err != nil {
			return err
		}
	}
	return progress(t.rows, t.rows)
}

func (x *exporter) csv(to io.Writer, t table, progress func(done, of int) error) error {
	w := csv.NewWriter(to)
	if err := w.Write(t.columns); err != nil {
		return err
	}
	record := make([]string, len(t.columns))
	err := t.each(progress, func(values []any) error {
		for k, v := range values {
			switch v := v.(type) {
			case nil:
				record[k] = ""
			case string:
				if record[k] = v; strings.IndexByte(v, 0) >= 0 {
					return failAt(Place{File: filepath.Join(x.out, t.name+".csv")},
						fmt.Errorf("%w: the %s of %.80q has a NUL byte", ErrFormat, t.columns[k], values[0]),
						"export to jsonl or parquet")
				}
			case bool:
				record[k] = strconv.FormatBool(v)
			case float64:
				record[k] = strconv.FormatFloat(v, 'g', -1, 64)
			case int64:
				record[k] = strconv.FormatInt(v, 10)
			case time.Time:
				record[k] = formatTime(v)
			}
		}
		return w.Write(record)
	})
	if err != nil {
		return err
	}
	w.Flush()
	return w.Error()
}

func (x *exporter) jsonl(to io.Writer, t table, progress func(done, of int) error) error {
	var line []byte
	return t.each(progress, func(values []any) error {
		line = append(line[:0], '{')
		for k, v := range values {
			switch typed := v.(type) {
			case nil:
				continue
			case time.Time:
				v = formatTime(typed)
			}
			raw, err := json.Marshal(v)
			if err != nil {
				return err
			}
			if len(line) > 1 {
				line = append(line, ", "...)
			}
			line = append(append(strconv.AppendQuote(line, t.columns[k]), ": "...), raw...)
		}
		_, err := to.Write(append(line, "}\n"...))
		return err
	})
}

// The rows of Parquet tables; ends are ids.
type (
	nodeRow struct {
		ID    string     `parquet:"id"`
		Field *string    `parquet:"field,optional,dict"`
		Title *string    `parquet:"title,optional"`
		Text  *string    `parquet:"text,optional"`
		Time  *time.Time `parquet:"time,optional,timestamp(millisecond)"`
	}
	roleRow struct {
		nodeRow
		Role *string `parquet:"role,optional,dict"`
	}
	linkRow struct {
		Source string `parquet:"source,dict"`
		Target string `parquet:"target,dict"`
	}
	timedLinkRow struct {
		linkRow
		Time *time.Time `parquet:"time,optional,timestamp(millisecond)"`
	}
	exposureRow struct {
		Source  string   `parquet:"source,dict"`
		Target  string   `parquet:"target,dict"`
		Shown   *float64 `parquet:"shown,optional"`
		Exposed bool     `parquet:"exposed"`
		Linked  bool     `parquet:"linked"`
	}
	showingRow struct {
		exposureRow
		Count    *int64     `parquet:"count,optional"`
		Position *int64     `parquet:"position,optional"`
		Surface  *string    `parquet:"surface,optional,dict"`
		Time     *time.Time `parquet:"time,optional,timestamp(millisecond)"`
	}
	fieldRow struct {
		Field string `parquet:"field"`
	}
)

func (x *exporter) parquet(to io.Writer, t table, progress func(done, of int) error) error {
	node := func(v []any) nodeRow {
		return nodeRow{v[0].(string), pointer[string](v[1]), pointer[string](v[2]), pointer[string](v[3]),
			pointer[time.Time](v[4])}
	}
	link := func(v []any) linkRow { return linkRow{v[0].(string), v[1].(string)} }
	exposure := func(v []any) exposureRow {
		return exposureRow{v[0].(string), v[1].(string), pointer[float64](v[2]), v[3].(bool), v[4].(bool)}
	}
	switch more := len(t.columns); {
	case t.name == "nodes" && more > 5:
		return parquetTable(to, t, progress, func(v []any) roleRow { return roleRow{node(v), pointer[string](v[5])} })
	case t.name == "nodes":
		return parquetTable(to, t, progress, node)
	case t.name == "links" && more > 2:
		return parquetTable(to, t, progress, func(v []any) timedLinkRow {
			return timedLinkRow{link(v), pointer[time.Time](v[2])}
		})
	case t.name == "links":
		return parquetTable(to, t, progress, link)
	case t.name == "exposures" && more > 5:
		return parquetTable(to, t, progress, func(v []any) showingRow {
			return showingRow{exposure(v), pointer[int64](v[5]), pointer[int64](v[6]), pointer[string](v[7]),
				pointer[time.Time](v[8])}
		})
	case t.name == "exposures":
		return parquetTable(to, t, progress, exposure)
	}
	return parquetTable(to, t, progress, func(v []any) fieldRow { return fieldRow{v[0].(string)} })
}

func pointer[T any](v any) *T {
	if typed, ok := v.(T); ok {
		return &typed
	}
	return nil
}

func parquetTable[T any](to io.Writer, t table, progress func(done, of int) error, make func([]any) T) error {
	w := parquet.NewGenericWriter[T](to, parquet.CreatedBy("unseen", "1", "export"),
		parquet.Compression(&zstd.Codec{Level: zstd.DefaultLevel}), parquet.MaxRowsPerRowGroup(1<<18))
	rows := []T{}
	flush := func() error {
		_, err := w.Write(rows)
		rows = rows[:0]
		return err
	}
	err := t.each(progress, func(values []any) error {
		if rows = append(rows, make(values)); len(rows) == 1024 {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return err
	}
	return w.Close()
}

// vectors writes the vectors as float32.
func (x *exporter) vectors(to io.Writer, progress func(done, of int) error) error {
	v := x.content.Graph.Vectors()
	header, err := npyHeader("<f4", v.Len(), v.Dim())
	if err != nil {
		return err
	}
	if _, err := to.Write(header); err != nil {
		return err
	}
	vector := make([]float32, v.Dim())
	raw := make([]byte, 0, 4*v.Dim())
	for i := range int32(v.Len()) {
		if i%1024 == 0 {
			if err := progress(int(i), v.Len()); err != nil {
				return err
			}
		}
		v.Load(vector, i)
		raw = raw[:0]
		for _, f := range vector {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(f))
		}
		if _, err := to.Write(raw); err != nil {
			return err
		}
	}
	return nil
}

// matrix writes the links as scipy.sparse.save_npz does.
func (x *exporter) matrix(to io.Writer, progress func(done, of int) error) error {
	g := x.content.Graph
	links, nodes := g.LinkCount(), uint64(g.Len())
	z := &npzWriter{archive: zip.NewWriter(to)}
	z.array("indices", "<i4", zip.Deflate, []int{links}, func(put func(uint64) error) error {
		done := 0
		for _, j := range g.Links() {
			if done++; done%4096 == 0 {
				if err := progress(done, links); err != nil {
					return err
				}
			}
			if err := put(uint64(j)); err != nil {
				return err
			}
		}
		return nil
	})
	z.array("indptr", "<i8", zip.Deflate, []int{g.Len() + 1}, func(put func(uint64) error) error {
		sum := uint64(0)
		for i := range int32(g.Len()) {
			if err := put(sum); err != nil {
				return err
			}
			sum += uint64(len(g.Out(i)))
		}
		return put(sum)
	})
	z.array("format", "|S3", zip.Deflate, nil,
		func(put func(uint64) error) error { return put('c' | 's'<<8 | 'r'<<16) })
	z.array("shape", "<i8", zip.Deflate, []int{2}, func(put func(uint64) error) error {
		return errors.Join(put(nodes), put(nodes))
	})
	z.array("data", "|u1", zip.Store, []int{links}, func(put func(uint64) error) error {
		for range links {
			if err := put(1); err != nil {
				return err
			}
		}
		return nil
	})
	if z.err != nil {
		return z.err
	}
	return z.archive.Close()
}

// npzWriter writes arrays into an archive, until the first error.
type npzWriter struct {
	archive *zip.Writer
	err     error
}

// array writes one array; write puts its numbers, as bits.
func (z *npzWriter) array(name, kind string, method uint16, shape []int, write func(put func(uint64) error) error) {
	if z.err != nil {
		return
	}
	// A fixed time, so that the same dataset makes the same bytes.
	made := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	w, err := z.archive.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: method, Modified: made})
	if err != nil {
		z.err = err
		return
	}
	header, err := npyHeader(kind, shape...)
	if err != nil {
		z.err = err
		return
	}
	b := bufio.NewWriterSize(w, 1<<16)
	b.Write(header)
	size := int(kind[len(kind)-1] - '0') // bytes of a number
	var raw [8]byte
	z.err = errors.Join(write(func(bits uint64) error {
		binary.LittleEndian.PutUint64(raw[:], bits)
		_, err := b.Write(raw[:size])
		return err
	}), b.Flush())
}
