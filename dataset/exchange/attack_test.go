package exchange

import (
	"archive/zip"
	"bytes"
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

// attackLimits are what any file of up to 10 MB may cost.
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
	began := time.Now()
	raw, err := cmd.CombinedOutput()
	took = time.Since(began)
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
	_, err := Import(t.Context(), format, filepath.Join(t.TempDir(), "out"), Options{Paths: []string{folder}})
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

type attackRow struct {
	ID     string `parquet:"id,dict,zstd"`
	Title  string `parquet:"title,dict,zstd"`
	Source string `parquet:"source,dict,zstd"`
	Target string `parquet:"target,dict,zstd"`
}

func attackParquet(t *testing.T, rows int, row func(k int) attackRow) []byte {
	var b bytes.Buffer
	w := parquet.NewGenericWriter[attackRow](&b, parquet.SkipPageBounds("id"), parquet.SkipPageBounds("title"),
		parquet.SkipPageBounds("source"), parquet.SkipPageBounds("target"))
	batch := make([]attackRow, 0, 1<<14)
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

// Whatever a file of up to 10 MB holds, importing or refusing it takes bounded memory and time.
func TestAttackFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, and this is -short; ./check runs it once without")
	}
	racetest.Skip(t, "TestRealNetworks has the goroutines of an import")
	zeros := func(kind string, size, count int) []byte {
		return npy(kind, fmt.Sprintf("(%d,)", count), make([]byte, size*count)...)
	}
	const huge = 20_000_000
	long := strings.Repeat("x", 1<<20)
	packedCSR := func(rows int, parts map[string][]byte) []byte {
		parts["shape"] = npy("<i4", "(2,)", int32s(int32(rows), int32(rows))...)
		parts["format"] = npy("|S3", "()", []byte("csr")...)
		return deflated(t, parts)
	}
	for _, c := range []struct {
		name, format, file string
		content            []byte
		refused            bool
	}{
		{"links that repeat 1000-fold", "csv", "links.csv.zst", repeatedZstd(t, "source,target\n", "a,b\n", 80<<20),
			true},
		{"as many links as may be", "csv", "links.csv.zst", padded(t, "source,target\n", "a,b\n", 32<<20), false},
		{"one long line", "csv", "links.csv.zst", padded(t, "source,target\n", "aaaaaaaa", 80<<20), true},
		{"long ids", "csv", "links.csv.zst", padded(t, "source,target\n", long+",b\n", 20<<20), true},
		{"many commas", "csv", "links.csv.zst", padded(t, "source,target\n", strings.Repeat(",", 1000)+"\n", 20<<20),
			true},
		{"deep JSON", "jsonl", "nodes.jsonl.zst", repeatedZstd(t, "", "[", 80<<20), true},
		{"many keys", "jsonl", "nodes.jsonl.zst", repeatedZstd(t, `{"id":"a"`, `,"k":0`, 60<<20), true},
		{"indices", "npz", "links.npz", packedCSR(2, map[string][]byte{"indptr": npy("<i4", "(3,)",
			int32s(0, huge, huge)...), "indices": zeros("|u1", 1, huge), "data": zeros("|u1", 1, huge)}), true},
		{"rows", "npz", "links.npz", packedCSR(huge-1, map[string][]byte{"indptr": zeros("|u1", 1, huge),
			"indices": zeros("|u1", 1, 0), "data": zeros("|u1", 1, 0)}), true},
		{"a table of one row", "parquet", "links.parquet", attackParquet(t, 5_000_000, func(int) attackRow {
			return attackRow{Source: "a", Target: "b"}
		}), true},
		{"a long id in a dictionary", "parquet", "links.parquet", attackParquet(t, 5_000, func(int) attackRow {
			return attackRow{Source: long, Target: "b"}
		}), true},
		{"ids of 300 MB", "parquet", "nodes.parquet", attackParquet(t, 300, func(k int) attackRow {
			return attackRow{ID: long + strconv.Itoa(k)}
		}), true},
		{"titles of 200 MB", "parquet", "nodes.parquet", attackParquet(t, 200, func(k int) attackRow {
			return attackRow{ID: strconv.Itoa(k), Title: long + strconv.Itoa(k)}
		}), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if len(c.content) > 10<<20 {
				t.Fatalf("the file has %d bytes", len(c.content))
			}
			folder := t.TempDir()
			must(t, os.WriteFile(filepath.Join(folder, c.file), c.content, 0o600))
			output, mb, took := importAlone(t, c.format, folder)
			said, _, _ := strings.Cut(output, "\n")
			if mb > attackMB || took > attackTime || strings.Contains(said, "<nil>") == c.refused {
				t.Errorf("%d MB, %v: %.300s", mb, took, said)
			}
			t.Logf("%d kB: %d MB, %v: %.200s", len(c.content)>>10, mb, took.Round(time.Millisecond), said)
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
