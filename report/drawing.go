package report

import (
	"math"
	"strings"
	"unicode"

	"unseen/figure"
)

// drawing is a figure as a list of simple shapes, which SVG and PNG draw alike. Lengths are CSS pixels; y points down.
type drawing struct {
	width, height float64
	label         string // for readers who cannot see it
	shapes        []any  // box, stroke, area, words or mark
}

type point struct{ x, y float64 }

// box is a filled rectangle.
type box struct {
	x, y, w, h float64
	fill       figure.Ink
	title      string // shown on hover; "" for none
}

// stroke is a line through points.
type stroke struct {
	points []point
	ink    figure.Ink
	width  float64
	dash   []float64 // lengths of dash and gap in turn; nil for none
	title  string
}

// area is a filled polygon, translucent.
type area struct {
	points []point
	fill   figure.Ink
	alpha  float64
}

// words is a line of text.
type words struct {
	x, y   float64 // of the baseline's anchor
	text   string
	size   float64
	ink    figure.Ink
	anchor anchor
	angle  float64 // degrees, clockwise, around the anchor
	bold   bool
}

type anchor uint8

const (
	start anchor = iota
	middle
	end
)

// mark is a small sign at a point.
type mark struct {
	x, y  float64
	shape shape
	ink   figure.Ink
	title string
}

// shape is the form of a mark, so that series differ by more than their colour.
type shape uint8

const (
	disc shape = iota
	square
	triangle
	diamond
	cross
	ring // hollow
	shapes
)

const markRadius = 3.6

// outline is the polygon of a mark; a cross and a ring are strokes.
func (m mark) outline() []point {
	r := markRadius
	switch m.shape {
	case square:
		r *= .88
		return []point{{m.x - r, m.y - r}, {m.x + r, m.y - r}, {m.x + r, m.y + r}, {m.x - r, m.y + r}}
	case triangle:
		return []point{{m.x, m.y - 1.2*r}, {m.x + 1.1*r, m.y + .8*r}, {m.x - 1.1*r, m.y + .8*r}}
	case diamond:
		r *= 1.75
		return []point{{m.x, m.y - r}, {m.x + r, m.y}, {m.x, m.y + r}, {m.x - r, m.y}}
	}
	return nil
}

func (d *drawing) add(s ...any) { d.shapes = append(d.shapes, s...) }

func (d *drawing) line(x1, y1, x2, y2 float64, i figure.Ink, width float64) {
	d.add(stroke{points: []point{{x1, y1}, {x2, y2}}, ink: i, width: width})
}

func (d *drawing) write(x, y float64, text string, size float64, i figure.Ink, a anchor) {
	d.add(words{x: x, y: y, text: text, size: size, ink: i, anchor: a})
}

const (
	textSize  = 12.
	smallSize = 11.
)

// clip shortens text to a width.
func clip(text string, size, width float64) string {
	if measure(text, size, false) <= width {
		return text
	}
	runes := []rune(text)
	for n := len(runes) - 1; n > 0; n-- {
		if unicode.Is(unicode.Mn, runes[n]) {
			continue // a combining mark stays with its letter
		}
		if short := strings.TrimRight(string(runes[:n]), " ,") + "…"; measure(short, size, false) <= width {
			return short
		}
	}
	return "…"
}

// wrapped breaks text into lines of a width, at most this many; the last is clipped.
func wrapped(text string, size, width float64, most int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		longer := strings.TrimSpace(line + " " + word)
		switch {
		case line == "" || measure(longer, size, false) <= width || len(lines) == most-1:
			line = longer
		default:
			lines = append(lines, clip(line, size, width))
			line = word
		}
	}
	return append(lines, clip(line, size, width))
}

// thin drops points of a line that are closer than a tenth of a pixel to the line without them, by Douglas and
// Peucker: curves of many thousand points look the same and stay small.
func thin(points []point) []point {
	const tolerance = .1
	if len(points) < 3 {
		return points
	}
	keep := make([]bool, len(points))
	keep[0], keep[len(points)-1] = true, true
	todo := [][2]int{{0, len(points) - 1}}
	for len(todo) > 0 {
		from, to := todo[len(todo)-1][0], todo[len(todo)-1][1]
		todo = todo[:len(todo)-1]
		far, at := tolerance, -1
		for i := from + 1; i < to; i++ {
			if d := distance(points[i], points[from], points[to]); d > far {
				far, at = d, i
			}
		}
		if at > 0 {
			keep[at] = true
			todo = append(todo, [2]int{from, at}, [2]int{at, to})
		}
	}
	var kept []point
	for i, k := range keep {
		if k {
			kept = append(kept, points[i])
		}
	}
	return kept
}

// distance is that of p from the segment ab.
func distance(p, a, b point) float64 {
	dx, dy := b.x-a.x, b.y-a.y
	share := 0.
	if square := dx*dx + dy*dy; square > 0 {
		share = math.Min(math.Max(((p.x-a.x)*dx+(p.y-a.y)*dy)/square, 0), 1)
	}
	return math.Hypot(p.x-a.x-share*dx, p.y-a.y-share*dy)
}

// finite reports whether all numbers can be drawn. Beyond 1e200 differences and squares overflow.
func finite(xs ...float64) bool {
	for _, x := range xs {
		if !(math.Abs(x) < 1e200) {
			return false
		}
	}
	return true
}
