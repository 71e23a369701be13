package report

import (
	"sync"
	"unicode"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// letters is a font: widths for the layout of every figure, outlines for PNG.
type letters struct {
	font  *sfnt.Font
	units fixed.Int26_6 // per em

	mu     sync.Mutex // of the rest
	buffer sfnt.Buffer
	known  map[rune]glyph
}

// glyph is the shape of a rune, in units of the em, y downwards.
type glyph struct {
	advance  float64
	segments []segment
}

// segment moves to, or draws a line, a quadratic or a cubic curve to its last point.
type segment struct {
	op     sfnt.SegmentOp
	points [3]point
}

var (
	regular = sync.OnceValue(func() *letters { return openLetters(goregular.TTF) })
	bold    = sync.OnceValue(func() *letters { return openLetters(gobold.TTF) })
)

func openLetters(raw []byte) *letters {
	f, err := sfnt.Parse(raw)
	if err != nil {
		panic("report: the embedded font does not parse: " + err.Error())
	}
	return &letters{font: f, units: fixed.I(int(f.UnitsPerEm())), known: map[rune]glyph{}}
}

// placed is a glyph at its place in a line of text, in units of the em.
type placed struct {
	glyph
	x, y, scale float64
}

// set places the runes of a text one after the other and returns their width. The font has no combining marks and no
// superscripts or subscripts: a mark becomes the spacing sign of that shape, centred over its letter, and the others
// become small letters.
func (l *letters) set(text string) (line []placed, width float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from, last := 0., 0. // of the letter before
	for _, r := range text {
		if sign, ok := above[r]; ok {
			g := l.glyph(sign)
			rise := .05
			if len(line) > 0 && last > .6 { // a capital
				rise = -.16
			}
			line = append(line, placed{g, from + (last-g.advance)/2, rise, 1})
			continue
		}
		if unicode.Is(unicode.Mn, r) {
			continue
		}
		scale, drop := 1., 0.
		if plain, ok := raised[r]; ok {
			r, scale, drop = plain, .65, -.35
		} else if plain, ok := lowered[r]; ok {
			r, scale, drop = plain, .65, .12
		}
		g := l.glyph(r)
		line = append(line, placed{g, width, drop, scale})
		from, last = width, g.advance*scale
		width += last
	}
	return line, width
}

var (
	above   = map[rune]rune{'\u0302': 'ˆ', '\u0303': '˜', '\u0304': '¯', '\u0307': '˙', '\u0308': '¨'}
	raised  = pairUp("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ᵗⁿ", "0123456789+−()tn")
	lowered = pairUp("₀₁₂₃₄₅₆₇₈₉ᵢⱼ", "0123456789ij")
)

func pairUp(from, to string) map[rune]rune {
	m := make(map[rune]rune)
	plain := []rune(to)
	for i, r := range []rune(from) {
		m[r] = plain[i]
	}
	return m
}

// glyph loads the shape of a rune; a rune that the font lacks gets the font's replacement sign.
func (l *letters) glyph(r rune) glyph {
	if g, ok := l.known[r]; ok {
		return g
	}
	g := glyph{advance: .6}
	em := float64(l.units)
	index, err := l.font.GlyphIndex(&l.buffer, r)
	if err == nil {
		if a, err := l.font.GlyphAdvance(&l.buffer, index, l.units, font.HintingNone); err == nil {
			g.advance = float64(a) / em
		}
		if segments, err := l.font.LoadGlyph(&l.buffer, index, l.units, nil); err == nil {
			for _, s := range segments {
				out := segment{op: s.Op}
				for i, p := range s.Args {
					out.points[i] = point{float64(p.X) / em, float64(p.Y) / em}
				}
				g.segments = append(g.segments, out)
			}
		}
	}
	l.known[r] = g
	return g
}

// measure is the width of a text. Browsers use other fonts, some of which are a tenth wider.
func measure(text string, size float64, isBold bool) float64 {
	l := regular()
	if isBold {
		l = bold()
	}
	_, width := l.set(printable(text))
	return width * size * 1.12
}
