package encode

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// tokeniserVersion is kept in an encoder's file. It must change with everything below: other terms
// need another encoder.
const tokeniserVersion = "1"

const (
	// longestTerm is in bytes. Longer runs of letters are keys, sequences or noise, not words.
	longestTerm = 64
	// longestPiece is how much text is normalised at once, so that a text of any length needs little memory.
	longestPiece = 1 << 16
)

// tokeniser cuts texts into terms. It keeps its buffers, so one goroutine has one.
type tokeniser struct {
	bigrams bool

	folded []byte // a piece of text in NFKC
	term   []byte // the run being read, in lower case
	pair   []byte // the term before it, a space, and it
	before []byte // the term before it; empty at the start and after a stop word
	emit   func(term []byte)

	script    bool // the run is of a script that is written without spaces
	firstRune int  // bytes of the run's first character where script is set
	runes     int  // in the run
}

// cut calls emit for every term of a text, in order. The term is valid only during the call.
//
// A term is a run of letters, digits and marks after Unicode's NFKC, in lower case. Bytes that are not UTF-8
// end a run as a space does. Single letters, runs of more than 64 bytes and the commonest English words
// are left out. Scripts that put no spaces between words (Chinese, Japanese, Thai, …), and Korean, give
// every two neighbouring characters instead, and a single one itself.
func (t *tokeniser) cut(text string, emit func(term []byte)) {
	t.emit = emit
	t.before = t.before[:0]
	t.reset()
	for len(text) > 0 {
		n := pieceEnd(text)
		piece := text[:n]
		text = text[n:]
		if ascii(piece) {
			for k := 0; k < len(piece); k++ {
				t.ascii(piece[k])
			}
			continue
		}
		t.folded = norm.NFKC.AppendString(t.folded[:0], piece)
		for at := 0; at < len(t.folded); {
			r, size := utf8.DecodeRune(t.folded[at:])
			at += size
			if r < utf8.RuneSelf {
				t.ascii(byte(r))
			} else {
				t.rune(r)
			}
		}
	}
	t.end()
}

// pieceEnd is where the first piece of a text ends: at a byte before which nothing depends on what follows.
func pieceEnd(text string) int {
	if len(text) <= longestPiece {
		return len(text)
	}
	for n := longestPiece; n < len(text); n++ {
		if c := text[n]; c == ' ' || c == '\n' {
			return n
		}
		if n == 2*longestPiece { // no spaces: a letter with its marks may come apart, and nothing worse
			for n < len(text) && !utf8.RuneStart(text[n]) {
				n++
			}
			return n
		}
	}
	return len(text)
}

func ascii(text string) bool {
	for k := 0; k < len(text); k++ {
		if text[k] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func (t *tokeniser) ascii(c byte) {
	switch {
	case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
	case 'A' <= c && c <= 'Z':
		c += 'a' - 'A'
	default:
		t.end()
		return
	}
	if t.script {
		t.end()
	}
	if len(t.term) <= longestTerm {
		t.term = append(t.term, c)
	}
	t.runes++
}

func (t *tokeniser) rune(r rune) {
	switch {
	case unspaced(r):
		t.character(r)
		return
	case unicode.IsLetter(r) || unicode.IsNumber(r):
		if t.script {
			t.end()
		}
	case unicode.IsMark(r) && t.runes > 0:
	default:
		t.end()
		return
	}
	if len(t.term) <= longestTerm {
		t.term = utf8.AppendRune(t.term, unicode.ToLower(r))
	}
	t.runes++
}

// character takes a character of a script without spaces: with the one before it, it is a term.
func (t *tokeniser) character(r rune) {
	if !t.script {
		t.end()
		t.script = true
	}
	if t.runes >= 2 { // the run keeps its last character alone
		t.term = append(t.term[:0], t.term[t.firstRune:]...)
	}
	t.firstRune = len(t.term)
	t.term = utf8.AppendRune(t.term, r)
	if t.runes++; t.runes >= 2 {
		t.emit(t.term)
	}
}

// unspaced reports whether a character is of a script without spaces between words.
func unspaced(r rune) bool {
	if r < 0x0e00 {
		return false
	}
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao,
		unicode.Khmer, unicode.Myanmar)
}

// end finishes the run.
func (t *tokeniser) end() {
	if t.runes == 0 {
		return
	}
	switch {
	case t.script:
		if t.runes == 1 {
			t.emit(t.term)
		}
		t.before = t.before[:0]
	case len(t.term) > longestTerm || len(t.term) == 1:
		t.before = t.before[:0]
	case stopWords[string(t.term)]:
		t.before = t.before[:0]
	default:
		t.emit(t.term)
		if t.bigrams {
			if len(t.before) > 0 {
				t.pair = append(append(append(t.pair[:0], t.before...), ' '), t.term...)
				t.emit(t.pair)
			}
			t.before = append(t.before[:0], t.term...)
		}
	}
	t.reset()
}

func (t *tokeniser) reset() {
	t.term, t.runes, t.script, t.firstRune = t.term[:0], 0, false, 0
}

// stopWords are words that do not indicate the subject of a text.
var stopWords = func() map[string]bool {
	words := map[string]bool{}
	for _, w := range []string{
		"about", "after", "all", "also", "although", "am", "an", "and", "any", "are", "as", "at", "be", "because",
		"been", "before",
		"being", "between", "both", "but", "by", "can", "could", "did", "do", "does", "during", "each", "either",
		"for", "from", "had",
		"has", "have", "he", "her", "here", "his", "how", "however", "if", "in", "into", "is", "it", "its", "may",
		"might", "more", "most",
		"much", "must", "my", "no", "nor", "not", "of", "on", "only", "or", "other", "our", "over", "she", "should",
		"so", "some", "such",
		"than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "through", "thus",
		"to", "under", "until",
		"up", "upon", "us", "very", "was", "we", "were", "what", "when", "where", "whether", "which", "while", "who",
		"whose", "why",
		"will", "with", "within", "without", "would", "you", "your",
	} {
		words[w] = true
	}
	return words
}()
