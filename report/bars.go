package report

import (
	"fmt"
	"math"

	"unseen/figure"
)

// drawBars draws groups of bars that lie, so that names of any length can be read: beside them where there is
// room, else above.
func drawBars(d *drawing, b *figure.BarChart, top float64) {
	if n := len(b.Groups) * max(len(b.Series), 1); n > mostBars {
		drawTooMany(d, top, n, "bars")
		return
	}
	numbers := []float64{0}
	largest := 0.
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
	if len(numbers) == 1 {
		drawNothing(d, top)
		return
	}
	wide, digits := d.width > 500, digitsFor(largest)
	var legend []entry
	for i, s := range b.Series {
		legend = append(legend, entry{s.Name, boxSample(figure.SeriesInk(i))})
	}
	if len(legend) > 1 {
		top = drawLegend(d, legend, 4, top) + 4
	}
	for _, line := range wrapped(b.YTitle, smallSize, d.width-8, 2) {
		d.write(4, top+11, line, smallSize, figure.InkMuted, start)
		top += 15
	}
	top += 6

	left, room := 14., d.width-28
	if wide {
		for _, g := range b.Groups {
			left = math.Max(left, math.Min(measure(g, textSize, false), 210)+14)
		}
		room = left - 14
	}
	x := newAxis(numbers, false, map[bool]int{true: 7, false: 4}[wide]).fitted(numbers, .02)
	values := 0.
	for _, v := range numbers {
		values = math.Max(values, measure(number(v, digits), smallSize, false))
	}
	x.from, x.to = left, d.width-values-22
	x.crowded(x.to - x.from)
	const thick, space = 13., 3.
	block := float64(len(b.Series))*(thick+space) + 12
	head := make([][]string, len(b.Groups))
	height := 0.
	for i, g := range b.Groups {
		head[i] = wrapped(g, textSize, room, 2)
		height += blockHeight(block, len(head[i]), wide)
	}
	bottom := top + height
	gridX(d, x, top, bottom)
	zero := x.at(0)
	y := top
	for i, g := range b.Groups {
		tall := blockHeight(block, len(head[i]), wide)
		at0 := y + (tall-block)/2 + 6
		for k, line := range head[i] {
			if wide {
				d.write(left-10, y+tall/2+4+(float64(k)-float64(len(head[i])-1)/2)*15, line, textSize, figure.InkText,
					end)
			} else {
				d.add(box{0, y + 2 + float64(k)*15, d.width, 16, figure.InkPaper, ""}) // no line runs through it
				d.write(left, y+14+float64(k)*15, line, textSize, figure.InkText, start)
				at0 = y + float64(len(head[i]))*15 + 6
			}
		}
		for k, s := range b.Series {
			v, e := at(s.Values, i), at(s.Errors, i)
			by := at0 + float64(k)*(thick+space)
			if !finite(v) {
				d.write(math.Max(zero, left)+4, by+thick-3, "no value", smallSize, figure.InkMuted, start)
				continue
			}
			title := fmt.Sprintf("%s, %s: %s", g, s.Name, number(v, digits))
			if finite(e) {
				title += " ± " + number(e, digits)
			}
			from, to := math.Min(zero, x.at(v)), math.Max(zero, x.at(v))
			d.add(box{from, by, math.Max(to-from, .75), thick, figure.SeriesInk(k), title})
			edge := to
			if finite(e) {
				low, high, mid := x.at(v-e), x.at(v+e), by+thick/2
				d.line(low, mid, high, mid, figure.InkText, 1.2)
				d.line(low, mid-3, low, mid+3, figure.InkText, 1.2)
				d.line(high, mid-3, high, mid+3, figure.InkText, 1.2)
				edge = math.Max(edge, high)
			}
			d.write(edge+5, by+thick-3, number(v, digits), smallSize, figure.InkMuted, start)
		}
		y += tall
	}
	d.line(zero, top, zero, bottom, figure.InkAxis, 1)
	d.height = bottom + 24
}

func blockHeight(block float64, lines int, wide bool) float64 {
	if wide {
		return math.Max(block, float64(lines)*15+8)
	}
	return block + float64(lines)*15 + 2
}

// digitsFor is how many digits after the point numbers up to x need for three that count, 6 at most.
func digitsFor(x float64) int {
	if x == 0 || !finite(x) {
		return 0
	}
	return min(max(0, 2-int(math.Floor(math.Log10(math.Abs(x))))), 6)
}
