package dataset

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"unseen/graph"
	"unseen/hint"
	"unseen/progress"
)

var background = context.Background()

// put writes a Parquet file as another program might.
func put[T any](t *testing.T, dir, name string, rows []T, options ...parquet.WriterOption) {
	t.Helper()
	must(t, parquet.WriteFile(filepath.Join(dir, name), rows, options...))
}

// Tables as pandas writes them: everything is optional, and the order of columns is free.
type (
	foreignNode struct {
		Year  int32     `parquet:"year"`
		Time  time.Time `parquet:"time,optional,timestamp(nanosecond)"`
		Field *string   `parquet:"field,optional,dict"`
		ID    *string   `parquet:"id,optional,dict"`
	}
	numberLink struct {
		Source *int32 `parquet:"source,optional"`
		Target *int32 `parquet:"target,optional"`
	}
)

func ptr[T any](x T) *T { return &x }

func TestOpenForeign(t *testing.T) {
	t.Parallel()
	when := time.Date(1815, 12, 10, 1, 2, 3, 987654321, time.UTC)
	nodes := []foreignNode{
		{ID: ptr("00003"), Field: ptr("math"), Time: when},
		{ID: ptr("x")},
		{ID: ptr("y"), Field: ptr("art")},
	}
	type idRow struct {
		Target string `parquet:"target,optional,dict"`
		Source string `parquet:"source,optional,dict"`
		Weight float64
	}
	byID, byNumber := t.TempDir(), t.TempDir()
	for _, dir := range []string{byID, byNumber} {
		put(t, dir, NodesFile, nodes, parquet.MaxRowsPerRowGroup(2))
	}
	put(t, byID, LinksFile, []idRow{{"00003", "x", 1}, {"x", "y", 1}, {"00003", "x", 2}})
	put(t, byNumber, LinksFile, []numberLink{{ptr(int32(1)), ptr(int32(0))}, {ptr(int32(2)), ptr(int32(1))}})
	for _, dir := range []string{byID, byNumber} {
		must(t, os.WriteFile(filepath.Join(dir, VectorsFile), append(npyHeaderBytes(true, 3, 1), 0, 60, 0, 0, 0, 188),
			0o666))
		d, err := Open(background, dir, OpenOptions{})
		must(t, err)
		g := d.Graph()
		at, known := g.Time(0)
		if g.Len() != 3 || g.LinkCount() != 2 || !g.HasLink(1, 0) || !g.HasLink(2, 1) ||
			g.FieldName(g.Field(2)) != "art" || g.Field(1) != graph.UnknownField || !known ||
			!at.Equal(when.Truncate(time.Second)) {
			t.Errorf("%s: %d nodes, %d links, time %v", dir, g.Len(), g.LinkCount(), at)
		}
		m := d.Manifest()
		if m.Nodes != 3 || m.Format != "" || m.Vectors.Zero != 1 || m.Vectors.Kind != "float16" ||
			!slices.Equal(m.Fields, []string{"math", "art"}) {
			t.Errorf("%+v", m)
		}
		if text, err := d.Text(1); err != nil || text != "" || d.HasText() {
			t.Errorf("text %q (%v)", text, err)
		}
		must(t, d.Verify(background))
		must(t, d.Close())
		must(t, d.Close())
		_, err = d.Exposures(background)
		wantError(t, err, ErrClosed)
		wantError(t, d.Verify(background), ErrClosed)
	}
}

