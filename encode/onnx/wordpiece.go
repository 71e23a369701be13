package onnx

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// wordPiece splits a text into the tokens of a BERT model, as its tokenizer.json says:
//
//	clean and fold ──► words and punctuation ──► the longest pieces that the vocabulary has ──► [CLS] … [SEP]
//
// Names of special tokens within a text are plain text, so that no text can end its sequence.
type wordPiece struct {
	vocabulary            map[string]int64
	continuing            string // put before a piece that is not a word's first: "##"
	longest               int    // characters of a word; a longer one is unknown
	unknown, padding      int64
	before, after         []int64 // special tokens around a text
	truncation            int     // tokens that the file itself allows; 0 when it says nothing
	clean, chinese, lower bool
	accents               bool // strip them
}

// tokenizerKind names the implementation of a part of a tokenizer.
type tokenizerKind struct {
	Type string `json:"type"`
}

// tokenizerJSON is what is read of tokenizer.json.
type tokenizerJSON struct {
	Truncation *struct {
		MaxLength int `json:"max_length"`
	} `json:"truncation"`
	Padding *struct {
		ID int64 `json:"pad_id"`
	} `json:"padding"`
	Normalizer *struct {
		tokenizerKind
		Clean   bool  `json:"clean_text"`
		Chinese bool  `json:"handle_chinese_chars"`
		Accents *bool `json:"strip_accents"`
		Lower   bool  `json:"lowercase"`
	} `json:"normalizer"`
	PreTokenizer  *tokenizerKind     `json:"pre_tokenizer"`
	PostProcessor *postProcessorJSON `json:"post_processor"`
	Model         struct {
		tokenizerKind
		Unknown    string          `json:"unk_token"`
		Continuing string          `json:"continuing_subword_prefix"`
		Longest    int             `json:"max_input_chars_per_word"`
		Vocabulary json.RawMessage `json:"vocab"`
	} `json:"model"`
}

// postProcessorJSON says which special tokens are around a text.
type postProcessorJSON struct {
	tokenizerKind
	Single []struct {
		SpecialToken *struct {
			ID string `json:"id"`
		}
		Sequence *struct {
			ID string `json:"id"`
		}
	} `json:"single"`
	Special map[string]struct {
		IDs []int64 `json:"ids"`
	} `json:"special_tokens"`
	Sep []any `json:"sep"`
	Cls []any `json:"cls"`
}

// parseTokenizer reads tokenizer.json.
func parseTokenizer(raw []byte) (*wordPiece, error) {
	var file tokenizerJSON
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, fmt.Errorf("not the JSON of a tokenizer: %w", err)
	}
	switch {
	case file.Model.Type != "WordPiece" && (file.Model.Type != "" || file.Model.Continuing == ""):
		return nil, fmt.Errorf("its model is %.40q; only WordPiece, as in BERT, is supported", file.Model.Type)
	case file.Normalizer == nil || file.Normalizer.Type != "BertNormalizer":
		return nil, errors.New("its normalizer is not BertNormalizer, the only one supported")
	case file.PreTokenizer == nil || file.PreTokenizer.Type != "BertPreTokenizer":
		return nil, errors.New("its pre_tokenizer is not BertPreTokenizer, the only one supported")
	case file.PostProcessor == nil:
		return nil, errors.New("it has no post_processor, so the special tokens are unknown")
	}
	t := &wordPiece{
		continuing: file.Model.Continuing, longest: file.Model.Longest,
		clean: file.Normalizer.Clean, chinese: file.Normalizer.Chinese, lower: file.Normalizer.Lower,
		accents: file.Normalizer.Lower,
	}
	if file.Normalizer.Accents != nil {
		t.accents = *file.Normalizer.Accents
	}
	if t.longest <= 0 {
		t.longest = 100
	}
	if err := json.Unmarshal(file.Model.Vocabulary, &t.vocabulary); err != nil || len(t.vocabulary) == 0 {
		return nil, errors.New("its vocabulary is not a table of pieces and numbers")
	}
	for _, piece := range slices.Sorted(maps.Keys(t.vocabulary)) {
		if id := t.vocabulary[piece]; id < 0 {
			return nil, fmt.Errorf("its vocabulary gives %.40q the number %d", piece, id)
		}
	}
	var known bool
	if t.unknown, known = t.vocabulary[file.Model.Unknown]; !known {
		return nil, fmt.Errorf("its vocabulary lacks the unknown token %.40q", file.Model.Unknown)
	}
	t.padding = t.vocabulary["[PAD]"]
	if file.Padding != nil {
		t.padding = file.Padding.ID
	}
	if file.Truncation != nil {
		t.truncation = file.Truncation.MaxLength
	}
	if err := t.addSpecial(file.PostProcessor); err != nil {
		return nil, err
	}
	return t, nil
}

