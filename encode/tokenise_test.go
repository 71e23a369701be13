package encode

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// termsOf cuts a text.
func termsOf(text string, bigrams bool) (terms []string) {
	t := tokeniser{bigrams: bigrams}
	t.cut(text, func(term []byte) { terms = append(terms, string(term)) })
	return terms
}

func TestTerms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                               "",
		" \t\n.,;—":                      "",
		"The Cell's lipid-droplets":      "cell|lipid|droplets",
		"CRISPR/Cas9 in E. coli (K-12)":  "crispr|cas9|coli|12",
		"a I x 7":                        "",
		"Gödel e\u0301tude ÉTUDE":        "gödel|étude|étude",
		"ﬁlament ①② ＡＢＣ ²H":              "filament|12|abc|2h",
		"Привет мир":                     "привет|мир",
		"हिन्दी में":                     "हिन्दी|में",
		"日本語":                            "日本|本語",
		"中 文":                            "中|文",
		"DNA中文gene":                      "dna|中文|gene",
		"한국어":                            "한국|국어",
		"bad\xff\xfebytes\xc3":           "bad|bytes",
		"\u0301mark first":               "mark|first",
		"nul\x00byte":                    "nul|byte",
		strings.Repeat("x", 64):          strings.Repeat("x", 64),
		strings.Repeat("x", 65):          "",
		strings.Repeat("é", 200) + " ok": "ok",
	} {
		if got := strings.Join(termsOf(text, false), "|"); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
	if got := strings.Join(termsOf("gene of gene drive a drive", true),
		"|"); got != "gene|gene|drive|gene drive|drive" {
		t.Errorf("pairs: %q", got)
	}
}

// A text that is cut into pieces gives what it would give whole.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	words := []string{"alpha", "beta2", "Ünïcode", "e\u0301", "ﬁn", "日本語", "gamma"}
	var text strings.Builder
	var want []string
	for k := 0; text.Len() < 5*longestPiece; k++ {
		w := words[k%len(words)]
		text.WriteString(w + " ")
		want = append(want, termsOf(w, false)...)
	}
	if got := termsOf(text.String(), false); !slices.Equal(got, want) {
		t.Errorf("%d terms, want %d", len(got), len(want))
	}
	// without any space, nothing breaks
	if got := termsOf(strings.Repeat("語日", 3*longestPiece), false); len(got) != 6*longestPiece-1 {
		t.Errorf("%d terms", len(got))
	}
	if got := termsOf(strings.Repeat("\u0301", 3*longestPiece), false); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

func FuzzTokenise(f *testing.F) {
	for _, text := range []string{"", "The Cell's DNA", "e\u0301 ﬁ ＡＢ ①", "日本語DNA한국", "\xff\xfe",
		"a\u0301\u0302\u0303", strings.Repeat("x", 70)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		terms := termsOf(text, true)
		for _, term := range terms {
			if term == "" || !utf8.ValidString(term) || len(term) > 2*longestTerm+1 ||
				strings.ContainsAny(term, "\n\t.,;") {
				t.Errorf("%q gives the term %q", text, term)
			}
		}
		// another tokeniser's buffers do not matter, nor does what was cut before
		again := tokeniser{bigrams: true}
		again.cut("something 別の else", func([]byte) {})
		var second []string
		again.cut(text, func(term []byte) { second = append(second, string(term)) })
		if !slices.Equal(terms, second) {
			t.Errorf("%q gives %q and then %q", text, terms, second)
		}
	})
}
