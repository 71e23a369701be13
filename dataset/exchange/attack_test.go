package exchange

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"

	"unseen/internal/racetest"
)

// What any file of up to 10 MB may cost: memory, and time of processors, which other programs do not lengthen.
const (
	attackMB   = 512
	attackTime = 20 * time.Second
)

// importAlone imports a folder in a process of its own and says what it took.
func importAlone(t *testing.T, format, folder string) (output string, mb int, took time.Duration) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("/proc, which says what a process needed, is Linux's")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestAttackChild$")
	cmd.Env = append(os.Environ(), "UNSEEN_TEST_ATTACK="+format+":"+folder)
	raw, err := cmd.CombinedOutput()
	took = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	output = string(raw)
	_, rest, found := strings.Cut(output, "peak kB ")
	if err != nil || !found {
		t.Fatalf("%v\n%.2000s", err, output)
	}
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	must(t, err)
	return output, kb >> 10, took
}

// TestAttackChild is the process of importAlone.
func TestAttackChild(t *testing.T) {
	format, folder, ok := strings.Cut(os.Getenv("UNSEEN_TEST_ATTACK"), ":")
	if !ok {
		t.Skip("importAlone runs it")
	}
	o := Options{Paths: []string{folder}}
	if format == "interactions" {
		files, err := filepath.Glob(filepath.Join(folder, "clicks.*"))
		must(t, err)
		o = Options{Flags: map[string]string{"clicks": files[0]}}
	}
	_, err := Import(t.Context(), format, filepath.Join(t.TempDir(), "out"), o)
	fmt.Println("import:", err)
	raw, err := os.ReadFile("/proc/self/status")
	must(t, err)
	_, rest, _ := strings.Cut(string(raw), "VmHWM:")
	fmt.Println("peak kB", strings.Fields(rest)[0])
}

// repeatedZstd is a zstd file of a part over and over, of about so many bytes unpacked.
func repeatedZstd(t *testing.T, head, part string, size int) []byte {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithEncoderLevel(zstd.SpeedFastest))
	must(t, err)
	_, err = w.Write([]byte(head))
	must(t, err)
	block := []byte(strings.Repeat(part, 1<<20/max(len(part), 1)+1))
	for n := 0; n < size; n += len(block) {
		_, err = w.Write(block)
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

// padded is a file of nearly 10 MB whose last part expands as much as the limits let it.
func padded(t *testing.T, head, part string, size int) []byte {
	return slices.Concat(repeatedZstd(t, head, "", 0), noise(t), repeatedZstd(t, "", part, size))
}

// noise is 9 MB of links that no program makes smaller.
func noise(t *testing.T) []byte {
	noiseOnce.Do(func() {
		var text strings.Builder
		state := uint64(1)
		for text.Len() < 9<<20 {
			state = state*6364136223846793005 + 1442695040888963407
			fmt.Fprintf(&text, "%x,%x\n", state>>32, state&0xffffffff)
		}
		noiseBytes = repeatedZstd(t, text.String(), "", 0)
	})
	return noiseBytes
}

var (
	noiseOnce  sync.Once
	noiseBytes []byte
)

// deflated is an npz file whose parts are compressed.
func deflated(t *testing.T, parts map[string][]byte) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, data := range parts {
		p, err := w.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: zip.Deflate})
		must(t, err)
		_, err = p.Write(data)
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

// numberedPair is a row of a table of links or exposures whose columns take no room.
type numberedPair struct {
	Source int64 `parquet:"source,delta"`
	Target int64 `parquet:"target,delta"`
	Linked bool  `parquet:"linked,zstd"`
}

type packedText struct {
	ID    string `parquet:"id,dict,zstd"`
	Title string `parquet:"title,dict,zstd"`
}

