package exchange

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"unseen/internal/jsonscan"
)

// Records come back, in order and by offset, whether they went to disk or not.
func TestShelf(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	s := newRecordFile(newMemory(t, false))
	s.folder = t.TempDir()
	defer untouched(t, s.folder)
	defer s.close()
	var records [][]byte
	var places []int64
	for range 2000 {
		n := r.IntN(300)
		if r.IntN(50) == 0 {
			n = r.IntN(20000)
		}
		record := bytes.Repeat([]byte{byte(r.UintN(256))}, n)
		at, err := s.add(record)
		must(t, err)
		records, places = append(records, record), append(places, at)
	}
	if s.file == nil || len(s.recent) == 0 {
		t.Fatalf("seed %d: nothing on disk, or all", seed)
	}
	k := 0
	must(t, s.each(background, func(record []byte) error {
		if !bytes.Equal(record, records[k]) {
			t.Fatalf("seed %d: record %d came back as %d bytes instead of %d", seed, k, len(record), len(records[k]))
		}
		k++
		return nil
	}))
	if k != len(records) {
		t.Errorf("seed %d: %d records came back of %d", seed, k, len(records))
	}
	buffer := make([]byte, 4096)
	for _, k := range r.Perm(len(records)) {
		if got, err := s.get(places[k], buffer); err != nil || !bytes.Equal(got, records[k]) {
			t.Fatalf("seed %d: record %d came back as %d bytes, %v", seed, k, len(got), err)
		}
	}
	cancelled, cancel := context.WithCancel(background)
	cancel()
	if err := s.each(cancelled, func([]byte) error { return nil }); err == nil {
		t.Error("a cancelled import read on")
	}
}

// The index of a text gives the text back.
func TestInvertedIndexOfAnyText(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	var x inverted
	for range 200 {
		var words []string
		index := map[string][]int{}
		for k := range r.IntN(60) {
			w := fmt.Sprintf("w%d", r.IntN(20))
			words = append(words, w)
			index[w] = append(index[w], k)
		}
		var parts []string
		for w, at := range index {
			parts = append(parts, fmt.Sprintf("%q:%s", w, strings.ReplaceAll(fmt.Sprint(at), " ", ",")))
		}
		plain := "{" + strings.Join(parts, ",") + "}"
		for _, form := range []string{plain, fmt.Sprintf(`{"IndexLength":%d,"InvertedIndex":%s}`, len(words), plain),
			fmt.Sprintf("%q", plain)} {
			var c jsonscan.Scanner
			c.Reset([]byte(form))
			x.read(&c)
			if err := c.End(); err != nil || string(x.text()) != strings.Join(words, " ") {
				t.Fatalf("seed %d: %s gives %q, %v", seed, form, x.text(), err)
			}
		}
	}
}

// FuzzRecords reads a line as each kind of record, without files, which is much faster.
func FuzzRecords(f *testing.F) {
	for _, text := range []string{openAlexNew, openAlexOther, s2Papers, s2Abstracts, s2Citations} {
		for line := range strings.Lines(text) {
			f.Add([]byte(line))
		}
	}
	f.Add([]byte(`{"id":"W1","abstract_inverted_index":"{\"IndexLength\":2,\"InvertedIndex\":{\"a\":[0],` +
		`\"b\":[900]}}"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var c jsonscan.Scanner
		var work openAlexWork
		if err := work.read(&c, line); err == nil {
			work.time()
			if text := work.abstract.text(); utf8.Valid(line) && !utf8.Valid(text) {
				t.Fatalf("the abstract %q is not UTF-8", text)
			}
			for _, id := range work.references {
				if n, ok := openAlexNumber([]byte(openAlexName(id))); !ok || n != id {
					t.Fatalf("the reference %d does not come back", id)
				}
			}
		}
		m := newMemory(t, true)
		o := Options{}
		set, err := newWorks(&o, m, openAlexName)
		must(t, err)
		papers := newWaitingWorks(set)
		defer papers.close()
		r := &semanticScholarReader{set: set, papers: papers, sink: m}
		lines := newLines(bytes.NewReader(line), "papers", Limits{})
		for lines.Next() {
			must(t, r.paper(lines))
		}
		must(t, lines.Err())
		must(t, papers.release(background, nil))
		if len(m.nodes) != len(set.nodes) {
			t.Fatalf("%d nodes of %d papers", len(m.nodes), len(set.nodes))
		}
	})
}
