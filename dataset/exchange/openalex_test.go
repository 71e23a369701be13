package exchange

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"unseen/dataset"
)

// memory is a Sink that keeps what it gets, and checks that a format follows the rules.
type memory struct {
	Sink    // nil: calls that no format here makes
	t       testing.TB
	lenient bool
	nodes   []NodeRecord
	byID    map[string]int32
	links   [][2]int32
	vectors map[int32][]float32
	shown   []ExposureRecord
	rejects []error
	places  []Place
	notes   []string
}

func newMemory(t testing.TB, lenient bool) *memory {
	return &memory{t: t, lenient: lenient, byID: map[string]int32{}, vectors: map[int32][]float32{}}
}

func (m *memory) Node(n NodeRecord, at Place) (int32, error) {
	if _, twice := m.byID[n.ID]; twice || n.ID == "" {
		return -1, m.Reject(at, ErrDuplicateNode, nil)
	}
	n.ID, n.Field, n.Title, n.Text = strings.Clone(n.ID), strings.Clone(n.Field), strings.Clone(n.Title),
		strings.Clone(n.Text)
	m.byID[n.ID] = int32(len(m.nodes))
	m.nodes = append(m.nodes, n)
	return int32(len(m.nodes) - 1), nil
}
func (m *memory) EndNodes() {}
func (m *memory) Link(source, target string, at Place) error {
	from, ok := m.byID[source]
	to, also := m.byID[target]
	if !ok || !also {
		return m.Reject(at, ErrUnknownNode, nil)
	}
	return m.LinkIndex(from, to, at)
}
func (m *memory) LinkIndex(source, target int32, _ Place) error {
	if source < 0 || target < 0 || int(source) >= len(m.nodes) || int(target) >= len(m.nodes) {
		m.t.Errorf("a link from %d to %d among %d nodes", source, target, len(m.nodes))
	}
	m.links = append(m.links, [2]int32{source, target})
	return nil
}
func (m *memory) Exposure(e ExposureRecord, _ Place) error { m.shown = append(m.shown, e); return nil }
func (m *memory) Vector(node int32, v []float32, _ Place) error {
	m.vectors[node] = append([]float32(nil), v...)
	return nil
}
func (m *memory) Reject(at Place, reason error, record []byte) error {
	m.rejects, m.places = append(m.rejects, reason), append(m.places, at)
	if len(record) > 1000 {
		m.t.Errorf("a reject of %d bytes", len(record))
	}
	if !m.lenient {
		return &Error{at, reason}
	}
	return nil
}
func (m *memory) Note(format string, a ...any) { m.notes = append(m.notes, fmt.Sprintf(format, a...)) }

// edges returns the links by id, in their order.
func (m *memory) edges() string {
	var b strings.Builder
	for _, l := range m.links {
		fmt.Fprintf(&b, "%s>%s ", m.nodes[l[0]].ID, m.nodes[l[1]].ID)
	}
	return strings.TrimSpace(b.String())
}

// noted reports whether a note has a text.
func (m *memory) noted(text string) bool { return strings.Contains(strings.Join(m.notes, "\n"), text) }

// write writes a file, packed if its name says so, and returns its path.
func write(t testing.TB, path, content string) string {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o777))
	data := []byte(content)
	if strings.HasSuffix(path, ".gz") {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		w.Write(data)
		must(t, w.Close())
		data = b.Bytes()
	}
	must(t, os.WriteFile(path, data, 0o666))
	return path
}

func run(t testing.TB, format string, s Sink, o Options) error {
	t.Helper()
	f, known := Lookup(format)
	if !known {
		t.Fatalf("no format %s", format)
	}
	o.format = &f
	return f.Import(background, o, s)
}

