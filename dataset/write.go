package dataset

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"unseen/graph"
	"unseen/internal/atomicfile"
	"unseen/internal/columnar"
	"unseen/progress"
)

// Content is what Write stores.
type Content struct {
	Graph *graph.Graph // with its fields, times, titles, and vectors if it has any
	// Text returns the text of node i, empty when it has none. It is called once per node, in order.
	// Nil means that no node has text.
	Text      func(i int32) (string, error)
	Exposures *Exposures // nil means that nothing is known of what was shown
	// ExposureParts are exposures that do not fit into memory at once, in place of Exposures: each part is written
	// before the next one is asked for. All have the same columns.
	ExposureParts iter.Seq2[*Exposures, error]
	// Log is what the exposures mean for other pairs, as sample.LogKind names it. "" means that nobody has said.
	Log string
	// Encoder is what made the graph's vectors; nil means that it is not kept. Remove it when
	// the graph gets other vectors.
	Encoder *StoredEncoder
}

// StoredEncoder is the file that makes vectors of new texts as it made those of the nodes. Its
// package defines its content.
type StoredEncoder struct {
	Kind  string                  // such as builtin
	Write func(w io.Writer) error // writes the file
}

// WriteOptions says how to write. Its zero value is ready.
type WriteOptions struct {
	Provenance Provenance    // with Made left zero, the time of writing is taken
	Half       bool          // store float32 vectors as float16, in half the space; three digits remain
	Progress   progress.Func // may be nil
	// Written is called when everything is written and Content is not needed any more, before the folder is
	// renamed; may be nil. Close the dataset there that is to be replaced, without which Windows would refuse.
	// An error stops the writing.
	Written func() error
}

// Write stores a dataset in the folder dir. It fills a temporary folder beside it and
// renames that at the end, so that dir holds the old dataset or the new one, and an error or a
// cancelled context leaves nothing behind. An existing dataset is replaced, in one step where the
// system can exchange two names, as Linux and macOS can; elsewhere there is neither between two
// renames, and after a power cut there the next Write restores the old one. A folder that holds
// anything but a dataset is refused.
//
// The same content and the same Provenance, with its time given, make the same bytes.
func Write(ctx context.Context, dir string, c Content, o WriteOptions) (*Manifest, error) {
	if c.Graph == nil {
		return nil, fileError(dir, fmt.Errorf("%w: there is no graph", ErrContent), "give Content a Graph")
	}
	if dir == "" {
		return nil, fileError(`""`, fs.ErrInvalid, "name a folder")
	}
	if err := replaceable(dir); err != nil {
		return nil, err
	}
	w := newWriter(ctx, dir, c, o)
	if err := atomicfile.WriteFolder(dir, w.writeInto); err != nil {
		return nil, err
	}
	return w.manifest, nil
}

// WriteVectors puts other vectors, and the encoder that made them, into the dataset's own folder, and seals it
// with a manifest where it had none. Nodes, links and exposures stay byte for byte as they are, so that other
// columns and the order of rows are kept. As with Write, the folder holds the old dataset or the new one.
// The dataset is closed before the folder is renamed, and options.Written is called then. Call Sealable before
// making the vectors.
func (d *Dataset) WriteVectors(ctx context.Context, v *graph.Vectors, e *StoredEncoder,
	o WriteOptions) (*Manifest, error) {
	if err := d.Sealable(); err != nil {
		return nil, err
	}
	g, err := d.graph.WithVectors(v)
	if err != nil {
		return nil, fileError(d.path(VectorsFile), err, "")
	}
	exposures, err := d.Exposures(ctx)
	if err != nil {
		return nil, err
	}
	after := o.Written
	o.Written = func() error {
		if err := d.Close(); err != nil || after == nil {
			return err
		}
		return after()
	}
	w := newWriter(ctx, d.dir, Content{Graph: g, Exposures: exposures, Log: d.manifest.Log, Encoder: e}, o)
	w.kept = d
	w.manifest.Links = int(d.linkRows) // repeated ones are kept too
	if err := atomicfile.WriteFolder(d.dir, w.writeInto); err != nil {
		return nil, err
	}
	return w.manifest, nil
}

