package kern

import (
	"fmt"
	"runtime"
	"unsafe"
)

// panelBytes bounds the packed side of a block product so that it stays in the second-level cache.
const panelBytes = 1 << 20

// MulT sets z = a·bᵀ: z[i][j] = Σ_d a[i][d]·b[j][d]. b, the smaller side, is packed; a is read
// where it is. Each element is one chain of fused additions in the order of d, so its bits do
// not depend on its neighbours. a and b may be float16; z is float32.
func MulT(z, a, b *Matrix) {
	if a.dim != b.dim || z.rows != a.rows || z.dim != b.rows || z.half || z.readOnly {
		panic(fmt.Sprintf("kern: MulT of %d×%d and %d×%d into %d×%d", a.rows, a.dim, b.rows, b.dim, z.rows, z.dim))
	}
	_, columns := tileShape()
	group := max(panelBytes/(4*max(a.dim, 1))/columns, 1) * columns
	panels := Borrow(min(group, roundUp(b.rows, columns)) * a.dim)
	defer GiveBack(panels)
	for j := 0; j < b.rows; j += group {
		count := min(group, b.rows-j)
		packRows(panels.Data, b, j, count)
		mulPanels(z, j, a, panels.Data, count)
	}
	runtime.KeepAlive(a)
	runtime.KeepAlive(b)
	runtime.KeepAlive(z)
}

// packRows lays count rows of b, from row j on, side by side in panels of the tile's width;
// missing rows of the last panel are zero.
func packRows(panels []float32, b *Matrix, j, count int) {
	_, columns := tileShape()
	direct := !b.half
	var rows *Scratch
	if b.half || count%columns != 0 {
		rows = Borrow(columns * b.dim)
		defer GiveBack(rows)
	}
	for at := 0; at < count; at += columns {
		panel := panels[at*b.dim:]
		if direct && count-at >= columns {
			transpose(panel, b.f32[(j+at)*b.stride:], b.stride, b.dim)
			continue
		}
		clear(rows.Data)
		for r := range min(columns, count-at) {
			b.Load(rows.Data[r*b.dim:], j+at+r)
		}
		transpose(panel, rows.Data, b.dim, b.dim)
	}
}

// mulPanels sets columns j…j+count of z to a·panelsᵀ.
func mulPanels(z *Matrix, j int, a *Matrix, panels []float32, count int) {
	rows, columns := tileShape()
	edge := Borrow(rows * (a.dim + columns))
	defer GiveBack(edge)
	padded, corner := edge.Data[:rows*a.dim], edge.Data[rows*a.dim:]
	for i := 0; i < a.rows; i += rows {
		height := min(rows, a.rows-i)
		var left []float32
		stride := a.stride
		if !a.half && height == rows {
			left = a.f32[i*a.stride:]
		} else {
			left, stride = padded, a.dim
			for r := range height {
				a.Load(padded[r*a.dim:], i+r)
			}
			clear(padded[height*a.dim:])
		}
		next := a.floatsFrom(i + rows)
		for at := 0; at < count; at += columns {
			// each tile asks for a part of the next rows, as long as they last
			ahead := next[min(at/columns*8*a.dim, len(next)):]
			if at/columns*8*a.dim >= rows*a.dim*elementSize(a.half)/4 {
				ahead = panels
			}
			width := min(columns, count-at)
			if height == rows && width == columns {
				tile(z.f32[i*z.stride+j+at:], z.stride, left, stride, panels[at*a.dim:], a.dim, ahead, false)
				continue
			}
			tile(corner, columns, left, stride, panels[at*a.dim:], a.dim, ahead, false)
			for r := range height {
				copy(z.f32[(i+r)*z.stride+j+at:][:width], corner[r*columns:])
			}
		}
	}
}

// floatsFrom is the memory from a row on, whatever is in it, to be prefetched and not read.
func (m *Matrix) floatsFrom(row int) []float32 {
	if !m.half {
		return m.f32[min(row*m.stride, len(m.f32)):]
	}
	rest := m.f16[min(row*m.stride, len(m.f16)):]
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(rest))), len(rest)/2)
}

// Mul sets v = c·h, or adds it to v: v[i][d] (+)= Σ_k c[i][k]·h[k][d]. h may be float16.
func Mul(v, c, h *Matrix, accumulate bool) { mul(v, c, h, accumulate, false) }

// AddLower adds C·H to the square V, of which only the lower triangle and what shares its tiles is
// computed: half the work where the product is symmetric.
func AddLower(v, c, h *Matrix) { mul(v, c, h, true, true) }

func mul(v, c, h *Matrix, accumulate, lower bool) {
	if c.dim != h.rows || v.rows != c.rows || v.dim != h.dim || v.half || v.readOnly || c.half {
		panic(fmt.Sprintf("kern: Mul of %d×%d and %d×%d into %d×%d", c.rows, c.dim, h.rows, h.dim, v.rows, v.dim))
	}
	if c.dim == 0 {
		if !accumulate {
			for i := range v.rows {
				clear(v.Row(i))
			}
		}
		return
	}
	rows, columns := tileShape()
	width := roundUp(h.dim, columns)
	depth := max(panelBytes/(4*max(width, 1)), 64) // rows of h packed at a time
	panels := Borrow(min(depth, h.rows) * width)
	edge := Borrow(rows*(min(depth, c.dim)+columns) + width)
	defer GiveBack(panels)
	defer GiveBack(edge)
	corner, line := edge.Data[:rows*columns], edge.Data[rows*columns:][:width]
	padded := edge.Data[rows*columns+width:]
	for k := 0; k < c.dim; k += depth {
		deep := min(depth, c.dim-k)
		for r := range deep {
			h.Load(line, k+r)
			for at := 0; at < width; at += columns {
				copy(panels.Data[at*deep+r*columns:][:columns], line[at:])
			}
		}
		for i := 0; i < c.rows; i += rows {
			height := min(rows, c.rows-i)
			left, stride := c.f32[i*c.stride+k:], c.stride
			if height < rows {
				for r := range height {
					copy(padded[r*deep:][:deep], left[r*stride:])
				}
				clear(padded[height*deep : rows*deep])
				left, stride = padded, deep
			}
			end := h.dim
			if lower {
				end = min(end, i+rows)
			}
			for at := 0; at < end; at += columns {
				wide := min(columns, h.dim-at)
				add := accumulate || k > 0
				if height == rows && wide == columns {
					tile(v.f32[i*v.stride+at:], v.stride, left, stride, panels.Data[at*deep:], deep, panels.Data, add)
					continue
				}
				if add {
					for r := range height {
						copy(corner[r*columns:][:wide], v.f32[(i+r)*v.stride+at:])
					}
				}
				tile(corner, columns, left, stride, panels.Data[at*deep:], deep, panels.Data, add)
				for r := range height {
					copy(v.f32[(i+r)*v.stride+at:][:wide], corner[r*columns:])
				}
			}
		}
	}
	runtime.KeepAlive(v)
	runtime.KeepAlive(c)
	runtime.KeepAlive(h)
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }
