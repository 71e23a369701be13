package main

import "fmt"

// A code x is a byte without a sign and a query's element q one with a sign. The instructions multiply bytes that both
// have one: Σ q·x = Σ q·(x−128) + 128·Σ q, and x−128 is x with its highest bit turned. Sums may leave 32 bits on the
// way; what is left in the end is right.

// sdot adds the products of four bytes each to the lanes of sum.
func (r *routine) sdot(sum, x, y vec) {
	r.encode(0x4e809400, "SDOT V%d.4S, V%d.16B, V%d.16B", sum, x, y)
}

// sdotLane does so with four bytes of y for all lanes.
func (r *routine) sdotLane(sum, x, y vec, lane int) {
	r.encode(0x4f80e000|element(lane), fmt.Sprintf("SDOT V%%d.4S, V%%d.16B, V%%d.4B[%d]", lane), sum, x, y)
}

// bytesDot is sdot for processors without it, by products of 16 bits.
func (r *routine) bytesDot(sum, x, y vec) {
	low, high := r.vec(), r.vec()
	r.encode(0x0e20c000, "SMULL V%d.8H, V%d.8B, V%d.8B", low, x, y)
	r.encode(0x4e20c000, "SMULL2 V%d.8H, V%d.16B, V%d.16B", high, x, y)
	for _, v := range []vec{low, high} {
		r.encode(0x4e606800, "SADALP V%d.4S, V%d.8H", sum, v)
	}
}

func (r *routine) fill(value int) vec {
	v := r.vec()
	r.on(fmt.Sprintf("VMOVI $%d, V%%d.B16", value), v)
	return v
}

// dotCodes: four rows at a time against both parts of a query.
func dotCodes(f *file, fast bool) {
	name := "dotCodesNEON"
	if fast {
		name = "dotCodesSDOT"
	}
	r := f.function(name, "high[k] = Σ q[d]·row[d], low[k] = Σ rest[d]·row[d]; stride is a multiple of 64, count of 4.",
		"high *int32", "low *int32", "q *int8", "rest *int8", "base *uint8", "stride int", "count int")
	dot := r.bytesDot
	if fast {
		dot = r.sdot
	}
	high, low, q, rest := r.load("high"), r.load("low"), r.load("q"), r.load("rest")
	base, stride, count := r.load("base"), r.load("stride"), r.load("count")
	left, parts, rows := r.gp(), r.gps(2), r.gps(4)
	sign, ones := r.fill(128), r.fill(1)
	begin := func() {
		r.do("MOVD %s, %s", q, parts[0])
		r.do("MOVD %s, %s", rest, parts[1])
		r.do("MOVD %s, %s", stride, left)
	}
	again := func(label string) {
		r.do("SUBS $16, %s", left)
		r.jump("BNE", label)
	}
	begin()
	zeros := r.group(2) // 128·Σ q in every lane, of both parts
	r.zero(zeros[0])
	r.zero(zeros[1])
	r.label("zeros")
	for i, zero := range zeros {
		dot(zero, r.floats(parts[i], 1)[0], ones)
	}
	again("zeros")
	for _, zero := range zeros {
		r.on("VADDP V%d.S4, V%d.S4, V%d.S4", zero, zero, zero)
		r.on("VADDP V%d.S4, V%d.S4, V%d.S4", zero, zero, zero)
		r.on("VSHL $7, V%d.S4, V%d.S4", zero, zero)
	}
	r.label("rows")
	r.jump("CBZ "+count+",", "done")
	r.offsets(rows, base, stride)
	r.do("ADD %s, %s, %s", stride, rows[3], base)
	begin()
	sums := [2][]vec{r.group(4), r.group(4)}
	for k := range rows {
		r.zero(sums[0][k])
		r.zero(sums[1][k])
	}
	r.label("elements")
	queries := [2]vec{r.floats(parts[0], 1)[0], r.floats(parts[1], 1)[0]}
	for k, row := range rows {
		codes := r.floats(row, 1)[0]
		r.on("VEOR V%d.B16, V%d.B16, V%d.B16", sign, codes, codes)
		dot(sums[0][k], codes, queries[0])
		dot(sums[1][k], codes, queries[1])
	}
	again("elements")
	for i, to := range []string{high, low} {
		s := sums[i]
		r.on("VADDP V%d.S4, V%d.S4, V%d.S4", s[1], s[0], s[0])
		r.on("VADDP V%d.S4, V%d.S4, V%d.S4", s[3], s[2], s[2])
		r.on("VADDP V%d.S4, V%d.S4, V%d.S4", s[2], s[0], s[0])
		r.on("VADD V%d.S4, V%d.S4, V%d.S4", zeros[i], s[0], s[0])
		r.write(to, s[:1])
	}
	r.do("SUB $4, %s", count)
	r.jump("B", "rows")
	r.label("done")
	r.do("RET")
}

