package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parquet-go/parquet-go"

	"unseen/graph"
	"unseen/hint"
	"unseen/internal/atomicfile"
	"unseen/progress"
)

// OpenOptions says how to open. Its zero value is ready.
type OpenOptions struct {
	// Verify reads every file and compares it with its checksum, and every vector. Without it, files of
	// more than 64 MiB of a manifest are checked by size only.
	Verify bool
	// Tolerant accepts faults that can be read without harm, and counts them for Check: links to nodes
	// that are not there or to their own source are left out, a node whose id is missing or taken gets
	// "id (row 7)", vectors that are not finite stay, and so do files that differ from the manifest.
	Tolerant bool
	// RowNumbers says that whole numbers in links are row numbers even where ids are whole numbers too
	// and no manifest says so.
	RowNumbers bool
	Progress   progress.Func // may be nil
}

// Dataset is an open dataset. Its graph stays valid after Close, except for the vectors, whose memory
// Close frees. It may be used by many goroutines at a time.
type Dataset struct {
	dir      string
	options  OpenOptions
	manifest Manifest
	written  bool // there is a manifest, and not one made up here
	graph    *graph.Graph
	build    graph.BuildReport
	linkRows int64 // of links.parquet, repeated ones too
	faults   faults

	mu    sync.Mutex // guards what is below
	files map[string]*os.File
	texts texts
}

// faults are what a tolerant Open let pass.
type faults struct {
	emptyID, duplicateID, dangling, selfLink, role fault
}

// fault counts one kind and keeps the first as an example.
type fault struct {
	count   int
	example string
}

func (f *fault) add(format string, a ...any) {
	if f.count == 0 {
		f.example = fmt.Sprintf(format, a...)
	}
	f.count++
}