// TestOpenFaults damages a dataset in every way and wants one error that names the place and the fix.
//
// Long because it is a table of faults.
func TestOpenFaults(t *testing.T) {
	t.Parallel()
	type intNode struct {
		ID int64 `parquet:"id"`
	}
	type strangeTime struct {
		ID   string `parquet:"id"`
		Time int64  `parquet:"time"`
	}
	type floatLink struct {
		Source float64 `parquet:"source"`
		Target float64 `parquet:"target"`
	}
	type mixedLink struct {
		Source string `parquet:"source"`
		Target int64  `parquet:"target"`
	}
	type justID struct {
		ID string `parquet:"id"`
	}
	type named struct {
		Name string `parquet:"name"`
	}
	type listed struct {
		ID []string `parquet:"id"`
	}
	type textLink struct {
		Source string `parquet:"source"`
		Target string `parquet:"target"`
	}
	ab := []justID{{"a"}, {"b"}}
	write := func(name string, content []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) { must(t, os.WriteFile(filepath.Join(dir, name), content, 0o666)) }
	}
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string)
		kind   error
		says   []string
	}{
		"no links": {func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, LinksFile))) },
			ErrNotDataset, []string{"no links.parquet"}},
		"not parquet": {write(NodesFile, []byte("id,field\na,b\n")), ErrFormat, []string{NodesFile, "to_parquet"}},
		"empty file":  {write(LinksFile, nil), ErrFormat, []string{LinksFile}},
		"no id": {func(t *testing.T, dir string) { put(t, dir, NodesFile, []named{{"a"}}) }, ErrFormat,
			[]string{NodesFile, "column id", "name"}},
		"ids as numbers": {func(t *testing.T, dir string) { put(t, dir, NodesFile, []intNode{{1}}) }, ErrFormat,
			[]string{"column id", "whole numbers", "astype(str)"}},
		"ids in lists": {func(t *testing.T, dir string) { put(t, dir, NodesFile, []listed{{[]string{"a"}}}) },
			ErrFormat, []string{"column id", "lists"}},
		"times in ints": {func(t *testing.T, dir string) { put(t, dir, NodesFile, []strangeTime{{"a", 1990}}) },
			ErrFormat, []string{"column time", "to_datetime"}},
		"twice": {func(t *testing.T, dir string) { put(t, dir, NodesFile, []justID{{"a"}, {"b"}, {"a"}}) },
			graph.ErrDuplicateNode, []string{"row 2", "column id", `"a"`, "duplicated()"}},
		"empty id": {func(t *testing.T, dir string) { put(t, dir, NodesFile, []justID{{"a"}, {""}}) },
			graph.ErrEmptyID, []string{"row 1", "column id"}},
		"not UTF-8": {func(t *testing.T, dir string) { put(t, dir, NodesFile, []justID{{"a"}, {"\xff\xfe"}}) },
			ErrFormat, []string{"row 1", "column id", "UTF-8"}},
		"links by floats": {func(t *testing.T, dir string) { put(t, dir, LinksFile, []floatLink{{1, 0}}) }, ErrFormat,
			[]string{LinksFile, "column source", "fraction"}},
		"links by both": {func(t *testing.T, dir string) { put(t, dir, LinksFile, []mixedLink{{"a", 0}}) }, ErrFormat,
			[]string{"column target", "both"}},
		"dangling": {func(t *testing.T, dir string) { put(t, dir, LinksFile, []linkRow{{1, 0}, {0, 2}}) },
			graph.ErrUnknownNode,
			[]string{LinksFile, "row 1", "column target", "row 2 of nodes.parquet, which has 2"}},
		"negative": {func(t *testing.T, dir string) { put(t, dir, LinksFile, []linkRow{{-1, 0}}) },
			graph.ErrUnknownNode, []string{"row 0", "column source"}},
		"huge number": {func(t *testing.T, dir string) { put(t, dir, LinksFile, []linkRow{{1 << 32, 0}}) },
			graph.ErrUnknownNode, []string{"row 0", "column source"}},
		"empty end": {func(t *testing.T, dir string) { put(t, dir, LinksFile, []numberLink{{ptr(int32(1)), nil}}) },
			graph.ErrUnknownNode, []string{"row 0", "column target", "empty"}},
		"unknown id": {func(t *testing.T, dir string) { put(t, dir, LinksFile, []textLink{{"b", "a"}, {"b", "c"}}) },
			graph.ErrUnknownNode, []string{LinksFile, "row 1", `target "c"`}},
		"to itself": {func(t *testing.T, dir string) { put(t, dir, LinksFile, []linkRow{{1, 0}, {1, 1}}) },
			graph.ErrSelfLink, []string{"row 1", `"b"`}},
		"other numbers": {func(t *testing.T, dir string) { put(t, dir, NodesFile, []justID{{"7"}, {"8"}}) },
			ErrAmbiguous,
			[]string{LinksFile, "astype({", "rowNumbers"}},
		"few vectors": {write(VectorsFile, append(npyHeaderBytes(false, 1, 1), 0, 0, 0, 0)), graph.ErrShape,
			[]string{VectorsFile, "1 vectors for 2 nodes"}},
		"not finite": {write(VectorsFile, append(npyHeaderBytes(true, 2, 1), 0, 0, 0, 0x7c)), graph.ErrNotFinite,
			[]string{VectorsFile, "row 1", `"b"`}},
		"bad json":   {write(ManifestFile, []byte("{")), ErrFormat, []string{ManifestFile, "move this file away"}},
		"other json": {write(ManifestFile, []byte("{}")), ErrNotDataset, []string{ManifestFile}},
		"too new": {write(ManifestFile, []byte(`{"format":"unseen dataset","version":7,"nodes":"many"}`)),
			ErrVersion, []string{ManifestFile, "newer"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, NodesFile, ab)
			put(t, dir, LinksFile, []linkRow{{1, 0}})
			d, err := Open(background, dir, OpenOptions{})
			must(t, err)
			must(t, d.Close())
			c.damage(t, dir)
			_, err = Open(background, dir, OpenOptions{})
			wantError(t, err, c.kind, append(c.says, dir)...)
			if !errors.As(err, new(*Error)) || !errors.As(err, new(*hint.Error)) {
				t.Errorf("%v says not what to do", err)
			}
		})
	}
	_, err := Open(background, filepath.Join(t.TempDir(), "absent"), OpenOptions{})
	wantError(t, err, os.ErrNotExist, "absent")
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o666))
	_, err = Open(background, file, OpenOptions{})
	wantError(t, err, ErrNotDataset, "not a folder")
	dir := t.TempDir()
	put(t, dir, NodesFile, []justID{{"7"}, {"8"}})
	put(t, dir, LinksFile, []linkRow{{1, 0}})
	d, err := Open(background, dir, OpenOptions{RowNumbers: true})
	must(t, err)
	must(t, d.Close())
}