// dotCodesAt: four rows here and there at a time against one part of a query. All lines of all rows are asked for
// before the first is needed.
func dotCodesAt(f *file, fast bool) {
	name := "dotCodesAtNEON"
	if fast {
		name = "dotCodesAtSDOT"
	}
	r := f.function(name, "sums[k] = Σ q[d]·row[d] of row rows[k]; stride is a multiple of 64, count of 4. ahead is "+
		"asked for: it is needed next.", "sums *int32", "q *int8", "base *uint8", "stride int", "rows *int32",
		"count int", "ahead *uint8")
	dot := r.bytesDot
	if fast {
		dot = r.sdot
	}
	sums, q, base, stride := r.load("sums"), r.load("q"), r.load("base"), r.load("stride")
	ids, count, at := r.load("rows"), r.load("count"), r.load("ahead")
	left, part, rows := r.gp(), r.gp(), r.gps(4)
	sign, ones := r.fill(128), r.fill(1)
	r.do("PRFM (%s), PLDL1KEEP", at)
	r.do("PRFM 64(%s), PLDL1KEEP", at)
	r.do("MOVD %s, %s", ids, part)
	r.do("MOVD %s, %s", count, left)
	r.label("asked")
	r.do("MOVW.P 4(%s), %s", part, at)
	r.do("MADD %s, %s, %s, %s", stride, base, at, at)
	r.do("ADD %s, %s, %s", stride, at, rows[0])
	r.label("lines")
	r.do("PRFM (%s), PLDL1KEEP", at)
	r.do("ADD $64, %s", at)
	r.do("CMP %s, %s", rows[0], at)
	r.jump("BLT", "lines")
	r.do("SUBS $1, %s", left)
	r.jump("BNE", "asked")
	begin := func() {
		r.do("MOVD %s, %s", q, part)
		r.do("MOVD %s, %s", stride, left)
	}
	again := func(label string) {
		r.do("SUBS $16, %s", left)
		r.jump("BNE", label)
	}
	begin()
	zero := r.group(1)[0] // 128·Σ q in every lane
	r.zero(zero)
	r.label("zeros")
	dot(zero, r.floats(part, 1)[0], ones)
	again("zeros")
	r.on("VADDP V%d.S4, V%d.S4, V%d.S4", zero, zero, zero)
	r.on("VADDP V%d.S4, V%d.S4, V%d.S4", zero, zero, zero)
	r.on("VSHL $7, V%d.S4, V%d.S4", zero, zero)
	r.label("rows")
	for _, row := range rows {
		r.do("MOVW.P 4(%s), %s", ids, at)
		r.do("MADD %s, %s, %s, %s", stride, base, at, row)
	}
	begin()
	totals := r.group(4)
	for k := range rows {
		r.zero(totals[k])
	}
	r.label("elements")
	query := r.floats(part, 1)[0]
	for k, row := range rows {
		codes := r.floats(row, 1)[0]
		r.on("VEOR V%d.B16, V%d.B16, V%d.B16", sign, codes, codes)
		dot(totals[k], codes, query)
	}
	again("elements")
	r.on("VADDP V%d.S4, V%d.S4, V%d.S4", totals[1], totals[0], totals[0])
	r.on("VADDP V%d.S4, V%d.S4, V%d.S4", totals[3], totals[2], totals[2])
	r.on("VADDP V%d.S4, V%d.S4, V%d.S4", totals[2], totals[0], totals[0])
	r.on("VADD V%d.S4, V%d.S4, V%d.S4", zero, totals[0], totals[0])
	r.write(sums, totals[:1])
	r.do("SUBS $4, %s", count)
	r.jump("BNE", "rows")
	r.do("RET")
}

// scaleCodes turns sums into scores. The product by 128 is exact, so that fusing it with the addition changes nothing.
func scaleCodes(f *file) {
	r := f.function("scaleCodesNEON", "dst[k] = scales[k]·step·(128·(high[k] − highZero) + (low[k] − lowZero)); count "+
		"is a multiple of 4.", "dst *float32", "high *int32", "low *int32", "scales *float32", "count int",
		"step float32", "highZero int32", "lowZero int32")
	dst, high, low, scales := r.load("dst"), r.load("high"), r.load("low"), r.load("scales")
	count := r.load("count")
	r.useConstants()
	steps := r.lanes(number(128))
	step, highZero, lowZero := r.broadcast("step"), r.broadcast("highZero"), r.broadcast("lowZero")
	r.label("loop")
	r.jump("CBZ "+count+",", "done")
	a, b, scale := r.floats(high, 1)[0], r.floats(low, 1), r.floats(scales, 1)[0]
	r.on("VSUB V%d.S4, V%d.S4, V%d.S4", highZero, a, a)
	r.on("VSUB V%d.S4, V%d.S4, V%d.S4", lowZero, b[0], b[0])
	r.toFloat(a, a)
	r.toFloat(b[0], b[0])
	r.fma(b[0], a, steps)
	r.mul(scale, scale, step)
	r.mul(b[0], b[0], scale)
	r.write(dst, b)
	r.do("SUB $4, %s", count)
	r.jump("B", "loop")
	r.label("done")
	r.do("RET")
}

// The tile of the block product of codes is as wide as kern's, and is computed in parts of two vectors for each row.
const (
	codeTileRows    = 8
	codeTileColumns = 48
)

// tileCodes: 8 rows against 48 queries. A vector of the panel has four bytes of each of four queries, and a lane of a
// row the same four elements.
func tileCodes(f *file) {
	r := f.function("tileCodesSDOT", "c = a·panel over a tile of 8×48; strides in bytes, fours a multiple of four, "+
		"each of four elements.", "c *int32", "cStride int", "a *uint8", "aStride int", "panel *int8", "fours int")
	c, cStride, a, aStride := r.load("c"), r.load("cStride"), r.load("a"), r.load("aStride")
	panel, fours := r.load("panel"), r.load("fours")
	rows, left, at, part := r.gps(codeTileRows), r.gp(), r.gp(), r.gp()
	sign, ones := r.fill(128), r.fill(1)
	r.do("MOVD $%d, %s", codeTileColumns/8, part)
	r.label("part")
	r.offsets(rows, a, aStride)
	r.do("MOVD %s, %s", panel, at)
	r.do("MOVD %s, %s", fours, left)
	sums := make([][]vec, codeTileRows+1) // the last is 128·Σ q
	for i := range sums {
		sums[i] = r.group(2)
		r.zero(sums[i][0])
		r.zero(sums[i][1])
	}
	zeros := sums[codeTileRows]
	r.label("fours")
	codes := make([]vec, codeTileRows)
	for i, row := range rows {
		codes[i] = r.floats(row, 1)[0]
		r.on("VEOR V%d.B16, V%d.B16, V%d.B16", sign, codes[i], codes[i])
	}
	for lane := range 4 {
		right := r.group(2)
		r.on("FLDPQ ("+at+"), (F%d, F%d)", right...)
		r.do("ADD $%d, %s", 4*codeTileColumns, at)
		for u, v := range right {
			r.sdot(zeros[u], v, ones)
			for i := range codes {
				r.sdotLane(sums[i][u], v, codes[i], lane)
			}
		}
	}
	r.do("SUBS $4, %s", left)
	r.jump("BNE", "fours")
	r.do("MOVD %s, %s", c, at)
	for _, zero := range zeros {
		r.on("VSHL $7, V%d.S4, V%d.S4", zero, zero)
	}
	for _, sum := range sums[:codeTileRows] {
		for u, v := range sum {
			r.on("VADD V%d.S4, V%d.S4, V%d.S4", zeros[u], v, v)
		}
		r.on("FSTPQ (F%d, F%d), ("+at+")", sum...)
		r.do("ADD %s, %s", cStride, at)
	}
	r.do("ADD $32, %s", c)
	r.do("ADD $32, %s", panel)
	r.do("SUBS $1, %s", part)
	r.jump("BNE", "part")
	r.do("RET")
}

