package report

import (
	"fmt"
	"math"

	"unseen/figure"
)

// Sizes of a bar chart.
const (
	barHeight, barGap = 13., 3.
	nameLine          = 15. // height of a line of a group's name
)

// barChart is where the bars of a chart are drawn.
type barChart struct {
	*figure.BarChart
	d      *drawing
	wide   bool
	digits int
	left   float64
	x      axis
	names  [][]string // of the groups, in lines
}

// drawBars draws groups of horizontal bars, so that names of any length can be read: beside the bars where there is
// room, otherwise above them.
func drawBars(d *drawing, b *figure.BarChart, top float64) {
	if n := len(b.Groups) * max(len(b.Series), 1); n > mostBars {
		drawTooMany(d, top, n, "bars")
		return
	}
	numbers, largest := barNumbers(b)
	if len(numbers) == 0 {
		drawNothing(d, top)
		return
	}
	var legend []entry
	for i, s := range b.Series {
		legend = append(legend, entry{s.Name, boxSample(figure.SeriesInk(i))})
	}
	if len(legend) > 1 {
		top = drawLegend(d, legend, 4, top) + 4
	}
	top = drawYTitle(d, b.YTitle, top) + 6
	c := newBarChart(d, b, append(numbers, 0), digitsFor(largest))
	bottom := top
	for i := range b.Groups {
		bottom += c.groupHeight(i)
	}
	gridX(d, c.x, top, bottom)
	y := top
	for i := range b.Groups {
		c.drawGroup(i, y)
		y += c.groupHeight(i)
	}
	d.line(c.x.at(0), top, c.x.at(0), bottom, figure.InkAxis, 1)
	d.height = bottom + 24
}

// barNumbers are the finite values with the ends of their whiskers, and the largest absolute value.
func barNumbers(b *figure.BarChart) (numbers []float64, largest float64) {
	for _, s := range b.Series {
		for i := range b.Groups {
			v, e := at(s.Values, i), at(s.Errors, i)
			if !finite(v) {
				continue
			}
			largest = math.Max(largest, math.Abs(v))
			numbers = append(numbers, v)
			if finite(e) {
				numbers = append(numbers, v-e, v+e)
			}
		}
	}
	return numbers, largest
}

func newBarChart(d *drawing, b *figure.BarChart, numbers []float64, digits int) *barChart {
	c := &barChart{BarChart: b, d: d, wide: d.width > 500, digits: digits, left: 14}
	nameRoom, ticks := d.width-28, 4
	if c.wide {
		for _, g := range b.Groups {
			c.left = math.Max(c.left, math.Min(measure(g, textSize, false), 210)+14)
		}
		nameRoom, ticks = c.left-14, 7
	}
	for _, g := range b.Groups {
		c.names = append(c.names, wrapped(g, textSize, nameRoom, 2))
	}
	valueRoom := 0.
	for _, v := range numbers {
		valueRoom = math.Max(valueRoom, measure(number(v, digits), smallSize, false))
	}
	c.x = newAxis(numbers, false, ticks).fitted(numbers, .02)
	c.x.from, c.x.to = c.left, d.width-valueRoom-22
	c.x.crowded(c.x.to - c.x.from)
	return c
}

// barsHeight is that of the bars of a group.
func (c *barChart) barsHeight() float64 { return float64(len(c.Series))*(barHeight+barGap) + 12 }

func (c *barChart) groupHeight(i int) float64 {
	lines := float64(len(c.names[i]))
	if c.wide {
		return math.Max(c.barsHeight(), lines*nameLine+8)
	}
	return c.barsHeight() + lines*nameLine + 2
}

// drawGroup draws the name of a group and its bars.
func (c *barChart) drawGroup(i int, top float64) {
	height, lines := c.groupHeight(i), float64(len(c.names[i]))
	y := top + (height-c.barsHeight())/2 + 6
	for k, line := range c.names[i] {
		if c.wide {
			c.d.write(c.left-10, top+height/2+4+(float64(k)-(lines-1)/2)*nameLine, line, textSize, figure.InkText, end)
		} else {
			// the paper behind it hides the grid
			c.d.add(box{0, top + 2 + float64(k)*nameLine, c.d.width, 16, figure.InkPaper, ""})
			c.d.write(c.left, top+14+float64(k)*nameLine, line, textSize, figure.InkText, start)
			y = top + lines*nameLine + 6
		}
	}
	for k := range c.Series {
		c.drawBar(i, k, y+float64(k)*(barHeight+barGap))
	}
}

// drawBar draws the bar of series k in group i, with its whisker and its number.
func (c *barChart) drawBar(i, k int, y float64) {
	s, zero := c.Series[k], c.x.at(0)
	v, e := at(s.Values, i), at(s.Errors, i)
	if !finite(v) {
		c.d.write(math.Max(zero, c.left)+4, y+barHeight-3, "no value", smallSize, figure.InkMuted, start)
		return
	}
	title := fmt.Sprintf("%s, %s: %s", c.Groups[i], s.Name, number(v, c.digits))
	if finite(e) {
		title += " ± " + number(e, c.digits)
	}
	from, to := math.Min(zero, c.x.at(v)), math.Max(zero, c.x.at(v))
	c.d.add(box{from, y, math.Max(to-from, .75), barHeight, figure.SeriesInk(k), title})
	edge := to
	if finite(e) {
		low, high, mid := c.x.at(v-e), c.x.at(v+e), y+barHeight/2
		c.d.line(low, mid, high, mid, figure.InkText, 1.2)
		c.d.line(low, mid-3, low, mid+3, figure.InkText, 1.2)
		c.d.line(high, mid-3, high, mid+3, figure.InkText, 1.2)
		edge = math.Max(edge, high)
	}
	c.d.write(edge+5, y+barHeight-3, number(v, c.digits), smallSize, figure.InkMuted, start)
}

// digitsFor is the number of digits after the point for three significant ones in numbers up to x, 6 at most.
func digitsFor(x float64) int {
	if x == 0 || !finite(x) {
		return 0
	}
	return min(max(0, 2-int(math.Floor(math.Log10(math.Abs(x))))), 6)
}