const openAlexNew = `{"id":"https://openalex.org/W10","doi":null,"title":"Exposure bias",` +
	`"display_name":"Exposure bias",` +
	`"publication_year":2021,"publication_date":"2021-07-18",` +
	`"primary_topic":{"id":"https://openalex.org/T1","display_name":"Recommenders","score":0.9,` +
	`"subfield":{"display_name":"Information Systems"},"field":{"id":"https://openalex.org/fields/17",` +
	`"display_name":"Computer Science"},"domain":{"display_name":"Physical Sciences"}},` +
	`"concepts":[{"display_name":"Art","level":0,"score":0.99}],` +
	`"authorships":[{"author":{"display_name":"A. Name"}}],"referenced_works":["https://openalex.org/W11",` +
	`"https://openalex.org/W12","https://openalex.org/W99"],"abstract_inverted_index":{"shown":[1,4],` +
	`"What":[0],"is":[2],"not":[3],"🐢\n":[5]},"is_retracted":false,"is_paratext":false}` + "\n" +
	`{"id":"https://openalex.org/W11","title":null,"display_name":"Older work","publication_year":2009,` +
	`"publication_date":null,"concepts":[{"display_name":"Deep things","level":2,"score":0.9},` +
	`{"display_name":"Physics","level":0,"score":"0.3"},{"display_name":"Chemistry","level":0,"score":0.3},` +
	`{"display_name":"Biology","level":0,"score":0.1}],"referenced_works":[],` +
	`"abstract_inverted_index":null}` + "\n"
const openAlexOther = `{"id":"W12","title":"Withdrawn","is_retracted":true,"publication_year":2015}
{"id":"W13","title":"Contents","is_paratext":true,"publication_year":2015}

{"id":"W14","title":"Plain","publication_year":null,"referenced_works":["W10","w11","W14"]}
{"id":"W10","title":"An old record of the same","publication_year":2020}
`

func openAlexFolder(t testing.TB) string {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "data/works/updated_date=2023-05-01/part_000.gz"), openAlexOther)
	write(t, filepath.Join(folder, "data/works/updated_date=2024-01-15/part_000.gz"), openAlexNew)
	write(t, filepath.Join(folder, "data/works/manifest"), `{"entries":[]}`)
	write(t, filepath.Join(folder, "data/authors/updated_date=2024-01-15/part_000.gz"),
		`{"id":"https://openalex.org/A5"}`)
	write(t, filepath.Join(folder, "RELEASE_NOTES.txt"), "notes")
	return folder
}

func TestOpenAlex(t *testing.T) {
	t.Parallel()
	m := newMemory(t, false)
	must(t, run(t, "openalex", m, Options{Paths: []string{openAlexFolder(t)}}))
	want := []NodeRecord{
		{ID: "W10", Field: "Computer Science", Title: "Exposure bias", Text: "What shown is not shown 🐢\n",
			Time: time.Date(2021, 7, 18, 0, 0, 0, 0, time.UTC)},
		{ID: "W11", Field: "Chemistry", Title: "Older work", Time: time.Date(2009, 1, 1, 0, 0, 0, 0, time.UTC)},
		{ID: "W14", Title: "Plain"},
	}
	if fmt.Sprint(m.nodes) != fmt.Sprint(want) {
		t.Errorf("nodes\n%+v\nwant\n%+v", m.nodes, want)
	}
	if got := m.edges(); got != "W10>W11 W14>W10 W14>W11 W14>W14" {
		t.Errorf("links %s", got)
	}
	for _, note := range []string{"1 retracted work and 1 work of paratext", "1 repetition of a work",
		"2 of 6 references"} {
		if !m.noted(note) {
			t.Errorf("no note %q in %q", note, m.notes)
		}
	}
}

func TestOpenAlexFlags(t *testing.T) {
	t.Parallel()
	folder := openAlexFolder(t)
	for _, c := range []struct {
		flags        map[string]string
		nodes, links int
		note         string
	}{
		{map[string]string{"keep-retracted": "true"}, 4, 5, "1 of 6 references"},
		{map[string]string{"keep-paratext": "true"}, 4, 4, "2 of 6"},
		{map[string]string{"keep-outside": "true"}, 5, 6, "Made 2 nodes of references"},
		{map[string]string{"from-year": "2010"}, 1, 0, "Skipped 2 works by fromYear"},
		{map[string]string{"to-year": "2010"}, 1, 0, "Skipped 3 works"},
		{map[string]string{"field": "computer science; chemistry"}, 2, 1, "Skipped 2 works"},
	} {
		m := newMemory(t, false)
		must(t, run(t, "openalex", m, Options{Paths: []string{folder}, Flags: c.flags}))
		if len(m.nodes) != c.nodes || len(m.links) != c.links || !m.noted(c.note) {
			t.Errorf("%v: %d nodes, %d links, notes %q; want %d, %d, %q", c.flags, len(m.nodes), len(m.links), m.notes,
				c.nodes, c.links, c.note)
		}
	}
	for _, flags := range []map[string]string{{"from-year": "x"}, {"from-year": "2011", "to-year": "2010"}} {
		if err := run(t, "openalex", newMemory(t, false),
			Options{Paths: []string{folder}, Flags: flags}); !errors.Is(err, ErrUsage) {
			t.Errorf("%v: %v", flags, err)
		}
	}
}