// Sealable reports, before the work, whether WriteVectors can replace the dataset's folder: whether it holds no
// other files, which would be lost.
func (d *Dataset) Sealable() error {
	if d.options.Tolerant {
		return fileError(d.dir, fmt.Errorf("%w: it was opened with its faults", ErrContent), "open it without Tolerant")
	}
	if err := onlyDataset(d.dir); err != nil {
		return err
	}
	// A shell in the folder would stay in the old one, which is removed.
	here, err := os.Stat(".")
	if there, err2 := os.Stat(d.dir); err == nil && err2 == nil && os.SameFile(here, there) {
		name := "it"
		if path, err := filepath.Abs(d.dir); err == nil {
			name = filepath.Base(path)
		}
		return fileError(d.dir, fmt.Errorf("%w: it is your working directory, which would be replaced", ErrContent),
			"go up with cd .. and name it there: %s", name)
	}
	return atomicfile.Writable(d.dir + ".new") // whether anything can be made beside it
}

// Seal writes a manifest beside files that another program wrote, so that the dataset is read in the same
// way (see OpenOptions.RowNumbers) by every program, and vectors are not read again at every opening. It changes
// nothing else. A dataset that has a manifest keeps it.
func (d *Dataset) Seal(ctx context.Context, p Provenance) (*Manifest, error) {
	if d.written {
		return &d.manifest, nil
	}
	f := d.faults
	if f.emptyID.count+f.duplicateID.count+f.dangling.count+f.selfLink.count+f.role.count > 0 {
		return nil, fileError(d.dir, fmt.Errorf("%w: it has faults", ErrContent), "fix them first")
	}
	exposures, err := d.Exposures(ctx)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.files[NodesFile] == nil:
		return nil, fileError(d.dir, ErrClosed, "seal before Close")
	case d.files[EncoderFile] != nil:
		return nil, fileError(d.path(EncoderFile), fmt.Errorf("%w: nothing says which vectors it made", ErrContent),
			"encode the texts again, or move it away")
	}
	w := newWriter(ctx, d.dir, Content{Graph: d.graph}, WriteOptions{Provenance: p})
	m := w.manifest
	m.Links, m.Fields, m.Vectors = int(d.linkRows), d.manifest.Fields, d.manifest.Vectors
	if m.describeSides(d.graph); exposures != nil {
		m.Exposures = exposures.Len()
	}
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		if m.Files[name], err = d.fileManifest(ctx, name); err != nil {
			return nil, err
		}
	}
	raw, err := m.bytes()
	if err != nil {
		return nil, w.refuse("the provenance has no JSON form: %v", "give a year from 0 to 9999", err)
	}
	return m, atomicfile.WriteBytes(d.path(ManifestFile), raw)
}

// Writable reports, before hours of work, whether Write can put a dataset into the folder dir. The first
// result says whether there is a dataset already, which Write replaces.
func Writable(dir string) (exists bool, err error) {
	if dir == "" {
		return false, fileError(`""`, fs.ErrInvalid, "name a folder")
	}
	if err := replaceable(dir); err != nil {
		return false, err
	}
	if _, err := os.Stat(filepath.Join(dir, ManifestFile)); err == nil {
		return true, nil
	}
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return false, nil // empty
	}
	// A folder that is not there yet can be made if a file in its place could.
	return false, atomicfile.Writable(filepath.Clean(dir))
}

// replaceable is nil when the folder is not there, is empty, or holds a dataset and nothing else.
func replaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fileError(dir, atomicfile.WithoutPath(err), "choose another folder")
	case len(entries) == 0:
		return nil
	}
	if err := onlyDataset(dir); err != nil {
		return err
	}
	file, err := os.Open(filepath.Join(dir, ManifestFile))
	if err != nil {
		return fileError(dir, fmt.Errorf("%w: it has no %s, so its files are not a dataset's", ErrNotDataset,
			ManifestFile), "choose another folder")
	}
	defer file.Close()
	if _, err := parseManifest(file); errors.Is(err, ErrNotDataset) {
		return fileError(filepath.Join(dir, ManifestFile), err, "choose another folder")
	}
	return nil
}

// onlyDataset is nil when every file of the folder is one of a dataset.
func onlyDataset(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fileError(dir, atomicfile.WithoutPath(err), "choose another folder")
	}
	for _, e := range entries {
		if e.Name() != ManifestFile && e.Name() != IndexFile && !slices.Contains(dataFiles, e.Name()) {
			return fileError(dir, fmt.Errorf("%w alone: it holds %s too, which would be lost", ErrNotDataset, e.Name()),
				"move that elsewhere, or choose another folder")
		}
	}
	return nil
}

