package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"unseen/dataset"
	"unseen/encode"
	"unseen/graph"
)

// notes writes a dataset of n nodes on three subjects, each linked to the one before; every seventh has no
// text and no title.
func notes(t *testing.T, n int) string {
	t.Helper()
	g := chain(t, n, func(i int) graph.Node {
		node := graph.Node{ID: fmt.Sprint("note ", i), Field: fmt.Sprint("field ", i%3),
			Title: fmt.Sprintf("subject%d", i%3)}
		if i%7 == 6 {
			node.Title = ""
		}
		return node
	})
	content := dataset.Content{Graph: g, Text: func(i int32) (string, error) {
		if i%7 == 6 {
			return "", nil
		}
		var text strings.Builder
		for k := range int32(9) {
			fmt.Fprintf(&text, "word%dof%d ", (i*k+k)%11, (i+k/6)%3)
		}
		return text.String(), nil
	}}
	dir := filepath.Join(t.TempDir(), "notes")
	if _, err := dataset.Write(context.Background(), dir, content,
		dataset.WriteOptions{Provenance: dataset.Provenance{Source: "a test"}}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// folder reads all files of a folder.
func folder(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(content)
	}
	return files
}

func TestEncode(t *testing.T) {
	t.Parallel()
	dir := notes(t, 210)
	code, text, stderr := invoke("encode", dir, "--json")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	var r encodeResult
	decodeOne(t, text, &r)
	if r.Nodes != 210 || r.WithoutText != 30 || r.Encoder != "builtin" || r.Kind != "float32" || r.Dimension < 20 ||
		r.Fit.Empty != 30 || len(r.Warnings) != 2 || !strings.Contains(r.Warnings[1], "30 of 210 nodes") {
		t.Errorf("%+v", r)
	}
	d, err := dataset.Open(context.Background(), dir, dataset.OpenOptions{Verify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m := d.Manifest()
	if m.Vectors.Zero != 30 || m.Encoder.Kind != "builtin" || m.Provenance.Source != "a test" ||
		d.Graph().LinkCount() != 209 {
		t.Errorf("%+v", m)
	}
	// the encoder that is stored makes the vectors that are stored
	file, err := d.Encoder()
	if err != nil {
		t.Fatal(err)
	}
	e, err := encode.Read(file, file.Size())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	row := make([]float32, r.Dimension)
	for _, i := range []int32{0, 6, 100} {
		title := d.Graph().Title(i)
		body, err := d.Text(i)
		if err != nil {
			t.Fatal(err)
		}
		d.Graph().Vectors().Load(row, i)
		if vector, _ := e.Encode(encode.Text{Title: title, Body: body}); !slices.Equal(vector, row) {
			t.Errorf("node %d has the vector %v, and the encoder makes %v", i, row, vector)
		}
	}
}

// What comes next works: a network without fields must be given some.
func TestEncodeNext(t *testing.T) {
	t.Parallel()
	for _, fields := range []bool{true, false} {
		g := chain(t, 60, func(i int) graph.Node {
			n := graph.Node{ID: fmt.Sprint(i), Title: fmt.Sprintf("subject%d of %d", i%3, i%7)}
			if fields {
				n.Field = fmt.Sprint("field ", i%3)
			}
			return n
		})
		dir := filepath.Join(t.TempDir(), "a net")
		if _, err := dataset.Write(t.Context(), dir, dataset.Content{Graph: g}, dataset.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		want := "\nNext:  unseen fit '" + dir + "'\n"
		if !fields {
			want = "\nNext:  unseen fit '" + dir + "' --fields-by vectors:20\n"
		}
		if code, text, stderr := invoke("encode", dir); code != exitOK || !strings.HasSuffix(text, want) {
			t.Errorf("fields %t: exit code %d, %s%s", fields, code, text, stderr)
		}
	}
}

// The same command gives the same bytes, whatever the threads; vectors that are there are replaced only by
// force.
func TestEncodeAgain(t *testing.T) {
	t.Parallel()
	dir := notes(t, 210)
	bare := folder(t, dir)
	if code, page, stderr := invoke("encode", dir, "--threads", "1", "--dim", "5"); code != exitOK ||
		!strings.Contains(page, "210 nodes, 5 dimensions (float32)") ||
		!strings.Contains(page, "Warning: 30 of 210 nodes") {
		t.Fatalf("exit code %d, stdout %s, stderr %q", code, page, stderr)
	}
	first := folder(t, dir)
	for name, content := range bare {
		if name != dataset.ManifestFile && first[name] != content {
			t.Errorf("%s was changed", name)
		}
	}
	code, _, stderr := invoke("encode", dir)
	if code != exitFailure || !strings.Contains(stderr, "--force") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	if code, _, stderr := invoke("encode", dir, "--threads", "3", "--dim", "5", "--force",
		"--quiet"); code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	for name, content := range folder(t, dir) {
		if first[name] != content {
			t.Errorf("%s differs with other threads", name)
		}
	}
	if code, _, stderr := invoke("encode", dir, "--dim", "4", "--force", "--float16"); code != exitOK {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	d, err := dataset.Open(context.Background(), dir, dataset.OpenOptions{Verify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if v := d.Manifest().Vectors; v.Dimension != 4 || v.Kind != "float16" {
		t.Errorf("%+v", v)
	}
}

// Whenever it is stopped, the dataset is what it was.
func TestEncodeStops(t *testing.T) {
	t.Parallel()
	dir := notes(t, 2000)
	before := folder(t, dir)
	for k := range 12 {
		ctx := &fading{Context: context.Background(), left: 1 << k}
		var out, problems bytes.Buffer
		code := run(ctx, []string{"encode", dir, "--quiet"}, &out, &problems)
		after := folder(t, dir)
		if code == exitOK {
			if k < 3 {
				t.Errorf("it was done after %d looks at the context", 1<<k)
			}
			return
		}
		if !strings.Contains(problems.String(), "stopped before it was done") {
			t.Errorf("stderr %q", problems.String())
		}
		if len(after) != len(before) || after[dataset.ManifestFile] != before[dataset.ManifestFile] ||
			after[dataset.NodesFile] != before[dataset.NodesFile] {
			t.Errorf("the dataset changed after %d looks at the context", 1<<k)
		}
		left, err := os.ReadDir(filepath.Dir(dir))
		if err != nil || len(left) != 1 {
			t.Errorf("beside the dataset lie %v (%v)", left, err)
		}
	}
	t.Error("it was never done")
}

// fading is a context that ends after it was asked so many times.
type fading struct {
	context.Context
	left int
}

func (f *fading) Err() error {
	if f.left--; f.left < 0 {
		return context.Canceled
	}
	return nil
}

const tinyModel = "../../encode/onnx/testdata/tiny"

// A neural encoder that was stopped goes on, to the same bytes.
func TestEncodeNeural(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	whole, stopped := notes(t, 300), notes(t, 300)
	args := func(dir string, more ...string) []string {
		return append([]string{"encode", dir, "--encoder", "onnx:" + tinyModel, "--pooling", "cls", "--json"}, more...)
	}
	code, text, stderr := invoke(args(whole, "--threads", "1")...)
	if code != exitOK {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	var r encodeResult
	decodeOne(t, text, &r)
	if r.Nodes != 300 || r.WithoutText != 42 || r.Dimension != 16 || r.Fit != nil || len(r.Warnings) != 1 {
		t.Errorf("%+v", r)
	}
	before := folder(t, stopped)
	for looks := 8; ; looks++ { // stop later and later, until something is done
		ctx := &fading{Context: context.Background(), left: looks}
		if code := run(ctx, args(stopped, "--resume"), io.Discard, io.Discard); code != exitFailure {
			t.Fatalf("exit code %d", code)
		}
		if after := folder(t, stopped); len(after) != len(before) {
			t.Errorf("%d files", len(after))
		}
		if info, err := os.Stat(stopped + ".encoding"); err == nil && info.Size() > 128*16*4 {
			break
		}
	}
	if code, _, stderr := invoke(args(stopped)...); code != exitFailure || !strings.Contains(stderr, "resume") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	if code, _, stderr := invoke(args(stopped, "--resume")...); code != exitOK {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	if _, err := os.Stat(stopped + ".encoding"); err == nil {
		t.Error("the checkpoint is still there")
	}
	want := folder(t, whole)
	for name, content := range folder(t, stopped) {
		if name != dataset.ManifestFile && content != want[name] { // which says when it was made
			t.Errorf("%s differs", name)
		}
	}
	for _, c := range [][]string{
		{filepath.Join(t.TempDir(), "none"), "tokenizer.json"}, {"../../encode/onnx/testdata", "tokenizer.json"},
	} {
		code, _, stderr := invoke("encode", whole, "--force", "--encoder", "onnx:"+c[0])
		if code != exitFailure || !strings.Contains(stderr, c[1]) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("exit code %d, stderr %q", code, stderr)
		}
	}
	empty := correspondence(t, 5, false)
	if code, _, stderr := invoke("encode", empty, "--encoder", "onnx:"+tinyModel); code != exitFailure ||
		!strings.Contains(stderr, "none of the 5 nodes has a text") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	if _, err := os.Stat(empty + ".encoding"); err == nil {
		t.Error("a checkpoint of nothing is left")
	}
}

func TestEncodeFails(t *testing.T) {
	t.Parallel()
	without := correspondence(t, 30, false)
	alike := correspondence(t, 30, true)
	good := notes(t, 30)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"encode"}, exitUsage, "unseen encode papers"},
		{[]string{"encode", "a", "b"}, exitUsage, "unseen encode papers"},
		{[]string{"encode", good, "--encoder", "word2vec"}, exitUsage, `no encoder "word2vec"`},
		{[]string{"encode", good, "--encoder", "onnx:"}, exitUsage, "lacks its folder"},
		{[]string{"encode", good, "--pooling", "max"}, exitUsage, "give mean or cls"},
		{[]string{"encode", good, "--pooling", "cls"}, exitUsage, "for neural encoders"},
		{[]string{"encode", good, "--resume"}, exitUsage, "for neural encoders"},
		{[]string{"encode", good, "--encoder", "onnx:m", "--dim", "5"}, exitUsage, "for the built-in encoder"},
		{[]string{"encode", good, "--dim", "0"}, exitUsage, "--dim is 0"},
		{[]string{"encode", good, "--dim", "-3"}, exitUsage, "--dim is -3"},
		{[]string{"encode", good, "--title-weight", "-1"}, exitUsage, "--title-weight is -1"},
		{[]string{"encode", good, "--threads", "-1"}, exitUsage, "--threads is -1"},
		{[]string{"encode", good, "--dim", "500"}, exitFailure, "leave it out"},
		{[]string{"encode", without}, exitFailure, "none of the 30 documents has a word"},
		{[]string{"encode", alike}, exitFailure, "identical"},
		{[]string{"encode", filepath.Join(good, "absent")}, exitFailure, "absent"},
	} {
		code, page, stderr := invoke(c.args...)
		if code != c.code || page != "" || !strings.Contains(stderr, c.says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", c.args[1:], code, page, stderr)
		}
	}
	if left := folder(t, good); len(left) != 3 {
		t.Errorf("%d files", len(left))
	}
}

// Vectors that came with the data are reduced in place; there must be some.
func TestEncodeFeatures(t *testing.T) {
	t.Parallel()
	dir := papers(t, 4)
	var r encodeResult
	decodeOne(t, well(t, "encode", dir, "--encoder", "features", "--dim", "5", "--json", "--quiet"), &r)
	if r.Dimension != 5 || r.Nodes != 400 {
		t.Errorf("got %+v", r)
	}
	fits80(t, strings.ReplaceAll(well(t, "encode", dir, "--encoder", "features", "--dim", "3", "--quiet"), dir,
		"papers"))
	for _, c := range []struct{ line, says string }{
		{"--encoder features --bigrams", "about texts"},
		{"--encoder features --dim 99", "have 3 components"},
		{"--encoder featurs", "no encoder"},
	} {
		code, _, stderr := invoke(append([]string{"encode", dir, "--quiet"}, strings.Fields(c.line)...)...)
		if code == exitOK || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: exit code %d, stderr %q, want %q", c.line, code, stderr, c.says)
		}
	}
}

// A folder as pandas writes it, without dataset.json, is encoded; what is its owner's stays. What cannot be is
// refused before the work, and nobody is told to delete.
func TestEncodeForeign(t *testing.T) {
	t.Parallel()
	dir := notes(t, 210)
	if err := os.Remove(filepath.Join(dir, dataset.ManifestFile)); err != nil {
		t.Fatal(err)
	}
	before := folder(t, dir)
	well(t, "encode", dir, "--dim", "5", "--quiet")
	after := folder(t, dir)
	for name, content := range before {
		if after[name] != content {
			t.Errorf("%s was changed", name)
		}
	}
	for _, name := range []string{dataset.ManifestFile, dataset.VectorsFile, dataset.EncoderFile} {
		if after[name] == "" {
			t.Errorf("there is no %s", name)
		}
	}
	well(t, "fit", dir, "--method", "naive", "--quiet", "-o", filepath.Join(t.TempDir(), "m.safetensors"))
	if err := os.WriteFile(filepath.Join(dir, "mine.csv"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := invoke("encode", dir, "--force", "--dim", "9999") // which the work would refuse
	if code != exitFailure || !strings.Contains(stderr, "mine.csv") || strings.Contains(stderr, "delete") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}