// reachCodes: which queries a row may be among the best of, 16 at a time.
func reachCodes(f *file) {
	r := f.function("reachCodesNEON", "Bit j of the masks of row i: whether not scales[i]·step[j]·(sums[i][j] "+
		"− zero[j]) + rests[i]·reach[j] + norms[i]·rest[j] + slope[j]·values[i] + offsets[fields[i]][j] < "+
		"least[j]. queries is one array behind the other, each of as many elements as there are columns, a multiple "+
		"of 16: step, zero, reach, rest, slope, least.", "masks *uint16", "sums *int32", "columns int", "rows int",
		"scales *float32", "rests *float32", "norms *float32", "values *float32", "fields *uint16", "queries *float32",
		"offsets *float32")
	masks, sums, columns, rows := r.load("masks"), r.load("sums"), r.load("columns"), r.load("rows")
	var lists []string
	for _, name := range []string{"scales", "rests", "norms", "values"} {
		lists = append(lists, r.load(name))
	}
	fields, queries, offsets := r.load("fields"), r.load("queries"), r.load("offsets")
	terms, offset, left, mask := r.gps(6), r.gp(), r.gp(), r.gp()
	r.useConstants()
	bits := r.group(4)
	for i := range bits {
		bits[i] = r.lanes(constant{1 << (4 * i), 2 << (4 * i), 4 << (4 * i), 8 << (4 * i)})
	}
	r.label("row")
	r.jump("CBZ "+rows+",", "done")
	row := r.group(4)
	for i, list := range lists {
		r.on("VLD1R.P 4("+list+"), [V%d.S4]", row[i])
	}
	r.do("LSL $2, %s, R26", columns)
	r.offsets(terms, queries, "R26")
	r.do("MOVHU.P 2(%s), %s", fields, offset)
	r.do("MADD %s, %s, R26, %s", offset, offsets, offset)
	r.do("MOVD %s, %s", columns, left)
	r.label("column")
	found := r.vec()
	r.zero(found)
	for _, bit := range bits {
		var term []vec
		for _, from := range append(terms[:len(terms):len(terms)], sums, offset) {
			term = append(term, r.floats(from, 1)[0])
		}
		step, zero, reach, rest, slope, least, sum, plus := term[0], term[1], term[2], term[3], term[4], term[5],
			term[6], term[7]
		r.on("VSUB V%d.S4, V%d.S4, V%d.S4", zero, sum, sum)
		r.toFloat(sum, sum)
		r.mul(step, step, row[0])
		r.mul(sum, sum, step)
		r.mul(reach, reach, row[1])
		r.fma(reach, rest, row[2])
		r.fma(reach, slope, row[3])
		r.add(sum, sum, reach)
		r.add(sum, sum, plus)
		r.greater(least, least, sum)
		r.on("VAND V%d.B16, V%d.B16, V%d.B16", least, bit, least)
		r.on("VORR V%d.B16, V%d.B16, V%d.B16", least, found, found)
	}
	r.on("VADDV V%d.S4, V%d", found, found)
	r.on("FMOVS F%d, "+mask, found)
	r.do("MVNW %s, %s", mask, mask)
	r.do("MOVH.P %s, 2(%s)", mask, masks)
	r.do("SUBS $16, %s", left)
	r.jump("BNE", "column")
	r.do("SUB $1, %s", rows)
	r.jump("B", "row")
	r.label("done")
	r.do("RET")
}
