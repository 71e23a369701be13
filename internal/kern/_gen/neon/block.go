package main

import "fmt"

// The register tile of the block product: 8 rows and 8 columns, so two vectors for each row.
const (
	tileRows    = 8
	tileColumns = 8
)

// offsets moves a list of pointers to consecutive rows.
func (r *routine) offsets(rows []string, base, stride string) {
	r.do("MOVD %s, %s", base, rows[0])
	for k := 1; k < len(rows); k++ {
		r.do("ADD %s, %s, %s", stride, rows[k-1], rows[k])
	}
}

// tile: c (+)= a·panel over a full register tile. Four steps of k are taken at a time: a vector of each row of a, and
// the panel's vectors times one lane of it after the other.
func tile(f *file) {
	r := f.function("tileNEON", "c (+)= a·panel over a full register tile; strides in bytes.", "c *float32",
		"cStride int", "a *float32", "aStride int", "panel *float32", "k int", "accumulate bool")
	c, cStride, a, aStride := r.load("c"), r.load("cStride"), r.load("a"), r.load("aStride")
	panel, k, accumulate := r.load("panel"), r.load("k"), r.load("accumulate")
	rows, out := r.gps(tileRows), r.gp()
	r.offsets(rows, a, aStride)
	sums := make([][]vec, tileRows)
	for i := range sums {
		sums[i] = r.group(2)
		r.zero(sums[i][0])
		r.zero(sums[i][1])
	}
	r.jump("CBZ "+accumulate+",", "begin")
	r.do("MOVD %s, %s", c, out)
	for _, sum := range sums {
		r.on("FLDPQ ("+out+"), (F%d, F%d)", sum...)
		r.do("ADD %s, %s", cStride, out)
	}
	r.label("begin")
	r.do("SUBS $4, %s", k)
	r.jump("BLT", "rest")
	r.label("four")
	left := r.group(tileRows)
	for i, v := range left {
		r.on("FMOVQ.P 16("+rows[i]+"), F%d", v)
	}
	for lane := range 4 {
		right := r.group(2)
		r.on("FLDPQ.P 32("+panel+"), (F%d, F%d)", right...)
		for i, v := range left {
			r.fmaLane(sums[i][0], right[0], v, lane)
			r.fmaLane(sums[i][1], right[1], v, lane)
		}
	}
	r.do("SUBS $4, %s", k)
	r.jump("BGE", "four")
	r.label("rest")
	r.do("ADDS $4, %s", k)
	r.jump("BEQ", "done")
	r.label("one")
	right := r.group(2)
	r.on("FLDPQ.P 32("+panel+"), (F%d, F%d)", right...)
	for i := range rows {
		v := r.vec()
		r.on("FMOVS.P 4("+rows[i]+"), F%d", v)
		r.fmaLane(sums[i][0], right[0], v, 0)
		r.fmaLane(sums[i][1], right[1], v, 0)
	}
	r.do("SUBS $1, %s", k)
	r.jump("BNE", "one")
	r.label("done")
	for _, sum := range sums {
		r.on("FSTPQ (F%d, F%d), ("+c+")", sum...)
		r.do("ADD %s, %s", cStride, c)
	}
	r.do("RET")
}

// turn replaces four vectors, the rows of a square, by its columns.
func (r *routine) turn(rows []vec) []vec {
	half, out := r.group(4), r.group(4)
	for i, how := range []string{"VTRN1", "VTRN2"} { // of rows 0 and 1, and of rows 2 and 3
		r.on(how+" V%d.S4, V%d.S4, V%d.S4", rows[1], rows[0], half[i])
		r.on(how+" V%d.S4, V%d.S4, V%d.S4", rows[3], rows[2], half[2+i])
	}
	for i, how := range []string{"VTRN1", "VTRN2"} {
		r.on(how+" V%d.D2, V%d.D2, V%d.D2", half[2], half[0], out[2*i])
		r.on(how+" V%d.D2, V%d.D2, V%d.D2", half[3], half[1], out[2*i+1])
	}
	return out
}

// transpose lays the tile's rows side by side.
func transpose(f *file) {
	r := f.function("transposeNEON", "dst[8i+r] = src row r[i] for 8 rows; stride in bytes.", "dst *float32",
		"src *float32", "stride int", "k int")
	dst, src, stride, k := r.load("dst"), r.load("src"), r.load("stride"), r.load("k")
	rows := r.gps(tileColumns)
	r.offsets(rows, src, stride)
	r.do("SUBS $4, %s", k)
	r.jump("BLT", "rest")
	r.label("four")
	lines := r.group(tileColumns)
	for i, v := range lines {
		r.on("FMOVQ.P 16("+rows[i]+"), F%d", v)
	}
	first, second := r.turn(lines[:4]), r.turn(lines[4:])
	for i := range first {
		r.on("FSTPQ.P (F%d, F%d), 32("+dst+")", first[i], second[i])
	}
	r.do("SUBS $4, %s", k)
	r.jump("BGE", "four")
	r.label("rest")
	r.do("ADDS $4, %s", k)
	r.jump("BEQ", "done")
	r.label("one")
	for _, row := range rows {
		v := r.vec()
		r.on("FMOVS.P 4("+row+"), F%d", v)
		r.on("FMOVS.P F%d, 4("+dst+")", v)
	}
	r.do("SUBS $1, %s", k)
	r.jump("BNE", "one")
	r.label("done")
	r.do("RET")
}