// writer is one Write.
type writer struct {
	ctx      context.Context
	dir      string // for errors: the temporary folder would mislead
	content  Content
	kept     *Dataset // whose tables are copied as they are; nil to write them from content
	options  WriteOptions
	manifest *Manifest
	log      *Exposures          // whose rows are written
	times    [rowsPerBatch]int64 // of the batch that is written
}

func newWriter(ctx context.Context, dir string, c Content, o WriteOptions) *writer {
	if o.Provenance.Made.IsZero() {
		o.Provenance.Made = time.Now()
	}
	o.Provenance.Made = o.Provenance.Made.UTC().Truncate(time.Second)
	return &writer{
		ctx: ctx, dir: filepath.Clean(dir), content: c, options: o,
		manifest: &Manifest{
			Format: formatName, Version: Version,
			Nodes: c.Graph.Len(), Links: c.Graph.LinkCount(), Log: c.Log, Fields: []string{},
			Files: map[string]FileManifest{}, Provenance: o.Provenance,
		},
	}
}

// writeInto writes all files into a temporary folder.
func (w *writer) writeInto(folder string) error {
	g := w.content.Graph
	for f := 1; f < g.FieldCount(); f++ {
		name := g.FieldName(uint16(f))
		if !utf8.ValidString(name) {
			return w.refuse("field %q is not UTF-8", "give it another name", name)
		}
		w.manifest.Fields = append(w.manifest.Fields, name)
	}
	w.manifest.describeSides(g)
	type part struct {
		name  string
		write func(io.Writer, func(done, of int) error) error
	}
	parts := []part{{NodesFile, w.nodes}, {LinksFile, w.links}}
	switch {
	case w.content.ExposureParts != nil:
		parts = append(parts, part{ExposuresFile, w.exposureParts})
	case w.content.Exposures != nil:
		parts = append(parts, part{ExposuresFile, w.exposures})
	}
	if w.kept != nil {
		if w.content.Exposures != nil {
			w.manifest.Exposures = w.content.Exposures.Len()
		}
		for k := range parts {
			parts[k].write = w.copyOf(parts[k].name)
		}
	}
	if g.Vectors() != nil {
		parts = append(parts, part{VectorsFile, w.vectors})
	}
	for _, p := range parts {
		if err := w.file(folder, p.name, p.write); err != nil {
			return err
		}
	}
	if e := w.content.Encoder; e != nil {
		switch {
		case g.Vectors() == nil:
			return w.refuse("there is an encoder and no vectors that it made",
				"give the graph its vectors, or leave the encoder out")
		case e.Kind == "" || !utf8.ValidString(e.Kind):
			return w.refuse("the encoder's kind is %q", "name it", e.Kind)
		}
		w.manifest.Encoder = &EncoderManifest{Kind: e.Kind}
		if err := w.file(folder, EncoderFile, func(to io.Writer, progress func(done, of int) error) error {
			if err := progress(0, 1); err != nil {
				return err
			}
			return e.Write(to)
		}); err != nil {
			return err
		}
	}
	raw, err := w.manifest.bytes()
	if err != nil {
		return w.refuse("the provenance has no JSON form: %v", "give a year from 0 to 9999", err)
	}
	if err := os.WriteFile(filepath.Join(folder, ManifestFile), raw, 0o666); err != nil {
		return &atomicfile.Error{Path: filepath.Join(w.dir, ManifestFile), Err: atomicfile.WithoutPath(err)}
	}
	if w.options.Written != nil {
		return w.options.Written()
	}
	return nil
}

// copyOf copies a file of the dataset that is kept, from where it was read.
func (w *writer) copyOf(name string) func(io.Writer, func(done, of int) error) error {
	return func(to io.Writer, progress func(done, of int) error) error {
		d := w.kept
		d.mu.Lock()
		defer d.mu.Unlock()
		file := d.files[name]
		if file == nil {
			return fileError(d.dir, ErrClosed, "write before Close")
		}
		info, err := file.Stat()
		if err != nil {
			return fileError(d.path(name), atomicfile.WithoutPath(err), "")
		}
		for at := int64(0); at < info.Size(); at += 1 << 24 {
			if err := progress(int(at>>10), int(info.Size()>>10)); err != nil {
				return err
			}
			if _, err := io.Copy(to, io.NewSectionReader(file, at, min(1<<24, info.Size()-at))); err != nil {
				return fileError(d.path(name), atomicfile.WithoutPath(err), "")
			}
		}
		return nil
	}
}

