package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"unseen/figure"
)

// Heights of an interval chart.
const (
	intervalRow   = 27.
	intervalGroup = 26. // of a group's name
	intervalName  = 15. // of a row's name, where it is above its interval
)

// intervalChart is where intervals are drawn.
type intervalChart struct {
	*figure.IntervalChart
	d         *drawing
	wide      bool // names are beside the intervals, not above them
	digits    int
	x         axis
	texts     []string // the numbers of every row
	nameRoom  float64
	valueRoom float64
}

// drawIntervals draws estimates with whiskers, one below the other, with their numbers beside them.
func drawIntervals(d *drawing, v *figure.IntervalChart, top float64) {
	if n := len(v.Rows); n > mostBars {
		drawTooMany(d, top, n, "intervals")
		return
	}
	numbers := intervalNumbers(v)
	if len(numbers) == 0 {
		drawNothing(d, top)
		return
	}
	top = drawLegend(d, intervalLegend(v), 4, top) + 8
	c := newIntervalChart(d, v, nearby(numbers))
	bottom := top
	group := ""
	for _, r := range v.Rows {
		if r.Group != group {
			bottom += intervalGroup
		}
		group = r.Group
		bottom += c.rowHeight()
	}
	gridX(d, c.x, top, bottom)
	y := top
	group = ""
	for i, r := range v.Rows {
		if r.Group != group {
			d.add(box{0, y + 4, d.width, 20, figure.InkPaper, ""})
			d.add(words{x: 4, y: y + 18, text: clip(r.Group, textSize, d.width-8), size: textSize, ink: figure.InkText,
				bold: true})
			y += intervalGroup
		}
		group = r.Group
		c.drawRow(i, y)
		y += c.rowHeight()
	}
	d.line(c.x.from, bottom, c.x.to, bottom, figure.InkAxis, 1)
	d.write((c.x.from+c.x.to)/2, bottom+33, clip(v.XTitle, smallSize, d.width-8), smallSize, figure.InkMuted, middle)
	d.height = bottom + 42
}

// intervalNumbers are all finite numbers of the chart.
func intervalNumbers(v *figure.IntervalChart) (numbers []float64) {
	for _, r := range v.Rows {
		for _, x := range []float64{float64(r.Estimate), float64(r.Low), float64(r.High)} {
			if finite(x) {
				numbers = append(numbers, x)
			}
		}
		if t, ok := truthOf(r); ok {
			numbers = append(numbers, t)
		}
	}
	return numbers
}

func intervalLegend(v *figure.IntervalChart) []entry {
	legend := []entry{{"estimate",
		func(d *drawing, x, y float64) { d.add(mark{x: x + 11, y: y, shape: disc, ink: figure.SeriesInk(0)}) }}}
	if slices.ContainsFunc(v.Rows, hasInterval) {
		legend[0] = entry{cmp.Or(v.Legend, "estimate and its interval"),
			func(d *drawing, x, y float64) { drawWhisker(d, [3]float64{x, x + 11, x + 22}, y, "") }}
	}
	if slices.ContainsFunc(v.Rows, func(r figure.IntervalRow) bool { _, ok := truthOf(r); return ok }) {
		legend = append(legend, entry{"truth",
			func(d *drawing, x, y float64) { d.add(mark{x: x + 11, y: y, shape: diamond, ink: figure.InkTruth}) }})
	}
	return legend
}

func newIntervalChart(d *drawing, v *figure.IntervalChart, numbers []float64) *intervalChart {
	c := &intervalChart{IntervalChart: v, d: d, wide: d.width > 500, digits: min(v.Digits, 9)}
	if c.digits <= 0 {
		c.digits = digitsFor(2 * (slices.Max(numbers) - slices.Min(numbers)))
	}
	for _, r := range v.Rows {
		text := intervalText(r, c.digits)
		c.texts = append(c.texts, text)
		c.valueRoom = math.Max(c.valueRoom, measure(text, smallSize, false))
	}
	left, right, ticks := 16., d.width-18, 4
	if c.wide {
		for _, r := range v.Rows {
			c.nameRoom = math.Max(c.nameRoom, math.Min(measure(r.Name, textSize, false), 220))
		}
		left, right, ticks = c.nameRoom+26, d.width-c.valueRoom-20, 6
	}
	c.x = newAxis(numbers, false, ticks).fitted(numbers, .05)
	c.x.from, c.x.to = left, right
	c.x.crowded(right - left)
	return c
}