// TestChangedFiles flips one byte of each file in turn, cuts it, and takes it away.
func TestChangedFiles(t *testing.T) {
	t.Parallel()
	c := randomContent(t, 5)
	for _, name := range dataFiles {
		dir := filepath.Join(t.TempDir(), "d")
		_, err := Write(background, dir, c, WriteOptions{})
		must(t, err)
		path := filepath.Join(dir, name)
		whole, err := os.ReadFile(path)
		must(t, err)
		flipped := slices.Clone(whole)
		flipped[len(flipped)/2] ^= 1
		must(t, os.WriteFile(path, flipped, 0o666))
		_, err = Open(background, dir, OpenOptions{})
		wantError(t, err, ErrChecksum, path, "SHA-256", ManifestFile)
		must(t, os.WriteFile(path, whole[:len(whole)-1], 0o666))
		_, err = Open(background, dir, OpenOptions{})
		wantError(t, err, ErrChecksum, path, "bytes")
		must(t, os.Remove(path))
		_, err = Open(background, dir, OpenOptions{})
		if name == NodesFile || name == LinksFile {
			wantError(t, err, ErrNotDataset, name)
		} else {
			wantError(t, err, ErrChecksum, path, "missing")
		}
		must(t, os.WriteFile(path, whole, 0o666))
		d, err := Open(background, dir, OpenOptions{Verify: true})
		must(t, err)
		must(t, d.Close())
	}
}

