package dataset

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// FuzzSealed writes tables without compression, changes bytes of one and seals the dataset again, so that its sums are
// right. Whatever it then says, it is refused in one line or is a network whose every part can be read.
func FuzzSealed(f *testing.F) {
	files := map[string][]byte{
		NodesFile: plain(f, []nodeRow{{ID: "a", Field: "x", Title: "first", Text: "a text"},
			{ID: "b", Field: "y", Title: "second"}, {ID: "c", Field: "x", Text: "another"}, {ID: "d", Title: "third"}}),
		LinksFile:   plain(f, []linkRow{{0, 1}, {1, 2}, {2, 3}, {3, 0}}),
		VectorsFile: append(npyHeaderBytes(false, 4, 2), make([]byte, 32)...),
	}
	names := []string{NodesFile, LinksFile, VectorsFile, ManifestFile}
	sealed := func(t testing.TB, which uint8, at uint32, change []byte) string {
		folder := t.TempDir()
		m := Manifest{Format: formatName, Version: Version, Nodes: 4, Links: 4, Fields: []string{"x", "y"},
			Vectors: &VectorManifest{Dimension: 2, Kind: "float32", Zero: 4}, Files: map[string]FileManifest{}}
		for _, name := range names {
			raw := bytes.Clone(files[name])
			if name == ManifestFile {
				var err error
				raw, err = m.bytes()
				must(t, err)
			}
			if names[int(which)%len(names)] == name {
				copy(raw[int(at)%len(raw):], change)
			}
			must(t, os.WriteFile(filepath.Join(folder, name), raw, 0o666))
			sum := sha256.Sum256(raw)
			m.Files[name] = FileManifest{int64(len(raw)), hex.EncodeToString(sum[:])}
		}
		return folder
	}
	d, err := Open(background, sealed(f, 0, 0, nil), OpenOptions{})
	must(f, err)
	must(f, d.Verify(background))
	must(f, d.Close())
	for k, name := range names[:3] {
		for at := 0; at < len(files[name]); at += max(1, len(files[name])/40) {
			f.Add(uint8(k), uint32(at), []byte{0xff})
			f.Add(uint8(k), uint32(at), []byte{0xff, 0xff, 0xff, 0xff, 0x7f})
		}
	}
	f.Add(uint8(3), uint32(20), []byte(`9`))
	f.Fuzz(func(t *testing.T, which uint8, at uint32, change []byte) {
		readEverything(t, sealed(t, which, at, change))
	})
}

// plain writes rows without compression, so that every byte of them can be changed.
func plain[T any](f *testing.F, rows []T) []byte {
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, parquet.Compression(&parquet.Uncompressed))
	_, err := w.Write(rows)
	must(f, err)
	must(f, w.Close())
	return b.Bytes()
}

// readEverything opens a dataset and reads all of it.
func readEverything(t *testing.T, folder string) {
	oneLine := func(err error) {
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("more than a line: %q", err)
		}
	}
	d, err := Open(background, folder, OpenOptions{})
	if oneLine(err); err != nil {
		return
	}
	defer d.Close()
	oneLine(d.Verify(background))
	report, err := Check(background, d)
	oneLine(err)
	found := slices.ContainsFunc(report.Findings, func(f Finding) bool { return f.Kind == "not-finite" })
	g := d.Graph()
	for i := range int32(g.Len()) {
		_, err := d.Text(i)
		oneLine(err)
		for _, target := range g.Out(i) {
			if target < 0 || int(target) >= g.Len() {
				t.Errorf("a link to %d of %d", target, g.Len())
			}
		}
	}
	if v := g.Vectors(); v != nil {
		row := make([]float32, v.Dim())
		for i := range int32(v.Len()) {
			v.Load(row, i)
			for _, x := range row {
				if (math.IsNaN(float64(x)) || math.IsInf(float64(x), 0)) && !found {
					t.Errorf("the vector of node %d is %v, and no finding says so", i, row)
				}
			}
		}
	}
}