func TestOpenAlexBecomesDataset(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	r, err := Import(background, "openalex", dir, Options{Paths: []string{openAlexFolder(t)}})
	must(t, err)
	if r.Nodes != 3 || r.Links != 3 || r.SelfLinks != 1 || r.Fields != 2 {
		t.Errorf("report %+v", r)
	}
	d := open(t, dir)
	if text, err := d.Text(0); err != nil || !strings.HasPrefix(text, "What shown is not shown") {
		t.Errorf("text %q, %v", text, err)
	}
	untouched(t, filepath.Dir(dir), "d")
}

func TestOpenAlexFaults(t *testing.T) {
	t.Parallel()
	good := `{"id":"W1"}` + "\n"
	for _, c := range []struct {
		name, line string
		column     int
		says       string
	}{
		{"no JSON", `{"id":"W2"`, 11, "unexpected EOF"},
		{"wrong type", `{"id":2}`, 7, "expected a string, found a number"},
		{"list", `[1]`, 1, "expected an object"},
		{"other record", `{"id":"https://openalex.org/A5"}`, 0, "not a work of OpenAlex"},
		{"no id", `{"title":"x"}`, 0, "not a work of OpenAlex"},
		{"long id", `{"id":"W99999999999999999999999"}`, 0, "not a work"},
		{"negative position", `{"id":"W2","abstract_inverted_index":{"a":[-1]}}`, 46, "position -1"},
		{"absurd position", `{"id":"W2","abstract_inverted_index":{"a":[1099511627776]}}`, 57,
			"position 1099511627776"},
		{"position too large", `{"id":"W2","abstract_inverted_index":{"a":[1e400]}}`, 0, "whole number"},
		{"positions no list", `{"id":"W2","abstract_inverted_index":{"a":7}}`, 0, "no list of positions"},
		{"bad date", `{"id":"W2","publication_date":"soon"}`, 0, `"soon" is not a date`},
		{"bad reference", `{"id":"W2","referenced_works":["https://openalex.org/A1"]}`, 0, "reference"},
		{"reference no text", `{"id":"W2","referenced_works":[5]}`, 32, "expected a string, found a number"},
		{"year no number", `{"id":"W2","publication_year":"2020"}`, 31, "expected a number, found a string"},
		{"deep", `{"id":"W2","x":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `}`, 0,
			"max depth"},
		{"control", "{\"id\":\"W2\x01\"}", 10, "control character"},
		{"trailing", `{"id":"W2"} {"id":"W3"}`, 12, "more data"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write(t, filepath.Join(t.TempDir(), "w.jsonl"), good+c.line+"\n"+`{"id":"W7"}`)
			err := run(t, "openalex", newMemory(t, false), Options{Paths: []string{path}})
			var e *Error
			if !errors.As(err, &e) || !errors.Is(err, ErrFormat) || e.Place.Line != 2 || c.column > 0 &&
				e.Place.Column != c.column || !strings.Contains(err.Error(), c.says) ||
				!hinted(err) {
				t.Errorf("%+v; want line 2, column %d, %q", err, c.column, c.says)
			}
			m := newMemory(t, true)
			must(t, run(t, "openalex", m, Options{Paths: []string{path}}))
			if _, found := m.byID["W7"]; !found || len(m.rejects) != 1 {
				t.Errorf("lenient: %v, rejects %v", m.nodes, m.rejects)
			}
		})
	}
}

func TestOpenAlexHostileFiles(t *testing.T) {
	folder := t.TempDir()
	whole := write(t, filepath.Join(folder, "w.jsonl.gz"), openAlexNew)
	data, err := os.ReadFile(whole)
	must(t, err)
	cut := filepath.Join(folder, "cut.jsonl.gz")
	must(t, os.WriteFile(cut, data[:len(data)-20], 0o666))
	if err := run(t, "openalex", newMemory(t, true), Options{Paths: []string{cut}}); !errors.Is(err, ErrTruncated) {
		t.Errorf("a cut file: %v", err)
	}
	for _, path := range []string{filepath.Join(folder, "none"), t.TempDir()} {
		if err := run(t, "openalex", newMemory(t, true), Options{Paths: []string{path}}); err == nil {
			t.Errorf("%s was read", path)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "records-*")); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}

// A line of a gigabyte, which takes no room on a disk that knows holes, is passed over in little memory.
func TestOpenAlexEndlessLine(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "long.jsonl"), `{"id":"W1"}`+"\n")
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = file.WriteAt([]byte("\n"+`{"id":"W3"}`+"\n"), 1<<30)
	must(t, err)
	must(t, file.Close())
	o := Options{Paths: []string{path}, Limits: Limits{Record: 1 << 20}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m := newMemory(t, true)
	must(t, run(t, "openalex", m, o))
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 16<<20 {
		t.Errorf("it took %d MiB", (after.TotalAlloc-before.TotalAlloc)>>20)
	}
	if len(m.nodes) != 2 || len(m.rejects) != 1 || !errors.Is(m.rejects[0], ErrTooLong) || m.places[0].Line != 2 {
		t.Errorf("nodes %v, rejects %v at %v", m.nodes, m.rejects, m.places)
	}
}

// A sparse index is put together as a dense one is.
func TestInvertedIndexWithGaps(t *testing.T) {
	t.Parallel()
	for _, gap := range []int{1, 3, 1000} {
		line := fmt.Sprintf(`{"id":"W1","abstract_inverted_index":{"b":[%d,%d],"a":[0],"c":[%d]}}`, gap, 3*gap, 2*gap)
		m := newMemory(t, false)
		must(t, run(t, "openalex", m, Options{Paths: []string{write(t, filepath.Join(t.TempDir(), "w.jsonl"), line)}}))
		if m.nodes[0].Text != "a b c b" {
			t.Errorf("gap %d: %q", gap, m.nodes[0].Text)
		}
	}
}

// manyWorks writes realistic lines: most of a work's bytes are things that are not wanted.
func manyWorks(n int) []byte {
	r := rand.New(rand.NewPCG(7, 7))
	var b bytes.Buffer
	for k := range n {
		fmt.Fprintf(&b, `{"id":"https://openalex.org/W%d","doi":"https://doi.org/10.1000/%d",`+
			`"title":"A study of things number %d","display_name":"A study of things number %d",`+
			`"publication_year":%d,"publication_date":"%d-03-0%d",`+
			`"ids":{"openalex":"https://openalex.org/W%d","mag":"%d"},"language":"en","type":"article",`+
			`"authorships":[`, k, k, k, k, 1990+k%30, 1990+k%30, 1+k%9, k, k)
		for a := range 3 {
			if a > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"author_position":"middle","author":{"id":"https://openalex.org/A%d",`+
				`"display_name":"Person No. %d","orcid":null},"institutions":[{"id":"https://openalex.org/I`+
				`%d","display_name":"University of Examples","ror":"https://ror.org/0%d",`+
				`"country_code":"XX","type":"education","lineage":["https://openalex.org/I%d"]}],`+
				`"countries":["XX"],"is_corresponding":false,"raw_affiliation_strings":["Department of `+
				`Examples, University of Examples, Exampletown"]}`, a, a, a, a, a)
		}
		fmt.Fprintf(&b, `],"primary_topic":{"id":"https://openalex.org/T%d","display_name":"Topic","score":0.99,`+
			`"subfield":{"id":"https://openalex.org/subfields/1","display_name":"Sub"},`+
			`"field":{"id":"https://openalex.org/fields/%d","display_name":"Field %d"},`+
			`"domain":{"display_name":"D"}},"is_retracted":false,"is_paratext":false,`+
			`"counts_by_year":[{"year":2023,"cited_by_count":4},{"year":2022,"cited_by_count":7}],`+
			`"referenced_works":[`, k, k%19, k%19)
		for x := range 25 {
			if x > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `"https://openalex.org/W%d"`, r.IntN(4*n))
		}
		b.WriteString(`],"abstract_inverted_index":{`)
		for x := range 90 {
			if x > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `"word%d":[%d,%d]`, x, x, 90+x)
		}
		b.WriteString("}}\n")
	}
	return b.Bytes()
}