// Open opens the dataset in the folder dir. The graph is read, vectors are mapped, and texts and
// exposures are left for later.
//
// A folder without dataset.json, as a Python script may write it, is a dataset too; then all vectors are
// read, since no manifest says that they are finite. The package comment describes the columns.
func Open(ctx context.Context, dir string, o OpenOptions) (*Dataset, error) {
	d := &Dataset{dir: filepath.Clean(dir), options: o}
	if err := d.openFiles(); err != nil {
		d.Close()
		return nil, err
	}
	if err := d.read(ctx); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Graph returns the nodes and links, with fields, times, titles, and the vectors if there are any.
func (d *Dataset) Graph() *graph.Graph { return d.graph }

// Manifest returns what dataset.json says, or what it would say of a folder without one: then Format and
// Files are empty.
func (d *Dataset) Manifest() Manifest { return d.manifest }

// Build returns what was counted when the graph was built: repeated links, isolated nodes, and so on.
func (d *Dataset) Build() graph.BuildReport { return d.build }

// Content returns what Write needs to store the dataset elsewhere.
func (d *Dataset) Content(ctx context.Context) (Content, error) {
	e, err := d.Exposures(ctx)
	c := Content{Graph: d.graph, Text: d.Text, Exposures: e}
	if m := d.manifest.Encoder; m != nil {
		c.Encoder = &StoredEncoder{Kind: m.Kind, Write: func(w io.Writer) error {
			r, err := d.Encoder()
			if err == nil {
				_, err = io.Copy(w, r)
			}
			return err
		}}
	}
	return c, err
}

// Encoder returns the bytes of the file that made the vectors, or nil when the dataset has none;
// Manifest().Encoder says of which kind it is. They can be read until Close.
func (d *Dataset) Encoder() (*io.SectionReader, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[NodesFile] == nil {
		return nil, fileError(d.dir, ErrClosed, "read the encoder before Close")
	}
	file := d.files[EncoderFile]
	if file == nil || d.manifest.Encoder == nil {
		return nil, nil
	}
	info, err := file.Stat()
	if err != nil {
		return nil, fileError(d.path(EncoderFile), atomicfile.WithoutPath(err), "")
	}
	return io.NewSectionReader(file, 0, info.Size()), nil
}

// Close closes the files and frees the memory of the vectors. It may be called again.
func (d *Dataset) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.texts.close()
	var first error
	for name, file := range d.files {
		if err := file.Close(); err != nil && first == nil {
			first = err
		}
		delete(d.files, name)
	}
	if d.graph != nil && d.graph.Vectors() != nil {
		if err := d.graph.Vectors().Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (d *Dataset) path(name string) string { return filepath.Join(d.dir, name) }

// openFiles opens all files of one and the same folder, even while another program replaces it.
func (d *Dataset) openFiles() error {
	const attempts = 5
	for range attempts {
		before, err := os.Stat(d.dir)
		if err != nil {
			return fileError(d.dir, atomicfile.WithoutPath(err), "name the folder of a dataset")
		}
		if !before.IsDir() {
			return fileError(d.dir, fmt.Errorf("%w: it is not a folder", ErrNotDataset), "name the folder that holds "+
				NodesFile+" and "+LinksFile)
		}
		err = d.openOnce()
		after, statErr := os.Stat(d.dir)
		if statErr == nil && os.SameFile(before, after) {
			return err
		}
		for name, file := range d.files {
			file.Close()
			delete(d.files, name)
		}
	}
	return fileError(d.dir, errors.New("it keeps being replaced"), "open it when nothing writes to it")
}

func (d *Dataset) openOnce() error {
	d.files = make(map[string]*os.File)
	d.manifest, d.written = Manifest{}, false
	for _, name := range append([]string{ManifestFile}, dataFiles...) {
		file, err := os.Open(d.path(name))
		if err == nil {
			d.files[name] = file
			continue
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fileError(d.path(name), atomicfile.WithoutPath(err), "ask for the right to read it")
		}
		if name == NodesFile || name == LinksFile {
			return fileError(d.dir, fmt.Errorf("%w: it has no %s", ErrNotDataset, name),
				"name a folder with "+NodesFile+" and "+LinksFile+", or import your tables")
		}
	}
	file := d.files[ManifestFile]
	if file == nil {
		return nil
	}
	m, err := parseManifest(file)
	if err != nil {
		return fileError(d.path(ManifestFile), err, manifestFix(err))
	}
	for _, name := range dataFiles {
		_, promised := m.Files[name]
		_, there := d.files[name]
		switch {
		case promised && !there:
			return fileError(d.path(name), fmt.Errorf("%w: it is missing", ErrChecksum), "copy the whole folder again")
		case there && !promised:
			return fileError(d.path(name), fmt.Errorf("%w: %s does not list it", ErrChecksum, ManifestFile),
				"move it away; or move "+ManifestFile+" away to take the folder as it is")
		}
	}
	d.manifest, d.written = *m, true
	return nil
}

// smallFile is the size up to which Open checks the checksum, which takes a fraction of a second.
const smallFile = 64 << 20

// Verify reads every file and compares it with its checksum, and checks every vector. Without dataset.json it
// checks only the vectors. OpenOptions.Verify does the same in Open.
func (d *Dataset) Verify(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[NodesFile] == nil {
		return fileError(d.dir, ErrClosed, "verify before Close")
	}
	changed, err := d.changed(ctx, true)
	if err == nil && len(changed) > 0 {
		err = changed[0]
	}
	if err == nil && d.graph.Vectors() != nil {
		_, err = d.checkVectors(d.graph.Vectors())
	}
	return err
}

// changed lists the files that are not what the manifest says: the small ones by their sums, the large ones
// by their sizes unless all is set. A tolerant Open stops at none of them.
func (d *Dataset) changed(ctx context.Context, all bool) ([]*Error, error) {
	var changed []*Error
	for _, name := range dataFiles {
		known, promised := d.manifest.Files[name]
		if !promised {
			continue
		}
		differs := func(format string, a ...any) {
			err := fmt.Errorf("%w: %s", ErrChecksum, fmt.Sprintf(format, a...))
			changed = append(changed, fileError(d.path(name), err,
				"copy the folder again; or, if you changed it yourself, move "+ManifestFile+
					" away to take it as it is"))
		}
		info, err := d.files[name].Stat()
		if err != nil {
			return changed, fileError(d.path(name), atomicfile.WithoutPath(err), "")
		}
		if info.Size() != known.Bytes {
			differs("it has %d bytes, and had %d when it was written", info.Size(), known.Bytes)
			continue
		}
		if !all && info.Size() > smallFile {
			continue
		}
		sum, err := d.sum(ctx, name, info.Size())
		if err != nil {
			return changed, err
		}
		if sum != known.SHA256 {
			differs("its SHA-256 is %.12s… and was %.12s…", sum, known.SHA256)
		}
	}
	return changed, nil
}

// Checksums are the SHA-256 of the data files by name. Without dataset.json, the files are read.
func (d *Dataset) Checksums(ctx context.Context) (map[string]string, error) {
	if d.written {
		return d.manifest.Checksums(), nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[NodesFile] == nil {
		return nil, fileError(d.dir, ErrClosed, "ask for checksums before Close")
	}
	sums := map[string]string{}
	for _, name := range dataFiles {
		if d.files[name] == nil {
			continue
		}
		file, err := d.fileManifest(ctx, name)
		if err != nil {
			return nil, err
		}
		sums[name] = file.SHA256
	}
	return sums, nil
}

// fileManifest reads a file for its size and checksum.
func (d *Dataset) fileManifest(ctx context.Context, name string) (FileManifest, error) {
	info, err := d.files[name].Stat()
	if err != nil {
		return FileManifest{}, fileError(d.path(name), atomicfile.WithoutPath(err), "")
	}
	sum, err := d.sum(ctx, name, info.Size())
	return FileManifest{info.Size(), sum}, err
}

// sum is the SHA-256 of a file.
func (d *Dataset) sum(ctx context.Context, name string, size int64) (string, error) {
	h := sha256.New()
	for at := int64(0); at < size; at += 1 << 24 {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		d.reading(name, at, size)
		if _, err := io.Copy(h, io.NewSectionReader(d.files[name], at, 1<<24)); err != nil {
			return "", fileError(d.path(name), atomicfile.WithoutPath(err), "")
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// reading reports that so much of a file was read: rows of a table, or bytes.
func (d *Dataset) reading(name string, done, of int64) {
	d.options.Progress.Report(progress.Event{Phase: "reading " + name, Done: done, Of: of})
}

// read builds the graph.
func (d *Dataset) read(ctx context.Context) error {
	changed, err := d.changed(ctx, d.options.Verify)
	if err != nil {
		return err
	}
	if len(changed) > 0 && !d.options.Tolerant {
		return changed[0]
	}
	var b graph.Builder
	for k, name := range d.manifest.Fields {
		if _, err := b.AddField(name); err != nil {
			return fileError(d.path(ManifestFile), fmt.Errorf("field %d: %w", k+1, err), "write the dataset again")
		}
	}
	nodes, err := openTable(d.files[NodesFile], d.path(NodesFile))
	if err != nil {
		return err
	}
	links, err := openTable(d.files[LinksFile], d.path(LinksFile))
	if err != nil {
		return err
	}
	ends, err := links.ends()
	if err != nil {
		return err
	}
	roles, err := d.readRoles(ctx, nodes)
	if err != nil {
		return err
	}
	// Row numbers need no ids, so they are read while the nodes are.
	var numbered chan numberedLinks
	if !ends.byID {
		numbered = make(chan numberedLinks, 1)
		side, stop := context.WithCancel(ctx)
		go func() { numbered <- links.numbers(side, ends, nodes.rows(), d.options.Tolerant) }()
		defer func() {
			stop()
			<-numbered // nothing reads the file when it is closed
		}()
	}
	numbers, err := d.readNodes(ctx, nodes, roles, &b)
	if err != nil {
		return err
	}
	if ends.byID {
		err = d.addByID(ctx, links, ends, &b)
	} else {
		if numbers && links.rows() > 0 && !d.options.RowNumbers {
			return placeError(links.path, -1, "source", fmt.Errorf("%w: links hold whole numbers, and so do the ids",
				ErrAmbiguous),
				`if they are ids, store them as text: links = links.astype({"source": str, "target": str}); `+
					`if they are row numbers, set %v, and seal the dataset to say so once`,
				hint.Setting("rowNumbers"))
		}
		read := <-numbered
		close(numbered)
		err = d.addByNumber(links, read, &b)
	}
	if err != nil {
		return err
	}
	g, report, err := b.Build()
	if err != nil {
		return fileError(d.dir, err, "")
	}
	d.graph, d.build, d.linkRows = g, report, links.rows()
	if err := d.compareCounts(); err != nil {
		return err
	}
	if err := d.attachVectors(); err != nil {
		return err
	}
	if !d.written {
		d.describe()
	}
	d.texts.table = nodes
	return nil
}

// compareCounts refuses tables that hold other numbers of nodes or links than the manifest says.
func (d *Dataset) compareCounts() error {
	if !d.written || d.options.Tolerant {
		return nil
	}
	g, m := d.graph, d.manifest
	differs := func(file, format string, a ...any) error {
		return fileError(d.path(file), fmt.Errorf("%w: it has "+format, append([]any{ErrChecksum}, a...)...),
			"copy the folder again")
	}
	switch {
	case m.Nodes != g.Len():
		return differs(NodesFile, "%d rows, and %s says %d", g.Len(), ManifestFile, m.Nodes)
	case int64(m.Links) != d.linkRows:
		return differs(LinksFile, "%d rows, and %s says %d", d.linkRows, ManifestFile, m.Links)
	case (m.Sources != 0 || m.Targets != 0) && (m.Sources != len(g.Sources()) || m.Targets != len(g.Targets())):
		return differs(NodesFile, "%d sources and %d targets, and %s says %d and %d", len(g.Sources()),
			len(g.Targets()), ManifestFile, m.Sources, m.Targets)
	}
	return nil
}

// describe makes up the manifest of a folder that has none.
func (d *Dataset) describe() {
	d.manifest = Manifest{Nodes: d.graph.Len(), Links: d.graph.LinkCount(), Fields: []string{},
		Vectors: d.manifest.Vectors}
	for f := 1; f < d.graph.FieldCount(); f++ {
		d.manifest.Fields = append(d.manifest.Fields, d.graph.FieldName(uint16(f)))
	}
	d.manifest.describeSides(d.graph)
}

// readRoles returns the role of every node, or nil where none is stored. Without a manifest a column of this name may
// hold anything: unless all its values are roles it is not used.
func (d *Dataset) readRoles(ctx context.Context, t *table) ([]graph.Role, error) {
	c, err := t.find("role")
	stored := d.written && (d.manifest.Sources != 0 || d.manifest.Targets != 0)
	if err != nil || c == nil || c.kind != parquet.ByteArray || d.written && !stored {
		return nil, nil
	}
	roles, known := make([]graph.Role, 0, roomFor(t.rows())), true
	err = t.scan(ctx, []*column{c}, func(first int64, n int, values [][]parquet.Value) error {
		for k := range n {
			name, err := t.text(first+int64(k), c, values[0][k])
			var r graph.Role
			if err == nil {
				r, err = graph.ParseRole(name)
			}
			if err != nil && d.written {
				return placeError(t.path, first+int64(k), c.name, err, "")
			}
			known = known && err == nil
			roles = append(roles, r)
		}
		return nil
	})
	if !known {
		return nil, err
	}
	return roles, err
}

// readNodes adds the nodes to the builder. It returns whether all ids are whole numbers and at least one
// of them is not its own row number.
func (d *Dataset) readNodes(ctx context.Context, t *table, roles []graph.Role, b *graph.Builder) (numbers bool,
	err error) {
	id, err := t.must("id")
	if err == nil && id.kind != parquet.ByteArray {
		err = t.mistyped("id", kindWords(id),
			`store ids as text, in the links too if they are there by id: nodes["id"] = nodes["id"].astype(str)`)
	}
	if err != nil {
		return false, err
	}
	columns := []*column{id, nil, nil, nil}
	for k, name := range []string{"field", "title", "time"} {
		c, err := t.optional(name)
		if err == nil && name == "time" {
			err = t.times(c)
		} else if err == nil {
			err = t.strings(c)
		}
		if err != nil {
			return false, err
		}
		columns[k+1] = c
	}
	// Text is read later, but a wrong type is better known now.
	text, err := t.optional("text")
	if err == nil {
		err = t.strings(text)
	}
	if err != nil {
		return false, err
	}
	d.texts.column = text

	if d.written && !d.options.Tolerant && d.readColumns(ctx, t, columns, roles, b) {
		return false, nil
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	b.Grow(roomFor(t.rows()))
	allNumbers, moved := true, false
	err = t.scan(ctx, columns, func(first int64, n int, values [][]parquet.Value) error {
		d.reading(NodesFile, first, t.rows())
		for k := range n {
			row := first + int64(k)
			var node graph.Node
			for c, into := range []*string{&node.ID, &node.Field, &node.Title} {
				if columns[c] != nil {
					if *into, err = t.text(row, columns[c], values[c][k]); err != nil {
						return err
					}
				}
			}
			if c := columns[3]; c != nil && !values[3][k].IsNull() {
				node.Time = c.timeOf(values[3][k])
			}
			if !d.written && allNumbers {
				number, err := strconv.ParseInt(node.ID, 10, 64)
				allNumbers = err == nil
				moved = moved || number != row
			}
			if roles != nil {
				node.Role = roles[row]
			}
			if err := d.addNode(t, b, row, node); err != nil {
				return err
			}
		}
		return nil
	})
	return allNumbers && moved && !d.written, err
}

// roomFor is how many rows to reserve memory for: a damaged file may claim any number, and larger tables grow later.
func roomFor(rows int64) int { return int(min(rows, 1<<23)) }

// readColumns is readNodes for a file that Write wrote, with the columns side by side. Where anything is wrong it
// returns false and has added no nodes: reading row by row then finds out what.
func (d *Dataset) readColumns(ctx context.Context, t *table, columns []*column, roles []graph.Role,
	b *graph.Builder) bool {
	var nodes graph.NodeColumns
	nodes.AddRoles(roles)
	room := roomFor(t.rows())
	// texts reads a column of strings and hands them over in batches.
	texts := func(ctx context.Context, c *column, add func([]string) error) error {
		var batch [rowsPerBatch]string
		return t.scan(ctx, []*column{c}, func(first int64, n int, values [][]parquet.Value) error {
			for k := range n {
				var err error
				if batch[k], err = t.text(first+int64(k), c, values[0][k]); err != nil {
					return err
				}
			}
			return add(batch[:n])
		})
	}
	side, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 2)
	go func() {
		nodes.GrowIDs(room, t.textBytes(columns[0]))
		failed <- texts(side, columns[0], nodes.AddIDs)
	}()
	go func() {
		if columns[2] == nil {
			failed <- nil
			return
		}
		nodes.GrowTitles(room, t.textBytes(columns[2]))
		failed <- texts(side, columns[2], nodes.AddTitles)
	}()
	err := d.readFieldsAndTimes(ctx, t, columns[1], columns[3], b, &nodes)
	if err != nil {
		stop()
	}
	for range 2 {
		if e := <-failed; e != nil {
			err = e
			stop()
		}
	}
	return err == nil && b.AddColumns(&nodes) == nil
}

func (d *Dataset) readFieldsAndTimes(ctx context.Context, t *table, field, when *column, b *graph.Builder,
	nodes *graph.NodeColumns) error {
	if field == nil && when == nil {
		return nil
	}
	known := map[string]uint16{"": graph.UnknownField}
	var fields [rowsPerBatch]uint16
	var times [rowsPerBatch]int64
	return t.scan(ctx, []*column{field, when}, func(first int64, n int, values [][]parquet.Value) error {
		d.reading(NodesFile, first, t.rows())
		for k := range n {
			if field != nil {
				name, err := t.text(first+int64(k), field, values[0][k])
				if err != nil {
					return err
				}
				f, ok := known[name]
				if !ok {
					name = strings.Clone(name) // the page goes back
					if f, err = b.AddField(name); err != nil {
						return err
					}
					known[name] = f
				}
				fields[k] = f
			}
			if when != nil {
				if times[k] = graph.NoTime; !values[1][k].IsNull() {
					times[k] = when.timeOf(values[1][k]).Unix()
				}
			}
		}
		if field != nil {
			nodes.AddFields(fields[:n])
		}
		if when != nil {
			nodes.AddTimes(times[:n])
		}
		return nil
	})
}

func (c *column) timeOf(v parquet.Value) time.Time {
	if c.kind == parquet.Int32 {
		return c.time(int64(v.Int32()))
	}
	return c.time(v.Int64())
}

// addNode adds a node, under another name if its own will not do and that is allowed.
func (d *Dataset) addNode(t *table, b *graph.Builder, row int64, node graph.Node) error {
	_, err := b.AddNode(node)
	if err == nil {
		return nil
	}
	if d.options.Tolerant {
		own := node.ID
		for retry := 0; errors.Is(err, graph.ErrEmptyID) || errors.Is(err, graph.ErrDuplicateNode); retry++ {
			node.ID = fmt.Sprintf("%s (row %d%.*s)", own, row, retry, "′′′′′′′′")
			if retry == 8 {
				break
			}
			kind := &d.faults.duplicateID
			if errors.Is(err, graph.ErrEmptyID) {
				kind = &d.faults.emptyID
			}
			if retry == 0 {
				kind.add("%q in row %d", own, row)
			}
			_, err = b.AddNode(node)
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, graph.ErrEmptyID):
		return placeError(t.path, row, "id", graph.ErrEmptyID, "give every node an id")
	case errors.Is(err, graph.ErrDuplicateNode):
		return placeError(t.path, row, "id", fmt.Errorf("%w %.80q, which an earlier row has", graph.ErrDuplicateNode,
			node.ID), `merge the rows or give one another id; in pandas, nodes[nodes["id"].duplicated()] lists them`)
	}
	return placeError(t.path, row, "", err, "")
}

// ends are the columns source and target, both of ids or both of row numbers.
type ends struct {
	source, target *column
	byID           bool
	time           *column // of the links; nil where they have none
}

func (t *table) ends() (e ends, err error) {
	if e.source, err = t.must("source"); err != nil {
		return e, err
	}
	if e.target, err = t.must("target"); err != nil {
		return e, err
	}
	for _, c := range []*column{e.source, e.target} {
		if c.kind != parquet.ByteArray && (c.kind != parquet.Int32 && c.kind != parquet.Int64 || c.time != nil) {
			return e, t.mistyped(c.name, kindWords(c), "store ids as text, or row numbers of "+NodesFile+" as int64")
		}
	}
	e.byID = e.source.kind == parquet.ByteArray
	if e.byID != (e.target.kind == parquet.ByteArray) {
		return e, t.mistyped("target", kindWords(e.target)+", and source "+kindWords(e.source),
			"store both as ids or both as row numbers")
	}
	// A column of this name that holds no times is another's.
	if c, err := t.find("time"); err == nil && c != nil && c.time != nil && filepath.Base(t.path) == LinksFile {
		e.time = c
	}
	return e, nil
}

// when returns the time of a link, by the columns' values of a scan.
func (e ends) when(k int, values [][]parquet.Value) int64 {
	if e.time == nil || values[2][k].IsNull() {
		return graph.NoTime
	}
	return e.time.timeOf(values[2][k]).Unix()
}

// rowNumber returns a value as a node's index; it is an error when there is no such row.
func (t *table) rowNumber(row int64, c *column, v parquet.Value, nodes int64) (int32, error) {
	if v.IsNull() {
		return 0, placeError(t.path, row, c.name, fmt.Errorf("%w: it is empty", graph.ErrUnknownNode),
			"leave the row out")
	}
	number := wholeNumber(c, v)
	if uint64(number) >= uint64(nodes) || number > math.MaxInt32 {
		return 0, placeError(t.path, row, c.name, fmt.Errorf("%w: row %d of %s, which has %d", graph.ErrUnknownNode,
			number, NodesFile, nodes), "leave the link out or add the node; if it is an id, store it as text")
	}
	return int32(number), nil
}

// numberedLinks are links by row number, in the order of the rows.
type numberedLinks struct {
	batches [][]graph.Link
	times   [][]int64       // as the batches
	faults  map[int64]error // rows with an end that is not there; their links are of no meaning
	err     error
}

// numbers reads links by row number. It stops at the first that names no node, unless goOn is set.
func (t *table) numbers(ctx context.Context, e ends, nodes int64, goOn bool) (read numberedLinks) {
	read.faults = make(map[int64]error)
	columns := []*column{e.source, e.target, e.time}
	read.err = t.scan(ctx, columns, func(first int64, n int, values [][]parquet.Value) error {
		batch, times := make([]graph.Link, n), []int64(nil)
		for k := range batch {
			row := first + int64(k)
			i, err := t.rowNumber(row, e.source, values[0][k], nodes)
			j := int32(0)
			if err == nil {
				j, err = t.rowNumber(row, e.target, values[1][k], nodes)
			}
			if err != nil && !goOn {
				return err
			}
			if err != nil {
				read.faults[row] = err
			}
			batch[k] = graph.Link{Source: i, Target: j}
			if e.time != nil {
				times = append(times, e.when(k, values))
			}
		}
		read.batches, read.times = append(read.batches, batch), append(read.times, times)
		return nil
	})
	return read
}

// addByNumber adds links by row number to the builder.
func (d *Dataset) addByNumber(t *table, read numberedLinks, b *graph.Builder) error {
	if read.err != nil {
		return read.err
	}
	row := int64(0)
	for k, batch := range read.batches {
		d.reading(LinksFile, row, t.rows())
		for p, l := range batch {
			var err error
			when := int64(graph.NoTime)
			if read.times[k] != nil {
				when = read.times[k][p]
			}
			if len(read.faults) > 0 {
				err = read.faults[row]
			}
			if err == nil {
				err = b.AddLinkAt(l.Source, l.Target, when)
			}
			if err != nil {
				if err := d.skipLink(t, row, err); err != nil {
					return err
				}
			}
			row++
		}
		read.batches[k], read.times[k] = nil, nil
	}
	return nil
}

// addByID adds links by id to the builder.
func (d *Dataset) addByID(ctx context.Context, t *table, e ends, b *graph.Builder) error {
	var from, to []string
	columns := []*column{e.source, e.target, e.time}
	return t.scan(ctx, columns, func(first int64, n int, values [][]parquet.Value) error {
		d.reading(LinksFile, first, t.rows())
		from, to = from[:0], to[:0]
		for k := range n {
			i, err := t.text(first+int64(k), e.source, values[0][k])
			if err != nil {
				return err
			}
			j, err := t.text(first+int64(k), e.target, values[1][k])
			if err != nil {
				return err
			}
			from, to = append(from, i), append(to, j)
		}
		// In a batch where it goes well, one by one where faults are let pass or to find the row at fault.
		if !d.options.Tolerant && e.time == nil && b.AddLinks(from, to) == nil {
			return nil
		}
		var ends [2]int32
		for k := range n {
			err := error(nil)
			if b.Find(ends[:], []string{from[k], to[k]}); ends[0] >= 0 && ends[1] >= 0 {
				err = b.AddLinkAt(ends[0], ends[1], e.when(k, values))
			} else {
				err = b.AddLink(from[k], to[k]) // says which end is unknown
			}
			if err != nil {
				if err := d.skipLink(t, first+int64(k), err); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// skipLink counts a link that was left out, or makes its fault the error that names the row.
func (d *Dataset) skipLink(t *table, row int64, err error) error {
	kind, fix := &d.faults.dangling, "leave the link out or add the node"
	switch {
	case errors.Is(err, graph.ErrUnknownNode):
	case errors.Is(err, graph.ErrSelfLink):
		kind, fix = &d.faults.selfLink, "leave it out"
	case errors.Is(err, graph.ErrRole):
		kind, fix = &d.faults.role, "swap the ends, or let the node be source and target"
	default:
		return placeError(t.path, row, "", err, "")
	}
	if link, ok := errors.AsType[*graph.LinkError](err); ok {
		err = link.Err // the row says which it is
	}
	if e, ok := errors.AsType[*Error](err); ok {
		if !d.options.Tolerant {
			return e
		}
		_, err = e.parts()
	} else if !d.options.Tolerant {
		return placeError(t.path, row, "", err, fix)
	}
	kind.add("row %d of %s: %v", row, filepath.Base(t.path), err)
	return nil
}

// attachVectors maps the vectors, and reads them if there is no manifest.
func (d *Dataset) attachVectors() error {
	file := d.files[VectorsFile]
	if file == nil {
		return nil
	}
	path := d.path(VectorsFile)
	v, h, err := mapVectors(file, path)
	if err != nil {
		return err
	}
	fail := func(err error) error {
		v.Close()
		return err
	}
	if v.Len() != d.graph.Len() {
		return fail(fileError(path, fmt.Errorf("%w: %d vectors for %d nodes", graph.ErrShape, v.Len(), d.graph.Len()),
			"save one row per row of "+NodesFile+", in its order"))
	}
	if known := d.manifest.Vectors; known != nil && (known.Dimension != h.dim || known.Kind != kindName(h.half)) &&
		!d.options.Tolerant {
		return fail(fileError(path, fmt.Errorf("%w: %s of dimension %d, and %s says %s of %d", ErrChecksum,
			kindName(h.half), h.dim, ManifestFile, known.Kind, known.Dimension), "copy the folder again"))
	}
	if !d.written || d.options.Verify {
		r, err := d.checkVectors(v)
		if err != nil && !d.options.Tolerant {
			return fail(err)
		}
		d.manifest.Vectors = &VectorManifest{Dimension: h.dim, Kind: kindName(h.half), Zero: r.Zero}
	}
	d.graph, err = d.graph.WithTrustedVectors(v)
	if err != nil {
		return fail(err)
	}
	return nil
}

// checkVectors reads all vectors; the error names the first row that is not finite.
func (d *Dataset) checkVectors(v *graph.Vectors) (graph.VectorReport, error) {
	path := d.path(VectorsFile)
	r, err := v.Check(d.graph)
	if err != nil {
		return r, fileError(path, err, "")
	}
	if r.NotFinite > 0 {
		row, _ := d.graph.Index(r.NotFiniteIDs[0])
		return r, placeError(path, int64(row), "", fmt.Errorf("%w (node %q; such rows: %d)", graph.ErrNotFinite,
			r.NotFiniteIDs[0], r.NotFinite), "encode these nodes again or leave them out")
	}
	return r, nil
}
