package dataset

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"unseen/graph"
	"unseen/progress"
)

// small is two nodes and a link.
func small(t *testing.T) *graph.Graph {
	t.Helper()
	var b graph.Builder
	for _, id := range []string{"old", "new"} {
		_, err := b.AddNode(graph.Node{ID: id, Field: id + " field"})
		must(t, err)
	}
	must(t, b.AddLink("new", "old"))
	g, _, err := b.Build()
	must(t, err)
	return g
}

func listing(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestWriteReplaces(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir := filepath.Join(parent, "d")
	must(t, os.Mkdir(dir, 0o777)) // an empty folder may be filled
	first := randomContent(t, 5)
	_, err := Write(background, dir, first, WriteOptions{})
	must(t, err)
	old, err := Open(background, dir, OpenOptions{})
	must(t, err)
	m, err := Write(background, dir, Content{Graph: small(t)},
		WriteOptions{Provenance: Provenance{Source: "a <test> & more"}})
	must(t, err)
	if m.Nodes != 2 || m.Links != 1 || time.Since(m.Provenance.Made) > time.Minute {
		t.Errorf("%+v", m)
	}
	// An open old dataset can still be read, and files that only it had are removed.
	if runtime.GOOS != "windows" && !sameContent(t, old, first) {
		t.Error("the old dataset changed under its reader")
	}
	must(t, old.Close())
	d, err := Open(background, dir, OpenOptions{})
	must(t, err)
	defer d.Close()
	if got := d.Manifest(); got.Provenance.Source != "a <test> & more" || !sameContent(t, d, Content{Graph: small(t)}) {
		t.Errorf("%+v", got)
	}
	if left := listing(t, dir); strings.Join(left, " ") != "dataset.json links.parquet nodes.parquet" {
		t.Errorf("the folder holds %v", left)
	}
	if left := listing(t, parent); len(left) != 1 {
		t.Errorf("beside the dataset lie %v", left)
	}
}

func TestWriteRefuses(t *testing.T) {
	t.Parallel()
	put := func(dir, name, content string) {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666))
	}
	for name, c := range map[string]struct {
		fill func(dir string)
		kind error
		says string
	}{
		"a home":      {func(dir string) { put(dir, "letter.txt", "dear") }, ErrNotDataset, "letter.txt"},
		"no manifest": {func(dir string) { put(dir, NodesFile, "") }, ErrNotDataset, "no dataset.json"},
		"another's":   {func(dir string) { put(dir, ManifestFile, "{}") }, ErrNotDataset, ManifestFile},
		"dataset and all": {func(dir string) { put(dir, ManifestFile, goodManifest); put(dir, "notes.md", "mine") },
			ErrNotDataset, "notes.md"},
	} {
		dir := t.TempDir()
		c.fill(dir)
		before := listing(t, dir)
		_, err := Write(background, dir, Content{Graph: small(t)}, WriteOptions{})
		wantError(t, err, c.kind, c.says, dir, "another folder")
		if after := listing(t, dir); strings.Join(before, " ") != strings.Join(after, " ") {
			t.Errorf("%s: the folder held %v and holds %v", name, before, after)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o666))
	if _, err := Write(background, file, Content{Graph: small(t)}, WriteOptions{}); err == nil ||
		!strings.Contains(err.Error(), file) {
		t.Errorf("wrote over a file: %v", err)
	}
	_, err := Write(background, filepath.Join(t.TempDir(), "no", "folder"), Content{Graph: small(t)}, WriteOptions{})
	wantError(t, err, fs.ErrNotExist, "make its folder first")
	_, err = Write(background, "", Content{Graph: small(t)}, WriteOptions{})
	wantError(t, err, fs.ErrInvalid, "name a folder")
	_, err = Write(background, filepath.Join(t.TempDir(), "d"), Content{}, WriteOptions{})
	wantError(t, err, ErrContent, "no graph")
}