func parquetOf[T any](t *testing.T, rows int, row func(k int) T) []byte {
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, parquet.SkipPageBounds("id"), parquet.SkipPageBounds("title"))
	batch := make([]T, 0, 1<<14)
	for k := range rows {
		batch = append(batch, row(k))
		if len(batch) == cap(batch) || k == rows-1 {
			_, err := w.Write(batch)
			must(t, err)
			batch = batch[:0]
		}
	}
	must(t, w.Close())
	return b.Bytes()
}

// countedText repeats a text with numbers from 0 on.
func countedText(n int, head, form string) string {
	var b strings.Builder
	b.WriteString(head)
	for k := range n {
		fmt.Fprintf(&b, form, k)
	}
	return b.String()
}

// emptyCSR is a sparse matrix of zeros.
func emptyCSR(t *testing.T, rows, columns int) []byte {
	return packedCSR(t, rows, columns, map[string][]byte{"indptr": zeros("<i4", 4, rows+1),
		"indices": zeros("<i4", 4, 0), "data": zeros("<f4", 4, 0)})
}

func packedCSR(t *testing.T, rows, columns int, parts map[string][]byte) []byte {
	parts["shape"] = npy("<i4", "(2,)", int32s(int32(rows), int32(columns))...)
	parts["format"] = npy("|S3", "()", []byte("csr")...)
	return deflated(t, parts)
}

func zeros(kind string, size, count int) []byte {
	return npy(kind, fmt.Sprintf("(%d,)", count), make([]byte, size*count)...)
}

// attackFile is a hostile folder.
type attackFile struct {
	name, format string
	files        func(t *testing.T) map[string][]byte
	refused      bool
}

func oneFile(name string, content func(t *testing.T) []byte) func(t *testing.T) map[string][]byte {
	return func(t *testing.T) map[string][]byte { return map[string][]byte{name: content(t)} }
}

// attackTables are hostile text.
func attackTables() []attackFile {
	const links = "source,target\n"
	long := strings.Repeat("x", 1<<20)
	packed := func(head, part string, size int) func(*testing.T) []byte {
		return func(t *testing.T) []byte { return repeatedZstd(t, head, part, size) }
	}
	tail := func(head, part string, size int) func(*testing.T) []byte {
		return func(t *testing.T) []byte { return padded(t, head, part, size) }
	}
	plain := func(text string) func(*testing.T) []byte { return func(*testing.T) []byte { return []byte(text) } }
	counters := func(n int, head, form string) func(*testing.T) []byte {
		return func(t *testing.T) []byte { return repeatedZstd(t, countedText(n, head, form), "", 0) }
	}
	const csv, jsonl = "links.csv.zst", "nodes.jsonl.zst"
	return []attackFile{
		{"links that repeat 1000-fold", "csv", oneFile(csv, packed(links, "a,b\n", 80<<20)), true},
		{"as many links as may be", "csv", oneFile(csv, tail(links, "a,b\n", 14<<20)), false},
		{"more links", "csv", oneFile(csv, tail(links, "a,b\n", 32<<20)), true},
		{"one long line", "csv", oneFile(csv, tail(links, "aaaaaaaa", 80<<20)), true},
		{"long ids", "csv", oneFile(csv, tail(links, long+",b\n", 20<<20)), true},
		{"many commas", "csv", oneFile(csv, tail(links, strings.Repeat(",", 1000)+"\n", 20<<20)), true},
		{"a header of many columns", "csv", oneFile(csv, packed("source,target", ",a", 60<<20)), true},
		{"a line of many columns", "csv", oneFile(csv, packed(links, ",", 60<<20)), true},
		{"many quoted columns", "csv", oneFile(csv, packed(links, `"",`, 60<<20)), true},
		{"a quote without end", "csv", oneFile(csv, packed(links+`a,"`, `""`, 60<<20)), true},
		{"as many nodes as may be", "csv", oneFile(csv, counters(1_200_000, links, "a%07d,b%07[1]d\n")), false},
		{"more nodes", "csv", oneFile(csv, counters(1_600_000, links, "a%07d,b%07[1]d\n")), true},
		{"many members", "csv", oneFile("links.csv.gz", func(t *testing.T) []byte {
			return bytes.Repeat(gzipped(t, []byte("source,target\n")), 10<<20/45)
		}), false},
		{"many people", "interactions", oneFile("clicks.csv.zst",
			counters(1_500_000, "user,item\n", "u%07d,i%07[1]d\n")), true},
		{"long people", "interactions", oneFile("clicks.csv.zst", tail("user,item\n", long+",b\n", 20<<20)), true},
		{"deep JSON", "jsonl", oneFile(jsonl, packed("", "[", 80<<20)), true},
		{"many keys", "jsonl", oneFile(jsonl, packed(`{"id":"a"`, `,"k":0`, 60<<20)), true},
		{"one list", "jsonl", oneFile(jsonl, packed(`{"id":"a","links":[`, `"a",`, 60<<20)), true},
		{"titles as long as may be", "jsonl", oneFile(jsonl, counters(1100, "", `{"id":"%d","title":"`+long[:60_000]+
			"\"}\n")), false},
		{"longer titles", "jsonl", oneFile("nodes.jsonl", func(*testing.T) []byte {
			return []byte(countedText(150, "", `{"id":"%d","title":"`+long[:60_000]+"\"}\n"))
		}), false},
		{"fields", "jsonl", oneFile(jsonl, counters(16_000, "", `{"id":"%d","field":"%[1]d`+long[:4000]+"\"}\n")),
			true},
		{"texts", "jsonl", oneFile(jsonl, counters(7, "", `{"id":"%d","text":"`+strings.Repeat("t ", 4_000_000)+
			"\"}\n")), false},
		{"one record", "jsonl", oneFile("nodes.jsonl", plain(`{"id":"a","vector":[`+strings.Repeat("1,", 5_000_000))),
			true},
	}
}

