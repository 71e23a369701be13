package exchange

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"unseen/dataset"
	"unseen/internal/racetest"
	"unseen/progress"
)

func packed(t testing.TB, text []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	must(t, err)
	_, err = w.Write(text)
	must(t, err)
	must(t, w.Close())
	return b.Bytes()
}

func zpacked(t testing.TB, text []byte) []byte {
	w, err := zstd.NewWriter(nil)
	must(t, err)
	return w.EncodeAll(text, nil)
}

// npy is an .npy file with any header and some bytes.
func npy(kind, shape string, data ...byte) []byte {
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", kind, shape)
	return append(append(binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(text))), text...),
		data...)
}

func npz(t testing.TB, parts map[string][]byte) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, data := range parts {
		p, err := w.Create(name + ".npy")
		must(t, err)
		_, err = p.Write(data)
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

func int32s(numbers ...int32) (raw []byte) {
	for _, n := range numbers {
		raw = binary.LittleEndian.AppendUint32(raw, uint32(n))
	}
	return raw
}

// csr is a sparse matrix of 2 rows and 3 columns with two ones, and the parts that are given instead.
func csr(t testing.TB, instead map[string][]byte) []byte {
	parts := map[string][]byte{
		"shape": npy("<i4", "(2,)", int32s(2, 3)...), "indptr": npy("<i4", "(3,)", int32s(0, 1, 2)...),
		"indices": npy("<i4", "(2,)", int32s(0, 2)...), "data": npy("|u1", "(2,)", 1, 1),
		"format": npy("|S3", "()", []byte("csr")...),
	}
	for name, data := range instead {
		if parts[name] = data; data == nil {
			delete(parts, name)
		}
	}
	return npz(t, parts)
}

// Every kind of bad file is an error that says where, and a lenient import goes on.
//
// Long because it is one table.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, "TestRealNetworks has the goroutines of an import")
	const nodes, links = "id,field\na,x\nb,y\n", "source,target\na,b\n"
	many := []byte("source,target\n" + strings.Repeat("a,b\n", 1<<19))
	long := packed(t, many)
	type files = map[string]string
	for _, c := range []struct {
		name    string
		format  string
		files   files
		flags   map[string]string
		kind    error
		says    string // in the strict error
		lenient int    // records that a lenient import rejects; −1 if it fails too
	}{
		{"empty nodes", "csv", files{"nodes.csv": "", "links.csv": links}, nil, ErrFormat,
			"nodes.csv: bad record: the file is empty", -1},
		{"empty links", "csv", files{"nodes.csv": nodes, "links.csv": ""}, nil, ErrFormat,
			"links.csv: bad record: the file is empty", -1},
		{"header only", "csv", files{"nodes.csv": "id,field\n", "links.csv": "source,target\n"}, nil, ErrFormat,
			"no nodes", -1},
		{"a folder for a file", "csv", files{"nodes.csv/x": "", "links.csv": links, "edges.csv": links}, nil, ErrUsage,
			"both edges.csv and links.csv", -1},
		{"cut gzip", "csv", files{"nodes.csv": nodes, "links.csv.gz": string(long[:len(long)/2])}, nil, ErrTruncated,
			"links.csv.gz: file is truncated", -1},
		{"cut zstd", "csv", files{"nodes.csv": nodes, "links.csv.zst": string(zpacked(t, many)[:60])}, nil,
			ErrTruncated, "truncated", -1},
		{"gzip with a wrong sum", "csv", files{"nodes.csv": nodes,
			"links.csv.gz": string(flip(packed(t, []byte(links)), -6))}, nil, ErrFormat, "checksum", -1},
		{"gzip bomb", "csv", files{"nodes.csv": nodes, "links.csv.gz": string(packed(t, many))}, nil, ErrExpands,
			"expands too much", -1},
		{"zstd bomb", "csv", files{"nodes.csv": nodes, "links.csv.zst": string(zpacked(t, many))}, nil, ErrExpands,
			"expands too much", -1},
		{"Latin-1", "csv", files{"nodes.csv": nodes + "caf\xe9,x\n", "links.csv": links}, nil, ErrEncoding,
			"nodes.csv, line 4, column 4: not UTF-8: byte 0xe9", 1},
		{"mixed encodings", "csv", files{"nodes.csv": nodes + "\xc3\xa9,x\n\xe9,x\n", "links.csv": links}, nil,
			ErrEncoding, "line 5, column 1", 1},
		{"UTF-16", "csv", files{"nodes.csv": "\xff\xfei\x00d\x00\n\x00", "links.csv": links}, nil, ErrEncoding,
			"nodes.csv, line 1, column 1", -1},
		{"NUL", "csv", files{"nodes.csv": nodes + "c\x00,x\n", "links.csv": links}, nil, ErrEncoding,
			"nodes.csv, line 4, column 2: not UTF-8: a NUL byte", 1},
		{"unbalanced quote", "csv", files{"nodes.csv": nodes + "c,\"x\nd,y\n", "links.csv": links}, nil, ErrFormat,
			"nodes.csv, line 4, column 3: bad record: a quoted field without end", 1},
		{"too few fields", "csv", files{"nodes.csv": nodes + "c\n", "links.csv": links}, nil, ErrFormat,
			"line 4: bad record: wrong number of fields", 1},
		{"duplicate id", "csv", files{"nodes.csv": nodes + "a,z\n", "links.csv": links}, nil, ErrDuplicateNode,
			`line 4: duplicate id: "a"`, 1},
		{"empty id", "csv", files{"nodes.csv": nodes + ",z\n", "links.csv": links}, nil, ErrFormat,
			"line 4: bad record: the id is empty", 1},
		{"dangling link", "csv", files{"nodes.csv": nodes, "links.csv": links + "b,c\n"}, nil, ErrUnknownNode,
			`links.csv, line 3: no such node: the target "c"`, 1},
		{"empty end", "csv", files{"nodes.csv": nodes, "links.csv": links + "b,\n"}, nil, ErrFormat,
			"links.csv, line 3: bad record: the target is empty", 1},
		{"no such time", "csv", files{"nodes.csv": "id,year\na,MMXX\nb,2001.0\n", "links.csv": "source,target\n"}, nil,
			ErrFormat, `line 2: bad record: "MMXX" is not a time`, 1},
		{"negative clicks", "csv", files{"nodes.csv": nodes, "links.csv": links,
			"c.csv": "source,target,clicks\na,b,-1\n"}, map[string]string{"clicks": "FOLDER/c.csv"}, ErrFormat,
			`c.csv, line 2: bad record: "-1" is not a number of clicks`, 1},
		{"impossible probability", "csv", files{"nodes.csv": nodes, "links.csv": links,
			"exposures.csv": "source,target,linked,shown\na,b,true,1.5\n"}, nil, ErrFormat,
			"exposures.csv, line 2: bad record: shown with probability 1.5", 1},
		{"nothing there", "csv", files{"x": ""}, nil, ErrUsage, "neither nodes.csv nor links.csv", -1},

		{"a word a line", "edges", files{"PATH": "a b\n# c\nc\n"}, nil, ErrFormat,
			"line 3: bad record: only one id", 1},
		{"Latin-1 list", "edges", files{"PATH": "a b\na \xe9\n"}, nil, ErrEncoding, "line 2, column 3", 1},
		{"empty list", "edges", files{"PATH": ""}, nil, ErrFormat, "no nodes", -1},

		{"cut JSON", "jsonl", files{"PATH": "{\"id\": \"a\"}\n{\"id\": \n"}, nil, ErrFormat,
			"line 2, column 6: bad record: unexpected end", 1},
		{"a list for an object", "jsonl", files{"PATH": "{\"id\": \"a\"}\n[1]\n"}, nil, ErrFormat,
			"line 2: bad record: not an object", 1},
		{"neither node nor link", "jsonl", files{"PATH": "{\"id\": \"a\"}\n{\"x\": 1}\n"}, nil, ErrFormat,
			"line 2: bad record: neither a node nor a link", 1},
		{"Latin-1 JSON", "jsonl", files{"PATH": "{\"id\": \"a\"}\n{\"id\": \"\xe9\"}\n"}, nil, ErrEncoding,
			"line 2, column 9", 1},
		{"dangling link before its nodes", "jsonl",
			files{"PATH": "{\"source\":\"a\",\"target\":\"z\"}\n{\"id\":\"a\"}\n"}, nil, ErrUnknownNode,
			`line 1: no such node: the target "z"`, 1},

		{"no Parquet", "parquet", files{"PATH": "PAR1 nothing of the kind PAR1"}, nil, ErrFormat, "bad record", -1},
		{"empty Parquet", "parquet", files{"PATH": ""}, nil, ErrFormat, "bad record", -1},

		{"no zip", "npz", files{"PATH": "PK\x03\x04"}, nil, ErrFormat, "bad record", -1},
		{"not square", "npz", files{"PATH": string(csr(t, nil))}, nil, ErrFormat, "not a square sparse matrix but 2×3",
			-1},
		{"huge vectors", "csv", files{"nodes.csv": nodes, "vectors.npy": string(npy("<f4", "(2, 1048576)"))}, nil,
			ErrTruncated, "ends after 0 of 2097152", -1},
		{"monstrous vectors", "csv", files{"nodes.csv": nodes,
			"vectors.npy": string(npy("<f4", "(9223372036854775807, 9223372036854775807)"))}, nil, ErrFormat,
			"is too large", -1},
		{"negative shape", "csv", files{"nodes.csv": nodes, "vectors.npy": string(npy("<f4", "(-2, 3)"))}, nil,
			ErrFormat, "header cannot be read", -1},
		{"too few vectors", "csv", files{"nodes.csv": nodes, "vectors.npy": string(npy("<f4", "(1, 1)", 0, 0, 0, 0))},
			nil, ErrFormat, "1 rows for 2 nodes", -1},
		{"a vector of NaN", "csv", files{"nodes.csv": nodes,
			"vectors.npy": string(npy("<f4", "(2, 1)", 0, 0, 0xc0, 0x7f, 0, 0, 0, 0))}, nil, ErrFormat,
			"line 1: bad record: the vector has NaN", 1},
		{"more behind the vectors", "csv", files{"nodes.csv": nodes,
			"vectors.npy": string(npy("<f4", "(2, 1)", 0, 0, 0, 0, 0, 0, 0, 0, 0))}, nil, ErrFormat,
			"vectors.npy: bad record: data after its last number", -1},
		{"huge sparse shape", "csv", files{"nodes.csv": nodes,
			"features.npz": string(csr(t, map[string][]byte{"shape": npy("<i8", "(2,)",
				append(int32s(2, 0), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f)...)}))}, nil, ErrFormat,
			"its shape is 2×9223372036854775807", -1},
		{"wide sparse matrix", "csv", files{"nodes.csv": nodes,
			"features.npz": string(csr(t, map[string][]byte{"shape": npy("<i4", "(2,)", int32s(2, 1<<30)...)}))}, nil,
			ErrFormat, "at most 1048576 are possible", -1},
		{"indices that claim much", "csv", files{"nodes.csv": nodes,
			"features.npz": string(csr(t, map[string][]byte{"indices": npy("<i4", "(900000000,)"),
				"data": npy("|u1", "(900000000,)")}))}, nil, ErrFormat, "claims [900000000] numbers", -1},
		{"a column outside", "csv", files{"nodes.csv": nodes,
			"features.npz": string(csr(t, map[string][]byte{"indices": npy("<i4", "(2,)", int32s(0, 3)...)}))}, nil,
			ErrFormat, "line 2: bad record: column 3 of 3", -1},
		{"rows that go back", "csv", files{"nodes.csv": nodes,
			"features.npz": string(csr(t, map[string][]byte{"indptr": npy("<i4", "(3,)", int32s(0, 2, 1)...)}))}, nil,
			ErrFormat, "indptr goes from 2 to 1", -1},
		{"no data", "csv", files{"nodes.csv": nodes, "features.npz": string(csr(t, map[string][]byte{"data": nil}))},
			nil, ErrFormat, "it has no data", -1},
		{"columns first", "csv", files{"nodes.csv": nodes,
			"features.npz": string(csr(t, map[string][]byte{"format": npy("|S3", "()", []byte("csc")...)}))}, nil,
			ErrFormat, `format "csc", not csr`, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			path := folder
			for name, text := range c.files {
				if name == "PATH" {
					name = "file"
					path = filepath.Join(folder, name)
				}
				must(t, os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o777))
				must(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o666))
			}
			o := Options{Paths: []string{path}, Flags: map[string]string{}, Limits: Limits{Free: 1 << 20}}
			for name, value := range c.flags {
				o.Flags[name] = strings.ReplaceAll(value, "FOLDER", folder)
			}
			out := t.TempDir()
			dir := filepath.Join(out, "d")
			began := time.Now()
			_, err := Import(background, c.format, dir, o)
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("strict: %v, want %q", err, c.says)
			}
			untouched(t, out)
			o.Lenient = true
			r, err := Import(background, c.format, dir, o)
			switch {
			case c.lenient < 0 && err == nil:
				t.Errorf("lenient: %+v, want an error", r)
			case c.lenient < 0:
				untouched(t, out)
			case err != nil:
				t.Errorf("lenient: %v", err)
			case r.Rejected != c.lenient:
				t.Errorf("lenient: %d rejected, want %d", r.Rejected, c.lenient)
			default:
				untouched(t, out, "d", "d.rejects.csv")
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func flip(raw []byte, at int) []byte {
	raw[len(raw)+at] ^= 0xff
	return raw
}

func TestFoldersLinksAndPipesInPlaceOfFiles(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("making symbolic links takes rights on Windows")
	}
	folder := t.TempDir()
	must(t, os.Symlink(filepath.Join(folder, "b.csv"), filepath.Join(folder, "a.csv")))
	must(t, os.Symlink(filepath.Join(folder, "a.csv"), filepath.Join(folder, "b.csv")))
	dir := filepath.Join(t.TempDir(), "d")
	for _, path := range []string{filepath.Join(folder, "a.csv"), filepath.Join(folder, "none.csv"), "/dev/zero"} {
		for _, format := range []string{"csv", "edges", "jsonl", "parquet", "npz"} {
			if _, err := Import(background, format, dir, Options{Paths: []string{path}}); err == nil ||
				!strings.Contains(err.Error(), path) {
				t.Errorf("%s of %s: %v", format, path, err)
			}
		}
	}
	if _, err := Import(background, "csv", dir, Options{Paths: []string{folder, folder}}); !errors.Is(err, ErrUsage) {
		t.Errorf("folders in place of files: %v", err)
	}
	untouched(t, filepath.Dir(dir))
}

