package figure

import (
	"fmt"
	"image/color"
	"math"
	"strings"
)

// Ink names a colour of the palette. A page has it in two shades, for light and for dark screens; a file has the
// light one.
type Ink string

const (
	InkPage  Ink = "page"  // behind everything
	InkPaper Ink = "paper" // behind figures and tables
	InkText  Ink = "text"
	InkMuted Ink = "muted" // secondary text
	InkAxis  Ink = "axis"
	InkGrid  Ink = "grid"
	InkLink  Ink = "link"
	InkTruth Ink = "truth"
)

// HeatLevels is the number of colours in the scale of heat maps.
const HeatLevels = 32

const seriesInks = 8

// SeriesInk is the colour of the i-th series; after eight they repeat.
func SeriesInk(i int) Ink { return Ink(fmt.Sprintf("s%d", i%seriesInks+1)) }

// HeatInk is the colour of a position on a heat map's scale, 0 to 1, and the colour of text on it.
func HeatInk(position float64) (fill, text Ink) {
	return heatInks(int(math.Min(math.Max(position, 0), 1)*HeatLevels - 1e-9))
}

func heatInks(level int) (fill, text Ink) {
	return Ink(fmt.Sprintf("h%d", level)), Ink(fmt.Sprintf("t%d", level))
}

// Light is the ink's colour on light screens and in files.
func (i Ink) Light() color.NRGBA { return palette[i].light }

// Hex is the ink's colour in files, as #rrggbb.
func (i Ink) Hex() string { return hex(i.Light()) }

// StyleSheet defines the palette as CSS variables, --text for [InkText], for light and for dark screens, so that all
// pages look alike.
func StyleSheet() string {
	light := func(s shades) color.NRGBA { return s.light }
	dark := func(s shades) color.NRGBA { return s.dark }
	return ":root{" + variables(light) + "}\n@media screen and (prefers-color-scheme:dark){:root{" +
		variables(dark) + "}}\n"
}

// variables defines every ink as a CSS variable, in one shade.
func variables(of func(shades) color.NRGBA) string {
	names := []Ink{InkPage, InkPaper, InkText, InkMuted, InkAxis, InkGrid, InkLink, InkTruth}
	for _, t := range tones {
		names = append(names, Ink(t), Ink(t+"-back"))
	}
	for i := range seriesInks {
		names = append(names, SeriesInk(i))
	}
	for level := range HeatLevels {
		fill, text := heatInks(level)
		names = append(names, fill, text)
	}
	var b strings.Builder
	for _, n := range names {
		fmt.Fprintf(&b, "--%s:%s;", n, hex(of(palette[n])))
	}
	return b.String()
}

// shades is a colour on a light and on a dark screen.
type shades struct{ light, dark color.NRGBA }

// palette holds every colour there is. Text has a contrast of 4.5 or more on its background, series have 3 or more on
// paper; a test checks this.
var palette = makePalette()

// tones are the colours of verdicts: each is a text colour, and NAME-back is its background.
var tones = []string{"good", "fair", "bad", "calm"}

func makePalette() map[Ink]shades {
	p := map[Ink]shades{
		InkPage:  shade(0xf4f5f7, 0x0d1117),
		InkPaper: shade(0xffffff, 0x161b22),
		InkText:  shade(0x1b2430, 0xe6edf3),
		InkMuted: shade(0x566170, 0xa0acb9),
		InkAxis:  shade(0x8892a0, 0x6f7b89),
		InkGrid:  shade(0xe4e7ec, 0x2a323c),
		InkLink:  shade(0x1d5bbf, 0x7fb2ff),
		InkTruth: shade(0xc2410c, 0xff9b63),

		"good": shade(0x0c5132, 0x7fe0ae), "good-back": shade(0xd9f2e4, 0x12352a),
		"fair": shade(0x6b4300, 0xf2c867), "fair-back": shade(0xfdeec9, 0x3a2d10),
		"bad": shade(0x8c1d18, 0xffb0a8), "bad-back": shade(0xfbe0dd, 0x451f1d),
		"calm": shade(0x3c4654, 0xc3ced9), "calm-back": shade(0xe9ecf1, 0x28303a),
	}
	for i, s := range []shades{
		shade(0x1f5fc4, 0x6ea8ff), shade(0xc2410c, 0xff9b63), shade(0x0f766e, 0x4fd1c1), shade(0x7c3aed, 0xc4a1ff),
		shade(0x946200, 0xe6c15a), shade(0xbe185d, 0xff8fbd), shade(0x4d7c0f, 0xa8d65c), shade(0x475569, 0xb3c0cf),
	} {
		p[SeriesInk(i)] = s
	}
	light := []color.NRGBA{rgb(0xeef3f9), rgb(0xc6dbf0), rgb(0x7fb1de), rgb(0x3a7fc2), rgb(0x17508f), rgb(0x0a2a57)}
	dark := []color.NRGBA{rgb(0x1d2630), rgb(0x1f4068), rgb(0x2a6aa8), rgb(0x559fdb), rgb(0xa5d2f4), rgb(0xf0f8ff)}
	for level := range HeatLevels {
		share := float64(level) / (HeatLevels - 1)
		fill, text := heatInks(level)
		s := shades{blend(light, share), blend(dark, share)}
		p[fill] = s
		p[text] = shades{readable(s.light), readable(s.dark)}
	}
	return p
}

func shade(light, dark uint32) shades { return shades{rgb(light), rgb(dark)} }

func rgb(c uint32) color.NRGBA {
	return color.NRGBA{R: uint8(c >> 16), G: uint8(c >> 8), B: uint8(c), A: 255}
}

func hex(c color.NRGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

// blend is the colour at a share of the way along the stops.
func blend(stops []color.NRGBA, share float64) color.NRGBA {
	at := share * float64(len(stops)-1)
	i := min(int(at), len(stops)-2)
	mix := func(a, b uint8) uint8 { return uint8(math.Round(float64(a) + (at-float64(i))*(float64(b)-float64(a)))) }
	a, b := stops[i], stops[i+1]
	return color.NRGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 255}
}

// readable is black or white, whichever has the higher contrast.
func readable(back color.NRGBA) color.NRGBA {
	black, white := rgb(0x000000), rgb(0xffffff)
	if contrast(black, back) > contrast(white, back) {
		return black
	}
	return white
}

// contrast is that of the accessibility guidelines: (L₁ + .05)/(L₂ + .05) with the relative luminances, 1 to 21.
func contrast(a, b color.NRGBA) float64 {
	la, lb := luminance(a), luminance(b)
	return (math.Max(la, lb) + .05) / (math.Min(la, lb) + .05)
}

func luminance(c color.NRGBA) float64 {
	linear := func(v uint8) float64 {
		x := float64(v) / 255
		if x <= .04045 {
			return x / 12.92
		}
		return math.Pow((x+.055)/1.055, 2.4)
	}
	return .2126*linear(c.R) + .7152*linear(c.G) + .0722*linear(c.B)
}
