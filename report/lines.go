package report

import (
	"fmt"
	"math"

	"unseen/figure"
)

// patterns distinguish lines without marks where colours do not.
var patterns = [][]float64{nil, {7, 3}, {2, 3}, {9, 3, 2, 3}, {4, 2}, {12, 4}, {1, 2}, {6, 2, 1, 2, 1, 2}}

// marksUpTo is the largest number of points that are marked, one by one.
const marksUpTo = 24

// drawLines draws series with their bands.
func drawLines(d *drawing, l *figure.LineChart, top float64) {
	if n := len(l.Series); n > mostBars/10 {
		drawTooMany(d, top, n, "lines")
		return
	}
	x, y, ok := lineAxes(l, d.width > 500)
	if !ok {
		drawNothing(d, top)
		return
	}
	styles := lineStyles(l.Series)
	var legend []entry
	for i, s := range l.Series {
		legend = append(legend, entry{s.Name, lineSample(styles[i])})
	}
	if len(legend) > 1 || d.width <= 500 && l.Series[0].Name != "" {
		top = drawLegend(d, legend, 4, top) + 4
	}
	top = drawYTitle(d, l.YTitle, top) + 8
	left, right := y.widest(smallSize)+12, d.width-16
	height := 320.
	switch {
	case l.Shares:
		height = right - left
	case d.width <= 500:
		height = 220
	}
	bottom := top + height
	x.from, x.to, y.from, y.to = left, right, bottom, top
	x.crowded(right - left)
	for _, t := range y.ticks {
		at := y.at(t.value)
		d.line(left, at, right, at, figure.InkGrid, 1)
		d.write(left-7, at+4, t.text, smallSize, figure.InkMuted, end)
	}
	gridX(d, x, top, bottom)
	d.line(left, bottom, right, bottom, figure.InkAxis, 1)
	if low, high := math.Max(x.low, y.low), math.Min(x.high, y.high); l.Diagonal && low < high {
		d.add(stroke{points: []point{{x.at(low), y.at(low)}, {x.at(high), y.at(high)}}, ink: figure.InkAxis,
			width: 1.2, dash: []float64{3, 3}})
	}
	for i, s := range l.Series {
		drawBand(d, s, x, y, styles[i].ink)
	}
	for i, s := range l.Series {
		drawLine(d, s, x, y, styles[i])
	}
	d.write((left+right)/2, bottom+33, clip(l.XTitle, smallSize, right-left), smallSize, figure.InkMuted, middle)
	d.height = bottom + 42
}

// lineAxes are the axes that all points and bands fit on; not ok where there is no point.
func lineAxes(l *figure.LineChart, wide bool) (x, y axis, ok bool) {
	var xs, ys []float64
	for _, s := range l.Series {
		for i := range s.X {
			if y := at(s.Y, i); finite(s.X[i], y) && (!l.LogX || s.X[i] > 0) && (!l.LogY || y > 0) {
				xs, ys = append(xs, s.X[i]), append(ys, y, at(s.Low, i), at(s.High, i))
			}
		}
	}
	switch {
	case len(xs) == 0:
		return x, y, false
	case l.Shares:
		return fixedAxis(0, 1, 5), fixedAxis(0, 1, 5), true
	}
	ticks := 4
	if wide {
		ticks = 7
	}
	x, y = newAxis(xs, l.LogX, ticks), newAxis(ys, l.LogY, 5)
	if !l.LogX { // lines begin and end at the frame
		x = x.fitted(xs, .015)
	}
	return x, y, true
}

type lineStyle struct {
	ink    figure.Ink
	width  float64
	dash   []float64
	marked bool
	shape  shape
}

// lineStyles differ by colour, and by marks or, where a line has too many points for these, by dashes.
func lineStyles(series []figure.Series) []lineStyle {
	marked := true
	for _, s := range series {
		marked = marked && (s.Reference || len(s.X) <= marksUpTo)
	}
	styles := make([]lineStyle, len(series))
	colour := 0
	for i, s := range series {
		if s.Reference {
			styles[i] = lineStyle{ink: figure.InkMuted, width: 1.5, dash: []float64{5, 4}}
			continue
		}
		styles[i] = lineStyle{ink: figure.SeriesInk(colour), width: 2, marked: marked, shape: shape(colour % int(ring))}
		if !marked {
			styles[i].dash = patterns[colour%len(patterns)]
		}
		colour++
	}
	return styles
}

// drawLine draws a line in pieces, broken where a number is missing.
func drawLine(d *drawing, s figure.Series, x, y axis, st lineStyle) {
	var piece []point
	flush := func() {
		switch {
		case len(piece) == 1 && !st.marked:
			d.add(mark{x: piece[0].x, y: piece[0].y, shape: disc, ink: st.ink, title: s.Name})
		case len(piece) > 1:
			d.add(stroke{points: thin(piece), ink: st.ink, width: st.width, dash: st.dash, title: s.Name})
		}
		piece = nil
	}
	for i := range s.X {
		p := point{x.at(s.X[i]), y.at(at(s.Y, i))}
		if !finite(p.x, p.y) {
			flush()
			continue
		}
		piece = append(piece, p)
	}
	flush()
	if !st.marked {
		return
	}
	for i := range s.X {
		p := point{x.at(s.X[i]), y.at(at(s.Y, i))}
		if !finite(p.x, p.y) {
			continue
		}
		title := fmt.Sprintf("%s: %s at %s", s.Name, brief(s.Y[i]), brief(s.X[i]))
		if low, high := at(s.Low, i), at(s.High, i); finite(low, high) {
			title += fmt.Sprintf(" (%s to %s)", brief(low), brief(high))
		}
		d.add(mark{p.x, p.y, st.shape, st.ink, title})
	}
}

// drawBand fills between Low and High, in pieces.
func drawBand(d *drawing, s figure.Series, x, y axis, i figure.Ink) {
	var above, below []point
	flush := func() {
		if len(above) > 1 {
			above, below = thin(above), thin(below)
			for k := len(below) - 1; k >= 0; k-- {
				above = append(above, below[k])
			}
			d.add(area{above, i, .16})
		}
		above, below = nil, nil
	}
	for k := range s.X {
		at, low, high := x.at(s.X[k]), y.at(at(s.Low, k)), y.at(at(s.High, k))
		if !finite(at, low, high) {
			flush()
			continue
		}
		above, below = append(above, point{at, high}), append(below, point{at, low})
	}
	flush()
}