func BenchmarkOpenAlex(b *testing.B) {
	path := filepath.Join(b.TempDir(), "w.jsonl")
	const n = 5000
	data := manyWorks(n)
	must(b, os.WriteFile(path, data, 0o666))
	b.Run("read", func(b *testing.B) { benchmarkImport(b, "openalex", []string{path}, len(data), n, false) })
	b.Run("dataset", func(b *testing.B) { benchmarkImport(b, "openalex", []string{path}, len(data), n, true) })
}

// nothing is a Sink that only counts.
type nothing struct{ memory }

func (n *nothing) Node(NodeRecord, Place) (int32, error) {
	n.nodes = n.nodes[:0]
	n.links = nil
	return 0, nil
}
func (n *nothing) LinkIndex(int32, int32, Place) error  { return nil }
func (n *nothing) Exposure(ExposureRecord, Place) error { return nil }
func (n *nothing) Vector(int32, []float32, Place) error { return nil }
func (n *nothing) Note(string, ...any)                  {}

func benchmarkImport(b *testing.B, format string, paths []string, size, records int, whole bool) {
	b.SetBytes(int64(size))
	b.ReportAllocs()
	dir := filepath.Join(b.TempDir(), "d")
	for b.Loop() {
		if whole {
			_, err := Import(background, format, dir, Options{Paths: paths, Force: true})
			must(b, err)
		} else {
			must(b, run(b, format, &nothing{memory{t: b}}, Options{Paths: paths}))
		}
	}
	b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

func FuzzOpenAlex(f *testing.F) {
	for _, s := range []string{openAlexNew, openAlexOther,
		`{"id":"W1","abstract_inverted_index":"{\"IndexLength\":2,\"InvertedIndex\":{\"a\":[0],\"b\":[1]}}"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) { fuzzFormat(t, "openalex", map[string][]byte{"w.jsonl": data}) })
}

// fuzzFormat imports files leniently, which must end well or with an Error, and the same twice.
func fuzzFormat(t *testing.T, format string, files map[string][]byte) {
	folder := t.TempDir()
	for name, data := range files {
		must(t, os.WriteFile(filepath.Join(folder, name), data, 0o666))
	}
	o := Options{Paths: []string{folder}, Limits: Limits{Record: 1 << 16}, Lenient: true}
	first := newMemory(t, true)
	err := run(t, format, first, o)
	var e *Error
	if err != nil && !errors.As(err, &e) && !errors.Is(err, dataset.ErrFormat) {
		t.Fatalf("an error of another kind: %v", err)
	}
	for _, p := range first.places {
		if p.File == "" {
			t.Fatalf("a reject without a file: %v", first.rejects)
		}
	}
	again := newMemory(t, true)
	if err2 := run(t, format, again, o); fmt.Sprint(err) != fmt.Sprint(err2) ||
		fmt.Sprint(first.nodes, first.links, first.rejects) != fmt.Sprint(again.nodes, again.links, again.rejects) {
		t.Fatalf("two imports differ: %v %v", err, err2)
	}
}

func TestParseOpenAlexWork(t *testing.T) {
	t.Parallel()
	w, err := ParseOpenAlexWork([]byte(
		`{"id":"https://openalex.org/W2","title":"New","publication_date":"2021-07-18",` +
			`"primary_topic":{"field":{"display_name":"Computer Science"}},"is_retracted":true,` +
			`"referenced_works":["https://openalex.org/W1","nothing","https://openalex.org/W9"],` +
			`"abstract_inverted_index":{"shown":[1],"Not":[0]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if w.ID() != "W2" || w.Title != "New" || w.Text != "Not shown" || w.Field != "Computer Science" || !w.Retracted ||
		w.Paratext || w.Time.Year() != 2021 || len(w.References) != 2 || w.References[1] != 9 {
		t.Errorf("read %+v", w)
	}
	for _, line := range []string{`{"id":`, `{"id":"https://openalex.org/A5"}`,
		`{"id":"W5","publication_date":"yesterday"}`} {
		if _, err := ParseOpenAlexWork([]byte(line)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s gives %v", line, err)
		}
	}
}