// attackColumns are hostile arrays and columns.
func attackColumns() []attackFile {
	const huge = 20_000_000
	long := strings.Repeat("x", 1<<20)
	pairs := func(n int, pair func(k int) numberedPair) func(*testing.T) []byte {
		return func(t *testing.T) []byte { return parquetOf(t, n, pair) }
	}
	same := func(int) numberedPair { return numberedPair{Source: 1, Target: 2} }
	features := func(rows, columns int) func(*testing.T) map[string][]byte {
		return func(t *testing.T) map[string][]byte {
			return map[string][]byte{"nodes.csv": []byte(countedText(rows, "id\n", "%d\n")),
				"links.csv": []byte("source,target\n1,2\n"), "features.npz": emptyCSR(t, rows, columns)}
		}
	}
	return []attackFile{
		{"indices", "npz", oneFile("links.npz", func(t *testing.T) []byte {
			return packedCSR(t, 2, 2, map[string][]byte{"indptr": npy("<i4", "(3,)", int32s(0, huge, huge)...),
				"indices": zeros("|u1", 1, huge), "data": zeros("|u1", 1, huge)})
		}), true},
		{"rows", "npz", oneFile("links.npz", func(t *testing.T) []byte { return emptyCSR(t, huge-1, huge-1) }), true},
		{"as many rows as may be", "npz", oneFile("links.npz", func(t *testing.T) []byte {
			return emptyCSR(t, 2_500_000, 2_500_000)
		}), false},
		{"many members", "npz", oneFile("links.npz", func(t *testing.T) []byte {
			var b bytes.Buffer
			w := zip.NewWriter(&b)
			for k := range 70_000 {
				_, err := w.CreateHeader(&zip.FileHeader{Name: strconv.Itoa(k)})
				must(t, err)
			}
			must(t, w.Close())
			return b.Bytes()
		}), true},
		{"a header that lies", "npz", oneFile("links.npz", func(t *testing.T) []byte {
			return packedCSR(t, 2, 2, map[string][]byte{"indptr": npy("<i8", "(1099511627775,)"),
				"indices": npy("<i8", "(1099511627775,)"), "data": npy("<f8", "(1099511627775,)")})
		}), true},
		{"wide features", "csv", features(130, 1<<20), true},
		{"features as many as may be", "csv", features(8000, 2000), false},
		{"a table of one row", "parquet", oneFile("links.parquet", pairs(4_300_000, same)), true},
		{"numbered links", "parquet", oneFile("links.parquet", pairs(2_000_000, func(k int) numberedPair {
			return numberedPair{Source: int64(k), Target: int64(1<<40 + k)}
		})), true},
		{"exposures", "parquet", func(t *testing.T) map[string][]byte {
			return map[string][]byte{"links.parquet": parquetOf(t, 1, same),
				"exposures.parquet": parquetOf(t, 1<<21+1, same)}
		}, true},
		{"exposures as many as may be", "parquet", func(t *testing.T) map[string][]byte {
			return map[string][]byte{"links.parquet": parquetOf(t, 1, same),
				"exposures.parquet": parquetOf(t, 1<<21, same)}
		}, false},
		{"a long id in a dictionary", "parquet", oneFile("nodes.parquet", func(t *testing.T) []byte {
			return parquetOf(t, 5_000, func(int) packedText { return packedText{ID: long} })
		}), true},
		{"titles of 140 MB", "parquet", oneFile("nodes.parquet", func(t *testing.T) []byte {
			return parquetOf(t, 140, func(k int) packedText {
				return packedText{strconv.Itoa(k), long + strconv.Itoa(k)}
			})
		}), true},
	}
}