// TestDamagedTables flips bytes of Parquet files without a manifest: an error or a dataset, never a panic.
func TestDamagedTables(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	_, err := Write(background, dir, randomContent(t, 5), WriteOptions{})
	must(t, err)
	must(t, os.Remove(filepath.Join(dir, ManifestFile)))
	for _, name := range []string{NodesFile, LinksFile, ExposuresFile} {
		path := filepath.Join(dir, name)
		whole, err := os.ReadFile(path)
		must(t, err)
		step := max(len(whole)/60, 1)
		failed := 0
		for at := 0; at < len(whole); at += step {
			damaged := slices.Clone(whole)
			damaged[at] ^= 0x55
			must(t, os.WriteFile(path, damaged, 0o666))
			d, err := Open(background, dir, OpenOptions{Tolerant: true})
			if err == nil {
				for i := range int32(d.Graph().Len()) {
					if _, textErr := d.Text(i); textErr != nil {
						err = textErr
					}
				}
				if _, exposureErr := d.Exposures(background); exposureErr != nil {
					err = exposureErr
				}
				must(t, d.Close())
			}
			if err != nil {
				failed++
				if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), dir) {
					t.Errorf("byte %d of %s: %q", at, name, err)
				}
			}
		}
		if failed == 0 {
			t.Errorf("no damage to %s was seen", name)
		}
		must(t, os.WriteFile(path, whole, 0o666))
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	var b graph.Builder
	const n = 3000
	for i := range n {
		_, err := b.AddNode(graph.Node{ID: strings.Repeat("x", i+1)})
		must(t, err)
	}
	g, _, err := b.Build()
	must(t, err)
	text := func(i int32) (string, error) { return strings.Repeat(string(rune('a'+i%26)), int(i)), nil }
	dir := filepath.Join(t.TempDir(), "d")
	_, err = Write(background, dir, Content{Graph: g, Text: text}, WriteOptions{})
	must(t, err)
	d, err := Open(background, dir, OpenOptions{})
	must(t, err)
	defer d.Close()
	for _, i := range []int32{0, 1, n - 1, 17, 2000, 1999, 2001, 0, 1500} {
		want, _ := text(i)
		if got, err := d.Text(i); err != nil || got != want {
			t.Errorf("text %d is %.20q (%v)", i, got, err)
		}
	}
	// Many at a time; the race detector looks on.
	done := make(chan error)
	for k := range int32(4) {
		go func() {
			for i := k; i < n; i += 40 {
				want, _ := text(i)
				if got, err := d.Text(i); err != nil || got != want {
					done <- errors.Join(err, errors.New("another text"))
					return
				}
			}
			done <- nil
		}()
	}
	for range 4 {
		must(t, <-done)
	}
	must(t, d.Close())
	_, err = d.Text(0)
	wantError(t, err, ErrClosed)
}

// TestTextsOfGroups jumps between row groups of a stranger's file, in which texts are missing here and there.
func TestTextsOfGroups(t *testing.T) {
	t.Parallel()
	type node struct {
		ID   string `parquet:"id"`
		Text string `parquet:"text,optional"`
	}
	var nodes []node
	for i := range 10 {
		nodes = append(nodes, node{ID: string(rune('a' + i))})
		if i%4 != 1 {
			nodes[i].Text = strings.Repeat("é", i+1)
		}
	}
	dir := t.TempDir()
	put(t, dir, NodesFile, nodes, parquet.MaxRowsPerRowGroup(3), parquet.PageBufferSize(4))
	put(t, dir, LinksFile, []linkRow{{1, 0}})
	d, err := Open(background, dir, OpenOptions{})
	must(t, err)
	defer d.Close()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 4))
		for k := range 20 {
			i := k % 10 // first in order, then at random
			if k >= 10 || seed%2 > 0 {
				i = r.IntN(10)
			}
			if got, err := d.Text(int32(i)); err != nil || got != nodes[i].Text {
				t.Fatalf("seed %d: text %d is %q, want %q (%v)", seed, i, got, nodes[i].Text, err)
			}
		}
	}
}

