package report

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"

	"unseen/figure"
)

// svg writes a drawing. Within a page its colours are the page's variables, so that they follow light and dark screens;
// in a file they are written out, because programs that embed drawings do not know the variables.
func (d *drawing) svg(inPage bool) string {
	s := svgWriter{inPage: inPage}
	w, h := coordinate(d.width), coordinate(d.height)
	if inPage {
		s.printf(`<svg viewBox="0 0 %s %s" width="%s" height="%s" role="img" aria-label="%s">`, w, h, w, h,
			html.EscapeString(printable(d.label)))
	} else {
		s.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" role="img" `+
			`aria-label="%s" font-family="Go, Helvetica, Arial, sans-serif">`+"\n", w, h, w, h,
			html.EscapeString(printable(d.label)))
		s.shape(box{0, 0, d.width, d.height, figure.InkPaper, ""})
	}
	for _, shape := range d.shapes {
		s.shape(shape)
	}
	s.b.WriteString("</svg>\n")
	return s.b.String()
}

type svgWriter struct {
	b      strings.Builder
	inPage bool
}

func (s *svgWriter) printf(format string, a ...any) { fmt.Fprintf(&s.b, format, a...) }

func (s *svgWriter) shape(shape any) {
	switch v := shape.(type) {
	case box:
		s.printf(`<rect x="%s" y="%s" width="%s" height="%s" fill="%s"`, coordinate(v.x), coordinate(v.y),
			coordinate(v.w), coordinate(v.h), s.colour(v.fill))
		s.close("rect", v.title)
	case stroke:
		s.printf(`<path d="%s" fill="none" stroke="%s" stroke-width="%s" stroke-linejoin="round"`,
			path(v.points, false), s.colour(v.ink), coordinate(v.width))
		if v.dash != nil {
			var lengths []string
			for _, l := range v.dash {
				lengths = append(lengths, coordinate(l))
			}
			s.printf(` stroke-dasharray="%s"`, strings.Join(lengths, " "))
		}
		s.close("path", v.title)
	case area:
		s.printf(`<path d="%s" fill="%s" fill-opacity="%s"/>`+"\n", path(v.points, true), s.colour(v.fill),
			coordinate(v.alpha))
	case words:
		s.printf(`<text x="%s" y="%s" font-size="%s" fill="%s"`, coordinate(v.x), coordinate(v.y), coordinate(v.size),
			s.colour(v.ink))
		if v.anchor != start {
			s.printf(` text-anchor="%s"`, [...]string{"start", "middle", "end"}[v.anchor])
		}
		if v.bold {
			s.b.WriteString(` font-weight="600"`)
		}
		if v.angle != 0 {
			s.printf(` transform="rotate(%s %s %s)"`, coordinate(v.angle), coordinate(v.x), coordinate(v.y))
		}
		s.printf(">%s</text>\n", html.EscapeString(printable(v.text)))
	case mark:
		switch v.shape {
		case disc:
			s.printf(`<circle cx="%s" cy="%s" r="%s" fill="%s"`, coordinate(v.x), coordinate(v.y),
				coordinate(markRadius), s.colour(v.ink))
			s.close("circle", v.title)
		case ring:
			s.printf(`<circle cx="%s" cy="%s" r="%s" fill="%s" stroke="%s" stroke-width="2"`, coordinate(v.x),
				coordinate(v.y), coordinate(markRadius), s.colour(figure.InkPaper), s.colour(v.ink))
			s.close("circle", v.title)
		case cross:
			r := markRadius
			s.printf(`<path d="%s%s" fill="none" stroke="%s" stroke-width="2"`,
				path([]point{{v.x - r, v.y - r}, {v.x + r, v.y + r}}, false),
				path([]point{{v.x - r, v.y + r}, {v.x + r, v.y - r}}, false), s.colour(v.ink))
			s.close("path", v.title)
		default:
			s.printf(`<path d="%s" fill="%s"`, path(v.outline(), true), s.colour(v.ink))
			s.close("path", v.title)
		}
	}
}

// close ends an element, with a title if it has one.
func (s *svgWriter) close(element, title string) {
	if title == "" {
		s.b.WriteString("/>\n")
		return
	}
	s.printf("><title>%s</title></%s>\n", html.EscapeString(printable(title)), element)
}

func (s *svgWriter) colour(i figure.Ink) string {
	if s.inPage {
		return "var(--" + string(i) + ")"
	}
	return i.Hex()
}

func path(points []point, closed bool) string {
	var b strings.Builder
	for i, p := range points {
		letter := byte('L')
		if i == 0 {
			letter = 'M'
		}
		b.WriteByte(letter)
		b.WriteString(coordinate(p.x) + " " + coordinate(p.y))
	}
	if closed {
		b.WriteByte('Z')
	}
	return b.String()
}

// coordinate writes a number to a hundredth, without trailing zeros.
func coordinate(x float64) string {
	x = math.Round(x*100) / 100
	if x == 0 {
		return "0" // and not −0
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

// printable drops control characters, which XML does not allow, and what is not UTF-8.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			return ' '
		case r < ' ' || r == 0xFFFE || r == 0xFFFF:
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
}