func gzipped(t *testing.T, content []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(content)
	must(t, err)
	must(t, w.Close())
	return b.Bytes()
}

// Whatever a file of up to 10 MB holds, importing or refusing it takes bounded memory and time.
func TestAttackFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	racetest.Skip(t, "TestRealNetworks has the goroutines of an import")
	for _, c := range slices.Concat(attackTables(), attackColumns()) {
		t.Run(c.format+"/"+c.name, func(t *testing.T) {
			folder, size := t.TempDir(), 0
			for name, content := range c.files(t) {
				size += len(content)
				must(t, os.WriteFile(filepath.Join(folder, name), content, 0o600))
			}
			if size > 10<<20 {
				t.Fatalf("the files have %d bytes", size)
			}
			output, mb, took := importAlone(t, c.format, folder)
			said, _, _ := strings.Cut(output, "\n")
			if mb > attackMB || took > attackTime || strings.Contains(said, "<nil>") == c.refused {
				t.Errorf("%d MB, %v: %.300s", mb, took, said)
			}
			t.Logf("%d kB: %d MB, %v: %.200s", size>>10, mb, took.Round(time.Millisecond), said)
		})
	}
}

// Long ids, fields, titles and texts are refused by name, and a lenient import goes on without them.
func TestAttackLengths(t *testing.T) {
	t.Parallel()
	for name, most := range mostBytes {
		if name == "text" {
			continue // as the others, and large
		}
		row := map[string]string{"id": "a", "field": "f", "title": "t"}
		row[name] = strings.Repeat("x", most+1)
		folder := t.TempDir()
		must(t, os.WriteFile(filepath.Join(folder, "nodes.csv"), []byte("id,field,title\nb,f,t\nc,f,t\n"+
			row["id"]+","+row["field"]+","+row["title"]+"\n"), 0o600))
		must(t, os.WriteFile(filepath.Join(folder, "links.csv"), []byte("source,target\nb,c\n"), 0o600))
		o := Options{Paths: []string{folder}}
		if _, err := Import(t.Context(), "csv", filepath.Join(t.TempDir(), "out"), o); !errors.Is(err, ErrTooLong) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		o.Lenient = true
		report, err := Import(t.Context(), "csv", filepath.Join(t.TempDir(), "out"), o)
		if err != nil || report.Rejected != 1 {
			t.Errorf("%s, lenient: %v, %+v", name, err, report)
		}
	}
}