// addSpecial finds the special tokens before and after a text.
func (t *wordPiece) addSpecial(p *postProcessorJSON) error {
	switch p.Type {
	case "TemplateProcessing":
		into := &t.before
		for _, part := range p.Single {
			switch {
			case part.Sequence != nil:
				into = &t.after
			case part.SpecialToken != nil:
				ids := p.Special[part.SpecialToken.ID].IDs
				if len(ids) == 0 {
					return fmt.Errorf("its post_processor names a token %.40q that has no number", part.SpecialToken.ID)
				}
				*into = append(*into, ids...)
			}
		}
	case "BertProcessing":
		for _, end := range []struct {
			pair []any
			into *[]int64
		}{{p.Cls, &t.before}, {p.Sep, &t.after}} {
			if len(end.pair) != 2 {
				return errors.New("its post_processor lacks cls or sep")
			}
			id, ok := end.pair[1].(float64)
			if !ok {
				return errors.New("its post_processor lacks the numbers of cls and sep")
			}
			*end.into = append(*end.into, int64(id))
		}
	default:
		return fmt.Errorf("its post_processor is %.40q; only TemplateProcessing and BertProcessing are supported",
			p.Type)
	}
	if len(t.before) == 0 {
		return errors.New("its post_processor puts no token before a text, as BERT's puts [CLS]")
	}
	return nil
}

// largestID returns the largest number a token can have.
func (t *wordPiece) largestID() int64 {
	largest := t.padding
	for _, id := range t.vocabulary {
		largest = max(largest, id)
	}
	for _, id := range append(append([]int64(nil), t.before...), t.after...) {
		largest = max(largest, id)
	}
	return largest
}

// encode returns the tokens of a text, at most this many with the special ones.
func (t *wordPiece) encode(text string, most int) []int64 {
	room := max(most-len(t.before)-len(t.after), 0)
	ids := append([]int64(nil), t.before...)
	// Every token takes at least a byte, so text far beyond the room is ignored. A text without spaces is one word of
	// many pieces, so the bound is generous.
	if bound := (room + 1) * 1024; len(text) > bound {
		for bound > 0 && !utf8.RuneStart(text[bound]) {
			bound--
		}
		text = text[:bound]
	}
	end := len(t.before) + room
	t.words(t.fold(text), func(word string) bool {
		ids = t.pieces(ids, word)
		return len(ids) < end
	})
	return append(ids[:min(len(ids), end)], t.after...)
}

// fold cleans a text and folds case and accents, as BERT's normalizer does.
func (t *wordPiece) fold(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range text {
		if t.clean {
			switch {
			case r == 0 || r == utf8.RuneError || control(r):
				continue
			case unicode.IsSpace(r):
				r = ' '
			}
		}
		if t.chinese && chinese(r) {
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
			continue
		}
		b.WriteRune(r)
	}
	text = b.String()
	if t.accents {
		decomposed := norm.NFD.String(text)
		b.Reset()
		for _, r := range decomposed {
			if !unicode.Is(unicode.Mn, r) {
				b.WriteRune(r)
			}
		}
		text = b.String()
	}
	if t.lower {
		b.Reset()
		for _, r := range text {
			if r == 'İ' { // the one letter that becomes two
				b.WriteString("i\u0307")
				continue
			}
			b.WriteRune(unicode.ToLower(r))
		}
		text = b.String()
	}
	return text
}

// control reports whether a character is neither visible nor a space: those of Unicode's category C, and unassigned
// ones.
func control(r rune) bool {
	if r == '\t' || r == '\n' || r == '\r' {
		return false
	}
	return unicode.Is(unicode.C, r) || !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z)
}

// chinese reports whether a character is an ideograph, which is a word of its own to BERT.
func chinese(r rune) bool {
	for _, block := range [...][2]rune{{0x4e00, 0x9fff}, {0x3400, 0x4dbf}, {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
		{0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0xf900, 0xfaff}, {0x2f800, 0x2fa1f}} {
		if block[0] <= r && r <= block[1] {
			return true
		}
	}
	return false
}

// words calls word for every run between spaces and every punctuation mark, until it returns false.
func (t *wordPiece) words(text string, word func(string) bool) {
	start := 0
	for at, r := range text {
		space, mark := unicode.IsSpace(r), punctuation(r)
		if !space && !mark {
			continue
		}
		if start < at && !word(text[start:at]) {
			return
		}
		start = at + utf8.RuneLen(r)
		if mark && !word(text[at:start]) {
			return
		}
	}
	if start < len(text) {
		word(text[start:])
	}
}

func punctuation(r rune) bool {
	if r < utf8.RuneSelf {
		return '!' <= r && r <= '/' || ':' <= r && r <= '@' || '[' <= r && r <= '`' || '{' <= r && r <= '~'
	}
	return unicode.IsPunct(r)
}

// pieces appends the pieces of a word: always the longest that the vocabulary has. A word that cannot be built of
// pieces is unknown as a whole.
func (t *wordPiece) pieces(ids []int64, word string) []int64 {
	if utf8.RuneCountInString(word) > t.longest {
		return append(ids, t.unknown)
	}
	first := len(ids)
	for start := 0; start < len(word); {
		end := len(word)
		for end > start {
			piece := word[start:end]
			if start > 0 {
				piece = t.continuing + piece
			}
			if id, ok := t.vocabulary[piece]; ok {
				ids = append(ids, id)
				break
			}
			_, size := utf8.DecodeLastRuneInString(word[start:end])
			end -= size
		}
		if end == start {
			return append(ids[:first], t.unknown)
		}
		start = end
	}
	return ids
}
