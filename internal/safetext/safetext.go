// Package safetext makes text of unknown origin safe where it goes: to a terminal, into a spreadsheet, into a
// bibliography. Titles and ids come from files, and whoever wrote them may want more than to be read.
//
//	out := safetext.NewWriter(os.Stdout) // no title moves the cursor
package safetext

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line is text for one line of a terminal: what would control it is written as \u001b, and line ends become spaces.
func Line(text string) string {
	return escape(strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ").Replace(text))
}

// unsafe reports whether a character controls a terminal or the direction of text: C0 but for line
// end and tab, DEL, C1, the line separators of Unicode, and marks, embeddings, overrides and
// isolates of direction.
func unsafe(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ', r >= 0x7f && r <= 0x9f, r == 0x061c, r >= 0x200e && r <= 0x200f, r >= 0x2028 && r <= 0x202e,
		r >= 0x2066 && r <= 0x2069, r >= 0xe0000 && r <= 0xe007f:
		return true
	}
	return false
}

func escape(text string) string {
	if strings.IndexFunc(text, unsafe) < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1: // a byte such as 0x9b is a control sequence for some terminals
			b.WriteRune(utf8.RuneError)
		case r > 0xffff && unsafe(r):
			high, low := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		case unsafe(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// NewWriter returns a writer that passes text on with what would control a terminal written as \u001b. That is how JSON
// writes it too, so that a JSON document stays the same document. It holds back an incomplete character until the rest
// of it comes.
func NewWriter(w io.Writer) io.Writer { return &writer{w: w} }

type writer struct {
	w    io.Writer
	held []byte // the beginning of a character, or a carriage return
}

func (w *writer) Write(p []byte) (int, error) {
	text := string(append(w.held, p...))
	cut := len(text)
	if strings.HasSuffix(text, "\r") {
		cut--
	}
	for k := 1; k < utf8.UTFMax && k <= len(text); k++ {
		if c := text[len(text)-k]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRuneInString(text[len(text)-k:]) {
				cut = len(text) - k
			}
			break
		}
	}
	w.held = []byte(text[cut:])
	var b strings.Builder
	for k, line := range strings.Split(text[:cut], "\r\n") { // as lines of RIS end
		if k > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(escape(line))
	}
	if _, err := io.WriteString(w.w, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Cell is text for a cell of CSV. Spreadsheets take what begins with =, +, -, @ or a tab for a formula, which can call
// programs; it gets an apostrophe. Numbers stay.
func Cell(text string) string {
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(text, " \"'\u00a0\ufeff"))
	if first == utf8.RuneError || !strings.ContainsRune("=+-@\t\r\n＝＋－＠", first) {
		return text
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return text
	}
	return "'" + text
}

// Cells is a row of CSV.
func Cells(row []string) []string {
	safe := make([]string, len(row))
	for k, cell := range row {
		safe[k] = Cell(cell)
	}
	return safe
}

// Value is text on one line without anything that controls: for RIS, whose records end with lines.
func Value(text string) string {
	text = strings.Map(func(r rune) rune {
		if unsafe(r) || unicode.IsSpace(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

// BibTeX is text for a value in braces. BibTeX counts braces also behind a backslash, so text has none of its own; what
// TeX takes for commands is written out.
func BibTeX(text string) string { return texValues.Replace(Value(text)) }

var texValues = strings.NewReplacer(`\`, `\textbackslash{}`, "{", `\textbraceleft{}`, "}", `\textbraceright{}`,
	"%", `\%`, "&", `\&`, "#", `\#`, "_", `\_`, "$", `\$`, "~", `\~{}`, "^", `\^{}`)

// Keys makes keys of BibTeX entries, each once: BibTeX ignores their case.
type Keys struct{ taken map[string]bool }

// Of makes a key of an id.
func (k *Keys) Of(id string) string {
	key := strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-.:", r)) {
			return r
		}
		return '_'
	}, id[:min(len(id), 100)])
	if key == "" {
		key = "_"
	}
	if k.taken == nil {
		k.taken = map[string]bool{}
	}
	unique := key
	for n := 2; k.taken[strings.ToLower(unique)]; n++ {
		unique = key + "-" + strconv.Itoa(n)
	}
	k.taken[strings.ToLower(unique)] = true
	return unique
}
