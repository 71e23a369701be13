package report

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"

	"unseen/figure"

	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/vector"
)

// pngScale is the number of dots per CSS pixel, so that pictures are sharp in print.
const pngScale = 2

// png draws a drawing in its light colours.
func (d *drawing) png() ([]byte, error) {
	p := &painter{image: image.NewRGBA(image.Rect(0, 0, int(math.Ceil(d.width*pngScale)),
		int(math.Ceil(d.height*pngScale))))}
	draw.Draw(p.image, p.image.Bounds(), image.NewUniform(figure.InkPaper.Light()), image.Point{}, draw.Src)
	for _, s := range d.shapes {
		p.shape(s)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, p.image); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

type painter struct {
	image  *image.RGBA
	vector vector.Rasterizer
}

func (p *painter) shape(shape any) {
	switch v := shape.(type) {
	case box:
		p.fill([][]point{{{v.x, v.y}, {v.x + v.w, v.y}, {v.x + v.w, v.y + v.h}, {v.x, v.y + v.h}}}, v.fill, 1)
	case stroke:
		p.stroke(v.points, v.dash, v.width, v.ink)
	case area:
		p.fill([][]point{v.points}, v.fill, v.alpha)
	case words:
		p.words(v)
	case mark:
		r := markRadius
		switch v.shape {
		case disc:
			p.fill([][]point{circle(point{v.x, v.y}, r)}, v.ink, 1)
		case ring:
			p.fill([][]point{circle(point{v.x, v.y}, r+1)}, v.ink, 1)
			p.fill([][]point{circle(point{v.x, v.y}, r-1)}, figure.InkPaper, 1)
		case cross:
			p.stroke([]point{{v.x - r, v.y - r}, {v.x + r, v.y + r}}, nil, 2, v.ink)
			p.stroke([]point{{v.x - r, v.y + r}, {v.x + r, v.y - r}}, nil, 2, v.ink)
		default:
			p.fill([][]point{v.outline()}, v.ink, 1)
		}
	}
}

// fill fills polygons as one shape.
func (p *painter) fill(polygons [][]point, i figure.Ink, alpha float64) {
	// The rasterizer covers only the pixels around the shape: one as large as the picture would make the work for a
	// heat map of a thousand cells that for a thousand pictures.
	low, high := point{math.Inf(1), math.Inf(1)}, point{math.Inf(-1), math.Inf(-1)}
	for _, polygon := range polygons {
		for _, q := range polygon {
			low = point{math.Min(low.x, q.x), math.Min(low.y, q.y)}
			high = point{math.Max(high.x, q.x), math.Max(high.y, q.y)}
		}
	}
	if !finite(low.x, low.y, high.x, high.y) {
		return
	}
	bounds := image.Rect(int(math.Floor(low.x*pngScale)), int(math.Floor(low.y*pngScale)),
		int(math.Ceil(high.x*pngScale)), int(math.Ceil(high.y*pngScale)))
	bounds = bounds.Intersect(p.image.Bounds())
	if bounds.Empty() {
		return
	}
	p.vector.Reset(bounds.Dx(), bounds.Dy())
	at := func(q point) (x, y float32) {
		return float32(q.x*pngScale - float64(bounds.Min.X)), float32(q.y*pngScale - float64(bounds.Min.Y))
	}
	for _, polygon := range polygons {
		for k, q := range polygon {
			x, y := at(q)
			if k == 0 {
				p.vector.MoveTo(x, y)
			} else {
				p.vector.LineTo(x, y)
			}
		}
		p.vector.ClosePath()
	}
	p.vector.Draw(p.image, bounds, image.NewUniform(translucent(i, alpha)), image.Point{})
}

func translucent(i figure.Ink, alpha float64) color.NRGBA {
	c := i.Light()
	c.A = uint8(math.Round(255 * alpha))
	return c
}

// stroke fills the outline of a line: a box per segment and a disc per corner, all with the same orientation, so that
// overlaps are filled once.
func (p *painter) stroke(points []point, dash []float64, width float64, i figure.Ink) {
	for _, piece := range dashes(points, dash) {
		var outline [][]point
		for k := 1; k < len(piece); k++ {
			a, b := piece[k-1], piece[k]
			length := math.Hypot(b.x-a.x, b.y-a.y)
			if length == 0 {
				continue
			}
			nx, ny := -(b.y-a.y)/length*width/2, (b.x-a.x)/length*width/2
			outline = append(outline, []point{{a.x - nx, a.y - ny}, {b.x - nx, b.y - ny}, {b.x + nx, b.y + ny},
				{a.x + nx, a.y + ny}})
			if k > 1 {
				outline = append(outline, circle(a, width/2))
			}
		}
		p.fill(outline, i, 1)
	}
}

// circle is a polygon with the orientation of the boxes of a stroke.
func circle(c point, r float64) []point {
	const corners = 24
	polygon := make([]point, corners)
	for k := range polygon {
		sin, cos := math.Sincos(2 * math.Pi * float64(k) / corners)
		polygon[k] = point{c.x + r*cos, c.y + r*sin}
	}
	return polygon
}

// dashes cuts a line into its dashes.
func dashes(points []point, dash []float64) [][]point {
	total := 0.
	for _, l := range dash {
		total += l
	}
	if total <= 0 || len(points) == 0 {
		return [][]point{points}
	}
	var pieces [][]point
	piece := []point{points[0]}
	k, left, drawn := 0, dash[0], true
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		length := math.Hypot(b.x-a.x, b.y-a.y)
		for at := 0.; at < length; {
			step := math.Min(left, length-at)
			at += step
			left -= step
			q := point{a.x + (b.x-a.x)*at/length, a.y + (b.y-a.y)*at/length}
			if drawn {
				piece = append(piece, q)
			}
			if left <= 1e-9 {
				if drawn {
					pieces = append(pieces, piece)
				}
				k = (k + 1) % len(dash)
				left, drawn, piece = dash[k], !drawn, []point{q}
			}
		}
	}
	if drawn && len(piece) > 1 {
		pieces = append(pieces, piece)
	}
	return pieces
}

