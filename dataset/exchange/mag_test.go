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

func tabs(rows ...string) string {
	return strings.ReplaceAll(strings.Join(rows, "\r\n"), "|", "\t") + "\n"
}

// A tree with two roots: deep learning is one step from computer science and two from mathematics.
func magFiles() map[string]string {
	return map[string]string{
		"Papers.txt": tabs(
			"101|20000|10.1/x|Journal|on exposure|On Exposure||2021|2021-07-18|Pub||||1||1|2|3|4|5||||2021-01-01",
			"102|20000|||older work|||1999||Pub||||||||||||||",
			"103|20000|||fieldless|Fieldless||||||||||||||||||",
			"104|20000|||strange|Strange||2001|2001-02-03 00:00:00|||||||||||||||",
			"105|20000|||tie|Tie||2001|2001-02-03|||||||||||||||"),
		"PaperReferences.txt": tabs("101|102", "101|999", "104|101", "888|101"),
		"FieldsOfStudy.txt": tabs(
			"1|9|mathematics|Mathematics||0|5|5|2016-06-24",
			"2|9|computer science|Computer science||0|5|5|2016-06-24",
			"3|9|machine learning|Machine learning||1|5|5|2016-06-24",
			"4|9|deep learning|Deep learning||2|5|5|2016-06-24",
			"5|9|statistics|Statistics||1|5|5|2016-06-24",
			"6|9|lost|||3|5|5|2016-06-24",
			"7|9|shared|Shared||1|5|5|2016-06-24"),
		"FieldOfStudyChildren.txt": tabs("1|5", "5|3", "2|3", "3|4", "4|3", "1|7", "2|7"),
		"PaperFieldsOfStudy.txt": tabs(
			"101|1|0.4", "101|4|0.6", "101|6|0.9",
			"102|5|0.5", "104|6|0.1", "104|77|0.9", "105|4|0.5", "105|5|0.5", "105|7|0.5", "999|1|1"),
		"PaperAbstractsInvertedIndex.txt.1": tabs(
			`101|{"IndexLength":3,"InvertedIndex":{"What":[0],"was":[1],"shown":[2]}}`),
		"PaperAbstractsInvertedIndex.txt.2": tabs(`102|{"IndexLength":2,"InvertedIndex":{"ago":[1],"Long":[0]}}`,
			`999|no JSON, and not wanted`),
	}
}

func magFolder(t testing.TB, files map[string]string) string {
	folder := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(folder, "mag", name), text)
	}
	return folder
}

func TestMAG(t *testing.T) {
	t.Parallel()
	m := newMemory(t, false)
	must(t, run(t, "mag", m, Options{Paths: []string{magFolder(t, magFiles())}}))
	want := []NodeRecord{
		{ID: "101", Field: "Computer science", Title: "On Exposure", Text: "What was shown",
			Time: time.Date(2021, 7, 18, 0, 0, 0, 0, time.UTC)},
		{ID: "102", Field: "Mathematics", Title: "older work", Text: "Long ago",
			Time: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)},
		{ID: "103", Title: "Fieldless"},
		{ID: "104", Field: "lost", Title: "Strange", Time: time.Date(2001, 2, 3, 0, 0, 0, 0, time.UTC)},
		{ID: "105", Field: "Computer science", Title: "Tie", Time: time.Date(2001, 2, 3, 0, 0, 0, 0, time.UTC)},
	}
	if fmt.Sprint(m.nodes) != fmt.Sprint(want) {
		t.Errorf("nodes\n%+v\nwant\n%+v", m.nodes, want)
	}
	if got := m.edges(); got != "101>102 104>101" {
		t.Errorf("links %s", got)
	}
	for _, note := range []string{"1 of 3 references", "1 rows of PaperFieldsOfStudy"} {
		if !m.noted(note) {
			t.Errorf("no note %q in %q", note, m.notes)
		}
	}
	for _, c := range []struct {
		flag, value string
		nodes       int
		edges       string
	}{
		{"from-year", "2000", 3, "104>101"}, {"field", "Computer Science;lost", 3, "104>101"},
		{"keep-outside", "true", 6, "101>102 101>999 104>101"},
	} {
		m := newMemory(t, false)
		must(t, run(t, "mag", m, Options{Paths: []string{magFolder(t, magFiles())},
			Flags: map[string]string{c.flag: c.value}}))
		if m.edges() != c.edges || len(m.nodes) != c.nodes {
			t.Errorf("--%s: %d nodes, links %q, want %d, %q", c.flag, len(m.nodes), m.edges(), c.nodes, c.edges)
		}
	}
}

// A field of two roots as near belongs to the first by name, wherever the file lists them.
func TestMAGNearestRoot(t *testing.T) {
	t.Parallel()
	files := magFiles()
	files["PaperFieldsOfStudy.txt"] = tabs("101|7|1", "102|3|1", "103|5|0", "105|4|")
	for _, swap := range []bool{false, true} {
		if swap {
			files["FieldOfStudyChildren.txt"] = tabs("2|7", "1|7", "4|3", "3|4", "2|3", "5|3", "1|5")
		}
		m := newMemory(t, false)
		must(t, run(t, "mag", m, Options{Paths: []string{magFolder(t, files)}}))
		for i, want := range []string{"Computer science", "Computer science", "Mathematics", "", "Computer science"} {
			if m.nodes[i].Field != want {
				t.Errorf("swapped %v: the field of %s is %q, want %q", swap, m.nodes[i].ID, m.nodes[i].Field, want)
			}
		}
	}
}

func TestMAGFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ table, row, says string }{
		{"Papers.txt", "7|1|2", "3 columns, want 9"},
		{"Papers.txt", "PaperId|Rank|Doi|DocType|PaperTitle|OriginalTitle|BookTitle|Year|Date|x",
			"an id is not a number"},
		{"Papers.txt", "-7|1|||a|A||2001|||||", "an id is not a number"},
		{"Papers.txt", "101|1|||a|A||2001|||||", "duplicate id"},
		{"Papers.txt", "7|1|||a|A||2001|yesterday|||||", `the Date "yesterday"`},
		{"Papers.txt", "7|1|||a|A||MMXX||||||", `the Year "MMXX"`},
		{"PaperReferences.txt", "101|x", "an id is not a number"},
		{"PaperReferences.txt", "101", "1 columns, want 2"},
		{"FieldsOfStudy.txt", "8|9|a|A||x|", "an id is not a number"},
		{"FieldsOfStudy.txt", "1|9|a|A||0|", "duplicate id"},
		{"PaperFieldsOfStudy.txt", "101|1|NaN", `the Score "NaN"`},
		{"PaperAbstractsInvertedIndex.txt.2", `101|{"IndexLength":1,"InvertedIndex":{"a":[-3]}}`,
			"column 46: bad record: a word of the abstract has the position -3"},
		{"PaperAbstractsInvertedIndex.txt.2", `101|{"IndexLength":1,"InvertedIndex":{"a":[1099511627776]}}`,
			"position 1099511627776"},
	} {
		files := magFiles()
		files[c.table] += tabs(c.row)
		folder := magFolder(t, files)
		line := fmt.Sprintf("%s, line %d", c.table, strings.Count(files[c.table], "\n"))
		err := run(t, "mag", newMemory(t, false), Options{Paths: []string{folder}})
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), line) {
			t.Errorf("%v; want %q in %s", err, c.says, line)
		}
		m := newMemory(t, true)
		if must(t, run(t, "mag", m, Options{Paths: []string{folder}})); len(m.rejects) != 1 {
			t.Errorf("lenient: %v", m.rejects)
		}
	}
	files := magFiles()
	delete(files, "PaperReferences.txt")
	if err := run(t, "mag", newMemory(t, false), Options{Paths: []string{magFolder(t, files)}}); !errors.Is(err,
		ErrUsage) || !strings.Contains(err.Error(), "PaperReferences.txt") {
		t.Errorf("without references: %v", err)
	}
}

func BenchmarkMAG(b *testing.B) {
	folder := b.TempDir()
	const n = 10000
	var papers, references, fields, abstracts bytes.Buffer
	for k := range n {
		fmt.Fprintf(&papers, "%d\t20000\t10.1000/%d\tJournal\ta study of things number %d\tA Study of Things "+
			"Number %d\t\t%d\t%d-01-02\tPublisher\t1\t\t\t3\t4\t5\t6\t7\t8\t9\tJournal of Examples\t\t2016-01-01\n", k,
			k, k, k, 1990+k%30, 1990+k%30)
		for x := range 10 {
			fmt.Fprintf(&references, "%d\t%d\n", k, (k*7919+x*104729)%(2*n))
		}
		for x := range 8 {
			fmt.Fprintf(&fields, "%d\t%d\t0.%d\n", k, 1+(k+x)%7, 100+x)
		}
		fmt.Fprintf(&abstracts, "%d\t{\"IndexLength\":180,\"InvertedIndex\":{", k)
		for x := range 90 {
			if x > 0 {
				abstracts.WriteByte(',')
			}
			fmt.Fprintf(&abstracts, `"word%d":[%d,%d]`, x, x, 90+x)
		}
		abstracts.WriteString("}}\n")
	}
	size := 0
	for name, data := range map[string][]byte{"Papers.txt": papers.Bytes(), "PaperReferences.txt": references.Bytes(),
		"PaperFieldsOfStudy.txt":          fields.Bytes(),
		"PaperAbstractsInvertedIndex.txt": abstracts.Bytes(),
		"FieldsOfStudy.txt":               []byte(magFiles()["FieldsOfStudy.txt"]),
		"FieldOfStudyChildren.txt":        []byte(magFiles()["FieldOfStudyChildren.txt"])} {
		must(b, os.WriteFile(filepath.Join(folder, name), data, 0o666))
		size += len(data)
	}
	b.Run("read", func(b *testing.B) { benchmarkImport(b, "mag", []string{folder}, size, 20*n, false) })
	b.Run("dataset", func(b *testing.B) { benchmarkImport(b, "mag", []string{folder}, size, 20*n, true) })
}

func FuzzMAG(f *testing.F) {
	files := magFiles()
	f.Add([]byte(files["Papers.txt"]), []byte(files["PaperReferences.txt"]),
		[]byte(files["FieldsOfStudy.txt"]+"\n\n"+files["FieldOfStudyChildren.txt"]),
		[]byte(files["PaperFieldsOfStudy.txt"]),
		[]byte(files["PaperAbstractsInvertedIndex.txt.1"]))
	f.Fuzz(func(t *testing.T, papers, references, tree, of, abstracts []byte) {
		fields, children, _ := bytes.Cut(tree, []byte("\n\n"))
		fuzzFormat(t, "mag", map[string][]byte{"Papers.txt": papers, "PaperReferences.txt": references,
			"FieldsOfStudy.txt": fields, "FieldOfStudyChildren.txt": children, "PaperFieldsOfStudy.txt": of,
			"PaperAbstractsInvertedIndex.txt": abstracts})
	})
}