func (c *intervalChart) rowHeight() float64 {
	if c.wide {
		return intervalRow
	}
	return intervalRow + intervalName
}

// drawRow draws the name, the numbers and the interval of a row.
func (c *intervalChart) drawRow(i int, y float64) {
	r, d := c.Rows[i], c.d
	mid := y + intervalRow/2
	if c.wide {
		d.write(12, mid+4, clip(r.Name, textSize, c.nameRoom), textSize, figure.InkText, start)
		d.write(d.width-8, mid+4, c.texts[i], smallSize, figure.InkMuted, end)
	} else {
		d.add(box{0, y + 1, d.width, 18, figure.InkPaper, ""}) // the paper behind the name hides the grid
		d.write(8, y+14, clip(r.Name, textSize, d.width-c.valueRoom-28), textSize, figure.InkText, start)
		d.write(d.width-8, y+14, c.texts[i], smallSize, figure.InkMuted, end)
		mid += intervalName
	}
	estimate, low, high := float64(r.Estimate), float64(r.Low), float64(r.High)
	switch {
	case finite(estimate) && estimate < c.x.low:
		d.write(c.x.from+2, mid+4, "← off the scale", smallSize, figure.InkMuted, start)
		return
	case finite(estimate) && estimate > c.x.high:
		d.write(c.x.to-2, mid+4, "off the scale →", smallSize, figure.InkMuted, end)
		return
	}
	if t, ok := truthOf(r); ok && finite(c.x.at(t)) { // behind the estimate, whose mark is smaller
		d.add(mark{c.x.at(t), mid, diamond, figure.InkTruth, r.Name + ", truth: " + brief(t)})
	}
	if finite(estimate) {
		if !finite(low, high) {
			low, high = estimate, estimate
		}
		drawWhisker(d, [3]float64{c.x.at(math.Max(low, c.x.low)), c.x.at(estimate), c.x.at(math.Min(high, c.x.high))},
			mid, intervalTitle(r))
	}
}

// nearby drops numbers that are so far out that all others would be one dot: further than six times the span of the
// middle half. A row with such an estimate is marked as off the scale, with its number beside it.
func nearby(numbers []float64) []float64 {
	ordered := slices.Sorted(slices.Values(numbers))
	n := len(ordered)
	if n < 12 {
		return numbers
	}
	q1, q3 := ordered[n/4], ordered[3*n/4]
	reach := 6 * (q3 - q1)
	if reach == 0 {
		return numbers
	}
	return slices.DeleteFunc(ordered, func(x float64) bool { return x < q1-reach || x > q3+reach })
}

func truthOf(r figure.IntervalRow) (float64, bool) {
	if r.Truth == nil || !finite(float64(*r.Truth)) {
		return 0, false
	}
	return float64(*r.Truth), true
}

// drawWhisker draws an estimate between the ends of its interval: low, estimate, high, in pixels.
func drawWhisker(d *drawing, x [3]float64, y float64, title string) {
	low, estimate, high := x[0], x[1], x[2]
	if high-low > .5 {
		d.add(stroke{points: []point{{low, y}, {high, y}}, ink: figure.SeriesInk(0), width: 2, title: title})
	}
	if high-low > 4*markRadius { // ends of a shorter one would look like an H
		for _, end := range []float64{low, high} {
			d.line(end, y-5, end, y+5, figure.SeriesInk(0), 2)
		}
	}
	d.add(mark{estimate, y, disc, figure.SeriesInk(0), title})
}

// hasInterval reports whether a row has more than its estimate.
func hasInterval(r figure.IntervalRow) bool {
	return finite(float64(r.Low), float64(r.High)) && r.Low < r.High
}

// intervalText is "0.412 (0.401 to 0.423)".
func intervalText(r figure.IntervalRow, digits int) string {
	text := number(float64(r.Estimate), digits)
	if hasInterval(r) {
		text += fmt.Sprintf(" (%s to %s)", number(float64(r.Low), digits), number(float64(r.High), digits))
	}
	return text
}

func intervalTitle(r figure.IntervalRow) string {
	text := r.Name + ": " + brief(float64(r.Estimate))
	if hasInterval(r) {
		text += fmt.Sprintf(" (%s to %s)", brief(float64(r.Low)), brief(float64(r.High)))
	}
	if r.Group != "" {
		text = r.Group + ", " + text
	}
	if t, ok := truthOf(r); ok {
		text += ", truth " + brief(t)
	}
	return text
}
