package report

import (
	"fmt"
	"math"

	"unseen/figure"
)

// drawHeat draws a heat map, and the one beside it: to its right where there is room, else below.
func drawHeat(d *drawing, h *figure.HeatMap, top float64) {
	maps := []*figure.HeatMap{h}
	if h.Beside != nil {
		maps = append(maps, h.Beside)
	}
	rows, columns := 0, 0
	for _, m := range maps {
		rows = max(rows, len(m.Values), len(m.Rows))
		for _, v := range m.Values {
			columns = max(columns, len(v))
		}
		columns = max(columns, len(m.Columns))
	}
	if rows == 0 || columns == 0 {
		drawNothing(d, top)
		return
	}
	if rows > mostCells || columns > mostCells || rows*columns*len(maps) > mostCells {
		drawTooMany(d, top, rows*len(maps), fmt.Sprintf("rows of %s numbers", number(float64(columns), 0)))
		return
	}
	low, high := heatScale(h, maps)
	digits := heatDigits(low, high)

	stacked := len(maps) > 1 && d.width < 600
	across := len(maps)
	if stacked {
		across = 1
	}
	const gap = 26.
	const lean = math.Sqrt2 / 2 // of the columns' names
	labelRoom := math.Min(d.width*.34, 160)
	size := smallSize
	var below, left, cell float64
	for { // smaller letters leave more room for cells, which carry larger letters
		labels := 0.
		below = 0
		for i := range rows {
			labels = math.Max(labels, measure(clip(name(h.Rows, i), size, labelRoom), size, false))
		}
		for j := range columns {
			below = math.Max(below, measure(clip(name(h.Columns, j), size, labelRoom), size, false))
		}
		left = math.Ceil(math.Max(labels+8, below*lean-4)) // names that lean reach to the left
		cell = math.Min((d.width-left-gap*float64(across-1)-4)/float64(across*columns), 34)
		if size <= 7.5 || cell >= size*1.3 {
			break
		}
		size -= .5
	}
	valued := cell >= 30 && across*columns*rows <= 500
	hover := rows*columns*len(maps) <= 4000

	y := top
	missing := false
	for k, m := range maps {
		x := left
		if !stacked {
			x += float64(k) * (cell*float64(columns) + gap)
			y = top
		}
		if m.Title != "" {
			d.add(words{x: x, y: y + 13, text: clip(m.Title, 13, d.width-x), size: 13, ink: figure.InkText, bold: true})
			y += 22
		}
		for i := range rows {
			for j := range columns {
				v := math.NaN()
				if i < len(m.Values) {
					v = at(m.Values[i], j)
				}
				title := ""
				if hover {
					title = fmt.Sprintf("%s → %s: %s", name(h.Rows, i), name(h.Columns, j), number(v, digits))
				}
				cx, cy := x+float64(j)*cell, y+float64(i)*cell
				if !finite(v) {
					missing = true
					drawMissing(d, cx, cy, cell-1, title)
					continue
				}
				fill, ink := figure.HeatInk((v - low) / (high - low))
				d.add(box{cx, cy, cell - 1, cell - 1, fill, title})
				if valued {
					if text := number(v, min(digits, 2)); measure(text, 10, false) < cell-3 {
						d.write(cx+(cell-1)/2, cy+cell/2+3, text, 10, ink, middle)
					}
				}
			}
		}
		if k == 0 || stacked {
			for i := range rows {
				d.write(x-6, y+(float64(i)+.5)*cell+size*.32, clip(name(h.Rows, i), size, labelRoom), size,
					figure.InkText, end)
			}
		}
		y += float64(rows) * cell
		for j := range columns {
			d.add(words{x: x + (float64(j)+.5)*cell + size*.3, y: y + size*.5 + 5,
				text: clip(name(h.Columns, j), size, labelRoom), size: size, ink: figure.InkText, anchor: end,
				angle: -45})
		}
		y += below*lean + 16
	}
	if d.width < 500 {
		left = 8
	}
	d.height = drawScale(d, left, y+4, low, high, digits, missing)
	what := fmt.Sprintf("rows: %s; columns: %s", h.RowTitle, h.ColumnTitle)
	if h.RowTitle == "" || h.ColumnTitle == "" {
		return
	}
	for _, line := range wrapped(what, smallSize, d.width-left-8, 2) {
		d.height += 15
		d.write(left, d.height-5, line, smallSize, figure.InkMuted, start)
	}
	d.height += 4
}

// heatScale is the scale that was asked for, or else what all numbers fit on.
func heatScale(h *figure.HeatMap, maps []*figure.HeatMap) (low, high float64) {
	if finite(h.Low, h.High) && h.Low < h.High {
		return h.Low, h.High
	}
	low, high = math.Inf(1), math.Inf(-1)
	for _, m := range maps {
		for _, row := range m.Values {
			for _, v := range finiteOf(row) {
				low, high = math.Min(low, v), math.Max(high, v)
			}
		}
	}
	switch {
	case low > high:
		return 0, 1
	case low == high:
		return low - .5, high + .5
	}
	return low, high
}

// heatDigits tells a hundredth of the scale.
func heatDigits(low, high float64) int {
	return min(max(0, 2-int(math.Floor(math.Log10(high-low)+1e-9))), 9)
}

// drawMissing draws a cell without a number: crossed out, so that it is no colour of the scale.
func drawMissing(d *drawing, x, y, side float64, title string) {
	d.add(box{x, y, side, side, figure.InkGrid, title})
	d.line(x+2, y+side-2, x+side-2, y+2, figure.InkAxis, 1)
}

// drawScale draws the colours with their numbers and returns where they end.
func drawScale(d *drawing, left, y, low, high float64, digits int, missing bool) float64 {
	const width, height = 192., 10.
	digits = min(digits, 2+max(0, -int(math.Floor(math.Log10(high-low)))))
	for level := range figure.HeatLevels {
		fill, _ := figure.HeatInk((float64(level) + .5) / figure.HeatLevels)
		d.add(box{left + width*float64(level)/figure.HeatLevels, y, width / figure.HeatLevels, height, fill, ""})
	}
	for _, share := range []float64{0, .5, 1} {
		a := [...]anchor{start, middle, end}[int(2*share)]
		d.write(left+width*share, y+height+14, number(low+share*(high-low), digits), smallSize, figure.InkMuted, a)
	}
	if missing {
		drawMissing(d, left+width+20, y-1, 12, "")
		d.write(left+width+38, y+9, "no value", smallSize, figure.InkMuted, start)
	}
	return y + height + 22
}
