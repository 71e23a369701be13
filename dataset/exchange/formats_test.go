package exchange

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"unseen/dataset"
)

// imported writes files, imports their folder, or the one file PATH, and opens the dataset.
func imported(t *testing.T, format string, files map[string]string, o Options) (*dataset.Dataset, *Report) {
	t.Helper()
	folder := t.TempDir()
	o.Paths = []string{folder}
	for name, text := range files {
		path := filepath.Join(folder, name)
		if strings.HasPrefix(name, "PATH") {
			o.Paths = []string{path}
		}
		must(t, os.WriteFile(path, []byte(text), 0o666))
	}
	dir := filepath.Join(t.TempDir(), "d")
	r, err := Import(background, format, dir, o)
	must(t, err)
	return open(t, dir), r
}

// rowsOf writes a dataset as a line per node: id, field, title, time, text, and the ids that it links to.
func rowsOf(t *testing.T, d *dataset.Dataset) string {
	t.Helper()
	g := d.Graph()
	var b strings.Builder
	for i := range int32(g.Len()) {
		text, err := d.Text(i)
		must(t, err)
		when := ""
		if known, ok := g.Time(i); ok {
			when = known.Format(time.DateOnly)
		}
		fmt.Fprintf(&b, "%s|%s|%s|%s|%s →", g.ID(i), g.FieldName(g.Field(i)), g.Title(i), when, text)
		for _, j := range g.Out(i) {
			fmt.Fprintf(&b, " %s", g.ID(j))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Columns of exposures have flags of their own, in every format; those of links say nothing of them.
func TestExposureColumns(t *testing.T) {
	t.Parallel()
	flags := map[string]string{"exposure-source": "who", "exposure-target": "what", "linked": "took", "shown": "p",
		"exposure-time": "at", "source": "a", "target": "b"}
	for format, files := range map[string]map[string]string{
		"csv": {"nodes.csv": "id\nx\ny\n", "links.csv": "a,b\nx,y\n", "exposures.csv": "who,what,took,p,at,source\n" +
			"x,y,1,.25,1700000000,nobody\n"},
		"jsonl": {"nodes.jsonl": "{\"id\": \"x\"}\n{\"id\": \"y\"}\n", "links.jsonl": "{\"a\": \"x\", \"b\": \"y\"}\n",
			"exposures.jsonl": "{\"who\": \"x\", \"what\": \"y\", \"took\": true, \"p\": 0.25, \"at\": 1700000000}\n"},
	} {
		d, _ := imported(t, format, files, Options{Flags: flags})
		e, err := d.Exposures(background)
		must(t, err)
		if e.Len() != 1 || !e.Linked[0] || e.Shown[0] != .25 || e.Time[0] != 1700000000 || d.Graph().LinkCount() != 1 {
			t.Errorf("%s: %+v", format, e)
		}
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	const whole = "00003|optics|Light|1999-01-01|On\nlight. →\n00005|unknown|Waves, \"big\"||x → 00003\n"
	for _, c := range []struct {
		name, format string
		files        map[string]string
		options      Options
		want         string
	}{
		{"columns with usual names", "csv",
			map[string]string{"nodes.csv": "id,field,title,text,time\n00003,optics,Light,\"On\r\nlight.\",1999\n" +
				"00005,,\"Waves, \"\"big\"\"\",x,\n", "links.csv": "source,target\n00005,00003\n"}, Options{}, whole},
		{"names that are guessed, a mark, tabs", "csv",
			map[string]string{"nodes.tsv": "\ufeffKey\tSubject\tname\tAbstract\tyear\n" +
				"00003\toptics\tLight\t\"On\nlight.\"\t1999.0\n00005\t\t\"Waves, \"\"big\"\"\"\tx\t\n",
				"edges.tsv": "citing_paper\tCited DOI\r\n00005\t00003\r\n"}, Options{}, whole},
		{"columns named by flags", "csv",
			map[string]string{"nodes.csv": "a;b;c;d;e;id\n" +
				"1999-01-01T00:00:00Z;\"On\nlight.\";Light;optics;00003;zero\n" +
				";x;\"Waves, \"\"big\"\"\";;00005;one\n", "links.csv": "x;y;z\n00003;7;00005\n"},
			Options{Flags: map[string]string{"time": "a", "text": "b", "title": "c", "field": "d", "id": "e",
				"source": "z", "target": "x"}}, whole},
		{"packed", "csv", map[string]string{"nodes.csv.zst": string(zpacked(t, []byte("id\na\nb\n"))),
			"links.csv.gz": string(packed(t, []byte("source,target\na,b\n")))}, Options{},
			"a|unknown||| → b\nb|unknown||| →\n"},
		{"two packs in one file", "csv", map[string]string{"nodes.csv": "id\na\nb\n",
			"links.csv.gz": string(append(packed(t, []byte("source,target\na,b\n")), packed(t, []byte("b,a\n"))...))},
			Options{}, "a|unknown||| → b\nb|unknown||| → a\n"},
		{"links alone, both ways", "csv", map[string]string{"PATH.csv": "from,to\nb,a\nb,b\n"},
			Options{Undirected: true}, "b|unknown||| → a\na|unknown||| → b\n"},
		{"no header", "csv", map[string]string{"PATH.csv": "b,a\nc,a\n"},
			Options{Flags: map[string]string{"no-header": "true"}},
			"b|unknown||| → a\na|unknown||| →\nc|unknown||| → a\n"},
		{"a title that is also taken for the id", "csv", map[string]string{"PATH.csv": "name,label\na,x\n"}, Options{},
			"a|x||| →\n"},
		{"plain list", "edges", map[string]string{"PATH": "# x y\n% z\n\n  b\ta 0.5\r\nc a\n"}, Options{},
			"b|unknown||| → a\na|unknown||| →\nc|unknown||| → a\n"},
		{"objects, links first", "jsonl", map[string]string{"PATH": `{"source": "00005", "target": "00003", "weight": 2}
{"id": "00003", "field": ["optics", "waves"], "title": "Light", "text": "On\nlight.", "year": 1999}
{"text": "x", "title": "Waves, \"big\"", "id": "00005", "year": null}
`}, Options{}, whole},
		{"numbers as ids", "jsonl", map[string]string{"nodes.jsonl": "{\"id\": 7}\n{\"id\": 8.50}\n",
			"links.jsonl": "{\"source\": 8.50, \"target\": 7}\n"}, Options{}, "7|unknown||| →\n8.50|unknown||| → 7\n"},
		{"keys by settings", "jsonl", map[string]string{"PATH": "{\"n\": \"a\", \"id\": 1}\n{\"f\": \"a\", " +
			"\"t\": \"b\"}\n{\"n\": \"b\"}\n"},
			Options{Flags: map[string]string{"id": "n", "source": "f", "target": "t"}},
			"a|unknown||| → b\nb|unknown||| →\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, _ := imported(t, c.format, c.files, c.options)
			if got := rowsOf(t, d); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

func TestGuessesAreShown(t *testing.T) {
	t.Parallel()
	_, r := imported(t, "csv", map[string]string{"nodes.csv": "key,section\na,x\n", "links.csv": "citing,cited\n"},
		Options{})
	all := fmt.Sprint(r.Notes)
	if !strings.Contains(all, "using `key` as id, `section` as field") ||
		!strings.Contains(all, "`citing` as source, `cited` as target") {
		t.Errorf("notes %q", r.Notes)
	}
	for header, says := range map[string]bool{"id,desk": true, "id,field": false, "id": false} {
		_, r := imported(t, "csv", map[string]string{"nodes.csv": header + "\na" +
			strings.Repeat(",x", strings.Count(header, ",")) + "\n", "links.csv": "citing,cited\n"}, Options{})
		if got := strings.Contains(fmt.Sprint(r.Notes),
			"unused columns: desk. If one is the field, set field to its name"); got != says {
			t.Errorf("%s: notes %q", header, r.Notes)
		}
	}
}

// TestClicks: pages with a click have shown all their links.
func TestClicks(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	log := filepath.Join(folder, "log.csv")
	must(t, os.WriteFile(log, []byte("source,target,clicks\na,b,3\na,d,1\nb,a,0\n"), 0o666))
	d, _ := imported(t, "csv", map[string]string{"nodes.csv": "id\na\nb\nc\nd\n",
		"links.csv": "source,target\na,b\na,c\nb,a\nb,c\nc,a\n"}, Options{Flags: map[string]string{"clicks": log}})
	if got, want := rowsOf(t, d), "a|unknown||| → b d\nb|unknown||| →\nc|unknown||| →\nd|unknown||| →\n"; got != want {
		t.Errorf("links\n%swant\n%s", got, want)
	}
	e, err := d.Exposures(background)
	must(t, err)
	var got []string
	for k := range e.Source {
		got = append(got, fmt.Sprintf("%s%s %t %t", d.Graph().ID(e.Source[k]), d.Graph().ID(e.Target[k]), e.Exposed[k],
			e.Linked[k]))
	}
	// c has no visitors; a → d was clicked and is no link of the page.
	want := []string{"ab true true", "ac true false", "ba true false", "bc true false", "ad true true"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("exposures %v, want %v", got, want)
	}
}

// TestVectorsOfRejectedNodes: a vector belongs to its record, also where records before it were let go.
func TestVectorsOfRejectedNodes(t *testing.T) {
	t.Parallel()
	// 1 to 5
	raw := npy("<f4", "(5, 1)", 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x40, 0x40, 0, 0, 0x80, 0x40, 0, 0, 0xa0, 0x40)
	d, r := imported(t, "csv", map[string]string{"nodes.csv": "id,x\na,1\na,2\nb\nc,\xe9\nd,5\n",
		"links.csv": "source,target\n", "vectors.npy": string(raw)}, Options{Lenient: true})
	if r.Rejected != 3 || r.Nodes != 2 {
		t.Fatalf("%+v", r)
	}
	v := make([]float32, 1)
	for i, want := range []float32{1, 5} {
		if d.Graph().Vectors().Load(v, int32(i)); v[0] != want {
			t.Errorf("node %d has the vector %v, want %v", i, v, want)
		}
	}
}

// TestSparseRows: rows of a sparse matrix have length 1, doubled entries add up, and float16 is read.
func TestSparseRows(t *testing.T) {
	t.Parallel()
	parts := csr(t, map[string][]byte{
		"indptr": npy("<i8", "(3,)", append(append(make([]byte, 8), 3, 0, 0, 0, 0, 0, 0, 0), 3, 0, 0, 0, 0, 0, 0,
			0)...),
		// 3, 2, 2
		"indices": npy("<i4", "(3,)", int32s(0, 2, 2)...), "data": npy("<f2", "(3,)", 0, 0x42, 0, 0x40, 0, 0x40),
	})
	d, _ := imported(t, "csv", map[string]string{"nodes.csv": "id\na\nb\n", "links.csv": "source,target\n",
		"features.npz": string(parts)}, Options{})
	v := make([]float32, 3)
	if d.Graph().Vectors().Load(v, 0); v[0] != .6 || v[1] != 0 || v[2] != .8 {
		t.Errorf("row 0 is %v", v)
	}
	if d.Graph().Vectors().Load(v, 1); v != nil && (v[0] != 0 || v[1] != 0 || v[2] != 0) {
		t.Errorf("row 1 is %v", v)
	}
}

// TestParquetKinds: ids may be numbers, times may be dates, timestamps or years.
func TestParquetKinds(t *testing.T) {
	t.Parallel()
	type node struct {
		ID   int64  `parquet:"paper_id"`
		Year int32  `parquet:"year"`
		Name string `parquet:"title,optional"`
	}
	type link struct {
		From int32 `parquet:"from"`
		To   int32 `parquet:"to"`
	}
	folder := t.TempDir()
	must(t, parquet.WriteFile(filepath.Join(folder, "nodes.parquet"), []node{{7, 1999, "Seven"}, {8, 2001, ""}}))
	must(t, parquet.WriteFile(filepath.Join(folder, "edges.parquet"), []link{{8, 7}}))
	dir := filepath.Join(t.TempDir(), "d")
	_, err := Import(background, "parquet", dir, Options{Paths: []string{folder}})
	must(t, err)
	want := "7|unknown|Seven|1999-01-01| →\n8|unknown||2001-01-01| → 7\n"
	if got := rowsOf(t, open(t, dir)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	type dated struct {
		ID   string `parquet:"id"`
		Date int32  `parquet:"date,date"`
	}
	path := filepath.Join(folder, "dated.parquet")
	must(t, parquet.WriteFile(path, []dated{{"a", 1}}))
	_, err = Import(background, "parquet", dir, Options{Paths: []string{path}, Force: true})
	must(t, err)
	if got, want := rowsOf(t, open(t, dir)), "a|unknown||1970-01-02| →\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "0001-01-01T00:00:00Z", "1999": "1999-01-01T00:00:00Z", "1999.0": "1999-01-01T00:00:00Z",
		"1999-07": "1999-07-01T00:00:00Z", "1999-07-31": "1999-07-31T00:00:00Z",
		"1999-07-31T12:30:00+02:00": "1999-07-31T10:30:00Z", "1999-07-31 12:30:00": "1999-07-31T12:30:00Z",
		"@86400": "1970-01-02T00:00:00Z", "1999-07-31T12:30:00.25Z": "1999-07-31T12:30:00.25Z",
	} {
		if got, err := parseTime(text); err != nil || got.UTC().Format(time.RFC3339Nano) != want {
			t.Errorf("%q is %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"yesterday", "1999-13", "0", "-5", "19990", "@x"} {
		if got, err := parseTime(text); err == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
}
