package exchange

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	s2Papers = `{"corpusid":1,"externalids":{"DOI":"10.1/x"},"title":"On exposure","year":2021,` +
		`"s2fieldsofstudy":[{"category":"Mathematics","source":"external"},{"category":"Computer Science",` +
		`"source":"s2-fos-model"},{"category":"Physics","source":"s2-fos-model"}],` +
		`"publicationdate":"2021-07-18","authors":[{"authorId":"7","name":"A"}]}` + "\n" +
		`{"corpusid":2,"title":"Older","year":1999,"s2fieldsofstudy":[{"category":"History",` +
		`"source":"external"},{"category":"Art","source":"external"}],"publicationdate":null}` + "\n" +
		`{"corpusid":3,"title":null,"year":null,"s2fieldsofstudy":null,"publicationdate":null}` + "\n"
	s2Abstracts = `{"corpusid":2,"openaccessinfo":{"license":null},"abstract":"It was long ago."}
{"corpusid":77,"abstract":"Of another paper."}
{"corpusid":1,"abstract":"` + "é" + `A quote: \"shown\"."}
`
	s2Citations = `{"citationid":1,"citingcorpusid":1,"citedcorpusid":2,"isinfluential":true,` +
		`"contexts":["as in [3]"],"intents":[["background"]]}` + "\n" +
		`{"citationid":2,"citingcorpusid":1,"citedcorpusid":null,"isinfluential":false,"contexts":null,` +
		`"intents":null}` + "\n" +
		`{"citationid":3,"citingcorpusid":null,"citedcorpusid":2,"isinfluential":false}` + "\n" +
		`{"citationid":4,"citingcorpusid":3,"citedcorpusid":88,"isinfluential":false}` + "\n" +
		`{"citationid":5,"citingcorpusid":77,"citedcorpusid":1,"isinfluential":true}` + "\n" +
		`{"citationid":6,"citingcorpusid":3,"citedcorpusid":1,"isinfluential":false}` + "\n"
)

func s2Folder(t testing.TB) string {
	folder := t.TempDir()
	// Names as they are downloaded say nothing.
	write(t, filepath.Join(folder, "a/20230331_0_00001.gz"), s2Citations)
	write(t, filepath.Join(folder, "b/20230331_0_00002.gz"), "\n"+s2Abstracts)
	write(t, filepath.Join(folder, "c/20230331_0_00003.gz"), s2Papers)
	return folder
}

func TestSemanticScholar(t *testing.T) {
	t.Parallel()
	folder := s2Folder(t)
	m := newMemory(t, false)
	must(t, run(t, "semantic-scholar", m, Options{Paths: []string{folder}}))
	want := []NodeRecord{
		{ID: "1", Field: "Computer Science", Title: "On exposure", Text: "éA quote: \"shown\".",
			Time: time.Date(2021, 7, 18, 0, 0, 0, 0, time.UTC)},
		{ID: "2", Field: "History", Title: "Older", Text: "It was long ago.",
			Time: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)},
		{ID: "3"},
	}
	if fmt.Sprint(m.nodes) != fmt.Sprint(want) {
		t.Errorf("nodes\n%+v\nwant\n%+v", m.nodes, want)
	}
	if got := m.edges(); got != "1>2 3>1" {
		t.Errorf("links %s", got)
	}
	for _, note := range []string{"2 citations without a corpusid", "1 of 3 references"} {
		if !m.noted(note) {
			t.Errorf("no note %q in %q", note, m.notes)
		}
	}
	for _, c := range []struct {
		flag, value string
		edges       string
	}{
		{"influential", "true", "1>2"}, {"keep-outside", "true", "1>2 3>88 3>1"}, {"from-year", "1990", "1>2"},
		{"field", "history", ""},
	} {
		m := newMemory(t, false)
		must(t, run(t, "semantic-scholar", m,
			Options{Paths: []string{folder}, Flags: map[string]string{c.flag: c.value}}))
		if m.edges() != c.edges {
			t.Errorf("--%s: links %q, want %q", c.flag, m.edges(), c.edges)
		}
	}
	dir := filepath.Join(t.TempDir(), "d")
	r, err := Import(background, "semantic-scholar", dir, Options{Paths: []string{folder}})
	must(t, err)
	if text, err := open(t, dir).Text(1); err != nil || text != "It was long ago." || r.Nodes != 3 || r.Links != 2 {
		t.Errorf("text %q, %v, report %+v", text, err, r)
	}
	untouched(t, filepath.Dir(dir), "d")
}

// An abstract longer than one read of a recordFile comes back whole.
func TestSemanticScholarLongAbstract(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	long := strings.Repeat("long words ", 3000)
	write(t, filepath.Join(folder, "p.jsonl"), s2Papers)
	write(t, filepath.Join(folder, "a.jsonl"), fmt.Sprintf(`{"corpusid":2,"abstract":"short"}`+"\n"+
		`{"corpusid":1,"abstract":"%s"}`+"\n"+`{"corpusid":3,"abstract":"end"}`, long))
	write(t, filepath.Join(folder, "c.jsonl"), s2Citations)
	m := newMemory(t, false)
	must(t, run(t, "semantic-scholar", m, Options{Paths: []string{folder}}))
	for i, want := range []string{long, "short", "end"} {
		if m.nodes[i].Text != want {
			t.Errorf("text %d has %d bytes, want %d", i, len(m.nodes[i].Text), len(want))
		}
	}
}

func TestSemanticScholarFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, papers, abstracts, citations, says string }{
		{"wrong id", `{"title":"x","corpusid":"7"}`, "", "",
			"p.jsonl, line 1, column 25: bad record: expected a number, found a string"},
		{"no id", `{"title":"x"}`, "", "", "p.jsonl, line 1: bad record: no corpusid"},
		{"negative id", `{"title":"x","corpusid":-5}`, "", "", "or a negative one"},
		{"twice", `{"corpusid":4,"title":"x"}` + "\n" + `{"corpusid":4,"title":"x"}`, "", "",
			"line 2: duplicate id"},
		{"bad date", `{"corpusid":4,"title":"x","publicationdate":"2021"}`, "", "", `"2021" is not a date`},
		{"bad abstract", "", `{"corpusid":1,"abstract":["x"]}`, "",
			"a.jsonl, line 1, column 26: bad record: expected a string, found an array"},
		{"abstract of nothing", "", `{"abstract":"x"}`, "", "no corpusid"},
		{"half a citation", "", "", `{"citingcorpusid":1}`, "no citingcorpusid and citedcorpusid"},
		{"deep citation", "", "", s2Citations + `{"citingcorpusid":1,"contexts":` + strings.Repeat("[", 10001) + "}",
			"c.jsonl, line 7, column 10031: bad record: exceeded max depth"},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			for name, text := range map[string][2]string{"p.jsonl": {c.papers, s2Papers},
				"a.jsonl": {c.abstracts, s2Abstracts}, "c.jsonl": {c.citations, s2Citations}} {
				if text[0] == "" {
					text[0] = text[1]
				}
				write(t, filepath.Join(folder, name), text[0])
			}
			err := run(t, "semantic-scholar", newMemory(t, false), Options{Paths: []string{folder}})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v; want %q", err, c.says)
			}
			m := newMemory(t, true)
			if must(t, run(t, "semantic-scholar", m, Options{Paths: []string{folder}})); len(m.rejects) != 1 {
				t.Errorf("lenient: %v", m.rejects)
			}
		})
	}
	folder := t.TempDir()
	write(t, filepath.Join(folder, "p.jsonl"), s2Papers)
	if err := run(t, "semantic-scholar", newMemory(t, false), Options{Paths: []string{folder}}); !errors.Is(err,
		ErrUsage) || !strings.Contains(err.Error(), "no file of citations") {
		t.Errorf("without citations: %v", err)
	}
	write(t, filepath.Join(folder, "x.jsonl"), `{"authorid":5}`)
	if err := run(t, "semantic-scholar", newMemory(t, false), Options{Paths: []string{folder}}); !errors.Is(err,
		ErrFormat) || !strings.Contains(err.Error(), "neither a paper") {
		t.Errorf("another dataset: %v", err)
	}
}

func BenchmarkSemanticScholar(b *testing.B) {
	folder := b.TempDir()
	var p, a, c bytes.Buffer
	const n = 10000
	for k := range n {
		fmt.Fprintf(&p,
			`{"corpusid":%d,"externalids":{"ACL":null,"DBLP":null,"ArXiv":null,"MAG":"%d","CorpusId":"%d",`+
				`"DOI":"10.1000/%d"},"url":"https://www.semanticscholar.org/paper/%040x",`+
				`"title":"A study of things number %d","authors":[{"authorId":"%d","name":"A. Person"},`+
				`{"authorId":"%d","name":"B. Person"}],"venue":"Journal of Examples","year":%d,`+
				`"referencecount":25,"citationcount":3,"influentialcitationcount":0,"isopenaccess":true,`+
				`"s2fieldsofstudy":[{"category":"Field %d","source":"s2-fos-model"}],`+
				`"publicationtypes":["JournalArticle"],"publicationdate":"%d-02-03","journal":{"name":"J",`+
				`"pages":"1-2","volume":"3"}}`+"\n", k, k, k, k, k, k, k, k+1, 1990+k%30, k%19, 1990+k%30)
		fmt.Fprintf(&a, `{"corpusid":%d,"openaccessinfo":{"externalids":{"DOI":"10.1/x"},"license":null,"url":null,`+
			`"status":null},"abstract":"%s"}`+"\n", n-1-k, strings.Repeat("words of an abstract ", 50))
		for x := range 10 {
			fmt.Fprintf(&c, `{"citationid":%d,"citingcorpusid":%d,"citedcorpusid":%d,"isinfluential":false,`+
				`"contexts":["as was shown by others before [%d]"],"intents":[["background"]]}`+"\n", 10*k+x, k,
				(k*7919+x*104729)%(2*n), x)
		}
	}
	size := 0
	for name, data := range map[string]*bytes.Buffer{"p.jsonl": &p, "a.jsonl": &a, "c.jsonl": &c} {
		must(b, os.WriteFile(filepath.Join(folder, name), data.Bytes(), 0o666))
		size += data.Len()
	}
	b.Run("read", func(b *testing.B) { benchmarkImport(b, "semantic-scholar", []string{folder}, size, 12*n, false) })
	b.Run("dataset", func(b *testing.B) { benchmarkImport(b, "semantic-scholar", []string{folder}, size, 12*n, true) })
}

func FuzzSemanticScholar(f *testing.F) {
	f.Add([]byte(s2Papers), []byte(s2Abstracts), []byte(s2Citations))
	f.Fuzz(func(t *testing.T, papers, abstracts, citations []byte) {
		fuzzFormat(t, "semantic-scholar", map[string][]byte{"p.jsonl": append([]byte(`{"title":"","corpusid":9}`+"\n"),
			papers...), "a.jsonl": append([]byte(`{"abstract":"","corpusid":9}`+"\n"), abstracts...),
			"c.jsonl": append([]byte(`{"citingcorpusid":9,"citedcorpusid":9}`+"\n"), citations...)})
	})
}
