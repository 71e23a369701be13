package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"unseen/graph"
)

// encoded is a dataset of two nodes with vectors and the file that made them.
func encoded(t *testing.T) Content {
	t.Helper()
	v, err := graph.NewVectors(2, 1)
	must(t, err)
	t.Cleanup(func() { v.Close() })
	must(t, v.Set(0, []float32{1}))
	g, err := small(t).WithVectors(v)
	must(t, err)
	return Content{Graph: g, Encoder: &StoredEncoder{Kind: "test", Write: func(w io.Writer) error {
		_, err := io.WriteString(w, "how they were made")
		return err
	}}}
}

func TestEncoderTravels(t *testing.T) {
	t.Parallel()
	first, second := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	m, err := Write(background, first, encoded(t), WriteOptions{})
	must(t, err)
	if m.Encoder == nil || m.Encoder.Kind != "test" || m.Files[EncoderFile].Bytes != 18 {
		t.Errorf("%+v", m)
	}
	d, err := Open(background, first, OpenOptions{Verify: true})
	must(t, err)
	defer d.Close()
	c, err := d.Content(background)
	must(t, err)
	_, err = Write(background, second, c, WriteOptions{})
	must(t, err)
	copied, err := Open(background, second, OpenOptions{})
	must(t, err)
	r, err := copied.Encoder()
	must(t, err)
	content, err := io.ReadAll(r)
	must(t, err)
	if string(content) != "how they were made" || copied.Manifest().Encoder.Kind != "test" {
		t.Errorf("%q of kind %+v", content, copied.Manifest().Encoder)
	}
	must(t, copied.Close())
	_, err = copied.Encoder()
	wantError(t, err, ErrClosed, second)

	none, err := Open(background, written(t, Content{Graph: small(t)}), OpenOptions{})
	must(t, err)
	defer none.Close()
	if r, err := none.Encoder(); r != nil || err != nil {
		t.Errorf("%v, %v", r, err)
	}
}

func written(t *testing.T, c Content) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "d")
	_, err := Write(background, dir, c, WriteOptions{})
	must(t, err)
	return dir
}

func TestEncoderRefused(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	c := encoded(t)
	c.Graph = small(t)
	_, err := Write(background, dir, c, WriteOptions{})
	wantError(t, err, ErrContent, "no vectors")
	c = encoded(t)
	c.Encoder.Kind = ""
	_, err = Write(background, dir, c, WriteOptions{})
	wantError(t, err, ErrContent, "kind")
	broken := errors.New("no ink")
	c = encoded(t)
	c.Encoder.Write = func(io.Writer) error { return broken }
	_, err = Write(background, dir, c, WriteOptions{})
	wantError(t, err, broken)
	_, err = Write(background, dir, encoded(t), WriteOptions{Written: func() error { return broken }})
	wantError(t, err, broken)
	if _, err := os.Stat(dir); err == nil {
		t.Error("a refused dataset is there")
	}

	dir = written(t, encoded(t))
	must(t, os.WriteFile(filepath.Join(dir, EncoderFile), []byte("how they were mad?"), 0o666))
	_, err = Open(background, dir, OpenOptions{})
	wantError(t, err, ErrChecksum, EncoderFile)
}

// A manifest whose encoder contradicts the rest is refused.
func TestEncoderManifest(t *testing.T) {
	t.Parallel()
	dir := written(t, encoded(t))
	raw, err := os.ReadFile(filepath.Join(dir, ManifestFile))
	must(t, err)
	for name, spoil := range map[string]func(m *Manifest){
		"no kind":    func(m *Manifest) { m.Encoder.Kind = "" },
		"no entry":   func(m *Manifest) { m.Encoder = nil },
		"no file":    func(m *Manifest) { delete(m.Files, EncoderFile) },
		"no vectors": func(m *Manifest) { m.Vectors = nil; delete(m.Files, VectorsFile) },
	} {
		var m Manifest
		must(t, json.Unmarshal(raw, &m))
		spoil(&m)
		changed, err := m.bytes()
		must(t, err)
		if _, err := parseManifest(bytes.NewReader(changed)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The dataset that is replaced can be read until all is written, and closed then.
func TestWrittenComesLast(t *testing.T) {
	t.Parallel()
	dir := written(t, encoded(t))
	d, err := Open(background, dir, OpenOptions{})
	must(t, err)
	c, err := d.Content(background)
	must(t, err)
	closed := false
	_, err = Write(background, dir, c, WriteOptions{Written: func() error { closed = true; return d.Close() }})
	must(t, err)
	again, err := Open(background, dir, OpenOptions{Verify: true})
	must(t, err)
	defer again.Close()
	if !closed || again.Manifest().Encoder == nil {
		t.Errorf("closed %t, %+v", closed, again.Manifest())
	}
}