// words draws text from the outlines of its letters.
func (p *painter) words(v words) {
	l := regular()
	if v.bold {
		l = bold()
	}
	line, width := l.set(printable(v.text))
	from := [...]float64{start: 0, middle: -width / 2, end: -width}[v.anchor]
	sin, cos := math.Sincos(v.angle * math.Pi / 180)
	for _, g := range line {
		at := func(q point) point {
			x, y := (from+g.x+q.x*g.scale)*v.size, (g.y+q.y*g.scale)*v.size
			return point{v.x + x*cos - y*sin, v.y + x*sin + y*cos}
		}
		p.fill(flatten(g.segments, at), v.ink, 1)
	}
}

// flatten turns outlines into polygons; a curve becomes a few lines, which is enough for letters.
func flatten(segments []segment, at func(point) point) (polygons [][]point) {
	const steps = 6
	var pen point
	var polygon []point
	for _, s := range segments {
		switch s.op {
		case sfnt.SegmentOpMoveTo:
			if polygon != nil {
				polygons = append(polygons, polygon)
			}
			pen = s.points[0]
			polygon = []point{at(pen)}
		case sfnt.SegmentOpLineTo:
			pen = s.points[0]
			polygon = append(polygon, at(pen))
		case sfnt.SegmentOpQuadTo:
			for k := 1; k <= steps; k++ {
				t := float64(k) / steps
				polygon = append(polygon, at(mix(mix(pen, s.points[0], t), mix(s.points[0], s.points[1], t), t)))
			}
			pen = s.points[1]
		case sfnt.SegmentOpCubeTo:
			for k := 1; k <= steps; k++ {
				t := float64(k) / steps
				a, b, c := mix(pen, s.points[0], t), mix(s.points[0], s.points[1], t), mix(s.points[1], s.points[2], t)
				polygon = append(polygon, at(mix(mix(a, b, t), mix(b, c, t), t)))
			}
			pen = s.points[2]
		}
	}
	if polygon != nil {
		polygons = append(polygons, polygon)
	}
	return polygons
}

func mix(a, b point, t float64) point { return point{a.x + t*(b.x-a.x), a.y + t*(b.y-a.y)} }
