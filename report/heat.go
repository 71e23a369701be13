package report

import (
	"fmt"
	"math"

	"unseen/figure"
)

// heatGap is the room between two maps side by side.
const heatGap = 26.

// lean is how far a column's name, which is turned by 45°, reaches per length of it.
const lean = math.Sqrt2 / 2

// heatChart is where one or two heat maps are drawn.
type heatChart struct {
	d             *drawing
	maps          []*figure.HeatMap
	rows, columns int
	low, high     float64 // ends of the scale
	digits        int

	stacked   bool    // the second map is below the first, not beside it
	left      float64 // of the first cell
	cell      float64 // side of a cell with the gap after it
	size      float64 // of the letters of names
	nameRoom  float64
	below     float64 // the longest name of a column
	valued    bool    // numbers are written into the cells
	hover     bool    // cells have a title
	isMissing bool    // a cell has no number
}

// drawHeat draws a heat map, and the one beside it: to its right where there is room, otherwise below.
func drawHeat(d *drawing, h *figure.HeatMap, top float64) {
	c := &heatChart{d: d, maps: []*figure.HeatMap{h}}
	if h.Beside != nil {
		c.maps = append(c.maps, h.Beside)
	}
	for _, m := range c.maps {
		c.rows = max(c.rows, len(m.Values), len(m.Rows))
		for _, v := range m.Values {
			c.columns = max(c.columns, len(v))
		}
		c.columns = max(c.columns, len(m.Columns))
	}
	if c.rows == 0 || c.columns == 0 {
		drawNothing(d, top)
		return
	}
	if c.rows > mostCells || c.columns > mostCells || c.rows*c.columns*len(c.maps) > mostCells {
		drawTooMany(d, top, c.rows*len(c.maps), fmt.Sprintf("rows of %s numbers", number(float64(c.columns), 0)))
		return
	}
	c.low, c.high = heatScale(h, c.maps)
	c.digits = heatDigits(c.low, c.high)
	c.layOut()
	y := top
	for k, m := range c.maps {
		x := c.left
		if !c.stacked {
			x += float64(k) * (c.cell*float64(c.columns) + heatGap)
			y = top
		}
		y = c.drawMap(m, x, y, k == 0 || c.stacked)
	}
	left := c.left
	if d.width < 500 {
		left = 8
	}
	d.height = c.drawScale(left, y+4)
	if h.RowTitle == "" || h.ColumnTitle == "" {
		return
	}
	axes := fmt.Sprintf("rows: %s; columns: %s", h.RowTitle, h.ColumnTitle)
	for _, line := range wrapped(axes, smallSize, d.width-left-8, 2) {
		d.height += 15
		d.write(left, d.height-5, line, smallSize, figure.InkMuted, start)
	}
	d.height += 4
}

// layOut chooses the size of cells and letters: smaller letters leave more room for cells.
func (c *heatChart) layOut() {
	c.stacked = len(c.maps) > 1 && c.d.width < 600
	across := len(c.maps)
	if c.stacked {
		across = 1
	}
	c.nameRoom = math.Min(c.d.width*.34, 160)
	for c.size = smallSize; ; c.size -= .5 {
		beside := c.longest(c.maps[0].Rows, c.rows)
		c.below = c.longest(c.maps[0].Columns, c.columns)
		c.left = math.Ceil(math.Max(beside+8, c.below*lean-4)) // names that lean reach to the left
		c.cell = math.Min((c.d.width-c.left-heatGap*float64(across-1)-4)/float64(across*c.columns), 34)
		if c.size <= 7.5 || c.cell >= c.size*1.3 {
			break
		}
	}
	c.valued = c.cell >= 30 && across*c.columns*c.rows <= 500
	c.hover = c.rows*c.columns*len(c.maps) <= 4000
}

