package report

import (
	"fmt"
	"image/color"
	"math"
	"strings"
)

// ink names a colour of the palette. A page has it in two shades, for light and for dark screens; a file has
// the light one.
type ink string

const (
	inkPage  ink = "page"  // behind everything
	inkPaper ink = "paper" // behind figures and tables
	inkText  ink = "text"
	inkMuted ink = "muted" // text that is not the first thing to read
	inkAxis  ink = "axis"
	inkGrid  ink = "grid"
	inkLink  ink = "link"
	inkTruth ink = "truth"
)

const (
	seriesInks = 8
	heatInks   = 32
)

// seriesInk is the colour of the i-th series; they come round.
func seriesInk(i int) ink { return ink(fmt.Sprintf("s%d", i%seriesInks+1)) }

// heatInk is the colour of a share of the scale, and the one to write on it with.
func heatInk(share float64) (fill, text ink) {
	level := int(math.Min(math.Max(share, 0), 1)*heatInks - 1e-9)
	return ink(fmt.Sprintf("h%d", level)), ink(fmt.Sprintf("t%d", level))
}

// shades is a colour on a light and on a dark screen.
type shades struct{ light, dark color.NRGBA }

// palette holds every colour there is. Text has a contrast of 4.5 or more on what it stands on, series have 3
// or more on paper; a test holds this.
var palette = makePalette()

// tones are the colours of verdicts, each with those of its text and of its background.
var tones = []string{"good", "fair", "bad", "calm"}

func makePalette() map[ink]shades {
	p := map[ink]shades{
		inkPage:  {hex("f4f5f7"), hex("0d1117")},
		inkPaper: {hex("ffffff"), hex("161b22")},
		inkText:  {hex("1b2430"), hex("e6edf3")},
		inkMuted: {hex("566170"), hex("a0acb9")},
		inkAxis:  {hex("8892a0"), hex("6f7b89")},
		inkGrid:  {hex("e4e7ec"), hex("2a323c")},
		inkLink:  {hex("1d5bbf"), hex("7fb2ff")},
		inkTruth: {hex("c2410c"), hex("ff9b63")},

		"good": {hex("0c5132"), hex("7fe0ae")}, "good-back": {hex("d9f2e4"), hex("12352a")},
		"fair": {hex("6b4300"), hex("f2c867")}, "fair-back": {hex("fdeec9"), hex("3a2d10")},
		"bad": {hex("8c1d18"), hex("ffb0a8")}, "bad-back": {hex("fbe0dd"), hex("451f1d")},
		"calm": {hex("3c4654"), hex("c3ced9")}, "calm-back": {hex("e9ecf1"), hex("28303a")},
	}
	for i, s := range []shades{
		{hex("1f5fc4"), hex("6ea8ff")}, {hex("c2410c"), hex("ff9b63")}, {hex("0f766e"), hex("4fd1c1")},
		{hex("7c3aed"), hex("c4a1ff")},
		{hex("946200"), hex("e6c15a")}, {hex("be185d"), hex("ff8fbd")}, {hex("4d7c0f"), hex("a8d65c")},
		{hex("475569"), hex("b3c0cf")},
	} {
		p[seriesInk(i)] = s
	}
	light := []color.NRGBA{hex("eef3f9"), hex("c6dbf0"), hex("7fb1de"), hex("3a7fc2"), hex("17508f"), hex("0a2a57")}
	dark := []color.NRGBA{hex("1d2630"), hex("1f4068"), hex("2a6aa8"), hex("559fdb"), hex("a5d2f4"), hex("f0f8ff")}
	for level := range heatInks {
		share := float64(level) / (heatInks - 1)
		fill, text := heatInk((float64(level) + .5) / heatInks)
		s := shades{between(light, share), between(dark, share)}
		p[fill] = s
		p[text] = shades{readable(s.light), readable(s.dark)}
	}
	return p
}

func hex(s string) (c color.NRGBA) {
	c.A = 255
	if _, err := fmt.Sscanf(s, "%02x%02x%02x", &c.R, &c.G, &c.B); err != nil {
		panic("report: no colour " + s)
	}
	return c
}

func hexOf(c color.NRGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

// between is the colour at a share of the way along some.
func between(stops []color.NRGBA, share float64) color.NRGBA {
	at := share * float64(len(stops)-1)
	i := min(int(at), len(stops)-2)
	mix := func(a, b uint8) uint8 { return uint8(math.Round(float64(a) + (at-float64(i))*(float64(b)-float64(a)))) }
	a, b := stops[i], stops[i+1]
	return color.NRGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 255}
}

// readable is black or white, whichever stands out more.
func readable(back color.NRGBA) color.NRGBA {
	black, white := hex("000000"), hex("ffffff")
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

// paletteCSS defines the palette's colours as variables, in one shade.
func paletteCSS(shade func(shades) color.NRGBA) string {
	names := []ink{inkPage, inkPaper, inkText, inkMuted, inkAxis, inkGrid, inkLink, inkTruth}
	for _, t := range tones {
		names = append(names, ink(t), ink(t+"-back"))
	}
	for i := range seriesInks {
		names = append(names, seriesInk(i))
	}
	for level := range heatInks {
		fill, text := heatInk((float64(level) + .5) / heatInks)
		names = append(names, fill, text)
	}
	var b strings.Builder
	for _, n := range names {
		fmt.Fprintf(&b, "--%s:%s;", n, hexOf(shade(palette[n])))
	}
	return b.String()
}