// TestUnstorable wants an error that names the node, and nothing left behind.
func TestUnstorable(t *testing.T) {
	t.Parallel()
	with := func(node graph.Node) *graph.Graph {
		var b graph.Builder
		_, err := b.AddNode(graph.Node{ID: "fine"})
		must(t, err)
		_, err = b.AddNode(node)
		must(t, err)
		g, _, err := b.Build()
		must(t, err)
		return g
	}
	vectors := func(numbers ...float32) *graph.Graph {
		v, err := graph.NewVectors(2, 1)
		must(t, err)
		for i, x := range numbers {
			must(t, v.Set(int32(i), []float32{x}))
		}
		g, err := small(t).WithTrustedVectors(v)
		must(t, err)
		return g
	}
	closed := vectors(1, 2)
	must(t, closed.Vectors().Close())
	broken := errors.New("the reader broke")
	pair := func(e Exposures) *Exposures { return &e }
	for name, c := range map[string]struct {
		content Content
		half    bool
		kind    error
		says    string
	}{
		"id": {Content{Graph: with(graph.Node{ID: "\xff"})}, false, ErrContent, "the id of node"},
		"title": {Content{Graph: with(graph.Node{ID: "b", Title: "\xff"})}, false, ErrContent,
			`the title of node "b"`},
		"field": {Content{Graph: with(graph.Node{ID: "b", Field: "\xff"})}, false, ErrContent, "field"},
		"time": {Content{Graph: with(graph.Node{ID: "b", Time: time.Unix(math.MaxInt64/100, 0)})}, false,
			ErrContent, `node "b" has a time`},
		"text": {Content{Graph: small(t), Text: func(i int32) (string, error) { return "\xff", nil }}, false,
			ErrContent, `the text of node "old"`},
		"text error": {Content{Graph: small(t), Text: func(i int32) (string, error) { return "", broken }}, false,
			broken, `node "old"`},
		"nan":       {Content{Graph: vectors(1, float32(math.NaN()))}, false, ErrContent, `node "new" holds NaN`},
		"infinity":  {Content{Graph: vectors(float32(math.Inf(-1)), 0)}, false, ErrContent, `node "old" holds -Inf`},
		"too large": {Content{Graph: vectors(0, 70000)}, true, ErrContent, "65504"},
		"closed":    {Content{Graph: closed}, false, ErrContent, "closed"},
		"ragged": {Content{Graph: small(t), Exposures: &Exposures{Source: []int32{0}}}, false, ErrContent,
			"columns of [1 0"},
		"unknown": {Content{Graph: small(t),
			Exposures: pair(Exposures{Source: []int32{0}, Target: []int32{2}, Exposed: []bool{true},
				Linked: []bool{true}})}, false, ErrContent, "exposure 0"},
		"probability": {Content{Graph: small(t),
			Exposures: pair(Exposures{Source: []int32{0}, Target: []int32{1}, Shown: []float64{1.5},
				Exposed: []bool{true}, Linked: []bool{true}})}, false, ErrContent, "probability 1.5"},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			_, err := Write(background, filepath.Join(parent, "d"), c.content, WriteOptions{Half: c.half})
			wantError(t, err, c.kind, c.says)
			if left := listing(t, parent); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

func TestWriteHalf(t *testing.T) {
	t.Parallel()
	c := randomContent(t, 1)
	dir := filepath.Join(t.TempDir(), "d")
	m, err := Write(background, dir, c, WriteOptions{Half: true})
	must(t, err)
	d, err := Open(background, dir, OpenOptions{Verify: true})
	must(t, err)
	defer d.Close()
	v, want := d.Graph().Vectors(), c.Graph.Vectors()
	a, b := make([]float32, v.Dim()), make([]float32, v.Dim())
	for i := range int32(v.Len()) {
		v.Load(a, i)
		want.Load(b, i)
		for k := range a {
			if math.Abs(float64(a[k]-b[k])) > 1e-3*math.Abs(float64(b[k]))+1e-7 {
				t.Errorf("vector %d holds %v, was %v", i, a[k], b[k])
			}
		}
	}
	if m.Vectors.Kind != "float16" || !v.Half() {
		t.Errorf("%+v", m.Vectors)
	}
}

// TestWriteStops ends the context in every file: an old dataset stays, and nothing else does.
func TestWriteStops(t *testing.T) {
	t.Parallel()
	c := randomContent(t, 35) // with exposures, vectors and more than a batch of nodes
	if c.Exposures == nil || c.Graph.Vectors() == nil || c.Graph.Len() <= rowsPerBatch {
		t.Fatal("the content lacks a part")
	}
	for _, at := range dataFiles {
		for _, replace := range []bool{false, true} {
			parent := t.TempDir()
			dir := filepath.Join(parent, "d")
			if replace {
				_, err := Write(background, dir, Content{Graph: small(t)}, WriteOptions{})
				must(t, err)
			}
			ctx, stop := context.WithCancel(background)
			_, err := Write(ctx, dir, c, WriteOptions{Progress: func(e progress.Event) {
				if e.Done < 0 || e.Done > e.Of {
					t.Errorf("%+v", e)
				}
				if e.Phase == "writing "+at {
					stop()
				}
			}})
			stop()
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("stopped in %s: %v", at, err)
			}
			left := listing(t, parent)
			if !replace && len(left) > 0 || replace && len(left) != 1 {
				t.Errorf("stopped in %s, left %v", at, left)
			}
			if replace {
				d, err := Open(background, dir, OpenOptions{Verify: true})
				must(t, err)
				if !sameContent(t, d, Content{Graph: small(t)}) {
					t.Error("the old dataset changed")
				}
				must(t, d.Close())
			}
		}
	}
}

// Vectors are put into a folder that another program wrote, whose tables stay byte for byte: columns of its own,
// the order of rows, repeated links, ids or row numbers.
//
// Long because each of two folders goes through one story: a stopped write, a write, an opening, another write.
func TestWriteVectors(t *testing.T) {
	t.Parallel()
	type node struct {
		ID    string  `parquet:"id"`
		Price float64 `parquet:"price"` // ours to keep and not to understand
		Field *string `parquet:"field,optional,dict"`
		Text  *string `parquet:"text,optional"`
	}
	type link struct {
		Source string `parquet:"source"`
		Target string `parquet:"target"`
	}
	type number struct {
		Source int64 `parquet:"source"`
		Target int64 `parquet:"target"`
	}
	type shown struct {
		Source string `parquet:"source"`
		Target string `parquet:"target"`
		Linked bool   `parquet:"linked"`
	}
	nodes := []node{{"7", 1.5, ptr("b"), ptr("seven")}, {"3", 2.5, nil, nil}, {"0", 3.5, ptr("a"), ptr("nought")}}
	for name, c := range map[string]struct {
		fill func(dir string)
		open OpenOptions
	}{
		"by id": {func(dir string) {
			put(t, dir, LinksFile, []link{{"3", "7"}, {"0", "3"}, {"3", "7"}})
			put(t, dir, ExposuresFile, []shown{{"7", "0", false}})
		}, OpenOptions{}},
		"by row number": {func(dir string) { put(t, dir, LinksFile, []number{{1, 0}, {2, 1}}) },
			OpenOptions{RowNumbers: true}},
	} {
		dir := filepath.Join(t.TempDir(), "mine")
		must(t, os.Mkdir(dir, 0o777))
		put(t, dir, NodesFile, nodes)
		c.fill(dir)
		before := map[string][]byte{}
		for _, file := range listing(t, dir) {
			raw, err := os.ReadFile(filepath.Join(dir, file))
			must(t, err)
			before[file] = raw
		}
		d, err := Open(background, dir, c.open)
		must(t, err)
		must(t, d.Sealable())
		v, err := graph.NewVectors(3, 2)
		must(t, err)
		for i := range int32(3) {
			must(t, v.Set(i, []float32{float32(i), 1}))
		}
		stopped := errors.New("stopped")
		_, err = d.WriteVectors(background, v, nil,
			WriteOptions{Progress: func(progress.Event) {}, Written: func() error { return stopped }})
		if !errors.Is(err, stopped) || len(listing(t, dir)) != len(before) || len(listing(t, filepath.Dir(dir))) != 1 {
			t.Errorf("%s: %v, and the folder holds %v", name, err, listing(t, dir))
		}
		d, err = Open(background, dir, c.open)
		must(t, err)
		made := func(w io.Writer) error { _, err := w.Write([]byte("made")); return err }
		m, err := d.WriteVectors(background, v, &StoredEncoder{Kind: "test", Write: made}, WriteOptions{})
		must(t, err)
		if m.Nodes != 3 || m.Vectors.Dimension != 2 || m.Encoder.Kind != "test" {
			t.Errorf("%s: %+v", name, m)
		}
		for file, raw := range before {
			if after, err := os.ReadFile(filepath.Join(dir, file)); err != nil || !bytes.Equal(raw, after) {
				t.Errorf("%s: %s was changed (%v)", name, file, err)
			}
		}
		// It opens as any other, without RowNumbers, and may get vectors again.
		d, err = Open(background, dir, OpenOptions{Verify: true})
		must(t, err)
		g := d.Graph()
		if g.LinkCount() != 2 || !g.HasLink(1, 0) || !g.HasLink(2, 1) || g.Vectors().Dim() != 2 ||
			g.FieldName(g.Field(0)) != "b" {
			t.Errorf("%s: %d links, dimension %d", name, g.LinkCount(), g.Vectors().Dim())
		}
		if text, err := d.Text(2); err != nil || text != "nought" {
			t.Errorf("%s: text %q (%v)", name, text, err)
		}
		if e, err := d.Exposures(background); err != nil || (e != nil) != (before[ExposuresFile] != nil) {
			t.Errorf("%s: exposures %+v (%v)", name, e, err)
		}
		_, err = d.WriteVectors(background, v, nil, WriteOptions{})
		must(t, err)
		must(t, v.Close())
	}
}

// What cannot be replaced is refused before the work, and nothing is said of deleting.
func TestSealable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	_, err := Write(background, dir, Content{Graph: small(t)}, WriteOptions{})
	must(t, err)
	d, err := Open(background, dir, OpenOptions{})
	must(t, err)
	defer d.Close()
	must(t, d.Sealable())
	must(t, os.WriteFile(filepath.Join(dir, "notes.ipynb"), nil, 0o666))
	wantError(t, d.Sealable(), ErrNotDataset, "notes.ipynb", "move that elsewhere")
	must(t, os.Remove(filepath.Join(dir, "notes.ipynb")))
	t.Chdir(dir)
	wantError(t, d.Sealable(), ErrContent, "cd ..", ": d")
	tolerant, err := Open(background, dir, OpenOptions{Tolerant: true})
	must(t, err)
	defer tolerant.Close()
	wantError(t, tolerant.Sealable(), ErrContent, "Tolerant")
}