// endless is a line without an end, of a number of bytes.
type endless struct{ left int64 }

var exes = bytes.Repeat([]byte("x"), 1<<20)

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(int64(len(p)), e.left)], exes)
	e.left -= int64(n)
	return n, nil
}

func TestALineOfAGigabyte(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	length := int64(1 << 30)
	if racetest.Enabled {
		length = 1 << 28
	}
	gigabyte := func() io.Reader {
		return io.MultiReader(strings.NewReader("a,b\n"), &endless{length}, strings.NewReader(",y\nc,d\n"))
	}
	records, faults, err := ours(gigabyte(), ',', Limits{})
	if err != nil || len(records) != 2 || len(faults) != 1 || !errors.Is(faults[0], ErrTooLong) || faults[0].line != 2 {
		t.Errorf("%d records, %v, %v", len(records), faults, err)
	}
	lines := newLines(gigabyte(), "f", Limits{})
	good, long := 0, 0
	for lines.Next() {
		if lines.Fault() != nil {
			long++
		} else {
			good++
		}
	}
	if lines.Err() != nil || good != 2 || long != 1 {
		t.Errorf("%d lines and %d that are too long, %v", good, long, lines.Err())
	}
	runtime.ReadMemStats(&after)
	if grown := after.Sys - before.Sys; grown > 700<<20 {
		t.Errorf("memory grew by %d MB", grown>>20)
	}
}