// file writes one file and notes its size and sum.
func (w *writer) file(folder, name string, write func(io.Writer, func(done, of int) error) error) error {
	failed := func(err error) error {
		return &atomicfile.Error{Path: filepath.Join(w.dir, name), Err: atomicfile.WithoutPath(err)}
	}
	file, err := os.OpenFile(filepath.Join(folder, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return failed(err)
	}
	sum := sha256.New()
	counted := &counter{w: io.MultiWriter(file, sum)}
	buffered := bufio.NewWriterSize(counted, 1<<18)
	err = write(buffered, func(done, of int) error {
		w.options.Progress.Report(progress.Event{Phase: "writing " + name, Done: int64(done), Of: int64(of)})
		return w.ctx.Err()
	})
	if err == nil {
		err = buffered.Flush()
	}
	switch closed := file.Close(); {
	case counted.err != nil:
		return failed(counted.err)
	case err != nil:
		return err
	case closed != nil:
		return failed(closed)
	}
	w.manifest.Files[name] = FileManifest{counted.n, hex.EncodeToString(sum.Sum(nil))}
	return nil
}

// counter counts bytes and keeps the first error, which the layers above may word otherwise.
type counter struct {
	w   io.Writer
	n   int64
	err error
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	if c.err == nil {
		c.err = err
	}
	return n, err
}

func (w *writer) refuse(format, fix string, a ...any) error {
	return fileError(w.dir, fmt.Errorf("%w: %s", ErrContent, fmt.Sprintf(format, a...)), fix)
}

// nodeRow is a row of nodes.parquet. Empty strings are missing ones.
type nodeRow struct {
	ID    string `parquet:"id"`
	Field string `parquet:"field,optional,dict"`
	Title string `parquet:"title,optional"`
	Text  string `parquet:"text,optional"`
	Time  *int64 `parquet:"time,optional,timestamp(millisecond)"`
}

func (r *nodeRow) bytes() int { return len(r.ID) + len(r.Title) + len(r.Text) }

// roleRow is a row of nodes.parquet where some nodes are sources only or targets only.
type roleRow struct {
	nodeRow
	Role string `parquet:"role,optional,dict"`
}

// linkRow is a row of links.parquet: row numbers of nodes.parquet.
type linkRow struct {
	Source int64 `parquet:"source,delta"`
	Target int64 `parquet:"target,delta"`
}

// timedLinkRow is a row of links.parquet where links have times.
type timedLinkRow struct {
	linkRow
	Time *int64 `parquet:"time,optional,timestamp(millisecond)"`
}

// Rows that are handed over, and kept in memory, at once. A text is a thousand bytes or so.
const (
	rowsPerBatch     = columnar.BatchRows
	bytesPerBatch    = 8 << 20
	nodesPerGroup    = 1 << 16
	linksPerRowGroup = 1 << 20
)

func newTable[T any](to io.Writer, rowsPerGroup int64, options ...parquet.WriterOption) *parquet.GenericWriter[T] {
	return parquet.NewGenericWriter[T](to, append([]parquet.WriterOption{
		parquet.CreatedBy("unseen", "1", "dataset"), // a constant: the bytes do not depend on the build
		parquet.Compression(&zstd.Codec{Level: zstd.DefaultLevel}),
		parquet.MaxRowsPerRowGroup(rowsPerGroup),
	}, options...)...)
}

func (w *writer) nodes(to io.Writer, progress func(done, of int) error) error {
	// The smallest and largest text of a page do not help to find one.
	bounds := []parquet.WriterOption{parquet.SkipPageBounds("text"), parquet.SkipPageBounds("title")}
	if g := w.content.Graph; g.TwoSided() {
		return writeRows(newTable[roleRow](to, nodesPerGroup, bounds...), g.Len(), progress,
			func(k, at int, row *roleRow) error {
				row.Role = ""
				if r := g.Role(int32(at)); r != graph.SourceAndTarget {
					row.Role = r.String()
				}
				return w.node(k, at, &row.nodeRow)
			})
	}
	return writeRows(newTable[nodeRow](to, nodesPerGroup, bounds...), w.content.Graph.Len(), progress, w.node)
}

// writeRows writes n rows, which fill sets: row number at is element k of its batch.
func writeRows[T any](table *parquet.GenericWriter[T], n int, progress func(done, of int) error,
	fill func(k, at int, row *T) error) error {
	if err := addRows(table, n, progress, fill); err != nil {
		return err
	}
	return table.Close()
}

// addRows is writeRows for a table to which more may be added.
func addRows[T any](table *parquet.GenericWriter[T], n int, progress func(done, of int) error,
	fill func(k, at int, row *T) error) error {
	rows := make([]T, min(n, rowsPerBatch))
	for first := 0; first < n; {
		batch := rows[:min(rowsPerBatch, n-first)]
		bytes := 0
		for k := range batch {
			if err := fill(k, first+k, &batch[k]); err != nil {
				return err
			}
			if row, sized := any(&batch[k]).(interface{ bytes() int }); sized {
				if bytes += row.bytes(); bytes > bytesPerBatch {
					batch = batch[:k+1]
					break
				}
			}
		}
		if _, err := table.Write(batch); err != nil {
			return err
		}
		clear(batch) // long texts are not kept
		first += len(batch)
		if err := progress(first, n); err != nil {
			return err
		}
	}
	return nil
}

// node sets the row of a node.
func (w *writer) node(k, at int, row *nodeRow) error {
	g, i := w.content.Graph, int32(at)
	*row = nodeRow{ID: g.ID(i), Title: g.Title(i)}
	if f := g.Field(i); f != graph.UnknownField {
		row.Field = g.FieldName(f)
	}
	if w.content.Text != nil {
		text, err := w.content.Text(i)
		if err != nil {
			return fmt.Errorf("the text of node %q: %w", row.ID, err)
		}
		row.Text = text
	}
	if t, known := g.Time(i); known {
		var err error
		if row.Time, err = w.milliseconds(k, t.Unix(), "node", row.ID); err != nil {
			return err
		}
	}
	for _, c := range [...]struct{ name, text string }{{"id", row.ID}, {"title", row.Title}, {"text", row.Text}} {
		if !utf8.ValidString(c.text) {
			return w.refuse("the %s of node %q is not UTF-8",
				"decode it with the right character set, or replace what is not UTF-8 with strings.ToValidUTF8",
				c.name, strings.ToValidUTF8(row.ID, "�"))
		}
	}
	return nil
}

// milliseconds returns a time as it is stored, in the place of element k of a batch.
func (w *writer) milliseconds(k int, seconds int64, what string, id any) (*int64, error) {
	if seconds > math.MaxInt64/1000 || seconds < math.MinInt64/1000 {
		return nil, w.refuse("%s %#v has a time of %d seconds from 1970, beyond what milliseconds can count",
			"leave its time out", what, id, seconds)
	}
	w.times[k] = seconds * 1000
	return &w.times[k], nil
}

func (w *writer) links(to io.Writer, progress func(done, of int) error) error {
	g := w.content.Graph
	source, place := int32(0), -1 // of the link that is written
	link := func(_, _ int, row *linkRow) error {
		for place++; place >= len(g.Out(source)); source, place = source+1, 0 {
		}
		*row = linkRow{int64(source), int64(g.Out(source)[place])}
		return nil
	}
	if !g.HasLinkTimes() {
		return writeRows(newTable[linkRow](to, linksPerRowGroup), g.LinkCount(), progress, link)
	}
	return writeRows(newTable[timedLinkRow](to, linksPerRowGroup), g.LinkCount(), progress,
		func(k, at int, row *timedLinkRow) (err error) {
			link(k, at, &row.linkRow)
			row.Time = nil
			if t := g.OutTimes(source)[place]; t != graph.NoTime {
				row.Time, err = w.milliseconds(k, t, "the link number", at)
			}
			return err
		})
}

func (w *writer) vectors(to io.Writer, progress func(done, of int) error) error {
	g := w.content.Graph
	v := g.Vectors()
	if v.Len() != g.Len() {
		return w.refuse("the vectors were closed", "close them after their last use")
	}
	w.manifest.Vectors = &VectorManifest{Dimension: v.Dim(), Kind: kindName(w.options.Half || v.Half())}
	return writeNpy(to, v, w.options.Half, func(i int, row []float32) error {
		zero := true
		for _, x := range row {
			if !(math.Abs(float64(x)) <= math.MaxFloat32) {
				return w.refuse("the vector of node %q holds %v",
					"encode the node again; float16 ends at 65504, so large numbers need float32", g.ID(int32(i)), x)
			}
			zero = zero && x == 0
		}
		if zero {
			w.manifest.Vectors.Zero++
		}
		if i%rowsPerBatch == 0 {
			return progress(i, v.Len())
		}
		return nil
	})
}

func kindName(half bool) string {
	if half {
		return "float16"
	}
	return "float32"
}