// longest is the width of the longest of the first n names.
func (c *heatChart) longest(names []string, n int) (width float64) {
	for i := range n {
		width = math.Max(width, measure(clip(name(names, i), c.size, c.nameRoom), c.size, false))
	}
	return width
}

// drawMap draws one map at a place and returns where it ends.
func (c *heatChart) drawMap(m *figure.HeatMap, x, y float64, named bool) float64 {
	if m.Title != "" {
		c.d.add(words{x: x, y: y + 13, text: clip(m.Title, 13, c.d.width-x), size: 13, ink: figure.InkText, bold: true})
		y += 22
	}
	for i := range c.rows {
		for j := range c.columns {
			v := math.NaN()
			if i < len(m.Values) {
				v = at(m.Values[i], j)
			}
			title := ""
			if c.hover {
				title = fmt.Sprintf("%s → %s: %s", name(c.maps[0].Rows, i), name(c.maps[0].Columns, j),
					number(v, c.digits))
			}
			c.drawCell(x+float64(j)*c.cell, y+float64(i)*c.cell, v, title)
		}
	}
	if named {
		for i := range c.rows {
			c.d.write(x-6, y+(float64(i)+.5)*c.cell+c.size*.32, clip(name(c.maps[0].Rows, i), c.size, c.nameRoom),
				c.size, figure.InkText, end)
		}
	}
	y += float64(c.rows) * c.cell
	for j := range c.columns {
		c.d.add(words{x: x + (float64(j)+.5)*c.cell + c.size*.3, y: y + c.size*.5 + 5,
			text: clip(name(c.maps[0].Columns, j), c.size, c.nameRoom), size: c.size, ink: figure.InkText, anchor: end,
			angle: -45})
	}
	return y + c.below*lean + 16
}

func (c *heatChart) drawCell(x, y, v float64, title string) {
	if !finite(v) {
		c.isMissing = true
		drawMissing(c.d, x, y, c.cell-1, title)
		return
	}
	fill, ink := figure.HeatInk((v - c.low) / (c.high - c.low))
	c.d.add(box{x, y, c.cell - 1, c.cell - 1, fill, title})
	if !c.valued {
		return
	}
	if text := number(v, min(c.digits, 2)); measure(text, 10, false) < c.cell-3 {
		c.d.write(x+(c.cell-1)/2, y+c.cell/2+3, text, 10, ink, middle)
	}
}

// heatScale is the scale that is given, or one that all numbers fit on.
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

// heatDigits is the number of digits that a hundredth of the scale needs.
func heatDigits(low, high float64) int {
	return min(max(0, 2-int(math.Floor(math.Log10(high-low)+1e-9))), 9)
}

// drawMissing draws a cell without a number: crossed out, so that it is no colour of the scale.
func drawMissing(d *drawing, x, y, side float64, title string) {
	d.add(box{x, y, side, side, figure.InkGrid, title})
	d.line(x+2, y+side-2, x+side-2, y+2, figure.InkAxis, 1)
}

// drawScale draws the colours with their numbers and returns where they end.
func (c *heatChart) drawScale(left, y float64) float64 {
	const width, height = 192., 10.
	digits := min(c.digits, 2+max(0, -int(math.Floor(math.Log10(c.high-c.low)))))
	for level := range figure.HeatLevels {
		fill, _ := figure.HeatInk((float64(level) + .5) / figure.HeatLevels)
		c.d.add(box{left + width*float64(level)/figure.HeatLevels, y, width / figure.HeatLevels, height, fill, ""})
	}
	for k, anchor := range []anchor{start, middle, end} {
		share := float64(k) / 2
		c.d.write(left+width*share, y+height+14, number(c.low+share*(c.high-c.low), digits), smallSize,
			figure.InkMuted, anchor)
	}
	if c.isMissing {
		drawMissing(c.d, left+width+20, y-1, 12, "")
		c.d.write(left+width+38, y+9, "no value", smallSize, figure.InkMuted, start)
	}
	return y + height + 22
}