// gram: a square of 8×8 of the sum of outer products.
func gram(f *file) {
	r := f.function("gramNEON", "h[a][b] += Σ c[k]·left row k[a]·right row k[b] for a block of 8×8; strides in bytes.",
		"h *float32", "hStride int", "left *float32", "right *float32", "stride int", "idx *int32", "c *float32",
		"count int")
	h, hStride, left, right := r.load("h"), r.load("hStride"), r.load("left"), r.load("right")
	stride, idx, c, count := r.load("stride"), r.load("idx"), r.load("c"), r.load("count")
	out, row := r.gp(), r.gp()
	r.do("MOVD %s, %s", h, out)
	sums := make([][]vec, 8)
	for i := range sums {
		sums[i] = r.group(2)
		r.on("FLDPQ ("+out+"), (F%d, F%d)", sums[i]...)
		r.do("ADD %s, %s", hStride, out)
	}
	r.label("loop")
	r.jump("CBZ "+count+",", "done")
	factor, x, y := r.vec(), r.group(2), r.group(2)
	r.on("VLD1R.P 4("+c+"), [V%d.S4]", factor)
	r.do("MOVW.P 4(%s), R26", idx)
	r.do("MUL %s, R26", stride)
	r.do("ADD R26, %s, %s", left, row)
	r.on("FLDPQ ("+row+"), (F%d, F%d)", x...)
	r.do("ADD R26, %s, %s", right, row)
	r.on("FLDPQ ("+row+"), (F%d, F%d)", y...)
	for _, v := range x {
		r.mul(v, v, factor)
	}
	for i, sum := range sums {
		r.fmaLane(sum[0], y[0], x[i/4], i%4)
		r.fmaLane(sum[1], y[1], x[i/4], i%4)
	}
	r.do("SUB $1, %s", count)
	r.jump("B", "loop")
	r.label("done")
	for _, sum := range sums {
		r.on("FSTPQ (F%d, F%d), ("+h+")", sum...)
		r.do("ADD %s, %s", hStride, h)
	}
	r.do("RET")
}

// above looks for a score above a threshold, 16 at a time and then 4.
func above(f *file) {
	r := f.function("aboveNEON", "the first block of 16, or of 4 at the end, in which some z > threshold, as an "+
		"element position; count, a multiple of 4, if none.", "z *float32", "count int", "threshold float32")
	result := r.result()
	z, count := r.load("z"), r.load("count")
	threshold := r.broadcast("threshold")
	left := r.gp()
	r.do("MOVD %s, %s", count, left)
	for _, n := range []int{4, 1} {
		here := fmt.Sprintf("by%d", 4*n)
		r.label(here)
		r.compare(left, fmt.Sprintf("$%d", 4*n))
		r.jump("BLT", here+"_end")
		found := r.floats(z, n)
		for _, v := range found {
			r.greater(v, v, threshold)
		}
		for _, v := range found[1:] {
			r.on("VORR V%d.B16, V%d.B16, V%d.B16", v, found[0], found[0])
		}
		r.any("R26", found[0])
		r.jump("CBNZW R26,", "found")
		r.do("SUB $%d, %s", 4*n, left)
		r.jump("B", here)
		r.label(here + "_end")
	}
	r.label("found")
	r.do("SUB %s, %s", left, count)
	r.do("MOVD %s, %s", count, result)
	r.do("RET")
}

// columnsAbove looks for a row that has a score above its column's threshold.
func columnsAbove(f *file) {
	r := f.function("columnsAboveNEON", "the first row ≥ from with some z[row][c] > thresholds[c]; rows if none. "+
		"columns is a multiple of 8, stride in bytes.", "z *float32", "stride int", "from int", "rows int",
		"thresholds *float32", "columns int")
	result := r.result()
	z, stride, row, rows := r.load("z"), r.load("stride"), r.load("from"), r.load("rows")
	thresholds, columns := r.load("thresholds"), r.load("columns")
	at, with, left := r.gp(), r.gp(), r.gp()
	r.do("MADD %s, %s, %s, %s", stride, z, row, z)
	r.label("row")
	r.compare(row, rows)
	r.jump("BGE", "done")
	r.do("MOVD %s, %s", z, at)
	r.do("MOVD %s, %s", thresholds, with)
	r.do("MOVD %s, %s", columns, left)
	found := r.vec()
	r.zero(found)
	r.label("column")
	r.jump("CBZ "+left+",", "decide")
	scores, limits := r.group(2), r.group(2)
	r.on("FLDPQ.P 32("+at+"), (F%d, F%d)", scores...)
	r.on("FLDPQ.P 32("+with+"), (F%d, F%d)", limits...)
	for i, v := range scores {
		r.greater(v, v, limits[i])
		r.on("VORR V%d.B16, V%d.B16, V%d.B16", v, found, found)
	}
	r.do("SUB $8, %s", left)
	r.jump("B", "column")
	r.label("decide")
	r.any("R26", found)
	r.jump("CBNZW R26,", "done")
	r.do("ADD $1, %s", row)
	r.do("ADD %s, %s", stride, z)
	r.jump("B", "row")
	r.label("done")
	r.do("MOVD %s, %s", row, result)
	r.do("RET")
}
