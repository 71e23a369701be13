package report

import (
	"fmt"
	"math"
	"slices"

	"unseen/figure"
)

// drawIntervals draws estimates with whiskers, one below the other, with their numbers beside them.
func drawIntervals(d *drawing, v *figure.IntervalChart, top float64) {
	if n := len(v.Rows); n > mostBars {
		drawTooMany(d, top, n, "intervals")
		return
	}
	var numbers []float64
	truths, whiskers := false, false
	for _, r := range v.Rows {
		for _, x := range []float64{float64(r.Estimate), float64(r.Low), float64(r.High)} {
			if finite(x) {
				numbers = append(numbers, x)
			}
		}
		whiskers = whiskers || finite(float64(r.Low), float64(r.High)) && r.Low < r.High
		if t, ok := truthOf(r); ok {
			numbers = append(numbers, t)
			truths = true
		}
	}
	if len(numbers) == 0 {
		drawNothing(d, top)
		return
	}
	wide := d.width > 500
	numbers = nearby(numbers)
	digits := min(v.Digits, 9)
	if digits <= 0 {
		digits = digitsFor(2 * (slices.Max(numbers) - slices.Min(numbers)))
	}
	legend := []entry{{"estimate", func(d *drawing, x,
		y float64) {
		d.add(mark{x: x + 11, y: y, shape: disc, ink: figure.SeriesInk(0)})
	}}}
	if whiskers {
		legend[0] = entry{or(v.Legend, "estimate and its interval"),
			func(d *drawing, x, y float64) { whisker(d, x, x+11, x+22, y, "") }}
	}
	if truths {
		legend = append(legend, entry{"truth",
			func(d *drawing, x, y float64) { d.add(mark{x: x + 11, y: y, shape: diamond, ink: figure.InkTruth}) }})
	}
	top = drawLegend(d, legend, 4, top) + 8

	left, valueRoom := 16., 0.
	texts := make([]string, len(v.Rows))
	for i, r := range v.Rows {
		texts[i] = intervalText(r, digits)
		valueRoom = math.Max(valueRoom, measure(texts[i], smallSize, false))
	}
	right := d.width - 18
	nameRoom := 0.
	if wide {
		for _, r := range v.Rows {
			nameRoom = math.Max(nameRoom, math.Min(measure(r.Name, textSize, false), 220))
		}
		left = nameRoom + 26
		right = d.width - valueRoom - 20
	}
	const row = 27.
	height, group := 0., ""
	tall := row
	if !wide {
		tall = row + 15
	}
	for _, r := range v.Rows {
		if r.Group != group {
			group = r.Group
			height += 26
		}
		height += tall
	}
	bottom := top + height
	x := newAxis(numbers, false, map[bool]int{true: 6, false: 4}[wide]).fitted(numbers, .05)
	x.from, x.to = left, right
	x.crowded(right - left)
	gridX(d, x, top, bottom)
	y := top
	group = ""
	for i, r := range v.Rows {
		if r.Group != group {
			group = r.Group
			d.add(box{0, y + 4, d.width, 20, figure.InkPaper, ""})
			d.add(words{x: 4, y: y + 18, text: clip(group, textSize, d.width-8), size: textSize, ink: figure.InkText,
				bold: true})
			y += 26
		}
		mid := y + row/2
		if wide {
			d.write(12, mid+4, clip(r.Name, textSize, nameRoom), textSize, figure.InkText, start)
			d.write(d.width-8, mid+4, texts[i], smallSize, figure.InkMuted, end)
		} else {
			d.add(box{0, y + 1, d.width, 18, figure.InkPaper, ""}) // no line runs through it
			d.write(8, y+14, clip(r.Name, textSize, d.width-valueRoom-28), textSize, figure.InkText, start)
			d.write(d.width-8, y+14, texts[i], smallSize, figure.InkMuted, end)
			mid = y + 15 + row/2
		}
		if e := float64(r.Estimate); finite(e) && e < x.low {
			d.write(left+2, mid+4, "← off the scale", smallSize, figure.InkMuted, start)
			y += tall
			continue
		} else if finite(e) && e > x.high {
			d.write(right-2, mid+4, "off the scale →", smallSize, figure.InkMuted, end)
			y += tall
			continue
		}
		if t, ok := truthOf(r); ok && finite(x.at(t)) { // below the estimate, which is smaller
			d.add(mark{x.at(t), mid, diamond, figure.InkTruth, r.Name + ", truth: " + brief(t)})
		}
		if estimate, low, high := float64(r.Estimate), float64(r.Low), float64(r.High); finite(estimate) {
			if !finite(low, high) {
				low, high = estimate, estimate
			}
			whisker(d, x.at(math.Max(low, x.low)), x.at(estimate), x.at(math.Min(high, x.high)), mid, intervalTitle(r))
		}
		y += tall
	}
	d.line(left, bottom, right, bottom, figure.InkAxis, 1)
	d.write((left+right)/2, bottom+33, clip(v.XTitle, smallSize, d.width-8), smallSize, figure.InkMuted, middle)
	d.height = bottom + 42
}

// nearby drops numbers that are so far from the others that these would all be one dot: further out than six times
// the span of their middle half. Whoever is dropped is said to be off the scale, with its number beside it.
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

// whisker draws an estimate and how far it may be off.
func whisker(d *drawing, low, at, high, y float64, title string) {
	if high-low > .5 {
		d.add(stroke{points: []point{{low, y}, {high, y}}, ink: figure.SeriesInk(0), width: 2, title: title})
	}
	if high-low > 4*markRadius { // shorter ones would be an H
		for _, end := range []float64{low, high} {
			d.line(end, y-5, end, y+5, figure.SeriesInk(0), 2)
		}
	}
	d.add(mark{at, y, disc, figure.SeriesInk(0), title})
}

// intervalText is "0.412 (0.401 to 0.423)".
func intervalText(r figure.IntervalRow, digits int) string {
	text := number(float64(r.Estimate), digits)
	if finite(float64(r.Low), float64(r.High)) && r.Low < r.High {
		text += fmt.Sprintf(" (%s to %s)", number(float64(r.Low), digits), number(float64(r.High), digits))
	}
	return text
}

func intervalTitle(r figure.IntervalRow) string {
	text := r.Name + ": " + brief(float64(r.Estimate))
	if finite(float64(r.Low), float64(r.High)) && r.Low < r.High {
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
