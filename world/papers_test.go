package world

import (
	"slices"
	"strings"
	"testing"
)

// Papers have texts with words of their field and of a question that other fields ask too; the same seed gives the same
// papers, oldest first.
func TestPapers(t *testing.T) {
	t.Parallel()
	g, texts, err := Papers(PaperSettings{Nodes: 600, Seed: 4})
	if err != nil {
		t.Fatal(err)
	}
	same, again, err := Papers(PaperSettings{Nodes: 600, Seed: 4})
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := Papers(PaperSettings{Nodes: 600, Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	if g.Len() != 600 || len(texts) != 600 || !slices.Equal(texts, again) || slices.Equal(texts, other) ||
		g.Title(17) != same.Title(17) {
		t.Fatalf("%d papers with %d texts, or the seed does not decide them", g.Len(), len(texts))
	}
	asks := map[string]map[string]bool{} // fields by question
	for i := range int32(600) {
		title, text := strings.ToLower(g.Title(i)), strings.ToLower(texts[i])
		if title == "" || strings.Count(text, ".") != 4 {
			t.Fatalf("paper %d: %q: %q", i, title, text)
		}
		asked := 0
		for _, q := range questions {
			has := func(word string) bool { return strings.Contains(text, word) }
			if !strings.Contains(title, q.name) || !has(q.name) || !has(q.words[0]) || !has(q.words[1]) ||
				!has(q.words[2]) || !has(q.words[3]) {
				continue
			}
			asked++
			if asks[q.name] == nil {
				asks[q.name] = map[string]bool{}
			}
			asks[q.name][g.FieldName(g.Field(i))] = true
		}
		if asked != 1 {
			t.Errorf("paper %d asks %d questions: %q: %q", i, asked, title, text)
		}
		if _, known := g.Time(i); !known || i > 0 && g.Order().Rank[i] < g.Order().Rank[i-1] {
			t.Errorf("paper %d is older than the one before, or has no time", i)
		}
	}
	for _, q := range questions {
		if len(asks[q.name]) < 3 {
			t.Errorf("%s is asked by %d fields", q.name, len(asks[q.name]))
		}
	}
	if _, _, err := Papers(PaperSettings{Nodes: -1}); err == nil {
		t.Error("−1 papers were written")
	}
}