// TestOpenStops lets the context end while tables are read.
func TestOpenStops(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	_, err := Write(background, dir, randomContent(t, 7), WriteOptions{})
	must(t, err)
	for _, at := range []string{NodesFile, LinksFile} {
		ctx, stop := context.WithCancel(background)
		_, err := Open(ctx, dir, OpenOptions{Progress: func(e progress.Event) {
			if e.Phase == "reading "+at {
				stop()
			}
		}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("stopped at %s: %v", at, err)
		}
		stop()
	}
	if runtime.GOOS == "linux" {
		open, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		for _, e := range open {
			if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, dir) {
				t.Errorf("%s is still open", to)
			}
		}
	}
}

// A column of nothing but missing values, which pandas writes as numbers or as no type at all, is as good as none.
func TestVacantColumns(t *testing.T) {
	t.Parallel()
	type node struct {
		ID    string   `parquet:"id"`
		Text  *float64 `parquet:"text,optional"`
		Time  *float64 `parquet:"time,optional"`
		Title *bool    `parquet:"title,optional"`
	}
	dir := t.TempDir()
	put(t, dir, NodesFile, []node{{ID: "a"}, {ID: "b"}})
	put(t, dir, LinksFile, []numberLink{{ptr(int32(1)), ptr(int32(0))}})
	d, err := Open(background, dir, OpenOptions{})
	must(t, err)
	if d.HasText() || d.Graph().Title(0) != "" || d.Build().Untimed != 2 {
		t.Errorf("text %t, title %q", d.HasText(), d.Graph().Title(0))
	}
	must(t, d.Close())
	put(t, dir, NodesFile, []node{{ID: "a"}, {ID: "b", Text: ptr(1.5)}})
	_, err = Open(background, dir, OpenOptions{})
	wantError(t, err, ErrFormat, "column text", `fillna("")`)
	put(t, dir, LinksFile, []struct {
		Src string `parquet:"src"`
		Dst string `parquet:"dst"`
	}{{"b", "a"}})
	put(t, dir, NodesFile, []node{{ID: "a"}, {ID: "b"}})
	_, err = Open(background, dir, OpenOptions{})
	wantError(t, err, ErrFormat, "import the tables with source src and target dst")
}

// A column of another type than true and false has a mend that makes nothing up: what it does not name becomes empty.
func TestMendsOfBooleans(t *testing.T) {
	t.Parallel()
	text, number := parquet.String(), parquet.Leaf(parquet.Int64Type)
	nothing := parquet.Optional(parquet.Leaf(parquet.NullType))
	for name, c := range map[string]struct {
		exposed, linked parquet.Node
		column          string
		says            []string
	}{
		"text": {text, number, "exposed", []string{"it holds text", "say which value is which",
			`table["exposed"].map({"yes": True, "no": False}).astype("boolean")`}},
		"numbers": {number, text, "exposed", []string{"whole numbers", "map({1: True, 0: False})"}},
		"no value": {nothing, text, "exposed", []string{"it holds no value in any row",
			"leave out the column if all were shown"}},
		"no links": {parquet.Leaf(parquet.BooleanType), nothing, "linked", []string{"it holds no value in any row",
			"leave out the rows"}},
	} {
		dir := t.TempDir()
		put(t, dir, NodesFile, []foreignNode{{ID: ptr("a")}, {ID: ptr("b")}})
		put(t, dir, LinksFile, []struct {
			Source string `parquet:"source"`
			Target string `parquet:"target"`
		}{{"b", "a"}})
		file, err := os.Create(filepath.Join(dir, ExposuresFile))
		must(t, err)
		w := parquet.NewWriter(file, parquet.NewSchema("exposures", parquet.Group{"source": parquet.String(),
			"target": parquet.String(), "exposed": c.exposed, "linked": c.linked, "shown": nothing}))
		must(t, w.Close())
		must(t, file.Close())
		d, err := Open(background, dir, OpenOptions{})
		must(t, err)
		_, err = d.Exposures(background)
		must(t, d.Close())
		wantError(t, err, ErrFormat, ExposuresFile, "column "+c.column)
		for _, says := range c.says {
			if !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "astype(bool)") {
				t.Errorf("%s: %v; want %q", name, err, says)
			}
		}
	}
}