// TestCancelledWhileReading stops in the middle of a file.
func TestCancelledWhileReading(t *testing.T) {
	t.Parallel()
	folder, out := t.TempDir(), t.TempDir()
	path := filepath.Join(folder, "links.csv")
	must(t, os.WriteFile(path, []byte("source,target\n"+strings.Repeat("a,b\n", 1<<19)), 0o666))
	ctx, cancel := context.WithCancel(background)
	o := Options{Paths: []string{path}, Progress: func(e progress.Event) {
		if e.Share() > .2 {
			cancel()
		}
	}}
	if _, err := Import(ctx, "csv", filepath.Join(out, "d"), o); !errors.Is(err, context.Canceled) {
		t.Errorf("it says %v", err)
	}
	untouched(t, out)
}

// TestForeignFolderInTheWay leaves what is no dataset alone.
func TestForeignFolderInTheWay(t *testing.T) {
	t.Parallel()
	folder, out := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(folder, "l.txt"), []byte("a b\n"), 0o666))
	must(t, os.WriteFile(filepath.Join(out, "diary.txt"), []byte("dear"), 0o666))
	_, err := Import(background, "edges", out, Options{Paths: []string{filepath.Join(folder, "l.txt")}, Force: true})
	if !errors.Is(err, dataset.ErrNotDataset) {
		t.Errorf("it says %v", err)
	}
	untouched(t, out, "diary.txt")
}

// A format from outside needs nothing but Fault to leave bad lines to the sink.
func TestLineFaults(t *testing.T) {
	t.Parallel()
	lines := newLines(strings.NewReader("fine\nå\xff\nb\x00\n"+strings.Repeat("x", 99)+"\n"), "f", Limits{Record: 50})
	want := []struct {
		err    error
		column int
	}{{nil, 0}, {ErrEncoding, 3}, {ErrEncoding, 2}, {ErrTooLong, 0}}
	for k, w := range want {
		if !lines.Next() {
			t.Fatalf("%d lines: %v", k, lines.Err())
		}
		bad := lines.Fault()
		switch {
		case w.err == nil && bad != nil:
			t.Errorf("line %d: %+v", k+1, bad)
		case w.err != nil && (bad == nil || !errors.Is(bad.Err, w.err) || bad.Place.Column != w.column ||
			bad.Place.Line != k+1 || !hinted(bad)):
			t.Errorf("line %d: %+v, want %v in column %d", k+1, bad, w.err, w.column)
		}
	}
}
