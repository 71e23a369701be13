package report

import (
	"fmt"
	"math"

	"unseen/figure"
)

// Widths of figures in CSS pixels: on a page there is one for wide screens and print and one for telephones.
const (
	wideWidth   = 920.
	halfWidth   = 450. // two of them beside one another
	narrowWidth = 340.
)

// half reports whether a figure needs only half the width of a page.
func half(f figure.Figure) bool { return f.Lines != nil && f.Lines.Shares }

// drawFigure draws a figure. A titled one has its title in the picture, for files.
func drawFigure(f figure.Figure, width float64, titled bool) *drawing {
	d := &drawing{width: width, label: describe(f)}
	top := 4.
	if titled && f.Title != "" {
		for _, line := range wrapped(f.Title, 15, width-16, 3) {
			top += 18
			d.add(words{x: 8, y: top, text: line, size: 15, ink: figure.InkText, bold: true})
		}
		top += 12
	}
	switch {
	case f.Heat != nil:
		drawHeat(d, f.Heat, top)
	case f.Lines != nil:
		drawLines(d, f.Lines, top)
	case f.Bars != nil:
		drawBars(d, f.Bars, top)
	case f.Intervals != nil:
		drawIntervals(d, f.Intervals, top)
	default:
		drawNothing(d, top)
	}
	return d
}

func drawNothing(d *drawing, top float64) {
	d.write(d.width/2, top+36, "There are no numbers to draw.", textSize, figure.InkMuted, middle)
	d.height = top + 64
}

// Limits beyond which a figure is replaced by a note where its numbers are.
const (
	mostCells = 8000
	mostBars  = 400
)

func drawTooMany(d *drawing, top float64, count int, of string) {
	lines := wrapped(number(float64(count), 0)+" "+of+" are too many to draw. They are in the files of the run.",
		textSize, d.width-16, 3)
	for i, line := range lines {
		d.write(d.width/2, top+36+16*float64(i), line, textSize, figure.InkMuted, middle)
	}
	d.height = top + 48 + 16*float64(len(lines))
}

// describe says in words what a figure shows, for readers who cannot see it.
func describe(f figure.Figure) string {
	text := f.Title
	switch {
	case f.Heat != nil:
		text += fmt.Sprintf(". Heat map of %d by %d numbers, %s by %s", len(f.Heat.Rows), len(f.Heat.Columns),
			f.Heat.RowTitle, f.Heat.ColumnTitle)
		if f.Heat.Beside != nil {
			text += fmt.Sprintf("; %s beside %s", f.Heat.Title, f.Heat.Beside.Title)
		}
	case f.Lines != nil:
		text += fmt.Sprintf(". Lines of %s over %s:", f.Lines.YTitle, f.Lines.XTitle)
		for i, s := range f.Lines.Series {
			if i > 0 {
				text += ";"
			}
			text += " " + s.Name
			if from, to, ok := ends(s); ok {
				text += fmt.Sprintf(", from %s to %s", brief(from), brief(to))
			}
		}
	case f.Bars != nil:
		text += fmt.Sprintf(". Bars of %s for %d groups", f.Bars.YTitle, len(f.Bars.Groups))
	case f.Intervals != nil:
		text += ". " + f.Intervals.XTitle + ":"
		for i, r := range f.Intervals.Rows {
			if i > 0 {
				text += ";"
			}
			text += " " + intervalTitle(r)
		}
	}
	return text + "."
}

// ends are the first and the last number of a line.
func ends(l figure.Series) (first, last float64, ok bool) {
	for _, y := range l.Y {
		if finite(y) {
			if !ok {
				first = y
			}
			last, ok = y, true
		}
	}
	return first, last, ok
}

// entry is a line of a legend.
type entry struct {
	text   string
	sample func(d *drawing, x, y float64) // draws 22 pixels from x on, centred at y
}

// drawLegend draws entries in rows that fit the width and returns where they end.
func drawLegend(d *drawing, entries []entry, left, top float64) float64 {
	const sample, gap, row = 22., 18., 19.
	x, y := left, top+9
	for _, e := range entries {
		text := clip(e.text, textSize, d.width-left-sample-12)
		w := sample + 6 + measure(text, textSize, false) + gap
		if x > left && x+w-gap > d.width-4 {
			x, y = left, y+row
		}
		e.sample(d, x, y)
		d.write(x+sample+6, y+4, text, textSize, figure.InkText, start)
		x += w
	}
	return y + row - 5
}

// lineSample is a piece of a series' line with its mark.
func lineSample(st lineStyle) func(*drawing, float64, float64) {
	return func(d *drawing, x, y float64) {
		d.add(stroke{points: []point{{x, y}, {x + 22, y}}, ink: st.ink, width: st.width, dash: st.dash})
		if st.marked {
			d.add(mark{x: x + 11, y: y, shape: st.shape, ink: st.ink})
		}
	}
}

func boxSample(i figure.Ink) func(*drawing, float64, float64) {
	return func(d *drawing, x, y float64) { d.add(box{x + 5, y - 6, 12, 12, i, ""}) }
}

// drawYTitle writes what the numbers are above a chart and returns where it ends.
func drawYTitle(d *drawing, title string, top float64) float64 {
	for _, line := range wrapped(title, smallSize, d.width-8, 2) {
		d.write(4, top+11, line, smallSize, figure.InkMuted, start)
		top += 15
	}
	return top
}

// gridX draws vertical grid lines with their numbers below.
func gridX(d *drawing, a axis, top, bottom float64) {
	free := math.Inf(-1) // where the previous number ends
	for _, t := range a.ticks {
		x := a.at(t.value)
		d.line(x, top, x, bottom, figure.InkGrid, 1)
		half := measure(t.text, smallSize, false) / 2
		x = math.Min(math.Max(x, half), d.width-half) // within the picture
		if x-half < free {
			continue
		}
		free = x + half + 4
		d.write(x, bottom+16, t.text, smallSize, figure.InkMuted, middle)
	}
}

// crowded drops every other tick while their texts touch.
func (a *axis) crowded(room float64) {
	for len(a.ticks) > 2 {
		width := a.widest(smallSize)
		if width+10 <= room/float64(len(a.ticks)-1) {
			return
		}
		var kept []tick
		for i := 0; i < len(a.ticks); i += 2 {
			kept = append(kept, a.ticks[i])
		}
		a.ticks = kept
	}
}

func finiteOf(n figure.Values) (kept []float64) {
	for _, x := range n {
		if finite(x) {
			kept = append(kept, x)
		}
	}
	return kept
}

// at is the i-th number, NaN where there are fewer.
func at(n figure.Values, i int) float64 {
	if i < len(n) {
		return n[i]
	}
	return math.NaN()
}

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return ""
}
