package exchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"unseen/hint"
)

// counting is a Sink that keeps nothing.
type counting struct {
	t                     *testing.T
	nodes, links, rejects int
	lastNode              NodeRecord
}

func (c *counting) Field(string) error { return nil }
func (c *counting) Node(n NodeRecord, _ Place) (int32, error) {
	c.nodes++
	c.lastNode = n
	return int32(c.nodes - 1), nil
}
func (c *counting) NodesFromLinks()                            {}
func (c *counting) EndNodes()                                  {}
func (c *counting) Link(string, string, Place) error           { c.links++; return nil }
func (c *counting) LinkAt(string, string, int64, Place) error  { c.links++; return nil }
func (c *counting) LinkIndex(int32, int32, Place) error        { c.links++; return nil }
func (c *counting) Exposure(ExposureRecord, Place) error       { return nil }
func (c *counting) Has(string) bool                            { return true }
func (c *counting) Vector(_ int32, v []float32, _ Place) error { return nil }
func (c *counting) Note(string, ...any)                        {}
func (c *counting) Reject(at Place, reason error, _ []byte) error {
	if at.File == "" || !hinted(reason) {
		c.t.Errorf("rejected at %v for %v", at, reason)
	}
	c.rejects++
	return nil
}

// hinted reports whether an error says what to do.
func hinted(err error) bool {
	e, is := errors.AsType[*hint.Error](err)
	return is && e.Hint(nil) != ""
}

// FuzzEdges: every line is a link, a comment, empty or rejected.
func FuzzEdges(f *testing.F) {
	for _, s := range []string{"a b\n", "# c\n1\t2\t0.5\r\n", "x", "\xef\xbb\xbfa b", "a\x00b c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := &counting{t: t}
		if err := readEdges(newLines(strings.NewReader(text), "f", Limits{Record: 50}), c); err != nil {
			t.Fatal(err)
		}
		want := 0
		for k, line := range strings.Split(text, "\n") {
			if k == 0 {
				line = strings.TrimPrefix(line, "\xef\xbb\xbf")
			}
			line = strings.TrimSuffix(line, "\r")
			words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\r\v\f", r) })
			if len(line) <= 50 && utf8.ValidString(line) && !strings.ContainsRune(line, 0) && len(words) >= 2 &&
				words[0][0] != '#' && words[0][0] != '%' {
				want++
			}
		}
		if c.links != want {
			t.Errorf("%q: %d links, want %d", text, c.links, want)
		}
	})
}

// FuzzJSONL: what is read of a line is what encoding/json reads of it.
func FuzzJSONL(f *testing.F) {
	for _, s := range []string{`{"id": "a", "field": ["x"], "year": 1999}`, `{"source":1,"target":"\u0041"}`,
		`{"id":{"id":[1,"]"]},"id":"b"}`, `[]`, `{"a"`, ` { } `} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		line = strings.TrimSpace(line)
		if line == "" || !utf8.ValidString(line) {
			return
		}
		x := object{line: []byte(line)}
		err := x.parse()
		var want map[string]any
		wantErr := json.Unmarshal([]byte(line), &want)
		if line == "null" {
			return // which is no object, and encoding/json lets pass
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%s: %v, encoding/json says %v", line, err, wantErr)
		}
		if err != nil {
			return
		}
		if len(x.keys) != len(want) {
			t.Fatalf("%s: keys %q, want %v", line, x.keys, want)
		}
		for k, key := range x.keys {
			v, there := want[key]
			if !there {
				t.Fatalf("%s: key %q is not there", line, key)
			}
			if s, ok := v.(string); ok && x.text(k) != s {
				t.Fatalf("%s: %q is %q, want %q", line, key, x.text(k), s)
			}
			if v == nil && x.text(k) != "" {
				t.Fatalf("%s: null is %q", line, x.text(k))
			}
			_ = x.text(k)
		}
	})
}

// FuzzNpz: whatever the bytes, reading ends without a panic and within memory.
func FuzzNpz(f *testing.F) {
	f.Add(csr(f, nil))
	f.Add(npz(f, map[string][]byte{"x": npy("<f4", "(1, 2)", make([]byte, 8)...)}))
	f.Add(npy("<f2", "(1, 2)", 0, 60, 0, 60))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := matrixOfNpz("f", bytes.NewReader(raw), int64(len(raw)), Limits{})
		if err != nil {
			if m, err = denseMatrix("f", bytes.NewReader(raw)); err != nil {
				return
			}
		}
		defer m.close()
		if m.dim > mostColumns {
			return
		}
		row := make([]float32, m.dim)
		for range min(m.rows, 1000) {
			if m.next(row) != nil {
				return
			}
		}
		if m.rows <= 1000 {
			m.end()
		}
	})
}

// FuzzParquet: whatever the bytes, reading ends without a panic.
func FuzzParquet(f *testing.F) {
	for _, options := range [][]parquet.WriterOption{nil, {parquet.Compression(&parquet.Zstd)},
		{parquet.DataPageVersion(1)}} {
		var b bytes.Buffer
		w := parquet.NewGenericWriter[linkRow](&b, options...)
		_, err := w.Write([]linkRow{{"a", "b"}, {"b", "c"}})
		must(f, err)
		must(f, w.Close())
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := newParquet(Place{File: "f"}, bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			return
		}
		c := &counting{t: t}
		links := parquetScan{"f", Options{}, c, linkRoles, []string{"source", "target"}}
		_ = links.scan(background, p, func(r *parquetRow, n int) error {
			for r.k = range n {
				c.Link(r.text(0), r.text(1), r.at())
			}
			return nil
		})
	})
}

// FuzzImportCSV: whatever the tables hold, a lenient import makes a dataset that opens, or an error that names
// a file.
func FuzzImportCSV(f *testing.F) {
	f.Add("id,field\na,x\nb,y\n", "source,target\na,b\n")
	f.Add("id;year\n\"a;\";1999\n", "source;target\n")
	f.Fuzz(func(t *testing.T, nodes, links string) {
		folder := t.TempDir()
		must(t, os.WriteFile(filepath.Join(folder, "nodes.csv"), []byte(nodes), 0o666))
		must(t, os.WriteFile(filepath.Join(folder, "links.csv"), []byte(links), 0o666))
		c := &counting{t: t}
		if err := importCSV(background, Options{Paths: []string{folder}, Lenient: true}, c); err != nil &&
			!strings.Contains(err.Error(), folder) {
			t.Errorf("%v names no file", err)
		}
	})
}
